"""All that graph and engine may ask of a gradient, whatever its type.

A gradient is a NumPy array (or NumPy scalar) in an ordinary backward and a `Tensor` under
`create_graph=True`; the engine's tests run it on plain Python floats. Everything is written with
operators and NumPy functions that each of these answers to.
"""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np

from .tracked import Tracked

__all__ = [
    "add",
    "add_into",
    "cast",
    "clone",
    "clone_like",
    "counted",
    "describe",
    "has_nan",
    "raw",
    "register_tensor",
    "sum_to",
    "wrap",
    "zeros",
]


#: The class that `wrap` makes and the device it takes where none is known; set when `Tensor` registers itself.
_registered: list[Any] = [Tracked, None]


def register_tensor(tensor_class: type[Tracked], default_device: Any) -> None:
    """Make `tensor_class` what `wrap` makes; `Tensor` calls this once."""
    _registered[:] = tensor_class, default_device


def wrap(value: Any, device: Any) -> Any:
    """Return a gradient as hooks and users see it: a Tensor on `device` for an array, anything else as it is.

    The device is None where nothing says it, as in a Function applied to no tensor; then it is the default one.
    """
    if not isinstance(value, (np.ndarray, np.generic)):
        return value
    tensor_class, default_device = _registered
    return tensor_class(np.asarray(value), None, 0, default_device if device is None else device)


def add(first: Any, second: Any) -> Any:
    """Return a new value, the sum of two gradients of one shape and dtype."""
    return first + second


def add_into(total: Any, value: Any) -> Any:
    """Add `value` into `total`, which the caller owns; return the sum (the same array where it is one)."""
    total += value
    return total


def sum_to(value: Any, shape: tuple[int, ...]) -> Any:
    """Sum a gradient over the axes along which an input of `shape` was broadcast.

    Args:
        value: gradient of shape `(*extra, *shape')`, where `shape'` agrees with `shape` except where
            `shape` has a 1.
        shape: what the result has.

    Returns:
        The gradient of shape `shape`, or None where only an expansion could give that shape.
    """
    extra = value.ndim - len(shape)
    if extra < 0:
        return None
    axes = tuple(range(extra))
    for axis, (have, want) in enumerate(zip(value.shape[extra:], shape, strict=True), extra):
        if have != want:
            if want != 1:
                return None
            axes += (axis,)
    return np.reshape(np.sum(value, axis=axes), shape)


def cast(value: Any, dtype: Any) -> Any:
    """Return the gradient in `dtype`; a complex gradient of a real input keeps its real part."""
    if value.dtype.kind == "c" and np.dtype(dtype).kind != "c":
        value = np.real(value)
    return value.astype(dtype)


def zeros(shape: tuple[int, ...], dtype: Any) -> Any:
    """Return an array of zeros."""
    return np.zeros(shape, dtype)


def clone(value: Any) -> Any:
    """Return a copy of a tensor, with its history."""
    return np.positive(value)


def is_dense(array: Any) -> bool:
    """Tell whether the elements fill a block of memory, each a place of its own, in whatever order of the axes."""
    if array.flags.forc:
        return True
    filled = array.itemsize
    for stride, size in sorted(zip(array.strides, array.shape, strict=True)):
        if size > 1:
            if stride != filled:
                return False
            filled *= size
    return True


def clone_like(value: Any, like: Any) -> Any:
    """Return a copy of the array `value` that nobody shares, laid out like `like` if that is dense, else in rows."""
    copy = np.empty_like(like, dtype=value.dtype, order="K" if is_dense(like) else "C", shape=np.shape(value))
    copy[...] = value
    return copy


def has_nan(value: Any) -> bool:
    """Tell whether a floating or complex gradient holds NaN; no other kind can."""
    value = raw(value)
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return isinstance(value, (float, complex)) and value != value
    return dtype.kind in "fc" and bool(np.isnan(value).any())


def raw(value: Any) -> Any:
    """Return the bare array under a tensor; anything else as it is."""
    return value._data if isinstance(value, Tracked) else value


def describe(value: Any) -> str:
    """Say what a value is, for an error message."""
    shape = getattr(value, "shape", None)
    if shape is None:
        return f"{type(value).__name__} {reprlib.repr(value)}"
    return f"{type(value).__name__} of shape {shape} and dtype {value.dtype}"


def counted(number: int, what: str) -> str:
    """Say how many there are, for an error message."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
