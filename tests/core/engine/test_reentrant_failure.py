"""A nested backward that fails ends what depended on it, and where its caller catches that, it goes no further."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.testing import explore
from tests.core.engine.locking import is_at_rest
from tests.support.failing import Trouble
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop
from tests.support.sampling import cases
from tests.support.turns import Held, settle


def levels(
    depth: int, w: ag.Tensor, deepest: Any, catches: int = -1, caught: type[BaseException] = Trouble
) -> ag.Tensor:
    """Return a graph that gives 1 to `w` at each level and nests the next; level `catches` catches what that raises."""

    def level(number: int) -> ag.Tensor:
        async def nests(grad):
            if number == depth:
                await deepest()
                return
            with ag.enable_grad():
                inner = level(number + 1)
            if number != catches:
                await ag.backward(inner)
                return
            with pytest.raises(caught):
                await ag.backward(inner)

        # The newer branch is run first: the leaf has got its share when the body begins.
        body = awaiting(leaf(1.0), nests)
        return np.add(np.multiply(w, 1.0), body)

    return level(0)


DEPTHS = [1, 2, 5, 14, 15, 16, 17, 40]


@pytest.mark.parametrize("depth", DEPTHS)
async def test_what_the_deepest_backward_raises_comes_out_as_it_is_and_nothing_has_happened(depth):
    w, error = leaf(1.0), Trouble("deep down")

    async def fail():
        await asyncio.sleep(0)
        raise error

    with pytest.raises(Trouble) as caught:
        await ag.backward(levels(depth, w, fail))
    assert caught.value is error
    assert sum(note.startswith("in AwaitingBackward") for note in error.__notes__) == depth + 1
    assert w.grad is None


@pytest.mark.slow
@pytest.mark.parametrize("depth", DEPTHS)
async def test_what_a_body_catches_of_a_nested_backward_goes_no_further(depth):
    """Gradients of the levels inside of it are put back, and those of the levels around it are whole."""

    async def fail():
        await asyncio.sleep(0)
        raise Trouble

    for catches in {0, depth // 2, depth - 1}:
        w = leaf(1.0)
        await ag.backward(levels(depth, w, fail, catches))
        assert w.grad.item() == catches + 1


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 3, 17])
async def test_a_backward_cancelled_at_any_turn_takes_all_that_is_nested_in_it_with_it(depth):
    turns, done = 0, False
    while not done:
        w = leaf(1.0)

        async def wait():
            await asyncio.sleep(0)
            await asyncio.sleep(0)

        task = asyncio.ensure_future(ag.backward(levels(depth, w, wait)))
        for _ in range(turns):
            await asyncio.sleep(0)
        done = not task.cancel()
        [result] = await asyncio.gather(task, return_exceptions=True)
        assert (result is None) is done
        assert (w.grad is None) is not done
        turns += 1
    assert w.grad.item() == depth + 1


@pytest.mark.parametrize("depth", [2, 5, 17])
async def test_a_nested_backward_that_is_cancelled_ends_alone_where_its_caller_catches_that(depth):
    w, held = leaf(1.0), Held()
    nested: list[asyncio.Task[Any]] = []

    async def wait():
        nested.append(asyncio.current_task())
        await held(None)

    task = asyncio.ensure_future(ag.backward(levels(depth, w, wait, 1, asyncio.CancelledError)))
    await held.begun.wait()
    nested[0].cancel()
    await task
    assert held.cancelled
    assert w.grad.item() == 2.0


@pytest.mark.parametrize("depth", [1, 5, 17])
async def test_a_timeout_in_a_body_ends_the_nested_backward_and_nothing_else(depth):
    x, w, held = leaf(1.0), leaf(1.0), Held()

    async def body(grad):
        with ag.enable_grad():
            inner = levels(depth, w, lambda: held(None))
        scope = asyncio.timeout(None)
        waiting = asyncio.ensure_future(expire(scope))
        with pytest.raises(TimeoutError):
            await within(scope, inner)
        await waiting

    async def within(scope, inner):
        async with scope:
            await ag.backward(inner)

    async def expire(scope):
        await held.begun.wait()
        assert w.grad is not None
        scope.reschedule(asyncio.get_running_loop().time())

    await ag.backward(np.multiply(awaiting(x, body), 2.0))
    assert held.cancelled
    assert (x.grad.item(), w.grad) == (2.0, None)


@on_each_loop
@pytest.mark.parametrize("blocks", [False, True])
def test_what_nested_backwards_did_is_put_back_when_the_outer_one_fails_later(run, blocks):
    async def main():
        w, v = leaf(1.0), leaf(1.0)
        v.grad = before = ag.tensor([5.0])

        def inner():
            with ag.enable_grad():
                return np.multiply(np.multiply(w, 2.0), v)

        def nests(grad):
            sync.backward(inner())

        async def awaits(grad):
            await ag.backward(inner())

        def fail(grad):
            assert (w.grad.item(), v.grad.item()) == (2.0, 7.0)
            raise Trouble

        x = calling(leaf(1.0), fail)
        out = calling(x, nests) if blocks else awaiting(x, awaits)
        with pytest.raises(Trouble):
            await ag.backward(out)
        assert w.grad is None
        assert v.grad is before
        assert v.grad.item() == 5.0

    run(main())


async def test_of_nested_backwards_just_those_that_succeeded_have_happened():
    """One body runs several, of which some fail; each adds a number of its own to the same leaf."""

    w, failing = leaf(1.0), {1, 3}

    def inner(number):
        async def body(grad):
            await asyncio.sleep(0)
            if number in failing:
                raise Trouble

        with ag.enable_grad():
            return np.add(awaiting(leaf(1.0), body), np.multiply(w, 10.0**number))

    async def together(grad):
        results = await asyncio.gather(*[ag.backward(inner(number)) for number in range(5)], return_exceptions=True)
        assert [number for number, result in enumerate(results) if result is not None] == [1, 3]

    async def one_by_one(grad):
        for number in range(5):
            if number in failing:
                with pytest.raises(Trouble):
                    await ag.backward(inner(number))
            else:
                await ag.backward(inner(number))

    await ag.backward(awaiting(awaiting(np.multiply(w, 1000.0), one_by_one), together))
    assert w.grad.item() == 2 * 10101.0 + 1000.0


async def test_one_branch_that_fails_cancels_the_nested_backward_of_another():
    w, held = leaf(1.0), Held()

    async def nests(grad):
        with ag.enable_grad():
            inner = np.add(awaiting(leaf(1.0), held), np.multiply(w, 2.0))
        await ag.backward(inner)

    async def fails(grad):
        await held.begun.wait()
        await settle()
        assert w.grad is not None
        raise Trouble

    with pytest.raises(Trouble):
        await ag.backward(np.add(awaiting(leaf(1.0), nests), awaiting(leaf(1.0), fails)))
    assert held.cancelled
    assert w.grad is None


async def test_a_failing_final_callback_of_a_nested_backward_fails_that_one():
    w, x = leaf(1.0), leaf(1.0)

    def fail():
        raise Trouble

    async def body(grad):
        with ag.enable_grad():
            inner = calling(w, lambda grad: ag.engine.queue_callback(fail))
        with pytest.raises(Trouble):
            await ag.backward(inner)

    await ag.backward(awaiting(x, body))
    assert (x.grad.item(), w.grad) == (1.0, None)


def test_a_nested_backward_that_fails_or_is_cancelled_leaves_the_graph_around_it_at_rest_on_every_schedule():
    """It runs the very graph that it is called in, while a second backward does so too."""

    async def main():
        x, fails = leaf(1.0), [True]

        async def inner_hook(grad):
            await asyncio.sleep(0)
            if grad.item() == 7.0 and fails:
                fails.pop()
                raise Trouble

        async def nests(grad):
            await asyncio.sleep(0)
            if grad.item() == 1.0:
                try:
                    await ag.backward(out, np.full(1, 7.0), retain_graph=True)
                except Trouble:
                    cancelled = asyncio.ensure_future(ag.backward(out, np.full(1, 50.0), retain_graph=True))
                    await asyncio.sleep(0)
                    if cancelled.cancel():
                        await asyncio.gather(cancelled, return_exceptions=True)
                        stopped.append(True)

        stopped: list[bool] = []
        middle = np.multiply(x, 1.0)
        middle.register_hook(inner_hook)
        out = awaiting(middle, nests)
        await asyncio.gather(*[ag.backward(out, np.full(1, grad), retain_graph=True) for grad in (1.0, 100.0)])
        assert x.grad.item() == 101.0 + (0.0 if stopped else 50.0)
        assert is_at_rest(out)

    explore(main, seeds=cases(1000))
