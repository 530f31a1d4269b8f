"""Evaluations: a function of the user's that is called with versions of the model, beside the learning."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import NamedTuple, final

from ..core.engine.eager_task import EagerTask, start_task
from ..core.engine.measured_calls import MeasuredCalls
from ..core.settings.awaiting import is_cancelled
from ..core.settings.context import GENERATOR, SeededGenerator, no_grad
from .activity import Activity
from .model_state import Published

__all__ = ["Evaluation", "Evaluations"]

log: logging.Logger = logging.getLogger("asyncgrad.learn")


class Evaluation(NamedTuple):
    """What an evaluation returned, and how many examples the model had learned."""

    learned: int
    result: object


@final
class Evaluations:
    """Calls a function with the model now and then, one call at a time.

    Args:
        evaluate: `evaluate(model)`, plain or async; None for nothing.
        every: the number of steps between two calls.
        activity: has the counts.
    """

    def __init__(self, evaluate: Callable[..., object] | None, every: int, activity: Activity) -> None:
        self._evaluate, self._every, self._activity = evaluate, every, activity
        self._task: EagerTask | None = None
        #: The last that succeeded.
        self.last: Evaluation | None = None

    def start_if_due(self, steps: int, published: Published, seeds: Sequence[int], context: Context) -> None:
        """Begin one after so many steps, unless none is due, or the last one runs still."""
        is_running = self._task is not None and not self._task.done()
        if self._evaluate is None or steps % self._every or is_running:
            return
        work = self._run(self._evaluate, published, seeds)
        self._task = start_task(work, context, "an evaluation of ag.learn")

    async def end(self) -> None:
        """Cancel what runs still, and return once it has ended."""
        task = self._task
        if task is not None and task.cancel():
            # A worker that computes it, or what it cleans up, goes on until then
            # (test_an_evaluation_has_ended_when_its_learner_has).
            ended = asyncio.Event()
            task.add_done_callback(lambda _: ended.set())
            await ended.wait()

    async def _run(self, evaluate: Callable[..., object], published: Published, seeds: Sequence[int]) -> None:
        learned, model = published
        # Not the caller's, which somebody else may draw from now.
        GENERATOR.set(SeededGenerator(list(seeds)))
        try:
            with no_grad():
                result = await MeasuredCalls().call(evaluate, model)
        except BaseException as error:
            if is_cancelled(error) or isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            self._activity.counts["failed_evaluations"] += 1
            log.exception("an evaluation of the model after %d examples failed, and the learning goes on", learned)
            return
        self._activity.counts["evaluations"] += 1
        self.last = Evaluation(learned, result)
