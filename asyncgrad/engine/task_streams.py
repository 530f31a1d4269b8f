"""TaskStreams: how one backward orders work between streams, where there are any.

A gradient that one stream has computed and another reads is handed on with an event. As in PyTorch, nobody waits before
the value is needed: to be added to another one, or by the node that takes it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, final

from ..context import CURRENT_STREAMS
from ..errors import DeviceError
from ..graph.leaf import GraphRoot
from ..graph.node import LEAF_ORDER
from .streams import Stream, enter_streams

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..graph.node import Node
    from .input_buffer import InputBuffer
    from .streams import Event

__all__ = ["TaskStreams"]


@final
class TaskStreams:
    """What has been computed on which stream in one backward.

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
        if root.special is None:
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
