"""Where a backward starts and ends: GraphRoot hands out the roots' gradients, AccumulateGrad keeps a leaf's."""

from __future__ import annotations

import weakref
from sys import getrefcount
from typing import TYPE_CHECKING, Any, final

from ..arguments import describe
from ..errors import ArgumentTypeError, GraphError, RequiresGradError
from .creation import announce
from .grad_journal import Change, FirstGrads, GradChange, change_grad, may_take
from .lowering import BodySource
from .node import LEAF_ORDER, Edge, GradientEdge, Node, NodeMeta
from .tensor_base import TensorBase

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "AccumulateGrad",
    "GraphRoot",
    "Identity",
    "accumulate_all",
    "accumulator",
    "get_gradient_edge",
    "gradient_edge",
]


#: What `getrefcount(value)` says in a function that was handed the only reference there is.
_SOLE = (lambda value: getrefcount(value))(object())


@final
class AccumulateGrad(Node):
    """Adds the gradient that arrives to the `.grad` of a leaf.

    The first gradient is taken over where nobody else holds it and it is laid out like the leaf, and cloned
    otherwise. A later one gives `.grad`, the same Tensor, a new array: an array handed out before never changes.
    Under `create_graph` the sum is a new Tensor with a history.

    Source: AccumulateGrad of PyTorch.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor([1.0], requires_grad=True)
        >>> (x * 2).grad_fn.next_edges[0].node.variable is x
        True
    """

    __slots__ = ("variable",)

    def __init__(self, variable: TensorBase) -> None:
        self.variable = variable
        self.next_nodes = ()
        self.input_nrs = ()
        self.order = LEAF_ORDER
        self._note_thread()
        self.shape = variable._data.shape
        self.dtype = variable._data.dtype
        self.device = variable._device
        self.meta: NodeMeta | None = None
        meta = variable._autograd_meta()
        if meta.hooks is not None or meta.post_accumulate_hooks is not None:
            self.meta = NodeMeta()
        if self.device is not None and self.device.is_asynchronous:
            # At the end of a backward the caller waits for the streams of leaves, the default one included.
            self.make_meta().stream = self.device.current_stream()

    def apply(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Accumulate; there is nothing further to hand on."""
        changes: list[Change] = []
        try:
            self.accumulate(grads[0], changes)
        finally:
            for change in changes:
                # No backward can fail any more and take it back.
                change.commit()
        return ()

    def accumulate(self, grad: Any, changes: list[Change], listed: bool = True) -> GradChange | None:
        """Add `grad` to the leaf's `.grad`; return what takes that back if the backward fails later.

        Args:
            grad: array of the leaf's shape and dtype, or a Tensor under `create_graph`, or None (does nothing).
                The array is taken over if the caller holds the only reference to it.
            changes: those of the backward, this one to be among them.
            listed: whether other backward passes may run before this one has ended.

        Raises:
            GraphError: the tensor is no leaf any more.
        """
        variable = self.variable
        if grad is None:
            return None
        if variable._grad_fn is not None:
            raise GraphError(
                f"a gradient has reached the {self.name} of a tensor of shape {self.shape} that is no leaf any more: "
                f"{variable._grad_fn.name} has become its grad_fn since it was used. Use it after that, or use a copy"
            )
        meta = variable._meta
        if meta is None or not meta.requires_grad:
            return None
        # A sum is in the byte order of this machine, whatever that of the leaf is.
        sole = getrefcount(grad) <= _SOLE and grad.dtype is self.dtype and may_take(grad, variable._data)
        return change_grad(variable, grad, changes, sole=sole, listed=listed)


def accumulate_all(leaves: Sequence[Any], grads: list[Any], changes: list[Change], listed: bool) -> None:
    """Let each AccumulateGrad take its gradient, as `accumulate` does, with less ado where it is the leaf's first.

    Args:
        leaves: the AccumulateGrads.
        grads: their gradients, the last one's first; emptied.
        changes: those of the backward.
        listed: whether other backward passes may run before this one has ended.
    """
    first: FirstGrads | None = None
    for leaf in leaves:
        variable = leaf.variable
        meta = variable._meta
        if listed or meta.grad is not None or not meta.requires_grad or variable._grad_fn is not None:
            leaf.accumulate(grads.pop(), changes, listed)
            continue
        grad = grads.pop()
        if grad is None or isinstance(grad, TensorBase):
            leaf.accumulate(grad, changes, listed)
            continue
        if first is None:
            # Here first, so that an error or an interrupt on the way finds it.
            first = FirstGrads()
            changes.append(first)
        # Ahead of the call, which holds the array too.
        sole = getrefcount(grad) <= _SOLE and grad.dtype is leaf.dtype and may_take(grad, variable._data)
        if not first.give(variable, grad, sole):
            leaf.accumulate(grad, changes, listed)


@final
class GraphRoot(Node):
    """Hands the roots' gradients to the roots' nodes: what a backward of several roots starts from."""

    __slots__ = ("_grads",)

    def __init__(self, edges: Sequence[Edge], grads: Sequence[Any]) -> None:
        self._connect(edges)
        self._grads = tuple(grads)
        self.shape = None
        self.dtype = None
        self.device = None
        self.meta = NodeMeta()

    def apply(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the roots' gradients."""
        return self._grads

    def body_source(self, wanted: Sequence[bool] | None, defined: Sequence[bool]) -> BodySource:
        """Return what fetches the roots' gradients."""
        return BodySource("$node._grads")


@final
class Identity(Node):
    """Stands in for an input that no graph reaches, so that a null edge is never mistaken for it."""

    __slots__ = ()

    def __init__(self) -> None:
        self._connect(())
        self.shape = None
        self.dtype = None
        self.device = None
        self.meta = NodeMeta()

    def apply(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return nothing: there is nowhere to go."""
        return ()


def accumulator(leaf: TensorBase, meta: Any) -> AccumulateGrad:
    """Return the one AccumulateGrad of a leaf that requires grad, made now if no graph holds it."""
    reference = meta.accumulator
    if reference is not None:
        node: AccumulateGrad | None = reference()
        if node is not None:
            return node
    node = AccumulateGrad(leaf)
    meta.accumulator = weakref.ref(node)
    announce(node)
    return node


def gradient_edge(tensor: TensorBase) -> Edge | None:
    """Return the edge that the gradient of `tensor` flows along; None where it does not require grad."""
    node = tensor._grad_fn if tensor._view is None else tensor._history()
    if node is not None:
        return Edge(node, tensor._output_nr)
    meta = tensor._meta
    if meta is None or not meta.requires_grad:
        return None
    return Edge(accumulator(tensor, meta), 0)


def get_gradient_edge(tensor: TensorBase) -> GradientEdge:
    """Return where the gradient of `tensor` flows: usable as a root or an input of a backward in its place.

    Raises:
        RequiresGradError: the tensor does not require grad.
        ArgumentTypeError: it is no tensor.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor([1.0], requires_grad=True)
        >>> ag.graph.get_gradient_edge(x).node.name
        'AccumulateGrad'
    """
    if not isinstance(tensor, TensorBase):
        raise ArgumentTypeError(f"only a tensor has a gradient edge, not {describe(tensor)}: write ag.asarray(...)")
    edge = gradient_edge(tensor)
    if edge is None or edge.node is None:
        raise RequiresGradError(
            f"a tensor of shape {tensor._data.shape} that does not require grad has no gradient edge: "
            "make it with requires_grad=True"
        )
    return GradientEdge(edge.node, edge.input_nr)
