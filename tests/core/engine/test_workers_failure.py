"""Failures, cancellations and closed loops while bodies run on workers: nothing goes on afterwards, nothing is lost."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.core.engine.remote import FunctionJob
from asyncgrad.core.engine.workers import WorkerPool
from asyncgrad.core.settings.scheduling import Quota
from tests.core.engine.heavy import always, heavy_calling, large
from tests.support.failing import raising
from tests.support.threads import PATIENCE, in_threads


async def test_what_a_body_raises_on_a_worker_ends_the_backward_and_names_the_node():
    x, error = large(), ValueError("no")

    y = heavy_calling(x, raising(error))
    with always(), pytest.raises(ValueError, match="no") as caught:
        await y.sum().backward()
    assert caught.value is error
    assert any("WatchedBackward" in note for note in error.__notes__)
    assert x.grad is None


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_a_body_on_a_worker_that_wants_the_program_to_end_ends_the_loop(error):
    x = large()

    async def main():
        with always():
            await heavy_calling(x, raising(error())).sum().backward()

    with pytest.raises(error):
        asyncio.run(main())
    assert x.grad is None
    assert ag.engine.statistics().in_flight == 0


async def test_the_backward_ends_only_once_bodies_that_still_run_have():
    begun, let_go, ended = threading.Event(), threading.Event(), []

    def slow(grad):
        begun.set()
        assert let_go.wait(PATIENCE)
        ended.append("body")

    def failing(grad):
        assert begun.wait(PATIENCE)
        threading.Timer(0, let_go.set).start()
        raise ValueError("no")

    x = large()
    with always(), ag.workers(2), pytest.raises(ValueError, match="no"):
        await (heavy_calling(x, slow) + heavy_calling(x, failing)).sum().backward()
    ended.append("backward")
    assert x.grad is None
    assert ended == ["body", "backward"]


async def test_cancelled_while_a_body_runs_a_backward_waits_for_it_and_writes_nothing():
    begun, let_go, ended = threading.Event(), threading.Event(), []

    def slow(grad):
        begun.set()
        assert let_go.wait(PATIENCE)
        ended.append("body")

    loop = asyncio.get_running_loop()
    x = large()
    with always():
        task = loop.create_task(heavy_calling(x, slow).sum().backward())
        await loop.run_in_executor(None, begun.wait, PATIENCE)
        # More than once: it goes on waiting.
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        assert not task.done()
        let_go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
    ended.append("backward")
    assert x.grad is None
    assert ended == ["body", "backward"]


async def test_a_body_that_still_waits_for_a_worker_never_runs_after_a_cancellation():
    begun, let_go, ran = threading.Event(), threading.Event(), []

    def slow(grad):
        ran.append(1)
        begun.set()
        assert let_go.wait(PATIENCE)

    loop = asyncio.get_running_loop()
    x = large()
    with always(), ag.workers(1):
        backward = sum(heavy_calling(x, slow) for _ in range(5)).sum().backward()
        task = loop.create_task(backward)
        await loop.run_in_executor(None, begun.wait, PATIENCE)
        task.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        let_go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        # The worker is free again.
        await heavy_calling(x, lambda grad: ran.append(2)).sum().backward()
    assert ran == [1, 2]
    assert ag.engine.statistics().queued == 0


async def test_a_timeout_ends_a_backward_whose_body_is_on_a_worker():
    let_go = threading.Event()

    x = large()

    def slow(grad):
        assert let_go.wait(PATIENCE)

    async def backward_in_time():
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(0.001) as timeout:

            def let_go_after_it():
                # Not by a second timer, which may come before the first.
                if timeout.expired():
                    let_go.set()
                else:
                    loop.call_soon(let_go_after_it)

            loop.call_soon(let_go_after_it)
            await heavy_calling(x, slow).sum().backward()

    with always(), pytest.raises(TimeoutError):
        await backward_in_time()
    assert x.grad is None


def test_a_loop_closed_in_mid_backward_frees_its_work_on_the_workers(monkeypatch):
    begun, let_go, ran = threading.Event(), threading.Event(), []
    block = FunctionJob.block_until_ended

    def block_and_let_go(call):
        let_go.set()
        block(call)

    monkeypatch.setattr(FunctionJob, "block_until_ended", block_and_let_go)

    def slow(grad):
        ran.append(1)
        begun.set()
        assert let_go.wait(PATIENCE)

    x = large()
    loop = asyncio.new_event_loop()
    with always(), ag.workers(1):
        backward = sum(heavy_calling(x, slow) for _ in range(5)).sum().backward()
        task = loop.create_task(backward)

        async def until_begun():
            while not begun.is_set():  # noqa: ASYNC110  # set in another thread
                await asyncio.sleep(0)

        loop.run_until_complete(until_begun())
        loop.close()
        task._log_destroy_pending = False
        # Closes the backward, which waits for the body that runs.
        del task, backward
        gc.collect()
    assert let_go.is_set()
    assert ran == [1]
    assert x.grad is None


@pytest.mark.parametrize("worker", ["a worker", "thread:0"])
def test_a_worker_may_collect_the_sender_of_any_job(no_collector, worker):
    lock, begun, taken, ended = threading.Lock(), threading.Event(), threading.Event(), threading.Event()

    def needs_lock():
        begun.set()
        assert taken.wait(PATIENCE)
        with lock:
            ended.set()

    def collects():
        with lock:
            taken.set()
            # Closes the call of `needs_lock`, which does not end before this has let go of the lock.
            gc.collect()
        return ended.wait(PATIENCE)

    async def until_begun():
        calls.append(asyncio.ensure_future(ag.forward(needs_lock)))
        while not begun.is_set():  # noqa: ASYNC110  # set in another thread
            await asyncio.sleep(0)

    async def collect():
        return await (ag.forward(collects) if worker == "a worker" else ag.device(worker).call(collects))

    calls: list[asyncio.Future[None]] = []
    loop = asyncio.new_event_loop()
    with ag.workers(2):
        loop.run_until_complete(until_begun())
        loop.close()
        calls.pop()._log_destroy_pending = False
        del loop
        with asyncio.Runner() as runner:
            assert runner.run(asyncio.wait_for(collect(), PATIENCE))


def test_a_worker_may_collect_the_sender_of_its_own_job(no_collector):
    begun, let_go, ended = threading.Event(), threading.Event(), threading.Event()

    def collecting():
        begun.set()
        assert let_go.wait(PATIENCE)
        # Closes the call, which waits for no end of what it is called by.
        gc.collect()
        ended.set()

    async def until_begun():
        calls.append(asyncio.ensure_future(ag.forward(collecting)))
        while not begun.is_set():  # noqa: ASYNC110  # set in another thread
            await asyncio.sleep(0)

    calls: list[asyncio.Future[None]] = []
    loop = asyncio.new_event_loop()
    with ag.workers(1):
        loop.run_until_complete(until_begun())
    loop.close()
    calls.pop()._log_destroy_pending = False
    del loop
    let_go.set()

    assert ended.wait(PATIENCE)


@pytest.mark.parametrize("comes", ["before", "after"])
@pytest.mark.parametrize("call", ["start", "put"])
def test_an_interrupt_while_a_job_is_submitted_takes_it_back_and_no_later_one_waits_for_it(call, comes, monkeypatch):
    pool, quota = WorkerPool(), Quota(1)
    ran: list[str] = []

    def job_that(name: str) -> FunctionJob:
        return FunctionJob(lambda: ran.append(name), (0, 0), copy_context(), None)

    def interrupt(function: Callable[..., object], *args: object) -> None:
        if comes == "after":
            function(*args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if call == "start":
            start = threading.Thread.start
            patch.setattr(threading.Thread, "start", lambda thread: interrupt(start, thread))
        else:
            tokens = pool._tokens
            patch.setattr(pool, "_tokens", SimpleNamespace(put=partial(interrupt, tokens.put), get=tokens.get))
        with pytest.raises(KeyboardInterrupt):
            pool.submit(job_that("interrupted"), quota)
    later = [job_that(f"later {number}") for number in range(3)]
    for job in later:
        pool.submit(job, quota)
    in_threads(1, lambda _: [job.block_until_ended() for job in later])
    pool.close()

    assert ran == ["later 0", "later 1", "later 2"]
    assert quota.running == 0
    assert pool.counts() == (0, 0, 0, 4)


def test_loops_in_several_threads_share_the_workers_and_get_their_own_results():
    results: dict[int, float] = {}

    async def main(number: int) -> None:
        x = large(number)
        with always():
            await (heavy_calling(x, lambda grad: None) * x).sum().backward()
        results[number] = float(x.grad.numpy()[0])

    in_threads(6, lambda number: asyncio.run(main(number)))

    assert results == {number: 2.0 * number for number in range(6)}


def test_a_shared_graph_can_be_run_from_several_loops_at_once():
    x = large(2.0)
    y = (heavy_calling(x, lambda grad: None) * x).sum()

    def backward(number: int) -> None:
        with always():
            asyncio.run(y.backward(retain_graph=True))

    in_threads(4, backward)

    np.testing.assert_array_equal(x.grad.numpy(), 16.0)
