"""Derivatives of elementwise functions of scipy.special far out and at the ends of their domains: those of mpmath."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special

from asyncgrad.scipy.special import elementary, error_functions, normal
from tests.scipy.exact_slopes import REFERENCES, WITHOUT
from tests.tails import Reference, check_gradients, check_second_derivatives

EACH = [pytest.param(one, id=function.__name__) for function, one in REFERENCES.items()]
SMOOTH = [
    pytest.param(one, id=function.__name__)
    for function, one in REFERENCES.items()
    if len(one.slopes) == 1 and one.is_smooth
]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("reference", EACH)
def test_the_gradient_is_the_exact_derivative_at_every_size_of_number(reference: Reference, dtype: Any) -> None:
    assert check_gradients(reference, dtype) == []


@pytest.mark.parametrize("reference", SMOOTH)
def test_the_second_derivative_is_the_exact_one_far_out_too(reference: Reference) -> None:
    assert check_second_derivatives(reference) == []


@pytest.mark.parametrize("module", [elementary, error_functions, normal], ids=lambda module: module.__name__)
def test_every_elementwise_function_has_an_exact_derivative_here_or_a_reason(module: Any) -> None:
    functions = [getattr(scipy.special, name.rstrip("_"), None) for name in module.__all__]
    without = [one.__name__ for one in functions if one is not None and one not in {**REFERENCES, **WITHOUT}]

    assert without == []
