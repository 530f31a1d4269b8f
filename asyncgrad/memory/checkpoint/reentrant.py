"""Reentrant checkpoints: a computation is recorded as one node, whose backward runs a backward of its own.

The node's forward runs with recording off. Its backward computes the forward again, recorded, and runs a nested
backward through that. `ag.checkpoint` makes such a node of one call, `ag.checkpoint_chain` of a chain of steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, final

from ...core.engine.completion import warn
from ...core.engine.engine import Engine
from ...core.function.function import Function
from ...core.graph.leaf import gradient_edge
from ...core.graph.metadata import metadata_of
from ...core.graph.node import Edge, Node, next_order
from ...core.graph.saved import ConstantVersions, captured_by, output_alias, version_of
from ...core.settings.context import BLOCKING, CURRENT_GRAPH_TASK, is_grad_enabled
from ...errors import CheckpointError, GraphError
from .call import CheckpointedCall, check_result
from .models import ModelVersions
from .nested import NestedBackward, detach_as_leaves
from .pytree import flatten, unflatten
from .steps import Steps, run_nested, run_steps, run_steps_async

__all__ = ["ReentrantCall", "ReentrantComputation", "apply_reentrant", "call_reentrant"]


def call_reentrant(call: CheckpointedCall, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of a call, recorded as one node; an awaitable of it where the function is async."""
    tensors, call.tensors = call.tensors, []
    if not any(tensor._requires_grad() for tensor in tensors):
        warn(
            f"no argument of {call.name} requires grad, so nothing in it gets a gradient: let one require grad, or "
            "write ag.checkpoint(..., use_reentrant=False), which also finds the tensors that the function refers to"
        )
    steps = apply_reentrant(ReentrantCall(call, args, kwargs), tensors)
    return run_steps_async(steps) if call.is_async else run_steps(steps)


# --- the node ----------------------------------------------------------------------------------------


class ReentrantComputation(Protocol):
    """A computation that one node stands for."""

    #: Its name in error messages.
    name: str
    #: Whether it is known to await something.
    is_async: bool
    #: What is called again in a backward.
    functions: tuple[Any, ...]
    #: What a user whose backward is limited to some inputs is told to write instead.
    instead: str
    #: Of the modules that the functions refer to, before the forward.
    models: ModelVersions

    def forward(self, tensors: Sequence[Any]) -> Steps:
        """Compute the result, a tree of tensors and other things; recording is off."""

    def backward(self, tensors: Sequence[Any], grads: Sequence[Any]) -> Steps:
        """Return the gradients of `tensors`, given those of the tensors in the result, None where there is none."""


def apply_reentrant(computation: ReentrantComputation, tensors: Sequence[Any]) -> Steps:
    """Return the result of a computation on tensors, recorded as one node."""
    template = _ResultTemplate()
    flat = yield (AsyncCheckpoint if computation.is_async else Checkpoint).apply(computation, template, *tensors)
    return unflatten(template.value, flat)


@final
class _ResultTemplate:
    """Brings the template of the result out of the forward, since a Function returns a flat tuple of tensors."""

    __slots__ = ("value",)

    value: Any


