"""Engine: makes the GraphTask of a backward, drives it to its end, and returns its captures or raises its error."""

from __future__ import annotations

import contextvars
import functools
from logging import DEBUG
from math import inf
from typing import TYPE_CHECKING, Any, final

from ..graph.background import register_background
from ..graph.leaf import GraphRoot
from ..graph.node import Edge, next_order
from ..settings.context import (
    ANOMALY,
    BLOCKING,
    CURRENT_GRAPH_TASK,
    CURRENT_NODE,
    GRAD_MODE,
    RECORDING,
    ROW,
    UNRECORDED,
)
from ..settings.loop_turn import keep_pace, next_turn, time_left
from ..settings.process import call_in_forked_children
from ..settings.scheduling import CLOCK, LOOP_BUDGET
from .background import LoopBackground
from .compiled.api import COMPILED_AFTER, find_compiled
from .compiled.cache import CACHE
from .current import calling_backward
from .dependency_executor import DependencyExecutor
from .device_limit import PERMIT
from .driver import drive, run_at_once, run_to_end
from .exec_info import ExecInfos, init_if_whole, init_stepwise
from .failure_callbacks import complete_with_error, note_failure
from .fast_path import FastPath
from .graph_task import GraphTask, next_id, release_within
from .instruments import observe_steps
from .node_lock import forget_earlier
from .observation import LOG_IS_ENABLED, observe, observers_in_use
from .until_success import UNTIL_SUCCESS, ToRelease, collect_runs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Literal

    from ..graph.node import Node
    from .executor import Executor
    from .joint_commit import JointCommit

__all__ = ["Engine"]

#: Bound once: a method of an imported name is looked up and bound anew at each call.
_blocking, _clock, _loop_budget, _permit = BLOCKING.get, CLOCK.get, LOOP_BUDGET.get, PERMIT.get
_current, _set_current, _set_grad_mode = CURRENT_GRAPH_TASK.get, CURRENT_GRAPH_TASK.set, GRAD_MODE.set
_unrecorded, _anomaly, _compiled_after = UNRECORDED.get, ANOMALY.get, COMPILED_AFTER.get
_log_is_enabled = LOG_IS_ENABLED.get

register_background(LoopBackground())
call_in_forked_children(lambda: forget_earlier(next_id()))


