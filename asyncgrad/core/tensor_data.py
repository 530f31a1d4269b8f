"""What users give as the contents of a tensor, as an array; and where sequences are ragged."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ArgumentError
from .arrays.interception import add_entry_names
from .arrays.tensor_base import TensorBase
from .arrays.values import is_device_array, raw, refuse_masked, refuse_masked_within
from .settings.default_dtype import in_default_dtype

__all__ = ["array_of_data", "refuse_masked_data"]


def array_of_data(data: Any, dtype: Any, copy: bool | None) -> Any:
    """Return what a user gave as the contents of a tensor as an array: NumPy's, or that of a device, uncopied.

    Raises:
        ArgumentError: rows are of different lengths; says where.
    """
    is_tensor = isinstance(data, TensorBase)
    data = raw(data)
    if is_device_array(data) and (is_tensor or hasattr(data, "__cuda_array_interface__")):
        return _in_dtype(data, dtype)
    refuse_masked_data(data)
    if copy and data.__class__ is not np.ndarray and hasattr(data, "__array__"):
        # PyTorch's `__array__` knows no `copy=`, of which NumPy warns where a copy is asked for.
        data = np.asarray(data)
    try:
        array = np.array(data, dtype, copy=copy)
    except ValueError as error:
        uneven = _uneven(data, "data") if isinstance(data, (list, tuple)) else None
        if uneven is None:
            raise
        raise ArgumentError(
            f"the sequences in data are ragged: {uneven}. The elements of a tensor fill a box, so pad the shorter "
            "ones, or make a tensor of each"
        ) from error
    return array if dtype is not None else in_default_dtype(array, data)


def _in_dtype(array: Any, dtype: Any) -> Any:
    return array if dtype is None or array.dtype == np.dtype(dtype) else array.astype(dtype)


# It converts arrays of a device.
add_entry_names(globals(), "_in_dtype")


def refuse_masked_data(value: Any) -> None:
    """Raise if this is a masked array, or a sequence that holds one."""
    if isinstance(value, (list, tuple)):
        refuse_masked_within(value)
    else:
        refuse_masked(value)


def _uneven(data: Any, name: str) -> str | None:
    """Say where nested sequences first differ in length, or one stands beside what is none; None if nowhere."""
    shape = _shape_of(data[0]) if len(data) else None
    for index, entry in enumerate(data):
        inner = _uneven(entry, f"{name}[{index}]") if isinstance(entry, (list, tuple)) else None
        if inner is not None:
            return inner
        if _shape_of(entry) != shape:
            return f"{name}[0] is {_described(shape)}, and {name}[{index}] is {_described(_shape_of(entry))}"
    return None


def _shape_of(entry: Any) -> tuple[int, ...]:
    """Return the shape of what is no ragged sequence."""
    if isinstance(entry, (list, tuple)):
        return (len(entry), *(_shape_of(entry[0]) if entry else ()))
    return tuple(np.shape(raw(entry)))


def _described(shape: tuple[int, ...] | None) -> str:
    return f"of shape {shape}" if shape else "no sequence"
