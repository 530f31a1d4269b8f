"""Traces follow the trace event format, and show what overlaps."""

from __future__ import annotations

import asyncio
import contextlib
import io
import itertools
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from examples import async_rule
from tests.core.engine.heavy import heavy_calling, large
from tests.observing.profile.programs import Nested
from tests.observing.profile.trace_format import violations
from tests.support.failing import Trouble, raising
from tests.support.loops import one_loop


def traced(prof: ag.profile, path: Path) -> tuple[str, list[dict[str, Any]]]:
    prof.export_chrome_trace(path / "trace.json")
    text = (path / "trace.json").read_text()
    return text, json.loads(text)["traceEvents"]


def lane_names(events: list[dict[str, Any]]) -> dict[int, str]:
    return {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}


@one_loop
async def test_the_trace_of_the_async_rule_shows_eight_rules_that_wait_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_rule, "LATENCY", 0.001)

    # All eight begin in the first step of the backward, however slow the machine is.
    with ag.profile() as prof, ag.loop_budget(100.0), contextlib.redirect_stdout(io.StringIO()):
        await async_rule.main()
    text, events = traced(prof, tmp_path)
    waiting = [event for event in events if event.get("cat") == "waiting"]
    first_end = next(index for index, event in enumerate(waiting) if event["ph"] == "e")

    assert violations(text) == []
    assert sum(event["ph"] == "b" for event in waiting[:first_end]) == 8
    assert any(event["name"] == "nodes in flight" and event["args"]["nodes"] >= 8 for event in events)


@one_loop
async def test_the_trace_of_many_models_has_a_backward_for_each_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tqdm", reason="needs tqdm: pip install 'asyncgrad[demo]'")
    from examples import many_models

    monkeypatch.setattr(many_models, "LATENCY", 0.0)

    with ag.profile() as prof:
        fleet = many_models.Fleet(many_models.parse(["--models", "4", "--steps", "2", "--quiet"]))
        await fleet.train()
    text, events = traced(prof, tmp_path)

    assert violations(text) == []
    assert sum(event["ph"] == "b" and event["cat"] == "backward" for event in events) == 8
    assert {"nodes in flight", "bytes saved"} <= {event["name"] for event in events if event["ph"] == "C"}


@one_loop
async def test_workers_and_devices_have_lanes_of_their_own(tmp_path: Path) -> None:
    async with ag.profile() as prof:
        with ag.workers(1), ag.offload_threshold(0.0):
            await heavy_calling(large(), lambda grad: None).sum().backward()
        x = ag.tensor([1.0, 2.0], requires_grad=True)
        await np.tanh(x.to("thread:0")).sum().backward()
    text, events = traced(prof, tmp_path)
    names = lane_names(events)
    worker = {names[event["tid"]] for event in events if event.get("cat") == "worker"}
    device = {names[event["tid"]] for event in events if event.get("cat") == "device"}
    threads = {names[event["tid"]] for event in events if event.get("cat") == "backward" and event["ph"] == "X"}

    assert violations(text) == []
    assert len(worker) == 1
    assert next(iter(worker)).startswith("asyncgrad worker")
    assert {name.partition(" ")[0] for name in device} == {"thread:0"}
    assert "MainThread (event loop)" in threads
    assert not any("0x" in name for name in names.values())


def test_threads_of_one_name_have_lanes_of_their_own(tmp_path: Path) -> None:
    def train() -> None:
        x = ag.tensor([1.0, 2.0], requires_grad=True)
        ag.sync.backward(np.tanh(x).sum())

    with ag.profile(whole_process=True) as prof:
        # Both live at once: the id of a thread that has ended is given to the next.
        threads = [threading.Thread(target=lambda: (train(), both.wait(10)), name="trainer") for _ in range(2)]
        both = threading.Barrier(2)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    text, events = traced(prof, tmp_path)

    assert violations(text) == []
    assert {"trainer", "trainer (2)"} <= set(lane_names(events).values())


@one_loop
async def test_arrows_lead_from_forward_to_backward_and_from_a_nested_backward_to_its_parent(tmp_path: Path) -> None:
    async with ag.profile() as prof:
        await Nested.apply(ag.tensor([1.0], requires_grad=True)).sum().backward()
    text, events = traced(prof, tmp_path)
    arrows = [event["name"] for event in events if event["ph"] == "s"]

    assert violations(text) == []
    assert arrows.count("forward") == 4
    assert arrows.count("nested") == 1


