"""Attention with several heads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np

from ...core.arrays.values import as_like
from ...core.settings.arguments import number, truth, whole_number
from ...core.tensor import Tensor
from ...errors import ArgumentError
from .. import init
from ..functional.attention import attend, check_mask
from ..functional.linear import linear
from ..shared.arguments import array_of
from .linear import Linear
from .module import Module
from .parameters import new_parameter, size

if TYPE_CHECKING:
    import numpy.typing as npt

    from .parameters import Place


__all__ = ["MultiheadAttention", "probability"]


@final
class MultiheadAttention(Module):
    """Attention of several heads, each over its own linear maps of the queries, keys and values.

    A mask of booleans is true where a target may **not** attend to a source, as in PyTorch's layer, and unlike
    `nn.scaled_dot_product_attention`.

    Args:
        embed_dim: features of the queries and of the result.
        num_heads: the number of heads, which divides embed_dim.
        dropout: the probability with which a weight is dropped in training.
        bias: add biases.
        add_bias_kv: append a key and a value that are learned.
        add_zero_attn: append a key and a value of zeros.
        kdim: features of the keys; None for embed_dim.
        vdim: features of the values; None for embed_dim.
        batch_first: arrays have the shape `(n, length, features)`, not `(length, n, features)`.
        device: of the parameters.
        dtype: of the parameters.

    Source: torch.nn.MultiheadAttention.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> x = np.ones((2, 5, 8))
        >>> output, weights = nn.MultiheadAttention(8, 4, batch_first=True)(x, x, x)
        >>> output.shape, weights.shape
        ((2, 5, 8), (2, 5, 5))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Place = None,
        dtype: npt.DTypeLike | None = None,
    ) -> None:
        embed_dim, num_heads = whole_number(embed_dim, "embed_dim"), whole_number(num_heads, "num_heads")
        if embed_dim < 1 or num_heads < 1 or embed_dim % num_heads:
            raise ArgumentError(
                f"MultiheadAttention needs num_heads that divides embed_dim={embed_dim}, not {num_heads}"
            )
        self.embed_dim: int = embed_dim
        self.num_heads: int = num_heads
        self.dropout: float = probability(dropout)
        self.batch_first: bool = truth(batch_first, "batch_first")
        self.kdim: int = embed_dim if kdim is None else size(kdim, "kdim")
        self.vdim: int = embed_dim if vdim is None else size(vdim, "vdim")
        self.add_zero_attn: bool = truth(add_zero_attn, "add_zero_attn")
        has_added = truth(add_bias_kv, "add_bias_kv")
        self.in_proj_weight: Tensor | None = None
        self.q_proj_weight: Tensor | None = None
        self.k_proj_weight: Tensor | None = None
        self.v_proj_weight: Tensor | None = None
        if self.kdim == self.vdim == embed_dim:
            self.in_proj_weight = new_parameter((3 * embed_dim, embed_dim), device, dtype)
        else:
            self.q_proj_weight = new_parameter((embed_dim, embed_dim), device, dtype)
            self.k_proj_weight = new_parameter((embed_dim, self.kdim), device, dtype)
            self.v_proj_weight = new_parameter((embed_dim, self.vdim), device, dtype)
        self.in_proj_bias: Tensor | None = (
            new_parameter((3 * embed_dim,), device, dtype) if truth(bias, "bias") else None
        )
        self.bias_k: Tensor | None = new_parameter((1, 1, embed_dim), device, dtype) if has_added else None
        self.bias_v: Tensor | None = new_parameter((1, 1, embed_dim), device, dtype) if has_added else None
        self.out_proj: Any = Linear(embed_dim, embed_dim, bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights by Xavier's rule, and set the biases to zeros."""
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def extra_repr(self) -> str:
        """Return the options that the layer shows in its repr."""
        return f"{self.embed_dim}, num_heads={self.num_heads}, batch_first={self.batch_first}"

    def forward(
        self,
        query: Tensor | np.ndarray,
        key: Tensor | np.ndarray,
        value: Tensor | np.ndarray,
        key_padding_mask: Tensor | np.ndarray | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | np.ndarray | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the attended values, and the weights of the sources or None.

        Args:
            query: shape `(targets, n, embed_dim)`, or without n.
            key: shape `(sources, n, kdim)`, or without n.
            value: shape `(sources, n, vdim)`, or without n.
            key_padding_mask: shape `(n, sources)`: booleans, true where a source is to be ignored, or numbers to add
                to the scores.
            need_weights: return the weights too.
            attn_mask: shape `(targets, sources)` or `(n * num_heads, targets, sources)`: booleans, true where a target
                may not attend to a source, or numbers to add to the scores.
            average_attn_weights: return the mean of the weights over the heads, shape `(n, targets, sources)`, not
                `(n, num_heads, targets, sources)`.
            is_causal: let target i attend to the sources 0 to i only; PyTorch asks for the same attn_mask, too.

        A target that may attend to no source has weights of zeros. (PyTorch's are NaNs if `need_weights`, and zeros
        otherwise.)
        """
        is_single = self._check(query, key, value)
        if is_single:
            query, key, value = (np.expand_dims(one, 0) for one in (query, key, value))
        elif not self.batch_first:
            same_key, same_value = key is query, value is key
            query = np.swapaxes(query, 0, 1)
            key = query if same_key else np.swapaxes(key, 0, 1)
            value = key if same_value else np.swapaxes(value, 0, 1)
        q, k, v = self._with_added(*self._projected(query, key, value))
        mask = self._mask(attn_mask, key_padding_mask, q, k, truth(is_causal, "is_causal"))
        probability = self.dropout if self.training else 0.0
        attended, weights = attend(q, k, v, mask, probability, False, None, None)
        shape = array_of(attended).shape
        joined = np.reshape(np.swapaxes(attended, 1, 2), (shape[0], shape[2], self.embed_dim))
        output = self.out_proj(joined)
        if not truth(need_weights, "need_weights"):
            weights = None
        elif truth(average_attn_weights, "average_attn_weights"):
            weights = np.mean(weights, axis=1)
        if is_single:
            return output[0], None if weights is None else weights[0]
        return (output if self.batch_first else np.swapaxes(output, 0, 1)), weights

    def _check(self, query: Any, key: Any, value: Any) -> bool:
        """Return whether the arguments are without n."""
        shapes = [array_of(one).shape for one in (query, key, value)]
        sizes = (self.embed_dim, self.kdim, self.vdim)
        axes = {len(shape) for shape in shapes}
        order = "n, length" if self.batch_first else "length, n"
        if axes not in ({2}, {3}) or any(shape[-1] != size for shape, size in zip(shapes, sizes, strict=True)):
            raise ArgumentError(
                f"MultiheadAttention takes query, key and value of shape ({order}, features), or without n, of "
                f"{sizes[0]}, {sizes[1]} and {sizes[2]} features, not {shapes[0]}, {shapes[1]} and {shapes[2]}"
            )
        batch = 0 if self.batch_first else 1
        if shapes[1][:-1] != shapes[2][:-1] or (axes == {3} and shapes[0][batch] != shapes[1][batch]):
            raise ArgumentError(
                "MultiheadAttention takes as many keys as values, and as many samples of each as of queries: query, "
                f"key and value have shapes {shapes[0]}, {shapes[1]} and {shapes[2]}"
            )
        return axes == {2}

    def _projected(self, query: Any, key: Any, value: Any) -> tuple[Any, Any, Any]:
        """Return the linear maps of the arguments, shape (n, length, embed_dim)."""
        features, weight, bias = self.embed_dim, self.in_proj_weight, self.in_proj_bias
        if weight is not None and query is key and key is value:
            q, k, v = np.split(linear(query, weight, bias), 3, axis=-1)
            return q, k, v
        weights: Any = [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        if weight is not None:
            weights = np.split(weight, 3)
        biases = [None] * 3 if bias is None else [bias[i * features : (i + 1) * features] for i in range(3)]
        first, second, third = (linear(*each) for each in zip((query, key, value), weights, biases, strict=True))
        return first, second, third

    def _with_added(self, q: Any, k: Any, v: Any) -> tuple[Any, Any, Any]:
        """Return the heads' queries, keys and values, shape (n, heads, length, features), with the added ones."""
        n = array_of(k).shape[0]
        if self.bias_k is not None and self.bias_v is not None:
            k = np.concatenate((k, np.broadcast_to(self.bias_k, (n, 1, self.embed_dim))), axis=1)
            v = np.concatenate((v, np.broadcast_to(self.bias_v, (n, 1, self.embed_dim))), axis=1)
        if self.add_zero_attn:
            zeros = np.zeros_like(array_of(k), shape=(n, 1, self.embed_dim))
            k, v = np.concatenate((k, zeros), axis=1), np.concatenate((v, zeros), axis=1)
        heads = (self.num_heads, self.embed_dim // self.num_heads)
        q, k, v = (np.swapaxes(np.reshape(one, (*array_of(one).shape[:2], *heads)), 1, 2) for one in (q, k, v))
        return q, k, v

    def _mask(self, attn_mask: Any, padding_mask: Any, q: Any, k: Any, is_causal: bool) -> Any:
        """Return the mask of the scores: booleans, true where a target may attend, or numbers to add; or None."""
        n, heads, targets = array_of(q).shape[:3]
        total = array_of(k).shape[2]
        added = int(self.bias_k is not None) + int(self.add_zero_attn)
        sources = total - added
        masks = []
        if attn_mask is not None:
            shape = array_of(attn_mask).shape
            if shape not in ((targets, sources), (n * heads, targets, sources)):
                raise ArgumentError(
                    f"attn_mask must have shape {(targets, sources)} or {(n * heads, targets, sources)}, not {shape}"
                )
            check_mask("attn_mask", attn_mask)
            masks.append(attn_mask if len(shape) == 2 else np.reshape(attn_mask, (n, heads, targets, sources)))
        elif is_causal:
            masks.append(as_like(~np.tri(targets, sources, dtype=bool), array_of(q)))
        if padding_mask is not None:
            shape = array_of(padding_mask).shape
            if shape != (n, sources) and not (n == 1 and shape == (sources,)):
                raise ArgumentError(f"key_padding_mask must have shape {(n, sources)}, not {shape}")
            check_mask("key_padding_mask", padding_mask)
            masks.append(np.reshape(padding_mask, (n, 1, 1, sources)))
        if not masks:
            return None
        if all(array_of(mask).dtype.kind == "b" for mask in masks):
            forbidden = [array_of(mask) for mask in masks]
            combined = ~forbidden[0] if len(forbidden) == 1 else ~(forbidden[0] | forbidden[1])
            filler: Any = np.ones_like(combined, shape=(*combined.shape[:-1], added))
        else:
            numbers = [_as_numbers(mask, array_of(q).dtype) for mask in masks]
            combined = numbers[0] if len(numbers) == 1 else numbers[0] + numbers[1]
            filler = np.zeros_like(array_of(combined), shape=(*array_of(combined).shape[:-1], added))
        return np.concatenate((combined, filler), axis=-1) if added else combined


def _as_numbers(mask: Any, dtype: Any) -> Any:
    data = array_of(mask)
    return np.where(data, np.array(-np.inf, dtype), np.array(0, dtype)) if data.dtype.kind == "b" else mask


def probability(dropout: Any) -> float:
    """Return a probability of dropout as a number.

    Raises:
        ArgumentError: it is not from 0 to 1.
    """
    found = number(dropout, "dropout")
    if not 0 <= found <= 1:
        raise ArgumentError(f"dropout must be a probability from 0 to 1, not {dropout}")
    return found
