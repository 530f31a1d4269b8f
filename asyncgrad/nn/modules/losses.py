"""Losses as modules; those of classes are in `class_losses.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Self, final

import numpy as np

from ...core.arrays.tensor_base import TensorBase
from ...core.settings.arguments import number, truth
from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError
from ..functional.losses import (
    KL_REDUCTIONS,
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cosine_embedding_loss,
    gaussian_nll_loss,
    hinge_embedding_loss,
    huber_loss,
    kl_div,
    l1_loss,
    margin_ranking_loss,
    mse_loss,
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    poisson_nll_loss,
    smooth_l1_loss,
    soft_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from ..shared.arguments import REDUCTIONS, check_reduction, refuse_input
from .module import Module

if TYPE_CHECKING:
    from ...core.arrays.array_like import TensorLike


__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CosineEmbeddingLoss",
    "GaussianNLLLoss",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "Loss",
    "MSELoss",
    "MarginRankingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "PoissonNLLLoss",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
    "as_buffer",
]


class Loss(Module):
    """Abstract base of losses, which reduce the losses of all elements by "mean", "sum" or "none"."""

    _reductions: ClassVar[tuple[str, ...]] = REDUCTIONS

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        """Return a loss without attributes; refuse what it is to be called with: no loss has two options of arrays."""
        if len(args) > 1 and isinstance(args[1], (TensorBase, np.ndarray)):
            refuse_input(cls.__name__, *args)
        return super().__new__(cls, *args, **kwargs)

    def __init__(self, reduction: str = "mean") -> None:
        refuse_input(type(self).__name__, reduction)
        check_reduction(reduction, self._reductions)
        self.reduction = reduction

    def extra_repr(self) -> str:
        """Return the reduction."""
        return f"reduction={self.reduction!r}"


def as_buffer(weight: Any) -> Tensor | None:
    """Return weights as a tensor, which a loss keeps as a buffer; None stays None."""
    return None if weight is None else asarray(weight)


@final
class MSELoss(Loss):
    """Computes `nn.mse_loss`.

    Args:
        reduction: "mean", "sum" or "none".

    Source: torch.nn.MSELoss.
    """

    def forward(self, input: Tensor | np.ndarray, target: Tensor | np.ndarray) -> Tensor:
        """Return `nn.mse_loss(input, target, reduction)`."""
        return mse_loss(input, target, self.reduction)


@final
class L1Loss(Loss):
    """Computes `nn.l1_loss`.

    Args:
        reduction: "mean", "sum" or "none".

    Source: torch.nn.L1Loss.
    """

    def forward(self, input: Tensor | np.ndarray, target: Tensor | np.ndarray) -> Tensor:
        """Return `nn.l1_loss(input, target, reduction)`."""
        return l1_loss(input, target, self.reduction)


@final
class BCEWithLogitsLoss(Loss):
    """Computes `nn.binary_cross_entropy_with_logits`.

    Args:
        weight: the weight of each element, of a shape that broadcasts; None for equal weights.
        reduction: "mean", "sum" or "none".
        pos_weight: the weight of the term of t, of a shape that broadcasts; None for 1.

    Source: torch.nn.BCEWithLogitsLoss.
    """

    def __init__(
        self, weight: TensorLike | None = None, reduction: str = "mean", pos_weight: TensorLike | None = None
    ) -> None:
        super().__init__(reduction)
        self.register_buffer("weight", as_buffer(weight))
        self.register_buffer("pos_weight", as_buffer(pos_weight))
        self.weight: Tensor | None
        self.pos_weight: Tensor | None

    def forward(self, input: Tensor | np.ndarray, target: Tensor | np.ndarray) -> Tensor:
        """Return the loss of the logits `input` and the probabilities `target`."""
        return binary_cross_entropy_with_logits(
            input, target, self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )


@final
class SmoothL1Loss(Loss):
    """Computes `nn.smooth_l1_loss`, whose options are this class's.

    Args:
        reduction: "mean", "sum" or "none".
        beta: the difference up to which the loss is `difference ** 2 / (2 * beta)`; with 0, this is `l1_loss`.

    Source: torch.nn.SmoothL1Loss.
    """

    def __init__(self, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction)
        self.beta = beta

    def forward(self, input: Tensor | np.ndarray, target: Tensor | np.ndarray) -> Tensor:
        """Return `nn.smooth_l1_loss(input, target)` with the options."""
        return smooth_l1_loss(input, target, beta=self.beta, reduction=self.reduction)

    def extra_repr(self) -> str:
        """Return the options."""
        return f"beta={self.beta}, {super().extra_repr()}"


@final
class HuberLoss(Loss):
    """Computes `nn.huber_loss`, whose options are this class's.

    Args:
        reduction: "mean", "sum" or "none".
        delta: the difference from which on the loss is `delta * (abs(difference) - delta / 2)`; positive.

    Source: torch.nn.HuberLoss.
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        self.delta: float = number(delta, "delta")

    def forward(self, input: Tensor | np.ndarray, target: Tensor | np.ndarray) -> Tensor:
        """Return `nn.huber_loss(input, target)` with the options."""
        return huber_loss(input, target, delta=self.delta, reduction=self.reduction)

    def extra_repr(self) -> str:
        """Return the options."""
        return f"delta={self.delta}, {super().extra_repr()}"


