"""benchmarks.training: both libraries' optimizers take the same steps there."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from benchmarks.training import OPTIMIZERS, TRAININGS, optimizer_pair, training_pair


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_both_libraries_take_the_same_steps(name):
    steps, both = optimizer_pair(name, "float64", tensors=2, shape=(3,))
    before = [array.copy() for array in both()[0]]
    for step in steps:
        step()
        step()

    for ours, theirs, start in zip(*both(), before, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
        assert np.all(ours != start)


@pytest.mark.parametrize("name", TRAININGS)
def test_both_libraries_have_the_same_losses(name):
    step, peer_step = training_pair(name)

    np.testing.assert_allclose([step() for _ in range(3)], [peer_step() for _ in range(3)], rtol=1e-4)
