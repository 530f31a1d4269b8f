"""GraphTask: one backward through a graph, as a state machine that never awaits.

It has two gaits. The *plain* one (`PlainGait`) takes nodes in the order of their sequence numbers and counts
nothing. At the first thing that could tell, or that takes its time (a hook, a user's body, an async body, an edge
set by hand against the order, anomaly mode), the task counts what the remaining nodes still wait for and goes on in
the *counted* gait (`CountedGait`), in the order PyTorch's engine gives.
"""

from __future__ import annotations

from contextvars import Context
from threading import get_ident
from time import perf_counter
from typing import TYPE_CHECKING, Any, final

from ..graph.grad_change import continue_sum, hand_over, settle_all
from ..graph.heavy import Heavy
from ..graph.leaf import accumulate_all
from ..graph.node import LEAF_ORDER
from .body import prefers_worker, run_here
from .compiled.gait import CompiledGait
from .compiled.mode import first_gait
from .counted import CountedGait
from .device import needs_care
from .gait import Gait, NodeTurn
from .streams import streams_met
from .task_record import TaskRecord
from .task_streams import TaskStreams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..graph.grad_change import Change, GradChange
    from ..graph.node import Node
    from .compiled.preparing import CompilingGait
    from .completion import Completion
    from .deeper_first import DeeperFirst
    from .errand import Errand
    from .exec_info import ExecInfos
    from .plain import PlainGait

__all__ = ["GraphTask"]

#: What a task has in the place of its context once it is over. Nothing runs in it.
_NO_CONTEXT = Context()


