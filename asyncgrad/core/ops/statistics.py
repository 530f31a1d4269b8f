"""Medians, covariances, and reductions that ignore nans."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import ArgumentTypeError
from ..arrays.axes import array_like, arrays_together, kept_shape, laid_like, reduced_axes, tensor_like
from ..arrays.device_arrays import placed
from ..arrays.values import as_like, is_device_array, on_host, raw, refuse_complex
from ..recording.primitive import RULES
from ..settings.process import without_warnings
from .diagonals import diag
from .dispatch import write, write_result
from .indexing import lines_over, sort, take
from .interpolation import (
    PICKING_METHODS,
    by_precise_shares,
    fractions_of_percentages,
    is_whole,
    quantile,
    quantile_ranks,
    recorded_fractions,
    recorded_positions,
    take_at,
)
from .joining import concatenate
from .linear_algebra import adjoint, dot
from .nondifferentiable import NonDifferentiable
from .reductions import average, max, mean, min, prod, std, sum, var
from .shaping import atleast_2d, reshape, squeeze
from .single_precision import by_single, holds_half

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..arrays.array import Array


__all__ = [
    "corrcoef",
    "cov",
    "median",
    "nanmax",
    "nanmean",
    "nanmedian",
    "nanmin",
    "nanpercentile",
    "nanprod",
    "nanquantile",
    "nanstd",
    "nansum",
    "nanvar",
]


def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    """Return the middle element along axes, or the mean of the two in the middle."""
    a = array_like(a)
    if holds_half(a):
        return by_single(median, np.median, a, axis, keepdims=keepdims, out=out)
    if a.dtype.kind not in "fc" or not a.dtype.isnative:
        a = a.astype(a.dtype.newbyteorder("=") if a.dtype.kind in "fc" else float)
    axes = reduced_axes(axis, a.ndim)
    ordered = sort(lines_over(a, axes), 0)
    length = ordered.shape[0]
    if not length:
        return mean(a, axes, None, out, keepdims)
    result = take(ordered, length // 2, 0)
    if not length % 2:
        result = (take(ordered, length // 2 - 1, 0) + result) / 2
    # Sorting puts nans last, and the median of values with a nan is nan.
    is_nan = np.isnan(raw(ordered)[-1])
    if is_device_array(is_nan) or np.any(is_nan):
        result = np.where(is_nan, np.nan, result)
    if a.shape and math.prod(a.shape):
        result = laid_like(result, _first_elements(raw(a), axes))
    if keepdims:
        result = reshape(result, kept_shape(a.shape, axes))
    return result if out is None else write_result(out, result, "unsafe")


def _first_elements(array: Array, axes: tuple[int, ...]) -> Any:
    """Return the first element along axes, in the memory layout of NumPy's medians."""
    if len(axes) == 1:
        return array[(*(slice(None),) * axes[0], 0)]
    kept = [axis for axis in range(array.ndim) if axis not in axes]
    return array.transpose((*kept, *axes)).reshape((*(array.shape[axis] for axis in kept), -1))[..., 0]


RULES[np.median] = median


def _replacing_nans(plain: Callable[..., Any], replacement: float) -> Callable[..., Any]:
    """Return a reduction that replaces each nan with `replacement`."""

    def reduction(a: Any, *args: Any, **kwargs: Any) -> Any:
        return plain(laid_like(np.where(np.isnan(raw(a)), replacement, a), a), *args, **kwargs)

    reduction.__name__ = f"nan{plain.__name__}"
    reduction.__doc__ = f"Return numpy.{plain.__name__} with each nan replaced by {replacement}."
    return reduction


