"""Kernels of batch, group, instance and RMS norm: their C, on the host, gives what NumPy's functions give."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.core.engine.device import Device
from asyncgrad.devices.cuda.kernels import CudaKernels
from asyncgrad.devices.cuda.norms import norm_functions
from tests.devices.host_device import host_device
from tests.devices.host_kernels import HOST_MACROS, BlockCupy, HostCupy, needs_compilers

pytestmark = needs_compilers

TOLERANCE = {np.float32: 3e-5, np.float64: 1e-12}
CHANNELS = 6


@pytest.fixture(scope="module")
def cupy() -> BlockCupy:
    return BlockCupy()


@pytest.fixture(scope="module")
def functions(cupy: BlockCupy) -> dict[Any, Callable[..., Any]]:
    return norm_functions(cupy)


@pytest.fixture(scope="module")
def kernels() -> CudaKernels:
    return CudaKernels(HostCupy, HOST_MACROS)


@pytest.fixture
def device(cupy: BlockCupy, kernels: CudaKernels, functions: dict[Any, Callable[..., Any]]) -> Iterator[Device]:
    """Return a device that has the kernels; the list of those launched is empty."""
    for module in cupy.modules:
        module.launched.clear()
    with host_device(kernels, functions) as made:
        yield made


def batch_norm(x: Any, mean: Any, var: Any, weight: Any, bias: Any) -> Any:
    return nn.batch_norm(x, mean, var, weight, bias, training=True)


def evaluated(x: Any, mean: Any, var: Any, weight: Any, bias: Any) -> Any:
    return nn.batch_norm(x, mean, var, weight, bias)


def instance_norm(x: Any, mean: Any, var: Any, weight: Any, bias: Any) -> Any:
    return nn.instance_norm(x, mean, var, weight, bias)


def group_norm(x: Any, mean: Any, var: Any, weight: Any, bias: Any) -> Any:
    return nn.group_norm(x, 2, weight, bias)


def rms_norm(x: Any, mean: Any, var: Any, weight: Any, bias: Any) -> Any:
    return nn.rms_norm(x, CHANNELS, weight)


#: Of each the function, the shapes of x, and how often each kernel is launched with a weight and a bias.
NORMS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...], dict[str, int]]] = {
    "batch_norm": (
        batch_norm,
        ((4, CHANNELS, 3, 5), (7, CHANNELS), (1, CHANNELS, 40)),
        {"normalize": 1, "normalize_grad": 1, "row_dots": 2},
    ),
    "batch_norm in evaluation": (evaluated, ((4, CHANNELS, 3, 5), (7, CHANNELS)), {}),
    "instance_norm": (
        instance_norm,
        ((4, CHANNELS, 3, 5), (2, CHANNELS, 700)),
        {"normalize": 1, "normalize_grad": 1, "row_dots": 2},
    ),
    "group_norm": (
        group_norm,
        ((4, CHANNELS, 3, 5), (5, CHANNELS), (2, CHANNELS, 700)),
        {"normalize": 1, "normalize_grad": 1, "row_dots": 2},
    ),
    "rms_norm": (
        rms_norm,
        ((5, CHANNELS), (2, 3, CHANNELS)),
        {"rms_norm": 1, "rms_norm_grad": 1, "rms_weight_grad": 1},
    ),
}
CASES = [
    pytest.param(name, shape, id=f"{name}-{'x'.join(map(str, shape))}")
    for name, (_, shapes, _) in NORMS.items()
    for shape in shapes
]


def results(where: Any, name: str, shape: tuple[int, ...], dtype: Any, affine: bool, order: int = 1) -> list[Any]:
    """Return the norm of random numbers, the running statistics after it, and the gradients."""
    rng = np.random.default_rng(3)

    def tensor(*lengths: int, **options: Any) -> ag.Tensor:
        return ag.tensor((2 + rng.normal(size=lengths)).astype(dtype), device=where, **options)

    x = tensor(*shape, requires_grad=True)
    mean, var = tensor(CHANNELS), ag.tensor(np.linspace(0.5, 2, CHANNELS).astype(dtype), device=where)
    affines = [tensor(CHANNELS, requires_grad=True) for _ in range(2 - (name == "rms_norm"))] if affine else []
    weight, bias = (*affines, None, None)[:2]
    y = NORMS[name][0](x, mean, var, weight, bias)
    found = [y, mean, var]
    total = (y * ag.tensor(rng.normal(size=shape).astype(dtype), device=where)).sum()
    grads = sync.grad(total, [x, *affines], create_graph=order > 1)
    found += grads
    if order > 1:
        total = sum(((one * one).sum() for one in grads), ag.tensor(np.zeros((), dtype), device=where))
        found += [one for one in sync.grad(total, [x, *affines], allow_unused=True) if one is not None]
    return [one.detach().to("cpu").numpy() for one in found]


def assert_close(found: list[Any], expected: list[Any], dtype: Any) -> None:
    tolerance = TOLERANCE[dtype]
    for one, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(
            one, right, rtol=tolerance, atol=tolerance * max(1, np.abs(right).max()), strict=True
        )


@pytest.mark.slow
@pytest.mark.sampled("name", "dtype")
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "shape"), CASES)
def test_a_norm_and_its_gradients_are_those_of_numpy_by_one_kernel_each(
    device: Device, cupy: BlockCupy, name: str, shape: tuple[int, ...], dtype: Any, affine: bool
) -> None:
    assert_close(results(device, name, shape, dtype, affine), results("cpu", name, shape, dtype, affine), dtype)
    if affine:
        kind = "float" if dtype is np.float32 else "double"
        expected = [f"{kernel}_{kind}" for kernel, count in NORMS[name][2].items() for _ in range(count)]
        assert sorted(cupy.launched) == sorted(expected)


@pytest.mark.parametrize("name", NORMS)
def test_second_derivatives_of_norms_are_those_of_numpy(device: Device, name: str) -> None:
    shape = NORMS[name][1][0]
    found, expected = (results(where, name, shape, np.float64, True, 2) for where in (device, "cpu"))

    assert_close(found, expected, np.float64)


def test_a_gradient_that_is_one_number_repeated_has_a_kernel_too(device: Device, cupy: BlockCupy) -> None:
    def gradient(where: Any) -> Any:
        x = ag.tensor(np.linspace(-1, 2, 48).reshape(2, 6, 4) ** 3, device=where, requires_grad=True)
        sync.backward(nn.group_norm(x, 3).sum())
        assert x.grad is not None
        return x.grad.to("cpu").numpy()

    np.testing.assert_allclose(gradient(device), gradient("cpu"), atol=1e-12)
    assert cupy.launched == ["normalize_double", "normalize_grad_double"]


def test_statistics_of_another_dtype_are_moved_by_the_functions_of_the_library(device: Device) -> None:
    def moved(where: Any) -> Any:
        x = ag.tensor(np.arange(24, dtype=np.float32).reshape(4, 6), device=where)
        mean, var = (ag.tensor(np.ones(6), device=where) for _ in range(2))
        nn.batch_norm(x, mean, var, training=True)
        return np.stack([mean.to("cpu").numpy(), var.to("cpu").numpy()])

    np.testing.assert_allclose(moved(device), moved("cpu"), rtol=1e-6)
