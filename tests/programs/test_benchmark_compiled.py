"""The benchmark of compiled functions measures what is compiled, and says when that pays."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.compiled import Figures, Workload, measure, table, workloads
from benchmarks.peers import Problem


def squares(x):
    return (x * x).sum()


def by_hand(x):
    return (x * x).sum(), lambda g: [2 * g * x]


def test_a_step_is_timed_by_each_way_in_turn():
    figures = measure(Workload("squares", squares, by_hand, Problem([], [np.ones(3)])), 2)

    assert [len(one) for one in figures[:4]] == [2, 2, 2, 2]


def test_what_is_not_compiled_is_no_figure():
    workload = Workload("a view", lambda x: x[:1].reshape(()), by_hand, Problem([], [np.ones(3)]))

    with pytest.raises(RuntimeError, match="a view is not compiled"):
        measure(workload, 1)


def test_the_table_has_ratios_of_the_same_round_and_the_calls_that_pay_for_the_trace():
    shown = table(
        {
            "a": Figures([2.0, 4.0], [1.5, 3.0], [1.0, 2.0], [0.5, 1.0], 3.0),
            "b": Figures([1.0], [1.0], [2.0], [1.0], 3.0),
        }
    )

    assert shown.splitlines()[2:] == [
        "| a | 0.75 | 1500.00 | 0.50 | 2.00 | 3000 | 2 |",
        "| b | 1.00 | 2000.00 | 2.00 | 2.00 | 3000 | never |",
    ]


def test_the_workloads_are_those_of_the_other_benchmarks():
    assert len({one.title for one in workloads()}) == 5
