"""SimulatedAccelerator: a device that is simulated on the host, whose operations run on streams in virtual time."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, final

import numpy as np

from ..core.arrays.device_work import record_work
from ..core.engine.device import Device, register_device
from ..core.engine.streams import DONE, Event, Stream
from ..errors import ArgumentError, DeviceError, HazardError
from .device_array import DeviceArray, unwrapped, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..core.arrays.array import BareArray


__all__ = [
    "Memory",
    "Operation",
    "SimulatedAccelerator",
    "SimulatedArray",
    "SimulatedClock",
    "SimulatedEvent",
    "SimulatedStream",
]

#: How many operations of each stream are known to be done.
Seen = dict["SimulatedStream", int]


@final
class SimulatedClock:
    """Virtual time, in seconds. It advances when the host waits for a device, and when a test advances it.

    Several accelerators may share one.

    Example:
        >>> from asyncgrad.testing import SimulatedClock
        >>> clock = SimulatedClock()
        >>> clock.advance(0.5)
        >>> clock.now
        0.5
    """

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now: float = 0.0

    def advance(self, seconds: float) -> None:
        """Add the seconds that the host is busy."""
        self.now += seconds


class Operation(NamedTuple):
    """One entry of an accelerator's timeline; times in seconds of its clock."""

    stream: SimulatedStream
    name: str
    begin: float
    end: float


@final
class Memory:
    """A piece of the accelerator's memory: the operations that wrote and read it last."""

    __slots__ = ("_read", "_written")

    def __init__(self) -> None:
        self._written: tuple[SimulatedStream, int, str] | None = None
        #: The last read of each stream since it was written.
        self._read: dict[SimulatedStream, tuple[int, str]] = {}

    def check(self, stream: SimulatedStream, name: str, is_written: bool) -> None:
        """Raise if an operation on a stream is not ordered after those that it depends on.

        Raises:
            HazardError: no event orders them before it, and the host has not waited for them.
        """
        does = "writes into" if is_written else "reads"
        if self._written is not None:
            writer, number, before = self._written
            if stream.seen.get(writer, 0) < number:
                raise HazardError(_hazard(stream, name, does, writer, before, "has written"))
        for reader, (number, before) in self._read.items() if is_written else ():
            if stream.seen.get(reader, 0) < number:
                raise HazardError(_hazard(stream, name, does, reader, before, "reads"))

    def note(self, stream: SimulatedStream, name: str, is_written: bool) -> None:
        """Record the last operation of a stream."""
        number = stream.seen[stream]
        if is_written:
            self._written = stream, number, name
            self._read.clear()
        else:
            self._read[stream] = number, name


def _hazard(stream: Stream, name: str, does: str, other: Stream, before: str, did: str) -> str:
    return (
        f"{name} on {stream!r} {does} an array that {before} on {other!r} {did}, but no event orders the two: "
        "write stream.wait_stream(other) first"
    )


@final
class SimulatedEvent(Event):
    """An event in virtual time.

    Args:
        stream: the stream that it was recorded on.
        time: when it completes.
        seen: the operations that are known to be done then.
        enable_timing: whether it tells the time.
    """

    __slots__ = ("seen", "time")

    def __init__(self, stream: SimulatedStream, time: float, seen: Seen, enable_timing: bool = False) -> None:
        super().__init__(stream, enable_timing)
        self.time: float = time
        self.seen: Seen = seen

    def query(self) -> bool:
        """Return whether the clock has passed it."""
        assert isinstance(self.stream, SimulatedStream)
        return self.stream.device.clock.now >= self.time

    def synchronize(self) -> Awaitable[None]:
        """Move the clock to the time of the event, if it is later; never suspends.

        Raises:
            DeviceError: the device has died.
        """
        assert isinstance(self.stream, SimulatedStream)
        self.stream.device.host_waits_for(self)
        return DONE

    def elapsed_time(self, end: Event) -> float:
        """Return the milliseconds of virtual time from this event to `end`.

        Raises:
            DeviceError: one of the two has no time, has not completed, or is of another device; or the device has died.
        """
        assert isinstance(self.stream, SimulatedStream)
        self.stream.device.check()
        self.must_have_times(end)
        assert isinstance(end, SimulatedEvent)
        return (end.time - self.time) * 1e3


