"""asyncgrad.scipy.stats: families by a function of another one's variable, of two sides, and of whole numbers."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import scipy.stats

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ArgumentError
from asyncgrad.scipy import stats
from asyncgrad.scipy.stats import (
    circular,
    folded,
    gamma_powers,
    integrated,
    intervals,
    inverse_normal,
    least_of_many,
    lengths,
    noncentral,
    pareto_normal,
    pearson_third,
    pieces,
    power_series,
    power_tails,
    resonances,
    sample_statistics,
    stable,
    transformed,
    uniform_sums,
    urns,
    whole_numbers,
)
from tests.scipy.functions import check_along_a_line

_SHAPES: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(("anglit", "arcsine", "cosine", "gibrat", "halflogistic", "hypsecant", "kstwobign", "levy"), ()),
    **dict.fromkeys(("landau", "levy_l", "maxwell", "moyal", "semicircular", "wald"), ()),
    "alpha": (1.75,),
    "argus": (1.25,),
    "crystalball": (1.25, 6.5),
    "dpareto_lognorm": (0.25, 0.75, 5.5, 2.25),
    "exponpow": (1.75,),
    "foldcauchy": (1.25,),
    "foldnorm": (0.75,),
    "gausshyper": (2.25, 1.75, 1.5, 0.75),
    "genexpon": (0.75, 1.25, 1.5),
    "genhalflogistic": (0.75,),
    "genhyperbolic": (0.75, 1.75, 0.5),
    "geninvgauss": (1.25, 0.75),
    "invgauss": (0.75,),
    "irwinhall": (5,),
    "jf_skew_t": (5.25, 3.5),
    "kappa3": (5.5,),
    "kappa4": (0.25, 0.125),
    "ksone": (7,),
    "kstwo": (7,),
    "ncf": (4.5, 11.25, 1.5),
    "nct": (7.5, 0.75),
    "ncx2": (3.25, 1.5),
    "norminvgauss": (1.75, 0.5),
    "pearson3": (0.75,),
    "powerlognorm": (2.25, 0.75),
    "rdist": (2.75,),
    "rel_breitwigner": (1.75,),
    "recipinvgauss": (0.75,),
    "rice": (0.75,),
    "skewcauchy": (0.25,),
    "trapezoid": (0.25, 0.625),
    "truncpareto": (1.75, 4.5),
    "truncweibull_min": (1.75, 0.25, 1.5),
    "tukeylambda": (0.375,),
    "vonmises_line": (1.75,),
    "wrapcauchy": (0.375,),
    "betaprime": (2.5, 6.5),
    "bradford": (0.75,),
    "burr": (5.5, 1.25),
    "burr12": (3.5, 2.25),
    "chi": (3.25,),
    "dgamma": (1.5,),
    "dweibull": (1.75,),
    "erlang": (3.0,),
    "exponweib": (1.75, 1.25),
    "fatiguelife": (1.25,),
    "fisk": (5.5,),
    "gengamma": (1.75, 2.25),
    "genlogistic": (1.5,),
    "gennorm": (1.5,),
    "halfgennorm": (1.5,),
    "invweibull": (5.5,),
    "johnsonsb": (0.75, 1.25),
    "johnsonsu": (0.75, 1.75),
    "laplace_asymmetric": (1.5,),
    "loggamma": (1.75,),
    "loglaplace": (5.5,),
    "loguniform": (0.25, 1.75),
    "lomax": (5.5,),
    "mielke": (4.5, 5.25),
    "nakagami": (1.75,),
    "powernorm": (2.25,),
    "reciprocal": (0.25, 1.75),
    "triang": (0.375,),
    "truncexpon": (2.25,),
}
_WHOLE: dict[str, tuple[float, ...]] = {
    "betanbinom": (3, 5.5, 1.25),
    "boltzmann": (0.375, 9),
    "dlaplace": (0.75,),
    "logser": (0.625,),
    "nchypergeom_fisher": (20, 7, 9, 1.75),
    "nchypergeom_wallenius": (20, 7, 9, 1.75),
    "nhypergeom": (20, 7, 5),
    "planck": (0.5,),
    "randint": (2, 9),
    "skellam": (2.25, 1.5),
    "yulesimon": (5.5,),
    "zipf": (6.5,),
    "zipfian": (1.25, 80),
}

#: Families without formulas for their moments, whose integrals take long, SciPy's or those here.
_BY_INTEGRALS = {
    *("bradford", "exponweib", "halfgennorm", "halflogistic", "johnsonsb", "mielke", "truncexpon"),
    *("argus", "exponpow", "genexpon", "genhalflogistic", "kappa3", "kappa4", "kstwobign"),
    *("dpareto_lognorm", "gausshyper", "recipinvgauss", "tukeylambda", "vonmises_line", "wrapcauchy"),
    *("irwinhall", "kstwo", "rel_breitwigner"),
}
#: Those whose SciPy has integrals or searches for each call.
_SLOW = {"dpareto_lognorm", "gausshyper", "genhyperbolic", "geninvgauss", "norminvgauss"}
_CONTINUOUS = (
    *(circular, folded, gamma_powers, integrated, intervals, inverse_normal, least_of_many, lengths, noncentral),
    *(pareto_normal, pearson_third, pieces, power_tails, resonances, sample_statistics, stable, transformed),
    uniform_sums,
)
_DISCRETE = (power_series, urns, whole_numbers)
#: Those whose one shape is a whole number.
_OF_COUNTS = {"irwinhall", "ksone", "kstwo"}
#: Those whose density has one derivative.
_OF_SMIRNOV = {"ksone", "kstwo"}
#: Those with an end that SciPy has as a difference, which loses digits.
_ENDS_OF_DIFFERENCES = {"kappa4"}
#: The families that are checked here.
NAMES = {*_SHAPES, *_WHOLE, "poisson_binom"}


def test_every_family_has_shapes() -> None:
    continuous = {name for module in _CONTINUOUS for name in module.__all__}
    assert set(_SHAPES) == continuous - {"Integrated", "skellam", "vonmises"}
    assert set(_WHOLE) == {name for module in _DISCRETE for name in module.__all__} | {"betanbinom", "skellam"}


def _scipys(name: str, method: str, points: np.ndarray, parameters: tuple[float, ...]) -> np.ndarray:
    """Return values of SciPy, for each point by itself: of arrays of points one family's are wrong."""
    function = getattr(getattr(scipy.stats, name), method)
    if name != "norminvgauss":
        return np.asarray(function(points, *parameters))
    if method in ("cdf", "sf"):
        # From far away its integrals miss the bulk.
        points = np.where(np.abs(points) > 1000, np.sign(points) * np.inf, points)
    return np.array([function(point, *parameters) for point in points])


