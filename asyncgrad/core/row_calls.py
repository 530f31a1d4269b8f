"""The calls of a rule that answers for several rows, one at a time unless its node is concurrent.

A call has its turn by a lock like that of a node, since it may run a backward that waits for another call: for a node
whose body waits for it, say. Such waits cannot end, and then both calls run, as two bodies of a node do
(`engine/node_lock.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, NamedTuple, final

from .engine.graph_task import next_id
from .engine.loops import running_loop
from .engine.node_lock import acquire, release, try_acquire
from .graph.node import Node, NodeMeta
from .requests.batch import Batch, BatchOwner, Reason
from .settings.context import CALLERS

if TYPE_CHECKING:
    from .engine.eager_task import EagerTask
    from .engine.task_group import DepthScheduler

__all__ = ["RowRequests"]

#: Returns the answers for the gradients of several rows.
Answer = Callable[[list[Any]], Awaitable[Sequence[Any]]]


@final
class _Turn(Node):
    """What a call holds while it runs, as locks see a node."""

    __slots__ = ("_name",)

    def __init__(self, node: Node) -> None:
        self._name = f"the backward_batch of {node.name}"
        self.next_nodes, self.input_nrs, self.order = (), (), node.order
        self.shape = None
        self.dtype: Any = None
        self.device: Any = None
        self.meta = NodeMeta()

    @property
    def name(self) -> str:
        """What errors call it."""
        return self._name


@final
class _Call:
    """One call, as locks see a backward that runs the body of a node.

    Args:
        scheduler: of the event loop that runs it.
    """

    __slots__ = ("context", "id", "is_running", "scheduler", "thread_id")

    #: There is none that runs around it, and no other thread that runs it.
    outer = remote_jobs = None
    keep_graph = False

    def __init__(self, scheduler: DepthScheduler) -> None:
        #: That of the request, which has its callers.
        self.context: Context = copy_context()
        self.id = next_id()
        self.is_running = True
        self.scheduler = scheduler
        self.thread_id = threading.get_ident()


@final
class _Caller(NamedTuple):
    """A call and its turn, as the body that a backward which it runs is inside of."""

    backward: Any
    node: Node
    context: Context


@final
class RowRequests(BatchOwner):
    """The calls of the rule of one node for several rows; one at a time, unless the node is concurrent.

    Args:
        node: the node.
        answer: makes a call.
        scheduler: counts the rows that run.
    """

    __slots__ = (
        "__weakref__",
        "_batch",
        "function",
        "key",
        "max_size",
        "max_wait",
        "name",
        "scheduler",
    )

    def __init__(self, node: Node, answer: Answer, scheduler: DepthScheduler) -> None:
        self._batch: Batch | None = None
        self.function = answer if node.concurrent else _in_turn(answer, _Turn(node), scheduler)
        self.key, self.max_size, self.max_wait = None, None, None
        self.name: str = node.name
        self.scheduler = scheduler

    def ask(self, grads: Sequence[Any], keep: Callable[[Any], object] | None) -> Coroutine[object, None, Any]:
        """Return the answer for one row, once the call that it goes with has ended; `keep` is as for `Batch.ask`."""
        batch = self._batch
        if batch is None or batch.is_closed:
            batch = self._batch = Batch(self, running_loop())
        return batch.ask(grads, keep=keep)

    def note_closed(self, batch: Batch) -> None:
        """Forget a batch that takes no further row."""
        if self._batch is batch:
            self._batch = None

    def note_sent(self, batch: Batch, reason: Reason) -> None:
        """Do nothing: calls are not counted."""

    def note_running(self, task: EagerTask) -> None:
        """Do nothing: nobody asks which of them run."""

    def note_ended(self, task: EagerTask) -> None:
        """Do nothing."""

    def note_dropped(self) -> None:
        """Do nothing."""


def _in_turn(answer: Answer, turn: _Turn, scheduler: DepthScheduler) -> Answer:
    """Return a function that makes one call at a time, in the context of its request."""

    async def answer_in_turn(rows: list[Any]) -> Sequence[Any]:
        call: Any = _Call(scheduler)
        CALLERS.set((_Caller(call, turn, call.context),))
        assert turn.meta is not None
        try:
            if not try_acquire(turn.meta, call):
                await acquire(turn.meta, turn, call)
            return await answer(rows)
        finally:
            release(turn.meta, call)
            call.is_running = False

    return answer_in_turn
