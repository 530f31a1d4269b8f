"""Where a number decides how a function goes on, or something is raised and caught, the way is that of the function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from tests.support.leaves import leaf
from tests.tracing.running import bits


def positive(x: Any) -> str:
    return "positive" if x.sum() > 0 else "other"


def last(x: Any) -> Any:
    y = (x * 2).sum()
    return y if y > 0 else y * 5


def repeated(x: Any) -> Any:
    for _ in range(int(x.sum())):
        x = x * 2
    return x


def equal(x: Any) -> Any:
    return x * 2 if np.array_equal(x, np.ones(2)) else x * 3


def inverse(x: Any) -> Any:
    try:
        return np.linalg.inv(np.diag(x))
    except np.linalg.LinAlgError:
        return np.diag(x) * 0


def quotient(x: Any) -> Any:
    with np.errstate(all="raise"):
        try:
            return 1 / x
        except FloatingPointError:
            return x * 0


def signed(x: Any) -> Any:
    return np.copysign(np.ones(2), float(x[0]))


def shown(x: Any) -> str:
    return f"{x} {x!r}"


@pytest.mark.parametrize("verify", [0, 2])
@pytest.mark.parametrize("function", [positive, last, repeated, equal, inverse, quotient, signed, shown])
def test_the_way_is_that_of_the_function(function, verify):
    jitted = ag.jit(function, verify=verify)
    numbers = [np.full(2, number) for number in (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, -0.0, 0.0, -1.0, 2.0, 1.0, 0.0, -0.0)]

    with np.errstate(divide="ignore"):
        found, expected = [[one(x.copy()) for x in numbers] for one in (jitted, function)]

    assert [repr(one) for one in found] == [repr(one) for one in expected]


def test_how_floating_point_errors_are_treated_within_is_part_of_the_program():
    def function(x):
        with np.errstate(divide="ignore"):
            return 1 / x

    jitted = ag.jit(function, verify=0)
    with np.errstate(all="raise"):
        for number in (1.0, 1.0, 1.0, 0.0):
            assert jitted(np.array([number])).tolist() == function(np.array([number])).tolist()
    assert jitted.counts["replayed"] == 2


def test_enable_grad_within_no_grad_records():
    def function(x):
        with ag.enable_grad():
            return x * 2

    jitted = ag.jit(function)
    with ag.no_grad():
        found = [jitted(leaf(1.0)) for _ in range(6)]

    assert all(one.requires_grad for one in found)
    assert jitted.counts["replayed"] == 2


def test_a_program_is_not_given_up_for_a_call_that_goes_another_way_while_it_is_compared():
    jitted = ag.jit(lambda x: x * 2 if x[0] > 0 else x - 1)
    for sign in (1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, -1.0, 1.0, -1.0):
        x = np.array([sign, 3.0])
        assert bits(jitted(x)) == bits(jitted.function(x))

    assert jitted.counts["replayed"]
