"""Along which axes data are summed up, and what becomes of nan in them.

A nan is passed on, left out line by line, or refused, as SciPy's nan_policy says.
"""

from __future__ import annotations

import functools
import inspect
import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from ...core.arrays.axes import kept_shape, reduced_axes
from ...core.arrays.values import raw
from ..arguments import floating

__all__ = [
    "Axis",
    "along_last_axis",
    "as_lines",
    "by_nan_policy",
    "check_nan_policy",
    "nan_of_few",
    "refuse_nan",
    "warn_of_few",
]

#: What summaries take: an axis, several, or None for all.
Axis = int | Sequence[int] | None

F = TypeVar("F", bound=Callable[..., Any])

#: SciPy's words, by which its users filter its warnings.
_FEW = (
    "One or more sample arguments is too small; all returned values will be NaN. See documentation for sample size "
    "requirements."
)
_FEW_IN_LINES = (
    "All axis-slices of one or more sample arguments are too small; all elements of returned arrays will be NaN. See "
    "documentation for sample size requirements."
)
_FEW_LEFT = (
    "After omitting NaNs, one or more sample arguments is too small; all returned values will be NaN. See "
    "documentation for sample size requirements."
)
_FEW_LEFT_IN_LINES = (
    "After omitting NaNs, one or more axis-slices of one or more sample arguments is too small; corresponding elements "
    "of returned arrays will be NaN. See documentation for sample size requirements."
)


def by_nan_policy(*samples: str, is_paired: bool = True, takes_none: bool = False, fewest: int = 1) -> Callable[[F], F]:
    """Return a decorator for a summary along an axis, which gives it a nan_policy, and data without axes.

    Without nan the function is called once. To leave nan out it is called for each line along the axis. It warns of
    samples with too few observations, as SciPy does; with nan in their place it is called.

    Args:
        *samples: the names of the parameters that are data; None stands for none.
        is_paired: whether the data are pairs, of which one with nan is left out whole.
        takes_none: whether the function is called without observations, too, of which the result is nan else.
        fewest: how many observations it needs, for a result that is not nan.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def summary(*args: Any, **kwargs: Any) -> Any:
            call = signature.bind(*args, **kwargs)
            call.apply_defaults()
            given = call.arguments
            policy = given.get("nan_policy", "propagate")
            check_nan_policy(function.__name__, policy)
            names, data = _data_of(given, samples)
            if any(one.ndim == 0 for one in data):
                data = [one if one.ndim else one.reshape((1,)) for one in data]
                given.update(zip(names, data, strict=True))
            if policy != "propagate":
                given["nan_policy"] = "propagate"
                refuse_nan(policy, *data)
                if policy == "omit" and _has_nan(data):
                    return _line_by_line(function, call, names, data, is_paired, takes_none, fewest)
            if not takes_none:
                given.update(zip(names, _with_nan_for_few(data, given["axis"], fewest), strict=True))
            return function(*call.args, **call.kwargs)

        return summary

    return decorate


def _with_nan_for_few(data: list[Any], axis: Axis, fewest: int) -> list[Any]:
    """Return samples with nan in place of too few observations, which results then are; warn of them, as SciPy does."""
    ndim = max(one.ndim for one in data)
    # Weights may have one axis alone, along that of the sample.
    axes = [reduced_axes(axis if one.ndim == ndim else None, one.ndim) for one in data]
    counts = [math.prod(one.shape[axis] for axis in some) for one, some in zip(data, axes, strict=True)]
    if min(counts) >= fewest:
        return data
    rest = [set(range(one.ndim)).difference(some) for one, some in zip(data, axes, strict=True)]
    has_lines = any(rest)
    has_no_line = any(one.shape[axis] == 0 for one, some in zip(data, rest, strict=True) for axis in some)
    if has_lines and (min(counts) or has_no_line):
        # SciPy leaves few observations in lines to the summary.
        return data
    if has_lines or not _has_nan(data):
        # A single line with nan is nan already: SciPy asks no further.
        warn_of_few(has_lines, 4)
    # Two of them: NumPy warns of a variance of one.
    return [
        one if count >= fewest else np.repeat(np.sum(one, some, keepdims=True) * np.nan, 2, some[0])
        for one, some, count in zip(data, axes, counts, strict=True)
    ]


def warn_of_few(has_lines: bool, stacklevel: int) -> None:
    """Warn, in SciPy's words, that samples have too few observations.

    Args:
        has_lines: whether they have other axes than those that are summed up.
        stacklevel: as of `warnings.warn`, from here.
    """
    warnings.warn(_FEW_IN_LINES if has_lines else _FEW, RuntimeWarning, stacklevel=stacklevel)


def nan_of_few(*samples: str, results: int, fewest: int = 1) -> Callable[[F], F]:
    """Return a decorator for a summary along an axis: its results are nan where a sample has too few observations.

    Args:
        *samples: the names of the parameters that are data.
        results: how many the summary has.
        fewest: how many observations it needs.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def summary(*args: Any, **kwargs: Any) -> Any:
            call = signature.bind(*args, **kwargs)
            call.apply_defaults()
            given = call.arguments
            _, data = _data_of(given, samples)
            axes = [reduced_axes(given["axis"], one.ndim) for one in data]
            counts = [math.prod(one.shape[axis] for axis in some) for one, some in zip(data, axes, strict=True)]
            if min(counts) >= fewest:
                return function(*call.args, **call.kwargs)
            sums = [np.sum(one, some, keepdims=given["keepdims"]) for one, some in zip(data, axes, strict=True)]
            return (functools.reduce(np.add, sums) * np.nan,) * results

        return summary

    return decorate


