"""SelfPlannedNode: plain nodes that are written by hand, since no primitive takes their number of arrays."""

from __future__ import annotations

from typing import Any, Self

from ..graph.node import TraceableNode

__all__ = ["SelfPlannedNode"]


class SelfPlannedNode(TraceableNode):
    """Abstract: a plain node that needs no plan of a primitive, since it saves nothing but shapes."""

    __slots__ = ()

    @property
    def plan(self) -> Self:
        """What the engine runs a plain node by: the node itself."""
        return self

    @staticmethod
    def run(node: SelfPlannedNode, grad: Any) -> tuple[Any, ...]:
        """Return what `apply_carefully` does; the engine calls this of `plan`."""
        return node.apply_carefully(grad)

    def apply_carefully(self, grad: Any) -> tuple[Any, ...]:
        """Return the gradient of each array, from that of the result, or the list of those of several results."""
        raise NotImplementedError(f"{type(self).__name__} must implement apply_carefully(grad)")
