"""ArraySpec: what an array that comes from outside must be, and the check of a value against a tree of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, final

import numpy as np

from ..arguments import describe
from ..errors import ArgumentError, ExampleError
from ..tensor import Tensor

__all__ = ["ArraySpec", "as_arrays", "check_specs", "conform"]


@final
@dataclass(frozen=True)
class ArraySpec:
    """What an array that comes from outside must be: its shape, its dtype, and the range of its numbers.

    Args:
        shape: the sizes of its axes; None for an axis of any size but 0.
        dtype: what the numbers are converted to, if no value is lost by it.
        low: the least number that is taken.
        high: the largest one. NaN is never taken.
        max_size: the most numbers that are taken, for a shape with None.

    Raises:
        ArgumentError: an argument is out of range.

    Example:
        >>> from asyncgrad import learn
        >>> learn.ArraySpec((None, 2)).check([[1, 2], [3, 4]]).tolist()
        [[1.0, 2.0], [3.0, 4.0]]
        >>> learn.ArraySpec((2,)).check([1.0, float("nan")])
        Traceback (most recent call last):
        asyncgrad.errors.ExampleError: value[1] must lie within -1e+06 and 1e+06, and is NaN
    """

    shape: tuple[int | None, ...]
    dtype: Any = np.float64
    low: float = field(default=-1e6, kw_only=True)
    high: float = field(default=1e6, kw_only=True)
    max_size: int = field(default=1_000_000, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", np.dtype(self.dtype))
        object.__setattr__(self, "shape", tuple(self.shape))
        if self.dtype.kind not in "iuf":
            raise ArgumentError(f"the dtype of an ArraySpec must be of whole or floating numbers, not {self.dtype}")
        if not all(size is None or (type(size) is int and size >= 0) for size in self.shape):
            raise ArgumentError(f"the shape of an ArraySpec must be of sizes and None, not {self.shape}")
        if not self.low <= self.high:
            raise ArgumentError(f"low must be at most high, but they are {self.low} and {self.high}")

    def check(self, value: Any, path: str = "value") -> Any:
        """Return a value as an array of this kind: a new one, unless it is an array already.

        Args:
            value: an array, a tensor, a number, or nested lists of numbers, as JSON has them.
            path: names it in errors.

        Raises:
            ExampleError: it is no such array; the message names the place.
        """
        array = _array(value, len(self.shape), path)
        if len(array.shape) != len(self.shape) or any(
            size != found if size is not None else not found
            for size, found in zip(self.shape, array.shape, strict=False)
        ):
            raise ExampleError(f"{path} must have shape {self._shown()}, and has {array.shape}")
        if array.size > self.max_size:
            raise ExampleError(f"{path} has {array.size} numbers, and at most {self.max_size} are taken at once")
        if array.dtype.kind not in ("iu" if self.dtype.kind in "iu" else "iuf"):
            raise ExampleError(f"{path} must be of {_words(self.dtype)}, and has dtype {array.dtype}")
        within = (array >= self.low) & (array <= self.high)
        if not within.all():
            place = np.unravel_index(int(np.argmin(within)), array.shape)
            where = path + "".join(f"[{index}]" for index in place)
            found = _number(array[place])
            raise ExampleError(f"{where} must lie within {self.low:g} and {self.high:g}, and is {found}")
        return array.astype(self.dtype, copy=False)

    def _shown(self) -> str:
        sizes = ["any" if size is None else str(size) for size in self.shape]
        return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def _words(dtype: Any) -> str:
    return "whole numbers" if dtype.kind in "iu" else "numbers"


def _number(value: Any) -> str:
    return "NaN" if math.isnan(value) else f"{value:g}"


def _array(value: Any, ndim: int, path: str) -> Any:
    if isinstance(value, Tensor):
        return value.detach().to("cpu").numpy()
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    flat: list[Any] = [value]
    sizes: list[int] = []
    for _ in range(ndim):
        # Checked level by level, at C's speed: json.loads may have made a million numbers of a body.
        lengths = set(map(len, flat)) if set(map(type, flat)) <= {list, tuple} else set()
        if flat and len(lengths) != 1:
            raise ExampleError(_problem(value, ndim, path))
        sizes.append(lengths.pop() if lengths else 0)
        flat = list(chain.from_iterable(flat))
    # A bool is an int to Python, but not to who posts one.
    if not set(map(type, flat)) <= {int, float}:
        raise ExampleError(_problem(value, ndim, path))
    try:
        return np.array(flat or np.empty(0)).astype(_kind_of(flat), copy=False).reshape(sizes)
    except OverflowError:
        return np.array([float(min(max(one, -1e300), 1e300)) for one in flat]).reshape(sizes)


def _kind_of(flat: list[Any]) -> Any:
    """Return float64 for numbers that are not whole, and for those that no integer of NumPy's can hold."""
    if all(type(one) is int for one in flat) and all(-(2**63) <= one < 2**63 for one in flat):
        return np.int64
    return np.float64


