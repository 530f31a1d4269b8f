"""Layers of softmax and its logarithm, along an axis."""

from __future__ import annotations

from typing import final

import numpy as np

from ...core.tensor import Tensor
from ...errors import ArgumentError
from ..functional.softmaxes import log_softmax, softmax, softmin
from .module import Module

__all__ = ["LogSoftmax", "Softmax", "Softmax2d", "Softmin"]


@final
class Softmax(Module):
    """Computes `nn.softmax` along the axis `dim`.

    Args:
        dim: the axis along which the results sum to 1.

    Source: torch.nn.Softmax.
    """

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return `nn.softmax(input, dim)`."""
        return softmax(input, self.dim)

    def extra_repr(self) -> str:
        """Return the axis."""
        return f"dim={self.dim}"


@final
class LogSoftmax(Module):
    """Computes `nn.log_softmax` along the axis `dim`.

    Args:
        dim: the axis along which the exponentials of the results sum to 1.

    Source: torch.nn.LogSoftmax.
    """

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return `nn.log_softmax(input, dim)`."""
        return log_softmax(input, self.dim)

    def extra_repr(self) -> str:
        """Return the axis."""
        return f"dim={self.dim}"


@final
class Softmin(Module):
    """Computes `nn.softmin` along the axis `dim`.

    Args:
        dim: the axis along which the results sum to 1.

    Source: torch.nn.Softmin.
    """

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return `nn.softmin(input, dim)`."""
        return softmin(input, self.dim)

    def extra_repr(self) -> str:
        """Return the option."""
        return f"dim={self.dim}"


@final
class Softmax2d(Module):
    """Computes `nn.softmax` along the axis of the channels of images. Source: torch.nn.Softmax2d."""

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return the output, in the shape of the input.

        Args:
            input: shape `(n, channels, height, width)` or `(channels, height, width)`.
        """
        if np.ndim(input) not in (3, 4):
            raise ArgumentError(
                "Softmax2d takes an input of shape (n, channels, height, width) or (channels, height, width), not "
                f"{np.shape(input)}"
            )
        return softmax(input, -3)
