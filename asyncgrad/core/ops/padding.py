"""Arrays with a border around them: of constants, of their own elements, or of what is computed of these."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...errors import MissingDerivativeError
from ..arrays.axes import array_like, in_rows, laid_like
from ..arrays.tensor_base import TensorBase
from ..arrays.values import is_device_array, raw
from ..recording.primitive import RULES, derivative, primitive
from .indexing import put
from .nondifferentiable import NonDifferentiable

if TYPE_CHECKING:
    from ..arrays.array import Array


__all__ = ["pad"]

#: The options of each mode.
_OPTIONS = {
    **dict.fromkeys(("edge", "empty", "wrap")),
    **dict.fromkeys(("maximum", "mean", "median", "minimum"), "stat_length"),
    **dict.fromkeys(("reflect", "symmetric"), "reflect_type"),
    "constant": "constant_values",
    "linear_ramp": "end_values",
}
_STATISTICS: dict[str, Callable[..., Any]] = {
    "maximum": np.max,
    "mean": np.mean,
    "median": np.median,
    "minimum": np.min,
}

#: Takes an array, an axis, and the widths before and after; returns the borders, each None where there is none.
Borders = Callable[[Any, int, tuple[int, int]], tuple[Any, Any]]


@primitive()
def pad_constant(array: Any, pad_width: tuple[tuple[int, int], ...], constant_values: Any) -> Array:
    """Return the array with a border of constants around it."""
    return np.pad(array, pad_width or 0, constant_values=constant_values)


@derivative(pad_constant, "array")
def _(g: Array, array_shape: tuple[int, ...], pad_width: tuple[tuple[int, int], ...]) -> Array:
    return g[tuple(slice(before, before + length) for (before, _), length in zip(pad_width, array_shape, strict=True))]


@primitive()
def pad_elements(
    array: Any, pad_width: tuple[tuple[int, int], ...], mode: Literal["edge", "reflect", "symmetric", "wrap"]
) -> Array:
    """Return the array with a border of its own elements around it."""
    if array.__class__ is not np.ndarray and is_device_array(array):
        # By indices, since CuPy's own pad wraps around otherwise than NumPy's where the border is the longer one.
        for axis, width in enumerate(pad_width):
            if width != (0, 0):
                array = np.take(array, _padded_places(array.shape[axis], width, mode), axis)
        return array.copy() if all(width == (0, 0) for width in pad_width) else array
    return np.pad(array, pad_width or 0, mode)


def _padded_places(length: int, width: tuple[int, int], mode: Any) -> Any:
    """Return for each place along a padded axis which of the elements stands there."""
    places: Any = np.pad(np.arange(length), width, mode)
    return places


@derivative(pad_elements, "array")
def _(g: Array, array_shape: tuple[int, ...], pad_width: tuple[tuple[int, int], ...], mode: str) -> Array:
    for axis, width in enumerate(pad_width):
        if width != (0, 0):
            length = array_shape[axis]
            places = _padded_places(length, width, mode)
            g = put(g, (*(slice(None),) * axis, places), (*array_shape[: axis + 1], *g.shape[axis + 1 :]))
    return g


def _pad_width(pad_width: Any, ndim: int) -> tuple[tuple[int, int], ...]:
    """Return how much to add before and after each axis."""
    if isinstance(pad_width, dict):
        widths: list[Any] = [(0, 0)] * ndim
        for axis, width in pad_width.items():
            widths[axis] = width if isinstance(width, tuple) else (width, width)
        pad_width = widths
    pairs = np.broadcast_to(raw(pad_width), (ndim, 2))
    if pairs.dtype.kind not in "iu":
        raise TypeError(f"pad needs widths of an integer dtype, not {pairs.dtype}")
    if (pairs < 0).any():
        raise ValueError(f"pad cannot add fewer than no elements: pad_width is {pad_width}")
    return tuple((int(before), int(after)) for before, after in pairs)


def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    """Return the array with a border around it, of constants, of its own elements, or of what is computed of these."""
    array = array_like(array)
    widths = _pad_width(pad_width, array.ndim)
    if callable(mode):
        raise MissingDerivativeError(
            "numpy.pad with a function as mode has no derivative rule, since the function writes into arrays: lay the "
            "border beside the array with np.concatenate"
        )
    if mode not in _OPTIONS:
        raise ValueError(f"numpy.pad has no mode {mode!r}: there are {', '.join(map(repr, sorted(_OPTIONS)))}")
    if kwargs.keys() - {_OPTIONS[mode]}:
        raise ValueError(f"numpy.pad with mode={mode!r} does not take {', '.join(kwargs.keys() - {_OPTIONS[mode]})}")
    option = next(iter(kwargs.values()), None)
    if mode in ("constant", "empty"):
        if isinstance(option, TensorBase) and option._requires_grad():
            raise MissingDerivativeError(
                "numpy.pad gives no gradient to constant_values, and these require grad: pass constant_values.numpy(), "
                "or lay them beside the array with np.concatenate"
            )
        return pad_constant(array, widths, 0 if option is None else raw(option))
    for axis, (length, width) in enumerate(zip(array.shape, widths, strict=True)):
        if not array.size and not length and any(width):
            raise ValueError(f"numpy.pad with mode={mode!r} cannot extend axis {axis}, which is empty")
    is_even = option in (None, "even")
    if mode in ("edge", "wrap") or (mode in ("reflect", "symmetric") and is_even):
        return pad_elements(array, widths, mode)
    if array.dtype.kind not in "fc":
        return NonDifferentiable(np.pad)(array, widths, mode, **{name: raw(value) for name, value in kwargs.items()})
    return _with_borders(array, widths, _borders_of(mode, option, array.ndim))


def _borders_of(mode: str, option: Any, ndim: int) -> Borders:
    if mode in ("reflect", "symmetric"):
        return lambda array, axis, width: _odd_reflections(array, axis, width, mode == "symmetric")
    if mode == "linear_ramp":
        ends = array_like(0 if option is None else option)
        is_for_each = isinstance(ends, np.ndarray) and (ends.size > 2 or ends.shape == (2, 1))
        ends = np.broadcast_to(ends, (ndim, 2))
        if is_for_each:
            # As in NumPy: Python's numbers, which leave the dtype of the steps to the array.
            ends = ends.tolist()
        return lambda array, axis, width: _ramps(array, axis, width, ends[axis])
    lengths = np.broadcast_to(np.array(option, object) if option is None else np.round(option).astype(int), (ndim, 2))
    if option is not None and (lengths < 0).any():
        raise ValueError(f"numpy.pad takes a stat_length of at least 0, not {option}")
    if mode in ("maximum", "minimum") and (lengths == 0).any():
        raise ValueError(f"numpy.pad with mode={mode!r} and stat_length=0 has nothing to take the {mode} of")
    return lambda array, axis, width: _statistics(array, axis, width, lengths[axis], mode)


def _with_borders(array: Any, widths: tuple[tuple[int, int], ...], borders: Borders) -> Any:
    """Return the array with borders along one axis after the other, each computed of the array with those before."""
    if not any(map(any, widths)) or not array.size:
        return pad_constant(array, widths, 0)
    padded = array
    for axis, width in enumerate(widths):
        if any(width):
            before, after = borders(padded, axis, width)
            padded = np.concatenate([part for part in (before, padded, after) if part is not None], axis)
    # The order of bytes, which NumPy keeps here and nowhere else.
    padded = padded.astype(array.dtype, copy=False)
    if raw(array).__class__ is np.ndarray and raw(array).flags.fnc:
        return laid_like(padded, np.empty(padded.shape, order="F"))
    return in_rows(padded)


def _part(array: Any, axis: int, start: int | None, stop: int | None) -> Any:
    return array[(*(slice(None),) * axis, slice(start, stop))]


def _ramps(array: Array, axis: int, width: tuple[int, int], ends: Any) -> tuple[Any, Any]:
    """Return what leads in even steps from the ends to the edges."""
    found = []
    for side, count in enumerate(width):
        edge = _part(array, axis, 0, 1) if side == 0 else _part(array, axis, -1, None)
        stop = np.squeeze(edge, axis)
        ramp = np.linspace(ends[side], stop, count, endpoint=False, dtype=array.dtype, axis=axis) if count else None
        found.append(ramp if side == 0 or ramp is None else np.flip(ramp, axis))
    return found[0], found[1]


def _statistics(array: Array, axis: int, width: tuple[int, int], lengths: Any, mode: str) -> tuple[Any, Any]:
    """Return the mean, say, of the elements nearest to each side, repeated."""
    length = array.shape[axis]
    counts = [length if count is None else min(int(count), length) for count in lengths]
    found = []
    for side, count in enumerate(counts):
        chosen = _part(array, axis, 0, count) if side == 0 else _part(array, axis, length - count, length)
        statistic = _STATISTICS[mode](chosen, axis=axis, keepdims=True)
        shape = (*array.shape[:axis], width[side], *array.shape[axis + 1 :])
        found.append(np.broadcast_to(statistic, shape) if width[side] else None)
    return found[0], found[1]


def _odd_reflections(array: Array, axis: int, width: tuple[int, int], with_edge: bool) -> tuple[Any, Any]:
    """Return the elements mirrored at the point of each edge, again and again where the border is the longer one."""
    period = array.shape[axis]
    if period == 1:
        # As NumPy: repeated.
        copies = [np.repeat(array, count, axis) if count else None for count in width]
        return copies[0], copies[1]
    whole, (before, after) = array, width
    offset = 0 if with_edge else 1
    while before or after:
        length = whole.shape[axis]
        # Only whole periods are mirrored.
        length = length // period * period if with_edge else (length - 1) // (period - 1) * (period - 1)
        left, right = min(length, before), min(length, after)
        first, last = _part(whole, axis, 0, 1), _part(whole, axis, -1, None)
        stop = whole.shape[axis] - offset
        parts = [
            2 * first - np.flip(_part(whole, axis, offset, left + offset), axis),
            whole,
            2 * last - np.flip(_part(whole, axis, stop - right, stop), axis),
        ]
        whole = np.concatenate(parts, axis)
        before, after = before - left, after - right
    start = width[0]
    return _part(whole, axis, 0, start), _part(whole, axis, start + period, None)


RULES[np.pad] = pad
