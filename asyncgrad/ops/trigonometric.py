"""Trigonometric and hyperbolic functions, their inverses, and sinc."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .kernels import EXPRESSIONS, fused
from .primitive import Primitive, derivative, differentiable, primitive

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
tan: Primitive = differentiable(np.tan, "x", x=lambda g, out: g * (1 + out * out))
arcsin: Primitive = differentiable(np.arcsin, "x", x=lambda g, x: g / np.sqrt(_one_less_square(x)))
arccos: Primitive = differentiable(np.arccos, "x", x=lambda g, x: -g / np.sqrt(_one_less_square(x)))
arctan: Primitive = differentiable(np.arctan, "x", x=lambda g, x: g / (1 + x * x))

sinh: Primitive = differentiable(np.sinh, "x", x=lambda g, x: g * np.cosh(x))
cosh: Primitive = differentiable(np.cosh, "x", x=lambda g, x: g * np.sinh(x))
# Not g * (1 - out * out): a Python number among small arrays costs as much as another operation.
tanh: Primitive = differentiable(np.tanh, "x", x=lambda g, out: g - g * out * out)
arcsinh: Primitive = differentiable(np.arcsinh, "x", x=lambda g, x: g / np.sqrt(_one_and_square(x)))
arccosh: Primitive = differentiable(np.arccosh, "x", x=lambda g, x: g / _root_of_square_less_one(x))
arctanh: Primitive = differentiable(np.arctanh, "x", x=lambda g, x: g / (1 - x * x))

deg2rad: Primitive = differentiable(np.deg2rad, "x", x=lambda g: g * DEGREE)
radians: Primitive = differentiable(np.radians, "x", x=lambda g: g * DEGREE)
rad2deg: Primitive = differentiable(np.rad2deg, "x", x=lambda g: g / DEGREE)
degrees: Primitive = differentiable(np.degrees, "x", x=lambda g: g / DEGREE)

hypot: Primitive = differentiable(np.hypot, "x y", x=lambda g, x, out: g * (x / out), y=lambda g, y, out: g * (y / out))


# On a branch cut the sign of a zero tells from which side NumPy computes the value, and so the sign of the root. A
# difference from a constant whose other part is 0 keeps that sign; `x + 1` and `1 - x * x` make every -0 a 0.


def _one_less_square(x: Any) -> Any:
    return -((x - 1) * (x - -1)) if x.dtype.kind == "c" else 1 - x * x


def _one_and_square(x: Any) -> Any:
    return (x - 1j) * (x - complex(0.0, -1.0)) if x.dtype.kind == "c" else 1 + x * x


def _root_of_square_less_one(x: Any) -> Any:
    # For complex numbers the root of the product may be minus the product of the roots.
    return np.sqrt(x - 1) * np.sqrt(x - -1) if x.dtype.kind == "c" else np.sqrt(x * x - 1)


def over_square_distance(value: Any, y: Any, x: Any) -> Any:
    """Return `value / (x**2 + y**2)`; `value` itself at the origin, where it is 0."""
    square = x * x + y * y
    return value / np.where(square == 0, 1.0, square)


arctan2: Primitive = differentiable(
    np.arctan2,
    "y x",
    y=lambda g, y, x: g * over_square_distance(x, y, x),
    x=lambda g, y, x: g * over_square_distance(-y, y, x),
)


# sinc. Its derivatives are quotients of differences that vanish at 0, so they are primitives of their own.

#: The powers of x**2 in the series of sinc that count while |x| < 1, where pi**(2k) / (2k)! is below 1e-17.
SERIES = tuple(range(20))


def _sinc(x: Any) -> Any:
    angle = math.pi * x
    return np.where(angle == 0, 1.0, np.sin(angle) / angle)


EXPRESSIONS[np.sinc] = _sinc


@primitive(np.sinc)
@fused(_sinc)
def sinc(x: Any) -> Any:
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
@fused(_sinc_derivative)
def sinc_derivative(x: Any, order: int) -> Any:
    """Return the derivative of sinc of any order, to full precision also near 0."""
    return _sinc_derivative(x, order)


@derivative(sinc, "x")
def _(g: Any, x: Any) -> Any:
    return g * _slope(x, 1)


@derivative(sinc_derivative, "x")
def _(g: Any, x: Any, order: int) -> Any:
    return g * _slope(x, order + 1)


_slope = sinc_derivative.call
