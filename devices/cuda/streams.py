"""CUDA's streams and events, and the threads that wait for events so that event loops need not."""

from __future__ import annotations

import asyncio
import threading
import weakref
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol, final

from asyncgrad.core.engine.device import Event, Stream
from asyncgrad.core.engine.loops import loop_is_running, running_loop
from asyncgrad.core.engine.streams import DONE
from asyncgrad.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

__all__ = ["COPY_LABELS", "FROM_GPU", "TO_GPU", "TO_HOST", "CudaEvent", "CudaStream", "Gpu", "translate_errors"]

#: The streams of copies, by their places in `copy_streams`; the last one is only there where CUDA finds several GPUs.
TO_GPU, TO_HOST, FROM_GPU = 0, 1, 2
COPY_LABELS = ("copies to the device", "copies to the host", "copies from other GPUs")


class Gpu(Protocol):
    """What streams and copies ask of their GPU; see `CudaDevice`."""

    copy_streams: tuple[Any, ...]
    #: CuPy's object for it: in a block `with device.gpu:` it is the current one of the thread.
    gpu: Any
    #: Whether it is the only one that CUDA finds.
    is_alone: bool
    _streams: Any

    @property
    def index(self) -> int | None:
        """Its number, as CUDA counts."""

    @property
    def name(self) -> str:
        """A name such as `cuda:0`."""

    def make_stream(self, index: int) -> Any:
        """Return a new stream."""

    def default_stream(self) -> Any:
        """Return CUDA's default stream."""

    def current_stream(self) -> Any:
        """Return the stream on which work of this context is put."""

    def check(self) -> None:
        """Raise if this process cannot use CUDA."""

    def hold(self, events: list[Any], value: Any) -> None:
        """Keep a reference to `value` until CUDA events have completed."""

    def hold_until_idle(self, value: Any) -> None:
        """Keep a reference to `value` until all work that is on any stream now has ended."""


@contextmanager
def translate_errors(device: Any) -> Iterator[None]:
    """Raise a DeviceError that names the device in the place of an error of CUDA.

    Raises:
        MemoryError: CUDA has no memory left, mostly page-locked memory of the host, which is no failure of the GPU.
        DeviceError: for all other errors.
    """
    from cupy.cuda import driver, runtime

    try:
        yield
    except (driver.CUDADriverError, runtime.CUDARuntimeError) as error:
        # In a child of fork every call fails, and what fails there is not the GPU.
        device.check()
        if "cudaErrorMemoryAllocation" in str(error):
            raise MemoryError(
                f"there is no memory left for '{device}', or no page-locked memory of the host for a copy: {error}. "
                "Call device.empty_cache(), or copy less at a time"
            ) from error
        raise DeviceError(
            f"'{device}' has failed: {error}. An error of this kind ends all work on the GPU, and CUDA does not "
            "recover from it within a process: start the process anew"
        ) from error


@final
class CudaEvent(Event):
    """An event of CUDA.

    Args:
        stream: the stream that it is recorded on, now.
        enable_timing: whether the GPU notes the time.
    """

    __slots__ = ("cuda_event",)

    stream: CudaStream

    def __init__(self, stream: CudaStream, enable_timing: bool = False) -> None:
        # Without a call of `super`: a profile makes two for each operation.
        self.stream, self.enable_timing = stream, enable_timing
        if stream.device.is_alone:
            # A thread that waits for it sleeps.
            self.cuda_event = stream.make_event(block=True, disable_timing=not enable_timing)
            self.cuda_event.record(stream.cuda_stream)
            return
        # An event belongs to the GPU that is current where it is made, and CUDA's default stream is that of this one.
        with stream.device.gpu:
            self.cuda_event = stream.make_event(block=True, disable_timing=not enable_timing)
            self.cuda_event.record(stream.cuda_stream)

    def query(self) -> bool:
        """Tell whether the event has completed; never waits.

        Raises:
            DeviceError: the GPU has failed.
        """
        with translate_errors(self.stream.device):
            return bool(self.cuda_event.done)

    def synchronize(self) -> Awaitable[None]:
        """Wait until the event has completed: suspend where an event loop runs in this thread, and block elsewhere.

        Raises:
            DeviceError: the GPU has failed.
        """
        if self.query():
            return DONE
        if loop_is_running():
            return self._suspend()
        with translate_errors(self.stream.device):
            self.cuda_event.synchronize()
        return DONE

    def elapsed_time(self, end: Event) -> float:
        """Return the milliseconds from this event to `end`, with a resolution of about half a microsecond.

        Raises:
            DeviceError: one of the two has no time, has not completed, or is of another device; or the GPU has failed.
        """
        from cupy.cuda import get_elapsed_time

        self.must_have_times(end)
        assert isinstance(end, CudaEvent)
        with translate_errors(self.stream.device):
            return float(get_elapsed_time(self.cuda_event, end.cuda_event))

    async def _suspend(self) -> None:
        loop = running_loop()
        completed: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            # RuntimeError: the loop has been closed, and nothing waits any more.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_resolve, completed)

        self.stream.call_after(self.cuda_event, wake)
        await completed
        # The thread has woken this task whether the event has completed or its GPU failed.
        self.query()


