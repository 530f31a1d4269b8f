"""Logarithms of sums of exponentials, and the shares of exponentials in their sum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.axes import kept_shape, reduced_axes
from ...core.arrays.values import as_array, constant_copy, is_device_array, raw, zeros_like
from ...core.recording.primitive import derivative, primitive
from ...core.tensor import asarray
from ..arguments import floating
from ..ufuncs import special

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["log_softmax", "logsumexp", "softmax"]


@primitive()
def logsumexp_(a: Any, b: Any, axis: tuple[int, ...], sign: Any) -> Array:
    """Return log(abs(sum(b * exp(a)))) along axes, which are kept; `sign` is that of the sums."""
    a = _counted(a, b)
    if not a.size:
        return np.sum(b * a, axis, keepdims=True) - np.inf
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        if is_device_array(a):
            largest = _finite_largest(a, axis)
            return np.log(np.sum(b * np.exp(a - largest), axis, keepdims=True) * sign) + largest
        first, rest, largest = _parted_sum(a, b, axis)
        # The greatest term apart: what is small beside it moves the logarithm all the same.
        share = rest / first
        # The logarithm is that of the absolute value of 1 and the share.
        by_first = np.log1p(np.where(share < -1, -share - 2, share)) + np.log(np.abs(first))
        return np.where(first == 0, np.log(np.abs(rest)), by_first) + largest


def _parted_sum(a: Any, b: Any, axis: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """Return the sum of the factors of the greatest exponent, that of all other terms beside it, and the exponent."""
    largest = _finite_largest(a, axis)
    is_first = a == largest
    terms = b * np.exp(a - largest)
    first = np.sum(np.where(is_first, b, 0), axis, keepdims=True, dtype=terms.dtype)
    return first, np.sum(np.where(is_first, 0, terms), axis, keepdims=True), largest


def _counted(a: Array, b: Any) -> Any:
    """Return exponents, minus infinity for those whose factor is 0: they must not hide the others.

    `test_a_term_with_a_factor_of_zero_does_not_count_however_large` in tests/scipy/test_special_tails.py guards it.
    """
    return a if b.ndim < a.ndim else np.where(b == 0, -np.inf, a)


def _finite_largest(a: Any, axis: Any) -> Any:
    """Return the greatest real part along axes, which are kept, and 0 where that is not finite."""
    largest = np.max(a.real, axis, keepdims=True)
    return np.where(np.isfinite(largest), largest, 0)


@derivative(logsumexp_, "a")
def _(g: Any, a: Array, b: Any, axis: tuple[int, ...], sign: Any, out: Array) -> Array:
    return g * (sign * _weighted_shares(a, b, axis, out))


@derivative(logsumexp_, "b")
def _(g: Any, a: Any, b: Array, axis: tuple[int, ...], sign: Any, out: Array) -> Array:
    return g * (sign * _shares(a, b, axis, out))


@primitive()
def complex_logsumexp_(a: Any, b: Any, axis: tuple[int, ...]) -> Any:
    """Return log(sum(b * exp(a))) along axes, which are kept, where it is complex."""
    if not is_device_array(a):
        # A factor of 1 is none: a complex one times infinity is nan.
        factor = None if (b == 1).all() else b
        return np.reshape(special.logsumexp(a, axis or None, b=factor, keepdims=True), kept_shape(a.shape, axis))
    a = _counted(a, b)
    largest = _finite_largest(a, axis)
    return np.log(np.sum(b * np.exp(a - largest), axis, keepdims=True)) + largest


@derivative(complex_logsumexp_, "a")
def _(g: Any, a: Array, b: Any, axis: tuple[int, ...], out: Array) -> Array:
    return g * _weighted_shares(a, b, axis, out)


@derivative(complex_logsumexp_, "b")
def _(g: Any, a: Any, b: Array, axis: tuple[int, ...], out: Array) -> Array:
    return g * _shares(a, b, axis, out)


def _weighted_shares(a: Any, b: Any, axis: tuple[int, ...], sums: Any) -> Any:
    with np.errstate(over="ignore"):
        shares = _shares(a, b, axis, sums)
    # Nothing of infinity is nothing.
    is_nothing = (raw(b) == 0) & ~np.isfinite(raw(shares))
    return b * np.where(is_nothing, 0.0, shares)


def _shares(a: Any, b: Any, axis: tuple[int, ...], sums: Any) -> Any:
    """Return exp(a - sums), with nothing of a sum of nothing.

    An infinite sum is that of its infinite terms, by their factors, as in `np.logaddexp`
    (test_an_infinite_logsumexp_moves_with_its_infinite_terms_alone).
    """
    bare = raw(sums)
    is_empty = np.isneginf(bare.real)
    if bare.dtype.kind == "c" or (not is_device_array(bare) and not np.isposinf(bare).any()):
        return np.where(is_empty, 0.0, np.exp(a - np.where(is_empty, 0.0, sums)))
    is_top = np.isposinf(raw(a)) & np.isposinf(bare)
    size = np.abs(np.sum(np.where(is_top, raw(b), 0.0), axis, keepdims=True))
    finite = np.exp(np.where(is_top, 0.0, a) - np.where(is_empty, 0.0, sums))
    return np.where(is_empty, 0.0, np.where(is_top, 1 / np.where(size == 0, 1.0, size), finite))


def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False) -> Any:
    """Return the logarithm of the sum of exponentials along axes, without overflow.

    Args:
        a: any shape.
        axis: the axes that are summed over; None for all.
        b: factors of the exponentials, of either sign; they are broadcast.
        keepdims: whether to keep the axes, with length 1.
        return_sign: whether to return the logarithm of the absolute value of the sum, and its sign.

    Returns:
        A Tensor; with `return_sign` a pair of the logarithm of the absolute value, and the sign, which has a derivative
        only if it is complex. Without it the logarithm of a negative sum is nan, and that of a complex one has the
        phase as imaginary part.

    Source: scipy.special.logsumexp.

    Example:
        >>> from asyncgrad.scipy import special
        >>> special.logsumexp([1000.0, 1000.0]).item() - 1000.0
        0.693147
    """
    a = floating(a)
    factors = asarray(1.0).to(a.device) if b is None else floating(b)
    if b is not None:
        a, factors = np.broadcast_arrays(a, factors)
    axes = reduced_axes(axis, a.ndim)
    factors = factors.astype(np.result_type(a.dtype, factors.dtype if b is not None else a.dtype), copy=False)
    if factors.dtype.kind == "c" and a.size:
        whole = complex_logsumexp_.call(a.astype(factors.dtype, copy=False), factors, axes)
        size = raw(whole).real
        sign: Any = None
        if return_sign:
            sign = np.where(np.isneginf(size), 0.0, np.exp(1j * np.imag(whole).astype(factors.dtype)))
            # As SciPy has it: an infinite sum has no direction.
            sign = np.where(np.isposinf(size), complex(np.nan, np.nan), sign) if np.isposinf(size).any() else sign
        result = np.real(whole) if return_sign else whole
    else:
        sign = as_array(_sign_of_sum(raw(a), raw(factors), axes))
        # A copy for the node, where the caller gets the sign and may write into it.
        result = logsumexp_.call(a, factors, axes, constant_copy(sign) if return_sign else sign)
        if not return_sign and a.size and (sign < 0).any():
            result = np.where(sign < 0, np.nan, result)
    shape = result.shape if keepdims else tuple(n for index, n in enumerate(result.shape) if index not in axes)
    result = result.reshape(shape)
    return (result, asarray(sign).reshape(shape)) if return_sign else result


def _sign_of_sum(a: Any, b: Any, axes: tuple[int, ...]) -> Any:
    if not a.size:
        # As SciPy's, that of minus infinity.
        return -1 + zeros_like(a, kept_shape(a.shape, axes), np.result_type(a, b))
    a = _counted(a, b)
    sums = np.sum(b * np.exp(a - _finite_largest(a, axes)), axes, keepdims=True)
    return np.sign(sums).astype(np.result_type(a.dtype, b.dtype), copy=False)


def softmax(x: Any, axis: Any = None) -> Any:
    """Return the exponentials over their sum along axes, without overflow.

    Args:
        x: any shape.
        axis: the axes along which the results sum to 1; None for all.

    Source: scipy.special.softmax.

    Example:
        >>> from asyncgrad.scipy import special
        >>> special.softmax([0.0, 0.0]).tolist()
        [0.5, 0.5]
    """
    return softmax_.call(floating(x), axis)


@primitive()
def softmax_(x: Any, axis: Any) -> Any:
    """Return the exponentials over their sum along axes."""
    if not is_device_array(x):
        return special.softmax(x, axis)
    exponentials = np.exp(x - np.max(x, axis, keepdims=True))
    return exponentials / np.sum(exponentials, axis, keepdims=True)


@derivative(softmax_, "x")
def _(g: Any, out: Any, axis: Any) -> Array:
    weighted = g * out
    return weighted - out * np.sum(weighted, axis, keepdims=True)


def log_softmax(x: Any, axis: Any = None) -> Any:
    """Return the logarithms of `softmax`, also of shares that are next to nothing.

    Args:
        x: any shape.
        axis: the axes along which the exponentials of the results sum to 1; None for all.

    Source: scipy.special.log_softmax.
    """
    return log_softmax_.call(floating(x), axis)


@primitive()
def log_softmax_(x: Any, axis: Any) -> Any:
    """Return the logarithms of the exponentials over their sum along axes."""
    if not is_device_array(x):
        return special.log_softmax(x, axis)
    shifted = x - _finite_largest(x, axis)
    return shifted - np.log(np.sum(np.exp(shifted), axis, keepdims=True))


@derivative(log_softmax_, "x")
def _(g: Any, out: Array, axis: Any) -> Array:
    return g - np.exp(out) * np.sum(g, axis, keepdims=True)
