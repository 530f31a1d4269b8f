"""Families on an interval."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from ...core.arrays.values import raw
from ..ufuncs import special
from .continuous_distribution import ContinuousDistribution
from .location_scale import uniform
from .normal import norm
from .transforming import Transformed, WithPowers

__all__ = [
    "arcsine",
    "bradford",
    "johnsonsb",
    "loguniform",
    "reciprocal",
    "truncexpon",
]


@final
class Arcsine(WithPowers):
    """The arcsine distribution, of the squared sine of a uniform angle."""

    __slots__ = ()

    base: ContinuousDistribution = uniform
    _ends: tuple[float, float] = (0.0, 1.0)

    def _to_base(self, y: Any, *shapes: Any) -> Any:
        return 2 / math.pi * np.arcsin(np.sqrt(y))

    def _from_base(self, z: Any, *shapes: Any) -> Any:
        return np.square(np.sin(math.pi / 2 * z))

    def _log_slope(self, y: Any, *shapes: Any) -> Any:
        return -math.log(math.pi) - 0.5 * (np.log(y) + np.log1p(-y))

    def _mean_power(self, order: int, *shapes: Any) -> Any:
        return (0.5, 0.375, 0.3125, 0.2734375)[order - 1]

    def _entropy(self, *shapes: Any) -> Any:
        return math.log(math.pi / 4)


@final
class Bradford(Transformed):
    """Bradford's distribution of shape `c`, on the numbers from 0 to 1."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("c",)
    base: ContinuousDistribution = uniform
    _ends: tuple[float, float] = (0.0, 1.0)

    def _to_base(self, y: Any, c: Any) -> Any:
        return np.log1p(c * y) / np.log1p(c)

    def _from_base(self, z: Any, c: Any) -> Any:
        return np.expm1(z * np.log1p(c)) / c

    def _log_slope(self, y: Any, c: Any) -> Any:
        return np.log(c) - np.log1p(c * y) - np.log(np.log1p(c))

    def _mean_and_variance(self, c: Any) -> tuple[Any, Any]:
        k = np.log1p(c)
        return (c - k) / (c * k), ((c + 2) * k - 2 * c) / (2 * c * k * k)

    def _entropy(self, c: Any) -> Any:
        k = np.log1p(c)
        return k / 2 - np.log(c / k)


@final
class JohnsonBounded(Transformed):
    """Johnson's distribution on the numbers from 0 to 1: of the logit of a normal variable."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("a", "b")
    base: ContinuousDistribution = norm
    _ends: tuple[float, float] = (0.0, 1.0)

    def _valid(self, *shapes: Any) -> Any:
        return shapes[1] > 0

    def _to_base(self, y: Any, a: Any, b: Any) -> Any:
        return a + b * special.logit(y)

    def _from_base(self, z: Any, a: Any, b: Any) -> Any:
        return special.expit((z - a) / b)

    def _log_slope(self, y: Any, a: Any, b: Any) -> Any:
        return np.log(b) - np.log(y) - np.log1p(-y)


@final
class LogUniform(WithPowers):
    """The distribution of the exponential of a uniform variable, on the numbers from `a` to `b`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("a", "b")
    base: ContinuousDistribution = uniform

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return shapes[0], shapes[1]

    def _valid(self, *shapes: Any) -> Any:
        return (shapes[0] > 0) & (shapes[1] > shapes[0])

    def _inside(self, method: str, x: Any, args: Any, kwds: Any) -> Any:
        y, shapes, moves, below, above = ContinuousDistribution._inside(self, method, x, args, kwds)
        outside = below | above
        # A point inside of the support, which depends on the shapes.
        return np.where(outside, raw(shapes[0]), y) if np.any(outside) else y, shapes, moves, below, above

    def _to_base(self, y: Any, a: Any, b: Any) -> Any:
        return np.log(y / a) / np.log(b / a)

    def _from_base(self, z: Any, a: Any, b: Any) -> Any:
        return a * np.exp(z * np.log(b / a))

    def _log_slope(self, y: Any, a: Any, b: Any) -> Any:
        return -np.log(y) - np.log(np.log(b / a))

    def _mean_power(self, order: int, a: Any, b: Any) -> Any:
        return (b**order - a**order) / (order * np.log(b / a))

    def _entropy(self, a: Any, b: Any) -> Any:
        return 0.5 * (np.log(a) + np.log(b)) + np.log(np.log(b / a))


@final
class TruncatedExponential(Transformed):
    """The exponential distribution up to `b`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("b",)
    base: ContinuousDistribution = uniform

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return 0.0, shapes[0]

    def _to_base(self, y: Any, b: Any) -> Any:
        return np.expm1(-y) / np.expm1(-b)

    def _from_base(self, z: Any, b: Any) -> Any:
        return -np.log1p(z * np.expm1(-b))

    def _log_slope(self, y: Any, b: Any) -> Any:
        return -y - np.log(-np.expm1(-b))

    def _entropy(self, b: Any) -> Any:
        return np.log(np.expm1(b)) + (1 + np.exp(b) * (b - 1)) / -np.expm1(b)


arcsine: Arcsine = Arcsine("arcsine")
bradford: Bradford = Bradford("bradford")
johnsonsb: JohnsonBounded = JohnsonBounded("johnsonsb")
loguniform: LogUniform = LogUniform("loguniform")
reciprocal: LogUniform = LogUniform("reciprocal")
truncexpon: TruncatedExponential = TruncatedExponential("truncexpon")
