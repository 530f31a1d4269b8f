"""`cuda:0`, `cuda:1`, …: NVIDIA GPUs, whose arrays are CuPy's and whose streams are CUDA's.

Functions put their work on the current stream and return before it is done. docs/gpu.md tells a user what follows.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, final

import numpy as np

from asyncgrad.core.arrays.current_devices import start_switching
from asyncgrad.core.arrays.current_streams import start_following
from asyncgrad.core.arrays.device_functions import register_functions
from asyncgrad.core.engine.device import Device, device
from asyncgrad.core.engine.streams import DeviceStreams
from asyncgrad.core.settings.extras import install_line, why_missing
from asyncgrad.errors import DeviceError

from .all_reduce import all_reduce_hook as all_reduce_hook
from .copies import copy_between_gpus, copy_to_gpu, copy_to_host, copy_to_host_later
from .index_sums import index_sum_functions
from .kernels import CudaKernels, kernels_for
from .library import library_functions
from .losses import loss_functions
from .norms import norm_functions
from .products import product_functions
from .recurrences import recurrence_functions
from .rows import row_functions
from .streams import COPY_LABELS, TO_GPU, CudaStream, translate_errors
from .sums import sum_functions
from .windows import window_functions

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from asyncgrad.core.engine.device import Event

__all__ = ["CudaDevice", "all_reduce_hook", "install_functions", "open_device", "own_functions"]

#: The extras that bring CuPy, and which of them to take.
_EXTRAS = ("cuda13", "cuda12")
_WHICH = " (cuda12 where nvidia-smi shows CUDA 12)"

#: The first version of CuPy that has all that is used here, as in pyproject.toml.
_OLDEST = 14

#: How many awaited backward passes may be queued: one that runs, and one so that the GPU does not fall idle.
MAX_BACKWARDS_QUEUED = 2


@final
class _GpuSwitch:
    """CUDA's current GPU, which each thread has one of.

    Args:
        cupy: the module.
    """

    def __init__(self, cupy: Any) -> None:
        self.array_type: type = cupy.ndarray
        self.current: Callable[[], int] = cupy.cuda.runtime.getDevice
        self.use: Callable[[int], None] = cupy.cuda.runtime.setDevice

    def number_of(self, array: Any) -> int:
        """Return the number of the GPU of an array."""
        number: int = array.data.device_id
        return number


@final
class CudaDevice(Device):
    """One NVIDIA GPU.

    Args:
        index: its number, as CUDA counts.
        cupy: the module.
        kernels: what counts the kernels that are launched.
        switch: how to make it the current GPU; None if it is the only one that CUDA finds.
    """

    __slots__ = (
        "_backward_ends",
        "_cupy",
        "_held",
        "_index",
        "_kernels",
        "_process",
        "copy_streams",
        "gpu",
        "is_alone",
        "switch",
    )

    has_strides = False
    has_host_arrays = False
    is_asynchronous = True
    has_timing = True

    def __init__(self, index: int, cupy: Any, kernels: CudaKernels, switch: _GpuSwitch | None) -> None:
        self._index = index
        self._kernels = kernels
        self._cupy = cupy
        self.switch = switch
        self.is_alone: bool = switch is None
        #: CuPy's object for it: in a block `with device.gpu:` it is the current one of the thread.
        self.gpu: Any = cupy.cuda.Device(index)
        self._process = os.getpid()
        #: Events at the ends of the last awaited backward passes.
        self._backward_ends: deque[Event] = deque()
        #: What work on streams may still use, with the events after which it no longer does.
        self._held: deque[tuple[list[Any], Any]] = deque()
        with self.gpu:
            #: The streams on which arrays come from the host, go there, and come from other GPUs, beside the streams of
            #: computation.
            self.copy_streams: tuple[CudaStream, ...] = tuple(
                CudaStream(self, -1 - place, cupy.cuda.Stream(non_blocking=True))
                for place in range(len(COPY_LABELS) - self.is_alone)
            )

    @property
    def name(self) -> str:
        """A name such as `cuda:0`."""
        return f"cuda:{self._index}"

    @property
    def index(self) -> int:
        """Its number, as CUDA counts."""
        return self._index

    # Streams.

    def make_stream(self, index: int) -> CudaStream:
        """Return a new CUDA stream; number 0 is CUDA's default stream, which CuPy's functions use, too."""
        self.check()
        with self.gpu:
            stream = self._cupy.cuda.Stream.null if index == 0 else self._cupy.cuda.Stream(non_blocking=True)
        if index:
            start_following(self)
        return CudaStream(self, index, stream)

    def use_stream(self, stream: CudaStream | None) -> None:
        """Make a stream CuPy's current one in this thread."""
        cuda_stream = self._cupy.cuda.Stream.null if stream is None else stream.cuda_stream
        if self.is_alone:
            cuda_stream.use()
            return
        # CuPy has a current stream for each GPU, and sets that of the current one.
        with self.gpu:
            cuda_stream.use()

    def synchronize(self) -> Awaitable[None]:
        """Wait until all work on the streams of this device has ended; awaited where an event loop runs in this thread.

        Raises:
            DeviceError: the GPU has failed.
        """
        self.check()
        return super().synchronize()

    async def backpressure(self) -> None:
        """Wait until no more than MAX_BACKWARDS_QUEUED awaited backward passes are queued on the GPU; suspends.

        CUDA takes about a thousand kernels into a queue, and then blocks the thread.
        """
        ends = self._backward_ends
        ends.append(self.current_stream().record_event())
        while len(ends) > MAX_BACKWARDS_QUEUED:
            await ends.popleft().synchronize()

    # Memory.

    def from_host(self, array: Any) -> Any:
        """Return a copy of a NumPy array in the GPU's memory, as work on the current stream.

        Raises:
            DeviceError: CUDA has no such dtype.
        """
        self.check()
        with self.gpu, translate_errors(self):
            return copy_to_gpu(self, array)

    def to_host(self, array: Any) -> Any:
        """Return a copy as a NumPy array; blocks until the work on the current stream has ended."""
        self.check()
        with self.gpu, translate_errors(self):
            return copy_to_host(self, array)

    def from_host_async(self, array: Any) -> Any:
        """Return a copy of a NumPy array; one in page-locked memory is read by the GPU later, and must not change.

        Raises:
            DeviceError: CUDA has no such dtype.
        """
        self.check()
        with self.gpu, translate_errors(self):
            return copy_to_gpu(self, array, may_be_read_later=True)

    def from_host_ahead(self, array: Any) -> tuple[Any, Event]:
        """Return a copy that a copy stream makes beside all work, and the event after which any stream may use it.

        Raises:
            DeviceError: CUDA has no such dtype.
        """
        self.check()
        with self.gpu, translate_errors(self):
            copied = copy_to_gpu(self, array, may_be_read_later=True, is_ahead=True)
            return copied, self.copy_streams[TO_GPU].record_event()

    def to_host_async(self, array: Any) -> tuple[Any, Event]:
        """Return a NumPy array in page-locked memory, and the event after which it holds a copy; never waits."""
        self.check()
        with self.gpu, translate_errors(self):
            return copy_to_host_later(self, array)

    def from_device(self, array: Any, source: Device, non_blocking: bool = False) -> Any:
        """Return a copy of an array of another GPU, which the two GPUs make later; None for another kind of device."""
        if not isinstance(source, CudaDevice):
            return None
        self.check()
        with translate_errors(self):
            return copy_between_gpus(source, self, array, keeps=non_blocking)

    def hold(self, events: list[Any], value: Any) -> None:
        """Keep a reference to `value` until CUDA events have completed: until then its memory must not be reused."""
        self._held.append((events, value))
        self.release_held()

    def hold_until_idle(self, value: Any) -> None:
        """Keep a reference to `value` until all work that is on any stream now has ended; never raises."""
        # A child of fork has none of the parent's work.
        if sys.is_finalizing() or self._process != os.getpid():
            return
        # After a failure no work uses it any more.
        with suppress(DeviceError, self._cupy.cuda.runtime.CUDARuntimeError):
            streams: Iterable[Any] = DeviceStreams.of(self).live_streams()
            events = [stream.record_event().cuda_event for stream in streams]
            self.hold(events, value)

    def release_held(self) -> None:
        """Drop what no work uses any more."""
        held = self._held
        while held:
            # Taken out before it is looked at: another thread, or the garbage collector in the midst, does the same.
            try:
                first = held.popleft()
            except IndexError:
                return
            if not all(event.done for event in first[0]):
                held.appendleft(first)
                return

    def holds(self, array: Any) -> bool:
        """Tell whether this is an array in the memory of this GPU."""
        return isinstance(array, self._cupy.ndarray) and array.data.device_id == self._index

    def kernels_launched(self) -> int:
        """Return how many of asyncgrad's kernels have been launched so far, and products by cuBLAS, on any GPU.

        What CuPy's own functions launch is not counted.
        """
        return self._kernels.launched[0]

    def memory_allocated(self) -> int:
        """Return how many bytes of the GPU's memory arrays occupy."""
        self.check()
        with translate_errors(self):
            self.release_held()
        with self.gpu:
            return int(self._cupy.get_default_memory_pool().used_bytes())

    def memory_reserved(self) -> int:
        """Return how many bytes of the GPU's memory CuPy's pool holds, for arrays that exist or are to come."""
        self.check()
        with self.gpu:
            return int(self._cupy.get_default_memory_pool().total_bytes())

    def empty_cache(self) -> None:
        """Give the memory that no array occupies back to the system.

        Raises:
            DeviceError: the GPU has failed.
        """
        self.check()
        with self.gpu, translate_errors(self):
            self.release_held()
            self._cupy.get_default_memory_pool().free_all_blocks()
            self._cupy.get_default_pinned_memory_pool().free_all_blocks()

    # Failure.

    def check(self) -> None:
        """Raise if this process cannot use CUDA.

        Raises:
            DeviceError: the process is a fork of one that has used CUDA.
        """
        if self._process != os.getpid():
            raise DeviceError(
                f"'{self}' was opened before this process was forked, and CUDA does not survive a fork: start the "
                "process with multiprocessing.get_context('spawn'), or open the device in the child alone"
            )

    def close(self) -> None:
        """Give back the memory that no array occupies."""
        # A GPU that has failed gives its memory back when the process ends.
        with suppress(DeviceError):
            self.empty_cache()


