"""benchmarks.interop: what it times beside each other computes the same gradients."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.interop import PAIRS


def array(value):
    """Return the array of a tensor of asyncgrad or PyTorch, or of an array of JAX."""
    return value.numpy().copy() if hasattr(value, "numpy") else np.array(value)


@pytest.mark.parametrize("name", PAIRS)
def test_both_calls_of_a_pair_return_the_same_gradients(name):
    make, library = PAIRS[name]
    if library is None:
        pytest.skip("its library is not installed")
    ours, theirs = make(4)

    found = [array(one) for one in ours()]
    for one, again, other in zip(found, ours(), theirs(), strict=True):
        np.testing.assert_allclose(one, array(again), rtol=1e-6)
        np.testing.assert_allclose(one, array(other), rtol=1e-4, atol=1e-5)
