"""What bodies and hooks may read of the backward that they run in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import GraphError
from ..graph.leaf import AccumulateGrad
from .completion import MAKING, Completion
from .exec_info import ExecInfos, as_tensors
from .execution_order import execution_order, nodes_below

if TYPE_CHECKING:
    from collections.abc import Callable, Sized

    from ..graph.node import Node
    from .completion import CompletionFuture
    from .graph_task import GraphTask
    from .task_streams import TaskStreams

__all__ = ["CPU_DEVICE", "NO_DEVICE", "TaskRecord"]

#: The `owner` of a backward that no node's body called.
NO_DEVICE = -2
#: The `owner` of a backward called from the body, a hook or a callback of a node on the cpu.
CPU_DEVICE = -1


class TaskRecord:
    """Abstract base of `GraphTask`: what bodies and hooks may read of it."""

    __slots__ = ("_nodes_in_graph", "completion")

    outer: GraphTask | None
    outer_node: Node | None
    plain: Sized | None
    counted: Sized | None
    limits: ExecInfos | None
    root: Node
    graph_roots: tuple[Node, ...]
    captured: list[Any]
    streams: TaskStreams | None
    completion: Completion | None
    is_running: bool
    has_error: bool
    exit_on_error: bool
    _nodes_in_graph: frozenset[Node] | None
    _can_checkpoint: bool

    @property
    def owner(self) -> int:
        """The device whose worker called this backward: `NO_DEVICE` where no backward was running.

        The index of its name; `CPU_DEVICE` where that has none.
        """
        if self.outer is None:
            return NO_DEVICE
        index = None if self.outer_node is None else getattr(self.outer_node.device, "index", None)
        return CPU_DEVICE if index is None else index

    @property
    def outstanding_tasks(self) -> int:
        """How many nodes are queued or running."""
        return len(self.plain or ()) + len(self.counted or ())

    @property
    def exec_info(self) -> ExecInfos:
        """What to run and to capture, by node; empty where everything runs.

        A body may make a node run that would not: `task.exec_info[node].needed = True`, before a gradient gets there.
        """
        if self.limits is None:
            return ExecInfos()
        return self.limits.hand_out()

    @property
    def nodes_in_graph(self) -> frozenset[Node]:
        """The nodes that an edge below the root leads to. The root itself is none of them.

        Source: GraphTask::nodes_in_graph_ of PyTorch.
        """
        if self._nodes_in_graph is None:
            self._nodes_in_graph = frozenset(
                nodes_below(self.root, None if self.limits is None else self.limits.horizon)
            )
        return self._nodes_in_graph

    @property
    def captured_grads(self) -> list[Any]:
        """What has been captured so far, a tensor for each input, or None; a backward that failed has nothing."""
        return as_tensors(self.captured, self.limits)

    @property
    def leaf_streams(self) -> frozenset[Any]:
        """The streams on which leaves and what is captured have been computed so far.

        At the end the caller's current streams wait for them. The default stream is one of them only on a device whose
        work may go on after a call has returned: the cpu has none.
        """
        return frozenset() if self.streams is None else frozenset(self.streams.leaves)

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
        is_reached, limits = self.will_reach(node), self.limits
        if is_reached and limits is not None and isinstance(node, AccumulateGrad) and limits[node].captures:
            raise GraphError(
                f"whether {node.name} of a leaf of shape {node.variable._data.shape} executes is not defined in "
                "ag.grad(...), which only captures its gradient: use await ag.backward(..., inputs=[...])"
            )
        return is_reached

    def will_reach(self, node: Node) -> bool:
        """Tell whether gradients arrive at `node` in this backward, or have: it runs, or they are captured there."""
        limits = self.limits
        # An input that the roots do not lead to has captures too, and nothing ever arrives there.
        is_reached = node is self.root or node in self.graph_roots or node in self.nodes_in_graph
        return is_reached and (limits is None or limits.executes(node))

    def execution_order(self) -> list[Node]:
        """Return the nodes that this backward runs, in the order in which they run where nothing is waited for."""
        return execution_order(self.graph_roots, self.root, self.limits)

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
