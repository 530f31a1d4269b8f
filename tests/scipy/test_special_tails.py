"""Derivatives of elementwise functions of scipy.special far out and at the ends of their domains: those of mpmath."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special

import asyncgrad as ag
from asyncgrad.scipy import special
from asyncgrad.scipy.special import elementary, error_functions, normal
from tests.scipy.exact_slopes import REFERENCES, WITHOUT
from tests.support.tails import Reference, check_gradients, check_second_derivatives

EACH = [pytest.param(one, id=function.__name__) for function, one in REFERENCES.items()]
SMOOTH = [
    pytest.param(one, id=function.__name__)
    for function, one in REFERENCES.items()
    if len(one.slopes) == 1 and one.is_smooth
]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("reference", EACH)
def test_the_gradient_is_the_exact_derivative_at_every_size_of_number(reference: Reference, dtype: Any) -> None:
    assert check_gradients(reference, dtype) == []


@pytest.mark.slow
@pytest.mark.parametrize("reference", SMOOTH)
def test_the_second_derivative_is_the_exact_one_far_out_too(reference: Reference) -> None:
    assert check_second_derivatives(reference) == []


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("large", [800.0, 1e200, np.inf, np.nan])
def test_a_term_with_a_factor_of_zero_does_not_count_however_large(large: float) -> None:
    a = ag.tensor([[large, 1.0, 2.0]], requires_grad=True)
    result = special.logsumexp(a, 1, b=[0.0, 1.0, 2.0])

    assert result.item() == scipy.special.logsumexp([1.0, 2.0], b=[1.0, 2.0])
    shares = np.array([0, np.e, 2 * np.e**2]) / (np.e + 2 * np.e**2)
    np.testing.assert_allclose(ag.sync.grad(result, [a])[0].numpy(), [shares], rtol=1e-14)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("terms", "factors", "shares"),
    [
        ([np.inf, 1.0, -np.inf], None, [1, 0, 0]),
        ([np.inf, 1.0, np.inf], None, [0.5, 0, 0.5]),
        ([np.inf, 1.0, np.inf], [1.0, 5.0, 3.0], [0.25, 0, 0.75]),
    ],
)
def test_an_infinite_logsumexp_moves_with_its_infinite_terms_alone(terms: Any, factors: Any, shares: Any) -> None:
    a = ag.tensor(terms, requires_grad=True)
    result = special.logsumexp(a, b=factors)

    assert result.item() == np.inf
    assert ag.sync.grad(result, [a])[0].tolist() == shares


@pytest.mark.parametrize("module", [elementary, error_functions, normal], ids=lambda module: module.__name__)
def test_every_elementwise_function_has_an_exact_derivative_here_or_a_reason(module: Any) -> None:
    functions = [getattr(scipy.special, name.rstrip("_"), None) for name in module.__all__]
    without = [one.__name__ for one in functions if one is not None and one not in {**REFERENCES, **WITHOUT}]

    assert without == []
