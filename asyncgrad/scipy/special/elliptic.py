"""Elliptic integrals by amplitude and parameter, and Jacobi's elliptic functions.

The derivatives by the parameter m are integrals of Carlson's kind, whose terms are all positive: none is a difference
that loses its digits for a small m.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.values import is_device_array, zeros_like
from ...core.recording.primitive import RULES, Primitive, derivative, primitive
from ..ufuncs import special
from .carlson import power_integral
from .rules import differentiable

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = [
    "ellipe",
    "ellipeinc",
    "ellipj",
    "ellipk",
    "ellipkinc",
    "ellipkm1",
    "first_kind_by_parameter",
    "second_kind_by_parameter",
]


def _rising(start: float, count: int) -> float:
    """Return start * (start + 1) * ..., of so many factors."""
    return math.prod(start + index for index in range(count))


def _by_parameter(phi: Any, m: Any, integral: Callable[[Any, Any], Any], sines: int) -> Any:
    """Return sin(phi)**sines times an integral that depends on cosine**2 and 1 - m * sine**2.

    The integrand has the period pi: over whole periods the integral is twice that up to pi / 2.
    """
    periods = np.rint(phi / math.pi)
    rest = phi - math.pi * periods
    sine, cosine = np.sin(rest), np.cos(rest)
    result = sine**sines * integral(np.square(cosine), 1 - m * np.square(sine))
    if np.any(periods):
        # Not 0 * inf, where m is 1 and there is no whole period.
        whole = np.where(periods == 0, 1.0, integral(np.zeros_like(periods), 1 - m))
        result = result + 2 * periods * whole
    return result


def _powers(first: Any, second: Any, powers: tuple[float, float, float]) -> Any:
    zeros = zeros_like(second, np.broadcast_shapes(np.shape(first), np.shape(second)), float)
    return power_integral.function(np.stack([zeros + first, zeros + second, zeros + 1.0]), powers)


@primitive()
def complete_by_parameter(p: Any, order: int, second: bool) -> Any:
    """Return a derivative by m of the complete integral of the first or second kind, where p is 1 - m.

    Args:
        p: numbers, of which all digits count, also where m is nearly 1.
        order: that of the derivative, at least 1.
        second: whether the integral is that of the second kind.
    """
    if order == 1 and not is_device_array(p):
        return special.elliprd(0.0, p, 1.0) / -6 if second else special.elliprd(0.0, 1.0, p) / 6
    if second:
        return _rising(0.5, order - 1) / -4 * _powers(0.0, p, (0.5, order - 0.5, 1.5))
    return _rising(0.5, order) / 2 * _powers(0.0, p, (0.5, 0.5 + order, 0.5))


@derivative(complete_by_parameter, "p")
def _(g: Any, p: Array, order: int, second: bool) -> Array:
    return -g * complete_by_parameter.call(p, order + 1, second)


ellipk: Primitive = differentiable(special.ellipk, "m", m=lambda g, m: g * complete_by_parameter.call(1 - m, 1, False))
ellipkm1: Primitive = differentiable(special.ellipkm1, "p", p=lambda g, p: -g * complete_by_parameter.call(p, 1, False))
ellipe: Primitive = differentiable(special.ellipe, "m", m=lambda g, m: g * complete_by_parameter.call(1 - m, 1, True))


@primitive()
def first_kind_by_parameter(phi: Any, m: Any, order: int) -> Any:
    """Return the derivative by m, of an order of at least 1, of the incomplete elliptic integral of the first kind."""
    if order == 1 and not is_device_array(m):
        return _by_parameter(phi, m, lambda first, second: special.elliprd(first, 1.0, second) / 6, 3)
    factor = _rising(0.5, order) / 2
    powers = 0.5, 0.5 + order, 0.5
    return _by_parameter(phi, m, lambda first, second: factor * _powers(first, second, powers), 2 * order + 1)


@derivative(first_kind_by_parameter, "phi")
def _(g: Any, phi: Array, m: Any, order: int) -> Array:
    square = np.square(np.sin(phi))
    return g * (_rising(0.5, order) * square**order * (1 - m * square) ** (-0.5 - order))


@derivative(first_kind_by_parameter, "m")
def _(g: Any, phi: Any, m: Array, order: int) -> Array:
    return g * first_kind_by_parameter.call(phi, m, order + 1)


@primitive()
def second_kind_by_parameter(phi: Any, m: Any, order: int) -> Any:
    """Return the derivative by m, of an order of at least 1, of the incomplete elliptic integral of the second kind."""
    if order == 1 and not is_device_array(m):
        return _by_parameter(phi, m, lambda first, second: special.elliprd(first, second, 1.0) / -6, 3)
    factor = _rising(0.5, order - 1) / -4
    powers = 0.5, order - 0.5, 1.5
    return _by_parameter(phi, m, lambda first, second: factor * _powers(first, second, powers), 2 * order + 1)


@derivative(second_kind_by_parameter, "phi")
def _(g: Any, phi: Array, m: Any, order: int) -> Array:
    square = np.square(np.sin(phi))
    return g * (_rising(-0.5, order) * square**order * (1 - m * square) ** (0.5 - order))


@derivative(second_kind_by_parameter, "m")
def _(g: Any, phi: Any, m: Array, order: int) -> Array:
    return g * second_kind_by_parameter.call(phi, m, order + 1)


ellipkinc: Primitive = differentiable(
    special.ellipkinc,
    "phi m",
    phi=lambda g, phi, m: g / np.sqrt(1 - m * np.square(np.sin(phi))),
    m=lambda g, phi, m: g * first_kind_by_parameter.call(phi, m, 1),
)
ellipeinc: Primitive = differentiable(
    special.ellipeinc,
    "phi m",
    phi=lambda g, phi, m: g * np.sqrt(1 - m * np.square(np.sin(phi))),
    m=lambda g, phi, m: g * second_kind_by_parameter.call(phi, m, 1),
)


# Jacobi's functions, each a primitive.


@primitive()
def jacobi_sine(u: Any, m: Any) -> Any:
    """Return sn(u, m)."""
    return special.ellipj(u, m)[0]


@primitive()
def jacobi_cosine(u: Any, m: Any) -> Any:
    """Return cn(u, m)."""
    return special.ellipj(u, m)[1]


@primitive()
def jacobi_delta(u: Any, m: Any) -> Any:
    """Return dn(u, m)."""
    return special.ellipj(u, m)[2]


@primitive()
def jacobi_amplitude(u: Any, m: Any) -> Any:
    """Return the amplitude, for which the elliptic integral of the first kind is u."""
    return special.ellipj(u, m)[3]


def _amplitude_by_parameter(u: Any, m: Any) -> Any:
    return -first_kind_by_parameter.call(jacobi_amplitude.call(u, m), m, 1) * jacobi_delta.call(u, m)


@derivative(jacobi_amplitude, "u")
def _(g: Any, u: Array, m: Any) -> Array:
    return g * jacobi_delta.call(u, m)


@derivative(jacobi_amplitude, "m")
def _(g: Any, u: Any, m: Array) -> Array:
    return g * _amplitude_by_parameter(u, m)


@derivative(jacobi_sine, "u")
def _(g: Any, u: Array, m: Any) -> Array:
    return g * (jacobi_cosine.call(u, m) * jacobi_delta.call(u, m))


@derivative(jacobi_sine, "m")
def _(g: Any, u: Any, m: Array) -> Array:
    return g * (jacobi_cosine.call(u, m) * _amplitude_by_parameter(u, m))


@derivative(jacobi_cosine, "u")
def _(g: Any, u: Array, m: Any) -> Array:
    return -g * (jacobi_sine.call(u, m) * jacobi_delta.call(u, m))


@derivative(jacobi_cosine, "m")
def _(g: Any, u: Any, m: Array) -> Array:
    return -g * (jacobi_sine.call(u, m) * _amplitude_by_parameter(u, m))


@derivative(jacobi_delta, "u")
def _(g: Any, u: Array, m: Any) -> Array:
    return -g * (m * jacobi_sine.call(u, m) * jacobi_cosine.call(u, m))


@derivative(jacobi_delta, "m")
def _(g: Any, u: Any, m: Any, out: Any) -> Array:
    sine = jacobi_sine.call(u, m)
    change = sine / 2 + m * jacobi_cosine.call(u, m) * _amplitude_by_parameter(u, m)
    return -g * (sine * change / out)


def ellipj(u: Any, m: Any, /) -> tuple[Any, Any, Any, Any]:
    """Return Jacobi's elliptic functions sn, cn and dn, and the amplitude."""
    return jacobi_sine(u, m), jacobi_cosine(u, m), jacobi_delta(u, m), jacobi_amplitude(u, m)


RULES[special.ellipj] = ellipj
