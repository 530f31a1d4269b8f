"""ServedVersions: versions that are served beside the model, and their losses on the same examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, final

from ..errors import ExampleError, LearnerClosedError
from .predictions import PredictionQueue
from .versions import CURRENT

__all__ = ["ServedVersions", "VersionLoss"]


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
    """

    def __init__(self, new_queue: Callable[[Callable[[], Any]], PredictionQueue]) -> None:
        self._new_queue = new_queue
        self._models: dict[str, Any] = {}
        self._queues: dict[str, PredictionQueue] = {}
        self._losses: dict[str, VersionLoss] = {}

    def __bool__(self) -> bool:
        return bool(self._models)

    def replace(self, models: Mapping[str, Any]) -> list[PredictionQueue]:
        """Serve these models, by their names, instead; return the queues that are to be closed."""
        before = self.queues()
        self._models, self._losses = dict(models), {}
        self._queues = {name: self._new_queue(partial(models.__getitem__, name)) for name in models}
        return before

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

    def models(self, current: Any) -> dict[str, Any]:
        """Return the models by their names, and the given one as the current one."""
        return {CURRENT: current, **self._models}

    def add(self, losses: Mapping[str, float], count: int) -> None:
        """Add the losses of all on the same examples."""
        for name, loss in losses.items():
            before = self._losses.get(name, VersionLoss(0, 0.0, loss))
            seen = before.examples + count
            self._losses[name] = VersionLoss(seen, before.mean + (loss - before.mean) * count / seen, loss)

    def losses(self) -> dict[str, VersionLoss]:
        """Return the losses of each."""
        return dict(self._losses)


def was_retired() -> LearnerClosedError:
    """Return the error of who waits for a version that is served no more, and is not answered."""
    return LearnerClosedError("the version is served no more: ask the model, or another version")
