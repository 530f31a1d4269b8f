"""`thread:N`: one worker, its queue, its thread's life and death."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.errors import DeviceError
from tests.devices.waits import T0, T1, HeldInThread, HeldOnLoop, leaf_on
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop, run_on
from tests.support.processes import run_python
from tests.support.turns import turns


def ident():
    return threading.get_ident()


async def test_all_work_of_a_device_is_done_by_one_thread_which_is_not_the_callers():
    seen = [await ag.device(T0).call(ident), await ag.device(T0).call(ident)]
    x, out = leaf_on(T0, lambda grad: seen.append(ident()))
    x.register_hook(lambda grad: seen.append(ident()))
    x.register_post_accumulate_grad_hook(lambda x: seen.append(ident()))
    out.grad_fn.register_prehook(lambda grads: seen.append(ident()))
    out.grad_fn.register_hook(lambda outputs, grads: seen.append(ident()))
    await out.backward()

    assert len(seen) == 7
    assert len(set(seen)) == 1
    assert ident() not in seen


async def test_plain_nodes_of_the_device_run_there_too(monkeypatch):
    seen = []
    accumulate = ag.graph.AccumulateGrad.accumulate

    def spying(self, *args):
        seen.append((self.variable.device.name, self.variable.device.is_here()))
        return accumulate(self, *args)

    monkeypatch.setattr(ag.graph.AccumulateGrad, "accumulate", spying)

    x, w = leaf(2.0), ag.tensor([3.0], device=T0, requires_grad=True)
    await (x.to(T0) * w).backward()

    assert (x.grad.item(), w.grad.item()) == (3.0, 2.0)
    assert sorted(seen) == [("cpu", True), (T0, True)]


async def test_nodes_recorded_by_a_call_know_their_thread():
    x = leaf(1.0)
    node = (await ag.device(T0).call(lambda: x.to(T0) * 2)).grad_fn
    recorded, worker = (node.thread_id, await ag.device(T0).call(ident))

    assert recorded == worker


async def test_a_body_that_suspends_lets_the_next_one_begin():
    held, order = HeldOnLoop(), []
    _, first = leaf_on(T0, held)
    _, second = leaf_on(T0, lambda grad: order.append("second"))
    waiting = asyncio.ensure_future(first.backward())
    await held.begun.wait()
    await second.backward()
    order.append("let go")
    held.let_go()
    await waiting

    assert (order, held.ended) == (["second", "let go"], True)


async def test_what_waits_runs_newest_node_first_and_calls_in_the_order_of_their_coming():
    held, order = HeldInThread(), []
    blocked = asyncio.ensure_future(ag.device(T0).call(held))
    await held.begun.wait()
    nodes = [leaf_on(T0, lambda grad, name=name: order.append(name))[1] for name in "abc"]
    tasks = [asyncio.ensure_future(node.backward()) for node in nodes]
    tasks += [asyncio.ensure_future(ag.device(T0).call(order.append, name)) for name in (1, 2)]
    await turns()
    held.let_go.set()
    await asyncio.gather(blocked, *tasks)

    assert order == ["c", "b", "a", 1, 2]


@pytest.mark.slow
async def test_suspended_bodies_go_on_while_very_many_wait():
    order = []
    device = ag.device(T0)

    async def several_steps():
        for _ in range(20):
            await asyncio.sleep(0)
        order.append("suspended")

    held = HeldInThread()
    blocked = asyncio.ensure_future(device.call(held))
    await held.begun.wait()
    tasks = [asyncio.ensure_future(device.call(several_steps))]
    tasks += [asyncio.ensure_future(device.call(order.append, str(index))) for index in range(2000)]
    await turns()
    held.let_go.set()
    await asyncio.gather(blocked, *tasks)

    assert order.index("suspended") < 1000


def meet(barrier):
    barrier.wait(60)


async def test_two_devices_run_side_by_side():
    together = threading.Barrier(2)
    x = leaf(1.0)
    both = [calling(x.to(name), lambda grad: meet(together)).to("cpu") for name in (T0, T1)]
    await (both[0] + both[1]).backward()

    assert x.grad.item() == 2.0


async def test_a_backward_of_one_device_goes_on_while_another_device_computes():
    held = HeldInThread()
    _, slow = leaf_on(T0, held)
    waiting = asyncio.ensure_future(slow.backward())
    await held.begun.wait()
    x = leaf(1.0)
    await (x * 2).backward()
    await leaf_on(T1, lambda grad: None)[1].backward()
    held.let_go.set()
    await waiting

    assert x.grad.item() == 2.0


# Failure.


async def test_cancelled_while_a_body_computes_the_backward_ends_after_it_and_writes_nothing():
    held = HeldInThread()
    x, out = leaf_on(T0, held)
    task = asyncio.ensure_future(out.backward())
    await held.begun.wait()
    task.cancel()
    await turns()
    assert not task.done()
    held.let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert (held.ended, x.grad) == (True, None)


async def test_a_timeout_reaches_a_body_that_waits_on_the_device():
    held = HeldOnLoop()
    x, out = leaf_on(T0, held)

    async def limited():
        async with asyncio.timeout(None) as limit:
            asyncio.ensure_future(held.begun.wait()).add_done_callback(lambda _: limit.reschedule(0))
            await out.backward()

    with pytest.raises(TimeoutError):
        await limited()

    assert (held.cancelled, held.ended, x.grad) == (True, False, None)


async def test_cancelled_before_its_turn_a_node_never_runs():
    held, ran = HeldInThread(), []
    blocked = asyncio.ensure_future(ag.device(T0).call(held))
    await held.begun.wait()
    task = asyncio.ensure_future(leaf_on(T0, ran.append)[1].backward())
    await turns()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    held.let_go.set()
    await blocked
    await ag.device(T0).call(int)

    assert ran == []


async def test_an_error_on_one_device_cancels_what_waits_on_another():
    held, x = HeldOnLoop(), leaf(1.0)
    go = threading.Event()

    def fail(grad):
        assert go.wait(60)
        raise ValueError("no")

    waits, fails = awaiting(x.to(T1), held).to("cpu"), calling(x.to(T0), fail).to("cpu")
    task = asyncio.ensure_future((waits + fails).backward())
    await held.begun.wait()
    go.set()
    with pytest.raises(ValueError, match="no") as raised:
        await task
    cancelled, grad, note = (held.cancelled, x.grad, raised.value.__notes__[0])

    assert cancelled
    assert grad is None
    assert "CallingBackward" in note
    assert "'thread:0'" in note


@on_each_loop
def test_what_a_body_raises_while_it_is_cancelled_becomes_a_note(run):
    async def main():
        go = threading.Event()
        begun, home = asyncio.Event(), asyncio.get_running_loop()

        async def resists(grad):
            home.call_soon_threadsafe(begun.set)
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                raise KeyError("in the clean-up")

        def fail(grad):
            assert go.wait(60)
            raise ValueError("no")

        x = leaf(1.0)
        both = awaiting(x.to(T1), resists).to("cpu") + calling(x.to(T0), fail).to("cpu")
        task = asyncio.ensure_future(both.backward())
        await begun.wait()
        go.set()
        with pytest.raises(ValueError, match="no") as raised:
            await task
        return raised.value.__notes__

    assert any("in the clean-up" in note for note in run(main()))


def deadly(how):
    """Bodies that are the death of the thread that runs them, or of its loop."""

    def exits(grad):
        raise SystemExit(3)

    async def exits_later(grad):
        await asyncio.sleep(0)
        raise SystemExit(3)

    async def stops_the_loop(grad):
        asyncio.get_running_loop().stop()
        await asyncio.get_running_loop().create_future()

    async def exits_in_a_callback(grad):
        asyncio.get_running_loop().call_soon(sys.exit, 3)
        await asyncio.get_running_loop().create_future()

    return {body.__name__: body for body in (exits, exits_later, stops_the_loop, exits_in_a_callback)}[how]


@pytest.mark.parametrize("how", ["exits", "exits_later", "stops_the_loop", "exits_in_a_callback"])
async def test_a_worker_that_dies_ends_what_it_ran_and_what_waited_for_it_by_an_error_that_names_it(how):
    suspended, elsewhere = HeldOnLoop(), HeldOnLoop()
    x = leaf(1.0)
    _, other = leaf_on(T0, suspended)
    beside = asyncio.ensure_future(other.backward())
    await suspended.begun.wait()
    gate = HeldOnLoop()
    both = awaiting(x.to(T1), elsewhere).to("cpu") + awaiting(calling(x, lambda g: None).to(T0), gate).to("cpu")
    dying = asyncio.ensure_future(both.backward())
    await elsewhere.begun.wait()
    await gate.begun.wait()
    _, out = leaf_on(T0, deadly(how))
    held = HeldInThread()
    blocked = asyncio.ensure_future(ag.device(T0).call(held))
    await held.begun.wait()
    deaths = [asyncio.ensure_future(out.backward())]
    await turns()
    deaths += [beside, dying, asyncio.ensure_future(ag.device(T0).call(deadly("stops_the_loop"), None))]
    await turns()
    held.let_go.set()
    await blocked
    errors = await asyncio.gather(*deaths, return_exceptions=True)
    again, good = leaf_on(T0, lambda grad: None)
    await good.backward()
    cancelled = elsewhere.cancelled
    ended = suspended.ended
    grad = x.grad
    later = again.grad.item()

    for error in errors:
        assert isinstance(error, DeviceError), error
        assert "'thread:0' died" in str(error)
    assert cancelled
    assert not ended
    assert grad is None
    assert later == 1.0


async def test_a_lock_that_a_dead_worker_held_is_free():
    held = HeldOnLoop()
    x, out = leaf_on(T0, held)
    first = asyncio.ensure_future(out.backward(retain_graph=True))
    await held.begun.wait()
    with pytest.raises(DeviceError):
        await ag.device(T0).call(deadly("stops_the_loop"), None)
    with pytest.raises(DeviceError):
        await first
    second = asyncio.ensure_future(out.backward(retain_graph=True))
    held.begun.clear()
    await held.begun.wait()
    held.let_go()
    await second

    assert x.grad.item() == 1.0


def test_a_closed_device_can_be_read_from_and_moved_from():
    x = ag.tensor([1.0, 2.0], device="thread:5")
    ag.device("thread:5").close()

    assert x.tolist() == [1.0, 2.0]
    assert (x * 2).to(x.device).tolist() == [2.0, 4.0]


async def test_the_thread_of_a_closed_device_ends_once_what_it_runs_has():
    device = ag.device("thread:6")
    held = HeldOnLoop()
    task = asyncio.ensure_future(device.call(held))
    await held.begun.wait()
    thread = await device.call(threading.current_thread)
    device.close()
    held.let_go()
    await task
    thread.join(60)

    assert not thread.is_alive()


# Loops.


@pytest.mark.slow
@on_each_loop
def test_one_worker_serves_loops_in_several_threads_and_each_gets_its_own(run):
    results, barrier = {}, threading.Barrier(4)

    def in_a_thread(number):
        async def main():
            x, out = leaf_on(T0, lambda grad: grad * number, 1.0)
            barrier.wait(60)
            tasks = [ag.grad(out, [x], retain_graph=True) for _ in range(25)]
            grads = await asyncio.gather(*tasks)
            return {grad.item() for (grad,) in grads}, asyncio.get_running_loop().is_running()

        results[number] = run_on("asyncio", main())

    threads = [threading.Thread(target=in_a_thread, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert results == {number: ({float(number)}, True) for number in range(4)}


@on_each_loop
def test_a_loop_that_ends_in_mid_backward_frees_its_work_everywhere(run):
    held = []

    async def leaves():
        held.append(HeldOnLoop())
        x, out = leaf_on(T0, held[0])
        task = asyncio.ensure_future((out.to(T1) * 2).backward())
        await held[0].begun.wait()
        return x, out, task

    with asyncio.Runner() as runner:
        x, out, task = runner.run(leaves())
    assert task.cancelled()
    assert held[0].cancelled
    assert x.grad is None
    assert out.grad_fn.meta.holder is None

    async def goes_on():
        y, good = leaf_on(T0, lambda grad: None)
        await good.backward()
        return y.grad.item()

    assert run(goes_on()) == 1.0


@on_each_loop
def test_a_loop_that_is_closed_with_a_backward_in_it_leaves_the_worker_working(run):
    loop = asyncio.new_event_loop()

    async def begin():
        held = HeldOnLoop()
        x, out = leaf_on(T0, held)
        tasks = [asyncio.ensure_future(out.backward())]
        await held.begun.wait()
        return held, x, tasks

    held, x, tasks = loop.run_until_complete(begin())
    loop.close()
    tasks[0]._log_destroy_pending = False
    tasks.clear()
    del tasks
    gc.collect()

    async def goes_on():
        y, good = leaf_on(T0, lambda grad: None)
        await good.backward()
        return y.grad.item()

    assert run(goes_on()) == 1.0
    assert held.cancelled
    assert x.grad is None


# Processes.

PROGRAM = """
import asyncio, os, sys, threading
import asyncgrad as ag

