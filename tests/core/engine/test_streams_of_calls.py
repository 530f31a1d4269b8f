"""Streams of calls: in order on one, overlapping on two, events between them, and no order that could never be kept."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from typing import Any

import pytest

import asyncgrad as ag
from asyncgrad.devices import Device
from asyncgrad.errors import DeviceError
from asyncgrad.testing import SimulatedAccelerator
from tests.support.loops import on_each_loop


@pytest.fixture(params=["cpu", "null:0", "thread:0"])
def device(request: pytest.FixtureRequest) -> Any:
    return ag.device(request.param)


class StepLog:
    """Steps that note their begin and end, and may wait for a gate."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    async def step(self, name: str, turns: int = 2) -> str:
        self.lines.append(f"{name} begins")
        for _ in range(turns):
            await asyncio.sleep(0)
        self.lines.append(f"{name} ends")
        return name

    async def step_after(self, name: str, gate: threading.Event) -> None:
        self.lines.append(f"{name} begins")
        await gate_opened(gate)
        self.lines.append(f"{name} ends")

    def plain(self, name: str) -> None:
        self.lines.append(name)

    async def begun(self) -> None:
        for _ in range(1_000_000):
            if self.lines:
                return
            await asyncio.sleep(0)
        raise AssertionError("nothing has begun")


async def gate_opened(gate: threading.Event) -> None:
    """Wait for what another task, or another thread, is to do; raise where it does not."""
    for _ in range(1_000_000):
        if gate.is_set():
            return
        await asyncio.sleep(0)
    raise AssertionError("what this waits for has not come")


async def call_on(device: Any, stream: Any, function: Any, *args: Any) -> Any:
    with stream:
        return await device.call(function, *args)


async def test_calls_on_one_stream_run_one_after_the_other(device: Any) -> None:
    log = StepLog()

    with device.stream():
        calls = [device.call(log.step, name, turns) for name, turns in (("a", 5), ("b", 1), ("c", 3))]
        done: list[str] = await asyncio.gather(*calls)
        found = done

    assert found == ["a", "b", "c"]
    assert log.lines == [f"{name} {what}" for name in "abc" for what in ("begins", "ends")]


async def test_a_plain_function_waits_for_an_async_one_before_it(device: Any) -> None:
    log = StepLog()

    with device.stream():
        await asyncio.gather(device.call(log.step, "a"), device.call(log.plain, "b"))
    assert log.lines == ["a begins", "a ends", "b"]


def two_gates() -> tuple[threading.Event, threading.Event]:
    return threading.Event(), threading.Event()


async def meet_other(mine: threading.Event, other: threading.Event) -> None:
    mine.set()
    await gate_opened(other)


async def test_calls_on_two_streams_overlap_where_they_suspend(device: Any) -> None:
    one, other = two_gates()

    await asyncio.gather(
        call_on(device, device.stream(), meet_other, one, other),
        call_on(device, device.stream(), meet_other, other, one),
    )


async def test_calls_that_are_on_no_stream_overlap_too(device: Any) -> None:
    one, other = two_gates()

    await asyncio.gather(device.call(meet_other, one, other), device.call(meet_other, other, one))
    with device.stream(device.default_stream()):
        await asyncio.gather(device.call(meet_other, one, other), device.call(meet_other, other, one))


async def test_a_stream_waits_for_an_event_of_another(device: Any) -> None:
    log = StepLog()
    recorded, ended = two_gates()

    first, second = device.stream(), device.stream()
    a = asyncio.ensure_future(call_on(device, first, log.step_after, "a", recorded))
    await asyncio.sleep(0)
    event = first.record_event()
    # What comes after the event is not waited for: it ends only once that has, which waits.
    c = asyncio.ensure_future(call_on(device, first, log.step_after, "c", ended))
    second.wait_event(event)
    b = asyncio.ensure_future(call_on(device, second, log.step, "b", 1))
    await asyncio.sleep(0)
    assert not event.query()
    recorded.set()
    await b
    ended.set()
    await asyncio.gather(a, c)
    assert event.query()
    assert log.lines.index("a ends") < log.lines.index("b begins") < log.lines.index("c ends")


