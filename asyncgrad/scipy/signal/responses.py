"""What filters do to each frequency: factors and delays, differentiable by coefficients and by frequencies."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import signal

from ...core.arrays.values import raw
from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError
from ..arguments import floating
from .convolution import convolve
from .filters import sections

__all__ = ["freqs", "freqz", "freqz_sos", "group_delay", "sosfreqz"]


def _draws_nothing(name: str, plot: object) -> None:
    if plot is not None:
        raise ArgumentError(f"scipy.signal.{name} of tensors draws nothing: write no plot=")


def freqz(
    b: Any,
    a: Any = 1,
    worN: Any = 512,
    whole: bool = False,
    plot: None = None,
    fs: float = 2 * np.pi,
    include_nyquist: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return frequencies, and the response of a filter to them.

    Both are differentiable by frequencies that are given.

    Args:
        b: the coefficients of the numerator, shape (m,); or (m, ...), which is broadcast with the frequencies.
        a: those of the denominator, shape (n,) or (n, ...).
        worN: the number of frequencies, or the frequencies.
        whole: whether they go round the whole circle.
        plot: None alone.
        fs: the number of samples in a unit of time.
        include_nyquist: whether the last one is half of `fs`.

    Source: scipy.signal.freqz.
    """
    _draws_nothing("freqz", plot)
    b, a = (np.atleast_1d(floating(one)) for one in (b, a))
    frequencies, angles = _frequencies(b, a, worN, whole=whole, fs=fs, include_nyquist=include_nyquist)
    return asarray(frequencies), _response(b, a, angles)


def _is_count(frequencies: Any) -> bool:
    """Tell whether frequencies are given by their number, or not at all."""
    if frequencies is None:
        return True
    plain = np.asarray(raw(frequencies))
    return plain.ndim == 0 and plain.dtype.kind in "iu"


def _frequencies(b: Any, a: Any, worN: Any, *, fs: Any, **options: Any) -> tuple[Any, Any]:
    """Return frequencies, those that are given, which keep their history, or SciPy's, and their angles."""
    rate = float(raw(asarray(fs)))
    if not _is_count(worN):
        # As SciPy has it: frequencies are as wide as the coefficients, and of a complex number the real part counts.
        given = worN.real if isinstance(worN, complex) else worN
        frequencies = np.atleast_1d(floating(given).astype(np.result_type(b.dtype, a.dtype), copy=False))
        return frequencies, 2 * np.pi * frequencies / rate
    ones = (np.ones(1, np.result_type(raw(one).dtype, np.float32)) for one in (b, a))
    angles = signal.freqz(*ones, None if worN is None else int(np.asarray(raw(worN))), **options)[0]
    return angles * (rate / (2 * np.pi)), angles


def _response(b: Any, a: Any, angles: Any) -> Any:
    """Return the quotient of two polynomials, whose coefficients stand along the first axis, at angles."""
    wide = angles.astype(np.result_type(angles.dtype, np.float64), copy=False)
    dtype = np.result_type(angles.dtype, np.complex64)
    if b.ndim == 1 and a.shape == (1,):
        return np.exp(-1j * wide[..., np.newaxis] * np.arange(b.size)).astype(dtype) @ b / a
    # In SciPy's order: near a pole, or between many, the last digits of a quotient are those of its order.
    delay = np.exp(-1j * wide).astype(dtype)
    return _by_horner(b, delay) / _by_horner(a, delay)


def _by_horner(coefficients: Any, at: Any) -> Any:
    result = coefficients[-1] + 0 * at
    for index in range(coefficients.shape[0] - 2, -1, -1):
        result = result * at + coefficients[index]
    return result


def freqz_sos(sos: Any, worN: Any = 512, whole: bool = False, fs: float = 2 * np.pi) -> tuple[Tensor, Tensor]:
    """Return frequencies, and the response of a filter by sections to them; see `freqz`.

    Raises:
        ArgumentError: there is no section, or `sos` has another shape than (n, 6).

    Source: scipy.signal.freqz_sos.
    """
    sos = floating(sos)
    sos = sections(sos)
    if not len(sos):
        raise ArgumentError("scipy.signal.freqz_sos takes at least one section, not sos of shape (0, 6)")
    frequencies, angles = _frequencies(sos, sos, worN, whole=whole, fs=fs)
    response: Any = 1.0
    for section in sos:
        response = response * _response(section[:3], section[3:], angles)
    return asarray(frequencies), asarray(response)


#: SciPy's other name of it.
sosfreqz = freqz_sos


def freqs(b: Any, a: Any, worN: Any = 200, plot: None = None) -> tuple[Tensor, Tensor]:
    """Return angular frequencies, and the response of an analog filter to them.

    Both are differentiable by frequencies that are given.

    Args:
        b: the coefficients of the numerator, the highest power first, shape (m,).
        a: those of the denominator, shape (n,).
        worN: the number of frequencies, which SciPy finds, or the frequencies.
        plot: None alone.

    Source: scipy.signal.freqs.
    """
    _draws_nothing("freqs", plot)
    b, a = (np.atleast_1d(floating(one)) for one in (b, a))
    angles: Any
    if _is_count(worN):
        angles = asarray(signal.findfreqs(raw(b), raw(a), 200 if worN is None else int(np.asarray(raw(worN)))))
    else:
        angles = np.atleast_1d(asarray(worN))
    s = 1j * angles
    return angles, _by_horner(np.flip(b), s) / _by_horner(np.flip(a), s)


def group_delay(system: Any, w: Any = 512, whole: bool = False, fs: float = 2 * np.pi) -> tuple[Tensor, Tensor]:
    """Return frequencies, and by how many samples a filter delays a signal of each.

    Args:
        system: the coefficients of the numerator, shape (m,), and of the denominator, shape (n,).
        w: the number of frequencies, or the frequencies, which both results are differentiable by.
        whole: whether they go round the whole circle.
        fs: the number of samples in a unit of time.

    Source: scipy.signal.group_delay.
    """
    b, a = (np.atleast_1d(floating(one)) for one in system)
    # As SciPy has it: frequencies that are given keep their dtype, and others are doubles.
    wide = np.zeros(1, np.float64 if w is None or np.ndim(raw(w)) == 0 else floating(w).dtype).real
    frequencies, angles = _frequencies(wide, wide, w, whole=whole, fs=fs)
    both = convolve(b, np.conjugate(np.flip(a)))
    delay = np.exp(-1j * angles)
    divisor = _by_horner(both, delay)
    is_singular, is_small = raw(divisor) == 0, np.abs(raw(divisor)) < 10 * np.finfo(np.float64).eps
    if is_small.any():
        warnings.warn(
            f"the group delay is singular near the frequencies {raw(frequencies)[is_small]}, and set to 0 where it is",
            UserWarning,
            stacklevel=2,
        )
    divisor = np.where(is_singular, 1.0, divisor) if is_singular.any() else divisor
    found = np.real(_by_horner(both * np.arange(both.shape[0]), delay) / divisor) - a.shape[0] + 1
    return asarray(frequencies), np.where(is_singular, 0.0, found) if is_singular.any() else found
