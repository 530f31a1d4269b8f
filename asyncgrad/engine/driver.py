"""The drivers of a backward, awaited and blocking: each has one loop, which runs the executor and NodeTasks in turn."""

from __future__ import annotations

import functools
import inspect
import threading
from contextlib import nullcontext
from math import inf
from typing import TYPE_CHECKING, Any

from ..context import BLOCKING, CURRENT_NODE, LOOP_BELOW
from ..errors import BlockingError
from ..graph.anomaly import forward_notes
from ..graph.naming import identify, place_of
from ..scheduling import CLOCK, LOOP_BUDGET
from .device import device_here, is_elsewhere
from .executor import NodeTurn, Stop, TurnExecutor
from .loops import NESTED_ON_ONE_STACK, loop_is_running, on_a_new_stack, run_apart, running_loop, yield_to_loop
from .node_task import NodeTask
from .notes import add_note
from .task_group import NodeTaskGroup, called, forget, send_away

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ..graph.node import Node
    from .graph_task import GraphTask
    from .remote import CoroutineJob

__all__ = ["drive", "drive_blocking"]


async def drive(graph_task: GraphTask, turn: NodeTurn | None = None) -> list[Any]:
    """Drive a task to its end, final callbacks included, suspending where its nodes do.

    Args:
        graph_task: the task.
        turn: of a node that a blocking driver has left, since it may suspend.
    """
    budget, clock = LOOP_BUDGET.get(), CLOCK.get()
    in_context = graph_task.context.run
    group: NodeTaskGroup | None = None
    deadline = clock() + budget
    try:
        while True:
            if group is not None and group.is_held_up():
                step: Stop | NodeTurn | None = None
                await group.wait()
                deadline = clock() + budget
            else:
                step, turn = turn or in_context(graph_task.executor.run, deadline, clock), None
                if step is Stop.DRAINED:
                    if group is None or not group.running:
                        break
                    await group.wait()
                    deadline = clock() + budget
                elif isinstance(step, NodeTurn):
                    group = group or NodeTaskGroup(graph_task, running_loop())
                    group.start(step)
            if group is not None:
                group.collect()
            # Bodies that do not suspend spend the budget too.
            if step is Stop.BUDGET_SPENT or clock() > deadline:
                if group is None:
                    await yield_to_loop()
                else:
                    await group.yield_to_loop()
                    # One may have failed meanwhile, and then no further node is to start.
                    group.collect()
                graph_task.executor.recheck()
                deadline = clock() + budget
        captured: list[Any] = in_context(graph_task.finish)
        if graph_task.completion is None and group is None:
            return captured
        group = group or NodeTaskGroup(graph_task, running_loop())
        await group.run_callbacks()
        await group.let_a_cancellation_in()
        return captured
    except BaseException as error:
        node = graph_task.executor.node
        graph_task.fail()
        if graph_task.exit_on_error and graph_task.completion is not None:
            graph_task.completion.fail(error)
        _say_where(graph_task, error, node)
        try:
            if group is not None:
                await group.end_all(error)
        finally:
            graph_task.put_back()
        raise


def drive_blocking(graph_task: GraphTask) -> list[Any]:
    """Drive a task to its end; never suspends."""
    if (graph_task.reentrant_depth + 1) % NESTED_ON_ONE_STACK == 0:
        return on_a_new_stack(functools.partial(_drive_on_a_new_stack, graph_task))
    return _drive_here(graph_task)


def _drive_here(graph_task: GraphTask) -> list[Any]:
    in_context = graph_task.context.run
    try:
        while (step := in_context(graph_task.executor.run, inf)) is not Stop.DRAINED:
            if isinstance(step, NodeTurn) and not _run_turn(graph_task, step):
                return run_apart(drive(graph_task, step))
        captured: list[Any] = in_context(graph_task.finish)
        if not _run_callbacks(graph_task):
            return run_apart(drive(graph_task))
        return captured
    except BaseException as error:
        if not graph_task.has_error:
            node = graph_task.executor.node
            graph_task.fail()
            _say_where(graph_task, error, node)
            graph_task.put_back()
        raise


