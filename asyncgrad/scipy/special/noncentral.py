"""Noncentral chi-square and F distribution functions, and their inverses.

Where F is a distribution function with density f and x its quantile, the derivative of F by a parameter is -f(x) times
that of x. Where an argument is found from F(argument, ...) = p, its derivative by p is 1 over that of F, and by another
argument minus the quotient of both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays.values import raw
from ...core.recording.primitive import Primitive
from ...numpy.random.shapes import (
    chisquare_peak,
    f_peak,
    mixture_numbers,
    noncentral_chisquare_slope,
    noncentral_f_slope,
)
from ..ufuncs import special
from .log_densities import log_beta_, log_odds_powers
from .rules import compute_where, differentiable
from .searches import searched

__all__ = [
    "chi_log_density",
    "chndtr",
    "chndtridf",
    "chndtrinc",
    "chndtrix",
    "f_log_density",
    "ncfdtr",
    "ncfdtri",
    "ncfdtridfd",
    "ncfdtridfn",
    "ncfdtrinc",
    "where_finite",
]

#: The least number above 0.
_LEAST = 5e-324


def where_finite(function: Callable[..., Any], arguments: tuple[Any, ...], position: int, lowest: float) -> Any:
    """Return a function of finite arguments; it is 0 where the quantile is 0 or infinite, and nan for other arguments.

    Args:
        function: what is positive, and differentiable, for arguments of 1.
        arguments: the parameters, which are positive or a noncentrality, and the quantile.
        position: that of the quantile.
        lowest: the least of what the quantile may be; where it is not negative, no parameter may be negative.
    """
    values = [np.asarray(raw(one), float) for one in arguments]
    others = [value for index, value in enumerate(values) if index != position]
    is_valid = np.isfinite(sum(others))
    if lowest >= 0:
        is_valid = np.logical_and.reduce(np.broadcast_arrays(is_valid, *(one >= 0 for one in others)))
    inside = is_valid & np.isfinite(values[position]) & (values[position] >= lowest)
    if np.all(inside):
        return function(*arguments)
    is_end = np.isinf(values[position]) | (values[position] == 0)
    outside = np.where(is_end & is_valid, 0.0, np.nan)
    return compute_where(inside, function, *arguments, outside=outside)


def _mixture(peak: Any, product: Any, logarithm: Any) -> Any:
    """Return the sum over j of product**j / j! * exp(logarithm(j)).

    Args:
        peak: about where the terms are greatest.
        product: numbers of at least 0.
        logarithm: a function of j.
    """
    is_valid = (peak >= 0) & np.isfinite(peak)
    if not np.all(is_valid):
        return np.where(is_valid, _mixture(np.where(is_valid, peak, 0.0), product, logarithm), np.nan)
    numbers, stride = mixture_numbers(peak)
    # Powers of the product relative to its size, which do not overflow, and have a derivative at 0.
    size = np.where(raw(product) > 0, raw(product), 1.0)
    scales = numbers * np.log(size) - special.gammaln(numbers + 1)
    return stride * np.sum((product / size) ** numbers * np.exp(scales + logarithm(numbers)), 0)


def _log_mixture(peak: Any, product: Any, logarithm: Any) -> Any:
    """Return the logarithm of such a sum, which may be too small for a float."""
    top = np.floor(peak)
    size = np.where(raw(product) > 0, raw(product), 1.0)
    greatest = raw(logarithm(top)) + top * np.log(size) - special.gammaln(top + 1)
    return np.log(_mixture(peak, product, lambda j: logarithm(j) - greatest)) + greatest


# The noncentral chi-square distribution: x / 2 has a gamma distribution of the shape df / 2 + j.


def _chi_density(x: Any, df: Any, nc: Any) -> Any:
    return where_finite(_finite_chi_density, (x, df, nc), 0, 0.0)


def _chi_terms(x: Any, df: Any, nc: Any) -> tuple[Any, Any, Any]:
    """Return what a mixture takes."""
    shape, product = df / 2, nc * x / 4
    rest = special.xlogy(shape - 1, x / 2) - (x + nc) / 2 - math.log(2)
    return chisquare_peak(shape, product), product, lambda j: rest - special.gammaln(shape + j)


def _finite_chi_density(x: Any, df: Any, nc: Any) -> Any:
    return _mixture(*_chi_terms(x, df, nc))


def chi_log_density(x: Any, df: Any, nc: Any) -> Any:
    """Return the logarithm of the density of the noncentral chi-square distribution, for finite arguments."""
    return _log_mixture(*_chi_terms(x, df, nc))


def _chi_quantile_by(parameter: str, x: Any, df: Any, nc: Any) -> Any:
    def finite(x: Any, df: Any, nc: Any) -> Any:
        return x * noncentral_chisquare_slope(parameter, df, nc, x)

    return where_finite(finite, (x, df, nc), 0, _LEAST)


def _chi_by(parameter: str, x: Any, df: Any, nc: Any) -> Any:
    def finite(x: Any, df: Any, nc: Any) -> Any:
        return -_finite_chi_density(x, df, nc) * x * noncentral_chisquare_slope(parameter, df, nc, x)

    return where_finite(finite, (x, df, nc), 0, _LEAST)


chndtr: Primitive = differentiable(
    special.chndtr,
    "x df nc",
    x=lambda g, x, df, nc: g * _chi_density(x, df, nc),
    df=lambda g, x, df, nc: g * _chi_by("df", x, df, nc),
    nc=lambda g, x, df, nc: g * _chi_by("nonc", x, df, nc),
)
chndtrix: Primitive = differentiable(
    special.chndtrix,
    "p df nc",
    p=lambda g, df, nc, out: g / _chi_density(out, df, nc),
    df=lambda g, df, nc, out: g * _chi_quantile_by("df", out, df, nc),
    nc=lambda g, df, nc, out: g * _chi_quantile_by("nonc", out, df, nc),
)
chndtridf: Primitive = searched(
    special.chndtridf,
    "x p nc",
    x=lambda g, x, nc, out: g / _chi_quantile_by("df", x, out, nc),
    p=lambda g, x, nc, out: g / _chi_by("df", x, out, nc),
    nc=lambda g, x, nc, out: -g * (_chi_quantile_by("nonc", x, out, nc) / _chi_quantile_by("df", x, out, nc)),
)
chndtrinc: Primitive = searched(
    special.chndtrinc,
    "x df p",
    x=lambda g, x, df, out: g / _chi_quantile_by("nonc", x, df, out),
    df=lambda g, x, df, out: -g * (_chi_quantile_by("df", x, df, out) / _chi_quantile_by("nonc", x, df, out)),
    p=lambda g, x, df, out: g / _chi_by("nonc", x, df, out),
)


# The noncentral F distribution: with odds of dfn * x / dfd, the share odds / (1 + odds) has a beta distribution.


def _f_density(dfn: Any, dfd: Any, nc: Any, x: Any) -> Any:
    return where_finite(_finite_f_density, (dfn, dfd, nc, x), 3, 0.0)


def _f_terms(dfn: Any, dfd: Any, nc: Any, x: Any) -> tuple[Any, Any, Any]:
    """Return what a mixture takes."""
    a, b, odds = dfn / 2, dfd / 2, dfn * x / dfd
    product = nc / 2 * (odds / (1 + odds))
    rest = log_odds_powers(a, b, odds) - nc / 2 + np.log(dfn / dfd)
    return f_peak(a, b, product), product, lambda j: rest - log_beta_.call(a + j, b)


def _finite_f_density(dfn: Any, dfd: Any, nc: Any, x: Any) -> Any:
    return _mixture(*_f_terms(dfn, dfd, nc, x))


def f_log_density(dfn: Any, dfd: Any, nc: Any, x: Any) -> Any:
    """Return the logarithm of the density of the noncentral F distribution, for finite arguments."""
    return _log_mixture(*_f_terms(dfn, dfd, nc, x))


def _f_quantile_by(parameter: str, dfn: Any, dfd: Any, nc: Any, x: Any) -> Any:
    def finite(dfn: Any, dfd: Any, nc: Any, x: Any) -> Any:
        return x * noncentral_f_slope(parameter, dfn, dfd, nc, x)

    return where_finite(finite, (dfn, dfd, nc, x), 3, _LEAST)


def _f_by(parameter: str, dfn: Any, dfd: Any, nc: Any, x: Any) -> Any:
    def finite(dfn: Any, dfd: Any, nc: Any, x: Any) -> Any:
        return -_finite_f_density(dfn, dfd, nc, x) * x * noncentral_f_slope(parameter, dfn, dfd, nc, x)

    return where_finite(finite, (dfn, dfd, nc, x), 3, _LEAST)


def _f_ratio(parameter: str, other: str, dfn: Any, dfd: Any, nc: Any, x: Any) -> Any:
    """Return the derivative of the `other` parameter by a parameter, where the quantile stays."""
    return -_f_quantile_by(parameter, dfn, dfd, nc, x) / _f_quantile_by(other, dfn, dfd, nc, x)


ncfdtr: Primitive = differentiable(
    special.ncfdtr,
    "dfn dfd nc f",
    dfn=lambda g, dfn, dfd, nc, f: g * _f_by("dfnum", dfn, dfd, nc, f),
    dfd=lambda g, dfn, dfd, nc, f: g * _f_by("dfden", dfn, dfd, nc, f),
    nc=lambda g, dfn, dfd, nc, f: g * _f_by("nonc", dfn, dfd, nc, f),
    f=lambda g, dfn, dfd, nc, f: g * _f_density(dfn, dfd, nc, f),
)
ncfdtri: Primitive = differentiable(
    special.ncfdtri,
    "dfn dfd nc p",
    dfn=lambda g, dfn, dfd, nc, out: g * _f_quantile_by("dfnum", dfn, dfd, nc, out),
    dfd=lambda g, dfn, dfd, nc, out: g * _f_quantile_by("dfden", dfn, dfd, nc, out),
    nc=lambda g, dfn, dfd, nc, out: g * _f_quantile_by("nonc", dfn, dfd, nc, out),
    p=lambda g, dfn, dfd, nc, out: g / _f_density(dfn, dfd, nc, out),
)
ncfdtridfd: Primitive = searched(
    special.ncfdtridfd,
    "dfn p nc f",
    dfn=lambda g, dfn, nc, f, out: g * _f_ratio("dfnum", "dfden", dfn, out, nc, f),
    p=lambda g, dfn, nc, f, out: g / _f_by("dfden", dfn, out, nc, f),
    nc=lambda g, dfn, nc, f, out: g * _f_ratio("nonc", "dfden", dfn, out, nc, f),
    f=lambda g, dfn, nc, f, out: g / _f_quantile_by("dfden", dfn, out, nc, f),
)
ncfdtridfn: Primitive = searched(
    special.ncfdtridfn,
    "p dfd nc f",
    p=lambda g, dfd, nc, f, out: g / _f_by("dfnum", out, dfd, nc, f),
    dfd=lambda g, dfd, nc, f, out: g * _f_ratio("dfden", "dfnum", out, dfd, nc, f),
    nc=lambda g, dfd, nc, f, out: g * _f_ratio("nonc", "dfnum", out, dfd, nc, f),
    f=lambda g, dfd, nc, f, out: g / _f_quantile_by("dfnum", out, dfd, nc, f),
)
ncfdtrinc: Primitive = searched(
    special.ncfdtrinc,
    "dfn dfd p f",
    dfn=lambda g, dfn, dfd, f, out: g * _f_ratio("dfnum", "nonc", dfn, dfd, out, f),
    dfd=lambda g, dfn, dfd, f, out: g * _f_ratio("dfden", "nonc", dfn, dfd, out, f),
    p=lambda g, dfn, dfd, f, out: g / _f_by("nonc", dfn, dfd, out, f),
    f=lambda g, dfn, dfd, f, out: g / _f_quantile_by("nonc", dfn, dfd, out, f),
)
