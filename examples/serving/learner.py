"""One model that learns one sequence at a time, in the order in which they came, while it is asked for predictions."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, TypeVar, final

import numpy as np

from examples.serving.journal import Directory, DirectoryError, JournalError
from examples.serving.network import Network, Sequence, Settings, run

T = TypeVar("T")

log = logging.getLogger(__name__)


class Learned(NamedTuple):
    """What came of a sequence: its loss before the step, and how many sequences the model has learned with it."""

    loss: float
    learned: int


class Predicted(NamedTuple):
    """Outputs of shape (steps, outputs), and how many sequences the model that made them had learned."""

    outputs: np.ndarray
    learned: int


class BusyError(Exception):
    """As many learners wait already as may."""


@final
class Learner:
    """Holds the model in a directory: what `learn` has returned is there after any crash.

    Args:
        directory: held by this learner until `close`.
        settings: of a new model; those of one that is in the directory must be the same.
        most_waiting: how many sequences may be learned or wait for their turn.
        snapshot_every: lines of the journal after which a snapshot takes their place.

    Raises:
        DirectoryError: the directory holds something else than a model of these settings, or has no room for one.
    """

    def __init__(self, directory: Directory, settings: Settings, *, most_waiting: int, snapshot_every: int) -> None:
        state = directory.snapshot()
        self.directory = directory
        self.network = Network(settings) if state is None else _restored(directory, state, settings)
        if state is None:
            directory.begin(self.network.state())
        self.most_waiting, self.snapshot_every = most_waiting, snapshot_every
        self.waiting = self.replayed = 0
        #: What the sequence whose turn it is goes through: "forward", "backward" or "journal"; None while idle.
        self.stage: str | None = None
        self.counts: Counter[str] = Counter()
        self._turn = asyncio.Lock()
        self._snapshot: asyncio.Task[None] | None = None

    @property
    def learned(self) -> int:
        """How many sequences the model has learned since it was made."""
        return self.network.published.learned

    async def replay(self) -> None:
        """Learn again, in the same order, what was learned after the last snapshot.

        Raises:
            DirectoryError: the journal is damaged.
        """
        for sequence in self.directory.replay(self.learned):
            await self._differentiate(sequence)
            self.network.step()
            self.replayed += 1
        self.stage = None

    async def predict(self, inputs: np.ndarray) -> Predicted:
        """Return what the model answers, from the weights of one moment even where a step is made meanwhile."""
        learned, weights = self.network.published
        outputs = np.concatenate(await run(weights, inputs))
        self.counts["predicted"] += 1
        return Predicted(outputs, learned)

    async def learn(self, sequence: Sequence, seconds: float) -> Learned:
        """Learn from a sequence: wait for its turn, differentiate, write it to the journal, step.

        Until it is being written, a timeout or a cancellation leaves the model and the journal as they were. From then
        on it is learned whatever happens: a cancellation is raised after the step.

        Raises:
            TimeoutError: the gradient was not there after so many seconds.
            BusyError: too many wait already.
            JournalError: it could not be written; the model is as it was.
        """
        if self.waiting >= self.most_waiting:
            self.counts["turned_away"] += 1
            raise BusyError(f"{self.waiting} sequences wait to be learned already, and no more may")
        self.waiting += 1
        committing, began = False, time.perf_counter()
        try:
            async with asyncio.timeout(seconds) as limit, self._turn:
                try:
                    loss = await self._differentiate(sequence)
                    if time.perf_counter() - began >= seconds:
                        raise TimeoutError  # a backward so short that it has not let the loop see the time
                    limit.reschedule(None)
                    committing = True
                    learned = await _to_its_end(self._commit(sequence))
                finally:
                    # There are some if it ended between the backward and the step.
                    self.network.forget()
                    self.stage = None
        except TimeoutError:
            self.counts["timed_out"] += 1
            raise
        except asyncio.CancelledError:
            self.counts["abandoned"] += not committing
            raise
        finally:
            self.waiting -= 1
        return Learned(loss, learned)

    async def in_turn(self, work: Callable[[], object]) -> None:
        """Call a function while nothing is being learned."""
        async with self._turn:
            work()

    async def _differentiate(self, sequence: Sequence) -> float:
        """Give each weight its gradient on the sequence, and return the loss; if it ends early, there is none."""
        try:
            self.stage = "forward"
            loss = await self.network.loss(sequence)
            self.stage = "backward"
            await loss.backward()
        except BaseException:
            self.counts[f"ended_in_{self.stage}"] += 1
            raise
        return float(loss.item())

    async def _commit(self, sequence: Sequence) -> int:
        """Write the sequence to the journal, then step."""
        self.stage = "journal"
        try:
            await asyncio.to_thread(self.directory.append, self.learned + 1, sequence)
        except JournalError:
            self.counts["unwritten"] += 1
            raise
        self.network.step()
        self.counts["learned"] += 1
        idle = self._snapshot is None or self._snapshot.done()
        if idle and self.directory.records >= self.snapshot_every:
            self._snapshot = asyncio.create_task(self._save_in_turn())
        return self.learned

    async def _save_in_turn(self) -> None:
        async with self._turn:
            await self._save()

    async def _save(self) -> None:
        """Save a snapshot; a failure is logged, and the next sequence learned tries again."""
        try:
            await asyncio.to_thread(self.directory.save_snapshot, self.network.state())
            self.counts["snapshots"] += 1
        except OSError as error:
            self.counts["failed_snapshots"] += 1
            log.error("no snapshot could be saved, and the journal goes on: %s", error)

    async def close(self) -> None:
        """Wait for what is being written, save a snapshot of what the journal has, and give the directory back."""
        await self._turn.acquire()  # and never given back: nothing is learned after this
        if self._snapshot is not None and not self._snapshot.done():
            self._snapshot.cancel()  # it waits for its turn, and this one is later
        if self.directory.records and self.directory.broken is None:
            await self._save()
        self.directory.close()


def _restored(directory: Directory, state: dict[str, Any], settings: Settings) -> Network:
    try:
        network = Network.from_state(state)
    except (KeyError, ValueError) as error:
        raise DirectoryError(f"the snapshot in {directory.path} is of no such model ({error!r})") from error
    if network.settings != settings:
        raise DirectoryError(
            f"{directory.path} holds a model of {network.settings}, and {settings} is asked for: "
            "ask for the same, or give another --directory"
        )
    return network


async def _to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Await work that no cancellation stops; one that arrives meanwhile is raised when it has ended."""
    task = asyncio.create_task(work)
    cancellation: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancellation = error
    if cancellation is not None:
        task.exception()  # looked at, so that it is not reported as lost
        raise cancellation
    return task.result()
