"""Layer normalization.

A row x of n numbers with the mean m and the inverse deviation s = (variance + eps) ** -0.5 becomes y = (x - m) s. The
Jacobian of y is the symmetric matrix J(x) with

    J(x) g = s (g - mean(g) - y mean(g y)),

which is the primitive `standardize_grad`. The gradient of J(x) g for x, with the incoming gradient h, follows from
ds/dx = -s**2 y / n and dy/dx = J(x):

    -s**2 y (mean(g h) - mean(g) mean(h) - b c) - s (c J(x) h + b J(x) g),   b = mean(h y), c = mean(g y).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays.device_functions import by_kernel
from ...core.arrays.interception import on_device_of_arguments
from ...core.arrays.one_device import check_operands_beside
from ...core.arrays.values import ones_like
from ...core.ops.single_precision import by_single, holds_half
from ...core.recording.kernels import device_kernel, device_variant
from ...core.recording.primitive import derivative, primitive
from ...errors import ArgumentError
from . import row_blocks
from .arguments import array_of, complex_error, real_floating
from .rows import leading_sum, leading_sum_on_device, sum_rows
from .standardized_blocks import grad_of_block

__all__ = ["layer_norm"]


def _standardize_rows(x: Any, mean: Any, inverse: Any) -> Any:
    """Return the rows (x - mean) * inverse of a matrix, in a new array."""
    value = x - mean
    value *= inverse
    return value


def _compute_blocks(x: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, Any, Any]:
    """Return what `_compute` does, for NumPy arrays of one dtype."""
    count, length = x.shape
    value, mean, inverse = np.empty(x.shape, x.dtype), np.empty((count, 1), x.dtype), np.empty((count, 1), x.dtype)
    weight, bias = row_blocks.repeated(weight, count), row_blocks.repeated(bias, count)
    with row_blocks.unbuffered_rows(length):
        for at in row_blocks.blocks(count, length * x.itemsize):
            rows, out, center, factor = x[at], value[at], mean[at], inverse[at]
            np.divide(sum_rows(rows).reshape(-1, 1), length, out=center)
            np.subtract(rows, center, out=out)
            np.divide(np.vecdot(out, out).reshape(-1, 1), length, out=factor)
            factor += eps
            np.sqrt(factor, out=factor)
            np.reciprocal(factor, out=factor)
            out *= factor
            if weight is not None:
                out *= weight[: len(rows)] if weight.ndim == 2 else weight
            if bias is not None:
                out += bias[: len(rows)] if bias.ndim == 2 else bias
    return value, mean, inverse


def _grad_of_blocks(g: Any, x: Any, weight: Any, mean: Any, inverse: Any) -> Any:
    """Return what `standardize_grad` does of g times the weight, for NumPy arrays of one dtype."""
    count, length = len(mean), x.size // len(mean)
    centers, factors = mean.reshape(-1), inverse.reshape(-1)
    result = np.empty(x.shape, x.dtype)
    source, grads, results = (one.reshape(count, length) for one in (x, g, result))
    weight = None if weight is None else row_blocks.repeated(weight.reshape(-1), count)
    with row_blocks.unbuffered_rows(length):
        for at in row_blocks.blocks(count, length * x.itemsize):
            grad, out = grads[at], results[at]
            if weight is not None:
                grad = np.multiply(grad, weight[: len(grad)] if weight.ndim == 2 else weight, out=out)
            grad_of_block(out, source[at], grad, centers[at], factors[at], factors[at])
    return result


def _weight_grad_of_blocks(g: Any, x: Any, mean: Any, inverse: Any) -> Any:
    """Return the sum over rows of g times the standardized x, for NumPy arrays of one dtype."""
    count = len(mean)
    source, grads, factors = x.reshape(count, -1), g.reshape(count, -1), inverse.reshape(-1)
    total = (factors * mean.reshape(-1)).dot(grads)
    np.negative(total, out=total)
    for at in row_blocks.blocks(count, source.shape[1] * x.itemsize):
        rows = source[at]
        total += factors[at].dot(np.multiply(rows, grads[at], out=row_blocks.scratch(rows.shape, rows.dtype)))
    return total


def _compute(x: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, Any, Any]:
    """Return the layer norm of the rows of a matrix, and their means and inverse deviations as columns."""
    if x.__class__ is not np.ndarray and (found := by_kernel("layer_norm", x, weight, bias, eps)) is not None:
        return found  # type: ignore[no-any-return]
    if row_blocks.are_in_blocks(x, weight, bias):
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
@device_kernel("standardize_grad(g, x, weight, mean, inverse)")
def _(g: Any, x: Any, weight: Any, mean: Any, inverse: Any) -> Any:
    if weight is not None and row_blocks.are_in_blocks(x, g, weight, mean, inverse):
        return _grad_of_blocks(g, x, weight, mean, inverse)
    return standardize_grad(g if weight is None else g * weight, x, mean, inverse)


@derivative(layer_norm_, "weight")
@device_kernel("layer_norm_weight_grad(g, x, weight_shape, mean, inverse)")
def _(g: Any, x: Any, weight_shape: tuple[int, ...], mean: Any, inverse: Any) -> Any:
    return layer_norm_weight_grad(g, x, weight_shape, mean, inverse)


@derivative(layer_norm_, "bias")
@device_variant(leading_sum_on_device)
def _(g: Any, bias_shape: tuple[int, ...]) -> Any:
    return leading_sum(g, bias_shape)


@primitive()
@device_kernel("layer_norm_weight_grad(g, x, shape, mean, inverse)")
def layer_norm_weight_grad_(g: Any, x: Any, shape: tuple[int, ...], mean: Any, inverse: Any) -> Any:
    """Return the sum over rows of g times the standardized x."""
    if row_blocks.are_in_blocks(x, g, mean, inverse):
        return _weight_grad_of_blocks(g, x, mean, inverse).reshape(shape)
    matrix = (mean.shape[0], math.prod(shape))
    value = _standardize_rows(x.reshape(matrix), mean, inverse)
    value *= g.reshape(matrix)
    total = ones_like(value, matrix[0]) @ value
    return total if len(shape) == 1 else total.reshape(shape)


@derivative(layer_norm_weight_grad_, "g")
def _(h: Any, x: Any, mean: Any, inverse: Any) -> Any:
    return h * standardize(x, mean, inverse)


@derivative(layer_norm_weight_grad_, "x")
def _(h: Any, g: Any, x: Any, mean: Any, inverse: Any) -> Any:
    return standardize_grad(h * g, x, mean, inverse)


@primitive()
def standardize_(x: Any, mean: Any, inverse: Any) -> Any:
    """Return (x - mean) * inverse for the means and inverse deviations of the rows of x."""
    return _standardize_rows(x.reshape(mean.shape[0], -1), mean, inverse).reshape(x.shape)


@derivative(standardize_, "x")
def _(g: Any, x: Any, mean: Any, inverse: Any) -> Any:
    return standardize_grad(g, x, mean, inverse)


@primitive()
def inverse_deviation_(x: Any, mean: Any, inverse: Any) -> Any:
    """Return `inverse`, the inverse deviations of the rows of x, as a column."""
    return inverse


@derivative(inverse_deviation_, "x")
def _(g: Any, x: Any, x_shape: tuple[int, ...], mean: Any, inverse: Any) -> Any:
    rows = np.reshape(standardize(x, mean, inverse), (mean.shape[0], -1))
    scale = inverse_deviation(x, mean, inverse)
    return np.reshape(-g * scale * scale * rows / rows.shape[1], x_shape)


@primitive()
@device_kernel("standardize_grad(g, x, None, mean, inverse)")
def standardize_grad_(g: Any, x: Any, mean: Any, inverse: Any) -> Any:
    """Return inverse * (g - mean(g) - y mean(g y)) for each row, where y is the standardized x."""
    if row_blocks.are_in_blocks(x, g, mean, inverse):
        return _grad_of_blocks(g, x, None, mean, inverse)
    shape = x.shape
    length = math.prod(shape) // mean.shape[0] if mean.shape[0] else 0
    g = g.reshape(mean.shape[0], length)
    y = _standardize_rows(x.reshape(g.shape), mean, inverse)
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
def _(h: Any, x: Any, mean: Any, inverse: Any) -> Any:
    return standardize_grad(h, x, mean, inverse)


@derivative(standardize_grad_, "x")
def _(h: Any, g: Any, x: Any, x_shape: tuple[int, ...], mean: Any, inverse: Any) -> Any:
    matrix = (mean.shape[0], -1)
    to_h = np.reshape(standardize_grad(h, x, mean, inverse), matrix)
    to_g = np.reshape(standardize_grad(g, x, mean, inverse), matrix)
    y = np.reshape(standardize(x, mean, inverse), matrix)
    scale = inverse_deviation(x, mean, inverse)
    h, g = np.reshape(h, matrix), np.reshape(g, matrix)
    b, c = _row_means(h * y), _row_means(g * y)
    covariance = _row_means(g * h) - _row_means(g) * _row_means(h) - b * c
    return np.reshape(-scale * (scale * covariance * y + c * to_h + b * to_g), x_shape)


def _row_means(rows: Any) -> Any:
    return np.mean(rows, axis=1, keepdims=True)


_layer_norm = layer_norm_.call
layer_norm_weight_grad: Callable[..., Any] = layer_norm_weight_grad_.call
standardize: Callable[..., Any] = standardize_.call
inverse_deviation: Callable[..., Any] = inverse_deviation_.call
standardize_grad: Callable[..., Any] = standardize_grad_.call


@on_device_of_arguments
def layer_norm(x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
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
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    check_operands_beside("layer_norm", x, weight, bias)
    data = real_floating("layer_norm", "x", array_of(x))
    if data.itemsize == 2 and holds_half(x):
        return by_single(layer_norm, None, x, normalized_shape, weight, bias, eps)
    if not shape or data.shape[data.ndim - len(shape) :] != shape or data.ndim < len(shape):
        expected = ", ".join(map(str, ("...", *shape)))
        raise ArgumentError(f"layer_norm with normalized_shape {shape} takes x of shape ({expected}), not {data.shape}")
    affine: list[Any] = []
    for name, value in (("weight", weight), ("bias", bias)):
        array = None if value is None else array_of(value)
        if array is not None and array.shape != shape:
            raise ArgumentError(
                f"layer_norm with normalized_shape {shape} needs a {name} of that shape, not {array.shape}"
            )
        if array is not None and array.dtype.kind == "c":
            raise complex_error("layer_norm", name, array)
        affine.append(array if array is None or len(shape) == 1 else array.reshape(-1))
    length = math.prod(shape)
    rows = data.reshape(data.size // length if length else 0, length)
    value, mean, inverse = _compute(rows, affine[0], affine[1], eps)
    return _layer_norm(x, weight, bias, value.reshape(data.shape), mean, inverse)
