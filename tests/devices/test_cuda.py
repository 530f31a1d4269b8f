"""The devices `cuda:0` and `cuda:1` on a stand-in for CuPy, whose streams can be held back."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import pickle
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, ClassVar, final

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, optim
from asyncgrad.devices.cuda.library import library_functions
from asyncgrad.devices.cuda.losses import loss_functions
from asyncgrad.devices.cuda.rows import row_functions
from asyncgrad.devices.cuda.sums import sum_functions
from asyncgrad.errors import ArgumentTypeError, DeviceError, ProfileError
from asyncgrad.memory.offload.transfers import Upload
from asyncgrad.testing import DEVICE_CHECKS
from tests.support.fake_cupy import (
    CUDARuntimeError,
    Event,
    Failure,
    FakeGpu,
    OutOfMemoryError,
    Stream,
    alloc_pinned_memory,
    get_current_stream,
    memory_pool,
    ndarray,
    open_gpus,
)
from tests.support.loops import on_each_loop

#: Elements of an array that is copied on a stream of its own.
LARGE = 200_003


@pytest.fixture
def gpus() -> Iterator[list[Any]]:
    with open_gpus(2) as opened:
        yield opened


@pytest.fixture
def gpu(gpus: list[Any]) -> Any:
    return gpus[0]


@pytest.mark.slow
@pytest.mark.parametrize("check", DEVICE_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("number", [0, 1])
async def test_a_gpu_holds_the_law_of_all_devices(gpus: list[Any], number: int, check: Any) -> None:
    await check(gpus[number])


# Opening.


def test_a_name_without_a_number_is_that_of_the_first_gpu(gpus: list[Any]) -> None:
    assert ag.device("cuda") is ag.device("cuda:0") is gpus[0]
    assert pickle.loads(pickle.dumps(gpus[1])) is gpus[1]


def test_a_gpu_that_there_is_not_is_refused_with_those_that_there_are(gpus: list[Any]) -> None:
    with pytest.raises(DeviceError, match="this machine has 2 NVIDIA GPUs: 'cuda:0', 'cuda:1'"):
        ag.device("cuda:2")


def test_a_machine_without_a_gpu_says_what_is_missing() -> None:
    with (
        open_gpus(0),
        pytest.raises(DeviceError, match=r"needs an NVIDIA GPU and its driver, .* shows CUDA 13 or newer"),
    ):
        ag.device("cuda:0")


def test_a_machine_without_cupy_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_gpus(0):
        monkeypatch.setitem(sys.modules, "cupy", None)  # type: ignore[arg-type]
        with pytest.raises(DeviceError, match=re.escape("pip install 'asyncgrad[cuda13]'")):
            ag.device("cuda:0")


@pytest.mark.parametrize("name", ["cuda:x", "cuda:-1", "cuda:", "gpu"])
def test_a_name_that_no_gpu_can_have_is_answered_with_one_that_one_has(name: str) -> None:
    with pytest.raises(DeviceError, match=rf"there is no device {name!r}; there are .*with an NVIDIA GPU 'cuda:0'"):
        ag.device(name)


def test_a_cupy_that_is_too_old_is_named_with_the_one_that_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_gpus(0):
        monkeypatch.setattr(sys.modules["cupy"], "__version__", "13.6.0")
        with pytest.raises(DeviceError, match=r"needs CuPy 14 or newer, and CuPy 13\.6\.0 is installed: pip install"):
            ag.device("cuda:0")


def test_a_cupy_that_is_broken_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def find_spec(self, name: str, path: Any, target: Any = None) -> None:
            if name == "cupy":
                raise ImportError("libcudart.so.12: cannot open shared object file")

    with open_gpus(0):
        monkeypatch.delitem(sys.modules, "cupy")
        monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
        with pytest.raises(DeviceError, match=r"needs CuPy, which cannot be imported \(libcudart\.so\.12: cannot open"):
            ag.device("cuda:0")


# Copies.


@pytest.mark.slow
@pytest.mark.parametrize("size", [120, LARGE * 3])
@pytest.mark.parametrize("dtype", ["?", "i4", "f2", "f8", "c16", ">f8"])
def test_a_move_there_and_back_keeps_elements_and_their_order(gpu: Any, size: int, dtype: str) -> None:
    array = (np.arange(size) % 7).astype(dtype)
    for made in (array, array.reshape(3, -1).T, array[::-2], array.reshape(3, -1)[:, ::2]):
        here = ag.tensor(made)
        there = here.to(gpu)

        assert type(there._data) is ndarray
        np.testing.assert_array_equal(there.to("cpu").numpy(), made)
        assert there.to("cpu").numpy().strides == there._data.strides


async def test_the_host_does_not_wait_for_a_move_that_does_not_block(gpu: Any) -> None:
    Stream.null.block()
    y = ag.tensor(np.ones(LARGE), device=gpu) * 2
    host = y.to("cpu", non_blocking=True)
    event = gpu.default_stream().record_event()

    assert not event.query()
    Stream.null.unblock()
    await gpu.synchronize()
    assert event.query()
    assert host.numpy().sum() == 2 * LARGE


def test_what_a_copy_has_brought_is_kept_while_work_may_use_it(gpu: Any) -> None:
    before = gpu.memory_allocated()
    there = ag.tensor(np.ones(LARGE), device=gpu)
    size = gpu.memory_allocated() - before
    gpu.default_stream().cuda_stream.block()
    del there

    assert size == LARGE * 8
    gpu.release_held()
    assert gpu.memory_allocated() == before + size
    Stream.null.unblock()
    gpu.empty_cache()
    assert gpu.memory_allocated() == before


# Times.


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Each event is a millisecond later than the one recorded before; memory that is freed records one, too."""
    now = [0.0]

    def clock() -> float:
        now[0] += 1e-3
        return now[0]

    monkeypatch.setattr(Event, "clock", staticmethod(clock))
    return now


