"""Attention of several heads, each of which attends with its own linear maps of the queries, keys and values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...core.arrays.interception import on_device_of_arguments
from ...core.arrays.values import as_like
from ...core.ops.single_precision import arrays_in_single
from ...core.settings.arguments import number, truth, whole_number
from ...errors import ArgumentError
from ..shared.arguments import array_of, operand
from .attention import attend, check_mask
from .linear import linear

if TYPE_CHECKING:
    from ...core.tensor import Tensor


__all__ = ["Heads", "attend_by_heads", "multi_head_attention_forward"]


class Heads(NamedTuple):
    """What heads do to queries, keys and values before they attend."""

    number: int
    #: Features of the result, which the heads share.
    features: int
    #: Features of the queries, keys and values.
    sizes: tuple[int, int, int]
    #: One matrix of the three maps, or a matrix for each.
    weights: Any
    #: Of the three maps, or None.
    bias: Any
    #: A key and a value to append, or None.
    added_key: Any
    added_value: Any
    #: Whether a key and a value of zeros are appended.
    has_zeros: bool
    #: Keys and values of the heads in place of those that are computed, or None; shape (n * heads, sources, ...).
    keys: Any = None
    values: Any = None


@arrays_in_single
def multi_head_attention_forward(  # noqa: D417 - the arguments that belong together share a line
    query: Tensor | np.ndarray,
    key: Tensor | np.ndarray,
    value: Tensor | np.ndarray,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | np.ndarray | None,
    in_proj_bias: Tensor | np.ndarray | None,
    bias_k: Tensor | np.ndarray | None,
    bias_v: Tensor | np.ndarray | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor | np.ndarray,
    out_proj_bias: Tensor | np.ndarray | None,
    training: bool = True,
    key_padding_mask: Tensor | np.ndarray | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | np.ndarray | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | np.ndarray | None = None,
    k_proj_weight: Tensor | np.ndarray | None = None,
    v_proj_weight: Tensor | np.ndarray | None = None,
    static_k: Tensor | np.ndarray | None = None,
    static_v: Tensor | np.ndarray | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor | np.ndarray, Tensor | np.ndarray | None]:
    """Return the attended values of several heads, and the weights of the sources or None: see MultiheadAttention.

    Args:
        query, key, value: shapes `(targets, n, embed_dim)` and `(sources, n, features)`, or without n.
        embed_dim_to_check, num_heads: the features of the queries, and the number of heads, which divides them.
        in_proj_weight, in_proj_bias: the maps of all three, shapes `(3 * embed_dim, embed_dim)` and `(3 * embed_dim,)`.
        bias_k, bias_v, add_zero_attn: a key and a value to append, `(1, 1, embed_dim)` or None; add zeros too.
        dropout_p, training: the probability with which a weight is dropped, if `training`.
        out_proj_weight, out_proj_bias: the last linear map.
        key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal: as `MultiheadAttention.forward`'s.
        use_separate_proj_weight: take the next three, of `embed_dim` rows each, in place of `in_proj_weight`.
        q_proj_weight, k_proj_weight, v_proj_weight: the maps of the query, the key and the value.
        static_k, static_v: keys and values of the heads in place of those computed, `(n * num_heads, sources, d)`.

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.

    Source: torch.nn.functional.multi_head_attention_forward.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> x, maps, last = np.ones((5, 2, 8)), np.ones((24, 8)), np.eye(8)
        >>> nn.multi_head_attention_forward(x, x, x, 8, 4, maps, None, None, None, False, 0.0, last, None)[0].shape
        (5, 2, 8)
    """
    maps = (in_proj_weight, (q_proj_weight, k_proj_weight, v_proj_weight), use_separate_proj_weight)
    heads = _heads(
        embed_dim_to_check, num_heads, maps, in_proj_bias, (bias_k, bias_v, add_zero_attn, static_k, static_v)
    )
    masks, wanted = (attn_mask, key_padding_mask, is_causal), (need_weights, average_attn_weights)
    dropped = number(dropout_p, "dropout_p") if truth(training, "training") else 0.0
    return _forward((query, key, value), heads, masks, dropped, (out_proj_weight, out_proj_bias), wanted)


_NAME = "multi_head_attention_forward"


def _heads(features: int, number: int, maps: tuple[Any, Any, bool], bias: Any, added: tuple[Any, ...]) -> Heads:
    """Return the heads that the arguments of `multi_head_attention_forward` make."""
    features, number = whole_number(features, "embed_dim_to_check"), whole_number(number, "num_heads")
    if features < 1 or number < 1 or features % number:
        raise ArgumentError(f"{_NAME} needs num_heads that divides embed_dim_to_check={features}, not {number}")
    weight, separate, is_separate = maps
    is_separate = truth(is_separate, "use_separate_proj_weight")
    weights = tuple(map(operand, separate)) if is_separate else operand(weight)
    key, value, has_zeros, *static = added
    has_zeros = truth(has_zeros, "add_zero_attn")
    return Heads(number, features, _sizes(weights, features), weights, bias, key, value, has_zeros, *static)


def _forward(
    arrays: tuple[Any, Any, Any],
    heads: Heads,
    masks: tuple[Any, Any, bool],
    dropout_p: float,
    last: tuple[Any, Any],
    wanted: tuple[bool, bool],
) -> tuple[Any, Any]:
    attn_mask, padding_mask, is_causal = masks
    return attend_by_heads(
        *arrays,
        _NAME,
        heads,
        (attn_mask, padding_mask, truth(is_causal, "is_causal")),
        dropout_p,
        lambda joined: linear(joined, *last),
        is_batch_first=False,
        need_weights=truth(wanted[0], "need_weights"),
        averages=truth(wanted[1], "average_attn_weights"),
    )


def _sizes(weights: Any, features: int) -> tuple[int, int, int]:
    """Return how many features the queries, keys and values have."""
    each = weights if isinstance(weights, tuple) else (weights,)
    shapes = [None if one is None else array_of(one).shape for one in each]
    if len(shapes) == 1 and shapes[0] == (3 * features, features):
        return features, features, features
    if len(shapes) == 3 and all(shape is not None and shape[:-1] == (features,) for shape in shapes):
        query, key, value = (shape[-1] for shape in shapes if shape is not None)
        return query, key, value
    expected = (
        f"in_proj_weight of shape {(3 * features, features)}"
        if len(shapes) == 1
        else f"q_proj_weight, k_proj_weight and v_proj_weight of shape ({features}, features)"
    )
    raise ArgumentError(f"{_NAME} takes {expected}, not {', '.join(map(str, shapes))}")


@on_device_of_arguments
def attend_by_heads(
    query: Any,
    key: Any,
    value: Any,
    function: str,
    heads: Heads,
    masks: tuple[Any, Any, bool],
    dropout_p: float,
    project: Callable[[Any], Any],
    *,
    is_batch_first: bool,
    need_weights: bool,
    averages: bool,
) -> tuple[Any, Any]:
    """Return what `multi_head_attention_forward` does.

    Args:
        query: as there.
        key: as there.
        value: as there.
        function: the caller, for errors.
        heads: what they do.
        masks: `attn_mask`, `key_padding_mask` and `is_causal`.
        dropout_p: the probability with which a weight is dropped.
        project: the last linear map.
        is_batch_first: whether n is the first axis, or the second one.
        need_weights: whether the weights are returned.
        averages: whether they are those of all heads together.
    """
    is_single = _check(function, heads.sizes, (query, key, value), is_batch_first)
    if is_single:
        query, key, value = (np.expand_dims(one, 0) for one in (query, key, value))
    elif not is_batch_first:
        same_key, same_value = key is query, value is key
        query = np.swapaxes(query, 0, 1)
        key = query if same_key else np.swapaxes(key, 0, 1)
        value = key if same_value else np.swapaxes(value, 0, 1)
    q, k, v = _with_added(heads, *_projected(heads, query, key, value))
    mask = _mask(masks, int(heads.added_key is not None) + int(heads.has_zeros), q, k, is_single)
    attended, weights = attend(q, k, v, mask, dropout_p, False, None, None)
    shape = array_of(attended).shape
    joined = np.reshape(np.swapaxes(attended, 1, 2), (shape[0], shape[2], heads.features))
    output = project(joined)
    if not need_weights:
        weights = None
    elif averages:
        weights = np.mean(weights, axis=1)
    if is_single:
        return output[0], None if weights is None else weights[0]
    return (output if is_batch_first else np.swapaxes(output, 0, 1)), weights


def _check(function: str, sizes: tuple[int, int, int], arrays: tuple[Any, Any, Any], is_batch_first: bool) -> bool:
    """Return whether the arguments are without n."""
    shapes = [array_of(one).shape for one in arrays]
    axes = {len(shape) for shape in shapes}
    order = "n, length" if is_batch_first else "length, n"
    if axes not in ({2}, {3}) or any(shape[-1] != size for shape, size in zip(shapes, sizes, strict=True)):
        raise ArgumentError(
            f"{function} takes query, key and value of shape ({order}, features), or without n, of "
            f"{sizes[0]}, {sizes[1]} and {sizes[2]} features, not {shapes[0]}, {shapes[1]} and {shapes[2]}"
        )
    batch = 0 if is_batch_first else 1
    if shapes[1][:-1] != shapes[2][:-1] or (axes == {3} and shapes[0][batch] != shapes[1][batch]):
        raise ArgumentError(
            f"{function} takes as many keys as values, and as many samples of each as of queries: query, "
            f"key and value have shapes {shapes[0]}, {shapes[1]} and {shapes[2]}"
        )
    return axes == {2}


def _projected(heads: Heads, query: Any, key: Any, value: Any) -> tuple[Any, Any, Any]:
    """Return the linear maps of the arguments, shape (n, length, features)."""
    features, weight, bias = heads.features, heads.weights, heads.bias
    is_one = not isinstance(weight, tuple)
    if is_one and query is key and key is value:
        q, k, v = np.split(linear(query, weight, bias), 3, axis=-1)
        return q, k, v
    weights = np.split(weight, 3) if is_one else weight
    biases = [None] * 3 if bias is None else [bias[i * features : (i + 1) * features] for i in range(3)]
    first, second, third = (linear(*each) for each in zip((query, key, value), weights, biases, strict=True))
    return first, second, third


def _with_added(heads: Heads, q: Any, k: Any, v: Any) -> tuple[Any, Any, Any]:
    """Return the heads' queries, keys and values, shape (n, heads, length, features), with the added ones."""
    n, features = array_of(k).shape[0], heads.features
    if heads.added_key is not None and heads.added_value is not None:
        k = np.concatenate((k, np.broadcast_to(heads.added_key, (n, 1, features))), axis=1)
        v = np.concatenate((v, np.broadcast_to(heads.added_value, (n, 1, features))), axis=1)
    has_given = heads.keys is not None or heads.values is not None
    if heads.has_zeros and not has_given:
        zeros = np.zeros_like(array_of(k), shape=(n, 1, features))
        k, v = np.concatenate((k, zeros), axis=1), np.concatenate((v, zeros), axis=1)
    each = (heads.number, features // heads.number)
    q, k, v = (np.swapaxes(np.reshape(one, (*array_of(one).shape[:2], *each)), 1, 2) for one in (q, k, v))
    if not has_given:
        return q, k, v
    k, v = _given(heads, "static_k", heads.keys, k), _given(heads, "static_v", heads.values, v)
    if heads.has_zeros:
        zeros = np.zeros_like(array_of(k), shape=(n, heads.number, 1, each[1]))
        k, v = np.concatenate((k, zeros), axis=2), np.concatenate((v, zeros), axis=2)
    return q, k, v


def _given(heads: Heads, name: str, given: Any, computed: Any) -> Any:
    """Return the keys or values that are given in place of those computed."""
    if given is None:
        return computed
    if heads.added_key is not None:
        raise ArgumentError(f"multi_head_attention_forward takes {name} or bias_k and bias_v, not both")
    n, count, _, features = array_of(computed).shape
    shape = array_of(given).shape
    if len(shape) != 3 or (shape[0], shape[2]) != (n * count, features):
        raise ArgumentError(f"{name} must have shape ({n * count}, sources, {features}), not {shape}")
    return np.reshape(given, (n, count, shape[1], features))


def _mask(masks: tuple[Any, Any, bool], added: int, q: Any, k: Any, is_single: bool) -> Any:
    """Return the mask of the scores: booleans, true where a target may attend, or numbers to add; or None.

    Args:
        masks: `attn_mask`, `key_padding_mask` and `is_causal`.
        added: how many sources are appended, to which each target may attend.
        q: the heads' queries.
        k: their keys, with the appended ones.
        is_single: whether the arguments are without n.
    """
    attn_mask, padding_mask, is_causal = masks
    n, heads, targets = array_of(q).shape[:3]
    sources = array_of(k).shape[2] - added
    found = []
    if attn_mask is not None:
        shape = array_of(attn_mask).shape
        if shape not in ((targets, sources), (n * heads, targets, sources)):
            raise ArgumentError(
                f"attn_mask must have shape {(targets, sources)} or {(n * heads, targets, sources)}, not {shape}"
            )
        check_mask("attn_mask", attn_mask)
        found.append(attn_mask if len(shape) == 2 else np.reshape(attn_mask, (n, heads, targets, sources)))
    elif is_causal:
        found.append(as_like(~np.tri(targets, sources, dtype=bool), array_of(q)))
    if padding_mask is not None:
        shape = array_of(padding_mask).shape
        expected = (sources,) if is_single else (n, sources)
        if shape != expected:
            raise ArgumentError(f"key_padding_mask must have shape {expected}, not {shape}")
        check_mask("key_padding_mask", padding_mask)
        found.append(np.reshape(padding_mask, (n, 1, 1, sources)))
    if not found:
        return None
    if all(array_of(mask).dtype.kind == "b" for mask in found):
        forbidden = [array_of(mask) for mask in found]
        combined = ~forbidden[0] if len(forbidden) == 1 else ~(forbidden[0] | forbidden[1])
        filler: Any = np.ones_like(combined, shape=(*combined.shape[:-1], added))
    else:
        numbers = [_as_numbers(mask, array_of(q).dtype) for mask in found]
        combined = numbers[0] if len(numbers) == 1 else numbers[0] + numbers[1]
        filler = np.zeros_like(array_of(combined), shape=(*array_of(combined).shape[:-1], added))
    return np.concatenate((combined, filler), axis=-1) if added else combined


def _as_numbers(mask: Any, dtype: Any) -> Any:
    data = array_of(mask)
    return np.where(data, np.array(-np.inf, dtype), np.array(0, dtype)) if data.dtype.kind == "b" else mask
