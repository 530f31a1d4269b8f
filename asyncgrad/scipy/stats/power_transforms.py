"""Transforms by powers that make data look normal: Box and Cox's, and Yeo and Johnson's; distances of samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats as scipy_stats

from ...core.arrays.values import raw
from ...core.tensor import Tensor
from ...errors import ArgumentError
from ..arguments import floating
from ..optimize import minimize
from ..ufuncs import special
from .nan_policies import by_nan_policy
from .supports import smooth_size

__all__ = ["boxcox", "boxcox_llf", "energy_distance", "wasserstein_distance", "yeojohnson", "yeojohnson_llf"]


@by_nan_policy("data")
def boxcox_llf(
    lmb: Any, data: Any, *, axis: int | None = 0, keepdims: bool = False, nan_policy: str = "propagate"
) -> Tensor:
    """Return the logarithm of the likelihood of an exponent of `boxcox`, as `scipy.stats.boxcox_llf`.

    Args:
        lmb: the exponent.
        data: positive numbers.
        axis: along which, or None for all.
        keepdims: whether the axis remains, with length 1.
        nan_policy: "propagate", "omit" or "raise".
    """
    data, lmb = floating(data), floating(lmb)
    count = data.size if axis is None else data.shape[axis]
    logarithms = np.log(data)
    # The transform of the data over their geometric mean differs by a factor and a constant, and keeps its digits.
    away = logarithms - np.mean(logarithms, axis, keepdims=True)
    spread = _log_variance(away * special.exprel(lmb * away), axis, keepdims)
    result: Tensor = -np.sum(logarithms, axis, keepdims=keepdims) - count / 2 * spread
    return result


def _log_variance(data: Any, axis: int | None, keepdims: bool) -> Any:
    """Return the logarithm of a variance; without a warning minus infinity for equal numbers."""
    variance = np.var(data, axis, keepdims=keepdims)
    with np.errstate(divide="ignore"):
        return np.log(variance)


def boxcox(x: Any, lmbda: Any = None, alpha: Any = None, optimizer: Any = None) -> Any:
    """Return Box and Cox's transform of positive numbers; without an exponent, the most likely one, too.

    The exponent that is found has the derivative of the implicit function theorem.

    Args:
        x: the numbers.
        lmbda: the exponent, or None for the most likely one.
        alpha: None alone: an interval of confidence has no derivative here.
        optimizer: None alone.

    Returns:
        The transform, or that and the exponent if `lmbda` is None.

    Raises:
        ArgumentError: alpha or an optimizer is given.
        ValueError: numbers are not positive, or all equal.

    Source: scipy.stats.boxcox.
    """
    x = floating(x)
    if lmbda is not None:
        return special.boxcox(x, lmbda)
    if alpha is not None or optimizer is not None:
        raise ArgumentError(
            "asyncgrad.scipy.stats.boxcox takes alpha=None and optimizer=None: call scipy.stats.boxcox on arrays"
        )
    start = scipy_stats.boxcox(raw(x))[1]
    found = _most_likely(boxcox_llf, x, start)
    return special.boxcox(x, found), found


def _most_likely(likelihood: Callable[..., Any], x: Any, start: Any) -> Any:
    """Return the exponent that is most likely, near one that SciPy finds."""
    found = minimize(lambda exponent, x: -likelihood(exponent[0], x), np.array([start]), args=(x,))
    return found.x[0]


def _yeo_johnson(x: Any, lmbda: Any) -> Any:
    is_negative = raw(x) < 0
    sign = np.where(is_negative, -1.0, 1.0)
    exponent = np.where(is_negative, 2 - lmbda, lmbda)
    return sign * special.boxcox1p(smooth_size(x), exponent)


@by_nan_policy("data")
def yeojohnson_llf(
    lmb: Any, data: Any, *, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> Tensor:
    """Return the logarithm of the likelihood of an exponent of `yeojohnson`, as `scipy.stats.yeojohnson_llf`.

    Args:
        lmb: the exponent.
        data: numbers.
        axis: along which, or None for all.
        nan_policy: "propagate", "omit" or "raise".
        keepdims: whether the axis remains, with length 1.
    """
    data, lmb = floating(data), floating(lmb)
    count = data.size if axis is None else data.shape[axis]
    spread = _log_variance(_yeo_johnson(data, lmb), axis, keepdims)
    slopes = np.where(raw(data) < 0, -1.0, 1.0) * np.log1p(smooth_size(data))
    result: Tensor = -count / 2 * spread + (lmb - 1) * np.sum(slopes, axis, keepdims=keepdims)
    return result


def yeojohnson(x: Any, lmbda: Any = None) -> Any:
    """Return Yeo and Johnson's transform of numbers; without an exponent, the most likely one, too.

    Args:
        x: the numbers.
        lmbda: the exponent, or None for the most likely one.

    Source: scipy.stats.yeojohnson.
    """
    x = floating(x)
    if lmbda is not None:
        return _yeo_johnson(x, lmbda)
    found = _most_likely(yeojohnson_llf, x, scipy_stats.yeojohnson(raw(x))[1])
    return _yeo_johnson(x, found), found


def wasserstein_distance(u_values: Any, v_values: Any, u_weights: Any = None, v_weights: Any = None) -> Tensor:
    """Return the first Wasserstein distance of two samples, as `scipy.stats.wasserstein_distance`.

    Args:
        u_values: a sample.
        v_values: the other.
        u_weights: of the first sample's numbers, or None for equal ones.
        v_weights: of the second sample's numbers, or None for equal ones.

    Example:
        >>> from asyncgrad.scipy import stats
        >>> stats.wasserstein_distance([0.0, 1.0, 3.0], [5.0, 6.0, 8.0]).item()
        5.0
    """
    steps, difference = _steps("wasserstein_distance", u_values, v_values, u_weights, v_weights)
    result: Tensor = np.sum(np.abs(difference) * steps)
    return result


def energy_distance(u_values: Any, v_values: Any, u_weights: Any = None, v_weights: Any = None) -> Tensor:
    """Return the energy distance of two samples, as `scipy.stats.energy_distance`; arguments as there."""
    steps, difference = _steps("energy_distance", u_values, v_values, u_weights, v_weights)
    result: Tensor = np.sqrt(2 * np.sum(difference * difference * steps))
    return result


def _steps(function: str, u: Any, v: Any, u_weights: Any, v_weights: Any) -> tuple[Any, Any]:
    """Return the distances of neighbours among all numbers, and the difference of the distributions there."""
    samples = [_sample(function, *pair) for pair in ((u, u_weights), (v, v_weights))]
    every = np.concatenate([values for values, _ in samples])
    every = every[np.argsort(raw(every), kind="stable")]
    places = raw(every)[:-1]
    below = []
    for values, weights in samples:
        order = np.argsort(raw(values), kind="stable")
        counts = np.searchsorted(raw(values)[order], places, "right")
        total = np.concatenate([np.zeros(1), np.cumsum(weights[order])])
        below.append(total[counts] / total[-1])
    return every[1:] - every[:-1], below[0] - below[1]


def _sample(function: str, values: Any, weights: Any) -> tuple[Any, Any]:
    values = floating(values)
    if values.ndim != 1 or not values.size:
        raise ValueError(
            f"scipy.stats.{function} takes samples of one axis that are not empty, not of shape {values.shape}"
        )
    weights = np.ones(values.shape) if weights is None else floating(weights)
    if weights.shape != values.shape:
        raise ValueError(f"scipy.stats.{function} takes a weight for each number, {values.shape}, not {weights.shape}")
    if np.any(raw(weights) < 0) or not 0 < raw(weights).sum() < np.inf:
        raise ValueError(f"scipy.stats.{function} takes weights from 0 on, with a positive and finite sum")
    return values, weights
