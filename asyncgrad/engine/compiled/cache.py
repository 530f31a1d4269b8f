"""Which backward passes have been seen, and the compiled functions of those that repeat.

Bounded, and shared by all contexts and threads. What is looked up before a graph has been walked is its shallow key:
its root, and a few nodes. Different graphs may have equal keys. A trace, made by a walk through the graph, settles that
before anything is compiled; a compiled function settles it, exactly, while it runs; and where one finds another graph,
the place where they differ becomes part of the key, or, if that is deep down, the length of the graph.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, final

from ...graph.node import LEAF_ORDER
from .codegen import compile_backward, forget
from .executor import AN_ERROR, OTHER_GRAPH, CompiledExecutor, CompilingExecutor
from .trace import CHANGED_MEANWHILE, MOST_NODES, Trace, Unsupported, at_once, describe, give_sources, token_of

if TYPE_CHECKING:
    from ...graph.node import Node
    from ..exec_info import ExecInfos
    from ..executor import Executor
    from ..graph_task import GraphTask
    from .program import Program
    from .trace import Slices, Trace

__all__ = ["CACHE", "Cache", "Candidate", "CompiledStats", "Bucket", "Entry", "shallow_key_of"]

#: Nodes in a shallow key, the root included.
NODES_IN_KEY = 3
#: Places that a key may have beside them, and how many edges may lead there.
MOST_PATHS = 4
LONGEST_PATH = 64
#: Graphs of one entry that are remembered and have no function; and entries of one bucket, those with one included.
MOST_CANDIDATES = 8
MOST_ENTRIES = 512


class Candidate(NamedTuple):
    """A graph that has no function so far, and how often it has been seen."""

    trace: Trace
    seen: int


@final
class Entry:
    """What is known of the graphs of one key."""

    __slots__ = ("candidates", "guard_failures", "is_busy", "programs", "seen", "skipped", "warm_ups")

    def __init__(self) -> None:
        #: Traces and their functions, the one that fitted last in front.
        self.programs: list[tuple[Trace, Program]] = []
        #: How often a graph has been seen before one was walked through.
        self.seen = 0
        #: Those that were walked through, the last one in front.
        self.candidates: list[Candidate] = []
        #: Guard failures of the function in front, weighed against its hits: see GUARD_FAILURE.
        self.guard_failures = 0
        #: How many walks in a row have found a graph that is not remembered; and backward passes since the last.
        self.warm_ups = 0
        self.skipped = 0
        #: Whether a backward walks through its graph, or compiles it; another one does not, meanwhile.
        self.is_busy = False

    def remember(self, trace: Trace, seen: int) -> None:
        """Put a graph in front of the candidates, of which only so many are kept."""
        known = [one for one in self.candidates if one.trace is not trace]
        self.candidates = [Candidate(trace, seen), *known][:MOST_CANDIDATES]


@final
class Bucket:
    """The entries of graphs with one root; where `paths` lead tells them apart, and perhaps how long they are."""

    __slots__ = ("entries", "measures_length", "only", "paths")

    def __init__(self) -> None:
        self.paths: list[tuple[int, ...]] = []
        self.measures_length = False
        #: The one entry while there is no path.
        self.only = Entry()
        self.entries: dict[Any, Entry] = {(): self.only}

    def entry_of(self, root: Node, limits: ExecInfos | None) -> Entry:
        """Return the entry of a graph, made now if it is the first of its kind."""
        if not self.paths and not self.measures_length:
            return self.only
        return self._entry_at(self._key(partial(_token_at, root, limits), partial(_length, root, limits)))

    def entry_for(self, trace: Trace) -> Entry:
        """Return the entry of the graphs that a trace is of."""
        return self._entry_at(self._key(trace.token_at, lambda: trace.length))

    def _entry_at(self, key: tuple[Any, ...]) -> Entry:
        entry = self.entries.get(key)
        if entry is None:
            self._make_room()
            entry = self.entries[key] = Entry()
        return entry

    def _make_room(self) -> None:
        """Forget the oldest entry that has no function if there are as many as may be."""
        if len(self.entries) < MOST_ENTRIES:
            return
        oldest = next((key for key, entry in self.entries.items() if not entry.programs), None)
        if oldest is not None:
            del self.entries[oldest]

    def learn(self, trace: Trace, op: int) -> None:
        """Tell graphs apart by what follows an op of `trace`, too."""
        if self.measures_length and len(self.paths) >= MOST_PATHS:
            return
        to_op = trace.path_to(op)
        if len(to_op) >= LONGEST_PATH:
            self._measure_length()
        if len(self.paths) >= MOST_PATHS:
            return
        self._follow(_onward(trace, to_op, op))

    def tell_apart(self, one: Trace, other: Trace, op: int) -> None:
        """Tell graphs apart by what tells these two apart, whose ops before this one are alike.

        Those of a recurrent network differ in their lengths, whose sequences are not all of one length.
        """
        if not self.measures_length and one.length != other.length:
            self._measure_length()
            return
        to_op = one.path_to(op)
        paths = [path for path in (to_op, *_onward(one, to_op, op)) if one.token_at(path) != other.token_at(path)]
        self._follow(paths)

    def _follow(self, paths: list[tuple[int, ...]]) -> None:
        """Look where these paths lead from now on, as far as there is room for them."""
        new = [path for path in paths if path not in self.paths and len(path) <= LONGEST_PATH]
        new = new[: max(MOST_PATHS - len(self.paths), 0)]
        if new:
            self.paths += new
            self._sort_anew()

    def _measure_length(self) -> None:
        if not self.measures_length:
            self.measures_length = True
            self._sort_anew()

    def _key(self, token_at: Callable[[tuple[int, ...]], Any], length: Callable[[], int]) -> tuple[Any, ...]:
        tokens = tuple([token_at(path) for path in self.paths])
        return (length(), *tokens) if self.measures_length else tokens

    def _sort_anew(self) -> None:
        entries, self.entries = self.entries, {}
        for entry in entries.values():
            for described, program in entry.programs:
                self.entry_for(described).programs.append((described, program))
            for candidate in reversed(entry.candidates):
                self.entry_for(candidate.trace).remember(*candidate)


def _onward(trace: Trace, to_op: tuple[int, ...], op: int) -> list[tuple[int, ...]]:
    """Return the paths to where the edges of an op lead."""
    targets = trace.ops[op].targets
    return [(*to_op, edge) for edge, target in enumerate(targets) if target is not None]


def _length(node: Any, limits: ExecInfos | None) -> int:
    """Return how many nodes follow each other by the first edge that leads anywhere."""
    length = 0
    while node is not None and length < MOST_NODES and (limits is None or limits[node].needed):
        for target in node.next_nodes:
            if target is not None:
                break
        else:
            break
        if target.order == LEAF_ORDER or (limits is not None and not limits.executes(target)):
            break
        node = target
        length += 1
    return length


def _token_at(root: Any, limits: ExecInfos | None, path: tuple[int, ...]) -> Any:
    """Return what `Trace.token_at` does of this backward's trace."""
    node = root
    for edge in path:
        targets = node.next_nodes
        is_left_out = edge >= len(targets) or (limits is not None and not limits[node].needed)
        node = None if is_left_out else targets[edge]
        if node is None or (limits is not None and not limits.executes(node)):
            return None
    return token_of(node)


