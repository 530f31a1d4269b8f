"""Medians, and reductions that leave out nans."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..graph.values import raw
from .axes import array_like, kept_shape, laid_like, reduced_axes
from .dispatch import write
from .indexing import lines_over, sort, take
from .primitive import RULES
from .reductions import max, mean, min, prod, std, sum, var
from .shaping import reshape

__all__ = ["median", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum", "nanvar"]


def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    """Return the middle element along axes, or the mean of the two in the middle."""
    a = array_like(a)
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
    absent = np.isnan(raw(ordered)[-1])
    if np.any(absent):
        result = np.where(absent, np.nan, result)
    if a.shape and math.prod(a.shape):
        result = laid_like(result, _first_over(raw(a), axes))
    if keepdims:
        result = reshape(result, kept_shape(a.shape, axes))
    return result if out is None else write(out, result)


def _first_over(array: Any, axes: tuple[int, ...]) -> Any:
    """Return the first elements along axes, laid out in memory as NumPy lays out medians."""
    if len(axes) == 1:
        return array[(*(slice(None),) * axes[0], 0)]
    kept = [axis for axis in range(array.ndim) if axis not in axes]
    return array.transpose((*kept, *axes)).reshape((*(array.shape[axis] for axis in kept), -1))[..., 0]


RULES[np.median] = median


def _without_nans(plain: Callable[..., Any], filling: float) -> Callable[..., Any]:
    """Return a reduction that counts each nan as `filling`."""

    def reduction(a: Any, *args: Any, **kwargs: Any) -> Any:
        return plain(laid_like(np.where(np.isnan(raw(a)), filling, a), a), *args, **kwargs)

    reduction.__name__ = f"nan{plain.__name__}"
    reduction.__doc__ = f"Return numpy.{plain.__name__} of what is no nan, each of which counts as {filling}."
    return reduction


def _of_others(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Return a reduction of the elements that are not nan."""

    def reduction(a: Any, *args: Any, where: Any = True, **kwargs: Any) -> Any:
        if a.dtype.kind not in "fc":
            return plain(a, *args, where=where, **kwargs)
        return plain(a, *args, where=np.logical_and(~np.isnan(raw(a)), raw(where)), **kwargs)

    reduction.__name__ = f"nan{plain.__name__}"
    reduction.__doc__ = f"Return numpy.{plain.__name__} of the elements that are no nan."
    return reduction


nansum = RULES[np.nansum] = _without_nans(sum, 0)
nanprod = RULES[np.nanprod] = _without_nans(prod, 1)
nanmean = RULES[np.nanmean] = _of_others(mean)
nanvar = RULES[np.nanvar] = _of_others(var)
nanstd = RULES[np.nanstd] = _of_others(std)


def _extreme_of_others(plain: Callable[..., Any], outermost: float) -> Callable[..., Any]:
    """Return an extreme of the elements that are not nan; nan where all are."""

    def reduction(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, **kwargs: Any) -> Any:
        if a.dtype.kind not in "fc":
            return plain(a, axis, out, keepdims, **kwargs)
        absent = np.isnan(raw(a))
        result = plain(np.where(absent, outermost, a), axis, None, keepdims, **kwargs)
        nothing = np.all(absent, axis=axis, keepdims=keepdims)
        result = np.where(nothing, np.nan, result) if np.any(nothing) else result
        return result if out is None else write(out, result)

    reduction.__name__ = f"nan{plain.__name__}"
    reduction.__doc__ = f"Return numpy.{plain.__name__} of the elements that are no nan."
    return reduction


nanmax = RULES[np.nanmax] = _extreme_of_others(max, -np.inf)
nanmin = RULES[np.nanmin] = _extreme_of_others(min, np.inf)
