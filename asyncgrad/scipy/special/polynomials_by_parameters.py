"""Derivatives of Jacobi's and Laguerre's functions by their parameters and by their degree.

The functions of three neighbouring degrees are bound by a recurrence, and so are their derivatives. It starts at
polynomials of degree 0 and 1, or, where the degree is no whole number or is differentiated by, at hypergeometric
functions of a degree below 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays.values import raw
from ...errors import MissingDerivativeError
from ..ufuncs import special
from .gamma_functions import psi_difference, rgamma_slope
from .hypergeometric import confluent_by, gauss_by

__all__ = ["is_whole", "jacobi_slope", "laguerre_slope"]

#: The most steps of a recurrence, each of which is recorded; a step for each degree above 1.
_MOST_STEPS = 10_000

#: A function and its derivative.
Pair = tuple[Any, Any]


def is_whole(n: Any) -> bool:
    """Return whether all degrees are whole numbers of at least 0, and nothing is to be differentiated by them."""
    values = np.asarray(raw(n))
    if getattr(n, "requires_grad", False):
        return False
    return bool(np.all(values >= 0) and (values.dtype.kind in "iu" or np.all(np.floor(values) == values)))


def _climb(n: Any, start: Callable[[Any], Pair], step: Callable[[Any, Pair, Pair], Pair], *, whole: bool) -> Any:
    """Return the derivative at the degree n.

    Args:
        n: the degrees.
        start: returns the pair of a degree below 2; where `whole`, of a degree of 0 or 1.
        step: returns the pair of a degree from those of the degrees below it by one and by two.
        whole: whether all degrees are whole numbers, and nothing is differentiated by them.

    Raises:
        MissingDerivativeError: it would take too many steps.
    """
    steps = np.fmax(np.floor(raw(n)) - 1, 0)
    most = np.max(steps, initial=0.0)
    if most > _MOST_STEPS:
        raise MissingDerivativeError(
            "orthogonal polynomials of scipy.special have derivatives by their degree and their parameters up to the "
            f"degree {_MOST_STEPS + 1}, not of {np.max(raw(n))}: detach the degree and the parameters to have that by x"
        )
    count = int(most)
    base = n - steps
    if not count:
        return start(base)[1]
    # Those of a degree below 1 do not climb.
    low = base - 1 if not whole else np.zeros_like(base)
    low = np.where(steps > 0, low, base)
    below, here = start(low), start(base)
    for index in range(1, count + 1):
        climbs = steps >= index
        above = step(np.where(climbs, base + index, 3.0), here, below)
        below = tuple(np.where(climbs, new, old) for new, old in zip(here, below, strict=True))
        here = tuple(np.where(climbs, new, old) for new, old in zip(above, here, strict=True))
    return here[1]


def jacobi_slope(n: Any, alpha: Any, beta: Any, x: Any, parameter: str) -> Any:
    """Return the derivative of Jacobi's function by the parameter `n`, `alpha` or `beta`."""
    whole = parameter != "n" and is_whole(n)
    n, alpha, beta, x = np.broadcast_arrays(n, alpha, beta, x)

    def start(degree: Any) -> Pair:
        if whole:
            value = np.where(raw(degree) == 0, 1.0, alpha + 1 + (alpha + beta + 2) * (x - 1) / 2)
            return value, np.where(raw(degree) == 0, 0.0, (x + (1 if parameter == "alpha" else -1)) / 2)
        return _jacobi_pair(degree, alpha, beta, x, parameter)

    def step(degree: Any, one_below: Pair, two_below: Pair) -> Pair:
        value, slope = _jacobi_factors(degree, alpha, beta, x, parameter)
        return (
            value[0] * one_below[0] - value[1] * two_below[0],
            value[0] * one_below[1] + slope[0] * one_below[0] - value[1] * two_below[1] - slope[1] * two_below[0],
        )

    return _climb(n, start, step, whole=whole)


