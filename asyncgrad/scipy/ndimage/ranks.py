"""The greatest, the least and the middle element of windows of an image; the gradient flows to that element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...tensor import Tensor
from ..arguments import floating
from .filters import continued

__all__ = ["maximum_filter", "median_filter", "minimum_filter"]


def _windows(name: str, image: Any, size: Any, footprint: Any, mode: str, cval: float, origin: Any) -> Any:
    """Return the elements of the window around each element, along a new last axis."""
    if footprint is None:
        if size is None:
            raise ValueError(f"scipy.ndimage.{name} takes a size or a footprint")
        footprint = np.ones(size if np.ndim(size) else (size,) * image.ndim, bool)
    footprint = np.asarray(footprint, bool)
    if footprint.ndim != image.ndim or not footprint.any():
        raise ValueError(f"scipy.ndimage.{name} takes a footprint with {image.ndim} axes that is not empty")
    origins = origin if np.ndim(origin) else (origin,) * image.ndim
    widths = [
        (length // 2 + moved, length - 1 - length // 2 - moved)
        for length, moved in zip(footprint.shape, origins, strict=True)
    ]
    if min(map(min, widths)) < 0:
        raise ValueError(f"scipy.ndimage.{name} takes an origin within the window, not {origin}")
    padded = continued(name, image, widths, mode, cval)
    windows: Any = np.lib.stride_tricks.sliding_window_view(padded, footprint.shape)
    return windows[(..., *np.nonzero(footprint))]


def _filter(name: str, choose: Callable[..., Any]) -> Callable[..., Tensor]:
    def made(
        input: Any,
        size: Any = None,
        footprint: Any = None,
        output: Any = None,
        mode: str = "reflect",
        cval: float = 0.0,
        origin: Any = 0,
    ) -> Tensor:
        image = floating(input)
        image = image if output is None else image.astype(output, copy=False)
        return choose(_windows(name, image, size, footprint, mode, cval, origin))

    made.__name__ = made.__qualname__ = name
    return made


def _middle(windows: Any) -> Any:
    # Of an even number the greater of the two.
    return np.sort(windows, -1)[..., windows.shape[-1] // 2]


maximum_filter = _filter("maximum_filter", lambda windows: np.max(windows, -1))
maximum_filter.__doc__ = """Return the greatest element of the window around each element.

    Args:
        input: the image.
        size: of a window, for all axes or for each.
        footprint: which elements of a window count.
        output: the dtype of the result; None for that of the image.
        mode: what lies beyond the borders.
        cval: the constant.
        origin: by how much the middle of the window is moved.

    Source: scipy.ndimage.maximum_filter.
    """
minimum_filter = _filter("minimum_filter", lambda windows: np.min(windows, -1))
minimum_filter.__doc__ = """Return the least element of the window around each element; as `maximum_filter`."""
median_filter = _filter("median_filter", _middle)
median_filter.__doc__ = """Return the middle element of the window around each element; as `maximum_filter`."""
