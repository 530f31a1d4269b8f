"""Spectra of the segments of signals, and what is estimated from them: densities, coherence, spectrograms.

A window that is a Tensor gets a gradient, too.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import signal

from ...core.arrays.axes import axis_index
from ...core.arrays.values import raw, refuse_complex
from ...core.recording.primitive import derivative, primitive
from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError
from ..arguments import floating
from .filters import continue_ends
from .spectra import detrend as without_trend

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["coherence", "csd", "istft", "periodogram", "spectrogram", "stft", "welch"]


@primitive()
def segments_(x: Any, length: int, step: int) -> Any:
    """Return the segments of a signal along its last axis, each `step` elements after the one before."""
    return np.lib.stride_tricks.sliding_window_view(x, length, -1)[..., ::step, :].copy()


@primitive()
def overlapped_(parts: Array, step: int, total: int) -> Array:
    """Return the sum of segments, each `step` elements after the one before, in a signal of `total` elements."""
    count, length = parts.shape[-2:]
    blocks = -(-length // step)
    padded = np.zeros((*parts.shape[:-1], blocks * step), parts.dtype)
    padded[..., :length] = parts
    padded = padded.reshape((*parts.shape[:-1], blocks, step))
    # A segment covers as many blocks of `step` elements: the first ones of all segments are added, then the second.
    sums = np.zeros((*parts.shape[:-2], count + blocks - 1, step), parts.dtype)
    for index in range(blocks):
        sums[..., index : index + count, :] += padded[..., index, :]
    found = sums.reshape((*parts.shape[:-2], -1))[..., :total]
    rest = total - found.shape[-1]
    return np.pad(found, [(0, 0)] * (found.ndim - 1) + [(0, rest)]) if rest else found


@derivative(segments_, "x")
def _(g: Array, x_shape: tuple[int, ...], step: int) -> Array:
    return overlapped_.call(g, step, x_shape[-1])


@derivative(overlapped_, "parts")
def _(g: Array, parts_shape: tuple[int, ...], step: int) -> Array:
    return segments_.call(g, parts_shape[-1], step)[..., : parts_shape[-2], :]


class _Layout(NamedTuple):
    """How a signal is cut into segments."""

    window: Any
    length: int
    overlap: int
    transformed: int


def _layout(name: str, window: Any, nperseg: Any, noverlap: Any, nfft: Any, size: int) -> _Layout:
    """Return the window, and the lengths of segments, of their overlap, and of their transforms."""
    if isinstance(window, (str, tuple, float)):
        length = min(256 if nperseg is None else int(nperseg), size)
        if length < 1:
            raise ValueError(f"scipy.signal.{name} takes nperseg of at least 1, not {nperseg}")
        window = signal.get_window(window, length)
    else:
        window = floating(window)
        length = window.size
        refuse_complex(f"scipy.signal.{name}", "a real window", window, error=ValueError)
        if window.ndim != 1 or not 0 < length <= size or (nperseg is not None and nperseg != length):
            raise ValueError(
                f"scipy.signal.{name} takes a window of shape (nperseg,), no longer than the signal, not of shape "
                f"{window.shape} with nperseg={nperseg} and {size} elements"
            )
    overlap = length // 2 if noverlap is None else int(noverlap)
    transformed = length if nfft is None else int(nfft)
    if not 0 <= overlap < length or transformed < length:
        raise ValueError(
            f"scipy.signal.{name} takes noverlap < nperseg <= nfft, not {overlap}, {length} and {transformed}"
        )
    return _Layout(window, length, overlap, transformed)


def _double_or_single(*arrays: Any) -> Any:
    return np.result_type(*(one.dtype for one in arrays), np.complex64)


def _spectra(x: Any, layout: _Layout, detrend: Any, onesided: bool, kind: Any) -> Any:
    """Return the spectra of the segments along the last axis: shape (..., segments, frequencies)."""
    parts = segments_.call(x, layout.length, layout.length - layout.overlap)
    if callable(detrend):
        parts = detrend(parts)
    elif detrend:
        parts = without_trend(parts, type=detrend).astype(parts.dtype, copy=False)
    window = asarray(layout.window).astype(np.finfo(kind).dtype, copy=False)
    function: Callable[..., Any] = np.fft.rfft if onesided else np.fft.fft
    return function(parts * window, layout.transformed).astype(kind, copy=False)


def _scale(name: str, scaling: str, window: Any, fs: float) -> Any:
    if scaling == "density":
        return 1 / (fs * np.sum(window * window))
    if scaling == "spectrum":
        return 1 / np.sum(window) ** 2
    raise ValueError(f"scipy.signal.{name} takes scaling 'density' or 'spectrum', not {scaling!r}")


def _frequencies(layout: _Layout, fs: float, onesided: bool) -> Any:
    function = np.fft.rfftfreq if onesided else np.fft.fftfreq
    return asarray(function(layout.transformed, 1 / fs))


def _last_axis(x: Any, axis: int) -> Any:
    return np.moveaxis(x, axis_index(axis, x.ndim), -1)


def _in_place(spectra: Any, axis: int, ndim: int) -> Any:
    """Return spectra (..., segments, frequencies) with the frequencies at the signal's axis, and the segments last."""
    return np.moveaxis(spectra.swapaxes(-1, -2), -2, axis_index(axis, ndim))


