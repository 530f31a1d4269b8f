"""A model of three stages with parameters, run on simulated workers or here; and how their gradients are compared."""

from __future__ import annotations

import numpy as np

import asyncgrad as ag
from asyncgrad.distributed import SimulatedTransport, stage

WORKERS = ("a", "b", "c", "d", "e", "f")


def layer(params, x):
    w, b = params
    return np.tanh(x @ w + b)


def make_params(count=3):
    rng = np.random.default_rng(0)
    return [(rng.normal(size=(4, 4)), rng.normal(size=4)) for _ in range(count)]


def inputs(count=4):
    rng = np.random.default_rng(1)
    return [rng.normal(size=(3, 4)) for _ in range(count)]


async def local_gradients():
    """The gradients of all parameters, and of a leaf at home, by a run without stages."""
    params = [tuple(ag.tensor(one, requires_grad=True) for one in pair) for pair in make_params()]
    scale = ag.tensor(1.5, requires_grad=True)
    loss = 0.0
    for x in inputs():
        y = scale * x
        for pair in params:
            y = layer(pair, y)
        loss = loss + (y * y).sum()
    await loss.backward()
    return [[one.grad.tolist() for one in pair] for pair in params], scale.grad.item()


def make_stages(transport, **options):
    return [
        stage(layer, pair, transport=transport, worker=worker, **options)
        for pair, worker in zip(make_params(), WORKERS, strict=False)
    ]


async def forward(stages, scale, batches=4):
    """The loss of some micro-batches, one after the other: the order of concurrent forwards would be the schedule's."""
    loss = 0.0
    for x in inputs(batches):
        y = scale * x
        for one in stages:
            y = await one(y)
        loss = loss + (y * y).sum()
    return loss


async def gradients(stages):
    return [[None if grad is None else grad.tolist() for grad in await one.grads()] for one in stages]


def simulated(**options):
    return SimulatedTransport(WORKERS, **options)


def laid_out_arrays():
    """Large arrays whose sums depend on how they lie in memory, and small ones."""
    rng = np.random.default_rng(2)
    cube = rng.normal(size=(20, 30, 40))
    views = [cube, cube.transpose(1, 2, 0), cube[::-1], cube[:, :, ::-1].transpose(2, 0, 1), np.asfortranarray(cube[0])]
    return [
        *views,
        np.broadcast_to(cube[0, 0], (700, 40)),
        np.broadcast_to(cube[0, :, 0].copy()[:, None], (30, 900)),
        cube[0, 0, 0],
    ]


def sum_and_strides(x):
    """What a stage sees of an array."""
    return x.sum(), np.array(x.strides), x.numpy().flags.aligned


async def check_layouts(one):
    """Raise unless a stage of `sum_and_strides` sees the bits and the order of axes that home has."""
    for array in laid_out_arrays():
        total, strides, is_aligned = await one(array)
        assert (total.item(), is_aligned) == (array.sum(), True)
        assert strides.tolist() == list(array.strides)
