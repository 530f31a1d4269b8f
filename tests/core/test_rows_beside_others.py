"""Rows together, and what else a program does: requests, warnings, errors, hooks of saved tensors, memory."""

from __future__ import annotations

import asyncio
import gc
import warnings
import weakref
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.core import rows
from asyncgrad.testing import run_with_seed
from tests.core.engine.locking import is_at_rest
from tests.core.engine.schedules import each_order, holds, no_task_is_left, randomness
from tests.core.engine.warned import Loud
from tests.core.rows_together import Answered, Log, Together, row_of
from tests.support.failing import Trouble
from tests.support.leaves import leaf
from tests.support.settings import loop_budget
from tests.support.transforms import batched
from tests.support.turns import settle, turns

ROWS = np.eye(3)
both_ways = pytest.mark.parametrize("concurrency", [1, None], ids=["one-by-one", "together"])


def point() -> Any:
    return leaf(0.3, 0.7, 1.1)


def test_a_rule_for_several_rows_may_call_a_backward_through_its_own_node():
    class Own(ag.Function):
        @staticmethod
        def forward(ctx, x, given):
            ctx.given = given
            return 2.0 * x.numpy()

        @staticmethod
        async def backward(ctx, grad):
            return 2.0 * grad, None

        @staticmethod
        async def backward_batch(ctx, grads):
            await asyncio.sleep(0)
            (slope,) = await ag.grad([ctx.given["y"]], [ctx.given["x"]], [np.ones(3)], retain_graph=True)
            return grads * slope, None

    async def main() -> Any:
        given: dict[str, Any] = {"x": point()}
        given["y"] = Own.apply(given["x"], given)
        (found,) = await batched([given["y"]], [given["x"]], [ROWS])
        return found.tolist()

    assert run_with_seed(main, 0).result == (2.0 * ROWS).tolist()


class Calling(ag.Function):
    """x * 2, whose rule runs another backward: the one of that name in `given`, with a gradient of zeros or of ones."""

    @staticmethod
    def forward(ctx, x, given, name):
        ctx.given, ctx.name = given, name
        return 2.0 * x.numpy()

    @staticmethod
    async def backward(ctx, grad):
        if grad.numpy().any():
            await ctx.given["wait"]()
            await ag.grad([ctx.given[ctx.name]], [ctx.given["x"]], [np.ones(3)], retain_graph=True)
        return 2.0 * grad, None, None


class CallingForAll(Calling):
    """The same, for several rows in one call; the first few calls run it."""

    @staticmethod
    async def backward_batch(ctx, grads):
        await ctx.given["wait"]()
        ctx.given["calls"] += 1
        if ctx.given["calls"] < 5:
            await ag.grad([ctx.given[ctx.name]], [ctx.given["x"]], [np.zeros(3)], retain_graph=True)
        return 2.0 * grads, None, None


@each_order
def test_rules_for_several_rows_and_for_one_may_call_backward_passes_through_each_other(order):
    """A row runs the rule for one, which waits for a call of the other, which waits for the rule for one."""

    async def main() -> None:
        random, x = randomness(), point()
        given: dict[str, Any] = {"x": x, "calls": 0, "wait": lambda: turns(random.randrange(6))}
        given["all"], given["one"] = CallingForAll.apply(x, given, "one"), Calling.apply(x, given, "all")
        out = given["all"] + given["one"]
        (found,) = await batched([out], [x], [ROWS], retain_graph=True)
        assert found.tolist() == (4.0 * ROWS).tolist()
        assert is_at_rest(out)
        assert no_task_is_left()

    holds(main, order)


class Warned(Together):
    """Warns, and fails in one row."""

    @staticmethod
    async def backward(ctx, grad):
        ag.engine.warn(f"row {row_of(grad)}", Loud)
        return await Together.backward(ctx, grad)


async def warnings_of(concurrency: Any, log: Log, mode: Any = "always") -> tuple[list[str], BaseException | None]:
    x = point()
    out = Warned.apply(x, 0, log)
    error = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(mode)
        try:
            await batched([out], [x], [ROWS], concurrency=concurrency)
        except Exception as raised:
            error = raised
    return [str(one.message) for one in caught], error


@both_ways
async def test_a_row_that_fails_has_its_warnings_and_those_of_the_rows_before_it_told(concurrency):
    caught, error = await warnings_of(concurrency, Log(failing={1: 0}))
    assert caught == ["row 0", "row 1"]
    assert str(error) == "row 1"


@both_ways
async def test_a_warning_that_is_an_error_does_not_hide_that_of_its_row(concurrency):
    _, error = await warnings_of(concurrency, Log(failing={0: 0}), mode="error")
    assert isinstance(error, Trouble)
    assert any("a filter turned into an error" in note for note in error.__notes__)


async def test_rows_that_are_cancelled_have_their_warnings_told():
    x, log = point(), Log(pause=lambda: 1000)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        task = asyncio.ensure_future(batched([Warned.apply(x, 0, log)], [x], [ROWS]))
        while log.inside[0] < 3:
            await turns(1)
        task.cancel()
        await asyncio.wait([task])
    assert task.cancelled()
    assert [str(one.message) for one in caught] == ["row 0", "row 1", "row 2"]


async def test_a_cancellation_tells_of_the_rows_whose_clean_up_has_failed():
    class Locked(Together):
        @staticmethod
        async def backward(ctx, grad):
            try:
                return await Together.backward(ctx, grad)
            finally:
                if row_of(grad) == 1:
                    raise Trouble("the clean-up")

    x, log = point(), Log(pause=lambda: 1000)

    async def cancelled() -> Any:
        try:
            await batched([Locked.apply(x, 0, log)], [x], [ROWS])
        except asyncio.CancelledError as error:
            return error.__notes__

    task = asyncio.ensure_future(cancelled())
    while log.inside[0] < 3:
        await turns(1)
    task.cancel()
    (note,) = await task
    assert note.startswith("row 1, which ran beside it, while it was being cancelled (node")
    assert note.endswith("LockedBackward raised Trouble: the clean-up")