@final
class KLDivLoss(Loss):
    """Computes `nn.kl_div`, whose options are this class's.

    Args:
        reduction: "batchmean" (the sum divided by the length of the first axis, which is the divergence), "mean" (over
            all elements), "sum" or "none".
        log_target: whether `target` holds logarithms, too.

    Source: torch.nn.KLDivLoss.
    """

    _reductions = KL_REDUCTIONS

    def __init__(self, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction)
        self.log_target: bool = truth(log_target, "log_target")

    def forward(self, input: Tensor | np.ndarray, target: Tensor | np.ndarray) -> Tensor:
        """Return `nn.kl_div(input, target)` with the options."""
        return kl_div(input, target, log_target=self.log_target, reduction=self.reduction)

    def extra_repr(self) -> str:
        """Return the options."""
        return f"log_target={self.log_target}, {super().extra_repr()}"


@final
class BCELoss(Loss):
    """Computes `nn.binary_cross_entropy`, whose options are this class's.

    Args:
        weight: the weight of each element, of a shape that broadcasts; None for equal weights.
        reduction: "mean", "sum" or "none".

    Source: torch.nn.BCELoss.
    """

    def __init__(self, weight: TensorLike | None = None, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.register_buffer("weight", as_buffer(weight))
        self.weight: Tensor | None

    def forward(self, input: Tensor | np.ndarray, target: Tensor | np.ndarray) -> Tensor:
        """Return `nn.binary_cross_entropy(input, target)` with the options."""
        return binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


@final
class PoissonNLLLoss(Loss):
    """Computes `nn.poisson_nll_loss`, whose options are this class's.

    Args:
        log_input: False if `input` holds the expected counts themselves.
        full: whether to add Stirling's approximation of `log(target!)` for counts above 1, which no input changes.
        eps: added to expected counts, whose logarithm is taken.
        reduction: "mean", "sum" or "none".

    Source: torch.nn.PoissonNLLLoss.
    """

    def __init__(self, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.log_input: bool = truth(log_input, "log_input")
        self.full: bool = truth(full, "full")
        self.eps: float = eps

    def forward(self, log_input: Tensor | np.ndarray, target: Tensor | np.ndarray) -> Tensor:
        """Return `nn.poisson_nll_loss(log_input, target)` with the options."""
        return poisson_nll_loss(
            log_input, target, log_input=self.log_input, full=self.full, eps=self.eps, reduction=self.reduction
        )

    def extra_repr(self) -> str:
        """Return the options."""
        return f"log_input={self.log_input}, full={self.full}, eps={self.eps}, {super().extra_repr()}"


@final
class GaussianNLLLoss(Loss):
    """Computes `nn.gaussian_nll_loss`, whose options are this class's.

    Args:
        full: whether to add the constant `log(2 pi) / 2`.
        eps: the least variance.
        reduction: "mean", "sum" or "none".

    Source: torch.nn.GaussianNLLLoss.
    """

    def __init__(self, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.full: bool = truth(full, "full")
        self.eps: float = eps

    def forward(self, input: Tensor | np.ndarray, target: Tensor | np.ndarray, var: Tensor | np.ndarray) -> Tensor:
        """Return `nn.gaussian_nll_loss(input, target, var)` with the options."""
        return gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)

    def extra_repr(self) -> str:
        """Return the options."""
        return f"full={self.full}, eps={self.eps}, {super().extra_repr()}"


@final
class HingeEmbeddingLoss(Loss):
    """Computes `nn.hinge_embedding_loss`, whose options are this class's.

    Args:
        margin: the distance from which on the loss for -1 is 0.
        reduction: "mean", "sum" or "none".

    Source: torch.nn.HingeEmbeddingLoss.
    """

    def __init__(self, margin: float = 1.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, input: Tensor | np.ndarray, target: Tensor | np.ndarray) -> Tensor:
        """Return `nn.hinge_embedding_loss(input, target)` with the options."""
        return hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)

    def extra_repr(self) -> str:
        """Return the options."""
        return f"margin={self.margin}, {super().extra_repr()}"


@final
class MarginRankingLoss(Loss):
    """Computes `nn.margin_ranking_loss`, whose options are this class's.

    Args:
        margin: by how much it should be.
        reduction: "mean", "sum" or "none".

    Source: torch.nn.MarginRankingLoss.
    """

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, input1: Tensor | np.ndarray, input2: Tensor | np.ndarray, target: Tensor | np.ndarray) -> Tensor:
        """Return `nn.margin_ranking_loss(input1, input2, target)` with the options."""
        return margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)

    def extra_repr(self) -> str:
        """Return the options."""
        return f"margin={self.margin}, {super().extra_repr()}"


