"""Transactions: one for each backward at home, which commits at all its stages or at none.

A stage that keeps gradients of parameters joins the transaction of the outermost backward that runs. When all nodes
have run, a final callback has every stage prepare, which makes sure that all contributions are there, and then commit.
If anything fails or is cancelled, before, between or after these two, a failure callback has every stage roll back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, final

from ..core.engine.current import calling_backward, outermost_of, queue_callback
from ..errors import GraphError
from .concurrency import run_together
from .ledger import Contribution

if TYPE_CHECKING:
    from ..core.engine.graph_task import GraphTask

__all__ = ["Participant", "Run", "Transaction", "join_transaction"]


@final
@dataclass(frozen=True, slots=True)
class Run:
    """One run of a stage's backward, with all that it takes to do it again elsewhere."""

    #: The call: its key, the inputs, and what else its forward request has.
    call: Any
    contribution: Contribution
    #: The gradients of the outputs; None where there is none.
    grads: list[Any]
    #: Whether each input has a gradient, and whether the parameters at the stage have.
    wants: list[bool]
    wants_params: bool
    #: The arrays that the forward took.
    inputs: list[Any]


class Participant(Protocol):
    """Abstract: a stage, as a transaction sees it."""

    def begin(self) -> int:
        """Note that a transaction has a part here; return what it is called here."""
        ...

    async def prepare(self, transaction: int, runs: dict[Contribution, Run]) -> None:
        """Make sure that all contributions of a transaction are at the host, and summed."""
        ...

    async def commit(self, transaction: int, runs: dict[Contribution, Run]) -> None:
        """Have the host add them to the gradients; it prepares first if it has not."""
        ...

    async def roll_back(self, transaction: int, task: int | None = None) -> None:
        """Have the host take them back, or those of one backward of the transaction; raises nothing."""
        ...

    def finish(self, transaction: int) -> None:
        """Note that the transaction is final."""
        ...


@final
class Transaction:
    """What the stages have added in one backward, until all commit or none.

    Args:
        task: the outermost backward that runs.
    """

    __slots__ = ("_calls", "_numbers", "_runs", "_tasks", "task_id")

    def __init__(self, task: GraphTask) -> None:
        self.task_id: int = task.id
        #: What each stage calls it.
        self._numbers: dict[Participant, int] = {}
        self._runs: dict[Participant, dict[Contribution, Run]] = {}
        #: The calls whose graphs are kept until all has succeeded; the keys are in order.
        self._calls: dict[Any, None] = {}
        #: The nested backward passes that have joined.
        self._tasks: set[int] = set()

    def add(self, stage: Participant, run: Run) -> int:
        """Note a run of a stage's backward, before it is asked for; return what the stage calls this."""
        if stage not in self._numbers:
            self._numbers[stage] = stage.begin()
        self._runs.setdefault(stage, {})[run.contribution] = run
        return self._numbers[stage]

    def free_at_end(self, call: Any) -> None:
        """Have the graph of a call freed at its worker once the backward has succeeded as a whole."""
        self._calls[call] = None

    def join(self, task: GraphTask) -> None:
        """Have a nested backward that fails take back its own part, while the outermost goes on."""
        if task.id != self.task_id and task.id not in self._tasks:
            self._tasks.add(task.id)
            queue_callback(_do_nothing, on_failure=partial(self._drop, task.id))

    async def commit(self) -> None:
        """Commit at all stages, in two phases; one stage alone needs one."""
        runs, numbers = self._runs, self._numbers
        if len(runs) > 1:
            await run_together([stage.prepare(numbers[stage], runs[stage]) for stage in runs], "prepare a stage")
        await run_together([stage.commit(numbers[stage], runs[stage]) for stage in runs], "commit a stage")

    async def roll_back(self) -> None:
        """Roll back at all stages."""
        await run_together([stage.roll_back(number) for stage, number in self._numbers.items()], "roll back a stage")

    async def _drop(self, task: int) -> None:
        for runs in self._runs.values():
            for contribution in [one for one in runs if one.task[1] == task]:
                del runs[contribution]
        await run_together(
            [stage.roll_back(number, task) for stage, number in self._numbers.items()], "roll back a stage"
        )

    def finish(self, ended: Any) -> None:
        """Tell the stages that the backward has succeeded as a whole; called with its future, when that is done."""
        if ended.exception() is None:
            for stage, number in self._numbers.items():
                stage.finish(number)
            for call in self._calls:
                call.free()


def join_transaction() -> tuple[Transaction, tuple[int, int]]:
    """Return the transaction of the backward that runs here, and what the current one is called in contributions.

    Raises:
        GraphError: no backward runs here.
    """
    task = calling_backward()
    if task is None:
        raise GraphError("the backward of a stage runs in a backward only")
    outermost = outermost_of(task)
    completion = outermost.complete_with()
    transaction = next(filter(None, map(_transaction_of, completion.callbacks)), None)
    if transaction is None:
        transaction = Transaction(outermost)
        completion.callbacks.append(transaction.commit)
        completion.failure_callbacks.append(transaction.roll_back)
        completion.future.add_done_callback(transaction.finish)
    transaction.join(task)
    # The sum of a nested backward is added when that ends, and so before that of the outermost.
    return transaction, (int(task is outermost), task.id)


def _transaction_of(callback: Callable[[], Any]) -> Transaction | None:
    owner = getattr(callback, "__self__", None)
    return owner if isinstance(owner, Transaction) else None


def _do_nothing() -> None:
    pass
