"""What `context_fn` puts around a checkpointed function: one context manager in the forward, another one later."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..arguments import describe
from ..errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from .call import Call
    from .driving import Steps

__all__ = ["contexts", "surrounded"]


def contexts(call: Call) -> tuple[Any, Any]:
    """Return the two context managers of a call, None and None where it has none.

    Raises:
        ArgumentTypeError: `context_fn` returned something else.
    """
    context_fn = call.options.context_fn
    if context_fn is None:
        return None, None
    pair = context_fn()
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise ArgumentTypeError(
            f"context_fn returns two context managers, for the forward and for the recomputation, not {describe(pair)}"
        )
    for manager, when in zip(pair, ("forward", "recomputation"), strict=True):
        if not _is_plain(manager) and not (call.is_async and _is_async(manager)):
            only = " of a plain function" if _is_async(manager) else ""
            raise ArgumentTypeError(
                f"what context_fn returns for the {when}{only} must be a context manager, not {describe(manager)}: "
                "write a class with __enter__ and __exit__, or use contextlib.contextmanager"
            )
    return pair[0], pair[1]


def surrounded(manager: Any, awaits: bool, function: Callable[..., Any], *args: Any) -> Steps:
    """Return what `function(*args)` gives, called and awaited within a context manager, if there is one.

    Args:
        manager: the context manager, or None.
        awaits: whether it may be an async one.
        function: called with `args`.
        *args: its arguments.

    Raises:
        ArgumentError: the manager kept an error of the function to itself.
    """
    if manager is None:
        return (yield function(*args))
    if awaits and _is_async(manager):
        yield manager.__aenter__()
        try:
            result = yield function(*args)
        except BaseException as error:
            if not (yield manager.__aexit__(type(error), error, error.__traceback__)):
                raise
            raise _suppressed() from error
        yield manager.__aexit__(None, None, None)
        return result
    with manager:
        return (yield function(*args))
    raise _suppressed()


def _suppressed() -> ArgumentError:
    return ArgumentError(
        "a context manager of context_fn suppressed what the checkpointed function raised, and so there is nothing to "
        "return: let it pass errors on"
    )


def _is_plain(manager: Any) -> bool:
    return hasattr(type(manager), "__enter__") and hasattr(type(manager), "__exit__")


def _is_async(manager: Any) -> bool:
    return hasattr(type(manager), "__aenter__") and hasattr(type(manager), "__aexit__")
