"""`ag.workers`, `ag.loop_budget`, `ag.offload_threshold`: blocks of one context, with defaults from the environment."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.core.settings.scheduling import LOOP_BUDGET, OFFLOAD_THRESHOLD, WORKERS
from asyncgrad.errors import ArgumentError
from tests.support.loops import one_loop
from tests.support.settings import node_by_node

SETTINGS = [
    (ag.workers, 3, lambda: WORKERS.get().limit),
    (ag.loop_budget, 0.25, LOOP_BUDGET.get),
    (ag.offload_threshold, 0.125, OFFLOAD_THRESHOLD.get),
]
EACH_SETTING = pytest.mark.parametrize(("setting", "value", "get"), SETTINGS, ids=[row[0].__name__ for row in SETTINGS])


@EACH_SETTING
def test_a_setting_holds_in_its_block_and_no_longer(setting, value, get):
    before = get()
    with setting(value):
        assert get() == value
        with setting(0):
            assert get() == 0
        assert get() == value
    assert get() == before


@one_loop
@EACH_SETTING
async def test_a_setting_decorates_functions_of_all_kinds(setting, value, get):
    @setting(value)
    def plain():
        return get()

    @setting(value)
    async def coroutine():
        return get()

    assert plain() == await coroutine() == value
    assert get() != value


@EACH_SETTING
async def test_tasks_do_not_see_each_other_s_settings(setting, value, get):
    async def inside(inner, outer):
        with setting(value):
            inner.set()
            await outer.wait()
            return get()

    async def main():
        inner, outer = asyncio.Event(), asyncio.Event()
        task = asyncio.ensure_future(inside(inner, outer))
        await inner.wait()
        seen = get()
        outer.set()
        assert await task == value
        assert seen != value

    await main()


@EACH_SETTING
@pytest.mark.parametrize("wrong", [-1, "many", None, float("nan"), True], ids=repr)
def test_what_is_no_such_number_is_refused_by_name(setting, value, get, wrong):
    with pytest.raises(ArgumentError, match=rf"ag\.{setting.__name__}\(.*\) is {wrong!r}: give a"):
        setting(wrong)


@pytest.mark.parametrize("wrong", [1.5, float("inf"), -float("inf")])
def test_half_a_worker_is_refused_and_so_are_infinitely_many(wrong):
    with pytest.raises(ArgumentError, match="give a whole number of workers"):
        ag.workers(wrong)


@pytest.mark.parametrize("setting", [ag.loop_budget, ag.offload_threshold])
@pytest.mark.parametrize("seconds", [10**400, 10**5000, np.timedelta64(5, "ns")], ids=["large", "unwritten", "length"])
def test_more_seconds_than_a_float_can_hold_and_what_is_no_number_of_them_are_refused(setting, seconds):
    with pytest.raises(ArgumentError, match="give a number that is not negative"):
        setting(seconds)


def environment(**variables: str) -> dict[str, str]:
    return {**{name: value for name, value in os.environ.items() if not name.startswith("ASYNCGRAD")}, **variables}


def in_a_process(source: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, env=environment(**variables), check=False
    )


SHOW = """
from asyncgrad.core.settings.scheduling import LOOP_BUDGET
from asyncgrad.core.settings.scheduling import OFFLOAD_THRESHOLD, WORKERS
print(WORKERS.get().limit, LOOP_BUDGET.get(), OFFLOAD_THRESHOLD.get())
"""


def test_the_defaults_come_from_the_environment():
    shown = in_a_process(
        SHOW, ASYNCGRAD_WORKERS="7", ASYNCGRAD_LOOP_BUDGET_MS="2.5", ASYNCGRAD_OFFLOAD_THRESHOLD_MS="4"
    )

    assert shown.stdout.split() == ["7", "0.0025", "0.004"], shown.stderr


@pytest.mark.parametrize(
    "variables", [{}, {"ASYNCGRAD_WORKERS": "", "ASYNCGRAD_LOOP_BUDGET_MS": "", "ASYNCGRAD_OFFLOAD_THRESHOLD_MS": ""}]
)
def test_without_environment_variables_or_with_empty_ones_there_are_as_many_workers_as_processors(variables):
    shown = in_a_process(SHOW, **variables)

    assert shown.stdout.split() == [str(len(os.sched_getaffinity(0))), "0.001", "0.0005"], shown.stderr


@pytest.mark.parametrize("name", ["ASYNCGRAD_WORKERS", "ASYNCGRAD_LOOP_BUDGET_MS", "ASYNCGRAD_OFFLOAD_THRESHOLD_MS"])
def test_a_wrong_environment_variable_is_named(name):
    shown = in_a_process(SHOW, **{name: "lots"})

    assert f"the environment variable {name} is 'lots': give a" in shown.stderr
    assert shown.returncode != 0


WATCHING = """
import threading, numpy as np, asyncgrad as ag
from asyncgrad.extend import primitive, derivative

@primitive(superlinear=True)
def watched(x):
    return x.copy()

@derivative(watched, "x")
def _(g, x):
    {body}
    return g

def backward():
    y = watched(ag.tensor(np.ones(1 << 16), requires_grad=True)).sum()
    with ag.offload_threshold(0):
        ag.sync.backward(y)
"""


def test_no_thread_starts_before_the_first_heavy_body():
    shown = in_a_process(
        WATCHING.format(body="pass")
        + "ag.sync.backward(ag.tensor(np.ones(3), requires_grad=True).sum())\n"
        + "print(threading.active_count(), ag.engine.statistics().workers)\n"
        + "backward(); print(ag.engine.statistics().workers)\n"
    )

    assert shown.stdout.split() == ["1", "0", "1"], shown.stderr


def test_idle_workers_do_not_hold_up_the_end_of_the_interpreter():
    shown = in_a_process(WATCHING.format(body="pass") + "backward()\nprint('end')")

    assert (shown.returncode, shown.stdout, shown.stderr) == (0, "end\n", "")


def test_at_the_end_of_the_interpreter_a_body_that_runs_is_waited_for():
    source = (
        WATCHING.format(body="begun.set(); over.wait(30); print('body', flush=True)")
        + """
import atexit, asyncio
begun, over = threading.Event(), threading.Event()
ag.engine.statistics()
# Runs before what asyncgrad does at the end, which was registered when the engine was first used.
atexit.register(over.set)
threading.Thread(target=backward, daemon=True).start()
begun.wait(30)
print('end', flush=True)
"""
    )
    shown = in_a_process(source)

    assert (shown.returncode, shown.stdout) == (0, "end\nbody\n"), shown.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_makes_workers_of_its_own():
    source = (
        WATCHING.format(body="pass")
        + """
import os, sys
backward()
child = os.fork()
if not child:
    assert ag.engine.statistics()[:4] == (0, 0, 0, 0), ag.engine.statistics()
    backward()
    assert ag.engine.statistics().workers == 1
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
backward()
"""
    )
    shown = in_a_process(source)

    assert shown.stdout.split() == ["7"], shown.stderr


async def test_a_budget_of_nothing_lets_the_loop_breathe_after_each_node():
    turns = []

    loop = asyncio.get_running_loop()

    def tick():
        turns.append(1)
        if not done:
            loop.call_soon(tick)

    done: list[int] = []
    x = ag.tensor(np.ones(2), requires_grad=True)
    y = x
    for _ in range(20):
        y = y * x
    loop.call_soon(tick)
    # A compiled function looks at the clock after several nodes that are as short.
    with ag.loop_budget(0), node_by_node():
        await y.sum().backward()
    done.append(1)
    assert len(turns) >= 20
