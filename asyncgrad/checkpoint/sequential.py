"""`ag.checkpoint_sequential`: functions one after the other, in segments that are checkpointed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..arguments import describe
from ..errors import ArgumentError, ArgumentTypeError
from .call import is_async
from .checkpoint import checkpoint
from .driving import Steps, driven, driven_later

__all__ = ["checked_functions", "checkpoint_sequential", "composed"]


def checkpoint_sequential(
    functions: Iterable[Callable[[Any], Any]],
    segments: int,
    x: Any,
    *,
    use_reentrant: bool = True,
    preserve_rng: bool = True,
    **options: Any,
) -> Any:
    """Return `functions[-1](...functions[0](x))`, in equal segments of which all but the last keep their input alone.

    The last segment takes what is left over by the division, and is not checkpointed, since its backward comes first.
    What one function returns is the one argument of the next. An awaitable where any function is an `async def`.

    Args:
        functions: a sequence of functions of one argument, each plain or async.
        segments: how many, from 1 up to the number of functions.
        x: the argument of the first: a tensor, or a structure of tensors.
        use_reentrant: which kind of checkpoint; see `ag.checkpoint`.
        preserve_rng: replay random streams; see there.
        **options: of `ag.checkpoint`.

    Raises:
        ArgumentError: `segments` is out of range, or there are no functions.

    Source: torch.utils.checkpoint.checkpoint_sequential.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> x = ag.tensor([0.1, 0.2], requires_grad=True)
        >>> y = ag.checkpoint_sequential([np.sin, np.exp, np.tanh, np.sin], 2, x)
        >>> ag.sync.backward(y.sum())
        >>> plain = ag.tensor([0.1, 0.2], requires_grad=True)
        >>> ag.sync.backward(np.sin(np.tanh(np.exp(np.sin(plain)))).sum())
        >>> bool((x.grad.numpy() == plain.grad.numpy()).all())
        True
    """
    chain = checked_functions(functions, "checkpoint_sequential")
    if type(segments) is not int:
        raise ArgumentTypeError(f"segments is an int, not {describe(segments)}")
    if not 1 <= segments <= len(chain):
        raise ArgumentError(f"segments is from 1 up to the number of functions, {len(chain)}, not {segments}")
    steps = _segments(chain, segments, x, dict(use_reentrant=use_reentrant, preserve_rng=preserve_rng, **options))
    return driven_later(steps) if any(map(is_async, chain)) else driven(steps)


def _segments(chain: Sequence[Callable[[Any], Any]], segments: int, x: Any, options: dict[str, Any]) -> Steps:
    size = len(chain) // segments
    end = size * (segments - 1)
    for start in range(0, end, size):
        segment = chain[start : start + size]
        run = _run_async if any(map(is_async, segment)) else _run
        x = yield checkpoint(functools.partial(run, segment), x, **options)
    for function in chain[end:]:
        x = yield function(x)
    return x


def _run(segment: Sequence[Callable[[Any], Any]], x: Any) -> Any:
    return driven(composed(segment, x))


async def _run_async(segment: Sequence[Callable[[Any], Any]], x: Any) -> Any:
    return await driven_later(composed(segment, x))


def composed(segment: Sequence[Callable[[Any], Any]], x: Any) -> Steps:
    """Return what functions give, each called on what the one before returned."""
    for function in segment:
        x = yield function(x)
    return x


def checked_functions(functions: Any, name: str) -> tuple[Callable[[Any], Any], ...]:
    """Return a sequence of functions as a tuple.

    Raises:
        ArgumentTypeError: it is none, or one of them cannot be called.
        ArgumentError: there are none.
    """
    if isinstance(functions, (str, bytes)) or not isinstance(functions, Iterable):
        raise ArgumentTypeError(f"ag.{name} takes a sequence of functions, not {describe(functions)}")
    chain = tuple(functions)
    for index, function in enumerate(chain):
        if not callable(function):
            raise ArgumentTypeError(f"function {index} of ag.{name} cannot be called: it is {describe(function)}")
    if not chain:
        raise ArgumentError(f"ag.{name} was given no functions")
    return chain
