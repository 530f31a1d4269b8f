"""Products of stacks of matrices by cuBLAS, in one call for a whole stack, wherever in memory its matrices lie.

CuPy copies each operand that is not in C order, as the transposed one of each product and the heads of an attention
are not. Here a matrix has to lie in rows or in columns, and the matrices of a stack may be apart in any two steps.
"""

from __future__ import annotations

import threading
from itertools import count
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from .._call_caches import remember
from .arrays import array_maker
from .library import handle_getter
from .modules import KernelModule

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["product_functions"]

_THREADS = 256
_ADDRESS = np.dtype(np.uint64)
#: How many addresses are kept in one array, and in all arrays of a thread.
_BLOCK, _MOST_KEPT = 1 << 12, 1 << 17

_SOURCE = """
// The addresses of the matrices of three stacks: of each the first one, and the steps along both axes of the stack.
extern "C" __global__ void matrix_addresses(
    unsigned long long* out, long long count, long long length,
    const char* x, long long x_step, long long x_small_step, const char* y, long long y_step, long long y_small_step,
    const char* z, long long z_step, long long z_small_step) {
    for (long long k = (long long)blockIdx.x * blockDim.x + threadIdx.x; k < count;
         k += (long long)gridDim.x * blockDim.x) {
        long long place = k % length, row = k / length;
        out[k] = (unsigned long long)(x + row * x_step + place * x_small_step);
        out[count + k] = (unsigned long long)(y + row * y_step + place * y_small_step);
        out[2 * count + k] = (unsigned long long)(z + row * z_step + place * z_small_step);
    }
}
"""


def product_functions(cupy: Any, macros: str = "", launched: list[int] | None = None) -> dict[Any, Callable[..., Any]]:
    """Return the functions by the names that asyncgrad's neural network functions look them up by.

    Args:
        cupy: the module.
        macros: what the compiler needs before the source.
        launched: where launches are counted, and calls of cuBLAS.
    """
    return {"batched_product": _Products(cupy, macros, launched).product}


class _Plan(NamedTuple):
    """How a product of two stacks is computed."""

    #: The shape of the result in the order of its axes in memory, and where these go; None where they stay.
    shape: tuple[int, ...]
    axes: tuple[int, ...] | None
    #: What cuBLAS takes first: which operands it is to transpose, and the numbers of columns, rows and summands.
    numbers: tuple[int, ...]
    #: The addresses in the host's memory of the factor and of 0, and the array that has them.
    factor: int
    zero: int
    keeps_alive: Any
    #: How many elements apart the lines of the right matrices, the left ones and those of the result begin.
    pitches: tuple[int, int, int]
    #: The number of matrices in a stack.
    number: int
    #: How many elements apart the matrices of each stack are, in the same order; None where that differs.
    steps: tuple[int, int, int] | None
    #: Otherwise the number of matrices along the last axis of the stacks, and of each stack both its steps in bytes.
    length: int
    both_steps: Sequence[tuple[int, int]]
    #: The kernel that computes the addresses of the matrices.
    kernel: Any
    #: What no other plan has.
    serial: int


@final
class _Addresses(threading.local):
    """Addresses of matrices in the GPU's memory, for products that come again with arrays at the same places.

    A training allocates alike in each step, so its arrays lie where those of the step before lay. Each thread and each
    stream has addresses of its own: memory that is used again is written by later work of the same stream, when the
    products that read it have run.

    Args:
        ndarray: the type of arrays.
    """

    def __init__(self, ndarray: Any) -> None:
        self._ndarray = ndarray
        #: By plan, places of the arrays and stream: the place of the addresses.
        self.kept: dict[Any, int] = {}
        #: All arrays of addresses, and their length together.
        self._arrays: list[Any] = []
        self._length = 0
        #: By GPU and stream: the place of the next addresses, and the end of their array.
        self._free: dict[tuple[int, int], tuple[int, int]] = {}

    def place(self, gpu: int, stream: int, count: int) -> int:
        """Return where so many new addresses may be written by work on a stream, the current one of the current GPU."""
        size = count * _ADDRESS.itemsize
        begin, end = self._free.get((gpu, stream), (0, 0))
        if begin + size > end:
            length = max(count, _BLOCK)
            if self._length + length > _MOST_KEPT:
                self._length = 0
                for everything in (self.kept, self._arrays, self._free):
                    everything.clear()
            array = self._ndarray((length,), _ADDRESS)
            self._arrays.append(array)
            self._length += length
            begin, end = array.data.ptr, array.data.ptr + length * _ADDRESS.itemsize
        self._free[gpu, stream] = begin + size, end
        return begin


