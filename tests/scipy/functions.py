"""Holds functions of asyncgrad.scipy to SciPy's values and dtypes, and to derivatives by differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import asyncgrad as ag
from tests.ops.finite_differences import Case, check_derivatives, flat, in_dtype, map_arrays

__all__ = ["Calls", "check", "check_values", "named_calls"]

#: By the name of a call, the function, SciPy's, and the arguments.
Calls = Mapping[str, tuple[Callable[..., Any], Callable[..., Any], Case]]


def named_calls(ours: Any, theirs: Any, cases: Mapping[str, list[Case]]) -> Calls:
    """Return calls of functions of two modules with the same names; an older SciPy lacks some."""
    return {
        f"{name}-{index}": (getattr(ours, name), getattr(theirs, name), case)
        for name, many in cases.items()
        if hasattr(theirs, name)
        for index, case in enumerate(many)
    }


def check_values(
    ours: Callable[..., Any], theirs: Callable[..., Any], case: Case, dtype: Any = np.float64, tolerance: float = 1e-12
) -> None:
    """Compare values, shapes and dtypes with SciPy's, for tensors and for arrays."""
    case = in_dtype(case, dtype)
    expected = flat(theirs(*case.args, **case.kwargs))
    with_tensors = ours(
        *(map_arrays(one, lambda array: ag.tensor(array, requires_grad=True)) for one in case.args), **case.kwargs
    )
    for found in (flat(with_tensors), flat(ours(*case.args, **case.kwargs))):
        for one, value in zip(found, expected, strict=True):
            # Indices and ranks need be no Tensors.
            assert isinstance(one, ag.Tensor) or np.asarray(value).dtype.kind in "iu"
            found_value = one.numpy() if isinstance(one, ag.Tensor) else np.asarray(one)
            assert found_value.dtype == np.asarray(value).dtype
            near = tolerance if dtype is np.float64 else 3e-5
            np.testing.assert_allclose(found_value, value, rtol=near, atol=near)


def check(ours: Callable[..., Any], case: Case) -> None:
    """Compare derivatives of first and second order with differences."""
    check_derivatives(lambda *args, **kwargs: _arrays_for_arrays(ours, args, kwargs), case)


def _arrays_for_arrays(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call a function that gives tensors for arrays, too, and return arrays for them."""
    results = flat(function(*args, **kwargs))
    return [one.numpy() if isinstance(one, ag.Tensor) and not one.requires_grad else one for one in results]
