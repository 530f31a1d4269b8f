"""An accelerator that is simulated on the host: a device whose work runs on streams of its own, in simulated time."""

from __future__ import annotations

import itertools
import operator
import threading
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from ..engine.device import Device, register_device
from ..engine.streams import DONE, Event, Stream
from ..errors import ArgumentError, DeviceError, HazardError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = [
    "Memory",
    "Operation",
    "SimulatedAccelerator",
    "SimulatedArray",
    "SimulatedClock",
    "SimulatedEvent",
    "SimulatedStream",
]

#: How far the work of each stream is known to be done: the number of operations on it.
Seen = dict["SimulatedStream", int]


@final
class SimulatedClock:
    """Virtual time, in seconds. It goes on where the host waits for a device, and where a test says so.

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
        self.now = 0.0

    def advance(self, seconds: float) -> None:
        """Let the host be busy for a while."""
        self.now += seconds


class Operation(NamedTuple):
    """One entry of an accelerator's timeline; times in seconds of its clock."""

    stream: SimulatedStream
    name: str
    begin: float
    end: float


@final
class Memory:
    """A piece of the accelerator's memory: which operations have written and read it last."""

    __slots__ = ("_read", "_written")

    def __init__(self) -> None:
        self._written: tuple[SimulatedStream, int, str] | None = None
        #: Since it was written: by stream, the last read.
        self._read: dict[SimulatedStream, tuple[int, str]] = {}

    def check(self, stream: SimulatedStream, name: str, is_written: bool) -> None:
        """Raise where an operation on a stream is not ordered after those that it depends on.

        Raises:
            HazardError: no event leads from them to it, and nobody has waited for them.
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
        """Note an operation, the last one of a stream."""
        number = stream.seen[stream]
        if is_written:
            self._written = stream, number, name
            self._read.clear()
        else:
            self._read[stream] = number, name


def _hazard(stream: Stream, name: str, does: str, other: Stream, before: str, did: str) -> str:
    return (
        f"{name} on {stream!r} {does} an array that {before} on {other!r} {did}, and no event orders the two: "
        "write stream.wait_stream(other) first"
    )


@final
class SimulatedEvent(Event):
    """An event in virtual time.

    Args:
        stream: where it was recorded.
        time: when it comes to pass.
        seen: what is known to be done then.
    """

    __slots__ = ("seen", "time")

    def __init__(self, stream: SimulatedStream, time: float, seen: Seen) -> None:
        super().__init__(stream)
        self.time = time
        self.seen = seen

    def query(self) -> bool:
        """Tell whether the clock has passed it."""
        assert isinstance(self.stream, SimulatedStream)
        return self.stream.device.clock.now >= self.time

    def synchronize(self) -> Awaitable[None]:
        """Let the clock jump to it, unless that has passed it; never suspends.

        Raises:
            DeviceError: the device has died.
        """
        assert isinstance(self.stream, SimulatedStream)
        self.stream.device.host_waits_for(self)
        return DONE


@final
class SimulatedStream(Stream):
    """A stream of a simulated accelerator: its operations take virtual time, one after the other.

    Args:
        device: whose it is.
        index: 0 for the default one.
    """

    __slots__ = ("free_at", "seen")

    device: SimulatedAccelerator

    def __init__(self, device: SimulatedAccelerator, index: int) -> None:
        super().__init__(device, index)
        #: When all that is on the stream is done.
        self.free_at = 0.0
        #: What is known to be done when the next operation begins.
        self.seen: Seen = {}

    def record_event(self) -> SimulatedEvent:
        """Return an Event of when all that is on this stream is done.

        Raises:
            DeviceError: the device has died.
        """
        self.device.check()
        return SimulatedEvent(self, self.free_at, dict(self.seen))

    def wait_event(self, event: Event) -> None:
        """Let later operations on this stream begin when `event` has come to pass.

        Raises:
            DeviceError: the device has died; or the event is of a device whose time is not virtual, and has not come
                to pass.
        """
        self.device.check()
        if isinstance(event, SimulatedEvent):
            self.free_at = max(self.free_at, event.time)
            self.see(event.seen)
        else:
            self.must_have_passed(event)

    def see(self, seen: Seen) -> None:
        """Count what is known elsewhere to be done as known here."""
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
class SimulatedArray:
    """An array on a SimulatedAccelerator. It is no ndarray and never becomes one unseen.

    NumPy's functions, operators and methods work on it, each as an operation on the device's current stream. A result
    that is a Python number, as that of `item()`, makes the host wait for that stream. Made by `device.from_host`.

    Args:
        device: where it lives.
        array: the elements.
        memory: what it is kept in.
        base: the array whose memory it shares, as in NumPy.
    """

    __slots__ = ("__weakref__", "_array", "_memory", "base", "device")

    def __init__(
        self, device: SimulatedAccelerator, array: Any, memory: Memory, base: SimulatedArray | None = None
    ) -> None:
        self.device = device
        self._array: np.ndarray = array
        self._memory = memory
        self.base = base

    # NumPy's protocols.

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if not self.device.takes((inputs, kwargs)):
            return NotImplemented
        function = ufunc if method == "__call__" else getattr(ufunc, method)
        return self.device.run(ufunc.__name__, function, inputs, kwargs, inputs[:1] if method == "at" else ())

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if not self.device.takes((args, kwargs)):
            return NotImplemented
        if function.__name__ in _CREATING_FUNCTIONS:
            # Called with like=, and this array.
            return self.device.from_host(function(*args, **kwargs))
        written = args[:1] if function.__name__ in _WRITING_FUNCTIONS else ()
        return self.device.run(function.__name__, function, args, kwargs, written)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise TypeError(
            f"an array on '{self.device}' does not become an ndarray unseen: write device.to_host(array), "
            "or t.to('cpu') of a tensor"
        )

    # What is known without the elements.

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        return self._array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype of the elements."""
        return self._array.dtype

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return self._array.ndim

    @property
    def size(self) -> int:
        """How many elements there are."""
        return self._array.size

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self._array.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._array.nbytes

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next, along each axis."""
        return self._array.strides

    @property
    def flags(self) -> Any:
        """How the elements lie in memory."""
        return self._array.flags

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Where the elements lie, as arrays outside of the host's memory tell it."""
        return self._array.__array_interface__

    def __len__(self) -> int:
        return len(self._array)

    # Views.

    @property
    def T(self) -> Any:
        """A view with the axes in reverse order."""
        return self._call(np.transpose)

    @property
    def mT(self) -> Any:
        """A view with the last two axes in each other's place."""
        return self._call(np.matrix_transpose)

    @property
    def real(self) -> Any:
        """The real part, a view."""
        return self._call(np.real)

    @property
    def imag(self) -> Any:
        """The imaginary part."""
        return self._call(np.imag)

    def __getitem__(self, index: Any) -> Any:
        return self._call(operator.getitem, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.device.run("setitem", operator.setitem, (self, index, value), {}, (self,))

    def __iter__(self) -> Any:
        return (self[index] for index in range(len(self)))

    # Numbers, for which the host waits.

    def item(self, *index: Any) -> Any:
        """Return one element as a Python number."""
        return self._call(np.ndarray.item, *index)

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python numbers."""
        return self._call(np.ndarray.tolist)

    def __bool__(self) -> bool:
        return bool(self._call(operator.truth))

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        return operator.index(self.item())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<array of shape {self.shape} and dtype {self.dtype} on '{self.device}'>"

    # All else is NumPy's.

    def _call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return self.device.run(function.__name__, function, (self, *args), kwargs, ())


_CREATING_FUNCTIONS = {"arange", "array", "asarray", "empty", "eye", "full", "identity", "ones", "zeros"}
_WRITING_FUNCTIONS = {"copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"}
_WRITING_METHODS = {"fill", "partition", "put", "sort"}
_METHODS = [
    "all",
    "any",
    "argmax",
    "argmin",
    "argpartition",
    "argsort",
    "astype",
    "choose",
    "clip",
    "compress",
    "conj",
    "conjugate",
    "copy",
    "cumprod",
    "cumsum",
    "diagonal",
    "dot",
    "fill",
    "flatten",
    "max",
    "mean",
    "min",
    "nonzero",
    "partition",
    "prod",
    "put",
    "ravel",
    "repeat",
    "reshape",
    "round",
    "searchsorted",
    "sort",
    "squeeze",
    "std",
    "sum",
    "swapaxes",
    "take",
    "trace",
    "transpose",
    "var",
    "view",
]
_BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor", "lshift", "rshift"]
_COMPARISONS = ["lt", "le", "eq", "ne", "gt", "ge"]
_UNARY = ["neg", "pos", "abs", "invert"]


def _method(name: str) -> Callable[..., Any]:
    function = getattr(np.ndarray, name)

    def method(self: SimulatedArray, *args: Any, **kwargs: Any) -> Any:
        return self.device.run(name, function, (self, *args), kwargs, (self,) if name in _WRITING_METHODS else ())

    method.__name__, method.__doc__ = name, f"As numpy.ndarray.{name}."
    return method


def _binary(name: str, is_reflected: bool, is_in_place: bool) -> Callable[..., Any]:
    function = getattr(operator, f"i{name.strip('_')}" if is_in_place else name)

    def binary(self: SimulatedArray, other: Any) -> Any:
        if not self.device.takes(other):
            return NotImplemented
        pair = (other, self) if is_reflected else (self, other)
        return self.device.run(name.strip("_"), function, pair, {}, (self,) if is_in_place else ())

    return binary


def _unary(name: str) -> Callable[..., Any]:
    function = getattr(operator, name)
    return lambda self: self._call(function)


for _name in _METHODS:
    setattr(SimulatedArray, _name, _method(_name))
for _name in _BINARY:
    _bare = _name.strip("_")
    setattr(SimulatedArray, f"__{_bare}__", _binary(_name, False, False))
    setattr(SimulatedArray, f"__r{_bare}__", _binary(_name, True, False))
    setattr(SimulatedArray, f"__i{_bare}__", _binary(_name, False, True))
for _name in _COMPARISONS:
    setattr(SimulatedArray, f"__{_name}__", _binary(_name, False, False))
for _name in _UNARY:
    setattr(SimulatedArray, f"__{_name}__", _unary(_name))


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
