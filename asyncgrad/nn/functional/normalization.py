"""Layer, batch, group, instance and root mean square normalization.

Each standardizes rows of its input. A row x of n numbers with the mean m and the inverse deviation
s = (variance + eps) ** -0.5 becomes y = (x - m) s. Where rows are not centered, m is 0, and s is taken from the mean of
the squares. As dm/dx = 1 / n and ds/dx = -s**2 y / n, the Jacobian of y is symmetric:

    J(x) g = s (g - mean(g) - y mean(g y)),    without mean(g) where rows are not centered.

The gradient of J(x) g for x, with the incoming gradient h, follows from ds/dx and dy/dx = J(x):

    -s**2 y (mean(g h) - mean(g) mean(h) - b c) - s (c J(x) h + b J(x) g),   b = mean(h y), c = mean(g y).

`_inverse_slope` is ds/dx, and `_jacobian_slope` this gradient, for all norms. J(x) g itself is computed in three ways,
which round differently:

- `standardize_grad`: the rows are those of a matrix, for layer norm. Its last axes are rows that lie together, and its
  weight is one number for each element of a row.
- `standardized_grad`: a row has the elements of the outer and the inner axis of an array of shape (outer, rows, inner),
  for the other norms. Their scale is one number for each row, and a factor of the Jacobian.
- Large arrays of NumPy, of both, block by block (`shared/standardized_blocks.py`), without y. With f = s scale, and
  y mean(g y) = (x - m) s**2 (sum(g x) - m sum(g)) / n, it is

      f g - a x - (f mean(g) - a m),   a = f s**2 (sum(g x) - m sum(g)) / n.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.device_functions import COMPILED_TYPES, TableUpdate, compiler_of, own_function
from ...core.arrays.interception import on_device_of_arguments
from ...core.arrays.one_device import check_operands_share_device
from ...core.arrays.tensor_base import TensorBase
from ...core.arrays.values import as_like, contiguous, is_device_array, ones_like
from ...core.graph.saved_hooks import prepare_write
from ...core.ops.composites import composite
from ...core.ops.single_precision import by_single, holds_half_array
from ...core.recording.kernels import FusedFormula, kernel
from ...core.recording.primitive import derivative, primitive
from ...core.settings.arguments import truth, whole_number
from ...core.settings.context import RECOMPUTING
from ...errors import ArgumentError
from ..shared import standardized_blocks
from ..shared.arguments import array_of, check_real, constant, lengths, option, real_floating, records, wrong_dtype
from ..shared.axis_windows import windows_along
from ..shared.row_blocks import are_in_blocks, blocks, by_rows, in_memory, scratch, tiled, unbuffered_rows
from ..shared.rows import leading_sum, leading_sum_on_device, sum_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.arrays.array import Array
    from ...core.tensor import Tensor


__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm"]

_IN_EVAL = "give more examples at a time, or write model.eval() to compute with the running statistics"


def _standardize(x: Any, mean: Any, inverse: Any) -> Any:
    """Return (x - mean) * inverse, in a new array; None is for the mean of rows that are not centered."""
    if mean is None:
        return x * inverse
    value = x - mean
    value *= inverse
    return value


def _inverse_slope(g: Any, y: Any, inverse: Any, count: int) -> Any:
    """Return the gradient of the inverse deviations for x, g ds/dx."""
    return -g * inverse * inverse * y / count


def _jacobian_slope(covariance: Any, y: Any, inverse: Any, b: Any, c: Any, to_h: Any, to_g: Any) -> Any:
    """Return the gradient of J(x) g for x.

    Args:
        covariance: mean(g h) - mean(g) mean(h) - b c.
        y: the standardized x.
        inverse: the inverse deviations.
        b: mean(h y).
        c: mean(g y).
        to_h: J(x) h.
        to_g: J(x) g.
    """
    return -inverse * (inverse * covariance * y + c * to_h + b * to_g)


# Layer norm: the rows of a matrix


def _compute_blocks(x: Array, weight: Any, bias: Any, eps: float) -> tuple[Any, Any, Any]:
    """Return what `_compute` does, for NumPy arrays of one dtype."""
    count, length = x.shape
    value, mean, inverse = np.empty(x.shape, x.dtype), np.empty((count, 1), x.dtype), np.empty((count, 1), x.dtype)
    weight, bias = tiled(weight, count), tiled(bias, count)
    with unbuffered_rows(length):
        for at in blocks(count, length * x.itemsize):
            rows, out, center, factor = x[at], value[at], mean[at], inverse[at]
            np.divide(sum_rows(rows).reshape(-1, 1), length, out=center)
            np.subtract(rows, center, out=out)
            np.divide(np.vecdot(out, out).reshape(-1, 1), length, out=factor)
            factor += eps
            np.sqrt(factor, out=factor)
            np.reciprocal(factor, out=factor)
            out *= factor
            if weight is not None:
                by_rows(np.multiply, out, weight, out)
            if bias is not None:
                by_rows(np.add, out, bias, out)
    return value, mean, inverse


def _grad_of_blocks(g: Any, x: Any, weight: Any, mean: Any, inverse: Any) -> Any:
    """Return what `standardize_grad` does of g times the weight, for NumPy arrays of one dtype."""
    count, length = len(mean), x.size // len(mean)
    centers, factors = mean.reshape(-1), inverse.reshape(-1)
    result = np.empty(x.shape, x.dtype)
    source, grads, results = (one.reshape(count, length) for one in (x, g, result))
    weight = None if weight is None else tiled(weight.reshape(-1), count)
    with unbuffered_rows(length):
        for at in blocks(count, length * x.itemsize):
            out = results[at]
            grad = in_memory(grads[at], out)
            if weight is not None:
                by_rows(np.multiply, grad, weight, out)
                grad = out
            standardized_blocks.grad_of_block(out, source[at], grad, centers[at], factors[at], factors[at])
    return result


def _weight_grad_of_blocks(g: Array, x: Array, mean: Any, inverse: Array) -> Any:
    """Return the sum over rows of g times the standardized x, for NumPy arrays of one dtype."""
    count = len(mean)
    source, grads, factors = x.reshape(count, -1), g.reshape(count, -1), inverse.reshape(-1)
    centers, total = factors * mean.reshape(-1), np.zeros(source.shape[1], x.dtype)
    for at in blocks(count, source.shape[1] * x.itemsize):
        rows = source[at]
        memory = scratch(rows.shape, rows.dtype)
        grad = in_memory(grads[at], memory)
        total -= centers[at].dot(grad)
        total += factors[at].dot(np.multiply(rows, grad, out=memory))
    return total


def _compute(x: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, Any, Any]:
    """Return the layer norm of the rows of a matrix, and their means and inverse deviations as columns."""
    if x.__class__ is not np.ndarray and (found := own_function("layer_norm", x)(x, weight, bias, eps)) is not None:
        return found
    if are_in_blocks(x, weight, bias):
        return _compute_blocks(x, weight, bias, eps)
    length = x.shape[1]
    mean = sum_rows(x).reshape(-1, 1)
    mean /= length
    value = x - mean
    inverse = sum_rows(value * value).reshape(-1, 1)
    inverse /= length
    inverse += eps
    np.sqrt(inverse, out=inverse)
    np.reciprocal(inverse, out=inverse)
    value *= inverse
    if weight is not None:
        value = value * weight if weight.dtype != value.dtype else np.multiply(value, weight, out=value)
    if bias is not None:
        value = value + bias if bias.dtype != value.dtype else np.add(value, bias, out=value)
    return value, mean, inverse


@primitive()
def layer_norm_(x: Any, weight: Any, bias: Any, value: Any, mean: Any, inverse: Any) -> Any:
    """Return `value`, the layer norm, which was computed together with the means and inverse deviations of the rows."""
    return value


@derivative(layer_norm_, "x")
@kernel(name="standardize_grad")
def _(g: Any, x: Array, weight: Any, mean: Any, inverse: Any) -> Array:
    if weight is not None and are_in_blocks(x, g, weight, mean, inverse):
        return _grad_of_blocks(g, x, weight, mean, inverse)
    return standardize_grad(g if weight is None else g * weight, x, mean, inverse)


@derivative(layer_norm_, "weight")
@kernel(name="layer_norm_weight_grad")
def _(g: Array, x: Any, weight_shape: tuple[int, ...], mean: Any, inverse: Any) -> Array:
    return layer_norm_weight_grad(g, x, weight_shape, mean, inverse)


@derivative(layer_norm_, "bias")
@kernel(variant=leading_sum_on_device)
def _(g: Array, bias_shape: tuple[int, ...]) -> Array:
    return leading_sum(g, bias_shape)


@primitive()
@kernel(name="layer_norm_weight_grad")
def layer_norm_weight_grad_(g: Any, x: Array, shape: tuple[int, ...], mean: Array, inverse: Any) -> Any:
    """Return the sum over rows of g times the standardized x."""
    if are_in_blocks(x, g, mean, inverse):
        return _weight_grad_of_blocks(g, x, mean, inverse).reshape(shape)
    matrix = (mean.shape[0], math.prod(shape))
    value = _standardize(x.reshape(matrix), mean, inverse)
    value *= g.reshape(matrix)
    total = ones_like(value, matrix[0]) @ value
    return total if len(shape) == 1 else total.reshape(shape)


@derivative(layer_norm_weight_grad_, "g")
def _(h: Any, x: Any, mean: Any, inverse: Any) -> Array:
    return h * standardize(x, mean, inverse)


@derivative(layer_norm_weight_grad_, "x")
def _(h: Any, g: Any, x: Array, mean: Any, inverse: Any) -> Array:
    return standardize_grad(h * g, x, mean, inverse)


def _matrix_of(shape: tuple[int, ...], mean: Any) -> tuple[int, int]:
    """Return the shape of a matrix with a row for each mean, which has no elements where there are no rows."""
    rows = mean.shape[0]
    return rows, math.prod(shape) // rows if rows else 0


@primitive()
def standardize_(x: Array, mean: Array, inverse: Any) -> Any:
    """Return (x - mean) * inverse for the means and inverse deviations of the rows of x."""
    return _standardize(x.reshape(_matrix_of(x.shape, mean)), mean, inverse).reshape(x.shape)


@derivative(standardize_, "x")
def _(g: Array, x: Array, mean: Any, inverse: Any) -> Array:
    return standardize_grad(g, x, mean, inverse)


@primitive()
def inverse_deviation_(x: Any, mean: Any, inverse: Any) -> Any:
    """Return `inverse`, the inverse deviations of the rows of x, as a column."""
    return inverse


@derivative(inverse_deviation_, "x")
def _(g: Array, x: Array, x_shape: tuple[int, ...], mean: Array, inverse: Any) -> Array:
    rows = np.reshape(standardize(x, mean, inverse), _matrix_of(x_shape, mean))
    scale = inverse_deviation(x, mean, inverse)
    return np.reshape(_inverse_slope(g, rows, scale, rows.shape[1]), x_shape)


@primitive()
@kernel(name="standardize_grad", arguments=("g", "x", None, "mean", "inverse"))
def standardize_grad_(g: Any, x: Array, mean: Array, inverse: Any) -> Any:
    """Return inverse * (g - mean(g) - y mean(g y)) for each row, where y is the standardized x."""
    if are_in_blocks(x, g, mean, inverse):
        return _grad_of_blocks(g, x, None, mean, inverse)
    shape = x.shape
    rows, length = _matrix_of(shape, mean)
    g = g.reshape(rows, length)
    y = _standardize(x.reshape(g.shape), mean, inverse)
    value = g * y
    shared = sum_rows(value).reshape(-1, 1)
    shared /= length
    y *= shared
    np.subtract(g, y, out=value)
    shared = sum_rows(g).reshape(-1, 1)
    shared /= length
    value -= shared
    value *= inverse
    return value.reshape(shape)


@derivative(standardize_grad_, "g")
def _(h: Array, x: Any, mean: Any, inverse: Any) -> Array:
    return standardize_grad(h, x, mean, inverse)


@derivative(standardize_grad_, "x")
def _(h: Any, g: Any, x: Array, x_shape: tuple[int, ...], mean: Array, inverse: Any) -> Array:
    matrix = _matrix_of(x_shape, mean)
    if not math.prod(matrix):
        # There are no means of nothing.
        return h
    to_h = np.reshape(standardize_grad(h, x, mean, inverse), matrix)
    to_g = np.reshape(standardize_grad(g, x, mean, inverse), matrix)
    y = np.reshape(standardize(x, mean, inverse), matrix)
    scale = inverse_deviation(x, mean, inverse)
    h, g = np.reshape(h, matrix), np.reshape(g, matrix)
    b, c = _row_means(h * y), _row_means(g * y)
    covariance = _row_means(g * h) - _row_means(g) * _row_means(h) - b * c
    return np.reshape(_jacobian_slope(covariance, y, scale, b, c, to_h, to_g), x_shape)


def _row_means(rows: Any) -> Any:
    return np.mean(rows, axis=1, keepdims=True)


_layer_norm = layer_norm_.call
layer_norm_weight_grad: Callable[..., Any] = layer_norm_weight_grad_.call
standardize: Callable[..., Any] = standardize_.call
inverse_deviation: Callable[..., Any] = inverse_deviation_.call
standardize_grad: Callable[..., Any] = standardize_grad_.call


@on_device_of_arguments
def layer_norm(
    x: Tensor | np.ndarray,
    normalized_shape: int | Sequence[int],
    weight: Tensor | np.ndarray | None = None,
    bias: Tensor | np.ndarray | None = None,
    eps: float = 1e-5,
) -> Tensor | np.ndarray:
    """Return x normalized to mean 0 and variance 1 over its last axes, times a weight and plus a bias.

    Args:
        x: shape `(..., *normalized_shape)`.
        normalized_shape: the shape of the last axes, an int or a sequence of ints.
        weight: shape `normalized_shape`, or None.
        bias: shape `normalized_shape`, or None.
        eps: added to the variance.

    Raises:
        ArgumentError: the shapes do not fit; the message names them.
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.layer_norm; J. L. Ba, J. R. Kiros and G. E. Hinton, "Layer normalization" (2016).

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.layer_norm(np.array([[1.0, 3.0], [5.0, 5.0]]), 2, eps=0.0001)
        array([[-0.99995,  0.99995],
               [ 0.     ,  0.     ]])
    """
    shape = lengths("normalized_shape", normalized_shape)
    eps = option("layer_norm", "eps", eps)
    check_operands_share_device("layer_norm", x, weight, bias)
    data = real_floating("layer_norm", "x", array_of(x))
    if data.itemsize == 2 and holds_half_array(x):
        return by_single(layer_norm, None, x, normalized_shape, weight, bias, eps)
    if not shape or data.shape[data.ndim - len(shape) :] != shape or data.ndim < len(shape):
        expected = ", ".join(map(str, ("...", *shape)))
        raise ArgumentError(f"layer_norm with normalized_shape {shape} takes x of shape ({expected}), not {data.shape}")
    affine: list[Any] = []
    for name, value in (("weight", weight), ("bias", bias)):
        array = None if value is None else array_of(value)
        if array is not None and array.dtype.kind not in "fiub":
            raise wrong_dtype("layer_norm", name, array)
        if array is not None and array.shape != shape:
            raise ArgumentError(
                f"layer_norm with normalized_shape {shape} needs a {name} of that shape, not {array.shape}"
            )
        affine.append(array if array is None or len(shape) == 1 else array.reshape(-1))
    length = math.prod(shape)
    rows = data.reshape(data.size // length if length else 0, length)
    value, mean, inverse = _compute(rows, affine[0], affine[1], eps)
    return _layer_norm(x, weight, bias, value.reshape(data.shape), mean, inverse)


# The other norms: rows of arrays of shape (outer, rows, inner)

#: The axes of the elements of a row.
_ELEMENTS = (0, 2)


def _is_outer_last(x: Array) -> bool:
    """Tell whether the outer axis of a NumPy array is its last in memory, as in images that a convolution returns."""
    return x.shape[0] > 1 and not x.flags.c_contiguous and bool(x.transpose(1, 2, 0).flags.c_contiguous)


def _rows_together(x: Array) -> Any:
    """Return an array with all elements of a row in its last axis, shape (1, rows, outer * inner)."""
    outer, rows, inner = x.shape
    return x.transpose(1, 2, 0).reshape(1, rows, inner * outer)


def _for_blocks(x: Array, *others: Any) -> tuple[Any, ...]:
    """Return a new array of the shape of x; and contiguous ones, which are it, x and the others, or copies of these.

    Where the outer axis of x is the last in memory, all elements of a row are in the last axis of the contiguous ones.
    """
    if _is_outer_last(x):
        outer, rows, inner = x.shape
        memory = np.empty_like(x, order="C", shape=(rows, inner, outer))
        arrays = [contiguous(_rows_together(one)) for one in (x, *others)]
        return memory.transpose(2, 0, 1), memory.reshape(1, rows, inner * outer), *arrays
    new = np.empty_like(x, order="C")
    return new, new, *(contiguous(one) for one in (x, *others))


def _sums(x: Any) -> Any:
    """Return the sum of each row, shape (1, rows, 1)."""
    if x.__class__ is np.ndarray and _is_outer_last(x):
        x = _rows_together(x)
    outer, rows, inner = x.shape
    if inner == 1 and outer > 1:
        return (ones_like(x, outer) @ x.reshape(outer, rows)).reshape(1, rows, 1)
    return _added_up(sum_rows(x.reshape(outer * rows, inner)), outer, rows)


def _dots(x: Any, y: Any) -> Any:
    """Return the sum of each row of `x * y`, shape (1, rows, 1)."""
    outer, rows, inner = x.shape
    if (inner == 1 and outer > 1) or x.__class__ is not np.ndarray or x.dtype != y.dtype:
        return _sums(x * y)
    if _is_outer_last(x):
        x, y, outer = _rows_together(x), _rows_together(y), 1
    return _added_up(np.vecdot(x, y), outer, rows)


def _added_up(totals: Any, outer: int, rows: int) -> Any:
    if outer != 1:
        totals = np.add.reduce(totals.reshape(outer, rows), axis=0)
    return totals.reshape(1, rows, 1)


def _count(x: Array) -> int:
    return max(1, int(x.shape[0] * x.shape[2]))


def _of_rows(values: Any) -> Any:
    """Return one number for each row beside arrays of shape (outer, rows, inner)."""
    return np.reshape(values, (1, -1, 1))


def _statistics(x: Any, eps: float, centered: bool, scale: Any, shift: Any) -> tuple[Any, Any, Any, Any]:
    """Return the standardized x times the scale and plus the shift of each row; the means, variances and inverses.

    The means are None if the rows are not centered.
    """
    if are_in_blocks(x, scale, shift):
        value, result, source = _for_blocks(x)
        return value, *standardized_blocks.standardize(result, source, eps, centered, scale, shift)
    mean: Any = None
    if centered:
        mean = _sums(x)
        mean /= _count(x)
    value = x.copy() if mean is None else x - mean
    variance = _dots(value, value)
    variance /= _count(x)
    inverse = np.reciprocal(np.sqrt(variance + eps))
    value *= inverse if scale is None else inverse * _of_rows(scale)
    if shift is not None:
        value += _of_rows(shift)
    return value, mean, variance, inverse


@primitive()
def standardized_(x: Any, scale: Any, shift: Any, value: Any, mean: Any, inverse: Any) -> Any:
    """Return `value`, the standardized rows times their scale plus their shift, which was computed before."""
    return value


@derivative(standardized_, "x")
def _(g: Array, x: Array, scale: Any, mean: Any, inverse: Any) -> Array:
    return standardized_grad(g, x, scale, mean, inverse)


@derivative(standardized_, "scale")
def _(g: Array, x: Any, mean: Any, inverse: Any, scale_shape: tuple[int, ...]) -> Array:
    return standardized_scale_grad(g, x, mean, inverse, scale_shape)


@derivative(standardized_, "shift")
def _(g: Array, shift_shape: tuple[int, ...]) -> Array:
    return row_sums(g, shift_shape)


@primitive()
@kernel(name="row_dots", arguments=("g", None, None, None, "shape"))
def row_sums_(g: Any, shape: tuple[int, ...]) -> Any:
    """Return the sum of each row, in a shape."""
    return _sums(g).reshape(shape)


@derivative(row_sums_, "g")
def _(h: Array, g_shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(_of_rows(h), g_shape)


@primitive()
@kernel(name="row_dots")
def standardized_scale_grad_(g: Any, x: Any, mean: Any, inverse: Any, shape: tuple[int, ...]) -> Any:
    """Return the sum of each row of g times the standardized x, in a shape."""
    if mean is not None and are_in_blocks(x, g, mean, inverse):
        _, _, source, grads = _for_blocks(x, g)
        return standardized_blocks.centered_dots(source, grads, mean, inverse).reshape(shape)
    return _dots(_standardize(x, mean, inverse), g).reshape(shape)


@derivative(standardized_scale_grad_, "g")
def _(h: Array, x: Any, mean: Any, inverse: Any) -> Array:
    return _of_rows(h) * _recomputed(x, mean, inverse)[0]


@derivative(standardized_scale_grad_, "x")
def _(h: Array, g: Any, x: Array, mean: Any, inverse: Any) -> Array:
    return standardized_grad(_of_rows(h) * g, x, None, mean, inverse)


@primitive()
@kernel(name="normalize_grad")
def standardized_grad_(g: Any, x: Any, scale: Any, mean: Any, inverse: Any) -> Any:
    """Return scale * inverse * (g - mean(g) - y mean(g y)) for each row, where y is the standardized x."""
    if are_in_blocks(x, g, scale, mean, inverse):
        value, result, source, grads = _for_blocks(x, g)
        standardized_blocks.input_grad(result, source, grads, scale, mean, inverse)
        return value
    count = _count(x)
    value = x.copy() if mean is None else x - mean
    shared = _dots(g, value)
    shared *= inverse * inverse
    shared /= count
    value *= shared
    value = np.subtract(g, value, out=value if g.dtype == value.dtype else None)
    if mean is not None:
        shared = _sums(g)
        shared /= count
        value -= shared
    value *= inverse if scale is None else inverse * _of_rows(scale)
    return value


@derivative(standardized_grad_, "g")
def _(h: Array, x: Any, scale: Any, mean: Any, inverse: Any) -> Array:
    return standardized_grad(h, x, scale, mean, inverse)


@derivative(standardized_grad_, "scale")
def _(h: Any, g: Any, x: Any, mean: Any, inverse: Any, scale_shape: tuple[int, ...]) -> Array:
    return row_sums(h * standardized_grad(g, x, None, mean, inverse), scale_shape)


@derivative(standardized_grad_, "x")
def _(h: Any, g: Any, x: Array, scale: Any, mean: Any, inverse: Any) -> Array:
    result = _grad_slope(h, g, x, mean, inverse)
    return result if scale is None else result * _of_rows(scale)


def _grad_slope(h: Any, g: Any, x: Any, mean: Any, inverse: Any) -> Any:
    """Return the gradient of J(x) g for x, for rows without a scale."""
    if not array_of(x).size:
        return h
    to_h = standardized_grad(h, x, None, mean, inverse)
    to_g = standardized_grad(g, x, None, mean, inverse)
    y, deviation = _recomputed(x, mean, inverse)
    b, c = _means(h * y), _means(g * y)
    covariance = _means(g * h) - b * c
    if mean is not None:
        covariance = covariance - _means(g) * _means(h)
    return _jacobian_slope(covariance, y, deviation, b, c, to_h, to_g)


@primitive()
def inverse_deviations_(x: Any, mean: Any, inverse: Any) -> Any:
    """Return `inverse`, the inverse deviations of the rows of x."""
    return inverse


@derivative(inverse_deviations_, "x")
def _(g: Array, x: Array, mean: Any, inverse: Any) -> Array:
    y, deviation = _recomputed(x, mean, inverse)
    return _inverse_slope(g, y, deviation, _count(x))


def _recomputed(x: Any, mean: Any, inverse: Any) -> tuple[Any, Any]:
    """Return the standardized x and its inverse deviations, as functions of x."""
    value = _standardize(array_of(x), None if mean is None else array_of(mean), array_of(inverse))
    return _standardized(x, None, None, value, mean, inverse), inverse_deviations(x, mean, inverse)


def _means(x: Any) -> Any:
    return np.mean(x, axis=_ELEMENTS, keepdims=True)


_standardized = standardized_.call
row_sums: Callable[..., Any] = row_sums_.call
standardized_scale_grad: Callable[..., Any] = standardized_scale_grad_.call
standardized_grad: Callable[..., Any] = standardized_grad_.call
inverse_deviations: Callable[..., Any] = inverse_deviations_.call


def _normalize_rows(x: Any, shape: tuple[int, int, int], eps: float, centered: bool, scale: Any, shift: Any) -> Any:
    """Return x standardized in that shape, times the scale and plus the shift of each row; both may be None.

    Returns:
        The result in the shape of x, and the means and variances of the rows, arrays of shape (1, rows, 1).
    """
    rows = np.reshape(x, shape)
    data = array_of(rows)
    floats = data if data.dtype.kind == "f" else data.astype(np.float64)
    factor, offset = (None if one is None else array_of(one) for one in (scale, shift))
    found = None
    if floats.__class__ is not np.ndarray:
        found = own_function("normalize", floats)(floats, factor, offset, eps, centered)
    if found is None:
        found = _statistics(floats, eps, centered, factor, offset)
    value, mean, variance, inverse = found
    result = _standardized(rows, scale, shift, value, mean, inverse)
    return np.reshape(result, array_of(x).shape), mean, variance


def _check_channels(function: str, channels: int, **values: Any) -> None:
    for name, value in values.items():
        if value is not None and array_of(value).shape != (channels,):
            raise ArgumentError(
                f"{function} of {channels} channels needs a {name} of shape ({channels},), not {array_of(value).shape}"
            )
    check_real(function, **values)


def _checked_numbers(
    function: str, running_mean: Any, running_var: Any, eps: Any, momentum: Any
) -> tuple[float, float]:
    """Return eps and the momentum as numbers of Python's.

    Raises:
        ArgumentError: one of the running statistics is None, and the other is not.
    """
    if (running_mean is None) != (running_var is None):
        missing = "running_mean" if running_mean is None else "running_var"
        raise ArgumentError(f"{function} takes both running_mean and running_var, or neither: {missing} is None")
    return option(function, "eps", eps), option(function, "momentum", momentum)


def _channels_of(function: str, x: Any, least: int) -> tuple[Any, int, int, int]:
    """Return the array of x, its samples, its channels, and its positions in each channel."""
    data = real_floating(function, "x", array_of(x))
    if data.ndim < least:
        wanted = "(n, channels, ...)" if least == 2 else "(n, channels, length, ...)"
        raise ArgumentError(f"{function} takes x of shape {wanted}, not {data.shape}")
    return data, data.shape[0], data.shape[1], math.prod(data.shape[2:])


def _by_arrays(norm: Any, running_mean: Any, running_var: Any, options: Any, x: Any, weight: Any, bias: Any) -> Any:
    return norm(x, running_mean, running_var, weight, bias, **options)


def _moved(running: Any, observed: Any, momentum: float, factor: float) -> tuple[Any]:
    return (running * (1 - momentum) + momentum * (observed * factor),)


#: By KernelCompiler, what moves running statistics in one launch.
_movers: dict[Any, TableUpdate] = {}


def _update(running: Any, observed: Any, momentum: float, factor: float = 1.0) -> None:
    """Move running statistics towards the observed ones times a factor, in place."""
    if running is None:
        return
    if not isinstance(running, (np.ndarray, TensorBase)):
        raise ArgumentError(f"running statistics are changed in place: pass a tensor or an array, not {running!r}")
    if array_of(running).dtype.kind != "f":
        raise ArgumentError(f"running statistics are floating numbers, not of dtype {array_of(running).dtype}")
    if RECOMPUTING.get():
        return
    # Not by the tensor, which would tell that it was changed: a checkpoint refuses functions that change their
    # arguments, of which the module is one. No derivative depends on these numbers, of which graphs keep copies.
    if isinstance(running, TensorBase):
        prepare_write(running)
    target = array_of(running)
    compiler = compiler_of(type(target))
    if compiler is not None and _lie_alike(target, observed):
        if compiler not in _movers:
            _movers[compiler] = compiler.update(_moved, 1)
        _movers[compiler]([[target, observed]], [momentum, factor])
        return
    target *= 1 - momentum
    target += (momentum * (observed if factor == 1 else observed * factor)).astype(target.dtype, copy=False)


def _lie_alike(target: Array, observed: Array) -> bool:
    """Tell whether two arrays of a device are floating and of one type, dtype and shape, without gaps."""
    return (
        type(observed) is type(target)
        and observed.dtype == target.dtype
        and target.dtype.char in "fd"
        and bool(target.flags.c_contiguous and observed.flags.c_contiguous)
    )


@on_device_of_arguments
def batch_norm(
    x: Tensor | np.ndarray,
    running_mean: Tensor | np.ndarray | None,
    running_var: Tensor | np.ndarray | None,
    weight: Tensor | np.ndarray | None = None,
    bias: Tensor | np.ndarray | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor | np.ndarray:
    """Return x with each channel normalized to mean 0 and variance 1, times a weight and plus a bias.

    Args:
        x: shape `(n, channels, ...)`.
        running_mean: the running means, shape `(channels,)`, or None.
        running_var: the running variances, shape `(channels,)`, or None.
        weight: shape `(channels,)`, or None.
        bias: shape `(channels,)`, or None.
        training: normalize by the statistics of x, and move the running ones towards these, in place; otherwise
            normalize by the running ones, which are needed then.
        momentum: the weight of the statistics of x in the running ones.
        eps: added to the variance.

    Raises:
        ArgumentError: the shapes do not fit, or there is one value for each channel; the message names them.
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.batch_norm; S. Ioffe and C. Szegedy, "Batch normalization" (2015).

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.batch_norm(np.array([[1.0, 0.0], [3.0, 0.0]]), None, None, training=True, eps=0.0001)
        array([[-0.99995,  0.     ],
               [ 0.99995,  0.     ]])
    """
    check_operands_share_device("batch_norm", x, weight, bias)
    data, n, channels, positions = _channels_of("batch_norm", x, 2)
    if data.itemsize == 2 and holds_half_array(x):
        # The running statistics stay as they are, to be written into.
        options = {"training": training, "momentum": momentum, "eps": eps}
        normed = partial(_by_arrays, batch_norm, running_mean, running_var, options)
        return by_single(normed, None, x, weight, bias)
    _check_channels(
        "batch_norm", channels, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias
    )
    training = truth(training, "training")
    eps, momentum = _checked_numbers("batch_norm", running_mean, running_var, eps, momentum)
    if eps < 0 or (training and eps == 0):
        raise ArgumentError(f"batch_norm needs a positive eps, or 0 outside of a training, not {eps}")
    if not training:
        return _by_running_statistics("batch_norm", x, running_mean, running_var, weight, bias, eps)
    if (count := n * positions) == 1:
        raise ArgumentError(f"batch_norm in training needs more than one value a channel, not {data.shape}: {_IN_EVAL}")
    result, mean, variance = _normalize_rows(x, (n, channels, positions), eps, True, weight, bias)
    if count:
        _update(running_mean, mean.reshape(-1), momentum)
        _update(running_var, variance.reshape(-1), momentum, count / (count - 1))
    return result


@composite("x", "weight", "bias")
def _by_given_statistics(x: Any, mean: Any, variance: Any, weight: Any, bias: Any, eps: float) -> Any:
    value = (x - mean) / np.sqrt(variance + eps)
    value = value if weight is None else value * weight
    return value if bias is None else value + bias


def _by_running_statistics(function: str, x: Any, mean: Any, variance: Any, weight: Any, bias: Any, eps: float) -> Any:
    if mean is None or variance is None:
        raise ArgumentError(f"{function} outside of training needs running_mean and running_var")
    data = array_of(x)
    mean, variance = constant(function, "running_mean", mean), constant(function, "running_var", variance)
    if any(map(records, (x, weight, bias))):
        # Copies, since a training may change them before the backward of this call.
        mean, variance = mean.copy(), variance.copy()
    mean, variance = as_like(mean, data), as_like(variance, data)
    if type(data) in COMPILED_TYPES:
        images = np.reshape(x, (*data.shape[:2], math.prod(data.shape[2:])))
        channels = [None if one is None else np.reshape(one, (1, -1, 1)) for one in (mean, variance, weight, bias)]
        return np.reshape(_by_given_statistics(images, *channels, eps), data.shape)
    scale = 1 / np.sqrt(variance + eps)
    if weight is not None:
        scale = scale * weight
    shift = -mean * scale if bias is None else bias - mean * scale
    return _scaled_channels(x, scale, shift)


@on_device_of_arguments
def instance_norm(
    x: Tensor | np.ndarray,
    running_mean: Tensor | np.ndarray | None = None,
    running_var: Tensor | np.ndarray | None = None,
    weight: Tensor | np.ndarray | None = None,
    bias: Tensor | np.ndarray | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor | np.ndarray:
    """Return x with each channel of each sample normalized to mean 0 and variance 1, times a weight and plus a bias.

    Args:
        x: shape `(n, channels, length, ...)`.
        running_mean: the running means, shape `(channels,)`, or None.
        running_var: the running variances, shape `(channels,)`, or None.
        weight: shape `(channels,)`, or None.
        bias: shape `(channels,)`, or None.
        use_input_stats: normalize by the statistics of x, and move the running ones towards these, in place; otherwise
            normalize by the running ones, which are needed then.
        momentum: the weight of the statistics of x in the running ones.
        eps: added to the variance.

    Raises:
        ArgumentError: the shapes do not fit, or a channel has one value; the message names them.
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.instance_norm.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.instance_norm(np.array([[[1.0, 3.0], [5.0, 5.0]]]), eps=0.0001)
        array([[[-0.99995,  0.99995],
                [ 0.     ,  0.     ]]])
    """
    check_operands_share_device("instance_norm", x, running_mean, running_var, weight, bias)
    data, n, channels, positions = _channels_of("instance_norm", x, 3)
    if data.itemsize == 2 and holds_half_array(x):
        options = {"use_input_stats": use_input_stats, "momentum": momentum, "eps": eps}
        normed = partial(_by_arrays, instance_norm, running_mean, running_var, options)
        return by_single(normed, None, x, weight, bias)
    _check_channels(
        "instance_norm", channels, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias
    )
    eps, momentum = _checked_numbers("instance_norm", running_mean, running_var, eps, momentum)
    if not truth(use_input_stats, "use_input_stats"):
        return _by_running_statistics("instance_norm", x, running_mean, running_var, weight, bias, eps)
    if positions == 1:
        raise ArgumentError(f"instance_norm needs more than one value in each channel: x has shape {data.shape}")
    result, mean, variance = _normalize_rows(x, (1, n * channels, positions), eps, True, None, None)
    if data.size:
        _update(running_mean, mean.reshape(n, channels).mean(axis=0), momentum)
        _update(running_var, variance.reshape(n, channels).mean(axis=0), momentum, positions / (positions - 1))
    return _scaled_channels(result, weight, bias)


_scaled = FusedFormula(lambda x, scale, shift: x * scale + shift)
_multiplied = FusedFormula(np.multiply)


def _scaled_on_device(x: Any, scale: Any, shift: Any) -> Any:
    if scale is None:
        return scaled_channels_.function(x, scale, shift)
    if shift is None:
        return _multiplied(x, _of_rows(scale))
    return _scaled(x, _of_rows(scale), _of_rows(shift))


@primitive()
@kernel(variant=_scaled_on_device)
def scaled_channels_(x: Any, scale: Any, shift: Any) -> Any:
    """Return x times a scale plus a shift of each channel, which may be None; x has the shape (n, channels, positions).

    Scale and shift have the shape (channels,).
    """
    if scale is not None and are_in_blocks(x, scale, shift):
        value, result, source = _for_blocks(x)
        standardized_blocks.scale_rows(result, source, scale, shift)
        return value
    value = x.copy() if scale is None else x * _of_rows(scale)
    if shift is None:
        return value
    return np.add(value, _of_rows(shift), out=value if value.dtype == shift.dtype else None)


@derivative(scaled_channels_, "x")
def _(g: Array, scale: Any) -> Array:
    return g if scale is None else scaled_channels(g, scale, None)


@derivative(scaled_channels_, "scale")
def _(g: Array, x: Any, scale_shape: tuple[int, ...]) -> Array:
    return row_dots(g, x, scale_shape)


@derivative(scaled_channels_, "shift")
def _(g: Array, shift_shape: tuple[int, ...]) -> Array:
    return row_sums(g, shift_shape)


@primitive()
@kernel(name="row_dots", arguments=("x", "y", None, None, "shape"))
def row_dots_(x: Any, y: Any, shape: tuple[int, ...]) -> Any:
    """Return the sum of each row of `x * y`, in a shape."""
    return _dots(x, y).reshape(shape)


@derivative(row_dots_, "x")
def _(h: Array, y: Any) -> Array:
    return _of_rows(h) * y


@derivative(row_dots_, "y")
def _(h: Array, x: Any) -> Array:
    return _of_rows(h) * x


scaled_channels: Callable[..., Any] = scaled_channels_.call
row_dots: Callable[..., Any] = row_dots_.call


def _scaled_channels(x: Any, weight: Any, bias: Any) -> Any:
    """Return x of shape (n, channels, ...) with each channel times a weight plus a bias; both may be None."""
    if weight is None and bias is None:
        return x
    shape = array_of(x).shape
    images = np.reshape(x, (*shape[:2], math.prod(shape[2:])))
    return np.reshape(scaled_channels(images, weight, bias), shape)


# Group norm: the rows of several channels, and a weight for each of these


def _rows_of(x: Any, mean: Any) -> Any:
    """Return images of shape (n, channels, positions) as the rows of given means, shape (1, rows, length)."""
    array, rows = array_of(x), array_of(mean).shape[1]
    return np.reshape(x, (1, rows, array.size // rows if rows else 0))


def _of_samples(values: Any, n: int) -> Any:
    """Return one number for each channel once for each sample, or None."""
    return None if values is None else np.broadcast_to(values, (n, values.size)).reshape(-1)


def _group_statistics(x: Any, groups: int, eps: float, weight: Any, bias: Any) -> tuple[Any, Any, Any]:
    """Return the group norm of images of shape (n, channels, positions); the means and inverse deviations of groups."""
    n, channels, positions = x.shape
    rows = x.reshape(1, n * groups, channels // groups * positions)
    if are_in_blocks(x, weight, bias):
        value = np.empty_like(x, order="C")
        mean, _, inverse = standardized_blocks.standardize(
            value.reshape(rows.shape), rows, eps, True, _of_samples(weight, n), _of_samples(bias, n)
        )
        return value, mean, inverse
    value, mean, _, inverse = _statistics(rows, eps, True, None, None)
    return scaled_channels_.function(value.reshape(x.shape), weight, bias), mean, inverse


@primitive()
def group_norm_(x: Any, weight: Any, bias: Any, value: Any, mean: Any, inverse: Any) -> Any:
    """Return `value`, the group norm, which was computed together with the means and inverse deviations of groups."""
    return value


@derivative(group_norm_, "x")
def _(g: Array, x: Array, weight: Array, mean: Array, inverse: Array) -> Array:
    return group_norm_grad(g, x, weight, mean, inverse)


@derivative(group_norm_, "weight")
def _(g: Array, x: Array, weight_shape: tuple[int, ...], mean: Array, inverse: Array) -> Array:
    return group_weight_grad(g, x, weight_shape, mean, inverse)


@derivative(group_norm_, "bias")
def _(g: Array, bias_shape: tuple[int, ...]) -> Array:
    return row_sums(g, bias_shape)


@primitive()
def group_norm_grad_(g: Any, x: Any, weight: Any, mean: Any, inverse: Any) -> Any:
    """Return the product of the Jacobian of the standardized groups with g times the weight of each channel."""
    if are_in_blocks(x, g, weight, mean, inverse):
        result = np.empty_like(x, order="C")
        rows = (1, mean.shape[1], x.size // mean.shape[1])
        by = _of_samples(weight, len(x))
        into, images, grads = (one.reshape(rows) for one in (result, x, g))
        standardized_blocks.input_grad(into, images, grads, by, mean, inverse)
        return result
    grads, rows = _rows_of(g * _of_rows(weight), mean), _rows_of(x, mean)
    return standardized_grad_.function(grads, rows, None, mean, inverse).reshape(x.shape)


def _group_jacobian(h: Array, x: Array, mean: Array, inverse: Array) -> Any:
    """Return J(x) h for images, without a weight."""
    result = standardized_grad(_rows_of(h, mean), _rows_of(x, mean), None, mean, inverse)
    return np.reshape(result, array_of(x).shape)


@derivative(group_norm_grad_, "g")
def _(h: Array, x: Array, weight: Array, mean: Array, inverse: Array) -> Array:
    return scaled_channels(_group_jacobian(h, x, mean, inverse), weight, None)


@derivative(group_norm_grad_, "weight")
def _(h: Array, g: Array, x: Array, weight_shape: tuple[int, ...], mean: Array, inverse: Array) -> Array:
    return row_dots(_group_jacobian(h, x, mean, inverse), g, weight_shape)


@derivative(group_norm_grad_, "x")
def _(h: Array, g: Array, x: Array, x_shape: tuple[int, ...], weight: Array, mean: Array, inverse: Array) -> Array:
    return np.reshape(
        _grad_slope(
            _rows_of(h, mean), _rows_of(scaled_channels(g, weight, None), mean), _rows_of(x, mean), mean, inverse
        ),
        x_shape,
    )


@primitive()
def group_weight_grad_(g: Any, x: Any, shape: tuple[int, ...], mean: Any, inverse: Any) -> Any:
    """Return the sum over each channel of g times the standardized groups of x."""
    n, channels, positions = x.shape
    if not are_in_blocks(x, g, mean, inverse):
        value = _standardize(_rows_of(x, mean), mean, inverse)
        return _dots(value.reshape(x.shape), g).reshape(shape)
    source, gradients = x.reshape(-1, positions), g.reshape(-1, positions)
    dots, totals = np.empty((2, n * channels), x.dtype)
    for at in blocks(n * channels, positions * x.itemsize):
        rows = source[at]
        grads = in_memory(gradients[at], scratch(rows.shape, rows.dtype))
        dots[at], totals[at] = np.vecdot(grads, rows), sum_rows(grads)
    by_group = (mean.shape[1], n * channels // mean.shape[1])
    dots, totals = dots.reshape(by_group), totals.reshape(by_group)
    found = (dots - totals * mean.reshape(-1, 1)) * inverse.reshape(-1, 1)
    return np.add.reduce(found.reshape(n, channels), axis=0).reshape(shape)


@derivative(group_weight_grad_, "g")
def _(h: Array, x: Array, x_shape: tuple[int, ...], mean: Array, inverse: Array) -> Array:
    return scaled_channels(np.reshape(_recomputed(_rows_of(x, mean), mean, inverse)[0], x_shape), h, None)


@derivative(group_weight_grad_, "x")
def _(h: Array, g: Array, x: Array, mean: Array, inverse: Array) -> Array:
    return group_norm_grad(g, x, h, mean, inverse)


_group_norm = group_norm_.call
group_norm_grad: Callable[..., Any] = group_norm_grad_.call
group_weight_grad: Callable[..., Any] = group_weight_grad_.call


def _normalize_groups(x: Any, groups: int, eps: float, weight: Any, bias: Any) -> Any:
    """Return x of shape (n, channels, ...) with each group standardized, times a weight and plus a bias of channels."""
    data = array_of(x)
    n, channels = data.shape[:2]
    positions = math.prod(data.shape[2:])
    if weight is None or data.dtype.kind != "f" or is_device_array(data):
        # A device has kernels for the two steps.
        shape = (1, n * groups, channels // groups * positions)
        result, _, _ = _normalize_rows(x, shape, eps, True, None, None)
        return _scaled_channels(result, weight, bias)
    images = np.reshape(x, (n, channels, positions))
    factor, offset = (None if one is None else array_of(one) for one in (weight, bias))
    value, mean, inverse = _group_statistics(array_of(images), groups, eps, factor, offset)
    return np.reshape(_group_norm(images, weight, bias, value, mean, inverse), data.shape)


@on_device_of_arguments
def group_norm(
    x: Tensor | np.ndarray,
    num_groups: int,
    weight: Tensor | np.ndarray | None = None,
    bias: Tensor | np.ndarray | None = None,
    eps: float = 1e-5,
) -> Tensor | np.ndarray:
    """Return x with each group of channels of each sample normalized to mean 0 and variance 1, scaled and shifted.

    Args:
        x: shape `(n, channels, ...)`.
        num_groups: the number of groups, which divides the channels.
        weight: shape `(channels,)`, or None.
        bias: shape `(channels,)`, or None.
        eps: added to the variance.

    Raises:
        ArgumentError: the shapes do not fit; the message names them.
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.group_norm; Y. Wu and K. He, "Group normalization" (2018).

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.group_norm(np.array([[1.0, 3.0, 5.0, 5.0]]), 2, eps=0.0001)
        array([[-0.99995,  0.99995,  0.     ,  0.     ]])
    """
    eps, num_groups = option("group_norm", "eps", eps), whole_number(num_groups, "num_groups", 1)
    check_operands_share_device("group_norm", x, weight, bias)
    data, n, channels, positions = _channels_of("group_norm", x, 2)
    if data.itemsize == 2 and holds_half_array(x):
        return by_single(group_norm, None, x, num_groups, weight, bias, eps)
    if channels % num_groups:
        raise ArgumentError(
            f"group_norm needs a number of groups that divides the {channels} channels of x, not {num_groups}"
        )
    _check_channels("group_norm", channels, weight=weight, bias=bias)
    if n * positions * (channels // num_groups) == 1:
        raise ArgumentError(f"group_norm needs more than one value in a group: x has shape {data.shape}")
    return _normalize_groups(x, num_groups, eps, weight, bias)


# Root mean square norm: made of the functions above, where a device has no kernel for it with its weight.


@primitive()
def rms_norm_(x: Any, weight: Any, value: Any, inverse: Any) -> Any:
    """Return `value`, the norm, which was computed with the inverse roots of the rows, a column."""
    return value


@derivative(rms_norm_, "x")
@kernel(name="rms_norm_grad")
def _(g: Any, x: Array, weight: Any, inverse: Any) -> Array:
    shape, rows = array_of(x).shape, (1, array_of(inverse).size, -1)
    g = np.reshape(g if weight is None else g * weight, rows)
    result = standardized_grad(g, np.reshape(x, rows), None, None, np.reshape(inverse, (1, -1, 1)))
    return np.reshape(result, shape)


@derivative(rms_norm_, "weight")
@kernel(name="rms_weight_grad", arguments=("g", "x", "inverse", "weight_shape"))
def _(g: Any, x: Any, weight_shape: tuple[int, ...], inverse: Any) -> Array:
    shape, rows = array_of(x).shape, (1, array_of(inverse).size, -1)
    value, _ = _recomputed(np.reshape(x, rows), None, np.reshape(inverse, (1, -1, 1)))
    return leading_sum(g * np.reshape(value, shape), weight_shape)


_rms_norm = rms_norm_.call


@on_device_of_arguments
def rms_norm(
    x: Tensor | np.ndarray,
    normalized_shape: int | Sequence[int],
    weight: Tensor | np.ndarray | None = None,
    eps: float | None = None,
) -> Tensor | np.ndarray:
    """Return x divided by the root of the mean of its squares over its last axes, times a weight.

    Args:
        x: shape `(..., *normalized_shape)`.
        normalized_shape: the shape of the last axes, an int or a sequence of ints.
        weight: shape `normalized_shape`, or None.
        eps: added to the mean of the squares; None for the precision of the dtype of x.

    Raises:
        ArgumentError: the shapes do not fit; the message names them.
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.rms_norm; B. Zhang and R. Sennrich, "Root mean square layer normalization" (2019).

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.rms_norm(np.array([[1.0, 7.0], [5.0, 5.0]]), 2, eps=0.0)
        array([[0.2, 1.4],
               [1. , 1. ]])
    """
    shape = lengths("normalized_shape", normalized_shape)
    eps = None if eps is None else option("rms_norm", "eps", eps)
    data = real_floating("rms_norm", "x", array_of(x))
    if data.itemsize == 2 and holds_half_array(x):
        # None is for the precision of the dtype of x.
        return by_single(rms_norm, None, x, shape, weight, float(np.finfo(data.dtype).eps) if eps is None else eps)
    if not shape or data.ndim < len(shape) or data.shape[data.ndim - len(shape) :] != shape:
        expected = ", ".join(map(str, ("...", *shape)))
        raise ArgumentError(f"rms_norm with normalized_shape {shape} takes x of shape ({expected}), not {data.shape}")
    if weight is not None and array_of(weight).shape != shape:
        raise ArgumentError(
            f"rms_norm with normalized_shape {shape} needs a weight of that shape, not {array_of(weight).shape}"
        )
    check_real("rms_norm", weight=weight)
    length = math.prod(shape)
    eps = float(np.finfo(data.dtype).eps) if eps is None else eps
    rows = data.size // length if length else 0
    check_operands_share_device("rms_norm", x, weight)
    if data.__class__ is not np.ndarray:
        flat = data.reshape(rows, length)
        found = own_function("rms_norm", flat)(flat, None if weight is None else array_of(weight), eps)
        if found is not None:
            return _rms_norm(x, weight, found[0].reshape(data.shape), found[1])
    result, _, _ = _normalize_rows(x, (1, rows, length), eps, False, None, None)
    return result if weight is None else result * weight


def local_response_norm(
    x: Tensor | np.ndarray, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor | np.ndarray:
    """Return x, each element divided by a power of the mean square of those in the channels around it.

    Args:
        x: shape `(n, channels, ...)`, of three axes or more.
        size: the number of channels in a mean; those that there are not count as zeros.
        alpha: what the mean square is multiplied by.
        beta: the power.
        k: what is added before.

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.

    Source: torch.nn.functional.local_response_norm; A. Krizhevsky et al., "ImageNet classification with deep
    convolutional neural networks" (2012).

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.local_response_norm(np.array([[[3.0], [1.0]]]), 1, alpha=1.0, beta=0.5, k=7.0).ravel().round(4)
        array([0.75  , 0.3536])
    """
    check_real("local_response_norm", x=x)
    shape = array_of(x).shape
    size = whole_number(size, "size", 1)
    function = "local_response_norm"
    alpha, beta, k = option(function, "alpha", alpha), option(function, "beta", beta), option(function, "k", k)
    if len(shape) < 3:
        raise ArgumentError(f"local_response_norm takes x of shape (n, channels, ...), of 3 axes or more, not {shape}")
    if not math.prod(shape):
        return x
    around = [(0, 0), (size // 2, (size - 1) // 2), *[(0, 0)] * (len(shape) - 2)]
    squares = windows_along(np.pad(np.square(x), around), 1, size, 1, 1)
    return x / (np.mean(squares, axis=1) * alpha + k) ** beta
