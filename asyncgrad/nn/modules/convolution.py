"""Layers that convolve."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, final

from ...core.settings.arguments import truth, whole_number
from ...core.tensor import Tensor
from ...errors import ArgumentError
from ..functional.convolution import conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, conv_transpose3d
from ..functional.resizing import pad
from ..shared.arguments import array_of, pair, single, triple
from .module import Module
from .parameters import draw_by_inputs, new_parameter, size

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ...core.arrays.array_like import Lengths
    from .parameters import Place


__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class Convolution(Module):
    """Abstract: the parameters and options of a layer that convolves."""

    #: The number of axes of an image.
    axes: int
    #: Whether the layer is the gradient of a convolution.
    is_transposed = False

    output_padding: tuple[int, ...]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Lengths,
        stride: Lengths = 1,
        padding: Lengths | str = 0,
        dilation: Lengths = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Place = None,
        dtype: npt.DTypeLike | None = None,
    ) -> None:
        name = type(self).__name__
        in_channels, out_channels = size(in_channels, "in_channels"), size(out_channels, "out_channels")
        groups = whole_number(groups, "groups")
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ArgumentError(
                f"{name} needs a number of groups that divides in_channels={in_channels} and "
                f"out_channels={out_channels}, not {groups}"
            )
        if padding_mode not in _PADDING_MODES or (self.is_transposed and padding_mode != "zeros"):
            modes = "'zeros'" if self.is_transposed else ", ".join(_PADDING_MODES)
            raise ArgumentError(f"{name}: padding_mode must be one of {modes}, not {padding_mode!r}")
        self.in_channels: int = in_channels
        self.out_channels: int = out_channels
        self.groups: int = groups
        self.kernel_size: tuple[int, ...] = self._each("kernel_size", kernel_size, 1)
        self.stride: tuple[int, ...] = self._each("stride", stride, 1)
        self.dilation: tuple[int, ...] = self._each("dilation", dilation, 1)
        self.padding: str | tuple[int, ...] = padding if isinstance(padding, str) else self._each("padding", padding, 0)
        if isinstance(padding, str) and (
            padding not in ("valid", "same") or self.is_transposed or (padding == "same" and set(self.stride) != {1})
        ):
            expected = "an int or a tuple" if self.is_transposed else "'valid', an int, a tuple, or 'same' of stride 1"
            raise ArgumentError(f"{name}: padding must be {expected}, not {padding!r} with stride {self.stride}")
        self.padding_mode = padding_mode
        self.output_padding = (0,) * self.axes
        channels = (in_channels, out_channels) if self.is_transposed else (out_channels, in_channels)
        self.weight: Tensor = new_parameter((channels[0], channels[1] // groups, *self.kernel_size), device, dtype)
        self.bias: Tensor | None = new_parameter((out_channels,), device, dtype) if truth(bias, "bias") else None
        self.reset_parameters()

    def _each(self, name: str, value: Any, least: int) -> tuple[int, ...]:
        if self.axes == 1:
            return (single(name, value, least),)
        return pair(name, value, least) if self.axes == 2 else triple(name, value, least)

    def reset_parameters(self) -> None:
        """Draw the weight and the bias uniformly from `±1 / sqrt(channels * kernel)`, those that a filter reads."""
        draw_by_inputs(self.weight, self.bias, max(1, self.weight.shape[1] * math.prod(self.kernel_size)))

    def extra_repr(self) -> str:
        """Return the options that the layer shows in its repr."""
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if self.padding not in ((0,) * self.axes, "valid"):
            text += f", padding={self.padding}"
        if self.dilation != (1,) * self.axes:
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * self.axes:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        return text if self.padding_mode == "zeros" else f"{text}, padding_mode={self.padding_mode}"

    def _padded(self, x: Any) -> tuple[Any, Any]:
        """Return x, padded unless with zeros, and the padding that is left to the convolution."""
        if self.padding_mode == "zeros":
            return x, self.padding
        if isinstance(self.padding, str):
            spans = [
                0 if self.padding == "valid" else step * (length - 1)
                for step, length in zip(self.dilation, self.kernel_size, strict=True)
            ]
            widths = [(span // 2, span - span // 2) for span in spans]
        else:
            widths = [(width, width) for width in self.padding]
        return pad(x, [width for both in reversed(widths) for width in both], self.padding_mode), (0,) * self.axes


@final
class Conv1d(Convolution):
    """Convolve sequences of shape `(n, in_channels, length)`, or one without n, with filters that are learned.

    Args:
        in_channels: channels of the sequences.
        out_channels: the number of filters.
        kernel_size: the length of a filter.
        stride: steps of a filter.
        padding: elements added on each side, or "valid" or "same".
        dilation: steps between the elements of a filter.
        groups: the number of groups of channels and filters.
        bias: add a bias for each filter.
        padding_mode: "zeros", "reflect", "replicate" or "circular".
        device: of the parameters.
        dtype: of the parameters.

    Source: torch.nn.Conv1d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.Conv1d(2, 3, 5)(np.ones((4, 2, 8))).shape
        (4, 3, 4)
    """

    axes = 1

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return sequences of shape `(n, out_channels, positions)`."""
        x, padding = self._padded(input)
        return conv1d(x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)


