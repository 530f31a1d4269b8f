"""Follower: a model that answers predictions in another process than the one that learns, and has the same bits."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from time import perf_counter
from types import MappingProxyType, TracebackType
from typing import Any, Self, TypedDict, Unpack, final

from ..core.engine.eager_task import EagerTask, start_task
from ..core.settings.arguments import must_be, number
from ..errors import ArgumentError, ArgumentTypeError, LearnerClosedError, ModelDirectoryError
from ..nn.modules.module import Module
from ..observing.latency import LatencyHistogram
from ..optim.optimizer import Group, Optimizer
from .directory import CHECKPOINT, ModelDirectory
from .drift import Drift, DriftMonitors
from .following import Following
from .journal_reader import DirectorySource, JournalSource
from .learner import Learner, taking_over
from .model_steps import Learned
from .replica import Replica
from .settings import apply_options, options_of
from .versions import check_name

__all__ = ["Follower", "FollowerStatistics", "LearnerOptions", "follow"]

log: logging.Logger = logging.getLogger("asyncgrad.learn")

#: The longest pause after failures, in seconds.
LONGEST_PAUSE = 5.0

#: Which options of a learner a follower has need of before it is one.
_OF_REPLICA = (
    "inputs",
    "prediction_batch_size",
    "prediction_delay",
    "max_pending_predictions",
    "timeout",
    "max_grad_norm",
    "seed",
)
#: What they are unless they are given.
_DEFAULTS = MappingProxyType({name: inspect.signature(Learner).parameters[name].default for name in _OF_REPLICA})


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


@final
class Follower:
    """Answers predictions of a model that a Learner in another process trains: `learn.follow` makes it.

    Use it by `async with`. It loads the checkpoint, and learns what the journal has as the learner did, line by line:
    so its model has the learner's bits, a moment later. Predictions are of the model after a whole number of steps. If
    the learner or the way to it fails, predictions go on, of the last model, `statistics()` says how long ago that was,
    and it tries again.

    A line is read as soon as it is in the file. Where the learner takes it back, since its disk or its step has failed,
    the follower loads the checkpoint again; until then it predicts with a step that nobody was told of.
    """

    def __init__(
        self,
        source: JournalSource,
        path: Path | None,
        parts: tuple[Module, Callable[..., object], Optimizer],
        interval: float,
        options: LearnerOptions,
    ) -> None:
        self._source, self._path, self._interval = source, path, interval
        #: Makes the learner that it may become.
        self._new_learner: Callable[..., Learner] = partial(Learner, *parts, **options)
        # This one never begins: it has its arguments checked now.
        self._new_learner()
        of_replica: dict[str, Any] = {name: options.get(name, default) for name, default in _DEFAULTS.items()}
        # It watches nothing: detectors are the promoted one's.
        self._replica = Replica(*parts, **of_replica, monitors=DriftMonitors(()))
        place = "the learner" if path is None else path
        self._following = Following(source, self._replica, place)
        #: The options of the optimizer as the code gives them, before those of the learner hold.
        self._code_options: list[Group] = []
        #: The learner that it has become.
        self._learner: Learner | None = None
        self._failures = 0
        self._error: str | None = None
        self._state = "new"
        self._task: EagerTask | None = None
        self._ended = asyncio.Event()
        #: Held by whoever reads the journal.
        self._turn = asyncio.Lock()

    def __repr__(self) -> str:
        state = "promoted" if self._learner is not None else self._state
        return f"Follower({type(self._replica.state.model).__name__}, {state}, {self.learned} learned)"

    @property
    def learned(self) -> int:
        """How many examples its model has learned."""
        return self._replica.state.learned if self._learner is None else self._learner.learned

    @property
    def latencies(self) -> Mapping[str, LatencyHistogram]:
        """How long answered predictions took: by "predict", a LatencyHistogram of seconds; after `promote`, another."""
        found = self._replica.activity.latencies if self._learner is None else self._learner.latencies
        return {"predict": found["predict"]}

    @property
    def learner(self) -> Learner | None:
        """The learner that it has become by `promote`; None before."""
        return self._learner

    @property
    def is_running(self) -> bool:
        """Whether it predicts: within its block, also while it cannot go on following."""
        return self._state == "running" and (self._learner is None or self._learner.is_running)

    # --- what callers ask for --------------------------------------------------------------------

    async def predict(self, inputs: object, *, version: str | None = None, timeout: float | None = None) -> Any:
        """Return the outputs of the model for one input, as `Learner.predict` does.

        Args:
            inputs: a tree of arrays, numbers, or lists of numbers, without an axis for a batch.
            version: the name of one that `serve` was given; None, or "current", for the model.
            timeout: the seconds that it may take; None for the follower's own.

        Raises:
            ExampleError: `inputs` are not what the follower was told they are; or the version is not served.
            BusyError: too many predictions are waited for.
            TimeoutError: it took too long.
            LearnerClosedError: the follower does not run.
        """
        self._check_runs("predict")
        if self._learner is not None:
            return await self._learner.predict(inputs, version=version, timeout=timeout)
        return await self._replica.predictions.predict(inputs, version, timeout)

    async def serve(self, *names: str) -> None:
        """Serve these versions of the learner beside the model, and no others: `predict` takes their names.

        They are read from where the journal is, and stay as they are, also where the learner forgets them. Once
        `promote` has made it a learner, that serves those of them which its directory has.

        Args:
            names: the names of versions; none ends it.

        Raises:
            ArgumentError: there is no such version, or it does not fit the model.
            ModelDirectoryError: one is damaged; what is served stays as it was.
            OSError: one cannot be read, or the learner's machine not be reached.
            LearnerClosedError: the follower does not run.
        """
        self._check_runs("serve")
        for name in names:
            check_name(name)
        async with self._turn:
            if self._learner is None:
                await self._replica.predictions.serve(names, self._read_version)
                return
        await self._learner.serve(*names)

    async def _read_version(self, name: str) -> Any:
        found = await self._source.version(name)
        if found is None:
            raise ArgumentError(f"the learner has no version {name!r}: there, await learner.checkpoint({name!r})")
        return found["state"]

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
        replica, following, learner = self._replica, self._following, self._learner
        now = None if learner is None else learner.statistics()
        counts = {name: replica.activity.counts[name] for name in ("predicted", "timed_out", "cancelled", "refused")}
        batches, pending = replica.predictions.current.batches, replica.predictions.current.pending
        if now is not None:
            counts = {name: count + getattr(now, name) for name, count in counts.items()}
            batches, pending = batches + now.prediction_batches, now.pending_predictions
        return FollowerStatistics(
            learned=self.learned,
            steps=replica.state.steps if now is None else now.steps,
            applied=replica.replay.examples,
            loads=following.loads,
            lag_bytes=following.lag_bytes if now is None else 0,
            lag_seconds=perf_counter() - following.level_at if now is None else 0.0,
            prediction_batches=batches,
            pending_predictions=pending,
            following_error=self._error if now is None else None,
            **counts,
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
        self._code_options = options_of(self._replica.state.optimizer)
        self._replica.steps.begin()
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
        context = self._replica.steps.context.copy()
        self._task = start_task(self._follow(), context, "ag.learn.Follower", lambda _: self._ended.set())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Answer what waits, or with an error refuse it; follow no longer. A learner that it has become ends, too."""
        self._state = "closed"
        try:
            await self._stop()
            await self._replica.predictions.close(is_refused=error is not None)
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
        await self._following.read_on()
        self._error, self._failures = None, 0

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
            learner = taking_over(self._new_learner(directory=path))
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
                self._following.begin_anew()
                raise
            await self._serve_on(learner)
            self._learner = learner
        await self._stop()
        try:
            await learner.checkpoint()
        except OSError as error:
            log.error("%s: no checkpoint could be written at the promotion, and the journal goes on: %s", path, error)
        await self._replica.predictions.close(is_refused=False)
        return learner

    async def _serve_on(self, learner: Learner) -> None:
        """Have the learner serve the versions that were served, as far as its directory has them."""
        served, known = self._replica.predictions.served.names(), learner.versions()
        if missing := [name for name in served if name not in known]:
            log.warning("served no more, since the learner's directory has no such versions: %s", ", ".join(missing))
        try:
            await learner.serve(*(name for name in served if name in known))
        except (ArgumentError, ModelDirectoryError, OSError) as error:
            log.error("versions are served no more: %s", error)

    async def _take_leave(self) -> None:
        """Have the learner at a URL acknowledge nothing more, and read all that it has acknowledged."""
        if await self._source.fence():
            await self._read_on()
            return
        log.warning(
            "the learner that is followed cannot be reached: what it acknowledged in its last moments may be missing, "
            "and it must not be started again: this model was level with it %.1f s ago",
            perf_counter() - self._following.level_at,
        )

    def _tell_what_is_left(self, path: Path) -> None:
        lineage = self._replica.recorded.lineage
        if left := len(lineage.kept) + len(lineage.due):
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


def _begin_directory(path: Path, replica: Replica) -> None:
    """Write the checkpoint of a new directory."""
    directory = ModelDirectory(path)
    try:
        if directory.checkpoint() is not None:
            raise ModelDirectoryError(f"{path} has a model already: name a new directory")
        directory.begin(replica.recorded.tree_elsewhere())
    finally:
        directory.close()
