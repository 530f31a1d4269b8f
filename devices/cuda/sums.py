"""Sums and means of arrays on a GPU, in less time on the host than CuPy's own functions take.

CuPy takes 17 µs for a sum, whatever its size, most of it spent on cases that are rare. Here the frequent cases are
looked for first, and everything else is left to CuPy.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, final

import numpy as np

from .._call_caches import remember
from .arrays import array_maker, gpu_getter
from .columns import COLUMNS_SOURCE, columns_and_threads
from .modules import TYPES, KernelModule

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["sum_functions"]

#: More numbers than this are summed by CuPy, which divides one sum among several blocks.
_LONGEST = 1 << 13

_SOURCE = """
template <typename T> __device__ T sum_of_warp(T value) {
    for (int step = 16; step; step >>= 1) value += __shfl_down_sync(0xffffffffu, value, step);
    return value;
}

// One block for each row of `length` numbers.
template <typename T> __device__ void sum_rows(const T* in, T* out, long long length, T divisor) {
    __shared__ T partial[32];
    in += blockIdx.x * length;
    T total = 0;
    for (long long k = threadIdx.x; k < length; k += blockDim.x) total += in[k];
    total = sum_of_warp(total);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = total;
    __syncthreads();
    if (threadIdx.x < 32) {
        total = sum_of_warp(threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : T(0));
        if (threadIdx.x == 0) out[blockIdx.x] = total / divisor;
    }
}

// Sums over the middle axis of (blocks in y, length, width).
template <typename T, bool adds> __device__ void sum_middle(
    const T* in, T* out, long long length, long long width, int columns, T divisor) {
    in += blockIdx.y * length * width;
    out += blockIdx.y * width;
    sum_columns<T>(
        length, width, columns, [=](long long row, long long column) { return in[row * width + column]; },
        [=](long long column, T total) { out[column] = adds ? out[column] + total : total / divisor; });
}

#define KERNELS(T) \\
    extern "C" __global__ void sum_rows_##T(const T* in, T* out, long long length, T divisor) \\
        { sum_rows<T>(in, out, length, divisor); } \\
    extern "C" __global__ void sum_columns_##T( \\
        const T* in, T* out, long long length, long long width, long long columns, T divisor) \\
        { sum_middle<T, false>(in, out, length, width, columns, divisor); } \\
    extern "C" __global__ void add_columns_##T( \\
        const T* in, T* out, long long length, long long width, long long columns, T divisor) \\
        { sum_middle<T, true>(in, out, length, width, columns, divisor); }
