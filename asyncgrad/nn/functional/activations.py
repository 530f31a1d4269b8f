"""Activation functions, elementwise.

A backward of more than a few NumPy calls is a primitive, which computes in place in one array and has its own
derivatives. That array is made by np.empty, since NumPy's functions would return a scalar, which cannot be written
into, for an x without axes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays.values import as_array, empty_like
from ...core.ops.trigonometric import tanh as tanh_
from ...core.recording.kernels import fused
from ...core.recording.primitive import derivative, primitive
from .arguments import complex_error, floating, real_floating
from .layouts import in_order_of

__all__ = ["elu", "leaky_relu", "logistic", "relu", "sigmoid", "silu", "softplus", "tanh"]


# relu


@primitive()
@fused(lambda x: np.maximum(x, np.zeros_like(x)))
def relu_(x: Any) -> Any:
    """Return max(x, 0)."""
    x = as_array(x)
    if x.dtype.kind == "c":
        raise complex_error("relu", "x", x)
    # NumPy uses vector instructions for a maximum with an array of zeros, but not with the number 0.
    if x.__class__ is np.ndarray:
        zeros = np.zeros(x.shape, x.dtype) if x.flags.c_contiguous else np.zeros_like(x)
        return np.maximum(x, zeros, out=zeros)
    return np.maximum(x, 0, out=empty_like(x))


@derivative(relu_, "x")
def _(g: Any, out: Any) -> Any:
    return relu_grad(g, out)


@primitive()
def relu_grad_(g: Any, y: Any) -> Any:
    """Return g where the result y of relu is positive (or a NaN), and 0 elsewhere."""
    # No result of relu is negative.
    return np.multiply(in_order_of(y, g), y != 0)


@derivative(relu_grad_, "g")
def _(h: Any, y: Any) -> Any:
    return relu_grad(h, y)


@derivative(relu_grad_, "y")
def _(h: Any) -> Any:
    return np.zeros_like(h)


_relu = relu_.call
relu_grad: Callable[..., Any] = relu_grad_.call


def relu(x: Any) -> Any:
    """Return `max(x, 0)`; its derivative at 0 is 0.

    Args:
        x: any shape.

    Raises:
        ArgumentTypeError: x is complex.

    Source: torch.nn.functional.relu.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.relu(np.array([-1.0, 0.0, 2.0]))
        array([0., 0., 2.])
    """
    return _relu(x)


@primitive()
@fused(lambda x, negative_slope: x * np.where(x > 0, np.ones_like(x), negative_slope))
def leaky_relu_(x: Any, negative_slope: float) -> Any:
    """Return x where it is positive, and negative_slope * x elsewhere."""
    return np.multiply(x, leaky_slope(x, negative_slope))


@derivative(leaky_relu_, "x")
def _(g: Any, x: Any, negative_slope: float) -> Any:
    return g * leaky_slope(x, negative_slope)


@primitive()
@fused(lambda x, negative_slope: np.where(x > 0, np.ones_like(x), negative_slope))
def leaky_slope_(x: Any, negative_slope: float) -> Any:
    """Return the derivative of leaky_relu: 1 where x is positive, and negative_slope elsewhere."""
    x = real_floating("leaky_relu", "x", as_array(x))
    slope = np.greater(x, 0).astype(x.dtype)
    slope *= 1 - negative_slope
    slope += negative_slope
    return slope


@derivative(leaky_slope_, "x")
def _(h: Any) -> Any:
    return np.zeros_like(h)


_leaky_relu = leaky_relu_.call
leaky_slope: Callable[..., Any] = leaky_slope_.call


def leaky_relu(x: Any, negative_slope: float = 0.01) -> Any:
    """Return x where it is positive, and `negative_slope * x` elsewhere; its derivative at 0 is `negative_slope`.

    Args:
        x: any shape.
        negative_slope: a number.

    Raises:
        ArgumentTypeError: x is complex.

    Source: torch.nn.functional.leaky_relu.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.leaky_relu(np.array([-1.0, 2.0]), 0.1)
        array([-0.1,  2. ])
    """
    return _leaky_relu(x, negative_slope)


# sigmoid, tanh, silu, softplus, elu

#: Arrays of the number 1 by dtype. For small arrays, adding a Python number takes twice as long: NumPy converts it.
ONE = {char: np.ones((), char) for char in "fd"}


@primitive()
@fused(lambda x: 1 / (1 + np.exp(-x)))
@np.errstate(over="ignore")  # exp(-x) may overflow to infinity: the result is then 0, which is right
def sigmoid_(x: Any) -> Any:
    """Return 1 / (1 + exp(-x))."""
    if x.__class__ is not np.ndarray or x.dtype.kind != "f":
        x = floating(as_array(x))
        if x.__class__ is not np.ndarray:
            return _device_logistic(x)
    # A copy negated in place is faster than np.negative(x) for a view, and is an array even if x has no axes.
    value = x.copy()
    np.negative(value, value)
    np.exp(value, value)
    np.add(value, ONE.get(value.dtype.char, 1), value)
    return np.reciprocal(value, value)


def _device_logistic(x: Any) -> Any:
    value = np.negative(x, out=empty_like(x))
    np.exp(value, out=value)
    value += 1
    return np.reciprocal(value, out=value)


#: Where less than this is left of 1, a difference from the sigmoid has lost more than eight bits of it.
_LITTLE = 2.0**-8


@derivative(sigmoid_, "x")
def _(g: Any, x: Any, out: Any) -> Any:
    if g.__class__ is not np.ndarray or g.dtype is not out.dtype or g.dtype.kind != "f":
        rest = 1 - out
        return g * (out * np.where(rest > _LITTLE, rest, _sigmoid(-x)))
    # The same in place, which takes three quarters of the time for small arrays; and without an exponential, but for
    # results next to 1 (test_the_gradient_is_the_exact_derivative_far_out).
    rest = ONE.get(out.dtype.char, 1) - out
    flat = rest.ravel("K")
    if flat.size and not flat.item(flat.argmin()) > _LITTLE:
        is_little = np.logical_not(rest > _LITTLE)
        rest = np.asarray(rest)
        rest[is_little] = logistic(-x[is_little])
    rest *= out
    rest *= g
    return rest


_sigmoid = sigmoid_.call
#: The sigmoid of an array, without the dispatch for tensors.
logistic: Callable[..., Any] = sigmoid_.function


def sigmoid(x: Any) -> Any:
    """Return `1 / (1 + exp(-x))`, without overflow.

    Args:
        x: any shape.

    Source: torch.nn.functional.sigmoid.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.sigmoid(np.array([-1000.0, 0.0, 1000.0]))
        array([0. , 0.5, 1. ])
    """
    return _sigmoid(x)


_tanh = tanh_.call


def tanh(x: Any) -> Any:
    """Return the hyperbolic tangent; the same as `np.tanh`.

    Its gradient is computed from the result, so that x need not be kept in memory, and is 0 where the result rounds to
    1. That of `2 * sigmoid(2 * x) - 1` is not.

    Args:
        x: any shape.

    Source: torch.nn.functional.tanh.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.tanh(np.array([0.0, 1.0]))
        array([0.        , 0.76159416])
    """
    return _tanh(x)


@primitive()
@fused(lambda x: logistic(x) * x)
def silu_(x: Any) -> Any:
    """Return x * sigmoid(x)."""
    value = logistic(x)
    value *= x
    return value


@derivative(silu_, "x")
def _(g: Any, x: Any) -> Any:
    return silu_grad(g, x)


def _silu_slope(x: Any, s: Any) -> Any:
    """Return the derivative of silu, given s = sigmoid(x)."""
    return ((1 - s) * x + 1) * s


@primitive()
@fused(lambda g, x: _silu_slope(x, logistic(x)) * g)
def silu_grad_(g: Any, x: Any) -> Any:
    """Return g times the derivative of silu, s (1 + x (1 - s)) where s = sigmoid(x)."""
    s = logistic(x)
    value = np.subtract(1, s, out=empty_like(s))
    value *= x
    value += 1
    value *= s
    value *= g
    return value


@derivative(silu_grad_, "g")
def _(h: Any, x: Any) -> Any:
    return silu_grad(h, x)


@derivative(silu_grad_, "x")
def _(h: Any, g: Any, x: Any) -> Any:
    s, rest = _sigmoid(x), _sigmoid(-x)
    return h * g * s * rest * (2 + x * (rest - s))


_silu = silu_.call
silu_grad: Callable[..., Any] = silu_grad_.call


def silu(x: Any) -> Any:
    """Return `x * sigmoid(x)`, also known as swish.

    Args:
        x: any shape.

    Source: torch.nn.functional.silu.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.silu(np.array([0.0, 1.0]))
        array([0.        , 0.73105858])
    """
    return _silu(x)


def _softplus_expression(x: Any, beta: float, threshold: float) -> Any:
    scaled = x * beta
    return np.where(scaled > threshold, x, (np.log1p(np.exp(-np.abs(scaled))) + np.maximum(scaled, 0)) / beta)


@primitive()
@fused(_softplus_expression)
def softplus_(x: Any, beta: float, threshold: float) -> Any:
    """Return log(1 + exp(beta x)) / beta, and x where beta x is above the threshold."""
    x = real_floating("softplus", "x", as_array(x))
    scaled = x * beta
    value = np.log1p(np.exp(-np.abs(scaled)))
    value += np.maximum(scaled, 0)
    return np.where(scaled > threshold, x, value / beta)


@derivative(softplus_, "x")
def _(g: Any, x: Any, beta: float, threshold: float) -> Any:
    return g * softplus_slope(x, beta, threshold)


@primitive()
@fused(lambda x, beta, threshold: np.where(x * beta > threshold, 1, logistic(x * beta)))
def softplus_slope_(x: Any, beta: float, threshold: float) -> Any:
    """Return the derivative of softplus: sigmoid(beta x), and 1 where beta x is above the threshold."""
    scaled = x * beta
    return np.where(scaled > threshold, 1, logistic(scaled)).astype(x.dtype, copy=False)


@derivative(softplus_slope_, "x")
def _(g: Any, x: Any, out: Any, beta: float, threshold: float) -> Any:
    return g * (beta * out * np.where(x * beta > threshold, 0, _sigmoid(x * -beta)))


_softplus = softplus_.call
softplus_slope: Callable[..., Any] = softplus_slope_.call


def softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """Return `log(1 + exp(beta * x)) / beta`, a smooth relu, without overflow.

    Args:
        x: any shape.
        beta: how sharply the function bends at 0; not 0.
        threshold: if `beta * x` is above it, the result is x itself.

    Raises:
        ArgumentTypeError: x is complex.

    Source: torch.nn.functional.softplus.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.softplus(np.array([0.0, 1000.0]))
        array([6.93147181e-01, 1.00000000e+03])
    """
    return _softplus(x, beta, threshold)


@primitive()
@fused(lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))))
def elu_(x: Any, alpha: float) -> Any:
    """Return x where it is positive, and alpha (exp(x) - 1) elsewhere."""
    x = real_floating("elu", "x", as_array(x))
    # One of the summands is 0: np.where takes ten times as long as a sum.
    return np.clip(x, 0, np.inf) + alpha * np.expm1(np.clip(x, -np.inf, 0))


@derivative(elu_, "x")
def _(g: Any, x: Any, alpha: float) -> Any:
    return g * elu_slope(x, alpha, 1)


@primitive()
@fused(lambda x, alpha, positive: np.where(x > 0, positive, alpha * np.exp(np.minimum(x, 0))))
def elu_slope_(x: Any, alpha: float, positive: float) -> Any:
    """Return `positive` where x is positive, and alpha exp(x) elsewhere: with 1, the derivative of elu."""
    return alpha * np.exp(np.clip(x, -np.inf, 0)) * np.logical_not(x > 0) + positive * (x > 0).astype(x.dtype)


@derivative(elu_slope_, "x")
def _(g: Any, x: Any, alpha: float) -> Any:
    return g * elu_slope(x, alpha, 0)


_elu = elu_.call
elu_slope: Callable[..., Any] = elu_slope_.call


def elu(x: Any, alpha: float = 1.0) -> Any:
    """Return x where it is positive, and `alpha * (exp(x) - 1)` elsewhere.

    Args:
        x: any shape.
        alpha: the function tends to `-alpha` at minus infinity.

    Raises:
        ArgumentTypeError: x is complex.

    Source: torch.nn.functional.elu.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.elu(np.array([-1000.0, 2.0]))
        array([-1.,  2.])
    """
    return _elu(x, alpha)
