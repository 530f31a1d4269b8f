"""GradientLedger by itself: what is summed, and how often."""

import itertools

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.distributed.ledger import Contribution, GradientLedger
from tests.support.cpu_time import least_cpu_seconds


def a_ledger():
    param = ag.tensor([1.0], requires_grad=True)
    return param, GradientLedger([param])


@pytest.mark.parametrize("named", [(0, 0), (0, 1, 0), (1, 0, 0, 1)])
def test_a_contribution_that_is_named_twice_counts_once(named):
    param, ledger = a_ledger()
    given = [Contribution((1, 7), order, "call") for order in (-3, -2)]
    for value, one in zip((2.0, 8.0), given, strict=True):
        ledger.add(1, one, [np.array([value])])

    missing = ledger.prepare(1, [given[at] for at in named])
    ledger.commit(1)

    assert missing == []
    assert param.grad.tolist() == [sum((2.0, 8.0)[at] for at in set(named))]


def test_a_missing_contribution_that_is_named_twice_is_missed_once():
    _, ledger = a_ledger()
    one, other = Contribution((1, 7), -3, "call"), Contribution((0, 7), -1, "call")

    assert ledger.prepare(1, [one, other, one]) == [one, other]


def test_a_long_list_of_backward_passes_is_looked_up_at_once():
    param, ledger = a_ledger()
    for number in range(1, 401):
        one = Contribution((1, number), -1, "call")
        ledger.add(number, one, [np.array([1.0])])
        ledger.prepare(number, [one])
        ledger.commit(number)
    numbers = itertools.count(1000)

    def ended():
        for number in itertools.islice(numbers, 4000):
            ledger.roll_back(number)
            ledger.finish(number)

    # One after the other takes ten times as long.
    assert least_cpu_seconds(ended) < 0.03
    assert param.grad.tolist() == [400.0]


@pytest.mark.parametrize("finished", [(), (1,), (2,), (3,), (1, 2), (2, 3), (3, 1), (3, 2, 1)])
@pytest.mark.parametrize("rolled_back", [(), (1,), (2,), (3, 2), (1, 2, 3)])
def test_what_is_left_is_the_sum_of_what_was_not_rolled_back(finished, rolled_back):
    param, ledger = a_ledger()
    for number in (1, 2, 3):
        one = Contribution((1, number), -1, "call")
        ledger.add(number, one, [np.array([10.0**number])])
        ledger.prepare(number, [one])
        ledger.commit(number)

    for number in finished:
        ledger.finish(number)
    for number in rolled_back:
        ledger.roll_back(number)

    left = [number for number in (1, 2, 3) if number in finished or number not in rolled_back]
    total = sum(10.0**number for number in left)
    assert (0.0 if param.grad is None else param.grad.item()) == total
    if not {1, 2, 3} - {*finished, *rolled_back}:
        assert ledger.held_bytes() == 0
