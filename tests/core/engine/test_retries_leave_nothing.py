"""A program that fails and tries again, for as long as it runs: nothing of its failures stays.

Each try is one of `retain_graph="until_success"` through rules that wait. Some are memoized, and some of these ask by
one batched and limited function. It fails at another rule each time, or is cancelled while one waits; then it is made
once more, and succeeds. After a number of these to warm up, there is no more of anything.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.core.engine.eager_task import EagerTask
from asyncgrad.core.engine.graph_task import SUSPENDED, GraphTask
from asyncgrad.core.engine.node_lock import _LOCK_TABLE
from asyncgrad.core.engine.workers import WORKER_POOL
from tests.support.failing import Trouble
from tests.support.graphs import nodes_below
from tests.support.leaves import leaf
from tests.support.loops import one_loop
from tests.support.sampling import SHARE, cases
from tests.support.turns import one_turn

UNTIL: Any = "until_success"
#: The rules of a graph; those that are asked at each try, since nobody remembers what they have answered.
RULES, FORGETFUL = tuple(range(6)), (0, 3)
#: Each of the twelve ways to fail comes 50 times: an object that one of them leaves each time exceeds the bound below.
TRIES = cases(10_000) if SHARE >= 1 else 600


class Census(NamedTuple):
    """How much there is of what failures may leave."""

    objects: int
    blocks: int
    tasks: int
    backward_passes: int
    waiters: int


#: By how much a later one may be above an earlier one, however many tries lie between: caches grow a little.
BOUNDS = Census(objects=40, blocks=200, tasks=0, backward_passes=0, waiters=0)


def census() -> Census:
    gc.collect()
    objects = gc.get_objects()
    return Census(
        objects=len(objects),
        # Of all objects, also those that the garbage collector does not know, as arrays.
        blocks=sys.getallocatedblocks(),
        tasks=len(asyncio.all_tasks()) + sum(type(one) is EagerTask for one in objects),
        backward_passes=sum(type(one) is GraphTask for one in objects) + len(SUSPENDED),
        waiters=len(_LOCK_TABLE.waiters_by_blocked) + len(_LOCK_TABLE.deferred) + WORKER_POOL.counts()[2],
    )


def grown(before: Census, after: Census) -> dict[str, tuple[int, int]]:
    """What there is more of than its bound allows, with both counts."""
    pairs = zip(Census._fields, before, after, BOUNDS, strict=True)
    return {name: (first, last) for name, first, last, bound in pairs if last - first > bound}


class Service:
    """What the rules ask; one of its answers may fail, or be held back until it is given up."""

    def __init__(self) -> None:
        self.solver = ag.limit(requests=2)
        self.failing: int | None = None
        self.held: int | None = None
        self.is_held = asyncio.Event()
        self.answers = ag.batched(max_size=2)(self._answer)

    async def _answer(self, numbers: list[int]) -> list[float]:
        async with self.solver:
            for number in numbers:
                await self.wait(number)
            return [3.0] * len(numbers)

    async def wait(self, number: int) -> None:
        await one_turn()
        if number == self.failing:
            raise Trouble(f"rule {number}")
        if number == self.held:
            self.is_held.set()
            await asyncio.Event().wait()


class Waiting(ag.Function):
    """x * 3; the gradient is waited for."""

    @staticmethod
    def forward(ctx, x, number, service):
        ctx.number, ctx.service = number, service
        ctx.save_for_backward(x)
        return x.numpy() * 3.0

    @staticmethod
    async def backward(ctx, grad):
        await ctx.service.wait(ctx.number)
        return grad * 3.0, None, None


class Remembered(Waiting):
    is_memoized = True


class Batched(Waiting):
    is_memoized = True

    @staticmethod
    async def backward(ctx, grad):
        return grad * await ctx.service.answers(ctx.number), None, None


def graph(x: Any, service: Service) -> Any:
    """Rules of each kind, beneath one another and side by side."""
    kinds = Waiting, Remembered, Batched
    ends = []
    for first in (0, 3):
        y = x
        for number, kind in enumerate(kinds, first):
            y = kind.apply(y, number, service)
        ends.append(y)
    return (ends[0] * ends[1]).sum()


async def fail(loss: Any, service: Service, rules: tuple[int, ...], number: int) -> None:
    """Have a backward fail at one of these rules, another for each number; or be cancelled while that waits."""
    is_cancelled, place = divmod(number % (2 * len(rules)), len(rules))
    if not is_cancelled:
        service.failing = rules[place]
        with pytest.raises(Trouble):
            await loss.backward(retain_graph=UNTIL)
        service.failing = None
        return
    service.held = rules[place]
    service.is_held.clear()
    task = asyncio.ensure_future(loss.backward(retain_graph=UNTIL))
    await service.is_held.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    service.held = None


async def try_anew(service: Service, times: int) -> None:
    """Fail, and succeed at the second try, so often, each time with a graph of its own."""
    for number in range(times):
        x = leaf(1.0, 2.0)
        loss = graph(x, service)
        nodes = nodes_below(loss)
        await fail(loss, service, RULES, number)
        assert x.grad is None
        await loss.backward(retain_graph=UNTIL)
        assert x.grad.tolist() == [2.0 * 3.0**6, 4.0 * 3.0**6]
        assert all(node.meta is None or (node.meta.holder, node.meta.contention) == (None, None) for node in nodes)


async def try_again(service: Service, times: int) -> None:
    """Fail so often with one graph, which is kept for the next try."""
    x = leaf(1.0, 2.0)
    loss = graph(x, service)
    for number in range(times):
        await fail(loss, service, FORGETFUL, number)
    await loss.backward(retain_graph=UNTIL)
    assert x.grad.tolist() == [2.0 * 3.0**6, 4.0 * 3.0**6]


@pytest.fixture
def no_workers() -> Iterator[None]:
    """No worker keeps what it ran last."""
    with ag.workers(0):
        yield


@pytest.mark.parametrize("tries", [try_anew, try_again])
@pytest.mark.parametrize(
    "times", [240, pytest.param(TRIES, marks=[pytest.mark.slow, pytest.mark.timeout(300)], id="10_000")]
)
@one_loop
@pytest.mark.usefixtures("no_workers")
async def test_backward_passes_that_fail_and_are_tried_again_leave_nothing(times: int, tries: Callable[..., Any]):
    service = Service()
    await tries(service, 180)
    found: dict[str, tuple[int, int]] = {}
    # What is made once, as where a busy machine first has the loop breathe, is there before the second time.
    for _ in range(2):
        before = census()
        await tries(service, times)
        found = grown(before, census())
        if not found:
            break

    assert found == {}
    batches, limit = service.answers.statistics(), service.solver.statistics()
    assert (batches.waiting, batches.running, limit.waiting, limit.running) == (0, 0, 0, 0)


@pytest.mark.parametrize("kept", ["node", "backward", "array"])
@one_loop
@pytest.mark.usefixtures("no_workers")
async def test_what_each_try_leaves_is_found_out(kept: str):
    service, left = Service(), list[Any]()
    keep = {
        "node": lambda grad: left.append(ag.graph.current_node()),
        "backward": lambda grad: left.append(ag.engine.current_graph_task()),
        "array": lambda grad: left.extend(np.zeros((8, 1))),
    }[kept]

    async def tries(times: int) -> None:
        for _ in range(times):
            x = leaf(1.0, 2.0)
            x.register_hook(keep)
            await graph(x, service).backward(retain_graph=UNTIL)

    await tries(10)
    before = census()
    await tries(50)

    found = grown(before, census())
    assert ("backward_passes" in found) == (kept == "backward")
    # The garbage collector does not know an array.
    assert "objects" in found or kept == "array"
    assert "blocks" in found
