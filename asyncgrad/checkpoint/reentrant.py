"""The reentrant kind: the forward records one node, in whose backward a whole backward of its own is awaited."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from ..context import BLOCKING, is_grad_enabled
from ..engine.completion import warn
from ..engine.engine import Engine
from ..errors import CheckpointError, GraphError
from ..graph.leaf import gradient_edge
from ..graph.node import Edge, next_order
from .call import Call
from .driving import Steps, blocked, driven, driven_later
from .nested import Nested, detached
from .node import applied
from .relay import Relay
from .structure import taken_apart

__all__ = ["ReentrantCall", "call_reentrant"]


def call_reentrant(call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what the function returns, recorded as one node; an awaitable of it where the function is async."""
    tensors, call.tensors = call.tensors, []
    if not any(tensor._requires_grad() for tensor in tensors):
        warn(
            f"no argument of {call.name} requires grad, so that nothing in it gets a gradient: let one require grad, "
            "or write ag.checkpoint(..., use_reentrant=False), which also finds what the function refers to"
        )
    steps = applied(ReentrantCall(call, args, kwargs), tensors)
    return driven_later(steps) if call.is_async else driven(steps)


@final
class ReentrantCall:
    """A call that is one node.

    Args:
        call: the call.
        args: the positional arguments, for the forward alone.
        kwargs: the keyword arguments, likewise.
    """

    __slots__ = ("_arguments", "_call", "is_async", "name")

    #: See Work.
    instead = "write ag.checkpoint(..., use_reentrant=False)"

    def __init__(self, call: Call, args: Any = (), kwargs: Any = None) -> None:
        self._call = call
        self._arguments: Any = (args, kwargs or {})
        self.name = call.name
        self.is_async = call.is_async

    def forward(self, tensors: Sequence[Any]) -> Steps:
        """Call the function."""
        arguments, self._arguments = self._arguments, None
        return (yield self._call.first(*arguments))

    def backward(self, tensors: Sequence[Any], grads: Sequence[Any]) -> Steps:
        """Call the function again, recorded, and run backward through that."""
        create_graph = is_grad_enabled()
        if create_graph:
            inputs = Relay.before(tensors)
        else:
            inputs = detached(tensors, [tensor._requires_grad() for tensor in tensors])
        begin = next_order()
        outputs: list[Any] = []
        taken_apart((yield self._call.again(inputs)), outputs)
        edges, starts = self._roots(outputs, grads)
        del outputs
        if not create_graph:
            return (yield from Nested(edges, starts, begin, inputs, tensors).run())
        nested = Engine.execute(edges, starts, keep_graph=True, create_graph=True, accumulate=True)
        yield blocked(nested) if BLOCKING.get() else nested
        return Relay.taken(inputs)

    def _roots(self, outputs: list[Any], grads: Sequence[Any]) -> tuple[list[Edge], list[Any]]:
        """Return where the nested backward starts: the outputs that have a gradient and a history."""
        if len(outputs) != len(grads):
            raise CheckpointError(
                f"{self.name} returned {len(grads)} tensors in the forward, and {len(outputs)} when it was called "
                "again: a checkpointed function must do the same each time"
            )
        edges: list[Edge] = []
        starts: list[Any] = []
        for index, (output, grad) in enumerate(zip(outputs, grads, strict=True)):
            edge = None if grad is None else gradient_edge(output)
            if edge is None:
                continue
            if output._data.shape != grad._data.shape:
                raise CheckpointError(
                    f"tensor {index} that {self.name} returned has shape {grad._data.shape}, and "
                    f"{output._data.shape} when it was called again: a checkpointed function must do the same each time"
                )
            edges.append(edge)
            starts.append(grad)
        if not edges:
            raise GraphError(
                f"nothing that {self.name} returned and that got a gradient requires grad when it is called again: it "
                "may detach its results, or compute them under ag.no_grad(); then call it without ag.checkpoint"
            )
        return edges, starts
