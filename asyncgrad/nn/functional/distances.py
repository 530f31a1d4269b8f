"""Vectors of length 1, and distances and angles between vectors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.one_device import check_operands_share_device
from ...core.ops.single_precision import arrays_in_single
from ...core.settings.arguments import truth
from ...core.settings.called_with import refuse_words_of_torch, with_words_of_torch
from ...errors import ArgumentError
from ..shared.arguments import array_of, axis_of, check_arrays, check_real, common_shape, flat, in_floats, option

if TYPE_CHECKING:
    from ...core.tensor import Tensor


__all__ = ["cosine_similarity", "normalize", "pairwise_distance"]


@arrays_in_single
@with_words_of_torch
def normalize(  # noqa: D417  # dim is there to be refused
    x: Tensor | np.ndarray,
    p: float = 2.0,
    axis: int | tuple[int, ...] | None = 1,
    eps: float = 1e-12,
    dim: None = None,
) -> Tensor | np.ndarray:
    """Return x divided by its p-norm along an axis.

    Args:
        x: any shape.
        p: the order of the norm.
        axis: along which the norms are taken, or a tuple of axes; None or () for all.
        eps: the least number to divide by.

    Raises:
        ArgumentError: an axis is given twice.
        IndexRangeError: there is no such axis.

    Source: torch.nn.functional.normalize.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.normalize(np.array([[3.0, 4.0]]))
        array([[0.6, 0.8]])
    """
    if dim is not None:
        refuse_words_of_torch("nn.normalize(x, ", dim)
    check_arrays("normalize", x=x)
    shape = array_of(x).shape
    axes = (axis_of("normalize", shape, axis),) if axis.__class__ is int else _axes_of(shape, axis)
    p, eps = option("normalize", "p", p), option("normalize", "eps", eps)
    if not shape:
        # A number is a vector of one element.
        return np.reshape(normalize(np.reshape(x, (1,)), p, 0, eps), ())
    if len(axes) == 1:
        return x / np.maximum(_norm(x, p, axes[0], True), eps)
    # The axes as one, the last.
    last: Any = x
    if axes != tuple(range(len(shape) - len(axes), len(shape))):
        last = np.moveaxis(last, axes, range(-len(axes), 0))
    rest = array_of(last).shape[: -len(axes)]
    norms = _norm(np.reshape(last, (*rest, math.prod(shape[one] for one in axes))), p, -1, False)
    kept = [1 if axis in axes else length for axis, length in enumerate(shape)]
    return x / np.maximum(np.reshape(norms, kept), eps)


def _axes_of(shape: tuple[int, ...], axis: Any) -> tuple[int, ...]:
    """Return the axes that a norm is taken along, from 0 on; without any given, all.

    Raises:
        ArgumentError: one is given twice.
    """
    given = axis if isinstance(axis, (tuple, list)) else () if axis is None else (axis,)
    axes = tuple([axis_of("normalize", shape, one) for one in given])
    if len(set(axes)) < len(axes):
        raise ArgumentError(f"nn.normalize takes each axis once, not axis={axis!r} of an array of shape {shape}")
    return axes or tuple(range(len(shape)))


@arrays_in_single
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
    check_arrays("pairwise_distance", x1=x1, x2=x2)
    p, eps = option("pairwise_distance", "p", p), option("pairwise_distance", "eps", eps)
    x1, x2 = in_floats(x1, x2)
    is_kept = truth(keepdims, "keepdims")
    if not common_shape("pairwise_distance", x1=x1, x2=x2):
        # Numbers are vectors of one element.
        return _norm(np.reshape(x1 - x2 + eps, 1), p, -1, False)
    return _norm(x1 - x2 + eps, p, -1, is_kept)


@arrays_in_single
@with_words_of_torch
def cosine_similarity(  # noqa: D417  # dim is there to be refused
    x1: Tensor | np.ndarray,
    x2: Tensor | np.ndarray,
    axis: int = 1,
    eps: float = 1e-8,
    dim: None = None,
) -> Tensor | np.ndarray:
    """Return the cosine of the angle between vectors along an axis.

    Args:
        x1: any shape.
        x2: any shape; both are broadcast.
        axis: the axis of the vectors' elements.
        eps: the least length to divide by.

    Raises:
        ArgumentError: the shapes do not broadcast, or eps is negative.
        ArgumentTypeError: an argument is complex.
        IndexRangeError: there is no such axis.

    Source: torch.nn.functional.cosine_similarity.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.cosine_similarity(np.array([[3.0, 4.0]]), np.array([[1.0, 0.0]]))
        array([0.6])
    """
    if dim is not None:
        refuse_words_of_torch("nn.cosine_similarity(x1, x2, ", dim)
    check_operands_share_device("cosine_similarity", x1, x2)
    check_real("cosine_similarity", x1=x1, x2=x2)
    eps = option("cosine_similarity", "eps", eps)
    if not eps >= 0:
        raise ArgumentError(f"cosine_similarity needs an eps that is not negative, not {eps}")
    shape = common_shape("cosine_similarity", x1=x1, x2=x2)
    axis = axis_of("cosine_similarity", shape, axis)
    x1, x2 = in_floats(x1, x2)
    if array_of(x1).shape != array_of(x2).shape:
        # One shape for both, so that an axis is the same in both.
        x1, x2 = np.broadcast_to(x1, shape), np.broadcast_to(x2, shape)
    if not shape:
        # Numbers are vectors of one element.
        x1, x2 = np.reshape(x1, (1,)), np.reshape(x2, (1,))
    # Divided before they are multiplied: a product of large vectors overflows.
    first, second = (x / np.maximum(_norm(x, 2.0, axis, True), eps) for x in (x1, x2))
    return np.sum(first * second, axis=axis)


def _norm(x: Any, p: float, axis: Any, keepdims: bool) -> Any:
    if p == 0:
        # The number of elements that are not 0, with a derivative of 0.
        data = array_of(x)
        return np.sum(flat((data != 0).astype(data.dtype), x), axis=axis, keepdims=keepdims)
    return np.linalg.norm(x, p, axis=axis, keepdims=keepdims)