def backward():
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    ag.sync.backward((x.to("thread:0") * 3).sum())
    return x.grad.tolist()
"""


def printed_by(code):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM + code], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.split()


def test_no_thread_begins_before_it_is_needed():
    code = "d = ag.device('thread:0'); ag.tensor([1.0], device=d) * 2; print(threading.active_count())"

    assert printed_by(code) == ["1"]


def test_the_interpreter_ends_with_a_worker_idle():
    assert printed_by("print(backward()[0])") == ["3.0"]


def test_the_interpreter_ends_with_a_worker_at_work_and_one_that_waits():
    code = """
begun = threading.Event()

def busy():
    begun.set()
    threading.Event().wait()

async def main():
    asyncio.ensure_future(ag.device("thread:1").call(asyncio.sleep, 1000))
    task = asyncio.ensure_future(ag.device("thread:0").call(busy))
    await asyncio.sleep(0)
    begun.wait()
    print("out")
    sys.stdout.flush()

loop = asyncio.new_event_loop()
loop.run_until_complete(main())
"""

    assert run_python(PROGRAM + code) == "out"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_of_fork_gets_a_worker_of_its_own_and_the_parent_keeps_its():
    code = """
import gc, warnings
print(backward())
sys.stdout.flush()
child = os.fork()
if not child:
    gc.collect()
    print(backward())
    sys.stdout.flush()
    os._exit(0)
os.waitpid(child, 0)
print(backward())
"""

    assert printed_by(code) == ["[3.0,", "3.0]"] * 3


@pytest.mark.parametrize("retain", [False, True])
async def test_a_leaf_on_a_worker_takes_over_a_gradient_that_nobody_else_holds(retain):
    addresses = []

    def body(grad):
        array = np.full(3, 2.0)
        addresses.append(array.__array_interface__["data"][0])
        return array

    x, out = leaf_on(T0, body, 1.0, 2.0, 3.0)
    await ag.backward(out, np.ones(3), retain_graph=retain)
    made_at, kept_at, grad = (addresses[0], x.grad.numpy().__array_interface__["data"][0], x.grad.tolist())

    assert grad == [2.0, 2.0, 2.0]
    assert made_at == kept_at
