"""Polynomials as rows of coefficients, the highest power first."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.axes import array_like, arrays_together, tensor_like
from ..arrays.device_arrays import eye_like, placed
from ..arrays.values import arange_like, ones_like, raw, refuse_complex, zeros_like
from ..recording.primitive import RULES, derivative, primitive
from .convolution import convolve
from .joining import concatenate, stack
from .linear_algebra import dot, outer
from .reductions import sum
from .shaping import atleast_1d

if TYPE_CHECKING:
    from ..arrays.array import Array


__all__ = [
    "poly",
    "polyadd",
    "polyder",
    "polydiv",
    "polyfit",
    "polyint",
    "polymul",
    "polysub",
    "polyval",
    "roots",
    "vander",
]


def _coefficients(*polynomials: Any) -> list[Any]:
    """Return polynomials as rows of coefficients; all are tensors if any is."""
    return [atleast_1d(one.coeffs if isinstance(one, np.poly1d) else one) for one in arrays_together(polynomials)]


def polyval(p: Any, x: Any) -> Any:
    """Return the values of a polynomial, by Horner's rule."""
    p, x = placed(p, x)
    result = tensor_like(np.zeros_like(raw(x)), p)
    for index in range(p.shape[0]):
        result = result * x + p[index]
    return result


RULES[np.polyval] = polyval


@primitive()
def vander_(x: Any, count: int, increasing: bool) -> Array:
    """Return the Vandermonde matrix of a row: in each row, the powers of one element."""
    return np.vander(x, count, increasing)


@derivative(vander_, "x")
def _(g: Any, x: Array, count: int, increasing: bool) -> Array:
    if count < 2:
        return np.zeros_like(x)
    powers = arange_like(raw(x), count)
    powers = powers if increasing else count - 1 - powers
    kept = slice(1, None) if increasing else slice(None, -1)
    slopes = np.vander(x, count - 1, increasing) * powers[kept].astype(raw(x).real.dtype)
    return np.sum(g[:, kept] * slopes, axis=1)


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """Return the Vandermonde matrix of a row, with the highest power first unless `increasing`."""
    x = array_like(x)
    if x.ndim != 1:
        raise ValueError(f"numpy.vander takes an array with one axis, not one with {x.ndim} axes")
    return vander_.call(x, x.shape[0] if N is None else N, increasing)


RULES[np.vander] = vander


# Sums, products and quotients.


def _pad_to_length(row: Any, length: int) -> Any:
    """Return a polynomial with zeros prepended up to a length."""
    missing = length - row.shape[0]
    return concatenate((zeros_like(raw(row), (missing,)), row)) if missing > 0 else row


def polyadd(a1: Any, a2: Any) -> Any:
    """Return the sum of two polynomials."""
    a1, a2 = _coefficients(a1, a2)
    length = max(a1.shape[0], a2.shape[0])
    return _pad_to_length(a1, length) + _pad_to_length(a2, length)


def polysub(a1: Any, a2: Any) -> Any:
    """Return the difference of two polynomials."""
    a1, a2 = _coefficients(a1, a2)
    length = max(a1.shape[0], a2.shape[0])
    return _pad_to_length(a1, length) - _pad_to_length(a2, length)


def _strip_leading_zeros(row: Any) -> Any:
    """Return a polynomial without its leading zeros; at least one coefficient remains."""
    found = np.flatnonzero(raw(row))
    return row[int(found[0]) if found.size else row.shape[0] - 1 :] if row.shape[0] else np.zeros_like(row, shape=(1,))


def polymul(a1: Any, a2: Any) -> Any:
    """Return the product of two polynomials."""
    a1, a2 = _coefficients(a1, a2)
    return convolve(_strip_leading_zeros(a1), _strip_leading_zeros(a2))


def polydiv(u: Any, v: Any) -> tuple[Any, Any]:
    """Return the quotient of two polynomials, and the remainder."""
    u, v = (one + 0.0 for one in _coefficients(u, v))
    dtype = np.result_type(u.dtype, v.dtype)
    scale, remainder, quotient = 1.0 / v[0], u.astype(dtype), []
    length = v.shape[0]
    for place in range(u.shape[0] - length + 1):
        coefficient = scale * remainder[place]
        quotient.append(coefficient)
        remainder = concatenate(
            (remainder[:place], remainder[place : place + length] - coefficient * v, remainder[place + length :]),
            dtype=dtype,
        )
    while np.allclose(raw(remainder)[0], 0, rtol=1e-14) and remainder.shape[0] > 1:
        remainder = remainder[1:]
    # A quotient of 0 has a history too, as a result of every other function of tensors that require grad.
    zero = np.where(True, np.zeros_like(raw(remainder), shape=(1,)), remainder[:1])
    return (stack(quotient, dtype=dtype) if quotient else zero), remainder


RULES[np.polyadd] = polyadd
RULES[np.polysub] = polysub
RULES[np.polymul] = polymul
RULES[np.polydiv] = polydiv


# Derivatives and integrals.


def polyder(p: Any, m: int = 1) -> Any:
    """Return the m-th derivative of a polynomial."""
    m = int(m)
    if m < 0:
        raise ValueError(f"numpy.polyder takes m=0 or more, not {m}: for an integral, write np.polyint(p, {-m})")
    (p,) = _coefficients(p) if isinstance(p, np.poly1d) else (array_like(p),)
    for _ in range(m):
        p = p[:-1] * (p.shape[0] - 1 - arange_like(raw(p), p.shape[0] - 1))
    return p


