"""Relay: where the backward of a recomputation ends for now, and goes on once it is itself differentiated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from ..graph.leaf import gradient_edge
from ..graph.metadata import InputMetadata
from ..graph.node import Edge, Node
from ..graph.saved import output_alias

__all__ = ["Relay"]


@final
class Relay(Node):
    """Stands between a recomputation that is recorded for good and what its input was computed from.

    In the backward that recomputes it keeps the gradient and lets none pass: the gradient goes on from the
    checkpointed call's own node. In any later backward, through what that one recorded, it hands on what it gets.

    Args:
        edge: where the gradient of the input flows.
        tensor: the input.
    """

    __slots__ = ("_beyond", "_is_open", "_taken")

    def __init__(self, edge: Edge, tensor: Any) -> None:
        super().__init__([edge], [InputMetadata(tensor._data.shape, tensor._data.dtype, tensor._device)])
        self._beyond, self.next_nodes = self.next_nodes, (None,)
        self._taken: Any = None
        self._is_open = False

    def apply(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Keep the gradient, or hand it on."""
        if self._is_open:
            return grads
        self._taken = grads[0]
        return (None,)

    def open(self) -> Any:
        """Hand on gradients from now on; return the one that was kept."""
        self.next_nodes, self._is_open = self._beyond, True
        taken, self._taken = self._taken, None
        return taken

    @staticmethod
    def before(tensors: Sequence[Any]) -> list[Any]:
        """Return tensors with a Relay as their grad_fn, or without any where they do not require grad."""
        behind = []
        for tensor in tensors:
            edge = gradient_edge(tensor)
            behind.append(output_alias(tensor) if edge is None else output_alias(tensor, Relay(edge, tensor)))
        return behind

    @staticmethod
    def taken(tensors: Sequence[Any]) -> tuple[Any, ...]:
        """Return what has been kept for each of the tensors that `before` gave, and open their Relays."""
        return tuple([None if tensor._grad_fn is None else tensor._grad_fn.open() for tensor in tensors])
