"""The nodes at both ends of a backward: GraphRoot passes the roots' gradients on, AccumulateGrad fills `.grad`."""

from __future__ import annotations

import functools
import weakref
from sys import getrefcount
from threading import get_ident
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ...errors import ArgumentTypeError, GraphError, RequiresGradError
from ..arrays.tensor_base import TensorBase
from ..settings.arguments import describe
from ..settings.context import CURRENT_STREAMS
from .creation import announce
from .grad_journal import FLAGS_OF_NEW, Change, FirstGrads, GradChange, change_grad, may_take
from .lowering import BodySource
from .naming import outline
from .node import LEAF_ORDER, MAIN_THREAD, Edge, GradientEdge, Node, NodeMeta

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "AccumulateGrad",
    "AccumulateValue",
    "GraphRoot",
    "Identity",
    "Leaf",
    "accumulate_all",
    "accumulator",
    "check_has_edge",
    "get_gradient_edge",
    "gradient_edge",
    "gradient_places",
    "make_edge",
]


#: The result of `getrefcount(value)` in a function whose argument `value` is the only reference to the object.
_SOLE = (lambda value: getrefcount(value))(object())


class Leaf(Node):
    """Abstract: the node of a leaf, `variable`, at which a gradient ends."""

    __slots__ = ("variable",)

    is_users = False

    variable: TensorBase

    def apply(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Accumulate the gradient; return no gradients, since a leaf has no edges."""
        changes: list[Change] = []
        try:
            self.accumulate(grads[0], changes)
        finally:
            for change in changes:
                # No backward is running that could fail and roll the change back.
                change.commit()
        return ()

    def accumulate(self, grad: Any, changes: list[Change], listed: bool = True) -> GradChange | None:
        """Add `grad` to the leaf's `.grad`; return the change, which is rolled back if the backward fails later."""
        raise NotImplementedError(f"{type(self).__name__} must implement accumulate(grad, changes)")


@final
class AccumulateValue(Leaf):
    """Adds the gradient that arrives to the `.grad` of a value that is a leaf, by the `add` of its type.

    Example:
        >>> import asyncgrad as ag
        >>> class Notes(ag.extend.ValueType):
        ...     def add(self, first, second):
        ...         return first + second
        >>> prompt = ag.leaf("Be brief.", type=Notes())
        >>> ag.graph.get_gradient_edge(prompt).node.variable is prompt
        True
    """

    __slots__ = ()

    def __init__(self, variable: TensorBase) -> None:
        self._connect(())
        self.order = LEAF_ORDER
        self.variable = variable
        self.shape = None
        self.dtype: Any = None
        self.device: Any = variable._device
        self.meta = NodeMeta()
        self.meta.takes_values = True
        self.describe_again()

    def describe_again(self) -> None:
        """Have gradients checked against the object that the leaf has now."""
        self.make_meta().input_metadata = (self.variable._value_metadata,)

    def accumulate(self, grad: Any, changes: list[Change], listed: bool = True) -> GradChange | None:
        """Add `grad`, a gradient of the type; see AccumulateGrad.

        Raises:
            InvalidGradientError: it, or `.grad`, is that of an object which the leaf had before, and does not fit.
            GradientTypeError: the same, where its class is wrong.
        """
        variable = self.variable
        if grad is None or variable._meta is None or not variable._meta.requires_grad:
            return None
        metadata: Any = variable._value_metadata
        if metadata.is_replaced:
            metadata.take(variable._meta.grad, lambda it: f"the .grad to which a gradient is to be added is {it}")
            # It was checked where it arrived, since when the leaf may have got another object.
            metadata.take(grad, lambda it: f"the gradient that is to be added to .grad is {it}")
        return change_grad(variable, grad, changes, sole=False, listed=listed)


@final
class AccumulateGrad(Leaf):
    """Adds the gradient that arrives to the `.grad` of a leaf.

    The first gradient becomes `.grad` without a copy if nothing else refers to its array and its memory layout is the
    leaf's; otherwise it is cloned. A later gradient gives `.grad`, which stays the same Tensor, a new array, so that an
    array that code got from it earlier never changes. Under `create_graph` the sum is a new Tensor with a history.

    Source: AccumulateGrad of PyTorch.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor([1.0], requires_grad=True)
        >>> (x * 2).grad_fn.next_edges[0].node.variable is x
        True
    """

    __slots__ = ()

    def __init__(self, variable: TensorBase) -> None:
        data = variable._data
        self.variable = variable
        self.next_nodes = self.input_nrs = ()
        self.order = LEAF_ORDER
        # As `_note_thread`, without a call for each parameter of a model.
        thread = get_ident()
        if thread != MAIN_THREAD:
            self.foreign_thread = thread
        self.shape = data.shape
        self.dtype: Any = data.dtype
        self.device: Any = variable._device
        self.meta: NodeMeta | None = None
        meta = variable._meta
        if meta is not None and (meta.hooks is not None or meta.post_accumulate_hooks is not None):
            self.meta = NodeMeta()
        if self.device is not None and self.device.is_asynchronous:
            stream = CURRENT_STREAMS.get().get(self.device)
            # A leaf of the default stream needs no NodeMeta: without one it runs on the fast path.
            if stream is not None:
                self.make_meta().stream = stream

    def accumulate(self, grad: Any, changes: list[Change], listed: bool = True) -> GradChange | None:
        """Add `grad` to the leaf's `.grad`; return the change, which is rolled back if the backward fails later.

        Args:
            grad: an array of the leaf's shape and dtype, a Tensor under `create_graph`, or None, which does nothing.
                `.grad` takes the array over if the caller holds the only reference to it.
            changes: the changes of the backward; the new change is appended.
            listed: whether other backward passes may run before this one has ended.

        Raises:
            GraphError: the tensor is no longer a leaf.
        """
        variable = self.variable
        if grad is None:
            return None
        if variable._grad_fn is not None:
            raise GraphError(
                f"a gradient has reached the {self.name} of a tensor of shape {self.shape} that is no leaf any more: "
                f"{variable._grad_fn.name} has become its grad_fn since it was used. Use the tensor after the write "
                "or set_gradient_edge() that did that, or use a copy"
            )
        meta = variable._meta
        if meta is None or not meta.requires_grad:
            return None
        # The `dtype` test: a sum has this machine's byte order, and a leaf may have the other.
        sole = getrefcount(grad) <= _SOLE and grad.dtype is self.dtype and may_take(grad, variable._data)
        return change_grad(variable, grad, changes, sole=sole, listed=listed)


def accumulate_all(leaves: Sequence[Any], grads: list[Any], changes: list[Change], listed: bool) -> None:
    """Accumulate the gradient of each leaf, as `accumulate` does, on a shorter path for a leaf's first gradient.

    Args:
        leaves: the AccumulateGrads.
        grads: their gradients in reverse order; emptied.
        changes: the changes of the backward.
        listed: whether other backward passes may run before this one has ended.
    """
    first: FirstGrads | None = None
    array_class, flags_of_new = np.ndarray, FLAGS_OF_NEW
    for leaf in leaves:
        variable = leaf.variable
        meta = variable._meta
        if listed or meta.grad is not None or not meta.requires_grad or variable._grad_fn is not None:
            leaf.accumulate(grads.pop(), changes, listed)
            continue
        grad = grads.pop()
        # What most often holds is tested here, as in `may_take` and `FirstGrads.give`: their calls take as long.
        is_usual = (
            grad.__class__ is array_class and grad.flags.num in flags_of_new and variable._data.flags.c_contiguous
        )
        if not is_usual and (grad is None or isinstance(grad, TensorBase)):
            leaf.accumulate(grad, changes, listed)
            continue
        if first is None:
            # Appended before the first write, so that an error or an interrupt can roll it back.
            first = FirstGrads()
            changes.append(first)
            note = first.tensors.append
        # Counted before a call, which adds a reference to the array.
        sole = getrefcount(grad) <= _SOLE and grad.dtype is leaf.dtype
        if sole and is_usual:
            with meta.lock:
                if meta.grad is None and not meta.changes:
                    # Before the write, since an interrupt may come between the two.
                    note(variable)
                    meta.grad = variable.__class__(grad, None, 0, variable._device)
                    continue
        if not first.give(variable, grad, sole and may_take(grad, variable._data)):
            leaf.accumulate(grad, changes, listed)


@final
class GraphRoot(Node):
    """Passes the roots' gradients to the roots' nodes; a backward of several roots starts here."""

    __slots__ = ("_grads",)

    is_users = False

    def __init__(self, edges: Sequence[Edge], grads: Sequence[Any]) -> None:
        self._connect(edges)
        self._grads = tuple(grads)
        self.shape = None
        self.dtype: Any = None
        self.device: Any = None
        self.meta = NodeMeta()

    def apply(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the roots' gradients, once: it keeps none of them."""
        found, self._grads = self._grads, ()
        return found

    def body_source(self, wanted: Sequence[bool] | None, defined: Sequence[bool]) -> BodySource:
        """Return source that reads the roots' gradients."""
        return BodySource("$node._grads")


@final
class Identity(Node):
    """Stands for an input that is in no graph, so that the engine tells it from an edge that leads nowhere."""

    __slots__ = ()

    def __init__(self) -> None:
        self._connect(())
        self.shape = None
        self.dtype: Any = None
        self.device: Any = None
        self.meta = NodeMeta()

    def apply(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return no gradients: the node has no edges."""
        return ()


def accumulator(leaf: TensorBase, meta: Any) -> Leaf:
    """Return the node of a leaf that requires grad; make it if no graph holds one."""
    reference = meta.accumulator
    if reference is not None:
        node: Leaf | None = reference()
        if node is not None:
            return node
    return _new_accumulator(leaf, meta)


def _new_accumulator(leaf: TensorBase, meta: Any) -> Leaf:
    node: Leaf = AccumulateGrad(leaf) if leaf._value_metadata is None else AccumulateValue(leaf)
    meta.accumulator = weakref.ref(node)
    announce(node)
    return node


#: Makes an Edge of a pair. Its constructor is a function of Python.
make_edge = functools.partial(tuple.__new__, Edge)


def gradient_edge(tensor: TensorBase) -> Edge | None:
    """Return the edge that the gradient of `tensor` flows along; None if the tensor does not require grad."""
    node = tensor._grad_fn if tensor._view is None else tensor._history()
    if node is not None:
        return make_edge((node, tensor._output_nr))
    meta = tensor._meta
    if meta is None or not meta.requires_grad:
        return None
    return make_edge((accumulator(tensor, meta), 0))


def gradient_places(tensors: Iterable[TensorBase]) -> tuple[list[Node | None], list[int]]:
    """Return the node and the number of its input to which the gradient of each tensor flows, as `gradient_edge` does.

    Without an Edge for each of the parameters of a model.
    """
    nodes: list[Node | None] = []
    input_nrs: list[int] = []
    for tensor in tensors:
        meta = tensor._meta
        if tensor._grad_fn is None and tensor._view is None and meta is not None and meta.requires_grad:
            reference = meta.accumulator
            node = None if reference is None else reference()
            nodes.append(_new_accumulator(tensor, meta) if node is None else node)
            input_nrs.append(0)
        else:
            edge = gradient_edge(tensor)
            nodes.append(None if edge is None else edge.node)
            input_nrs.append(0 if edge is None else edge.input_nr)
    return nodes, input_nrs


def check_has_edge(tensor: Any) -> None:
    """Raise for an argument that has no gradient edge, since it is no tensor."""
    if not isinstance(tensor, TensorBase):
        raise ArgumentTypeError(f"only a tensor has a gradient edge, not {describe(tensor)}: write ag.asarray(...)")


def get_gradient_edge(tensor: TensorBase) -> GradientEdge:
    """Return the edge that the gradient of `tensor` flows along; a backward accepts it in place of the tensor.

    Raises:
        RequiresGradError: the tensor does not require grad.
        ArgumentTypeError: `tensor` is no tensor.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor([1.0], requires_grad=True)
        >>> ag.graph.get_gradient_edge(x).node.name
        'AccumulateGrad'
    """
    check_has_edge(tensor)
    edge = gradient_edge(tensor)
    if edge is None or edge.node is None:
        raise RequiresGradError(
            f"a {outline(tensor)} that does not require grad has no gradient edge: make it with requires_grad=True"
        )
    return GradientEdge(edge.node, edge.input_nr)
