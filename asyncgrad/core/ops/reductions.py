"""Reductions over axes: sums, products, means, variances and extremes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.axes import (
    array_like,
    kept_shape,
    laid_like,
    largest_over,
    product_over,
    reduced_axes,
    reduced_count,
    smallest_over,
    spread,
    sum_over,
    tensor_like,
)
from ..arrays.device_functions import own_function
from ..arrays.interception import on_device_of_arguments
from ..arrays.tensor_base import TensorBase
from ..arrays.typed import LikeFirst, like_first
from ..arrays.values import as_array, is_device_array, raw
from ..recording.kernels import kernel
from ..recording.primitive import RULES, derivative, primitive
from .cumulative import product_of_others, real_if_asked
from .dispatch import write_result
from .shaping import copy, reshape
from .single_precision import by_single, holds_half

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..arrays.array import Array


__all__ = [
    "amax",
    "amin",
    "average",
    "max",
    "mean",
    "mean_",
    "min",
    "prod",
    "ptp",
    "std",
    "sum",
    "sum_",
    "var",
]


#: The largest finite number of float16.
_LARGEST_HALF = 65_504


def _into(out: Any, result: Any) -> Any:
    """Return a result, written into `out` where there is one."""
    return result if out is None else write_result(out, result, "unsafe")


# sum and mean.


def _sum_on_device(a: Any, axis: Any, dtype: Any, keepdims: bool) -> Any:
    return own_function(np.sum, a)(a, axis=axis, dtype=dtype, keepdims=keepdims)


@primitive()
@kernel(variant=_sum_on_device)
def sum_(a: Any, axis: Any = None, dtype: npt.DTypeLike | None = None, keepdims: bool = False) -> Any:
    """Return the sum over axes."""
    return sum_over(a, axis, dtype, None, keepdims)


@derivative(sum_, "a")
def _(g: Array, a_shape: tuple[int, ...], axis: Any, keepdims: bool) -> Array:
    return spread(g, a_shape, axis, keepdims)


_sum = sum_.call


@like_first
def sum(
    a: Any,
    axis: Any = None,
    dtype: npt.DTypeLike | None = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = 0,
    where: Any = True,
) -> Any:
    """Return the sum over axes, of the elements where `where` holds, and of `initial`."""
    result = _sum(a if where is True else np.where(where, a, 0), axis, dtype, keepdims)
    if not (isinstance(initial, (int, float)) and initial == 0):
        result = result + _initial(initial, result)
    return _into(out, result)


def _initial(value: Any, result: Any) -> Any:
    """Return the initial value of a reduction in the dtype of its result, as NumPy has it."""
    if isinstance(value, TensorBase):
        return value
    number = as_array(value).astype(result.dtype)[()]
    # In a comparison NumPy makes an array of its own number, which stands beside no other library's.
    return number.item() if isinstance(number, np.generic) and is_device_array(raw(result)) else number


RULES[np.sum] = sum


def _mean_on_device(a: Any, axis: Any, dtype: Any, keepdims: bool) -> Any:
    return own_function(np.mean, a)(a, axis=axis, dtype=dtype, keepdims=keepdims)


@primitive()
@kernel(variant=_mean_on_device)
def mean_(a: Array, axis: Any = None, dtype: npt.DTypeLike | None = None, keepdims: Any = False) -> Any:
    """Return the mean over axes."""
    if dtype is None and a.dtype.kind == "f" and a.dtype.itemsize > 2 and a.size:
        return sum_over(a, axis, None, None, keepdims) / reduced_count(a.shape, axis)
    return np.mean(a, axis=axis, dtype=dtype, keepdims=keepdims)


@derivative(mean_, "a")
def _(g: Array, a_shape: tuple[int, ...], axis: Any, keepdims: bool) -> Array:
    # There is no element to give a gradient to where there is none to count.
    return spread(_divided(g, reduced_count(a_shape, axis, 1)), a_shape, axis, keepdims)


def _divided(g: Any, count: int) -> Any:
    # On a GPU float16 stays what it is, and the number would be infinite.
    return g * (1 / count) if count > _LARGEST_HALF and g.dtype == np.float16 else g / count


_mean = mean_.call


@like_first
def mean(
    a: Any,
    axis: Any = None,
    dtype: npt.DTypeLike | None = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    where: Any = True,
) -> Any:
    """Return the mean over axes, of the elements where `where` holds."""
    if where is True:
        return _into(out, _mean(a, axis, dtype, keepdims))
    if holds_half(a):
        return by_single(mean, np.mean, a, axis, dtype, keepdims=keepdims, where=where, out=out)
    total = _sum(np.where(where, a, 0), axis, dtype, keepdims)
    return _into(out, _as_total(total / _chosen(where, a, axis, keepdims), total, dtype))


def _as_total(value: Any, total: Any, dtype: Any) -> Any:
    """Return a sum that has been divided in the dtype of the sum, if that was asked for, as NumPy has it."""
    if dtype is None or total.dtype.kind not in "fc" or value.dtype == total.dtype:
        return value
    return value.astype(total.dtype)


RULES[np.mean] = mean


@on_device_of_arguments
def _chosen(where: Any, a: Any, axis: Any, keepdims: Any) -> Any:
    """Return how many elements `where` chooses, in a real dtype that leaves the dtype of `a` as it is."""
    dtype = _native(raw(a).real.dtype) if a.dtype.kind in "fc" else None
    return np.sum(np.broadcast_to(raw(where), a.shape), axis=axis, dtype=dtype, keepdims=keepdims)


def _native(dtype: Any) -> Any:
    """Return a dtype in the byte order of this machine, which the results of ufuncs have."""
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False) -> Any:
    """Return the mean over axes, weighted."""
    a = array_like(a)
    if holds_half(a, weights):
        return by_single(average, np.average, a, axis, weights, returned, keepdims=keepdims)
    if weights is None:
        result = _mean(a, axis, None, keepdims)
        total = tensor_like(np.full_like(raw(result), math.prod(a.shape) / math.prod(result.shape), order="C"), result)
    else:
        weights = _along(tensor_like(weights, a), a, axis)
        # As in NumPy, the weights are summed in the dtype of the result, which may be complex where they are real.
        dtype = np.result_type(a.dtype, weights.dtype, *(() if a.dtype.kind in "fc" else (np.float64,)))
        total = _sum(weights, axis, dtype, keepdims)
        if np.any(raw(total) == 0):
            raise ZeroDivisionError("the weights of an average sum to zero: it cannot be normalized")
        result = _sum(a * weights, axis, None, keepdims) / total
        if returned and total.shape != result.shape:
            total = copy(np.broadcast_to(total, result.shape), "C")
    return (result, total) if returned else result


RULES[np.average] = average


def _along(weights: Array, a: Array, axis: Any) -> Any:
    """Return weights of the shape of `a`, or one for each element along `axis`, so that they broadcast to `a`."""
    if weights.shape == a.shape:
        return weights
    if axis is None:
        raise TypeError(f"numpy.average of shape {a.shape} has weights of shape {weights.shape}: name their axis")
    axes = reduced_axes(axis, a.ndim)
    if weights.shape != tuple(a.shape[one] for one in axes):
        raise ValueError(f"numpy.average of shape {a.shape} along {axis} has weights of shape {weights.shape}")
    ordered = np.transpose(weights, sorted(range(len(axes)), key=axes.__getitem__))
    return reshape(ordered, tuple(length if one in axes else 1 for one, length in enumerate(a.shape)))


# var and std.


@primitive()
def var_(a: Any, axis: Any, dtype: Any, ddof: Any, keepdims: Any) -> Array:
    """Return the mean squared distance from the mean."""
    return np.var(a, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims)


def _var_gradient(g: Any, a: Any, axis: Any, ddof: Any, keepdims: bool) -> Any:
    freedom = reduced_count(a.shape, axis) - ddof
    factor = 2 / freedom if freedom > 0 else float("inf")
    return spread(g * factor, a.shape, axis, keepdims) * (a - np.mean(a, axis=axis, keepdims=True))


derivative(var_, "a")(_var_gradient)


@primitive()
def std_(a: Any, axis: Any, dtype: Any, ddof: Any, keepdims: Any) -> Array:
    """Return the square root of the variance."""
    return np.std(a, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims)


@derivative(std_, "a")
def _(g: Any, a: Array, out: Array, axis: Any, ddof: Any, keepdims: bool) -> Array:
    # There is a kink where all elements are equal; 0 is a subgradient there.
    flat = raw(out) == 0
    g = np.where(flat, 0, g / (2 * np.where(flat, 1, out)))
    return _var_gradient(g, a, axis, ddof, keepdims)


def _root(variance: Any) -> Any:
    """Return the square root of a variance, whose gradient at 0 is 0, as that of std."""
    flat = raw(variance) == 0
    if not is_device_array(flat) and not np.any(flat):
        return np.sqrt(variance)
    return laid_like(np.where(flat, 0, np.sqrt(np.where(flat, 1, variance))), variance)


def _write_root(out: Any, result: Any) -> Any:
    return result if out is None else write_result(out, result)


def _spread_function(plain: Callable[..., Any], root: bool) -> LikeFirst[...]:
    """Return var, or std where `root` is set, with all of NumPy's parameters."""

    def spread_function(
        a: Any,
        axis: Any = None,
        dtype: npt.DTypeLike | None = None,
        out: Any = None,
        ddof: Any = 0,
        keepdims: bool = False,
        *,
        where: Any = True,
        mean: Any = None,
        correction: Any = None,
    ) -> Any:
        if correction is not None:
            if ddof != 0:
                raise ValueError("ddof and correction are two names of one argument: pass one of them")
            ddof = correction
        if dtype is not None and holds_half(a):
            # So that distances are not rounded either: NumPy computes them in the wider dtype.
            a = a.astype(np.result_type(a.dtype, dtype))
        # Whole numbers have no history.
        is_whole = dtype is not None and np.dtype(dtype).kind in "biu"
        if where is True and mean is None and (is_whole or real_if_asked(a, dtype) is a):
            return store(out, plain(a, axis, dtype, ddof, keepdims))
        if holds_half(a, mean):
            mine, numpys = (std, np.std) if root else (var, np.var)
            means = {} if mean is None else {"mean": mean}
            options = {"ddof": ddof, "keepdims": keepdims, "where": where, **means}
            return by_single(mine, numpys, a, axis, dtype, out=out, **options)
        count = _chosen(where, a, axis, keepdims) - ddof
        # As in NumPy, `dtype` is the dtype of the sums alone: distances are between uncast elements.
        center = RULES[np.mean](a, axis, dtype, keepdims=True, where=where) if mean is None else mean
        away = a - center
        if where is not True:
            # A nan that is left out would make its gradient nan, which is 0 times 2 * nan.
            away = laid_like(np.where(where, away, 0), away)
        squares = np.real(np.conjugate(away) * away) if a.dtype.kind == "c" else np.square(away)
        total = sum(squares, axis, dtype, None, keepdims, where=where)
        result = _as_total(total / np.maximum(count, 0), total, dtype)
        return store(out, _root(result) if root else result)

    # As in NumPy, whose root is a ufunc, and whose variance is cast to any dtype.
    store = _write_root if root else _into
    spread_function.__name__ = spread_function.__qualname__ = "std" if root else "var"
    spread_function.__doc__ = f"Return the {'standard deviation' if root else 'variance'} over axes, as NumPy does."
    return spread_function