def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    """Return the m-th integral of a polynomial, with constants of integration `k`."""
    m = int(m)
    if m < 0:
        raise ValueError(f"numpy.polyint takes m=0 or more, not {m}: for a derivative, write np.polyder(p, {-m})")
    (p,) = _coefficients(p) if isinstance(p, np.poly1d) else (array_like(p),)
    k = zeros_like(raw(p), (m,), float) if k is None else atleast_1d(placed(k, p)[0])
    if k.shape[0] == 1 and m > 1:
        k = k[0] * ones_like(zeros_like(raw(p), (), float), (m,))
    if k.shape[0] < m:
        raise ValueError(f"numpy.polyint with m={m} takes one constant of integration, or {m}, not {k.shape[0]}")
    for index in range(m):
        p = concatenate((p / (p.shape[0] - arange_like(raw(p), p.shape[0])), k[index : index + 1]))
    return p


RULES[np.polyder] = polyder
RULES[np.polyint] = polyint


# Roots.


def poly(seq_of_zeros: Any) -> Any:
    """Return the polynomial with given roots, or the characteristic polynomial of a matrix."""
    zeros = atleast_1d(array_like(seq_of_zeros))
    if zeros.ndim == 2 and zeros.shape[0] == zeros.shape[1] and zeros.size:
        zeros = np.linalg.eigvals(zeros)
    elif zeros.ndim == 1:
        zeros = zeros.astype(np.mintypecode(zeros.dtype.char), copy=False)
    else:
        raise ValueError(f"numpy.poly takes a row of roots or a square matrix, not an array of shape {zeros.shape}")
    if not zeros.shape[0]:
        return 1.0
    one = ones_like(raw(zeros), (1,))
    result: Any = one
    for place in range(zeros.shape[0]):
        result = convolve(result, concatenate((one, -zeros[place : place + 1])))
    if zeros.dtype.kind == "c":
        found = raw(zeros).astype(complex)
        if np.all(np.sort(found) == np.sort(found.conj())):
            return np.copy(result.real)
    return result


RULES[np.poly] = poly


def roots(p: Any) -> Any:
    """Return the roots of a polynomial: the eigenvalues of its companion matrix."""
    p = atleast_1d(array_like(p))
    if p.ndim != 1:
        raise ValueError(f"numpy.roots takes a row of coefficients, not an array with {p.ndim} axes")
    found = np.flatnonzero(raw(p))
    if not found.size:
        return tensor_like(np.array([]), p)
    trailing = p.shape[0] - int(found[-1]) - 1
    p = p[int(found[0]) : int(found[-1]) + 1]
    p = p if p.dtype.kind in "fc" else p.astype(float)
    count = p.shape[0] - 1
    if not count:
        return tensor_like(np.zeros(trailing), p)
    below = eye_like(p, count, p.dtype)[: count - 1]
    companion = concatenate(((-p[1:] / p[0])[np.newaxis], below))
    values = np.linalg.eigvals(companion)
    if p.dtype.kind == "f" and not np.any(raw(values).imag):
        values = np.real(values)  # since NumPy 2.5, eigvals returns them complex; roots does not
    return concatenate((values, zeros_like(raw(values), (trailing,))))


RULES[np.roots] = roots


# Fitting a polynomial to points.


def _check_points(x: Any, y: Any, deg: int, w: Any) -> tuple[Any, Any, Any]:
    """Return points, values and weights in floating dtypes, after a check of their shapes."""
    x, y = (one + 0.0 for one in arrays_together((x, y)))
    if deg < 0:
        raise ValueError(f"numpy.polyfit takes a degree of 0 or more, not {deg}")
    if x.ndim != 1 or not x.size or y.ndim not in (1, 2) or x.shape[0] != y.shape[0]:
        raise TypeError(
            "numpy.polyfit takes x of shape (n,) and y of shape (n,) or (n, k), but the shapes are "
            f"{x.shape} and {y.shape}"
        )
    if w is None:
        return x, y, None
    w = tensor_like(w, x) + 0.0
    if w.shape != x.shape:
        raise TypeError(f"numpy.polyfit takes one weight for each of the {x.shape[0]} points, not shape {w.shape}")
    if "f" in (x.dtype.kind, y.dtype.kind):
        refuse_complex("numpy.polyfit of real points or values", "real weights", w, "pass w.real")
    return x, y, w


def polyfit(x: Any, y: Any, deg: Any, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False) -> Any:
    """Return the polynomial of degree `deg` that fits points with the least sum of squared errors."""
    order = int(deg) + 1
    x, y, w = _check_points(x, y, order - 1, w)
    if rcond is None:
        rcond = x.shape[0] * np.finfo(x.dtype).eps
    powers, values = vander(x, order), y
    if w is not None:
        powers = powers * w[:, np.newaxis]
        values = values * (w[:, np.newaxis] if values.ndim == 2 else w)
    scale = np.sqrt(sum(powers * powers, 0))
    powers = powers / scale
    found, residuals, rank, singular = np.linalg.lstsq(powers, values, rcond)
    found = (found.T / scale).T
    if int(raw(rank)) != order and not full:
        warnings.warn("Polyfit may be poorly conditioned", np.exceptions.RankWarning, stacklevel=4)
    if full:
        return found, residuals, rank, singular, tensor_like(rcond, x) if isinstance(rcond, np.generic) else rcond
    if not cov:
        return found
    covariance = np.linalg.inv(dot(powers.T, powers)) / outer(scale, scale)
    if cov == "unscaled":
        factor: Any = 1
    elif x.shape[0] <= order:
        raise ValueError(f"numpy.polyfit: the covariance of {order} coefficients needs more than {x.shape[0]} points")
    else:
        factor = residuals / (x.shape[0] - order)
    return found, (covariance if y.ndim == 1 else covariance[:, :, np.newaxis]) * factor


RULES[np.polyfit] = polyfit
