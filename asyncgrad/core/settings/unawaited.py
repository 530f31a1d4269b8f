"""A coroutine in place of its result: the error says where an `await` is missing. Asked for only after a refusal."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ...errors import ArgumentTypeError

__all__ = ["await_advice", "called_for", "refuse_unawaited"]


def refuse_unawaited(function: str, arguments: Iterable[Any], error: Exception | None = None) -> None:
    """Raise if an argument of a function is an awaitable, or a sequence or an array that holds one.

    Raises:
        ArgumentTypeError: names the first awaitable and what to write; it comes from `error`.
    """
    found = next(_awaitables(arguments, False), None)
    if found is not None:
        awaitable, within = found
        several = ", or await asyncio.gather(*...) of several" if within else ""
        raise ArgumentTypeError(
            f"{function} got {_named(awaitable)} in place of its result: {await_advice(awaitable)}{several}"
        ) from error


def await_advice(value: Any) -> str:
    """Return what to write for an awaitable that stands in place of its result; "" for anything else."""
    if not _is_awaitable(value):
        return ""
    name = called_for(value)
    return "write await before it" if name is None else f"write await {name}(...)"


def called_for(awaitable: Any) -> str | None:
    """Return the name of what was called for an awaitable; None where that is not known."""
    name: str | None = getattr(awaitable, "__qualname__", None)
    if name is None:
        return None
    if name.endswith(".__call__"):
        # An object with the name of a function, as those of `ag.batched` have.
        frame = getattr(awaitable, "cr_frame", None)
        called = None if frame is None else frame.f_locals.get("self")
        name = getattr(called, "__qualname__", name)
    return name.rpartition(">.")[2]


def _named(awaitable: Any) -> str:
    name, kind = called_for(awaitable), type(awaitable).__name__
    return f"a {kind}" if name is None else f"the {kind} {name}(...)"


def _is_awaitable(value: Any) -> bool:
    return not isinstance(value, (np.ndarray, np.generic, type)) and inspect.isawaitable(value)


def _awaitables(arguments: Iterable[Any], within: bool) -> Iterator[tuple[Any, bool]]:
    """Yield the awaitables among arguments, and whether each is an element of one of them."""
    for argument in arguments:
        if isinstance(argument, (list, tuple)):
            yield from _awaitables(argument, True)
        elif isinstance(argument, np.ndarray):
            if argument.dtype.kind == "O":
                yield from _awaitables(argument.ravel().tolist(), argument.ndim > 0)
        elif _is_awaitable(argument):
            yield argument, within
