"""The cache of compiled autograd: the graphs seen so far, and the compiled functions of those that repeat.

The cache is bounded, and all contexts and threads share it.

A lookup must not walk the graph, so it uses a shallow key: the root and a few nodes below it. Different graphs may have
equal keys. Before a graph is compiled, a walk makes its trace, which tells them apart. A compiled function checks the
graph exactly while it runs. If it finds another graph, the path to the first difference becomes part of the key; if
that path is too long, the length of the graph does.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, final

from ...graph.node import LEAF_ORDER
from ...settings.process import forget_lines, hold_in_forks
from .codegen import compile_backward
from .executor import AN_ERROR, OTHER_GRAPH, CompiledExecutor, CompilingExecutor
from .trace import CHANGED_MEANWHILE, MAX_NODES, Trace, Unsupported, add_sources, run_to_end, token_of, trace_backward

if TYPE_CHECKING:
    from ...graph.node import Node
    from ..exec_info import ExecInfos
    from ..executor import Executor
    from ..graph_task import GraphTask
    from .program import Program
    from .trace import Slices

__all__ = ["CACHE", "Cache", "Candidate", "CompiledStats", "Bucket", "Entry", "shallow_key_of"]

LOG = logging.getLogger("asyncgrad.engine")

#: The number of nodes in a shallow key, the root included.
NODES_IN_KEY = 3
#: How many paths of a bucket are part of its key, and how many edges each of them may have.
MAX_PATHS = 4
MAX_PATH_LENGTH = 64
#: How many candidates an entry keeps, and how many entries a bucket keeps.
MAX_CANDIDATES = 8
MAX_ENTRIES = 512


class Candidate(NamedTuple):
    """A graph that has not been compiled so far, and how many times it has been seen."""

    trace: Trace
    seen: int


@final
class Entry:
    """The graphs of one key: compiled functions, candidates and counters."""

    __slots__ = ("candidates", "guard_failures", "is_busy", "programs", "seen", "skipped", "warm_ups")

    def __init__(self) -> None:
        #: Traces with their functions, the one that was found or compiled last in front.
        self.programs: list[tuple[Trace, Program]] = []
        #: How many graphs of this key were seen before the first walk.
        self.seen: int = 0
        #: The graphs that walks have found, the last one in front.
        self.candidates: list[Candidate] = []
        #: The guard failures of the function in front, weighed against its hits: see GUARD_FAILURE_WEIGHT.
        self.guard_failures: int = 0
        #: How many walks in a row have found a graph that is not among the candidates.
        self.warm_ups: int = 0
        #: How many backward passes have been left to the engine since the last walk, because of `warm_ups`.
        self.skipped: int = 0
        #: Whether a backward is walking a graph of this entry, or compiling it; no other backward does so meanwhile.
        self.is_busy: bool = False

    def remember(self, trace: Trace, seen: int) -> None:
        """Put a graph in front of the candidates; at most MAX_CANDIDATES are kept."""
        known = [one for one in self.candidates if one.trace is not trace]
        self.candidates = [Candidate(trace, seen), *known][:MAX_CANDIDATES]


@final
class Bucket:
    """The entries of the graphs with one shallow key.

    The key of an entry holds the tokens of the nodes that `paths` lead to, and the length of the graph if
    `measures_length`.
    """

    __slots__ = ("entries", "measures_length", "only", "paths")

    def __init__(self) -> None:
        self.paths: list[tuple[int, ...]] = []
        self.measures_length: bool = False
        #: The only entry as long as keys are empty.
        self.only: Entry = Entry()
        self.entries: dict[Any, Entry] = {(): self.only}

    def entry_of(self, root: Node, limits: ExecInfos | None) -> Entry:
        """Return the entry of a graph; the first graph with its key makes it."""
        if not self.paths and not self.measures_length:
            return self.only
        return self._entry_at(self._key(partial(_token_at, root, limits), partial(_length, root, limits)))

    def entry_for(self, trace: Trace) -> Entry:
        """Return the entry of the graphs that have this trace."""
        return self._entry_at(self._key(trace.token_at, lambda: trace.length))

    def _entry_at(self, key: tuple[Any, ...]) -> Entry:
        entry = self.entries.get(key)
        if entry is None:
            self._make_room()
            entry = self.entries[key] = Entry()
        return entry

    def _make_room(self) -> None:
        """Remove the oldest entry without a function if the bucket is full."""
        if len(self.entries) < MAX_ENTRIES:
            return
        oldest = next((key for key, entry in self.entries.items() if not entry.programs), None)
        if oldest is not None:
            del self.entries[oldest]

    def split_after(self, trace: Trace, op: int) -> None:
        """Add the targets of op number `op` of `trace` to the key, and the length if their paths are long."""
        if self.measures_length and len(self.paths) >= MAX_PATHS:
            return
        to_op = trace.path_to(op)
        if len(to_op) >= MAX_PATH_LENGTH:
            self._measure_length()
        if len(self.paths) >= MAX_PATHS:
            return
        self._add_paths(_paths_after(trace, to_op, op))

    def split_between(self, one: Trace, other: Trace, op: int) -> None:
        """Add a difference of two traces to the key; their first difference is at op number `op`.

        The length comes first: it tells apart the graphs of a recurrent network on sequences of different lengths.
        """
        if not self.measures_length and one.length != other.length:
            self._measure_length()
            return
        to_op = one.path_to(op)
        paths = [path for path in (to_op, *_paths_after(one, to_op, op)) if one.token_at(path) != other.token_at(path)]
        self._add_paths(paths)

    def _add_paths(self, paths: list[tuple[int, ...]]) -> None:
        """Add paths to the key, up to MAX_PATHS."""
        new = [path for path in paths if path not in self.paths and len(path) <= MAX_PATH_LENGTH]
        new = new[: max(MAX_PATHS - len(self.paths), 0)]
        if new:
            self.paths += new
            self._rehash()

    def _measure_length(self) -> None:
        if not self.measures_length:
            self.measures_length = True
            self._rehash()

    def _key(self, token_at: Callable[[tuple[int, ...]], Any], length: Callable[[], int]) -> tuple[Any, ...]:
        tokens = tuple([token_at(path) for path in self.paths])
        return (length(), *tokens) if self.measures_length else tokens

    def _rehash(self) -> None:
        entries, self.entries = self.entries, {}
        for entry in entries.values():
            for known_trace, program in entry.programs:
                self.entry_for(known_trace).programs.append((known_trace, program))
            for candidate in reversed(entry.candidates):
                self.entry_for(candidate.trace).remember(*candidate)


def _paths_after(trace: Trace, to_op: tuple[int, ...], op: int) -> list[tuple[int, ...]]:
    """Return the paths to the targets of the edges of an op."""
    targets = trace.ops[op].targets
    return [(*to_op, edge) for edge, target in enumerate(targets) if target is not None]


def _length(node: Any, limits: ExecInfos | None) -> int:
    """Return `Trace.length` of the graph below a node: its depth along the first edge of each node that leads anywhere.

    It reads the graph without making a trace.
    """
    length = 0
    while node is not None and length < MAX_NODES and (limits is None or limits[node].needed):
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
    """Return what `Trace.token_at` would return for this graph, without making a trace."""
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
    """Return the key under which a backward is looked up before its graph has been walked."""
    node: Any = root
    limited = None if limits is None else (limits.executed, captures)
    found: list[Any] = [keep_graph, limited, root.dtype, input_nr]
    if root.shape is None:
        # The guards of a compiled function check every node except the root.
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


#: How many shallow keys are kept, and how many compiled functions.
MAX_KEYS = 1024
MAX_PROGRAMS = 256
#: A guard failure adds this weight to `Entry.guard_failures`, and a hit subtracts one.
GUARD_FAILURE_WEIGHT = 2
#: From this sum on the next graph is walked, which finds the function that fits, or counts a new candidate.
MAX_GUARD_FAILURES = 4
#: A walk takes several times as long as a run of the engine. So after PATIENCE walks in a row of graphs that did not
#: repeat, only one graph in SAMPLING_INTERVAL is walked. Each further such walk doubles the interval, MAX_DOUBLINGS
#: times at most.
PATIENCE = 32
SAMPLING_INTERVAL = 64
MAX_DOUBLINGS = 5


class CompiledStats(NamedTuple):
    """What compiled autograd has done in this process.

    Attributes:
        compilations: how many functions have been compiled.
        hits: how many backward passes ran in a compiled function from beginning to end.
        misses: how many other backward passes began while compiled autograd was on: the engine ran them, or a part of
            them, or they failed.
        reasons: the reasons of the misses, each with its number of misses.

    Example:
        >>> import asyncgrad as ag
        >>> ag.engine.compiled_stats().compilations >= 0
        True
    """

    compilations: int
    hits: int
    misses: int
    reasons: Mapping[str, int]


class _Lookup(NamedTuple):
    """The backward for which a compiled function is looked up."""

    shallow_key: tuple[Any, ...]
    root: Node
    limits: ExecInfos | None
    captures: int
    keep_graph: bool
    input_nr: int
    after: int

    def is_unchanged(self) -> bool:
        """Tell whether the shallow key is the same as at the begin of the backward."""
        return self.shallow_key == shallow_key_of(self.root, self.limits, self.captures, self.keep_graph, self.input_nr)


#: Held by a cache. Reentrant: the garbage collector may end an abandoned backward, which calls the cache, meanwhile.
_MUTEX = hold_in_forks(threading.RLock())


@final
class Cache:
    """The buckets, the compiled functions and the statistics of this process.

    One lock guards them. It is held only for a few lookups at a time, never while a graph is walked or compiled.
    """

    __slots__ = ("_buckets", "_compilations", "_hits", "_lock", "_next_number", "_next_use", "_programs", "_reasons")

    def __init__(self) -> None:
        self._lock = _MUTEX
        #: By shallow key, the oldest first.
        self._buckets: dict[Any, Bucket] = {}
        #: The functions that are kept, each with its bucket.
        self._programs: dict[Program, Bucket] = {}
        self._next_use = itertools.count(1).__next__
        self._next_number = itertools.count(1).__next__
        self._compilations = 0
        self._hits = 0
        self._reasons: Counter[str] = Counter()

    def stats(self) -> CompiledStats:
        """Return the current CompiledStats."""
        with self._lock:
            reasons = dict(self._reasons)
            return CompiledStats(self._compilations, self._hits, sum(reasons.values()), MappingProxyType(reasons))

    def miss(self, reason: str) -> None:
        """Count a backward that no compiled function runs."""
        with self._lock:
            self._reasons[reason] += 1

    def find(
        self, task: GraphTask, after: int, grad: Any, input_nr: int, make_fallback: Callable[[GraphTask, Any], Executor]
    ) -> CompiledExecutor | CompilingExecutor | None:
        """Return an executor that runs a backward by a compiled function; None, with the reason counted, if none may.

        It is a CompiledExecutor if the shallow key leads to a function, and a CompilingExecutor if the graph has to be
        walked first.

        Args:
            task: the backward.
            after: how many times its graph has to be seen before it is compiled.
            grad: the gradient that arrives at its root.
            input_nr: the input of the root at which it arrives.
            make_fallback: makes the executor to use if the search or the compilation gives no function.
        """
        root, limits = task.root, task.limits
        shallow_key = shallow_key_of(root, limits, len(task.captured), task.keep_graph, input_nr)
        with self._lock:
            bucket = self._buckets.get(shallow_key)
            if bucket is None:
                bucket = self._buckets[shallow_key] = Bucket()
                if len(self._buckets) > MAX_KEYS:
                    self._drop_bucket(self._buckets.pop(next(iter(self._buckets))))
            entry = bucket.entry_of(root, limits)
            if entry.programs and entry.guard_failures < MAX_GUARD_FAILURES:
                trace, program = entry.programs[0]
                if program.is_measured():
                    self._reasons["a body that is measured"] += 1
                    return None
                program.last_used = self._next_use()
                return CompiledExecutor(task, program, root, grad, self.record_end, (bucket, entry, trace, limits))
            if not self._should_walk(entry, after):
                self._reasons["seen too seldom"] += 1
                return None
        lookup = _Lookup(shallow_key, root, limits, len(task.captured), task.keep_graph, input_nr, after)
        return CompilingExecutor(task, self._find_or_fall_back(lookup, bucket, entry, make_fallback), grad)

    def _find_or_fall_back(
        self, lookup: _Lookup, bucket: Bucket, entry: Entry, make_fallback: Callable[[GraphTask, Any], Executor]
    ) -> Slices[Callable[[GraphTask, Any], Executor]]:
        return (yield from self._find_or_compile(lookup, bucket, entry)) or make_fallback

    def _find_or_compile(
        self, lookup: _Lookup, bucket: Bucket, entry: Entry
    ) -> Slices[Callable[[GraphTask, Any], CompiledExecutor] | None]:
        """Walk the graph, and compile it if due; return what makes the executor, or None if there is no function."""
        with self._lock:
            if entry.is_busy:
                self._reasons["another backward compiles it"] += 1
                return None
            entry.is_busy = True
        try:
            found = yield from self._walk(lookup, bucket, entry)
        except Unsupported as unsupported:
            with self._lock:
                entry.warm_ups += 1
                self._reasons[str(unsupported)] += 1
            return None
        except Exception:
            self.miss(AN_ERROR)
            raise
        finally:
            # Also where the generator is closed before its end.
            entry.is_busy = False
        if found is None:
            self.miss("seen too seldom")
            return None
        if not lookup.is_unchanged():
            self.miss(CHANGED_MEANWHILE)
            return None
        trace, program, entry = found
        program.last_used = self._next_use()
        origin = (bucket, entry, trace, lookup.limits)
        return lambda task, grad: CompiledExecutor(task, program, lookup.root, grad, self.record_end, origin)

    def record_end(
        self,
        origin: tuple[Bucket, Entry, Trace, ExecInfos | None],
        root: Node,
        reason: str | None = None,
        op: int = -1,
    ) -> None:
        """Count the end of a run of a compiled function.

        Args:
            origin: the bucket, the entry and the trace of the function, and the limits of the backward.
            root: the root of the backward.
            reason: why the function was left; None if it ran to its end.
            op: the op at which a guard failed.
        """
        bucket, entry, trace, limits = origin
        if reason is not None:
            LOG.debug("a compiled backward from %s goes on uncompiled: %s", root.name, reason)
        with self._lock:
            if reason is None:
                self._hits += 1
                if entry.guard_failures:
                    entry.guard_failures -= 1
                return
            self._reasons[reason] += 1
            if reason != OTHER_GRAPH:
                return
            bucket.split_after(trace, op)
            entry = bucket.entry_of(root, limits)
            if entry.programs:
                entry.guard_failures += GUARD_FAILURE_WEIGHT
            else:
                # This graph is the first one seen with its key.
                entry.seen = max(entry.seen, 1)

    def sources(self, root: Node, limits: ExecInfos | None, captures: int, input_nr: int) -> list[str]:
        """Return the source of each function compiled for the graph at an input of `root`."""
        trace, _ = run_to_end(trace_backward(root, limits, input_nr))
        with self._lock:
            known = [
                one
                for keep_graph in (False, True)
                if (bucket := self._buckets.get(shallow_key_of(root, limits, captures, keep_graph, input_nr)))
                is not None
                for one in bucket.entry_of(root, limits).programs
            ]
        return [program.source for known_trace, program in known if run_to_end(known_trace.matches(trace))]

    def _should_walk(self, entry: Entry, after: int) -> bool:
        if not entry.programs and not entry.candidates and entry.seen + 1 < after:
            entry.seen += 1
            return False
        if entry.warm_ups >= PATIENCE:
            entry.skipped += 1
            if entry.skipped < SAMPLING_INTERVAL << min(entry.warm_ups - PATIENCE, MAX_DOUBLINGS):
                return False
            entry.skipped = 0
        return True

    def _walk(self, lookup: _Lookup, bucket: Bucket, entry: Entry) -> Slices[tuple[Trace, Program, Entry] | None]:
        """Walk the graph; return its trace, its function and the entry of that, or None if it is not compiled yet."""
        trace, nodes = yield from trace_backward(lookup.root, lookup.limits, lookup.input_nr)
        with self._lock:
            programs = list(entry.programs)
        for one in programs:
            if (yield from one[0].matches(trace)):
                with self._lock:
                    entry = bucket.entry_for(trace)
                    # Another thread may have dropped the function meanwhile; it still fits this graph.
                    if one in entry.programs:
                        entry.programs.remove(one)
                        entry.programs.insert(0, one)
                        entry.guard_failures = GUARD_FAILURE_WEIGHT
                return *one, entry
        candidate = yield from self._find_candidate(entry, trace, bucket)
        with self._lock:
            if candidate.seen < lookup.after:
                # Looked up again: a split of the bucket replaces its entries.
                bucket.entry_for(trace).remember(candidate.trace, candidate.seen + 1)
                return None
        yield from add_sources(trace, nodes, lookup.limits)
        work = compile_backward(trace, lookup.keep_graph, lookup.limits is not None, self._next_number())
        program = yield from work
        with self._lock:
            entry = bucket.entry_for(trace)
            entry.candidates = [one for one in entry.candidates if one.trace is not candidate.trace]
            entry.seen = entry.warm_ups = entry.guard_failures = 0
            entry.programs.insert(0, (trace, program))
            self._compilations += 1
            program.last_used = self._next_use()
            self._programs[program] = bucket
            if len(self._programs) > MAX_PROGRAMS:
                oldest = min(self._programs, key=lambda one: one.last_used)
                self._drop_program(oldest, self._programs[oldest])
        LOG.debug("compiled a backward of %d operations from %s", trace.length, lookup.root.name)
        return trace, program, entry

    def _find_candidate(self, entry: Entry, trace: Trace, bucket: Bucket) -> Slices[Candidate]:
        """Return the candidate that matches a trace; if none does, a new one, after splitting the bucket."""
        with self._lock:
            known = list(entry.candidates)
        for one in known:
            if (yield from one.trace.matches(trace)):
                entry.warm_ups = 0
                return one
        if not known:
            entry.warm_ups = 0
            return Candidate(trace, entry.seen)
        op = yield from known[0].trace.first_difference(trace)
        with self._lock:
            entry.warm_ups += 1
            bucket.split_between(known[0].trace, trace, op)
        return Candidate(trace, 0)

    def _drop_program(self, program: Program, bucket: Bucket) -> None:
        del self._programs[program]
        forget_lines(program.filename)
        for entry in bucket.entries.values():
            entry.programs = [known for known in entry.programs if known[1] is not program]

    def _drop_bucket(self, bucket: Bucket) -> None:
        for entry in bucket.entries.values():
            for _, program in entry.programs:
                if program in self._programs:
                    del self._programs[program]
                    forget_lines(program.filename)


#: One for the process: a context that turns compiled autograd on again finds what was compiled before.
CACHE = Cache()
