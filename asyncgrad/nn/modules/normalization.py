"""Layers that normalize."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ...core.arrays.interception import on_device_of
from ...core.graph.saved_hooks import prepare_write
from ...core.settings.arguments import truth, whole_number
from ...core.settings.context import RECOMPUTING
from ...core.settings.default_dtype import floating_dtype
from ...core.tensor import Tensor, tensor
from ...errors import ArgumentError
from .. import init
from ..functional.normalization import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    local_response_norm,
    rms_norm,
)
from ..shared.arguments import array_of, lengths
from .module import Module
from .parameters import given_number, new_parameter, size

if TYPE_CHECKING:
    import numpy.typing as npt

    from ...core.arrays.array_like import Lengths
    from .parameters import Place


__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "GroupNorm",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LayerNorm",
    "LocalResponseNorm",
    "RMSNorm",
]


class Affine(Module):
    """Abstract: a layer with a weight that begins as ones, and a bias that begins as zeros; both may be None."""

    def _make(self, shape: tuple[int, ...], affine: bool, bias: bool, device: Any, dtype: Any) -> None:
        has_bias = truth(bias, "bias") and affine
        self.weight: Tensor | None = new_parameter(shape, device, dtype) if affine else None
        self.bias: Tensor | None = new_parameter(shape, device, dtype) if has_bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to ones and the bias to zeros."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class ChannelNorm(Affine):
    """Abstract: a layer that normalizes channels, and may track their means and variances."""

    #: The numbers of axes that x may have.
    axes: tuple[int, ...]

    def __init__(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        device: Place,
        dtype: npt.DTypeLike | None,
        bias: bool,
    ) -> None:
        num_features = size(num_features, "num_features")
        self.num_features: int = num_features
        self.eps: float = given_number(eps, "eps")
        self.momentum: float | None = None if momentum is None else given_number(momentum, "momentum")
        self.affine: bool = truth(affine, "affine")
        self.track_running_stats: bool = truth(track_running_stats, "track_running_stats")
        self._make((num_features,), self.affine, bias, device, dtype)
        if self.track_running_stats:
            kind = floating_dtype(dtype)
            self.register_buffer("running_mean", tensor(np.zeros(num_features, kind), device=device))
            self.register_buffer("running_var", tensor(np.ones(num_features, kind), device=device))
            self.register_buffer("num_batches_tracked", tensor(np.zeros((), np.int64), device=device))
        else:
            self.running_mean: Tensor | None = None
            self.running_var: Tensor | None = None
            self.num_batches_tracked: Tensor | None = None

    def reset_running_stats(self) -> None:
        """Set the running means to 0 and the running variances to 1."""
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        init.zeros_(self.running_mean)
        init.ones_(self.running_var)
        init.zeros_(self.num_batches_tracked)

    def extra_repr(self) -> str:
        """Return the options that the layer shows in its repr."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _checked(self, x: Any) -> tuple[int, ...]:
        shape = array_of(x).shape
        if len(shape) not in self.axes:
            axes = " or ".join(map(str, self.axes))
            raise ArgumentError(f"{type(self).__name__} takes x with {axes} axes, not of shape {shape}")
        return shape


class BatchNorm(ChannelNorm):
    """Abstract: batch normalization."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Place = None,
        dtype: npt.DTypeLike | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return the normalized x; in training, move the running statistics towards those of x."""
        shape = self._checked(input)
        mean, variance = self.running_mean, self.running_var
        if shape[1] != self.num_features and not (mean is None and self.weight is None):
            # Before the batch is counted.
            raise ArgumentError(
                f"{type(self).__name__}({self.num_features}) takes x with {self.num_features} channels on axis 1, not "
                f"of shape {shape}"
            )
        by_batch = self.training or mean is None
        momentum = self._count_batch() if self.training else 0.0
        return batch_norm(input, mean, variance, self.weight, self.bias, by_batch, momentum, self.eps)

    def _count_batch(self) -> float:
        """Count a batch of training, and return its weight in the running statistics."""
        if self.num_batches_tracked is None:
            return self.momentum or 0.0
        if not RECOMPUTING.get():
            # Not by the tensor: see how the running statistics are moved.
            prepare_write(self.num_batches_tracked)
            on_device_of(array_of(self.num_batches_tracked), operator.iadd, 1)
        return 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum


@final
class BatchNorm1d(BatchNorm):
    """Normalize each feature of a batch of shape `(n, num_features)` or `(n, num_features, length)`.

    In training, by the mean and the variance of the batch, which the running ones follow; in evaluation, by the
    running ones.

    Args:
        num_features: features, or channels.
        eps: added to the variance.
        momentum: the weight of a batch in the running statistics; None for their plain mean.
        affine: multiply by a weight that is learned, and add a bias.
        track_running_stats: keep running statistics; without them, evaluation normalizes by those of the batch.
        device: of the parameters.
        dtype: of the parameters.
        bias: add a bias, if affine.

    Source: torch.nn.BatchNorm1d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.BatchNorm1d(2)(np.array([[1.0, 5.0], [3.0, 5.0]])).numpy().round(3)
        array([[-1.,  0.],
               [ 1.,  0.]])
    """

    axes: tuple[int, ...] = (2, 3)


