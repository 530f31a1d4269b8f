"""Rice's distribution, of the length of a vector of two normal numbers, by the noncentral chi-square one of its square.

Its moments for a great mean are power series in the inverse of the mean's square: the differences of mean powers lose
their digits there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ...core.arrays.values import raw
from ..arguments import floating
from ..special.rules import by_mask
from ..ufuncs import special
from .continuous_distribution import ContinuousDistribution
from .double_exponential import interval
from .gamma_series import polynomial, product
from .noncentral import ncx2
from .transforming import WithPowers

if TYPE_CHECKING:
    from ...core.arrays.array import Array

__all__ = ["rice"]


@final
class Rice(WithPowers):
    """Rice's distribution: of the length of a vector of two normal numbers, whose mean has the length `b`."""

    __slots__ = ()

    _flat_start = True
    shapes: tuple[str, ...] = ("b",)
    base: ContinuousDistribution = ncx2

    def _valid(self, *shapes: Any) -> Array:
        return shapes[0] >= 0

    def _base_shapes(self, *shapes: Any) -> tuple[Any, ...]:
        return np.asarray(2.0), np.square(shapes[0])

    def _to_base(self, y: Any, b: Any) -> Array:
        return y * y

    def _from_base(self, z: Any, b: Any) -> Array:
        return np.sqrt(z)

    def _log_slope(self, y: Any, b: Any) -> Array:
        return np.log(2 * y)

    def _logpdf(self, y: Any, b: Any) -> Array:
        product = y * b
        # The scaled function has a kink at 0, which the square has, too.
        is_far = raw(product) > 1
        if np.all(is_far):
            return np.log(y) - 0.5 * np.square(y - b) + np.log(special.i0e(product))
        near, far = np.where(is_far, 0.0, product), np.where(is_far, product, 1.0)
        distance = np.where(is_far, y - b, 0.0)
        squares = np.where(is_far, 0.0, np.square(y) + np.square(b))
        more = np.where(is_far, np.log(special.i0e(far)), np.log(special.i0(near)))
        return np.log(y) - 0.5 * (np.square(distance) + squares) + more

    def _mean_power(self, order: int, b: Any) -> Array:
        half = order / 2
        return 2**half * math.gamma(1 + half) * special.hyp1f1(-half, 1.0, -b * b / 2)

    def _mean_and_variance(self, b: Any) -> tuple[Any, Any]:
        def far(b: Any) -> Any:
            return b * polynomial(_MEANS[1], 1 / (b * b)), polynomial(_VARIANCE, 1 / (b * b))

        return self._by_length(far, super()._mean_and_variance, b)

    def _skewness_and_kurtosis(self, b: Any) -> tuple[Any, Any]:
        def far(b: Any) -> Any:
            inverse = 1 / (b * b)
            variance = polynomial(_VARIANCE, inverse)
            third, fourth = polynomial(_THIRD, inverse) / b**3, polynomial(_FOURTH, inverse) / b**4
            return third / variance**1.5, fourth / np.square(variance)

        return self._by_length(far, super()._skewness_and_kurtosis, b)

    @staticmethod
    def _by_length(far: Callable[[Any], Any], near: Callable[[Any], Any], b: Any) -> tuple[Any, Any]:
        """Return two moments by a function of a great length, or by another one."""
        first, second = by_mask(
            raw(b) > _FAR, lambda b: np.stack(far(b)), lambda b: np.stack(near(b)), (b, 2 * _FAR, 1.0)
        )
        return first, second

    def _entropy(self, b: Any) -> Array:
        b = floating(b)
        is_near = raw(b) < _NEARLY_NORMAL
        inverse = 1 / np.where(is_near, _NEARLY_NORMAL, b)
        far = 0.5 * math.log(2 * math.pi * math.e) - np.square(inverse / 2)
        if not np.any(is_near):
            return far
        near = np.expand_dims(np.where(is_near, b, 1.0), -1)
        # Beyond this distance from the length there is nothing.
        start = np.maximum(raw(near) - _REACH, 0.0)
        width = raw(near) + _REACH - start
        y = start + width * _SHARES
        logarithm = self._logpdf(y, near)
        return np.where(is_near, -np.sum(width * _WEIGHTS * np.exp(logarithm) * logarithm, -1), far)


#: Of standard deviations, and from which length on two terms have all digits of the entropy.
_REACH, _NEARLY_NORMAL = 12.0, 1e4
_SHARES, _WEIGHTS = interval(1 / 32, -3.5, 3.5)

#: From which length on the powers of the inverse of its square have all digits of the moments.
_FAR = 10.0


def _means() -> list[np.ndarray]:
    """Return the coefficients of the powers of 1 / b**2 in the means of the powers from 0 to 4, each over b**power."""
    orders = np.arange(18)
    powers = np.arange(5)[:, np.newaxis]
    return list(np.square(special.poch(-powers / 2, orders)) / special.gamma(orders + 1) * 2.0**orders)


_MEANS = _means()
_SQUARE = product(_MEANS[1], _MEANS[1])
# The first terms of each cumulant cancel.
_VARIANCE = (_MEANS[2] - _SQUARE[:18])[1:]
_THIRD = (_MEANS[3] - 3 * product(_MEANS[1], _MEANS[2])[:18] + 2 * product(_MEANS[1], _SQUARE)[:18])[3:]
_FOURTH = (
    _MEANS[4]
    - 4 * product(_MEANS[1], _MEANS[3])[:18]
    - 3 * product(_MEANS[2], _MEANS[2])[:18]
    + 12 * product(_SQUARE, _MEANS[2])[:18]
    - 6 * product(_SQUARE, _SQUARE)[:18]
)[4:]

rice: Rice = Rice("rice")