@final
class Engine:
    """Runs backward passes. It has no state: each backward has its own GraphTask.

    One suspends where a node does or the budget is spent. One that fails leaves no body running, and `.grad` as it was.
    """

    __slots__ = ()

    @staticmethod
    async def execute(
        roots: Sequence[Edge],
        grads: Sequence[Any],
        *,
        keep_graph: bool | Literal["until_success"],
        create_graph: bool,
        accumulate: bool,
        inputs: Sequence[Edge] = (),
        exit_on_error: bool = False,
        sums: Mapping[Node, tuple[Any, bool]] | None = None,
        most_answers: int = 0,
        commit: JointCommit | None = None,
    ) -> list[Any]:
        """Run a backward from `roots` to its end; return the captured gradients.

        Args:
            roots: the edges it starts from; their nodes are not None.
            grads: the gradient of each root.
            keep_graph: whether to keep saved tensors for another backward; or "until_success".
            create_graph: whether to record the backward itself; then `grads` are tensors.
            accumulate: whether to run the nodes of `inputs` (leaves accumulate) rather than capture their gradients.
            inputs: limits the backward to the nodes that lead there; empty runs all nodes.
            exit_on_error: whether to complete the task at the first error; this call returns once no body runs then.
            sums: by leaf, an earlier sum that its gradients are added to, and whether its `.grad` is to become the new.
            most_answers: how often a memoized node may be asked that keeps its answers, under "until_success" once.
            commit: ends it together with other backward passes of the same call; None where it ends by itself.
        """
        start: tuple[Any, int, Any] = (*roots[0], grads[0]) if len(roots) == 1 else (GraphRoot(roots, grads), 0, None)
        limits = to_release = None
        if inputs:
            limits = init_if_whole(start[0], inputs, accumulate) or await _find_limits(*start[:2], inputs, accumulate)
        if keep_graph is not False and keep_graph == UNTIL_SUCCESS:
            to_release, keep_graph = await _find_runs(start[0], limits), True
        now, deadline = (_clock()(), inf) if _blocking() else time_left(_clock(), _loop_budget())
        if now > deadline:
            now, deadline = await _wait_for_turn()
        captures = 0 if accumulate else len(inputs)
        graph_task = _make_graph_task(
            roots, start, keep_graph, create_graph, limits, captures, exit_on_error, sums, to_release, most_answers
        )
        graph_task.ends_with_others = commit is not None
        del start, grads  # Now the executor may have the only references to them.
        try:
            graph_task.since = now
            if _blocking() or (graph_task.outer is not None and _permit() is not None):
                await run_to_end(graph_task)
            elif (step := run_at_once(graph_task, deadline)) is not None:
                await drive(graph_task, step)
            if commit is None or not commit.takes(graph_task):
                graph_task.succeed()
        except BaseException as error:
            await _end_with_error(graph_task, commit, error)
            raise
        else:
            if not graph_task.ends_with_others:
                graph_task.conclude()
            return graph_task.captured
        finally:
            if not graph_task.ends_with_others:
                graph_task.close()

    @staticmethod
    async def release(roots: Sequence[Edge], inputs: Sequence[Edge], *, until_success: bool) -> None:
        """Release what a backward from `roots` would release; suspends before that when the time budget is spent.

        Args:
            roots: the edges that it starts from.
            inputs: limits it to the nodes that lead there.
            until_success: leave that to the backward that this is called in, if there is one, until its success.
        """
        root = roots[0].node if len(roots) == 1 else GraphRoot(roots, [None] * len(roots))
        assert root is not None
        limits = init_if_whole(root, inputs, False) or await _find_limits(root, None, inputs, False)
        nodes = (await _find_runs(root, limits)).own
        release_within(calling_backward() if until_success else None, nodes or {})


async def _wait_for_turn() -> tuple[float, float]:
    """Let the event loop turn, whose budget is spent, and wait for time to go on; return the `time_left` then.

    A backward waits here while it has nothing yet: of a thousand that do, each would have a task of its own in memory.
    One that a body with a permit has called does not: its driver waits after the first node, with the permit lent.
    """
    budget, clock = _loop_budget(), _clock()
    if budget > 0.0 and _permit() is None:
        await next_turn(clock, budget)
    return time_left(clock, budget)


async def _end_with_error(graph_task: GraphTask, commit: JointCommit | None, error: BaseException) -> None:
    note_failure(graph_task, error)
    is_taken = commit is not None and commit.takes(graph_task, error)
    if graph_task.completion is not None and not is_taken:
        await complete_with_error(graph_task.completion, error)


async def _find_limits(root: Node, output_nr: int | None, inputs: Sequence[Edge], accumulate: bool) -> ExecInfos:
    """Find the nodes between `root` and `inputs`; suspends when the time budget is spent, since there may be many.

    Args:
        root: the node that the backward starts from.
        output_nr: the output of `root` that it starts from; None where no gradient is computed.
        inputs: the edges whose gradients are wanted.
        accumulate: whether the inputs' own nodes run.
    """
    for node, _ in inputs:
        if node is not None and node.tells_part and output_nr is not None:
            node.check_input(root, output_nr)
    exec_info = ExecInfos()
    for _ in init_stepwise(exec_info, root, inputs, accumulate):
        await keep_pace()
    return exec_info


async def _find_runs(root: Node | None, limits: ExecInfos | None) -> ToRelease:
    """Find the nodes that a backward runs, ahead of it: the walk may suspend, and the end of a backward may not."""
    assert root is not None
    found: dict[Node, None] = {}
    for _ in collect_runs(found, root, limits):
        await keep_pace()
    return ToRelease(found)


