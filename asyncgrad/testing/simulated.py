"""SimulatedAccelerator: a device with streams, memory and failures of its own, in virtual time."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ..engine.device import Device, register_device
from ..errors import ArgumentError, DeviceError
from .simulated_array import SimulatedArray
from .simulated_stream import Memory, Operation, SimulatedClock, SimulatedEvent, SimulatedStream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["SimulatedAccelerator"]

_next_index = itertools.count().__next__

#: What needs no element of an array.
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
#: What gives memory that nothing has been written into.
_ALLOCATING = {"empty_like"}
_PRODUCTS = {"dot", "einsum", "inner", "matmul", "tensordot", "vdot", "vecdot"}
_NUMBERS = (bool, int, float, complex, np.generic)


@final
class SimulatedAccelerator(Device):
    """A device that computes with NumPy at once, and counts the time that it would take; for tests and benchmarks.

    An operation takes `latency + bytes / bandwidth + operations / flops` seconds of a virtual clock on the current
    stream, in the order of that stream; streams overlap. It returns at once: the host goes on, until it asks for a
    number or synchronizes, and then the clock jumps. Its arrays are no ndarrays. One that is used on a stream while
    another may still be writing it raises a HazardError, so that a missing event is seen on the first run.

    Args:
        latency: seconds that each operation takes at least.
        bandwidth: bytes per second that an operation reads and writes.
        flops: arithmetic operations per second.
        host_bandwidth: bytes per second between the host's memory and the device's.
        clock: shared with others; None for one of its own.
        fail_after: the device dies when it has done so many operations; None never.
        fail_at: the name of an operation at which it dies, such as "matmul".

    Raises:
        ArgumentError: a time is negative, or a speed is not above 0.

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
            raise ArgumentError(f"latency is {latency!r}: give seconds, 0 for none")
        for what, speed in (("bandwidth", bandwidth), ("flops", flops), ("host_bandwidth", host_bandwidth)):
            if not speed > 0:
                raise ArgumentError(f"{what} is {speed!r}: give how much a second, math.inf for no bound")
        self._index = _next_index()
        self.latency, self.bandwidth, self.flops, self.host_bandwidth = latency, bandwidth, flops, host_bandwidth
        self.clock = SimulatedClock() if clock is None else clock
        #: All operations in the order in which they were put on streams.
        self.timeline: list[Operation] = []
        self._fail_after = fail_after
        self._fail_at = fail_at
        self._died: str | None = None
        #: What the host has waited for.
        self._host_seen: dict[SimulatedStream, int] = {}
        self._lock = threading.RLock()
        register_device(self)

    @property
    def name(self) -> str:
        """Such as `simulated:0`; each has another number, and `ag.device` finds it by that."""
        return f"simulated:{self._index}"

    # Streams and time.

    def make_stream(self, index: int) -> SimulatedStream:
        """Return a stream whose time is virtual."""
        return SimulatedStream(self, index)

    @property
    def busy(self) -> float:
        """Seconds for which at least one stream has something to do."""
        total, until = 0.0, 0.0
        for _, _, begin, end in sorted(self.timeline, key=lambda operation: operation.begin):
            total += max(0.0, end - max(begin, until))
            until = max(until, end)
        return total

    def host_waits_for(self, event: SimulatedEvent) -> None:
        """Let the clock jump to an event."""
        self.check()
        with self._lock:
            self.clock.now = max(self.clock.now, event.time)
            for stream, number in event.seen.items():
                self._host_seen[stream] = max(number, self._host_seen.get(stream, 0))

    # Failure.

    def check(self) -> None:
        """Raise if the device has died.

        Raises:
            DeviceError: it has, and how.
        """
        if self._died is not None:
            raise DeviceError(self._died)

    def die(self, why: str = "it was told to") -> None:
        """Let the device die: every later use raises a DeviceError."""
        self._died = f"the device '{self}' has died: {why}"

    # Memory.

    def from_host(self, array: Any) -> Any:
        """Return a copy of a NumPy array in this device's memory, made by the current stream."""
        copied = np.array(array, order="K")
        made = SimulatedArray(self, copied, Memory())
        self._put("from_host", (), (made,), self.latency + copied.nbytes / self.host_bandwidth)
        return made

    def to_host(self, array: Any) -> np.ndarray:
        """Return a copy as a NumPy array; the host waits for the current stream."""
        self._put("to_host", (array,), (), self.latency + array.nbytes / self.host_bandwidth)
        self._wait_for_stream()
        return np.array(array._array, order="K")

    # Operations.

    def takes(self, value: Any) -> bool:
        """Tell whether arguments of an operation are such as this device knows, or others' business."""
        if isinstance(value, (tuple, list)):
            return all(map(self.takes, value))
        if isinstance(value, dict):
            return all(map(self.takes, value.values()))
        kind = type(value)
        return (
            kind is SimulatedArray
            or isinstance(value, (np.ndarray, np.generic))
            or not hasattr(kind, "__array_ufunc__")
        )

    def run(
        self, name: str, function: Callable[..., Any], args: Any, kwargs: dict[str, Any], written: Iterable[Any]
    ) -> Any:
        """Call a function of NumPy's on arrays, and put that on the current stream as one operation.

        Args:
            name: for the timeline.
            function: takes ndarrays in their place.
            args: its arguments; arrays may be nested in lists and tuples.
            kwargs: its keyword arguments.
            written: the arguments that are written into, beside `out`.

        Raises:
            DeviceError: an array lives elsewhere, or the device has died.
            HazardError: streams would use an array at the same time.
        """
        arrays: list[SimulatedArray] = []
        args = self._unpacked(name, args, arrays)
        kwargs = self._unpacked(name, kwargs, arrays)
        given_out = kwargs.get("out")
        outs = given_out if isinstance(given_out, tuple) else (given_out,)
        targets = [array for array in arrays if any(array._array is out for out in outs)]
        targets += [array for array in written if isinstance(array, SimulatedArray)]
        self.check()
        if name in _METADATA:
            return function(*args, **kwargs)
        result = function(*args, **kwargs)
        made: list[SimulatedArray] = []
        wrapped, is_number = self._wrapped(result, arrays, made)
        if name in _ALLOCATING or not (made or targets or is_number):
            return wrapped
        self._put(name, arrays, (*targets, *made), self._seconds(name, arrays, made or targets))
        if is_number:
            self._wait_for_stream()
        return wrapped

    def _unpacked(self, name: str, value: Any, arrays: list[SimulatedArray]) -> Any:
        if isinstance(value, SimulatedArray):
            if value.device is not self:
                raise DeviceError(f"{name} got arrays on '{self}' and on '{value.device}': move one of them first")
            arrays.append(value)
            return value._array
        if isinstance(value, np.ndarray) and value.ndim and value.dtype.kind in "fc":
            raise DeviceError(
                f"{name} got an array on '{self}' and a NumPy array of shape {value.shape}: "
                "write device.from_host(array) first, or tensor.to(device)"
            )
        if type(value) in (tuple, list):
            return type(value)(self._unpacked(name, item, arrays) for item in value)
        if type(value) is dict:
            return {key: self._unpacked(name, item, arrays) for key, item in value.items()}
        return value

    def _wrapped(self, result: Any, arrays: list[SimulatedArray], made: list[SimulatedArray]) -> tuple[Any, bool]:
        """Return a result with arrays of this device, and whether there is something in it for the host to know."""
        if isinstance(result, (tuple, list)):
            parts = [self._wrapped(item, arrays, made) for item in result]
            values = [value for value, _ in parts]
            kind: Any = type(result)
            whole = kind(*values) if hasattr(kind, "_fields") else kind(values)
            return whole, any(is_number for _, is_number in parts)
        if not isinstance(result, (np.ndarray, np.generic)):
            return result, result is not None
        for array in arrays:
            if result is array._array:
                return array, False
        elements = np.asarray(result)
        for array in arrays:
            if elements.base is not None and np.may_share_memory(elements, array._array):
                base = array if array.base is None else array.base
                return SimulatedArray(self, elements, array._memory, base), False
        made.append(SimulatedArray(self, elements, Memory()))
        return made[-1], False

    def _seconds(self, name: str, arrays: Iterable[SimulatedArray], results: list[SimulatedArray]) -> float:
        """Return how long an operation takes."""
        arrays = list(arrays)
        moved = sum(array.nbytes for array in (*arrays, *results))
        largest = max((array.size for array in (*arrays, *results)), default=0)
        if name in _PRODUCTS and len(arrays) > 1:
            # Of matrices of m x k and k x n elements, 2 m k n.
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
        """Refuse what comes."""
        self._died = f"the device '{self}' is closed"
