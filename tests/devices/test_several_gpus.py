"""Several GPUs, on a stand-in for CuPy with a current GPU in each thread."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncgrad.devices._cuda_kernels import CudaKernels
from asyncgrad.devices._cuda_library import library_functions
from asyncgrad.devices._cuda_losses import loss_functions
from asyncgrad.devices._cuda_products import product_functions
from asyncgrad.devices._cuda_rows import row_functions
from asyncgrad.devices._cuda_windows import window_functions
from asyncgrad.nn.windows import Window
from tests.fake_cupy import FakeGpu, Stream, get_current_stream, get_device, ndarray, open_gpus


@pytest.fixture
def gpus() -> Iterator[list[Any]]:
    with open_gpus(2) as opened:
        yield opened


# Streams, of which each belongs to a GPU.


def test_the_current_stream_of_a_gpu_is_its_own(gpus: list[Any]) -> None:
    second = gpus[1].stream()
    with second:
        assert get_current_stream() is Stream.null
        assert get_current_stream(1) is second.cuda_stream
        assert get_device() == 0

    assert get_current_stream(1) is Stream.null


def test_a_default_stream_has_the_events_of_its_own_gpu(gpus: list[Any]) -> None:
    with FakeGpu(1):
        Stream.null.block()
    events = [gpu.default_stream().record_event() for gpu in gpus]

    assert [event.query() for event in events] == [True, False]
    with FakeGpu(1):
        Stream.null.unblock()
    assert events[1].query()


def test_a_stream_waits_for_an_event_of_another_gpu(run: Any, gpus: list[Any]) -> None:
    first, second = (gpu.stream() for gpu in gpus)
    first.cuda_stream.block()
    second.wait_stream(first)
    gpus[1].default_stream().wait_event(second.record_event())

    assert not gpus[1].default_stream().query()
    assert gpus[0].default_stream().query()
    first.cuda_stream.unblock()
    run(gpus[1].synchronize())


# Kernels, which are loaded on each GPU.


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch, gpus: list[Any]) -> list[tuple[str, int]]:
    """The names of the kernels that have been loaded, each with its GPU; a launch on another one is an error."""
    found: list[tuple[str, int]] = []

    def get_function(name: str) -> Any:
        gpu = get_device()
        found.append((name, gpu))

        def launch(*given: Any) -> None:
            arrays = [one for part in given if isinstance(part, tuple) for one in part if isinstance(one, ndarray)]
            assert {one.device.id for one in arrays} <= {gpu}
            assert get_device() == gpu

        launch.linear_launch = launch  # type: ignore[attr-defined]
        return SimpleNamespace(kernel=launch)

    monkeypatch.setattr(sys.modules["cupy"], "RawModule", lambda **_: SimpleNamespace(get_function=get_function))
    # It would read the addresses that a kernel has to compute first.
    monkeypatch.setattr(sys.modules["cupy_backends.cuda.libs.cublas"], "dgemmBatched", lambda *_: None)
    return found


def functions_with_kernels() -> dict[str, Callable[[Any], Any]]:
    """Return functions of an array of four matrices, each of which launches one kernel at least."""
    cupy = sys.modules["cupy"]
    kernels, rows, losses = CudaKernels(cupy), row_functions(cupy), loss_functions(cupy)
    windows, library, products = window_functions(cupy), library_functions(cupy), product_functions(cupy)
    tanh, add, add_into = kernels.launcher(np.tanh), kernels.launcher(np.add), kernels.adder()
    window = Window((2, 2), (1, 1), ((0, 0), (0, 0)), (1, 1), (3, 3))

    def product_of_stacks(x: Any) -> Any:
        y = x.reshape(2, 2, 4, 4).transpose(1, 0, 2, 3)
        return products["batched_product"](y, y)

    return {
        "tanh": tanh,
        "row": lambda x: add(x, x[0]),
        "add_into": lambda x: add_into(x, x),
        "concatenate": lambda x: kernels.concatenate([x, x], 0),
        "softmax": lambda x: rows["softmax"](x),
        "masked_softmax": lambda x: losses["masked_softmax"](x, "causal"),
        "find_maxima": lambda x: windows["find_maxima"](x[None], window),
        "batched_product": product_of_stacks,
        "sums": lambda x: (library[np.sum](x, axis=-1), library[np.mean](x, axis=0)),
    }


def test_each_gpu_has_kernels_of_its_own(gpus: list[Any], loads: list[tuple[str, int]]) -> None:
    for name, function in functions_with_kernels().items():
        del loads[:]
        for _ in range(2):
            for gpu in gpus:
                with FakeGpu(gpu.index):
                    function(gpu.from_host(np.ones((4, 4, 4))))

        loaded = [{kernel for kernel, number in loads if number == gpu.index} for gpu in gpus]
        assert loaded[0] == loaded[1], name
        assert loaded[0], name
        assert len(loads) == len(set(loads)), name


def test_products_use_the_handle_of_cublas_on_their_gpu(gpus: list[Any]) -> None:
    library = library_functions(sys.modules["cupy"])

    # cuBLAS of the stand-in refuses another one.
    for gpu in (*gpus, *gpus):
        with FakeGpu(gpu.index):
            x = gpu.from_host(np.arange(4.0).reshape(2, 2))
            assert library[np.matmul](x, x).tolist() == [[2.0, 3.0], [6.0, 11.0]]
            assert library["linear"](x, x).tolist() == [[1.0, 3.0], [3.0, 13.0]]
