"""How long bodies take: a running mean for each kind of body, which starts from an estimate."""

from __future__ import annotations

from typing import Any, final

__all__ = ["Costs"]

#: A new measurement has at least the weight 1 / _MAX_COUNT, so that the mean follows changes of load.
_MAX_COUNT = 8
#: From this many runs on, the estimate counted as one, the mean is meaningful.
_MIN_COUNT = 4
#: A run counts for at most this many times the mean.
_MAX_RATIO = 8
#: How many kinds are remembered; beyond that, the oldest are dropped.
_MAX_KINDS = 4096


@final
class Costs:
    """Running means of seconds, by kind of body. Threads share it without a lock: a lost update does no harm."""

    __slots__ = ("_means",)

    def __init__(self) -> None:
        self._means: dict[Any, tuple[int, float]] = {}

    def expected(self, kind: Any, estimate: float) -> float:
        """Return how many seconds a run is expected to take: the mean, or the estimate if there is no mean yet."""
        known = self._means.get(kind)
        return estimate if known is None else known[1]

    def note(self, kind: Any, estimate: float, seconds: float) -> float | None:
        """Add a measurement to the mean; return the mean, or None while it is made of too few runs."""
        means = self._means
        known = means.get(kind)
        if known is None:
            if len(means) >= _MAX_KINDS:
                # Another thread may have removed it already.
                means.pop(next(iter(tuple(means))), None)
            known = 1, estimate
        count, mean = known
        # A run seems to take long if its thread is suspended by the system in the middle.
        seconds = min(seconds, _MAX_RATIO * mean)
        count = min(count + 1, _MAX_COUNT)
        mean += (seconds - mean) / count
        means[kind] = count, mean
        return mean if count >= _MIN_COUNT else None
