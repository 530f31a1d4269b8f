"""Points and their distances by coordinates, and sets of points laid on one another."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.arrays.values import raw
from ...core.tensor import Tensor
from ..arguments import floating
from ..linalg import orthogonal_procrustes
from .distance import cdist

__all__ = ["distance_matrix", "geometric_slerp", "minkowski_distance", "minkowski_distance_p", "procrustes"]


def _double(value: Any) -> Any:
    array = floating(value)
    return array.astype(np.result_type(array.dtype, np.float64), copy=False)


def minkowski_distance_p(x: Any, y: Any, p: float = 2.0) -> Tensor:
    """Return the sums of the powers `p` of the differences of points along the last axis; of p=inf the greatest.

    Source: scipy.spatial.minkowski_distance_p.
    """
    differences = np.abs(_double(y) - _double(x))
    if p == np.inf:
        return np.max(differences, -1)
    if p >= 1:
        return np.sum(differences**p, -1)
    # The slope at 0 is infinite, and taken as 0.
    is_zero = raw(differences) == 0
    return np.sum(np.where(is_zero, 0.0, np.where(is_zero, 1.0, differences) ** p), -1)


def minkowski_distance(x: Any, y: Any, p: float = 2.0) -> Tensor:
    """Return Minkowski's distances of points along the last axis; the gradient of a distance of 0 is 0.

    Source: scipy.spatial.minkowski_distance.
    """
    powers = minkowski_distance_p(x, y, p)
    if p in (np.inf, 1):
        return powers
    is_zero = raw(powers) == 0
    return np.where(is_zero, 0.0, np.where(is_zero, 1.0, powers) ** (1.0 / p))


def distance_matrix(x: Any, y: Any, p: float = 2.0, threshold: int = 1000000) -> Tensor:
    """Return the distance of each row of one matrix from each row of another.

    Args:
        x: shape (m, k).
        y: shape (n, k).
        p: Minkowski's exponent.
        threshold: has no effect.

    Source: scipy.spatial.distance_matrix.
    """
    first, second = _double(x), _double(y)
    if first.ndim != 2 or second.ndim != 2 or first.shape[1] != second.shape[1]:
        raise ValueError(
            f"scipy.spatial.distance_matrix takes matrices with as many columns, not shapes {first.shape} and "
            f"{second.shape}"
        )
    if p == 2 and "c" not in (first.dtype.kind, second.dtype.kind):
        return cdist(first, second)
    return minkowski_distance(first[:, np.newaxis], second, p)


def procrustes(data1: Any, data2: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return two sets of points with their means at 0, the second one turned onto the first, and what still differs.

    Args:
        data1: shape (n, k).
        data2: shape (n, k).

    Source: scipy.spatial.procrustes.
    """
    first, second = _double(data1), _double(data2)
    if first.ndim != 2 or first.shape != second.shape or not first.size:
        raise ValueError(
            f"scipy.spatial.procrustes takes matrices of one shape that are not empty, not {first.shape} and "
            f"{second.shape}"
        )
    first, second = (one - np.mean(one, 0) for one in (first, second))
    lengths = [np.sqrt(np.sum(one * one)) for one in (first, second)]
    if any(raw(one) == 0 for one in lengths):
        raise ValueError("scipy.spatial.procrustes takes matrices of more than one point")
    first, second = first / lengths[0], second / lengths[1]
    turn, scale = orthogonal_procrustes(first, second)
    second = (second @ turn.T) * scale
    return first, second, np.sum(np.square(first - second))


def geometric_slerp(start: Any, end: Any, t: Any, tol: float = 1e-07) -> Tensor:
    """Return the points at times `t` on the arc from one point of a unit sphere to another.

    Args:
        start: shape (n,), n > 1.
        end: shape (n,), neither `start` nor its opposite.
        t: from 0 to 1: a number, or shape (m,).
        tol: how near to the opposite `end` must not be.

    Returns:
        A Tensor of shape (n,) or (m, n).

    Source: scipy.spatial.geometric_slerp.
    """
    first, second, times = _double(start), _double(end), _double(t)
    if first.ndim != 1 or first.shape != second.shape or first.size < 2 or times.ndim > 1:
        raise ValueError(
            f"scipy.spatial.geometric_slerp takes points of one shape (n,), n > 1, and times of shape (m,), not "
            f"{first.shape}, {second.shape} and {times.shape}"
        )
    if not np.allclose([np.linalg.norm(raw(one)) for one in (first, second)], 1.0, rtol=1e-9, atol=0):
        raise ValueError("scipy.spatial.geometric_slerp takes points of the unit sphere")
    distance = np.linalg.norm(raw(first) - raw(second))
    if distance == 0 or abs(distance - 2.0) <= tol:
        raise ValueError("scipy.spatial.geometric_slerp takes points that are neither equal nor opposite")
    # Of a length of exactly 1: what is left of opposite points is as small as the rounding of the given one.
    length = np.sqrt(np.sum(first * first))
    unit = first / length
    across = second - np.sum(unit * second) * unit
    sine = np.sqrt(np.sum(across * across))
    angles = np.expand_dims(times * np.arctan2(length * sine, np.sum(first * second)), -1)
    return np.cos(angles) * unit + np.sin(angles) * (across / sine)
