"""Running sums and products, and the differences and products of neighbours that go with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.axes import array_like, axis_index, inverse_permutation
from ..arrays.device_arrays import placed
from ..arrays.values import raw
from ..recording.primitive import RULES, derivative, primitive
from .dispatch import write_result
from .shaping import line, reshape
from .single_precision import by_single, holds_half

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..arrays.array import Array


__all__ = [
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "forward_recurrence",
    "product_of_others",
    "real_if_asked",
    "recurrence",
    "rows",
    "trapezoid",
]


def rows(axis: int, start: int | None, stop: int | None) -> tuple[slice, ...]:
    """Return the index of a range along one axis, counted from the front."""
    return (*(slice(None),) * axis, slice(start, stop))


def real_if_asked(a: Array, dtype: Any) -> Any:
    """Return the real parts of complex elements where a product is to be computed in a real dtype, as NumPy does."""
    if dtype is None or a.dtype.kind != "c" or np.dtype(dtype).kind == "c":
        return a
    return a.astype(dtype)


# cumsum.


@primitive()
def cumsum_(a: Any, axis: int, dtype: npt.DTypeLike | None = None) -> Array:
    """Return the running sum along an axis."""
    return np.cumsum(a, axis, dtype)


def _sum_from_here(g: Any, axis: int) -> Any:
    return np.flip(np.cumsum(np.flip(g, axis), axis), axis)


@derivative(cumsum_, "a")
def _(g: Array, axis: int) -> Array:
    return _sum_from_here(g, axis)


def cumsum(a: Any, axis: int | None = None, dtype: npt.DTypeLike | None = None, out: Any = None) -> Any:
    """Return the running sum along an axis; None takes all elements in one row."""
    result = cumsum_(*line(a, axis), dtype)
    return result if out is None else write_result(out, result, "unsafe")


RULES[np.cumsum] = cumsum


# cumprod.


@primitive()
def cumprod_(a: Any, axis: int, dtype: npt.DTypeLike | None = None) -> Array:
    """Return the running product along an axis."""
    return np.cumprod(a, axis, dtype)


@derivative(cumprod_, "a")
def _(g: Any, a: Any, out: Any, axis: int) -> Array:
    if np.all(raw(a)):
        return _sum_from_here(g * out, axis) / a
    return _product_before(a, axis) * recurrence(g, a, axis)


def _running_product(a: Any, axis: int, dtype: Any) -> Any:
    return cumprod_.call(real_if_asked(a, dtype), axis, dtype)


def cumprod(a: Any, axis: int | None = None, dtype: npt.DTypeLike | None = None, out: Any = None) -> Any:
    """Return the running product along an axis; None takes all elements in one row."""
    result = _running_product(*line(a, axis), dtype)
    return result if out is None else write_result(out, result, "unsafe")


RULES[np.cumprod] = cumprod


# The derivative of cumprod where an element is 0, so that nothing can be divided by it.


@primitive()
def recurrence(g: Any, a: Any, axis: int) -> Array:
    """Return s with s[k] = g[k] + a[k+1] * s[k+1] along an axis; a[0] plays no part."""
    total = np.copy(np.moveaxis(g, axis, 0))
    factors = np.moveaxis(a, axis, 0)
    for k in range(len(total) - 2, -1, -1):
        total[k] += factors[k + 1] * total[k + 1]
    return np.moveaxis(total, 0, axis)


def forward_recurrence(h: Any, a: Any, axis: int) -> Any:
    """Return t with t[k] = h[k] + a[k] * t[k-1] along an axis: the transpose of `recurrence`, itself run backwards."""
    return np.flip(recurrence(np.flip(h, axis), np.roll(np.flip(a, axis), 1, axis), axis), axis)


@derivative(recurrence, "g")
def _(h: Array, a: Any, axis: int) -> Array:
    return forward_recurrence(h, a, axis)


@derivative(recurrence, "a")
def _(h: Array, a: Array, out: Any, axis: int) -> Array:
    earlier = forward_recurrence(h, a, axis)[rows(axis, None, -1)]
    return np.concatenate([np.zeros_like(h[rows(axis, None, 1)]), earlier], axis) * out


def _product_before(a: Any, axis: int) -> Any:
    """Return for each element the product of those before it along an axis."""
    ones = np.ones_like(a[rows(axis, None, 1)])
    return np.concatenate([ones, np.cumprod(a[rows(axis, None, -1)], axis)], axis)


def product_of_others(a: Array, axes: tuple[int, ...]) -> Any:
    """Return for each element the product of all others along the axes together, right where some are 0."""
    kept = [axis for axis in range(a.ndim) if axis not in axes]
    order = (*kept, *axes)
    moved = np.transpose(a, order)
    lines = np.reshape(moved, (*(a.shape[axis] for axis in kept), -1)) if a.size else moved
    last = len(kept)
    after = np.flip(_product_before(np.flip(lines, last), last), last)
    others = np.reshape(_product_before(lines, last) * after, moved.shape)
    return np.transpose(others, inverse_permutation(order))


# The array API's names.


def _cumulative(name: str, running: Any, first: int) -> Any:
    """Return cumulative_sum or cumulative_prod; `first` is what `include_initial` puts in front."""

    def cumulative(
        x: Array,
        /,
        *,
        axis: int | None = None,
        dtype: npt.DTypeLike | None = None,
        out: Any = None,
        include_initial: bool = False,
    ) -> Any:
        if axis is None and x.ndim != 1:
            raise ValueError(f"{name} of an array with {x.ndim} axes needs an axis")
        along_line, along = line(x, axis)
        result = running(along_line, along, dtype)
        if include_initial:
            shape = (*along_line.shape[:along], 1, *along_line.shape[along + 1 :])
            result = np.concatenate([np.full_like(result, first, shape=shape), result], along)
        return result if out is None else write_result(out, result, "unsafe")

    cumulative.__name__ = cumulative.__qualname__ = name
    cumulative.__doc__ = f"Return the running {'sum' if first == 0 else 'product'} along an axis, as NumPy does."
    return cumulative


cumulative_sum: Any = _cumulative("cumulative_sum", cumsum_, 0)
cumulative_prod: Any = _cumulative("cumulative_prod", _running_product, 1)
RULES[np.cumulative_sum] = cumulative_sum
RULES[np.cumulative_prod] = cumulative_prod


# Neighbours.

_ABSENT: Any = object()


def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = _ABSENT, append: Any = _ABSENT) -> Any:
    """Return the differences of neighbours along an axis, taken `n` times."""
    a = array_like(a)
    if n < 0:
        raise ValueError(f"diff is taken n times, and n={n} is negative")
    if n == 0:
        return a
    if a.ndim == 0:
        raise ValueError("diff needs at least one axis, and this array has none")
    axis = axis_index(axis, a.ndim)
    ends = [prepend, append]
    for index, end in enumerate(ends):
        if end is not _ABSENT and np.ndim(end) == 0:
            ends[index] = np.broadcast_to(placed(end, a)[0], (*a.shape[:axis], 1, *a.shape[axis + 1 :]))
    parts = [part for part in (ends[0], a, ends[1]) if part is not _ABSENT]
    if len(parts) > 1:
        a = np.concatenate(parts, axis)
    difference = np.not_equal if a.dtype.kind == "b" else np.subtract
    for _ in range(n):
        a = difference(a[rows(axis, 1, None)], a[rows(axis, None, -1)])
    return a


RULES[np.diff] = diff


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Return the integral along an axis by the trapezoidal rule."""
    y = array_like(y)
    if holds_half(y, x, dx):
        return by_single(trapezoid, np.trapezoid, y, x, dx, axis)
    axis = axis_index(axis, y.ndim)
    if x is None:
        steps = dx
    else:
        x = array_like(x)
        steps = diff(x, axis=axis if x.ndim > 1 else 0)
        if x.ndim == 1:
            steps = reshape(steps, [-1 if one == axis else 1 for one in range(y.ndim)])
    means = (y[rows(axis, 1, None)] + y[rows(axis, None, -1)]) / 2.0
    return np.sum(steps * means, axis=axis)


RULES[np.trapezoid] = trapezoid
