"""SciPy takes tensors as arrays of the array API standard where it is told to, with SCIPY_ARRAY_API=1."""

from __future__ import annotations

import pytest

from asyncgrad.scipy import SCIPY_VERSION
from tests.support.processes import run_python

PROGRAM = """
import numpy as np, scipy.fft, scipy.signal, scipy.special, scipy.stats
import asyncgrad as ag, asyncgrad.scipy
from asyncgrad.scipy import stats

def gradient(function):
    x = ag.tensor([0.5, 1.5, 2.25, 0.75], requires_grad=True)
    y = function(x)
    assert isinstance(y, ag.Tensor), type(y)
    ag.sync.backward((y * np.array([1.0, 2.0, 3.0, 4.0])).sum())
    return x.grad.numpy()

for theirs, ours in (
    (scipy.special.gammaln, ag.scipy.special.gammaln),
    (lambda x: scipy.special.xlogy(x, x), lambda x: ag.scipy.special.xlogy(x, x)),
    (scipy.special.softmax, ag.scipy.special.softmax),
    (scipy.special.logsumexp, ag.scipy.special.logsumexp),
    (scipy.stats.zscore, stats.zscore),
    (scipy.stats.gmean, stats.gmean),
    (lambda x: abs(scipy.fft.fft(x)), lambda x: abs(ag.scipy.fft.fft(x))),
    (lambda x: scipy.signal.fftconvolve(x, x, "same"), lambda x: ag.scipy.signal.fftconvolve(x, x, "same")),
):
    np.testing.assert_allclose(gradient(theirs), gradient(ours), rtol=1e-10)
shape = ag.tensor(1.5, requires_grad=True)
ag.sync.backward(stats.gamma.logcdf([0.5, 2.0], shape).sum())
assert shape.grad.item() < 0
"""


@pytest.mark.slow
@pytest.mark.skipif(
    tuple(map(int, SCIPY_VERSION.split(".")[:2])) < (1, 17), reason="SciPy before 1.17 takes arrays of fewer libraries"
)
def test_functions_of_scipy_that_take_arrays_of_the_standard_take_tensors() -> None:
    run_python(PROGRAM, SCIPY_ARRAY_API="1")
