"""Losses as modules."""

from __future__ import annotations

from typing import Any, final

from ..tensor import Tensor, asarray
from .entropy import cross_entropy, nll_loss
from .losses import binary_cross_entropy_with_logits, l1_loss, mse_loss
from .module import Module

__all__ = ["BCEWithLogitsLoss", "CrossEntropyLoss", "L1Loss", "MSELoss", "NLLLoss"]


class _Loss(Module):
    """Abstract base of losses, which reduce the losses of all elements by "mean", "sum" or "none"."""

    def __init__(self, reduction: str = "mean") -> None:
        self.reduction = reduction

    def extra_repr(self) -> str:
        """Return the reduction."""
        return f"reduction={self.reduction!r}"


def _constant(weight: Any) -> Tensor | None:
    return None if weight is None else asarray(weight)


@final
class MSELoss(_Loss):
    """Computes `nn.mse_loss`. Source: torch.nn.MSELoss."""

    def forward(self, input: Any, target: Any) -> Any:
        """Return `nn.mse_loss(input, target, reduction)`."""
        return mse_loss(input, target, self.reduction)


@final
class L1Loss(_Loss):
    """Computes `nn.l1_loss`. Source: torch.nn.L1Loss."""

    def forward(self, input: Any, target: Any) -> Any:
        """Return `nn.l1_loss(input, target, reduction)`."""
        return l1_loss(input, target, self.reduction)


@final
class CrossEntropyLoss(_Loss):
    """Computes `nn.cross_entropy`, whose options are this class's. Source: torch.nn.CrossEntropyLoss.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.CrossEntropyLoss()(np.zeros((2, 4)), np.array([0, 3])).round(4)
        np.float64(1.3863)
    """

    def __init__(
        self, weight: Any = None, ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0
    ) -> None:
        super().__init__(reduction)
        self.register_buffer("weight", _constant(weight))
        self.weight: Tensor | None
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input: Any, target: Any) -> Any:
        """Return the loss of the logits `input` and the labels `target`."""
        return cross_entropy(input, target, self.weight, self.ignore_index, self.reduction, self.label_smoothing)


@final
class NLLLoss(_Loss):
    """Computes `nn.nll_loss`, whose options are this class's. Source: torch.nn.NLLLoss."""

    def __init__(self, weight: Any = None, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.register_buffer("weight", _constant(weight))
        self.weight: Tensor | None
        self.ignore_index = ignore_index

    def forward(self, input: Any, target: Any) -> Any:
        """Return the loss of the log-probabilities `input` and the labels `target`."""
        return nll_loss(input, target, self.weight, self.ignore_index, self.reduction)


@final
class BCEWithLogitsLoss(_Loss):
    """Computes `nn.binary_cross_entropy_with_logits`. Source: torch.nn.BCEWithLogitsLoss."""

    def __init__(self, weight: Any = None, reduction: str = "mean", pos_weight: Any = None) -> None:
        super().__init__(reduction)
        self.register_buffer("weight", _constant(weight))
        self.register_buffer("pos_weight", _constant(pos_weight))
        self.weight: Tensor | None
        self.pos_weight: Tensor | None

    def forward(self, input: Any, target: Any) -> Any:
        """Return the loss of the logits `input` and the probabilities `target`."""
        return binary_cross_entropy_with_logits(
            input, target, self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )
