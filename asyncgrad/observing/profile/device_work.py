"""What the streams of devices did, and when: recorded by events with the time, which are read once the work is done.

An event tells no more than its distance from another event of its device. So each device gets an event, the origin,
when the profile first sees it, and its clock is set against that of the host by the work that began soonest after its
launch: what a device does cannot begin before the host has asked for it.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from math import inf
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple, final

from ...core.arrays.device_work import recorders_in_use
from ...core.engine.device import Device
from ...core.engine.streams import DONE
from ...core.function.function import FunctionNode
from ...core.graph.node import LEAF_ORDER
from ...core.settings.observers import StepObserver
from ...errors import DeviceError

if TYPE_CHECKING:
    from ...core.settings.scheduling import Clock

__all__ = ["DeviceRecorder", "DeviceSpan", "Work"]

#: The milliseconds between two events from which on a later one is measured from: a distance is a float32.
_LONG = 1000.0


class DeviceSpan(NamedTuple):
    """A piece of work that a device did on one of its streams.

    Times are in nanoseconds of the profile's clock, that of the host.

    Attributes:
        kind: "forward", "backward", "copy" or "optimizer".
        name: of the function, of the node, or of what else was done.
        device: the name of the device.
        stream: the name of the stream, such as "stream 1", "default stream" or "copies to the device".
        launched: when the host began to put it on the stream.
        returned: when the host had done so.
        began: when the device began. A device without other work has begun when the host launched the work, and waits.
        ended: when the device had done it.
        bytes: how many bytes a copy has copied; None for other work.
        kernels: how many kernels were launched meanwhile, as far as the device counts them; None where it does not.
        thread_id: the id of the thread that launched it.
        event: the index in `prof.events` of the call or the run that it belongs to; None for what has none.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> from asyncgrad.testing import SimulatedAccelerator
        >>> accelerator = SimulatedAccelerator()
        >>> with ag.profile() as prof:
        ...     x = ag.tensor([1.0, 2.0], device=accelerator, requires_grad=True)
        ...     ag.sync.backward(np.tanh(x).sum())
        >>> [(span.kind, span.name) for span in prof.device_spans][:4]
        [('copy', 'copy to the device'), ('forward', 'tanh'), ('forward', 'sum'), ('backward', 'SumBackward')]
    """

    kind: str
    name: str
    device: str
    stream: str
    launched: int
    returned: int
    began: int
    ended: int
    bytes: int | None
    kernels: int | None
    thread_id: int
    event: int | None = None

    @property
    def duration(self) -> int:
        """Nanoseconds from the beginning to the end."""
        return self.ended - self.began


@final
class Work:
    """A piece of work whose end may have been recorded."""

    __slots__ = (
        "after",
        "begin",
        "end",
        "kernels",
        "key",
        "kind",
        "launched",
        "name",
        "returned",
        "size",
        "stream",
        "thread",
    )

    def __init__(self, name: str, kind: str, stream: Any, size: int | None, key: Any) -> None:
        self.name: str = name
        self.kind: str = kind
        self.stream: Any = stream
        self.size: int | None = size
        #: Of a run, the id of the backward, and the order and the id of the node; of a call of a Function, the order of
        #: its node. None for a call of another function, which is told by `after`.
        self.key: Any = key
        self.thread: int = get_ident()
        self.end: int | None = None

    # Set where it begins, and where it ends.

    launched: float
    returned: float
    #: The number, in the list of the stream, of the event before it; `end` is that of the event after it.
    begin: int
    #: How many kernels had been launched before it; then, in it.
    kernels: int | None
    #: How many entries the recorder's lists of calls had when it ended.
    after: tuple[int, int]


@final
class _Lane:
    """What is recorded on one stream.

    Args:
        stream: the stream.
    """

    __slots__ = ("count", "events", "record")

    def __init__(self, stream: Any) -> None:
        #: In the order of the stream.
        self.events: list[Any] = []
        # Bound once, since each operation calls them twice.
        self.record: Callable[..., Any] = stream.record_event
        self.count: Callable[[], int | None] = stream.device.kernels_launched


@final
class DeviceRecorder:
    """Records what one profile sees of the work of devices.

    Args:
        clock: returns the time in seconds.
        is_open: a list of one, whether the profile is recording.
        recorded: the lists of the calls of functions that have been recorded.
    """

    __slots__ = ("_calls", "_clock", "_is_open", "_lanes", "_lock", "_origins", "_recorded", "works")

    def __init__(self, clock: Clock, is_open: list[bool], recorded: tuple[list[Any], list[Any]]) -> None:
        self._clock = clock
        self._is_open = is_open
        self._recorded = recorded
        #: In the order in which it began on the host.
        self.works: list[Work] = []
        #: By device, the time of the host just before its origin, and that event.
        self._origins: dict[Any, tuple[float, Any]] = {}
        self._lanes: dict[Any, _Lane] = {}
        #: The calls of Functions that have begun and not ended, by the id of their node.
        self._calls: dict[int, Work] = {}
        #: The order in the list of a stream is that in which events were recorded there.
        self._lock = threading.Lock()

    # As a WorkRecorder.

    def begins(self, name: str, kind: str, stream: Any, size: int | None = None, key: Any = None) -> Work | None:
        """Record an event before work; return the work. None where there is none to record: the device has failed."""
        if not self._is_open[0]:
            return None
        work = Work(name, kind, stream, size, key)
        try:
            lane = self._lanes.get(stream) or self._add_lane(stream)
            work.kernels = lane.count()
            work.launched = self._clock()
            with self._lock:
                work.begin = len(lane.events)
                lane.events.append(lane.record(enable_timing=True))
        except DeviceError:
            # The operation that follows says so.
            return None
        self.works.append(work)
        return work

    def ends(self, work: Work | None) -> None:
        """Record an event after work."""
        if work is None or not self._is_open[0]:
            return
        lane = self._lanes[work.stream]
        try:
            with self._lock:
                end = len(lane.events)
                lane.events.append(lane.record(enable_timing=True))
        except DeviceError:
            return
        work.returned = self._clock()
        launched = lane.count()
        work.kernels = None if launched is None or work.kernels is None else launched - work.kernels
        plain_calls, calls = self._recorded
        work.after = len(plain_calls), len(calls)
        work.end = end

    def _add_lane(self, stream: Any) -> _Lane:
        device = stream.device
        with self._lock:
            if device not in self._origins:
                # Copies need little of a device: the event is not held up by the computation that is queued there.
                quiet = (*device.copy_streams, stream)[0]
                now = self._clock()
                self._origins[device] = now, quiet.record_event(enable_timing=True)
            return self._lanes.setdefault(stream, _Lane(stream))

    # Calls of Functions: see Recorder.

    def note(self, node: Any) -> None:
        """Begin with the call of a Function; one that may suspend is left out, since other work comes between."""
        if isinstance(node, FunctionNode) and isinstance(node.device, Device) and node.device.has_timing:
            function = node.function
            if not any(map(inspect.iscoroutinefunction, (function.forward, function.setup_context))):
                work = self.begins(function.__name__, "forward", node.device.current_stream(), key=node.order)
                if work is not None:
                    self._calls[id(node)] = work

    def announce(self, node: Any) -> None:
        """End with the call of a Function."""
        self.ends(self._calls.pop(id(node), None))

    # As an Instrument.

    def backward_begins(self, graph_task: Any) -> StepObserver | None:
        """Return what records the nodes of a backward, while there is a device whose work can be recorded."""
        return _DeviceSteps(self, graph_task.id) if recorders_in_use[0] and self._is_open[0] else None

    # Reading.

    def pending(self) -> list[Any]:
        """Return the last events of the streams, as far as they have not completed."""
        last = [lane.events[-1] for lane in list(self._lanes.values()) if lane.events]
        return [event for event in last if not _has_passed(event)]

    def synchronize(self) -> Awaitable[None]:
        """Wait until all work that has been recorded is done; awaited where an event loop runs in this thread."""
        waits = [wait for event in self.pending() if (wait := event.synchronize()) is not DONE]
        return _await_all(waits) if waits else DONE

    def block(self) -> None:
        """Block until all work that has been recorded is done, in a thread without an event loop."""
        for event in self.pending():
            with suppress(DeviceError):
                _ = event.synchronize()

    def spans(self) -> list[tuple[Work, DeviceSpan]]:
        """Return what has been done, in the order in which it was launched; of a device that has failed nothing."""
        times, failed = dict[Any, list[float]](), set()
        for stream, lane in self._lanes.items():
            try:
                times[stream] = _measure(lane.events, self._origins[stream.device][1])
            except DeviceError:
                failed.add(stream.device)
        whole = [
            (work, times[work.stream][work.begin], times[work.stream][work.end])
            for work in self.works
            if work.end is not None and work.stream.device not in failed
        ]
        offsets = self._offsets(whole)
        return [(work, _span(work, offsets[work.stream.device], begin, end)) for work, begin, end in whole]

    def clear(self) -> None:
        """Drop the events, which have been read."""
        self.works, self._lanes, self._origins = [], {}, {}

    def _offsets(self, works: Iterable[tuple[Work, float, float]]) -> dict[Any, float]:
        """Return for each device the host's time at its origin; takes works with the milliseconds of begin and end."""
        found = {device: time for device, (time, _) in self._origins.items()}
        for work, begin, _ in works:
            device = work.stream.device
            found[device] = max(found[device], work.launched - begin / 1e3)
        return found


