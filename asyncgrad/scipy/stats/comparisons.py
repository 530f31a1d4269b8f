"""Comparisons of samples: Student's tests, a line through points, and tests by ranks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from scipy import stats as scipy_stats

from ...core.arrays.values import raw
from ...core.tensor import Tensor, asarray
from ..arguments import floating
from ..roots import root_of_squares
from ..ufuncs import special
from .groups import Group, group, lines_of, with_axes
from .nan_policies import Axis, by_nan_policy, nan_of_few
from .p_values import tail
from .results import Results, SignificanceResult, register_results
from .summaries import trim_mean

__all__ = [
    "f_oneway",
    "kendalltau",
    "linregress",
    "mannwhitneyu",
    "rankdata",
    "spearmanr",
    "ttest_1samp",
    "ttest_ind",
    "ttest_ind_from_stats",
    "ttest_rel",
    "wilcoxon",
]


@final
class TtestResult(Results[Tensor, Tensor]):
    """The result of one of Student's tests: the statistic and the p-value, as a pair.

    Attributes:
        df: the degrees of freedom.
    """

    _names = ("statistic", "pvalue", "df")
    df: Tensor

    @property
    def statistic(self) -> Tensor:
        """The difference of means over its standard error."""
        return self[0]

    @property
    def pvalue(self) -> Tensor:
        """The probability of a statistic as far out, for means that are equal."""
        return self[1]


def _tail(function: str, statistic: Any, df: Any, alternative: str) -> Any:
    """Return the probability of a statistic as far out, by Student's distribution."""
    return tail(function, functools.partial(special.stdtr, df), statistic, alternative)


@by_nan_policy("a")
def _one_sample(
    a: Any, popmean: Any, axis: Any, nan_policy: str, alternative: str, keepdims: bool
) -> tuple[Any, Any, Any]:
    a = floating(a)
    count = a.size if axis is None else a.shape[axis]
    popmean = floating(popmean)
    if axis is None and popmean.size == 1:
        popmean = popmean.reshape(())
    if popmean.ndim and popmean.ndim == a.ndim and axis is not None:
        popmean = np.squeeze(popmean, axis)
    difference = np.mean(a, axis) - popmean
    statistic = difference / np.sqrt(np.var(a, axis, ddof=1) / count)
    df = asarray(_counted(count - 1, statistic, [a], axis))
    found = (statistic, _tail("ttest_1samp", statistic, count - 1.0, alternative), df)
    if not keepdims:
        return found
    shape = np.mean(raw(a), axis, keepdims=True).shape
    first, second, third = (one.reshape(shape) for one in found)
    return first, second, third


def ttest_1samp(
    a: Any,
    popmean: Any,
    axis: int | None = 0,
    nan_policy: str = "propagate",
    alternative: str = "two-sided",
    *,
    keepdims: bool = False,
) -> TtestResult:
    """Return Student's test of whether a sample has a given mean, as `scipy.stats.ttest_1samp`.

    Args:
        a: the sample.
        popmean: the mean.
        axis: along which, or None for all.
        nan_policy: "propagate", "omit" or "raise".
        alternative: "two-sided", "less" or "greater".
        keepdims: whether the axis remains, with length 1.

    Example:
        >>> from asyncgrad.scipy import stats
        >>> round(stats.ttest_1samp([1.0, 2.0, 3.0], 1.0).statistic.item(), 4)
        1.7321
    """
    return TtestResult(*_one_sample(a, popmean, axis, nan_policy, alternative, keepdims))


def ttest_rel(
    a: Any,
    b: Any,
    axis: int | None = 0,
    nan_policy: str = "propagate",
    alternative: str = "two-sided",
    *,
    keepdims: bool = False,
) -> TtestResult:
    """Return Student's test of whether paired samples have one mean, as `scipy.stats.ttest_rel`.

    Args:
        a: a sample.
        b: the other, of the same length along the axis.
        axis: along which, or None for all.
        nan_policy: "propagate", "omit" or "raise"; a pair with nan is left out whole.
        alternative: "two-sided", "less" or "greater".
        keepdims: whether the axis remains, with length 1.
    """
    a, b = np.atleast_1d(floating(a), floating(b))
    if (a.shape != b.shape) if axis is None else (a.shape[axis] != b.shape[axis]):
        raise ValueError(f"scipy.stats.ttest_rel takes samples of one length, not of shapes {a.shape} and {b.shape}")
    return TtestResult(*_one_sample(a - b, 0.0, axis, nan_policy, alternative, keepdims))


