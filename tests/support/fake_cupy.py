"""A stand-in for CuPy where there is no GPU: its module in the memory of the host, as far as `devices/cuda` uses it.

Arrays have CuPy's functions and refusals (`DeviceArray`). Work is done at once, but events can be held back: what is
recorded on a stream between `stream.block()` and `stream.unblock()` is not done before the latter. Events tell the time
at which they are done, by the host's clock or the one that a test puts in `Event.clock`. Kernels in CUDA's C
cannot be launched. `open_gpus` puts the modules in the place of the real ones for a test, and opens the devices.

There may be several GPUs. CUDA has a current one in each thread: an operation on an array of another one is an error,
and so is a stream of another one. (CuPy computes on such an array, with a PerformanceWarning, where one GPU can read
the memory of the other, and raises elsewhere.)
"""

from __future__ import annotations

import ctypes
import itertools
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any, ClassVar, final

import numpy as np
import pytest

from asyncgrad.core.arrays.current_devices import stop_switching
from asyncgrad.core.arrays.current_streams import stop_following
from asyncgrad.core.arrays.device_functions import register_functions
from asyncgrad.core.engine import device as device_registry
from asyncgrad.devices.cuda.library import library_functions
from asyncgrad.testing.device_array import DeviceArray, DevicePointer, unwrapped, wrapped
from tests.support.fake_cublas import cublas

__all__ = [
    "CUDARuntimeError",
    "Failure",
    "Gate",
    "OutOfMemoryError",
    "Stream",
    "memory_pool",
    "modules",
    "ndarray",
    "open_gpus",
    "stream_at",
]

#: The functions of the device that need no kernel.
_PRODUCTS = (np.matmul, "linear", "linear_input_grad", "linear_weight_grad", "zeta")

_thread = threading.local()


# Errors.


class CUDARuntimeError(RuntimeError):
    """An error of CUDA's runtime."""


class CUDADriverError(RuntimeError):
    """An error of CUDA's driver."""


class OutOfMemoryError(MemoryError):
    """The pool's limit does not leave room for an array."""


# Devices, streams and events.


@final
class GpuCount:
    """How many GPUs there are, which a test may change; with none CUDA's runtime raises."""

    value: ClassVar[int] = 2


@final
class Failure:
    """Whether the GPU is lost, so that CUDA raises whatever it is asked, and whether memory is full, and when."""

    is_lost: ClassVar[bool] = False
    #: How many arrays the memory of the GPU has room for, before one finds none; None for no such limit.
    room: ClassVar[int | None] = None
    has_no_pinned_memory: ClassVar[bool] = False

    @staticmethod
    def check() -> None:
        """Raise what CUDA says."""
        if Failure.is_lost:
            raise CUDARuntimeError("cudaErrorLaunchFailure: unspecified launch failure")


def get_device_count() -> int:
    """Return how many GPUs there are."""
    if not GpuCount.value:
        raise CUDARuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected")
    return GpuCount.value


@final
class FakeGpu:
    """`cupy.cuda.Device`.

    Args:
        number: None for the current one of this thread.
    """

    def __init__(self, number: int | None = None) -> None:
        self.id: int = getattr(_thread, "device", 0) if number is None else number
        self._before: list[int] = []

    def use(self) -> None:
        """Make it the current one of this thread."""
        _thread.device = self.id

    def synchronize(self) -> None:
        """Wait for its streams."""
        for stream in list(Stream.all):
            if stream.device_id in (-1, self.id):
                stream.synchronize()

    def __enter__(self) -> FakeGpu:
        self._before.append(FakeGpu().id)
        self.use()
        return self

    def __exit__(self, *exception: object) -> None:
        _thread.device = self._before.pop()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FakeGpu) and other.id == self.id

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id}>"


def get_device() -> int:
    """Return the number of the current GPU of this thread."""
    return FakeGpu().id


def get_cublas_handle() -> int:
    """Return cuBLAS's handle of the current GPU."""
    return 1 + get_device()


def set_device(number: int) -> None:
    """Make a GPU the current one of this thread."""
    if not 0 <= number < GpuCount.value:
        raise CUDARuntimeError("cudaErrorInvalidDevice: invalid device ordinal")
    FakeGpu(number).use()