@both_ways
async def test_rows_within_a_hook_tell_the_backward_around_them_their_warnings_in_their_order(concurrency):
    x, y = point(), leaf(1.0)
    z = y * 2.0

    class Late(Together):
        @staticmethod
        async def backward(ctx, grad):
            found = await Together.backward(ctx, grad)
            ag.engine.warn(f"row {row_of(grad)} has ended", Loud)
            return found

    pauses = iter([5, 3, 1])
    out = Late.apply(x, 0, Log(pause=lambda: next(pauses)))

    async def hook(grad: Any) -> None:
        await batched([out], [x], [ROWS], concurrency=concurrency)

    z.register_hook(hook)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        await z.sum().backward()
    assert [str(one.message) for one in caught] == [f"row {row} has ended" for row in range(3)]


class Failing(ag.Function):
    """Fails in each row, the last one first."""

    concurrent = True

    @staticmethod
    def forward(ctx, x, error_of):
        ctx.error_of = error_of
        ctx.failed = [asyncio.Event() for _ in range(len(x) + 1)]
        ctx.failed[-1].set()
        return x.numpy() * 1.0

    @staticmethod
    async def backward(ctx, grad):
        row = row_of(grad)
        await ctx.failed[row + 1].wait()
        await settle()
        ctx.failed[row].set()
        raise ctx.error_of(row)


@pytest.mark.parametrize(
    ("error_of", "notes"),
    [
        (lambda row: Trouble("down"), ["rows that ran beside it and raised the same: 19"]),
        (
            lambda row: Trouble(f"down at {row}"),
            [
                *(f"row {row}, which ran beside it, raised Trouble: down at {row}" for row in (1, 2, 3)),
                "rows that ran beside it and raised other errors than these: 16",
            ],
        ),
    ],
    ids=["the same", "others"],
)
async def test_the_error_of_the_first_row_tells_of_the_others_in_a_few_lines(error_of, notes):
    x = leaf(*np.ones(20))
    with pytest.raises(Trouble) as caught:
        await batched([Failing.apply(x, error_of)], [x], [np.eye(20)])
    assert [note for note in caught.value.__notes__ if "beside" in note] == notes


class AtOnce(ag.Function):
    """Fails for all rows in one call."""

    @staticmethod
    def forward(ctx, x):
        return x.numpy() * 1.0

    @staticmethod
    async def backward_batch(ctx, grads):
        await turns(1)
        raise Trouble("down")


async def test_the_error_of_a_request_for_several_rows_is_told_once():
    x = leaf(*np.ones(20))
    with pytest.raises(Trouble) as caught:
        await batched([AtOnce.apply(x)], [x], [np.eye(20)])
    place, others = caught.value.__notes__
    assert place.startswith("in AtOnceBackward (node")
    assert others == "rows that ran beside it and raised the same: 19"


async def test_an_error_that_cannot_be_printed_is_told_all_the_same():
    class Silent(Exception):
        def __str__(self) -> str:
            raise ValueError("no words")

    x = point()
    with pytest.raises(Silent) as caught:
        await batched([Failing.apply(x, lambda row: Silent(row))], [x], [ROWS])
    assert any("its __str__ raises" in note or "raised the same" in note for note in caught.value.__notes__)


async def test_a_node_that_a_row_has_made_anew_goes_with_the_row():
    x, nodes = point(), []

    class Computing(Together):
        @staticmethod
        async def backward(ctx, grad):
            if not row_of(grad):
                with ag.enable_grad():
                    inner = point()
                    y = Answered.apply(inner, 1, ctx.log)
                nodes.append(weakref.ref(y.grad_fn))
                await ag.grad([y], [inner], [grad])
                del y
                return grad, None, None
            await turns(40)
            gc.collect()
            nodes.append(nodes[0]())
            return grad, None, None

    await batched([Computing.apply(x, 0, Log())], [x], [ROWS[:2]])
    assert nodes[1:] == [None]


async def test_an_async_rule_for_several_rows_loads_what_it_has_saved_once():
    loads = []

    async def unpack(packed: Any) -> Any:
        loads.append(1)
        await asyncio.sleep(0)
        return packed

    class Loading(Answered):
        @staticmethod
        async def backward_batch(ctx, grads):
            (x,) = await ctx.load_saved()
            return grads * x * 1.4, None, None

    x = point()
    with ag.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
        y = Loading.apply(x, 0, Log())
    (found,) = await batched([y], [x], [ROWS])
    assert found.tolist() == np.diag(x.numpy() * 1.4).tolist()
    assert len(loads) == 1


@pytest.mark.parametrize(("most", "expected"), [(2 * (2**14 + 24), 2), (1, 1), (1 << 28, 3)])
async def test_as_many_rows_run_at_once_as_fit_into_memory_where_nobody_says(most, expected, monkeypatch):
    monkeypatch.setattr(rows, "_MOST_BYTES", most)
    # A busy machine takes longer to begin the rows than a turn of the loop may last.
    with loop_budget(60):
        x, log = point(), Log(pause=lambda: 5)
        await batched([Together.apply(x, 0, log)], [x], [ROWS])
        assert log.most[0] == expected
        log = Log(pause=lambda: 5)
        await batched([Together.apply(x, 0, log)], [x], [ROWS], concurrency=3)
        assert log.most[0] == 3
