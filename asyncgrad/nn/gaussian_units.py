"""The Gaussian error linear unit, exact and in its tanh approximation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import ArgumentError
from ..graph.interception import on_device_of_arguments
from ..graph.values import empty_beside
from ..ops.kernels import COMPILERS, FusedFormula, fused
from ..ops.primitive import derivative, primitive
from .arguments import array_of, as_saved, real_floating, records
from .error_function import normal_cdf, normal_pdf_into

__all__ = ["gelu"]


# Exact: x cdf(x), where cdf is the normal distribution function. It is by far the most expensive part, so it is saved,
# and so is the tanh of the approximation. In a kernel neither takes any time, while an array of it would take memory:
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


# By tanh: x (1 + tanh(a (x + b x**3))) / 2.

INNER = math.sqrt(2 / math.pi)
CUBIC = 0.044715


@fused(lambda x: np.tanh((np.square(x) * (INNER * CUBIC) + INNER) * x))
def _bend_of(x: Any) -> Any:
    """Return tanh(a (x + b x**3)) of an array, in a new array."""
    value = np.square(x, out=empty_beside(x))
    value *= INNER * CUBIC
    value += INNER
    value *= x
    return np.tanh(value, out=value)


_bend = FusedFormula(_bend_of)


@primitive()
@fused(lambda x, bend: ((_bend_of(x) if bend is None else bend) + 1) * x * 0.5)
def gelu_tanh_(x: Any, bend: Any) -> Any:
    """Return x (1 + bend) / 2, where `bend` is that tanh, or None for it."""
    if bend is None:
        bend = _bend(x)
    value = np.add(bend, 1, out=empty_beside(bend))
    value *= x
    value *= 0.5
    return value


@derivative(gelu_tanh_, "x")
def _(g: Any, x: Any, bend: Any) -> Any:
    return gelu_tanh_grad(g, x, bend)


@derivative(gelu_tanh_, "bend")
def _(g: Any) -> None:
    """Return no gradient, as for the cdf above."""


def _gelu_tanh_slope(x: Any, bend: Any) -> Any:
    """Return the derivative of gelu by tanh."""
    if bend is None:
        bend = _bend_of(x)
    inner_slope = np.square(x) * (0.5 * INNER * CUBIC * 3) + 0.5 * INNER
    # (1 + t) (1/2 + x (1 - t) a (1 + 3 b x**2) / 2)
    return (inner_slope * x * (1 - bend) + 0.5) * (1 + bend)


@primitive()
@fused(lambda g, x, bend: _gelu_tanh_slope(x, bend) * g)
def gelu_tanh_grad_(g: Any, x: Any, bend: Any) -> Any:
    """Return g (1 + t + x (1 - t**2) a (1 + 3 b x**2)) / 2, where t is the tanh."""
    if bend is None:
        bend = _bend(x)
    value = np.square(x, out=empty_beside(x))
    value *= 0.5 * INNER * CUBIC * 3
    value += 0.5 * INNER
    value *= x
    value *= 1 - bend
    value += 0.5
    # (1 + t) (1/2 + x (1 - t) a (1 + 3 b x**2) / 2)
    value *= 1 + bend
    value *= g
    return value


@derivative(gelu_tanh_grad_, "g")
def _(h: Any, x: Any, bend: Any) -> Any:
    return gelu_tanh_grad(h, x, bend)


@derivative(gelu_tanh_grad_, "x")
def _(h: Any, g: Any, x: Any) -> Any:
    square = x * x
    inner_slope = INNER + INNER * CUBIC * 3 * square
    bend = np.tanh(x * (INNER + INNER * CUBIC * square))
    curve = 2 * inner_slope + square * (6 * INNER * CUBIC) - 2 * x * bend * inner_slope * inner_slope
    return h * g * 0.5 * (1 - bend * bend) * curve


@derivative(gelu_tanh_grad_, "bend")
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
    bend = _bend(data)
    return _gelu_tanh(x, as_saved(bend, x) if records(x) else bend)
