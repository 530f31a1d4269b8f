"""Versions of a model: snapshots never change, updates are seen whole, and steps off the loop publish at once."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, optim, sync
from asyncgrad.errors import ArgumentError, ArgumentTypeError, InPlaceError, OverlappingStepsError
from asyncgrad.testing import explore
from tests.support.sampling import cases
from tests.support.turns import one_turn


class Pair(nn.Module):
    """Two parameters and a buffer, which are equal in every version."""

    def __init__(self, size: int = 3) -> None:
        self.first = nn.Parameter(np.ones(size))
        self.second = nn.Parameter(np.ones(size))
        self.register_buffer("count", ag.tensor(np.ones(size)))

    def forward(self, x: Any) -> ag.Tensor:
        return (self.first * self.second * x).sum()


def values(model: nn.Module) -> list[Any]:
    return [leaf.tolist() for leaf in ag.tree.leaves(model)]


def step(model: nn.Module, _: Any) -> None:
    optim.SGD(model.parameters(), lr=1.0).step([np.ones(3), np.ones(3)])


def in_place(model: Any, _: Any) -> None:
    with ag.no_grad():
        model.first += 1.0
        model.second[1:] = 0.0
        model.count *= 2.0


def recorded(model: Any, _: Any) -> None:
    model.count *= model.first * 2.0


def by_numpy(model: Any, _: Any) -> None:
    with ag.no_grad():
        np.add(model.first, 1.0, out=model.first)
        np.copyto(model.second, 0.0)


def by_lbfgs(model: nn.Module, _: Any) -> None:
    optim.LBFGS(model.parameters(), lr=0.5, max_iter=1).step([np.ones(3), np.ones(3)])


WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "step": step,
    "in place": in_place,
    "recorded": recorded,
    "NumPy": by_numpy,
    "LBFGS": by_lbfgs,
    "update": lambda model, _: model.update({"first": np.zeros(3)}),
    "update by a module": lambda model, _: model.update(ag.tree.map(lambda leaf: leaf.detach() * 2, model)),
    "load_state_dict": lambda model, _: model.load_state_dict(dict.fromkeys(("first", "second", "count"), np.zeros(3))),
    "init": lambda model, _: nn.init.zeros_(model.first),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_snapshot_shares_its_arrays_and_never_changes(write: Callable[[Any, Any], Any]) -> None:
    model = Pair()
    snapshot = model.snapshot()
    part = snapshot.first.numpy()[1:]
    assert np.shares_memory(snapshot.first.numpy(), model.first.detach().numpy())
    before = values(snapshot)
    write(model, snapshot)

    assert values(snapshot) == before
    assert part.tolist() == [1.0, 1.0]
    assert values(model) != before


def test_only_the_first_write_after_a_snapshot_copies_and_none_where_it_is_gone() -> None:
    model = Pair()
    arrays = [model.first._data]
    held = model.snapshot()
    for _ in range(2):
        step(model, None)
        arrays.append(model.first._data)
    assert arrays[0] is not arrays[1]
    assert arrays[1] is arrays[2]
    assert held.first.tolist() == [1.0] * 3
    del arrays[:]

    model.snapshot()
    kept = id(model.first._data)
    step(model, None)
    assert id(model.first._data) == kept


def test_running_statistics_of_a_snapshot_stay_while_the_model_trains() -> None:
    model = nn.BatchNorm1d(2)
    snapshot = model.snapshot()
    before = {name: np.copy(buffer) for name, buffer in snapshot.named_buffers()}
    model(np.arange(6.0).reshape(3, 2))

    assert {name: buffer.tolist() for name, buffer in snapshot.named_buffers()} == {
        name: buffer.tolist() for name, buffer in before.items()
    }
    assert all(not np.array_equal(before[name], buffer) for name, buffer in model.named_buffers())
    assert not snapshot.training
    assert model.training


def test_gradients_of_a_snapshot_are_taken_by_the_optimizer_of_the_model() -> None:
    model = Pair()
    optimizer = optim.SGD(model, lr=1.0)
    grads = sync.func.grad(lambda model: model(np.arange(3.0)))(model.snapshot())
    optimizer.step(grads)

    assert model.first.tolist() == model.second.tolist() == [1.0, 0.0, -1.0]
    assert model.first.grad is None


BAD: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "attribute": (lambda s: setattr(s, "first", 1), ArgumentError, "first of a snapshot of Pair cannot be changed"),
    "delete": (lambda s: delattr(s, "first"), ArgumentError, "take a new model.snapshot()"),
    "train": (lambda s: s.train(), ArgumentError, "training of a snapshot"),
    "load": (lambda s: s.load_state_dict(Pair().state_dict()), ArgumentError, "the state of a snapshot"),
    "update": (lambda s: s.update({"first": np.zeros(3)}), ArgumentError, "the state of a snapshot"),
    "in place": (lambda s: s.first.__iadd__(1.0), ValueError, "read-only"),
}


@pytest.mark.parametrize(("change", "kind", "message"), BAD.values(), ids=BAD)
def test_a_snapshot_refuses_changes(change: Callable[[Any], Any], kind: type[Exception], message: str) -> None:
    model = Pair()
    snapshot = model.snapshot()
    with pytest.raises(kind, match=re.escape(message)):
        change(snapshot)
    assert values(snapshot) == values(model) == [[1.0] * 3] * 3


def test_an_update_that_does_not_fit_names_paths_and_shapes_and_changes_nothing() -> None:
    model = Pair()
    with pytest.raises(
        ArgumentError,
        match=r"nothing was changed: first has shape \(3,\), but in the update \(2,\); third is unexpected",
    ):
        model.update({"first": np.zeros(2), "second": np.zeros(3), "third": np.zeros(3)})
    with pytest.raises(ArgumentTypeError, match="update takes tensors by path"):
        model.update(3)  # type: ignore[arg-type]
    assert values(model) == [[1.0] * 3] * 3


def test_a_view_of_a_parameter_that_a_snapshot_shares_is_not_written_into() -> None:
    model = Pair()
    with ag.no_grad():
        view = model.first[1:]
        snapshot = model.snapshot()
        with pytest.raises(InPlaceError, match="a view of a parameter whose array a snapshot shares"):
            view += 1.0
    assert snapshot.first.tolist() == [1.0] * 3


@pytest.mark.slow
def test_readers_see_all_of_a_step_or_nothing_on_any_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncgrad.optim.optimizer._OFF_LOOP", 0)
    seen = set[float]()

    async def main() -> None:
        model = Pair()
        optimizer = optim.Adam(model, lr=1.0)

        async def reader() -> None:
            while len(ended) < 2:
                await one_turn()
                snapshot = model.snapshot()
                first = snapshot.first.tolist()
                await one_turn()
                assert first == snapshot.first.tolist() == snapshot.second.tolist()
                seen.add(first[0])

        async def writer() -> None:
            grads = await ag.func.grad(lambda model: model(np.ones(3)))(model.snapshot())
            await optimizer.step_async(grads)
            ended.append(True)

        ended = list[bool]()
        await asyncio.gather(reader(), writer(), reader(), writer())
        assert model.first.tolist() == model.second.tolist()

    assert explore(main, seeds=cases(1000)).distinct > 1
    assert len(seen) > 1


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam, optim.RMSprop, optim.Adagrad, optim.Lion])
async def test_a_step_off_the_loop_has_the_bits_of_one_on_it(monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:
    monkeypatch.setattr("asyncgrad.optim.optimizer._OFF_LOOP", 0)

    one, other = Pair(), Pair()
    optimizers = [kind(one, lr=0.1), kind(other, lr=0.1)]
    for _ in range(3):
        grads = await ag.func.grad(lambda model: model(np.arange(3.0)))(one)
        optimizers[0].step(grads)
        await optimizers[1].step_async(grads)
    assert values(one) == values(other)
    states = [optimizer.state_dict()["state"] for optimizer in optimizers]
    assert repr(states[0]) == repr(states[1])


class HeldDescent(optim.ElementwiseOptimizer):
    """Gradient descent that says when a worker has begun, and waits to be let go."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {})
        self.begun, self.let_go = threading.Event(), threading.Event()

    @staticmethod
    def _check(group: Any) -> None:
        pass

    def _updater(self, like: Any, group: Any) -> Any:
        def update(param: Any, grad: Any, state: dict[str, Any]) -> None:
            self.begun.set()
            self.let_go.wait()
            param -= grad
            state["steps"] = state.get("steps", 0) + 1

        return update