@final
class _DeviceSteps(StepObserver):
    """Records when devices run the nodes of one backward; of a node that suspends, each part by itself.

    Args:
        recorder: keeps what is recorded.
        graph_task_id: the id of the backward.
    """

    __slots__ = ("_graph_task_id", "_recorder")

    def __init__(self, recorder: DeviceRecorder, graph_task_id: int) -> None:
        self._recorder = recorder
        self._graph_task_id = graph_task_id

    def begins(self, node: Any, grads: Sequence[Any]) -> Any:
        """Begin with a node."""
        if not isinstance(node.device, Device) or not node.device.has_timing:
            return None
        token = [node, None]
        self.resumes(token)
        return token

    def suspends(self, token: Any) -> None:
        """End with a part of a node."""
        if token is not None:
            self._recorder.ends(token[1])
            token[1] = None

    def resumes(self, token: Any) -> None:
        """Begin with a part of a node."""
        if token is not None:
            node = token[0]
            key = self._graph_task_id, node.order, id(node)
            token[1] = self._recorder.begins(node.name, "backward", node.stream, key=key)

    def ends(self, token: Any, outputs: Sequence[Any] | None, error: BaseException | None) -> None:
        """End with a node; one that only captures has not run."""
        if token is not None and (outputs is not None or error is not None or token[0].order == LEAF_ORDER):
            self.suspends(token)


