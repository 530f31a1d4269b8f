"""Several GPUs on a stand-in for CuPy that refuses an operation on an array of another GPU than the current one."""

from __future__ import annotations

import asyncio
import copy
import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
import asyncgrad.numpy as anp
from asyncgrad import nn, optim, sync
from asyncgrad.core.arrays import interception
from asyncgrad.core.arrays.current_devices import several_devices
from asyncgrad.core.arrays.device_functions import DEVICE_FUNCTIONS, register_functions
from asyncgrad.devices.cuda.kernels import CudaKernels
from asyncgrad.devices.cuda.library import library_functions
from asyncgrad.devices.cuda.losses import loss_functions
from asyncgrad.devices.cuda.products import product_functions
from asyncgrad.devices.cuda.rows import row_functions
from asyncgrad.devices.cuda.sums import sum_functions
from asyncgrad.devices.cuda.windows import window_functions
from asyncgrad.errors import DeviceError
from asyncgrad.nn.shared.windows import Window
from asyncgrad.testing import DEVICE_CHECKS, MemoryStore
from tests.support.fake_cupy import (
    FakeGpu,
    Stream,
    get_cublas_handle,
    get_current_stream,
    get_device,
    memory_pool,
    ndarray,
    open_gpus,
)
from tests.support.loops import on_each_loop, one_loop
from tests.support.settings import compiled_after

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


# The current GPU.


def test_an_operation_runs_on_the_gpu_of_its_tensors_and_puts_the_former_one_back(gpus: list[Any]) -> None:
    x, y = (ag.tensor([1.0, 2.0], device=gpu) for gpu in gpus)
    with FakeGpu(1):
        assert on_host(x * 2) == [2.0, 4.0]
        assert get_device() == 1
    assert on_host(np.concatenate([y, np.exp(y * 0)])) == [1.0, 2.0, 1.0, 1.0]
    with pytest.raises(ValueError, match="mismatch"):
        y @ ag.tensor(np.ones((3, 3)), device="cuda:1")
    assert get_device() == 0


def test_an_operation_on_tensors_of_two_gpus_names_both(gpus: list[Any]) -> None:
    x, y = (ag.tensor([1.0, 2.0], device=gpu) for gpu in gpus)

    for mixed in (lambda: x + y, lambda: np.stack([y, x]), lambda: nn.mse_loss(x, y), lambda: x.__iadd__(y)):
        with pytest.raises(DeviceError, match=r"'cuda:[01]' and on 'cuda:[01]'"):
            mixed()


