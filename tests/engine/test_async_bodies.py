"""Async bodies run together wherever the graph allows, each as an asyncio task of its own."""

from __future__ import annotations

import asyncio
import contextvars
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.context import BLOCKING, CURRENT_GRAPH_TASK, CURRENT_NODE, GRAD_MODE, LOOP_BUDGET
from tests.engine.bodies import Held, awaiting, calling, leaf, settle


def test_bodies_that_do_not_depend_on_each_other_wait_together(run):
    async def main():
        helds = [Held() for _ in range(5)]
        x = leaf(1.0)
        out = np.multiply(x, 0.0)
        for held in helds:
            out = np.add(out, awaiting(np.multiply(x, 2.0), held))
        backward = asyncio.ensure_future(out.backward())

        await asyncio.gather(*[held.begun.wait() for held in helds])
        assert not any(held.ended for held in helds)
        for held in helds:
            held.let_go.set()
        await backward
        assert x.grad.item() == 10.0

    run(main())


def test_a_node_begins_as_soon_as_what_it_needs_has_ended(run):
    """Two chains side by side: the second link of one runs while the first link of the other waits."""

    async def main():
        first, second, other = Held(), Held(), Held()
        x, y = leaf(1.0), leaf(1.0)
        out = np.add(awaiting(awaiting(x, second), first), awaiting(y, other))
        backward = asyncio.ensure_future(out.backward())
        await first.begun.wait()
        await other.begun.wait()
        assert not second.begun.is_set()

        first.let_go.set()
        await second.begun.wait()
        assert not other.ended
        second.let_go.set()
        await settle()
        # The leaf of the chain that has ended has its gradient already.
        assert x.grad.item() == 1.0
        other.let_go.set()
        await backward

    run(main())


def test_a_node_waits_for_all_the_bodies_that_lead_to_it(run):
    async def main():
        helds = [Held(), Held()]
        ran: list[Any] = []
        shared = calling(leaf(1.0), lambda grad: ran.append(grad.item()))
        out = np.add(awaiting(shared, helds[0]), awaiting(np.multiply(shared, 2.0), helds[1]))
        backward = asyncio.ensure_future(out.backward())
        for held in helds:
            await held.begun.wait()
        for held in helds:
            assert ran == []
            held.let_go.set()
            await settle()
        await backward
        assert ran == [3.0]

    run(main())


def test_plain_nodes_run_on_while_a_body_waits(run):
    async def main():
        held = Held()
        x, y = leaf(2.0), leaf(3.0)
        backward = asyncio.ensure_future(np.add(awaiting(x, held), np.multiply(y, 5.0)).backward())
        await held.begun.wait()
        await settle()
        assert y.grad.item() == 5.0
        held.let_go.set()
        await backward
        assert x.grad.item() == 1.0

    run(main())


def test_async_hooks_of_different_nodes_wait_together(run):
    async def main():
        helds = [Held() for _ in range(3)]
        leaves = [leaf(1.0) for _ in range(3)]
        out = np.multiply(leaves[0], 1.0)
        for tensor in leaves:
            out = np.add(out, np.multiply(tensor, 2.0))
        leaves[0].register_hook(helds[0])
        leaves[1].register_post_accumulate_grad_hook(helds[1])
        leaves[2].register_hook(helds[2])
        backward = asyncio.ensure_future(out.backward())
        await asyncio.gather(*[held.begun.wait() for held in helds])
        for held in helds:
            held.let_go.set()
        await backward
        assert [tensor.grad.item() for tensor in leaves] == [3.0, 2.0, 2.0]

    run(main())


def test_hooks_of_one_tensor_run_one_after_the_other(run):
    seen: list[str] = []

    async def slow(grad):
        seen.append("first begins")
        await asyncio.sleep(0)
        seen.append("first ends")
        return np.multiply(grad, 2.0)

    x = leaf(1.0)
    x.register_hook(slow)
    x.register_hook(lambda grad: seen.append(f"second sees {grad.item():g}"))

    run(ag.backward(np.multiply(x, 3.0)))

    assert seen == ["first begins", "first ends", "second sees 6"]


