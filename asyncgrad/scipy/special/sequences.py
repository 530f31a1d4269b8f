"""Functions of all degrees up to one, which SciPy gives with their slopes.

Each solves a linear differential equation of the second order, from which the derivative of the slope follows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.values import raw
from ...core.recording.primitive import derivative, primitive
from ...core.tensor import Tensor
from ...errors import ArgumentTypeError
from ..arguments import floating
from ..ufuncs import special

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["lmbda", "lqmn", "lqn", "pbdv_seq", "pbvv_seq", "riccati_jn", "riccati_yn"]


@primitive()
def sequence_value(x: Any, given: tuple[Any, ...], name: str) -> Any:
    """Return the values of functions, along axes before those of x."""
    return _call(x, given, name)[0]


@primitive()
def sequence_slope(x: Any, given: tuple[Any, ...], name: str) -> Any:
    """Return the slopes of functions, along axes before those of x."""
    return _call(x, given, name)[1]


def _call(x: Array, given: tuple[Any, ...], name: str) -> Any:
    return getattr(special, name)(*given, x if x.ndim else x[()])


@derivative(sequence_value, "x")
def _(g: Any, x: Array, given: tuple[Any, ...], name: str) -> Array:
    return g * sequence_slope.call(x, given, name)


@derivative(sequence_slope, "x")
def _(g: Any, x: Array, given: tuple[Any, ...], name: str, out: Array) -> Array:
    value = sequence_value.call(x, given, name)
    axes = np.ndim(raw(value)) - np.ndim(raw(x))
    degrees = [
        np.arange(count).reshape(*[1] * axis, -1, *[1] * (np.ndim(raw(value)) - axis - 1))
        for axis, count in enumerate(np.shape(raw(value))[:axes])
    ]
    return g * _EQUATIONS[name](x, value, out, given, degrees)


# The equations: second derivatives, by the argument, values, slopes, the other arguments, and the degrees.


def _legendre(x: Any, value: Any, slope: Any, given: Any, degrees: list[Any]) -> Any:
    square, n = 1 - x * x, degrees[-1]
    constant = n * (n + 1) if len(degrees) == 1 else n * (n + 1) - np.square(degrees[0]) / square
    return (2 * x * slope - constant * value) / square


def _lambda(x: Any, value: Any, slope: Any, given: Any, degrees: list[Any]) -> Any:
    order, is_zero = given[0] % 1 + degrees[0], raw(x) == 0
    regular = -(2 * order + 1) / np.where(is_zero, 1.0, x) * slope - value
    return np.where(is_zero, -value / (2 * order + 2), regular)


def _riccati(x: Any, value: Any, slope: Any, given: Any, degrees: list[Any]) -> Any:
    return (degrees[0] * (degrees[0] + 1) / (x * x) - 1) * value


def _cylinder(x: Any, value: Any, slope: Any, given: Any, degrees: list[Any]) -> Any:
    order = given[0] - int(given[0]) + degrees[0]
    return (x * x / 4 - order - 0.5) * value


_EQUATIONS: dict[str, Callable[..., Any]] = {
    "lqn": _legendre,
    "lqmn": _legendre,
    "lmbda": _lambda,
    "riccati_jn": _riccati,
    "riccati_yn": _riccati,
    "pbdv_seq": _cylinder,
    "pbvv_seq": _cylinder,
}


def _both(name: str, x: Any, *given: Any) -> tuple[Any, Any]:
    if any(isinstance(one, Tensor) and one.requires_grad for one in given):
        raise ArgumentTypeError(f"scipy.special.{name} has a derivative by its last argument only: detach the others")
    x = floating(x)
    if x.ndim and name not in ("lqn", "lqmn"):
        raise ValueError(f"scipy.special.{name} takes a number for its last argument, not an array of shape {x.shape}")
    given = tuple(one.item() if isinstance(one, Tensor) else one for one in given)
    return sequence_value(x, given, name), sequence_slope(x, given, name)


def lqn(n: int, z: Any) -> tuple[Any, Any]:
    """Return the Legendre functions of the second kind of the degrees 0 to n, and their derivatives.

    Args:
        n: a whole number of at least 0.
        z: numbers.

    Source: scipy.special.lqn.
    """
    return _both("lqn", z, n)


def lqmn(m: int, n: int, z: Any) -> tuple[Any, Any]:
    """Return the Legendre functions of the second kind of the orders 0 to m and degrees 0 to n, and their derivatives.

    Args:
        m: a whole number of at least 0.
        n: a whole number of at least 0.
        z: numbers.

    Source: scipy.special.lqmn.
    """
    return _both("lqmn", z, m, n)


def lmbda(v: float, x: Any) -> tuple[Any, Any]:
    """Return Jahnke and Emde's lambda functions of the orders up to v, and their derivatives.

    Args:
        v: a number of at least 0.
        x: a number.

    Source: scipy.special.lmbda.
    """
    return _both("lmbda", x, v)


def riccati_jn(n: int, x: Any) -> tuple[Any, Any]:
    """Return the Riccati-Bessel functions of the first kind of the orders 0 to n, and their derivatives.

    Args:
        n: a whole number of at least 0.
        x: a number.

    Source: scipy.special.riccati_jn.
    """
    return _both("riccati_jn", x, n)


def riccati_yn(n: int, x: Any) -> tuple[Any, Any]:
    """Return the Riccati-Bessel functions of the second kind of the orders 0 to n, and their derivatives.

    Args:
        n: a whole number of at least 0.
        x: a number.

    Source: scipy.special.riccati_yn.
    """
    return _both("riccati_yn", x, n)


def pbdv_seq(v: float, x: Any) -> tuple[Any, Any]:
    """Return the parabolic cylinder functions D of the orders up to v, and their derivatives.

    Args:
        v: a number greater than -1.
        x: a number.

    Source: scipy.special.pbdv_seq.
    """
    return _cylinders("pbdv_seq", v, x)


def pbvv_seq(v: float, x: Any) -> tuple[Any, Any]:
    """Return the parabolic cylinder functions V of the orders up to v, and their derivatives.

    Args:
        v: a number greater than -1.
        x: a number.

    Source: scipy.special.pbvv_seq.
    """
    return _cylinders("pbvv_seq", v, x)


def _cylinders(name: str, v: Any, x: Any) -> tuple[Any, Any]:
    if v <= -1:
        raise ValueError(f"scipy.special.{name} is right for v > -1 only, not {v}: take scipy.special.{name[:4]}")
    return _both(name, x, v)
