"""Pooling as modules."""

from __future__ import annotations

from typing import Any, final

from .module import Module
from .pooling import avg_pool1d, avg_pool2d, max_pool1d, max_pool2d

__all__ = ["AvgPool1d", "AvgPool2d", "MaxPool1d", "MaxPool2d"]


@final
class MaxPool1d(Module):
    """Computes `nn.max_pool1d`, whose options are this class's. Source: torch.nn.MaxPool1d."""

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
    ) -> None:
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation, self.ceil_mode = padding, dilation, ceil_mode

    def forward(self, input: Any) -> Any:
        """Return the maximum of each window."""
        return max_pool1d(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)

    def extra_repr(self) -> str:
        """Return the window."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


@final
class AvgPool1d(Module):
    """Computes `nn.avg_pool1d`, whose options are this class's. Source: torch.nn.AvgPool1d."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Any) -> Any:
        """Return the mean of each window."""
        return avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )

    def extra_repr(self) -> str:
        """Return the window."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


@final
class MaxPool2d(Module):
    """Computes `nn.max_pool2d`, whose options are this class's. Source: torch.nn.MaxPool2d."""

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
    ) -> None:
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation, self.ceil_mode = padding, dilation, ceil_mode

    def forward(self, input: Any) -> Any:
        """Return the maximum of each window."""
        return max_pool2d(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)

    def extra_repr(self) -> str:
        """Return the window."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


@final
class AvgPool2d(Module):
    """Computes `nn.avg_pool2d`, whose options are this class's. Source: torch.nn.AvgPool2d."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: float | None = None,
    ) -> None:
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def forward(self, input: Any) -> Any:
        """Return the mean of each window."""
        return avg_pool2d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )

    def extra_repr(self) -> str:
        """Return the window."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"
