"""Every rule gives on the GPU what it gives on the cpu, or is refused by the name of the function that CuPy lacks."""

from __future__ import annotations

import numpy as np
import pytest

import asyncgrad as ag
from tests.support.gpus import GPU
from tests.testing.test_simulated_formulas import EVERY_CASE, outputs_and_grads

#: Functions that are refused, because CuPy has no counterpart that works without the host, or because a case of theirs
#: mixes in arrays of NumPy's.
REFUSED = {
    "bincount", "block", "choose", "cov", "diff", "ediff1d", "geomspace", "gradient", "insert", "interp", "linspace",
    "logspace", "matmul", "nanpercentile", "nanquantile", "poly", "polyadd", "polyfit", "polyint", "polysub", "roots",
    "unstack", "vander", "var",
}  # fmt: skip
#: How an error says so.
REFUSALS = (f"not available on {GPU}", "and a NumPy array of shape", "is not converted to an ndarray implicitly")
#: The signs or phases of their results are free, and another library chooses others; see test_derivatives.py.
FREE_SIGNS = {"eig", "eigh", "svd"}


@pytest.mark.sampled("function")
@pytest.mark.parametrize(("function", "case"), EVERY_CASE)
def test_a_rule_gives_on_the_gpu_what_it_gives_on_the_cpu(gpu, function, case):
    expected = outputs_and_grads(function, case, ag.tensor)
    try:
        found = outputs_and_grads(function, case, lambda leaf: ag.tensor(leaf, device=gpu))
    except (TypeError, ag.errors.DeviceError) as error:
        if function.__name__ in REFUSED and any(words in str(error) for words in REFUSALS):
            pytest.skip(f"{function.__name__} is refused on a GPU")
        raise
    for ours, right in zip(found, expected, strict=True):
        if right is None:
            assert ours is None
            continue
        assert ours.device is gpu
        array, known = ours.to("cpu").numpy(), right.numpy()
        assert (array.dtype, array.shape) == (known.dtype, known.shape)
        if function.__name__ in FREE_SIGNS:
            continue
        tolerance = 1e-4 if known.dtype.itemsize <= 4 else 1e-8
        largest = np.nanmax(np.abs(known[np.isfinite(known)]), initial=1.0) if known.size else 1.0
        np.testing.assert_allclose(array, known, rtol=tolerance, atol=tolerance * largest)
