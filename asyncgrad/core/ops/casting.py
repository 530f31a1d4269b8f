"""Copies of an array in another dtype, recorded as CopyBackwards, which casts the gradient back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import DeviceError
from ..arrays.device_arrays import as_dtype
from ..arrays.tensor_base import TensorBase
from ..arrays.typed import like_first
from ..arrays.values import check_numbers, is_device_array
from ..graph.leaf import accumulator
from ..graph.wrappers import register_wrapper
from ..recording.primitive import RULES
from ..settings.context import GRAD_MODE
from ..views.nodes import copy_of

if TYPE_CHECKING:
    from ..arrays.array import Array


__all__ = ["astype", "cast", "moved"]

#: A profile of the whole process replaces it: see core/graph/wrappers.py.
_grad_mode = GRAD_MODE.get
register_wrapper(globals())


def moved(source: Any, data: Array, device: Any) -> Any:
    """Return a tensor of `data`, a copy of the elements of a tensor, recorded as CopyBackwards.

    Args:
        source: the tensor.
        data: its elements in another dtype, on another device, or both.
        device: the device of `data`.

    Source: what `to` of PyTorch records.
    """
    out = _new(source.__class__)
    out._data, out._output_nr, out._device = data, 0, device
    out._meta = out._counter = out._grad_fn = out._view = None
    mode = _grad_mode()
    if not mode or data.dtype.kind not in "fc":
        if not mode and mode is not False:
            mode.used(source)
        return out
    node, input_nr = source._grad_fn if source._view is None else source._history(), source._output_nr
    if node is None:
        meta = source._meta
        if meta is None or not meta.requires_grad:
            return out
        node, input_nr = accumulator(source, meta), 0
    made = out._grad_fn = copy_of(node, input_nr, data, device)
    # False, True or an observer: see GRAD_MODE.
    if mode is not True:
        mode.created(made)
    return out


@like_first
def cast(a: Any, dtype: Any, order: str = "K", casting: str = "unsafe", copy: bool = True) -> Any:
    """Return the elements of a tensor in another dtype; the tensor itself where there is nothing to copy."""
    data = a._data
    if data.__class__ is not np.ndarray and is_device_array(data):
        result = as_dtype(data, dtype, casting, order, copy)
    else:
        result = data.astype(dtype, order, casting, True, copy)
    if result is data:
        return a
    check_numbers("astype", result.dtype)
    return moved(a, result, a._device)


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: str | None = None) -> Any:
    """Return the elements of `x` in another dtype."""
    if device not in (None, "cpu"):
        raise DeviceError(f"astype does not move a tensor to {device!r}: write x.astype(dtype).to({device!r})")
    return cast(x, dtype, copy=copy) if isinstance(x, TensorBase) else x.astype(dtype, copy=copy)


_new = object.__new__

RULES[np.astype] = astype
