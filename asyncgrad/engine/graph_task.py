"""GraphTask: one backward through a graph, as a state machine that never awaits.

It has two gaits. The *plain* one takes nodes in the order of their sequence numbers: every edge leads to an
older node, so the newest node that has been reached has got all its gradients, and nobody need count them.
Leaves wait until the end, where nobody can tell. At the first thing that could tell, or that takes its time
(a hook, a user's body, an async body, an edge set by hand against the order), the task counts what the
remaining nodes still wait for and goes on in the *counted* gait, in the order PyTorch's engine gives.
"""

from __future__ import annotations

import enum
from contextvars import Context
from heapq import heappop, heappush
from time import perf_counter
from typing import TYPE_CHECKING, Any, final

from ..graph import values
from ..graph.metadata import conform
from ..graph.node import LEAF_ORDER
from .counted import CountedGait, NodeTurn
from .exec_info import ExecInfo, should_execute

if TYPE_CHECKING:
    from ..graph.grad_change import GradChange
    from ..graph.node import Node

__all__ = ["Gait", "GraphTask"]


class Gait(enum.Enum):
    """Why a run of nodes came to a stop."""

    DRAINED = "nothing is ready to run"
    BREATHE = "the time budget is spent"
    COUNT = "what comes next needs the counted gait"
    CAREFUL = "the node in `turn` needs more than a plain call"


