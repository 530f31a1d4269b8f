"""GradientLedger: the gradients of a stage's parameters, which backward passes at home commit or roll back.

It never awaits.

A backward has a transaction. Its contributions, one from each run of the stage's backward, come in any order, and wait.
`prepare` sums them in the order of the graph, `commit` adds the sums to `.grad`, and `roll_back` takes them away again,
also after the commit, until `finish` makes it final. Each may be asked for twice. Another transaction may be
committed in between: the sums of those that are not final are kept apart, so that one is taken back alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from ..errors import GraphError, UnknownTransactionError
from ..tensor import Tensor, tensor
from .payload import size_of

__all__ = ["Contribution", "GradientLedger"]

#: How many transactions that were rolled back are remembered, so that a contribution that comes late is refused.
_REMEMBERED = 4096

#: What the name of a transaction or a contribution counts for, with the entry that has it.
_NAME_BYTES = 512


class Contribution(NamedTuple):
    """Which contribution: that of one call of the stage, in one GraphTask, at its place in the order of summation."""

    #: The backward whose sum it belongs to: nested ones are added first, each by itself, as their leaves are.
    task: tuple[int, int]
    #: The order of the node of the call: the newest is summed first.
    order: int
    #: The key of the call.
    key: str


@final
@dataclass(slots=True)
class _Committed:
    transaction: str
    #: For each backward in it, for each parameter: the sum, None where there is none.
    sums: list[list[Any]]


@final
class GradientLedger:
    """The gradients of some parameters, with those of transactions that are not final.

    Args:
        params: the parameters, in the order of every list of gradients.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> from asyncgrad.distributed.ledger import Contribution, GradientLedger
        >>> w = ag.tensor([1.0], requires_grad=True)
        >>> ledger, mine = GradientLedger([w]), Contribution((1, 7), -3, "call-1")
        >>> ledger.add("t", mine, [np.array([2.0])])
        >>> ledger.prepare("t", [mine]), w.grad
        ([], None)
        >>> ledger.commit("t")
        >>> w.grad.tolist()
        [2.0]
    """

    __slots__ = ("_base", "_committed", "_dead", "_pending", "_prepared", "_written", "history", "params")

    def __init__(self, params: Sequence[Tensor]) -> None:
        self.params: list[Tensor] = list(params)
        self._pending: dict[str, dict[Contribution, list[Any]]] = {}
        self._prepared: dict[str, list[list[Any]]] = {}
        #: Transactions that may still be rolled back, in the order of their commits.
        self._committed: list[_Committed] = []
        #: The gradients without those.
        self._base: list[Any] = []
        #: The gradients as this wrote them, to notice that other code has set them.
        self._written: list[Any] = []
        self._dead: dict[str, None] = {}
        #: The transactions whose sums `.grad` holds, since it was dropped last.
        self.history: dict[str, None] = {}

    def __len__(self) -> int:
        """Return how many transactions hold gradients here."""
        return len(self._pending) + len(self._prepared) + len(self._committed)

    def held_bytes(self) -> int:
        """Return the bytes of gradients that are not final, and some for each name that is remembered."""
        pending = [grads for one in self._pending.values() for grads in one.values()]
        summed = [sums for one in self._prepared.values() for sums in one]
        committed = [sums for one in self._committed for sums in one.sums]
        arrays = [grad for grads in [*pending, *summed, *committed] for grad in grads if grad is not None]
        return size_of(arrays) + _NAME_BYTES * (len(self.history) + len(pending))

    def prepared(self, transaction: str) -> list[Any]:
        """Return the sums of a transaction that has been prepared, and not committed."""
        return [grad for sums in self._prepared.get(transaction, []) for grad in sums]

    def add(self, transaction: str, contribution: Contribution, grads: list[Any]) -> None:
        """Keep the gradients of one call; one that is here already stays.

        Raises:
            GraphError: the transaction has been rolled back.
        """
        if self.is_dead(transaction, contribution.task[1]):
            raise GraphError(f"backward {transaction} has been rolled back, and a gradient of it came later")
        self._pending.setdefault(transaction, {}).setdefault(contribution, grads)

    def is_dead(self, transaction: str, task: int) -> bool:
        """Tell whether a transaction, or one backward in it, has been rolled back."""
        return transaction in self._dead or f"{transaction}/{task}" in self._dead

    def prepare(self, transaction: str, expected: Iterable[Contribution]) -> list[Contribution]:
        """Sum the expected contributions in order; or sum nothing, and return those that are missing.

        Raises:
            GraphError: the transaction has been rolled back.
        """
        if transaction in self._dead:
            raise GraphError(f"backward {transaction} has been rolled back, and cannot be prepared")
        if any(one.transaction == transaction for one in self._committed):
            return []
        pending, order = self._pending.get(transaction, {}), sorted(expected)
        if missing := [one for one in order if one not in pending]:
            return missing
        tasks = dict.fromkeys(one.task for one in order)
        self._prepared[transaction] = [
            [_sum([pending[one][at] for one in order if one.task == task]) for at in range(len(self.params))]
            for task in tasks
        ]
        return []

    def commit(self, transaction: str) -> None:
        """Add the sums of a prepared transaction to the gradients; once.

        Raises:
            UnknownTransactionError: it has not been prepared here.
        """
        if any(one.transaction == transaction for one in self._committed):
            return
        sums = self._prepared.pop(transaction, None)
        if sums is None:
            raise UnknownTransactionError(f"backward {transaction} has not been prepared here")
        self._pending.pop(transaction, None)
        self._notice_others()
        if not self._committed:
            self._base = [None if param.grad is None else param.grad.numpy() for param in self.params]
        self._committed.append(_Committed(transaction, sums))
        self.history[transaction] = None
        self._write()

    def roll_back(self, transaction: str, task: int | None = None) -> None:
        """Take away what a transaction, or one failed backward in it, has added; refuse what comes of it later."""
        self._dead[transaction if task is None else f"{transaction}/{task}"] = None
        while len(self._dead) > _REMEMBERED:
            del self._dead[next(iter(self._dead))]
        if task is not None:
            pending = self._pending.get(transaction, {})
            for one in [one for one in pending if one.task[1] == task]:
                del pending[one]
            if not pending:
                self._pending.pop(transaction, None)
            return
        self._pending.pop(transaction, None)
        self._prepared.pop(transaction, None)
        self.history.pop(transaction, None)
        self._notice_others()
        kept = [one for one in self._committed if one.transaction != transaction]
        if len(kept) < len(self._committed):
            self._committed = kept
            self._write()

    def finish(self, transaction: str) -> None:
        """Make a transaction final: its backward has succeeded as a whole."""
        self._notice_others()
        for index, one in enumerate(self._committed):
            if one.transaction == transaction:
                if index == 0:
                    self._base = self._with(self._base, one)
                    del self._committed[0]
                else:
                    # Not the first: those before may be rolled back, so its sums stay apart, under no name.
                    one.transaction = ""
                break
        while self._committed and not self._committed[0].transaction:
            self._base = self._with(self._base, self._committed.pop(0))
        if not self._committed:
            self._base, self._written = [], []

    def expire(self, transaction: str) -> None:
        """End a transaction of which nobody has heard for long: it is final if it was committed, else rolled back."""
        if any(one.transaction == transaction for one in self._committed):
            self.finish(transaction)
        else:
            self.roll_back(transaction)

    def final(self) -> tuple[list[Any], list[str]]:
        """Return the gradients without transactions that may be rolled back, and the names of those that are final."""
        self._notice_others()
        unsure = {one.transaction for one in self._committed}
        grads = self._base if self._committed else [param.grad for param in self.params]
        return grads, [one for one in self.history if one not in unsure]

    def settle(self) -> None:
        """Make all that is committed final: an optimizer is to use the gradients."""
        self._committed, self._base, self._written = [], [], []
        self.history.clear()

    def _notice_others(self) -> None:
        grads = [param.grad for param in self.params]
        if self._committed and any(now is not then for now, then in zip(grads, self._written, strict=True)):
            # Other code has set gradients since: they do not contain the sums any more.
            self._committed, self._base, self._written = [], [], []

    def _with(self, base: list[Any], one: _Committed) -> list[Any]:
        for sums in one.sums:
            base = [_sum([before, more]) for before, more in zip(base, sums, strict=True)]
        return base

    def _write(self) -> None:
        grads = self._base
        for one in self._committed:
            grads = self._with(grads, one)
        for param, grad in zip(self.params, grads, strict=True):
            # A copy: the gradient of one call may be shared with another parameter, and code may write into `.grad`.
            param.grad = None if grad is None else tensor(grad)
        self._written = [param.grad for param in self.params]
        if not self._committed:
            self._base, self._written = [], []


def _sum(grads: Sequence[Any]) -> Any:
    """Return the sum of gradients from left to right, as an InputBuffer makes it; None where there is none."""
    there = [grad for grad in grads if grad is not None]
    if not there:
        return None
    total = there[0]
    for index, grad in enumerate(there[1:]):
        # The first is not to be written into: it may be needed again.
        total = np.add(total, grad) if index == 0 or not total.shape else np.add(total, grad, out=total)
    return total if isinstance(total, np.ndarray) else np.asarray(total)
