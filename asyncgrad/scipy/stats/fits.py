"""Tests of whether a sample has a distribution, by the distribution function: of Kolmogorov and Smirnov, and Cramér."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, final

import numpy as np
from scipy import stats as scipy_stats

from ...core.arrays.values import raw
from ...core.recording.primitive import derivative, primitive
from ...core.tensor import Tensor, asarray
from ..arguments import floating, with_old_name
from .cramer_statistic import cramer_density
from .distribution import family_named
from .nan_policies import Axis, along_last_axis, by_nan_policy, nan_of_few
from .results import Results, SignificanceResult, register_results
from .sample_statistics import ksone, kstwo, kstwobign

__all__ = ["cramervonmises", "ks_1samp", "kstest"]


@final
class KstestResult(Results[Tensor, Tensor]):
    """The result of `kstest`: the statistic and the p-value, as a pair.

    Attributes:
        statistic_location: the observation at which the distance is greatest.
        statistic_sign: 1 where the sample's distribution function is above there, -1 where it is below.
    """

    _names = ("statistic", "pvalue", "statistic_location", "statistic_sign")
    _kept = 2
    statistic_location: Tensor
    statistic_sign: Tensor

    @property
    def statistic(self) -> Tensor:
        """The greatest distance of both distribution functions."""
        return self[0]

    @property
    def pvalue(self) -> Tensor:
        """The probability of a distance as great, if the sample has the distribution."""
        return self[1]


register_results(KstestResult)


def _distribution_function(cdf: Any) -> Callable[..., Any]:
    return family_named(cdf).cdf if isinstance(cdf, str) else cdf


def _probability(statistic: Any, count: int, alternative: str, method: str) -> Any:
    """Return the probability of a distance as great."""
    if alternative != "two-sided":
        return ksone.sf(statistic, count)
    if method == "asymp":
        return kstwobign.sf(statistic * math.sqrt(count))
    if method == "approx":
        return np.clip(2 * ksone.sf(statistic, count), 0.0, 1.0)
    return kstwo.sf(statistic, count)


@by_nan_policy("x")
@nan_of_few("x", results=4)
@along_last_axis("x")
def _ks_1samp(
    x: Any, cdf: Any, args: Any, alternative: str, method: str, axis: Axis, nan_policy: str, keepdims: bool
) -> tuple[Any, Any, Any, Any]:
    count = x.shape[-1]
    x = np.sort(x, -1)
    below = floating(_distribution_function(cdf)(x, *args))
    places = np.arange(count, dtype=x.dtype)
    above = {1: (places + 1) / count - below, -1: below - places / count}
    signs = {"two-sided": (1, -1), "greater": (1,), "less": (-1,)}[alternative]
    distances = np.concatenate([above[sign] for sign in signs], -1)
    # The last one where both are as great, which is below.
    highest = [np.argmax(raw(above[sign]), -1) for sign in signs]
    place = highest[0]
    if len(signs) == 2:
        first, second = (np.max(raw(above[sign]), -1) for sign in signs)
        place = np.where(np.isnan(first) | (first > second), highest[0], count + highest[1])
    place = np.asarray(place)[..., np.newaxis]
    statistic = np.take_along_axis(distances, place, -1)[..., 0]
    location = np.take_along_axis(x, place % count, -1)[..., 0]
    sign = np.where((place[..., 0] < count) == (signs[0] == 1), 1, -1).astype(np.int8)
    if np.isnan(raw(statistic)).any():
        sign = np.where(np.isnan(raw(statistic)), np.nan, sign)
    pvalue = _probability(statistic, count, alternative, method)
    return statistic, pvalue.astype(statistic.dtype, copy=False), location, asarray(sign)


@with_old_name("mode", "method")
def ks_1samp(
    x: Any,
    cdf: Any,
    args: tuple[Any, ...] = (),
    alternative: str = "two-sided",
    method: str = "auto",
    *,
    axis: Axis = 0,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> KstestResult:
    """Return Kolmogorov and Smirnov's test of whether a sample has a distribution, as `scipy.stats.ks_1samp`.

    Args:
        x: the sample.
        cdf: the distribution function, of a sample and `args`, or the name of a distribution.
        args: parameters of the distribution.
        alternative: "two-sided", "less" or "greater".
        method: of the p-value: "auto", "exact", "approx" or "asymp".
        axis: along which, or None for all.
        nan_policy: "propagate", "omit" or "raise".
        keepdims: whether the axis remains, with length 1.

    Raises:
        ValueError: there is no such alternative or method.

    Example:
        >>> from asyncgrad.scipy import stats
        >>> stats.ks_1samp([0.25, 0.5, 0.75], stats.uniform.cdf).statistic.item()
        0.25
    """
    for name, value, known in (
        ("alternative", alternative, ("two-sided", "less", "greater")),
        ("method", method, ("auto", "exact", "approx", "asymp")),
    ):
        if value not in known:
            raise ValueError(f"scipy.stats.ks_1samp takes {name} {', '.join(map(repr, known))}, not {value!r}")
    return KstestResult(*_ks_1samp(x, cdf, args, alternative, method, axis, nan_policy, keepdims))


@with_old_name("mode", "method")
def kstest(
    rvs: Any,
    cdf: Any,
    args: tuple[Any, ...] = (),
    N: int = 20,
    alternative: str = "two-sided",
    method: str = "auto",
    *,
    axis: Axis = 0,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> KstestResult:
    """Return `ks_1samp` for a distribution, and SciPy's `ks_2samp`, without history, for another sample.

    Args:
        rvs: the sample, what returns one of a size, or the name of a distribution to draw it from.
        cdf: as for `ks_1samp`, or another sample.
        args: parameters of the distribution.
        N: the size of a sample that is drawn.
        alternative: as for `ks_1samp`.
        method: as for `ks_1samp`.
        axis: along which, or None for all.
        nan_policy: "propagate", "omit" or "raise".
        keepdims: whether the axis remains, with length 1.

    Source: scipy.stats.kstest.
    """
    if isinstance(rvs, str):
        cdf, rvs = (rvs if rvs == cdf else cdf), family_named(rvs).rvs
    sample = rvs(*args, size=N) if callable(rvs) else rvs
    if isinstance(cdf, str) or callable(cdf):
        return ks_1samp(sample, cdf, args, alternative, method, axis=axis, nan_policy=nan_policy, keepdims=keepdims)
    # It depends on the order alone.
    options = {"axis": axis, "nan_policy": nan_policy, "keepdims": keepdims}
    found = scipy_stats.ks_2samp(raw(floating(sample)), raw(floating(cdf)), alternative, method, **options)
    return KstestResult(*(asarray(getattr(found, name)) for name in KstestResult._names))


@primitive()
def _cramer_p_value(statistic: Any, below: Any) -> Any:
    """Return the p-value of statistics, of whose samples the shares below each observation are along the last axis."""
    found = np.asarray(scipy_stats.cramervonmises(below, lambda shares: shares, axis=-1).pvalue)
    return found.astype(statistic.dtype, copy=False)


@derivative(_cramer_p_value, "statistic")
def _(g: Any, statistic: Any, below: Any) -> Any:
    return -g * cramer_density(statistic, below.shape[-1])


@by_nan_policy("rvs", fewest=2)
@along_last_axis("rvs")
def cramervonmises(
    rvs: Any,
    cdf: Any,
    args: tuple[Any, ...] = (),
    *,
    axis: Axis = 0,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> SignificanceResult:
    """Return Cramér and von Mises's test of whether a sample has a distribution, as `scipy.stats.cramervonmises`.

    Both are nan for fewer than two numbers. SciPy's p-values are right to some seven digits, their derivatives to
    twelve.

    Args:
        rvs: the sample.
        cdf: as for `ks_1samp`.
        args: parameters of the distribution.
        axis: along which, or None for all.
        nan_policy: "propagate", "omit" or "raise".
        keepdims: whether the axis remains, with length 1.

    Example:
        >>> from asyncgrad.scipy import stats
        >>> round(stats.cramervonmises([0.25, 0.5, 0.75], stats.uniform.cdf).statistic.item(), 6)
        0.041667
    """
    count = rvs.shape[-1]
    if count < 2:
        return SignificanceResult(*[np.sum(rvs, -1) * np.nan] * 2)
    below = floating(_distribution_function(cdf)(np.sort(rvs, -1), *args))
    middles = ((2 * np.arange(count) + 1) / (2 * count)).astype(below.dtype)
    statistic = 1 / (12 * count) + np.sum(np.square(middles - below), -1)
    return SignificanceResult(statistic, _cramer_p_value.call(statistic, raw(below)))
