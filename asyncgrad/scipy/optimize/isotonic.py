"""Least squares under the condition that nothing decreases: means of blocks of neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import optimize, sparse

from ...core.arrays.values import raw
from ...core.tensor import asarray
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
    w: Any = asarray(np.ones(y.shape)) if given is None else given
    count = len(found.blocks) - 1
    # It has a row for each block, with ones where that is.
    member = sparse.csr_array((np.ones(y.size), np.arange(y.size), found.blocks), shape=(count, y.size))
    block = np.repeat(np.arange(count), np.diff(found.blocks))
    sums = member @ w
    x = ((member @ (w * y)) / sums)[block]
    return optimize.OptimizeResult(x=x, weights=sums, blocks=found.blocks)
