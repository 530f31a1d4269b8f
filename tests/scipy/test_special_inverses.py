"""Parameters that SciPy finds for a distribution or an equation, with too few digits for differences of slopes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import asyncgrad as ag
from asyncgrad import sync

#: dfn, dfd, nc and f of the noncentral F distribution.
_ARGUMENTS = np.array([3.0, 5.0, 1.5, 1.75])


@pytest.mark.parametrize(("name", "position"), [("ncfdtridfn", 0), ("ncfdtridfd", 1), ("ncfdtrinc", 2)])
def test_a_parameter_moves_so_that_the_distribution_function_keeps_its_value(name: str, position: int) -> None:
    arguments = _ARGUMENTS.copy()
    arguments[position] = special.ncfdtr(*_ARGUMENTS)
    tensors = [ag.tensor(value, requires_grad=True) for value in arguments]

    found = getattr(special, name)(*tensors)
    grads = [grad.item() for grad in sync.grad(found, tensors)]

    at = _ARGUMENTS.copy()
    at[position] = found.item()
    steps = 1e-5 * np.eye(4)
    slopes = np.array([(special.ncfdtr(*(at + step)) - special.ncfdtr(*(at - step))) / 2e-5 for step in steps])
    expected = -slopes / slopes[position]
    expected[position] = 1 / slopes[position]
    np.testing.assert_allclose(grads, expected, rtol=1e-7)


@pytest.mark.parametrize(
    ("function", "whole"),
    [(special.mathieu_a, (1,)), (special.mathieu_b, (2,)), (special.pro_cv, (1, 3)), (special.obl_cv, (0, 2))],
)
def test_characteristic_values_have_a_derivative_by_their_parameter(function: np.ufunc, whole: tuple[int, ...]) -> None:
    t = ag.tensor([0.75, 4.0], requires_grad=True)

    (grad,) = sync.grad(function(*whole, t).sum(), [t])

    differences = (function(*whole, t.numpy() + 1e-4) - function(*whole, t.numpy() - 1e-4)) / 2e-4
    np.testing.assert_allclose(grad.numpy(), differences, rtol=1e-6)
