"""FastPath: runs nodes newest first, without counting dependencies.

Every edge leads to an older node, so the newest node that has been reached has received all its gradients. Leaves run
at the end, which makes no observable difference here. At the first node where it could make one, or that may take long
(a hook, a user's body, an async body, an edge set by hand to a newer node), a DependencyExecutor takes over: the slow
path.
"""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace
from operator import itemgetter
from time import perf_counter
from typing import TYPE_CHECKING, Any, final

from ..arrays import values
from ..arrays.device_functions import DEVICE_FUNCTIONS
from ..graph.body_signals import AddingSignal, OffloadSignal
from ..graph.metadata import conform
from ..graph.node import LEAF_ORDER, metas_added
from .body import prefers_worker, run_here
from .dependency_executor import DependencyExecutor
from .device import needs_node_task
from .executor import Stop

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..graph.node import Node
    from ..settings.scheduling import Clock
    from .graph_task import GraphTask

__all__ = ["FastPath"]

#: As `Stop.DRAINED`, which would be looked up in its class at the end of each backward.
_DRAINED = Stop.DRAINED

_NOTHING: tuple[Any, Any] = (None, None)


@final
class FastPath:
    """The executor of plain nodes, which no user code observes: the nodes reached so far, and their gradients.

    Args:
        task: the backward.
        root: the node to start from; `can_start_at(root)` is true.
        grad: the gradient that arrives at it.
    """

    __slots__ = ("_buffers", "_heap", "_leaves", "_metas_added", "_owned", "_task", "node")

    leaves_last = True

    def __init__(self, task: GraphTask, root: Node, grad: Any) -> None:
        self._task = task
        self._heap: list[tuple[int, Any]] = [(root.order, root)]
        self._buffers: dict[Node, Any] = {root: grad}
        #: Inputs whose sum is an array that this executor made and may write into.
        self._owned: set[Node | tuple[Node, int]] = set()
        self._leaves: list[Node] = []
        #: The value of `metas_added` when no node that has been reached had a NodeMeta.
        self._metas_added = metas_added[0]
        #: The node that runs now.
        self.node: Node | None = None

    @classmethod
    def from_state(
        cls,
        task: GraphTask,
        heap: list[tuple[int, Node]],
        buffers: dict[Node, Any],
        owned: set[Node | tuple[Node, int]],
        leaves: list[Node],
    ) -> FastPath:
        """Return a FastPath that continues a compiled function after deoptimisation; `heap` is a valid heap."""
        path = cls.__new__(cls)
        path._task = task
        path._heap, path._buffers, path._owned, path._leaves = heap, buffers, owned, leaves
        path._metas_added = metas_added[0]
        path.node = None
        return path

    @staticmethod
    def can_start_at(root: Node) -> bool:
        """Tell whether a backward from `root` may start on this path."""
        # Only the root's device is checked: the path never enters another one, since the node of a move has a NodeMeta.
        return (
            root.meta is None
            and root.order != LEAF_ORDER
            and root.shape is not None
            and not needs_node_task(root.device)
        )

    def __len__(self) -> int:
        """Return how many nodes have been reached and have not run to their end."""
        return len(self._heap) + len(self._leaves) + (self.node is not None)

    def run(self, deadline: float, clock: Clock = perf_counter) -> Stop:
        """Run nodes until none is left, `clock` passes `deadline`, or one needs the slow path."""
        task, heap, buffers, owned, leaves = self._task, self._heap, self._buffers, self._owned, self._leaves
        release, limits, runs_plan, apply = not task.keep_graph, task.limits, not task.create_graph, task.apply
        if (observed := task.observed_steps) is not None:
            runs_plan, apply, clock = observed.plain_runs(self, clock)
        # The newest node that the last one reached, and its gradient. It mostly runs next, without heap and buffer.
        newest, arrived = _NOTHING
        while newest is not None or heap:
            if newest is None:
                order, node = heappop(heap)
                grad = buffers.pop(node)
            else:
                node, grad, order, newest = newest, arrived, newest.order, None
                if heap and heap[0][0] < order:
                    buffers[node] = grad
                    order, node = heapreplace(heap, (order, node))
                    grad = buffers.pop(node)
            self.node, plan = node, node.plan
            # Bound first, then called: calling a slot directly looks it up as a method first, which is slower.
            run = plan.run if (is_whole := limits is None or node in limits.whole) and runs_plan else apply
            try:
                outputs = run(node, grad, release)
            except OffloadSignal:
                if (outputs := self._run_heavy(node, grad)) is None:
                    return Stop.HANDED_OVER
            except AddingSignal:
                outputs = plan.run_adding(node, grad, release, buffers, owned)
            if outputs is None:
                continue
            # If all gradients have the shape and dtype of the node's own, the nodes are compared instead of arrays.
            shape, dtype = (node.shape, node.dtype) if plan.keeps_spec else _NOTHING
            edges = zip(node.next_nodes, node.input_nrs, outputs)  # noqa: B905
            try:
                for consumer, nr, grad in edges:
                    if consumer is not None and consumer not in buffers and is_whole:
                        if consumer.meta is None and grad is not None:  # noqa: SIM102
                            if (shape or grad.shape) == consumer.shape and (dtype or grad.dtype) is consumer.dtype:
                                if newest is None and consumer.order > order:
                                    newest, arrived = consumer, grad
                                    continue
                                if consumer.order == LEAF_ORDER:
                                    buffers[consumer] = grad
                                    leaves.append(consumer)
                                    continue
                    elif consumer in owned and consumer.meta is None and grad is not None:  # noqa: SIM102
                        if (shape or grad.shape) == consumer.shape and (dtype or grad.dtype) is consumer.dtype:
                            buffers[consumer] += grad
                            continue
                    if consumer is not None:
                        if (found := self._deliver(node, outputs, consumer, nr, grad, newest, arrived)) is None:
                            return self._leave(node, edges, outputs, newest, arrived, clock)
                        newest, arrived = found
            except AttributeError:
                # A gradient is no array. The slow path converts numbers, and raises an error that names anything else.
                return self._leave(node, edges, outputs, newest, arrived, clock)
            if clock() > deadline:
                return self._stop_at_deadline(node, newest, arrived)
        self.node = None
        return _DRAINED

    def _deliver(
        self,
        node: Node,
        outputs: tuple[Any, ...],
        consumer: Node,
        input_nr: int,
        grad: Any,
        newest: Any,
        arrived: Any,
    ) -> tuple[Any, Any] | None:
        """Deliver a gradient to a node of any kind; return the newest node and its gradient, as `run` keeps them.

        Return None, without delivering, where the slow path has to take over.
        """
        task = self._task
        order = consumer.order
        if consumer.meta is not None or (node.order >= order != LEAF_ORDER):
            return None
        if grad is not None and (grad.shape != consumer.shape or grad.dtype is not consumer.dtype):
            if consumer.shape is None:
                self._add_to_many(node, outputs, consumer, input_nr, grad)
                return newest, arrived
            grad = conform(node, _edge(node, outputs, consumer, input_nr, grad), consumer, input_nr, grad)
        if consumer is newest:
            self._enqueue(newest, arrived)
            newest = None
        buffers = self._buffers
        if consumer in buffers:
            if grad is not None:
                self._add(consumer, grad, task.create_graph)
        elif task.limits is None or task.limits.executes(consumer):
            if order == LEAF_ORDER:
                buffers[consumer] = grad
                self._leaves.append(consumer)
            elif newest is None or order < newest.order:
                self._enqueue(newest, arrived)
                return consumer, grad
            else:
                self._enqueue(consumer, grad)
        return newest, arrived

    def _add(self, node: Node, grad: Any, create_graph: bool) -> None:
        """Add a gradient to the sum at a node of one input."""
        total = self._buffers[node]
        if total is None:
            self._buffers[node] = grad
        elif node in self._owned:
            total += grad
            self._buffers[node] = total
        elif grad.__class__ in DEVICE_FUNCTIONS:
            self._add_by_kernel(node, total, grad)
        else:
            self._buffers[node] = total + grad
            if not create_graph:
                self._owned.add(node)

    def _add_by_kernel(self, node: Node, total: Any, grad: Any) -> None:
        """Add a gradient of a device that has functions of its own to the sum at a node of one input.

        The sum is marked as made by the engine, so that the next gradient is added into it, in place of a new array.
        """
        if (node, 0) in self._owned:
            self._buffers[node] = values.add_into(total, grad)
        else:
            self._buffers[node] = values.add(total, grad)
            self._owned.add((node, 0))

    def _enqueue(self, node: Node | None, grad: Any) -> None:
        """Put a node into the heap; do nothing for None."""
        if node is not None:
            self._buffers[node] = grad
            heappush(self._heap, (node.order, node))

    def recheck(self) -> None:
        """Hand over to the slow path if a node that has been reached has got a NodeMeta, for a new hook say."""
        if metas_added[0] != self._metas_added and any(node.meta is not None for node in self._reached()):
            self.hand_over()

    def seed_leaf(self, leaf: Node, total: Any) -> None:
        """Start the sum of a leaf with an earlier one."""
        self._buffers[leaf] = total
        self._leaves.append(leaf)

    def finish(self) -> None:
        """Run the leaves, which have waited for the end."""
        buffers, leaves = self._buffers, self._leaves
        self._task.run_leaves(leaves, list(map(buffers.pop, reversed(leaves))))
        leaves.clear()

    def clear(self) -> None:
        """Drop all pending gradients."""
        self._heap, self._buffers, self._leaves, self._owned = [], {}, [], set()
        self.node = None

    def _add_to_many(self, producer: Node, outputs: tuple[Any, ...], node: Node, input_nr: int, grad: Any) -> None:
        """Deliver a gradient to a node of several inputs, whose buffer is a list."""
        task = self._task
        metadata = node.input_metadata[input_nr]
        if metadata is not None and (
            getattr(grad, "shape", None) != metadata.shape or grad.dtype is not metadata.dtype
        ):
            grad = conform(producer, _edge(producer, outputs, node, input_nr, grad), node, input_nr, grad)
        buffers, owned = self._buffers, self._owned
        grads = buffers.get(node)
        if grads is None:
            if node not in buffers:
                if task.limits is not None and not task.limits.executes(node):
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
            if not task.create_graph:
                owned.add((node, input_nr))

    def _leave(
        self, node: Node, edges: Iterator[Any], outputs: tuple[Any, ...], newest: Any, arrived: Any, clock: Clock
    ) -> Stop:
        """Hand over in the middle of `node`: the current gradient and those left in `edges` are not delivered yet."""
        # As after each node, for an observer.
        clock()
        self._enqueue(newest, arrived)
        return self.leave(node, min(len(node.next_nodes), len(outputs)) - 1 - len(list(edges)), outputs)

    def leave(self, node: Node, edge: int, outputs: tuple[Any, ...]) -> Stop:
        """Hand over in the middle of `node`, whose gradients before number `edge` have been delivered."""
        executor = self.hand_over([target for target in node.next_nodes[edge:] if target is not None])
        executor.deliver(node, [*enumerate(outputs)][edge:])
        return Stop.HANDED_OVER

    def _stop_at_deadline(self, last: Node, newest: Any, arrived: Any) -> Stop:
        self._enqueue(newest, arrived)
        self.node = None
        self._metas_added = metas_added[0]
        last.note_slow()
        self._task.slow_node = last
        return Stop.BUDGET_SPENT

    def _run_heavy(self, node: Node, grad: Any) -> Any:
        """Run a node that may be heavy; if it should run on a worker, hand over before it and return None."""
        if not prefers_worker(node, grad):
            observed = self._task.observed_steps
            outputs = run_here(node, grad) if observed is None else observed.run_here(node, grad)
            if not self._task.keep_graph:
                node.release_variables()
            is_plain = observed is None and self._task.limits is None and not self._task.create_graph
            return () if is_plain and node.fills_leaves and self._fill_leaves(node, outputs) else outputs
        self._buffers[node] = grad
        heappush(self._heap, (node.order, node))
        self.node = None
        self.hand_over()
        return None

    def _fill_leaves(self, node: Node, outputs: tuple[Any, ...]) -> bool:
        """Deliver all gradients of the only node that has been reached, where each is the whole gradient of a leaf.

        As `run` does, which looks at one edge after the other: of a compiled step, those to all parameters of a model.
        """
        # None of them is None: see `Node.fills_leaves`.
        found: dict[Any, Any] = dict(zip(node.next_nodes, outputs, strict=True))
        if self._buffers or len(found) < len(outputs):
            return False
        self._buffers.update(found)
        self._leaves.extend(found)
        return True

    def hand_over(self, rest: Sequence[Node] = ()) -> DependencyExecutor:
        """Make a DependencyExecutor the task's executor, with all pending gradients, and return it.

        Args:
            rest: the nodes that the current node has yet to deliver to.
        """
        task, reached = self._task, self._reached()
        executor = task.executor = DependencyExecutor(task, reached, rest)
        for target in reached:
            grads = self._buffers[target]
            if target.shape is not None:
                executor.seed(target, [grads], [target in self._owned or (target, 0) in self._owned])
            else:
                grads = [None] * target.num_inputs if grads is None else grads
                executor.seed(target, grads, [(target, nr) in self._owned for nr in range(len(grads))])
            if task.streams is not None:
                task.streams.note_arrived(target, [grads] if target.shape is not None else grads)
        self.clear()
        return executor

    def is_waiting(self) -> bool:
        """Return False: no NodeTask runs on this path."""
        return False

    def prepare_to_wait(self) -> None:
        """Do nothing: nothing waits while this executor runs."""

    def ready(self) -> list[Node]:
        """Return the nodes that are queued, newest first, and leaves last; from any thread."""
        return [*(pending for _, pending in sorted(self._heap.copy(), key=itemgetter(0))), *self._leaves]

    def _reached(self) -> list[Node]:
        return [*(pending for _, pending in self._heap), *self._leaves]


def _edge(node: Node, outputs: tuple[Any, ...], consumer: Node, input_nr: int, grad: Any) -> int:
    """Return the number of the first edge of `node` that leads to that input and has that gradient."""
    for edge, (target, nr, output) in enumerate(zip(node.next_nodes, node.input_nrs, outputs, strict=False)):
        if target is consumer and nr == input_nr and output is grad:
            return edge
    raise AssertionError("no such edge")
