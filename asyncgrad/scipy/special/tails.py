"""Smirnov's distributions and Kolmogorov's limit of them, Tukey's lambda distribution, and Owen's T function."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.values import constant_copy, raw
from ...core.recording.primitive import Primitive, derivative, primitive
from ...errors import MissingDerivativeError
from ..ufuncs import special
from .elementary import exprel_slope
from .error_functions import gaussian_
from .rules import differentiable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ...core.arrays.array import Array

    _Floats = NDArray[np.float64]


__all__ = [
    "kolmogi",
    "kolmogorov",
    "kolmogorov_slope",
    "owens_t",
    "smirnov",
    "smirnov_derivative",
    "smirnovi",
    "tklmbda",
]


def kolmogorov_slope(y: Any) -> Any:
    """Return minus the density: of two series, of which each converges fast where the other does not."""
    is_low, is_positive = raw(y) < 1, raw(y) > 0.02
    low, high = np.where(is_low & is_positive, y, 1.0), np.where(is_low, 1.0, y)
    square = np.square(low)
    near: Any = 0.0
    for index in range(1, 5):
        rate = (2 * index - 1) ** 2 * math.pi**2 / 8
        near = near + np.exp(-rate / square) * (2 * rate / square - 1)
    far: Any = 0.0
    for index in range(1, 6):
        far = far + (-1) ** index * index**2 * np.exp(-2 * index**2 * np.square(high))
    return np.where(is_low, np.where(is_positive, -math.sqrt(2 * math.pi) * near / square, 0.0), 8 * high * far)


kolmogorov: Primitive = differentiable(special.kolmogorov, "y", y=lambda g, y: g * kolmogorov_slope(y))
kolmogi: Primitive = differentiable(special.kolmogi, "p", p=lambda g, out: g / kolmogorov_slope(out))


# Smirnov's distribution for a sample of n: the probability is a sum of polynomials over v, from 0 up to n * (1 - d).

#: The most elements of one block of terms.
_BLOCK = 1 << 18
#: SciPy's, too: the sum has as many terms, and beyond it the distribution is computed as its limit.
_LARGEST_SAMPLE = 1_000_000


@primitive()
def smirnov_derivative(d: Any, n: Any, order: int) -> Array:
    """Return the first or second derivative of smirnov(n, d)."""
    d, n = np.broadcast_arrays(np.asarray(d, float), np.floor(n))
    result = np.full(d.shape, np.nan)
    inside = (d >= 0) & (d <= 1) & (n >= 1)
    is_large = inside & (n > _LARGEST_SAMPLE)
    # As SciPy's, whose result underflows there.
    is_far = inside & ~is_large & (2 * n * d * d > 745)
    is_near = inside & ~is_large & (n * d <= 1)
    result[is_far] = 0.0
    is_between = inside & ~is_large & ~is_far & ~is_near
    for mask, formula in ((is_large, _smirnov_limit), (is_near, _smirnov_at_start), (is_between, _smirnov_sum)):
        if np.any(mask):
            result[mask] = formula(d[mask], n[mask], order)
    return result


def _smirnov_limit(d: _Floats, n: _Floats, order: int) -> _Floats:
    """Return a derivative of exp(-(6 * n * d + 1)**2 / (18 * n))."""
    slope = -(6 * n * d + 1) * (2 / 3)
    found = np.exp(-(slope * slope) / (8 * n))
    # Not of the square of the slope, which may overflow where the other factor is 0.
    return found * slope if order == 1 else found * slope * slope - 4 * n * found


def _smirnov_at_start(d: _Floats, n: _Floats, order: int) -> _Floats:
    """Return a derivative of 1 - d * (1 + d)**(n - 1), for d of at most 1 / n."""
    if order == 1:
        return -((1 + d) ** (n - 2)) * (1 + n * d)
    return -((1 + d) ** (n - 3)) * ((n - 2) * (1 + n * d) + n * (1 + d))


def _smirnov_sum(d: _Floats, n: _Floats, order: int) -> _Floats:
    # That of v = 0 is (1 - d)**n.
    found = -n * (1 - d) ** (n - 1) if order == 1 else n * (n - 1) * (1 - d) ** np.maximum(n - 2, 0)
    # The longest sums first, so that those which end are left out.
    counts = np.floor(n * (1 - d))
    places = np.argsort(-counts)
    d, n, counts = d[places], n[places], counts[places]
    first, active = 1, int(np.sum(counts >= 1))
    while active:
        last = min(int(counts[0]), first + _BLOCK // active)
        v = np.arange(first, last + 1, dtype=float)[:, np.newaxis]
        found[places[:active]] += np.sum(_smirnov_terms(d[:active], n[:active], v, order), 0)
        first = last + 1
        active = int(np.sum(counts >= first))
    return found


def _smirnov_terms(d: _Floats, n: _Floats, v: _Floats, order: int) -> _Floats:
    """Return derivatives of binom(n, v) * d * (d + v / n)**(v - 1) * (1 - d - v / n)**(n - v), or 0 for v beyond."""
    rest = 1 - d - v / n
    is_term = rest > 0
    v, rest = np.where(is_term, v, 1.0), np.where(is_term, rest, 0.5)
    share, others = d + v / n, n - v
    coefficient = special.gammaln(n + 1) - special.gammaln(v + 1) - special.gammaln(others + 1)
    factor = np.exp(coefficient + (v - 1) * np.log(share) + others * np.log(rest))
    growth = (v - 1) / share - others / rest
    bend = growth * growth - (v - 1) / share**2 - others / rest**2
    terms = factor * (1 + d * growth) if order == 1 else factor * (2 * growth + d * bend)
    return np.where(is_term, terms, 0.0)


@derivative(smirnov_derivative, "d")
def _(g: Any, d: Array, n: Any, order: int) -> Array:
    if order == 2:
        raise MissingDerivativeError("scipy.special.smirnov has derivatives up to the second order")
    return g * smirnov_derivative.call(d, n, 2)


smirnov: Primitive = differentiable(
    special.smirnov, "n d", n=lambda g: None, d=lambda g, n, d: g * smirnov_derivative.call(d, constant_copy(n), 1)
)
smirnovi: Primitive = differentiable(
    special.smirnovi, "n p", n=lambda g: None, p=lambda g, n, out: g / smirnov_derivative.call(out, constant_copy(n), 1)
)


# Tukey's lambda distribution, by its quantile: x is (p**lmbda - (1 - p)**lmbda) / lmbda.


def _tukey_slope(x: Any, lmbda: Any, out: Any, *, by_shape: bool) -> Any:
    inside = (raw(out) > 0) & (raw(out) < 1)
    p = np.where(inside, out, 0.5)
    rest = np.where(inside, special.tklmbda(-x, lmbda), 0.5)
    density = 1 / (p ** (lmbda - 1) + rest ** (lmbda - 1))
    if by_shape:
        low, high = np.log(p), np.log(rest)
        moves = np.square(low) * exprel_slope(lmbda * low) - np.square(high) * exprel_slope(lmbda * high)
        density = -density * moves
    return np.where(inside, density, np.where(np.isnan(raw(out)), np.nan, 0.0))


tklmbda: Primitive = differentiable(
    special.tklmbda,
    "x lmbda",
    x=lambda g, x, lmbda, out: g * _tukey_slope(x, lmbda, out, by_shape=False),
    lmbda=lambda g, x, lmbda, out: g * _tukey_slope(x, lmbda, out, by_shape=True),
)

owens_t: Primitive = differentiable(
    special.owens_t,
    "h a",
    h=lambda g, h, a: g * (gaussian_.call(h, 0.5) * special.erf(a * h / math.sqrt(2)) / (-2 * math.sqrt(2 * math.pi))),
    a=lambda g, h, a: g * (np.exp(-0.5 * (np.square(h) + np.square(h * a))) / (2 * math.pi * (1 + a * a))),
)
