"""The functions of `numpy.emath`, which give complex results where a real argument has none among real numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.axes import array_like, arrays_together
from ..arrays.values import raw
from ..recording.primitive import RULES

if TYPE_CHECKING:
    from ..arrays.array import Array


__all__ = ["arccos", "arcsin", "arctanh", "log", "log2", "log10", "logn", "power", "sqrt"]


def _complex_below_zero(x: Any) -> Any:
    """Return an array, as complex numbers if any element is a negative real number."""
    return _as_complex(x) if x.dtype.kind != "c" and np.any(raw(x) < 0) else x


def _complex_beyond_one(x: Any) -> Any:
    """Return an array, as complex numbers if any element is a real number beyond -1 and 1."""
    return _as_complex(x) if x.dtype.kind != "c" and np.any(np.abs(raw(x)) > 1) else x


def _as_complex(x: Array) -> Any:
    """Return an array as complex64 if it holds float32 or short whole numbers, else as complex128, as NumPy does."""
    return x.astype(np.complex64 if x.dtype.char in "fbhBH" else np.complex128)


def sqrt(x: Any) -> Any:
    """Return the square root, an imaginary one of negative numbers."""
    return np.sqrt(_complex_below_zero(array_like(x)))


def log(x: Any) -> Any:
    """Return the natural logarithm, the complex one if any number is negative."""
    return np.log(_complex_below_zero(array_like(x)))


def log2(x: Any) -> Any:
    """Return the logarithm to base 2, the complex one if any number is negative."""
    return np.log2(_complex_below_zero(array_like(x)))


def log10(x: Any) -> Any:
    """Return the logarithm to base 10, the complex one if any number is negative."""
    return np.log10(_complex_below_zero(array_like(x)))


def logn(n: Any, x: Any) -> Any:
    """Return the logarithm of x to base n, the complex one if any number is negative."""
    n, x = arrays_together((n, x))
    return np.log(_complex_below_zero(x)) / np.log(_complex_below_zero(n))


def power(x: Any, p: Any) -> Any:
    """Return x to the power p, a complex one if any x is negative; a negative power of whole numbers is a fraction."""
    x, p = arrays_together((x, p))
    if p.dtype.kind in "iu" and np.any(raw(p) < 0):
        p = p * 1.0
    return np.power(_complex_below_zero(x), p)


def arccos(x: Any) -> Any:
    """Return the inverse cosine, the complex one if any number lies beyond -1 and 1."""
    return np.arccos(_complex_beyond_one(array_like(x)))


def arcsin(x: Any) -> Any:
    """Return the inverse sine, the complex one if any number lies beyond -1 and 1."""
    return np.arcsin(_complex_beyond_one(array_like(x)))


def arctanh(x: Any) -> Any:
    """Return the inverse hyperbolic tangent, the complex one if any number lies beyond -1 and 1."""
    return np.arctanh(_complex_beyond_one(array_like(x)))


RULES.update(
    {
        np.emath.sqrt: sqrt,
        np.emath.log: log,
        np.emath.log2: log2,
        np.emath.log10: log10,
        np.emath.logn: logn,
        np.emath.power: power,
        np.emath.arccos: arccos,
        np.emath.arcsin: arcsin,
        np.emath.arctanh: arctanh,
    }
)
