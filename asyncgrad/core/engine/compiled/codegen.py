"""CodeGenerator: writes the functions that run a trace, cut into segments.

The source of one op checks that the nodes that its edges lead to are like those of the trace, runs the body, releases
the saved tensors, and adds the gradients to those of the next nodes, in the engine's order. The guards check everything
that the lines after them depend on, the structure of the graph edge by edge.

The source is cut into segments for two reasons.

- Equal segments are written once. A line that runs only once in a backward is no longer in the processor's caches when
  the next backward runs it: for 4,000 nodes written one after the other, that costs 0.4 µs a node.
- Python compiles a function without a pause, and the event loop is blocked meanwhile. 24 small nodes take about a
  millisecond.

To go on from one segment to the next costs half a microsecond, a fiftieth of the run of a segment.

If some ops run as NodeTasks, user code runs in the middle of a backward and may read `.grad`. So each leaf takes its
gradient as soon as that is complete.
"""

from __future__ import annotations

import builtins
from bisect import bisect
from itertools import groupby, pairwise
from math import prod
from typing import TYPE_CHECKING, Any, final

from ...settings.source import file_name
from .emit import (
    CARRIED,
    MAX_COMPARED_LEAVES,
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
    from collections.abc import Collection

    from ...graph.lowering import BodySource
    from .program import ProgramPoint
    from .trace import Op, Slices, Target, Trace

__all__ = ["MAX_OPS_PER_SEGMENT", "CodeGenerator", "boundaries", "compile_backward"]

#: How many ops one function may have.
MAX_OPS_PER_SEGMENT = 24
#: The longest period of repetition that is searched for, in ops.
MAX_PATTERN_LENGTH = 512


def boundaries(trace: Trace) -> Slices[list[int]]:
    """Return the numbers of the ops at which segments begin, op 0 included, followed by the number of ops.

    Where the ops repeat, the boundaries do too, so that the segments are equal.
    """
    count = len(trace.ops)
    if count <= MAX_OPS_PER_SEGMENT:
        return [0, count]
    kinds = yield from _op_kinds(trace.ops)
    begin, end, period = yield from _find_pattern(kinds)
    # The first two repetitions differ from the rest: they reach leaves for the first time, and begin their sums.
    length = MAX_OPS_PER_SEGMENT if period is None else max(1, MAX_OPS_PER_SEGMENT // period) * period
    starts = list(range(0, begin, MAX_OPS_PER_SEGMENT))
    last = begin
    while last + length <= end:
        yield 0.0
        # A pattern longer than a segment is cut into equal parts, in each repetition at the same ops.
        parts = -(-length // MAX_OPS_PER_SEGMENT)
        starts += [last + part * length // parts for part in range(parts)]
        last += length
    starts += range(last, count, MAX_OPS_PER_SEGMENT)
    return [*sorted({0, *starts}), count]


def _op_kinds(ops: list[Op]) -> Slices[list[int]]:
    """Return a number for each op: equal for ops of one token whose edges lead as far, or to the same leaves."""
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


def _find_pattern(kinds: list[int]) -> Slices[tuple[int, int, int | None]]:
    """Return begin, end and period of the longest run of repetitions across the middle; a period of None for none."""
    middle = len(kinds) // 2
    best: tuple[int, int, int | None] = (0, 0, None)
    for period in range(1, min(MAX_PATTERN_LENGTH, len(kinds) - middle - 1)):
        yield 0.0
        if kinds[middle] != kinds[middle + period] or _is_redundant_period(kinds, period, *best):
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


def _is_redundant_period(kinds: list[int], period: int, begin: int, end: int, known: int | None) -> bool:
    """Tell whether a period is a multiple of the known one and its repetitions reach no further."""
    if known is None or period % known or end - period <= len(kinds) // 2:
        return False
    goes_before = begin > 0 and kinds[begin - 1] == kinds[begin - 1 + period]
    goes_behind = end < len(kinds) and kinds[end - period] == kinds[end]
    return not goes_before and not goes_behind


#: How many elements of gradients are processed before the function reads the clock; and how many the fixed cost of an
#: op counts for.
ELEMENTS_PER_CLOCK_READ = 8192
ELEMENTS_PER_OP = 512
#: The least number of elements of a gradient whose variable is deleted as soon as it is not needed.
LARGE_GRADIENT = 2048


@final
class CodeGenerator:
    """Writes the source of one trace, from the first op to the last.

    Args:
        trace: the trace; its ops have their sources.
        keep_graph: whether saved tensors are kept.
        limited: whether the backward has `inputs`.
    """

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
        "leaves_run",
        "node_names",
        "outputs",
        "segment_leaves",
        "text",
        "trace",
    )

    def __init__(self, trace: Trace, keep_graph: bool, limited: bool) -> None:
        self.trace: Trace = trace
        self.text: SourceBuilder = SourceBuilder()
        #: By op and by leaf; all are made before the first op is written.
        self.grad_locals: list[GradLocals] = []
        self.leaf_grad_locals: list[GradLocals] = []
        self.node_names: list[str] = [""] * len(trace.ops)
        self.leaf_names: list[str] = []
        #: By leaf, its name in the function that is being written.
        self.segment_leaves: dict[int, str] = {}
        #: By leaf, the point at which that function runs it.
        self.leaf_ends: dict[int, ProgramPoint] = {}
        #: The leaves that have run, in any function.
        self.leaves_run: set[int] = set()
        #: See Segment; ops are counted from the first of the segment.
        self.outputs: dict[int, tuple[str | None, ...]] = {}
        #: For each function the number of its first line and of the line after its last, its name and its tables.
        self.functions: list[tuple[int, int, str, Segment | None]] = []
        self._keep_graph = keep_graph
        self._limited = limited
        self._names = LocalAllocator()
        #: The ops that have been reached and have not run, in the order in which they run.
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
        self._release_inputs(index, op)
        if self._runs_node_task:
            self._write_leaves(index)
        self._write_clock_check(index, op, is_last)
        self._names.release(self.node_names[index])

    def _write_body(self, index: int, op: Op, names: dict[str, str]) -> None:
        """Write an op whose body runs."""
        body, text = op.body, self.text
        assert body is not None
        constants = body.constants
        saved = {f"s{nr}": self._names.allocate("s") for nr in range(body.names)}
        names |= saved
        for line in body.unpacking:
            text.emit(text.fill(line, names, constants), LineKind.GUARD)
        if body.may_be_heavy:
            body = op.body = self._write_heavy(body, names)
        self._write_gather(index, op)
        for line in body.statements:
            text.emit(text.fill(line, names, constants), LineKind.BODY)
        added = self._additions(op, body, names)
        values = self._result_names(op, names, added)
        write_results(text, op, names, values)
        for line in added.values():
            text.emit(line, LineKind.BODY)
        if not self._keep_graph:
            for line in body.release:
                text.emit(text.fill(line, names, constants), LineKind.BODY)
            if saved:
                # Saved tensors are freed now, and not when a later op with as many of them takes the variables.
                text.emit(f"{' = '.join(saved.values())} = None", LineKind.BODY)
        self._write_deliveries(index, op, values)
        for name in saved.values():
            self._names.release(name)

    def _write_heavy(self, body: BodySource, names: dict[str, str]) -> BodySource:
        """Write the check whether a worker should run a body; return the body with the results of a measured run."""
        node, grad = names["node"], names.get("g", names["grads"])
        where, results = body.heavy_where, body.results
        is_large = f"{self.text.fill(where, names, body.constants)} and " if where else ""
        self.text.emit(f"if {is_large}should_offload({node}, {grad}): raise OffloadSignal", LineKind.GUARD)
        measured = f"{'run_here' if self._limited else 'run_measured'}({node}, {grad})"
        if not where or isinstance(results, str):
            return body._replace(results=measured, statements=())
        # A small body is not measured: the measurement would take as long as the body.
        return body._replace(results=f"{measured} if {where} else ({', '.join(map(str, results))},)")

    # NodeTasks and leaves.

    def _write_node_task(self, index: int, op: Op) -> None:
        """Write an op that runs as a NodeTask, and the deliveries of its gradients."""
        text, node = self.text, self.node_names[index]
        self._write_gather(index, op)
        self._write_grads_list(self.grad_locals[index], True)
        ready_count = _ready_count_argument(sum(self.trace.ready_after(one) < index for one in self._pending))
        if not op.runs_body:
            text.emit(f"deadline = await capture_at({node}, grads{ready_count})", LineKind.NODE_TASK, 0)
            return
        values = self._result_names(op, {})
        self.outputs[text.op] = tuple(values)
        variables = ", ".join(value or "_" for value in values)
        variables = f"({variables}{',' * (len(values) == 1)})" if any(values) else "_"
        text.emit(f"{variables}, deadline = await run_node_task({node}, grads{ready_count})", LineKind.NODE_TASK, 0)
        given = [value for value in values if value is not None]
        if given:
            undefined = " or ".join(f"{value} is None" for value in given)
            text.emit(f"if {undefined}: raise GuardFailed", LineKind.EDGE, 0)
        self._write_deliveries(index, op, values)

    def _write_grads_list(self, grad_locals: GradLocals, may_wait: bool) -> None:
        """Write the line that moves gradients into the list `grads`, which then has the only references to them.

        Args:
            grad_locals: the variables of the gradients; they are set to None.
            may_wait: whether the function may be suspended while the list is used.
        """
        names = grad_locals.names
        free = self._names.free_names() if may_wait else []
        if free:
            # While the function is suspended, free variables must not keep arrays alive.
            self.text.emit(f"{' = '.join(free)} = None")
        emptied = "".join(f", {name}" for name in names if name is not None)
        nothing = ", None" * emptied.count(",")
        self.text.emit(f"grads{emptied} = [{', '.join(map(str, names))}]{nothing}")

    def _write_leaves(self, index: int) -> None:
        """Write the lines that run the leaves whose gradients are complete after an op, in the order of completion."""
        text, trace = self.text, self.trace
        op = trace.ops[index]
        ready = trace.leaves_after(index)
        forwarded = self.grad_locals[index].names[0] if op.shape is not None and not op.runs_node_task else None
        if ready and forwarded is not None:
            # The op may have returned its own gradient, which a leaf takes over only if it has the one reference.
            text.emit(f"{forwarded} = None")
        waiting = sum(trace.ready_after(one) <= index for one in self._pending)
        for nr, leaf in enumerate(ready):
            leaf_spec, name = trace.leaves[leaf], self.leaf_names[leaf]
            arrived = self.leaf_grad_locals[leaf]
            grad = arrived.names[0]
            assert grad is not None
            edge, which = len(op.targets) + nr, list(self.segment_leaves).index(leaf)
            self.leaf_ends[leaf] = (text.op, edge)
            self.leaves_run.add(leaf)
            self._write_grads_list(arrived, leaf_spec.runs_node_task)
            if leaf_spec.runs_node_task:
                has_body = leaf_spec.limits is None or leaf_spec.limits[0]
                run = "_, deadline = await run_node_task" if has_body else "deadline = await capture_at"
                ready_count = _ready_count_argument(waiting + len(ready) - nr - 1)
                text.emit(f"{run}({name}, grads{ready_count})", LineKind.NODE_TASK, edge, which)
            else:
                text.emit(f"task.run_leaf({name}, grads)", LineKind.BODY, edge, which)
            self._names.release(name)
            self._names.release(grad)

    # Guards of the next nodes.

    def _write_gather(self, index: int, op: Op) -> None:
        """Write the lines that read the nodes that the edges lead to, and their guards."""
        text, node = self.text, self.node_names[index]
        # With hooks the edges are always checked, since a hook may have changed them.
        fixes_edges = op.body is not None and op.body.fixes_edges and not self._runs_node_task
        variables: list[str] = []
        guards: list[str] = []
        only_compared: list[str] = []
        later_lines: list[str] = []
        leaves_before = len(self.leaf_names)
        for target in op.targets:
            name = "_"
            if target is None:
                if not fixes_edges:
                    name = self._names.allocate("x")
                    guards.append(f"{name} is not None")
                    only_compared.append(name)
            elif not target.is_wanted:
                name = self._names.allocate("x")
                guards.append(f"limits.executes({name})")
                only_compared.append(name)
            elif (known := self._bound_name(target)) is not None:
                name = self._names.allocate("x")
                guards.append(f"{name} is not {known}")
                only_compared.append(name)
            else:
                name = self._bind_target(index, target, guards, later_lines, leaves_before)
            variables.append(name)
        if not variables:
            guards.append(f"{node}.next_nodes")
        elif any(name != "_" for name in variables):
            text.emit(f"{', '.join(variables)}{',' if len(variables) == 1 else ''} = {node}.next_nodes", LineKind.GUARD)
        if any(target is not None and target.is_wanted and self._has_inputs(target) for target in op.targets):
            input_nrs = tuple(0 if target is None else target.input_nr for target in op.targets)
            guards.insert(0, f"{node}.input_nrs != {input_nrs}")
        self._raise_if(guards)
        for line in later_lines:
            text.emit(line)
        for name in only_compared:
            self._names.release(name)

    def _has_inputs(self, target: Target) -> bool:
        """Tell whether the target of an edge may have several inputs."""
        return not target.is_leaf and self.trace.ops[target.number].shape is None

    def _bound_name(self, target: Target) -> str | None:
        """Return the variable of the target of an edge; None if no edge before has led there."""
        if target.is_leaf:
            return self.leaf_names[target.number] if target.number < len(self.leaf_names) else None
        return self.node_names[target.number] or None

    def _bind_target(
        self, index: int, target: Target, guards: list[str], later_lines: list[str], leaves_before: int
    ) -> str:
        """Return a new variable for a target that no edge before has led to, and add its guards.

        Args:
            index: the op whose edge leads there.
            target: the target.
            guards: the guards of the op, to extend.
            later_lines: the lines to write after the guards, to extend.
            leaves_before: how many leaves earlier ops have reached.
        """
        text = self.text
        if target.is_leaf:
            name = self.segment_leaves[target.number] = self._names.allocate("l")
            leaf, may_move = self.trace.leaves[target.number], self.trace.ops[index].has_meta
            has_set = not self._runs_node_task and leaves_before > MAX_COMPARED_LEAVES
            if has_set:
                guards.append(f"{name} in leaves")
            others = None if self._runs_node_task else self.leaf_names[leaves_before if has_set else 0 :]
            guards += leaf_guards(text, name, leaf, others, may_move)
            self.leaf_names.append(name)
            if has_set:
                later_lines.append(f"leaves.add({name})")
            elif others is not None and len(self.leaf_names) > MAX_COMPARED_LEAVES:
                later_lines[:] = [f"leaves = {{{', '.join(self.leaf_names)}}}"]
            return name
        name = self.node_names[target.number] = self._names.allocate("n")
        position = bisect(self._pending, target.number)
        before = self.node_names[self._pending[position - 1]] if position else self.node_names[index]
        after = self.node_names[self._pending[position]] if position < len(self._pending) else None
        self._pending.insert(position, target.number)
        op = self.trace.ops[target.number]
        guards += node_guards(text, name, op, before, after)
        if op.runs_node_task or self.trace.ops[index].has_meta:
            guards.append(f"needs_engine({name}.device)")
        return name

    def _raise_if(self, guards: list[str]) -> None:
        if guards:
            self.text.emit(f"if {' or '.join(guards)}: raise GuardFailed", LineKind.GUARD)

    # Gradients.

    def _additions(self, op: Op, body: BodySource, names: dict[str, str]) -> dict[int, str]:
        """Return the lines that add gradients into sums in place of computing them first, by edge."""
        found: dict[int, str] = {}
        for edge, source in {} if isinstance(body.results, str) else body.additions.items():
            target = op.targets[edge]
            if target is None or not target.is_wanted:
                continue
            target_locals = self.leaf_grad_locals[target.number] if target.is_leaf else self.grad_locals[target.number]
            total, wanted = target_locals.owned_sum(target.input_nr), self._spec_at(target)
            if total is not None and wanted is not None:
                found[edge] = f"{total} = {self.text.fill(source, names | {'total': total}, body.constants)}"
        return found

    def _result_names(self, op: Op, names: dict[str, str], added: Collection[int] = ()) -> list[str | None]:
        """Return the name of the gradient of each edge; None where none is wanted, or where it is added to a sum."""
        results = "" if op.body is None else op.body.results
        values: list[str | None] = []
        for edge, target in enumerate(op.targets):
            if target is None or not target.is_wanted or edge in added:
                values.append(None)
                continue
            target_locals = self.leaf_grad_locals[target.number] if target.is_leaf else self.grad_locals[target.number]
            value = target_locals.expect(target.input_nr, self._names)
            if not isinstance(results, str) and results[edge] == "$g":
                values.append(names["g"])
                continue
            values.append(value or self._names.allocate("t"))
        return values

    def _write_deliveries(self, index: int, op: Op, values: list[str | None]) -> None:
        """Write the lines that add the gradients of an op to those of the next nodes."""
        text, body = self.text, op.body
        before = tuple(values)
        for edge, (target, name) in enumerate(zip(op.targets, before, strict=True)):
            if target is None or name is None:
                continue
            value = name
            target_locals = self.leaf_grad_locals[target.number] if target.is_leaf else self.grad_locals[target.number]
            is_temporary = value[0] == "t"
            owner = self.leaf_names[target.number] if target.is_leaf else self.node_names[target.number]
            wanted = self._spec_at(target)
            # The gradients of a NodeTask conform already.
            spec = wanted if body is None else body.specs[edge] if body.specs else None
            call = f"conform({self.node_names[index]}, {edge}, {owner}, {target.input_nr}, {value})"
            if wanted is None:
                if body is not None:
                    # Raises an AttributeError if the gradient is not an array.
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
                    value = target_locals.name_of_first(target.input_nr) or self._names.allocate("t")
                    is_temporary = value[0] == "t"
                text.emit(f"{value} = {call}", LineKind.BODY)
            line = target_locals.arrive(target.input_nr, value, (text.op, edge))
            if line is not None:
                text.emit(line, LineKind.BODY)
            if is_temporary:
                self._names.release(value)
                self._write_del(value, 0 if wanted is None else prod(wanted[0]))

    def _spec_at(self, target: Target) -> tuple[tuple[int, ...], Any] | None:
        """Return the shape and dtype that a gradient needs at a target; None if any are allowed."""
        if target.is_leaf:
            leaf = self.trace.leaves[target.number]
            return leaf.shape, leaf.dtype
        metadata = self.trace.ops[target.number].metadata[target.input_nr]
        return None if metadata is None else (metadata.shape, metadata.dtype)

    def _write_del(self, name: str, elements: int) -> None:
        if elements >= LARGE_GRADIENT:
            self.text.emit(f"del {name}")

    def _release_inputs(self, index: int, op: Op) -> None:
        """Release the variables of the gradients that arrived at an op, after its run."""
        for name, metadata in zip(self.grad_locals[index].names, op.metadata, strict=True):
            size = 0 if metadata is None else prod(metadata.shape)
            self._elements += size
            if name is not None:
                self._names.release(name)
                if not op.runs_node_task:
                    self._write_del(name, size)

    def _write_clock_check(self, index: int, op: Op, is_last: bool) -> None:
        """Write a read of the clock after an op, if one is due."""
        text = self.text
        if op.runs_node_task:
            # The driver has read the clock after the NodeTask.
            self._elements = 0
        if op.runs_node_task or index + 1 == len(self.trace.ops):
            return
        self._elements += ELEMENTS_PER_OP
        if is_last or op.body is None or not op.body.is_short or self._elements >= ELEMENTS_PER_CLOCK_READ:
            self._elements = 0
            text.op += 1
            node = self.node_names[index]
            text.emit(f"if clock() > deadline: {node}.note_slow(); deadline = await pause()", LineKind.CLOCK)

    def write(self) -> Slices[list[str]]:
        """Write the whole source; return the names of the functions of its segments, in the order in which they run."""
        devices = {metadata.device for op in self.trace.ops for metadata in op.metadata if metadata is not None}
        adds_by_function = any(device is not None and not device.has_host_arrays for device in devices)
        for op in self.trace.ops:
            yield 0.0
            self.grad_locals.append(GradLocals(len(op.metadata), "g", adds_by_function))
        for _ in self.trace.leaves:
            yield 0.0
            self.leaf_grad_locals.append(GradLocals(1, "h", adds_by_function))
        self.node_names[0] = self._names.allocate("n")
        input_nr = self.trace.input_nr
        first = self.grad_locals[0].expect(input_nr, self._names)
        assert first is not None
        self.grad_locals[0].arrive(input_nr, first, CARRIED)
        self._pending.append(0)
        bounds = yield from boundaries(self.trace)
        if len(bounds) == 2:
            yield from self._write_segment("backward", 0, bounds[1])
            return ["backward"]
        #: By source and tables, the name of the function that has them.
        known: dict[tuple[str, ...], str] = {}
        segment_names: list[str] = []
        for begin, end in pairwise(bounds):
            first_line = len(self.text.writer.lines)
            name = yield from self._write_segment(f"segment{len(known)}", begin, end)
            head, *body = self.text.writer.lines[first_line:]
            lines = (head.partition("(")[2], *body)
            lines += (repr(self.functions[-1][3]),)
            if lines in known:
                self.text.truncate(first_line)
                self.functions.pop()
            segment_names.append(known.setdefault(lines, name))
        self._write_entry(segment_names)
        return segment_names

    def _write_segment(self, name: str, begin: int, end: int) -> Slices[str]:
        """Write the function of the ops from `begin` up to `end`; return its name.

        Its variables are named anew, whatever comes before, so that segments that do the same have the same source.
        """
        text = self.text
        first_line = len(text.writer.lines)
        self._elements, self.outputs = 0, {}
        base = ", base" if name != "backward" else ""
        is_first = not begin
        text.emit_head(f"async def {name}(task, clock, deadline{base}, {', '.join(self._rename_live(is_first))})")
        if is_first and self._runs_node_task:
            text.emit("left = task.executor.count_edges(n0)")
        if self._limited:
            text.emit("limits, captured, whole = task.limits, task.captured, task.limits.whole")
        for index in range(begin, end):
            yield 0.0
            text.op = index - begin
            self._write_op(index, index + 1 == end)
        if end < len(self.trace.ops):
            text.emit(f"return task, clock, deadline, base + {end - begin}, {', '.join(self._live_locals())}")
        else:
            leaves = self._waiting_leaves()
            grads = [str(self.leaf_grad_locals[leaf].names[0]) for leaf in reversed(leaves)]
            text.emit(f"return [{', '.join(self.leaf_names[leaf] for leaf in leaves)}], [{', '.join(grads)}]")
        self.functions.append((first_line, len(text.writer.lines), name, self._segment(begin, end)))
        return name

    def _segment(self, begin: int, end: int) -> Segment:
        """Return the tables of the function that has just been written, of the ops from `begin` up to `end`."""
        trace = self.trace
        ops = [*range(begin, end), *self._pending]
        return Segment(
            {op - begin: self.node_names[op] for op in ops},
            {op - begin: self.grad_locals[op].slots() for op in ops},
            self.outputs,
            list(self.segment_leaves.values()),
            [self.leaf_grad_locals[leaf].slots()[0] for leaf in self.segment_leaves],
            [self.leaf_ends.get(leaf) for leaf in self.segment_leaves],
            frozenset(op - begin for op in ops if trace.ops[op].has_meta),
            frozenset(nr for nr, leaf in enumerate(self.segment_leaves) if trace.leaves[leaf].runs_node_task),
        )

    def _waiting_leaves(self) -> list[int]:
        """Return the numbers of the leaves that have been reached and have not run."""
        return [leaf for leaf in range(len(self.leaf_names)) if leaf not in self.leaves_run]

    def _live_locals(self) -> list[str]:
        """Return the variables that one segment passes to the next: nodes, leaves and their gradients."""
        found = []
        for op in self._pending:
            found += [self.node_names[op], *self.grad_locals[op].arrived()]
        for leaf in self._waiting_leaves():
            found += [self.leaf_names[leaf], *self.leaf_grad_locals[leaf].arrived()]
        if self._runs_node_task:
            return [*found, "left"]
        return [*found, *(["leaves"] if len(self.leaf_names) > MAX_COMPARED_LEAVES else [])]

    def _rename_live(self, is_first: bool) -> list[str]:
        """Name the variables that a segment begins with anew; return its parameters, in the order of `_live_locals`."""
        names = self._names = LocalAllocator()
        for op in self._pending:
            self.node_names[op] = names.allocate("n")
            self.grad_locals[op].rename(names)
        self.segment_leaves, self.leaf_ends = {}, {}
        for leaf in self._waiting_leaves():
            self.leaf_names[leaf] = self.segment_leaves[leaf] = names.allocate("l")
            self.leaf_grad_locals[leaf].rename(names)
        return self._live_locals()[:2] if is_first else self._live_locals()

    def _write_entry(self, segment_names: list[str]) -> None:
        """Write the function that calls the segments in turn, each with what the one before has returned."""
        text = self.text
        begin = len(text.writer.lines)
        text.emit_head("async def backward(task, clock, deadline, n0, g0)")
        text.emit(f"state = {segment_names[0]}(task, clock, deadline, 0, n0, g0)")
        again = [(name, len(list(alike))) for name, alike in groupby(segment_names[1:])]
        text.emit(f"# {', '.join(name if times == 1 else f'{times} times {name}' for name, times in again)}")
        text.emit("for segment in segments:")
        text.emit("    state = segment(*await state)")
        text.emit("return await state")
        self.functions.append((begin, len(text.writer.lines), "backward", None))


#: How long Python's compiler takes for a line of source, in seconds.
SECONDS_PER_LINE = 7e-6


def _ready_count_argument(ready_count: int) -> str:
    """Return the source of the argument for the number of further nodes that are ready; empty for none."""
    return f", {ready_count}" if ready_count else ""


def compile_backward(trace: Trace, keep_graph: bool, limited: bool, number: int) -> Slices[Program]:
    """Return the Program of a trace.

    Args:
        trace: the trace; its ops have their sources.
        keep_graph: whether saved tensors are kept.
        limited: whether the backward has `inputs`.
        number: the number of the Program, which tracebacks show.
    """
    writer = CodeGenerator(trace, keep_graph, limited)
    segment_names = yield from writer.write()
    text, source = writer.text, writer.text.writer
    namespace = source.namespace
    plans = set()
    for op in trace.ops:
        yield 0.0
        if op.body is not None and op.body.plan is not None:
            plans.add((op.body.plan, prod(op.shape or ())))
    name = file_name(f"compiled backward {number}")
    program = Program(name, source.lines, text.source_map, frozenset(plans), trace.runs_node_task)
    # Functions written in C, such as those of CuPy, look for it among the names of the frame that calls them.
    namespace["__builtins__"] = builtins
    # No function stands among its own names: that would be a cycle, which a dropped Program leaves to the garbage
    # collector (test_a_compiled_function_that_is_dropped_leaves_nothing_to_the_garbage_collector).
    entry_namespace: dict[str, Any] = {"__builtins__": builtins}
    functions: dict[str, Any] = {}
    for begin, end, name, segment in writer.functions:
        # Python compiles one function at a time, without a pause.
        yield (end - begin) * SECONDS_PER_LINE
        globals_of = entry_namespace if segment is None else namespace
        function = functions[name] = source.compile(begin, end, program.filename, globals_of)
        if segment is not None:
            program.segments[function.__code__] = segment
    yield 0.0
    # `backward` calls the first segment by its name, and the others from this tuple.
    entry_namespace[segment_names[0]] = functions[segment_names[0]]
    entry_namespace["segments"] = tuple([functions[name] for name in segment_names[1:]])
    program.run = functions["backward"]
    source.keep(program.filename)
    return program