@final
class Event:
    """`cupy.cuda.Event`: what was held back on its stream when it was recorded."""

    #: Returns the time in seconds.
    clock: ClassVar[Callable[[], float]] = time.perf_counter

    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:
        self._gates: tuple[Gate, ...] = ()
        self._recorded: float | None = None
        self.disable_timing = disable_timing
        self._device_id = get_device()

    @property
    def time(self) -> float:
        """When it is done; of one that has been recorded, and is."""
        assert self._recorded is not None
        return max([self._recorded, *(gate.opened for gate in self._gates)])

    @property
    def gates(self) -> tuple[Gate, ...]:
        """What it waits for."""
        return self._gates

    @property
    def done(self) -> bool:
        """Whether the work before it is done."""
        Failure.check()
        return all(gate.is_set() for gate in self._gates)

    def record(self, stream: Stream | None = None) -> None:
        """Complete once the work that is on a stream now is done.

        Raises:
            CUDARuntimeError: the stream belongs to another GPU.
        """
        Failure.check()
        stream = get_current_stream() if stream is None else stream
        if self._device_id != (get_device() if stream.device_id == -1 else stream.device_id):
            raise CUDARuntimeError("cudaErrorInvalidResourceHandle: invalid resource handle")
        self._recorded = Event.clock()
        self._gates = stream.gates

    def synchronize(self) -> None:
        """Wait until it is done."""
        for gate in self._gates:
            assert gate.wait(timeout=60), "a stream that was blocked has not been unblocked"
        Failure.check()


def get_elapsed_time(start_event: Event, end_event: Event) -> float:
    """Return the milliseconds between two events, as a float32; CUDA refuses such that have no time, or none yet."""
    for event in (start_event, end_event):
        if event.disable_timing or event._recorded is None:
            raise CUDARuntimeError("cudaErrorInvalidResourceHandle: invalid resource handle")
        if not event.done:
            raise CUDARuntimeError("cudaErrorNotReady: device not ready")
    return float(np.float32((end_event.time - start_event.time) * 1e3))


@final
class Gate(threading.Event):
    """What holds work back until it is set."""

    opened = 0.0

    def set(self) -> None:
        """Let the work be done."""
        self.opened = self.opened or Event.clock()
        super().set()


@final
class Stream:
    """`cupy.cuda.Stream`.

    The default stream is one object for all GPUs, and stands for that of the current one.
    """

    null: ClassVar[Stream]
    #: All streams that exist.
    all: ClassVar[weakref.WeakSet[Stream]] = weakref.WeakSet()
    _at: ClassVar[weakref.WeakValueDictionary[int, Stream]] = weakref.WeakValueDictionary()
    _next_ptr: ClassVar[Callable[[], int]] = itertools.count().__next__

    def __init__(self, null: bool = False, non_blocking: bool = False, ptds: bool = False) -> None:
        self.ptr = Stream._next_ptr()
        self.device_id = -1 if null else get_device()
        self._gates: dict[int, tuple[Gate, ...]] = {}
        self._before: list[Stream] = []
        Stream.all.add(self)
        Stream._at[self.ptr] = self

    @property
    def gates(self) -> tuple[Gate, ...]:
        """What holds back the work on it."""
        return self._gates.get(get_device() if self.device_id == -1 else self.device_id, ())

    @gates.setter
    def gates(self, gates: tuple[Gate, ...]) -> None:
        self._gates[get_device() if self.device_id == -1 else self.device_id] = gates

    def block(self) -> None:
        """Hold back what is recorded on this stream from now on."""
        self.gates = (*self.gates, Gate())

    def unblock(self) -> None:
        """Let everything on this stream be done."""
        for gate in self.gates:
            gate.set()
        self.gates = ()

    @property
    def done(self) -> bool:
        """Whether all work on it is done."""
        return all(gate.is_set() for gate in self.gates)

    def use(self) -> Stream:
        """Make it the current one of this thread, for its GPU.

        Raises:
            RuntimeError: that is not the current one.
        """
        if self.device_id not in (-1, get_device()):
            raise RuntimeError(f"the stream belongs to device {self.device_id}, and {get_device()} is the current one")
        _current_streams()[get_device()] = self
        return self

    def record(self, event: Event | None = None) -> Event:
        """Return an event that is done once the work that is on this stream now is."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Hold back later work on this stream until an event is done, of any GPU."""
        self.gates = tuple({*self.gates, *event.gates})

    def synchronize(self) -> None:
        """Wait until all work on it is done."""
        for gate in self.gates:
            assert gate.wait(timeout=60), "a stream that was blocked has not been unblocked"

    def __enter__(self) -> Stream:
        self._before.append(get_current_stream())
        return self.use()

    def __exit__(self, *exception: object) -> None:
        self._before.pop().use()


Stream.null = Stream(null=True)


