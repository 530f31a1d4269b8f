"""Convolution and correlation of two rows of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.axes import array_like
from ..recording.primitive import RULES, derivative, primitive
from .shaping import atleast_1d

if TYPE_CHECKING:
    from ..arrays.array import Array


__all__ = ["convolve", "correlate"]


@primitive(superlinear=True)
def convolve_(a: Any, v: Any) -> Array:
    """Return the whole convolution, of length n + m - 1."""
    return np.convolve(a, v)


def _gradient(g: Array, other: Array) -> Any:
    """Return the gradient of one row, the correlation of the gradient with the other row."""
    length = other.shape[0]
    return convolve_.call(g, np.flip(other))[length - 1 : g.shape[0]]


@derivative(convolve_, "a")
def _(g: Array, v: Any) -> Array:
    return _gradient(g, v)


@derivative(convolve_, "v")
def _(g: Array, a: Any) -> Array:
    return _gradient(g, a)


def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    """Return the convolution of two rows: all of it, its middle, or the part where they overlap wholly."""
    a, v = _row(a), _row(v)
    return _middle(convolve_.call(a, v), mode, a.size, v.size, (min(a.size, v.size) - 1) // 2)


def _row(row: Any) -> Any:
    row = atleast_1d(array_like(row))
    if row.ndim != 1 or not row.size:
        raise ValueError(f"a convolution is of two rows that are not empty, and one has the shape {row.shape}")
    return row


def _middle(whole: Any, mode: str | int, first: int, second: int, start: int) -> Any:
    """Return the part of a whole convolution that the mode asks for, given the two lengths."""
    if not isinstance(mode, (str, int, np.integer)) or isinstance(mode, bool):
        raise TypeError(f"a convolution takes mode='full', 'same' or 'valid', not {mode!r}")
    if not isinstance(mode, str):
        # As NumPy: modes have numbers, too.
        mode = dict(enumerate(("valid", "same", "full"))).get(int(mode), mode)
    longer, shorter = max(first, second), min(first, second)
    if mode == "full":
        return whole
    if mode == "valid":
        return whole[shorter - 1 : longer]
    if mode == "same":
        return whole[start : start + longer]
    raise ValueError(f"a convolution takes mode='full', 'same' or 'valid', not {mode!r}")


RULES[np.convolve] = convolve


def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    """Return the correlation of two rows: the convolution with the second in reverse, conjugated."""
    a, v = _row(a), np.flip(_row(v))
    whole = convolve_.call(a, np.conjugate(v) if v.dtype.kind == "c" else v)
    # An even number of elements has two middles; NumPy takes the other one where the second row is the longer.
    start = (v.size - 1) // 2 if v.size <= a.size else a.size // 2
    return _middle(whole, mode, a.size, v.size, start)


RULES[np.correlate] = correlate
