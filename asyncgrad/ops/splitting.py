"""SplitNode: one node for all pieces of an array that is split along an axis.

If each piece had a node of its own, the gradient of the array would be a sum of arrays that are mostly zeros. One node
for all pieces concatenates their gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, final

import numpy as np

from ..context import GRAD_MODE
from ..graph.leaf import gradient_edge
from ..graph.lowering import BodySource
from ..graph.metadata import InputMetadata
from ..graph.node import THREADS, Edge, next_order
from ..graph.tensor_base import CreationMeta, TensorBase
from ..graph.values import own_function, raw, zeros_beside
from ..graph.wrappers import register_wrapper
from .handwritten_node import HandwrittenNode

__all__ = ["SplitNode", "split_views"]

#: A profile of the whole process replaces it: see graph/wrappers.py.
_grad_mode = GRAD_MODE.get
register_wrapper(globals())

_new: Any = object.__new__
_MULTI_OUTPUT, _NO_GRAD = CreationMeta.MULTI_OUTPUT, CreationMeta.NO_GRAD


@final
class SplitNode(HandwrittenNode):
    """The node of a split: it concatenates the gradients of the pieces, and saves only metadata.

    Args:
        edge: where the gradient of the array flows.
        metadata: the InputMetadata of each piece.
        axis: the axis of the split.
        device: of the array.
    """

    __slots__ = ("_axis", "_metadata")

    def __init__(self, edge: Edge, metadata: tuple[InputMetadata | None, ...], axis: int, device: Any) -> None:
        node, input_nr = edge
        self.connect((node,), (input_nr,))
        self.order: int = next_order()
        if len(THREADS) > 1:
            self._note_thread()
        self.shape = self.dtype = self.meta = None
        self.device = device
        self._metadata = metadata
        self._axis = axis

    @property
    def name(self) -> str:
        """The name that errors and drawings show."""
        return "SplitBackward"

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
        """Concatenate the gradients, with zeros for undefined ones; return None if all are undefined."""
        if grads is None:
            return (None,)
        defined = [grad for grad in grads if grad is not None]
        if not defined:
            return (None,)
        if len(defined) < len(grads):
            grads = [
                zeros_beside(metadata.shape, raw(defined[0]), metadata.dtype)
                if grad is None and metadata is not None
                else grad
                for grad, metadata in zip(grads, self._metadata, strict=True)
            ]
        if grads[0].__class__ is np.ndarray:
            return (np.concatenate(grads, self._axis),)
        return (_concatenate(grads, self._axis),)

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


def split_views(array: Any, bounds: Sequence[int], axis: int) -> list[Any]:
    """Return the views between consecutive `bounds`, which ascend from 0 to the length of `axis`."""
    data = array._data if isinstance(array, TensorBase) else array
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
        node = SplitNode(edge, _metadata(pieces, device), axis, device)
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


def _metadata(pieces: Sequence[Any], device: Any) -> tuple[InputMetadata, ...]:
    """Return the InputMetadata of each piece; equal neighbours share one."""
    found: list[InputMetadata] = []
    last = None
    for piece in pieces:
        shape = piece.shape
        if last is None or last.shape != shape:
            last = InputMetadata(shape, piece.dtype, device)
        found.append(last)
    return tuple(found)