@final
class GraphTask(TaskRecord):
    """The state of one backward: what has arrived where, what is ready, what was captured, what failed.

    Hooks and bodies get at theirs by `ag.engine.current_graph_task()` and may read all that has a public name. It is
    made by the engine.

    Args:
        root: the node that the backward starts from.
        grad: what arrives at its input `input_nr`.
        id: unique in the process.
        keep_graph: whether saved tensors are kept.
        create_graph: whether the backward is itself recorded.
        exec_info: what to run; None runs all that is reachable.
        captures: how many gradients are captured.
        outer: the task that this one runs inside of, if any.
        outer_node: the node of `outer` in whose body or hook this one was called; None in a final callback.
        context: a copy of the caller's, with the grad mode of this backward; nodes run in it.
        graph_roots: the nodes of all roots.
        exit_on_error: whether the first error completes the task at once.
        anomaly: the anomaly mode that the backward runs under, if any.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
        >>> handle = x.register_hook(lambda grad: print(ag.engine.current_graph_task().reentrant_depth))
        >>> ag.sync.backward((x * x).sum())
        0
    """

    __slots__ = (
        "__weakref__",
        "_can_checkpoint",
        "anomaly",
        "awake",
        "away",
        "captured",
        "changes",
        "context",
        "counted",
        "create_graph",
        "exit_on_error",
        "graph_roots",
        "has_error",
        "id",
        "is_running",
        "is_watched",
        "keep_graph",
        "limits",
        "outer",
        "outer_node",
        "plain",
        "read_ahead",
        "reentrant_depth",
        "root",
        "streams",
        "sums",
        "thread_id",
        "turn",
    )

    def __init__(
        self,
        root: Node,
        grad: Any,
        input_nr: int,
        *,
        id: int,  # noqa: A002
        keep_graph: bool,
        create_graph: bool,
        exec_info: ExecInfos | None,
        captures: int,
        outer: GraphTask | None,
        context: Context,
        outer_node: Node | None = None,
        graph_roots: Sequence[Node] = (),
        exit_on_error: bool = False,
        anomaly: Any = None,
        sums: dict[Node, Any] | None = None,
    ) -> None:
        self.id = id
        self.keep_graph, self.create_graph = keep_graph, create_graph
        self.exit_on_error = exit_on_error
        self.has_error = False
        self.outer = outer
        self.outer_node = outer_node
        self.reentrant_depth: int = 0 if outer is None else outer.reentrant_depth + 1
        self.thread_id = get_ident()
        self.context = context
        self.root = root
        #: The nodes of the roots, in their order, one that is several roots as often.
        self.graph_roots = tuple(graph_roots) if graph_roots else (root,)
        #: What to run and to capture, by node; None where everything runs.
        self.limits = exec_info
        self.anomaly = anomaly
        #: What is captured, as it flows: arrays, or tensors under `create_graph`.
        self.captured: list[Any] = [None] * captures
        #: What this task has done to the gradients of tensors, in order.
        self.changes: list[Change] = []
        #: Final callbacks, delayed warnings and the completion future; None as long as nobody has any.
        self.completion: Completion | None = None
        #: The drivers that are about to go on, on the loop that drives this task; None where none does.
        self.awake: DeeperFirst | None = None
        #: The nodes that have been sent to their devices' workers; None as long as none has been.
        self.away: dict[Node, Errand] | None = None
        #: The sums in `.grad` that gradients are added to one by one, by leaf.
        self.sums = sums
        self.is_running, self.is_watched = True, False
        self._nodes_in_graph: frozenset[Node] | None = None
        self._can_checkpoint: bool = exec_info is None and (outer is None or outer._can_checkpoint)
        #: In the counted gait, the node that was taken and could not be run by a plain call.
        self.turn: NodeTurn | None = None
        self.counted: CountedGait | None = None
        #: None where this process has met no stream.
        self.streams = TaskStreams.of_caller() if streams_met[0] else None
        #: None where the backward begins in the counted gait.
        self.plain: PlainGait | CompiledGait | CompilingGait | None = first_gait(self, grad, input_nr)
        if self.plain is None:
            self._start_counted(root, grad, input_nr)
        if self.streams is not None:
            self.streams.start(root, input_nr)

    def start_in_engine(self, grad: Any, input_nr: int) -> None:
        """Begin anew, with no compiled function; nothing has run."""
        self.plain = first_gait(self, grad, input_nr, False)
        if self.plain is None:
            self._start_counted(self.root, grad, input_nr)

    def _start_counted(self, root: Node, grad: Any, input_nr: int) -> None:
        self.counted = CountedGait([root], (), self.limits, not self.create_graph, self.streams)
        grads = [None] * root.num_inputs
        if grads:
            grads[input_nr] = grad
        self.counted.seed(root, grads, [False] * len(grads))

    # What the drivers do with it.

    @property
    def failed_node(self) -> Node | None:
        """The node that runs now, or whose gradients are handed on: an error belongs to it."""
        if self.plain is not None and self.plain.node is not None:
            return self.plain.node
        return None if self.counted is None else self.counted.node

    def run_plain(self, deadline: float) -> Gait:
        """Run nodes until none is left, the clock passes `deadline`, or one needs the counted gait."""
        if self.counted is not None or self.plain is None:
            return Gait.COUNT
        return self.plain.run(self, deadline)

    def finish_plain(self) -> None:
        """Give the leaves, which waited for the end of the plain gait, their gradients."""
        assert self.plain is not None
        self.plain.finish(self)
        if self.streams is not None:
            self.streams.finish()

    def run_counted(self, deadline: float) -> Gait:
        """Run ready nodes until none is ready, the clock passes `deadline`, or one needs care."""
        counted = self.counted
        assert counted is not None
        if not counted.count(deadline):
            return Gait.BREATHE
        whole = None if self.limits is None else self.limits.whole
        #: The device of the last node that runs in this thread.
        here: Any = None
        while (turn := counted.pop()) is not None:
            node: Any = turn.node
            counted.node = node
            if (
                node.special is not None
                or self.anomaly is not None
                or (node.device is not here and needs_care(node.device))
            ):
                self.turn = turn
                return Gait.CAREFUL
            here = node.device
            if node.order == LEAF_ORDER:
                self.run_leaf(node, turn.grads)
                counted.skip(node)
                continue
            grad = turn.grads if node.shape is None else turn.grads.pop()
            try:
                is_whole = whole is None or node in whole
                run = node.plan.run if is_whole and not self.create_graph else self.apply
                outputs = run(node, grad, not self.keep_graph)
            except Heavy:
                if prefers_worker(node, grad):
                    self.turn = NodeTurn(node, turn.grads if node.shape is None else [grad])
                    return Gait.CAREFUL
                outputs = run_here(node, grad)
                if not self.keep_graph:
                    node.release_variables()
            del grad
            if outputs is None:
                counted.skip(node)
                continue
            counted.complete(node, outputs)
            # A leaf takes over an array that nobody else holds: do not be the one who does.
            del outputs
            if perf_counter() > deadline:
                counted.node = None
                node.has_kept_its_thread()
                return Gait.BREATHE
        counted.node = None
        return Gait.DRAINED

    def end_turn(self, node: Node, outputs: tuple[Any, ...] | None) -> None:
        """Take what a careful run of `node` gave: its gradients, or None where its body did not run."""
        if self.counted is None:
            self._compiled.end_turn(self, outputs)
        elif outputs is None:
            self.counted.skip(node)
        else:
            self.counted.complete(node, outputs)

    def suspended(self) -> None:
        """Note that a NodeTask has suspended, so that further nodes may run beside it."""
        if self.counted is None:
            self._compiled.let_others_run(self)
        if self.counted is not None:
            self.counted.fix_sum_order()

    def discount(self, node: Node) -> None:
        """Count a node as no longer running, since after a failure nobody collects it."""
        if self.counted is not None:
            self.counted.skip(node)
        else:
            self._compiled.discount()

    def is_ended_by(self, node: Node | None) -> None:
        """Take what is raised next as an error of a NodeTask's node; None where it is nobody's again."""
        if self.counted is not None:
            self.counted.node = node
        elif isinstance(self.plain, CompiledGait):
            self.plain.node = node

    @property
    def _compiled(self) -> CompiledGait:
        assert isinstance(self.plain, CompiledGait)
        return self.plain

    def capture(self, node: Node, grads: list[Any]) -> bool:
        """Store what is captured at `node`; tell whether its body is to run."""
        if self.limits is None:
            return True
        info = self.limits[node]
        for capture in info.captures:
            self.captured[capture.result_nr] = grads[capture.input_nr]
        if self.streams is not None and info.captures:
            self.streams.leave(node)
        return info.needed

    def apply(self, node: Any, grad: Any, release: bool) -> Any:
        """Run a plain node under `create_graph`, or where inputs limit this backward; return None as there."""
        is_whole = self.limits is None or node in self.limits.whole
        outputs = node.apply_carefully(grad) if is_whole else self.apply_wanted(node, grad)
        if release and outputs is not None:
            node.release_variables()
        return outputs

    def apply_wanted(self, node: Any, grad: Any) -> Any:
        """Run a plain node as far as somebody wants its gradients; return None where its body is not to run."""
        limits = self.limits
        assert limits is not None
        grads = [grad]
        if node.shape is None:
            grads = [None] * node.num_inputs if grad is None else grad
        if not self.capture(node, grads):
            return None
        if not self.create_graph and node.plan.may_be_heavy(node, grad):
            raise Heavy
        wanted = [target is not None and limits.executes(target) for target in node.next_nodes]
        return node.apply_wanted(grad, wanted)

    def run_leaves(self, leaves: Sequence[Any], grads: list[Any]) -> None:
        """Run AccumulateGrads that nobody watches, at the end; `grads`, the last one's first, is emptied."""
        if self.limits is None and self.sums is None:
            accumulate_all(leaves, grads, self.changes, self._is_seen())
            return
        for leaf in leaves:
            self.run_leaf(leaf, [grads.pop()])

    def run_leaf(self, leaf: Any, grads: list[Any]) -> None:
        """Run an AccumulateGrad that nobody watches."""
        if self.limits is None or self.capture(leaf, grads):
            self.accumulate(leaf, grads)

    def accumulate(self, leaf: Any, grads: list[Any]) -> GradChange | None:
        """Let an AccumulateGrad take its one gradient; return and remember what takes that back."""
        if self.sums is not None and leaf in self.sums:
            return continue_sum(leaf.variable, grads.pop(), self.sums[leaf], self.changes)
        return leaf.accumulate(grads.pop(), self.changes, self._is_seen())  # type: ignore[no-any-return]

    def _is_seen(self) -> bool:
        """Tell whether more than callbacks may run between the first leaf and the end."""
        return self.counted is not None or self.outer is not None or self.completion is not None or self.is_watched

    def succeed(self) -> None:
        """Make what this task has done to gradients final, or a part of the task that it runs inside of."""
        outer = self.outer
        if outer is None or not outer.is_running:
            settle_all(self.changes)
            return
        if not outer.changes and outer.away is None:
            # Handed over whole: copied, twenty thousand nested levels would take a time quadratic in their number.
            # Not where another thread may be about to add to the very list.
            outer.changes, self.changes = self.changes, outer.changes
            return
        hand_over(self.changes, outer.changes)

    def results(self) -> list[Any]:
        """Return what was captured, now that nothing is left to run.

        Raises:
            GraphError: a gradient has got stuck on its way.
        """
        if self.counted is not None:
            self.counted.check_finished()
        if self.streams is not None:
            self.streams.finish()
            self.context.run(self.streams.return_to_caller)
        return self.captured

    def put_back(self) -> None:
        """Take back what this task has done to gradients, and nothing else; for a backward that failed."""
        while self.changes:
            # Where an interrupt comes between, who puts back once more begins with the same change.
            self.changes[-1].take_back()
            self.changes.pop()

    def fail(self) -> None:
        """Let go of all that is queued, at the first error; what runs is still outstanding."""
        self.has_error = True
        self.turn = None
        self.captured = [None] * len(self.captured)
        if self.plain is not None:
            self.plain.clear()
        if self.counted is not None:
            self.counted.clear()
        if self.streams is not None:
            self.streams.abandon()

    def close(self) -> None:
        """Part from the context, which refers to this task: together they would be left to the garbage collector."""
        self.is_running = False
        self.context = _NO_CONTEXT
        self.plain = self.counted = self.awake = self.read_ahead = None
        if self.completion is not None:
            self.completion.close(self)
