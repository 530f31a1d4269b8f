"""Smooth activation functions that are put together of the exponential and its kin."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays.values import as_array
from ...core.ops.composites import composite
from ...core.recording.kernels import fused
from ...core.recording.primitive import derivative, primitive
from ...errors import ArgumentError
from .activations import elu, sigmoid, softplus
from .arguments import array_of, check_real, real_floating

__all__ = ["celu", "glu", "logsigmoid", "mish", "selu", "softsign", "tanhshrink"]

# mish


def _tanh_of_softplus(x: Any) -> Any:
    return np.tanh(np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0))


@primitive()
@fused(lambda x: x * _tanh_of_softplus(x))
def mish_(x: Any) -> Any:
    """Return x * tanh(softplus(x))."""
    x = real_floating("mish", "x", as_array(x))
    return x * _tanh_of_softplus(x)


@derivative(mish_, "x")
def _(g: Any, x: Any) -> Any:
    return g * mish_slope(x)


def _mish_slope(x: Any) -> Any:
    t = _tanh_of_softplus(x)
    # Not 1 / (1 + exp(-x)), which is 0 where the exponential overflows, and x times the right one is a number.
    exponential = np.exp(-np.abs(x))
    return t + x * (1 - t * t) * (np.where(x < 0, exponential, 1) / (1 + exponential))


@primitive()
@fused(_mish_slope)
def mish_slope_(x: Any) -> Any:
    """Return the derivative of mish, t + x t', where t = tanh(softplus(x)) and t' = (1 - t^2) sigmoid(x)."""
    return _mish_slope(x)


@derivative(mish_slope_, "x")
def _(h: Any, x: Any) -> Any:
    # In terms of the sigmoid and of what is left of it to 1: 1 - t^2 has no digits far above 0.
    s, rest = sigmoid(x), sigmoid(-x)
    sum_of_squares = 1 + rest * rest
    t = s * (1 + rest) / sum_of_squares
    slope = 4 * s * (rest / sum_of_squares) ** 2
    return h * slope * (2 + x * (rest - 2 * t * s))


_mish = mish_.call
mish_slope: Callable[..., Any] = mish_slope_.call


def mish(x: Any) -> Any:
    """Return `x * tanh(softplus(x))`.

    Args:
        x: any shape.

    Raises:
        ArgumentTypeError: x is complex.

    Source: torch.nn.functional.mish.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.mish(np.array([0.0, 1.0]))
        array([0.        , 0.86509839])
    """
    return _mish(x)


# selu, celu

#: The factors that keep a mean of 0 and a variance of 1 from layer to layer.
SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


@composite("x")
def _selu(x: Any) -> Any:
    return elu(x, SELU_ALPHA) * SELU_SCALE


def selu(x: Any) -> Any:
    """Return `elu(x, alpha)` times a factor, which keep outputs of mean 0 and variance 1 so from layer to layer.

    Args:
        x: any shape.

    Raises:
        ArgumentTypeError: x is complex.

    Source: torch.nn.functional.selu.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.selu(np.array([-1000.0, 1.0]))
        array([-1.75809934,  1.05070099])
    """
    check_real("selu", x=x)
    return _selu(x)


@primitive()
@fused(lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha)))
def celu_(x: Any, alpha: float) -> Any:
    """Return x where it is positive, and alpha (exp(x / alpha) - 1) elsewhere."""
    x = real_floating("celu", "x", as_array(x))
    # One of the summands is 0: np.where takes ten times as long as a sum.
    return np.clip(x, 0, np.inf) + alpha * np.expm1(np.clip(x, -np.inf, 0) / alpha)


@derivative(celu_, "x")
def _(g: Any, x: Any, alpha: float) -> Any:
    return g * celu_slope(x, alpha, 1.0, 1.0)


@primitive()
@fused(lambda x, alpha, factor, positive: np.where(x > 0, positive, factor * np.exp(np.minimum(x, 0) / alpha)))
def celu_slope_(x: Any, alpha: float, factor: float, positive: float) -> Any:
    """Return `positive` where x is positive, and factor exp(x / alpha) elsewhere: with 1 and 1 the slope of celu."""
    negative = factor * np.exp(np.clip(x, -np.inf, 0) / alpha) * np.logical_not(x > 0)
    return negative + positive * (x > 0).astype(x.dtype)


@derivative(celu_slope_, "x")
def _(h: Any, x: Any, alpha: float, factor: float) -> Any:
    return h * celu_slope(x, alpha, factor, 0.0) / alpha


_celu = celu_.call
celu_slope: Callable[..., Any] = celu_slope_.call


def celu(x: Any, alpha: float = 1.0) -> Any:
    """Return x where it is positive, and `alpha * (exp(x / alpha) - 1)` elsewhere, which has a slope of 1 at 0.

    Args:
        x: any shape.
        alpha: the function tends to `-alpha` at minus infinity; not 0.

    Raises:
        ArgumentError: alpha is 0.
        ArgumentTypeError: x is complex.

    Source: torch.nn.functional.celu.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.celu(np.array([-1000.0, 2.0]), 0.5)
        array([-0.5,  2. ])
    """
    if alpha == 0:
        raise ArgumentError("celu divides by alpha, which must not be 0")
    return _celu(x, alpha)


# logsigmoid, softsign, tanhshrink


@composite("x")
def _logsigmoid(x: Any) -> Any:
    return -softplus(-x, 1.0, math.inf)


def logsigmoid(x: Any) -> Any:
    """Return the logarithm of `sigmoid(x)`, without overflow.

    Args:
        x: any shape.

    Raises:
        ArgumentTypeError: x is complex.

    Source: torch.nn.functional.logsigmoid.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.logsigmoid(np.array([-100.0, 0.0]))
        array([-100.        ,   -0.69314718])
    """
    check_real("logsigmoid", x=x)
    return _logsigmoid(x)


@primitive()
@fused(lambda x: x / (1 + np.abs(x)))
def softsign_(x: Any) -> Any:
    """Return x / (1 + abs(x))."""
    return x / (1 + np.abs(x))


# Not the derivative of the quotient, which is a difference of two numbers that are nearly equal far from 0.
@derivative(softsign_, "x")
def _(g: Any, x: Any) -> Any:
    return g / (1 + np.abs(x)) / (1 + np.abs(x))


_softsign = softsign_.call


def softsign(x: Any) -> Any:
    """Return `x / (1 + abs(x))`.

    Args:
        x: any shape.

    Raises:
        ArgumentTypeError: x is complex.

    Source: torch.nn.functional.softsign.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.softsign(np.array([-3.0, 1.0]))
        array([-0.75,  0.5 ])
    """
    check_real("softsign", x=x)
    return _softsign(x)


@primitive()
@fused(lambda x: x - np.tanh(x))
def tanhshrink_(x: Any) -> Any:
    """Return x - tanh(x)."""
    return x - np.tanh(x)


# Not 1 less the derivative of tanh, which is nearly 1 next to 0.
@derivative(tanhshrink_, "x")
def _(g: Any, x: Any) -> Any:
    return g * np.square(np.tanh(x))


_tanhshrink = tanhshrink_.call


def tanhshrink(x: Any) -> Any:
    """Return `x - tanh(x)`.

    Args:
        x: any shape.

    Source: torch.nn.functional.tanhshrink.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.tanhshrink(np.array([0.0, 1.0]))
        array([0.        , 0.23840584])
    """
    return _tanhshrink(x)


@composite("x", "gate")
def _gated(x: Any, gate: Any) -> Any:
    return x * sigmoid(gate)


def glu(x: Any, axis: int = -1) -> Any:
    """Return the first half of x along an axis, times the sigmoid of the second half.

    Args:
        x: any shape with at least one axis.
        axis: the axis to halve, which has an even length.

    Raises:
        ArgumentError: there is no such axis, or its length is odd.

    Source: torch.nn.functional.glu.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.glu(np.array([1.0, 2.0, 0.0, 1000.0]))
        array([0.5, 2. ])
    """
    shape = array_of(x).shape
    if not -len(shape) <= axis < len(shape) or shape[axis] % 2:
        raise ArgumentError(f"glu halves an axis of x of even length, and axis {axis} of the shape {shape} is none")
    return _gated(*np.split(x, 2, axis))
