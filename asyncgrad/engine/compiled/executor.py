"""CompiledExecutor: one generated function runs the nodes.

It does what FastPath does, in the same order, and can be left at any op: where a guard fails, since the graph is not
the one that the function was made from, what has been delivered so far is handed to a FastPath, which goes on from
there (deoptimisation). So nothing is computed twice, and nothing has to be foreseen. What FastPath would leave to a
DependencyExecutor, a NodeTask runs here as it does there, while the function is suspended.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, final

from ...errors import GraphError
from ...graph.cost import OffloadSignal
from ...graph.node import LEAF_ORDER, metas_added
from ..exec_info import nodes_below
from ..executor import NodeTurn, Stop
from ..fast_path import FastPath
from .calls import changed_edges
from .program import GuardFailed, LineKind, NeedsAwait, Place, Program, Segment, Slot, SourceMapEntry

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...graph.node import Node
    from ...scheduling import Clock
    from ..executor import Executor, TurnExecutor
    from ..graph_task import GraphTask
    from .calls import CompiledTurn
    from .trace import Slices

__all__ = ["AN_ERROR", "OTHER_GRAPH", "CompiledExecutor", "CompilingExecutor"]

#: Why most compiled functions are left.
OTHER_GRAPH = "another structure, shape or dtype"
#: Why others end before the engine could go on; a cancellation is one.
AN_ERROR = "an error"

#: What a line that looks at the graph raises where that is another one: of itself, by attributes that are not there,
#: or by a tuple of another length, or by None in the place of what was saved.
_OF_ANOTHER_GRAPH = (GuardFailed, OffloadSignal, AttributeError, TypeError, ValueError)

#: What else it may mean. Only None in the place of what was saved is of another type than expected.
_REASONS: dict[type, str] = {
    OffloadSignal: "a heavy body",
    TypeError: "a graph that was released",
    NeedsAwait: "a body that waits",
}


@final
class CompiledExecutor:
    """The executor of a backward that has been compiled: one run of it.

    Args:
        task: the backward.
        program: the compiled backward.
        root: the node to start from.
        grad: what arrives at it.
        ended: called at the end with `entry`; and, where the program could not carry all of it, why, and at which op.
        entry: what it is called with.
    """

    __slots__ = (
        "_coroutine",
        "_edges",
        "_ended",
        "_entry",
        "_grad",
        "_handed_out",
        "_has_let_others_see",
        "_metas_added",
        "_results",
        "_root",
        "_task",
        "_turn",
        "node",
        "program",
    )

    leaves_last = True

    def __init__(
        self, task: GraphTask, program: Program, root: Node, grad: Any, ended: Callable[..., None], entry: Any
    ) -> None:
        self._task = task
        self._entry = entry
        self.program = program
        self._root = root
        self._grad = grad
        self._ended = ended
        self._coroutine: Any = None
        self._results: tuple[list[Node], list[Any]] | None = None
        #: How many nodes had got a NodeMeta, and how often somebody had asked what is to run, when others ran last.
        self._metas_added = self._handed_out = 0
        #: Where hooks may look on, how many edges lead to each node; and whether any has.
        self._edges: dict[Node, int] = {}
        self._has_let_others_see = False
        #: Of the node that a NodeTask runs.
        self._turn: CompiledTurn | None = None
        #: The node whose body has raised, or whose turn it is.
        self.node: Node | None = None

    def __len__(self) -> int:
        """Return how many nodes have been reached and have not run to their end."""
        if self._turn is not None:
            return self._turn.others + self._turn.is_running
        if self._results is not None:
            return len(self._results[1])
        if self._coroutine is None:
            return 1
        place = self._where()
        return 0 if place is None else place.reached_count()

    def run(self, deadline: float, clock: Clock = perf_counter) -> Stop | NodeTurn:
        """Run nodes until none is left, `clock` passes `deadline`, or one is to run as a NodeTask.

        Where a guard fails, another executor goes on.
        """
        if self._results is not None or (self._turn is not None and self._turn.is_running):
            return Stop.DRAINED
        task = self._task
        coroutine = self._coroutine
        if coroutine is not None:
            self._look_again()
            if task.executor is not self:
                return Stop.HANDED_OVER
        try:
            if coroutine is None:
                task.is_watched = self.program.runs_node_task
                grad, self._grad = self._grad, None
                coroutine = self._coroutine = self.program.run(task, clock, deadline, self._root, grad)
                del grad
                turn = coroutine.send(None)
            else:
                self._turn = None
                turn = coroutine.send(deadline)
        except StopIteration as end:
            self._results = end.value
            self._end(None)
            return Stop.DRAINED
        except BaseException as error:
            left = self._left(error)
            if left is None:
                raise
        else:
            self._metas_added = metas_added[0]
            self._handed_out = 0 if task.limits is None else task.limits.handed_out
            return Stop.BUDGET_SPENT if turn is None else self._begin_turn(turn)
        finally:
            del coroutine
        if isinstance(left, GraphError):
            raise left
        return left

    # What NodeTasks run.

    def count_edges(self, root: Node) -> dict[Node, int]:
        """Return how many edges lead to each node, for the function to use up.

        A leaf takes its gradient as soon as it is whole, since hooks may look at it, and so before the rest of the
        graph has been seen. This says that no further one will come.
        """
        self._edges = nodes_below(root)
        return self._edges.copy()

    def _begin_turn(self, turn: CompiledTurn) -> NodeTurn:
        self._turn = turn
        self.node = turn.node
        return NodeTurn(turn.node, turn.grads)

    def end_turn(self, node: Node, outputs: tuple[Any, ...] | None) -> None:
        """Take what the node in turn gave; None where its body did not run."""
        turn = self._turn
        assert turn is not None
        turn.is_running = False
        turn.outputs = outputs
        self._has_let_others_see = True
        self.node = None
        if not turn.is_as_expected():
            self._leave("a hook that changed the graph")

    def suspended(self) -> None:
        """Let the engine go on with the nodes that are ready, if there are any, beside the one that has suspended."""
        assert self._turn is not None
        if self._turn.others:
            self._leave("a body that waits while others could run")
            executor: TurnExecutor = self._task.executor  # type: ignore[assignment]  # the slow path
            executor.suspended()

    def discount(self, node: Node) -> None:
        """Count the node in turn as no longer running."""
        self._turn = None

    def recheck(self) -> None:
        """Do nothing: the function looks again when it goes on, and not while a node has its turn."""

    def _look_again(self) -> None:
        """Let the engine go on if others have put a hook on a node that has been reached, or may have one run."""
        limits = self._task.limits
        if limits is not None and limits.handed_out != self._handed_out:
            self._leave("a hook that asked what is to run")
            return
        if metas_added[0] == self._metas_added:
            return
        self._metas_added = metas_added[0]
        place = self._where()
        assert place is not None
        if place.is_watched_anew():
            self._leave("a hook was added meanwhile")

    def finish(self) -> None:
        """Give the leaves, which waited for the end, their gradients."""
        assert self._results is not None
        leaves, grads = self._results
        self._task.run_leaves(leaves, grads)
        self._results = ([], [])

    def clear(self) -> None:
        """Let go of all gradients under way, since the backward has failed; what runs is still counted."""
        self._end(AN_ERROR)
        turn = self._turn
        if turn is not None:
            turn.others, turn.outputs = 0, None
            if self.node is turn.node or not turn.is_running:
                self._turn = None
        self.node = None
        self._grad = None
        self._results = ([], [])
        self.close()

    def _end(self, reason: str | None, op: int = -1) -> None:
        """Say how the function has ended, once."""
        entry, self._entry = self._entry, None
        if entry is not None:
            self._ended(entry, self._root, reason, op)

    def close(self) -> None:
        """Let go of the function where it stands."""
        coroutine, self._coroutine = self._coroutine, None
        if coroutine is not None:
            coroutine.close()

    # Where the function stands.

    def _where(self) -> _Position | None:
        """Return where the suspended function stands."""
        coroutine = self._coroutine
        while coroutine is not None and getattr(coroutine, "cr_frame", None) is not None:
            frame = coroutine.cr_frame
            found = self._place(frame, frame.f_lineno)
            if found is not None:
                return found
            coroutine = coroutine.cr_await
        return None

    def _place(self, frame: Any, number: int) -> _Position | None:
        segment = self.program.segments.get(frame.f_code)
        line = None if segment is None else self.program.lines[number - 1]
        return None if segment is None or line is None else _Position(segment, line, frame)

    def _left(self, error: BaseException) -> Stop | GraphError | None:
        """Let another executor go on from where the function raised `error`.

        Returns:
            HANDED_OVER, or what to raise; None where that is `error`.
        """
        # A StopIteration leaves a coroutine as the cause of a RuntimeError.
        cause = error.__cause__
        trace = (cause if isinstance(cause, StopIteration) and isinstance(error, RuntimeError) else error).__traceback__
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
        op = place.line.op + place.names.get("base", 0)
        kinds = _OF_ANOTHER_GRAPH if place.line.kind is LineKind.GUARD else NeedsAwait
        if is_innermost and isinstance(error, kinds):
            reason = _REASONS.get(type(error), OTHER_GRAPH)
            self._end(reason, op)
            if self._has_let_others_see:
                changed = changed_edges(place.node(), self._edges, nodes_below(self._root))
                if changed is not None:
                    self.node = place.node()
                    return changed
            self._count(self._continued(place), place)
            return Stop.HANDED_OVER
        if is_innermost and place.line.kind is LineKind.EDGE and isinstance(error, (AttributeError, GuardFailed)):
            # A gradient is no array. The slow path makes one of a number, and refuses the rest by name.
            reason = "an undefined gradient" if isinstance(error, GuardFailed) else "a gradient that is no array"
            self._end(reason)
            edge = place.line.edge
            outputs = tuple(
                None if name is None or index < edge else place.names[name]
                for index, name in enumerate(place.segment.outputs[place.line.op])
            )
            return self._continued(place).leave(place.node(), edge, outputs)
        self._end(AN_ERROR)
        if place.line.kind is not LineKind.BREAK:
            self.node = place.node()
        return None

    def _leave(self, reason: str) -> None:
        """Let the engine go on from where the function is suspended, be that in the turn of a node or before an op."""
        place = self._where()
        assert place is not None
        turn, self._turn = self._turn, None
        path = self._continued(place)
        self.close()
        self._end(reason)
        if turn is None:
            self._count(path, place)
            return
        node = turn.node
        executor = path.hand_over([target for target in turn.edges[0] if target is not None])
        if turn.is_running:
            executor.node = self.node
            executor.begin(node)
        else:
            executor.node = node
            executor.end_turn(node, turn.outputs)

    def _count(self, path: FastPath, place: _Position) -> None:
        """Let the slow path go on where the fast one cannot: that runs no GraphRoot and no node with a NodeMeta."""
        if any(node.meta is not None for node, *_ in place.reached()):
            path.hand_over()

    def _continued(self, place: _Position) -> FastPath:
        """Make the FastPath that goes on from there the task's executor."""
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
        task = self._task
        path = task.executor = FastPath.resumed(task, heap, buffers, owned, leaves)
        return path


