"""What describes data: their moments, means, standard scores, and the entropy of their shares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from ...core.arrays.axes import kept_shape, reduced_axes, reduced_count
from ...core.arrays.values import raw
from ...core.ops.single_precision import in_single
from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError
from ..arguments import floating, with_old_name
from ..ufuncs import special
from .log_tails import log_or
from .nan_policies import Axis, along_last_axis, by_nan_policy, check_nan_policy, refuse_nan
from .p_values import tail
from .shares import divergence_of_shares, entropy_of_shares

if TYPE_CHECKING:
    import numpy.typing as npt

    from ...core.arrays.array import Array


__all__ = [
    "describe",
    "entropy",
    "gmean",
    "gstd",
    "gzscore",
    "hmean",
    "iqr",
    "kstat",
    "kstatvar",
    "kurtosis",
    "median_abs_deviation",
    "moment",
    "pearsonr",
    "pmean",
    "pointbiserialr",
    "sem",
    "skew",
    "trim_mean",
    "variation",
    "zmap",
    "zscore",
]

#: Of the standard normal distribution.
_THIRD_QUARTILE = float(special.ndtri(0.75))


def _data(a: Any, dtype: npt.DTypeLike | None = None) -> Any:
    a = floating(a)
    return a if dtype is None else a.astype(dtype)


def _not_negative(a: Any, dtype: npt.DTypeLike | None) -> Any:
    """Return data of which there is a mean: nan for negative ones."""
    a = _data(a, dtype)
    is_negative = raw(a) < 0
    return np.where(is_negative, np.nan, a) if np.any(is_negative) else a


def _scale(function: str, scale: float | str, of_normal: float) -> float:
    """Return a divisor, which "normal" stands for if it is that of normal data."""
    if not isinstance(scale, str):
        return scale
    if scale != "normal":
        raise ValueError(f"scipy.stats.{function} takes for scale a number or 'normal', not {scale!r}")
    return of_normal


def _count(a: Array, axis: Any) -> int:
    axes = range(a.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    return math.prod(a.shape[one] for one in axes)


def _central(a: Any, order: int, axis: Any, keepdims: bool = False) -> Any:
    if order == 1:
        return np.mean(a, axis, keepdims=keepdims) * 0
    deviations = a - np.mean(a, axis, keepdims=True)
    return np.mean(deviations**order, axis, keepdims=keepdims)


def _standardized(a: Any, order: int, axis: Any, keepdims: bool) -> Any:
    """Return a central moment over a power of the variance; nan for data that are all equal."""
    variance = _central(a, 2, axis, keepdims)
    size = np.finfo(a.dtype).eps * np.abs(raw(a).mean(axis, keepdims=keepdims))
    is_equal = raw(variance) <= size * size
    value = _central(a, order, axis, keepdims) / np.where(is_equal, 1.0, variance) ** (order / 2)
    return np.where(is_equal, np.nan, value) if np.any(is_equal) else value


@with_old_name("moment", "order")
@by_nan_policy("a")
@in_single
def moment(
    a: Any,
    order: int | Sequence[int] = 1,
    axis: Axis = 0,
    nan_policy: str = "propagate",
    *,
    center: Any = None,
    keepdims: bool = False,
) -> Tensor:
    """Return the mean of powers of the deviations, as `scipy.stats.moment`.

    Args:
        a: the data.
        order: the power, a whole number, or several of them, one for each row of the result.
        axis: along which, or None for all.
        nan_policy: "propagate", "omit" or "raise".
        center: from what they deviate, or None for the mean.
        keepdims: whether the axis remains, with length 1.

    Example:
        >>> from asyncgrad.scipy import stats
        >>> stats.moment([1.0, 2.0, 6.0], 2).item() * 3
        14.0
    """
    a = _data(a)
    orders = np.asarray(raw(order))
    if orders.ndim > 1 or not orders.size or not np.all(np.round(orders) == orders):
        raise ArgumentError(f"asyncgrad.scipy.stats.moment takes for order whole numbers, not {order!r}")
    if orders.ndim:
        return np.stack([_moment(a, int(one), axis, center, keepdims) for one in orders])
    return _moment(a, int(orders), axis, center, keepdims)


def _moment(a: Any, order: int, axis: Any, center: Any, keepdims: bool) -> Any:
    if center is not None:
        return np.mean((a - center) ** order, axis, keepdims=keepdims)
    return _central(a, order, axis, keepdims)


@by_nan_policy("a")
@in_single
def skew(a: Any, axis: Axis = 0, bias: bool = True, nan_policy: str = "propagate", *, keepdims: bool = False) -> Tensor:
    """Return the skewness, as `scipy.stats.skew`; nan for data that are all equal.

    Args:
        a: the data.
        axis: along which, or None for all.
        bias: whether it is that of the data, not an estimate for what they are drawn from.
        nan_policy: "propagate", "omit" or "raise".
        keepdims: whether the axis remains, with length 1.
    """
    a = _data(a)
    value, n = _standardized(a, 3, axis, keepdims), _count(a, axis)
    return value if bias or n <= 2 else value * (math.sqrt((n - 1.0) * n) / (n - 2.0))


@by_nan_policy("a")
@in_single
def kurtosis(
    a: Any,
    axis: Axis = 0,
    fisher: bool = True,
    bias: bool = True,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Tensor:
    """Return the kurtosis, as `scipy.stats.kurtosis`; nan for data that are all equal.

    Args:
        a: the data.
        axis: along which, or None for all.
        fisher: whether the normal distribution's, 3, is subtracted.
        bias: whether it is that of the data, not an estimate for what they are drawn from.
        nan_policy: "propagate", "omit" or "raise".
        keepdims: whether the axis remains, with length 1.
    """
    a = _data(a)
    value, n = _standardized(a, 4, axis, keepdims), _count(a, axis)
    if not bias and n > 3:
        value = ((n * n - 1.0) * value - 3.0 * (n - 1) ** 2) / ((n - 2) * (n - 3)) + 3.0
    return value - 3 if fisher else value


def _kstat(data: Any, order: int) -> Tensor:
    """Return a k-statistic along the last axis, by central moments, in which the mean does not cancel."""
    count = data.shape[-1]
    if order == 1:
        return np.mean(data, -1)
    if count < order:
        return np.sum(data, -1) * np.nan
    second = _central(data, 2, -1)
    if order == 2:
        return second * (count / (count - 1))
    if order == 3:
        return _central(data, 3, -1) * (count * count / ((count - 1) * (count - 2)))
    found = (count + 1) * _central(data, 4, -1) - 3 * (count - 1) * (second * second)
    return found * (count * count / ((count - 1) * (count - 2) * (count - 3)))


@by_nan_policy("data")
@in_single
@along_last_axis("data")
def kstat(data: Any, n: int = 2, *, axis: Axis = None, nan_policy: str = "propagate", keepdims: bool = False) -> Tensor:
    """Return the estimate of a cumulant that is right on average, as `scipy.stats.kstat`.

    Args:
        data: the data.
        n: which cumulant, from 1, the mean, to 4.
        axis: along which, or None for all.
        nan_policy: "propagate", "omit" or "raise".
        keepdims: whether the axis remains, with length 1.

    Raises:
        ValueError: there is no such order.
    """
    if not 1 <= n <= 4:
        raise ValueError(f"scipy.stats.kstat takes for n a whole number from 1 to 4, not {n}")
    return _kstat(data, int(n))


@by_nan_policy("data")
@in_single
@along_last_axis("data")
def kstatvar(
    data: Any, n: int = 2, *, axis: Axis = None, nan_policy: str = "propagate", keepdims: bool = False
) -> Tensor:
    """Return an estimate of the variance of `kstat` of order 1 or 2, as `scipy.stats.kstatvar`; arguments as for it."""
    count = data.shape[-1]
    if n == 1:
        return _kstat(data, 2) / count
    if n == 2:
        return (2 * count * _kstat(data, 2) ** 2 + (count - 1) * _kstat(data, 4)) / (count * (count + 1))
    raise ValueError(f"scipy.stats.kstatvar takes for n 1 or 2, not {n}")


class DescribeResult(NamedTuple):
    """The result of `describe`.

    Attributes:
        nobs: how many numbers there are, one for each line where some were left out.
        minmax: the least and the greatest.
        mean: their mean.
        variance: their variance.
        skewness: as that of `skew`.
        kurtosis: as that of `kurtosis`.
    """

    nobs: np.int64 | np.ndarray
    minmax: tuple[Tensor, Tensor]
    mean: Tensor
    variance: Tensor
    skewness: Tensor
    kurtosis: Tensor


def describe(
    a: Any, axis: int | None = 0, ddof: int = 1, bias: bool = True, nan_policy: str = "propagate"
) -> DescribeResult:
    """Return the count, the ends and the first four moments of data, as `scipy.stats.describe`.

    Args:
        a: the data.
        axis: along which, or None for all.
        ddof: of the variance, as for `numpy.var`.
        bias: as for `skew`.
        nan_policy: "propagate", "omit" or "raise".

    Raises:
        ValueError: there are no data.

    Example:
        >>> from asyncgrad.scipy import stats
        >>> stats.describe([1.0, 2.0, 6.0]).variance.item()
        7.0
    """
    # The ends of whole numbers are whole.
    given = np.atleast_1d(asarray(a))
    a = _without_nan("describe", given, nan_policy)
    if not a.size:
        raise ValueError(f"scipy.stats.describe takes data, not an array of shape {a.shape}")
    if axis is None:
        given, a, axis = given.reshape((-1,)), a.reshape((-1,)), 0
    count: np.int64 | np.ndarray = np.int64(a.shape[normalize_axis_index(axis, a.ndim)])
    least, greatest, mean, variance = np.min, np.max, np.mean, np.var
    is_nan = np.isnan(raw(a))
    if nan_policy == "omit" and np.any(is_nan):
        count = np.sum(~is_nan, axis)
        least, greatest, mean, variance = np.nanmin, np.nanmax, np.nanmean, np.nanvar
    return DescribeResult(
        count,
        (least(given, axis), greatest(given, axis)),
        mean(a, axis),
        variance(a, axis, ddof=ddof),
        skew(a, axis, bias, nan_policy),
        kurtosis(a, axis, True, bias, nan_policy),
    )


def _logarithms(a: Any) -> Any:
    """Return the logarithms of data; the slope of that of nan would be nan, whatever it is multiplied by."""
    return log_or(np.nan, np.isnan(raw(a)), a)


@in_single
def gstd(a: Any, axis: Axis = 0, ddof: int = 1, *, keepdims: bool = False, nan_policy: str = "propagate") -> Tensor:
    """Return the geometric standard deviation of positive data, as `scipy.stats.gstd`; arguments as for `numpy.std`."""
    # SciPy's nan_policy is about the logarithms, so that it leaves out negative numbers, too.
    return _gstd(_logarithms(floating(a)), axis, ddof, keepdims, nan_policy)


@by_nan_policy("logarithms")
def _gstd(logarithms: Any, axis: Axis, ddof: int, keepdims: bool, nan_policy: str) -> Tensor:
    if reduced_count(logarithms.shape, axis) <= ddof:
        return np.sum(logarithms, axis, keepdims=keepdims) * np.nan
    return np.exp(np.std(logarithms, axis, ddof=ddof, keepdims=keepdims))


@by_nan_policy("a", fewest=2)
@in_single
def sem(a: Any, axis: Axis = 0, ddof: int = 1, nan_policy: str = "propagate", *, keepdims: bool = False) -> Tensor:
    """Return the standard error of the mean, as `scipy.stats.sem`; arguments as for `numpy.std`."""
    a = _data(a)
    return np.std(a, axis, ddof=ddof, keepdims=keepdims) / math.sqrt(_count(a, axis))


@by_nan_policy("a")
@in_single
def variation(
    a: Any, axis: Axis = 0, nan_policy: str = "propagate", ddof: int = 0, *, keepdims: bool = False
) -> Tensor:
    """Return the standard deviation over the mean, as `scipy.stats.variation`; arguments as for `numpy.std`."""
    a = _data(a)
    count, mean = _count(a, axis), np.mean(a, axis, keepdims=keepdims)
    if count > ddof:
        return np.std(a, axis, ddof=ddof, keepdims=keepdims) / mean
    # It grows beyond all bounds where so many are the last that there may be.
    is_infinite = (raw(a).std(axis, keepdims=keepdims) > 0) & (count == ddof)
    return 0.0 * mean + np.where(is_infinite, np.copysign(np.inf, raw(mean)), np.nan)


@in_single
def zscore(a: Any, axis: int | None = 0, ddof: int = 0, nan_policy: str = "propagate") -> Tensor:
    """Return the deviations from the mean over the standard deviation, as `scipy.stats.zscore`.

    Data that are all equal have the score nan. Arguments as for `numpy.std`.
    """
    a = _without_nan("zscore", a, nan_policy)
    if nan_policy == "omit" and np.any(np.isnan(raw(a))):
        return _score(a, a, axis, ddof)
    if axis is not None:
        normalize_axis_index(axis, a.ndim)
    if not a.size:
        return a * 1.0
    is_equal = (raw(a) == raw(a).take([0], axis) if axis is not None else raw(a) == raw(a).flat[0]).all(
        axis, keepdims=True
    )
    if is_equal.all():
        return a * np.nan
    # A spread of 0 has no derivative: the masked data get another.
    safe = np.where(is_equal, np.arange(a.size, dtype=a.dtype).reshape(a.shape), a) if is_equal.any() else a
    scores = (safe - np.mean(safe, axis, keepdims=True)) / np.std(safe, axis, ddof=ddof, keepdims=True)
    return np.where(is_equal, np.nan, scores) if is_equal.any() else scores


@in_single
def gzscore(a: Any, *, axis: int | None = 0, ddof: int = 0, nan_policy: str = "propagate") -> Tensor:
    """Return the scores of the logarithms of positive data, as `scipy.stats.gzscore`; arguments as for `zscore`."""
    return zscore(_logarithms(floating(a)), axis, ddof, nan_policy)


def _weighted_mean(a: Any, axis: Any, weights: Any, keepdims: bool) -> Any:
    if weights is None:
        return np.mean(a, axis, keepdims=keepdims)
    weights = floating(weights)
    if weights.shape != a.shape:
        if axis is None or weights.ndim != 1 or weights.shape[0] != a.shape[axis]:
            raise ValueError(
                f"weights must have the data's shape {a.shape}, or its length along axis, not {weights.shape}"
            )
        weights = weights.reshape((-1,) + (1,) * (a.ndim - 1 - axis % a.ndim))
    weights = np.broadcast_to(weights, a.shape)
    return np.sum(a * weights, axis, keepdims=keepdims) / np.sum(weights, axis, keepdims=keepdims)


@by_nan_policy("a", "weights")
@in_single
def gmean(
    a: Any,
    axis: Axis = 0,
    dtype: npt.DTypeLike | None = None,
    weights: Any = None,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Tensor:
    """Return the geometric mean, as `scipy.stats.gmean`, of positive data.

    Args:
        a: the data.
        axis: along which, or None for all.
        dtype: what the data are converted to first.
        weights: of the data's shape, or one for each place along the axis.
        nan_policy: "propagate", "omit" or "raise".
        keepdims: whether the axis remains, with length 1.
    """
    a = _data(a, dtype)
    return np.exp(_weighted_mean(np.log(a), axis, weights, keepdims))


@by_nan_policy("a", "weights")
@in_single
def hmean(
    a: Any,
    axis: Axis = 0,
    dtype: npt.DTypeLike | None = None,
    *,
    weights: Any = None,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Tensor:
    """Return the harmonic mean, as `scipy.stats.hmean`, of positive data; arguments as for `gmean`."""
    a = _not_negative(a, dtype)
    if weights is None and np.any(raw(a) == 0):
        return _harmonic_mean_beside_zero(a, axis, keepdims)
    return 1 / _weighted_mean(1 / a, axis, weights, keepdims)


def _harmonic_mean_beside_zero(a: Any, axis: Any, keepdims: bool) -> Any:
    """Return harmonic means, by the least number in each line, which may be 0, and the inverses of the others."""
    axes = reduced_axes(axis, a.ndim)
    rest = [length for one, length in enumerate(a.shape) if one not in axes]
    lines = np.moveaxis(a, axes, range(-len(axes), 0)).reshape((*rest, -1))
    place = np.argmin(np.abs(raw(lines)), -1)[..., np.newaxis]
    least = np.take_along_axis(lines, place, -1)
    is_other = np.arange(lines.shape[-1]) != place
    # Beside a second 0 there is no derivative.
    is_lost = np.sum(raw(lines) == 0, -1, keepdims=True) > 1
    others = np.where(is_other & ~is_lost, lines, 1.0)
    inverses = np.sum(np.where(is_other & ~is_lost, 1 / others, 0.0), -1, keepdims=True)
    least = np.where(is_lost, 0.0, least)
    means = (lines.shape[-1] * least / (1 + least * inverses)).reshape(lines.shape[:-1])
    return means.reshape(kept_shape(a.shape, axes)) if keepdims else means


@by_nan_policy("pk", "qk", takes_none=True)
def entropy(
    pk: Any,
    qk: Any = None,
    base: float | None = None,
    axis: Axis = 0,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Tensor:
    """Return the entropy of shares, or their divergence from others, as `scipy.stats.entropy`.

    The derivative by a share of 0 is infinite, as that of `special.entr` and `special.rel_entr`.

    Args:
        pk: the shares, which are divided by their sum.
        qk: the others, or None for the entropy.
        base: of the logarithm, or None for e.
        axis: along which, or None for all.
        nan_policy: "propagate", "omit" or "raise".
        keepdims: whether the axis remains, with length 1.

    Raises:
        ValueError: the base is not positive.
    """
    if base is not None and base <= 0:
        raise ValueError(f"scipy.stats.entropy takes a positive base, not {base}")
    pk = _data(pk)
    if qk is None:
        value = entropy_of_shares(pk, axis, keepdims)
    else:
        pk, qk = np.broadcast_arrays(pk, floating(qk))
        value = divergence_of_shares(pk, qk, axis, keepdims)
    return value if base is None else value / math.log(base)


@by_nan_policy("a", "weights")
@in_single
def pmean(
    a: Any,
    p: Any,
    *,
    axis: Axis = 0,
    dtype: npt.DTypeLike | None = None,
    weights: Any = None,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Tensor:
    """Return the power mean of exponent `p`, as `scipy.stats.pmean`, of positive data; arguments as for `gmean`."""
    if np.ndim(raw(p)):
        raise ValueError(f"scipy.stats.pmean takes an exponent p that is one number, not of shape {np.shape(raw(p))}")
    if np.isinf(raw(p)):
        best = "np.max" if raw(p) > 0 else "np.min"
        raise NotImplementedError(f"scipy.stats.pmean takes a finite exponent p, not {raw(p)}: write {best}(a, axis)")
    a = _not_negative(a, dtype)
    if raw(p) == 0:
        return gmean(a, axis, weights=weights, keepdims=keepdims)
    return _weighted_mean(a**p, axis, weights, keepdims) ** (1 / p)


@in_single
def zmap(scores: Any, compare: Any, axis: int | None = 0, ddof: int = 0, nan_policy: str = "propagate") -> Tensor:
    """Return the deviations of scores from the mean of other data over their standard deviation, as `scipy.stats.zmap`.

    Args:
        scores: what is compared.
        compare: the data whose mean and standard deviation count.
        axis: along which, or None for all.
        ddof: as for `numpy.std`.
        nan_policy: "propagate", "omit" or "raise".
    """
    compare = _without_nan("zmap", compare, nan_policy)
    if nan_policy == "omit":
        return _score(floating(scores), compare, axis, ddof)
    scores = floating(scores)
    if not scores.size:
        # NumPy would warn of the mean of nothing.
        return np.zeros_like(scores)
    spread = np.std(compare, axis, ddof=ddof, keepdims=True)
    return (scores - np.mean(compare, axis, keepdims=True)) / spread


def _score(scores: Any, compare: Any, axis: int | None, ddof: int) -> Any:
    """Return the deviations from the mean of other data, of which nan is left out, over their spread."""
    is_nan = np.isnan(raw(scores))
    # A nan would make the gradient of the spread nan, and of nothing but nan NumPy warns.
    known = np.where(is_nan, 0.0, scores)
    is_unknown = np.all(np.isnan(raw(compare)), axis, keepdims=True)
    compare = np.where(is_unknown, 0.0, compare)
    spread = np.where(is_unknown, np.nan, np.nanstd(compare, axis, ddof=ddof, keepdims=True))
    return np.where(is_nan, np.nan, (known - np.nanmean(compare, axis, keepdims=True)) / spread)


def _without_nan(function: str, a: Any, nan_policy: str) -> Any:
    """Return data as a tensor; raise for nan where the policy is to."""
    check_nan_policy(function, nan_policy)
    a = floating(a)
    refuse_nan(nan_policy, a)
    return a


@by_nan_policy("x")
def iqr(
    x: Any,
    axis: Axis = None,
    rng: Sequence[float] = (25, 75),
    scale: float | str = 1.0,
    nan_policy: str = "propagate",
    interpolation: str = "linear",
    keepdims: bool = False,
) -> Tensor:
    """Return the distance between two percentiles, as `scipy.stats.iqr`.

    Args:
        x: the data.
        axis: along which, or None for all.
        rng: the percentages.
        scale: a divisor, or "normal" for that which makes the result the standard deviation of normal data.
        nan_policy: "propagate", "omit" or "raise".
        interpolation: the method of `numpy.percentile`.
        keepdims: whether the axis remains, with length 1.
    """
    x = _data(x)
    scale = _scale("iqr", scale, 2 * _THIRD_QUARTILE)
    if not x.size:
        return np.nan * np.sum(x, axis, keepdims=keepdims)
    low, high = (np.percentile(x, one, axis, method=interpolation, keepdims=keepdims) for one in sorted(rng))  # type: ignore[call-overload]
    return (high - low) / scale


@by_nan_policy("x")
def median_abs_deviation(
    x: Any,
    axis: Axis = 0,
    center: Any = np.median,
    scale: float | str = 1.0,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Tensor:
    """Return the median of the distances from the median, as `scipy.stats.median_abs_deviation`.

    Args:
        x: the data.
        axis: along which, or None for all.
        center: a function of the data and an axis, from whose result the distances count.
        scale: a divisor, or "normal" for that which makes the result the standard deviation of normal data.
        nan_policy: "propagate", "omit" or "raise".
        keepdims: whether the axis remains, with length 1.
    """
    x = _data(x)
    scale = _scale("median_abs_deviation", scale, _THIRD_QUARTILE)
    middle = center(x.reshape((-1,)), axis=0) if axis is None else center(x, axis=axis)
    if axis is not None:
        middle = np.expand_dims(middle, axis)
    found: Any = np.median(np.abs(x - middle), axis, keepdims=keepdims)
    return found / scale


@by_nan_policy("a")
def trim_mean(
    a: Any, proportiontocut: float, axis: int | None = 0, *, nan_policy: str = "propagate", keepdims: bool = False
) -> Tensor:
    """Return the mean without a share of the least and of the greatest, as `scipy.stats.trim_mean`.

    Args:
        a: the data.
        proportiontocut: the share that is left out at each end, less than one half.
        axis: along which, or None for all.
        nan_policy: "propagate", "omit" or "raise".
        keepdims: whether the axis remains, with length 1.

    Raises:
        ValueError: nothing would be left.
    """
    a = _data(a)
    ndim = a.ndim
    if axis is None:
        a, axis, shape = a.reshape((-1,)), 0, (1,) * ndim
    else:
        axis = normalize_axis_index(axis, ndim)
        shape = (*a.shape[:axis], 1, *a.shape[axis + 1 :])
    count = a.shape[axis]
    cut = int(proportiontocut * count)
    if np.isnan(raw(a)).all():
        # Of no observations, too, whatever is cut.
        nothing = np.nan * np.sum(a, axis)
        return nothing.reshape(shape) if keepdims else nothing
    if cut >= count - cut:
        raise ValueError(f"scipy.stats.trim_mean takes a proportiontocut below 0.5, not {proportiontocut}")
    kept = np.sort(a, axis)[(slice(None),) * axis + (slice(cut, count - cut),)]
    found = np.mean(kept, axis)
    is_nan = np.isnan(raw(a)).any(axis)
    found = np.where(is_nan, np.nan, found) if is_nan.any() else found
    return found.reshape(shape) if keepdims else found


class PearsonResult(NamedTuple):
    """The result of `pearsonr`.

    Attributes:
        statistic: the correlation.
        pvalue: the probability of one as far from 0 for normal data that are not correlated.
    """

    statistic: Tensor
    pvalue: Tensor

    @property
    def correlation(self) -> Tensor:
        """The statistic, by the name that it has in other results."""
        return self.statistic


def _unit_deviations(x: Any) -> tuple[Any, Any]:
    """Return the deviations from the mean along the last axis over their norm, and where all numbers are equal."""
    is_equal = np.all(raw(x) == raw(x)[..., :1], -1)
    away = x - np.mean(x, -1, keepdims=True)
    # By their size first: squares overflow, and vanish.
    size = np.max(np.abs(raw(away)), -1, keepdims=True)
    size = np.where(size > 0, size, 1.0)
    squares = np.sum(np.square(away / size), -1, keepdims=True)
    return away / (size * np.sqrt(np.where(raw(squares) > 0, squares, 1.0))), is_equal


def pearsonr(
    x: Any, y: Any, *, alternative: str = "two-sided", method: Any = None, axis: int | None = 0
) -> PearsonResult:
    """Return the correlation of two samples and its p-value, as `scipy.stats.pearsonr`.

    Args:
        x: a sample.
        y: the other, of the same length along the axis.
        alternative: "two-sided", "less" or "greater".
        method: None alone.
        axis: along which, or None for all.

    Raises:
        ArgumentError: another method is given: resampling has no derivative.
        ValueError: the samples have fewer than two elements, or different numbers of them.
    """
    if method is not None:
        raise ArgumentError("asyncgrad.scipy.stats.pearsonr takes no method but None: resampling has no derivative")
    x, y = floating(x), floating(y)
    if axis is None:
        x, y, axis = x.reshape((-1,)), y.reshape((-1,)), 0
    lengths = [one.shape[axis if axis < one.ndim else -1] for one in (x, y) if one.ndim]
    if len(lengths) < 2 or lengths[0] != lengths[1] or lengths[0] < 2:
        raise ValueError(
            f"scipy.stats.pearsonr takes two samples that broadcast, with two elements along axis {axis} at least, not "
            f"shapes {x.shape} and {y.shape}"
        )
    pairs = [_unit_deviations(np.moveaxis(one, axis, -1)) for one in np.broadcast_arrays(x, y)]
    (first, is_first_equal), (second, is_second_equal) = pairs
    is_equal = is_first_equal | is_second_equal
    found = np.sum(first * second, -1)
    bound = np.sign(raw(found))
    is_line = np.abs(raw(found)) >= 1
    # Of points on a line the derivative of the p-value, which may be infinite, is that of a constant.
    bounded = np.where(is_line, bound, found)
    correlation: Any = np.where(np.abs(raw(found)) > 1, bound, found)
    correlation, bounded = (np.where(is_equal, np.nan, one) for one in (correlation, bounded))
    half = lengths[0] / 2 - 1

    # The correlation has a beta distribution on the numbers from -1 to 1; two points are always on a line.
    shape = half or 1.0
    pvalue = tail("pearsonr", lambda value: special.betainc(shape, shape, (1 + value) / 2), bounded, alternative)
    return PearsonResult(correlation, pvalue if half else 1 + 0 * pvalue)


@by_nan_policy("x", "y", fewest=2)
@along_last_axis("x", "y")
def pointbiserialr(
    x: Any, y: Any, *, axis: Axis = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> PearsonResult:
    """Return the correlation of a truth value and a number, as `scipy.stats.pointbiserialr`.

    Args:
        x: truth values, or 0 and 1.
        y: the numbers.
        axis: along which, or None for all.
        nan_policy: "propagate", "omit" or "raise"; a pair with nan is left out whole.
        keepdims: whether the axis remains, with length 1.
    """
    if x.shape[-1] < 2:
        nothing = np.sum(y, -1) * np.nan
        return PearsonResult(nothing, nothing)
    return pearsonr(x, y, axis=-1)
