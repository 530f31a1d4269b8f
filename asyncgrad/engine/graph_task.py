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

from ..errors import GraphError
from ..graph.grad_change import settle_all
from ..graph.leaf import AccumulateGrad
from ..graph.node import LEAF_ORDER
from .completion import MAKING, Completion
from .counted import CountedGait
from .exec_info import ExecInfos, as_tensors, should_execute
from .execution_order import execution_order, nodes_below
from .gait import Gait, NodeTurn
from .plain import PlainGait

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..graph.grad_change import GradChange
    from ..graph.node import Node
    from .completion import CompletionFuture
    from .deeper_first import DeeperFirst

__all__ = ["CPU_DEVICE", "NO_DEVICE", "GraphTask"]

#: The `owner` of a backward that no node's body called.
NO_DEVICE = -2
#: The `owner` of a backward called from the body, a hook or a callback of a node on the cpu.
CPU_DEVICE = -1


@final
class GraphTask:
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
        "_nodes_in_graph",
        "anomaly",
        "awake",
        "captured",
        "changes",
        "completion",
        "context",
        "counted",
        "create_graph",
        "exit_on_error",
        "graph_roots",
        "has_error",
        "id",
        "is_running",
        "keep_graph",
        "limits",
        "outer",
        "outer_node",
        "plain",
        "reentrant_depth",
        "root",
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
    ) -> None:
        self.id = id
        self.keep_graph = keep_graph
        self.create_graph = create_graph
        self.exit_on_error = exit_on_error
        self.has_error = False
        self.outer = outer
        self.outer_node = outer_node
        self.reentrant_depth: int = 0 if outer is None else outer.reentrant_depth + 1
        self.thread_id = get_ident()
        self.context = context
        self.root = root
        #: The nodes of the roots, in their order, one that is several roots as often.
        self.graph_roots = tuple(graph_roots) or (root,)
        #: What to run and to capture, by node; None where everything runs.
        self.limits = exec_info
        self.anomaly = anomaly
        #: What is captured, as it flows: arrays, or tensors under `create_graph`.
        self.captured: list[Any] = [None] * captures
        #: What this task has done to the gradients of tensors, in order.
        self.changes: list[GradChange] = []
        #: Final callbacks, delayed warnings and the completion future; None as long as nobody has any.
        self.completion: Completion | None = None
        #: The drivers that are about to go on, on the loop that drives this task; None where none does.
        self.awake: DeeperFirst | None = None
        self.is_running = True
        self._nodes_in_graph: frozenset[Node] | None = None
        self._can_checkpoint: bool = exec_info is None and (outer is None or outer._can_checkpoint)
        #: In the counted gait, the node that was taken and could not be run by a plain call.
        self.turn: NodeTurn | None = None
        self.counted: CountedGait | None = None
        self.plain: PlainGait | None = None
        if anomaly is None and PlainGait.can_start_at(root):
            self.plain = PlainGait(root, grad)
        else:
            self.counted = CountedGait([root], (), exec_info, not create_graph)
            grads = [None] * root.num_inputs
            if grads:
                grads[input_nr] = grad
            self.counted.seed(root, grads, [False] * len(grads))

    # What bodies and hooks may read while it runs.

    @property
    def owner(self) -> int:
        """The device whose worker called this backward: `NO_DEVICE` where no backward was running."""
        return NO_DEVICE if self.outer is None else CPU_DEVICE

    @property
    def outstanding_tasks(self) -> int:
        """How many nodes are queued or running."""
        return len(self.plain or ()) + len(self.counted or ())

    @property
    def exec_info(self) -> ExecInfos:
        """What to run and to capture, by node; empty where everything runs.

        A body may make a node run that would not: `task.exec_info[node].needed = True`, before a gradient gets there.
        """
        return ExecInfos() if self.limits is None else self.limits

    @property
    def nodes_in_graph(self) -> frozenset[Node]:
        """The nodes that an edge below the root leads to. The root itself is none of them.

        Source: GraphTask::nodes_in_graph_ of PyTorch.
        """
        if self._nodes_in_graph is None:
            self._nodes_in_graph = frozenset(nodes_below(self.root, self.exec_info.lowest))
        return self._nodes_in_graph

    @property
    def captured_grads(self) -> list[Any]:
        """What has been captured so far, a tensor for each input, or None; a backward that failed has nothing."""
        return as_tensors(self.captured, self.limits)

    @property
    def leaf_streams(self) -> frozenset[Any]:
        """The streams that leaves and captures were computed on; the cpu has none."""
        return frozenset()

    @property
    def final_callbacks(self) -> tuple[Callable[[], Any], ...]:
        """The callbacks queued so far, in order, those that have run included; none after the end."""
        return () if self.completion is None else tuple(self.completion.callbacks)

    @property
    def future_result(self) -> CompletionFuture:
        """The future of `captured_grads` at the end, or of the error; any task, loop or thread may wait for it."""
        completion = self.complete_with()
        completion.is_wanted = True
        return completion.future

    def can_checkpoint(self) -> bool:
        """Tell whether a reentrant checkpoint may recompute: not where inputs limit this backward or one around it."""
        return self._can_checkpoint

    def completed(self) -> bool:
        """Tell whether nothing is queued or running any more; under `exit_on_error`, also after the first error."""
        return not self.outstanding_tasks or (self.exit_on_error and self.has_error)

    def will_execute(self, node: Node) -> bool:
        """Tell whether this backward runs, or has run, `node`.

        Raises:
            GraphError: the node is a leaf's, and this is a grad(): it captures there, and that may or may not count.
        """
        limits = self.limits
        # An input that the roots do not lead to has captures too, and nothing ever arrives there.
        is_reached = node is self.root or node in self.graph_roots or node in self.nodes_in_graph
        if limits is None or not is_reached:
            return is_reached
        info = limits.get(node)
        if info is not None and info.captures and isinstance(node, AccumulateGrad):
            raise GraphError(
                f"whether {node.name} of a leaf of shape {node.variable._data.shape} executes is not defined in "
                "ag.grad(...), which only captures its gradient: use await ag.backward(..., inputs=[...])"
            )
        return info is not None and info.should_execute

    def execution_order(self) -> list[Node]:
        """Return the nodes that this backward runs, in the order in which they run where nothing is waited for."""
        return execution_order(self.graph_roots, self.root, self.limits)

    # What the drivers do with it.

    def complete_with(self) -> Completion:
        """Return what happens at the end of this backward, made now if this is the first to ask."""
        completion = self.completion
        if completion is None:
            # Bodies in threads may ask as well.
            with MAKING:
                completion = self.completion
                if completion is None:
                    completion = self.completion = Completion()
            if not self.is_running:
                completion.settle(self.captured_grads, self.has_error)
        return completion

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

    def run_counted(self, deadline: float) -> Gait:
        """Run ready nodes until none is ready, the clock passes `deadline`, or one needs care."""
        counted = self.counted
        assert counted is not None
        while (turn := counted.pop()) is not None:
            node: Any = turn.node
            counted.node = node
            if node.special is not None or self.anomaly is not None:
                self.turn = turn
                return Gait.CAREFUL
            if node.order == LEAF_ORDER:
                self.run_leaf(node, turn.grads)
                counted.skip(node)
                continue
            grad = turn.grads if node.shape is None else turn.grads.pop()
            if self.limits is not None:
                outputs = self.apply_wanted(node, grad)
            else:
                outputs = node.apply_carefully(grad) if self.create_graph else node.plan.run(node, grad)
            del grad
            if outputs is None:
                counted.skip(node)
                continue
            if not self.keep_graph:
                node.release_variables()
            counted.complete(node, outputs)
            # A leaf takes over an array that nobody else holds: do not be the one who does.
            del outputs
            if perf_counter() > deadline:
                counted.node = None
                return Gait.BREATHE
        counted.node = None
        return Gait.DRAINED

    def end_turn(self, node: Node, outputs: tuple[Any, ...] | None) -> None:
        """Take what a careful run of `node` gave: its gradients, or None where its body did not run."""
        counted = self.counted
        assert counted is not None
        if outputs is None:
            counted.skip(node)
            return
        counted.complete(node, outputs)

    def capture(self, node: Node, grads: list[Any]) -> bool:
        """Store what is captured at `node`; tell whether its body is to run."""
        if self.limits is None:
            return True
        info = self.limits[node]
        for capture in info.captures:
            self.captured[capture.result_nr] = grads[capture.input_nr]
        return info.needed

    def apply_wanted(self, node: Any, grad: Any) -> Any:
        """Run a plain node as far as somebody wants its gradients; return None where its body is not to run."""
        limits = self.limits
        assert limits is not None
        grads = [grad]
        if node.shape is None:
            grads = [None] * node.num_inputs if grad is None else grad
        if not self.capture(node, grads):
            return None
        return node.apply_wanted(
            grad, [target is not None and should_execute(limits, target) for target in node.next_nodes]
        )

    def run_leaf(self, leaf: Any, grads: list[Any]) -> None:
        """Run an AccumulateGrad that nobody watches."""
        if self.limits is None or self.capture(leaf, grads):
            self.accumulate(leaf, grads)

    def accumulate(self, leaf: Any, grads: list[Any]) -> GradChange | None:
        """Let an AccumulateGrad take its one gradient; return and remember what takes that back."""
        # In the plain gait nothing else runs between the first leaf and the end, unless a callback waits there.
        listed = self.counted is not None or self.outer is not None or self.completion is not None
        return leaf.accumulate(grads.pop(), self.changes, listed)  # type: ignore[no-any-return]

    def succeed(self) -> None:
        """Make what this task has done to gradients final, or a part of the task that it runs inside of."""
        outer = self.outer
        if outer is None or not outer.is_running:
            settle_all(self.changes)
            return
        if not outer.changes:
            # Handed over whole: copied, twenty thousand nested levels would take a time quadratic in their number.
            outer.changes, self.changes = self.changes, outer.changes
            return
        latest = {id(change.tensor): change for change in outer.changes}
        for change in self.changes:
            previous = latest.get(id(change.tensor))
            if previous is None or not change.merge_into(previous):
                outer.changes.append(change)

    def results(self) -> list[Any]:
        """Return what was captured, now that nothing is left to run.

        Raises:
            GraphError: a gradient has got stuck on its way.
        """
        if self.counted is not None:
            self.counted.check_finished()
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

    def close(self) -> None:
        """Part from the context, which refers to this task: together they would be left to the garbage collector."""
        self.is_running = False
        self.context = Context()
        self.plain = self.counted = self.awake = None
        if self.completion is not None:
            self.completion.close(self)