def _counted(df: int, statistic: Any, samples: Sequence[Any], axis: Any) -> Tensor:
    """Return degrees of freedom of the shape of a statistic; nan where the data have one."""
    found: Any = np.full(statistic.shape, df)
    lacks = [np.isnan(np.sum(raw(one), axis)) for one in samples]
    is_nan = np.logical_or.reduce(np.broadcast_arrays(*lacks))
    return asarray(np.where(np.reshape(is_nan, statistic.shape), np.nan, found) if is_nan.any() else found)


def _of_two(
    function: str, first: tuple[Any, Any, Any], second: tuple[Any, Any, Any], equal_var: bool, alternative: str
) -> tuple[Any, Any, Any]:
    """Return the test by two means, variances and counts."""
    (mean1, variance1, count1), (mean2, variance2, count2) = first, second
    share1, share2 = variance1 / count1, variance2 / count2
    if equal_var:
        df = count1 + count2 - 2.0
        pooled = ((count1 - 1) * variance1 + (count2 - 1) * variance2) / df
        error = np.sqrt(pooled * (1.0 / count1 + 1.0 / count2))
    else:
        df = np.square(share1 + share2) / (share1 * share1 / (count1 - 1) + share2 * share2 / (count2 - 1))
        df = np.where(np.isnan(raw(df)), 1.0, df)
        error = np.sqrt(share1 + share2)
    statistic = (mean1 - mean2) / error
    df = np.broadcast_to(floating(df), statistic.shape)
    return statistic, _tail(function, statistic, df, alternative), df


def _described(sample: Any, axis: Any, trim: float, keepdims: bool, equal_var: bool) -> tuple[Any, Any, int]:
    """Return the mean, the variance and the count of a sample, after Yuen where some of it is trimmed.

    A single number has no variance, and adds nothing to one that samples have together.
    """
    if axis is None:
        mean, variance, count = _described(sample.reshape((-1,)), 0, trim, False, equal_var)
        shape = (1,) * sample.ndim if keepdims else ()
        return mean.reshape(shape), variance.reshape(shape), count
    count = sample.shape[axis]
    cut = int(count * trim)
    if count == 1 and equal_var:
        mean = np.mean(sample, axis, keepdims=keepdims)
        return mean, 0.0 * mean, count
    if not cut:
        return np.mean(sample, axis, keepdims=keepdims), np.var(sample, axis, ddof=1, keepdims=keepdims), count
    # Its ends are moved inwards, to the nearest elements that are kept. What is nan is sorted to an end, and is kept.
    in_order = np.moveaxis(np.sort(sample, axis), axis, -1)
    places = np.clip(np.arange(count), cut, count - cut - 1)
    passed_on = np.where(np.isnan(np.sum(raw(in_order), -1)), np.nan, 0.0).astype(sample.dtype)
    variance = np.var(in_order[..., places], -1, ddof=2 * cut + 1) + passed_on
    variance = np.expand_dims(variance, axis) if keepdims else variance
    return trim_mean(sample, trim, axis, keepdims=keepdims), variance, count - 2 * cut


@by_nan_policy("a", "b", is_paired=False)
@nan_of_few("a", "b", results=3)
def _two_samples(
    a: Any, b: Any, axis: Any, equal_var: bool, nan_policy: str, alternative: str, trim: float, keepdims: bool
) -> tuple[Any, Any, Any]:
    samples = floating(a), floating(b)
    first, second = (_described(one, axis, trim, keepdims, equal_var) for one in samples)
    statistic, pvalue, df = _of_two("ttest_ind", first, second, equal_var, alternative)
    if equal_var:
        df = _counted(first[2] + second[2] - 2, statistic, samples, axis).astype(float)
    return statistic, pvalue, df


