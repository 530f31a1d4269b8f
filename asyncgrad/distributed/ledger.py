"""GradientLedger: the gradients of a stage's parameters, which backward passes at home commit or roll back.

It never awaits.

A backward has a transaction, whose number home gives. Its contributions, one from each run of the stage's backward,
come in any order, and wait. `prepare` sums them in the order of the graph, `commit` adds the sums to `.grad`, and
`roll_back` takes them away again, also after the commit, until `finish` makes it final. Another transaction may be
committed in between: the sums of those that are not final are kept apart, so that one is taken back alone.

Each of these may come twice, and late. A transaction that has ended is remembered as such until home says, by
`raise_floor`, that it has forgotten all below a number: from then on the number alone tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import numpy as np

from ..core.tensor import Tensor, tensor
from ..errors import GraphError, UnknownTransactionError
from .payload import size_of

__all__ = ["NAME_BYTES", "Contribution", "GradientLedger"]

#: What the name of an effect, a transaction or a contribution counts for, with the entry that has it.
NAME_BYTES = 512


class Contribution(NamedTuple):
    """Which contribution: that of one call of the stage, in one GraphTask, at its place in the order of summation."""

    #: The backward whose sum it belongs to: nested ones are added first, each by itself, as their leaves are.
    task: tuple[int, int]
    #: The order of the node of the call: the newest is summed first.
    order: int
    #: The key of the call.
    key: str

    @classmethod
    def from_json(cls, fields: Any) -> Contribution:
        """Return what a message says, which `as_json` has made."""
        task, order, key = fields
        return cls((task[0], task[1]), order, key)

    def as_json(self) -> list[Any]:
        """Return it for a message."""
        return [list(self.task), self.order, self.key]


@final
@dataclass(slots=True)
class _Open:
    """A transaction that has not been committed."""

    contributions: dict[Contribution, list[Any]] = field(default_factory=dict)
    #: The backward passes in it that have failed.
    dead_tasks: set[int] = field(default_factory=set)
    #: Once it is prepared.
    sums: list[list[Any]] | None = None


@final
@dataclass(slots=True)
class _Committed:
    #: None for one that is final, and comes after one that is not.
    transaction: int | None
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
        >>> ledger.add(1, mine, [np.array([2.0])])
        >>> ledger.prepare(1, [mine]), w.grad
        ([], None)
        >>> ledger.commit(1)
        True
        >>> w.grad.tolist()
        [2.0]
    """

    __slots__ = ("_base", "_committed", "_ended", "_floor", "_numbers", "_open", "_written", "params")

    def __init__(self, params: Sequence[Tensor]) -> None:
        self.params: list[Tensor] = list(params)
        self._open: dict[int, _Open] = {}
        #: Transactions that may still be rolled back, in the order of their commits.
        self._committed: list[_Committed] = []
        #: Their numbers: a client may ask for thousands (test_a_long_list_of_backward_passes_is_looked_up_at_once).
        self._numbers: set[int] = set()
        #: The gradients without those.
        self._base: list[Any] = []
        #: The gradients as this wrote them, to notice that other code has set them.
        self._written: list[Any] = []
        #: Below it, all transactions have ended.
        self._floor = 0
        #: Those from there on that have ended: whether their gradients were added.
        self._ended: dict[int, bool] = {}

    def __len__(self) -> int:
        """Return how many transactions hold gradients here."""
        return len(self._open) + len(self._committed)

    def held_bytes(self) -> int:
        """Return the bytes of gradients that are not final."""
        # Lists, since a worker thread may change the ledger meanwhile.
        opened = list(self._open.values())
        pending = [grads for one in opened for grads in list(one.contributions.values())]
        summed = [sums for one in opened for sums in one.sums or ()]
        committed = [sums for one in list(self._committed) for sums in one.sums]
        arrays = [grad for grads in [*pending, *summed, *committed] for grad in grads if grad is not None]
        return size_of(arrays)

    def names(self) -> int:
        """Return how many transactions, contributions and failed backward passes are remembered."""
        each = sum(1 + len(one.contributions) + len(one.dead_tasks) for one in list(self._open.values()))
        return each + len(self._ended) + len(self._committed)

    def prepared(self, transaction: int) -> list[Any]:
        """Return the sums of a transaction that has been prepared, and not committed."""
        found = self._open.get(transaction)
        return [] if found is None else [grad for sums in found.sums or () for grad in sums]

    def add(self, transaction: int, contribution: Contribution, grads: list[Any]) -> None:
        """Keep the gradients of one call; one that is here already stays.

        Raises:
            GraphError: the transaction has ended.
        """
        if self.is_dead(transaction, contribution.task[1]):
            raise GraphError(f"backward {transaction} has ended, and a gradient of it came later")
        if transaction not in self._numbers:
            self._open.setdefault(transaction, _Open()).contributions.setdefault(contribution, grads)

    def is_committed(self, transaction: int) -> bool:
        """Tell whether a transaction has been committed, and may be rolled back."""
        return transaction in self._numbers

    def is_dead(self, transaction: int, task: int) -> bool:
        """Tell whether a transaction has ended, or one backward in it has failed."""
        if transaction < self._floor or transaction in self._ended:
            return True
        return transaction in self._open and task in self._open[transaction].dead_tasks

    def prepare(self, transaction: int, expected: Iterable[Contribution]) -> list[Contribution]:
        """Sum the expected contributions in order, each once; or sum nothing, and return those that are missing.

        Raises:
            GraphError: the transaction has been rolled back.
        """
        if transaction < self._floor or self._ended.get(transaction) is False:
            raise GraphError(f"backward {transaction} has ended, and cannot be prepared")
        if transaction in self._ended or transaction in self._numbers:
            return []
        found = self._open.setdefault(transaction, _Open())
        # One that is named twice is summed once (test_a_contribution_that_is_named_twice_counts_once).
        once = dict.fromkeys(expected)
        if missing := [one for one in once if one not in found.contributions]:
            return missing
        by_task: dict[tuple[int, int], list[list[Any]]] = {}
        for one in sorted(once):
            by_task.setdefault(one.task, []).append(found.contributions[one])
        found.sums = [
            [_sum([grads[at] for grads in each]) for at in range(len(self.params))] for each in by_task.values()
        ]
        return []

    def commit(self, transaction: int) -> bool:
        """Add the sums of a prepared transaction to the gradients; return False if they have been added before.

        Raises:
            UnknownTransactionError: it has not been prepared here.
        """
        if self._ended.get(transaction) or transaction in self._numbers:
            return False
        found = self._open.get(transaction)
        if found is None or found.sums is None:
            raise UnknownTransactionError(f"backward {transaction} has not been prepared here")
        del self._open[transaction]
        self._append([_Committed(transaction, found.sums)])
        return True

    def roll_back(self, transaction: int, task: int | None = None) -> bool:
        """Take away what a transaction, or one failed backward in it, has added; tell whether that was committed.

        What comes of it later is refused.
        """
        if task is not None:
            if not self.is_dead(transaction, task) and transaction not in self._numbers:
                found = self._open.setdefault(transaction, _Open())
                found.dead_tasks.add(task)
                for one in [one for one in found.contributions if one.task[1] == task]:
                    del found.contributions[one]
            return False
        if transaction < self._floor:
            return False
        self._open.pop(transaction, None)
        self._ended.setdefault(transaction, False)
        if transaction in self._numbers:
            self._notice_others()
        if transaction not in self._numbers:
            return False
        self._numbers.discard(transaction)
        self._committed = [one for one in self._committed if one.transaction != transaction]
        self._write()
        self._forget_final()
        return True

    def finish(self, transaction: int) -> None:
        """Make a transaction final: its backward has succeeded as a whole."""
        if transaction not in self._numbers:
            return
        self._notice_others()
        for one in self._committed:
            if one.transaction == transaction:
                self._ended[transaction] = True
                self._numbers.discard(transaction)
                # If it is not the first, those before may be rolled back: its sums stay apart, under no name.
                one.transaction = None
        self._forget_final()
        while self._committed and self._committed[0].transaction is None:
            self._base = self._with(self._base, self._committed.pop(0))

    def _forget_final(self) -> None:
        """If no transaction may be rolled back any more, `.grad` is all that is needed."""
        if not self._numbers:
            self._committed, self._base, self._written = [], [], []

    def raise_floor(self, floor: int) -> None:
        """Note that home has forgotten all transactions below a number: they are final or have been rolled back."""
        if floor > self._floor:
            self._floor = floor
            for one in [one.transaction for one in self._committed if (one.transaction or floor) < floor]:
                self.finish(one)  # type: ignore[arg-type]
            self._open = {one: found for one, found in self._open.items() if one >= floor}
            self._ended = {one: was_added for one, was_added in self._ended.items() if one >= floor}

    def forget(self, transaction: int) -> None:
        """Drop what a transaction has here that is not committed; its home has the calls run again if it asks."""
        self._open.pop(transaction, None)

    def export(self) -> tuple[list[Any], dict[str, Any]]:
        """Return the gradients without transactions that may be rolled back, and these: for `adopt`."""
        self._notice_others()
        grads = self._base if self._committed else [param.grad for param in self.params]
        committed = [[one.transaction, one.sums] for one in self._committed]
        return grads, {"committed": committed, "ended": [[*one] for one in self._ended.items()], "floor": self._floor}

    def adopt(self, exported: dict[str, Any]) -> None:
        """Go on from what the ledger of another worker has exported; `.grad` has its gradients."""
        self._floor, self._ended = exported["floor"], dict(exported["ended"])
        if exported["committed"]:
            self._append([_Committed(transaction, sums) for transaction, sums in exported["committed"]])

    def settle(self) -> None:
        """Make all that is committed final: an optimizer is to use the gradients, or they are dropped."""
        self._ended.update((one.transaction, True) for one in self._committed if one.transaction is not None)
        self._committed, self._base, self._written = [], [], []
        self._numbers.clear()

    def _append(self, more: list[_Committed]) -> None:
        self._notice_others()
        if not self._committed:
            self._base = [None if param.grad is None else param.grad.numpy() for param in self.params]
        self._committed += more
        self._numbers.update(one.transaction for one in more if one.transaction is not None)
        self._write()

    def _notice_others(self) -> None:
        grads = [param.grad for param in self.params]
        if self._committed and any(now is not then for now, then in zip(grads, self._written, strict=True)):
            # Other code has set gradients since: they do not contain the sums any more.
            self.settle()

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
