"""What a call makes of its arrays, and where in memory: NumPy on ndarrays and on tensors, to be compared."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

import asyncgrad as ag


def in_rows(array: np.ndarray) -> np.ndarray:
    """Return a copy in rows."""
    return array.copy()


def in_columns(array: np.ndarray) -> np.ndarray:
    """Return a copy in columns."""
    return array.copy("F")


def backwards(array: np.ndarray) -> np.ndarray:
    """Return the same elements with a negative stride along the last axis."""
    return array[..., ::-1].copy()[..., ::-1] if array.ndim else array.copy()


def with_gaps(array: np.ndarray) -> np.ndarray:
    """Return the same elements with as many others in between."""
    if not array.ndim:
        return array.copy()
    return np.repeat(array, 2, -1)[..., ::2]


def with_first_axis_last(array: np.ndarray) -> np.ndarray:
    """Return the same elements with those of the first axis side by side."""
    return np.moveaxis(np.moveaxis(array, 0, -1).copy(), -1, 0) if array.ndim else array.copy()


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a copy that cannot be written into."""
    array = array.copy()
    array.flags.writeable = False
    return array


LAYOUTS: tuple[Callable[[np.ndarray], np.ndarray], ...] = (
    in_rows,
    in_columns,
    backwards,
    with_gaps,
    with_first_axis_last,
    read_only,
)
DTYPES = tuple(map(np.dtype, ("f8", "f4", "f2", "i8", "c16", "c8", ">f8", "?")))


def in_dtype(array: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Return a floating array in another dtype, without nans where that has none."""
    return np.asarray(array if dtype.kind in "fc" else np.nan_to_num(array)).astype(dtype)


class CallOutcome(NamedTuple):
    """What a call did: what it returned or raised, and its arrays afterwards."""

    error: BaseException | None
    result: Any
    arrays: list[np.ndarray]


def run(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    wrapped: Callable[[np.ndarray], Any],
    change: Callable[[np.ndarray], np.ndarray],
) -> CallOutcome:
    """Call a function with each array in its arguments changed, and wrapped."""
    arrays: list[np.ndarray] = []
    known: dict[int, Any] = {}

    def prepared(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            if id(value) not in known:
                array = change(value)
                arrays.append(array)
                known[id(value)] = wrapped(array)
            return known[id(value)]
        if type(value) in (list, tuple):
            return type(value)(map(prepared, value))
        return value

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        prepared_args = tuple(map(prepared, args))
        prepared_kwargs = {name: prepared(value) for name, value in kwargs.items()}
        try:
            result = function(*prepared_args, **prepared_kwargs)
        except Exception as error:
            return CallOutcome(error, None, arrays)
    return CallOutcome(None, result, arrays)


def in_tensor(array: np.ndarray) -> ag.Tensor:
    """Return a tensor on an array."""
    return ag.asarray(array)


def in_computed(array: np.ndarray) -> ag.Tensor:
    """Return a tensor on an array that requires grad if it can, and is no leaf, so that it may be written into."""
    if array.dtype.kind not in "fc":
        return ag.asarray(array)
    # NumPy hands arrays without axes out as scalars, on other memory: the tensor is given its array.
    tensor = ag.tensor(array, requires_grad=True) * 1
    tensor._data = array
    return tensor


def differences(expected: CallOutcome, actual: CallOutcome, *, exact: bool = True) -> list[str]:
    """Say in what two outcomes differ; nothing where they do not.

    Args:
        expected: NumPy's.
        actual: that of tensors.
        exact: whether the values are compared, too.
    """
    if expected.error is not None or actual.error is not None:
        if (expected.error is None) is (actual.error is None):
            return []
        return [f"raised: {expected.error!r} against {actual.error!r}"]
    found = _results_differ(expected.result, actual.result, expected.arrays, actual.arrays, "result", exact)
    for index, (want, have) in enumerate(zip(expected.arrays, actual.arrays, strict=True) if exact else ()):
        if not _are_equal(want, have):
            found.append(f"argument {index} afterwards: {want!r} against {have!r}")
    return found


def _are_equal(want: Any, have: Any) -> bool:
    return want.dtype.kind == have.dtype.kind and np.array_equal(want, have, equal_nan=want.dtype.kind in "fc")


def _results_differ(
    want: Any, have: Any, wanted: list[np.ndarray], had: list[np.ndarray], name: str, exact: bool
) -> list[str]:
    if isinstance(want, (tuple, list)):
        kind = type(want) if type(want) in (tuple, list) else tuple
        if not isinstance(have, kind) or len(have) != len(want):
            return [f"{name}: {type(want).__name__} of {len(want)} against {type(have).__name__}"]
        return [
            line
            for index, (one, other) in enumerate(zip(want, have, strict=True))
            for line in _results_differ(one, other, wanted, had, f"{name}[{index}]", exact)
        ]
    if not isinstance(want, (np.ndarray, np.generic)):
        return [] if type(want) is type(have) and want == have else [f"{name}: {want!r} against {have!r}"]
    if not isinstance(have, ag.Tensor):
        return [f"{name}: {want!r} against {type(have).__name__} {have!r}"]
    array = have.numpy()
    with warnings.catch_warnings():
        # NumPy warns of what np.broadcast_arrays gives, which will be read-only.
        warnings.simplefilter("ignore")
        is_writeable = isinstance(want, np.generic) or want.flags.writeable, array.flags.writeable
    shared = [[np.shares_memory(one, argument) for argument in each] for one, each in ((want, wanted), (array, had))]
    facts = {
        "dtype": (want.dtype, array.dtype),
        "shape": (want.shape, array.shape),
        "shared with arguments": tuple(shared),
        "writeable": is_writeable,
    }
    if isinstance(want, np.ndarray):
        facts["strides"] = (_steps(want), _steps(array))
        facts["in rows"] = (want.flags.c_contiguous, array.flags.c_contiguous)
        facts["in columns"] = (want.flags.f_contiguous, array.flags.f_contiguous)
    found = [f"{name}: {fact} {one} against {other}" for fact, (one, other) in facts.items() if one != other]
    if exact and not found and not _are_equal(want, array):
        found.append(f"{name}: values {want!r} against {array!r}")
    return found


def _steps(array: np.ndarray) -> tuple[int, ...]:
    """Return the strides; 0 where there is no next element to come to."""
    return tuple(
        stride if array.size and length > 1 else 0 for stride, length in zip(array.strides, array.shape, strict=True)
    )
