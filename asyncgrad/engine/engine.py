"""Engine: starts GraphTasks and drives them, awaiting or blocking. The only place that makes asyncio tasks.

Both drivers share the state machine of `GraphTask`; they differ only in what they do with a coroutine that
suspends. The awaiting driver runs plain nodes in slices of its time budget, so that the loop breathes, and
goes on with other nodes while a body waits.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
from collections import deque
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, Any, final

from ..context import BLOCKING, CURRENT_GRAPH_TASK, GRAD_MODE, LOOP_BUDGET
from ..errors import BlockingError
from ..graph.leaf import GraphRoot
from ..graph.node import Edge
from .exec_info import init_to_execute
from .graph_task import Gait, GraphTask
from .node_task import NodeTask
from .pacing import breathe
from .running import run
from .stepping import SteppedTask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..graph.node import Node

__all__ = ["Engine"]

_next_id = itertools.count().__next__

#: A backward inside a backward runs on the same stack, until so many are nested: the next one begins a new stack.
_NESTED_ON_ONE_STACK = 16


@final
class Engine:
    """Runs backward passes. It has no state: each backward is a GraphTask of its own."""

    __slots__ = ()

    @staticmethod
    async def execute(
        roots: Sequence[Edge],
        grads: Sequence[Any],
        *,
        keep_graph: bool,
        create_graph: bool,
        accumulate: bool,
        inputs: Sequence[Edge] = (),
    ) -> list[Any]:
        """Run a backward from `roots` to its end; return the captured gradients.

        Suspends where a node does, and when the time budget is spent. A backward that raises or is cancelled
        leaves no running body, and every `.grad` as it was.

        Args:
            roots: where it starts; their nodes are not None.
            grads: the gradient of each root.
            keep_graph: keep saved tensors for another backward.
            create_graph: record the backward itself; then `grads` are tensors.
            accumulate: run the nodes of `inputs` (leaves accumulate) rather than capture their gradients.
            inputs: limits the backward to what leads there; empty runs all.
        """
        graph_task = _new_task(roots, grads, keep_graph, create_graph, accumulate, inputs)
        try:
            captured = _drive_blocking(graph_task) if BLOCKING.get() else await _drive(graph_task)
            graph_task.succeed()
            return captured
        finally:
            graph_task.close()


def _new_task(
    roots: Sequence[Edge],
    grads: Sequence[Any],
    keep_graph: bool,
    create_graph: bool,
    accumulate: bool,
    inputs: Sequence[Edge],
) -> GraphTask:
    root: Node | None
    if len(roots) == 1:
        (root, input_nr), grad = roots[0], grads[0]
        assert root is not None
    else:
        root, input_nr, grad = GraphRoot(roots, grads), 0, None
    outer: GraphTask | None = CURRENT_GRAPH_TASK.get()
    context = contextvars.copy_context()
    graph_task = GraphTask(
        root,
        grad,
        input_nr,
        id=_next_id(),
        keep_graph=keep_graph,
        create_graph=create_graph,
        exec_info=init_to_execute(root, inputs, accumulate) if inputs else None,
        captures=0 if accumulate else len(inputs),
        outer=outer,
        context=context,
    )
    context.run(_enter, graph_task, create_graph)
    return graph_task


def _enter(graph_task: GraphTask, create_graph: bool) -> None:
    CURRENT_GRAPH_TASK.set(graph_task)
    GRAD_MODE.set(create_graph)
    # What a body awaits may suspend, unless the blocking driver steps it and says so itself.
    BLOCKING.set(False)


async def _drive(graph_task: GraphTask) -> list[Any]:
    """Drive a task to its end, suspending where its nodes do."""
    budget = LOOP_BUDGET.get()
    in_context = graph_task.context.run
    bodies: _Bodies | None = None
    deadline = perf_counter() + budget
    try:
        while (gait := in_context(graph_task.run_plain, deadline)) is Gait.BREATHE:
            await breathe()
            deadline = perf_counter() + budget
        if gait is Gait.DRAINED:
            in_context(graph_task.finish_plain)
            return graph_task.captured_grads
        bodies = _Bodies(graph_task, asyncio.get_running_loop())
        if graph_task.turn is not None:
            bodies.start()
            bodies.collect()
        while True:
            gait = in_context(graph_task.run_counted, deadline)
            if gait is Gait.CAREFUL:
                bodies.start()
            elif gait is Gait.DRAINED:
                if not bodies.running:
                    return graph_task.results()
                await bodies.wait()
                deadline = perf_counter() + budget
            bodies.collect()
            # Bodies that do not suspend spend the budget too.
            if perf_counter() > deadline:
                await breathe()
                deadline = perf_counter() + budget
    except BaseException as error:
        node = graph_task.failed_node
        graph_task.clear()
        try:
            if bodies is None:
                pass
            elif isinstance(error, GeneratorExit):
                # The driver itself is being closed, and may not await: there is no loop any more.
                bodies.close_all()
            else:
                await bodies.cancel_all(error)
        finally:
            graph_task.put_back()
            _add_note(error, node)
        raise


@final
class _Bodies:
    """The suspended bodies of one GraphTask, and the wake-up of its driver."""

    __slots__ = ("_finished", "_graph_task", "_loop", "_wake", "running")

    def __init__(self, graph_task: GraphTask, loop: asyncio.AbstractEventLoop) -> None:
        self._graph_task = graph_task
        self._loop = loop
        self._finished: deque[SteppedTask] = deque()
        self._wake: asyncio.Future[None] | None = None
        #: Strong references: asyncio itself holds tasks weakly.
        self.running: dict[SteppedTask, Node] = {}

    def start(self) -> None:
        """Step the node whose turn it is; what suspends goes on as a task of its own."""
        graph_task = self._graph_task
        turn, graph_task.turn = graph_task.turn, None
        assert turn is not None
        node = turn.node
        node_task = NodeTask(graph_task, node, turn.grads)
        del turn
        stepped = SteppedTask(
            node_task.run(),
            loop=self._loop,
            context=graph_task.context.copy(),
            name=f"{node.name} #{node.sequence_nr}",
            on_end=self._on_end,
        )
        self.running[stepped] = node
        if (graph_task.reentrant_depth + 1) % _NESTED_ON_ONE_STACK == 0:
            stepped.start_later()
        else:
            stepped.start()
        if not stepped.done():
            assert graph_task.counted is not None
            graph_task.counted.fix_sum_order()
        # As in SteppedTask.start().
        del stepped

    def _on_end(self, stepped: SteppedTask) -> None:
        self._finished.append(stepped)
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def wait(self) -> None:
        """Wait until a body has ended."""
        if not self._finished:
            self._wake = self._loop.create_future()
            try:
                await self._wake
            finally:
                self._wake = None

    def collect(self) -> None:
        """Hand the gradients of the bodies that have ended to the GraphTask; raise what the first one raised."""
        while self._finished:
            node, outputs = self._outcome(self._finished.popleft())
            self._graph_task.end_turn(node, outputs)
            # A leaf takes over an array that nobody else holds.
            del outputs
        self._graph_task.failed_node = None

    def _outcome(self, stepped: SteppedTask) -> tuple[Node, tuple[Any, ...] | None]:
        node = self.running.pop(stepped)
        self._graph_task.failed_node = node
        if stepped.cancelled():
            raise asyncio.CancelledError(f"the body of {node.name} was cancelled")
        error = stepped.exception()
        if error is None:
            return node, stepped.result()
        try:
            raise error
        finally:
            # As in SteppedTask.start().
            del stepped, error

    def close_all(self) -> None:
        """Close the bodies that still run, without a turn of the loop."""
        for stepped in self.running:
            stepped.close()
        self.running.clear()

    async def cancel_all(self, error: BaseException) -> None:
        """Cancel the bodies that still run and wait for their end; their errors become notes of `error`."""
        for stepped in self.running:
            # Where a loop that ends cancels bodies and driver alike, a body's clean-up is not cancelled in turn.
            if not (stepped.cancelling() and isinstance(error, asyncio.CancelledError)):
                stepped.cancel()
        interrupted: asyncio.CancelledError | None = None
        while not all(stepped.done() for stepped in self.running):
            try:
                self._finished.clear()
                await self.wait()
            except asyncio.CancelledError as again:
                interrupted = again
        for stepped, node in self.running.items():
            if not stepped.cancelled() and (later := stepped.exception()) is not None and later is not error:
                error.add_note(f"while it was being cancelled, {node.name} raised {type(later).__name__}: {later}")
        self.running.clear()
        if interrupted is not None and not isinstance(error, asyncio.CancelledError):
            raise interrupted


def _drive_blocking(graph_task: GraphTask) -> list[Any]:
    """Drive a task to its end without an event loop; a node that may suspend gets one, if none is running here."""
    in_context = graph_task.context.run
    handed_over = False
    try:
        if in_context(graph_task.run_plain, inf) is Gait.DRAINED:
            in_context(graph_task.finish_plain)
            return graph_task.captured_grads
        while in_context(graph_task.run_counted, inf) is Gait.CAREFUL:
            turn = graph_task.turn
            assert turn is not None
            node_task = NodeTask(graph_task, turn.node, turn.grads)
            if node_task.may_suspend() and not _loop_is_running():
                handed_over = True
                return _drive_on_a_loop(graph_task)
            graph_task.turn = turn = None
            outputs = graph_task.context.copy().run(_step_once, node_task)
            graph_task.end_turn(node_task.node, outputs)
            del outputs
        return graph_task.results()
    except BaseException as error:
        if not handed_over:
            node = graph_task.failed_node
            graph_task.clear()
            graph_task.put_back()
            _add_note(error, node)
        raise


def _drive_on_a_loop(graph_task: GraphTask) -> list[Any]:
    """Drive a task to its end on an event loop of its own."""
    errors: list[Exception] = []

    async def drive() -> list[Any]:
        try:
            return await _drive(graph_task)
        except Exception as error:
            # The loop's task would keep it, and its traceback would keep the loop's task.
            errors.append(error)
            return []

    captured = run(drive())
    if errors:
        raise errors.pop()
    return captured


def _loop_is_running() -> bool:
    return asyncio._get_running_loop() is not None


def _step_once(node_task: NodeTask) -> tuple[Any, ...] | None:
    """Run a NodeTask that must not suspend; what it awaits in asyncgrad does not either."""
    BLOCKING.set(True)
    coroutine = node_task.run()
    try:
        awaited = coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    if awaited is not None:
        # It may stand for tasks that the body has started, and nobody else will ask how it ended.
        awaited.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        awaited.cancel()
    coroutine.close()
    node = node_task.node
    raise BlockingError(
        f"{node.name} (node #{node.sequence_nr}) suspended in a blocking backward, and an event loop is running "
        "in this thread, which that would stall. Await it instead: await ag.backward(...), await ag.grad(...) "
        "in place of asyncgrad.sync"
    )


def _add_note(error: BaseException, node: Node | None) -> None:
    if node is not None:
        place = "" if node.device is None else f", device '{node.device}'"
        error.add_note(f"in {node.name} (node #{node.sequence_nr}{place})")