@final
class CompilingExecutor:
    """The executor of a backward whose function has still to be found, or compiled, in slices.

    Nothing of the backward has run before another executor is in its place. Given up in the middle, it leaves nothing
    behind.

    Args:
        task: the backward.
        work: returns what makes the executor, of the task and a gradient: a CompiledExecutor where there is a function.
        grad: what arrives at the root.
    """

    __slots__ = ("_grad", "_task", "_work", "node")

    leaves_last = True

    def __init__(self, task: GraphTask, work: Slices[Callable[[GraphTask, Any], Executor]], grad: Any) -> None:
        self._task = task
        self._work = work
        self._grad = grad
        #: No node runs here.
        self.node: Node | None = None

    def __len__(self) -> int:
        """Return how many nodes have been reached and have not run to their end: the root waits."""
        return 1

    def run(self, deadline: float, clock: Clock = perf_counter) -> Stop:
        """Work until `clock` is about to pass `deadline`; at the end hand over to the executor that is found."""
        try:
            while clock() + next(self._work) <= deadline:
                pass
        except StopIteration as end:
            make = end.value
        else:
            return Stop.BUDGET_SPENT
        # A leaf takes over an array that nobody else holds.
        grad, self._grad = self._grad, None
        self._task.executor = make(self._task, grad)
        return Stop.HANDED_OVER

    def recheck(self) -> None:
        """Do nothing: whoever goes on looks at what others have changed."""

    def finish(self) -> None:
        """Do nothing, for there are no gradients of leaves."""

    def clear(self) -> None:
        """Give up; others may compile the same from now on."""
        self._grad = None
        self._work.close()