KERNELS(float)
KERNELS(double)
"""


def sum_functions(cupy: Any, macros: str = "", launched: list[int] | None = None) -> dict[Any, Callable[..., Any]]:
    """Return the functions, by the functions of NumPy whose place they take, or by their names.

    Args:
        cupy: the module.
        macros: what the compiler needs before the source.
        launched: where launches are counted.
    """
    sums = _Sums(cupy, macros, launched)
    return {np.sum: sums.sum, np.mean: sums.mean, "add_leading_sum": sums.add_leading}


@final
class _Sums:
    """Sums and means of arrays in C order over neighbouring axes.

    Args:
        cupy: the module.
        macros: what the compiler needs before the source.
        launched: where launches are counted.
    """

    def __init__(self, cupy: Any, macros: str, launched: list[int] | None) -> None:
        self._make = array_maker(cupy)
        self._module = KernelModule(cupy, macros + COLUMNS_SOURCE + _SOURCE, launched)
        self._launched = self._module.launched
        self._gpu = gpu_getter(cupy)
        #: By dtype and shape, axes and kind: the shape of the result and the launch; an empty tuple is left to CuPy.
        self._calls: dict[Any, tuple[Any, ...]] = {}

    def sum(self, a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        """Return the sum over axes."""
        result = self._over(a, axis, keepdims, False) if dtype is None else None
        return a.sum(axis, dtype, None, keepdims) if result is None else result

    def mean(self, a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        """Return the mean over axes."""
        result = self._over(a, axis, keepdims, True) if dtype is None else None
        return a.mean(axis, dtype, None, keepdims) if result is None else result

    def add_leading(self, total: Any, a: Any) -> Any:
        """Add the sum of `a` over its leading axes to an array of its last one, and return this; None for other arrays.

        Args:
            total: shape (width,), in C order.
            a: shape (..., width).
        """
        key: Any = a.dtype, a.shape, a._c_contiguous, total.dtype, total.shape
        if self._gpu is not None:
            key = *key, self._gpu()
        call = self._calls.get(key)
        if call is None:
            call = remember(self._calls, key, self._find_addition(total, a))
        if not call:
            return None
        kernel, grid, block, numbers = call
        self._launched[0] += 1
        kernel(grid, block, (a, total, *numbers))
        return total

    def _find_addition(self, total: Any, a: Any) -> tuple[Any, ...]:
        """Return the launch for arrays like these; an empty tuple where there is none."""
        shape = a.shape
        if total.dtype != a.dtype or len(shape) < 2 or total.shape != shape[-1:] or shape[-1] < 2:
            return ()
        found = self._find_call(a, tuple(range(len(shape) - 1)), False, False)
        if not found:
            return ()
        _, _, _, grid, block, numbers = found
        return self._module.kernel("add_columns", TYPES[a.dtype.char]), grid, block, numbers

    def _over(self, a: Any, axis: Any, keepdims: bool, is_mean: bool) -> Any:
        """Return the sum or mean; None for what is left to CuPy."""
        axes = axis if axis.__class__ is not list else tuple(axis)
        key: Any = a.dtype, a.shape, a._c_contiguous, axes, keepdims, is_mean
        if self._gpu is not None:
            key = *key, self._gpu()
        call = self._calls.get(key)
        if call is None:
            call = remember(self._calls, key, self._find_call(a, axis, keepdims, is_mean))
        if not call:
            return None
        shape, dtype, kernel, grid, block, numbers = call
        out = self._make(shape, dtype)
        kernel(grid, block, (a, out, *numbers))
        self._launched[0] += 1
        return out

    def _find_call(self, a: Any, axis: Any, keepdims: bool, is_mean: bool) -> tuple[Any, ...]:
        """Return the launch on the current GPU for arrays like this one; an empty tuple for what is left to CuPy."""
        shape, dtype = a.shape, a.dtype
        ndim = len(shape)
        if dtype.char not in "fd" or not a._c_contiguous:
            return ()
        if axis is None:
            first, last = 0, ndim
        elif type(axis) is int or isinstance(axis, np.integer):
            first = int(axis) + ndim if axis < 0 else int(axis)
            last = first + 1
        elif not isinstance(axis, (tuple, list)):
            return ()
        else:
            axes = sorted(one + ndim if one < 0 else one for one in axis)
            if not axes or axes != list(range(axes[0], axes[-1] + 1)):
                return ()
            first, last = axes[0], axes[-1] + 1
        if not 0 <= first < last <= ndim:
            return ()
        length, blocks, width = prod(shape[first:last]), prod(shape[:first]), prod(shape[last:])
        if not 0 < length <= _LONGEST or not blocks or not width or blocks > 65535:
            return ()
        result = (*shape[:first], *((1,) * (last - first) if keepdims else ()), *shape[last:])
        kernel, number = self._module.kernel, self._module.number
        divisor = number(dtype.type(length if is_mean else 1))
        if width == 1:
            threads = 1024 if length > 2048 else 256 if length > 128 else 32
            rows = kernel("sum_rows", TYPES[dtype.char])
            return result, dtype.char, rows, (blocks,), (threads,), (number(length), divisor)
        at_once, threads = columns_and_threads(length, width, blocks)
        grid = (width + at_once - 1) // at_once, blocks
        numbers = *map(number, (length, width, at_once)), divisor
        return result, dtype.char, kernel("sum_columns", TYPES[dtype.char]), grid, (threads,), numbers
