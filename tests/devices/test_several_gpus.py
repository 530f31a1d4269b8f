"""Several GPUs, on a stand-in for CuPy with a current GPU in each thread."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.devices._cuda_kernels import CudaKernels
from asyncgrad.devices._cuda_library import library_functions
from asyncgrad.devices._cuda_losses import loss_functions
from asyncgrad.devices._cuda_products import product_functions
from asyncgrad.devices._cuda_rows import row_functions
from asyncgrad.devices._cuda_windows import window_functions
from asyncgrad.nn.windows import Window
from tests.fake_cupy import FakeGpu, Stream, get_current_stream, get_device, memory_pool, ndarray, open_gpus

#: Elements of an array that is copied on a stream of its own.
LARGE = 200_003


@pytest.fixture
def gpus() -> Iterator[list[Any]]:
    with open_gpus(2) as opened:
        yield opened


def on_host(tensor: Any) -> Any:
    return tensor.to("cpu").tolist()


def there(*shape: int, device: Any, **options: Any) -> Any:
    numbers = np.random.default_rng(3).standard_normal(shape)
    return ag.tensor(numbers, device=device, **options)


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


# Copies between GPUs.


def test_a_copy_goes_directly_and_so_does_its_gradient(monkeypatch: pytest.MonkeyPatch, gpus: list[Any]) -> None:
    x = there(3, 4, device=gpus[0], requires_grad=True)
    large = there(3, LARGE, device=gpus[1]).T
    with monkeypatch.context() as patch:
        for gpu in gpus:
            patch.setattr(type(gpu), "to_host", None)
            patch.setattr(type(gpu), "from_host", None)
        y = x[:, ::2].to(gpus[1])
        back = large.to(gpus[0], non_blocking=True)
        empty = ag.tensor(np.ones((0, 2)), device="cpu")
    with FakeGpu(1):
        loss = (y * y).sum()
    (grad,) = sync.grad(loss, [x])

    assert (y._data.data.device_id, back._data.data.device_id, grad._data.data.device_id) == (1, 0, 0)
    assert back._data.strides == large._data.strides
    np.testing.assert_array_equal(back.to("cpu").numpy(), large.to("cpu").numpy())
    np.testing.assert_array_equal(y.to("cpu").numpy(), x.to("cpu").detach().numpy()[:, ::2])
    np.testing.assert_allclose(on_host(grad), 2 * x.detach().to("cpu").numpy() * [[1, 0, 1, 0]])
    assert empty.to(gpus[0]).to(gpus[1]).shape == (0, 2)


@pytest.mark.parametrize("non_blocking", [True, False])
def test_a_copy_waits_for_the_work_before_it_and_the_work_after_it_waits_for_the_copy(
    gpus: list[Any], non_blocking: bool
) -> None:
    source, target = (gpu.default_stream() for gpu in gpus)
    x = there(5, device=gpus[0])
    Stream.null.block()
    copied = x.to(gpus[1], non_blocking=non_blocking)
    later = target.record_event()

    assert not later.query()
    with FakeGpu(1):
        assert get_current_stream() is Stream.null
    Stream.null.unblock()
    assert later.query()

    stream = gpus[1].copy_streams[2].cuda_stream
    stream.block()
    copied = x.to(gpus[1], non_blocking=non_blocking)
    # A write into x must not overtake the copy, unless the caller has promised that there is none.
    assert source.record_event().query() is non_blocking
    assert not target.record_event().query()
    stream.unblock()
    assert on_host(copied) == on_host(x)


def test_the_memory_of_a_copy_and_of_its_source_is_held_until_it_is_made(gpus: list[Any]) -> None:
    before = memory_pool.used_bytes()
    stream = gpus[1].copy_streams[2].cuda_stream
    x = there(LARGE, device=gpus[0])
    stream.block()
    y = x.to(gpus[1])
    del x, y
    for gpu in gpus:
        gpu.release_held()
    held = memory_pool.used_bytes()
    stream.unblock()
    for gpu in gpus:
        gpu.empty_cache()

    assert held == before + 2 * LARGE * 8
    assert memory_pool.used_bytes() == before


def test_a_profile_shows_a_copy_between_gpus(run: Any, gpus: list[Any]) -> None:
    x = there(LARGE, device=gpus[0])
    with ag.profile() as prof:
        x.to(gpus[1])

    (span,) = prof.device_spans
    found = (span.name, span.kind, span.device, span.stream, span.bytes)

    assert found == ("copy between devices", "copy", "cuda:1", "copies from other GPUs", 8 * LARGE)


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
