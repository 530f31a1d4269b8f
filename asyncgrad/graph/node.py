"""Node and Edge: the backward functions of a graph and how gradients flow between them.

A node is slim, since a graph holds one for each operation: its edges are two tuples, what only a few
nodes have (hooks, metadata, stacks) hangs on `special`, which is None on all others. A node is linked to
others through slots only, never through closures or frames, so that dropping a deep graph does not recurse.
"""

from __future__ import annotations

import inspect
import itertools
from typing import TYPE_CHECKING, Any, NamedTuple, final

from ..context import CURRENT_GRAPH_TASK
from .metadata import InputMetadata

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .hooks import HookList

__all__ = ["LEAF_ORDER", "Edge", "GradientEdge", "Node", "Special", "next_order"]

#: Sequence numbers count up over the whole process; `order` is their negative, so that a heap of orders
#: pops the newest node first.
next_order = itertools.count(0, -1).__next__

#: Order of AccumulateGrad: ahead of every node.
LEAF_ORDER = -(2**64 - 1)


class Edge(NamedTuple):
    """Where a gradient flows: to input `input_nr` of `node`; a None node drops it.

    Example:
        >>> from asyncgrad.graph import Edge
        >>> Edge(None, 0).node is None
        True
    """

    node: Node | None
    input_nr: int


class GradientEdge(NamedTuple):
    """A tensor's place in the graph, without its array: usable as a root or an input of a backward.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor([1.0], requires_grad=True)
        >>> ag.graph.get_gradient_edge(x * 2).output_nr
        0
    """

    node: Node
    output_nr: int


@final
class Special:
    """What few nodes have. A node with a Special takes the engine's careful path."""

    __slots__ = (
        "input_metadata",
        "metadata",
        "post_hooks",
        "pre_hooks",
        "retains_grad_hooks",
        "tensor_pre_hooks",
    )

    def __init__(self, input_metadata: tuple[InputMetadata | None, ...] | None = None) -> None:
        #: Of a node with several inputs, or one made by `Node.__init__`; None where the node's own slots say it.
        self.input_metadata = input_metadata
        self.metadata: dict[Any, Any] | None = None
        #: Tensor hooks by input, as (input_nr, hooks of that tensor), in order of first registration.
        self.tensor_pre_hooks: list[tuple[int, HookList]] = []
        #: The tensors (weakly) that keep the gradient of an input, by input.
        self.retains_grad_hooks: dict[int, Any] = {}
        self.pre_hooks: HookList | None = None
        self.post_hooks: HookList | None = None


