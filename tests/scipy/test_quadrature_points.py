"""asyncgrad.scipy.special: points and weights of Gauss's quadrature, and how they follow the parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special

import asyncgrad as ag
from asyncgrad.scipy import special
from tests.scipy.functions import check_along_a_line

_PARAMETERS: dict[str, tuple[float, ...]] = {
    "roots_gegenbauer": (0.75,),
    "roots_genlaguerre": (0.75,),
    "roots_jacobi": (1.5, 0.5),
    "roots_sh_jacobi": (1.75, 0.5),
}


@pytest.mark.parametrize("name", _PARAMETERS)
def test_points_and_weights_are_scipys_and_follow_the_parameters(name: str) -> None:
    function = getattr(special, name)
    for count in (1, 3):
        expected = getattr(scipy.special, name)(count, *_PARAMETERS[name], True)
        found = function(count, *(ag.tensor(one) for one in _PARAMETERS[name]), True)
        for one, value in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, value, rtol=1e-12)
        check_along_a_line(lambda *given, count=count: function(count, *given), _parameters(name))


def _parameters(name: str) -> list[Any]:
    return [np.array(one) for one in _PARAMETERS[name]]


def test_the_points_of_legendre_follow_the_parameters_too() -> None:
    check_along_a_line(lambda alpha, beta: special.j_roots(4, alpha, beta, True), [np.zeros(()), np.zeros(())])


def test_weights_that_vanish_are_no_nan() -> None:
    points, weights = special.roots_genlaguerre(200, ag.tensor(1.5, requires_grad=True))
    np.testing.assert_allclose(weights.detach(), scipy.special.roots_genlaguerre(200, 1.5)[1], rtol=1e-10)
    assert points.requires_grad


def test_parameters_beyond_the_domain_are_refused() -> None:
    with pytest.raises(ValueError, match="alpha"):
        special.roots_jacobi(3, -1.5, 0.5)
