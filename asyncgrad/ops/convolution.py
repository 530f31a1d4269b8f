"""Convolution and correlation of two rows of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .axes import array_like
from .primitive import RULES, derivative, primitive
from .shaping import atleast_1d

__all__ = ["convolve", "correlate"]


@primitive()
def convolve_(a: Any, v: Any) -> Any:
    """Return the whole convolution, of length n + m - 1."""
    return np.convolve(a, v)


def _gradient(g: Any, other: Any) -> Any:
    """Correlate: each element of the gradient with what it was multiplied by."""
    length = other.shape[0]
    return convolve_.call(g, np.flip(other))[length - 1 : g.shape[0]]


@derivative(convolve_, "a")
def _(g: Any, v: Any) -> Any:
    return _gradient(g, v)


@derivative(convolve_, "v")
def _(g: Any, a: Any) -> Any:
    return _gradient(g, a)


def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    """Return the convolution of two rows: all of it, its middle, or where they overlap wholly."""
    a, v = atleast_1d(array_like(a)), atleast_1d(array_like(v))
    if a.ndim != 1 or v.ndim != 1 or not a.size or not v.size:
        raise ValueError(f"convolve takes two rows that are not empty, and their shapes are {a.shape} and {v.shape}")
    whole = convolve_.call(a, v)
    if mode == "full":
        return whole
    longer, shorter = max(a.shape[0], v.shape[0]), min(a.shape[0], v.shape[0])
    if mode == "valid":
        return whole[shorter - 1 : longer]
    if mode == "same":
        start = (shorter - 1) // 2
        return whole[start : start + longer]
    raise ValueError(f"convolve takes mode='full', 'same' or 'valid', not {mode!r}")


RULES[np.convolve] = convolve


def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    """Return the correlation of two rows: the convolution with the second in reverse, conjugated."""
    v = np.flip(array_like(v))
    return convolve(a, np.conjugate(v) if v.dtype.kind == "c" else v, mode)


RULES[np.correlate] = correlate
