"""Linear maps of feature vectors.

`linear`, `linear_input_grad` and `linear_weight_grad` are the three ways to contract two of the three arrays of one
trilinear form, so the derivatives of each are the other two. Arrays with more than two axes are reshaped to matrices,
since NumPy would multiply a stack of small matrices one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.device_functions import own_function
from ...core.arrays.values import add_into
from ...core.recording.kernels import kernel
from ...core.recording.primitive import derivative, primitive
from ...errors import ArgumentError
from ..shared.arguments import array_of, operand, shapes_of
from ..shared.rows import add_leading_sum, leading_sum, leading_sum_on_device

if TYPE_CHECKING:
    from ...core.arrays.array import Array
    from ...core.tensor import Tensor


__all__ = ["bilinear", "linear"]


def _rows(x: Array) -> Any:
    """Return an array as a matrix of its rows."""
    shape = x.shape
    return x if len(shape) == 2 else x.reshape(math.prod(shape[:-1]), shape[-1])


def _linear_on_device(x: Array, weight: Array, bias: Any) -> Any:
    result = own_function("linear", x)(x, weight)
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
@kernel(variant=_linear_on_device)
def linear_(x: Array, weight: Array, bias: Any) -> Any:
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


def _bias_error(weight: Array, bias: Array) -> ArgumentError:
    return ArgumentError(
        f"linear with a weight of shape {weight.shape} needs a bias of shape {weight.shape[:1]}, not {bias.shape}"
    )


def _shape_error(x: Array, weight: Array) -> ArgumentError:
    if weight.ndim != 2:
        return ArgumentError(f"linear needs a weight of shape (out, in), not {weight.shape}")
    hint = ". Is the weight transposed? It is (out, in)" if x.shape[-1:] == weight.shape[:1] else ""
    return ArgumentError(
        f"linear with a weight of shape {weight.shape} takes x of shape (..., {weight.shape[1]}), not {x.shape}{hint}"
    )


def _input_grad_on_device(g: Array, weight: Array) -> Any:
    result = own_function("linear_input_grad", g)(g, weight)
    if result is None:
        result = own_function(np.matmul, g)(_rows(g), weight)
        result = result if g.ndim == 2 else result.reshape(*g.shape[:-1], weight.shape[1])
    return result


# What a formula calls has the same variant, which the engine calls at once.
@derivative(linear_, "x")
@kernel(variant=_input_grad_on_device)
def _(g: Array, weight: Any) -> Array:
    return linear_input_grad(g, weight)


def _weight_grad_on_device(g: Any, x: Any) -> Any:
    result = own_function("linear_weight_grad", g)(g, x)
    return own_function(np.matmul, g)(_rows(g).T, _rows(x)) if result is None else result


def _add_weight_grad(total: Any, g: Any, x: Any) -> Any:
    result = own_function("add_linear_weight_grad", total)(total, g, x)
    return add_into(total, _weight_grad_on_device(g, x)) if result is None else result


@derivative(linear_, "weight")
@kernel(variant=_weight_grad_on_device, adder=_add_weight_grad)
def _(g: Array, x: Any) -> Array:
    return linear_weight_grad(g, x)


@derivative(linear_, "bias")
@kernel(variant=leading_sum_on_device, adder=add_leading_sum)
def _(g: Array, bias_shape: tuple[int, ...]) -> Array:
    return leading_sum(g, bias_shape)


@primitive(superlinear=True)
@kernel(variant=_input_grad_on_device)
def linear_input_grad_(g: Array, weight: Array) -> Any:
    """Return `g @ weight`, the gradient of `linear` for x."""
    if g.ndim == 2:
        return g.dot(weight)
    rows = g.reshape(math.prod(g.shape[:-1]), g.shape[-1])
    return rows.dot(weight).reshape(*g.shape[:-1], weight.shape[1])


@derivative(linear_input_grad_, "g")
def _(g: Array, weight: Any) -> Array:
    return _linear(g, weight, None)


# A derivative's first parameter is the incoming gradient. It is called h here, since g is an argument of the function.
@derivative(linear_input_grad_, "weight")
def _(h: Array, g: Any) -> Array:
    return linear_weight_grad(g, h)


@primitive(superlinear=True)
@kernel(variant=_weight_grad_on_device)
def linear_weight_grad_(g: Any, x: Any) -> Any:
    """Return `g.T @ x`, summed over all leading axes: the gradient of `linear` for its weight."""
    if g.ndim != 2:
        g = g.reshape(math.prod(g.shape[:-1]), g.shape[-1])
        x = x.reshape(len(g), x.shape[-1])
    return g.T.dot(x)


@derivative(linear_weight_grad_, "g")
def _(h: Array, x: Any) -> Array:
    return _linear(x, h, None)


@derivative(linear_weight_grad_, "x")
def _(h: Array, g: Any) -> Array:
    return linear_input_grad(g, h)


_linear = linear_.call
linear_input_grad: Callable[..., Any] = linear_input_grad_.call
linear_weight_grad: Callable[..., Any] = linear_weight_grad_.call


def linear(
    x: Tensor | np.ndarray, weight: Tensor | np.ndarray, bias: Tensor | np.ndarray | None = None
) -> Tensor | np.ndarray:
    """Return `x @ weight.T + bias`, a linear map of the last axis.

    Args:
        x: shape `(..., in)`.
        weight: shape `(out, in)`; or `(in,)` for one number of each row.
        bias: shape `(out,)`, or `()` beside such a weight; or None.

    Returns:
        A tensor of shape `(..., out)`, or `(...)`.

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
    given: tuple[object, ...] = (x.__class__, weight.__class__, bias.__class__)
    if list in given or tuple in given:
        return linear(operand(x), operand(weight), operand(bias))
    if getattr(weight, "ndim", 2) == 1:
        if bias is not None and shapes_of("linear", bias=bias) != [()]:
            raise ArgumentError(
                f"linear with a weight of shape {weight.shape} needs a bias of shape (), not {array_of(bias).shape}"
            )
        result = _linear(x, np.reshape(weight, (1, -1)), None)[..., 0]
        return result if bias is None else result + bias
    return _linear(x, weight, bias)


