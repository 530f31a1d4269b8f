"""The benchmark of maps measures what it says, and prints a table."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import vmap


def test_a_workload_is_measured_beside_the_loop():
    (workload, *_) = vmap.workloads()

    found = vmap.measure(workload, 1)

    assert {"loop", "mapped"} <= set(found)
    assert all(len(seconds) == 1 and seconds[0] > 0 for seconds in found.values())


def test_other_bits_than_those_of_the_loop_are_an_error():
    workload = vmap.Workload("wrong", lambda: np.zeros(2), lambda: np.ones(2), None)

    with pytest.raises(RuntimeError, match="wrong: the results are not those of the loop"):
        vmap.measure(workload, 1)


def test_the_table_has_medians_of_ratios_of_the_same_round():
    found = {"what": {"loop": [1.0, 4.0, 9.0], "mapped": [1.0, 2.0, 3.0], "JAX": [2.0, 4.0, 6.0]}}

    assert vmap.table(found).splitlines()[-1] == "| what | 2000.00 | 2.0 | 0.50 |"
