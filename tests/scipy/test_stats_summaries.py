"""asyncgrad.scipy.stats: moments, means, scores and entropies of data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ArgumentError
from asyncgrad.scipy import stats
from asyncgrad.scipy.stats import summaries
from tests.ops.finite_differences import Case
from tests.scipy.functions import check, check_values, named_calls

_DATA = np.array([[0.5, 1.25, 3.0], [2.5, 0.75, 1.0], [1.5, 2.0, 0.25], [4.0, 1.75, 2.25]])
_WEIGHTS = np.array([1.0, 0.5, 2.0])

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
    },
)


def test_every_summary_has_a_case() -> None:
    assert set(summaries.__all__) == {name.split("-")[0] for name in CALLS}


@pytest.mark.sampled
@pytest.mark.parametrize("call", CALLS)
def test_values_are_those_of_scipy(call: str) -> None:
    check_values(*CALLS[call])


@pytest.mark.sampled
@pytest.mark.parametrize("call", [name for name, (_, _, case) in CALLS.items() if case.smooth])
def test_derivatives_are_those_of_finite_differences(call: str) -> None:
    ours, _, case = CALLS[call]

    check(ours, case)


@pytest.mark.parametrize("name", ["skew", "kurtosis", "zscore"])
def test_data_that_are_all_equal_are_nan_and_leave_other_gradients_alone(name: str) -> None:
    data = ag.tensor([[1.0, 2.0], [1.0, 3.0], [1.0, 5.0]], requires_grad=True)

    found = getattr(stats, name)(data)
    (gradient,) = sync.grad(found[..., 1].sum() + found[..., 0].sum(), [data])
    (alone,) = sync.grad(getattr(stats, name)(data[:, 1]).sum(), [data])

    assert np.isnan(found.numpy()[..., 0]).all()
    np.testing.assert_allclose(gradient.numpy(), alone.numpy(), atol=1e-12)


def test_a_share_of_nothing_has_no_gradient() -> None:
    shares = ag.tensor([0.5, 0.0, 0.5], requires_grad=True)

    found = stats.entropy(shares)
    sync.backward(found)

    np.testing.assert_allclose(found.numpy(), np.log(2))
    assert np.isfinite(shares.grad.numpy()).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: stats.skew(_DATA, nan_policy="omit"), "nan_policy 'propagate', not 'omit'"),
        (lambda: stats.moment(_DATA, [1, 2]), "one whole number"),
        (lambda: stats.gmean(_DATA, weights=[1.0]), r"not \(1,\)"),
        (lambda: stats.pmean(_DATA, [1.0, 2.0]), "p that is one number"),
        (lambda: stats.iqr(_DATA, scale="raw"), "a number or 'normal', not 'raw'"),
        (lambda: stats.trim_mean(_DATA, 0.5), "below 0.5, not 0.5"),
        (lambda: stats.pearsonr(_DATA, _DATA[:2]), "two samples of one shape"),
        (lambda: stats.pearsonr(_DATA, _DATA, method=1), "no method but None"),
        (lambda: stats.entropy(_DATA, base=-1), "a positive base, not -1"),
    ],
)
def test_errors_say_what_is_wrong(call: Any, message: str) -> None:
    with pytest.raises((ArgumentError, ValueError), match=message):
        call()