def test_timed_events_measure_milliseconds_and_others_have_no_time(gpu: Any, ticking: list[float]) -> None:
    stream = gpu.current_stream()
    begin, plain, end = (stream.record_event(enable_timing=which) for which in (True, False, True))

    assert begin.elapsed_time(end) > 1.99
    for one, other in ((begin, plain), (plain, begin), (begin, None)):
        with pytest.raises(DeviceError, match=r"record_event\(enable_timing=True\)|takes an event of a stream"):
            one.elapsed_time(other)


def test_an_event_that_has_not_completed_has_no_time_yet(gpu: Any, gpus: list[Any]) -> None:
    begin = gpu.current_stream().record_event(enable_timing=True)
    Stream.null.block()
    end = gpu.current_stream().record_event(enable_timing=True)

    with pytest.raises(DeviceError, match=r"await event\.synchronize\(\)"):
        begin.elapsed_time(end)
    Stream.null.unblock()
    assert begin.elapsed_time(end) >= 0
    with pytest.raises(DeviceError, match="takes an event of a stream of 'cuda:0'"):
        begin.elapsed_time(gpus[1].current_stream().record_event(enable_timing=True))


def test_a_profile_has_a_lane_for_the_copies_in_each_direction(gpu: Any, ticking: list[float]) -> None:
    with ag.profile() as prof:
        x = ag.tensor(np.ones(LARGE), device=gpu)
        (x * 2).to("cpu")
    # In no order: each lane's time is told by the host's clock, too, and this thread may have had to wait for it.
    spans = {span.stream: span for span in prof.device_spans}
    copied, computed = spans.pop("copies to the device"), spans.pop("default stream")
    returned = spans.pop("copies to the host")

    assert not spans
    assert (copied.name, copied.bytes) == ("copy to the device", LARGE * 8)
    assert computed.name == "multiply"
    assert returned.name == "copy to the host"
    assert all(span.duration > 0.99e6 for span in (copied, computed))


async def test_a_profile_shows_work_on_each_gpu_and_stream(gpus: list[Any]) -> None:
    leaves = [ag.tensor([1.0, 2.0], device=gpu, requires_grad=True) for gpu in gpus]
    async with ag.profile() as prof:
        for gpu, x in zip(gpus, leaves, strict=True):
            with gpu.stream() as stream:
                y = np.tanh(x).sum()
            gpu.current_stream().wait_stream(stream)
            await y.backward()
    spans = prof.device_spans

    assert {span.device for span in spans} == {"cuda:0", "cuda:1"}
    assert {span.stream for span in spans if span.name == "TanhBackward"} == {"stream 1"}
    assert all(span.launched <= span.began <= span.ended and span.kernels == 0 for span in spans)


async def test_a_profile_waits_for_the_gpu_without_a_wait_of_the_loop(gpu: Any) -> None:
    x = ag.tensor([1.0, 2.0], device=gpu)
    with ag.profile() as prof:
        Stream.null.block()
        np.tanh(x)
    with pytest.raises(ProfileError, match=r"'cuda:0' has not done yet .* write await prof\.synchronize\(\)"):
        prof.table()
    waiting = asyncio.ensure_future(prof.synchronize())
    await asyncio.sleep(0)
    assert not waiting.done()
    Stream.null.unblock()
    await waiting
    assert [span.name for span in prof.device_spans] == ["tanh"]


def test_copies_that_are_under_way_when_a_profile_begins_do_not_disturb_its_times(
    gpu: Any, ticking: list[float]
) -> None:
    x, copies = ag.tensor([1.0, 2.0], device=gpu), gpu.copy_streams[0].cuda_stream
    copies.block()
    with ag.profile() as prof:
        for _ in range(3):
            np.tanh(x)
        copies.unblock()

    assert all(span.duration > 0.99e6 for span in prof.device_spans)
    assert prof.device_spans[2].began - prof.device_spans[0].began > 3.99e6


def test_a_gpu_counts_the_kernels_of_asyncgrad(gpu: Any) -> None:
    before = gpu.kernels_launched()
    gpu._kernels.launched[0] += 3

    assert gpu.kernels_launched() == before + 3


