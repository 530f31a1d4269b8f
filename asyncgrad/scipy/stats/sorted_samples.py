"""What describes data by their order: L-moments, quantiles, and the entropy that their distances tell of."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from ...core.arrays.values import raw, refuse_complex
from ...core.ops.single_precision import in_single
from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError
from ..arguments import floating
from ..ufuncs import special
from .nan_policies import Axis, along_last_axis, by_nan_policy, check_nan_policy, refuse_nan, warn_of_few

__all__ = ["differential_entropy", "expectile", "lmoment", "quantile"]


# L-moments.


def _weights(count: int, most: int) -> np.ndarray:
    """Return what numbers in order are multiplied by in each L-moment up to an order, a row for each."""
    power, place = np.arange(most)[:, np.newaxis], np.arange(count)
    whole = special.binom(count - 1, power) * count
    shares = special.binom(place, power) / np.where(whole > 0, whole, 1.0)
    order = power.T
    signs = (-1.0) ** (power - order) * special.binom(power, order) * special.binom(power + order, order)
    return signs @ shares


@by_nan_policy("sample")
@in_single
@along_last_axis("sample")
def _lmoments(
    sample: Any, most: int, axis: Axis, is_sorted: bool, standardize: bool, nan_policy: str, keepdims: bool
) -> tuple[Any, ...]:
    """Return all L-moments up to an order."""
    count = sample.shape[-1]
    in_order = sample if is_sorted else np.sort(sample, -1)
    # From the first number, so that those of equal ones are exactly 0.
    start = np.sum(raw(in_order)[..., :1], -1)
    found = (in_order - start[..., np.newaxis]) @ _weights(count, most).T.astype(sample.dtype)
    every = [found[..., one] if one < count else found[..., one] * np.nan for one in range(most)]
    return (every[0] + start, *every[1:2], *(one / every[1] if standardize else one for one in every[2:]))


def lmoment(
    sample: Any,
    order: int | Sequence[int] | None = None,
    *,
    axis: int | None = 0,
    sorted: bool = False,
    standardize: bool = True,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Tensor:
    """Return L-moments, as `scipy.stats.lmoment`: means of differences of numbers in order.

    Args:
        sample: the data.
        order: which of them, from 1 on, or several, one for each row of the result; None for the first four.
        axis: along which, or None for all.
        sorted: whether the data are in order.
        standardize: whether those beyond the second are divided by it.
        nan_policy: "propagate", "omit" or "raise".
        keepdims: whether the axis remains, with length 1.

    Raises:
        ArgumentError: an order is no whole number from 1 on.

    Example:
        >>> from asyncgrad.scipy import stats
        >>> stats.lmoment([1.0, 2.0, 6.0], 1).item()
        3.0
    """
    for name, value in (("sorted", sorted), ("standardize", standardize)):
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"scipy.stats.lmoment takes {name} True or False, not {value!r}")
    refuse_complex("scipy.stats.lmoment", "a real sample", raw(asarray(sample)), error=ValueError)
    orders = np.arange(1, 5) if order is None else np.asarray(raw(order))
    if orders.ndim > 1 or not orders.size or orders.dtype.kind not in "iu" or np.any(orders < 1):
        raise ArgumentError(f"asyncgrad.scipy.stats.lmoment takes for order whole numbers from 1 on, not {order!r}")
    found = _lmoments(sample, int(np.max(orders)), axis, sorted, standardize, nan_policy, keepdims)
    return np.stack([found[one - 1] for one in orders]) if orders.ndim else found[int(orders) - 1]


# Entropy.


def _by_vasicek(in_order: Any, window: int) -> Tensor:
    return np.mean(np.log(in_order.shape[-1] / (2 * window) * _distances(in_order, window)), -1)


def _by_van_es(in_order: Any, window: int) -> Tensor:
    count = in_order.shape[-1]
    distances = in_order[..., window:] - in_order[..., :-window]
    rest = float(np.sum(1 / np.arange(window, count + 1))) + math.log(window) - math.log(count + 1)
    return np.mean(np.log((count + 1) / window * distances), -1) + rest


def _by_ebrahimi(in_order: Any, window: int) -> Tensor:
    count = in_order.shape[-1]
    place = np.arange(count)
    factor = 1 + np.minimum(np.minimum(place, place[::-1]) / window, 1.0)
    return np.mean(np.log(_distances(in_order, window) * (count / window / factor).astype(in_order.dtype)), -1)


def _by_correa(in_order: Any, window: int) -> Tensor:
    count = in_order.shape[-1]
    steps = np.arange(-window, window + 1)[:, np.newaxis]
    near = in_order[..., np.clip(np.arange(count) + steps, 0, count - 1)]
    away = near - np.mean(near, -2, keepdims=True)
    slopes = np.sum(away * steps.astype(in_order.dtype), -2) / (count * np.sum(away * away, -2))
    return -np.mean(np.log(slopes), -1)


def _distances(in_order: Any, window: int) -> Any:
    """Return the distances of the numbers some places on from those as many places before; the ends go on for ever."""
    place = np.arange(count := in_order.shape[-1])
    return in_order[..., np.minimum(place + window, count - 1)] - in_order[..., np.maximum(place - window, 0)]


_ESTIMATES: dict[str, Callable[[Any, int], Tensor]] = {
    "vasicek": _by_vasicek,
    "van es": _by_van_es,
    "ebrahimi": _by_ebrahimi,
    "correa": _by_correa,
}


@by_nan_policy("values")
@in_single
@along_last_axis("values")
def differential_entropy(
    values: Any,
    *,
    window_length: int | None = None,
    base: float | None = None,
    axis: Axis = 0,
    method: str = "auto",
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Tensor:
    """Return an estimate of the entropy of what data are drawn from, as `scipy.stats.differential_entropy`.

    It is nan for a single line of too few data, of which it warns, and for lines with nan.

    Args:
        values: the data.
        window_length: how many places apart numbers are whose distance counts; None for the root of their count.
        base: of the logarithm, or None for e.
        axis: along which, or None for all.
        method: "vasicek", "van es", "ebrahimi" or "correa"; "auto" for one of the first three, by the count.
        nan_policy: "propagate", "omit" or "raise".
        keepdims: whether the axis remains, with length 1.

    Raises:
        ValueError: there is no such method or base, or several lines are too short for the window.
    """
    count = values.shape[-1]
    if base is not None and base <= 0:
        raise ValueError(f"scipy.stats.differential_entropy takes a positive base, not {base}")
    name = method.lower()
    if name == "auto":
        name = "van es" if count <= 10 else "ebrahimi" if count <= 1000 else "vasicek"
    if name not in _ESTIMATES:
        raise ValueError(f"scipy.stats.differential_entropy takes method auto, {', '.join(_ESTIMATES)}, not {method!r}")
    window = math.floor(math.sqrt(count) + 0.5) if window_length is None else window_length
    if not 2 <= 2 * window < count:
        has_nan = np.isnan(raw(values)).any(-1)
        if values.ndim == 1 and not has_nan:
            warn_of_few(False, 6)
        if values.ndim == 1 or not values.size or has_nan.all():
            return np.sum(values, -1) * np.nan
        raise ValueError(
            f"scipy.stats.differential_entropy takes a window_length from 1 to less than half of {count} numbers, not "
            f"{window}"
        )
    found = _ESTIMATES[name](np.sort(values, -1), window)
    return found if base is None else found / math.log(base)


# Quantiles.

#: By the names of methods, what is added to the probability times the count.
_SHIFTS: dict[str, Callable[[float], float]] = {
    "inverted_cdf": lambda p: 0.0,
    "averaged_inverted_cdf": lambda p: 0.0,
    "closest_observation": lambda p: -0.5,
    "interpolated_inverted_cdf": lambda p: 0.0,
    "hazen": lambda p: 0.5,
    "weibull": lambda p: p,
    "linear": lambda p: 1 - p,
    "median_unbiased": lambda p: p / 3 + 1 / 3,
    "normal_unbiased": lambda p: p / 4 + 3 / 8,
}
#: By the names of methods that take one of the numbers, its place, by the probability and the count.
_PLACES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "round_outward": lambda p, n: np.where(p < 0.5, np.floor(p * n), np.ceil(n * p - 1)),
    "round_inward": lambda p, n: np.where(p < 0.5, np.ceil(p * n), np.floor(n * p - 1)),
    "round_nearest": lambda p, n: np.where(p < 0.5, np.round(p * n), np.round(n * p - 1)),
    "_lower": lambda p, n: np.floor(p * (n - 1)),
    "_higher": lambda p, n: np.ceil(p * (n - 1)),
    "_nearest": lambda p, n: np.round(p * (n - 1)),
}


def _taken(in_order: Any, place: Any) -> Any:
    return np.take_along_axis(in_order, np.asarray(place, np.intp), -1)


def _interpolated(in_order: Any, p: Any, count: Any, method: str, weights: Any) -> Any:
    """Return quantiles between two numbers, by Hyndman and Fan's formulas; places are counted by the weights."""
    if weights is None:
        position = p * count + _SHIFTS[method](p)
        before = np.floor(raw(position)) - 1
        after = before + 1
    else:
        sums = np.cumsum(weights, -1)
        # Those of 0 count, too: they may grow.
        known = np.sum(~np.isnan(raw(in_order)), -1, keepdims=True)
        whole = np.take_along_axis(sums, np.maximum(known, 1) - 1, -1)
        position = p * whole + _SHIFTS[method](p)
        before, after = (
            np.sum(raw(sums)[..., np.newaxis, :] <= raw(position)[..., np.newaxis] - back, -1) for back in (1, 0)
        )
    rest = position - np.floor(raw(position))
    bare = raw(rest)
    steps: dict[str, Callable[[], np.ndarray]] = {
        "inverted_cdf": lambda: (bare > 0) * 1.0,
        "averaged_inverted_cdf": lambda: (1.0 + (bare > 0)) / 2,
        "closest_observation": lambda: 1.0 - ((bare == 0) & (before % 2 == 1)),
    }
    if method in steps:
        rest = np.where(raw(position) < 0, 0.0, steps[method]()).astype(in_order.dtype)
    rest = np.where(before < 0, 0.0, rest)
    low, high = (_taken(in_order, np.clip(place, 0, count - 1)) for place in (before, after))
    return (1 - rest) * low + rest * high


