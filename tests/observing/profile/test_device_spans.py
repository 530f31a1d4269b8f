"""The timeline of asynchronous devices: what they do, on which stream, and when."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, optim
from asyncgrad.core.recording.primitive import RULES
from asyncgrad.errors import ArgumentError, DeviceError, ProfileError
from asyncgrad.observing.profile import DeviceSpan
from asyncgrad.testing import SimulatedAccelerator
from tests.observing.profile.trace_format import violations
from tests.support.loops import on_each_loop
from tests.support.sampling import cases


@pytest.fixture
def device() -> SimulatedAccelerator:
    """Each operation takes a second, and a copy a second and one for each byte."""
    return SimulatedAccelerator(latency=1.0, bandwidth=1e30, flops=1e30, host_bandwidth=1.0)


def profile_of(device: SimulatedAccelerator, **options: Any) -> ag.profile:
    """A profile by the clock of a device."""
    return ag.profile(clock=lambda: device.clock.now, **options)


def leaf(device: Any, side: int = 4) -> ag.Tensor:
    return ag.tensor(np.full((side, side), 0.5), device=device, requires_grad=True)


def seconds(span: DeviceSpan) -> tuple[float, float]:
    return span.began / 1e9, span.ended / 1e9


def named(prof: ag.profile, *names: str) -> list[DeviceSpan]:
    return [span for span in prof.device_spans if span.name in names]


def overlap(first: list[DeviceSpan], second: list[DeviceSpan]) -> bool:
    return any(one.began < other.ended and other.began < one.ended for one in first for other in second)


def do_not_overlap(spans: list[DeviceSpan]) -> bool:
    return all(first.ended <= second.began for first, second in pairwise(spans))


def by_stream(prof: ag.profile) -> dict[str, list[DeviceSpan]]:
    found = defaultdict(list)
    for span in prof.device_spans:
        found[f"{span.device} {span.stream}"].append(span)
    return found


def run_branches(device: SimulatedAccelerator, streams: list[Any]) -> None:
    """Forward and backward of a branch on each stream."""
    leaves, roots = [leaf(device) for _ in streams], []
    for stream in streams:
        stream.wait_stream(device.current_stream())
    for x, stream in zip(leaves, streams, strict=True):
        with stream:
            roots.append(np.tanh(np.tanh(x)))
    for stream in streams:
        device.current_stream().wait_stream(stream)
    ag.sync.backward((roots[0] + roots[1]).sum())


# What is seen.


def test_two_branches_on_two_streams_overlap_in_forward_and_backward(device: SimulatedAccelerator) -> None:
    one, two = device.stream(), device.stream()
    with profile_of(device) as prof:
        run_branches(device, [one, two])
    lanes = by_stream(prof)
    first, second = lanes[f"{device} stream {one.index}"], lanes[f"{device} stream {two.index}"]

    for name in ("tanh", "TanhBackward"):
        left, right = ([span for span in lane if span.name == name] for lane in (first, second))
        assert len(left) == len(right) == 2
        assert overlap(left, right)


def test_two_branches_on_one_stream_do_not_overlap(device: SimulatedAccelerator) -> None:
    one = device.stream()
    with profile_of(device) as prof:
        run_branches(device, [one, one])
    spans = by_stream(prof)[f"{device} stream {one.index}"]

    assert len(named(prof, "tanh", "TanhBackward")) == 8
    assert do_not_overlap(spans)


def test_a_copy_on_a_stream_of_its_own_overlaps_computation(device: SimulatedAccelerator) -> None:
    y, stream = leaf(device), device.stream()
    stream.wait_stream(device.current_stream())
    with profile_of(device) as prof:
        for _ in range(10):
            y = np.tanh(y)
        with stream:
            ag.tensor(np.ones(1)).to(device)
    (copied,) = named(prof, "copy to the device")

    assert (copied.kind, copied.stream, copied.bytes) == ("copy", f"stream {stream.index}", 8)
    assert sum(overlap([copied], [span]) for span in named(prof, "tanh")) == 9


def test_forward_spans_are_what_the_accelerator_has_recorded(device: SimulatedAccelerator) -> None:
    with profile_of(device) as prof:
        x = leaf(device)
        with device.stream() as stream:
            stream.wait_stream(device.default_stream())
            y = np.tanh(x @ x)
        z = np.exp(x) * 2
        device.current_stream().wait_stream(stream)
        (y * z).sum()
    launched = sorted(prof.device_spans, key=lambda span: (span.began, span.stream))
    recorded = sorted(device.timeline, key=lambda one: (one.begin, one.stream.label))

    assert [(span.stream, *seconds(span)) for span in launched] == [
        (one.stream.label, pytest.approx(one.begin), pytest.approx(one.end)) for one in recorded
    ]
    assert [span.kernels for span in launched] == [1] * len(recorded)


@pytest.mark.parametrize("seed", range(cases(40)))
def test_a_stream_does_one_thing_at_a_time_and_each_span_is_that_of_its_operations(seed: int) -> None:
    random, device = Random(seed), SimulatedAccelerator(latency=1.0, bandwidth=64.0, flops=1e30, host_bandwidth=32.0)
    streams = [device.default_stream(), device.stream(), device.stream()]
    functions: list[Callable[..., Any]] = [np.tanh, np.exp, lambda x: x * 0.5, lambda x: x @ x, nn.softmax]
    with profile_of(device) as prof:
        values = [leaf(device, random.choice([2, 4])) for _ in range(2)]
        for _ in range(15):
            stream, value = random.choice(streams), random.choice(values)
            for other in streams:
                stream.wait_stream(other)
            with stream:
                values.append(random.choice(functions)(value * random.random()))
        for stream in streams:
            device.current_stream().wait_stream(stream)
        ag.sync.backward([value.sum() for value in values[2:]])
    edges = {
        (one.stream.label, side) for one in device.timeline for side in (round(one.begin * 1e9), round(one.end * 1e9))
    }

    for lane in by_stream(prof).values():
        # The formulas of softmax are functions of their own, which lie inside of its node.
        assert do_not_overlap([span for span in lane if span.name != "softmax_grad"])
    for span in prof.device_spans:
        if span.duration:
            assert {(span.stream, round(side, -1)) for side in (span.began, span.ended)} <= {
                (label, round(side, -1)) for label, side in edges
            }


def test_each_call_and_each_run_has_the_times_of_its_device(device: SimulatedAccelerator) -> None:
    with profile_of(device) as prof:
        x = leaf(device)
        with ag.no_grad():
            np.tanh(x)
        y = np.tanh(x)
        with device.stream() as stream:
            stream.wait_stream(device.default_stream())
            z = np.tanh(y)
        device.current_stream().wait_stream(stream)
        ag.sync.backward(np.concatenate([y, z]).sum())
    ran = {event.name: event for event in prof.events if event.kind == "backward"}
    calls = [event for event in prof.events if event.kind == "forward"]

    assert {(event.name, (event.device_began or 0) / 1e9, event.kernels) for event in calls} == {
        ("tanh", 130.0, 1),
        ("tanh", 131.0, 1),
        ("Concatenate", 132.0, 1),
        ("sum", 133.0, 1),
    }
    assert all(event.began == 0 and event.device_time == 1e9 for event in calls)
    assert ran["TanhBackward"].device_time == 3e9
    assert ran["TanhBackward"].kernels == 3
    assert [span.event is None for span in named(prof, "tanh")] == [True, False, False]
    assert len({span.event for span in prof.device_spans if span.event is not None}) == len(prof.events)
    assert all(prof.events[span.event].name == span.name for span in prof.device_spans if span.event is not None)


def test_no_span_begins_before_the_host_has_launched_it(device: SimulatedAccelerator) -> None:
    with ag.profile(clock=lambda: 1000.0 + device.clock.now) as prof:
        x = leaf(device)
        _ = device.synchronize()
        np.tanh(x).sum().item()
        np.exp(x)
    begins = {span.name: seconds(span)[0] for span in prof.device_spans}

    assert begins == {"copy to the device": 1000.0, "tanh": 1129.0, "sum": 1130.0, "exp": 1132.0}
    assert all(span.launched <= span.began for span in prof.device_spans)


def test_steps_of_optimizers_and_copies_are_in_the_table(device: SimulatedAccelerator) -> None:
    with profile_of(device) as prof:
        x = leaf(device)
        ag.sync.backward((x * x).sum())
        optim.SGD([x], lr=0.1).step()
        x.detach().to("cpu")
    lines = {line.split("  ")[0]: line.split() for line in prof.table("device").splitlines()[2:]}

    assert lines["SGD.step"][-2:] == ["2,000,000.0", "2"]
    assert lines["multiply"][-2:] == ["1,000,000.0", "1"]
    assert lines["copy to the host"][-3:] == ["0.000", "129,000,000.0", "1"]
    assert next(iter(lines)) in ("copy to the host", "copy to the device")


def test_a_table_without_devices_has_no_column_for_them() -> None:
    with ag.profile() as prof:
        ag.sync.backward((ag.tensor([1.0], requires_grad=True) * 2).sum())

    assert prof.device_spans == ()
    assert "device" not in prof.table("device")
    assert prof.events[0].device_time is None
    with pytest.raises(ArgumentError, match="'kernels'"):
        prof.table("devices")


# Nodes and Functions.


class Held(ag.Function):
    """x times 2, whose backward waits for an event between two operations."""

    @staticmethod
    def forward(ctx: Any, x: Any, held: asyncio.Event) -> Any:
        ctx.held = held
        return np.exp(x) * 2

    @staticmethod
    async def backward(ctx: Any, grad: Any) -> Any:
        grad = grad * 2
        await ctx.held.wait()
        return grad * 3, None


class AsyncDouble(ag.Function):
    """x times 2, after a wait."""

    @staticmethod
    async def forward(ctx: Any, x: Any) -> Any:
        await asyncio.sleep(0)
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2


class Releasing(ag.Function):
    """x, whose backward sets an event."""

    @staticmethod
    def forward(ctx: Any, x: Any, held: asyncio.Event) -> Any:
        ctx.held = held
        return x * 1

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        ctx.held.set()
        return grad * 1, None


async def test_a_node_that_waits_leaves_its_stream_to_others(device: SimulatedAccelerator) -> None:
    x, held = leaf(device), asyncio.Event()
    async with profile_of(device) as prof:
        # The younger node runs first, and waits for the older one.
        other = Releasing.apply(x, held)
        await (other + Held.apply(x, held)).sum().backward()
    parts = named(prof, "HeldBackward")
    (between,) = named(prof, "ReleasingBackward")
    (event,) = (event for event in prof.events if event.name == "HeldBackward")

    assert len(parts) == 2
    assert parts[0].ended <= between.began < between.ended <= parts[1].began
    assert event.device_time == parts[0].duration + parts[1].duration
    assert (event.device_began, event.device_ended) == (parts[0].began, parts[1].ended)


def test_the_operations_of_a_function_lie_inside_of_it(device: SimulatedAccelerator) -> None:
    with profile_of(device) as prof:
        Held.apply(leaf(device), asyncio.Event())
    (whole,), parts = named(prof, "Held"), named(prof, "exp", "multiply")

    assert len(parts) == 2
    assert all(whole.began <= part.began and part.ended <= whole.ended for part in parts)
    assert whole.event == 0
    assert prof.events[0].device_time == 2e9


async def test_of_a_function_that_suspends_only_its_operations_are_seen(device: SimulatedAccelerator) -> None:
    async def main() -> ag.profile:
        x = leaf(device)
        async with profile_of(device) as prof:
            await asyncio.gather(AsyncDouble.apply(x), AsyncDouble.apply(x))
        return prof

    assert [span.name for span in (await main()).device_spans] == ["multiply", "multiply"]


def test_the_critical_path_is_that_of_the_host(device: SimulatedAccelerator) -> None:
    x = leaf(device)
    with ag.profile() as prof:
        ag.sync.backward(np.tanh(x * x).sum())

    assert [step.node.name for step in prof.critical_path()] == [
        "SumBackward",
        "TanhBackward",
        "MultiplyBackward",
        "AccumulateGrad",
    ]
    assert sum(step.own_time for step in prof.critical_path()) <= 1e9


# Who sees what.


def test_after_a_profile_wrappers_are_as_they_were(device: SimulatedAccelerator) -> None:
    x = leaf(device)
    np.tanh(x)
    call: Any = RULES[np.tanh]
    names = call.__globals__
    before = names["_function"]
    with ag.profile():
        np.tanh(x)
        assert names["_function"] is not before
        with ag.profile():
            pass
        assert names["_function"] is not before

    assert names["_function"] is before


async def test_a_profile_sees_the_work_of_its_own_context(device: SimulatedAccelerator) -> None:
    async def work(function: Any, begun: asyncio.Event, go_on: asyncio.Event) -> None:
        begun.set()
        await go_on.wait()
        function(leaf(device))

    async def main() -> ag.profile:
        begun, go_on = asyncio.Event(), asyncio.Event()
        other = asyncio.ensure_future(work(np.exp, begun, go_on))
        await begun.wait()
        async with ag.profile() as prof:
            mine = asyncio.ensure_future(work(np.tanh, begun, go_on))
            go_on.set()
            await asyncio.gather(mine, other)
        return prof

    assert [span.name for span in (await main()).device_spans if span.kind == "forward"] == ["tanh"]


def test_a_profile_of_the_process_sees_all_threads(device: SimulatedAccelerator) -> None:
    with ag.profile(whole_process=True) as prof:
        thread = threading.Thread(target=lambda: ag.sync.backward(np.tanh(leaf(device)).sum()), name="elsewhere")
        thread.start()
        thread.join()
    seen = named(prof, "tanh", "TanhBackward")

    assert len(seen) == 2
    assert {prof.events[span.event or 0].thread for span in seen} == {"elsewhere"}


def test_a_device_that_is_opened_inside_of_a_profile_is_seen() -> None:
    gc.collect()
    with ag.profile() as prof:
        np.tanh(leaf(SimulatedAccelerator()))

    assert len(named(prof, "tanh")) == 1


def test_a_profile_keeps_no_graph_and_no_event(device: SimulatedAccelerator) -> None:
    with ag.profile() as prof:
        x = leaf(device)
        y = np.tanh(x)
        node = weakref.ref(y.grad_fn)
        del y

    assert node() is None
    assert len(prof.device_spans) == 2


# Waiting, and failure.


@pytest.fixture
def pending(device: SimulatedAccelerator) -> ag.profile:
    """A profile of work that is not done when its block ends."""
    with profile_of(device) as prof:
        ag.sync.backward(np.tanh(leaf(device)).sum())
    assert device.clock.now == 0.0
    return prof


READERS: dict[str, Callable[[ag.profile, Path], Any]] = {
    "events": lambda prof, path: prof.events,
    "device_spans": lambda prof, path: prof.device_spans,
    "table()": lambda prof, path: prof.table(),
    "export_chrome_trace()": lambda prof, path: prof.export_chrome_trace(path / "trace.json"),
}


@pytest.mark.parametrize("what", READERS)
async def test_reading_what_is_not_done_never_blocks_a_loop(pending: ag.profile, what: str, tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(ProfileError, match=r"write await prof\.synchronize\(\) before") as caught:
            READERS[what](pending, tmp_path)
        assert what in str(caught.value)
        assert "at work: await prof.synchronize()" in repr(pending)
        assert "TanhBackward" in pending._repr_html_()
        assert len(pending.critical_path()) == 3
        await pending.synchronize()
        READERS[what](pending, tmp_path)
        assert "at work" not in repr(pending)

    if pending.critical_path():
        await main()


@pytest.mark.parametrize("what", READERS)
def test_in_a_thread_without_a_loop_reading_waits(
    device: SimulatedAccelerator, pending: ag.profile, what: str, tmp_path: Path
) -> None:
    READERS[what](pending, tmp_path)

    assert device.clock.now > 0


async def test_an_async_block_waits_at_its_end_and_not_after_an_error(device: SimulatedAccelerator) -> None:
    async with profile_of(device) as prof:
        np.tanh(leaf(device))
    assert len(prof.device_spans) == 2
    before = device.clock.now
    with contextlib.suppress(ZeroDivisionError):
        async with profile_of(device):
            np.tanh(leaf(device))
            raise ZeroDivisionError
    assert device.clock.now == before


@on_each_loop
def test_of_a_device_that_has_died_the_events_of_the_host_are_left(run: Any, device: SimulatedAccelerator) -> None:
    async def main() -> ag.profile:
        async with ag.profile() as prof:
            y = np.tanh(leaf(device)).sum()
            device.die("as it should be")
            with pytest.raises(DeviceError, match="as it should be"):
                await y.backward()
        return prof

    prof = run(main())

    assert [event.name for event in prof.events if event.kind == "forward"] == ["tanh", "sum"]
    assert prof.device_spans == ()


def test_a_call_that_fails_leaves_no_span(device: SimulatedAccelerator) -> None:
    with ag.profile() as prof, pytest.raises(ValueError, match="mismatch"):
        leaf(device, 2) @ leaf(device, 3)

    assert [span.kind for span in prof.device_spans] == ["copy", "copy"]


# The trace.


def test_a_trace_has_a_lane_for_each_stream_and_arrows_from_the_launches(tmp_path: Path) -> None:
    device = SimulatedAccelerator(latency=1e-3)
    with ag.profile() as prof:
        streams = [device.stream(), device.stream()]
        run_branches(device, streams)
        with ag.no_grad():
            np.exp(leaf(device))
    prof.export_chrome_trace(tmp_path / "trace.json")
    text = (tmp_path / "trace.json").read_text()
    events = json.loads(text)["traceEvents"]
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    slices = [event for event in events if event.get("cat") == "device"]
    arrows = [event for event in events if event.get("cat") == "launch" and event["ph"] in "sf"]

    assert violations(text) == []
    assert {names[event["tid"]] for event in slices} == {
        f"{device} {name}" for name in ("default stream", "stream 1", "stream 2")
    }
    assert len(slices) == len(prof.device_spans) == len(arrows) / 2
    assert {names[event["tid"]].partition(" ")[0] for event in arrows if event["ph"] == "f"} == {str(device)}
    assert any(event["name"] == "exp" and event["cat"] == "launch" for event in events if event["ph"] == "X")