@final
class SimulatedStream(Stream):
    """A stream of a simulated accelerator: its operations take virtual time, one after the other.

    Args:
        device: the accelerator.
        index: 0 for the default stream.
    """

    __slots__ = ("free_at", "seen")

    device: SimulatedAccelerator

    def __init__(self, device: SimulatedAccelerator, index: int) -> None:
        super().__init__(device, index)
        #: When all operations on the stream are done.
        self.free_at: float = 0.0
        #: The operations that are known to be done when the next one begins.
        self.seen: Seen = {}

    def record_event(self, *, enable_timing: bool = False) -> SimulatedEvent:
        """Return an Event that completes when all operations on this stream are done.

        Args:
            enable_timing: whether it tells the time. On a stream without work that is the time now.

        Raises:
            DeviceError: the device has died.
        """
        self.device.check()
        time = max(self.free_at, self.device.clock.now) if enable_timing else self.free_at
        return SimulatedEvent(self, time, dict(self.seen), enable_timing)

    def wait_event(self, event: Event) -> None:
        """Make later operations on this stream begin after `event`.

        Raises:
            DeviceError: the device has died; or the event belongs to a device whose time is not virtual, and has not
                completed.
        """
        self.device.check()
        if isinstance(event, SimulatedEvent):
            self.free_at = max(self.free_at, event.time)
            self.see(event.seen)
        else:
            self.must_have_passed(event)

    def see(self, seen: Seen) -> None:
        """Record that these operations are known to be done."""
        for stream, number in seen.items():
            if self.seen.get(stream, 0) < number:
                self.seen[stream] = number

    def put(self, name: str, begin: float, seconds: float) -> Operation:
        """Put an operation on this stream that begins at `begin` at the earliest."""
        begin = max(self.free_at, begin)
        self.free_at = begin + seconds
        self.seen[self] = self.seen.get(self, 0) + 1
        return Operation(self, name, begin, self.free_at)


@final
class SimulatedArray(DeviceArray):
    """An array on a SimulatedAccelerator. It is not an ndarray, and is never converted to one implicitly.

    NumPy's functions, operators and methods work on it as on an array of a GPU, each as an operation on the device's
    current stream. A result that is a Python number, such as that of `item()`, makes the host wait for that stream.
    Create one with `device.from_host`.

    Args:
        device: the accelerator.
        array: the elements.
        memory: the memory that holds them.
        base: the array whose memory it shares, as in NumPy.
    """

    __slots__ = ("_device", "_memory")

    def __init__(
        self, device: SimulatedAccelerator, array: np.ndarray, memory: Memory, base: SimulatedArray | None = None
    ) -> None:
        self._device = device
        self._array = array
        self._memory = memory
        self.base = base

    @property
    def device(self) -> SimulatedAccelerator:
        """The accelerator."""
        return self._device

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NoReturn:
        raise TypeError(
            f"an array on '{self.device}' is not converted to an ndarray implicitly: write device.to_host(array), "
            "or t.to('cpu') for a tensor"
        )

    def __repr__(self) -> str:
        return f"<array of shape {self.shape} and dtype {self.dtype} on '{self.device}'>"

    def _compute(
        self, name: str, function: Callable[..., Any], args: Any, kwargs: dict[str, Any], written: Iterable[Any]
    ) -> Any:
        return self._device.run(name, function, args, kwargs, written)

    def _from_host(self, array: np.ndarray) -> SimulatedArray:
        moved: SimulatedArray = self._device.from_host(array)
        return moved

    def _to_host(self) -> np.ndarray:
        return self._device.to_host(self)

    def _mixed(self, name: str, kind: type) -> str:
        return f"{super()._mixed(name, kind)}: write device.from_host(array) first, or tensor.to(device)"


_next_index = itertools.count().__next__

#: Functions that need no element of an array.
_METADATA = {
    "can_cast",
    "common_type",
    "iscomplexobj",
    "isrealobj",
    "may_share_memory",
    "ndim",
    "result_type",
    "shape",
    "shares_memory",
    "size",
}
#: Functions that return uninitialized memory.
_ALLOCATING = {"empty_like"}
_PRODUCTS = {"dot", "einsum", "inner", "matmul", "tensordot", "vdot", "vecdot"}


