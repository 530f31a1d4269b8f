"""The critical path of a backward: the longest chain of work and waits, each of which had to end before the next began.

Each run of a node is a chain of parts, in turn work in a thread and a wait. Three things make a part begin only after
another: a gradient that has to arrive, a thread that was busy with the other when it could have begun, and a device
that runs no more bodies at a time. The length of the longest path is the time that the backward takes if nothing else
delays it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, NamedTuple, final

from ...core.graph.html import table
from ...errors import ProfileError
from .columns import columns_of_text, short_line

if TYPE_CHECKING:
    from .events import BackwardSpan, ProfileEvent, Record

__all__ = ["CriticalNode", "CriticalPath", "critical_path"]

#: How many nodes of a path are shown: those with the most time, in the order in which they ran.
_SHOWN = 40
_HEADS = ("node", "line", "own time, µs", "share, %", "gain, µs", "waited, µs", "waited for")


class CriticalNode(NamedTuple):
    """A node on the critical path of a backward.

    Attributes:
        node: the event of its run.
        own_time: the nanoseconds that it takes of the path, its waits included.
        gain: by how many nanoseconds the path would be shorter if the node took no time.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
        >>> with ag.profile() as prof:
        ...     ag.sync.backward(np.tanh(x).sum())
        >>> [step.node.name for step in prof.critical_path()]
        ['SumBackward', 'TanhBackward', 'AccumulateGrad']
    """

    node: ProfileEvent
    own_time: int
    gain: int


@final
class CriticalPath(list[CriticalNode]):
    """The nodes on the critical path of a backward, in the order in which they ran: a list, printed as a table.

    The table has for each node its line of the forward, its own time and its share of the path, its gain, how long it
    was suspended in all, and what for, if that has a name. Of a long path it has the 40 nodes with the most time.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
        >>> with ag.profile() as prof:
        ...     ag.sync.backward(np.tanh(x).sum())
        >>> print(prof.critical_path())  # doctest: +ELLIPSIS
        node            line  own time, µs  share, %  gain, µs  waited, µs  waited for
        --------------  ...
        SumBackward     ...
        TanhBackward    ...
        AccumulateGrad  ...
        3 nodes: ... µs
    """

    __slots__ = ()

    @property
    def length(self) -> int:
        """The nanoseconds that the path takes."""
        return sum(step.own_time for step in self)

    def _rows(self) -> list[tuple[str, ...]]:
        most = sorted(range(len(self)), key=lambda index: -self[index].own_time)[:_SHOWN]
        return [self._row(self[index]) for index in sorted(most)]

    def _row(self, step: CriticalNode) -> tuple[str, ...]:
        event = step.node
        share = 100 * step.own_time / self.length if self.length else 0.0
        return (
            event.name,
            short_line(event.line),
            f"{step.own_time / 1e3:,.1f}",
            f"{share:.1f}",
            f"{step.gain / 1e3:,.1f}",
            f"{event.waited / 1e3:,.1f}",
            "; ".join(event.waited_for),
        )

    def _summary(self) -> str:
        rest = len(self) - _SHOWN
        more = f", of which the {rest:,} with the least time are not shown" if rest > 0 else ""
        return f"{len(self):,} {'node' if len(self) == 1 else 'nodes'}: {self.length / 1e3:,.1f} µs{more}"

    def __repr__(self) -> str:
        return "\n".join([*columns_of_text([_HEADS, *self._rows()], {2, 3, 4, 5}), self._summary()])

    def _repr_html_(self) -> str:
        return table(_HEADS, self._rows(), range(2, 6)) + f"<div>{self._summary()}</div>"


class _Part(NamedTuple):
    """A stretch of work in a thread, or of waiting, of one run."""

    event: int
    began: int
    ended: int
    #: The thread that works; None for a wait.
    thread: int | str | None
    #: When it could have begun had its thread been free.
    ready: int
    #: Whether it waits for its turn: on a worker thread, or on a device with a limit.
    is_queued: bool = False


def critical_path(record: Record, graph_task_id: int | None) -> CriticalPath:
    """Return the nodes on the critical path: see `profile.critical_path`."""
    chosen = _choose(record.spans, graph_task_id)
    indices = [
        index
        for index, event in enumerate(record.events)
        if event.kind == "backward" and event.graph_task_id == chosen and event.ended is not None
    ]
    if not indices:
        raise ProfileError(f"no node of backward {chosen} has ended while this profile recorded")
    network = _Network(record, indices)
    return CriticalPath(
        CriticalNode(record.events[index], own_time, network.gain(index))
        for index, own_time in network.longest_path().items()
    )


def _choose(spans: Sequence[BackwardSpan], graph_task_id: int | None) -> int:
    ended = {span.id: span for span in spans if span.ended is not None}
    if graph_task_id is None:
        if not ended:
            raise ProfileError("this profile has seen no backward end: run one to its end inside its with block")
        return max(ended.values(), key=lambda span: (span.ended or 0) - span.began).id
    if graph_task_id not in ended:
        known = ", ".join(map(str, ended)) or "none"
        raise ProfileError(f"this profile has seen no backward {graph_task_id!r} end: those that have are {known}")
    return graph_task_id


@final
class _Network:
    """The parts of the runs of one backward in a topological order, and which of them wait for which."""

    def __init__(self, record: Record, indices: Sequence[int]) -> None:
        self._parts: list[_Part] = []
        #: For each event, its parts in their order, as numbers of `_parts`.
        self._parts_of: dict[int, list[int]] = {}
        for index in indices:
            parts = _split(index, record.events[index])
            self._parts_of[index] = list(range(len(self._parts), len(self._parts) + len(parts)))
            self._parts += parts
        self._before: list[set[int]] = [set() for _ in self._parts]
        self._connect(record)
        #: Parts that wait for their turn, and only as long as another part takes.
        explained = self._connect_queued(record)
        self._order = self._sort()
        self._place = {part: place for place, part in enumerate(self._order)}
        self._weights = [
            0 if number in explained else part.ended - part.began for number, part in enumerate(self._parts)
        ]
        #: The length of the longest path that ends with each part, and of that which begins with it.
        self._heads = self._lengths(self._weights)
        self._tails = self._lengths_backwards()
        self.length = max(self._heads)
        self._detours = self._find_detours()

    def _connect(self, record: Record) -> None:
        for index, parts in self._parts_of.items():
            for earlier, later in pairwise(parts):
                self._before[later].add(earlier)
            for producer in record.producers[index]:
                if producer in self._parts_of:
                    self._before[parts[0]].add(self._parts_of[producer][-1])
        by_thread: dict[int | str, list[int]] = {}
        for number, part in enumerate(self._parts):
            if part.thread is not None:
                by_thread.setdefault(part.thread, []).append(number)
        for numbers in by_thread.values():
            self._connect_in_thread(sorted(numbers, key=lambda number: self._parts[number].began))

    def _connect_in_thread(self, numbers: Sequence[int]) -> None:
        """Let parts that were ready wait for the one before in their thread; `numbers` are in their order there."""
        latest: int | None = None
        for began, group in groupby(numbers, key=lambda number: self._parts[number].began):
            # Those that begin at one time have no order: one that takes no time does not delay the others.
            together = list(group)
            if latest is not None and self._parts[latest].ended <= began:
                for number in together:
                    if self._parts[number].ready < self._parts[latest].ended:
                        self._before[number].add(latest)
            longest = max(together, key=lambda number: self._parts[number].ended)
            if latest is None or self._parts[longest].ended >= self._parts[latest].ended:
                latest = longest

    def _connect_queued(self, record: Record) -> set[int]:
        """Let what waits for its turn wait for the run before; return the parts that did only that."""
        explained, admitted = set(), dict[str | None, list[int]]()
        for number, part in enumerate(self._parts):
            # That of a worker thread waits already for the one before on the thread.
            if part.is_queued and any(self._parts[earlier].event != part.event for earlier in self._before[number + 1]):
                explained.add(number)
        limited = [
            (event.ended or 0, event.admitted, index)
            for index in self._parts_of
            if (event := record.events[index]).admitted is not None
        ]
        # In the order in which they ended; of those that ended at one time, one that took no time comes last.
        for _, _, index in sorted(limited):
            event = record.events[index]
            assert event.admitted is not None
            before = admitted.setdefault(event.device, [])
            queued = [one for one in self._parts_of[index] if self._parts[one].is_queued and one not in explained]
            last = next((one for one in reversed(before) if (record.events[one].ended or 0) <= event.admitted), None)
            for number in queued:
                if last is not None and (record.events[last].ended or 0) > self._parts[number].began:
                    self._before[number + 1].add(self._parts_of[last][-1])
                    explained.add(number)
            before.append(index)
        return explained

    def _sort(self) -> list[int]:
        """Return the parts so that each comes after those that it waits for."""
        after: list[list[int]] = [[] for _ in self._parts]
        waiting = [len(before) for before in self._before]
        for number, before in enumerate(self._before):
            for earlier in before:
                after[earlier].append(number)
        ready = [(self._parts[number].began, number) for number, count in enumerate(waiting) if not count]
        ready.sort()
        order = []
        while ready:
            _, number = heappop(ready)
            order.append(number)
            for later in after[number]:
                waiting[later] -= 1
                if not waiting[later]:
                    heappush(ready, (self._parts[later].began, later))
        self._after = after
        return order

    def _lengths(self, weights: Sequence[int]) -> list[int]:
        heads = [0] * len(self._parts)
        for number in self._order:
            heads[number] = weights[number] + max((heads[earlier] for earlier in self._before[number]), default=0)
        return heads

    def _lengths_backwards(self) -> list[int]:
        tails = [0] * len(self._parts)
        for number in reversed(self._order):
            tails[number] = self._weights[number] + max((tails[later] for later in self._after[number]), default=0)
        return tails

    def longest_path(self) -> dict[int, int]:
        """Return the events on the longest path, in their order, each with its share of it."""
        number: int | None = max(self._order, key=lambda one: (self._heads[one], one))
        path = []
        while number is not None:
            path.append(number)
            number = max(self._before[number], key=lambda one: (self._heads[one], one), default=None)
        shares: dict[int, int] = {}
        for one in reversed(path):
            event = self._parts[one].event
            shares[event] = shares.get(event, 0) + self._weights[one]
        return shares

    def gain(self, event: int) -> int:
        """Return by how much the longest path is shorter if a run takes no time."""
        parts = self._parts_of[event]
        if len(parts) == 1:
            number = parts[0]
            return min(self._weights[number], self.length - self._detours[self._place[number]])
        weights = list(self._weights)
        for number in parts:
            weights[number] = 0
        return self.length - max(self._lengths(weights))

    def _find_detours(self) -> list[int]:
        """Return, for each place in the order, the length of the longest path that has nothing there.

        Such a path has one step from an earlier to a later place, or ends before it, or begins after it.
        """
        count = len(self._order)
        detours = [0] * count
        longest = 0
        for place, number in enumerate(self._order):
            detours[place] = longest
            if not self._after[number]:
                longest = max(longest, self._heads[number])
        longest = 0
        for place in reversed(range(count)):
            number = self._order[place]
            detours[place] = max(detours[place], longest)
            if not self._before[number]:
                longest = max(longest, self._tails[number])
        #: The steps over the current place, the longest path through one first.
        steps: list[tuple[int, int]] = []
        for place, number in enumerate(self._order):
            while steps and steps[0][1] <= place:
                heappop(steps)
            if steps:
                detours[place] = max(detours[place], -steps[0][0])
            for later in self._after[number]:
                heappush(steps, (-self._heads[number] - self._tails[later], self._place[later]))
        return detours


def _split(index: int, event: ProfileEvent) -> list[_Part]:
    """Return the parts of a run: work, then in turn a wait and work."""
    assert event.began is not None
    assert event.ended is not None
    parts, began, ready = [], event.began, event.began if event.ready is None else event.ready
    for here, there in zip(event.suspended, (*event.resumed, event.ended), strict=False):
        parts.append(_Part(index, began, here, event.thread_id, ready))
        parts += _wait(index, event, here, there)
        # When what it waited for has come is not known, only when it went on.
        began = ready = there
    if len(event.suspended) <= len(event.resumed):
        parts.append(_Part(index, began, event.ended, event.thread_id, ready))
    return parts


def _wait(index: int, event: ProfileEvent, here: int, there: int) -> Iterator[_Part]:
    """Yield the parts of a wait: for its turn, the work of a worker thread, and for all else."""
    if event.admitted is not None and here < event.admitted <= there:
        yield _Part(index, here, event.admitted, None, here, is_queued=True)
        here = event.admitted
    began, ended = event.worker_began, event.worker_ended
    if began is not None and ended is not None and here <= began and ended <= there:
        yield _Part(index, here, began, None, here, is_queued=True)
        yield _Part(index, began, ended, event.worker, here)
        here = ended
    yield _Part(index, here, there, None, here)