def bilinear(
    input1: Tensor | np.ndarray,
    input2: Tensor | np.ndarray,
    weight: Tensor | np.ndarray,
    bias: Tensor | np.ndarray | None = None,
) -> Tensor | np.ndarray:
    """Return `input1 @ weight[k] @ input2 + bias[k]` for each output `k`.

    Args:
        input1: shape `(..., in1_features)`.
        input2: shape `(..., in2_features)`.
        weight: shape `(out_features, in1_features, in2_features)`.
        bias: shape `(out_features,)`, or None.

    Returns:
        A tensor of shape `(..., out_features)`.

    Raises:
        ArgumentError: shapes do not fit; the message names them.

    Source: torch.nn.functional.bilinear.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.bilinear(np.array([1.0, 2.0]), np.array([3.0]), np.ones((1, 2, 1)))
        array([9.])
    """
    first, second, shape = shapes_of("bilinear", input1=input1, input2=input2, weight=weight)
    input1, input2, weight = operand(input1), operand(input2), operand(weight)
    if (
        len(shape) != 3
        or not first
        or (first[-1:], second[-1:]) != (shape[1:2], shape[2:])
        or first[:-1] != second[:-1]
    ):
        raise ArgumentError(
            "bilinear takes inputs of shape (..., in1_features) and (..., in2_features) and a weight of shape "
            f"(out_features, in1_features, in2_features), not {first}, {second} and {shape}"
        )
    if bias is not None and shapes_of("bilinear", bias=bias) != [shape[:1]]:
        raise ArgumentError(f"bilinear with a weight of shape {shape} needs a bias of shape {shape[:1]}")
    # Column j + k * in2_features of the map of input1 is what input2[j] is multiplied by for output k.
    by_input2 = np.reshape(np.swapaxes(weight, 1, 2), (shape[0] * shape[2], shape[1]))
    factors = np.reshape(linear(input1, by_input2), (*first[:-1], shape[0], shape[2]))
    output: Any = np.matmul(factors, np.expand_dims(input2, -1))[..., 0]
    return output if bias is None else output + bias