def test_bytes_saved_go_up_in_the_forward_and_back_to_zero_in_the_backward(tmp_path: Path) -> None:
    with ag.profile() as prof:
        x = ag.tensor(np.ones(8), requires_grad=True)
        ag.sync.backward(np.tanh(x * x).sum())
    _, events = traced(prof, tmp_path)
    counts = [event["args"]["bytes"] for event in events if event["name"] == "bytes saved"]

    assert counts == [128, 192, 128, 0]


def test_bytes_saved_until_success_stay_after_a_failure_and_go_at_the_end_of_the_backward_that_succeeds(
    tmp_path: Path,
) -> None:
    with ag.profile() as prof:
        x = ag.tensor(np.ones(8), requires_grad=True)
        loss = np.tanh(x * x).sum()
        with x.register_hook(raising(Trouble("once"))), pytest.raises(Trouble):
            ag.sync.backward(loss, retain_graph="until_success")
        ag.sync.backward(loss, retain_graph="until_success")
    _, events = traced(prof, tmp_path)
    counts = [event["args"]["bytes"] for event in events if event["name"] == "bytes saved"]

    assert counts == [128, 192, 0]


@one_loop
async def test_a_backward_that_failed_has_a_valid_trace(tmp_path: Path) -> None:
    never = asyncio.Event()
    from tests.observing.profile.programs import Failing, Waiting

    x = ag.tensor([1.0], requires_grad=True)
    async with ag.profile() as prof:
        with pytest.raises(ZeroDivisionError):
            await (Failing.apply(x) + Waiting.apply(x, never)).sum().backward()
    text, _ = traced(prof, tmp_path)

    assert violations(text) == []
    assert {event.name: event.status for event in prof.events if event.status != "done"} == {
        "FailingBackward": "failed",
        "WaitingBackward": "cancelled",
    }


SLICE = {"ph": "X", "name": "a", "cat": "c", "ts": 1, "dur": 2, "pid": 1, "tid": 1}
NAME = {"ph": "M", "name": "thread_name", "ts": 0, "pid": 1, "tid": 1, "args": {"name": "lane"}}
BEGIN = {"ph": "b", "name": "a", "cat": "c", "id2": {"local": "1"}, "ts": 1, "pid": 1, "tid": 1}
START = {"ph": "s", "name": "a", "cat": "c", "id": 1, "ts": 1, "pid": 1, "tid": 1}


@pytest.mark.parametrize(
    ("events", "complaint"),
    [
        ([{"ph": "Q"}], "unknown phase"),
        ([NAME, {**SLICE, "ts": -1}], "below zero"),
        ([{key: value for key, value in SLICE.items() if key != "dur"}], "without ['dur']"),
        ([SLICE], "lanes without a name"),
        ([NAME, {**NAME, "tid": 2}], "lanes with one name"),
        ([NAME, SLICE, {**SLICE, "ts": 0}], "before the event above it"),
        ([NAME, SLICE, {**SLICE, "ts": 2}], "overlaps"),
        ([NAME, BEGIN], "never ends"),
        ([NAME, {**BEGIN, "ph": "e"}], "is not open"),
        ([NAME, SLICE, START], "is no pair"),
        ([NAME, START, {**START, "ph": "f", "bp": "e"}], "points to no slice"),
        ([{**NAME, "args": {}}], "metadata without"),
        ([{"ph": "C", "name": "a", "ts": 0, "pid": 1, "tid": 1, "args": {"x": "1"}}], "counter without"),
    ],
)
def test_the_checker_of_traces_finds_what_is_wrong(events: list[dict[str, Any]], complaint: str) -> None:
    found = violations(json.dumps({"traceEvents": events}))

    assert any(complaint in one for one in found), found


def test_times_are_whole_nanoseconds_also_where_a_viewer_cuts_off(tmp_path: Path) -> None:
    ticks = itertools.count(123_456_789_001, 7)

    with ag.profile(clock=lambda: next(ticks) / 1e9) as prof:
        ag.sync.backward((ag.tensor([1.0, 2.0], requires_grad=True) * 2.0).sum())
    prof.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    slices = {event["name"]: event for event in events if event["ph"] == "X" and event["cat"] == "backward"}

    for event in prof.events:
        if event.kind == "backward":
            assert int(slices[event.name]["ts"] * 1000) == round(slices[event.name]["ts"] * 1000) == event.began
            assert int(slices[event.name]["dur"] * 1000) == event.duration
