"""What NumPy's functions do besides computing: which write into what they are given, and which return a part of it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = [
    "COMPARING",
    "EMPTY",
    "FILLED",
    "MAKING",
    "QUIET",
    "VIEWING",
    "WRITING",
    "matrix_transposed",
    "part",
    "transposed",
    "writes_as_told",
]

#: What tells of arrays only what does not change from one run to the next.
QUIET = {
    np.may_share_memory,
    np.shape,
    np.ndim,
    np.size,
    np.result_type,
    np.can_cast,
    np.iscomplexobj,
}
QUIET |= {np.isrealobj, np.broadcast_shapes, np.common_type}
#: What tells whether arrays are equal, in functions that are recorded.
COMPARING: dict[Any, Callable[..., Any]] = {
    np.allclose: lambda *args, **kwargs: np.all(np.isclose(*args, **kwargs)),
    np.array_equal: lambda a, b, equal_nan=False: np.shape(a) == np.shape(b) and np.all(_equal(a, b, equal_nan)),
}
#: What makes arrays, of other arrays reads nothing but the shape and the dtype, and fills them: with this number.
FILLED: dict[Any, int] = {np.zeros_like: 0, np.ones_like: 1, np.zeros: 0, np.ones: 1}
#: The same without filling them.
EMPTY: set[Any] = {np.empty, np.empty_like}
#: All of both.
MAKING = {*EMPTY, *FILLED}
#: What writes into its first argument, and the name of that.
WRITING = {
    np.copyto: "dst",
    np.put: "a",
    np.place: "arr",
    np.putmask: "a",
    np.put_along_axis: "arr",
    np.fill_diagonal: "a",
}


def _equal(a: Any, b: Any, equal_nan: bool) -> Any:
    return np.equal(a, b) | (np.isnan(a) & np.isnan(b)) if equal_nan else np.equal(a, b)


def part(array: Any, shape: tuple[int, ...], dtype: Any, offset: int, strides: tuple[int, ...]) -> Any:
    """Return a view of the memory of an array, which is C-contiguous."""
    return np.ndarray(shape, dtype, array, offset, strides)


def transposed(array: Any) -> Any:
    """Return `array.T`."""
    return array.T


def matrix_transposed(array: Any) -> Any:
    """Return `array.mT`."""
    return array.mT


#: What may return a view, or what it was given: where that lies is decided by shapes and by the numbers of an index.
VIEWING = {operator.getitem, part, transposed, matrix_transposed, np.real, np.imag}
VIEWING |= {
    np.ndarray.astype,
    np.ndarray.conj,
    np.ndarray.conjugate,
    np.ndarray.diagonal,
    np.ndarray.ravel,
    np.ndarray.reshape,
    np.ndarray.squeeze,
    np.ndarray.swapaxes,
    np.ndarray.transpose,
    np.ndarray.view,
}
_NAMES = """
    array_split astype atleast_1d atleast_2d atleast_3d broadcast_arrays broadcast_to diag diagonal dsplit einsum
    expand_dims flip fliplr flipud hsplit matrix_transpose moveaxis permute_dims ravel reshape rollaxis rot90 split
    squeeze swapaxes tile transpose unstack vsplit
"""
VIEWING |= {getattr(np, name) for name in _NAMES.split()}
VIEWING |= {
    np.linalg.diagonal,
    np.linalg.matrix_transpose,
    np.lib.stride_tricks.as_strided,
    np.lib.stride_tricks.sliding_window_view,
}


def writes_as_told(function: Callable[..., Any]) -> bool:
    """Tell whether a function writes only where `out` or its name says so."""
    owner = getattr(function, "__self__", function)
    return isinstance(owner, np.ufunc) or function in VIEWING or getattr(function, "__module__", "") == "_operator"
