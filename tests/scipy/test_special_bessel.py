"""Bessel functions and those of the zeta family that are no ufuncs, complex numbers, and values far out."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

from asyncgrad.scipy import special
from tests.ops.finite_differences import Case
from tests.scipy.functions import check, check_values, named_calls

_POSITIVE = np.array([0.375, 1.0, 6.0])
_WHOLE = np.array([[0], [1], [4]])
_SPHERICAL = [
    Case((_WHOLE, _POSITIVE), {}, (1,)),
    Case((3, np.array([-2.0, 0.5])), {"derivative": True}, (1,)),
]
_DERIVED = [Case((np.array([[0.5], [2.0]]), _POSITIVE, 3), {}, (0, 1)), Case((1, np.array([2.0])), {}, (1,))]

CASES: dict[str, list[Case]] = {
    "spherical_jn": [*_SPHERICAL, Case((_WHOLE, np.array([0.0])), {}, (1,))],
    "spherical_yn": _SPHERICAL,
    "spherical_in": [*_SPHERICAL, Case((_WHOLE, np.array([0.0])), {}, (1,))],
    "spherical_kn": _SPHERICAL,
    "jvp": _DERIVED,
    "yvp": _DERIVED,
    "ivp": _DERIVED,
    "kvp": _DERIVED,
    "h1vp": _DERIVED,
    "h2vp": _DERIVED,
    "zeta": [
        Case((np.array([-2.5, 0.5, 1.25, 3.0, 12.0]),)),
        Case((np.array([[1.125], [3.5]]), np.array([0.25, 1.0, 40.0])), {}, (0, 1)),
    ],
    "lambertw": [Case((np.array([-0.25, 0.0, 1.0, 30.0]),)), Case((np.array([-0.25, 2.0]), np.array([[-1], [2]])))],
}
CALLS = named_calls(special, scipy.special, CASES)


@pytest.mark.sampled
@pytest.mark.parametrize("name", CALLS)
def test_derivatives_of_first_and_second_order_are_those_of_finite_differences(name: str) -> None:
    ours, _, case = CALLS[name]

    check(ours, case)


@pytest.mark.parametrize("name", CALLS)
def test_values_are_those_of_scipy(name: str) -> None:
    check_values(*CALLS[name])
