"""Nothing waits for a lock while it holds what the holder needs: such a wait ends, or is refused by name."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.engine import node_lock
from asyncgrad.core.engine.node_lock import release, try_acquire
from asyncgrad.errors import BlockingError
from asyncgrad.testing import explore
from tests.core.engine.locking import is_at_rest
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf
from tests.support.loops import LOOP_KINDS, loop_factory, on_each_loop, one_loop
from tests.support.sampling import cases
from tests.support.turns import Held, settle


class Ring:
    """Shared nodes, each of whose bodies, when asked for it by the gradient, runs a backward through the next one.

    Args:
        size: how many nodes.
        hooks: whether async hooks on plain nodes take the part of the bodies.
    """

    def __init__(self, size: int, hooks: bool = False) -> None:
        self.leaves = [leaf(1.0) for _ in range(size)]
        self.begun = 0
        self.all_begun = asyncio.Event()
        self.outs = []
        for index, x in enumerate(self.leaves):
            if hooks:
                out = np.multiply(x, 1.0)
                out.register_hook(self._body(index))
            else:
                out = awaiting(x, self._body(index))
            self.outs.append(out)

    def _body(self, index: int) -> Any:
        async def body(grad):
            if grad.item() == 1.0:
                return
            self.begun += 1
            if self.begun == len(self.outs):
                self.all_begun.set()
            await self.all_begun.wait()
            await asyncio.sleep(0)
            await ag.backward(self.outs[(index + 1) % len(self.outs)], np.ones(1), retain_graph=True)

        return body


@pytest.mark.parametrize("hooks", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_bodies_that_wait_for_each_other_in_a_ring_all_end(size, hooks):
    async def main():
        ring = Ring(size, hooks)
        async with asyncio.timeout(60):
            await asyncio.gather(*[ag.backward(out, np.full(1, 100.0), retain_graph=True) for out in ring.outs])
        assert [x.grad.item() for x in ring.leaves] == [101.0] * size
        assert is_at_rest(*ring.outs)

    explore(main, seeds=cases(100))


@pytest.mark.parametrize("which", range(3))
async def test_a_ring_of_which_one_is_cancelled_ends(which):
    for turns in range(12):
        ring = Ring(3)
        tasks = [asyncio.ensure_future(ag.backward(out, np.full(1, 100.0), retain_graph=True)) for out in ring.outs]
        await ring.all_begun.wait()
        for _ in range(turns):
            await asyncio.sleep(0)
        stopped = tasks[which].cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [result is None for result in results] == [index != which or not stopped for index in range(3)]
        # From its own backward, and from the one nested in the body before it.
        expected = [100.0 * (index != which or not stopped) + 1.0 for index in range(3)]
        if stopped:
            expected[(which + 1) % 3] -= 1.0
        assert [0.0 if x.grad is None else x.grad.item() for x in ring.leaves] == expected
        assert is_at_rest(*ring.outs)


async def test_a_wait_in_a_deeper_backward_counts_for_every_body_around_it():
    """The ring closes two levels further in, on one side."""

    x, y = leaf(1.0), leaf(1.0)
    both = asyncio.Barrier(2)

    def deeper(out, levels):
        async def body(grad):
            inner = deeper(out, levels - 1) if levels else out
            await ag.backward(inner, np.ones(1), retain_graph=True)

        with ag.enable_grad():
            return awaiting(leaf(1.0), body)

    def through(levels, other):
        async def body(grad):
            if grad.item() != 1.0:
                await both.wait()
                await ag.backward(deeper(outs[other], levels), retain_graph=True)

        return body

    outs = [awaiting(x, through(2, 1)), awaiting(y, through(0, 0))]
    async with asyncio.timeout(60):
        await asyncio.gather(*[ag.backward(out, np.full(1, 100.0), retain_graph=True) for out in outs])
    assert (x.grad.item(), y.grad.item()) == (101.0, 101.0)
    assert is_at_rest(*outs)


@pytest.mark.parametrize("requests", [1, 2, 3])
async def test_a_request_within_requests_of_a_body_may_run_a_backward_through_the_node_of_the_body(requests):
    asked = []

    def request_through(inner):
        @ag.batched
        async def request(items):
            await inner()
            return items

        return lambda: request(0)

    async def ask(grad):
        if not asked:
            asked.append(True)
            await made()

    out = awaiting(leaf(1.0), ask)
    made = lambda: out.backward(np.ones(1), retain_graph=True)
    for _ in range(requests):
        made = request_through(made)
    async with asyncio.timeout(10.0):
        await out.backward(np.ones(1), retain_graph=True)

    assert is_at_rest(out)


async def test_backwards_nested_in_one_body_wait_for_each_other_and_not_for_the_body():
    x, inside, most = leaf(1.0), 0, 0

    async def shared_body(grad):
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0)
        inside -= 1

    shared = awaiting(x, shared_body)

    async def nests(grad):
        await asyncio.gather(*[ag.backward(shared, retain_graph=True) for _ in range(5)])

    await ag.backward(awaiting(leaf(1.0), nests))
    assert most == 1
    assert x.grad.item() == 5.0
    assert is_at_rest(shared)


@pytest.mark.parametrize("body_first", [False, True])
async def test_who_entered_may_end_before_or_after_the_body_around_it(body_first):
    """The body ends first where it does not await the task in which its own node runs again."""

    x, held, tasks = leaf(1.0), Held(), []

    async def body(grad):
        if grad.item() == 1.0:
            await held(grad)
        elif grad.item() == 10.0:
            tasks.append(asyncio.ensure_future(ag.backward(out, np.ones(1), retain_graph=True)))
            await held.begun.wait()
            if not body_first:
                held.let_go.set()
                await tasks[0]

    out = awaiting(x, body)
    await ag.backward(out, np.full(1, 10.0), retain_graph=True)
    third = asyncio.ensure_future(ag.backward(out, np.full(1, 100.0), retain_graph=True))
    await settle()
    assert (tasks[0].done(), third.done()) == (not body_first, not body_first)
    held.let_go.set()
    await asyncio.gather(*tasks, third)
    assert x.grad.item() == 111.0
    assert is_at_rest(out)


@on_each_loop
def test_a_blocking_backward_that_would_stall_the_loop_of_the_holder_is_refused_by_name(run):
    async def main():
        x, held = leaf(1.0), Held()
        out = np.multiply(x, 2.0)
        out.register_hook(held)
        holder = asyncio.ensure_future(ag.backward(out, retain_graph=True))
        await held.begun.wait()
        with pytest.raises(BlockingError, match=r"MultiplyBackward \(node #\d+\) is being run by another.*Await it"):
            sync.backward(out, retain_graph=True)
        assert not holder.done()
        held.let_go.set()
        await holder
        assert x.grad.item() == 2.0
        assert is_at_rest(out)

    run(main())


@on_each_loop
def test_a_blocking_backward_that_would_stall_the_loop_of_the_holder_is_refused_from_a_stack_of_its_own_too(run):
    """Nested sixteen levels deep, a blocking backward goes on in a thread for which the loop's thread waits."""

    async def main():
        x, held = leaf(1.0), Held()
        out = np.multiply(x, 2.0)
        out.register_hook(held)
        holder = asyncio.ensure_future(ag.backward(out, retain_graph=True))
        await held.begun.wait()

        def nests(level):
            def body(grad):
                with ag.enable_grad():
                    inner = calling(leaf(1.0), nests(level - 1)) if level else out
                sync.backward(inner, retain_graph=True)

            return body

        for level in (1, 14, 15, 16, 40):
            with pytest.raises(BlockingError, match="is being run by another"):
                sync.backward(calling(leaf(1.0), nests(level)))
        held.let_go.set()
        await holder
        assert x.grad.item() == 2.0
        assert is_at_rest(out)

    run(main())


