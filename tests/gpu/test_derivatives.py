"""Derivatives on the GPU: of any order, against differences, through checkpoints, and with saved tensors elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn
from asyncgrad.testing import MemoryStore

POINTS = np.random.default_rng(3).uniform(0.5, 1.5, (4, 4))


def exponential(x):
    """The exponential of a symmetric matrix, whatever the signs of its eigenvectors."""
    values, vectors = np.linalg.eigh(x + x.T)
    return (vectors * np.exp(values)) @ vectors.T


def squared_singular_values(x):
    """A product of three factors, whatever the signs of the singular vectors."""
    left, values, right = np.linalg.svd(x)
    return (left * values**2) @ right


FUNCTIONS = {
    "elementwise": lambda x: np.tanh(x) * np.exp(x) + np.sqrt(x) / np.log1p(x),
    "products": lambda x: x @ x.T @ np.sin(x),
    "reductions": lambda x: x.sum(axis=0) * x.max(axis=1) + np.mean(x * x),
    "softmax": lambda x: nn.softmax(x, axis=1) * nn.log_softmax(x, axis=0),
    "indexing": lambda x: x[1:, ::2] * x[[0, 2, 2]][:, 1:3],
    "inverse": lambda x: np.linalg.inv(x @ x.T + 3 * ag.tensor(np.eye(4), device=x.device)),
    "eigenvectors": exponential,
    "singular vectors": squared_singular_values,
    "cholesky": lambda x: np.linalg.cholesky(x @ x.T + 3 * ag.tensor(np.eye(4), device=x.device)),
    "solution": lambda x: np.linalg.solve(x @ x.T + 3 * ag.tensor(np.eye(4), device=x.device), np.exp(x)),
    "layer norm": lambda x: nn.layer_norm(x, (4,)) * nn.gelu(x),
    "convolution": lambda x: nn.conv2d(x.reshape(1, 1, 4, 4), x[:2, :2].reshape(1, 1, 2, 2), padding=1),
}

each_function = pytest.mark.parametrize("name", FUNCTIONS)


def here(tensor):
    return tensor.detach().to("cpu").numpy()


@each_function
async def test_first_and_second_derivatives_are_those_of_the_cpu(gpu, name):
    async def derivatives(device):
        x = ag.tensor(POINTS, device=device, requires_grad=True)
        (first,) = await ag.grad(FUNCTIONS[name](x).sum(), [x], create_graph=True)
        (second,) = await ag.grad((first * first).sum(), [x])
        return here(first), here(second)

    found, right = (await derivatives(gpu), await derivatives("cpu"))

    for ours, theirs in zip(found, right, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-8 * np.abs(theirs).max())


@each_function
async def test_gradients_in_double_precision_agree_with_differences(gpu, name):
    assert await ag.gradcheck(FUNCTIONS[name], ag.tensor(POINTS, device=gpu, requires_grad=True))


async def test_a_write_in_place_and_into_a_view_has_the_gradient_of_the_cpu(gpu):
    async def gradient(device):
        x = ag.tensor(POINTS, device=device, requires_grad=True)
        y = x * 1
        y[1:3] *= 3
        y.T[:, 0] = y[2] + y[3]
        part = y[2:]
        part += 1
        await (y * y).sum().backward()
        return here(x.grad)

    found, right = (await gradient(gpu), await gradient("cpu"))

    np.testing.assert_allclose(found, right, rtol=1e-12)


@pytest.mark.parametrize("create_graph", [False, True])
async def test_jacobians_and_hessians_are_on_the_gpu_and_those_of_the_cpu(gpu, create_graph):
    async def matrices(device):
        x = ag.tensor(POINTS[0], device=device, requires_grad=True)
        jacobian = await ag.jacobian(lambda x: np.tanh(x) * x[::-1], x, create_graph=create_graph)
        hessian = await ag.hessian(lambda x: (np.exp(x) * x[::-1]).sum(), x, create_graph=create_graph)
        _, product = await ag.hvp(lambda x: (x**3).sum(), x, POINTS[1])
        return jacobian, hessian, product

    found, right = (await matrices(gpu), await matrices("cpu"))

    for ours, theirs in zip(found, right, strict=True):
        assert ours.device is gpu
        assert ours.requires_grad is theirs.requires_grad
        np.testing.assert_allclose(here(ours), here(theirs), rtol=1e-8)


def layers(x):
    for _ in range(4):
        x = np.tanh(x @ x.T)
    return x


async def gradient_of(gpu, function):
    x = ag.tensor(np.random.default_rng(0).standard_normal((64, 64)), device=gpu, requires_grad=True)
    await function(x).sum().backward()
    return here(x.grad)


@pytest.mark.parametrize("use_reentrant", [True, False])
async def test_a_checkpoint_keeps_the_bits(gpu, use_reentrant):
    found, right = (
        await gradient_of(gpu, lambda x: ag.checkpoint(layers, x, use_reentrant=use_reentrant)),
        await gradient_of(gpu, layers),
    )

    assert found.tobytes() == right.tobytes()


@pytest.mark.parametrize("where", ["host", "disk", "store"])
async def test_saved_tensors_that_go_elsewhere_keep_the_bits(gpu, where, tmp_path):
    modes = {
        "host": lambda: ag.graph.save_on_cpu(min_bytes=1),
        "disk": lambda: ag.graph.save_to_disk(tmp_path, min_bytes=1),
        "store": lambda: ag.graph.save_to_store(MemoryStore(), min_bytes=1),
    }

    right = await gradient_of(gpu, layers)
    async with modes[where]():
        x = ag.tensor(np.random.default_rng(0).standard_normal((64, 64)), device=gpu, requires_grad=True)
        y = layers(x).sum()
    await y.backward()
    found = here(x.grad)

    assert found.tobytes() == right.tobytes()
