"""Layers without a nonlinearity: linear and bilinear maps, tables of vectors, and changes of shape."""

from __future__ import annotations

import math
from operator import setitem
from typing import Any, final

import numpy as np

from ...core.arrays.interception import on_device_of
from ...core.engine.device import Device
from ...core.settings.arguments import number, truth, whole_number
from ...core.settings.default_dtype import floating_dtype
from ...core.tensor import Tensor, asarray, tensor
from ...errors import ArgumentError
from .. import init
from ..functional.linear import embedding, linear
from .module import Module

__all__ = ["Bilinear", "Embedding", "Flatten", "Identity", "Linear", "Unflatten", "draw_by_inputs", "new_parameter"]

Place = str | Device | None


def new_parameter(shape: tuple[int, ...], device: Place = None, dtype: Any = None) -> Tensor:
    """Return a parameter of arbitrary content, for an initialiser to fill; `dtype` is by default the default dtype."""
    kind = floating_dtype(dtype)
    if kind.kind not in "fc":
        raise ArgumentError(f"the dtype of a parameter is floating or complex, not {kind}")
    return tensor(np.zeros(shape, kind), device=device, requires_grad=True)


def draw_by_inputs(weight: Tensor, bias: Tensor | None, inputs: int) -> None:
    """Draw a weight and a bias uniformly between ±1 / sqrt(inputs), the number of inputs that an output depends on."""
    bound = 1 / math.sqrt(inputs) if inputs else 0.0
    init.uniform_(weight, -bound, bound)
    if bias is not None:
        init.uniform_(bias, -bound, bound)


def size(value: Any, name: str) -> int:
    """Return a number of features as an int.

    Raises:
        ArgumentError: it is negative.
    """
    found = whole_number(value, name)
    if found < 0:
        raise ArgumentError(f"{name} must not be negative, but is {found}")
    return found


@final
class Identity(Module):
    """Returns its input; takes any arguments, and ignores them.

    Source: torch.nn.Identity.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def forward(self, input: Any) -> Any:
        """Return the input."""
        return input


@final
class Linear(Module):
    """Computes `x @ weight.T + bias`.

    Args:
        in_features: the size of the input's last axis.
        out_features: the size of the output's last axis.
        bias: whether there is a bias.
        device: where the parameters live.
        dtype: their dtype; None for the default one.

    Attributes:
        weight: shape `(out_features, in_features)`, drawn uniformly between ±1 / sqrt(in_features).
        bias: shape `(out_features,)`, drawn from the same distribution; None without one.

    Source: torch.nn.Linear.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> layer = nn.Linear(3, 2)
        >>> layer(np.ones((5, 3))).shape
        (5, 2)
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Place = None, dtype: Any = None
    ) -> None:
        self.in_features: int = size(in_features, "in_features")
        self.out_features: int = size(out_features, "out_features")
        self.weight: Tensor = new_parameter((self.out_features, self.in_features), device, dtype)
        self.bias: Tensor | None
        has_bias = truth(bias, "bias")
        self.register_parameter("bias", new_parameter((self.out_features,), device, dtype) if has_bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        draw_by_inputs(self.weight, self.bias, self.in_features)

    def forward(self, input: Any) -> Tensor:
        """Return the output, shape `(..., out_features)`.

        Args:
            input: shape `(..., in_features)`.
        """
        return linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the numbers of features."""
        return f"in_features={self.in_features}, out_features={self.out_features}"


@final
class Bilinear(Module):
    """Computes `x1 @ weight[k] @ x2 + bias[k]` for each output `k`.

    Source: torch.nn.Bilinear.
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Place = None,
        dtype: Any = None,
    ) -> None:
        self.in1_features: int = size(in1_features, "in1_features")
        self.in2_features: int = size(in2_features, "in2_features")
        self.out_features: int = size(out_features, "out_features")
        self.weight: Tensor = new_parameter((self.out_features, self.in1_features, self.in2_features), device, dtype)
        self.bias: Tensor | None
        has_bias = truth(bias, "bias")
        self.register_parameter("bias", new_parameter((self.out_features,), device, dtype) if has_bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        draw_by_inputs(self.weight, self.bias, self.in1_features)

    def forward(self, input1: Any, input2: Any) -> Tensor:
        """Return the output, shape `(..., out_features)`.

        Args:
            input1: shape `(..., in1_features)`.
            input2: shape `(..., in2_features)`.
        """
        shapes, features = [np.shape(one) for one in (input1, input2)], [self.in1_features, self.in2_features]
        if [shape[-1:] for shape in shapes] != [(size,) for size in features] or shapes[0][:-1] != shapes[1][:-1]:
            raise ArgumentError(
                f"Bilinear takes inputs of shape (..., {features[0]}) and (..., {features[1]}), not {shapes[0]} and "
                f"{shapes[1]}"
            )
        output = np.einsum("...i,kij,...j->...k", input1, self.weight, input2)
        return output if self.bias is None else output + self.bias

    def extra_repr(self) -> str:
        """Return the numbers of features."""
        return f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}"


