"""Lines through points whose slopes are medians of those through two points."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import stats as scipy_stats

from ...core.arrays.values import raw
from ...core.tensor import Tensor
from .nan_policies import Axis, along_last_axis, by_nan_policy

__all__ = ["siegelslopes", "theilslopes"]


class TheilslopesResult(NamedTuple):
    """The result of `theilslopes`.

    Attributes:
        slope: the median of the slopes.
        intercept: where the line crosses 0.
        low_slope: the lower end of the confidence interval of the slope.
        high_slope: the upper end.
    """

    slope: Tensor
    intercept: Tensor
    low_slope: Tensor
    high_slope: Tensor


class SiegelslopesResult(NamedTuple):
    """The result of `siegelslopes`.

    Attributes:
        slope: the median of medians of slopes.
        intercept: where the line crosses 0.
    """

    slope: Tensor
    intercept: Tensor


def _check(function: str, method: str, known: tuple[str, str]) -> None:
    if method not in known:
        raise ValueError(f"scipy.stats.{function} takes method {known[0]!r} or {known[1]!r}, not {method!r}")


def _of_lines(y: Any, x: Any, of_line: Callable[[Any, Any], list[Any]], count: int) -> Iterator[Any]:
    """Yield the `count` results of a function of one line, of several lines in double precision, as SciPy's."""
    y, x = (None if one is None else one.astype(float, copy=False) for one in (y, x))
    x = np.broadcast_to(np.arange(y.shape[-1], dtype=y.dtype), y.shape) if x is None else x
    found = [of_line(y[index], x[index]) for index in np.ndindex(y.shape[:-1])]
    for column in zip(*found, strict=True) if found else [()] * count:
        # There may be no line.
        yield (np.stack(column) if column else np.sum(y, -1)).reshape(y.shape[:-1])


def _theil(y: Any, x: Any, alpha: float, method: str) -> list[Any]:
    """Return the results of one line."""
    first, second = np.nonzero(np.subtract.outer(raw(x), raw(x)) > 0)
    if not first.size or np.isnan(raw(x)).any() or np.isnan(raw(y)).any():
        return [np.sum(x + y) * np.nan] * 4
    slopes = np.sort((y[first] - y[second]) / (x[first] - x[second]))
    slope = np.median(slopes)
    intercept = np.median(y - slope * x) if method == "joint" else np.median(y) - slope * np.median(x)
    # Where in their order the ends are depends on which numbers are equal alone: SciPy finds them among places.
    count, repeats = len(raw(y)), [np.unique(raw(one), return_counts=True)[1] for one in (x, y)]
    ties = sum(np.sum(one * (one - 1) * (2 * one + 5)) for one in repeats)
    width = (count * (count - 1) * (2 * count + 5) - ties) / 18
    if not width >= 0:
        return [slope, intercept, slope * np.nan, slope * np.nan]
    reach = scipy_stats.norm.ppf(min(alpha, 1 - alpha) / 2) * np.sqrt(width)
    high = min(round((first.size - reach) / 2), first.size - 1)
    low = max(round((first.size + reach) / 2) - 1, 0)
    return [slope, intercept, slopes[low], slopes[high]]


@by_nan_policy("y", "x", fewest=2)
@along_last_axis("y", "x")
def theilslopes(
    y: Any,
    x: Any = None,
    alpha: float = 0.95,
    method: str = "separate",
    *,
    axis: Axis = None,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> TheilslopesResult:
    """Return Theil and Sen's line through points, whose slope is the median of all, as `scipy.stats.theilslopes`.

    Args:
        y: the values of the points.
        x: where they are; None for 0, 1, 2 and so on.
        alpha: the confidence level of the interval of the slope.
        method: of the intercept: "separate", by the medians of `x` and `y`, or "joint", by that of y - slope * x.
        axis: along which, or None for all.
        nan_policy: "propagate", "omit" or "raise"; a point with nan is left out.
        keepdims: whether the axis remains, with length 1.

    Raises:
        ValueError: there is no such method.

    Example:
        >>> from asyncgrad.scipy import stats
        >>> stats.theilslopes([1.0, 3.0, 5.0, 7.0, 50.0]).slope.item()
        2.0
    """
    _check("theilslopes", method, ("joint", "separate"))
    return TheilslopesResult(*_of_lines(y, x, lambda one, at: _theil(one, at, alpha, method), 4))


def _median_of_medians(values: Any, counts: Any) -> Any:
    """Return the median of the medians of rows, of each of which only elements that a mask names count, if any does.

    Differences of infinities, which are nan, count for nothing.
    """
    counts = counts & ~np.isnan(raw(values))
    rows = np.flatnonzero(counts.any(1))
    size = counts[rows].sum(1)
    ordered = np.sort(np.where(counts, values, np.inf)[rows], 1)
    places = np.arange(len(rows))
    medians = (ordered[places, (size - 1) // 2] + ordered[places, size // 2]) / 2
    is_unknown = np.isnan(raw(medians))
    if is_unknown.all():
        return np.sum(values) * np.nan
    return np.median(medians[~is_unknown] if is_unknown.any() else medians)


def _siegel(y: Any, x: Any, method: str) -> list[Any]:
    """Return the results of one line."""
    counts = np.not_equal.outer(raw(x), raw(x))
    if not counts.any() or np.isnan(raw(x)).any() or np.isnan(raw(y)).any():
        return [np.sum(y) * np.nan] * 2
    here_x, here_y = x[:, np.newaxis], y[:, np.newaxis]
    away = np.where(counts, x - here_x, 1.0)
    with np.errstate(invalid="ignore"):
        slope = _median_of_medians((y - here_y) / away, counts)
        if method == "hierarchical":
            return [slope, np.median(y - slope * x)]
        return [slope, _median_of_medians((here_y * x - y * here_x) / away, counts)]


@by_nan_policy("y", "x", fewest=2)
@along_last_axis("y", "x")
def siegelslopes(
    y: Any,
    x: Any = None,
    method: str = "hierarchical",
    *,
    axis: Axis = None,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> SiegelslopesResult:
    """Return Siegel's line through points, by the median of medians of slopes, as `scipy.stats.siegelslopes`.

    Args:
        y: the values of the points.
        x: where they are; None for 0, 1, 2 and so on.
        method: of the intercept: "hierarchical", the median of y - slope * x, or "separate", that of medians.
        axis: along which, or None for all.
        nan_policy: "propagate", "omit" or "raise"; a point with nan is left out.
        keepdims: whether the axis remains, with length 1.

    Raises:
        ValueError: there is no such method.

    Example:
        >>> from asyncgrad.scipy import stats
        >>> stats.siegelslopes([1.0, 3.0, 5.0, 20.0]).slope.item()
        2.0
    """
    _check("siegelslopes", method, ("hierarchical", "separate"))
    return SiegelslopesResult(*_of_lines(y, x, lambda one, at: _siegel(one, at, method), 2))