def test_two_backwards_at_once_overlap(run):
    async def main():
        helds = [Held(), Held()]
        leaves = [leaf(1.0), leaf(1.0)]
        tasks = [asyncio.ensure_future(awaiting(x, held).backward()) for x, held in zip(leaves, helds, strict=True)]
        for held in helds:
            await held.begun.wait()
        for held in helds:
            held.let_go.set()
        await asyncio.gather(*tasks)
        assert [x.grad.item() for x in leaves] == [1.0, 1.0]

    run(main())


def test_a_thousand_bodies_wait_at_once(run):
    async def main():
        gate, all_wait = asyncio.Event(), asyncio.Event()
        waiting = 0

        async def wait(grad):
            nonlocal waiting
            waiting += 1
            if waiting == 1000:
                all_wait.set()
            await gate.wait()

        x = leaf(1.0)

        class Fan(ag.Function):
            @staticmethod
            def forward(ctx, *xs):
                return sum(x.numpy() for x in xs)

            @staticmethod
            def backward(ctx, grad):
                return (grad,) * 1000

        out = Fan.apply(*[awaiting(np.multiply(x, 1.0), wait) for _ in range(1000)])
        backward = asyncio.ensure_future(out.backward())
        await all_wait.wait()
        gate.set()
        await backward
        assert x.grad.item() == 1000.0

    run(main())


# What a body costs and sees.


@pytest.fixture
def no_hurry() -> Iterator[None]:
    """However slow the machine, the time budget is not spent."""
    token = LOOP_BUDGET.set(math.inf)
    try:
        yield
    finally:
        LOOP_BUDGET.reset(token)


class CountingLoop:
    """Counts the turns that a ticker gets."""

    def __init__(self) -> None:
        self.ticks = 0

    async def tick(self) -> None:
        while True:
            self.ticks += 1
            await asyncio.sleep(0)


async def turns_taken(awaitable: Any) -> int:
    """Return how many turns of the loop others got before `awaitable` ended."""
    counting = CountingLoop()
    ticker = asyncio.ensure_future(counting.tick())
    await asyncio.sleep(0)
    before = counting.ticks
    await awaitable
    taken = counting.ticks - before
    ticker.cancel()
    await asyncio.wait([ticker])
    return taken


async def at_once(grad):
    return None


def chain_of(count: int, body: Any) -> ag.Tensor:
    out: Any = leaf(1.0)
    for _ in range(count):
        out = awaiting(out, body)
    return out


def test_async_bodies_that_never_suspend_cost_no_turn_of_the_loop_and_make_no_task(run, no_hurry):
    async def main():
        tasks: list[set[Any]] = []

        async def look(grad):
            tasks.append(asyncio.all_tasks())

        out = chain_of(5, look)
        assert await turns_taken(out.backward()) == 0
        assert all(len(found) <= 2 for found in tasks)

    run(main())


def test_a_body_that_waits_one_turn_costs_two(run, no_hurry):
    """One to end in, and one for the driver to go on in."""

    async def main():
        async def one(grad):
            await asyncio.sleep(0)

        assert await turns_taken(chain_of(10, one).backward()) <= 2 * 10

    run(main())


def test_a_small_graph_never_suspends(run, no_hurry):
    """Driven by hand: the coroutine ends at its first step."""

    async def main():
        x = leaf(1.0, 2.0)
        for out in (
            np.multiply(np.multiply(x, x), x),
            calling(np.multiply(x, x), lambda grad: None),
            chain_of(3, at_once),
        ):
            step = out.backward(np.ones(out.shape))
            with pytest.raises(StopIteration):
                step.send(None)

    run(main())


def test_current_task_inside_a_body_is_a_task_of_its_own(run):
    async def main():
        seen: list[Any] = []

        async def look(grad):
            seen.append(asyncio.current_task())
            await asyncio.sleep(0)
            seen.append(asyncio.current_task())
            assert asyncio.current_task() in asyncio.all_tasks()

        outer = asyncio.current_task()
        out = awaiting(leaf(1.0), look)
        await ag.backward(out)

        assert seen[0] is seen[1]
        assert seen[0] is not outer
        assert seen[0].get_name() == f"AwaitingBackward #{out.grad_fn.sequence_nr}"
        assert asyncio.current_task() is outer

    run(main())


