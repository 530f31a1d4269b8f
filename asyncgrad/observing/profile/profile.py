"""`ag.profile`: records what a block does, and shows it as records, a table, a trace and the critical path."""

from __future__ import annotations

import os
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any, Never, final

from ...core.engine.loops import loop_is_running
from ...core.graph.html import panel
from ...core.settings.arguments import describe, must_be, truth
from ...core.settings.elsewhere import PROFILE_ATTRIBUTES, hint_at
from ...core.settings.observers import CALLS, DEVICE_WORK, NEW_NODES, OPTIMIZER_STEPS, PROGRAMS, STEPS, Observers
from ...errors import ArgumentTypeError, DeviceError, ProfileError
from .critical_path import CriticalPath, critical_path
from .device_work import DeviceSpan
from .events import ProfileEvent, Record, read
from .recording import Recorder
from .table import make_html, make_table
from .trace import make_trace

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from types import TracebackType
    from typing import Self

    from ...core.settings.scheduling import Clock

__all__ = ["profile"]

#: How many lines of its table a notebook shows.
_LINES = 20


@final
class profile:
    """Inside, each operation that is recorded, and each run of a node in a backward, is noted, with when and where.

    A `with` or `async with` block. It holds for the current context and for the tasks that are made inside; blocks may
    be nested, and each sees everything. After the block, `events`, `table()`, `export_chrome_trace(path)` and
    `critical_path()` show what it has seen. Without such a block nothing is noted and nothing is slower. Inside,
    compiled autograd does not compile: the engine runs each node, so that it can be seen.

    Args:
        whole_process: whether to see what all contexts and threads of the process do.
        clock: returns the time in seconds; None is `time.perf_counter`. Give `loop.time` for a loop in virtual time.

    Raises:
        ArgumentTypeError: `whole_process` is no bool, or `clock` cannot be called.
        ProfileError: the block is entered a second time.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
        >>> with ag.profile() as prof:
        ...     ag.sync.backward((x * x).sum())
        >>> [(event.kind, event.name) for event in prof.events][:3]
        [('forward', 'multiply'), ('forward', 'sum'), ('backward', 'SumBackward')]
    """

    __slots__ = ("_is_entered", "_record", "_recorder", "_whole_process")

    def __init__(self, *given: Never, whole_process: bool = False, clock: Clock | None = None) -> None:
        if given:
            raise ArgumentTypeError(
                f"ag.profile takes no {describe(given[0])}: it records what runs in a block, so write "
                "with ag.profile() as prof: around it, and prof.table() after it"
            )
        self._whole_process = truth(whole_process, "whole_process")
        if clock is not None and not callable(clock):
            raise ArgumentTypeError(must_be("clock", "a function that returns seconds", clock))
        self._recorder = Recorder(clock or perf_counter)
        self._is_entered = False
        self._record: Record | None = None

    def __enter__(self) -> Self:
        if self._is_entered:
            raise ProfileError("this profile has been used: write with ag.profile() as prof: for each block")
        self._is_entered = True
        recorder = self._recorder
        recorder.open()
        for observers, observer in _observers(recorder):
            observers.put(observer, self._whole_process)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        recorder = self._recorder
        if not recorder.is_open:
            raise ProfileError("this profile does not record: its with block has ended, or has not begun")
        recorder.close()
        for observers, observer in reversed(_observers(recorder)):
            observers.take(observer, self._whole_process)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.__exit__(kind, error, trace)
        if error is None:
            # A device that has failed is left out.
            with suppress(DeviceError):
                await self._recorder.work.synchronize()

    def synchronize(self) -> Awaitable[None]:
        """Wait until asynchronous devices have done what this profile has seen the host launch on them.

        In a thread with a running event loop it must be awaited, `await prof.synchronize()`, and suspends. In any other
        thread it blocks, and needs no await. `async with ag.profile()` does it at its end.

        Raises:
            ProfileError: the block has not ended.
            DeviceError: a device has failed.
        """
        self._must_have_ended("synchronize()")
        return self._recorder.work.synchronize()

    @property
    def events(self) -> tuple[ProfileEvent, ...]:
        """What happened, in the order in which it ended: one ProfileEvent for each call and each run of a node.

        Raises:
            ProfileError: the block has not ended, or a device has not done its work.
        """
        return self._read("events").events

    @property
    def device_spans(self) -> tuple[DeviceSpan, ...]:
        """What asynchronous devices did, in the order in which they began: one DeviceSpan for each piece of work.

        Those are calls of functions, runs of nodes, copies from and to the host, and steps of optimizers.

        Raises:
            ProfileError: the block has not ended, or a device has not done its work.
        """
        return self._read("device_spans").device_spans

    def table(self, sort_by: str = "total", *, limit: int | None = None) -> str:
        """Return a table of what took how long, one line for each name and kind.

        Args:
            sort_by: the column that comes first: "name", "kind", "count", "total", "mean", "longest", "waited",
                "share", "flops", "bytes", "device" or "kernels". The largest comes first, and names in their order.
            limit: how many lines to show; None shows all.

        Raises:
            ProfileError: the block has not ended, or a device has not done its work.
            ArgumentError: there is no such column, or `limit` is below 1.
        """
        record = self._read("table()")
        return make_table(record.events, record.device_spans, sort_by, limit)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the trace that https://ui.perfetto.dev and chrome://tracing open, in the trace event format (JSON).

        Raises:
            ProfileError: the block has not ended, or a device has not done its work.
            ArgumentTypeError: `path` is no path.
            OSError: the file cannot be written. The profile is as it was, and can be written elsewhere.
        """
        if not isinstance(path, (str, os.PathLike)):
            raise ArgumentTypeError(must_be("path", "the path of a file", path))
        text = make_trace(self._read("export_chrome_trace()"))
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123  # a path of any kind
            file.write(text)

    def critical_path(self, graph_task_id: int | None = None) -> CriticalPath:
        """Return the nodes that decided how long a backward took: CriticalNodes in the order in which they ran.

        It is printed as a table, with the line of each node, its time and its share.
        It is the time of the host: of work on an asynchronous device, that of its launch.

        Args:
            graph_task_id: which backward; None for the one that took longest.

        Raises:
            ProfileError: the block has not ended, or has seen no such backward.
        """
        return critical_path(self._read_host("critical_path()"), graph_task_id)

    def _must_have_ended(self, what: str) -> None:
        if not self._is_entered:
            raise ProfileError(f"this profile has recorded nothing: read {what} after with ag.profile() as prof:")
        if self._recorder.is_open:
            raise ProfileError(f"this profile is still recording: read {what} after the end of its with block")

    def _read(self, what: str) -> Record:
        self._must_have_ended(what)
        if self._record is None:
            work = self._recorder.work
            if pending := work.pending():
                if loop_is_running():
                    names = ", ".join(sorted({f"'{event.stream.device}'" for event in pending}))
                    raise ProfileError(
                        f"{names} has not done yet what this profile has seen, and to wait for that would block the "
                        f"event loop: write await prof.synchronize() before {what}, or async with ag.profile() as prof:"
                    )
                work.block()
            self._record = read(self._recorder, with_devices=True)
            work.clear()
        return self._record

    def _read_host(self, what: str) -> Record:
        """Return the record; without what devices do if they have not done it yet."""
        self._must_have_ended(what)
        if self._record is None and self._recorder.work.pending():
            return read(self._recorder, with_devices=False)
        return self._read(what)

    def __repr__(self) -> str:
        return f"<profile, {self._state()}>"

    def _repr_html_(self) -> str:
        text = ""
        if self._is_entered and not self._recorder.is_open:
            record = self._read_host("")
            text = make_html(record.events, record.device_spans, _LINES)
        return panel("profile", text, self._state())

    def _state(self) -> str:
        if not self._is_entered or self._recorder.is_open:
            return "recording" if self._is_entered else "not begun"
        events = self._read_host("").events
        backwards = len({event.graph_task_id for event in events if event.kind == "backward"})
        waits = "" if self._record is not None else ", without devices that are at work: await prof.synchronize()"
        return f"{len(events):,} events, {backwards:,} backward {'pass' if backwards == 1 else 'passes'}{waits}"


hint_at(profile, PROFILE_ATTRIBUTES)


def _observers(recorder: Recorder) -> tuple[tuple[Observers[Any], Any], ...]:
    """Return what a profile consists of, each with the list that it is put into."""
    return (
        *((NEW_NODES, recorder), (STEPS, recorder), (STEPS, recorder.work)),
        *((DEVICE_WORK, recorder.work), (PROGRAMS, recorder), (OPTIMIZER_STEPS, recorder), (CALLS, recorder)),
    )
