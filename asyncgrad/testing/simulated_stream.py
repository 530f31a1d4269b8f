"""The streams, the events and the clock of the simulated accelerator: time is a number, and nothing ever sleeps."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, NamedTuple, final

from ..engine.streams import DONE, Event, Stream
from ..errors import HazardError

if TYPE_CHECKING:
    from .simulated import SimulatedAccelerator

__all__ = ["Memory", "Operation", "SimulatedClock", "SimulatedEvent", "SimulatedStream"]

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
