"""Learner: a model that answers predictions while it learns, one step after another, and survives crashes."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import logging
import math
import os
import shlex
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, NamedTuple, Self, final

import numpy as np

from ..core.backward import backward
from ..core.engine.device import Device, device
from ..core.engine.eager_task import EagerTask, start_task
from ..core.engine.measured_calls import MeasuredCalls
from ..core.settings.arguments import describe, must_be, number, whole_number
from ..core.settings.awaiting import is_cancelled
from ..core.settings.context import GENERATOR, SeededGenerator, no_grad
from ..core.tensor import Tensor, tensor
from ..core.tree.structure import map as map_tree
from ..data.stacking import stack
from ..errors import (
    ArgumentError,
    ArgumentTypeError,
    BusyError,
    ExampleError,
    InvalidGradientError,
    JournalError,
    LearnerClosedError,
    ModelDirectoryError,
)
from ..memory.checkpoint.rng import RandomStreams, StreamReplay
from ..memory.checkpoint.steps import ContextAwaitable
from ..nn.modules.module import Module
from ..observing.latency import LatencyHistogram
from ..observing.live.records import Records
from ..optim.clipping import clip_grad_norm
from ..optim.optimizer import Optimizer
from .checks import check_functions, closed_error, norm_of, paused_error, timeout_of, trained_by
from .directory import ModelDirectory
from .drift import Drift, DriftEvent, DriftHooks, DriftMonitors
from .lineage import CHOICES, Choice, Lineage
from .lines import Record
from .pending import PendingExample, PendingExamples
from .positions import Positions
from .predictions import PredictionQueue
from .raised import told
from .served import ServedVersions, VersionLoss, was_retired
from .settings import Settings, apply_options, changed_groups, check_options, differences, edits, options_of
from .specs import check_specs, conform
from .statistics import Statistics, new_latencies
from .versions import CURRENT, Version, check_name

__all__ = ["Evaluation", "Learned", "Learner", "RolledBack"]

log: logging.Logger = logging.getLogger("asyncgrad.learn")


class Learned(NamedTuple):
    """What became of an example: the loss of its step, before it; and how many examples the model has then learned."""

    loss: float
    learned: int


class Evaluation(NamedTuple):
    """What an evaluation returned, and how many examples the model had learned."""

    learned: int
    result: object


class _Published(NamedTuple):
    """What predictions read: the model after so many examples."""

    learned: int
    model: Any


class RolledBack(NamedTuple):
    """What a rollback has led to: how many examples the model has learned; how many steps were made again, and kept."""

    learned: int
    again: int
    kept: int


class _Request(NamedTuple):
    """What is to be done between two steps, and what tells its result."""

    do: Callable[[], Coroutine[object, None, Any]]
    done: asyncio.Future[Any]


@final
class Learner:
    """Answers predictions of a model while it learns from examples, one step after another, in order of arrival.

    An example has no axis for a batch; the model and the loss get batches: inputs and examples are stacked along a new
    first axis. Predictions are of the model after a whole number of steps, in evaluation mode. The model is in training
    mode for the loss. A step that fails, is cancelled or runs out of time changes nothing.

    Use it by `async with`. At the end of the block, what waits is learned and answered, and a checkpoint is written; if
    the block raises, what waits gets a LearnerClosedError.

    Args:
        model: its parameters are trained; nothing else may write into them meanwhile. Of one on a GPU, the batches are
            tensors on that GPU; elsewhere they are NumPy arrays.
        loss: `loss(model, batch)`, plain or async; returns a scalar tensor.
        optimizer: of the parameters of the model. Its options are those of the directory, if it has some; `set_options`
            changes them.
        directory: where the checkpoint and the journal are; what is there already is loaded, and the model goes on
            from it. An example is acknowledged once it is on the disk. None keeps everything in memory.
        inputs: what an input of `predict` must be: a tree of `ArraySpec`. None takes any tree of finite numbers.
        example: the same for an example of `learn`.
        batch_size: the most examples of one step. Those that wait for their turn share one if they have equal shapes.
        prediction_batch_size: the most inputs of one call of the model.
        prediction_delay: the seconds that an input waits for others to share a call with; with 0, those share one that
            arrive in the same iteration of the event loop.
        max_pending: the most examples that may wait; a further one raises a BusyError.
        max_pending_predictions: the same for inputs.
        timeout: the seconds that `predict` and `learn` take at most, unless they are given others; None for no limit.
        max_grad_norm: gradients are scaled so that their norm is at most this. A replay uses what held before.
        checkpoint_every: after so many steps, a checkpoint takes the journal's place.
        evaluate: `evaluate(model)`, plain or async, called with an immutable version of the model, beside the learning.
        evaluate_every: the number of steps between two evaluations.
        drift: what is watched for a change, and what is done then.
        seed: of the random numbers of each step (dropout, say): those of `ag.random`, and none of the caller's. A
            replay draws the same ones as before, also after this was changed. What a loss draws from NumPy's global
            stream is another number in a replay, which leaves that stream as it is.

    Attributes:
        model: the model.
        optimizer: the optimizer.
        evaluation: the last Evaluation; None before the first.
        latencies: how long answered predictions, learned examples and steps took: by "predict", "learn" and "step", a
            LatencyHistogram of seconds.

    Raises:
        ArgumentError, ArgumentTypeError: an argument is invalid; the message names it.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> from asyncgrad import learn, nn, optim
        >>> async def main():
        ...     model = nn.Linear(2, 1, dtype=np.float64)
        ...     def loss(model, batch):
        ...         return nn.mse_loss(model(batch["x"]), batch["y"])
        ...     async with learn.Learner(model, loss, optim.SGD(model, lr=0.1)) as learner:
        ...         for _ in range(200):
        ...             await learner.learn({"x": [1.0, 2.0], "y": [3.0]})
        ...         return await learner.predict([1.0, 2.0])
        >>> ag.run(main())
        array([3.])
    """

    #: Whether it goes on after another process that may not be as dead as it seemed: ModelDirectory.
    _takes_over: bool = False
    #: Whether the log says that rounding differs.
    _has_told_rounding: bool = False
    #: The last steps, and examples that were not learned, for a live page; None where there is none.
    _records: Records | None = None

    def __init__(
        self,
        model: Module,
        loss: Callable[..., object],
        optimizer: Optimizer,
        *,
        directory: str | os.PathLike[str] | None = None,
        inputs: object = None,
        example: object = None,
        batch_size: int = 1,
        prediction_batch_size: int = 64,
        prediction_delay: float = 0.0,
        max_pending: int = 64,
        max_pending_predictions: int = 1024,
        timeout: float | None = None,
        max_grad_norm: float | None = None,
        checkpoint_every: int = 100,
        evaluate: Callable[..., object] | None = None,
        evaluate_every: int = 100,
        drift: Sequence[Drift] = (),
        seed: int = 0,
    ) -> None:
        check_functions(model, loss, optimizer, evaluate)
        check_specs(inputs, "inputs")
        check_specs(example, "example")
        self.model: Module = model
        self.optimizer: Optimizer = optimizer
        self._loss = loss
        self._path = None if directory is None else Path(directory)
        self._input_spec, self._example_spec = inputs, example
        self._max_pending = whole_number(max_pending, "max_pending", 1)
        self._timeout = timeout_of(timeout)
        self._max_grad_norm = norm_of(max_grad_norm)
        self._checkpoint_every = whole_number(checkpoint_every, "checkpoint_every", 1)
        self._evaluate, self._evaluate_every = evaluate, whole_number(evaluate_every, "evaluate_every", 1)
        self._seed = whole_number(seed, "seed", 0)
        self.evaluation: Evaluation | None = None
        self._counts: Counter[str] = Counter()
        self.latencies: Mapping[str, LatencyHistogram] = new_latencies()
        self._pending = PendingExamples(whole_number(batch_size, "batch_size", 1))
        self._queue_limits = (
            whole_number(prediction_batch_size, "prediction_batch_size", 1),
            number(prediction_delay, "prediction_delay", 0),
            whole_number(max_pending_predictions, "max_pending_predictions", 1),
        )
        self._predictions = self._new_queue(lambda: self._published.model)
        self._model_calls, self._loss_calls, self._comparisons = MeasuredCalls(), MeasuredCalls(), MeasuredCalls()
        self._published = _Published(0, model)
        #: Where the model is.
        self._device: Device = next((param.device for param in model.parameters()), device("cpu"))
        self._steps = self._replayed = 0
        self._last_loss: float | None = None
        self._recorded: str | None = None  # the text of the settings that the directory has
        self._stage: str | None = None
        self._state = "new"
        self._wake = asyncio.Event()
        self._step_task: EagerTask | None = None
        self._evaluation_task: EagerTask | None = None
        self._checkpoint_waiters: list[asyncio.Future[None]] = []
        self._set_up_versions(drift)

    def _set_up_versions(self, drift: Sequence[Drift]) -> None:
        self._directory: ModelDirectory | None = None
        self._requests: list[_Request] = []
        self._lineage = Lineage()
        self._paused = ""  # why nothing is learned
        #: The text of the settings that the code gives, and of those that it gave when that was last written down.
        self._code = ""
        self._code_recorded: str | None = None
        self._drift, self._hooks = DriftMonitors(drift), DriftHooks()
        self._detected: list[DriftEvent] = []
        self._served = ServedVersions(self._new_queue)

    @property
    def learned(self) -> int:
        """How many examples the model has learned since it was made."""
        return self._published.learned

    @property
    def loss(self) -> Callable[..., object]:
        """The loss, as it was given."""
        return self._loss

    def __repr__(self) -> str:
        return f"Learner({type(self.model).__name__}, {self._state}, {self.learned} learned)"

    # --- what callers ask for --------------------------------------------------------------------

    async def predict(self, inputs: object, *, version: str | None = None, timeout: float | None = None) -> Any:
        """Return the outputs of the model for one input, as arrays; several callers share a call of the model.

        Args:
            inputs: a tree of arrays, numbers, or lists of numbers, without an axis for a batch.
            version: the name of one that `serve` was given; None, or "current", for the model.
            timeout: the seconds that it may take; None for the learner's own.

        Raises:
            ExampleError: `inputs` are not what the learner was told they are, and the message names the place; or the
                version is not served.
            BusyError: too many predictions are waited for.
            TimeoutError: it took too long.
            LearnerClosedError: the learner does not run.
        """
        self._check_runs("predict")
        given = conform(self._input_spec, inputs, "inputs")
        queue = self._predictions if version in (None, CURRENT) else self._served.queue(version)
        seconds = self._timeout if timeout is None else timeout_of(timeout)
        # Not by the loop's clock, which ticks once in a millisecond on uvloop.
        began = perf_counter()
        try:
            async with asyncio.timeout(seconds):
                outputs = await queue.ask(given)
        except TimeoutError as error:
            if seconds is None:
                raise  # of the model: there is no limit
            self._counts["timed_out"] += 1
            raise TimeoutError(f"not predicted within {seconds:g} s") from error
        except asyncio.CancelledError:
            self._counts["cancelled"] += 1
            raise
        except BusyError:
            self._counts["refused"] += 1
            raise
        self._counts["predicted"] += 1
        self.latencies["predict"].add(perf_counter() - began)
        return outputs

    async def learn(self, example: object, *, timeout: float | None = None) -> Learned:
        """Learn from one example: wait for its turn, differentiate, write it to the journal, step.

        Until it is written, a timeout or a cancellation leaves the model and the journal as they are. From then on it
        is learned in any case, and a cancellation is raised after the step.

        Args:
            example: a tree of arrays, numbers, or lists of numbers, without an axis for a batch.
            timeout: the seconds that its gradient may take, waiting included; None for the learner's own.

        Returns:
            The loss before the step, and how many examples the model has learned after it.

        Raises:
            ExampleError: the example is not what the learner was told it is, or its loss or gradient is not finite; the
                message names the place.
            BusyError: too many examples wait.
            TimeoutError: it took too long.
            JournalError: it could not be written to the disk.
            LearningPausedError: nothing is learned since `pause`, or since a drift.
            LearnerClosedError: the learner does not run.
        """
        self._check_runs("learn")
        if self._paused:
            raise paused_error(self._paused)
        given = conform(self._example_spec, example, "example")
        seconds = self._timeout if timeout is None else timeout_of(timeout)
        if len(self._pending) >= self._max_pending:
            self._note("refused")
            raise BusyError(f"{len(self._pending)} examples wait to be learned already, and no more may")
        loop, began = asyncio.get_running_loop(), perf_counter()
        pending = PendingExample(given, loop.create_future(), None if seconds is None else loop.time() + seconds)
        self._pending.add(pending)
        self._wake.set()
        try:
            async with asyncio.timeout(seconds) as pending.limit:
                learned: Learned = await pending.result()
                self.latencies["learn"].add(perf_counter() - began)
                return learned
        except TimeoutError as error:
            if seconds is None:
                raise  # of the loss: there is no limit
            self._note("timed_out")
            raise TimeoutError(f"not learned within {seconds:g} s, and nothing has changed") from error
        except asyncio.CancelledError:
            if not pending.is_committed:
                self._note("cancelled")
            raise
        finally:
            self._leave(pending)

    async def checkpoint(self, name: str | None = None) -> Version | None:
        """Write a checkpoint, after the step that runs; return it, if it has a name.

        Args:
            name: makes it a version, which stays as it is beside the checkpoint and the journal, for `rollback`.

        Raises:
            OSError: it could not be written; the former one and the journal are kept.
            ArgumentError: the learner has no directory, or there is a version of that name.
        """
        self._check_runs("checkpoint")
        directory = self._on_disk()
        if name is not None:
            directory.versions.check_is_new(check_name(name))
            version: Version = await self._between_steps(lambda: self._save_version(name))
            return version
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._checkpoint_waiters.append(waiter)
        self._wake.set()
        await waiter
        return None

    async def set_options(self, *, group: int | None = None, **options: object) -> None:
        """Change options of the optimizer, such as `lr=0.01`, from the next step on; return once that is on the disk.

        What is set in `optimizer.param_groups`, as by a schedule, is written with the next step, and so is lost if the
        process is killed before there is one.

        Args:
            group: the number of the group of parameters; None for all.
            options: the new values; also `max_grad_norm`, which is the learner's own.

        Raises:
            ArgumentError, ArgumentTypeError: the optimizer has no such option, or does not take the value.
            JournalError: it could not be written to the disk, and nothing has changed.
            LearnerClosedError: the learner does not run.
        """
        self._check_runs("set_options")
        self._settings_with(options, group)
        await self._between_steps(lambda: self._change(options, group))

    def versions(self) -> dict[str, Version]:
        """Return the versions in the directory by their names, the oldest first, each with what it learned from."""
        return {} if self._directory is None else self._directory.versions.all()

    async def rollback(self, to: str, *, examples: Choice = "keep") -> RolledBack:
        """Have a version hold, after the step that runs: its parameters, its optimizer's state and options, its counts.

        It is on the disk before predictions see it, as a line of the journal. What is learned again has lines of its
        own, so that a start goes on where a killed process was, and learns nothing twice.

        Args:
            to: the name of the version.
            examples: what becomes of those that the model has learned and the version has not. "keep" leaves them to
                `learn_kept`; "learn" has them learned at once, in their order, before any other; "skip" drops them.

        Returns:
            How many examples the model has learned now; how many steps were made again; how many are kept, among them
            those that could not be made again, which the log names.

        Raises:
            ArgumentError: there is no such version, or it does not fit the model or the optimizer.
            JournalError: it could not be written to the disk. Where that happens while examples are learned again, the
                version holds, and those that are left are learned before the next example.
            ModelDirectoryError: the version is damaged, and nothing has changed.
            LearnerClosedError: the learner does not run; or it ends before all is learned again, and the next start
                does the rest.
        """
        self._check_runs("rollback")
        self._on_disk().versions.find(to)
        if examples not in CHOICES:
            raise ArgumentError(f"examples must be 'skip', 'keep' or 'learn', not {examples!r}")
        result: RolledBack = await self._between_steps(lambda: self._roll_back_and_learn(to, examples))
        return result

    async def learn_kept(self) -> RolledBack:
        """Learn again what rollbacks have kept, in order of arrival, before any other example.

        Returns:
            How many examples the model has learned then; how many steps were made again; how many are kept still, since
            they could not be.

        Raises:
            JournalError: one could not be written to the disk; it and those that follow are kept still.
            LearnerClosedError: the learner does not run, or ends before all is learned.
        """
        self._check_runs("learn_kept")
        result: RolledBack = await self._between_steps(self._learn_kept)
        return result

    async def forget(self, name: str) -> None:
        """Remove a version, and what only a rollback to it would need.

        Raises:
            ArgumentError: there is no such version.
            OSError: it could not be removed.
            LearnerClosedError: the learner does not run.
        """
        self._check_runs("forget")
        self._on_disk().versions.find(name)
        await self._between_steps(lambda: self._forget(name))

    async def serve(self, *names: str) -> None:
        """Serve these versions beside the model, and no others, until the learner ends: `predict` takes their names.

        From then on, each example is given to the loss with the model as it was before the example, and with each of
        these versions, in evaluation mode, after it was learned: `losses` compares them.

        Args:
            names: the names of versions; none ends it.

        Raises:
            ArgumentError: there is no such version, or it does not fit the model.
            ModelDirectoryError: one is damaged; what is served stays as it was.
            LearnerClosedError: the learner does not run.
        """
        self._check_runs("serve")
        for name in names:
            self._on_disk().versions.find(name)
        await self._between_steps(lambda: self._serve(names))

    def losses(self) -> dict[str, VersionLoss]:
        """Return the losses of "current", which is the model, and of the versions served, on the same examples."""
        return self._served.losses()

    async def compare(self, examples: Iterable[object]) -> dict[str, float]:
        """Return the loss of the model ("current") and of each version that is served on a batch of examples.

        Nothing is learned, and learning goes on meanwhile.

        Args:
            examples: at least one, each as `learn` takes it.

        Raises:
            ArgumentError, ArgumentTypeError: there are none.
            ExampleError: one is not what the learner was told it is.
        """
        self._check_runs("compare")
        if not isinstance(examples, Iterable):
            raise ArgumentTypeError(must_be("examples", "a list of examples", examples))
        given = [conform(self._example_spec, one, f"examples[{at}]") for at, one in enumerate(examples)]
        if not given:
            raise ArgumentError("compare() takes at least one example, and was given none")
        found: dict[str, float] = await self._in_context(
            self._losses_of(self._served.models(self._published.model), stack(given))
        )
        return found

    async def pause(self, reason: str) -> None:
        """Learn nothing more, from the next step on, also after a restart, until `resume`; predictions go on.

        Args:
            reason: what `learn` raises a LearningPausedError with, also for what waits.

        Raises:
            JournalError: it could not be written to the disk, and learning goes on.
        """
        self._check_runs("pause")
        if not isinstance(reason, str) or not reason:
            raise ArgumentTypeError(must_be("reason", "a text that says why", reason))
        await self._between_steps(lambda: self._pause(reason))

    async def resume(self) -> None:
        """Learn again after `pause`, or after a drift that has stopped learning.

        Raises:
            JournalError: it could not be written to the disk, and nothing is learned still.
        """
        self._check_runs("resume")
        await self._between_steps(lambda: self._pause(""))

    def statistics(self) -> Statistics:
        """Return what has happened so far, as numbers."""
        directory = self._directory
        counts = {name: self._counts[name] for name in Statistics.COUNTS}
        return Statistics(
            learned=self.learned,
            steps=self._steps,
            replayed=self._replayed,
            prediction_batches=self._predictions.batches,
            pending=len(self._pending),
            pending_predictions=self._predictions.pending,
            max_pending=self._max_pending,
            max_pending_predictions=self._predictions.max_pending,
            journal_records=0 if directory is None else directory.records,
            torn_bytes=0 if directory is None else directory.torn,
            journal_error=None if directory is None or directory.broken is None else str(directory.broken),
            last_loss=self._last_loss,
            stage=self._stage,
            paused=self._paused or None,
            versions=len(self.versions()),
            kept=len(self._lineage.kept) + len(self._lineage.due),
            drift=self._drift.status(),
            **counts,
        )

    @property
    def is_running(self) -> bool:
        """Whether it predicts and learns: from the start of its block on, until that ends or an error ends it."""
        return self._state == "running"

    def keep_records(self) -> Records:
        """Return the last 1024 steps, and examples that were not learned, which are kept from the first call on.

        A live page shows them (`learn.http.live`).
        """
        if self._records is None:
            self._records = Records()
        return self._records

    def _note(self, what: str) -> None:
        """Count an example that was not learned, and record it if records are kept."""
        self._counts[what] += 1
        if self._records is not None:
            self._records.add(what.replace("_", " "))

    async def _between_steps(self, do: Callable[[], Coroutine[object, None, Any]]) -> Any:
        """Have the task that learns await something, between two steps; return the result."""
        request = _Request(do, asyncio.get_running_loop().create_future())
        self._requests.append(request)
        self._wake.set()
        return await request.done

    def _on_disk(self) -> ModelDirectory:
        if self._directory is None:
            raise ArgumentError("this learner has no directory for a checkpoint: make it with directory=...")
        return self._directory

    def _check_runs(self, what: str) -> None:
        if self._state == "following" and what == "predict":
            return
        if self._state == "new":
            raise LearnerClosedError(f"the learner has not begun: write async with learner: await learner.{what}(...)")
        if self._state != "running":
            raise LearnerClosedError(f"{what}() came after the learner was closed, and nothing was done")

    # --- from the first step to the last ---------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Load what is in the directory, and learn again what its journal has.

        Raises:
            ModelDirectoryError: the directory is in use, damaged, or holds another model.
            LearnerClosedError: the learner was used before.
        """
        if self._state != "new":
            raise LearnerClosedError("a learner is used once: make another one")
        self._state = "starting"
        self.model.train()
        self._context = contextvars.copy_context()
        try:
            if self._path is not None:
                await self._open(self._path)
            self._publish(self.learned)
        except BaseException:
            self._state = "closed"
            if self._directory is not None:
                self._directory.close()
            raise
        self._state = "running"
        self._ended = asyncio.Event()
        self._task = start_task(self._train(), self._context.copy(), "ag.learn.Learner", lambda _: self._ended.set())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Learn and answer what waits, or with an error refuse it; write a checkpoint; release the directory."""
        if self._state == "running":
            self._state = "closing" if error is None else "failed"
        cancellation: asyncio.CancelledError | None = None
        if error is not None:
            self._refuse()
        self._wake.set()
        while not self._ended.is_set():
            try:
                await self._ended.wait()
            except asyncio.CancelledError as cancelled:
                # Whoever is impatient does not wait for what has not begun, but for what must not be left half-done.
                cancellation = cancelled
                self._state = "failed"
                self._refuse()
        try:
            for queue in (self._predictions, *self._served.queues()):
                await queue.close(closed_error, is_refused=self._state != "closing")
            await self._end_evaluation()
            await self._hooks.end()
        except asyncio.CancelledError as cancelled:
            cancellation = cancelled
        self._state = "closed"
        failure = self._task.exception()
        if cancellation is not None:
            raise cancellation
        if failure is not None:
            raise failure

    # --- the model of a follower, which replays what another learner has learned (follower.py) ---

    def _begin_following(self, state: Any) -> None:
        """Go on from a checkpoint, and answer predictions."""
        if self._state == "new":
            self._state = "following"
            self.model.train()
            self._context = contextvars.copy_context()
        self._publish(self._load(state))

    async def _end_following(self, is_refused: bool) -> None:
        self._state = "closed"
        await self._predictions.close(closed_error, is_refused=is_refused)

    async def _end_evaluation(self) -> None:
        task = self._evaluation_task
        if task is not None and task.cancel():
            # A worker that computes it, or what it cleans up, goes on until then
            # (test_an_evaluation_has_ended_when_its_learner_has).
            ended = asyncio.Event()
            task.add_done_callback(lambda _: ended.set())
            await ended.wait()

    def _refuse(self) -> None:
        self._pending.fail(closed_error)
        if self._step_task is not None and not any(one.is_committed for one in self._pending.running):
            self._step_task.cancel()
        self._wake.set()

    async def _open(self, path: Path) -> None:
        directory = await asyncio.to_thread(self._open_directory, path)
        state = await asyncio.to_thread(directory.checkpoint)
        code = self._settings()
        self._code = code.text()
        #: How many parameters the groups have in the directory.
        self._sizes = self._group_sizes()
        if state is None:
            # Of a model that was removed, versions may be left.
            await asyncio.to_thread(directory.skip_taken)
            await asyncio.to_thread(directory.begin, self._checkpoint_state(code))
            self._recorded = self._code_recorded = self._code
            return
        try:
            self._published = _Published(self._load(state), self.model)
            self._lineage = self._take_rest(state)
            self._drift.load(state.get("drift", []))
        except Exception as error:
            raise ModelDirectoryError(
                f"the checkpoint in {path} does not fit this model or optimizer: {error}"
            ) from error
        await self._replay(directory)
        self._go_on_with(code, path)
        if await asyncio.to_thread(directory.skip_taken):
            log.warning("%s has versions of a later time than its journal, whose examples are not there any more", path)
            if (refused := await self._save()) is not None:
                raise ModelDirectoryError(f"{path} cannot be written to: {refused}") from refused
        self._stage = None
        self._wake.set()

    def _go_on_with(self, code: Settings, path: Path) -> None:
        """Have hold what was edited in the code since the last start; all else goes on as it was."""
        now = self._settings()
        if self._code_recorded is None:
            # An older version has not written it down: options go on, and the rest is the code's.
            before = now._replace(groups=code.groups)
        else:
            before = Settings.of_text(self._code_recorded)
        groups = options_of(self.optimizer)
        changed: dict[str, Any] = {"seed": now.seed, "max_grad_norm": now.max_grad_norm}
        for name, group, value in edits(code, before):
            options = changed if group is None else groups[group]
            # Of an array, equality is one of its elements.
            if repr(was := options.get(name)) != repr(value):
                where = "" if group is None or len(groups) == 1 else f" of group {group}"
                text = "%s: %s%s was %r there, and is %r from here on, as in the code"
                log.warning(text, path, name, where, was, value)
            options[name] = value
        check_options(self.optimizer, groups)
        apply_options(self.optimizer, groups)
        self._seed, self._max_grad_norm = changed["seed"], changed["max_grad_norm"]
        for name, record, given in differences(groups, code.groups):
            text = (
                "%s: %s is %r, as in the directory, and not %r, as in the code: await learner.set_options() changes it"
            )
            log.warning(text, path, name, record, given)

    def _open_directory(self, path: Path) -> ModelDirectory:
        self._directory = ModelDirectory(path, takes_over=self._takes_over)
        if self._state == "closed":
            # The start was cancelled while this thread ran, and saw nothing to close.
            self._directory.close()
        return self._directory

    def _load(self, state: Any) -> int:
        """Take over a checkpoint, and return how many examples it has learned; raise if it is of something else."""
        learned, steps = state["learned"], state["steps"]
        if type(learned) is not int or type(steps) is not int:
            raise ArgumentError(f"it has learned {learned!r} examples in {steps!r} steps")
        if state["optimizer_type"] != type(self.optimizer).__name__:
            raise ArgumentError(f"it is one of {state['optimizer_type']}, not {type(self.optimizer).__name__}")
        self._check_model(state["model"])
        # The state of an optimizer is by number.
        if (found := state.get("params", self._params())) != self._params():
            raise ArgumentError(f"its optimizer has the parameters {found}, and this one {self._params()}")
        self.model.update(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self._steps = steps
        if "settings" in state:
            self._take(state["settings"])
        return learned

    def _take_rest(self, state: Mapping[str, Any]) -> Lineage:
        """Take over what a checkpoint has, and a version does not bring back; return what it learned from."""
        self._paused, self._code_recorded = state.get("paused", ""), state.get("code")
        return Lineage.of_tree(state.get("lineage", {}))

    def _check_model(self, saved: Mapping[str, Any]) -> None:
        """Raise an ArgumentError unless all of the model has been saved, in the same dtypes."""
        own = self._tensors()
        missing = own.keys() - saved.keys()
        if missing:
            raise ArgumentError(f"it lacks {', '.join(sorted(missing))}")
        for name, one in own.items():
            if (dtype := saved[name].dtype) != one.dtype:
                raise ArgumentError(f"{name} has dtype {one.dtype}, and there {dtype}: make the model with that one")

    def _params(self) -> list[list[str | None]]:
        """Return the names of the parameters of each group of the optimizer."""
        names = {id(param): name for name, param in self.model.named_parameters()}
        return [[names.get(id(param)) for param in group["params"]] for group in self.optimizer.param_groups]

    def _group_sizes(self) -> list[int]:
        return [len(group["params"]) for group in self.optimizer.param_groups]

    def _take(self, text: str) -> None:
        """Have the settings hold that a directory has."""
        self._seed, self._max_grad_norm, groups = Settings.of_text(text)
        apply_options(self.optimizer, groups)
        self._recorded = text

    async def _replay(self, directory: ModelDirectory) -> None:
        """Learn what the journal has as it was learned before."""
        for record in directory.replay(self.learned):
            await self._apply_line(record, directory.path)
        directory.confirm()

    async def _apply_line(self, record: Record, path: Path | str) -> None:
        """Do what a line of the journal says, as it was done before; `path` names the journal's place in errors."""
        loop = asyncio.get_running_loop()
        again = [PendingExample(one, loop.create_future(), None) for one in record.examples]
        try:
            await self._take_over(record)
            found = (await self._step_again(again, record.again)).loss if again else record.loss
        except Exception as error:
            raise ModelDirectoryError(
                f"{path} has examples in its journal that cannot be learned again, the first of them "
                f"number {self.learned + 1}: {error}"
            ) from error
        self._replayed += len(again)
        if record.loss is None or found == record.loss:
            return
        self._check_loss(record.loss, found, path)
        if not self._has_told_rounding:
            text = "%s: the loss of example %d was %r, and is %r in the replay: rounding differs on this machine"
            log.warning(text, path, self.learned, record.loss, found)
            self._has_told_rounding = True

    async def _take_over(self, record: Record) -> None:
        """Have hold what a line of the journal says beside its examples."""
        self._detected.clear()
        if record.settings is not None:
            self._take(record.settings)
        if record.code is not None:
            self._code_recorded = record.code
        if record.keep is not None:
            self._lineage = self._lineage.keeping(record.keep)
        if record.paused is not None:
            self._paused = record.paused
        if record.rollback is not None:
            to, which, _, examples = (record.rollback[name] for name in ("to", "id", "learned", "examples"))
            state = await asyncio.to_thread(self._on_disk().versions.read, to, which)
            self._go_back(state, self._load(state), examples)

    def _check_loss(self, before: float, now: float | None, path: Path | str) -> None:
        """Raise unless two losses are equal but for rounding: in half of the digits, of large numbers or of 1."""
        dtypes = [param.dtype for group in self.optimizer.param_groups for param in group["params"]]
        rounding = math.sqrt(max(float(np.finfo(dtype).eps) for dtype in dtypes))
        if now is None or not math.isclose(before, now, rel_tol=rounding, abs_tol=rounding):
            raise ModelDirectoryError(
                f"{path} has example {self.learned} in its journal, whose loss was {before!r} and is {now!r} now: the "
                "loss, the model or what they depend on has changed since. Start it once as it was, and end it in "
                "order: then a checkpoint takes the journal's place, and what comes after may differ. Where no loss "
                "comes out the same twice, give up what was learned since the checkpoint by : > "
                f"{shlex.quote(f'{path}/journal')}"
            )

    async def _step_again(self, examples: list[PendingExample], source: int | None) -> Learned:
        """Make the step of examples of the journal again, with random numbers that are not the caller's."""
        learned: Learned = await self._in_context(self._step(examples, source, is_replay=True))
        return learned

    async def _in_context(self, work: Coroutine[object, None, Any]) -> Any:
        """Await something in the learner's context; the caller's random numbers, and NumPy's, stay as they are."""
        streams = RandomStreams(())
        return await ContextAwaitable(work, self._context.copy(), StreamReplay(streams, streams.start).run)

    def _tensors(self) -> dict[str, Tensor]:
        """Return all that a step may change: also buffers that a state dict leaves out."""
        return {**dict(self.model.named_parameters()), **dict(self.model.named_buffers())}

    def _settings(self) -> Settings:
        return Settings(self._seed, self._max_grad_norm, options_of(self.optimizer))

    def _checkpoint_state(self, settings: Settings) -> dict[str, Any]:
        optimizer = self.optimizer.state_dict()
        for group, options in zip(optimizer["param_groups"], settings.groups, strict=True):
            group.update(options)
        return {
            "learned": self.learned,
            "steps": self._steps,
            "model": self._tensors(),
            "optimizer": optimizer,
            "optimizer_type": type(self.optimizer).__name__,
            "params": self._params(),
            "settings": settings.text(),
            "code": self._code,
            "lineage": self._lineage.as_tree(),
            "paused": self._paused,
            "drift": self._drift.tree(),
        }

    # --- the task that learns --------------------------------------------------------------------

    async def _train(self) -> None:
        """Make one step after another; the only one that writes into the model and the directory."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._react()
                await self._learn_due()
                while examples := self._pending.take():
                    if self._directory is not None and self._sizes != self._group_sizes():
                        # Their parameters are in the checkpoint alone, and a line with them could not be replayed.
                        await self._save()
                    await self._learn(examples)
                    await self._react()
                    await self._save_if_due()
                    await self._serve_waiters()
                    await self._learn_due()
                await self._serve_waiters()
                if self._state != "running":
                    return
        finally:
            await self._finish()

    async def _finish(self) -> None:
        if self._state == "running":
            # An error of its own has ended it, which the end of the block raises.
            self._state = "failed"
        directory = self._directory
        try:
            if directory is not None and (directory.records or directory.broken or self._has_other_settings()):
                await self._save()
        finally:
            if directory is not None:
                directory.close()
            self._pending.fail(closed_error)
            for waiter in [*self._checkpoint_waiters, *(request.done for request in self._requests)]:
                if not waiter.done():
                    waiter.set_exception(closed_error())

    async def _learn(self, examples: list[PendingExample]) -> None:
        """Make the step of these examples, and tell those who wait."""
        again: list[PendingExample] = []
        before = self._published.model
        try:
            # A context of its own, so that the random numbers of a step depend on its number alone.
            self._step_task = start_task(self._step(examples), self._context.copy(), "a step of ag.learn.Learner")
            learned = await self._step_task
        except (KeyboardInterrupt, SystemExit):
            for one in examples:
                one.fail(closed_error())
            raise
        except BaseException as error:
            left = [one for one in examples if one.is_wanted]
            if isinstance(error, asyncio.CancelledError) and len(left) < len(examples):
                again = left
            elif len(examples) == 1 or isinstance(error, JournalError):
                for one in examples:
                    one.fail(told(error, "the loss or the optimizer"))
            else:
                # One of them may be to blame: the others are to be learned.
                again = left
                for one in again:
                    one.is_alone = True
            for one in again:
                one.is_committed = False
            self._pending.put_back(again)
        else:
            for one in examples:
                if one.is_wanted:
                    one.future.set_result(learned)
        finally:
            self._step_task, self._stage = None, None
            self._pending.running = []
            for one in examples:
                if one not in again:
                    one.ended.set()
        if self._published.model is not before and self._served:
            await self._compare_versions(before, examples)

    def _leave(self, pending: PendingExample) -> None:
        """Somebody does not wait any more: cancel the step that was for them, unless it is being written."""
        if not pending.future.cancelled():
            return
        self._pending.remove(pending)
        if pending in self._pending.running and not pending.is_committed and self._step_task is not None:
            self._step_task.cancel()

    async def _step(
        self, examples: list[PendingExample], source: int | None = None, is_replay: bool = False
    ) -> Learned:
        """Differentiate, write to the journal, update and publish; or change nothing.

        Args:
            examples: those of the step.
            source: the position of the line that has acknowledged them, if they are learned once more.
            is_replay: whether the journal has the step already.
        """
        GENERATOR.set(SeededGenerator([self._seed, self._steps]))
        began = perf_counter()
        is_written, is_stepping, before = False, False, self._state_of_foreign_optimizer()
        try:
            loss = await self._differentiate(stack([one.example for one in examples]))
            if not is_replay:
                self._commit(examples)
                settings = await self._write(examples, loss, source)
                is_written = settings is not None
            self._stage, is_stepping = "step", True
            if is_replay or settings is None:
                await self.optimizer.step_async()
            else:
                await self._update(settings)
        except BaseException as error:
            if not is_replay and self._stage is not None:
                self._counts[f"ended_in_{self._stage}"] += 1
                if self._records is not None and not isinstance(error, asyncio.CancelledError):
                    self._records.add("failed")
            if is_written and self._directory is not None:
                await asyncio.to_thread(self._directory.take_back)
            self.optimizer.zero_grad()
            last = self._published.model
            changed = {**(dict(last.named_parameters()) if is_stepping else {}), **dict(last.named_buffers())}
            if changed:
                self.model.update(changed)
            if is_stepping and before is not None:
                self.optimizer.state.clear()
                self.optimizer.state.update(before)
            raise
        self.optimizer.zero_grad()
        self._steps += 1
        self._last_loss = loss
        if not is_replay:
            self.latencies["step"].add(perf_counter() - began)
            if self._records is not None:
                self._records.add("done", loss, len(examples))
        if self._directory is not None:
            self._lineage = self._lineage.after(self._directory.position - 1 if source is None else source)
        if source is None:
            self._detected += self._drift.update(loss, [one.example for one in examples], self.learned + len(examples))
        self._publish(self.learned + len(examples))
        if not is_replay and self._directory is not None:
            self._directory.confirm()
        self._start_evaluation()
        return Learned(loss, self.learned)

    def _state_of_foreign_optimizer(self) -> dict[Tensor, Any] | None:
        """Return a copy of the optimizer's state, if it may fail after it has changed a part of that; else None.

        Those of this package allocate before they change anything
        (test_a_step_that_an_optimizer_fails_in_the_midst_of_changes_nothing).
        """
        if type(self.optimizer).__module__.startswith(f"{__package__.partition('.')[0]}."):
            return None
        return {param: copy.deepcopy(one) for param, one in self.optimizer.state.items()}

    async def _differentiate(self, batch: Any) -> float:
        """Add the gradients of a batch to the parameters, and return the loss."""
        self._stage = "forward"
        self.optimizer.zero_grad()
        loss = await self._call_loss(self._beside_model(batch))
        if not isinstance(loss, Tensor) or loss.size != 1:
            what = f"a tensor of shape {loss.shape}" if isinstance(loss, Tensor) else describe(loss)
            raise ArgumentTypeError(f"loss(model, batch) must return a scalar tensor, and returned {what}")
        await self._settle()
        value = float(loss.item())
        if not math.isfinite(value):
            raise ExampleError(f"the loss is {value} for this example, so it was not learned")
        self._stage = "backward"
        # The last slice of the forward, the first of the backward, and what follows the last are a millisecond each:
        # requests are answered in between.
        await asyncio.sleep(0)
        await backward(loss)
        await asyncio.sleep(0)
        # Frees the graph.
        del loss
        await asyncio.sleep(0)
        try:
            clip_grad_norm(trained_by(self.optimizer), self._max_grad_norm)
        except InvalidGradientError as error:
            raise ExampleError(f"the gradient of this example is not finite, so it was not learned: {error}") from error
        return value

    @property
    def _is_replaying(self) -> bool:
        return self._state in ("starting", "following")

    async def _call_loss(self, batch: Any) -> Any:
        if not self._is_replaying:
            return await self._loss_calls.call(self._loss, self.model, batch)
        # A worker may call it, while the event loop has NumPy's global stream as others know it.
        streams = RandomStreams(())
        return await self._loss_calls.call(StreamReplay(streams, streams.start).run, self._loss, self.model, batch)

    @staticmethod
    def _commit(examples: list[PendingExample]) -> None:
        """Lift the timeouts of a step, which is made from here on; raise CancelledError if somebody has gone."""
        now = asyncio.get_running_loop().time()
        for one in examples:
            # A short backward does not suspend, so a timeout could not fire.
            if one.deadline is not None and now >= one.deadline:
                one.fail(TimeoutError())
        if not all(one.is_wanted for one in examples):
            raise asyncio.CancelledError
        for one in examples:
            one.commit()

    async def _write(self, examples: list[PendingExample], loss: float, source: int | None) -> Settings | None:
        """Write the line of a step, and return the settings with which it is made; None without a directory."""
        if self._directory is None:
            return None
        if self._sizes != self._group_sizes():
            raise JournalError("the optimizer has another group since, and no checkpoint with it could be written yet")
        settings = self._settings()
        text = settings.text()
        if text != self._recorded:
            # Somebody has set them by hand, which checks nothing; and no checkpoint with them could be loaded.
            check_options(self.optimizer, settings.groups)
        self._stage = "journal"
        more = {**self._unrecorded(text), "loss": loss, "again": source}
        await asyncio.to_thread(self._directory.append, self.learned, [one.example for one in examples], more)
        return settings

    def _unrecorded(self, text: str) -> dict[str, str]:
        """Return what a line says of the settings with this text, and of those of the code: what has changed."""
        if self._code != self._code_recorded:
            return {"settings": text, "code": self._code}
        return {} if text == self._recorded else {"settings": text}

    async def _update(self, settings: Settings) -> None:
        """Step with the settings that were written, also where somebody has set others meanwhile, for the next step."""
        written, meanwhile = settings.text(), self._settings()
        if meanwhile.text() == written:
            await self.optimizer.step_async()
        else:
            apply_options(self.optimizer, settings.groups)
            try:
                await self.optimizer.step_async()
            finally:
                if self._settings().text() == written:
                    apply_options(self.optimizer, meanwhile.groups)
        self._recorded, self._code_recorded = written, self._code

    def _publish(self, learned: int) -> None:
        self._published = _Published(learned, self.model.snapshot())

    async def _save_if_due(self) -> None:
        if self._directory is not None and self._directory.records >= self._checkpoint_every:
            await self._save()

    async def _serve_waiters(self) -> None:
        """Between two steps, change the options and write the checkpoint that somebody waits for."""
        while self._requests:
            await self._do(self._requests.pop(0))
            await self._save_if_due()
        if self._directory is not None:
            # Nothing is under way that a line says.
            self._directory.confirm()
        if self._checkpoint_waiters:
            await self._save_for_waiters()

    async def _do(self, request: _Request) -> None:
        """Do what somebody waits for, and tell them."""
        if request.done.done():
            return
        error: BaseException | None = None
        try:
            result = await request.do()
        except Exception as failure:
            error = failure
        except BaseException:
            # It ends the learner.
            error = closed_error()
            raise
        finally:
            self._stage = None
            if error is not None and not request.done.done():
                request.done.set_exception(error)
        if error is None and not request.done.done():
            request.done.set_result(result)

    async def _append(self, **more: Any) -> None:
        """Write a line without examples, if there is a directory."""
        self._stage = "journal"
        if self._directory is not None:
            await asyncio.to_thread(self._directory.append, self.learned, [], more)

    def _settings_with(self, options: dict[str, Any], group: int | None) -> Settings:
        """Return the settings with some options changed; nothing is set."""
        given, norm = dict(options), self._max_grad_norm
        if "max_grad_norm" in given:
            if group is not None:
                raise ArgumentError("max_grad_norm is one for all groups of parameters: set it without group=")
            norm = norm_of(given.pop("max_grad_norm"))
        return Settings(self._seed, norm, changed_groups(self.optimizer, given, group))

    async def _change(self, options: dict[str, Any], group: int | None) -> None:
        """Write a change of options to the journal, and make it."""
        settings = self._settings_with(options, group)
        text = settings.text()
        await self._append(**{"settings": text, **self._unrecorded(text)})
        if self._directory is not None:
            self._recorded, self._code_recorded = text, self._code
        self._max_grad_norm = settings.max_grad_norm
        own = self.optimizer.param_groups
        for each in own if group is None else [own[group]]:
            each.update({name: value for name, value in options.items() if name != "max_grad_norm"})

    # --- versions --------------------------------------------------------------------------------

    async def _save_version(self, name: str) -> Version:
        self._stage = "checkpoint"
        state = self._checkpoint_state(self._settings_to_save())
        return await asyncio.to_thread(self._on_disk().save_version, name, state)

    async def _forget(self, name: str) -> None:
        directory = self._on_disk()
        directory.versions.find(name)
        # A start must not need it: a line may say that it was gone back to.
        if directory.records and (error := await self._save()) is not None:
            raise error
        await asyncio.to_thread(directory.versions.remove, name)

    async def _roll_back_and_learn(self, name: str, examples: str) -> RolledBack:
        await self._roll_back(name, examples)
        before = self._steps
        if examples == "learn":
            await self._learn_again(lambda: self._lineage.due)
        return RolledBack(self.learned, self._steps - before, len(self._lineage.kept))

    async def _roll_back_after(self, event: DriftEvent) -> None:
        to = event.drift.to or self._on_disk().versions.newest()
        if to is None:
            raise ArgumentError("there is no version to go back to: await learner.checkpoint(name)")
        await self._roll_back_and_learn(to, event.drift.examples)

    async def _roll_back(self, name: str, examples: str) -> None:
        """Have a version hold, once that is on the disk; or change nothing."""
        directory = self._on_disk()
        version = directory.versions.find(name)
        self._stage = "rollback"
        state = await asyncio.to_thread(directory.versions.read, name)
        last, steps, recorded = self._published.model, self._steps, self._recorded
        seed, norm = self._seed, self._max_grad_norm
        # To load a version makes new ones.
        own_state, own_groups = self.optimizer.state, self.optimizer.param_groups
        try:
            learned = self._load(state)
            rollback = {"to": name, "id": version.id, "learned": learned, "examples": examples}
            await self._append(rollback=rollback)
        except BaseException as error:
            self.model.update({**dict(last.named_parameters()), **dict(last.named_buffers())})
            self.optimizer.state, self.optimizer.param_groups = own_state, own_groups
            self._seed, self._max_grad_norm, self._steps, self._recorded = seed, norm, steps, recorded
            if isinstance(error, KeyError):
                raise ModelDirectoryError(f"the version {name!r} lacks {error}: restore it from a copy") from error
            raise
        self._counts["rollbacks"] += 1
        self._go_back(state, learned, examples)

    def _go_back(self, state: Any, learned: int, examples: str) -> None:
        """Publish a version that was loaded, after its line."""
        self._lineage = self._lineage.rolled_back(Lineage.of_tree(state["lineage"]).learned, examples)
        self._drift.forget_losses()
        self._publish(learned)

    async def _learn_kept(self) -> RolledBack:
        before, kept = self._steps, self._lineage.kept
        await self._learn_again(lambda: kept & self._lineage.kept)
        return RolledBack(self.learned, self._steps - before, len(self._lineage.kept))

    async def _learn_due(self) -> None:
        """Learn again what a rollback of a process that has ended was to."""
        try:
            if self._lineage.due and self._state == "running":
                await self._learn_again(lambda: self._lineage.due)
        except LearnerClosedError:
            pass  # the next start goes on
        except JournalError as error:
            log.error("what a rollback has left to be learned again waits for the next example: %s", error)

    async def _learn_again(self, which: Callable[[], Positions]) -> None:
        """Make the steps of lines again, the first of those that are left before the others.

        Raises:
            JournalError: one could not be written; it and those that follow are left.
            LearnerClosedError: the learner ends; what is left is learned by the next start.
        """
        failed = Positions()
        while positions := which() - failed:
            if self._state != "running":
                raise LearnerClosedError("the learner was closed before all was learned again: the next start goes on")
            source = next(iter(positions))
            try:
                await self._learn_line(source)
            except (JournalError, KeyboardInterrupt, SystemExit, GeneratorExit):
                raise
            except BaseException as error:
                if self._state != "running" and is_cancelled(error):
                    continue
                log.error("line %d of the journal could not be learned again, and is kept: %r", source, error)
                if source in self._lineage.due:
                    await self._append(keep=source)
                    self._lineage = self._lineage.keeping(source)
                failed = failed.with_one(source)
            await self._save_if_due()

    async def _learn_line(self, source: int) -> None:
        """Make the step of a line again, as a line of its own."""
        given = await asyncio.to_thread(self._on_disk().examples_at, source)
        examples = [PendingExample(one, asyncio.get_running_loop().create_future(), None) for one in given]
        for one in examples:
            # Nobody waits for it: an error is told by the step.
            one.future.add_done_callback(lambda future: future.cancelled() or future.exception())
        self._pending.running = examples
        try:
            step = self._step(examples, source)
            self._step_task = start_task(step, self._context.copy(), "a step of ag.learn.Learner")
            await self._step_task
        finally:
            self._step_task, self._stage, self._pending.running = None, None, []
        self._counts["learned_again"] += len(examples)

    async def _pause(self, reason: str) -> None:
        await self._append(paused=reason)
        self._paused = reason
        if reason:
            self._pending.fail(lambda: paused_error(reason))

    def _settings_to_save(self) -> Settings:
        """Return the settings of now; or, if the optimizer could not be loaded with them, those that held last."""
        settings = self._settings()
        try:
            check_options(self.optimizer, settings.groups)
            settings.text()
        except (ArgumentError, ArgumentTypeError) as error:
            if self._recorded is None:
                raise
            log.error("options of the optimizer are not saved, since it would not take them: %s", error)
            last = Settings.of_text(self._recorded)
            groups = [*last.groups, *settings.groups[len(last.groups) :]]
            return last._replace(groups=groups[: len(settings.groups)])
        return settings

    def _has_other_settings(self) -> bool:
        return self._settings_to_save().text() != self._recorded or self._code != self._code_recorded

    async def _save(self) -> OSError | None:
        """Write a checkpoint; return and log what kept it from being written, after which a later step tries again."""
        assert self._directory is not None
        self._stage = "checkpoint"
        settings, sizes = self._settings_to_save(), self._group_sizes()
        try:
            await asyncio.to_thread(self._save_now, self._directory, settings)
        except OSError as error:
            self._counts["failed_checkpoints"] += 1
            log.error("no checkpoint could be written, and the journal goes on: %s", error)
            return error
        finally:
            self._stage = None
        self._recorded, self._code_recorded, self._sizes = settings.text(), self._code, sizes
        self._counts["checkpoints"] += 1
        return None

    def _save_now(self, directory: ModelDirectory, settings: Settings) -> None:
        # Nobody writes into the model meanwhile: the task that learns waits for this.
        needed = self._lineage.needed(directory.versions.learned())
        directory.save_checkpoint(self._checkpoint_state(settings), needed)

    async def _save_for_waiters(self) -> None:
        waiters, self._checkpoint_waiters = self._checkpoint_waiters, []
        if not waiters:
            return
        error: BaseException | None
        try:
            error = await self._save()
        except BaseException:
            # It ends the learner.
            error = closed_error()
            raise
        finally:
            self._tell(waiters, error)

    @staticmethod
    def _tell(waiters: list[asyncio.Future[None]], error: BaseException | None) -> None:
        for waiter in waiters:
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)

    # --- predictions and evaluations -------------------------------------------------------------

    def _new_queue(self, model: Callable[[], Any]) -> PredictionQueue:
        """Return a queue whose inputs the model answers that a function returns when it is their turn."""

        async def answer(batch: Any) -> Any:
            with no_grad():
                found = await self._model_calls.call(model(), self._beside_model(batch))
            await self._settle()
            return found

        return PredictionQueue(answer, *self._queue_limits)

    async def _serve(self, names: Sequence[str]) -> None:
        versions, models = self._on_disk().versions, {}
        self._stage = "serve"
        for name in dict.fromkeys(names):
            state = await asyncio.to_thread(versions.read, name)
            self._check_model(state["model"])
            own = self._published.model
            # Nobody sees it: there is no await in between, and predictions have snapshots.
            try:
                models[name] = self.model.update(state["model"]).snapshot()
            finally:
                self.model.update({**dict(own.named_parameters()), **dict(own.named_buffers())})
        for queue in self._served.replace(models):
            await queue.close(was_retired, is_refused=False)

    async def _losses_of(self, models: Mapping[str, Any], batch: Any) -> dict[str, float]:
        """Return the loss of each of some snapshots on a batch."""
        # Not those of a step, or of the caller's.
        GENERATOR.set(SeededGenerator([self._seed, self._steps, 2]))
        found = {}
        for name, model in models.items():
            with no_grad():
                loss = await self._comparisons.call(self._loss, model, self._beside_model(batch))
            await self._settle()
            found[name] = float(loss.item())
        return found

    async def _compare_versions(self, before: Any, examples: list[PendingExample]) -> None:
        """Add the losses of the model before a step, and of the versions that are served, on its examples."""
        self._stage = "compare"
        batch = stack([one.example for one in examples])
        try:
            found = await self._in_context(self._losses_of(self._served.models(before), batch))
        except Exception as error:
            log.error("the loss of a version could not be computed, and learning goes on: %r", error)
        else:
            self._served.add(found, len(examples))
        finally:
            self._stage = None

    async def _react(self) -> None:
        """Do what is to be done about a drift that was detected by the last step."""
        events, self._detected = self._detected, []
        is_back = False
        for event in events:
            self._counts["drifts"] += 1
            log.warning("%s", event)
            try:
                if event.drift.then == "stop":
                    await self._pause(str(event))
                elif event.drift.then == "rollback" and not is_back:
                    await self._roll_back_after(event)
                    is_back = True
                elif callable(event.drift.then):
                    self._hooks.start(event.drift.then, event, self._context.copy())
            except Exception as error:
                self._counts["failed_reactions"] += 1
                log.error("nothing was done about the drift, and learning goes on: %s", error)
            finally:
                self._stage = None

    def _beside_model(self, batch: Any) -> Any:
        """Return a batch of arrays; of a model whose arrays are not NumPy's, as tensors on its device."""
        place = self._device
        if place.has_host_arrays:
            return batch
        return map_tree(lambda leaf: tensor(leaf, device=place) if isinstance(leaf, np.ndarray) else leaf, batch)

    async def _settle(self) -> None:
        """Wait until the results of the model can be read without the event loop waiting for the device."""
        if self._device.is_asynchronous:
            await self._device.synchronize()

    def _start_evaluation(self) -> None:
        is_running = self._evaluation_task is not None and not self._evaluation_task.done()
        if self._evaluate is None or self._steps % self._evaluate_every or is_running or self._is_replaying:
            return
        self._evaluation_task = start_task(self._run_evaluation(), self._context.copy(), "an evaluation of ag.learn")

    async def _run_evaluation(self) -> None:
        learned, model = self._published
        # Not the caller's, which somebody else may draw from now.
        GENERATOR.set(SeededGenerator([self._seed, self._steps, 1]))
        try:
            with no_grad():
                result = await MeasuredCalls().call(self._evaluate, model)  # type: ignore[arg-type]
        except BaseException as error:
            if is_cancelled(error) or isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            self._counts["failed_evaluations"] += 1
            log.exception("an evaluation of the model after %d examples failed, and the learning goes on", learned)
            return
        self._counts["evaluations"] += 1
        self.evaluation = Evaluation(learned, result)
