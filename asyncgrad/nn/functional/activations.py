"""Activation functions, element by element: those along an axis, as softmax is, are in `softmaxes.py`.

Those of one formula come first, then those of straight lines and parabolas, those that are put together of the
exponential and its kin, and the Gaussian error linear unit.

A backward of more than a few NumPy calls is a primitive, which computes in place in one array and has its own
derivatives. That array is made by np.empty, since NumPy's functions would return a scalar, which cannot be written
into, for an x without axes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.device_functions import COMPILED_TYPES
from ...core.arrays.interception import on_device_of_arguments
from ...core.arrays.one_device import check_operands_share_device
from ...core.arrays.values import as_array, as_like, empty_like, raw
from ...core.ops.composites import composite
from ...core.ops.trigonometric import tanh as tanh_
from ...core.recording.kernels import FusedFormula, kernel
from ...core.recording.primitive import derivative, primitive
from ...core.settings.arguments import truth, whole_number
from ...core.settings.called_with import refuse_words_of_torch, with_words_of_torch
from ...errors import ArgumentError
from ...random import generator
from ..shared.arguments import (
    array_of,
    as_numbers,
    as_saved,
    check_arrays,
    check_real,
    floating,
    in_place,
    operand,
    option,
    real_floating,
    records,
    wrong_dtype,
)
from ..shared.error_function import normal_cdf, normal_pdf_into
from ..shared.layouts import in_order_of

if TYPE_CHECKING:
    from ...core.arrays.array import Array
    from ...core.tensor import Tensor


__all__ = [
    "celu",
    "elu",
    "gelu",
    "glu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "logistic",
    "logsigmoid",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "rrelu",
    "selu",
    "sigmoid",
    "silu",
    "softplus",
    "softplus_",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
]


# relu

#: The kinds of dtypes of complex numbers, and of what is no number.
_NOT_REAL = "cOSUVmM"


@primitive()
@kernel(expression=lambda x: np.maximum(x, np.zeros_like(x)))
def relu_(x: Any) -> Array:
    """Return max(x, 0)."""
    x = as_array(x)
    if x.dtype.kind in _NOT_REAL:
        raise wrong_dtype("relu", "x", x)
    # NumPy uses vector instructions for a maximum with an array of zeros, but not with the number 0.
    if x.__class__ is np.ndarray:
        is_plain = type(x) is np.ndarray and x.flags.c_contiguous
        zeros = np.zeros(x.shape, x.dtype) if is_plain else np.zeros_like(x)
        return np.maximum(x, zeros, out=zeros)
    return np.maximum(x, 0, out=empty_like(x))


@derivative(relu_, "x")
def _(g: Array, out: Array) -> Array:
    return relu_grad(g, out)


@primitive()
def relu_grad_(g: Any, y: Any) -> Array:
    """Return g where the result y of relu is positive (or a NaN), and 0 elsewhere."""
    # No result of relu is negative.
    return np.multiply(in_order_of(y, g), y != 0)


@derivative(relu_grad_, "g")
def _(h: Array, y: Any) -> Array:
    return relu_grad(h, y)


@derivative(relu_grad_, "y")
def _(h: Array) -> Array:
    return np.zeros_like(h)


_relu = relu_.call
relu_grad: Callable[..., Any] = relu_grad_.call


def relu(x: Tensor | np.ndarray, inplace: bool = False) -> Tensor | np.ndarray:
    """Return `max(x, 0)`; its derivative at 0 is 0.

    Args:
        x: any shape.
        inplace: write the result into x, and return x.

    Raises:
        ArgumentTypeError: x is complex.

    Source: torch.nn.functional.relu.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.relu(np.array([-1.0, 0.0, 2.0]))
        array([0., 0., 2.])
    """
    return in_place(inplace, _relu, x) if inplace else _relu(x)


@primitive()
@kernel(expression=lambda x, negative_slope: x * np.where(x > 0, np.ones_like(x), negative_slope))
def leaky_relu_(x: Any, negative_slope: float) -> Array:
    """Return x where it is positive, and negative_slope * x elsewhere."""
    return np.multiply(x, leaky_slope(x, negative_slope))


@derivative(leaky_relu_, "x")
def _(g: Any, x: Array, negative_slope: float) -> Array:
    return g * leaky_slope(x, negative_slope)


@primitive()
@kernel(expression=lambda x, negative_slope: np.where(x > 0, np.ones_like(x), negative_slope))
def leaky_slope_(x: Any, negative_slope: float) -> Array:
    """Return the derivative of leaky_relu: 1 where x is positive, and negative_slope elsewhere."""
    x = real_floating("leaky_relu", "x", as_array(x))
    slope = np.greater(x, 0).astype(x.dtype)
    slope *= 1 - negative_slope
    slope += negative_slope
    return slope


@derivative(leaky_slope_, "x")
def _(h: Array) -> Array:
    return np.zeros_like(h)


_leaky_relu = leaky_relu_.call
leaky_slope: Callable[..., Any] = leaky_slope_.call


def leaky_relu(x: Tensor | np.ndarray, negative_slope: float = 0.01, inplace: bool = False) -> Tensor | np.ndarray:
    """Return x where it is positive, and `negative_slope * x` elsewhere; its derivative at 0 is `negative_slope`.

    Args:
        x: any shape.
        negative_slope: a number.
        inplace: write the result into x, and return x.

    Raises:
        ArgumentTypeError: x is complex.

    Source: torch.nn.functional.leaky_relu.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.leaky_relu(np.array([-1.0, 2.0]), 0.1)
        array([-0.1,  2. ])
    """
    return in_place(inplace, _leaky_relu, x, option("leaky_relu", "negative_slope", negative_slope))


# sigmoid, tanh, silu, softplus, elu


def _constant_one(char: str) -> Array:
    one = np.ones((), char)
    one.flags.writeable = False
    return one


#: Arrays of the number 1 by dtype. For small arrays, adding a Python number takes twice as long: NumPy converts it.
ONE: dict[str, Array] = {char: _constant_one(char) for char in "fd"}


@primitive()
@kernel(expression=lambda x: 1 / (1 + np.exp(-x)))
@np.errstate(over="ignore")  # exp(-x) may overflow to infinity: the result is then 0, which is right
def sigmoid_(x: Any) -> Any:
    """Return 1 / (1 + exp(-x))."""
    if x.__class__ is not np.ndarray or x.dtype.kind != "f":
        x = floating(as_array(x), "nn.sigmoid", "x")
        if x.__class__ is not np.ndarray:
            return _device_logistic(x)
        if x.dtype.kind == "c":
            return _complex_logistic(x)
    if type(x) is np.ndarray:
        # A copy negated in place is faster than np.negative(x) for a view, and is an array even if x has no axes.
        value = x.copy()
        np.negative(value, value)
    else:
        # A program has no allocation: there, one call is faster than two.
        value = np.negative(x, empty_like(x))
    np.exp(value, value)
    np.add(value, ONE.get(value.dtype.char, 1), value)
    return np.reciprocal(value, value)


def _device_logistic(x: Any) -> Any:
    value = np.negative(x, out=empty_like(x))
    np.exp(value, out=value)
    value += 1
    return np.reciprocal(value, out=value)


def _complex_logistic(x: Any) -> Any:
    """Return the same by an exponential that is at most 1: of an infinite one, complex division makes NaN."""
    is_left = x.real < 0
    small = np.exp(np.where(is_left, x, -x))
    return np.where(is_left, small, 1) / (1 + small)


#: Where less than this is left of 1, a difference from the sigmoid has lost more than eight bits of it.
_LITTLE = 2.0**-8


def _exactly_where(is_little: Any, rest: Any, x: Any, one: Any) -> Any:
    """Write the sigmoid of -x into an array where a mask holds; return the array.

    Apart from the derivative, of which a device makes one kernel: that reads no `with`.
    """
    with np.errstate(over="ignore"):
        np.exp(x, out=rest, where=is_little)
        np.add(rest, one, out=rest, where=is_little)
        return np.reciprocal(rest, out=rest, where=is_little)


@derivative(sigmoid_, "x")
def _(g: Any, x: Any, out: Any) -> Array:
    if g.__class__ is not np.ndarray or g.dtype is not out.dtype or g.dtype.kind != "f":
        rest = 1 - out
        return g * (out * np.where(rest > _LITTLE, rest, _sigmoid(-x)))
    # The same in place, which takes three quarters of the time for small arrays; and without an exponential, but for
    # results next to 1 (test_the_gradient_is_the_exact_derivative_far_out).
    one = ONE.get(out.dtype.char, 1)
    rest = one - out
    flat = rest.ravel("K")
    # A program does not ask for a number, which would decide otherwise in later runs: it looks at each element.
    if type(out) is not np.ndarray or (flat.size and not flat.item(flat.argmin()) > _LITTLE):
        rest = _exactly_where(rest <= _LITTLE, as_array(rest), x, one)
    rest *= out
    rest *= g
    return rest


_sigmoid = sigmoid_.call
#: The sigmoid of an array, without the dispatch for tensors.
logistic: Callable[..., Any] = sigmoid_.function


def sigmoid(x: Tensor | np.ndarray) -> Tensor | np.ndarray:
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


def tanh(x: Tensor | np.ndarray) -> Tensor | np.ndarray:
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
    if x is None or isinstance(x, str):
        check_arrays("tanh", x=x)
    return _tanh(x)


@primitive()
@kernel(expression=lambda x: logistic(x) * x)
def silu_(x: Any) -> Any:
    """Return x * sigmoid(x)."""
    value = logistic(x)
    value *= x
    return value


@derivative(silu_, "x")
def _(g: Array, x: Array) -> Array:
    return silu_grad(g, x)


def _silu_slope(x: Any, s: Any) -> Any:
    """Return the derivative of silu, given s = sigmoid(x)."""
    return ((1 - s) * x + 1) * s


@primitive()
@kernel(expression=lambda g, x: _silu_slope(x, logistic(x)) * g)
def silu_grad_(g: Any, x: Any) -> Array:
    """Return g times the derivative of silu, s (1 + x (1 - s)) where s = sigmoid(x)."""
    s = logistic(x)
    value = np.subtract(1, s, out=empty_like(s))
    value *= x
    value += 1
    value *= s
    value *= g
    return value


@derivative(silu_grad_, "g")
def _(h: Array, x: Any) -> Array:
    return silu_grad(h, x)


@derivative(silu_grad_, "x")
def _(h: Any, g: Any, x: Any) -> Array:
    s, rest = _sigmoid(x), _sigmoid(-x)
    return h * g * s * rest * (2 + x * (rest - s))


_silu = silu_.call
silu_grad: Callable[..., Any] = silu_grad_.call


def silu(x: Tensor | np.ndarray, inplace: bool = False) -> Tensor | np.ndarray:
    """Return `x * sigmoid(x)`, also known as swish.

    Args:
        x: any shape.
        inplace: write the result into x, and return x.

    Source: torch.nn.functional.silu.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.silu(np.array([0.0, 1.0]))
        array([0.        , 0.73105858])
    """
    return in_place(inplace, _silu, x) if inplace else _silu(x)


def _softplus_expression(x: Any, beta: float, threshold: float) -> Any:
    scaled = x * beta
    return np.where(scaled > threshold, x, (np.log1p(np.exp(-np.abs(scaled))) + np.maximum(scaled, 0)) / beta)


@primitive()
@kernel(expression=_softplus_expression)
def softplus_(x: Any, beta: float, threshold: float) -> Array:
    """Return log(1 + exp(beta x)) / beta, and x where beta x is above the threshold."""
    x = real_floating("softplus", "x", as_array(x))
    scaled = x * beta
    value = np.log1p(np.exp(-np.abs(scaled)))
    value += np.maximum(scaled, 0)
    return np.where(scaled > threshold, x, value / beta)


@derivative(softplus_, "x")
def _(g: Any, x: Array, beta: float, threshold: float) -> Array:
    return g * softplus_slope(x, beta, threshold)


@primitive()
@kernel(expression=lambda x, beta, threshold: np.where(x * beta > threshold, 1, logistic(x * beta)))
def softplus_slope_(x: Any, beta: float, threshold: float) -> Array:
    """Return the derivative of softplus: sigmoid(beta x), and 1 where beta x is above the threshold."""
    scaled = x * beta
    return np.where(scaled > threshold, 1, logistic(scaled)).astype(x.dtype, copy=False)


@derivative(softplus_slope_, "x")
def _(g: Any, x: Any, out: Any, beta: float, threshold: float) -> Array:
    return g * (beta * out * np.where(x * beta > threshold, 0, _sigmoid(x * -beta)))


_softplus = softplus_.call
softplus_slope: Callable[..., Any] = softplus_slope_.call


def softplus(x: Tensor | np.ndarray, beta: float = 1.0, threshold: float = 20.0) -> Tensor | np.ndarray:
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
    beta, threshold = option("softplus", "beta", beta), option("softplus", "threshold", threshold)
    return _softplus(x, beta, threshold)


@primitive()
@kernel(expression=lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))))
def elu_(x: Any, alpha: float) -> Array:
    """Return x where it is positive, and alpha (exp(x) - 1) elsewhere."""
    x = real_floating("elu", "x", as_array(x))
    # One of the summands is 0: np.where takes ten times as long as a sum.
    return np.clip(x, 0, np.inf) + alpha * np.expm1(np.clip(x, -np.inf, 0))


@derivative(elu_, "x")
def _(g: Any, x: Array, alpha: float) -> Array:
    return g * elu_slope(x, alpha, 1)


@primitive()
@kernel(expression=lambda x, alpha, positive: np.where(x > 0, positive, alpha * np.exp(np.minimum(x, 0))))
def elu_slope_(x: Any, alpha: float, positive: float) -> Array:
    """Return `positive` where x is positive, and alpha exp(x) elsewhere: with 1, the derivative of elu."""
    return alpha * np.exp(np.clip(x, -np.inf, 0)) * np.logical_not(x > 0) + positive * (x > 0).astype(x.dtype)


@derivative(elu_slope_, "x")
def _(g: Any, x: Array, alpha: float) -> Array:
    return g * elu_slope(x, alpha, 0)


_elu = elu_.call
elu_slope: Callable[..., Any] = elu_slope_.call


def elu(x: Tensor | np.ndarray, alpha: float = 1.0, inplace: bool = False) -> Tensor | np.ndarray:
    """Return x where it is positive, and `alpha * (exp(x) - 1)` elsewhere.

    Args:
        x: any shape.
        alpha: the function tends to `-alpha` at minus infinity.
        inplace: write the result into x, and return x.

    Raises:
        ArgumentTypeError: x is complex.

    Source: torch.nn.functional.elu.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.elu(np.array([-1000.0, 2.0]))
        array([-1.,  2.])
    """
    return in_place(inplace, _elu, x, option("elu", "alpha", alpha))


# Straight lines and parabolas. The derivatives at the joints are PyTorch's. Slopes are made by comparisons, whose truth
# values are multiplied as numbers: `np.where` takes ten times as long, since it branches for each element.


def _is_between(x: Any, low: float, high: float) -> Any:
    """Return whether x is between two numbers and neither of them; true for a NaN."""
    return np.logical_not((x <= low) | (x >= high))


def _is_inside(x: Any, low: float, high: float) -> Any:
    """Return whether x is between two numbers and neither of them; false for a NaN."""
    return (x > low) & (x < high)


# hardtanh, relu6, hardsigmoid


@primitive()
@kernel(expression=lambda x, low, high: np.minimum(np.maximum(x, low), high))
def hardtanh_(x: Any, low: float, high: float) -> Array:
    """Return x, but at least `low` and at most `high`."""
    return np.clip(real_floating("hardtanh", "x", as_array(x)), low, high)


@derivative(hardtanh_, "x")
def _(g: Any, x: Array, low: float, high: float) -> Array:
    return g * _is_between(x, low, high)


_hardtanh = hardtanh_.call


def hardtanh(
    x: Tensor | np.ndarray, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor | np.ndarray:
    """Return x, but at least `min_val` and at most `max_val`; its derivative at these two is 0.

    Args:
        x: any shape.
        min_val: the least result.
        max_val: the largest result.
        inplace: write the result into x, and return x.

    Raises:
        ArgumentError: `min_val` is above `max_val`.
        ArgumentTypeError: x is complex.

    Source: torch.nn.functional.hardtanh.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.hardtanh(np.array([-2.0, 0.5, 3.0]))
        array([-1. ,  0.5,  1. ])
    """
    min_val, max_val = option("hardtanh", "min_val", min_val), option("hardtanh", "max_val", max_val)
    if min_val > max_val:
        raise ArgumentError(f"hardtanh needs a min_val of at most max_val, not {min_val} and {max_val}")
    return in_place(inplace, _hardtanh, x, min_val, max_val)


def relu6(x: Tensor | np.ndarray, inplace: bool = False) -> Tensor | np.ndarray:
    """Return `max(x, 0)`, but at most 6; its derivative at 0 and at 6 is 0.

    Args:
        x: any shape.
        inplace: write the result into x, and return x.

    Raises:
        ArgumentTypeError: x is complex.

    Source: torch.nn.functional.relu6.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.relu6(np.array([-1.0, 2.0, 9.0]))
        array([0., 2., 6.])
    """
    check_real("relu6", x=x)
    return in_place(inplace, _hardtanh, x, 0.0, 6.0)


@primitive()
@kernel(expression=lambda x: np.minimum(np.maximum(x + 3, 0), 6) / 6)
def hardsigmoid_(x: Any) -> Array:
    """Return x / 6 + 1 / 2, but at least 0 and at most 1."""
    x = real_floating("hardsigmoid", "x", as_array(x))
    return np.clip(x + 3, 0, 6) / 6


@derivative(hardsigmoid_, "x")
def _(g: Any, x: Array) -> Array:
    return g * _is_inside(x, -3, 3) * (1 / 6)


_hardsigmoid = hardsigmoid_.call


def hardsigmoid(x: Tensor | np.ndarray, inplace: bool = False) -> Tensor | np.ndarray:
    """Return `x / 6 + 1 / 2`, but at least 0 and at most 1: a sigmoid of straight lines.

    Args:
        x: any shape.
        inplace: write the result into x, and return x.

    Raises:
        ArgumentTypeError: x is complex.

    Source: torch.nn.functional.hardsigmoid.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.hardsigmoid(np.array([-4.0, 0.0, 3.0]))
        array([0. , 0.5, 1. ])
    """
    return in_place(inplace, _hardsigmoid, x)


# hardswish


@primitive()
@kernel(expression=lambda x: x * np.minimum(np.maximum(x + 3, 0), 6) / 6)
def hardswish_(x: Any) -> Array:
    """Return x * hardsigmoid(x)."""
    x = real_floating("hardswish", "x", as_array(x))
    return x * np.clip(x + 3, 0, 6) / 6


@derivative(hardswish_, "x")
def _(g: Any, x: Array) -> Array:
    return g * hardswish_slope(x)


@primitive()
@kernel(expression=lambda x: np.where(x <= -3, 0, np.where(x >= 3, 1, x / 3 + 0.5)))
def hardswish_slope_(x: Any) -> Array:
    """Return the derivative of hardswish: x / 3 + 1 / 2 between -3 and 3, and 0 or 1 elsewhere."""
    return (np.clip(x, -3, 3) / 3 + 0.5) * _is_between(x, -3, 3) + (x >= 3)


@derivative(hardswish_slope_, "x")
def _(h: Any, x: Array) -> Array:
    return h * _is_between(x, -3, 3) * (1 / 3)


_hardswish = hardswish_.call
hardswish_slope: Callable[..., Any] = hardswish_slope_.call


def hardswish(x: Tensor | np.ndarray, inplace: bool = False) -> Tensor | np.ndarray:
    """Return `x * hardsigmoid(x)`.

    Args:
        x: any shape.
        inplace: write the result into x, and return x.

    Raises:
        ArgumentTypeError: x is complex.

    Source: torch.nn.functional.hardswish.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.hardswish(np.array([-4.0, 0.0, 1.5, 5.0]))
        array([-0.   ,  0.   ,  1.125,  5.   ])
    """
    return in_place(inplace, _hardswish, x)


# hardshrink, softshrink


def _is_left(x: Any, lambd: float) -> Any:
    """Return whether x is not from -lambd to lambd, so that hardshrink and softshrink leave something of it."""
    return np.logical_not(np.abs(x) <= lambd)


@primitive()
@kernel(expression=lambda x, lambd: np.where(np.abs(x) <= lambd, 0, x))
def hardshrink_(x: Any, lambd: float) -> Array:
    """Return 0 where x is from -lambd to lambd, and x elsewhere."""
    x = real_floating("hardshrink", "x", as_array(x))
    # 0 is added for those that have become -0.
    return x * _is_left(x, lambd) + 0


@derivative(hardshrink_, "x")
def _(g: Any, x: Array, lambd: float) -> Array:
    return g * _is_left(x, lambd)


_hardshrink = hardshrink_.call


def hardshrink(x: Tensor | np.ndarray, lambd: float = 0.5) -> Tensor | np.ndarray:
    """Return 0 where x is from `-lambd` to `lambd`, and x elsewhere.

    Args:
        x: any shape.
        lambd: a number.

    Raises:
        ArgumentTypeError: x is complex.

    Source: torch.nn.functional.hardshrink.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.hardshrink(np.array([-1.0, 0.2, 3.0]))
        array([-1.,  0.,  3.])
    """
    return _hardshrink(x, option("hardshrink", "lambd", lambd))


@primitive()
@kernel(expression=lambda x, lambd: x - np.minimum(np.maximum(x, -lambd), lambd))
def softshrink_(x: Any, lambd: float) -> Array:
    """Return x moved by lambd towards 0, and 0 where it would pass it."""
    x = real_floating("softshrink", "x", as_array(x))
    return x - np.clip(x, -lambd, lambd)


@derivative(softshrink_, "x")
def _(g: Any, x: Array, lambd: float) -> Array:
    return g * _is_left(x, lambd)


_softshrink = softshrink_.call


def softshrink(x: Tensor | np.ndarray, lambd: float = 0.5) -> Tensor | np.ndarray:
    """Return x moved by `lambd` towards 0, and 0 where it would pass it.

    Args:
        x: any shape.
        lambd: a number, not negative.

    Raises:
        ArgumentError: `lambd` is negative or not finite.
        ArgumentTypeError: x is complex.

    Source: torch.nn.functional.softshrink.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.softshrink(np.array([-1.0, 0.2, 3.0]))
        array([-0.5,  0. ,  2.5])
    """
    lambd = option("softshrink", "lambd", lambd)
    if not 0 <= lambd < math.inf:
        raise ArgumentError(f"softshrink needs a lambd that is not negative, not {lambd}")
    return _softshrink(x, lambd)


# threshold


@primitive()
@kernel(expression=lambda x, threshold, value: np.where(x <= threshold, value, x))
def threshold_(x: Any, threshold: float, value: float) -> Array:
    """Return x where it is above the threshold, and `value` elsewhere."""
    x = real_floating("threshold", "x", as_array(x))
    return np.where(x <= threshold, value, x).astype(x.dtype, copy=False)


@derivative(threshold_, "x")
def _(g: Any, x: Any, threshold: float) -> Array:
    return g * np.logical_not(x <= threshold)


_threshold = threshold_.call


def threshold(x: Tensor | np.ndarray, threshold: float, value: float, inplace: bool = False) -> Tensor | np.ndarray:
    """Return x where it is above the threshold, and `value` elsewhere.

    Args:
        x: any shape.
        threshold: a number.
        value: a number.
        inplace: write the result into x, and return x.

    Raises:
        ArgumentTypeError: x is complex.

    Source: torch.nn.functional.threshold.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.threshold(np.array([-1.0, 0.5, 3.0]), 0.5, -10.0)
        array([-10., -10.,   3.])
    """
    threshold, value = option("threshold", "threshold", threshold), option("threshold", "value", value)
    return in_place(inplace, _threshold, x, threshold, value)


# prelu, rrelu


@composite("x", "weight")
def _prelu(x: Any, weight: Any) -> Any:
    return x * np.where(x > 0, 1, weight)


def prelu(x: Tensor | np.ndarray, weight: Tensor | np.ndarray) -> Tensor | np.ndarray:
    """Return x where it is positive, and `weight * x` elsewhere.

    Args:
        x: any shape; axis 1 is that of the channels.
        weight: a slope, shape `(1,)` or `()`, or one for each channel, shape `(channels,)`.

    Raises:
        ArgumentError: the weight has another shape.
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.prelu.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.prelu(np.array([[-1.0, -1.0], [2.0, 2.0]]), np.array([0.1, 0.5]))
        array([[-0.1, -0.5],
               [ 2. ,  2. ]])
    """
    check_operands_share_device("prelu", x, weight)
    check_real("prelu", x=x, weight=weight)
    x = operand(x)
    data, shape = array_of(x), array_of(weight).shape
    channels = data.shape[1] if data.ndim > 1 else 1
    if shape not in ((), (1,), (channels,)):
        raise ArgumentError(
            f"prelu of x of shape {data.shape} takes a weight of shape (1,) or ({channels},), not {shape}"
        )
    if shape:
        weight = np.reshape(weight, (-1, *(1,) * (data.ndim - 2)) if data.ndim > 1 else shape[1:])
    return _prelu(x, weight)


def rrelu(
    x: Tensor | np.ndarray,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    inplace: bool = False,
    *,
    rng: np.random.Generator | None = None,
) -> Tensor | np.ndarray:
    """Return x where it is positive, and x times a random slope elsewhere.

    Args:
        x: any shape.
        lower: the least slope.
        upper: the largest slope.
        training: whether each element has a slope of its own, drawn uniformly. Otherwise the slope is the mean of
            `lower` and `upper`.
        inplace: write the result into x, and return x.
        rng: a NumPy generator; None for that of the context (`ag.random.seed`).

    Raises:
        ArgumentError: `lower` is above `upper`.
        ArgumentTypeError: x is complex.

    Source: torch.nn.functional.rrelu.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.rrelu(np.array([-2.0, 3.0]), 0.2, 0.4)
        array([-0.6,  3. ])
    """
    check_real("rrelu", x=x)
    lower, upper = option("rrelu", "lower", lower), option("rrelu", "upper", upper)
    if lower > upper:
        raise ArgumentError(f"rrelu needs a lower of at most upper, not {lower} and {upper}")
    if not truth(training, "training"):
        return leaky_relu(x, (lower + upper) / 2, inplace)
    data = array_of(x)
    rng = generator() if rng is None else rng
    kind = data.dtype if data.dtype.kind == "f" else np.dtype(np.float64)
    slopes = raw(rng.uniform(lower, upper, data.shape)).astype(kind, copy=False)
    return in_place(inplace, _prelu, x, as_like(slopes, data))


# The exponential and its kin: mish


def _tanh_of_softplus(x: Any) -> Any:
    return np.tanh(np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0))


@primitive()
@kernel(expression=lambda x: x * _tanh_of_softplus(x))
def mish_(x: Any) -> Array:
    """Return x * tanh(softplus(x))."""
    x = real_floating("mish", "x", as_array(x))
    return x * _tanh_of_softplus(x)


@derivative(mish_, "x")
def _(g: Any, x: Array) -> Array:
    return g * mish_slope(x)


def _mish_slope(x: Any) -> Any:
    t = _tanh_of_softplus(x)
    # Not 1 / (1 + exp(-x)), which is 0 where the exponential overflows, and x times the right one is a number.
    exponential = np.exp(-np.abs(x))
    return t + x * (1 - t * t) * (np.where(x < 0, exponential, 1) / (1 + exponential))


@primitive()
@kernel(expression=_mish_slope)
def mish_slope_(x: Any) -> Any:
    """Return the derivative of mish, t + x t', where t = tanh(softplus(x)) and t' = (1 - t^2) sigmoid(x)."""
    return _mish_slope(x)


@derivative(mish_slope_, "x")
def _(h: Any, x: Any) -> Array:
    # In terms of the sigmoid and of what is left of it to 1: 1 - t^2 has no digits far above 0.
    s, rest = sigmoid(x), sigmoid(-x)
    sum_of_squares = 1 + rest * rest
    t = s * (1 + rest) / sum_of_squares
    slope = 4 * s * (rest / sum_of_squares) ** 2
    return h * slope * (2 + x * (rest - 2 * t * s))


_mish = mish_.call
mish_slope: Callable[..., Any] = mish_slope_.call


def mish(x: Tensor | np.ndarray, inplace: bool = False) -> Tensor | np.ndarray:
    """Return `x * tanh(softplus(x))`.

    Args:
        x: any shape.
        inplace: write the result into x, and return x.

    Raises:
        ArgumentTypeError: x is complex.

    Source: torch.nn.functional.mish.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.mish(np.array([0.0, 1.0]))
        array([0.        , 0.86509839])
    """
    return in_place(inplace, _mish, x)


# selu, celu

#: The factors that keep a mean of 0 and a variance of 1 from layer to layer.
SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


@composite("x")
def _selu(x: Any) -> Any:
    return _elu(x, SELU_ALPHA) * SELU_SCALE


def selu(x: Tensor | np.ndarray, inplace: bool = False) -> Tensor | np.ndarray:
    """Return `elu(x, alpha)` times a factor, which keep outputs of mean 0 and variance 1 so from layer to layer.

    Args:
        x: any shape.
        inplace: write the result into x, and return x.

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
    return in_place(inplace, _selu, x)


