"""What tests of delayed warnings issue them with, and look at them with."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

from asyncgrad.engine import warn

__all__ = ["Loud", "line", "shown", "warning"]


class Loud(UserWarning):
    """A category of the test's own."""


def line() -> int:
    """The line that calls this."""
    return sys._getframe(1).f_lineno


def warning(*messages: str, category: type[Warning] = UserWarning) -> Callable[[Any], None]:
    def body(grad):
        for message in messages:
            warn(message, category)

    return body


def shown(caught: list[warnings.WarningMessage]) -> list[tuple[str, type[Warning]]]:
    return [(str(each.message), each.category) for each in caught]
