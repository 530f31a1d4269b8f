"""Integrals of samples, as differentiable functions of the samples and of their places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.axes import axis_index
from ...core.arrays.values import raw
from ...core.tensor import Tensor
from ...errors import ArgumentError
from ..arguments import floating

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["cumulative_simpson", "cumulative_trapezoid", "romb", "simpson", "trapezoid"]


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Tensor:
    """Return the integral of samples by the trapezoidal rule.

    Args:
        y: the samples.
        x: where they were taken; None for equal steps.
        dx: the step, without `x`.
        axis: along which to integrate.

    Source: scipy.integrate.trapezoid.
    """
    y, steps = _samples_and_steps(y, x, dx, axis, "trapezoid")
    found = np.sum(steps * (y[..., 1:] + y[..., :-1]), axis=-1) / 2
    # As SciPy, in the dtype of the samples, whatever that of their places is.
    return found.astype(y.dtype, copy=False) if found.dtype.kind == y.dtype.kind else found


def cumulative_trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None) -> Tensor:
    """Return the integrals of samples up to each of them, by the trapezoidal rule.

    Args:
        y: the samples.
        x: where they were taken; None for equal steps.
        dx: the step, without `x`.
        axis: along which to integrate.
        initial: None, or 0 for an integral up to the first sample, too.

    Raises:
        ArgumentError: `initial` is another number, or `x` does not fit `y`.

    Source: scipy.integrate.cumulative_trapezoid.
    """
    if initial not in (None, 0):
        raise ArgumentError(f"scipy.integrate.cumulative_trapezoid: initial must be None or 0, not {initial!r}")
    y, steps = _samples_and_steps(y, x, dx, axis, "cumulative_trapezoid")
    if not y.shape[-1]:
        raise ArgumentError("scipy.integrate.cumulative_trapezoid takes at least one sample")
    sums = np.cumsum(steps * (y[..., 1:] + y[..., :-1]) / 2, axis=-1)
    return _back(sums if initial is None else _with_first(sums, 0.0), axis)


def simpson(y: Any, x: Any = None, *, dx: Any = 1.0, axis: int = -1) -> Tensor:
    """Return the integral of samples by Simpson's rule; the last step of an odd number is a parabola's, too.

    Args:
        y: the samples.
        x: where they were taken; None for equal steps.
        dx: the step, without `x`.
        axis: along which to integrate.

    Raises:
        ArgumentError: `x` does not fit `y`.

    Source: scipy.integrate.simpson.

    Example:
        >>> from asyncgrad.scipy import integrate
        >>> round(integrate.simpson([0.0, 1.0, 4.0]).item(), 6)
        2.666667
    """
    y, steps = _samples_and_steps(y, x, dx, axis, "simpson")
    count = y.shape[-1]
    if not count:
        raise ArgumentError("scipy.integrate.simpson takes at least one sample along the axis, not none")
    if count < 3:
        return np.sum(steps * (y[..., 1:] + y[..., :-1]), axis=-1) / 2
    steps = np.broadcast_to(steps, (*np.shape(steps)[:-1], count - 1))
    last = count - 1 if count % 2 else count - 2
    first, second = steps[..., 0:last:2], steps[..., 1:last:2]
    parts = _first_part(y[..., 0:last:2], y[..., 1:last:2], y[..., 2 : last + 1 : 2], first, second)
    parts = parts + _first_part(y[..., 2 : last + 1 : 2], y[..., 1:last:2], y[..., 0:last:2], second, first)
    # As SciPy, where one of the two steps is 0, or the second undoes the first.
    is_empty = (raw(first) * raw(second) == 0) | (raw(first) + raw(second) == 0)
    if is_empty.any():
        parts = np.where(is_empty, (first + second) * (y[..., 0:last:2] + y[..., 2 : last + 1 : 2]) / 3, parts)
    result = np.sum(parts, axis=-1)
    if count % 2 == 0:
        result = result + _last_part(y[..., -1], y[..., -2], y[..., -3], steps[..., -1], steps[..., -2])
        if not result.ndim:
            # SciPy's correction is in double precision, and a number takes its dtype, where an array keeps its own.
            result = result.astype(np.result_type(result.dtype, float), copy=False)
    return result


def cumulative_simpson(y: Any, *, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None) -> Tensor:
    """Return the integrals of samples up to each of them, by parabolas through three neighbours.

    Args:
        y: the samples.
        x: where they were taken; None for equal steps.
        dx: the step, without `x`.
        axis: along which to integrate.
        initial: None, or what is added to all integrals, and put first.

    Raises:
        ArgumentError: `x` does not fit `y`.

    Source: scipy.integrate.cumulative_simpson.
    """
    y, steps = _samples_and_steps(y, x, dx, axis, "cumulative_simpson")
    count = y.shape[-1]
    if not count:
        raise ArgumentError("scipy.integrate.cumulative_simpson takes at least one sample along the axis, not none")
    if x is not None and (raw(steps) <= 0).any():
        raise ArgumentError("scipy.integrate.cumulative_simpson takes an x that increases along the axis: sort it")
    if count < 3:
        sums = np.cumsum(steps * (y[..., 1:] + y[..., :-1]) / 2, axis=-1)
    else:
        steps = np.broadcast_to(steps, (*np.shape(steps)[:-1], count - 1))
        forward = _first_part(y[..., :-2], y[..., 1:-1], y[..., 2:], steps[..., :-1], steps[..., 1:])
        backward = _first_part(y[..., 2:], y[..., 1:-1], y[..., :-2], steps[..., 1:], steps[..., :-1])
        # The first of two steps is integrated forward; each second, and the last, backward.
        is_first = np.arange(count - 2) % 2 == 0
        parts = np.where(is_first[1:], forward[..., 1:], backward[..., :-1])
        sums = np.cumsum(np.concatenate([forward[..., :1], parts, backward[..., -1:]], axis=-1), axis=-1)
    if initial is not None:
        initial = floating(initial)
        if initial.ndim:
            initial = np.moveaxis(initial, axis, -1)
        sums = _with_first(sums, 0.0) + initial
    return _back(sums, axis)


def romb(y: Any, dx: Any = 1.0, axis: int = -1, show: bool = False) -> Tensor:
    """Return the integral of `2**k + 1` equally spaced samples by Romberg's method.

    Args:
        y: the samples.
        dx: the step.
        axis: along which to integrate.
        show: must be False.

    Raises:
        ArgumentError: the number of samples is another one, or `show` is true.

    Source: scipy.integrate.romb.
    """
    if show:
        raise ArgumentError("scipy.integrate.romb: show=True is not supported")
    y = floating(y)
    y = np.moveaxis(y, axis_index(axis, y.ndim), -1)
    intervals = y.shape[-1] - 1
    levels = intervals.bit_length() - 1
    if intervals < 1 or intervals != 1 << levels:
        raise ArgumentError(
            f"scipy.integrate.romb: the number of samples must be 1 more than a power of 2, not {intervals + 1}"
        )
    row = [(y[..., 0] + y[..., -1]) / 2 * dx * intervals]
    for level in range(1, levels + 1):
        step = intervals >> level
        middle = np.sum(y[..., step :: 2 * step], axis=-1) * step * dx
        found = [row[0] / 2 + middle]
        for order in range(1, level + 1):
            found.append(found[-1] + (found[-1] - row[order - 1]) / (4**order - 1))
        row = found
    return row[-1]


def _samples_and_steps(y: Any, x: Any, dx: Any, axis: int, name: str) -> tuple[Tensor, Any]:
    """Return samples along the last axis, and the steps between them."""
    y = floating(y)
    index = axis_index(axis, y.ndim)
    y = np.moveaxis(y, index, -1)
    if x is None:
        # Of a number of Python's, NumPy's operators take the dtype of the samples, as SciPy's trapezoidal rule does.
        is_weak = isinstance(dx, (int, float)) and not isinstance(dx, np.generic) and name != "cumulative_simpson"
        dx = floating(dx)
        if is_weak and y.dtype.kind == "f":
            dx = dx.astype(y.dtype)
        return y, np.moveaxis(dx, index, -1) if dx.ndim == y.ndim else np.reshape(dx, (*dx.shape, 1))
    x = floating(x)
    places = x if x.ndim == 1 else np.moveaxis(x, index, -1)
    if places.shape[-1] != y.shape[-1]:
        raise ArgumentError(
            f"scipy.integrate.{name}: x of shape {x.shape} must have as many elements along axis {axis} as y has: "
            f"{y.shape[-1]}"
        )
    return y, np.diff(places, axis=-1)


def _first_part(y0: Any, y1: Any, y2: Any, step: Any, other: Any) -> Any:
    """Return the integral from the first to the second of three samples of the parabola through them."""
    both = step + other
    safe, safe_other = np.where(both == 0, 1.0, both), np.where(other == 0, 1.0, other)
    # The slope is that of the chord less the parabola's bend.
    bend = np.where(both == 0, 0.0, ((y2 - y1) * step / safe_other - (y1 - y0)) / safe)
    return step * (y0 + y1) / 2 - bend * step**2 / 6


def _last_part(y0: Any, y1: Any, y2: Any, step: Any, other: Any) -> Any:
    """Return Simpson's correction for the last of an odd number of steps, given from the end on."""
    found = _first_part(y0, y1, y2, step, other)
    is_empty, is_undone = raw(other) == 0, raw(step) + raw(other) == 0
    if is_empty.any() or is_undone.any():
        # There is no parabola: SciPy leaves out the terms that would divide by 0.
        found = np.where(is_undone, step * y1 / 3, found)
        found = np.where(is_empty, step * y0 / 3, found)
    return found


def _with_first(sums: Array, first: float) -> Any:
    shape = (*sums.shape[:-1], 1)
    return np.concatenate([np.full(shape, first, sums.dtype), sums], axis=-1)


def _back(sums: Any, axis: int) -> Any:
    return np.moveaxis(sums, -1, axis)
