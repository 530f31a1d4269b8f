"""Body: the body of one node that is about to run, as a device gets it."""

from __future__ import annotations

import contextvars
import functools
import inspect
from typing import TYPE_CHECKING, Any, Protocol, final

from ..arrays.ownership import make_all_private
from ..graph.packed import abandon
from ..settings.context import CURRENT_GRAPH_TASK
from ..settings.scheduling import OFFLOAD_THRESHOLD, WORKERS, Quota
from .remote import FunctionJob
from .workers import WORKER_POOL

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

    from ..graph.node import Node
    from .remote import Mailbox

__all__ = ["Body", "TaskGroupLike", "context_of_worker", "prefers_worker", "run_here"]


class TaskGroupLike(Protocol):
    """What a NodeTask asks of the NodeTaskGroup that it belongs to."""

    mailbox: Mailbox

    async def result_of(self, job: FunctionJob, is_exclusive: bool, submit: Callable[[], object]) -> Any:
        """Submit `job` and return its result; if `is_exclusive`, no further node starts meanwhile."""

    def pause(self) -> None:
        """Start no further node until `resume()`. Pauses nest."""

    def resume(self) -> None:
        """End one `pause()`."""


@final
class Body:
    """The body of a node with its gradients; calling it runs the body in the calling thread.

    Args:
        node: the node.
        grads: the gradients that have arrived at its inputs.
        group: the group of its NodeTask, on a loop that can wait for it; None if it must run in this thread.
        depth: the reentrant depth of the backward; deeper ones are more urgent.
    """

    __slots__ = ("_depth", "_group", "_remaining", "grads", "node")

    def __init__(self, node: Node, grads: tuple[Any, ...], group: TaskGroupLike | None = None, depth: int = 0) -> None:
        self.node: Node = node
        self.grads: tuple[Any, ...] = grads
        self._group = group
        self._depth = depth
        #: What runs in the place of `apply`: the rest of the body, once its saved tensors have been awaited.
        self._remaining: Callable[[], Any] | None = None

    def __call__(self) -> Any:
        """Run the body, or the rest of it, once; return its gradients."""
        # The body must hold the only reference to the gradients, whose arrays it may then reuse.
        rest, self._remaining = self._remaining, None
        if rest is not None:
            return rest()
        outputs = self.node.apply(self._take_grads())
        if self.node.is_users and isinstance(outputs, tuple):
            # Now, and not when the result has come back to another thread: users' code runs there meanwhile.
            # test_what_a_body_on_a_worker_has_returned_is_private_when_it_ends
            found = list(outputs)
            del outputs
            make_all_private(found)
            return tuple(found)
        return outputs

    def run_by(self, run: Callable[[], Any]) -> None:
        """Have `run` called in the place of the node's `apply`."""
        self._remaining = run

    def _take_grads(self) -> tuple[Any, ...]:
        grads, self.grads = self.grads, ()
        return grads

    @property
    def may_leave(self) -> bool:
        """Whether it may run in another thread: not in a blocking backward, and not if its node forbids it."""
        return self._group is not None and _may_leave(self.node)

    @property
    def threshold(self) -> float:
        """The number of seconds from which on a body should run on a worker."""
        return OFFLOAD_THRESHOLD.get()

    def cost_key(self) -> tuple[Any, float]:
        """Return a key that bodies of about the same duration share, and an estimate of that in seconds."""
        kind: tuple[Any, float] = self.node.cost_key(self.grads)
        return kind

    def note_cheap(self) -> None:
        """Note that bodies of this kind have been measured and are short, so that the next ones are not checked."""
        self.node.note_cheap()

    async def elsewhere(self, measured: Callable[[float], Any]) -> Any:
        """Run the body on a worker, and call `measured` with its seconds. Suspends until it has ended.

        Saved tensors that have to be awaited are awaited here first, as is an awaitable that the body returns. Bodies
        that are pure functions of their gradients and saved tensors run side by side. A user's body or unpack hook need
        not be one, so no further node starts while it runs, and such bodies keep their order.
        """
        # The worker must not hold a reference to the group: when its loop is closed and dropped, it is collected, and
        # the jobs that wait for a worker are withdrawn.
        group, self._group = self._group, None
        assert group is not None
        quota, node = WORKERS.get(), self.node
        is_exclusive = not node.is_traceable
        if node.unpacks_apart and node.waits_for_saved():
            grads, self.grads = self.grads, ()
            self._remaining = await node.when_unpacked(grads)
            del grads
        else:
            is_exclusive = is_exclusive or any(packed.calls_users for packed in node.needed_packed())
        running: Any = CURRENT_GRAPH_TASK.get()
        observed = None if running is None else running.observed_steps
        function = self if observed is None else observed.in_worker(node, self)
        call = FunctionJob(function, (-self._depth, node.order), context_of_worker(), group.mailbox)
        try:
            outputs = await group.result_of(call, is_exclusive, functools.partial(WORKER_POOL.submit, call, quota))
            if inspect.isawaitable(outputs):
                # A plain function may return a coroutine, whose work has not begun.
                return await outputs
            measured(call.seconds)
            return outputs
        finally:
            # After a cancellation nobody takes the result.
            abandon(call.result)
            # The traceback of an error refers to this frame: leave no cycle.
            del call


def context_of_worker() -> Context:
    """Return a copy of this context without workers: workers that wait for workers could deadlock."""
    context = contextvars.copy_context()
    context.run(WORKERS.set, _NO_WORKERS)
    return context


_NO_WORKERS = Quota(0)


def _may_leave(node: Any) -> bool:
    """Tell whether a worker may run the body of a node: not if the body itself awaits saved tensors, on its loop."""
    if node.stays_on_loop or not WORKERS.get().limit:
        return False
    return node.unpacks_apart or not node.waits_for_saved()


def prefers_worker(node: Any, grads: Any) -> bool:
    """Tell whether a worker should run a node that may be heavy; `grads` is one gradient for a plain node."""
    device = node.device
    if device is None or not _may_leave(node):
        return False
    return device.prefers_worker(Body(node, _as_tuple(node, grads)))  # type: ignore[no-any-return]


def run_here(node: Any, grad: Any) -> Any:
    """Run a plain node that may be heavy in this thread; its device may measure how long it takes."""
    grads = _as_tuple(node, grad)
    return node.apply(grads) if node.device is None else node.device.run_body(Body(node, grads))


def _as_tuple(node: Any, grads: Any) -> tuple[Any, ...]:
    if isinstance(grads, (list, tuple)):
        return tuple(grads)
    inputs: int = node.num_inputs
    return (grads,) * inputs
