"""Layers without a nonlinearity: linear and bilinear maps, and the identity."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, final

import numpy as np

from ...core.settings.arguments import truth
from ...core.tensor import Tensor
from ...errors import ArgumentError
from ..functional.linear import bilinear, linear
from .module import Module
from .parameters import Place, draw_by_inputs, new_parameter, size

if TYPE_CHECKING:
    import numpy.typing as npt


__all__ = ["Bilinear", "Identity", "Linear"]

T = TypeVar("T")


@final
class Identity(Module):
    """Returns its input; takes any arguments, and ignores them.

    Args:
        *args: ignored.
        **kwargs: ignored.

    Source: torch.nn.Identity.
    """

    def __init__(self, *args: object, **kwargs: object) -> None: ...

    def forward(self, input: T) -> T:
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
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Place = None,
        dtype: npt.DTypeLike | None = None,
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

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return the output, shape `(..., out_features)`.

        Args:
            input: shape `(..., in_features)`.
        """
        return linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the numbers of features."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


@final
class Bilinear(Module):
    """Computes `x1 @ weight[k] @ x2 + bias[k]` for each output `k`.

    Args:
        in1_features: the size of the first input's last axis.
        in2_features: the size of the second input's last axis.
        out_features: the size of the output's last axis.
        bias: add a bias for each output.
        device: of the parameters.
        dtype: of the parameters; None for the default one.

    Source: torch.nn.Bilinear.
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Place = None,
        dtype: npt.DTypeLike | None = None,
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

    def forward(self, input1: Tensor | np.ndarray, input2: Tensor | np.ndarray) -> Tensor:
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
        return bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the numbers of features."""
        sizes = f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}"
        return f"{sizes}, bias={self.bias is not None}"