@primitive()
@kernel(expression=lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha)))
def celu_(x: Any, alpha: float) -> Array:
    """Return x where it is positive, and alpha (exp(x / alpha) - 1) elsewhere."""
    x = real_floating("celu", "x", as_array(x))
    # One of the summands is 0: np.where takes ten times as long as a sum.
    return np.clip(x, 0, np.inf) + alpha * np.expm1(np.clip(x, -np.inf, 0) / alpha)


@derivative(celu_, "x")
def _(g: Any, x: Array, alpha: float) -> Array:
    return g * celu_slope(x, alpha, 1.0, 1.0)


@primitive()
@kernel(
    expression=lambda x, alpha, factor, positive: np.where(x > 0, positive, factor * np.exp(np.minimum(x, 0) / alpha))
)
def celu_slope_(x: Any, alpha: float, factor: float, positive: float) -> Array:
    """Return `positive` where x is positive, and factor exp(x / alpha) elsewhere: with 1 and 1 the slope of celu."""
    negative = factor * np.exp(np.clip(x, -np.inf, 0) / alpha) * np.logical_not(x > 0)
    return negative + positive * (x > 0).astype(x.dtype)


@derivative(celu_slope_, "x")
def _(h: Any, x: Array, alpha: float, factor: float) -> Array:
    return h * celu_slope(x, alpha, factor, 0.0) / alpha


