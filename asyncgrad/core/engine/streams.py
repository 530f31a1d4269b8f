"""Stream and Event: a queue of work on one device that runs in order, and a point in that order."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from contextvars import Context
from typing import TYPE_CHECKING, Any, Protocol, Self, final
from weakref import WeakSet

from ...errors import DeviceError
from ..arrays.current_streams import follow_streams
from ..graph.creation import observe_nodes
from ..graph.leaf import GraphRoot
from ..graph.node import LEAF_ORDER
from ..settings.context import CURRENT_STREAMS, Mode
from ..settings.process import hold_in_forks

if TYPE_CHECKING:
    from ..graph.node import Node
    from .queues import InputBuffer

__all__ = ["DONE", "DeviceStreams", "Event", "Stream", "StreamOwner", "TaskStreams", "enter_streams", "streams_in_use"]

#: Whether any device of this process has another stream than its default one. If not, a backward does not handle
#: streams: all its work is on default streams.
streams_in_use: list[bool] = [False]

_MUTEX = hold_in_forks(threading.Lock())


@final
class Done:
    """An awaitable that completes at once."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, None]:
        yield from ()


DONE = Done()


class StreamOwner(Protocol):
    """The part of Device that its streams need."""

    _streams: Any

    @property
    def name(self) -> str:
        """The name that `ag.device` finds it by."""

    def make_stream(self, index: int) -> Any:
        """Return a new stream."""

    def current_stream(self) -> Any:
        """Return the stream on which work of this context is put."""

    def default_stream(self) -> Any:
        """Return the stream that is current where no other is."""


class Event:
    """Abstract: a point in the order of a stream's work, for which other streams and the caller can wait.

    Made by `stream.record_event()`. It completes when all work has ended that was on the stream by then.

    Source: torch.cuda.Event.

    Example:
        >>> import asyncgrad as ag
        >>> ag.device("cpu").current_stream().record_event().query()
        True
    """

    __slots__ = ("enable_timing", "stream")

    def __init__(self, stream: Stream, enable_timing: bool = False) -> None:
        #: The stream on which it was recorded.
        self.stream: Stream = stream
        #: Whether it tells the time, by `elapsed_time`.
        self.enable_timing: bool = enable_timing

    def query(self) -> bool:
        """Tell whether the event has completed; never waits."""
        raise NotImplementedError(f"{type(self).__name__} must implement query()")

    def synchronize(self) -> Awaitable[None]:
        """Wait until the event has completed.

        In a thread with a running event loop it must be awaited, `await event.synchronize()`, and suspends. In any
        other thread it blocks, and needs no await.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement synchronize()")

    def elapsed_time(self, end: Event) -> float:
        """Return the milliseconds from this event to `end`, as the device has measured them; never waits.

        Raises:
            DeviceError: one of the two was not recorded with `enable_timing=True`, is of another device, or has not
                completed.

        Source: torch.cuda.Event.elapsed_time.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement elapsed_time(end)")

    def must_have_times(self, end: object) -> None:
        """Raise unless `elapsed_time(end)` can be told; for its implementations.

        Raises:
            DeviceError: as `elapsed_time`.
        """
        device = self.stream.device
        if not isinstance(end, Event) or end.stream.device is not device:
            raise DeviceError(f"elapsed_time takes an event of a stream of '{device}', not {end!r}")
        for event in (self, end):
            if not event.enable_timing:
                raise DeviceError(
                    f"an event of {event.stream!r} has no time: write stream.record_event(enable_timing=True)"
                )
            if not event.query():
                raise DeviceError(
                    f"an event of {event.stream!r} has no time yet, since it has not completed: first write "
                    "await event.synchronize()"
                )


