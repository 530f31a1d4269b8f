"""ServedVersions: versions that are served beside the model, and their losses on the same examples."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from functools import partial
from typing import Any, NamedTuple, final

from ..data.stacking import stack
from ..errors import ExampleError, LearnerClosedError
from .model_calls import ModelCalls, in_context
from .model_state import ModelState
from .predictions import PredictionQueue
from .versions import CURRENT

__all__ = ["ServedVersions", "VersionLoss"]

log: logging.Logger = logging.getLogger("asyncgrad.learn")


class VersionLoss(NamedTuple):
    """How a version does on the examples that came since it is served, each before it was learned."""

    #: How many examples there were.
    examples: int
    #: The mean of the losses.
    mean: float
    #: The loss of the last step's examples.
    last: float


@final
class ServedVersions:
    """The versions that answer predictions, each by a queue of its own.

    Args:
        new_queue: makes the queue of the model that a function returns.
        calls: calls the loss.
    """

    def __init__(self, new_queue: Callable[[Callable[[], Any]], PredictionQueue], calls: ModelCalls) -> None:
        self._new_queue, self._calls = new_queue, calls
        self._models: dict[str, Any] = {}
        self._queues: dict[str, PredictionQueue] = {}
        self._losses: dict[str, VersionLoss] = {}

    def __bool__(self) -> bool:
        return bool(self._models)

    async def serve(self, names: Sequence[str], read: Callable[[str], Awaitable[Any]], state: ModelState) -> None:
        """Serve versions instead of those before; no step may be made meanwhile.

        Args:
            names: their names.
            read: returns the state of a version.
            state: the model that they are versions of.

        Raises:
            ArgumentError, ModelDirectoryError: one does not fit the model, or is damaged; those before are served.
        """
        models = {}
        for name in dict.fromkeys(names):
            tree = await read(name)
            models[name] = state.snapshot_of(tree["model"])
        before = self.queues()
        self._models, self._losses = models, {}
        self._queues = {name: self._new_queue(partial(models.__getitem__, name)) for name in models}
        for queue in before:
            await queue.close(_was_retired, is_refused=False)

    def names(self) -> list[str]:
        """Return the names of the versions."""
        return list(self._models)

    def queues(self) -> list[PredictionQueue]:
        """Return the queues of the versions."""
        return list(self._queues.values())

    def queue(self, name: object) -> PredictionQueue:
        """Return the queue of a version.

        Raises:
            ExampleError: it is not served.
        """
        found = self._queues.get(name) if isinstance(name, str) else None
        if found is None:
            known = ", ".join(map(repr, [CURRENT, *self._queues]))
            raise ExampleError(f"version must be one that is served, {known}, not {name!r}: await learner.serve(...)")
        return found

    async def losses_of(
        self, current: Any, examples: Sequence[Any], seeds: Sequence[int], context: Context
    ) -> dict[str, float]:
        """Return the losses of a model, as the current one, and of the versions on a batch of examples.

        Args:
            current: the model.
            examples: the examples, without an axis for a batch.
            seeds: of the random numbers that the losses draw.
            context: in a copy of which they are called.
        """
        models = {CURRENT: current, **self._models}
        found: dict[str, float] = await in_context(self._calls.losses(models, stack(examples), seeds), context)
        return found

    async def compare(self, current: Any, examples: Sequence[Any], seeds: Sequence[int], context: Context) -> None:
        """Add the losses that `losses_of` returns; log what keeps them from being computed."""
        try:
            found = await self.losses_of(current, examples, seeds, context)
        except Exception as error:
            log.error("the loss of a version could not be computed, and learning goes on: %r", error)
            return
        for name, loss in found.items():
            before = self._losses.get(name, VersionLoss(0, 0.0, loss))
            seen = before.examples + len(examples)
            mean = before.mean + (loss - before.mean) * len(examples) / seen
            self._losses[name] = VersionLoss(seen, mean, loss)

    def losses(self) -> dict[str, VersionLoss]:
        """Return the losses of each."""
        return dict(self._losses)


def _was_retired() -> LearnerClosedError:
    """Return the error of who waits for a version that is served no more, and is not answered."""
    return LearnerClosedError("the version is served no more: ask the model, or another version")
