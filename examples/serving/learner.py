"""Learner: a model that learns one sequence at a time, in the order of arrival, and answers predictions meanwhile."""

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
    """The result for a sequence: its loss before the step, and how many sequences the model has then learned."""

    loss: float
    learned: int


class Predicted(NamedTuple):
    """Outputs of shape (steps, outputs), and how many sequences the model had learned."""

    outputs: np.ndarray
    learned: int


class BusyError(Exception):
    """Too many sequences are waiting to be learned."""


@final
class Learner:
    """Keeps a model in a directory: a sequence for which `learn` has returned survives any crash.

    Args:
        directory: held by this learner until `close`.
        settings: of a new model; an existing model must have the same ones.
        most_waiting: how many sequences may wait for their turn, the running one included.
        snapshot_every: after this many lines, a snapshot replaces the journal.

    Raises:
        DirectoryError: the directory holds something other than a model with these settings, or has no room for one.
    """

    def __init__(self, directory: Directory, settings: Settings, *, most_waiting: int, snapshot_every: int) -> None:
        state = directory.snapshot()
        self.directory = directory
        self.network = Network(settings) if state is None else _restored(directory, state, settings)
        if state is None:
            directory.begin(self.network.state())
        self.most_waiting, self.snapshot_every = most_waiting, snapshot_every
        self.waiting = self.replayed = 0
        #: The stage of the running sequence: "forward", "backward" or "journal"; None while idle.
        self.stage: str | None = None
        self.counts: Counter[str] = Counter()
        self._turn = asyncio.Lock()
        self._snapshot: asyncio.Task[None] | None = None

    @property
    def learned(self) -> int:
        """How many sequences the model has learned since it was created."""
        return self.network.published.learned

    async def replay(self) -> None:
        """Learn the sequences after the last snapshot again, in the same order.

        Raises:
            DirectoryError: the journal is damaged.
        """
        for sequence in self.directory.replay(self.learned):
            await self._differentiate(sequence)
            self.network.step()
            self.replayed += 1
        self.stage = None

    async def predict(self, inputs: np.ndarray) -> Predicted:
        """Return the outputs of the model, from one set of weights even if a step is made meanwhile."""
        learned, weights = self.network.published
        outputs = np.concatenate(await run(weights, inputs))
        self.counts["predicted"] += 1
        return Predicted(outputs, learned)

    async def learn(self, sequence: Sequence, seconds: float) -> Learned:
        """Learn from a sequence: wait for its turn, differentiate, write it to the journal, step.

        Before the write, a timeout or a cancellation leaves the model and the journal unchanged. From the write on, the
        sequence is learned in any case, and a cancellation is raised after the step.

        Raises:
            TimeoutError: the gradient was not computed within `seconds`.
            BusyError: too many sequences are waiting.
            JournalError: the journal could not be written; the model is unchanged.
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
                        raise TimeoutError  # a short backward does not yield, so the timeout could not fire
                    limit.reschedule(None)
                    committing = True
                    learned = await _to_its_end(self._commit(sequence))
                finally:
                    # There are gradients if this ended between the backward and the step.
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
        """Compute the gradient of each weight, and return the loss; if this fails, no weight has a gradient."""
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
        """Save a snapshot; log a failure, after which the next sequence tries again."""
        try:
            await asyncio.to_thread(self.directory.save_snapshot, self.network.state())
            self.counts["snapshots"] += 1
        except OSError as error:
            self.counts["failed_snapshots"] += 1
            log.error("no snapshot could be saved, and the journal goes on: %s", error)

    async def close(self) -> None:
        """Wait for a running sequence, save a snapshot if the journal has lines, and close the directory."""
        await self._turn.acquire()  # never released: nothing is learned after this
        if self._snapshot is not None and not self._snapshot.done():
            self._snapshot.cancel()  # it is waiting for its turn, and the snapshot below replaces it
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
    """Await work to its end, even if this task is cancelled; a cancellation is raised afterwards."""
    task = asyncio.create_task(work)
    cancellation: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancellation = error
    if cancellation is not None:
        task.exception()  # retrieved, so that asyncio does not log it
        raise cancellation
    return task.result()
