"""GraphTask: the state of one backward. Executors change it, drivers read it, and it never awaits."""

from __future__ import annotations

import itertools
import weakref
from contextvars import Context
from threading import get_ident
from typing import TYPE_CHECKING, Any, final

from ...errors import GraphError
from ..graph.body_signals import OffloadSignal
from ..graph.grad_journal import commit_all, continue_sum, merge_changes
from ..graph.html import facts, panel
from ..graph.leaf import Leaf, accumulate_all
from ..graph.naming import identify
from .completion import COMPLETION_LOCK, Completion
from .exec_info import ExecInfos, as_tensors, execution_order, nodes_below
from .streams import TaskStreams, streams_in_use
from .until_success import ToRelease, collect_runs, release_all

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..graph.grad_journal import Change, GradChange
    from ..graph.node import Node
    from .completion import CompletionFuture
    from .executor import Executor
    from .instruments import ObservedSteps

__all__ = ["CPU_DEVICE", "NO_DEVICE", "SUSPENDED", "GraphTask", "all_suspended", "next_id", "release_within"]

#: Numbers backward passes, and what holds the locks of nodes as they do.
next_id = itertools.count().__next__

#: The `owner` of a backward that no node's body called.
NO_DEVICE = -2
#: The `owner` of a backward called from the body, a hook or a callback of a node on the cpu.
CPU_DEVICE = -1

#: The backward passes that have suspended at least once and have not ended, by their ids, for `describe_running`. No
#: WeakSet, whose `add` and whose callback are functions of Python: they would take a twentieth of a small backward.
SUSPENDED: dict[int, weakref.ref[GraphTask]] = {}

#: The context of a task that has ended. Nothing runs in it.
_NO_CONTEXT = Context()


