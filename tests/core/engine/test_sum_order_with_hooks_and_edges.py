"""The order of every sum is the graph's, whoever ends first: with hooks, shared leaves, hand-set numbers and edges."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.graph import Edge, Node
from tests.core.engine.test_sum_order import rough
from tests.support.arrays import bits, bits_of_grads
from tests.support.functions import awaiting, calling
from tests.support.loops import on_each_loop


def waiting_at_random(randomness: random.Random) -> Callable[..., Any]:
    """An async hook or body that waits for some turns of the loop."""

    async def wait(*arguments: Any) -> None:
        for _ in range(randomness.randrange(6)):
            await asyncio.sleep(0)

    return wait


def nothing(*arguments: Any) -> None:
    """A hook or body that does nothing."""


def shared_leaves(
    hook: Callable[..., Any], place: str, node: Callable[[Any], Any]
) -> tuple[list[ag.Tensor], ag.Tensor]:
    """Three leaves, each fed by eight producers, some along several edges; a hook at every producer or leaf."""
    leaves = [ag.tensor(rough(index, 3), requires_grad=True) for index in range(3)]
    leaves[0].grad = ag.tensor(rough(40, 3))
    total = np.multiply(leaves[0], leaves[1])
    for index in range(8):
        parts = [np.multiply(each, rough(10 * index + number, 3)) for number, each in enumerate(leaves)]
        joined = node(np.add(np.add(parts[0], parts[1]), np.multiply(parts[2], leaves[2])))
        hooked = {"tensor": [*parts, joined], "node": [*parts, joined]}.get(place, [])
        for tensor in hooked:
            if place == "tensor":
                tensor.register_hook(hook)
            else:
                tensor.grad_fn.register_prehook(hook)
                tensor.grad_fn.register_hook(hook)
        total = np.add(total, joined)
    for each in leaves if place == "leaf" else []:
        each.register_hook(hook)
        each.register_post_accumulate_grad_hook(hook)
    return leaves, total


@pytest.mark.slow
@on_each_loop
@pytest.mark.parametrize("place", ["nowhere", "tensor", "node", "leaf"])
@pytest.mark.parametrize("seed", range(8))
def test_leaves_of_many_producers_have_the_same_bits_whichever_ends_first(run, seed, place):
    plain, out = shared_leaves(nothing, place, lambda x: calling(x, nothing))
    sync.backward(out, rough(9, 3))
    wait = waiting_at_random(random.Random(seed))
    overlapping, out = shared_leaves(wait, place, lambda x: awaiting(x, wait))
    run(ag.backward(out, rough(9, 3)))

    assert bits_of_grads(overlapping) == bits_of_grads(plain)


@on_each_loop
@pytest.mark.parametrize("seed", range(4))
def test_leaves_of_many_producers_have_the_same_bits_as_where_nobody_watches_at_all(run, seed):
    plain, out = shared_leaves(nothing, "nowhere", lambda x: x)
    sync.backward(out, rough(9, 3))
    hooked, out = shared_leaves(waiting_at_random(random.Random(seed)), "leaf", lambda x: x)
    run(ag.backward(out, rough(9, 3)))

    assert bits_of_grads(hooked) == bits_of_grads(plain)


@on_each_loop
@pytest.mark.parametrize("seed", range(4))
def test_a_hook_that_waits_before_the_first_sum_leaves_the_order_alone(run, seed):
    """The order is fixed when the first hook waits, in the middle of the sums."""
    randomness = random.Random(seed)

    def build(hook: Callable[..., Any]) -> tuple[ag.Tensor, ag.Tensor]:
        x = ag.tensor(rough(1, 3), requires_grad=True)
        shared = np.multiply(x, 1.0)
        products = [np.multiply(shared, rough(index, 3)) for index in range(10)]
        products[seed].register_hook(hook)
        total = products[0]
        for product in products[1:]:
            total = np.add(total, product)
        return x, total

    x, out = build(nothing)
    sync.backward(out, np.ones(3))
    y, out = build(waiting_at_random(randomness))
    run(ag.backward(out, np.ones(3)))

    assert bits_of_grads([x]) == bits_of_grads([y])


@on_each_loop
@pytest.mark.parametrize("seed", range(12))
def test_hand_set_sequence_numbers_leave_the_order_to_the_graph(run, seed):
    """Which of two producers runs first is then not to be read off their numbers; and some have the same."""

    def build(node: Callable[[Any], Any]) -> tuple[ag.Tensor, ag.Tensor]:
        randomness = random.Random(seed)
        x = ag.tensor(rough(1, 3), requires_grad=True)
        values: list[Any] = [x]
        for index in range(14):
            one, other = randomness.choice(values), randomness.choice(values)
            made = node(np.add(np.multiply(one, rough(index, 3)), other))
            made.grad_fn.sequence_nr = randomness.randrange(10)
            values.append(made)
        total = values[1]
        for value in values[2:]:
            total = np.add(total, value)
        return x, total

    x, out = build(lambda value: calling(value, nothing))
    sync.backward(out, rough(9, 3))
    wait = waiting_at_random(random.Random(seed))
    y, out = build(lambda value: awaiting(value, wait))
    run(ag.backward(out, rough(9, 3)))

    assert bits_of_grads([x]) == bits_of_grads([y])


@pytest.mark.parametrize("seed", range(6))
async def test_producers_with_one_hand_set_number_come_in_the_order_in_which_they_became_ready(seed):
    def build(wait: Callable[..., Any]) -> tuple[ag.Tensor, ag.Tensor]:
        x = ag.tensor(rough(1, 3), requires_grad=True)
        total = None
        for index in range(7):

            async def scale(grad, index=index):
                await wait()
                return grad.numpy() * rough(index, 3)

            made = awaiting(x, scale)
            made.grad_fn.sequence_nr = 1
            total = made if total is None else np.add(total, made)
        return x, total

    async def at_once() -> None:
        return None

    found = []
    for wait in (at_once, waiting_at_random(random.Random(seed))):
        x, out = build(wait)
        await ag.backward(out, rough(9, 3))
        found.append(bits_of_grads([x]))

    assert found[0] == found[1]


@pytest.mark.parametrize("seed", range(6))
async def test_edges_that_lead_against_the_order_leave_it_to_the_graph(seed):
    """The newest producer hangs below the oldest, so it ends last where nothing overlaps."""

    class Scale(Node):
        __slots__ = ("factors", "wait")

        async def apply(self, grads):
            await self.wait()
            return tuple(grads[0] * factor for factor in self.factors)

    def scale(factors: list[Any], wait: Callable[..., Any], targets: list[Node]) -> Scale:
        node = Scale([Edge(target, 0) for target in targets], [None])
        node.factors, node.wait = factors, wait
        return node

    async def at_once() -> None:
        return None

    def build(wait: Callable[..., Any]) -> tuple[ag.Tensor, Any]:
        x = ag.tensor(rough(1, 3), requires_grad=True)
        accumulator = ag.graph.get_gradient_edge(x).node
        old = scale([rough(2, 3)], wait, [accumulator])
        middle = scale([rough(3, 3)], wait, [accumulator])
        newest = scale([rough(4, 3)], wait, [accumulator])
        old.set_next_edges([Edge(accumulator, 0), Edge(newest, 0)])
        old.factors = [rough(5, 3), rough(6, 3)]
        return x, scale([rough(7, 3), rough(8, 3)], wait, [middle, old])

    found = []
    for wait in (at_once, waiting_at_random(random.Random(seed))):
        x, root = build(wait)
        await ag.backward(ag.graph.GradientEdge(root, 0), np.ones(3))
        found.append(bits_of_grads([x]))

    assert found[0] == found[1]


@on_each_loop
@pytest.mark.parametrize("seed", range(6))
def test_captured_and_retained_gradients_have_the_same_bits_too(run, seed):
    def build(node: Callable[[Any], Any]) -> tuple[list[Any], ag.Tensor]:
        x = ag.tensor(rough(1, 3), requires_grad=True)
        hub = np.multiply(x, 1.0)
        hub.retain_grad()
        total = np.multiply(hub, hub)
        for index in range(8):
            total = np.add(total, node(np.multiply(hub, rough(index, 3))))
        return [hub, x], total

    plain, out = build(lambda value: calling(value, nothing))
    expected = [bits(grad) for grad in sync.grad(out, plain, rough(9, 3))]
    wait = waiting_at_random(random.Random(seed))
    overlapping, out = build(lambda value: awaiting(value, wait))
    captured = [bits(grad) for grad in run(ag.grad(out, overlapping, rough(9, 3)))]

    assert captured == expected
    assert bits_of_grads(plain[:1]) == bits_of_grads(overlapping[:1]) == captured[:1]
