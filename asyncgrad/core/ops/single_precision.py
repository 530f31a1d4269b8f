"""Functions of several operations on float16, which are computed in float32 and rounded once.

Between two operations a gradient has the dtype of the value, so in float16 it would be rounded, or be infinite, after
each: the count of 70,000 elements is infinite, and a share of 1 / 70,000 has seven bits. A function of one operation
needs none of this: see half.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ..arrays.half import is_half, single
from ..arrays.tensor_base import TensorBase
from ..arrays.values import raw
from ..settings.callers import ROUNDING
from ..settings.process import without_warnings
from .casting import cast
from .dispatch import write

__all__ = ["arrays_in_single", "by_single", "holds_half", "holds_half_array", "in_single"]

ROUNDING.add(__name__)

F = TypeVar("F", bound=Callable[..., Any])


def holds_half(*values: Any) -> bool:
    """Tell whether one of some values is a tensor of float16 with an array of NumPy's: other libraries have kernels."""
    return any(
        isinstance(value, TensorBase) and value._data.__class__ is np.ndarray and is_half(value._data)
        for value in values
    )


def by_single(
    function: Callable[..., Any], plain: Callable[..., Any] | None, /, *args: Any, out: Any = None, **kwargs: Any
) -> Any:
    """Return what a function of several operations does of float16, with the gradient of float32, rounded once.

    Args:
        function: a function that records itself.
        plain: the function of NumPy's that it stands for, whose values are taken; None to round those of `function`.
        *args: its arguments.
        out: where to write the result.
        **kwargs: further arguments.
    """
    named = {name: _single_dtype(value) if name == "dtype" else single(value) for name, value in kwargs.items()}
    results = function(*map(single, args), **named)
    if plain is None:
        wide = [one for one in (*args, *kwargs.values()) if _is_floating(one) and not is_half(one)]
        finished = results if wide else _each(_rounded, results)
    else:
        # The function has warned of what there is to warn of.
        with np.errstate(all="ignore"):
            given = {name: raw(value) for name, value in kwargs.items()}
            values = without_warnings(lambda: plain(*map(raw, args), **given))
        finished = _each(_with_value, results, values)
    return finished if out is None else write(out, finished)


def _single_dtype(value: Any) -> Any:
    return value if value is None else single(np.dtype(value))


def _is_floating(value: Any) -> bool:
    return getattr(getattr(value, "dtype", None), "kind", "") in ("f", "c")


def _rounded(result: Any) -> Any:
    if isinstance(result, TensorBase):
        return cast(result, np.float16) if result._data.dtype == np.float32 else result
    is_single = isinstance(result, (np.ndarray, np.generic)) and result.dtype == np.float32
    return result.astype(np.float16) if is_single else result


def _each(function: Callable[..., Any], results: Any, *values: Any) -> Any:
    """Return what a function does of a result, or of each of several."""
    if isinstance(results, (tuple, list)):
        # A named tuple takes its elements one by one.
        make = getattr(results, "_make", type(results))
        return make(map(function, results, *values))
    return function(results, *values)


def _with_value(result: Any, value: Any) -> Any:
    """Return a tensor with the value that NumPy gives, in its dtype."""
    value = np.asarray(value)
    if not isinstance(result, TensorBase) or result._data.dtype == value.dtype:
        return result
    result = cast(result, value.dtype)
    # The copy is new and no node has saved it: it may as well have been made so.
    result._data = value
    return result


def holds_half_array(*values: Any) -> bool:
    """Tell whether one of some values is a tensor of float16, as for `holds_half`, or an array of NumPy's."""
    for value in values:
        array = value._data if isinstance(value, TensorBase) else value
        if array.__class__ is np.ndarray and array.dtype.char == "e":
            return True
    return False


def in_single(function: F) -> F:
    """Return a function that computes by float32 where an argument is a tensor of float16."""
    return _in_single(function, holds_half)


def arrays_in_single(function: F) -> F:
    """Return a function that computes by float32 where an argument is a tensor or an array of float16.

    For functions that are not NumPy's or SciPy's, whose values those of arrays are.
    """
    return _in_single(function, holds_half_array)


def _in_single(function: F, holds: Callable[..., bool]) -> F:
    @functools.wraps(function)
    def rounded_once(*args: Any, **kwargs: Any) -> Any:
        # Any of them: the first one may be an array, or of another dtype.
        # test_a_float16_tensor_beside_an_array_has_the_gradient_of_float64_rounded guards it.
        if holds(*args, *kwargs.values()):
            return by_single(function, None, *args, **kwargs)
        return function(*args, **kwargs)

    return rounded_once  # type: ignore[return-value]
