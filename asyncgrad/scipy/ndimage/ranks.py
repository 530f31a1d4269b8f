"""Filters that pick an element of the window around each element, by its rank, and grey morphology made of these."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.axes import axis_index, axis_tuple
from ...core.arrays.values import refuse_complex
from ...core.settings.arguments import must_be
from ...core.tensor import Tensor
from ...errors import ArgumentTypeError
from ..arguments import floating
from .filters import continued

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = [
    "black_tophat",
    "grey_closing",
    "grey_dilation",
    "grey_erosion",
    "grey_opening",
    "maximum_filter",
    "maximum_filter1d",
    "median_filter",
    "minimum_filter",
    "minimum_filter1d",
    "morphological_gradient",
    "morphological_laplace",
    "percentile_filter",
    "rank_filter",
    "white_tophat",
]


def _footprint(name: str, size: Any, footprint: Any, count: int) -> Any:
    """Return which elements of a window of `count` axes count."""
    if footprint is None:
        if size is None:
            raise ValueError(f"scipy.ndimage.{name} takes a size or a footprint")
        footprint = np.ones(size if np.ndim(size) else (size,) * count, bool)
    footprint = np.asarray(footprint, bool)
    if footprint.ndim != count or not footprint.any():
        raise ValueError(f"scipy.ndimage.{name} takes a footprint with {count} axes that is not empty")
    return footprint


def _windows(
    name: str,
    image: Any,
    footprint: Array,
    mode: Any,
    cval: float,
    origin: Any,
    axes: tuple[int, ...],
    *,
    is_separable: bool = True,
) -> Any:
    """Return the elements of the window around each element, along a new last axis.

    A footprint has the axes of the image in their order, whatever that of `axes` is, as SciPy's has.

    Raises:
        RuntimeError: there are several modes, and what is made of a box is not made along one axis after another.
    """
    if not isinstance(mode, str) and not (is_separable and footprint.all()):
        raise RuntimeError(f"scipy.ndimage.{name} takes one mode for all axes here, not {mode!r}")
    refuse_complex(
        f"scipy.ndimage.{name}", "real images", image, "complex numbers have no order, so pass the real part"
    )
    if np.iscomplexobj(cval):
        raise ArgumentTypeError(must_be("cval", "a real number", cval))
    if not axes:
        return image[..., np.newaxis]
    origins = origin if np.ndim(origin) else (origin,) * len(axes)
    modes = [mode] * len(axes) if isinstance(mode, str) else list(mode)
    lengths = dict(zip(sorted(axes), footprint.shape, strict=True))
    for axis, moved, border in zip(axes, origins, modes, strict=True):
        length = lengths[axis]
        before = length // 2 + moved
        if not 0 <= before < length:
            raise ValueError(f"scipy.ndimage.{name} takes an origin within the window, not {origin}")
        widths = [(before, length - 1 - before) if one == axis else (0, 0) for one in range(image.ndim)]
        image = continued(name, image, widths, border, cval) if image.size else image
    if not image.size:
        return np.broadcast_to(image[..., np.newaxis], (*image.shape, int(footprint.sum())))
    windows: Any = np.lib.stride_tricks.sliding_window_view(image, footprint.shape, tuple(sorted(axes)))
    return windows[(..., *np.nonzero(footprint))]


def _box_in_order(footprint: Any, axes: tuple[int, ...]) -> Any:
    """Return a footprint whose lengths are those of `axes`, if all of it counts, with its axes in the image's order."""
    return footprint.transpose(np.argsort(axes)) if footprint.all() else footprint


def _image_and_axes(input: Any, output: Any, axes: Any) -> tuple[Any, tuple[int, ...]]:
    image = floating(input)
    image = image if output is None else image.astype(output, copy=False)
    return image, tuple(range(image.ndim)) if axes is None else axis_tuple(axes, image.ndim)


