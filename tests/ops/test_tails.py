"""Derivatives of elementwise functions far out, at the ends of their domains, and next to 0: those of mpmath."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ops.cases_elementwise import CASES
from tests.ops.exact_slopes import REFERENCES, WITHOUT
from tests.ops.numpy_rules import rules_of_numpy
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


def test_every_elementwise_rule_has_an_exact_derivative_here_or_a_reason() -> None:
    ufuncs = [one for one in rules_of_numpy() if isinstance(one, np.ufunc) and one in CASES and one.signature is None]
    elementwise = [*ufuncs, *(one for one in CASES if not isinstance(one, np.ufunc))]
    without = [one.__name__ for one in elementwise if one not in REFERENCES and one not in WITHOUT]

    assert without == []
