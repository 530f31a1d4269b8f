"""Follower: a model that answers predictions in another process than the one that learns, and has the same bits."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, NamedTuple, Self, TypedDict, Unpack, final

from ..core.engine.eager_task import EagerTask, start_task
from ..core.settings.arguments import must_be, number
from ..errors import ArgumentError, ArgumentTypeError, LearnerClosedError, ModelDirectoryError
from ..nn.modules.module import Module
from ..observing.latency import LatencyHistogram
from ..optim.optimizer import Group, Optimizer
from .directory import CHECKPOINT, ModelDirectory
from .drift import Drift, DriftMonitors
from .journal_reader import CHECKSUM_SIZE, DirectorySource, JournalPart, JournalSource, Position
from .learner import Learned, Learner
from .lineage import Lineage
from .lines import Record, record_of
from .settings import apply_options, options_of

__all__ = ["Follower", "FollowerStatistics", "LearnerOptions", "follow"]

log: logging.Logger = logging.getLogger("asyncgrad.learn")

#: The longest pause after failures, in seconds.
LONGEST_PAUSE = 5.0

#: How often the checkpoint may be replaced while a follower loads it, until it says so.
MOST_LOADS = 5


class LearnerOptions(TypedDict, total=False):
    """The options of a Learner, but for its directory."""

    inputs: object
    example: object
    batch_size: int
    prediction_batch_size: int
    prediction_delay: float
    max_pending: int
    max_pending_predictions: int
    timeout: float | None
    max_grad_norm: float | None
    checkpoint_every: int
    evaluate: Callable[..., object] | None
    evaluate_every: int
    seed: int
    drift: Sequence[Drift]


@final
@dataclass(frozen=True, kw_only=True)
class FollowerStatistics:
    """What a follower has done since it was started.

    Attributes:
        learned: examples that its model has learned.
        steps: steps that its model has made.
        applied: examples of the journal that it has learned since it was started.
        loads: checkpoints and versions that it has loaded.
        lag_bytes: bytes of the journal that it has not applied yet, when it looked last.
        lag_seconds: seconds since it was last known to have all of the journal.
        predicted: predictions that were answered.
        prediction_batches: calls of the model that answered them.
        timed_out, cancelled, refused: predictions that took too long, whose caller was cancelled, and that were refused
            because too many waited.
        pending_predictions: inputs that wait or are being answered now.
        following_error: why it could not go on when it tried last; None if it could.
    """

    learned: int
    steps: int
    applied: int
    loads: int
    lag_bytes: int
    lag_seconds: float
    predicted: int
    prediction_batches: int
    timed_out: int
    cancelled: int
    refused: int
    pending_predictions: int
    following_error: str | None


def follow(
    source: str | os.PathLike[str],
    model: Module,
    loss: Callable[..., object],
    optimizer: Optimizer,
    *,
    key: str | None = None,
    interval: float = 0.05,
    **options: Unpack[LearnerOptions],
) -> Follower:
    """Return a Follower: it answers predictions of the model that a Learner in another process trains, bit for bit.

    Args:
        source: the learner's directory, which is only read; or the URL at which its `learn.http.journal_app` is
            mounted, as in "https://learner.example/journal".
        model: as the learner's, and of this process alone: nothing else may write into its parameters.
        loss: as the learner's.
        optimizer: as the learner's, of the parameters of this model.
        key: what the learner's `journal_app` was given; for a URL only.
        interval: the seconds between two looks at the journal.
        **options: those of the Learner: `inputs`, `prediction_batch_size`, `prediction_delay`,
            `max_pending_predictions` and `timeout` hold for predictions, and the others once it is promoted.

    Raises:
        ArgumentError, ArgumentTypeError: an argument is invalid; the message names it.
        ModuleNotFoundError: it is a URL, and httpx is not installed.

    Example:
        >>> import tempfile, numpy as np, asyncgrad as ag
        >>> from asyncgrad import learn, nn, optim
        >>> def loss(model, batch):
        ...     return nn.mse_loss(model(batch["x"]), batch["y"])
        >>> def parts():
        ...     model = nn.Linear(2, 1, dtype=np.float64)
        ...     return model, loss, optim.SGD(model, lr=0.1)
        >>> async def main():
        ...     with tempfile.TemporaryDirectory() as directory:
        ...         async with learn.Learner(*parts(), directory=directory) as learner:
        ...             async with learn.follow(directory, *parts()) as follower:  # in another process, usually
        ...                 await learner.learn({"x": [1.0, 2.0], "y": [3.0]})
        ...                 await follower.catch_up()
        ...                 own, other = await learner.predict([1.0, 2.0]), await follower.predict([1.0, 2.0])
        ...                 return bool(own == other), follower.learned
        >>> ag.run(main())
        (True, 1)
    """
    if "directory" in options:
        raise ArgumentError("follow() takes the learner's directory as its first argument, and no directory=")
    seconds = number(interval, "interval", 0)
    if not seconds > 0:
        raise ArgumentError(f"interval must be a number of seconds above 0, not {interval!r}")
    found, path = _source(source, key)
    return Follower(found, path, (model, loss, optimizer), seconds, options)


def _source(source: Any, key: str | None) -> tuple[JournalSource, Path | None]:
    """Return what is read, and its directory; None of a URL."""
    if not isinstance(source, (str, os.PathLike)):
        raise ArgumentTypeError(must_be("source", "the path of a directory, or a URL", source))
    text = os.fspath(source)
    if text.startswith(("http://", "https://")):
        found: JournalSource = import_module(".journal_client", __package__).UrlSource(text, key)
        return found, None
    if "://" in text:
        raise ArgumentError(f"source must be a directory or a URL of http or https, and is {text!r}")
    if key is not None:
        raise ArgumentError("key= is for a URL: who may read a directory, the file system says")
    return DirectorySource(Path(text)), Path(text)


class _Lines(NamedTuple):
    """The whole lines at the beginning of some bytes: what each says, where it ends, and its checksum."""

    records: list[tuple[Record, int, bytes]]
    #: What keeps the next line from being read; None if nothing does.
    error: ValueError | None


@final
class Follower:
    """Answers predictions of a model that a Learner in another process trains: `learn.follow` makes it.

    Use it by `async with`. It loads the checkpoint, and learns what the journal has as the learner did, line by line:
    so its model has the learner's bits, a moment later. Predictions are of the model after a whole number of steps. If
    the learner or the way to it fails, predictions go on, of the last model, `statistics()` says how long ago that was,
    and it tries again.

    A line is read as soon as it is in the file. Where the learner takes it back, since its disk or its step has failed,
    the follower loads the checkpoint again; until then it predicts with a step that nobody was told of.

    Attributes:
        latencies: how long answered predictions took: by "predict", a LatencyHistogram of seconds.
    """

    def __init__(
        self,
        source: JournalSource,
        path: Path | None,
        parts: tuple[Module, Callable[..., object], Optimizer],
        interval: float,
        options: LearnerOptions,
    ) -> None:
        self._source, self._path, self._parts, self._interval, self._options = source, path, parts, interval, options
        DriftMonitors(options.get("drift", ()))
        #: Its model, its predictions, and how it replays a step. It watches nothing: detectors are the promoted one's.
        of_replica = options.copy()
        of_replica["drift"] = ()
        self._replica = Learner(*parts, **of_replica)
        #: The options of the optimizer as the code gives them, before those of the learner hold.
        self._code_options: list[Group] = []
        #: What rollbacks have left to be learned again.
        self._lineage = Lineage()
        self.latencies: Mapping[str, LatencyHistogram] = {"predict": self._replica.latencies["predict"]}
        #: The learner that it has become.
        self._learner: Learner | None = None
        self._position: Position | None = None
        #: Whether the journal has changed the model since the checkpoint was loaded.
        self._has_applied = False
        self._loads = self._failures = self._lag_bytes = 0
        self._level_at = perf_counter()
        self._error: str | None = None
        self._state = "new"
        self._task: EagerTask | None = None
        self._ended = asyncio.Event()
        #: Held by whoever reads the journal.
        self._turn = asyncio.Lock()

    def __repr__(self) -> str:
        state = "promoted" if self._learner is not None else self._state
        return f"Follower({type(self._parts[0]).__name__}, {state}, {self.learned} learned)"

    @property
    def learned(self) -> int:
        """How many examples its model has learned."""
        return self._running.learned

    @property
    def learner(self) -> Learner | None:
        """The learner that it has become by `promote`; None before."""
        return self._learner

    @property
    def is_running(self) -> bool:
        """Whether it predicts: within its block, also while it cannot go on following."""
        return self._state == "running" and (self._learner is None or self._learner.is_running)

    @property
    def _running(self) -> Learner:
        return self._replica if self._learner is None else self._learner

    # --- what callers ask for --------------------------------------------------------------------

    async def predict(self, inputs: object, *, timeout: float | None = None) -> Any:
        """Return the outputs of the model for one input, as `Learner.predict` does.

        Args:
            inputs: a tree of arrays, numbers, or lists of numbers, without an axis for a batch.
            timeout: the seconds that it may take; None for the follower's own.

        Raises:
            ExampleError: `inputs` are not what the follower was told they are.
            BusyError: too many predictions are waited for.
            TimeoutError: it took too long.
            LearnerClosedError: the follower does not run.
        """
        self._check_runs("predict")
        return await self._running.predict(inputs, timeout=timeout)

    async def learn(self, example: object, *, timeout: float | None = None) -> Learned:
        """Learn from one example, once `promote` has made it a learner.

        Args:
            example: as for `Learner.learn`.
            timeout: the same.

        Raises:
            LearnerClosedError: it follows another learner, which alone may learn; or it does not run.
        """
        self._check_runs("learn")
        if self._learner is None:
            raise LearnerClosedError("this is a follower, which does not learn: send examples to the learner")
        return await self._learner.learn(example, timeout=timeout)

    async def catch_up(self) -> None:
        """Apply all that the journal has now.

        Raises:
            ModelDirectoryError: the directory is damaged, or holds another model; or the key is wrong.
            OSError: it, or the learner's machine, cannot be reached.
            LearnerClosedError: the follower does not run.
        """
        self._check_runs("catch_up")
        if self._learner is None:
            async with self._turn:
                await self._read_on()

    def statistics(self) -> FollowerStatistics:
        """Return what has happened so far, as numbers."""
        of_replica, now = self._replica.statistics(), self._running.statistics()
        is_follower = self._learner is None
        return FollowerStatistics(
            learned=now.learned,
            steps=now.steps,
            applied=of_replica.replayed,
            loads=self._loads,
            lag_bytes=self._lag_bytes if is_follower else 0,
            lag_seconds=perf_counter() - self._level_at if is_follower else 0.0,
            prediction_batches=of_replica.prediction_batches + (0 if is_follower else now.prediction_batches),
            pending_predictions=now.pending_predictions,
            following_error=self._error if is_follower else None,
            **{
                name: getattr(of_replica, name) + (0 if is_follower else getattr(now, name))
                for name in ("predicted", "timed_out", "cancelled", "refused")
            },
        )

    def _check_runs(self, what: str) -> None:
        if self._state == "new":
            raise LearnerClosedError(f"the follower has not begun: write async with follower: await follower.{what}()")
        if self._state != "running":
            raise LearnerClosedError(f"{what}() came after the follower was closed, and nothing was done")

    # --- from the first line to the last ---------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Load the checkpoint, and apply what the journal has.

        Raises:
            ModelDirectoryError: there is no checkpoint, it is damaged, or it is of another model; or the key is wrong.
            OSError: the learner's machine cannot be reached.
            LearnerClosedError: the follower was used before.
        """
        if self._state != "new":
            raise LearnerClosedError("a follower is used once: make another one")
        self._state = "starting"
        self._code_options = options_of(self._replica.optimizer)
        try:
            await self._read_on()
        except BaseException:
            self._state = "closed"
            await self._source.close()
            raise
        self._state = "running"
        self._start()
        return self

    def _start(self) -> None:
        self._ended = asyncio.Event()
        context = contextvars.copy_context()
        self._task = start_task(self._follow(), context, "ag.learn.Follower", lambda _: self._ended.set())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Answer what waits, or with an error refuse it; follow no longer. A learner that it has become ends, too."""
        self._state = "closed"
        try:
            await self._stop()
            await self._replica._end_following(is_refused=error is not None)
        finally:
            try:
                await self._source.close()
            finally:
                if self._learner is not None:
                    await self._learner.__aexit__(kind, error, traceback)

    async def _stop(self) -> None:
        """End the task that follows, and return once it has ended."""
        task, self._task = self._task, None
        if task is None:
            return
        cancellation: asyncio.CancelledError | None = None
        task.cancel()
        while not self._ended.is_set():
            try:
                await self._ended.wait()
            except asyncio.CancelledError as cancelled:
                cancellation = cancelled
        if cancellation is not None:
            raise cancellation

    async def _follow(self) -> None:
        """Look at the journal again and again."""
        while True:
            await asyncio.sleep(min(LONGEST_PAUSE, self._interval * 2 ** min(self._failures, 20)))
            try:
                async with self._turn:
                    await self._read_on()
            except Exception as error:
                # Whatever it is, predictions go on, and the next look may find it mended.
                self._failures += 1
                text = f"{type(error).__name__}: {error}"
                if text != self._error:
                    log.error("the follower goes on with the model after %d examples: %s", self.learned, text)
                self._error = text

    async def _read_on(self) -> None:
        """Apply what the journal has, and load the checkpoint where that alone leads on."""
        loads, asked_at = 0, perf_counter()
        while True:
            if self._position is None:
                if loads == MOST_LOADS:
                    raise ModelDirectoryError(
                        f"the checkpoint was replaced {loads} times while it was loaded: raise checkpoint_every"
                    )
                await self._load()
                loads += 1
                continue
            asked_at = perf_counter()
            position = self._position
            part = await self._source.read(position)
            while part is not None and part.data and b"\n" not in part.data:
                longer = part.position._replace(offset=part.position.offset + len(part.data))
                rest = await self._source.read(longer)
                if rest is None or not rest.data or rest.position != longer:
                    break  # the learner is writing it
                part = part._replace(data=part.data + rest.data, size=rest.size)
            if part is None:
                # Lines of the journal before, which were skipped, are gone: nothing of the new one was applied.
                can_begin_again = position.offset and not self._has_applied
                self._position = Position(position.journal) if can_begin_again else None
                self._has_applied = True
            elif not await self._apply(part):
                break
        self._error, self._failures = None, 0
        if self._lag_bytes == 0:
            self._level_at = asked_at

    async def _load(self) -> None:
        """Go on from the checkpoint."""
        content = await self._source.checkpoint()
        state = content.get("state", {})
        self._take(state, "checkpoint")
        self._replica._recorded.take_rest(state)
        self._lineage = self._replica._recorded.lineage
        self._position, self._has_applied = Position(content.get("journal")), False

    def _take(self, state: Any, what: str) -> None:
        try:
            self._replica._begin_following(state)
        except Exception as error:
            raise ModelDirectoryError(
                f"the {what} of {self._place} does not fit this model or optimizer: {error}"
            ) from error
        self._loads += 1

    @property
    def _place(self) -> Path | str:
        return "the learner" if self._path is None else self._path

    async def _apply(self, part: JournalPart) -> bool:
        """Do what the whole lines of a part say; return whether there is more to read at once."""
        if part.position.journal != (self._position and self._position.journal):
            self._has_applied = False
        self._position = position = part.position
        self._lag_bytes = part.size - position.offset
        lines = await asyncio.to_thread(_lines_of, part.data)
        for record, end, checksum in lines.records:
            if record.journal == position.journal:
                await self._do(record)
            if self._position is None:
                return True
            begin = self._position.offset
            self._position = Position(position.journal, position.offset + end, begin, checksum)
            self._lag_bytes = part.size - self._position.offset
        if lines.error is not None:
            place = self._position.offset
            raise ModelDirectoryError(
                f"the journal of {self._place} has a damaged line at byte {place}: {lines.error}"
            ) from lines.error
        return bool(lines.records)

    async def _do(self, record: Record) -> None:
        """Do what a line says, as the learner has done it."""
        self._has_applied = True
        if record.rollback is not None:
            await self._roll_back(record.rollback)
            return
        if record.learned != self._replica.learned:
            # Another history than the one that was applied: that of a directory restored from a copy, say.
            self._position = None
            return
        try:
            await self._replica._apply_line(record, self._place)
        except BaseException:
            # Options may have changed already.
            self._position = None
            raise
        source = record.position if record.again is None else record.again
        if record.keep is not None:
            self._lineage = self._lineage.keeping(record.keep)
        elif record.examples and source is not None:
            self._lineage = self._lineage.after(source)

    async def _roll_back(self, rollback: dict[str, Any]) -> None:
        found = await self._source.version(rollback["to"])
        if found is None or found.get("version", {}).get("id") != rollback["id"]:
            # It was removed since, which happens only after a checkpoint that contains what followed.
            self._position = None
            return
        self._take(found["state"], f"version {rollback['to']}")
        version = Lineage.of_tree(found["state"]["lineage"])
        self._lineage = self._lineage.rolled_back(version.learned, rollback["examples"])

    # --- when the learner has died ---------------------------------------------------------------

    async def promote(self, directory: str | os.PathLike[str] | None = None) -> Learner:
        """Make it the learner, after the one that it follows has ended; return that, which ends with this block.

        From then on `learn` learns, and `predict` is the learner's. Of a directory, the journal's lock is taken, so two
        never learn, and what the old one had acknowledged is learned: all of it. A process that had the directory
        before, and is not as dead as it seemed, acknowledges nothing more. If it fails, the follower goes on.

        Args:
            directory: of a URL: a new one for the checkpoint and the journal from here on. If the old learner can be
                reached, it acknowledges nothing more, also after a restart, and the follower reads all that it has
                acknowledged. Its versions, and the examples that rollbacks have left to be learned again, stay where
                they are: the log says how many. If it cannot be reached, what it had acknowledged within the last
                `statistics().lag_seconds` may be missing, and nothing keeps it, should it come back, from learning
                apart: the log says so.

        Raises:
            ModelDirectoryError: another process has the directory: end the learner first; or it is damaged.
            OSError: the learner of a URL was told, and could not write down that it has ended.
            ArgumentError: `directory` lacks for a URL, or is given for a directory.
            LearnerClosedError: the follower does not run.
        """
        self._check_runs("promote")
        if self._learner is not None:
            return self._learner
        path = await self._directory_to_learn(directory)
        async with self._turn:
            if self._learner is not None:
                return self._learner
            learner = Learner(*self._parts, **self._options, directory=path)
            learner._takes_over = True
            if self._path is None:
                await self._take_leave()
                await asyncio.to_thread(_begin_directory, path, self._replica)
                self._tell_what_is_left(path)
            # Those of the directory hold again once it is loaded. What it takes for the code's, it must find here:
            # test_a_promotion_takes_no_option_of_the_follower_for_one_of_the_code.
            apply_options(learner.optimizer, self._code_options)
            try:
                await learner.__aenter__()
            except BaseException:
                # The model may be on the way.
                self._position = None
                raise
            self._learner = learner
        await self._stop()
        try:
            await learner.checkpoint()
        except OSError as error:
            log.error("%s: no checkpoint could be written at the promotion, and the journal goes on: %s", path, error)
        await self._replica._end_following(is_refused=False)
        return learner

    async def _take_leave(self) -> None:
        """Have the learner at a URL acknowledge nothing more, and read all that it has acknowledged."""
        if await self._source.fence():
            await self._read_on()
            return
        log.warning(
            "the learner that is followed cannot be reached: what it acknowledged in its last moments may be missing, "
            "and it must not be started again: this model was level with it %.1f s ago",
            perf_counter() - self._level_at,
        )

    def _tell_what_is_left(self, path: Path) -> None:
        if left := len(self._lineage.kept) + len(self._lineage.due):
            log.warning(
                "%s has not the examples of %d lines that rollbacks have left to be learned again: they stay in the "
                "directory of the learner that was followed",
                path,
                left,
            )

    async def _directory_to_learn(self, directory: Any) -> Path:
        if self._path is not None:
            if directory is not None:
                raise ArgumentError(f"the follower of a directory is promoted in it, {self._path}: leave out directory")
            return self._path
        if directory is None:
            raise ArgumentError("the follower of a URL needs a directory to learn in: await follower.promote('model')")
        path = Path(directory)
        if await asyncio.to_thread(os.path.lexists, path / CHECKPOINT):
            raise ArgumentError(f"{path} has a model already: name a new directory")
        return path


def _begin_directory(path: Path, replica: Learner) -> None:
    """Write the checkpoint of a new directory."""
    directory = ModelDirectory(path)
    try:
        if directory.checkpoint() is not None:
            raise ModelDirectoryError(f"{path} has a model already: name a new directory")
        directory.begin(replica._recorded.tree_elsewhere())
    finally:
        directory.close()


def _lines_of(data: bytes) -> _Lines:
    found: list[tuple[Record, int, bytes]] = []
    begin = 0
    while (end := data.find(b"\n", begin) + 1) > 0:
        line = data[begin:end]
        try:
            found.append((record_of(line), end, line[:CHECKSUM_SIZE]))
        except ValueError as error:
            return _Lines(found, error)
        begin = end
    return _Lines(found, None)
