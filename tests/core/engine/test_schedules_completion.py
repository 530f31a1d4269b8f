"""On any schedule a backward ends in one order: nodes, final callbacks, warnings, the future, and then its caller."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.engine import current_graph_task, queue_callback, warn
from tests.core.engine.schedules import each_order, holds, no_task_is_left, randomness
from tests.support.failing import Trouble
from tests.support.functions import awaiting
from tests.support.leaves import leaf
from tests.support.turns import turns


def several(x: ag.Tensor, body: Any) -> Any:
    """A sum of three branches, two of them of two bodies."""
    first, second, third = (awaiting(np.multiply(x, factor), body) for factor in (1.0, 10.0, 100.0))
    return np.add(np.add(awaiting(first, body), awaiting(second, body)), third)


@each_order
def test_final_callbacks_run_once_each_in_order_after_all_nodes_and_before_the_caller_goes_on(order):
    async def main():
        random, x = randomness(), leaf(1.0)
        journal, queued = list[Any](), list[int]()

        def queue(more: int) -> None:
            number = len(queued)
            queued.append(number)

            def callback() -> None:
                journal.append(("begin", number))
                if more:
                    queue(more - 1)
                journal.append(("end", number))

            async def async_callback() -> None:
                journal.append(("begin", number))
                await turns(random.randrange(3))
                if more:
                    queue(more - 1)
                await turns(1)
                journal.append(("end", number))

            queue_callback(random.choice([callback, async_callback]))

        async def body(grad: Any) -> None:
            await turns(random.randrange(2))
            if random.random() < 0.5:
                queue(random.randrange(2))
            await turns(1)
            journal.append("node")

        await ag.backward(several(x, body))
        journal.append("caller")
        steps = [(when, number) for number in queued for when in ("begin", "end")]
        assert journal == ["node"] * 5 + steps + ["caller"]
        assert x.grad.item() == 111.0
        assert no_task_is_left()

    holds(main, order)


@each_order
def test_a_callback_that_raises_is_the_last_and_the_backward_has_not_happened(order):
    async def main():
        random, x, ran = randomness(), leaf(1.0), list[int]()
        bad = random.randrange(5)

        def callback(number: int) -> Any:
            async def call() -> None:
                await turns(random.randrange(2))
                ran.append(number)
                if number == bad:
                    raise Trouble

            return call

        numbers = iter(range(5))

        async def body(grad: Any) -> None:
            await turns(1)
            queue_callback(callback(next(numbers)))

        with pytest.raises(Trouble):
            await ag.backward(several(x, body))
        assert ran == list(range(bad + 1))
        assert x.grad is None
        assert no_task_is_left()

    holds(main, order)


@each_order
def test_the_future_resolves_after_the_last_callback_and_before_the_caller_goes_on(order):
    async def main():
        random, x, journal = randomness(), leaf(1.0), list[str]()
        fails, futures = random.random() < 0.3, list[Any]()

        async def callback() -> None:
            await turns(2)
            assert not futures[0].done()
            journal.append("callback")

        async def body(grad: Any) -> None:
            await turns(random.randrange(3))
            if not futures:
                task = current_graph_task()
                assert task is not None
                futures.append(task.future_result)
                futures[0].add_done_callback(lambda future: journal.append("future"))
                queue_callback(callback)
                queue_callback(callback)
            if fails:
                await turns(2)
                raise Trouble

        async def waits() -> str:
            while not futures:
                await turns(1)
            try:
                return str(await futures[0])
            except Trouble:
                return "Trouble"

        waiting = asyncio.ensure_future(waits())
        try:
            await ag.backward(several(x, body))
        except Trouble:
            assert fails
        journal.append("caller")
        assert futures[0].done()
        assert journal == ["callback"] * (0 if fails else 2) + ["future", "caller"]
        assert await waiting == ("Trouble" if fails else "[]")
        assert no_task_is_left()

    holds(main, order)


@each_order
def test_a_delayed_warning_is_shown_once_for_each_backward_also_where_that_fails(order):
    async def main():
        random = randomness()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")

            async def backward(name: str, fails: bool) -> None:
                async def body(grad: Any) -> None:
                    warn(f"from {name}")
                    await turns(random.randrange(3))
                    if fails:
                        raise Trouble
                    warn(f"from {name}")

                await turns(1)
                before = len(caught)
                try:
                    await ag.backward(several(leaf(1.0), body))
                finally:
                    assert [str(each.message) for each in caught[before:]].count(f"from {name}") == 1

            fails = random.random() < 0.3
            ends = await asyncio.gather(backward("one", fails), backward("two", False), return_exceptions=True)
        assert [type(end) for end in ends] == [Trouble if fails else type(None), type(None)]
        assert sorted(str(each.message) for each in caught) == ["from one", "from two"]
        assert {each.filename for each in caught} == {__file__}
        assert no_task_is_left()

    holds(main, order)
