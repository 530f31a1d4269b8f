"""Least squares under the condition that nothing decreases: means of blocks of neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import optimize

from ...core.arrays.values import raw
from ..arguments import double

__all__ = ["isotonic_regression"]


def isotonic_regression(y: Any, *, weights: Any = None, increasing: bool = True) -> optimize.OptimizeResult:
    """Return the numbers nearest to others, by least squares, of which none is below the one before.

    They are the means of blocks of neighbours, and differentiable as these, by `y` and by the weights.

    Args:
        y: the numbers, shape (n,).
        weights: of their squared distances, shape (n,), above 0; None for ones.
        increasing: False if none is to be above the one before.

    Returns:
        A result with `x`, shape (n,), `weights`, the sum of each block, and `blocks`, where they begin and the last
        ends.

    Raises:
        ValueError: the shapes differ, or a weight is not above 0.

    Source: scipy.optimize.isotonic_regression.

    Example:
        >>> from asyncgrad.scipy import optimize
        >>> optimize.isotonic_regression([1.0, 3.0, 2.0, 5.0]).x.tolist()
        [1.0, 2.5, 2.5, 5.0]
    """
    y = np.atleast_1d(double(y))
    given = None if weights is None else np.atleast_1d(double(weights))
    found = optimize.isotonic_regression(raw(y), weights=None if given is None else raw(given), increasing=increasing)
    w: Any = np.ones(y.shape) if given is None else given
    lengths = np.diff(found.blocks)
    # By number: a row for each block, with ones where it is.
    block = np.repeat(np.arange(lengths.size), lengths)
    member = (block == np.arange(lengths.size)[:, np.newaxis]).astype(float)
    sums = member @ w
    x = ((member @ (w * y)) / sums)[block]
    return optimize.OptimizeResult(x=x, weights=sums, blocks=found.blocks)
