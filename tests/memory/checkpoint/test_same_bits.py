"""Gradients of checkpointed models are bitwise those without checkpoints, for each kind."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from tests.memory.checkpoint.models import MODELS, chained, checkpointed, maybe_async, without_checkpoints

each_model = pytest.mark.parametrize("model", sorted(MODELS))
each_kind = pytest.mark.parametrize("use_reentrant", [True, False], ids=["reentrant", "recomputed"])
each_function = pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
each_chain = pytest.mark.parametrize(
    "budget",
    [{}, {"snapshots": 1}, {"snapshots": 2}, {"snapshots": 50}, {"memory_budget": 14_000}, {"memory_budget": 10**8}],
    ids=str,
)


def grad_bytes(model):
    return [leaf.grad.numpy().tobytes() for leaf in model.leaves]


def expected_bytes(name):
    model = MODELS[name]()
    sync.backward(without_checkpoints(model))
    return grad_bytes(model)


@pytest.mark.slow
@each_model
@each_kind
@each_function
async def test_checkpointed_layers_give_the_same_bits(model, use_reentrant, is_async):
    made = MODELS[model]()
    await ag.backward(await checkpointed(made, is_async=is_async, use_reentrant=use_reentrant))

    assert grad_bytes(made) == expected_bytes(model)


@each_model
@each_kind
def test_a_blocking_backward_gives_the_same_bits(model, use_reentrant):
    made = MODELS[model]()
    sync.backward(asyncio.run(checkpointed(made, is_async=False, use_reentrant=use_reentrant)))

    assert grad_bytes(made) == expected_bytes(model)


@each_model
@each_kind
@pytest.mark.parametrize("segments", [1, 2, 3])
def test_layers_in_segments_give_the_same_bits(model, use_reentrant, segments):
    from_layers = MODELS[model]()
    end = ag.checkpoint_sequential(from_layers.layers, segments, from_layers.start, use_reentrant=use_reentrant)
    sync.backward(without_checkpoints(from_layers._replace(layers=[], start=end)))

    assert grad_bytes(from_layers) == expected_bytes(model)


@pytest.mark.slow
@each_model
@each_function
@each_chain
async def test_a_chain_under_any_budget_gives_the_same_bits_and_its_second_run_too(model, is_async, budget):
    made = MODELS[model]()
    found = []
    for _ in range(2):
        await ag.backward(await chained(made, is_async=is_async, **budget))
        found.append(grad_bytes(made))
        for leaf in made.leaves:
            leaf.grad = None

    assert found == [expected_bytes(model)] * 2


@each_model
@each_function
async def test_ag_grad_through_layers_that_are_not_reentrant_gives_the_same_bits(model, is_async):
    made = MODELS[model]()
    loss = await checkpointed(made, is_async=is_async, use_reentrant=False)

    assert [grad.numpy().tobytes() for grad in await ag.grad(loss, made.leaves)] == expected_bytes(model)


@each_model
@each_kind
async def test_nested_checkpoints_give_the_same_bits(model, use_reentrant):
    made = MODELS[model]()

    def nested(layer, depth):
        if not depth:
            return layer
        return lambda state: ag.checkpoint(nested(layer, depth - 1), state, use_reentrant=use_reentrant)

    deep = made._replace(layers=[nested(layer, 3) for layer in made.layers])
    await ag.backward(without_checkpoints(deep))

    assert grad_bytes(made) == expected_bytes(model)


@each_kind
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_weights_that_are_arguments_and_shared_get_the_same_bits(use_reentrant, steps):
    random = np.random.default_rng(0)
    arrays = random.standard_normal((6, 6)), random.standard_normal(6)

    def several(x, w):
        for _ in range(steps):
            x = np.tanh(w @ x)
        return x

    def found(call):
        w, x = (ag.tensor(array, requires_grad=True) for array in arrays)
        y = x
        for _ in range(4):
            y = call(several, y, w)
        sync.backward(y.sum())
        return w.grad.numpy().tobytes(), x.grad.numpy().tobytes()

    def checkpoint(*arguments):
        return ag.checkpoint(*arguments, use_reentrant=use_reentrant)

    assert found(checkpoint) == found(lambda fn, *arguments: fn(*arguments))


@each_kind
@each_function
async def test_second_derivatives_have_the_same_bits(use_reentrant, is_async):
    async def main(checkpoint):
        random = np.random.default_rng(0)
        x, w = (ag.tensor(random.standard_normal((3, 3)), requires_grad=True) for _ in range(2))
        start = x * 2
        layer = lambda x, w: (np.tanh(x @ w), np.exp(x) * w)
        if checkpoint:
            results = ag.checkpoint(maybe_async(layer, is_async), start, w, use_reentrant=use_reentrant)
            first, second = await results if is_async else results
        else:
            first, second = layer(start, w)
        loss = (first * second).sum()
        if checkpoint and use_reentrant:
            with pytest.warns(UserWarning, match="create_graph"):
                await ag.backward(loss, create_graph=True)
            penalty = np.square(x.grad).sum() + np.square(w.grad).sum()
        else:
            penalty = sum(np.square(grad).sum() for grad in await ag.grad(loss, [x, w], create_graph=True))
        x.grad = w.grad = None
        await ag.backward(penalty)
        found = x.grad.numpy().copy(), w.grad.numpy().copy()
        x.grad = w.grad = None
        return found

    for ours, theirs in zip(await main(True), await main(False), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


async def test_second_derivatives_through_a_chain_have_the_same_bits():
    async def main(chain):
        x, w = ag.tensor([0.3, 0.4], requires_grad=True), ag.tensor([0.5, 0.6], requires_grad=True)
        steps = [lambda y: np.tanh(y * w) + y] * 4
        y = x
        if chain:
            y = ag.checkpoint_chain(steps, x, snapshots=2)
        else:
            for step in steps:
                y = step(y)
        with pytest.warns(UserWarning, match="create_graph"):
            await ag.backward(np.square(y).sum(), create_graph=True)
        penalty = np.square(x.grad).sum() + np.multiply(x.grad, w.grad).sum()
        x.grad = w.grad = None
        await ag.backward(penalty)
        found = x.grad.numpy().copy(), w.grad.numpy().copy()
        x.grad = w.grad = None
        return found

    for ours, theirs in zip(await main(True), await main(False), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