def test_a_blocking_backward_in_a_foreign_context_is_refused_where_its_own_stack_has_the_lock():
    """Nobody can know that it is nested; waiting would never end."""
    x = leaf(1.0)

    def body(grad):
        contextvars.Context().run(sync.backward, out, retain_graph=True)

    out = calling(x, body)
    with pytest.raises(BlockingError, match="is being run by another"):
        sync.backward(out, retain_graph=True)
    assert x.grad is None
    assert is_at_rest(out)


def test_a_holder_in_another_thread_that_needs_the_blocked_loop_goes_through(monkeypatch):
    """A loop's thread blocks for a lock whose holder, in another thread, then waits for a body of that very loop."""
    mine, theirs = leaf(1.0), leaf(1.0)
    thread_holds, loop_blocks = threading.Event(), threading.Event()
    errors: list[BaseException] = []
    wait = node_lock.LockWaiter.wait

    async def watched(waiter):
        loop_blocks.set()
        await wait(waiter)

    def thread_body(grad):
        if grad.item() == 1.0:
            return
        thread_holds.set()
        assert loop_blocks.wait(60)
        sync.backward(of_loop, np.ones(1), retain_graph=True)

    def in_thread() -> None:
        try:
            sync.backward(of_thread, np.full(1, 100.0), retain_graph=True)
        except BaseException as error:
            errors.append(error)

    of_thread = calling(theirs, thread_body)
    of_loop = np.multiply(mine, 2.0)

    async def main() -> None:
        waits = Held()

        async def hook(grad):
            if grad.item() != 1.0:
                await waits(grad)

        of_loop.register_hook(hook)
        holder = asyncio.ensure_future(ag.backward(of_loop, np.full(1, 100.0), retain_graph=True))
        await waits.begun.wait()
        thread = threading.Thread(target=in_thread)
        thread.start()
        assert thread_holds.wait(60)
        monkeypatch.setattr(node_lock.LockWaiter, "wait", watched)
        sync.backward(of_thread, np.ones(1), retain_graph=True)
        thread.join()
        waits.let_go.set()
        await holder

    asyncio.run(main())
    assert errors == []
    assert (mine.grad.item(), theirs.grad.item()) == (202.0, 101.0)
    assert is_at_rest(of_loop, of_thread)


