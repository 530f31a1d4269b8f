"""save_to_store: what is put into a store, when, and that gradients are those of a run that keeps all in memory."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.errors import ArgumentError, ArgumentTypeError, ChangedTensorError, HookError
from asyncgrad.graph import save_to_store
from asyncgrad.testing import MemoryStore
from benchmarks.lstm import BENCHMARKS as LSTM
from benchmarks.mlp import BENCHMARKS as MLP
from benchmarks.transformer import BENCHMARKS as TRANSFORMER
from tests.memory.offload.scenes import Chain
from tests.support.loops import on_each_loop

LINKS = 5


def all_of(store: Any, **options: Any) -> Any:
    return save_to_store(store, min_bytes=1, **options)


# Gradients.


@pytest.mark.slow
@pytest.mark.parametrize("benchmark", [*MLP, *TRANSFORMER, *LSTM], ids=lambda benchmark: benchmark.__name__)
async def test_the_gradients_of_models_have_the_same_bits(benchmark: Any):
    problem = benchmark.problem()
    leaves = [ag.tensor(array, requires_grad=True) for array in problem.variables]
    found = []

    async def step(block: Any) -> None:
        async with block:
            loss = benchmark.models["asyncgrad"](*problem.constants, *leaves)
        await loss.backward(problem.start)
        found.append([leaf.grad.numpy().tobytes() for leaf in leaves])
        for leaf in leaves:
            leaf.grad = None

    store = MemoryStore()
    await step(ag.graph.saved_tensors_hooks(lambda t: t, lambda t: t))
    await step(all_of(store))

    assert found[0] == found[1]
    assert ("get", store.calls[0][1]) in store.calls
    assert len({key for method, key in store.calls if method == "get"}) > 3


@pytest.mark.parametrize("prefetch", [0, 1, 3, 100])
@pytest.mark.parametrize("kind", ["async with", "with"])
async def test_gradients_have_the_same_bits_however_far_ahead_is_read(kind: str, prefetch: int):
    chain, store = Chain(LINKS), MemoryStore()

    if kind == "with":
        loss = chain.forward(all_of(store, prefetch=prefetch))
    else:
        async with all_of(store, prefetch=prefetch):
            loss = chain.compute()
    await loss.backward()

    assert chain.gradients() == chain.expected()


def test_without_a_loop_gradients_have_the_same_bits():
    chain, store = Chain(LINKS), MemoryStore()

    loss = chain.forward(all_of(store))
    store.wait_for_ended("put", LINKS + 1)
    ag.sync.backward(loss)

    assert chain.gradients() == chain.expected()
    assert len(store) == 0 or store.wait_for_ended("delete", LINKS + 1) is None


@on_each_loop
def test_a_blocking_backward_waits_for_the_store_although_a_loop_runs(run: Any):
    chain, store = Chain(LINKS), MemoryStore()

    async def step() -> None:
        async with all_of(store):
            loss = chain.compute()
        ag.sync.backward(loss)

    run(step())

    assert chain.gradients() == chain.expected()
    assert "get" in {method for method, _ in store.calls}


async def test_with_retain_graph_a_second_backward_reads_again():
    chain, store = Chain(LINKS), MemoryStore()

    async with all_of(store):
        loss = chain.compute()
    await loss.backward(retain_graph=True)
    first, kept = chain.gradients(), len(store)
    await loss.backward()
    second = chain.gradients()

    assert first == second == chain.expected()
    assert kept == LINKS + 1


@on_each_loop
def test_a_backward_that_is_recorded_is_differentiable_again(run: Any):
    x = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
    store = MemoryStore()

    async def step() -> Any:
        async with all_of(store):
            y = np.exp(np.sin(x)).sum()
            (g,) = await ag.grad(y, [x], create_graph=True)
        (gg,) = await ag.grad(g.sum(), [x])
        return gg

    y = np.exp(np.sin(x)).sum()
    (g,) = ag.sync.grad(y, [x], create_graph=True)
    (expected,) = ag.sync.grad(g.sum(), [x])
    assert run(step()).numpy().tobytes() == expected.numpy().tobytes()


async def test_a_plain_function_finds_its_saved_tensors_loaded():
    class Square(ag.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 2 * x * grad

    x, store = ag.tensor([1.0, 2.0], requires_grad=True), MemoryStore()

    async with all_of(store):
        y = Square.apply(x * 1.0)
    assert len(store) == 1
    await y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 4.0]


@on_each_loop
def test_a_saved_tensor_can_be_looked_at(run: Any):
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    store = MemoryStore()

    async def step() -> Any:
        async with all_of(store):
            y = np.exp(x)
        (saved,) = y.grad_fn.saved_tensors
        with pytest.raises(HookError, match=r"await saved\.load\(\)"):
            saved.unpack()
        return await saved.load(), saved

    loaded, saved = run(step())
    assert loaded.tolist() == saved.unpack().tolist() == np.exp([1.0, 2.0]).tolist()


# What is put there.


def stored_by(make: Any, **options: Any) -> int:
    """How much of what `make` saves goes into a store."""
    store = MemoryStore()

    async def step() -> int:
        async with save_to_store(store, **{"min_bytes": 1, **options}):
            kept = make()
        size = len(store)
        del kept
        return size

    return ag.run(step())


def test_what_is_smaller_than_asked_for_stays_in_memory():
    x = ag.tensor(np.ones(10), requires_grad=True)

    assert stored_by(lambda: np.exp(x), min_bytes=80) == 1
    assert stored_by(lambda: np.exp(x), min_bytes=81) == 0


def test_parameters_and_their_views_stay_in_memory():
    w = ag.tensor(np.ones((3, 3)), requires_grad=True)

    assert stored_by(lambda: w * w) == 0
    assert stored_by(lambda: ag.tensor(np.ones(3)) @ w.T) == 0 + 1  # the tensor of ones


def test_a_tensor_that_is_saved_twice_is_put_there_once():
    x = ag.tensor(np.ones(4), requires_grad=True)

    def twice() -> Any:
        y = np.exp(x)
        return y * y, y.reshape(4) * 1.0, np.tanh(y)

    assert stored_by(twice) == 2  # y and tanh(y)


async def test_memory_that_was_freed_and_used_again_is_another_tensor():
    x, store = ag.tensor(np.arange(1.0, 5.0), requires_grad=True), MemoryStore()

    results = []
    for factor in (1.0, 2.0, 3.0):
        async with all_of(store):
            results.append(np.exp(x * factor).sum())
    found = [(await ag.grad(result, [x]))[0].numpy() for result in results]
    for factor, gradient in zip((1.0, 2.0, 3.0), found, strict=True):
        assert np.array_equal(gradient, np.exp(x.numpy() * factor) * factor)


def test_what_is_changed_between_two_saves_is_put_there_twice():
    x = ag.tensor(np.ones(4), requires_grad=True)

    def changed() -> Any:
        c = ag.tensor(np.ones(4))
        first = x * c
        c += 1
        return first, x * c

    assert stored_by(changed) == 2


async def test_objects_and_empty_arrays_stay_in_memory():
    x, store = ag.tensor(np.zeros((0, 3)), requires_grad=True), MemoryStore()

    async with save_to_store(store, min_bytes=0):
        y = np.exp(x)
    await y.sum().backward()
    assert x.grad is not None
    assert x.grad.shape == (0, 3)
    assert store.calls == []


@pytest.mark.slow
async def test_the_memory_of_a_stored_tensor_is_freed():
    x, store = ag.tensor(np.ones((4, 4)), requires_grad=True), MemoryStore()

    async with all_of(store):
        base = np.exp(x) * 1.0
        array = weakref.ref(base.numpy().base if base.numpy().base is not None else base._data)
        y = np.tanh(base[1:3])
        z = y * y
        del base, y
    gc.collect()
    array, _ = (array(), z)
    assert array is None


# Changes in place.


@pytest.mark.parametrize("size", [4, 40_000])
async def test_a_tensor_that_was_written_into_is_refused_wherever_it_is(size: int):
    x, store = ag.tensor(np.ones(size), requires_grad=True), MemoryStore()

    async def step(*, waits: bool) -> None:
        block = save_to_store(store, min_bytes=1000)
        if waits:
            async with block:
                y = x * 2.0
                z = y * y
        else:
            store.hold("put")
            with block:
                y = x * 2.0
                z = y * y
        y += 1.0
        with pytest.raises(ChangedTensorError, match="is at version 1, and version 0 was saved"):
            await z.sum().backward()
        assert x.grad is None
        store.let_go("put")

    await step(waits=True)
    await step(waits=False)


# When it is put there, and how much.


def test_the_forward_goes_on_while_tensors_are_written_and_waits_where_too_much_is():
    x, store = ag.tensor(np.ones(100), requires_grad=True), MemoryStore()
    store.hold("put")

    with all_of(store, max_pending_bytes=2000):
        first = np.exp(x)
        second = np.exp(x)
        store.wait_for_begun("put", 2)
        # There is no room for the third: it waits for what another thread lets go.
        helper = threading.Thread(target=store.let_go, args=("put",))
        helper.start()
        third, fourth = np.exp(x), np.exp(x)
        helper.join()

    store.wait_for_ended("put", 2)
    ag.sync.backward((first + second + third + fourth).sum())
    assert x.grad is not None
    assert np.array_equal(x.grad.numpy(), 4 * np.exp(np.ones(100)))


def test_no_more_is_under_way_than_allowed():
    x, store = ag.tensor(np.ones(100), requires_grad=True), MemoryStore()
    most = 0

    class Watching(MemoryStore):  # type: ignore[misc]
        async def put(self, key: str, data: memoryview) -> None:
            nonlocal most
            most = max(most, manager._offload._pending_bytes)
            await super().put(key, data)

    manager = all_of(Watching(), max_pending_bytes=2000)
    with manager:
        kept = [np.exp(x) for _ in range(50)]

    assert 0 < most <= 2000
    assert len(kept) == 50
    assert store.calls == []


async def test_a_tensor_larger_than_what_may_be_under_way_goes_alone():
    chain, store = Chain(LINKS), MemoryStore()

    async with all_of(store, max_pending_bytes=1):
        loss = chain.compute()
    assert len(store) == LINKS + 1
    await loss.backward()
    assert chain.gradients() == chain.expected()


async def test_what_is_not_written_yet_is_taken_from_memory_and_never_written():
    chain, store = Chain(LINKS), MemoryStore()
    store.hold("put")

    loss = chain.forward(all_of(store))
    await loss.backward()
    store.let_go("put")
    begun = [key for method, key in store.calls if method == "put"]

    assert chain.gradients() == chain.expected()
    assert len(begun) <= 2
    assert "get" not in {method for method, _ in store.calls}
    store.wait_for_ended("delete", len(begun))
    assert len(store) == 0


# How long it stays there.


async def test_a_stored_tensor_is_deleted_when_its_node_has_run_or_the_graph_is_dropped():
    chain, store = Chain(LINKS), MemoryStore()

    async with all_of(store):
        loss = chain.compute()
        dropped = chain.compute()
    assert len(store) == 2 * (LINKS + 1) - 1  # the input is saved by both
    await loss.backward()
    store.wait_for_ended("delete", LINKS)
    del dropped
    store.wait_for_ended("delete", 2 * (LINKS + 1) - 1)
    assert len(store) == 0


@pytest.mark.slow
@pytest.mark.parametrize("how", ["fails", "is cancelled"])
async def test_a_backward_that_ends_early_leaves_nothing_there_once_the_graph_is_dropped(how: str):
    chain, store = Chain(LINKS), MemoryStore()

    class Stop(Exception):
        pass

    def stop(grad: Any) -> None:
        raise Stop if how == "fails" else asyncio.CancelledError

    async def step() -> None:
        async with all_of(store):
            loss = chain.compute()
        handle = chain.weights[2].register_hook(stop)
        with pytest.raises(Stop if how == "fails" else asyncio.CancelledError):
            await loss.backward()
        handle.remove()

    await step()
    gc.collect()
    store.wait_for_ended("delete", LINKS + 1)

    assert len(store) == 0
    assert all(weight.grad is None for weight in chain.weights)


@pytest.mark.slow
async def test_a_forward_that_fails_leaves_nothing_there():
    chain, store = Chain(LINKS), MemoryStore()

    async def step() -> None:
        async with all_of(store):
            chain.compute()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await step()
    gc.collect()
    begun = [key for method, key in store.calls if method == "put"]
    store.wait_for_ended("put", len(begun))
    store.wait_for_ended("delete", len(begun))

    assert len(store) == 0


@pytest.mark.slow
async def test_a_graph_in_a_reference_cycle_leaves_nothing_there_once_it_is_collected():
    """The collector tells the thread of the store to end, and only then drops what the store has to delete."""
    chain, store = Chain(LINKS), MemoryStore()

    async def step() -> None:
        async with all_of(store):
            loss = chain.compute()
        cycle: list[Any] = [loss]
        cycle.append(cycle)

    await step()
    assert len(store) == LINKS + 1
    gc.collect()
    store.wait_for_ended("delete", LINKS + 1)

    assert len(store) == 0


# How it is used.


async def test_save_to_store_decorates_functions_of_both_kinds():
    x, store = ag.tensor(np.ones(4), requires_grad=True), MemoryStore()

    @all_of(store)
    def plain() -> Any:
        return np.exp(x).sum()

    @all_of(store)
    async def later() -> Any:
        return np.exp(x).sum()

    first, second = plain(), await later()
    store.wait_for_ended("put", 2)
    await (first + second).backward()
    assert x.grad is not None
    assert np.array_equal(x.grad.numpy(), 2 * np.exp(np.ones(4)))


async def test_one_manager_serves_several_blocks_at_the_same_time():
    chains, store = [Chain(LINKS) for _ in range(4)], MemoryStore()
    manager = all_of(store)

    async def step(chain: Chain) -> None:
        async with manager:
            loss = chain.compute()
            await asyncio.sleep(0)
        await loss.backward()

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for chain in chains:
                group.create_task(step(chain))

    await main()
    assert all(chain.gradients() == chain.expected() for chain in chains)


async def test_two_backwards_through_one_graph_at_the_same_time_both_read():
    chain, store = Chain(LINKS), MemoryStore()

    async with all_of(store):
        loss = chain.compute()
    first, second = await asyncio.gather(
        ag.grad(loss, chain.weights, retain_graph=True), ag.grad(loss, chain.weights, retain_graph=True)
    )
    expected = chain.expected()
    assert [g.numpy().tobytes() for g in first] == [g.numpy().tobytes() for g in second] == expected


def test_hooks_inside_take_precedence_and_forbidding_holds():
    x, store = ag.tensor(np.ones(4), requires_grad=True), MemoryStore()

    with all_of(store), ag.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        ag.sync.backward(np.exp(x).sum())
    assert store.calls == []
    with ag.graph.disable_saved_tensors_hooks("not here"), pytest.raises(HookError, match="not here"), all_of(store):
        pass


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"min_bytes": -1}, ArgumentError, "min_bytes of save_to_store must be at least 0, not -1"),
        ({"prefetch": -1}, ArgumentError, "prefetch of save_to_store must be at least 0, not -1"),
        ({"max_pending_bytes": 0}, ArgumentError, "max_pending_bytes of save_to_store must be at least 1, not 0"),
        ({"min_bytes": 1.5}, ArgumentTypeError, "min_bytes of save_to_store must be an int, not float 1.5"),
        ({"prefetch": True}, ArgumentTypeError, "prefetch of save_to_store must be an int, not bool True"),
    ],
)
def test_options_out_of_range_are_refused(options: Any, error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        save_to_store(MemoryStore(), **options)


def test_what_is_no_store_is_refused():
    with pytest.raises(ArgumentTypeError, match="must have the async methods put, get and delete, unlike dict"):
        save_to_store({})  # type: ignore[arg-type]
