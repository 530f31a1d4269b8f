"""On any schedule a backward gives the same gradients: the oracle's, and of floats the same bits."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import numpy as np

import asyncgrad as ag
from asyncgrad import sync
from tests.core.engine.schedules import Alone, each_order, holds, no_task_is_left, random_graph, randomness
from tests.core.engine.stepwise import StepGraph, Steps
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf
from tests.support.turns import turns

# The oracle's.


def some_inputs(random: Random, graph: StepGraph) -> list[int]:
    """Draw values to limit a backward to, of which the roots lead to the first.

    Where a lone root leads to none its hooks run all the same, as in PyTorch; the model does not know that.
    """
    watched, count = graph.watched, len(graph.watched.tensors)
    makers = {root: watched.maker(root) for root in graph.roots}
    reached = [
        index
        for index in range(count)
        if any(index == root or watched.is_below(index, maker) for root, maker in makers.items() if maker is not None)
    ]
    return [random.choice(reached), *[random.randrange(count) for _ in range(random.randrange(3))]]


def expect_nested(graph: StepGraph, steps: Steps) -> None:
    """Let the model accumulate what the nested backward passes do whose bodies have run."""
    numbers = [nr for nr, operation in enumerate(graph.watched.operations) if operation.name == "nested"]
    for number, (index, grad) in zip(numbers, graph.nested, strict=True):
        if f"nested {number} begins" in steps.names:
            graph.watched.accumulate(index, grad)


@each_order
def test_the_gradients_of_a_random_graph_are_the_oracles(order):
    async def main():
        graph = random_graph(randomness())
        await ag.backward(graph.root_tensors, graph.root_grads)
        graph.expect_backward()
        assert graph.watched.actual() == graph.watched.expected()
        assert no_task_is_left()

    holds(main, order)


@each_order
def test_the_gradients_of_a_random_graph_are_the_oracles_where_inputs_limit_the_backward(order):
    async def main():
        random, steps = randomness(), Steps()
        graph = random_graph(random, steps)
        tensors = graph.watched.tensors
        inputs = some_inputs(random, graph)
        await ag.backward(graph.root_tensors, graph.root_grads, inputs=[tensors[index] for index in inputs])
        graph.watched.expect_backward(graph.roots, graph.root_grads, inputs)
        expect_nested(graph, steps)
        assert graph.watched.actual() == graph.watched.expected()
        assert no_task_is_left()

    holds(main, order)


@each_order
def test_the_captured_gradients_of_a_random_graph_are_the_oracles(order):
    async def main():
        random, steps = randomness(), Steps()
        graph = random_graph(random, steps)
        tensors = graph.watched.tensors
        inputs = some_inputs(random, graph)
        expected = graph.watched.expect_grad(graph.roots, graph.root_grads, inputs)
        found = await ag.grad(
            graph.root_tensors, [tensors[index] for index in inputs], graph.root_grads, allow_unused=True
        )
        assert [None if grad is None else grad.tolist() for grad in found] == [
            None if grad is None else grad.tolist() for grad in expected
        ]
        expect_nested(graph, steps)
        assert graph.watched.actual() == graph.watched.expected()
        assert no_task_is_left()

    holds(main, order)


# The same bits.

#: Their sum depends on the order of addition.
FACTORS = [0.1, 1e16, 0.7, -1e16, 1e-3]


def summing(x: ag.Tensor, passing: Any) -> list[ag.Tensor]:
    """Several roots over one tensor that many bodies hand gradients to, which itself sums into one leaf."""
    middle = passing(np.multiply(x, 0.3))
    branches = [passing(np.multiply(middle, factor)) for factor in FACTORS]
    return [branches[0], np.add(branches[1], branches[2]), np.add(np.add(branches[3], branches[4]), passing(x))]


@each_order
def test_the_sums_of_floats_have_the_same_bits(order):
    x = leaf(1.0, 3.0)
    sync.backward(summing(x, lambda y: np.multiply(y, 1.0)), [np.ones(2)] * 3)
    assert x.grad is not None
    expected = x.grad.numpy().tobytes()

    async def main():
        random, x = randomness(), leaf(1.0, 3.0)

        def passing(y: ag.Tensor) -> Any:
            count = random.randrange(4)
            return awaiting(y, lambda grad: turns(count)) if count else calling(y, lambda grad: None)

        await ag.backward(summing(x, passing), [np.ones(2)] * 3)
        assert x.grad is not None
        assert x.grad.numpy().tobytes() == expected

    holds(main, order)


# Several at once.


@each_order
def test_backwards_at_once_whose_leaves_have_async_hooks_all_count(order):
    async def main():
        leaves = [leaf(1.0), leaf(1.0)]
        before, after = [Alone(1) for _ in leaves], [Alone() for _ in leaves]
        for x, hook, accumulated in zip(leaves, before, after, strict=True):
            x.register_hook(hook)
            x.register_post_accumulate_grad_hook(accumulated)

        async def backward(factor: float) -> None:
            await turns(1)
            a, b = leaves
            await ag.backward(np.add(np.multiply(a, factor), np.multiply(b, 2.0 * factor)))

        await asyncio.gather(backward(1.0), backward(10.0), backward(100.0))
        assert [x.grad.item() for x in leaves] == [111.0, 222.0]
        for hook in (*before, *after):
            assert hook.runs == 3
            assert not hook.overlapped

    holds(main, order)


class ScaledElsewhere(ag.Function):
    """x * factor, both ways computed elsewhere."""

    @staticmethod
    async def forward(ctx, x, factor, modes):
        ctx.factor = factor
        modes.append(ag.is_grad_enabled())
        await turns(2)
        modes.append(ag.is_grad_enabled())
        return x.numpy() * factor

    @staticmethod
    async def backward(ctx, grad):
        await turns(2)
        return np.multiply(grad, ctx.factor), None, None


@each_order
def test_async_forwards_that_overlap_each_other_and_backwards_record_what_they_record_alone(order):
    async def main():
        w, inside, outside = leaf(2.0), [], []

        async def model(factor: float) -> None:
            await turns(1)
            first = np.multiply(w, 3.0)
            second = await ScaledElsewhere.apply(first, factor, inside)
            outside.append(ag.is_grad_enabled())
            await np.multiply(second, w).backward()

        await asyncio.gather(model(1.0), model(10.0), model(100.0))
        # That of 3 w² times each factor.
        assert w.grad.item() == 6.0 * 2.0 * 111.0
        assert inside == [False] * 6
        assert outside == [True] * 3

    holds(main, order)