@final
class Embedding(Module):
    """A table of vectors, looked up by number.

    Args:
        num_embeddings: the number of rows.
        embedding_dim: the size of each row.
        padding_idx: the number of a row that is 0 and gets no gradient; a negative one counts from the end.
        max_norm: rows whose norm is above this number are scaled down to it, in place, when they are looked up.
        norm_type: the p of that p-norm.
        scale_grad_by_freq: divide the gradient of each row by how often it is looked up in a call.
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
        *,
        device: Place = None,
        dtype: Any = None,
    ) -> None:
        self.num_embeddings: int = size(num_embeddings, "num_embeddings")
        self.embedding_dim: int = size(embedding_dim, "embedding_dim")
        if padding_idx is not None:
            if not -num_embeddings <= whole_number(padding_idx, "padding_idx") < num_embeddings:
                raise ArgumentError(f"padding_idx {padding_idx} is no row of a table of {num_embeddings}")
            padding_idx %= num_embeddings
        self.padding_idx = padding_idx
        self.max_norm: float | None = None if max_norm is None else number(max_norm, "max_norm", 0)
        self.norm_type: float = number(norm_type, "norm_type")
        self.scale_grad_by_freq: bool = truth(scale_grad_by_freq, "scale_grad_by_freq")
        self.weight: Tensor = new_parameter((self.num_embeddings, self.embedding_dim), device, dtype)
        self.reset_parameters()

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Any,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
    ) -> Embedding:
        """Return a layer with a given table, which it copies.

        Args:
            embeddings: shape `(num_embeddings, embedding_dim)`.
            freeze: whether the table does not require grad.
            padding_idx: as for the class; its row stays what it is.
            max_norm: as for the class, like all that follow.
            norm_type: of `max_norm`.
            scale_grad_by_freq: whether gradients are divided.

        Raises:
            ArgumentError: the table has not two axes.
        """
        table = asarray(embeddings).detach()
        if table.ndim != 2:
            raise ArgumentError(f"embeddings must have the shape (num_embeddings, embedding_dim), not {table.shape}")
        rows, features = table.shape
        options = (padding_idx, max_norm, norm_type, scale_grad_by_freq)
        layer = cls(rows, features, *options, device=table.device, dtype=table.dtype)
        layer.weight = table.copy().requires_grad_(not truth(freeze, "freeze"))
        return layer

    def reset_parameters(self) -> None:
        """Draw the table anew."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            on_device_of(self.weight._data, setitem, self.padding_idx, 0)

    def forward(self, input: Any) -> Tensor:
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
class Flatten(Module):
    """Joins the axes from `start_dim` to `end_dim` to one.

    Source: torch.nn.Flatten.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.Flatten()(np.ones((5, 2, 3))).shape
        (5, 6)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim: int = whole_number(start_dim, "start_dim")
        self.end_dim: int = whole_number(end_dim, "end_dim")

    def forward(self, input: Any) -> Tensor:
        """Return the input in its new shape.

        Raises:
            ArgumentError: the input has not these axes.
        """
        # A number has one axis to join, as in PyTorch.
        shape = np.shape(input) or (1,)
        try:
            first, last = range(len(shape))[self.start_dim], range(len(shape))[self.end_dim]
        except IndexError:
            first, last = 1, 0
        if last < first:
            raise ArgumentError(
                f"Flatten joins the axes {self.start_dim} to {self.end_dim}, and the input has the shape "
                f"{np.shape(input)}"
            )
        flat: Any = np.reshape(input, (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))
        return flat

    def extra_repr(self) -> str:
        """Return the axes."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


@final
class Unflatten(Module):
    """Splits an axis into several.

    Source: torch.nn.Unflatten.
    """

    def __init__(self, dim: int, unflattened_size: tuple[int, ...]) -> None:
        self.dim: int = whole_number(dim, "dim")
        self.unflattened_size: tuple[int, ...] = tuple(unflattened_size)

    def forward(self, input: Any) -> Tensor:
        """Return the input in its new shape.

        Raises:
            ArgumentError: the input has not this axis.
        """
        shape = np.shape(input)
        try:
            axis = range(len(shape))[self.dim]
        except IndexError:
            raise ArgumentError(f"Unflatten splits axis {self.dim}, and the input has the shape {shape}") from None
        split: Any = np.reshape(input, (*shape[:axis], *self.unflattened_size, *shape[axis + 1 :]))
        return split

    def extra_repr(self) -> str:
        """Return the axis and its new sizes."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
