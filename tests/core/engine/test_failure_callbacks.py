"""Failure callbacks: who queued `on_failure` is told once of a backward that failed, and only of that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import HookTypeError
from tests.support.loops import on_each_loop
from tests.support.turns import one_turn, turns

Run = Callable[[Any], Any]


class Told:
    """What has been told, and hooks of a leaf that queue callbacks which tell it."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.leaf = ag.tensor(1.0, requires_grad=True)

    def queue(self, name: str, on_success: Callable[[], Any] | None = None) -> None:
        succeeded = on_success or (lambda: self.log.append(f"{name} succeeded"))
        ag.engine.queue_callback(succeeded, on_failure=lambda: self.log.append(f"{name} failed"))


@pytest.fixture
def told() -> Told:
    return Told()


def fail() -> None:
    raise KeyError("a callback")


def test_failure_callbacks_do_not_run_in_a_backward_that_succeeds(told: Told) -> None:
    told.leaf.register_hook(lambda grad: told.queue("one"))
    sync.backward(told.leaf * 2.0)

    assert told.log == ["one succeeded"]


async def test_failure_callbacks_run_last_first_with_gradients_rolled_back_also_where_the_callback_has_run(
    told: Told,
) -> None:
    def hook(grad: Any) -> None:
        told.queue("one")
        ag.engine.queue_callback(lambda: None, on_failure=lambda: told.log.append(told.leaf.grad))
        told.queue("two", fail)

    told.leaf.register_hook(hook)
    with pytest.raises(KeyError):
        await (told.leaf * 2.0).backward()

    assert told.log == ["one succeeded", "two failed", None, "one failed"]


@on_each_loop
@pytest.mark.parametrize("is_blocking", [False, True], ids=["awaited", "blocking"])
def test_a_failure_callback_is_awaited_and_given_the_error_if_it_has_a_parameter(
    told: Told, run: Run, is_blocking: bool
) -> None:
    async def undo(error: BaseException) -> None:
        await one_turn()
        told.log.append(error)

    def hook(grad: Any) -> None:
        ag.engine.queue_callback(fail, on_failure=undo)
        ag.engine.queue_callback(fail, on_failure=lambda name="bound": told.log.append(name))

    told.leaf.register_hook(hook)
    backward = sync.backward if is_blocking else lambda root: run(ag.backward(root))
    with pytest.raises(KeyError) as caught:
        backward(told.leaf * 2.0)

    assert told.log == ["bound", caught.value]


async def test_a_failure_callback_runs_to_its_end_though_the_caller_is_cancelled_again(told: Told) -> None:
    is_waiting, is_undoing, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def undo() -> None:
        is_undoing.set()
        await may_end.wait()
        told.log.append("undone")

    async def wait_for_ever(grad: Any) -> None:
        ag.engine.queue_callback(lambda: None, on_failure=undo)
        is_waiting.set()
        await asyncio.Event().wait()

    told.leaf.register_hook(wait_for_ever)
    task = asyncio.create_task((told.leaf * 2.0).backward())
    await is_waiting.wait()
    task.cancel()
    await is_undoing.wait()
    task.cancel()
    await one_turn()
    assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert told.log == ["undone"]


async def test_a_cancellation_that_meets_the_failure_callbacks_of_an_error_is_raised_after_them(told: Told) -> None:
    async def undo() -> None:
        task.cancel()
        await one_turn()
        told.log.append("undone")

    async def backward() -> None:
        # A loop with eager tasks runs it before `task` is set, up to here.
        await one_turn()
        await (told.leaf * 2.0).backward()

    told.leaf.register_hook(lambda grad: ag.engine.queue_callback(fail, on_failure=undo))
    task = asyncio.create_task(backward())
    with pytest.raises(asyncio.CancelledError):
        await task

    assert told.log == ["undone"]


