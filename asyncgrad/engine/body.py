"""Body: the body of one node that is about to run, as a device is shown it."""

from __future__ import annotations

import contextvars
import inspect
from typing import TYPE_CHECKING, Any, Protocol, final

from ..graph.packed import abandon
from ..scheduling import OFFLOAD_THRESHOLD, WORKERS, Quota
from .remote import FunctionJob
from .workers import WORKER_POOL

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

    from ..graph.node import Node
    from .remote import Mailbox

__all__ = ["Body", "TaskGroupLike", "prefers_worker", "run_here"]


class TaskGroupLike(Protocol):
    """The NodeTasks that run beside one, as far as that one knows them; see NodeTaskGroup."""

    mailbox: Mailbox

    async def result_of(self, job: FunctionJob, is_alone: bool) -> Any:
        """Wait for the end of `job`, and return its result; where it `is_alone`, no further node starts meanwhile."""

    def hold_up(self) -> None:
        """Let no further node start, up to `let_go`."""

    def let_go(self) -> None:
        """Let further nodes start again."""


@final
class Body:
    """The body of a node, and the gradients that it is to take. Called, it runs where it is.

    Args:
        node: whose body it is.
        grads: what has arrived at its inputs.
        group: the NodeTasks that run beside it, on a loop that can wait for it; None where it must run here.
        depth: of the backward; deeper ones are more urgent.
    """

    __slots__ = ("_depth", "_group", "_rest", "grads", "node")

    def __init__(self, node: Node, grads: tuple[Any, ...], group: TaskGroupLike | None = None, depth: int = 0) -> None:
        self.node = node
        self.grads = grads
        self._group = group
        self._depth = depth
        #: What is left to be run, once what was saved has been awaited.
        self._rest: Callable[[], Any] | None = None

    def __call__(self) -> Any:
        """Run the body, or what is left of it, once; return its gradients."""
        # It is to hold the only reference to what arrived.
        rest, self._rest = self._rest, None
        if rest is not None:
            return rest()
        grads, self.grads = self.grads, ()
        return self.node.apply(grads)

    @property
    def may_leave(self) -> bool:
        """Whether it may run in another thread: not in a blocking backward, nor where its node may not."""
        return self._group is not None and _may_leave(self.node)

    @property
    def threshold(self) -> float:
        """From how many seconds on a body is to leave."""
        return OFFLOAD_THRESHOLD.get()

    def cost_key(self) -> tuple[Any, float]:
        """Return what runs that take about as long have in common, and an estimate of how long, in seconds."""
        kind: tuple[Any, float] = self.node.cost_key(self.grads)
        return kind

    def note_cheap(self) -> None:
        """Say that such bodies have been measured and are short, so that the next need not be looked at."""
        self.node.note_cheap()

    async def elsewhere(self, measured: Callable[[float], Any]) -> Any:
        """Run the body on a worker; tell `measured` how many seconds it took. Suspends until it has ended.

        What was saved and has to be awaited is awaited here first. Bodies that are functions of what they are given and
        nothing else run side by side. A user's need not be, nor a user's unpack hooks, and so no further node starts
        meanwhile: they run in the order that they always have. What they return that has to be awaited is awaited here.
        """
        # The worker that runs this holds no reference to them: a loop that is closed and forgotten may be collected,
        # and what waits for a worker is withdrawn then.
        group, self._group = self._group, None
        assert group is not None
        quota, node = WORKERS.get(), self.node
        is_alone = not node.is_traceable
        if node.unpacks_apart and node.waits_for_saved():
            grads, self.grads = self.grads, ()
            self._rest = await node.when_unpacked(grads)
            del grads
        else:
            is_alone = is_alone or any(packed.calls_users for packed in node.needed_packed())
        call = FunctionJob(self, (-self._depth, node.order), _context_of_worker(), group.mailbox)
        WORKER_POOL.submit(call, quota)
        try:
            outputs = await group.result_of(call, is_alone)
            if inspect.isawaitable(outputs):
                # A plain function may return a coroutine. Its work has only begun.
                return await outputs
            measured(call.seconds)
            return outputs
        finally:
            # Where this was cancelled meanwhile, nobody takes the result.
            abandon(call.result)
            # The traceback of an error leads back here: leave no cycle.
            del call


def _context_of_worker() -> Context:
    """Return a copy of this context in which no worker waits for another: all might, and then none would be left."""
    context = contextvars.copy_context()
    context.run(WORKERS.set, _NO_WORKERS)
    return context


_NO_WORKERS = Quota(0)


def _may_leave(node: Any) -> bool:
    """Tell whether a worker may run the body of a node: not if it awaits what was saved by itself, on its loop."""
    if node.stays_on_loop or not WORKERS.get().limit:
        return False
    return node.unpacks_apart or not node.waits_for_saved()


def prefers_worker(node: Any, grads: Any) -> bool:
    """Tell whether a node that may be heavy is to be run by a worker; of a plain one `grads` is the one gradient."""
    device = node.device
    if device is None or not _may_leave(node):
        return False
    return device.prefers_worker(Body(node, _as_tuple(node, grads)))  # type: ignore[no-any-return]


def run_here(node: Any, grad: Any) -> Any:
    """Run a plain node that may be heavy where it is; its device may measure how long it takes."""
    grads = _as_tuple(node, grad)
    return node.apply(grads) if node.device is None else node.device.run_body(Body(node, grads))


def _as_tuple(node: Any, grads: Any) -> tuple[Any, ...]:
    if isinstance(grads, (list, tuple)):
        return tuple(grads)
    inputs: int = node.num_inputs
    return (grads,) * inputs
