"""Stream and Event: what is asked of work on one device that is done in order, and of a point in that order."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Protocol, Self, final
from weakref import WeakSet

from ..context import CURRENT_STREAMS, Mode
from ..errors import DeviceError
from ..graph.creation import observe_nodes
from ..graph.leaf import GraphRoot
from ..graph.node import LEAF_ORDER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..graph.node import Node
    from .queues import InputBuffer

__all__ = ["DONE", "DeviceStreams", "Event", "Stream", "StreamOwner", "TaskStreams", "enter_streams", "streams_met"]

#: Whether any device of this process has been asked for a stream. Where none has, a backward asks for none either.
streams_met = [False]

_MAKING = threading.Lock()


@final
class Done:
    """An awaitable of what has been done already."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, None]:
        yield from ()


DONE = Done()


class StreamOwner(Protocol):
    """A device, as its streams see it; see Device."""

    _streams: Any

    @property
    def name(self) -> str:
        """As it is asked for."""

    def make_stream(self, index: int) -> Any:
        """Return a new stream."""

    def default_stream(self) -> Any:
        """Return the stream that is the current one where no other is."""


class Event:
    """Abstract: a point in the order of a stream's work, that other streams and the caller can wait for.

    Made by `stream.record_event()`. It has come to pass once all has ended that was on the stream by then.

    Source: torch.cuda.Event.

    Example:
        >>> import asyncgrad as ag
        >>> ag.device("cpu").current_stream().record_event().query()
        True
    """

    __slots__ = ("stream",)

    def __init__(self, stream: Stream) -> None:
        #: Where it was recorded.
        self.stream = stream

    def query(self) -> bool:
        """Tell whether all has ended that the event stands for; never waits."""
        raise NotImplementedError(f"{type(self).__name__} must implement query()")

    def synchronize(self) -> Awaitable[None]:
        """Wait until all has ended that the event stands for.

        In a thread with a running event loop it has to be awaited, `await event.synchronize()`, and suspends. In any
        other thread it has waited when it returns.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement synchronize()")


class Stream(Mode):
    """Abstract: a row of work on one device. What is put on it is done in order; two streams know no order.

    Made by `device.stream()`. As a context manager it is the current stream of its device, for the current context
    only, so that tasks never see each other's; it decorates functions, too. An operation recorded inside has its
    backward on that stream.

    Args:
        device: whose work it is.
        index: 0 for the device's default stream, which there always is; further ones count from 1.

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
        self.device = device
        self.index = index

    # What a device must say.

    def record_event(self) -> Event:
        """Return an Event that stands for all that is on this stream by now."""
        raise NotImplementedError(f"{type(self).__name__} must implement record_event()")

    def wait_event(self, event: Event) -> None:
        """Let what is put on this stream from now on begin only once `event` has come to pass. Never waits itself.

        Args:
            event: of a stream of any device.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement wait_event(event)")

    def must_have_passed(self, event: Event) -> None:
        """Raise for an event of another kind of device, which this stream cannot wait for, unless it has come to pass.

        Raises:
            DeviceError: it has not, or it is no event.
        """
        if not isinstance(event, Event):
            raise DeviceError(f"{self!r} can wait for an event, of stream.record_event(), and {event!r} is none")
        if not event.query():
            raise DeviceError(
                f"{self!r} cannot wait for an event of {event.stream!r}: write await event.synchronize() before"
            )

    # What follows from that, where what is called on the device puts work on the stream by itself.

    def wait_stream(self, other: Stream) -> None:
        """Let what is put on this stream from now on begin only once all has ended that is on `other` by now.

        Raises:
            DeviceError: it is no stream.
        """
        if not isinstance(other, Stream):
            raise DeviceError(f"{self!r} can wait for a stream, of any device, and {other!r} is none")
        self.wait_event(other.record_event())

    def query(self) -> bool:
        """Tell whether all has ended that is on this stream; never waits."""
        return self.record_event().query()

    def synchronize(self) -> Awaitable[None]:
        """Wait until all has ended that is on this stream by now; awaited or not as `Event.synchronize` is."""
        return self.record_event().synchronize()

    def turn(self) -> AbstractAsyncContextManager[Any]:
        """Return a block in which a call is the stream's work: it begins when the stream's order lets it."""
        return nullcontext()

    def is_free(self) -> bool:
        """Tell whether a node's body may run on the stream now: always where it puts its work there by itself."""
        return True

    async def until_free(self) -> None:
        """Wait until a node's body may run on the stream; suspends."""

    # The current one.

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


