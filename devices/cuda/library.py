"""Products of matrices by cuBLAS, ones and windows on a GPU, in less time on the host than CuPy's own functions take.

CuPy takes 16 µs for a product of two matrices, whatever their sizes, most of it spent on cases that are rare. Here the
frequent cases are looked for first, and everything else is left to CuPy.
"""

from __future__ import annotations

import os
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, final

import numpy as np

from .._call_caches import remember
from .arrays import array_maker
from .kernels import mixed_error

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Routines", "handle_getter", "library_functions"]


def library_functions(cupy: Any, launched: list[int] | None = None) -> dict[Any, Callable[..., Any]]:
    """Return the functions, by the functions of NumPy whose place they take, or by their names.

    Args:
        cupy: the module.
        launched: where calls of cuBLAS are counted, as launches are.
    """
    routines = Routines(cupy, [0] if launched is None else launched)
    return {
        np.matmul: _make_product(cupy, routines),
        **_linear_functions(cupy, routines),
        "ones": partial(_ones, array_maker(cupy)),
        # Half of the time of as many slices; a stand-in for CuPy has no such module.
        **({"split": cupy._core.array_split} if hasattr(cupy, "_core") else {}),
        np.lib.stride_tricks.sliding_window_view: partial(_sliding_windows, cupy.ndarray),
        "zeta": _zeta,
    }


def _ones(make: Callable[[Any, Any], Any], shape: Any, dtype: Any) -> Any:
    """Return an array of ones, such as the gradient of a loss; NumPy's dispatch takes twice as long as that."""
    out = make(shape, dtype)
    out.fill(1)
    return out


def _zeta(s: Any, q: Any) -> Any:
    """Return Hurwitz's zeta function, which CuPy's arrays do not find: SciPy's ufunc has another name."""
    from cupyx.scipy.special import zeta

    return zeta(s, q)


def _sliding_windows(ndarray: Any, x: Any, lengths: Any, axes: Any) -> Any:
    """Return a view of all windows; CuPy copies the lengths to the GPU and waits for each to come back."""
    if isinstance(lengths, int):
        lengths, axes = (lengths,), (axes,)
    shape, strides = list(x.shape), list(x.strides)
    for length, axis in zip(lengths, axes, strict=True):
        if length < 0:
            raise ValueError("`window_shape` cannot contain negative values")
        if length > shape[axis]:
            raise ValueError("window shape cannot be larger than input array shape")
        shape[axis] -= length - 1
        strides.append(x.strides[axis])
    return ndarray((*shape, *lengths), x.dtype, x.data, tuple(strides))


#: CUBLAS_TF32_TENSOR_OP_MATH, for which CuPy has no name.
_TF32 = 3


@final
class _Handles(threading.local):
    """The handle of cuBLAS of each thread on the only GPU, which CuPy takes as long to find as to use.

    Args:
        find: finds the handle of this thread.
    """

    def __init__(self, find: Callable[[], int]) -> None:
        self.value = find()


def handle_getter(cupy: Any) -> Callable[[], int]:
    """Return a function that returns cuBLAS's handle, which each thread has one of for each GPU."""
    from cupy.cuda.device import get_cublas_handle

    find = _tf32_handle if os.environ.get("CUPY_TF32") == "1" else get_cublas_handle
    if cupy.cuda.runtime.getDeviceCount() > 1:
        return find
    handles = _Handles(find)
    return lambda: handles.value


def _tf32_handle() -> int:
    """Return the handle, by which float32 is multiplied in TF32: what users of CuPy ask for by `CUPY_TF32=1`."""
    from cupy.cuda.device import get_cublas_handle
    from cupy_backends.cuda.libs import cublas

    handle: int = get_cublas_handle()
    cublas.setMathMode(handle, _TF32)
    return handle


#: By dtype, 1 and 0 in the host's memory, where cuBLAS reads its factors.
_ONE_AND_ZERO = {char: np.array([1, 0], char) for char in "fd"}


@final
class Routines:
    """What products are computed by: the functions of cuBLAS and its handle.

    Args:
        cupy: the module.
        launched: where calls are counted.
    """

    def __init__(self, cupy: Any, launched: list[int]) -> None:
        from cupy_backends.cuda.libs import cublas

        self.launched = launched
        self.handle: Callable[[], int] = handle_getter(cupy)
        #: By dtype: the function of cuBLAS, and the addresses of 1 and 0.
        self.gemm: dict[str, tuple[Callable[..., None], int, int]] = {
            char: (routine, _ONE_AND_ZERO[char].ctypes.data, _ONE_AND_ZERO[char][1:].ctypes.data)
            for char, routine in (("f", cublas.sgemm), ("d", cublas.dgemm))
        }


