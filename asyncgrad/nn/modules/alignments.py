"""Losses of sequences without alignment, as modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from ...core.settings.arguments import truth, whole_number
from ...core.tensor import Tensor
from ..functional.alignments import ctc_loss
from ..shared.arguments import check_reduction
from .module import Module

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np


__all__ = ["CTCLoss"]


@final
class CTCLoss(Module):
    """Computes `nn.ctc_loss`, whose options are this class's.

    Args:
        blank: the class that stands for no label.
        reduction: "mean" (of the losses, each divided by the number of its labels), "sum" or "none".
        zero_infinity: take 0 for the losses, and the gradients, of sequences that are too short for their labels.

    Source: torch.nn.CTCLoss.
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        check_reduction(reduction)
        self.reduction: str = reduction
        self.blank: int = whole_number(blank, "blank")
        self.zero_infinity: bool = truth(zero_infinity, "zero_infinity")

    def forward(
        self,
        log_probs: Tensor | np.ndarray,
        targets: Tensor | np.ndarray,
        input_lengths: Tensor | np.ndarray | Sequence[int],
        target_lengths: Tensor | np.ndarray | Sequence[int],
    ) -> Tensor:
        """Return `nn.ctc_loss(log_probs, targets, input_lengths, target_lengths)` with the options."""
        lengths = (input_lengths, target_lengths)
        return ctc_loss(log_probs, targets, *lengths, self.blank, self.reduction, self.zero_infinity)
