"""Channels that become pixels, pixels that become channels, and channels in another order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.settings.arguments import whole_number
from ...errors import ArgumentError
from ..shared.arguments import shapes_of

if TYPE_CHECKING:
    from ...core.tensor import Tensor


__all__ = ["channel_shuffle", "pixel_shuffle", "pixel_unshuffle"]


def pixel_shuffle(x: Tensor | np.ndarray, upscale_factor: int) -> Tensor | np.ndarray:
    """Return images that are larger by a factor, whose pixels come from several channels.

    Args:
        x: shape `(..., channels * upscale_factor**2, height, width)`.
        upscale_factor: how many times as many rows and columns the result has.

    Returns:
        A tensor of shape `(..., channels, height * upscale_factor, width * upscale_factor)`.

    Raises:
        ArgumentError: the factor is below 1, or its square does not divide the channels.

    Source: torch.nn.functional.pixel_shuffle; W. Shi et al., "Real-time single image and video super-resolution"
    (2016).

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.pixel_shuffle(np.arange(4.0).reshape(4, 1, 1), 2)
        array([[[0., 1.],
                [2., 3.]]])
    """
    shape, factor = _image_shape("pixel_shuffle", x), whole_number(upscale_factor, "upscale_factor", 1)
    *before, channels, height, width = shape
    if channels % factor**2:
        raise ArgumentError(
            f"pixel_shuffle by {factor} takes x with channels that {factor**2} divides, not of shape {shape}"
        )
    first = len(before)
    parts: Any = np.reshape(x, (*before, channels // factor**2, factor, factor, height, width))
    order = (*range(first + 1), first + 3, first + 1, first + 4, first + 2)
    return np.reshape(np.transpose(parts, order), (*before, channels // factor**2, height * factor, width * factor))


def pixel_unshuffle(x: Tensor | np.ndarray, downscale_factor: int) -> Tensor | np.ndarray:
    """Return images that are smaller by a factor, with a channel for each pixel of a square: `pixel_shuffle`, undone.

    Args:
        x: shape `(..., channels, height * downscale_factor, width * downscale_factor)`.
        downscale_factor: how many times as many rows and columns x has.

    Returns:
        A tensor of shape `(..., channels * downscale_factor**2, height, width)`.

    Raises:
        ArgumentError: the factor is below 1, or does not divide height and width.

    Source: torch.nn.functional.pixel_unshuffle.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.pixel_unshuffle(np.arange(4.0).reshape(1, 2, 2), 2).ravel()
        array([0., 1., 2., 3.])
    """
    shape, factor = _image_shape("pixel_unshuffle", x), whole_number(downscale_factor, "downscale_factor", 1)
    *before, channels, height, width = shape
    if height % factor or width % factor:
        raise ArgumentError(
            f"pixel_unshuffle by {factor} takes images whose height and width it divides, not of shape {shape}"
        )
    first = len(before)
    parts: Any = np.reshape(x, (*before, channels, height // factor, factor, width // factor, factor))
    order = (*range(first + 1), first + 2, first + 4, first + 1, first + 3)
    return np.reshape(np.transpose(parts, order), (*before, channels * factor**2, height // factor, width // factor))


def channel_shuffle(x: Tensor | np.ndarray, groups: int) -> Tensor | np.ndarray:
    """Return x with its channels in another order: the first of each group, then the second of each, and so on.

    Args:
        x: shape `(n, channels, ...)`, of three axes or more.
        groups: the number of groups, which divides the channels.

    Raises:
        ArgumentError: it does not.

    Source: torch.nn.functional.channel_shuffle.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.channel_shuffle(np.arange(4.0).reshape(1, 4, 1), 2).ravel()
        array([0., 2., 1., 3.])
    """
    (shape,), groups = shapes_of("channel_shuffle", x=x), whole_number(groups, "groups", 1)
    if len(shape) < 3 or shape[1] % groups:
        raise ArgumentError(
            f"channel_shuffle takes x of shape (n, channels, ...), whose channels {groups} groups divide, not {shape}"
        )
    parts: Any = np.reshape(x, (shape[0], groups, shape[1] // groups, *shape[2:]))
    return np.reshape(np.swapaxes(parts, 1, 2), shape)


def _image_shape(function: str, x: Any) -> tuple[int, ...]:
    (shape,) = shapes_of(function, x=x)
    if len(shape) < 3:
        raise ArgumentError(f"{function} takes x of shape (..., channels, height, width), not {shape}")
    return shape
