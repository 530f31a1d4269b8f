"""One node for all pieces of an array: a SplitNode where it is split along an axis, an UnstackNode for its subarrays.

If each piece had a node of its own, the gradient of the array would be a sum of arrays that are mostly zeros. One node
for all pieces lays their gradients side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, final

import numpy as np

from ..arrays.axes import inverse_permutation
from ..arrays.device_functions import own_function
from ..arrays.tensor_base import CreationMeta, TensorBase
from ..arrays.values import is_device_array, is_recorder, raw, zeros_like
from ..graph.leaf import gradient_edge
from ..graph.lowering import BodySource
from ..graph.metadata import InputMetadata
from ..graph.node import THREADS, Edge, next_order
from ..graph.wrappers import register_wrapper
from ..recording.handwritten_node import HandwrittenNode
from ..settings.context import GRAD_MODE
from .indexing import part

__all__ = ["SplitNode", "UnstackNode", "split_views", "unstacked"]

#: A profile of the whole process replaces it: see core/graph/wrappers.py.
_grad_mode = GRAD_MODE.get
register_wrapper(globals())

_new: Any = object.__new__
_DEFAULT, _MULTI_OUTPUT, _NO_GRAD = CreationMeta.DEFAULT, CreationMeta.MULTI_OUTPUT, CreationMeta.NO_GRAD


class PiecesNode(HandwrittenNode):
    """Abstract: the node of all pieces of an array, which saves only metadata."""

    __slots__ = ("_metadata",)

    def _begin(self, edge: Edge, metadata: tuple[InputMetadata | None, ...], device: Any) -> None:
        node, input_nr = edge
        self.connect((node,), (input_nr,))
        self.order: int = next_order()
        if len(THREADS) > 1:
            self._note_thread()
        self.shape = self.dtype = self.meta = None
        self.device = device
        self._metadata = metadata

    @property
    def input_metadata(self) -> tuple[InputMetadata | None, ...]:
        """The InputMetadata of each piece."""
        return self._metadata

    def apply(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the gradient of the array, or None if the running backward does not need it."""
        return self.apply_wanted(grads, [self.task_should_compute_output(0)])

    def apply_wanted(self, grads: Sequence[Any] | None, wanted: Sequence[bool]) -> tuple[Any, ...]:
        """Return the gradient of the array, or None if it is not wanted."""
        return self.apply_generic(grads) if wanted[0] else (None,)

    def apply_generic(self, grads: Sequence[Any] | None) -> tuple[Any, ...]:
        """Lay the gradients side by side, with zeros for undefined ones; return None if all are undefined."""
        if grads is None:
            return (None,)
        defined = [grad for grad in grads if grad is not None]
        if not defined:
            return (None,)
        if len(defined) < len(grads):
            return (self.joined_with_zeros(grads, defined[0]),)
        return (self.joined(grads),)

    def joined_with_zeros(self, grads: Sequence[Any], first: Any) -> Any:
        """Return the gradient of the array, given those of some of its pieces, of which `first` is one."""
        shapes = [metadata.shape if metadata is not None else () for metadata in self._metadata]
        missing = {shape for shape, grad in zip(shapes, grads, strict=True) if grad is None}
        # Pieces of one shape share their zeros.
        zeros = {shape: zeros_like(raw(first), shape, first.dtype) for shape in missing}
        return self.joined([zeros[shape] if grad is None else grad for shape, grad in zip(shapes, grads, strict=True)])

    def joined(self, grads: Sequence[Any]) -> Any:
        """Return the gradient of the array, given those of all its pieces."""
        raise NotImplementedError(f"{type(self).__name__} must implement joined(grads)")


@final
class SplitNode(PiecesNode):
    """The node of a split: it concatenates the gradients of the pieces.

    Args:
        edge: where the gradient of the array flows.
        metadata: the InputMetadata of each piece.
        axis: the axis of the split.
        device: of the array.
    """

    __slots__ = ("_axis",)

    def __init__(self, edge: Edge, metadata: tuple[InputMetadata | None, ...], axis: int, device: Any) -> None:
        self._begin(edge, metadata, device)
        self._axis = axis

    @property
    def name(self) -> str:
        """The name that errors and drawings show."""
        return "SplitBackward"

    def joined(self, grads: Sequence[Any]) -> Any:
        """Concatenate the gradients."""
        first = grads[0]
        if first.__class__ is np.ndarray:
            return np.concatenate(grads, self._axis)
        return _concatenate(grads, self._axis)

    def body_source(self, wanted: Sequence[bool] | None, defined: Sequence[bool]) -> BodySource | None:
        """Return the source that concatenates the gradients, or a call of the body if some are undefined."""
        if self.meta is not None or not all(defined):
            return super().body_source(wanted, defined)
        if wanted is not None and not wanted[0]:
            return BodySource((None,))
        on_host = self.device is None or self.device.has_host_arrays
        return BodySource(
            ("$concatenate($grads, $node._axis)",),
            constants={"concatenate": np.concatenate if on_host else _concatenate},
            may_be_heavy=self.reads_large(),
        )


def _concatenate(grads: Sequence[Any], axis: int) -> Any:
    """Return gradients side by side, by the function of their device if that has one."""
    return own_function(np.concatenate, grads[0])(grads, axis)


