"""A backward under the loop of another library than asyncio, or under none: it runs, or says that it needs asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import GraphError
from tests.support.functions import function
from tests.support.leaves import leaf
from tests.support.refusals import refused


def without_a_loop(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Step a coroutine by hand, as a loop of one's own does."""
    coroutine = main()
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    coroutine.close()
    raise AssertionError("it has suspended")


def under_trio(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return pytest.importorskip("trio").run(main)


each_loop = pytest.mark.parametrize("run_on", [without_a_loop, under_trio])


@each_loop
def test_a_backward_that_waits_for_nothing_needs_no_asyncio(run_on):
    x = leaf(1.0, 2.0)

    async def main() -> Any:
        await (x * x).sum().backward()
        _, gradient = await ag.value_and_grad(lambda y: (y * y).sum())(np.ones(2))
        return x.grad.tolist(), gradient.tolist()

    assert run_on(main) == ([2.0, 4.0], [2.0, 2.0])


@each_loop
def test_a_backward_that_has_spent_its_budget_goes_on_where_no_asyncio_could_breathe(run_on):
    x = leaf(1.0)

    async def main() -> Any:
        with ag.loop_budget(0):
            await np.sin(np.exp(x * 2.0)).sum().backward()
            return (await ag.jacobian(lambda y: y * y, np.ones(5))).numpy().trace()

    assert run_on(main) == 10.0
    assert x.grad is not None


async def _doubled(ctx: Any, grad: Any) -> Any:
    await asyncio.sleep(0)
    return grad * 2


def waiting_node(x: Any) -> Any:
    return function(lambda ctx, y: y * 2, _doubled).apply(x)


def waiting_hook(x: Any) -> Any:
    async def hook(grad: Any) -> None:
        await asyncio.sleep(0)

    y = x * 2
    y.register_hook(hook)
    return y


def on_a_thread(x: Any) -> Any:
    return x.to("thread:0") * 2


@each_loop
@pytest.mark.parametrize("make", [waiting_node, waiting_hook, on_a_thread])
def test_a_backward_that_has_to_wait_says_that_it_needs_asyncio_and_changes_nothing(run_on, make):
    x = leaf(1.0, 2.0)
    y = make(x).sum()

    with refused(GraphError, RuntimeError, "asyncio event loop", "ag.run(main())", "ag.sync.backward, loss"):
        run_on(y.backward)
    assert x.grad is None


def test_what_the_error_says_to_write_under_trio_works():
    trio = pytest.importorskip("trio")
    x = leaf(1.0, 2.0)

    async def main() -> None:
        await trio.to_thread.run_sync(sync.backward, waiting_node(x).sum())

    trio.run(main)

    assert x.grad.tolist() == [2.0, 2.0]
