"""Evenly spaced numbers, differences of neighbours, insertion, resizing, and running sums without nans."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import ArgumentTypeError, DeviceError
from ..arrays.axes import array_like, axis_index, laid_like, tensor_like
from ..arrays.device_arrays import placed
from ..arrays.tensor_base import TensorBase
from ..arrays.values import as_like, is_device_array, on_host, raw, zeros_like
from ..recording.primitive import RULES, derivative, primitive
from .cumulative import cumprod, cumsum
from .indexing import put
from .shaping import expand_dims, ravel, reshape

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..arrays.array import Array


__all__ = [
    "ediff1d",
    "geomspace",
    "insert",
    "linspace",
    "logspace",
    "nancumprod",
    "nancumsum",
    "resize",
    "unwrap",
]

# Between two ends.


def _fractions(shape: tuple[int, ...], axis: int, endpoint: bool) -> Any:
    """Return each position along an axis as a fraction of the way from start to stop, with axes to broadcast."""
    axis = axis_index(axis, len(shape))
    count = shape[axis]
    fractions = np.arange(count) / max(count - 1 if endpoint else count, 1)
    return fractions.reshape([-1 if one == axis else 1 for one in range(len(shape))])


def _as_real(fractions: Array, g: Any) -> Any:
    """Return fractions in the real dtype of a gradient, on its device."""
    return as_like(fractions.astype(raw(g).real.dtype), raw(g))


@primitive()
def linspace_(start: Any, stop: Any, num: int, endpoint: bool, dtype: Any, axis: int) -> Array:
    """Return evenly spaced numbers from `start` to `stop`."""
    return np.linspace(start, stop, num, endpoint, dtype=dtype, axis=axis)


@derivative(linspace_, "start")
def _(g: Any, out_shape: tuple[int, ...], endpoint: bool, axis: int) -> Array:
    return np.sum(g * _as_real(1 - _fractions(out_shape, axis, endpoint), g), axis=axis)


@derivative(linspace_, "stop")
def _(g: Any, out_shape: tuple[int, ...], endpoint: bool, axis: int) -> Array:
    return np.sum(g * _as_real(_fractions(out_shape, axis, endpoint), g), axis=axis)


def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: npt.DTypeLike | None = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """Return `num` evenly spaced numbers from `start` to `stop`, and the step between them if `retstep`."""
    home = next((end._device for end in (start, stop) if isinstance(end, TensorBase)), None)
    if device not in (None, "cpu", home, getattr(home, "name", None)):
        name = getattr(device, "name", device)
        raise DeviceError(f"linspace computes where its ends are, not on {name!r}: write start.to({name!r}) first")
    result = linspace_.call(start, stop, num, endpoint, dtype, axis)
    if not retstep:
        return result
    intervals = num - 1 if endpoint else num
    step = (stop * 1.0 - start) / intervals if intervals > 0 else (stop * 1.0 - start) * np.nan
    return result, step


RULES[np.linspace] = linspace


def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: npt.DTypeLike | None = None,
    axis: int = 0,
) -> Any:
    """Return `base` to the power of `num` evenly spaced numbers from `start` to `stop`."""
    if np.ndim(base):
        shape = np.broadcast_shapes(*(np.shape(raw(one)) for one in (start, stop, base)))
        start, stop, base = (
            reshape(one, (1,) * (len(shape) - one.ndim) + one.shape) for one in placed(start, stop, base)
        )
        base = expand_dims(base, axis)
    result = np.power(base, linspace(start, stop, num, endpoint, axis=axis))
    return result if dtype is None else result.astype(dtype, copy=False)


RULES[np.logspace] = logspace


@primitive()
def geomspace_(start: Any, stop: Any, num: int, endpoint: bool, dtype: Any, axis: int) -> Any:
    """Return numbers from `start` to `stop` in geometric progression."""
    if is_device_array(start) or is_device_array(stop):
        return _geometric(start, stop, num, endpoint, dtype, axis)
    return np.geomspace(start, stop, num, endpoint, dtype, axis)


def _geometric(start: Any, stop: Any, num: int, endpoint: bool, dtype: Any, axis: int) -> Any:
    """Return what `np.geomspace` does, for arrays of a library that has no such function."""
    start, stop = placed(start, stop)
    if (start == 0).any() or (stop == 0).any():
        raise ValueError("geomspace takes no end that is 0, of which nothing is a multiple")
    exact = np.result_type(start.dtype, stop.dtype, 1.0, np.float64 if dtype is None else dtype)
    start, stop = start.astype(exact), stop.astype(exact)
    sign = start / np.abs(start)
    first, last = start / sign, stop / sign
    result = np.power(10.0, np.linspace(np.log10(first), np.log10(last), num, endpoint))
    if num:
        result[0] = first
    if num > 1 and endpoint:
        result[-1] = last
    return np.moveaxis(result * sign, 0, axis).astype(exact if dtype is None else dtype, copy=False)


@derivative(geomspace_, "start")
def _(g: Any, out: Any, start: Any, endpoint: bool, axis: int) -> Array:
    return np.sum(g * out * _as_real(1 - _fractions(out.shape, axis, endpoint), g), axis=axis) / start


@derivative(geomspace_, "stop")
def _(g: Any, out: Any, stop: Any, endpoint: bool, axis: int) -> Array:
    return np.sum(g * out * _as_real(_fractions(out.shape, axis, endpoint), g), axis=axis) / stop


def geomspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: npt.DTypeLike | None = None, axis: int = 0
) -> Any:
    """Return `num` numbers from `start` to `stop` in geometric progression."""
    return geomspace_.call(start, stop, num, endpoint, dtype, axis)


RULES[np.geomspace] = geomspace


# Differences of neighbours.


@primitive()
def ediff1d_(ary: Any, to_end: Any, to_begin: Any) -> Array:
    """Return the differences of neighbours in the flattened array, between `to_begin` and `to_end`."""
    if ary.__class__ is not np.ndarray and is_device_array(ary):
        to_end, to_begin = (None if ends is None else placed(ends, ary)[0] for ends in (to_end, to_begin))
    return np.ediff1d(ary, to_end, to_begin)


@derivative(ediff1d_, "ary")
def _(g: Array, ary_shape: tuple[int, ...], to_begin: Any) -> Array:
    count = math.prod(ary_shape)
    if count < 2:
        return zeros_like(raw(g), ary_shape)
    before = 0 if to_begin is None else np.size(raw(to_begin))
    end = zeros_like(raw(g), (1,))
    return -np.reshape(np.diff(g[before : before + count - 1], prepend=end, append=end), ary_shape)


@derivative(ediff1d_, "to_end")
def _(g: Array, to_end_shape: tuple[int, ...]) -> Array:
    return np.reshape(g[g.shape[0] - math.prod(to_end_shape) :], to_end_shape)


@derivative(ediff1d_, "to_begin")
def _(g: Array, to_begin_shape: tuple[int, ...]) -> Array:
    return np.reshape(g[: math.prod(to_begin_shape)], to_begin_shape)


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Return the differences of neighbours in the flattened array, between `to_begin` and `to_end`."""
    return ediff1d_.call(array_like(ary), to_end, to_begin)