def check_nan_policy(function: str, policy: object) -> None:
    """Raise a ValueError if a function of `scipy.stats`, or a part of one, is given a nan_policy that there is not."""
    if policy not in ("propagate", "omit", "raise"):
        # Where a part is called, the error gets the name of the whole.
        named = "" if function.startswith("_") else f"scipy.stats.{function} "
        raise ValueError(f"{named}takes nan_policy 'propagate', 'omit' or 'raise', not {policy!r}")


def refuse_nan(policy: str, *data: Any) -> None:
    """Raise a ValueError if there is nan in data, and the policy is "raise"."""
    if policy == "raise" and _has_nan(data):
        raise ValueError("The input contains nan values")


def _has_nan(data: Iterable[Any]) -> bool:
    return any(np.any(np.isnan(raw(one))) for one in data)


def _data_of(given: dict[str, Any], samples: Sequence[str]) -> tuple[list[str], list[Any]]:
    """Return the names of those parameters that are data, and not None, and the data as tensors."""
    names = [name for name in samples if given[name] is not None]
    return names, [floating(given[name]) for name in names]


def along_last_axis(*samples: str) -> Callable[[F], F]:
    """Return a decorator for a summary that is written for the last axis of its data, alone.

    Of its parameters `axis` is always -1, and `keepdims` False. The axes that the caller names become that one; samples
    are broadcast.

    Args:
        *samples: the names of the parameters that are data; None stands for none.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def summary(*args: Any, **kwargs: Any) -> Any:
            call = signature.bind(*args, **kwargs)
            call.apply_defaults()
            given = call.arguments
            names, data = _data_of(given, samples)
            data = list(np.broadcast_arrays(*data)) if len(data) > 1 else data
            ndim = data[0].ndim
            axes = reduced_axes(given["axis"], ndim)
            shape = kept_shape(data[0].shape, axes) if given["keepdims"] else None
            given.update(zip(names, (as_lines(one, axes, ndim) for one in data), strict=True))
            given.update(axis=-1, keepdims=False)
            found = function(*call.args, **call.kwargs)
            return found if shape is None else _with_shape(found, shape)

        return summary

    return decorate


def _with_shape(found: Any, shape: tuple[int, ...]) -> Any:
    """Return a result, or each of several, in another shape."""
    if not isinstance(found, tuple):
        return np.reshape(found, shape)
    return _made_like(found, (np.reshape(one, shape) for one in found))


def _made_like(found: tuple[Any, ...], parts: Iterable[Any]) -> Any:
    """Return parts as a tuple of the class of a result, which may have names."""
    make = getattr(found, "_make", tuple)
    return make(parts)


def _line_by_line(
    function: Callable[..., Any],
    call: inspect.BoundArguments,
    names: Sequence[str],
    data: list[Any],
    is_paired: bool,
    takes_none: bool,
    fewest: int,
) -> Any:
    """Return what a function makes of the numbers of each line along the axis that are not nan."""
    given = call.arguments
    axis, keepdims = given["axis"], given.get("keepdims", False)
    ndim = max(one.ndim for one in data)
    axes = reduced_axes(axis, ndim)
    lines = [as_lines(one, axes, ndim) for one in data]
    if is_paired:
        lines = list(np.broadcast_arrays(*lines)) if len(lines) > 1 else lines
    shape = np.broadcast_shapes(*(one.shape[:-1] for one in lines))
    lines = [np.broadcast_to(one, (*shape, one.shape[-1])) for one in lines]
    given["axis"] = 0
    if "keepdims" in given:
        given["keepdims"] = False
    found: list[Any] = []
    is_few = False
    for index in np.ndindex(shape):
        parts = [one[index] for one in lines]
        known = [~np.isnan(raw(one)) for one in parts]
        if is_paired:
            known = [np.logical_and.reduce(known)] * len(parts)
        is_empty = not takes_none and min(int(mask.sum()) for mask in known) < fewest
        is_few |= is_empty
        is_last = len(found) + 1 == math.prod(shape)
        if is_empty and is_last and not any(isinstance(one, tuple) for one in found):
            # No line tells of the parts of the result: those of nothing but nan do.
            given.update(zip(names, (one * np.nan for one in parts), strict=True))
            found.append(function(*call.args, **call.kwargs))
            continue
        given.update(zip(names, (one[mask] for one, mask in zip(parts, known, strict=True)), strict=True))
        found.append(np.sum(parts[0]) * np.nan if is_empty else function(*call.args, **call.kwargs))
    if is_few:
        warnings.warn(_FEW_LEFT_IN_LINES if shape else _FEW_LEFT, RuntimeWarning, stacklevel=4)
    return _stacked(found, kept_shape(data[0].shape, axes) if keepdims else shape)


def as_lines(data: Any, axes: tuple[int, ...], ndim: int) -> Any:
    """Return data with the axes of a summary in the last one."""
    if data.ndim == 1 and ndim > 1:
        # Weights, one for each place along the axis.
        return data
    rest = [one for one in range(data.ndim) if one not in axes]
    # No length is -1: there may be no data.
    length = math.prod(data.shape[one] for one in axes)
    return np.transpose(data, (*rest, *axes)).reshape((*(data.shape[one] for one in rest), length))


def _stacked(found: list[Any], shape: tuple[int, ...]) -> Any:
    several = next((one for one in found if isinstance(one, tuple)), None)
    if several is None:
        return np.reshape(np.stack(found), shape)
    full = [one if isinstance(one, tuple) else (one,) * len(several) for one in found]
    columns = zip(*full, strict=True)
    return _made_like(several, (np.reshape(np.stack([floating(one) for one in column]), shape) for column in columns))