@pytest.mark.sampled
@pytest.mark.parametrize("name", sorted(_SHAPES))
def test_a_family_is_scipys(name: str) -> None:
    shapes, mine, theirs = _SHAPES[name], getattr(stats, name), getattr(scipy.stats, name)
    parameters = (*shapes, 0.25, 1.5)
    inside = theirs.ppf([0.001, 0.1875, 0.4375, 0.8125, 0.999], *parameters)
    points = np.concatenate([inside, [-1e4, 1e4, np.nan]])
    for method in ("pdf", "logpdf", "cdf", "sf", "logcdf", "logsf"):
        # Far out SciPy warns, and its logarithms are of what underflows.
        given = points if method in ("pdf", "cdf", "sf") else inside
        with np.errstate(all="ignore"):
            expected = _scipys(name, method, given, parameters)
        np.testing.assert_allclose(getattr(mine, method)(given, *parameters), expected, rtol=1e-7, atol=1e-12)
    probabilities = np.array([-0.5, 0.0, 1e-5, 0.1875, 0.5, 0.8125, 1.0])
    for method in ("ppf", "isf"):
        expected = _scipys(name, method, probabilities, parameters)
        np.testing.assert_allclose(getattr(mine, method)(probabilities, *parameters), expected, rtol=1e-7, atol=1e-12)
    for found, expected in zip(mine.support(*parameters), theirs.support(*parameters), strict=True):
        assert found == (pytest.approx(expected, rel=1e-14) if name in _ENDS_OF_DIFFERENCES else expected)
    for method in ("median",) if name in _BY_INTEGRALS else ("mean", "var", "entropy", "median"):
        expected = getattr(theirs, method)(*parameters)
        np.testing.assert_allclose(getattr(mine, method)(*parameters), expected, rtol=1e-6, atol=1e-12)
    drawn = mine.rvs(*parameters, size=3, random_state=7)
    np.testing.assert_allclose(drawn, theirs.rvs(*parameters, size=3, random_state=7), rtol=1e-12)
    assert np.isnan(mine.pdf(0.5, *shapes, scale=-1.0).item())


