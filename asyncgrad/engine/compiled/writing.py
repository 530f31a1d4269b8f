"""The source of a compiled backward: one straight line, step by step.

Each step looks whether the nodes that its edges lead to are those that it was written for, runs the body, releases
what was saved, and adds the gradients to those of the next nodes, in the engine's order. What it looks at is all that
the lines after it depend on; the graph's structure is checked exactly, each edge by itself.
"""

from __future__ import annotations

from bisect import bisect
from itertools import groupby, pairwise
from math import prod
from typing import TYPE_CHECKING, Any, final

from .arrivals import CARRIED, Arrivals
from .guards import FEW_LEAVES, leaf_guards, limits_guards, node_guards
from .layout import boundaries
from .names import Names
from .program import LineKind, Piece
from .text import Text

if TYPE_CHECKING:
    from .description import Description, Step, Target

__all__ = ["Writer"]

#: How much work may be done before the clock is looked at, in elements of arrays; and what a step counts for.
ELEMENTS_BETWEEN_LOOKS = 8192
ELEMENTS_OF_A_STEP = 512
#: From how many elements on an array is let go of as soon as it is not needed.
LARGE = 2048


@final
class Writer:
    """Writes one description, from the first step to the last."""

    __slots__ = (
        "_base",
        "_elements",
        "_keep_graph",
        "_limited",
        "_names",
        "_pending",
        "arrivals",
        "description",
        "functions",
        "leaf_arrivals",
        "leaf_names",
        "node_names",
        "outputs",
        "text",
    )

    def __init__(self, description: Description, keep_graph: bool, limited: bool) -> None:
        self.description = description
        self.text = Text()
        self.arrivals = [Arrivals(len(step.metadata), "g") for step in description.steps]
        self.leaf_arrivals = [Arrivals(1, "h") for _ in description.leaves]
        self.node_names: list[str] = [""] * len(description.steps)
        self.leaf_names: list[str] = []
        #: By step, counted from the first of the piece: see Piece.
        self.outputs: dict[int, tuple[str | None, ...]] = {}
        #: The first and last line of each function, its name, and what is known of it.
        self.functions: list[tuple[int, int, str, Piece | None]] = []
        self._keep_graph = keep_graph
        self._limited = limited
        self._names = Names()
        #: The first step of the piece that is being written.
        self._base = 0
        #: The steps that have been reached, in the order in which they will run.
        self._pending: list[int] = []
        self._elements = 0

    def write(self) -> None:
        """Write all of it."""
        self.node_names[0] = self._names.take("n")
        first = self.arrivals[0].expect(0, self._names)
        assert first is not None
        self.arrivals[0].arrive(0, first, CARRIED)
        self._pending.append(0)
        bounds = boundaries(self.description)
        if len(bounds) == 2:
            self._write_piece("backward", 0, bounds[1])
            return
        #: By text, the name of the function that has it.
        known: dict[tuple[str, ...], str] = {}
        row: list[str] = []
        for begin, end in pairwise(bounds):
            first_line = len(self.text.text)
            name = self._write_piece(f"piece{len(known)}", begin, end)
            lines = tuple(
                line.partition("(")[2] if not nr else line for nr, line in enumerate(self.text.text[first_line:])
            )
            if lines in known:
                self.text.shorten(first_line)
                self.functions.pop()
            row.append(known.setdefault(lines, name))
        self._write_whole(row)

    def _write_piece(self, name: str, begin: int, end: int) -> str:
        """Write the function of the steps from `begin` up to `end`; return its name.

        Its names do not depend on what comes before, so that pieces that do the same come out alike.
        """
        text = self.text
        first_line = len(text.text)
        self._base, self._elements, self.outputs = begin, 0, {}
        base = ", base" if name != "backward" else ""
        text.emit_head(f"async def {name}(task, deadline{base}, {', '.join(self._rename())}):")
        if self._limited:
            text.emit("limits, captured = task.limits, task.captured")
        for index in range(begin, end):
            text.step = index - begin
            self._write_step(index, index + 1 == end)
        steps = [*range(begin, end), *self._pending]
        piece = Piece(
            {step - begin: self.node_names[step] for step in steps},
            {step - begin: self.arrivals[step].slots() for step in steps},
            self.outputs,
            list(self.leaf_names),
            [self.leaf_arrivals[leaf].slots()[0] for leaf in range(len(self.leaf_names))],
        )
        if end < len(self.description.steps):
            text.emit(f"return task, deadline, base + {end - begin}, {', '.join(self._live())}")
        else:
            leaves = [arrivals.names[0] for arrivals in reversed(self.leaf_arrivals)]
            text.emit(f"return [{', '.join(self.leaf_names)}], [{', '.join(map(str, leaves))}]")
        self.functions.append((first_line, len(text.text), name, piece))
        return name

    def _live(self) -> list[str]:
        """Return the names of what goes on from one piece to the next: nodes and gradients, leaves and theirs."""
        found = []
        for step in self._pending:
            found += [self.node_names[step], *self.arrivals[step].arrived()]
        for name, arrivals in zip(self.leaf_names, self.leaf_arrivals, strict=False):
            found += [name, *arrivals.arrived()]
        return [*found, *(["leaves"] if len(self.leaf_names) > FEW_LEAVES else [])]

    def _rename(self) -> list[str]:
        """Give new names to all that goes on, the first ones that there are; return them in the order of `_live`."""
        names = self._names = Names()
        for step in self._pending:
            self.node_names[step] = names.take("n")
            self.arrivals[step].rename(names)
        for leaf in range(len(self.leaf_names)):
            self.leaf_names[leaf] = names.take("l")
            self.leaf_arrivals[leaf].rename(names)
        return self._live()

    def _write_whole(self, row: list[str]) -> None:
        """Write the function that calls the others in a row, each with what the one before has left."""
        text = self.text
        begin = len(text.text)
        text.emit_head("async def backward(task, deadline, n0, g0):")
        text.emit(f"state = {row[0]}(task, deadline, 0, n0, g0)")
        for name, again in groupby(row[1:]):
            times = len(list(again))
            if times > 1:
                text.emit(f"for _ in range({times}):")
            text.emit(f"{'    ' * (times > 1)}state = {name}(*await state)")
        text.emit("return await state")
        self.functions.append((begin, len(text.text), "backward", None))

    def _write_step(self, index: int, is_last: bool) -> None:
        step, text = self.description.steps[index], self.text
        self._pending.remove(index)
        text.emit(f"# {step.name}, {step.shape if step.shape is not None else f'{len(step.metadata)} inputs'}")
        arrivals = self.arrivals[index]
        names = {"node": self.node_names[index], "grads": f"[{', '.join(map(str, arrivals.names))}]"}
        if step.shape is not None:
            names["g"] = str(arrivals.names[0])
        if not index and self._limited:
            self._raise_if(limits_guards(text, names["node"], step.limits))
        for input_nr, result_nr in () if step.limits is None else step.limits[1]:
            text.emit(f"captured[{result_nr}] = {arrivals.names[input_nr]}", LineKind.BODY)
        if step.body is not None:
            self._write_body(index, step, names)
        self._let_go(index, step, is_last)

    def _write_body(self, index: int, step: Step, names: dict[str, str]) -> None:
        """Write what a step does whose body runs."""
        body, text = step.body, self.text
        assert body is not None
        constants = body.constants
        saved = {f"s{nr}": self._names.take("s") for nr in range(body.names)}
        names |= saved
        for line in body.unpacking:
            text.emit(text.filled(line, names, constants), LineKind.GUARD)
        if body.may_be_heavy:
            grad = names.get("g", names["grads"])
            text.emit(f"if is_for_a_worker({names['node']}, {grad}): raise Heavy", LineKind.GUARD)
            run = "run_here" if self._limited else "run_measured"
            body = step.body = body._replace(results=f"{run}({names['node']}, {grad})", statements=())
        self._write_gather(index, step)
        for line in body.statements:
            text.emit(text.filled(line, names, constants), LineKind.BODY)
        values = self._write_results(index, step, names)
        if not self._keep_graph:
            for line in body.release:
                text.emit(text.filled(line, names, constants), LineKind.BODY)
        self._write_deliveries(index, step, values)
        for name in saved.values():
            self._names.give_back(name)

    # Looking at the next nodes.

    def _write_gather(self, index: int, step: Step) -> None:
        """Write what fetches the nodes that the edges lead to, and looks whether they are the expected ones."""
        text, node, body = self.text, self.node_names[index], step.body
        assert body is not None
        taken: list[str] = []
        guards: list[str] = []
        strangers: list[str] = []
        late: list[str] = []
        for target in step.targets:
            name = "_"
            if target is None:
                if not body.fixes_edges:
                    name = self._names.take("x")
                    guards.append(f"{name} is not None")
                    strangers.append(name)
            elif not target.is_wanted:
                name = self._names.take("x")
                guards.append(f"should_execute(limits, {name})")
                strangers.append(name)
            elif (known := self._known(target)) is not None:
                name = self._names.take("x")
                guards.append(f"{name} is not {known}")
                strangers.append(name)
            else:
                name = self._meet(index, target, guards, late)
            taken.append(name)
        if not taken:
            guards.append(f"{node}.next_nodes")
        elif any(name != "_" for name in taken):
            text.emit(f"{', '.join(taken)}{',' if len(taken) == 1 else ''} = {node}.next_nodes", LineKind.GUARD)
        if any(target is not None and target.is_wanted and self._has_inputs(target) for target in step.targets):
            input_nrs = tuple(0 if target is None else target.input_nr for target in step.targets)
            guards.insert(0, f"{node}.input_nrs != {input_nrs}")
        self._raise_if(guards)
        for line in late:
            text.emit(line)
        for name in strangers:
            self._names.give_back(name)

    def _has_inputs(self, target: Target) -> bool:
        """Tell whether an edge could lead to more than one input there."""
        return not target.is_leaf and self.description.steps[target.number].shape is None

    def _known(self, target: Target) -> str | None:
        """Return the name of what an edge leads to, if another one has led there before."""
        if target.is_leaf:
            return self.leaf_names[target.number] if target.number < len(self.leaf_names) else None
        return self.node_names[target.number] or None

    def _meet(self, index: int, target: Target, guards: list[str], late: list[str]) -> str:
        """Name a node that no edge has led to before, and look at it."""
        text = self.text
        if target.is_leaf:
            name = self._names.take("l")
            guards += leaf_guards(text, name, self.description.leaves[target.number], self.leaf_names)
            self.leaf_names.append(name)
            if len(self.leaf_names) == FEW_LEAVES + 1:
                late.append(f"leaves = {{{', '.join(self.leaf_names)}}}")
            elif len(self.leaf_names) > FEW_LEAVES:
                late.append(f"leaves.add({name})")
            return name
        name = self.node_names[target.number] = self._names.take("n")
        place = bisect(self._pending, target.number)
        before = self.node_names[self._pending[place - 1]] if place else self.node_names[index]
        after = self.node_names[self._pending[place]] if place < len(self._pending) else None
        self._pending.insert(place, target.number)
        guards += node_guards(text, name, self.description.steps[target.number], before, after)
        return name

    def _raise_if(self, guards: list[str]) -> None:
        if guards:
            self.text.emit(f"if {' or '.join(guards)}: raise Differs", LineKind.GUARD)

    # The gradients.

    def _write_results(self, index: int, step: Step, names: dict[str, str]) -> list[str | None]:
        """Write what computes the gradients; return, for each edge, the name of its gradient."""
        body, text = step.body, self.text
        assert body is not None
        results, constants = body.results, body.constants
        values: list[str | None] = []
        for edge, target in enumerate(step.targets):
            if target is None or not target.is_wanted:
                values.append(None)
                continue
            place = self.leaf_arrivals[target.number] if target.is_leaf else self.arrivals[target.number]
            value = place.expect(target.input_nr, self._names)
            if not isinstance(results, str) and results[edge] == "$g":
                values.append(names["g"])
                continue
            value = value or self._names.take("t")
            values.append(value)
            if not isinstance(results, str):
                result = results[edge]
                assert result is not None
                text.emit(f"{value} = {text.filled(result, names, constants)}", LineKind.BODY)
        if isinstance(results, str):
            taken = ", ".join(value or "_" for value in values)
            text.emit(f"{taken}{',' * (len(values) == 1)} = {text.filled(results, names, constants)}", LineKind.BODY)
        return values

    def _write_deliveries(self, index: int, step: Step, values: list[str | None]) -> None:
        """Write what adds the gradients to those of the next nodes."""
        text, body = self.text, step.body
        assert body is not None
        before = tuple(values)
        for edge, (target, name) in enumerate(zip(step.targets, before, strict=True)):
            if target is None or name is None:
                continue
            value = name
            place = self.leaf_arrivals[target.number] if target.is_leaf else self.arrivals[target.number]
            is_temporary = value[0] == "t"
            owner = self.leaf_names[target.number] if target.is_leaf else self.node_names[target.number]
            wanted = self._kind_at(target)
            kind = body.kinds[edge] if body.kinds else None
            call = f"conform({self.node_names[index]}, {edge}, {owner}, {target.input_nr}, {value})"
            if kind is None:
                self.outputs[text.step] = before
                condition = f"{value}.shape != {wanted[0]} or {value}.dtype is not {text.dtype(wanted[1])}"
                text.emit(f"if {condition}: {value} = {call}", LineKind.EDGE, edge)
            elif kind != wanted:
                if kind[1] == wanted[1]:
                    call = f"sum_to({value}, {wanted[0]})"
                if value == self.arrivals[index].names[0]:
                    value = place.name_of_first(target.input_nr) or self._names.take("t")
                    is_temporary = value[0] == "t"
                text.emit(f"{value} = {call}", LineKind.BODY)
            line = place.arrive(target.input_nr, value, (text.step, edge))
            if line is not None:
                text.emit(line, LineKind.BODY)
            if is_temporary:
                self._names.give_back(value)
                self._drop(value, prod(wanted[0]))

    def _kind_at(self, target: Target) -> tuple[tuple[int, ...], Any]:
        if target.is_leaf:
            leaf = self.description.leaves[target.number]
            return leaf.shape, leaf.dtype
        metadata = self.description.steps[target.number].metadata[target.input_nr]
        assert metadata is not None
        return metadata.shape, metadata.dtype

    def _drop(self, name: str, elements: int) -> None:
        if elements >= LARGE:
            self.text.emit(f"del {name}")

    def _let_go(self, index: int, step: Step, is_last: bool) -> None:
        """Give back the names of a step that has run, and look at the clock where that is due."""
        names, text = self._names, self.text
        elements = 0
        for name, metadata in zip(self.arrivals[index].names, step.metadata, strict=True):
            size = 0 if metadata is None else prod(metadata.shape)
            elements += size
            if name is not None:
                names.give_back(name)
                self._drop(name, size)
        names.give_back(self.node_names[index])
        if index + 1 == len(self.description.steps):
            return
        self._elements += elements + ELEMENTS_OF_A_STEP
        if is_last or step.body is None or not step.body.is_short or self._elements >= ELEMENTS_BETWEEN_LOOKS:
            self._elements = 0
            text.step += 1
            node = self.node_names[index]
            text.emit(f"if clock() > deadline: {node}.has_kept_its_thread(); deadline = await pause()", LineKind.BREAK)