def _by_harrell_davis(in_order: Any, p: Any, count: Any) -> Any:
    """Return quantiles as means of all numbers, with the probabilities of a beta distribution."""
    p, count = p[..., np.newaxis], count[..., np.newaxis]
    bounds = np.minimum(np.arange(in_order.shape[-1] + 1, dtype=in_order.dtype) / count, 1.0)
    shares = special.betainc(p * (count + 1), (1 - p) * (count + 1), bounds)
    shares = shares[..., 1:] - shares[..., :-1]
    shares = np.where(np.isnan(raw(shares)), 0.0, shares)
    return np.sum(shares * in_order[..., np.newaxis, :], -1)


def _in_order(x: Any, weights: Any) -> tuple[Any, Any, Any]:
    """Return numbers in order along the last axis, their weights, and how many have one other than 0."""
    if weights is None:
        return np.sort(x, -1), None, np.full((*x.shape[:-1], 1), x.shape[-1])
    is_without = raw(weights) == 0
    x = np.where(is_without, np.inf, x)
    order = np.argsort(raw(x), -1)
    count = x.shape[-1] - np.sum(is_without, -1, keepdims=True)
    return np.take_along_axis(x, order, -1), np.take_along_axis(weights, order, -1), count


def _quantiles(x: Any, p: Any, weights: Any, method: str, is_omitting: bool) -> Any:
    """Return quantiles along the last axis."""
    is_none = ~((raw(p) >= 0) & (raw(p) <= 1))
    p = np.where(is_none, 0.5, p)
    in_order, weights, count = _in_order(x, weights)
    is_nan = np.isnan(raw(in_order))
    lost = np.sum(is_nan, -1, keepdims=True)
    if is_omitting:
        count = count - lost
        is_lost = count == 0
        count = np.where(is_lost, 1, count)
    else:
        is_lost = lost > 0
    count = count.astype(in_order.dtype)
    if method == "harrell-davis":
        found = _by_harrell_davis(np.where(is_nan, 0.0, in_order), p, count)
    elif method == "_midpoint":
        found = sum(_taken(in_order, end(raw(p) * (count - 1))) for end in (np.floor, np.ceil)) / 2
    elif method in _PLACES:
        found = _taken(in_order, _PLACES[method](raw(p), count))
    else:
        found = _interpolated(in_order, p, count, method, weights)
    is_lost = is_lost | is_none
    return np.where(is_lost, np.nan, found) if np.any(is_lost) else found


