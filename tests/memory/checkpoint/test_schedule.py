"""The schedules reverse every chain, within their budget, with the fewest runs that there are."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest

from asyncgrad.memory.checkpoint.rotor import ChainCosts, fewest_bytes, peak_bytes, rotor_schedule, total_seconds
from asyncgrad.memory.checkpoint.schedule import ActionKind, binomial_schedule, fewest_advances, logarithmic_snapshots


def follow(schedule, steps):
    """Follow a schedule; return how many steps are advanced over, and how many states are kept at most."""
    kept, recorded, reversed_, current, advances, most = set(), set(), [], 0, 0, 0
    for kind, step in schedule:
        if kind is ActionKind.KEEP:
            assert current == step
            kept.add(step)
        elif kind is ActionKind.RESTORE:
            assert step in kept
            current = step
        elif kind is ActionKind.DROP:
            kept.remove(step)
        elif kind in (ActionKind.ADVANCE, ActionKind.RECORD):
            assert current == step
            current += 1
            advances += kind is ActionKind.ADVANCE
            if kind is ActionKind.RECORD:
                recorded.add(step)
        else:
            recorded.remove(step)
            reversed_.append(step)
            current = None
        most = max(most, len(kept))
    assert reversed_ == list(range(steps))[::-1]
    assert not kept
    assert not recorded
    return advances, most


@functools.cache
def least(steps, snapshots):
    """By trying all."""
    if steps == 1:
        return 0
    if snapshots == 1:
        return steps * (steps - 1) // 2
    return min(middle + least(steps - middle, snapshots - 1) + least(middle, snapshots) for middle in range(1, steps))


@pytest.mark.parametrize("snapshots", range(1, 9))
def test_the_binomial_schedule_needs_as_few_advances_as_there_are(snapshots):
    for steps in range(1, 40):
        advances, most = follow(binomial_schedule(steps, snapshots), steps)
        assert advances == least(steps, snapshots) == fewest_advances(steps, snapshots)
        assert most <= snapshots


def test_a_thousand_steps_with_twelve_states_need_3440_advances():
    """β(s, r) = C(s + r, s): 455 < 1000 <= 1820, and so r = 4."""
    advances, most = follow(binomial_schedule(1000, 12), 1000)

    assert advances == 4 * 1000 - math.comb(12 + 4, 3) == 3440
    assert most == 12


def test_states_and_repeats_grow_as_the_logarithm():
    for power in range(1, 14):
        steps = 2**power
        advances, most = follow(binomial_schedule(steps, logarithmic_snapshots(steps)), steps)
        assert most <= power
        assert advances <= steps * power


def random_costs(steps, seed):
    random = np.random.default_rng(seed)
    return ChainCosts(
        tuple(map(int, random.integers(1, 9, steps + 1))),
        tuple(map(int, random.integers(0, 30, steps))),
        tuple(map(int, random.integers(0, 9, steps))),
        tuple(random.integers(1, 9, steps) / 8),
    )


@pytest.mark.slow
@pytest.mark.sampled("steps")
@pytest.mark.parametrize("steps", [1, 2, 5, 30, 64, 150])
@pytest.mark.parametrize("seed", range(3))
def test_the_schedule_for_unequal_steps_stays_within_its_budget(steps, seed):
    costs = random_costs(steps, seed)
    times = []
    for factor in (1.0, 1.2, 2.0, 5.0, 1000.0):
        budget = int(fewest_bytes(costs) * factor)
        schedule = rotor_schedule(costs, budget)
        follow(schedule, steps)
        assert peak_bytes(costs, schedule) <= budget
        times.append(total_seconds(costs, schedule))
    assert times == sorted(times, reverse=True)
    assert times[-1] == pytest.approx(sum(costs.seconds))


def best(costs, begin, end, memory):
    """The least time to reverse a part of a chain, by trying all ways to begin."""
    states, records, working, times = costs
    cost = records[begin] + states[begin + 1]
    step = times[begin]
    if end - begin == 1:
        return step if memory >= cost + working[begin] else math.inf
    found = math.inf
    if memory >= cost + working[begin]:
        found = step + best(costs, begin + 1, end, memory - cost)
    for middle in range(begin + 1, end):
        passing = max(
            states[one - 1] * (one - 1 > begin) + states[one] + working[one - 1] for one in range(begin + 1, middle + 1)
        )
        if memory < passing:
            continue
        rest = best(costs, middle, end, memory - states[middle])
        if rest < math.inf:
            found = min(found, sum(times[begin:middle]) + rest + best(costs, begin, middle, memory))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "seed"), [*itertools.product([2, 4, 6], range(4))])
def test_the_schedule_for_unequal_steps_takes_the_least_time(steps, seed):
    costs = random_costs(steps, seed)
    for budget in range(fewest_bytes(costs), min(250, 5 * fewest_bytes(costs)), 3):
        found = total_seconds(costs, rotor_schedule(costs, budget))
        assert found <= best(costs, 0, steps, budget - costs.states[0]) + 1e-9


def test_a_budget_that_is_too_small_is_refused_and_the_least_is_enough():
    costs = random_costs(20, 0)
    least = fewest_bytes(costs)
    rotor_schedule(costs, least)

    with pytest.raises(ValueError, match=rf"memory_budget={least - 1} is too small .* at least {least} bytes"):
        rotor_schedule(costs, least - 1)
