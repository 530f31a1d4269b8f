"""Medians and other ranks of windows, and what is made of means and variances of windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.arrays.values import raw
from ...core.tensor import Tensor, asarray
from ..arguments import floating
from ..ndimage import rank_filter
from .convolution import correlate

__all__ = ["medfilt", "medfilt2d", "order_filter", "wiener"]


def order_filter(a: Any, domain: Any, rank: int) -> Tensor:
    """Return the element with a rank in the window around each element; zeros lie beyond the borders.

    Args:
        a: the signal.
        domain: which elements of a window count, of odd lengths.
        rank: from 0 for the least.

    Source: scipy.signal.order_filter.
    """
    window = np.asarray(raw(domain))
    if any(length % 2 == 0 for length in window.shape):
        raise ValueError(f"scipy.signal.order_filter takes a domain of odd lengths, not of shape {window.shape}")
    return rank_filter(a, rank, footprint=window, mode="constant")


def medfilt(volume: Any, kernel_size: Any = None) -> Tensor:
    """Return the median of the window around each element; zeros lie beyond the borders.

    Args:
        volume: the signal.
        kernel_size: of a window, an odd number for all axes or one for each; None for 3.

    Source: scipy.signal.medfilt.
    """
    signal = np.atleast_1d(asarray(volume))
    if signal.dtype.char in "?eFDG":
        raise ValueError(
            f"scipy.signal.medfilt takes whole numbers, or real ones of 32 bits or more, not {signal.dtype}: convert it"
        )
    sizes = np.broadcast_to(3 if kernel_size is None else np.asarray(kernel_size), (signal.ndim,))
    window = np.ones(tuple(int(size) for size in sizes))
    return order_filter(signal, window, window.size // 2)


def medfilt2d(input: Any, kernel_size: Any = 3) -> Tensor:
    """Return the median of the window around each element of a matrix; see `medfilt`."""
    image: Any = asarray(input)
    if image.ndim != 2:
        raise ValueError(f"scipy.signal.medfilt2d takes a matrix, not an array of shape {image.shape}")
    return medfilt(image, kernel_size)


def wiener(im: Any, mysize: Any = None, noise: Any = None) -> Tensor:
    """Return a signal from which noise is removed where the variance of a window is not much above it.

    Args:
        im: the signal.
        mysize: of a window, for all axes or for each; None for 3.
        noise: its power; None for the mean of the variances.

    Source: scipy.signal.wiener.
    """
    image = floating(im)
    if not image.size:
        return image
    sizes = tuple(int(size) for size in np.broadcast_to(3 if mysize is None else np.asarray(mysize), (image.ndim,)))
    window = np.ones(sizes)
    mean = correlate(image, window, "same") / window.size
    variance = correlate(image**2, window, "same") / window.size - mean**2
    power = np.mean(variance) if noise is None else floating(noise)
    is_noise = raw(variance) < raw(power)
    kept = (image - mean) * (1 - power / np.where(is_noise, 1.0, variance))
    return mean + np.where(is_noise, 0.0, kept)
