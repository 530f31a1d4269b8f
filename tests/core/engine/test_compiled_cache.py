"""Laws of what compiled autograd remembers: each graph that repeats gets one function, and the rest is bounded."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.graph import CompiledArgs, Edge, GradientEdge, TraceableNode
from tests.support.arrays import bits
from tests.support.functions import awaiting
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop
from tests.support.settings import compiled_after, node_by_node

pytestmark = pytest.mark.usefixtures("cache", "compiled_where_asked")


def vector(size: int) -> ag.Tensor:
    return ag.tensor(np.linspace(-1.0, 1.0, size), requires_grad=True)


def below_three(value: Any) -> Any:
    """Put three nodes above a value, as many as are looked at before anything is known."""
    return np.sin(np.cos(np.tanh(value)))


def of_shape(size: int) -> None:
    """A backward whose graphs differ four nodes below the root."""
    x = vector(size)
    sync.backward(below_three((np.sin(x) * x).sum()))


def of_one_input(which: int) -> None:
    """The gradient of one of two, of which the other is left out at the very node where graphs differ."""
    x, y = vector(which), vector(which)
    sync.grad(below_three(np.dot(np.sin(x), np.cos(y))), [x])


@pytest.mark.slow
@pytest.mark.parametrize("after", [0, 1, 2, 3])
@pytest.mark.parametrize("row", [[4, 5], [4, 4, 5], [4, 5, 6], [4, 5, 6, 7, 8, 9]])
@pytest.mark.parametrize("step", [of_shape, of_one_input])
def test_graphs_that_differ_deep_down_are_each_compiled_once_however_they_take_turns(cache, step, row, after):
    with compiled_after(after):
        for _ in range(2 * after + 4):
            for number in row:
                step(number)
        before = cache.stats()
        for _ in range(5):
            for number in row:
                step(number)

    assert cache.stats().compilations == before.compilations == len(set(row))
    assert cache.stats().misses == before.misses


def test_graphs_in_any_order_are_each_compiled_once(cache):
    order = random.Random(3)
    with ag.compiled_autograd(after=3):
        for _ in range(200):
            of_shape(order.randrange(2, 12))
        before = cache.stats()
        for _ in range(50):
            of_shape(order.randrange(2, 12))

    assert before.compilations == 10
    assert cache.stats().hits - before.hits == 50


def test_lengths_that_are_seen_too_seldom_are_forgotten(cache, monkeypatch):
    monkeypatch.setattr("asyncgrad.core.engine.compiled.cache.MAX_ENTRIES", 8)

    def chain(length: int) -> None:
        y = leaf(1.0)
        for _ in range(length):
            y = y * 1.0
        sync.backward(np.sin(y))

    with ag.compiled_autograd(after=2):
        for length in range(5, 40):
            chain(length)
            chain(length)
        entries = [len(bucket.entries) for bucket in cache._buckets.values()]
        # What has just been seen is remembered.
        chain(39)

    assert max(entries) <= 9
    assert cache.stats().compilations == 1


def suspended(x: Any) -> Any:
    return awaiting(np.sin(x), lambda grad: asyncio.Event().wait())


def with_failing_hook(x: Any) -> Any:
    def fail(grad: Any) -> None:
        raise ArithmeticError

    value = np.sin(x)
    value.register_hook(fail)
    return np.cos(value)


def with_written_input(x: Any) -> Any:
    value = np.sin(x)
    out = value * value
    value += 1.0
    return out


@pytest.mark.parametrize("model", [suspended, with_failing_hook, with_written_input])
async def test_a_backward_that_fails_or_is_cancelled_is_a_miss(cache, model: Callable[[Any], Any]):
    async def main():
        for _ in range(3):
            task = asyncio.ensure_future(model(leaf(0.5)).backward())
            for _ in range(3):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises((ArithmeticError, RuntimeError, asyncio.CancelledError)):
                await task

    # Enough to compile in one go: what is cancelled before anything has run leaves nothing behind.
    with compiled_after(0), ag.loop_budget(60.0):
        await main()

    assert cache.stats().hits == 0
    assert cache.stats().reasons == {"an error": 3}


class Odd:
    """What refuses to be compared."""

    def __eq__(self, other: object) -> bool:
        raise LookupError("not with me")

    __hash__ = None  # type: ignore[assignment]


class Refusing(TraceableNode):
    """A node whose `compiled_args` fails."""

    def apply(self, grads: Any) -> Any:
        return (grads[0] * 2,)

    def compiled_args(self, args: CompiledArgs) -> None:
        raise LookupError("no idea")


class Incomparable(Refusing):
    def compiled_args(self, args: CompiledArgs) -> None:
        args.collect(Odd())


@pytest.mark.parametrize(
    ("kind", "note"),
    [
        (Refusing, "which was asked what its run depends on"),
        (Incomparable, "in Incomparable, whose compiled_args collects what cannot be compared"),
    ],
)
def test_an_error_of_compiled_args_names_its_node_and_leaves_every_gradient(cache, kind, note):
    x = leaf(0.5)
    error = None
    with ag.compiled_autograd(after=1):
        for _ in range(2):
            edge = ag.graph.get_gradient_edge(np.sin(x))
            node = kind([Edge(*edge)], [edge.node.input_metadata[0]])
            x.grad = None
            try:
                sync.backward(GradientEdge(node, 0), np.ones(1))
            except LookupError as raised:
                error = raised
                assert x.grad is None

    assert error is not None
    assert note in error.__notes__[0]
    assert kind.__name__ in error.__notes__[0]
    with node_by_node():
        sync.backward(GradientEdge(node, 0), np.ones(1))
    assert x.grad is not None


class Later:
    """Returns something to wait for, and no inspection tells."""

    def __call__(self, ctx: Any, grad: Any) -> Any:
        async def tripled() -> Any:
            await asyncio.sleep(0)
            return grad * 3.0

        return tripled()


@on_each_loop
@pytest.mark.parametrize("drive", ["awaited", "blocking"])
def test_a_traceable_body_that_returns_something_to_wait_for_is_waited_for(run, cache, drive):
    class Tripled(ag.Function):
        is_traceable = True
        backward = staticmethod(Later())

        @staticmethod
        def forward(ctx, x):
            return x * 3.0

    def graph() -> tuple[Any, Any]:
        x = leaf(0.5)
        return x, np.cos(Tripled.apply(np.sin(x)))

    async def awaited(y: Any) -> None:
        await y.backward()

    found = []
    for after in (10**9, 0, 0, 0, 0, 0):
        x, y = graph()
        with compiled_after(after):
            if drive == "awaited":
                run(awaited(y))
            else:
                sync.backward(y)
        found.append(bits(x.grad))

    assert found == found[:1] * 6
    assert cache.stats().reasons["a body that waits"] == 1
    assert cache.stats().hits > 0
