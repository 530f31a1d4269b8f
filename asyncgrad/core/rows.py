"""Rows together: several backward passes through one graph, one for each row of a batch of gradients, run at once.

Rows that wait run together, so that a Jacobian takes about as long as one row. Rows that only compute run one after the
other: together they would take as long, and more memory. Each row is a backward of its own, in a task of its own, whose
sums are made in the order that they always have. A node lets rows through one by one, unless it says that it is
`concurrent`, or takes all rows that are ready in one call.
"""

from __future__ import annotations

import asyncio
import math
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

from .engine.completion import DelayWarningHandler
from .engine.eager_task import EagerTask
from .engine.exec_info import STEP
from .engine.loops import OneShotEvent, loop_is_running, run_on_own_loop, running_loop, wait_through_cancellation
from .engine.node_task import may_suspend
from .engine.notes import add_note, later_errors_of, text_of
from .engine.numbering import number_rows
from .engine.task_group import DepthScheduler
from .graph.node import next_order
from .row_calls import RowRequests
from .settings.arguments import whole_number
from .settings.context import BLOCKING, CURRENT_GRAPH_TASK, GRAD_MODE, ROW
from .settings.loop_turn import keep_pace

if TYPE_CHECKING:
    from .graph.node import Node

__all__ = [
    "at_once",
    "check_concurrency",
    "graph_waits",
    "rows_at_once",
    "run_numbered",
    "run_rows",
    "run_together",
]

T = TypeVar("T")

#: How many bytes rows that run together may hold, where nobody says how many run.
_MOST_BYTES = 1 << 28
#: What a row holds besides its gradients: its tasks, and what the engine knows of it.
_BYTES_OF_ROW = 1 << 14
#: How many errors of other rows are told with the one that is raised.
_MOST_NOTES = 3


def check_concurrency(concurrency: Any) -> int | None:
    """Return how many rows may run at once; None for as many as fit into memory, of those that wait.

    Raises:
        ArgumentTypeError: it is neither an int nor None.
        ArgumentError: it is less than 1.
    """
    if concurrency is None:
        return None
    return whole_number(concurrency, "concurrency", 1, "write 1 for one row after the other, or None for all")


async def run_rows(
    run: Callable[[int], Coroutine[object, None, list[Any]]],
    count: int,
    roots: Sequence[Node | None],
    *,
    concurrency: int | None,
) -> list[Any]:
    """Run a backward for each row; return their results in order.

    If rows fail, the error is that of the first of them, as if they had run one after the other; later ones are
    cancelled, and have ended then. Suspends as the backward passes do.

    Args:
        run: runs the backward of a row, which must keep the graph, and returns its gradients.
        count: how many rows there are.
        roots: the nodes that the backward passes start from.
        concurrency: how many rows run at once; None for as many as fit into memory if the graph may have to wait, and
            one if not.
    """
    limit = await rows_at_once(count, roots, concurrency)
    return [await run(index) for index in range(count)] if limit == 1 else await run_numbered(run, count, limit)


async def rows_at_once(count: int, roots: Iterable[Node | None], concurrency: int | None) -> int:
    """Return how many rows run at once: see `run_rows`. Suspends when the time budget is spent."""
    if at_once(count, 0, concurrency) == 1:
        return 1
    facts = await _facts_of(roots)
    # A tensor that retains its gradient adds up those of the rows, in the order of their ends.
    if facts.retains_grad or (concurrency is None and not facts.waits):
        return 1
    return at_once(count, facts.largest, concurrency)


async def graph_waits(roots: Iterable[Node | None]) -> bool:
    """Tell whether a backward from the roots may have to wait. Suspends when the time budget is spent."""
    return (await _facts_of(roots)).waits


