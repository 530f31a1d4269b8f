"""The distribution of the energy of a resonance."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from .implicit import Implicit

__all__ = ["rel_breitwigner"]


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
        return self._share(rho, lambda pole: math.pi / 2 - np.arctan(y / pole))

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

    def _skewness_and_kurtosis(self, rho: Any) -> tuple[Any, Any]:
        return 0.0 * rho + np.nan, 0.0 * rho + np.nan


rel_breitwigner: RelativisticBreitWigner = RelativisticBreitWigner("rel_breitwigner")
