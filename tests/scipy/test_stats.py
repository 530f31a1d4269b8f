"""asyncgrad.scipy.stats: SciPy's values, and derivatives to second order by the variable and by all parameters."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import scipy.stats

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import AsyncgradError
from asyncgrad.scipy import stats
from asyncgrad.scipy.stats import (
    comparisons,
    directions,
    fits,
    median_slopes,
    power_transforms,
    several_p_values,
    significance,
    sorted_samples,
    spreads,
    summaries,
    trimmed,
)
from tests.core.ops.finite_differences import Case
from tests.scipy.functions import check, check_values
from tests.scipy.test_stats_families import NAMES as FAMILIES

_SHAPES: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(("cauchy", "expon", "gumbel_l", "gumbel_r", "halfcauchy", "halfnorm", "laplace"), ()),
    **dict.fromkeys(("logistic", "norm", "rayleigh", "uniform"), ()),
    "beta": (1.5, 2.5),
    "chi2": (3.25,),
    "exponnorm": (1.25,),
    "f": (3.0, 5.5),
    "gamma": (1.75,),
    "genextreme": (0.25,),
    "genpareto": (0.375,),
    "gompertz": (1.5,),
    "invgamma": (2.75,),
    "lognorm": (0.75,),
    "pareto": (2.75,),
    "powerlaw": (1.75,),
    "skewnorm": (1.5,),
    "t": (2.5,),
    "truncnorm": (-0.5, 1.5),
    "vonmises": (1.75,),
    "weibull_max": (1.75,),
    "weibull_min": (1.75,),
}
_DISCRETE: dict[str, tuple[float, ...]] = {
    "bernoulli": (0.25,),
    "betabinom": (5, 1.5, 2.25),
    "binom": (5, 0.25),
    "geom": (0.25,),
    "nbinom": (2.5, 0.375),
    "poisson": (2.5,),
}
#: The number of trials is no parameter to differentiate by.
_DIFFERENTIABLE = {"betabinom": (2, 3), "binom": (2,)}
_SHARES = np.array([0.125, 0.375, 0.75])
#: The normal density at 1.5.
_NORMAL = 0.12951759566589174
_METHODS = ("pdf", "logpdf", "cdf", "sf", "logcdf", "logsf")
_COV = np.array([[2.0, 0.25, 0.125], [0.25, 1.0, 0.5], [0.125, 0.5, 1.5]])
_POINTS = np.array([[0.5, -1.0, 0.25], [1.0, 0.0, 2.0]])


def _inside(name: str) -> Any:
    """Three points inside of the support, moved and scaled as below."""
    return np.asarray(getattr(scipy.stats, name).ppf([0.1875, 0.4375, 0.8125], *_SHAPES[name])) * 1.5 + 0.25


def _moved(name: str, *args: Any) -> Case:
    parameters = [np.array(value) for value in (*_SHAPES[name], 0.25, 1.5)]
    return Case((*args, *parameters), {}, tuple(range(len(args) + len(parameters))))


CONTINUOUS = {
    f"{name}.{method}": (name, method, _moved(name, _SHARES if method in ("ppf", "isf") else _inside(name)))
    for name in _SHAPES
    for method in (*_METHODS, "ppf", "isf")
} | {
    f"{name}.{method}": (name, method, _moved(name))
    for name in _SHAPES
    for method in ("mean", "var", "entropy")
    if not (name in ("cauchy", "halfcauchy") and method in ("mean", "var"))
}
#: Shapes with which there are four moments.
_WITH_MOMENTS = {"f": (3.0, 9.5), "genpareto": (0.125,), "invgamma": (5.75,), "pareto": (5.75,), "t": (5.5,)}
_WITHOUT_MOMENTS = {"cauchy", "genextreme", "gompertz", "halfcauchy", "vonmises"}
MOMENTS = {
    f"{name}.stats": (
        name,
        "stats",
        Case(
            tuple(np.array(value) for value in (*_WITH_MOMENTS.get(name, shapes), 0.25, 1.5)),
            {"moments": "msk"},
            tuple(range(len(shapes) + 2)),
        ),
    )
    for name, shapes in _SHAPES.items()
    if name not in _WITHOUT_MOMENTS
}
DISCRETE = {
    f"{name}.{method}": (
        name,
        method,
        Case((np.array([1, 2, 3]), *map(np.array, shapes)), {}, _DIFFERENTIABLE.get(name, (1, 2)[: len(shapes)])),
    )
    for name, shapes in _DISCRETE.items()
    for method in ("pmf", "logpmf", "cdf", "sf")
    if not (name == "bernoulli" and method in ("pmf", "logpmf", "cdf", "sf"))
} | {
    "bernoulli.logpmf": ("bernoulli", "logpmf", Case((np.array([0, 1]), np.array(0.25)), {}, (1,))),
    "bernoulli.cdf": ("bernoulli", "cdf", Case((0, np.array(0.25)), {}, (1,))),
    "geom.entropy": ("geom", "entropy", Case((np.array(0.25),))),
    "poisson.entropy": ("poisson", "entropy", Case((np.array([0.5, 30.0]),))),
    "binom.entropy": ("binom", "entropy", Case((np.array([[3], [40]]), np.array([0.25, 0.5])), {}, (1,))),
    "nbinom.entropy": ("nbinom", "entropy", Case((np.array([2.5, 8.0]), np.array([0.375, 0.75])), {}, (0, 1))),
    "betabinom.entropy": ("betabinom", "entropy", Case((np.array(6), np.array(1.5), np.array(2.5)), {}, (1, 2))),
    "poisson.mean": ("poisson", "mean", Case((np.array(2.5),))),
    "nbinom.var": ("nbinom", "var", Case((np.array(2.5), np.array(0.375)), {}, (0, 1))),
}
SEVERAL = {
    "multivariate_normal.logpdf": (
        "multivariate_normal",
        "logpdf",
        Case((_POINTS, _POINTS[0] / 2, _COV), {}, (0, 1, 2)),
    ),
    "multivariate_normal.pdf": ("multivariate_normal", "pdf", Case((_POINTS[0],), {"cov": np.array(2.0)}, (0, "cov"))),
    "multivariate_normal.cdf": (
        "multivariate_normal",
        "cdf",
        Case((_POINTS[:, :2], _POINTS[0, :2] / 2, _COV[:2, :2]), {}, (0, 1)),
    ),
    "multivariate_normal.logcdf": (
        "multivariate_normal",
        "logcdf",
        Case((_POINTS[0, :1], None, np.array(2.0)), {}, (0, 2)),
    ),
    "multivariate_normal.entropy": ("multivariate_normal", "entropy", Case((_POINTS[0], _COV), {}, (1,))),
    "multivariate_t.logpdf": ("multivariate_t", "logpdf", Case((_POINTS, _POINTS[0] / 2, _COV, 3.5), {}, (0, 1, 2))),
    "multivariate_t.pdf": ("multivariate_t", "pdf", Case((_POINTS[0], None, 2.0, 1.5), {}, (0,))),
    "dirichlet.logpdf": (
        "dirichlet",
        "logpdf",
        Case((np.array([[0.25, 0.5], [0.125, 0.25]]), np.array([1.5, 2.0, 0.75])), {}, (0, 1)),
    ),
    "dirichlet.entropy": ("dirichlet", "entropy", Case((np.array([1.5, 2.0, 0.75]),))),
    "dirichlet.mean": ("dirichlet", "mean", Case((np.array([1.5, 2.0, 0.75]),))),
    "dirichlet.cov": ("dirichlet", "cov", Case((np.array([1.5, 2.0, 0.75]),))),
    "dirichlet.var": ("dirichlet", "var", Case((np.array([1.5, 2.0, 0.75]),))),
}
CALLS = CONTINUOUS | MOMENTS | DISCRETE | SEVERAL
#: The derivative by the variable of a flat density, or of a distribution function of two pieces, is not to be had.
_KINKS = {"uniform.pdf", "uniform.logpdf"}
#: It takes seconds, and shows nothing that the entropy of the skew normal distribution does not.
_SLOW = {"exponnorm.entropy"}


async def _awaited(x: Any) -> Any:
    return x


def test_every_family_has_cases() -> None:
    elsewhere = {"Covariance", "categorical", "gaussian_kde", "hypergeom", "invwishart", "multinomial", "wishart"}

    modules = (
        *(
            comparisons,
            directions,
            fits,
            median_slopes,
            power_transforms,
            several_p_values,
            significance,
            sorted_samples,
            spreads,
        ),
        *(summaries, trimmed),
    )
    functions = {name for module in modules for name in module.__all__}
    assert set(stats.__all__) - elsewhere - functions - FAMILIES == {name for name, _, _ in CALLS.values()}


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("call", [call for call in CALLS if call not in _KINKS | _SLOW])
def test_derivatives_of_first_and_second_order_are_those_of_finite_differences(call: str) -> None:
    name, method, case = CALLS[call]

    check(getattr(getattr(stats, name), method), case)


@pytest.mark.sampled
@pytest.mark.parametrize("call", CALLS)
def test_values_are_those_of_scipy(call: str) -> None:
    name, method, case = CALLS[call]

    # SciPy finds these by an integral of quantiles.
    tolerance = 1e-10 if call in ("gompertz.mean", "gompertz.var") else 1e-12
    ours, theirs = getattr(getattr(stats, name), method), getattr(getattr(scipy.stats, name), method)
    check_values(ours, theirs, case, tolerance=tolerance)


@pytest.mark.parametrize("name", sorted({*_SHAPES, *_DISCRETE}))
def test_a_loc_of_nan_gives_nan_as_scipy_does(name: str) -> None:
    shapes = {**_SHAPES, **_DISCRETE}[name]
    density = "logpmf" if name in _DISCRETE else "logpdf"
    loc = np.array([0.0, np.nan])

    for method in (density, "cdf", "sf"):
        found = getattr(getattr(stats, name), method)(1.0, *shapes, loc=loc).numpy()
        np.testing.assert_array_equal(np.isnan(found), np.isnan(loc), err_msg=method)


def test_the_entropy_of_many_numbers_is_that_of_the_normal_distribution_in_the_limit() -> None:
    found = stats.poisson.entropy(np.array([2.0, 1e6]))

    assert found.numpy()[1] == pytest.approx(float(stats.norm.entropy(0.0, 1e3)), rel=1e-6)
    assert found.numpy()[0] == pytest.approx(scipy.stats.poisson.entropy(2.0), rel=1e-12)


def test_the_entropy_of_parameters_that_are_none_is_nan() -> None:
    found = stats.poisson.entropy(np.array([-1.0, 0.0, 2.0]), loc=np.array([0.0, 0.0, np.nan])).numpy()

    np.testing.assert_array_equal(found, [np.nan, 0.0, np.nan])


@pytest.mark.slow
def test_integrals_are_found_for_each_shape() -> None:
    c = ag.tensor([[0.5], [2.0]], requires_grad=True)

    def variance(c: Any) -> Any:
        return stats.gompertz.var(c, scale=[1.0, 2.0, 3.0])

    expected = scipy.stats.gompertz.var([[0.5], [2.0]], scale=[1.0, 2.0, 3.0])
    np.testing.assert_allclose(variance(c).detach().numpy(), expected, rtol=1e-9)
    assert sync.gradcheck(variance, (c,))
    assert stats.vonmises.mean([1.0, 2.0]).shape == (2,)


@pytest.mark.parametrize("name", _SHAPES)
def test_outside_of_the_support_and_for_bad_parameters_values_are_scipys(name: str) -> None:
    shapes = _SHAPES[name]
    x = np.array([-3.0, 0.0, 0.5, 2.5, np.nan])
    for method in (*_METHODS, "ppf", "isf"):
        ours, theirs = getattr(getattr(stats, name), method), getattr(getattr(scipy.stats, name), method)
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(ours(x, *shapes).numpy(), theirs(x, *shapes), 1e-7, 1e-12, err_msg=method)
        np.testing.assert_array_equal(ours(x, *shapes, 0.0, -1.0).numpy(), np.nan)


@pytest.mark.parametrize("name", ["beta", "expon", "gamma", "lognorm", "pareto", "truncnorm", "uniform"])
@pytest.mark.parametrize("method", _METHODS)
def test_outside_of_the_support_the_gradient_is_zero(name: str, method: str) -> None:
    x, *shapes = (ag.tensor(value, requires_grad=True) for value in (-3.0, *_SHAPES[name]))

    sync.backward(getattr(getattr(stats, name), method)(x, *shapes))

    assert [0.0 if one.grad is None else one.grad.item() for one in (x, *shapes)] == [0.0] * (1 + len(shapes))


@pytest.mark.parametrize("method", ["pmf", "logpmf", "cdf", "sf", "logcdf", "logsf"])
def test_numbers_that_are_none_give_scipys_values_and_no_gradient(method: str) -> None:
    k, mu = np.array([-1.0, 0.5, 2.0, np.nan]), ag.tensor(2.5, requires_grad=True)

    found = getattr(stats.poisson, method)(k, mu)
    (gradient,) = sync.grad(found.sum(), [mu])
    (alone,) = sync.grad(getattr(stats.poisson, method)(k[1:3], mu).sum(), [mu])

    np.testing.assert_allclose(found.numpy(), getattr(scipy.stats.poisson, method)(k, 2.5), rtol=1e-12)
    np.testing.assert_allclose(gradient.numpy(), alone.numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda x: stats.gamma.logpdf(x, 1.0), -1.0),
        (lambda x: stats.chi2.logpdf(x, 2.0), -0.5),
        (lambda x: stats.beta.logpdf(x, 1.0, 3.0), -2.0),
        (lambda x: stats.dirichlet.logpdf(np.stack([x, 1 - x]), [1.0, 2.0]), -1.0),
        (lambda x: 1e200 * stats.cauchy.logpdf(1e200 * (1 + x)) / 1e200, -2.0),
    ],
    ids=["gamma", "chi2", "beta", "dirichlet", "cauchy"],
)
def test_at_the_end_of_the_support_the_derivative_is_its_limit(call: Any, expected: float) -> None:
    x = ag.tensor(0.0, requires_grad=True)

    sync.backward(call(x))

    assert x.grad.item() == expected


@pytest.mark.parametrize(
    ("name", "method", "args", "expected", "slopes"),
    [
        ("gamma", "logsf", (1000.0, 1.75), -994.7340328879782, (-0.9992507490640432, 6.661282574999877)),
        ("gamma", "logcdf", (1e-8, 50.0), -1069.5118041591952, (4999999999.019608, -22.342670417384102)),
        ("chi2", "logsf", (2000.0, 3.25), -995.5728542460178, (-0.49968781207113544, 3.3807318342253376)),
        ("invgamma", "logcdf", (1e-3, 2.75), -988.3848931482829, (998251.7495599914, 6.089855002070755)),
        ("beta", "logcdf", (1e-8, 50.0, 20.0), -882.6611401991378, (4999999981.372549, -18.101335039002485)),
        ("f", "logcdf", (1e-8, 100.0, 20.0), -817.3079100874947, (4999999705.882368, -7.823622266279577)),
        ("t", "logcdf", (-1e8, 100.0), -1615.0335886803693, (1e-6, -15.62307065220808)),
        ("t", "logsf", (1e8, 100.0), -1615.0335886803693, (-1e-6, -15.62307065220808)),
        ("poisson", "logsf", (600.0, 3.0), -2591.4029490187804, (None, 199.3350027545457)),
        ("poisson", "logcdf", (3.0, 900.0), -881.3812399981886, (None, -0.9966703744671642)),
        ("nbinom", "logsf", (3000.0, 2.5, 0.5), -2069.4479169553274, (None, 6.611396418000743)),
        ("binom", "logsf", (500, 1000, 0.01), -1622.7300262231919, (None, None, 49596.984005443481)),
        ("truncnorm", "logcdf", (1e-9, 0.0, 2.0), -20.90248927729875, (1e9,)),
    ],
)
def test_logarithms_have_their_digits_where_probabilities_underflow(
    name: str, method: str, args: Any, expected: float, slopes: Any
) -> None:
    # Values of mpmath with 500 digits.
    tensors = [ag.tensor(float(one), requires_grad=True) for one in args]
    found = getattr(getattr(stats, name), method)(*tensors)
    gradients = sync.grad(found, tensors, allow_unused=True)

    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)
    for gradient, slope in zip(gradients, slopes, strict=False):
        if slope is not None:
            np.testing.assert_allclose(gradient.numpy(), slope, rtol=1e-10)


@pytest.mark.parametrize("name", ["expon", "rayleigh", "weibull_min"])
def test_the_slope_of_a_distribution_function_that_is_next_to_one_is_the_density(name: str) -> None:
    x, shapes = ag.tensor(10.0, requires_grad=True), _SHAPES[name]

    sync.backward(getattr(stats, name).cdf(5 * x, *shapes, scale=1.25))

    expected = 5 * getattr(scipy.stats, name).pdf(50.0, *shapes, scale=1.25)
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "x", "shapes", "expected"),
    [
        # Exponents of the density at the end below 0, at 1, and above.
        ("gamma", 0.0, (0.5,), {"cdf": np.inf, "logsf": -np.inf, "logcdf": np.inf}),
        ("gamma", 0.0, (2.0,), {"pdf": 1.0, "cdf": 0.0, "sf": 0.0}),
        ("gamma", 0.0, (2.5,), {"pdf": 0.0}),
        ("chi2", 0.0, (4.0,), {"pdf": 0.25}),
        ("beta", 0.0, (2.0, 3.0), {"pdf": 12.0}),
        ("beta", 1.0, (3.0, 2.0), {"pdf": -12.0}),
        ("beta", 1.0, (0.5, 0.5), {"cdf": np.inf, "logcdf": np.inf}),
        ("f", 0.0, (1.0, 3.0), {"cdf": np.inf, "sf": -np.inf}),
        ("weibull_min", 0.0, (2.0,), {"pdf": 2.0}),
        ("weibull_max", 0.0, (2.0,), {"pdf": -2.0}),
        ("powerlaw", 0.0, (2.0,), {"pdf": 2.0}),
        ("powerlaw", 0.0, (0.5,), {"pdf": 0.0, "logpdf": 0.0, "cdf": np.inf}),
        ("rayleigh", 0.0, (), {"pdf": 1.0}),
        ("invgamma", 0.0, (2.0,), {"cdf": 0.0, "logsf": 0.0}),
        ("lognorm", 0.0, (2.0,), {"cdf": 0.0, "logsf": 0.0}),
        ("genextreme", 4.0, (0.25,), {"pdf": 0.0, "cdf": 0.0, "sf": 0.0}),
        ("truncnorm", -1.0, (-1.0, 1.0), {"cdf": 0.3544374526136034, "sf": -0.3544374526136034}),
        ("truncnorm", 0.0, (-np.inf, np.inf), {"cdf": 0.3989422804014327, "logcdf": 0.7978845608028654}),
        ("gumbel_r", -700.0, (), {"pdf": 0.0, "cdf": 0.0}),
        ("norm", np.inf, (), {"pdf": 0.0, "cdf": 0.0}),
        ("cauchy", -np.inf, (0.25, 1.5), {"pdf": 0.0, "cdf": 0.0, "sf": 0.0, "logsf": 0.0}),
        ("expon", np.inf, (0.25, 1.5), {"pdf": 0.0, "cdf": 0.0, "logcdf": 0.0}),
        ("t", 1.5, (np.inf,), {"pdf": -1.5 * _NORMAL, "logpdf": -1.5, "cdf": _NORMAL, "sf": -_NORMAL}),
        ("t", -60.0, (1e15,), {"cdf": 0.0, "sf": 0.0}),
    ],
)
def test_at_ends_of_the_support_slopes_are_one_sided_and_no_gradient_is_nan(
    name: str, x: float, shapes: Any, expected: dict[str, float]
) -> None:
    for method, slope in expected.items():
        parameters = [ag.tensor(float(one), requires_grad=True) for one in (x, *shapes)]
        found = getattr(getattr(stats, name), method)(*parameters)
        first, *rest = sync.grad(found, parameters, allow_unused=True)

        np.testing.assert_allclose(found.numpy(), getattr(getattr(scipy.stats, name), method)(x, *shapes), rtol=1e-12)
        np.testing.assert_allclose(first.numpy(), slope, rtol=1e-12)
        assert not any(np.isnan(one.numpy()) for one in rest if one is not None)


@pytest.mark.parametrize(
    ("name", "shapes", "power"),
    [
        ("gamma", (0.5,), 0.5),
        ("gamma", (1.0,), 1.0),
        ("gamma", (1.5,), 1.5),
        ("gamma", (2.0,), 2.0),
        ("chi2", (3.0,), 1.5),
        ("beta", (1.5, 2.0), 1.5),
        ("f", (3.0, 5.0), 1.5),
        ("powerlaw", (1.5,), 1.5),
        ("weibull_min", (0.75,), 0.75),
        ("rayleigh", (), 2.0),
    ],
)
def test_at_the_least_number_of_the_support_the_derivative_by_the_scale_is_its_limit(
    name: str, shapes: tuple[float, ...], power: float
) -> None:
    family, scale = getattr(stats, name), ag.tensor(1.25, requires_grad=True)
    # The second number is inside of the support.
    x = [0.5, 1.0]

    def slope(method: str) -> Any:
        (found,) = sync.grad(getattr(family, method)(x, *shapes, 0.5, scale)[0], [scale], create_graph=True)
        return found

    for method in ("logpdf", "logcdf"):
        np.testing.assert_allclose(slope(method).numpy(), -power / 1.25, rtol=1e-12)
    for method in ("cdf", "sf", "logsf"):
        assert slope(method).item() == 0
        assert sync.grad(slope(method), [scale])[0].item() == 0
    density = family.pdf(0.5, *shapes, 0.5, 1.25).item()
    np.testing.assert_allclose(slope("pdf").numpy(), -power / 1.25 * density, rtol=1e-12)


@pytest.mark.parametrize(
    ("k", "p", "expected"),
    [(0, 0.0, -3.0), (1, 0.0, 3.0), (2, 0.0, 0.0), (3, 1.0, 3.0), (2, 1.0, -3.0), (0, 1.0, 0.0), (-1, 1.0, 0.0)],
)
def test_the_slope_of_a_binomial_probability_at_a_sure_result_is_its_limit(k: int, p: float, expected: float) -> None:
    sure = ag.tensor(p, requires_grad=True)
    (grad,) = sync.grad(stats.binom.pmf(k, 3, sure), [sure])

    assert grad.item() == expected


@pytest.mark.parametrize(
    ("family", "shapes", "sure", "slopes"),
    [
        (stats.poisson, (), 0.0, {-1: 0.0, 0: -1.0, 1: 1.0, 2: 0.0}),
        (stats.geom, (), 1.0, {0: 0.0, 1: 1.0, 2: -1.0, 3: 0.0}),
        (stats.nbinom, (2.0,), 1.0, {-1: 0.0, 0: 2.0, 1: -2.0, 2: 0.0}),
        (stats.bernoulli, (), 1.0, {0: -1.0, 1: 1.0, 2: 0.0}),
        (stats.bernoulli, (), 0.0, {-1: 0.0, 0: -1.0, 1: 1.0}),
    ],
)
def test_the_slope_of_a_probability_at_a_sure_result_is_its_limit(
    family: Any, shapes: tuple[float, ...], sure: float, slopes: dict[int, float]
) -> None:
    for k, slope in slopes.items():
        parameter = ag.tensor(sure, requires_grad=True)
        with np.errstate(divide="ignore"):
            (grad,) = sync.grad(family.pmf(k, *shapes, parameter), [parameter])

        assert grad.item() == pytest.approx(slope, abs=1e-15)


def test_the_slope_of_a_probability_next_to_the_mode_of_many_has_its_digits() -> None:
    mean = ag.tensor(1e6, requires_grad=True)
    chance = stats.poisson.pmf(1e6 + 1, mean)
    (grad,) = sync.grad(chance, [mean])

    assert grad.item() == pytest.approx(chance.item() * 1e-6, rel=1e-9)


def test_what_is_outside_of_the_support_has_no_gradient_at_a_sure_result() -> None:
    sure = ag.tensor(1.0, requires_grad=True)
    (grad,) = sync.grad(stats.binom.logpmf(-1, 1, sure) + stats.bernoulli.logpmf(2, 1 - sure), [sure])

    assert grad.item() == 0.0


@pytest.mark.parametrize("method", ["logpdf", "pdf", "cdf", "sf", "logcdf", "logsf"])
def test_far_out_students_slopes_are_numbers(method: str) -> None:
    x, df = (ag.tensor(value, requires_grad=True) for value in (1e200, 3.0))
    with np.errstate(over="ignore"):
        grads = sync.grad(getattr(stats.t, method)(x, df), [x, df], materialize_grads=True)

    assert [bool(np.isnan(grad.numpy())) for grad in grads] == [False, False]


def test_the_slope_of_students_density_far_out_is_that_of_its_logarithm() -> None:
    df = ag.tensor(3.0, requires_grad=True)
    with np.errstate(over="ignore"):
        slopes = [sync.grad(stats.t.logpdf(x, df), [df])[0].item() for x in (1e100, 1e140, 1e160, 1e200)]

    # It falls by the logarithm of x.
    np.testing.assert_allclose(np.diff(slopes), -np.log(10) * np.array([40, 20, 40]), rtol=1e-12)


@pytest.mark.parametrize("name", ["norm", "logistic", "t"])
def test_at_infinity_no_second_derivative_is_nan(name: str) -> None:
    shapes = [2.5] if name == "t" else []
    for method in ("pdf", "cdf", "sf"):
        leaves = [ag.tensor(one, requires_grad=True) for one in (np.array([-np.inf, np.inf]), *shapes, 0.5, 2.0)]
        first = sync.grad(getattr(getattr(stats, name), method)(*leaves).sum(), leaves, create_graph=True)
        recorded = [one.sum() for one in first if one.requires_grad]
        second = sync.grad(sum(recorded), leaves, allow_unused=True) if recorded else []
        assert not any(np.isnan(one.numpy()).any() for one in (*first, *second) if one is not None)


def test_moments_of_infinitely_many_degrees_of_freedom_are_the_normal_ones() -> None:
    for method in ("var", "entropy"):
        found = getattr(stats.t, method)([3.5, np.inf])
        np.testing.assert_allclose(found.numpy(), getattr(scipy.stats.t, method)([3.5, np.inf]), rtol=1e-12)


@pytest.mark.parametrize("name", ["bernoulli", "betabinom", "binom", "geom", "hypergeom", "nbinom", "poisson"])
def test_moments_of_whole_numbers_are_those_of_scipy(name: str) -> None:
    shapes = {**_DISCRETE, "hypergeom": (20, 7, 12)}[name]
    ours, theirs = getattr(stats, name)(*shapes, loc=2), getattr(scipy.stats, name)(*shapes, loc=2)

    np.testing.assert_allclose([one.numpy() for one in ours.stats("mvsk")], theirs.stats("mvsk"), rtol=1e-10)
    np.testing.assert_allclose(
        [ours.moment(order).numpy() for order in range(5)], [theirs.moment(order) for order in range(5)], rtol=1e-10
    )
    np.testing.assert_allclose(ours.expect(lambda k: k**3).numpy(), theirs.moment(3), rtol=1e-8)
    for confidence in (0.0, 0.5, [0.9, 1.0]):
        expected = theirs.interval(confidence)
        np.testing.assert_array_equal([one.numpy() for one in ours.interval(confidence)], expected)
    for method in ("pmf", "logpmf", "cdf", "sf"):
        np.testing.assert_allclose(getattr(ours, method)([3, 4]).numpy(), getattr(theirs, method)([3, 4]), rtol=1e-10)


@pytest.mark.parametrize("name", ["expon", "gamma", "uniform", "weibull_max"])
def test_an_expectation_between_limits_beyond_the_support_is_one_over_the_support(name: str) -> None:
    shapes = (2.5,) if name in ("gamma", "weibull_max") else ()

    found = getattr(stats, name)(*shapes, 2.0, 1.5).expect(np.square, lb=-9.0, ub=3.0, conditional=True)

    expected = getattr(scipy.stats, name)(*shapes, 2.0, 1.5).expect(np.square, lb=-9.0, ub=3.0, conditional=True)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-7)


def test_ends_of_the_support_have_the_shape_of_all_parameters() -> None:
    a, scale = np.ones((2, 1)), np.ones(3)

    assert [one.shape for one in stats.gamma.support(a, scale=scale)] == [(2, 3), (2, 3)]


def test_an_expectation_is_differentiable_by_parameters_and_limits() -> None:
    a, loc, scale = parameters = [ag.tensor(one, requires_grad=True) for one in (1.75, 0.25, 1.5)]
    whole = stats.gamma.expect(lambda x: x**2, (a,), loc, scale)
    upper = ag.tensor(2.0, requires_grad=True)
    part = stats.gamma(a, loc, scale).expect(lambda x: x, lb=1.0, ub=upper, conditional=True)
    mass = scipy.stats.gamma.cdf(2.0, 1.75, 0.25, 1.5) - scipy.stats.gamma.cdf(1.0, 1.75, 0.25, 1.5)

    for found, expected in zip(
        sync.grad(whole, parameters), sync.grad(stats.gamma.moment(2, *parameters), parameters), strict=True
    ):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-7)
    np.testing.assert_allclose(part.item(), 1.4962174460180429, rtol=1e-8)
    np.testing.assert_allclose(
        sync.grad(part, [upper])[0].item(),
        scipy.stats.gamma.pdf(2.0, 1.75, 0.25, 1.5) * (2 - part.item()) / mass,
        rtol=1e-7,
    )


@pytest.mark.parametrize("name", [*_SHAPES])
def test_quantiles_of_float32_are_float32(name: str) -> None:
    shapes = [np.float32(one) for one in _SHAPES[name]]

    for method in ("ppf", "isf", "cdf"):
        assert getattr(getattr(stats, name), method)(ag.tensor(np.float32(0.25)), *shapes).dtype == np.float32


@pytest.mark.parametrize("name", [*_SHAPES, *_DISCRETE])
def test_draws_are_those_of_scipy(name: str) -> None:
    shapes = (_SHAPES | _DISCRETE)[name]

    drawn = getattr(stats, name).rvs(*shapes, loc=1, size=(2, 3), random_state=7)

    expected = getattr(scipy.stats, name).rvs(*shapes, loc=1, size=(2, 3), random_state=7)
    np.testing.assert_allclose(drawn.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("name", [name for name, shapes in _SHAPES.items() if shapes])
def test_draws_follow_the_shapes_as_quantiles_do(name: str) -> None:
    shapes = [ag.tensor(value, requires_grad=True) for value in _SHAPES[name]]
    # Angles are given between -pi and pi, whatever their scale.
    scale = ag.tensor(1.0 if name == "vonmises" else 2.0, requires_grad=True)

    drawn = getattr(stats, name).rvs(*shapes, scale=scale, size=4, random_state=7)
    probability = getattr(scipy.stats, name).cdf(drawn.numpy(), *_SHAPES[name], scale=scale.item())
    quantiles = getattr(stats, name).ppf(probability, *shapes, scale=scale)

    for found, expected in zip(
        sync.grad(np.sum(drawn), [*shapes, scale]), sync.grad(np.sum(quantiles), [*shapes, scale]), strict=True
    ):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)


def test_draws_of_several_variables_follow_their_parameters() -> None:
    mean, cov, alpha = (ag.tensor(one, requires_grad=True) for one in (_POINTS[0], _COV, [1.5, 2.0, 0.75]))

    normal = stats.multivariate_normal.rvs(mean, cov, 4, 7)
    shares = stats.dirichlet.rvs(alpha, 4, 7)
    sync.backward(normal.sum() + shares[:, 0].sum())

    np.testing.assert_allclose(normal.numpy(), scipy.stats.multivariate_normal.rvs(_POINTS[0], _COV, 4, 7), rtol=1e-12)
    np.testing.assert_array_equal(shares.numpy(), scipy.stats.dirichlet.rvs([1.5, 2.0, 0.75], 4, 7))
    np.testing.assert_allclose(mean.grad.numpy(), 4.0)
    assert np.abs(cov.grad.numpy()).min() > 0
    assert alpha.grad.numpy()[0] > 0


def test_the_degrees_of_freedom_of_several_variables_have_a_derivative() -> None:
    check(lambda df: stats.multivariate_t.logpdf(_POINTS, None, _COV, df), Case((np.array(3.5),)))


def test_a_frozen_distribution_has_the_methods_of_its_family() -> None:
    scale = ag.tensor(2.0, requires_grad=True)
    frozen = stats.norm(1.0, scale=scale)

    sync.backward(frozen.logpdf([0.5, 3.0]).sum() + frozen.entropy())

    assert frozen.cdf(1.0).item() == 0.5
    assert frozen.rvs(3, random_state=1).shape == (3,)
    np.testing.assert_allclose(scale.grad.numpy(), (0.25 / 4 - 1 + 4.0 / 4 - 1) / 2 + 0.5)


@pytest.mark.parametrize("made", [stats.gamma, stats.norm(1.0, 2.0), stats.dirichlet([1.0, 2.0])], ids=repr)
def test_distributions_are_copied_and_pickled(made: Any) -> None:
    for copied in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert repr(copied) == repr(made)
        assert copied.mean().tolist() == made.mean().tolist() if made is not stats.gamma else callable(copied.mean)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: stats.gamma.logpdf(1.0), r"scipy\.stats\.gamma\.logpdf needs a"),
        (lambda: stats.norm.logpdf(1.0, sigma=2.0), "no parameter 'sigma': it takes loc, scale"),
        (lambda: stats.norm.logpdf(1.0, 0.0, 1.0, 2.0), "takes the parameters loc, scale, not 3"),
        (lambda: stats.norm.logpdf(1.0, 0.0, loc=1.0), "got 'loc' twice"),
        (lambda: stats.norm(0.0).fit([1.0]), r"norm has no fit: minimize -np\.sum\(norm\.logpdf"),
        (lambda: stats.norm.nnlf, r"norm has no nnlf: write -np\.sum\(norm\.logpdf"),
        (lambda: stats.norm(0.0).pmf, r"norm has no pmf: it has a density: write norm\.pdf"),
        (lambda: stats.poisson.pdf, r"poisson has no pdf: .*write poisson\.pmf"),
        (lambda: stats.norm(0.0).a, r"norm has no a: write norm\.support"),
        (lambda: stats.norm.pfd, r"norm has no attribute 'pfd'\. Did you mean ppf\?"),
        (lambda: stats.multivariate_normal(np.zeros(2)).marginal, r"call scipy\.stats\.multivariate_normal\.marginal"),
        (lambda: stats.poisson.interval(1.5, 2.0), r"poisson\.interval takes a confidence from 0 to 1, not 1\.5"),
        (lambda: stats.norm.fit([1.0]), r"minimize -np\.sum\(stats\.norm\.logpdf"),
        (lambda: stats.poisson.fit([1.0]), r"minimize -np\.sum\(stats\.poisson\.logpmf"),
        (lambda: stats.poisson.rvs(ag.tensor(2.0, requires_grad=True)), "whole numbers, which have no derivative"),
        (lambda: stats.norm.moment(5, [0.0, 1.0]), "an order from 0 to 4 for arrays of parameters, not 5"),
        (lambda: stats.norm(0.0).mean(1.0), "takes no arguments, not 1"),
        (lambda: stats.norm.expect(_awaited), "expect takes a plain function"),
        (lambda: stats.poisson.expect(args=([1.0, 2.0],)), "parameters that are single numbers"),
        (lambda: stats.norm.stats(moments="x"), "the moments 'm', 'v', 's' and 'k', not 'x'"),
        (lambda: stats.multivariate_normal.logpdf([1.0, 2.0], cov=[[1.0, 2.0], [2.0, 1.0]]), "positive definite"),
        (lambda: stats.multivariate_normal.logpdf([1.0, 2.0], cov=np.eye(3)), "must have 3 coordinates"),
        (lambda: stats.multivariate_t.logpdf([1.0], df=-1), "one positive number"),
        (lambda: stats.multivariate_t(allow_singular=True), "not allow_singular=True"),
        (lambda: stats.dirichlet.logpdf([0.5, 0.6], [1.0, 1.0]), "sum to 1"),
    ],
)
def test_errors_say_what_is_wrong(call: Any, message: str) -> None:
    with pytest.raises((AsyncgradError, AttributeError, TypeError, ValueError, np.linalg.LinAlgError), match=message):
        call()


_EXTREME: list[tuple[str, tuple[float, ...]]] = [
    ("gamma", (1e18,)),
    ("gamma", (1e100,)),
    ("invgamma", (1e100,)),
    ("chi2", (1e15,)),
    ("t", (1e100,)),
    ("t", (2e3,)),
    ("beta", (1e10, 1e10 + 20)),
    ("beta", (1e50, 1e50)),
    ("beta", (2.0, 1e12)),
    ("chi", (1e15,)),
    ("nakagami", (1e100,)),
    ("loggamma", (1e30,)),
    ("gengamma", (1e30, 2.5)),
]


@pytest.mark.parametrize(("name", "shapes"), _EXTREME)
def test_an_entropy_keeps_its_digits_for_great_shapes(name: str, shapes: tuple[float, ...]) -> None:
    found = getattr(stats, name).entropy(*shapes)

    np.testing.assert_allclose(found.item(), getattr(scipy.stats, name).entropy(*shapes), rtol=1e-11)


def test_the_entropy_of_a_steep_skew_normal_distribution_has_a_derivative() -> None:
    a = ag.tensor(1000.0, requires_grad=True)

    (slope,) = sync.grad(stats.skewnorm.entropy(a), [a])
    difference = stats.skewnorm.entropy(1010.0) - stats.skewnorm.entropy(990.0)
    np.testing.assert_allclose(slope.item(), difference.item() / 20, rtol=1e-3)


@pytest.mark.parametrize(
    ("name", "shapes", "expected"),
    [
        # Computed with 25 digits by mpmath 1.3; SciPy's integrals miss nearly all of it.
        ("johnsonsb", (0.04317267509914106, 0.031837781130785066), -20.25994508068898),
        ("fatiguelife", (2900.0,), None),
        ("exponweib", (0.03, 0.02), None),
        ("dpareto_lognorm", (0.0, 1e-4, 2.0, 1.5), None),
    ],
)
def test_an_entropy_sees_all_scales_of_a_family(name: str, shapes: tuple[float, ...], expected: float | None) -> None:
    family = getattr(stats, name)
    leaves = [ag.tensor(one, requires_grad=True) for one in shapes]
    found = family.entropy(*leaves)
    gradients = sync.grad(found, leaves)

    if expected is not None:
        assert found.item() == pytest.approx(expected, rel=1e-13)
    for place, (shape, gradient) in enumerate(zip(shapes, gradients, strict=True)):
        step = 1e-4 * (shape or 1.0)
        ends = [family.entropy(*shapes[:place], shape + by, *shapes[place + 1 :]).item() for by in (step, -step)]
        assert gradient.item() == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize(
    ("name", "shapes", "end"),
    [
        *(("burr", (10.5, 4.3), 0.0), ("mielke", (10.4, 4.6), 0.0), ("exponweib", (2.9, 2.0), 0.0)),
        *(("fatiguelife", (29.0,), 0.0), ("gibrat", (), 0.0), ("gengamma", (4.4, -3.1), 0.0)),
        *(("johnsonsb", (4.3, 3.2), 0.0), ("johnsonsb", (4.3, 3.2), 1.0)),
    ],
)
def test_a_density_that_ends_flat_has_values_and_gradients_there(
    name: str, shapes: tuple[float, ...], end: float
) -> None:
    for method in ("pdf", "cdf", "sf"):
        leaves = [ag.tensor(one, requires_grad=True) for one in (end, *shapes, 0.0, 1.0)]
        found = getattr(getattr(stats, name), method)(*leaves)

        assert found.item() == getattr(getattr(scipy.stats, name), method)(end, *shapes)
        for gradient in sync.grad(found, leaves, allow_unused=True):
            assert gradient is None or gradient.item() == 0


def test_the_half_logistic_distribution_of_a_small_shape_keeps_its_moments() -> None:
    c = ag.tensor(1e-9, requires_grad=True)
    mean, variance = stats.genhalflogistic.mean(c), stats.genhalflogistic.var(c)

    np.testing.assert_allclose([mean.item(), variance.item()], scipy.stats.halflogistic.stats(), rtol=1e-8)
    (slope,) = sync.grad(mean, [c])
    assert slope.item() == pytest.approx(-(np.pi**2) / 6, rel=1e-8)


def test_a_generalized_logistic_quantile_does_not_overflow() -> None:
    c = 0.4
    np.testing.assert_allclose(stats.genlogistic.ppf(1e-300, c).item(), np.log(1e-300) / c, rtol=1e-12)


def test_the_entropy_of_many_students_keeps_its_digits() -> None:
    for df in (3.0, 1e20):
        found = stats.multivariate_t.entropy(shape=2 * np.eye(3), df=df)

        expected = scipy.stats.multivariate_t.entropy(shape=2 * np.eye(3), df=df)
        np.testing.assert_allclose(found.item(), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("k", "n", "p"),
    [(50000000, 100000000, 0.5), (0, 2.5e22, 1e-21), (2, 1541096362225563.0, 1e-15), ([0, 5, 6], 5, [0.0, 1.0, 0.5])],
)
def test_probabilities_of_any_number_of_trials_are_those_of_scipy(k: Any, n: Any, p: Any) -> None:
    for method in ("pmf", "cdf", "sf"):
        found = getattr(stats.binom, method)(k, n, p)

        np.testing.assert_allclose(found.numpy(), getattr(scipy.stats.binom, method)(k, n, p), rtol=1e-12)


def test_the_mean_of_a_function_does_not_miss_a_narrow_bulk() -> None:
    np.testing.assert_allclose(stats.gamma.expect(args=(148,)).item(), 148.0)
    np.testing.assert_allclose(stats.vonmises.expect(lambda x: 1 + 0 * x, args=(9.0,), loc=4.0).item(), 1.0)


@pytest.mark.parametrize("method", ["mean", "var", "std", "entropy"])
def test_what_describes_a_distribution_has_the_shape_of_all_parameters(method: str) -> None:
    found = getattr(stats.norm, method)([1.0, 2.0], [[1.0], [2.0], [3.0]])

    expected = getattr(scipy.stats.norm, method)([1.0, 2.0], [[1.0], [2.0], [3.0]])
    np.testing.assert_allclose(found.numpy(), expected)


def test_options_may_follow_the_parameters() -> None:
    np.testing.assert_array_equal(
        stats.norm.rvs(0, 1, 3, random_state=1).numpy(), scipy.stats.norm.rvs(0, 1, 3, random_state=1)
    )
    np.testing.assert_array_equal(
        stats.poisson.rvs(3, 0, 4, random_state=1).numpy(), scipy.stats.poisson.rvs(3, 0, 4, random_state=1)
    )
    assert [one.item() for one in stats.gamma.stats(2.0, 3, 4, "mv")] == [11.0, 32.0]


@pytest.mark.parametrize(
    ("name", "shapes"),
    [("exponnorm", (-1,)), ("genextreme", (np.inf,)), ("binom", (5, 0.4)), ("poisson", ([1, -1.0],)), ("geom", (0.5,))],
)
def test_a_support_is_that_of_scipy(name: str, shapes: Any) -> None:
    expected = getattr(scipy.stats, name).support(*shapes)

    for found, end in zip(getattr(stats, name).support(*shapes), expected, strict=True):
        np.testing.assert_array_equal(found.numpy(), end)
        assert found.dtype == np.asarray(end).dtype


def test_quantiles_of_whole_numbers_move_with_loc() -> None:
    loc = ag.tensor([[1.0, 2.0]], requires_grad=True)

    found = stats.hypergeom.isf([0.0, 0.3], 21, 3, 12, loc=loc)

    np.testing.assert_array_equal(found.numpy(), scipy.stats.hypergeom.isf([0.0, 0.3], 21, 3, 12, loc=[[1.0, 2.0]]))
    assert sync.grad(found.sum(), [loc])[0].tolist() == [[1.0, 1.0]]


def test_logarithms_of_probabilities_that_underflow_are_those_of_scipy() -> None:
    far = (1e7, 1e6, 5e4)

    assert stats.hypergeom.logcdf(1, *far).item() == scipy.stats.hypergeom.logcdf(1, *far)
    assert stats.hypergeom.logsf(1e4, *far).item() == scipy.stats.hypergeom.logsf(1e4, *far)


def test_moments_beyond_the_fourth_are_integrals_or_sums() -> None:
    np.testing.assert_allclose(stats.poisson.moment(5, 5).item(), scipy.stats.poisson.moment(5, 5))
    np.testing.assert_allclose(stats.truncnorm.moment(5, -2, 3).item(), scipy.stats.truncnorm.moment(5, -2, 3))
    found = stats.genextreme.stats(-0.1, moments="sk")
    np.testing.assert_allclose([one.item() for one in found], scipy.stats.genextreme.stats(-0.1, moments="sk"))


@pytest.mark.parametrize("shape", [-0.2, -0.05, 0.0, 0.05, 0.2, 30.0])
@pytest.mark.parametrize("name", ["genextreme", "tukeylambda"])
def test_moments_by_gamma_functions_are_those_of_scipy(name: str, shape: float) -> None:
    c = ag.tensor(shape, dtype=np.float64, requires_grad=True)

    found = getattr(stats, name).stats(c, moments="mvsk")
    slope = sync.grad(found[3], [c])[0].item()

    expected = getattr(scipy.stats, name).stats(shape, moments="mvsk")
    np.testing.assert_allclose([one.item() for one in found], expected, rtol=1e-9, atol=1e-12)
    low, high = (getattr(stats, name).stats(shape + step, moments="k").item() for step in (-1e-4, 1e-4))
    np.testing.assert_allclose(slope, (high - low) / 2e-4, rtol=1e-4)


def test_a_variance_without_a_mean_is_no_number() -> None:
    found = stats.nct.var([0.75, 1.5, 3.0], 0.25)

    np.testing.assert_allclose(found, [np.nan, np.inf, scipy.stats.nct.var(3.0, 0.25)])


@pytest.mark.parametrize("name", ["genextreme", "tukeylambda"])
def test_a_kurtosis_that_does_not_exist_is_no_number(name: str) -> None:
    found = getattr(stats, name).stats([-0.3, 0.2], moments="k")

    assert np.isnan(found.numpy()).tolist() == [True, False]


def test_the_density_at_the_end_of_a_support_is_that_of_scipy() -> None:
    x, c = [1.0, 0.5, 1.5, 2.0, 0.5], [-1.0, -1.0, -1.0, -0.5, -2.0]

    np.testing.assert_array_equal(stats.genpareto.pdf(x, c).numpy(), scipy.stats.genpareto.pdf(x, c))
    np.testing.assert_array_equal(stats.genpareto.logpdf(x, c).numpy(), scipy.stats.genpareto.logpdf(x, c))


def test_the_probability_of_a_box_is_that_of_scipy() -> None:
    cov = [[2.0, 0.25], [0.25, 1.0]]
    low = ag.tensor([-1.0, -np.inf], requires_grad=True)

    found = stats.multivariate_normal.cdf([1.0, 2.0], [0, 0], cov, lower_limit=low)

    expected = scipy.stats.multivariate_normal.cdf([1.0, 2.0], [0, 0], cov, lower_limit=low.tolist())
    np.testing.assert_allclose(found.item(), expected, rtol=1e-5)
    slope = sync.grad(found, [low])[0].numpy()
    step = [
        scipy.stats.multivariate_normal.cdf([1.0, 2.0], [0, 0], cov, lower_limit=[a, -np.inf]) for a in (-0.99, -1.01)
    ]
    np.testing.assert_allclose(slope, [(step[0] - step[1]) / 0.02, 0.0], rtol=1e-3)


@pytest.mark.parametrize(
    ("name", "slopes"), [("uniform", [1, 1]), ("halfnorm", [np.sqrt(np.pi / 2), np.inf]), ("norm", [np.inf, np.inf])]
)
def test_quantiles_of_0_and_1_depend_on_the_probability_as_those_next_to_them(name: str, slopes: list[float]) -> None:
    q = ag.tensor([0.0, 1.0], requires_grad=True)
    family = getattr(stats, name)

    np.testing.assert_allclose(sync.grad([family.ppf(q)], [q], [np.ones(2)])[0], slopes)
    np.testing.assert_allclose(sync.grad([family.isf(q)], [q], [np.ones(2)])[0], [-one for one in reversed(slopes)])


def test_narrow_data_beside_wide_parameters_keep_the_digits_of_the_result() -> None:
    data, probabilities = np.float32([1.2, 1.1, 1.3]), np.float32([0.2, 0.3, 0.5])
    found = stats.pareto.logpdf(data, 2.625)

    assert found.dtype == np.float64
    np.testing.assert_allclose(found, scipy.stats.pareto.logpdf(data.astype(float), 2.625), rtol=1e-13)
    expected = scipy.stats.weibull_min.ppf(probabilities.astype(float), 1.75)
    np.testing.assert_allclose(stats.weibull_min.ppf(probabilities, 1.75), expected, rtol=1e-13)


def test_the_distribution_function_of_an_angle_of_0_has_a_mixed_derivative() -> None:
    check(lambda x, kappa: stats.vonmises.cdf(x, kappa, 1.0), Case((np.array(1.0), np.array(0.125)), {}, (0, 1)))


def test_a_last_probability_that_differs_by_a_rounding_is_taken_as_it_is() -> None:
    shares = np.float32([0.1, 0.2, 0.3, 0.2, 0.2])
    found = stats.multinomial.pmf([1, 2, 5, 7, 4], 19, shares)

    np.testing.assert_allclose(found, scipy.stats.multinomial.pmf([1, 2, 5, 7, 4], 19, shares), rtol=1e-13)


@pytest.mark.parametrize(("p", "name"), [(np.inf, "np.max"), (-np.inf, "np.min")])
def test_a_power_mean_of_an_infinite_exponent_is_refused(p: float, name: str) -> None:
    with pytest.raises(NotImplementedError, match=f"takes a finite exponent p, not {p}: write {name}"):
        stats.pmean([1.0, 2.0], p)
