"""Holds functions of asyncgrad.scipy to SciPy's values and dtypes, and to derivatives by differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import asyncgrad as ag
from tests.core.ops.finite_differences import Case, check_derivatives, flat, in_dtype, map_arrays

__all__ = ["Calls", "check", "check_along_a_line", "check_values", "named_calls"]

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
            # Indices, ranks and flags need be no Tensors, and what is not computed is None.
            assert isinstance(one, ag.Tensor) or np.asarray(value).dtype.kind in "biu" or one is value is None
            if value is None:
                continue
            found_value = one.numpy() if isinstance(one, ag.Tensor) else np.asarray(one)
            assert found_value.dtype == np.asarray(value).dtype
            near = tolerance if dtype is np.float64 else 3e-5
            np.testing.assert_allclose(found_value, value, rtol=near, atol=near)


def check(ours: Callable[..., Any], case: Case, **options: Any) -> None:
    """Compare derivatives of first and second order with differences, with `options` of `check_derivatives`."""
    check_derivatives(lambda *args, **kwargs: _arrays_for_arrays(ours, args, kwargs), case, **options)


def check_along_a_line(function: Callable[..., Any], points: Sequence[Any], **options: Any) -> None:
    """Compare derivatives along a random direction for each point, with `options` of `check_derivatives`.

    Each element of each derivative has a part in the one that is compared, and a function that takes long is called a
    few times rather than twice for each element.
    """
    rng = np.random.default_rng(5)
    arrays = [np.asarray(point, complex if np.iscomplexobj(point) else float) for point in points]
    directions = [_random_like(rng, array) for array in arrays]

    def line(*steps: Any) -> Any:
        outputs = function(*(array + step * way for array, step, way in zip(arrays, steps, directions, strict=True)))
        weights = np.random.default_rng(6)
        # Ranks and the like are numbers of Python, and what is not computed is None.
        found = [one for one in flat(outputs) if not isinstance(one, (int, float, type(None)))]
        return sum(np.sum(np.real(one * _random_like(weights, one))) for one in found)

    check_derivatives(line, Case(tuple(np.zeros(()) for _ in arrays), {}, tuple(range(len(arrays)))), **options)


def _random_like(rng: np.random.Generator, array: Any) -> np.ndarray:
    """Return numbers of either sign, not near 0, complex ones for complex numbers."""

    def part() -> np.ndarray:
        return rng.uniform(0.5, 1.5, array.shape) * rng.choice([-1.0, 1.0], array.shape)

    return part() + 1j * part() if array.dtype.kind == "c" else np.asarray(part())


def _arrays_for_arrays(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call a function that gives tensors for arrays, too, and return arrays for them."""
    results = flat(function(*args, **kwargs))
    return [one.numpy() if isinstance(one, ag.Tensor) and not one.requires_grad else one for one in results]
