"""Rows picked from a table by their numbers, and numbers as rows with a single one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.device_arrays import add_at
from ...core.arrays.device_functions import own_function
from ...core.arrays.interception import on_device_of_arguments
from ...core.arrays.one_device import check_operands_share_device
from ...core.arrays.tensor_base import TensorBase
from ...core.arrays.values import arange_like, as_like, is_device_array, on_host, zeros_like
from ...core.graph.saved_hooks import prepare_write
from ...core.recording.kernels import kernel
from ...core.recording.primitive import derivative, primitive
from ...core.settings.arguments import must_be, number, truth, whole_number
from ...errors import ArgumentError, ArgumentTypeError, IndexRangeError
from ..shared.arguments import (
    array_of,
    as_saved,
    check_arrays,
    constant,
    is_outside,
    operand,
    saved_constant,
    shapes_of,
)

if TYPE_CHECKING:
    from ...core.arrays.array import Array
    from ...core.tensor import Tensor


__all__ = ["embedding", "embedding_bag", "one_hot"]

_RIGHT_CALL = "write indices.astype(int); the arguments are (input, weight)"


@primitive()
def rows_at_(weight: Any, indices: Any, padding_index: int | None, rows: Any, counts: Any) -> Any:
    """Return the rows of a table at an array of indices; `rows`, which are those, where that is not None.

    The gradient of each row is divided by the row's entry in `counts`, where that is not None.
    """
    return weight[indices] if rows is None else rows


def _shared(g: Any, counts: Any) -> Any:
    """Return the gradients of rows, each divided by how often its row is there; as they are if `counts` is None."""
    return g if counts is None else g / counts


def _rows_grad_on_device(
    g: Any, indices: Any, weight_shape: tuple[int, ...], padding_index: int | None, counts: Any
) -> Any:
    return rows_added_.function(_shared(g, counts), indices, weight_shape, padding_index)


def _add_rows(
    total: Any, g: Any, indices: Any, weight_shape: tuple[int, ...], padding_index: int | None, counts: Any
) -> Any:
    """Add the gradient of a table to an array of a device that may be written into; return the new sum."""
    kept = None if padding_index is None else total[padding_index].copy()
    add_at(total, indices, _shared(g, counts))
    if kept is not None:
        total[padding_index] = kept
    return total


@derivative(rows_at_, "weight")
@kernel(variant=_rows_grad_on_device, adder=_add_rows)
def _(g: Array, indices: Any, weight_shape: tuple[int, ...], padding_index: int | None, counts: Any) -> Array:
    return rows_added(_shared(g, counts), indices, weight_shape, padding_index)


@primitive()
def rows_added_(g: Array, indices: Any, shape: tuple[int, ...], padding_index: int | None) -> Array:
    """Return a table of zeros with each row of `g` added to the row of its index, except the padding row."""
    table = zeros_like(g, shape)
    if indices.__class__ is np.ndarray:
        # np.add.at is fast only in one dimension.
        positions = indices.reshape(-1, 1) * shape[1] + np.arange(shape[1])
        np.add.at(table.reshape(-1), positions.reshape(-1), g.reshape(-1))
    else:
        add_at(table, indices, g, is_zero=True)
    if padding_index is not None:
        table[padding_index] = 0
    return table


@derivative(rows_at_, "indices")
@derivative(rows_added_, "indices")
def _(g: Array) -> None:
    """Give no gradient; the formula is there so that the indices may be a Tensor, whose version is checked."""


@derivative(rows_added_, "g")
def _(h: Array, indices: Any, padding_index: int | None) -> Array:
    rows = rows_at_(h, indices, padding_index, None, None)
    return rows if padding_index is None else rows * (indices != padding_index)[..., np.newaxis]


_rows_at = rows_at_.call
rows_added: Callable[..., Any] = rows_added_.call


def _rows_unwaited(table: Any, indices: Any) -> tuple[Any, Any]:
    """Return the rows of a table at indices that are in the memory of a device, without waiting for their values.

    Returns:
        The rows, of NaNs where there is no row; and the indices, 0 there.
    """
    found = own_function("rows_at", table)(table, indices)
    if found is not None:
        return found
    missing = is_outside(indices, len(table))
    indices = np.where(missing, 0, indices)
    rows = table[indices]
    np.copyto(rows, np.nan, where=missing[..., np.newaxis])
    return rows, indices


def _shorten_rows(weight: Any, indices: Any, max_norm: float, norm_type: float) -> None:
    """Scale the rows at some indices whose norm is above `max_norm` down to it, in place."""
    order = norm_type if norm_type in (math.inf, -math.inf) else number(norm_type, "norm_type")
    if not isinstance(weight, (TensorBase, np.ndarray)):
        raise ArgumentTypeError(must_be("with max_norm, rows are changed in place: weight", "a tensor", weight))
    table = array_of(weight)
    numbers = np.unique(as_like(indices, table))
    numbers = numbers[~is_outside(numbers, len(table))]
    rows = table[numbers]
    norms = np.linalg.norm(rows, order, axis=1)
    is_long = norms > max_norm
    if not is_long.any():
        return
    if isinstance(weight, TensorBase):
        prepare_write(weight)
        table = array_of(weight)
    # The summand is PyTorch's.
    scales = max_norm / (norms[is_long] + 1e-7)
    table[numbers[is_long]] = rows[is_long] * scales[:, np.newaxis].astype(table.dtype)
    if isinstance(weight, TensorBase):
        weight._bump_version()


def _frequencies(indices: Array, table: Array, kept: Any = ...) -> Any:
    """Return for each index, or those at the places `kept`, how often it is among all indices, shape (..., 1)."""
    counts = np.bincount(indices.reshape(-1), minlength=len(table))[indices[kept]]
    return as_like(counts[..., np.newaxis].astype(table.dtype), table)


def _check_indices(indices: Any, rows: int) -> None:
    lowest, highest = (indices.min(), indices.max()) if indices.size else (0, -1)
    if lowest < 0 or highest >= rows:
        worst = lowest if lowest < 0 else highest
        raise IndexRangeError(f"embedding got index {worst}, but the weight has {rows} rows: 0 to {rows - 1}")


@on_device_of_arguments
def embedding(
    input: Tensor | np.ndarray,
    weight: Tensor | np.ndarray,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor | np.ndarray:
    """Return the rows of `weight` at the indices `input`.

    Args:
        input: integers from 0 to `rows - 1`, of any shape `(...)`.
        weight: a table, shape `(rows, features)`.
        padding_idx: the index of a row that gets no gradient, or None; a negative one counts from the end.
        max_norm: scale each row at an index whose norm is above this number down to it, in place, first.
        norm_type: the p of that p-norm; `math.inf` for the largest absolute value.
        scale_grad_by_freq: divide the gradient of each row by how often its index is among the indices.
        sparse: not used: gradients are dense.

    Returns:
        A tensor of shape `(..., features)`.

    Raises:
        IndexRangeError: there is no row at an index. (Indices on a device with arrays of its own are not waited for:
            where there is no row, the result is NaN.)
        ArgumentError: the indices are not integers, or the weight is not a matrix.

    Source: torch.nn.functional.embedding.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.embedding(np.array([2, 0]), np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
        array([[5., 6.],
               [1., 2.]])
    """
    check_operands_share_device("embedding", weight, constants=input)
    truth(sparse, "sparse")
    weight = operand(weight)
    data = array_of(input)
    table = array_of(weight)
    shape = table.shape
    if len(shape) != 2 or table.dtype.kind not in "fciub":
        check_arrays("embedding", weight=weight)
        raise ArgumentError(f"embedding needs a weight of shape (rows, features), not {shape}")
    if data.dtype.kind not in "iu":
        raise ArgumentError(f"embedding needs integer indices, not {data.dtype}: {_RIGHT_CALL}")
    rows, found = shape[0], None
    padding_idx = None if padding_idx is None else _padding_row(padding_idx, rows)
    is_checked = data.__class__ is np.ndarray or not is_device_array(data) or table.dtype.kind not in "fc"
    if is_checked:
        _check_indices(data, rows)
    if max_norm is not None and data.size:
        _shorten_rows(weight, data, number(max_norm, "max_norm", 0), norm_type)
    if not is_checked:
        found, data = _rows_unwaited(array_of(weight), data)
    counts = _frequencies(data, table) if truth(scale_grad_by_freq, "scale_grad_by_freq") else None
    kept = as_like(data, table)
    return _rows_at(weight, kept if data is input else saved_constant(kept, input, weight), padding_idx, found, counts)


@on_device_of_arguments
def embedding_bag(
    input: Tensor | np.ndarray,
    weight: Tensor | np.ndarray,
    offsets: Tensor | np.ndarray | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | np.ndarray | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor | np.ndarray:
    """Return the sum, the mean or the maximum of the rows of `weight` at the indices of each bag.

    Args:
        input: integers from 0 to `rows - 1`, shape `(bags, n)`; or those of all bags in one axis.
        weight: a table, shape `(rows, features)`.
        offsets: where each bag begins, from 0 on, if `input` has one axis.
        max_norm: scale each row at an index whose norm is above this number down to it, in place, first.
        norm_type: the p of that p-norm.
        scale_grad_by_freq: divide the gradient of each row by how often its index is in `input`; not for "max".
        mode: "sum", "mean" or "max"; of a bag without indices each is 0.
        sparse: not used: gradients are dense.
        per_sample_weights: factors of the rows, in the shape of `input`, for "sum".
        include_last_offset: the last one of the offsets is where the last bag ends.
        padding_idx: an index that is left out of its bag, or None; a negative one counts from the end.

    Returns:
        A tensor of shape `(bags, features)`.

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.
        IndexRangeError: there is no row at an index.

    Source: torch.nn.functional.embedding_bag.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> table = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        >>> nn.embedding_bag(np.array([2, 0, 1]), table, np.array([0, 2]))
        array([[3., 4.],
               [3., 4.]])
    """
    frequencies, weight = truth(scale_grad_by_freq, "scale_grad_by_freq"), operand(weight)
    _check_bags(mode, truth(sparse, "sparse") or frequencies, input, weight, per_sample_weights)
    indices, rows = on_host(constant("embedding_bag", "input", input)), array_of(weight).shape[0]
    starts, end = _bags(indices, offsets, truth(include_last_offset, "include_last_offset"))
    padding_row = _check_rows(indices, padding_idx, rows)
    flat = indices.reshape(-1).astype(np.int64)
    if max_norm is not None and flat.size:
        _shorten_rows(weight, flat, number(max_norm, "max_norm", 0), norm_type)
    table = array_of(weight)
    kept, bags = _members(flat, starts, end, padding_row)
    counts = _frequencies(flat, table, kept) if frequencies else None
    found = _rows_at(weight, as_like(flat[kept], table), None, None, counts)
    if per_sample_weights is not None:
        found = found * np.reshape(per_sample_weights, (-1, 1))[as_like(kept, table)]
    return _bagged(found, bags[kept], len(starts), mode)


def _check_bags(mode: str, is_scaled: bool, input: Any, weight: Any, per_sample_weights: Any) -> None:
    check_operands_share_device("embedding_bag", weight, per_sample_weights, constants=input)
    indices, table = array_of(input), array_of(weight)
    check_arrays("embedding_bag", weight=weight)
    if mode not in ("sum", "mean", "max"):
        raise ArgumentError(f"embedding_bag: mode must be 'sum', 'mean' or 'max', not {mode!r}")
    if mode == "max" and is_scaled:
        raise ArgumentError("embedding_bag with mode='max' takes neither scale_grad_by_freq nor sparse")
    if len(table.shape) != 2:
        raise ArgumentError(f"embedding_bag needs a weight of shape (rows, features), not {table.shape}")
    if indices.dtype.kind not in "iu" or indices.ndim not in (1, 2):
        raise ArgumentError(
            f"embedding_bag takes whole numbers of one or two axes as input, not {indices.dtype} of shape "
            f"{indices.shape}"
        )
    if per_sample_weights is not None and mode != "sum":
        raise ArgumentError(f"embedding_bag takes per_sample_weights with mode='sum', not with {mode!r}")
    if per_sample_weights is not None and shapes_of("embedding_bag", per_sample_weights=per_sample_weights) != [
        indices.shape
    ]:
        raise ArgumentError(
            f"embedding_bag takes per_sample_weights of the shape of input, {indices.shape}, not "
            f"{array_of(per_sample_weights).shape}"
        )


def _check_rows(indices: Any, padding_idx: int | None, rows: int) -> int | None:
    """Return the row that is left out, from 0 on, where all indices are those of rows."""
    if indices.size and (indices.min() < 0 or indices.max() >= rows):
        worst = indices.min() if indices.min() < 0 else indices.max()
        raise IndexRangeError(f"embedding_bag got index {worst}, but the weight has {rows} rows: 0 to {rows - 1}")
    return None if padding_idx is None else _padding_row(padding_idx, rows)


def _padding_row(padding_idx: int, rows: int) -> int:
    """Return the number of a row, from 0 on."""
    padding_idx = whole_number(padding_idx, "padding_idx")
    if not -rows <= padding_idx < rows:
        raise IndexRangeError(f"padding_idx is {padding_idx}, but the weight has {rows} rows: 0 to {rows - 1}")
    return padding_idx % rows


def _bags(indices: Any, offsets: Any, has_end: bool) -> tuple[Any, int]:
    """Return where bags begin, and where the last one ends."""
    total = int(indices.size)
    if indices.ndim == 2:
        if offsets is not None:
            raise ArgumentError("embedding_bag takes offsets with an input of one axis: each row of two is a bag")
        if not indices.shape[1]:
            raise ArgumentError(f"embedding_bag takes an input whose rows have elements, not of shape {indices.shape}")
        return np.arange(0, total, indices.shape[1]), total
    if offsets is None:
        raise ArgumentError("embedding_bag of an input of one axis needs offsets: where each bag begins")
    starts = on_host(constant("embedding_bag", "offsets", offsets))
    if starts.ndim != 1 or starts.dtype.kind not in "iu" or (has_end and not len(starts)):
        raise ArgumentError(f"embedding_bag takes offsets of one axis of ints, not {starts.dtype} of {starts.shape}")
    starts = starts.astype(np.int64)
    has_places = len(starts) and not starts[0] and (np.diff(starts) >= 0).all() and starts[-1] <= total
    if not has_places and (total or len(starts)):
        raise ArgumentError(f"embedding_bag takes offsets that rise from 0 to {total} at most, not {starts.tolist()}")
    return (starts[:-1], int(starts[-1])) if has_end else (starts, total)


def _members(flat: Any, starts: Any, end: int, padding_row: int | None) -> tuple[Any, Any]:
    """Return the places of the indices that count, and for all places the number of the bag."""
    places = np.arange(len(flat))
    kept = places < end
    if padding_row is not None:
        kept &= flat != padding_row
    return np.flatnonzero(kept), np.searchsorted(starts, places, side="right") - 1


def _bagged(rows: Any, bags: Any, count: int, mode: str) -> Any:
    """Return the sum, mean or maximum of the rows of each bag; `bags` are their numbers, in order."""
    data = array_of(rows)
    if mode == "max":
        return _largest(rows, bags, count)
    found = rows_added(rows, as_like(bags, data), (count, data.shape[1]), None)
    if mode == "sum":
        return found
    sizes = np.maximum(np.bincount(bags, minlength=count), 1)[:, np.newaxis]
    return found / as_like(sizes.astype(data.dtype), data)


def _largest(rows: Any, bags: Any, count: int) -> Any:
    data = array_of(rows)
    if not len(data):
        return zeros_like(data, (count, data.shape[1]))
    present, starts, sizes = np.unique(bags, return_index=True, return_counts=True)
    if is_device_array(data):
        # The last row of a short bag stands in it again, behind the first one of equal ones.
        steps = np.minimum(np.arange(sizes.max()), sizes[:, np.newaxis] - 1)
        members = as_like(starts[:, np.newaxis] + steps, data)
        places = as_like(starts[:, np.newaxis], data) + np.argmax(data[members], axis=1)
    else:
        maxima = np.maximum.reduceat(data, starts, axis=0)
        is_largest = (data == maxima[np.searchsorted(present, bags)]) | (data != data)
        numbers = np.where(is_largest, np.arange(len(data))[:, np.newaxis], len(data))
        # The first one of equal ones.
        places = np.minimum.reduceat(numbers, starts, axis=0)
    found = np.take_along_axis(rows, places, 0)
    return rows_added(found, as_like(present, data), (count, data.shape[1]), None)


@on_device_of_arguments
def one_hot(labels: Tensor | np.ndarray, num_classes: int = -1) -> Tensor | np.ndarray:
    """Return an array with an axis more, of zeros with a one at each label.

    Args:
        labels: integers from 0 to `num_classes - 1`, shape `(...)`.
        num_classes: the length of the new axis; -1 for one more than the largest label.

    Returns:
        Integers, shape `(..., num_classes)`.

    Raises:
        ArgumentError: the labels are not integers, or there are none to count the classes of.
        IndexRangeError: a label is not a class.

    Source: torch.nn.functional.one_hot.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.one_hot(np.array([2, 0]))
        array([[0, 0, 1],
               [1, 0, 0]])
    """
    data = array_of(labels)
    if data.dtype.kind not in "iu":
        raise ArgumentError(f"one_hot takes integer labels, not {data.dtype}")
    num_classes = whole_number(num_classes, "num_classes")
    if num_classes == -1:
        if not data.size:
            raise ArgumentError(f"one_hot of labels of shape {data.shape} needs num_classes: there are none to count")
        num_classes = int(data.max()) + 1
    if num_classes < 1:
        raise ArgumentError(f"one_hot takes num_classes of at least 1, or -1 to count them, not {num_classes}")
    if data.size and (data.min() < 0 or data.max() >= num_classes):
        worst = data.min() if data.min() < 0 else data.max()
        raise IndexRangeError(f"one_hot got label {worst}, but there are {num_classes} classes: 0 to {num_classes - 1}")
    result = (data[..., np.newaxis] == arange_like(data, num_classes)).astype(np.int64)
    return as_saved(result, labels) if isinstance(labels, TensorBase) else result