def test_current_task_inside_a_plain_body_is_a_task_too(run):
    async def main():
        seen: list[Any] = []
        outer = asyncio.current_task()
        await ag.backward(calling(leaf(1.0), lambda grad: seen.append(asyncio.current_task())))
        assert seen[0] is not None
        assert asyncio.current_task() is outer

    run(main())


VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="unset")


def test_context_variables_that_a_body_sets_are_seen_by_no_other(run):
    async def main():
        seen: list[str] = []

        async def sets(grad):
            seen.append(VARIABLE.get())
            VARIABLE.set("by a body")
            await asyncio.sleep(0)
            assert VARIABLE.get() == "by a body"

        def sets_at_once(grad):
            seen.append(VARIABLE.get())
            VARIABLE.set("by a plain body")

        VARIABLE.set("by the caller")
        out = calling(awaiting(calling(awaiting(leaf(1.0), sets), sets_at_once), sets), sets_at_once)
        out = np.multiply(out, 2.0)
        out.register_hook(sets_at_once)
        await ag.backward(out)
        assert seen == ["by the caller"] * 5
        assert VARIABLE.get() == "by the caller"

    run(main())


def test_bodies_see_their_graph_task_their_node_and_the_grad_mode(run):
    async def main():
        seen: list[Any] = []

        async def look(grad):
            await asyncio.sleep(0)
            seen.append((CURRENT_GRAPH_TASK.get(), CURRENT_NODE.get(), GRAD_MODE.get(), BLOCKING.get()))

        x = leaf(2.0)
        first = awaiting(x, look)
        second = awaiting(first, look)
        await ag.backward(second, retain_graph=True)
        with ag.no_grad():
            await ag.grad(second, x, create_graph=True)

        graph_tasks = [graph_task for graph_task, *_ in seen]
        assert [row[1:] for row in seen] == [
            (second.grad_fn, False, False),
            (first.grad_fn, False, False),
            (second.grad_fn, True, False),
            (first.grad_fn, True, False),
        ]
        assert graph_tasks[0] is graph_tasks[1]
        assert graph_tasks[2].id > graph_tasks[0].id
        assert CURRENT_GRAPH_TASK.get() is None
        assert CURRENT_NODE.get() is None
        assert ag.is_grad_enabled()

    run(main())


def test_a_backward_awaited_inside_a_body_suspends_only_that_body(run):
    async def main():
        inner_held, other_held = Held(), Held()
        w = leaf(2.0)

        async def nested(grad):
            with ag.enable_grad():
                inner = awaiting(np.multiply(w, 3.0), inner_held)
            await ag.backward(inner)

        backward = asyncio.ensure_future(
            np.add(awaiting(leaf(1.0), nested), awaiting(leaf(1.0), other_held)).backward()
        )
        await inner_held.begun.wait()
        await other_held.begun.wait()
        inner_held.let_go.set()
        other_held.let_go.set()
        await backward
        assert w.grad.item() == 3.0

    run(main())


def test_a_plain_body_may_run_a_blocking_backward_that_does_not_suspend(run):
    w = leaf(2.0)

    def nested(grad):
        with ag.enable_grad():
            inner = calling(np.multiply(w, 3.0), lambda grad: None)
        sync.backward(inner)

    run(ag.backward(calling(leaf(1.0), nested)))

    assert w.grad.item() == 3.0


@pytest.mark.parametrize("suspends", [False, True])
def test_nesting_is_bounded_by_memory_alone(run, suspends):
    depths: list[int] = []

    async def nested(grad):
        depth = CURRENT_GRAPH_TASK.get().reentrant_depth
        depths.append(depth)
        if suspends:
            await asyncio.sleep(0)
        if depth < 400:
            with ag.enable_grad():
                inner = awaiting(leaf(1.0), nested)
            await ag.backward(inner)

    run(ag.backward(awaiting(leaf(1.0), nested)))

    assert depths == list(range(401))


def test_a_backward_may_run_outside_of_any_task(run, no_hurry):
    """In a callback of the loop there is no current task; bodies that do not suspend need none."""

    async def main():
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        x = leaf(2.0)

        def callback():
            assert asyncio.current_task() is None
            step = awaiting(np.multiply(x, 3.0), at_once).backward()
            try:
                step.send(None)
            except StopIteration:
                done.set_result(x.grad.item())

        loop.call_soon(callback)
        assert await done == 3.0

    run(main())
