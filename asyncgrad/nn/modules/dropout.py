"""Layers that set random elements to 0 in a training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, final

import numpy as np

from ...core.settings.arguments import number, truth
from ...core.tensor import Tensor
from ..functional.dropout import (
    alpha_dropout,
    check_probability,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
)
from .module import Module

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _Dropout(Module):
    """Abstract base of layers that set random elements, or whole channels, to 0 or to what stands for it.

    PyTorch's `inplace` is taken, but no input is ever written into.
    """

    #: The function that does it.
    _drop: ClassVar[Callable[..., Any]]

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        self.inplace: bool = truth(inplace, "inplace")
        check_probability(number(p, "p"))
        self.p = p

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return the input with what is dropped replaced."""
        drop = type(self)._drop
        result: Tensor = drop(input, self.p, self.training)
        return result

    def extra_repr(self) -> str:
        """Return the options."""
        return f"p={self.p}, inplace={self.inplace}"


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

    _drop = dropout


@final
class Dropout1d(_Dropout):
    """In a training, sets each channel of shape `(length,)` to 0 with probability p, and divides the others by 1 - p.

    Args:
        p: the probability.
        inplace: taken as by PyTorch's layer, and ignored: no input is ever written into.

    Source: torch.nn.Dropout1d.
    """

    _drop = dropout1d


@final
class Dropout2d(_Dropout):
    """In a training, sets each channel of shape `(height, width)` to 0 with probability p; divides others by 1 - p.

    Args:
        p: the probability.
        inplace: taken as by PyTorch's layer, and ignored: no input is ever written into.

    Source: torch.nn.Dropout2d.
    """

    _drop = dropout2d


@final
class Dropout3d(_Dropout):
    """In a training, sets each channel of a volume to 0 with probability p, and divides the others by 1 - p.

    Args:
        p: the probability.
        inplace: taken as by PyTorch's layer, and ignored: no input is ever written into.

    Source: torch.nn.Dropout3d.
    """

    _drop = dropout3d


@final
class AlphaDropout(_Dropout):
    """In a training, sets each element to what `nn.selu` tends to, with probability p: see `nn.alpha_dropout`.

    Args:
        p: the probability.
        inplace: taken as by PyTorch's layer, and ignored: no input is ever written into.

    Source: torch.nn.AlphaDropout.
    """

    _drop = alpha_dropout


@final
class FeatureAlphaDropout(_Dropout):
    """In a training, sets each channel to what `nn.selu` tends to, with probability p: see `nn.alpha_dropout`.

    Args:
        p: the probability.
        inplace: taken as by PyTorch's layer, and ignored: no input is ever written into.

    Source: torch.nn.FeatureAlphaDropout.
    """

    _drop = feature_alpha_dropout
