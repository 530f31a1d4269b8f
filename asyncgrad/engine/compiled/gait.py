"""The compiled gait of a GraphTask: one generated function runs the nodes.

It does what the plain gait does, in the same order, and can be left at any step: where the function finds that the
graph is not the one that it was made from, what has been delivered so far is handed to the plain gait, which goes on
from there. So nothing is computed twice, and nothing has to be foreseen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, final

from ...graph.heavy import Heavy
from ...graph.leaf import accumulate_all
from ...graph.node import LEAF_ORDER, became_special
from ..gait import Gait
from ..plain import PlainGait
from .program import Differs, Line, LineKind, Piece, Place, Program, Slot

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...graph.node import Node
    from ..graph_task import GraphTask

__all__ = ["OTHER_GRAPH", "CompiledGait"]

#: Why most compiled functions are left.
OTHER_GRAPH = "another structure, shape or dtype"

#: What a line that looks at the graph raises where that is another one: of itself, by attributes that are not there,
#: or by a tuple of another length, or by None in the place of what was saved.
_OF_ANOTHER_GRAPH = (Differs, Heavy, AttributeError, TypeError, ValueError)

#: What else it may mean. Only None in the place of what was saved is of another type than expected.
_REASONS: dict[type[BaseException], str] = {Heavy: "a heavy body", TypeError: "a graph that was released"}


@final
class CompiledGait:
    """One run of a compiled backward; has the methods of PlainGait.

    Args:
        program: the compiled backward.
        root: the node to start from.
        grad: what arrives at it.
        ended: called at the end with `entry`; and, where the program could not carry all of it, why, and at which step.
        entry: what it is called with.
    """

    __slots__ = ("_became_special", "_coroutine", "_ended", "_entry", "_grad", "_results", "_root", "node", "program")

    def __init__(self, program: Program, root: Node, grad: Any, ended: Callable[..., None], entry: Any) -> None:
        self._entry = entry
        self.program = program
        self._root = root
        self._grad = grad
        self._ended = ended
        self._coroutine: Any = None
        self._results: tuple[list[Node], list[Any]] | None = None
        self._became_special = 0
        #: The node whose body has raised.
        self.node: Node | None = None

    def __len__(self) -> int:
        """Return how many nodes have been reached and have not run to their end."""
        if self._results is not None:
            return len(self._results[1])
        if self._coroutine is None:
            return 1
        place = self._where()
        return 0 if place is None else len(place.reached())

    def run(self, task: GraphTask, deadline: float) -> Gait:
        """Run nodes until none is left, or the clock passes `deadline`; or let the plain gait go on."""
        if self._results is not None:
            return Gait.DRAINED
        coroutine = self._coroutine
        try:
            if coroutine is None:
                grad, self._grad = self._grad, None
                coroutine = self._coroutine = self.program.run(task, deadline, self._root, grad)
                del grad
                coroutine.send(None)
            else:
                coroutine.send(deadline)
        except StopIteration as end:
            self._results = end.value
            self._ended(self._entry, self._root)
            return Gait.DRAINED
        except BaseException as error:
            left = self._left(task, error)
            if left is None:
                raise
        else:
            self._became_special = became_special[0]
            return Gait.BREATHE
        finally:
            del coroutine
        # Here, where the exception is gone, and with it the function's names: they would keep gradients that a leaf
        # is to take over, and be the context of what a body raises.
        return left if isinstance(left, Gait) else left.run(task, deadline)

    def look_again(self, task: GraphTask) -> None:
        """Let the plain gait go on if a node became special while the event loop breathed."""
        if became_special[0] == self._became_special:
            return
        place = self._where()
        assert place is not None
        plain = self._continued(task, place)
        self.close()
        self._ended(self._entry, self._root, "a hook was added meanwhile", -1)
        plain.note_specials(self._became_special)
        plain.look_again(task)

    def finish(self, task: GraphTask) -> None:
        """Give the leaves, which waited for the end, their gradients."""
        assert self._results is not None
        leaves, grads = self._results
        if task.limits is None:
            listed = task.outer is not None or task.completion is not None
            accumulate_all(leaves, grads, task.changes, listed)
        else:
            for leaf in leaves:
                task.run_leaf(leaf, [grads.pop()])
        self._results = ([], [])

    def clear(self) -> None:
        """Let go of all gradients under way."""
        self.node = None
        self._grad = None
        self._results = ([], [])
        self.close()

    def close(self) -> None:
        """Let go of the function where it stands."""
        coroutine, self._coroutine = self._coroutine, None
        if coroutine is not None:
            coroutine.close()

    # Where the function stands.

    def _where(self) -> _Place | None:
        """Return where the suspended function stands."""
        coroutine = self._coroutine
        while coroutine is not None and getattr(coroutine, "cr_frame", None) is not None:
            frame = coroutine.cr_frame
            found = self._place(frame, frame.f_lineno)
            if found is not None:
                return found
            coroutine = coroutine.cr_await
        return None

    def _place(self, frame: Any, number: int) -> _Place | None:
        piece = self.program.pieces.get(frame.f_code)
        line = None if piece is None else self.program.lines[number - 1]
        return None if piece is None or line is None else _Place(piece, line, frame.f_locals)

    def _left(self, task: GraphTask, error: BaseException) -> PlainGait | Gait | None:
        """Return how to go on from where the function raised `error`; None where the error is a node's."""
        trace = error.__traceback__
        place = None
        is_innermost = False
        while trace is not None:
            found = self._place(trace.tb_frame, trace.tb_lineno)
            if found is not None:
                place, is_innermost = found, trace.tb_next is None
            trace = trace.tb_next
        self._coroutine = None
        if place is None:
            return None
        step = place.line.step + place.names.get("base", 0)
        if is_innermost and place.line.kind is LineKind.GUARD and isinstance(error, _OF_ANOTHER_GRAPH):
            reason = _REASONS.get(type(error), OTHER_GRAPH)
            self._ended(self._entry, self._root, reason, step)
            plain = self._continued(task, place)
            # The plain gait does not run a GraphRoot, or a node of one's own.
            return plain.count_from_here(task) if any(node.special for node, *_ in place.reached()) else plain
        if is_innermost and place.line.kind is LineKind.EDGE and isinstance(error, AttributeError):
            # A gradient is no array. The counted gait makes one of a number, and refuses the rest by name.
            self._ended(self._entry, self._root, "a gradient that is no array", -1)
            edge = place.line.edge
            outputs = tuple(
                None if name is None or index < edge else place.names[name]
                for index, name in enumerate(place.piece.outputs[place.line.step])
            )
            return self._continued(task, place).start_counting(task, place.node(), edge, outputs)
        self._ended(self._entry, self._root, "an error", -1)
        if place.line.kind is not LineKind.BREAK:
            self.node = place.node()
        return None

    def _continued(self, task: GraphTask, place: _Place) -> PlainGait:
        """Make the plain gait that goes on from there the task's."""
        heap: list[tuple[int, Node]] = []
        leaves: list[Node] = []
        buffers: dict[Node, Any] = {}
        owned: set[Any] = set()
        for node, slots, at in place.reached():
            is_single = node.shape is not None or node.order == LEAF_ORDER
            grads = [None if slot is None or slot.first >= at else place.names[slot.name] for slot in slots]
            buffers[node] = grads[0] if is_single else grads
            for input_nr, slot in enumerate(slots):
                if slot is not None and slot.owned is not None and slot.owned < at:
                    owned.add(node if is_single else (node, input_nr))
            if node.order == LEAF_ORDER:
                leaves.append(node)
            else:
                heap.append((node.order, node))
        plain = task.plain = PlainGait.resumed(heap, buffers, owned, leaves)
        return plain


@final
class _Place(NamedTuple):
    """A line of a compiled function at which that stands, and its names."""

    piece: Piece
    line: Line
    names: dict[str, Any]

    def node(self) -> Any:
        """Return the node of the step."""
        return self.names[self.piece.node_names[self.line.step]]

    def reached(self) -> list[tuple[Any, tuple[Slot | None, ...], Place]]:
        """Return the nodes that have been reached and have not run, the leaves last, each with its slots."""
        at = (self.line.step, self.line.edge)
        begin = self.line.step + (self.line.edge >= 0)
        found: list[tuple[Any, tuple[Slot | None, ...], Place]] = [
            (self.names[self.piece.node_names[step]], slots, at)
            for step, slots in self.piece.slots.items()
            if step >= begin and any(slot is not None and slot.first < at for slot in slots)
        ]
        found += [
            (self.names[name], (slot,), at)
            for name, slot in zip(self.piece.leaf_names, self.piece.leaf_slots, strict=True)
            if slot is not None and slot.first < at
        ]
        return found
