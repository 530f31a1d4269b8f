"""`ag.engine.describe_running`: what each running backward waits for, told from anywhere and at any time."""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.engine.graph_task import all_suspended
from tests.core.engine.heavy import always, heavy_calling, large
from tests.support.clocks import hand_in
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf
from tests.support.loops import one_loop
from tests.support.sampling import cases
from tests.support.settings import compiled_after, loop_budget, node_by_node
from tests.support.threads import PATIENCE
from tests.support.turns import Held, settle, turns

describe = ag.engine.describe_running


async def hanging(grad: Any) -> None:
    await asyncio.Event().wait()  # the line that hangs


def line_of_hanging() -> int:
    lines, start = inspect.getsourcelines(hanging)
    return start + next(index for index, line in enumerate(lines) if "that hangs" in line)


async def cancelled(*tasks: Any) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def described_with(begun: threading.Event) -> Any:
    """Return the description once a body has begun in its thread, and all that is queued behind it waits."""
    assert await asyncio.to_thread(begun.wait, PATIENCE)
    await settle()
    return describe()


def test_without_a_backward_it_says_so():
    assert str(describe()) == "No backward is running in this process."
    assert describe().backwards == ()


async def test_a_hanging_async_rule_is_named_with_its_line():
    y = awaiting(leaf(2.0), hanging)
    task = asyncio.create_task(y.sum().backward(), name="training")
    await settle()
    (backward,) = describe().backwards
    (node,) = backward.running
    assert (node.name, node.state) == (f"AwaitingBackward (node #{y.grad_fn.sequence_nr})", "suspended")
    assert (backward.task, backward.state, backward.depth) == ("training", "suspended", 0)
    assert node.waits_for == "asyncio's Event.wait"
    assert (__file__, line_of_hanging()) in [(frame.filename, frame.lineno) for frame in node.stack]
    assert f"at {__file__}:{line_of_hanging()}, in hanging: `await asyncio.Event().wait()" in str(describe())
    await cancelled(task)


async def test_the_line_that_awaits_a_backward_is_named():
    async def step():
        await awaiting(leaf(2.0), hanging).sum().backward()

    task = asyncio.create_task(step())
    await settle()
    assert describe().backwards[0].stack[0].name.endswith("step")
    assert "in test_the_line_that_awaits_a_backward_is_named.<locals>.step: `await awaiting" in str(describe())
    await cancelled(task)


async def test_the_forward_line_is_known_in_anomaly_mode_and_else_that_of_the_users_body():
    with ag.detect_anomaly():
        y = awaiting(leaf(2.0), hanging)
    plain = awaiting(leaf(2.0), hanging)
    tasks = [asyncio.create_task(each.sum().backward()) for each in (y, plain)]
    await settle()
    first, second = (str(backward.running[0].line) for backward in describe().backwards)
    assert first.startswith("forward at ")
    assert "functions.py:" in first
    assert "functions.py:" in second
    assert second.startswith("defined at ")
    await cancelled(*tasks)


async def test_the_holder_of_a_lock_is_named():
    held = Held()
    shared = awaiting(leaf(2.0), held)
    first = asyncio.create_task(ag.backward(shared, retain_graph=True), name="first")
    await held.begun.wait()
    second = asyncio.create_task(ag.backward(shared, retain_graph=True), name="second")
    await settle()
    holder, waiter = describe().backwards
    assert (holder.task, waiter.task) == ("first", "second")
    assert holder.running[0].lock is None
    assert waiter.running[0].lock.holders == (holder.id,)
    assert waiter.running[0].lock.waiting == 1
    assert f"waits for the lock of this node, held by backward {holder.id}" in str(waiter)
    held.let_go.set()
    await asyncio.gather(first, second)
    assert describe().backwards == ()


async def test_a_nested_backward_names_its_parent_and_is_what_its_body_waits_for():
    nested = awaiting(leaf(1.0), hanging).sum()

    async def body(grad):
        await nested.backward()

    task = asyncio.create_task(awaiting(leaf(2.0), body).sum().backward())
    await settle()
    outer, inner = describe().backwards
    assert (inner.parent, inner.depth, outer.parent) == (outer.id, 1, None)
    assert outer.running[0].waits_for == f"backward {inner.id}"
    assert f"inside of backward {outer.id}" in str(inner)
    await cancelled(task)


