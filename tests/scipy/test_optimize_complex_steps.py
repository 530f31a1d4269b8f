"""SciPy's complex steps, and solutions at bounds: what SciPy finds is what is returned."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.scipy import optimize


def residuals(x):
    return (x - 3.0) ** 2 * np.array([1.0, 2.0])


@pytest.mark.parametrize("method", ["trf", "dogbox", "lm"])
def test_least_squares_by_complex_steps_is_that_of_scipy(method):
    found = optimize.least_squares(residuals, np.zeros(2), jac="cs" if method != "lm" else "2-point", method=method)
    expected = scipy.optimize.least_squares(
        residuals, np.zeros(2), jac="cs" if method != "lm" else "2-point", method=method
    )
    np.testing.assert_allclose(found.x.numpy(), expected.x, rtol=1e-9)
    assert found.nfev == expected.nfev


def test_a_minimum_by_complex_steps_is_that_of_scipy():
    def function(x):
        return ((x - 3.0) ** 2).sum() + np.exp(x).sum()

    found = optimize.minimize(function, np.zeros(2), jac="cs")
    expected = scipy.optimize.minimize(function, np.zeros(2), jac="cs")
    np.testing.assert_allclose(found.x.numpy(), expected.x, rtol=1e-9)
    assert found.nit == expected.nit > 0


def test_a_hessian_by_complex_steps_is_that_of_our_gradient():
    def function(x):
        return ((x - 3.0) ** 4).sum() + np.sin(x).prod()

    found = optimize.minimize(function, np.array([1.0, 2.0]), method="trust-constr", hess="cs", options={"gtol": 1e-9})
    expected = optimize.minimize(function, np.array([1.0, 2.0]), method="trust-constr", options={"gtol": 1e-9})
    np.testing.assert_allclose(found.x.numpy(), expected.x.numpy(), rtol=1e-6)
    assert found.success


def test_a_function_that_has_no_complex_form_says_so():
    with pytest.raises(TypeError, match="floor"):
        optimize.least_squares(lambda x: np.floor(x) - 1.0, np.zeros(2), jac="cs")


@pytest.mark.parametrize("method", ["trf", "bvls"])
def test_linear_least_squares_of_tensors_stay_within_their_bounds(method):
    rng = np.random.default_rng(0)
    for _ in range(300):
        rows, columns = rng.integers(3, 9), rng.integers(1, 5)
        matrix, target = rng.normal(size=(rows, columns)), 10 * rng.normal(size=rows)
        a, b = ag.tensor(matrix, requires_grad=True), ag.tensor(target, requires_grad=True)
        found = optimize.lsq_linear(a, b, (-0.1, 0.3), method)
        expected = scipy.optimize.lsq_linear(matrix, target, (-0.1, 0.3), method)
        assert np.array_equal(found.x.detach().numpy(), expected.x)
        np.testing.assert_allclose(found.cost.detach().numpy(), expected.cost, rtol=1e-9)


def test_the_gradient_next_to_a_bound_is_that_of_the_elements_that_are_free():
    matrix, target = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), np.array([0.1, 2.0, 0.1])

    def solution(a, b):
        return optimize.lsq_linear(a, b, (-0.4, 0.4)).x

    assert sync.gradcheck(
        solution, (ag.tensor(matrix, requires_grad=True), ag.tensor(target, requires_grad=True)), atol=1e-4, rtol=1e-3
    )
