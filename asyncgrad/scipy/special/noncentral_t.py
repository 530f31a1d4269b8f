"""The noncentral t distribution function and its inverses.

t is (z + nc) / s, for a normal z and for df * s**2 with the chi-square distribution. So F is the expectation of the
normal distribution function's Phi(t * s - nc).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.arrays.values import raw
from ...core.recording.primitive import Primitive
from ...numpy.random.shapes import gamma_slope
from ..ufuncs import special
from .noncentral import where_finite
from .rules import compute_where, differentiable
from .searches import searched
from .stirling import log_height, log_less_digamma
from .trapezoid import trapezoid_nodes

__all__ = ["nctdtr", "nctdtridf", "nctdtrinc", "nctdtrit", "t_log_density"]


def _t_nodes(df: Any, nc: Any, t: Any) -> tuple[Any, Any]:
    """Return logarithms of s, and those of the steps between two."""
    # In units of the root of df + t * t, which the square of a great t would overflow.
    unit = np.hypot(np.sqrt(df), t)
    slope = nc * (t / unit)
    root = np.hypot(slope, 2 * np.sqrt(df))
    place = np.where(slope > 0, (root + slope) / 2, 2 * df / (root + np.abs(slope)))
    peak = np.log(place / unit)

    def logarithm(u: Any) -> Any:
        # A small df has the integrand fall slowly: down to 0 steps grow as exponentials do.
        return peak + u - np.expm1(-u)

    def height(u: Any) -> Any:
        s = np.exp(logarithm(u))
        return df * logarithm(u) - (df * s * s + (t * s - nc) ** 2) / 2 + np.logaddexp(0.0, -u)

    nodes, step = trapezoid_nodes(height, np.zeros_like(peak), 4 * (2 * place - slope) * place, 0.07)
    with np.errstate(over="ignore"):
        return logarithm(nodes), np.log(step) + np.logaddexp(0.0, -nodes)


def _t_terms(df: Any, nc: Any, t: Any) -> tuple[Any, Any]:
    """Return the nodes of s, and the logarithms of the terms that are to be summed."""
    logarithms, steps = _t_nodes(*(np.asarray(raw(one), float) for one in (df, nc, t)))
    s = np.exp(logarithms)
    shape = df / 2
    logarithm = log_height(shape) - shape * _exponential_rest(2 * logarithms) - np.square(t * s - nc) / 2
    return s, logarithm + steps + math.log(2 / math.sqrt(2 * math.pi))


def t_log_density(df: Any, nc: Any, t: Any) -> Any:
    """Return the logarithm of the density of the noncentral t distribution, for finite arguments; nan for others."""
    inside = np.isfinite(raw(df) + raw(nc) + raw(t)) & (raw(df) > 0)
    return compute_where(inside, _finite_t_log_density, df, nc, t, outside=np.nan)


def _finite_t_log_density(df: Any, nc: Any, t: Any) -> Any:
    df, nc, t = np.broadcast_arrays(df, nc, t)
    s, logarithm = _t_terms(df, nc, t)
    greatest = np.max(raw(logarithm), 0)
    return np.log(np.sum(np.exp(logarithm - greatest) * s, 0)) + greatest


def _by_nc(df: Any, nc: Any, t: Any) -> Any:
    return -np.sum(np.exp(_t_terms(*np.broadcast_arrays(df, nc, t))[1]), 0)


def _density(df: Any, nc: Any, t: Any) -> Any:
    s, logarithm = _t_terms(*np.broadcast_arrays(df, nc, t))
    return np.sum(np.exp(logarithm) * s, 0)


#: Up to this noncentrality, of the sign of t, the derivative by df is the integral of the score.
_NARROW = 30.0


def _by_df(df: Any, nc: Any, t: Any) -> Any:
    df, nc, t = np.broadcast_arrays(df, nc, t)
    is_narrow = np.where(raw(t) < 0, -raw(nc), raw(nc)) > _NARROW
    if not np.any(is_narrow):
        return _by_df_of_score(df, nc, t)
    narrow = compute_where(is_narrow, _by_df_by_parts, df, nc, t, safe=2 * _NARROW)
    return np.where(is_narrow, narrow, compute_where(~is_narrow, _by_df_of_score, df, nc, t))


def _by_df_by_parts(df: Any, nc: Any, t: Any) -> Any:
    """Return the derivative where the normal distribution is narrow beside that of s, whose quantiles move with df."""
    s, logarithm = _t_terms(df, nc, t)
    moves = gamma_slope(*np.broadcast_arrays(df / 2, df * (s * s / 2))) / 4 - 1 / (2 * df)
    return t * np.sum(np.exp(logarithm) * s * moves, 0)


#: The most elements of one block of nodes.
_BLOCK = 1 << 16


def _by_df_of_score(df: Any, nc: Any, t: Any) -> Any:
    """Return the integral over log(s) of its density, times the score, times Phi(t * s - nc) less a constant.

    The integral of density and score alone is 0. So the constant is Phi's value at the middle, s = 1, or where the
    density falls slowly down to 0, that at 0.
    """
    shape, in_middle = df / 2, raw(df) >= 1
    first, step, count = _score_nodes(*(np.asarray(raw(one), float) for one in (shape, nc, t)))
    constant = np.where(in_middle, 1.0, 0.0)
    beginning, total = t * constant - nc, 0.0
    height, offset = log_height(shape), log_less_digamma(shape)
    size = max(1, _BLOCK // max(1, np.size(step)))
    for start in range(0, int(np.max(count, initial=1.0)), size):
        numbers = np.arange(start, start + size).reshape(-1, *[1] * np.ndim(step))
        logarithms = first + step * np.minimum(numbers, count)
        bend = _exponential_rest(2 * logarithms)
        ways = np.where(in_middle, np.expm1(logarithms), np.exp(logarithms))
        weights = np.where(numbers < count, 2 * step, 0.0) * np.exp(height - shape * bend)
        total = total + np.sum(weights * (offset - bend) * _normal_rise(beginning, t * ways), 0)
    return total / 2


def _score_nodes(shape: Any, nc: Any, t: Any) -> tuple[Any, Any, Any]:
    """Return the first logarithm of s, the step between two, and how many there are.

    The nodes reach from where the integrand has fallen to exp(-38) of its peak, which lies between s = 1 and where
    t * s is about nc, to where it has again.
    """
    nc, size = np.where(t < 0, -nc, nc), np.maximum(np.abs(t), 1e-300)
    with np.errstate(over="ignore"):
        crossing = np.log(np.maximum(nc, 1.0) / size)
        fall = np.minimum(np.square(size - nc) / 2, shape * _exponential_rest(2 * np.minimum(crossing, 300.0)))
        drop = 38 + np.minimum(fall, 700.0)
        share = np.minimum(drop / shape, 1e300)
    root = np.sqrt(2 * share)
    slow = np.minimum(crossing, 0.0) - (drop + shape) / (1 + 2 * shape)
    first = np.where(shape >= 0.5, -np.minimum(root + share, 1 + share) / 2, slow)
    step = np.minimum(0.12, 0.6 / np.sqrt(8 * shape + np.square(np.maximum(nc, 0.0))))
    return first, step, np.ceil((np.log1p(share + root) / 2 - first) / step) + 1


def _exponential_rest(x: Any) -> Any:
    """Return exp(x) - 1 - x, of an array without history, with all digits next to 0."""
    is_small = np.abs(x) < 0.25
    small = x[is_small] if np.ndim(x) else x
    series = np.zeros_like(small)
    for power in range(12, 1, -1):
        series *= small
        series += 1 / math.factorial(power)
    rest = np.asarray(np.expm1(x) - x)
    rest[is_small] = series * small * small
    return rest


def _normal_rise(start: Any, way: Any) -> Any:
    """Return Phi(start + way) - Phi(start), with all digits of a small way, and of both tails."""
    end = start + way
    is_high = raw(start) + raw(end) > 0
    lows, highs = special.ndtr(start), special.ndtr(-start)
    is_small = np.abs(raw(way)) < 0.01
    far = special.ndtr(np.where(is_high, -end, end))
    far = np.where(is_high, highs - far, far - lows)
    if not np.any(is_small):
        return far
    middle, small = np.where(is_small, start + way / 2, 0.0), np.where(is_small, way, 0.0)
    square, length = middle * middle, small * small
    series = 1 + length * (square - 1) / 24 + length * length * (square * square - 6 * square + 3) / 1920
    return np.where(is_small, np.exp(-square / 2) / math.sqrt(2 * math.pi) * small * series, far)


_FORMULAS = {"df": _by_df, "nc": _by_nc, "t": _density}


def _t_by(df: Any, nc: Any, t: Any, parameter: str) -> Any:
    """Return the derivative of the noncentral t distribution by `df`, `nc` or `t`."""

    def proper(df: Any, nc: Any, t: Any) -> Any:
        return where_finite(_FORMULAS[parameter], (df, nc, t), 2, -np.inf)

    return compute_where(raw(df) > 0, proper, df, nc, t, outside=np.nan)


def _t_ratio(parameter: str, other: str, df: Any, nc: Any, t: Any) -> Any:
    """Return the derivative of the `other` argument by an argument, where the distribution function stays."""
    return -_t_by(df, nc, t, parameter) / _t_by(df, nc, t, other)


nctdtr: Primitive = differentiable(
    special.nctdtr,
    "df nc t",
    df=lambda g, df, nc, t: g * _t_by(df, nc, t, "df"),
    nc=lambda g, df, nc, t: g * _t_by(df, nc, t, "nc"),
    t=lambda g, df, nc, t: g * _t_by(df, nc, t, "t"),
)
nctdtrit: Primitive = differentiable(
    special.nctdtrit,
    "df nc p",
    df=lambda g, df, nc, out: g * _t_ratio("df", "t", df, nc, out),
    nc=lambda g, df, nc, out: g * _t_ratio("nc", "t", df, nc, out),
    p=lambda g, df, nc, out: g / _t_by(df, nc, out, "t"),
)
nctdtridf: Primitive = searched(
    special.nctdtridf,
    "p nc t",
    p=lambda g, nc, t, out: g / _t_by(out, nc, t, "df"),
    nc=lambda g, nc, t, out: g * _t_ratio("nc", "df", out, nc, t),
    t=lambda g, nc, t, out: g * _t_ratio("t", "df", out, nc, t),
)
nctdtrinc: Primitive = searched(
    special.nctdtrinc,
    "df p t",
    df=lambda g, df, t, out: g * _t_ratio("df", "nc", df, out, t),
    p=lambda g, df, t, out: g / _t_by(df, out, t, "nc"),
    t=lambda g, df, t, out: g * _t_ratio("t", "nc", df, out, t),
)