class Stream(Mode):
    """Abstract: a queue of work on one device. Work on one stream runs in order; two streams are unordered.

    Made by `device.stream()`. As a context manager it is the current stream of its device, in the current context
    only, so that tasks do not share it; it decorates functions as well. The backward of an operation that is recorded
    inside runs on that stream.

    Args:
        device: the device.
        index: 0 for the default stream of the device; further ones count from 1.

    Source: torch.cuda.Stream.

    Example:
        >>> import asyncgrad as ag
        >>> device = ag.device("cpu")
        >>> stream = device.stream()
        >>> with stream:
        ...     device.current_stream() is stream
        True
        >>> device.current_stream() is device.default_stream()
        True
    """

    __slots__ = ("__weakref__", "device", "index")

    def __init__(self, device: StreamOwner, index: int) -> None:
        self.device: StreamOwner = device
        self.index: int = index

    # What a device must implement.

    def record_event(self, *, enable_timing: bool = False) -> Event:
        """Return an Event that completes when all work that is on this stream now has ended.

        Args:
            enable_timing: whether the device notes when that is, for `Event.elapsed_time`. Only a device that
                `has_timing` can.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement record_event()")

    def wait_event(self, event: Event) -> None:
        """Let later work on this stream begin only once `event` has completed. Never waits itself.

        Args:
            event: an event of a stream of any device.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement wait_event(event)")

    def must_have_passed(self, event: Event) -> None:
        """Raise unless `event`, of another kind of device, has completed; this stream cannot wait for it.

        Raises:
            DeviceError: it has not completed, or is not an Event.
        """
        if not isinstance(event, Event):
            raise DeviceError(f"{self!r} can wait for an event, made by stream.record_event(), not for {event!r}")
        if not event.query():
            raise DeviceError(
                f"{self!r} cannot wait for an event of {event.stream!r}: await it first, with await event.synchronize()"
            )

    # Defaults, for a device whose functions put work on the current stream by themselves.

    @property
    def label(self) -> str:
        """What it is called in the timeline of a profile."""
        return f"stream {self.index}" if self.index else "default stream"

    def wait_stream(self, other: Stream) -> None:
        """Let later work on this stream begin only once all work that is on `other` now has ended.

        Raises:
            DeviceError: it is not a Stream.
        """
        if not isinstance(other, Stream):
            raise DeviceError(f"{self!r} can wait for a stream, of any device, not for {other!r}")
        self.wait_event(other.record_event())

    def record_use(self, value: object) -> None:
        """Note that the work that is on this stream now uses `value`, arrays whose memory belongs to another stream.

        A device that reuses memory in the order of one stream keeps a reference until that work has ended. Others
        have nothing to do.

        Source: torch.Tensor.record_stream.
        """

    def query(self) -> bool:
        """Tell whether all work on this stream has ended; never waits."""
        return self.record_event().query()

    def synchronize(self) -> Awaitable[None]:
        """Wait until all work that is on this stream now has ended; awaited or not as `Event.synchronize` is."""
        return self.record_event().synchronize()

    def turn(self) -> AbstractAsyncContextManager[object]:
        """Return an async context manager for a call that is work of the stream: it enters when the order allows it."""
        return nullcontext()

    def is_free(self) -> bool:
        """Tell whether a node's body may run now: always on a device whose functions put work on the stream."""
        return True

    async def until_free(self) -> None:
        """Wait until a node's body may run on the stream; suspends."""

    # The current stream.

    def _get(self) -> Any:
        return CURRENT_STREAMS.get().get(self.device)

    def _set(self, value: Any, /) -> None:
        streams = {**CURRENT_STREAMS.get(), self.device: value}
        if value is None:
            del streams[self.device]
        enter_streams(streams)

    def _value(self) -> Stream:
        return self

    def _clone(self) -> Mode:
        return self

    def __enter__(self) -> Self:  # type: ignore[override]
        super().__enter__()
        return self

    def __repr__(self) -> str:
        return f"<stream {self.index} of {str(self.device)!r}>"


def _call_on_streams(function: Callable[..., Any], *args: Any) -> Any:
    # Since this context ran last, a task with other streams may have run in this thread.
    follow_streams()
    return function(*args)


async def _await_all(waits: list[Awaitable[None]]) -> None:
    for wait in waits:
        await wait


def enter_streams(streams: Mapping[Any, Any]) -> None:
    """Make `streams`, by device, the current ones of this context, and of the nodes that are made in it."""
    CURRENT_STREAMS.set(streams)
    observe_nodes()
    follow_streams()


