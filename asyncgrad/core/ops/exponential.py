"""Exponentials and logarithms, and the modified Bessel function, a mean of exponentials."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.values import is_device_array, is_recorder, recorded_whole
from ..recording.kernels import kernel
from ..recording.primitive import Primitive, derivative, differentiable, primitive

if TYPE_CHECKING:
    from ..arrays.array import Array


__all__ = [
    "exp",
    "exp2",
    "expm1",
    "i0",
    "i0_derivative",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logaddexp2",
]

LN2 = math.log(2)
LOG2_OF_E = math.log2(math.e)
LOG10_OF_E = math.log10(math.e)

exp: Primitive = differentiable(np.exp, "x", x=lambda g, out: g * out)
exp2: Primitive = differentiable(np.exp2, "x", x=lambda g, out: g * (LN2 * out))
# Not out + 1: from -37 on the result is -1 (test_the_gradient_is_the_exact_derivative_at_every_size_of_number).
expm1: Primitive = differentiable(np.expm1, "x", x=lambda g, x: g * np.exp(x))
log: Primitive = differentiable(np.log, "x", x=lambda g, x: g / x)
# Not g / (10 * x) and the like, which overflows at the largest numbers.
log2: Primitive = differentiable(np.log2, "x", x=lambda g, x: g * LOG2_OF_E / x)
log10: Primitive = differentiable(np.log10, "x", x=lambda g, x: g * LOG10_OF_E / x)
log1p: Primitive = differentiable(np.log1p, "x", x=lambda g, x: g / (1 + x))

logaddexp: Primitive = differentiable(
    np.logaddexp, "x y", x=lambda g, x, y: g * share(x, y), y=lambda g, x, y: g * share(y, x)
)
logaddexp2: Primitive = differentiable(
    np.logaddexp2, "x y", x=lambda g, x, y: g * binary_share(x, y), y=lambda g, x, y: g * binary_share(y, x)
)


# What part of exp(x) + exp(y) is exp(x): 1 / (1 + exp(y - x)), which is 0 where that exponential overflows. Two equal
# infinities have one half each, as two equal numbers have. A nan would be one after a weight of 0, too
# (test_a_sum_of_equal_infinities_that_has_no_weight_has_a_gradient_of_zero).


def _difference(x: Any, y: Any) -> Any:
    return np.where(x == y, 0.0, x - y)


@primitive()
@kernel(expression=lambda x, y: 1 / (1 + np.exp(_difference(y, x))))
@np.errstate(over="ignore", invalid="ignore")
def share_(x: Any, y: Any) -> Array:
    """Return exp(x) / (exp(x) + exp(y))."""
    return 1 / (1 + np.exp(_difference(y, x)))


@derivative(share_, "x")
def _(g: Any, x: Array, y: Any, out: Any) -> Array:
    return g * out * share(y, x)


@derivative(share_, "y")
def _(g: Any, x: Any, y: Array, out: Any) -> Array:
    return -g * out * share(y, x)


@primitive()
@kernel(expression=lambda x, y: 1 / (1 + np.exp2(_difference(y, x))))
@np.errstate(over="ignore", invalid="ignore")
def binary_share_(x: Any, y: Any) -> Array:
    """Return 2**x / (2**x + 2**y)."""
    return 1 / (1 + np.exp2(_difference(y, x)))


@derivative(binary_share_, "x")
def _(g: Any, x: Array, y: Any, out: Any) -> Array:
    return LN2 * g * out * binary_share(y, x)


@derivative(binary_share_, "y")
def _(g: Any, x: Any, y: Array, out: Any) -> Array:
    return -LN2 * g * out * binary_share(y, x)


share: Callable[..., Any] = share_.call
binary_share: Callable[..., Any] = binary_share_.call


# The modified Bessel function of order 0: the mean of exp(x cos t) over a circle of angles t.


@primitive(np.i0)
def i0(x: Any) -> Array:
    """Return the modified Bessel function of the first kind, of order 0."""
    return np.i0(x)


#: Beyond it exp(x), and the function, is infinite in float64.
_LARGEST = 710.0


def _quarter(largest: float) -> int:
    """Return a quarter of the number of angles that numbers up to the largest need, for the function itself."""
    return 8 + math.ceil(2.5 * math.sqrt(largest))


def _power_of_cosine(step: int, quarter: int, order: int) -> float:
    return math.cos((step + 0.5) * math.pi / (2 * quarter)) ** order


def _mean_over_angles(x: Any, order: int, quarter: int) -> Any:
    # Four angles, t, -t, pi - t and pi + t, have one exponential or its reciprocal: they make a cosh or a sinh.
    both = np.sinh if order % 2 else np.cosh
    total: Any = 0.0
    for step in range(quarter):
        total = total + _power_of_cosine(step, quarter, order) * both(x * _power_of_cosine(step, quarter, 1))
    return total / quarter


#: For all numbers of float32 and of float64: a kernel does not wait for the largest of its own.
_IN_SINGLE, _IN_DOUBLE = _quarter(89.0), _quarter(_LARGEST)


@primitive()
@kernel(
    expression=lambda x, order: _mean_over_angles(
        x, order, (_IN_SINGLE if x.dtype.char in "ef" else _IN_DOUBLE) + order // 4
    )
)
def i0_derivative(x: Array, order: int) -> Any:
    """Return the derivative of i0 of any order: the mean of cos(t)**order * exp(x cos t).

    The mean over evenly spaced angles is exact but for terms that fall off faster than any power of their number.
    """
    # How many angles there are depends on the numbers.
    return recorded_whole(_i0_derivative, x, order) if is_recorder(x) else _i0_derivative(x, order)


def _i0_derivative(x: Array, order: int) -> Any:
    sizes = np.abs(x)
    if sizes.__class__ is not np.ndarray and is_device_array(sizes):
        found = float(np.max(np.where(np.isnan(sizes), 0, sizes))) if sizes.size else 0.0
    else:
        found = float(np.fmax.reduce(sizes, None, initial=0.0))
    return _mean_over_angles(x, order, _quarter(min(found, _LARGEST)) + order // 4)


@derivative(i0, "x")
def _(g: Any, x: Array) -> Array:
    return g * _slope(x, 1)


@derivative(i0_derivative, "x")
def _(g: Any, x: Array, order: int) -> Array:
    return g * _slope(x, order + 1)


_slope = i0_derivative.call