def _ignoring_nans(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Return a reduction that ignores nans."""

    def reduction(a: Any, axis: Any = None, dtype: Any = None, *args: Any, where: Any = True, **kwargs: Any) -> Any:
        if a.dtype.kind not in "fc":
            return plain(a, axis, dtype, *args, where=where, **kwargs)
        if dtype is not None and np.dtype(dtype).kind not in "fc":
            raise ArgumentTypeError(
                f"numpy.nan{plain.__name__} of floating-point numbers takes no dtype {np.dtype(dtype)}: it has no nan"
            )
        chosen = np.logical_and(~np.isnan(raw(a)), raw(where))
        if plain is mean:
            return plain(a, axis, dtype, *args, where=chosen, **kwargs)
        out = args[0] if args else kwargs.pop("out", None)
        found = _spread(plain, a, axis, dtype, chosen, *args[1:], **kwargs)
        return found if out is None else write_result(out, found, "unsafe")

    reduction.__name__ = f"nan{plain.__name__}"
    reduction.__doc__ = f"Return numpy.{plain.__name__}, ignoring nans."
    return reduction


def _spread(
    plain: Callable[..., Any],
    a: Any,
    axis: Any,
    dtype: Any,
    chosen: Any,
    ddof: Any = 0,
    keepdims: Any = False,
    **rest: Any,
) -> Any:
    """Return a variance, or its root, of chosen elements; nan where there are not more of them than `ddof`."""
    less = rest.get("correction") or ddof
    lacks = np.sum(chosen, axis, keepdims=True) <= less
    if not is_device_array(lacks) and np.any(lacks):
        # Lines of zeros stand in for these: no element divides by 0, and no gradient of 0 becomes nan.
        chosen, a = chosen | lacks, laid_like(np.where(lacks, 0, a), a)
    result = plain(a, axis, dtype, None, ddof, keepdims, where=chosen, **rest)
    lacks = lacks.reshape(result.shape)
    if is_device_array(lacks) or np.any(lacks):
        if not is_device_array(lacks):
            warnings.warn("Degrees of freedom <= 0 for slice.", RuntimeWarning, stacklevel=6)
        result = np.where(lacks, np.nan, result).astype(result.dtype, copy=False)
    return result


nansum = RULES[np.nansum] = _replacing_nans(sum, 0)
nanprod = RULES[np.nanprod] = _replacing_nans(prod, 1)
nanmean = RULES[np.nanmean] = _ignoring_nans(mean)
nanvar = RULES[np.nanvar] = _ignoring_nans(var)
nanstd = RULES[np.nanstd] = _ignoring_nans(std)


def _extreme_ignoring_nans(plain: Callable[..., Any], replacement: float) -> Callable[..., Any]:
    """Return a reduction to the largest or smallest element that ignores nans; nan where all elements are."""

    def reduction(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, **kwargs: Any) -> Any:
        if a.dtype.kind not in "fc":
            return plain(a, axis, out, keepdims, **kwargs)
        is_nan = np.isnan(raw(a))
        result = plain(np.where(is_nan, replacement, a), axis, None, keepdims, **kwargs)
        all_nan = np.all(is_nan, axis=axis, keepdims=keepdims)
        result = np.where(all_nan, np.nan, result) if is_device_array(all_nan) or np.any(all_nan) else result
        return result if out is None else write_result(out, result, "unsafe")

    reduction.__name__ = f"nan{plain.__name__}"
    reduction.__doc__ = f"Return numpy.{plain.__name__}, ignoring nans."
    return reduction


nanmax = RULES[np.nanmax] = _extreme_ignoring_nans(max, -np.inf)
nanmin = RULES[np.nanmin] = _extreme_ignoring_nans(min, np.inf)


def _sort_and_count(a: Any, axes: tuple[int, ...]) -> tuple[Any, Any]:
    """Return the elements along axes sorted along the first axis, nans last, and the counts of other elements."""
    ordered = sort(lines_over(a, axes), 0)
    counts = np.sum(~np.isnan(raw(ordered)), axis=0)
    if not np.all(counts):
        warnings.warn("All-NaN slice encountered", RuntimeWarning, stacklevel=5)
    return ordered, counts


def nanmedian(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    """Return the middle element along axes, or the mean of the two in the middle; ignores nans."""
    a = array_like(a)
    if a.dtype.kind not in "fc":
        return median(a, axis, out, overwrite_input, keepdims)
    if holds_half(a):
        return by_single(nanmedian, np.nanmedian, a, axis, keepdims=keepdims, out=out)
    if not math.prod(a.shape):
        return nanmean(a, axis, None, out, keepdims)
    axes = reduced_axes(axis, a.ndim)
    ordered, counts = _sort_and_count(a, axes)
    result = (take_at(ordered, (counts - 1) // 2) + take_at(ordered, np.minimum(counts // 2, ordered.shape[0] - 1))) / 2
    if keepdims:
        result = reshape(result, kept_shape(a.shape, axes))
    return result if out is None else write(out, result)


RULES[np.nanmedian] = nanmedian


def nanquantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Any:
    """Return the quantile along axes by linear interpolation between the two nearest elements; ignores nans."""
    a = tensor_like(a, q)
    if holds_half(a):
        options = {"method": method, "keepdims": keepdims, "weights": weights}
        return by_single(by_precise_shares(nanquantile), np.nanquantile, a, q, axis, out=out, **options)
    refuse_complex("numpy.nanquantile, or numpy.nanpercentile,", "a real array", a, "pass a.real")
    if a.dtype.kind in "iu" and (method != "linear" or is_whole(q)):
        function = NonDifferentiable(np.nanquantile)
        return function(a, q, axis, out, overwrite_input, method, keepdims, weights=raw(weights))
    if a.dtype.kind in "iu":
        a = a.astype(float)
    if a.dtype.kind != "f":
        return quantile(a, q, axis, out, overwrite_input, method, keepdims, weights=weights)
    if not math.prod(a.shape):
        return nanmean(a, axis, None, out, keepdims)
    fractions = np.asarray(q, a.dtype) if type(q) in (int, float) else on_host(raw(q))
    if not ((fractions >= 0) & (fractions <= 1)).all():
        raise ValueError(
            f"numpy.nanquantile takes q from 0 to 1 (numpy.nanpercentile from 0 to 100), not the fraction {q}"
        )
    axes = reduced_axes(axis, a.ndim)
    ordered, counts = _sort_and_count(a, axes)
    if method == "linear" and weights is None:
        recorded = recorded_fractions(q, method)
        shares = as_like(fractions, counts) if recorded is None else recorded
        positions = shares.reshape(fractions.shape + (1,) * counts.ndim) * (counts - 1)
    else:
        # It has warned of lines of nans.
        recorded = None if weights is not None else recorded_fractions(q, method)
        positions = without_warnings(lambda: quantile_ranks(np.nanquantile, a, q, axis, method, weights))
        positions = as_like(np.where(np.isnan(positions), -1.0, positions), counts)
        if recorded is not None:
            recorded = recorded.reshape(fractions.shape + (1,) * counts.ndim)
            positions = recorded_positions(positions, recorded, method, counts)
    below = np.floor(raw(positions)).astype(int)
    result = lower = take_at(ordered, below)
    if method not in PICKING_METHODS:
        upper = take_at(ordered, np.minimum(below + 1, np.maximum(counts - 1, 0)))
        result = lower + (upper - lower) * (positions - below).astype(fractions.dtype)
    # Without weights NumPy computes line by line, so the quantiles of one line are adjacent in memory.
    together = np.empty(counts.shape + fractions.shape)
    if weights is None:
        result = laid_like(result, np.moveaxis(together, range(counts.ndim), range(-counts.ndim, 0)))
    if keepdims:
        result = reshape(result, fractions.shape + kept_shape(a.shape, axes))
    return result if out is None else write(out, result)


RULES[np.nanquantile] = nanquantile


def nanpercentile(a: Any, q: Any, *args: Any, weights: Any = None, **kwargs: Any) -> Any:
    """Return the value below which `q` percent of the elements lie; ignores nans."""
    a = tensor_like(a, q)
    if holds_half(a):
        return by_single(by_precise_shares(nanpercentile), np.nanpercentile, a, q, *args, weights=weights, **kwargs)
    return nanquantile(a, fractions_of_percentages(q, a.dtype, weights), *args, weights=weights, **kwargs)


RULES[np.nanpercentile] = nanpercentile


# Covariances.


def _variables(m: Any, y: Any, rowvar: bool, dtype: Any) -> Any:
    """Return the matrix of observations, with one variable in each row."""
    arrays = arrays_together([m] if y is None else [m, y])
    if any(one.ndim > 2 for one in arrays):
        raise ValueError(f"numpy.cov takes arrays with at most 2 axes, not {[one.ndim for one in arrays]}")
    if dtype is None:
        dtype = np.result_type(*(one.dtype for one in arrays), np.float64)
    rows = [atleast_2d(one).astype(dtype, copy=False) for one in arrays]
    x = rows[0].T if not rowvar and arrays[0].ndim != 1 else rows[0]
    if y is None or not x.shape[0]:
        return x
    return concatenate((x, rows[1].T if not rowvar and rows[1].shape[0] != 1 else rows[1]))


def _observation_weights(fweights: Any, aweights: Any, x: Array) -> Any:
    """Return the weight of each observation, a column of `x`, or None without weights."""
    count = x.shape[1]
    weights: Any = None
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is None:
            continue
        one, _ = placed(given, x)
        refuse_complex("numpy.cov", f"real {name}", one, f"pass {name}.real")
        one = one.astype(float, copy=False)
        if one.shape != (count,):
            raise RuntimeError(f"numpy.cov takes {name} of shape ({count},), one for each observation, not {one.shape}")
        if np.any(raw(one) < 0):
            raise ValueError(f"numpy.cov takes no negative {name}")
        if name == "fweights" and np.any(raw(one) != np.around(raw(one))):
            raise TypeError(
                "numpy.cov takes whole numbers as fweights, the counts of observations: pass other weights as aweights"
            )
        weights = one if weights is None else weights * one
    return weights


def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: npt.DTypeLike | None = None,
) -> Any:
    """Return the covariance matrix of variables, which are rows unless `rowvar` is false."""
    if ddof is not None and ddof != int(ddof):
        raise ValueError(f"numpy.cov takes a whole number as ddof, not {ddof}")
    x = _variables(m, y, rowvar, dtype)
    if not x.shape[0]:
        return np.zeros_like(x, float, shape=(0, 0))
    if ddof is None:
        ddof = 0 if bias else 1
    weights = _observation_weights(fweights, aweights, x)
    centre, total = average(x, 1, weights, True)
    factor: Any = x.shape[1] - ddof
    if weights is not None:
        factor = total[0]
        if ddof:
            factor = factor - (ddof if aweights is None else ddof * sum(weights * placed(aweights, x)[0]) / factor)
    if raw(factor) <= 0:
        warnings.warn("Degrees of freedom <= 0 for slice", RuntimeWarning, stacklevel=4)
        factor = np.float64(0.0)
    x = x - centre[:, np.newaxis]
    found = dot(x, adjoint(x if weights is None else x * weights))
    return squeeze((found * np.true_divide(1, factor)).astype(found.dtype, copy=False))


RULES[np.cov] = cov


def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: npt.DTypeLike | None = None) -> Any:
    """Return the correlation matrix of variables, which are rows unless `rowvar` is false."""
    found = cov(x, y, rowvar, dtype=dtype)
    if not found.ndim:
        return found / found
    deviations = np.sqrt(diag(found).real)
    found = found / deviations[:, np.newaxis] / deviations
    if found.dtype.kind != "c":
        return np.clip(found, -1, 1)
    return np.clip(found.real, -1, 1) + 1j * np.clip(found.imag, -1, 1)


RULES[np.corrcoef] = corrcoef
