"""Fused kernels on a real GPU give what the formulas give there, in one launch each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from asyncgrad import optim
from asyncgrad.devices.cuda import install_functions
from asyncgrad.devices.cuda.kernels import CudaKernels
from tests.devices.test_cuda_kernels import OPTIMIZERS, stepped
from tests.gpu.kernels import cases, disagreement, train


@pytest.fixture
def cupy() -> Any:
    """CuPy, where there is a GPU."""
    found = pytest.importorskip("cupy", reason="needs CuPy")
    try:
        found.cuda.runtime.getDeviceCount()
    except found.cuda.runtime.CUDARuntimeError as error:
        pytest.skip(f"needs an NVIDIA GPU: {error}")
    return found


@pytest.fixture
def kernels(cupy: Any) -> CudaKernels:
    return install_functions(cupy)


@pytest.mark.sampled("function")
@pytest.mark.parametrize("dtype", "efd")
@pytest.mark.parametrize(("function", "kinds"), [pytest.param(*case[1:], id=case[0]) for case in cases()])
def test_a_kernel_gives_what_its_formula_gives(
    cupy: Any, kernels: CudaKernels, function: Any, kinds: list[Any], dtype: str
) -> None:
    assert disagreement(cupy, kernels, function, kinds, dtype) is None


@pytest.mark.parametrize("dtype", "efdFD")
@pytest.mark.parametrize(("optimizer", "options"), OPTIMIZERS)
def test_a_step_gives_what_it_gives_on_the_cpu(
    kernels: CudaKernels, optimizer: Any, options: dict[str, Any], dtype: str
) -> None:
    before = kernels.launches
    params, _ = stepped(optimizer, options, dtype, "cuda:0")
    assert kernels.launches - before == 3

    known, _ = stepped(optimizer, options, dtype, "cpu")
    precision = {"e": 1e-2, "f": 1e-5, "d": 1e-12}[np.dtype(dtype).type(0).real.dtype.char]
    for param, other in zip(params, known, strict=True):
        np.testing.assert_allclose(param.to("cpu").numpy(), other.numpy(), rtol=precision, atol=precision)


def test_an_optimizer_updates_a_model_in_one_launch(kernels: CudaKernels) -> None:
    assert train(kernels, optim.Adam)[1] == 1
