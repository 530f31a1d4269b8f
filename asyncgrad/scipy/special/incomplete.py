"""The incomplete gamma and beta functions, their inverses, and the distribution functions that are made of them.

How they depend on their shape parameters follows from how a quantile does: where F(x, a) is a distribution function
with density f, and x(a) a quantile of it, the derivative of F by a is -f(x) times that of x.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays.values import as_array, raw
from ...core.recording.primitive import Primitive
from ...numpy.random.shapes import beta_slope, f_slope, gamma_slope
from ..ufuncs import special
from .log_densities import beta_log_density_, f_log_density_, gamma_log_density_, student_log_density_
from .rules import compute_where, differentiable

__all__ = [
    "bdtr",
    "bdtrc",
    "bdtri",
    "beta_by_first",
    "beta_by_second",
    "beta_density",
    "betainc",
    "betaincc",
    "betainccinv",
    "betaincinv",
    "chdtr",
    "chdtrc",
    "chdtri",
    "f_density",
    "f_quantile_by_denominator",
    "f_quantile_by_numerator",
    "fdtr",
    "fdtrc",
    "fdtri",
    "gamma_by_shape",
    "gamma_density",
    "gammainc",
    "gammaincc",
    "gammainccinv",
    "gammaincinv",
    "gdtr",
    "gdtrc",
    "gdtria",
    "gdtrix",
    "nbdtr",
    "nbdtrc",
    "nbdtri",
    "pdtr",
    "pdtrc",
    "pdtri",
    "stdtr",
    "stdtrit",
    "t_density",
    "t_quantile_by_df",
]


def _inside(mask: Any, value: Any, otherwise: float) -> Any:
    """Return `value` where a mask holds, and elsewhere a number at which functions have derivatives."""
    return value if np.all(mask) else np.where(mask, value, otherwise)


def _where_finite(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return a function of finite arguments, and elsewhere 0: what it is the derivative of is constant there."""
    bare = [as_array(raw(one)) for one in arguments]
    if np.isfinite(sum(bare)).all():
        return function(*arguments)
    missing, inside = np.False_, np.True_
    for one in bare:
        missing, inside = missing | np.isnan(one), inside & np.isfinite(one)
    # All functions have derivatives where all arguments are 1 / 2.
    return compute_where(inside, function, *arguments, safe=0.5, outside=np.where(missing, np.nan, 0.0))


# The gamma distribution.


def gamma_density(a: Any, x: Any) -> Any:
    """Return the density of the gamma distribution with scale 1."""
    return _where_finite(_finite_gamma_density, a, x)


def _finite_gamma_density(a: Any, x: Any) -> Any:
    return np.exp(gamma_log_density_.call(a, x))


def gamma_by_shape(a: Any, x: Any) -> Any:
    """Return the derivative of gammainc by its shape; at both ends, where the function is constant, it is 0."""
    is_between = (raw(x) > 0) & (raw(x) < np.inf)
    inside = is_between & (raw(a) > 0) & (raw(a) < np.inf)
    safe_a, safe_x = _inside(inside, a, 1.0), _inside(inside, x, 1.0)
    slope = -gamma_density(safe_a, safe_x) * safe_x * gamma_slope(safe_a, safe_x)
    if np.all(inside):
        return slope
    # The limit for a shape of 0.
    at_start = is_between & (raw(a) == 0)
    return np.where(inside, slope, np.where(at_start, -special.exp1(np.where(at_start, x, 1.0)), 0.0))


def _gamma_quantile_by_shape(a: Any, x: Any) -> Any:
    inside = (raw(x) > 0) & (raw(x) < np.inf)
    a, safe = _inside(inside, a, 1.0), _inside(inside, x, 1.0)
    slope = safe * gamma_slope(a, safe)
    return slope if np.all(inside) else np.where(inside, slope, 0.0)