var = RULES[np.var] = _spread_function(var_.call, root=False)
std = RULES[np.std] = _spread_function(std_.call, root=True)


# prod.


@primitive()
def prod_(a: Any, axis: Any = None, dtype: npt.DTypeLike | None = None, keepdims: bool = False) -> Any:
    """Return the product over axes."""
    return product_over(a, axis, dtype, None, keepdims)


@derivative(prod_, "a")
def _(g: Any, a: Any, out: Any, axis: Any, keepdims: bool) -> Array:
    # Of elements on a GPU it is not asked whether one is 0, for the host would have to wait.
    if not is_device_array(raw(a)) and _is_normal(raw(out)):
        return spread(g * out, a.shape, axis, keepdims) / a
    return spread(g, a.shape, axis, keepdims) * product_of_others(a, reduced_axes(axis if a.ndim else None, a.ndim))


def _is_normal(products: Array) -> bool:
    """Tell whether products may be divided by their factors: none is 0, infinite or nan, or has lost digits next to 0.

    `test_a_product_beyond_the_range_of_its_dtype_has_the_product_of_the_others_as_gradient` guards it.
    """
    limits = np.finfo(products.dtype)
    sizes = np.abs(products)
    return bool(np.min(sizes, initial=1.0) >= limits.tiny and np.max(sizes, initial=1.0) <= limits.max)


