"""asyncgrad.scipy.stats: families by a function of another one's variable, of two sides, and of whole numbers."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import scipy.stats

import asyncgrad as ag
from asyncgrad.scipy import stats
from asyncgrad.scipy.stats import pieces, transformed, whole_numbers
from tests.scipy.functions import check_along_a_line

_SHAPES: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(("arcsine", "gibrat", "halflogistic", "hypsecant", "levy", "maxwell", "moyal", "semicircular"), ()),
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
_WHOLE: dict[str, tuple[float, ...]] = {"planck": (0.5,), "randint": (2, 9)}

#: Families without formulas for their moments, whose integrals take long.
_BY_INTEGRALS = {
    *("bradford", "exponweib", "halfgennorm", "halflogistic", "johnsonsb", "mielke", "powernorm", "truncexpon"),
}


def test_every_family_has_shapes() -> None:
    assert set(_SHAPES) == {*pieces.__all__, *transformed.__all__}
    assert set(_WHOLE) == set(whole_numbers.__all__)


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
            expected = getattr(theirs, method)(given, *parameters)
        np.testing.assert_allclose(getattr(mine, method)(given, *parameters), expected, rtol=1e-7, atol=1e-12)
    probabilities = np.array([-0.5, 0.0, 1e-5, 0.1875, 0.5, 0.8125, 1.0])
    for method in ("ppf", "isf"):
        expected = getattr(theirs, method)(probabilities, *parameters)
        np.testing.assert_allclose(getattr(mine, method)(probabilities, *parameters), expected, rtol=1e-7, atol=1e-12)
    for found, expected in zip(mine.support(*parameters), theirs.support(*parameters), strict=True):
        assert found == expected
    for method in ("median",) if name in _BY_INTEGRALS else ("mean", "var", "entropy", "median"):
        expected = getattr(theirs, method)(*parameters)
        np.testing.assert_allclose(getattr(mine, method)(*parameters), expected, rtol=1e-6, atol=1e-12)
    drawn = mine.rvs(*parameters, size=3, random_state=7)
    np.testing.assert_allclose(drawn, theirs.rvs(*parameters, size=3, random_state=7), rtol=1e-12)
    assert np.isnan(mine.pdf(0.5, *shapes, scale=-1.0).item())


@pytest.mark.parametrize("name", sorted(set(_SHAPES) - _BY_INTEGRALS - {"levy"}))
def test_the_moments_of_a_family_are_scipys(name: str) -> None:
    found, expected = (getattr(module, name).stats(*_SHAPES[name], moments="sk") for module in (stats, scipy.stats))
    np.testing.assert_allclose(np.stack(found), np.stack(expected), rtol=1e-5, atol=1e-8)


@pytest.mark.sampled
@pytest.mark.parametrize("name", sorted(_SHAPES))
def test_derivatives_are_those_of_differences(name: str) -> None:
    family = getattr(stats, name)
    parameters = [np.array(float(one)) for one in (*_SHAPES[name], 0.25, 1.5)]
    points = np.asarray(getattr(scipy.stats, name).ppf([0.1875, 0.4375, 0.8125], *_SHAPES[name])) * 1.5 + 0.25
    for method in ("logpdf", "cdf", "logsf"):
        check_along_a_line(getattr(family, method), [points, *parameters])
    for method in ("ppf", "isf"):
        check_along_a_line(getattr(family, method), [np.array([0.1875, 0.4375, 0.8125]), *parameters])


def test_the_median_of_a_symmetric_family_has_derivatives() -> None:
    exponent = ag.tensor(1.5, requires_grad=True)
    (slope,) = ag.sync.grad(stats.gennorm.ppf(0.5, exponent, 0.25), [exponent])
    assert slope.item() == 0.0


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
        expected = getattr(theirs, method)(numbers, *shapes)
        np.testing.assert_allclose(getattr(mine, method)(numbers, *shapes), expected, rtol=1e-9)
    for method in ("mean", "var", "entropy"):
        np.testing.assert_allclose(getattr(mine, method)(*shapes), getattr(theirs, method)(*shapes), rtol=1e-8)
    np.testing.assert_allclose(np.stack(mine.stats(*shapes, moments="sk")), theirs.stats(*shapes, moments="sk"))


def test_derivatives_of_a_family_of_whole_numbers_are_those_of_differences() -> None:
    numbers = np.array([1.0, 3.0])
    for method in (stats.planck.logpmf, stats.planck.cdf, stats.planck.logsf):
        check_along_a_line(functools.partial(method, numbers), [np.array(0.5)])
