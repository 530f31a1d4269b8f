"""Padding, and images of another size, as modules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, final

from ...core.settings.arguments import number
from ...core.tensor import Tensor
from ...errors import ArgumentError
from ..functional.resizing import interpolate, pad
from ..shared.arguments import array_of, lengths, option
from .module import Module

if TYPE_CHECKING:
    import numpy as np

    from ...core.arrays.array_like import Lengths


__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "Upsample",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


class _Padding(Module):
    """Abstract base of layers that pad the last axes."""

    #: How many axes are padded, and the mode of `nn.pad`.
    _axes: ClassVar[int]
    _mode: ClassVar[str]

    def __init__(self, padding: Lengths) -> None:
        given = lengths("padding", padding)
        widths = given if isinstance(padding, Iterable) else given * (2 * self._axes)
        if len(widths) != 2 * self._axes:
            raise ArgumentError(
                f"{type(self).__name__} takes a padding of one int, or of {2 * self._axes}, not {padding!r}"
            )
        self.padding: tuple[int, ...] = widths

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return x with elements added around it."""
        shape = array_of(input).shape
        if len(shape) not in (self._axes + 1, self._axes + 2):
            raise ArgumentError(
                f"{type(self).__name__} takes x of {self._axes + 1} or {self._axes + 2} axes, not of shape {shape}"
            )
        return pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        """Return how many elements are added."""
        return f"{self.padding}"


class _ConstantPad(_Padding):
    """Abstract base of layers that pad the last axes of an array of any shape with a constant."""

    def __init__(self, padding: Lengths, value: float) -> None:
        super().__init__(padding)
        option(type(self).__name__, "value", value)
        self.value = value

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return x with the constant around it."""
        return pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """Return how many elements are added, and the constant."""
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_Padding):
    """Abstract base of layers that pad the last axes of an array of any shape with zeros."""

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return x with zeros around it."""
        return pad(input, self.padding)


@final
class ConstantPad1d(_ConstantPad):
    """Add a constant around sequences: see `nn.pad`.

    Args:
        padding: how many elements to add on each side, an int or a pair.
        value: the constant.

    Source: torch.nn.ConstantPad1d.
    """

    _axes = 1


@final
class ConstantPad2d(_ConstantPad):
    """Add a constant around images: see `nn.pad`.

    Args:
        padding: how many elements to add on each side, an int or 4, those of the last axis first.
        value: the constant.

    Source: torch.nn.ConstantPad2d.
    """

    _axes = 2


@final
class ConstantPad3d(_ConstantPad):
    """Add a constant around volumes: see `nn.pad`.

    Args:
        padding: how many elements to add on each side, an int or 6, those of the last axis first.
        value: the constant.

    Source: torch.nn.ConstantPad3d.
    """

    _axes = 3


@final
class ReflectionPad1d(_Padding):
    """Add around sequences their own elements, mirrored at the edge: see `nn.pad`.

    Args:
        padding: how many elements to add on each side, an int or a pair.

    Source: torch.nn.ReflectionPad1d.
    """

    _axes = 1
    _mode = "reflect"


@final
class ReflectionPad2d(_Padding):
    """Add around images their own elements, mirrored at the edge: see `nn.pad`.

    Args:
        padding: how many elements to add on each side, an int or 4, those of the last axis first.

    Source: torch.nn.ReflectionPad2d.
    """

    _axes = 2
    _mode = "reflect"


@final
class ReflectionPad3d(_Padding):
    """Add around volumes their own elements, mirrored at the edge: see `nn.pad`.

    Args:
        padding: how many elements to add on each side, an int or 6, those of the last axis first.

    Source: torch.nn.ReflectionPad3d.
    """

    _axes = 3
    _mode = "reflect"


@final
class ReplicationPad1d(_Padding):
    """Add around sequences the elements at their edge: see `nn.pad`.

    Args:
        padding: how many elements to add on each side, an int or a pair.

    Source: torch.nn.ReplicationPad1d.
    """

    _axes = 1
    _mode = "replicate"


@final
class ReplicationPad2d(_Padding):
    """Add around images the elements at their edge: see `nn.pad`.

    Args:
        padding: how many elements to add on each side, an int or 4, those of the last axis first.

    Source: torch.nn.ReplicationPad2d.
    """

    _axes = 2
    _mode = "replicate"


@final
class ReplicationPad3d(_Padding):
    """Add around volumes the elements at their edge: see `nn.pad`.

    Args:
        padding: how many elements to add on each side, an int or 6, those of the last axis first.

    Source: torch.nn.ReplicationPad3d.
    """

    _axes = 3
    _mode = "replicate"