async def test_wait_stream_waits_for_all_that_is_on_the_other_stream(device: Any) -> None:
    log = StepLog()

    first, second = device.stream(), device.stream()
    calls = [asyncio.ensure_future(call_on(device, first, log.step, name)) for name in "ab"]
    await asyncio.sleep(0)
    second.wait_stream(first)
    await call_on(device, second, log.plain, "c")
    await asyncio.gather(*calls)
    assert log.lines == ["a begins", "a ends", "b begins", "b ends", "c"]


async def test_synchronizing_waits_for_what_there_is(device: Any) -> None:
    log = StepLog()
    gate = threading.Event()

    first = device.stream()
    a = asyncio.ensure_future(call_on(device, first, log.step_after, "a", gate))
    b = asyncio.ensure_future(device.call(log.step_after, "b", gate))
    await asyncio.sleep(0)
    event = first.record_event()
    assert not first.query()
    assert not event.query()
    gate.set()
    await event.synchronize()
    assert "a ends" in log.lines
    assert event.query()
    assert first.query()
    await device.synchronize()
    assert "b ends" in log.lines
    await first.synchronize()
    await asyncio.gather(a, b)


async def test_where_no_loop_runs_synchronize_has_waited_when_it_returns(device: Any) -> None:
    log = StepLog()
    begun, asked, waited = threading.Event(), threading.Event(), []

    def wait() -> None:
        begun.wait()
        stream = streams[0]
        asked.set()
        stream.synchronize()
        waited.append(list(log.lines))

    async def hold() -> None:
        begun.set()
        await gate_opened(asked)
        await log.step("a", 5)

    streams: list[Any] = []
    thread = threading.Thread(target=wait)

    streams.append(device.stream())
    thread.start()
    await call_on(device, streams[0], hold)
    thread.join()
    assert waited == [["a begins", "a ends"]]
    device.synchronize()


async def test_a_call_inside_of_a_call_is_part_of_it(device: Any) -> None:
    log = StepLog()

    stream = device.stream()

    async def outer() -> None:
        log.plain("outer begins")
        with stream:
            await device.call(log.step, "inner")
            await device.synchronize()
        log.plain("outer ends")

    await asyncio.gather(call_on(device, stream, outer), call_on(device, stream, log.plain, "next"))
    assert log.lines == ["outer begins", "inner begins", "inner ends", "outer ends", "next"]


async def test_two_calls_that_need_each_others_stream_do_not_wait_for_each_other(device: Any) -> None:
    one, other = two_gates()
    log = StepLog()

    async def cross(mine: threading.Event, its: threading.Event, stream: Any, name: str) -> None:
        await meet_other(mine, its)
        with stream:
            await device.call(log.step, name)

    first, second = device.stream(), device.stream()
    await asyncio.gather(
        call_on(device, first, cross, one, other, second, "a"),
        call_on(device, second, cross, other, one, first, "b"),
    )
    assert sorted(line for line in log.lines if line.endswith("ends")) == ["a ends", "b ends"]


async def test_a_cancelled_call_leaves_the_order_of_the_others(device: Any) -> None:
    log = StepLog()
    gate = threading.Event()

    async def hold() -> None:
        log.plain("a begins")
        await gate_opened(gate)
        log.plain("a ends")

    stream = device.stream()
    a = asyncio.ensure_future(call_on(device, stream, hold))
    b = asyncio.ensure_future(call_on(device, stream, log.plain, "b"))
    c = asyncio.ensure_future(call_on(device, stream, log.plain, "c"))
    await log.begun()
    b.cancel()
    await asyncio.gather(b, return_exceptions=True)
    for _ in range(5):
        await asyncio.sleep(0)
    assert log.lines == ["a begins"]
    gate.set()
    await asyncio.gather(a, c)
    assert b.cancelled()
    assert log.lines == ["a begins", "a ends", "c"]