def shallow_key_of(
    root: Node, limits: ExecInfos | None, captures: int, keep_graph: bool, input_nr: int
) -> tuple[Any, ...]:
    """Return what the graph of a backward is told from others by before anybody walks through it."""
    node: Any = root
    limited = None if limits is None else (limits.executed, captures)
    found: list[Any] = [keep_graph, limited, root.dtype, input_nr]
    if root.shape is None:
        # The function that is picked looks at all nodes but the root.
        found.append(root.input_metadata)
    for _ in range(NODES_IN_KEY):
        plan = getattr(node, "plan", None)
        found.append(type(node) if plan is None else plan)
        found.append(node.shape)
        found.append(node.meta is None)
        for target in node.next_nodes:
            if target is not None:
                node = target
                break
        else:
            break
    return tuple(found)


#: How many keys are remembered, and how many compiled functions.
MOST_KEYS = 1024
MOST_PROGRAMS = 256
#: A function that did not fit counts as many against the next try, one that did takes one off. From so many on a walk
#: through the graph finds the function that fits, or begins to count the sightings of another graph.
GUARD_FAILURE = 2
MOST_GUARD_FAILURES = 4
#: After so many walks in a row through graphs that did not repeat, only one in 64 is walked, and with each further
#: such walk half as many, down to one in 2,048: a walk takes several times as long as the engine's run.
PATIENCE = 32
PAUSE = 64
MOST_DOUBLINGS = 5


class CompiledStats(NamedTuple):
    """What compiled autograd has done in this process.

    Attributes:
        compilations: how many functions have been compiled.
        hits: backward passes that a compiled function ran from beginning to end.
        misses: all others where compiled autograd was on: the engine ran them, or the rest of them, or they failed.
        reasons: why, with how many misses each has caused.

    Example:
        >>> import asyncgrad as ag
        >>> ag.engine.compiled_stats().compilations >= 0
        True
    """

    compilations: int
    hits: int
    misses: int
    reasons: Mapping[str, int]


