"""ModelSteps: the steps of a model, each a gradient, a line of the journal, and an update; or nothing at all."""

from __future__ import annotations

import asyncio
import contextvars
import math
from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple, final

from ..core.backward import backward
from ..core.settings.arguments import describe
from ..core.settings.context import GENERATOR, SeededGenerator
from ..core.tensor import Tensor
from ..data.stacking import stack
from ..errors import ArgumentTypeError, ExampleError, InvalidGradientError
from ..optim.clipping import clip_grad_norm
from .activity import Activity
from .checks import trained_by
from .model_calls import ModelCalls, in_context
from .recorded_model import RecordedModel
from .settings import Settings

__all__ = ["Learned", "ModelSteps"]


class Learned(NamedTuple):
    """What became of an example: the loss of its step, before it; and how many examples the model has then learned."""

    loss: float
    learned: int


@final
class ModelSteps:
    """Makes steps, new ones and those of a journal, in the same way; one that fails or is cancelled changes nothing.

    Only one task at a time may await its methods.

    Attributes:
        context: that of who has begun; a step is made in a copy of it.

    Args:
        calls: calls the loss.
        recorded: the model.
        activity: has the stage and the counts.
    """

    context: contextvars.Context

    def __init__(self, calls: ModelCalls, recorded: RecordedModel, activity: Activity) -> None:
        self._calls, self._recorded, self._activity = calls, recorded, activity

    def begin(self) -> None:
        """Put the model into training mode, and have the context of now be that of the steps."""
        self._recorded.state.model.train()
        self.context = contextvars.copy_context()

    async def make(self, examples: list[Any], commit: Callable[[], None], source: int | None = None) -> Learned:
        """Differentiate, write to the journal, update and publish; or change nothing.

        A new context is to await it, so that the random numbers of a step depend on its number alone.

        Args:
            examples: those of the step.
            commit: called once there is a gradient; raises a CancelledError if the step is not to be made.
            source: the position of the line that has acknowledged them, if they are learned once more.

        Raises:
            ExampleError: the loss or the gradient is not finite.
            JournalError: it could not be written to the disk.
        """
        return await self._make(examples, source, commit)

    async def make_again(self, examples: list[Any], source: int | None) -> float:
        """Make the step of a line of the journal, with random numbers that are not the caller's; return its loss.

        Args:
            examples: those of the step.
            source: the position of the line that has acknowledged them; None is the last that the directory has read.
        """
        learned: Learned = await in_context(self._make(examples, source, None), self.context)
        return learned.loss

    async def _make(self, examples: list[Any], source: int | None, commit: Callable[[], None] | None) -> Learned:
        activity, recorded, state = self._activity, self._recorded, self._recorded.state
        GENERATOR.set(SeededGenerator([state.seed, state.steps]))
        began, is_stepping, optimizer_state = perf_counter(), False, state.foreign_optimizer_state()
        settings: Settings | None = None
        try:
            loss = await self._differentiate(stack(examples), is_replay=commit is None)
            if commit is not None:
                commit()
                settings = await recorded.write_step(examples, loss, source)
            activity.stage, is_stepping = "step", True
            await state.step(settings)
        except BaseException as error:
            if commit is not None:
                self._note_failure(error)
            if settings is not None:
                await recorded.take_back()
            state.undo_step(is_stepping, optimizer_state)
            raise
        state.optimizer.zero_grad()
        state.steps += 1
        activity.last_loss = loss
        if settings is not None:
            recorded.has_written(settings)
        recorded.has_learned(source)
        state.publish(state.learned + len(examples))
        if commit is not None:
            activity.latencies["step"].add(perf_counter() - began)
            if activity.records is not None:
                activity.records.add("done", loss, len(examples))
            recorded.confirm()
        return Learned(loss, state.learned)

    def _note_failure(self, error: BaseException) -> None:
        activity = self._activity
        if activity.stage is None:
            return
        activity.counts[f"ended_in_{activity.stage}"] += 1
        if activity.records is not None and not isinstance(error, asyncio.CancelledError):
            activity.records.add("failed")

    async def _differentiate(self, batch: Any, is_replay: bool) -> float:
        """Add the gradients of a batch to the parameters, and return the loss."""
        state = self._recorded.state
        self._activity.stage = "forward"
        state.optimizer.zero_grad()
        loss = await self._calls.differentiable_loss(state.model, batch, is_replay)
        if not isinstance(loss, Tensor) or loss.size != 1:
            what = f"a tensor of shape {loss.shape}" if isinstance(loss, Tensor) else describe(loss)
            raise ArgumentTypeError(f"loss(model, batch) must return a scalar tensor, and returned {what}")
        await self._calls.settle()
        value = float(loss.item())
        if not math.isfinite(value):
            raise ExampleError(f"the loss is {value} for this example, so it was not learned")
        self._activity.stage = "backward"
        # The last slice of the forward, the first of the backward, and what follows the last are a millisecond each:
        # requests are answered in between.
        await asyncio.sleep(0)
        await backward(loss)
        await asyncio.sleep(0)
        # Frees the graph.
        del loss
        await asyncio.sleep(0)
        try:
            clip_grad_norm(trained_by(state.optimizer), state.max_grad_norm)
        except InvalidGradientError as error:
            raise ExampleError(f"the gradient of this example is not finite, so it was not learned: {error}") from error
        return value