@final
class DeviceStreams:
    """The streams of one device."""

    __slots__ = ("_device", "_live", "_made_count", "default")

    def __init__(self, device: StreamOwner) -> None:
        self._device = device
        self._made_count = 0
        self.default: Stream = self._make_stream(0)
        #: Weak: a stream without references has no work.
        self._live = WeakSet([self.default])

    @classmethod
    def of(cls, device: StreamOwner) -> DeviceStreams:
        """Return those of a device; the first call makes them."""
        streams: DeviceStreams | None = getattr(device, "_streams", None)
        if streams is None:
            with _MUTEX:
                streams = getattr(device, "_streams", None)
                if streams is None:
                    streams = device._streams = cls(device)
        return streams

    def make(self) -> Stream:
        """Return a new stream."""
        with _MUTEX:
            streams_in_use[0] = True
            self._made_count += 1
            stream = self._make_stream(self._made_count)
            self._live.add(stream)
        return stream

    def _make_stream(self, index: int) -> Stream:
        stream = self._device.make_stream(index)
        if not isinstance(stream, Stream):
            raise DeviceError(
                f"{type(self._device).__name__}.make_stream({index}) of '{self._device}' returned {stream!r}: "
                "it must return a Stream"
            )
        return stream

    def live_streams(self) -> list[Stream]:
        """Return all streams that exist."""
        with _MUTEX:
            return list(self._live)

    def synchronize(self) -> Awaitable[None]:
        """Wait until all work that is on any of them now has ended."""
        waits = [wait for stream in self.live_streams() if (wait := stream.synchronize()) is not DONE]
        return _await_all(waits) if waits else DONE

    def check(self, stream: Any) -> Stream:
        """Return `stream` if it belongs to this device.

        Raises:
            DeviceError: it belongs to another device, or is not a Stream.
        """
        if not isinstance(stream, Stream):
            raise DeviceError(
                f"{self._device} takes a stream made by device.stream(), not {stream!r}: "
                f"write ag.device({self._device.name!r}).stream() for a new one"
            )
        if stream.device is not self._device:
            raise DeviceError(
                f"stream {stream.index} of '{stream.device}' cannot be the current stream of '{self._device}': "
                f"take one of its own, ag.device({self._device.name!r}).stream()"
            )
        return stream