def ttest_ind(
    a: Any,
    b: Any,
    *,
    axis: int | None = 0,
    equal_var: bool = True,
    nan_policy: str = "propagate",
    alternative: str = "two-sided",
    trim: float = 0,
    method: Any = None,
    keepdims: bool = False,
) -> TtestResult:
    """Return the test of whether two independent samples have one mean: Student's, Welch's or Yuen's.

    Args:
        a: a sample.
        b: the other.
        axis: along which, or None for all.
        equal_var: whether both have one variance; Welch's test is for those that need not.
        nan_policy: "propagate", "omit" or "raise".
        alternative: "two-sided", "less" or "greater".
        trim: the share that is left out at each end of a sample, less than one half: Yuen's test.
        method: None for Student's distribution, or one of SciPy's methods, which resample; the p-value has no
            history then, for it counts.
        keepdims: whether the axis remains, with length 1.

    Raises:
        ValueError: `trim` is not from 0 to 0.5.

    Source: scipy.stats.ttest_ind.
    """
    if not 0 <= trim < 0.5:
        raise ValueError(f"scipy.stats.ttest_ind takes a trim of at least 0 and less than 0.5, not {trim}")
    statistic, pvalue, df = _two_samples(a, b, axis, equal_var, nan_policy, alternative, trim, keepdims)
    if method is not None:
        options = {"equal_var": equal_var, "nan_policy": nan_policy, "alternative": alternative, "trim": trim}
        samples = raw(floating(a)), raw(floating(b))
        pvalue = asarray(scipy_stats.ttest_ind(*samples, axis=axis, method=method, keepdims=keepdims, **options).pvalue)
    return TtestResult(statistic, pvalue, df)


def ttest_ind_from_stats(
    mean1: Any,
    std1: Any,
    nobs1: Any,
    mean2: Any,
    std2: Any,
    nobs2: Any,
    equal_var: bool = True,
    alternative: str = "two-sided",
) -> TtestResult:
    """Return `ttest_ind` by means, standard deviations and counts, as `scipy.stats.ttest_ind_from_stats`.

    Args:
        mean1: of the first sample.
        std1: its standard deviation.
        nobs1: how many observations it has.
        mean2: of the second sample.
        std2: its standard deviation.
        nobs2: how many observations it has.
        equal_var: whether both have one variance.
        alternative: "two-sided", "less" or "greater".
    """
    mean1, std1, mean2, std2 = (floating(one) for one in (mean1, std1, mean2, std2))
    first, second = (mean1, std1 * std1, asarray(nobs1)), (mean2, std2 * std2, asarray(nobs2))
    return TtestResult(*_of_two("ttest_ind_from_stats", first, second, equal_var, alternative))


@final
class LinregressResult(Results[Tensor, Tensor, Tensor, Tensor, Tensor]):
    """The result of `linregress`: slope, intercept, rvalue, pvalue and stderr, as a tuple.

    Attributes:
        intercept_stderr: the standard error of the intercept.
    """

    _names = ("slope", "intercept", "rvalue", "pvalue", "stderr", "intercept_stderr")
    intercept_stderr: Tensor

    @property
    def slope(self) -> Tensor:
        """The slope of the line."""
        return self[0]

    @property
    def intercept(self) -> Tensor:
        """Where the line crosses 0."""
        return self[1]

    @property
    def rvalue(self) -> Tensor:
        """The correlation."""
        return self[2]

    @property
    def pvalue(self) -> Tensor:
        """The probability of a slope as far from 0, where there is none."""
        return self[3]

    @property
    def stderr(self) -> Tensor:
        """The standard error of the slope."""
        return self[4]


register_results(TtestResult)
register_results(LinregressResult)


@by_nan_policy("x", "y", fewest=2)
@nan_of_few("x", "y", results=6, fewest=2)
def _line(x: Any, y: Any, alternative: str, axis: Any, nan_policy: str, keepdims: bool) -> tuple[Any, ...]:
    x, y = floating(x), floating(y)
    if axis is None:
        x, y, axis = x.reshape((-1,)), y.reshape((-1,)), 0
    x, y = np.broadcast_arrays(x, y)
    count = x.shape[axis]
    if np.any(np.max(raw(x), axis) == np.min(raw(x), axis)):
        raise ValueError("Cannot calculate a linear regression if all x values are identical")
    mean_x, mean_y = (np.mean(one, axis, keepdims=True) for one in (x, y))
    away_x, away_y = x - mean_x, y - mean_y
    xx, xy, yy = (np.mean(one, axis, keepdims=True) for one in (away_x * away_x, away_x * away_y, away_y * away_y))
    slope = xy / xx
    intercept = mean_y - slope * mean_x
    is_flat = raw(yy) == 0
    bounded = xy / np.sqrt(xx * np.where(is_flat, 1.0, yy))
    r = np.where(is_flat, np.nan, np.where(np.abs(raw(bounded)) > 1, np.sign(raw(bounded)), bounded))
    if count == 2:
        # Two points are always on a line, of whose errors SciPy says 0, and since 1.18 NaN.
        error = intercept_error = scipy_stats.linregress((0.0, 1.0), (0.0, 1.0)).stderr + 0 * slope
        pvalue = np.where(raw(away_y).any(axis, keepdims=True), 0.0, 1.0) + error
    else:
        df = count - 2
        rest = (1 - r) * (1 + r)
        # As SciPy, so that a line through all points has a p-value above 0.
        statistic = r * np.sqrt(df / ((1 - r + 1e-20) * (1 + r + 1e-20)))
        pvalue = _tail("linregress", statistic, float(df), alternative)
        error = root_of_squares(rest * yy / xx / df)
        intercept_error = error * np.sqrt(xx + mean_x * mean_x)
    found = (slope, intercept, r, pvalue, error, intercept_error)
    return found if keepdims else tuple(np.squeeze(one, axis) for one in found)


