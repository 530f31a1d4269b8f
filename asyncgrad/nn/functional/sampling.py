"""Images and volumes sampled at points: `affine_grid` makes points, `grid_sample` interpolates at them."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.interception import on_device_of_arguments
from ...core.arrays.one_device import check_operands_share_device
from ...core.arrays.values import as_like
from ...core.ops.single_precision import arrays_in_single
from ...core.settings.arguments import truth, whole_number
from ...errors import ArgumentError
from ..shared.arguments import array_of, check_real, flat, operand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.tensor import Tensor


__all__ = ["affine_grid", "grid_sample"]


def affine_grid(
    theta: Tensor | np.ndarray, size: Sequence[int], align_corners: bool | None = None
) -> Tensor | np.ndarray:
    """Return the points of a grid after affine maps, for `grid_sample`.

    Args:
        theta: the maps, shape `(n, 2, 3)` for images, `(n, 3, 4)` for volumes.
        size: the shape of what `grid_sample` is to return, `(n, channels, height, width)` or with a depth before the
            height.
        align_corners: let -1 and 1 be the centers of the outermost elements, and not their outer sides.

    Returns:
        A tensor of shape `(n, height, width, 2)` or `(n, depth, height, width, 3)`; x comes before y.

    Raises:
        ArgumentError: shapes do not fit; the message names them.

    Source: torch.nn.functional.affine_grid.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.affine_grid(np.array([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.5]]]), (1, 1, 1, 2))
        array([[[[-0.5,  0.5],
                 [ 0.5,  0.5]]]])
    """
    check_real("affine_grid", theta=theta)
    maps = array_of(theta)
    wanted = tuple([whole_number(one, "size") for one in size])
    axes = len(wanted) - 2
    if axes not in (2, 3) or min(wanted) < 1:
        raise ArgumentError(f"affine_grid takes a size of 4 or 5 numbers of at least 1, not {size}")
    if maps.shape != (wanted[0], axes, axes + 1) or maps.dtype.kind != "f":
        raise ArgumentError(
            f"affine_grid for a size of {wanted} takes floating maps of shape {(wanted[0], axes, axes + 1)}, not "
            f"{maps.dtype} of shape {maps.shape}"
        )
    is_aligned = align_corners is not None and truth(align_corners, "align_corners")
    lines = [np.linspace(-1, 1, one) if one > 1 else np.zeros(1) for one in wanted[2:]]
    if not is_aligned:
        lines = [line * ((len(line) - 1) / len(line)) for line in lines]
    points = np.stack([*np.meshgrid(*lines, indexing="ij")[::-1], np.ones(wanted[2:])], axis=-1)
    flat = as_like(points.reshape(-1, axes + 1).astype(maps.dtype), maps)
    return np.reshape(np.matmul(flat, np.swapaxes(theta, 1, 2)), (wanted[0], *wanted[2:], axes))


@on_device_of_arguments
@arrays_in_single
def grid_sample(
    input: Tensor | np.ndarray,
    grid: Tensor | np.ndarray,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor | np.ndarray:
    """Return images or volumes interpolated at points.

    Args:
        input: shape `(n, channels, height, width)` or `(n, channels, depth, height, width)`.
        grid: the points, x before y, each from -1 to 1, shape `(n, height, width, 2)` or
            `(n, depth, height, width, 3)`.
        mode: "bilinear", "nearest", or "bicubic" for images.
        padding_mode: what is beyond the image: "zeros", "border" (its outermost elements) or "reflection".
        align_corners: let -1 and 1 be the centers of the outermost elements, and not their outer sides.

    Returns:
        A tensor of shape `(n, channels, ...)` with the sizes of the grid.

    Raises:
        ArgumentError: shapes or options do not fit; the message names them.

    Source: torch.nn.functional.grid_sample; M. Jaderberg et al., "Spatial transformer networks" (2015).

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> image = np.array([[[[0.0, 10.0], [20.0, 30.0]]]])
        >>> nn.grid_sample(image, np.array([[[[0.0, 0.0], [0.5, -0.5]]]]))
        array([[[[15., 10.]]]])
    """
    check_operands_share_device("grid_sample", input, grid)
    check_real("grid_sample", input=input, grid=grid)
    grid = operand(grid)
    shape, points = array_of(input).shape, array_of(grid).shape
    axes = _check_grid(shape, points)
    _check_modes(mode, padding_mode, axes)
    is_aligned = align_corners is not None and truth(align_corners, "align_corners")
    elements = np.reshape(input, (*shape[:2], math.prod(shape[2:])))
    count = math.prod(points[1:-1])
    taps = [
        _taps(np.reshape(grid[..., axes - 1 - axis], (shape[0], count)), length, mode, padding_mode, is_aligned)
        for axis, length in enumerate(shape[2:])
    ]
    total: Any = 0.0
    for combination in itertools.product(*taps):
        place, weight, inside = combination[0]
        for (other, factor, is_inside), length in zip(combination[1:], shape[3:], strict=True):
            place, weight, inside = place * length + other, weight * factor, inside & is_inside
        like = array_of(elements)
        seen = np.take_along_axis(elements, as_like(place[:, np.newaxis], like), 2)
        kept = as_like(inside[:, np.newaxis], like)
        total = total + np.where(kept, seen, 0) * weight[:, np.newaxis]
    return np.reshape(total, (*shape[:2], *points[1:-1]))


def _check_grid(shape: tuple[int, ...], points: tuple[int, ...]) -> int:
    """Return the number of axes of an image."""
    axes = len(shape) - 2
    if axes not in (2, 3) or len(points) != axes + 2 or points[-1] != axes or points[0] != shape[0]:
        raise ArgumentError(
            "grid_sample takes an input of shape (n, channels, height, width) and a grid of shape (n, height, width, "
            f"2), or with a depth before the height and a grid of 3 coordinates, not {shape} and {points}"
        )
    if not all(shape[2:]):
        raise ArgumentError(f"grid_sample takes an input with elements, not of shape {shape}")
    return axes


def _check_modes(mode: str, padding_mode: str, axes: int) -> None:
    if mode not in ("bilinear", "nearest", "bicubic") or (mode == "bicubic" and axes == 3):
        known = "'bilinear', 'nearest' or 'bicubic'" if axes == 2 else "'bilinear' or 'nearest' for volumes"
        raise ArgumentError(f"grid_sample: mode must be {known}, not {mode!r}")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ArgumentError(
            f"grid_sample: padding_mode must be 'zeros', 'border' or 'reflection', not {padding_mode!r}"
        )


def _taps(x: Any, length: int, mode: str, padding_mode: str, is_aligned: bool) -> list[tuple[Any, Any, Any]]:
    """Return which elements along an axis a point is made of: their places, their weights, and whether they exist."""
    at: Any = (x + 1) / 2 * (length - 1) if is_aligned else ((x + 1) * length - 1) / 2
    if mode == "bicubic":
        # Points are as they are, and the places of the elements are brought into the image.
        at = _where(_is_sane(at), at, -100.0)
        first = np.floor(array_of(at))
        share = at - first
        weights = [_cubic_outer(share + 1), _cubic_inner(share), _cubic_inner(1 - share), _cubic_outer(2 - share)]
        places = [first + step for step in (-1, 0, 1, 2)]
        return [
            _inside(array_of(_into(place, length, padding_mode, is_aligned)), weight, length)
            for place, weight in zip(places, weights, strict=True)
        ]
    at = _into(at, length, padding_mode, is_aligned)
    at = _where(_is_sane(at), at, -100.0)
    if mode == "nearest":
        return [_inside(np.round(array_of(at)), flat(np.ones_like(array_of(at)), at), length)]
    first = np.floor(array_of(at))
    share = at - first
    return [_inside(first, 1 - share, length), _inside(first + 1, share, length)]


def _is_sane(at: Any) -> Any:
    return np.abs(array_of(at)) < 2.0**31


def _where(condition: Any, x: Any, other: Any) -> Any:
    """Return x where a condition holds, and a number or an array without a gradient elsewhere."""
    dtype = array_of(x).dtype
    return np.where(condition, x, dtype.type(other) if isinstance(other, float) else other.astype(dtype))


def _inside(place: Any, weight: Any, length: int) -> tuple[Any, Any, Any]:
    inside = (place >= 0) & (place < length)
    return np.where(inside, place, 0).astype(np.int64), weight, inside


def _into(at: Any, length: int, padding_mode: str, is_aligned: bool) -> Any:
    """Return coordinates brought into an image."""
    if padding_mode == "zeros":
        return at
    if padding_mode == "reflection":
        at = _reflected(at, *((0.0, length - 1.0) if is_aligned else (-0.5, length - 0.5)))
    data = array_of(at)
    # At the border itself the derivative is 0, as it is beyond.
    is_free = (data > 0) & (data < length - 1)
    return _where(is_free, at, np.clip(np.where(np.isnan(data), 0, data), 0, length - 1))


def _reflected(at: Any, lowest: float, highest: float) -> Any:
    """Return coordinates reflected at two borders, as often as it takes."""
    span = highest - lowest
    data = array_of(at)
    if not span:
        return np.zeros_like(data)
    with np.errstate(invalid="ignore"):
        distance = np.abs(data - lowest)
        flips = np.floor(distance / span)
        is_even = flips % 2 == 0
        sign = np.where(data < lowest, -1.0, 1.0).astype(data.dtype)
        moved = (at - lowest) * sign - flips * span
        return np.where(is_even, moved + lowest, span - moved + lowest)


# Cubic convolution (R. Keys, 1981), with the slope -3/4, as PyTorch's.


def _cubic_inner(d: Any) -> Any:
    return (1.25 * d - 2.25) * d * d + 1


def _cubic_outer(d: Any) -> Any:
    return ((-0.75 * d + 3.75) * d - 6.0) * d + 3.0
