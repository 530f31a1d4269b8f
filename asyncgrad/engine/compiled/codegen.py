"""From a trace to the functions that run it: how it is cut, and the source of each op.

A line that runs once per backward has left the caches of the processor by the next one: of 4,000 nodes written one
after the other, each costs 0.4 µs more than if the same few lines serve them all. And segments are short, since Python
compiles a function in one go, and an event loop stands still meanwhile: 24 small nodes take it about a millisecond. To
go on from one segment to the next costs half a microsecond, a fiftieth of what they take to run.

Each op looks whether the nodes that its edges lead to are those that it was written for, runs the body, releases
what was saved, and adds the gradients to those of the next nodes, in the engine's order. What it looks at is all that
the lines after it depend on; the graph's structure is checked exactly, each edge by itself.

Where some ops run as NodeTasks, others may look on, and each leaf takes its gradient as soon as that is whole.
"""

from __future__ import annotations

import linecache
from bisect import bisect
from itertools import groupby, pairwise
from math import prod
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, final

from .emit import (
    CARRIED,
    FEW_LEAVES,
    GradLocals,
    LocalAllocator,
    SourceBuilder,
    leaf_guards,
    limits_guards,
    node_guards,
    write_results,
)
from .program import LineKind, Program, Segment

if TYPE_CHECKING:
    from ...graph.lowering import BodySource
    from .program import Place, Segment
    from .trace import Op, Slices, Target, Trace

__all__ = ["PIECE", "CodeGenerator", "boundaries", "compile_backward", "forget"]

#: The most ops in one function.
PIECE = 24
#: The longest pattern that is looked for, in ops.
LONGEST_PATTERN = 512