class Node:
    """Abstract: one backward function. It turns the gradients of a forward's outputs into those of its inputs.

    A subclass implements `apply`, as a function or an `async def`.

    Args:
        edges: for each forward input, the edge that its gradient flows along (None drops it).
        input_metadata: for each forward output, what its gradient must look like (None accepts anything).

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> from asyncgrad.graph import Edge, GradientEdge, Node
        >>> class Negate(Node):
        ...     async def apply(self, grads):
        ...         return (-grads[0],)
        >>> async def main():
        ...     x = ag.tensor([1.0, 2.0], requires_grad=True)
        ...     leaf = ag.graph.get_gradient_edge(x)
        ...     node = Negate([Edge(*leaf)], [leaf.node.input_metadata[0]])
        ...     await ag.backward(GradientEdge(node, 0), np.ones(2))
        ...     return x.grad.tolist()
        >>> ag.run(main())
        [-1.0, -1.0]
    """

    __slots__ = (
        "__weakref__",
        "device",
        "dtype",
        "input_nrs",
        "next_nodes",
        "order",
        "shape",
        "special",
        "topological_nr",
    )

    #: Whether `apply` is an `async def`.
    is_async = False

    #: For each edge, the node it leads to (None drops the gradient) and which of its inputs.
    next_nodes: tuple[Node | None, ...]
    input_nrs: tuple[int, ...]
    #: Negative sequence number.
    order: int
    topological_nr: int
    #: Of the single forward output. A node with any other number of outputs has None and `input_metadata`,
    #: and a Special.
    shape: tuple[int, ...] | None
    dtype: Any
    device: Any
    #: None on a *plain* node: one with a single input, whose body is `node.plan.run(node, grad)`, a synchronous
    #: function that no user wrote. The engine calls that directly; every other node runs as a NodeTask.
    special: Special | None

    def __init__(
        self, edges: Sequence[Edge | None] = (), input_metadata: Sequence[InputMetadata | None] = (None,)
    ) -> None:
        self._connect(edges)
        self.shape = None
        self.dtype = None
        self.device = next((metadata.device for metadata in input_metadata if metadata is not None), None)
        self.special = Special(tuple(input_metadata))

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "apply" in cls.__dict__ and "is_async" not in cls.__dict__:
            cls.is_async = inspect.iscoroutinefunction(cls.apply)

    def _connect(self, edges: Sequence[Edge | None]) -> None:
        """Set the edges and the numbers that follow from them."""
        self.next_nodes = tuple(None if edge is None else edge.node for edge in edges)
        self.input_nrs = tuple(0 if edge is None else edge.input_nr for edge in edges)
        self.order = next_order()
        self.topological_nr = 1 + max((node.topological_nr for node in self.next_nodes if node is not None), default=-1)

    def apply(self, grads: tuple[Any, ...]) -> Any:
        """Return the gradients of the forward inputs, one for each edge, or an awaitable of them.

        Args:
            grads: the gradient of each forward output; None where it is undefined. The arrays may be shared:
                do not write into them.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement apply(grads)")

    @property
    def name(self) -> str:
        """The name that errors and drawings show."""
        return type(self).__name__

    @property
    def next_edges(self) -> tuple[Edge, ...]:
        """For each forward input, where its gradient flows."""
        return tuple(map(Edge, self.next_nodes, self.input_nrs))

    @property
    def num_inputs(self) -> int:
        """How many gradients the node takes: the number of forward outputs."""
        return len(self.input_metadata)

    @property
    def num_outputs(self) -> int:
        """How many gradients the node returns: the number of forward inputs."""
        return len(self.next_nodes)

    @property
    def input_metadata(self) -> tuple[InputMetadata | None, ...]:
        """For each forward output, what its gradient must look like."""
        special = self.special
        if special is not None and special.input_metadata is not None:
            return special.input_metadata
        return (None if self.shape is None else InputMetadata(self.shape, self.dtype, self.device),)

    @property
    def sequence_nr(self) -> int:
        """When the node was made, counted over the whole process: newer nodes run first."""
        return -self.order

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dictionary for users to note things in."""
        special = self.make_special()
        if special.metadata is None:
            special.metadata = {}
        return special.metadata

    def make_special(self) -> Special:
        """Return what few nodes have, made now if this node had none."""
        if self.special is None:
            self.special = Special()
        return self.special

    def should_compute_output(self, index: int) -> bool:
        """Tell whether the gradient of forward input `index` flows anywhere."""
        return self.next_nodes[index] is not None

    def task_should_compute_output(self, index: int) -> bool:
        """Tell whether the backward that runs now has a use for the gradient of forward input `index`.

        Outside of a backward, whether the gradient flows anywhere.
        """
        target = self.next_nodes[index]
        graph_task = CURRENT_GRAPH_TASK.get()
        if target is None or graph_task is None or graph_task.exec_info is None:
            return target is not None
        info = graph_task.exec_info.get(target)
        return bool(info is not None and info.should_execute)

    def release_variables(self) -> None:
        """Let go of what was saved for the backward."""

    def will_release_variables(self) -> None:
        """Called before a body that runs for the last time."""

    def __repr__(self) -> str:
        return f"<{self.name}>"