@final
class CosineEmbeddingLoss(Loss):
    """Computes `nn.cosine_embedding_loss`, whose options are this class's.

    Args:
        margin: the cosine up to which the loss for -1 is 0.
        reduction: "mean", "sum" or "none".

    Source: torch.nn.CosineEmbeddingLoss.
    """

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, input1: Tensor | np.ndarray, input2: Tensor | np.ndarray, target: Tensor | np.ndarray) -> Tensor:
        """Return `nn.cosine_embedding_loss(input1, input2, target)` with the options."""
        return cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)

    def extra_repr(self) -> str:
        """Return the options."""
        return f"margin={self.margin}, {super().extra_repr()}"


@final
class SoftMarginLoss(Loss):
    """Computes `nn.soft_margin_loss`.

    Args:
        reduction: "mean", "sum" or "none".

    Source: torch.nn.SoftMarginLoss.
    """

    def forward(self, input: Tensor | np.ndarray, target: Tensor | np.ndarray) -> Tensor:
        """Return `nn.soft_margin_loss(input, target)` with the options."""
        return soft_margin_loss(input, target, reduction=self.reduction)


@final
class MultiLabelMarginLoss(Loss):
    """Computes `nn.multilabel_margin_loss`.

    Args:
        reduction: "mean", "sum" or "none".

    Source: torch.nn.MultiLabelMarginLoss.
    """

    def forward(self, input: Tensor | np.ndarray, target: Tensor | np.ndarray) -> Tensor:
        """Return `nn.multilabel_margin_loss(input, target)` with the options."""
        return multilabel_margin_loss(input, target, reduction=self.reduction)


