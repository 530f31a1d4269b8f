"""How long a body is expected to take: an estimate, then a running mean that forgets, and is not easily surprised."""

from __future__ import annotations

import pytest

from asyncgrad.devices._costs import Costs


def test_before_it_is_measured_a_run_is_expected_to_take_what_is_estimated():
    assert Costs().expected("kind", 0.25) == 0.25


def test_measurements_move_the_mean_away_from_the_estimate():
    costs = Costs()

    costs.note("kind", 1.0, 2.0)
    assert costs.expected("kind", 1.0) == pytest.approx(1.5)
    for _ in range(100):
        costs.note("kind", 1.0, 2.0)
    assert costs.expected("kind", 1.0) == pytest.approx(2.0, rel=1e-3)


def test_the_mean_follows_a_machine_that_has_become_slower():
    costs = Costs()
    for _ in range(1000):
        costs.note("kind", 1.0, 1.0)

    for _ in range(20):
        costs.note("kind", 1.0, 4.0)

    assert costs.expected("kind", 1.0) > 3.5


def test_one_run_that_was_interrupted_counts_for_at_most_eight():
    costs = Costs()
    for _ in range(100):
        costs.note("kind", 1e-4, 1e-4)

    costs.note("kind", 1e-4, 10.0)

    assert costs.expected("kind", 1e-4) <= 2e-4


def test_what_is_far_longer_than_estimated_is_learnt_within_a_few_runs():
    costs = Costs()
    for _ in range(6):
        costs.note("kind", 1e-5, 0.01)

    assert costs.expected("kind", 1e-5) > 1e-3


def test_kinds_are_kept_apart():
    costs = Costs()
    costs.note("one", 1.0, 5.0)

    assert costs.expected("other", 1.0) == 1.0


def test_a_mean_of_few_runs_is_not_yet_told():
    costs = Costs()

    assert [costs.note("kind", 1.0, 1.0) for _ in range(4)] == [None, None, 1.0, 1.0]


def test_no_more_than_a_bounded_number_of_kinds_is_remembered(monkeypatch):
    monkeypatch.setattr("asyncgrad.devices._costs._MAX_KINDS", 3)
    costs = Costs()
    for kind in range(5):
        costs.note(kind, 1.0, 3.0)

    assert [costs.expected(kind, 1.0) > 1 for kind in range(5)] == [False, False, True, True, True]
