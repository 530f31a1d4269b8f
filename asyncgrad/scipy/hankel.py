"""The Hankel transforms of `scipy.fft`, of samples that are evenly spaced in the logarithm.

A transform is a product of Fourier coefficients with those of Bessel's function, which are gamma functions;
so it is differentiable by the samples, and by the spacing, the order, the offset and the bias.

Source: Hamilton, Uncorrelated modes of the non-linear power spectrum (2000), appendix B.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..core.arrays.values import raw
from ..core.tensor import Tensor, asarray
from .arguments import floating
from .special import loggamma, poch

__all__ = ["fht", "fhtoffset", "ifht"]

_LOG_2 = float(np.log(2))


def fht(a: Any, dln: Any, mu: Any, offset: Any = 0.0, bias: Any = 0.0) -> Tensor:
    """Return the fast Hankel transform of samples along the last axis, as `scipy.fft.fht`.

    Args:
        a: real samples at points whose logarithms are evenly spaced, shape (..., n).
        dln: the spacing of the logarithms.
        mu: the order of Bessel's function.
        offset: the logarithm of the product of the middles of both grids.
        bias: the exponent of the power law by which the samples are divided for the transform.

    Warns:
        UserWarning: the transform is singular at that order and bias, and its coefficient 0 is left out.

    Source: scipy.fft.fht.

    Example:
        >>> import asyncgrad as ag
        >>> import numpy as np
        >>> from asyncgrad.scipy import fft
        >>> r = np.logspace(-3, 3, 64)
        >>> mu = ag.tensor(0.0, requires_grad=True)
        >>> spectrum = fft.fht(r * np.exp(-(r**2) / 2), np.log(r[1] / r[0]), mu)
        >>> (gradient,) = ag.sync.grad(spectrum[32], [mu])
        >>> round(gradient.item(), 4)
        0.2509
    """
    return _transformed(floating(a), dln, mu, offset, bias, is_inverse=False)


def ifht(A: Any, dln: Any, mu: Any, offset: Any = 0.0, bias: Any = 0.0) -> Tensor:
    """Return the samples whose fast Hankel transform is `A`, as `scipy.fft.ifht`; see `fht`.

    Args:
        A: real coefficients, shape (..., n).
        dln: as for `fht`.
        mu: as for `fht`.
        offset: as for `fht`.
        bias: as for `fht`.

    Warns:
        UserWarning: the inverse is singular at that order and bias, and the coefficient 0 of `A` is left out.

    Source: scipy.fft.ifht.
    """
    return _transformed(floating(A), dln, mu, offset, bias, is_inverse=True)


def fhtoffset(dln: Any, mu: Any, initial: Any = 0.0, bias: Any = 0.0) -> Tensor:
    """Return the offset closest to `initial` with which `fht` rings least, as `scipy.fft.fhtoffset`.

    Args:
        dln: as for `fht`.
        mu: as for `fht`.
        initial: an offset.
        bias: as for `fht`.

    Source: scipy.fft.fhtoffset.
    """
    frequency = np.pi / (2 * asarray(dln))
    phases = np.imag(loggamma((mu + 1 + bias) / 2 + 1j * frequency) + loggamma((mu + 1 - bias) / 2 + 1j * frequency))
    turns = (_LOG_2 - initial) / dln + phases / np.pi
    return asarray(initial + (turns - np.round(raw(turns))) * dln)


def _transformed(samples: Tensor, dln: Any, mu: Any, offset: Any, bias: Any, *, is_inverse: bool) -> Tensor:
    count = samples.shape[-1]
    is_biased = bool(raw(bias) != 0) or bool(getattr(bias, "requires_grad", False))
    steps = (np.arange(count) - (count - 1) / 2) * dln
    if is_biased:
        samples = samples * np.exp(bias * (steps + offset) if is_inverse else -bias * steps)
    spectrum = np.fft.rfft(samples)
    factors = _factors(count, dln, mu, offset, bias, is_inverse)
    found: Any = np.flip(np.fft.irfft((spectrum * factors).astype(spectrum.dtype, copy=False), count), -1)
    if is_biased:
        found = found * np.exp(bias * steps if is_inverse else -bias * (steps + offset))
    return asarray(found)


def _factors(count: int, dln: Any, mu: Any, offset: Any, bias: Any, is_inverse: bool) -> Any:
    """Return by what the Fourier coefficients are multiplied, shape (count // 2 + 1,)."""
    numbers = np.arange(count // 2 + 1)
    factors = _away_from_poles(numbers, count, dln, mu, offset, bias)
    if not np.isfinite(raw(factors)[0]):
        # Both gamma functions, or one, have a pole: `poch` knows their quotient.
        first = 2.0 ** asarray(bias) * poch((mu + 1 - bias) / 2, asarray(bias))
        rest = _away_from_poles(numbers[1:], count, dln, mu, offset, bias)
        factors = np.concatenate([np.reshape(first, 1), rest])
    if not count % 2:
        # The highest frequency of an even number of samples is real.
        factors = np.where(numbers == count // 2, np.real(factors), factors)
    is_singular = np.isinf(raw(factors)) if not is_inverse else raw(factors) == 0
    if is_singular.any():
        warnings.warn(f"singular {'inverse ' * is_inverse}transform; consider changing the bias", stacklevel=4)
        factors = np.where(is_singular, 1.0, factors)
    return np.where(is_singular, 0.0, 1 / np.conj(factors) if is_inverse else factors)


def _away_from_poles(numbers: Any, count: int, dln: Any, mu: Any, offset: Any, bias: Any) -> Any:
    frequencies = np.pi * numbers / (count * asarray(dln))
    above, below = (loggamma((mu + 1 + one) / 2 + 1j * frequencies) for one in (bias, -bias))
    return np.exp(above - np.conj(below) + bias * _LOG_2 + 2j * (_LOG_2 - offset) * frequencies)
