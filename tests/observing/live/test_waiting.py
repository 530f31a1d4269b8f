"""Which backward passes are stuck, and what is told of those that run: names and numbers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np

import asyncgrad as ag
from asyncgrad.core.engine.describe import BackwardDescription, LockDescription, NodeDescription
from asyncgrad.core.engine.graph_task import all_suspended
from asyncgrad.observing.live.waiting import MOST, running, stuck


def node(seconds: float | None, waits_for: str | None = None, holders: tuple[int, ...] = ()) -> NodeDescription:
    """Return a node that began so long ago."""
    lock = LockDescription(holders, 1) if holders else None
    return NodeDescription("A (node #1)", 1, "cpu", "suspended", None, waits_for, seconds, None, lock, ())


def backward(number: int, *nodes: NodeDescription, **changes: Any) -> BackwardDescription:
    """Return a backward with these nodes."""
    found = BackwardDescription(
        number, None, 0, "A (node #1)", "suspended", None, None, 1.0, 0, 2, tuple(nodes), (), 0, ()
    )
    return replace(found, **changes)


def test_one_is_stuck_if_all_its_nodes_are_old_and_none_is_ready():
    old, new, unknown = node(10.0), node(9.9), node(None)
    ready: dict[str, Any] = {"ready_count": 1}
    passes = [
        backward(1, old, old),
        backward(2, old, new),
        backward(3, old, **ready),
        backward(4),
        backward(5, unknown),
    ]

    assert stuck(passes, 10.0) == {1}


def test_one_that_waits_for_another_is_stuck_if_that_is():
    waits = node(20.0, "backward 2")
    assert stuck([backward(1, waits), backward(2, node(1.0))], 10.0) == set()
    assert stuck([backward(1, waits), backward(2, node(11.0))], 10.0) == {1, 2}
    assert stuck([backward(1, waits)], 10.0) == set()


def test_those_that_wait_for_each_others_locks_are_stuck_and_those_of_one_that_moves_are_not():
    circle = [backward(1, node(20.0, "the lock", (2,))), backward(2, node(20.0, "the lock", (1,)))]
    chain = [*circle[:1], backward(2, node(20.0, "the lock", (3,))), backward(3, node(0.5))]

    assert stuck(circle, 10.0) == {1, 2}
    assert stuck(chain, 10.0) == set()


def test_one_whose_loop_is_closed_is_stuck():
    assert stuck([backward(1, state="abandoned")], 10.0) == {1}


async def hold(root: Any, name: str, at: Any = None) -> asyncio.Task[Any]:
    """Begin a backward that waits for ever at its root, or where it is told to."""
    begun = asyncio.Event()

    async def wait(grad: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    (root if at is None else at).register_hook(wait)
    task = asyncio.create_task(root.backward(), name=name)
    await begun.wait()
    return task


async def test_a_running_backward_is_told_by_names_and_numbers():
    x = ag.tensor(np.full(3, 123456.75), requires_grad=True)
    task = await hold((x * x).sum(), "train")
    found = running(0.0)
    task.cancel()
    await asyncio.wait([task])
    (one,) = found["passes"]
    (begun,) = one["running"]

    assert (found["count"], found["stuck"], one["stuck"], one["task"]) == (1, 1, True, "train")
    assert (one["done"], one["nodes"], begun["waits"]) == (0, 3, "asyncio's Event.wait")
    # The file without its folders, and no value of a tensor.
    assert begun["where"].startswith("test_waiting.py:")
    assert "123456" not in str(found)
    assert "/" not in str(found)


async def test_the_oldest_are_told_and_all_are_counted():
    x = ag.tensor(2.0, requires_grad=True)
    tasks = [await hold(x * number, f"task {number}") for number in range(MOST + 5)]
    found = running(60.0)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)

    assert found["count"] == MOST + 5
    assert [one["task"] for one in found["passes"]] == [f"task {number}" for number in range(MOST)]


async def test_one_that_has_ended_is_not_counted_while_somebody_holds_it():
    y = ag.tensor(2.0, requires_grad=True) * 2.0
    held: list[Any] = []

    async def hold_it(grad: Any) -> None:
        await asyncio.sleep(0)
        held.extend(all_suspended())

    y.register_hook(hold_it)
    before = running(60.0)["count"]
    await y.backward()

    assert held
    assert running(60.0)["count"] == before


async def test_a_large_graph_is_not_walked():
    x = ag.tensor(2.0, requires_grad=True)
    y = x * 1.0
    for _ in range(6_000):
        y = -y
    # The edges are not counted yet, as they are of one that waits at its root.
    task = await hold(-y, "deep", at=y)
    (one,) = running(60.0)["passes"]
    (described,) = ag.engine.describe_running().backwards
    task.cancel()
    await asyncio.wait([task])

    assert (one["done"], one["nodes"]) == (None, None)
    assert described.nodes == 6_003