gammainc: Primitive = differentiable(
    special.gammainc,
    "a x",
    a=lambda g, a, x: g * gamma_by_shape(a, x),
    x=lambda g, a, x: g * gamma_density(a, x),
)
gammaincc: Primitive = differentiable(
    special.gammaincc,
    "a x",
    a=lambda g, a, x: -g * gamma_by_shape(a, x),
    x=lambda g, a, x: -g * gamma_density(a, x),
)
gammaincinv: Primitive = differentiable(
    special.gammaincinv,
    "a y",
    a=lambda g, a, out: g * _gamma_quantile_by_shape(a, out),
    y=lambda g, a, out: g / gamma_density(a, out),
)
gammainccinv: Primitive = differentiable(
    special.gammainccinv,
    "a y",
    a=lambda g, a, out: g * _gamma_quantile_by_shape(a, out),
    y=lambda g, a, out: -g / gamma_density(a, out),
)

# gdtr(a, b, x) is gammainc(b, a * x), chdtr(v, x) is gammainc(v / 2, x / 2), pdtr(k, m) is gammaincc(k + 1, m).


def _gamma_density_by_factor(b: Any, x: Any, factor: Any) -> Any:
    """Return the derivative of gammainc(b, x * factor) by x; where the factor is 0, the result does not depend on x."""

    def finite(b: Any, x: Any, factor: Any) -> Any:
        is_zero = raw(factor) == 0
        return compute_where(~is_zero, lambda b, x, factor: gamma_density(b, x * factor) * factor, b, x, factor)

    return _where_finite(finite, b, x, factor)


gdtr: Primitive = differentiable(
    special.gdtr,
    "a b x",
    a=lambda g, a, b, x: g * _gamma_density_by_factor(b, a, x),
    b=lambda g, a, b, x: g * gamma_by_shape(b, a * x),
    x=lambda g, a, b, x: g * _gamma_density_by_factor(b, x, a),
)
gdtrc: Primitive = differentiable(
    special.gdtrc,
    "a b x",
    a=lambda g, a, b, x: -g * _gamma_density_by_factor(b, a, x),
    b=lambda g, a, b, x: -g * gamma_by_shape(b, a * x),
    x=lambda g, a, b, x: -g * _gamma_density_by_factor(b, x, a),
)
# Their products a * x are quantiles.
gdtrix: Primitive = differentiable(
    special.gdtrix,
    "a b p",
    a=lambda g, a, out: -g * (out / a),
    b=lambda g, a, b, out: g * (_gamma_quantile_by_shape(b, a * out) / a),
    p=lambda g, a, b, out: g / (gamma_density(b, a * out) * a),
)
gdtria: Primitive = differentiable(
    special.gdtria,
    "p b x",
    p=lambda g, b, x, out: g / (gamma_density(b, out * x) * x),
    b=lambda g, b, x, out: g * (_gamma_quantile_by_shape(b, out * x) / x),
    x=lambda g, x, out: -g * (out / x),
)
chdtr: Primitive = differentiable(
    special.chdtr,
    "v x",
    v=lambda g, v, x: g * (gamma_by_shape(v / 2, x / 2) / 2),
    x=lambda g, v, x: g * (gamma_density(v / 2, x / 2) / 2),
)
chdtrc: Primitive = differentiable(
    special.chdtrc,
    "v x",
    v=lambda g, v, x: -g * (gamma_by_shape(v / 2, x / 2) / 2),
    x=lambda g, v, x: -g * (gamma_density(v / 2, x / 2) / 2),
)
chdtri: Primitive = differentiable(
    special.chdtri,
    "v p",
    v=lambda g, v, out: g * _gamma_quantile_by_shape(v / 2, out / 2),
    p=lambda g, v, out: -g / (gamma_density(v / 2, out / 2) / 2),
)
pdtr: Primitive = differentiable(
    special.pdtr,
    "k m",
    k=lambda g: None,
    m=lambda g, k, m: -g * gamma_density(np.floor(raw(k)) + 1, m),
)
pdtrc: Primitive = differentiable(
    special.pdtrc,
    "k m",
    k=lambda g: None,
    m=lambda g, k, m: g * gamma_density(np.floor(raw(k)) + 1, m),
)
pdtri: Primitive = differentiable(
    special.pdtri,
    "k y",
    k=lambda g: None,
    # SciPy's takes the whole part, where the others take the whole number below.
    y=lambda g, k, out: -g / gamma_density(np.trunc(raw(k)) + 1, out),
)


