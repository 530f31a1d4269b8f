"""benchmarks.layers: all that it times for a layer computes the same gradients."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from benchmarks.layers import LAYERS, calls

#: The smallest of each kind.
NAMES = [
    "layer norm, 256 rows of 512",
    "group norm, 32 images of 32 x 8 x 8, 8 groups",
    "conv1d, 16 of 32 x 256 to 64, kernel 5",
    "conv2d, 32 of 3 x 32 x 32 to 16, kernel 5, stride 2",
    "depthwise, 16 of 32 x 28 x 28, kernel 3, stride 2",
]


@pytest.mark.parametrize("name", NAMES)
def test_all_that_is_timed_for_a_layer_computes_the_same_gradients(name):
    with asyncio.Runner() as runner:
        found = calls(LAYERS[name], runner)
        expected = [one.numpy() for one in found.pop("asyncgrad")()]

        assert found
        for call in found.values():
            for one, other in zip(expected, call(), strict=True):
                np.testing.assert_allclose(one, np.asarray(other), rtol=1e-2, atol=1e-2)
