"""Power series, next to 0, of what gamma and beta functions next to 1 differ by, which loses its digits otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..ufuncs import special

if TYPE_CHECKING:
    from numpy.typing import NDArray

    _Floats = NDArray[np.float64]

__all__ = ["SMALL", "TERMS", "beta_series", "gamma_series", "polynomial", "product"]

#: Up to this size of the variable the terms below have all digits, and beyond it the differences have.
SMALL = 0.1
#: The greatest power in each series.
TERMS = 48


def _log_gamma() -> _Floats:
    """Return the coefficients of the powers of c in log(gamma(1 + c))."""
    logarithm = np.zeros(TERMS + 1)
    logarithm[1] = -np.euler_gamma
    orders = np.arange(2, TERMS + 1)
    logarithm[2:] = (-1.0) ** orders * special.zeta(orders.astype(float)) / orders
    return logarithm


_LOG_GAMMA = _log_gamma()
_POWERS = np.arange(TERMS + 1)


def _exponential(logarithm: _Floats) -> _Floats:
    """Return the coefficients of the exponential function of a series without a constant term."""
    found = np.zeros(TERMS + 1)
    found[0] = 1.0
    for n in range(1, TERMS + 1):
        found[n] = sum(k * logarithm[k] * found[n - k] for k in range(1, n + 1)) / n
    return found


def gamma_series(factor: int = 1) -> _Floats:
    """Return the coefficients of the powers of c in gamma(1 + factor * c)."""
    return _exponential(_LOG_GAMMA) * float(factor) ** _POWERS


def beta_series(first: int, second: int) -> _Floats:
    """Return the coefficients of the powers of c in the beta function of 1 + first * c and 1 + second * c."""
    total = float(first + second)
    factors = float(first) ** _POWERS + float(second) ** _POWERS - total**_POWERS
    return product(_exponential(_LOG_GAMMA * factors), np.power(-total, _POWERS, dtype=float))


def product(*series: _Floats) -> _Floats:
    """Return the coefficients of a product of series."""
    found = series[0]
    for one in series[1:]:
        found = np.convolve(found, one)[: TERMS + 1]
    return found


def polynomial(coefficients: _Floats, c: Any) -> Any:
    """Return the sum of the powers of c times coefficients."""
    value: Any = 0.0
    # Numbers of Python, which do not widen c.
    for coefficient in coefficients[::-1].tolist():
        value = value * c + coefficient
    return value