# The beta distribution.


def beta_density(a: Any, b: Any, x: Any) -> Any:
    """Return the density of the beta distribution."""
    return _where_finite(_finite_beta_density, a, b, x)


def _finite_beta_density(a: Any, b: Any, x: Any) -> Any:
    return np.exp(beta_log_density_.call(a, b, x))


def _beta_quantile_by_shapes(a: Any, b: Any, x: Any, of_second: bool) -> Any:
    """Return the derivative of a quantile by the first or second shape; at both ends, which do not move, it is 0."""
    inside = (raw(x) > 0) & (raw(x) < 1) & np.isfinite(raw(a) + raw(b))
    a, b, x = _inside(inside, a, 1.0), _inside(inside, b, 1.0), _inside(inside, x, 0.5)
    rest = 1 - x
    slope = -beta_slope(b, a, rest, x) if of_second else beta_slope(a, b, x, rest)
    slope = x * rest * slope
    return slope if np.all(inside) else np.where(inside, slope, 0.0)


def _beta_quantile_by_first(a: Any, b: Any, x: Any) -> Any:
    return _beta_quantile_by_shapes(a, b, x, of_second=False)


def _beta_quantile_by_second(a: Any, b: Any, x: Any) -> Any:
    return _beta_quantile_by_shapes(a, b, x, of_second=True)


def _beta_by_shapes(a: Any, b: Any, x: Any, of_second: bool) -> Any:
    """Return the derivative of betainc by its first or second shape."""
    shape, other = (b, a) if of_second else (a, b)
    at_start = (raw(shape) == 0) & (raw(other) > 0) & (raw(other) < np.inf) & (raw(x) > 0) & (raw(x) < 1)
    if np.any(at_start):
        # The limit, by the integral of a density without its constant.
        power, share = _inside(at_start, other, 1.0), _inside(at_start, x if of_second else 1 - x, 0.5)
        limit = share**power / power * special.hyp2f1(1.0, power, power + 1, share)
        a, b = (np.where(at_start, 1.0, one) for one in (a, b))
        return np.where(at_start, limit if of_second else -limit, _beta_by_shapes(a, b, x, of_second))
    inside = (raw(x) > 0) & (raw(x) < 1)
    density = beta_density(a, b, _inside(inside, x, 0.5))
    return -density * _beta_quantile_by_shapes(a, b, x, of_second)


def beta_by_first(a: Any, b: Any, x: Any) -> Any:
    """Return the derivative of betainc by its first shape."""
    return _beta_by_shapes(a, b, x, of_second=False)


def beta_by_second(a: Any, b: Any, x: Any) -> Any:
    """Return the derivative of betainc by its second shape."""
    return _beta_by_shapes(a, b, x, of_second=True)


betainc: Primitive = differentiable(
    special.betainc,
    "a b x",
    a=lambda g, a, b, x: g * beta_by_first(a, b, x),
    b=lambda g, a, b, x: g * beta_by_second(a, b, x),
    x=lambda g, a, b, x: g * beta_density(a, b, x),
)
betaincc: Primitive = differentiable(
    special.betaincc,
    "a b x",
    a=lambda g, a, b, x: -g * beta_by_first(a, b, x),
    b=lambda g, a, b, x: -g * beta_by_second(a, b, x),
    x=lambda g, a, b, x: -g * beta_density(a, b, x),
)
betaincinv: Primitive = differentiable(
    special.betaincinv,
    "a b y",
    a=lambda g, a, b, out: g * _beta_quantile_by_first(a, b, out),
    b=lambda g, a, b, out: g * _beta_quantile_by_second(a, b, out),
    y=lambda g, a, b, out: g / beta_density(a, b, out),
)
betainccinv: Primitive = differentiable(
    special.betainccinv,
    "a b y",
    a=lambda g, a, b, out: g * _beta_quantile_by_first(a, b, out),
    b=lambda g, a, b, out: g * _beta_quantile_by_second(a, b, out),
    y=lambda g, a, b, out: -g / beta_density(a, b, out),
)

# bdtr(k, n, p) is betainc(n - k, k + 1, 1 - p), nbdtr(k, n, p) is betainc(n, k + 1, p).


