"""A step takes gradients from `.grad`, a tree or a closure; one that does not fit changes nothing."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import optim, sync
from asyncgrad.errors import ArgumentError, ArgumentTypeError
from tests.optim.test_optimizers import EACH


def tree() -> dict[str, Any]:
    return {
        "layers": [ag.tensor([1.0, 2.0], requires_grad=True), ag.tensor([[3.0]], requires_grad=True)],
        "scale": ag.tensor(4.0, requires_grad=True),
    }


def values(params: Any) -> list[Any]:
    return [param.tolist() for param in ag.tree.leaves(params)]


GRADS = {"layers": [np.array([1.0, -1.0]), np.array([[0.5]])], "scale": np.array(2.0)}


@EACH
def test_a_step_of_given_gradients_is_that_of_the_same_in_grad(kind: Any, options: dict[str, Any]) -> None:
    given, own = tree(), tree()
    given_optimizer, own_optimizer = kind(given, **options), kind(own, **options)
    for factor in (1.0, -0.5, 2.0):
        grads = ag.tree.map(lambda grad, factor=factor: grad * factor, GRADS)
        for param, grad in zip(ag.tree.leaves(own), ag.tree.leaves(grads), strict=True):
            param.grad = ag.tensor(grad)
        given_optimizer.step(grads)
        own_optimizer.step()

    assert values(given) == values(own)


def test_a_step_of_given_gradients_neither_reads_nor_changes_grad() -> None:
    params = tree()
    params["scale"].grad = held = ag.tensor(1000.0)
    optim.SGD(params, lr=1.0).step({"layers": [np.zeros(2), None], "scale": np.array(2.0)})

    assert values(params) == [[1.0, 2.0], [[3.0]], 2.0]
    assert params["scale"].grad is held
    assert params["layers"][0].grad is None


@pytest.mark.parametrize("sequence", [list, tuple])
def test_gradients_of_a_sequence_of_parameters_may_be_a_list_or_a_tuple(sequence: Any) -> None:
    params = ag.tree.leaves(tree())
    optim.SGD(iter(params), lr=1.0).step(sequence(ag.tree.leaves(GRADS)))

    assert values(params) == [[0.0, 3.0], [[2.5]], 2.0]


def test_each_group_has_a_tree_of_gradients() -> None:
    params = tree()
    optimizer = optim.SGD([{"params": params["layers"], "lr": 1.0}, {"params": params["scale"], "lr": 0.5}])
    optimizer.step([GRADS["layers"], GRADS["scale"]])

    assert values(params) == [[0.0, 3.0], [[2.5]], 3.0]
    with pytest.raises(ArgumentError, match="has 2 groups of parameters, so grads must be a list with a tree for each"):
        optimizer.step(GRADS)


def test_gradients_are_used_in_the_dtype_of_their_parameters() -> None:
    param = ag.tensor(np.ones(2, np.float32), requires_grad=True)
    optim.SGD([param], lr=1.0).step([np.ones(2)])

    assert param.dtype == np.float32
    assert param.tolist() == [0.0, 0.0]


BAD: list[tuple[Any, type[Exception], str]] = [
    (
        {**GRADS, "scale": np.ones(3)},
        ArgumentError,
        "grads['scale'] has shape (3,), but params['scale'] has shape (): are these the gradients of another model?",
    ),
    ({"layers": GRADS["layers"]}, ArgumentError, "grads has no ['scale'], which params has there"),
    ({**GRADS, "more": np.ones(3)}, ArgumentError, "grads has ['more'], which params does not have there"),
    ({**GRADS, "layers": [np.ones(2)]}, ArgumentError, "grads['layers'] has no [1], which params has there"),
    ({**GRADS, "scale": 1.0}, ArgumentTypeError, "grads['scale'] must be a tensor, an array or None, not float 1.0"),
    ({**GRADS, "scale": np.array(1j)}, ArgumentError, "grads['scale'] has dtype complex128, but params['scale'] has"),
    ([np.ones(2)], ArgumentError, "grads is a list, but params has a dict there"),
]


@pytest.mark.parametrize(("grads", "error", "message"), BAD, ids=[message[:40] for _, _, message in BAD])
def test_gradients_that_do_not_fit_are_named_and_change_nothing(
    grads: Any, error: type[Exception], message: str
) -> None:
    params = tree()
    optimizer = optim.Adam(params)
    with pytest.raises(error, match=re.escape(message)):
        optimizer.step(grads)

    assert values(params) == values(tree())
    assert optimizer.state == {}


@pytest.mark.parametrize("is_given", [True, False])
def test_a_frozen_parameter_with_a_gradient_is_named_and_nothing_changes(is_given: bool) -> None:
    params = tree()
    optimizer = optim.SGD(params, lr=1.0)
    for param in ag.tree.leaves(params):
        param.grad = ag.tensor(np.ones(param.shape))
    params["scale"].requires_grad_(False)

    hint = "give None for it" if is_given else "set its .grad to None"
    with pytest.raises(ArgumentError, match=re.escape("params['scale'], of shape (), does not require") + f".*{hint}"):
        optimizer.step(GRADS if is_given else None)
    assert values(params) == values(tree())


def test_a_step_takes_a_closure_first_and_returns_its_loss() -> None:
    params = tree()
    optimizer = optim.SGD(params, lr=0.5)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = sum((param * param).sum() for param in ag.tree.leaves(params))
        sync.backward(loss)
        return loss.item()

    with ag.no_grad():
        assert optimizer.step(closure) == 30.0
        assert optimizer.step(closure=closure) == 0.0


@pytest.mark.parametrize("kind", [optim.SGD, optim.LBFGS])
async def test_an_awaited_step_awaits_its_closure(kind: Any) -> None:
    params = tree()
    optimizer = kind(params, lr=0.5)

    async def closure() -> Any:
        optimizer.zero_grad()
        await asyncio.sleep(0)
        loss = sum((param * param).sum() for param in ag.tree.leaves(params))
        await loss.backward()
        return loss

    first = await optimizer.step_async(closure)

    assert first.item() == 30.0
    assert abs(np.concatenate([np.ravel(value) for value in values(params)])).max() < 1e-4


@pytest.mark.parametrize("kind", [optim.Adam, optim.LBFGS])
@pytest.mark.parametrize("calls", [1, 3])
async def test_a_cancelled_step_changes_nothing(kind: Any, calls: int) -> None:
    params = tree()
    optimizer = kind(params, lr=0.01)
    before = optimizer.state_dict()
    last = calls if kind is optim.LBFGS else 1
    count = 0
    waits = asyncio.Event()

    async def closure() -> Any:
        nonlocal count
        count += 1
        if count == last:
            waits.set()
            await asyncio.Event().wait()
        optimizer.zero_grad()
        loss = sum((param * param).sum() for param in ag.tree.leaves(params))
        await loss.backward()
        return loss

    task = asyncio.ensure_future(optimizer.step_async(closure))
    await waits.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert values(params) == values(tree())
    assert optimizer.state_dict() == before


def test_an_async_closure_of_a_blocking_step_is_told_what_to_write() -> None:
    async def closure() -> float:
        return 0.0

    with pytest.raises(ArgumentTypeError, match=re.escape("write await optimizer.step_async(closure)")):
        optim.SGD(tree()).step(closure)


def test_gradients_and_a_closure_exclude_each_other() -> None:
    with pytest.raises(ArgumentError, match="both gradients and a closure"):
        optim.SGD(tree()).step(GRADS, lambda: 0.0)
    with pytest.raises(ArgumentTypeError, match="closure must be a function"):
        optim.SGD(tree()).step(closure=1.0)  # type: ignore[arg-type]


def test_a_step_without_memory_for_its_state_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    params = tree()
    optimizer = optim.Adam(params)
    made: list[Any] = []
    new_state = optim.Adam._new_state

    def fail_at_the_last(self: Any, param: Any, group: Any) -> Any:
        made.append(param)
        if len(made) == 3:
            raise MemoryError
        return new_state(self, param, group)

    monkeypatch.setattr(optim.Adam, "_new_state", fail_at_the_last)
    with pytest.raises(MemoryError):
        optimizer.step(GRADS)

    assert values(params) == values(tree())
    assert optimizer.state == {}