@pytest.mark.parametrize("name", sorted(set(_SHAPES) - _BY_INTEGRALS - {"ksone", "levy", "levy_l"}))
def test_the_moments_of_a_family_are_scipys(name: str) -> None:
    found, expected = (getattr(module, name).stats(*_SHAPES[name], moments="sk") for module in (stats, scipy.stats))
    np.testing.assert_allclose(np.stack(found), np.stack(expected), rtol=1e-5, atol=1e-8)


@pytest.mark.sampled
@pytest.mark.parametrize("name", sorted(_SHAPES))
def test_derivatives_are_those_of_differences(name: str) -> None:
    family = getattr(stats, name)
    parameters = [np.array(float(one)) for one in (*_SHAPES[name], 0.25, 1.5)]
    points = np.asarray(getattr(scipy.stats, name).ppf([0.1875, 0.4375, 0.8125], *_SHAPES[name])) * 1.5 + 0.25
    if name in _OF_COUNTS:
        # How many there are has no derivative.
        family, parameters = family(parameters[0], scale=1.5), []
        points = points - 0.25
    for method in ("logpdf", "cdf", "logsf"):
        if name not in _OF_SMIRNOV or method != "logpdf":
            check_along_a_line(getattr(family, method), [points, *parameters])
    probabilities = np.array([0.1875] if name in _SLOW else [0.1875, 0.4375, 0.8125])
    for method in ("ppf", "isf") if name not in _SLOW else ("ppf",):
        if name not in _OF_COUNTS:
            check_along_a_line(getattr(family, method), [probabilities, *parameters])


def test_the_median_of_a_symmetric_family_has_derivatives() -> None:
    exponent = ag.tensor(1.5, requires_grad=True)
    (slope,) = ag.sync.grad(stats.gennorm.ppf(0.5, exponent, 0.25), [exponent])
    assert slope.item() == 0.0


@pytest.mark.parametrize(
    ("name", "shapes", "middle"),
    [
        *(("laplace", (), 0.0), ("laplace_asymmetric", (1.5,), 0.0), ("skewcauchy", (0.25,), 0.0)),
        *(
            ("gennorm", (0.75,), 0.0),
            ("gennorm", (1.5,), 0.0),
            ("halfgennorm", (1.5,), 0.0),
            ("loglaplace", (2.5,), 1.0),
        ),
    ],
)
def test_the_slope_of_a_probability_is_the_density_where_both_sides_meet(
    name: str, shapes: tuple[float, ...], middle: float
) -> None:
    family = getattr(stats, name)(*shapes)
    x = ag.tensor(middle, requires_grad=True)
    density = family.pdf(middle).item()

    slopes = [sync.grad(method(x), [x])[0].item() for method in (family.cdf, family.sf, family.logsf)]

    np.testing.assert_allclose(slopes, [density, -density, -density / family.sf(middle).item()], rtol=1e-14)


@pytest.mark.parametrize(("name", "curvature"), [("logistic", -0.5), ("hypsecant", -1.0)])
def test_a_smooth_density_has_its_curvature_in_the_middle(name: str, curvature: float) -> None:
    x = ag.tensor(0.0, requires_grad=True)

    (slope,) = sync.grad(getattr(stats, name).logpdf(x), [x], create_graph=True)
    (found,) = sync.grad(slope, [x])

    assert (slope.item(), found.item()) == (0.0, pytest.approx(curvature, rel=1e-14))


def test_a_log_gamma_variable_of_a_small_shape_is_far_below_0() -> None:
    points = np.array([-800.0, -745.1, -2.0])

    for method, given in (
        *dict.fromkeys(("cdf", "sf", "logcdf", "logsf"), points).items(),
        *dict.fromkeys(("ppf", "isf"), np.array([0.1, 0.5, 0.9])).items(),
    ):
        found = functools.partial(getattr(stats.loggamma, method), c=0.001)
        np.testing.assert_allclose(found(given), getattr(scipy.stats.loggamma, method)(given, 0.001), rtol=1e-12)
        check_along_a_line(found, [given])
    shape = ag.tensor(0.001, requires_grad=True)
    (slope,) = sync.grad(stats.loggamma.logcdf(-800.0, shape), [shape])
    assert slope.item() == pytest.approx(-800.0 - scipy.special.digamma(1.001), rel=1e-12)