async def test_a_step_that_is_cancelled_or_meets_another_write_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncgrad.optim.optimizer._OFF_LOOP", 0)

    model = Pair()
    optimizer = HeldDescent(model.parameters())
    grads = [np.ones(3), np.ones(3)]

    async def begin() -> asyncio.Task[Any]:
        optimizer.begun.clear()
        optimizer.let_go.clear()
        task = asyncio.create_task(optimizer.step_async(grads), name="first")
        while not optimizer.begun.is_set():
            await one_turn()
        return task

    task = await begin()
    with pytest.raises(OverlappingStepsError, match=r"calls step\(\) of one HeldDescent while task 'first' awaits"):
        optimizer.step(grads)
    task.cancel()
    optimizer.let_go.set()
    await asyncio.wait([task])
    assert task.cancelled()
    assert values(model) == [[1.0] * 3] * 3
    assert optimizer.state == {}

    task = await begin()
    model.update({"first": np.zeros(3)})
    optimizer.let_go.set()
    with pytest.raises(OverlappingStepsError, match=r"written into while step_async\(\) computed its new value"):
        await task
    assert values(model) == [[0.0] * 3, [1.0] * 3, [1.0] * 3]
    assert optimizer.state == {}

    await optimizer.step_async(grads)
    assert values(model) == [[-1.0] * 3, [0.0] * 3, [1.0] * 3]


async def test_steps_of_several_tasks_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncgrad.optim.optimizer._OFF_LOOP", 0)

    model = Pair()
    optimizer = optim.SGD(model.parameters(), lr=1.0)
    grads = [np.ones(3), np.ones(3)]
    await asyncio.gather(*(optimizer.step_async(grads) for _ in range(5)))
    assert model.first.tolist() == [-4.0] * 3


async def test_steps_off_the_loop_take_the_arrays_before_last_again_unless_somebody_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("asyncgrad.optim.optimizer._OFF_LOOP", 0)

    model = Pair()
    optimizer = optim.Adam(model, lr=1.0)
    grads = await ag.func.grad(lambda model: model(np.ones(3)))(model.snapshot())
    addresses = []
    held = []
    for is_held in (False, False, True, True, True):
        await optimizer.step_async(grads)
        addresses.append(model.first._data.ctypes.data)
        if is_held:
            held.append((model.snapshot(), values(model)))
    assert addresses[0] != addresses[1]
    assert addresses[0] == addresses[2]
    assert len(set(addresses[2:])) == 3
    for snapshot, before in held:
        assert values(snapshot) == before