def test_times_of_a_long_profile_are_exact(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1e5]
    monkeypatch.setattr(Event, "clock", staticmethod(lambda: now[0]))
    x = ag.tensor([1.0, 2.0], device=gpu)
    with ag.profile(clock=lambda: now[0]) as prof:
        for _ in range(2000):
            np.tanh(x)
            now[0] += 0.9000011
    begins = [span.began for span in prof.device_spans]

    # Half an hour in single precision is exact to a tenth of a millisecond.
    assert begins[-1] - begins[0] == pytest.approx(1999 * 900_001_100, abs=1e5)
    assert all(abs(span.began - span.launched) < 1e5 for span in prof.device_spans)


async def test_a_copy_ahead_of_need_holds_no_work_back_but_that_which_uses_it(gpu: Any) -> None:
    gpu.default_stream()
    gpu.copy_streams[0].cuda_stream.block()
    upload = Upload(np.arange(6.0), gpu)

    assert gpu.default_stream().query()
    taken = upload.take()
    assert not gpu.default_stream().query()
    gpu.copy_streams[0].cuda_stream.unblock()
    await gpu.synchronize()
    assert taken.tolist() == list(range(6))


async def test_saved_tensors_go_by_pinned_memory_and_copy_streams_while_the_loop_runs(
    gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies: list[tuple[int, Any]] = []
    copy, streams = sys.modules["cupy.cuda.runtime"].memcpyAsync, gpu.copy_streams
    pinned: list[range] = []
    down, up = (2, streams[1].cuda_stream.ptr), (1, streams[0].cuda_stream.ptr)
    both_read: list[Callable[[], object]] = []

    def allocate(size: int) -> Any:
        made = alloc_pinned_memory(size)
        pinned.append(range(made.ptr, made.ptr + size))
        return made

    def noted(target: int, source: int, size: int, kind: int, stream: int) -> None:
        assert any((source if kind == 1 else target) in one for one in pinned)
        copies.append((kind, stream))
        copy(target, source, size, kind, stream)
        if copies.count(up) == 2:
            both_read[0]()

    monkeypatch.setattr(sys.modules["cupy.cuda"], "alloc_pinned_memory", allocate)
    monkeypatch.setattr(sys.modules["cupy.cuda.runtime"], "memcpyAsync", noted)

    x = ag.tensor(np.full(LARGE, 0.5), device=gpu, requires_grad=True)
    copies.clear()
    Stream.null.block()
    asyncio.get_running_loop().call_soon(Stream.null.unblock)
    # Nothing in the block waits for the GPU; its end does, and lets the loop run.
    async with ag.graph.save_on_cpu(min_bytes=1):
        first = np.tanh(x)
        last = np.tanh(first)
        copies.append((0, None))
    begun: list[int] = []
    ahead, loop = asyncio.Event(), asyncio.get_running_loop()
    # A thread reads them.
    both_read.append(lambda: loop.call_soon_threadsafe(ahead.set))

    async def before_the_second_node(grads: Any) -> None:
        # Its body is what needs the second one, and runs after this hook.
        async with asyncio.timeout(60):
            await ahead.wait()
        begun.append(len(copies))

    first.grad_fn.register_prehook(before_the_second_node)
    await last.sum().backward()
    assert sorted(copies[: copies.index((0, None))]) == [down] * 2
    assert copies[copies.index((0, None)) + 1 :] == [up] * 2
    # Both are read ahead of the second node's need.
    assert begun == [len(copies)]


# Waiting.


async def test_other_tasks_run_while_one_waits_for_the_gpu(gpu: Any) -> None:
    Stream.null.block()
    waiting = asyncio.ensure_future(gpu.synchronize())
    await asyncio.sleep(0)
    assert not waiting.done()
    Stream.null.unblock()
    await waiting


async def test_a_stream_that_waits_for_an_event_is_held_back_with_it(gpu: Any) -> None:
    first, second = gpu.stream(), gpu.stream()
    first.cuda_stream.block()
    second.wait_event(first.record_event())
    last = second.record_event()

    assert not last.query()
    first.cuda_stream.unblock()
    assert last.query()
    await gpu.synchronize()


def test_work_runs_on_the_current_stream_of_its_task(gpu: Any) -> None:
    stream = gpu.stream()
    x = ag.tensor([1.0, 2.0], device=gpu, requires_grad=True)
    with stream:
        y = (x * x).sum()
        assert get_current_stream() is stream.cuda_stream

    assert y.grad_fn.stream is stream
    x * 2
    assert get_current_stream() is Stream.null


def test_what_computes_with_gradients_outside_of_a_step_does_so_on_the_stream_of_its_task(gpu: Any) -> None:
    x = ag.tensor([1.0, 2.0], device=gpu, requires_grad=True)
    optimizer, average = optim.SGD([x]), optim.ExponentialMovingAverage([x], 0.9)
    calls = (
        lambda: optim.clip_grad_norm([x], 0.1),
        lambda: optim.clip_grad_value([x], 0.1),
        lambda: optimizer.zero_grad(set_to_none=False),
        average.update,
    )
    others, stream = contextvars.copy_context(), gpu.stream()
    for call in calls:
        x.grad = ag.tensor([3.0, 4.0], device=gpu)
        with stream:
            # Another task of this thread.
            others.run(lambda: x * 2)
            call()
            found = get_current_stream()

        assert found is stream.cuda_stream


# Memory.


async def test_a_backward_without_memory_leaves_graph_and_gradients_as_they_were(gpu: Any) -> None:
    x = ag.tensor(np.full(1000, 2.0), device=gpu, requires_grad=True)
    y = (x * x * x).sum()
    memory_pool.set_limit(memory_pool.used_bytes() + 100)

    with pytest.raises(OutOfMemoryError, match="Out of memory allocating"):
        await y.backward(retain_graph=True)

    assert x.grad is None
    memory_pool.set_limit()
    await y.backward()
    assert x.grad is not None
    assert x.grad.to("cpu").numpy().tolist() == [12.0] * 1000


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
async def test_a_gradient_without_memory_for_its_copy_names_the_leaf(gpu: Any, compiled: bool) -> None:
    x = ag.tensor(np.full(1000, 2.0), device=gpu, requires_grad=True)
    with ag.compiled_autograd(after=1) if compiled else nullcontext():
        # The gradient is that of both operands, so a copy is made for `.grad`.
        total = ag.tensor(np.zeros(1000), device=gpu, requires_grad=True)
        loss = (x + total).sum()
        gradient = ag.tensor(1.0, device=gpu)
        for _ in range(3):
            total.grad = x.grad = None
            await loss.backward(gradient, retain_graph=True)
        total.grad = x.grad = None
        memory_pool.set_limit(memory_pool.used_bytes() + 100)

        with pytest.raises(OutOfMemoryError) as caught:
            await loss.backward(gradient, retain_graph=True)

    assert caught.value.__notes__ == ["in AccumulateGrad (leaf of shape (1000,), device 'cuda:0')"]


OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "of two tensors": lambda x: x * x,
    "with a number": lambda x: 2 * x,
    "a product": lambda x: x @ x.T,
    "a comparison": lambda x: np.where(x > 0, x, 0),
}


