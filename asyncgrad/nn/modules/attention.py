"""Attention with several heads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from ...core.settings.arguments import number, truth, whole_number
from ...core.tensor import Tensor
from ...errors import ArgumentError
from .. import init
from ..functional.multi_head import Heads, attend_by_heads
from .linear import Linear
from .module import Module
from .parameters import new_parameter, size

if TYPE_CHECKING:
    import numpy as np
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
        separate = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        heads = Heads(
            self.num_heads,
            self.embed_dim,
            (self.embed_dim, self.kdim, self.vdim),
            separate if self.in_proj_weight is None else self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
        )
        return attend_by_heads(
            *(query, key, value),
            "MultiheadAttention",
            heads,
            (attn_mask, key_padding_mask, truth(is_causal, "is_causal")),
            self.dropout if self.training else 0.0,
            self.out_proj,
            is_batch_first=self.batch_first,
            need_weights=truth(need_weights, "need_weights"),
            averages=truth(average_attn_weights, "average_attn_weights"),
        )


def probability(dropout: Any) -> float:
    """Return a probability of dropout as a number.

    Raises:
        ArgumentError: it is not from 0 to 1.
    """
    found = number(dropout, "dropout")
    if not 0 <= found <= 1:
        raise ArgumentError(f"dropout must be a probability from 0 to 1, not {dropout}")
    return found
