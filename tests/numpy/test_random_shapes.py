"""Derivatives with respect to parameters of shape, beside those of 40 digits, of SciPy and of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from asyncgrad import sync
from asyncgrad.numpy import random
from asyncgrad.numpy.random.rules import IMPLICIT
from asyncgrad.numpy.random.shapes import beta_slope, gamma_slope, mills_ratio, polygamma, vonmises_slope
from tests.support.leaves import leaf_of

#: Shape, draw, and the derivative of the logarithm of the draw.
GAMMA = [
    (0.001, 7.04232e-156, 356675.7649139245),
    (0.001, 3.21207, 248.35501212960446),
    (0.1, 6.07305e-51, 1152.0422385224051),
    (0.1, 3.58609e-06, 121.14735603760165),
    (0.1, 0.0174278, 36.98447017759594),
    (0.1, 7.35948, 1.53396926103729),
    (1, 1.00001e-05, 11.935761979452304),
    (1, 0.356675, 1.8558174550517081),
    (1, 1.20397, 1.069426393738502),
    (1, 11.5129, 0.2693545196202138),
    (5, 0.272585, 0.6312270533070349),
    (5, 3.63361, 0.2414860449189095),
    (5, 5.89036, 0.1903076190928666),
    (5, 20.6481, 0.09354434574976345),
    (100, 62.9339, 0.012514187388670259),
    (100, 94.5243, 0.010301363807012893),
    (100, 104.993, 0.009774639972784195),
    (100, 148.498, 0.008166474160529135),
    (10000.0, 9579.23, 0.00010216649583385052),
    (10000.0, 9947.32, 0.0001002659998184435),
    (10000.0, 10052.2, 9.974156708577822e-05),
    (10000.0, 10432.2, 9.790094621038963e-05),
    (1000000.0, 995741.0, 1.0021357327624691e-06),
    (1000000.0, 999475.0, 1.000262758621638e-06),
    (1000000.0, 1000520.0, 9.997402567215595e-07),
    (1000000.0, 1004270.0, 9.978712245477237e-07),
]

#: a, b, draw, and the derivative of the logarithm of the odds with respect to a.
BETA = [
    (0.01, 0.01, 6.42812e-23, 10108.267887542346),
    (0.1, 3, 2.3669e-41, 921.5912634540585),
    (0.1, 3, 1.39764e-06, 120.95494024629123),
    (0.1, 3, 0.0067686, 36.91361450725331),
    (0.1, 3, 0.866841, 4.195429186746952),
    (3, 0.1, 0.133159, 0.8565433136301341),
    (3, 0.1, 0.993231, 0.3886634764958274),
    (3, 0.1, 0.999999, 0.3874212804507166),
    (1, 1, 0.0001, 9.211261498125996),
    (1, 1, 0.3, 1.7199611490370514),
    (1, 1, 0.7, 1.1889164797957745),
    (1, 1, 0.9999, 1.0000500033335833),
    (2, 5, 0.00259093, 2.5186598091341312),
    (2, 5, 0.181803, 0.7029563402518882),
    (2, 5, 0.360358, 0.5078053727688626),
    (2, 5, 0.887031, 0.3111422716714151),
    (30, 0.5, 0.775425, 0.03805292894335772),
    (30, 0.5, 0.982109, 0.033914518159335515),
    (30, 0.5, 0.997508, 0.03365290408655467),
    (1000, 2000, 0.301833, 0.0010507445175812443),
    (1000, 2000, 0.328793, 0.0010071523297174943),
    (1000, 2000, 0.33782, 0.0009936061250156035),
    (1000, 2000, 0.365783, 0.0009545379707409844),
    (100000.0, 3, 0.999861, 1.00005950614431e-05),
    (100000.0, 3, 0.999964, 1.000008000478675e-05),
    (100000.0, 3, 0.999981, 9.999995002236657e-06),
    (100000.0, 3, 0.999999, 9.999905001636638e-06),
]

#: kappa, angle, and the derivative of the angle.
VONMISES = [
    (0.0, 0.0001, -9.999999983333334e-05),
    (0.0, 0.5, -0.479425538604203),
    (0.0, 1.2, -0.9320390859672263),
    (0.0, 3.0, -0.1411200080598672),
    (1e-06, 0.0001, -9.999994983333367e-05),
    (1e-06, 0.5, -0.4794253282364384),
    (1e-06, 1.2, -0.9320389171012963),
    (1e-06, 3.0, -0.14112007791374132),
    (0.3, 0.0001, -8.516625722441206e-05),
    (0.3, 0.5, -0.41548890446726605),
    (0.3, 1.2, -0.8703015986956121),
    (0.3, 3.0, -0.16179912765996424),
    (2.0, 7.07107e-05, -2.1370565505414062e-05),
    (2.0, 0.353553, -0.10840266012827207),
    (2.0, 0.848528, -0.27844404255093597),
    (2.0, 2.12132, -0.8497186720729061),
    (30.0, 1.82574e-05, -3.0691501188166284e-07),
    (30.0, 0.0912871, -0.0015356714457298826),
    (30.0, 0.219089, -0.0036981794711258213),
    (30.0, 0.547723, -0.00945133618785195),
    (10000.0, 1e-06, -5.00012501250237e-11),
    (10000.0, 0.005, -2.5000677151182483e-07),
    (10000.0, 0.012, -6.000222023240505e-07),
    (10000.0, 0.03, -1.5001500251304189e-06),
]

#: By distribution: values of the parameters, and a function that makes SciPy's distribution from them.
DISTRIBUTIONS: dict[str, tuple[list[tuple[float, ...]], Callable[..., Any]]] = {
    "beta": ([(0.7, 2.5), (3.0, 0.4), (8.0, 9.0)], lambda stats, a, b: stats.beta(a, b)),
    "chisquare": ([(0.8,), (3.0,), (40.0,)], lambda stats, df: stats.chi2(df)),
    "f": ([(3.0, 7.0), (1.0, 4.0)], lambda stats, dfnum, dfden: stats.f(dfnum, dfden)),
    "noncentral_chisquare": ([(3.0, 2.0), (0.8, 5.0)], lambda stats, df, nonc: stats.ncx2(df, nonc)),
    "noncentral_f": ([(3.0, 7.0, 2.0)], lambda stats, dfnum, dfden, nonc: stats.ncf(dfnum, dfden, nonc)),
    "pareto": ([(2.3,)], lambda stats, a: stats.lomax(a)),
    "power": ([(2.3,)], lambda stats, a: stats.powerlaw(a)),
    "standard_gamma": ([(0.3,), (2.3,), (40.0,)], lambda stats, shape: stats.gamma(shape)),
    "standard_t": ([(0.9,), (4.0,), (60.0,)], lambda stats, df: stats.t(df)),
    "vonmises": ([(0.0, 0.3), (0.4, 1.7), (0.0, 30.0)], lambda stats, mu, kappa: stats.vonmises(kappa, loc=mu)),
    "wald": ([(1.3, 2.1), (0.5, 9.0), (5.0, 0.3)], lambda stats, mu, lam: stats.invgauss(mu / lam, scale=lam)),
    "weibull": ([(2.3,)], lambda stats, a: stats.weibull_min(a)),
}
CASES = [
    pytest.param(name, values, place, id=f"{name}-{values}-{place}")
    for name, (choices, _) in DISTRIBUTIONS.items()
    for values in choices
    for place in range(len(values))
]
RANKS = np.array([0.003, 0.2, 0.45, 0.7, 0.96])


def fourth_order(function: Callable[[float], Any], at: float, step: float) -> Any:
    """Return the derivative of a function by five-point finite differences."""
    near, far = function(at + step) - function(at - step), function(at + 2 * step) - function(at - 2 * step)
    return (8 * near - far) / (12 * step)


def draws(name: str, values: tuple[float, ...]) -> np.ndarray:
    """Return the draws of certain ranks."""
    stats = pytest.importorskip("scipy.stats")
    distribution = DISTRIBUTIONS[name][1](stats, *values)
    return np.asarray(distribution.ppf(RANKS))


def first(name: str, values: tuple[float, ...], place: int, create_graph: bool = False) -> Any:
    """Return the derivatives of the draws of certain ranks, and the parameter that they belong to."""
    leaves = [leaf_of(np.full(len(RANKS), value)) for value in values]
    found = IMPLICIT[name].call(*leaves, draws(name, values))
    (grad,) = sync.grad(found.sum(), [leaves[place]], create_graph=create_graph)
    return grad, leaves[place]


@pytest.mark.parametrize(("shape", "draw", "wanted"), GAMMA)
def test_the_slope_of_gamma_is_exact_to_eleven_digits(shape: float, draw: float, wanted: float):
    assert gamma_slope(shape, draw) == pytest.approx(wanted, rel=1e-11)


@pytest.mark.parametrize(("a", "b", "draw", "wanted"), BETA)
def test_the_slope_of_beta_is_exact_to_ten_digits(a: float, b: float, draw: float, wanted: float):
    assert beta_slope(a, b, draw, 1 - draw) == pytest.approx(wanted, rel=1e-10)


@pytest.mark.parametrize(("kappa", "angle", "wanted"), VONMISES)
def test_the_slope_of_von_mises_is_exact_to_eleven_digits(kappa: float, angle: float, wanted: float):
    assert vonmises_slope(kappa, angle) == pytest.approx(wanted, rel=1e-11)
    assert vonmises_slope(kappa, -angle) == pytest.approx(-wanted, rel=1e-11)


@pytest.mark.parametrize("order", range(5))
def test_polygamma_is_scipys(order: int):
    special = pytest.importorskip("scipy.special")
    x = np.geomspace(1e-6, 1e8, 400)

    # At its zero, 1.46, digamma has an absolute error alone.
    np.testing.assert_allclose(polygamma(order, x), special.polygamma(order, x), rtol=1e-13, atol=1e-15)


def test_the_mills_ratio_is_scipys():
    special = pytest.importorskip("scipy.special")
    x = np.linspace(0, 60, 2001)

    np.testing.assert_allclose(mills_ratio(x), np.sqrt(np.pi / 2) * special.erfcx(x / np.sqrt(2)), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "values", "place"), CASES)
def test_a_draw_moves_so_that_its_rank_remains(name: str, values: tuple[float, ...], place: int):
    grad, _ = first(name, values, place)

    def moved(value: float) -> Any:
        return draws(name, (*values[:place], value, *values[place + 1 :]))

    wanted = fourth_order(moved, values[place], 3e-3 * max(values[place], 0.1))
    np.testing.assert_allclose(grad, wanted, rtol=2e-6, atol=2e-7)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "values", "place"), CASES)
def test_second_derivatives_are_those_of_the_first_along_the_draw(name: str, values: tuple[float, ...], place: int):
    grad, leaf = first(name, values, place, create_graph=True)
    second = sync.grad(grad.sum(), [leaf])[0].numpy() if grad.requires_grad else np.zeros(len(RANKS))

    def moved(value: float) -> Any:
        return first(name, (*values[:place], value, *values[place + 1 :]), place)[0].numpy()

    wanted = fourth_order(moved, values[place], 3e-3 * max(values[place], 0.1))
    np.testing.assert_allclose(second, wanted, rtol=2e-5, atol=2e-6)


def test_gamma_draws_have_pytorchs_derivative():
    torch = pytest.importorskip("torch")
    shapes = leaf_of(np.geomspace(0.05, 50, 40))
    found = random.default_rng(5).standard_gamma(shapes)

    (grad,) = sync.grad(found.sum(), [shapes])

    wanted = torch._standard_gamma_grad(torch.tensor(shapes.numpy()), torch.tensor(found.numpy()))
    np.testing.assert_allclose(grad, wanted.numpy(), rtol=2e-3)


@pytest.mark.parametrize("alpha", [[0.7, 2.5, 1.0, 4.0], [0.05, 0.02, 0.08], [30.0, 40.0]])
def test_dirichlet_draws_have_pytorchs_derivative(alpha: list[float]):
    torch = pytest.importorskip("torch")
    parameters, weights = leaf_of(alpha), np.random.default_rng(1).standard_normal((50, len(alpha)))
    found = random.default_rng(5).dirichlet(parameters, 50)

    (grad,) = sync.grad((found * weights).sum(), [parameters])

    x, g = torch.tensor(found.numpy()), torch.tensor(weights)
    concentration = torch.tensor(alpha, dtype=torch.float64).expand(50, -1)
    total = concentration.sum(-1, True).expand_as(concentration)
    slope = torch._dirichlet_grad(x, concentration, total)
    wanted = (slope * (g - (x * g).sum(-1, True))).nan_to_num().sum(0)
    np.testing.assert_allclose(found.numpy(), np.random.default_rng(5).dirichlet(alpha, 50))
    np.testing.assert_allclose(grad, wanted.numpy(), rtol=5e-3, atol=5e-3)


def test_a_dirichlet_draw_of_one_number_does_not_move():
    alpha = leaf_of([2.0])

    (grad,) = sync.grad(random.default_rng(5).dirichlet(alpha, 3).sum(), [alpha])

    assert np.array_equal(grad, [0.0])


def test_a_draw_that_underflowed_does_not_move():
    shape = leaf_of(1e-5)
    found = random.default_rng(5).standard_gamma(shape, 50)

    (grad,) = sync.grad(found.sum(), [shape])

    assert (found.numpy() == 0).any()
    assert np.isfinite(grad.item())


def test_a_noncentrality_of_zero_has_a_derivative():
    df, nonc = leaf_of(5.0), leaf_of(0.0)
    found = random.default_rng(5).noncentral_chisquare(df, nonc, 4)

    (grad,) = sync.grad(found.sum(), [nonc])

    assert grad.item() == pytest.approx(found.numpy().sum() / 5.0)
