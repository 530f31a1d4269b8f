"""The layers of a transformer."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np

from ...core.settings.arguments import truth
from ...core.settings.default_dtype import floating_dtype
from ...core.tensor import Tensor, tensor
from ...errors import ArgumentError
from .. import init
from ..functional.activations import gelu, relu
from ..functional.dropout import dropout
from ..shared.arguments import array_of
from .attention import MultiheadAttention, probability
from .containers import ModuleList
from .linear import Linear
from .module import Module
from .normalization import LayerNorm
from .parameters import size

if TYPE_CHECKING:
    import numpy.typing as npt

    from .parameters import Place


__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]


def _activation(activation: Any) -> Callable[[Any], Any]:
    if callable(activation):
        return activation
    found = {"relu": relu, "gelu": gelu}.get(activation)
    if found is None:
        raise ArgumentError(f"activation must be 'relu', 'gelu' or a function, not {activation!r}")
    return found


class TransformerLayer(Module):
    """Abstract: what the layers of encoders and decoders share."""

    #: The names of the layers of attention.
    _attentions: ClassVar[tuple[str, ...]]

    self_attn: MultiheadAttention
    norm1: LayerNorm
    norm2: LayerNorm

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[..., Any] = relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Place = None,
        dtype: npt.DTypeLike | None = None,
    ) -> None:
        place: dict[str, Any] = {"device": device, "dtype": dtype}
        for name in self._attentions:
            attention = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **place)
            setattr(self, name, attention)
        self.linear1: Any = Linear(d_model, dim_feedforward, bias, **place)
        self.linear2: Any = Linear(dim_feedforward, d_model, bias, **place)
        self.norm_first: bool = truth(norm_first, "norm_first")
        self.dropout_p: float = probability(dropout)
        self.activation = _activation(activation)
        # One after each attention, and one after the network.
        for index in range(1, len(self._attentions) + 2):
            setattr(self, f"norm{index}", LayerNorm(d_model, layer_norm_eps, bias=bias, **place))

    def _dropped(self, x: Any) -> Any:
        return dropout(x, self.dropout_p, training=self.training) if self.dropout_p else x

    def _feed_forward(self, x: Any) -> Any:
        return self._dropped(self.linear2(self._dropped(self.activation(self.linear1(x)))))

    def _attend(self, attention: Any, x: Any, memory: Any, mask: Any, padding_mask: Any, is_causal: bool) -> Any:
        attended, _ = attention(x, memory, memory, padding_mask, False, mask, True, is_causal)
        return self._dropped(attended)


@final
class TransformerEncoderLayer(TransformerLayer):
    """Self-attention and a network of two linear maps, each with a residual connection and layer normalization.

    Args:
        d_model: features.
        nhead: the number of heads.
        dim_feedforward: features between the two linear maps.
        dropout: the probability with which elements are dropped in training.
        activation: "relu", "gelu" or a function.
        layer_norm_eps: of the layer normalizations.
        batch_first: arrays have the shape `(n, length, d_model)`, not `(length, n, d_model)`.
        norm_first: normalize before attention and network, not after.
        bias: add biases.
        device: of the parameters.
        dtype: of the parameters.

    Source: torch.nn.TransformerEncoderLayer.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()(np.ones((3, 5, 8))).shape
        (3, 5, 8)
    """

    _attentions = ("self_attn",)

    def forward(
        self,
        src: Tensor | np.ndarray,
        src_mask: Tensor | np.ndarray | None = None,
        src_key_padding_mask: Tensor | np.ndarray | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Return the features of the sequence; the masks are those of MultiheadAttention."""
        x = src
        if self.norm_first:
            entering = self.norm1(x)
            x = x + self._attend(self.self_attn, entering, entering, src_mask, src_key_padding_mask, is_causal)
            return x + self._feed_forward(self.norm2(x))
        x = self.norm1(x + self._attend(self.self_attn, x, x, src_mask, src_key_padding_mask, is_causal))
        return self.norm2(x + self._feed_forward(x))