@pytest.mark.parametrize(
    ("name", "shapes", "x"),
    [("burr", (4.0, 2.0), 1e-200), ("burr12", (4.0, 2.0), 1e200), ("mielke", (4.0, 2.0), 1e-200)],
)
def test_a_power_that_overflows_leaves_a_density(name: str, shapes: tuple[float, ...], x: float) -> None:
    leaves = [ag.tensor(one, requires_grad=True) for one in (x, *shapes)]
    density = getattr(stats, name).logpdf(*leaves)

    grads = sync.grad(density, leaves)

    # Next to an end the logarithm of the density is a line by that of x, whose slope is found between two points.
    slope = (getattr(stats, name).logpdf(x * 2, *shapes) - getattr(stats, name).logpdf(x, *shapes)) / np.log(2)
    assert grads[0].item() * x == pytest.approx(slope.item(), rel=1e-9)
    assert all(np.isfinite(one.numpy()) for one in grads)


def test_a_density_that_vanishes_has_no_gradient() -> None:
    x = ag.tensor([0.0, 1e-31, 0.75], requires_grad=True)

    (grad,) = sync.grad(stats.invweibull.pdf(x, 10.5).sum() + stats.levy.pdf(x[0]), [x])

    np.testing.assert_array_equal(stats.invweibull.logpdf(x[:2], 10.5).detach(), [-np.inf, -np.inf])
    assert grad[:2].tolist() == [0.0, 0.0]
    assert np.isfinite(grad[2].item())


@pytest.mark.parametrize(("name", "shape"), [("lomax", 1.5), ("fisk", 1.5), ("invweibull", 1.5), ("loglaplace", 1.5)])
def test_a_mean_that_is_there_has_a_derivative_beside_a_variance_that_is_not(name: str, shape: float) -> None:
    leaf = ag.tensor(shape, requires_grad=True)
    found, expected = getattr(stats, name), getattr(scipy.stats, name)
    (slope,) = ag.sync.grad(found.mean(leaf), [leaf])
    assert slope.item() == pytest.approx((expected.mean(shape + 1e-5) - expected.mean(shape - 1e-5)) / 2e-5, rel=1e-5)
    assert not np.isfinite(found.var(shape).item())


@pytest.mark.parametrize("name", sorted(_WHOLE))
def test_a_family_of_whole_numbers_is_scipys(name: str) -> None:
    shapes, mine, theirs = _WHOLE[name], getattr(stats, name), getattr(scipy.stats, name)
    numbers = np.array([-3.0, 0.0, 1.0, 2.0, 3.0, 7.0, 8.0, 9.0, 2.5])
    for method in ("pmf", "logpmf", "cdf", "sf", "logcdf", "logsf"):
        # Between whole numbers SciPy's is wrong for two families.
        given = numbers if method in ("pmf", "logpmf") else numbers[:-1]
        expected = getattr(theirs, method)(given, *shapes)
        np.testing.assert_allclose(getattr(mine, method)(given, *shapes), expected, rtol=1e-9)
    for method in ("mean", "var", "entropy"):
        np.testing.assert_allclose(getattr(mine, method)(*shapes), getattr(theirs, method)(*shapes), rtol=1e-8)
    np.testing.assert_allclose(np.stack(mine.stats(*shapes, moments="sk")), theirs.stats(*shapes, moments="sk"))


@pytest.mark.parametrize("name", sorted(set(_WHOLE) - {"nhypergeom", "randint"}))
def test_derivatives_of_a_family_of_whole_numbers_are_those_of_differences(name: str) -> None:
    numbers, shapes = np.array([1.0, 3.0]), _WHOLE[name]
    places = [index for index, shape in enumerate(shapes) if isinstance(shape, float)]

    def with_parameters(method: str, *parameters: object) -> object:
        given: list[object] = list(shapes)
        for place, parameter in zip(places, parameters, strict=True):
            given[place] = parameter
        return getattr(getattr(stats, name), method)(numbers, *given)

    for method in ("logpmf", "cdf", "logsf"):
        check_along_a_line(functools.partial(with_parameters, method), [np.array(shapes[place]) for place in places])


@pytest.mark.parametrize("name", sorted(_WHOLE))
def test_infinity_is_in_the_support_of_no_family(name: str) -> None:
    family, numbers = getattr(stats, name)(*_WHOLE[name]), np.array([-np.inf, np.inf])
    np.testing.assert_array_equal(family.pmf(numbers), [0.0, 0.0])
    np.testing.assert_array_equal(family.cdf(numbers), [0.0, 1.0])