@in_single
def quantile(
    x: Any,
    p: Any,
    *,
    method: str = "linear",
    axis: int | None = 0,
    nan_policy: str = "propagate",
    keepdims: bool | None = None,
    weights: Any = None,
) -> Tensor:
    """Return quantiles of data, of probabilities that may differ from line to line, as `scipy.stats.quantile`.

    Args:
        x: the data.
        p: the probabilities, along the same axis; the other axes are broadcast. It is nan beyond 0 and 1.
        method: one of Hyndman and Fan's, by the names that `numpy.quantile` has for them, or "harrell-davis",
            "round_outward", "round_inward" or "round_nearest".
        axis: along which, or None for all.
        nan_policy: "propagate", "omit" or "raise".
        keepdims: whether the axis remains; None to take it away where there is one probability.
        weights: how often each number counts, for Hyndman and Fan's methods.

    Raises:
        ValueError: there is no such method, the probabilities are whole numbers, or the axis is to be taken away
            although there are several.

    Example:
        >>> from asyncgrad.scipy import stats
        >>> stats.quantile([1.0, 2.0, 6.0], [0.5, 0.75]).tolist()
        [2.0, 4.0]
    """
    check_nan_policy("quantile", nan_policy)
    names = [*_SHIFTS, "harrell-davis", "_midpoint", *_PLACES]
    if method not in names:
        known = ", ".join(one for one in names if not one.startswith("_"))
        raise ValueError(f"scipy.stats.quantile takes method {known}, not {method!r}")
    if weights is not None and method not in _SHIFTS:
        raise ValueError(f"scipy.stats.quantile takes weights with method {', '.join(_SHIFTS)}, not {method!r}")
    if asarray(x).dtype.kind == "b":
        raise ValueError("scipy.stats.quantile takes x of real numbers, not of booleans")
    if asarray(p).dtype.kind != "f":
        raise ValueError(f"scipy.stats.quantile takes p of floating dtype, not {asarray(p).dtype}")
    data = _of_one_dtype(*((x, p) if weights is None else (x, p, weights)))
    refuse_complex("scipy.stats.quantile", "a real x", raw(data[0]), error=ValueError)
    refuse_nan(nan_policy, data[0])
    ndim = max(data[0].ndim, data[1].ndim)
    if axis is None:
        data, place = [one.reshape((-1,)) for one in data], 0
    else:
        place = normalize_axis_index(axis, ndim)
    lines = _lined_up(data, place)
    count = lines[1].shape[-1]
    if keepdims is False and count != 1:
        raise ValueError(f"scipy.stats.quantile takes keepdims=False for one probability along axis, not {count}")
    found = _quantiles(lines[0], lines[1], lines[2] if weights is not None else None, method, nan_policy == "omit")
    is_kept = count != 1 if keepdims is None else keepdims
    if axis is None:
        return found.reshape((1,) * (ndim - 1) + found.shape) if is_kept else found[0]
    found = np.moveaxis(found, -1, place)
    return found if is_kept else np.squeeze(found, place)