def _current_streams() -> dict[int, Stream]:
    """Return the current streams of this thread, by GPU."""
    if not hasattr(_thread, "streams"):
        _thread.streams = {}
    return _thread.streams  # type: ignore[no-any-return]


def get_current_stream(device_id: int = -1) -> Stream:
    """Return the current stream of this thread on a GPU; -1 is the current one."""
    return _current_streams().get(get_device() if device_id == -1 else device_id, Stream.null)


# Memory.


@final
class MemoryPool:
    """`cupy.cuda.MemoryPool`: counts the bytes of arrays, and refuses what goes beyond a limit."""

    def __init__(self) -> None:
        self._used = 0
        self._limit = 0

    def used_bytes(self) -> int:
        """Return the bytes of all arrays that exist."""
        return self._used

    total_bytes = used_bytes

    def get_limit(self) -> int:
        """Return the most bytes of all arrays; 0 for no limit."""
        return self._limit

    def set_limit(self, size: int = 0) -> None:
        """Set the most bytes of all arrays."""
        self._limit = size

    def free_all_blocks(self) -> None:
        """Give back what no array occupies, which is nothing here."""

    def take(self, owner: Any, size: int) -> None:
        """Count bytes that belong to an object, as long as it exists.

        Raises:
            OutOfMemoryError: there are not so many left.
        """
        is_full = Failure.room == 0
        if Failure.room is not None:
            Failure.room = None if is_full else Failure.room - 1
        if is_full or (self._limit and self._used + size > self._limit):
            raise OutOfMemoryError(
                f"Out of memory allocating {size:,} bytes (allocated so far: {self._used:,} bytes, limit set to: "
                f"{self._limit:,} bytes)."
            )
        self._used += size
        weakref.finalize(owner, self._give_back, size)

    def _give_back(self, size: int) -> None:
        self._used -= size


memory_pool = MemoryPool()


@final
class Memory:
    """A piece of the GPU's memory.

    Args:
        size: its bytes.
    """

    def __init__(self, size: int) -> None:
        memory_pool.take(self, size)
        self.device_id = get_device()
        self.bytes = np.full(max(size, 1), 0xA5, np.uint8)
        self.ptr = self.bytes.ctypes.data


@final
class UnownedMemory:
    """`cupy.cuda.UnownedMemory`: memory that another object keeps."""

    def __init__(self, ptr: int, size: int, owner: object, device_id: int = -1) -> None:
        self.ptr = ptr
        self.size = size
        self.owner = owner
        self.device_id = get_device() if device_id < 0 else device_id


@final
class MemoryPointer:
    """`cupy.cuda.MemoryPointer`."""

    def __init__(self, mem: Memory | UnownedMemory, offset: int) -> None:
        self.mem = mem
        self.ptr = mem.ptr + offset
        self.device_id = mem.device_id


@final
class PinnedMemoryPointer(bytearray):
    """`cupy.cuda.PinnedMemoryPointer`: memory of the host."""

    @property
    def ptr(self) -> int:
        """Its address."""
        return ctypes.addressof(ctypes.c_char.from_buffer(self))


@final
class PinnedMemoryPool:
    """`cupy.cuda.PinnedMemoryPool`."""

    def free_all_blocks(self) -> None:
        """Give back what is unused, which is nothing here."""


def alloc_pinned_memory(size: int) -> PinnedMemoryPointer:
    """Return memory of the host."""
    if Failure.has_no_pinned_memory:
        raise CUDARuntimeError("cudaErrorMemoryAllocation: out of memory")
    return PinnedMemoryPointer(size)


def memcpy_async(target: int, source: int, size: int, kind: int, stream: int) -> None:
    """Copy bytes, at once."""
    assert kind in (1, 2), "1 is to the GPU, 2 to the host"
    stream_at(stream)
    ctypes.memmove(target, source, size)


def memcpy_peer_async(target: int, to: int, source: int, home: int, size: int, stream: int) -> None:
    """Copy bytes from one GPU to another, at once."""
    assert to != home
    assert {to, home} <= set(range(GpuCount.value))
    stream_at(stream)
    ctypes.memmove(target, source, size)


def stream_at(pointer: int) -> Stream:
    """Return the stream of a pointer, which must be one of the current GPU."""
    stream = Stream._at[pointer]
    assert stream.device_id in (-1, get_device()), "the stream belongs to another GPU than the current one"
    return stream


# Arrays.


