"""Statements that write in place, as functions."""

from __future__ import annotations

from typing import Any

__all__ = ["iadd", "set_item"]


def iadd(t: Any) -> None:
    t += 1


def set_item(t: Any) -> None:
    t[0] = 5.0
