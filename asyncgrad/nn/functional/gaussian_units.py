"""The Gaussian error linear unit, exact and in its tanh approximation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays.interception import on_device_of_arguments
from ...core.arrays.values import empty_like
from ...core.recording.kernels import COMPILERS, FusedFormula, fused
from ...core.recording.primitive import derivative, primitive
from ...errors import ArgumentError
from .activations import logistic, sigmoid
from .arguments import array_of, as_saved, real_floating, records
from .error_function import normal_cdf, normal_pdf_into

__all__ = ["gelu"]


# Exact: x cdf(x), where cdf is the normal distribution function. It is by far the most expensive part, so it is saved,
# and so is the gate of the approximation. In a kernel neither takes any time, while an array of it would take memory:
# there it is None, and computed again.


#: The formula itself: what a formula calls becomes a part of its kernel.
_cdf = normal_cdf.formula


@primitive()
@fused(lambda x, cdf: x * (_cdf(x) if cdf is None else cdf))
def gelu_(x: Any, cdf: Any) -> Any:
    """Return x * cdf, which is gelu(x) if `cdf` is the normal distribution function at x, or None for that."""
    return x * (normal_cdf(x) if cdf is None else cdf)


@derivative(gelu_, "x")
def _(g: Any, x: Any, cdf: Any) -> Any:
    return gelu_grad(g, x, cdf)


@derivative(gelu_, "cdf")
def _(g: Any) -> None:
    """Return no gradient: `cdf` is a function of x, and the derivative by x includes it."""


def _gelu_slope(x: Any, cdf: Any) -> Any:
    """Return the derivative of gelu."""
    return np.exp(np.square(x) * -0.5) * (1 / math.sqrt(2 * math.pi)) * x + (_cdf(x) if cdf is None else cdf)


@primitive()
@fused(lambda g, x, cdf: _gelu_slope(x, cdf) * g)
def gelu_grad_(g: Any, x: Any, cdf: Any) -> Any:
    """Return g (cdf + x pdf(x))."""
    value = normal_pdf_into(x)
    value *= x
    value += normal_cdf(x) if cdf is None else cdf
    value *= g
    return value


@derivative(gelu_grad_, "g")
def _(h: Any, x: Any, cdf: Any) -> Any:
    return gelu_grad(h, x, cdf)


@derivative(gelu_grad_, "x")
def _(h: Any, g: Any, x: Any) -> Any:
    square = x * x
    return h * g * (2 - square) * np.exp(square * -0.5) * (1 / math.sqrt(2 * math.pi))


@derivative(gelu_grad_, "cdf")
def _(h: Any) -> None:
    """Return no gradient, as above."""


_gelu = gelu_.call
gelu_grad: Callable[..., Any] = gelu_grad_.call


# By tanh: x (1 + tanh(a (x + b x**3))) / 2, which is x times the gate, the sigmoid of twice what the tanh is of: that
# has all its digits far below 0, where the tanh is -1.

INNER = math.sqrt(2 / math.pi)
CUBIC = 0.044715

#: In the slope, squares are taken as no larger than this: an infinite one times what is left of the gate, 0, is nan.
_LARGEST_SQUARE = 1e4


@fused(lambda x: logistic((np.square(x) * (2 * INNER * CUBIC) + 2 * INNER) * x))
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
@fused(lambda x, gate: (_gate_of(x) if gate is None else gate) * x)
def gelu_tanh_(x: Any, gate: Any) -> Any:
    """Return x * gate, where `gate` is that sigmoid, or None for it."""
    return x * (_gate(x) if gate is None else gate)


@derivative(gelu_tanh_, "x")
def _(g: Any, x: Any, gate: Any) -> Any:
    return gelu_tanh_grad(g, x, gate)


@derivative(gelu_tanh_, "gate")
def _(g: Any) -> None:
    """Return no gradient, as for the cdf above."""


def _gelu_tanh_slope(x: Any, gate: Any) -> Any:
    """Return the derivative of gelu by tanh."""
    if gate is None:
        gate = _gate_of(x)
    inner_slope = np.minimum(np.square(x), _LARGEST_SQUARE) * (6 * INNER * CUBIC) + 2 * INNER
    # The product of the gate and of what is left of it first: it is 0 where that of the others overflows.
    return (1 - gate) * gate * x * inner_slope + gate


@primitive()
@fused(lambda g, x, gate: _gelu_tanh_slope(x, gate) * g)
@np.errstate(over="ignore")
def gelu_tanh_grad_(g: Any, x: Any, gate: Any) -> Any:
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
def _(h: Any, x: Any, gate: Any) -> Any:
    return gelu_tanh_grad(h, x, gate)


@derivative(gelu_tanh_grad_, "x")
def _(h: Any, g: Any, x: Any) -> Any:
    x = np.minimum(np.maximum(x, -100.0), 100.0)
    square = x * x
    inner_slope = INNER + INNER * CUBIC * 3 * square
    double = x * (2 * INNER + 2 * INNER * CUBIC * square)
    gate, rest = sigmoid(double), sigmoid(-double)
    curve = 2 * inner_slope + square * (6 * INNER * CUBIC) - 2 * x * (gate - rest) * inner_slope * inner_slope
    return h * g * 2 * gate * rest * curve


@derivative(gelu_tanh_grad_, "gate")
def _(h: Any) -> None:
    """Return no gradient, as above."""


_gelu_tanh = gelu_tanh_.call
gelu_tanh_grad: Callable[..., Any] = gelu_tanh_grad_.call


@on_device_of_arguments
def gelu(x: Any, approximate: str = "none") -> Any:
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
    if data.__class__ is not np.ndarray and data.__class__ in COMPILERS:
        return (_gelu if approximate == "none" else _gelu_tanh)(x, None)
    if approximate == "none":
        cdf = normal_cdf(data)
        return _gelu(x, as_saved(cdf, x) if records(x) else cdf)
    gate = _gate(data)
    return _gelu_tanh(x, as_saved(gate, x) if records(x) else gate)
