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
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, final

from .compiling import compile_backward, forget
from .description import Cannot, Description
from .executor import AN_ERROR, OTHER_GRAPH, CompiledExecutor, CompilingExecutor
from .families import Candidate, Family, State, sketch_of
from .gathering import CHANGED_MEANWHILE, describe, give_sources
from .slices import at_once

if TYPE_CHECKING:
    from ...graph.node import Node
    from ..exec_info import ExecInfos
    from ..executor import Executor
    from ..graph_task import GraphTask
    from .program import Program
    from .slices import Slices

__all__ = ["CACHE", "Cache", "CompiledStats"]

#: How many sketches are remembered, and how many compiled functions.
MOST_SKETCHES = 1024
MOST_PROGRAMS = 256
#: A function that did not fit counts as many against the next try, one that did takes one off. From so many on a walk
#: through the graph finds the function that fits, or begins to count the sightings of another graph.
MISFIT = 2
MOST_MISFITS = 4
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

    sketch: tuple[Any, ...]
    root: Node
    limits: ExecInfos | None
    captures: int
    keep_graph: bool
    input_nr: int
    after: int

    def is_as_sketched(self) -> bool:
        """Tell whether the graph still looks as it did when the backward began."""
        return self.sketch == sketch_of(self.root, self.limits, self.captures, self.keep_graph, self.input_nr)


@final
class Cache:
    """All of it, behind one lock, which is never held for longer than a few looks."""

    __slots__ = ("_compilations", "_families", "_hits", "_lock", "_number", "_programs", "_reasons", "_uses")

    def __init__(self) -> None:
        # A backward that nobody awaits any more ends where the garbage collector finds it, be that in here.
        self._lock = threading.RLock()
        #: The oldest in front.
        self._families: dict[Any, Family] = {}
        #: Each with where it was found.
        self._programs: dict[Program, Family] = {}
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
        sketch = sketch_of(root, limits, len(task.captured), task.keep_graph, input_nr)
        with self._lock:
            family = self._families.get(sketch)
            if family is None:
                family = self._families[sketch] = Family()
                if len(self._families) > MOST_SKETCHES:
                    self._forget(self._families.pop(next(iter(self._families))))
            state = family.state_of(root, limits)
            if state.programs and state.misfits < MOST_MISFITS:
                description, program = state.programs[0]
                if program.is_measured():
                    self._reasons["a body that is measured"] += 1
                    return None
                program.last_used = self._uses()
                return CompiledExecutor(task, program, root, grad, self.ended, (family, state, description, limits))
            if not self._is_to_be_walked(state, after):
                self._reasons["seen too seldom"] += 1
                return None
        sought = _Sought(sketch, root, limits, len(task.captured), task.keep_graph, input_nr, after)
        return CompilingExecutor(task, self._found_or(sought, family, state, otherwise), grad)

    def _found_or(
        self, sought: _Sought, family: Family, state: State, otherwise: Callable[[GraphTask, Any], Executor]
    ) -> Slices[Callable[[GraphTask, Any], Executor]]:
        return (yield from self._found(sought, family, state)) or otherwise

    def _found(
        self, sought: _Sought, family: Family, state: State
    ) -> Slices[Callable[[GraphTask, Any], CompiledExecutor] | None]:
        """Return what makes the executor of the function that walking and compiling gives; None if there is none."""
        with self._lock:
            if state.is_busy:
                self._reasons["another backward compiles it"] += 1
                return None
            state.is_busy = True
        try:
            found = yield from self._walk(sought, family, state)
        except Cannot as cannot:
            with self._lock:
                state.strangers += 1
                self._reasons[str(cannot)] += 1
            return None
        except Exception:
            self.miss(AN_ERROR)
            raise
        finally:
            # However it ends, be it that whoever did it a little at a time gives up.
            state.is_busy = False
        if found is None:
            self.miss("seen too seldom")
            return None
        if not sought.is_as_sketched():
            self.miss(CHANGED_MEANWHILE)
            return None
        description, program, state = found
        program.last_used = self._uses()
        entry = (family, state, description, sought.limits)
        return lambda task, grad: CompiledExecutor(task, program, sought.root, grad, self.ended, entry)

    def ended(
        self,
        entry: tuple[Family, State, Description, ExecInfos | None],
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
        description, _ = at_once(describe(root, limits, input_nr))
        with self._lock:
            known = [
                one
                for keep_graph in (False, True)
                if (family := self._families.get(sketch_of(root, limits, captures, keep_graph, input_nr))) is not None
                for one in family.state_of(root, limits).programs
            ]
        return [program.source for described, program in known if at_once(described.is_like(description))]

    def _is_to_be_walked(self, state: State, after: int) -> bool:
        if not state.programs and not state.candidates and state.seen + 1 < after:
            state.seen += 1
            return False
        if state.strangers >= PATIENCE:
            state.skipped += 1
            if state.skipped < PAUSE << min(state.strangers - PATIENCE, MOST_DOUBLINGS):
                return False
            state.skipped = 0
        return True

    def _walk(self, sought: _Sought, family: Family, state: State) -> Slices[tuple[Description, Program, State] | None]:
        """Describe the graph; return the function for it, compiled now if it is due, and where that is kept."""
        description, nodes = yield from describe(sought.root, sought.limits, sought.input_nr)
        with self._lock:
            programs = list(state.programs)
        for one in programs:
            if (yield from one[0].is_like(description)):
                with self._lock:
                    state = family.state_for(description)
                    # It may have been dropped meanwhile, and still is of this graph.
                    if one in state.programs:
                        state.programs.remove(one)
                        state.programs.insert(0, one)
                        state.misfits = MISFIT
                return *one, state
        candidate = yield from self._candidate(state, description, family)
        with self._lock:
            if candidate.seen < sought.after:
                # There may be another state in the place of that one now.
                family.state_for(description).remember(candidate.description, candidate.seen + 1)
                return None
        yield from give_sources(description, nodes, sought.limits)
        work = compile_backward(description, sought.keep_graph, sought.limits is not None, self._number())
        program = yield from work
        with self._lock:
            state = family.state_for(description)
            state.candidates = [one for one in state.candidates if one.description is not candidate.description]
            state.seen = state.strangers = state.misfits = 0
            state.programs.insert(0, (description, program))
            self._compilations += 1
            program.last_used = self._uses()
            self._programs[program] = family
            if len(self._programs) > MOST_PROGRAMS:
                oldest = min(self._programs, key=lambda one: one.last_used)
                self._drop(oldest, self._programs[oldest])
        return description, program, state

    def _candidate(self, state: State, description: Description, family: Family) -> Slices[Candidate]:
        """Return what is remembered of a graph that has no function; if nothing is, it is told apart from others."""
        with self._lock:
            known = list(state.candidates)
        for one in known:
            if (yield from one.description.is_like(description)):
                state.strangers = 0
                return one
        if not known:
            state.strangers = 0
            return Candidate(description, state.seen)
        step = yield from known[0].description.first_difference(description)
        with self._lock:
            state.strangers += 1
            family.tell_apart(known[0].description, description, step)
        return Candidate(description, 0)

    def _drop(self, program: Program, family: Family) -> None:
        del self._programs[program]
        forget(program)
        for state in family.states.values():
            state.programs = [known for known in state.programs if known[1] is not program]

    def _forget(self, family: Family) -> None:
        for state in family.states.values():
            for _, program in state.programs:
                if program in self._programs:
                    del self._programs[program]
                    forget(program)


#: Shared by the whole process, as what was seen and compiled outlives the `with` that asked for it.
CACHE = Cache()
