"""Answers of rules and merges that are marked as `is_memoized`, which are not asked where the node has kept the answer.

Under `retain_graph="until_success"` such answers stay at their nodes until the backward has succeeded, so that the next
try asks only what has not been answered. A node keeps answers of its body, and of the merge at each input, with the
bits of the gradients that they are for: the last eight, or as many as eight batches of rows have. So backward passes
that are tried again in turns do not lose each other's, and many tries with other gradients fill no memory.
"""

from __future__ import annotations

import inspect
import threading
from typing import TYPE_CHECKING, Any, Final, final

from ..arrays.bits import bits_of
from ..arrays.ownership import private_copy
from ..arrays.tensor_base import TensorBase
from ..arrays.values import own_copy
from ..graph.packed import Packed
from ..graph.saved import version_of
from ..settings.process import hold_in_forks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Hashable

    from ..graph.node import KeptAnswers, Node
    from .exec_info import ExecInfos

__all__ = ["MemoizedRun", "Question"]

#: Guards the answers of a node, which rows on several workers may add and remove at a time. Reentrant: what the garbage
#: collector runs, at any line, may run a backward.
_MUTEX = hold_in_forks(threading.RLock())

#: For so many backward passes at once, or batches of rows, a node keeps the answers.
_MOST_BACKWARDS = 8

#: Stands for the body of a node, where the number of an input stands for the merge there.
_BODY: Final = -1


@final
class Question:
    """What the body of a node, or the merge at one of its inputs, is asked.

    Args:
        node: the node.
        asked: the number of the input, or `_BODY`.
        bits: all that the answer depends on.
        most: how many questions the backward may ask there: as many as there are rows in its batch.
    """

    __slots__ = ("_asked", "_bits", "_most", "_node")

    def __init__(self, node: Node, asked: int, bits: Hashable, most: int) -> None:
        self._node, self._asked, self._bits, self._most = node, asked, bits, most

    def recall(self) -> tuple[Any, ...] | None:
        """Return the answer that the node has kept; None where there is none."""
        with _MUTEX:
            answer = self._kept().by_question.pop(self._bits, None)
            if answer is not None:
                self._add(answer)
            return answer

    def keep(self, answer: tuple[Any, ...]) -> None:
        """Keep the answer, and of those before it the ones that were asked for last."""
        with _MUTEX:
            self._kept().by_question.pop(self._bits, None)
            self._add(answer)

    def forget(self) -> None:
        """Keep no answer, since the node has refused it."""
        with _MUTEX:
            self._kept().by_question.pop(self._bits, None)

    def _add(self, answer: tuple[Any, ...]) -> None:
        kept = self._kept()
        kept.most = max(kept.most, self._most)
        while len(kept.by_question) >= kept.most * _MOST_BACKWARDS:
            del kept.by_question[next(iter(kept.by_question))]
        kept.by_question[self._bits] = answer

    def _kept(self) -> KeptAnswers:
        return self._node.make_meta().answers_of(self._asked)


@final
class MemoizedRun:
    """One run of the body of a memoized node.

    Args:
        node: the node, whose lock the caller holds.
        grads: the gradients that have arrived at its inputs.
        limits: what the backward runs and captures: a body need not compute a gradient that nobody wants.
        most: how many questions the backward may ask the body: see `Question`.
    """

    __slots__ = ("_grads", "_node", "question")

    def __init__(self, node: Node, grads: tuple[Any, ...], limits: ExecInfos | None, most: int) -> None:
        self._node = node
        self._grads = grads
        wanted = [target is not None and (limits is None or limits.executes(target)) for target in node.next_nodes]
        # Now, since the body may write into what it gets.
        self.question = Question(node, _BODY, (*wanted, *map(bits_of, grads)), most)

    def recall(self) -> tuple[Any, ...] | None:
        """Return the answer that the node has kept, the caller's own; None where it has to be asked."""
        kept = self.question.recall()
        if kept is None or not _has_saved_what_it_had(self._node):
            return None
        return tuple(map(_copy, kept))

    def ask(self) -> Any:
        """Run the body, in any thread; keep and return its gradients, or return an awaitable that does."""
        grads, self._grads = self._grads, ()
        node: Any = self._node
        outputs = node.apply(grads, self._keep) if node.takes_rows else node.apply(grads)
        del grads
        return self._keep_later(outputs) if inspect.isawaitable(outputs) else self._keep(outputs)

    async def _keep_later(self, outputs: Awaitable[Any]) -> Any:
        return self._keep(await outputs)

    def _keep(self, outputs: Any) -> Any:
        """Keep what the body returned, at once: whoever waits for it may have been cancelled."""
        if not isinstance(outputs, (tuple, list)):
            return outputs
        answer = tuple(map(_copy, outputs))
        self.question.keep(answer)
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
