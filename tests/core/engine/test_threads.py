"""One graph in backward passes of several threads, with loops and without: bodies run alone, sums are whole."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.graph import node as node_module
from asyncgrad.errors import ReleasedGraphError
from asyncgrad.graph import Node
from tests.core.engine.locking import GRAPHS, Watch, is_at_rest, saving
from tests.support.failing import Trouble
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf
from tests.support.loops import run_on
from tests.support.threads import all_in_threads
from tests.support.turns import Held, settle

pytestmark = pytest.mark.usefixtures("threads_switch_often")

THREADS = 4
ROUNDS = 12


def on_a_loop(out: Any, grad: float, **options: Any) -> Callable[[], None]:
    """A backward on a loop of its own."""
    return lambda: run_on("asyncio", ag.backward(out, np.full(1, grad), **options))


def blocking(out: Any, grad: float, **options: Any) -> Callable[[], None]:
    return lambda: sync.backward(out, np.full(1, grad), **options)


def beside_a_loop(out: Any, grad: float, **options: Any) -> Callable[[], None]:
    """A blocking backward in a worker of a loop that meanwhile runs the graph as well."""

    async def main():
        await asyncio.gather(
            asyncio.to_thread(sync.backward, out, np.full(1, grad / 2), **options),
            ag.backward(out, np.full(1, grad / 2), **options),
        )

    return lambda: run_on("asyncio", main())


WAYS: dict[str, list[Callable[..., Callable[[], None]]]] = {
    "loops": [on_a_loop],
    "blocking": [blocking],
    "loops and blocking": [on_a_loop, blocking],
    "beside a loop": [beside_a_loop],
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("graph", GRAPHS)
def test_a_body_and_its_release_run_alone_among_threads_and_sums_are_whole(graph, way):
    x, watch, expected = leaf(3.0), Watch(), 0.0
    out = GRAPHS[graph](x, watch)
    for round_nr in range(ROUNDS // 3):
        factors = [2.0 * 4**number + round_nr for number in range(THREADS)]
        works = [
            WAYS[way][number % len(WAYS[way])](out, grad, retain_graph=True) for number, grad in enumerate(factors)
        ]
        assert all_in_threads(*works) == [None] * THREADS
        expected += 2.0 * sum(factors)
    assert watch.overlaps == []
    assert x.grad.item() == expected
    assert is_at_rest(out)


def many_nodes(x: ag.Tensor, watches: list[Watch]) -> ag.Tensor:
    """A graph of all kinds of nodes, plain ones between; it gives 2**11 * grad."""
    out = np.multiply(x, 2.0)
    for awaits in (False, True, False):
        watches += [Watch(), Watch(), Watch()]
        out = saving(out, watches[-3], awaits=awaits)
        out = np.multiply(calling(out, watches[-2].call), out.detach() * 0.0 + 2.0)
        out = awaiting(np.add(out, out), watches[-1].wait)
        out.register_hook(watches[-1].wait)
    out.retain_grad()
    return np.multiply(out, 2.0)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_each_body_of_a_graph_of_many_nodes_runs_alone_among_threads_and_sums_are_whole(way):
    x, watches = leaf(1.0), []
    out = many_nodes(x, watches)
    for _ in range(ROUNDS):
        works = [WAYS[way][number % len(WAYS[way])](out, 2.0, retain_graph=True) for number in range(THREADS)]
        assert all_in_threads(*works) == [None] * THREADS
    assert [watch.overlaps for watch in watches] == [[]] * len(watches)
    assert x.grad.item() == 2.0 * 2**11 * THREADS * ROUNDS
    assert is_at_rest(out)


def plain_chain(x: ag.Tensor) -> ag.Tensor:
    """Gives 2**20 * grad, with nodes that save, and no lock."""
    out = x
    for _ in range(20):
        out = np.multiply(out, ag.tensor([2.0], requires_grad=True))
    return out


def chain_of_functions(x: ag.Tensor) -> ag.Tensor:
    for number in range(20):
        x = saving(x, Watch(), awaits=number % 3 == 0)
    return x


def hooked_chain(x: ag.Tensor) -> ag.Tensor:
    out = plain_chain(x)
    out.register_hook(lambda grad: None)
    return out


@pytest.mark.slow
@pytest.mark.parametrize("make", [plain_chain, hooked_chain, chain_of_functions])
@pytest.mark.parametrize("way", ["loops", "blocking", "loops and blocking"])
def test_without_retain_graph_one_succeeds_and_the_gradient_is_that_of_those_that_did(make, way):
    for _ in range(ROUNDS):
        x = leaf(1.0)
        out = make(x)
        factors = [2.0 * 4**number for number in range(THREADS)]
        works = [WAYS[way][number % len(WAYS[way])](out, grad) for number, grad in enumerate(factors)]
        raised = all_in_threads(*works)
        assert {type(error) for error in raised} <= {type(None), ReleasedGraphError}
        assert None in raised
        succeeded = sum(grad for grad, error in zip(factors, raised, strict=True) if error is None)
        assert x.grad.item() == 2.0**20 * succeeded
        assert is_at_rest(out)


def test_grad_captures_the_same_in_every_thread():
    x, watches = leaf(1.0), []
    out = many_nodes(x, watches)
    captured: list[float] = []

    def capture():
        captured.append(sync.grad(out, [x], retain_graph=True)[0].item())

    for _ in range(ROUNDS):
        assert all_in_threads(*[capture] * THREADS) == [None] * THREADS
    assert captured == [2.0**11] * THREADS * ROUNDS
    assert [watch.overlaps for watch in watches] == [[]] * len(watches)
    assert x.grad is None
    assert is_at_rest(out)


def test_a_backward_that_waits_for_another_thread_can_be_cancelled():
    x, begun, let_go = leaf(1.0), threading.Event(), threading.Event()

    def body(grad):
        if not begun.is_set():
            begun.set()
            assert let_go.wait(60)

    out = calling(x, body)
    holder = threading.Thread(target=blocking(out, 1.0, retain_graph=True))
    holder.start()
    assert begun.wait(60)

    async def main():
        for _ in range(3):
            task = asyncio.ensure_future(ag.backward(out, retain_graph=True))
            await settle()
            assert out.grad_fn.meta.contention is not None
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        last = asyncio.ensure_future(ag.backward(out, np.full(1, 10.0), retain_graph=True))
        await settle()
        assert out.grad_fn.meta.contention is not None
        let_go.set()
        await last

    run_on("asyncio", main())
    holder.join()
    assert x.grad.item() == 11.0
    assert is_at_rest(out)


@pytest.mark.parametrize("way", [on_a_loop, blocking])
def test_the_lock_of_a_holder_that_fails_goes_to_a_thread_that_waits(way):
    x, begun, let_go = leaf(1.0), threading.Event(), threading.Event()

    def body(grad):
        if grad.item() == 1.0:
            begun.set()
            assert let_go.wait(60)
            raise Trouble

    out = calling(x, body)

    def waits():
        assert begun.wait(60)
        threading.Thread(target=lets_go_once_somebody_waits).start()
        way(out, 10.0, retain_graph=True)()

    def lets_go_once_somebody_waits():
        while out.grad_fn.meta.contention is None:
            pass
        let_go.set()

    failed, succeeded = all_in_threads(blocking(out, 1.0, retain_graph=True), waits)
    assert type(failed) is Trouble
    assert succeeded is None
    assert x.grad.item() == 10.0
    assert is_at_rest(out)


def test_cancelled_waiters_of_many_threads_leave_nothing_behind():
    """Each loop cancels what it began at a turn of its own; what was not cancelled in time has happened."""
    x, watch = leaf(1.0), Watch()
    out = awaiting(x, watch.wait)
    happened: list[float] = []

    async def main(number):
        for turns in range(15):
            grad = float(1 + number + turns)
            task = asyncio.ensure_future(ag.backward(out, np.full(1, grad), retain_graph=True))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            if (await asyncio.gather(task, return_exceptions=True)) == [None]:
                happened.append(grad)
        await ag.backward(out, np.ones(1), retain_graph=True)

    works = [lambda number=number: run_on("asyncio", main(number)) for number in range(THREADS)]
    assert all_in_threads(*works) == [None] * THREADS
    assert watch.overlaps == []
    assert x.grad.item() == sum(happened) + THREADS
    assert is_at_rest(out)


@pytest.mark.parametrize("way", [on_a_loop, blocking])
def test_bodies_in_two_threads_that_each_run_the_other_s_node_all_end(way):
    def ring() -> tuple[list[ag.Tensor], list[ag.Tensor]]:
        leaves, both = [leaf(1.0), leaf(1.0)], threading.Barrier(2)
        outs: list[ag.Tensor] = []

        def blocks(other):
            def body(grad):
                if grad.item() != 1.0:
                    both.wait(60)
                    sync.backward(outs[other], np.ones(1), retain_graph=True)

            return body

        def awaits(other):
            async def body(grad):
                if grad.item() != 1.0:
                    both.wait(60)
                    await ag.backward(outs[other], np.ones(1), retain_graph=True)

            return body

        for x, other in zip(leaves, (1, 0), strict=True):
            outs.append(calling(x, blocks(other)) if way is blocking else awaiting(x, awaits(other)))
        return leaves, outs

    for _ in range(ROUNDS):
        leaves, outs = ring()
        assert all_in_threads(*[way(out, 100.0, retain_graph=True) for out in outs]) == [None, None]
        assert [x.grad.item() for x in leaves] == [101.0, 101.0]
        assert is_at_rest(*outs)


def test_two_threads_that_first_ask_for_what_few_nodes_have_get_the_same(monkeypatch):
    """Were it made twice, they would hold two locks of one node. One thread overtakes the other in mid-making."""
    node: Node = np.multiply(leaf(1.0), 2.0).grad_fn
    got: list[Any] = []
    meta = node_module.NodeMeta

    def overtaken() -> Any:
        monkeypatch.undo()
        thread = threading.Thread(target=lambda: got.append(node.make_meta()))
        thread.start()
        thread.join()
        return meta()

    monkeypatch.setattr(node_module, "NodeMeta", overtaken)
    got.append(node.make_meta())
    assert len(got) == 2
    assert got[0] is got[1] is node.meta


async def test_a_held_body_in_one_loop_does_not_hold_up_the_loop_that_waits():
    x, held = leaf(1.0), []
    turns = 0

    async def body(grad):
        if not held:
            held.append((asyncio.get_running_loop(), waiting := Held()))
            begun.set()
            await waiting(grad)

    begun = threading.Event()
    out = awaiting(x, body)
    thread = threading.Thread(target=on_a_loop(out, 1.0, retain_graph=True))
    thread.start()
    assert begun.wait(60)

    async def main():
        nonlocal turns
        task = asyncio.ensure_future(ag.backward(out, retain_graph=True))
        while turns < 100:
            await asyncio.sleep(0)
            turns += 1
        assert not task.done()
        loop, waiting = held[0]
        loop.call_soon_threadsafe(waiting.let_go.set)
        await task

    await main()
    thread.join()
    assert turns == 100
    assert x.grad.item() == 2.0
    assert is_at_rest(out)
