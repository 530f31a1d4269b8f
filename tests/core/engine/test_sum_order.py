"""Sums of gradients have the same bits whatever finishes first."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncgrad as ag
from asyncgrad import sync
from tests.support.functions import awaiting, calling
from tests.support.loops import on_each_loop
from tests.support.sampling import cases
from tests.support.strategies import GraphProgram, programs
from tests.support.turns import settle

WIDTH = 6


def rough(seed: int, *shape: int) -> np.ndarray:
    """Numbers of many magnitudes, whose sum has other bits in another order."""
    generator = np.random.default_rng(seed)
    return generator.standard_normal(shape) * 10.0 ** generator.integers(-8, 9, shape)


def layered(x: ag.Tensor, node: Any) -> ag.Tensor:
    """Three layers in which every value is summed from all of the layer before; `node` makes each hub."""
    layer = [node(np.multiply(x, rough(index, 3))) for index in range(WIDTH)]
    for depth in (1, 2):
        sums = []
        for index in range(WIDTH):
            total = np.multiply(layer[0], rough(100 * depth + 10 * index, 3))
            for number, value in enumerate(layer[1:], 1):
                total = np.add(total, np.multiply(value, rough(100 * depth + 10 * index + number, 3)))
            sums.append(node(total))
        layer = sums
    total = layer[0]
    for value in layer[1:]:
        total = np.add(total, value)
    return total


def bits_without_overlap() -> bytes:
    x = ag.tensor(rough(7, 3), requires_grad=True)
    sync.backward(layered(x, lambda value: calling(value, lambda grad: None)), rough(8, 3))
    return x.grad.numpy().tobytes()


def test_the_sums_of_these_tests_have_other_bits_in_another_order():
    numbers = rough(1, 40)

    assert sum(numbers) != sum(numbers[::-1])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
async def test_sums_have_the_same_bits_under_any_schedule(seed):
    """Bodies end in an order drawn at random from those that have begun."""
    randomness = random.Random(seed)
    waiting: list[asyncio.Event] = []
    most = 0

    async def wait(grad):
        event = asyncio.Event()
        waiting.append(event)
        await event.wait()

    async def main():
        nonlocal most
        x = ag.tensor(rough(7, 3), requires_grad=True)
        backward = asyncio.ensure_future(ag.backward(layered(x, lambda value: awaiting(value, wait)), rough(8, 3)))
        while not backward.done():
            await settle()
            most = max(most, len(waiting))
            for event in randomness.sample(waiting, randomness.randint(0, len(waiting))):
                waiting.remove(event)
                event.set()
        await backward
        return x.grad.numpy().tobytes()

    assert await main() == bits_without_overlap()
    assert most == WIDTH


@on_each_loop
@pytest.mark.parametrize("seed", range(6))
def test_gradients_that_accumulate_have_the_same_bits_under_any_schedule(run, seed):
    """A leaf that has a gradient already, and gets more along edges of one node and of several."""
    randomness = random.Random(seed)

    def build(node):
        x = ag.tensor(rough(1, 3), requires_grad=True)
        x.grad = ag.tensor(rough(2, 3))
        total = np.multiply(x, x)
        for index in range(WIDTH):
            total = np.add(total, np.multiply(node(np.multiply(x, rough(index, 3))), x))
        return x, total

    async def wait(grad):
        for _ in range(randomness.randrange(5)):
            await asyncio.sleep(0)

    x, plain = build(lambda value: calling(value, lambda grad: None))
    sync.backward(plain, rough(9, 3))
    y, overlapping = build(lambda value: awaiting(value, wait))
    run(ag.backward(overlapping, rough(9, 3)))

    assert x.grad.numpy().tobytes() == y.grad.numpy().tobytes()


def roughened(program: GraphProgram, turns: list[int] | None) -> GraphProgram:
    """Return the program on rough numbers; its Functions wait so many turns, or none and are plain."""
    leaves = tuple((rough(index, *data.shape), needs) for index, (data, needs) in enumerate(program.leaves))
    grads = tuple(rough(50 + index, *grad.shape) for index, grad in enumerate(program.root_grads))
    steps = tuple(
        step._replace(turns=None if turns is None or step.turns is None else turns[index % len(turns)])
        for index, step in enumerate(program.steps)
    )
    return program._replace(leaves=leaves, root_grads=grads, steps=steps)


def bits_of(program: GraphProgram, drive: Any) -> list[bytes | None]:
    tensors = program.tensors()
    with np.errstate(all="ignore"):
        drive([tensors[root] for root in program.roots], program.root_grads)
    return [None if tensor.grad is None else tensor.grad.numpy().tobytes() for tensor in tensors]


@on_each_loop
@given(programs(), st.lists(st.integers(0, 6), min_size=1, max_size=12))
def test_random_graphs_have_the_same_bits_with_and_without_overlap(run, program, turns):
    alone = bits_of(roughened(program, None), sync.backward)
    overlapping = bits_of(roughened(program, turns), lambda roots, grads: run(ag.backward(roots, grads)))

    assert alone == overlapping


@on_each_loop
@given(st.data())
@settings(max_examples=cases(60))
def test_captured_gradients_have_the_same_bits_with_and_without_overlap(run, data):
    program = data.draw(programs())
    turns = data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=12))
    wanted = data.draw(st.lists(st.sampled_from(program.tracked), min_size=1, max_size=4))

    def captured(made: GraphProgram, grad: Any) -> list[bytes | None]:
        tensors = made.tensors()
        roots = [tensors[root] for root in made.roots]
        with np.errstate(all="ignore"):
            found = grad(roots, [tensors[index] for index in wanted], made.root_grads, allow_unused=True)
        return [None if gradient is None else gradient.numpy().tobytes() for gradient in found]

    overlapping = captured(roughened(program, turns), lambda *args, **options: run(ag.grad(*args, **options)))

    assert overlapping == captured(roughened(program, None), sync.grad)


@given(programs(functions=False), st.sets(st.integers(0, 11)))
@settings(max_examples=cases(60))
def test_the_fast_path_and_the_dependency_executor_give_the_same_bits(program, hooked):
    plain = roughened(program._replace(steps=tuple(step._replace(hooked=False) for step in program.steps)), None)
    steps = tuple(step._replace(hooked=index in hooked) for index, step in enumerate(plain.steps))

    assert bits_of(plain, sync.backward) == bits_of(plain._replace(steps=steps), sync.backward)
