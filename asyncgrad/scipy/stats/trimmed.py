"""Means and spreads of those data that lie within limits, and data without their ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from ...core.arrays.values import raw
from ...core.ops.single_precision import in_single
from ...core.tensor import Tensor, asarray
from ..roots import root_of_squares
from .nan_policies import Axis, along_last_axis, by_nan_policy

__all__ = ["tmax", "tmean", "tmin", "trim1", "trimboth", "tsem", "tstd", "tvar"]

_Limits = Sequence[float | None] | None


def _is_beyond(bare: np.ndarray, limits: _Limits, inclusive: Sequence[bool]) -> np.ndarray:
    """Return which numbers lie beyond limits; nan does not."""
    beyond = np.zeros_like(bare, bool)
    low, high = (None, None) if limits is None else limits
    if low is not None:
        beyond = (bare < low) if inclusive[0] else (bare <= low)
    if high is not None:
        beyond = beyond | ((bare > high) if inclusive[1] else (bare >= high))
    return beyond


def _limited(function: str, a: Any, limits: _Limits, inclusive: Sequence[bool], otherwise: float) -> tuple[Any, Any]:
    """Return data with another number for those beyond limits, and how many of each line are not, or nan for none."""
    beyond = _is_beyond(raw(a), limits, inclusive)
    if beyond.size and np.all(beyond):
        raise ValueError(f"scipy.stats.{function} takes limits that a number of the data lies within, not {limits}")
    count = np.sum(~beyond, -1, dtype=a.dtype)
    inside = np.where(beyond, otherwise, a) if np.any(beyond) else a
    return inside, np.where(count > 0, count, np.nan)


def _variance(function: str, a: Any, limits: _Limits, inclusive: Sequence[bool], ddof: float) -> tuple[Any, Any]:
    """Return the variance of what lies within limits along the last axis, and how many there are."""
    inside, count = _limited(function, a, limits, inclusive, 0.0)
    mean = np.sum(inside, -1) / count
    away = inside - mean[..., np.newaxis]
    beyond = _is_beyond(raw(a), limits, inclusive)
    away = np.where(beyond, 0.0, away) if np.any(beyond) else away
    freedom = np.where(count > ddof, count - ddof, np.nan)
    return np.sum(away * away, -1) / freedom, count


@by_nan_policy("a")
@in_single
@along_last_axis("a")
def tmean(
    a: Any,
    limits: _Limits = None,
    inclusive: Sequence[bool] = (True, True),
    axis: Axis = None,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Tensor:
    """Return the mean of what lies within limits, as `scipy.stats.tmean`.

    Args:
        a: the data.
        limits: the least and the greatest number that count, either of them None for no limit.
        inclusive: whether each limit itself counts.
        axis: along which, or None for all.
        nan_policy: "propagate", "omit" or "raise".
        keepdims: whether the axis remains, with length 1.

    Raises:
        ValueError: no number lies within the limits.

    Example:
        >>> from asyncgrad.scipy import stats
        >>> stats.tmean([1.0, 2.0, 6.0], (None, 5.0)).item()
        1.5
    """
    inside, count = _limited("tmean", a, limits, inclusive, 0.0)
    return np.sum(inside, -1) / count


@by_nan_policy("a")
@in_single
@along_last_axis("a")
def tvar(
    a: Any,
    limits: _Limits = None,
    inclusive: Sequence[bool] = (True, True),
    axis: Axis = 0,
    ddof: float = 1,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Tensor:
    """Return the variance of what lies within limits, as `scipy.stats.tvar`; arguments as for `tmean`, `numpy.var`."""
    return _variance("tvar", a, limits, inclusive, ddof)[0]


@by_nan_policy("a")
@in_single
@along_last_axis("a")
def tstd(
    a: Any,
    limits: _Limits = None,
    inclusive: Sequence[bool] = (True, True),
    axis: Axis = 0,
    ddof: float = 1,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Tensor:
    """Return the square root of `tvar`, as `scipy.stats.tstd`; its gradient is 0 where it is 0."""
    return root_of_squares(_variance("tstd", a, limits, inclusive, ddof)[0])


@by_nan_policy("a")
@in_single
@along_last_axis("a")
def tsem(
    a: Any,
    limits: _Limits = None,
    inclusive: Sequence[bool] = (True, True),
    axis: Axis = 0,
    ddof: float = 1,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Tensor:
    """Return the standard error of `tmean`, as `scipy.stats.tsem`; arguments as for `tvar`."""
    variance, count = _variance("tsem", a, limits, inclusive, ddof)
    return root_of_squares(variance) / np.sqrt(count)


@by_nan_policy("a")
@in_single
@along_last_axis("a")
def _extreme(
    a: Any,
    function: str,
    best: Callable[..., Any],
    worst: float,
    limits: _Limits,
    inclusive: Sequence[bool],
    axis: Axis,
    nan_policy: str,
    keepdims: bool,
) -> Tensor:
    """Return the best of what lies within limits; `worst` is what no number is beyond."""
    inside, count = _limited(function, a, limits, inclusive, worst)
    found: Any = best(inside, -1, initial=worst)
    return np.where(np.isnan(count), np.nan, found) if np.any(np.isnan(count)) else found


def _as_given(found: Tensor, a: Any) -> Tensor:
    """Return an element of data in their dtype, where that has it."""
    dtype = asarray(a).dtype
    return found if dtype.kind not in "biu" or np.any(np.isnan(raw(found))) else found.astype(dtype)


def tmin(
    a: Any,
    lowerlimit: float | None = None,
    axis: Axis = 0,
    inclusive: bool = True,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Tensor:
    """Return the least number that is not below a limit, as `scipy.stats.tmin`; nan where there is none.

    Args:
        a: the data.
        lowerlimit: the limit, or None.
        axis: along which, or None for all.
        inclusive: whether the limit itself counts.
        nan_policy: "propagate", "omit" or "raise".
        keepdims: whether the axis remains, with length 1.

    Raises:
        ValueError: no number lies within the limit.
    """
    limits, inclusives = (lowerlimit, None), (inclusive, True)
    return _as_given(_extreme(a, "tmin", np.min, np.inf, limits, inclusives, axis, nan_policy, keepdims), a)


def tmax(
    a: Any,
    upperlimit: float | None = None,
    axis: Axis = 0,
    inclusive: bool = True,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Tensor:
    """Return the greatest number that is not above a limit, as `scipy.stats.tmax`; arguments as for `tmin`."""
    limits, inclusives = (None, upperlimit), (True, inclusive)
    return _as_given(_extreme(a, "tmax", np.max, -np.inf, limits, inclusives, axis, nan_policy, keepdims), a)


def _without_ends(function: str, a: Any, axis: int | None, low: float, high: float) -> Tensor:
    """Return data without shares of the least and of the greatest along an axis, in the order of `numpy.partition`."""
    a = asarray(a)
    if axis is None:
        a, axis = a.reshape((-1,)), 0
    if not a.size:
        return a
    axis = normalize_axis_index(axis, a.ndim)
    count = a.shape[axis]
    first, last = int(low * count), count - int(high * count)
    if first >= last:
        raise ValueError(f"scipy.stats.{function} takes a proportiontocut that leaves something, not {max(low, high)}")
    parted = np.partition(a, (first, last - 1), axis)
    return parted[(slice(None),) * axis + (slice(first, last),)]


def trimboth(a: Any, proportiontocut: float, axis: int | None = 0) -> Tensor:
    """Return data without a share of the least and of the greatest, as `scipy.stats.trimboth`.

    Args:
        a: the data.
        proportiontocut: the share that is left out at each end, less than one half.
        axis: along which, or None for all.

    Raises:
        ValueError: nothing would be left.
    """
    return _without_ends("trimboth", a, axis, proportiontocut, proportiontocut)


def trim1(a: Any, proportiontocut: float, tail: str = "right", axis: int | None = 0) -> Tensor:
    """Return data without a share of the greatest, or of the least, as `scipy.stats.trim1`.

    Args:
        a: the data.
        proportiontocut: the share that is left out.
        tail: "right" to leave out the greatest, "left" for the least.
        axis: along which, or None for all.
    """
    side = tail.lower()
    if side not in ("left", "right"):
        raise ValueError(f"scipy.stats.trim1 takes tail 'left' or 'right', not {tail!r}")
    if proportiontocut >= 1:
        return asarray([])
    low, high = (proportiontocut, 0.0) if side == "left" else (0.0, proportiontocut)
    return _without_ends("trim1", a, axis, low, high)
