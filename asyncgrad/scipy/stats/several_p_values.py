"""Several p-values: that of all of them together, and those that control the share of false discoveries."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.arrays.values import raw
from ...core.tensor import Tensor
from ..arguments import floating
from ..ufuncs import special
from .nan_policies import Axis, along_last_axis, by_nan_policy
from .results import SignificanceResult

__all__ = ["combine_pvalues", "false_discovery_control"]


def _fisher(p: Any, weights: Any) -> tuple[Any, Any]:
    statistic = -2 * np.sum(np.log(p), -1)
    return statistic, special.chdtrc(2.0 * p.shape[-1], statistic)


def _pearson(p: Any, weights: Any) -> tuple[Any, Any]:
    statistic = 2 * np.sum(np.log1p(-p), -1)
    return statistic, special.chdtr(2.0 * p.shape[-1], -statistic)


def _mudholkar_george(p: Any, weights: Any) -> tuple[Any, Any]:
    count = p.shape[-1]
    statistic = np.sum(np.log1p(-p) - np.log(p), -1)
    freedom = 5.0 * count + 4.0
    scale = math.sqrt(3 / count) / math.pi * math.sqrt(freedom / (freedom - 2))
    return statistic, special.stdtr(freedom, -statistic * scale)


def _tippett(p: Any, weights: Any) -> tuple[Any, Any]:
    statistic = np.min(p, -1)
    return statistic, -np.expm1(p.shape[-1] * np.log1p(-statistic))


def _stouffer(p: Any, weights: Any) -> tuple[Any, Any]:
    weights = np.ones_like(p) if weights is None else weights
    statistic = -np.sum(weights * special.ndtri(p), -1) / np.sqrt(np.sum(weights * weights, -1))
    return statistic, special.ndtr(-statistic)


_METHODS = {
    "fisher": _fisher,
    "pearson": _pearson,
    "mudholkar_george": _mudholkar_george,
    "tippett": _tippett,
    "stouffer": _stouffer,
}


@by_nan_policy("pvalues", "weights")
@along_last_axis("pvalues", "weights")
def combine_pvalues(
    pvalues: Any,
    method: str = "fisher",
    weights: Any = None,
    *,
    axis: Axis = 0,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> SignificanceResult:
    """Return the p-value of independent tests of one hypothesis together, as `scipy.stats.combine_pvalues`.

    Args:
        pvalues: theirs.
        method: "fisher", "pearson", "mudholkar_george", "tippett" or "stouffer".
        weights: of the tests, for Stouffer's method; None for equal ones.
        axis: along which, or None for all.
        nan_policy: "propagate", "omit" or "raise".
        keepdims: whether the axis remains, with length 1.

    Raises:
        ValueError: no method has this name.

    Example:
        >>> from asyncgrad.scipy import stats
        >>> round(stats.combine_pvalues([0.05, 0.1]).pvalue.item(), 4)
        0.0315
    """
    if method not in _METHODS:
        raise ValueError(f"scipy.stats.combine_pvalues takes method {', '.join(_METHODS)}, not {method!r}")
    if not pvalues.shape[-1]:
        nothing = np.sum(pvalues, -1) * np.nan
        return SignificanceResult(nothing, nothing)
    return SignificanceResult(*_METHODS[method](pvalues, weights))


def false_discovery_control(ps: Any, *, axis: int | None = 0, method: str = "bh") -> Tensor:
    """Return p-values that control the share of false discoveries, as `scipy.stats.false_discovery_control`.

    Args:
        ps: the p-values.
        axis: along which, or None for all.
        method: "bh" for tests that are independent, after Benjamini and Hochberg, or "by" for any.

    Raises:
        ValueError: a number is no probability, or no method has this name.
    """
    ps = floating(ps)
    if not np.all((raw(ps) >= 0) & (raw(ps) <= 1)):
        raise ValueError(f"scipy.stats.false_discovery_control takes ps from 0 to 1, not {ps}")
    if method.lower() not in ("bh", "by"):
        raise ValueError(f"scipy.stats.false_discovery_control takes method 'bh' or 'by', not {method!r}")
    if axis is None:
        ps, axis = ps.reshape((-1,)), 0
    lines = np.moveaxis(np.atleast_1d(ps), axis, -1)
    count = lines.shape[-1]
    # From the greatest on, of whose ranks the factors are the inverses.
    order = np.argsort(-raw(lines), -1, kind="stable")
    ranks = np.arange(count, 0, -1)
    factors = count / ranks * (np.sum(1 / ranks) if method.lower() == "by" else 1.0)
    least = np.minimum.accumulate(np.take_along_axis(lines, order, -1) * factors.astype(lines.dtype), -1)
    adjusted = np.take_along_axis(np.minimum(least, 1.0), np.argsort(order, -1), -1)
    return np.moveaxis(adjusted, -1, axis).reshape(ps.shape)