def at_once(count: int, size: int, concurrency: int | None) -> int:
    """Return how many of `count` rows that wait run at once: as many as fit into memory where nobody says.

    Args:
        count: how many rows there are.
        size: how many bytes a row holds while it waits.
        concurrency: how many the caller asks for.
    """
    if count <= 1 or not _can_wait():
        return 1
    most = max(1, _MOST_BYTES // (size + _BYTES_OF_ROW)) if concurrency is None else concurrency
    return min(count, most)


async def _facts_of(roots: Iterable[Node | None]) -> _GraphFacts:
    facts = _GraphFacts()
    for _ in facts.look_at(roots):
        await keep_pace()
    return facts


def _can_wait() -> bool:
    """Tell whether there is an event loop to run rows on, or may be one."""
    return not loop_is_running() if BLOCKING.get() else asyncio._get_running_loop() is not None


async def run_numbered(
    run: Callable[[int], Coroutine[object, None, list[Any]]], count: int, limit: int, *, is_forward: bool = False
) -> list[Any]:
    """Run rows together, whose nodes, if they are recorded, have then the order of rows that run one by one.

    So sums of a later backward have the same bits however long each row has waited: those that
    `test_recorded_rows_that_wait_run_at_once_with_the_bits_of_one_by_one` compares.

    Args:
        run: runs a row.
        count: how many rows there are.
        limit: how many may run at once.
        is_forward: whether the nodes of each row keep the order among themselves in which they were recorded, as those
            of a forward do. Those of a backward that has waited are numbered by the graph.
    """
    begin = next_order()
    group = _RowGroup(run, count, limit, "row", is_numbered=not is_forward)
    rows = await _run_group(group)
    for _ in number_rows(begin, rows, by_graph=group.is_out_of_order()):
        await keep_pace()
    return rows


async def run_together(
    run: Callable[[int], Coroutine[object, None, T]], count: int, limit: int, name: str = "row"
) -> list[T]:
    """Run rows, at most `limit` at once: see `run_rows`. Errors call one by its `name`, with its number."""
    return await _run_group(_RowGroup(run, count, limit, name))


async def _run_group(group: _RowGroup[T]) -> list[T]:
    return run_on_own_loop(group.run()) if BLOCKING.get() else await group.run()


@final
class _GraphFacts:
    """What is asked of a graph before rows run through it."""

    __slots__ = ("largest", "retains_grad", "waits")

    def __init__(self) -> None:
        #: How many bytes the largest gradient has that a node takes.
        self.largest = 0
        #: Whether a node may have to wait, or takes several rows in one call.
        self.waits = False
        #: Whether a tensor retains its gradient.
        self.retains_grad = False

    def look_at(self, roots: Iterable[Node | None]) -> Iterator[None]:
        """Look at all nodes below the roots; a generator that pauses now and then."""
        stack = [root for root in roots if root is not None]
        seen = set(stack)
        steps = 0
        while stack:
            node = stack.pop()
            steps += 1
            if not steps % STEP:
                yield
            self.largest = max(self.largest, _bytes_at(node))
            if node.meta is not None:
                self.retains_grad = self.retains_grad or bool(node.meta.retains_grad_hooks)
                self.waits = self.waits or node.takes_rows or may_suspend(node)
            for target in node.next_nodes:
                if target is not None and target not in seen:
                    seen.add(target)
                    stack.append(target)


def _bytes_at(node: Node) -> int:
    """Return how many bytes the gradients have that a node takes; 0 where that is not known."""
    slots: Sequence[Any] = (node,) if node.shape is not None else node.input_metadata
    # Values that are no arrays have neither.
    return sum([math.prod(one.shape or ()) * getattr(one.dtype, "itemsize", 0) for one in slots if one is not None])


@final
class _RowGroup(Generic[T]):
    """The rows that run together, and those that have yet to start.

    Args:
        run: runs the backward of a row.
        count: how many rows there are.
        limit: how many may run at once.
        name: what errors call a row.
        is_numbered: whether backward passes of the rows leave the numbers of what they record to who runs the rows.
    """

    __slots__ = (
        "_end",
        "_error",
        "_failed",
        "_is_numbered",
        "_limit",
        "_name",
        "_results",
        "_rows",
        "_run",
        "_running",
        "_together",
        "_wake",
    )

    def __init__(
        self,
        run: Callable[[int], Coroutine[object, None, T]],
        count: int,
        limit: int,
        name: str,
        *,
        is_numbered: bool = False,
    ) -> None:
        self._is_numbered = is_numbered
        self._run = run
        self._limit = limit
        self._name = name
        #: Rows from here on do not run: their number, or the first row that has failed.
        self._end = count
        self._error: BaseException | None = None
        #: What the rows have raised that failed, or whose clean-up did as they were cancelled, by their numbers.
        self._failed: dict[int, list[str]] = {}
        self._results: dict[int, T] = {}
        #: All rows that have started, with the warnings that they keep.
        self._rows: list[_Row] = []
        #: Strong references: asyncio itself holds tasks weakly.
        self._running: dict[EagerTask, int] = {}
        self._wake: OneShotEvent | None = None

    async def run(self) -> list[T]:
        """Run all rows; return their results in order, or raise the error of the first one that has failed."""
        loop = running_loop()
        self._together = _Together(loop, self._is_numbered)
        try:
            while self._running or len(self._rows) < self._end:
                await self._start_rows(loop)
                while self._running and (len(self._running) >= self._limit or len(self._rows) >= self._end):
                    await self._wait()
        except BaseException as error:
            try:
                await self._end_all(error)
            finally:
                self._note_others(error)
                self._stop_keeping()
                for row in self._rows:
                    row.warnings.replay_beside(error)
            raise
        self._stop_keeping()
        for row in self._rows[: self._end]:
            row.warnings.replay()
        failure, self._error = self._error, None
        if failure is None:
            return [self._results[index] for index in range(self._end)]
        try:
            self._rows[self._end].warnings.replay_beside(failure)
            self._note_others(failure)
            raise failure
        finally:
            # The traceback of the error refers to this frame: leave no cycle.
            del failure

    def is_out_of_order(self) -> bool:
        """Tell whether nodes of a row that wait may have recorded in the order of their waits."""
        return self._together.is_out_of_order

    def _stop_keeping(self) -> None:
        for row in self._rows:
            row.is_running = False

    async def _start_rows(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start as many rows as may run, each as far as its first wait."""
        # Until all have been started, no request is sent that others of them could join.
        self._together.scheduler.wake(0)
        try:
            while len(self._running) < self._limit and len(self._rows) < self._end:
                index, row = len(self._rows), _Row(self._together)
                context = copy_context()
                context.run(ROW.set, row)
                name = f"{self._name} {index}"
                task = EagerTask(self._run(index), loop=loop, context=context, name=name, on_end=self._on_end)
                self._rows.append(row)
                self._running[task] = index
                task.start()
                # It may hold an error, whose traceback refers to this frame.
                del task
                await keep_pace()
        finally:
            self._together.scheduler.leave(0)

    async def _wait(self) -> None:
        """Wait until a row has ended."""
        self._wake = OneShotEvent(running_loop())
        try:
            await self._wake
        finally:
            self._wake = None

    def _on_end(self, task: EagerTask) -> None:
        index = self._running.pop(task)
        if self._wake is not None:
            self._wake.set()
        error: BaseException | None
        if task.cancelled():
            error = task.cancelled_by or asyncio.CancelledError(f"{self._name} {index} was cancelled")
            if later := later_errors_of(error):
                self._failed[index] = later
        else:
            error = task.exception()
            if error is not None:
                self._failed[index] = [f"raised {text_of(error)}"]
        if error is None:
            self._results[index] = task.result()
        elif index < self._end:
            self._fail(index, error)

    def _fail(self, index: int, error: BaseException) -> None:
        """Note the first error so far, and cancel the rows behind it; those ahead of it go on, and may fail as well."""
        self._error, self._end = error, index
        for task, running in self._running.items():
            if running > index and not task.cancelling():
                task.cancel()

    def _note_others(self, error: BaseException) -> None:
        """Add to the error that is raised what the other rows have raised, in their clean-up, say."""
        text = f"raised {text_of(error)}"
        others = {index: other for index, other in sorted(self._failed.items()) if index != self._end}
        # One request for several rows fails in each of them, in most before they could be cancelled.
        different = {index: other for index, other in others.items() if not all(one.endswith(text) for one in other)}
        for index, other in list(different.items())[:_MOST_NOTES]:
            add_note(error, f"{self._name} {index}, which ran beside it, {'; '.join(other)}")
        if len(different) > _MOST_NOTES:
            rest = len(different) - _MOST_NOTES
            add_note(error, f"{self._name}s that ran beside it and raised other errors than these: {rest}")
        if len(others) > len(different):
            alike = len(others) - len(different)
            add_note(error, f"{self._name}s that ran beside it and raised the same: {alike}")

    async def _end_all(self, error: BaseException) -> None:
        """Cancel all rows after a cancellation, and wait for their end; or close them where nothing can be awaited."""
        self._error, self._end = error, -1
        try:
            if isinstance(error, GeneratorExit):
                self._close_all()
                return
            for task in self._running:
                # A loop that ends cancels all tasks alike; a second request would interrupt a body's clean-up.
                if not task.cancelling():
                    task.cancel()
            interrupted = await wait_through_cancellation(lambda: not self._running, self._wait)
            if interrupted is not None and not isinstance(error, asyncio.CancelledError):
                raise interrupted
        finally:
            # As in `run`.
            self._error = None
            del error

    def _close_all(self) -> None:
        """Close the rows that still run, without the event loop; then raise the first error of a clean-up."""
        refused: BaseException | None = None
        while self._running:
            task, _ = self._running.popitem()
            try:
                task.close()
            except BaseException as raised:
                refused = refused or raised
            del task
        try:
            if refused is not None:
                raise refused
        finally:
            del refused


@final
class _Row:
    """One row, as its context sees it."""

    __slots__ = ("around", "is_running", "together", "warnings")

    def __init__(self, together: _Together) -> None:
        self.together = together
        self.around = CURRENT_GRAPH_TASK.get()
        self.is_running = True
        self.warnings = DelayWarningHandler()

    def is_here(self) -> bool:
        """Tell whether the running event loop is that of the rows."""
        return asyncio._get_running_loop() is self.together.loop

    @property
    def scheduler(self) -> DepthScheduler:
        """What counts the rows that run."""
        return self.together.scheduler

    def ask(
        self,
        node: Node,
        grads: Sequence[Any],
        answer: Callable[[list[Any]], Awaitable[Sequence[Any]]],
        keep: Callable[[Any], object] | None,
    ) -> Awaitable[Any]:
        """Return the answer for this row; `answer` gets the gradients of all rows that are ready at `node` together.

        If this row has been cancelled by then, `keep` gets its answer.
        """
        return self.together.requests_of(node, answer).ask(grads, keep)

    def numbers(self, outer: object) -> bool:
        """Tell whether what a backward inside of `outer` records is numbered with the other rows."""
        return self.is_running and self.together.is_numbered and outer is self.around

    def note_out_of_order(self) -> None:
        """Note that what is numbered so may have been recorded in the order of waits."""
        self.together.is_out_of_order = True

    def keep_warning(self, message: str, category: type[Warning]) -> bool:
        """Keep a warning until it can be issued where the rows are awaited; return False once they have ended."""
        if self.is_running:
            self.warnings.process(message, category)
        return self.is_running


@final
class _Together:
    """What rows that run together have in common: the calls for several of them, by node.

    Args:
        loop: their event loop.
        is_numbered: see `_RowGroup`.
    """

    __slots__ = ("_requests", "is_numbered", "is_out_of_order", "loop", "scheduler")

    def __init__(self, loop: asyncio.AbstractEventLoop, is_numbered: bool) -> None:
        self.loop = loop
        self.is_numbered = is_numbered
        #: Whether nodes of a row that wait may have recorded in the order of their waits.
        self.is_out_of_order = False
        #: Weakly, each as long as a row asks: a rule that computes a part of the graph anew has a new node each time.
        #: A backward in a hook may be recorded where that around it is not: they share no call.
        self._requests: weakref.WeakValueDictionary[tuple[Node, bool], RowRequests] = weakref.WeakValueDictionary()
        #: Counts the rows that run, or wait for a turn of the loop: all have to sleep before a request is sent that
        #: others could join. As long as rows are being started, that counts as one of them.
        self.scheduler = DepthScheduler(loop)

    def requests_of(self, node: Node, answer: Callable[[list[Any]], Awaitable[Sequence[Any]]]) -> RowRequests:
        """Return the calls of the rule of a node for several rows; `answer` makes one."""
        key = node, bool(GRAD_MODE.get())
        requests = self._requests.get(key)
        if requests is None:
            requests = self._requests[key] = RowRequests(node, answer, self.scheduler)
        return requests
