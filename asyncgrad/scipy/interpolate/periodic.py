"""Knots and coefficients of periodic splines: both repeat themselves from one period to the next."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["middles_within", "repeated_coefficients", "repeated_knots"]


def repeated_knots(inner: Any, k: int) -> Any:
    """Return the knots of a periodic spline of degree `k`, given those of one period with both its ends.

    Args:
        inner: shape (m,), increasing.
        k: the degree.

    Returns:
        Knots of shape (m + 2k,): k more on each side, as far from the ends as those within are from the other end.
    """
    count = inner.shape[0] - 1
    periods, places = np.divmod(np.arange(-k, count + k + 1), count)
    return inner[places] + (inner[count] - inner[0]) * periods


def repeated_coefficients(count: int, k: int) -> Any:
    """Return the matrix, shape (count + k, count), that repeats the first coefficients after the last."""
    return np.eye(count)[np.arange(count + k) % count]


def middles_within(x: Any) -> Any:
    """Return knots of one period for a spline of even degree through points: its ends, and the middles but the last."""
    return np.concatenate([x[:1], (x[1:-1] + x[:-2]) / 2, x[-1:]])
