"""ArraySpec: what an array that comes from outside must be, and the check of a value against a tree of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, final

import numpy as np

from ..core.settings.arguments import describe, must_be, whole_number
from ..core.tensor import Tensor
from ..errors import ArgumentError, ArgumentTypeError, ExampleError
from .ranges import (
    bound,
    first_outside,
    is_kind_of_number,
    is_kind_of_whole_number,
    range_of,
    show,
    whole_bounds,
    within,
)

__all__ = ["ArraySpec", "as_arrays", "check_specs", "conform"]


@final
@dataclass(frozen=True)
class ArraySpec:
    """What an array that comes from outside must be: its shape, its dtype, and the range of its numbers.

    What the dtype cannot hold is refused. A dtype of whole numbers takes whole numbers alone, each as it is: 3, and not
    3.0. A floating dtype takes both, rounds to its nearest number, and refuses what is beyond its largest. True and
    false are no numbers; NaN and infinite numbers are never taken.

    Args:
        shape: the sizes of its axes; None for an axis of any size but 0.
        dtype: what the numbers are converted to.
        low: the least number that is taken, if the dtype holds it.
        high: the largest one.
        max_size: the most numbers that are taken, for a shape with None.

    Raises:
        ArgumentError, ArgumentTypeError: an argument is invalid, or there is no number that would be taken.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import learn
        >>> learn.ArraySpec((None, 2)).check([[1, 2], [3, 4]]).tolist()
        [[1.0, 2.0], [3.0, 4.0]]
        >>> learn.ArraySpec((2,)).check([1.0, float("nan")])
        Traceback (most recent call last):
        asyncgrad.errors.ExampleError: value[1] must lie within -1e+06 and 1e+06, and is NaN
        >>> learn.ArraySpec((2,), np.uint8).check([20, 300])
        Traceback (most recent call last):
        asyncgrad.errors.ExampleError: value[1] must lie within 0 and 255, the range of uint8, and is 300
    """

    shape: tuple[int | None, ...]
    dtype: Any = np.float64
    low: float = field(default=-1e6, kw_only=True)
    high: float = field(default=1e6, kw_only=True)
    max_size: int = field(default=1_000_000, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", np.dtype(self.dtype))
        if isinstance(self.shape, str) or not isinstance(self.shape, Iterable):
            expected, instead = "a tuple of sizes and None", "write learn.ArraySpec((3,))"
            raise ArgumentTypeError(must_be("the shape of an ArraySpec", expected, self.shape, instead))
        object.__setattr__(self, "shape", tuple(self.shape))
        if self.dtype.kind not in "iuf":
            raise ArgumentError(f"the dtype of an ArraySpec must be of whole or floating numbers, not {self.dtype}")
        if not all(size is None or (type(size) is int and size >= 0) for size in self.shape):
            raise ArgumentError(f"the shape of an ArraySpec must be of sizes and None, not {self.shape}")
        for name in ("low", "high"):
            object.__setattr__(self, name, bound(getattr(self, name), name))
        whole_number(self.max_size, "max_size", 0)
        if not self.low <= self.high:
            raise ArgumentError(f"low must be at most high, but they are {self.low} and {self.high}")
        least, most = range_of(self.dtype)
        if self._is_whole():
            least, most = whole_bounds(max(self.low, least), min(self.high, most))
        if not max(self.low, least) <= min(self.high, most):
            raise ArgumentError(f"there is no {self.dtype} from {self.low} to {self.high}: nothing would be taken")

    def _is_whole(self) -> bool:
        return self.dtype.kind in "iu"

    def check(self, value: object, path: str = "value") -> np.ndarray:
        """Return a value as an array of this kind: a new one, unless it is an array already.

        Args:
            value: an array, a tensor, a number, or nested lists of numbers, as JSON has them.
            path: names it in errors.

        Raises:
            ExampleError: it is no such array; the message names the place.
        """
        array: np.ndarray = self._array(value, path)
        if len(array.shape) != len(self.shape) or any(
            size != found if size is not None else not found
            for size, found in zip(self.shape, array.shape, strict=False)
        ):
            raise ExampleError(f"{path} must have shape {self._shown()}, and has {array.shape}")
        if array.size > self.max_size:
            raise ExampleError(f"{path} has {array.size} numbers, and at most {self.max_size} are taken at once")
        if array.dtype.kind not in ("iu" if self._is_whole() else "iuf"):
            words = "whole numbers" if self._is_whole() else "numbers"
            raise ExampleError(f"{path} must be of {words}, and has dtype {array.dtype}")
        self._check_range(array, path)
        if self._is_whole():
            self._check_dtype(array, within(array, *range_of(self.dtype)), path)
            whole: np.ndarray = array.astype(self.dtype, copy=False)
            return whole
        if array.dtype == self.dtype:
            return array
        # Not by the range of the dtype: its largest number, in as few digits as name it, is above it as a float64.
        # The caller's np.seterr may turn a number that is rounded to 0 into an error.
        with np.errstate(all="ignore"):
            found: np.ndarray = array.astype(self.dtype)
        self._check_dtype(array, np.isfinite(found), path)
        return found

    def _check_range(self, array: Any, path: str) -> None:
        fits = within(array, self.low, self.high)
        if not fits.all():
            where, found = first_outside(array, fits, path)
            raise ExampleError(f"{where} must lie within {show(self.low)} and {show(self.high)}, and is {found}")

    def _check_dtype(self, array: Any, fits: Any, path: str) -> None:
        if not fits.all():
            where, found = first_outside(array, fits, path)
            least, most = map(show, range_of(self.dtype))
            raise ExampleError(f"{where} must lie within {least} and {most}, the range of {self.dtype}, and is {found}")

    def _shown(self) -> str:
        sizes = ["any" if size is None else str(size) for size in self.shape]
        return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"

    def _array(self, value: Any, path: str) -> Any:
        """Return an array with the numbers as they are, or at least as exact as in the dtype."""
        if isinstance(value, Tensor):
            return value.detach().to("cpu").numpy()
        if isinstance(value, (np.ndarray, np.generic)):
            return np.asarray(value)
        ndim = len(self.shape)
        flat: list[Any] = [value]
        sizes: list[int] = []
        for _ in range(ndim):
            # Checked level by level, at C's speed: json.loads may have made a million numbers of a body.
            lengths = set(map(len, flat)) if set(map(type, flat)) <= {list, tuple} else set()
            if flat and len(lengths) != 1:
                raise ExampleError(_problem(value, ndim, path))
            sizes.append(lengths.pop() if lengths else 0)
            flat = list(chain.from_iterable(flat))
        kinds = set(map(type, flat))
        if not all(map(is_kind_of_number, kinds)):
            raise ExampleError(_problem(value, ndim, path))
        if self._is_whole() and not all(map(is_kind_of_whole_number, kinds)):
            are_whole = np.array([is_kind_of_whole_number(type(one)) for one in flat]).reshape(sizes)
            where, found = first_outside(_objects(flat, sizes), are_whole, path)
            raise ExampleError(f"{where} must be a whole number for {self.dtype}, 3 and not 3.0, and is {found}")
        candidates = (np.int64, np.uint64) if self._is_whole() else (np.promote_types(self.dtype, np.float64),)
        for dtype in candidates:
            with suppress(OverflowError):
                return np.array(flat, dtype).reshape(sizes)
        # A number is beyond all that the dtype holds: Python's own comparisons, which are exact, find it.
        objects = _objects(flat, sizes)
        self._check_range(objects, path)
        self._check_dtype(objects, within(objects, *range_of(self.dtype)), path)
        return objects


def _objects(flat: list[Any], sizes: list[int]) -> Any:
    found = np.empty(len(flat), object)
    found[:] = flat
    return found.reshape(sizes)


def _problem(value: Any, ndim: int, path: str) -> str | None:
    """Return what keeps nested lists from making an array with so many axes, and where; None if nothing does."""
    if ndim == 0:
        return None if is_kind_of_number(type(value)) else f"{path} must be a number, and is {_json_kind(value)}"
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
        raise ArgumentError(must_be(name, "a tree of learn.ArraySpec, such as ArraySpec((3,))", spec))


#: How deep a tree without specs may be. Python's own limit is some hundreds, of frames of whoever goes through it.
_DEPTH = 64


def as_arrays(value: Any, path: str, depth: int = 0) -> Any:
    """Return a tree with its numbers, and its lists of numbers, as arrays.

    Args:
        value: the tree.
        path: names it in errors.
        depth: how deep it lies in another one.

    Raises:
        ExampleError: a list is ragged, a number is infinite or NaN, or the tree is deeper than it may be.
    """
    if depth > _DEPTH:
        raise ExampleError(f"{path[:60]}... is deeper than {_DEPTH} levels: send flat fields")
    if isinstance(value, Mapping):
        return {key: as_arrays(part, f"{path}.{key}", depth + 1) for key, part in value.items()}
    if type(value) is tuple:
        return tuple(as_arrays(part, f"{path}[{index}]", depth + 1) for index, part in enumerate(value))
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Tensor):
        array = value.detach().to("cpu").numpy()
    else:
        try:
            array = np.asarray(value)
        except (ValueError, RecursionError) as error:
            raise ExampleError(f"{path} makes no array: {error}") from None
    if array.dtype.kind == "O" and all(isinstance(one, (int, float)) for one in array.flat):
        raise ExampleError(f"{path} has a whole number that no dtype of NumPy holds")
    if array.dtype.kind not in "biufc":
        raise ExampleError(f"{path} must be an array of numbers, and is {describe(value)}")
    if array.dtype.kind in "fc" and not np.isfinite(array).all():
        raise ExampleError(f"{path} has a number that is infinite or NaN")
    return array