@final
class GraphTask:
    """The state of one backward: its context, its captures, its changes to gradients, and whether it has failed.

    Hooks and bodies get it by `ag.engine.current_graph_task()`, and may read all attributes with a public name. The
    engine makes it and gives it an executor.

    Args:
        root: the node that the backward starts from.
        input_nr: the input of the root at which its gradient arrives.
        id: unique in the process.
        keep_graph: whether saved tensors are kept while it runs.
        create_graph: whether the backward is itself recorded.
        exec_info: the nodes to run; None runs all that are reachable.
        captures: how many gradients are captured.
        outer: the task that this one runs inside of, if any.
        outer_node: the node of `outer` in whose body or hook this one was called; None in a final callback.
        context: a copy of the caller's context, with the grad mode of this backward; nodes run in it.
        graph_roots: the nodes of all roots; empty for `root` alone.
        exit_on_error: whether the first error completes the task at once.
        anomaly: the anomaly mode that the backward runs under, if any.
        sums: see the attribute.

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
        "captured",
        "changes",
        "completion",
        "context",
        "create_graph",
        "driver",
        "ends_with_others",
        "executor",
        "exit_on_error",
        "failed_node",
        "graph_roots",
        "group",
        "has_error",
        "id",
        "is_out_of_order",
        "is_running",
        "is_watched",
        "keep_graph",
        "limits",
        "most_answers",
        "observation",
        "observed_steps",
        "outer",
        "outer_node",
        "read_ahead",
        "recorded_since",
        "reentrant_depth",
        "remote_jobs",
        "root",
        "scheduler",
        "since",
        "slow_node",
        "streams",
        "sums",
        "thread_id",
        "to_release",
    )

    #: Decides which node runs next; deleted when the task ends. The engine chooses the first one.
    executor: Executor
    #: What reads ahead the saved tensors that are stored elsewhere; set where there are some.
    read_ahead: Any
    #: Whether it ends together with others of one call, once all have run their nodes: see `JointCommit`.
    ends_with_others: bool
    #: Whether nodes that wait may have recorded in the order of their waits.
    is_out_of_order: bool
    #: The `next_order()` at its begin; None where one around it numbers what it records. Unset unless it is recorded.
    recorded_since: int | None
    #: When it began, by the clock of its context; unset until a driver has it.
    since: float
    #: A weak reference to the NodeTaskGroup of its NodeTasks; None before the first. Weak, since a node holds its
    #: GraphTask by its lock, and must not keep what has suspended on a loop that is gone.
    group: Any
    #: A weak reference to the asyncio task that awaits it; None until it suspends.
    driver: Any
    #: How often a memoized node may be asked, once by each row of a batch; 0 where no answers are kept.
    most_answers: int
    #: Its Observation; None where nothing observes it.
    observation: Any
    #: The node at which it has failed, None where that is not known; unset until it fails.
    failed_node: Node | None
    #: The node after which the time budget was spent last; None where that is not known.
    slow_node: Node | None

    def __init__(
        self,
        root: Node,
        input_nr: int,
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
        self.id: int = id
        self.keep_graph: bool = keep_graph
        #: What is to be released once this backward has succeeded; None where that is nothing.
        self.to_release: ToRelease | None = None
        self.most_answers = 0
        self.create_graph: bool = create_graph
        self.exit_on_error: bool = exit_on_error
        self.has_error: bool = False
        self.outer: GraphTask | None = outer
        self.outer_node: Node | None = outer_node
        self.reentrant_depth: int = 0 if outer is None else outer.reentrant_depth + 1
        self.thread_id: int = get_ident()
        self.context: Context = context
        self.root: Node = root
        #: The nodes of the roots in their order, with duplicates.
        self.graph_roots: tuple[Node, ...] | tuple[Node] = tuple(graph_roots) if graph_roots else (root,)
        #: What to run and to capture, by node; None runs everything.
        self.limits: ExecInfos | None = exec_info
        self.anomaly: Any = anomaly
        #: What observes this backward; None if nothing does.
        self.observed_steps: ObservedSteps | None = None
        #: The captured gradients: arrays, or tensors under `create_graph`.
        self.captured: list[Any] = [None] * captures
        #: The changes that this task has made to the gradients of tensors, in order.
        self.changes: list[Change] = []
        #: Final callbacks, delayed warnings and the completion future; None until one of them is asked for.
        self.completion: Completion | None = None
        #: The DepthScheduler of the loop that drives this task; None where no loop does.
        self.scheduler: Any = None
        #: The nodes that run on workers of their devices, each with its CoroutineJob; None before the first.
        self.remote_jobs: dict[Node, Any] | None = None
        self.group = self.driver = self.observation = self.slow_node = None
        #: By leaf, the sum in `.grad` to which gradients are added one by one.
        self.sums: dict[Node, Any] | None = sums
        self.is_running: bool = True
        self.is_watched = self.is_out_of_order = False
        self._nodes_in_graph: frozenset[Node] | None = None
        self._can_checkpoint: bool = exec_info is None and (outer is None or outer._can_checkpoint)
        #: None if the process uses no streams.
        self.streams: TaskStreams | None = TaskStreams.of_caller() if streams_in_use[0] else None
        if self.streams is not None:
            self.streams.start(root, input_nr)

    # For drivers and executors.

    def capture(self, node: Node, grads: list[Any]) -> bool:
        """Store the gradients that are captured at `node`; tell whether its body is to run."""
        if self.limits is None:
            return True
        info = self.limits[node]
        for capture in info.captures:
            self.captured[capture.result_nr] = grads[capture.input_nr]
        if self.streams is not None and info.captures:
            self.streams.leave(node)
        return info.needed

    def apply(self, node: Any, grad: Any, release: bool) -> Any:
        """Run a plain node under `create_graph` or with `inputs`; return None where its body is not to run."""
        is_whole = self.limits is None or node in self.limits.whole
        outputs = node.apply_generic(grad) if is_whole else self.apply_wanted(node, grad)
        if release and outputs is not None:
            node.release_variables()
        return outputs

    def apply_wanted(self, node: Any, grad: Any) -> Any:
        """Run a plain node for the gradients that are needed; return None where its body is not to run."""
        limits = self.limits
        assert limits is not None
        grads = [grad]
        if node.shape is None:
            grads = [None] * node.num_inputs if grad is None else grad
        if not self.capture(node, grads):
            return None
        if not self.create_graph and node.plan.may_be_heavy(node, grad):
            raise OffloadSignal
        wanted = [target is not None and limits.executes(target) for target in node.next_nodes]
        return node.apply_wanted(grad, wanted)

    def end_turn(self, node: Any, outputs: Any) -> None:
        """Give the gradients of a node that a driver has run to the executor, which gave its turn, or to one after it.

        Where they are recorded, so are their sums, whatever the grad mode of the caller.
        """
        executor: Any = self.executor
        if self.create_graph:
            self.context.run(executor.end_turn, node, outputs)
        else:
            executor.end_turn(node, outputs)

    def run_leaves(self, leaves: Sequence[Any], grads: list[Any]) -> None:
        """Run AccumulateGrads without hooks, at the end; consumes `grads`, which begins with that of the last leaf."""
        try:
            if self.observed_steps is not None:
                for leaf in leaves:
                    self.observed_steps.run_leaf(leaf, [grads.pop()])
                return
            if self.limits is None and self.sums is None:
                # As `_is_seen`: only an executor that runs leaves last comes here.
                is_seen = self.outer is not None or self.completion is not None or self.is_watched
                accumulate_all(leaves, grads, self.changes, is_seen)
                return
            limits = self.limits
            for leaf in leaves:
                if limits is not None and self.streams is None and not limits[leaf].needed:
                    grad = grads.pop()
                    for _, result_nr in limits[leaf].captures:
                        self.captured[result_nr] = grad
                else:
                    self.run_leaf(leaf, [grads.pop()])
        except BaseException:
            if len(grads) < len(leaves):
                # A leaf takes its gradient off the list first. The error names it: a copy, say, has found no memory.
                self.executor.node = leaves[len(leaves) - len(grads) - 1]
            raise

    def run_leaf(self, leaf: Any, grads: list[Any]) -> None:
        """Run an AccumulateGrad without hooks."""
        if self.limits is None or self.capture(leaf, grads):
            self.accumulate(leaf, grads)

    def accumulate(self, leaf: Any, grads: list[Any]) -> GradChange | None:
        """Accumulate the gradient of a leaf; append the change that undoes it to `changes`, and return it."""
        if self.sums is not None and leaf in self.sums:
            return continue_sum(leaf.variable, grads.pop(), self.sums[leaf], self.changes)
        return leaf.accumulate(grads.pop(), self.changes, self._is_seen())  # type: ignore[no-any-return]

    def _is_seen(self) -> bool:
        """Tell whether user code other than callbacks may run between the first leaf and the end."""
        return not self.executor.leaves_last or self.outer is not None or self.completion is not None or self.is_watched

    def succeed(self) -> None:
        """Issue the delayed warnings. Then commit the changes to gradients, or merge them into an outer task that runs.

        Failure callbacks are merged with them.
        """
        if self.completion is not None:
            self.completion.warnings.replay()
        outer = self.outer
        if outer is None or not outer.is_running:
            commit_all(self.changes)
            return
        if self.completion is not None and self.completion.failure_callbacks:
            outer.complete_with().failure_callbacks.extend(self.completion.failure_callbacks)
        if not outer.changes and outer.remote_jobs is None:
            # The lists are swapped: copying would take quadratic time over many nested levels. Not if nodes of the
            # outer task run in other threads, which may be appending to its list.
            outer.changes, self.changes = self.changes, outer.changes
            return
        merge_changes(self.changes, outer.changes)

    def conclude(self) -> None:
        """Resolve the future, and release what was kept until success: the changes to gradients have been committed."""
        if self.completion is not None:
            self.completion.succeed(self.captured_grads)
        if self.to_release is not None:
            self.release(self.to_release)

    def release(self, kept: ToRelease) -> None:
        """Release what was kept until this backward has succeeded; a nested one leaves that to the outer one.

        The success of a nested backward is not final: where the outer one fails, it is taken back.
        """
        limits, own = self.limits, kept.own or {}
        if own and limits is not None and limits.handed_out:
            # A body has changed what runs.
            own = {}
            for _ in collect_runs(own, self.root, limits):
                pass
        release_within(self.outer, own | kept.nested)

    def finish(self) -> list[Any]:
        """Finish the executor once nothing is left to run; return the captures. Calling it again does nothing more.

        Raises:
            GraphError: a gradient waits at a node that will never be ready.
        """
        self.executor.finish()
        if self.streams is not None:
            self.streams.finish()
            self.streams.return_to_caller()
        return self.captured

    def roll_back(self) -> None:
        """Roll back the changes of this task to gradients, and no others, after a failure."""
        while self.changes:
            # Popped only afterwards: after an interruption in between, a second call starts with the same change.
            self.changes[-1].roll_back()
            self.changes.pop()

    def fail(self) -> None:
        """Drop everything that is queued, at the first error; nodes that run still count."""
        self.has_error = True
        self.failed_node = self.executor.node
        if self.observed_steps is not None:
            self.observed_steps.fail(self.executor.node)
        self.captured = [None] * len(self.captured)
        self.executor.clear()
        if self.streams is not None:
            self.streams.abandon()

    def close(self) -> None:
        """End the task, and drop its context, which refers to it: a cycle would wait for the garbage collector."""
        if self.observation is not None:
            self.observation.end(self)
            self.observation = None
        self.is_running = False
        SUSPENDED.pop(self.id, None)
        self.context = _NO_CONTEXT
        if self.observed_steps is not None:
            self.observed_steps.close(self.has_error)
            self.observed_steps = None
        self.scheduler = self.read_ahead = self.slow_node = None
        del self.executor
        if self.completion is not None:
            self.completion.close(self.captured_grads, self.has_error)

    def node_tasks(self) -> dict[Any, Node | None]:
        """Return the NodeTasks that have suspended, each with its node, None for a callback; from any thread."""
        group = None if self.group is None else self.group()
        return {} if group is None else group.running.copy()

    # For bodies and hooks.

    @property
    def owner(self) -> int:
        """The index of the device whose worker called this backward; `NO_DEVICE` where no backward was running.

        `CPU_DEVICE` where the name of the device has no index.
        """
        if self.outer is None:
            return NO_DEVICE
        index = None if self.outer_node is None else getattr(self.outer_node.device, "index", None)
        return CPU_DEVICE if index is None else index

    @property
    def until_success(self) -> bool:
        """Whether saved tensors are released once it has succeeded; `keep_graph` is true then."""
        return self.to_release is not None and self.to_release.own is not None

    @property
    def outstanding_tasks(self) -> int:
        """How many nodes are queued or running."""
        return len(self.executor) if self.is_running else 0

    @property
    def exec_info(self) -> ExecInfos:
        """What to run and to capture, by node; empty where everything runs.

        A body may have another node run: `task.exec_info[node].needed = True`, before a gradient arrives there.
        """
        if self.limits is None:
            return ExecInfos()
        return self.limits.hand_out()

    @property
    def nodes_in_graph(self) -> frozenset[Node]:
        """The nodes below the root, without the root itself.

        Source: GraphTask::nodes_in_graph_ of PyTorch.
        """
        if self._nodes_in_graph is None:
            self._nodes_in_graph = frozenset(
                nodes_below(self.root, None if self.limits is None else self.limits.horizon)
            )
        return self._nodes_in_graph

    @property
    def captured_grads(self) -> list[Any]:
        """The gradients captured so far, a tensor or None for each input; all None after a failure."""
        return as_tensors(self.captured, self.limits)

    @property
    def leaf_streams(self) -> frozenset[object]:
        """The streams on which gradients of leaves and captured gradients have been computed so far.

        At the end the caller's current streams wait for them. A default stream is among them only on a device whose
        work may go on after a call has returned, so never that of the cpu.
        """
        return frozenset() if self.streams is None else frozenset(self.streams.leaves)

    @property
    def final_callbacks(self) -> tuple[Callable[[], object], ...]:
        """The callbacks queued so far, in order, with those that have run; empty after the end."""
        return () if self.completion is None else tuple(self.completion.callbacks)

    @property
    def future_result(self) -> CompletionFuture:
        """The future of the final `captured_grads`, or of the error; any task, loop or thread may wait for it."""
        completion = self.complete_with()
        completion.is_wanted = True
        return completion.future

    def can_checkpoint(self) -> bool:
        """Tell whether a reentrant checkpoint may recompute: not if `inputs` limit this backward or an outer one."""
        return self._can_checkpoint

    def completed(self) -> bool:
        """Tell whether nothing is queued or running; under `exit_on_error`, also True after the first error."""
        return not self.outstanding_tasks or (self.exit_on_error and self.has_error)

    def will_execute(self, node: Node) -> bool:
        """Tell whether this backward runs, or has run, `node`.

        Raises:
            GraphError: the node is that of a leaf, at which this backward, a grad(), only captures.
        """
        is_reached, limits = self.will_reach(node), self.limits
        if is_reached and limits is not None and isinstance(node, Leaf) and limits[node].captures:
            raise GraphError(
                f"whether {identify(node)} executes is not defined in "
                "ag.grad(...), which only captures its gradient: use await ag.backward(..., inputs=[...])"
            )
        return is_reached

    def will_reach(self, node: Node) -> bool:
        """Tell whether gradients arrive or have arrived at `node`: it runs, or captures."""
        limits = self.limits
        # An input that no path leads to has captures as well, and no gradient arrives there.
        is_reached = node is self.root or node in self.graph_roots or node in self.nodes_in_graph
        return is_reached and (limits is None or limits.executes(node))

    def execution_order(self) -> list[Node]:
        """Return the nodes that this backward runs, in their order where no body suspends."""
        return execution_order(self.graph_roots, self.root, self.limits)

    def __repr__(self) -> str:
        return f"<GraphTask {self.id}: {', '.join(f'{name} {text}'.strip() for name, text in self._facts()[:4])}>"

    def _repr_html_(self) -> str:
        return panel("GraphTask", facts([(name or "state", text) for name, text in self._facts()]), f"id {self.id}")

    def _facts(self) -> list[tuple[str, str]]:
        """Return what is said of the task: its state, where it began, its depth, and what is outstanding; then more."""
        state = "failed" if self.has_error else "running" if self.is_running else "ended"
        roots = [identify(root) for root in self.graph_roots]
        outer = "none" if self.outer is None else f"GraphTask {self.outer.id}"
        return [
            ("", state),
            ("from", ", ".join(roots[:3]) + (f", … {len(roots) - 3} more" if len(roots) > 3 else "")),
            ("depth", str(self.reentrant_depth)),
            ("outstanding", str(self.outstanding_tasks)),
            ("keeps the graph", "until it succeeds" if self.until_success else "yes" if self.keep_graph else "no"),
            ("is recorded", "yes" if self.create_graph else "no"),
            ("runs", "all nodes" if self.limits is None else "what its inputs need"),
            ("inside of", outer),
        ]

    def complete_with(self) -> Completion:
        """Return the Completion of this backward; the first call makes it."""
        completion = self.completion
        if completion is None:
            # Bodies in several threads may ask at a time.
            with COMPLETION_LOCK:
                completion = self.completion
                if completion is None:
                    completion = self.completion = Completion()
            if not self.is_running:
                completion.resolve(self.captured_grads, self.has_error)
        return completion


def all_suspended() -> list[GraphTask]:
    """Return the backward passes that have suspended at least once and have not ended; from any thread."""
    while True:
        try:
            return [task for reference in list(SUSPENDED.values()) if (task := reference()) is not None]
        except RuntimeError:
            # What the garbage collector has run has added one, or ended one, meanwhile.
            continue


def release_within(outer: GraphTask | None, nodes: dict[Node, None]) -> None:
    """Release nodes now; or leave that to the backward that runs around, until its success.

    Args:
        outer: that backward, if there is one.
        nodes: the nodes.
    """
    if outer is None or not outer.is_running:
        release_all(nodes)
        return
    # Bodies in several threads may do so at a time.
    with COMPLETION_LOCK:
        if outer.to_release is None:
            outer.to_release = ToRelease(None)
        outer.to_release.nested.update(nodes)
