"""On random programs, what hooks, bodies and callers write into gradients that they keep changes no result."""

from __future__ import annotations

import warnings

import pytest

from tests.core.engine.writing import run_program
from tests.support.loops import on_each_loop
from tests.support.sampling import cases


@pytest.mark.slow
@on_each_loop
def test_what_is_written_into_kept_gradients_changes_no_result(run):
    with warnings.catch_warnings():
        # Of the cycle that create_graph makes.
        warnings.simplefilter("ignore", UserWarning)
        for seed in range(cases(1000)):
            assert run_program(seed, True, run) == run_program(seed, False, run), f"run_program({seed})"