@final
class ndarray(DeviceArray):
    """`cupy.ndarray`.

    Args:
        shape: its shape.
        dtype: its dtype.
        memptr: the memory; None allocates it.
        strides: bytes from one element to the next along each axis.
        order: of new memory.
    """

    __slots__ = ("_gpu", "_memory")

    def __init__(
        self, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None, order: str = "C"
    ) -> None:
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        dtype = np.dtype(dtype)
        size = int(np.prod(shape)) * dtype.itemsize
        self._memory = MemoryPointer(Memory(size), 0) if memptr is None else memptr
        self._gpu = FakeGpu(self._memory.device_id)
        buffer = (ctypes.c_char * size).from_address(self._memory.ptr)
        self._array = np.ndarray(shape, dtype, buffer, strides=strides, order=order)  # type: ignore[call-overload]
        self.base = None

    @property
    def device(self) -> FakeGpu:
        """The GPU."""
        return self._gpu

    @property
    def data(self) -> DevicePointer:
        """Where the elements begin."""
        return DevicePointer(self._array.__array_interface__["data"][0], self._gpu.id)

    def __reduce__(self) -> Any:
        return _from_numpy, (self.get(),)

    def __deepcopy__(self, memo: Any) -> Any:
        with self._gpu:
            return self.copy()  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return repr(self._array)

    def _compute(
        self, name: str, function: Callable[..., Any], args: Any, kwargs: dict[str, Any], written: Iterable[Any]
    ) -> Any:
        arrays: list[ndarray] = []
        bare_args, bare_kwargs = unwrapped(args, arrays), unwrapped(kwargs, arrays)
        elsewhere = [one for one in arrays if one._gpu.id != get_device()]
        if elsewhere and name not in _READING and (written or "out" in kwargs or len(arrays) > 1):
            raise _device_error(elsewhere[0])
        result = function(*bare_args, **bare_kwargs)
        # What only views memory, or reads it on the host, runs no kernel.
        if elsewhere and name not in _READING and not _is_view(result, elsewhere[0]):
            raise _device_error(elsewhere[0])
        if Failure.is_lost and not (arrays and _is_view(result, arrays[0])):
            Failure.check()
        return wrapped(result, arrays, _make, [])

    def _from_host(self, array: np.ndarray) -> ndarray:
        return _from_numpy(array)

    def _to_host(self) -> np.ndarray:
        with self._gpu:
            get_current_stream().synchronize()
        return self._array.copy(order="K")


#: What needs no kernel: copies to the host, and what asks for shapes, dtypes and addresses alone.
_READING = {"item", "tolist", "truth", "shape", "ndim", "size", "may_share_memory", "shares_memory", "result_type"}


def _is_view(result: Any, array: ndarray) -> bool:
    """Tell whether a result has the memory of an array, or is a sequence of such."""
    if isinstance(result, (tuple, list)):
        return all(_is_view(one, array) for one in result)
    return isinstance(result, np.ndarray) and np.may_share_memory(result, array._array)


def _device_error(array: ndarray) -> ValueError:
    return ValueError(
        "Array device must be same as the current device: "
        f"array device = {array._gpu.id} while current = {get_device()}"
    )


def _make(elements: np.ndarray, shared: ndarray | None) -> ndarray:
    made = ndarray.__new__(ndarray)
    made._gpu = FakeGpu() if shared is None else shared._gpu
    made._array = elements
    made.base = None if shared is None else shared if shared.base is None else shared.base
    made._memory = None
    if made.base is None:
        memory_pool.take(made, elements.nbytes)
    return made


def _from_numpy(array: Any) -> ndarray:
    """Return a copy of a NumPy array, in this machine's byte order."""
    array = np.array(array, order="K")
    if array.dtype.kind not in "biufc" or array.dtype.char in "gG":
        raise ValueError(f"Unsupported dtype {array.dtype}")
    return _make(array.astype(array.dtype.newbyteorder("="), copy=False), None)


def asarray(a: Any, dtype: Any = None, order: Any = None, *, copy: Any = None, blocking: bool = False) -> ndarray:
    """Return an array on the GPU."""
    if isinstance(a, ndarray):
        return a if dtype in (None, a.dtype) else a.astype(dtype)  # type: ignore[attr-defined,no-any-return]
    return _from_numpy(np.asarray(a, dtype, order))


def asnumpy(a: Any, stream: Any = None, order: str = "C", out: Any = None, *, blocking: bool = True) -> np.ndarray:
    """Return an array of NumPy's."""
    return a.get(stream, order, out) if isinstance(a, ndarray) else np.asarray(a)


