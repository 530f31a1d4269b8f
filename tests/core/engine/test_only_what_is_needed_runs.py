"""Nothing is computed that a backward does not need."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.core.graph.node import GradientEdge
from asyncgrad.extend import derivative, primitive
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf


def noting_name(seen: list[str], name: str) -> Any:
    return lambda grad: seen.append(name)


async def test_nodes_that_lead_to_no_input_do_not_run():
    seen: list[str] = []
    x, y = leaf(1.0), leaf(2.0)
    wanted, unwanted = calling(x, noting_name(seen, "wanted")), calling(y, noting_name(seen, "unwanted"))

    await ag.grad(np.multiply(wanted, unwanted), x)

    assert seen == ["wanted"]


async def test_nodes_below_the_inputs_do_not_run():
    seen: list[str] = []
    below = calling(leaf(1.0), noting_name(seen, "below"))
    middle = calling(below, noting_name(seen, "middle"))
    above = calling(middle, noting_name(seen, "above"))

    await ag.grad(above, below)
    assert seen == ["above", "middle"]
    seen.clear()
    await ag.backward(above, inputs=[below])
    # PyTorch runs the node of a non-leaf among the inputs of a backward.
    assert seen == ["above", "middle", "below"]


def counted_product(calls: list[str]) -> Any:
    """A product whose formulas note that they were called."""

    @primitive()
    def product(x, y):
        return x * y

    def note(name, value):
        calls.append(name)
        return value

    derivative(product, "x")(lambda g, y: note("x", g * y))
    derivative(product, "y")(lambda g, x: note("y", g * x))
    return product


def unchanged(value):
    return value


def with_hook(value):
    value.register_hook(lambda grad: None)
    return value


def in_a_function(value):
    return calling(value, lambda grad: None)


@pytest.mark.parametrize("dressed", [unchanged, with_hook, in_a_function], ids=["fast path", "hooked", "slow path"])
@pytest.mark.parametrize("create_graph", [False, True])
async def test_formulas_of_edges_that_lead_to_no_input_are_not_called(dressed, create_graph):
    calls: list[str] = []
    x, y = leaf(2.0), leaf(3.0)
    out = dressed(counted_product(calls)(x, y))

    (found,) = await ag.grad(out, y, create_graph=create_graph)

    assert found.item() == 2.0
    assert calls == ["y"]


@pytest.mark.parametrize("dressed", [unchanged, with_hook, in_a_function], ids=["fast path", "hooked", "slow path"])
async def test_formulas_of_leaves_that_are_no_inputs_of_a_backward_are_not_called(dressed):
    calls: list[str] = []
    x, y = leaf(2.0), leaf(3.0)
    out = dressed(counted_product(calls)(x, y))

    await ag.backward(out, inputs=[x])

    assert x.grad.item() == 3.0
    assert calls == ["x"]


async def test_formulas_of_arguments_that_do_not_require_grad_are_not_called():
    calls: list[str] = []
    x = leaf(2.0)

    await ag.backward(counted_product(calls)(x, ag.tensor([3.0])))

    assert calls == ["x"]


async def test_a_body_can_ask_which_of_its_gradients_this_backward_needs():
    answers: list[list[bool]] = []

    class Both(ag.graph.Node):
        def apply(self, grads):
            answers.append([self.task_should_compute_output(index) for index in range(self.num_outputs)])
            return grads * self.num_outputs

    x, y = leaf(1.0), leaf(2.0)
    edges = [ag.graph.get_gradient_edge(x), ag.graph.get_gradient_edge(y)]
    node = Both([*(ag.graph.Edge(*edge) for edge in edges), None], [edges[0].node.input_metadata[0]])
    root = GradientEdge(node, 0)

    await ag.backward(root)
    await ag.grad(root, y)
    await ag.backward(root, inputs=[x])

    assert answers == [[True, True, False], [False, True, False], [True, False, False]]
    assert node.should_compute_output(0)
    assert not node.should_compute_output(2)
    assert node.task_should_compute_output(0)


async def test_async_bodies_that_lead_to_no_input_are_not_awaited():
    seen: list[str] = []

    async def note(grad):
        seen.append("unwanted")

    x, y = leaf(1.0), leaf(2.0)

    await ag.grad(np.multiply(x, awaiting(y, note)), x)

    assert seen == []
