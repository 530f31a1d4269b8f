"""What a creation hook may not do, and what then happens to the operation that called it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import GraphError, HookError, HookTypeError
from asyncgrad.graph import Node, node_creation_hook
from tests.support.functions import function
from tests.support.leaves import leaf
from tests.support.refusals import refused

pytestmark = pytest.mark.usefixtures("recording_is_left_on")


@pytest.mark.parametrize("result", [0, True, leaf(1.0)], ids=["zero", "true", "tensor"])
def test_a_hook_returns_none(result):
    x = leaf(1.0) * 1
    with node_creation_hook(lambda node: result), refused(HookError, RuntimeError, "must return None", "Multiply"):
        x * 2


@pytest.mark.parametrize("hook", [None, 3, "text"], ids=repr)
def test_a_hook_is_something_to_call(hook):
    with refused(HookTypeError, TypeError, "must be callable"):
        node_creation_hook(hook)


def test_a_hook_is_no_async_def():
    async def later(node: Any) -> None:
        raise AssertionError

    with refused(HookTypeError, TypeError, "later", "is an async def", "plain function"):
        node_creation_hook(later)
    with node_creation_hook(lambda node: later(node)), refused(HookError, RuntimeError, "must return None"):
        leaf(1.0) * 2


MAKING: dict[str, Any] = {
    "an operation": lambda x: x * 2,
    "an operation with grad enabled": lambda x: ag.enable_grad(lambda: x * 2)(),
    "a join": lambda x: np.concatenate([x, x]),
    "a Function": lambda x: function(lambda ctx, t: t.numpy() * 2).apply(x),
    "a node of one's own": lambda x: Node(),
    "an operation under another hook": lambda x: node_creation_hook(print)(lambda: x * 2)(),
}


@pytest.mark.parametrize("make", MAKING.values(), ids=MAKING)
def test_a_hook_makes_no_nodes_itself(make):
    x = leaf(1.0) * 1
    with node_creation_hook(lambda node: make(x)):
        with refused(GraphError, RuntimeError, "a node creation hook made a node itself", "no_grad()"):
            x * 3
        with pytest.raises(GraphError, match="made a node itself"):
            x * 4


def test_a_hook_may_compute_what_is_not_recorded():
    x, seen = leaf(3.0) * 1, []

    def look(node: Any) -> None:
        with ag.no_grad():
            seen.append((x * 2).item())
        seen.append((x.detach() * 2).item())

    with node_creation_hook(look):
        x * 5

    assert seen == [6.0, 6.0]


def test_a_hook_that_raises_stops_its_operation_and_nothing_else():
    x, seen = leaf(1.0) * 1, []

    def look(node: Any) -> None:
        seen.append(node)
        if len(seen) == 1:
            raise KeyError

    with node_creation_hook(look):
        with pytest.raises(KeyError):
            x * 2
        y = x * 3

    assert y.grad_fn is seen[1]


def test_a_hook_that_raises_in_a_backward_fails_it():
    x = leaf(2.0)
    y = x * x

    def look(node: Any) -> None:
        raise KeyError

    with node_creation_hook(look), pytest.raises(KeyError):
        sync.grad(y, [x], create_graph=True)

    assert ag.is_grad_enabled()
