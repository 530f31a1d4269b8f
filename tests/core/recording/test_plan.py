"""Which runs of a node a plan has measured, and what is left of the functions that it replaces."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np

import asyncgrad as ag


def new_plan() -> Any:
    """Return the plan of a primitive that no other test has."""

    @ag.extend.primitive()
    def doubled(x):
        return np.multiply(x, 2.0)

    @ag.extend.derivative(doubled, "x")
    def _(g):
        return np.multiply(g, 2.0)

    node: Any = doubled(ag.tensor([1.0], requires_grad=True)).grad_fn
    return node.plan


def test_runs_that_were_measured_and_are_short_are_not_measured_again() -> None:
    plan = new_plan()
    plan.note_slow(10)
    assert plan.watches(10)

    plan.note_cheap(10)
    assert not plan.watches(10)
    for elements in (5, 10):
        plan.note_slow(elements)
        assert not plan.watches(10)
    plan.note_slow(11)
    assert plan.watches(11)
    assert not plan.watches(10)


def test_a_plan_whose_functions_are_made_anew_leaves_nothing_to_the_garbage_collector() -> None:
    plan = new_plan()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        for elements in (12, 11, 10):
            plan.note_slow(elements)
            plan.note_cheap(elements)
        assert plan.run is not plan.run_here
        assert gc.collect() == 0
    finally:
        gc.enable()
