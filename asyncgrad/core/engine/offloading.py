"""Calls of functions on the workers: of any function, and of a forward, whose operations are recorded there."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from ...errors import OverlappingStepsError
from ..arrays.tensor_base import TensorBase
from ..graph.saved import version_of
from ..settings.arguments import check_function
from ..settings.awaiting import finish
from ..settings.context import BLOCKING
from ..settings.loop_turn import keep_pace
from ..settings.scheduling import WORKERS
from ..tree.structure import leaves
from .body import context_of_worker
from .loops import running_loop
from .remote import FunctionJob, Mailbox, join
from .workers import WORKER_POOL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["call_on_worker", "compute_on_worker", "forward"]

P = ParamSpec("P")
T = TypeVar("T")


async def call_on_worker(function: Callable[[], T]) -> T:
    """Return the result of a function that a worker calls, in a copy of this context.

    Suspends until it has ended, also if it is cancelled. Without workers, and where nothing may suspend, it is called
    here.
    """
    quota = WORKERS.get()
    if not quota.limit or BLOCKING.get():
        return function()
    job = FunctionJob(function, (0, 0), context_of_worker(), Mailbox(running_loop()))
    try:
        result: T = await join(job, functools.partial(WORKER_POOL.submit, job, quota))
        return result
    finally:
        # The traceback of an error refers to this frame: leave no cycle.
        del job


@overload
async def forward(fn: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...


@overload
async def forward(fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...


async def forward(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Return `fn(*args, **kwargs)`, computed by a worker, so that the event loop goes on meanwhile.

    Operations are recorded as they are here, and `backward` runs the same. The call gets a copy of this context. What
    an async `fn` awaits is awaited on this loop. A call that is cancelled has no result; it goes on only once the
    worker has ended, so nothing is touched after that.

    Args:
        fn: a function, or a model.
        *args: its arguments; also models.
        **kwargs: its keyword arguments.

    Returns:
        What `fn` returns.

    Raises:
        ArgumentTypeError: `fn` cannot be called.
        OverlappingStepsError: a parameter of `fn`, or of a model among the arguments, was changed before the call had
            ended, so that the result would be of no version of it.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> from asyncgrad import nn
        >>> async def main():
        ...     model = nn.Linear(3, 1)
        ...     loss = (await ag.forward(model, np.ones(3))).sum()
        ...     await loss.backward()
        ...     return model.weight.grad.tolist()
        >>> ag.run(main())
        [[1.0, 1.0, 1.0]]
    """
    check_function(fn, "ag.forward", *args)
    await keep_pace()
    return await compute_on_worker(fn, *args, **kwargs)


async def compute_on_worker(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Do what `forward` does, for who suspends often enough: without workers, it suspends only where `fn` does."""
    models = (getattr(fn, "__self__", fn), *args, *kwargs.values())
    before = [(leaf, version_of(leaf)) for model in models for leaf in leaves(model) if _is_parameter(leaf)]
    made: list[Any] = []
    try:
        await call_on_worker(lambda: made.append(fn(*args, **kwargs)))
    except BaseException:
        # Cancelled while the worker made a coroutine, which nobody awaits any more.
        for result in filter(inspect.iscoroutine, made):
            result.close()
        raise
    result = await finish(made.pop())
    for parameter, version in before:
        if version_of(parameter) != version:
            raise OverlappingStepsError(
                f"a parameter of shape {parameter._data.shape} was changed while ag.forward(...) computed with it, so "
                "the result would be of no version of the model: write await ag.forward(model.snapshot(), ...)"
            )
    return result


def _is_parameter(leaf: Any) -> bool:
    return isinstance(leaf, TensorBase) and leaf._meta is not None and leaf._meta.requires_grad
