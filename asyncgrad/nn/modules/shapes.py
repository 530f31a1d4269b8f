"""Layers that change the shape of their input, and nothing else."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from ...core.settings.arguments import must_be, whole_number
from ...core.tensor import Tensor
from ...errors import ArgumentError, ArgumentTypeError
from ..functional.shapes import channel_shuffle, pixel_shuffle, pixel_unshuffle
from ..shared.arguments import lengths
from .module import Module

__all__ = ["ChannelShuffle", "Flatten", "PixelShuffle", "PixelUnshuffle", "Unflatten"]


@final
class Flatten(Module):
    """Joins the axes from `start_dim` to `end_dim` to one.

    Args:
        start_dim: the first of the axes.
        end_dim: the last of them.

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

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
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

    Args:
        dim: the axis, as a number.
        unflattened_size: the lengths of the new axes, one of which may be -1.

    Source: torch.nn.Unflatten.
    """

    def __init__(self, dim: int, unflattened_size: tuple[int, ...]) -> None:
        self.dim: int = whole_number(dim, "dim")
        if not isinstance(unflattened_size, (tuple, list)):
            raise ArgumentTypeError(must_be("unflattened_size", "a tuple of ints", unflattened_size))
        self.unflattened_size: tuple[int, ...] = lengths("unflattened_size", unflattened_size)

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return the input in its new shape.

        Raises:
            ArgumentError: the input has not this axis, or its length is not the product of the new ones.
        """
        shape = np.shape(input)
        try:
            axis = range(len(shape))[self.dim]
        except IndexError:
            raise ArgumentError(f"Unflatten splits axis {self.dim}, and the input has the shape {shape}") from None
        sizes = self.unflattened_size
        known = math.prod(one for one in sizes if one != -1)
        is_whole = known and shape[axis] % known == 0 if -1 in sizes else known == shape[axis]
        if not sizes or sizes.count(-1) > 1 or min(sizes) < -1 or not is_whole:
            raise ArgumentError(
                f"Unflatten splits axis {axis} of an input of shape {shape} into sizes whose product is "
                f"{shape[axis]}, one of which may be -1, not into {sizes}"
            )
        # Not by -1, which NumPy cannot tell of an array without elements.
        new = [shape[axis] // known if one == -1 else one for one in sizes]
        split: Any = np.reshape(input, (*shape[:axis], *new, *shape[axis + 1 :]))
        return split

    def extra_repr(self) -> str:
        """Return the axis and its new sizes."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


@final
class PixelShuffle(Module):
    """Computes `nn.pixel_shuffle`, whose options are this class's.

    Args:
        upscale_factor: how many times as many rows and columns the result has; its square divides the channels.

    Source: torch.nn.PixelShuffle.
    """

    def __init__(self, upscale_factor: int) -> None:
        self.upscale_factor: int = whole_number(upscale_factor, "upscale_factor", 1)

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return larger images of fewer channels."""
        return pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        """Return the factor."""
        return f"upscale_factor={self.upscale_factor}"


@final
class PixelUnshuffle(Module):
    """Computes `nn.pixel_unshuffle`, whose options are this class's.

    Args:
        downscale_factor: how many times as many rows and columns the input has; it divides both.

    Source: torch.nn.PixelUnshuffle.
    """

    def __init__(self, downscale_factor: int) -> None:
        self.downscale_factor: int = whole_number(downscale_factor, "downscale_factor", 1)

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return smaller images of more channels."""
        return pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        """Return the factor."""
        return f"downscale_factor={self.downscale_factor}"


@final
class ChannelShuffle(Module):
    """Computes `nn.channel_shuffle`, whose options are this class's.

    Args:
        groups: the number of groups, which divides the channels.

    Source: torch.nn.ChannelShuffle.
    """

    def __init__(self, groups: int) -> None:
        self.groups: int = whole_number(groups, "groups", 1)

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return the channels in another order."""
        return channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """Return the number of groups."""
        return f"groups={self.groups}"