@pytest.mark.parametrize(("name", "shapes"), [("zipf", (1.5,)), ("yulesimon", (2.125,)), ("betanbinom", (3, 0.5, 1.0))])
def test_a_sum_over_a_heavy_tail_is_refused(name: str, shapes: tuple[float, ...]) -> None:
    with pytest.raises(ArgumentError, match="has a tail of which more than 10,000,000 numbers"):
        getattr(stats, name).expect(None, shapes)


@pytest.mark.parametrize(("name", "shapes"), [("pearson3", (0.0,)), ("kappa4", (0.0, 0.0)), ("kappa4", (0.5, 0.0))])
def test_the_limit_of_a_shape_has_derivatives(name: str, shapes: tuple[float, ...]) -> None:
    family, parameters = getattr(stats, name), [np.array(shape) for shape in shapes]
    points = np.array([0.25, 0.5, 1.25])
    for method in ("logpdf", "cdf"):
        found = getattr(family, method)(points, *shapes)
        near = getattr(family, method)(points, *(shape + 1e-4 for shape in shapes))
        np.testing.assert_allclose(found, near, atol=1e-3)
        check_along_a_line(functools.partial(getattr(family, method), points), parameters)


@pytest.mark.parametrize("name", ["fisk", "genhalflogistic", "kappa3", "kappa4", "ncf", "ncx2", "rice", "tukeylambda"])
def test_values_at_the_ends_of_a_support_are_scipys(name: str) -> None:
    shapes, leaves = _SHAPES[name], [ag.tensor(float(shape), requires_grad=True) for shape in _SHAPES[name]]
    family, theirs = getattr(stats, name), getattr(scipy.stats, name)
    ends = np.array([end for end in theirs.support(*shapes) if np.isfinite(end)])
    for method in ("pdf", "cdf", "sf"):
        found = getattr(family, method)(ends, *leaves)
        np.testing.assert_allclose(found.detach(), getattr(theirs, method)(ends, *shapes), atol=1e-12)
        if found.requires_grad:
            assert not any(np.isnan(slope.item()) for slope in sync.grad(found.sum(), leaves, materialize_grads=True))


@pytest.mark.parametrize(
    ("name", "shapes", "invalid"),
    [("nct", (7.5, 0.75), -1.5), ("nct", (7.5, 0.75), 0.0), ("dpareto_lognorm", (0.25, 0.75, 5.5, 2.25), np.nan)],
)
def test_parameters_that_are_none_do_not_harm_others(name: str, shapes: tuple[float, ...], invalid: float) -> None:
    family, theirs = getattr(stats, name), getattr(scipy.stats, name)
    for method, point in (("pdf", 0.5), ("ppf", 0.375)):
        found = getattr(family, method)(point, np.array([shapes[0], invalid]), *shapes[1:])
        np.testing.assert_allclose(found, [getattr(theirs, method)(point, *shapes), np.nan])


def test_quantiles_of_a_family_for_arrays_of_parameters_are_those_of_each() -> None:
    places = np.array([0.25, -1.5])
    found = stats.dpareto_lognorm.ppf(0.375, places, 0.75, 5.5, 2.25)

    expected = [scipy.stats.dpareto_lognorm.ppf(0.375, place, 0.75, 5.5, 2.25) for place in places]
    np.testing.assert_allclose(found, expected)


_TRIALS = np.array([[0.25, 0.5, 0.75], [0.125, 0.875, 0.375]])


def test_trials_of_different_probabilities_are_scipys() -> None:
    mine, theirs, numbers = (
        stats.poisson_binom,
        scipy.stats.poisson_binom,
        np.array([[-1.0], [0.0], [2.0], [3.0], [4.0]]),
    )
    for method in ("pmf", "logpmf", "cdf", "sf", "logcdf", "logsf"):
        with np.errstate(divide="ignore"):
            expected = getattr(theirs, method)(numbers, _TRIALS)
        np.testing.assert_allclose(getattr(mine, method)(numbers, _TRIALS), expected, rtol=1e-12)
    for method in ("mean", "var", "entropy", "median"):
        np.testing.assert_allclose(getattr(mine, method)(_TRIALS), getattr(theirs, method)(_TRIALS), rtol=1e-12)
    found, expected = (one.stats(_TRIALS[0], moments="sk") for one in (mine, theirs))
    np.testing.assert_allclose(np.stack(found), np.stack(expected), rtol=1e-12)
    np.testing.assert_array_equal(mine.ppf([0.125, 0.75], _TRIALS[0]), theirs.ppf([0.125, 0.75], _TRIALS[0]))
    drawn = mine(_TRIALS[0]).rvs(size=4, random_state=7)
    np.testing.assert_array_equal(drawn, theirs.rvs(_TRIALS[0], size=4, random_state=7))
    counts = np.array([2.0, 3.0, 4.0])
    weights = theirs.pmf(counts - 1, _TRIALS[0])
    mean = mine.expect(np.square, (_TRIALS[0],), 1, lb=2, conditional=True)
    np.testing.assert_allclose(mean, np.sum(counts**2 * weights) / np.sum(weights), rtol=1e-12)