async def test_a_call_that_raises_gives_its_stream_free(device: Any) -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("a bad step")

    with device.stream():
        done: list[Any] = await asyncio.gather(device.call(fail), device.call(max, 1, 2), return_exceptions=True)
        found = done
    error, value = found
    assert isinstance(error, ValueError)
    assert value == 2


async def test_a_call_sees_its_stream_as_the_current_one(device: Any) -> None:
    with device.stream() as stream:
        assert await device.call(device.current_stream) is stream
    assert await device.call(device.current_stream) is device.default_stream()


def test_blocks_of_streams_nest_and_end_in_any_context(device: Any) -> None:
    first, second = device.stream(), device.stream()
    with device.stream(first) as entered:
        assert entered is first
        with second:
            assert device.current_stream() is second
            with first:
                assert device.current_stream() is first
            assert device.current_stream() is second
        assert device.current_stream() is first
    assert device.current_stream() is device.default_stream()

    @first
    def inside() -> Any:
        return device.current_stream()

    assert inside() is first


def test_a_stream_of_another_device_is_refused(device: Any) -> None:
    other = ag.device("null:1").stream()
    with pytest.raises(DeviceError, match=rf"stream {other.index} of 'null:1' cannot be the current stream of"):
        device.stream(other)
    with pytest.raises(DeviceError, match=r"takes a stream made by device\.stream\(\), not"):
        device.stream(3)


def test_streams_know_their_device_and_number(device: Any) -> None:
    first, second = device.stream(), device.stream()
    assert first.device is second.device is device
    assert second.index == first.index + 1
    assert repr(first) == f"<stream {first.index} of '{device}'>"
    assert device.default_stream().index == 0


def test_a_stream_that_nobody_refers_to_is_freed(device: Any) -> None:
    reference = weakref.ref(device.stream())
    gc.collect()
    assert reference() is None
    assert device.default_stream().query()


async def test_a_stream_of_calls_cannot_wait_for_virtual_time(device: Any) -> None:
    accelerator = SimulatedAccelerator(latency=1.0)
    accelerator.from_host(ag.tensor([1.0]).numpy())
    event = accelerator.default_stream().record_event()
    with pytest.raises(DeviceError, match=r"await it first, with await event\.synchronize\(\)"):
        device.stream().wait_event(event)
    await synchronized(event)
    device.stream().wait_event(event)


async def synchronized(event: Any) -> None:
    await event.synchronize()


async def test_a_node_waits_for_the_calls_before_it_on_its_stream(device: Any) -> None:
    log = StepLog()

    with device.stream() as stream:
        x = ag.tensor([1.0], device=device, requires_grad=True)
        y = (x * 2).sum()
    y.register_hook(lambda grad: log.plain("backward"))
    assert y.grad_fn is not None
    assert y.grad_fn.stream is stream
    call = asyncio.ensure_future(call_on(device, stream, log.step, "a", 5))
    await log.begun()
    await y.backward()
    await call
    assert x.grad is not None
    assert x.grad.tolist() == [2.0]
    assert log.lines == ["a begins", "a ends", "backward"]


async def test_a_backward_inside_of_a_call_on_its_nodes_stream_is_part_of_the_call(device: Any) -> None:
    with device.stream():
        x = ag.tensor([1.0], device=device, requires_grad=True)
        y = (x * 2).sum()
        await device.call(y.backward)
        assert x.grad is not None
        found = x.grad.tolist()

    assert found == [2.0]


async def test_leaf_streams_of_a_device_of_calls_are_those_that_were_entered(device: Any) -> None:
    seen: list[Any] = []

    with device.stream() as stream:
        x = ag.tensor([1.0], device=device, requires_grad=True)
        y = (x * 2).sum()
    y.register_hook(lambda grad: seen.append(ag.engine.current_graph_task()))
    await y.backward()
    assert seen[0].leaf_streams == {stream}


