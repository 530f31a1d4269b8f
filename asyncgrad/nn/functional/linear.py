"""Linear maps of feature vectors, and embeddings: rows picked from a table.

`linear`, `linear_input_grad` and `linear_weight_grad` are the three ways to contract two of the three arrays of one
trilinear form, so the derivatives of each are the other two. Arrays with more than two axes are reshaped to matrices,
since NumPy would multiply a stack of small matrices one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays.device_arrays import add_at
from ...core.arrays.device_functions import by_kernel, own_function
from ...core.arrays.interception import on_device_of_arguments
from ...core.arrays.one_device import check_operands_beside
from ...core.arrays.tensor_base import TensorBase
from ...core.arrays.values import add_into, as_like, is_device_array, zeros_like
from ...core.graph.saved_hooks import prepare_write
from ...core.recording.kernels import adds_by, device_variant
from ...core.recording.primitive import derivative, primitive
from ...core.settings.arguments import describe, number, truth
from ...errors import ArgumentError, ArgumentTypeError, IndexRangeError
from .arguments import array_of, is_outside
from .rows import add_leading_sum, leading_sum, leading_sum_on_device

__all__ = ["embedding", "linear"]


def _rows(x: Any) -> Any:
    """Return an array as a matrix of its rows."""
    shape = x.shape
    return x if len(shape) == 2 else x.reshape(math.prod(shape[:-1]), shape[-1])


def _linear_on_device(x: Any, weight: Any, bias: Any) -> Any:
    result = by_kernel("linear", x, weight)
    if result is None:
        shape = x.shape
        if weight.ndim != 2 or not shape or shape[-1] != weight.shape[1]:
            raise _shape_error(x, weight)
        result = own_function(np.matmul, x)(_rows(x), weight.T)
        result = result if len(shape) == 2 else result.reshape(*shape[:-1], weight.shape[0])
    if bias is None:
        return result
    if bias.shape != result.shape[-1:]:
        raise _bias_error(weight, bias)
    return add_into(result, bias) if result.dtype == bias.dtype else result + bias


@primitive(superlinear=True)
@device_variant(_linear_on_device)
def linear_(x: Any, weight: Any, bias: Any) -> Any:
    """Return `x @ weight.T + bias`."""
    shape = x.shape
    if weight.ndim != 2 or not shape or shape[-1] != weight.shape[1]:
        raise _shape_error(x, weight)
    if len(shape) == 2:
        product = x.dot(weight.T)
    else:
        rows = x.reshape(math.prod(shape[:-1]), shape[-1])
        product = rows.dot(weight.T).reshape(*shape[:-1], weight.shape[0])
    if bias is None:
        return product
    if bias.shape != weight.shape[:1]:
        raise _bias_error(weight, bias)
    if product.dtype != bias.dtype:
        return product + bias
    product += bias
    return product


def _bias_error(weight: Any, bias: Any) -> ArgumentError:
    return ArgumentError(
        f"linear with a weight of shape {weight.shape} needs a bias of shape {weight.shape[:1]}, not {bias.shape}"
    )


def _shape_error(x: Any, weight: Any) -> ArgumentError:
    if weight.ndim != 2:
        return ArgumentError(f"linear needs a weight of shape (out, in), not {weight.shape}")
    hint = ". Is the weight transposed? It is (out, in)" if x.shape[-1:] == weight.shape[:1] else ""
    return ArgumentError(
        f"linear with a weight of shape {weight.shape} takes x of shape (..., {weight.shape[1]}), not {x.shape}{hint}"
    )


def _input_grad_on_device(g: Any, weight: Any) -> Any:
    result = by_kernel("linear_input_grad", g, weight)
    if result is None:
        result = own_function(np.matmul, g)(_rows(g), weight)
        result = result if g.ndim == 2 else result.reshape(*g.shape[:-1], weight.shape[1])
    return result


# What a formula calls has the same variant, which the engine calls at once.
@derivative(linear_, "x")
@device_variant(_input_grad_on_device)
def _(g: Any, weight: Any) -> Any:
    return linear_input_grad(g, weight)


def _weight_grad_on_device(g: Any, x: Any) -> Any:
    result = by_kernel("linear_weight_grad", g, x)
    return own_function(np.matmul, g)(_rows(g).T, _rows(x)) if result is None else result


def _add_weight_grad(total: Any, g: Any, x: Any) -> Any:
    result = by_kernel("add_linear_weight_grad", total, g, x)
    return add_into(total, _weight_grad_on_device(g, x)) if result is None else result


@derivative(linear_, "weight")
@adds_by(_add_weight_grad)
@device_variant(_weight_grad_on_device)
def _(g: Any, x: Any) -> Any:
    return linear_weight_grad(g, x)


@derivative(linear_, "bias")
@adds_by(add_leading_sum)
@device_variant(leading_sum_on_device)
def _(g: Any, bias_shape: tuple[int, ...]) -> Any:
    return leading_sum(g, bias_shape)


@primitive(superlinear=True)
@device_variant(_input_grad_on_device)
def linear_input_grad_(g: Any, weight: Any) -> Any:
    """Return `g @ weight`, the gradient of `linear` for x."""
    if g.ndim == 2:
        return g.dot(weight)
    rows = g.reshape(math.prod(g.shape[:-1]), g.shape[-1])
    return rows.dot(weight).reshape(*g.shape[:-1], weight.shape[1])


@derivative(linear_input_grad_, "g")
def _(g: Any, weight: Any) -> Any:
    return _linear(g, weight, None)


# A derivative's first parameter is the incoming gradient. It is called h here, since g is an argument of the function.
@derivative(linear_input_grad_, "weight")
def _(h: Any, g: Any) -> Any:
    return linear_weight_grad(g, h)


@primitive(superlinear=True)
@device_variant(_weight_grad_on_device)
def linear_weight_grad_(g: Any, x: Any) -> Any:
    """Return `g.T @ x`, summed over all leading axes: the gradient of `linear` for its weight."""
    if g.ndim != 2:
        g = g.reshape(math.prod(g.shape[:-1]), g.shape[-1])
        x = x.reshape(len(g), x.shape[-1])
    return g.T.dot(x)


@derivative(linear_weight_grad_, "g")
def _(h: Any, x: Any) -> Any:
    return _linear(x, h, None)


@derivative(linear_weight_grad_, "x")
def _(h: Any, g: Any) -> Any:
    return linear_input_grad(g, h)


_linear = linear_.call
linear_input_grad: Callable[..., Any] = linear_input_grad_.call
linear_weight_grad: Callable[..., Any] = linear_weight_grad_.call


def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """Return `x @ weight.T + bias`, a linear map of the last axis.

    Args:
        x: shape `(..., in)`.
        weight: shape `(out, in)`.
        bias: shape `(out,)`, or None.

    Returns:
        A tensor of shape `(..., out)`.

    Raises:
        ArgumentError: the shapes do not fit; the message names them.

    Source: torch.nn.functional.linear.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> weight, bias = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.array([0.0, 0.0, 10.0])
        >>> nn.linear(np.array([[1.0, 2.0]]), weight, bias)
        array([[ 1.,  2., 13.]])
    """
    return _linear(x, weight, bias)


# Rows of a table.


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
@adds_by(_add_rows)
@device_variant(_rows_grad_on_device)
def _(g: Any, indices: Any, weight_shape: tuple[int, ...], padding_index: int | None, counts: Any) -> Any:
    return rows_added(_shared(g, counts), indices, weight_shape, padding_index)


@primitive()
def rows_added_(g: Any, indices: Any, shape: tuple[int, ...], padding_index: int | None) -> Any:
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


@derivative(rows_added_, "g")
def _(h: Any, indices: Any, padding_index: int | None) -> Any:
    rows = rows_at_(h, indices, padding_index, None, None)
    return rows if padding_index is None else rows * (indices != padding_index)[..., np.newaxis]


_rows_at = rows_at_.call
rows_added: Callable[..., Any] = rows_added_.call


def _rows_unwaited(table: Any, indices: Any) -> tuple[Any, Any]:
    """Return the rows of a table at indices that are in the memory of a device, without waiting for their values.

    Returns:
        The rows, of NaNs where there is no row; and the indices, 0 there.
    """
    found = by_kernel("rows_at", table, indices)
    if found is not None:
        return found  # type: ignore[no-any-return]
    missing = is_outside(indices, len(table))
    indices = np.where(missing, 0, indices)
    rows = table[indices]
    np.copyto(rows, np.nan, where=missing[..., np.newaxis])
    return rows, indices


def _shorten_rows(weight: Any, indices: Any, max_norm: float, norm_type: float) -> None:
    """Scale the rows at some indices whose norm is above `max_norm` down to it, in place."""
    if not isinstance(weight, (TensorBase, np.ndarray)):
        raise ArgumentTypeError(
            f"with max_norm, rows are changed in place: weight must be a tensor, not {describe(weight)}"
        )
    table = array_of(weight)
    numbers = np.unique(indices)
    numbers = numbers[~is_outside(numbers, len(table))]
    rows = table[numbers]
    norms = np.linalg.norm(rows, norm_type, axis=1)
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


def _frequencies(indices: Any, table: Any) -> Any:
    """Return for each index how often it is among the indices, shape (..., 1)."""
    counts = np.bincount(indices.reshape(-1), minlength=len(table))[indices]
    return as_like(counts[..., np.newaxis].astype(table.dtype), table)


@on_device_of_arguments
def embedding(
    indices: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
) -> Any:
    """Return the rows of `weight` at `indices`.

    Args:
        indices: integers from 0 to `rows - 1`, of any shape `(...)`.
        weight: a table, shape `(rows, features)`.
        padding_idx: the index of a row that gets no gradient, or None; a negative one counts from the end.
        max_norm: scale each row at an index whose norm is above this number down to it, in place, first.
        norm_type: the p of that p-norm.
        scale_grad_by_freq: divide the gradient of each row by how often its index is among the indices.

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
    check_operands_beside("embedding", weight, constants=indices)
    data = array_of(indices)
    table = array_of(weight)
    shape = table.shape
    if len(shape) != 2:
        raise ArgumentError(f"embedding needs a weight of shape (rows, features), not {shape}")
    if data.dtype.kind not in "iu":
        raise ArgumentError(f"embedding needs integer indices, not {data.dtype}: its arguments are (indices, weight)")
    rows, found = shape[0], None
    is_checked = data.__class__ is np.ndarray or not is_device_array(data) or table.dtype.kind not in "fc"
    if is_checked:
        lowest, highest = (data.min(), data.max()) if data.size else (0, -1)
        if lowest < 0 or highest >= rows:
            worst = lowest if lowest < 0 else highest
            raise IndexRangeError(f"embedding got index {worst}, but the weight has {rows} rows: 0 to {rows - 1}")
    if max_norm is not None and data.size:
        _shorten_rows(weight, data, number(max_norm, "max_norm", 0), number(norm_type, "norm_type"))
    if not is_checked:
        found, data = _rows_unwaited(array_of(weight), data)
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise IndexRangeError(f"padding_idx is {padding_idx}, but the weight has {rows} rows: 0 to {rows - 1}")
        padding_idx %= rows
    counts = _frequencies(data, table) if truth(scale_grad_by_freq, "scale_grad_by_freq") else None
    return _rows_at(weight, as_like(data, table), padding_idx, found, counts)
