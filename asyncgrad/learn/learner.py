"""Learner: a model that answers predictions while it learns, one step after another, and survives crashes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, Self, final

from ..core.engine.eager_task import EagerTask, start_task
from ..core.settings.arguments import must_be, whole_number
from ..errors import ArgumentError, ArgumentTypeError, BusyError, JournalError, LearnerClosedError
from ..nn.modules.module import Module
from ..observing.latency import LatencyHistogram
from ..observing.live.records import Records
from ..optim.optimizer import Optimizer
from .checks import check_functions, closed_error, paused_error, timeout_of
from .directory import ModelDirectory
from .drift import Drift, DriftEvent, DriftMonitors
from .evaluations import Evaluation, Evaluations
from .lineage import CHOICES, Choice
from .lines import Record
from .model_steps import Learned
from .pending import PendingExample, PendingExamples
from .raised import told
from .reactions import DriftReactions
from .replica import Replica
from .requests import Requests
from .rollbacks import Rollbacks, RolledBack
from .served import VersionLoss
from .specs import check_specs, conform
from .statistics import Statistics
from .versions import Version, check_name

__all__ = ["Learner", "files_of", "taking_over"]


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
        check_specs(example, "example")
        monitors = DriftMonitors(drift)
        replica = Replica(
            model,
            loss,
            optimizer,
            inputs=inputs,
            prediction_batch_size=prediction_batch_size,
            prediction_delay=prediction_delay,
            max_pending_predictions=max_pending_predictions,
            timeout=timeout,
            max_grad_norm=max_grad_norm,
            seed=seed,
            monitors=monitors,
        )
        self.model: Module = model
        self.optimizer: Optimizer = optimizer
        self._path = None if directory is None else Path(directory)
        self._example_spec = example
        self._max_pending = whole_number(max_pending, "max_pending", 1)
        self._checkpoint_every = whole_number(checkpoint_every, "checkpoint_every", 1)
        self._pending = PendingExamples(whole_number(batch_size, "batch_size", 1))
        self._activity, self._trained, self._recorded = replica.activity, replica.state, replica.recorded
        self._calls, self._steps, self._replay = replica.calls, replica.steps, replica.replay
        self._predictions = replica.predictions
        self.latencies: Mapping[str, LatencyHistogram] = self._activity.latencies
        self._evaluations = Evaluations(evaluate, whole_number(evaluate_every, "evaluate_every", 1), self._activity)
        self._rollbacks = Rollbacks(self._recorded, self._learn_line, self._save_if_due, lambda: self.is_running)
        self._reactions = DriftReactions(monitors, self._activity, self._pause, self._roll_back_after)
        self._state = "new"
        self._wake = asyncio.Event()
        self._requests = Requests(self._wake, self._activity)
        self._step_task: EagerTask | None = None

    @property
    def learned(self) -> int:
        """How many examples the model has learned since it was made."""
        return self._trained.learned

    @property
    def directory(self) -> Path | None:
        """The directory that it was given; None of a learner that keeps everything in memory."""
        return self._path

    @property
    def loss(self) -> Callable[..., object]:
        """The loss, as it was given."""
        return self._calls.loss

    @property
    def evaluation(self) -> Evaluation | None:
        """The last Evaluation; None before the first."""
        return self._evaluations.last

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
        return await self._predictions.predict(inputs, version, timeout)

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
        if self._recorded.paused:
            raise paused_error(self._recorded.paused)
        given = conform(self._example_spec, example, "example")
        seconds = self._predictions.timeout if timeout is None else timeout_of(timeout)
        if len(self._pending) >= self._max_pending:
            self._activity.note("refused")
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
            self._activity.note("timed_out")
            raise TimeoutError(f"not learned within {seconds:g} s, and nothing has changed") from error
        except asyncio.CancelledError:
            if not pending.is_committed:
                self._activity.note("cancelled")
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
        directory = self._recorded.on_disk()
        if name is not None:
            directory.versions.check_is_new(check_name(name))
            version: Version = await self._requests.ask(lambda: self._recorded.save_version(name))
            return version
        await self._requests.ask_for_checkpoint()
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
        self._trained.settings_with(options, group)
        await self._requests.ask(lambda: self._recorded.set_options(options, group))

    def versions(self) -> dict[str, Version]:
        """Return the versions in the directory by their names, the oldest first, each with what it learned from."""
        directory = self._recorded.directory
        return {} if directory is None else directory.versions.all()

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
        self._recorded.on_disk().versions.find(to)
        if examples not in CHOICES:
            raise ArgumentError(f"examples must be 'skip', 'keep' or 'learn', not {examples!r}")
        result: RolledBack = await self._requests.ask(lambda: self._rollbacks.roll_back(to, examples))
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
        result: RolledBack = await self._requests.ask(self._rollbacks.learn_kept)
        return result

    async def forget(self, name: str) -> None:
        """Remove a version, and what only a rollback to it would need.

        Raises:
            ArgumentError: there is no such version.
            OSError: it could not be removed.
            LearnerClosedError: the learner does not run.
        """
        self._check_runs("forget")
        self._recorded.on_disk().versions.find(name)
        await self._requests.ask(lambda: self._recorded.forget(name))

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
            self._recorded.on_disk().versions.find(name)
        await self._requests.ask(lambda: self._serve(names))

    def losses(self) -> dict[str, VersionLoss]:
        """Return the losses of "current", which is the model, and of the versions served, on the same examples."""
        return self._predictions.served.losses()

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
        current, context = self._trained.published.model, self._steps.context
        return await self._predictions.served.losses_of(current, given, self._seeds(2), context)

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
        await self._requests.ask(lambda: self._pause(reason))

    async def resume(self) -> None:
        """Learn again after `pause`, or after a drift that has stopped learning.

        Raises:
            JournalError: it could not be written to the disk, and nothing is learned still.
        """
        self._check_runs("resume")
        await self._requests.ask(lambda: self._pause(""))

    def statistics(self) -> Statistics:
        """Return what has happened so far, as numbers."""
        directory, activity, lineage = self._recorded.directory, self._activity, self._recorded.lineage
        counts = {name: activity.counts[name] for name in Statistics.COUNTS}
        return Statistics(
            learned=self.learned,
            steps=self._trained.steps,
            replayed=self._replay.examples,
            prediction_batches=self._predictions.current.batches,
            pending=len(self._pending),
            pending_predictions=self._predictions.current.pending,
            max_pending=self._max_pending,
            max_pending_predictions=self._predictions.current.max_pending,
            journal_records=0 if directory is None else directory.records,
            torn_bytes=0 if directory is None else directory.torn,
            journal_error=None if directory is None or directory.broken is None else str(directory.broken),
            last_loss=activity.last_loss,
            stage=activity.stage,
            paused=self._recorded.paused or None,
            versions=len(self.versions()),
            kept=len(lineage.kept) + len(lineage.due),
            drift=self._recorded.drift.status(),
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
        return self._activity.keep_records()

    def _check_runs(self, what: str) -> None:
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
        self._steps.begin()
        try:
            if self._path is not None:
                await self._open(self._path)
            self._trained.publish(self.learned)
        except BaseException:
            self._state = "closed"
            self._recorded.close()
            raise
        self._state = "running"
        self._ended = asyncio.Event()
        context = self._steps.context.copy()
        self._task = start_task(self._train(), context, "ag.learn.Learner", lambda _: self._ended.set())
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
            await self._predictions.close(is_refused=self._state != "closing")
            await self._evaluations.end()
            await self._reactions.end()
        except asyncio.CancelledError as cancelled:
            cancellation = cancelled
        self._state = "closed"
        failure = self._task.exception()
        if cancellation is not None:
            raise cancellation
        if failure is not None:
            raise failure

    def _refuse(self) -> None:
        self._pending.fail(closed_error)
        if self._step_task is not None and not any(one.is_committed for one in self._pending.running):
            self._step_task.cancel()
        self._wake.set()

    async def _open(self, path: Path) -> None:
        """Load what the directory has, and learn what the journal has as it was learned before."""
        code = await self._recorded.open(path, takes_over=self._takes_over)
        if code is None:
            return
        for record in self._recorded.on_disk().replay(self.learned):
            version = await self._version_of(record, path)
            self._reactions.discard()
            loss = await self._replay.apply(record, path, version)
            if loss is not None and record.again is None:
                self._reactions.look(loss, record.examples, self.learned)
        self._recorded.confirm()
        await self._recorded.go_on(code)
        self._activity.stage = None
        self._wake.set()

    async def _version_of(self, record: Record, path: Path) -> Any:
        """Return the version that a line goes back to."""
        if record.rollback is None:
            return None
        try:
            return await self._read_version(record.rollback["to"], record.rollback["id"])
        except Exception as error:
            raise self._replay.refusal(path, error) from error

    async def _read_version(self, name: str, which: str | None = None) -> Any:
        return await asyncio.to_thread(self._recorded.on_disk().versions.read, name, which)

    def _seeds(self, use: int) -> list[int]:
        """Return the seeds of random numbers that no step draws, for one use."""
        return [self._trained.seed, self._trained.steps, use]

    # --- the task that learns --------------------------------------------------------------------

    async def _train(self) -> None:
        """Make one step after another; the only one that writes into the model and the directory."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._reactions.react(self._steps.context)
                await self._rollbacks.learn_due()
                while examples := self._pending.take():
                    if self._recorded.has_other_groups():
                        # Their parameters are in the checkpoint alone, and a line with them could not be replayed.
                        await self._recorded.save()
                    await self._learn(examples)
                    await self._reactions.react(self._steps.context)
                    await self._save_if_due()
                    await self._serve_waiters()
                    await self._rollbacks.learn_due()
                await self._serve_waiters()
                if self._state != "running":
                    return
        finally:
            await self._finish()

    async def _finish(self) -> None:
        if self._state == "running":
            # An error of its own has ended it, which the end of the block raises.
            self._state = "failed"
        try:
            await self._recorded.finish()
        finally:
            self._pending.fail(closed_error)
            self._requests.refuse()

    async def _learn(self, examples: list[PendingExample]) -> None:
        """Make the step of these examples, and tell those who wait."""
        again: list[PendingExample] = []
        before = self._trained.published.model
        try:
            # A context of its own, so that the random numbers of a step depend on its number alone.
            self._step_task = start_task(self._step(examples), self._steps.context.copy(), "a step of ag.learn.Learner")
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
            self._step_task, self._activity.stage = None, None
            self._pending.running = []
            for one in examples:
                if one not in again:
                    one.ended.set()
        if self._trained.published.model is not before and self._predictions.served:
            self._activity.stage = "compare"
            given = [one.example for one in examples]
            try:
                await self._predictions.served.compare(before, given, self._seeds(2), self._steps.context)
            finally:
                self._activity.stage = None

    def _leave(self, pending: PendingExample) -> None:
        """Somebody does not wait any more: cancel the step that was for them, unless it is being written."""
        if not pending.future.cancelled():
            return
        self._pending.remove(pending)
        if pending in self._pending.running and not pending.is_committed and self._step_task is not None:
            self._step_task.cancel()

    async def _step(self, examples: list[PendingExample], source: int | None = None) -> Learned:
        """Make the step of examples, which the line at a position has acknowledged if they are learned once more."""
        given = [one.example for one in examples]
        learned = await self._steps.make(given, lambda: self._commit(examples), source)
        if source is None:
            self._reactions.look(learned.loss, given, learned.learned)
        context = self._steps.context.copy()
        self._evaluations.start_if_due(self._trained.steps, self._trained.published, self._seeds(1), context)
        return learned

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

    async def _save_if_due(self) -> None:
        directory = self._recorded.directory
        if directory is not None and directory.records >= self._checkpoint_every:
            await self._recorded.save()

    async def _serve_waiters(self) -> None:
        """Between two steps, change the options and write the checkpoint that somebody waits for."""
        await self._requests.do_all(self._save_if_due)
        # Nothing is under way that a line says.
        self._recorded.confirm()
        await self._requests.save(self._recorded.save)

    async def _learn_line(self, source: int) -> None:
        """Make the step of a line again, as a line of its own."""
        given = await asyncio.to_thread(self._recorded.on_disk().examples_at, source)
        loop = asyncio.get_running_loop()
        examples = [PendingExample(one, loop.create_future(), None) for one in given]
        for one in examples:
            # Nobody waits for it: an error is told by the step.
            one.future.add_done_callback(lambda future: future.cancelled() or future.exception())
        self._pending.running = examples
        try:
            step = self._step(examples, source)
            self._step_task = start_task(step, self._steps.context.copy(), "a step of ag.learn.Learner")
            await self._step_task
        finally:
            self._step_task, self._activity.stage, self._pending.running = None, None, []
        self._activity.counts["learned_again"] += len(examples)

    async def _pause(self, reason: str) -> None:
        await self._recorded.pause(reason)
        if reason:
            self._pending.fail(lambda: paused_error(reason))

    async def _roll_back_after(self, event: DriftEvent) -> None:
        to = event.drift.to or self._recorded.on_disk().versions.newest()
        if to is None:
            raise ArgumentError("there is no version to go back to: await learner.checkpoint(name)")
        await self._rollbacks.roll_back(to, event.drift.examples)

    async def _serve(self, names: Sequence[str]) -> None:
        self._activity.stage = "serve"
        await self._predictions.serve(names, self._read_version)


def taking_over(learner: Learner) -> Learner:
    """Return a learner that has not begun, with what keeps others from writing that had its directory before."""
    learner._takes_over = True
    return learner


def files_of(learner: Learner) -> ModelDirectory | None:
    """Return what reads and writes a learner's directory, which others must not write to; None while it is not open."""
    return learner._recorded.directory