@on_each_loop
def test_a_blocking_backward_waits_for_the_calls_before_it_on_its_stream(device: Any, run: Any) -> None:
    log = StepLog()
    begun, gate = two_gates()

    async def hold() -> None:
        begun.set()
        await gate_opened(gate)
        await log.step("a")

    thread = threading.Thread(target=lambda: asyncio.run(call_on(device, stream, hold)))
    with device.stream() as stream:
        x = ag.tensor([1.0], device=device, requires_grad=True)
        y = (x * 2).sum()
    y.register_hook(lambda grad: log.plain("backward"))
    thread.start()
    begun.wait()
    assert not stream.query()
    gate.set()
    ag.sync.backward(y)
    thread.join()
    assert log.lines == ["a begins", "a ends", "backward"]


async def test_the_callers_stream_waits_at_the_end_for_what_is_on_the_leafs_stream(device: Any) -> None:
    log = StepLog()
    gate = threading.Event()
    calls: list[Any] = []

    async def also(leaf: Any) -> None:
        # The current stream is the leaf's.
        calls.append(asyncio.ensure_future(device.call(log.step_after, "a", gate)))
        await log.begun()

    with device.stream():
        x = ag.tensor([1.0], device=device, requires_grad=True)
        y = (x * 2).sum()
    x.register_post_accumulate_grad_hook(also)
    with device.stream() as caller:
        await y.backward()
        after = asyncio.ensure_future(call_on(device, caller, log.plain, "b"))
        for _ in range(5):
            await asyncio.sleep(0)
        assert log.lines == ["a begins"]
        gate.set()
        await after
    assert log.lines == ["a begins", "a ends", "b"]


async def test_a_backward_on_streams_does_not_wait_for_calls_that_are_on_none(device: Any) -> None:
    log = StepLog()
    gate = threading.Event()

    with device.stream():
        x = ag.tensor([1.0], device=device, requires_grad=True)
        y = (x * 2).sum()
    call = asyncio.ensure_future(device.call(log.step_after, "a", gate))
    await log.begun()
    # Which goes on only after the backward.
    await y.backward()
    gate.set()
    await call
    assert log.lines == ["a begins", "a ends"]


async def test_bodies_that_await_backward_passes_on_each_others_streams_never_wait_for_each_other(device: Any) -> None:
    streams = [device.stream(), device.stream()]

    class Inner(ag.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, depth: int) -> Any:
            ctx.depth = depth
            return x * 1

        @staticmethod
        async def backward(ctx: Any, grad: Any) -> Any:
            if ctx.depth:
                leaf, root = nested(ctx.depth - 1)
                await root.backward()
                grad = grad * leaf.grad
            return grad, None

    def nested(depth: int) -> tuple[Any, Any]:
        with streams[depth % 2], ag.enable_grad():
            leaf = ag.tensor([1.0], device=device, requires_grad=True)
            return leaf, Inner.apply(leaf, depth).sum()

    async def main() -> None:
        pairs = [nested(20), nested(21)]
        await asyncio.gather(*(root.backward() for _, root in pairs))
        assert [leaf.grad.tolist() for leaf, _ in pairs] == [[1.0], [1.0]]

    await main()


@pytest.mark.parametrize("wrong", [None, 3, "thread:0"])
def test_what_is_no_stream_and_no_event_cannot_be_waited_for(device: Any, wrong: Any) -> None:
    for stream in (device.stream(), SimulatedAccelerator().stream()):
        with pytest.raises(DeviceError, match=r"can wait for a stream, of any device, not for "):
            stream.wait_stream(wrong)
        with pytest.raises(DeviceError, match=r"can wait for an event, made by stream\.record_event\(\), not for "):
            stream.wait_event(wrong)


def test_a_device_that_makes_no_streams_is_named() -> None:
    class Streamless(Device):
        name = "streamless:0"

        def make_stream(self, index: int) -> Any:
            return None

    with pytest.raises(DeviceError, match=r"Streamless\.make_stream\(0\) of 'streamless:0' returned None"):
        Streamless().current_stream()
