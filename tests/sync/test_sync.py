"""asyncgrad.sync blocks, makes no event loop where none is needed, and never stalls one."""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import functional, sync, testing
from asyncgrad.core.settings.context import BLOCKING
from asyncgrad.errors import BlockingError, GradcheckError
from tests.support.leaves import leaf_of
from tests.support.loops import on_each_loop
from tests.support.nodes import async_double
from tests.support.transforms import cube

AWAITABLE = {
    "backward": ag.backward,
    "grad": ag.grad,
    **{name: getattr(functional, name) for name in functional.__all__},
    **{name: getattr(testing, name) for name in ("gradcheck", "gradgradcheck")},
}


#: A blocking call by name: what it is called with a function of one number, and what it then returns for cube at 2.
CALLS = {
    "backward": lambda fn: _backward(fn),
    "grad": lambda fn: (lambda x: sync.grad(fn(x), [x])[0].item())(leaf_of(2.0)),
    "value_and_grad": lambda fn: sync.value_and_grad(fn)(leaf_of(2.0))[1].item(),
    "vjp": lambda fn: sync.vjp(fn, leaf_of(2.0))[1].item(),
    "jvp": lambda fn: sync.jvp(fn, leaf_of(2.0))[1].item(),
    "vhp": lambda fn: sync.vhp(fn, leaf_of(2.0))[1].item(),
    "hvp": lambda fn: sync.hvp(fn, leaf_of(2.0))[1].item(),
    "jacobian": lambda fn: sync.jacobian(fn, leaf_of(2.0)).item(),
    "hessian": lambda fn: sync.hessian(fn, leaf_of(2.0)).item(),
    "gradcheck": lambda fn: sync.gradcheck(fn, leaf_of(2.0)) * 12.0,
    "gradgradcheck": lambda fn: sync.gradgradcheck(fn, leaf_of(2.0)) * 12.0,
}
TRANSFORMS = [name for name in CALLS if name not in ("backward", "grad")]
each = pytest.mark.parametrize("name", CALLS)
each_transform = pytest.mark.parametrize("name", TRANSFORMS)


def _backward(fn: Any) -> float:
    x = leaf_of(2.0)
    sync.backward(fn(x))
    assert x.grad is not None
    return float(x.grad.item())


