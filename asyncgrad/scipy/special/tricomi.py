"""Tricomi's confluent hypergeometric function and its derivatives, by an integral."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.arrays.values import raw
from ...errors import MissingDerivativeError
from ..ufuncs import special
from .trapezoid import trapezoid_nodes

__all__ = ["tricomi", "tricomi_by_parameter"]

#: The most steps of the recurrence, each of which is recorded.
_MOST_STEPS = 10_000


def tricomi(a: Any, b: Any, x: Any) -> Any:
    """Return hyperu(a, b, x) for x > 0, also where SciPy's has few digits."""
    return _recurrence(a, b, x, 0.0)[0]


def tricomi_by_parameter(a: Any, b: Any, x: Any, *, by_second: bool) -> Any:
    """Return the derivative of hyperu(a, b, x) by `a` or by `b`, for x > 0."""
    return _recurrence(a, b, x, 1.0 if by_second else -1.0)[1]


def _recurrence(a: Any, b: Any, x: Any, parameter: float) -> tuple[Any, Any]:
    """Return the function and its derivative by `a` (a parameter of -1), by `b` (of 1), or none (of 0).

    For a > 0 the function is an integral. To other numbers a recurrence leads down, which is stable in this direction.
    """
    values = [np.asarray(raw(one), float) for one in (a, b, x)]
    inside = np.isfinite(sum(values)) & (values[2] > 0)
    if not np.all(inside):
        a, b, x = (np.where(inside, one, 1.0) for one in (a, b, x))
        found = _recurrence(a, b, x, parameter)
        return np.where(inside, found[0], np.nan), np.where(inside, found[1], np.nan)
    # The least whole number with which all of a are at least 1 / 10.
    count = int(np.ceil(max(0.0, 0.1 - np.min(raw(a), initial=1.0))))
    if count > _MOST_STEPS:
        raise MissingDerivativeError(
            f"scipy.special.hyperu has derivatives for a of at least {-_MOST_STEPS}, not of {np.min(raw(a))}, as each "
            "whole number below 0 takes a step: detach the arguments"
        )
    value, slope = _integrals(a + count, b, x, parameter)
    if not count:
        return value, slope
    above, above_slope = _integrals(a + count + 1, b, x, parameter)
    for index in range(count, 0, -1):
        # hyperu(here - 1) is linear * hyperu(here) - factor * hyperu(here + 1).
        here = a + index
        linear, factor = x + 2 * here - b, here * (here - b + 1)
        linear_slope, factor_slope = (-1.0, -here) if parameter > 0 else (2.0, 2 * here - b + 1)
        below = linear * value - factor * above
        below_slope = linear * slope + linear_slope * value - factor * above_slope - factor_slope * above
        above, above_slope, value, slope = value, slope, below, below_slope
    return value, slope


def _integrals(a: Any, b: Any, x: Any, parameter: float) -> tuple[Any, Any]:
    """Return hyperu and a derivative, for a > 0.

    It is the integral over t of exp(-x * t) * t**(a - 1) * (1 + t)**(b - a - 1), divided by gamma(a). With t as an
    exponential the trapezoidal rule converges fast.
    """
    a, b, x = np.broadcast_arrays(a, b, x)
    logarithm, step = _nodes(raw(a).astype(float), raw(b), raw(x))
    t, growth = np.exp(logarithm), np.logaddexp(0.0, logarithm)
    terms = np.exp(a * logarithm - x * t + (b - a - 1) * growth - special.gammaln(a)) * step
    factor = growth if parameter > 0 else logarithm - growth - special.psi(a)
    return np.sum(terms, 0), np.sum(terms * factor, 0) if parameter else 0.0


def _nodes(a: Any, b: Any, x: Any) -> tuple[Any, Any]:
    """Return the logarithms of t, and the step between two."""
    # The peak of the integrand: where a - x * t + (b - a - 1) * t / (1 + t) is 0.
    linear = x - b + 1
    root = np.sqrt(linear * linear + 4 * a * x)
    peak_t = np.where(linear > 0, 2 * a / (linear + root), (root - linear) / (2 * x))
    peak = np.log(peak_t)
    curvature = x * peak_t + (a + 1 - b) * peak_t / np.square(1 + peak_t)

    def height(logarithm: Any) -> Any:
        return a * logarithm - x * np.exp(logarithm) + (b - a - 1) * np.logaddexp(0.0, logarithm)

    return trapezoid_nodes(height, peak, curvature, 0.2)
