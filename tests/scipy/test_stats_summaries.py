"""asyncgrad.scipy.stats: moments, means, scores and entropies of data."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.stats

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.errors import ArgumentError
from asyncgrad.scipy import special, stats
from asyncgrad.scipy.stats import directions, sorted_samples, summaries, trimmed
from tests.core.ops.finite_differences import Case, flat
from tests.scipy.functions import check, check_values, named_calls

_DATA = np.array([[0.5, 1.25, 3.0], [2.5, 0.75, 1.0], [1.5, 2.0, 0.25], [4.0, 1.75, 2.25]])
_WEIGHTS = np.array([1.0, 0.5, 2.0])
_LIMITS = {"limits": (0.6, 3.1), "inclusive": (False, True)}
_FIVE = np.concatenate([_DATA, [[0.25, 3.5, 1.375]]])
_LEVELS = np.array([[0.3], [0.45], [0.7], [0.15]])

CALLS = named_calls(
    stats,
    scipy.stats,
    {
        "moment": [Case((_DATA, 3)), Case((_DATA,), {"order": 2, "axis": 1, "center": 0.5, "keepdims": True})],
        "skew": [Case((_DATA,)), Case((_DATA,), {"axis": None, "bias": False})],
        "kurtosis": [Case((_DATA,)), Case((_DATA,), {"axis": None, "bias": False, "fisher": False})],
        "sem": [Case((_DATA,)), Case((_DATA,), {"axis": None, "ddof": 0})],
        "variation": [Case((_DATA,), {"axis": 1, "ddof": 1})],
        "zscore": [Case((_DATA,)), Case((_DATA,), {"axis": None, "ddof": 1})],
        "gzscore": [Case((_DATA,)), Case((_DATA,), {"axis": None, "ddof": 1})],
        "gmean": [Case((_DATA,)), Case((_DATA, 1, None, _WEIGHTS), {}, (0, 3))],
        "hmean": [Case((_DATA,)), Case((_DATA,), {"axis": 1, "weights": _WEIGHTS}, (0, "weights"))],
        "pmean": [Case((_DATA, 1.5)), Case((_DATA, 0), {"axis": 1, "weights": _WEIGHTS})],
        "zmap": [Case((_DATA, _DATA[::-1] * 1.5 + 0.25), {"ddof": 1}, (0, 1)), Case((_DATA, _DATA[0]), {"axis": None})],
        "iqr": [Case((_DATA,)), Case((_DATA,), {"axis": 1, "rng": (80, 10), "scale": "normal", "keepdims": True})],
        "median_abs_deviation": [
            Case((_DATA[:3] ** 2,)),
            Case((_DATA,), {"axis": 1, "center": np.mean, "scale": "normal"}),
        ],
        "trim_mean": [Case((_DATA, 0.25)), Case((_DATA, 0.125), {"axis": None})],
        "pearsonr": [
            Case((_DATA[:, 0], _DATA[:, 1]), {}, (0, 1)),
            Case((_DATA[:, 1], _DATA[:, 2]), {"alternative": "less"}, (0, 1)),
            Case((_DATA[:2, 1], _DATA[:2, 2]), {"alternative": "greater"}, (0, 1), smooth=False),
        ],
        "entropy": [Case((_DATA,)), Case((_DATA, _DATA[:, ::-1] + 1.0, 2.0, 1), {}, (0, 1))],
        "describe": [Case((_DATA,)), Case((_DATA, None, 0, False))],
        "gstd": [Case((_DATA,)), Case((_DATA, None, 0), {"keepdims": True})],
        "kstat": [Case((_FIVE, n), {"axis": 0, "keepdims": n == 3}) for n in (1, 2, 3, 4)],
        "kstatvar": [Case((_DATA, 1)), Case((_FIVE, 2), {"axis": 0})],
        "pointbiserialr": [Case((_DATA[:, 0] > 1, _DATA[:, 1]), {}, (1,))],
        "tmean": [Case((_DATA, (0.6, 3.1))), Case((_DATA,), {"axis": (0, 1), "keepdims": True})],
        "tvar": [Case((_DATA,), {"axis": 0, **_LIMITS}), Case((_DATA,), {"axis": None, "ddof": 0})],
        "tstd": [Case((_DATA,), {"axis": 1, "limits": (None, 3.5), "keepdims": True})],
        "tsem": [Case((_DATA,), {"axis": 0, **_LIMITS})],
        "tmin": [Case((_DATA, 0.7)), Case((_DATA, 2.5, 1, False), smooth=False)],
        "tmax": [Case((_DATA, 2.1)), Case((_DATA,), {"axis": None})],
        "trimboth": [Case((_DATA, 0.25)), Case((_DATA, 0.125), {"axis": None})],
        "trim1": [Case((_DATA, 0.5), {"tail": "left"}), Case((_DATA, 0.4), {"axis": 1})],
        "circmean": [Case((_DATA * 0.4 - 0.7,)), Case((_DATA, 3.0, -2.0, 1), {"keepdims": True}, (0, 1, 2))],
        "circvar": [Case((_DATA, 5.0, 0.0, 0), {}, (0, 1))],
        "circstd": [Case((_DATA,)), Case((_DATA, 5.0), {"axis": 1, "normalize": True})],
        "lmoment": [
            Case((_DATA,)),
            Case((_FIVE, [3, 1]), {"standardize": False, "keepdims": True}),
            Case((_FIVE[:, 0], 4)),
        ],
        "differential_entropy": [
            Case((_DATA,), {"axis": None, "base": 2.0}),
            *(Case((_FIVE,), {"method": method, "window_length": 2}) for method in ("van es", "vasicek", "correa")),
        ],
        "quantile": [
            *(
                Case((_DATA, _LEVELS), {"method": method}, (0, 1))
                for method in ("linear", "hazen", "weibull", "median_unbiased", "normal_unbiased", "harrell-davis")
            ),
            *(
                Case((_DATA, _LEVELS[:3].ravel()), {"method": method, "axis": None})
                for method in ("inverted_cdf", "averaged_inverted_cdf", "closest_observation", "round_outward")
            ),
            *(
                Case((_DATA, np.array(0.35)), {"method": method, "axis": 1, "keepdims": True})
                for method in ("interpolated_inverted_cdf", "round_inward", "round_nearest")
            ),
            Case((_DATA, _LEVELS[:3]), {"weights": 1.1 * _DATA[::-1], "method": "weibull"}, (0, 1, "weights")),
            Case((_DATA, _LEVELS[1:3]), {"weights": np.array([[1.0], [2.0], [0.5], [0.0]])}),
        ],
        "expectile": [
            Case((_DATA, np.array(0.75)), {}, (0, 1)),
            Case((_DATA, 0.1), {"weights": _WEIGHTS}, (0, "weights")),
        ],
    },
)


def test_every_summary_has_a_case() -> None:
    every = {name for module in (directions, sorted_samples, summaries, trimmed) for name in module.__all__}
    assert every - {"directional_stats"} == {name.split("-")[0] for name in CALLS}


@pytest.mark.sampled
@pytest.mark.parametrize("call", CALLS)
def test_values_are_those_of_scipy(call: str) -> None:
    check_values(*CALLS[call])


@pytest.mark.sampled
@pytest.mark.parametrize("call", [name for name, (_, _, case) in CALLS.items() if case.smooth])
def test_derivatives_are_those_of_finite_differences(call: str) -> None:
    ours, _, case = CALLS[call]

    check(ours, case)


def test_the_mean_direction_is_scipys() -> None:
    vectors = np.stack([_DATA, _DATA[::-1] - 1.0])
    for normalize in (True, False):
        found = stats.directional_stats(ag.tensor(vectors), axis=1, normalize=normalize)
        expected = scipy.stats.directional_stats(vectors, axis=1, normalize=normalize)
        np.testing.assert_allclose(found.mean_direction, expected.mean_direction, rtol=1e-12)
        np.testing.assert_allclose(found.mean_resultant_length, expected.mean_resultant_length, rtol=1e-12)
    check(lambda x: tuple(stats.directional_stats(x)), Case((_DATA,)))


def test_spreads_of_angles_and_numbers_that_are_all_equal_have_the_gradient_0() -> None:
    angles = ag.tensor([1.3, 1.3, 1.3], requires_grad=True)

    for spread in (stats.circvar, stats.circstd, stats.tstd, stats.gstd):
        (slope,) = sync.grad(spread(angles), [angles])
        np.testing.assert_allclose(slope, 0.0, atol=1e-7)


@pytest.mark.parametrize("alpha", [0.0, 0.01, 0.5, 0.99, 1.0])
def test_an_expectile_balances_what_lies_above_and_below(alpha: float) -> None:
    found = stats.expectile(_DATA, alpha).item()

    above, below = np.maximum(_DATA - found, 0.0).sum(), np.maximum(found - _DATA, 0.0).sum()
    assert alpha * above == pytest.approx((1 - alpha) * below)


@pytest.mark.parametrize("name", ["skew", "kurtosis", "zscore"])
def test_data_that_are_all_equal_are_nan_and_leave_other_gradients_alone(name: str) -> None:
    data = ag.tensor([[1.0, 2.0], [1.0, 3.0], [1.0, 5.0]], requires_grad=True)

    found = getattr(stats, name)(data)
    (gradient,) = sync.grad(found[..., 1].sum() + found[..., 0].sum(), [data])
    (alone,) = sync.grad(getattr(stats, name)(data[:, 1]).sum(), [data])

    assert np.isnan(found.numpy()[..., 0]).all()
    np.testing.assert_allclose(gradient.numpy(), alone.numpy(), atol=1e-12)


_NONE = np.array([0.5, 0.0, 1.5, 0.75])
_OTHERS = np.array([0.25, 0.5, 1.0, 0.75])


@pytest.mark.filterwarnings("ignore:divide by zero encountered")
@pytest.mark.parametrize(
    ("function", "limit"),
    [
        (lambda p: special.entr(p).sum(), np.inf),
        (lambda p: special.rel_entr(p, _OTHERS).sum(), -np.inf),
        (lambda p: special.rel_entr(p, _OTHERS * (_NONE > 0)).sum(), np.inf),
        (lambda p: special.kl_div(p, _OTHERS).sum(), -np.inf),
        (stats.entropy, np.inf),
        (lambda p: stats.entropy(p, base=2.0), np.inf),
        (lambda p: stats.entropy(p, _OTHERS), -np.inf),
        (stats.categorical.entropy, np.inf),
        (lambda p: stats.multinomial.entropy(3, p / 2.75), np.inf),
        (lambda p: nn.kl_div(np.log(_OTHERS), p, "sum"), -np.inf),
    ],
    ids=["entr", "rel_entr", "beside_0", "kl_div", "entropy", "bits", "divergence", "categorical", "multinomial", "nn"],
)
def test_the_derivative_of_x_log_x_at_0_is_its_limit_and_leaves_those_elsewhere(function: Any, limit: float) -> None:
    def gradient(values: np.ndarray) -> np.ndarray:
        p = ag.tensor(values, requires_grad=True)
        return np.asarray(sync.grad(function(p), [p])[0].numpy())

    found, near = gradient(_NONE), gradient(np.maximum(_NONE, 1e-12))

    assert found[1] == limit
    np.testing.assert_allclose(np.delete(found, 1), np.delete(near, 1), rtol=1e-6, atol=1e-9)


def test_the_entropy_of_shares_of_which_one_is_nothing_is_scipys() -> None:
    for ours, theirs in ((stats.entropy, scipy.stats.entropy), (stats.categorical.entropy, scipy.stats.entropy)):
        np.testing.assert_allclose(ours(_NONE).numpy(), theirs(_NONE), rtol=1e-14)
    shares = _NONE / _NONE.sum()
    np.testing.assert_allclose(
        stats.multinomial.entropy(3, shares).numpy(), scipy.stats.multinomial.entropy(3, shares), rtol=1e-14
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: stats.skew(_DATA, nan_policy="drop"), "nan_policy 'propagate', 'omit' or 'raise', not 'drop'"),
        (lambda: stats.moment(_DATA, [1, 1.5]), "order whole numbers"),
        (lambda: stats.gmean(_DATA, weights=[1.0]), r"not \(1,\)"),
        (lambda: stats.pmean(_DATA, [1.0, 2.0]), "p that is one number"),
        (lambda: stats.iqr(_DATA, scale="raw"), "a number or 'normal', not 'raw'"),
        (lambda: stats.trim_mean(_DATA, 0.5), "below 0.5, not 0.5"),
        (lambda: stats.pearsonr(_DATA, _DATA[:2]), "two samples that broadcast"),
        (lambda: stats.pearsonr(_DATA, _DATA, method=1), "no method but None"),
        (lambda: stats.entropy(_DATA, base=-1), "a positive base, not -1"),
        (lambda: stats.tmean(_DATA, (5.0, 6.0)), r"lies within, not \(5.0, 6.0\)"),
        (lambda: stats.trimboth(_DATA, 0.5), "leaves something, not 0.5"),
        (lambda: stats.trim1(_DATA, 0.1, "both"), "'left' or 'right', not 'both'"),
        (lambda: stats.kstat(_DATA, 5), "from 1 to 4, not 5"),
        (lambda: stats.kstatvar(_DATA, 3), "1 or 2, not 3"),
        (lambda: stats.describe(_DATA[:0]), r"takes data, not an array of shape \(0, 3\)"),
        (lambda: stats.directional_stats(_WEIGHTS), r"two axes or more, not of shape \(3,\)"),
        (lambda: stats.lmoment(_DATA, 0), "whole numbers from 1 on, not 0"),
        (lambda: stats.expectile(_DATA[:0]), r"not an array of shape \(0, 3\)"),
        (lambda: stats.lmoment(_DATA, sorted=1), "sorted True or False, not 1"),
        (lambda: stats.differential_entropy(_DATA, window_length=2), "less than half of 4 numbers, not 2"),
        (lambda: stats.differential_entropy(_DATA, method="best"), "correa, not 'best'"),
        (lambda: stats.quantile(_DATA, 1), "floating dtype, not int64"),
        (lambda: stats.quantile(_DATA, 0.5, method="best"), "round_nearest, not 'best'"),
        (lambda: stats.quantile(_DATA, 0.5, method="round_inward", weights=_DATA), "not 'round_inward'"),
        (lambda: stats.quantile(_DATA, _LEVELS, keepdims=False), "one probability along axis, not 4"),
        (lambda: stats.expectile(_DATA, 1.5), "alpha from 0 to 1, not 1.5"),
    ],
)
def test_errors_say_what_is_wrong(call: Any, message: str) -> None:
    with pytest.raises((ArgumentError, ValueError), match=message):
        call()


@pytest.mark.parametrize("shape", [(0,), (0, 2), (2, 0)])
@pytest.mark.parametrize("name", ["entropy", "iqr", "trim_mean", "zscore"])
def test_a_summary_of_nothing_is_scipys(name: str, shape: tuple[int, ...]) -> None:
    options: dict[str, Any] = {"axis": 0, **({"proportiontocut": 0.1} if name == "trim_mean" else {})}
    with warnings.catch_warnings(action="ignore"):
        found, expected = (
            getattr(module, name)(data, **options)
            for module, data in ((stats, ag.tensor(np.zeros(shape))), (scipy.stats, np.zeros(shape)))
        )

    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["trim_mean", "zscore"])
def test_an_axis_that_is_none_is_refused(name: str) -> None:
    options = {"proportiontocut": 0.1} if name == "trim_mean" else {}

    with pytest.raises(ValueError, match="out of bounds"):
        getattr(stats, name)(_DATA, axis=2, **options)


def test_a_harmonic_mean_beside_a_0_has_derivatives() -> None:
    x = ag.tensor([[1.0, 0.0, 4.0], [1.0, 2.0, 4.0], [0.0, 0.0, 1.0]], requires_grad=True)

    means = stats.hmean(x, axis=1, keepdims=True)
    (grad,) = sync.grad(means.sum(), [x], create_graph=True)
    (second,) = sync.grad(grad[0, 1], [x])

    np.testing.assert_allclose(means.detach(), scipy.stats.hmean(x.detach().numpy(), axis=1, keepdims=True), rtol=1e-14)
    # Of three numbers with the small one x it is 3 x - 3 x**2 (1 / 1 + 1 / 4).
    assert grad[0].tolist() == [0.0, 3.0, 0.0]
    assert second[0, 1].item() == -7.5
    assert grad[2].tolist() == [0.0, 0.0, 0.0]


def test_moments_of_several_orders_are_those_of_each() -> None:
    x = np.array([[1.0, 2.0, 4.0], [0.5, -1.0, 3.0]])

    found = stats.moment(x, [0, 1, 3], axis=1, center=0.5)

    np.testing.assert_allclose(found, scipy.stats.moment(x, [0, 1, 3], axis=1, center=0.5), rtol=1e-14)


def test_a_transform_of_numbers_of_both_signs_is_smooth_at_0() -> None:
    x = ag.tensor([0.0, 1e-9, -1e-9], requires_grad=True)

    (grad,) = sync.grad(stats.yeojohnson(x, 0.75).sum(), [x])

    np.testing.assert_allclose(grad, 1.0, rtol=1e-8)


@pytest.mark.filterwarnings("ignore:After omitting NaNs")
def test_a_test_of_nothing_but_nan_has_the_parts_of_others() -> None:
    nothing = ag.tensor(np.full((9, 2), np.nan))
    for name in ("skewtest", "kurtosistest", "normaltest", "jarque_bera", "chisquare"):
        result = getattr(stats, name)(nothing, axis=0, nan_policy="omit")
        assert np.isnan(result.pvalue.numpy()).all()
        assert result.statistic.shape == (2,)
    assert np.isnan(stats.ttest_1samp(nothing, 0.0, nan_policy="omit").pvalue.numpy()).all()
    assert stats.lmoment(nothing, nan_policy="omit").shape == (4, 2)


def test_numbers_that_do_not_count_move_no_expectile() -> None:
    for level in (0.0, 0.25, 1.0):
        assert stats.expectile([3.0, 1.0, 2.0, 5.0], level, weights=[0.0, 0.0, 1.0, 0.0]).item() == 2.0
    assert stats.expectile([3.0, 1.0, 2.0, 5.0], 1.0, weights=[0.0, 1.0, 1.0, 0.0]).item() == 2.0


@pytest.mark.filterwarnings("ignore:invalid value encountered in log")
@pytest.mark.filterwarnings("ignore:The geometric standard deviation")
def test_geometric_deviations_leave_out_negative_numbers_and_nan_as_scipy() -> None:
    data = np.array([1.0, -1.0, 2.0, np.nan, 3.0])
    x = ag.tensor(data, requires_grad=True)
    value = stats.gstd(x, nan_policy="omit")
    assert value.item() == pytest.approx(scipy.stats.gstd(data, nan_policy="omit"))
    sync.backward(value)
    assert x.grad is not None
    assert (np.isfinite(x.grad.numpy()) & ((x.grad.numpy() == 0) == ~(data > 0))).all()


def test_complex_data_have_no_order() -> None:
    with pytest.raises(ValueError, match="a real sample"):
        stats.lmoment(np.array([1j, 2.0, 3.0]))
    with pytest.raises(ValueError, match="a real x"):
        stats.quantile(np.array([1j, 2.0, 3.0]), 0.5)


@pytest.mark.parametrize(
    ("name", "args", "options"),
    [
        ("boxcox_llf", (1e-8, [2003.0, 1950.0, 1997.0]), {}),
        ("describe", ([3, 1, 2],), {}),
        ("entropy", ([[1.0, np.nan], [2.0, np.nan]], [[1.0, 2.0], [2.0, 3.0]]), {"nan_policy": "omit"}),
        ("hmean", ([1.0, -2.0, 3.0],), {}),
        ("pmean", ([1.0, -2.0, 3.0], 2), {}),
        ("tmax", (np.array([[3, 1], [2, 5]], np.int8), 4), {}),
        ("tmin", ([3, 1, 2], 2), {}),
        ("ttest_1samp", (_DATA, [1.0]), {"axis": None}),
        ("ttest_ind", ([1.0, 2.0, 4.0], [3.0]), {}),
        ("variation", ([1.0, -2.0, 3.0],), {"ddof": 5}),
        ("variation", ([1.0, -2.0, -3.0],), {"ddof": 3}),
    ],
)
@pytest.mark.filterwarnings("ignore:The (harmonic|power) mean is only defined")
def test_data_at_the_edge_of_what_is_summed_up_have_scipys_result(
    name: str, args: tuple[Any, ...], options: dict[str, Any]
) -> None:
    found, expected = (flat(getattr(module, name)(*args, **options)) for module in (stats, scipy.stats))

    for one, other in zip(map(np.asarray, found), map(np.asarray, expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7)
        assert one.dtype == other.dtype


@pytest.mark.parametrize("shape", [(0,), (0, 3)])
@pytest.mark.parametrize(
    "name", ["gmean", "hmean", "iqr", "kurtosistest", "moment", "sem", "skew", "tvar", "variation"]
)
def test_of_no_observations_a_summary_is_nan_and_warns_in_the_words_of_scipy(name: str, shape: tuple[int, ...]) -> None:
    data = ag.tensor(np.zeros(shape), requires_grad=True)

    with pytest.warns(RuntimeWarning, match="too small; all") as ours:
        found = getattr(stats, name)(data, axis=0)
    with pytest.warns(RuntimeWarning, match="too small; all") as theirs:
        expected = getattr(scipy.stats, name)(np.zeros(shape), axis=0)

    assert [str(one.message) for one in theirs] == [str(one.message) for one in ours]
    first = found[0] if isinstance(found, tuple) else found
    np.testing.assert_array_equal(first.detach().numpy(), expected[0] if isinstance(expected, tuple) else expected)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["kurtosistest", "normaltest", "sem", "skewtest", "differential_entropy"])
def test_of_few_observations_with_nan_among_them_a_summary_is_nan_without_a_warning(name: str) -> None:
    found = getattr(stats, name)([np.nan] if name == "sem" else [1.0, np.nan])

    assert np.isnan(found[0] if isinstance(found, tuple) else found)


@pytest.mark.filterwarnings("error")
def test_groups_of_which_one_is_nan_and_one_empty_are_nan_without_a_warning() -> None:
    assert np.isnan(stats.f_oneway([], [1.0, np.nan]).statistic)
    assert np.isnan(stats.levene([1.0, np.nan], []).statistic)


@pytest.mark.parametrize("data", [np.zeros((0, 3)), np.array([[1.0, np.nan, 3.0], [np.nan, 2.0, np.nan]])])
@pytest.mark.filterwarnings("ignore:All axis-slices of one or more sample arguments are too small")
def test_the_entropy_of_short_lines_with_nan_is_nan(data: np.ndarray) -> None:
    np.testing.assert_array_equal(stats.differential_entropy(data, axis=0).numpy(), [np.nan] * 3)


def test_the_entropy_of_a_line_too_short_for_its_window_warns_in_the_words_of_scipy() -> None:
    with pytest.warns(RuntimeWarning, match="One or more sample arguments is too small; all"):
        assert np.isnan(stats.differential_entropy([1.0, 2.0]).item())


def test_a_line_of_which_nan_leaves_too_little_is_warned_of_in_the_words_of_scipy() -> None:
    data = np.array([[1.0, np.nan], [2.0, np.nan], [4.0, 3.0]])

    with pytest.warns(RuntimeWarning, match="After omitting NaNs, one or more axis-slices"):
        found = stats.sem(data, nan_policy="omit")

    assert np.isnan(found.numpy()).tolist() == [False, True]


def test_old_names_of_parameters_are_taken() -> None:
    # Their hints have the new names alone.
    old: Any = stats
    assert old.moment(_DATA, moment=3).tolist() == stats.moment(_DATA, 3).tolist()
    assert (
        old.ks_1samp(_DATA[:, 0], scipy.stats.norm.cdf, mode="exact").pvalue
        == stats.ks_1samp(_DATA[:, 0], scipy.stats.norm.cdf, method="exact").pvalue
    )
    with pytest.raises(TypeError, match="multiple values for argument order, once as moment"):
        old.moment(_DATA, order=2, moment=3)


def test_the_l_moments_of_all_numbers_are_those_of_one_sample() -> None:
    assert stats.lmoment(_DATA, axis=None).tolist() == stats.lmoment(_DATA.ravel()).tolist()


@pytest.mark.filterwarnings("ignore:One or more sample arguments is too small")
def test_a_trimmed_mean_of_nothing_is_nan_whatever_is_cut() -> None:
    assert np.isnan(stats.trim_mean([], 0.6).item())
    assert stats.trim_mean(np.ones((0, 2)), 0.6, axis=None, keepdims=True).shape == (1, 1)