def empty(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    """Return an uninitialised array."""
    return ndarray(shape, dtype, order=order)


# Kernels.


@final
class RawModule:
    """`cupy.RawModule`, of which no kernel can be launched."""

    def __init__(self, code: str, options: tuple[str, ...] = ()) -> None:
        self.code = code

    def get_function(self, name: str) -> Any:
        """Refuse to compile a kernel."""
        raise NotImplementedError(f"the kernel {name} is CUDA's C, for which there is no compiler here")


def _zeta(x: Any, q: Any) -> ndarray:
    """Return Hurwitz's zeta function: `cupyx.scipy.special.zeta`."""
    from scipy.special import zeta

    return _make(np.asarray(zeta(unwrapped(x, []), unwrapped(q, []))), None)


def _module(name: str, **names: Any) -> ModuleType:
    made = ModuleType(name)
    vars(made).update(names)
    return made


def modules() -> dict[str, ModuleType]:
    """Return the modules by their names."""
    runtime = _module(
        "cupy.cuda.runtime",
        CUDARuntimeError=CUDARuntimeError,
        getDevice=get_device,
        getDeviceCount=get_device_count,
        memcpyAsync=memcpy_async,
        memcpyPeerAsync=memcpy_peer_async,
        setDevice=set_device,
        runtimeGetVersion=lambda: 13000,
        deviceSynchronize=lambda: FakeGpu().synchronize(),
    )
    driver = _module("cupy.cuda.driver", CUDADriverError=CUDADriverError)
    device = _module("cupy.cuda.device", Device=FakeGpu, get_cublas_handle=get_cublas_handle)
    memory = _module("cupy.cuda.memory", OutOfMemoryError=OutOfMemoryError)
    cuda = _module(
        "cupy.cuda",
        Device=FakeGpu,
        Event=Event,
        MemoryPointer=MemoryPointer,
        MemoryPool=MemoryPool,
        PinnedMemoryPointer=PinnedMemoryPointer,
        Stream=Stream,
        UnownedMemory=UnownedMemory,
        alloc=lambda size: MemoryPointer(Memory(size), 0),
        alloc_pinned_memory=alloc_pinned_memory,
        device=device,
        driver=driver,
        get_current_stream=get_current_stream,
        get_elapsed_time=get_elapsed_time,
        memory=memory,
        runtime=runtime,
    )
    cupy = _module(
        "cupy",
        RawModule=RawModule,
        __version__="14.2.0",
        asarray=asarray,
        asnumpy=asnumpy,
        cuda=cuda,
        empty=empty,
        get_default_memory_pool=lambda: memory_pool,
        get_default_pinned_memory_pool=PinnedMemoryPool,
        ndarray=ndarray,
    )
    products = cublas(get_cublas_handle)
    libs = _module("cupy_backends.cuda.libs", cublas=products)
    backends_cuda = _module("cupy_backends.cuda", libs=libs)
    backends = _module("cupy_backends", cuda=backends_cuda)
    special = _module("cupyx.scipy.special", zeta=_zeta)
    cupyx = _module("cupyx", scipy=_module("cupyx.scipy", special=special))
    scipy = cupyx, cupyx.scipy, cupyx.scipy.special
    found = (cupy, *scipy, cuda, runtime, driver, device, memory, backends, backends_cuda, libs, products)
    return {one.__name__: one for one in found}


@contextmanager
def open_gpus(count: int = 2) -> Iterator[list[Any]]:
    """Open the devices `cuda:0`, `cuda:1`, … on the stand-in, and forget them afterwards.

    Their functions are CuPy's alone, apart from products of matrices by cuBLAS: there are no fused kernels.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GpuCount, "value", count)
        patch.setattr(device_registry, "_opened", dict(device_registry._opened))
        for name, module in modules().items():
            patch.setitem(sys.modules, name, module)
        gpus: list[Any] = [device_registry.device(f"cuda:{number}") for number in range(count)]
        if gpus:
            found = library_functions(sys.modules["cupy"])
            register_functions(ndarray, {name: found[name] for name in _PRODUCTS})
        try:
            yield gpus
        finally:
            Failure.is_lost = Failure.has_no_pinned_memory = False
            Failure.room = None
            for gpu in gpus:
                gpu.release_held()
                with suppress(ValueError):  # no stream has been made on it
                    stop_following(gpu)
            stop_switching(ndarray)
            memory_pool.set_limit()
            assert get_device() == 0, "a GPU that a test has made the current one still is"
            for number in range(count):
                with FakeGpu(number):
                    Stream.null.use()