RULES[np.ediff1d] = ediff1d


@primitive()
def unwrap_(p: Any, discont: Any, axis: int, period: Any) -> Array:
    """Return angles without jumps of more than half a period between neighbours."""
    return np.unwrap(p, discont, axis, period=period)


@derivative(unwrap_, "p")
def _(g: Array) -> Array:
    return g


@derivative(unwrap_, "period")
def _(g: Any, p: Any, out: Any, period: Any) -> Array:
    return g * np.rint((out - p) / period)


def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * np.pi) -> Any:
    """Return angles without jumps of more than half a period between neighbours."""
    return unwrap_.call(array_like(p), raw(discont), axis, period)


RULES[np.unwrap] = unwrap


# More elements, or fewer.


@primitive()
def insert_(arr: Any, obj: Any, values: Any, axis: int) -> Any:
    """Return `arr` with values inserted before indices along an axis; the node saves `obj`, which must not change."""
    if arr.__class__ is not np.ndarray and is_device_array(arr):
        return _inserted(arr, obj, values, axis)
    return np.insert(arr, obj, values, axis)


def _inserted(arr: Array, obj: Any, values: Any, axis: int) -> Any:
    """Return what `np.insert` does, for arrays of a library that has no such function."""
    values = values.reshape((1,) * (arr.ndim - values.ndim) + values.shape).astype(arr.dtype)
    if not isinstance(obj, slice) and np.ndim(obj) == 0:
        values = np.moveaxis(values, 0, axis)
    length = arr.shape[axis]
    is_one_for_each = isinstance(obj, slice) or obj.dtype.kind == "b"
    count = np.arange(length)[obj].size if is_one_for_each else obj.size
    shape = [*arr.shape]
    shape[axis] = values.shape[axis] if count == 1 else count
    both = np.concatenate([arr, np.broadcast_to(values, shape)], axis)
    origins = _origins(arr.shape, both.shape, obj, axis)
    return np.take(both, np.where(origins < 0, length - 1 - origins, origins), axis)


