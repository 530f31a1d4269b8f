"""Losses of classes as modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import numpy as np

from ...core.tensor import Tensor
from ..functional.class_losses import cross_entropy, nll_loss
from .losses import Loss, as_buffer

if TYPE_CHECKING:
    from ...core.arrays.array_like import TensorLike


__all__ = ["CrossEntropyLoss", "NLLLoss"]


@final
class CrossEntropyLoss(Loss):
    """Computes `nn.cross_entropy`, whose options are this class's.

    Args:
        weight: the weight of each class, shape `(classes,)`; None for equal weights.
        ignore_index: a label whose loss is 0.
        reduction: "mean" (weighted, without ignored labels), "sum" or "none".
        label_smoothing: the fraction, from 0 to 1, of the probability that is spread evenly over all classes.

    Source: torch.nn.CrossEntropyLoss.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.CrossEntropyLoss()(np.zeros((2, 4)), np.array([0, 3])).round(4)
        np.float64(1.3863)
    """

    def __init__(
        self,
        weight: TensorLike | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(reduction)
        self.register_buffer("weight", as_buffer(weight))
        self.weight: Tensor | None
        self.ignore_index: int = ignore_index
        self.label_smoothing: float = label_smoothing

    def forward(self, input: Tensor | np.ndarray, target: Tensor | np.ndarray) -> Tensor:
        """Return the loss of the logits `input` and the labels `target`."""
        return cross_entropy(input, target, self.weight, self.ignore_index, self.reduction, self.label_smoothing)


@final
class NLLLoss(Loss):
    """Computes `nn.nll_loss`, whose options are this class's.

    Args:
        weight: the weight of each class, shape `(classes,)`; None for equal weights.
        ignore_index: a label whose loss is 0.
        reduction: "mean" (weighted, without ignored labels), "sum" or "none".

    Source: torch.nn.NLLLoss.
    """

    def __init__(self, weight: TensorLike | None = None, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.register_buffer("weight", as_buffer(weight))
        self.weight: Tensor | None
        self.ignore_index = ignore_index

    def forward(self, input: Tensor | np.ndarray, target: Tensor | np.ndarray) -> Tensor:
        """Return the loss of the log-probabilities `input` and the labels `target`."""
        return nll_loss(input, target, self.weight, self.ignore_index, self.reduction)