@final
class BatchNorm2d(BatchNorm):
    """Normalize each channel of a batch of images, shape `(n, num_features, height, width)`.

    Args:
        num_features: features, or channels.
        eps: added to the variance.
        momentum: the weight of a batch in the running statistics; None for their plain mean.
        affine: multiply by a weight that is learned, and add a bias.
        track_running_stats: keep running statistics; without them, evaluation normalizes by those of the batch.
        device: of the parameters.
        dtype: of the parameters.
        bias: add a bias, if affine.

    Source: torch.nn.BatchNorm2d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.BatchNorm2d(3)(np.ones((4, 3, 8, 8))).shape
        (4, 3, 8, 8)
    """

    axes: tuple[int, ...] = (4,)


@final
class BatchNorm3d(BatchNorm):
    """Normalize each channel of a batch of volumes, shape `(n, num_features, depth, height, width)`: see BatchNorm1d.

    Args:
        num_features: channels.
        eps: added to the variance.
        momentum: the weight of a batch in the running statistics; None for their plain mean.
        affine: multiply by a weight that is learned, and add a bias.
        track_running_stats: keep running statistics; without them, evaluation normalizes by those of the batch.
        device: of the parameters.
        dtype: of the parameters.
        bias: add a bias, if affine.

    Source: torch.nn.BatchNorm3d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.BatchNorm3d(3)(np.ones((4, 3, 2, 8, 8))).shape
        (4, 3, 2, 8, 8)
    """

    axes: tuple[int, ...] = (5,)


class InstanceNorm(ChannelNorm):
    """Abstract: instance normalization."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Place = None,
        dtype: npt.DTypeLike | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return the normalized x."""
        shape = self._checked(input)
        is_single = len(shape) == self.axes[0]
        if shape[-self.axes[0]] != self.num_features:
            raise ArgumentError(
                f"{type(self).__name__} of {self.num_features} channels takes as many, and x has shape {shape}"
            )
        x = np.reshape(input, (1, *shape)) if is_single else input
        by_input = self.training or self.running_mean is None
        mean, variance = self.running_mean, self.running_var
        result = instance_norm(x, mean, variance, self.weight, self.bias, by_input, self.momentum or 0.0, self.eps)
        return result[0] if is_single else result


@final
class InstanceNorm1d(InstanceNorm):
    """Normalize each channel of each sequence, shape `(n, num_features, length)` or without n.

    Args:
        num_features: channels.
        eps: added to the variance.
        momentum: the weight of a batch in the running statistics.
        affine: multiply by a weight that is learned, and add a bias.
        track_running_stats: keep running statistics, by which evaluation normalizes.
        device: of the parameters.
        dtype: of the parameters.
        bias: add a bias, if affine.

    Source: torch.nn.InstanceNorm1d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.InstanceNorm1d(1, eps=0.0001)(np.array([[[1.0, 3.0]]]))
        array([[[-0.99995,  0.99995]]])
    """

    axes: tuple[int, ...] = (2, 3)


@final
class InstanceNorm2d(InstanceNorm):
    """Normalize each channel of each image, shape `(n, num_features, height, width)` or without n.

    Args:
        num_features: channels.
        eps: added to the variance.
        momentum: the weight of a batch in the running statistics.
        affine: multiply by a weight that is learned, and add a bias.
        track_running_stats: keep running statistics, by which evaluation normalizes.
        device: of the parameters.
        dtype: of the parameters.
        bias: add a bias, if affine.

    Source: torch.nn.InstanceNorm2d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.InstanceNorm2d(3)(np.ones((4, 3, 8, 8))).shape
        (4, 3, 8, 8)
    """

    axes: tuple[int, ...] = (3, 4)


@final
class InstanceNorm3d(InstanceNorm):
    """Normalize each channel of each volume, shape `(n, num_features, depth, height, width)` or without n.

    Args:
        num_features: channels.
        eps: added to the variance.
        momentum: the weight of a batch in the running statistics.
        affine: multiply by a weight that is learned, and add a bias.
        track_running_stats: keep running statistics, by which evaluation normalizes.
        device: of the parameters.
        dtype: of the parameters.
        bias: add a bias, if affine.

    Source: torch.nn.InstanceNorm3d.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.InstanceNorm3d(3)(np.ones((4, 3, 2, 8, 8))).shape
        (4, 3, 2, 8, 8)
    """

    axes: tuple[int, ...] = (4, 5)


