"""A profile sees the programs that run in it, with their parts; outside of one nothing is noted."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import optim, sync
from asyncgrad.tracing import watching
from asyncgrad.tracing.table import Table
from tests.observing.profile.trace_format import violations
from tests.tracing.running import bits, compiled, grads_of


def loss(w: Any, x: Any) -> Any:
    return (np.sort(np.tanh(x @ w) * 2 + 1, axis=0) ** 2).mean()


def arguments() -> tuple[ag.Tensor, np.ndarray]:
    return ag.tensor(np.ones((2, 1)), requires_grad=True), np.arange(6.0).reshape(3, 2)


def programs(prof: ag.profile) -> list[Any]:
    return [event for event in prof.events if event.program is not None]


@pytest.mark.parametrize("backend", ["table", "runner", "fused"])
def test_a_profile_sees_forward_and_backward_of_a_program_around_their_parts(backend):
    if backend != "table":
        pytest.importorskip("llvmlite")
    w, x = arguments()
    jitted = compiled(loss, w, x, backend=backend)
    expected = grads_of(lambda w: loss(w, x), [w.numpy()])

    with ag.profile() as prof:
        found = grads_of(lambda w: jitted(w, x), [w.numpy()])

    assert found == expected
    assert jitted.counts["replayed"] == 2
    wholes = [event for event in programs(prof) if event.kind == "program"]
    assert [event.name for event in wholes] == ["forward of loss", "backward of loss"]
    assert {event.program for event in wholes} == {"loss"}
    parts = [event for event in programs(prof) if event.kind == "part"]
    assert all(any(one.began <= part.began <= part.ended <= one.ended for one in wholes) for part in parts)
    assert all(one.ended <= other.began for one, other in itertools.pairwise(parts))
    if backend == "table":
        assert parts == []
    else:
        assert {"argsort", "add.at"} & {part.name for part in parts} == {"argsort", "add.at"}
        assert any(part.name.startswith("runner, ") for part in parts)
        assert any(part.name.startswith("kernel of ") for part in parts) == (backend == "fused")
    assert [event.name for event in prof.events if event.kind == "backward"] == ["ReplayBackward", "AccumulateGrad"]


def test_each_kernel_is_a_part_and_each_part_is_seen_in_the_table():
    pytest.importorskip("llvmlite")
    x = np.ones(5)
    jitted = compiled(lambda x: np.exp(x * 2 + 1) - np.exp(x * 3 - 1) / 2, x, backend="fused")

    with ag.profile() as prof:
        jitted(x)

    names = [event.name for event in programs(prof) if event.kind == "part"]
    assert [name for name in names if "kernel" in name] == ["kernel of 2 steps"] * 3
    assert all(name in prof.table() for name in names)


def test_programs_have_a_lane_in_the_trace(tmp_path: Path):
    w, x = arguments()
    jitted = compiled(loss, w, x)

    with ag.profile() as prof:
        sync.backward(jitted(w, x))
    prof.export_chrome_trace(tmp_path / "trace.json")

    text = (tmp_path / "trace.json").read_text()
    assert violations(text) == []
    events = json.loads(text)["traceEvents"]
    (lane,) = [
        one["tid"]
        for one in events
        if one["name"] == "thread_name" and one["args"]["name"].startswith("program of loss")
    ]
    slices = {one["name"]: one["cat"] for one in events if one["ph"] == "X" and one["tid"] == lane}
    assert slices["forward of loss"] == slices["backward of loss"] == "program"
    assert {*slices.values()} <= {"program", "part"}


def test_a_training_step_on_a_worker_is_a_program_of_that_thread():
    w, x = arguments()
    step = ag.jit.train_step(lambda x: loss(w, x), optim.SGD([w], lr=0.125))

    async def main() -> ag.profile:
        for _ in range(8):
            await step(x)
        with ag.loop_budget(0.0):
            async with ag.profile() as prof:
                await step(x)
        return prof

    prof = ag.run(main())

    (whole,) = [event for event in programs(prof) if event.kind == "program"]
    assert whole.name.startswith("forward of train_step of ")
    assert whole.thread != "MainThread"
    assert not [event for event in prof.events if event.kind == "backward"]


def doubled(x: Any) -> Any:
    return np.tanh(x) * 2


def test_the_rows_of_a_map_are_one_program():
    mapped, batch = ag.func.vmap(doubled), np.ones((80, 3))
    mapped(batch)

    with ag.profile() as prof:
        mapped(batch)

    assert [event.name for event in programs(prof)] == ["forward of ag.func.vmap(doubled)"]


def test_what_is_not_traced_yet_is_eager_in_a_profile_and_seen_node_by_node():
    w, x = arguments()
    jitted = ag.jit(loss, verify=0)

    with ag.profile() as prof:
        for _ in range(5):
            sync.backward(jitted(w, x))

    assert jitted.counts["eager: in a profile, and not yet traced and compared"] == 5
    assert jitted.counts["traces"] == 0
    assert programs(prof) == []
    assert [event.name for event in prof.events if event.kind == "forward"].count("tanh") == 5


def test_what_is_not_compared_yet_is_eager_in_a_profile():
    w, x = arguments()
    jitted = ag.jit(loss, verify=2)
    for _ in range(3):
        jitted(w, x)

    with ag.profile() as prof:
        jitted(w, x)

    assert jitted.counts["verified"] == 1
    assert [event.name for event in prof.events].count("tanh") == 1


def test_a_profile_of_the_process_sees_programs_too():
    w, x = arguments()
    jitted = compiled(loss, w, x)

    with ag.profile(whole_process=True) as prof:
        jitted(w, x)

    assert [event.name for event in programs(prof) if event.kind == "program"] == ["forward of loss"]


def test_without_a_profile_the_run_itself_is_called():
    w, x = arguments()
    jitted = compiled(loss, w, x)
    (variant,) = next(iter(jitted._families.values())).variants
    table = variant.take_table()

    assert watching.watched(table, "loss", "forward", table.run_forward) == table.run_forward
    with ag.profile() as prof:
        assert watching.watched(table, "loss", "forward", table.run_forward) != table.run_forward
    assert watching.watched(table, "loss", "forward", table.run_forward) == table.run_forward
    assert prof.events == ()


def test_a_run_that_fails_is_not_told_of_and_the_next_one_is_not_noted(monkeypatch):
    x = np.ones(3)
    jitted = compiled(lambda x: x * 2 if x[0] > 0 else x * 3, x)

    with ag.profile() as prof:
        assert bits(jitted(-x)) == bits(-x * 3)

    assert programs(prof) == []
    (variant,) = next(iter(jitted._families.values())).variants
    table = variant.take_table()
    assert isinstance(table, Table)
    assert table.note is None