#: How a signal is continued at its ends.
_ENDS = ("even", "odd", "constant", "zeros")


def stft(
    x: Any,
    fs: float = 1.0,
    window: Any = "hann",
    nperseg: int | None = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
    scaling: str = "spectrum",
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the frequencies, the times, and the short-time Fourier transform of a signal.

    Args:
        x: the signal.
        fs: the number of samples in a unit of time.
        window: the name of a window, or its elements.
        nperseg: the length of a segment.
        noverlap: by how much segments overlap; None for a half.
        nfft: the length of a transform; None for that of a segment.
        detrend: False, "linear", "constant", or a function of segments along the last axis.
        return_onesided: whether only frequencies of at least 0 are returned; a complex signal has both.
        boundary: how the signal is continued: "zeros", "even", "odd", "constant", or None for not at all.
        padded: whether zeros are added, so that segments cover the signal.
        axis: along which it is transformed.
        scaling: "spectrum", or "psd".

    Source: scipy.signal.stft.
    """
    _check_scaling("stft", scaling)
    if boundary is not None and boundary not in _ENDS:
        raise ValueError(f"scipy.signal.stft takes boundary {', '.join(map(repr, _ENDS))} or None, not {boundary!r}")
    kind = "density" if scaling == "psd" else scaling
    options = (fs, window, nperseg, noverlap, nfft, detrend, return_onesided, kind, axis)
    return _transform("stft", x, *options, boundary, padded)


def _check_scaling(name: str, scaling: Any) -> None:
    if scaling not in ("spectrum", "psd"):
        raise ValueError(f"scipy.signal.{name} takes scaling 'spectrum' or 'psd', not {scaling!r}")


def _transform(
    name: str,
    x: Any,
    fs: float,
    window: Any,
    nperseg: int | None,
    noverlap: int | None,
    nfft: int | None,
    detrend: Any,
    onesided: bool,
    scaling: str,
    axis: int,
    boundary: str | None,
    padded: bool,
) -> Any:
    x = floating(x)
    if not x.size:
        return x, x, x
    moved = _last_axis(x, axis)
    layout = _layout(name, window, nperseg, noverlap, nfft, moved.shape[-1])
    onesided = onesided and x.dtype.kind != "c"
    step, half = layout.length - layout.overlap, layout.length // 2
    widths = [(0, 0)] * (x.ndim - 1)
    if boundary == "zeros":
        moved = np.pad(moved, [*widths, (half, half)])
    elif boundary is not None:
        moved = continue_ends(moved, boundary, half)
    added = (-(moved.shape[-1] - layout.length) % step) % layout.length if padded else 0
    moved = np.pad(moved, [*widths, (0, added)]) if added else moved
    spectra = _spectra(moved, layout, detrend, onesided, _double_or_single(x))
    scale = np.sqrt(_scale(name, scaling, layout.window, fs))
    times = np.arange(layout.length / 2, moved.shape[-1] - layout.length / 2 + 1, step) / float(fs)
    times = times if boundary is None else times - layout.length / 2 / fs
    found = (spectra * scale).astype(spectra.dtype, copy=False)
    return _frequencies(layout, fs, onesided), asarray(times), _in_place(found, axis, x.ndim)


def istft(
    Zxx: Any,
    fs: float = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
    scaling: str = "spectrum",
) -> tuple[Tensor, Tensor]:
    """Return the times, and the signal with a short-time Fourier transform.

    Args:
        Zxx: the transform, as `stft` returns it.
        fs: as for `stft`.
        window: as for `stft`; the sums of its squares over segments are not 0.
        nperseg: as for `stft`.
        noverlap: as for `stft`.
        nfft: as for `stft`.
        input_onesided: whether `Zxx` has only frequencies of at least 0.
        boundary: whether the signal was continued at its ends.
        time_axis: the axis of segments.
        freq_axis: the axis of frequencies.
        scaling: as for `stft`.

    Source: scipy.signal.istft.
    """
    spectra = floating(Zxx)
    if spectra.ndim < 2 or axis_index(time_axis, spectra.ndim) == axis_index(freq_axis, spectra.ndim):
        raise ValueError(f"scipy.signal.istft takes two axes of time and frequency, not those of shape {spectra.shape}")
    _check_scaling("istft", scaling)
    time, frequency = axis_index(time_axis, spectra.ndim), axis_index(freq_axis, spectra.ndim)
    moved = np.moveaxis(spectra, (time, frequency), (-2, -1))
    default = 2 * (moved.shape[-1] - 1) if input_onesided else moved.shape[-1]
    length = default if nperseg is None else int(nperseg)
    if nfft is None:
        nfft = length if input_onesided and length == default + 1 else default
    layout = _layout("istft", window, length, noverlap, nfft, length)
    step = layout.length - layout.overlap
    function: Callable[..., Any] = np.fft.irfft if input_onesided else np.fft.ifft
    parts = function(moved, layout.transformed)[..., : layout.length]
    shape = asarray(layout.window).astype(parts.real.dtype, copy=False)
    total = layout.length + (moved.shape[-2] - 1) * step
    scale = np.sum(shape) if scaling == "spectrum" else np.sqrt(fs * np.sum(shape**2))
    sums = overlapped_.call(parts * (shape * scale), step, total)
    weights = overlapped_.call(np.broadcast_to(shape**2, (moved.shape[-2], layout.length)), step, total)
    if boundary:
        half = layout.length // 2
        sums, weights = sums[..., half : total - half], weights[half : total - half]
    if (raw(weights) <= 1e-10).any():
        warnings.warn("scipy.signal.istft: the windows of segments leave out elements (NOLA)", stacklevel=2)
    result = sums / np.where(weights > 1e-10, weights, 1.0)
    if result.ndim > 1:
        result = np.moveaxis(result, -1, time - (frequency < time))
    return asarray(np.arange(result.shape[0]) / float(fs)), result


def csd(
    x: Any,
    y: Any,
    fs: float = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Tensor, Tensor]:
    """Return the frequencies, and the cross power spectral density of two signals by Welch's method.

    Args:
        x: a signal.
        y: another one; the shorter is continued with zeros.
        fs: as for `stft`.
        window: as for `stft`.
        nperseg: as for `stft`.
        noverlap: as for `stft`.
        nfft: as for `stft`.
        detrend: as for `stft`.
        return_onesided: as for `stft`.
        scaling: "density" or "spectrum".
        axis: along which they are transformed.
        average: of the segments: "mean" or "median".

    Source: scipy.signal.csd.
    """
    first = floating(x)
    second = first if y is x else floating(y)
    if not first.size or not second.size:
        ends = [np.moveaxis(one, axis, -1).shape for one in (first, second)]
        shape = (*np.broadcast_shapes(*(one[:-1] for one in ends)), min(one[-1] for one in ends))
        empty = np.moveaxis(np.empty(shape), -1, axis)
        return asarray(empty), asarray(empty)
    options = (fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis)
    frequencies, _, powers = _powers("csd", first, second, *options)
    return frequencies, _averaged("csd", powers, average)


def _powers(
    name: str,
    x: Any,
    y: Any,
    fs: float,
    window: Any,
    nperseg: int | None,
    noverlap: int | None,
    nfft: int | None,
    detrend: Any,
    onesided: bool,
    scaling: str,
    axis: int,
) -> Any:
    """Return the frequencies, the times, and the products of the spectra of segments, which are the last axis."""
    first = _last_axis(x, axis)
    second = first if y is x else _last_axis(y, axis)
    size = max(first.shape[-1], second.shape[-1])
    layout = _layout(name, window, nperseg, noverlap, nfft, size)
    onesided = onesided and "c" not in (x.dtype.kind, y.dtype.kind)
    kind = _double_or_single(x, y)
    spectra = []
    for one in (first,) if second is first else (first, second):
        rest = size - one.shape[-1]
        whole = np.pad(one, [(0, 0)] * (one.ndim - 1) + [(0, rest)]) if rest else one
        spectra.append(_spectra(whole, layout, detrend, onesided, kind))
    products = np.conjugate(spectra[0]) * spectra[-1] * _scale(name, scaling, layout.window, fs)
    if onesided:
        # Those of the negative frequencies are added; 0, and the highest of an even number, are their own negatives.
        doubled = np.full(products.shape[-1], 2.0)
        doubled[0] = 1
        doubled[-1] = 1 if layout.transformed % 2 == 0 else doubled[-1]
        products = products * doubled.astype(products.real.dtype)
    products = (products.real if len(spectra) == 1 else products).astype(
        np.finfo(kind).dtype if len(spectra) == 1 else kind, copy=False
    )
    times = np.arange(layout.length / 2, size - layout.length / 2 + 1, layout.length - layout.overlap) / float(fs)
    return _frequencies(layout, fs, onesided), asarray(times), _in_place(products, axis, max(x.ndim, y.ndim))


def _averaged(name: str, powers: Array, average: str) -> Any:
    if average not in ("mean", "median"):
        raise ValueError(f"scipy.signal.{name} takes average 'mean' or 'median', not {average!r}")
    count = powers.shape[-1]
    if average == "mean" or count == 1:
        return np.mean(powers, -1)
    # The median of exponential variables is less than their mean.
    bias = 1 + math.fsum(1 / (odd + 1) - 1 / odd for odd in range(2, 2 * ((count - 1) // 2) + 1, 2))
    if powers.dtype.kind != "c":
        return np.median(powers, -1) / bias
    return (np.median(powers.real, -1) + 1j * np.median(powers.imag, -1)) / bias


def welch(
    x: Any,
    fs: float = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Tensor, Tensor]:
    """Return the frequencies, and the power spectral density of a signal by Welch's method; arguments as of `csd`.

    Source: scipy.signal.welch.
    """
    x = floating(x)
    return csd(x, x, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average)


def periodogram(
    x: Any,
    fs: float = 1.0,
    window: Any = "boxcar",
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
) -> tuple[Tensor, Tensor]:
    """Return the frequencies, and the power spectral density of a whole signal; arguments as of `csd`.

    Source: scipy.signal.periodogram.
    """
    x = floating(x)
    if not x.size:
        return x, x
    moved = _last_axis(x, axis)
    length = moved.shape[-1]
    if nfft is not None and nfft < length:
        moved, length, nfft = moved[..., :nfft], int(nfft), None
    x = np.moveaxis(moved, -1, axis_index(axis, x.ndim))
    window = "boxcar" if window is None else window
    return csd(x, x, fs, window, length, 0, nfft, detrend, return_onesided, scaling, axis)


def spectrogram(
    x: Any,
    fs: float = 1.0,
    window: Any = ("tukey", 0.25),
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    mode: str = "psd",
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the frequencies, the times, and the spectra of the segments of a signal; arguments as of `csd`.

    Args:
        x: a signal.
        fs: as for `csd`.
        window: as for `csd`.
        nperseg: as for `csd`.
        noverlap: as for `csd`, but for None, which is an eighth.
        nfft: as for `csd`.
        detrend: as for `csd`.
        return_onesided: as for `csd`.
        scaling: as for `csd`.
        axis: as for `csd`.
        mode: "psd", "complex", "magnitude", "angle", or "phase", an angle without jumps.

    Source: scipy.signal.spectrogram.
    """
    if mode not in ("psd", "complex", "magnitude", "angle", "phase"):
        raise ValueError(
            f"scipy.signal.spectrogram takes mode 'psd', 'complex', 'magnitude', 'angle' or 'phase', not {mode!r}"
        )
    x = floating(x)
    if not x.size:
        return x, x, x
    if noverlap is None:
        noverlap = _layout("spectrogram", window, nperseg, 0, None, x.shape[axis]).length // 8
    options = (fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis)
    if mode == "psd":
        return tuple(_powers("spectrogram", x, x, *options))
    frequencies, times, spectra = _transform("spectrogram", x, *options, None, False)
    if mode == "magnitude":
        spectra = np.abs(spectra)
    elif mode != "complex":
        spectra = np.angle(spectra)
        spectra = np.unwrap(spectra, axis=axis - 1 if axis < 0 else axis) if mode == "phase" else spectra
    return frequencies, times, spectra


def coherence(
    x: Any,
    y: Any,
    fs: float = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    axis: int = -1,
) -> tuple[Tensor, Tensor]:
    """Return the frequencies, and how well one signal is told by the other at each of them; arguments as of `csd`.

    Source: scipy.signal.coherence.
    """
    x, y = floating(x), floating(y)
    if x is y:
        raise ArgumentError("scipy.signal.coherence of a signal with itself is 1: pass two signals")
    options = (fs, window, nperseg, noverlap, nfft, detrend)
    frequencies, own = welch(x, *options, axis=axis)
    _, other = welch(y, *options, axis=axis)
    _, both = csd(x, y, *options, axis=axis)
    return frequencies, np.abs(both) ** 2 / own / other
