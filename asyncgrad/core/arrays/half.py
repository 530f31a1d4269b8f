"""Half precision: the derivative of a float16 call is computed in float32, and rounded once.

A float16 has eleven bits and ends at 65,504. A count of more elements is infinite in it, a sum of squares overflows
early, and a sum of many terms stops growing. So the driver gives each formula of a float16 call the incoming gradient
and the saved values in float32, and casts what it returns to the dtype of the input, as it does after any node.
What a formula needs of the result is computed again from the arguments, since a result that was rounded to float16 may
have overflowed, and what is left of 1 - out * out after rounding is little.

`test_every_gradient_of_float16_is_that_of_float64_rounded` in tests/core/ops/test_half.py holds it for all rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from typing import Any

import numpy as np

__all__ = ["is_half", "recomputing", "single"]

_HALF = np.dtype(np.float16)
_SINGLE = np.dtype(np.float32)


def is_half(value: Any) -> bool:
    """Tell whether a value is an array or a tensor of float16."""
    dtype = getattr(value, "dtype", None)
    return isinstance(dtype, np.dtype) and dtype.kind == "f" and dtype.itemsize == _HALF.itemsize


def single(value: Any) -> Any:
    """Return an array, a tensor or a dtype of float16 as one of float32; anything else as it is."""
    if isinstance(value, np.dtype):
        return _SINGLE if value == _HALF else value
    return value.astype(_SINGLE) if is_half(value) else value


def _wide_dtype(value: Any) -> Any:
    """Return a dtype in the spelling of a caller, and float32 for float16."""
    return value if value is None or np.dtype(value) != _HALF else _SINGLE


def recomputing(
    call: Callable[..., Any],
    parameters: Mapping[str, Parameter],
    formula: Callable[..., Any],
    needs: Sequence[str],
) -> tuple[Callable[..., Any], tuple[str, ...]]:
    """Return a formula that computes the result again from the arguments, and what it needs instead of the result.

    Args:
        call: the function, which records itself.
        parameters: those of the function.
        formula: a formula of the incoming gradient and of what `needs` names, `out` among that.
        needs: the names.
    """
    taken = tuple(dict.fromkeys([*(need for need in needs if need != "out"), *parameters]))

    def formula_of_arguments(g: Any, *values: Any) -> Any:
        given = dict(zip(taken, values, strict=True))
        arguments = {name: _wide_dtype(given[name]) if name == "dtype" else given[name] for name in parameters}
        named = {name: arguments.pop(name) for name, one in parameters.items() if one.kind is one.KEYWORD_ONLY}
        # The forward has warned of what there is to warn of.
        with np.errstate(all="ignore"):
            given["out"] = call(*arguments.values(), **named)
        return formula(g, *(given[need] for need in needs))

    formula_of_arguments.__name__ = getattr(formula, "__name__", "formula")
    return formula_of_arguments, taken