def test_the_probabilities_of_trials_have_derivatives() -> None:
    for method in ("logpmf", "cdf", "logsf"):
        check_along_a_line(functools.partial(getattr(stats.poisson_binom, method), np.array([[0.0], [2.0]])), [_TRIALS])
    with pytest.raises(ValueError, match=r"takes p of shape \(\.\.\., n\), not one number"):
        stats.poisson_binom.pmf(1, 0.5)
    with pytest.raises(ArgumentError, match="which have no derivative"):
        stats.poisson_binom.rvs(ag.tensor(_TRIALS, requires_grad=True))


@pytest.mark.parametrize(("name", "sign"), [("levy", 1.0), ("levy_l", -1.0)])
@pytest.mark.parametrize("method", ["pdf", "cdf", "sf", "logpdf", "logcdf"])
def test_levys_distributions_are_constant_where_an_inverse_overflows(name: str, sign: float, method: str) -> None:
    x = ag.tensor([sign * 1e-310, sign * 5e-324], requires_grad=True)
    found = getattr(getattr(stats, name), method)(x)
    with np.errstate(over="ignore"):
        (slope,) = ag.sync.grad(found.sum(), [x])

    np.testing.assert_array_equal(slope, 0.0)
    assert not np.isnan(found.detach().numpy()).any()


@pytest.mark.parametrize(
    ("name", "method", "shapes", "x", "slope"),
    [
        # Next to an end, where a power underflows: the density, and its own slope's quotient.
        ("halfgennorm", "cdf", (1.5,), 1e-300, 1.5 / scipy.special.gamma(2 / 3)),
        ("gennorm", "ppf", (50.0,), 0.5, 2 * scipy.special.gamma(0.02) / 50),
        ("gengamma", "logpdf", (1.75, 2.25), 1e-300, (1.75 * 2.25 - 1) * 1e300),
        ("gengamma", "logcdf", (0.001, 2.25), 1e-200, 0.00225e200),
        # Far out, where squares and powers overflow.
        ("gengamma", "cdf", (1.75, 2.25), 1e150, 0.0),
        ("halfgennorm", "sf", (50.0,), 1e300, 0.0),
        ("jf_skew_t", "logpdf", (5.25, 3.5), 1e150, -8e-150),
        ("jf_skew_t", "logsf", (5.25, 3.5), 1e150, -7e-150),
        ("landau", "logsf", (), 1e300, -1e-300),
        ("landau", "logpdf", (), 1e160, -2e-160),
    ],
)
def test_a_slope_is_right_where_numbers_underflow_or_overflow(
    name: str, method: str, shapes: tuple[float, ...], x: float, slope: float
) -> None:
    point, *leaves = (ag.tensor(one, requires_grad=True) for one in (x, *shapes))

    found, *others = sync.grad(getattr(getattr(stats, name), method)(point, *leaves), [point, *leaves])

    assert found.item() == pytest.approx(slope, rel=1e-9)
    assert np.all(np.isfinite(np.stack([found, *others])))


@pytest.mark.parametrize("n", [3, 140, 141])
def test_the_density_of_kstwo_has_the_slope_of_its_differences(n: int) -> None:
    for share in (1e-6, 0.5, 0.999):
        d = float(scipy.stats.kstwo.ppf(share, n))
        density, step = functools.partial(stats.kstwo.pdf, n=n), 1e-4 * d
        x = ag.tensor(d, requires_grad=True)

        (slope,) = sync.grad(density(x), [x])

        near = (density(d + step) - density(d - step)).item() / (2 * step)
        assert slope.item() == pytest.approx(near, rel=1e-4)
