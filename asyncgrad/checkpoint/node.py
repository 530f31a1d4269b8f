"""One node for a whole computation: its forward is not recorded, and its backward runs backward passes of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, final

from ..arguments import describe
from ..context import CURRENT_GRAPH_TASK
from ..errors import GraphError, InPlaceError
from ..function import Function
from ..graph.saved import version_of
from .driving import Steps, driven, driven_later
from .structure import filled, refuse_generators, taken_apart

__all__ = ["Work", "applied", "check_result"]


class Work(Protocol):
    """What such a node does."""

    #: What errors call it.
    name: str
    #: Whether it is known to have something to wait for.
    is_async: bool
    #: What a backward that is limited to some inputs is told to do instead.
    instead: str

    def forward(self, tensors: Sequence[Any]) -> Steps:
        """Compute the result, a structure of tensors and other things; recording is off."""

    def backward(self, tensors: Sequence[Any], grads: Sequence[Any]) -> Steps:
        """Return the gradients of the tensors, given those of the tensors of the result, None where there is none."""


def applied(work: Work, tensors: Sequence[Any]) -> Steps:
    """Return the result of a work on tensors, which it is a node for."""
    output = _Output()
    flat = yield (AsyncCheckpoint if work.is_async else Checkpoint).apply(work, output, *tensors)
    return filled(output.template, flat)


@final
class _Output:
    """Where the forward leaves how the tensors of the result belong together."""

    __slots__ = ("template",)

    template: Any


def _run_forward(ctx: Any, work: Work, output: _Output, tensors: tuple[Any, ...]) -> Steps:
    ctx.work = work
    ctx.set_materialize_grads(False)
    # Whoever records a node warns by itself where no argument requires grad.
    ctx.set_records(False)
    versions = list(map(version_of, tensors))
    result = yield from work.forward(tensors)
    check_result(work.name, result, versions, tensors)
    found: list[Any] = []
    output.template = taken_apart(result, found)
    ctx.save_for_backward(*tensors)
    return tuple(found)


def _run_backward(ctx: Any, saved: Sequence[Any], grads: tuple[Any, ...]) -> Steps:
    if all(grad is None for grad in grads):
        return (None, None, *(None for _ in saved))
    return (None, None, *(yield from ctx.work.backward(saved, grads)))


def _check_can_checkpoint(work: Work) -> None:
    task = CURRENT_GRAPH_TASK.get()
    if task is not None and task.is_running and not task.can_checkpoint():
        raise GraphError(
            f"{work.name} is checkpointed, and to recompute it a backward has to run to all leaves that it finds; but "
            f"this backward is limited to some inputs (by ag.grad, or by inputs=), or runs inside of one that is: "
            f"{work.instead}, or call backward() without inputs"
        )


def check_result(name: str, result: Any, versions: Sequence[int], tensors: Sequence[Any]) -> None:
    """Raise where a function has done what a second call cannot repeat.

    Args:
        name: of the function.
        result: what it returned.
        versions: those of its arguments before.
        tensors: its arguments.

    Raises:
        InPlaceError: it wrote into an argument.
        ArgumentTypeError: it has not even begun.
    """
    refuse_generators(result, name)
    for before, tensor in zip(versions, tensors, strict=True):
        if version_of(tensor) != before:
            raise InPlaceError(
                f"{name} is checkpointed and wrote into its argument, {describe(tensor)}, in place: called again in "
                "the backward it would find what it has made of it. Let it write into a copy, t = t.copy()"
            )


@final
class Checkpoint(Function):
    """A work of plain functions."""

    @staticmethod
    def forward(ctx: Any, work: Work, output: Any, *tensors: Any) -> Any:
        """Do the work; recording is off."""
        return driven(_run_forward(ctx, work, output, tensors))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Do it again, and run backward through it."""
        _check_can_checkpoint(ctx.work)
        return driven(_run_backward(ctx, ctx.saved_tensors, grads))


@final
class AsyncCheckpoint(Function):
    """A work of functions of which some are async."""

    @staticmethod
    async def forward(ctx: Any, work: Work, output: Any, *tensors: Any) -> Any:
        """Do the work; recording is off."""
        return await driven_later(_run_forward(ctx, work, output, tensors))

    @staticmethod
    async def backward(ctx: Any, *grads: Any) -> Any:
        """Do it again, and run backward through it."""
        _check_can_checkpoint(ctx.work)
        return await driven_later(_run_backward(ctx, await ctx.load_saved(), grads))