def _make_product(cupy: Any, found: Routines) -> Callable[[Any, Any], Any]:
    """Return a function that multiplies two matrices."""
    ndarray, make = cupy.ndarray, array_maker(cupy)
    routines, get_handle, launched = found.gemm, found.handle, found.launched
    #: By dtype and layout of both matrices: what to pass to cuBLAS.
    calls: dict[Any, tuple[Any, ...]] = {}

    def find_call(x: Any, y: Any) -> tuple[Any, ...]:
        """Return what to pass to cuBLAS; an empty tuple for what is left to CuPy."""
        if type(x) is not ndarray or type(y) is not ndarray:
            raise mixed_error("matmul", *((x, y) if type(x) is ndarray else (y, x)))
        rows, length = x.shape
        count, columns = y.shape
        routine = routines.get(x.dtype.char)
        is_dense = (x._c_contiguous or x._f_contiguous) and (y._c_contiguous or y._f_contiguous)
        if routine is None or x.dtype != y.dtype or length != count or not rows * length * columns or not is_dense:
            return ()
        # A matrix in C order is to cuBLAS, which counts columns first, its transpose.
        y_is_transposed, y_step = (0, columns) if y._c_contiguous else (1, length)
        x_is_transposed, x_step = (0, length) if x._c_contiguous else (1, rows)
        gemm, one, zero = routine
        sizes = y_is_transposed, x_is_transposed, columns, rows, length
        return (rows, columns), x.dtype.char, gemm, sizes, one, y_step, x_step, zero

    def product(x: Any, y: Any) -> Any:
        try:
            key = x.dtype, x.shape, x._c_contiguous, x._f_contiguous, y.dtype, y.shape, y._c_contiguous, y._f_contiguous
            call = calls[key]
        except AttributeError:
            call = find_call(x, y)
        except KeyError:
            call = remember(calls, key, find_call(x, y))
        if not call:
            return x @ y
        shape, dtype, gemm, sizes, one, y_step, x_step, zero = call
        out = make(shape, dtype)
        launched[0] += 1
        gemm(get_handle(), *sizes, one, y.data.ptr, y_step, x.data.ptr, x_step, zero, out.data.ptr, shape[1])
        return out

    return product


def _dense_routine(cupy: Any, found: Routines) -> Callable[[Any, Any], Any]:
    """Return a function that finds gemm for two arrays; it returns None for those that are not for cuBLAS alone."""
    ndarray, routines = cupy.ndarray, found.gemm

    def routine(x: Any, y: Any) -> Any:
        if type(x) is ndarray and type(y) is ndarray and x._c_contiguous and y._c_contiguous:
            dtype = x.dtype
            return routines.get(dtype.char) if dtype == y.dtype and x.size and y.size else None
        return None

    return routine


def _linear_functions(cupy: Any, found: Routines) -> dict[str, Callable[..., Any]]:
    """Return the products of a linear map by their names: of rows in an array of any number of axes.

    Each returns None for what is not in C order, empty, or of two dtypes, and for shapes that do not fit.
    """
    return {
        # x @ weight.T
        "linear": _row_product(cupy, found, False, True),
        # g @ weight
        "linear_input_grad": _row_product(cupy, found, False, False),
        # g.T @ x
        "linear_weight_grad": _row_product(cupy, found, True, False),
        "add_linear_weight_grad": _weight_grad_adder(cupy, found),
    }


def _row_product(cupy: Any, found: Routines, x_is_transposed: bool, y_is_transposed: bool) -> Callable[[Any, Any], Any]:
    """Return a function that multiplies two matrices of rows, each transposed first where that is said."""
    make, get_handle, launched = array_maker(cupy), found.handle, found.launched
    find_routine = _dense_routine(cupy, found)
    #: By dtype, shape and order of both: what to pass to cuBLAS.
    calls: dict[Any, tuple[Any, ...]] = {}

    def find_call(x: Any, y: Any) -> tuple[Any, ...]:
        """Return what to pass to cuBLAS for arrays like these; an empty tuple for what there is no product of."""
        routine = find_routine(x, y)
        if routine is None or not x.ndim or not y.ndim or (not x_is_transposed and y.ndim != 2):
            return ()
        gemm, one, zero = routine
        x_step, y_step = x.shape[-1], y.shape[-1]
        if x_is_transposed:
            rows, length, summed, columns = x_step, x.size // x_step, y.size // y_step, y_step
        else:
            rows, length = x.size // x_step, x_step
            columns, summed = y.shape if y_is_transposed else y.shape[::-1]
        if length != summed:
            return ()
        shape = (rows, columns) if x_is_transposed else (*x.shape[:-1], columns)
        return shape, x.dtype.char, gemm, columns, rows, length, one, y_step, x_step, zero

    def product(x: Any, y: Any) -> Any:
        try:
            key = x.dtype, x.shape, x._c_contiguous, y.dtype, y.shape, y._c_contiguous
        except AttributeError:
            # An array of NumPy's.
            return None
        call = calls.get(key)
        if call is None:
            call = remember(calls, key, find_call(x, y))
        if not call:
            return None
        shape, dtype, gemm, columns, rows, length, one, y_step, x_step, zero = call
        out = make(shape, dtype)
        launched[0] += 1
        # A matrix in C order is to cuBLAS, which counts columns first, its transpose.
        gemm(
            get_handle(), y_is_transposed, x_is_transposed, columns, rows, length,
            one, y.data.ptr, y_step, x.data.ptr, x_step, zero, out.data.ptr, columns,
        )  # fmt: skip
        return out

    return product


def _weight_grad_adder(cupy: Any, found: Routines) -> Callable[[Any, Any, Any], Any]:
    """Return a function that adds the gradient of the weights of a linear map to a sum."""
    routine, get_handle, launched = _dense_routine(cupy, found), found.handle, found.launched

    def add_weight_grad(total: Any, g: Any, x: Any) -> Any:
        """Add g.T @ x to an array of that shape, and return this; None for other arrays."""
        if (chosen := routine(g, x)) is None or total.dtype != g.dtype or not total._c_contiguous:
            return None
        rows, columns, (gemm, one, _) = g.shape[-1], x.shape[-1], chosen
        launched[0] += 1
        gemm(
            get_handle(), 0, 1, columns, rows, x.size // columns,
            one, x.data.ptr, columns, g.data.ptr, rows, one, total.data.ptr, columns,
        )  # fmt: skip
        return total

    return add_weight_grad
