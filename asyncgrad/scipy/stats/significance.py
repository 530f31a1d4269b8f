"""Tests of one sample: whether it may be normal, and whether counts are those that were expected."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays.values import raw
from ...core.ops.single_precision import in_single
from ...core.tensor import Tensor
from ...errors import ArgumentError
from ..arguments import double
from ..ufuncs import special
from .nan_policies import Axis, along_last_axis, by_nan_policy
from .p_values import tail
from .results import SignificanceResult
from .summaries import kurtosis, skew

__all__ = [
    "chi2_contingency",
    "chisquare",
    "jarque_bera",
    "kurtosistest",
    "normaltest",
    "power_divergence",
    "skewtest",
]


def _by_normal(function: str, statistic: Any, alternative: str) -> SignificanceResult:
    """Return a statistic that is standard normal, with its p-value."""
    return SignificanceResult(statistic, tail(function, special.ndtr, statistic, alternative))


def _by_chi2(statistic: Any, df: Any) -> SignificanceResult:
    """Return a statistic that has a chi-squared distribution, with its p-value."""
    return SignificanceResult(statistic, special.chdtrc(df, statistic))


# Normal data.


@by_nan_policy("x")
@in_single
@along_last_axis("x")
def jarque_bera(
    x: Any, *, axis: Axis = None, nan_policy: str = "propagate", keepdims: bool = False
) -> SignificanceResult:
    """Return Jarque and Bera's test of whether data are normal, by skewness and kurtosis, as `scipy.stats.jarque_bera`.

    Args:
        x: the data.
        axis: along which, or None for all.
        nan_policy: "propagate", "omit" or "raise".
        keepdims: whether the axis remains, with length 1.

    Example:
        >>> from asyncgrad.scipy import stats
        >>> round(stats.jarque_bera([1.0, 2.0, 4.0, 9.0]).statistic.item(), 4)
        0.5603
    """
    return _by_chi2(x.shape[-1] / 6 * (skew(x, -1) ** 2 + kurtosis(x, -1) ** 2 / 4), 2.0)


def _skew_statistic(a: Any) -> Tensor:
    count = float(a.shape[-1])
    if count < 8:
        # The approximation is not known for so few.
        return skew(a, -1) * np.nan
    size = skew(a, -1) * math.sqrt((count + 1) * (count + 3) / (6 * (count - 2)))
    beta = 3 * (count * count + 27 * count - 70) * (count + 1) * (count + 3)
    beta = beta / ((count - 2) * (count + 5) * (count + 7) * (count + 9))
    square = math.sqrt(2 * (beta - 1)) - 1
    factor, width = 1 / math.sqrt(0.5 * math.log(square)), math.sqrt(2 / (square - 1))
    found = factor * np.arcsinh(size / width)
    # SciPy takes 1 for a skewness that is exactly 0; the slope is that at 0.
    is_zero = raw(size) == 0
    return found + np.where(is_zero, factor * math.asinh(1 / width), 0.0) if np.any(is_zero) else found


def _kurtosis_statistic(a: Any) -> Tensor:
    count = float(a.shape[-1])
    size = kurtosis(a, -1, fisher=False)
    if count < 5:
        return size * np.nan
    mean = 3 * (count - 1) / (count + 1)
    variance = 24 * count * (count - 2) * (count - 3) / ((count + 1) ** 2 * (count + 3) * (count + 5))
    root = 6 * (count * count - 5 * count + 2) / ((count + 7) * (count + 9))
    root = root * math.sqrt(6 * (count + 3) * (count + 5) / (count * (count - 2) * (count - 3)))
    shape = 6 + 8 / root * (2 / root + math.sqrt(1 + 4 / root**2))
    ratio = 1 + (size - mean) / math.sqrt(variance) * math.sqrt(2 / (shape - 4))
    divisor = np.where(raw(ratio) == 0, np.nan, ratio)
    return (1 - 2 / (9 * shape) - np.cbrt((1 - 2 / shape) / divisor)) / math.sqrt(2 / (9 * shape))


@by_nan_policy("a", fewest=8)
@in_single
@along_last_axis("a")
def skewtest(
    a: Any,
    axis: Axis = 0,
    nan_policy: str = "propagate",
    alternative: str = "two-sided",
    *,
    keepdims: bool = False,
) -> SignificanceResult:
    """Return the test of whether data have the skewness of normal ones, as `scipy.stats.skewtest`.

    It is nan for fewer than eight numbers.

    Args:
        a: the data.
        axis: along which, or None for all.
        nan_policy: "propagate", "omit" or "raise".
        alternative: "two-sided", "less" or "greater".
        keepdims: whether the axis remains, with length 1.
    """
    return _by_normal("skewtest", _skew_statistic(a), alternative)


@by_nan_policy("a", fewest=5)
@in_single
@along_last_axis("a")
def kurtosistest(
    a: Any,
    axis: Axis = 0,
    nan_policy: str = "propagate",
    alternative: str = "two-sided",
    *,
    keepdims: bool = False,
) -> SignificanceResult:
    """Return the test of whether data have the kurtosis of normal ones, as `scipy.stats.kurtosistest`.

    It is nan for fewer than five numbers. Arguments as for `skewtest`.
    """
    return _by_normal("kurtosistest", _kurtosis_statistic(a), alternative)


@by_nan_policy("a", fewest=8)
@in_single
@along_last_axis("a")
def normaltest(a: Any, axis: Axis = 0, nan_policy: str = "propagate", *, keepdims: bool = False) -> SignificanceResult:
    """Return the test of whether data are normal, by `skewtest` and `kurtosistest`, as `scipy.stats.normaltest`.

    Arguments as for `skewtest`.
    """
    return _by_chi2(_skew_statistic(a) ** 2 + _kurtosis_statistic(a) ** 2, 2.0)


# Counts.

_POWERS = {
    "pearson": 1.0,
    "log-likelihood": 0.0,
    "freeman-tukey": -0.5,
    "mod-log-likelihood": -1.0,
    "neyman": -2.0,
    "cressie-read": 2 / 3,
}


def _divergences(observed: Any, expected: Any, power: Any) -> Any:
    """Return what each count adds to the statistic."""
    if isinstance(power, Tensor) and power.requires_grad:
        # One formula for all powers but -1, where it has a pole.
        logarithm = np.log(observed / expected)
        return 2 * observed * logarithm * special.exprel(power * logarithm) / (power + 1)
    if raw(power) == 1:
        return np.square(observed - expected) / expected
    if raw(power) == 0:
        return 2 * special.xlogy(observed, observed / expected)
    if raw(power) == -1:
        return 2 * special.xlogy(expected, expected / observed)
    return observed * ((observed / expected) ** power - 1) / (0.5 * power * (power + 1))


def _check_sums(function: str, observed: object, expected: object) -> None:
    sums = [np.sum(raw(one), -1) for one in (observed, expected)]
    tolerance = np.sqrt(np.finfo(np.result_type(*sums)).eps)
    with np.errstate(invalid="ignore", divide="ignore"):
        relative = np.abs(sums[0] - sums[1]) / np.minimum(*sums)
    if np.any(relative > tolerance):
        raise ValueError(
            f"scipy.stats.{function} takes f_obs and f_exp of one sum along axis, to a relative {tolerance:.2g}, not "
            f"{sums[0]} and {sums[1]}: write f_exp * f_obs.sum(axis) / f_exp.sum(axis), or chisquare(..., "
            "sum_check=False)"
        )


@by_nan_policy("f_obs", "f_exp", takes_none=True)
@in_single
@along_last_axis("f_obs", "f_exp")
def _counted(
    f_obs: Any, f_exp: Any, ddof: Any, axis: Axis, power: Any, checked: str, nan_policy: str, keepdims: bool
) -> SignificanceResult:
    if f_exp is None:
        f_exp = np.sum(f_obs, -1, keepdims=True) / max(f_obs.shape[-1], 1)
    elif checked:
        _check_sums(checked, f_obs, f_exp)
    statistic = np.sum(_divergences(f_obs, f_exp, power), -1)
    return _by_chi2(statistic, f_obs.shape[-1] - 1.0 - (np.asarray(ddof) if isinstance(ddof, (list, tuple)) else ddof))


def chisquare(
    f_obs: Any,
    f_exp: Any = None,
    ddof: Any = 0,
    axis: Axis = 0,
    *,
    sum_check: bool = True,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> SignificanceResult:
    """Return Pearson's test of whether counts are those that were expected, as `scipy.stats.chisquare`.

    Args:
        f_obs: the counts.
        f_exp: what was expected; None for the same of each.
        ddof: by how much the degrees of freedom are fewer than the counts less 1.
        axis: along which, or None for all.
        sum_check: whether to raise unless the counts have the sum of the expected ones.
        nan_policy: "propagate", "omit" or "raise"; a pair with nan is left out whole.
        keepdims: whether the axis remains, with length 1.

    Raises:
        ValueError: the sums differ.

    Example:
        >>> from asyncgrad.scipy import stats
        >>> stats.chisquare([10.0, 20.0, 30.0]).statistic.item()
        10.0
    """
    return _counted(f_obs, f_exp, ddof, axis, 1.0, "chisquare" if sum_check else "", nan_policy, keepdims)


def power_divergence(
    f_obs: Any,
    f_exp: Any = None,
    ddof: Any = 0,
    axis: Axis = 0,
    lambda_: Any = None,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> SignificanceResult:
    """Return Cressie and Read's test of whether counts are those that were expected.

    Args:
        f_obs: the counts.
        f_exp: what was expected; None for the same of each.
        ddof: as for `chisquare`.
        axis: along which, or None for all.
        lambda_: the power, or the name of one; None for Pearson's, 1.
        nan_policy: "propagate", "omit" or "raise"; a pair with nan is left out whole.
        keepdims: whether the axis remains, with length 1.

    Raises:
        ValueError: the sums differ, or no power has the name.

    Source: scipy.stats.power_divergence.
    """
    if isinstance(lambda_, str) and lambda_ not in _POWERS:
        raise ValueError(
            f"scipy.stats.power_divergence takes lambda_ {', '.join(_POWERS)} or a number, not {lambda_!r}"
        )
    power = _POWERS[lambda_] if isinstance(lambda_, str) else 1.0 if lambda_ is None else lambda_
    return _counted(f_obs, f_exp, ddof, axis, power, "power_divergence", nan_policy, keepdims)


class Chi2ContingencyResult(NamedTuple):
    """The result of `chi2_contingency`.

    Attributes:
        statistic: what the test computes.
        pvalue: the probability of a statistic as great, if the variables are independent.
        dof: the degrees of freedom.
        expected_freq: the counts that the sums of the table let expect.
    """

    statistic: Tensor
    pvalue: Tensor
    dof: int
    expected_freq: Tensor


def chi2_contingency(
    observed: Any, correction: bool = True, lambda_: Any = None, *, method: None = None
) -> Chi2ContingencyResult:
    """Return the test of whether the variables of a table of counts are independent, as `scipy.stats.chi2_contingency`.

    Args:
        observed: the counts, with an axis for each variable.
        correction: whether Yates' correction is made where there is one degree of freedom.
        lambda_: as for `power_divergence`.
        method: None alone: what resamples counts has no derivative.

    Raises:
        ValueError: a count is below 0, or one of 0 is expected.

    Example:
        >>> from asyncgrad.scipy import stats
        >>> stats.chi2_contingency([[10.0, 20.0], [30.0, 40.0]], correction=False).dof
        1
    """
    if method is not None:
        raise ArgumentError("scipy.stats.chi2_contingency of tensors resamples nothing: write method=None")
    observed = double(observed)
    if not observed.size or np.any(raw(observed) < 0):
        raise ValueError("scipy.stats.chi2_contingency takes counts of at least 0, and one at least")
    axes = range(observed.ndim)
    sums = [np.sum(observed, tuple(other for other in axes if other != axis), keepdims=True) for axis in axes]
    expected = functools.reduce(np.multiply, sums) / np.sum(observed) ** (observed.ndim - 1)
    if np.any(raw(expected) == 0):
        raise ValueError("scipy.stats.chi2_contingency takes a table of which no row or column is all 0")
    dof = observed.size - sum(observed.shape) + observed.ndim - 1
    if not dof:
        # One variable alone: what is observed is what is expected.
        return Chi2ContingencyResult(0.0 * np.sum(observed), 1.0 + 0.0 * np.sum(observed), 0, expected)
    compared = observed
    if dof == 1 and correction:
        away = expected - observed
        compared = observed + np.minimum(0.5, np.abs(away)) * np.sign(away)
    found = power_divergence(compared, expected, observed.size - 1 - dof, None, lambda_)
    return Chi2ContingencyResult(*found, dof, expected)
