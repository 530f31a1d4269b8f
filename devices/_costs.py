"""How long bodies take: a running mean for each kind of run, which starts from an estimate."""

from __future__ import annotations

from typing import Any, final

__all__ = ["Costs"]

#: A mean follows what is new by at least one such part of the difference; noise and changes of load are forgotten.
_MEMORY = 8
#: From so many runs on a mean, which the estimate is one of, says something.
_FEW = 4
#: A run counts for at most so many times the mean.
_SURPRISE = 8
#: How many kinds of run are remembered; beyond that, those that were met first are forgotten.
_KINDS = 4096


@final
class Costs:
    """Running means of seconds, by kind of run. Threads may share one: what they mix up is noise."""

    __slots__ = ("_means",)

    def __init__(self) -> None:
        self._means: dict[Any, tuple[int, float]] = {}

    def expected(self, kind: Any, estimate: float) -> float:
        """Return how long a run is expected to take, in seconds: the mean, or before there is one the estimate."""
        known = self._means.get(kind)
        return estimate if known is None else known[1]

    def note(self, kind: Any, estimate: float, seconds: float) -> float | None:
        """Take a measurement into the mean; return that, or None as long as there are few."""
        means = self._means
        known = means.get(kind)
        if known is None:
            if len(means) >= _KINDS:
                # Another thread may have been quicker.
                means.pop(next(iter(tuple(means))), None)
            known = 1, estimate
        count, mean = known
        # A thread that is put aside in mid-run seems to take long.
        seconds = min(seconds, _SURPRISE * mean)
        count = min(count + 1, _MEMORY)
        mean += (seconds - mean) / count
        means[kind] = count, mean
        return mean if count >= _FEW else None
