"""asyncgrad.scipy.stats: tests that compare samples, transforms by powers, distances of samples, and nan in data."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import scipy.stats

import asyncgrad as ag
from asyncgrad.errors import ArgumentError
from asyncgrad.scipy import stats
from asyncgrad.scipy.stats import (
    comparisons,
    fits,
    median_slopes,
    power_transforms,
    several_p_values,
    significance,
    spreads,
)
from tests.core.ops.finite_differences import Case
from tests.scipy.functions import check, check_values, named_calls

_FIRST = np.array([[0.5, 1.25, 3.0], [2.5, 0.75, 1.0], [1.5, 2.0, 0.25], [4.0, 1.75, 2.25], [0.25, 3.5, 1.375]])
_SECOND = np.array([[1.5, 0.25, 2.0], [3.5, 1.75, 1.5], [0.5, 2.5, 2.25], [3.0, 1.25, 0.75], [1.0, 3.0, 2.5]])
_HOLES = _FIRST.copy()
_HOLES[1, 0] = _HOLES[3, 2] = np.nan
_WEIGHTS = np.array([1.0, 2.0, 0.5, 1.0, 3.0])
_PROBABILITIES = np.array([[0.01, 0.3, 0.07], [0.23, 0.013, 0.6]])
_LONG = np.concatenate([_FIRST, _SECOND])
_DISTINCT = np.sqrt(np.arange(1.0, 16.0).reshape(5, 3))


def _share(x: Any, scale: float) -> Any:
    """Return an exponential distribution function."""
    return 1 - np.exp(-x / scale)


CALLS = named_calls(
    stats,
    scipy.stats,
    {
        "ttest_1samp": [
            Case((_FIRST, 0.5), {}, (0, 1)),
            Case((_FIRST, 0.5), {"axis": None, "alternative": "less", "keepdims": True}),
        ],
        "ttest_rel": [Case((_FIRST, _SECOND), {"axis": 1, "alternative": "greater"}, (0, 1))],
        "ttest_ind": [
            Case((_FIRST, _SECOND[:4]), {}, (0, 1)),
            Case((_FIRST, _SECOND), {"axis": None, "equal_var": False, "alternative": "less"}, (0, 1)),
            Case((_FIRST, _SECOND[:4]), {"trim": 0.2, "keepdims": True}, (0, 1)),
        ],
        "ttest_ind_from_stats": [
            Case((*map(np.array, (1.0, 2.0, 10, 3.0, 0.5, 12)),), {"equal_var": False}, (0, 1, 3, 4))
        ],
        "linregress": [
            Case((_FIRST[:, 0], _SECOND[:, 0]), {}, (0, 1)),
            Case((_FIRST, _SECOND), {"axis": 1, "alternative": "less", "keepdims": True}, (0, 1)),
        ],
        "boxcox": [Case((_FIRST, 0.25), {}, (0, 1))],
        "boxcox_llf": [Case((0.25, _FIRST), {"axis": 1, "keepdims": True}, (0, 1))],
        "yeojohnson": [Case((_FIRST - 1.125, 0.25), {}, (0, 1))],
        "yeojohnson_llf": [Case((0.25, _FIRST[:, 0] - 1.125), {}, (0, 1))],
        "wasserstein_distance": [
            Case((_FIRST[:, 0], _SECOND[:4, 1] + 0.0625), {}, (0, 1)),
            Case(
                (_FIRST[0], _SECOND[:, 0] + 0.0625, _WEIGHTS[:3], _WEIGHTS),
                {},
                (0, 1, 2, 3),
            ),
        ],
        "f_oneway": [
            Case((_FIRST, _SECOND[:4], _SECOND[1:] + 0.5), {"keepdims": True}, (0, 1, 2)),
            Case((_FIRST, _SECOND), {"axis": None, "equal_var": False}, (0, 1)),
        ],
        "bartlett": [Case((_FIRST, _SECOND[:4], 2 * _SECOND[1:]), {"keepdims": True}, (0, 1, 2))],
        "levene": [
            Case((_FIRST, _SECOND[:4], 2 * _SECOND[1:]), {"center": "mean"}, (0, 1, 2)),
            Case((_FIRST**1.5, _SECOND**1.5), {"center": "trimmed", "proportiontocut": 0.2}, (0, 1)),
            Case((_FIRST[1:], _SECOND[1:] * 1.5), {}, (0, 1)),
        ],
        "combine_pvalues": [
            *(Case((_FIRST / 5, name), {"axis": 1}) for name in ("fisher", "pearson", "mudholkar_george", "tippett")),
            Case((_FIRST[0] / 5, "stouffer", _WEIGHTS[:3]), {}, (0, 2)),
        ],
        "false_discovery_control": [
            Case((_PROBABILITIES,), {"method": method, "axis": axis}) for method, axis in (("bh", 0), ("by", None))
        ],
        "jarque_bera": [Case((_FIRST,), {"axis": 0})],
        "ks_1samp": [
            Case((_FIRST, _share, (3.0,), alternative, method), {"axis": axis, "keepdims": axis == 0})
            for alternative, method, axis in (
                ("two-sided", "auto", 0),
                ("less", "auto", 1),
                ("two-sided", "asymp", None),
            )
        ],
        "kstest": [Case((_FIRST, _share, (3.0,)), {"alternative": "greater"})],
        "theilslopes": [
            Case((np.sin(_DISTINCT**2), _DISTINCT), {"method": method, "axis": axis}, (0, 1))
            for method, axis in (("joint", None), ("separate", 1))
        ],
        "siegelslopes": [
            Case((np.sin(_DISTINCT**2), _DISTINCT), {"method": method, "axis": axis}, (0, 1))
            for method, axis in (("hierarchical", None), ("separate", 1))
        ],
        "skewtest": [Case((_LONG,), {"axis": 0, "alternative": "less"}), Case((_FIRST,))],
        "kurtosistest": [Case((_FIRST,)), Case((_FIRST,), {"axis": None, "alternative": "greater"})],
        "normaltest": [Case((_LONG,), {"keepdims": True})],
        "chi2_contingency": [
            Case((8 * _FIRST[:2, :2],)),
            Case((8 * _FIRST,), {"lambda_": "log-likelihood"}),
            Case((_FIRST[0],), smooth=False),
        ],
        "chisquare": [
            Case((_FIRST, _SECOND), {"axis": 1, "sum_check": False}, (0, 1)),
            Case((_FIRST, None, 1, None)),
        ],
        "power_divergence": [
            Case((_FIRST,), {"lambda_": name})
            for name in ("log-likelihood", "mod-log-likelihood", "cressie-read", "neyman")
        ],
        "energy_distance": [Case((_FIRST[:, 0], _SECOND[:4, 1] + 0.0625), {}, (0, 1))],
    },
)
_BY_RANKS = {"kendalltau", "mannwhitneyu", "rankdata", "spearmanr", "wilcoxon"}


def test_every_function_has_a_case() -> None:
    modules = (comparisons, fits, median_slopes, power_transforms, several_p_values, significance, spreads)
    every = {name for module in modules for name in module.__all__}
    assert every == {name.split("-")[0] for name in CALLS} | _BY_RANKS | {"cramervonmises"}


@pytest.mark.parametrize("call", CALLS)
def test_values_are_those_of_scipy_and_derivatives_those_of_differences(call: str) -> None:
    ours, theirs, case = CALLS[call]
    check_values(lambda *args, **kwargs: _plain(ours(*args, **kwargs)), theirs, case, tolerance=1e-10)
    check(lambda *args, **kwargs: _plain(ours(*args, **kwargs)), case)


@pytest.mark.parametrize("axis", [1, 0])
def test_cramers_statistic_has_derivatives_and_scipys_probability(axis: int) -> None:
    def test(module: Any, x: Any) -> Any:
        return module.cramervonmises(x, _share, (3.0,), axis=axis)

    check(lambda x: test(stats, x).statistic, Case((_FIRST,)))
    found, expected = test(stats, _FIRST), test(scipy.stats, _FIRST)
    for name in ("statistic", "pvalue"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-12)
    check(lambda x: test(stats, x).pvalue, Case((_FIRST,)))
    leaf = ag.tensor([0.25, np.nan, 0.5], requires_grad=True)
    assert np.isnan(ag.sync.grad(stats.cramervonmises(leaf, lambda x: x).pvalue, [leaf])[0]).any()


def _plain(found: Any) -> Any:
    return found if isinstance(found, ag.Tensor) else tuple(found)


def test_what_a_result_has_beside_its_values() -> None:
    ours, theirs = stats.ttest_rel(_FIRST, _SECOND), scipy.stats.ttest_rel(_FIRST, _SECOND)
    np.testing.assert_array_equal(ours.df, theirs.df)
    line, expected = (module.linregress(_FIRST[:, 0], _SECOND[:, 0]) for module in (stats, scipy.stats))
    assert line.intercept_stderr.item() == pytest.approx(expected.intercept_stderr)
    assert line.slope is line[0]
    assert isinstance(ours, tuple)
    assert copy.copy(ours).df is ours.df
    assert copy.copy(line).intercept_stderr is line.intercept_stderr
    assert ag.tree.map(lambda one: 2 * one, ours).df.tolist() == (2 * theirs.df).tolist()
    assert ag.tree.map(lambda one: 2 * one, line).intercept_stderr.item() == 2 * line.intercept_stderr.item()


def test_what_is_trimmed_hides_no_nan_and_what_is_resampled_is_scipys() -> None:
    options: dict[str, Any] = {"trim": 0.2, "equal_var": False}
    first = ag.tensor(_HOLES, requires_grad=True)
    method = scipy.stats.PermutationMethod(n_resamples=20, rng=0)

    np.testing.assert_allclose(
        stats.ttest_ind(first, _SECOND, **options)[0].detach(),
        scipy.stats.ttest_ind(_HOLES, _SECOND, **options).statistic,
    )
    found = stats.ttest_ind(ag.tensor(_FIRST, requires_grad=True), _SECOND, method=method)
    expected = scipy.stats.ttest_ind(_FIRST, _SECOND, method=scipy.stats.PermutationMethod(n_resamples=20, rng=0))
    np.testing.assert_allclose([one.detach() for one in found], expected)


@pytest.mark.parametrize("name", sorted(_BY_RANKS))
def test_functions_of_ranks_are_scipys_without_a_history(name: str) -> None:
    args = (_FIRST[:, 0],) if name == "rankdata" else (_FIRST[:, 0], _SECOND[:, 0])
    found = getattr(stats, name)(*(ag.tensor(one, requires_grad=True) for one in args))
    expected = getattr(scipy.stats, name)(*args)
    for one, value in zip(np.atleast_1d(found), np.atleast_1d(expected), strict=True):
        assert one == pytest.approx(value)


def test_the_exponent_that_is_found_follows_the_data() -> None:
    for ours, theirs, data in (
        (stats.boxcox, scipy.stats.boxcox, _FIRST[:, 1]),
        (stats.yeojohnson, scipy.stats.yeojohnson, _FIRST[:, 1] - 1.5),
    ):
        found, exponent = ours(ag.tensor(data, requires_grad=True))
        expected, power = theirs(data)
        np.testing.assert_allclose(found.detach(), expected, rtol=1e-4)
        assert exponent.item() == pytest.approx(power, rel=1e-4)
        # Box and Cox's does not depend on the unit, and so has no slope along it.
        if ours is stats.boxcox:
            leaf = ag.tensor(data, requires_grad=True)
            (slope,) = ag.sync.grad(ours(leaf)[1], [leaf])
            assert float((slope * data).sum()) == pytest.approx(0.0, abs=1e-6)
            assert float(np.abs(slope.numpy()).max()) > 0.01


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("policy", ["omit", "propagate"])
@pytest.mark.parametrize(
    "name",
    [
        *("skew", "kurtosis", "moment", "variation", "gmean", "hmean", "sem", "iqr", "median_abs_deviation", "entropy"),
        *("zscore", "trim_mean", "ttest_1samp", "ttest_rel", "ttest_ind", "linregress"),
        *("tvar", "circstd", "kstat", "gstd", "gzscore", "f_oneway"),
    ],
)
def test_nan_is_passed_on_or_left_out(name: str, policy: str, axis: Any) -> None:
    args: tuple[Any, ...] = {"trim_mean": (0.25,), "ttest_1samp": (0.5,)}.get(name, ())
    args = (_SECOND,) if name in ("ttest_rel", "ttest_ind", "linregress", "f_oneway") else args
    options = {"axis": axis, "nan_policy": policy}
    found = _plain(getattr(stats, name)(leaf := ag.tensor(_HOLES, requires_grad=True), *args, **options))
    expected = getattr(scipy.stats, name)(_HOLES, *args, **options)
    np.testing.assert_allclose(
        np.stack([one.detach().numpy() for one in found]) if isinstance(found, tuple) else found.detach(),
        np.stack(tuple(expected)) if isinstance(found, tuple) else expected,
        atol=1e-12,
    )
    if policy == "omit":
        first = found[0] if isinstance(found, tuple) else found
        (slope,) = ag.sync.grad(np.nansum(first), [leaf])
        assert np.isfinite(slope.numpy()).all()
        np.testing.assert_array_equal(slope.numpy()[np.isnan(_HOLES)], 0.0)
    with pytest.raises(ValueError, match="nan"):
        getattr(stats, name)(_HOLES, *args, axis=axis, nan_policy="raise")


def test_an_analysis_of_variance_of_great_numbers_keeps_its_digits() -> None:
    groups = [1e12 + _FIRST[:, column] for column in range(3)]

    found = stats.f_oneway(*groups)

    np.testing.assert_allclose(found.statistic.item(), stats.f_oneway(*(one - 1e12 for one in groups)).statistic.item())


def test_samples_without_spread_have_no_finite_statistic() -> None:
    same, other = [1.0, 1.0], [2.0, 2.0, 2.0]

    assert stats.f_oneway(same, other).statistic.item() == np.inf
    assert np.isnan(stats.f_oneway(same, same).statistic.item())


def test_a_power_of_divergence_has_a_derivative_where_formulas_change() -> None:
    powers = [ag.tensor(one, requires_grad=True) for one in (0.0, 1.0)]
    observed, expected = [16.0, 18.0, 26.0], [20.0, 20.0, 20.0]

    for power in powers:
        (slope,) = ag.sync.grad(stats.power_divergence(observed, expected, lambda_=power).statistic, [power])
        low, high = (
            stats.power_divergence(observed, expected, lambda_=power.item() + step).statistic.item()
            for step in (-1e-4, 1e-4)
        )
        np.testing.assert_allclose(slope.item(), (high - low) / 2e-4, rtol=1e-5)


def test_a_correlation_of_data_of_any_size() -> None:
    first, second = _FIRST[:, 0], _SECOND[:, 0]
    for scale in (1e-200, 1e200):
        expected = scipy.stats.pearsonr(first, second)
        np.testing.assert_allclose(stats.pearsonr(first * scale, second * scale), expected, rtol=1e-10)
    leaf = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
    found = stats.pearsonr(leaf, [2.0, 4.0, 6.0])
    (slope,) = ag.sync.grad(found.statistic + found.pvalue, [leaf])
    np.testing.assert_allclose(slope, 0.0, atol=1e-7)
    assert np.isnan(stats.pearsonr([1.0, 1.0, 1.0], leaf).statistic.item())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: stats.ttest_ind(_FIRST, _SECOND, trim=0.5), "less than 0.5, not 0.5"),
        (lambda: stats.ttest_rel(_FIRST, _SECOND[:2]), "one length"),
        (lambda: stats.ttest_1samp(_FIRST, 1.0, alternative="more"), "'two-sided', 'less' or 'greater'"),
        (lambda: stats.linregress([1.0, 1.0], [1.0, 2.0]), "identical"),
        (lambda: stats.boxcox(_FIRST[:, 0], alpha=0.05), "alpha=None"),
        (lambda: stats.wasserstein_distance([], [1.0]), "are not empty"),
        (lambda: stats.wasserstein_distance([1.0], [1.0], [0.0]), "positive and finite sum"),
        (lambda: stats.wasserstein_distance([1.0], [1.0], [1.0, 2.0]), "a weight for each number"),
        (lambda: stats.skew(_FIRST, nan_policy="drop"), "'omit' or 'raise', not 'drop'"),
        (lambda: stats.lmoment(_FIRST, nan_policy="drop"), r"scipy\.stats\.lmoment.*'omit' or 'raise', not 'drop'"),
        (lambda: stats.f_oneway(_FIRST), "two samples or more, not 1"),
        (lambda: stats.f_oneway(_FIRST, _SECOND, equal_var=1), "True or False, not 1"),
        (lambda: stats.chisquare(_FIRST, _SECOND), "of one sum along axis"),
        (lambda: stats.power_divergence(_FIRST, lambda_="chi"), "cressie-read or a number, not 'chi'"),
        (lambda: stats.skewtest(_FIRST, alternative="more"), "'two-sided', 'less' or 'greater', not 'more'"),
        (lambda: stats.zscore(_FIRST, nan_policy="drop"), "'omit' or 'raise', not 'drop'"),
    ],
)
def test_errors_say_what_is_wrong(call: Any, message: str) -> None:
    with pytest.raises((ArgumentError, TypeError, ValueError), match=message):
        call()


@pytest.mark.filterwarnings("ignore:After omitting NaNs")
def test_what_has_no_statistic_has_no_p_value() -> None:
    equal = np.ones(4)
    for equal_var in (True, False):
        result = stats.f_oneway(equal, equal, equal_var=equal_var)
        assert np.isnan(result.statistic.item())
        assert np.isnan(result.pvalue.item())
    flags, data = np.array([[True], [False], [True]]), np.array([[1.0, np.nan], [2.0, np.nan], [4.0, 3.0]])
    found = stats.pointbiserialr(flags, data, nan_policy="omit")
    assert np.isnan(found.statistic.numpy()).tolist() == [False, True]


def test_degrees_of_freedom_may_be_a_list() -> None:
    data = np.array([[3.0, 4.0], [5.0, 8.0], [4.0, 9.0]])
    found, expected = stats.chisquare(data, ddof=[0, 1]), scipy.stats.chisquare(data, ddof=[0, 1])
    np.testing.assert_allclose(found.pvalue.numpy(), expected.pvalue)


@pytest.mark.filterwarnings("ignore:.* too small:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("shape", [(0, 5), (2, 0), (2, 1), (0,)])
@pytest.mark.parametrize("name", ["theilslopes", "siegelslopes", "linregress", "ttest_ind", "ks_1samp"])
def test_no_lines_and_lines_of_too_few_have_the_results_of_scipy(name: str, shape: tuple[int, ...]) -> None:
    samples = (np.ones(shape), np.ones(shape) if name != "ks_1samp" else scipy.stats.norm.cdf)
    samples = samples[:1] if name.endswith("slopes") else samples
    found, expected = (getattr(module, name)(*samples, axis=-1) for module in (stats, scipy.stats))

    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "methods"), [("theilslopes", ("joint",)), ("siegelslopes", ("hierarchical", "separate"))]
)
def test_slopes_of_infinite_values_have_a_median(name: str, methods: tuple[str, ...]) -> None:
    for method in methods:
        found = getattr(stats, name)(ag.tensor([1.0, 2.0, 3.0, 4.0, np.inf, 6.0, 7.0]), method=method)
        assert (found.slope.item(), found.intercept.item()) == (1.0, 1.0), method


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # of SciPy's
def test_theilslopes_of_both_infinities_is_that_of_scipy() -> None:
    y = [1.0, 2.0, -np.inf, 4.0, 5.0, np.inf]
    assert stats.theilslopes(y).slope.item() == scipy.stats.theilslopes(y).slope


def test_lines_of_nothing_but_nan_are_left_out_without_a_warning() -> None:
    data = _FIRST.copy()
    data[1] = np.nan

    for center in ("mean", "median"):
        found = stats.levene(data, _SECOND, center=center, axis=1, nan_policy="omit").pvalue.numpy()
        assert np.isnan(found).tolist() == [False, True, False, False, False]
    assert np.isnan(stats.zscore(data, 1, nan_policy="omit").numpy()).any(1).tolist() == [
        False,
        True,
        False,
        False,
        False,
    ]


def test_spreads_of_samples_leave_out_nan_as_scipy() -> None:
    for name, options in (("bartlett", {}), *(("levene", {"center": one}) for one in ("median", "mean", "trimmed"))):
        found, expected = (
            getattr(module, name)(_HOLES, _SECOND, nan_policy="omit", **options) for module in (stats, scipy.stats)
        )
        np.testing.assert_allclose(np.stack(found), np.stack(expected), rtol=1e-10)


@pytest.mark.parametrize("name", ["bartlett", "levene"])
@pytest.mark.parametrize("samples", [([], [3.0, 4.0]), ([1.0, 1.0], [3.0, 3.0])])
@pytest.mark.filterwarnings("ignore:One or more sample arguments is too small")
def test_samples_without_spread_or_numbers_have_spreads_that_are_none(name: str, samples: Any) -> None:
    found = getattr(stats, name)(*samples)

    np.testing.assert_array_equal(np.stack(found), [np.nan, np.nan])


@pytest.mark.parametrize("name", ["bartlett", "levene"])
def test_narrow_samples_beside_wide_ones_have_the_digits_of_wide_ones(name: str) -> None:
    narrow = np.array([0.1, 0.7, 2.9, 1.3], np.float32)
    samples = narrow, np.array([0.3, 1.9, 0.2])
    found, expected = (np.stack(getattr(module, name)(*samples)) for module in (stats, scipy.stats))

    np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_a_level_line_through_two_points_has_the_errors_of_scipy() -> None:
    found, expected = (module.linregress([0.0, 1.0], [2.0, 2.0]) for module in (stats, scipy.stats))

    np.testing.assert_array_equal([one.item() for one in found], expected)
    assert found.intercept_stderr.item() == expected.intercept_stderr
    with pytest.warns(RuntimeWarning, match="One or more sample arguments is too small"):
        stats.levene([], [1.0, 2.0])
