"""What may be a hook: anything that can be called, sync or async, with a name or without; in blocking calls too."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.engine import loops
from asyncgrad.errors import BlockingError, HookTypeError
from tests.core.engine.hooking import as_kind, backward, both_drives, register
from tests.support.functions import awaiting
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop
from tests.support.turns import Held, settle

SORTS = ["tensor hook", "pre-hook", "post-hook", "post-accumulate hook"]
every_sort = pytest.mark.parametrize("where", SORTS)


def note_number_of_arguments(seen: list[Any], *args: Any) -> None:
    seen.append(len(args))


async def noting_later(seen: list[Any], *args: Any) -> None:
    await asyncio.sleep(0)
    seen.append(len(args))


class Object:
    """Notes how many arguments it was called with, in each of the ways in which an object can be."""

    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen

    def __call__(self, *args: Any) -> None:
        note_number_of_arguments(self.seen, *args)

    def method(self, *args: Any) -> None:
        note_number_of_arguments(self.seen, *args)

    async def async_method(self, *args: Any) -> None:
        await noting_later(self.seen, *args)

    @staticmethod
    def static(seen: list[Any], *args: Any) -> None:
        note_number_of_arguments(seen, *args)

    @classmethod
    async def of_class(cls, seen: list[Any], *args: Any) -> None:
        await noting_later(seen, *args)


class AsyncObject:
    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen

    async def __call__(self, *args: Any) -> None:
        await noting_later(self.seen, *args)


class Awaitable:
    """Something to wait for that is no coroutine."""

    def __init__(self, seen: list[Any], count: int) -> None:
        self.seen, self.count = seen, count

    def __await__(self) -> Any:
        yield
        self.seen.append(self.count)


@functools.wraps(noting_later)
def wrapped(*args: Any) -> Any:
    return noting_later(*args)


CALLABLES = {
    "bound method": lambda seen: Object(seen).method,
    "bound async method": lambda seen: Object(seen).async_method,
    "object": Object,
    "async object": AsyncObject,
    "partial": lambda seen: functools.partial(note_number_of_arguments, seen),
    "async partial": lambda seen: functools.partial(noting_later, seen),
    "partial of a partial": lambda seen: functools.partial(functools.partial(noting_later), seen),
    "partial of an async object": lambda seen: functools.partial(AsyncObject(seen)),
    "static method": lambda seen: functools.partial(Object.static, seen),
    "async class method": lambda seen: functools.partial(Object.of_class, seen),
    "wrapped async def": lambda seen: functools.partial(wrapped, seen),
    "lambda to a coroutine": lambda seen: lambda *args: noting_later(seen, *args),
    "lambda to an awaitable": lambda seen: lambda *args: Awaitable(seen, len(args)),
    "lambda to an object's coroutine": lambda seen: lambda *args: AsyncObject(seen)(*args),
}


@pytest.mark.slow
@both_drives
@every_sort
@pytest.mark.parametrize("kind", CALLABLES)
async def test_anything_that_can_be_called_may_be_a_hook(where, kind, drive):
    seen: list[int] = []
    x = leaf(2.0)
    out = np.multiply(x, 3.0)
    register(where, x, CALLABLES[kind](seen))

    await backward(drive, out)

    assert seen == [2 if where == "post-hook" else 1]
    assert x.grad.item() == 3.0


@both_drives
@pytest.mark.parametrize("kind", CALLABLES)
async def test_anything_that_can_be_called_may_be_a_hook_on_a_root(kind, drive):
    seen: list[int] = []
    out = np.multiply(leaf(2.0), 3.0)
    out.register_hook(CALLABLES[kind](seen))

    await backward(drive, out)

    assert seen == [1]


@both_drives
async def test_a_lambda_may_return_a_coroutine_of_another_gradient(drive):
    async def doubled(grad: Any) -> Any:
        await asyncio.sleep(0)
        return grad * 2.0

    x = leaf(2.0)
    x.register_hook(lambda grad: doubled(grad))

    await backward(drive, np.multiply(x, 3.0))

    assert x.grad.item() == 6.0


@both_drives
async def test_what_the_coroutine_of_a_hook_raises_is_the_backwards_error(drive):
    error = ZeroDivisionError("no")

    async def fails(grad: Any) -> None:
        await asyncio.sleep(0)
        raise error

    x = leaf(2.0)
    x.register_hook(lambda grad: fails(grad))

    with pytest.raises(ZeroDivisionError) as raised:
        await backward(drive, np.multiply(x, 3.0))

    assert raised.value is error
    assert error.__notes__[0].startswith("in AccumulateGrad (leaf of shape (")
    assert x.grad is None


def test_the_coroutine_of_a_hook_may_sleep_start_tasks_and_run_backwards_in_a_blocking_call():
    inner = leaf(5.0)

    async def works(grad: Any) -> Any:
        await asyncio.sleep(0)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(asyncio.sleep(0, result=10.0))
        with ag.enable_grad():
            await ag.backward(awaiting(inner, as_kind("suspending", lambda grad: None)))
        return grad * (await task)

    x = leaf(2.0)
    x.register_hook(lambda grad: works(grad))

    sync.backward(np.multiply(x, 3.0))

    assert (x.grad.item(), inner.grad.item()) == (30.0, 1.0)


@on_each_loop
def test_a_body_that_returns_a_coroutine_though_it_is_no_async_def_may_suspend_in_a_blocking_call(run):
    class Later(ag.graph.Node):
        def apply(self, grads):
            async def later():
                await asyncio.sleep(0)
                return (grads[0] * 2.0,)

            return later()

    x = leaf(2.0)
    accumulator = ag.graph.get_gradient_edge(x)
    node = Later([ag.graph.Edge(*accumulator)], [accumulator.node.input_metadata[0]])

    sync.backward(ag.graph.GradientEdge(node, 0), np.ones(1))
    run(ag.backward(ag.graph.GradientEdge(node, 0), np.ones(1)))

    assert x.grad.item() == 4.0


# Blocking beside a loop.


@on_each_loop
@every_sort
@pytest.mark.parametrize("kind", ["suspending", "awaitable"])
def test_a_hook_that_suspends_in_a_blocking_call_beside_a_running_loop_is_refused_by_node(run, where, kind):
    async def main() -> None:
        seen: list[str] = []
        x, w = leaf(2.0), leaf(3.0)
        out = np.add(np.multiply(w, 2.0), np.multiply(x, 3.0))
        handle = register(where, x, as_kind(kind, lambda *args: seen.append("went on")))
        with pytest.raises(BlockingError) as raised:
            sync.backward(out, retain_graph=True)
        message = str(raised.value)
        assert "AccumulateGrad (leaf of shape (" in message
        assert "await ag.backward(...)" in message
        assert (x.grad, w.grad) == (None, None)
        await settle()
        assert seen == []

        # The same graph may be awaited.
        await ag.backward(out, retain_graph=True)
        assert seen == ["went on"]
        handle.remove()
        sync.backward(out)
        assert (x.grad.item(), w.grad.item()) == (6.0, 4.0)

    run(main())


@on_each_loop
@every_sort
@pytest.mark.parametrize("kind", ["function", "async def"])
def test_a_hook_that_does_not_suspend_runs_in_a_blocking_call_beside_a_running_loop(run, where, kind):
    async def main() -> None:
        seen: list[str] = []
        x = leaf(2.0)
        out = np.multiply(x, 3.0)
        register(where, x, as_kind(kind, lambda *args: seen.append("ran")))
        sync.backward(out)
        assert seen == ["ran"]
        assert x.grad.item() == 3.0

    run(main())


@every_sort
def test_functions_need_no_loop_in_a_blocking_call(monkeypatch, where):
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("an event loop was started")

    monkeypatch.setattr(loops, "run", refuse)
    monkeypatch.setattr(asyncio, "new_event_loop", refuse)
    x = leaf(2.0)
    out = np.multiply(x, 3.0)
    register(where, x, as_kind("function", lambda *args: None))

    sync.backward(out)

    assert x.grad.item() == 3.0


@on_each_loop
@pytest.mark.parametrize("kind", ["suspending", "awaitable"])
def test_a_blocking_call_in_a_hook_beside_a_running_loop_cannot_wait_either(run, kind):
    """The hook is a function and blocks for a backward that has to suspend."""

    async def main() -> None:
        inner = leaf(5.0)
        inner.register_hook(as_kind(kind, lambda grad: None))

        def blocks(grad: Any) -> None:
            with ag.enable_grad():
                sync.backward(np.multiply(inner, 2.0))

        x = leaf(2.0)
        x.register_hook(blocks)
        with pytest.raises(BlockingError):
            await ag.backward(np.multiply(x, 3.0))
        assert (x.grad, inner.grad) == (None, None)

    run(main())


@pytest.mark.parametrize("kind", ["suspending", "awaitable"])
def test_a_blocking_call_in_a_hook_can_wait_where_no_loop_runs(kind):
    inner = leaf(5.0)
    inner.register_hook(as_kind(kind, lambda grad: None))

    def blocks(grad: Any) -> None:
        with ag.enable_grad():
            sync.backward(np.multiply(inner, 2.0))

    x = leaf(2.0)
    x.register_hook(blocks)

    sync.backward(np.multiply(x, 3.0))

    assert (x.grad.item(), inner.grad.item()) == (3.0, 2.0)


# What is returned that is not meant.


@both_drives
async def test_an_async_generator_is_no_hook(drive):
    async def generator(grad: Any) -> Any:
        yield grad

    x = leaf(2.0)
    x.register_hook(generator)

    with pytest.raises(HookTypeError, match="must return None or a tensor, not async_generator"):
        await backward(drive, np.multiply(x, 3.0))


@both_drives
async def test_a_hook_that_takes_other_arguments_fails_as_python_does(drive):
    x = leaf(2.0)
    x.register_hook(lambda: None)

    with pytest.raises(TypeError, match="takes 0 positional arguments but 1 was given") as raised:
        await backward(drive, np.multiply(x, 3.0))

    called, place = raised.value.__notes__
    assert "of AccumulateGrad (leaf of shape (1,)) is called with 1 argument: Tensor of shape (1,)" in called
    assert place.startswith("in AccumulateGrad (leaf of shape (")


async def test_a_hook_may_return_a_future_of_the_running_loop():
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    begun = Held()
    x, w = leaf(2.0), leaf(3.0)
    x.register_hook(lambda grad: future)
    out = np.add(np.multiply(x, 3.0), awaiting(w, begun))
    task = asyncio.ensure_future(out.backward())
    await begun.begun.wait()
    future.set_result(ag.tensor([100.0]))
    begun.let_go.set()
    await task
    assert (x.grad.item(), w.grad.item()) == (100.0, 1.0)
