"""Elements that are put together with those of an array at their indices: sums, means, products and extremes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.interception import on_device_of_arguments
from ...core.arrays.one_device import check_operands_share_device
from ...core.arrays.tensor_base import TensorBase
from ...core.arrays.values import as_like, is_recorder, on_host, recorded_whole
from ...core.recording.primitive import derivative, primitive
from ...core.settings.arguments import truth
from ...errors import ArgumentError, ArgumentTypeError, IndexRangeError
from ..shared.arguments import array_of, axis_of, check_arrays, check_real, constant, in_floats
from .embeddings import rows_added

if TYPE_CHECKING:
    from ...core.arrays.array import Array
    from ...core.tensor import Tensor


__all__ = ["scatter_reduce"]

_REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


@on_device_of_arguments
def scatter_reduce(
    input: Tensor | np.ndarray,
    axis: int,
    index: Tensor | np.ndarray,
    src: Tensor | np.ndarray,
    reduce: str,
    *,
    include_self: bool = True,
) -> Tensor | np.ndarray:
    """Return `input` with the elements of `src` reduced into those at their indices along an axis.

    The element of `src` at `(i, j)` goes to that of `input` at `(index[i, j], j)`, if the axis is the first of two.

    Args:
        input: shape `(...)`.
        axis: the axis that the indices are of.
        index: integers from 0 to the length of that axis of `input` minus 1. It has as many axes as `input`, of which
            none is longer than that of `src`, nor, but for `axis`, than that of `input`.
        src: numbers; those beyond the shape of `index` are not used.
        reduce: "sum", "prod", "mean", "amax" or "amin". Of equal extremes, each gets the same part of the gradient.
        include_self: False where an element at an index is not to be reduced with those that go there, but replaced.

    Returns:
        A tensor of the shape of `input`.

    Raises:
        ArgumentError: shapes do not fit, or there is no such reduction.
        ArgumentTypeError: the indices are no integers, or extremes are those of complex numbers.
        IndexRangeError: an index or the axis is out of range.

    Source: torch.scatter_reduce.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.scatter_reduce(np.zeros(3), 0, np.array([0, 2, 0]), np.array([1.0, 2.0, 3.0]), "sum")
        array([4., 0., 2.])
    """
    if reduce not in _REDUCTIONS:
        raise ArgumentError(f"scatter_reduce: reduce must be one of {', '.join(_REDUCTIONS)}, not {reduce!r}")
    check_operands_share_device("scatter_reduce", input, src, constants=index)
    (check_real if reduce in ("amax", "amin") else check_arrays)("scatter_reduce", input=input, src=src)
    input, src = in_floats(input, src)
    data, source = array_of(input), array_of(src)
    places, shape = _places(data.shape, source, axis, constant("scatter_reduce", "index", index))
    if source.shape:
        added = np.reshape(_plain(src)[tuple([slice(length) for length in shape])], (-1,))
    else:
        added = np.reshape(_plain(src), (1,))[: places.size]
    kept, own = np.arange(data.size), np.reshape(_plain(input), (-1,))
    if not truth(include_self, "include_self"):
        places = on_host(places)
        kept = np.setdiff1d(kept, places)
        own = own[as_like(kept, data)]
    groups = np.concatenate((kept, places))
    result = _reduced(np.concatenate((own, added)), groups, data.size, reduce)
    return np.reshape(result, data.shape)


def _plain(value: Any) -> Any:
    return value if isinstance(value, TensorBase) else array_of(value)


def _places(target: tuple[int, ...], source: Any, axis: Any, index: Any) -> tuple[Any, tuple[int, ...]]:
    """Return where each element goes, as its number in the target, in one axis; and the shape of the index."""
    index = index if is_recorder(index) else on_host(index)
    axis = axis_of("scatter_reduce", target, axis)
    if index.dtype.kind not in "iu":
        raise ArgumentTypeError(f"scatter_reduce takes integers as index, not {index.dtype}")
    # A number is an array of one axis.
    lengths, shape, given = ((one or (1,)) for one in (target, index.shape, source.shape))
    fits = len(lengths) == len(shape) == len(given) and all(
        mine <= theirs and (mine <= whole or one == axis)
        for one, (mine, theirs, whole) in enumerate(zip(shape, given, lengths, strict=True))
    )
    if not fits and index.size:
        raise ArgumentError(
            f"scatter_reduce takes an index with as many axes as input, none longer than that of src, nor, but for "
            f"axis {axis}, than that of input; its shape is {index.shape}, that of src {source.shape}, and that of "
            f"input {target}"
        )
    if index.size and not 0 <= index.min() <= index.max() < lengths[axis]:
        worst = index.min() if index.min() < 0 else index.max()
        raise IndexRangeError(
            f"scatter_reduce got index {worst}, but axis {axis} of input has {lengths[axis]} elements: 0 to "
            f"{lengths[axis] - 1}"
        )
    if not index.size:
        return np.zeros(0, np.int64), (0,) * len(source.shape)
    numbers: Any = 0
    for one, coordinates in enumerate(np.ix_(*(np.arange(length) for length in shape))):
        step = math.prod(lengths[one + 1 :])
        numbers = numbers + step * (index.reshape(shape).astype(np.int64) if one == axis else coordinates)
    return np.reshape(numbers, (-1,)), index.shape


def _reduced(values: Any, groups: Any, count: int, reduce: str) -> Any:
    """Return the reduction of each of `count` groups, each of which has an element."""
    if not count:
        return values
    data = array_of(values)
    if reduce == "prod":
        return _products(values, groups)
    places = as_like(groups, data)
    if reduce in ("amax", "amin"):
        return _extremes_of_groups(values, places, count, reduce == "amax")
    sums = _sums(values, places, count)
    if reduce == "sum":
        return sums
    sizes = np.bincount(groups, minlength=count)
    if data.dtype.kind in "iu":
        return sums // as_like(sizes.astype(data.dtype), data)
    return sums / as_like(sizes.astype(data.real.dtype), data)


def _sums(values: Any, places: Any, count: int) -> Any:
    return np.reshape(rows_added(np.reshape(values, (-1, 1)), places, (count, 1), None), (-1,))


def _products(values: Any, groups: Any) -> Any:
    """Return the product of each group: neighbours are multiplied until one is left, so that a 0 needs no division."""
    data, groups = array_of(values), on_host(groups)
    order = np.argsort(groups, kind="stable")
    values, groups = values[as_like(order, data)], groups[order]
    while True:
        starts = np.flatnonzero(np.diff(groups, prepend=-1))
        ranks = np.arange(len(groups)) - np.repeat(starts, np.diff(starts, append=len(groups)))
        if not ranks.any():
            return values
        firsts = np.flatnonzero(ranks % 2 == 0)
        has_second = np.append(ranks, 0)[firsts + 1] % 2 == 1
        # A last one without a partner is multiplied by a one, which stands behind all.
        seconds = np.where(has_second, firsts + 1, len(groups))
        extended = np.concatenate((values, np.ones_like(data, shape=(1,))))
        values = values[as_like(firsts, data)] * extended[as_like(seconds, data)]
        groups = groups[firsts]


@primitive()
def extremes_of_groups_(values: Any, groups: Any, count: int, largest: bool) -> Any:
    """Return the largest or the smallest element of each group, each of which has one."""
    if is_recorder(values):
        return recorded_whole(_extremes_of_parts, values, groups, count, largest)
    # Few devices have the extremes of parts.
    return as_like(_extremes_of_parts(on_host(values), on_host(groups), count, largest), values)


def _extremes_of_parts(values: Any, groups: Any, count: int, largest: bool) -> Any:
    order = np.argsort(groups, kind="stable")
    starts = np.searchsorted(groups[order], np.arange(count))
    return (np.maximum if largest else np.minimum).reduceat(values[order], starts)


@derivative(extremes_of_groups_, "values")
def _(g: Array, values: Any, groups: Any, count: int, out: Any) -> Any:
    # A NaN is the extreme of its group.
    is_extreme = (values == out[groups]) | (values != values)
    number = _sums(is_extreme.astype(g.dtype), groups, count)
    return np.where(is_extreme, (g / number)[groups], 0.0)


_extremes_of_groups: Callable[..., Any] = extremes_of_groups_.call
