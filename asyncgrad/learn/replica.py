"""Replica: the model of one process, of a learner or of a follower, and what either does with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from ..core.settings.arguments import number, whole_number
from ..nn.modules.module import Module
from ..optim.optimizer import Optimizer
from .activity import Activity
from .checks import norm_of, timeout_of
from .drift import DriftMonitors
from .model_calls import ModelCalls
from .model_predictions import ModelPredictions, QueueLimits
from .model_state import ModelState
from .model_steps import ModelSteps
from .recorded_model import RecordedModel
from .replay import Replay
from .specs import check_specs

__all__ = ["Replica"]


@final
class Replica:
    """Joins the parts, each of which says what it does. The arguments are those of a Learner with the same names.

    Attributes:
        activity: what is done, and was done.
        state: the model, its optimizer, its settings.
        calls: calls the model and the loss.
        recorded: what the directory, or the journal that is followed, has of it.
        steps: makes steps.
        replay: does what the lines of a journal say.
        predictions: answers inputs.
    """

    def __init__(
        self,
        model: Module,
        loss: Callable[..., object],
        optimizer: Optimizer,
        *,
        inputs: object,
        prediction_batch_size: int,
        prediction_delay: float,
        max_pending_predictions: int,
        timeout: float | None,
        max_grad_norm: float | None,
        seed: int,
        monitors: DriftMonitors,
    ) -> None:
        check_specs(inputs, "inputs")
        limits = QueueLimits(
            whole_number(prediction_batch_size, "prediction_batch_size", 1),
            number(prediction_delay, "prediction_delay", 0),
            whole_number(max_pending_predictions, "max_pending_predictions", 1),
        )
        self.activity: Activity = Activity()
        self.state: ModelState = ModelState(model, optimizer, whole_number(seed, "seed", 0), norm_of(max_grad_norm))
        self.calls: ModelCalls = ModelCalls(model, loss)
        self.recorded: RecordedModel = RecordedModel(self.state, monitors, self.activity)
        self.steps: ModelSteps = ModelSteps(self.calls, self.recorded, self.activity)
        self.replay: Replay = Replay(self.recorded, self.steps)
        self.predictions: ModelPredictions = ModelPredictions(
            self.state, self.calls, self.activity, inputs, limits, timeout_of(timeout)
        )
