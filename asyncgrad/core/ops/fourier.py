"""Discrete Fourier transforms: complex to complex, real to complex, and complex to real.

There are three primitives, one for each of these. The matrix of a transform is symmetric, so the derivative of a
transform is a transform of the same direction and norm. If the transform cropped or padded its input, the derivative
pads or crops the gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import ArgumentError
from ..arrays.axes import array_like, axis_tuple
from ..arrays.values import as_like, raw
from ..recording.primitive import RULES, derivative, primitive
from .dispatch import write_result
from .rearranging import roll

if TYPE_CHECKING:
    from ..arrays.array import Array


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

#: For each norm, the norm that gives the inverse transform the same scale factor.
_INVERSE_NORM = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


def _inverse_norm(norm: Any) -> Any:
    # NumPy raises the error for an unknown norm.
    return _INVERSE_NORM.get(norm, norm)


def _transformed_axes(ndim: int, s: Any, axes: Any) -> tuple[int, ...]:
    """Return the axes that are transformed, as non-negative ints: by default all, or the last `len(s)` ones.

    Args:
        ndim: of the array.
        s: the lengths, or one length, or None.
        axes: the axes, or one axis, or None for the default.
    """
    if axes is None:
        return tuple(range(0 if s is None else ndim - len(s), ndim))
    return axis_tuple(axes, ndim)


def _crop_or_pad(g: Any, shape: tuple[int, ...]) -> Any:
    """Return a gradient cropped at the end of each axis, or padded with zeros there, to `shape`."""
    if g.shape == shape:
        return g
    if any(have > want for have, want in zip(g.shape, shape, strict=True)):
        g = g[tuple(slice(want) for want in shape)]
    widths = [(0, want - have) for have, want in zip(g.shape, shape, strict=True)]
    return np.pad(g, widths) if g.shape != shape else g


def _scale_paired(g: Any, axis: int, length: int, factor: float) -> Any:
    """Return half of a Hermitian spectrum, with each element that stands for two frequencies multiplied by `factor`.

    The first element stands for frequency 0 alone, and, if `length` is even, the last for the Nyquist frequency alone.

    Args:
        g: the half spectrum.
        axis: the axis along which only half is stored.
        length: of the whole spectrum.
        factor: of the other elements.
    """
    factors = np.full(g.shape[axis], factor, raw(g).real.dtype)
    factors[0] = 1
    if length % 2 == 0:
        factors[-1] = 1
    return g * as_like(factors.reshape((-1,) + (1,) * (g.ndim - 1 - axis)), raw(g))


# The primitives.


@primitive()
def fft_c2c_(a: Any, transform: Callable[..., Any], s: Any, axes: Any, norm: Any) -> Any:
    """Return the complex transform, in either direction, along one axis or several."""
    return transform(a, s, axes, norm)


@derivative(fft_c2c_, "a")
def _(g: Array, a_shape: tuple[int, ...], transform: Callable[..., Any], s: Any, axes: Any, norm: Any) -> Array:
    if axes is None:
        axes = _transformed_axes(len(a_shape), s, axes)
    return _crop_or_pad(fft_c2c(g, transform, None, axes, norm), a_shape)


@primitive()
def fft_r2c_(a: Any, transform: Callable[..., Any], s: Any, axes: Any, norm: Any) -> Any:
    """Return half of the spectrum of real numbers along the last axis, transformed along the other axes."""
    return transform(a, s, axes, norm)


@derivative(fft_r2c_, "a")
def _(g: Array, a_shape: tuple[int, ...], s: Any, axes: Any, norm: Any) -> Array:
    *others, last = _transformed_axes(len(a_shape), s, axes)
    length = a_shape[last] if s is None else np.atleast_1d(s)[-1]
    length = int(length) if length != -1 else a_shape[last]
    if others:
        g = fft_c2c(g, np.fft.fftn, None, tuple(others), norm)
    # The real part of the transposed transform, computed from the half that determines the other one.
    halves = _scale_paired(np.conjugate(g), last, length, 0.5)
    return _crop_or_pad(fft_c2r(halves, np.fft.irfft, length, last, _inverse_norm(norm)), a_shape)


@primitive()
def fft_c2r_(a: Any, transform: Callable[..., Any], s: Any, axes: Any, norm: Any) -> Any:
    """Return the real numbers whose half spectrum along the last axis, and spectrum along the others, is `a`."""
    return transform(a, s, axes, norm)


@derivative(fft_c2r_, "a")
def _(g: Array, a_shape: tuple[int, ...], s: Any, axes: Any, norm: Any) -> Array:
    *others, last = _transformed_axes(len(a_shape), s, axes)
    gradient = _scale_paired(fft_r2c(g, np.fft.rfft, None, last, _inverse_norm(norm)), last, g.shape[last], 2)
    if others:
        gradient = fft_c2c(gradient, np.fft.fftn, None, tuple(others), _inverse_norm(norm))
    return _crop_or_pad(gradient, a_shape)


fft_c2c, fft_r2c, fft_c2r = fft_c2c_.call, fft_r2c_.call, fft_c2r_.call


# NumPy's functions.


def _rule_along_axis(transform_primitive: Callable[..., Any], transform: Callable[..., Any]) -> Callable[..., Any]:
    """Return the rule of a transform along one axis."""

    def rule(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
        result = transform_primitive(array_like(a), transform, n, axis, norm)
        return result if out is None else write_result(out, result)

    return _register(rule, transform)


def _rule_along_axes(
    transform_primitive: Callable[..., Any], transform: Callable[..., Any], default: tuple[int, int] | None
) -> Callable[..., Any]:
    """Return the rule of a transform along several axes, `default` ones if the caller names none.

    The rule refuses a repeated axis if a length may change, since the derivative would need the length in between.
    """

    def rule(a: Any, s: Any = None, axes: Any = default, norm: Any = None, out: Any = None) -> Any:
        a = array_like(a)
        s, axes = _as_tuple(s), _as_tuple(axes)
        if axes is not None and (s is not None or transform_primitive is not fft_c2c):
            _check_distinct_axes(transform, axes, a.ndim)
        if s is not None and -1 in s:
            # Another library may not know that this stands for the length of the axis.
            lengths = [a.shape[axis] for axis in _transformed_axes(a.ndim, s, axes)]
            s = tuple(have if want == -1 else want for have, want in zip(lengths, s, strict=True))
        result = transform_primitive(a, transform, s, axes, norm)
        return result if out is None else write_result(out, result)

    return _register(rule, transform)


def _as_tuple(value: Any) -> Any:
    return value if value is None else tuple(value)


def _check_distinct_axes(transform: Callable[..., Any], axes: Sequence[int], ndim: int) -> None:
    """Raise if an axis is repeated. NumPy raises for one that the array does not have."""
    counted = [axis % ndim for axis in axes if -ndim <= axis < ndim]
    if len(set(counted)) < len(counted):
        raise ArgumentError(
            f"numpy.fft.{transform.__name__} of a tensor takes each axis once if lengths change, not axes={axes}: "
            "call it for one axis after another"
        )


def _register(rule: Callable[..., Any], transform: Callable[..., Any]) -> Callable[..., Any]:
    rule.__name__ = rule.__qualname__ = transform.__name__
    rule.__doc__ = f"Return numpy.fft.{transform.__name__} of an array or a tensor."
    RULES[transform] = rule
    return rule


_LAST_TWO = (-2, -1)

fft, ifft = _rule_along_axis(fft_c2c, np.fft.fft), _rule_along_axis(fft_c2c, np.fft.ifft)
rfft, irfft = _rule_along_axis(fft_r2c, np.fft.rfft), _rule_along_axis(fft_c2r, np.fft.irfft)
fft2, ifft2 = _rule_along_axes(fft_c2c, np.fft.fft2, _LAST_TWO), _rule_along_axes(fft_c2c, np.fft.ifft2, _LAST_TWO)
rfft2, irfft2 = _rule_along_axes(fft_r2c, np.fft.rfft2, _LAST_TWO), _rule_along_axes(fft_c2r, np.fft.irfft2, _LAST_TWO)
fftn, ifftn = _rule_along_axes(fft_c2c, np.fft.fftn, None), _rule_along_axes(fft_c2c, np.fft.ifftn, None)
rfftn, irfftn = _rule_along_axes(fft_r2c, np.fft.rfftn, None), _rule_along_axes(fft_c2r, np.fft.irfftn, None)


def hfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
    """Return the real spectrum of a Hermitian signal whose first half is `a`."""
    return irfft(np.conjugate(array_like(a)), n, axis, _inverse_norm(norm), out)


def ihfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
    """Return the first half of the Hermitian signal whose real spectrum is `a`."""
    result = np.conjugate(rfft(a, n, axis, _inverse_norm(norm)))
    return result if out is None else write_result(out, result)


RULES[np.fft.hfft] = hfft
RULES[np.fft.ihfft] = ihfft


def _shift(x: Any, axes: Any, sign: int) -> Any:
    x = array_like(x)
    if axes is None:
        axes = tuple(range(x.ndim))
    if isinstance(axes, (int, np.integer)):
        return roll(x, sign * (x.shape[axes] // 2), axes)
    return roll(x, [sign * (x.shape[axis] // 2) for axis in axes], axes)


def fftshift(x: Any, axes: Any = None) -> Any:
    """Return a spectrum with frequency 0 moved to the middle."""
    return _shift(x, axes, 1)


def ifftshift(x: Any, axes: Any = None) -> Any:
    """Return a spectrum with frequency 0 moved back to the front; the inverse of `fftshift`."""
    return _shift(x, axes, -1)


RULES[np.fft.fftshift] = fftshift
RULES[np.fft.ifftshift] = ifftshift
