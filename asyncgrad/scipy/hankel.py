"""The Hankel transforms of `scipy.fft`, of samples that are evenly spaced in the logarithm.

A transform is a product of Fourier coefficients with those of Bessel's function, which are gamma functions;
so it is differentiable by the samples, and by the spacing, the order, the offset and the bias.

Source: Hamilton, Uncorrelated modes of the non-linear power spectrum (2000), appendix B.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.arrays.values import raw
from ..core.tensor import Tensor, asarray
from .arguments import floating
from .special import loggamma, poch

if TYPE_CHECKING:
    from ..core.arrays.array_like import TensorLike

__all__ = ["fht", "fhtoffset", "ifht"]

_LOG_2 = float(np.log(2))


def fht(a: TensorLike, dln: TensorLike, mu: TensorLike, offset: TensorLike = 0.0, bias: TensorLike = 0.0) -> Tensor:
    """Return the fast Hankel transform of samples along the last axis, as `scipy.fft.fht`.

    Args:
        a: real samples at points whose logarithms are evenly spaced, shape (..., n).
        dln: the spacing of the logarithms.
        mu: the order of Bessel's function.
        offset: the logarithm of the product of the middles of both grids.
        bias: the exponent of the power law by which the samples are divided for the transform.

    Raises:
        ZeroDivisionError: the spacing is 0.

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
    return _transformed(floating(a), _parameters("fht", dln, mu, offset, bias), is_inverse=False)


def ifht(A: TensorLike, dln: TensorLike, mu: TensorLike, offset: TensorLike = 0.0, bias: TensorLike = 0.0) -> Tensor:
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
    return _transformed(floating(A), _parameters("ifht", dln, mu, offset, bias), is_inverse=True)


def fhtoffset(dln: TensorLike, mu: TensorLike, initial: TensorLike = 0.0, bias: TensorLike = 0.0) -> Tensor:
    """Return the offset closest to `initial` with which `fht` rings least, as `scipy.fft.fhtoffset`.

    Args:
        dln: as for `fht`.
        mu: as for `fht`.
        initial: an offset.
        bias: as for `fht`.

    Source: scipy.fft.fhtoffset.
    """
    spacing, order, start, power = _parameters("fhtoffset", dln, mu, initial, bias)
    above, below = (loggamma((order + 1 + one) / 2 + 0.5j * np.pi / spacing) for one in (power, -power))
    turns = (_LOG_2 - start) / spacing + np.imag(above + below) / np.pi
    return asarray(start + (turns - np.round(raw(turns))) * spacing)


def _parameters(name: str, dln: TensorLike, *others: TensorLike) -> list[Tensor]:
    parameters = [floating(one) for one in (dln, *others)]
    if not np.all(raw(parameters[0])):
        raise ZeroDivisionError(f"scipy.fft.{name} takes a spacing dln of the logarithms that is not 0")
    return parameters


def _transformed(samples: Tensor, parameters: list[Tensor], *, is_inverse: bool) -> Tensor:
    count, (dln, _, offset, bias) = samples.shape[-1], parameters
    is_biased = bias.item() != 0 or bias.requires_grad
    steps = (np.arange(count) - (count - 1) / 2) * dln
    if is_biased:
        samples = samples * np.exp(bias * (steps + offset) if is_inverse else -bias * steps)
    spectrum = np.fft.rfft(samples)
    factors = _factors(count, parameters, is_inverse)
    found: Any = np.flip(np.fft.irfft((spectrum * factors).astype(spectrum.dtype, copy=False), count), -1)
    if is_biased:
        found = found * np.exp(bias * steps if is_inverse else -bias * (steps + offset))
    return asarray(found)


def _factors(count: int, parameters: list[Tensor], is_inverse: bool) -> Tensor:
    """Return by what the Fourier coefficients are multiplied, shape (count // 2 + 1,)."""
    numbers = np.arange(count // 2 + 1)
    factors = _away_from_poles(numbers, count, *parameters)
    if not np.isfinite(raw(factors)[0]):
        # Both gamma functions, or one, have a pole: `poch` knows their quotient.
        _, mu, _, bias = parameters
        first = 2.0**bias * poch((mu + 1 - bias) / 2, bias)
        rest = _away_from_poles(numbers[1:], count, *parameters)
        factors = asarray(np.concatenate([np.reshape(first, 1), rest]))
    if not count % 2:
        # The highest frequency of an even number of samples is real.
        factors = asarray(np.where(numbers == count // 2, np.real(factors), factors))
    is_singular = np.isinf(raw(factors)) if not is_inverse else raw(factors) == 0
    if is_singular.any():
        warnings.warn(f"singular {'inverse ' * is_inverse}transform; consider changing the bias", stacklevel=4)
        factors = asarray(np.where(is_singular, 1.0, factors))
    return asarray(np.where(is_singular, 0.0, 1 / np.conj(factors) if is_inverse else factors))


def _away_from_poles(numbers: np.ndarray, count: int, dln: Tensor, mu: Tensor, offset: Tensor, bias: Tensor) -> Tensor:
    frequencies = np.pi * numbers / (count * dln)
    above, below = (loggamma((mu + 1 + one) / 2 + 1j * frequencies) for one in (bias, -bias))
    return asarray(np.exp(above - np.conj(below) + bias * _LOG_2 + 2j * (_LOG_2 - offset) * frequencies))