def _filter(
    name: str, choose: Callable[..., Any], in_order: Callable[[Any, tuple[int, ...]], Any]
) -> Callable[..., Tensor]:
    def made(
        input: Any,
        size: Any = None,
        footprint: Any = None,
        output: Any = None,
        mode: Any = "reflect",
        cval: float = 0.0,
        origin: Any = 0,
        *,
        axes: Any = None,
    ) -> Tensor:
        image, chosen = _image_and_axes(input, output, axes)
        footprint = in_order(_footprint(name, size, footprint, len(chosen)), chosen)
        is_separable = name != "median_filter" or footprint.size == 1
        return choose(_windows(name, image, footprint, mode, cval, origin, chosen, is_separable=is_separable))

    made.__name__ = made.__qualname__ = name
    return made


def _middle(windows: Array) -> Any:
    # Of an even number the greater of the two.
    return np.sort(windows, -1)[..., windows.shape[-1] // 2]


maximum_filter: Callable[..., Tensor] = _filter("maximum_filter", lambda windows: np.max(windows, -1), _box_in_order)
maximum_filter.__doc__ = """Return the greatest element of the window around each element.

    Args:
        input: the image.
        size: of a window, for all axes or for each.
        footprint: which elements of a window count.
        output: the dtype of the result; None for that of the image.
        mode: what lies beyond the borders, of all axes or of each.
        cval: the constant.
        origin: by how much the middle of the window is moved.
        axes: those of a window; None for all.

    Source: scipy.ndimage.maximum_filter.
    """
minimum_filter: Callable[..., Tensor] = _filter("minimum_filter", lambda windows: np.min(windows, -1), _box_in_order)
minimum_filter.__doc__ = """Return the least element of the window around each element; as `maximum_filter`."""
median_filter: Callable[..., Tensor] = _filter("median_filter", _middle, lambda found, axes: found)
median_filter.__doc__ = """Return the middle element of the window around each element; as `maximum_filter`."""


def rank_filter(
    input: Any,
    rank: int,
    size: Any = None,
    footprint: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: float = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Tensor:
    """Return the element with a rank in the window around each element, from 0 for the least, or from -1 downwards.

    The other arguments are those of `maximum_filter`.
    """
    image, chosen = _image_and_axes(input, output, axes)
    found = _footprint("rank_filter", size, footprint, len(chosen))
    count = int(found.sum())
    if not -count <= rank < count:
        raise ValueError(f"scipy.ndimage.rank_filter takes a rank of one of {count} elements, not {rank}")
    is_end = rank % count in (0, count - 1)
    windows = _windows("rank_filter", image, found, mode, cval, origin, chosen, is_separable=is_end)
    return np.sort(windows, -1)[..., rank]


def percentile_filter(
    input: Any,
    percentile: float,
    size: Any = None,
    footprint: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: float = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Tensor:
    """Return the element at a percentile of the window around each element; a negative one counts from 100.

    The other arguments are those of `maximum_filter`.
    """
    share = percentile + 100.0 if percentile < 0 else percentile
    if not 0 <= share <= 100:
        raise ValueError(f"scipy.ndimage.percentile_filter takes a percentile from -100 to 100, not {percentile}")
    image, chosen = _image_and_axes(input, output, axes)
    found = _footprint("percentile_filter", size, footprint, len(chosen))
    count = int(found.sum())
    rank = count - 1 if share == 100.0 else int(float(count) * share / 100.0)
    is_end = rank in (0, count - 1)
    windows = _windows("percentile_filter", image, found, mode, cval, origin, chosen, is_separable=is_end)
    return np.sort(windows, -1)[..., rank]


def maximum_filter1d(
    input: Any, size: int, axis: int = -1, output: Any = None, mode: str = "reflect", cval: float = 0.0, origin: int = 0
) -> Tensor:
    """Return the greatest element of the window around each element along an axis; as `maximum_filter`."""
    return maximum_filter(input, size, None, output, mode, cval, origin, axes=axis_index(axis, np.ndim(input)))


def minimum_filter1d(
    input: Any, size: int, axis: int = -1, output: Any = None, mode: str = "reflect", cval: float = 0.0, origin: int = 0
) -> Tensor:
    """Return the least element of the window around each element along an axis; as `maximum_filter`."""
    return minimum_filter(input, size, None, output, mode, cval, origin, axes=axis_index(axis, np.ndim(input)))


# Grey morphology.


def grey_erosion(
    input: Any,
    size: Any = None,
    footprint: Any = None,
    structure: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: float = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Tensor:
    """Return the least of the differences of the window around each element and a structuring element.

    Args:
        input: the image.
        size: of a window, for all axes or for each.
        footprint: which elements of a window count.
        structure: what is subtracted, an array of the shape of a window; None for zeros.
        output: the dtype of the result; None for that of the image.
        mode: what lies beyond the borders.
        cval: the constant.
        origin: by how much the middle of the window is moved.
        axes: those of a window; None for all.

    Source: scipy.ndimage.grey_erosion.
    """
    image, chosen = _image_and_axes(input, output, axes)
    heights = None if structure is None else floating(structure)
    found = _footprint("grey_erosion", size if heights is None else heights.shape, footprint, len(chosen))
    found = _box_in_order(found, chosen) if heights is None else found
    windows = _windows("grey_erosion", image, found, mode, cval, origin, chosen, is_separable=structure is None)
    return np.min(windows if heights is None else windows - heights[np.nonzero(found)], -1)


def grey_dilation(
    input: Any,
    size: Any = None,
    footprint: Any = None,
    structure: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: float = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Tensor:
    """Return the greatest of the sums of the reversed window around each element and a structuring element.

    The arguments are those of `grey_erosion`.
    """
    image, chosen = _image_and_axes(input, output, axes)
    heights = None if structure is None else np.flip(floating(structure))
    found = _footprint("grey_dilation", size if heights is None else heights.shape, footprint, len(chosen))
    found = found if footprint is None else np.flip(found)
    origins = origin if np.ndim(origin) else (origin,) * len(chosen)
    # An even number of elements has two middles; reversed, the other one is meant.
    origins = tuple(-one - (length % 2 == 0) for one, length in zip(origins, found.shape, strict=True))
    found = _box_in_order(found, chosen) if heights is None else found
    windows = _windows("grey_dilation", image, found, mode, cval, origins, chosen, is_separable=structure is None)
    return np.max(windows if heights is None else windows + heights[np.nonzero(found)], -1)


def _morphology(name: str, combine: Callable[..., Any], document: str) -> Callable[..., Tensor]:
    def made(
        input: Any,
        size: Any = None,
        footprint: Any = None,
        structure: Any = None,
        output: Any = None,
        mode: Any = "reflect",
        cval: float = 0.0,
        origin: Any = 0,
        *,
        axes: Any = None,
    ) -> Tensor:
        image, _ = _image_and_axes(input, output, axes)

        def erode(one: Any) -> Any:
            return grey_erosion(one, size, footprint, structure, None, mode, cval, origin, axes=axes)

        def dilate(one: Any) -> Any:
            return grey_dilation(one, size, footprint, structure, None, mode, cval, origin, axes=axes)

        return combine(image, erode, dilate)

    made.__name__ = made.__qualname__ = name
    made.__doc__ = f"{document} The arguments are those of `grey_erosion`."
    return made


grey_opening: Callable[..., Tensor] = _morphology(
    "grey_opening", lambda image, erode, dilate: dilate(erode(image)), "Return the dilation of the erosion of an image."
)
grey_closing: Callable[..., Tensor] = _morphology(
    "grey_closing", lambda image, erode, dilate: erode(dilate(image)), "Return the erosion of the dilation of an image."
)
morphological_gradient: Callable[..., Tensor] = _morphology(
    "morphological_gradient",
    lambda image, erode, dilate: dilate(image) - erode(image),
    "Return the difference of the dilation and the erosion of an image.",
)
morphological_laplace: Callable[..., Tensor] = _morphology(
    "morphological_laplace",
    lambda image, erode, dilate: dilate(image) + erode(image) - 2 * image,
    "Return the sum of the dilation and the erosion of an image, less the image twice.",
)
white_tophat: Callable[..., Tensor] = _morphology(
    "white_tophat",
    lambda image, erode, dilate: image - dilate(erode(image)),
    "Return the difference of an image and its opening.",
)
black_tophat: Callable[..., Tensor] = _morphology(
    "black_tophat",
    lambda image, erode, dilate: erode(dilate(image)) - image,
    "Return the difference of the closing of an image and the image.",
)