def _resolve(completed: asyncio.Future[None]) -> None:
    if not completed.done():
        completed.set_result(None)


@final
class CudaStream(Stream):
    """A stream of CUDA.

    Args:
        device: the GPU.
        index: 0 for the default stream; -1, -2 and so on for those of copies.
        cuda_stream: CuPy's object for it.
    """

    __slots__ = ("_waits", "cuda_stream", "make_event")

    device: Gpu

    def __init__(self, device: Gpu, index: int, cuda_stream: Any) -> None:
        super().__init__(device, index)
        from cupy.cuda import Event as BareEvent

        self.cuda_stream: Any = cuda_stream
        #: CuPy's class of events.
        self.make_event: Callable[..., Any] = BareEvent
        #: What the thread of this stream is to wait for; None before the first wait.
        self._waits: SimpleQueue[tuple[Any, Callable[[], None]] | None] | None = None

    @property
    def label(self) -> str:
        """What it is called in the timeline of a profile."""
        return COPY_LABELS[-1 - self.index] if self.index < 0 else super().label

    def record_event(self, *, enable_timing: bool = False) -> CudaEvent:
        """Return an Event that completes when all work that is on this stream now has ended.

        Args:
            enable_timing: whether the GPU notes when that is.

        Raises:
            DeviceError: the GPU has failed.
        """
        self.device.check()
        try:
            return CudaEvent(self, enable_timing)
        except RuntimeError:
            # Not around the line above: a profile records two events for each operation.
            with translate_errors(self.device):
                raise

    def wait_event(self, event: Event) -> None:
        """Let later work on this stream begin only once `event` has completed; never waits itself.

        Raises:
            DeviceError: the event is of another kind of device and has not completed; or the GPU has failed.
        """
        if not isinstance(event, CudaEvent):
            self.must_have_passed(event)
            return
        if event.stream is self:
            return
        with translate_errors(self.device):
            if self.device.is_alone:
                self.cuda_stream.wait_event(event.cuda_event)
                return
            with self.device.gpu:
                self.cuda_stream.wait_event(event.cuda_event)

    def record_use(self, value: Any) -> None:
        """Keep the memory of arrays of another stream until the work that is on this one now has ended."""
        with translate_errors(self.device):
            self.device.hold([CudaEvent(self).cuda_event], value)

    def call_after(self, cuda_event: Any, callback: Callable[[], None]) -> None:
        """Call a function in another thread once an event of this stream has completed, or the GPU has failed.

        One thread waits for the events of one stream, which complete in the order in which they were recorded.
        """
        waits = self._waits
        if waits is None:
            waits = SimpleQueue()
            threading.Thread(target=_wait_for_events, args=(waits,), name=f"{self!r}", daemon=True).start()
            # Only now: where the system has no more threads, the next wait tries again.
            self._waits = waits
            weakref.finalize(self, waits.put, None)
        waits.put((cuda_event, callback))


def _wait_for_events(waits: SimpleQueue[tuple[Any, Callable[[], None]] | None]) -> None:
    from cupy.cuda import runtime

    while (wait := waits.get()) is not None:
        cuda_event, callback = wait
        # The task that is woken asks the event again, and so learns of the failure.
        with suppress(runtime.CUDARuntimeError):
            cuda_event.synchronize()
        callback()
        del wait, cuda_event, callback
