"""New arrays of CuPy's type, in less time on the host than its constructor takes; and the GPU that they are made on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["array_maker", "gpu_getter"]


def array_maker(cupy: Any) -> Callable[[Any, Any], Any]:
    """Return a function that makes an array in C order, without values, of a shape and dtype.

    `cupy.ndarray` passes its arguments from one constructor to the next, and spends a quarter of its time on that. Its
    base makes the object, and has a method that does the rest. It finds a dtype by its character soonest.

    Args:
        cupy: the module, or what stands in for it in a test.
    """
    ndarray = cupy.ndarray
    base = ndarray.__mro__[1]
    initialize = getattr(base, "_init", None)
    if initialize is None:
        return ndarray  # type: ignore[no-any-return]
    new = base.__new__

    def make(shape: Any, dtype: Any) -> Any:
        out = new(ndarray)
        initialize(out, shape, dtype)
        return out

    return make


def gpu_getter(cupy: Any) -> Callable[[], int] | None:
    """Return a function that returns the number of the current GPU; None if there is only one.

    A kernel that has been loaded belongs to one GPU.
    """
    runtime = cupy.cuda.runtime
    return runtime.getDevice if runtime.getDeviceCount() > 1 else None