def linregress(
    x: Any,
    y: Any,
    alternative: str = "two-sided",
    *,
    axis: int | None = 0,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> LinregressResult:
    """Return the line of least squares through points, as `scipy.stats.linregress`.

    Args:
        x: where the points are.
        y: their values.
        alternative: "two-sided", "less" or "greater", for the p-value of the slope.
        axis: along which, or None for all.
        nan_policy: "propagate", "omit" or "raise"; a point with nan is left out.
        keepdims: whether the axis remains, with length 1.

    Raises:
        ValueError: all points have one `x`.

    Example:
        >>> from asyncgrad.scipy import stats
        >>> stats.linregress([0.0, 1.0, 2.0], [1.0, 3.0, 5.0]).slope.item()
        2.0
    """
    *values, intercept_error = _line(x, y, alternative, axis, nan_policy, keepdims)
    return LinregressResult(*values, intercept_error)


# The analysis of variance.


def _pooled(groups: Sequence[Group], is_flat: np.ndarray) -> tuple[Any, Any, Any]:
    """Return the statistic of samples of one variance, and its degrees of freedom."""
    whole = sum(one.size for one in groups)
    grand = sum(one.size * one.mean for one in groups) / whole
    between = sum(one.size * np.square(one.mean - grand) for one in groups)
    within = np.where(is_flat, 1.0, sum(one.squares for one in groups))
    freedom = whole - len(groups)
    return between / (len(groups) - 1) / (within / freedom), len(groups) - 1.0, freedom


def _welch(groups: Sequence[Group], is_flat: np.ndarray) -> tuple[Any, Any, Any]:
    """Return Welch's statistic, of samples whose variances may differ, and its degrees of freedom."""
    k = len(groups)
    weights = [one.size * (one.size - 1) / np.where(is_flat, 1.0, one.squares) for one in groups]
    whole = sum(weights)
    grand = sum(weight * one.mean for weight, one in zip(weights, groups, strict=True)) / whole
    between = sum(weight * np.square(one.mean - grand) for weight, one in zip(weights, groups, strict=True)) / (k - 1)
    rest = sum(np.square(1 - weight / whole) / (one.size - 1) for weight, one in zip(weights, groups, strict=True))
    return between / (1 + 2 * (k - 2) / (k * k - 1) * rest), k - 1.0, (k * k - 1) / (3 * rest)


def f_oneway(
    *samples: Any,
    axis: Axis = 0,
    equal_var: bool = True,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> SignificanceResult:
    """Return the analysis of variance: the test of whether samples have one mean, as `scipy.stats.f_oneway`.

    Args:
        *samples: two samples or more.
        axis: along which, or None for all.
        equal_var: whether all have one variance; Welch's test is for those that need not.
        nan_policy: "propagate", "omit" or "raise".
        keepdims: whether the axis remains, with length 1.

    Raises:
        TypeError: there are fewer than two samples.

    Example:
        >>> from asyncgrad.scipy import stats
        >>> stats.f_oneway([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]).statistic.item()
        13.5
    """
    if not isinstance(equal_var, bool):
        raise TypeError(f"scipy.stats.f_oneway takes equal_var True or False, not {equal_var!r}")
    lines, axes = lines_of("f_oneway", samples, axis, nan_policy)
    if any(not one.shape[-1] for one in lines) or all(one.shape[-1] == 1 for one in lines):
        statistic = pvalue = sum(np.sum(one, -1) for one in lines) * np.nan
    else:
        # From one of them, so that what they differ by keeps its digits.
        start = raw(lines[0])[..., :1]
        start = np.where(np.isfinite(start), start, 0.0)
        groups = [group(one - start, nan_policy == "omit") for one in lines]
        is_flat = np.logical_and.reduce(np.broadcast_arrays(*(one.least == one.greatest for one in groups)))
        statistic, between, within = (_pooled if equal_var else _welch)(groups, is_flat)
        if np.any(is_flat):
            # There is no spread within samples.
            is_one = np.logical_and.reduce(np.broadcast_arrays(*(one.least == groups[0].least for one in groups)))
            statistic = np.where(is_flat, np.where(is_one, np.nan, np.inf), statistic)
        pvalue = special.fdtrc(between, within, statistic)
        is_nan = np.isnan(raw(statistic))
        # Of nan SciPy's function is 0 for infinite degrees of freedom.
        pvalue = np.where(is_nan, np.nan, pvalue) if np.any(is_nan) else pvalue
    return SignificanceResult(*with_axes((statistic, pvalue), axes, keepdims))


# Functions of ranks: they are constant but where two numbers are equal.


def _by_ranks(function: Callable[..., Any], *samples: Any, **options: Any) -> SignificanceResult:
    found = function(*(None if one is None else raw(floating(one)) for one in samples), **options)
    return SignificanceResult(asarray(found.statistic), asarray(found.pvalue))


def spearmanr(
    a: Any, b: Any = None, axis: int | None = 0, nan_policy: str = "propagate", alternative: str = "two-sided"
) -> SignificanceResult:
    """Return the correlation of ranks, as `scipy.stats.spearmanr`; it has no history, for its derivative is 0.

    Args:
        a: a sample, or several.
        b: the other, or None.
        axis: along which.
        nan_policy: "propagate", "omit" or "raise".
        alternative: "two-sided", "less" or "greater".
    """
    return _by_ranks(scipy_stats.spearmanr, a, b, axis=axis, nan_policy=nan_policy, alternative=alternative)


def kendalltau(
    x: Any,
    y: Any,
    *,
    nan_policy: str = "propagate",
    method: str = "auto",
    variant: str = "b",
    alternative: str = "two-sided",
    axis: int | None = None,
    keepdims: bool = False,
) -> SignificanceResult:
    """Return Kendall's correlation of orders, as `scipy.stats.kendalltau`; it has no history, for its derivative is 0.

    Args:
        x: a sample.
        y: the other.
        nan_policy: "propagate", "omit" or "raise".
        method: how the p-value is computed.
        variant: "b" or "c".
        alternative: "two-sided", "less" or "greater".
        axis: along which, or None for all; an older SciPy has none.
        keepdims: whether the axis remains, with length 1; an older SciPy has none.
    """
    options = {"nan_policy": nan_policy, "method": method, "variant": variant, "alternative": alternative}
    newer = {} if axis is None and not keepdims else {"axis": axis, "keepdims": keepdims}
    return _by_ranks(scipy_stats.kendalltau, x, y, **options, **newer)


def mannwhitneyu(
    x: Any,
    y: Any,
    use_continuity: bool = True,
    alternative: str = "two-sided",
    axis: int | None = 0,
    method: Any = "auto",
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> SignificanceResult:
    """Return Mann and Whitney's test by ranks, as `scipy.stats.mannwhitneyu`; it has no history.

    Args:
        x: a sample.
        y: the other.
        use_continuity: whether the normal approximation is corrected.
        alternative: "two-sided", "less" or "greater".
        axis: along which, or None for all.
        method: how the p-value is computed.
        nan_policy: "propagate", "omit" or "raise".
        keepdims: whether the axis remains, with length 1.
    """
    options = {"alternative": alternative, "axis": axis, "method": method, "nan_policy": nan_policy}
    return _by_ranks(scipy_stats.mannwhitneyu, x, y, use_continuity=use_continuity, keepdims=keepdims, **options)


def wilcoxon(
    x: Any, y: Any = None, zero_method: str = "wilcox", correction: bool = False, **options: Any
) -> SignificanceResult:
    """Return Wilcoxon's test of signed ranks, as `scipy.stats.wilcoxon`; it has no history.

    Args:
        x: a sample, or the differences of two.
        y: the other, or None.
        zero_method: what becomes of differences of 0.
        correction: whether the normal approximation is corrected.
        **options: `alternative`, `method`, `axis`, `nan_policy` and `keepdims`, as SciPy's.
    """
    return _by_ranks(scipy_stats.wilcoxon, x, y, zero_method=zero_method, correction=correction, **options)


def rankdata(a: Any, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate") -> Tensor:
    """Return the ranks of numbers, from 1 on, as `scipy.stats.rankdata`; they have no history.

    Args:
        a: the numbers.
        method: the rank of equal ones: "average", "min", "max", "dense" or "ordinal".
        axis: along which, or None for all.
        nan_policy: "propagate", "omit" or "raise".
    """
    return asarray(scipy_stats.rankdata(raw(asarray(a)), method, axis=axis, nan_policy=nan_policy))
