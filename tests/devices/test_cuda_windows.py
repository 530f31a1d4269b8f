"""Kernels of convolution and pooling: their C++, compiled by the host's compiler, gives what NumPy's formulas give."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn
from asyncgrad.core.engine.device import Device
from asyncgrad.devices.cuda import windows
from asyncgrad.devices.cuda.windows import window_functions
from asyncgrad.nn.shared.windows import Window
from tests.devices.host_device import host_device
from tests.devices.host_kernels import GRID_MACROS, GridModule, HostArray, HostCupy, needs_compilers, on_host

pytestmark = [pytest.mark.sampled, needs_compilers]

PRECISION = {"f": 2e-5, "d": 1e-12}


@pytest.fixture(scope="module")
def functions() -> dict[Any, Callable[..., Any]]:
    return window_functions(SimpleNamespace(ndarray=HostArray, RawModule=GridModule, cuda=HostCupy.cuda), GRID_MACROS)


@pytest.fixture(scope="module")
def made_device(functions: dict[Any, Callable[..., Any]]) -> Iterator[Device]:
    with host_device(functions=functions) as made:
        yield made


@pytest.fixture
def device(made_device: Device) -> Device:
    """Return a device whose arrays have the kernels, none of which has run."""
    GridModule.launched.clear()
    return made_device


def launched() -> list[str]:
    """Return the kernels that have run since the last call, without what they were compiled for."""
    names = [name.rpartition("_")[0].rpartition("_")[0] for name in GridModule.launched]
    GridModule.launched.clear()
    return names


def drawn(*shape: int, dtype: str = "d") -> np.ndarray:
    """Return normal numbers, the same at each call."""
    return np.random.default_rng(len(shape) + sum(shape)).standard_normal(shape).astype(dtype)


def outputs_and_grads(function: Callable[..., Any], leaves: list[np.ndarray], device: Any) -> list[np.ndarray]:
    """Return what a function gives, its gradients, and those of a sum of their squares."""
    tensors = [ag.tensor(leaf, device=device, requires_grad=True) for leaf in leaves]
    out = function(*tensors)
    weights = ag.tensor(drawn(*out.shape, dtype=out.dtype), device=device)
    grads = ag.sync.grad((out * out * weights).sum(), tensors, create_graph=True)
    total = sum((one * one).sum() for one in grads)
    second = ag.sync.grad(total, tensors)
    return [one.to("cpu").numpy() for one in (out.detach(), *(one.detach() for one in grads), *second)]


def agree(function: Callable[..., Any], leaves: list[np.ndarray], device: Device) -> None:
    """Assert that a function and its derivatives are on a device what they are on the cpu."""
    expected = outputs_and_grads(function, leaves, "cpu")
    found = outputs_and_grads(function, leaves, device)
    for ours, right in zip(found, expected, strict=True):
        assert (ours.dtype, ours.shape) == (right.dtype, right.shape)
        precision = PRECISION[right.dtype.char]
        np.testing.assert_allclose(ours, right, rtol=precision, atol=precision * (1 + np.abs(right).max()))


CONVOLUTIONS = [
    pytest.param(2, 3, 4, (3, 3), {"padding": 1}, id="padding"),
    pytest.param(3, 2, 3, (2, 3), {}, id="plain"),
    pytest.param(1, 2, 3, (3, 2), {"stride": 2, "padding": (2, 1)}, id="one image"),
    pytest.param(2, 2, 3, (3, 2), {"stride": (2, 3), "padding": (2, 1), "dilation": (1, 2)}, id="all options"),
    pytest.param(2, 4, 6, (2, 2), {"groups": 2, "stride": 2}, id="groups"),
    pytest.param(2, 3, 6, (3, 3), {"groups": 3, "padding": 1}, id="depthwise"),
    pytest.param(1, 4, 2, (2, 2), {"groups": 2}, id="groups of one image"),
    pytest.param(2, 3, 4, (1, 1), {}, id="one by one"),
    pytest.param(2, 2, 2, (2, 2), {"padding": "same", "dilation": (3, 1)}, id="same"),
    pytest.param(2, 2, 2, (2, 2), {"stride": 4}, id="gaps"),
]


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [1 << 26, 1 << 11, 1])
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize(("n", "channels", "filters", "kernel", "options"), CONVOLUTIONS)
def test_a_convolution_is_that_of_the_host(
    device: Device,
    monkeypatch: pytest.MonkeyPatch,
    n: int,
    channels: int,
    filters: int,
    kernel: tuple[int, int],
    options: dict[str, Any],
    dtype: str,
    has_bias: bool,
    chunk: int,
) -> None:
    monkeypatch.setattr(windows, "_CHUNK", chunk)
    leaves = [
        drawn(n, channels, 7, 6, dtype=dtype),
        drawn(filters, channels // options.get("groups", 1), *kernel, dtype=dtype),
        *([drawn(filters, dtype=dtype)] if has_bias else []),
    ]

    agree(lambda *given: nn.conv2d(*given, **options), leaves, device)

    names = launched()
    assert {"copy_windows", "add_windows"} <= set(names)


def test_a_convolution_takes_three_launches_with_its_product(device: Device) -> None:
    x, weight, bias = (
        ag.tensor(drawn(*shape), device=device, requires_grad=True) for shape in ((2, 3, 5, 5), (4, 3, 3, 3), (4,))
    )
    out = nn.conv2d(x, weight, bias, padding=1)
    assert launched() == ["copy_windows", "swap_axes"]

    ag.sync.backward(out, ag.tensor(drawn(*out.shape), device=device))
    assert sorted(launched()) == ["add_windows", "copy_windows", "swap_axes", "swap_axes"]


POOLINGS = [
    pytest.param({"kernel_size": 2}, id="plain"),
    pytest.param({"kernel_size": (3, 2), "stride": (1, 2), "padding": 1}, id="overlapping"),
    pytest.param({"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}, id="ceil mode"),
    pytest.param({"kernel_size": 2, "stride": 3}, id="gaps"),
]


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("shape", [(2, 3, 7, 6), (3, 7, 6)])
@pytest.mark.parametrize("options", POOLINGS)
@pytest.mark.parametrize("function", [nn.max_pool2d, nn.avg_pool2d])
def test_pooling_is_that_of_the_host_and_runs_by_kernels(
    device: Device, function: Callable[..., Any], options: dict[str, Any], shape: tuple[int, ...], dtype: str
) -> None:
    agree(lambda x: function(x, **options), [drawn(*shape, dtype=dtype)], device)

    names = set(launched())
    assert names == ({"find_maxima", "gather", "scatter"} if function is nn.max_pool2d else {"gather", "scatter"})


def test_dilated_maxima_are_those_of_the_host(device: Device) -> None:
    agree(lambda x: nn.max_pool2d(x, 2, 1, 1, (3, 2)), [drawn(2, 2, 7, 6)], device)
    assert "find_maxima" in launched()


@pytest.mark.parametrize("special", [0.0, np.nan, np.inf, -np.inf])
def test_of_equal_and_special_maxima_the_same_is_chosen(device: Device, special: float) -> None:
    x = np.random.default_rng(4).integers(0, 3, (2, 3, 7, 7)).astype("d")
    x[np.random.default_rng(5).random(x.shape) < 0.3] = special
    results = []
    for where in ("cpu", device):
        leaf = ag.tensor(x, device=where, requires_grad=True)
        out = nn.max_pool2d(leaf, 3, 2, 1)
        (grad,) = ag.sync.grad(out, [leaf], [ag.tensor(drawn(*out.shape), device=where)])
        results.append([out.detach().to("cpu").numpy(), grad.to("cpu").numpy()])

    for ours, right in zip(*results[::-1], strict=True):
        np.testing.assert_array_equal(ours, right)
    assert launched() == ["find_maxima", "scatter"]


def test_arrays_in_another_order_are_copied(device: Device) -> None:
    def function(x: Any, weight: Any) -> Any:
        return nn.max_pool2d(nn.conv2d(x.swapaxes(2, 3), weight.swapaxes(0, 1)).swapaxes(2, 3), 2)

    agree(function, [drawn(2, 3, 6, 5), drawn(3, 4, 2, 2)], device)
    assert {"copy_windows", "find_maxima"} <= set(launched())


def test_what_has_no_kernel_is_computed_by_numpys_functions(device: Device) -> None:
    for x in (drawn(2, 3, 5, 5, dtype="e"), np.arange(50).reshape(1, 2, 5, 5), drawn(0, 3, 5, 5)):
        weight = drawn(2, x.shape[1], 2, 2).astype(x.dtype)
        # The host computes float16 in float32, and a device in what it is given.
        rtol = 2.0**-8 if x.dtype == np.float16 else 0.0
        for function in (lambda x: nn.max_pool2d(x, 2), lambda x: nn.avg_pool2d(x, 2)):
            expected = np.asarray(function(x))
            found = function(ag.tensor(x, device=device)).to("cpu").numpy()
            np.testing.assert_allclose(found, expected, rtol=rtol)
        out = nn.conv2d(*(ag.tensor(one, device=device) for one in (x, weight)))  # type: ignore[call-overload]
        np.testing.assert_allclose(out.to("cpu").numpy(), np.asarray(nn.conv2d(x, weight)), rtol=rtol)
    assert launched() == []


def test_large_arrays_are_counted_in_long_integers(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "_SMALL", 0)

    def function(x: Any, weight: Any) -> Any:
        return nn.max_pool2d(nn.conv2d(x, weight, padding=1), 2)

    agree(function, [drawn(2, 2, 6, 6), drawn(2, 2, 3, 3)], device)

    assert GridModule.launched
    assert all(name.endswith("_large") for name in GridModule.launched)


def test_a_choice_that_was_made_for_other_windows_has_no_kernel(functions: dict[Any, Callable[..., Any]]) -> None:
    window = Window.over("test", (4, 4), (2, 2), (2, 2), ((0, 0), (0, 0)), (1, 1))
    x, choice = on_host(drawn(1, 4, 4)), on_host(np.zeros((2, 2), "B"))

    assert functions["gather_windows"](x, choice, window) is None
    assert functions["scatter_windows"](on_host(drawn(1, 2, 2)), choice, (1, 4, 4), window) is None
