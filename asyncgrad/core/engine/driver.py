"""The drivers of a backward, awaited and blocking: each is one loop that runs the executor and NodeTasks in turn."""

from __future__ import annotations

import functools
import inspect
import threading
from contextlib import nullcontext
from math import inf
from typing import TYPE_CHECKING, Any

from ...errors import BlockingError
from ..arrays.current_devices import runner_on_device, several_devices
from ..arrays.device_arrays import unavailable
from ..graph.anomaly import forward_notes
from ..graph.naming import identify, place_of
from ..settings.context import BLOCKING, CURRENT_NODE, LOOP_BELOW, ROW
from ..settings.loop_turn import keep_pace, next_turn, time_left
from ..settings.scheduling import CLOCK, LOOP_BUDGET
from ..settings.without_suspending import run_without_suspending
from .device import Device, device_here, home_of, is_elsewhere
from .device_limit import PERMIT
from .executor import NodeTurn, Stop
from .loops import MAX_NESTED_ON_STACK, loop_is_running, run_on_new_stack, run_on_own_loop, running_loop
from .node_task import NodeTask
from .notes import add_note
from .numbering import number_again
from .observation import warn_of_stall
from .remote import submit
from .task_group import NodeTaskGroup, call_and_await, forget_job, job_for_worker, note_suspended

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..graph.node import Node
    from ..settings.scheduling import Clock
    from .device_limit import Permit
    from .graph_task import GraphTask
    from .remote import CoroutineJob

__all__ = ["DRIVING", "drive", "drive_blocking", "run_at_once", "run_to_end", "suspension_error"]

#: Bound once: a method of an imported name is looked up and bound anew at each call.
_clock = CLOCK.get
#: As `Stop.DRAINED`, which would be looked up in its class at each node.
_DRAINED = Stop.DRAINED

#: What libraries of other arrays than NumPy's say of what they lack, and of arrays that they do not take.
_REFUSALS = (
    "all returned NotImplemented",
    "no implementation found for",
    "Implicit conversion",
    "is not supported",
    "Wrong type",
)


def run_at_once(graph_task: GraphTask, deadline: float) -> Stop | NodeTurn | None:
    """Run a backward as far as it gets in one call; return None where that is its end, else why it has stopped.

    Most small ones end here. A driver goes on with the others.
    """
    in_context = _runner(graph_task)
    try:
        step: Stop | NodeTurn = in_context(graph_task.executor.run, deadline, _clock())
        if step is not _DRAINED:
            return step
        in_context(graph_task.finish)
    except BaseException as error:
        _fail(graph_task, error)
        raise
    device = graph_task.root.device
    goes_on = _has_callbacks(graph_task) or (device is not None and device.is_asynchronous)
    return step if goes_on or graph_task.is_out_of_order else None


async def run_to_end(graph_task: GraphTask) -> list[Any]:
    """Drive a GraphTask, awaited or blocking, to its end; return the captures.

    If a body has called it, that body's permit on its device is lent to other bodies meanwhile.
    Called again for one that has run all its nodes, it runs the final callbacks.
    """
    if graph_task.outer is not None and (permit := PERMIT.get()) is not None:
        return await _drive_with_permit_lent(permit, graph_task)
    return drive_blocking(graph_task) if BLOCKING.get() else await drive(graph_task, None)


async def _drive_with_permit_lent(permit: Permit, graph_task: GraphTask) -> list[Any]:
    permit.lend()
    try:
        captured = drive_blocking(graph_task) if BLOCKING.get() else await drive(graph_task, None)
    except BaseException:
        permit.force_reacquire()
        raise
    if BLOCKING.get():
        permit.force_reacquire()
    else:
        await permit.reacquire()
    return captured


