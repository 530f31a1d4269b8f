"""The largest, the k-th smallest and the running extreme elements along an axis, with the places that they are at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...core.arrays.interception import on_device_of_arguments
from ...core.arrays.tensor_base import TensorBase
from ...core.arrays.values import as_like, is_recorder, on_host, recorded_whole
from ...core.settings.arguments import truth, whole_number
from ...core.settings.called_with import refuse_words_of_torch, with_words_of_torch
from ...core.tensor import asarray
from ...errors import IndexRangeError
from ..shared.arguments import array_of, axis_of, check_real

if TYPE_CHECKING:
    from ...core.tensor import Tensor


__all__ = ["ValuesAndIndices", "cummax", "cummin", "kthvalue", "topk"]


class ValuesAndIndices(NamedTuple):
    """Elements of an array, and their indices along the axis that they were chosen along."""

    values: Tensor | np.ndarray
    indices: Tensor | np.ndarray


@on_device_of_arguments
@with_words_of_torch
def topk(  # noqa: D417  # dim is there to be refused
    x: Tensor | np.ndarray,
    k: int,
    axis: int = -1,
    largest: bool = True,
    sorted: bool = True,
    dim: None = None,
) -> ValuesAndIndices:
    """Return the k largest elements along an axis, the largest first, and their indices.

    Of equal elements, the first ones come first. NaN is larger than any number. Only the elements returned get a
    gradient.

    Args:
        x: real numbers, shape `(..., n, ...)`.
        k: how many, from 0 to n.
        axis: the axis.
        largest: False for the k smallest, the smallest first.
        sorted: not used: they are always in order.

    Returns:
        A named tuple of `values` and `indices`, both with `k` elements along the axis.

    Raises:
        IndexRangeError: there is no such axis, or there are less than k elements along it.
        ArgumentTypeError: x is complex.

    Source: torch.topk.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.topk(np.array([3.0, 1.0, 4.0, 1.0, 5.0]), 2)
        ValuesAndIndices(values=array([5., 4.]), indices=array([4, 2]))
    """
    if dim is not None:
        refuse_words_of_torch("nn.topk(x, k, ", dim)
    axis, length = _axis("topk", x, axis)
    k = whole_number(k, "k")
    if not 0 <= k <= length:
        raise IndexRangeError(f"nn.topk of {length} elements takes a k from 0 to {length}, not {k}")
    truth(sorted, "sorted")
    x, is_number = _with_axis(x)
    if truth(largest, "largest"):
        # Backwards, so that of equal elements the first are last, and come first when they are turned around again.
        order = np.flip(length - 1 - _order(np.flip(_without_history(x), axis), axis), axis)
    else:
        order = _order(_without_history(x), axis)
    picked = (slice(None),) * axis + (slice(k),)
    return _at(x, order[picked], axis, is_number and k == 1)


@on_device_of_arguments
def kthvalue(x: Tensor | np.ndarray, k: int, axis: int = -1, keepdims: bool = False) -> ValuesAndIndices:
    """Return the k-th smallest element along an axis, and its index; of equal ones, that which comes k-th.

    NaN is larger than any number. Only the element returned gets a gradient.

    Args:
        x: real numbers, shape `(..., n, ...)`.
        k: which one, from 1 to n.
        axis: the axis.
        keepdims: keep the axis, with length 1.

    Returns:
        A named tuple of `values` and `indices`.

    Raises:
        IndexRangeError: there is no such axis, or no k-th element along it.
        ArgumentTypeError: x is complex.

    Source: torch.kthvalue.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.kthvalue(np.array([3.0, 1.0, 4.0, 1.0, 5.0]), 3)
        ValuesAndIndices(values=array(3.), indices=array(0))
    """
    axis, length = _axis("kthvalue", x, axis)
    k = whole_number(k, "k")
    if not 1 <= k <= length:
        raise IndexRangeError(f"nn.kthvalue of {length} elements takes a k from 1 to {length}, not {k}")
    keepdims = truth(keepdims, "keepdims")
    x, is_number = _with_axis(x)
    picked = (slice(None),) * axis + (slice(k - 1, k),)
    values, indices = _at(x, _order(_without_history(x), axis)[picked], axis, False)
    if keepdims and not is_number:
        return ValuesAndIndices(values, indices)
    return ValuesAndIndices(np.squeeze(values, axis), np.squeeze(indices, axis))


@on_device_of_arguments
def cummax(x: Tensor | np.ndarray, axis: int) -> ValuesAndIndices:
    """Return the largest of the elements so far at each place along an axis, and its index.

    Of equal elements it is the last, and so is the one that gets the gradient. From a NaN on it is NaN.

    Args:
        x: real numbers, shape `(...)`.
        axis: the axis.

    Returns:
        A named tuple of `values` and `indices`, both of the shape of x.

    Raises:
        IndexRangeError: there is no such axis.
        ArgumentTypeError: x is complex.

    Source: torch.cummax.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.cummax(np.array([2.0, 3.0, 1.0, 3.0]), 0)
        ValuesAndIndices(values=array([2., 3., 3., 3.]), indices=array([0, 1, 1, 3]))
    """
    return _running("cummax", np.maximum, x, axis)


@on_device_of_arguments
def cummin(x: Tensor | np.ndarray, axis: int) -> ValuesAndIndices:
    """Return the smallest of the elements so far at each place along an axis, and its index: see `cummax`.

    Args:
        x: real numbers, shape `(...)`.
        axis: the axis.

    Returns:
        A named tuple of `values` and `indices`, both of the shape of x.

    Raises:
        IndexRangeError: there is no such axis.
        ArgumentTypeError: x is complex.

    Source: torch.cummin.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.cummin(np.array([2.0, 1.0, 3.0, 1.0]), 0)
        ValuesAndIndices(values=array([2., 1., 1., 1.]), indices=array([0, 1, 1, 3]))
    """
    return _running("cummin", np.minimum, x, axis)


def _running(function: str, ufunc: np.ufunc, x: Any, axis: int) -> ValuesAndIndices:
    axis, _ = _axis(function, x, axis)
    x, is_number = _with_axis(x)
    data = array_of(x)
    if is_recorder(data):
        indices = recorded_whole(_running_indices, data, ufunc, axis)
    else:
        # Few devices have running extremes.
        indices = as_like(_running_indices(on_host(data), ufunc, axis), data)
    return _at(x, asarray(indices) if isinstance(x, TensorBase) else indices, axis, is_number)


def _running_indices(data: Any, ufunc: np.ufunc, axis: int) -> Any:
    extremes = ufunc.accumulate(data, axis=axis)
    length = data.shape[axis]
    places = np.reshape(np.arange(length), tuple([length if one == axis else 1 for one in range(data.ndim)]))
    # A NaN is no extreme that equals itself.
    is_extreme = (data == extremes) | (data != data)
    return np.maximum.accumulate(np.where(is_extreme, places, 0), axis=axis)


def _axis(function: str, x: Any, axis: Any) -> tuple[int, int]:
    """Return the number of an axis, and its length."""
    check_real(function, x=x)
    shape = array_of(x).shape
    axis = axis_of(function, shape, axis)
    return axis, (shape[axis] if shape else 1)


def _with_axis(x: Any) -> tuple[Any, bool]:
    """Return x, with an axis if it is a number, and whether it is one."""
    x = x if isinstance(x, TensorBase) else array_of(x)
    return (x, False) if x.shape else (np.reshape(x, (1,)), True)


def _without_history(x: Any) -> Any:
    return x.detach() if isinstance(x, TensorBase) else x


def _order(x: Any, axis: int) -> Any:
    """Return the indices by which an array is in order along an axis, and equal elements are as they were."""
    return np.argsort(x, axis=axis, kind="stable")


def _at(x: Any, indices: Any, axis: int, is_number: bool) -> ValuesAndIndices:
    values = np.take_along_axis(x, indices, axis)
    if is_number:
        values, indices = np.reshape(values, ()), np.reshape(indices, ())
    return ValuesAndIndices(values, indices)