@final
class GraphTask:
    """The state of one backward: what has arrived where, what is ready, what was captured, what failed.

    Args:
        root: the node that the backward starts from.
        grad: what arrives at its input `input_nr`.
        id: unique in the process.
        keep_graph: whether saved tensors are kept.
        create_graph: whether the backward is itself recorded.
        exec_info: what to run; None runs all that is reachable.
        captures: how many gradients are captured.
        outer: the task that this one runs inside of, if any.
        context: a copy of the caller's, with the grad mode of this backward; nodes run in it.
    """

    __slots__ = (
        "__weakref__",
        "_buffers",
        "_heap",
        "_leaves",
        "_owned",
        "captured_grads",
        "changes",
        "context",
        "counted",
        "create_graph",
        "exec_info",
        "failed_node",
        "id",
        "is_running",
        "keep_graph",
        "outer",
        "reentrant_depth",
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
        exec_info: dict[Node, ExecInfo] | None,
        captures: int,
        outer: GraphTask | None,
        context: Context,
    ) -> None:
        self.id = id
        self.keep_graph = keep_graph
        self.create_graph = create_graph
        self.outer = outer
        self.reentrant_depth: int = 0 if outer is None else outer.reentrant_depth + 1
        self.context = context
        self.exec_info = exec_info
        self.captured_grads: list[Any] = [None] * captures
        #: What this task has done to the gradients of tensors, in order.
        self.changes: list[GradChange] = []
        self.is_running = True
        self.failed_node: Node | None = None
        #: In the counted gait, the node that was taken and could not be run by a plain call.
        self.turn: NodeTurn | None = None
        self.counted: CountedGait | None = None
        # The plain gait: nodes reached so far, their gradients, and those whose sum is an array of our own.
        self._heap: list[tuple[int, Node]] = []
        self._buffers: dict[Node, Any] = {}
        self._owned: set[Node | tuple[Node, int]] = set()
        self._leaves: list[Node] = []
        if root.special is None and root.order != LEAF_ORDER and root.shape is not None:
            self._heap.append((root.order, root))
            self._buffers[root] = grad
        else:
            self.counted = CountedGait([root], (), exec_info, not create_graph)
            grads = [None] * root.num_inputs
            if grads:
                grads[input_nr] = grad
            self.counted.seed(root, grads, [False] * len(grads))

    def run_plain(self, deadline: float) -> Gait:
        """Run nodes until none is left, the clock passes `deadline`, or one needs the counted gait."""
        if self.counted is not None:
            return Gait.COUNT
        heap: list[tuple[int, Any]] = self._heap
        buffers, owned = self._buffers, self._owned
        exec_info, keep_graph, create_graph = self.exec_info, self.keep_graph, self.create_graph
        while heap:
            order, node = heappop(heap)
            self.failed_node = node
            grad = buffers.pop(node)
            if exec_info is not None:
                outputs = self._apply_wanted(node, grad, exec_info)
                if outputs is None:
                    continue
            elif create_graph:
                outputs = node.apply_carefully(grad)
            else:
                outputs = node.plan.run(node, grad)
            if not keep_graph:
                node.release_variables()
            edge = -1
            try:
                for consumer, nr, grad in zip(node.next_nodes, node.input_nrs, outputs):  # noqa: B905
                    edge += 1
                    if consumer is None:
                        continue
                    if consumer.special is not None or (order >= consumer.order != LEAF_ORDER):
                        return self._start_counting(node, edge, outputs)
                    if grad is not None and (grad.shape != consumer.shape or grad.dtype is not consumer.dtype):
                        if consumer.shape is None:
                            self._add_to_many(node, edge, consumer, nr, grad)
                            continue
                        grad = conform(node, edge, consumer, nr, grad)  # noqa: PLW2901
                    if consumer in buffers:
                        if grad is not None:
                            total = buffers[consumer]
                            if total is None:
                                buffers[consumer] = grad
                            elif consumer in owned:
                                total += grad
                                buffers[consumer] = total
                            else:
                                buffers[consumer] = total + grad
                                if not create_graph:
                                    owned.add(consumer)
                    elif exec_info is None or should_execute(exec_info, consumer):
                        buffers[consumer] = grad
                        if consumer.order == LEAF_ORDER:
                            self._leaves.append(consumer)
                        else:
                            heappush(heap, (consumer.order, consumer))
            except AttributeError:
                # A gradient is no array. The counted gait makes one of a number, and refuses the rest by name.
                return self._start_counting(node, edge, outputs)
            if perf_counter() > deadline:
                self.failed_node = None
                return Gait.BREATHE
        self.failed_node = None
        return Gait.DRAINED

    def finish_plain(self) -> None:
        """Give the leaves, which waited for the end of the plain gait, their gradients."""
        buffers = self._buffers
        for leaf in self._leaves:
            self._run_leaf(leaf, [buffers.pop(leaf)])
        self._leaves.clear()

    def run_counted(self, deadline: float) -> Gait:
        """Run ready nodes until none is ready, the clock passes `deadline`, or one needs care."""
        counted = self.counted
        assert counted is not None
        while (turn := counted.pop()) is not None:
            node: Any = turn.node
            self.failed_node = node
            if node.special is not None:
                self.turn = turn
                return Gait.CAREFUL
            if node.order == LEAF_ORDER:
                self._run_leaf(node, turn.grads)
                counted.skip(node)
                continue
            grad = turn.grads if node.shape is None else turn.grads.pop()
            if self.exec_info is not None:
                outputs = self._apply_wanted(node, grad, self.exec_info)
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
                self.failed_node = None
                return Gait.BREATHE
        self.failed_node = None
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
        if self.exec_info is None:
            return True
        info = self.exec_info[node]
        for capture in info.captures:
            self.captured_grads[capture.result_nr] = grads[capture.input_nr]
        return info.needed

    def accumulate(self, leaf: Any, grads: list[Any]) -> GradChange | None:
        """Let an AccumulateGrad take its one gradient; return and remember what takes that back."""
        # In the plain gait nothing else runs between the first leaf and the end.
        change: GradChange | None = leaf.accumulate(grads.pop(), self.counted is not None or self.outer is not None)
        if change is not None:
            self.changes.append(change)
        return change

    def succeed(self) -> None:
        """Make what this task has done to gradients final, or a part of the task that it runs inside of."""
        outer = self.outer
        if outer is None or not outer.is_running:
            for change in self.changes:
                change.settle()
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
        return self.captured_grads

    def put_back(self) -> None:
        """Take back what this task has done to gradients, and nothing else; for a backward that failed."""
        while self.changes:
            self.changes.pop().take_back()

    def clear(self) -> None:
        """Let go of all gradients under way."""
        self._heap, self._buffers, self._leaves, self._owned = [], {}, [], set()
        self.counted = self.turn = None

    def close(self) -> None:
        """Part from the context, which refers to this task: together they would be left to the garbage collector."""
        self.is_running = False
        self.context = Context()

    def _add_to_many(self, producer: Node, edge: int, node: Node, input_nr: int, grad: Any) -> None:
        """Let a gradient arrive, in the plain gait, at a node of several inputs: a list is kept for those."""
        metadata = node.input_metadata[input_nr]
        if metadata is not None and (
            getattr(grad, "shape", None) != metadata.shape or grad.dtype is not metadata.dtype
        ):
            grad = conform(producer, edge, node, input_nr, grad)
        buffers, owned = self._buffers, self._owned
        grads = buffers.get(node)
        if grads is None:
            if node not in buffers:
                if self.exec_info is not None and not should_execute(self.exec_info, node):
                    return
                heappush(self._heap, (node.order, node))
            grads = buffers[node] = [None] * node.num_inputs
        total = grads[input_nr]
        if total is None:
            grads[input_nr] = grad
        elif (node, input_nr) in owned:
            grads[input_nr] = values.add_into(total, grad)
        else:
            grads[input_nr] = values.add(total, grad)
            if not self.create_graph:
                owned.add((node, input_nr))

    def _run_leaf(self, leaf: Any, grads: list[Any]) -> None:
        if self.exec_info is None or self.capture(leaf, grads):
            self.accumulate(leaf, grads)

    def _apply_wanted(self, node: Any, grad: Any, exec_info: dict[Node, ExecInfo]) -> Any:
        grads = [grad]
        if node.shape is None:
            grads = [None] * node.num_inputs if grad is None else grad
        if not self.capture(node, grads):
            return None
        return node.apply_wanted(
            grad, [target is not None and should_execute(exec_info, target) for target in node.next_nodes]
        )

    def _start_counting(self, node: Node, edge: int, outputs: tuple[Any, ...]) -> Gait:
        """Change gait in the middle of `node`, whose gradients before `edge` have been delivered."""
        reached = [*(pending for _, pending in self._heap), *self._leaves]
        rest = [target for target in node.next_nodes[edge:] if target is not None]
        self.counted = CountedGait(reached, rest, self.exec_info, not self.create_graph)
        for target in reached:
            grads = self._buffers[target]
            if target.shape is not None:
                self.counted.seed(target, [grads], [target in self._owned])
            else:
                grads = [None] * target.num_inputs if grads is None else grads
                self.counted.seed(target, grads, [(target, nr) in self._owned for nr in range(len(grads))])
        self._heap, self._buffers, self._leaves = [], {}, []
        for index in range(edge, len(outputs)):
            self.counted.deliver(node, index, outputs[index])
        return Gait.COUNT
