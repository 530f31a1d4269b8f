"""Functions of NumPy and steps of optimizers have their times in a profile, and cost nothing without one."""

from __future__ import annotations

import asyncio
import contextvars
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import optim
from asyncgrad.core.arrays.interception import TIMES, interceptors
from asyncgrad.optim.recorded_steps import steps_are_recorded
from tests.observing.profile.trace_format import violations
from tests.support.clocks import TickingClock
from tests.support.failing import Trouble
from tests.support.leaves import leaf
from tests.support.loops import one_loop


def forward(prof: ag.profile) -> dict[str, Any]:
    return {event.name: event for event in prof.events if event.kind == "forward"}


def steps(prof: ag.profile) -> list[Any]:
    return [event for event in prof.events if event.kind == "optimizer"]


def test_each_function_of_numpy_has_a_time_and_lines_of_the_table_too() -> None:
    w = ag.tensor(np.ones((3, 3)), requires_grad=True)

    with ag.profile() as prof:
        y = np.tanh(w @ w) * 2.0 + w[0] - np.concatenate([w, w])[:3] + np.stack([w, w])[0]
        np.where(w.numpy() > 0, y, 0.0).sum()
        ag.nn.softmax(y)
    events = forward(prof)

    assert {"matmul", "tanh", "multiply", "part", "Concatenate", "Stack", "where", "sum", "softmax"} <= set(events)
    assert [name for name, event in events.items() if event.duration is None] == []
    assert all(event.began <= event.ended for event in events.values())
    assert all(line.split()[3] != "0.0" for line in prof.table().splitlines()[2:] if line.startswith("matmul"))


def test_a_time_is_that_of_the_function_and_of_its_own_call() -> None:
    x = leaf(2.0)

    with ag.profile(clock=TickingClock(1.0)) as prof:
        np.sin(3.0)
        y = np.sin(x)
        with ag.no_grad():
            np.sin(x)
        np.sin(y)
    ones: list[Any] = [event for event in prof.events if event.name == "sin"]

    assert [event.duration for event in ones] == [1_000_000_000, 1_000_000_000]
    assert ones[0].ended < ones[1].began


def test_nested_profiles_each_have_the_times_by_their_own_clocks() -> None:
    with ag.profile(clock=TickingClock(1.0)) as outer, ag.profile(clock=TickingClock(2.0)) as inner:
        np.sin(leaf(2.0))

    assert forward(outer)["sin"].duration == 1_000_000_000
    assert forward(inner)["sin"].duration == 2_000_000_000


def test_a_profile_has_the_times_of_its_context_and_of_copies_whatever_other_profiles_begin_and_end() -> None:
    with ag.profile() as prof:
        contextvars.copy_context().run(np.sin, leaf(2.0))
        contextvars.Context().run(np.cos, leaf(2.0))
        with ag.profile():
            np.exp(leaf(2.0))
        other = contextvars.Context()
        beside = ag.profile()
        other.run(beside.__enter__)
        np.tanh(leaf(2.0))
        other.run(np.sinh, leaf(2.0))
        other.run(beside.__exit__, None, None, None)
        np.arctan(leaf(2.0))
    events = forward(prof)

    assert list(events) == ["sin", "exp", "tanh", "arctan"]
    assert [name for name, event in events.items() if event.duration is None] == []
    assert forward(beside)["sinh"].duration is not None


def test_without_a_profile_nothing_is_called_in_place_of_functions() -> None:
    assert TIMES not in interceptors
    with ag.profile():
        assert TIMES in interceptors
        assert steps_are_recorded == [True]
    assert TIMES not in interceptors
    assert steps_are_recorded == [False]


def test_functions_are_slices_of_their_length_in_the_trace(tmp_path: Path) -> None:
    with ag.profile(clock=TickingClock(1.0)) as prof:
        ag.sync.backward(np.sin(leaf(2.0)))
    prof.export_chrome_trace(tmp_path / "trace.json")
    text = (tmp_path / "trace.json").read_text()

    assert violations(text) == []
    assert [one["dur"] for one in json.loads(text)["traceEvents"] if one.get("cat") == "forward"] == [1e6]


def test_a_step_has_a_time_without_its_closure(tmp_path: Path) -> None:
    w = ag.tensor(np.ones(3), requires_grad=True)
    optimizer = optim.Adam([w])

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (w * w).sum()
        ag.sync.backward(loss)
        return loss

    with ag.profile(clock=TickingClock(1.0)) as prof:
        optimizer.step(closure)
        optimizer.step()
    prof.export_chrome_trace(tmp_path / "trace.json")

    assert [(event.name, event.status, event.duration, event.waited) for event in steps(prof)] == [
        ("Adam.step", "done", 1_000_000_000, 0),
        ("Adam.step", "done", 1_000_000_000, 0),
    ]
    assert violations((tmp_path / "trace.json").read_text()) == []
    assert "Adam.step" in prof.table("kind")


def test_lbfgs_waits_for_the_closures_that_it_calls_again() -> None:
    w = ag.tensor(np.array([1.0, 2.0]), requires_grad=True)
    optimizer = optim.LBFGS([w], max_iter=3)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (w**4).sum()
        ag.sync.backward(loss)
        return loss

    with ag.profile() as prof:
        optimizer.step(closure)
    (step,) = steps(prof)

    assert len(step.suspended) == len(step.resumed) >= 1
    assert 0 < step.waited < step.duration


@one_loop
async def test_an_awaited_step_tells_its_worker(tmp_path: Path) -> None:
    w = ag.tensor(np.ones((300, 300)), requires_grad=True)
    w.grad = ag.tensor(np.ones((300, 300)))
    optimizer = optim.SGD([w], lr=0.1)

    with ag.profile() as prof, ag.workers(1):
        await optimizer.step_async()
    prof.export_chrome_trace(tmp_path / "trace.json")
    (step,) = steps(prof)

    assert step.worker.startswith("asyncgrad worker")
    assert step.began <= step.suspended[0] <= step.worker_began <= step.worker_ended <= step.resumed[0] <= step.ended
    assert violations((tmp_path / "trace.json").read_text()) == []


@one_loop
async def test_a_step_that_fails_or_is_cancelled_says_so() -> None:
    w = ag.tensor(np.array([1.0, 2.0]), requires_grad=True)
    optimizer = optim.LBFGS([w])
    calls: list[int] = []
    never = asyncio.Event()

    async def closure() -> Any:
        calls.append(0)
        if len(calls) == 2:
            raise Trouble("again")
        if len(calls) == 4:
            task.cancel()
            await never.wait()
        optimizer.zero_grad()
        loss = (w**4).sum()
        await loss.backward()
        return loss

    with ag.profile() as prof:
        with pytest.raises(Trouble):
            await optimizer.step_async(closure)
        task = asyncio.create_task(optimizer.step_async(closure))
        with pytest.raises(asyncio.CancelledError):
            await task

    assert [event.status for event in steps(prof)] == ["failed", "cancelled"]