def _jacobi_pair(n: Any, alpha: Any, beta: Any, x: Any, parameter: str) -> Pair:
    """Return binom(n + alpha, n) * hyp2f1(-n, n + alpha + beta + 1, alpha + 1, (1 - x) / 2), and its derivative."""
    arguments = -n, n + alpha + beta + 1, alpha + 1, (1 - x) / 2
    value, slope = special.hyp2f1(*arguments), gauss_by(*arguments, 1)
    if parameter == "n":
        slope = slope - gauss_by(*arguments, 0)
    elif parameter == "alpha":
        slope = slope + gauss_by(*arguments, 2)
    return _scaled(n, alpha, value, slope, parameter)


def _scaled(n: Any, alpha: Any, value: Any, slope: Any, parameter: str) -> Pair:
    """Return a value and a slope times binom(n + alpha, n), of which the slope is that of the product.

    The number is poch(alpha + 1, n) / gamma(n + 1), which is 0 where n is -1, but changes with n.
    """
    rising, reciprocal = special.poch(alpha + 1, n), special.rgamma(n + 1)
    if parameter == "n":
        by_scale = special.psi(n + alpha + 1) * reciprocal + rgamma_slope(n + 1)
    elif parameter == "alpha":
        by_scale = -psi_difference(alpha + 1, n) * reciprocal
    else:
        by_scale = 0.0
    return rising * reciprocal * value, rising * (reciprocal * slope + by_scale * value)


def _jacobi_factors(n: Any, alpha: Any, beta: Any, x: Any, parameter: str) -> tuple[Pair, Pair]:
    """Return the factors of the recurrence that leads to the degree n >= 2, and their derivatives."""
    both, gap = alpha + beta, alpha - beta
    u, top = 2 * n + both, n + both
    linear = (u - 1) * u / (2 * n * top)
    constant = (u - 1) / (2 * n * top * (u - 2))
    left, right = n + alpha - 1, n + beta - 1
    last = u / (n * top * (u - 2))
    value = linear * x + constant * gap * both, left * right * last
    # The logarithmic derivatives of linear, constant and last: u grows twice as fast with n as with alpha.
    speed, own = (2.0, 1 / n) if parameter == "n" else (1.0, 0.0)
    of_linear = speed / (u - 1) + speed / u - 1 / top - own
    of_constant = speed / (u - 1) - speed / (u - 2) - 1 / top - own
    of_last = speed / u - speed / (u - 2) - 1 / top - own
    gap_slope = {"n": 0.0, "alpha": both + gap, "beta": gap - both}[parameter]
    product_slope = {"n": left + right, "alpha": right, "beta": left}[parameter]
    return value, (
        linear * of_linear * x + constant * (of_constant * gap * both + gap_slope),
        last * (of_last * left * right + product_slope),
    )


def laguerre_slope(n: Any, alpha: Any, x: Any, parameter: str) -> Any:
    """Return the derivative of Laguerre's generalized function by the parameter `n` or `alpha`."""
    whole = parameter != "n" and is_whole(n)
    n, alpha, x = np.broadcast_arrays(n, alpha, x)
    of_degree = parameter == "n"

    def start(degree: Any) -> Pair:
        if whole:
            is_constant = raw(degree) == 0
            return np.where(is_constant, 1.0, 1 + alpha - x), np.where(is_constant, 0.0, 1.0)
        value, slope = special.hyp1f1(-degree, alpha + 1, x), confluent_by(-degree, alpha + 1, x, 0 if of_degree else 1)
        return _scaled(degree, alpha, value, -slope if of_degree else slope, parameter)

    def step(degree: Any, one_below: Pair, two_below: Pair) -> Pair:
        first, last = 2 * degree - 1 + alpha - x, degree + alpha - 1
        value = (first * one_below[0] - last * two_below[0]) / degree
        inner = (2.0 if of_degree else 1.0) * one_below[0] - two_below[0] - (value if of_degree else 0.0)
        return value, (first * one_below[1] - last * two_below[1] + inner) / degree

    return _climb(n, start, step, whole=whole)
