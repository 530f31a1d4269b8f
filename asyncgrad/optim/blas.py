"""BLAS's `axpy`, where SciPy is installed: it adds a multiple of an array to another one in one pass over memory.

NumPy needs two passes, a product and a sum, which take up to twice the time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

__all__ = ["LEAST", "add_multiple", "find_axpy"]

#: The elements of an array from which on a call of BLAS takes less time than two of NumPy.
LEAST = 1 << 10
#: The elements that BLAS is given at a time. OpenBLAS has threads share more; how the last bits are rounded would then
#: depend on their number. And a call holds the interpreter's lock.
_BLOCK = 10_000


@cache
def find_axpy(dtype: np.dtype) -> Callable[..., Any] | None:
    """Return `axpy` for arrays of a dtype; None if there is none, or SciPy is not installed."""
    name = {"f": "saxpy", "d": "daxpy"}.get(dtype.char) if dtype.isnative else None
    if name is None:
        return None
    try:
        blas = import_module("scipy.linalg.blas")
    except ImportError:
        return None
    axpy: Callable[..., Any] = getattr(blas, name)
    return axpy


def add_multiple(axpy: Callable[..., Any], target: Any, array: Any, factor: float) -> None:
    """Add `factor` times an array to `target`, which has its shape and dtype, in place.

    Args:
        axpy: what `find_axpy` returned for that dtype.
        target: C-ordered, aligned, and not empty.
        array: of any order.
        factor: a number.
    """
    flat, others, size = target.reshape(-1), array.reshape(-1), target.size
    if size <= _BLOCK:
        axpy(others, flat, size, factor)
        return
    for start in range(0, size, _BLOCK):
        axpy(others, flat, min(_BLOCK, size - start), factor, start, 1, start)