@pytest.mark.usefixtures("only_the_loop_keeps")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_forward_without_memory_keeps_none(gpu: Any, operation: str) -> None:
    x = ag.tensor(np.ones((100, 100)), device=gpu, requires_grad=True)

    def forward() -> Any:
        return OPERATIONS[operation](np.tanh(x))

    forward()
    before = gpu.memory_allocated()
    # Room for the hyperbolic tangents alone.
    memory_pool.set_limit(before + 80_000)

    for _ in range(2):
        with pytest.raises(OutOfMemoryError):
            forward()
        assert gpu.memory_allocated() == before


@pytest.mark.parametrize("optimizer", [optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop, optim.Adagrad, optim.Lion])
def test_a_step_without_memory_is_no_step(gpu: Any, optimizer: Any) -> None:
    def made() -> tuple[Any, list[Any]]:
        params = [ag.tensor(np.full(100, value), device=gpu, requires_grad=True) for value in (1.0, 2.0)]
        for param in params:
            param.grad = ag.tensor(np.full(100, 0.5), device=gpu)
        return optimizer(params, lr=0.1), params

    failing, params = made()
    for room in range(0, 100_000, 400):
        memory_pool.set_limit(memory_pool.used_bytes() + room)
        try:
            failing.step()
        except OutOfMemoryError:
            memory_pool.set_limit()
            assert [param[0].item() for param in params] == [1.0, 2.0]
        else:
            break
    memory_pool.set_limit()
    whole, known = made()
    whole.step()

    assert room
    assert [param.tolist() for param in params] == [param.tolist() for param in known]


def test_host_memory_that_is_full_is_no_failure_of_the_gpu(gpu: Any) -> None:
    Failure.has_no_pinned_memory = True
    with pytest.raises(MemoryError, match="no page-locked memory of the host for a copy: cudaErrorMemoryAllocation"):
        ag.tensor([1.0], device=gpu)
    Failure.has_no_pinned_memory = False
    assert ag.tensor([1.0], device=gpu).tolist() == [1.0]


def test_memory_that_work_still_uses_is_kept_behind_memory_that_none_does(gpu: Any) -> None:
    first, second = gpu.stream(), gpu.stream()
    second.cuda_stream.block()
    gpu.hold([first.record_event().cuda_event], "idle")
    gpu.hold([second.record_event().cuda_event], "used")
    gpu.release_held()

    assert [value for _, value in gpu._held] == ["used"]
    second.cuda_stream.unblock()


# Failures.


def test_a_gpu_that_is_lost_says_so_wherever_it_is_asked(gpu: Any) -> None:
    large = ag.tensor(np.ones(LARGE), device=gpu)
    stream = gpu.current_stream()
    event = stream.record_event()
    Failure.is_lost = True
    # No unraisable error: pytest turns one into a failure.
    del large

    for ask in [event.query, event.synchronize, stream.query, gpu.synchronize, lambda: ag.tensor([1.0], device=gpu)]:
        with pytest.raises(DeviceError, match="'cuda:0' has failed: cudaErrorLaunchFailure"):
            ask()
    gpu.close()


