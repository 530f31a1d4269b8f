"""MemoizedRun: a run of a rule that is marked as `is_memoized`, which is not made where the node has kept the answer.

Under `retain_graph="until_success"` the answers of such rules stay at their nodes until the backward has succeeded, so
that the next try asks only what has not been answered. A node keeps its last answer, with the bits of the gradients
that it is for; of the rows of a batch it keeps as many as there are rows.
"""

from __future__ import annotations

import inspect
import threading
from typing import TYPE_CHECKING, Any, final

from ..arrays.bits import bits_of
from ..arrays.ownership import private_copy
from ..arrays.tensor_base import TensorBase
from ..arrays.values import own_copy
from ..graph.packed import Packed
from ..graph.saved import version_of

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from ..graph.node import Node
    from .exec_info import ExecInfos

__all__ = ["MemoizedRun"]

#: Guards the answers of a node, which rows on several workers may add and remove at a time. Reentrant: what the garbage
#: collector runs, at any line, may run a backward.
_MUTEX = threading.RLock()


@final
class MemoizedRun:
    """One run of the body of a memoized node.

    Args:
        node: the node, whose lock the caller holds.
        grads: the gradients that have arrived at its inputs.
        limits: what the backward runs and captures: a body need not compute a gradient that nobody wants.
        most: how many answers the node keeps.
    """

    __slots__ = ("_grads", "_most", "_node", "_question")

    def __init__(self, node: Node, grads: tuple[Any, ...], limits: ExecInfos | None, most: int) -> None:
        self._node = node
        self._grads = grads
        self._most = most
        wanted = [target is not None and (limits is None or limits.executes(target)) for target in node.next_nodes]
        # Now, since the body may write into what it gets.
        self._question = (*wanted, *map(bits_of, grads))

    def recall(self) -> tuple[Any, ...] | None:
        """Return the answer that the node has kept, the caller's own; None where it has to be asked."""
        kept = self._node.make_meta().kept_answer(self._question)
        if kept is None or not _has_saved_what_it_had(self._node):
            return None
        return tuple(map(_copy, kept))

    def forget(self) -> None:
        """Keep no answer to what was asked, which the node has refused."""
        with _MUTEX:
            self._node.make_meta().forget_answer(self._question)

    def ask(self) -> Any:
        """Run the body, in any thread; keep and return its gradients, or return an awaitable that does."""
        grads, self._grads = self._grads, ()
        outputs = self._node.apply(grads)
        del grads
        return self._keep_later(outputs) if inspect.isawaitable(outputs) else self._keep(outputs)

    async def _keep_later(self, outputs: Awaitable[Any]) -> Any:
        return self._keep(await outputs)

    def _keep(self, outputs: Any) -> Any:
        """Keep what the body returned, at once: whoever waits for it may have been cancelled."""
        if not isinstance(outputs, (tuple, list)):
            return outputs
        answer = tuple(map(_copy, outputs))
        with _MUTEX:
            self._node.make_meta().keep_answer(self._question, answer, self._most)
        # The body may write into what it has returned, and so may who gets this.
        return tuple(map(_copy, answer))


def _copy(grad: Any) -> Any:
    """Return a gradient in memory of its own, without a history."""
    if isinstance(grad, TensorBase):
        return type(grad)(own_copy(grad._data), None, 0, grad._device)
    return private_copy(grad)


def _has_saved_what_it_had(node: Node) -> bool:
    """Tell whether nothing that a node has saved was written into, or released, since it was saved.

    Otherwise the body runs, which raises the error that it always does; or does not read it.
    """
    entries = node.saved_entries()
    return entries is not None and all(
        entry.is_unchanged() if isinstance(entry, Packed) else entry.tensor is None or _is_unchanged(entry)
        for entry in entries
    )


def _is_unchanged(entry: Any) -> bool:
    return bool(version_of(entry.tensor) == entry.version)
