"""Vectors of length 1, and distances and angles between vectors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.one_device import check_operands_share_device
from ...core.ops.single_precision import in_single
from ..shared.arguments import array_of, check_real

if TYPE_CHECKING:
    from ...core.tensor import Tensor


__all__ = ["cosine_similarity", "normalize", "pairwise_distance"]


@in_single
def normalize(
    x: Tensor | np.ndarray, p: float = 2.0, axis: int | tuple[int, ...] = 1, eps: float = 1e-12
) -> Tensor | np.ndarray:
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


@in_single
def pairwise_distance(
    x1: Tensor | np.ndarray, x2: Tensor | np.ndarray, p: float = 2.0, eps: float = 1e-6, keepdims: bool = False
) -> Tensor | np.ndarray:
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
    check_operands_share_device("pairwise_distance", x1, x2)
    return _norm(x1 - x2 + eps, p, -1, keepdims)


@in_single
def cosine_similarity(
    x1: Tensor | np.ndarray, x2: Tensor | np.ndarray, axis: int = 1, eps: float = 1e-8
) -> Tensor | np.ndarray:
    """Return the cosine of the angle between vectors along an axis.

    Args:
        x1: any shape.
        x2: any shape; both are broadcast.
        axis: the axis of the vectors' elements.
        eps: the least length to divide by.

    Raises:
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.cosine_similarity.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.cosine_similarity(np.array([[3.0, 4.0]]), np.array([[1.0, 0.0]]))
        array([0.6])
    """
    check_operands_share_device("cosine_similarity", x1, x2)
    check_real("cosine_similarity", x1=x1, x2=x2)
    first, second = array_of(x1), array_of(x2)
    if first.ndim != second.ndim or first.shape[axis] != second.shape[axis]:
        # One shape for both, so that an axis is the same in both.
        shape = np.broadcast_shapes(first.shape, second.shape)
        x1, x2 = np.broadcast_to(x1, shape), np.broadcast_to(x2, shape)
    lengths = (np.maximum(_norm(x, 2.0, axis, False), eps) for x in (x1, x2))
    return np.sum(x1 * x2, axis=axis) / math.prod(lengths)


def _norm(x: Any, p: float, axis: Any, keepdims: bool) -> Any:
    if isinstance(axis, (tuple, list)):
        # np.linalg.norm takes two axes for those of a matrix.
        return np.sum(np.abs(x) ** p, axis=tuple(axis), keepdims=keepdims) ** (1 / p)
    return np.linalg.norm(x, p, axis=axis, keepdims=keepdims)
