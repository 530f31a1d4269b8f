"""Elementwise losses."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from ..graph.values import own_function
from ..ops.kernels import FusedFormula, device_variant
from ..ops.primitive import derivative, primitive
from .activations import softplus
from .arguments import array_of, check_real, check_reduction

__all__ = ["binary_cross_entropy_with_logits", "l1_loss", "mse_loss"]


def _warn_if_broadcast(function: str, input: Any, target: Any) -> None:
    """Warn if the shapes of two arrays differ: (n,) with (n, 1), for example, gives n * n differences."""
    first, second = array_of(input).shape, array_of(target).shape
    if first != second:
        warnings.warn(
            f"{function} broadcasts an input of shape {first} and a target of shape {second}: "
            "reshape one of them if that is not intended",
            stacklevel=3,
        )


def _reduce(losses: Any, reduction: str) -> Any:
    if reduction == "none":
        return losses
    return np.mean(losses) if reduction == "mean" else np.sum(losses)


def _squares(input: Any, target: Any) -> Any:
    difference = input - target
    return difference * difference


_fused_squares = FusedFormula(_squares)


def _squared_error_on_device(input: Any, target: Any, factor: float | None) -> Any:
    squares = _fused_squares(input, target)
    if squares.dtype.kind != "f" or not squares.size:
        return squared_error_.function(input, target, factor)
    if factor is None:
        return squares
    # Any other factor than 1 is that of a mean.
    function = np.sum if factor == 1 else np.mean
    return own_function(function, squares)(squares)


@primitive()
@device_variant(_squared_error_on_device)
def squared_error_(input: Any, target: Any, factor: float | None) -> Any:
    """Return the squares of the differences, or their sum times `factor` if that is given."""
    difference = np.subtract(input, target)
    if difference.dtype.kind == "c":
        check_real("mse_loss", input=input, target=target)
    squares = difference * difference
    return squares if factor is None else np.add.reduce(squares, axis=None) * factor


@derivative(squared_error_, "input")
def _(g: Any, input: Any, target: Any, factor: float | None) -> Any:
    return (input - target) * (g * (2.0 if factor is None else 2.0 * factor))


@derivative(squared_error_, "target")
def _(g: Any, input: Any, target: Any, factor: float | None) -> Any:
    return (input - target) * (g * (-2.0 if factor is None else -2.0 * factor))


_squared_error = squared_error_.call


def mse_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """Return the mean of the squared differences.

    Args:
        input: any shape.
        target: the same shape; another one is broadcast, with a warning.
        reduction: "mean", "sum" or "none".

    Raises:
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.mse_loss.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> float(nn.mse_loss(np.array([1.0, 2.0]), np.array([1.0, 4.0])))
        2.0
    """
    check_reduction(reduction)
    _warn_if_broadcast("mse_loss", input, target)
    factor = None if reduction == "none" else 1.0
    if reduction == "mean":
        count = math.prod(np.broadcast_shapes(array_of(input).shape, array_of(target).shape))
        factor = 1 / count if count else math.nan
    return _squared_error(input, target, factor)


def l1_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """Return the mean of the absolute differences; its derivative at a difference of 0 is 0.

    Args:
        input: any shape.
        target: the same shape; another one is broadcast, with a warning.
        reduction: "mean", "sum" or "none".

    Source: torch.nn.functional.l1_loss.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> float(nn.l1_loss(np.array([1.0, 2.0]), np.array([1.0, 4.0])))
        1.0
    """
    check_reduction(reduction)
    _warn_if_broadcast("l1_loss", input, target)
    return _reduce(np.abs(input - target), reduction)


def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, reduction: str = "mean", pos_weight: Any = None
) -> Any:
    """Return the binary cross entropy of scores: -t log(s) - (1 - t) log(1 - s), where s = sigmoid(input).

    Args:
        input: scores, any shape.
        target: probabilities t, the same shape; another one is broadcast, with a warning.
        weight: the weight of each element, of a shape that broadcasts; None for equal weights.
        reduction: "mean", "sum" or "none".
        pos_weight: the weight of the term of t, of a shape that broadcasts; None for 1.

    Raises:
        ArgumentTypeError: an argument is complex.

    Source: torch.nn.functional.binary_cross_entropy_with_logits.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.binary_cross_entropy_with_logits(np.array([0.0, 1000.0]), np.array([1.0, 1.0]), reduction="none")
        array([0.69314718, 0.        ])
    """
    check_reduction(reduction)
    name = "binary_cross_entropy_with_logits"
    check_real(name, input=input, target=target, weight=weight, pos_weight=pos_weight)
    _warn_if_broadcast(name, input, target)
    surprise = softplus(-input, 1.0, math.inf)
    losses = (1 - target) * input
    if pos_weight is None:
        losses = losses + surprise
    else:
        losses = losses + surprise * (1 + (pos_weight - 1) * target)
    return _reduce(losses if weight is None else losses * weight, reduction)
