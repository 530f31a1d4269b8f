"""A backward that is cancelled has not happened, wherever it was; one that was too late to cancel has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from tests.core.engine.states import state_of
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf
from tests.support.settings import loop_budget
from tests.support.turns import Held, turns


class StoppedGraph:
    """A graph, the tensors whose gradients it changes, and what they are when it has run."""

    def __init__(self, out: ag.Tensor, *tensors: ag.Tensor) -> None:
        self.out = out
        self.tensors = tensors
        self.before = state_of(*tensors)

    def has_not_happened(self) -> bool:
        return state_of(*self.tensors) == self.before

    def has_happened(self, values: list[float]) -> bool:
        return [tensor.grad.item() for tensor in self.tensors] == values


def leaves_in_three_states() -> tuple[ag.Tensor, ag.Tensor, ag.Tensor]:
    fresh, used, assigned = leaf(2.0), leaf(3.0), leaf(5.0)
    sync.backward(np.multiply(used, 7.0))
    assigned.grad = ag.tensor([-0.0])
    return fresh, used, assigned


def waits(count: int) -> Callable[[Any], Any]:
    async def callback(grad):
        await turns(count)

    return callback


def plain_graph() -> StoppedGraph:
    fresh, used, assigned = leaves_in_three_states()
    out = np.multiply(np.multiply(fresh, used), assigned)
    return StoppedGraph(np.multiply(out, 2.0), fresh, used, assigned)


def graph_with_kept_grad() -> StoppedGraph:
    fresh, used, assigned = leaves_in_three_states()
    kept = calling(np.multiply(fresh, used), lambda grad: None)
    kept.retain_grad()
    return StoppedGraph(np.multiply(np.multiply(kept, assigned), 2.0), fresh, used, assigned, kept)


def waiting_graph() -> StoppedGraph:
    fresh, used, assigned = leaves_in_three_states()
    first = awaiting(np.multiply(fresh, 1.0), waits(1))
    kept = np.multiply(awaiting(first, waits(2)), awaiting(used, waits(3)))
    kept.retain_grad()
    return StoppedGraph(np.multiply(np.multiply(kept, awaiting(assigned, waits(5))), 2.0), fresh, used, assigned, kept)


def hooked_graph() -> StoppedGraph:
    fresh, used, assigned = leaves_in_three_states()
    out = np.multiply(np.multiply(fresh, used), assigned)
    for tensor in (fresh, used, assigned):
        tensor.register_hook(waits(1))
        tensor.register_post_accumulate_grad_hook(waits(2))
    return StoppedGraph(np.multiply(out, 2.0), fresh, used, assigned)


def nested_graph() -> StoppedGraph:
    fresh, used, assigned = leaves_in_three_states()

    async def inner(grad):
        with ag.enable_grad():
            out = awaiting(np.multiply(np.multiply(fresh, used), assigned), waits(2))
        await ag.backward(out, np.full(1, 2.0))
        await turns(2)

    return StoppedGraph(awaiting(leaf(1.0), inner), fresh, used, assigned)


#: The gradients of fresh, used, assigned, and of what is retained, in all scenes: 2 * the product.
AFTER = [30.0, 27.0, 12.0, 10.0]
SCENES = [plain_graph, graph_with_kept_grad, waiting_graph, hooked_graph, nested_graph]
each_scene = pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)


async def stop_after(count: int, made: StoppedGraph, how: str) -> BaseException | None:
    """Start a backward, stop it after `count` turns of the loop; return what it raised."""
    scope = asyncio.timeout(None)

    async def main():
        with loop_budget(-1.0):
            async with scope:
                await made.out.backward()

    task = asyncio.ensure_future(main())
    await turns(1 + count)
    if not task.done():
        if how == "cancel":
            task.cancel()
        else:
            scope.reschedule(asyncio.get_running_loop().time() - 1)
    await asyncio.wait([task])
    assert asyncio.all_tasks() == {asyncio.current_task()}
    if task.cancelled():
        return asyncio.CancelledError()
    return task.exception()


@pytest.mark.slow
@each_scene
@pytest.mark.parametrize("how", ["cancel", "timeout"])
async def test_a_backward_stopped_at_any_point_has_happened_or_not(scene, how):
    """Stops the same backward after 0, 1, 2, ... turns of the loop, until it ends before it is stopped."""
    expected = asyncio.CancelledError if how == "cancel" else TimeoutError

    stopped = 0
    for count in range(1000):
        made = scene()
        error = await stop_after(count, made, how)
        if error is None:
            assert made.has_happened(AFTER[: len(made.tensors)])
            # Some stop too late to matter may come before the last that matters; all must be through by now.
            if await stop_after(count + 3, scene(), how) is None:
                break
        else:
            assert isinstance(error, expected)
            assert made.has_not_happened(), f"after {count} turns"
            stopped += 1
    assert stopped >= 4


@each_scene
async def test_a_second_cancel_at_any_point_of_the_clean_up_changes_nothing(scene):
    for first in (1, 3, 5, 8):
        for second in range(6):
            made = scene()
            with loop_budget(-1.0):
                task = asyncio.ensure_future(made.out.backward())
            await turns(first)
            late = task.done()
            task.cancel()
            await turns(second)
            task.cancel()
            await asyncio.wait([task])
            assert late or task.cancelled()
            assert late or made.has_not_happened()
            assert asyncio.all_tasks() == {asyncio.current_task()}


@each_scene
async def test_a_graph_that_was_kept_runs_after_any_cancellation(scene):
    for count in range(0, 30, 2):
        made = scene()
        with loop_budget(-1.0):
            task = asyncio.ensure_future(made.out.backward(retain_graph=True))
        await turns(count)
        if task.done():
            break
        task.cancel()
        await asyncio.wait([task])
        await made.out.backward()
        assert made.has_happened(AFTER[: len(made.tensors)])


async def test_a_body_that_resists_cancellation_is_awaited():
    ended: list[str] = []
    held = Held()

    async def resists(grad):
        try:
            await held(grad)
        except asyncio.CancelledError:
            await turns(10)
            ended.append("resisted")

    x = leaf(1.0)
    task = asyncio.ensure_future(np.add(awaiting(x, resists), np.multiply(x, 2.0)).backward())
    await held.begun.wait()
    task.cancel()
    await turns(5)
    assert not task.done()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["resisted"]
    assert x.grad is None


async def test_a_body_that_resists_cancellation_is_awaited_through_a_second_one():
    ended: list[str] = []
    held = Held()

    async def resists(grad):
        try:
            await held(grad)
        finally:
            await turns(10)
            ended.append("resisted")

    task = asyncio.ensure_future(awaiting(leaf(1.0), resists).backward())
    await held.begun.wait()
    for _ in range(3):
        task.cancel()
        await turns(2)
    assert not task.done()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["resisted"]


async def test_a_cancel_during_the_clean_up_of_a_failure_wins_and_carries_the_failure_with_it():
    begun = asyncio.Event()

    async def resists(grad):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await turns(10)

    async def fails(grad):
        await begun.wait()
        raise ValueError("failed")

    out = np.add(awaiting(leaf(1.0), fails), awaiting(leaf(1.0), resists))
    task = asyncio.ensure_future(out.backward())
    await begun.wait()
    await turns(4)
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    chain = []
    error: BaseException | None = caught.value
    while error is not None:
        chain.append(type(error))
        error = error.__context__
    assert ValueError in chain


async def test_a_task_group_cancels_the_backward_of_a_failing_sibling():
    x, held = leaf(1.0), Held()

    async def fails():
        await held.begun.wait()
        raise ValueError("sibling")

    async def together():
        async with asyncio.TaskGroup() as group:
            group.create_task(np.add(awaiting(leaf(1.0), held), x).backward())
            group.create_task(fails())

    with pytest.raises(ExceptionGroup) as caught:
        await together()
    assert [str(error) for error in caught.value.exceptions] == ["sibling"]
    assert held.cancelled
    assert x.grad is None


async def test_a_cancellation_from_outside_names_no_node():
    for made in (plain_graph(), graph_with_kept_grad()):
        with loop_budget(-1.0):
            task = asyncio.ensure_future(made.out.backward())
        await turns(2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        assert not getattr(caught.value, "__notes__", [])

    held = Held()
    task = asyncio.ensure_future(np.multiply(awaiting(leaf(1.0), held), 2.0).backward())
    await held.begun.wait()
    task.cancel("enough")
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert not getattr(caught.value, "__notes__", [])


async def test_a_body_that_is_cancelled_from_within_cancels_its_backward():
    async def gives_up(grad):
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    x = leaf(1.0)
    out = np.add(awaiting(leaf(1.0), gives_up), x)
    with pytest.raises(asyncio.CancelledError) as caught:
        await out.backward()
    assert any("AwaitingBackward" in text for text in [str(caught.value), *getattr(caught.value, "__notes__", [])])
    assert x.grad is None
    assert asyncio.current_task().cancelling() == 0


def test_a_backward_that_is_never_awaited_warns_as_python_does():
    with pytest.warns(RuntimeWarning, match="was never awaited"):
        leaf(1.0).backward()  # type: ignore[unused-coroutine]