def _make_graph_task(
    roots: Sequence[Edge],
    start: tuple[Node | None, int, Any],
    keep_graph: bool,
    create_graph: bool,
    limits: ExecInfos | None,
    captures: int,
    exit_on_error: bool,
    sums: Mapping[Node, tuple[Any, bool]] | None,
    to_release: ToRelease | None,
    most_answers: int,
) -> GraphTask:
    root, input_nr, grad = start
    assert root is not None
    outer = None if _current() is None else calling_backward()
    context = contextvars.copy_context()
    graph_task = GraphTask(
        root,
        input_nr,
        # By position: names would take a tenth of the time of a backward of one node.
        next_id(),
        keep_graph,
        create_graph,
        limits,
        captures,
        outer,
        context,
        None if outer is None else CURRENT_NODE.get(),
        () if len(roots) == 1 else [edge.node for edge in roots if edge.node is not None],
        exit_on_error,
        _anomaly(),
        {leaf: total for leaf, (total, is_in_grad) in sums.items() if is_in_grad} if sums else None,
    )
    if create_graph:
        graph_task.recorded_since = None if _is_numbered_around(graph_task) else next_order()
    if to_release is not None or most_answers:
        graph_task.to_release, graph_task.most_answers = to_release, most_answers or 1
    if observers_in_use[0] or _log_is_enabled(DEBUG, True):
        graph_task.observation, graph_task.observed_steps = observe(), observe_steps(graph_task)
    if sums or _compiled_after() is not None:
        graph_task.executor = _choose_executor(graph_task, grad, input_nr, sums)
    else:
        graph_task.executor = _make_uncompiled(graph_task, grad, input_nr)
    context.run(_enter, graph_task, create_graph)
    if graph_task.observation is not None:
        graph_task.observation.begin(graph_task)
    return graph_task


def _is_numbered_around(graph_task: GraphTask) -> bool:
    """Tell whether what a backward records is numbered by one in a node of which it runs, or with that of other rows.

    A final callback runs once the backward around it has numbered what it has recorded.
    """
    outer, row = graph_task.outer, ROW.get()
    is_in_recorded = outer is not None and outer.create_graph and graph_task.outer_node is not None
    return is_in_recorded or (row is not None and row.numbers(outer))


def _choose_executor(
    graph_task: GraphTask, grad: Any, input_nr: int, sums: Mapping[Node, tuple[Any, bool]] | None
) -> Executor:
    """Return the executor that a backward starts with."""
    after, observation = _compiled_after(), graph_task.observation
    if after is not None and observation is not None and observation.counts_nodes:
        CACHE.miss("a display that counts nodes")
    elif after is not None:
        make_fallback = functools.partial(_make_uncompiled, input_nr=input_nr)
        compiled = find_compiled(graph_task, after, grad, input_nr, make_fallback)
        if compiled is not None:
            # A backward with `sums` never finds a compiled function.
            return compiled
    executor = _make_uncompiled(graph_task, grad, input_nr)
    if sums:
        for leaf, (total, _) in sums.items():
            executor.seed_leaf(leaf, total)
    return executor


def _make_uncompiled(graph_task: GraphTask, grad: Any, input_nr: int) -> FastPath | DependencyExecutor:
    """Return the executor of a backward for which there is no compiled function."""
    root = graph_task.root
    observation = graph_task.observation
    is_counted = observation is not None and observation.counts_nodes
    if graph_task.anomaly is None and not is_counted and FastPath.can_start_at(root):
        return FastPath(graph_task, root, grad)
    executor = DependencyExecutor(graph_task, [root])
    grads = [None] * root.num_inputs
    if grads:
        grads[input_nr] = grad
    executor.seed(root, grads, [False] * len(grads))
    return executor


def _enter(graph_task: GraphTask, create_graph: bool) -> None:
    _set_current(graph_task)
    if graph_task.streams is not None:
        graph_task.streams.enter()
    unrecorded = _unrecorded()
    if unrecorded is not False:
        unrecorded = unrecorded.in_backward()
        UNRECORDED.set(unrecorded)
    # As `set_grad_mode`.
    _set_grad_mode(RECORDING.get() if create_graph else unrecorded)
    if _blocking():
        # A body on an event loop may suspend. The blocking driver sets it again for each coroutine that it steps.
        BLOCKING.set(False)