def _has_passed(event: Any) -> bool:
    try:
        return bool(event.query())
    except DeviceError:
        # Nobody needs to wait for a device that has failed.
        return True


async def _await_all(waits: Iterable[Awaitable[None]]) -> None:
    for wait in waits:
        await wait


def _measure(events: Iterable[Any], origin: Any) -> list[float]:
    """Return the milliseconds from the origin of a device to each event of one of its streams.

    Raises:
        DeviceError: the device has failed.
    """
    times = []
    base, anchor, last = 0.0, origin, -inf
    for event in events:
        distance = anchor.elapsed_time(event)
        # The order is certain, and the last digit is not.
        last = max(base + distance, last)
        times.append(last)
        if distance > _LONG:
            base, anchor = base + distance, event
    return times


def _span(work: Work, offset: float, begin: float, end: float) -> DeviceSpan:
    launched = round(work.launched * 1e9)
    # Rounding must not move it before its launch.
    began = max(launched, round(offset * 1e9 + begin * 1e6))
    return DeviceSpan(
        work.kind,
        work.name,
        str(work.stream.device),
        work.stream.label,
        launched,
        round(work.returned * 1e9),
        began,
        max(began, round(offset * 1e9 + end * 1e6)),
        work.size,
        work.kernels,
        work.thread,
    )
