"""Distances and similarities as modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from ...core.settings.arguments import truth
from ...core.tensor import Tensor
from ..functional.distances import cosine_similarity, pairwise_distance
from .module import Module

if TYPE_CHECKING:
    import numpy as np


__all__ = ["CosineSimilarity", "PairwiseDistance"]


@final
class CosineSimilarity(Module):
    """Computes `nn.cosine_similarity` along the axis `dim`.

    Args:
        dim: the axis of the vectors' elements.
        eps: the least length to divide by.

    Source: torch.nn.CosineSimilarity.
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        self.dim: int = dim
        self.eps: float = eps

    def forward(self, x1: Tensor | np.ndarray, x2: Tensor | np.ndarray) -> Tensor:
        """Return `nn.cosine_similarity(x1, x2, dim, eps)`."""
        return cosine_similarity(x1, x2, self.dim, self.eps)

    def extra_repr(self) -> str:
        """Return the options."""
        return f"dim={self.dim}, eps={self.eps}"


@final
class PairwiseDistance(Module):
    """Computes `nn.pairwise_distance`, whose options are this class's.

    Args:
        p: the order of the norm.
        eps: added to each difference, so that that of equal vectors has a derivative.
        keepdim: keep the axis of the features, with length 1.

    Source: torch.nn.PairwiseDistance.
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        self.norm: float = p
        self.eps: float = eps
        self.keepdim: bool = truth(keepdim, "keepdim")

    def forward(self, x1: Tensor | np.ndarray, x2: Tensor | np.ndarray) -> Tensor:
        """Return `nn.pairwise_distance(x1, x2, p, eps, keepdim)`."""
        return pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)

    def extra_repr(self) -> str:
        """Return the options."""
        return f"p={self.norm}, eps={self.eps}, keepdim={self.keepdim}"
