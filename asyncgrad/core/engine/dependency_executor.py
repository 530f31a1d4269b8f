"""DependencyExecutor: a node is ready when all edges that lead to it have delivered; the order is that of PyTorch."""

from __future__ import annotations

import functools
from heapq import heappop
from math import inf
from operator import attrgetter
from time import perf_counter
from typing import TYPE_CHECKING, Any, final

from ...errors import GraphError, InvalidGradientError
from ..arrays import values
from ..arrays.current_devices import keep_device, several_devices, use_device
from ..graph.body_signals import AddingSignal, OffloadSignal
from ..graph.metadata import conform
from ..graph.naming import identify
from ..graph.node import LEAF_ORDER
from .body import prefers_worker, run_here
from .device import needs_node_task
from .exec_info import ExecInfos, count_edges
from .executor import NodeTurn, Stop
from .queues import Arrival, InputBuffer, ReadyQueue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..graph.node import Node
    from ..settings.scheduling import Clock
    from .graph_task import GraphTask

__all__ = ["DependencyExecutor", "gradient_count_error"]

#: In place of an edge number: the node itself was reached before all edges were counted.
REACHED = -1


def gradient_count_error(node: Node, outputs: tuple[Any, ...]) -> InvalidGradientError:
    """Return the error for a node that returned too few or too many gradients."""
    return InvalidGradientError(
        f"{identify(node)} returned {values.counted(len(outputs), 'gradient')}, and has "
        f"{values.counted(len(node.next_nodes), 'input')}: return one for each, None where there is none"
    )


#: Makes a NodeTurn of a pair. Its constructor is a function of Python, which would cost as much as popping the node.
_make_turn = functools.partial(tuple.__new__, NodeTurn)


