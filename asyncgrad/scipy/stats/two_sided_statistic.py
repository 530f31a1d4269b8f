"""Derivatives of the distribution of the Kolmogorov-Smirnov statistic of two sides, of which SciPy has the values.

Up to a sample of 140 they are exact: by the matrix of Durbin's algorithm, of whose elements the probability is a
polynomial, or, where both sides are hardly ever exceeded together, by Smirnov's distribution of one side. For greater
samples they are differences of SciPy's probabilities, right to some eight digits.

Source: Marsaglia, Tsang and Wang, Evaluating Kolmogorov's distribution (2003); Simard and L'Ecuyer, Computing the
two-sided Kolmogorov-Smirnov distribution (2011), for where which formula has all digits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats as scipy_stats

from ...core.recording.primitive import derivative, primitive
from ...errors import MissingDerivativeError
from ..special.tails import smirnov_derivative
from ..ufuncs import special

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["two_sided_cdf_", "two_sided_derivative"]

#: The greatest sample with exact derivatives.
_MOST = 140
#: Of n * d**2, from where on the probability that both sides exceed d is lost.
_APART = 4.0
#: How much the logarithm of a probability changes from one of five points to the next.
_CHANGE = 0.02


@primitive()
def two_sided_cdf_(d: Any, n: Any, from_above: bool) -> Array:
    """Return the probability of a distance up to `d` for a sample of `n`, or `from_above` of a greater one."""
    function = scipy_stats.kstwo.sf if from_above else scipy_stats.kstwo.cdf
    return np.asarray(function(d, n)).astype(np.result_type(d, np.float32), copy=False)


@derivative(two_sided_cdf_, "d")
def _(g: Any, d: Array, n: Any, from_above: bool) -> Array:
    density = two_sided_derivative.call(d, n, 1)
    return -g * density if from_above else g * density


@primitive()
def two_sided_derivative(d: Any, n: Any, order: int) -> Array:
    """Return the density, or its slope for an order of 2."""
    points, counts = np.broadcast_arrays(np.asarray(d, float), np.asarray(n, float))
    found = np.full(points.shape, np.nan)
    for index in np.ndindex(points.shape):
        point, count = float(points[index]), float(counts[index])
        if not np.isnan(point) and count >= 1 and count == np.round(count):
            found[index] = _derivative(point, int(count), order)
    return found.astype(np.result_type(d, np.float32), copy=False)


@derivative(two_sided_derivative, "d")
def _(g: Any, d: Array, n: Any, order: int) -> Array:
    if order == 2:
        raise MissingDerivativeError("scipy.stats.kstwo has derivatives up to the second order")
    return g * two_sided_derivative.call(d, n, 2)


def _derivative(d: float, n: int, order: int) -> float:
    """Return a derivative of the probability of a distance up to `d`."""
    beyond = 2 * n * d - 1
    if beyond < 0 or d > 1:
        return 0.0
    if n * d <= 1:
        # The probability is n! / n**n * beyond**n.
        factor = float(np.exp(special.gammaln(n + 1) - special.xlogy(n, n) + (order * np.log(2.0 * n))))
        power = n if order == 1 else n * (n - 1)
        return factor * power * beyond ** max(n - order, 0)
    tail = n * d * d
    if n <= _MOST:
        if d >= 0.5 or n * d >= n - 1 or tail > _APART:
            return float(-2 * smirnov_derivative(d, n, order))
        return _by_matrix(d, n, order)
    if order == 1 and tail < _APART:
        return float(scipy_stats.kstwo.pdf(d, n))
    # The logarithms of the tails are like those of the limit: -pi**2 / (8 n d**2) and -2 n d**2.
    step = d * _CHANGE / (1 + max(np.pi**2 / (4 * tail), 4 * tail))
    places = d + step * np.arange(-2, 3)
    values = -scipy_stats.kstwo.sf(places, n) if tail > _APART else scipy_stats.kstwo.cdf(places, n)
    if order == 1:
        return float(values @ [1, -8, 0, 8, -1] / (12 * step))
    return float(values @ [-1, 16, -30, 16, -1] / (12 * step * step))


def _by_matrix(d: float, n: int, order: int) -> float:
    """Return a derivative by those of a row of the power of Durbin's matrix, where n * d > 1."""
    k = int(np.ceil(n * d))
    matrix, columns = _durbin(k, k - n * d)
    size = len(matrix)
    # The row, and its derivatives by the rest of n * d to a whole number.
    rows = np.zeros((3, size))
    rows[0, k - 1] = 1.0
    for step in range(1, n + 1):
        moved = rows @ matrix
        moved[1] += _changed(rows[0], columns[1])
        moved[2] += 2 * _changed(rows[1], columns[1]) + _changed(rows[0], columns[2])
        rows = moved * (step / n)
    return float(rows[order, k - 1]) * (-n) ** order


def _durbin(k: int, h: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the matrix, and its first column with two derivatives by `h`; its last row is the column backwards."""
    size = 2 * k - 1
    powers = np.arange(1, size + 1)
    over = max(2 * h - 1, 0.0)
    columns = np.zeros((3, size))
    for order in range(3):
        # Of h**j / j! the derivative is that of j - 1.
        lower = powers - order
        shares = np.where(lower >= 0, h ** np.maximum(lower, 0) * special.rgamma(lower + 1.0), 0.0)
        columns[order] = -shares
        last = float(special.rgamma(size - order + 1.0))
        columns[order, -1] += (2.0**order * over ** (size - order) - h ** (size - order)) * last
    columns[0] += special.rgamma(powers + 1.0)
    differences = np.subtract.outer(powers, powers) + 1
    matrix = np.where(differences >= 0, special.rgamma(np.maximum(differences, 0) + 1.0), 0.0)
    matrix[:, 0] = columns[0]
    matrix[-1] = columns[0][::-1]
    return matrix, columns


def _changed(row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Return the product of a row with a derivative of the matrix, which has no other elements than these."""
    found = row[-1] * column[::-1]
    found[0] = row @ column
    return found
