"""Which backward passes have been seen, and the compiled functions of those that repeat.

Bounded, and shared by all contexts and threads. What is looked up before a graph has been walked is a sketch of it: its
root, and a few nodes. Sketches that are equal may be of different graphs. A description, made by a walk
through the graph, settles that before anything is compiled; a compiled function settles it, exactly, while it runs;
and where one finds another graph, the place where they differ becomes part of the sketch, or, if that is deep down, the
length of the graph.
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
from .compiling import compile_backward, forget
from .description import Cannot, Description, describe, give_sources, token_of
from .gait import OTHER_GRAPH, CompiledGait
from .program import Program

if TYPE_CHECKING:
    from ...graph.node import Node
    from ..exec_info import ExecInfos
    from ..graph_task import GraphTask

__all__ = ["CACHE", "Cache", "CompiledStats"]

#: How many sketches are remembered, and how many compiled functions.
MOST_SKETCHES = 1024
MOST_PROGRAMS = 256
#: Nodes in a sketch, the root included.
SKETCHED = 3
#: Places that a sketch may have beside them, and how many edges may lead there.
MOST_PATHS = 4
LONGEST_PATH = 64
#: A function that did not fit counts as many against the next try, one that did takes one off. From so many on a walk
#: through the graph finds the function that fits, or begins to count the sightings of another graph.
MISFIT = 2
MOST_MISFITS = 4
#: After so many walks in a row through graphs that did not repeat, only one in 64 is walked.
PATIENCE = 32
PAUSE = 64


class CompiledStats(NamedTuple):
    """What compiled autograd has done in this process.

    Attributes:
        compilations: how many functions have been compiled.
        hits: backward passes that a compiled function ran from beginning to end.
        misses: backward passes that the engine ran, all or the rest of, where compiled autograd was on.
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


@final
class _State:
    """What is known of the graphs of one sketch."""

    __slots__ = ("description", "is_busy", "misfits", "programs", "seen", "skipped", "strangers")

    def __init__(self) -> None:
        #: Descriptions and their functions, the one that fitted last in front.
        self.programs: list[tuple[Description, Program]] = []
        #: How often in a row the same graph has been seen, and no function run.
        self.seen = 0
        #: Of the last of them, if that was walked through.
        self.description: Description | None = None
        #: How badly the function in front has fitted of late: see MISFIT.
        self.misfits = 0
        #: How many walks in a row have found a graph that was not the one before; and backward passes since the last.
        self.strangers = 0
        self.skipped = 0
        #: Whether a thread is compiling.
        self.is_busy = False


@final
class _Family:
    """The states of graphs with one root; where `paths` lead tells them apart, and perhaps how long they are."""

    __slots__ = ("measures_length", "only", "paths", "states")

    def __init__(self) -> None:
        self.paths: list[tuple[int, ...]] = []
        self.measures_length = False
        #: The one state while there is no path.
        self.only = _State()
        self.states: dict[Any, _State] = {(): self.only}

    def state_of(self, root: Node, limits: ExecInfos | None) -> _State:
        """Return the state of a graph, made now if it is the first of its kind."""
        if not self.paths and not self.measures_length:
            return self.only
        key = self._key(partial(_token_at, root), partial(_length, root, limits))
        state = self.states.get(key)
        if state is None:
            state = self.states[key] = _State()
        return state

    def learn(self, description: Description, step: int) -> None:
        """Tell graphs apart by what follows a step of `description`, too."""
        to_step = description.path_to(step)
        if len(to_step) >= LONGEST_PATH:
            self._measure_length()
        if len(self.paths) >= MOST_PATHS:
            return
        paths = [(*to_step, edge) for edge, target in enumerate(description.steps[step].targets) if target is not None]
        new = [path for path in paths if path not in self.paths and len(path) <= LONGEST_PATH]
        if not new:
            return
        self.paths += new[: MOST_PATHS - len(self.paths)]
        self._sort_anew()

    def measure_length(self, one: Description, other: Description) -> bool:
        """Tell graphs apart by their lengths from now on, if these two differ in it; tell whether that is new.

        Those of a recurrent network do, whose sequences are not all of one length.
        """
        if self.measures_length or one.length() == other.length():
            return False
        self._measure_length()
        return True

    def _measure_length(self) -> None:
        if not self.measures_length:
            self.measures_length = True
            self._sort_anew()

    def _key(self, token_at: Callable[[tuple[int, ...]], Any], length: Callable[[], int]) -> tuple[Any, ...]:
        tokens = tuple([token_at(path) for path in self.paths])
        return (length(), *tokens) if self.measures_length else tokens

    def _sort_anew(self) -> None:
        states, self.states = self.states, {}
        for state in states.values():
            for described, program in state.programs:
                key = self._key(described.token_at, described.length)
                self.states.setdefault(key, _State()).programs.append((described, program))


def _length(node: Any, limits: ExecInfos | None) -> int:
    """Return how many nodes follow each other by the first edge that leads anywhere."""
    length = 0
    while node is not None and (limits is None or limits[node].needed):
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


def _token_at(node: Any, path: tuple[int, ...]) -> Any:
    for edge in path:
        targets = node.next_nodes
        node = targets[edge] if edge < len(targets) else None
        if node is None:
            return None
    return token_of(node)