@final
class Checkpoint(Function):
    """The node of a computation of plain functions."""

    # The engine runs its backward; a hook or a rule in there has what the engine guards by itself.
    _is_users = False

    @staticmethod
    def forward(ctx: Any, computation: ReentrantComputation, template: Any, *tensors: Any) -> Any:
        """Compute the result."""
        return run_steps(_run_forward(ctx, computation, template, tensors))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Compute it again, and run backward through it."""
        _check_can_checkpoint(ctx.computation)
        return run_steps(_run_backward(ctx, ctx.saved_tensors, grads))


@final
class AsyncCheckpoint(Function):
    """The node of a computation with async functions in it."""

    _is_users = False

    @staticmethod
    async def forward(ctx: Any, computation: ReentrantComputation, template: Any, *tensors: Any) -> Any:
        """Compute the result."""
        return await run_steps_async(_run_forward(ctx, computation, template, tensors))

    @staticmethod
    async def backward(ctx: Any, *grads: Any) -> Any:
        """Compute it again, and run backward through it."""
        _check_can_checkpoint(ctx.computation)
        return await run_steps_async(_run_backward(ctx, await ctx.load_saved(), grads))


def _run_forward(
    ctx: Any, computation: ReentrantComputation, template: _ResultTemplate, tensors: tuple[Any, ...]
) -> Steps:
    ctx.computation = computation
    ctx.set_materialize_grads(False)
    # Function would warn where no argument requires grad; `call_reentrant` has its own warning.
    ctx.set_records(False)
    versions = list(map(version_of, tensors))
    captured = ConstantVersions([one for function in computation.functions for one in captured_by(function)])
    result = yield from computation.forward(tensors)
    captured.end_forward()
    ctx.captured = captured
    check_result(computation.name, result, versions, tensors)
    flat: list[Any] = []
    template.value = flatten(result, flat)
    ctx.save_for_backward(*tensors)
    return tuple(flat)


def _run_backward(ctx: Any, saved: Sequence[Any], grads: tuple[Any, ...]) -> Steps:
    if all(grad is None for grad in grads):
        return (None, None, *(None for _ in saved))
    ctx.captured.check(ctx._node())
    found = yield from ctx.computation.backward(saved, grads)
    # While an async function waits, others may write.
    if not ctx.computation.is_async:
        ctx.captured.leave_out_written()
    return (None, None, *found)


def _check_can_checkpoint(computation: ReentrantComputation) -> None:
    task = CURRENT_GRAPH_TASK.get()
    if task is not None and task.is_running and not task.can_checkpoint():
        raise GraphError(
            f"{computation.name} is checkpointed, and recomputing it takes a backward that runs to all the leaves it "
            "finds; but this backward is limited to some inputs (by ag.grad, or by inputs=), or runs inside of one "
            f"that is: {computation.instead}, or call backward() without inputs"
        )


# --- one call ----------------------------------------------------------------------------------------


@final
class ReentrantCall:
    """A ReentrantComputation: one call of a checkpointed function.

    Args:
        call: the call.
        args: the positional arguments; the forward alone needs them.
        kwargs: the keyword arguments, likewise.
        models: the versions of the modules that the function refers to; by default as they are now, before the forward.
    """

    __slots__ = ("_arguments", "_call", "functions", "is_async", "models", "name")

    instead = "write ag.checkpoint(..., use_reentrant=False)"

    def __init__(
        self, call: CheckpointedCall, args: Any = (), kwargs: Any = None, models: ModelVersions | None = None
    ) -> None:
        self._call = call
        self._arguments: Any = (args, kwargs or {})
        self.name: str = call.name
        self.is_async: bool = call.is_async
        self.functions = (call.function,)
        self.models: ModelVersions = ModelVersions(self.functions) if models is None else models

    def forward(self, tensors: Sequence[Any]) -> Steps:
        """Call the function."""
        arguments, self._arguments = self._arguments, None
        result = yield self._call.forward(*arguments)
        self.models.end_forward()
        return result

    def backward(self, tensors: Sequence[Any], grads: Sequence[Any]) -> Steps:
        """Call the function again, recorded, and run backward through that."""
        create_graph = is_grad_enabled()
        if create_graph:
            inputs = Relay.insert_before(tensors)
        else:
            inputs = detach_as_leaves(tensors, [tensor._requires_grad() for tensor in tensors])
        begin = next_order()
        outputs: list[Any] = []
        flatten((yield self._call.recompute(inputs)), outputs)
        edges, root_grads = self._roots(outputs, grads)
        self.models.check(edges)
        del outputs
        if not create_graph:
            return (yield from NestedBackward(edges, root_grads, begin, inputs, tensors).run())
        nested = Engine.execute(edges, root_grads, keep_graph=True, create_graph=True, accumulate=True)
        yield run_nested(nested) if BLOCKING.get() else nested
        return Relay.open_all(inputs)

    def _roots(self, outputs: list[Any], grads: Sequence[Any]) -> tuple[list[Edge], list[Any]]:
        """Return the edges and gradients that the nested backward starts with.

        These belong to the outputs that have a history and got a gradient.

        Raises:
            CheckpointError: the outputs are not those of the forward.
            GraphError: there is no such output.
        """
        if len(outputs) != len(grads):
            raise CheckpointError(
                f"{self.name} returned {len(grads)} tensors in the forward, and {len(outputs)} when it was called "
                "again: a checkpointed function must do the same each time"
            )
        edges: list[Edge] = []
        root_grads: list[Any] = []
        for index, (output, grad) in enumerate(zip(outputs, grads, strict=True)):
            edge = None if grad is None else gradient_edge(output)
            if edge is None:
                continue
            if output._value_metadata is None and output._data.shape != grad._data.shape:
                raise CheckpointError(
                    f"tensor {index} that {self.name} returned has shape {grad._data.shape}, and "
                    f"{output._data.shape} when it was called again: a checkpointed function must do the same each time"
                )
            edges.append(edge)
            root_grads.append(grad)
        if not edges:
            raise GraphError(
                f"nothing that {self.name} returned and that got a gradient requires grad when it is called again: it "
                "may detach its results, or compute them under ag.no_grad(); then call it without ag.checkpoint"
            )
        return edges, root_grads


@final
class Relay(Node):
    """Stands between an input of a recomputation that is itself to be differentiated and the history of that input.

    In the backward that recomputes, it keeps the gradient and passes nothing on: from there the gradient flows on from
    the node of the checkpointed call. Then it is opened, and in later backward passes, which run through what the first
    one has recorded, it passes gradients on unchanged.

    Args:
        edge: where the gradient of the input flows.
        tensor: the input.
    """

    __slots__ = ("_beyond", "_grad", "_is_open")

    def __init__(self, edge: Edge, tensor: Any) -> None:
        super().__init__([edge], [metadata_of(tensor)])
        self._beyond, self.next_nodes = self.next_nodes, (None,)
        self._grad: Any = None
        self._is_open = False

    def apply(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Keep the gradient, or pass it on."""
        if self._is_open:
            return grads
        self._grad = grads[0]
        return (None,)

    def open(self) -> Any:
        """Pass gradients on from now on; return the one that was kept."""
        self.next_nodes, self._is_open = self._beyond, True
        grad, self._grad = self._grad, None
        return grad

    @staticmethod
    def insert_before(tensors: Sequence[Any]) -> list[Any]:
        """Return aliases of tensors, each with a Relay as its grad_fn if it requires grad."""
        aliases = []
        for tensor in tensors:
            edge = gradient_edge(tensor)
            aliases.append(output_alias(tensor) if edge is None else output_alias(tensor, Relay(edge, tensor)))
        return aliases

    @staticmethod
    def open_all(aliases: Sequence[Any]) -> tuple[Any, ...]:
        """Open the Relays that `insert_before` made; return the gradients they kept, None where there is none."""
        return tuple([None if alias._grad_fn is None else alias._grad_fn.open() for alias in aliases])
