"""ProfileEvent: the record of one forward call, or of one run of a node in a backward; made of what a Recorder has."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple, final

from ...core.graph.node import MAIN_THREAD
from ...core.recording.plan import Plan
from .costs import backward_flops, bytes_of, forward_flops, operand_specs
from .recording import (
    BEGIN,
    PLAIN_CALL,
    TIMED_CALL,
    BackwardRecord,
    ForwardCall,
    NodeFacts,
    NodeRun,
    OptimizerRun,
    ProgramRun,
    Recorder,
    Spec,
)

if TYPE_CHECKING:
    from .device_work import DeviceSpan, Work
    from .recording import WorkerRun

__all__ = ["BackwardSpan", "ProfileEvent", "Record", "read"]


@final
class ProfileEvent(NamedTuple):
    """One forward call, or one run of a node in a backward. Times are in nanoseconds of a clock that never goes back.

    Attributes:
        kind: "forward" or "backward"; "optimizer" for a step of an optimizer; "program" for a run of the program of a
            compiled function, and "part" for a kernel or another part of it, which is within it.
        name: of the node, as in MultiplyBackward; of the function, for a forward call.
        sequence_nr: of the node, and so of the forward call that made it; None for the node of a leaf.
        node_id: tells the node from all others that lived at the same time.
        input_shapes: of the arguments that require grad, or of the gradients that the node got; None where unknown.
        input_dtypes: of the same arrays.
        output_shapes: of the results, or of the gradients that the node returned; None where there is none.
        output_dtypes: of the same arrays.
        flops: how many operations it takes; None where that is not known.
        bytes: how many bytes those inputs and outputs have; None where that is not known.
        ready: when the node had all its gradients; None for a forward call.
        began: when it began; None for a forward call of which only the end is known. Of a NumPy function it is the call
            of NumPy alone, and of an optimizer what follows the closure that it was given.
        suspended: when it began to wait, each time; an optimizer that calls its closure again waits for that.
        resumed: when it went on, each time.
        ended: when it ended; None if it had not when the events were read.
        status: "done", "failed", "cancelled" or "running".
        loop: the event loop of the thread in which it began; None where there was none.
        thread: the name of that thread.
        thread_id: the id of that thread.
        worker: the name of the worker thread that ran the body, or the address of the process, for a stage of
            `ag.distributed`; None where none did.
        worker_began: when that thread began with the body; of a process an estimate.
        worker_ended: when that thread had done it.
        device: the name of the device.
        stream: the stream that the node was made on; None for the default stream.
        graph_task_id: of the backward; None for a forward call.
        parent_graph_task_id: of the backward inside of which that one runs.
        reentrant_depth: inside of how many backward passes that is.
        forward_sequence_nr: of the forward call that made the node, if this profile has recorded it.
        line: the file and line of the forward call, as in `model.py:12`; None if it was not recorded.
        admitted: when its body could begin on a device that limits how many do at a time; None on any other device.
        device_began: when an asynchronous device began with its work; None for any other device. The times above are
            then those of the host, which launched the work.
        device_ended: when the device had done it.
        device_time: the nanoseconds that it took the device: without the waits of a node that suspends.
        kernels: how many kernels were launched, as far as the device counts them; None where it does not.
        waited_for: what its body has waited for that has a name, as in `limit 'solver', 3 before it`.
        program: the name of the compiled function whose program has run; None for all else.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
        >>> with ag.profile() as prof:
        ...     ag.sync.backward(np.tanh(x).sum())
        >>> [event.name for event in prof.events if event.kind == "backward"]
        ['SumBackward', 'TanhBackward', 'AccumulateGrad']
    """

    kind: str
    name: str
    sequence_nr: int | None
    node_id: int
    input_shapes: tuple[tuple[int, ...] | None, ...]
    input_dtypes: tuple[Any, ...]
    output_shapes: tuple[tuple[int, ...] | None, ...]
    output_dtypes: tuple[Any, ...]
    flops: int | None
    bytes: int | None
    ready: int | None
    began: int | None
    suspended: tuple[int, ...]
    resumed: tuple[int, ...]
    ended: int | None
    status: str
    loop: str | None
    thread: str
    thread_id: int
    worker: str | None
    worker_began: int | None
    worker_ended: int | None
    device: str | None
    stream: str | None
    graph_task_id: int | None
    parent_graph_task_id: int | None
    reentrant_depth: int
    forward_sequence_nr: int | None
    line: str | None
    admitted: int | None = None
    device_began: int | None = None
    device_ended: int | None = None
    device_time: int | None = None
    kernels: int | None = None
    waited_for: tuple[str, ...] = ()
    program: str | None = None

    @property
    def duration(self) -> int | None:
        """Nanoseconds from the beginning to the end, waits included; None where one of them is not known."""
        return None if self.began is None or self.ended is None else self.ended - self.began

    @property
    def waited(self) -> int:
        """Nanoseconds for which it was suspended."""
        end = self.ended
        ends = [*self.resumed, *([] if end is None else [end] * (len(self.suspended) - len(self.resumed)))]
        return sum(there - here for here, there in zip(self.suspended, ends, strict=False))


class BackwardSpan(NamedTuple):
    """One backward: what it ran inside of, and when."""

    id: int
    parent: int | None
    #: The index of the event in whose body it was called; None where that is not known.
    parent_event: int | None
    began: int
    ended: int | None
    status: str
    thread_id: int
    #: The index of its first event; None if it has none.
    first_event: int | None


@final
class Record(NamedTuple):
    """What a profile has recorded, as records.

    Attributes:
        events: in the order in which they ended.
        producers: for each event the indices of those that a gradient came from.
        saved_bytes: for each event, how many bytes more (or, below zero, less) nodes have saved after it.
        spans: the backward passes.
        lateness: (time, thread id, nanoseconds) for each timer of the profile that has fired.
        threads: the name of each thread, by its id.
        device_spans: the work of devices, in the order in which it began.
        timed: the sequence numbers of the forward calls of functions that were timed, and so have not waited.
    """

    events: tuple[ProfileEvent, ...]
    producers: tuple[tuple[int, ...], ...]
    saved_bytes: tuple[int, ...]
    spans: tuple[BackwardSpan, ...]
    lateness: tuple[tuple[int, int, int], ...]
    threads: dict[int, str]
    device_spans: tuple[DeviceSpan, ...] = ()
    timed: frozenset[int] = frozenset()


def _ns(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1e9)


def read(recorder: Recorder, *, with_devices: bool) -> Record:
    """Return what a recorder has recorded so far.

    Args:
        recorder: the recorder.
        with_devices: whether the devices have done their work, so that their times can be told.
    """
    return _Reader(recorder).read(with_devices)


@final
class _Reader:
    """Makes a Record."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        # Copies: other threads may still be recording.
        self._threads = dict(recorder.threads)
        self._loops = _loops_by_thread(list(recorder.loops))
        self._lines: dict[tuple[int, int], str] = {}
        self._backwards = list(recorder.backwards)
        for backward in self._backwards:
            # Of those that have not ended.
            recorder.note_older(list(backward.nodes))
        #: By the id of a node, what the tensor was or is that it belongs to. Ids come again.
        self._specs: dict[int, Spec] = {}
        known = {address for _, address, _ in recorder.leaves}
        for backward in self._backwards:
            for run in list(backward.runs):
                if run.facts.key > 0 and run.facts.address not in known:
                    self._specs[run.facts.address] = run.facts.outputs[0]
        older = [facts for nodes in list(recorder.older_nodes) for facts in nodes.facts()]
        #: By key, the nodes that had been made before the profile began. They have lived at the same time.
        self._older = {facts.key: facts for facts in [*older, *recorder.older_facts]}
        self._older_specs = {
            facts.address: facts.outputs[0] if len(facts.outputs) == 1 else None for facts in self._older.values()
        }
        #: The calls that wrappers have recorded, each with its place in the recorder's list.
        self._plain = list(_plain_calls(list(recorder.plain_calls)))
        self._calls = {call.facts.key: call for call in self._read_calls()}
        #: By key, when the function of a call began and ended, where that was timed.
        self._timed = dict(_match_times(self._calls.values(), list(recorder.timed_calls)))
        self._spans = sorted(self._backwards, key=lambda backward: backward.began)

    def read(self, with_devices: bool) -> Record:
        entries: list[_Entry] = [
            (self._forward_event(call), 0, _bytes_saved(call), ()) for call in self._calls.values()
        ]
        for backward in self._backwards:
            entries += self._backward_entries(backward)
        entries += [(self._program_event(run), 0, 0, ()) for run in list(self._recorder.programs)]
        entries += [(self._optimizer_event(run), 0, 0, ()) for run in list(self._recorder.optimizer_runs)]
        entries.sort(key=lambda entry: _order(entry[0]))
        index_of = {(entry[0].graph_task_id, entry[1]): index for index, entry in enumerate(entries) if entry[1]}
        events = tuple(entry[0] for entry in entries)
        events, device_spans = self._with_spans(events, index_of) if with_devices else (events, ())
        producers = tuple(
            tuple(
                index_of[event.graph_task_id, address]
                for address in wanted
                if (event.graph_task_id, address) in index_of
            )
            for event, _, _, wanted in entries
        )
        lateness = tuple((round(at * 1e9), thread, round(late * 1e9)) for at, thread, late in self._recorder.lateness)
        return Record(
            events,
            producers,
            tuple(entry[2] for entry in entries),
            self._spans_of(events),
            lateness,
            self._threads,
            device_spans,
            frozenset(-key for key in self._timed),
        )

    def _with_spans(
        self, events: tuple[ProfileEvent, ...], index_of: dict[tuple[int | None, int], int]
    ) -> tuple[tuple[ProfileEvent, ...], tuple[DeviceSpan, ...]]:
        """Return the events with the times of devices, and what these did, each with the index of its event."""
        works = self._recorder.work.spans()
        forward = {-(event.sequence_nr or 0): index for index, event in enumerate(events) if event.kind == "forward"}
        by_work = {number: forward.get(key) for number, key in self._keys_of_calls([work for work, _ in works])}
        spans: list[DeviceSpan] = []
        by_event: dict[int, list[DeviceSpan]] = {}
        for number, (work, span) in enumerate(works):
            found = by_work.get(number)
            if isinstance(work.key, tuple):
                graph_task_id, order, address = work.key
                found = index_of.get((graph_task_id, address), index_of.get((graph_task_id, order)))
            elif work.kind == "optimizer":
                found = _step_of(span, events)
            elif work.key is not None:
                found = forward.get(work.key)
            spans.append(span._replace(event=found))
            if found is not None:
                by_event.setdefault(found, []).append(span)
        timed = tuple(
            _with_device_times(event, by_event[index]) if index in by_event else event
            for index, event in enumerate(events)
        )
        # Of those that begin at one time, the one that was launched first comes first.
        spans.sort(key=lambda span: span.began)
        return timed, tuple(spans)

    def _keys_of_calls(self, works: Sequence[Work]) -> Iterator[tuple[int, int]]:
        """Yield the number of each work of a function's call, and the key of the node that the call made.

        The node is recorded right after the work, in the same thread.
        """
        made: dict[int, int] = {}
        for number, work in enumerate(works):
            if work.kind != "forward" or work.key is not None:
                continue
            call = self._next_call(work)
            if call is not None:
                # Of several works before one call, the others have made no node.
                made[call.facts.key] = number
        yield from ((number, key) for key, number in made.items())

    def _next_call(self, work: Work) -> ForwardCall | None:
        """Return the first call that was recorded in a thread after some work, if it is one of the same function."""
        plain, other = work.after
        calls, later = self._recorder.calls, islice(self._plain, bisect_left(self._plain, plain, key=_offset), None)
        found = (
            next((call for _, call in later if call.thread == work.thread), None),
            next((call for call in islice(calls, other, None) if call.thread == work.thread), None),
        )
        same = [call for call in found if call is not None and _function_name(call.facts) == work.name]
        # Orders go down.
        return max(same, key=lambda call: call.facts.key, default=None)

    def _read_calls(self) -> Iterator[ForwardCall]:
        """Yield the forward calls in their order, each with the specs of its arguments."""
        # What was recorded in full comes in between.
        calls = [*(call for _, call in self._plain), *self._recorder.calls]
        specs, leaves = self._specs, deque(self._recorder.leaves)
        for call in sorted(calls, key=lambda call: call.ended):
            while leaves and leaves[0][0] <= call.ended:
                _, address, spec = leaves.popleft()
                specs[address] = spec
            facts = call.facts
            inputs = [None if edge is None else specs.get(edge) for edge in facts.edges]
            specs[facts.address] = facts.outputs[0] if len(facts.outputs) == 1 else None
            yield call._replace(inputs=inputs)

    def _forward_event(self, call: ForwardCall) -> ProfileEvent:
        facts, plan = call.facts, call.facts.plan
        operands = call.inputs if plan is None else operand_specs(plan, call.inputs, facts.saved)
        output = facts.outputs[0] if len(facts.outputs) == 1 else None
        began, ended = self._timed.get(facts.key, (call.began, call.ended))
        return ProfileEvent(
            kind="forward",
            name=_function_name(facts),
            sequence_nr=-facts.key,
            node_id=facts.address,
            **_shapes(call.inputs, facts.outputs),
            flops=forward_flops(plan, operands, output),
            bytes=bytes_of([*call.inputs, *facts.outputs]),
            ready=None,
            began=_ns(began),
            suspended=(),
            resumed=(),
            ended=round(ended * 1e9),
            status="done",
            **self._where(call.thread, call.ended),
            worker=None,
            worker_began=None,
            worker_ended=None,
            device=facts.device,
            stream=facts.stream,
            graph_task_id=None,
            parent_graph_task_id=None,
            reentrant_depth=0,
            forward_sequence_nr=-facts.key,
            line=self._line(call.code, call.instruction),
        )

    def _program_event(self, run: ProgramRun) -> ProfileEvent:
        event = self._event_without_node("program" if run.is_whole else "part", run)
        return event._replace(device="cpu", program=run.program)

    def _optimizer_event(self, run: OptimizerRun) -> ProfileEvent:
        return self._event_without_node("optimizer", run)._replace(
            suspended=tuple(round(time * 1e9) for time in run.suspended),
            resumed=tuple(round(time * 1e9) for time in run.resumed),
            status=run.status,
            **self._worker(next(iter(run.workers), None)),
        )

    def _event_without_node(self, kind: str, run: ProgramRun | OptimizerRun) -> ProfileEvent:
        return ProfileEvent(
            kind=kind,
            name=run.name,
            sequence_nr=None,
            node_id=0,
            **_shapes((), ()),
            flops=None,
            bytes=None,
            ready=None,
            began=_ns(run.began),
            suspended=(),
            resumed=(),
            ended=_ns(run.ended),
            status="done",
            **self._where(run.thread, run.began),
            worker=None,
            worker_began=None,
            worker_ended=None,
            device=None,
            stream=None,
            graph_task_id=None,
            parent_graph_task_id=None,
            reentrant_depth=0,
            forward_sequence_nr=None,
            line=None,
        )

    def _where(self, thread: int, time: float) -> dict[str, Any]:
        name = self._threads.get(thread) or self._recorder.bystanders.get(thread, f"thread {thread}")
        times, names = self._loops.get(thread, ((), ()))
        index = bisect_right(times, time) - 1
        return {"loop": names[index] if index >= 0 else None, "thread": name, "thread_id": thread}

    def _line(self, code: CodeType | None, instruction: int) -> str | None:
        if code is None:
            return None
        found = self._lines.get((id(code), instruction))
        if found is None:
            lines = [line for line, *_ in code.co_positions()]
            line = lines[instruction // 2] if instruction // 2 < len(lines) else None
            found = self._lines[id(code), instruction] = f"{code.co_filename}:{line or code.co_firstlineno}"
        return found

    def _backward_entries(self, backward: BackwardRecord) -> list[_Entry]:
        """Return the events of a backward, each with the id of its node, its bytes saved, and its producers' ids."""
        closed_at = self._recorder.closed_at
        all_runs = [*self._plain_runs(backward), *list(backward.runs)]
        runs = [_until(closed_at, run) for run in all_runs if run.began <= closed_at]
        ends: dict[int, float] = {}
        producers: dict[int, list[int]] = {}
        for run in runs:
            if run.ended is not None:
                ends[run.facts.address] = run.ended
            for edge in run.facts.edges:
                if edge is not None:
                    producers.setdefault(edge, []).append(run.facts.address)
        entries = []
        for run in runs:
            address = run.facts.address
            before = [one for one in dict.fromkeys(producers.get(address, ())) if ends.get(one, run.began) <= run.began]
            ready = max((ends[one] for one in before), default=backward.began)
            call = self._calls.get(run.facts.key)
            is_released = run.status == "done" and (backward.until_success or not backward.keep_graph)
            saved = -_bytes_saved(call) if call is not None and is_released else 0
            entries.append((self._backward_event(backward, run, ready, call), address, saved, tuple(before)))
        return _released_at_the_end(entries, backward.status) if backward.until_success else entries

    def _plain_runs(self, backward: BackwardRecord) -> Iterator[NodeRun]:
        """Yield the runs of plain nodes in full."""
        began, skipped = backward.began, backward.skipped
        for index, (order, ended, plan) in enumerate(backward.plain_runs()):
            if order != BEGIN and order != skipped.get(index):
                facts, inputs = self._facts(order, plan)
                run = NodeRun(facts, facts.outputs, began)
                # Nodes that write out their own `run` have no Plan.
                wanted = [call is not None for call in plan.calls] if isinstance(plan, Plan) else [True] * len(inputs)
                run.outputs = tuple([spec if want else None for spec, want in zip(inputs, wanted, strict=False)])
                run.ended, run.status, run.thread = ended, "done", backward.thread
                yield run
            began = ended

    def _facts(self, order: int, plan: Any) -> tuple[NodeFacts, Sequence[Spec]]:
        call = self._calls.get(order)
        if call is not None:
            return call.facts, call.inputs
        facts = self._older.get(order)
        if facts is None:
            # A node that another context has made.
            name, known = (plan.primitive.node_name, plan) if isinstance(plan, Plan) else (plan.__name__, None)
            facts = NodeFacts(name, order, order, (), (None,), None, None, known, None)
            return facts, [None] * len(facts.edges)
        return facts, self._inputs_of(facts)

    def _inputs_of(self, facts: NodeFacts) -> list[Spec]:
        """Return the specs of the arguments of a call before the profile began."""
        return [None if edge is None else self._older_specs.get(edge) or self._specs.get(edge) for edge in facts.edges]

    def _backward_event(
        self, backward: BackwardRecord, run: NodeRun, ready: float, call: ForwardCall | None
    ) -> ProfileEvent:
        facts, worker = run.facts, next(iter(run.workers), None)
        inputs = call.inputs if call is not None else self._inputs_of(facts)
        operands = (
            () if facts.plan is None else operand_specs(facts.plan, inputs, (call.facts if call else facts).saved)
        )
        output = facts.outputs[0] if len(facts.outputs) == 1 else None
        return ProfileEvent(
            kind="backward",
            name=facts.name,
            sequence_nr=None if facts.key > 0 else -facts.key,
            node_id=facts.address,
            **_shapes(run.grads, run.outputs),
            flops=backward_flops(facts.plan, operands, output),
            bytes=bytes_of([*run.grads, *run.outputs]),
            ready=_ns(ready),
            began=_ns(run.began),
            suspended=tuple(round(time * 1e9) for time in run.suspended),
            resumed=tuple(round(time * 1e9) for time in run.resumed),
            ended=_ns(run.ended),
            status=run.status,
            **self._where(run.thread, run.began),
            **self._worker(worker),
            device=facts.device,
            stream=facts.stream,
            graph_task_id=backward.id,
            parent_graph_task_id=backward.outer,
            reentrant_depth=backward.depth,
            forward_sequence_nr=None if call is None else -call.facts.key,
            line=None if call is None else self._line(call.code, call.instruction),
            admitted=_ns(run.admitted),
            waited_for=tuple(what for _, what in run.waited_for),
        )

    def _worker(self, run: WorkerRun | None) -> dict[str, Any]:
        if run is None:
            return {"worker": None, "worker_began": None, "worker_ended": None}
        name = run.thread
        if not isinstance(name, str):
            name = self._threads.get(name, f"thread {name}")
        return {"worker": name, "worker_began": _ns(run.began), "worker_ended": _ns(run.ended)}

    def _spans_of(self, events: Sequence[ProfileEvent]) -> tuple[BackwardSpan, ...]:
        first: dict[int | None, int] = {}
        by_key: dict[tuple[int | None, int], int] = {}
        for index, event in enumerate(events):
            if event.kind == "backward":
                first.setdefault(event.graph_task_id, index)
                key = event.node_id if event.sequence_nr is None else -event.sequence_nr
                by_key[event.graph_task_id, key] = index
        return tuple(
            BackwardSpan(
                backward.id,
                backward.outer,
                None if backward.outer_key is None else by_key.get((backward.outer, backward.outer_key)),
                round(backward.began * 1e9),
                _ns(backward.ended) if is_over else None,
                backward.status if is_over else "running",
                backward.thread,
                first.get(backward.id),
            )
            for backward in self._spans
            for is_over in [backward.ended is not None and backward.ended <= self._recorder.closed_at]
        )


def _function_name(facts: NodeFacts) -> str:
    return facts.name.removesuffix("Backward") if facts.plan is None else facts.plan.primitive.name


def _is_same(function: str, facts: NodeFacts) -> bool:
    """Tell whether a node is of a function, which may have its name in another spelling."""
    return function.replace("_", "").lower() == _function_name(facts).replace("_", "").lower()


def _offset(entry: tuple[int, ForwardCall]) -> int:
    return entry[0]


def _step_of(span: DeviceSpan, events: Sequence[ProfileEvent]) -> int | None:
    """Return the index of the step of an optimizer that has put its work on a device."""
    for index, event in enumerate(events):
        is_step = event.kind == "optimizer" and event.name == span.name
        if is_step and (event.began or 0) <= span.launched <= (event.ended or 0):
            return index
    return None


def _with_device_times(event: ProfileEvent, spans: Sequence[DeviceSpan]) -> ProfileEvent:
    """Return an event with the times of its device; `spans` are the parts of its work."""
    kernels = [span.kernels for span in spans if span.kernels is not None]
    return event._replace(
        began=spans[0].launched if event.began is None else min(event.began, spans[0].launched),
        device_began=min(span.began for span in spans),
        device_ended=max(span.ended for span in spans),
        device_time=sum(span.duration for span in spans),
        kernels=sum(kernels) if kernels else None,
    )


def _plain_calls(flat: list[Any]) -> Iterator[tuple[int, ForwardCall]]:
    """Yield the calls that wrappers of primitives have recorded, each with its place: see NodeRecorder."""
    index, nothing = 0, id(None)
    while index < len(flat):
        begin, plan = index, flat[index]
        count = PLAIN_CALL + len(plan.primitive.tensor_names)
        _, order, address, shape, dtype, device, code, instruction, thread, ended, *edges = flat[index : index + count]
        index += count
        saved = None
        if plan.primitive.superlinear:
            saved = flat[index]
            index += 1
        facts = NodeFacts(
            plan.primitive.node_name,
            order,
            address,
            tuple([None if edge == nothing else edge for edge in edges]),
            ((shape, dtype),),
            None if device is None else str(device),
            None,
            plan,
            saved,
        )
        # Wrappers write a bool for the main thread: asking which it is would cost too much.
        number = (MAIN_THREAD or 0) if isinstance(thread, bool) else thread
        yield begin, ForwardCall(facts, code, instruction, number, None, ended)


def _match_times(calls: Iterable[ForwardCall], flat: Sequence[Any]) -> Iterator[tuple[int, tuple[float | None, float]]]:
    """Yield the key of each call whose function was timed, with when that began and ended.

    The function ends right before the call is recorded, in the same thread; functions that make no node come between.
    """
    by_thread: dict[int, tuple[list[float], list[tuple[str, float]]]] = {}
    for name, thread, began, ended in zip(*(flat[place::TIMED_CALL] for place in range(TIMED_CALL)), strict=True):
        ends, begins = by_thread.setdefault(thread, ([], []))
        ends.append(ended)
        begins.append((name, began))
    used: dict[int, int] = {}
    for call in sorted(calls, key=lambda call: call.ended):
        ends, begins = by_thread.get(call.thread, ([], []))
        place = bisect_right(ends, call.ended) - 1
        # What an asynchronous Function does in between belongs to calls of its own.
        if call.began is None and place >= used.get(call.thread, 0) and _is_same(begins[place][0], call.facts):
            used[call.thread] = place + 1
            yield call.facts.key, (begins[place][1], ends[place])


def _until(end: float, run: NodeRun) -> NodeRun:
    """Return what had happened of a run at a time."""
    if run.ended is not None and run.ended <= end:
        return run
    found = NodeRun(run.facts, run.grads, run.began)
    found.thread = run.thread
    found.suspended = [time for time in run.suspended if time <= end]
    found.resumed = [time for time in run.resumed if time <= end]
    found.admitted = None if run.admitted is None or run.admitted > end else run.admitted
    found.waited_for = [wait for wait in run.waited_for if wait[0] <= end]
    found.workers = [worker for worker in run.workers if worker.ended <= end]
    return found


def _loops_by_thread(loops: list[tuple[float, int, str]]) -> dict[int, tuple[list[float], list[str]]]:
    found: dict[int, tuple[list[float], list[str]]] = {}
    for time, thread, name in loops:
        times, names = found.setdefault(thread, ([], []))
        times.append(time)
        names.append(name)
    return found


def _shapes(inputs: Sequence[Spec], outputs: Sequence[Spec]) -> dict[str, Any]:
    return {
        "input_shapes": tuple([None if spec is None else spec[0] for spec in inputs]),
        "input_dtypes": tuple([None if spec is None else spec[1] for spec in inputs]),
        "output_shapes": tuple([None if spec is None else spec[0] for spec in outputs]),
        "output_dtypes": tuple([None if spec is None else spec[1] for spec in outputs]),
    }


#: An event of a backward, the id of its node, the bytes that it has saved more, and the ids of its producers.
_Entry = tuple[ProfileEvent, int, int, tuple[Any, ...]]


def _released_at_the_end(entries: list[_Entry], status: str) -> list[_Entry]:
    """Return the events of a backward that keeps its graph until its success: the last one to end releases all."""
    last = max(range(len(entries)), key=lambda index: entries[index][0].ended or 0, default=0)
    total = sum(entry[2] for entry in entries) if status == "done" else 0
    return [
        (event, address, total if index == last else 0, before)
        for index, (event, address, _, before) in enumerate(entries)
    ]


def _bytes_saved(call: ForwardCall) -> int:
    """Return the bytes of the tensors that a plain node has saved, as far as they are known."""
    plan = call.facts.plan
    if plan is None:
        return 0
    specs: list[Spec] = []
    operands = operand_specs(plan, call.inputs, call.facts.saved)
    for index in plan.tensor_slots:
        owner = plan.slots[index].owner
        specs.append(call.facts.outputs[0] if owner == "out" else operands[plan.primitive.tensor_names.index(owner)])
    return bytes_of(specs) or 0


def _order(event: ProfileEvent) -> float:
    return float("inf") if event.ended is None else event.ended
