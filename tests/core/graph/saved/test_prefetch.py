"""The prefetch hook, and the order in which a backward unpacks."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.errors import ArgumentError, HookTypeError
from asyncgrad.graph import saved_tensors_hooks
from tests.core.graph.saved.packing import as_is


class PrefetchLog:
    """Hooks that write down their calls, each tensor by the number in which it was packed."""

    def __init__(self, *, suspends: bool = False) -> None:
        self.arrays: list[Any] = []
        self.calls: list[tuple[str, int]] = []
        self.claims: dict[int, Any] = {}
        self.suspends = suspends

    def pack(self, tensor: Any) -> int:
        self.arrays.append(tensor.numpy())
        return len(self.arrays) - 1

    def unpack(self, number: int) -> Any:
        self.calls.append(("unpack", number))
        return self._later(number) if self.suspends else self.arrays[number]

    async def _later(self, number: int) -> Any:
        await asyncio.sleep(0)
        return self.arrays[number]

    def prefetch(self, number: int) -> Any:
        self.calls.append(("prefetch", number))
        return Claim(self, number)

    def hooks(self, ahead: int = 4) -> Any:
        return saved_tensors_hooks(self.pack, self.unpack, prefetch=self.prefetch, ahead=ahead)

    def of(self, kind: str) -> list[int]:
        return [number for each, number in self.calls if each == kind]


class Claim:
    """What prefetch returns; says when it is let go of."""

    def __init__(self, log: PrefetchLog, number: int) -> None:
        self.log, self.number = log, number

    def __del__(self) -> None:
        self.log.calls.append(("let go", self.number))


def numbered_chain(length: int) -> Any:
    """Each node saves its own output: numbers 0 to length - 1."""
    x = ag.tensor(np.full(2, 0.5), requires_grad=True)
    y = x
    for _ in range(length):
        y = np.tanh(y)
    return x, y.sum()


def graph_of_two_branches() -> Any:
    x = ag.tensor(np.full(3, 0.5), requires_grad=True)
    a, b = np.exp(x), np.sin(x)
    c = np.tanh(a) * np.sqrt(b)
    return (c * a / b).sum()


# The order.


@pytest.mark.parametrize("suspends", [False, True])
async def test_nodes_unpack_in_the_order_in_which_they_run(suspends: bool):
    log, packed, orders = PrefetchLog(suspends=suspends), {}, []

    nodes: list[Any] = []
    with ag.graph.node_creation_hook(nodes.append), log.hooks():
        loss = graph_of_two_branches()
    number = 0
    for node in nodes:
        for _ in node.saved_tensors:
            packed[number] = node
            number += 1
    loss.grad_fn.register_prehook(
        lambda grads: orders.append(ag.engine.current_graph_task().execution_order())  # type: ignore[union-attr]
    )
    await loss.backward()
    places = [orders[0].index(packed[number]) for number in log.of("unpack")]
    assert places == sorted(places)
    assert sorted(log.of("unpack")) == list(range(len(packed)))
    assert len(packed) > 6


def test_the_tensors_of_one_node_are_unpacked_in_the_order_of_saved_tensors():
    log = PrefetchLog()
    x, y = (ag.tensor(np.full(2, value), requires_grad=True) for value in (2.0, 3.0))
    with log.hooks():
        z = (x * 1.0) * (y * 1.0)
    first, second = (saved.unpack() for saved in z.grad_fn.saved_tensors)
    assert (first.tolist(), second.tolist()) == ([2.0, 2.0], [3.0, 3.0])
    expected = log.of("unpack")
    log.calls.clear()

    ag.sync.backward(z.sum())
    assert log.of("unpack")[:2] == expected


async def test_prefetch_is_called_in_the_order_in_which_a_backward_unpacks():
    log = PrefetchLog()

    with log.hooks(ahead=3):
        loss = graph_of_two_branches()
    await loss.backward()
    assert log.of("prefetch") == log.of("unpack")


# How far ahead.


@pytest.mark.parametrize("ahead", [1, 2, 5, 100])
@pytest.mark.parametrize("suspends", [False, True])
async def test_as_many_tensors_as_said_are_asked_for_and_not_unpacked(ahead: int, suspends: bool):
    log = PrefetchLog(suspends=suspends)
    length = 20

    with log.hooks(ahead):
        _, loss = numbered_chain(length)
    await loss.backward()
    for place, (kind, number) in enumerate(log.calls):
        if kind == "unpack":
            asked = [each for what, each in log.calls[:place] if what == "prefetch"]
            # The one that is unpacked now, and those after it.
            assert asked == [each for each in range(length - 1, -1, -1) if each >= number - ahead]


def test_what_it_returned_is_kept_until_the_tensor_has_been_unpacked():
    log = PrefetchLog()
    with log.hooks(2):
        _, loss = numbered_chain(5)
    ag.sync.backward(loss)

    for number in range(5):
        assert log.calls.index(("unpack", number)) < log.calls.index(("let go", number))
    assert log.of("let go") == log.of("unpack")


def test_a_prefetch_that_returns_none_is_not_counted():
    asked: list[int] = []

    def prefetch(number: int) -> Any:
        asked.append(number)
        return None if number % 2 else object()

    log = PrefetchLog()
    with saved_tensors_hooks(log.pack, log.unpack, prefetch=prefetch, ahead=2):
        _, loss = numbered_chain(10)
    handle = loss.grad_fn.next_edges[0].node.register_hook(lambda *grads: asked.append(-1))
    ag.sync.backward(loss)
    handle.remove()

    # 9 is the first to be unpacked; of the others 8 and 6 are asked for ahead, and 7 needs nothing; nor does 5.
    assert asked[: asked.index(-1)] == [9, 8, 7, 6]


def test_each_backward_asks_anew():
    log = PrefetchLog()
    with log.hooks():
        _, loss = numbered_chain(3)
    ag.sync.backward(loss, retain_graph=True)
    ag.sync.backward(loss)

    assert log.of("prefetch") == [2, 1, 0, 2, 1, 0]


def test_what_is_asked_for_after_an_error_is_let_go_of():
    log = PrefetchLog()
    with log.hooks(2):
        x, loss = numbered_chain(10)
    node = loss.grad_fn
    for _ in range(3):
        node = node.next_edges[0].node

    def fail(grads: Any) -> None:
        raise ZeroDivisionError

    node.register_prehook(fail)
    with pytest.raises(ZeroDivisionError):
        ag.sync.backward(loss)

    assert sorted(log.of("let go")) == sorted(log.of("prefetch"))
    assert len(log.of("prefetch")) > len(log.of("unpack"))
    assert x.grad is None


def test_what_no_wanted_gradient_needs_is_not_asked_for():
    log = PrefetchLog()
    x, y = (ag.tensor(np.full(2, value), requires_grad=True) for value in (2.0, 3.0))
    with log.hooks():
        z = ((x * 1.0) * np.exp(y)).sum()
    ag.sync.grad(z, [x])

    assert log.of("prefetch") == log.of("unpack")
    assert len(log.of("unpack")) < len(log.arrays)


def test_what_a_backward_passes_by_does_not_stand_in_the_way_for_long():
    log = PrefetchLog()
    x = ag.tensor(np.full(2, 0.5), requires_grad=True)

    class Stop(ag.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return None

    with log.hooks(2):
        y = z = x
        for _ in range(30):
            z = np.tanh(z)
        for _ in range(10):
            y = np.tanh(y)
        loss = np.sin(Stop.apply(y) + z).sum()
    ag.sync.backward(loss)

    assert log.of("unpack") == [40, *range(29, -1, -1)]
    for number in range(15):
        assert log.calls.index(("prefetch", number)) < log.calls.index(("unpack", number + 1))


async def test_a_branch_that_comes_late_finds_what_was_asked_for_it():
    log = PrefetchLog()
    x = ag.tensor(np.full(2, 0.5), requires_grad=True)
    passed = asyncio.Event()

    class Wait(ag.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        async def backward(ctx: Any, grad: Any) -> Any:
            await passed.wait()
            return grad

    with log.hooks(2):
        y = np.tanh(np.tanh(x))
        y.register_hook(lambda grad: passed.set())
        w = np.sin(y)
        z = np.tanh(np.tanh(x))
        loss = np.sin(w + Wait.apply(z)).sum()
    await loss.backward()
    # The branch of z is asked for first, and unpacked later.
    assert log.of("prefetch")[:3] == [5, 4, 3]
    assert log.of("unpack")[:2] == [5, 2]
    for number in (4, 3):
        assert log.calls.index(("unpack", number)) < log.calls.index(("let go", number))
    assert sorted(log.of("prefetch")) == sorted(log.of("unpack"))


def test_outside_of_a_backward_nothing_is_asked_for():
    log = PrefetchLog()
    with log.hooks():
        _, loss = numbered_chain(3)
    loss.grad_fn.next_edges[0].node.saved_tensors[0].unpack()

    assert log.calls == [("unpack", 2)]


async def test_a_backward_in_a_backward_asks_for_its_own():
    log = PrefetchLog()

    with log.hooks():
        _, inner = numbered_chain(3)
        x, outer = numbered_chain(2)

    async def hook(grad: Any) -> None:
        await inner.backward()

    x.register_hook(hook)
    await outer.backward()
    assert log.of("prefetch") == [4, 3, 2, 1, 0]


async def test_async_packs_that_have_ended_are_prefetched():
    log = PrefetchLog()

    async def pack(tensor: Any) -> int:
        await asyncio.sleep(0)
        return log.pack(tensor)

    async with saved_tensors_hooks(pack, log.unpack, prefetch=log.prefetch):
        _, loss = numbered_chain(3)
    await loss.backward()
    assert log.of("prefetch") == log.of("unpack")


def test_what_cannot_prefetch_is_refused():
    async def later(number: int) -> None:
        pass

    with pytest.raises(HookTypeError, match="prefetch hook of saved tensors must be a plain function"):
        saved_tensors_hooks(as_is, as_is, prefetch=later)
    with pytest.raises(HookTypeError, match="must be a plain function, not int 1"):
        saved_tensors_hooks(as_is, as_is, prefetch=1)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="at least 1 tensor ahead, not 0"):
        saved_tensors_hooks(as_is, as_is, prefetch=as_is, ahead=0)