# SciPy's take the whole part of n, and nbdtr that of k, too.


def _binomial_density(k: Any, n: Any, p: Any) -> Any:
    k, n = np.floor(raw(k)), np.trunc(raw(n))
    # Below 0 and from n on the sum is constant.
    inside = (k >= 0) & (k < n)
    k, n, p = _inside(inside, k, 0.0), _inside(inside, n, 1.0), _inside(inside, p, 0.5)
    density = beta_density(n - k, k + 1, 1 - p)
    return density if np.all(inside) else np.where(inside, density, 0.0)


def _negative_binomial_density(k: Any, n: Any, p: Any) -> Any:
    return beta_density(np.trunc(raw(n)), np.trunc(raw(k)) + 1, p)


bdtr: Primitive = differentiable(
    special.bdtr,
    "k n p",
    k=lambda g: None,
    n=lambda g: None,
    p=lambda g, k, n, p: -g * _binomial_density(k, n, p),
)
bdtrc: Primitive = differentiable(
    special.bdtrc,
    "k n p",
    k=lambda g: None,
    n=lambda g: None,
    p=lambda g, k, n, p: g * _binomial_density(k, n, p),
)
bdtri: Primitive = differentiable(
    special.bdtri,
    "k n y",
    k=lambda g: None,
    n=lambda g: None,
    y=lambda g, k, n, out: -g / _binomial_density(k, n, out),
)
nbdtr: Primitive = differentiable(
    special.nbdtr,
    "k n p",
    k=lambda g: None,
    n=lambda g: None,
    p=lambda g, k, n, p: g * _negative_binomial_density(k, n, p),
)
nbdtrc: Primitive = differentiable(
    special.nbdtrc,
    "k n p",
    k=lambda g: None,
    n=lambda g: None,
    p=lambda g, k, n, p: -g * _negative_binomial_density(k, n, p),
)
nbdtri: Primitive = differentiable(
    special.nbdtri,
    "k n y",
    k=lambda g: None,
    n=lambda g: None,
    y=lambda g, k, n, out: g / _negative_binomial_density(k, n, out),
)


# Student's distribution and the F distribution.


def t_density(df: Any, t: Any) -> Any:
    """Return the density of Student's distribution; with infinite degrees of freedom it is the normal one."""
    is_normal, is_end = np.isinf(raw(df)), np.isinf(raw(t))
    if np.any(is_normal) or np.any(is_end):
        t = np.where(is_end, 0.0, t)
        normal = np.exp(-0.5 * t * t) / np.sqrt(2 * np.pi)
        return np.where(is_end, 0.0, np.where(is_normal, normal, t_density(np.where(is_normal, 1.0, df), t)))
    return np.exp(student_log_density_.call(df, t))


def t_quantile_by_df(df: Any, t: Any) -> Any:
    """Return the derivative of a quantile by the degrees of freedom: its square has the F distribution of 1 and df."""
    is_end = np.isinf(raw(t))
    if np.any(is_end):
        return np.where(is_end, t, t_quantile_by_df(df, np.where(is_end, 0.0, t)))
    # With many degrees of freedom the terms of the beta distribution cancel.
    is_normal = np.square(np.square(raw(t)) + 1) < 0.01 * raw(df)
    if np.all(is_normal):
        return _nearly_normal_quantile_by_df(df, t)
    safe_df, safe_t = _inside(~is_normal, df, 1.0), _inside(~is_normal, t, 1.0)
    # Next to the middle it is proportional to t: by a factor that depends on a square which must not be 0.
    is_middle = np.abs(raw(safe_t)) < 1e-8
    square = np.where(is_middle, 1e-16, safe_t * safe_t)
    slope = safe_t * f_quantile_by_denominator(1.0, safe_df, square) / (2 * square)
    if not np.any(is_normal):
        return slope
    normal_df, normal_t = np.where(is_normal, df, 1e4), np.where(is_normal, t, 0.0)
    return np.where(is_normal, _nearly_normal_quantile_by_df(normal_df, normal_t), slope)


