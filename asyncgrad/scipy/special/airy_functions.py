"""Airy's functions, the solutions of w'' = z * w: with their derivatives, scaled, and integrated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.values import raw
from ...core.recording.primitive import RULES, derivative, primitive
from ..ufuncs import special

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["airy", "airye", "itairy"]

# Of four results each is a call of one primitive: Ai, its derivative, Bi, its derivative.


@primitive()
def airy_(z: Any, index: int) -> Any:
    """Return one of the four results of SciPy's airy."""
    return special.airy(z)[index]


@derivative(airy_, "z")
def _(g: Any, z: Array, index: int) -> Array:
    return g * _unscaled_slope(airy_, z, index)


def _unscaled_slope(function: Any, z: Any, index: int) -> Any:
    """Return the derivative of a result of `function` but for that of its scale."""
    return z * function(z, index - 1) if index % 2 else function(z, index + 1)


def airy(z: Any, /) -> tuple[Any, Any, Any, Any]:
    """Return Ai, its derivative, Bi, and its derivative."""
    return airy_(z, 0), airy_(z, 1), airy_(z, 2), airy_(z, 3)


@primitive()
def airye_(z: Any, index: int) -> Any:
    """Return one of the four results of SciPy's airye.

    Those of Ai are scaled by exp(2 / 3 * z * sqrt(z)), those of Bi by exp(-abs(real part of that exponent)).
    """
    return special.airye(z)[index]


@derivative(airye_, "z")
def _(g: Any, z: Array, index: int, out: Any) -> Array:
    if index < 2:
        # Of negative numbers SciPy's result is nan.
        root = np.sqrt(z if z.dtype.kind == "c" else np.where(raw(z) < 0, np.nan, z))
        return g * _or_far(z, index, out, -1, lambda z: _unscaled_slope(airye_, z, index) + root * out)
    if z.dtype.kind != "c":
        is_above = raw(z) > 0
        root = np.where(is_above, np.sqrt(np.where(is_above, z, 1.0)), 0.0)
        return g * _or_far(z, index, out, 1, lambda z: _unscaled_slope(airye_, z, index) - root * out)
    root = np.sqrt(z)
    sign = np.sign((raw(z) * raw(root)).real)
    # The scale is no function of z alone.
    return g * _unscaled_slope(airye_, z, index) - sign * root * (g * out).real


def _or_far(z: Any, index: int, out: Any, turn: int, near: Any) -> Any:
    """Return `near(z)`, and far from 0, where its terms cancel, the derivative of the asymptotic series.

    The series is z**-0.25, or z**0.25 for a derivative, times the sum of c_k * (turn / exponent)**k.
    """
    is_far = raw(z).real > 100
    if not np.any(is_far):
        return near(z)
    far = np.where(is_far, z, 1e3)
    share = turn * 1.5 / far / np.sqrt(far)
    power = 0.25 if index % 2 else -0.25
    term: Any = 1.0
    top: Any = power
    bottom: Any = 1.0
    for k, factor in enumerate(_SERIES[index % 2], 1):
        term = term * share
        top = top + (power - 1.5 * k) * factor * term
        bottom = bottom + factor * term
    return np.where(is_far, out * top / (bottom * far), near(np.where(is_far, 1.0, z)))


def _series_factors() -> tuple[list[float], list[float]]:
    """Return the factors of the asymptotic series of Airy's functions, and of those of their derivatives."""
    functions, derivatives, value = [], [], 1.0
    for k in range(1, 7):
        value *= (6 * k - 5) * (6 * k - 3) * (6 * k - 1) / (216 * k * (2 * k - 1))
        functions.append(value)
        derivatives.append(-value * (6 * k + 1) / (6 * k - 1))
    return functions, derivatives


_SERIES = _series_factors()


def airye(z: Any, /) -> tuple[Any, Any, Any, Any]:
    """Return the results of `airy`, scaled."""
    return airye_(z, 0), airye_(z, 1), airye_(z, 2), airye_(z, 3)


@primitive()
def itairy_(x: Any, index: int) -> Any:
    """Return the integral from 0 to x of Ai(t), Bi(t), Ai(-t) or Bi(-t)."""
    return special.itairy(x)[index]


@derivative(itairy_, "x")
def _(g: Any, x: Any, index: int, out: Array) -> Array:
    is_end = np.isinf(raw(x)) & np.isfinite(raw(out))
    x = np.where(is_end, 0.0, x) if np.any(is_end) else x
    slope = airy_(x if index < 2 else -x, 2 * (index % 2))
    return g * (np.where(is_end, 0.0, slope) if np.any(is_end) else slope)


def itairy(x: Any, /) -> tuple[Any, Any, Any, Any]:
    """Return the integrals of Airy's functions from 0 to x, and of those with the sign of t turned."""
    return itairy_(x, 0), itairy_(x, 1), itairy_(x, 2), itairy_(x, 3)


RULES[special.airy] = airy
RULES[special.airye] = airye
RULES[special.itairy] = itairy