async def test_a_gpu_that_is_lost_while_a_task_waits_wakes_the_task(gpu: Any) -> None:
    Stream.null.block()
    waiting = asyncio.ensure_future(gpu.synchronize())
    await asyncio.sleep(0)
    Failure.is_lost = True
    Stream.null.unblock()
    with pytest.raises(DeviceError, match="cudaErrorLaunchFailure"):
        await waiting


@final
class LosesTheGpu(ag.Function):
    """Doubles; the GPU is lost in its backward, of which a part follows."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    async def backward(ctx: Any, grad: Any) -> Any:
        await asyncio.sleep(0)
        Failure.is_lost = True
        return grad


@on_each_loop
@pytest.mark.parametrize("save", [nullcontext, ag.graph.save_on_cpu])
@pytest.mark.parametrize("is_blocking", [False, True])
def test_a_gpu_that_is_lost_in_the_midst_of_a_backward_ends_it_and_leaves_every_grad(
    run: Any, gpu: Any, is_blocking: bool, save: Any
) -> None:
    x = ag.tensor([1.0, 2.0], device=gpu, requires_grad=True)
    ag.sync.backward((x * 3).sum())
    with save():
        y = np.tanh(LosesTheGpu.apply(np.exp(x) * x)).sum() + np.sin(x).sum()

    with pytest.raises((CUDARuntimeError, DeviceError), match="cudaErrorLaunchFailure"):
        ag.sync.backward(y) if is_blocking else run(ag.backward(y))

    Failure.is_lost = False
    assert x.grad.tolist() == [3.0, 3.0]


def test_a_child_of_fork_is_told_of_the_fork_whatever_it_asks(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    large = ag.tensor(np.ones(LARGE), device=gpu)
    event = gpu.current_stream().record_event()
    # A child has another process id, and CUDA refuses all calls there.
    monkeypatch.setattr(gpu, "_process", 0)
    Failure.is_lost = True
    del large
    asked = [event.query, event.synchronize, gpu.synchronize, gpu.stream, gpu.empty_cache, gpu.memory_allocated]

    for ask in asked:
        with pytest.raises(DeviceError, match="opened before this process was forked"):
            ask()
    gpu.close()


async def test_a_thread_that_cannot_start_is_tried_again(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    stream = gpu.stream()
    stream.cuda_stream.block()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            await stream.synchronize()
    asyncio.get_running_loop().call_soon(stream.cuda_stream.unblock)
    await stream.synchronize()


def test_a_gradient_that_needs_what_the_library_lacks_says_so_by_name(gpu: Any) -> None:
    special = pytest.importorskip("scipy.special")
    x = ag.tensor([0.25, 0.5], device=gpu, requires_grad=True)
    value = special.lpmv(1.0, 2.0, x).sum()

    with pytest.raises(
        ArgumentTypeError, match=r"gradient of scipy\.special\.lpmv is not available on cuda:0.*\.to\('cpu'\)"
    ):
        ag.sync.backward(value)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        *[(name, ([-30.0, -1.0, -0.25, -1e-7, 0.0, 1e-7, 0.75, 3.0, 2e4],)) for name in ("j1", "i1e")],
        *[(name, ([1e-3, 0.5, 1.0, 20.0],)) for name in ("i1", "k1", "k1e")],
        ("psi", ([-0.5, 0.25, 3.0],)),
        ("zetac", ([-2.5, 1.25, 9.0],)),
        *[(name, ([0.5, 2.0], [0.25, 3.0])) for name in ("gammainc", "chdtrc")],
        ("betainc", ([0.5, 2.0], [0.75, 3.0], [0.25, 0.5])),
        ("fdtri", ([2.0, 3.0], [4.0, 3.0], [0.25, 0.5])),
        ("wright_bessel", ([0.5, 1.0], [1.5, 2.0], [0.25, 2.0])),
        ("ellipkm1", ([1e-8, 0.5],)),
        ("ellipeinc", ([0.5, 4.0], [0.25, 0.75])),
    ],
)
def test_a_special_function_of_the_library_has_the_derivatives_of_scipy(gpu: Any, name: str, values: Any) -> None:
    function = getattr(pytest.importorskip("scipy.special"), name)

    def derivatives(device: Any) -> list[np.ndarray]:
        leaves = [ag.tensor(value, device=device, requires_grad=True) for value in values]
        first = ag.sync.grad(function(*leaves).sum(), leaves, create_graph=True)
        second = ag.sync.grad(sum(one.sum() for one in first), leaves)
        return [one.detach().to("cpu").numpy() for one in (*first, *second)]

    for found, expected in zip(derivatives(gpu), derivatives("cpu"), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "call",
    [
        lambda s, x: s.logsumexp(x),
        lambda s, x: s.softmax(x),
        lambda s, x: s.log_softmax(x, 0),
        lambda s, x: s.polygamma(1, x),
        lambda s, x: s.zeta(2.5, x),
        lambda s, x: s.zeta(x + 2, 1.5),
        lambda s, x: s.multigammaln(x + 1, 2),
    ],
)
def test_a_function_of_scipy_that_is_no_ufunc_runs_on_a_gpu(gpu: Any, call: Any) -> None:
    special = pytest.importorskip("asyncgrad.scipy.special")

    def outcome(device: Any) -> list[np.ndarray]:
        x = ag.tensor([0.5, 2.0, 3.0], device=device, requires_grad=True)
        value = call(special, x)
        (grad,) = ag.sync.grad((value * value).sum(), [x])
        return [one.detach().to("cpu").numpy() for one in (value, grad)]

    for found, expected in zip(outcome(gpu), outcome("cpu"), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_function_of_scipy_that_a_gpu_lacks_says_what_to_write(gpu: Any) -> None:
    special = pytest.importorskip("asyncgrad.scipy.special")

    with pytest.raises(ArgumentTypeError, match=r"special\.spherical_jn is not available on cuda:0.*\.to\('cpu'\)"):
        special.spherical_jn(1, ag.tensor([0.5], device=gpu))


def test_a_gradient_of_a_users_that_needs_what_the_library_lacks_says_where_it_is(gpu: Any) -> None:
    special = pytest.importorskip("scipy.special")

    class Bessel(ag.Function):
        """A function with a gradient that a user has written."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * special.jv(2, ctx.saved_tensors[0]._data)

    x = ag.tensor([1.0, 2.0], device=gpu, requires_grad=True)

    with pytest.raises(TypeError, match="'jv'") as raised:
        ag.sync.backward(Bessel.apply(x).sum())
    (note,) = (one for one in raised.value.__notes__ if "not available" in one)
    assert note.startswith("a function that its gradient calls is not available on cuda:0: write")
    assert "t.to('cpu')" in note