@final
class TaskStreams:
    """Tracks on which stream each gradient of one backward has been computed.

    A gradient that one stream computes and another one reads comes with an event. As in PyTorch, that is waited for
    only when the value is needed: to be added to another one, or by the node that takes it.

    Source: the rules for streams of PyTorch's engine and of its InputBuffer.

    Args:
        caller: by device, the streams that were current where the backward was called.
    """

    __slots__ = ("_arrived", "_caller", "_crossed", "_events", "_from_elsewhere", "leaves")

    def __init__(self, caller: Mapping[Any, Stream]) -> None:
        self._caller = caller
        #: The inputs that a gradient has arrived at.
        self._arrived: set[tuple[Node, int]] = set()
        #: The events to wait for before those gradients are read, by node and input.
        self._events: dict[Node, dict[int, list[Event]]] = {}
        #: By device other than the roots', the caller's work before the backward, for which its leaves wait.
        self._from_elsewhere: dict[Any, Event] = {}
        #: By stream, the gradients that it reads and another stream has computed.
        self._crossed: dict[Stream, list[Any]] = {}
        #: The streams of the leaves and capturing nodes that have run.
        self.leaves: set[Stream] = set()

    @classmethod
    def of_caller(cls) -> TaskStreams:
        """Return the TaskStreams of a backward that is called in this context."""
        return cls(CURRENT_STREAMS.get())

    @property
    def has_caller_streams(self) -> bool:
        """Whether a stream was current where the backward was called."""
        return bool(self._caller)

    def enter(self) -> None:
        """Make the default streams current in this context, for nodes without a stream of their own."""
        if self._caller:
            enter_streams({})

    def start(self, root: Node, input_nr: int) -> None:
        """Note that the gradient of the root has been computed on the caller's stream."""
        self._arrive(None, root, input_nr)
        begins = {node.device for node in root.next_nodes if node is not None} | {root.device}
        for device, stream in self._caller.items():
            if device not in begins:
                self._from_elsewhere[device] = stream.record_event()
        if root.meta is None:
            # It runs on the fast path, which does not call `begin`.
            self.begin(root)

    def note_arrived(self, node: Node, grads: list[Any]) -> None:
        """Note gradients that have been computed on the default stream."""
        for input_nr, grad in enumerate(grads):
            if grad is not None and self._arrive(node, node, input_nr, on_default=True):
                self._crossed.setdefault(node.stream, []).append(grad)

    def add(
        self, buffer: InputBuffer, producer: Node, edge: int, consumer: Node, input_nr: int, grad: Any, in_place: bool
    ) -> None:
        """Add a gradient to a buffer; a sum is computed on the consumer's stream."""
        stream = consumer.stream
        if stream is None or grad is None:
            buffer.add(input_nr, grad, (producer, edge), in_place)
            return
        is_first = (consumer, input_nr) not in self._arrived
        if self._arrive(producer, consumer, input_nr):
            self._crossed.setdefault(stream, []).append(grad)
        if is_first:
            buffer.add(input_nr, grad, (producer, edge), in_place)
            return
        self._wait(stream, self._events.get(consumer, {}).pop(input_nr, []))
        with stream:
            buffer.add(input_nr, grad, (producer, edge), in_place)

    def begin(self, node: Node) -> None:
        """Let the stream of a node wait for the node's gradients; called just before the node runs."""
        events = self._events.pop(node, None)
        if events is not None:
            for waited in events.values():
                self._wait(node.stream, waited)
        if node.order == LEAF_ORDER and node.device in self._from_elsewhere:
            self._wait(node.stream, [self._from_elsewhere[node.device]])

    def runner(self, context: Context) -> Callable[..., Any]:
        """Return what `context.run` is, with libraries that follow the streams of that context."""

        def run(function: Callable[..., Any], *args: Any) -> Any:
            return context.run(_call_on_streams, function, *args)

        return run

    def leave(self, node: Node) -> None:
        """Note that a gradient ends at `node`: it is a leaf, or captures."""
        stream = node.stream
        if stream is not None:
            self.leaves.add(stream)

    def finish(self) -> None:
        """Let the caller's current streams wait for the leaves' streams, and for the default stream."""
        self._end()
        for stream in self.leaves:
            current = self._of_caller(stream.device)
            if current is not stream:
                current.wait_event(stream.record_event())

    def abandon(self) -> None:
        """Do what `finish` does as far as possible, after a failure, which may be that of a device."""
        self._end()
        for stream in self.leaves:
            with suppress(DeviceError):
                self._of_caller(stream.device).wait_stream(stream)

    def _end(self) -> None:
        """Note what the streams have used, and that gradients may have ended on default streams.

        Leaves that were used on a default stream have no stream of their own.
        """
        while self._crossed:
            stream, grads = self._crossed.popitem()
            stream.record_use(grads)
        self.leaves.update(device.default_stream() for device in self._caller if device.is_asynchronous)

    def return_to_caller(self) -> None:
        """Make the caller's streams current in this context again, for final callbacks."""
        if self._caller:
            enter_streams(self._caller)

    def _of_caller(self, device: Any) -> Any:
        return self._caller.get(device) or device.default_stream()

    def _arrive(self, producer: Node | None, consumer: Node, input_nr: int, on_default: bool = False) -> bool:
        """Note a gradient at an input of a node; tell whether another stream computes it than the one that reads it."""
        stream = consumer.stream
        if stream is None:
            return False
        self._arrived.add((consumer, input_nr))
        device = consumer.device
        if producer is None or isinstance(producer, GraphRoot):
            source = self._of_caller(device)
        elif on_default or producer.device is not device:
            # A move from another device runs on the current stream of this one, which is the default.
            source = device.default_stream()
        else:
            source = producer.stream or device.default_stream()
        # The results of a call are there when it returns, and calls on the default stream are unordered.
        if source is stream or not (device.is_asynchronous or source.index):
            return False
        self._events.setdefault(consumer, {}).setdefault(input_nr, []).append(source.record_event())
        return True

    @staticmethod
    def _wait(stream: Any, events: list[Event]) -> None:
        for event in events:
            stream.wait_event(event)
