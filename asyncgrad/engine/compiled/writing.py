"""The source of a compiled backward: one straight line, step by step, cut into functions where it is long."""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import TYPE_CHECKING, final

from .arrivals import CARRIED, Arrivals
from .buffers import Buffer
from .guards import FEW_LEAVES
from .layout import boundaries
from .names import Names
from .program import Piece
from .steps import StepWriter

if TYPE_CHECKING:
    from .slices import Slices

__all__ = ["Writer"]


@final
class Writer(StepWriter):
    """Writes one description, from the first step to the last."""

    __slots__ = ()

    def write(self) -> Slices[list[str]]:
        """Write all of it; return the names of the functions of its pieces, in the order in which they run."""
        for step in self.description.steps:
            yield 0.0
            self.arrivals.append(Arrivals(len(step.metadata), "g"))
        for _ in self.description.leaves:
            yield 0.0
            self.leaf_arrivals.append(Arrivals(1, "h"))
        self.node_names[0] = self._names.take("n")
        input_nr = self.description.input_nr
        first = self.arrivals[0].expect(input_nr, self._names)
        assert first is not None
        self.arrivals[0].arrive(input_nr, first, CARRIED, Buffer())
        self._pending.append(0)
        bounds = yield from boundaries(self.description)
        if len(bounds) == 2:
            yield from self._write_piece("backward", 0, bounds[1])
            return ["backward"]
        #: By text and tables, the name of the function that has them.
        known: dict[tuple[str, ...], str] = {}
        row: list[str] = []
        for begin, end in pairwise(bounds):
            first_line = len(self.text.text)
            name = yield from self._write_piece(f"piece{len(known)}", begin, end)
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

    def _write_piece(self, name: str, begin: int, end: int) -> Slices[str]:
        """Write the function of the steps from `begin` up to `end`; return its name.

        Its names do not depend on what comes before, so that pieces that do the same come out alike.
        """
        text = self.text
        first_line = len(text.text)
        self._base, self._elements, self.outputs = begin, 0, {}
        base = ", base" if name != "backward" else ""
        is_first = not begin
        text.emit_head(f"async def {name}(task, deadline{base}, {', '.join(self._rename(is_first))}):")
        if is_first and self._is_careful:
            text.emit("left = task.executor.count_edges(n0)")
        if self._limited:
            text.emit("limits, captured, whole = task.limits, task.captured, task.limits.whole")
        for index in range(begin, end):
            yield 0.0
            text.step = index - begin
            self._write_step(index, index + 1 == end)
        if end < len(self.description.steps):
            text.emit(f"return task, deadline, base + {end - begin}, {', '.join(self._live())}")
        else:
            leaves = self._waiting_leaves()
            grads = [str(self.leaf_arrivals[leaf].names[0]) for leaf in reversed(leaves)]
            text.emit(f"return [{', '.join(self.leaf_names[leaf] for leaf in leaves)}], [{', '.join(grads)}]")
        self.functions.append((first_line, len(text.text), name, self._piece(begin, end)))
        return name

    def _piece(self, begin: int, end: int) -> Piece:
        """Return what is known of the function that has been written of the steps from `begin` up to `end`."""
        described = self.description
        steps = [*range(begin, end), *self._pending]
        return Piece(
            {step - begin: self.node_names[step] for step in steps},
            {step - begin: self.arrivals[step].slots() for step in steps},
            self.outputs,
            list(self.leaves_here.values()),
            [self.leaf_arrivals[leaf].slots()[0] for leaf in self.leaves_here],
            [self.leaf_ends.get(leaf) for leaf in self.leaves_here],
            frozenset(step - begin for step in steps if described.steps[step].is_special),
            frozenset(nr for nr, leaf in enumerate(self.leaves_here) if described.leaves[leaf].is_careful),
        )

    def _waiting_leaves(self) -> list[int]:
        """Return the numbers of the leaves that have been met and have not run."""
        return [leaf for leaf in range(len(self.leaf_names)) if leaf not in self.leaves_run]

    def _live(self) -> list[str]:
        """Return the names of what goes on from one piece to the next: nodes and gradients, leaves and theirs."""
        found = []
        for step in self._pending:
            found += [self.node_names[step], *self.arrivals[step].arrived()]
        for leaf in self._waiting_leaves():
            found += [self.leaf_names[leaf], *self.leaf_arrivals[leaf].arrived()]
        if self._is_careful:
            return [*found, "left"]
        return [*found, *(["leaves"] if len(self.leaf_names) > FEW_LEAVES else [])]

    def _rename(self, is_first: bool) -> list[str]:
        """Give new names to all that goes on, the first ones that there are; return them in the order of `_live`."""
        names = self._names = Names()
        for step in self._pending:
            self.node_names[step] = names.take("n")
            self.arrivals[step].rename(names)
        self.leaves_here, self.leaf_ends = {}, {}
        for leaf in self._waiting_leaves():
            self.leaf_names[leaf] = self.leaves_here[leaf] = names.take("l")
            self.leaf_arrivals[leaf].rename(names)
        return self._live()[:2] if is_first else self._live()

    def _write_whole(self, row: list[str]) -> None:
        """Write the function that calls the others in a row, each with what the one before has left."""
        text = self.text
        begin = len(text.text)
        text.emit_head("async def backward(task, deadline, n0, g0):")
        text.emit(f"state = {row[0]}(task, deadline, 0, n0, g0)")
        again = [(name, len(list(alike))) for name, alike in groupby(row[1:])]
        text.emit(f"# {', '.join(name if times == 1 else f'{times} times {name}' for name, times in again)}")
        text.emit("for piece in pieces:")
        text.emit("    state = piece(*await state)")
        text.emit("return await state")
        self.functions.append((begin, len(text.text), "backward", None))
