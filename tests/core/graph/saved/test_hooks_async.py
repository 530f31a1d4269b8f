"""Saved-tensor hooks that are an `async def`: what waits for what, and what becomes of a pack that nobody needs."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import BlockingError, ChangedTensorError, GraphError, HookError, HookTypeError
from asyncgrad.graph import saved_tensors_hooks
from tests.core.graph.saved.packing import Gate, Store, as_is, saving_chain
from tests.support.functions import function
from tests.support.leaves import leaf, leaf_of
from tests.support.loops import on_each_loop, one_loop

# What is dropped is gone at once: there is no cycle.
pytestmark = pytest.mark.usefixtures("no_collector")


def gradient_without_hooks(x: Any) -> Any:
    twin = leaf_of(x.numpy())
    sync.backward(saving_chain(twin))
    return twin.grad.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pack", "unpack", "both"])
async def test_gradients_are_those_without_hooks(kind: str):
    x = leaf(0.5, 1.0)
    with Store().hooks(kind):
        y = saving_chain(x)
    await y.backward()
    assert x.grad.tolist() == gradient_without_hooks(x)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pack", "unpack", "both"])
async def test_what_async_hooks_pack_can_be_differentiated_twice(kind: str):
    async def packed(x: Any) -> Any:
        async with Store().hooks(kind):
            return saving_chain(x)

    assert await ag.gradgradcheck(packed, [leaf_of(np.array([0.3, 0.7]))])


@pytest.mark.parametrize("kind", ["pack", "unpack", "both"])
def test_a_blocking_backward_without_a_loop_gets_one(kind: str):
    x = leaf(0.5, 1.0)
    with Store().hooks(kind):
        y = saving_chain(x)
    sync.backward(y)

    assert x.grad.tolist() == gradient_without_hooks(x)


@pytest.mark.parametrize("kind", ["pack", "unpack", "both"])
def test_a_recorded_blocking_backward_leaves_packs_that_have_ended(kind: str):
    x = leaf(0.5, 1.0)
    with Store().hooks(kind):
        (g,) = sync.grad(saving_chain(x), [x], create_graph=True)
    sync.backward(g.sum())
    packed, x.grad = x.grad.tolist(), None
    (g,) = sync.grad(saving_chain(x), [x], create_graph=True)
    sync.backward(g.sum())

    assert x.grad.tolist() == packed


def test_a_loop_that_was_made_for_one_backward_waits_for_packs_that_it_began():
    async def pack(tensor: Any) -> Any:
        for _ in range(30):
            await asyncio.sleep(0)
        return tensor.numpy().copy()

    async def unpack(array: Any) -> Any:
        return array

    x = leaf(2.0)
    with saved_tensors_hooks(pack, unpack):
        (g,) = sync.grad(np.exp(x), [x], create_graph=True)
    sync.backward(g)

    assert x.grad.tolist() == np.exp([2.0]).tolist()


def test_two_nodes_unpack_together_also_in_a_blocking_backward():
    gate = Gate()

    async def unpack(tensor: Any) -> Any:
        gate.arrived += 1
        if gate.arrived == 2:
            gate.open.set()
        await gate.open.wait()
        return tensor

    x = leaf(2.0)
    with saved_tensors_hooks(as_is, unpack):
        y = np.exp(x) + np.sin(x)
    sync.backward(y)
    assert gate.arrived == 2


@pytest.mark.parametrize("hook", ["pack", "unpack"])
async def test_a_plain_function_that_returns_an_awaitable_will_do(hook: str):
    x, store = leaf(0.5, 1.0), Store()
    pack = (lambda t: store.pack_later(t)) if hook == "pack" else store.pack
    unpack = (lambda n: asyncio.ensure_future(store.unpack_later(n))) if hook == "unpack" else store.unpack
    with saved_tensors_hooks(pack, unpack):
        y = saving_chain(x)
    await y.backward()
    assert x.grad.tolist() == gradient_without_hooks(x)


# Packing.


async def test_the_forward_goes_on_while_a_pack_runs():
    x, gate = leaf(3.0), Gate()
    with saved_tensors_hooks(gate, as_is):
        y = x * x
    assert (gate.arrived, y.tolist()) == (2, [9.0])
    backward = asyncio.ensure_future(y.backward())
    for _ in range(3):
        await asyncio.sleep(0)
    assert not backward.done()
    gate.open.set()
    await backward
    assert x.grad.tolist() == [6.0]


@on_each_loop
def test_a_pack_that_does_not_suspend_has_ended_when_the_operation_returns(run: Any):
    async def pack(tensor: Any) -> Any:
        return tensor.numpy().copy()

    async def main() -> None:
        x = leaf(3.0)
        with saved_tensors_hooks(pack, as_is):
            y = x * x
        sync.backward(y)
        assert x.grad.tolist() == [6.0]

    run(main())


async def test_an_async_pack_runs_with_recording_off_also_after_it_has_suspended():
    modes: list[bool] = []

    async def pack(tensor: Any) -> Any:
        modes.append(ag.is_grad_enabled())
        await asyncio.sleep(0)
        modes.append(ag.is_grad_enabled() or (tensor * tensor).requires_grad)
        return tensor

    async with saved_tensors_hooks(pack, as_is):
        _kept = np.exp(leaf(1.0))
        assert ag.is_grad_enabled()
    assert modes == [False, False]


async def test_async_with_waits_for_the_packs_of_its_block():
    gate, ended = Gate(), []

    async def pack(tensor: Any) -> Any:
        await gate(tensor)
        ended.append(tensor)

    asyncio.get_running_loop().call_soon(gate.open.set)
    async with saved_tensors_hooks(pack, as_is):
        _kept = leaf(1.0) * leaf(2.0)
        assert ended == []
    assert len(ended) == 2


@on_each_loop
def test_async_with_waits_for_the_packs_of_tasks_that_began_in_its_block(run: Any):
    async def main() -> None:
        gate = Gate()

        async def compute() -> Any:
            return leaf(1.0) * leaf(2.0)

        asyncio.get_running_loop().call_later(0, gate.open.set)
        async with saved_tensors_hooks(gate, as_is):
            y = await asyncio.ensure_future(compute())
        sync.backward(y)

    run(main())


async def test_async_with_raises_what_the_first_pack_raised_and_notes_the_others():
    async def pack(tensor: Any) -> Any:
        await asyncio.sleep(0)
        raise ValueError(tensor.tolist())

    with pytest.raises(ValueError, match=r"1\.0") as raised:
        async with saved_tensors_hooks(pack, as_is):
            _kept = leaf(1.0) * leaf(2.0)
    assert any("2.0" in note for note in raised.value.__notes__)


async def test_an_async_with_whose_block_fails_cancels_its_packs():
    gate, cancelled = Gate(), []

    async def pack(tensor: Any) -> Any:
        try:
            await gate(tensor)
        except asyncio.CancelledError:
            cancelled.append(tensor.tolist())
            raise

    async def compute() -> None:
        async with saved_tensors_hooks(pack, as_is):
            _kept = leaf(1.0) * leaf(2.0)
            raise KeyError

    with pytest.raises(KeyError) as raised:
        await compute()
    assert (cancelled, getattr(raised.value, "__notes__", [])) == ([[1.0], [2.0]], [])


async def test_an_async_with_that_is_cancelled_while_it_waits_cancels_its_packs():
    gate = Gate()

    async def compute() -> None:
        async with saved_tensors_hooks(gate, as_is):
            _kept = leaf(1.0) * leaf(2.0)

    task = asyncio.ensure_future(compute())
    await gate.came.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_what_a_pack_raises_later_the_backward_raises_and_names_the_node():
    async def pack(tensor: Any) -> Any:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    x, w = leaf(1.0), leaf(2.0)
    with saved_tensors_hooks(pack, as_is):
        y = np.exp(x)
    with pytest.raises(ZeroDivisionError) as raised:
        await (y + w).backward()
    assert any("ExpBackward" in note for note in raised.value.__notes__)
    assert (x.grad, w.grad) == (None, None)
    with pytest.raises(GraphError, match="ZeroDivisionError"):
        await (y + w).backward()


async def test_what_an_async_pack_raises_before_it_suspends_the_forward_raises():
    async def pack(tensor: Any) -> Any:
        raise ZeroDivisionError

    with saved_tensors_hooks(pack, as_is), pytest.raises(ZeroDivisionError):
        np.exp(leaf(1.0))


@one_loop
async def test_the_error_of_a_pack_that_no_backward_asks_for_goes_to_the_loop():
    async def pack(tensor: Any) -> Any:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    problems: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, problem: problems.append(problem))
    with saved_tensors_hooks(pack, as_is):
        y = np.exp(leaf(1.0))
    for _ in range(3):
        await asyncio.sleep(0)
    del y
    (problem,) = problems
    assert isinstance(problem["exception"], ZeroDivisionError)
    assert "ExpBackward" in problem["message"]


async def test_a_write_before_a_pack_has_ended_is_an_error_and_no_wrong_gradient():
    x, gate = leaf(3.0), Gate()
    with saved_tensors_hooks(gate, as_is):
        y = x * x
    with ag.no_grad():
        x[...] = 5.0
    gate.open.set()
    with pytest.raises(ChangedTensorError, match="had not ended") as raised:
        await y.backward()
    assert "MultiplyBackward" in str(raised.value)


async def test_a_write_after_a_pack_has_ended_does_not_matter():
    x = leaf(3.0)
    async with Store().hooks("both"):
        y = x * x
    with ag.no_grad():
        x[...] = 5.0
    await y.backward()
    assert x.grad.tolist() == [6.0]


async def test_a_pack_whose_graph_is_dropped_is_cancelled():
    gate, cancelled = Gate(), asyncio.Event()

    async def pack(tensor: Any) -> Any:
        try:
            await gate(tensor)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with saved_tensors_hooks(pack, as_is):
        y = np.exp(leaf(1.0))
    del y
    await cancelled.wait()


async def test_a_pack_that_its_backward_did_not_need_is_cancelled_when_the_node_is_released():
    x, y, gate, cancelled = leaf(1.0), leaf(2.0), Gate(), asyncio.Event()

    async def pack(tensor: Any) -> Any:
        if tensor is x:
            try:
                await gate(tensor)
            except asyncio.CancelledError:
                cancelled.set()
                raise
        return tensor.numpy().copy()

    with saved_tensors_hooks(pack, as_is):
        z = x * y
    assert [g.tolist() for g in await ag.grad(z, [x])] == [[2.0]]
    await cancelled.wait()


def test_a_pack_that_its_loop_cut_short_says_so():
    async def main() -> Any:
        with saved_tensors_hooks(Gate(), as_is):
            return np.exp(leaf(1.0))

    y = asyncio.run(main())
    with pytest.raises(GraphError, match="async with"):
        sync.backward(y)


def test_a_pack_whose_loop_has_stopped_says_so():
    async def main() -> Any:
        with saved_tensors_hooks(Gate(), as_is):
            return np.exp(leaf(1.0))

    with asyncio.Runner() as runner:
        y = runner.run(main())
        with pytest.raises(GraphError, match="has stopped"):
            sync.backward(y)


@on_each_loop
def test_a_blocking_backward_that_would_wait_for_a_pack_of_the_running_loop_raises(run: Any):
    async def main() -> None:
        gate = Gate()
        with saved_tensors_hooks(gate, as_is):
            y = np.exp(leaf(1.0))
        with pytest.raises(BlockingError):
            sync.backward(y, retain_graph=True)
        gate.open.set()
        await y.backward()

    run(main())


async def test_a_backward_on_another_loop_waits_for_the_pack():
    x, gate = leaf(3.0), Gate()
    with saved_tensors_hooks(gate, as_is):
        y = x * x
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def elsewhere() -> None:
        async def backward() -> None:
            loop.call_soon_threadsafe(begun.set)
            await y.backward()

        asyncio.run(backward())

    thread = asyncio.ensure_future(asyncio.to_thread(elsewhere))
    await begun.wait()
    gate.open.set()
    await thread
    assert x.grad.tolist() == [6.0]


# Unpacking.


async def test_an_async_unpack_suspends_its_node_alone():
    x, w, gate = leaf(1.0), leaf(2.0), Gate()
    with saved_tensors_hooks(as_is, gate):
        y = np.exp(x)
    other = asyncio.Event()
    z = w * 3.0
    z.register_hook(lambda grad: other.set())
    backward = asyncio.ensure_future((z + y).backward())
    await gate.came.wait()
    await other.wait()
    gate.open.set()
    await backward
    assert w.grad.tolist() == [3.0]


async def test_two_nodes_unpack_together():
    x, gate = leaf(1.0), Gate()
    with saved_tensors_hooks(as_is, gate):
        y = np.exp(x) + np.tanh(x)
    backward = asyncio.ensure_future(y.backward())
    await gate.two_came.wait()
    gate.open.set()
    await backward


async def test_two_tensors_of_one_node_unpack_together():
    gate = Gate()
    with saved_tensors_hooks(as_is, gate):
        y = leaf(1.0) * leaf(2.0)
    backward = asyncio.ensure_future(y.backward())
    await gate.two_came.wait()
    gate.open.set()
    await backward


async def test_an_unpack_that_fails_cancels_the_other_of_its_node_and_waits_for_it():
    x, y, ended = leaf(1.0), leaf(2.0), []

    async def unpack(tensor: Any) -> Any:
        if tensor is y:
            await asyncio.sleep(0)
            raise ZeroDivisionError
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(tensor.tolist())

    with saved_tensors_hooks(as_is, unpack):
        z = x * y
    with pytest.raises(ZeroDivisionError) as raised:
        await z.backward()
    assert ended == [[1.0]]
    assert (x.grad, y.grad) == (None, None)
    assert not any("later error" in note for note in raised.value.__notes__)


async def test_a_backward_cancelled_while_it_unpacks_may_be_tried_again():
    x, gate = leaf(3.0), Gate()
    with saved_tensors_hooks(as_is, gate):
        y = x * x
    backward = asyncio.ensure_future(y.backward())
    await gate.came.wait()
    backward.cancel()
    with pytest.raises(asyncio.CancelledError):
        await backward
    assert x.grad is None
    gate.open.set()
    await y.backward()
    assert x.grad.tolist() == [6.0]


async def test_a_backward_cancelled_while_it_waits_for_a_pack_leaves_that_running():
    x, gate = leaf(3.0), Gate()
    with saved_tensors_hooks(gate, as_is):
        y = x * x
    backward = asyncio.ensure_future(y.backward())
    for _ in range(3):
        await asyncio.sleep(0)
    backward.cancel()
    with pytest.raises(asyncio.CancelledError):
        await backward
    gate.open.set()
    await y.backward()
    assert x.grad.tolist() == [6.0]


async def test_two_backwards_wait_for_one_pack():
    x, gate = leaf(3.0), Gate()
    with saved_tensors_hooks(gate, as_is):
        y = x * x
    both = asyncio.gather(y.backward(retain_graph=True), y.backward(retain_graph=True))
    for _ in range(3):
        await asyncio.sleep(0)
    gate.open.set()
    await both
    assert (x.grad.tolist(), gate.arrived) == ([12.0], 2)


async def test_an_async_unpack_that_returns_what_does_not_fit_is_refused():
    for returned, error in ((None, HookTypeError), (np.ones(2), HookError)):

        async def unpack(tensor: Any, returned: Any = returned) -> Any:
            await asyncio.sleep(0)
            return returned

        with saved_tensors_hooks(as_is, unpack):
            y = leaf(1.0) * leaf(2.0)
        with pytest.raises(error, match="MultiplyBackward"):
            await y.backward()


@on_each_loop
def test_a_blocking_backward_beside_a_running_loop_says_to_await(run: Any):
    async def main() -> None:
        with Store().hooks("unpack"):
            y = leaf(1.0) * leaf(2.0)
        with pytest.raises(BlockingError, match="await"):
            sync.backward(y)

    run(main())


async def test_a_node_that_is_called_by_itself_returns_an_awaitable():
    with Store().hooks("unpack"):
        y = leaf(3.0) * leaf(4.0)
    first, second = await y.grad_fn(np.ones(1))
    assert (first.tolist(), second.tolist()) == ([4.0], [3.0])


# Functions.


def square_function(backward: Any) -> type[ag.Function]:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.numpy() ** 2

    return function(forward, backward)


def square_backward(ctx: Any, grad: Any) -> Any:
    (x,) = ctx.saved_tensors
    return grad * 2.0 * x


async def loading(ctx: Any, grad: Any) -> Any:
    (x,) = await ctx.load_saved()
    return grad * 2.0 * x


@pytest.mark.slow
@pytest.mark.parametrize("backward", [square_backward, loading])
@pytest.mark.parametrize("kind", ["plain", "pack", "unpack", "both"])
async def test_a_function_finds_what_was_packed(backward: Any, kind: str):
    x, store = leaf(3.0), Store()
    with store.hooks(kind):
        y = square_function(backward).apply(x)
    await y.backward()
    assert (x.grad.tolist(), store.unpacked[0]) == ([6.0], 0)


@pytest.mark.slow
@pytest.mark.parametrize("backward", [square_backward, loading])
@pytest.mark.parametrize("kind", ["plain", "pack", "unpack", "both"])
def test_a_function_finds_what_was_packed_in_a_blocking_backward(backward: Any, kind: str):
    x = leaf(3.0)
    with Store().hooks(kind):
        y = square_function(backward).apply(x)
    sync.backward(y)

    assert x.grad.tolist() == [6.0]


@pytest.mark.parametrize("kind", ["plain", "unpack"])
async def test_what_a_function_finds_has_its_place_in_the_graph(kind: str):
    x = leaf(3.0)
    with Store().hooks(kind):
        y = square_function(square_backward).apply(x * 2.0)
    (g,) = await ag.grad(y, [x], create_graph=True)
    await g.backward()
    assert x.grad.tolist() == [8.0]


async def test_an_async_backward_that_does_not_load_is_told_to():
    async def backward(ctx: Any, grad: Any) -> Any:
        return grad * ctx.saved_tensors[0]

    with Store().hooks("unpack"):
        y = square_function(backward).apply(leaf(3.0))
    with pytest.raises(HookError, match=r"await ctx\.load_saved\(\)"):
        await y.backward()


async def test_saved_tensors_of_a_context_outside_of_its_backward_say_to_load():
    x = leaf(3.0)
    with Store().hooks("unpack"):
        y = square_function(square_backward).apply(x)
    with pytest.raises(HookError, match=r"await ctx\.load_saved\(\)"):
        _ = y.grad_fn.ctx.saved_tensors
    (back,) = await y.grad_fn.ctx.load_saved()
    assert (back.tolist(), back is x) == ([3.0], False)


def test_a_plain_unpack_that_turns_out_to_be_awaitable_says_to_load():
    store = Store()
    with saved_tensors_hooks(store.pack, lambda number: store.unpack_later(number)):
        y = square_function(square_backward).apply(leaf(3.0))

    with pytest.raises(HookError, match=r"await ctx\.load_saved\(\)"):
        sync.backward(y)


# Nothing stays.


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "pack", "unpack", "both"])
async def test_release_drops_what_was_packed(kind: str):
    class CopyOnWriteEntry:
        def __init__(self, array: Any) -> None:
            self.array = array

    alive: list[weakref.ref[Any]] = []

    def pack(tensor: Any) -> Any:
        kept = CopyOnWriteEntry(tensor.numpy().copy())
        alive.append(weakref.ref(kept))
        return kept

    async def pack_later(tensor: Any) -> Any:
        await asyncio.sleep(0)
        return pack(tensor)

    async def unpack_later(kept: Any) -> Any:
        await asyncio.sleep(0)
        return kept.array

    hooks = (
        pack_later if kind in ("pack", "both") else pack,
        unpack_later if kind in ("unpack", "both") else lambda kept: kept.array,
    )
    with saved_tensors_hooks(*hooks):
        y = np.exp(leaf(1.0)) * leaf(2.0)
        z = square_function(square_backward).apply(y)
    loss = z.sum()
    await loss.backward()
    assert (len(alive), [kept() for kept in alive if kept() is not None]) == (4, [])
    assert loss.grad_fn is not None


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "pack", "unpack", "both"])
async def test_a_graph_with_packed_tensors_is_gone_when_it_is_dropped(kind: str):
    with saved_tensors_hooks(as_is, as_is) if kind == "plain" else Store().hooks(kind):
        y = saving_chain(leaf(1.0))
    node = weakref.ref(y.grad_fn)
    await y.backward(retain_graph=True)
    del y
    assert node() is None


@pytest.mark.parametrize("hooks", ["pack", "unpack"])
async def test_a_graph_whose_hook_failed_is_gone_when_it_is_dropped(hooks: str):
    async def failing(value: Any) -> Any:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    with saved_tensors_hooks(*((failing, as_is) if hooks == "pack" else (as_is, failing))):
        y = np.exp(leaf(1.0)).sum()
    node = weakref.ref(y.grad_fn)
    with contextlib.suppress(ZeroDivisionError):
        await y.backward()
    del y
    assert node() is None
