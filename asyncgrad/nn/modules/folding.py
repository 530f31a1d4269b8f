"""Windows over images as columns, and the way back, as modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from ...core.tensor import Tensor
from ..functional.folding import fold, unfold
from .module import Module

if TYPE_CHECKING:
    import numpy as np

    from ...core.arrays.array_like import Lengths


__all__ = ["Fold", "Unfold"]


class _Windows(Module):
    """Abstract base of layers that have the options of a window."""

    kernel_size: Lengths
    dilation: Lengths
    padding: Lengths
    stride: Lengths

    def extra_repr(self) -> str:
        """Return the window."""
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


@final
class Unfold(_Windows):
    """Computes `nn.unfold`, whose options are this class's.

    Args:
        kernel_size: height and width of the window, an int or a pair.
        dilation: steps between the elements of the window, an int or a pair.
        padding: rows and columns of zeros on each side, an int or a pair.
        stride: steps of the window, an int or a pair.

    Source: torch.nn.Unfold.
    """

    def __init__(self, kernel_size: Lengths, dilation: Lengths = 1, padding: Lengths = 0, stride: Lengths = 1) -> None:
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return the windows over images, each as a column."""
        return unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)


@final
class Fold(_Windows):
    """Computes `nn.fold`, whose options are this class's.

    Args:
        output_size: height and width of the images, an int or a pair.
        kernel_size: height and width of the window, an int or a pair.
        dilation: steps between the elements of the window, an int or a pair.
        padding: rows and columns around the images that are cut off, an int or a pair.
        stride: steps of the window, an int or a pair.

    Source: torch.nn.Fold.
    """

    def __init__(
        self,
        output_size: Lengths,
        kernel_size: Lengths,
        dilation: Lengths = 1,
        padding: Lengths = 0,
        stride: Lengths = 1,
    ) -> None:
        self.output_size: Lengths = output_size
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return images, each element the sum of what windows have there."""
        return fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """Return the size of the images and the window."""
        return f"output_size={self.output_size}, {super().extra_repr()}"
