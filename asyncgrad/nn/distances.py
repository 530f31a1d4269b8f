"""Vectors of length 1, and distances between vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["normalize", "pairwise_distance"]


def normalize(x: Any, p: float = 2.0, axis: Any = 1, eps: float = 1e-12) -> Any:
    """Return x divided by its p-norm along an axis.

    Args:
        x: any shape.
        p: the order of the norm.
        axis: along which the norms are taken, or a tuple of axes.
        eps: the least number to divide by.

    Source: torch.nn.functional.normalize.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.normalize(np.array([[3.0, 4.0]]))
        array([[0.6, 0.8]])
    """
    return x / np.maximum(_norm(x, p, axis, True), eps)


def pairwise_distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdims: bool = False) -> Any:
    """Return the p-norm of each vector of `x1 - x2 + eps`.

    Args:
        x1: shape `(..., features)`.
        x2: shape `(..., features)`; both are broadcast.
        p: the order of the norm.
        eps: added to each difference, so that that of equal vectors has a derivative.
        keepdims: keep the axis of the features, with length 1.

    Returns:
        A tensor of shape `(...)`.

    Source: torch.nn.functional.pairwise_distance.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.pairwise_distance(np.array([[3.0, 4.0]]), np.zeros(2), eps=0.0)
        array([5.])
    """
    return _norm(x1 - x2 + eps, p, -1, keepdims)


def _norm(x: Any, p: float, axis: Any, keepdims: bool) -> Any:
    if isinstance(axis, (tuple, list)):
        # np.linalg.norm takes two axes for those of a matrix.
        return np.sum(np.abs(x) ** p, axis=tuple(axis), keepdims=keepdims) ** (1 / p)
    return np.linalg.norm(x, p, axis=axis, keepdims=keepdims)
