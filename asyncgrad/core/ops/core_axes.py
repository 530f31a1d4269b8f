"""Which axes a ufunc of vectors and matrices works on: `axes=`, and `keepdims=` where its results are numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..recording.primitive import RULES

__all__ = ["along_axes"]


def along_axes(ufunc: np.ufunc, rule: Callable[..., Any], axes: Any, keepdims: bool | None) -> Callable[..., Any]:
    """Return the rule of a ufunc with a signature, for operands whose vectors or matrices lie along given axes.

    Args:
        ufunc: `np.matmul`, `np.vecdot` or another of this kind.
        rule: takes them along the last axes, and returns a result of which the same holds.
        axes: as of the ufunc: for each operand and the result a tuple of axes, or one number. The result may be left
            out where it has none. None for the last axes.
        keepdims: whether an axis of length 1 stays where a vector was; None where nothing is said.

    Raises:
        TypeError: `axes` is no list, or of tuples; or the ufunc takes no `keepdims`.
        ValueError: there are not as many as the operands and the result have.
    """

    def moved(*inputs: Any) -> Any:
        inputs = tuple(one if hasattr(one, "ndim") else np.asarray(one) for one in inputs)
        counts = _counts(ufunc, [one.ndim for one in inputs])
        if keepdims is not None and (counts[-1] or len(set(counts[:-1])) > 1):
            raise TypeError(f"numpy.{ufunc.__name__} does not support keepdims: its signature is {ufunc.signature}")
        may_lack = counts[-1] == 0
        counts[-1] += bool(keepdims)
        ends = [tuple(range(-count, 0)) for count in counts]
        places = ends if axes is None else _places(ufunc, axes, counts, may_lack)
        turned = [_moved(one, place, end) for one, place, end in zip(inputs, places, ends, strict=False)]
        result = rule(*turned)
        return _moved(RULES[np.expand_dims](result, -1) if keepdims else result, ends[-1], places[-1])

    return moved


def _moved(value: Any, sources: tuple[int, ...], targets: tuple[int, ...]) -> Any:
    return value if sources == targets else RULES[np.moveaxis](value, sources, targets)


def _counts(ufunc: np.ufunc, ndims: Sequence[int]) -> list[int]:
    """Return how many axes of each operand, and of the result, are those of its vector or matrix."""
    signature = str(ufunc.signature)
    parts = [one.strip("()").split(",") for one in signature.replace("->", ",").replace("),(", ");(").split(";")]
    cores = [[name for name in part if name] for part in parts]
    # A name with a question mark is left out of an operand of fewer axes, and then of the result.
    absent = {
        name
        for core, ndim in zip(cores, ndims, strict=False)
        if ndim < len(core)
        for name in core
        if name.endswith("?")
    }
    return [sum(name not in absent for name in core) for core in cores]


def _places(ufunc: np.ufunc, axes: Any, counts: Sequence[int], may_lack: bool) -> list[tuple[int, ...]]:
    name = f"numpy.{ufunc.__name__}"
    if not isinstance(axes, list):
        raise TypeError(f"{name} takes axes as a list, not {type(axes).__name__}")
    if len(axes) not in ((len(counts) - 1, len(counts)) if may_lack else (len(counts),)):
        raise ValueError(f"{name} takes axes of its {len(counts) - 1} operands and of its result, not {len(axes)}")
    found = []
    for index, (given, count) in enumerate(zip(axes, counts, strict=False)):
        if not isinstance(given, tuple) and (count != 1 or not isinstance(given, (int, np.integer))):
            raise TypeError(f"{name} takes axes of tuples, not {given!r} for number {index}, which has {count}")
        place = given if isinstance(given, tuple) else (int(given),)
        if len(place) != count:
            raise ValueError(f"{name} takes {count} axes for number {index}, not {place!r}")
        found.append(place)
    return found if len(found) == len(counts) else [*found, tuple(range(-counts[-1], 0))]
