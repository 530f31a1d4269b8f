"""Layers that set random elements to 0 in a training."""

from __future__ import annotations

from typing import final

import numpy as np

from ...core.arrays.values import as_like, raw
from ...core.settings.arguments import number, truth
from ...core.tensor import Tensor
from ...errors import ArgumentError
from ...random import generator
from ..functional.dropout import check_probability, dropout
from ..shared.arguments import array_of
from .module import Module

__all__ = ["Dropout", "Dropout1d", "Dropout2d"]


class _Dropout(Module):
    """Abstract base of layers that set random elements to 0.

    PyTorch's `inplace` is taken, but no input is ever written into.
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        truth(inplace, "inplace")
        check_probability(number(p, "p"))
        self.p = p

    def extra_repr(self) -> str:
        """Return the probability."""
        return f"p={self.p}"


@final
class Dropout(_Dropout):
    """In a training, sets each element to 0 with probability p, and divides the others by 1 - p.

    It draws from the generator of the context (`ag.random.seed`). After `eval()` it returns its input.

    Args:
        p: the probability.
        inplace: taken as by PyTorch's layer, and ignored: no input is ever written into.

    Source: torch.nn.Dropout.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> from asyncgrad import nn
        >>> layer, _ = nn.Dropout(0.5), ag.random.seed(0)
        >>> layer(np.ones(6))
        array([2., 2., 2., 0., 0., 0.])
        >>> layer.eval()(np.ones(2))
        array([1., 1.])
    """

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return the input with elements set to 0."""
        return dropout(input, self.p, training=self.training)


class _ChannelDropout(_Dropout):
    """Abstract base of layers that set random channels to 0."""

    #: The number of axes of a channel.
    _axes: int

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return the input with channels set to 0.

        Args:
            input: shape `(n, channels, ...)` or `(channels, ...)`.
        """
        shape = np.shape(input)
        if len(shape) not in (self._axes + 1, self._axes + 2):
            raise ArgumentError(
                f"{type(self).__name__} takes an input of {self._axes + 1} or {self._axes + 2} axes, not of shape "
                f"{shape}"
            )
        if not self.training or not self.p:
            return input
        kept = generator().random((*shape[: -self._axes], *[1] * self._axes), np.float32) >= self.p
        scale = 1 / (1 - self.p) if self.p < 1 else 0.0
        data = array_of(input)
        kind = data.dtype if data.dtype.kind in "fc" else np.dtype(np.float64)
        return input * as_like(raw((kept * scale).astype(kind)), data)


@final
class Dropout1d(_ChannelDropout):
    """In a training, sets each channel of shape `(length,)` to 0 with probability p, and divides the others by 1 - p.

    Args:
        p: the probability.
        inplace: taken as by PyTorch's layer, and ignored: no input is ever written into.

    Source: torch.nn.Dropout1d.
    """

    _axes = 1


@final
class Dropout2d(_ChannelDropout):
    """In a training, sets each channel of shape `(height, width)` to 0 with probability p; divides others by 1 - p.

    Args:
        p: the probability.
        inplace: taken as by PyTorch's layer, and ignored: no input is ever written into.

    Source: torch.nn.Dropout2d.
    """

    _axes = 2
