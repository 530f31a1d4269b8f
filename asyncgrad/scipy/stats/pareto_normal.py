"""A log-normal variable whose tails are powers."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from scipy import stats as scipy_stats

from ...core.arrays.values import raw
from ...core.tensor import asarray
from ..ufuncs import special
from .implicit import Implicit
from .mean_powers import mean_and_variance, skewness_and_kurtosis
from .normal import log_mills_ratio, norm

__all__ = ["dpareto_lognorm"]


def _log_tail(rate: Any, z: Any) -> Any:
    """Return the logarithm of the normal density at z times the Mills ratio at `rate` - z.

    The ratio is that of the probability above a point to the density there. Neither factor is computed where both are
    extreme.
    """
    t = rate - z
    is_right = raw(t) > 0
    right, left = np.where(is_right, t, 0.0), np.where(is_right, 0.0, t)
    near = log_mills_ratio(right) + norm._logpdf(np.where(is_right, z, 0.0))
    return np.where(is_right, near, special.log_ndtr(-left) + rate * (rate / 2 - np.where(is_right, 0.0, z)))


@final
class DoubleParetoLogNormal(Implicit):
    """The double Pareto log-normal distribution: of exp(`u` + `s` z + x / `a` - w / `b`).

    Here z is normal, and x and w are exponential.
    """

    __slots__ = ()

    _flat_start = True
    shapes: tuple[str, ...] = ("u", "s", "a", "b")
    _ends: tuple[float, float] = (0.0, np.inf)
    _inner = 1.0

    def _valid(self, *shapes: Any) -> Any:
        u, s, a, b = shapes
        return np.isfinite(u) & (s > 0) & (a > 0) & (b > 0)

    @staticmethod
    def _parts(z: Any, u: Any, s: Any, a: Any, b: Any) -> tuple[Any, Any]:
        """Return the logarithms of what both tails add to the density, by the normal variable."""
        return _log_tail(a * s, z), _log_tail(b * s, -z)

    def _logpdf(self, y: Any, *shapes: Any) -> Any:
        logarithm = np.log(y)
        return self._log_of_standard(logarithm - shapes[0], *shapes) - logarithm

    def _log_of_standard(self, distance: Any, u: Any, s: Any, a: Any, b: Any) -> Any:
        """Return the logarithm of the density of the logarithm, by its distance from `u`."""
        z = distance / s
        right, left = self._parts(z, u, s, a, b)
        weight = np.log(a) + np.log(b) - np.log(a + b)
        # The logarithm of a sum of two exponentials, which does not warn of nan as np.logaddexp does, and whose
        # derivative by the smaller one is exactly 0 where it is nothing beside the other.
        more = np.maximum(right, left)
        return weight + more + np.log1p(np.exp(np.minimum(right, left) - more))

    def _entropy(self, *shapes: Any) -> Any:
        # That of the logarithm and its mean. On both sides of `u`, where the density bends, the points lie evenly in
        # the logarithm, nearly, so that they see it at any scale.
        steps = np.arange(-3.6, 3.6, 1 / 32)
        sizes = np.exp(np.pi / 2 * np.sinh(steps))
        weights = np.tile(np.pi / 64 * np.cosh(steps) * sizes, 2)
        u, s, a, b = (np.expand_dims(asarray(shape), -1) for shape in shapes)
        scale = raw(s) + 1 / raw(a) + 1 / raw(b)
        distances = scale * np.concatenate([-sizes, sizes])
        logarithm = np.maximum(self._log_of_standard(distances, u, s, a, b), -800.0)
        mean = shapes[0] + 1 / shapes[2] - 1 / shapes[3]
        return mean - np.sum(scale * weights * np.exp(logarithm) * logarithm, -1)

    def _tails(self, y: Any, *shapes: Any) -> tuple[Any, Any]:
        """Return the normal variable, and by how much the probability above it is more than the normal one's."""
        _, _, a, b = shapes
        z = (np.log(y) - shapes[0]) / shapes[1]
        right, left = self._parts(z, *shapes)
        start = -np.log(a + b)
        return z, np.exp(np.log(b) + right + start) - np.exp(np.log(a) + left + start)

    def _cdf(self, y: Any, *shapes: Any) -> Any:
        z, more = self._tails(y, *shapes)
        return special.ndtr(z) - more

    def _sf(self, y: Any, *shapes: Any) -> Any:
        z, more = self._tails(y, *shapes)
        return special.ndtr(-z) + more

    def _start(self, method: str, q: Any, *shapes: Any) -> Any:
        # SciPy's are wrong for arrays of parameters, and raise for those that are none.
        def find(q: float, *shapes: float) -> float:
            return float(getattr(scipy_stats.dpareto_lognorm, method)(q, *shapes)) if self._valid(*shapes) else np.nan

        return np.vectorize(find, otypes=[float])(q, *shapes)

    def _mean_power(self, order: int, *shapes: Any) -> Any:
        u, s, a, b = shapes
        is_there = raw(a) > order
        safe = np.where(is_there, a, order + 1.0)
        value = safe * b / ((safe - order) * (b + order)) * np.exp(order * u + 0.5 * order * order * s * s)
        return np.where(is_there, value, np.nan)

    def _mean_and_variance(self, *shapes: Any) -> tuple[Any, Any]:
        return mean_and_variance(self._mean_power(order, *shapes) for order in (1, 2))

    def _skewness_and_kurtosis(self, *shapes: Any) -> tuple[Any, Any]:
        return skewness_and_kurtosis(self._mean_power(order, *shapes) for order in (1, 2, 3, 4))


dpareto_lognorm: DoubleParetoLogNormal = DoubleParetoLogNormal("dpareto_lognorm")
