"""Errors that a test raises on purpose, and the bodies and hooks that raise them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

__all__ = ["Peculiar", "Trouble", "raise_trouble", "raising", "raising_later"]


class Trouble(Exception):
    """What a body, a hook or a callback of a test raises."""


class Peculiar(BaseException):
    """Of no family that asyncio knows."""


def raise_trouble(name: str) -> None:
    raise Trouble(name)


def raising(error: BaseException) -> Callable[..., Any]:
    """A body, or a hook of any sort, that raises at once."""

    def body(*arguments: Any) -> None:
        raise error

    return body


def raising_later(error: BaseException, turns: int = 0) -> Callable[..., Any]:
    """An async body, or hook, that raises after so many turns of the loop."""

    async def body(*arguments: Any) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        raise error

    return body
