"""Convolution and correlation of arrays of any number of axes.

A convolution is linear in both arguments, and its transpose in either is a convolution again, with the other argument
reversed. So each primitive here is its own derivative, to any order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import signal

from ...core.arrays.axes import axis_tuple
from ...core.recording.primitive import derivative, primitive
from ...core.tensor import Tensor, asarray

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["convolve", "convolve2d", "correlate", "correlate2d", "fftconvolve", "oaconvolve"]

_MODES = ("full", "same", "valid")


@primitive(superlinear=True)
def convolve_(in1: Any, in2: Any, method: str) -> Any:
    """Return the whole convolution over all axes, as `scipy.signal.convolve` with mode full."""
    return signal.convolve(in1, in2, "full", method)


def _convolve_gradient(g: Array, other: Array, method: str) -> Any:
    whole = convolve_.call(g, np.flip(other), method)
    return whole[tuple(slice(length - 1, size) for length, size in zip(other.shape, g.shape, strict=True))]


@derivative(convolve_, "in1")
def _(g: Array, in2: Any, method: str) -> Array:
    return _convolve_gradient(g, in2, method)


@derivative(convolve_, "in2")
def _(g: Array, in1: Any, method: str) -> Array:
    return _convolve_gradient(g, in1, method)


@primitive(superlinear=True)
def convolve_by_fft_(in1: Any, in2: Any, axes: tuple[int, ...], in_pieces: bool) -> Any:
    """Return the whole convolution over some axes by Fourier transforms; others are broadcast."""
    function = signal.oaconvolve if in_pieces else signal.fftconvolve
    return function(in1, in2, "full", axes=axes)


def _convolve_by_fft_gradient(g: Array, other: Array, axes: tuple[int, ...], in_pieces: bool) -> Any:
    whole = convolve_by_fft_.call(g, np.flip(other, axes), axes, in_pieces)
    parts = [slice(None)] * g.ndim
    for axis in axes:
        parts[axis] = slice(other.shape[axis] - 1, g.shape[axis])
    return whole[tuple(parts)]


@derivative(convolve_by_fft_, "in1")
def _(g: Array, in2: Any, axes: tuple[int, ...], in_pieces: bool) -> Array:
    return _convolve_by_fft_gradient(g, in2, axes, in_pieces)


@derivative(convolve_by_fft_, "in2")
def _(g: Array, in1: Any, axes: tuple[int, ...], in_pieces: bool) -> Array:
    return _convolve_by_fft_gradient(g, in1, axes, in_pieces)


def convolve(
    in1: Any,
    in2: Any,
    mode: str = "full",
    method: str = "auto",
    *,
    axes: Sequence[Sequence[int]] | None = None,
    dot_axes: Sequence[Sequence[int]] | None = None,
) -> Tensor:
    """Return the convolution of two arrays, over all axes or over pairs of axes.

    Args:
        in1: an array.
        in2: an array with as many axes.
        mode: "full"; "same", the middle, of the shape of `in1`; or "valid", where the arrays overlap wholly.
        method: "direct", "fft", or "auto", the faster one.
        axes: the axes of `in1` and those of `in2` to convolve over, in pairs, as in HIPS autograd. The result has the
            other axes of `in1`, those of `in2`, and then the convolved ones.
        dot_axes: the axes of both to sum products over, in pairs; only with `axes`.

    Raises:
        ValueError: the shapes or the mode do not fit.

    Source: scipy.signal.convolve; autograd.scipy.signal.convolve.

    Example:
        >>> from asyncgrad.scipy import signal
        >>> signal.convolve([1.0, 2.0, 3.0], [0.0, 1.0, 0.5]).tolist()
        [0.0, 1.0, 2.5, 4.0, 1.5]
    """
    in1, in2 = asarray(in1), asarray(in2)
    _check_mode("convolve", mode)
    if axes is not None or dot_axes is not None:
        return _convolve_axes(in1, in2, mode, axes, dot_axes)
    if in1.ndim != in2.ndim:
        raise ValueError(
            f"scipy.signal.convolve takes arrays with as many axes, not of shapes {in1.shape} and {in2.shape}"
        )
    every = tuple(range(in1.ndim))
    _check_valid("convolve", in1.shape, in2.shape, mode, every)
    if not in1.ndim:
        return in1 * in2
    if not in1.size or not in2.size:
        return asarray(np.array([], np.result_type(in1.dtype, in2.dtype)))
    if method == "auto":
        method = signal.choose_conv_method(in1._data, in2._data, mode)
    elif method not in ("direct", "fft"):
        raise ValueError(f"scipy.signal.convolve takes method 'auto', 'direct' or 'fft', not {method!r}")
    return _part(convolve_.call(in1, in2, method), in1.shape, in2.shape, mode, every)


def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Tensor:
    """Return the cross-correlation of two arrays: the convolution with the second reversed and conjugated.

    Args:
        in1: an array.
        in2: an array with as many axes.
        mode: as for `convolve`.
        method: as for `convolve`.

    Example:
        >>> from asyncgrad.scipy import signal
        >>> signal.correlate([1.0, 2.0, 3.0], [0.0, 1.0, 0.5]).tolist()
        [0.5, 2.0, 3.5, 3.0, 0.0]
    """
    in2 = np.flip(asarray(in2))
    return convolve(in1, np.conjugate(in2) if in2.dtype.kind == "c" else in2, mode, method)


def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Tensor:
    """Return the convolution of two arrays, computed by Fourier transforms.

    Args:
        in1: an array.
        in2: an array with as many axes; those that are not convolved are broadcast.
        mode: as for `convolve`.
        axes: an axis or several; None for all.
    """
    return _convolve_by_fft("fftconvolve", in1, in2, mode, axes, False)


def oaconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Tensor:
    """Return the convolution of two arrays by the overlap-add method, for lengths that differ much.

    Args:
        in1: an array.
        in2: an array with as many axes; those that are not convolved are broadcast.
        mode: as for `convolve`.
        axes: an axis or several; None for all.
    """
    return _convolve_by_fft("oaconvolve", in1, in2, mode, axes, True)


def convolve2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Tensor:
    """Return the convolution of two matrices.

    Args:
        in1: a matrix.
        in2: a matrix.
        mode: as for `convolve`.
        boundary: what lies around `in1`: "fill" for `fillvalue`, "wrap" for copies, "symm" for reflections.
        fillvalue: a number.
    """
    in1, in2 = _matrices("convolve2d", in1, in2)
    _check_mode("convolve2d", mode)
    fill = np.asarray(fillvalue)
    if fill.size != 1 or (fill.dtype.kind == "c" and "c" not in in1.dtype.kind + in2.dtype.kind):
        raise ValueError(
            f"scipy.signal.convolve2d takes a fillvalue that is one number of the arrays' kind, not {fillvalue!r}"
        )
    _check_valid("convolve2d", in1.shape, in2.shape, mode, (0, 1))
    if mode == "valid":
        return convolve(in1, in2, mode, "direct")
    widths = [(length - 1, length - 1) for length in in2.shape]
    if boundary in ("fill", 0):
        padded = in1 if fillvalue == 0 else np.pad(in1, widths, constant_values=fillvalue)
    elif boundary in _BORDERS:
        padded = np.pad(in1, widths, mode=_BORDERS[boundary])
    else:
        raise ValueError(f"scipy.signal.convolve2d takes boundary 'fill', 'wrap' or 'symm', not {boundary!r}")
    whole = convolve(padded, in2, "full" if padded is in1 else "valid", "direct")
    return _part(whole, in1.shape, in2.shape, mode, (0, 1))


def correlate2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Tensor:
    """Return the cross-correlation of two matrices: the convolution with the second reversed and conjugated.

    Args:
        in1: a matrix.
        in2: a matrix.
        mode: as for `convolve`.
        boundary: as for `convolve2d`.
        fillvalue: a number.
    """
    in1, in2 = _matrices("correlate2d", in1, in2)
    in2 = np.flip(in2)
    in2 = np.conjugate(in2) if in2.dtype.kind == "c" else in2
    if mode != "same":
        return convolve2d(in1, in2, mode, boundary, fillvalue)
    # An even number of rows has two middles, and SciPy takes the later one here.
    whole = convolve2d(in1, in2, "full", boundary, fillvalue)
    parts = [slice(width // 2, width // 2 + length) for width, length in zip(in2.shape, in1.shape, strict=True)]
    return whole[tuple(parts)]


#: SciPy's names of boundaries, and NumPy's names of the same.
_BORDERS: dict[Any, Any] = {"wrap": "wrap", "circular": "wrap", "symm": "symmetric", "symmetric": "symmetric"}


def _convolve_by_fft(name: str, in1: Any, in2: Any, mode: str, axes: Any, in_pieces: bool) -> Tensor:
    in1, in2 = asarray(in1), asarray(in2)
    _check_mode(name, mode)
    if in1.ndim != in2.ndim:
        raise ValueError(
            f"scipy.signal.{name} takes arrays with as many axes, not of shapes {in1.shape} and {in2.shape}"
        )
    if not in1.ndim:
        return in1 * in2
    chosen = tuple(range(in1.ndim)) if axes is None else axis_tuple(axes, in1.ndim)
    if not chosen:
        raise ValueError(f"scipy.signal.{name} takes at least one axis, not axes={axes!r}")
    _check_valid(name, in1.shape, in2.shape, mode, chosen)
    if not in1.size or not in2.size:
        return asarray(np.array([], np.result_type(in1.dtype, in2.dtype)))
    # An axis of length 1 is broadcast along, whether it is convolved or not.
    whole = convolve_by_fft_.call(in1, in2, chosen, in_pieces)
    # As SciPy: the middle of every axis, of those that are broadcast along, too.
    parts = range(whole.ndim) if mode == "same" else chosen
    return _part(whole, in1.shape, in2.shape, mode, parts)


def _check_mode(name: str, mode: Any) -> None:
    if mode not in _MODES:
        raise ValueError(f"scipy.signal.{name} takes mode 'full', 'same' or 'valid', not {mode!r}")


def _check_valid(name: str, first: tuple[int, ...], second: tuple[int, ...], mode: str, axes: Sequence[int]) -> None:
    """Raise if neither array is at least as long as the other one along all axes, and the mode is valid."""
    if mode != "valid":
        return
    if not all(first[axis] >= second[axis] for axis in axes) and not all(second[axis] >= first[axis] for axis in axes):
        raise ValueError(
            f"scipy.signal.{name} with mode='valid' takes one array that is at least as long as the other along every "
            f"axis, not shapes {first} and {second}"
        )


def _part(whole: Array, first: tuple[int, ...], second: tuple[int, ...], mode: str, axes: Sequence[int]) -> Any:
    """Return the part of a whole convolution that the mode asks for."""
    if mode == "full":
        return whole
    parts = [slice(None)] * whole.ndim
    for axis in axes:
        longer, shorter = max(first[axis], second[axis]), min(first[axis], second[axis])
        if mode == "valid":
            parts[axis] = slice(shorter - 1, longer)
        else:
            start = (whole.shape[axis] - first[axis]) // 2
            parts[axis] = slice(start, start + first[axis])
    return whole[tuple(parts)]


def _matrices(name: str, in1: Any, in2: Any) -> tuple[Any, Any]:
    in1, in2 = asarray(in1), asarray(in2)
    if in1.ndim != 2 or in2.ndim != 2:
        raise ValueError(f"scipy.signal.{name} takes two matrices, not shapes {in1.shape} and {in2.shape}")
    return in1, in2


# Over pairs of axes.


@primitive(superlinear=True)
def correlate_stacks_(kernels: Array, images: Any) -> Array:
    """Return the valid correlation of kernels (m, d, *k) with images (n, d, *s), summed over d: (m, n, *s-k+1)."""
    axes = tuple(range(2, kernels.ndim))
    windows = np.lib.stride_tricks.sliding_window_view(images, kernels.shape[2:], axes)
    count = len(axes)
    return np.tensordot(kernels, windows, ((1, *axes), (1, *range(2 + count, 2 + 2 * count))))


@derivative(correlate_stacks_, "kernels")
def _(g: Array, images: Any) -> Array:
    return correlate_stacks_.call(g, images.swapaxes(0, 1))


@derivative(correlate_stacks_, "images")
def _(g: Array, kernels: Array) -> Array:
    axes = tuple(range(2, kernels.ndim))
    widths = [(0, 0), (0, 0), *((length - 1, length - 1) for length in kernels.shape[2:])]
    flipped = np.flip(kernels, axes).swapaxes(0, 1)
    return correlate_stacks_.call(flipped, np.pad(g.swapaxes(0, 1), widths)).swapaxes(0, 1)


def _convolve_axes(in1: Array, in2: Array, mode: str, axes: Any, dot_axes: Any) -> Tensor:
    """Return the convolution over pairs of axes, summed over others: see `convolve`."""
    if axes is None:
        raise ValueError("scipy.signal.convolve takes dot_axes only with axes: pass the pairs to convolve over, too")
    first, (free1, size1) = _stacked(in1, axes[0], dot_axes[0] if dot_axes else ())
    second, (free2, size2) = _stacked(in2, axes[1], dot_axes[1] if dot_axes else ())
    if len(size1) != len(size2) or first.shape[1] != second.shape[1]:
        raise ValueError(
            f"scipy.signal.convolve takes axes in pairs, and pairs of dot_axes of equal lengths, not axes={axes} and "
            f"dot_axes={dot_axes} of arrays of shapes {in1.shape} and {in2.shape}"
        )
    convolved = range(len(size1))
    _check_valid("convolve", size1, size2, mode, convolved)
    # The kernels are the smaller ones: the work grows with their size.
    is_swapped = any(size1[axis] > size2[axis] for axis in convolved) and math.prod(size1) > math.prod(size2)
    kernels, images = (second, first) if is_swapped else (first, second)
    if mode != "valid":
        widths = [(0, 0), (0, 0), *((length - 1, length - 1) for length in kernels.shape[2:])]
        images = np.pad(images, widths)
    result = correlate_stacks_.call(np.flip(kernels, tuple(range(2, kernels.ndim))), images)
    result = result.swapaxes(0, 1) if is_swapped else result
    if mode == "same":
        result = _part(result, (0, 0, *size1), (0, 0, *size2), mode, range(2, result.ndim))
    return result.reshape((*free1, *free2, *result.shape[2:]))


def _stacked(array: Array, axes: Sequence[int], dot_axes: Sequence[int]) -> tuple[Any, tuple[Any, Any]]:
    """Return an array as (free axes, summed axes, *convolved axes), and the lengths of the free and convolved axes."""
    convolved, summed = axis_tuple(axes, array.ndim), axis_tuple(dot_axes, array.ndim)
    free = tuple(axis for axis in range(array.ndim) if axis not in (*convolved, *summed))
    lengths = tuple(array.shape[axis] for axis in free)
    sizes = tuple(array.shape[axis] for axis in convolved)
    count = math.prod([array.shape[axis] for axis in summed])
    moved = np.transpose(array, (*free, *summed, *convolved))
    return moved.reshape((math.prod(lengths), count, *sizes)), (lengths, sizes)
