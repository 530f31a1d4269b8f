"""Step callbacks: called where each run of a node begins and ends."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.engine import Step, add_step_callback
from asyncgrad.errors import ArgumentError, HookTypeError
from tests.core.engine.heavy import heavy_calling, large
from tests.observing.profile.programs import Failing, Waiting
from tests.support.loops import one_loop


def run() -> None:
    sync.backward(np.tanh(ag.tensor([1.0, 2.0], requires_grad=True)).sum())


class Unhashable:
    """A callback that is equal to everything, and has no hash."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self) -> None:
        self.seen: list[Step] = []

    def __eq__(self, other: object) -> bool:
        return True

    def __call__(self, step: Step) -> int:
        self.seen.append(step)
        return len(self.seen)


def test_each_run_is_told_of_at_its_start_and_its_end_with_what_the_start_returned() -> None:
    callback = Unhashable()

    with add_step_callback(callback):
        run()
    run()

    assert [(step.phase, step.node.name, step.context) for step in callback.seen] == [
        ("start", "SumBackward", None),
        ("end", "SumBackward", 1),
        ("start", "TanhBackward", None),
        ("end", "TanhBackward", 3),
        ("start", "AccumulateGrad", None),
        ("end", "AccumulateGrad", 5),
    ]


def test_callbacks_nest_around_a_run() -> None:
    told: list[str] = []

    with (
        add_step_callback(lambda step: told.append(f"first {step.phase}")),
        add_step_callback(lambda step: told.append(f"second {step.phase}")),
    ):
        sync.backward(ag.tensor(1.0, requires_grad=True) * 2.0)

    assert told == ["first start", "second start", "second end", "first end"] * 2


def test_removing_one_callback_keeps_an_equal_one() -> None:
    first, second = Unhashable(), Unhashable()
    handles = [add_step_callback(first), add_step_callback(second)]

    handles[0].remove()
    handles[0].remove()
    run()
    handles[1].remove()

    assert (len(first.seen), len(second.seen)) == (0, 6)


@pytest.mark.parametrize("phase", ["start", "end"])
def test_a_callback_that_raises_is_logged_and_removed_and_does_no_harm(
    phase: str, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[Step] = []
    other = Unhashable()

    def callback(step: Step) -> None:
        calls.append(step)
        if step.phase == phase:
            raise ZeroDivisionError("as asked")

    with caplog.at_level(logging.ERROR, "asyncgrad"), add_step_callback(callback), add_step_callback(other):
        run()

    assert len(calls) == (1 if phase == "start" else 2)
    assert len(other.seen) == 6
    assert [record.name for record in caplog.records] == ["asyncgrad.engine"]
    assert "ZeroDivisionError: as asked" in caplog.text


def test_a_run_that_fails_has_an_end_with_its_error() -> None:
    callback = Unhashable()

    with add_step_callback(callback), pytest.raises(ZeroDivisionError) as raised:
        sync.backward(Failing.apply(ag.tensor(1.0, requires_grad=True)))

    assert [step.phase for step in callback.seen] == ["start", "end"]
    assert callback.seen[1].error is raised.value


@one_loop
async def test_a_run_that_waits_has_one_start_and_one_end() -> None:
    callback = Unhashable()

    async def main() -> None:
        event = asyncio.Event()
        waiting = Waiting.apply(ag.tensor(1.0, requires_grad=True), event)
        with ag.loop_budget(100.0):
            backward = asyncio.get_running_loop().create_task(waiting.backward())
        await asyncio.sleep(0)
        event.set()
        await backward

    with add_step_callback(callback):
        await main()

    assert [step.phase for step in callback.seen] == ["start", "end"] * 2


def test_a_heavy_node_is_told_of_once() -> None:
    callback = Unhashable()

    async def main() -> None:
        with ag.workers(1), ag.offload_threshold(0.0):
            await heavy_calling(large(), lambda grad: None).sum().backward()

    with add_step_callback(callback):
        asyncio.run(main())
        sync.backward(heavy_calling(large(), lambda grad: None).sum())

    assert [step.phase for step in callback.seen] == ["start", "end"] * 6


def test_a_sample_of_the_runs_is_told_of_in_pairs() -> None:
    callback = Unhashable()
    never = Unhashable()

    with add_step_callback(callback, sampling=0.5), add_step_callback(never, sampling=0.0):
        for _ in range(100):
            run()

    assert 200 < len(callback.seen) < 400
    assert [step.phase for step in callback.seen] == ["start", "end"] * (len(callback.seen) // 2)
    assert never.seen == []


def test_a_backward_inside_of_a_callback_calls_none() -> None:
    calls: list[str] = []

    def callback(step: Step) -> None:
        calls.append(step.phase)
        with ag.enable_grad():
            run()

    with add_step_callback(callback):
        run()

    assert calls == ["start", "end"] * 3


def test_a_profile_and_a_callback_stand_side_by_side() -> None:
    callback = Unhashable()

    with ag.profile() as prof, add_step_callback(callback):
        run()

    assert [event.name for event in prof.events if event.kind == "backward"] == [
        step.node.name for step in callback.seen if step.phase == "end"
    ]


@pytest.mark.parametrize("fn", [None, 3, "fn"])
def test_a_callback_is_a_function(fn: Any) -> None:
    with pytest.raises(HookTypeError, match="callable"):
        add_step_callback(fn)


def test_an_async_callback_is_refused() -> None:
    async def callback(step: Step) -> None: ...

    with pytest.raises(HookTypeError, match="plain function"):
        add_step_callback(callback)


@pytest.mark.parametrize("sampling", [-0.1, 1.1, float("nan"), True, "half"])
def test_sampling_is_a_share(sampling: Any) -> None:
    with pytest.raises(ArgumentError, match="from 0 to 1"):
        add_step_callback(print, sampling=sampling)
