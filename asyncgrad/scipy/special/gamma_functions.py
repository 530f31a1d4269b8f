"""The gamma function, its logarithm and reciprocal, its logarithmic derivatives, and the beta function."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from ...errors import ArgumentTypeError, MissingDerivativeError
from ...graph.values import raw
from ...ops.axes import array_like
from ...ops.nondifferentiable import NonDifferentiable
from ...ops.primitive import RULES, derivative, differentiable, primitive
from ..arguments import floating

__all__ = [
    "beta",
    "betaln",
    "gamma",
    "gammaln",
    "gammasgn",
    "loggamma",
    "multigammaln",
    "polygamma",
    "psi",
    "psi_difference",
    "rgamma",
    "rgamma_slope",
]

gamma = differentiable(special.gamma, "x", x=lambda g, x, out: g * (out * special.psi(x)))
gammaln = differentiable(special.gammaln, "x", x=lambda g, x: g * special.psi(x))
loggamma = differentiable(special.loggamma, "x", x=lambda g, x: g * special.psi(x))
gammasgn = RULES[special.gammasgn] = NonDifferentiable(special.gammasgn)


@primitive()
def polygamma_(x: Any, n: Any) -> Any:
    """Return the n-th derivative of the digamma function, for n > 0."""
    return special.polygamma(n, x)


@derivative(polygamma_, "x")
def _(g: Any, x: Any, n: Any) -> Any:
    return g * polygamma_.call(x, n + 1)


def _trigamma(x: Any) -> Any:
    if x.dtype.kind == "c":
        raise MissingDerivativeError(
            "scipy.special.psi of complex numbers has no derivative rule: SciPy's polygamma takes real numbers"
        )
    return polygamma_.call(x, 1)


# SciPy's digamma is the same ufunc.
psi = differentiable(special.psi, "x", x=lambda g, x: g * _trigamma(x))


def polygamma(n: Any, x: Any) -> Any:
    """Return the n-th derivative of the digamma function.

    Args:
        n: whole numbers, at least 0.
        x: real numbers; they are broadcast.

    Source: scipy.special.polygamma.

    Example:
        >>> from asyncgrad.scipy import special
        >>> round(special.polygamma(1, 1.0).item(), 6)
        1.644934
    """
    orders, x = np.asarray(raw(array_like(n))), floating(x)
    if x.dtype.kind == "c":
        raise ArgumentTypeError(f"scipy.special.polygamma takes real numbers, not {x.dtype}")
    if not orders.any():
        return special.psi(x)
    result = polygamma_.call(x, np.maximum(orders, 1))
    return result if orders.all() else np.where(orders == 0, special.psi(x), result)


def rgamma_slope(x: Any) -> Any:
    """Return the derivative of 1 / gamma, which has derivatives of every order at the poles of gamma, too."""
    if x.dtype.kind == "c":
        return -special.psi(x) * special.rgamma(x)
    is_low = raw(x) < 0.5
    high = np.where(is_low, 1.0, x)
    regular = -special.psi(high) * special.rgamma(high)
    if not np.any(is_low):
        return regular
    # 1 / gamma(x) is gamma(1 - x) * sin(pi * x) / pi.
    low = np.where(is_low, x, 0.0)
    whole = np.rint(raw(low))
    angle, sign = np.pi * (low - whole), 1 - 2 * (whole % 2)
    slope = np.cos(angle) - np.sin(angle) / np.pi * special.psi(1 - low)
    return np.where(is_low, sign * special.gamma(1 - low) * slope, regular)


rgamma = differentiable(special.rgamma, "x", x=lambda g, x: g * rgamma_slope(x))

beta = differentiable(
    special.beta,
    "a b",
    a=lambda g, a, b, out: g * (out * psi_difference(a, b)),
    b=lambda g, a, b, out: g * (out * psi_difference(b, a)),
)
betaln = differentiable(
    special.betaln,
    "a b",
    a=lambda g, a, b: g * psi_difference(a, b),
    b=lambda g, a, b: g * psi_difference(b, a),
)


def psi_difference(a: Any, b: Any) -> Any:
    """Return psi(a) - psi(a + b), also where b is so small beside a that the difference would lose its digits."""
    is_small = np.abs(raw(b)) < 1e-4 * np.abs(raw(a))
    if not np.any(is_small):
        return special.psi(a) - special.psi(a + b)
    middle = a + b / 2
    near = np.where(is_small, middle, 1.0)
    small = np.where(is_small, b, 0.0)
    series = -small * (polygamma_.call(near, 1) + small * small * polygamma_.call(near, 3) / 24)
    far = np.where(is_small, 1.0, a), np.where(is_small, 1.0, b)
    return np.where(is_small, series, special.psi(far[0]) - special.psi(far[0] + far[1]))


def multigammaln(a: Any, d: int) -> Any:
    """Return the logarithm of the multivariate gamma function.

    Args:
        a: real numbers greater than (d - 1) / 2.
        d: the number of dimensions, a whole number of at least 1.

    Raises:
        ValueError: `d` is no such number, or an element of `a` is too small.

    Source: scipy.special.multigammaln.
    """
    if np.ndim(d) or np.floor(d) != d or d < 1:
        raise ValueError(f"scipy.special.multigammaln takes a whole number d of at least 1, not {d!r}")
    a = floating(a)
    if np.any(raw(a) <= 0.5 * (d - 1)):
        raise ValueError(f"scipy.special.multigammaln takes a greater than (d - 1) / 2, which is {0.5 * (d - 1)}")
    terms = special.gammaln(a[..., np.newaxis] - np.arange(d) / 2)
    return d * (d - 1) * 0.25 * np.log(np.pi) + np.sum(terms, -1)
