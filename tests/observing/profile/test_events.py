"""What the events of a profile say."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.errors import ProfileError
from tests.core.engine.heavy import heavy_calling, large
from tests.observing.profile.programs import Failing, Nested, Sleeping, Waiting
from tests.support.loops import one_loop


def backward_of(prof: Any) -> list[Any]:
    return [event for event in prof.events if event.kind == "backward"]


def names(events: Any) -> list[str]:
    return [event.name for event in events]


def times(*values: int | None) -> list[int]:
    """Times that are all known."""
    return [value for value in values if value is not None]


def leaf(*shape: int) -> ag.Tensor:
    return ag.tensor(np.ones(shape), requires_grad=True)


def test_each_call_and_each_run_of_a_node_is_one_event_in_their_order() -> None:
    x = leaf(3)

    with ag.profile() as prof:
        sync.backward((np.tanh(x) * x).sum())

    assert [(event.kind, event.name) for event in prof.events] == [
        ("forward", "tanh"),
        ("forward", "multiply"),
        ("forward", "sum"),
        ("backward", "SumBackward"),
        ("backward", "MultiplyBackward"),
        ("backward", "TanhBackward"),
        ("backward", "AccumulateGrad"),
    ]


def test_an_event_knows_shapes_dtypes_operations_and_bytes() -> None:
    x, w = leaf(4, 3), leaf(3, 2)

    with ag.profile() as prof:
        sync.backward((x @ w).sum())
    product = prof.events[0]
    backward = next(event for event in prof.events if event.name == "MatmulBackward")

    assert product.input_shapes == ((4, 3), (3, 2))
    assert product.output_shapes == ((4, 2),)
    assert product.output_dtypes == (np.dtype(np.float64),)
    assert product.flops == 2 * 4 * 3 * 2
    assert product.bytes == 8 * (12 + 6 + 8)
    assert backward.input_shapes == ((4, 2),)
    assert backward.output_shapes == ((4, 3), (3, 2))
    assert backward.flops == 2 * product.flops
    assert backward.bytes == product.bytes


@pytest.mark.parametrize("trained", ["first", "second"])
def test_the_operations_of_a_product_are_known_beside_a_constant(trained: str) -> None:
    x, w = (leaf(4, 3), np.ones((3, 2))) if trained == "first" else (np.ones((4, 3)), leaf(3, 2))

    with ag.profile() as prof:
        sync.backward(np.matmul(x, w).sum())

    assert prof.events[0].flops == 48
    assert next(event for event in prof.events if event.name == "MatmulBackward").flops == 48


def test_operations_of_convolutions_elementwise_functions_and_reductions_are_counted() -> None:
    image, weight = leaf(2, 3, 8, 8), leaf(5, 3, 3, 3)

    with ag.profile() as prof:
        np.exp(nn.conv2d(image, weight)).sum().reshape(1)
    convolution, exponential, reduction, view = prof.events

    assert convolution.flops == 2 * (2 * 5 * 6 * 6) * 3 * 3 * 3
    assert exponential.flops == 2 * 5 * 6 * 6
    assert reduction.flops == 2 * 5 * 6 * 6
    assert view.flops == 0


def test_operations_that_nobody_knows_are_none() -> None:
    with ag.profile() as prof:
        sync.backward(np.linalg.inv(leaf(2, 2) + np.eye(2)).sum())

    assert next(event.flops for event in prof.events if event.name == "inv") is None


def test_the_run_of_a_node_leads_to_its_forward_call() -> None:
    x = leaf(2)

    with ag.profile() as prof:
        y = np.tanh(x)
        z = y.sum()
        sync.backward(z)
    tanh, line = y.grad_fn, test_the_run_of_a_node_leads_to_its_forward_call.__code__.co_firstlineno + 4
    forward, backward = (event for event in prof.events if event.sequence_nr == tanh.sequence_nr)

    assert forward.line == backward.line == f"{__file__}:{line}"
    assert backward.forward_sequence_nr == forward.sequence_nr
    assert backward.node_id == forward.node_id == id(tanh)
    assert sorted(times(forward.ended, backward.ready, backward.began, backward.ended)) == times(
        forward.ended, backward.ready, backward.began, backward.ended
    )


def test_a_graph_from_before_the_profile_has_everything_but_the_forward_calls() -> None:
    x, w = leaf(4, 3), leaf(3, 2)
    y = (x @ w).sum()

    with ag.profile() as prof:
        sync.backward(y)

    assert names(prof.events) == ["SumBackward", "MatmulBackward", "AccumulateGrad", "AccumulateGrad"]
    assert prof.events[1].input_shapes == ((4, 2),)
    assert prof.events[1].forward_sequence_nr is None
    assert prof.events[1].line is None


def test_a_function_is_seen_from_its_beginning_to_its_end() -> None:
    with ag.profile() as prof:
        sync.backward(Sleeping.apply(0.0, leaf(2)).sum())
    forward = prof.events[0]

    assert (forward.kind, forward.name) == ("forward", "Sleeping")
    assert times(forward.began, forward.ended) == sorted(times(forward.began, forward.ended))
    assert forward.line is not None


def test_a_node_that_waits_shows_when_it_suspends_and_goes_on_while_another_runs() -> None:
    async def main() -> Any:
        event, x, y = asyncio.Event(), leaf(1), leaf(1)
        y.register_hook(lambda grad: event.set())
        async with ag.profile() as prof:
            # The newer branch begins first, and waits for the hook of the other.
            total = np.multiply(y, 2.0) + Waiting.apply(x, event)
            await total.sum().backward()
        return prof

    waiting = next(event for event in backward_of(ag.run(main())) if event.name == "WaitingBackward")

    assert len(waiting.suspended) == len(waiting.resumed) == 1
    assert waiting.began <= waiting.suspended[0] <= waiting.resumed[0] <= waiting.ended
    assert waiting.waited == waiting.resumed[0] - waiting.suspended[0]
    assert waiting.loop is not None


@one_loop
async def test_rules_that_wait_together_overlap() -> None:
    async def main() -> Any:
        event = asyncio.Event()
        waiters = [Waiting.apply(leaf(1), event) for _ in range(5)]
        # All begin in the first step of the backward, however slow the machine is.
        async with ag.profile() as prof:
            loop = asyncio.get_running_loop()
            with ag.loop_budget(100.0):
                backward = loop.create_task(sum(waiters).sum().backward())
            await asyncio.sleep(0)
            event.set()
            await backward
        return prof

    waiting = [event for event in backward_of(await main()) if event.name == "WaitingBackward"]

    assert len(waiting) == 5
    assert max(event.began for event in waiting) < min(event.ended for event in waiting)


def test_a_failing_backward_shows_the_node_that_failed() -> None:
    with ag.profile() as prof, pytest.raises(ZeroDivisionError):
        sync.backward(Failing.apply(leaf(2)).sum())

    assert [(event.name, event.status) for event in backward_of(prof)] == [
        ("SumBackward", "done"),
        ("FailingBackward", "failed"),
    ]


def test_a_plain_node_that_fails_is_shown() -> None:
    x = leaf(2)
    y = np.square(x)
    z = y.sum()
    x.detach()[0] = 3.0

    with ag.profile() as prof, pytest.raises(ag.errors.ChangedTensorError):
        sync.backward(z)

    assert [(event.name, event.status) for event in prof.events] == [
        ("SumBackward", "done"),
        ("SquareBackward", "failed"),
    ]


@one_loop
async def test_a_cancelled_backward_shows_its_nodes_as_cancelled() -> None:
    waiter = Waiting.apply(leaf(1), asyncio.Event()).sum()
    async with ag.profile() as prof:
        with ag.loop_budget(100.0):
            backward = asyncio.get_running_loop().create_task(waiter.backward())
        await asyncio.sleep(0)
        backward.cancel()
        with pytest.raises(asyncio.CancelledError):
            await backward
    event = backward_of(prof)[-1]

    assert (event.name, event.status) == ("WaitingBackward", "cancelled")
    assert event.ended is not None


@one_loop
async def test_a_backward_that_has_not_ended_shows_its_nodes_as_running() -> None:
    event = asyncio.Event()
    waiter = Waiting.apply(leaf(1), event).sum()
    async with ag.profile() as prof:
        with ag.loop_budget(100.0):
            backward = asyncio.get_running_loop().create_task(waiter.backward())
        await asyncio.sleep(0)
    seen = backward_of(prof)
    event.set()
    await backward
    event = seen[-1]

    assert (event.name, event.status, event.ended, event.duration) == ("WaitingBackward", "running", None, None)


@one_loop
async def test_a_nested_backward_knows_its_parent_and_its_depth() -> None:
    async with ag.profile() as prof:
        await Nested.apply(leaf(1)).sum().backward()
    events = backward_of(prof)
    outer = next(event for event in events if event.name == "NestedBackward")
    inner = next(event for event in events if event.name == "MultiplyBackward")

    assert (outer.reentrant_depth, inner.reentrant_depth) == (0, 1)
    assert inner.parent_graph_task_id == outer.graph_task_id != inner.graph_task_id
    assert outer.parent_graph_task_id is None


def test_a_body_on_a_worker_shows_the_worker() -> None:
    async def main() -> Any:
        async with ag.profile() as prof:
            with ag.workers(1), ag.offload_threshold(0.0):
                await heavy_calling(large(), lambda grad: None).sum().backward()
        return prof

    event = next(event for event in backward_of(asyncio.run(main())) if event.name == "WatchedBackward")

    assert event.worker is not None
    assert event.thread == threading.current_thread().name != event.worker
    assert event.began <= event.worker_began <= event.worker_ended <= event.ended


def test_a_node_of_a_device_shows_its_thread() -> None:
    async def main() -> Any:
        x = leaf(3).to("thread:0")
        async with ag.profile() as prof:
            await np.tanh(x).sum().backward()
        return prof

    tanh = next(event for event in backward_of(asyncio.run(main())) if event.name == "TanhBackward")

    assert tanh.device == "thread:0"
    assert tanh.thread_id != threading.get_ident()


@one_loop
async def test_a_profile_sees_its_own_context_and_the_tasks_made_in_it() -> None:
    async def other(x: ag.Tensor) -> None:
        await np.sin(x).sum().backward()

    async def main() -> Any:
        started = asyncio.get_running_loop().create_task
        outside = started(other(leaf(1)))
        async with ag.profile() as prof:
            await started(np_cos(leaf(1)))
            await outside
        return prof

    async def np_cos(x: ag.Tensor) -> None:
        await np.cos(x).sum().backward()

    assert {event.name for event in backward_of(await main())} == {
        "SumBackward",
        "CosBackward",
        "AccumulateGrad",
    }


def test_a_profile_of_the_whole_process_sees_other_threads() -> None:
    def work() -> None:
        sync.backward(np.concatenate([np.sin(leaf(1)), leaf(1)]).astype(np.float32).sum())
        sync.backward(Sleeping.apply(0.0, leaf(1)).sum())

    with ag.profile(whole_process=True) as prof:
        thread = threading.Thread(target=work, name="elsewhere")
        thread.start()
        thread.join()

    assert {event.thread for event in prof.events} == {"elsewhere"}
    assert {"sin", "ConcatenateBackward", "CopyBackwards", "sum", "SleepingBackward"} <= set(names(prof.events))
    assert "SinBackward" in names(backward_of(prof))


def test_nested_profiles_each_see_everything() -> None:
    x = leaf(1)

    with ag.profile() as outer:
        sync.backward(np.sin(x))
        with ag.profile() as inner, ag.profile(whole_process=True) as process:
            sync.backward(np.cos(x))
        sync.backward(np.tan(x))

    assert names(backward_of(inner)) == names(backward_of(process)) == ["CosBackward", "AccumulateGrad"]
    assert names(backward_of(outer))[::2] == ["SinBackward", "CosBackward", "TanBackward"]
    assert [event.name for event in outer.events if event.kind == "forward"] == ["sin", "cos", "tan"]


@one_loop
async def test_nothing_is_recorded_after_the_block_even_in_tasks_made_in_it() -> None:
    async def later(event: asyncio.Event) -> None:
        await event.wait()
        await np.sin(leaf(1)).backward()

    async def main() -> Any:
        event = asyncio.Event()
        async with ag.profile() as prof:
            task = asyncio.get_running_loop().create_task(later(event))
        event.set()
        await task
        return prof

    assert (await main()).events == ()


@pytest.mark.parametrize("mode", [ag.detect_anomaly, lambda: ag.graph.node_creation_hook(lambda node: None)])
def test_other_observers_of_new_nodes_stand_beside_a_profile(mode: Any) -> None:
    x = leaf(2)

    with ag.profile() as prof, mode():
        sync.backward(np.tanh(x).sum())

    assert names(prof.events)[:2] == ["tanh", "sum"]
    assert len(backward_of(prof)) == 3


def test_a_profiled_backward_has_the_same_gradients() -> None:
    def gradient() -> Any:
        x = ag.tensor(np.linspace(-1.0, 1.0, 12).reshape(3, 4), requires_grad=True)
        sync.backward((np.tanh(x @ np.ones((4, 2))) * x.sum()).sum())
        return x.grad.numpy().tobytes()

    plain = gradient()
    with ag.profile():
        profiled = gradient()

    assert profiled == plain


def test_limited_and_recorded_backward_passes_are_seen() -> None:
    x = leaf(2)

    with ag.profile() as prof:
        (first,) = sync.grad(np.power(x, 3.0).sum(), [x], create_graph=True)
        sync.grad(first.sum(), [x])

    assert {"PowerBackward", "SumBackward"} <= set(names(backward_of(prof)))
    assert len({event.graph_task_id for event in backward_of(prof)}) == 2


def test_a_compiled_backward_runs_in_the_engine_while_it_is_profiled() -> None:
    x = leaf(2)

    def step() -> None:
        sync.backward(np.tanh(x).sum())

    with ag.compiled_autograd(after=1):
        step()
        step()
        hits = ag.engine.compiled_stats().hits
        with ag.profile() as prof:
            step()

    assert names(backward_of(prof)) == ["SumBackward", "TanhBackward", "AccumulateGrad"]
    assert ag.engine.compiled_stats().hits == hits


def test_a_profile_keeps_no_array_and_no_graph_alive() -> None:
    with ag.profile() as prof:
        y = np.tanh(leaf(2)) * 2.0
        z = y.sum()
        reference = weakref.ref(y.grad_fn)
        sync.backward(z, retain_graph=True)
        del y, z
    gc.collect()

    assert reference() is None
    assert len(prof.events) == 7


def test_a_profile_leaves_no_cycles() -> None:
    x = leaf(2)
    gc.collect()
    gc.disable()
    try:
        with ag.profile() as prof:
            sync.backward(np.tanh(x).sum())
        reference = weakref.ref(prof._recorder)
        del prof

        assert reference() is None
    finally:
        gc.enable()


def test_a_call_shows_its_thread_and_line_in_whichever_way_it_was_made() -> None:
    x = leaf(4)

    def work() -> None:
        for _ in range(2):  # the second time, the file is known
            y = x * x
            np.tanh(y.reshape(2, 2)) @ np.ones((2, 2))

    with ag.profile(whole_process=True) as prof:
        work()
        thread = threading.Thread(target=work, name="elsewhere")
        thread.start()
        thread.join()

    line = work.__code__.co_firstlineno
    calls = [(event.name, event.thread, event.line) for event in prof.events]
    assert calls == [
        (name, where, f"{__file__}:{line + (2 if name == 'multiply' else 3)}")
        for where in ("MainThread", "elsewhere")
        for _ in range(2)
        for name in ("multiply", "reshape", "tanh", "matmul")
    ]


def test_an_older_graph_is_described_at_each_of_its_backward_passes_in_each_profile() -> None:
    x = leaf(4)
    loss = (np.tanh(x.reshape(2, 2) @ np.ones((2, 3))) * 2.0).sum()
    found = []
    for _ in range(2):
        with ag.profile() as prof:
            for _ in range(2):
                sync.backward(loss, retain_graph=True)
        found.append([event for event in prof.events if event.name == "MatmulBackward"])

    assert [len(events) for events in found] == [2, 2]
    assert {(event.input_shapes, event.output_shapes, event.flops) for events in found for event in events} == {
        (((2, 3),), ((2, 2), None), 24)
    }


@one_loop
async def test_what_happens_after_the_block_is_not_seen_whenever_the_events_are_read() -> None:
    event = asyncio.Event()
    with ag.profile() as outer:
        inner = ag.profile()
        with inner:
            task = asyncio.get_running_loop().create_task((Waiting.apply(np.tanh(leaf(1)), event) * 2.0).backward())
            await asyncio.sleep(0)
        event.set()
        await task

    runs = ["MultiplyBackward", "WaitingBackward"]
    assert [(event.name, event.status) for event in backward_of(inner)] == list(
        zip(runs, ["done", "running"], strict=True)
    )
    assert inner.events[-1].resumed == ()
    assert [event.name for event in backward_of(outer)] == [*runs, "TanhBackward", "AccumulateGrad"]
    assert {event.status for event in outer.events} == {"done"}
    with pytest.raises(ProfileError, match="has seen no backward"):
        inner.critical_path()
    assert [event.name for event in inner.events if event.kind == "forward"] == ["tanh", "Waiting", "multiply"]