@final
class MultiLabelSoftMarginLoss(Loss):
    """Computes `nn.multilabel_soft_margin_loss`, with its options.

    Args:
        weight: the weight of each class, of a shape that broadcasts; None for 1.
        reduction: "mean", "sum" or "none", over the samples.

    Source: torch.nn.MultiLabelSoftMarginLoss.
    """

    def __init__(self, weight: TensorLike | None = None, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.register_buffer("weight", as_buffer(weight))
        self.weight: Tensor | None

    def forward(self, input: Tensor | np.ndarray, target: Tensor | np.ndarray) -> Tensor:
        """Return `nn.multilabel_soft_margin_loss(input, target)` with the options."""
        return multilabel_soft_margin_loss(input, target, weight=self.weight, reduction=self.reduction)


@final
class TripletMarginLoss(Loss):
    """Computes `nn.triplet_margin_loss`, whose options are this class's.

    Args:
        margin: by how much the negative should be farther away than the positive.
        p: the order of the norm.
        eps: added to differences.
        swap: take the distance of the negative from the positive where that is less than from the anchor.
        reduction: "mean", "sum" or "none".

    Source: torch.nn.TripletMarginLoss.
    """

    def __init__(
        self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction)
        self.margin: float = margin
        self.p: float = p
        self.eps: float = eps
        self.swap: bool = truth(swap, "swap")

    def forward(
        self, anchor: Tensor | np.ndarray, positive: Tensor | np.ndarray, negative: Tensor | np.ndarray
    ) -> Tensor:
        """Return `nn.triplet_margin_loss(anchor, positive, negative)` with the options."""
        return triplet_margin_loss(anchor, positive, negative, self.margin, self.p, self.eps, self.swap, self.reduction)

    def extra_repr(self) -> str:
        """Return the options."""
        return f"margin={self.margin}, p={self.p}, eps={self.eps}, swap={self.swap}, {super().extra_repr()}"


@final
class TripletMarginWithDistanceLoss(Loss):
    """Computes `nn.triplet_margin_with_distance_loss`.

    Args:
        distance_function: returns the distances of two arrays; None for `nn.pairwise_distance`.
        margin: by how much the negative should be farther away than the positive, more than 0.
        swap: take the distance of the negative from the positive where that is less than from the anchor.
        reduction: "mean", "sum" or "none".

    Source: torch.nn.TripletMarginWithDistanceLoss.
    """

    def __init__(
        self,
        *,
        distance_function: Callable[..., Any] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction)
        if not number(margin, "margin") > 0:
            raise ArgumentError(f"TripletMarginWithDistanceLoss needs a positive margin, not {margin}")
        self.distance_function: Any = distance_function
        self.margin: float = margin
        self.swap: bool = truth(swap, "swap")

    def forward(
        self, anchor: Tensor | np.ndarray, positive: Tensor | np.ndarray, negative: Tensor | np.ndarray
    ) -> Tensor:
        """Return `nn.triplet_margin_with_distance_loss(anchor, positive, negative)` with the options."""
        return triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )

    def extra_repr(self) -> str:
        """Return the options."""
        return f"margin={self.margin}, swap={self.swap}, {super().extra_repr()}"


@final
class MultiMarginLoss(Loss):
    """Computes `nn.multi_margin_loss`, whose options are this class's.

    Args:
        p: 1 or 2.
        margin: by how much the score of the right class should be above the others.
        weight: the weight of each class, shape `(classes,)`; None for 1.
        reduction: "mean" (also with weights, over the number of samples), "sum" or "none".

    Source: torch.nn.MultiMarginLoss.
    """

    def __init__(
        self, p: int = 1, margin: float = 1.0, weight: TensorLike | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction)
        self.register_buffer("weight", as_buffer(weight))
        self.weight: Tensor | None
        self.p: int = p
        self.margin: float = margin

    def forward(self, input: Tensor | np.ndarray, target: Tensor | np.ndarray) -> Tensor:
        """Return `nn.multi_margin_loss(input, target)` with the options."""
        return multi_margin_loss(input, target, self.p, self.margin, self.weight, self.reduction)

    def extra_repr(self) -> str:
        """Return the options."""
        return f"p={self.p}, margin={self.margin}, {super().extra_repr()}"