@final
class Conv2d(Convolution):
    """Convolve images of shape `(n, in_channels, height, width)`, or one without n, with filters that are learned.

    Args:
        in_channels: channels of the images.
        out_channels: the number of filters.
        kernel_size: height and width of a filter, an int or a pair.
        stride: steps of a filter, an int or a pair.
        padding: rows and columns added on each side, an int or a pair, or "valid" or "same".
        dilation: steps between the elements of a filter, an int or a pair.
        groups: the number of groups of channels and filters.
        bias: add a bias for each filter.
        padding_mode: "zeros", "reflect", "replicate" or "circular".
        device: of the parameters.
        dtype: of the parameters.

    Source: torch.nn.Conv2d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.Conv2d(1, 3, 5, padding=2)(np.ones((4, 1, 8, 8))).shape
        (4, 3, 8, 8)
    """

    axes = 2

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return images of shape `(n, out_channels, rows, columns)`."""
        x, padding = self._padded(input)
        return conv2d(x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)


@final
class Conv3d(Convolution):
    """Convolve volumes of shape `(n, in_channels, depth, height, width)`, or without n, with filters that are learned.

    Args:
        in_channels: channels of the volumes.
        out_channels: the number of filters.
        kernel_size: depth, height and width of a filter, an int or three.
        stride: steps of a filter, an int or three.
        padding: elements added on each side of each axis, an int or three, or "valid" or "same".
        dilation: steps between the elements of a filter, an int or three.
        groups: the number of groups of channels and filters.
        bias: add a bias for each filter.
        padding_mode: "zeros", "reflect", "replicate" or "circular".
        device: of the parameters.
        dtype: of the parameters.

    Source: torch.nn.Conv3d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.Conv3d(1, 3, 5, padding=2)(np.ones((4, 1, 6, 8, 8))).shape
        (4, 3, 6, 8, 8)
    """

    axes = 3

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return volumes of shape `(n, out_channels, ...)`."""
        x, padding = self._padded(input)
        return conv3d(x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)


class TransposedConvolution(Convolution):
    """Abstract: a layer that is the gradient of a convolution."""

    is_transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Lengths,
        stride: Lengths = 1,
        padding: Lengths | str = 0,
        output_padding: Lengths = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Lengths = 1,
        padding_mode: str = "zeros",
        device: Place = None,
        dtype: npt.DTypeLike | None = None,
    ) -> None:
        if isinstance(padding, str):
            raise ArgumentError(f"{type(self).__name__} takes a padding of numbers, not {padding!r}")
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )
        self.output_padding = self._each("output_padding", output_padding, 0)

    def _output_padding(self, shape: tuple[int, ...], output_size: Any) -> tuple[int, ...]:
        """Return the output padding that makes images of the given size, which may have n and channels too."""
        if output_size is None:
            return self.output_padding
        wanted = tuple(output_size)[-self.axes :]
        cut: Any = self.padding
        least = [
            (size - 1) * step - 2 * around + reach * (length - 1) + 1
            for size, step, around, reach, length in zip(
                shape[-self.axes :], self.stride, cut, self.dilation, self.kernel_size, strict=True
            )
        ]
        extra = tuple(size - one for size, one in zip(wanted, least, strict=True))
        if not all(0 <= one < step for one, step in zip(extra, self.stride, strict=True)):
            most = tuple(one + step - 1 for one, step in zip(least, self.stride, strict=True))
            raise ArgumentError(
                f"{type(self).__name__} makes images from {tuple(least)} to {most} of x of shape {shape}, not of "
                f"output_size {wanted}"
            )
        return extra


