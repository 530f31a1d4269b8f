"""asyncgrad.scipy.stats: distributions far out, and those of extreme parameters, where SciPy's formulas have no digits.

What is expected is a limit, another family, or a formula without differences.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats
from mpmath import mp

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.arrays.values import raw
from asyncgrad.scipy import stats

_NORMAL = 0.5 * math.log(2 * math.pi * math.e)
_PARETO = scipy.stats.pareto(1800.0)
_UNIFORM_LOGARITHM = scipy.stats.loguniform(0.25, 1.75)

CALLS: list[tuple[str, str, tuple[float, ...], float]] = [
    ("truncexpon", "isf", (1e-300, 140.0), 140.0),
    ("truncexpon", "sf", (1e-8, 2e-8), 0.5),
    ("truncexpon", "mean", (4.7e8,), 1.0),
    ("truncexpon", "var", (1e-8,), 1e-16 / 12),
    ("truncexpon", "entropy", (1e4,), 1.0),
    ("truncpareto", "isf", (0.3, 1800.0, 5.0), _PARETO.isf(0.3)),
    ("truncpareto", "sf", (1.001, 1800.0, 5.0), _PARETO.sf(1.001)),
    ("truncpareto", "var", (1800.0, 5.0), _PARETO.var()),
    ("truncpareto", "entropy", (1800.0, 5.0), _PARETO.entropy()),
    ("truncpareto", "entropy", (1e-9, 5.0), math.log(math.log(5.0)) + math.log(5.0) / 2),
    ("truncpareto", "mean", (-1800.0, 5.0), 5.0 * 1800 / 1801),
    ("truncpareto", "entropy", (-1800.0, 5.0), math.log(5.0 / 1800) - 1799 / -1800),
    ("truncweibull_min", "var", (2.5e-8, 0.25, 1.75), _UNIFORM_LOGARITHM.var()),
    ("truncweibull_min", "ppf", (1e-300, 75.0, 0.25, 1.75), 0.25),
    ("truncweibull_min", "mean", (2500.0, 0.25, 1.75), math.gamma(1 + 1 / 2500)),
    ("weibull_min", "var", (1e8,), math.pi**2 / 6e16),
    ("weibull_max", "var", (0.005,), np.inf),
    ("gennorm", "mean", (0.001,), 0.0),
    ("gennorm", "var", (0.001,), np.inf),
    ("genextreme", "var", (200.0,), np.inf),
    ("powernorm", "var", (1e-14,), (2 - math.pi / 2) * 1e14),
    ("powerlognorm", "entropy", (1.0, 1e-3), _NORMAL + math.log(1e-3)),
    ("rice", "entropy", (1e8,), _NORMAL),
    ("rice", "sf", (1e-10, 23.25), 1.0),
    ("recipinvgauss", "entropy", (1e-9,), _NORMAL + math.log(1e9) / 2),
    ("rel_breitwigner", "entropy", (1e12,), math.log(2 * math.pi)),
    ("rel_breitwigner", "sf", (1e6, 2.0), 4 * stats.rel_breitwigner._factor(2.0) * 1e-18 / 3),
    ("rel_breitwigner", "isf", (1e-30, 2.0), (4 * stats.rel_breitwigner._factor(2.0) * 1e30 / 3) ** (1 / 3)),
    # The integral over the tail, by mpmath.
    ("skewnorm", "logcdf", (-0.05, 120.0), -27.59347866698655),
    ("skewnorm", "logcdf", (-30.0, 2.0), -2260.2504313533446),
    ("skewnorm", "logsf", (40.0, -0.0), float(scipy.stats.norm.logsf(40.0))),
    ("nct", "logpdf", (1e200, 3.0, 0.5), -1839.9958258652891),
    ("rice", "sf", (1e6 + 6, 1e6), float(scipy.stats.norm.sf(6 - 0.5e-6))),
    ("rice", "isf", (0.25, 1e6), 1e6 + float(scipy.stats.norm.isf(0.25)) + 0.5e-6),
    ("rice", "var", (1e6,), 1.0),
    ("ncx2", "isf", (1e-9, 3.0, 1e12), (1e6 + float(scipy.stats.norm.isf(1e-9)) + 1e-6) ** 2),
    ("ncx2", "logpdf", (1e12, 3.0, 1e12), -0.5 * math.log(2 * math.pi) - math.log(2e6)),
    ("powerlognorm", "var", (1.0, 4.0), float(scipy.stats.lognorm.var(4.0))),
    ("argus", "var", (1e4,), 1.5e-16),
    ("truncpareto", "cdf", (5e249, -1.75, 1e250), 0.5**1.75),
    ("truncpareto", "logsf", (25.0, 300.0, 50.0), -300 * math.log(25.0)),
    ("exponweib", "logsf", (1e4, 2.0, 1.0), math.log(2.0) - 1e4),
    # By mpmath, in SciPy's own tests.
    ("betaprime", "cdf", (1e22, 100.0, 0.05), 0.8973027435427167),
    ("betaprime", "ppf", (0.5911548582766262, 100.0, 0.05), 1e10),
    ("exponweib", "logcdf", (1000.0, 0.5, 0.75), -2.946296827524972e-78),
    ("exponweib", "logpdf", (1e-4, 1.0, 100.0), -907.2185266396539),
    ("kappa4", "var", (0.1, 0.1), 1.2104079418576839),
    ("genhyperbolic", "cdf", (5.0, -0.125, 1000.0, 999.0), 5.923270556517253e-28),
    # The integral over the parts between powers of 3, by SciPy.
    ("genhyperbolic", "cdf", (5000.0, 1.0, 1.5, 1.49995), 0.22095813954),
    ("genhyperbolic", "sf", (-40.0, 0.3, 0.02, -0.015), 0.66070131998),
    # The integral of the normal distribution over that of the other squares.
    ("ncx2", "sf", (1e10 + 401000, 1000.0, 1e10), 0.022750944505460804),
    ("ncx2", "logpdf", (1e10 + 401000, 1000.0, 1e10), math.log(2.6995755225565067e-07)),
]


@pytest.mark.parametrize(
    ("family", "method", "args", "expected"), CALLS, ids=[f"{call[0]}.{call[1]}-{call[2][0]:g}" for call in CALLS]
)
def test_a_value_at_an_extreme_has_its_digits_and_a_gradient(
    family: str, method: str, args: tuple[float, ...], expected: float
) -> None:
    leaves = [ag.tensor(one, requires_grad=True) for one in args]

    found = getattr(getattr(stats, family), method)(*leaves)

    np.testing.assert_allclose(found.item(), expected, rtol=1e-7)
    if np.isfinite(expected):
        slopes = sync.grad(found, leaves, allow_unused=True)
        assert all(one is None or np.isfinite(one.item()) for one in slopes)


def test_quantiles_far_out_follow_the_distribution_function() -> None:
    q = np.array([1e-300, 1e-12])

    found = stats.skewnorm.logcdf(stats.skewnorm.ppf(q, [120.0, 4e3]), [120.0, 4e3])

    np.testing.assert_allclose(found, np.log(q), rtol=1e-10)


def test_the_slopes_of_rices_density_at_a_length_of_0_are_those_of_a_function_of_its_square() -> None:
    b = ag.tensor([0.0, 0.0], requires_grad=True)
    y = np.array([0.5, 3.0])

    (slope,) = sync.grad(stats.rice.logpdf(y, b).sum(), [b], create_graph=True)
    (second,) = sync.grad(slope.sum(), [b])

    assert slope.tolist() == [0.0, 0.0]
    np.testing.assert_allclose(second, y * y / 2 - 1, rtol=1e-12)


@pytest.mark.parametrize(
    ("family", "shapes"),
    [
        ("rice", (0.75,)),
        ("powerlognorm", (2.25, 0.45)),
        ("rel_breitwigner", (2.5,)),
        ("recipinvgauss", (0.625,)),
        ("truncpareto", (-1.75, 5.0)),
        ("truncexpon", (4.5,)),
    ],
)
def test_an_entropy_by_fixed_points_is_that_of_an_integral(family: str, shapes: Any) -> None:
    expected = scipy.stats.rv_continuous._entropy(getattr(scipy.stats, family), *shapes)

    found = getattr(stats, family).entropy(*shapes)

    np.testing.assert_allclose(found.item(), expected, rtol=1e-8)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("genextreme", (0.3,)),
        ("nct", (9.0, 1.0)),
        ("argus", (1.25,)),
        ("genexpon", (0.75, 1.25, 1.5)),
        ("ncf", (4.5, 11.25, 1.5)),
        ("truncexpon", (2.0,)),
        ("tukeylambda", (0.01,)),
        ("weibull_max", (2.0,)),
        ("weibull_min", (2.0,)),
    ],
)
def test_a_family_of_float32_parameters_is_float32(name: str, shapes: tuple[float, ...]) -> None:
    family = getattr(stats, name)
    given = [ag.tensor(np.full(2, shape, np.float32)) for shape in shapes]
    place = np.float32(family.ppf(0.375, *shapes))
    found = [*family.stats(*given, moments="mv"), family.pdf(place, *given), family.ppf(np.float32(0.375), *given)]
    assert [one.dtype for one in found] == [np.float32] * 4
    np.testing.assert_allclose(family.var(*given).numpy(), getattr(scipy.stats, name).var(*shapes), rtol=1e-4)


@pytest.mark.parametrize(
    ("family", "shapes", "at", "place", "expected"),
    [
        # What is left of the differences of great numbers: the slope by the one shape.
        ("t", (1e10,), 0, 1.5, -(1.5**4 - 2 * 1.5**2 - 1) / 4e20),
        ("pearson3", (1e-4,), 0, 1.5, 1.5 * (1.5**2 - 3) / 6),
        # Next to an end, where a density that is not 0 falls: the slope by the place.
        ("fisk", (1.0,), None, 0.0, -2.0),
        ("burr", (1.0, 1.0), None, 0.0, -2.0),
        ("burr12", (1.0, 2.0), None, 0.0, -3.0),
        ("chi", (1.0,), None, 0.0, 0.0),
        ("exponweib", (1.0, 1.0), None, 0.0, -1.0),
        ("genhalflogistic", (1.0,), None, 1.0, 2.0),
        ("kappa4", (1.0, 0.5), None, 0.0, -0.5),
        ("mielke", (1.0, 1.0), None, 0.0, -2.0),
    ],
)
def test_a_slope_of_a_density_has_its_digits(
    family: str, shapes: tuple[float, ...], at: int | None, place: float, expected: float
) -> None:
    leaves = [ag.tensor(one, requires_grad=True) for one in (*shapes, place)]

    (slope,) = sync.grad(getattr(stats, family).logpdf(leaves[-1], *leaves[:-1]), [leaves[-1 if at is None else at]])

    assert slope.item() == pytest.approx(expected, rel=1e-3)


def test_a_moment_is_none_or_infinite_where_a_lower_one_is() -> None:
    assert np.isnan(stats.landau.moment(5).item())
    assert stats.crystalball.moment(3, 2.0, 3.0).item() == stats.rel_breitwigner.moment(3, 36.5).item() == np.inf
    assert stats.loglaplace.moment(3, [3.0, 3.5]).tolist() == [np.inf, pytest.approx(3.5**2 / (3.5**2 - 9))]
    assert stats.loglaplace.moment(3, 3.5, 0.5, 2.0).item() == pytest.approx(
        scipy.stats.loglaplace.moment(3, 3.5, 0.5, 2.0)
    )


def test_moments_of_smirnovs_statistic_are_those_of_its_limit_for_a_great_sample() -> None:
    found = np.stack(stats.ksone.stats(400)) * [20, 400]

    # The root of an exponential variable, but for terms of the order of 1 / sqrt(n).
    np.testing.assert_allclose(found, [math.sqrt(2 * math.pi) / 4, 0.5 - math.pi / 8], rtol=0.05)


def test_moments_of_smirnovs_statistic_are_those_of_its_polynomials() -> None:
    # For 1 it is a uniform number.
    n = np.array([1.0, 2.0, 5.0, 40.0, 1e6])

    means = np.stack(stats.ksone._mean_powers(n))

    np.testing.assert_allclose(means[:, 0], [1 / 2, 1 / 3, 1 / 4, 1 / 5], rtol=1e-14)
    for at, count in enumerate((2, 5, 40), 1):
        exact = [order * _smirnov_power(count, order) for order in (1, 2, 3, 4)]
        np.testing.assert_allclose(means[:, at], exact, rtol=1e-12)
    # The root of an exponential variable.
    limit = [math.gamma(1 + order / 2) * 2e6 ** (-order / 2) for order in (1, 2, 3, 4)]
    np.testing.assert_allclose(means[:, 4], limit, rtol=2e-3)


def _smirnov_power(count: int, order: int) -> float:
    """Return the integral of y ** (order - 1) * smirnov(count, y), over the pieces on which it is a polynomial."""
    points, weights = scipy.special.roots_legendre(count + 4)
    places = (np.arange(count)[:, np.newaxis] + (points + 1) / 2) / count
    return float(np.sum(places ** (order - 1) * scipy.special.smirnov(count, places) * weights) / (2 * count))


@pytest.mark.parametrize(
    ("family", "shape", "place", "expected"),
    [
        ("erlang", 2.0, 0.0, 1.0),
        ("exponpow", 2.0, 0.0, 2.0),
        ("rdist", 4.0, -1.0, 1.5),
        ("rdist", 4.0, 1.0, -1.5),
    ],
)
def test_the_slope_of_a_density_at_an_end_is_its_limit_from_inside(
    family: str, shape: float, place: float, expected: float
) -> None:
    x, given = ag.tensor(place, requires_grad=True), ag.tensor(shape, requires_grad=True)
    ours = getattr(stats, family)

    (slope,) = sync.grad(ours.pdf(x, given), [x])
    by_x, by_shape = sync.grad(ours.logpdf(x, given), [x, given])

    assert slope.item() == pytest.approx(expected, rel=1e-12)
    assert [by_x.item(), by_shape.item()] == [math.copysign(math.inf, expected), -math.inf]


def test_the_logarithm_of_a_kappa_probability_of_nothing_has_a_slope_by_its_shape() -> None:
    x, a = ag.tensor([0.0, 1e-300], requires_grad=True), ag.tensor(5.5, requires_grad=True)

    found = stats.kappa3.logcdf(x, a)

    np.testing.assert_allclose(found.detach(), scipy.stats.kappa3.logcdf([0.0, 1e-300], 5.5), rtol=1e-12)
    # That of -log(a) / a, twice.
    np.testing.assert_allclose(sync.grad(found.sum(), [a])[0], 2 * (math.log(5.5) - 1) / 5.5**2, rtol=1e-12)


@pytest.mark.parametrize(
    ("family", "shapes"), [("genhalflogistic", ([0.25, 0.5],)), ("kappa4", ([0.5, 0.25], [0.25, 0.5]))]
)
@pytest.mark.parametrize("method", ["pdf", "cdf", "sf"])
def test_at_ends_that_depend_on_arrays_of_shapes_slopes_are_those_of_each(
    family: str, shapes: tuple[list[float], ...], method: str
) -> None:
    ours, given = getattr(stats, family), np.array(shapes)
    places = raw(ours.support(*given)[1])
    leaves = [ag.tensor(one, requires_grad=True) for one in (places, *given)]

    slopes = np.stack(sync.grad(getattr(ours, method)(*leaves).sum(), leaves))

    for at, place in enumerate(places):
        alone = [ag.tensor(one, requires_grad=True) for one in (place, *given[:, at])]
        expected = [one.item() for one in sync.grad(getattr(ours, method)(*alone), alone)]
        np.testing.assert_allclose(slopes[:, at], expected, rtol=1e-12)


def test_the_normal_density_of_float32_is_float32() -> None:
    x = ag.tensor(np.float32([0.5, 2.0]), requires_grad=True)

    found = [stats.norm.logpdf(x), stats.norm.pdf(x), stats.norm.cdf(x)]

    assert [one.dtype for one in found] == [np.float32] * 3


def test_the_density_at_0_for_a_great_noncentrality_has_derivatives_that_are_numbers() -> None:
    leaves = [ag.tensor(one, requires_grad=True) for one in (0.0, 5.0, 1e8)]
    density = stats.ncx2.pdf(*leaves)

    assert [density.item(), *(one.item() for one in sync.grad(density, leaves))] == [0.0, 0.0, 0.0, 0.0]


def _log_beta(a: Any, b: Any) -> Any:
    return mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)


#: By family, the logarithm of its density or probability, of numbers of mpmath.
_LOGARITHMS: dict[str, Callable[..., Any]] = {
    "beta": lambda x, a, b: (a - 1) * mp.log(x) + (b - 1) * mp.log(1 - x) - _log_beta(a, b),
    "betaprime": lambda x, a, b: (a - 1) * mp.log(x) - (a + b) * mp.log(1 + x) - _log_beta(a, b),
    "binom": lambda k, n, p: k * mp.log(p) + (n - k) * mp.log(1 - p) - mp.log(n + 1) - _log_beta(k + 1, n - k + 1),
    "chi2": lambda x, df: (df / 2 - 1) * mp.log(x / 2) - x / 2 - mp.loggamma(df / 2) - mp.log(2),
    "f": lambda x, m, n: _LOGARITHMS["betaprime"](m * x / n, m / 2, n / 2) + mp.log(m / n),
    "gamma": lambda x, a: (a - 1) * mp.log(x) - x - mp.loggamma(a),
    "invgamma": lambda x, a: -(a + 1) * mp.log(x) - 1 / x - mp.loggamma(a),
    "nbinom": lambda k, n, p: n * mp.log(p) + k * mp.log(1 - p) - mp.log(n + k) - _log_beta(n, k + 1),
    "poisson": lambda k, mu: k * mp.log(mu) - mu - mp.loggamma(k + 1),
    "t": lambda x, df: -(df + 1) / 2 * mp.log(1 + x * x / df) - _log_beta(df / 2, mp.mpf(0.5)) - mp.log(df) / 2,
}


@pytest.mark.parametrize(
    ("family", "shapes"),
    [
        ("beta", (1e3, 2e3)),
        ("beta", (1e6, 2.0)),
        ("beta", (1e8, 1e5)),
        ("betaprime", (1e6, 2.5)),
        ("binom", (1e8, 0.5)),
        ("chi2", (1e6,)),
        ("f", (3.0, 1e6)),
        ("f", (1e6, 5.0)),
        ("gamma", (1e8,)),
        ("invgamma", (1e3,)),
        ("nbinom", (1e6, 0.3)),
        ("poisson", (1e4,)),
        ("t", (1e6,)),
    ],
)
def test_the_logarithm_of_a_density_of_great_shapes_and_its_slopes_have_their_digits(
    family: str, shapes: tuple[float, ...]
) -> None:
    ours, is_whole = getattr(stats, family), family in ("binom", "nbinom", "poisson")
    places = getattr(scipy.stats, family).ppf([0.01, 0.3, 0.99], *shapes)
    given = [ag.tensor(np.full(3, one), requires_grad=True) for one in shapes]
    by = given[1:] if family == "binom" else given

    found = (ours.logpmf if is_whole else ours.logpdf)(np.floor(places) if is_whole else places, *given)
    slopes = sync.grad(found.sum(), by)

    with mp.workdps(50):
        numbers = [[mp.mpf(one), *map(mp.mpf, shapes)] for one in (np.floor(places) if is_whole else places)]
        logarithm = _LOGARITHMS[family]
        expected = [float(logarithm(*one)) for one in numbers]
        exact = [[_slope(logarithm, one, 1 + len(given) - len(by) + at) for one in numbers] for at in range(len(by))]
    np.testing.assert_allclose(found.detach(), expected, rtol=1e-12, atol=1e-11)
    for slope, one in zip(slopes, exact, strict=True):
        np.testing.assert_allclose(slope, one, rtol=1e-11, atol=1e-11 * np.max(np.abs(one)))


def _slope(function: Callable[..., Any], numbers: list[Any], at: int) -> float:
    step = numbers[at] * mp.mpf(10) ** -18
    ends = [function(*numbers[:at], numbers[at] + sign * step, *numbers[at + 1 :]) for sign in (1, -1)]
    return float((ends[0] - ends[1]) / (2 * step))


def test_the_slopes_of_a_distribution_function_of_many_degrees_of_freedom_have_their_digits() -> None:
    given = [ag.tensor(one, requires_grad=True) for one in (0.75, 3.0, 1e6)]

    slopes = [one.item() for one in sync.grad(stats.f.cdf(*given), given)]

    with mp.workdps(40):
        numbers = [mp.mpf(one.item()) for one in given]
        exact = [_slope(_f_probability, numbers, at) for at in range(3)]
    np.testing.assert_allclose(slopes, exact, rtol=1e-11)


def _f_probability(x: Any, dfn: Any, dfd: Any) -> Any:
    return mp.betainc(dfn / 2, dfd / 2, 0, dfn * x / (dfn * x + dfd), regularized=True)
