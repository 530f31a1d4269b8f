"""Multi-grad hooks of backward passes that run at once, that nest, that fail, and hooks that wait."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import threading
import weakref
from typing import Any

import pytest

import asyncgrad as ag
from asyncgrad.core.graph.multi_grad import _AllGradients, _FirstGradient
from asyncgrad.graph import register_multi_grad_hook
from tests.core.graph.observing import Calls, observed
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop
from tests.support.turns import Held, settle


def collectors(monkeypatch: pytest.MonkeyPatch, kind: Any) -> list[Any]:
    """The collectors of gradients of the multi-grad hooks that are registered from now on."""
    made: list[Any] = []
    original = kind.__init__

    def noting(self: Any, *args: Any) -> None:
        made.append(self)
        original(self, *args)

    monkeypatch.setattr(kind, "__init__", noting)
    return made


# Backward passes do not see each other.


async def test_repeated_backward_passes_call_a_multi_grad_hook_once_each():
    a, b = leaf(2.0), leaf(3.0)
    y = a * b
    calls = observed(a, b, y)

    for _ in range(3):
        await ag.backward(y * 1.0, retain_graph=True)

    assert calls.seen == [[[3.0], [2.0], [1.0]]] * 3


@pytest.mark.parametrize("mode", ["all", "any"])
async def test_two_backward_passes_at_once_are_kept_apart(mode):
    a, b = leaf(2.0), leaf(3.0)
    calls = observed(a, b, mode=mode)

    one, two = Held(), Held()
    first = asyncio.ensure_future(ag.backward(a * 5.0 + awaiting(b, one) * 7.0))
    await one.begun.wait()
    await settle()
    second = asyncio.ensure_future(ag.backward(awaiting(a, two) * 11.0 + b * 13.0))
    await two.begun.wait()
    await settle()
    if mode == "all":
        assert calls.seen == []
    one.let_go.set()
    await first
    two.let_go.set()
    await second

    wanted = [[[5.0], [7.0]], [[11.0], [13.0]]] if mode == "all" else [[5.0], [13.0]]
    assert calls.seen == wanted


async def test_backward_passes_of_different_reach_at_once_wait_for_different_numbers():
    a, b, c = leaf(2.0), leaf(3.0), leaf(4.0)
    calls = observed(a, b, c)

    held = Held()
    wide = asyncio.ensure_future(ag.backward(a * 5.0 + b * 6.0 + awaiting(c, held) * 7.0))
    await held.begun.wait()
    await settle()
    await ag.backward(a * 11.0)
    await ag.backward(b * 12.0 + c * 13.0)
    held.let_go.set()
    await wide

    assert calls.seen == [[[11.0], None, None], [None, [12.0], [13.0]], [[5.0], [6.0], [7.0]]]


@pytest.mark.parametrize("mode", ["all", "any"])
async def test_a_nested_backward_over_the_same_tensors_calls_a_multi_grad_hook_by_itself(mode):
    a, b = leaf(2.0), leaf(3.0)
    calls = observed(a, b, mode=mode)

    async def nested(grad: Any) -> None:
        with ag.enable_grad():
            root = a * 11.0 + b * 13.0
        await ag.backward(root)

    await ag.backward(awaiting(a, nested) * 7.0 + b * 5.0)

    # The newest product comes first: in the outer one that of b, before it nests the other.
    wanted = [[[11.0], [13.0]], [[7.0], [5.0]]] if mode == "all" else [[5.0], [13.0]]
    assert calls.seen == wanted


def test_threads_run_one_graph_at_once():
    a, b = leaf(2.0), leaf(3.0)
    y = a * b * 1.0
    calls = observed(a, b)
    errors: list[BaseException] = []
    barrier = threading.Barrier(4)

    def work() -> None:
        try:
            barrier.wait()
            for _ in range(25):
                ag.sync.backward(y, retain_graph=True)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert calls.seen == [[[3.0], [2.0]]] * 100


# Failures and what is kept.


@on_each_loop
@pytest.mark.parametrize("mode", ["all", "any"])
def test_a_backward_that_fails_midway_leaves_nothing_behind(run, mode, monkeypatch):
    made = collectors(monkeypatch, _AllGradients if mode == "all" else _FirstGradient)
    a, b = leaf(2.0), leaf(3.0)
    fails = [True]

    def body(grad: Any) -> None:
        if fails[0]:
            raise ValueError("midway")

    y = a * 7.0 + calling(calling(b * 1.0, lambda grad: None), body) * 5.0
    middle = y * 1.0
    calls = observed(middle, a, b, mode=mode)

    def failing() -> None:
        with pytest.raises(ValueError, match="midway"):
            run(ag.backward(middle * 1.0, retain_graph=True))

    failing()
    gc.collect()

    assert [len(one._states) for one in made] == [0]
    assert calls.seen == ([] if mode == "all" else [[1.0]])
    fails[0] = False
    calls.seen = []
    run(ag.backward(middle * 1.0))
    assert calls.seen == ([[[1.0], [7.0], [5.0]]] if mode == "all" else [[1.0]])


async def test_a_backward_that_is_cancelled_leaves_nothing_behind(monkeypatch):
    made = collectors(monkeypatch, _AllGradients)
    a, b = leaf(2.0), leaf(3.0)
    calls = observed(a, b)

    held = Held()
    y = a * 7.0 + awaiting(b, held) * 5.0
    task = asyncio.ensure_future(ag.backward(y, retain_graph=True))
    await held.begun.wait()
    await settle()
    assert len(made[0]._states) == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    del task
    # The loop's handle holds the task, and with it its error, until its turn ends.
    await settle()
    gc.collect()
    assert len(made[0]._states) == 0
    held.let_go.set()
    await ag.backward(y)

    assert calls.seen == [[[7.0], [5.0]]]


@pytest.mark.parametrize("mode", ["all", "any"])
async def test_a_backward_that_succeeds_leaves_nothing_behind(mode, monkeypatch):
    made = collectors(monkeypatch, _AllGradients if mode == "all" else _FirstGradient)
    a = leaf(2.0)
    observed(a, mode=mode)

    await ag.backward(a * 2.0)
    gc.collect()

    assert [len(one._states) for one in made] == [0]


async def test_what_was_gathered_is_let_go_when_the_hook_is_called(monkeypatch):
    made = collectors(monkeypatch, _AllGradients)
    a, b = leaf(2.0), leaf(3.0)
    kept: list[int] = []
    register_multi_grad_hook([a, b], lambda grads: kept.append(len(made[0]._states)))

    await ag.backward(a * b)

    assert kept == [0]


async def test_a_hook_that_raises_fails_the_backward_and_works_in_the_next():
    a, b = leaf(2.0), leaf(3.0)
    fails = [True]
    calls = Calls()

    def hook(grads: Any) -> None:
        if fails[0]:
            raise ValueError("the hook")
        calls(grads)

    register_multi_grad_hook([a, b], hook)
    y = a * b
    with pytest.raises(ValueError, match="the hook"):
        await ag.backward(y, retain_graph=True)
    assert a.grad is None
    assert b.grad is None
    fails[0] = False

    await ag.backward(y)

    assert calls.seen == [[[3.0], [2.0]]]


def test_the_hook_keeps_no_graph_alive():
    a = leaf(2.0)
    gc.collect()
    gc.disable()
    try:
        y = a * 3.0
        node = weakref.ref(y.grad_fn)
        register_multi_grad_hook([a, y], lambda grads: None)

        del y

        assert node() is None
        accumulator = None if a._meta.accumulator is None else a._meta.accumulator()
        assert accumulator is None
        leaf_reference = weakref.ref(a)
        del a
        assert leaf_reference() is None
    finally:
        gc.enable()


async def test_the_list_is_the_users_own():
    a = leaf(2.0)
    kept: list[Any] = []
    register_multi_grad_hook([a], kept.append)

    for factor in (3.0, 5.0):
        await ag.backward(a * factor)

    assert [grads[0].tolist() for grads in kept] == [[3.0], [5.0]]
    assert a.grad.tolist() == [8.0]


# Hooks that wait.


@pytest.mark.parametrize("mode", ["all", "any"])
async def test_an_async_hook_is_awaited(mode):
    a, b = leaf(2.0), leaf(3.0)
    order: list[str] = []

    async def hook(grads: Any) -> Any:
        order.append("begin")
        await asyncio.sleep(0)
        order.append("end")
        return 5.0

    register_multi_grad_hook([a, b], hook, mode=mode)

    await ag.backward(a * b)

    assert order == ["begin", "end"]
    assert (a.grad.tolist(), b.grad.tolist()) == ([3.0], [2.0])


async def test_an_async_hook_holds_up_only_the_node_it_was_called_at():
    a, b = leaf(2.0), leaf(3.0)
    x, z = a * 2.0, b * 2.0
    other = observed(a), observed(b)

    begun, let_go = asyncio.Event(), asyncio.Event()

    async def hook(grads: Any) -> None:
        begun.set()
        await let_go.wait()

    register_multi_grad_hook([z, x], hook)
    task = asyncio.ensure_future(ag.backward(x * 5.0 + z * 7.0))
    await begun.wait()
    await settle()
    assert sorted(len(calls.seen) for calls in other) == [0, 1]
    let_go.set()
    await task

    assert [calls.seen for calls in other] == [[[[10.0]]], [[[14.0]]]]


async def test_while_an_async_multi_grad_hook_waits_another_backward_calls_it_too():
    a = leaf(2.0)

    seen: list[Any] = []
    both = asyncio.Event()

    async def hook(grads: Any) -> None:
        seen.append([None if grad is None else grad.item() for grad in grads])
        if len(seen) == 2:
            both.set()
        await both.wait()

    x, y = a * 3.0, a * 5.0
    register_multi_grad_hook([x, y], hook)
    await asyncio.gather(ag.backward(x * 1.0), ag.grad(y * 2.0, [y]))

    assert seen == [[1.0, None], [None, 2.0]]


def test_only_an_async_hook_makes_tensor_hooks_that_may_wait():
    async def waits(grads: Any) -> None: ...

    class Waits:
        async def __call__(self, grads: Any) -> None: ...

    for fn, wanted in ((print, False), (waits, True), (functools.partial(waits), True), (Waits(), True)):
        x = leaf(1.0)
        register_multi_grad_hook([x], fn)
        (hook,) = x._meta.hooks.snapshot()
        assert inspect.iscoroutinefunction(hook) is wanted


async def test_a_plain_function_that_returns_an_awaitable_is_awaited():
    a = leaf(2.0)
    ended: list[bool] = []

    async def later() -> float:
        await asyncio.sleep(0)
        ended.append(True)
        return 5.0

    register_multi_grad_hook([a], lambda grads: later())

    await ag.backward(a * 3.0)

    assert ended == [True]
    assert a.grad.tolist() == [3.0]


def test_sync_awaits_an_async_hook():
    a, b = leaf(2.0), leaf(3.0)
    seen: list[Any] = []

    async def hook(grads: Any) -> None:
        await asyncio.sleep(0)
        seen.append([grad.tolist() for grad in grads])

    register_multi_grad_hook([a, b], hook)

    ag.sync.backward(a * b)

    assert seen == [[[3.0], [2.0]]]