def _sketch(root: Node, limits: ExecInfos | None, captures: int, keep_graph: bool, input_nr: int) -> tuple[Any, ...]:
    node: Any = root
    limited = None if limits is None else (limits.executed, captures)
    found: list[Any] = [keep_graph, limited, root.dtype, input_nr]
    if root.shape is None:
        # The function that is picked looks at all nodes but the root.
        found.append(root.input_metadata)
    for _ in range(SKETCHED):
        plan = getattr(node, "plan", None)
        found.append(type(node) if plan is None else plan)
        found.append(node.shape)
        found.append(node.special is None)
        for target in node.next_nodes:
            if target is not None:
                node = target
                break
        else:
            break
    return tuple(found)


@final
class Cache:
    """All of it, behind one lock."""

    __slots__ = ("_compilations", "_families", "_hits", "_lock", "_number", "_programs", "_reasons", "_uses")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: The oldest in front.
        self._families: dict[Any, _Family] = {}
        #: Each with where it was found.
        self._programs: dict[Program, _Family] = {}
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

    def find(self, task: GraphTask, after: int, grad: Any, input_nr: int) -> CompiledGait | None:
        """Return the gait of a function compiled for a backward like this one, or None.

        It is compiled now if such a backward has been seen `after` times.
        """
        root, limits = task.root, task.limits
        sketch = _sketch(root, limits, len(task.captured), task.keep_graph, input_nr)
        with self._lock:
            family = self._families.get(sketch)
            if family is None:
                family = self._families[sketch] = _Family()
                if len(self._families) > MOST_SKETCHES:
                    self._forget(self._families.pop(next(iter(self._families))))
            state = family.state_of(root, limits)
            if state.programs and state.misfits < MOST_MISFITS:
                description, program = state.programs[0]
                if program.is_measured():
                    self._reasons["a body that is measured"] += 1
                    return None
                program.last_used = self._uses()
                return CompiledGait(program, root, grad, self.ended, (family, state, description, limits))
            if not self._is_to_be_walked(state, after):
                self._reasons["seen too seldom"] += 1
                return None
            state.is_busy = True
        try:
            found = self._walk(family, state, task, after, input_nr)
        except Cannot as cannot:
            with self._lock:
                state.strangers += 1
                self._reasons[str(cannot)] += 1
            return None
        finally:
            state.is_busy = False
        if found is None:
            self.miss("seen too seldom")
            return None
        description, program = found
        return CompiledGait(program, root, grad, self.ended, (family, state, description, limits))

    def ended(
        self,
        entry: tuple[_Family, _State, Description, ExecInfos | None],
        root: Node,
        reason: str | None = None,
        step: int = -1,
    ) -> None:
        """Note that a function has run to its end, or why it was left, and at which step."""
        family, state, description, limits = entry
        with self._lock:
            if reason is None:
                self._hits += 1
                if state.misfits:
                    state.misfits -= 1
                return
            self._reasons[reason] += 1
            if reason != OTHER_GRAPH:
                return
            family.learn(description, step)
            state = family.state_of(root, limits)
            if state.programs:
                state.misfits += MISFIT
            else:
                # That was the first of its kind to be seen.
                state.seen = max(state.seen, 1)

    def sources(self, root: Node, limits: ExecInfos | None, captures: int, input_nr: int) -> list[str]:
        """Return the source of each function compiled for the graph at an input of `root`."""
        description = describe(root, limits, input_nr)
        with self._lock:
            return [
                program.source
                for keep_graph in (False, True)
                if (family := self._families.get(_sketch(root, limits, captures, keep_graph, input_nr))) is not None
                for known, program in family.state_of(root, limits).programs
                if known.is_like(description)
            ]

    def _is_to_be_walked(self, state: _State, after: int) -> bool:
        if state.is_busy:
            return False
        if not state.programs and state.description is None and state.seen + 1 < after:
            state.seen += 1
            return False
        if state.strangers >= PATIENCE:
            state.skipped += 1
            if state.skipped % PAUSE:
                return False
        return True

    def _walk(
        self, family: _Family, state: _State, task: GraphTask, after: int, input_nr: int
    ) -> tuple[Description, Program] | None:
        """Describe the graph; return the function for it, compiled now if it is due."""
        description = describe(task.root, task.limits, input_nr)
        with self._lock:
            for index, (known, program) in enumerate(state.programs):
                if known.is_like(description):
                    state.programs.insert(0, state.programs.pop(index))
                    state.misfits = MISFIT
                    return known, program
            known_before = state.description
            if known_before is None or known_before.is_like(description):
                state.strangers = 0
            else:
                state.strangers += 1
                state.seen = 0
                if family.measure_length(known_before, description):
                    state = family.state_of(task.root, task.limits)
            state.description = description
            if state.seen < after:
                state.seen += 1
                return None
        give_sources(description, task.root, task.limits)
        program = compile_backward(description, task.keep_graph, task.limits is not None, self._number())
        with self._lock:
            state.description, state.seen, state.strangers, state.misfits = None, 0, 0, 0
            state.programs.insert(0, (description, program))
            self._compilations += 1
            program.last_used = self._uses()
            self._programs[program] = family
            if len(self._programs) > MOST_PROGRAMS:
                oldest = min(self._programs, key=lambda one: one.last_used)
                self._drop(oldest, self._programs[oldest])
        return description, program

    def _drop(self, program: Program, family: _Family) -> None:
        del self._programs[program]
        forget(program)
        for state in family.states.values():
            state.programs = [known for known in state.programs if known[1] is not program]

    def _forget(self, family: _Family) -> None:
        for state in family.states.values():
            for _, program in state.programs:
                if program in self._programs:
                    del self._programs[program]
                    forget(program)


#: Shared by the whole process, as what was seen and compiled outlives the `with` that asked for it.
CACHE = Cache()