class _Sought(NamedTuple):
    """The backward that a function is looked for."""

    shallow_key: tuple[Any, ...]
    root: Node
    limits: ExecInfos | None
    captures: int
    keep_graph: bool
    input_nr: int
    after: int

    def is_unchanged(self) -> bool:
        """Tell whether the graph still looks as it did when the backward began."""
        return self.shallow_key == shallow_key_of(self.root, self.limits, self.captures, self.keep_graph, self.input_nr)


@final
class Cache:
    """All of it, behind one lock, which is never held for longer than a few looks."""

    __slots__ = ("_buckets", "_compilations", "_hits", "_lock", "_number", "_programs", "_reasons", "_uses")

    def __init__(self) -> None:
        # A backward that nobody awaits any more ends where the garbage collector finds it, be that in here.
        self._lock = threading.RLock()
        #: The oldest in front.
        self._buckets: dict[Any, Bucket] = {}
        #: Each with where it was found.
        self._programs: dict[Program, Bucket] = {}
        self._uses = itertools.count(1).__next__
        self._number = itertools.count(1).__next__
        self._compilations = 0
        self._hits = 0
        self._reasons: Counter[str] = Counter()

    def stats(self) -> CompiledStats:
        """Return the figures as they stand."""
        with self._lock:
            reasons = dict(self._reasons)
            return CompiledStats(self._compilations, self._hits, sum(reasons.values()), MappingProxyType(reasons))

    def miss(self, reason: str) -> None:
        """Count a backward that the engine runs."""
        with self._lock:
            self._reasons[reason] += 1

    def find(
        self, task: GraphTask, after: int, grad: Any, input_nr: int, otherwise: Callable[[GraphTask, Any], Executor]
    ) -> CompiledExecutor | CompilingExecutor | None:
        """Return the executor of a function compiled for a backward like this one, or None.

        If such a backward has been seen `after` times, it is one that compiles the function first.

        Args:
            task: the backward.
            after: how often such a one is to have been seen.
            grad: what arrives at its root.
            input_nr: at which of its inputs.
            otherwise: makes the executor where it turns out that no function is to be had.
        """
        root, limits = task.root, task.limits
        shallow_key = shallow_key_of(root, limits, len(task.captured), task.keep_graph, input_nr)
        with self._lock:
            bucket = self._buckets.get(shallow_key)
            if bucket is None:
                bucket = self._buckets[shallow_key] = Bucket()
                if len(self._buckets) > MOST_KEYS:
                    self._forget(self._buckets.pop(next(iter(self._buckets))))
            entry = bucket.entry_of(root, limits)
            if entry.programs and entry.guard_failures < MOST_GUARD_FAILURES:
                trace, program = entry.programs[0]
                if program.is_measured():
                    self._reasons["a body that is measured"] += 1
                    return None
                program.last_used = self._uses()
                return CompiledExecutor(task, program, root, grad, self.ended, (bucket, entry, trace, limits))
            if not self._is_to_be_walked(entry, after):
                self._reasons["seen too seldom"] += 1
                return None
        sought = _Sought(shallow_key, root, limits, len(task.captured), task.keep_graph, input_nr, after)
        return CompilingExecutor(task, self._found_or(sought, bucket, entry, otherwise), grad)

    def _found_or(
        self, sought: _Sought, bucket: Bucket, entry: Entry, otherwise: Callable[[GraphTask, Any], Executor]
    ) -> Slices[Callable[[GraphTask, Any], Executor]]:
        return (yield from self._found(sought, bucket, entry)) or otherwise

    def _found(
        self, sought: _Sought, bucket: Bucket, entry: Entry
    ) -> Slices[Callable[[GraphTask, Any], CompiledExecutor] | None]:
        """Return what makes the executor of the function that walking and compiling gives; None if there is none."""
        with self._lock:
            if entry.is_busy:
                self._reasons["another backward compiles it"] += 1
                return None
            entry.is_busy = True
        try:
            found = yield from self._walk(sought, bucket, entry)
        except Unsupported as cannot:
            with self._lock:
                entry.warm_ups += 1
                self._reasons[str(cannot)] += 1
            return None
        except Exception:
            self.miss(AN_ERROR)
            raise
        finally:
            # However it ends, be it that whoever did it a little at a time gives up.
            entry.is_busy = False
        if found is None:
            self.miss("seen too seldom")
            return None
        if not sought.is_unchanged():
            self.miss(CHANGED_MEANWHILE)
            return None
        trace, program, entry = found
        program.last_used = self._uses()
        where = (bucket, entry, trace, sought.limits)
        return lambda task, grad: CompiledExecutor(task, program, sought.root, grad, self.ended, where)

    def ended(
        self,
        where: tuple[Bucket, Entry, Trace, ExecInfos | None],
        root: Node,
        reason: str | None = None,
        op: int = -1,
    ) -> None:
        """Note that a function has run to its end, or why it was left, and at which op."""
        bucket, entry, trace, limits = where
        with self._lock:
            if reason is None:
                self._hits += 1
                if entry.guard_failures:
                    entry.guard_failures -= 1
                return
            self._reasons[reason] += 1
            if reason != OTHER_GRAPH:
                return
            bucket.learn(trace, op)
            entry = bucket.entry_of(root, limits)
            if entry.programs:
                entry.guard_failures += GUARD_FAILURE
            else:
                # That was the first of its kind to be seen.
                entry.seen = max(entry.seen, 1)

    def sources(self, root: Node, limits: ExecInfos | None, captures: int, input_nr: int) -> list[str]:
        """Return the source of each function compiled for the graph at an input of `root`."""
        trace, _ = at_once(describe(root, limits, input_nr))
        with self._lock:
            known = [
                one
                for keep_graph in (False, True)
                if (bucket := self._buckets.get(shallow_key_of(root, limits, captures, keep_graph, input_nr)))
                is not None
                for one in bucket.entry_of(root, limits).programs
            ]
        return [program.source for described, program in known if at_once(described.is_like(trace))]

    def _is_to_be_walked(self, entry: Entry, after: int) -> bool:
        if not entry.programs and not entry.candidates and entry.seen + 1 < after:
            entry.seen += 1
            return False
        if entry.warm_ups >= PATIENCE:
            entry.skipped += 1
            if entry.skipped < PAUSE << min(entry.warm_ups - PATIENCE, MOST_DOUBLINGS):
                return False
            entry.skipped = 0
        return True

    def _walk(self, sought: _Sought, bucket: Bucket, entry: Entry) -> Slices[tuple[Trace, Program, Entry] | None]:
        """Describe the graph; return the function for it, compiled now if it is due, and where that is kept."""
        trace, nodes = yield from describe(sought.root, sought.limits, sought.input_nr)
        with self._lock:
            programs = list(entry.programs)
        for one in programs:
            if (yield from one[0].is_like(trace)):
                with self._lock:
                    entry = bucket.entry_for(trace)
                    # It may have been dropped meanwhile, and still is of this graph.
                    if one in entry.programs:
                        entry.programs.remove(one)
                        entry.programs.insert(0, one)
                        entry.guard_failures = GUARD_FAILURE
                return *one, entry
        candidate = yield from self._candidate(entry, trace, bucket)
        with self._lock:
            if candidate.seen < sought.after:
                # There may be another entry in the place of that one now.
                bucket.entry_for(trace).remember(candidate.trace, candidate.seen + 1)
                return None
        yield from give_sources(trace, nodes, sought.limits)
        work = compile_backward(trace, sought.keep_graph, sought.limits is not None, self._number())
        program = yield from work
        with self._lock:
            entry = bucket.entry_for(trace)
            entry.candidates = [one for one in entry.candidates if one.trace is not candidate.trace]
            entry.seen = entry.warm_ups = entry.guard_failures = 0
            entry.programs.insert(0, (trace, program))
            self._compilations += 1
            program.last_used = self._uses()
            self._programs[program] = bucket
            if len(self._programs) > MOST_PROGRAMS:
                oldest = min(self._programs, key=lambda one: one.last_used)
                self._drop(oldest, self._programs[oldest])
        return trace, program, entry

    def _candidate(self, entry: Entry, trace: Trace, bucket: Bucket) -> Slices[Candidate]:
        """Return what is remembered of a graph that has no function; if nothing is, it is told apart from others."""
        with self._lock:
            known = list(entry.candidates)
        for one in known:
            if (yield from one.trace.is_like(trace)):
                entry.warm_ups = 0
                return one
        if not known:
            entry.warm_ups = 0
            return Candidate(trace, entry.seen)
        op = yield from known[0].trace.first_difference(trace)
        with self._lock:
            entry.warm_ups += 1
            bucket.tell_apart(known[0].trace, trace, op)
        return Candidate(trace, 0)

    def _drop(self, program: Program, bucket: Bucket) -> None:
        del self._programs[program]
        forget(program)
        for entry in bucket.entries.values():
            entry.programs = [known for known in entry.programs if known[1] is not program]

    def _forget(self, bucket: Bucket) -> None:
        for entry in bucket.entries.values():
            for _, program in entry.programs:
                if program in self._programs:
                    del self._programs[program]
                    forget(program)


#: Shared by the whole process, as what was seen and compiled outlives the `with` that asked for it.
CACHE = Cache()
