"""Families whose distribution function is an integral of the density: by trapezoids, after a change of variable.

The integral beyond a point, away from the mean, is over a function that falls and is smooth. With the distance from the
point as a double exponential function of another variable the trapezoidal rule has all digits within some hundred
nodes, for all elements at once, and so have the derivatives of its sum.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, final

import numpy as np

from ...core.arrays.values import raw
from ...core.tensor import asarray
from ..special.log_densities import log_beta_
from ..ufuncs import special
from .double_exponential import half_line, interval
from .implicit import Implicit

__all__ = ["Integrated", "gausshyper"]

_HALF_LINE, _INTERVAL = half_line(), interval()


class Integrated(Implicit):
    """Abstract: a family whose distribution function is an integral of the density, from the ends of its support.

    These are minus infinity or 0, and infinity; a family with another one says how to integrate up to it.
    """

    __slots__ = ()

    @abstractmethod
    def _mean_and_variance(self, *shapes: Any) -> tuple[Any, Any]:
        """Return the mean and the variance of the standard form, by a formula."""

    def _beyond(self, y: Any, shapes: Any, *, above: bool) -> Any:
        """Return the integral of the density below numbers, or above them."""
        size = np.broadcast_shapes(*(np.shape(raw(one)) for one in (y, *shapes)))
        is_interval = not above and self._ends[0] == 0
        nodes, weights = (one.reshape(-1, *[1] * len(size)) for one in (_INTERVAL if is_interval else _HALF_LINE))
        if is_interval:
            return y * np.sum(self._pdf(y * nodes, *shapes) * weights, 0)
        mean, variance = (np.asarray(one) for one in self._mean_and_variance(*map(raw, shapes)))
        scale = np.sqrt(variance)
        edge = self._edge_at_zero(*map(raw, shapes))
        is_towards = mean < 0 if above else mean > 0
        has_edge = np.isfinite(edge) & is_towards & (scale > np.maximum(2.0, 0.25 * np.abs(mean)))
        is_past = has_edge & ((raw(y) < 0) if above else (raw(y) > 0))
        # From the edge on it is over a function of another scale.
        start, scale = np.where(is_past, 0.0, y), np.where(has_edge, np.minimum(edge, scale), scale)
        found = scale * np.sum(self._pdf(start + (1 if above else -1) * scale * nodes, *shapes) * weights, 0)
        if not np.any(is_past):
            return found
        nodes, weights = (one.reshape(-1, *[1] * len(size)) for one in _INTERVAL)
        length = np.where(is_past, y, 1.0)
        return found + np.where(is_past, np.abs(length) * np.sum(self._pdf(length * nodes, *shapes) * weights, 0), 0.0)

    def _edge_at_zero(self, *shapes: Any) -> Any:
        """Return how far a density of which 0 is the centre, at a scale of 1, reaches beyond on the side of less."""
        return np.inf

    def _integral_to(self, y: Any, shapes: Any, *, above: bool) -> Any:
        """Return the same, by the integral over the other side where that is less."""
        mean, _ = self._mean_and_variance(*map(raw, shapes))
        is_tail = raw(y) > mean if above else raw(y) < mean
        if np.all(is_tail):
            return self._beyond(y, shapes, above=above)
        rest = 1 - self._beyond(np.where(is_tail, mean, y), shapes, above=not above)
        if not np.any(is_tail):
            return rest
        return np.where(is_tail, self._beyond(np.where(is_tail, y, mean), shapes, above=above), rest)

    def _cdf(self, y: Any, *shapes: Any) -> Any:
        return self._integral_to(y, shapes, above=False)

    def _sf(self, y: Any, *shapes: Any) -> Any:
        return self._integral_to(y, shapes, above=True)

    def _bulk(self, *shapes: Any) -> list[float]:
        # The quantiles need these integrals.
        mean, variance = (float(raw(asarray(one))) for one in self._mean_and_variance(*shapes))
        spread = math.sqrt(variance)
        return [mean - 3 * spread, mean - spread, mean, mean + spread, mean + 3 * spread]

    def _start(self, method: str, q: Any, *shapes: Any) -> Any:
        """Return quantiles by bisection: SciPy's take seconds, and its `isf` of arrays is wrong for one family."""
        mean, variance = (np.asarray(one) for one in self._mean_and_variance(*shapes))
        spread = np.sqrt(variance)
        size = np.broadcast_shapes(np.shape(q), mean.shape)
        last = self._ends[1]
        above = method == "isf"
        low, high = (np.broadcast_to(mean + sign * spread, size) for sign in (-1.0, 1.0))
        tensors = [asarray(one) for one in shapes]

        def is_below(y: Any) -> Any:
            """Return where numbers are below the quantile."""
            found = raw((self._sf if above else self._cdf)(asarray(y), *tensors))
            return found > q if above else found < q

        first = self._ends[0]
        low, high = np.maximum(low, first + 1e-3 * (mean - first) if first == 0 else low), np.minimum(high, last)
        for _ in range(60):
            is_low, is_high = is_below(low), is_below(high) & (high < last)
            if np.all(is_low) and not np.any(is_high):
                break
            lower = low / 16 if first == 0 else mean - 2 * (mean - low)
            low, high = (
                np.where(is_low, low, lower),
                np.where(is_high, np.minimum(mean + 2 * (high - mean), last), high),
            )
        for _ in range(36):
            middle = (low + high) / 2
            is_low = is_below(middle)
            low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
        return (low + high) / 2


@final
class GaussHypergeometric(Integrated):
    """The Gauss hypergeometric distribution: a beta distribution of shapes `a`, `b` over (1 + `z` x) ** `c`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("a", "b", "c", "z")
    _ends: tuple[float, float] = (0.0, 1.0)
    _inner = 0.5

    def _valid(self, *shapes: Any) -> Any:
        a, b, c, z = shapes
        return (a > 0) & (b > 0) & np.isfinite(c) & (z > -1)

    def _logpdf(self, y: Any, a: Any, b: Any, c: Any, z: Any) -> Any:
        powers = special.xlogy(a - 1, y) + special.xlog1py(b - 1, -y) - c * np.log1p(z * y)
        return powers - log_beta_.call(a, b) - np.log(special.hyp2f1(c, a, a + b, -z))

    def _beyond(self, y: Any, shapes: Any, *, above: bool) -> Any:
        if not above:
            return Integrated._beyond(self, y, shapes, above=False)
        # 1 minus the variable is of the same family.
        a, b, c, z = shapes
        return Integrated._beyond(self, 1 - y, (b, a, c, -z / (1 + z)), above=False)

    def _mean_and_variance(self, a: Any, b: Any, c: Any, z: Any) -> tuple[Any, Any]:
        start = special.beta(a, b) * special.hyp2f1(c, a, a + b, -z)
        mean, second = (
            special.beta(a + order, b) * special.hyp2f1(c, a + order, a + b + order, -z) / start for order in (1, 2)
        )
        return mean, second - mean * mean


gausshyper: GaussHypergeometric = GaussHypergeometric("gausshyper")