@final
class _Position(NamedTuple):
    """A line of a compiled function at which that stands."""

    segment: Segment
    line: SourceMapEntry
    frame: Any

    @property
    def names(self) -> dict[str, Any]:
        """What the local names hold; from now on the frame holds that too, until it goes on."""
        return self.frame.f_locals  # type: ignore[no-any-return]

    def node(self) -> Any:
        """Return the node of the op, or the leaf that runs."""
        line, segment = self.line, self.segment
        return self.names[segment.node_names[line.op] if line.leaf < 0 else segment.leaf_names[line.leaf]]

    def reached_count(self) -> int:
        """Return how many nodes have been reached and have not run."""
        return len(self._ops()) + len(self._leaves())

    def reached(self) -> list[tuple[Any, tuple[Slot | None, ...], Place]]:
        """Return the nodes that have been reached and have not run, the leaves last, each with its slots."""
        at = (self.line.op, self.line.edge)
        names, segment = self.names, self.segment
        found: list[tuple[Any, tuple[Slot | None, ...], Place]] = [
            (names[segment.node_names[op]], segment.slots[op], at) for op in self._ops()
        ]
        found += [(names[segment.leaf_names[leaf]], (segment.leaf_slots[leaf],), at) for leaf in self._leaves()]
        return found

    def is_watched_anew(self) -> bool:
        """Tell whether a node that has been reached, and that is run by a plain call, has a NodeMeta now."""
        names, segment = self.names, self.segment
        # Those that the node in turn leads to have been looked at ahead of it.
        at = (self.line.op + 1, -1) if self.line.kind is LineKind.NODE_TASK else None
        expected = [names[segment.node_names[op]] for op in self._ops(at) if op not in segment.ops_with_meta]
        expected += [
            names[segment.leaf_names[leaf]] for leaf in self._leaves(at) if leaf not in segment.leaves_with_meta
        ]
        return any(node.meta is not None for node in expected)

    def _ops(self, at: Place | None = None) -> list[int]:
        """Return the ops that have been reached by then, by now if not given, and have not run."""
        at = at or (self.line.op, self.line.edge)
        begin = self.line.op + (self.line.edge >= 0)
        return [
            op
            for op, slots in self.segment.slots.items()
            if op >= begin and any(slot is not None and slot.first < at for slot in slots)
        ]

    def _leaves(self, at: Place | None = None) -> list[int]:
        now = (self.line.op, self.line.edge)
        at = at or now
        return [
            leaf
            for leaf, (slot, end) in enumerate(zip(self.segment.leaf_slots, self.segment.leaf_ends, strict=True))
            if slot is not None and slot.first < at and (end is None or now < end)
        ]