@final
class TransformerDecoderLayer(TransformerLayer):
    """Self-attention, attention to the result of an encoder, and a network of two linear maps.

    Args:
        d_model: features.
        nhead: the number of heads.
        dim_feedforward: features between the two linear maps.
        dropout: the probability with which elements are dropped in training.
        activation: "relu", "gelu" or a function.
        layer_norm_eps: of the layer normalizations.
        batch_first: arrays have the shape `(n, length, d_model)`, not `(length, n, d_model)`.
        norm_first: normalize before attention and network, not after.
        bias: add biases.
        device: of the parameters.
        dtype: of the parameters.

    Source: torch.nn.TransformerDecoderLayer.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> layer = nn.TransformerDecoderLayer(8, 2, 16, batch_first=True).eval()
        >>> layer(np.ones((3, 5, 8)), np.ones((3, 7, 8))).shape
        (3, 5, 8)
    """

    _attentions = ("self_attn", "multihead_attn")

    multihead_attn: MultiheadAttention
    norm3: LayerNorm

    def forward(
        self,
        tgt: Tensor | np.ndarray,
        memory: Tensor | np.ndarray,
        tgt_mask: Tensor | np.ndarray | None = None,
        memory_mask: Tensor | np.ndarray | None = None,
        tgt_key_padding_mask: Tensor | np.ndarray | None = None,
        memory_key_padding_mask: Tensor | np.ndarray | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the features of the sequence; the masks are those of MultiheadAttention."""
        x = tgt
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory_mask, memory_key_padding_mask, memory_is_causal)
        if self.norm_first:
            entering = self.norm1(x)
            x = x + self._attend(self.self_attn, entering, entering, *own)
            x = x + self._attend(self.multihead_attn, self.norm2(x), memory, *other)
            return x + self._feed_forward(self.norm3(x))
        x = self.norm1(x + self._attend(self.self_attn, x, x, *own))
        x = self.norm2(x + self._attend(self.multihead_attn, x, memory, *other))
        return self.norm3(x + self._feed_forward(x))


@final
class TransformerEncoder(Module):
    """Copies of an encoder layer, one after the other.

    Args:
        encoder_layer: which is copied, with its parameters.
        num_layers: the number of copies.
        norm: a module that is called last, or None.
        enable_nested_tensor: not used: there are no tensors of rows of several lengths.
        mask_check: not used: masks are always looked at.

    Source: torch.nn.TransformerEncoder.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> layer = nn.TransformerEncoderLayer(8, 2, 16)
        >>> nn.TransformerEncoder(layer, 3).eval()(np.ones((5, 2, 8))).shape
        (5, 2, 8)
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        self.enable_nested_tensor: bool = truth(enable_nested_tensor, "enable_nested_tensor")
        self.mask_check: bool = truth(mask_check, "mask_check")
        self.num_layers: int = size(num_layers, "num_layers")
        self.layers: Any = ModuleList([copy.deepcopy(encoder_layer) for _ in range(self.num_layers)])
        self.norm = norm

    def forward(
        self,
        src: Tensor | np.ndarray,
        mask: Tensor | np.ndarray | None = None,
        src_key_padding_mask: Tensor | np.ndarray | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Return the features of the sequence after the last layer."""
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, is_causal)
        return src if self.norm is None else self.norm(src)


@final
class TransformerDecoder(Module):
    """Copies of a decoder layer, one after the other.

    Args:
        decoder_layer: which is copied, with its parameters.
        num_layers: the number of copies.
        norm: a module that is called last, or None.

    Source: torch.nn.TransformerDecoder.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> layer = nn.TransformerDecoderLayer(8, 2, 16)
        >>> nn.TransformerDecoder(layer, 3).eval()(np.ones((5, 2, 8)), np.ones((4, 2, 8))).shape
        (5, 2, 8)
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        self.num_layers: int = size(num_layers, "num_layers")
        self.layers: Any = ModuleList([copy.deepcopy(decoder_layer) for _ in range(self.num_layers)])
        self.norm = norm

    def forward(
        self,
        tgt: Tensor | np.ndarray,
        memory: Tensor | np.ndarray,
        tgt_mask: Tensor | np.ndarray | None = None,
        memory_mask: Tensor | np.ndarray | None = None,
        tgt_key_padding_mask: Tensor | np.ndarray | None = None,
        memory_key_padding_mask: Tensor | np.ndarray | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the features of the sequence after the last layer."""
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        for layer in self.layers:
            tgt = layer(tgt, memory, *masks, tgt_is_causal, memory_is_causal)
        return tgt if self.norm is None else self.norm(tgt)


@final
class Transformer(Module):
    """An encoder of a sequence, and a decoder of another one that attends to what the encoder returns.

    Args:
        d_model: features.
        nhead: the number of heads.
        num_encoder_layers: the number of layers of the encoder.
        num_decoder_layers: the number of layers of the decoder.
        dim_feedforward: features between the two linear maps of a layer.
        dropout: the probability with which elements are dropped in training.
        activation: "relu", "gelu" or a function.
        custom_encoder: a module in place of the encoder.
        custom_decoder: a module in place of the decoder.
        layer_norm_eps: of the layer normalizations.
        batch_first: arrays have the shape `(n, length, d_model)`, not `(length, n, d_model)`.
        norm_first: normalize before attention and network, not after.
        bias: add biases.
        device: of the parameters.
        dtype: of the parameters.

    Source: torch.nn.Transformer; A. Vaswani et al., "Attention is all you need" (2017).

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> model = nn.Transformer(8, 2, 1, 1, 16, batch_first=True).eval()
        >>> model(np.ones((3, 7, 8)), np.ones((3, 5, 8))).shape
        (3, 5, 8)
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[..., Any] = relu,
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Place = None,
        dtype: npt.DTypeLike | None = None,
    ) -> None:
        options: Any = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first)
        place: Any = {"bias": bias, "device": device, "dtype": dtype}

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, **place)

        self.encoder: Any = custom_encoder
        if custom_encoder is None:
            self.encoder = TransformerEncoder(TransformerEncoderLayer(*options, **place), num_encoder_layers, norm())
        self.decoder: Any = custom_decoder
        if custom_decoder is None:
            self.decoder = TransformerDecoder(TransformerDecoderLayer(*options, **place), num_decoder_layers, norm())
        self.d_model: int = size(d_model, "d_model")
        self.nhead: int = size(nhead, "nhead")
        self.batch_first: bool = truth(batch_first, "batch_first")
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        """Draw all matrices by Xavier's rule."""
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Place = None, dtype: npt.DTypeLike | None = None) -> Tensor:
        """Return the mask that lets target i attend to the sources 0 to i only.

        Args:
            sz: the length of the sequence.
            device: where the mask is.
            dtype: of the mask; None for the default one.

        Returns:
            Numbers to add to the scores, shape `(sz, sz)`: 0, and minus infinity above the diagonal.
        """
        count = size(sz, "sz")
        mask = np.where(np.tri(count, dtype=bool), 0.0, -np.inf).astype(floating_dtype(dtype))
        return tensor(mask, device=device)

    def forward(
        self,
        src: Tensor | np.ndarray,
        tgt: Tensor | np.ndarray,
        src_mask: Tensor | np.ndarray | None = None,
        tgt_mask: Tensor | np.ndarray | None = None,
        memory_mask: Tensor | np.ndarray | None = None,
        src_key_padding_mask: Tensor | np.ndarray | None = None,
        tgt_key_padding_mask: Tensor | np.ndarray | None = None,
        memory_key_padding_mask: Tensor | np.ndarray | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the features of the sequence `tgt`; the masks are those of MultiheadAttention.

        Raises:
            ArgumentError: the sequences are not of `d_model` features, or not of as many samples.
        """
        shapes = array_of(src).shape, array_of(tgt).shape
        batch = 0 if self.batch_first else 1
        has_batch = len(shapes[0]) == 3
        if len(shapes[0]) != len(shapes[1]) or len(shapes[0]) not in (2, 3):
            raise ArgumentError(
                f"Transformer takes src and tgt of 2 or 3 axes each, not of shapes {shapes[0]}, {shapes[1]}"
            )
        if has_batch and shapes[0][batch] != shapes[1][batch]:
            raise ArgumentError(
                f"Transformer takes as many samples of src as of tgt, on axis {batch}, not the shapes {shapes[0]} and "
                f"{shapes[1]}"
            )
        if shapes[0][-1] != self.d_model or shapes[1][-1] != self.d_model:
            raise ArgumentError(
                f"Transformer takes src and tgt of {self.d_model} features, not of shapes {shapes[0]} and {shapes[1]}"
            )
        memory = self.encoder(src, src_mask, src_key_padding_mask, bool(src_is_causal))
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        found: Tensor = self.decoder(tgt, memory, *masks, bool(tgt_is_causal), memory_is_causal)
        return found
