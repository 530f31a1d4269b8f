"""CompiledExecutor, which runs a backward by a compiled function, and CompilingExecutor, which finds or compiles one.

A compiled function runs the nodes in the order of FastPath, and can be left at any op. If a guard fails, because the
graph is not like the one that was compiled, the gradients delivered so far go to a FastPath, which continues from there
(deoptimisation). So no node that has ended runs again, and the cache may choose a function that does not fit.

A node for which FastPath would hand over to a DependencyExecutor runs as a NodeTask while the function is suspended.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, final

from ....errors import GraphError
from ...graph.body_signals import OffloadSignal
from ...graph.node import LEAF_ORDER, metas_added
from ..exec_info import nodes_below
from ..executor import NodeTurn, Stop
from ..fast_path import FastPath
from ..observation import warn_of_stall
from .calls import changed_edges_error
from .program import GuardFailed, LineKind, NeedsAwait, Program, ProgramPoint, Segment, Slot, SourceMapEntry

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...graph.node import Node
    from ...settings.scheduling import Clock
    from ..executor import Executor, TurnExecutor
    from ..graph_task import GraphTask
    from .calls import CompiledTurn
    from .trace import Slices

__all__ = ["AN_ERROR", "OTHER_GRAPH", "CompiledExecutor", "CompilingExecutor"]

#: The reason in CompiledStats for a failed guard.
OTHER_GRAPH = "another structure, shape or dtype"
#: The reason for an error in the middle of a function, cancellation included.
AN_ERROR = "an error"

#: The errors of a line of kind GUARD that mean that the graph is another one. Besides the guards themselves, a missing
#: attribute, a tuple of another length, or None instead of saved tensors may raise.
_GUARD_ERRORS = (GuardFailed, OffloadSignal, AttributeError, TypeError, ValueError)

#: The reasons for some of these errors; the rest count as OTHER_GRAPH. A TypeError means that saved tensors are None.
_REASONS: dict[type, str] = {
    OffloadSignal: "a heavy body",
    TypeError: "a graph that was released",
    NeedsAwait: "a body that waits",
}


@final
class CompiledExecutor:
    """The executor that runs a backward by a compiled function.

    Args:
        task: the backward.
        program: the compiled function.
        root: the node to start from.
        grad: the gradient that arrives at it.
        on_end: called once, with `origin`, `root`, the reason why the function was left (None if it ran to its end),
            and the op at which a guard failed, or -1.
        origin: passed to `on_end`.
    """

    __slots__ = (
        "_coroutine",
        "_edges",
        "_grad",
        "_handed_out",
        "_has_run_user_code",
        "_metas_added",
        "_on_end",
        "_origin",
        "_results",
        "_root",
        "_task",
        "_turn",
        "node",
        "program",
    )

    leaves_last = True

    def __init__(
        self, task: GraphTask, program: Program, root: Node, grad: Any, on_end: Callable[..., None], origin: Any
    ) -> None:
        self._task = task
        self._origin = origin
        self.program: Program = program
        self._root = root
        self._grad = grad
        self._on_end = on_end
        self._coroutine: Any = None
        self._results: tuple[list[Node], list[Any]] | None = None
        #: The values of `metas_added` and `limits.handed_out` when the function was suspended last.
        self._metas_added = self._handed_out = 0
        #: If some nodes run as NodeTasks: how many edges led to each node at the beginning.
        self._edges: dict[Node, int] = {}
        #: Whether a NodeTask has run, and so user code may have changed the graph.
        self._has_run_user_code = False
        #: The turn of the node that runs as a NodeTask.
        self._turn: CompiledTurn | None = None
        #: The node that has its turn, or whose body has raised.
        self.node: Node | None = None

    def __len__(self) -> int:
        """Return how many nodes have been reached and have not ended."""
        if self._turn is not None:
            return self._turn.ready_count + self._turn.is_running
        if self._results is not None:
            return len(self._results[1])
        if self._coroutine is None:
            return 1
        position = self._position()
        return 0 if position is None else position.reached_count()

    def run(self, deadline: float, clock: Clock = perf_counter) -> Stop | NodeTurn:
        """Run nodes until none is left, `clock` passes `deadline`, or one has to run as a NodeTask.

        If a guard fails, hand over to another executor.
        """
        if self._results is not None or (self._turn is not None and self._turn.is_running):
            return Stop.DRAINED
        task = self._task
        coroutine = self._coroutine
        if coroutine is not None:
            self._recheck_reached()
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
            self._report_end(None)
            # The driver finishes without another look at the clock.
            if (late := clock() - deadline) > 0.0:
                warn_of_stall(task, None, late)
            return Stop.DRAINED
        except BaseException as error:
            left = self._deoptimize_at(error)
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

    # NodeTasks.

    def count_edges(self, root: Node) -> dict[Node, int]:
        """Return how many edges lead to each node, in a dictionary that the function may change.

        Hooks may read `.grad`, so a leaf takes its gradient as soon as that is complete. The function has not checked
        the rest of the graph then; the number of edges tells it that no later node leads to the leaf.
        """
        self._edges = nodes_below(root)
        return self._edges.copy()

    def _begin_turn(self, turn: CompiledTurn) -> NodeTurn:
        self._turn = turn
        self.node = turn.node
        return NodeTurn(turn.node, turn.grads)

    def end_turn(self, node: Node, outputs: tuple[Any, ...] | None) -> None:
        """Take the gradients of the node whose turn has ended, or None where its body did not run."""
        turn = self._turn
        assert turn is not None
        turn.is_running = False
        turn.outputs = outputs
        self._has_run_user_code = True
        self.node = None
        if not turn.is_as_expected():
            self._deoptimize("a hook that changed the graph")

    def on_suspend(self) -> None:
        """Deoptimise if another node is ready, so that it runs beside the NodeTask that has suspended."""
        assert self._turn is not None
        if self._turn.ready_count:
            self._deoptimize("a body that waits while others could run")
            executor: TurnExecutor = self._task.executor  # type: ignore[assignment]  # the slow path
            executor.on_suspend()

    def mark_ended(self, node: Node) -> None:
        """Note that a node has ended after a failure, when `end_turn` is not called any more."""
        self._turn = None

    def recheck(self) -> None:
        """Do nothing: `run` checks for changes before the function goes on."""

    def is_waiting(self) -> bool:
        """Return False: a function may go on after each NodeTask."""
        return False

    def prepare_to_wait(self) -> None:
        """Do nothing: no node overlaps one that waits."""

    def ready(self) -> list[Node]:
        """Return the nodes that have been reached; from any thread."""
        if self._coroutine is None and self._results is None:
            return [self._root]
        position = self._position()
        return [] if position is None else [node for node, *_ in position.reached()]

    def _recheck_reached(self) -> None:
        """Deoptimise if, while the function was suspended, a reached node got a hook or code asked what will run."""
        limits = self._task.limits
        if limits is not None and limits.handed_out != self._handed_out:
            self._deoptimize("code that asked what will run")
            return
        if metas_added[0] == self._metas_added:
            return
        self._metas_added = metas_added[0]
        position = self._position()
        assert position is not None
        if position.has_new_meta():
            self._deoptimize("a hook was added meanwhile")

    def finish(self) -> None:
        """Run the AccumulateGrads that the function left for the end."""
        assert self._results is not None
        leaves, grads = self._results
        self._task.run_leaves(leaves, grads)
        self._results = ([], [])

    def clear(self) -> None:
        """Drop all pending gradients after a failure; nodes that run still count."""
        self._report_end(AN_ERROR)
        turn = self._turn
        if turn is not None:
            turn.ready_count, turn.outputs = 0, None
            if self.node is turn.node or not turn.is_running:
                self._turn = None
        self.node = None
        self._grad = None
        self._results = ([], [])
        self.close()

    def _report_end(self, reason: str | None, op: int = -1) -> None:
        """Call `on_end`, the first time only."""
        origin, self._origin = self._origin, None
        if origin is not None:
            self._on_end(origin, self._root, reason, op)

    def close(self) -> None:
        """Close the function where it is suspended."""
        coroutine, self._coroutine = self._coroutine, None
        if coroutine is not None:
            coroutine.close()

    # Deoptimisation.

    def _position(self) -> _Position | None:
        """Return the position at which the function is suspended; None if that is at no line of the source map."""
        coroutine = self._coroutine
        while coroutine is not None and getattr(coroutine, "cr_frame", None) is not None:
            frame = coroutine.cr_frame
            found = self._position_at(frame, frame.f_lineno)
            if found is not None:
                return found
            coroutine = coroutine.cr_await
        return None

    def _position_at(self, frame: Any, number: int) -> _Position | None:
        segment = self.program.segments.get(frame.f_code)
        line = None if segment is None else self.program.source_map[number - 1]
        return None if segment is None or line is None else _Position(segment, line, frame)

    def _deoptimize_at(self, error: BaseException) -> Stop | GraphError | None:
        """Hand over to another executor at the line that raised `error`, if the error says so.

        Returns:
            HANDED_OVER, or an error to raise instead of `error`; None to raise `error` itself.
        """
        # Python turns a StopIteration that leaves a coroutine into a RuntimeError.
        cause = error.__cause__
        raised = cause if isinstance(cause, StopIteration) and isinstance(error, RuntimeError) else error
        traceback = raised.__traceback__
        position = None
        is_innermost = False
        while traceback is not None:
            found = self._position_at(traceback.tb_frame, traceback.tb_lineno)
            if found is not None:
                position, is_innermost = found, traceback.tb_next is None
            traceback = traceback.tb_next
        self._coroutine = None
        if position is None:
            return None
        op = position.line.op + position.names.get("base", 0)
        kinds = _GUARD_ERRORS if position.line.kind is LineKind.GUARD else NeedsAwait
        if is_innermost and isinstance(error, kinds):
            reason = _REASONS.get(type(error), OTHER_GRAPH)
            self._report_end(reason, op)
            if self._has_run_user_code:
                edges_error = changed_edges_error(position.node(), self._edges, nodes_below(self._root))
                if edges_error is not None:
                    self.node = position.node()
                    return edges_error
            self._hand_over_if_needed(self._make_fast_path(position), position)
            return Stop.HANDED_OVER
        if is_innermost and position.line.kind is LineKind.EDGE and isinstance(error, (AttributeError, GuardFailed)):
            # A gradient is not an array. The slow path converts a number to one, and raises an error that names the
            # node for anything else.
            reason = "an undefined gradient" if isinstance(error, GuardFailed) else "a gradient that is not an array"
            self._report_end(reason)
            edge = position.line.edge
            outputs = tuple(
                None if name is None or index < edge else position.names[name]
                for index, name in enumerate(position.segment.outputs[position.line.op])
            )
            return self._make_fast_path(position).leave(position.node(), edge, outputs)
        self._report_end(AN_ERROR)
        if position.line.kind is not LineKind.CLOCK:
            self.node = position.node()
        return None

    def _deoptimize(self, reason: str) -> None:
        """Hand over to another executor where the function is suspended: in the turn of a node, or before an op."""
        position = self._position()
        assert position is not None
        turn, self._turn = self._turn, None
        path = self._make_fast_path(position)
        self.close()
        self._report_end(reason)
        if turn is None:
            self._hand_over_if_needed(path, position)
            return
        node = turn.node
        executor = path.hand_over([target for target in turn.edges[0] if target is not None])
        if turn.is_running:
            executor.node = self.node
            executor.begin(node)
        else:
            executor.node = node
            executor.end_turn(node, turn.outputs)

    def _hand_over_if_needed(self, path: FastPath, position: _Position) -> None:
        """Hand over to the slow path if a reached node has a NodeMeta, as a GraphRoot does: FastPath runs none such."""
        if any(node.meta is not None for node, *_ in position.reached()):
            path.hand_over()

    def _make_fast_path(self, position: _Position) -> FastPath:
        """Make a FastPath that goes on from a position the task's executor, and return it."""
        heap: list[tuple[int, Node]] = []
        leaves: list[Node] = []
        buffers: dict[Node, Any] = {}
        owned: set[Any] = set()
        for node, slots, at in position.reached():
            is_single = node.shape is not None or node.order == LEAF_ORDER
            grads = [None if slot is None or slot.first >= at else position.names[slot.name] for slot in slots]
            buffers[node] = grads[0] if is_single else grads
            for input_nr, slot in enumerate(slots):
                if slot is not None and slot.owned is not None and slot.owned < at:
                    owned.add(node if is_single else (node, input_nr))
            if node.order == LEAF_ORDER:
                leaves.append(node)
            else:
                heap.append((node.order, node))
        task = self._task
        path = task.executor = FastPath.from_state(task, heap, buffers, owned, leaves)
        return path