def _origins(arr_shape: tuple[int, ...], out_shape: tuple[int, ...], obj: Any, axis: int) -> Any:
    """Return the origin of each element along the axis: an index of `arr`, or -1, -2 ... for the inserted values."""
    length = arr_shape[axis]
    return np.insert(np.arange(length), obj, -1 - np.arange(out_shape[axis] - length))


@derivative(insert_, "arr")
def _(g: Array, arr_shape: tuple[int, ...], out_shape: tuple[int, ...], obj: Any, axis: int) -> Array:
    return np.take(g, np.flatnonzero(_origins(arr_shape, out_shape, obj, axis) >= 0), axis)


@derivative(insert_, "values")
def _(g: Array, arr_shape: tuple[int, ...], out_shape: tuple[int, ...], obj: Any, axis: int) -> Array:
    origins = _origins(arr_shape, out_shape, obj, axis)
    inserted = np.flatnonzero(origins < 0)
    taken = np.take(g, inserted[np.argsort(-origins[inserted])], axis)
    # For a scalar `obj`, the first axis of `values` corresponds to `axis`.
    return np.moveaxis(taken, axis, 0) if not isinstance(obj, slice) and np.ndim(obj) == 0 else taken


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    """Return `arr` with values inserted before indices along an axis; with axis None, `arr` is flattened."""
    arr = tensor_like(arr, obj)
    if axis is None:
        arr, axis = (arr if arr.ndim == 1 else ravel(arr)), 0
    if not isinstance(obj, slice):
        # They say where the elements go, as a shape does: they are read on the host.
        positions = np.array(on_host(raw(obj)))
        obj = positions if positions.size or hasattr(obj, "dtype") else positions.astype(np.intp)
    values, _ = placed(values, arr)
    if values.dtype.kind == "c" and arr.dtype.kind != "c":
        raise ArgumentTypeError(
            f"numpy.insert puts no values of dtype {values.dtype} into an array of dtype {arr.dtype}: pass values.real"
        )
    return insert_.call(arr, obj, values, axis_index(axis, arr.ndim))


RULES[np.insert] = insert


@primitive()
def resize_(a: Any, new_shape: Any) -> Array:
    """Return an array of a shape, filled with repetitions of the elements."""
    return np.resize(a, new_shape)


@derivative(resize_, "a")
def _(g: Array, a_shape: tuple[int, ...]) -> Array:
    count = math.prod(a_shape)
    if not count:
        return zeros_like(raw(g), a_shape)
    positions = np.arange(math.prod(g.shape)) % count
    return np.reshape(put(np.reshape(g, -1), positions, (count,)), a_shape)


def resize(a: Any, new_shape: Any) -> Any:
    """Return an array of a shape, filled with repetitions of the elements."""
    return resize_.call(array_like(a), new_shape)


RULES[np.resize] = resize


# Running sums and products that ignore nans.


def _replacing_nans(plain: Callable[..., Any], replacement: float) -> Callable[..., Any]:
    """Return a running sum or product that replaces each nan with `replacement`."""

    def running(a: Any, axis: int | None = None, dtype: npt.DTypeLike | None = None, out: Any = None) -> Any:
        a = array_like(a)
        if a.dtype.kind in "fc":
            a = laid_like(np.where(np.isnan(raw(a)), replacement, a), a)
        return plain(a, axis, dtype, out)

    running.__name__ = running.__qualname__ = f"nan{plain.__name__}"
    running.__doc__ = f"Return numpy.{plain.__name__} with each nan replaced by {replacement}."
    return running


nancumsum = RULES[np.nancumsum] = _replacing_nans(cumsum, 0)
nancumprod = RULES[np.nancumprod] = _replacing_nans(cumprod, 1)