def _of_one_dtype(x: Any, *others: Any) -> list[Any]:
    """Return arguments as tensors of one dtype, which a number of Python does not widen."""
    x = floating(x)
    found = [x, *(floating(one).astype(x.dtype) if isinstance(one, float) else floating(one) for one in others)]
    dtype = np.result_type(*map(raw, found))
    return [one.astype(dtype, copy=False) for one in found]


def _lined_up(data: Sequence[Any], axis: int) -> list[Any]:
    """Return arrays with one axis last, and the others broadcast; the first one and its weights are as long."""
    ndim = max(1, *(one.ndim for one in data))
    data = [np.moveaxis(one.reshape((1,) * (ndim - one.ndim) + one.shape), axis, -1) for one in data]
    rest = np.broadcast_shapes(*(one.shape[:-1] for one in data))
    lengths = [one.shape[-1] for one in data]
    if len(data) == 3:
        lengths[0] = lengths[2] = np.broadcast_shapes((lengths[0],), (lengths[2],))[0]
    lines = [np.broadcast_to(one, (*rest, length)) for one, length in zip(data, lengths, strict=True)]
    if not lengths[0]:
        lines = [np.full((*rest, 1), np.nan, one.dtype) if not one.shape[-1] else one for one in lines]
    return lines


# Expectiles.


def expectile(a: Any, alpha: Any = 0.5, *, weights: Any = None) -> Tensor:
    """Return the expectile, as `scipy.stats.expectile`: a mean with one weight above itself, and another below.

    Args:
        a: the data, all of which count.
        alpha: the level, from 0 to 1: the weight above, where that below is 1 less it. 0.5 is the mean.
        weights: of the data, or None.

    Raises:
        ValueError: the level is not from 0 to 1, or there are no data.

    Example:
        >>> from asyncgrad.scipy import stats
        >>> stats.expectile([1.0, 2.0, 6.0], 0.75).item()
        4.2
    """
    if not 0 <= raw(alpha) <= 1:
        raise ValueError(f"scipy.stats.expectile takes an alpha from 0 to 1, not {alpha}")
    a = floating(a)
    if not a.size:
        raise ValueError(f"scipy.stats.expectile takes data, not an array of shape {a.shape}")
    weights = np.ones(a.shape, a.dtype) if weights is None else np.broadcast_to(floating(weights), a.shape)
    values, sizes, level = raw(a), raw(weights), raw(alpha)
    is_above = moved = values > np.average(values, weights=sizes)
    # Newton's steps, of a function of straight pieces, end.
    for _ in range(values.size):
        factors = sizes * np.where(moved, level, 1 - level)
        total = np.sum(factors)
        if not np.any(moved) or total == 0:
            # Those that count lie at one number.
            break
        is_above = moved
        moved = values > np.sum(factors * values) / total
        if np.array_equal(moved, is_above):
            break
    factors = weights * np.where(is_above, alpha, 1 - alpha) if np.any(is_above) else weights
    factors = factors if np.sum(raw(factors)) else weights
    return np.sum(factors * a) / np.sum(factors)
