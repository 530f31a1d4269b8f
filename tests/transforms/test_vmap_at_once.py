"""Rows of `ag.func.vmap` that run at once: the bits and the errors of rows one after the other, on any schedule."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import func, sync
from asyncgrad.errors import ArgumentError, ArgumentTypeError
from tests.core.engine.schedules import each_order, holds, no_task_is_left, randomness
from tests.support.failing import Trouble
from tests.support.turns import turns

ROWS = np.random.default_rng(3).standard_normal((4, 2))
WEIGHT = np.array([0.3, 0.7])


class Waiting:
    """A function of a row that waits now and then, and notices how many of its calls overlap.

    Args:
        pause: for how many turns it waits, each of two times.
        failing: the rows that fail, by their numbers.
    """

    def __init__(self, pause: Callable[[], int] = lambda: 1, failing: set[int] | None = None) -> None:
        self.pause, self.failing = pause, failing or set()
        self.inside = self.most = 0

    async def __call__(self, w: Any, x: Any, number: Any) -> Any:
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            await turns(self.pause())
            y = np.tanh(w * x)
            await turns(self.pause())
            if int(number) in self.failing:
                raise Trouble(f"row {int(number)}")
            return {"sum": (y * w).sum(), "parts": np.sin(y)[::-1] * w}
        finally:
            self.inside -= 1


async def gradients(waiting: Waiting, concurrency: int | None) -> bytes:
    """The gradient of the weight, to which all rows add, and that of this gradient."""
    w = ag.tensor(WEIGHT, requires_grad=True)
    mapped = func.vmap(waiting.__call__, in_axes=(None, 0, 0), concurrency=concurrency)
    found = await mapped(w, ROWS, np.arange(4))
    loss = (found["sum"] ** 2).sum() + (found["parts"] ** 3).sum()
    (grad,) = await ag.grad(loss, [w], create_graph=True)
    await (grad * grad).sum().backward()
    assert w.grad is not None
    return loss.numpy().tobytes() + grad.numpy().tobytes() + w.grad.numpy().tobytes()


@each_order
def test_rows_at_once_have_the_bits_of_a_loop_also_in_later_gradients(order):
    clean = ag.run(gradients(Waiting(lambda: 0), 1))

    async def main():
        random = randomness()
        concurrency, waiting = random.choice([None, 2, 3]), Waiting(lambda: random.randrange(4))
        assert await gradients(waiting, concurrency) == clean
        assert waiting.most <= (concurrency or 4)
        assert no_task_is_left()

    holds(main, order)


@each_order
def test_the_error_is_that_of_the_first_row_that_fails_and_no_row_is_left_running(order):
    async def main():
        random = randomness()
        failing = {number for number in range(4) if random.random() < 0.4}
        waiting = Waiting(lambda: random.randrange(4), failing)
        task = asyncio.ensure_future(gradients(waiting, random.choice([None, 2])))
        if random.random() < 0.5:
            await turns(random.randrange(12))
            task.cancel()
        await asyncio.wait([task])
        assert waiting.inside == 0
        assert no_task_is_left()
        if not task.cancelled() and failing:
            assert str(task.exception()) == f"row {min(failing)}"

    holds(main, order)


async def test_by_default_rows_run_one_after_the_other_and_all_at_once_where_nothing_bounds_them():
    most = []
    for options in ({}, {"concurrency": 1}, {"concurrency": 2}, {"concurrency": None}):
        # For longer than it takes to start all rows, between which the loop may turn.
        waiting = Waiting(lambda: 9)
        await func.vmap(waiting.__call__, in_axes=(None, 0, 0), **options)(WEIGHT, ROWS, np.arange(4))
        most.append(waiting.most)

    assert most == [1, 1, 2, 4]


async def test_the_calls_of_rows_at_once_are_one_request():
    requests = []

    @ag.batched
    async def twice(items):
        requests.append(len(items))
        await asyncio.sleep(0)
        return [2.0 * item for item in items]

    async def row(x):
        return await twice(x) * x

    assert (await func.vmap(row, concurrency=None)(ROWS)).tolist() == (2.0 * ROWS * ROWS).tolist()
    assert (await func.vmap(func.vmap(row, concurrency=None), concurrency=None)(ROWS)).shape == ROWS.shape
    assert requests == [4, 8]


async def test_the_map_of_a_gradient_may_run_at_once():
    per_example = func.vmap(func.grad(lambda x: row_sum(x)), concurrency=None)

    assert (await per_example(ROWS)).tolist() == (2.0 * ROWS).tolist()


async def row_sum(x: Any) -> Any:
    await asyncio.sleep(0)
    return (x * x).sum()


def test_a_blocking_map_of_rows_at_once_runs_them_on_a_loop_of_its_own():
    waiting = Waiting(lambda: 9)
    found = sync.func.vmap(waiting.__call__, in_axes=(None, 0, 0), concurrency=None)(WEIGHT, ROWS, np.arange(4))

    assert waiting.most == 4
    assert found["parts"].shape == ROWS.shape


@pytest.mark.parametrize(
    ("concurrency", "error"), [(0, ArgumentError), (True, ArgumentTypeError), (1.5, ArgumentTypeError)]
)
def test_a_concurrency_that_is_none_is_refused(concurrency, error):
    with pytest.raises(error, match="concurrency must be"):
        func.vmap(row_sum, concurrency=concurrency)


def test_a_concurrency_of_a_function_that_is_no_async_def_is_refused():
    with pytest.raises(ArgumentError, match="concurrency=2 is for an async def"):
        func.vmap(np.sin, concurrency=2)
