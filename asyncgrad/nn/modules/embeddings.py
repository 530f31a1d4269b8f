"""Tables of vectors."""

from __future__ import annotations

from operator import setitem
from typing import TYPE_CHECKING, final

from ...core.arrays.interception import on_device_of
from ...core.settings.arguments import truth, whole_number
from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError
from .. import init
from ..functional.embeddings import embedding, embedding_bag
from .module import Module, Parameter
from .parameters import Place, given_number, given_number_or_infinity, new_parameter, size

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


__all__ = ["Embedding", "EmbeddingBag"]


class _Table(Module):
    """Abstract base of layers that have a table of vectors."""

    weight: Tensor

    def _describe(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None,
        max_norm: float | None,
        norm_type: float,
        scale_grad_by_freq: bool,
    ) -> None:
        """Take over what the table is like, and how it is looked up."""
        self.num_embeddings: int = size(num_embeddings, "num_embeddings")
        self.embedding_dim: int = size(embedding_dim, "embedding_dim")
        if padding_idx is not None:
            padding_idx = whole_number(padding_idx, "padding_idx")
            if not -self.num_embeddings <= padding_idx < self.num_embeddings:
                raise ArgumentError(f"padding_idx {padding_idx} is no row of a table of {num_embeddings}")
            padding_idx %= self.num_embeddings
        self.padding_idx = padding_idx
        self.max_norm: float | None = None if max_norm is None else given_number(max_norm, "max_norm", 0)
        self.norm_type: float = given_number_or_infinity(norm_type, "norm_type")
        self.scale_grad_by_freq: bool = truth(scale_grad_by_freq, "scale_grad_by_freq")

    def reset_parameters(self) -> None:
        """Draw the table anew."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            on_device_of(self.weight._data, setitem, self.padding_idx, 0)


@final
class Embedding(_Table):
    """A table of vectors, looked up by number.

    Args:
        num_embeddings: the number of rows.
        embedding_dim: the size of each row.
        padding_idx: the number of a row that is 0 and gets no gradient; a negative one counts from the end.
        max_norm: rows whose norm is above this number are scaled down to it, in place, when they are looked up.
        norm_type: the p of that p-norm; `math.inf` for the largest absolute value.
        scale_grad_by_freq: divide the gradient of each row by how often it is looked up in a call.
        sparse: not used: gradients are dense.
        device: where the table lives.
        dtype: its dtype; None for the default one.

    Attributes:
        weight: shape `(num_embeddings, embedding_dim)`, drawn from the normal distribution.

    Source: torch.nn.Embedding.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        *,
        device: Place = None,
        dtype: npt.DTypeLike | None = None,
    ) -> None:
        self._describe(num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq)
        self.sparse: bool = truth(sparse, "sparse")
        self.weight = new_parameter((self.num_embeddings, self.embedding_dim), device, dtype)
        self.reset_parameters()

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor | np.ndarray,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """Return a layer with a given table, which it copies.

        Args:
            embeddings: shape `(num_embeddings, embedding_dim)`.
            freeze: whether the table does not require grad.
            padding_idx: as for the class; its row stays what it is.
            max_norm: as for the class, like all that follow.
            norm_type: of `max_norm`.
            scale_grad_by_freq: whether gradients are divided.
            sparse: not used.

        Raises:
            ArgumentError: the table has not two axes.
        """
        table = _table_of(embeddings)
        rows, features = table.shape
        options = (padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
        layer = cls(rows, features, *options, device=table.device, dtype=table.dtype)
        layer.weight = table.copy().requires_grad_(not truth(freeze, "freeze"))
        return layer

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return the rows, shape `(..., embedding_dim)`.

        Args:
            input: whole numbers of any shape `(...)`.
        """
        return embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq)

    def extra_repr(self) -> str:
        """Return the shape of the table, and the options."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        return text + (", scale_grad_by_freq=True" if self.scale_grad_by_freq else "")


@final
class EmbeddingBag(_Table):
    """A table of vectors, whose sums, means or maxima over bags of numbers are looked up: see `nn.embedding_bag`.

    Args:
        num_embeddings: the number of rows.
        embedding_dim: the size of each row.
        max_norm: rows whose norm is above this number are scaled down to it, in place, when they are looked up.
        norm_type: the p of that p-norm; `math.inf` for the largest absolute value.
        scale_grad_by_freq: divide the gradient of each row by how often it is looked up in a call.
        mode: "sum", "mean" or "max".
        sparse: not used: gradients are dense.
        _weight: the table, which is shared, not copied; None for one that is drawn.
        include_last_offset: the last one of the offsets is where the last bag ends.
        padding_idx: the number of a row that is 0 and in no bag; a negative one counts from the end.
        device: where the table lives.
        dtype: its dtype; None for the default one.

    Attributes:
        weight: shape `(num_embeddings, embedding_dim)`, drawn from the normal distribution.

    Source: torch.nn.EmbeddingBag.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | np.ndarray | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Place = None,
        dtype: npt.DTypeLike | None = None,
    ) -> None:
        self._describe(num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq)
        self.mode: str = mode
        self.sparse: bool = truth(sparse, "sparse")
        self.include_last_offset: bool = truth(include_last_offset, "include_last_offset")
        shape = (self.num_embeddings, self.embedding_dim)
        if _weight is None:
            self.weight = new_parameter(shape, device, dtype)
            self.reset_parameters()
        else:
            self.weight = Parameter(_weight)
            if self.weight.shape != shape:
                raise ArgumentError(f"_weight must have the shape {shape}, not {self.weight.shape}")

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor | np.ndarray,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """Return a layer with a given table, which it copies.

        Args:
            embeddings: shape `(num_embeddings, embedding_dim)`.
            freeze: whether the table does not require grad.
            max_norm: as for the class, like all that follow.
            norm_type: of `max_norm`.
            scale_grad_by_freq: whether gradients are divided.
            mode: "sum", "mean" or "max".
            sparse: not used.
            include_last_offset: whether the last offset is an end.
            padding_idx: a number that is in no bag; its row stays what it is.

        Raises:
            ArgumentError: the table has not two axes.
        """
        table = _table_of(embeddings)
        options = (max_norm, norm_type, scale_grad_by_freq, mode, sparse, table.copy(), include_last_offset)
        rows, features = table.shape
        layer = cls(rows, features, *options, padding_idx)
        layer.weight.requires_grad_(not truth(freeze, "freeze"))
        return layer

    def forward(
        self,
        input: Tensor | np.ndarray,
        offsets: Tensor | np.ndarray | None = None,
        per_sample_weights: Tensor | np.ndarray | None = None,
    ) -> Tensor:
        """Return the sums, means or maxima of the bags, shape `(bags, embedding_dim)`.

        Args:
            input: whole numbers, shape `(bags, n)`; or those of all bags in one axis.
            offsets: where each bag begins, if `input` has one axis.
            per_sample_weights: factors of the rows, in the shape of `input`, for "sum".
        """
        return embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        """Return the shape of the table, and the options."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq:
            text += ", scale_grad_by_freq=True"
        return f"{text}, mode={self.mode!r}" + ("" if self.padding_idx is None else f", padding_idx={self.padding_idx}")


def _table_of(embeddings: Tensor | np.ndarray) -> Tensor:
    """Return a given table without a history.

    Raises:
        ArgumentError: it has not two axes.
    """
    table = asarray(embeddings).detach()
    if table.ndim != 2:
        raise ArgumentError(f"embeddings must have the shape (num_embeddings, embedding_dim), not {table.shape}")
    return table
