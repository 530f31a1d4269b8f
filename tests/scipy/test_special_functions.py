"""Functions of scipy.special that are no ufuncs, complex numbers, and values far out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import AsyncgradError, MissingDerivativeError
from asyncgrad.numpy.random.shapes import (
    _f_slope,
    _f_slopes,
    _gamma_slopes,
    gamma_slope,
    mixture_numbers,
    noncentral_f_slope,
)
from asyncgrad.scipy import special
from asyncgrad.scipy.special.noncentral_t import _score_nodes, _t_nodes
from tests.core.ops.finite_differences import Case
from tests.scipy.functions import check, check_along_a_line, check_values, named_calls

_A = np.array([[1.0, -2.0, 0.5], [3.0, 1000.0, 999.0]])
_SMALL = np.array([[1.0, -2.0, 0.5], [3.0, 2.0, 0.25]])
_B = np.array([[0.5, 2.0, -0.25], [1.0, 0.5, 3.0]])
_N, _M = np.array([[0], [1], [4]]), np.array([[0], [-1], [3]])
_COSINES, _ANGLES = np.array([-0.75, 0.5]), np.array([0.25, 0.75])

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
    "legendre_p": [Case((_N, _COSINES), {"diff_n": 2}, (1,))],
    "legendre_p_all": [Case((3, _COSINES), {"diff_n": 2}, (1,))],
    "assoc_legendre_p": [
        Case((_N, _M, _COSINES), {"diff_n": 1}, (2,)),
        Case((_N, _M, _COSINES), {"norm": True}, (2,)),
    ],
    "assoc_legendre_p_all": [Case((2, 1, _COSINES), {}, (2,))],
    "sph_legendre_p": [Case((_N, _M, _ANGLES), {"diff_n": 2}, (2,))],
    "sph_legendre_p_all": [Case((2, 1, _ANGLES), {}, (2,))],
    "sph_harm_y": [Case((_N, _M, _ANGLES, np.array(0.5)), {"diff_n": order}, (2, 3)) for order in range(3)],
    "sph_harm_y_all": [Case((2, 1, _ANGLES, np.array(0.5)), {"diff_n": 1}, (2, 3))],
    "diric": [Case((np.array([-2.0, 0.0, 0.75, 2 * np.pi]), np.array([[1], [2], [5]])))],
    "lqn": [Case((3, _COSINES), {}, (1,)), Case((2, np.array(1.5)), {}, (1,))],
    "lqmn": [Case((2, 3, _COSINES), {}, (2,)), Case((1, 2, np.array(1.5)), {}, (2,))],
    "multigammaln": [Case((np.array([2.5, 6.0]), 3))],
}
CALLS = named_calls(special, scipy.special, CASES)


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("name", CALLS)
def test_derivatives_of_first_and_second_order_are_those_of_finite_differences(name: str) -> None:
    ours, _, case = CALLS[name]

    check(ours, case)


@pytest.mark.parametrize("name", CALLS)
def test_values_are_those_of_scipy(name: str) -> None:
    check_values(*CALLS[name])


@pytest.mark.parametrize(
    "name",
    ["erf", "erfc", "erfcx", "erfi", "dawsn", "wofz", "gamma", "loggamma", "rgamma", "expi", "exp1", "log_ndtr", "psi"],
)
def test_complex_derivatives_are_right(name: str) -> None:
    z = ag.tensor(np.array([0.75 + 0.5j, -1.25 + 0.25j, 2.0 - 1.5j]), requires_grad=True)

    assert sync.gradcheck(getattr(scipy.special, name), (z,))
    assert sync.gradgradcheck(getattr(scipy.special, name), (z,))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (scipy.special.hyp0f1, (1.5,)),
        (scipy.special.hyp1f1, (0.5, 1.75)),
        (scipy.special.hyp2f1, (0.5, 1.5, 2.25)),
        (scipy.special.elliprf, (0.0, 1.5)),
        (scipy.special.elliprd, (0.5, 1.5)),
        (scipy.special.elliprg, (0.5, 1.5)),
        (scipy.special.elliprj, (0.5, 1.5, 2.0)),
        (scipy.special.elliprc, (1.5,)),
        (scipy.special.eval_legendre, (3,)),
        (scipy.special.eval_jacobi, (3, 0.5, 1.5)),
    ],
)
def test_complex_derivatives_by_the_argument_and_the_parameters_are_right(
    function: Any, parameters: tuple[float, ...]
) -> None:
    z = ag.tensor(np.array([0.25 + 0.5j, -0.5 + 0.25j]), requires_grad=True)
    given = [
        ag.tensor(value, requires_grad=True) if isinstance(value, float) and value else value for value in parameters
    ]

    assert sync.gradcheck(function, (*given, z))
    assert sync.gradgradcheck(function, (*given, z))


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
        ("ellipk", 1 - 2.0**-30, 536870909.42912448, 5.764607521692059e17),
        ("ellipk", -1e8, 4.7983173318106568e-12, 6.9474759648536055e-20),
        ("ellipe", 1e-9, -0.39269908184598631, -0.14726215582109925),
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


@pytest.mark.parametrize("df", [900.0, 1e5, 1e8, 1e12])
@pytest.mark.parametrize(("name", "argument"), [("stdtr", 2.0), ("stdtr", -0.5), ("stdtrit", 0.3)])
def test_mixed_derivatives_of_students_distribution_are_the_same_in_either_order(
    name: str, argument: float, df: float
) -> None:
    both = [ag.tensor(df, requires_grad=True), ag.tensor(argument, requires_grad=True)]
    by_df, by_argument = sync.grad(getattr(special, name)(*both), both, create_graph=True)

    by_df_first = sync.grad(by_df, both[1:], retain_graph=True)[0].numpy()
    by_df_last = sync.grad(by_argument, both[:1])[0].numpy()

    np.testing.assert_allclose(by_df_last, by_df_first, rtol=1e-8)


@pytest.mark.parametrize(
    ("name", "point", "by", "expected"),
    [
        # By mpmath, as limits from above; those of hyperu at 0 by gamma(1 - b) / gamma(a - b + 1).
        ("gammainc", (0.0, 1.5), 0, -0.1000195824),
        ("gammaincc", (0.0, 1.5), 0, 0.1000195824),
        ("betainc", (0.0, 1.5, 0.3), 0, -0.7465500),
        ("betainc", (1.5, 0.0, 0.3), 1, 0.1347989),
        ("hyperu", (0.5, 0.5, 0.0), 0, 1.0230878),
        ("hyperu", (0.5, 0.5, 0.0), 1, 2.4571433),
        ("hyp2f1", (0.0, 1.5, 2.5, 1.0), 3, 0.0),
    ],
)
def test_the_ends_of_the_parameters_have_the_derivative_that_is_the_limit(
    name: str, point: tuple[float, ...], by: int, expected: float
) -> None:
    tensors = [ag.tensor(value, requires_grad=True) for value in point]

    (grad,) = sync.grad(getattr(scipy.special, name)(*tensors), [tensors[by]])

    np.testing.assert_allclose(grad.numpy(), expected, rtol=2e-6)


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


@pytest.mark.parametrize("x", [-1.0, 1.0])
def test_legendre_functions_have_derivatives_at_both_ends(x: float) -> None:
    t = ag.tensor(x, requires_grad=True)

    (slope,) = sync.grad(scipy.special.lpmv([0, 2, 4], 4, t).sum(), [t], create_graph=True)
    (curvature,) = sync.grad(slope, [t])

    # Of (35 x^4 - 30 x^2 + 3) / 8 + 15 (1 - x^2) (7 x^2 - 1) / 2 + 105 (1 - x^2)^2.
    np.testing.assert_allclose(slope.numpy(), 10 * x - 90 * x, rtol=1e-12)
    np.testing.assert_allclose(curvature.numpy(), 45 - 510 + 840, rtol=1e-12)


@pytest.mark.parametrize("name", ["eval_chebyt", "eval_chebyu", "eval_chebys", "eval_legendre", "eval_laguerre"])
def test_a_degree_that_is_a_whole_number_gives_a_polynomial_of_whatever_dtype(name: str) -> None:
    function, degrees = getattr(scipy.special, name), np.array([[0], [1], [2], [5], [300]])
    slopes = []
    for n in (degrees, degrees.astype(float)):
        x = ag.tensor([-0.75, 0.5, 1.0], requires_grad=True)
        sync.backward(function(n, x).sum())
        left = ag.tensor([-7.0, -1.0], requires_grad=True)
        sync.backward(function(n[:4], left).sum())
        slopes.append((*x.grad.tolist(), *left.grad.tolist()))

    np.testing.assert_allclose(slopes[1], slopes[0], rtol=1e-9)
    assert np.all(np.isfinite(slopes))


@pytest.mark.parametrize(
    ("name", "values"), [("eval_jacobi", (2.0, 1.5, 0.5, 0.25)), ("eval_genlaguerre", (3.0, 1.5, 0.5))]
)
def test_second_derivatives_by_the_degree_do_not_depend_on_the_order(name: str, values: tuple[float, ...]) -> None:
    leaves = [ag.tensor(value, requires_grad=True) for value in values]

    first = sync.grad(getattr(scipy.special, name)(*leaves), leaves, create_graph=True)
    matrix = [[one.item() for one in sync.grad(slope, leaves, retain_graph=True)] for slope in first]
    np.testing.assert_allclose(matrix, np.transpose(matrix), rtol=1e-8)


def test_the_derivative_by_the_degree_of_a_chebyshev_polynomial_is_known_at_the_left_end() -> None:
    n = ag.tensor([0.0, 2.5], requires_grad=True)

    sync.backward(scipy.special.eval_chebyt(n, -1.0).sum())

    np.testing.assert_allclose(n.grad.numpy(), [0.0, -np.pi], rtol=1e-12)


@pytest.mark.filterwarnings("ignore:floating point number truncated", "ignore:non-integer arg n is deprecated")
@pytest.mark.parametrize(
    ("name", "numbers", "x"),
    [
        ("bdtr", (1.5, 8.25), 0.25),
        ("bdtrc", (1.5, 8.25), 0.25),
        ("bdtri", (1.5, 8.25), 0.25),
        ("nbdtr", (2.5, 9.25), 0.25),
        ("nbdtrc", (2.5, 9.25), 0.25),
        ("nbdtri", (2.5, 9.25), 0.25),
        ("expn", (0.5,), 0.25),
        ("yn", (1.5,), 2.0),
    ],
)
def test_where_a_function_takes_the_whole_part_of_a_number_its_derivative_does_too(
    name: str, numbers: tuple[float, ...], x: float
) -> None:
    slopes = []
    for given in (numbers, np.floor(numbers)):
        t = ag.tensor(x, requires_grad=True)
        (slope,) = sync.grad(getattr(scipy.special, name)(*given, t), [t], create_graph=True)
        slopes.append((slope.item(), sync.grad(slope, [t])[0].item()))

    np.testing.assert_allclose(slopes[0], slopes[1], rtol=1e-12)


@pytest.mark.parametrize("theta", [0.0, np.pi])
def test_spherical_harmonics_have_derivatives_at_the_poles(theta: float) -> None:
    n, m, phi = np.arange(5)[:, None], np.arange(-2, 3), 0.75

    _, gradient, matrix = special.sph_harm_y(n, m, theta, phi, diff_n=2)

    _, expected, expected_matrix = scipy.special.sph_harm_y(n, m, theta, phi, diff_n=2)
    np.testing.assert_allclose(gradient.numpy(), expected, atol=1e-12)
    np.testing.assert_allclose(matrix.numpy(), expected_matrix, atol=1e-12)


@pytest.mark.parametrize(
    ("function", "arguments", "position", "expected"),
    [
        (scipy.special.chndtr, (np.inf, 2.0, 1.0), 0, 0.0),
        (scipy.special.chndtr, (0.0, 2.0, 1.0), 0, 0.5 * np.exp(-0.5)),
        (scipy.special.chndtr, (np.nan, 2.0, 1.0), 2, np.nan),
        (scipy.special.ncfdtr, (2.0, 3.0, 1.0, 0.0), 1, 0.0),
        (scipy.special.nctdtr, (2.0, 1.0, -np.inf), 0, 0.0),
        (scipy.special.hyperu, (0.5, -1.5, 0.0), 2, -0.25 * 0.886226925452758),
        (scipy.special.hyperu, (0.5, -1.5, np.nan), 1, np.nan),
        (scipy.special.tklmbda, (2.0, 0.5), 1, 0.0),
        (scipy.special.ellipeinc, (np.pi, 1.0), 1, -np.inf),
        (scipy.special.gammainc, (3.0, np.inf), 1, 0.0),
        (scipy.special.gammainc, (np.inf, 3.0), 0, 0.0),
        (scipy.special.betainc, (2.0, np.inf, 0.25), 2, 0.0),
        (scipy.special.betaincc, (np.inf, 2.0, 0.25), 0, 0.0),
        (scipy.special.fdtr, (1.0, 5.0, 0.0), 0, 0.0),
        (scipy.special.fdtr, (3.0, 5.0, np.inf), 1, 0.0),
        (scipy.special.gdtr, (0.25, 2.0, np.inf), 0, 0.0),
        (scipy.special.rgamma, (np.inf,), 0, 0.0),
        (scipy.special.beta, (0.25, np.inf), 0, 0.0),
        (lambda x: scipy.special.itairy(x)[0], (np.inf,), 0, 0.0),
        (scipy.special.boxcox, (0.0, 1.5), 1, 1 / 2.25),
        (scipy.special.boxcox1p, (-1.0, 1.5), 1, 1 / 2.25),
        (scipy.special.powm1, (0.0, 1.5), 1, 0.0),
        (scipy.special.powm1, (0.0, 0.0), 0, 0.0),
        (scipy.special.powm1, (0.0, 0.0), 1, 0.0),
        (scipy.special.kv, (2.0, 1e300), 0, 0.0),
        (scipy.special.agm, (2.0, 0.0), 0, 0.0),
        (scipy.special.bdtr, (3.0, 3, 1.0), 2, 0.0),
        (scipy.special.bdtrc, (-1.0, 3, 0.0), 2, 0.0),
        # There is no parameter for which the probability is as great, or as small.
        (scipy.special.pdtrik, (0.25, 0.5), 1, 0.0),
        (scipy.special.chndtrinc, (0.25, 0.25, 0.9375), 1, 0.0),
        (scipy.special.stdtridf, (0.25, 0.5), 0, 0.0),
    ],
)
def test_derivatives_at_the_ends_are_limits(
    function: Any, arguments: tuple[float, ...], position: int, expected: float
) -> None:
    x = ag.tensor(arguments[position], requires_grad=True)

    sync.backward(function(*arguments[:position], x, *arguments[position + 1 :]))

    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("function", "point", "order", "expected"),
    [
        # By mpmath with sixty digits.
        (lambda a: scipy.special.hyp1f1(a, 1.5, 0.75), 0.5, 3, 0.045302854192286297),
        (scipy.special.ellipk, 0.25, 4, 9.0254571685100075),
    ],
)
def test_derivatives_of_high_order_are_right(function: Any, point: float, order: int, expected: float) -> None:
    x = ag.tensor(point, requires_grad=True)

    result = function(x)
    for _ in range(order):
        (result,) = sync.grad(result, [x], create_graph=True)

    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-10)


@pytest.mark.parametrize("name", ["erf", "erfc", "erfcx", "dawsn", "ndtr", "log_ndtr", "i0e", "k1e", "exprel"])
def test_at_infinity_a_function_that_has_a_limit_has_derivatives_of_zero(name: str) -> None:
    x = ag.tensor(-np.inf if name == "exprel" else np.inf, requires_grad=True)

    (first,) = sync.grad(getattr(scipy.special, name)(x), [x], create_graph=True)
    (second,) = sync.grad(first, [x])
    assert (first.item(), second.item()) == (0, 0)


@pytest.mark.parametrize("sigma", [0.0, 1e-8, -1e-5, 2e-4])
def test_a_voigt_profile_that_is_next_to_a_lorentzian_has_its_derivatives(sigma: float) -> None:
    inputs = [ag.tensor(one, requires_grad=True) for one in (0.75, sigma, 0.5)]

    first = sync.grad(scipy.special.voigt_profile(*inputs), inputs, create_graph=True)
    second = sync.grad(first[1], inputs[1:2])[0].item()

    x, gamma = 0.75, 0.5
    size = x * x + gamma * gamma
    # By sigma it is sigma times the second derivative by x.
    curvature = 2 * gamma * (3 * x * x - gamma * gamma) / (np.pi * size**3)
    expected = [-2 * x * gamma / (np.pi * size**2), sigma * curvature, (x * x - gamma * gamma) / (np.pi * size**2)]
    np.testing.assert_allclose([one.item() for one in first], expected, rtol=1e-5)
    np.testing.assert_allclose(second, curvature, rtol=1e-4)


def test_a_loss_of_no_width_has_the_derivatives_of_its_limit() -> None:
    delta, r = ag.tensor(0.0, requires_grad=True), ag.tensor(-3.0, requires_grad=True)

    sync.backward(scipy.special.pseudo_huber(delta, r))

    assert (delta.grad.item(), r.grad.item()) == (3.0, 0.0)


def test_the_gradient_of_parameters_that_are_none_is_nan() -> None:
    noncentrality = ag.tensor([-1.0, 1.0], requires_grad=True)

    with np.errstate(invalid="ignore"):
        sync.backward(scipy.special.chndtr(2.0, 3.0, noncentrality).sum())

    assert np.isnan(noncentrality.grad.numpy()).tolist() == [True, False]


def test_the_gradient_of_a_sum_of_nothing_is_zero() -> None:
    x = ag.tensor([-np.inf, -np.inf], requires_grad=True)

    result = special.logsumexp(x)
    sync.backward(result)

    assert result.item() == -np.inf
    assert np.array_equal(x.grad.numpy(), [0.0, 0.0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: _backward(scipy.special.hyp1f1, 0.5, 1.5, 30 + 300j), "hyp1f1 has no derivative .* loses its digits"),
        (lambda: _backward(scipy.special.hyp2f1, 0.5, 1.5, 2.0, 0.9999), "hyp2f1 has no derivative .* too slowly"),
        (lambda: _backward(scipy.special.elliprj, 1.0, 2.0, 3.0, -1.0), "elliprj has no derivative rule for p < 0"),
        (
            lambda: _backward(scipy.special.mathieu_cem, 1, 0.5, 30.0),
            "mathieu_cem has a derivative .* last argument only",
        ),
        (lambda: _backward(scipy.special.lpmv, -1, 2.5, 0.5), "lpmv has no derivative with respect to v for m < 0"),
        (lambda: special.pbdv_seq(-1.5, 0.5), "is right for v > -1 only, not -1.5: take scipy.special.pbdv"),
        (lambda: special.riccati_jn(2, [0.5]), "takes a number for its last argument, not an array"),
        (lambda: special.lmbda(ag.tensor(0.5, requires_grad=True), 0.5), "has a derivative by its last argument only"),
        (lambda: special.legendre_p(2, 0.5, diff_n=3), "takes diff_n of 0, 1 or 2, not 3"),
        (lambda: special.sph_harm_y_all(-1, 0, 0.5, 0.5), "takes n of at least 0, not -1"),
        (lambda: special.polygamma(1, 1j), "takes real numbers, not complex128"),
        (lambda: special.comb(5, 2, exact=True), "only exact=False: write math.comb"),
        (lambda: special.factorial(5, extend="all"), 'takes extend="zero" or "complex", not'),
        (lambda: special.multigammaln([0.5], 3), "greater than"),
        (lambda: special.multigammaln([0.5], 1.5), "a whole number d of at least 1, not 1.5"),
    ],
)
def test_errors_say_what_is_wrong(call: Any, message: str) -> None:
    with pytest.raises((AsyncgradError, ValueError, TypeError), match=message):
        call()


def _backward(function: Any, *values: Any) -> None:
    tensors = [ag.tensor(value, requires_grad=True) if isinstance(value, float) else value for value in values]
    result = function(*tensors)
    sync.backward((result[0] if isinstance(result, tuple) else result).real)


@pytest.mark.parametrize("name", ["gamma", "roots_legendre"])
def test_a_function_that_is_passed_on_names_scipy(name: str) -> None:
    function = getattr(special, name)

    assert function.__module__ == "asyncgrad.scipy.special"
    assert function.__doc__.startswith(f"The function `scipy.special.{name}`")


@pytest.mark.parametrize("ufunc", [scipy.special.psi, scipy.special.gammaln], ids=lambda one: one.__name__)
def test_derivatives_far_below_0_take_no_longer_than_elsewhere(ufunc: Any) -> None:
    # SciPy's zeta would add 1e10 terms.
    x = ag.tensor([-1e10 - 0.3], requires_grad=True)
    (slope,) = ag.sync.grad(ufunc(x).sum(), [x], create_graph=True)
    (second,) = ag.sync.grad(slope.sum(), [x])

    expected = slope if ufunc is scipy.special.psi else second
    rest = x.numpy() - np.rint(x.numpy())
    np.testing.assert_allclose(expected.detach().numpy(), (np.pi / np.sin(np.pi * rest)) ** 2, rtol=1e-9)


@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_polygamma_of_negative_numbers_is_one_function_on_both_sides_of_the_reflection(n: int) -> None:
    # Beside half a number, where the cotangent's even derivatives vanish, SciPy loses digits.
    x = np.array([-20.25, -20.75, -21.25, -33.25])

    found, expected = special.polygamma(n, x).numpy(), scipy.special.polygamma(n, x)

    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("return_sign", [False, True])
def test_logsumexp_of_complex_numbers_is_that_of_scipy(return_sign: bool) -> None:
    for a, b in (
        ([1 + 1j, 2 - 1j, -2 + 3j], None),
        ([1.0, 2.0], [0.5 + 2j, -1.0 - 1j]),
        ([1e3 + 1j, 2.0 + 0j], [0.0, 1.0]),
        ([-np.inf + 0j, np.inf + 0j], None),
    ):
        given = np.asarray(a), None if b is None else np.asarray(b)
        found, expected = (
            one.logsumexp(given[0], b=given[1], return_sign=return_sign) for one in (special, scipy.special)
        )
        for ours, theirs in zip(np.atleast_1d(found), np.atleast_1d(expected), strict=True):
            np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-14)


@pytest.mark.parametrize("return_sign", [False, True])
def test_logsumexp_with_complex_weights_has_their_derivative(return_sign: bool) -> None:
    a = ag.tensor([[0.5, 1.0, -0.25]], requires_grad=True)
    b = ag.tensor([[0.5 + 2j, -1.0 - 1j, 0.25j]], requires_grad=True)

    assert ag.sync.gradcheck(lambda a, b: special.logsumexp(a, b=b, return_sign=return_sign), (a, b))


def test_logsumexp_keeps_what_is_small_beside_the_greatest_term() -> None:
    assert special.logsumexp([0.0, -40.0]).item() == scipy.special.logsumexp([0.0, -40.0]) > 0


def test_functions_of_the_polar_angle_have_their_slope_behind_the_pole_too() -> None:
    angles = np.array([-0.5, 0.5, 4.0])

    found = special.sph_legendre_p(3, 1, angles, diff_n=2).numpy()
    np.testing.assert_allclose(found, scipy.special.sph_legendre_p(3, 1, angles, diff_n=2), rtol=1e-12)
    for ours, theirs in zip(
        special.sph_harm_y(3, 1, angles, 0.25, diff_n=2),
        scipy.special.sph_harm_y(3, 1, angles, 0.25, diff_n=2),
        strict=True,
    ):
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-12, atol=1e-14)


def test_a_factorial_of_minus_one_is_a_pole() -> None:
    for n in (-1, np.array([-1.0, 2.0]), np.array([-1 + 0j, 0.5j])):
        expected = scipy.special.factorial(n, extend="complex")
        np.testing.assert_array_equal(special.factorial(n, extend="complex").numpy(), expected)


def test_a_confluent_function_that_is_a_polynomial_has_its_derivatives() -> None:
    first, second = np.array([-1, -3, -4, 0.5]), np.array([-1, -3, -6, 1.5])

    check_along_a_line(lambda x: scipy.special.hyp1f1(first, second, x), [np.array([0.5, 1.5, 0.75, -0.25])])


@pytest.mark.parametrize(("a", "b"), [(0, 0), (1, [0, -1, -2])])
def test_a_confluent_function_at_a_pole_has_no_derivative(a: int, b: Any) -> None:
    x = ag.tensor(0.5, requires_grad=True)
    (slope,) = sync.grad(np.sum(scipy.special.hyp1f1(a, b, x)), [x])

    assert np.isnan(slope.item())


def test_derivatives_of_wrights_function_are_there_where_a_gamma_function_overflows() -> None:
    leaves = [ag.tensor(number, requires_grad=True) for number in (100.0, 100.0, 1e20)]
    by_a, by_b, by_x = sync.grad(scipy.special.log_wright_bessel(*leaves), leaves, create_graph=True)
    (second,) = sync.grad(by_b, leaves[1:2], retain_graph=True)
    (mixed,) = sync.grad(by_a, leaves[:1])

    # All but the first term, 1 / gamma(b), are nothing.
    np.testing.assert_allclose([by_a.item(), by_x.item(), mixed.item()], 0.0, atol=1e-100)
    np.testing.assert_allclose(by_b.item(), -scipy.special.psi(100.0), rtol=1e-7)
    np.testing.assert_allclose(second.item(), -scipy.special.polygamma(1, 100.0), rtol=1e-7)


@pytest.mark.parametrize("point", [(8e-5, 1.0, 1e50), (0.5, 3.0, 1e20)])
def test_slopes_of_wrights_function_are_there_where_its_logarithm_has_no_digits_left(point: tuple[float, ...]) -> None:
    leaves = [ag.tensor(number, requires_grad=True) for number in point]
    by_a, by_b, by_x = sync.grad(scipy.special.log_wright_bessel(*leaves), leaves)
    a, _, x = point

    def difference(place: int) -> Any:
        step = 1e-4 * point[place]
        ends = ([one + (sign * step if index == place else 0) for index, one in enumerate(point)] for sign in (1, -1))
        high, low = (scipy.special.log_wright_bessel(*end) for end in ends)
        return (high - low) / (2 * step)

    np.testing.assert_allclose([by_a.item(), by_x.item()], [difference(0), difference(2)], rtol=1e-6)
    # It falls by b as the logarithm of (a * x)**(1 / (1 + a)) does.
    np.testing.assert_allclose(by_b.item(), -np.log(a * x) / (1 + a), rtol=1e-9)


@pytest.mark.parametrize("norm", [False, True])
def test_a_legendre_polynomial_has_derivatives_at_both_ends(norm: bool) -> None:
    ends = np.array([-1.0, 1.0])
    z = ag.tensor(ends, requires_grad=True)
    (slope,) = sync.grad(special.assoc_legendre_p(3, 0, z, norm=norm).sum(), [z], create_graph=True)
    (second,) = sync.grad(slope.sum(), [z])
    factor = np.sqrt(3.5) if norm else 1.0

    np.testing.assert_allclose(slope.detach(), factor * np.array([6.0, 6.0]))
    np.testing.assert_allclose(second, factor * 15 * ends)


def test_inv_boxcox_of_minus_infinity_has_the_slope_of_the_exponential() -> None:
    y = ag.tensor([-np.inf, 0.0, 0.75], requires_grad=True)

    for function in (special.inv_boxcox, special.inv_boxcox1p):
        (grad,) = sync.grad(function(y, np.zeros(3)).sum(), (y,))
        np.testing.assert_allclose(grad.numpy(), np.exp(y.numpy()))


def test_slopes_of_the_degenerate_elliptic_integral_next_to_equal_arguments_are_homogeneous() -> None:
    x = ag.tensor([1.0, 1.0, 1.3333, 1.0, 1e-150, 1.0 + 0.1j], requires_grad=True)
    y = ag.tensor([1.0, 1.3333, 1.0, 1 + 1e-13, 1.1e-150, 1.1 - 0.05j], requires_grad=True)
    value = scipy.special.elliprc(x, y)
    # By a complex analytic function, whose gradients are conjugates.
    by_x, by_y = (np.conj(one.numpy()) for one in sync.grad(np.real(value).sum(), [x, y]))

    np.testing.assert_allclose(by_x * x.detach() + by_y * y.detach(), -value.detach() / 2, rtol=1e-14)
    np.testing.assert_allclose([by_x[0], by_y[0]], [-1 / 6, -1 / 3], rtol=1e-14)


def test_a_noncentral_distribution_of_large_parameters_has_derivatives_of_few_terms() -> None:
    x, df, nc = (np.array([first, second]) for first, second in ((5e4, 1e6), (1e4, 10.0), (4e4, 1e6)))
    leaf = ag.tensor(nc, requires_grad=True)
    (slope,) = sync.grad(scipy.special.chndtr(x, df, leaf).sum(), [leaf])
    numbers, _ = mixture_numbers(np.array([1e3, 1e9, 1e15]))

    # By the recurrence of the distribution function.
    expected = 0.5 * (scipy.special.chndtr(x, df + 2, nc) - scipy.special.chndtr(x, df, nc))
    np.testing.assert_allclose(slope, expected, rtol=1e-8)
    assert len(numbers) < 100


def test_slopes_by_great_degrees_of_freedom_keep_their_digits() -> None:
    great, x = np.array([1e4, 1e6, 1e8]), 8.0
    weights = np.exp(-0.5 - scipy.special.gammaln(np.arange(25) + 1.0)) * 0.5 ** np.arange(25)
    functions = (
        lambda df: special.fdtrc(2.0, df, x),
        lambda df: special.fdtr(df, 2.0, 1 / x),
        lambda df: special.ncfdtr(2.0, df, 1.0, x),
        lambda df: sum(weight * special.fdtr(2.0 + 2 * j, df, x / (1 + j)) for j, weight in enumerate(weights)),
    )
    leaf = ag.tensor(great, requires_grad=True)

    slopes = [sync.grad(np.sum(function(leaf)), [leaf])[0].numpy() * great**2 for function in functions]

    # With 2 degrees of freedom beside these the functions are powers of 1 + odds.
    odds = 2 * x / great
    rise = odds**2 * (1 / 2 - odds * (2 / 3 - odds * (3 / 4 - odds * 4 / 5)))
    expected = -0.5 * great**2 * rise * np.exp(-great / 2 * np.log1p(odds))
    for slope in slopes[:2]:
        np.testing.assert_allclose(slope, expected, rtol=2e-9)
    np.testing.assert_allclose(slopes[2], slopes[3], rtol=2e-9)


def test_slopes_of_a_mixture_are_found_from_those_of_its_neighbours() -> None:
    numbers = np.arange(60.0).reshape(-1, 1)

    for draw, shape in ((0.25, 1e-3), (8.0, 0.5), (300.0, 2.0), (20.0, 400.0)):
        x, shapes = np.array([draw]), shape + numbers
        np.testing.assert_allclose(_gamma_slopes(shapes, x, True), gamma_slope(shapes, x), rtol=1e-11)
        for b, share in ((0.5, 1e-3), (3.0, 0.25), (40.0, 0.75)):
            second, odds = np.array([b]), np.array([share / (1 - share)])
            for by_second in (False, True):
                found = _f_slopes(shapes, second, odds, True, by_second)
                expected = _f_slope(shapes, second, odds) if by_second else -_f_slope(second, shapes, 1 / odds)
                np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_slopes_of_a_smooth_mixture_are_those_of_a_polynomial_beside_mixtures_of_few_terms() -> None:
    dfn, dfd, nc = np.array([0.5, 30.0, 3.0]), np.array([4.0, 500.0, 9.0]), np.array([1e3, 1.2e3, 1.0])
    x = (dfn + nc) / dfn * np.array([0.9, 1.05, 1.0])
    for parameter in ("dfnum", "dfden"):
        together = noncentral_f_slope(parameter, dfn, dfd, nc, x)
        numbers = np.arange(1e3).reshape(-1, 1)
        a, b, odds = dfn / 2, dfd / 2, dfn * x / dfd
        logarithms = (
            numbers * np.log(nc / 2) - scipy.special.gammaln(numbers + 1) - scipy.special.betaln(a + numbers, b)
        )
        logarithms = logarithms + numbers * np.log(odds / (1 + odds))
        weights = np.exp(logarithms - logarithms.max(0))
        if parameter == "dfden":
            slopes = _f_slope(a + numbers, b, odds)
        else:
            slopes = -_f_slope(b, a + numbers, 1 / odds) - numbers / (2 * a * (a + numbers))

        np.testing.assert_allclose(together, np.sum(weights * slopes, 0) / np.sum(weights, 0), rtol=1e-10)


def test_a_noncentral_t_distribution_of_few_or_many_degrees_of_freedom_has_derivatives_of_few_terms() -> None:
    df, nc, t = np.array([1e-3, 0.05, 1e4]), np.array([1.0, -1.0, 2.0]), np.array([2.0, -3.0, 2.5])
    leaves = [ag.tensor(one, requires_grad=True) for one in (df, nc)]
    slopes = sync.grad(scipy.special.nctdtr(*leaves, t).sum(), leaves)

    for position, slope in enumerate(slopes):
        ends = [[df, nc, t], [df, nc, t]]
        step = np.array([1e-5, 1e-4, 1.0]) if position == 0 else 1e-5
        ends[0][position], ends[1][position] = ends[0][position] - step, ends[1][position] + step
        low, high = (scipy.special.nctdtr(*one) for one in ends)
        np.testing.assert_allclose(slope, (high - low) / (2 * step), rtol=1e-4)
    assert _score_nodes(df / 2, nc, t)[2].max() < 400
    assert len(_t_nodes(df, nc, t)[0]) < 400


def test_what_is_no_distribution_has_no_derivative() -> None:
    leaf = ag.tensor(-1e8, requires_grad=True)

    for arguments in ((1e8, leaf, 0.4), (1e8, 1.0, leaf), (leaf, 1.0, 1.0)):
        (slope,) = sync.grad(scipy.special.chndtr(*arguments), [leaf])
        assert np.isnan(slope.item())
    (slope,) = sync.grad(scipy.special.nctdtr(leaf, 1.0, 2.0), [leaf])
    assert np.isnan(slope.item())


def test_a_recurrence_over_too_many_degrees_is_refused() -> None:
    alpha = ag.tensor(0.5, requires_grad=True)

    with pytest.raises(MissingDerivativeError, match="up to the degree 10001, not of 20000"):
        sync.backward(scipy.special.eval_genlaguerre(20000, alpha, 0.5))


def test_a_quotient_of_gamma_functions_has_a_slope_at_its_zeros() -> None:
    z = ag.tensor([-1.0, -2.0], requires_grad=True)

    (slope,) = sync.grad(special.poch(z, 0.5).sum(), [z])

    # The derivative of 1 / gamma at -k is (-1)**k * k!.
    np.testing.assert_allclose(slope, special.gamma([-0.5, -1.5]) * [-1.0, 2.0], rtol=1e-14)


def test_the_slope_by_the_order_of_a_bessel_function_far_out_is_that_of_its_asymptotic_series() -> None:
    v = ag.tensor([2.0, -40.0], requires_grad=True)
    x = np.array([1e8, 5e7])

    (slope,) = sync.grad(scipy.special.kve(v, x).sum(), [v])

    expected = special.kve(v.detach(), x) * v.detach() / x * (1 - 0.5 / x)
    np.testing.assert_allclose(slope, expected, rtol=1e-12)


def test_slopes_are_numbers_where_parts_of_them_overflow() -> None:
    a, b, x = (ag.tensor(one, requires_grad=True) for one in (1e-10, -1000.0, 0.0))
    slopes = sync.grad(special.hyperu(a, b, x), [a, b, x])
    np.testing.assert_allclose(slopes, [-special.psi(1001.0), 1.0036416140e-13, -1e-13], rtol=1e-8)


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize(("degree", "order"), [(3, 2), (4, -2), (5, 4), (7, 6)])
def test_associated_functions_have_derivatives_at_both_ends(norm: bool, degree: int, order: int) -> None:
    ends, inside = np.array([-1.0, 1.0]), np.array([-1.0, 1.0]) * (1 - 1e-9)
    z = ag.tensor(ends, requires_grad=True)

    (slope,) = sync.grad(special.assoc_legendre_p(degree, order, z, norm=norm).sum(), [z], create_graph=True)
    (curvature,) = sync.grad(slope.sum(), [z])

    _, *near = scipy.special.assoc_legendre_p(degree, order, inside, norm=norm, diff_n=2)
    size = np.abs(scipy.special.assoc_legendre_p(degree, order, np.linspace(-0.9, 0.9, 9), norm=norm)).max()
    np.testing.assert_allclose(slope.detach().numpy(), near[0], rtol=1e-6, atol=1e-6 * size)
    np.testing.assert_allclose(curvature.numpy(), near[1], rtol=1e-6, atol=1e-4 * size)


def _slopes(function: Any, *arguments: Any) -> list[Any]:
    """Return the derivatives of a function by all of its arguments."""
    leaves = [ag.tensor(np.array(one, float), requires_grad=True) for one in arguments]
    return [one.numpy() for one in sync.grad(function(*leaves).sum(), leaves)]


@pytest.mark.parametrize("name", ["elliprc", "elliprd", "elliprg"])
def test_slopes_of_carlsons_integrals_are_the_same_beside_those_of_points_far_apart(name: str) -> None:
    function, count = getattr(special, name), getattr(scipy.special, name).nin
    alone, far = (2.0, 2.25, 4.0)[:count], (1e-200, 1e200, 1.0)[:count]

    beside = _slopes(function, *zip(alone, far, strict=True))

    np.testing.assert_allclose([one[0] for one in beside], _slopes(function, *alone), rtol=1e-13)
    # An integral of such a degree is the sum of its slopes times their arguments, over the degree.
    degree = {"elliprc": -0.5, "elliprd": -1.5, "elliprg": 0.5}[name]
    total = sum(point * slope for point, slope in zip((alone, far), np.transpose(beside), strict=True))
    np.testing.assert_allclose(np.sum(total), degree * (function(*alone) + function(*far)).item(), rtol=1e-12)


def test_beta_functions_from_pole_to_pole_have_slopes_by_what_moves_both() -> None:
    a = np.array([-3.0, -7.0])

    # There beta(a, 1) is 1 / a.
    for function, expected in ((special.beta, -1 / a**2), (special.betaln, -1 / a)):
        leaf = ag.tensor(a, requires_grad=True)
        (slope,) = sync.grad(function(leaf, 1.0).sum(), [leaf])
        np.testing.assert_allclose(slope, expected, rtol=1e-14)


def test_a_slope_for_a_large_sample_is_that_of_the_limit() -> None:
    n, d = np.array([2e9, 1e9, 2e6]), np.array([1e-5, 0.5, 1e-3])
    leaf = ag.tensor(d, requires_grad=True)

    (slope,) = sync.grad(special.smirnov(n, leaf).sum(), [leaf], create_graph=True)
    (curvature,) = sync.grad(slope.sum(), [leaf])

    step = 1e-4 * d
    after, here, before = (scipy.special.smirnov(n, d + sign * step) for sign in (1, 0, -1))
    np.testing.assert_allclose(slope.detach(), (after - before) / (2 * step), rtol=1e-5)
    np.testing.assert_allclose(curvature, (after - 2 * here + before) / step**2, rtol=1e-3)


def test_one_nan_leaves_the_slopes_of_others() -> None:
    for function, arguments in (
        (special.eval_legendre, ([2.5, np.nan], [0.3, 0.3])),
        (special.nctdtr, ([3.0, np.nan], [1.0, 1.0], [0.5, 0.5])),
        (special.elliprc, ([2.0, np.nan], [2.1, 1.0])),
    ):
        alone = _slopes(function, *(one[0] for one in arguments))
        np.testing.assert_allclose([one[0] for one in _slopes(function, *arguments)], alone, rtol=1e-12)


def test_slopes_at_special_points_are_their_limits() -> None:
    # A gamma distribution of a quantile that is 0 at any rate.
    assert _slopes(special.gdtr, 2.0, 0.5, 0.0)[0] == 0
    # Half a turn times 1e12 is a number of whole turns.
    assert _slopes(lambda z: special.fresnel(z)[0], 1e6) == [0.0]
    # The whole part of -1 / 2 is 0, of which the quantile is -log(y).
    with pytest.warns(RuntimeWarning, match="truncated to an integer"):
        np.testing.assert_allclose(_slopes(lambda y: special.pdtri(-0.5, y), 0.5), [-2.0])
    assert _slopes(special.pseudo_huber, 0.0, 0.0) == [0.0, 0.0]
    # sin((n + 1) * t) / sin(t) with x = cos(t) at n = -3 / 2 is -1 / (2 * cos(t / 2)).
    angle = np.arccos(0.3)
    expected = np.sin(angle / 2) / (4 * np.cos(angle / 2) ** 2) / np.sin(angle)
    np.testing.assert_allclose(_slopes(special.eval_chebyu, -1.5, 0.3)[1], expected)


def test_slopes_of_characteristic_values_hold_for_large_parameters() -> None:
    m, q = np.array([0.0, 3.0, 2.0, 25.0]), np.array([1e4, -100.0, 1e4, 3.0])

    for function in (special.mathieu_a, special.mathieu_b):
        orders = m if function is special.mathieu_a else m + 1
        leaf = ag.tensor(q, requires_grad=True)
        (slope,) = sync.grad(function(orders, leaf).sum(), [leaf])
        step = 1e-3 * np.abs(q)
        difference = (function(orders, q + step) - function(orders, q - step)) / (2 * step)
        np.testing.assert_allclose(slope, difference, rtol=1e-5)


@pytest.mark.parametrize("sigma", [0.1, 2.0, 90.0, 110.0])
def test_narrow_profiles_have_slopes_far_out(sigma: float) -> None:
    x, gamma = 1e4, 0.5

    slopes = _slopes(special.voigt_profile, x, sigma, gamma)
    # By the asymptotic series, which has the moments of the normal distribution.
    k, z = np.arange(8), complex(x, gamma)
    terms = np.cumprod([1, 1, 3, 5, 7, 9, 11, 13]) * sigma ** (2.0 * k) / z ** (2.0 * k + 1)
    by_place, by_sigma = -(2 * k + 1) / z * terms, 2 * k / sigma * terms
    expected = [np.sum(1j * one).real / np.pi for one in (by_place, by_sigma, 1j * by_place)]
    np.testing.assert_allclose(slopes, expected, rtol=1e-6)


def test_polynomials_of_too_many_terms_have_no_derivative() -> None:
    leaf = ag.tensor(2.0, requires_grad=True)

    for value in (special.hyperu(-1e7 - 0.5, 0.5, leaf), special.hyp1f1(-1e7, -1e8, leaf * 1e-8)):
        with pytest.raises(MissingDerivativeError, match="at least -10000, not of"):
            sync.grad(value, [leaf])
