"""Pooling as modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, final

from ...core.settings.arguments import number, truth
from ...core.tensor import Tensor
from ..functional.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from ..shared.arguments import lengths
from .module import Module

if TYPE_CHECKING:
    import numpy as np

    from ...core.arrays.array_like import Lengths, NewLengths


__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
]


class _Pool(Module):
    """Abstract base of layers that pool windows."""

    kernel_size: Lengths
    stride: Lengths
    padding: Lengths

    def extra_repr(self) -> str:
        """Return the window."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _MaxPool(_Pool):
    """Abstract base of layers that return the maximum of each window."""

    #: The function that does it.
    _pool: ClassVar[Callable[..., Any]]

    def __init__(
        self,
        kernel_size: Lengths,
        stride: Lengths | None = None,
        padding: Lengths = 0,
        dilation: Lengths = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        self.kernel_size: Any = kernel_size
        self.stride: Any = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation: Any = dilation
        self.return_indices: bool = truth(return_indices, "return_indices")
        self.ceil_mode: bool = truth(ceil_mode, "ceil_mode")

    def extra_repr(self) -> str:
        """Return the window and its options."""
        return f"{super().extra_repr()}, dilation={self.dilation}, ceil_mode={self.ceil_mode}"

    def forward(self, input: Tensor | np.ndarray) -> Any:
        """Return the maximum of each window, with `return_indices` together with its position."""
        pool = type(self)._pool
        options = (self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices)
        return pool(input, *options)


@final
class MaxPool1d(_MaxPool):
    """Computes `nn.max_pool1d`, whose options are this class's.

    Args:
        kernel_size: length of the window.
        stride: steps of the window; None for the kernel's size.
        padding: how many times minus infinity on each side, at most half the kernel.
        dilation: steps between the elements of the window.
        return_indices: return the positions of the maxima too.
        ceil_mode: let the last window reach beyond the sequence, if it begins inside.

    Source: torch.nn.MaxPool1d.
    """

    _pool = max_pool1d


@final
class MaxPool2d(_MaxPool):
    """Computes `nn.max_pool2d`, whose options are this class's.

    Args:
        kernel_size: height and width of the window, an int or a pair.
        stride: steps of the window, an int or a pair; None for the kernel's size.
        padding: rows and columns of minus infinity on each side, an int or a pair, at most half the kernel.
        dilation: steps between the elements of the window, an int or a pair.
        return_indices: return the positions of the maxima too: their numbers in each image, row by row.
        ceil_mode: let the last windows reach beyond the image, if they begin inside.

    Source: torch.nn.MaxPool2d.
    """

    _pool = max_pool2d


@final
class MaxPool3d(_MaxPool):
    """Computes `nn.max_pool3d`, whose options are this class's.

    Args:
        kernel_size: depth, height and width of the window, an int or three.
        stride: steps of the window, an int or three; None for the kernel's size.
        padding: elements of minus infinity on each side of each axis, an int or three, at most half the kernel.
        dilation: steps between the elements of the window, an int or three.
        return_indices: return the positions of the maxima too: their numbers in each volume.
        ceil_mode: let the last windows reach beyond the volume, if they begin inside.

    Source: torch.nn.MaxPool3d.
    """

    _pool = max_pool3d


@final
class AvgPool1d(_Pool):
    """Computes `nn.avg_pool1d`, whose options are this class's.

    Args:
        kernel_size: length of the window.
        stride: steps of the window; None for the kernel's size.
        padding: zeros on each side, at most half the kernel.
        ceil_mode: let the last window reach beyond the sequence, if it begins inside.
        count_include_pad: count the padding's zeros in the mean.

    Source: torch.nn.AvgPool1d.
    """

    def __init__(
        self,
        kernel_size: Lengths,
        stride: Lengths | None = None,
        padding: Lengths = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        self.kernel_size = lengths("kernel_size", kernel_size)
        self.stride = self.kernel_size if stride is None else lengths("stride", stride)
        self.padding = lengths("padding", padding)
        self.ceil_mode: bool = ceil_mode
        self.count_include_pad: bool = count_include_pad

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return the mean of each window."""
        return avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class _DividedPool(_Pool):
    """Abstract base of layers that return the mean of each window, whose divisor may be given."""

    #: The function that does it.
    _pool: ClassVar[Callable[..., Any]]

    def __init__(
        self,
        kernel_size: Lengths,
        stride: Lengths | None = None,
        padding: Lengths = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        self.kernel_size: Any = kernel_size
        self.stride: Any = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode: bool = ceil_mode
        self.count_include_pad: bool = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return the mean of each window."""
        pool = type(self)._pool
        result: Tensor = pool(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )
        return result


@final
class AvgPool2d(_DividedPool):
    """Computes `nn.avg_pool2d`, whose options are this class's.

    Args:
        kernel_size: height and width of the window, an int or a pair.
        stride: steps of the window, an int or a pair; None for the kernel's size.
        padding: rows and columns of zeros on each side, an int or a pair, at most half the kernel.
        ceil_mode: let the last windows reach beyond the image, if they begin inside.
        count_include_pad: count the padding's zeros in the mean.
        divisor_override: divide each sum by this int rather than by the count.

    Source: torch.nn.AvgPool2d.
    """

    _pool = avg_pool2d


@final
class AvgPool3d(_DividedPool):
    """Computes `nn.avg_pool3d`, whose options are this class's.

    Args:
        kernel_size: depth, height and width of the window, an int or three.
        stride: steps of the window, an int or three; None for the kernel's size.
        padding: zeros on each side of each axis, an int or three, at most half the kernel.
        ceil_mode: let the last windows reach beyond the volume, if they begin inside.
        count_include_pad: count the padding's zeros in the mean.
        divisor_override: divide each sum by this int rather than by the count.

    Source: torch.nn.AvgPool3d.
    """

    _pool = avg_pool3d


class _LPPool(Module):
    """Abstract base of layers that return a norm of each window."""

    #: The function that does it.
    _pool: ClassVar[Callable[..., Any]]

    def __init__(
        self, norm_type: float, kernel_size: Lengths, stride: Lengths | None = None, ceil_mode: bool = False
    ) -> None:
        number(norm_type, "norm_type")
        self.norm_type = norm_type
        self.kernel_size: Any = kernel_size
        self.stride: Any = stride
        self.ceil_mode: bool = truth(ceil_mode, "ceil_mode")

    def extra_repr(self) -> str:
        """Return the window and its options."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return the norm of each window."""
        pool = type(self)._pool
        result: Tensor = pool(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)
        return result


@final
class LPPool1d(_LPPool):
    """Computes `nn.lp_pool1d`, whose options are this class's.

    Args:
        norm_type: the power; of an odd one, a sum may be negative, and its root NaN.
        kernel_size: length of the window.
        stride: steps of the window; None for the kernel's size.
        ceil_mode: let the last window reach beyond the sequence; its sum is that of a whole window of its mean.

    Source: torch.nn.LPPool1d.
    """

    _pool = lp_pool1d


@final
class LPPool2d(_LPPool):
    """Computes `nn.lp_pool2d`, whose options are this class's.

    Args:
        norm_type: the power; of an odd one, a sum may be negative, and its root NaN.
        kernel_size: height and width of the window, an int or a pair.
        stride: steps of the window, an int or a pair; None for the kernel's size.
        ceil_mode: let the last windows reach beyond the image; their sums are those of whole windows of their means.

    Source: torch.nn.LPPool2d.
    """

    _pool = lp_pool2d


@final
class LPPool3d(_LPPool):
    """Computes `nn.lp_pool3d`, whose options are this class's.

    Args:
        norm_type: the power; of an odd one, a sum may be negative, and its root NaN.
        kernel_size: depth, height and width of the window, an int or three.
        stride: steps of the window, an int or three; None for the kernel's size.
        ceil_mode: let the last windows reach beyond the volume; their sums are those of whole windows of their means.

    Source: torch.nn.LPPool3d.
    """

    _pool = lp_pool3d


class AdaptivePool(Module):
    """Abstract: a layer that pools into a given number of windows."""

    #: The function that does it.
    _pool: ClassVar[Callable[..., Any]]

    def __init__(self, output_size: NewLengths) -> None:
        self.output_size = output_size

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return the means or the maxima of the windows."""
        pool = type(self)._pool
        return pool(input, self.output_size)

    def extra_repr(self) -> str:
        """Return the options that the layer shows in its repr."""
        return f"output_size={self.output_size}"


@final
class AdaptiveAvgPool1d(AdaptivePool):
    """Return the means of windows, as many as asked for, that together cover a sequence.

    Args:
        output_size: the length of the result.

    Source: torch.nn.AdaptiveAvgPool1d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.AdaptiveAvgPool1d(5)(np.ones((2, 3, 8))).shape
        (2, 3, 5)
    """

    _pool = staticmethod(adaptive_avg_pool1d)


@final
class AdaptiveAvgPool2d(AdaptivePool):
    """Return the means of windows, as many as asked for, that together cover an image.

    Args:
        output_size: rows and columns of the result, an int for both or a pair; None keeps a size.

    Source: torch.nn.AdaptiveAvgPool2d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.AdaptiveAvgPool2d(5)(np.ones((2, 3, 8, 8))).shape
        (2, 3, 5, 5)
    """

    _pool = staticmethod(adaptive_avg_pool2d)


@final
class AdaptiveAvgPool3d(AdaptivePool):
    """Computes `nn.adaptive_avg_pool3d`, whose options are this class's.

    Args:
        output_size: depth, rows and columns of the result, an int for all or three; None keeps a size.

    Source: torch.nn.AdaptiveAvgPool3d.
    """

    _pool = staticmethod(adaptive_avg_pool3d)


class AdaptiveMaxPool(AdaptivePool):
    """Abstract: a layer that returns the maxima of a given number of windows."""

    def __init__(self, output_size: NewLengths, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices: bool = truth(return_indices, "return_indices")

    def forward(self, input: Tensor | np.ndarray) -> Any:
        """Return the maxima of the windows, with `return_indices` together with their positions."""
        pool = type(self)._pool
        return pool(input, self.output_size, self.return_indices)


@final
class AdaptiveMaxPool1d(AdaptiveMaxPool):
    """Return the maxima of windows, as many as asked for, that together cover a sequence.

    Args:
        output_size: the length of the result.
        return_indices: return the positions of the maxima too.

    Source: torch.nn.AdaptiveMaxPool1d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.AdaptiveMaxPool1d(5)(np.ones((2, 3, 8))).shape
        (2, 3, 5)
    """

    _pool = staticmethod(adaptive_max_pool1d)


@final
class AdaptiveMaxPool2d(AdaptiveMaxPool):
    """Return the maxima of windows, as many as asked for, that together cover an image.

    Args:
        output_size: rows and columns of the result, an int for both or a pair; None keeps a size.
        return_indices: return the positions of the maxima too.

    Source: torch.nn.AdaptiveMaxPool2d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.AdaptiveMaxPool2d(5)(np.ones((2, 3, 8, 8))).shape
        (2, 3, 5, 5)
    """

    _pool = staticmethod(adaptive_max_pool2d)


@final
class AdaptiveMaxPool3d(AdaptiveMaxPool):
    """Computes `nn.adaptive_max_pool3d`, whose options are this class's.

    Args:
        output_size: depth, rows and columns of the result, an int for all or three; None keeps a size.
        return_indices: return the positions of the maxima too: their numbers in each volume.

    Source: torch.nn.AdaptiveMaxPool3d.
    """

    _pool = staticmethod(adaptive_max_pool3d)