async def drive(graph_task: GraphTask, begun: Stop | NodeTurn | None) -> list[Any]:
    """Drive a GraphTask to its end, suspending where its nodes do; return the captures. Final callbacks run in it.

    Args:
        graph_task: the backward.
        begun: why the executor has stopped before; a node whose turn it is then runs first. None where it is to run.
    """
    budget, clock, in_context = LOOP_BUDGET.get(), CLOCK.get(), _runner(graph_task)
    group: NodeTaskGroup | None = None
    resumed, (_, deadline) = graph_task.since, time_left(clock, budget)
    if graph_task.observation is not None:
        graph_task.observation.start_timer(graph_task)
    try:
        while True:
            step: Stop | NodeTurn | None = None
            if group is None or not group.pauses:
                step, begun = begun or in_context(graph_task.executor.run, deadline, clock), None
                if isinstance(step, NodeTurn):
                    group = group or NodeTaskGroup(graph_task, running_loop())
                    step = group.start_ready(step, in_context, deadline, clock)
                if step is _DRAINED and (group is None or not group.running):
                    break
            if group is not None and (step is None or step is _DRAINED):
                await group.wait()
                resumed, deadline = time_left(clock, budget)
            if group is not None and group.finished:
                group.collect()
            # Bodies that do not suspend spend the budget too.
            if step is Stop.BUDGET_SPENT or clock() > deadline:
                # What others spent before is none of the node's.
                late = clock() - max(deadline, resumed + budget)
                warn_of_stall(graph_task, step.node if isinstance(step, NodeTurn) else graph_task.slow_node, late)
                # Where nothing is ready, the next step is the end, or to wait for a body, which lets the loop turn.
                if step is Stop.BUDGET_SPENT or budget <= 0.0 or not graph_task.executor.is_waiting():
                    resumed, deadline = await _yield_to_loop(graph_task, group, clock, budget)
        captured: list[Any] = in_context(graph_task.finish)
        if graph_task.is_out_of_order or getattr(graph_task.root.device, "is_asynchronous", False):
            await _settle(graph_task)
        if group is None and not _has_callbacks(graph_task):
            return captured
        group = group or NodeTaskGroup(graph_task, running_loop())
        if _has_callbacks(graph_task):
            await group.run_callbacks()
        await group.deliver_cancellation()
        return captured
    except BaseException as error:
        _fail(graph_task, error)
        if graph_task.exit_on_error and graph_task.completion is not None:
            graph_task.completion.fail(error)
        try:
            if group is not None:
                await group.end_all(error)
        finally:
            graph_task.roll_back()
        raise


async def _yield_to_loop(
    graph_task: GraphTask, group: NodeTaskGroup | None, clock: Clock, budget: float
) -> tuple[float, float]:
    """Let the event loop run everything else that is ready, look at what that has changed; return the `time_left`."""
    note_suspended(graph_task)
    graph_task.slow_node = None
    if group is None:
        await next_turn(clock, budget)
    else:
        await group.next_turn(clock, budget)
        # A body may have failed meanwhile; then no further node starts.
        group.collect()
    graph_task.executor.recheck()
    return time_left(clock, budget)


async def _settle(graph_task: GraphTask) -> None:
    """Number what has been recorded, and wait until the device of the root may take more."""
    for _ in _numbering(graph_task):
        await keep_pace()
    device = graph_task.root.device
    if device is not None and device.is_asynchronous:
        note_suspended(graph_task)
        await device.backpressure()


def _has_callbacks(graph_task: GraphTask) -> bool:
    return graph_task.completion is not None and not graph_task.ends_with_others


def _numbering(graph_task: GraphTask) -> Iterable[None]:
    """Return what numbers the recorded nodes of a backward, unless they are in order or a backward around does it."""
    if not graph_task.is_out_of_order:
        return ()
    # Once, though another driver may go on.
    graph_task.is_out_of_order = False
    if graph_task.recorded_since is not None:
        return number_again(graph_task)
    outer, row = graph_task.outer, graph_task.context.get(ROW)
    if outer is not None and outer.create_graph:
        outer.is_out_of_order = True
    elif row is not None:
        row.note_out_of_order()
    return ()


def _runner(graph_task: GraphTask) -> Callable[..., Any]:
    """Return the function that calls others in the context of the backward."""
    streams = graph_task.streams
    run = graph_task.context.run if streams is None else streams.runner(graph_task.context)
    return runner_on_device(run, home_of(graph_task.root)) if several_devices[0] else run


def drive_blocking(graph_task: GraphTask) -> list[Any]:
    """Drive a GraphTask to its end without suspending; return the captures."""
    if (graph_task.reentrant_depth + 1) % MAX_NESTED_ON_STACK == 0:
        return run_on_new_stack(functools.partial(_drive_on_a_new_stack, graph_task))
    return _drive_here(graph_task)


def _drive_here(graph_task: GraphTask) -> list[Any]:
    in_context = _runner(graph_task)
    clock, observation = CLOCK.get(), graph_task.observation
    deadline = inf if observation is None else observation.due
    try:
        while (step := in_context(graph_task.executor.run, deadline, clock)) is not _DRAINED:
            if observation is not None:
                observation.look_if_due(graph_task)
                deadline = observation.due
            if isinstance(step, NodeTurn) and not _run_turn(graph_task, step):
                return run_on_own_loop(drive(graph_task, step))
        captured: list[Any] = in_context(graph_task.finish)
        for _ in _numbering(graph_task):
            pass
        if not graph_task.ends_with_others and not _run_callbacks(graph_task):
            return run_on_own_loop(drive(graph_task, None))
        return captured
    except BaseException as error:
        if not graph_task.has_error:
            _fail(graph_task, error)
            graph_task.roll_back()
        raise