@final
class _Products:
    """Products of stacks of matrices of float32 and float64.

    Args:
        cupy: the module.
        macros: what the compiler needs before the source.
        launched: where launches are counted, and calls of cuBLAS.
    """

    def __init__(self, cupy: Any, macros: str, launched: list[int] | None) -> None:
        from cupy_backends.cuda.libs import cublas

        self._ndarray = cupy.ndarray
        self._new = array_maker(cupy)
        self._handle = handle_getter(cupy)
        self._module = KernelModule(cupy, macros + _SOURCE, launched)
        self._launched = self._module.launched
        #: By dtype, the functions for matrices that are equally far apart, and for those at given addresses.
        self._routines = {
            "f": (cublas.sgemmStridedBatched, cublas.sgemmBatched),
            "d": (cublas.dgemmStridedBatched, cublas.dgemmBatched),
        }
        self._current_stream = cupy.cuda.get_current_stream
        self._addresses = _Addresses(cupy.ndarray)
        self._serials = count()
        #: By all that decides on a product, its plan, or None where it has none.
        self._plans: dict[Any, _Plan | None] = {}

    def product(
        self, x: Any, y: Any, scale: float = 1.0, x_is_transposed: bool = False, y_is_transposed: bool = False
    ) -> Any:
        """Return scale * x @ y for two stacks of matrices of one shape and dtype; None for what is left to CuPy.

        The result lies in memory with its axes in the order of those of y, unless y is transposed.

        Args:
            x: shape (..., rows, length).
            y: shape (..., length, columns).
            scale: a factor of all elements.
            x_is_transposed: whether the matrices of x are transposed first.
            y_is_transposed: the same for y.
        """
        ndarray = self._ndarray
        if type(x) is not ndarray or type(y) is not ndarray:
            return None
        dtype, data = x.dtype, x.data
        key = (
            x.shape, x.strides, y.shape, y.strides, dtype, y.dtype, scale, x_is_transposed, y_is_transposed,
            data.device_id,
        )  # fmt: skip
        try:
            plan = self._plans[key]
        except KeyError:
            plan = remember(self._plans, key, self._plan(x, y, scale, x_is_transposed, y_is_transposed))
        if plan is None:
            return None
        out = self._new(plan.shape, dtype)
        self._launched[0] += 1
        strided, batched = self._routines[dtype.char]
        y_pitch, x_pitch, pitch = plan.pitches
        number = plan.number
        if plan.steps is not None:
            y_step, x_step, step = plan.steps
            strided(
                self._handle(), *plan.numbers, plan.factor, y.data.ptr, y_pitch, y_step, data.ptr, x_pitch, x_step,
                plan.zero, out.data.ptr, pitch, step, number,
            )  # fmt: skip
        else:
            begin, size = self._addresses_of(plan, x, y, out), _ADDRESS.itemsize * number
            batched(
                self._handle(), *plan.numbers, plan.factor, begin, y_pitch, begin + size, x_pitch, plan.zero,
                begin + 2 * size, pitch, number,
            )  # fmt: skip
        return out if plan.axes is None else out.transpose(plan.axes)

    def _addresses_of(self, plan: _Plan, x: Any, y: Any, out: Any) -> int:
        """Return where the GPU has the addresses of the matrices of y, of x and of the result, one after the other."""
        addresses, stream, data = self._addresses, self._current_stream().ptr, x.data
        key = plan.serial, data.ptr, y.data.ptr, out.data.ptr, stream
        begin = addresses.kept.get(key)
        if begin is not None:
            return begin
        number = plan.number
        begin = addresses.place(data.device_id, stream, 3 * number)
        first, second, third = plan.both_steps
        plan.kernel(number, (begin, number, plan.length, y, *first, x, *second, out, *third), 0, _THREADS)
        self._launched[0] += 1
        addresses.kept[key] = begin
        return begin

    def _plan(self, x: Any, y: Any, scale: float, x_is_transposed: bool, y_is_transposed: bool) -> _Plan | None:
        """Return how to compute a product; None if it is left to CuPy."""
        dtype, shape = x.dtype, x.shape
        if dtype.char not in self._routines or y.dtype != dtype or len(shape) < 3 or shape[:-2] != y.shape[:-2]:
            return None
        rows, length = shape[-2:] if not x_is_transposed else shape[:-3:-1]
        summed, columns = y.shape[-2:] if not y_is_transposed else y.shape[:-3:-1]
        x_lines, y_lines = _lines(x), _lines(y)
        if length != summed or not x.size or not y.size or x_lines is None or y_lines is None:
            return None
        (x_in_rows, x_pitch), (y_in_rows, y_pitch) = x_lines, y_lines
        item, stack = x.itemsize, shape[:-2]
        out_shape = (*stack, rows, columns)
        follows = y_in_rows and not y_is_transposed
        order = _axes_in_memory(y) if follows else tuple(range(len(out_shape)))
        strides = _strides(out_shape, order, item)
        stacks = _merged(stack, y.strides[:-2], x.strides[:-2], strides[:-2])
        if len(stacks) > 2 or any(step % item for _, steps in stacks for step in steps):
            return None
        (_, outer), (inner_length, inner) = ((1, (0, 0, 0)), (1, (0, 0, 0)), *stacks)[-2:]
        factors = np.array([scale, 0], dtype)
        return _Plan(
            shape=tuple([out_shape[axis] for axis in order]),
            axes=None if order == tuple(range(len(order))) else tuple(np.argsort(order).tolist()),
            # cuBLAS counts columns first, so that it computes the transposed result.
            numbers=(int(y_in_rows == y_is_transposed), int(x_in_rows == x_is_transposed), columns, rows, length),
            factor=factors.ctypes.data,
            zero=factors[1:].ctypes.data,
            keeps_alive=factors,
            pitches=(y_pitch, x_pitch, strides[-2] // item),
            number=prod(stack),
            steps=None if len(stacks) > 1 else (inner[0] // item, inner[1] // item, inner[2] // item),
            length=inner_length,
            both_steps=list(zip(outer, inner, strict=True)),
            kernel=self._module.launcher("matrix_addresses") if len(stacks) > 1 else None,
            serial=next(self._serials),
        )


def _lines(a: Any) -> tuple[bool, int] | None:
    """Return whether the matrices of a stack lie in rows, and not in columns, and how many elements apart these begin.

    Return None for matrices that lie otherwise.
    """
    (rows, columns), (down, right), item = a.shape[-2:], a.strides[-2:], a.itemsize
    # The stride of an axis of length 1 means nothing.
    if (right == item or columns == 1) and (rows == 1 or (down >= columns * item and not down % item)):
        return True, columns if rows == 1 else down // item
    if (down == item or rows == 1) and right >= rows * item and not right % item:
        return False, right // item
    return None


def _axes_in_memory(a: Any) -> tuple[int, ...]:
    """Return the axes of an array in the order in which they lie in memory, the last one as the last."""
    first = range(a.ndim - 1)
    if any(not stride and size > 1 for size, stride in zip(a.shape, a.strides, strict=True)):
        return (*first, a.ndim - 1)
    return (*sorted(first, key=lambda axis: -a.strides[axis]), a.ndim - 1)


def _strides(shape: tuple[int, ...], order: Sequence[int], item: int) -> tuple[int, ...]:
    """Return the strides of an array without gaps whose axes lie in memory in some order."""
    strides = [0] * len(shape)
    for axis in reversed(order):
        strides[axis] = item
        item *= shape[axis]
    return tuple(strides)


def _merged(shape: tuple[int, ...], *strides: tuple[int, ...]) -> list[tuple[int, tuple[int, ...]]]:
    """Return the lengths and the strides of the axes of some arrays of one shape, as few axes as can be."""
    merged: list[tuple[int, tuple[int, ...]]] = []
    for size, steps in zip(shape, zip(*strides, strict=True), strict=True):
        if size == 1:
            continue
        if merged and merged[-1][1] == tuple([step * size for step in steps]):
            merged[-1] = merged[-1][0] * size, steps
        else:
            merged.append((size, steps))
    return merged