async def test_a_task_that_a_body_awaits_is_named_with_its_line():
    async def body(grad):
        await asyncio.gather(asyncio.create_task(hanging(grad), name="a request"), return_exceptions=True)

    task = asyncio.create_task(awaiting(leaf(2.0), body).sum().backward())
    await settle()
    waits_for = describe().backwards[0].running[0].waits_for
    assert waits_for == f"task a request at {__file__}:{line_of_hanging()}"
    await cancelled(task)


async def test_the_running_node_of_a_worker_is_named_and_what_is_queued_behind_it():
    begun, let_go = threading.Event(), threading.Event()

    def body(grad):
        begun.set()
        let_go.wait(PATIENCE)

    ys = [heavy_calling(large(), body) for _ in range(2)]
    with always(), ag.workers(1):
        task = asyncio.create_task((ys[0] + ys[1]).sum().backward())
        described = await described_with(begun)
    let_go.set()
    await task
    running, queued = sorted(described.backwards[0].running, key=lambda node: node.state, reverse=True)
    assert running.thread.startswith("asyncgrad worker")
    assert running.name.startswith("Watched")
    assert "body" in {frame.name.rpartition(".")[2] for frame in running.stack}
    assert queued.waits_for == "a worker thread"
    (pool,) = described.queues
    assert pool.place == "worker threads"
    assert pool.running == (f"{running.name} of backward {described.backwards[0].id}",)
    assert len(pool.queued) == 1


async def test_the_node_that_a_device_runs_and_what_is_queued_there_are_named():
    begun, let_go = threading.Event(), threading.Event()

    def body(grad):
        begun.set()
        let_go.wait(PATIENCE)

    ys = [calling(leaf(2.0).to("thread:0"), body) for _ in range(2)]
    task = asyncio.create_task((ys[0] + ys[1]).sum().backward())
    described = await described_with(begun)
    let_go.set()
    await task
    states = {node.state: node for node in described.backwards[0].running}
    assert states["running"].thread == "asyncgrad thread:0"
    assert states["running"].device == "thread:0"
    assert states["queued"].waits_for == "a turn on device 'thread:0'"
    assert [(queue.place, len(queue.queued)) for queue in described.queues] == [("thread:0", 1)]
    assert "CallingBackward" in str(described.queues[0])


@one_loop
async def test_a_body_that_blocks_the_loop_is_named_in_another_thread():
    begun, let_go = threading.Event(), threading.Event()
    seen: list[Any] = []

    def body(grad):
        begun.set()
        let_go.wait(PATIENCE)

    def look():
        begun.wait(PATIENCE)
        seen.append(describe())
        let_go.set()

    looker = threading.Thread(target=look)
    looker.start()
    await ag.backward(calling(leaf(2.0), body).sum())
    looker.join(PATIENCE)
    (backward,) = seen[0].backwards
    (node,) = backward.running
    assert (node.name.partition(" ")[0], node.state, node.thread) == ("CallingBackward", "running", "MainThread")
    assert "body" in {frame.name.rpartition(".")[2] for frame in node.stack}
    assert backward.state == "running"


def test_a_hook_may_ask_and_is_what_runs():
    x, seen = leaf(2.0), []
    y = x * x
    y.register_hook(lambda grad: seen.append(describe()))
    sync.backward(y.sum())
    (backward,) = seen[0].backwards
    assert [node.name for node in backward.running] == [f"MultiplyBackward (node #{y.grad_fn.sequence_nr})"]
    assert (backward.thread, backward.task) == ("MainThread", None)
    assert describe().backwards == ()


def chain(x: Any, hook: Any, length: int = 6) -> Any:
    y = x
    for index in range(length):
        y = np.sin(y)
        if index == length // 2:
            y.register_hook(hook)
    return y.sum()


@pytest.mark.parametrize("after", [None, 1])
def test_nodes_done_of_all_are_counted_under_every_executor(after):
    seen: list[Any] = []
    with compiled_after(after):
        for _ in range(3):
            sync.backward(chain(leaf(1.0), lambda grad: seen.append(describe().backwards[0])))
    # The sum and two sines have run, the third is running.
    assert {(each.nodes_done, each.nodes) for each in seen} == {(3, 8)}


@one_loop
async def test_a_compiled_node_that_waits_has_not_ended():
    seen = []
    with compiled_after(1):
        for _ in range(3):
            held = Held()
            task = asyncio.create_task(np.sum(awaiting(leaf(1.0), held)).backward())
            await settle()
            seen += [(each.nodes_done, each.nodes) for each in describe().backwards]
            await cancelled(task)
    # The sum has run, the body waits, and the leaf comes after it.
    assert seen == [(1, 3)] * 3


