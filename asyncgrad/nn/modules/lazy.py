"""Layers that take the number of their input's features or channels from the first input, or from a state dict."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, final

from ...core.arrays.uninitialized import UninitializedParameter, uninitialized_error
from ...core.settings.process import hold_in_forks
from ...core.tensor import Tensor
from ...errors import ArgumentError
from ..shared.arguments import array_of
from .convolution import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .linear import Linear
from .module import Module
from .normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ...core.arrays.array_like import Lengths
    from .parameters import Place


__all__ = [
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
    "LazyLinear",
    "UninitializedParameter",
]

#: Of two threads that call a layer for the first time, one makes its parameters.
_INITIALIZING = hold_in_forks(threading.Lock())


class LazyModule(Module):
    """Abstract: a layer that becomes one of another class when it is first called, or loads a state.

    Until then its tensors are UninitializedParameters.
    """

    #: The class of the layer that it becomes.
    _becomes: Any
    #: The argument and the attribute of that layer which the first input tells.
    _counted = "in_channels"

    _options: dict[str, Any]

    def _begin(self, **options: Any) -> None:
        """Take over the attributes of a layer with these options; one without input checks them."""
        attributes = vars(self._becomes(**{self._counted: 0}, **options))
        for name, value in attributes.items():
            # A count of batches has its shape already.
            if isinstance(value, Tensor) and value.ndim:
                attributes[name] = UninitializedParameter(value.dtype, value.device, value.requires_grad)
        vars(self).update(attributes, _options=options)

    def forward(self, input: Tensor | np.ndarray, output_size: Lengths | None = None) -> Tensor:
        """Make the parameters for this input, and return the output of the layer that this one has become.

        Args:
            input: what the layer takes.
            output_size: for a transposed convolution alone; None for its own.
        """
        self._initialize(self._count_of(array_of(input).shape))
        layer: Any = self
        found: Tensor = layer.forward(input) if output_size is None else layer.forward(input, output_size)
        return found

    def _count_of(self, shape: tuple[int, ...]) -> int:
        """Return the number of channels of an input."""
        axes = self._axes()
        if len(shape) not in axes:
            expected = " or ".join(map(str, axes))
            raise ArgumentError(f"{type(self).__name__} takes x with {expected} axes, not of shape {shape}")
        return shape[self._axis_of_channels(len(shape), axes[-1])]

    def _axis_of_channels(self, count: int, most: int) -> int:
        """Return which of `count` axes has the channels; in a batch, which has `most`, it is axis 1."""
        return 1 + count - most

    def _axes(self) -> tuple[int, ...]:
        """Return the numbers of axes that an input may have, the most last."""
        axes = self._becomes.axes
        return (axes + 1, axes + 2) if isinstance(axes, int) else axes

    def _count_by(self, shapes: Mapping[str, tuple[int, ...]]) -> int | None:
        """Return the number of channels of a layer with tensors of these shapes, by name; None if they do not tell."""
        found = [shapes[name] for name in ("weight", "running_mean") if name in shapes]
        return found[0][0] if found and found[0] else None

    def _initialize(self, count: int) -> None:
        if self._record.is_frozen or self._record.origin is not None:
            raise uninitialized_error(f"a parameter of {type(self).__name__}")
        with _INITIALIZING:
            if not isinstance(self, LazyModule):
                return
            attributes = vars(self)
            lazy = {name: value for name, value in attributes.items() if isinstance(value, UninitializedParameter)}
            options = attributes["_options"]
            for one in lazy.values():
                options = {**options, "device": one.device, "dtype": one.dtype}
            made = vars(self._becomes(**{self._counted: count}, **options))
            for name, one in lazy.items():
                attributes[name] = made[name] if one.requires_grad else made[name].requires_grad_(False)
            attributes[self._counted] = count
            del attributes["_options"]
            self.__class__ = self._becomes

    def _initialize_by(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        if (count := self._count_by(shapes)) is not None:
            self._initialize(count)

    def extra_repr(self) -> str:
        """Return the options that the layer will show in its repr."""
        future = object.__new__(self._becomes)
        vars(future).update(vars(self))
        text: str = future.extra_repr()
        return text


@final
class LazyLinear(LazyModule):
    """A `Linear` whose `in_features` are those of its first input; it then is one.

    Args:
        out_features: the size of the output's last axis.
        bias: whether there is a bias.
        device: where the parameters live.
        dtype: their dtype; None for the default one.

    Source: torch.nn.LazyLinear.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> layer = nn.LazyLinear(2)
        >>> layer
        LazyLinear(in_features=0, out_features=2, bias=True)  # 0 parameters
        >>> layer(np.ones((5, 3))).shape
        (5, 2)
        >>> layer
        Linear(in_features=3, out_features=2, bias=True, weight (2, 3), bias (2,))  # 8 parameters
    """

    _becomes = Linear
    _counted = "in_features"

    def __init__(
        self, out_features: int, bias: bool = True, device: Place = None, dtype: npt.DTypeLike | None = None
    ) -> None:
        self._begin(out_features=out_features, bias=bias, device=device, dtype=dtype)

    def _count_of(self, shape: tuple[int, ...]) -> int:
        if not shape:
            raise ArgumentError("LazyLinear takes x with an axis of features, not of shape ()")
        return shape[-1]

    def _count_by(self, shapes: Mapping[str, tuple[int, ...]]) -> int | None:
        weight = shapes.get("weight", ())
        return weight[1] if len(weight) == 2 else None


class LazyConvolution(LazyModule):
    """Abstract: a layer that convolves, of as many channels as its first input."""

    def __init__(
        self,
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
        self._begin(
            out_channels=out_channels,
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            bias=bias,
            padding_mode=padding_mode,
            device=device,
            dtype=dtype,
        )

    def _count_by(self, shapes: Mapping[str, tuple[int, ...]]) -> int | None:
        weight = shapes.get("weight", ())
        return weight[1] * vars(self)["groups"] if len(weight) > 1 else None


class LazyTransposedConvolution(LazyModule):
    """Abstract: a layer that is the gradient of a convolution, of as many channels as its first input."""

    def __init__(
        self,
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
        self._begin(
            out_channels=out_channels,
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            output_padding=output_padding,
            groups=groups,
            bias=bias,
            dilation=dilation,
            padding_mode=padding_mode,
            device=device,
            dtype=dtype,
        )


class LazyNorm(LazyModule):
    """Abstract: a layer that normalizes as many channels as its first input has."""

    _counted = "num_features"

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Place = None,
        dtype: npt.DTypeLike | None = None,
        *,
        bias: bool = True,
    ) -> None:
        self._begin(
            eps=eps,
            momentum=momentum,
            affine=affine,
            track_running_stats=track_running_stats,
            device=device,
            dtype=dtype,
            bias=bias,
        )


@final
class LazyConv1d(LazyConvolution):
    """A `Conv1d` whose `in_channels` are those of the first sequences that it is called with; it then is one.

    Args:
        out_channels: the number of filters.
        kernel_size: the lengths of a filter, an int.
        stride: steps of a filter, an int.
        padding: elements added on each side, an int, or "valid" or "same".
        dilation: steps between the elements of a filter, an int.
        groups: the number of groups of channels and filters.
        bias: add a bias for each filter.
        padding_mode: "zeros", "reflect", "replicate" or "circular".
        device: of the parameters.
        dtype: of the parameters.

    Source: torch.nn.LazyConv1d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.LazyConv1d(3, 3)(np.ones((4, 2, 8))).shape
        (4, 3, 6)
    """

    _becomes = Conv1d


@final
class LazyConv2d(LazyConvolution):
    """A `Conv2d` whose `in_channels` are those of the first images that it is called with; it then is one.

    Args:
        out_channels: the number of filters.
        kernel_size: the lengths of a filter, an int or a pair.
        stride: steps of a filter, an int or a pair.
        padding: elements added on each side, an int or a pair, or "valid" or "same".
        dilation: steps between the elements of a filter, an int or a pair.
        groups: the number of groups of channels and filters.
        bias: add a bias for each filter.
        padding_mode: "zeros", "reflect", "replicate" or "circular".
        device: of the parameters.
        dtype: of the parameters.

    Source: torch.nn.LazyConv2d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.LazyConv2d(3, 3)(np.ones((4, 2, 8, 8))).shape
        (4, 3, 6, 6)
    """

    _becomes = Conv2d


@final
class LazyConv3d(LazyConvolution):
    """A `Conv3d` whose `in_channels` are those of the first volumes that it is called with; it then is one.

    Args:
        out_channels: the number of filters.
        kernel_size: the lengths of a filter, an int or three.
        stride: steps of a filter, an int or three.
        padding: elements added on each side, an int or three, or "valid" or "same".
        dilation: steps between the elements of a filter, an int or three.
        groups: the number of groups of channels and filters.
        bias: add a bias for each filter.
        padding_mode: "zeros", "reflect", "replicate" or "circular".
        device: of the parameters.
        dtype: of the parameters.

    Source: torch.nn.LazyConv3d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.LazyConv3d(3, 3)(np.ones((4, 2, 6, 8, 8))).shape
        (4, 3, 4, 6, 6)
    """

    _becomes = Conv3d


@final
class LazyConvTranspose1d(LazyTransposedConvolution):
    """A `ConvTranspose1d` whose `in_channels` are those of the first sequences that it is called with; it then is one.

    Args:
        out_channels: the number of filters.
        kernel_size: the lengths of a filter, an int.
        stride: steps of a filter in the output, an int.
        padding: elements left out on each side, an int.
        output_padding: elements added at the end of each axis, an int.
        groups: the number of groups of channels and filters.
        bias: add a bias for each filter.
        dilation: steps between the elements of a filter, an int.
        padding_mode: "zeros"; there is no other.
        device: of the parameters.
        dtype: of the parameters.

    Source: torch.nn.LazyConvTranspose1d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.LazyConvTranspose1d(3, 2, stride=2)(np.ones((4, 2, 8))).shape
        (4, 3, 16)
    """

    _becomes = ConvTranspose1d


@final
class LazyConvTranspose2d(LazyTransposedConvolution):
    """A `ConvTranspose2d` whose `in_channels` are those of the first images that it is called with; it then is one.

    Args:
        out_channels: the number of filters.
        kernel_size: the lengths of a filter, an int or a pair.
        stride: steps of a filter in the output, an int or a pair.
        padding: elements left out on each side, an int or a pair.
        output_padding: elements added at the end of each axis, an int or a pair.
        groups: the number of groups of channels and filters.
        bias: add a bias for each filter.
        dilation: steps between the elements of a filter, an int or a pair.
        padding_mode: "zeros"; there is no other.
        device: of the parameters.
        dtype: of the parameters.

    Source: torch.nn.LazyConvTranspose2d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.LazyConvTranspose2d(3, 2, stride=2)(np.ones((4, 2, 8, 8))).shape
        (4, 3, 16, 16)
    """

    _becomes = ConvTranspose2d


@final
class LazyConvTranspose3d(LazyTransposedConvolution):
    """A `ConvTranspose3d` whose `in_channels` are those of the first volumes that it is called with; it then is one.

    Args:
        out_channels: the number of filters.
        kernel_size: the lengths of a filter, an int or three.
        stride: steps of a filter in the output, an int or three.
        padding: elements left out on each side, an int or three.
        output_padding: elements added at the end of each axis, an int or three.
        groups: the number of groups of channels and filters.
        bias: add a bias for each filter.
        dilation: steps between the elements of a filter, an int or three.
        padding_mode: "zeros"; there is no other.
        device: of the parameters.
        dtype: of the parameters.

    Source: torch.nn.LazyConvTranspose3d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.LazyConvTranspose3d(3, 2, stride=2)(np.ones((4, 2, 6, 8, 8))).shape
        (4, 3, 12, 16, 16)
    """

    _becomes = ConvTranspose3d


class LazyBatchNorm(LazyNorm):
    """Abstract: batch normalization of as many channels as the first input has."""

    def _axis_of_channels(self, count: int, most: int) -> int:
        return 1


@final
class LazyBatchNorm1d(LazyBatchNorm):
    """A `BatchNorm1d` whose `num_features` are the channels of its first input; it then is one.

    Args:
        eps: added to the variance.
        momentum: the weight of a batch in the running statistics; None for their plain mean.
        affine: multiply by a weight that is learned, and add a bias.
        track_running_stats: keep running statistics; without them, evaluation normalizes by those of the batch.
        device: of the parameters.
        dtype: of the parameters.
        bias: add a bias, if affine.

    Source: torch.nn.LazyBatchNorm1d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.LazyBatchNorm1d()(np.ones((4, 2, 8))).shape
        (4, 2, 8)
    """

    _becomes = BatchNorm1d


@final
class LazyBatchNorm2d(LazyBatchNorm):
    """A `BatchNorm2d` whose `num_features` are the channels of its first input; it then is one.

    Args:
        eps: added to the variance.
        momentum: the weight of a batch in the running statistics; None for their plain mean.
        affine: multiply by a weight that is learned, and add a bias.
        track_running_stats: keep running statistics; without them, evaluation normalizes by those of the batch.
        device: of the parameters.
        dtype: of the parameters.
        bias: add a bias, if affine.

    Source: torch.nn.LazyBatchNorm2d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.LazyBatchNorm2d()(np.ones((4, 2, 8, 8))).shape
        (4, 2, 8, 8)
    """

    _becomes = BatchNorm2d


@final
class LazyBatchNorm3d(LazyBatchNorm):
    """A `BatchNorm3d` whose `num_features` are the channels of its first input; it then is one.

    Args:
        eps: added to the variance.
        momentum: the weight of a batch in the running statistics; None for their plain mean.
        affine: multiply by a weight that is learned, and add a bias.
        track_running_stats: keep running statistics; without them, evaluation normalizes by those of the batch.
        device: of the parameters.
        dtype: of the parameters.
        bias: add a bias, if affine.

    Source: torch.nn.LazyBatchNorm3d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.LazyBatchNorm3d()(np.ones((4, 2, 6, 8, 8))).shape
        (4, 2, 6, 8, 8)
    """

    _becomes = BatchNorm3d


@final
class LazyInstanceNorm1d(LazyNorm):
    """An `InstanceNorm1d` whose `num_features` are the channels of its first input; it then is one.

    Unlike that, it is affine and keeps running statistics unless told otherwise, as in PyTorch.

    Args:
        eps: added to the variance.
        momentum: the weight of a batch in the running statistics.
        affine: multiply by a weight that is learned, and add a bias.
        track_running_stats: keep running statistics, by which evaluation normalizes.
        device: of the parameters.
        dtype: of the parameters.
        bias: add a bias, if affine.

    Source: torch.nn.LazyInstanceNorm1d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.LazyInstanceNorm1d()(np.ones((4, 2, 8))).shape
        (4, 2, 8)
    """

    _becomes = InstanceNorm1d


@final
class LazyInstanceNorm2d(LazyNorm):
    """An `InstanceNorm2d` whose `num_features` are the channels of its first input; it then is one.

    Unlike that, it is affine and keeps running statistics unless told otherwise, as in PyTorch.

    Args:
        eps: added to the variance.
        momentum: the weight of a batch in the running statistics.
        affine: multiply by a weight that is learned, and add a bias.
        track_running_stats: keep running statistics, by which evaluation normalizes.
        device: of the parameters.
        dtype: of the parameters.
        bias: add a bias, if affine.

    Source: torch.nn.LazyInstanceNorm2d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.LazyInstanceNorm2d()(np.ones((4, 2, 8, 8))).shape
        (4, 2, 8, 8)
    """

    _becomes = InstanceNorm2d


@final
class LazyInstanceNorm3d(LazyNorm):
    """An `InstanceNorm3d` whose `num_features` are the channels of its first input; it then is one.

    Unlike that, it is affine and keeps running statistics unless told otherwise, as in PyTorch.

    Args:
        eps: added to the variance.
        momentum: the weight of a batch in the running statistics.
        affine: multiply by a weight that is learned, and add a bias.
        track_running_stats: keep running statistics, by which evaluation normalizes.
        device: of the parameters.
        dtype: of the parameters.
        bias: add a bias, if affine.

    Source: torch.nn.LazyInstanceNorm3d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.LazyInstanceNorm3d()(np.ones((4, 2, 6, 8, 8))).shape
        (4, 2, 6, 8, 8)
    """

    _becomes = InstanceNorm3d
