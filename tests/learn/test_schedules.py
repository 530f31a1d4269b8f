"""On any schedule a learner has the model of a replay in order, whoever goes, times out or asks meanwhile."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import numpy as np

import asyncgrad as ag
from asyncgrad import nn, optim
from asyncgrad.learn import Learner
from asyncgrad.testing import explore
from tests.support.sampling import cases


def new_learner() -> Learner:
    """Return the learner of a model whose answer tells which examples it has learned, and how often."""
    model = nn.Linear(1, 1, bias=False, dtype=np.float64)
    model.update({"weight": np.zeros((1, 1))})

    async def loss(model: Any, batch: Any) -> Any:
        await asyncio.sleep(0)
        out = model(np.ones((len(batch), 1)))

        async def slow(grad: Any) -> None:
            await asyncio.sleep(0)

        out.register_hook(slow)
        # The gradient is minus the example.
        return (out * -np.asarray(batch)[:, None]).sum()

    return Learner(model, loss, optim.SGD(model, lr=1.0), batch_size=2)


def test_whoever_goes_what_is_acknowledged_is_learned_once_and_what_is_not_is_not() -> None:
    seeds = iter(range(10**9))

    async def main() -> None:
        random = Random(next(seeds))
        acknowledged: list[int] = []
        gone: list[int] = []

        async def learn(number: int) -> None:
            for _ in range(random.randrange(4)):
                await asyncio.sleep(0)
            try:
                await learner.learn(float(8**number))
                acknowledged.append(number)
            except asyncio.CancelledError:
                gone.append(number)
                raise

        async def ask() -> None:
            for _ in range(6):
                before = learner.learned
                found = (await learner.predict([1.0])).item()
                # Of a whole number of steps: no example is there in part or twice.
                assert all(digit in "01" for digit in np.base_repr(int(found), 8)), (found, before)

        async with new_learner() as learner:
            tasks = [asyncio.create_task(learn(number)) for number in range(6)]
            asking = asyncio.create_task(ask())
            for _ in range(random.randrange(20)):
                await asyncio.sleep(0)
            for task in random.sample(tasks, 2):
                task.cancel()
            await asyncio.wait([*tasks, asking])
            asking.result()
            found = (await learner.predict([1.0])).item()
            learned = {number for number, digit in enumerate(reversed(np.base_repr(int(found), 8))) if digit == "1"}
            assert set(acknowledged) <= learned <= set(acknowledged) | set(gone)
            assert learner.learned == len(learned)
        # Who goes does not wait for the end of the step that was for them alone.
        assert learner.model.weight.grad is None
        assert learner.model.weight.item() == found

    with ag.workers(0):
        assert explore(main, seeds=cases(1000)).distinct > 1
