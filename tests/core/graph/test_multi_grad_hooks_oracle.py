"""A multi-grad hook is called when PyTorch calls it, with the same gradients."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.graph import register_multi_grad_hook
from tests.core.graph.observing import Calls, observed
from tests.support.leaves import leaf

torch = pytest.importorskip("torch")


class ObservedGraph(NamedTuple):
    """A graph on the leaves a, b and c, as names and tensors; `m` is NumPy or PyTorch."""

    build: Callable[[Any, dict[str, Any]], dict[str, Any]]
    #: Which of its tensors are roots.
    roots: tuple[str, ...]


def squared_product(m: Any, t: dict[str, Any]) -> dict[str, Any]:
    t["x"] = t["a"] * t["b"]
    t["y"] = t["x"] * t["x"]
    t["root"] = m.sum(t["y"])
    return t


def fan(m: Any, t: dict[str, Any]) -> dict[str, Any]:
    t["x"] = t["a"] * 2.0
    t["y"] = t["x"] * t["b"]
    t["z"] = t["x"] * t["c"]
    t["root"] = m.sum(t["y"] + t["z"])
    t["other"] = m.sum(t["z"] * 3.0)
    return t


def ladder(m: Any, t: dict[str, Any]) -> dict[str, Any]:
    t["x"] = t["a"] + t["b"]
    t["y"] = m.sin(t["x"]) * t["a"]
    t["z"] = m.exp(t["y"] * 0.1) + t["x"]
    t["root"] = m.sum(t["z"] * t["c"])
    return t


SCENES = {
    "chain": ObservedGraph(squared_product, ("root",)),
    "fan": ObservedGraph(fan, ("root", "other")),
    "ladder": ObservedGraph(ladder, ("root",)),
}

LISTS = {
    "leaves": ("a", "b", "c"),
    "non-leaves": ("x", "y"),
    "both": ("y", "a", "x", "b"),
    "one twice": ("x", "a", "x", "a"),
    "one": ("x",),
}

#: What is run, by the letters of the wanted inputs and whether it is a grad(); None is a plain backward.
ACTIONS: tuple[tuple[str, str], ...] = (
    ("backward", ""),
    ("backward", "a"),
    ("backward", "bx"),
    ("backward", "y"),
    ("grad", "x"),
    ("grad", "xy"),
    ("backward", ""),
)


def scene_calls(module: Any, engine: Any, scene: ObservedGraph, names: tuple[str, ...], mode: str) -> list[list[Any]]:
    """What the hook is called with in each action, in turn."""
    make = functools.partial(ag.tensor if module is np else module.tensor, requires_grad=True)
    dtype = np.float64 if module is np else module.float64
    leaves = {name: make([0.5 + index, -1.25], dtype=dtype) for index, name in enumerate("abc")}
    tensors = scene.build(module, leaves)
    calls = Calls()
    register = register_multi_grad_hook if module is np else engine.graph.register_multi_grad_hook
    register([tensors[name] for name in names], calls, mode=mode)
    sections = []
    for root, (action, wanted) in itertools.product(scene.roots, ACTIONS):
        calls.seen = []
        inputs = [tensors[name] for name in wanted if name in tensors]
        if action == "grad":
            engine.grad(tensors[root], inputs, retain_graph=True, allow_unused=True)
        else:
            engine.backward(tensors[root], inputs=inputs or None, retain_graph=True)
        sections.append(calls.seen)
    return sections


def rounded(sections: Any) -> Any:
    if isinstance(sections, list):
        return [rounded(part) for part in sections]
    return None if sections is None else round(sections, 10)


@pytest.mark.parametrize("mode", ["all", "any"])
@pytest.mark.parametrize("names", LISTS.values(), ids=LISTS)
@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
def test_calls_are_those_of_pytorch(scene, names, mode):

    ours = scene_calls(np, ag.sync, scene, names, mode)
    theirs = scene_calls(torch, torch.autograd, scene, names, mode)

    assert rounded(ours) == rounded(theirs)
    assert any(ours)


def test_what_the_hook_returns_counts_for_nothing_as_in_pytorch():
    theirs = torch.tensor([1.0, 2.0], requires_grad=True)
    x = leaf(1.0, 2.0)
    torch.autograd.graph.register_multi_grad_hook([theirs], lambda grads: grads[0] * 10)
    register_multi_grad_hook([x], lambda grads: grads[0] * 10)

    (theirs * 3).sum().backward()
    ag.sync.backward((x * 3).sum())

    assert x.grad.tolist() == theirs.grad.tolist() == [3.0, 3.0]


def test_a_leaf_that_grad_captures_is_observed_where_pytorch_raises():
    theirs = torch.tensor([1.0, 2.0], requires_grad=True)
    torch.autograd.graph.register_multi_grad_hook([theirs], lambda grads: None)
    with pytest.raises(RuntimeError):
        torch.autograd.grad((theirs * 3).sum(), [theirs])
    x = leaf(1.0, 2.0)
    calls = observed(x)

    (grad,) = ag.sync.grad((x * 3).sum(), [x])

    assert calls.seen == [[grad.tolist()]] == [[[3.0, 3.0]]]


def test_mode_any_does_not_mind_a_leaf_that_grad_captures():
    x = leaf(1.0, 2.0)
    calls = observed(x, mode="any")

    ag.sync.grad((x * 3).sum(), [x])

    assert calls.seen == [[3.0, 3.0]]
