"""Discrete Fourier transforms: of complex numbers, of real ones, and back to these.

Three primitives stand for all of them. A transform is a symmetric matrix, so that its derivative is a transform as
well, of the same direction and the same norm; a length that was cut off or filled up is filled up or cut off again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError
from ..graph.values import beside, raw
from .axes import array_like, axis_tuple
from .dispatch import write
from .primitive import RULES, derivative, primitive
from .rearranging import roll

__all__ = [
    "fft",
    "fft2",
    "fft_c2c",
    "fft_c2r",
    "fft_r2c",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftn",
]

#: The norm by which a transform in the other direction has the same factor.
_SWAPPED = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


def _swapped(norm: Any) -> Any:
    # NumPy says of any other norm what it thinks of it.
    return _SWAPPED.get(norm, norm)


def _axes_of(ndim: int, s: Any, axes: Any) -> tuple[int, ...]:
    """Return the axes that are transformed, counted from the front: all, or as many of the last as there are lengths.

    Args:
        ndim: of the array.
        s: the lengths, or one.
        axes: the axes, or one; None where nothing says which.
    """
    if axes is None:
        return tuple(range(0 if s is None else ndim - len(s), ndim))
    return axis_tuple(axes, ndim)


def _fitted(g: Any, shape: tuple[int, ...]) -> Any:
    """Return a gradient with as many elements along each axis: cut off at the end, or filled up with zeros."""
    if g.shape == shape:
        return g
    if any(have > want for have, want in zip(g.shape, shape, strict=True)):
        g = g[tuple(slice(want) for want in shape)]
    widths = [(0, want - have) for have, want in zip(g.shape, shape, strict=True)]
    return np.pad(g, widths) if g.shape != shape else g


def _without_halves(g: Any, axis: int, length: int, factor: float) -> Any:
    """Return half of a spectrum with all that stands for two frequencies multiplied by a factor.

    Args:
        g: the half, along an axis.
        axis: that axis.
        length: of the whole spectrum.
        factor: what the first is not multiplied by, nor, of an even length, the last.
    """
    factors = np.full(g.shape[axis], factor, raw(g).real.dtype)
    factors[0] = 1
    if length % 2 == 0:
        factors[-1] = 1
    return g * beside(factors.reshape((-1,) + (1,) * (g.ndim - 1 - axis)), raw(g))


# The primitives.


@primitive()
def fft_c2c_(a: Any, transform: Callable[..., Any], s: Any, axes: Any, norm: Any) -> Any:
    """Return a transform of complex numbers, in either direction, along one axis or several."""
    return transform(a, s, axes, norm)


@derivative(fft_c2c_, "a")
def _(g: Any, a_shape: tuple[int, ...], transform: Callable[..., Any], s: Any, axes: Any, norm: Any) -> Any:
    if axes is None:
        axes = _axes_of(len(a_shape), s, axes)
    return _fitted(fft_c2c(g, transform, None, axes, norm), a_shape)


@primitive()
def fft_r2c_(a: Any, transform: Callable[..., Any], s: Any, axes: Any, norm: Any) -> Any:
    """Return half of the spectrum of real numbers, along one axis, and the transform of that along others."""
    return transform(a, s, axes, norm)


@derivative(fft_r2c_, "a")
def _(g: Any, a_shape: tuple[int, ...], s: Any, axes: Any, norm: Any) -> Any:
    *others, last = _axes_of(len(a_shape), s, axes)
    length = a_shape[last] if s is None else np.atleast_1d(s)[-1]
    length = int(length) if length != -1 else a_shape[last]
    if others:
        g = fft_c2c(g, np.fft.fftn, None, tuple(others), norm)
    # The real part of the transposed transform, without the half that says nothing new.
    halves = _without_halves(np.conjugate(g), last, length, 0.5)
    return _fitted(fft_c2r(halves, np.fft.irfft, length, last, _swapped(norm)), a_shape)


@primitive()
def fft_c2r_(a: Any, transform: Callable[..., Any], s: Any, axes: Any, norm: Any) -> Any:
    """Return the real numbers with half a spectrum along one axis, of what is transformed back along others first."""
    return transform(a, s, axes, norm)


@derivative(fft_c2r_, "a")
def _(g: Any, a_shape: tuple[int, ...], s: Any, axes: Any, norm: Any) -> Any:
    *others, last = _axes_of(len(a_shape), s, axes)
    gradient = _without_halves(fft_r2c(g, np.fft.rfft, None, last, _swapped(norm)), last, g.shape[last], 2)
    if others:
        gradient = fft_c2c(gradient, np.fft.fftn, None, tuple(others), _swapped(norm))
    return _fitted(gradient, a_shape)


fft_c2c, fft_r2c, fft_c2r = fft_c2c_.call, fft_r2c_.call, fft_c2r_.call


# NumPy's functions.


def _along_one(transformed: Callable[..., Any], transform: Callable[..., Any]) -> Callable[..., Any]:
    """Return the rule of a transform along one axis."""

    def rule(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
        result = transformed(array_like(a), transform, n, axis, norm)
        return result if out is None else write(out, result)

    return _named(rule, transform)


def _along_several(
    transformed: Callable[..., Any], transform: Callable[..., Any], default: tuple[int, int] | None
) -> Callable[..., Any]:
    """Return the rule of a transform along several axes, of which `default` are those that it takes if none is named.

    It takes no axis twice where it would have to change the length of one in between.
    """

    def rule(a: Any, s: Any = None, axes: Any = default, norm: Any = None, out: Any = None) -> Any:
        a = array_like(a)
        s, axes = _as_tuple(s), _as_tuple(axes)
        if axes is not None and (s is not None or transformed is not fft_c2c):
            _check_once(transform, axes, a.ndim)
        result = transformed(a, transform, s, axes, norm)
        return result if out is None else write(out, result)

    return _named(rule, transform)


def _as_tuple(value: Any) -> Any:
    return value if value is None else tuple(value)


def _check_once(transform: Callable[..., Any], axes: Sequence[int], ndim: int) -> None:
    """Raise if an axis is named twice."""
    counted = [axis % ndim if ndim else axis for axis in axes]
    if len(set(counted)) < len(counted):
        raise ArgumentError(
            f"numpy.fft.{transform.__name__} of a tensor takes each axis once where lengths change, not axes={axes}: "
            "call it for one axis after the other"
        )


def _named(rule: Callable[..., Any], transform: Callable[..., Any]) -> Callable[..., Any]:
    rule.__name__ = transform.__name__
    rule.__doc__ = f"Return numpy.fft.{transform.__name__} of an array or a tensor."
    RULES[transform] = rule
    return rule


_LAST_TWO = (-2, -1)

fft, ifft = _along_one(fft_c2c, np.fft.fft), _along_one(fft_c2c, np.fft.ifft)
rfft, irfft = _along_one(fft_r2c, np.fft.rfft), _along_one(fft_c2r, np.fft.irfft)
fft2, ifft2 = _along_several(fft_c2c, np.fft.fft2, _LAST_TWO), _along_several(fft_c2c, np.fft.ifft2, _LAST_TWO)
rfft2, irfft2 = _along_several(fft_r2c, np.fft.rfft2, _LAST_TWO), _along_several(fft_c2r, np.fft.irfft2, _LAST_TWO)
fftn, ifftn = _along_several(fft_c2c, np.fft.fftn, None), _along_several(fft_c2c, np.fft.ifftn, None)
rfftn, irfftn = _along_several(fft_r2c, np.fft.rfftn, None), _along_several(fft_c2r, np.fft.irfftn, None)


def hfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
    """Return the real spectrum of a signal that is Hermitian, of which `a` is one half."""
    return irfft(np.conjugate(array_like(a)), n, axis, _swapped(norm), out)


def ihfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
    """Return one half of the Hermitian signal that has a real spectrum."""
    result = np.conjugate(rfft(a, n, axis, _swapped(norm)))
    return result if out is None else write(out, result)


RULES[np.fft.hfft] = hfft
RULES[np.fft.ihfft] = ihfft


def _shifted(x: Any, axes: Any, sign: int) -> Any:
    x = array_like(x)
    if axes is None:
        axes = tuple(range(x.ndim))
    if isinstance(axes, (int, np.integer)):
        return roll(x, sign * (x.shape[axes] // 2), axes)
    return roll(x, [sign * (x.shape[axis] // 2) for axis in axes], axes)


def fftshift(x: Any, axes: Any = None) -> Any:
    """Return a spectrum with the frequency 0 in the middle."""
    return _shifted(x, axes, 1)


def ifftshift(x: Any, axes: Any = None) -> Any:
    """Return a spectrum with the frequency 0 in front again, which `fftshift` has put in the middle."""
    return _shifted(x, axes, -1)


RULES[np.fft.fftshift] = fftshift
RULES[np.fft.ifftshift] = ifftshift