async def _await_all(waits: list[Awaitable[None]]) -> None:
    for wait in waits:
        await wait


def enter_streams(streams: Mapping[Any, Any]) -> None:
    """Let the streams by device be the current ones of this context, and those of the nodes that it makes."""
    CURRENT_STREAMS.set(streams)
    observe_nodes()


@final
class DeviceStreams:
    """The streams of one device."""

    __slots__ = ("_device", "_known", "_made", "default")

    def __init__(self, device: StreamOwner) -> None:
        self._device = device
        self._made = 0
        self.default = self._made_by_device(0)
        #: Weak: a stream that nobody refers to has nothing to wait for.
        self._known = WeakSet([self.default])

    @classmethod
    def of(cls, device: StreamOwner) -> DeviceStreams:
        """Return those of a device, made now if this is the first to ask."""
        streams: DeviceStreams | None = getattr(device, "_streams", None)
        if streams is None:
            with _MAKING:
                streams = getattr(device, "_streams", None)
                if streams is None:
                    streams_met[0] = True
                    streams = device._streams = cls(device)
        return streams

    def make(self) -> Stream:
        """Return a new stream."""
        with _MAKING:
            self._made += 1
            stream = self._made_by_device(self._made)
            self._known.add(stream)
        return stream

    def _made_by_device(self, index: int) -> Stream:
        stream = self._device.make_stream(index)
        if not isinstance(stream, Stream):
            raise DeviceError(
                f"{type(self._device).__name__}.make_stream({index}) of '{self._device}' returned {stream!r}: "
                "it must return a Stream"
            )
        return stream

    def known(self) -> list[Stream]:
        """Return all that somebody refers to, or that have work."""
        with _MAKING:
            return list(self._known)

    def synchronize(self) -> Awaitable[None]:
        """Wait until all has ended that is on any of them by now."""
        waits = [wait for stream in self.known() if (wait := stream.synchronize()) is not DONE]
        return _await_all(waits) if waits else DONE

    def checked(self, stream: Any) -> Stream:
        """Return a stream that a caller gave, if it belongs to this device.

        Raises:
            DeviceError: it is another device's, or no stream.
        """
        if not isinstance(stream, Stream):
            raise DeviceError(
                f"{self._device} has streams that device.stream() makes, and {stream!r} is none: "
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
    """What has been computed on which stream in one backward.

    A gradient that one stream has computed and another reads is handed on with an event. As in PyTorch, nobody waits
    before the value is needed: to be added to another one, or by the node that takes it.

    Source: the rules for streams of PyTorch's engine and of its InputBuffer.

    Args:
        caller: by device, the streams that were current where the backward was called.
    """

    __slots__ = ("_arrived", "_caller", "_events", "_from_elsewhere", "leaves")

    def __init__(self, caller: Mapping[Any, Stream]) -> None:
        self._caller = caller
        #: The inputs that a gradient has arrived at.
        self._arrived: set[tuple[Node, int]] = set()
        #: What is to be waited for before those gradients are read.
        self._events: dict[Node, dict[int, list[Event]]] = {}
        #: What leaves wait for that no gradient of the roots' own device comes to: what the caller has done before.
        self._from_elsewhere: dict[Any, Event] = {}
        #: The streams of the leaves, and of what is captured, as far as those have run.
        self.leaves: set[Stream] = set()

    @classmethod
    def of_caller(cls) -> TaskStreams:
        """Return those of a backward that is called in this context."""
        return cls(CURRENT_STREAMS.get())

    @property
    def is_called_on_one(self) -> bool:
        """Whether a stream was current where the backward was called."""
        return bool(self._caller)

    def enter(self) -> None:
        """Let what runs on no stream of its own run on the default ones, in this context."""
        if self._caller:
            enter_streams({})

    def start(self, root: Node, input_nr: int) -> None:
        """Note that the root's gradient has been computed on the caller's stream."""
        self._arrive(None, root, input_nr)
        begins = {node.device for node in root.next_nodes if node is not None} | {root.device}
        for device, stream in self._caller.items():
            if device not in begins:
                self._from_elsewhere[device] = stream.record_event()
        if root.meta is None:
            # It runs where nothing counts.
            self.begin(root)

    def arrived_before(self, node: Node, grads: list[Any]) -> None:
        """Note gradients that nodes without a stream of their own have computed."""
        for input_nr, grad in enumerate(grads):
            if grad is not None:
                self._arrive(node, node, input_nr, on_default=True)

    def add(
        self, buffer: InputBuffer, producer: Node, edge: int, consumer: Node, input_nr: int, grad: Any, in_place: bool
    ) -> None:
        """Add a gradient to a buffer, on the consumer's stream if that takes work."""
        stream = consumer.stream
        if stream is None or grad is None:
            buffer.add(input_nr, grad, (producer, edge), in_place)
            return
        is_first = (consumer, input_nr) not in self._arrived
        self._arrive(producer, consumer, input_nr)
        if is_first:
            buffer.add(input_nr, grad, (producer, edge), in_place)
            return
        self._wait(stream, self._events.get(consumer, {}).pop(input_nr, []))
        with stream:
            buffer.add(input_nr, grad, (producer, edge), in_place)

    def begin(self, node: Node) -> None:
        """Let the node's stream wait for what the node takes; called just before the node runs."""
        events = self._events.pop(node, None)
        if events is not None:
            for waited in events.values():
                self._wait(node.stream, waited)
        if node.order == LEAF_ORDER and node.device in self._from_elsewhere:
            self._wait(node.stream, [self._from_elsewhere[node.device]])

    def leave(self, node: Node) -> None:
        """Note that a gradient ends at `node`: it is a leaf, or captures."""
        stream = node.stream
        if stream is not None:
            self.leaves.add(stream)

    def finish(self) -> None:
        """Let the caller's current streams wait for the leaves' streams."""
        for stream in self.leaves:
            current = self._of_caller(stream.device)
            if current is not stream:
                current.wait_event(stream.record_event())

    def abandon(self) -> None:
        """Do as much of what `finish` does as can be done, since the backward has failed, maybe with its device."""
        for stream in self.leaves:
            with suppress(DeviceError):
                self._of_caller(stream.device).wait_stream(stream)

    def return_to_caller(self) -> None:
        """Let the caller's streams be the current ones of this context again, for final callbacks."""
        if self._caller:
            enter_streams(self._caller)

    def _of_caller(self, device: Any) -> Any:
        return self._caller.get(device) or device.default_stream()

    def _arrive(self, producer: Node | None, consumer: Node, input_nr: int, on_default: bool = False) -> None:
        stream = consumer.stream
        if stream is None:
            return
        self._arrived.add((consumer, input_nr))
        device = consumer.device
        if producer is None or isinstance(producer, GraphRoot):
            source = self._of_caller(device)
        elif on_default or producer.device is not device:
            # What moves an array here from another device runs on the stream that is current here.
            source = device.default_stream()
        else:
            source = producer.stream or device.default_stream()
        # What calls compute is there when they have returned, and those on no stream are in no order with anything.
        if source is not stream and (device.is_asynchronous or source.index):
            self._events.setdefault(consumer, {}).setdefault(input_nr, []).append(source.record_event())

    @staticmethod
    def _wait(stream: Any, events: list[Event]) -> None:
        for event in events:
            stream.wait_event(event)
