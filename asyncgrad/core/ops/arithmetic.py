"""Elementwise arithmetic: the four operations, powers and roots, remainders, and the parts of a number."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.axes import array_like
from ..arrays.half import is_half
from ..arrays.values import raw
from ..recording.kernels import kernel
from ..recording.primitive import RULES, Primitive, derivative, differentiable, primitive
from .nondifferentiable import NonDifferentiable
from .trigonometric import over_square_distance

if TYPE_CHECKING:
    from ..arrays.array import Array


__all__ = [
    "add",
    "angle",
    "cbrt",
    "conjugate",
    "copysign",
    "divide",
    "divmod_",
    "exponent",
    "float_power",
    "fmod",
    "fraction",
    "frexp",
    "heaviside",
    "imag",
    "ldexp",
    "mantissa",
    "modf",
    "multiply",
    "negative",
    "nextafter",
    "positive",
    "power",
    "real",
    "real_if_close",
    "reciprocal",
    "remainder",
    "sqrt",
    "square",
    "subtract",
]

add: Primitive = differentiable(np.add, "x y", x=lambda g: g, y=lambda g: g)
subtract: Primitive = differentiable(np.subtract, "x y", x=lambda g: g, y=lambda g: -g)
multiply: Primitive = differentiable(np.multiply, "x y", x=lambda g, y: g * y, y=lambda g, x: g * x)
# Not x / (y * y): the square of a divisor of 1e-170 is 0.
divide: Primitive = differentiable(np.divide, "x y", x=lambda g, y: g / y, y=lambda g, x, y: g * (x / y) / -y)
negative: Primitive = differentiable(np.negative, "x", x=lambda g: -g)
positive: Primitive = differentiable(np.positive, "x", x=lambda g: g)
reciprocal: Primitive = differentiable(np.reciprocal, "x", x=lambda g, out: -g * out * out)
square: Primitive = differentiable(np.square, "x", x=lambda g, x: g * (x + x))
sqrt: Primitive = differentiable(np.sqrt, "x", x=lambda g, out: g / (out + out))
cbrt: Primitive = differentiable(np.cbrt, "x", x=lambda g, out: g / (3 * out * out))
conjugate: Primitive = differentiable(np.conjugate, "x", x=lambda g: np.conjugate(g))


# Powers.


def base_formula(raised: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """Return the derivative of `raised(x, y)`, x to the power of y, with respect to x."""

    def formula(g: Any, x: Any, y: Any) -> Any:
        if isinstance(y, (int, float)):
            if y == 2:
                return g * (x + x)
            if y == 0:
                return np.zeros_like(g)
            return g * (y * raised(x, y - 1))
        if y.__class__ is np.ndarray and y.dtype == np.bool_:
            # A truth value cannot be subtracted from.
            y = y.astype(np.int8)
        # Where y is 0, x**-1 may be infinite, of which 0 times is nan. (There a quotient, and not 0, for the second
        # derivative.)
        flat = y == 0
        divisor = np.where(np.logical_and(flat, x != 0), x, 1)
        return g * np.where(flat, y / divisor, y * raised(x, y - np.logical_not(flat)))

    return formula


def exponent_formula(g: Any, x: Any, y: Any, out: Any) -> Any:
    """Return the derivative of x to the power of y with respect to y: 0 where x is 0 and y is not negative."""
    if isinstance(x, (int, float)) and x > 0:
        return g * (out * math.log(x))
    if x.__class__ is np.ndarray and is_half(x):
        # Beside a wider exponent: the logarithm would be rounded to float16.
        x = x.astype(out.dtype)
    flat = np.logical_and(x == 0, np.real(y) >= 0)
    base = np.where(flat, 1.0, x)
    # A negative number has complex powers, too.
    return g * (out * np.log(base + 0j if out.dtype.kind == "c" else base))


@primitive()
@kernel(expression=lambda x, y: x**y)
def power(x: Any, y: Any, /) -> Any:
    """Return x to the power of y; by the operator, which NumPy makes faster for 2, 0.5 and -1."""
    return x**y


_power_formulas: dict[str, Callable[..., Any]] = {"x": base_formula(lambda x, y: x**y), "y": exponent_formula}
power.add_formulas(_power_formulas)
# np.power gives other bits than the operator for some numbers, and another dtype for some integers.
differentiable(np.power, "x y", **_power_formulas)
float_power: Primitive = differentiable(np.float_power, "x y", x=base_formula(np.float_power), y=exponent_formula)


# Remainders: the quotient is constant between its steps.

remainder: Primitive = differentiable(np.remainder, "x y", x=lambda g: g, y=lambda g, x, y: -g * np.floor_divide(x, y))
fmod: Primitive = differentiable(np.fmod, "x y", x=lambda g: g, y=lambda g, x, y: -g * _truncated_quotient(x, y))


def _truncated_quotient(x: Any, y: Any) -> Any:
    """Return the whole part of x / y, which a division may have rounded up to the next whole number."""
    return np.where((x < 0) == (y < 0), np.floor_divide(x, y), -np.floor_divide(x, -y))


def divmod_(x: Any, y: Any, /) -> tuple[Any, Any]:
    """Return the quotient, which has no derivative, and the remainder."""
    return np.floor_divide(x, y), remainder(x, y)


RULES[np.divmod] = divmod_


@primitive()
def fraction(x: Any, /) -> Any:
    """Return the fractional part of x, with the sign of x."""
    return np.modf(x)[0]


@derivative(fraction, "x")
def _(g: Array) -> Array:
    return g


def modf(x: Any, /) -> tuple[Any, Any]:
    """Return the fractional part of x, and its integral part, which has no derivative."""
    return fraction(x), whole_part(x)


@NonDifferentiable
def whole_part(x: Any, /) -> Any:
    """Return the integral part of x."""
    return np.modf(x)[1]


RULES[np.modf] = modf


# Mantissa and exponent, sign, complex parts.


@primitive()
def mantissa(x: Any, /) -> Any:
    """Return x divided by the power of two that brings its absolute value between 0.5 and 1."""
    return np.frexp(x)[0]


@derivative(mantissa, "x")
def _(g: Array, x: Array) -> Array:
    return np.ldexp(g, -exponent(x))


@NonDifferentiable
def exponent(x: Any, /) -> Any:
    """Return the exponent of the power of two that goes with the mantissa."""
    return np.frexp(x)[1]


def frexp(x: Any, /) -> tuple[Any, Any]:
    """Return the mantissa of x, and its exponent, which has no derivative."""
    return mantissa(x), exponent(x)


RULES[np.frexp] = frexp

# The power of two is an integer; its formula is there so that it may be a Tensor.
ldexp: Primitive = differentiable(np.ldexp, "x power", x=lambda g, power: np.ldexp(g, power), power=lambda g: None)
copysign: Primitive = differentiable(
    np.copysign,
    "x y",
    x=lambda g, x, out: g * (np.sign(x) * np.sign(out)),
    y=lambda g: np.zeros_like(g),
)


@primitive(np.real, views=True)
def real(val: Any) -> Array:
    """Return the real part, a view; a real array is returned whole."""
    return np.real(val)


@derivative(real, "val")
def _(g: Array) -> Array:
    return g


@primitive(np.imag, views=True)
def imag(val: Any) -> Array:
    """Return the imaginary part, a view; zeros for a real array."""
    return np.imag(val)


@derivative(imag, "val")
def _(g: Any) -> Array:
    return g * 1j


def real_if_close(a: Any, tol: float = 100) -> Any:
    """Return the real parts where all imaginary parts are near 0, else the array itself."""
    a = array_like(a)
    return real(a) if np.real_if_close(raw(a), tol).dtype != a.dtype else a


RULES[np.real_if_close] = real_if_close


@primitive(np.angle)
def angle(z: Any, deg: bool = False) -> Array:
    """Return the angle of complex numbers, which is constant for real ones but for the step at 0."""
    return np.angle(z, deg)


@derivative(angle, "z")
def _(g: Any, z: Array, deg: bool) -> Array:
    if z.dtype.kind != "c":
        return np.zeros_like(g)
    # Real numbers are divided, at a fraction of the cost of complex ones.
    y, x = z.imag, z.real
    slope = over_square_distance(x, y, x) * 1j - over_square_distance(y, y, x)
    return slope * (g * (180 / math.pi) if deg else g)


# The number next to x is x plus a step that does not change with it.
nextafter: Primitive = differentiable(np.nextafter, "x y", x=lambda g: g, y=lambda g: np.zeros_like(g))
# A step of x1; x2 is the value right at it.
heaviside: Primitive = differentiable(
    np.heaviside, "x1 x2", x1=lambda g: np.zeros_like(g), x2=lambda g, x1: np.where(np.equal(x1, 0), g, 0)
)
