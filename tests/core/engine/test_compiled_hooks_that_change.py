"""Laws of careful steps: what hooks and bodies change, and what they wait for, comes out as in the engine."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.arrays import values
from asyncgrad.core.settings.scheduling import LOOP_BUDGET
from asyncgrad.errors import GraphError
from asyncgrad.graph import Edge
from tests.core.engine.scenes import Scene, seen
from tests.support.arrays import bits
from tests.support.functions import awaiting, calling, split
from tests.support.leaves import leaf
from tests.support.settings import compiled_after, loop_budget
from tests.support.turns import Held, settle

pytestmark = pytest.mark.usefixtures("cache")


def seen_both_ways(model: Callable[[Scene], Any]) -> tuple[Any, Any]:
    """Run a model three times by the engine, and three times compiled; return what was seen of each."""
    found = []
    for after in (None, 0):
        made = Scene()
        for _ in range(3):
            with compiled_after(after), loop_budget(3600.0):
                sync.backward(model(made))
        found.append(seen(made))
    return found[0], found[1]


@pytest.mark.parametrize("where", ["reached", "not reached", "leaf reached", "leaf not reached", "itself"])
def test_a_hook_that_adds_a_hook_has_it_called_when_the_engine_calls_it(where):
    def model(scene: Scene) -> Any:
        early = np.tanh(scene.x)
        beside = np.exp(scene.x)
        value = np.multiply(early, scene.y)
        places = {
            "reached": beside,
            "not reached": early,
            "leaf reached": scene.x,
            "leaf not reached": scene.y,
            "itself": value,
        }

        def add(grad: Any) -> None:
            places[where].register_hook(scene.hook("added", lambda grad: grad * 2))

        value.register_hook(add)
        # Without what the backward before has put there.
        for one in scene.leaves:
            one._autograd_meta().hooks = None
        return np.add(np.multiply(value, beside), beside).sum()

    engine, compiled = seen_both_ways(model)

    assert compiled == engine
    assert len(engine[0]) == (0 if where == "itself" else 3)


def test_a_hook_that_removes_a_hook_ahead_is_the_last_to_know_of_it():
    def model(scene: Scene) -> Any:
        value = scene.first()
        handle = value.register_hook(scene.hook("removed"))
        later = np.sin(value)
        later.register_hook(lambda grad: handle.remove())
        return np.multiply(later, scene.z).sum()

    engine, compiled = seen_both_ways(model)

    assert compiled == engine
    assert engine[0] == []


def test_graphs_with_a_hook_and_without_one_are_told_apart(cache):
    x = leaf(0.4, 0.7)
    calls: list[Any] = []
    with compiled_after(0):
        for turn in range(20):
            x.grad = None
            value = np.multiply(x, 2.0)
            if turn % 2:
                value.register_hook(calls.append)
            sync.backward(np.sin(np.cos(value)).sum())

    assert len(calls) == 10
    assert cache.stats().compilations == 2
    assert cache.stats().hits >= 14


def test_a_backward_within_a_hook_is_compiled_too(cache):
    def model(scene: Scene) -> Any:
        value = scene.first()

        def inner(grad: Any) -> Any:
            with ag.enable_grad():
                sync.backward(np.exp(np.multiply(scene.z, 0.3)).sum())
            scene.note("inner", grad)

        value.register_hook(inner)
        return scene.last(value)

    engine, compiled = seen_both_ways(model)

    assert compiled == engine
    assert cache.stats().hits == 6


async def test_an_awaited_backward_within_a_body_is_compiled_too(cache):
    found = []

    for after in (None, 0):
        made = Scene()

        async def inner(grad: Any, made: Scene = made) -> Any:
            with ag.enable_grad():
                await np.exp(np.multiply(made.z, 0.3)).sum().backward()
            made.note("inner", grad)

        with compiled_after(after), loop_budget(3600.0):
            for _ in range(3):
                await made.last(awaiting(made.first(), inner)).backward()
        found.append(seen(made))

    assert found[0] == found[1]
    assert cache.stats().hits == 6


def test_a_backward_of_the_same_graph_within_its_own_hook_ends_as_in_the_engine():
    found = []
    for after in (None, 0):
        made = Scene()
        value = made.first()
        out = made.last(value)

        def again(grad: Any, made: Scene = made, out: Any = out) -> None:
            made.note("hook", grad)
            if ag.engine.current_graph_task().reentrant_depth < 2:
                sync.backward(out, retain_graph=True)

        value.register_hook(again)
        with compiled_after(after):
            for _ in range(2):
                sync.backward(out, retain_graph=True)
        found.append(seen(made))

    assert found[0] == found[1]


async def test_a_cancellation_in_a_body_that_waits_leaves_nothing_half_done(cache):
    x, y = leaf(0.3, 0.4), leaf(1.0, 2.0)

    with compiled_after(0):
        held = Held()
        held.let_go.set()
        await np.multiply(awaiting(np.sin(x), held), y).sum().backward()
        before = [(one.grad, bits(one.grad)) for one in (x, y)]
        held = Held()
        task = asyncio.ensure_future(np.multiply(awaiting(np.sin(x), held), y).sum().backward())
        await held.begun.wait()
        # The gradient of y is whole, and there.
        assert bits(y.grad) != before[1][1]
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        assert held.cancelled
        assert not getattr(caught.value, "__notes__", [])
        assert [(one.grad, bits(one.grad)) for one in (x, y)] == before
    gc.collect()

    assert cache.stats().hits == 1


async def test_while_the_clean_up_of_a_cancelled_body_runs_it_is_outstanding():
    counts: list[int] = []

    async def body(grad: Any) -> None:
        task = ag.engine.current_graph_task()
        try:
            await asyncio.Event().wait()
        finally:
            counts.append(task.outstanding_tasks)
            await asyncio.sleep(0)
            counts.append(task.outstanding_tasks)

    async def main() -> None:
        for after in (None, 0):
            with compiled_after(after):
                task = asyncio.ensure_future(np.sin(awaiting(leaf(1.0), body)).backward())
                await settle()
                task.cancel()
                await asyncio.wait([task])

    await main()

    assert counts[:2] == counts[2:]


async def test_branches_that_wait_overlap_as_in_the_engine(cache):
    x, y = leaf(0.3), leaf(0.7)
    reason = "a body that waits while others could run"

    expected = None
    for after in (None, 0, 0):
        x.grad = y.grad = None
        first, second = asyncio.Event(), asyncio.Event()

        async def meet(mine: asyncio.Event, other: asyncio.Event, grad: Any) -> Any:
            mine.set()
            await other.wait()
            return grad * 2

        with compiled_after(after):
            left = awaiting(np.sin(x), lambda grad, a=first, b=second: meet(a, b, grad))
            right = awaiting(np.multiply(x, y), lambda grad, a=first, b=second: meet(b, a, grad))
            await np.add(left, right).backward()
        found = [bits(x.grad), bits(y.grad)]
        expected = expected or found
        assert found == expected

    assert cache.stats().hits == 0
    assert cache.stats().reasons == {reason: 2}
    # That is no fault of the function's.
    assert cache.stats().compilations == 1


async def test_a_failure_of_one_of_two_that_overlap_cancels_the_other():
    x = leaf(0.3)
    told = []

    for after in (None, 0):
        held = Held()

        async def fail(grad: Any, held: Held = held) -> None:
            await held.begun.wait()
            raise ArithmeticError("no more")

        with compiled_after(after):
            out = np.add(awaiting(np.sin(x), held), awaiting(np.cos(x), fail))
            with pytest.raises(ArithmeticError) as caught:
                await out.backward()
        told.append((held.cancelled, len(caught.value.__notes__), x.grad))

    assert told[0] == told[1] == (True, 1, None)


def test_a_final_callback_that_a_hook_has_queued_runs_at_the_end(cache):
    def model(scene: Scene) -> Any:
        value = scene.first()

        def queue(grad: Any) -> None:
            ag.engine.queue_callback(lambda: scene.journal.append([bits(one.grad) for one in scene.leaves]))

        value.register_hook(queue)
        return scene.last(value)

    engine, compiled = seen_both_ways(model)

    assert compiled == engine
    assert len(engine[0]) == 3
    assert cache.stats().hits == 3


def test_a_failing_final_callback_takes_back_what_leaves_got_before_it_was_queued():
    made = Scene()

    def fail() -> None:
        raise ArithmeticError("at the end")

    with compiled_after(0):
        for is_failing in (False, True):
            value = made.first()
            value.register_hook(lambda grad, fails=is_failing: ag.engine.queue_callback(fail) if fails else None)
            before = [bits(one.grad) for one in made.leaves]
            try:
                sync.backward(made.last(value))
            except ArithmeticError:
                assert [bits(one.grad) for one in made.leaves] == before
            else:
                assert not is_failing


def test_a_hook_that_has_a_node_run_after_all_is_obeyed():
    x, y = leaf(0.3, 0.9), leaf(1.3, 0.1)
    ran = []
    for after in (None, 0, 0):
        inner = calling(np.multiply(x, 2.0), lambda grad: ran.append("body"))
        value = np.multiply(inner, y)

        def include(grad: Any, node: Any = inner.grad_fn) -> None:
            ag.engine.current_graph_task().exec_info[node].needed = True

        value.register_hook(include)
        with compiled_after(after):
            sync.backward(np.sin(value).sum(), inputs=[y])

    assert ran == ["body"] * 3


def test_a_hook_that_changes_the_edges_of_the_root_is_refused_as_by_the_engine():
    messages = []
    for after in (None, 0):
        x, y = leaf(2.0), leaf(3.0)
        out = np.multiply(x, 2.0)
        edge = Edge(*ag.graph.get_gradient_edge(y))
        out.grad_fn.register_prehook(lambda grads, node=out.grad_fn, edge=edge: node.set_next_edge(0, edge))
        with compiled_after(after), pytest.raises(GraphError) as caught:
            sync.backward(out)
        messages.append(str(caught.value).partition("delivered")[2])
        assert x.grad is y.grad is None

    assert messages[0] == messages[1] != ""


def test_an_undefined_gradient_goes_on_as_in_the_engine(cache):
    class Dropping(ag.Function):
        """Two arguments, and a gradient for the first."""

        @staticmethod
        def forward(ctx, x, y):
            return x.numpy() * y.numpy()

        @staticmethod
        def backward(ctx, grad):
            return grad * 2.0, None

    def model(scene: Scene) -> Any:
        other = np.tanh(scene.y)
        other.register_hook(lambda grad: scene.journal.append(grad is None))
        return scene.last(Dropping.apply(scene.first(), other))

    engine, compiled = seen_both_ways(model)

    assert compiled == engine
    assert cache.stats().reasons == {"an undefined gradient": 3}


def test_roots_of_another_number_of_outputs_are_told_apart(cache):
    x = leaf(0.7)
    found = []
    for after in (None, 0):
        x.grad = None
        with compiled_after(after):
            for _ in range(2):
                sync.backward(calling(np.sin(x), lambda grad: grad * 2))
                sync.backward(split(np.sin(x), lambda first, second: first * 3)[0])
                sync.backward(split(np.sin(x), lambda first, second: second * 5)[1])
        found.append(x.grad.item())

    assert found[0] == found[1]
    assert cache.stats().hits == 6


def test_another_edge_to_a_leaf_is_seen_before_that_takes_its_gradient(cache):
    # Alike from the root up to the hook, and other leaves below it.
    def model(scene: Scene) -> Any:
        value = np.multiply(scene.x, scene.z if len(scene.journal) >= 2 else scene.y)
        value.register_hook(scene.hook("hook"))
        return scene.last(value)

    engine, compiled = seen_both_ways(model)

    assert compiled == engine
    assert cache.stats().hits == 2


async def test_a_body_holds_the_only_reference_to_its_gradient():
    gone = []

    async def body(grad: Any) -> Any:
        kept = weakref.ref(grad.numpy())
        result = grad * 2
        del grad
        await asyncio.sleep(0)
        gone.append(kept() is None)
        return result

    for after in (None, 0):
        with compiled_after(after):
            await np.multiply(awaiting(np.sin(leaf(*range(5000))), body), 3.0).sum().backward()

    assert gone[0] == gone[1]


def test_leaves_take_over_what_nobody_else_holds(monkeypatch):
    copied: list[Any] = []
    clones = values.clone_like
    monkeypatch.setattr(values, "clone_like", lambda value, like: copied.append(like.shape) or clones(value, like))
    for after in (None, 0):
        x, y = leaf(*range(40)), leaf(*range(40))
        hooked = np.multiply(y, 2.0)
        hooked.register_hook(lambda grad: None)
        with compiled_after(after):
            # The last of them hands on to x what it got, and nothing else.
            sync.backward(np.subtract(x, 1.0) * 3.0 + np.sin(hooked), np.ones(40))
        copied.append("end")

    assert copied == ["end", "end"]


def test_what_is_released_is_gone_when_a_hook_looks():
    gone: list[list[bool]] = []
    for after in (None, 0):
        hooked = np.multiply(leaf(*range(40)), 2.0)
        left, right = np.sin(hooked), np.cos(hooked)
        saved = [weakref.ref(left), weakref.ref(right)]
        loss = np.multiply(left, right).sum()
        del left, right
        hooked.register_hook(lambda grad, saved=saved: gone.append([one() is None for one in saved]))
        with compiled_after(after):
            sync.backward(loss)

    assert gone == [[True, True], [True, True]]


async def test_what_two_backward_passes_add_is_taken_back_one_by_one():
    found = []

    for after in (None, 0):
        x, y = leaf(0.1), leaf(0.7)
        held = Held()

        async def fail(grad: Any, held: Held = held) -> None:
            await held(grad)
            raise ArithmeticError("no more")

        with compiled_after(after):
            # The gradient of y is there before the body waits.
            task = asyncio.ensure_future(np.multiply(awaiting(np.sin(x), fail), y).backward())
            await held.begun.wait()
            await np.multiply(y, 0.3).backward()
            held.let_go.set()
            with pytest.raises(ArithmeticError):
                await task
        found.append((bits(x.grad), bits(y.grad)))

    assert found[0] == found[1] == (None, bits(np.array([0.3])))


async def test_hooks_that_do_not_wait_spend_the_time_budget_too(cache):
    x = leaf(0.5)
    turns: list[int] = []

    seen_turns = [0]

    async def other() -> None:
        while True:
            seen_turns[0] += 1
            await asyncio.sleep(0)

    ticking = asyncio.ensure_future(other())
    for after in (None, 0):
        value = x
        for _ in range(5):
            value = np.sin(value)
            value.register_hook(lambda grad: turns.append(seen_turns[0]))
        with compiled_after(after):
            token = LOOP_BUDGET.set(-1.0)
            try:
                await value.backward()
            finally:
                LOOP_BUDGET.reset(token)
    ticking.cancel()
    await asyncio.wait([ticking])

    # The loop breathes after each of them.
    assert len(set(turns[:5])) == 5
    assert len(set(turns[5:])) == 5
    assert cache.stats().hits == 1
