"""Tests of whether samples have one variance, Bartlett's and Levene's; beside those by ranks they have derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.arrays.values import raw
from ..ufuncs import special
from .comparisons import f_oneway
from .groups import group, lines_of, with_axes
from .log_tails import log_or
from .nan_policies import Axis
from .results import SignificanceResult
from .summaries import trim_mean

__all__ = ["bartlett", "levene"]


def bartlett(
    *samples: Any, axis: Axis = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> SignificanceResult:
    """Return Bartlett's test of whether normal samples have one variance, as `scipy.stats.bartlett`.

    Args:
        *samples: two samples or more.
        axis: along which, or None for all.
        nan_policy: "propagate", "omit" or "raise".
        keepdims: whether the axis remains, with length 1.

    Raises:
        TypeError: there are fewer than two samples.

    Example:
        >>> from asyncgrad.scipy import stats
        >>> round(stats.bartlett([1.0, 2.0, 3.0], [1.0, 3.0, 8.0]).statistic.item(), 4)
        2.123
    """
    lines, axes = lines_of("bartlett", samples, axis, nan_policy)
    if any(not one.shape[-1] for one in lines):
        nothing = sum(np.sum(one, -1) for one in lines) * np.nan
        return SignificanceResult(*with_axes((nothing, nothing), axes, keepdims))
    groups = [group(one, nan_policy == "omit") for one in lines]
    # A single number has no variance.
    freedoms = [np.where(one.size > 1, one.size - 1, np.nan) for one in groups]
    whole = sum(freedoms)
    pooled = sum(one.squares for one in groups) / whole
    parts = sum(freedom * _logarithm(one.squares / freedom) for freedom, one in zip(freedoms, groups, strict=True))
    divisor = 1 + (sum(1 / freedom for freedom in freedoms) - 1 / whole) / (3 * (len(groups) - 1))
    with np.errstate(invalid="ignore"):
        # Of samples that are all flat it is a difference of infinities.
        statistic = np.maximum((whole * _logarithm(pooled) - parts) / divisor, 0.0)
    return SignificanceResult(*with_axes((statistic, special.chdtrc(len(groups) - 1.0, statistic)), axes, keepdims))


def _logarithm(variance: Any) -> Any:
    """Return the logarithm of a variance, which may be 0."""
    return log_or(-np.inf, raw(variance) == 0, variance)


def levene(
    *samples: Any,
    center: str = "median",
    proportiontocut: float = 0.05,
    axis: Axis = 0,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> SignificanceResult:
    """Return Levene's test of whether samples have one variance, as `scipy.stats.levene`.

    It is the analysis of variance of their distances from their centers.

    Args:
        *samples: two samples or more.
        center: "median", "mean" or "trimmed".
        proportiontocut: the share that is left out at each end for a trimmed mean.
        axis: along which, or None for all.
        nan_policy: "propagate", "omit" or "raise".
        keepdims: whether the axis remains, with length 1.

    Raises:
        TypeError: there are fewer than two samples.
        ValueError: no center has this name.
    """
    if center not in ("median", "mean", "trimmed"):
        raise ValueError(f"scipy.stats.levene takes center 'median', 'mean' or 'trimmed', not {center!r}")
    lines, axes = lines_of("levene", samples, axis, nan_policy)
    if any(not one.shape[-1] for one in lines):
        # An empty sample has no center, and no analysis of variance.
        return SignificanceResult(*with_axes(f_oneway(*lines, axis=-1), axes, keepdims))
    away = [np.abs(one - _center(one, center, proportiontocut, nan_policy)) for one in lines]
    found = f_oneway(*away, axis=-1, nan_policy=nan_policy)
    return SignificanceResult(*with_axes(found, axes, keepdims))


def _center(sample: Any, center: str, proportiontocut: float, nan_policy: str) -> Any:
    if center == "trimmed":
        return trim_mean(sample, proportiontocut, -1, nan_policy=nan_policy, keepdims=True)
    is_omitting = nan_policy == "omit"
    if is_omitting:
        # A line of nothing but nan has no center, and is left out afterwards: 0 is one of which NumPy says nothing.
        sample = np.where(np.all(np.isnan(raw(sample)), -1, keepdims=True), 0.0, sample)
    if center == "mean":
        return (np.nanmean if is_omitting else np.mean)(sample, -1, keepdims=True)
    return (np.nanmedian if is_omitting else np.median)(sample, -1, keepdims=True)
