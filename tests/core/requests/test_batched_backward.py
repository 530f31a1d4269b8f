"""Rules of a backward that call a batched function: all that are ready call it, and then one request is sent."""

from __future__ import annotations

import asyncio
import contextlib
import copyreg
import functools
import gc
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.arrays import ownership
from asyncgrad.testing import run_with_seed
from tests.core.requests.services import Service, cancelled, chains
from tests.support.failing import Trouble
from tests.support.functions import awaiting
from tests.support.leaves import leaf
from tests.support.loops import one_loop
from tests.support.settings import loop_budget
from tests.support.turns import Held, settle, turns


def without_pauses(test: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """Run a test whose backward passes do not pause for the loop, which on a busy machine they do at any point."""

    @functools.wraps(test)
    async def run(*args: Any, **kwargs: Any) -> None:
        with ag.loop_budget(60.0):
            await test(*args, **kwargs)

    return run


#: A budget between the two is spent at another point each time, and then a layer may make one request more.
each_budget = pytest.mark.parametrize("budget", [0.0, 60.0], ids=["none", "endless"])


@each_budget
@pytest.mark.parametrize(("count", "depth"), [(200, 1), (50, 4), (3, 40)])
async def test_rules_that_are_ready_together_make_one_request_for_each_layer(count, depth, budget):
    events: list[str] = []
    service = Service(before=lambda items: events.append(f"a request of {len(items)}"))
    ask = ag.batched(service.double)

    async def rule(grad: Any) -> Any:
        events.append("call")
        return await ask(grad)

    x = leaf(1.0)
    with loop_budget(budget):
        await ag.backward(chains(x, count, depth, rule))
    assert events == (["call"] * count + [f"a request of {count}"]) * depth
    assert x.grad.item() == count * 2.0**depth


@each_budget
async def test_rules_of_backward_passes_that_run_together_share_requests(budget):
    service = Service()
    ask = ag.batched(service.double)
    leaves = [leaf(1.0) for _ in range(20)]
    with loop_budget(budget):
        await asyncio.gather(*(ag.backward(chains(x, 3, 2, ask)) for x in leaves))
    assert [x.grad.item() for x in leaves] == [12.0] * 20
    assert sum(service.sizes) == 120
    if budget > 0.0:
        assert service.sizes == [60, 60]


async def test_backward_passes_that_have_spent_the_budget_of_the_loop_are_waited_for():
    service = Service()
    ask = ag.batched(service.double)
    leaves = [leaf(1.0) for _ in range(10)]

    def plain(x: Any) -> Any:
        for _ in range(20):
            x = x * 1.0
        return x

    ends = [[plain(end) for end in chains(x, 2, 1, ask)] for x in leaves]
    with loop_budget(1e-9):
        await asyncio.gather(*map(ag.backward, ends))
    assert sum(service.sizes) == 20
    # Each has gone on many times between two turns of the loop.
    assert len(service.sizes) <= 2


async def test_a_backward_that_has_not_called_and_is_busy_keeps_no_request_from_being_sent():
    service, others = Service(), []
    ask = ag.batched(service.double)
    y = leaf(1.0)
    for _ in range(2000):
        y = y * 1.0

    async def busy() -> None:
        with loop_budget(1e-9):
            await y.backward()
        others.append("the end")

    task = asyncio.create_task(busy())
    await asyncio.sleep(0)
    await ask(1)
    assert others == []
    await task


@without_pauses
async def test_a_rule_of_a_nested_backward_goes_with_those_of_the_outer_one():
    service = Service()
    ask = ag.batched(service.double)

    async def nests(grad: Any) -> Any:
        x, ends = inner.pop()
        await ag.backward(ends)
        return x.grad

    x, inner = leaf(1.0), [(y, chains(y, 2, 1, ask)) for y in (leaf(1.0), leaf(1.0))]
    await ag.backward([*chains(x, 2, 1, ask), *chains(x, 2, 1, nests)])
    assert (service.sizes, x.grad.item()) == ([6], 12.0)


class OfRow(ag.Function):
    """x, whose rule asks with the gradient of one row; of several at a time."""

    concurrent = True

    @staticmethod
    def forward(ctx: Any, x: Any, ask: Any) -> Any:
        ctx.ask = ask
        return x.numpy().copy()

    @staticmethod
    async def backward(ctx: Any, grad: Any) -> Any:
        return await ctx.ask(grad), None


class OfRows(OfRow):
    """The same, with the gradients of all rows."""

    concurrent = False

    @staticmethod
    async def backward_batch(ctx: Any, grads: Any) -> Any:
        return await OfRow.backward(ctx, grads)


#: Graphs of rules that ask for one row, or for all, and the sizes of the requests of three rows.
_OF_ROWS: dict[str, tuple[list[Callable[[Any, Any], Any]], list[int]]] = {
    "side by side": ([lambda x, ask: OfRow.apply(x, ask) + OfRows.apply(x, ask)], [4]),
    "beneath each other": ([lambda x, ask: OfRows.apply(OfRow.apply(x, ask), ask)], [1, 3]),
    "beneath and beside": (
        [lambda x, ask: OfRows.apply(OfRow.apply(x, ask), ask) + OfRow.apply(OfRows.apply(x, ask), ask)],
        [4, 4],
    ),
    "in two Jacobians": ([OfRow.apply, OfRows.apply], [4]),
}


@pytest.mark.parametrize(("functions", "sizes"), _OF_ROWS.values(), ids=_OF_ROWS)
@without_pauses
async def test_rules_for_one_row_and_for_all_rows_share_requests(functions, sizes):
    service = Service()
    ask = ag.batched(service.double)
    await asyncio.gather(*(ag.jacobian(lambda x, of=of: of(x, ask), np.ones(3)) for of in functions))
    assert service.sizes == sizes


@without_pauses
async def test_a_request_waits_for_no_rows_that_have_been_cancelled_before_they_asked():
    service = Service()
    ask = ag.batched(service.double)
    task = asyncio.ensure_future(ag.jacobian(lambda x: OfRows.apply(x, ask), np.ones(3)))
    call = asyncio.ensure_future(ask(1.0))
    await asyncio.sleep(0)
    await cancelled(task)
    assert await call == 2.0
    assert service.sizes == [1]


@one_loop
async def test_the_answer_of_a_request_is_not_copied(monkeypatch):
    service, copied = Service(), list[Any]()
    ask, own_copy = ag.batched(service.double), ownership.own_copy
    monkeypatch.setattr(ownership, "own_copy", lambda array: copied.append(array.shape) or own_copy(array))
    x = leaf(*range(40))
    await awaiting(x, lambda grad: ask(grad.numpy())).backward(np.ones(40))
    # What the caller gave.
    assert copied == [(40,)]


def test_a_blocking_backward_makes_the_same_requests():
    service = Service()
    ask = ag.batched(service.double)
    x = leaf(1.0)
    sync.backward(chains(x, 10, 3, ask))
    assert (service.sizes, x.grad.item()) == ([10] * 3, 80.0)


async def test_a_blocking_backward_on_a_running_loop_is_refused_and_leaves_nothing():
    service = Service()
    ask = ag.batched(service.double)
    with pytest.raises(ag.errors.BlockingError, match="Await it instead"):
        sync.backward(chains(leaf(1.0), 2, 1, ask))
    await settle()
    assert service.sizes == []
    assert (ask.statistics().waiting, ask.statistics().dropped) == (0, 1)


async def test_rules_on_a_device_with_a_thread_make_requests_on_its_loop():
    service = Service()
    ask = ag.batched(service.double)
    x = leaf(1.0)
    await ag.backward(chains(x.to("thread:0"), 5, 2, ask))
    assert (sum(service.sizes), x.grad.item()) == (10, 20.0)


async def test_under_create_graph_the_requests_are_recorded():
    sizes: list[int] = []

    @ag.batched
    async def double(items: list[Any]) -> list[Any]:
        sizes.append(len(items))
        return [item * 2.0 for item in items]

    class Square(ag.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        async def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * await double(x)

    x = leaf(3.0)
    (first,) = await ag.grad(Square.apply(x) + Square.apply(x), [x], create_graph=True)
    (second,) = await ag.grad(first, [x])
    assert (first.item(), second.item(), sizes) == (12.0, 4.0, [2])


def copy_with_its_attributes(kind: type[Trouble], attributes: dict[str, Any]) -> Trouble:
    copied = kind.__new__(kind)
    copied.__dict__ = attributes
    copied.args = ("no answer",)
    return copied


@pytest.mark.parametrize("shares_attributes", [False, True])
async def test_an_error_of_a_request_ends_each_backward_with_a_note_on_its_own_node(shares_attributes, monkeypatch):
    if shares_attributes:
        # As Dask has every exception copied and pickled, by tblib.
        reduced = lambda error: (copy_with_its_attributes, (Trouble, error.__dict__))
        monkeypatch.setitem(copyreg.dispatch_table, Trouble, reduced)

    @ag.batched
    async def ask(items: list[Any]) -> list[Any]:
        error = Trouble("no answer")
        error.add_note("of the service")
        raise error

    leaves = [leaf(1.0), leaf(1.0)]
    ends = [chains(x, 3, 1, ask) for x in leaves]
    errors = await asyncio.gather(*map(ag.backward, ends), return_exceptions=True)
    for error, of_this in zip(errors, ends, strict=True):
        assert isinstance(error, Trouble)
        numbers = [end.grad_fn.next_edges[0].node.sequence_nr for end in of_this]
        common, note = error.__notes__
        assert common == "of the service"
        assert note in [f"in AwaitingBackward (node #{number}, device 'cpu')" for number in numbers], note
    assert errors[0] is not errors[1]
    assert [x.grad for x in leaves] == [None, None]


@without_pauses
async def test_a_backward_that_is_cancelled_leaves_the_request_to_the_other_one():
    held = Held()

    @ag.batched
    async def ask(items: list[Any]) -> list[Any]:
        await held(items)
        return items

    x, y = leaf(1.0), leaf(1.0)
    first, second = (asyncio.create_task(ag.backward(chains(each, 3, 1, ask))) for each in (x, y))
    await held.begun.wait()
    await cancelled(first)
    assert (first.cancelled(), held.cancelled, x.grad) == (True, False, None)
    held.let_go.set()
    await second
    assert y.grad.item() == 3.0


async def test_a_backward_that_is_cancelled_ends_after_the_request_that_was_its_alone():
    begun, ended = asyncio.Event(), asyncio.Event()

    @ag.batched
    async def ask(items: list[Any]) -> list[Any]:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await turns(10)
            ended.set()
        return items

    task = asyncio.create_task(ag.backward(chains(leaf(1.0), 5, 1, ask)))
    await begun.wait()
    await cancelled(task)
    assert ended.is_set()
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("seen", [contextlib.nullcontext, ag.profile], ids=["unseen", "profiled"])
async def test_what_a_rule_waits_for_is_described(seen):
    held = Held()

    @ag.batched
    async def solve(items: list[Any]) -> list[Any]:
        await held(items)
        return items

    with loop_budget(60.0), seen():
        task = asyncio.create_task(ag.backward(chains(leaf(1.0), 2, 1, solve)))
        await asyncio.sleep(0)
        (backward,) = ag.engine.describe_running().backwards
        assert [node.waits_for for node in backward.running] == ["a request of solve, not sent yet, with 2 items"] * 2
        await held.begun.wait()
        (backward,) = ag.engine.describe_running().backwards
        assert [node.waits_for for node in backward.running] == ["a request of solve with 2 items"] * 2
        held.let_go.set()
        await task


async def test_what_rules_have_waited_for_is_in_a_profile():
    ask = ag.batched(asks)
    with ag.profile() as prof, loop_budget(60.0):
        await ag.backward(chains(leaf(1.0), 2, 1, ask))
    waited = [event.waited_for for event in prof.events if event.name == "AwaitingBackward"]
    assert waited == [(f"a request of asks, not sent yet, with {items}",) for items in ("1 item", "2 items")]


async def asks(items: list[Any]) -> list[Any]:
    return items


@one_loop
async def test_ten_thousand_calls_leave_nothing_behind(no_collector):
    loop: Any = asyncio.get_running_loop()
    ask = ag.batched(max_size=7, max_wait=1000.0)(Service(turns=1).double)
    items: list[weakref.ref[Any]] = []

    @ag.batched(max_size=5)
    async def fail(given: list[Any]) -> list[Any]:
        raise Trouble

    async def step(number: int) -> None:
        x = ag.tensor(np.ones(2) * number, requires_grad=True)
        items.append(weakref.ref(x))
        ends = chains(x, 4, 1, fail if number % 3 == 0 else ask)
        task = asyncio.create_task(ag.backward(ends))
        if number % 3 == 1:
            await turns(number % 7)
            task.cancel()
        await asyncio.wait([task])
        _ = task.cancelled() or task.exception()

    start, now = 0, ask.statistics()
    while now.items + now.dropped + fail.statistics().items < 10_000:
        await asyncio.gather(*(step(start + number) for number in range(25)))
        start, now = start + 25, ask.statistics()
    await settle()
    assert (now.waiting, now.running, fail.statistics().running) == (0, 0, 0)
    assert [one for one in items if one() is not None] == []
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert gc.collect() < 500, "cycles were left to the collector"
    if hasattr(loop, "_scheduled"):
        assert [timer for timer in loop._scheduled if not timer._cancelled] == []


def test_a_request_may_call_a_backward_through_the_node_that_waits_for_it():
    class Asking(ag.Function):
        @staticmethod
        def forward(ctx, x, given):
            ctx.given = given
            return 2.0 * x.numpy()

        @staticmethod
        async def backward(ctx, grad):
            if ctx.given.get("is_asked"):
                return 2.0 * grad, None
            return await ctx.given["ask"](grad), None

    async def main() -> Any:
        x = leaf(1.0, 2.0)
        given: dict[str, Any] = {}
        y = Asking.apply(x, given)

        @ag.batched
        async def ask(grads: list[Any]) -> list[Any]:
            given["is_asked"] = True
            await asyncio.sleep(0)
            (slope,) = await ag.grad([y], [x], [np.ones(2)], retain_graph=True)
            return [grad * slope for grad in grads]

        given["ask"] = ask
        (found,) = await ag.grad(y.sum(), [x])
        return found.tolist()

    assert run_with_seed(main, 0).result == [2.0, 2.0]
