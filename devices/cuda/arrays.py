"""What launches need, in less time on the host than CuPy takes: new arrays, and numbers. And the current GPU."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["array_checker", "array_maker", "array_parts", "contiguous", "gpu_getter", "number_maker", "pointer"]

#: The most numbers of one maker.
_MOST_NUMBERS = 4096


def array_parts(cupy: Any) -> tuple[Callable[[Any], Any], Callable[..., None]] | None:
    """Return what makes an array without memory of CuPy's type, and what gives it that; None for a stand-in for CuPy.

    `cupy.ndarray` passes its arguments from one constructor to the next, and spends a quarter of its time on that. Its
    base makes the object, and has a method that does the rest: it takes the shape, dtype, memory, strides and order. It
    finds a dtype by its character soonest, and C order by None.

    Args:
        cupy: the module, or what stands in for it in a test.
    """
    base = cupy.ndarray.__mro__[1]
    initialize = getattr(base, "_init", None)
    return None if initialize is None else (base.__new__, initialize)


def array_maker(cupy: Any) -> Callable[[Any, Any], Any]:
    """Return a function that makes an array in C order, without values, of a shape and dtype.

    Args:
        cupy: the module, or what stands in for it in a test.
    """
    ndarray: Callable[[Any, Any], Any] = cupy.ndarray
    parts = array_parts(cupy)
    if parts is None:
        return ndarray
    new, initialize = parts

    def make(shape: Any, dtype: Any) -> Any:
        out = new(ndarray)
        initialize(out, shape, dtype, None, None, None)
        return out

    return make


def array_checker(cupy: Any, *, in_order: bool) -> Callable[..., bool]:
    """Return a function that tells whether kernels take some arrays together; all but the first may be None.

    They do if all are CuPy's, of one dtype, which is float32 or float64, not empty, and in C order if that is said.
    """
    ndarray = cupy.ndarray

    def fit(*arrays: Any) -> bool:
        dtype = arrays[0].dtype
        if dtype.char not in "fd":
            return False
        # A generator would take longer than all the rest.
        for one in arrays:
            if type(one) is not ndarray:
                if one is not None:
                    return False
            elif one.dtype != dtype or not one.size or (in_order and not one._c_contiguous):
                return False
        return True

    return fit


def number_maker(cupy: Any) -> Callable[[Any], Any]:
    """Return a function that makes what a launch takes for a number: an int or a NumPy scalar; for -0.0, 0.0.

    CuPy makes that anew in each launch, which takes as long as it takes to pass five arrays.

    Args:
        cupy: the module, or what stands in for it in a test.
    """
    if not hasattr(cupy, "_core"):
        return lambda number: number
    # Of numbers that are equal, such as 1 and 1.0, each type has its own.
    return lru_cache(_MOST_NUMBERS, typed=True)(cupy._core._scalar.CScalar)


def gpu_getter(cupy: Any) -> Callable[[], int] | None:
    """Return a function that returns the number of the current GPU; None if there is only one.

    A kernel that has been loaded belongs to one GPU.
    """
    runtime = cupy.cuda.runtime
    return runtime.getDevice if runtime.getDeviceCount() > 1 else None


def contiguous(array: Any) -> Any:
    """Return an array in C order: the same one if it is, else a copy; None stays None."""
    return array if array is None or array._c_contiguous else array.copy()


def pointer(array: Any) -> Any:
    """Return an array as an argument of a kernel; a null pointer for None."""
    return 0 if array is None else array