#: The code of the functions that drive a backward, in whose frames `describe_running` finds it as `graph_task`.
DRIVING = frozenset({run_at_once.__code__, drive.__code__, _drive_here.__code__})


def _run_turn(graph_task: GraphTask, turn: NodeTurn) -> bool:
    """Run the node of a turn; return False, without running it, where it needs an event loop."""
    node_task = NodeTask(graph_task, turn.node, turn.grads)
    is_away = is_elsewhere(turn.node.device)
    if (is_away or node_task.may_suspend() or node_task.prefers_worker()) and not loop_is_running():
        return False
    node = node_task.node
    if is_away:
        outputs = _run_remotely(node_task)
    else:
        outputs = graph_task.context.copy().run(run_without_suspending, node_task.begin(), suspension_error, node)
    graph_task.end_turn(node, outputs)
    return True


def _run_remotely(node_task: NodeTask) -> Any:
    """Run a node on the worker of its device, blocking this thread until it has ended."""
    here = device_here()
    job = job_for_worker(node_task, None)
    error: BaseException | None = None
    try:
        # This thread may be a device's worker, and nodes that the job waits for may need it.
        with nullcontext() if here is None else here.stand_in():
            _run_and_block(job)
        error, job.error = job.error, None
        if error is not None:
            raise error
        return job.result
    finally:
        forget_job(job, node_task)
        # The traceback of an error refers to this frame: leave no cycle.
        del job, node_task, error


def _run_and_block(job: CoroutineJob) -> None:
    """Submit a job, and block until it has ended; raise an interruption, which may come at any line, then."""
    try:
        assert job.device is not None
        submit(job, job.device)
        job.block_until_ended()
    except BaseException:
        job.cancel()
        _block_until_ended(job)
        raise


def _block_until_ended(job: CoroutineJob) -> None:
    """Block until a job has ended, however often the wait is interrupted; raise the interruption then."""
    try:
        job.block_until_ended()
    except BaseException:
        job.cancel()
        _block_until_ended(job)
        raise


def _run_callbacks(graph_task: GraphTask) -> bool:
    """Run the final callbacks; return False as soon as one returns an awaitable that needs an event loop."""
    completion = graph_task.completion
    while completion is not None and (callback := completion.next_callback()) is not None:
        context = graph_task.context.copy()
        if loop_is_running():
            context.run(run_without_suspending, call_and_await(callback), suspension_error, "a final callback")
        elif inspect.isawaitable(returned := context.run(_call_outside_of_nodes, callback)):
            completion.await_later(returned)
            return False
    return True


def _call_outside_of_nodes(callback: Callable[[], Any]) -> Any:
    CURRENT_NODE.set(None)
    return callback()


def _drive_on_a_new_stack(graph_task: GraphTask) -> list[Any]:
    graph_task.thread_id = threading.get_ident()
    graph_task.context.run(LOOP_BELOW.set, LOOP_BELOW.get())
    return _drive_here(graph_task)


def suspension_error(node: Node | str) -> BlockingError:
    """Return the error for a blocking backward that would have to suspend.

    Args:
        node: the node that suspends, or what errors call the callback that does.
    """
    name = node if isinstance(node, str) else identify(node)
    return BlockingError(
        f"{name} suspended in a blocking backward, and an event loop is running in this thread, which the backward "
        "would block. Await it instead: await ag.backward(...), await ag.grad(...) in place of asyncgrad.sync"
    )


def _fail(graph_task: GraphTask, error: BaseException) -> None:
    """Mark a backward as failed, and add notes to its error that name the node it comes from, if it comes from one."""
    node = graph_task.executor.node
    graph_task.fail()
    if node is None:
        return
    add_note(error, f"in {node.name} ({place_of(node)})")
    device = node.device
    if (
        isinstance(error, (TypeError, NotImplementedError))
        and isinstance(device, Device)
        and not device.has_host_arrays
    ):
        text = str(error)
        if any(words in text for words in _REFUSALS):
            add_note(error, unavailable("a function that its gradient calls", device))
    if graph_task.anomaly is not None:
        for note in forward_notes(node):
            add_note(error, note)
