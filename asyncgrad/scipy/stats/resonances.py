"""The distribution of the energy of a resonance."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from ...core.arrays.values import raw
from ..arguments import floating
from .double_exponential import half_line, interval
from .implicit import Implicit

__all__ = ["rel_breitwigner"]

_DISTANCES, _DISTANCE_WEIGHTS = half_line(1 / 32, -4.0, 4.0)
_SHARES, _SHARE_WEIGHTS = interval(1 / 128, -5.5, 4.0)
#: 1 less each share, to all digits.
_RESTS = interval(1 / 128, -4.0, 5.5)[0][::-1]


def _legendre() -> tuple[np.ndarray, np.ndarray]:
    points, weights = np.polynomial.legendre.leggauss(24)
    return (points + 1) / 2, weights / 2


_POINTS, _WEIGHTS = _legendre()


@final
class RelativisticBreitWigner(Implicit):
    """The relativistic Breit-Wigner distribution, of a mass that is `rho` times the width."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("rho",)
    _ends: tuple[float, float] = (0.0, np.inf)
    _inner = 0.5

    @staticmethod
    def _factor(rho: Any) -> Any:
        """Return the density at `rho`."""
        root = np.hypot(1.0, 1 / rho)
        return 2 / math.pi * root * np.sqrt(2 / (1 + root))

    def _logpdf(self, y: Any, rho: Any) -> Any:
        return np.log(self._factor(rho)) - 2 * np.log(np.hypot(1.0, (y - rho) * (y + rho) / rho))

    def _cdf(self, y: Any, rho: Any) -> Any:
        return self._share(rho, lambda pole: np.arctan(y / pole))

    def _sf(self, y: Any, rho: Any) -> Any:
        is_far = raw(y) > 3 * np.maximum(raw(rho), 1.0)
        if not np.any(is_far):
            return self._share_above(y, rho)
        far = self._share_beyond(np.where(is_far, y, 3 * np.maximum(rho, 1.0)), rho)
        return far if np.all(is_far) else np.where(is_far, far, self._share_above(np.where(is_far, rho, y), rho))

    def _share_above(self, y: Any, rho: Any) -> Any:
        return self._share(rho, lambda pole: math.pi / 2 - np.arctan(y / pole))

    def _share_beyond(self, y: Any, rho: Any) -> Any:
        """Return the same by an integral over y divided by the variable, where the difference above has no digits."""
        ratio, inverse = np.expand_dims(rho / y, -1), np.expand_dims(1 / y, -1)
        squares = _POINTS * _POINTS
        terms = squares / (np.square(1 - ratio * ratio * squares) + np.square(ratio * inverse * squares))
        return self._factor(rho) * rho * (rho / y) / y / y * np.sum(_WEIGHTS * terms, -1)

    def _entropy(self, rho: Any) -> Any:
        rho = np.expand_dims(floating(rho), -1)
        height = self._factor(rho)
        # Over the distance of the square of the energy from that of the mass, on both sides of the peak, at any scale.
        below, above = (
            np.sum(weights / np.sqrt(shift) * np.log1p(distance * distance) / (1 + distance * distance), -1)
            for distance, weights, shift in (
                (rho * _SHARES, rho * _SHARE_WEIGHTS, _RESTS),
                (_DISTANCES, _DISTANCE_WEIGHTS, 1 + _DISTANCES / rho),
            )
        )
        height = height[..., 0]
        return height / 2 * (below + above) - np.log(height)

    @staticmethod
    def _share(rho: Any, angle: Any) -> Any:
        """Return a probability, by a complex angle at a pole of the density."""
        root = np.hypot(1.0, 1 / rho)
        scale = 2 / math.pi * np.sqrt(2 / (1 + root))
        return scale * np.imag(np.sqrt(-1 + 1j / rho) * angle(np.sqrt(-rho * (rho + 1j))))

    def _mean_and_variance(self, rho: Any) -> tuple[Any, Any]:
        half = self._factor(rho) * rho / 2
        mean = half * (math.pi / 2 + np.arctan(rho))
        second = math.pi / 2 * half * 2 * np.real((1 - rho * 1j) / np.sqrt(-1 - 1j / rho))
        return mean, second - mean * mean

    def _powers_up_to(self, order: int, *shapes: Any) -> list[Any]:
        return [*super()._powers_up_to(2, *shapes), np.inf, np.inf]

    def _skewness_and_kurtosis(self, rho: Any) -> tuple[Any, Any]:
        return 0.0 * rho + np.nan, 0.0 * rho + np.nan


rel_breitwigner: RelativisticBreitWigner = RelativisticBreitWigner("rel_breitwigner")