@one_loop
@pytest.mark.parametrize("kind", LOOP_KINDS)
async def test_a_waiter_whose_loop_was_closed_is_passed_over(kind):
    x, gone, held = leaf(1.0), [], Held()
    out = awaiting(x, held)

    def wait_on_a_loop_that_is_closed() -> None:
        loop = loop_factory(kind)()
        task = loop.create_task(ag.backward(out, retain_graph=True))
        task._log_destroy_pending = False
        for _ in range(10):
            loop.run_until_complete(asyncio.sleep(0))
        gone.append(task)
        loop.close()

    first = asyncio.ensure_future(ag.backward(out, retain_graph=True))
    await held.begun.wait()
    thread = threading.Thread(target=wait_on_a_loop_that_is_closed)
    thread.start()
    thread.join()
    assert len(out.grad_fn.meta.contention.waiters) == 1
    last = asyncio.ensure_future(ag.backward(out, retain_graph=True))
    await settle()
    held.let_go.set()
    await asyncio.gather(first, last)
    assert x.grad.item() == 2.0
    gone.clear()
    gc.collect()
    assert x.grad.item() == 2.0
    assert is_at_rest(out)


@pytest.mark.parametrize("kind", LOOP_KINDS)
def test_a_lock_whose_holder_s_loop_was_closed_is_free(kind):
    """Also while somebody still has the task, so that its coroutine is not closed."""
    x, held = leaf(1.0), [Held()]

    async def body(grad):
        if held:
            await held.pop()(grad)

    out = awaiting(x, body)
    loop = loop_factory(kind)()
    task = loop.create_task(ag.backward(out, retain_graph=True))
    task._log_destroy_pending = False
    for _ in range(10):
        loop.run_until_complete(asyncio.sleep(0))
    assert out.grad_fn.meta.holder is not None
    loop.close()

    sync.backward(out, retain_graph=True)
    assert x.grad.item() == 1.0

    del task
    gc.collect()
    assert x.grad.item() == 1.0
    assert is_at_rest(out)


async def test_what_the_garbage_collector_gives_back_in_the_midst_of_a_queue_is_given_back(monkeypatch):
    """It may close an abandoned body at any line, in the thread that is at work on the very lock of that body."""

    out = calling(leaf(1.0), lambda grad: None)
    meta = out.grad_fn.meta

    class Abandoned:
        id = 2**62
        outer = scheduler = remote_jobs = None
        is_running = True

    abandoned = Abandoned()
    assert try_acquire(meta, abandoned)
    find_cycle = node_lock._find_cycle

    def collects(waiter, meta):
        release(meta, abandoned)
        return find_cycle(waiter, meta)

    monkeypatch.setattr(node_lock, "_find_cycle", collects)
    async with asyncio.timeout(60):
        await ag.backward(out)
    monkeypatch.undo()
    assert is_at_rest(out)