@final
class LocalResponseNorm(Module):
    """Computes `nn.local_response_norm`, whose options are this class's.

    Args:
        size: the number of channels in a mean; those that there are not count as zeros.
        alpha: what the mean square is multiplied by.
        beta: the power of the divisor.
        k: what is added before that power is taken.

    Source: torch.nn.LocalResponseNorm.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        self.size: int = whole_number(size, "size", 1)
        self.alpha: float = given_number(alpha, "alpha")
        self.beta: float = given_number(beta, "beta")
        self.k: float = given_number(k, "k")

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return x, divided by the size of its neighbours in other channels."""
        return local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """Return the options that the layer shows in its repr."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


def _shape_of(normalized_shape: Any) -> tuple[int, ...]:
    return tuple([size(length, "normalized_shape") for length in lengths("normalized_shape", normalized_shape)])


@final
class LayerNorm(Affine):
    """Normalize the last axes, of shape `normalized_shape`, to mean 0 and variance 1.

    Args:
        normalized_shape: an int, or a sequence of ints.
        eps: added to the variance.
        elementwise_affine: multiply by a weight that is learned, and add a bias.
        bias: add a bias, if affine.
        device: of the parameters.
        dtype: of the parameters.

    Source: torch.nn.LayerNorm.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.LayerNorm(2)(np.array([[1.0, 3.0]])).numpy().round(3)
        array([[-1.,  1.]])
    """

    def __init__(
        self,
        normalized_shape: Lengths,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Place = None,
        dtype: npt.DTypeLike | None = None,
    ) -> None:
        self.normalized_shape: tuple[int, ...] = _shape_of(normalized_shape)
        self.eps: float = given_number(eps, "eps")
        self.elementwise_affine: bool = truth(elementwise_affine, "elementwise_affine")
        self._make(self.normalized_shape, self.elementwise_affine, bias, device, dtype)

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return the normalized x."""
        return layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the options that the layer shows in its repr."""
        options = f"eps={self.eps}, elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        return f"{self.normalized_shape}, {options}"


@final
class RMSNorm(Module):
    """Divide the last axes, of shape `normalized_shape`, by the root of the mean of their squares.

    Args:
        normalized_shape: an int, or a sequence of ints.
        eps: added to the mean of the squares; None for the precision of the dtype of x.
        elementwise_affine: multiply by a weight that is learned.
        device: of the parameters.
        dtype: of the parameters.

    Source: torch.nn.RMSNorm.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.RMSNorm(2)(np.array([[1.0, 7.0]])).numpy().round(3)
        array([[0.2, 1.4]])
    """

    def __init__(
        self,
        normalized_shape: Lengths,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Place = None,
        dtype: npt.DTypeLike | None = None,
    ) -> None:
        self.normalized_shape: tuple[int, ...] = _shape_of(normalized_shape)
        self.eps: float | None = None if eps is None else given_number(eps, "eps")
        self.elementwise_affine: bool = truth(elementwise_affine, "elementwise_affine")
        self.weight: Tensor | None = (
            new_parameter(self.normalized_shape, device, dtype) if self.elementwise_affine else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to ones."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor | np.ndarray) -> Tensor:
        """Return the normalized x."""
        return rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Return the options that the layer shows in its repr."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


@final
class GroupNorm(Affine):
    """Normalize each of `num_groups` groups of channels of each sample, shape `(n, num_channels, ...)`.

    Args:
        num_groups: the number of groups, which divides the channels.
        num_channels: channels.
        eps: added to the variance.
        affine: multiply by a weight that is learned, and add a bias.
        device: of the parameters.
        dtype: of the parameters.
        bias: add a bias, if affine.

    Source: torch.nn.GroupNorm.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.GroupNorm(2, 4)(np.ones((3, 4, 5))).shape
        (3, 4, 5)
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Place = None,
        dtype: npt.DTypeLike | None = None,
        *,
        bias: bool = True,
    ) -> None:
        num_groups, num_channels = whole_number(num_groups, "num_groups"), size(num_channels, "num_channels")
        if num_groups < 1 or num_channels % num_groups:
            raise ArgumentError(
                f"GroupNorm needs num_groups that divides num_channels={num_channels}, not {num_groups}"
            )
        self.num_groups: int = num_groups
        self.num_channels: int = num_channels
        self.eps: float = given_number(eps, "eps")
        self.affine: bool = truth(affine, "affine")
        self._make((num_channels,), self.affine, bias, device, dtype)

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return the normalized x."""
        shape = array_of(input).shape
        if len(shape) < 2 or shape[1] != self.num_channels:
            raise ArgumentError(f"GroupNorm takes x of shape (n, {self.num_channels}, ...), not {shape}")
        return group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the options that the layer shows in its repr."""
        options = f"eps={self.eps}, affine={self.affine}, bias={self.bias is not None}"
        return f"{self.num_groups}, {self.num_channels}, {options}"