_prod = prod_.call


@like_first
def prod(
    a: Any,
    axis: Any = None,
    dtype: npt.DTypeLike | None = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = 1,
    where: Any = True,
) -> Any:
    """Return the product over axes, of the elements where `where` holds, and of `initial`."""
    result = _prod(real_if_asked(a if where is True else np.where(where, a, 1), dtype), axis, dtype, keepdims)
    if not (isinstance(initial, (int, float)) and initial == 1):
        result = result * _initial(initial, result)
    return _into(out, result)


RULES[np.prod] = prod


# max and min: equal extremes share the gradient evenly.


@primitive()
def max_(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the largest element along axes."""
    if a.__class__ is not np.ndarray and is_device_array(a):
        return np.max(a, axis=axis, keepdims=keepdims)
    return largest_over(a, axis, None, None, keepdims)


@primitive()
def min_(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the smallest element along axes."""
    if a.__class__ is not np.ndarray and is_device_array(a):
        return np.min(a, axis=axis, keepdims=keepdims)
    return smallest_over(a, axis, None, None, keepdims)


def _extreme_gradient(g: Any, a: Any, out: Any, axis: Any, keepdims: bool) -> Any:
    elements, kept = raw(a), kept_shape(a.shape, axis)
    extremes = raw(out).reshape(kept)
    chosen = elements == extremes
    # Where no extreme is nan no element is, so that there is no need to wait for a device to tell.
    if extremes.__class__ is not np.ndarray or np.isnan(extremes).any():
        chosen |= np.isnan(elements)
    # On a GPU float16 stays what it is, and counts no further than to 65,504.
    count = sum_over(chosen, axis, np.float32 if g.dtype.itemsize == 2 else g.dtype, None, True)
    return g.reshape(kept) / count * chosen


derivative(max_, "a")(_extreme_gradient)
derivative(min_, "a")(_extreme_gradient)


def _extreme_function(
    name: str, plain: Callable[..., Any], pair: Callable[..., Any], outermost: float
) -> LikeFirst[...]:
    """Return max or min with all of NumPy's parameters; `outermost` is a value that is never the extreme."""

    def extreme(
        a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True
    ) -> Any:
        if where is not True:
            if initial is None:
                raise ValueError(f"{name} of a selection (where=) may be of nothing: pass initial= as well")
            a = np.where(where, a, outermost if a.dtype.kind == "f" else _initial(initial, a))
        if initial is None:
            return _into(out, plain(a, axis, keepdims))
        if reduced_count(a.shape, axis if a.ndim else None) == 0:
            nothing = _sum(a, axis, _native(a.dtype), keepdims)
            return _into(out, nothing + _initial(initial, nothing))
        result = plain(a, axis, keepdims)
        return _into(out, pair(result, _initial(initial, result)))

    extreme.__name__ = extreme.__qualname__ = name
    extreme.__doc__ = f"Return the {'largest' if name == 'max' else 'smallest'} element along axes, as NumPy does."
    return extreme


max = amax = RULES[np.max] = RULES[np.amax] = _extreme_function("max", max_.call, np.maximum, -np.inf)
min = amin = RULES[np.min] = RULES[np.amin] = _extreme_function("min", min_.call, np.minimum, np.inf)


def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    """Return the difference of the largest and the smallest element along axes."""
    return _into(out, max(a, axis, None, keepdims) - min(a, axis, None, keepdims))


RULES[np.ptp] = ptp