@final
class ConvTranspose1d(TransposedConvolution):
    """The gradient of a `Conv1d` from out_channels to in_channels, as a layer: it makes sequences longer.

    Args:
        in_channels: channels of the sequences.
        out_channels: the number of filters.
        kernel_size: the length of a filter.
        stride: steps of a filter in the output.
        padding: elements left out on each side.
        output_padding: elements added at the end.
        groups: the number of groups of channels and filters.
        bias: add a bias for each filter.
        dilation: steps between the elements of a filter.
        padding_mode: "zeros"; there is no other.
        device: of the parameters.
        dtype: of the parameters.

    Source: torch.nn.ConvTranspose1d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.ConvTranspose1d(2, 3, 2, stride=2)(np.ones((4, 2, 8))).shape
        (4, 3, 16)
    """

    axes = 1

    def forward(self, input: Tensor | np.ndarray, output_size: Lengths | None = None) -> Tensor:
        """Return sequences of shape `(n, out_channels, positions)`; `output_size` chooses among the lengths."""
        extra = self._output_padding(array_of(input).shape, output_size)
        padding: Any = self.padding  # never a word: see the constructor
        return conv_transpose1d(input, self.weight, self.bias, self.stride, padding, extra, self.groups, self.dilation)


@final
class ConvTranspose2d(TransposedConvolution):
    """The gradient of a `Conv2d` from out_channels to in_channels, as a layer: it makes images larger.

    Args:
        in_channels: channels of the images.
        out_channels: the number of filters.
        kernel_size: height and width of a filter, an int or a pair.
        stride: steps of a filter in the output, an int or a pair.
        padding: rows and columns left out on each side, an int or a pair.
        output_padding: rows and columns added below and to the right, an int or a pair.
        groups: the number of groups of channels and filters.
        bias: add a bias for each filter.
        dilation: steps between the elements of a filter, an int or a pair.
        padding_mode: "zeros"; there is no other.
        device: of the parameters.
        dtype: of the parameters.

    Source: torch.nn.ConvTranspose2d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.ConvTranspose2d(1, 3, 2, stride=2)(np.ones((4, 1, 8, 8))).shape
        (4, 3, 16, 16)
    """

    axes = 2

    def forward(self, input: Tensor | np.ndarray, output_size: Lengths | None = None) -> Tensor:
        """Return images of shape `(n, out_channels, rows, columns)`; `output_size` chooses among the sizes."""
        extra = self._output_padding(array_of(input).shape, output_size)
        padding: Any = self.padding  # never a word: see the constructor
        return conv_transpose2d(input, self.weight, self.bias, self.stride, padding, extra, self.groups, self.dilation)


@final
class ConvTranspose3d(TransposedConvolution):
    """The gradient of a `Conv3d` from out_channels to in_channels, as a layer: it makes volumes larger.

    Args:
        in_channels: channels of the volumes.
        out_channels: the number of filters.
        kernel_size: depth, height and width of a filter, an int or three.
        stride: steps of a filter in the output, an int or three.
        padding: elements left out on each side of each axis, an int or three.
        output_padding: elements added at the end of each axis, an int or three.
        groups: the number of groups of channels and filters.
        bias: add a bias for each filter.
        dilation: steps between the elements of a filter, an int or three.
        padding_mode: "zeros"; there is no other.
        device: of the parameters.
        dtype: of the parameters.

    Source: torch.nn.ConvTranspose3d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.ConvTranspose3d(1, 3, 2, stride=2)(np.ones((4, 1, 3, 8, 8))).shape
        (4, 3, 6, 16, 16)
    """

    axes = 3

    def forward(self, input: Tensor | np.ndarray, output_size: Lengths | None = None) -> Tensor:
        """Return volumes of shape `(n, out_channels, ...)`; `output_size` chooses among the sizes."""
        extra = self._output_padding(array_of(input).shape, output_size)
        padding: Any = self.padding  # never a word: see the constructor
        return conv_transpose3d(input, self.weight, self.bias, self.stride, padding, extra, self.groups, self.dilation)