def _run_turn(graph_task: GraphTask, turn: NodeTurn) -> bool:
    """Run a node whose turn it is; False where an event loop is to take over before it."""
    node_task = NodeTask(graph_task, turn.node, turn.grads)
    is_away = is_elsewhere(turn.node.device)
    if (is_away or node_task.may_suspend() or node_task.prefers_worker()) and not loop_is_running():
        return False
    node = node_task.node
    if is_away:
        outputs = _run_away(node_task)
    else:
        outputs = graph_task.context.copy().run(_step_once, node_task.run(), node)
    executor: TurnExecutor = graph_task.executor  # type: ignore[assignment]  # it, or one before it, gave the turn
    executor.end_turn(node, outputs)
    return True


def _run_away(node_task: NodeTask) -> Any:
    """Have the worker of its device run a node, and stand still until that has ended."""
    here = device_here()
    job = send_away(node_task, None)
    error: BaseException | None = None
    try:
        # The very nodes that it waits for may need the worker that blocks here.
        with nullcontext() if here is None else here.stand_in():
            _block_until_ended(job)
        error, job.error = job.error, None
        if error is not None:
            raise error
        return job.result
    finally:
        forget(job, node_task)
        # The traceback of an error leads back here: leave no cycle.
        del job, node_task, error


def _block_until_ended(job: CoroutineJob) -> None:
    """Stand still until a job has ended, however often that is interrupted; raise the interruption then."""
    try:
        job.block_until_ended()
    except BaseException:
        job.cancel()
        _block_until_ended(job)
        raise


def _run_callbacks(graph_task: GraphTask) -> bool:
    """Run the final callbacks; False where an event loop is to take over, since one returned an awaitable."""
    completion = graph_task.completion
    while completion is not None and (callback := completion.next_callback()) is not None:
        context = graph_task.context.copy()
        if loop_is_running():
            context.run(_step_once, called(callback), None)
        elif inspect.isawaitable(returned := context.run(_called_outside_of_nodes, callback)):
            completion.await_later(returned)
            return False
    return True


def _called_outside_of_nodes(callback: Callable[[], Any]) -> Any:
    CURRENT_NODE.set(None)
    return callback()


def _drive_on_a_new_stack(graph_task: GraphTask) -> list[Any]:
    graph_task.thread_id = threading.get_ident()
    graph_task.context.run(LOOP_BELOW.set, LOOP_BELOW.get())
    return _drive_here(graph_task)


def _step_once(coroutine: Coroutine[Any, Any, Any], node: Node | None) -> Any:
    """Run a coroutine that must not suspend; what it awaits in asyncgrad does not either.

    Args:
        coroutine: the run of a node, or of a final callback.
        node: which node; None for a callback.
    """
    BLOCKING.set(True)
    try:
        awaited = coroutine.send(None)
    except StopIteration as end:
        return end.value
    if awaited is not None:
        # It may stand for tasks that the body has started, and nobody else will ask how it ended.
        awaited.add_done_callback(_look_at_the_end)
        awaited.cancel()
    coroutine.close()
    name = "a final callback" if node is None else f"{identify(node)}"
    raise BlockingError(
        f"{name} suspended in a blocking backward, and an event loop is running in this thread, which that would "
        "stall. Await it instead: await ag.backward(...), await ag.grad(...) in place of asyncgrad.sync"
    )


def _look_at_the_end(ended: Any) -> Any:
    return ended.cancelled() or ended.exception()


def _say_where(graph_task: GraphTask, error: BaseException, node: Node | None) -> None:
    """Say in the error that ends a backward which node it comes from, if it comes from one."""
    if node is None:
        return
    add_note(error, f"in {node.name} ({place_of(node)})")
    if graph_task.anomaly is not None:
        for note in forward_notes(node):
            add_note(error, note)