def open_device(index: int | None) -> CudaDevice:
    """Return the GPU of that number; the first one where there is none.

    Raises:
        DeviceError: CuPy, a driver, or a GPU of that number is missing.
    """
    if index is None:
        # The name of the first one is `cuda:0`, and there is one object for it.
        first: Any = device("cuda:0")
        opened: CudaDevice = first
        return opened
    try:
        import cupy
    except ImportError as error:
        why = why_missing(error, *_EXTRAS, instead=_WHICH)
        raise DeviceError(f"the device 'cuda:{index}' needs CuPy, which {why}") from error
    version = cupy.__version__
    if int(version.partition(".")[0]) < _OLDEST:
        raise DeviceError(
            f"the device 'cuda:{index}' needs CuPy {_OLDEST} or newer, and CuPy {version} is installed: "
            f"{install_line(*_EXTRAS)}{_WHICH}"
        )
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        made_for = cupy.cuda.runtime.runtimeGetVersion() // 1000
        raise DeviceError(
            f"the device 'cuda:{index}' needs an NVIDIA GPU and its driver, and CUDA finds none: {error}. Look whether "
            f"nvidia-smi lists a GPU and shows CUDA {made_for} or newer, for which the installed CuPy is made"
        ) from error
    if index >= count:
        names = ", ".join(f"'cuda:{one}'" for one in range(count)) or "none"
        raise DeviceError(
            f"there is no device 'cuda:{index}': this machine has {count} NVIDIA GPU{'s' * (count != 1)}: {names}"
        )
    kernels = install_functions(cupy)
    switch = None
    if count > 1:
        switch = _GpuSwitch(cupy)
        start_switching(switch)
    return CudaDevice(index, cupy, kernels, switch)


def install_functions(cupy: Any) -> CudaKernels:
    """Register what GPUs compute by themselves on the arrays of CuPy; return what compiles formulas for them."""
    kernels = kernels_for(cupy)
    register_functions(cupy.ndarray, own_functions(cupy, kernels), kernels)
    return kernels


def own_functions(cupy: Any, kernels: CudaKernels) -> dict[Any, Callable[..., Any]]:
    """Return what replaces functions of CuPy, by NumPy's functions or by the names that they are looked up by."""
    own = {"add": kernels.launcher(np.add), "add_into": kernels.adder(), np.concatenate: kernels.concatenate}
    for make in (
        library_functions, sum_functions, product_functions, row_functions, loss_functions, norm_functions,
        window_functions, recurrence_functions, index_sum_functions,
    ):  # fmt: skip
        own.update(make(cupy, launched=kernels.launched))
    return own