async def test_an_error_of_a_failure_callback_is_a_note_and_the_others_run(told: Told) -> None:
    async def broken() -> None:
        await one_turn()
        raise ValueError("the stage does not answer")

    def hook(grad: Any) -> None:
        told.queue("one")
        ag.engine.queue_callback(fail, on_failure=broken)

    told.leaf.register_hook(hook)
    with pytest.raises(KeyError) as caught:
        await (told.leaf * 2.0).backward()

    assert told.log == ["one succeeded", "one failed"]
    assert any("ValueError: the stage does not answer" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("fails", [False, True], ids=["succeeds", "fails"])
async def test_failure_callbacks_of_a_nested_backward_that_succeeds_are_those_of_the_outer_one(
    told: Told, fails: bool
) -> None:
    inner = ag.tensor(1.0, requires_grad=True)
    loss = inner * 3.0
    inner.register_hook(lambda grad: told.queue("inner"))

    async def hook(grad: Any) -> None:
        await loss.backward()
        told.log.append(None if inner.grad is None else inner.grad.item())
        told.queue("outer", fail if fails else None)

    told.leaf.register_hook(hook)

    try:
        await (told.leaf * 2.0).backward()
    except KeyError:
        told.log.append(inner.grad)

    ends = ["outer failed", "inner failed", None] if fails else ["outer succeeded"]
    assert told.log == ["inner succeeded", 3.0, *ends]


async def test_a_nested_backward_that_fails_tells_so_once_though_the_outer_one_goes_on(told: Told) -> None:
    inner = ag.tensor(1.0, requires_grad=True)
    loss = inner * 3.0
    inner.register_hook(lambda grad: told.queue("inner", fail))

    async def hook(grad: Any) -> None:
        with pytest.raises(KeyError):
            await loss.backward()
        told.queue("outer")

    told.leaf.register_hook(hook)
    await (told.leaf * 2.0).backward()

    assert told.log == ["inner failed", "outer succeeded"]


async def test_a_backward_in_a_failure_callback_is_not_part_of_the_one_that_failed(told: Told) -> None:
    other = ag.tensor(1.0, requires_grad=True)

    async def undo() -> None:
        assert ag.engine.current_graph_task() is None
        await (other * 5.0).backward()

    told.leaf.register_hook(lambda grad: ag.engine.queue_callback(fail, on_failure=undo))
    with pytest.raises(KeyError):
        await (told.leaf * 2.0).backward()

    assert other.grad is not None
    assert other.grad.item() == 5.0


def test_a_failure_callback_that_suspends_in_a_blocking_backward_beside_a_loop_is_told_in_a_note(told: Told) -> None:
    async def undo() -> None:
        await one_turn()

    async def main() -> None:
        told.leaf.register_hook(lambda grad: ag.engine.queue_callback(fail, on_failure=undo))
        sync.backward(told.leaf * 2.0)

    with pytest.raises(KeyError) as caught:
        asyncio.run(main())

    assert any("a failure callback suspended in a blocking backward" in note for note in caught.value.__notes__)


def test_a_failure_callback_that_cannot_be_called_is_refused_when_it_is_queued(told: Told) -> None:
    told.leaf.register_hook(lambda grad: ag.engine.queue_callback(lambda: None, on_failure=3))  # type: ignore[arg-type]
    with pytest.raises(HookTypeError, match=r"on_failure must be callable .* not int 3"):
        sync.backward(told.leaf * 2.0)


class Row(ag.Function):
    """A rule that queues a callback for its row, and may fail."""

    concurrent = True

    @staticmethod
    def forward(ctx, x, told, failing, on_success):
        ctx.told, ctx.failing, ctx.on_success = told, failing, on_success
        return x.numpy() * 1.0

    @staticmethod
    async def backward(ctx, grad):
        row = int(np.flatnonzero(grad.numpy())[0])
        ctx.told.queue(f"row {row}", ctx.on_success(row))
        with ag.enable_grad():
            await ag.backward(ctx.told.leaf * 2.0)
        # The last row is the first to be done.
        await turns(9 - 3 * row)
        if row == ctx.failing:
            raise KeyError(row)
        return grad, None, None, None


@pytest.mark.parametrize("concurrency", [None, 1])
async def test_rows_commit_together_once_all_have_run_and_in_their_order(told: Told, concurrency: int | None) -> None:
    found = await ag.jacobian(lambda x: Row.apply(x, told, None, lambda row: None), np.ones(3), concurrency=concurrency)

    assert (told.log, found.sum()) == ([f"row {row} succeeded" for row in range(3)], 3.0)
    assert told.leaf.grad == 6.0


@pytest.mark.parametrize("concurrency", [None, 1])
@pytest.mark.parametrize("fails", ["rule", "callback"])
async def test_where_a_row_fails_all_rows_are_taken_back(told: Told, concurrency: int | None, fails: str) -> None:
    x = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = Row.apply(x, told, 2 if fails == "rule" else None, lambda row: fail if row == 2 else None)
    with pytest.raises(KeyError):
        await ag.grad([y], [x], [np.eye(3)], is_grads_batched=True, concurrency=concurrency)

    committed = [] if fails == "rule" else ["row 0 succeeded", "row 1 succeeded"]
    assert told.log == [*committed, "row 2 failed", "row 1 failed", "row 0 failed"]
    assert told.leaf.grad is None


async def test_rows_that_are_cancelled_are_taken_back_once_all_have_ended(told: Told) -> None:
    task = asyncio.ensure_future(ag.jacobian(lambda x: Row.apply(x, told, None, lambda row: None), np.ones(3)))
    # By now the last row has ended.
    await turns(8)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert told.log == ["row 2 failed", "row 1 failed", "row 0 failed"]
    assert told.leaf.grad is None
