"""Heavy bodies run on worker threads: several at once, the loop free meanwhile, the same bits."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.core.graph.cost import LARGE
from asyncgrad.extend import derivative, primitive
from tests.core.engine.heavy import MANY, always, heavy_calling, large, on_workers
from tests.support.functions import calling
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop
from tests.support.threads import PATIENCE


def meeting(barrier: threading.Barrier):
    def body(grad):
        barrier.wait()

    return body


async def test_the_loop_runs_on_while_a_heavy_body_does():
    let_go = threading.Event()

    y = heavy_calling(large(), lambda grad: None if let_go.wait(PATIENCE) else 0)
    asyncio.get_running_loop().call_soon(lambda: asyncio.get_running_loop().call_soon(let_go.set))
    with always():
        await y.sum().backward()
    assert let_go.is_set()


async def test_as_many_heavy_bodies_run_at_once_as_there_are_workers():
    together = threading.Barrier(3, timeout=PATIENCE)

    ys = [heavy_calling(large(), meeting(together)) for _ in range(3)]
    with always(), ag.workers(3):
        await sum(ys).sum().backward()
    assert not together.broken


async def test_no_more_bodies_run_at_once_than_there_are_workers():
    running: list[int] = []
    most: list[int] = []

    def body(grad):
        running.append(1)
        most.append(len(running))
        running.pop()

    x = large()
    with always(), ag.workers(1):
        await sum(heavy_calling(x, body) for _ in range(20)).sum().backward()
    assert len(most) == 20
    assert set(most) == {1}


async def test_all_backward_passes_of_one_block_share_its_workers():
    running: list[int] = []
    most: list[int] = []

    def body(grad):
        running.append(1)
        most.append(len(running))
        running.pop()

    with always(), ag.workers(1):
        await asyncio.gather(*(heavy_calling(large(), body).sum().backward() for _ in range(10)))
    assert most == [1] * 10


async def test_with_no_workers_all_runs_in_the_thread_that_drives():
    threads = []

    with always(), ag.workers(0):
        await heavy_calling(large(), lambda grad: threads.append(threading.get_ident())).sum().backward()
    assert threads == [threading.get_ident()]


async def test_a_short_body_runs_in_the_thread_that_drives():
    threads = []

    x = ag.tensor(np.ones(8), requires_grad=True)
    await heavy_calling(x, lambda grad: threads.append(threading.get_ident())).sum().backward()
    assert threads == [threading.get_ident()]


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("limited", [False, True], ids=["backward", "grad"])
async def test_any_number_of_workers_gives_the_same_bits(workers, limited):
    random = np.random.default_rng(5)
    leaves = [ag.tensor(random.standard_normal(MANY), requires_grad=True) for _ in range(3)]

    async def gradients(number: int) -> list[Any]:
        branches = [heavy_calling(one * other, np.tanh) * one for one in leaves for other in leaves]
        root = (heavy_calling(branches[0] + sum(branches[1:]), np.sin) ** 2).sum()
        with ag.workers(number), always():
            if limited:
                return [one.numpy() for one in await ag.grad(root, leaves)]
            for one in leaves:
                one.grad = None
            await root.backward()
            return [one.grad.numpy() for one in leaves]

    async def main():
        before = ag.engine.statistics().offloaded
        for one, other in zip(await gradients(workers), await gradients(0), strict=True):
            assert one.tobytes() == other.tobytes()
        assert ag.engine.statistics().offloaded > before

    await main()


async def test_where_inputs_limit_a_backward_heavy_bodies_leave_too():
    seen = []

    x = large()
    with always():
        await ag.grad(heavy_calling(x, lambda grad: seen.append(on_workers())).sum(), [x])
    assert seen == [True]


async def test_under_create_graph_bodies_stay_so_that_nodes_are_recorded_in_one_order():
    seen = []

    x = large()
    with always():
        await ag.grad(heavy_calling(x, lambda grad: seen.append(on_workers())).sum(), [x], create_graph=True)
    assert seen == [False]


async def test_a_user_s_plain_body_that_is_heavy_leaves_and_nothing_else_begins_meanwhile():
    order: list[Any] = []

    def slow(grad):
        order.append(("begins", on_workers()))
        order.append("ends")

    x = leaf(1.0, 2.0)
    ys = [calling(x, lambda grad: order.append("the other")), calling(x, slow)]
    with always():
        await ag.backward(ys, [np.ones(2), np.ones(2)])
    assert order == [("begins", True), "ends", "the other"]


async def test_a_body_that_says_so_stays_on_the_loop():
    class OnTheLoop(ag.Function):
        stays_on_loop = True

        @staticmethod
        def forward(ctx, x):
            return x.numpy().copy()

        @staticmethod
        def backward(ctx, grad):
            seen.append(asyncio.get_running_loop())
            return grad

    seen: list[Any] = []

    with always():
        await OnTheLoop.apply(leaf(1.0, 2.0)).sum().backward()
    assert seen == [asyncio.get_running_loop()]


async def test_a_body_on_a_worker_has_the_context_of_its_backward():
    seen = []

    def body(grad):
        seen.append((ag.engine.current_graph_task_id(), ag.graph.current_node(), ag.is_grad_enabled()))
        return np.divide(grad, 0.0)

    x = large()
    y = heavy_calling(x, body)
    with always(), np.errstate(divide="ignore"):
        await y.sum().backward()
    node = y.grad_fn
    ((task, found, mode),) = seen
    assert task >= 0
    assert found is node
    assert mode is False


@on_each_loop
def test_a_backward_inside_of_a_body_on_a_worker_uses_no_workers(run):
    threads = []

    def body(grad):
        threads.append(threading.get_ident())
        with ag.enable_grad():
            y = heavy_calling(large(), lambda grad: threads.append(threading.get_ident())).sum()
        ag.sync.backward(y)

    async def main():
        with always(), ag.workers(1):
            await heavy_calling(large(), body).sum().backward()

    run(main())
    assert threads[0] == threads[1]
    assert threads[0] != threading.get_ident()


def test_a_blocking_backward_uses_workers_too():
    together = threading.Barrier(2, timeout=PATIENCE)
    ys = [heavy_calling(large(), meeting(together)) for _ in range(2)]

    with always(), ag.workers(2):
        ag.sync.backward(sum(ys).sum())

    assert not together.broken


@on_each_loop
def test_a_blocking_backward_on_a_loop_uses_none(run):
    threads = []

    async def main():
        with always():
            ag.sync.backward(heavy_calling(large(), lambda grad: threads.append(threading.get_ident())).sum())

    run(main())
    assert threads == [threading.get_ident()]


async def test_statistics_count_threads_and_what_they_run():
    begun, let_go = threading.Event(), threading.Event()

    def body(grad):
        begun.set()
        assert let_go.wait(PATIENCE)

    before = ag.engine.statistics()
    with always(), ag.workers(1):
        x = large()
        ys = [heavy_calling(x, body) for _ in range(3)]
        task = asyncio.create_task(ag.backward(ys, [np.ones(x.shape, np.float32)] * 3))
        await asyncio.get_running_loop().run_in_executor(None, begun.wait, PATIENCE)
        while (now := ag.engine.statistics()).queued < 2:  # noqa: ASYNC110  # no event tells of a queue
            await asyncio.sleep(0)
        let_go.set()
        await task
    after = ag.engine.statistics()
    assert now.workers >= 1
    assert (now.in_flight, now.queued) == (1, 2)
    assert (after.in_flight, after.queued) == (0, 0)
    assert after.offloaded >= before.offloaded + 3


async def test_once_a_body_on_large_arrays_has_kept_the_loop_all_bodies_on_such_leave():
    seen = []

    def noting():
        # A primitive that nothing has been measured of.
        @primitive()
        def noted(x):
            return x.copy()

        @derivative(noted, "x")
        def _(g):
            seen.append(on_workers())
            return g

        return noted

    async def main():
        x = ag.tensor(np.ones(LARGE, np.float32), requires_grad=True)
        with ag.loop_budget(0), always():
            for noted in (noting(), noting()):
                await noted(x).backward(np.ones(LARGE, np.float32))

    await main()
    # The first one stays if it is the first of this process.
    assert seen[1]