def _problem(value: Any, ndim: int, path: str) -> str | None:
    """Return what keeps nested lists from making an array with so many axes, and where; None if nothing does."""
    if ndim == 0:
        return None if type(value) in (int, float) else f"{path} must be a number, and is {_json_kind(value)}"
    if type(value) not in (list, tuple):
        return f"{path} must be an array with {ndim} {'axis' if ndim == 1 else 'axes'}, and is {_json_kind(value)}"
    for index, part in enumerate(value):
        problem = _problem(part, ndim - 1, f"{path}[{index}]")
        if problem is not None:
            return problem
    shapes = [_shape(part, ndim - 1) for part in value]
    for index, shape in enumerate(shapes):
        if shape != shapes[0]:
            return f"{path}[{index}] has shape {shape}, but {path}[0] has {shapes[0]}"
    return None


def _shape(value: Any, ndim: int) -> tuple[int, ...]:
    """Return the shape of nested lists, going by the first of each."""
    sizes: list[int] = []
    for _ in range(ndim):
        sizes.append(len(value) if value is not None else 0)
        value = value[0] if value else None
    return tuple(sizes)


def _json_kind(value: Any) -> str:
    """Return what a value is, in JSON's terms."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return "a string"
    if isinstance(value, (list, tuple)):
        return "an array"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, (int, float)):
        return "a number"
    return describe(value)


def conform(spec: Any, value: Any, path: str) -> Any:
    """Return a value in the form of a tree of ArraySpec.

    Args:
        spec: dicts, lists and tuples of ArraySpec; None takes anything that `as_arrays` does.
        value: what comes from outside. Nested lists of numbers are taken for an array, and a list for a tuple.
        path: names it in errors.

    Raises:
        ExampleError: it does not fit; the message names the place.
    """
    if spec is None:
        return as_arrays(value, path)
    if isinstance(spec, ArraySpec):
        return spec.check(value, path)
    if isinstance(spec, Mapping):
        fields = " and ".join(map(str, spec))
        if not isinstance(value, Mapping):
            raise ExampleError(f"{path} must be an object with {fields}, and is {_json_kind(value)}")
        for name in spec:
            if name not in value:
                raise ExampleError(f"{path} lacks {name}: it must be an object with {fields}")
        for name in value:
            if name not in spec:
                raise ExampleError(f"{path} has no field {str(name)[:40]!r}, only {', '.join(map(str, spec))}")
        return {name: conform(part, value[name], f"{path}.{name}") for name, part in spec.items()}
    if type(value) not in (list, tuple) or len(value) != len(spec):
        what = f"{len(value)} of them" if type(value) in (list, tuple) else _json_kind(value)
        raise ExampleError(f"{path} must be an array of {len(spec)} parts, and is {what}")
    return type(spec)(conform(part, value[nr], f"{path}[{nr}]") for nr, part in enumerate(spec))


def check_specs(spec: Any, name: str) -> None:
    """Raise an ArgumentError unless an argument is a tree of ArraySpec, or None."""
    if spec is None or isinstance(spec, ArraySpec):
        return
    if isinstance(spec, Mapping):
        for key, part in spec.items():
            check_specs(part, f"{name}[{key!r}]")
    elif type(spec) in (list, tuple):
        for index, part in enumerate(spec):
            check_specs(part, f"{name}[{index}]")
    else:
        raise ArgumentError(f"{name} must be a tree of learn.ArraySpec, such as ArraySpec((3,)), not {describe(spec)}")


def as_arrays(value: Any, path: str) -> Any:
    """Return a tree with its numbers, and its lists of numbers, as arrays.

    Raises:
        ExampleError: a list is ragged, or a number is infinite or NaN.
    """
    if isinstance(value, Mapping):
        return {key: as_arrays(part, f"{path}.{key}") for key, part in value.items()}
    if type(value) is tuple:
        return tuple(as_arrays(part, f"{path}[{index}]") for index, part in enumerate(value))
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Tensor):
        array = value.detach().to("cpu").numpy()
    else:
        try:
            array = np.asarray(value)
        except ValueError as error:
            raise ExampleError(f"{path} makes no array: {error}") from None
    if array.dtype.kind not in "biufc":
        raise ExampleError(f"{path} must be an array of numbers, and is {describe(value)}")
    if array.dtype.kind in "fc" and not np.isfinite(array).all():
        raise ExampleError(f"{path} has a number that is infinite or NaN")
    return array
