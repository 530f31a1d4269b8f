"""On any schedule rows that run together give the bits, and the error, of rows that run one after the other."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ReleasedGraphError
from asyncgrad.graph import GradientEdge
from tests.core.engine.locking import AwaitingNode, Watch, is_at_rest
from tests.core.engine.schedules import each_order, holds, no_task_is_left, randomness
from tests.core.rows_together import Alone, Answered, Log, Together
from tests.support.failing import Trouble
from tests.support.leaves import leaf
from tests.support.transforms import batched
from tests.support.turns import turns

#: A rule whose rows share a call fails for all of them, so it does not fail here.
KINDS: list[Any] = [Together, Alone, Answered]
ROWS = np.eye(3)


def rules(x: Any, log: Log) -> Any:
    """Three rules, some below others, and sums that need a fixed order."""
    total = np.multiply(x, 0.1)
    for number, kind in enumerate(KINDS):
        total = np.add(np.multiply(total, 0.7), kind.apply(total if number % 2 else np.multiply(x, 0.3), number, log))
    return np.multiply(total, total)


def point() -> Any:
    return leaf(0.3, 0.7, 1.1)


def drawn(random: Random, **options: Any) -> Log:
    return Log(lambda: random.randrange(4), **options)


def bits(rows: Any) -> bytes:
    return bytes(rows.numpy().tobytes())


def expected() -> bytes:
    x = point()
    (found,) = sync.grad(rules(x, Log(lambda: 0)), [x], ROWS, is_grads_batched=True, concurrency=1)
    return bits(found)


@each_order
def test_rows_together_have_the_bits_of_rows_one_by_one_and_only_concurrent_rules_overlap(order):
    clean = expected()

    async def main():
        random, x = randomness(), point()
        log = drawn(random)
        out = rules(x, log)
        (found,) = await batched(out, [x], ROWS, retain_graph=True, concurrency=random.choice([None, 2]))
        assert bits(found) == clean
        assert log.most[1] == log.most[2] == 1
        assert is_at_rest(out)
        assert no_task_is_left()

    holds(main, order)


@each_order
def test_the_error_is_that_of_the_first_row_that_fails_and_the_graph_is_whole(order):
    clean = expected()

    async def main():
        random, x = randomness(), point()
        failing = {row: random.choice([0, 1]) for row in range(3) if random.random() < 0.5}
        log = drawn(random, failing=failing)
        out = rules(x, log)
        if failing:
            with pytest.raises(Trouble, match=f"row {min(failing)}"):
                await batched(out, [x], ROWS)
        assert is_at_rest(out)
        assert no_task_is_left()
        log.failing = {}
        (found,) = await batched(out, [x], ROWS)
        assert bits(found) == clean
        with pytest.raises(ReleasedGraphError):
            await batched(out, [x], ROWS)

    holds(main, order)


@each_order
def test_rows_that_are_cancelled_at_some_time_have_happened_or_not(order):
    clean = expected()

    async def main():
        random, x = randomness(), point()
        out = rules(x, drawn(random))
        task = asyncio.ensure_future(batched(out, [x], ROWS))
        await turns(random.randrange(30))
        task.cancel()
        await asyncio.wait([task])
        assert is_at_rest(out)
        assert no_task_is_left()
        if task.cancelled():
            (found,) = await batched(out, [x], ROWS)
        else:
            (found,) = task.result()
        assert bits(found) == clean

    holds(main, order)


class Admitting(AwaitingNode):
    """A node that several rows may run at once."""

    concurrent = True


@each_order
def test_a_backward_that_releases_the_graph_is_alone_at_a_concurrent_node(order):
    overlapped = False

    async def main():
        nonlocal overlapped
        random, x, watch = randomness(), point(), Watch()
        root = GradientEdge(Admitting(np.multiply(x, 1.0), watch), 0)
        kept = [asyncio.ensure_future(ag.backward(root, row, retain_graph=True)) for row in ROWS]
        await turns(random.randrange(1, 4))
        await asyncio.gather(*kept, ag.backward(root, ROWS[0]))
        assert "release" not in watch.overlaps
        overlapped |= "body" in watch.overlaps
        assert x.grad.tolist() == [4.0, 2.0, 2.0]
        assert is_at_rest(root)
        assert no_task_is_left()

    holds(main, order)
    assert overlapped