# Waits.


@pytest.mark.parametrize("array", [[[2.0, 3.0], [4.0, 5.0]], [[2.0, 0.0], [4.0, 5.0]]])
@pytest.mark.parametrize("axis", [None, 1])
def test_the_gradient_of_a_product_is_computed_without_a_wait(
    gpu: Any, monkeypatch: pytest.MonkeyPatch, array: Any, axis: Any
) -> None:
    def gradient(device: Any) -> Any:
        x = ag.tensor(array, device=device, requires_grad=True)
        ag.sync.backward(np.prod(x, axis=axis).sum())
        return x.grad

    with monkeypatch.context() as patch:
        patch.setattr(ndarray, "__bool__", None)
        found = gradient(gpu)

    assert found.tolist() == gradient("cpu").tolist()


# Clipping.


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The arrays that the host has waited for."""
    found: list[Any] = []
    for name in ("tolist", "item", "__bool__"):
        original = getattr(ndarray, name)
        monkeypatch.setattr(ndarray, name, lambda self, original=original: (found.append(self), original(self))[1])
    return found


def test_the_host_waits_once_for_the_norm_of_many_gradients(gpu: Any, waits: list[Any]) -> None:
    params = [ag.tensor(np.full(3, float(value)), device=gpu, requires_grad=True) for value in range(1, 6)]
    for param in params:
        param.grad = param.detach() * 1

    assert optim.clip_grad_norm(params, 1.0) == pytest.approx((3 * 55) ** 0.5)
    assert len(waits) == 1
    optim.clip_grad_value(params, 0.1)
    assert len(waits) == 2


def test_an_iteration_to_a_fixed_point_waits_once(gpu: Any, waits: list[Any]) -> None:
    a, calls = ag.tensor([2.0, 3.0], device=gpu), 0

    def newton_step(a: Any, x: Any) -> Any:
        nonlocal calls
        calls += 1
        return 0.5 * (x + a / x)

    ag.sync.func.fixed_point(newton_step, a, ag.tensor([1.0, 1.0], device=gpu))

    assert len(waits) == calls > 3


def test_an_iteration_of_lbfgs_waits_as_often_whatever_it_remembers(gpu: Any, waits: list[Any]) -> None:
    x = ag.tensor([1.0, -2.0, 3.0], device=gpu, requires_grad=True)
    optimizer, counts = optim.LBFGS([x], max_iter=7), list[int]()

    def closure() -> Any:
        counts.append(len(waits))
        optimizer.zero_grad()
        loss = ((x - 0.5) ** 4).sum()
        ag.sync.backward(loss)
        return loss

    optimizer.step(closure)

    # The loss, the slope, the curvature with the length of a change, and what tells whether the search has ended.
    assert {after - before for before, after in itertools.pairwise(counts[2:])} == {4}


def test_the_gradient_of_qr_does_not_wait_and_is_nan_where_there_is_none(gpu: Any, waits: list[Any]) -> None:
    x = ag.tensor([[[1.0, 2.0], [2.0, 4.0]], [[1.0, 2.0], [3.0, 4.0]]], device=gpu, requires_grad=True)

    ag.sync.backward(np.linalg.qr(x)[1].sum())

    assert not waits
    assert np.isnan(x.grad.to("cpu").numpy()).all((-2, -1)).tolist() == [True, False]


# Operands elsewhere.


def of_layer(layer: Callable[..., Any], *sizes: int, shape: tuple[int, ...]) -> Any:
    return lambda gpu, other: layer(*sizes, dtype=np.float64).to(gpu)(other(np.ones(shape)))


BESIDE: dict[str, Any] = {
    "linear": of_layer(nn.Linear, 3, 2, shape=(2, 3)),
    "conv2d": of_layer(nn.Conv2d, 1, 1, 2, shape=(1, 1, 3, 3)),
    "layer_norm": of_layer(nn.LayerNorm, 3, shape=(2, 3)),
    "batch_norm": of_layer(nn.BatchNorm1d, 3, shape=(2, 3)),
    "recurrent layer": of_layer(nn.LSTM, 3, 2, shape=(4, 2, 3)),
    "mse_loss": lambda gpu, other: nn.mse_loss(ag.tensor(np.ones(3), device=gpu), other(np.ones(3))),
    "t[index] = value": lambda gpu, other: ag.tensor(np.ones((2, 3)), device=gpu).__setitem__(0, other(np.ones(3))),
    "iadd": lambda gpu, other: ag.tensor(np.ones(3), device=gpu).__iadd__(other(np.ones(3))),
}


@pytest.mark.parametrize("name", BESIDE)
@pytest.mark.parametrize("place", ["ndarray", "cpu"])
def test_what_is_not_on_the_gpu_is_refused_with_how_to_move_it(gpu: Any, name: str, place: str) -> None:
    other = ag.tensor if place == "cpu" else np.asarray

    with pytest.raises(DeviceError, match=r"ag\.tensor\(" if place == "ndarray" else r"\.to\('"):
        BESIDE[name](gpu, other)


#: By the name that an error has: a function of floats, the shapes of what it takes, and other arguments.
OF_SEVERAL: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "numpy.einsum": (lambda x, y: np.einsum("ij,ij", x, y), [(3, 4), (3, 4)]),
    "numpy.outer": (np.outer, [(3,), (4,)]),
    "numpy.vecdot": (np.vecdot, [(3, 4), (3, 4)]),
    "numpy.correlate": (np.correlate, [(4,), (4,)]),
    "mse_loss": (nn.mse_loss, [(3, 4), (3, 4)]),
    "kl_div": (nn.kl_div, [(3, 4), (3, 4)]),
    "binary_cross_entropy": (nn.binary_cross_entropy, [(3, 4), (3, 4)]),
    "gaussian_nll_loss": (nn.gaussian_nll_loss, [(3, 4), (3, 4), (3, 4)]),
    "hinge_embedding_loss": (nn.hinge_embedding_loss, [(3, 4), (3, 4)]),
    "margin_ranking_loss": (nn.margin_ranking_loss, [(3,), (3,), (3,)]),
    "cosine_embedding_loss": (nn.cosine_embedding_loss, [(3, 4), (3, 4), (3,)]),
    "triplet_margin_loss": (nn.triplet_margin_loss, [(3, 4), (3, 4), (3, 4)]),
    "cosine_similarity": (nn.cosine_similarity, [(3, 4), (3, 4)]),
    "pairwise_distance": (nn.pairwise_distance, [(3, 4), (3, 4)]),
    "prelu": (nn.prelu, [(3, 4), (1,)]),
    "conv1d": (nn.conv1d, [(1, 2, 5), (3, 2, 2), (3,)]),
    "conv2d": (nn.conv2d, [(1, 2, 5, 5), (3, 2, 2, 2), (3,)]),
    "conv_transpose1d": (nn.conv_transpose1d, [(1, 2, 5), (2, 3, 2), (3,)]),
    "conv_transpose2d": (nn.conv_transpose2d, [(1, 2, 5, 5), (2, 3, 2, 2), (3,)]),
    "group_norm": (lambda x, w, b: nn.group_norm(x, 2, w, b), [(3, 4), (4,), (4,)]),
    "instance_norm": (nn.instance_norm, [(3, 4, 2), (4,), (4,), (4,), (4,)]),
    "rms_norm": (lambda x, w: nn.rms_norm(x, 4, w), [(3, 4), (4,)]),
    "scaled_dot_product_attention": (nn.scaled_dot_product_attention, [(2, 3, 4), (2, 3, 4), (2, 3, 4)]),
}


@pytest.mark.parametrize("name", OF_SEVERAL)
def test_an_error_of_operands_on_two_devices_names_the_function_that_was_called(gpu: Any, name: str) -> None:
    function, shapes = OF_SEVERAL[name]
    arrays = [np.full(shape, 0.5) for shape in shapes]
    there = [ag.tensor(array, device=gpu) for array in arrays]
    function(*there)

    for place, array in enumerate(arrays):
        for wrong in (array, ag.tensor(array)):
            with pytest.raises(DeviceError) as caught:
                function(*there[:place], wrong, *there[place + 1 :])
            # NumPy's functions have the name of their module where NumPy's array is at fault.
            assert str(caught.value).startswith((f"{name} got", f"{name.removeprefix('numpy.')} got"))


@pytest.mark.parametrize(
    "function", [nn.cross_entropy, nn.nll_loss, nn.multi_margin_loss], ids=lambda one: one.__name__
)
def test_scores_on_the_host_are_refused_beside_labels_on_a_gpu(gpu: Any, function: Any) -> None:
    with pytest.raises(DeviceError, match=rf"^{function.__name__} got"):
        function(np.ones((3, 4)), ag.tensor(np.arange(3), device=gpu))


# Sums.


@final
class NotedModule:
    """A module of kernels that do nothing, each of which belongs to the GPU on which it has been loaded."""

    #: The GPUs of the kernels that have been launched.
    launched: ClassVar[list[int]] = []

    def __init__(self, code: str, options: tuple[str, ...]) -> None:
        self.code = code

    def get_function(self, name: str) -> Any:
        """Return a kernel, for both ways to launch it."""
        number = FakeGpu().id

        def kernel(*launch: Any) -> None:
            assert number == FakeGpu().id, "a kernel of another GPU"
            self.launched.append(number)

        # A function has attributes, too.
        kernel.linear_launch = kernel  # type: ignore[attr-defined]
        return SimpleNamespace(kernel=kernel)


@pytest.fixture
def noted_cupy(gpu: Any) -> Any:
    """The module as far as kernels need it, with a NotedModule."""
    NotedModule.launched.clear()
    return SimpleNamespace(ndarray=ndarray, RawModule=NotedModule, cuda=sys.modules["cupy"].cuda)


@pytest.mark.parametrize("axis", [0, -1, np.int64(1), np.int32(-1), (0, 1), (np.int64(0), 1), None])
def test_an_axis_may_be_an_integer_of_numpys(gpu: Any, noted_cupy: Any, axis: Any) -> None:
    sums = sum_functions(noted_cupy)[np.sum]
    array = np.ones((2, 3))

    assert sums(gpu.from_host(array), axis=axis).shape == array.sum(axis=axis).shape
    assert len(NotedModule.launched) == 1


@pytest.mark.parametrize(("lengths", "axes"), [(2, 1), ((2,), (0,)), ((3, 2), (1, 0)), (0, 1), (4, 1)])
def test_windows_are_views_that_are_made_without_a_wait(
    gpu: Any, noted_cupy: Any, monkeypatch: pytest.MonkeyPatch, lengths: Any, axes: Any
) -> None:
    array = np.arange(12.0).reshape(3, 4)
    x = gpu.from_host(array)
    right = np.lib.stride_tricks.sliding_window_view(array, lengths, axes)
    make = library_functions(noted_cupy)[np.lib.stride_tricks.sliding_window_view]
    with monkeypatch.context() as patch:
        patch.setattr(ndarray, "_compute", None)
        windows = make(x, lengths, axes)

    assert windows.data.ptr == x.data.ptr
    assert windows.strides == right.strides
    assert windows.tolist() == right.tolist()


@pytest.mark.parametrize("length", [-1, 5])
def test_windows_that_do_not_fit_are_refused(gpu: Any, noted_cupy: Any, length: int) -> None:
    with pytest.raises(ValueError, match="window"):
        library_functions(noted_cupy)[np.lib.stride_tricks.sliding_window_view](
            gpu.from_host(np.ones((3, 4))), length, 1
        )


def test_each_gpu_has_kernels_of_its_own(noted_cupy: Any) -> None:
    functions = {**sum_functions(noted_cupy), **row_functions(noted_cupy), **loss_functions(noted_cupy)}
    for number in (0, 1, 0):
        with FakeGpu(number):
            x, labels = ndarray((2, 3)), ndarray((2,), np.int64)
            functions[np.sum](x, axis=1)
            functions["softmax"](x, -1)
            functions["cross_entropy"](x, labels, -100, "none")

    assert NotedModule.launched == [0, 0, 0, 1, 1, 1, 0, 0, 0]


# Products by cuBLAS.


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f", "d", "F", "i"])
@pytest.mark.parametrize("shape", [(3, 4, 5), (1, 4, 1), (3, 1, 5), (0, 4, 5), (3, 0, 5)])
def test_a_product_of_matrices_in_any_order_is_that_of_numpy(gpu: Any, dtype: str, shape: tuple[int, int, int]) -> None:
    rows, length, columns = shape
    rng = np.random.default_rng(1)

    def made(shape: tuple[int, int], order: str) -> Any:
        # Small integers, so that no sum is rounded.
        array = rng.integers(-9, 9, (shape[0], shape[1] * 2)).astype(dtype)
        return array[:, ::2] if order == "strided" else np.array(array[:, ::2], order=order)  # type: ignore[call-overload]

    for x_order, y_order in itertools.product(("C", "F", "strided"), repeat=2):
        x, y = made((rows, length), x_order), made((length, columns), y_order)
        there, other = (ag.asarray(gpu.from_host(one), device=gpu) for one in (x, y))

        orders = f"{x_order} and {y_order}"
        np.testing.assert_array_equal((there @ other).to("cpu").numpy(), x @ y, orders, strict=True)
    with pytest.raises(ValueError, match="mismatch"):
        there @ ag.tensor(np.ones((length + 1, 2), dtype), device=gpu)
