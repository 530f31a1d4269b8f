"""Every ufunc of scipy.special with a rule: its values, its dtypes, its derivatives."""

from __future__ import annotations

import importlib
import pkgutil
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import asyncgrad as ag
import asyncgrad.scipy.special as ours
import tests.scipy
from asyncgrad.ops import RULES
from tests.ops.finite_differences import Case, call, check_derivatives, in_dtype, leaves_of


def _all_cases() -> dict[Callable[..., Any], list[Case]]:
    """Return the cases of all modules of this folder that are named cases_special_*, by function."""
    cases: dict[Callable[..., Any], list[Case]] = {}
    for module in pkgutil.iter_modules(tests.scipy.__path__):
        if module.name.startswith("cases_special"):
            found = importlib.import_module(f"tests.scipy.{module.name}").CASES
            assert not cases.keys() & found.keys(), module.name
            cases |= found
    return cases


CASES = _all_cases()
EACH_CASE, SMOOTH = (
    [
        pytest.param(function, case, id=f"{function.__name__}-{index}")
        for function, cases in CASES.items()
        for index, case in enumerate(cases)
        if case.smooth or not only_smooth
    ]
    for only_smooth in (False, True)
)
UFUNCS = {name: found for name, found in vars(scipy.special).items() if isinstance(found, np.ufunc)}


def test_every_ufunc_with_a_rule_has_a_case() -> None:
    differentiable = [name for name, ufunc in UFUNCS.items() if isinstance(RULES.get(ufunc), types.FunctionType)]

    assert [name for name in differentiable if UFUNCS[name] not in CASES] == []


@pytest.mark.sampled("function")
@pytest.mark.parametrize(("function", "case"), SMOOTH)
def test_derivatives_of_first_and_second_order_are_those_of_finite_differences(
    function: Callable[..., Any], case: Case
) -> None:
    check_derivatives(function, case)


@pytest.mark.sampled("function")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("function", "case"), EACH_CASE)
def test_values_and_dtypes_are_those_of_scipy(function: Callable[..., Any], case: Case, dtype: Any) -> None:
    case = in_dtype(case, dtype)
    leaves = leaves_of(case)

    expected = call(function, case, leaves)
    results = call(function, case, [ag.tensor(leaf, requires_grad=True) for leaf in leaves])

    for result, value in zip(results, expected, strict=True):
        assert isinstance(result, ag.Tensor)
        assert result.dtype == value.dtype
        np.testing.assert_array_equal(result.numpy(), value)


@pytest.mark.parametrize("name", [name for name, ufunc in UFUNCS.items() if ufunc in CASES])
def test_the_namespace_has_each_function_and_gives_tensors(name: str) -> None:
    case = CASES[UFUNCS[name]][0]

    results = call(getattr(ours, name), case, leaves_of(case))

    assert all(isinstance(result, ag.Tensor) for result in results)
