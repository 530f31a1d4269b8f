"""asyncgrad.scipy.stats: random matrices, choices among classes, and kernel densities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ArgumentError
from asyncgrad.scipy import stats
from tests.core.ops.finite_differences import Case
from tests.scipy.functions import check, check_values

_SCALE = np.array([[2.0, 0.25, 0.125], [0.25, 1.0, 0.5], [0.125, 0.5, 1.5]])
_MATRICES = np.moveaxis(np.array([_SCALE + np.eye(3) / 2, _SCALE @ _SCALE]), 0, -1)
_SHARES = np.array([0.25, 0.25, 0.5])
_DATA = np.array([[0.5, -1.0, 2.0, 0.25, 1.5], [1.0, 0.5, -0.75, 1.25, 0.0]])
_WEIGHTS = np.array([1.0, 2.0, 0.5, 1.5, 1.0])
_POINTS = np.array([[0.25, 1.0, 1.75], [0.5, -0.25, 1.5]])


def _by_method(name: str, method: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    return getattr(getattr(stats, name), method), getattr(getattr(scipy.stats, name), method)


def _density(method: str, bw_method: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def on(module: Any) -> Callable[..., Any]:
        return lambda points, data, weights: getattr(module.gaussian_kde(data, bw_method, weights), method)(points)

    return on(stats), on(scipy.stats)


def _integral(kind: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def on(module: Any) -> Callable[..., Any]:
        def call(data: Any, weights: Any, *rest: Any) -> Any:
            density = module.gaussian_kde(data, weights=weights)
            if kind == "marginal":
                return density.marginal([1]).pdf(*rest)
            if kind == "kde":
                return density.integrate_kde(module.gaussian_kde(data[:, :4] + 1))
            return density.integrate_gaussian(*rest)

        return call

    return on(stats), on(scipy.stats)


# SciPy takes degrees of freedom as numbers only; derivatives by them are tested below.
CALLS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Case]] = {
    **{
        f"{name}.{method}": (*_by_method(name, method), case)
        for name in ("wishart", "invwishart")
        for method, case in {
            "logpdf": Case((_MATRICES, 4.5, _SCALE), {}, (0, 2)),
            "pdf": Case((np.array([1.0, 2.0]), 4.5, np.array(2.0)), {}, (0, 2)),
            "entropy": Case((4.5, _SCALE), {}, (1,)),
            "mean": Case((4.5, _SCALE), {}, (1,)),
            "mode": Case((4.5, _SCALE), {}, (1,)),
        }.items()
    },
    "wishart.var": (*_by_method("wishart", "var"), Case((4.5, _SCALE), {}, (1,))),
    **{
        f"multinomial.{method}": (
            *_by_method("multinomial", method),
            Case((np.array([[1, 2, 3], [0, 4, 2]]), 6, _SHARES), {}, (2,)),
        )
        for method in ("pmf", "logpmf")
    },
    "multinomial.entropy": (*_by_method("multinomial", "entropy"), Case((np.array([0, 1, 6]), _SHARES), {}, (1,))),
    "multinomial.cov": (*_by_method("multinomial", "cov"), Case((6, _SHARES), {}, (1,))),
    "multinomial.outside": (*_by_method("multinomial", "logpmf"), Case(([1, 2, 2], 6, _SHARES), {}, (2,))),
    "gaussian_kde.evaluate": (*_density("evaluate", None), Case((_POINTS, _DATA, _WEIGHTS), {}, (0, 1, 2))),
    "gaussian_kde.logpdf": (*_density("logpdf", "silverman"), Case((_POINTS[0], _DATA[0], _WEIGHTS), {}, (0, 1, 2))),
    "gaussian_kde.integrate_gaussian": (
        *_integral("gaussian"),
        Case((_DATA, _WEIGHTS, _POINTS[:, 0], np.eye(2) / 2), {}),
    ),
    "gaussian_kde.integrate_kde": (*_integral("kde"), Case((_DATA, _WEIGHTS), {})),
    "gaussian_kde.marginal": (*_integral("marginal"), Case((_DATA, _WEIGHTS, _POINTS[1]), {})),
    "multivariate_t.entropy": (
        *_by_method("multivariate_t", "entropy"),
        Case((_POINTS[0], _SCALE, 4.5), {}, (0, 1, 2)),
    ),
    "gaussian_kde.far": (*_density("logpdf", 0.5), Case((_POINTS + 100, _DATA, _WEIGHTS), {}, (0, 1, 2))),
}


@pytest.mark.sampled
@pytest.mark.parametrize("call", CALLS)
def test_values_are_those_of_scipy(call: str) -> None:
    check_values(*CALLS[call])


@pytest.mark.sampled
@pytest.mark.parametrize("call", [call for call in CALLS if call not in ("gaussian_kde.far", "multinomial.outside")])
def test_derivatives_are_those_of_finite_differences(call: str) -> None:
    ours, _, case = CALLS[call]

    check(ours, case)


@pytest.mark.parametrize("name", ["wishart", "invwishart"])
@pytest.mark.parametrize("method", ["logpdf", "entropy"])
def test_degrees_of_freedom_have_derivatives(name: str, method: str) -> None:
    ours = getattr(getattr(stats, name), method)

    if method == "logpdf":
        check(lambda df: ours(_MATRICES, df, _SCALE), Case((np.array(4.5),)))
    else:
        check(lambda df: ours(df, _SCALE), Case((np.array(4.5),)))


def test_draws_of_matrices_are_scipys_and_follow_the_parameters() -> None:
    df, scale = ag.tensor(5.5, requires_grad=True), ag.tensor(_SCALE, requires_grad=True)

    drawn = stats.wishart.rvs(df, scale, 2000, 7)
    inverse = stats.invwishart.rvs(5.5, 2 * scale, 3, 7)
    by_df, by_scale = sync.grad(drawn.sum() / 2000, [df, scale])
    (by_inverse,) = sync.grad(inverse.sum(), [scale])

    np.testing.assert_allclose(drawn.numpy(), scipy.stats.wishart.rvs(5.5, _SCALE, 2000, 7), rtol=1e-9)
    np.testing.assert_allclose(inverse.numpy(), scipy.stats.invwishart.rvs(5.5, 2 * _SCALE, 3, 7), rtol=1e-9)
    # The mean is df * scale, of which these are averages; draws are homogeneous in the scale.
    np.testing.assert_allclose(by_df.item(), _SCALE.sum(), rtol=0.05)
    np.testing.assert_allclose((by_scale.numpy() * _SCALE).sum(), drawn.numpy().sum() / 2000, rtol=1e-9)
    np.testing.assert_allclose((by_inverse.numpy() * _SCALE).sum(), inverse.numpy().sum(), rtol=1e-9)


def test_classes_have_the_probabilities_that_are_given() -> None:
    p = ag.tensor([0.5, 1.0, 0.0, 0.5], requires_grad=True)

    found = stats.categorical.logpmf([0, 1, 2, 4], p)
    with np.errstate(divide="ignore"):  # for what is never chosen
        sync.backward(found[:2].sum() + stats.categorical(p).entropy())

    np.testing.assert_allclose(found.numpy(), [np.log(0.25), np.log(0.5), -np.inf, -np.inf])
    np.testing.assert_array_equal(stats.categorical.pmf([0, 1, 2, 4], p.detach()).numpy(), [0.25, 0.5, 0.0, 0.0])
    assert np.isfinite(p.grad.numpy()[[0, 1, 3]]).all()
    assert set(stats.categorical.rvs([0.0, 0.5, 0.5], size=20, random_state=1).numpy()) == {1, 2}
    check(lambda p: stats.categorical.logpmf([2, 0], p), Case((_SHARES,)))


@pytest.mark.parametrize("data", [_DATA, _DATA[0]], ids=["plane", "line"])
def test_points_drawn_from_a_kernel_density_are_scipys_and_move_with_the_data(data: Any) -> None:
    tensor = ag.tensor(data, requires_grad=True)

    drawn = stats.gaussian_kde(tensor, 0.5).resample(6, 3)
    (gradient,) = sync.grad(drawn.sum(), [tensor])

    np.testing.assert_allclose(drawn.numpy(), scipy.stats.gaussian_kde(data, 0.5).resample(6, 3), rtol=1e-12)
    # Points that all move move the draws as far.
    np.testing.assert_allclose(np.atleast_2d(gradient.numpy()).sum(-1), 6.0)


def test_axes_of_one_of_a_batch_are_left_out_as_scipy_does() -> None:
    for module in (stats, scipy.stats):
        normal = module.multivariate_normal
        found = [
            normal.pdf(np.zeros((3, 1, 2)), [0.0, 1.0], np.eye(2)),
            normal.cdf(np.zeros((1, 2)), [0.0, 1.0], np.eye(2)),
            module.multivariate_t.logpdf(np.zeros((1, 2)), [0.0, 1.0], np.eye(2), 3.0),
            module.dirichlet.logpdf(_SHARES[:, np.newaxis], [1.0, 2.0, 3.0]),
            module.wishart.logpdf(_SCALE[:, :, np.newaxis], 5, _SCALE),
        ]
        assert [np.shape(one) for one in found] == [(3,), (), (), (), ()]


def test_the_probability_between_bounds_is_scipys() -> None:
    found = stats.gaussian_kde(_DATA[0], weights=_WEIGHTS).integrate_box_1d(-0.5, 1.0)

    np.testing.assert_allclose(
        found.numpy(), scipy.stats.gaussian_kde(_DATA[0], weights=_WEIGHTS).integrate_box_1d(-0.5, 1.0)
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: stats.wishart.logpdf(_SCALE, 1.5, _SCALE), "one number greater than 2"),
        (lambda: stats.wishart(5, -_SCALE), "takes a positive definite scale"),
        (lambda: stats.wishart.logpdf(np.eye(2), 5, _SCALE), r"matrices of shape \(3, 3\)"),
        (lambda: stats.invwishart.rvs(ag.tensor(5.0, requires_grad=True), _SCALE), "no derivative by df"),
        (lambda: stats.multinomial.logpmf([1, 2], 3, _SHARES), r"counts of shape \(..., 3\)"),
        (lambda: stats.multinomial.rvs(3, ag.tensor(_SHARES, requires_grad=True)), "whole numbers"),
        (lambda: stats.categorical.pmf(0, [-0.5, 1.0]), "none of them negative"),
        (lambda: stats.gaussian_kde([1.0]), "at least two points"),
        (lambda: stats.gaussian_kde(_DATA, weights=[1.0]), r"weights of shape \(5,\)"),
        (lambda: stats.gaussian_kde(_DATA, "best"), "'scott', 'silverman', a number or a function, not 'best'"),
        (lambda: stats.gaussian_kde([[0.0, 1.0], [0.0, 0.0]]), "lies in a subspace"),
        (lambda: stats.gaussian_kde(_DATA).pdf(np.zeros((3, 4))), r"points of shape \(2, m\)"),
        (
            lambda: stats.gaussian_kde(_DATA).integrate_gaussian(0.5, 1.0),
            r"a mean of shape \(2,\) and a cov .* not \(1,\)",
        ),
        (lambda: stats.gaussian_kde(_DATA).integrate_kde(stats.gaussian_kde(_DATA[0])), "not of 1 beside 2"),
        (lambda: stats.gaussian_kde(_DATA).marginal([0, 2]), "numbers of the 2 coordinates, not"),
    ],
)
def test_errors_say_what_is_wrong(call: Any, message: str) -> None:
    with pytest.raises((ArgumentError, ValueError, np.linalg.LinAlgError), match=message):
        call()


def test_a_normal_probability_is_differentiable_by_a_covariance_of_three_variables() -> None:
    cov = np.array([[1.0, 0.5, -0.25], [0.5, 1.0, 0.125], [-0.25, 0.125, 1.0]])
    x, tensor = ag.tensor(np.zeros(3), requires_grad=True), ag.tensor(cov, requires_grad=True)

    found = stats.multivariate_normal.cdf(x, cov=tensor)
    slopes, gradient = sync.grad(found, [x, tensor])

    # The probability that all three are negative is 1/8 + sum(arcsin(correlation)) / (4 * pi), whatever the variances.
    correlations = cov[np.triu_indices(3, 1)]
    by_correlation = 1 / (4 * np.pi * np.sqrt(1 - cov**2 + np.eye(3)))
    expected = (
        by_correlation / 2
        - np.eye(3) * np.sum(by_correlation * (cov - np.eye(3)), 1) / 2
        - np.diag(np.diag(by_correlation / 2))
    )
    # SciPy draws the points at which it integrates, and asks for an error of 1e-5, which it estimates.
    np.testing.assert_allclose(found.numpy(), 1 / 8 + np.arcsin(correlations).sum() / (4 * np.pi), atol=1e-4)
    np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-10)
    inside = np.sqrt(1 - 0.5**2) * np.sqrt(1 - 0.25**2)
    share = 1 / 4 + np.arcsin((0.125 + 0.5 * 0.25) / inside) / (2 * np.pi)
    np.testing.assert_allclose(slopes.numpy()[0], share / np.sqrt(2 * np.pi), rtol=1e-6)


def test_a_normal_probability_is_differentiable_by_a_covariance_of_two_variables() -> None:
    x = np.array([[0.5, -0.25], [1.0, 0.75]])

    check(
        lambda root: stats.multivariate_normal.cdf(x, cov=root @ root.T),
        Case((np.array([[1.5, 0.0], [0.5, 1.0]]),)),
    )


def test_covariances_by_a_decomposition_are_scipys_and_differentiable() -> None:
    cov = np.array([[2.0, 0.5], [0.5, 1.0]])
    x = np.array([0.5, -0.25])
    values, vectors = np.linalg.eigh(cov)
    for name, argument in (
        ("from_diagonal", np.array([2.0, 1.0])),
        ("from_cholesky", np.linalg.cholesky(cov)),
        ("from_precision", np.linalg.inv(cov)),
        ("from_eigendecomposition", (values, vectors)),
    ):
        theirs = getattr(scipy.stats.Covariance, name)(argument)
        single = argument[0] if isinstance(argument, tuple) else argument
        tensor = ag.tensor(single, requires_grad=True)
        ours = getattr(stats.Covariance, name)((tensor, vectors) if isinstance(argument, tuple) else tensor)
        density = stats.multivariate_normal.logpdf(x, cov=ours)
        (gradient,) = sync.grad(density, [tensor])

        np.testing.assert_allclose(ours.covariance.numpy(), theirs.covariance, rtol=1e-12)
        np.testing.assert_allclose(ours.log_pdet.numpy(), theirs.log_pdet, rtol=1e-12)
        np.testing.assert_allclose(np.abs(ours.whiten(ours.colorize(x)).numpy()), np.abs(x), rtol=1e-12)
        np.testing.assert_allclose(density.numpy(), scipy.stats.multivariate_normal.logpdf(x, cov=theirs), rtol=1e-12)
        np.testing.assert_allclose(density.numpy(), stats.multivariate_normal.logpdf(x, cov=theirs).numpy(), rtol=1e-12)
        assert np.abs(gradient.numpy()).max() > 0
    with pytest.raises(ValueError, match="positive variances"):
        stats.Covariance.from_diagonal([1.0, -1.0])
    with pytest.raises(ValueError, match=r"a matrix of shape \(d, d\), not \(2,\)"):
        stats.Covariance.from_cholesky([1.0, 1.0])


def test_a_covariance_is_singular_where_it_is_for_scipy() -> None:
    rng = np.random.default_rng(3)
    root = rng.normal(size=(3, 2))
    points = rng.normal(size=(20, 2)) @ root.T + 1e-9 * rng.normal(size=(20, 3))
    for cov in (root @ root.T, np.diag([1.0, 2.0, 1e-12])):
        found = stats.multivariate_normal.logpdf(points, cov=cov, allow_singular=True)
        np.testing.assert_allclose(found, scipy.stats.multivariate_normal.logpdf(points, cov=cov, allow_singular=True))
    with pytest.raises(ValueError, match="without negative eigenvalues, and one is -1"):
        stats.multivariate_normal.logpdf(points, cov=np.diag([1.0, 2.0, -1.0]), allow_singular=True)
    leaf = ag.tensor(root @ root.T, requires_grad=True)
    with pytest.raises(ArgumentError, match=r"no derivative by a singular cov: pass cov\.detach"):
        stats.multivariate_normal.logpdf(points, cov=leaf, allow_singular=True)
    cov = np.diag([1.0, 2.0, 0.0])
    assert stats.multivariate_normal.entropy(cov=cov).item() == scipy.stats.multivariate_normal.entropy(cov=cov)
    ours, theirs = (module.multivariate_normal(None, cov, allow_singular=True) for module in (stats, scipy.stats))
    np.testing.assert_allclose(ours.cdf(points, rng=np.random.default_rng(0)), theirs.cdf(points), rtol=1e-4)
    with pytest.raises(ArgumentError, match="no derivative where cov is singular"):
        ours.cdf(ag.tensor(points, requires_grad=True))


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("multivariate_normal", ([0.0, 1.0], [1.0, 2.0])),
        ("dirichlet", ([1.0, 2.0],)),
        ("wishart", (3.0, np.eye(2))),
        ("multinomial", (5, [0.25, 0.75])),
    ],
)
def test_draws_go_on_with_the_seed_of_their_distribution(name: str, args: Any) -> None:
    ours, theirs = (getattr(module, name)(*args, seed=3) for module in (stats, scipy.stats))

    for _ in range(2):
        np.testing.assert_array_equal(ours.rvs(2), theirs.rvs(2))
    np.testing.assert_array_equal(ours.rvs(2, 7), theirs.rvs(2, 7))


@pytest.mark.parametrize("size", [1, (), (2, 1)])
def test_draws_by_a_root_are_scipys(size: Any) -> None:
    factor = np.array([[1.5, 0.0], [0.5, 2.0]])
    found, expected = (
        module.multivariate_normal.rvs([0.5, -1.0], module.Covariance.from_precision(factor @ factor.T), size, 3)
        for module in (stats, scipy.stats)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert found.shape == expected.shape


def test_a_share_of_0_has_no_density_by_a_small_concentration() -> None:
    with pytest.raises(ValueError, match="no share of 0 whose concentration is less than 1"):
        stats.dirichlet.logpdf([0.0, 0.5, 0.5], [0.5, 1.0, 2.0])
    with pytest.raises(ValueError, match=r"shape \(k,\) or \(k, n\), not \(3, 1, 1\)"):
        stats.dirichlet.logpdf(np.full((3, 1, 1), 1 / 3), [0.5, 1.0, 2.0])


def test_how_probabilities_are_estimated_may_be_told_beforehand() -> None:
    found = stats.multivariate_normal([0.0, 0.0], np.eye(2), maxpts=1000, abseps=1e-3).cdf([1.0, 1.0])
    assert found.item() == pytest.approx(scipy.stats.norm.cdf(1.0) ** 2, abs=1e-3)
