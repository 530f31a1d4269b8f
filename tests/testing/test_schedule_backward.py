"""A backward on a ScheduleLoop: the same gradients as anywhere, on every schedule."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextvars import ContextVar

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.testing import explore, run_with_seed
from tests.support.sampling import cases

orders = pytest.mark.parametrize("order", ["fifo", "shuffled"])


#: What a sleep is multiplied by; 0 on a real loop, where a test does not sleep.
PAUSE = ContextVar("PAUSE", default=1.0)


class ScaledSlowly(ag.Function):
    """x * factor, whose backward asks a slow service: a number of bare yields, a sleep, a worker."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor

    @staticmethod
    async def backward(ctx, grad):
        for _ in range(int(ctx.factor) % 3):
            await asyncio.sleep(0)
        await asyncio.sleep(ctx.factor * PAUSE.get())
        return await asyncio.to_thread(lambda: grad * ctx.factor), None


def loss_of_branches(x):
    branches = [
        ScaledSlowly.apply(x, 2.0),
        ScaledSlowly.apply(ScaledSlowly.apply(x, 0.1), 0.3),
        np.tanh(x),
        ScaledSlowly.apply(x, 2.0),
    ]
    total = branches[0]
    for branch in branches[1:]:
        total = total * branch + branch
    return total.sum()


async def gradient_bytes():
    x = ag.tensor([0.1, 0.7, -1.3], requires_grad=True)
    await loss_of_branches(x).backward()
    return x.grad.numpy().tobytes()


async def gradient_without_pauses():
    PAUSE.set(0.0)
    return await gradient_bytes()


@orders
def test_async_bodies_give_the_bits_they_give_on_asyncio(order):
    expected = asyncio.run(gradient_without_pauses())

    async def main():
        assert await gradient_bytes() == expected

    assert explore(main, seeds=cases(300), order=order).distinct > 10


def test_bodies_that_sleep_overlap_in_virtual_time():
    schedule = run_with_seed(gradient_bytes, 3)

    assert 2.0 <= schedule.elapsed < 2.5


@orders
def test_a_backward_replays_exactly(order):
    for seed in range(20):
        assert run_with_seed(gradient_bytes, seed, order=order) == run_with_seed(gradient_bytes, seed, order=order)


def test_two_backwards_at_once_do_not_see_each_other():
    expected = asyncio.run(gradient_without_pauses())

    async def main():
        assert await asyncio.gather(gradient_bytes(), gradient_bytes()) == [expected, expected]

    explore(main, seeds=cases(100))


class Yielding(ag.Function):
    """The identity, whose backward yields to the loop three times."""

    @staticmethod
    def forward(ctx, x):
        return x * 1.0

    @staticmethod
    async def backward(ctx, grad):
        for _ in range(3):
            await asyncio.sleep(0)
        return grad


def test_a_backward_cancelled_at_any_step_leaves_no_task_and_all_of_the_gradient_or_nothing():
    async def main():
        x = ag.tensor([0.1, 0.7], requires_grad=True)
        y = Yielding.apply(x)
        task = asyncio.create_task((Yielding.apply(y * y) + Yielding.apply(y) + x).sum().backward())
        for _ in range(10):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert task.cancelled() == (x.grad is None)
        assert x.grad is None or np.allclose(x.grad.numpy(), 2 * x.numpy() + 2)
        return task.cancelled()

    assert {run_with_seed(main, seed).result for seed in range(200)} == {True, False}


def test_a_backward_that_failed_is_freed_without_the_collector():
    class Trouble(Exception):
        pass

    class Failing(ag.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0

        @staticmethod
        async def backward(ctx, grad):
            await asyncio.sleep(0)
            raise Trouble

    async def attempt():
        try:
            await Failing.apply(ag.tensor(1.0, requires_grad=True)).backward()
        except Trouble as error:
            return weakref.ref(error)

    async def main():
        reference = await attempt()
        await asyncio.sleep(1)
        return reference() is None

    gc.disable()
    try:
        assert {run_with_seed(main, seed).result for seed in range(10)} == {True}
    finally:
        gc.enable()


@pytest.mark.slow
def test_a_body_that_waits_for_ever_is_named_in_the_deadlock():
    class Stuck(ag.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0

        @staticmethod
        async def backward(ctx, grad):
            await asyncio.Event().wait()

    async def main():
        await Stuck.apply(ag.tensor(1.0, requires_grad=True)).backward()

    with pytest.raises(ag.errors.DeadlockError, match=r"StuckBackward #\d+\), at .*`await asyncio.Event\(\).wait\(\)`"):
        run_with_seed(main, 0)