def boundaries(trace: Trace) -> Slices[list[int]]:
    """Return the numbers of the ops at which segments begin, the first among them, and the number of ops.

    Where the ops repeat after a while, so do the boundaries, and such segments come out alike.
    """
    count = len(trace.ops)
    if count <= PIECE:
        return [0, count]
    kinds = yield from _kinds(trace.ops)
    begin, end, period = yield from _pattern(kinds)
    # The first two repetitions differ: in them leaves are met for the first time, and their sums begin.
    length = PIECE if period is None else max(1, PIECE // period) * period
    starts = list(range(0, begin, PIECE))
    last = begin
    while last + length <= end:
        yield 0.0
        # A pattern that is longer than a segment is cut into equal parts, at the same places each time.
        parts = -(-length // PIECE)
        starts += [last + part * length // parts for part in range(parts)]
        last += length
    starts += range(last, count, PIECE)
    return [*sorted({0, *starts}), count]


def _kinds(ops: list[Op]) -> Slices[list[int]]:
    """Return a number for each op, the same for those that do the same to the same places around them."""
    numbers: dict[Any, int] = {}
    kinds = []
    for index, op in enumerate(ops):
        yield 0.0
        around = tuple(
            None if target is None else (target.is_leaf, target.number if target.is_leaf else target.number - index)
            for target in op.targets
        )
        kinds.append(numbers.setdefault((op.token, around), len(numbers)))
    return kinds


def _pattern(kinds: list[int]) -> Slices[tuple[int, int, int | None]]:
    """Return where the longest row of repetitions that goes by the middle begins and ends, and its period."""
    middle = len(kinds) // 2
    best: tuple[int, int, int | None] = (0, 0, None)
    for period in range(1, min(LONGEST_PATTERN, len(kinds) - middle - 1)):
        yield 0.0
        if kinds[middle] != kinds[middle + period] or _adds_nothing(kinds, period, *best):
            continue
        begin, end = middle, middle
        while begin and kinds[begin - 1] == kinds[begin - 1 + period]:
            begin -= 1
            yield 0.0
        while end + period < len(kinds) and kinds[end] == kinds[end + period]:
            end += 1
            yield 0.0
        end += period
        if end - begin >= 3 * period and end - begin > best[1] - best[0]:
            best = (begin, end, period)
    return best


def _adds_nothing(kinds: list[int], period: int, begin: int, end: int, known: int | None) -> bool:
    """Tell whether a multiple of a known period repeats no further than that does."""
    if known is None or period % known or end - period <= len(kinds) // 2:
        return False
    goes_before = begin > 0 and kinds[begin - 1] == kinds[begin - 1 + period]
    goes_behind = end < len(kinds) and kinds[end - period] == kinds[end]
    return not goes_before and not goes_behind


#: How much work may be done before the clock is looked at, in elements of arrays; and what an op counts for.
ELEMENTS_BETWEEN_LOOKS = 8192
ELEMENTS_OF_A_STEP = 512
#: From how many elements on an array is let go of as soon as it is not needed.
LARGE = 2048


@final
class CodeGenerator:
    """Writes one trace, from the first op to the last."""

    __slots__ = (
        "_elements",
        "_keep_graph",
        "_limited",
        "_names",
        "_pending",
        "_runs_node_task",
        "functions",
        "grad_locals",
        "leaf_ends",
        "leaf_grad_locals",
        "leaf_names",
        "leaves_here",
        "leaves_run",
        "node_names",
        "outputs",
        "text",
        "trace",
    )

    def __init__(self, trace: Trace, keep_graph: bool, limited: bool) -> None:
        self.trace = trace
        self.text = SourceBuilder()
        #: By op and by leaf, all made before the first op is written.
        self.grad_locals: list[GradLocals] = []
        self.leaf_grad_locals: list[GradLocals] = []
        self.node_names: list[str] = [""] * len(trace.ops)
        self.leaf_names: list[str] = []
        #: Of the function that is being written: the names of its leaves, by number, and when they run.
        self.leaves_here: dict[int, str] = {}
        self.leaf_ends: dict[int, Place] = {}
        #: Those that have run, in any function.
        self.leaves_run: set[int] = set()
        #: By op, counted from the first of the segment: see Segment.
        self.outputs: dict[int, tuple[str | None, ...]] = {}
        #: The first and last line of each function, its name, and what is known of it.
        self.functions: list[tuple[int, int, str, Segment | None]] = []
        self._keep_graph = keep_graph
        self._limited = limited
        self._names = LocalAllocator()
        #: The ops that have been reached, in the order in which they will run.
        self._pending: list[int] = []
        self._elements = 0
        self._runs_node_task = trace.runs_node_task

    def _write_op(self, index: int, is_last: bool) -> None:
        op, text = self.trace.ops[index], self.text
        self._pending.remove(index)
        text.emit_comment(f"{op.name}, {op.shape if op.shape is not None else f'{len(op.metadata)} inputs'}")
        grad_locals = self.grad_locals[index]
        names = {"node": self.node_names[index], "grads": f"[{', '.join(map(str, grad_locals.names))}]"}
        if op.shape is not None:
            names["g"] = str(grad_locals.names[0])
        if not index and self._limited:
            self._raise_if(limits_guards(text, names["node"], op.limits))
        if op.runs_node_task:
            self._write_node_task(index, op)
        else:
            for input_nr, result_nr in () if op.limits is None else op.limits[1]:
                text.emit(f"captured[{result_nr}] = {grad_locals.names[input_nr]}", LineKind.BODY)
            if op.body is not None:
                self._write_body(index, op, names)
        self._let_go(index, op)
        if self._runs_node_task:
            self._write_leaves(index)
        self._look_at_clock(index, op, is_last)
        self._names.give_back(self.node_names[index])

    def _write_body(self, index: int, op: Op, names: dict[str, str]) -> None:
        """Write what an op does whose body runs."""
        body, text = op.body, self.text
        assert body is not None
        constants = body.constants
        saved = {f"s{nr}": self._names.take("s") for nr in range(body.names)}
        names |= saved
        for line in body.unpacking:
            text.emit(text.filled(line, names, constants), LineKind.GUARD)
        if body.may_be_heavy:
            body = op.body = self._write_heavy(body, names)
        self._write_gather(index, op)
        for line in body.statements:
            text.emit(text.filled(line, names, constants), LineKind.BODY)
        values = self._names_of_results(op, names)
        write_results(text, op, names, values)
        if not self._keep_graph:
            for line in body.release:
                text.emit(text.filled(line, names, constants), LineKind.BODY)
        self._write_deliveries(index, op, values)
        for name in saved.values():
            self._names.give_back(name)

    def _write_heavy(self, body: BodySource, names: dict[str, str]) -> BodySource:
        """Write what leaves a body to a worker that should have it; return what runs it where it stays."""
        node, grad = names["node"], names.get("g", names["grads"])
        where, results = body.heavy_where, body.results
        is_large = f"{self.text.filled(where, names, body.constants)} and " if where else ""
        self.text.emit(f"if {is_large}is_for_a_worker({node}, {grad}): raise OffloadSignal", LineKind.GUARD)
        measured = f"{'run_here' if self._limited else 'run_measured'}({node}, {grad})"
        if not where or isinstance(results, str):
            return body._replace(results=measured, statements=())
        # What is small is not measured, which takes as long.
        return body._replace(results=f"{measured} if {where} else ({', '.join(map(str, results))},)")

    # What others may look on at.

    def _write_node_task(self, index: int, op: Op) -> None:
        """Write what has a node run by a NodeTask, and delivers what that gives."""
        text, node = self.text, self.node_names[index]
        self._write_gather(index, op)
        self._hand_over(self.grad_locals[index], True)
        others = sum(self.trace.ready_after(one) < index for one in self._pending)
        if not op.runs_body:
            text.emit(f"deadline = await captured_at({node}, grads{_more(others)})", LineKind.NODE_TASK, 0)
            return
        values = self._names_of_results(op, {})
        self.outputs[text.op] = tuple(values)
        taken = ", ".join(value or "_" for value in values)
        taken = f"({taken}{',' * (len(values) == 1)})" if any(values) else "_"
        text.emit(f"{taken}, deadline = await run_node_task({node}, grads{_more(others)})", LineKind.NODE_TASK, 0)
        given = [value for value in values if value is not None]
        if given:
            undefined = " or ".join(f"{value} is None" for value in given)
            text.emit(f"if {undefined}: raise GuardFailed", LineKind.EDGE, 0)
        self._write_deliveries(index, op, values)

    def _hand_over(self, grad_locals: GradLocals, may_wait: bool) -> None:
        """Write what puts gradients into a list, so that nobody else holds them."""
        names = grad_locals.names
        free = self._names.free() if may_wait else []
        if free:
            # Others may ask what is still there.
            self.text.emit(f"{' = '.join(free)} = None")
        emptied = "".join(f", {name}" for name in names if name is not None)
        nothing = ", None" * emptied.count(",")
        self.text.emit(f"grads{emptied} = [{', '.join(map(str, names))}]{nothing}")

    def _write_leaves(self, index: int) -> None:
        """Write what runs the leaves that have now got all their gradients, in the order in which they got them."""
        text, described = self.text, self.trace
        op = described.ops[index]
        ready = described.leaves_after(index)
        passed_on = self.grad_locals[index].names[0] if op.shape is not None and not op.runs_node_task else None
        if ready and passed_on is not None:
            # What arrived at this op may be what it has handed on.
            text.emit(f"{passed_on} = None")
        waiting = sum(described.ready_after(one) <= index for one in self._pending)
        for nr, leaf in enumerate(ready):
            place, name = described.leaves[leaf], self.leaf_names[leaf]
            arrived = self.leaf_grad_locals[leaf]
            grad = arrived.names[0]
            assert grad is not None
            edge, which = len(op.targets) + nr, list(self.leaves_here).index(leaf)
            self.leaf_ends[leaf] = (text.op, edge)
            self.leaves_run.add(leaf)
            self._hand_over(arrived, place.runs_node_task)
            if place.runs_node_task:
                has_body = place.limits is None or place.limits[0]
                run = "_, deadline = await run_node_task" if has_body else "deadline = await captured_at"
                others = _more(waiting + len(ready) - nr - 1)
                text.emit(f"{run}({name}, grads{others})", LineKind.NODE_TASK, edge, which)
            else:
                text.emit(f"task.run_leaf({name}, grads)", LineKind.BODY, edge, which)
            self._names.give_back(name)
            self._names.give_back(grad)

    # Looking at the next nodes.

    def _write_gather(self, index: int, op: Op) -> None:
        """Write what fetches the nodes that the edges lead to, and looks whether they are the expected ones."""
        text, node = self.text, self.node_names[index]
        # A hook may have done anything.
        fixes_edges = op.body is not None and op.body.fixes_edges and not self._runs_node_task
        taken: list[str] = []
        guards: list[str] = []
        only_compared: list[str] = []
        late: list[str] = []
        settled = len(self.leaf_names)
        for target in op.targets:
            name = "_"
            if target is None:
                if not fixes_edges:
                    name = self._names.take("x")
                    guards.append(f"{name} is not None")
                    only_compared.append(name)
            elif not target.is_wanted:
                name = self._names.take("x")
                guards.append(f"limits.executes({name})")
                only_compared.append(name)
            elif (known := self._known(target)) is not None:
                name = self._names.take("x")
                guards.append(f"{name} is not {known}")
                only_compared.append(name)
            else:
                name = self._meet(index, target, guards, late, settled)
            taken.append(name)
        if not taken:
            guards.append(f"{node}.next_nodes")
        elif any(name != "_" for name in taken):
            text.emit(f"{', '.join(taken)}{',' if len(taken) == 1 else ''} = {node}.next_nodes", LineKind.GUARD)
        if any(target is not None and target.is_wanted and self._has_inputs(target) for target in op.targets):
            input_nrs = tuple(0 if target is None else target.input_nr for target in op.targets)
            guards.insert(0, f"{node}.input_nrs != {input_nrs}")
        self._raise_if(guards)
        for line in late:
            text.emit(line)
        for name in only_compared:
            self._names.give_back(name)

    def _has_inputs(self, target: Target) -> bool:
        """Tell whether an edge could lead to more than one input there."""
        return not target.is_leaf and self.trace.ops[target.number].shape is None

    def _known(self, target: Target) -> str | None:
        """Return the name of what an edge leads to, if another one has led there before."""
        if target.is_leaf:
            return self.leaf_names[target.number] if target.number < len(self.leaf_names) else None
        return self.node_names[target.number] or None

    def _meet(self, index: int, target: Target, guards: list[str], late: list[str], settled: int) -> str:
        """Name a node that no edge has led to before, and look at it; so many leaves have been met by other ops."""
        text = self.text
        if target.is_leaf:
            name = self.leaves_here[target.number] = self._names.take("l")
            leaf, may_move = self.trace.leaves[target.number], self.trace.ops[index].has_meta
            has_set = not self._runs_node_task and settled > FEW_LEAVES
            if has_set:
                guards.append(f"{name} in leaves")
            others = None if self._runs_node_task else self.leaf_names[settled if has_set else 0 :]
            guards += leaf_guards(text, name, leaf, others, may_move)
            self.leaf_names.append(name)
            if has_set:
                late.append(f"leaves.add({name})")
            elif others is not None and len(self.leaf_names) > FEW_LEAVES:
                late[:] = [f"leaves = {{{', '.join(self.leaf_names)}}}"]
            return name
        name = self.node_names[target.number] = self._names.take("n")
        place = bisect(self._pending, target.number)
        before = self.node_names[self._pending[place - 1]] if place else self.node_names[index]
        after = self.node_names[self._pending[place]] if place < len(self._pending) else None
        self._pending.insert(place, target.number)
        op = self.trace.ops[target.number]
        guards += node_guards(text, name, op, before, after)
        if op.runs_node_task or self.trace.ops[index].has_meta:
            guards.append(f"needs_care({name}.device)")
        return name

    def _raise_if(self, guards: list[str]) -> None:
        if guards:
            self.text.emit(f"if {' or '.join(guards)}: raise GuardFailed", LineKind.GUARD)

    # The gradients.

    def _names_of_results(self, op: Op, names: dict[str, str]) -> list[str | None]:
        """Return, for each edge, the name of its gradient; None where none is wanted."""
        results = "" if op.body is None else op.body.results
        values: list[str | None] = []
        for edge, target in enumerate(op.targets):
            if target is None or not target.is_wanted:
                values.append(None)
                continue
            place = self.leaf_grad_locals[target.number] if target.is_leaf else self.grad_locals[target.number]
            value = place.expect(target.input_nr, self._names)
            if not isinstance(results, str) and results[edge] == "$g":
                values.append(names["g"])
                continue
            values.append(value or self._names.take("t"))
        return values

    def _write_deliveries(self, index: int, op: Op, values: list[str | None]) -> None:
        """Write what adds the gradients to those of the next nodes."""
        text, body = self.text, op.body
        before = tuple(values)
        for edge, (target, name) in enumerate(zip(op.targets, before, strict=True)):
            if target is None or name is None:
                continue
            value = name
            place = self.leaf_grad_locals[target.number] if target.is_leaf else self.grad_locals[target.number]
            is_temporary = value[0] == "t"
            owner = self.leaf_names[target.number] if target.is_leaf else self.node_names[target.number]
            wanted = self._spec_at(target)
            # A NodeTask has made them conform.
            spec = wanted if body is None else body.specs[edge] if body.specs else None
            call = f"conform({self.node_names[index]}, {edge}, {owner}, {target.input_nr}, {value})"
            if wanted is None:
                if body is not None:
                    # Nothing but an array may pass.
                    self.outputs[text.op] = before
                    text.emit(f"{value}.shape", LineKind.EDGE, edge)
            elif spec is None:
                self.outputs[text.op] = before
                condition = f"{value}.shape != {wanted[0]} or {value}.dtype is not {text.dtype(wanted[1])}"
                text.emit(f"if {condition}: {value} = {call}", LineKind.EDGE, edge)
            elif spec != wanted:
                if spec[1] == wanted[1]:
                    call = f"sum_to({value}, {wanted[0]})"
                if value == self.grad_locals[index].names[0]:
                    value = place.name_of_first(target.input_nr) or self._names.take("t")
                    is_temporary = value[0] == "t"
                text.emit(f"{value} = {call}", LineKind.BODY)
            line = place.arrive(target.input_nr, value, (text.op, edge))
            if line is not None:
                text.emit(line, LineKind.BODY)
            if is_temporary:
                self._names.give_back(value)
                self._drop(value, 0 if wanted is None else prod(wanted[0]))

    def _spec_at(self, target: Target) -> tuple[tuple[int, ...], Any] | None:
        """Return shape and dtype of what is to arrive there; None where anything may."""
        if target.is_leaf:
            leaf = self.trace.leaves[target.number]
            return leaf.shape, leaf.dtype
        metadata = self.trace.ops[target.number].metadata[target.input_nr]
        return None if metadata is None else (metadata.shape, metadata.dtype)

    def _drop(self, name: str, elements: int) -> None:
        if elements >= LARGE:
            self.text.emit(f"del {name}")

    def _let_go(self, index: int, op: Op) -> None:
        """Give back the names of what an op that has run was given."""
        for name, metadata in zip(self.grad_locals[index].names, op.metadata, strict=True):
            size = 0 if metadata is None else prod(metadata.shape)
            self._elements += size
            if name is not None:
                self._names.give_back(name)
                if not op.runs_node_task:
                    self._drop(name, size)

    def _look_at_clock(self, index: int, op: Op, is_last: bool) -> None:
        """Write a look at the clock where that is due."""
        text = self.text
        if op.runs_node_task:
            # Who ran it has looked.
            self._elements = 0
        if op.runs_node_task or index + 1 == len(self.trace.ops):
            return
        self._elements += ELEMENTS_OF_A_STEP
        if is_last or op.body is None or not op.body.is_short or self._elements >= ELEMENTS_BETWEEN_LOOKS:
            self._elements = 0
            text.op += 1
            node = self.node_names[index]
            text.emit(f"if clock() > deadline: {node}.note_slow(); deadline = await pause()", LineKind.BREAK)

    def write(self) -> Slices[list[str]]:
        """Write all of it; return the names of the functions of its segments, in the order in which they run."""
        for op in self.trace.ops:
            yield 0.0
            self.grad_locals.append(GradLocals(len(op.metadata), "g"))
        for _ in self.trace.leaves:
            yield 0.0
            self.leaf_grad_locals.append(GradLocals(1, "h"))
        self.node_names[0] = self._names.take("n")
        input_nr = self.trace.input_nr
        first = self.grad_locals[0].expect(input_nr, self._names)
        assert first is not None
        self.grad_locals[0].arrive(input_nr, first, CARRIED)
        self._pending.append(0)
        bounds = yield from boundaries(self.trace)
        if len(bounds) == 2:
            yield from self._write_segment("backward", 0, bounds[1])
            return ["backward"]
        #: By text and tables, the name of the function that has them.
        known: dict[tuple[str, ...], str] = {}
        row: list[str] = []
        for begin, end in pairwise(bounds):
            first_line = len(self.text.text)
            name = yield from self._write_segment(f"segment{len(known)}", begin, end)
            lines = tuple(
                line.partition("(")[2] if not nr else line for nr, line in enumerate(self.text.text[first_line:])
            )
            lines += (repr(self.functions[-1][3]),)
            if lines in known:
                self.text.shorten(first_line)
                self.functions.pop()
            row.append(known.setdefault(lines, name))
        self._write_whole(row)
        return row

    def _write_segment(self, name: str, begin: int, end: int) -> Slices[str]:
        """Write the function of the ops from `begin` up to `end`; return its name.

        Its names do not depend on what comes before, so that segments that do the same come out alike.
        """
        text = self.text
        first_line = len(text.text)
        self._elements, self.outputs = 0, {}
        base = ", base" if name != "backward" else ""
        is_first = not begin
        text.emit_head(f"async def {name}(task, clock, deadline{base}, {', '.join(self._rename(is_first))}):")
        if is_first and self._runs_node_task:
            text.emit("left = task.executor.count_edges(n0)")
        if self._limited:
            text.emit("limits, captured, whole = task.limits, task.captured, task.limits.whole")
        for index in range(begin, end):
            yield 0.0
            text.op = index - begin
            self._write_op(index, index + 1 == end)
        if end < len(self.trace.ops):
            text.emit(f"return task, clock, deadline, base + {end - begin}, {', '.join(self._live())}")
        else:
            leaves = self._waiting_leaves()
            grads = [str(self.leaf_grad_locals[leaf].names[0]) for leaf in reversed(leaves)]
            text.emit(f"return [{', '.join(self.leaf_names[leaf] for leaf in leaves)}], [{', '.join(grads)}]")
        self.functions.append((first_line, len(text.text), name, self._segment(begin, end)))
        return name

    def _segment(self, begin: int, end: int) -> Segment:
        """Return what is known of the function that has been written of the ops from `begin` up to `end`."""
        described = self.trace
        ops = [*range(begin, end), *self._pending]
        return Segment(
            {op - begin: self.node_names[op] for op in ops},
            {op - begin: self.grad_locals[op].slots() for op in ops},
            self.outputs,
            list(self.leaves_here.values()),
            [self.leaf_grad_locals[leaf].slots()[0] for leaf in self.leaves_here],
            [self.leaf_ends.get(leaf) for leaf in self.leaves_here],
            frozenset(op - begin for op in ops if described.ops[op].has_meta),
            frozenset(nr for nr, leaf in enumerate(self.leaves_here) if described.leaves[leaf].runs_node_task),
        )

    def _waiting_leaves(self) -> list[int]:
        """Return the numbers of the leaves that have been met and have not run."""
        return [leaf for leaf in range(len(self.leaf_names)) if leaf not in self.leaves_run]

    def _live(self) -> list[str]:
        """Return the names of what goes on from one segment to the next: nodes and gradients, leaves and theirs."""
        found = []
        for op in self._pending:
            found += [self.node_names[op], *self.grad_locals[op].arrived()]
        for leaf in self._waiting_leaves():
            found += [self.leaf_names[leaf], *self.leaf_grad_locals[leaf].arrived()]
        if self._runs_node_task:
            return [*found, "left"]
        return [*found, *(["leaves"] if len(self.leaf_names) > FEW_LEAVES else [])]

    def _rename(self, is_first: bool) -> list[str]:
        """Give new names to all that goes on, the first ones that there are; return them in the order of `_live`."""
        names = self._names = LocalAllocator()
        for op in self._pending:
            self.node_names[op] = names.take("n")
            self.grad_locals[op].rename(names)
        self.leaves_here, self.leaf_ends = {}, {}
        for leaf in self._waiting_leaves():
            self.leaf_names[leaf] = self.leaves_here[leaf] = names.take("l")
            self.leaf_grad_locals[leaf].rename(names)
        return self._live()[:2] if is_first else self._live()

    def _write_whole(self, row: list[str]) -> None:
        """Write the function that calls the others in a row, each with what the one before has left."""
        text = self.text
        begin = len(text.text)
        text.emit_head("async def backward(task, clock, deadline, n0, g0):")
        text.emit(f"state = {row[0]}(task, clock, deadline, 0, n0, g0)")
        again = [(name, len(list(alike))) for name, alike in groupby(row[1:])]
        text.emit(f"# {', '.join(name if times == 1 else f'{times} times {name}' for name, times in again)}")
        text.emit("for segment in segments:")
        text.emit("    state = segment(*await state)")
        text.emit("return await state")
        self.functions.append((begin, len(text.text), "backward", None))


#: How long Python's compiler takes for a line, in seconds.
SECONDS_FOR_A_LINE = 7e-6


def _more(others: int) -> str:
    """Return the argument that says how many further nodes are ready."""
    return f", {others}" if others else ""


def compile_backward(trace: Trace, keep_graph: bool, limited: bool, number: int) -> Slices[Program]:
    """Return the compiled form of a trace.

    Args:
        trace: what to compile.
        keep_graph: whether saved tensors are kept.
        limited: whether the backward has given inputs.
        number: for the name that tracebacks show.
    """
    writer = CodeGenerator(trace, keep_graph, limited)
    row = yield from writer.write()
    text, namespace = writer.text, writer.text.namespace
    plans = set()
    for op in trace.ops:
        yield 0.0
        if op.body is not None and op.body.plan is not None:
            plans.add((op.body.plan, prod(op.shape or ())))
    program = Program(f"<compiled backward {number}>", text.lines, frozenset(plans), trace.runs_node_task)
    for begin, end, name, segment in writer.functions:
        # One function at a time, which cannot be parted.
        yield (end - begin) * SECONDS_FOR_A_LINE
        lines = [f"{line}\n" for line in text.text[begin:end]]
        # Line numbers are those in the whole source.
        code = _code_of("".join(lines), program.filename).replace(co_firstlineno=begin + 1)
        program.text += lines
        namespace[name] = FunctionType(code, namespace, name)
        if segment is not None:
            program.segments[code] = segment
    yield 0.0
    # What goes through the others, if there are any, knows the first by its name.
    namespace["segments"] = tuple([namespace[name] for name in row[1:]])
    program.run = namespace["backward"]
    # So that a traceback shows the lines.
    linecache.cache[program.filename] = (len(program.text), None, program.text, program.filename)
    return program


def forget(program: Program) -> None:
    """Let go of the lines that were kept for tracebacks."""
    linecache.cache.pop(program.filename, None)


def _code_of(source: str, filename: str) -> CodeType:
    """Return the code of the one function that a source is of."""
    (code,) = (one for one in compile(source, filename, "exec").co_consts if isinstance(one, CodeType))
    return code
