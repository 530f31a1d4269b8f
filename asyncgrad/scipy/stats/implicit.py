"""Families whose quantiles have no formula: SciPy's, refined so that they follow the distribution function."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from scipy import stats as scipy_stats

from ...core.arrays.values import raw
from ...core.tensor import asarray
from .continuous_distribution import ContinuousDistribution

__all__ = ["Implicit"]


#: From far out each of them goes half of the way.
_MOST_STEPS = 40


class Implicit(ContinuousDistribution):
    """Abstract: a family whose quantiles are found by SciPy, and follow the distribution function."""

    __slots__ = ()

    _ends: tuple[float, float] = (-np.inf, np.inf)
    _inner = 0.0

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return self._ends

    @abstractmethod
    def _sf(self, y: Any, *shapes: Any) -> Any:
        """Return the probability of greater values."""

    def _ppf(self, q: Any, *shapes: Any) -> Any:
        return self._refined(self._start("ppf", raw(q), *map(raw, shapes)), q, self._logcdf, 1, *shapes)

    def _isf(self, q: Any, *shapes: Any) -> Any:
        return self._refined(self._start("isf", raw(q), *map(raw, shapes)), q, self._logsf, -1, *shapes)

    def _start(self, method: str, q: Any, *shapes: Any) -> Any:
        """Return quantiles of arrays, right to some digits: by default SciPy's."""
        return getattr(getattr(scipy_stats, self.name), method)(q, *shapes)

    def _refined(self, y: Any, q: Any, function: Any, sign: int, *shapes: Any) -> Any:
        """Return a quantile after steps of Newton's.

        They are for the logarithm of the probability, which is next to linear far out, where SciPy's quantiles may be
        wrong. Each doubles the order up to which derivatives are right: the last two are recorded.
        """
        y = np.asarray(y).astype(np.result_type(*map(raw, (q, *shapes))), copy=False)
        bare = [asarray(raw(one)) for one in shapes]
        before: Any = np.inf
        for count in range(_MOST_STEPS):
            found = raw(self._step(asarray(y), asarray(raw(q)), function, sign, *bare))
            size = np.abs(found - y)
            y = found
            # Where a tail is a power they grow at first; those that never shrink are of rounding.
            is_moving = (size > 1e-7 * np.abs(y)) & ((size < 0.75 * before) | (count < 12))
            if not np.any(is_moving):
                break
            before = size
        return self._step(self._step(asarray(y), q, function, sign, *shapes), q, function, sign, *shapes)

    def _step(self, y: Any, q: Any, function: Any, sign: int, *shapes: Any) -> Any:
        logarithm = function(y, *shapes)
        scale = np.exp(logarithm - self._logpdf(y, *shapes))
        is_there = np.isfinite(raw(scale)) & np.isfinite(raw(logarithm))
        step = (logarithm - np.log(q)) * scale
        return y - sign * (step if np.all(is_there) else np.where(is_there, step, 0.0))
