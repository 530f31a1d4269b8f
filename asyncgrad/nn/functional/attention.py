"""Scaled dot-product attention."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.device_functions import no_function, own_function
from ...core.arrays.interception import on_device_of_arguments
from ...core.arrays.one_device import check_operands_share_device
from ...core.arrays.values import as_like, empty_like, is_device_array
from ...core.ops.single_precision import by_single, holds_half_array
from ...core.recording.kernels import kernel
from ...core.recording.primitive import derivative, primitive
from ...core.settings.arguments import truth
from ...errors import ArgumentError, ArgumentTypeError
from ..shared.arguments import array_of, operand, option
from .dropout import dropout
from .softmaxes import exponentials, softmax_grad

if TYPE_CHECKING:
    from ...core.arrays.array import Array
    from ...core.tensor import Tensor


__all__ = ["attend", "check_mask", "scaled_dot_product_attention"]


@primitive(superlinear=True)
@kernel(name="batched_product", options={"y_is_transposed": True})
def attention_scores_(query: Any, key: Any, scale: float) -> Any:
    """Return scale * query @ key.T, the last two axes of each as a matrix."""
    # Scale the queries rather than the scores, which usually are more.
    return (query * scale) @ key.swapaxes(-1, -2)


@derivative(attention_scores_, "query")
@kernel(name="batched_product")
def _(g: Any, key: Any, scale: float) -> Array:
    return (g @ key) * scale


@derivative(attention_scores_, "key")
@kernel(name="batched_product", options={"x_is_transposed": True})
def _(g: Any, query: Any, scale: float) -> Array:
    return g.swapaxes(-1, -2) @ (query * scale)


#: A mask for the kernels of a device: target i attends to the sources 0 to i.
_CAUSAL = "causal"


def _attention_weights_on_device(scores: Array, mask: Any) -> Any:
    if mask is None:
        result = own_function("softmax", scores)(scores, -1)
        return attention_weights_.function(scores, None) if result is None else result
    result = own_function("masked_softmax", scores)(
        scores, mask if mask is _CAUSAL else np.broadcast_to(mask, scores.shape)
    )
    if result is not None:
        return result
    return attention_weights_.function(scores, _numbers(_causal(scores) if mask is _CAUSAL else mask, scores))


@primitive()
@kernel(variant=_attention_weights_on_device)
def attention_weights_(scores: Any, mask: Any) -> Any:
    """Return the softmax of scores + mask along the last axis; zeros for a row that is masked completely."""
    if not scores.size:
        return empty_like(scores)
    if mask is None:
        values, sums = exponentials(scores, -1)
    else:
        values, sums = exponentials(scores + mask, -1, empty=True)
        sums[sums == 0] = 1
    values /= sums
    return values


@derivative(attention_weights_, "scores", "mask")
@kernel(name="softmax_grad", arguments=("g", "out", -1))
def _(g: Array, out: Array) -> Array:
    return softmax_grad(g, out, -1)


@primitive(superlinear=True)
@kernel(name="batched_product")
def attended_(weights: Any, value: Any) -> Any:
    """Return weights @ value, the last two axes of each as a matrix."""
    return weights @ value


@derivative(attended_, "weights")
@kernel(name="batched_product", options={"y_is_transposed": True})
def _(g: Any, value: Any) -> Array:
    return g @ value.swapaxes(-1, -2)


@derivative(attended_, "value")
@kernel(name="batched_product", arguments=("weights", "g"), options={"x_is_transposed": True})
def _(g: Any, weights: Any) -> Array:
    return weights.swapaxes(-1, -2) @ g


_attention_scores = attention_scores_.call
_attention_weights = attention_weights_.call
_attended = attended_.call


def scaled_dot_product_attention(
    query: Tensor | np.ndarray,
    key: Tensor | np.ndarray,
    value: Tensor | np.ndarray,
    attn_mask: Tensor | np.ndarray | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    rng: np.random.Generator | None = None,
) -> Tensor | np.ndarray:
    """Return `softmax(query @ key.T * scale + mask) @ value`: for each query, a weighted mean of the values.

    Args:
        query: shape `(..., targets, features)`.
        key: shape `(..., sources, features)`.
        value: shape `(..., sources, value features)`.
        attn_mask: shape that broadcasts to `(..., targets, sources)`: booleans, true where a target may attend to a
            source, or numbers to add to the scores. A target that may attend to no source gets zeros.
        dropout_p: the probability with which a weight is dropped.
        is_causal: let target i attend to the sources 0 to i only; not together with `attn_mask`.
        scale: the factor of the scores; None for `features ** -0.5`.
        enable_gqa: let several heads of the query, which are on axis -3, share one of the keys and values, of which
            there are fewer; their number divides that of the query.
        rng: the NumPy generator that `dropout_p` draws from; None for that of the context (`ag.random.seed`).

    Returns:
        A tensor of shape `(..., targets, value features)`.

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.

    Source: torch.nn.functional.scaled_dot_product_attention; A. Vaswani et al., "Attention is all you need" (2017).

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> query, key = np.zeros((2, 4)), np.ones((2, 4))
        >>> nn.scaled_dot_product_attention(query, key, np.array([[1.0], [3.0]]), is_causal=True)
        array([[1.],
               [2.]])
    """
    if truth(enable_gqa, "enable_gqa"):
        key, value = _for_each_head(query, key), _for_each_head(query, value)
    return attend(query, key, value, attn_mask, dropout_p, is_causal, scale, rng)[0]


def _for_each_head(query: Any, shared: Any) -> Any:
    """Return keys or values with each head as often as there are heads of the query for it."""
    shapes = array_of(query).shape, array_of(shared).shape
    heads, own = (shape[-3] if len(shape) > 2 else 0 for shape in shapes)
    if not heads or not own or heads % own:
        raise ArgumentError(
            "scaled_dot_product_attention with enable_gqa=True takes a query with heads on axis -3, and keys and "
            f"values with a number of heads that divides theirs, not the shapes {shapes[0]} and {shapes[1]}"
        )
    return shared if heads == own else np.repeat(shared, heads // own, axis=-3)


@on_device_of_arguments
def attend(
    query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: float, is_causal: bool, scale: float | None, rng: Any
) -> tuple[Any, Any]:
    """Return what `scaled_dot_product_attention` returns, and the weights of the values, after dropout."""
    check_operands_share_device("scaled_dot_product_attention", query, key, value, attn_mask)
    if holds_half_array(query, key, value):
        options = (attn_mask, dropout_p, is_causal, scale, rng)
        return by_single(attend, None, query, key, value, *options)
    if list in (query.__class__, key.__class__, value.__class__):
        query, key, value = operand(query), operand(key), operand(value)
    shapes = array_of(query).shape, array_of(key).shape, array_of(value).shape
    asked, offered, held = shapes
    if min(map(len, shapes)) < 2 or asked[-1] != offered[-1] or offered[-2] != held[-2]:
        raise ArgumentError(
            "scaled_dot_product_attention takes query (..., targets, features), key (..., sources, features) and "
            f"value (..., sources, value features), not {asked}, {offered} and {held}"
        )
    try:
        np.broadcast_shapes(*(shape[:-2] for shape in shapes))
    except ValueError:
        raise ArgumentError(
            "scaled_dot_product_attention takes a query, keys and values whose leading axes broadcast, not of the "
            f"shapes {asked}, {offered} and {held}"
        ) from None
    dropout_p = option("scaled_dot_product_attention", "dropout_p", dropout_p)
    scale = None if scale is None else option("scaled_dot_product_attention", "scale", scale)
    if scale is None:
        scale = 1 / math.sqrt(asked[-1]) if asked[-1] else 1.0
    scores = _attention_scores(query, key, scale)
    weights = _attention_weights(scores, _mask(attn_mask, is_causal, array_of(scores)))
    if dropout_p:
        weights = dropout(weights, dropout_p, rng=rng)
    return _attended(weights, value), weights


def _mask(attn_mask: Any, is_causal: bool, scores: Array) -> Any:
    """Return the array to add to the scores, or None: 0 where a target may attend, and minus infinity elsewhere.

    Where the device of the scores has a kernel for them, it is _CAUSAL, or truth values as they are given.
    """
    shape = scores.shape
    has_kernel = scores.__class__ is not np.ndarray and own_function("masked_softmax", scores) is not no_function
    if truth(is_causal, "is_causal"):
        if attn_mask is not None:
            raise ArgumentError("scaled_dot_product_attention takes attn_mask or is_causal=True, not both")
        if has_kernel:
            return _CAUSAL
        attn_mask = _causal(scores)
    if attn_mask is None:
        return None
    data = array_of(attn_mask)
    try:
        fits = np.broadcast_shapes(data.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ArgumentError(f"attn_mask of shape {data.shape} does not broadcast to the scores' shape, {shape}")
    if data.dtype.kind == "b":
        return as_like(data, scores) if has_kernel else _numbers(data, scores)
    return check_mask("attn_mask", attn_mask)


def check_mask(name: str, mask: Any) -> Any:
    """Return a mask.

    Raises:
        ArgumentTypeError: it holds integers, which may be meant as truth values or as numbers, or no numbers.
    """
    dtype = array_of(mask).dtype
    if dtype.kind not in "bfc":
        raise ArgumentTypeError(f"{name} holds booleans, or floating numbers to add to the scores, not {dtype}")
    return mask


def _causal(scores: Any) -> Any:
    like = {"like": scores} if is_device_array(scores) else {}
    return np.tri(scores.shape[-2], scores.shape[-1], dtype=bool, **like)


def _numbers(mask: Array, scores: Array) -> Any:
    """Return the numbers that stand for truth values in a sum with the scores; numbers as they are."""
    if mask.dtype.kind != "b":
        return mask
    return as_like(np.where(mask, 0.0, -np.inf).astype(scores.dtype), scores)
