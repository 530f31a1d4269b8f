"""What weak references still refer to."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

__all__ = ["alive"]


def alive(references: Iterable[weakref.ref[Any]]) -> list[Any]:
    """What is still there of what the references were made to."""
    return [found for reference in references if (found := reference()) is not None]
