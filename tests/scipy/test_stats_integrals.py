"""Integrals of the families of asyncgrad.scipy.stats at fixed points."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.scipy import stats
from asyncgrad.scipy.stats.integrals import integral_at_points


@pytest.mark.parametrize(
    ("function", "low", "high", "expected"),
    [
        (lambda x, r: np.exp(-r * x), 0.0, math.inf, 0.5),
        (lambda x, r: np.exp(r * x), -math.inf, 0.0, 0.5),
        (lambda x, r: r * x**-0.75, 0.0, 1.0, 8.0),
        (lambda x, r: r * (1 - x) ** -0.25, 0.0, 1.0, 8 / 3),
        (lambda x, r: 1 / (r * r + x * x), 0.0, math.inf, math.pi / 4),
    ],
)
def test_an_integral_at_points_has_its_digits_and_its_slope(
    function: Callable[..., Any], low: float, high: float, expected: float
) -> None:
    rate = ag.tensor(2.0, requires_grad=True)

    found = integral_at_points(function, low, high, 1.0, (rate,))

    assert found is not None
    assert found.item() == pytest.approx(expected, rel=1e-9)
    # All of them are a power of the rate.
    (slope,) = sync.grad(found, [rate])
    assert abs(slope.item()) == pytest.approx(expected / 2, rel=1e-9)


@pytest.mark.parametrize(
    ("function", "high"),
    [
        (lambda x: np.abs(x - 1 / 3), 1.0),
        (lambda x: 1 / (1 + x), math.inf),
        (lambda x: 1 / x, 1.0),
        (lambda x: np.log(x - 0.5), 1.0),
    ],
    ids=["kink", "no end", "pole", "none"],
)
def test_an_integral_whose_digits_the_points_lack_is_none(function: Callable[..., Any], high: float) -> None:
    assert integral_at_points(function, 0.0, high, 1.0, ()) is None


def test_an_integral_between_neighbouring_numbers_is_none_at_points_and_quads_for_a_family() -> None:
    high = np.nextafter(0.5, 1.0)

    assert integral_at_points(lambda x: 1 + 0 * x, 0.5, high, 1.0, ()) is None
    assert stats.uniform.expect(None, lb=0.5, ub=high).item() == pytest.approx(0.5 * (high - 0.5), rel=1e-12)


@pytest.mark.parametrize(
    ("family", "shapes", "mean"),
    [
        ("alpha", (1.75,), "entropy"),
        ("exponweib", (1.75, 1.25), "var"),
        ("johnsonsb", (0.75, 1.25), "expect"),
        ("johnsonsb", (0.75, 1.25), "moment"),
    ],
)
def test_an_integral_of_a_family_calls_its_density_a_few_times(
    family: str, shapes: tuple[float, ...], mean: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, calls, theirs = getattr(stats, family), [], getattr(scipy.stats, family)
    density = type(ours)._logpdf

    def counted(self: Any, *args: Any) -> Any:
        calls.append(args)
        return density(self, *args)

    monkeypatch.setattr(type(ours), "_logpdf", counted)
    leaves = [ag.tensor(one, requires_grad=True) for one in shapes]
    given: dict[str, tuple[Any, ...]] = {"expect": (None, leaves), "moment": (5, *leaves)}

    found = getattr(ours, mean)(*given.get(mean, leaves))
    if leaves:
        sync.backward(found)

    plain: dict[str, tuple[Any, ...]] = {"expect": (None, shapes), "moment": (5, *shapes)}
    assert found.item() == pytest.approx(getattr(theirs, mean)(*plain.get(mean, shapes)), rel=1e-7)
    # A moment of the fifth order asks for the first four, too.
    assert len(calls) < (40 if mean != "moment" else 150)