@one_loop
@pytest.mark.parametrize("budget", [0, 3600.0])
async def test_a_backward_that_lets_the_loop_breathe_shows_what_is_ready(budget):
    async def main():
        x = leaf(1.0)
        y = (np.sin(x) + np.cos(x)).sum()
        with loop_budget(budget):
            task = asyncio.create_task(y.backward())
            await turns(2)
            return task, describe()

    async def both():
        task, described = await main()
        await task
        return described

    with node_by_node():
        described = await both()
    if budget:
        assert described.backwards == ()
        return
    (backward,) = described.backwards
    assert backward.ready_count == len(backward.ready) >= 1
    assert backward.nodes == 5
    assert backward.nodes_done >= 1


async def test_seconds_are_those_of_the_clock_of_the_backward():
    now = [100.0]

    with hand_in(lambda: now[0]):
        task = asyncio.create_task(awaiting(leaf(2.0), hanging).sum().backward())
    await settle()
    now[0] += 30.0
    (backward,) = describe().backwards
    assert (backward.seconds, backward.running[0].seconds) == (30.0, 30.0)
    assert "for 30 s" in str(backward)
    await cancelled(task)


async def test_several_backward_passes_are_listed_oldest_first():
    tasks = [asyncio.create_task(awaiting(leaf(2.0), hanging).sum().backward(), name=f"{n}") for n in range(5)]
    await settle()
    described = describe()
    assert [backward.task for backward in described.backwards] == list("01234")
    assert str(described).startswith("5 backward passes are running in this process.\n")
    await cancelled(*tasks)


async def test_its_html_escapes_what_users_name():
    task = asyncio.create_task(awaiting(leaf(2.0), hanging).sum().backward(), name="<b>")
    await settle()
    shown = describe()._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    assert shown.count("<details") == 1
    await cancelled(task)


async def test_a_final_callback_that_waits_is_named():
    x = leaf(2.0)
    x.register_hook(lambda grad: ag.engine.queue_callback(lambda: hanging(grad)))
    task = asyncio.create_task((x * x).sum().backward())
    await settle()
    assert describe().backwards[0].running[0].name == "a final callback"
    await cancelled(task)


def test_a_backward_whose_loop_has_been_closed_is_abandoned_and_is_not_kept():
    loop = asyncio.new_event_loop()
    coroutine = ag.backward(awaiting(leaf(2.0), hanging).sum())
    task = loop.create_task(coroutine)
    loop.call_soon(loop.call_soon, loop.stop)
    loop.run_forever()
    task._log_destroy_pending = False
    loop.close()
    assert [backward.state for backward in describe().backwards] == ["abandoned"]
    (graph_task,) = map(weakref.ref, all_suspended())
    coroutine.close()
    del task, coroutine
    gc.collect()
    assert graph_task() is None
    assert describe().backwards == ()


def test_a_backward_that_waited_for_its_loop_to_turn_is_abandoned_too():
    loop = asyncio.new_event_loop()
    with loop_budget(0):
        task = loop.create_task(np.multiply(leaf(2.0), 3.0).sum().backward())
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert [backward.state for backward in describe().backwards] == ["suspended"]
    task._log_destroy_pending = False
    loop.close()
    assert [backward.state for backward in describe().backwards] == ["abandoned"]
    task.get_coro().close()


@one_loop
async def test_it_may_be_asked_all_the_time_by_another_thread_and_changes_no_bits():
    stop, asked = threading.Event(), [0]

    def ask():
        while not stop.is_set():
            assert str(describe())
            asked[0] += 1

    async def once(x):
        async def body(grad):
            await asyncio.sleep(0)
            return grad * 2

        y = np.sin(awaiting(np.cos(x) * x, body))
        await (awaiting(y, body) * y).sum().backward()
        return x.grad.numpy().tobytes()

    async def main():
        with loop_budget(0):
            return await asyncio.gather(*[once(leaf(0.3, 1.7)) for _ in range(cases(200))])

    expected = await main()
    asker = threading.Thread(target=ask)
    asker.start()
    try:
        assert await main() == expected
    finally:
        stop.set()
        asker.join(PATIENCE)
    assert asked[0] > 0