def _nearly_normal_quantile_by_df(df: Any, t: Any) -> Any:
    """Return `t_quantile_by_df` by Fisher's expansion of Student's distribution about the normal one."""
    infinite = np.isinf(raw(df))
    df = np.where(infinite, 1e300, df) if np.any(infinite) else df
    s = t * t
    first = t * (s + 1) / 4
    second = t * (((3 * s - 7) * s - 5) * s - 3) / 96
    third = t * (((((s - 11) * s + 14) * s + 6) * s - 3) * s - 15) / 384
    by_df = (first + (2 * second + 3 * third / df) / df) / df / df
    # The quotient of both densities, which may underflow.
    logarithm = -0.5 * s - student_log_density_.call(df, t)
    return -by_df * np.exp(logarithm) / np.sqrt(2 * np.pi)


def f_quantile_by_denominator(dfn: Any, dfd: Any, x: Any) -> Any:
    """Return the derivative of a quantile of the F distribution by the degrees of freedom of the denominator."""
    return x * f_slope("dfden", dfn, dfd, x)


def f_quantile_by_numerator(dfn: Any, dfd: Any, x: Any) -> Any:
    """Return the derivative of a quantile of the F distribution by the degrees of freedom of the numerator."""
    return x * f_slope("dfnum", dfn, dfd, x)


def f_density(dfn: Any, dfd: Any, x: Any) -> Any:
    """Return the density of the F distribution."""
    return _where_finite(_finite_f_density, dfn, dfd, x)


def _finite_f_density(dfn: Any, dfd: Any, x: Any) -> Any:
    return np.exp(f_log_density_.call(dfn, dfd, x))


def _f_by(quantile_by: Callable[..., Any], dfn: Any, dfd: Any, x: Any) -> Any:
    """Return the derivative of fdtr by degrees of freedom; at both ends, where the function is constant, it is 0."""

    def finite(dfn: Any, dfd: Any, x: Any) -> Any:
        return -f_density(dfn, dfd, x) * quantile_by(dfn, dfd, x)

    inside = (raw(x) > 0) & np.isfinite(raw(dfn) + raw(dfd) + raw(x))
    return compute_where(inside, finite, dfn, dfd, x)


def _student_by_df(df: Any, t: Any) -> Any:
    """Return the derivative of stdtr by the degrees of freedom; 0 where the density has underflowed."""
    density = t_density(df, t)
    return -density * t_quantile_by_df(df, np.where(np.isinf(raw(t)) | (raw(density) == 0), 0.0, t))


stdtr: Primitive = differentiable(
    special.stdtr,
    "df t",
    df=lambda g, df, t: g * _student_by_df(df, t),
    t=lambda g, df, t: g * t_density(df, t),
)
stdtrit: Primitive = differentiable(
    special.stdtrit,
    "df p",
    df=lambda g, df, out: g * t_quantile_by_df(df, out),
    p=lambda g, df, out: g / t_density(df, out),
)
fdtr: Primitive = differentiable(
    special.fdtr,
    "dfn dfd x",
    dfn=lambda g, dfn, dfd, x: g * _f_by(f_quantile_by_numerator, dfn, dfd, x),
    dfd=lambda g, dfn, dfd, x: g * _f_by(f_quantile_by_denominator, dfn, dfd, x),
    x=lambda g, dfn, dfd, x: g * f_density(dfn, dfd, x),
)
fdtrc: Primitive = differentiable(
    special.fdtrc,
    "dfn dfd x",
    dfn=lambda g, dfn, dfd, x: -g * _f_by(f_quantile_by_numerator, dfn, dfd, x),
    dfd=lambda g, dfn, dfd, x: -g * _f_by(f_quantile_by_denominator, dfn, dfd, x),
    x=lambda g, dfn, dfd, x: -g * f_density(dfn, dfd, x),
)
fdtri: Primitive = differentiable(
    special.fdtri,
    "dfn dfd p",
    dfn=lambda g, dfn, dfd, out: g * f_quantile_by_numerator(dfn, dfd, out),
    dfd=lambda g, dfn, dfd, out: g * f_quantile_by_denominator(dfn, dfd, out),
    p=lambda g, dfn, dfd, out: g / f_density(dfn, dfd, out),
)