@final
class SimulatedAccelerator(Device):
    """A device that computes with NumPy at once, and counts the virtual time it would take; for tests and benchmarks.

    An operation takes `latency + bytes / bandwidth + operations / flops` seconds of a virtual clock on the current
    stream. The operations of one stream run in order; streams overlap. Each operation returns at once, and the host
    goes on; when it asks for a number or synchronizes, the clock jumps. The arrays are not ndarrays. An array that is
    used on one stream while another may still be writing it raises a HazardError, so that the first run shows a
    missing event.

    Args:
        latency: the seconds that each operation takes at least.
        bandwidth: how many bytes per second an operation reads and writes.
        flops: arithmetic operations per second.
        host_bandwidth: bytes per second between the memory of the host and that of the device.
        clock: may be shared with other accelerators; None creates one.
        fail_after: the device dies after this many operations; None for never.
        fail_at: the name of an operation at which it dies, such as "matmul".

    Raises:
        ArgumentError: `latency` is negative, or a speed is not greater than 0.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> from asyncgrad.testing import SimulatedAccelerator
        >>> device = SimulatedAccelerator(latency=1.0, bandwidth=1e12, flops=1e12, host_bandwidth=1e12)
        >>> x = device.from_host(np.ones(3))
        >>> with device.stream():
        ...     y = device.from_host(np.ones(3)) * 2
        >>> z = x * 2
        >>> _ = device.synchronize()
        >>> round(device.clock.now, 6)
        2.0
        >>> device.to_host(z)
        array([2., 2., 2.])
    """

    __slots__ = (
        "_died",
        "_fail_after",
        "_fail_at",
        "_host_seen",
        "_index",
        "_lock",
        "bandwidth",
        "clock",
        "flops",
        "host_bandwidth",
        "latency",
        "timeline",
    )

    has_strides = False
    has_host_arrays = False
    is_asynchronous = True
    has_timing = True

    def __init__(
        self,
        *,
        latency: float = 5e-6,
        bandwidth: float = 1e12,
        flops: float = 1e13,
        host_bandwidth: float = 1e10,
        clock: SimulatedClock | None = None,
        fail_after: int | None = None,
        fail_at: str | None = None,
    ) -> None:
        if not latency >= 0:
            raise ArgumentError(f"latency must be at least 0 seconds, not {latency!r}: give 0 for none")
        for what, speed in (("bandwidth", bandwidth), ("flops", flops), ("host_bandwidth", host_bandwidth)):
            if not speed > 0:
                raise ArgumentError(
                    f"{what} must be greater than 0 per second, not {speed!r}: give math.inf for no limit"
                )
        self._index = _next_index()
        self.latency: float = latency
        self.bandwidth: float = bandwidth
        self.flops: float = flops
        self.host_bandwidth: float = host_bandwidth
        self.clock: SimulatedClock = SimulatedClock() if clock is None else clock
        #: All operations in the order in which they were put on streams.
        self.timeline: list[Operation] = []
        self._fail_after = fail_after
        self._fail_at = fail_at
        self._died: str | None = None
        #: The operations that the host knows to be done.
        self._host_seen: dict[SimulatedStream, int] = {}
        self._lock = threading.RLock()
        register_device(self)

    @property
    def name(self) -> str:
        """A name such as `simulated:0`; each device has a new number, and `ag.device` finds it by its name."""
        return f"simulated:{self._index}"

    # Streams and time.

    def make_stream(self, index: int) -> SimulatedStream:
        """Return a stream whose time is virtual."""
        return SimulatedStream(self, index)

    @property
    def busy(self) -> float:
        """The seconds in which at least one stream runs an operation."""
        total, until = 0.0, 0.0
        for _, _, begin, end in sorted(self.timeline, key=lambda operation: operation.begin):
            total += max(0.0, end - max(begin, until))
            until = max(until, end)
        return total

    def holds(self, array: object) -> bool:
        """Tell whether this is an array of this device."""
        return isinstance(array, SimulatedArray) and array.device is self

    def kernels_launched(self) -> int:
        """Return how many operations have been put on streams."""
        return len(self.timeline)

    def host_waits_for(self, event: SimulatedEvent) -> None:
        """Move the clock to the time of an event, if it is later."""
        self.check()
        with self._lock:
            self.clock.now = max(self.clock.now, event.time)
            for stream, number in event.seen.items():
                self._host_seen[stream] = max(number, self._host_seen.get(stream, 0))

    # Failure.

    def check(self) -> None:
        """Raise if the device has died.

        Raises:
            DeviceError: it has died; the message says why.
        """
        if self._died is not None:
            raise DeviceError(self._died)

    def die(self, why: str = "it was told to") -> None:
        """Make the device die: every later use raises a DeviceError."""
        self._died = f"the device '{self}' has died: {why}"

    # Memory.

    def from_host(self, array: BareArray) -> Any:
        """Return a copy of a NumPy array in this device's memory, as an operation on the current stream."""
        copied = np.array(array, order="K")
        made = SimulatedArray(self, copied, Memory())
        with record_work(self.current_stream(), "copy to the device", "copy", copied.nbytes):
            self._put("from_host", (), (made,), self.latency + copied.nbytes / self.host_bandwidth)
        return made

    def to_host(self, array: Any) -> np.ndarray:
        """Return a copy as a NumPy array; the host waits for the current stream."""
        self._copy_to_host(array)
        self._wait_for_stream()
        return np.array(array._array, order="K")

    def to_host_async(self, array: Any) -> tuple[np.ndarray, SimulatedEvent]:
        """Return a copy as a NumPy array, and the Event after which it is filled; the host does not wait."""
        self._copy_to_host(array)
        event = self.current_stream().record_event()
        assert isinstance(event, SimulatedEvent)
        return np.array(array._array, order="K"), event

    def _copy_to_host(self, array: Any) -> None:
        with record_work(self.current_stream(), "copy to the host", "copy", array.nbytes):
            self._put("to_host", (array,), (), self.latency + array.nbytes / self.host_bandwidth)

    # Operations.

    def run(
        self,
        name: str,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        written: Iterable[object],
    ) -> Any:
        """Call a function of NumPy on arrays, and put it on the current stream as one operation.

        Args:
            name: its name in the timeline.
            function: takes ndarrays in place of this device's arrays.
            args: its arguments; arrays may be nested in lists and tuples.
            kwargs: its keyword arguments.
            written: the arguments that it writes into, apart from `out`.

        Raises:
            DeviceError: an array is on another device, or the device has died.
            HazardError: streams would use an array at the same time.
        """
        arrays: list[SimulatedArray] = []
        args, kwargs = unwrapped(args, arrays), unwrapped(kwargs, arrays)
        self.check()
        for array in arrays:
            if array.device is not self:
                raise DeviceError(f"{name} got arrays on '{self}' and on '{array.device}': move one of them first")
        given_out = kwargs.get("out")
        outs = given_out if isinstance(given_out, tuple) else (given_out,)
        targets = [array for array in arrays if any(array._array is out for out in outs)]
        targets += [array for array in written if isinstance(array, SimulatedArray)]
        result = function(*args, **kwargs)
        if name in _METADATA:
            return result
        made: list[SimulatedArray] = []
        others: list[Any] = []

        def make(elements: np.ndarray, shared: SimulatedArray | None) -> SimulatedArray:
            if shared is not None:
                return SimulatedArray(self, elements, shared._memory, shared if shared.base is None else shared.base)
            made.append(SimulatedArray(self, elements, Memory()))
            return made[-1]

        results = wrapped(result, arrays, make, others)
        # The host has to wait for anything that is no array.
        is_number = any(one is not None for one in others)
        if name in _ALLOCATING or not (made or targets or is_number):
            return results
        self._put(name, arrays, (*targets, *made), self._seconds(name, arrays, made or targets))
        if is_number:
            self._wait_for_stream()
        return results

    def _seconds(self, name: str, arrays: Iterable[SimulatedArray], results: list[SimulatedArray]) -> float:
        """Return how long an operation takes."""
        arrays = list(arrays)
        moved = sum(array.nbytes for array in (*arrays, *results))
        largest = max((array.size for array in (*arrays, *results)), default=0)
        if name in _PRODUCTS and len(arrays) > 1:
            # The product of an m x k and a k x n matrix takes 2 m k n operations.
            first, second = arrays[0].size, arrays[1].size
            largest = 2 * int(np.sqrt(float(first) * second * (results[0].size if results else 1)))
        return self.latency + moved / self.bandwidth + largest / self.flops

    def _fail_if_due(self, name: str) -> None:
        count = len(self.timeline)
        if name == self._fail_at or (self._fail_after is not None and count >= self._fail_after):
            self.die(f"its operation {count}, {name}, failed")
            self.check()

    def _put(
        self, name: str, reads: Iterable[SimulatedArray], writes: Iterable[SimulatedArray], seconds: float
    ) -> None:
        """Put an operation on the current stream."""
        self.check()
        self._fail_if_due(name)
        stream = self.current_stream()
        assert isinstance(stream, SimulatedStream)
        written = {array._memory for array in writes}
        read = {array._memory for array in reads} - written
        with self._lock:
            stream.see(self._host_seen)
            for memory in (*read, *written):
                memory.check(stream, name, memory in written)
            self.timeline.append(stream.put(name, self.clock.now, seconds))
            for memory in (*read, *written):
                memory.note(stream, name, memory in written)

    def _wait_for_stream(self) -> None:
        event = self.current_stream().record_event()
        assert isinstance(event, SimulatedEvent)
        self.host_waits_for(event)

    def close(self) -> None:
        """Make every later use raise a DeviceError."""
        self._died = f"the device '{self}' is closed"
