"""Learner: a model that answers predictions while it learns, one step after another, and survives crashes."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import inspect
import logging
import math
import os
import shlex
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, NamedTuple, Self, final

import numpy as np

from ..core.backward import backward
from ..core.engine.device import Device, device
from ..core.engine.eager_task import EagerTask, start_task
from ..core.engine.measured_calls import MeasuredCalls
from ..core.settings.arguments import check_function, describe, must_be, number, whole_number
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
from .directory import ModelDirectory
from .lines import Record
from .pending import PendingExample, PendingExamples
from .predictions import PredictionQueue
from .raised import told
from .settings import Settings, apply_options, changed_groups, check_options, differences, options_of
from .specs import check_specs, conform
from .statistics import Statistics, new_latencies

__all__ = ["Evaluation", "Learned", "Learner"]

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


class _Change(NamedTuple):
    """Options of the optimizer that are to be set between two steps, and what tells that they are."""

    options: dict[str, Any]
    group: int | None
    done: asyncio.Future[None]


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
        seed: int = 0,
    ) -> None:
        _check_functions(model, loss, optimizer, evaluate)
        check_specs(inputs, "inputs")
        check_specs(example, "example")
        self.model: Module = model
        self.optimizer: Optimizer = optimizer
        self._loss = loss
        self._path = None if directory is None else Path(directory)
        self._input_spec, self._example_spec = inputs, example
        self._max_pending = whole_number(max_pending, "max_pending", 1)
        self._timeout = _timeout(timeout)
        self._max_grad_norm = math.inf if max_grad_norm is None else number(max_grad_norm, "max_grad_norm", 0)
        self._checkpoint_every = whole_number(checkpoint_every, "checkpoint_every", 1)
        self._evaluate, self._evaluate_every = evaluate, whole_number(evaluate_every, "evaluate_every", 1)
        self._seed = whole_number(seed, "seed", 0)
        self.evaluation: Evaluation | None = None
        self._counts: Counter[str] = Counter()
        self.latencies: Mapping[str, LatencyHistogram] = new_latencies()
        self._pending = PendingExamples(whole_number(batch_size, "batch_size", 1))
        self._predictions = PredictionQueue(
            self._answer,
            whole_number(prediction_batch_size, "prediction_batch_size", 1),
            number(prediction_delay, "prediction_delay", 0),
            whole_number(max_pending_predictions, "max_pending_predictions", 1),
        )
        self._model_calls, self._loss_calls = MeasuredCalls(), MeasuredCalls()
        self._published = _Published(0, model)
        #: Where the model is.
        self._device: Device = next((param.device for param in model.parameters()), device("cpu"))
        self._steps = self._replayed = 0
        self._last_loss: float | None = None
        self._recorded: str | None = None  # the text of the settings that the directory has
        self._stage: str | None = None
        self._state = "new"
        self._directory: ModelDirectory | None = None
        self._wake = asyncio.Event()
        self._step_task: EagerTask | None = None
        self._evaluation_task: EagerTask | None = None
        self._checkpoint_waiters: list[asyncio.Future[None]] = []
        self._option_waiters: list[_Change] = []

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

    async def predict(self, inputs: object, *, timeout: float | None = None) -> Any:
        """Return the outputs of the model for one input, as arrays; several callers share a call of the model.

        Args:
            inputs: a tree of arrays, numbers, or lists of numbers, without an axis for a batch.
            timeout: the seconds that it may take; None for the learner's own.

        Raises:
            ExampleError: `inputs` are not what the learner was told they are; the message names the place.
            BusyError: too many predictions are waited for.
            TimeoutError: it took too long.
            LearnerClosedError: the learner does not run.
        """
        self._check_runs("predict")
        given = conform(self._input_spec, inputs, "inputs")
        seconds = self._timeout if timeout is None else _timeout(timeout)
        # Not by the loop's clock, which ticks once in a millisecond on uvloop.
        began = perf_counter()
        try:
            async with asyncio.timeout(seconds):
                outputs = await self._predictions.ask(given)
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
            LearnerClosedError: the learner does not run.
        """
        self._check_runs("learn")
        given = conform(self._example_spec, example, "example")
        seconds = self._timeout if timeout is None else _timeout(timeout)
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

    async def checkpoint(self) -> None:
        """Write a checkpoint, after the step that runs.

        Raises:
            OSError: it could not be written; the former one and the journal are kept.
            ArgumentError: the learner has no directory.
        """
        self._check_runs("checkpoint")
        if self._directory is None:
            raise ArgumentError("this learner has no directory for a checkpoint: make it with directory=...")
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._checkpoint_waiters.append(waiter)
        self._wake.set()
        await waiter

    async def set_options(self, *, group: int | None = None, **options: object) -> None:
        """Change options of the optimizer, such as `lr=0.01`, from the next step on; return once that is on the disk.

        What is set in `optimizer.param_groups`, as by a schedule, is written with the next step, and so is lost if the
        process is killed before there is one.

        Args:
            group: the number of the group of parameters; None for all.
            options: the new values.

        Raises:
            ArgumentError, ArgumentTypeError: the optimizer has no such option, or does not take the value.
            JournalError: it could not be written to the disk, and nothing has changed.
            LearnerClosedError: the learner does not run.
        """
        self._check_runs("set_options")
        changed_groups(self.optimizer, options, group)
        change = _Change(options, group, asyncio.get_running_loop().create_future())
        self._option_waiters.append(change)
        self._wake.set()
        await change.done

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
            await self._predictions.close(_closed, is_refused=self._state != "closing")
            await self._end_evaluation()
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
        self._load(state)
        self._publish(self.learned)

    async def _end_following(self, is_refused: bool) -> None:
        self._state = "closed"
        await self._predictions.close(_closed, is_refused=is_refused)

    async def _end_evaluation(self) -> None:
        task = self._evaluation_task
        if task is not None and task.cancel():
            # A worker that computes it, or what it cleans up, goes on until then
            # (test_an_evaluation_has_ended_when_its_learner_has).
            ended = asyncio.Event()
            task.add_done_callback(lambda _: ended.set())
            await ended.wait()

    def _refuse(self) -> None:
        self._pending.fail(_closed)
        if self._step_task is not None and not any(one.is_committed for one in self._pending.running):
            self._step_task.cancel()
        self._wake.set()

    async def _open(self, path: Path) -> None:
        directory = await asyncio.to_thread(self._open_directory, path)
        state = await asyncio.to_thread(directory.checkpoint)
        code = self._settings()
        #: How many parameters the groups have in the directory.
        self._sizes = self._group_sizes()
        if state is None:
            await asyncio.to_thread(directory.begin, self._checkpoint_state(code))
            self._recorded = code.text()
            return
        try:
            self._load(state)
        except Exception as error:
            raise ModelDirectoryError(
                f"the checkpoint in {path} does not fit this model or optimizer: {error}"
            ) from error
        await self._replay(directory)
        # What is in force goes on: what the code gives holds at the first start alone.
        for name, record, given in differences(options_of(self.optimizer), code.groups):
            text = (
                "%s: %s is %r, as in the directory, and not %r, as in the code: await learner.set_options() changes it"
            )
            log.warning(text, path, name, record, given)
        for name in ("seed", "max_grad_norm"):
            if (record := getattr(self._settings(), name)) != (given := getattr(code, name)):
                log.warning("%s: %s was %r there, and is %r from here on, as in the code", path, name, record, given)
        self._seed, self._max_grad_norm = code.seed, code.max_grad_norm
        self._stage = None

    def _open_directory(self, path: Path) -> ModelDirectory:
        self._directory = ModelDirectory(path, takes_over=self._takes_over)
        if self._state == "closed":
            # The start was cancelled while this thread ran, and saw nothing to close.
            self._directory.close()
        return self._directory

    def _load(self, state: Any) -> None:
        """Go on from a checkpoint; raise if it is of another model or optimizer."""
        learned, steps = state["learned"], state["steps"]
        if type(learned) is not int or type(steps) is not int:
            raise ArgumentError(f"it has learned {learned!r} examples in {steps!r} steps")
        if state["optimizer_type"] != type(self.optimizer).__name__:
            raise ArgumentError(f"it is one of {state['optimizer_type']}, not {type(self.optimizer).__name__}")
        own = self._tensors()
        missing = own.keys() - state["model"].keys()
        if missing:
            raise ArgumentError(f"it lacks {', '.join(sorted(missing))}")
        for name, one in own.items():
            if (dtype := state["model"][name].dtype) != one.dtype:
                raise ArgumentError(f"{name} has dtype {one.dtype}, and there {dtype}: make the model with that one")
        # The state of an optimizer is by number.
        if (found := state.get("params", self._params())) != self._params():
            raise ArgumentError(f"its optimizer has the parameters {found}, and this one {self._params()}")
        self.model.update(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self._published, self._steps = _Published(learned, self.model), steps
        if "settings" in state:
            self._take(state["settings"])

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
            if record.settings is not None:
                self._take(record.settings)
            found = (await self._step_again(again)).loss if again else record.loss
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

    async def _step_again(self, examples: list[PendingExample]) -> Learned:
        """Make the step of examples of the journal again, with random numbers that are not the caller's."""
        streams = RandomStreams(())
        around = StreamReplay(streams, streams.start).run
        learned: Learned = await ContextAwaitable(self._step(examples, is_replay=True), self._context.copy(), around)
        return learned

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
        }

    # --- the task that learns --------------------------------------------------------------------

    async def _train(self) -> None:
        """Make one step after another; the only one that writes into the model and the directory."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while examples := self._pending.take():
                    if self._directory is not None and self._sizes != self._group_sizes():
                        # Their parameters are in the checkpoint alone, and a line with them could not be replayed.
                        await self._save()
                    await self._learn(examples)
                    await self._save_if_due()
                    await self._serve_waiters()
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
            self._pending.fail(_closed)
            for waiter in [*self._checkpoint_waiters, *(change.done for change in self._option_waiters)]:
                if not waiter.done():
                    waiter.set_exception(_closed())

    async def _learn(self, examples: list[PendingExample]) -> None:
        """Make the step of these examples, and tell those who wait."""
        again: list[PendingExample] = []
        try:
            # A context of its own, so that the random numbers of a step depend on its number alone.
            self._step_task = start_task(self._step(examples), self._context.copy(), "a step of ag.learn.Learner")
            learned = await self._step_task
        except (KeyboardInterrupt, SystemExit):
            for one in examples:
                one.fail(_closed())
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

    def _leave(self, pending: PendingExample) -> None:
        """Somebody does not wait any more: cancel the step that was for them, unless it is being written."""
        if not pending.future.cancelled():
            return
        self._pending.remove(pending)
        if pending in self._pending.running and not pending.is_committed and self._step_task is not None:
            self._step_task.cancel()

    async def _step(self, examples: list[PendingExample], is_replay: bool = False) -> Learned:
        """Differentiate, write to the journal, update and publish; or change nothing."""
        GENERATOR.set(SeededGenerator([self._seed, self._steps]))
        began = perf_counter()
        is_written, is_stepping, before = False, False, self._state_of_foreign_optimizer()
        try:
            loss = await self._differentiate(stack([one.example for one in examples]))
            if not is_replay:
                self._commit(examples)
                settings = await self._write(examples, loss)
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
            clip_grad_norm(_trained(self.optimizer), self._max_grad_norm)
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

    async def _write(self, examples: list[PendingExample], loss: float) -> Settings | None:
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
        changed = None if text == self._recorded else text
        await asyncio.to_thread(self._directory.append, self.learned, [one.example for one in examples], changed, loss)
        return settings

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
        self._recorded = written

    def _publish(self, learned: int) -> None:
        self._published = _Published(learned, self.model.snapshot())

    async def _save_if_due(self) -> None:
        if self._directory is not None and self._directory.records >= self._checkpoint_every:
            await self._save()

    async def _serve_waiters(self) -> None:
        """Between two steps, change the options and write the checkpoint that somebody waits for."""
        while self._option_waiters:
            await self._change(self._option_waiters.pop(0))
            await self._save_if_due()
        if self._directory is not None:
            # Nothing is under way that a line says.
            self._directory.confirm()
        if self._checkpoint_waiters:
            await self._save_for_waiters()

    async def _change(self, change: _Change) -> None:
        """Write a change of options to the journal, make it, and tell who waits."""
        if change.done.done():
            return
        try:
            groups = changed_groups(self.optimizer, change.options, change.group)
            text = Settings(self._seed, self._max_grad_norm, groups).text()
            if self._directory is not None:
                self._stage = "journal"
                await asyncio.to_thread(self._directory.append, self.learned, [], text)
                self._recorded = text
            own = self.optimizer.param_groups
            for group in own if change.group is None else [own[change.group]]:
                group.update(change.options)
        except Exception as error:
            if not change.done.done():
                change.done.set_exception(error)
        else:
            if not change.done.done():
                change.done.set_result(None)
        finally:
            self._stage = None

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
        return self._settings_to_save().text() != self._recorded

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
        self._recorded, self._sizes = settings.text(), sizes
        self._counts["checkpoints"] += 1
        return None

    def _save_now(self, directory: ModelDirectory, settings: Settings) -> None:
        # Nobody writes into the model meanwhile: the task that learns waits for this.
        directory.save_checkpoint(self._checkpoint_state(settings))

    async def _save_for_waiters(self) -> None:
        waiters, self._checkpoint_waiters = self._checkpoint_waiters, []
        if not waiters:
            return
        error: BaseException | None
        try:
            error = await self._save()
        except BaseException:
            # It ends the learner.
            error = _closed()
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

    async def _answer(self, batch: Any) -> Any:
        with no_grad():
            answer = await self._model_calls.call(self._published.model, self._beside_model(batch))
        await self._settle()
        return answer

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


def _closed() -> LearnerClosedError:
    return LearnerClosedError("the learner was closed before this was done, and nothing has changed")


def _check_functions(model: Any, loss: Any, optimizer: Any, evaluate: Any) -> None:
    if evaluate is not None:
        check_function(evaluate, "evaluate")
    if not isinstance(model, Module):
        raise ArgumentTypeError(must_be("model", "an nn.Module", model))
    if not callable(loss):
        raise ArgumentTypeError(must_be("loss", "a function, which is called as loss(model, batch)", loss))
    try:
        inspect.signature(loss).bind(model, None)
    except TypeError as error:
        raise ArgumentTypeError(f"loss is called as loss(model, batch), and cannot be: {error}") from None
    except ValueError:
        pass  # a function written in C, which does not tell what it takes
    if not isinstance(optimizer, Optimizer):
        raise ArgumentTypeError(must_be("optimizer", "one of ag.optim", optimizer))
    own = {id(param) for param in model.parameters()}
    others = [param for param in _trained(optimizer) if id(param) not in own]
    if others:
        raise ArgumentError(
            f"optimizer has {len(others)} parameters that are not of this {type(model).__name__}, the first of "
            f"shape {others[0].shape}: make it with the model, as in optim.Adam(model)"
        )


def _trained(optimizer: Optimizer) -> list[Tensor]:
    return [param for group in optimizer.param_groups for param in group["params"] if param.requires_grad]


def _timeout(value: Any) -> float | None:
    if value is None:
        return None
    seconds: float = number(value, "timeout", 0)
    if not seconds > 0:
        raise ArgumentError(f"timeout must be a number of seconds above 0, not {value!r}")
    return seconds
