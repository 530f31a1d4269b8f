"""Trigonometric and hyperbolic functions, their inverses, and sinc."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.values import is_device_array, raw
from ..recording.kernels import kernel
from ..recording.primitive import Primitive, derivative, differentiable, primitive

if TYPE_CHECKING:
    from ..arrays.array import Array


__all__ = [
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "cos",
    "cosh",
    "deg2rad",
    "degrees",
    "hypot",
    "rad2deg",
    "radians",
    "sin",
    "sinc",
    "sinc_derivative",
    "sinh",
    "tan",
    "tanh",
]

DEGREE = math.pi / 180

sin: Primitive = differentiable(np.sin, "x", x=lambda g, x: g * np.cos(x))
cos: Primitive = differentiable(np.cos, "x", x=lambda g, x: -g * np.sin(x))
tan: Primitive = differentiable(np.tan, "x", x=lambda g, x, out: g * _square_of_secant(x, out))
arcsin: Primitive = differentiable(np.arcsin, "x", x=lambda g, x: g / root_of_one_less_square(x))
arccos: Primitive = differentiable(np.arccos, "x", x=lambda g, x: -g / root_of_one_less_square(x))
arctan: Primitive = differentiable(np.arctan, "x", x=lambda g, x: g * arctan_slope(x))

sinh: Primitive = differentiable(np.sinh, "x", x=lambda g, x: g * np.cosh(x))
cosh: Primitive = differentiable(np.cosh, "x", x=lambda g, x: g * np.sinh(x))
# Not g * (1 - out * out): a Python number among small arrays costs as much as another operation. From 19 on the result
# rounds to 1, and this is 0: an exact slope needs x too, which would have to be kept in memory, and the search for such
# results takes half as long again as this on a small array. docs/pytorch-names.md says what to write instead.
tanh: Primitive = differentiable(np.tanh, "x", x=lambda g, out: g - g * out * out)
arcsinh: Primitive = differentiable(np.arcsinh, "x", x=lambda g, x: g / root_of_one_and_square(x))
arccosh: Primitive = differentiable(np.arccosh, "x", x=lambda g, x: g / root_of_square_less_one(x))
arctanh: Primitive = differentiable(np.arctanh, "x", x=lambda g, x: g * arctanh_slope(x))

deg2rad: Primitive = differentiable(np.deg2rad, "x", x=lambda g: g * DEGREE)
radians: Primitive = differentiable(np.radians, "x", x=lambda g: g * DEGREE)
rad2deg: Primitive = differentiable(np.rad2deg, "x", x=lambda g: g / DEGREE)
degrees: Primitive = differentiable(np.degrees, "x", x=lambda g: g / DEGREE)

hypot: Primitive = differentiable(
    np.hypot, "x y", x=lambda g, x, y, out: g * _part(x, y, out), y=lambda g, x, y, out: g * _part(y, x, out)
)


def _part(x: Any, y: Any, size: Any) -> Any:
    """Return x over the length of the vector of x and y; 0 for one of no length, as a norm has it.

    An infinite x is all of it beside a finite y, and as long as an infinite one, as `np.arctan2` has it
    (test_the_gradient_of_an_infinite_vector_is_the_limit_far_out).
    """
    is_far = np.isinf(x)
    sign = np.sign(x)
    share = np.where(np.isinf(y), math.sqrt(0.5) * sign, sign)
    return np.where(is_far, share, x * (size != 0)) / np.where(is_far, 1.0, size + (size == 0))


def _square_of_secant(x: Any, out: Any) -> Any:
    """Return 1 + tan(x)**2, given out = tan(x), which is 1j or -1j far from the real axis."""
    if x.dtype.kind != "c":
        return 1 + out * out
    is_far = np.abs(raw(x).imag) > 1
    exponential = np.exp(np.where(is_far, np.where(raw(x).imag < 0, -2j * x, 2j * x), 0))
    return np.where(is_far, 4 * exponential / np.square(1 + exponential), 1 + out * out)


# The slopes of the inverse functions. A difference of squares is a product here: next to 1 the square loses the digits
# that matter. The square of a large number is not taken, or its overflow is no matter.
#
# On a branch cut the sign of a zero tells from which side NumPy computes the value, and so the sign of the root. A
# difference from a constant whose other part is 0 keeps that sign; `x + 1` and `1 - x * x` make every -0 a 0. The root
# of a product of complex numbers may be minus the product of their roots.


@primitive()
@kernel(expression=lambda x: np.sqrt((1 - x) * (1 + x)))
def root_of_one_less_square_(x: Any) -> Array:
    """Return the square root of 1 - x**2."""
    return np.sqrt(-(x - 1)) * np.sqrt(x - -1) if x.dtype.kind == "c" else np.sqrt((1 - x) * (1 + x))


@derivative(root_of_one_less_square_, "x")
def _(g: Any, x: Any, out: Any) -> Array:
    return -g * (x / out)


@primitive()
@kernel(expression=lambda x: np.sqrt(x - 1) * np.sqrt(x + 1))
def root_of_square_less_one_(x: Any) -> Array:
    """Return the square root of x**2 - 1."""
    if x.dtype.kind != "c":
        return np.sqrt(x - 1) * np.sqrt(x - -1)
    with np.errstate(invalid="ignore"):
        root = np.sqrt(x - 1) * np.sqrt(x - -1)
    # The product of infinite complex numbers is NaN; the root beside them is the number itself.
    return np.where(np.isfinite(root), root, x)


@derivative(root_of_square_less_one_, "x")
def _(g: Any, x: Any, out: Any) -> Array:
    return g * (x / out)


@primitive()
@kernel(expression=lambda x: np.hypot(x, np.ones_like(x)))
@np.errstate(over="ignore", invalid="ignore")
def root_of_one_and_square_(x: Any) -> Array:
    """Return the square root of 1 + x**2."""
    # Where the square overflows, the root of the sum is the number itself. (NumPy's hypot takes seven times as long.)
    if x.dtype.kind == "c":
        root = np.sqrt((x - 1j) * (x - complex(0.0, -1.0)))
        return np.where(np.isfinite(root), root, x * np.copysign(1, x.real))
    root = np.sqrt(1 + x * x)
    return np.where(np.isinf(root), np.abs(x), root)


@derivative(root_of_one_and_square_, "x")
def _(g: Any, x: Any, out: Any) -> Array:
    return g * (x / out)


@primitive()
@kernel(expression=lambda x: 1 / (1 + x * x))
@np.errstate(over="ignore")
def arctan_slope_(x: Any) -> Array:
    """Return 1 / (1 + x**2)."""
    return 1 / (x - 1j) / (x + 1j) if x.dtype.kind == "c" else 1 / (1 + x * x)


@derivative(arctan_slope_, "x")
def _(g: Any, x: Any, out: Any) -> Array:
    return g * (-2 * x * out * out)


@primitive()
@kernel(expression=lambda x: 1 / ((1 - x) * (1 + x)))
def arctanh_slope_(x: Any) -> Array:
    """Return 1 / (1 - x**2)."""
    return 1 / (1 - x) / (1 + x) if x.dtype.kind == "c" else 1 / ((1 - x) * (1 + x))


@derivative(arctanh_slope_, "x")
def _(g: Any, x: Any, out: Any) -> Array:
    return g * (2 * x * out * out)


root_of_one_less_square: Callable[..., Any] = root_of_one_less_square_.call
root_of_square_less_one: Callable[..., Any] = root_of_square_less_one_.call
root_of_one_and_square: Callable[..., Any] = root_of_one_and_square_.call
arctan_slope: Callable[..., Any] = arctan_slope_.call
arctanh_slope: Callable[..., Any] = arctanh_slope_.call


# Angles.


def _over_square_of_hypot(value: Any, y: Any, x: Any) -> Any:
    size = np.hypot(x, y)
    size = size + (size == 0)
    # Infinity over the square of infinity is 0 (test_the_gradient_of_an_infinite_vector_is_the_limit_far_out).
    return np.where(np.isinf(value) & np.isinf(size), 0.0, value) / size / size


@primitive()
@kernel(expression=_over_square_of_hypot)
@np.errstate(over="ignore")
def over_square_distance_(value: Any, y: Any, x: Any) -> Any:
    """Return value / (x**2 + y**2); the value itself at the origin, where it is 0."""
    # In the dtype of the result: the square of an integer may overflow.
    # test_the_gradient_beside_an_array_of_another_dtype_is_that_beside_its_numbers guards it.
    dtype = np.result_type(x, y)
    square = np.multiply(x, x, dtype=dtype) + np.multiply(y, y, dtype=dtype)
    if square.__class__ is not np.ndarray and is_device_array(square):
        return _over_square_of_hypot(value, y, x)
    # NumPy's hypot takes ten times as long as the rest.
    limits = np.finfo(square.dtype)
    if np.min(square, initial=1.0) >= limits.tiny / limits.eps and np.max(square, initial=1.0) <= limits.max:
        return value / square
    return _over_square_of_hypot(value, y, x)


@derivative(over_square_distance_, "value")
def _(g: Array, y: Any, x: Any) -> Array:
    return over_square_distance(g, y, x)


@derivative(over_square_distance_, "y")
def _(g: Any, y: Array, x: Any, out: Any) -> Array:
    return g * (-2 * out * over_square_distance(y, y, x))


@derivative(over_square_distance_, "x")
def _(g: Any, y: Any, x: Array, out: Any) -> Array:
    return g * (-2 * out * over_square_distance(x, y, x))


over_square_distance: Callable[..., Any] = over_square_distance_.call

arctan2: Primitive = differentiable(
    np.arctan2,
    "y x",
    y=lambda g, y, x: g * over_square_distance(x, y, x),
    # Not -y, which a boolean y does not have, and an unsigned one has modulo its range.
    x=lambda g, y, x: -g * over_square_distance(y, y, x),
)


# sinc. Its derivatives are quotients of differences that vanish at 0, so they are primitives of their own.

#: The powers of x**2 in the series of sinc that count while |x| < 1, where pi**(2k) / (2k)! is below 1e-17.
SERIES = tuple(range(20))


def _sinc(x: Any) -> Any:
    angle = math.pi * x
    return np.where(angle == 0, 1.0, np.sin(angle) / angle)


kernel(expression=_sinc)(np.sinc)


@primitive(np.sinc)
@kernel(expression=_sinc)
def sinc(x: Any) -> Array:
    """Return sin(pi x) / (pi x), and 1 at 0."""
    return np.sinc(x)


def _series_term(k: int, order: int) -> float:
    """Return the factor of x**(2k), or of the power below it, in the series of a derivative of sinc."""
    sign = -1 if k % 2 else 1
    return sign * math.pi ** (2 * k) * math.perm(2 * k, order) / math.factorial(2 * k + 1)


def _sinc_derivative(x: Any, order: int) -> Any:
    near = np.abs(x) < 1
    far = np.where(near, 1.0, x)
    # From x sinc(x) = sin(pi x) / pi, differentiated again and again; each step divides by x, so not near 0.
    away = np.sinc(far)
    for n in range(1, order + 1):
        away = (math.pi ** (n - 1) * np.sin(math.pi * far + n * math.pi / 2) - n * away) / far
    inside = np.where(near, x, 0.0)
    squared = inside * inside
    series: Any = 0.0
    for k in reversed(SERIES):
        if 2 * k >= order:
            series = series * squared + _series_term(k, order)
    return np.where(near, series * inside if order % 2 else series, away)


@primitive()
@kernel(expression=_sinc_derivative)
def sinc_derivative(x: Any, order: int) -> Any:
    """Return the derivative of sinc of any order, to full precision also near 0."""
    return _sinc_derivative(x, order)


@derivative(sinc, "x")
def _(g: Any, x: Array) -> Array:
    return g * _slope(x, 1)


@derivative(sinc_derivative, "x")
def _(g: Any, x: Array, order: int) -> Array:
    return g * _slope(x, order + 1)


_slope = sinc_derivative.call
