"""Softmax and its logarithm, without overflow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays.values import as_array, empty_like
from ...core.recording.kernels import device_kernel
from ...core.recording.primitive import derivative, primitive
from .arguments import floating
from .rows import maximum_along, sum_along

__all__ = ["exponentials", "log_softmax", "softmax", "softmax_", "softmax_grad", "softmin"]

#: By dtype: an input up to which exponentials, and sums of many, are finite; and a sum from which on no exponential
#: that matters has underflowed.
MODERATE = {np.dtype(np.float32): (60.0, 1e-18), np.dtype(np.float64): (600.0, 1e-200)}


@np.errstate(invalid="ignore")  # a row of minus infinities, or with an infinity, gives NaNs
def exponentials(x: Any, axis: int, *, empty: bool = False) -> tuple[Any, Any]:
    """Return `exp(x - c)` and its sums along `axis`, where c is chosen so that neither overflows.

    For inputs of moderate size c is 0. Then the maxima of the rows, which cost more than everything else, are not
    needed, and no difference is rounded. Where the array is no ndarray, c is the maximum of each row: to ask whether
    inputs are moderate would be to wait for a device.

    Args:
        x: a floating array.
        axis: the axis to sum along, which stays as an axis of length 1 in the sums.
        empty: return zeros, and a sum of 0, for a row of minus infinities; without it they are NaNs.
    """
    bounds = MODERATE.get(x.dtype)
    if bounds is not None and x.size and x.__class__ is np.ndarray:
        largest, least_sum = bounds
        if x.max() <= largest:
            values = np.exp(x, out=empty_like(x))
            sums = sum_along(values, axis)
            if sums.min() >= least_sum:
                return values, sums
    maxima = maximum_along(x, axis)
    if empty:
        maxima[maxima == -np.inf] = 0
    values = x - maxima
    np.exp(values, out=values)
    return values, sum_along(values, axis)


@primitive()
@device_kernel("softmax(x, axis)")
def softmax_(x: Any, axis: int) -> Any:
    """Return exp(x) / sum(exp(x)) along an axis."""
    values, sums = exponentials(floating(as_array(x)), axis)
    values /= sums
    return values


@derivative(softmax_, "x")
def _(g: Any, out: Any, axis: int) -> Any:
    return softmax_grad(g, out, axis)


@primitive()
@device_kernel("softmax_grad(g, y, axis)")
def softmax_grad_(g: Any, y: Any, axis: int) -> Any:
    """Return y (g - sum(g y)), the gradient of softmax with the result y."""
    value = g * y
    np.subtract(g, sum_along(value, axis), out=value)
    value *= y
    return value


# The Jacobian of softmax is symmetric.
@derivative(softmax_grad_, "g")
def _(h: Any, y: Any, axis: int) -> Any:
    return softmax_grad(h, y, axis)


@derivative(softmax_grad_, "y")
def _(h: Any, g: Any, y: Any, axis: int) -> Any:
    return h * g - g * np.sum(h * y, axis=axis, keepdims=True) - h * np.sum(g * y, axis=axis, keepdims=True)


_softmax = softmax_.call
softmax_grad: Callable[..., Any] = softmax_grad_.call


def softmax(x: Any, axis: int = -1) -> Any:
    """Return `exp(x) / sum(exp(x))` along an axis, without overflow.

    A row that holds minus infinities only gives NaNs.

    Args:
        x: any shape with at least one axis.
        axis: the axis along which the results sum to 1.

    Source: torch.nn.functional.softmax.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.softmax(np.array([1000.0, 1000.0, -np.inf]))
        array([0.5, 0.5, 0. ])
    """
    return _softmax(x, axis)


def softmin(x: Any, axis: int = -1) -> Any:
    """Return `softmax(-x, axis)`.

    Args:
        x: any shape with at least one axis.
        axis: the axis along which the results sum to 1.

    Source: torch.nn.functional.softmin.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.softmin(np.array([1000.0, 1000.0, np.inf]))
        array([0.5, 0.5, 0. ])
    """
    return softmax(-x, axis)


@primitive()
@device_kernel("log_softmax(x, axis)")
def log_softmax_(x: Any, axis: int) -> Any:
    """Return x - log(sum(exp(x))) along an axis."""
    x = floating(as_array(x))
    with np.errstate(invalid="ignore"):
        values = np.subtract(x, maximum_along(x, axis), out=empty_like(x))
        values -= np.log(sum_along(np.exp(values), axis))
    return values


@derivative(log_softmax_, "x")
def _(g: Any, out: Any, axis: int) -> Any:
    return log_softmax_grad(g, out, axis)


@primitive()
@device_kernel("log_softmax_grad(g, y, axis)")
def log_softmax_grad_(g: Any, y: Any, axis: int) -> Any:
    """Return g - exp(y) sum(g), the gradient of log_softmax with the result y."""
    value = np.exp(y)
    value *= sum_along(g, axis)
    return np.subtract(g, value, out=value)


@derivative(log_softmax_grad_, "g")
def _(h: Any, y: Any, axis: int) -> Any:
    return h - np.sum(h * np.exp(y), axis=axis, keepdims=True)


@derivative(log_softmax_grad_, "y")
def _(h: Any, g: Any, y: Any, axis: int) -> Any:
    return -h * np.exp(y) * np.sum(g, axis=axis, keepdims=True)


_log_softmax = log_softmax_.call
log_softmax_grad: Callable[..., Any] = log_softmax_grad_.call


def log_softmax(x: Any, axis: int = -1) -> Any:
    """Return the logarithm of `softmax(x, axis)`, accurate even if that is close to 0 or 1.

    Args:
        x: any shape with at least one axis.
        axis: the axis along which the exponentials of the results sum to 1.

    Source: torch.nn.functional.log_softmax.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.log_softmax(np.array([0.0, 1000.0]))
        array([-1000.,     0.])
    """
    return _log_softmax(x, axis)