@final
class UnstackNode(PiecesNode):
    """The node of all subarrays of an array along its first axis: it stacks their gradients.

    Args:
        edge: where the gradient of the array flows.
        metadata: the InputMetadata of each subarray.
        order: the axes of an array of another library in the order in which they lie in memory; its gradient lies
            likewise. NumPy's lies in C order, and needs none.
        device: of the array.
    """

    __slots__ = ("_order",)

    def __init__(
        self, edge: Edge, metadata: tuple[InputMetadata | None, ...], order: tuple[int, ...], device: Any
    ) -> None:
        self._begin(edge, metadata, device)
        self._order = order

    @property
    def name(self) -> str:
        """The name that errors and drawings show."""
        return "UnstackBackward"

    def joined(self, grads: Sequence[Any]) -> Any:
        """Stack the gradients."""
        first, order = grads[0], self._order
        # Zeros among tensors may be a bare array.
        if any(issubclass(kind, TensorBase) for kind in set(map(type, grads))) or is_recorder(first):
            return np.stack(grads)
        if not is_device_array(first):
            # Of arrays of one shape and dtype, the same as np.stack in a fraction of the time.
            return np.array(grads)
        # In the order of memory, each subarray is usually one block, and the place of the first axis is between others.
        place = order.index(0)
        rest = [axis - 1 for axis in order if axis]
        shape = [first.shape[axis] for axis in rest]
        shape.insert(place, 1)
        pieces = [grad.transpose(rest).reshape(shape) for grad in grads]
        total = _concatenate(pieces, place)
        return total if order == tuple(range(len(order))) else total.transpose(inverse_permutation(order))

    def joined_with_zeros(self, grads: Sequence[Any], first: Any) -> Any:
        """Stack the gradients; of a few subarrays, no array of zeros is made for each of the others."""
        if isinstance(first, TensorBase) or is_device_array(first):
            return super().joined_with_zeros(grads, first)
        total = np.zeros((len(grads), *first.shape), first.dtype)
        for index, grad in enumerate(grads):
            if grad is not None:
                total[index] = grad
        return total


def unstacked(array: TensorBase) -> Iterator[Any]:
    """Yield the subarrays along the first axis of a tensor, views that share one node."""
    node, before = None, None
    for index in range(len(array._data)):
        mode = _grad_mode()
        edge = gradient_edge(array) if mode else None
        data, device = array._data, array._device
        if edge is None or (data.ndim == 1 and data.__class__ is np.ndarray):
            # The elements of a NumPy array with one axis are numbers, and no views of it.
            yield part(array, index)
            continue
        piece = data[index]
        # A write into the array while its subarrays are taken gives it a new history.
        if node is None or edge != before:
            order = (
                tuple(sorted(range(data.ndim), key=lambda axis: -data.strides[axis])) if is_device_array(data) else ()
            )
            metadata = InputMetadata(piece.shape, piece.dtype, device)
            node, before = UnstackNode(edge, (metadata,) * len(data), order, device), edge
            if mode is not True:
                mode.created(node)
        result = _new(array.__class__)
        result._data, result._device, result._meta = piece, device, None
        result._grad_fn, result._output_nr = node, index
        result._counter, result._view = array._shared_version(), array._view_record(_DEFAULT, (part, index))
        yield result


def split_views(array: Any, bounds: Sequence[int], axis: int) -> list[Any]:
    """Return the views between consecutive `bounds`, which ascend from 0 to the length of `axis`."""
    data = array._data if isinstance(array, TensorBase) else array
    pieces = None if data.__class__ is np.ndarray else own_function("split", data)(data, bounds[1:-1], axis)
    if pieces is None:
        before = (slice(None),) * axis
        pieces = [data[(*before, slice(start, stop))] for start, stop in pairwise(bounds)]
    if not isinstance(array, TensorBase):
        return pieces
    device, cls = array._device, array.__class__
    mode = _grad_mode()
    if not mode and mode is not False:
        mode.used(array)
    edge = gradient_edge(array) if mode else None
    node = None
    if edge is not None:
        node = SplitNode(edge, _metadata(pieces, device, bounds), axis, device)
        if mode is not True:
            mode.created(node)
    # These views refuse in-place writes, so no view is ever replayed.
    record = array._view_record(_MULTI_OUTPUT if mode else _NO_GRAD)
    counter = array._counter
    results = []
    for index, piece in enumerate(pieces):
        # A call of the constructor would cost as much as the rest.
        result = _new(cls)
        result._data, result._device, result._meta = piece, device, None
        result._grad_fn, result._output_nr = node, 0 if node is None else index
        result._counter, result._view = counter, record
        results.append(result)
    return results


def _metadata(pieces: Sequence[Any], device: Any, bounds: Sequence[int]) -> tuple[InputMetadata, ...]:
    """Return the InputMetadata of each piece, one for all where the bounds are equally far apart."""
    count, step = len(pieces), bounds[1] - bounds[0]
    different = pieces[:1] if step and bounds == list(range(0, bounds[-1] + 1, step)) else pieces
    found = tuple([InputMetadata(piece.shape, piece.dtype, device) for piece in different])
    return found * count if different is not pieces else found