@final
class CircularPad1d(_Padding):
    """Add around sequences the elements of their other end: see `nn.pad`.

    Args:
        padding: how many elements to add on each side, an int or a pair.

    Source: torch.nn.CircularPad1d.
    """

    _axes = 1
    _mode = "circular"


@final
class CircularPad2d(_Padding):
    """Add around images the elements of their other end: see `nn.pad`.

    Args:
        padding: how many elements to add on each side, an int or 4, those of the last axis first.

    Source: torch.nn.CircularPad2d.
    """

    _axes = 2
    _mode = "circular"


@final
class CircularPad3d(_Padding):
    """Add around volumes the elements of their other end: see `nn.pad`.

    Args:
        padding: how many elements to add on each side, an int or 6, those of the last axis first.

    Source: torch.nn.CircularPad3d.
    """

    _axes = 3
    _mode = "circular"


@final
class ZeroPad1d(_ZeroPad):
    """Add zeros around sequences: see `nn.pad`.

    Args:
        padding: how many elements to add on each side, an int or a pair.

    Source: torch.nn.ZeroPad1d.
    """

    _axes = 1


@final
class ZeroPad2d(_ZeroPad):
    """Add zeros around images: see `nn.pad`.

    Args:
        padding: how many elements to add on each side, an int or 4, those of the last axis first.

    Source: torch.nn.ZeroPad2d.
    """

    _axes = 2


@final
class ZeroPad3d(_ZeroPad):
    """Add zeros around volumes: see `nn.pad`.

    Args:
        padding: how many elements to add on each side, an int or 6, those of the last axis first.

    Source: torch.nn.ZeroPad3d.
    """

    _axes = 3


class _Upsample(Module):
    """Abstract base of layers that change the size of images."""

    size: Lengths | None
    scale_factor: float | tuple[float, ...] | None
    mode: str
    align_corners: bool | None
    recompute_scale_factor: bool | None

    def _resize(self, size: Lengths | None, scale_factor: float | Sequence[float] | None, mode: str) -> None:
        """Take over where to and how."""
        self.size, self.mode = size, mode
        self.align_corners = self.recompute_scale_factor = None
        if isinstance(scale_factor, Sequence):
            self.scale_factor = tuple([number(one, "scale_factor") for one in scale_factor])
        else:
            self.scale_factor = None if scale_factor is None else number(scale_factor, "scale_factor")

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return images of another size."""
        return interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )

    def extra_repr(self) -> str:
        """Return the size, or the factor, and the mode."""
        size = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor}"
        return f"{size}, mode={self.mode!r}"


@final
class Upsample(_Upsample):
    """Computes `nn.interpolate`, whose options are this class's.

    Args:
        size: of the result, an int for all axes or one for each; None for that of x times `scale_factor`.
        scale_factor: a number for all axes or one for each; not together with `size`.
        mode: "nearest", "linear", "bilinear", "bicubic" or "trilinear".
        align_corners: let the first and the last elements stay where they are.
        recompute_scale_factor: take the distance of new elements from the sizes.

    Source: torch.nn.Upsample.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.Upsample(scale_factor=2, mode="linear", align_corners=True)(np.array([[[0.0, 3.0]]]))
        array([[[0., 1., 2., 3.]]])
    """

    def __init__(
        self,
        size: Lengths | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        self._resize(size, scale_factor, mode)
        self.align_corners, self.recompute_scale_factor = align_corners, recompute_scale_factor


@final
class UpsamplingNearest2d(_Upsample):
    """Make images larger by repeating elements: an `Upsample` with mode "nearest".

    Args:
        size: rows and columns of the result, an int for both or a pair; None for those of x times `scale_factor`.
        scale_factor: a number for both axes or a pair; not together with `size`.

    Source: torch.nn.UpsamplingNearest2d.
    """

    def __init__(self, size: Lengths | None = None, scale_factor: float | Sequence[float] | None = None) -> None:
        self._resize(size, scale_factor, "nearest")


@final
class UpsamplingBilinear2d(_Upsample):
    """Make images larger by linear interpolation between the corners: an `Upsample` with mode "bilinear".

    Args:
        size: rows and columns of the result, an int for both or a pair; None for those of x times `scale_factor`.
        scale_factor: a number for both axes or a pair; not together with `size`.

    Source: torch.nn.UpsamplingBilinear2d.
    """

    def __init__(self, size: Lengths | None = None, scale_factor: float | Sequence[float] | None = None) -> None:
        self._resize(size, scale_factor, "bilinear")
        self.align_corners = True
