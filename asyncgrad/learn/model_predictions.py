"""ModelPredictions: what callers are answered by a model as it was published last, or by versions beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import Any, NamedTuple, final

from ..errors import BusyError
from .activity import Activity
from .checks import closed_error, timeout_of
from .model_calls import ModelCalls
from .model_state import ModelState
from .predictions import PredictionQueue
from .served import ServedVersions
from .specs import conform
from .versions import CURRENT

__all__ = ["ModelPredictions", "QueueLimits"]


class QueueLimits(NamedTuple):
    """The limits of a PredictionQueue, as it takes them."""

    batch_size: int
    delay: float
    max_pending: int


@final
class ModelPredictions:
    """Checks inputs, has them answered, and counts what becomes of them.

    Attributes:
        current: the queue of the model.
        served: the versions that are served beside it.
        timeout: the seconds that an answer takes at most, unless a caller gives others; None for no limit.

    Args:
        state: the model.
        calls: calls it.
        activity: has the counts and the latencies.
        inputs: what an input must be, as `conform` takes it.
        limits: those of each queue.
        timeout: as the attribute.
    """

    def __init__(
        self,
        state: ModelState,
        calls: ModelCalls,
        activity: Activity,
        inputs: object,
        limits: QueueLimits,
        timeout: float | None,
    ) -> None:
        self._state, self._calls, self._activity = state, calls, activity
        self._spec, self._limits, self.timeout = inputs, limits, timeout
        self.current: PredictionQueue = self._new_queue(lambda: state.published.model)
        self.served: ServedVersions = ServedVersions(self._new_queue, calls)

    def _new_queue(self, model: Callable[[], Any]) -> PredictionQueue:
        """Return a queue whose inputs the model answers that a function returns when it is their turn."""
        return PredictionQueue(lambda batch: self._calls.outputs(model(), batch), *self._limits)

    async def predict(self, inputs: object, version: str | None, timeout: float | None) -> Any:
        """Return the outputs for one input: `Learner.predict` says what its arguments are, and what it raises."""
        given = conform(self._spec, inputs, "inputs")
        queue = self.current if version in (None, CURRENT) else self.served.queue(version)
        seconds = self.timeout if timeout is None else timeout_of(timeout)
        # Not by the loop's clock, which ticks once in a millisecond on uvloop.
        began = perf_counter()
        try:
            async with asyncio.timeout(seconds):
                outputs = await queue.ask(given)
        except TimeoutError as error:
            if seconds is None:
                raise  # of the model: there is no limit
            self._activity.counts["timed_out"] += 1
            raise TimeoutError(f"not predicted within {seconds:g} s") from error
        except asyncio.CancelledError:
            self._activity.counts["cancelled"] += 1
            raise
        except BusyError:
            self._activity.counts["refused"] += 1
            raise
        self._activity.counts["predicted"] += 1
        self._activity.latencies["predict"].add(perf_counter() - began)
        return outputs

    async def serve(self, names: Sequence[str], read: Callable[[str], Awaitable[Any]]) -> None:
        """Serve versions beside the model, instead of those before; no step may be made meanwhile.

        Args:
            names: the names of the versions.
            read: returns the state of a version.
        """
        await self.served.serve(names, read, self._state)

    async def close(self, *, is_refused: bool) -> None:
        """Answer what waits, or refuse it; return once nothing runs."""
        for queue in (self.current, *self.served.queues()):
            await queue.close(closed_error, is_refused)
