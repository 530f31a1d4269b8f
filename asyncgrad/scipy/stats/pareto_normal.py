"""A log-normal variable whose tails are powers."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np
from scipy import stats as scipy_stats

from ...core.arrays.values import raw
from ..ufuncs import special
from .implicit import Implicit
from .mean_powers import skewness_and_kurtosis
from .normal import norm

__all__ = ["dpareto_lognorm"]


def _log_mills(t: Any) -> Any:
    """Return the logarithm of the normal probability above t over the density there."""
    is_right = raw(t) > 0
    right, left = np.where(is_right, t, 0.0), np.where(is_right, 0.0, t)
    scaled = np.log(special.erfcx(right / math.sqrt(2))) + 0.5 * math.log(math.pi / 2)
    return np.where(is_right, scaled, special.log_ndtr(-left) - norm._logpdf(left))


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
    def _parts(y: Any, u: Any, s: Any, a: Any, b: Any) -> tuple[Any, Any, Any]:
        """Return the normal variable, and the logarithms of the Mills ratios of both tails."""
        z = (np.log(y) - u) / s
        return z, _log_mills(a * s - z), _log_mills(b * s + z)

    def _logpdf(self, y: Any, *shapes: Any) -> Any:
        _, _, a, b = shapes
        z, right, left = self._parts(y, *shapes)
        # The logarithm of a sum of two exponentials, which does not warn of nan as np.logaddexp does.
        weight = np.log(a) + np.log(b) - np.log(a + b) - np.log(y)
        return weight + norm._logpdf(z) + right - special.log_expit(right - left)

    def _tails(self, y: Any, *shapes: Any) -> tuple[Any, Any]:
        """Return the normal variable, and by how much the probability above it is more than the normal one's."""
        _, _, a, b = shapes
        z, right, left = self._parts(y, *shapes)
        start = norm._logpdf(z) - np.log(a + b)
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
        mean = self._mean_power(1, *shapes)
        return mean, self._mean_power(2, *shapes) - np.where(np.isfinite(raw(mean)), mean * mean, 0.0)

    def _skewness_and_kurtosis(self, *shapes: Any) -> tuple[Any, Any]:
        return skewness_and_kurtosis(self._mean_power(order, *shapes) for order in (1, 2, 3, 4))


dpareto_lognorm: DoubleParetoLogNormal = DoubleParetoLogNormal("dpareto_lognorm")