@final
class CompilingExecutor:
    """The executor that finds or compiles the function of a backward, in slices, and then hands over.

    It runs no node. A backward that fails in the middle leaves no unfinished function in the cache.

    Args:
        task: the backward.
        work: the slices; they return a function of the task and a gradient that makes the next executor.
        grad: the gradient that arrives at the root.
    """

    __slots__ = ("_grad", "_task", "_work", "node")

    leaves_last = True

    def __init__(self, task: GraphTask, work: Slices[Callable[[GraphTask, Any], Executor]], grad: Any) -> None:
        self._task = task
        self._work = work
        self._grad = grad
        #: Always None, since no node runs here.
        self.node: Node | None = None

    def __len__(self) -> int:
        """Return 1, for the root that waits."""
        return 1

    def run(self, deadline: float, clock: Clock = perf_counter) -> Stop:
        """Run slices until `clock` is about to pass `deadline`; after the last one hand over to the executor found."""
        try:
            while clock() + next(self._work) <= deadline:
                pass
        except StopIteration as end:
            make = end.value
        else:
            return Stop.BUDGET_SPENT
        # A leaf takes over an array only if there is no other reference to it.
        grad, self._grad = self._grad, None
        self._task.executor = make(self._task, grad)
        return Stop.HANDED_OVER

    def recheck(self) -> None:
        """Do nothing: the next executor reads the graph as it is then."""

    def finish(self) -> None:
        """Do nothing: there are no gradients of leaves."""

    def is_waiting(self) -> bool:
        """Return False: nothing has begun."""
        return False

    def prepare_to_wait(self) -> None:
        """Do nothing: no node runs yet."""

    def ready(self) -> list[Node]:
        """Return the root, which waits; from any thread."""
        return [self._task.root]

    def clear(self) -> None:
        """Drop the unfinished work; another backward may compile the same graph from now on."""
        self._grad = None
        self._work.close()


