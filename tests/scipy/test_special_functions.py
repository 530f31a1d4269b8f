"""Functions of scipy.special that are no ufuncs, complex numbers, and values far out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import AsyncgradError
from asyncgrad.scipy import special
from tests.ops.finite_differences import Case
from tests.scipy.functions import check, check_values, named_calls

_A = np.array([[1.0, -2.0, 0.5], [3.0, 1000.0, 999.0]])
_SMALL = np.array([[1.0, -2.0, 0.5], [3.0, 2.0, 0.25]])
_B = np.array([[0.5, 2.0, -0.25], [1.0, 0.5, 3.0]])

CASES: dict[str, list[Case]] = {
    "logsumexp": [
        Case((_A,), {"axis": 1}),
        Case((_SMALL,), {"b": _B, "axis": 0}, (0, "b")),
        Case((_SMALL,), {"b": _B, "axis": (0, 1), "keepdims": True}, (0, "b")),
        Case((_SMALL,), {"b": -np.abs(_B), "axis": 1, "return_sign": True}, (0, "b")),
        Case((_SMALL[0],), {"b": np.array(2.0)}, (0, "b")),
        Case((np.array(0.5),)),
    ],
    "softmax": [Case((_A, 1)), Case((_SMALL,)), Case((_SMALL, (0, 1)))],
    "log_softmax": [Case((_A, 1)), Case((_SMALL,))],
    "polygamma": [
        Case((np.array([[0], [1], [3]]), np.array([0.5, 2.0])), {}, (1,)),
        Case((2, np.array([-0.5, 3.0])), {}, (1,)),
    ],
    "comb": [
        Case((np.array([[5.0], [6.5]]), np.array([2.0, 2.75])), {}, (0, 1)),
        Case((np.array([5.0, 2.0]), np.array([2.0, 4.0])), {}, (0,)),
        Case((np.array([5.0, 2.5]), 2), {"repetition": True}),
    ],
    "perm": [
        Case((np.array([[5.0], [6.5]]), np.array([2.0, 2.75])), {}, (0, 1)),
        Case((np.array([-1.0, 2.5, 1.5]), np.array([2.0, -1.0, 3.0])), {}, (0, 1)),
    ],
    "factorial": [Case((np.array([-0.5, 0.25, 4.25]),))],
    "multigammaln": [Case((np.array([2.5, 6.0]), 3))],
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


@pytest.mark.parametrize(
    "name", ["erf", "erfc", "erfcx", "erfi", "dawsn", "wofz", "gamma", "loggamma", "rgamma", "expi", "exp1", "log_ndtr"]
)
def test_complex_derivatives_are_right(name: str) -> None:
    z = ag.tensor(np.array([0.75 + 0.5j, -1.25 + 0.25j, 2.0 - 1.5j]), requires_grad=True)

    assert sync.gradcheck(getattr(scipy.special, name), (z,))
    if name not in ("gamma", "loggamma", "rgamma"):
        assert sync.gradgradcheck(getattr(scipy.special, name), (z,))


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(
    ("name", "point", "first", "second"),
    [
        # By mpmath with fifty digits.
        ("erfcx", 1e6, -5.6418958354691e-13, 1.1283791670921274e-18),
        ("dawsn", 1e6, -5.0000000000075e-13, 1.000000000003e-18),
        ("log_ndtr", -1e3, 1000.000999998, -0.99999900000599995),
        ("log_expit", -800.0, 1.0, 0.0),
        ("expit", 40.0, 4.2483542552915889953e-18, -4.2483542552915889773e-18),
        ("ndtri_exp", -1e10, 7.0710678160297818e-06, 3.53553391200242e-16),
    ],
)
def test_far_out_no_digits_are_lost(name: str, point: float, first: float, second: float, order: int) -> None:
    x = ag.tensor(point, requires_grad=True)
    (slope,) = sync.grad(getattr(scipy.special, name)(x), [x], create_graph=True)

    if order == 1:
        np.testing.assert_allclose(slope.numpy(), first, rtol=1e-10)
    else:
        np.testing.assert_allclose(sync.grad(slope, [x])[0].numpy(), second, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize(
    ("t", "expected"), [(-0.5, -5.5010037117e-12), (1.0, 1.20984757331e-11), (5.6, 2.80714548705e-16)]
)
def test_many_degrees_of_freedom_keep_their_derivative(t: float, expected: float) -> None:
    df = ag.tensor(1e5, requires_grad=True)

    sync.backward(scipy.special.stdtr(df, t))

    # By mpmath with sixty digits.
    np.testing.assert_allclose(df.grad.numpy(), expected, rtol=1e-7)


def test_combinations_and_factorials_of_whole_numbers_are_those_of_scipy() -> None:
    n, k = np.array([1, 3, 5]), np.array([[0], [2], [7]])

    assert np.array_equal(special.factorial(n).numpy(), scipy.special.factorial(n))
    assert np.array_equal(special.comb(n, k).numpy(), scipy.special.comb(n, k))
    assert np.array_equal(special.perm(n, k).numpy(), scipy.special.perm(n, k))
    repeated = special.comb(n, k, repetition=True).numpy()
    assert np.array_equal(repeated, scipy.special.comb(n, k, repetition=True))


@pytest.mark.parametrize(("pole", "expected"), [(0.0, 2 * 0.5772156649015329), (-2.0, 4 * 0.5772156649015329 - 6)])
def test_the_reciprocal_of_gamma_has_a_second_derivative_at_poles(pole: float, expected: float) -> None:
    x = ag.tensor(pole, requires_grad=True)

    (slope,) = sync.grad(scipy.special.rgamma(x), [x], create_graph=True)

    np.testing.assert_allclose(sync.grad(slope, [x])[0].numpy(), expected, rtol=1e-12)


def test_the_gradient_of_a_sum_of_nothing_is_zero() -> None:
    x = ag.tensor([-np.inf, -np.inf], requires_grad=True)

    result = special.logsumexp(x)
    sync.backward(result)

    assert result.item() == -np.inf
    assert np.array_equal(x.grad.numpy(), [0.0, 0.0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: special.polygamma(1, 1j), "takes real numbers, not complex128"),
        (lambda: special.comb(5, 2, exact=True), "only exact=False: write math.comb"),
        (lambda: special.factorial(5, extend="all"), 'takes extend="zero" or "complex", not'),
        (lambda: special.multigammaln([0.5], 3), "greater than"),
        (lambda: special.multigammaln([0.5], 1.5), "a whole number d of at least 1, not 1.5"),
        (lambda: _second_derivative_of_complex_gamma(), "psi of complex numbers has no derivative rule"),
    ],
)
def test_errors_say_what_is_wrong(call: Any, message: str) -> None:
    with pytest.raises((AsyncgradError, ValueError, TypeError), match=message):
        call()


def _second_derivative_of_complex_gamma() -> None:
    z = ag.tensor(0.5 + 1j, requires_grad=True)
    (slope,) = sync.grad(scipy.special.loggamma(z).real, [z], create_graph=True)
    sync.backward(slope.real)
