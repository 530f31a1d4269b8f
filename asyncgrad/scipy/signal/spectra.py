"""Analytic signals, trends, and other sampling rates."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import signal

from ...core.arrays.axes import axis_index
from ...core.arrays.values import raw, refuse_complex
from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError
from ..arguments import double, floating
from .convolution import convolve
from .filters import filtfilt, lfilter, sosfilt, sosfiltfilt

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["decimate", "detrend", "hilbert", "hilbert2", "lombscargle", "resample", "resample_poly", "upfirdn"]


def hilbert(x: Any, N: int | None = None, axis: int = -1) -> Tensor:
    """Return the analytic signal: a real signal plus i times its Hilbert transform.

    Args:
        x: a real signal.
        N: the number of elements that are transformed; None for all.
        axis: along which it is transformed.

    Raises:
        ArgumentTypeError: the signal is complex.
        ArgumentError: N is not positive.

    Source: scipy.signal.hilbert.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.scipy import signal
        >>> np.abs(signal.hilbert(np.cos(np.arange(8) * np.pi / 4))).round(6).tolist()
        [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """
    x = floating(x)
    refuse_complex("scipy.signal.hilbert", "a real signal", x, "pass x.real")
    axis = axis_index(axis, x.ndim)
    length = x.shape[axis] if N is None else N
    if length <= 0:
        raise ArgumentError(f"scipy.signal.hilbert takes N of at least 1, not {length}")
    # Negative frequencies are left out, and positive ones count twice; those that are their own negative count once.
    weights = np.zeros(length, x.dtype)
    weights[: length // 2 + 1] = 1
    weights[1 : (length + 1) // 2] = 2
    spectrum = np.fft.fft(x, length, axis=axis)
    return np.fft.ifft(spectrum * _along(weights, axis, x.ndim), axis=axis)


def hilbert2(x: Any, N: Any = None, axes: tuple[int, int] = (-2, -1)) -> Tensor:
    """Return the analytic signal of a real one of two axes.

    Args:
        x: a real signal.
        N: the numbers of elements that are transformed, or one for both; None for all.
        axes: along which it is transformed.

    Raises:
        ArgumentTypeError: the signal is complex.

    Source: scipy.signal.hilbert2.
    """
    x = np.atleast_2d(floating(x))
    refuse_complex("scipy.signal.hilbert2", "a real signal", x, "pass x.real")
    lengths = (x.shape[axes[0]], x.shape[axes[1]]) if N is None else (N, N) if isinstance(N, int) else tuple(N)
    if len(lengths) != 2 or min(lengths) <= 0:
        raise ArgumentError(f"scipy.signal.hilbert2 takes two positive N, not {N}")
    spectrum = np.fft.fft2(x, lengths, axes)
    for axis, length in zip(axes, lengths, strict=True):
        weights = np.zeros(length, x.dtype)
        half = (length + 1) // 2
        weights[:half] = 2
        weights[0] = 1
        spectrum = spectrum * _along(weights, axis_index(axis, x.ndim), x.ndim)
    return np.fft.ifft2(spectrum, axes=axes)


def decimate(
    x: Any, q: int, n: int | None = None, ftype: Any = "iir", axis: int = -1, zero_phase: bool = True
) -> Tensor:
    """Return every q-th sample of a signal, from which higher frequencies are filtered before.

    Args:
        x: the signal.
        q: the factor by which the rate shrinks.
        n: the order of the filter.
        ftype: "iir" for Chebyshev's filter, "fir" for a window; or a filter, a `dlti` of SciPy's.
        axis: along which it is filtered.
        zero_phase: whether no phase is shifted.

    Source: scipy.signal.decimate.
    """
    x = floating(x)
    x = double(x) if x.dtype.char == "e" else x
    axis = axis_index(axis, x.ndim)
    every = (slice(None),) * axis + (slice(None, None, q),)
    if ftype == "iir":
        sos = signal.cheby1(8 if n is None else n, 0.05, 0.8 / q, output="sos").astype(x.real.dtype, copy=False)
        return (sosfiltfilt if zero_phase else sosfilt)(sos, x, axis)[every]
    if isinstance(ftype, signal.dlti):
        given = ftype.to_tf()
        if given.den.size > 1:
            return _filtered(ftype.to_zpk(), given, x, axis, zero_phase)[every]
        h = given.num / given.den
    elif ftype == "fir":
        h = signal.firwin((20 * q if n is None else n) + 1, 1.0 / q, window="hamming")
    else:
        raise ArgumentError(f"scipy.signal.decimate takes ftype 'iir', 'fir' or a dlti of SciPy's, not {ftype!r}")
    if h.dtype.kind == "f":
        h = h.astype(x.real.dtype, copy=False)
    if zero_phase:
        return resample_poly(x, 1, q, axis, h)
    count = -(-x.shape[axis] // q)
    return upfirdn(h, x, 1, q, axis)[(slice(None),) * axis + (slice(count),)]


def _filtered(zpk: Any, tf: Any, x: Any, axis: int, zero_phase: bool) -> Any:
    """Return a signal filtered by sections, or where the coefficients are complex by a quotient of polynomials."""
    if np.iscomplex(zpk.poles).any() or np.iscomplex(zpk.gain):
        # As SciPy, which takes the whole quotient also where poles are pairs of conjugates.
        return (filtfilt if zero_phase else lfilter)(tf.num, tf.den, x, axis)
    sos = signal.zpk2sos(zpk.zeros, zpk.poles, zpk.gain).astype(x.real.dtype, copy=False)
    return (sosfiltfilt if zero_phase else sosfilt)(sos, x, axis)


def detrend(
    data: Any, axis: int = -1, type: str = "linear", bp: int | Sequence[int] = 0, overwrite_data: bool = False
) -> Tensor:
    """Return a signal less its mean, or less the lines that fit its pieces best.

    Args:
        data: the signal.
        axis: along which it is fitted.
        type: "linear" or "constant".
        bp: where pieces begin, for lines.
        overwrite_data: has no effect.

    Source: scipy.signal.detrend.
    """
    data = floating(data)
    if type in ("constant", "c"):
        return data - np.mean(data, axis, keepdims=True)
    data = data if data.dtype.char in "fdFD" else double(data)
    if type not in ("linear", "l"):
        raise ValueError(f"scipy.signal.detrend takes type 'linear' or 'constant', not {type!r}")
    moved = data.swapaxes(axis, -1)
    bounds = np.unique(np.array([0, *np.atleast_1d(bp), moved.shape[-1]]))
    if bounds[-1] > moved.shape[-1] or bounds[0] < 0:
        raise ValueError(f"scipy.signal.detrend takes breakpoints within {moved.shape[-1]} elements, not bp={bp}")
    parts = []
    for start, stop in itertools.pairwise(bounds):
        basis, _ = np.linalg.qr(np.stack([np.arange(1, stop - start + 1) / (stop - start), np.ones(stop - start)], -1))
        basis = basis.astype(data.dtype, copy=False)
        part = moved[..., start:stop]
        parts.append(part - (part @ basis) @ basis.T)
    return np.concatenate(parts, -1).swapaxes(axis, -1)


def resample(x: Any, num: int, t: Any = None, axis: int = 0, window: Any = None, domain: str = "time") -> Any:
    """Return a signal at `num` evenly spaced times, by Fourier transforms.

    Args:
        x: the signal, one period of it.
        num: the number of samples.
        t: the times of the samples of `x`, if the new times are wanted as well.
        axis: along which it is resampled.
        window: applied to the spectrum: None, an array, a function of frequencies, or the name of a window.
        domain: "time", or "freq" where `x` is a spectrum.

    Returns:
        The signal; with `t` a pair of it and the new times.

    Source: scipy.signal.resample.
    """
    if domain not in ("time", "freq"):
        raise ValueError(f"scipy.signal.resample takes domain 'time' or 'freq', not {domain!r}")
    x = floating(x)
    axis = axis_index(axis, x.ndim)
    length = x.shape[axis]
    is_real = domain == "time" and x.dtype.kind == "f"
    spectrum: Any = np.fft.fft(x, axis=axis) if domain == "time" else x
    spectrum = spectrum.swapaxes(axis, -1)
    if window is not None:
        spectrum = spectrum * _spectral_window(window, length).astype(spectrum.real.dtype, copy=False)
    result = np.fft.ifft(_cut_or_filled(spectrum, num), axis=-1).swapaxes(axis, -1) * (num / length)
    result = result.real if is_real else result
    if t is None:
        return result
    times: Any = asarray(t)
    return result, np.arange(num) * (times[1] - times[0]) * (length / num) + times[0]


def _spectral_window(window: Any, length: int) -> Any:
    if callable(window):
        return np.asarray(window(np.fft.fftfreq(length)))
    if isinstance(window, (str, tuple, float)):
        return np.fft.fftshift(signal.get_window(window, length))
    window = np.asarray(window)
    if window.shape != (length,):
        raise ValueError(f"scipy.signal.resample takes a window of shape ({length},), not {window.shape}")
    return window


def _cut_or_filled(spectrum: Any, num: int) -> Any:
    """Return a spectrum of `num` frequencies: the lowest ones of `spectrum`, or all of them and zeros between."""
    length = spectrum.shape[-1]
    kept = min(num, length)
    low, high = spectrum[..., : (kept + 1) // 2], spectrum[..., length - (kept - 1) // 2 :]
    if kept % 2:
        middle: list[Any] = []
    elif num < length:
        # Frequencies of both signs fall together at the new Nyquist frequency.
        middle = [spectrum[..., kept // 2, np.newaxis] + spectrum[..., length - kept // 2, np.newaxis]]
    elif num > length:
        half = spectrum[..., kept // 2, np.newaxis] / 2
        middle = [half, np.zeros((*spectrum.shape[:-1], num - length - 1), spectrum.dtype), half]
    else:
        middle = [spectrum[..., kept // 2, np.newaxis]]
    if kept % 2 and num > length:
        middle = [np.zeros((*spectrum.shape[:-1], num - length), spectrum.dtype)]
    return np.concatenate([low, *middle, high], -1)


def upfirdn(
    h: Any, x: Any, up: int = 1, down: int = 1, axis: int = -1, mode: str = "constant", cval: float = 0
) -> Tensor:
    """Return a signal with zeros put between its samples, filtered, and with only every `down`-th sample kept.

    Args:
        h: the coefficients of the filter, shape (n,).
        x: the signal.
        up: one more than the number of zeros between samples.
        down: the distance of the samples that are kept.
        axis: along which it is filtered.
        mode: what lies beyond the ends: "constant", "symmetric", "reflect", "edge", "wrap", "smooth" (the first and
            last two samples continued as lines), "line" (one through both ends), "antisymmetric" or "antireflect".
        cval: the constant.

    Source: scipy.signal.upfirdn.
    """
    h = floating(h)
    if h.ndim != 1 or not h.size:
        raise ValueError(f"scipy.signal.upfirdn takes h of shape (n,), n > 0, not {h.shape}")
    dtype = np.result_type(h.dtype, floating(x).dtype, np.float32)
    h, x = h.astype(dtype, copy=False), floating(x).astype(dtype, copy=False).swapaxes(axis, -1)
    length = x.shape[-1]
    before = 0 if mode == "constant" and cval == 0 else -(-h.size // up)
    x = _extended(x, before, mode, cval)
    if length and up * down > _FEW_ZEROS:
        return _by_phases(h, x, up, down, before, -(-((length - 1) * up + h.size) // down)).swapaxes(axis, -1)
    spread = np.stack([x, *[np.zeros(x.shape, x.dtype)] * (up - 1)], -1).reshape((*x.shape[:-1], -1))
    spread = spread[..., : spread.shape[-1] - up + 1]
    whole = convolve(spread, h.reshape((1,) * (x.ndim - 1) + (-1,)), "full", "direct")
    start = before * up
    return whole[..., start : start + (length - 1) * up + h.size : down].swapaxes(axis, -1)


#: Up to so many times the work that is needed, zeros are put between the samples.
_FEW_ZEROS = 16


def _by_phases(h: Any, x: Any, up: int, down: int, before: int, count: int) -> Any:
    """Return `count` samples of `upfirdn`, from sample `before` on, without the products that are 0."""
    taps = -(-h.size // up)
    places, phases = np.divmod(np.arange(count) * down, up)
    steps = np.arange(taps)
    weights = np.pad(h, (0, taps * up - h.size))[phases[:, np.newaxis] + steps * up]
    padded = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(taps, taps)])
    return np.sum(padded[..., places[:, np.newaxis] - steps + (taps + before)] * weights, -1)


def _extended(x: Any, count: int, mode: str, cval: float) -> Any:
    """Return a signal with `count` samples more at both ends of its last axis."""
    if not count and mode in _EXTENSIONS:
        return x
    length, widths = x.shape[-1], [(0, 0)] * (x.ndim - 1) + [(count, count)]
    if mode == "constant":
        return np.pad(x, widths, constant_values=cval)
    if mode == "antireflect":
        return np.pad(x, widths, mode="reflect", reflect_type="odd")
    if mode in ("symmetric", "reflect", "edge", "wrap"):
        named: Any = mode
        return np.pad(x, widths, mode=named)
    if mode == "antisymmetric":
        # Every other copy has the other sign.
        signs = 1 - 2 * (np.arange(-count, length + count) // length % 2)
        return np.pad(x, widths, mode="symmetric") * signs.astype(x.real.dtype)
    if mode not in ("smooth", "line"):
        raise ValueError(f"the ends of a signal are continued by {', '.join(map(repr, _EXTENSIONS))}, not {mode!r}")
    first, last = x[..., :1], x[..., -1:]
    if length == 1:
        slopes: Any = (0 * first, 0 * last)
    elif mode == "line":
        slopes = ((last - first) / (length - 1),) * 2
    else:
        slopes = (x[..., 1:2] - first, last - x[..., -2:-1])
    steps = np.arange(1, count + 1).astype(x.real.dtype)
    return np.concatenate([first - slopes[0] * steps[::-1], x, last + slopes[1] * steps], -1)


#: How a signal goes on beyond its ends.
_EXTENSIONS = (
    *("constant", "symmetric", "reflect", "edge", "wrap"),
    *("smooth", "line", "antisymmetric", "antireflect"),
)
#: By name, what is subtracted from a signal, so that zeros lie beyond its ends.
_LEVELS: dict[str, Any] = {"mean": np.mean, "median": np.median, "minimum": np.min, "maximum": np.max}


def resample_poly(
    x: Any,
    up: int,
    down: int,
    axis: int = 0,
    window: Any = ("kaiser", 5.0),
    padtype: str = "constant",
    cval: float | None = None,
) -> Tensor:
    """Return a signal at `up / down` times its rate, by a filter with a finite response.

    Args:
        x: the signal.
        up: the factor by which the rate grows.
        down: the factor by which it shrinks then.
        axis: along which it is resampled.
        window: the name of the window of the filter, or its coefficients.
        padtype: what lies beyond the ends: as for `upfirdn`, or a level: "mean", "median", "minimum", "maximum".
        cval: the constant; None for 0.

    Source: scipy.signal.resample_poly.
    """
    if padtype not in (*_LEVELS, *_EXTENSIONS):
        raise ValueError(f"padtype must be one of {', '.join((*_LEVELS, *_EXTENSIONS))}, not {padtype!r}")
    if cval is not None and padtype != "constant":
        raise ValueError(f"scipy.signal.resample_poly takes cval with padtype='constant' alone, not {padtype!r}")
    if up < 1 or down < 1 or int(up) != up or int(down) != down:
        raise ValueError(f"scipy.signal.resample_poly takes whole up and down of at least 1, not {up} and {down}")
    x = floating(x)
    x = x.astype(np.float32) if x.dtype.char == "e" else x
    common = math.gcd(int(up), int(down))
    up, down = int(up) // common, int(down) // common
    if up == down == 1:
        return x.copy()
    length = -(-x.shape[axis] * up // down)
    if isinstance(window, (list, np.ndarray, Tensor)):
        h: Any = floating(window)
        half = (h.size - 1) // 2
    else:
        half = 10 * max(up, down)
        h = floating(signal.firwin(2 * half + 1, 1.0 / max(up, down), window=window)).astype(x.dtype, copy=False)
    # The filter is moved so that the first sample that is kept lies under its middle.
    before = down - half % down
    removed = (half + before) // down
    after = max((length + removed - 1) * down + 1 - (x.shape[axis] - 1) * up - h.size - before, 0)
    level: Any = _LEVELS[padtype](x, axis=axis, keepdims=True) if padtype in _LEVELS else None
    mode = padtype if level is None else "constant"
    h = np.pad(h * up, (before, after))
    result = upfirdn(h, x if level is None else x - level, up, down, axis, mode, cval or 0.0)
    result = result[(slice(None),) * axis_index(axis, x.ndim) + (slice(removed, removed + length),)]
    return result if level is None else result + level


def _along(weights: Array, axis: int, ndim: int) -> Any:
    return weights.reshape([-1 if one == axis else 1 for one in range(ndim)])


def lombscargle(
    x: Any,
    y: Any,
    freqs: Any,
    *,
    precenter: bool = False,
    normalize: bool | str = False,
    weights: Any = None,
    floating_mean: bool = False,
) -> Tensor:
    """Return how much of samples at any times is a sine of each frequency, by least squares.

    Args:
        x: the times, shape (n,).
        y: the samples, shape (n,).
        freqs: angular frequencies, shape (m,).
        precenter: whether the mean of `y` is subtracted before.
        normalize: False or "power" for a power; True or "normalize" for the share of the sum of squares; "amplitude"
            for the complex amplitude.
        weights: of the samples, not negative; None for equal ones.
        floating_mean: whether a constant is fitted, too.

    Raises:
        ValueError: shapes do not fit, or a weight is negative.

    Source: scipy.signal.lombscargle; Zechmeister and Kürster, 2009.
    """
    x, y, freqs = (double(one) for one in (x, y, freqs))
    shares = np.ones(y.shape) if weights is None else double(weights)
    if x.ndim != 1 or not x.size or not x.shape == y.shape == shares.shape or freqs.ndim != 1 or not freqs.size:
        raise ValueError(
            "scipy.signal.lombscargle takes x, y and weights of one shape (n,) and freqs of shape (m,), not "
            f"{x.shape}, {y.shape}, {shares.shape} and {freqs.shape}"
        )
    if (raw(shares) < 0).any() or not raw(shares).sum() > 0:
        raise ValueError("scipy.signal.lombscargle takes weights that are not negative, and not all 0")
    kinds: dict[Any, str] = {False: "power", True: "normalize"}
    kind = kinds.get(normalize, normalize)
    if kind not in ("power", "normalize", "amplitude"):
        raise ValueError(
            f"scipy.signal.lombscargle takes normalize 'power', 'normalize' or 'amplitude', not {normalize!r}"
        )
    shares = shares / np.sum(shares)
    y = y - np.mean(y) if precenter else y
    in_phase, out_of_phase, turned = _fitted_sines(x, y, shares, freqs, floating_mean)
    if kind == "amplitude":
        return (in_phase[0] + 1j * out_of_phase[0]) * np.exp(1j * turned)
    power = 2 * (in_phase[0] * in_phase[1] + out_of_phase[0] * out_of_phase[1])
    if kind == "power":
        return power * (x.size / 4)
    mean = np.sum(shares * y) if floating_mean else 0.0
    return power / (2 * (np.sum(shares * y * y) - mean * mean))


def _fitted_sines(x: Any, y: Any, shares: Any, freqs: Any, floating_mean: bool) -> tuple[Any, Any, Any]:
    """Return for the cosine and the sine of each frequency the coefficient and the product with samples; the phase."""
    angles = freqs[:, np.newaxis] * x
    mean = np.sum(shares * y)

    def product(one: Any, other: Any) -> Any:
        found = np.sum(shares * one * other, -1)
        return found - np.sum(shares * one, -1) * np.sum(shares * other, -1) if floating_mean else found

    cosine, sine = np.cos(angles), np.sin(angles)
    # Turned by an angle at which their product is 0.
    turned = np.arctan2(2 * product(cosine, sine), product(cosine, cosine) - product(sine, sine)) / 2
    shifted = angles - turned[:, np.newaxis]
    found = []
    for wave in (np.cos(shifted), np.sin(shifted)):
        with_samples = np.sum(shares * y * wave, -1)
        if floating_mean:
            with_samples = with_samples - mean * np.sum(shares * wave, -1)
        found.append((with_samples / np.maximum(product(wave, wave), np.finfo(float).epsneg), with_samples))
    return found[0], found[1], turned
