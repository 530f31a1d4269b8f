"""Where a backward starts and ends: GraphRoot hands out the roots' gradients, AccumulateGrad keeps a leaf's."""

from __future__ import annotations

import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple, final

from ..errors import RequiresGradError
from . import values
from .node import LEAF_ORDER, Edge, GradientEdge, Node, Special
from .saved import version_of
from .tracked import Tracked

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

__all__ = ["AccumulateGrad", "GradBefore", "GraphRoot", "Identity", "accumulator", "get_gradient_edge", "gradient_edge"]


def _count_references(value: object) -> int:
    return sys.getrefcount(value)


#: What `_count_references(value)` says in a function that was handed the only reference there is.
_SOLE = (lambda value: _count_references(value))(object())


class GradBefore(NamedTuple):
    """A tensor's gradient before a backward touched it, to be put back if that backward fails."""

    tensor: Tracked
    grad: Any
    data: Any
    version: int

    @classmethod
    def of(cls, tensor: Tracked) -> GradBefore:
        """Note what `tensor` has now."""
        grad = tensor._autograd_meta().grad
        if grad is None:
            return cls(tensor, None, None, 0)
        return cls(tensor, grad, grad._data, version_of(grad))

    def put_back(self) -> None:
        """Give the tensor the gradient that it had, the very same object and array."""
        meta = self.tensor._autograd_meta()
        meta.grad = self.grad
        if self.grad is not None:
            self.grad._data = self.data
            if self.grad._counter is not None:
                self.grad._counter.value = self.version


def _may_take(grad: Any, variable: np.ndarray) -> bool:
    """Tell whether an array that nobody else refers to may become a leaf's gradient as it stands."""
    if not hasattr(grad, "flags") or not hasattr(grad, "strides"):
        return False
    flags = grad.flags
    dense = grad.strides == variable.strides if variable.flags.forc else flags.c_contiguous
    return bool(dense and flags.owndata and flags.writeable)


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

    __slots__ = ("_lock", "variable")

    def __init__(self, variable: Tracked) -> None:
        self.variable = variable
        self.next_nodes = ()
        self.input_nrs = ()
        self.order = LEAF_ORDER
        self.topological_nr = 0
        self.shape = variable._data.shape
        self.dtype = variable._data.dtype
        self.device = variable._device
        self.special: Special | None = None
        # Guards the read-add-write of `.grad` between event loops in several threads.
        self._lock = threading.Lock()
        meta = variable._autograd_meta()
        if meta.hooks is not None or meta.post_accumulate_hooks is not None:
            self.special = Special()

    def apply(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Accumulate; there is nothing further to hand on."""
        self.accumulate(grads[0])
        return ()

    def accumulate(self, grad: Any) -> GradBefore | None:
        """Add `grad` to the leaf's `.grad`; return what to put back if the backward fails later.

        Args:
            grad: array of the leaf's shape and dtype, or a Tensor under `create_graph`, or None (does nothing).
                The array is taken over if the caller holds the only reference to it.
        """
        variable = self.variable
        meta = variable._autograd_meta()
        if grad is None or not meta.requires_grad:
            return None
        make = type(variable)
        with self._lock:
            old = meta.grad
            before = GradBefore.of(variable)
            if old is None:
                if isinstance(grad, Tracked):
                    recorded = grad._requires_grad()
                    meta.grad = values.add(grad, 0) if recorded else make(grad._data.copy(), None, 0, variable._device)
                elif _count_references(grad) <= _SOLE and _may_take(grad, variable._data):
                    meta.grad = make(grad, None, 0, variable._device)
                else:
                    meta.grad = make(values.clone_like(grad, variable._data), None, 0, variable._device)
                return before
            if isinstance(grad, Tracked):
                meta.grad = values.add(old, grad)
            elif old._grad_fn is not None:
                # The sum has no history, so it cannot be the same tensor: its grad_fn would be a wrong one.
                meta.grad = make(values.add(old._data, grad), None, 0, variable._device)
            else:
                sole = _count_references(grad) <= _SOLE and _may_take(grad, variable._data)
                total = values.add_into(grad, old._data) if sole else values.add(old._data, grad)
                if not hasattr(total, "flags") or total.shape == ():
                    total = values.clone_like(total, variable._data)
                old._data = total
                old._bump_version()
            return before


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
        self.special = None

    def apply(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the roots' gradients."""
        return self._grads


@final
class Identity(Node):
    """Stands in for an input that no graph reaches, so that a null edge is never mistaken for it."""

    __slots__ = ()

    def __init__(self) -> None:
        self._connect(())
        self.shape = None
        self.dtype = None
        self.device = None
        self.special = None

    def apply(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return nothing: there is nowhere to go."""
        return ()


def accumulator(leaf: Tracked, meta: Any) -> AccumulateGrad:
    """Return the one AccumulateGrad of a leaf that requires grad, made now if no graph holds it."""
    reference = meta.accumulator
    if reference is not None:
        node: AccumulateGrad | None = reference()
        if node is not None:
            return node
    node = AccumulateGrad(leaf)
    meta.accumulator = weakref.ref(node)
    return node


def gradient_edge(tensor: Tracked) -> Edge | None:
    """Return the edge that the gradient of `tensor` flows along; None where it does not require grad."""
    if tensor._grad_fn is not None:
        return Edge(tensor._grad_fn, tensor._output_nr)
    meta = tensor._meta
    if meta is None or not meta.requires_grad:
        return None
    return Edge(accumulator(tensor, meta), 0)


def get_gradient_edge(tensor: Tracked) -> GradientEdge:
    """Return where the gradient of `tensor` flows: usable as a root or an input of a backward in its place.

    Raises:
        RequiresGradError: the tensor does not require grad.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor([1.0], requires_grad=True)
        >>> ag.graph.get_gradient_edge(x).node.name
        'AccumulateGrad'
    """
    edge = gradient_edge(tensor)
    if edge is None or edge.node is None:
        raise RequiresGradError(
            f"a tensor of shape {tensor._data.shape} that does not require grad has no gradient edge: "
            "make it with requires_grad=True"
        )
    return GradientEdge(edge.node, edge.input_nr)