@pytest.fixture
def no_new_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the making of an event loop fail."""

    def refuse(*args: Any) -> None:
        pytest.fail("an event loop was made")

    monkeypatch.setattr(asyncio, "new_event_loop", refuse)
    monkeypatch.setattr(asyncio.events, "new_event_loop", refuse)
    try:
        import uvloop
    except ImportError:
        return
    monkeypatch.setattr(uvloop, "new_event_loop", refuse)


# The facade.


def test_the_facade_has_the_functions_that_are_awaited():
    assert sorted([*AWAITABLE, "func"]) == sync.__all__


@pytest.mark.parametrize("name", AWAITABLE)
def test_a_blocking_function_has_the_signature_of_the_awaitable_one_and_is_none_itself(name):
    blocking, awaitable = getattr(sync, name), AWAITABLE[name]

    assert not inspect.iscoroutinefunction(blocking)
    assert (blocking.__name__, blocking.__module__) == (name, "asyncgrad.sync.blocking")
    ours, theirs = inspect.signature(blocking), inspect.signature(awaitable)
    assert ours.parameters == theirs.parameters
    if name != "value_and_grad":
        assert ours == theirs


@each
def test_a_plain_graph_needs_no_loop(name, no_new_loop):
    assert CALLS[name](cube) == 12.0


@each
async def test_a_plain_graph_is_driven_inside_of_a_running_loop_too(name, monkeypatch):
    assert CALLS[name](cube) == 12.0


@each
def test_a_plain_graph_is_driven_in_a_thread(name):
    results = []
    thread = threading.Thread(target=lambda: results.append(CALLS[name](cube)))
    thread.start()
    thread.join()

    assert results == [12.0]


@pytest.mark.parametrize("name", ["backward", "grad", "value_and_grad", "vjp", "jacobian", "gradcheck"])
def test_a_node_that_suspends_gets_a_loop(name):
    assert CALLS[name](lambda x: async_double(x) * 6.0) == 12.0


@pytest.mark.parametrize("name", ["backward", "grad", "value_and_grad", "vjp", "jacobian", "gradcheck"])
async def test_a_node_that_suspends_inside_of_a_running_loop_is_named_with_the_line_to_await(name):
    with pytest.raises(BlockingError, match=r"AsyncDouble .*await ag\.backward"):
        CALLS[name](lambda x: async_double(x) * 6.0)


@on_each_loop
@pytest.mark.parametrize("name", ["vjp", "jacobian", "gradcheck"])
def test_a_transform_that_meets_a_node_that_suspends_inside_of_a_running_loop_adds_its_own_line(name, run):
    async def main():
        with pytest.raises(BlockingError) as caught:
            CALLS[name](async_double)
        return caught.value.__notes__

    assert any(f"await ag.{name}(...)" in note for note in run(main()))


@on_each_loop
def test_a_backward_that_would_have_to_suspend_leaves_every_grad_as_it_was(run):
    x = leaf_of(2.0)

    async def main():
        with pytest.raises(BlockingError):
            sync.backward(x * x + async_double(x))

    run(main())

    assert x.grad is None


# Functions that suspend.


async def async_cube(x: Any) -> Any:
    await asyncio.sleep(0)
    return x * x * x


class AsyncCube:
    async def __call__(self, x: Any) -> Any:
        return await async_cube(x)


ASYNC_FUNCTIONS = {
    "async def": async_cube,
    "object": AsyncCube(),
    "lambda": lambda x: async_cube(x),
    "awaitable": lambda x: _Awaitable(async_cube(x)),
}
each_async = pytest.mark.parametrize("fn", ASYNC_FUNCTIONS.values(), ids=ASYNC_FUNCTIONS)


class _Awaitable:
    def __init__(self, coroutine: Any) -> None:
        self.coroutine = coroutine

    def __await__(self) -> Any:
        return self.coroutine.__await__()


@each_transform
@each_async
def test_an_async_function_gets_a_loop(name, fn):
    assert CALLS[name](fn) == 12.0


@each_transform
def test_an_async_function_runs_all_its_calls_on_one_loop(name):
    loops = set()

    async def fn(x):
        loops.add(asyncio.get_running_loop())
        return await async_cube(x)

    CALLS[name](fn)

    assert len(loops) == 1


@each_transform
@pytest.mark.parametrize("fn", list(ASYNC_FUNCTIONS.values())[:3], ids=list(ASYNC_FUNCTIONS)[:3])
async def test_an_async_function_inside_of_a_running_loop_is_refused_with_the_line_to_await(name, fn):
    with pytest.raises(BlockingError, match=rf"await ag\.{name}\(\.\.\.\)"):
        CALLS[name](fn)


def test_an_async_function_may_await_transforms_of_its_own():
    async def slope(x):
        return (await functional.value_and_grad(async_cube, create_graph=True)(x))[1]

    assert sync.vjp(slope, leaf_of(2.0))[1].item() == 12.0


# Blocking calls inside of one another.


def test_a_function_may_itself_block():
    def slope(x):
        return sync.value_and_grad(cube, create_graph=True)(x)[1]

    assert sync.vjp(slope, leaf_of(2.0))[1].item() == 12.0


def test_a_function_that_blocks_may_wait_for_an_async_one():
    def slope(x):
        return sync.value_and_grad(async_cube, create_graph=True)(x)[1]

    assert sync.vjp(slope, leaf_of(2.0))[1].item() == 12.0


@on_each_loop
def test_a_blocking_call_inside_of_an_async_function_is_driven_where_it_stands(run):
    async def slope(x):
        await asyncio.sleep(0)
        return sync.value_and_grad(cube, create_graph=True)(x)[1]

    async def main():
        return (await functional.vjp(slope, leaf_of(2.0)))[1].item()

    assert run(main()) == 12.0


@on_each_loop
def test_tasks_that_a_function_starts_during_a_blocking_call_may_suspend(run):
    async def main():
        tasks = []
        x = leaf_of(2.0)

        async def later():
            y = async_double(x)
            return (await ag.grad(y, [x]))[0].item()

        def fn(x):
            tasks.append(asyncio.create_task(later()))
            return cube(x)

        sync.vjp(fn, x)
        return await tasks[0]

    assert run(main()) == 2.0


@each_transform
def test_the_function_does_not_run_in_the_blocking_mode_and_none_is_left_behind(name):
    seen = []

    def fn(x):
        seen.append(BLOCKING.get())
        return cube(x)

    CALLS[name](fn)

    assert set(seen) == {False}
    assert BLOCKING.get() is False


@each_transform
def test_an_error_of_the_function_reaches_the_caller_as_it_is(name):
    error = ZeroDivisionError()

    def fn(x):
        raise error

    with pytest.raises(ZeroDivisionError) as caught:
        CALLS[name](fn)

    assert caught.value is error
    assert BLOCKING.get() is False


def test_a_check_that_fails_raises_or_says_so():
    with pytest.raises(GradcheckError):
        sync.gradcheck(lambda x: x.detach() * x, leaf_of(2.0))

    assert sync.gradcheck(lambda x: x.detach() * x, leaf_of(2.0), raise_exception=False) is False


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_missing_argument_is_named(name):
    with pytest.raises(TypeError, match="missing"):
        getattr(sync, name)()


def test_arguments_may_be_given_by_name():
    _, product = sync.vjp(inputs=np.array([1.0, 2.0]), fn=cube, v=np.array([1.0, 1.0]))

    assert product.numpy().tolist() == [3.0, 12.0]
    assert sync.vjp(inputs=np.array(2.0), fn=async_cube)[1].item() == 12.0


# Nobody awaits.


def test_a_backward_that_nobody_awaits_warns():
    x = leaf_of(2.0)
    with pytest.warns(RuntimeWarning, match="coroutine 'backward' was never awaited"):
        ag.backward(x * x)  # type: ignore[unused-coroutine]
    with pytest.warns(RuntimeWarning, match=r"coroutine 'Tensor\.backward' was never awaited"):
        (x * x).backward()  # type: ignore[unused-coroutine]
    with pytest.warns(RuntimeWarning, match="coroutine 'grad' was never awaited"):
        ag.grad(x * x, [x])  # type: ignore[unused-coroutine]

    assert x.grad is None


@pytest.mark.parametrize("name", functional.__all__)
def test_a_transform_that_nobody_awaits_warns(name):
    transform = getattr(functional, name)
    with pytest.warns(RuntimeWarning, match="never awaited"):
        transform(cube)(leaf_of(2.0)) if name == "value_and_grad" else transform(cube, leaf_of(2.0))