_celu = celu_.call
celu_slope: Callable[..., Any] = celu_slope_.call


def celu(x: Tensor | np.ndarray, alpha: float = 1.0, inplace: bool = False) -> Tensor | np.ndarray:
    """Return x where it is positive, and `alpha * (exp(x / alpha) - 1)` elsewhere, which has a slope of 1 at 0.

    Args:
        x: any shape.
        alpha: the function tends to `-alpha` at minus infinity; not 0.
        inplace: write the result into x, and return x.

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
    alpha = option("celu", "alpha", alpha)
    if alpha == 0:
        raise ArgumentError("celu divides by alpha, which must not be 0")
    return in_place(inplace, _celu, x, alpha)


# logsigmoid, softsign, tanhshrink


@composite("x")
def _logsigmoid(x: Any) -> Any:
    return -_softplus(-x, 1.0, math.inf)


def logsigmoid(x: Tensor | np.ndarray) -> Tensor | np.ndarray:
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
    return _logsigmoid(as_numbers(x))


@primitive()
@kernel(expression=lambda x: x / (1 + np.abs(x)))
def softsign_(x: Any) -> Array:
    """Return x / (1 + abs(x))."""
    return x / (1 + np.abs(x))


# Not the derivative of the quotient, which is a difference of two numbers that are nearly equal far from 0.
@derivative(softsign_, "x")
def _(g: Any, x: Array) -> Array:
    return g / (1 + np.abs(x)) / (1 + np.abs(x))


_softsign = softsign_.call


def softsign(x: Tensor | np.ndarray) -> Tensor | np.ndarray:
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
@kernel(expression=lambda x: x - np.tanh(x))
def tanhshrink_(x: Any) -> Array:
    """Return x - tanh(x)."""
    return x - np.tanh(x)


# Not 1 less the derivative of tanh, which is nearly 1 next to 0.
@derivative(tanhshrink_, "x")
def _(g: Any, x: Array) -> Array:
    return g * np.square(np.tanh(x))


_tanhshrink = tanhshrink_.call


def tanhshrink(x: Tensor | np.ndarray) -> Tensor | np.ndarray:
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
    check_arrays("tanhshrink", x=x)
    return _tanhshrink(x)


@composite("x", "gate")
def _gated(x: Any, gate: Any) -> Any:
    return x * sigmoid(gate)


@with_words_of_torch
def glu(  # noqa: D417  # dim is there to be refused
    x: Tensor | np.ndarray,
    axis: int = -1,
    dim: None = None,
) -> Tensor | np.ndarray:
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
    if dim is not None:
        refuse_words_of_torch("nn.glu(x, ", dim)
    check_arrays("glu", x=x)
    x = operand(x)
    shape, axis = array_of(x).shape, whole_number(axis, "axis")
    if not -len(shape) <= axis < len(shape) or shape[axis] % 2:
        raise ArgumentError(f"glu halves an axis of x of even length, and axis {axis} of the shape {shape} is none")
    return _gated(*np.split(x, 2, axis))


# gelu, exact: x cdf(x), where cdf is the normal distribution function. It is by far the most expensive part, so it is
# saved, and so is the gate of the approximation. In a kernel neither takes any time, while an array of it would take
# memory: there it is None, and computed again.


#: The formula itself: what a formula calls becomes a part of its kernel.
_cdf = normal_cdf.formula


@primitive()
@kernel(expression=lambda x, cdf: x * (_cdf(x) if cdf is None else cdf))
def gelu_(x: Any, cdf: Any) -> Any:
    """Return x * cdf, which is gelu(x) if `cdf` is the normal distribution function at x, or None for that."""
    return x * (normal_cdf(x) if cdf is None else cdf)


@derivative(gelu_, "x")
def _(g: Array, x: Array, cdf: Any) -> Array:
    return gelu_grad(g, x, cdf)


@derivative(gelu_, "cdf")
def _(g: Array) -> None:
    """Return no gradient: `cdf` is a function of x, and the derivative by x includes it."""


def _gelu_slope(x: Any, cdf: Any) -> Any:
    """Return the derivative of gelu."""
    return np.exp(np.square(x) * -0.5) * (1 / math.sqrt(2 * math.pi)) * x + (_cdf(x) if cdf is None else cdf)


@primitive()
@kernel(expression=lambda g, x, cdf: _gelu_slope(x, cdf) * g)
def gelu_grad_(g: Any, x: Any, cdf: Any) -> Any:
    """Return g (cdf + x pdf(x))."""
    value = normal_pdf_into(x)
    value *= x
    value += normal_cdf(x) if cdf is None else cdf
    value *= g
    return value


@derivative(gelu_grad_, "g")
def _(h: Array, x: Any, cdf: Any) -> Array:
    return gelu_grad(h, x, cdf)


@derivative(gelu_grad_, "x")
def _(h: Any, g: Any, x: Any) -> Array:
    square = x * x
    return h * g * (2 - square) * np.exp(square * -0.5) * (1 / math.sqrt(2 * math.pi))


@derivative(gelu_grad_, "cdf")
def _(h: Array) -> None:
    """Return no gradient, as above."""


_gelu = gelu_.call
gelu_grad: Callable[..., Any] = gelu_grad_.call


# By tanh: x (1 + tanh(a (x + b x**3))) / 2, which is x times the gate, the sigmoid of twice what the tanh is of: that
# has all its digits far below 0, where the tanh is -1.

INNER = math.sqrt(2 / math.pi)
CUBIC = 0.044715

#: In the slope, squares are taken as no larger than this: an infinite one times what is left of the gate, 0, is nan.
_LARGEST_SQUARE = 1e4


@kernel(expression=lambda x: logistic((np.square(x) * (2 * INNER * CUBIC) + 2 * INNER) * x))
@np.errstate(over="ignore")
def _gate_of(x: Any) -> Any:
    """Return the gate of an array, in a new array."""
    value = np.square(x, out=empty_like(x))
    value *= -2 * INNER * CUBIC
    value -= 2 * INNER
    value *= x
    np.exp(value, out=value)
    value += 1
    return np.reciprocal(value, out=value)


_gate = FusedFormula(_gate_of)


@primitive()
@kernel(expression=lambda x, gate: (_gate_of(x) if gate is None else gate) * x)
def gelu_tanh_(x: Any, gate: Any) -> Any:
    """Return x * gate, where `gate` is that sigmoid, or None for it."""
    return x * (_gate(x) if gate is None else gate)


@derivative(gelu_tanh_, "x")
def _(g: Array, x: Array, gate: Any) -> Array:
    return gelu_tanh_grad(g, x, gate)


@derivative(gelu_tanh_, "gate")
def _(g: Array) -> None:
    """Return no gradient, as for the cdf above."""


def _gelu_tanh_slope(x: Any, gate: Any) -> Any:
    """Return the derivative of gelu by tanh."""
    if gate is None:
        gate = _gate_of(x)
    inner_slope = np.minimum(np.square(x), _LARGEST_SQUARE) * (6 * INNER * CUBIC) + 2 * INNER
    # The product of the gate and of what is left of it first: it is 0 where that of the others overflows.
    return (1 - gate) * gate * x * inner_slope + gate


@primitive()
@kernel(expression=lambda g, x, gate: _gelu_tanh_slope(x, gate) * g)
@np.errstate(over="ignore")
def gelu_tanh_grad_(g: Any, x: Any, gate: Any) -> Array:
    """Return g (gate + gate (1 - gate) x 2 a (1 + 3 b x**2))."""
    if gate is None:
        gate = _gate(x)
    value = np.square(x, out=empty_like(x))
    np.minimum(value, _LARGEST_SQUARE, out=value)
    value *= 6 * INNER * CUBIC
    value += 2 * INNER
    product = 1 - gate
    product *= gate
    product *= x
    value *= product
    value += gate
    value *= g
    return value


@derivative(gelu_tanh_grad_, "g")
def _(h: Array, x: Any, gate: Any) -> Array:
    return gelu_tanh_grad(h, x, gate)


@derivative(gelu_tanh_grad_, "x")
def _(h: Any, g: Any, x: Any) -> Array:
    x = np.minimum(np.maximum(x, -100.0), 100.0)
    square = x * x
    inner_slope = INNER + INNER * CUBIC * 3 * square
    double = x * (2 * INNER + 2 * INNER * CUBIC * square)
    gate, rest = sigmoid(double), sigmoid(-double)
    curve = 2 * inner_slope + square * (6 * INNER * CUBIC) - 2 * x * (gate - rest) * inner_slope * inner_slope
    return h * g * 2 * gate * rest * curve


@derivative(gelu_tanh_grad_, "gate")
def _(h: Array) -> None:
    """Return no gradient, as above."""


_gelu_tanh = gelu_tanh_.call
gelu_tanh_grad: Callable[..., Any] = gelu_tanh_grad_.call


@on_device_of_arguments
def gelu(x: Tensor | np.ndarray, approximate: str = "none") -> Tensor | np.ndarray:
    """Return x times the normal distribution function at x.

    Args:
        x: any shape.
        approximate: "none" for the exact function, "tanh" for `x * (1 + tanh(...)) / 2`.

    Raises:
        ArgumentError: `approximate` is neither.
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.gelu; D. Hendrycks and K. Gimpel, "Gaussian error linear units" (2016).

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.gelu(np.array([-1.0, 0.0, 1.0]))
        array([-0.15865525,  0.        ,  0.84134475])
    """
    if approximate not in ("none", "tanh"):
        raise ArgumentError(f"gelu takes approximate='none' or 'tanh', not {approximate!r}")
    data = real_floating("gelu", "x", array_of(x))
    if data.__class__ is not np.ndarray and data.__class__ in COMPILED_TYPES:
        return (_gelu if approximate == "none" else _gelu_tanh)(x, None)
    if approximate == "none":
        cdf = normal_cdf(data)
        return _gelu(x, as_saved(cdf, x) if records(x) else cdf)
    gate = _gate(data)
    return _gelu_tanh(x, as_saved(gate, x) if records(x) else gate)