@final
class DependencyExecutor:
    """The executor that runs any graph, hooks and async bodies included: the slow path.

    It holds the number of edges that have yet to deliver to each node, the gradients delivered so far, and the ready
    nodes. `count` counts the edges, in several parts for a large graph; deliveries before its end are kept and
    replayed.

    Args:
        task: the backward.
        sources: the nodes reached so far; the edges below them are counted.
        extra: the nodes that a node which has run has yet to deliver to.
    """

    __slots__ = (
        "_at_suspension",
        "_buffers",
        "_counting",
        "_dependencies",
        "_early",
        "_in_flight",
        "_in_place",
        "_ready",
        "_sources",
        "_streams",
        "_sum_order_fixed",
        "_task",
        "exec_info",
        "is_whole",
        "node",
    )

    leaves_last = False

    def __init__(self, task: GraphTask, sources: Iterable[Node], extra: Iterable[Node] = ()) -> None:
        self._task = task
        #: The nodes to run; None runs all.
        self.exec_info: ExecInfos | None = task.limits
        #: Whether sums may be updated in place.
        self._in_place = not task.create_graph
        #: None if the process uses no streams.
        self._streams = task.streams
        #: The number of edges that have yet to deliver, by the node that they lead to.
        self._dependencies: dict[Node, int] = {}
        self._buffers: dict[Node, InputBuffer] = {}
        self._ready: ReadyQueue[Node] = ReadyQueue()
        #: Nodes whose bodies have begun and not ended.
        self._in_flight: set[Node] = set()
        self._sum_order_fixed = False
        #: What ran and what was ready at the first suspension, until the order of sums has been found for them.
        self._at_suspension: tuple[list[Node], ReadyQueue[Node]] | None = None
        #: The node that was popped last, or whose gradients are being delivered.
        self.node: Node | None = None
        dependencies = self._dependencies
        for target in extra:
            dependencies[target] = dependencies.get(target, 0) + 1
        #: The walk that counts the edges, not finished yet.
        begins = list(dict.fromkeys([*sources, *extra]))
        #: Whether it runs the backward from its root on, so that `counts` are those of the whole backward.
        self.is_whole: bool = begins == [task.root]
        self._counting = count_edges(begins, dependencies)
        #: Deliveries to replay once all edges are counted: REACHED for a node that was reached before, or the edge of a
        #: node with its gradient. None afterwards.
        self._early: list[tuple[Node, int, Any]] | None = []
        #: How many nodes it begins with that no edge leads to.
        self._sources = 0

    def count(self, deadline: float = inf, clock: Clock = perf_counter) -> bool:
        """Continue to count edges until `clock` passes `deadline`; tell whether all are counted."""
        if self._early is None:
            return True
        for _ in self._counting:
            if clock() > deadline:
                return False
        early, self._early = self._early, None
        for node, edge, grad in early:
            if edge == REACHED:
                self._sources += node not in self._dependencies
                self._queue(node)
            else:
                # An error that `deliver` raises is reported for this node.
                self.node = node
                (self._deliver_there if several_devices[0] else self.deliver)(node, ((edge, grad),))
                self.node = None
        return True

    def __len__(self) -> int:
        """Return how many nodes are queued or running."""
        queued = len(self._ready) if self._early is None else sum(edge == REACHED for _, edge, _ in self._early)
        return queued + len(self._in_flight)

    def seed(self, node: Node, grads: list[Any], owned: list[bool]) -> None:
        """Start a node with the gradients that have arrived; `owned` tells which arrays may be updated in place."""
        buffer = self._buffers[node] = InputBuffer(len(grads))
        for input_nr, grad in enumerate(grads):
            buffer.seed(input_nr, grad, owned[input_nr])
        if self._early is None:
            self._queue(node)
        else:
            self._early.append((node, REACHED, None))

    def _queue(self, node: Node) -> None:
        if not self._dependencies.get(node):
            self._ready.push(node, node)

    def run(self, deadline: float, clock: Clock = perf_counter) -> Stop | NodeTurn:
        """Run ready nodes until none is ready, `clock` passes `deadline`, or one needs more than a plain call."""
        if self._early is not None and not self.count(deadline, clock):
            return Stop.BUDGET_SPENT
        heap = self._ready.heap
        if heap and heap[0][2].meta is not None:
            # In a graph whose nodes wait nearly all come by here, one in each call.
            return self._begin_turn(heappop(heap)[2])
        task = self._task
        release, is_watched, observed = not task.keep_graph, task.anomaly is not None, task.observed_steps
        run_leaf = task.run_leaf if observed is None else observed.run_leaf
        if observed is None:
            runs_plan, apply = not task.create_graph, task.apply
        else:
            runs_plan, apply, clock = observed.plain_runs(self, clock)
        whole = None if task.limits is None else task.limits.whole
        #: The device of the last node that runs in this thread.
        here: Any = None
        buffers, in_flight, streams = self._buffers, self._in_flight, self._streams
        while heap:
            node: Any = heappop(heap)[2]
            if node.meta is not None or is_watched or (node.device is not here and needs_node_task(node.device)):
                return self._begin_turn(node)
            in_flight.add(node)
            if streams is not None:
                streams.begin(node)
            grads = buffers.pop(node).values
            self.node = node
            if node.device is not here:
                here = node.device
                if several_devices[0]:
                    use_device(here)
            if node.order == LEAF_ORDER:
                run_leaf(node, grads)
                in_flight.discard(node)
                continue
            grad = grads if node.shape is None else grads.pop()
            try:
                is_whole = whole is None or node in whole
                run = node.plan.run if is_whole and runs_plan else apply
                outputs = run(node, grad, release)
            except OffloadSignal:
                if prefers_worker(node, grad):
                    return NodeTurn(node, grads if node.shape is None else [grad])
                outputs = run_here(node, grad) if observed is None else observed.run_here(node, grad)
                if release:
                    node.release_variables()
            except AddingSignal:
                outputs = node.plan.run_here(node, grad, release)
            del grad
            self.end_turn(node, outputs, False)
            # A leaf takes over the array of a gradient only if there is no other reference to it.
            del outputs
            if clock() > deadline:
                self.node = None
                node.note_slow()
                task.slow_node = node
                return Stop.BUDGET_SPENT
        self.node = None
        return Stop.DRAINED

    def _begin_turn(self, node: Node) -> NodeTurn:
        """Return the turn of a ready node, which needs more than a plain call."""
        self._in_flight.add(node)
        if self._streams is not None:
            self._streams.begin(node)
        grads = self._buffers.pop(node).values
        self.node = node
        return _make_turn((node, grads))

    def is_waiting(self) -> bool:
        """Tell whether no node is ready, and all edges have been counted."""
        return self._early is None and not self._ready

    def ready(self) -> list[Node]:
        """Return the nodes that are ready, in their order; from any thread."""
        early = self._early
        if early is not None:
            return [node for node, edge, _ in early.copy() if edge == REACHED]
        return self._ready.works()

    def counts(self) -> tuple[int, int] | None:
        """Return how many nodes have ended since this executor began, and how many it runs in all; from any thread.

        None as long as the edges are being counted.
        """
        if self._early is not None:
            return None
        ready = self._ready
        infos = self.exec_info
        total = len(self._dependencies) + self._sources if infos is None else infos.executed
        return ready.pushed - len(ready) - len(self._in_flight), max(total, ready.pushed)

    def has(self, node: Node) -> bool:
        """Tell whether `node` is one of those that `counts` counts; from any thread."""
        infos = self.exec_info
        return (node in self._dependencies or node is self._task.root) and (infos is None or infos.executes(node))

    def begin(self, node: Node) -> None:
        """Note that `node`, which another executor has started, is running."""
        self._in_flight.add(node)

    def end_turn(self, node: Node, outputs: tuple[Any, ...] | None, was_turn: bool = True) -> None:
        """Deliver the gradients of `node`, and queue the nodes that are ready then.

        Args:
            node: the node whose body has ended.
            outputs: the gradients for its edges; None where its body did not run.
            was_turn: whether a NodeTask has run it.
        """
        meta = node.meta
        # A NodeTask has made them fit; a post-hook may have written into them since.
        fits = was_turn and meta is not None and not meta.post_hooks
        if self._at_suspension is not None:
            self.prepare_to_wait()
        self._in_flight.discard(node)
        if outputs is not None:
            if several_devices[0]:
                self._deliver_there(node, enumerate(outputs), fits)
            else:
                self.deliver(node, enumerate(outputs), fits)

    def mark_ended(self, node: Node) -> None:
        """Note that a node has ended after a failure, when `end_turn` is not called any more."""
        self._in_flight.discard(node)

    def seed_leaf(self, leaf: Node, total: Any) -> None:
        """Start the sum of a leaf with an earlier one."""
        self.seed(leaf, [total], [False])

    def recheck(self) -> None:
        """Do nothing: changes at a node are found when its turn comes."""

    def deliver(self, node: Node, grads: Iterable[tuple[int, Any]], fits: bool = False) -> None:
        """Deliver gradients of one node, each of which may be None, along its edges.

        Args:
            node: the node whose gradients they are.
            grads: the number of an edge and its gradient, for each.
            fits: whether they have the metadata of the inputs that the edges lead to.
        """
        targets, input_nrs = node.next_nodes, node.input_nrs
        if self._early is not None:
            self._early += [(node, edge, grad) for edge, grad in grads if targets[edge] is not None]
            return
        dependencies, buffers, infos, streams = self._dependencies, self._buffers, self.exec_info, self._streams
        for edge, grad in grads:
            target = targets[edge]
            if target is None:
                continue
            input_nr = input_nrs[edge]
            value = grad if grad is None or fits else conform(node, edge, target, input_nr, grad)
            left = dependencies.get(target, 0) - 1
            if left < 0:
                raise GraphError(
                    f"{identify(node)} delivered to {target.name}, which waits for nothing: "
                    "an edge was changed while a backward ran through it. Change a graph before or after its backward"
                )
            dependencies[target] = left
            # Nearly all that is reached runs whole.
            if infos is not None and target not in infos.whole and not infos.executes(target):
                continue
            buffer = buffers.get(target)
            if buffer is None:
                is_plain = target.meta is None and target.shape is not None
                buffer = buffers[target] = InputBuffer(1 if is_plain else len(target.input_metadata))
            if streams is None:
                if buffer.expected is None and buffer.values[input_nr] is None:
                    # As `add`, without a call.
                    buffer.values[input_nr] = value
                else:
                    buffer.add(input_nr, value, (node, edge), self._in_place)
            else:
                streams.add(buffer, node, edge, target, input_nr, value, self._in_place)
            if not left:
                self._ready.push(target, target)

    def _deliver_there(self, node: Node, grads: Iterable[tuple[int, Any]], fits: bool = False) -> None:
        """Do what `deliver` does, while the device of the node at each edge is the current one of its library."""
        for edge, grad in grads:
            target = node.next_nodes[edge]
            with keep_device():
                use_device(None if target is None else target.device)
                self.deliver(node, ((edge, grad),), fits)

    def on_suspend(self) -> None:
        """Sum gradients in an order fixed by the graph from here on, since bodies overlap.

        It is the order of a run in which nothing overlaps: newer producers first, unless sequence numbers or edges have
        been set by hand. All sums so far were made in that order.
        """
        if not self._sum_order_fixed:
            self.count()
            self._sum_order_fixed = True
            self._at_suspension = list(self._in_flight), self._ready.copy()

    def prepare_to_wait(self) -> None:
        """Find the order of the sums that are still to come, after the first suspension.

        It takes a walk through the graph, best while the nodes that have been started wait; and before the first
        gradient after the suspension is delivered.
        """
        if self._at_suspension is None:
            return
        at_suspension, self._at_suspension = self._at_suspension, None
        dependencies = self._dependencies
        if max(dependencies.values(), default=0) <= 1:
            # No sum is still to come: a chain of nodes, say, as most rows of a Jacobian run through.
            return
        #: The nodes with a gradient still to come for one that waits for more than one.
        joining: list[Node] = []
        stack = [*self._in_flight, *self._buffers]
        seen = set(stack)
        numbers: set[int] = set()
        producers, is_by_hand = 0, False
        while stack:
            node = stack.pop()
            targets, order = node.next_nodes, node.order
            if targets:
                producers += 1
                numbers.add(order)
            joins = False
            for target in targets:
                if target is None:
                    continue
                joins = joins or dependencies.get(target, 0) > 1
                if order >= target.order != LEAF_ORDER:
                    is_by_hand = True
                if target not in seen:
                    seen.add(target)
                    stack.append(target)
            if joins:
                joining.append(node)
        if is_by_hand or len(numbers) < producers:
            ranks = self._ranks(*at_suspension)
            joining.sort(key=lambda node: (ranks.get(node, inf), node.order))
        else:
            joining.sort(key=attrgetter("order"))
        self._expect_arrivals(joining)

    def _expect_arrivals(self, producers: Iterable[Node]) -> None:
        """Have gradients summed in the order of the nodes that they come from."""
        dependencies = self._dependencies
        #: The arrivals still to come, by the node that waits for more than one.
        incoming: dict[Node, list[Arrival]] = {}
        for node in producers:
            for edge, target in enumerate(node.next_nodes):
                if target is not None and dependencies.get(target, 0) > 1:
                    incoming.setdefault(target, []).append((node, edge))
        for target, arrivals in incoming.items():
            buffer = self._buffers.get(target)
            if buffer is None:
                buffer = self._buffers[target] = InputBuffer(len(target.input_metadata))
            buffer.expected = arrivals

    def _ranks(self, running: list[Node], ready: ReadyQueue[Node]) -> dict[Node, int]:
        """Return the position of each remaining node in a run in which nothing overlaps; consumes its arguments."""
        waiting = dict(self._dependencies)
        ranks: dict[Node, int] = {}
        while running or ready:
            node = running.pop() if running else ready.pop()
            ranks[node] = len(ranks)
            for target in node.next_nodes:
                if target is None:
                    continue
                waiting[target] -= 1
                if not waiting[target] and (self.exec_info is None or self.exec_info.executes(target)):
                    ready.push(target, target)
        return ranks

    def clear(self) -> None:
        """Drop all queued nodes and pending gradients; nodes that run still count."""
        self._ready.clear()
        self._buffers.clear()
        self._early = self._at_suspension = None
        self._counting = iter(())
        if self.node is not None:
            # The node that failed does not run any more.
            self._in_flight.discard(self.node)
        self.node = None

    def finish(self) -> None:
        """Raise if a gradient waits at a node that will never be ready.

        Raises:
            GraphError: an edge to that node was removed during the backward.
        """
        waiting = [node.name for node, buffer in self._buffers.items() if buffer.holds_gradients()]
        if waiting:
            raise GraphError(
                f"gradients have reached {', '.join(waiting)}, and others that it waits for never came: "
                "an edge was changed while a backward ran through it. Change a graph before or after its backward"
            )
