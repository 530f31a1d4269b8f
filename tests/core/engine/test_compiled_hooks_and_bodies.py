"""Laws of careful steps: what hooks and bodies see of a compiled backward is what they see of the engine's."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from tests.core.engine.scenes import ALONE, SCENES, Scene, seen, started, told
from tests.support.arrays import bits
from tests.support.functions import function
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop
from tests.support.settings import compiled_after, loop_budget

pytestmark = pytest.mark.usefixtures("cache")

both_drives = pytest.mark.parametrize("drive", ["awaited", "blocking"])


@pytest.mark.slow
@on_each_loop
@both_drives
@pytest.mark.parametrize("scene", SCENES)
def test_hooks_and_bodies_see_the_same_calls_in_the_same_order_with_the_same_bits(run, drive, scene):
    assert told(run, drive, 0, SCENES[scene]) == told(run, drive, None, SCENES[scene])


@pytest.mark.slow
@on_each_loop
@both_drives
@pytest.mark.parametrize("scene", ALONE)
def test_a_repeated_backward_with_hooks_and_bodies_is_a_hit(run, cache, drive, scene):
    told(run, drive, 1, ALONE[scene])

    assert (cache.stats().hits, dict(cache.stats().reasons)) == (3, {"seen too seldom": 1})


@pytest.mark.slow
@on_each_loop
@pytest.mark.parametrize("scene", ALONE)
def test_hooks_and_bodies_see_the_same_where_the_loop_breathes_whenever_it_may(run, cache, scene):
    assert told(run, "awaited", 0, ALONE[scene], -1.0) == told(run, "awaited", None, ALONE[scene], -1.0)
    assert cache.stats().hits == 4


@on_each_loop
@pytest.mark.sampled("scene")
@both_drives
@pytest.mark.parametrize("calls", [0, 1, 2])
@pytest.mark.parametrize("scene", SCENES)
def test_a_failure_in_any_hook_or_body_is_told_and_taken_back_as_by_the_engine(run, drive, scene, calls):
    def failed(after: int | None) -> Any:
        made = Scene()

        async def awaited() -> None:
            await ag.backward(*started(SCENES[scene](made)))

        def backward() -> None:
            with compiled_after(after), loop_budget(3600.0):
                if drive == "awaited":
                    run(awaited())
                else:
                    sync.backward(*started(SCENES[scene](made)))

        backward()
        before = [(leaf.grad, bits(leaf.grad)) for leaf in made.leaves]
        made.left = calls
        try:
            backward()
        except ArithmeticError as error:
            assert [(leaf.grad, bits(leaf.grad)) for leaf in made.leaves] == before
            notes = error.__notes__
        else:
            notes = []
        made.left = 10**9
        backward()
        return [re.sub(r"#\d+", "", note) for note in notes], seen(made)

    assert failed(0) == failed(None)


@pytest.mark.slow
@on_each_loop
@both_drives
@pytest.mark.parametrize("scene", ALONE)
def test_given_inputs_and_captures_are_those_of_the_engine(run, drive, scene):
    def grads(after: int | None) -> Any:
        made = Scene()
        found = []

        async def awaited(*args: Any, **options: Any) -> Any:
            return await ag.grad(*args, **options)

        for _ in range(3):
            with compiled_after(after), loop_budget(3600.0):
                roots, starts = started(ALONE[scene](made))
                inputs = [made.z, made.x]
                if drive == "awaited":
                    got = run(awaited(roots, inputs, starts, allow_unused=True))
                else:
                    got = sync.grad(roots, inputs, starts, allow_unused=True)
                found.append([bits(one) for one in got])
                roots, starts = started(ALONE[scene](made))
                sync.backward(roots, starts, inputs=[made.y])
        return found, seen(made)

    assert grads(0) == grads(None)


@pytest.mark.slow
@on_each_loop
@both_drives
@pytest.mark.parametrize("scene", ALONE)
def test_a_kept_graph_runs_again_with_the_same_calls(run, cache, drive, scene):
    def kept(after: int | None) -> Any:
        made = Scene()
        roots, starts = started(ALONE[scene](made))

        async def awaited() -> None:
            for _ in range(3):
                await ag.backward(roots, starts, retain_graph=True)

        with compiled_after(after), loop_budget(3600.0):
            if drive == "awaited":
                run(awaited())
            else:
                for _ in range(3):
                    sync.backward(roots, starts, retain_graph=True)
        return seen(made)

    assert kept(0) == kept(None)
    assert cache.stats().hits == 3


def test_complex_gradients_are_compiled_with_the_same_bits(cache):
    found = []
    for after in (None, 0, 0):
        made = Scene(np.complex128)
        with compiled_after(after):
            sync.backward(np.real(ALONE["tensor hook"](made) * (1 + 2j)))
        found.append(seen(made))

    assert found[0] == found[1] == found[2]
    assert cache.stats().hits == 2


def test_the_source_shows_what_a_node_task_runs(cache):
    made = Scene()
    with compiled_after(0):
        out = ALONE["tensor hook"](made)
        sync.backward(out)
    source = ag.engine.compiled_source(ALONE["tensor hook"](Scene()))

    assert source.count("await run_node_task(") == 1
    assert source.index("task.run_leaf(") < source.index("await run_node_task(") < source.rindex("task.run_leaf(")


def test_without_hooks_and_bodies_the_source_runs_no_node_task():
    x = leaf(1.0)
    with compiled_after(0):
        sync.backward(np.exp(x * 3.0))

    assert "left" not in (source := ag.engine.compiled_source(np.exp(x * 3.0)))
    assert "run_node_task" not in source


def test_the_backward_of_a_function_of_trees_is_a_hit_as_any_other(cache):
    doubled = function(lambda ctx, tree: {"double": [tree["x"] * 2]}, lambda ctx, grad: {"x": grad["double"][0] * 2})
    grads = []
    with compiled_after(1):
        for _ in range(3):
            x = leaf(3.0)
            sync.backward(doubled.apply({"x": x})["double"][0].sum())
            grads.append(x.grad.tolist())

    assert grads == [[2.0]] * 3
    assert cache.stats().hits == 2
