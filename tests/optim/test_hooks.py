"""Hooks of an optimizer see its steps and its states, may change them, and are gone once removed."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import optim
from asyncgrad.errors import ArgumentTypeError


def made() -> tuple[Any, optim.SGD]:
    w = ag.tensor([1.0, 2.0], requires_grad=True)
    w.grad = ag.tensor([1.0, 1.0])
    return w, optim.SGD([w], lr=0.5, momentum=0.5)


def test_hooks_are_called_before_and_after_a_step_with_its_arguments() -> None:
    w, optimizer = made()
    seen: list[Any] = []
    before = optimizer.register_step_pre_hook(lambda one, args, kwargs: seen.append((one, args, kwargs, w.tolist())))
    after = optimizer.register_step_post_hook(lambda one, args, kwargs: seen.append((one, args, kwargs, w.tolist())))
    grads = [np.ones(2)]
    optimizer.step(grads)

    assert seen == [
        (optimizer, (optimizer, grads), {}, [1.0, 2.0]),
        (optimizer, (optimizer, grads), {}, [0.5, 1.5]),
    ]
    before.remove()
    after.remove()
    optimizer.step()
    assert len(seen) == 2


def test_a_hook_may_change_the_arguments_of_a_step() -> None:
    w, optimizer = made()
    optimizer.register_step_pre_hook(lambda one, args, kwargs: ((one, [np.zeros(2)]), kwargs))
    optimizer.step()
    assert w.tolist() == [1.0, 2.0]

    optimizer.register_step_pre_hook(lambda one, args, kwargs: "other")
    with pytest.raises(ArgumentTypeError, match="None, or the arguments as a pair"):
        optimizer.step()
    assert w.tolist() == [1.0, 2.0]


async def test_hooks_of_awaited_steps_are_awaited() -> None:
    w, optimizer = made()
    seen: list[str] = []

    async def hook(one: Any, args: Any, kwargs: Any) -> None:
        await asyncio.sleep(0)
        seen.append("awaited")

    optimizer.register_step_pre_hook(hook)
    optimizer.register_step_post_hook(hook)
    await optimizer.step_async()
    assert seen == ["awaited", "awaited"]
    assert w.tolist() == [0.5, 1.5]

    with pytest.raises(ArgumentTypeError, match="which nobody awaits"):
        optimizer.step()


async def test_hooks_are_called_by_steps_of_compiled_trainings() -> None:
    w, optimizer = made()
    seen: list[int] = []
    step = ag.jit.train_step(lambda x: (w * x).sum(), optimizer)
    for _ in range(4):
        await step(np.ones(2))
    optimizer.register_step_post_hook(lambda one, args, kwargs: seen.append(1))
    for _ in range(3):
        await step(np.ones(2))

    assert len(seen) == 3


def test_hooks_of_states_may_change_them() -> None:
    _, optimizer = made()
    seen: list[str] = []
    optimizer.register_state_dict_pre_hook(lambda one: seen.append("second"))
    optimizer.register_state_dict_pre_hook(lambda one: seen.append("first"), prepend=True)
    optimizer.register_state_dict_post_hook(lambda one, state: {**state, "note": 1})
    saved = optimizer.state_dict()
    assert saved["note"] == 1
    assert seen == ["first", "second"]

    def faster(one: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {**state, "param_groups": [{**group, "lr": 7.0} for group in state["param_groups"]]}

    optimizer.register_load_state_dict_pre_hook(faster)
    optimizer.register_load_state_dict_post_hook(lambda one: seen.append(f"loaded {one.param_groups[0]['lr']}"))
    optimizer.load_state_dict(saved)
    assert seen[2:] == ["loaded 7.0"]


def test_a_copy_of_an_optimizer_has_no_hooks() -> None:
    _, optimizer = made()
    optimizer.register_step_pre_hook(lambda one, args, kwargs: None)

    assert not pickle.loads(pickle.dumps(optimizer))._hooks.of_steps