@final
class _Position(NamedTuple):
    """The line at which a compiled function is suspended, or has raised."""

    segment: Segment
    line: SourceMapEntry
    frame: Any

    @property
    def names(self) -> dict[str, Any]:
        """The local variables. The frame may keep a second reference to their values until it goes on."""
        names: dict[str, Any] = self.frame.f_locals
        return names

    def node(self) -> Any:
        """Return the node of the op, or the AccumulateGrad that runs."""
        line, segment = self.line, self.segment
        return self.names[segment.node_names[line.op] if line.leaf < 0 else segment.leaf_names[line.leaf]]

    def reached_count(self) -> int:
        """Return how many nodes have been reached and have not ended."""
        return len(self._ops()) + len(self._leaves())

    def reached(self) -> list[tuple[Any, tuple[Slot | None, ...], ProgramPoint]]:
        """Return the nodes that have been reached and have not ended, leaves last, each with its slots and a point."""
        at = (self.line.op, self.line.edge)
        names, segment = self.names, self.segment
        found: list[tuple[Any, tuple[Slot | None, ...], ProgramPoint]] = [
            (names[segment.node_names[op]], segment.slots[op], at) for op in self._ops()
        ]
        found += [(names[segment.leaf_names[leaf]], (segment.leaf_slots[leaf],), at) for leaf in self._leaves()]
        return found

    def has_new_meta(self) -> bool:
        """Tell whether a reached node that had no NodeMeta in the trace has one now."""
        names, segment = self.names, self.segment
        # The targets of a node that has its turn count as reached, since their guards ran before the turn.
        at = (self.line.op + 1, -1) if self.line.kind is LineKind.NODE_TASK else None
        expected = [names[segment.node_names[op]] for op in self._ops(at) if op not in segment.ops_with_meta]
        expected += [
            names[segment.leaf_names[leaf]] for leaf in self._leaves(at) if leaf not in segment.leaves_with_meta
        ]
        return any(node.meta is not None for node in expected)

    def _ops(self, at: ProgramPoint | None = None) -> list[int]:
        """Return the ops that are reached before the point `at`, by default the current one, and have not ended."""
        at = at or (self.line.op, self.line.edge)
        begin = self.line.op + (self.line.edge >= 0)
        return [
            op
            for op, slots in self.segment.slots.items()
            if op >= begin and any(slot is not None and slot.first < at for slot in slots)
        ]

    def _leaves(self, at: ProgramPoint | None = None) -> list[int]:
        now = (self.line.op, self.line.edge)
        at = at or now
        return [
            leaf
            for leaf, (slot, end) in enumerate(zip(self.segment.leaf_slots, self.segment.leaf_ends, strict=True))
            if slot is not None and slot.first < at and (end is None or now < end)
        ]
