"""Maxima put back, and windows at random places, as modules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, final

from ...core.settings.arguments import truth
from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError
from ..functional.unpooling import (
    fractional_max_pool2d,
    fractional_max_pool3d,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
)
from ..shared.arguments import pair, single, triple
from .module import Module

if TYPE_CHECKING:
    import numpy as np

    from ...core.arrays.array_like import Lengths


__all__ = ["FractionalMaxPool2d", "FractionalMaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d"]


def _only(name: str, value: Lengths, least: int) -> tuple[int]:
    return (single(name, value, least),)


class _MaxUnpool(Module):
    """Abstract base of layers that put maxima back to where they were."""

    #: The function that does it, and the one that takes an option for each axis.
    _unpool: ClassVar[Callable[..., Any]]
    _each: ClassVar[Callable[..., Any]]

    def __init__(self, kernel_size: Lengths, stride: Lengths | None = None, padding: Lengths = 0) -> None:
        each = type(self)._each
        self.kernel_size: Any = each("kernel_size", kernel_size, 1)
        self.stride: Any = self.kernel_size if stride is None else each("stride", stride, 1)
        self.padding: Any = each("padding", padding, 0)

    def extra_repr(self) -> str:
        """Return the window."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"

    def forward(
        self, input: Tensor | np.ndarray, indices: Tensor | np.ndarray, output_size: Sequence[int] | None = None
    ) -> Tensor:
        """Return zeros with the maxima in their places; `output_size` chooses among the sizes."""
        unpool = type(self)._unpool
        result: Tensor = unpool(input, indices, self.kernel_size, self.stride, self.padding, output_size)
        return result


@final
class MaxUnpool1d(_MaxUnpool):
    """Computes `nn.max_unpool1d`, whose options are this class's.

    They are those of the `MaxPool1d` that found the maxima.

    Args:
        kernel_size: length of the window.
        stride: steps of the window; None for the kernel's size.
        padding: elements around the sequences that were pooled.

    Source: torch.nn.MaxUnpool1d.
    """

    _unpool = max_unpool1d
    _each = _only


@final
class MaxUnpool2d(_MaxUnpool):
    """Computes `nn.max_unpool2d`, whose options are this class's.

    They are those of the `MaxPool2d` that found the maxima.

    Args:
        kernel_size: height and width of the window, an int or a pair.
        stride: steps of the window, an int or a pair; None for the kernel's size.
        padding: elements around the images that were pooled, an int or a pair.

    Source: torch.nn.MaxUnpool2d.
    """

    _unpool = max_unpool2d
    _each = pair


@final
class MaxUnpool3d(_MaxUnpool):
    """Computes `nn.max_unpool3d`, whose options are this class's.

    They are those of the `MaxPool3d` that found the maxima.

    Args:
        kernel_size: depth, height and width of the window, an int or three.
        stride: steps of the window, an int or three; None for the kernel's size.
        padding: elements around the volumes that were pooled, an int or three.

    Source: torch.nn.MaxUnpool3d.
    """

    _unpool = max_unpool3d
    _each = triple


class _FractionalMaxPool(Module):
    """Abstract base of layers that return the maxima of windows at random places."""

    #: The function that does it.
    _pool: ClassVar[Callable[..., Any]]

    _random_samples: Tensor | None

    def __init__(
        self,
        kernel_size: Lengths,
        output_size: Lengths | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | np.ndarray | None = None,
    ) -> None:
        if (output_size is None) == (output_ratio is None):
            raise ArgumentError(f"{type(self).__name__} takes one of output_size and output_ratio")
        self.kernel_size = kernel_size
        self.output_size = output_size
        self.output_ratio = output_ratio
        self.return_indices: bool = truth(return_indices, "return_indices")
        samples = None if _random_samples is None else asarray(_random_samples)
        self.register_buffer("_random_samples", samples)

    def extra_repr(self) -> str:
        """Return the window and the size of the result."""
        after = f"output_size={self.output_size}" if self.output_ratio is None else f"output_ratio={self.output_ratio}"
        return f"kernel_size={self.kernel_size}, {after}"

    def forward(self, input: Tensor | np.ndarray) -> Any:
        """Return the maxima of the windows, with `return_indices` together with their positions."""
        pool = type(self)._pool
        options = (self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples)
        return pool(input, *options)


@final
class FractionalMaxPool2d(_FractionalMaxPool):
    """Computes `nn.fractional_max_pool2d`, whose options are this class's.

    Args:
        kernel_size: height and width of the window, an int or a pair.
        output_size: rows and columns of the result, an int or a pair; either it or `output_ratio`.
        output_ratio: the size of the result as a share of that of x, a number between 0 and 1 for all axes or one for
            each.
        return_indices: return the positions of the maxima too: their numbers in each image, row by row.
        _random_samples: where the windows begin, numbers in [0, 1), shape `(n, channels, 2)`, that of the width first;
            None draws them anew in each call, from the generator of the context (`ag.random.seed`).

    Source: torch.nn.FractionalMaxPool2d.
    """

    _pool = fractional_max_pool2d


@final
class FractionalMaxPool3d(_FractionalMaxPool):
    """Computes `nn.fractional_max_pool3d`, whose options are this class's.

    Args:
        kernel_size: depth, height and width of the window, an int or three.
        output_size: depth, rows and columns of the result, an int or three; either it or `output_ratio`.
        output_ratio: the size of the result as a share of that of x, a number between 0 and 1 for all axes or one for
            each.
        return_indices: return the positions of the maxima too: their numbers in each volume.
        _random_samples: where the windows begin, numbers in [0, 1), shape `(n, channels, 3)`, that of the depth first;
            None draws them anew in each call, from the generator of the context (`ag.random.seed`).

    Source: torch.nn.FractionalMaxPool3d.
    """

    _pool = fractional_max_pool3d
