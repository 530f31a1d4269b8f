"""Models train on the GPU as they do on the cpu and in PyTorch."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from benchmarks.gpu.cases import TINY
from benchmarks.gpu.training import CompiledTraining, DefaultTorchTraining, EagerTraining
from tests.support.gpus import GPU

MODELS = [case for case in TINY if not case.updates_only]
#: The largest difference in float32, over the largest element, of sums in another order.
TOLERANCE = 2e-5

each_model = pytest.mark.parametrize("case", MODELS, ids=lambda case: case.name.partition(",")[0])


def assert_alike(found, right):
    for ours, theirs in zip(found, right, strict=True):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=TOLERANCE * np.abs(theirs).max())


async def trained(library, case, device, steps=5):
    """Return the gradients of the first step, and those of the last, which depend on all updates."""
    training = library(case, case.draw(), device)
    await training.differentiate()
    first = [gradient.copy() for gradient in training.gradients()]
    for _ in range(steps):
        await training.update()
        await training.differentiate()
    await training.synchronize()
    return first, training.gradients()


@each_model
async def test_a_training_has_the_gradients_that_it_has_on_the_cpu(gpu, case):
    (first, last), (right, right_last) = (
        await trained(EagerTraining, case, GPU),
        await trained(EagerTraining, case, "cpu"),
    )

    assert_alike(first, right)
    for ours, theirs in zip(last, right_last, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-2 * np.abs(theirs).max())


@each_model
async def test_a_training_has_the_gradients_of_pytorch(gpu, case):
    if importlib.util.find_spec("torch") is None:
        pytest.skip("needs PyTorch")

    (first, _), (right, _) = (
        await trained(EagerTraining, case, GPU, 0),
        await trained(DefaultTorchTraining, case, "cpu", 0),
    )

    assert_alike(first, right)


@each_model
async def test_a_compiled_backward_has_the_gradients_of_the_engine(gpu, case):
    (_, compiled), (_, eager) = (await trained(CompiledTraining, case, GPU), await trained(EagerTraining, case, GPU))

    assert_alike(compiled, eager)
