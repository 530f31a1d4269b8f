"""Random graphs of heavy nodes: any number of workers, two loops, cancellations; the same bits, nothing left over."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from tests.core.engine.heavy import MANY, always, heavy_calling
from tests.support.arrays import bits_of_grads
from tests.support.threads import in_threads

SEEDS = range(12)
FORMULAS = (np.tanh, np.sin, np.negative, lambda grad: grad * 1.5)


def heavy_graph(seed: int) -> tuple[list[ag.Tensor], ag.Tensor]:
    """Return leaves, and a root that a random graph of heavy and light nodes leads to."""
    chooser, numbers = random.Random(seed), np.random.default_rng(seed)
    leaves = [ag.tensor(numbers.standard_normal(MANY), requires_grad=True) for _ in range(3)]
    made: list[Any] = list(leaves)
    for _ in range(chooser.randint(8, 20)):
        one, other = chooser.choices(made, k=2)
        made.append(heavy_calling(one * other if chooser.random() < 0.5 else one + other, chooser.choice(FORMULAS)))
    return leaves, (made[-1] + sum(chooser.choices(made, k=4))).sum()


def bits_without_workers(leaves: list[ag.Tensor], root: ag.Tensor) -> list[bytes]:
    """Return the gradients of a backward without workers; the graph is kept, and no gradient is left."""
    with ag.workers(0):
        ag.sync.backward(root, retain_graph=True)
    found = bits_of_grads(leaves)
    for leaf in leaves:
        leaf.grad = None
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
async def test_any_number_of_workers_gives_the_bits_of_none(seed):
    leaves, root = heavy_graph(seed)
    expected = bits_without_workers(leaves, root)

    for number in (1, 2, 4):
        with always(), ag.workers(number):
            await root.backward(retain_graph=True)
        assert bits_of_grads(leaves) == expected
        for leaf in leaves:
            leaf.grad = None


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_backward_cancelled_at_any_turn_leaves_no_gradient_and_no_work(seed):
    leaves, root = heavy_graph(seed)
    expected = bits_without_workers(leaves, root)

    chooser = random.Random(seed)
    with always(), ag.workers(2):
        for _ in range(4):
            task = asyncio.create_task(root.backward(retain_graph=True))
            for _ in range(chooser.randint(1, 12)):
                await asyncio.sleep(0)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                assert bits_of_grads(leaves) == [None] * len(leaves)
            else:
                assert bits_of_grads(leaves) == expected
            for leaf in leaves:
                leaf.grad = None
            assert asyncio.all_tasks() == {asyncio.current_task()}
        await root.backward(retain_graph=True)
    assert bits_of_grads(leaves) == expected
    assert ag.engine.statistics().in_flight == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_two_loops_that_share_workers_and_a_graph_get_the_sum_of_their_gradients(seed):
    leaves, root = heavy_graph(seed)
    bits_without_workers(leaves, root)
    with ag.workers(0):
        for _ in range(2):
            ag.sync.backward(root, retain_graph=True)
    expected = bits_of_grads(leaves)
    for leaf in leaves:
        leaf.grad = None

    def backward(number: int) -> None:
        with always(), ag.workers(2):
            asyncio.run(root.backward(retain_graph=True))

    in_threads(2, backward)

    assert bits_of_grads(leaves) == expected
