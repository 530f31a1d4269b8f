"""benchmarks.hips: its cases, their comparison and its table."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("autograd")

from benchmarks.hips import FUNCTIONS, PROGRAMS, SCIPY, libraries, measure, same
from benchmarks.pairs import Times, table

CASES = FUNCTIONS | SCIPY | PROGRAMS


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_both_libraries_find_the_same_gradients(case):
    ours, theirs = (case(library)() for library in libraries())

    assert same(ours, theirs)


def test_gradients_that_differ_are_not_timed():
    def case(library):
        return lambda: [np.float64(library is not None), np.float64(library.np is np)]

    with pytest.raises(ValueError, match="do not agree"):
        measure(case, 1)


def test_both_libraries_are_timed_in_each_round():
    calls = []

    def case(library):
        return lambda: calls.append(library.np is np) or 0.0

    times = measure(case, 2, seconds=0.0)

    assert calls == [True, False, True, True, True, False, False, False, True, False, True, False]
    assert times.ratio > 0


def test_the_table_ends_with_the_geometric_mean_of_the_ratios():
    lines = table("program", "HIPS autograd", {"a": Times(1e-6, 4e-6, 0.25), "b": Times(4e-6, 1e-6, 4.0)}).splitlines()

    assert lines[2:] == ["| a | 1 | 4 | 0.25 |", "| b | 4 | 1 | 4.00 |", "| geometric mean | | | 1.00 |"]
