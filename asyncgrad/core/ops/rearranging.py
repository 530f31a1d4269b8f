"""Elements in other places: reversed, rotated, shifted and repeated."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.axes import axis_tuple, tensor_like
from ..arrays.values import constant_copy, on_host, raw
from ..recording.primitive import RULES, derivative, primitive
from .indexing import take
from .shaping import line, swapaxes

if TYPE_CHECKING:
    from ..arrays.array import Array


__all__ = ["flip", "fliplr", "flipud", "repeat", "roll", "rot90", "tile"]


@primitive(np.flip, views=True)
def flip_(m: Any, axis: Any = None) -> Array:
    """Return a view with the elements along axes in reverse; None reverses all."""
    return np.flip(m, axis)


@derivative(flip_, "m")
def _(g: Array, axis: Any) -> Array:
    return np.flip(g, axis)


flip: Callable[..., Any] = flip_.call


def flipud(m: Array) -> Any:
    """Return a view with the rows in reverse."""
    if m.ndim < 1:
        raise ValueError("flipud needs at least one axis, and this tensor has none")
    return flip(m, 0)


def fliplr(m: Array) -> Any:
    """Return a view with the columns in reverse."""
    if m.ndim < 2:
        raise ValueError(f"fliplr needs at least two axes, and this tensor has {m.ndim}")
    return flip(m, 1)


RULES[np.flipud] = flipud
RULES[np.fliplr] = fliplr


def rot90(m: Array, k: int = 1, axes: Any = (0, 1)) -> Any:
    """Return a view turned by `k` times 90 degrees, from the first axis towards the second."""
    if len(axes) != 2:
        raise ValueError(f"rot90 turns in the plane of two axes, not of {len(axes)}")
    first, second = axis_tuple(axes, m.ndim)
    turns = k % 4
    if turns == 0:
        return flip(m, ())
    if turns == 2:
        return flip(m, (first, second))
    if turns == 1:
        return swapaxes(flip(m, second), first, second)
    return flip(swapaxes(m, first, second), second)


RULES[np.rot90] = rot90


@primitive()
def roll_(a: Any, shift: Any, axis: Any = None) -> Array:
    """Return the elements shifted along axes; those beyond the end reappear at the beginning."""
    return np.roll(a, shift, axis)


@derivative(roll_, "a")
def _(g: Array, shift: Any, axis: Any) -> Array:
    return np.roll(g, _backwards(shift), axis)


def _backwards(shift: Any) -> Any:
    return tuple(-one for one in shift) if isinstance(shift, (tuple, list)) else np.negative(shift)


def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """Return the elements shifted along axes; those beyond the end reappear at the beginning."""
    return roll_.call(a, shift if shift.__class__ is int else constant_copy(shift), axis)


RULES[np.roll] = roll


# Repetition.


@primitive()
def repeat_(a: Any, repeats: int, axis: int) -> Array:
    """Return each element along an axis `repeats` times."""
    return np.repeat(a, repeats, axis)


@derivative(repeat_, "a")
def _(g: Array, a_shape: tuple[int, ...], repeats: int, axis: int) -> Array:
    return np.sum(g.reshape(_shape_of_copies(a_shape, repeats, axis)), axis=axis + 1)


def _shape_of_copies(shape: tuple[int, ...], repeats: int, axis: int) -> tuple[int, ...]:
    """Return the shape of repeated elements with an axis of their own for the copies, behind that of the elements."""
    return (*shape[: axis + 1], repeats, *shape[axis + 1 :])


def repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    """Return each element along an axis several times: all equally often, or each as its own count says."""
    a, counts = tensor_like(a, repeats), on_host(raw(repeats))
    a, axis = line(a, axis)
    if counts.ndim > 1:
        raise ValueError(f"repeat takes one count, or a row of them, not an array of shape {counts.shape}")
    if not counts.size and not hasattr(repeats, "dtype"):
        # An empty list has no dtype of its own.
        counts = counts.astype(np.intp)
    if counts.size == 1:
        return repeat_(a, int(counts.reshape(())), axis)
    return take(a, np.repeat(np.arange(a.shape[axis]), counts), axis)


RULES[np.repeat] = repeat


@primitive()
def tile_(A: Any, reps: tuple[int, ...]) -> Array:
    """Return copies of the whole array side by side, a given number along each axis."""
    return np.tile(A, reps)


@derivative(tile_, "A")
def _(g: Array, A_shape: tuple[int, ...], reps: tuple[int, ...]) -> Array:
    counts = (1,) * (g.ndim - len(reps)) + reps
    shape = (1,) * (g.ndim - len(A_shape)) + A_shape
    g = g.reshape([length for pair in zip(counts, shape, strict=True) for length in pair])
    return np.sum(g, axis=tuple(range(0, g.ndim, 2))).reshape(A_shape)


def tile(A: Any, reps: Any) -> Any:
    """Return copies of the whole array side by side, a given number along each axis."""
    return tile_(tensor_like(A, reps), tuple(int(count) for count in np.ravel(raw(reps))))


RULES[np.tile] = tile
