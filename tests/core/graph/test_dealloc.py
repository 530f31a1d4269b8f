"""Deep graphs: what a node takes, and how a million of them go without an event loop standing still."""

from __future__ import annotations

import asyncio
import gc
import itertools
import math
import tracemalloc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

import asyncgrad as ag
from asyncgrad.core.graph.dealloc import DEALLOCATION_INTERVAL
from tests.support.clocks import TickingClock, hand_in
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop
from tests.support.settings import node_by_node
from tests.support.threads import on_a_small_stack

DEEP = 20 * DEALLOCATION_INTERVAL

#: Steps of a chain: how many nodes each makes, and how many tensors these save.
STEPS: dict[str, tuple[int, int, Any]] = {
    "y + x": (1, 0, lambda y, x: y + x),
    "-y": (1, 0, lambda y, x: -y),
    "y * x + x": (2, 1, lambda y, x: y * x + x),
}

#: Bytes of a tensor of one element, and its array; the array takes 16 more with NumPy 2.5.
SAVED = 232

#: Bytes that the rest of the process may allocate meanwhile: threads of earlier tests, and Python's own caches.
ELSEWHERE = 16_384


@pytest.fixture(autouse=True)
def _clock() -> Iterator[None]:
    """A clock that goes on whenever it is looked at: with a budget of 0, each stretch has a turn of its own.

    Deep graphs that earlier tests have left in cycles are not found in the midst of a test, and dropped on its loop.
    """
    gc.collect()
    with hand_in(TickingClock()):
        yield


def leaf_and_chain(steps: int, step: Any = lambda y, x: y + x) -> tuple[Any, Any]:
    """Return a leaf of one element, and the result of a chain of steps from it."""
    x = y = leaf(1e-9)
    for _ in range(steps):
        y = step(y, x)
    return x, y


def weak_nodes_below(y: Any, distance: int = 1000) -> list[weakref.ref[Any]]:
    """Return weak references to some of the nodes of a chain, the newest first."""
    references, node, count = [], y.grad_fn, 0
    while node.next_nodes:
        if not count % distance:
            references.append(weakref.ref(node))
        node, count = node.next_nodes[0], count + 1
    return references


def count_alive(references: list[weakref.ref[Any]]) -> int:
    return sum(reference() is not None for reference in references)


async def all_gone(references: list[weakref.ref[Any]]) -> None:
    """Let the loop turn until none is alive."""
    while count_alive(references):  # noqa: ASYNC110  # nothing else tells
        await asyncio.sleep(0)


@pytest.mark.slow
@pytest.mark.parametrize(("nodes", "saved", "step"), STEPS.values(), ids=STEPS)
def test_a_node_takes_250_bytes_at_most_and_what_it_saves_built_or_run_and_none_once_dropped(nodes, saved, step):
    # What is made once for all, plans of derivatives for example.
    ag.sync.backward(leaf_and_chain(3000, step)[1])
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        x, y = leaf_and_chain(30_000 // nodes, step)
        # What compiled autograd would note of the graph is not the graph's.
        with node_by_node():
            ag.sync.backward(y)
        _, peak = tracemalloc.get_traced_memory()
        del x, y
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert (peak - before - ELSEWHERE) / 30_000 <= 250 + SAVED * saved / nodes
    assert (after - before) / 30_000 < 10


async def test_a_deep_graph_is_destroyed_over_many_turns_of_the_loop():
    with ag.loop_budget(0):
        _, y = leaf_and_chain(DEEP)
        references = weak_nodes_below(y)
        del y
        counts = [count_alive(references)]
        while counts[-1]:
            await asyncio.sleep(0)
            counts.append(count_alive(references))
    assert counts == sorted(counts, reverse=True)
    assert max(before - after for before, after in itertools.pairwise(counts)) <= 2

    assert len(counts) >= DEEP // DEALLOCATION_INTERVAL


@pytest.mark.slow
async def test_a_deep_graph_that_has_been_run_is_destroyed_over_many_turns_of_the_loop():
    _, y = leaf_and_chain(DEEP, lambda y, x: y * x + x)
    with ag.loop_budget(math.inf):
        await y.backward()
    references = weak_nodes_below(y)
    with ag.loop_budget(0):
        del y
    assert count_alive(references) > 10
    await all_gone(references)


@pytest.mark.slow
@pytest.mark.sampled("place")
@pytest.mark.parametrize("place", range(3))
async def test_whichever_node_of_a_step_the_next_one_hangs_on_some_of_them_are_deallocation_checkpoints(place):
    references = []
    x = y = leaf(1e-9)
    for _ in range(DEEP):
        terms = [x * 2.0, x * 3.0, x * 4.0]
        terms[place] = y
        y = (terms[0] + terms[1]) + terms[2]
        references.append(weakref.ref(y.grad_fn))
    with ag.loop_budget(0):
        del y, terms
    assert 0 < count_alive(references) < DEEP
    await all_gone(references)


async def test_what_is_not_deep_is_gone_at_once():
    for _ in range(3 * DEALLOCATION_INTERVAL // 500):
        _, y = leaf_and_chain(500)
        references = weak_nodes_below(y, 1)
        del y
        assert count_alive(references) == 0


def test_without_an_event_loop_a_deep_graph_is_gone_at_once():
    _, y = leaf_and_chain(DEEP)
    references = weak_nodes_below(y)
    del y

    assert count_alive(references) == 0


@pytest.mark.slow
def test_in_a_thread_with_a_small_stack_a_deep_graph_goes_without_recursion():
    left: list[int] = []

    def build_and_drop() -> None:
        _, y = leaf_and_chain(10 * DEEP)
        references = weak_nodes_below(y)
        del y
        left.append(count_alive(references))

    # Not smaller: CPython 3.13.0 itself goes deeper on the C stack before it defers what it destroys.
    on_a_small_stack(build_and_drop)
    assert left == [0]


@on_each_loop
def test_what_a_loop_has_not_come_to_is_gone_when_the_loop_is(run):
    async def main() -> list[weakref.ref[Any]]:
        _, y = leaf_and_chain(DEEP)
        references = weak_nodes_below(y)
        with ag.loop_budget(0):
            del y
        return references

    assert count_alive(run(main())) == 0


@pytest.mark.slow
async def test_a_loop_that_nobody_lets_turn_does_not_keep_one_dropped_graph_after_another():
    earlier: list[weakref.ref[Any]] = []
    # A hundred budgets have passed at once.
    with ag.loop_budget(0):
        for _ in range(4):
            _, y = leaf_and_chain(DEEP)
            references = weak_nodes_below(y)
            del y
            assert count_alive(earlier) == 0
            earlier = references
    await all_gone(earlier)


async def test_what_else_refers_to_a_node_keeps_it_and_what_it_leads_to():
    x, middle = leaf_and_chain(DEEP)
    y = middle
    for _ in range(DEEP):
        y = y + x
    references = weak_nodes_below(middle)
    with ag.loop_budget(0):
        del y
        for _ in range(100):
            await asyncio.sleep(0)
    assert count_alive(references) == len(references)
    with ag.loop_budget(math.inf):
        await middle.backward()
    assert x.grad.tolist() == [DEEP + 1.0]


async def test_a_deep_graph_in_a_cycle_is_found_by_the_garbage_collector_and_goes_in_turns():
    x, y = leaf_and_chain(DEEP)
    y.grad_fn.metadata["cycle"] = y
    references = weak_nodes_below(y)
    with ag.loop_budget(0):
        del x, y
        gc.collect()
        while count_alive(references):
            await asyncio.sleep(0)
            gc.collect()