async def test_hooks_and_bodies_run_while_the_gpu_of_their_node_is_the_current_one(gpus: list[Any]) -> None:
    seen = []

    def note(*_: Any) -> None:
        seen.append(get_device())

    async def note_twice(*_: Any) -> None:
        note()
        await asyncio.sleep(0)
        note()

    class Doubled(ag.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        async def backward(ctx: Any, g: Any) -> Any:
            await note_twice()
            return g * 2

    x = ag.tensor([1.0], device=gpus[1], requires_grad=True)
    y = Doubled.apply(x)
    y.register_hook(note)
    y.grad_fn.register_hook(note_twice)
    x.register_post_accumulate_grad_hook(note_twice)

    await y.to(gpus[0]).sum().backward()

    assert seen == [1] * 7
    assert on_host(x.grad) == [2.0]
    assert get_device() == 0


@one_loop
async def test_a_coroutine_that_is_closed_or_raises_leaves_no_gpu_current(gpus: list[Any]) -> None:
    x = ag.tensor([1.0], device=gpus[1], requires_grad=True)

    async def fail(grad: Any) -> None:
        await asyncio.sleep(0)
        raise LookupError

    x.register_hook(fail)

    with pytest.raises(LookupError):
        await (x * 2).sum().backward()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await (x * 2).sum().backward()
    assert get_device() == 0
    assert x.grad is None


@on_each_loop
@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("blocking", [True, False])
def test_a_backward_crosses_gpus_there_and_back(run: Any, gpus: list[Any], blocking: bool, is_compiled: bool) -> None:
    def loss(first: Any, second: Any) -> tuple[Any, Any]:
        x = there(4, 3, device=first, requires_grad=True)
        y = np.tanh(x @ x.T).to(second)
        y = (y * np.exp(y * 0.1)).to(first) + x[:, :1]
        return x, (y * y).sum().to(second) * 2

    x, y = loss("cpu", "thread:0")
    sync.backward(y)
    for pair in ("cpu", "cpu"), gpus, gpus, gpus[::-1], (gpus[1], "cpu"), (gpus[1], gpus[1]), gpus:
        z, total = loss(*pair)
        with compiled_after(1 if is_compiled else None):
            sync.backward(total) if blocking else run(total.backward())
        np.testing.assert_array_equal(z.grad.to("cpu").numpy(), x.grad.numpy())


async def test_several_roots_may_be_on_several_gpus(gpus: list[Any]) -> None:
    async def gradients(*devices: Any) -> list[Any]:
        with compiled_after(1):
            for _ in range(3):
                leaves = [there(3, device=device, requires_grad=True) for device in devices]
                await ag.backward([(one * one).sum() for one in leaves])
        return [on_host(one.grad) for one in leaves]

    for devices in (gpus, gpus[::-1], (gpus[1], gpus[1]), ("cpu", gpus[1])):
        assert await gradients(*devices) == await gradients("cpu", "cpu")


async def test_a_recorded_backward_crosses_gpus(gpus: list[Any]) -> None:
    async def second(*devices: Any) -> list[Any]:
        x = there(3, device=devices[0], requires_grad=True)
        y = np.tanh(x).to(devices[1]) ** 3
        (grad,) = await ag.grad(y.to(devices[0]).sum(), [x], create_graph=True)
        await (grad * grad).sum().to(devices[1]).backward()
        return on_host(x.grad)

    np.testing.assert_allclose(await second(*gpus), await second("cpu", "thread:0"), rtol=1e-13)


async def test_each_task_of_a_loop_may_use_another_gpu(gpus: list[Any]) -> None:
    async def train(gpu: Any, barrier: asyncio.Barrier) -> Any:
        with ag.default_device(gpu):
            w = ag.tensor([3.0, -1.0], requires_grad=True)
            optimizer = optim.SGD([w], lr=0.25, momentum=0.5)
            for _ in range(4):
                optimizer.zero_grad()
                await (w * w).sum().backward()
                await barrier.wait()
                optimizer.step()
                assert get_device() == 0
        return on_host(w)

    async def main() -> None:
        barrier = asyncio.Barrier(2)
        first, second = await asyncio.gather(*(train(gpu, barrier) for gpu in gpus))
        assert first == second

    await main()


def test_a_thread_has_a_current_gpu_of_its_own(gpus: list[Any]) -> None:
    found = []

    def work() -> None:
        x = ag.tensor([2.0], device=gpus[1], requires_grad=True)
        sync.backward((x * x).sum())
        found.append((on_host(x.grad), get_device()))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [([4.0], 0)] * 2


async def test_a_function_that_a_device_calls_runs_while_it_is_the_current_one(gpus: list[Any]) -> None:
    async def twice() -> list[int]:
        first = get_device()
        await asyncio.sleep(0)
        return [first, get_device()]

    assert await gpus[1].call(get_device) == 1
    assert await gpus[1].call(twice) == [1, 1]
    assert get_device() == 0


# What is not one operation.


def recomputed(x: Any) -> Any:
    return ag.checkpoint(lambda x: np.tanh(x) * np.exp(x), x, use_reentrant=False).sum()


def dropped(x: Any) -> Any:
    return nn.dropout(x, rng=np.random.default_rng(0)).sum()


def written_into(x: Any) -> Any:
    y = x * 1
    y += x
    y[0] = x[1] * 2
    y[1:] *= y[1:]
    y[[0, 2]] = x[:2]
    return (y * y).sum()


def offloaded(x: Any) -> Any:
    with ag.graph.save_on_cpu():
        return np.tanh(x * x).sum()


def stored(x: Any) -> Any:
    with ag.graph.save_to_store(MemoryStore()):
        return np.tanh(x * x).sum()


def norms(x: Any) -> Any:
    layer = nn.BatchNorm1d(3).to("cpu")
    return nn.layer_norm(x, 3).sum() + nn.softmax(x).std() + np.linalg.norm(x) + layer.eps


PROGRAMS = [recomputed, dropped, written_into, offloaded, stored, norms]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
async def test_a_program_has_on_the_second_gpu_the_gradients_of_the_cpu(
    gpus: list[Any], program: Callable[[Any], Any]
) -> None:
    async def main(device: Any) -> Any:
        x = there(4, 3, device=device, requires_grad=True)
        with compiled_after(1):
            for _ in range(3):
                x.grad = None
                await program(x).backward()
        return on_host(x.grad)

    np.testing.assert_allclose(await main(gpus[1]), await main("cpu"), rtol=1e-13)


async def test_a_graph_is_compiled_on_the_second_gpu(gpus: list[Any]) -> None:
    before = ag.engine.compiled_stats().hits
    x = there(4, 4, device=gpus[1], requires_grad=True)
    with ag.compiled_autograd(after=1):
        for _ in range(3):
            await (np.tanh(x @ x) * x).sum().backward()
    assert get_device() == 0

    assert ag.engine.compiled_stats().hits > before


async def test_transforms_compute_on_the_gpu_of_their_arguments(gpus: list[Any]) -> None:
    def function(x: Any) -> Any:
        return np.tanh(x) * x[::-1]

    async def main(device: Any) -> Any:
        x = there(3, device=device)
        hessian = await ag.hessian(lambda x: function(x).sum(), x)
        return [on_host(one) for one in (await ag.jacobian(function, x), hessian, await ag.func.jacfwd(function)(x))]

    for found, wanted in zip(await main(gpus[1]), await main("cpu"), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-13)


def test_new_tensors_are_made_on_the_gpu_that_is_named_or_the_default_one(gpus: list[Any]) -> None:
    makers: list[Callable[..., Any]] = [
        lambda **options: anp.zeros((2,), **options),
        lambda **options: anp.full((2,), 3.0, **options),
        lambda **options: anp.arange(2, **options),
        lambda **options: anp.linspace(0, 1, 2, **options),
        lambda **options: ag.tensor([1.0, 2.0], **options),
    ]
    for make in makers:
        with ag.default_device(gpus[1]):
            by_default = make()
        named = make(device="cuda:1")
        assert by_default._data.device.id == named._data.device.id == 1
        assert on_host(anp.zeros_like(named) + named) == on_host(by_default)


def test_a_module_loads_and_resets_what_is_on_the_second_gpu(gpus: list[Any]) -> None:
    model = nn.Embedding(4, 2, padding_idx=0).to(gpus[1])
    state = copy.deepcopy(model.state_dict())
    sync.backward(model(ag.tensor([1, 2], device=gpus[1])).sum())
    model.zero_grad(set_to_none=False)
    assert on_host(model.weight.grad) == np.zeros((4, 2)).tolist()
    model.reset_parameters()
    model.load_state_dict(state)

    assert on_host(model.weight.detach()) == on_host(state["weight"])
    assert on_host(model.snapshot()(ag.tensor([0], device=gpus[1]))) == [[0.0, 0.0]]


OPTIMIZERS: dict[str, Callable[[Any], optim.Optimizer]] = {
    "SGD": lambda params: optim.SGD(params, 0.1),
    "momentum": lambda params: optim.SGD(params, 0.1, momentum=0.9, maximize=True),
    "Adam": lambda params: optim.Adam(params, 0.1, amsgrad=True),
    "Lion": lambda params: optim.Lion(params, 0.1),
}


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_one_optimizer_updates_parameters_of_several_gpus(gpus: list[Any], make: Any) -> None:
    def trained(devices: Any) -> list[Any]:
        params = [there(2, 2, device=device, requires_grad=True) for device in devices]
        optimizer, average = make(params), optim.ExponentialMovingAverage(params, 0.5)
        for _ in range(3):
            optimizer.zero_grad(set_to_none=False)
            for param in params:
                sync.backward((param**2).sum())
            assert optim.clip_grad_norm(params, 1.0) > 1
            optimizer.step()
            average.update()
            optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        return [on_host(one) for one in (*params, *average.averages())]

    np.testing.assert_allclose(trained([*gpus, "cpu", *gpus]), trained(["cpu"] * 5), rtol=1e-13)
    assert get_device() == 0


def test_lbfgs_refuses_parameters_of_two_gpus_and_runs_on_the_second(gpus: list[Any]) -> None:
    def stepped(*devices: Any) -> list[Any]:
        params = [there(3, device=device, requires_grad=True) for device in devices]
        optimizer = optim.LBFGS(params, line_search_fn="strong_wolfe")

        def closure() -> Any:
            optimizer.zero_grad()
            loss = sum((np.cosh(param).sum().to("cpu") for param in params), ag.tensor(0.0))
            sync.backward(loss)
            return loss

        for _ in range(2):
            optimizer.step(closure)
        return [on_host(one) for one in params]

    np.testing.assert_allclose(stepped(gpus[1], gpus[1]), stepped("cpu", "cpu"), rtol=1e-10, atol=1e-12)
    with pytest.raises(DeviceError, match="LBFGS got tensors on 'cuda:0' and on 'cuda:1'"):
        stepped(*gpus)


# Copies between GPUs, and streams.


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
    (grad,) = sync.grad((y * y).sum(), [x])

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


@on_each_loop
def test_a_profile_shows_a_copy_between_gpus(run: Any, gpus: list[Any]) -> None:
    x = there(LARGE, device=gpus[0])
    with ag.profile() as prof:
        x.to(gpus[1])

    (span,) = prof.device_spans
    found = (span.name, span.kind, span.device, span.stream, span.bytes)

    assert found == ("copy between devices", "copy", "cuda:1", "copies from other GPUs", 8 * LARGE)


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


async def test_a_stream_waits_for_an_event_of_another_gpu(gpus: list[Any]) -> None:
    first, second = (gpu.stream() for gpu in gpus)
    first.cuda_stream.block()
    second.wait_stream(first)
    gpus[1].default_stream().wait_event(second.record_event())

    assert not gpus[1].default_stream().query()
    assert gpus[0].default_stream().query()
    first.cuda_stream.unblock()
    await gpus[1].synchronize()


async def test_work_runs_on_the_streams_of_each_gpu(gpus: list[Any]) -> None:
    streams = [gpu.stream() for gpu in gpus]
    seen = []

    def note(*_: Any) -> None:
        seen.append((get_device(), get_current_stream()))

    x = ag.tensor([1.0, 2.0], device=gpus[0], requires_grad=True)
    with streams[0], streams[1]:
        y = x * 2
        z = y.to(gpus[1])
        w = z * z
    for tensor in (y, w):
        tensor.register_hook(note)
    await w.to(gpus[0]).sum().backward()
    assert on_host(x.grad) == [8.0, 16.0]

    assert seen == [(1, streams[1].cuda_stream), (0, streams[0].cuda_stream)]
    assert get_current_stream() is get_current_stream(1) is Stream.null


@pytest.mark.parametrize("check", DEVICE_CHECKS, ids=lambda check: check.__name__)
async def test_a_gpu_holds_the_law_of_all_devices_while_another_one_is_current(gpus: list[Any], check: Any) -> None:
    with FakeGpu(1):
        await check(gpus[0])
        assert get_device() == 1


# The mechanism.


def test_with_one_gpu_nothing_is_intercepted() -> None:
    add, method = ag.tensor(1.0).__add__.__func__.__globals__, ag.Tensor.item  # type: ignore[attr-defined]
    with open_gpus(1):
        assert not several_devices[0]
        assert not interception.interceptors
        assert add["_function"] is np.add
        assert ag.device("cuda:0").switch is None
    with open_gpus(2):
        assert add["_function"] is not np.add
        assert ag.Tensor.item is not method
    assert add["_function"] is np.add
    assert ag.Tensor.item is method


def test_a_function_that_is_replaced_in_the_globals_of_its_module_is_in_no_other_module() -> None:
    modules = [one for name, one in sys.modules.items() if name.startswith("asyncgrad") and hasattr(one, "__dict__")]
    replaced = [
        (function, put.args[0], put.func.__self__)
        for function, _, _, put in interception._others
        if isinstance(getattr(getattr(put, "func", None), "__self__", None), dict)
    ]
    found = [
        (name, module.__name__)
        for function, name, namespace in replaced
        for module in modules
        if vars(module) is not namespace and vars(module).get(name) is function
    ]

    assert found == []
    assert len(replaced) > 10


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
    windows, sums, products = window_functions(cupy), sum_functions(cupy), product_functions(cupy)
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
        "softmax": lambda x: rows["softmax"](x, -1),
        "masked_softmax": lambda x: losses["masked_softmax"](x, "causal"),
        "find_maxima": lambda x: windows["find_maxima"](x[None], window),
        "batched_product": product_of_stacks,
        "sums": lambda x: (sums[np.sum](x, axis=-1), sums[np.mean](x, axis=0)),
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


@pytest.mark.parametrize(("asked", "mode"), [("1", 3), ("0", 0), (None, 0)])
@pytest.mark.parametrize("count", [1, 2])
def test_float32_is_multiplied_in_tf32_where_the_variable_of_cupy_says_so(
    monkeypatch: pytest.MonkeyPatch, count: int, asked: str | None, mode: int
) -> None:
    monkeypatch.delenv("CUPY_TF32", raising=False)
    if asked is not None:
        monkeypatch.setenv("CUPY_TF32", asked)
    with open_gpus(count) as gpus:
        product = library_functions(sys.modules["cupy"])[np.matmul]
        for gpu in gpus:
            with FakeGpu(gpu.index):
                product(*[gpu.from_host(np.ones((2, 2), np.float32))] * 2)
                assert sys.modules["cupy_backends.cuda.libs.cublas"].getMathMode(get_cublas_handle()) == mode


def test_a_fused_step_is_one_launch_for_each_gpu(gpus: list[Any], loads: list[tuple[str, int]]) -> None:
    params = [there(size, device=gpu, requires_grad=True) for size in (2, 3, 4) for gpu in gpus]
    for param in params:
        param.grad = param.detach() * 1
    kernels = CudaKernels(sys.modules["cupy"])
    functions = DEVICE_FUNCTIONS[ndarray].functions
    register_functions(ndarray, functions, kernels)
    try:
        optimizer = optim.Adam(params)
        for _ in range(2):
            optimizer.step()
    finally:
        register_functions(ndarray, functions)

    assert kernels.launches == 4
    assert [number for _, number in loads] == [0, 1]
    for param in params:
        assert {one._gpu.id for one in optimizer.state[param].values() if isinstance(one, ndarray)} == {
            param.device.index
        }
