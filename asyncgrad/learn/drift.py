"""Drift: what tells that losses or inputs are no longer what they were, and what a learner does about it.

The detectors are Page and Hinkley's test and ADWIN. They are written out here, since what they have seen is in the
checkpoint, as plain numbers, and a replay of the journal shows them the same values again: a start goes on watching
where a killed process was. The objects of a library could be written down by pickles alone, and the directory has none.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal, NamedTuple, final

from ..core.engine.eager_task import EagerTask, start_task
from ..core.settings.arguments import check_callable, must_be, number, whole_number
from ..errors import ArgumentError, ArgumentTypeError
from .lineage import CHOICES, Choice
from .versions import check_name

__all__ = [
    "ADWIN",
    "Change",
    "Drift",
    "DriftDetector",
    "DriftEvent",
    "DriftHooks",
    "DriftMonitors",
    "DriftStatus",
    "PageHinkley",
]

log: logging.Logger = logging.getLogger("asyncgrad.learn")

#: What a detector is shown of larger values, whose squares would overflow: a model that diverges has such losses.
LARGEST = 1e100


class Change(NamedTuple):
    """The means of the values before and after they have changed."""

    before: float
    after: float


class DriftDetector(ABC):
    """Abstract: is shown one value after another, and tells when they have changed.

    `repr` names it with its arguments: what it has seen is taken over by a start with an equal one.
    """

    __slots__ = ()

    @abstractmethod
    def update(self, value: float) -> Change | None:
        """Take a value from -1e100 to 1e100; return the change that it shows, if any; then only later ones count."""

    @abstractmethod
    def reset(self) -> None:
        """Forget all values."""

    @property
    @abstractmethod
    def window(self) -> tuple[int, float]:
        """How many values count now, and their mean; (0, 0.0) before the first."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return what it has seen, as dicts and lists of numbers, without arrays."""

    @abstractmethod
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned."""


@final
class _Deviation:
    """The sum of how far values lie on one side of their mean, and where it was least: if they changed, then there."""

    __slots__ = ("count", "least", "sign", "sum", "total")

    def __init__(self, sign: int) -> None:
        self.sign = sign
        self.sum = self.least = self.total = 0.0
        self.count = 0

    def add(self, value: float, mean: float, delta: float) -> float:
        """Take a value; return how far the sum has risen since it was least."""
        self.sum += self.sign * (value - mean) - delta
        self.count += 1
        self.total += value
        if self.sum <= self.least:
            self.least, self.count, self.total = self.sum, 0, 0.0
        return self.sum - self.least


@final
class PageHinkley(DriftDetector):
    """Page and Hinkley's test: the mean has changed once values lie on one side of it for long enough.

    With `m` the mean of the values x so far, it adds up x - m - delta, and tells a rise where the sum exceeds its least
    value by more than the threshold; of a fall, the same of -x. Page, Continuous inspection schemes, Biometrika 41
    (1954); as in Gama, Sebastião and Rodrigues, On evaluating stream learning algorithms, Machine Learning 90 (2013).
    A value takes the same time whatever came before it.

    Args:
        delta: the change of the mean that is none, in units of the values.
        threshold: the sum of changes that is a drift, in the same units: a lower one is met sooner, and by chance.
        min_count: how many values there are before any drift.

    Example:
        >>> detector = PageHinkley(threshold=5)
        >>> changes = [detector.update(value) for value in 100 * [0.5] + 10 * [1.5]]
        >>> changes[:105] == 105 * [None], [change for change in changes if change]
        (True, [Change(before=0.5, after=1.5)])
    """

    __slots__ = ("_arguments", "_count", "_delta", "_min_count", "_sides", "_threshold", "_total")

    def __init__(self, *, delta: float = 0.005, threshold: float = 50.0, min_count: int = 30) -> None:
        self._delta = number(delta, "delta", 0)
        self._threshold = number(threshold, "threshold", 0)
        self._min_count = whole_number(min_count, "min_count", 1)
        self.reset()

    def __repr__(self) -> str:
        return f"PageHinkley(delta={self._delta}, threshold={self._threshold}, min_count={self._min_count})"

    def reset(self) -> None:
        """Forget all values."""
        self._count, self._total = 0, 0.0
        self._sides = [_Deviation(1), _Deviation(-1)]

    def update(self, value: float) -> Change | None:
        """Take a value from -1e100 to 1e100; return the change that it shows, if any; then only later ones count."""
        self._count += 1
        self._total += value
        mean = self._total / self._count
        risen = [side.add(value, mean, self._delta) for side in self._sides]
        if self._count < self._min_count or max(risen) <= self._threshold:
            return None
        side = self._sides[risen.index(max(risen))]
        earlier = self._count - side.count
        before = (self._total - side.total) / earlier if earlier else mean
        found = Change(before, side.total / side.count)
        self.reset()
        return found

    @property
    def window(self) -> tuple[int, float]:
        """How many values count now, and their mean."""
        return self._count, self._total / self._count if self._count else 0.0

    def state_dict(self) -> dict[str, Any]:
        """Return what it has seen, as numbers."""
        sides = [[side.sum, side.least, side.count, side.total] for side in self._sides]
        return {"count": self._count, "total": self._total, "sides": sides}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        self._count, self._total = state_dict["count"], state_dict["total"]
        for side, found in zip(self._sides, state_dict["sides"], strict=True):
            side.sum, side.least, side.count, side.total = found


@final
class ADWIN(DriftDetector):
    """Adaptive windowing: the mean has changed where two parts of the window differ by more than chance explains.

    The window has the latest values, as long as they are alike: n values with the variance v are cut into n0 older and
    n1 newer ones where their means differ by more than sqrt(2 v d / m) + 2 d / (3 m), with 1 / m = 1 / n0 + 1 / n1 and
    d = ln(2 ln(n) / delta), and the older ones are dropped: at the clearest cut, all at once, so that one change is
    told once, where the paper drops group after group. For values from 0 to 1, a cut without a change has the
    probability `delta`; larger ones are cut sooner. Of n values, sums of some log n groups are kept. Bifet and Gavaldà,
    Learning from time-changing data with adaptive windowing, SIAM International Conference on Data Mining (2007).

    Args:
        delta: the probability of a drift that is none.
        clock: how many values come between two looks.
        max_groups: how many groups of each size there are: more are more exact, and take longer.
        min_count: how many values each part has at least.

    Example:
        >>> detector = ADWIN()
        >>> changes = [detector.update(value) for value in 320 * [0.2, 0.3] + 64 * [0.8]]
        >>> [(round(change.before, 2), round(change.after, 2)) for change in changes if change][0]
        (0.25, 0.8)
    """

    __slots__ = ("_clock", "_count", "_delta", "_max_groups", "_min_count", "_rows", "_seen", "_total", "_variance")

    def __init__(self, *, delta: float = 0.002, clock: int = 32, max_groups: int = 5, min_count: int = 5) -> None:
        self._delta = number(delta, "delta", 0)
        if not 0 < self._delta < 1:
            raise ArgumentError(f"delta must be a probability between 0 and 1, not {delta!r}")
        self._clock = whole_number(clock, "clock", 1)
        self._max_groups = whole_number(max_groups, "max_groups", 1)
        self._min_count = whole_number(min_count, "min_count", 1)
        self.reset()

    def __repr__(self) -> str:
        return (
            f"ADWIN(delta={self._delta}, clock={self._clock}, max_groups={self._max_groups}, "
            f"min_count={self._min_count})"
        )

    def reset(self) -> None:
        """Forget all values."""
        self._count = self._seen = 0
        #: The sum of the values; and of the squares of their distances from the mean.
        self._total = self._variance = 0.0
        #: Row k has groups of 2 ** k values, the oldest first: their sums of both kinds.
        self._rows: list[list[tuple[float, float]]] = [[]]

    def update(self, value: float) -> Change | None:
        """Take a value from -1e100 to 1e100; return the change that it shows, if any; then only later ones count."""
        self._grow(1, value, 0.0)
        self._seen += 1
        self._rows[0].append((value, 0.0))
        self._merge()
        return self._cut() if self._seen % self._clock == 0 else None

    def _grow(self, size: int, total: float, variance: float) -> None:
        """Add so many values to the sums."""
        self._variance += variance + _apart(size, total / size, self._count, self._total / max(self._count, 1))
        self._count += size
        self._total += total

    def _merge(self) -> None:
        """Have no more groups of a size than may be: the two oldest become one of the next size."""
        for level, row in enumerate(self._rows):
            if len(row) <= self._max_groups:
                return
            (one, one_variance), (other, other_variance) = row.pop(0), row.pop(0)
            size = 1 << level
            apart = _apart(size, one / size, size, other / size)
            if level + 1 == len(self._rows):
                self._rows.append([])
            self._rows[level + 1].append((one + other, one_variance + other_variance + apart))

    def _cut(self) -> Change | None:
        """Drop what lies before the clearest cut, for as long as there is one; return the first."""
        found: Change | None = None
        while (cut := self._clearest_cut()) is not None:
            older, change = cut
            found = found or change
            self._drop(older)
        return found

    def _drop(self, older: int) -> None:
        """Drop so many of the oldest values. The sums are made anew: a difference of large ones knows no small ones."""
        while older > 0:
            older -= 1 << (len(self._rows) - 1)
            self._rows[-1].pop(0)
            while len(self._rows) > 1 and not self._rows[-1]:
                self._rows.pop()
        self._count, self._total, self._variance = 0, 0.0, 0.0
        for size, total, variance in self._groups():
            self._grow(size, total, variance)

    def _groups(self) -> list[tuple[int, float, float]]:
        """Return the groups, the oldest first: how many values each has, and their sums of both kinds."""
        rows = reversed(list(enumerate(self._rows)))
        return [(1 << level, total, variance) for level, row in rows for total, variance in row]

    def _clearest_cut(self) -> tuple[int, Change] | None:
        """Return the number of older values, and the means of both parts, where these differ most by their bound."""
        found, excess = None, 1.0
        groups = self._groups()
        newer_totals = list(accumulate(total for _, total, _ in reversed(groups)))[::-1]
        older, older_total = 0, 0.0
        for (size, total, _), newer_total in zip(groups, newer_totals[1:], strict=False):
            older, older_total = older + size, older_total + total
            newer = self._count - older
            if min(older, newer) < self._min_count:
                continue
            before, after = older_total / older, newer_total / newer
            if abs(after - before) > excess * self._bound(older, newer):
                found = (older, Change(before, after))
                excess = abs(after - before) / self._bound(older, newer)
        return found

    def _bound(self, older: int, newer: int) -> float:
        share = 1 / older + 1 / newer
        chance = math.log(2 * math.log(self._count) / self._delta)
        variance = self._variance / self._count
        return math.sqrt(2 * share * variance * chance) + 2 / 3 * share * chance

    @property
    def window(self) -> tuple[int, float]:
        """How many values count now, and their mean."""
        return self._count, self._total / self._count if self._count else 0.0

    def state_dict(self) -> dict[str, Any]:
        """Return what it has seen, as numbers."""
        rows = [[list(group) for group in row] for row in self._rows]
        sums = {"count": self._count, "seen": self._seen, "total": self._total, "variance": self._variance}
        return {**sums, "rows": rows}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        self._count, self._seen = state_dict["count"], state_dict["seen"]
        self._total, self._variance = state_dict["total"], state_dict["variance"]
        self._rows = [[(total, variance) for total, variance in row] for row in state_dict["rows"]]


def _apart(count: int, mean: float, other: int, other_mean: float) -> float:
    """Return by how much the squared distances of two groups from their mean exceed those from the means of each."""
    return count * other * (mean - other_mean) ** 2 / (count + other)


@final
@dataclass(frozen=True, kw_only=True)
class DriftEvent:
    """A drift that was detected.

    Attributes:
        name: what has drifted.
        learned: how many examples the model had learned then.
        before, after: the means of the values before and after the change.
        window: the latest values, the oldest first.
        drift: what was watched, and what is done about it.
    """

    name: str
    learned: int
    before: float
    after: float
    window: tuple[float, ...]
    drift: Drift

    def __str__(self) -> str:
        return f"{self.name} has drifted from {self.before:.6g} to {self.after:.6g} after {self.learned} examples"


@final
@dataclass(frozen=True, kw_only=True)
class DriftStatus:
    """What a drift's detector sees now.

    Attributes:
        name: what is watched.
        drifts: how many drifts it has told since the learner was started.
        count: how many values count now.
        mean: their mean.
    """

    name: str
    drifts: int
    count: int
    mean: float


Then = Literal["warn", "rollback", "stop"] | Callable[[DriftEvent], Awaitable[object] | object]


@final
class Drift:
    """What a learner watches for a change, and what it does then. It is one learner's.

    Args:
        detector: what is shown the values.
        of: "loss", for the loss of each step, of which only a rise is a drift; or a function of an example that returns
            a number, as `lambda example: example["x"].mean()`, of which a fall is one, too. A replay calls it again.
        name: what it is called in the log and in metrics; None for "loss", or the name of the function.
        then: "warn" tells the log, as all do; "rollback" has a version hold before anything else is learned; "stop"
            pauses learning until `resume`; a function, plain or async, is called with the DriftEvent, beside the
            learning, and may await the learner's methods; it is called again by a start after a kill right then.
        to: for "rollback", the name of the version; None for the last one that was written.
        examples: for "rollback", as `Learner.rollback` takes it.
        window: how many of the latest values a DriftEvent has.

    Example:
        >>> Drift(PageHinkley(threshold=10), then="rollback", to="good", examples="skip")
        Drift(PageHinkley(delta=0.005, threshold=10.0, min_count=30), of='loss', name='loss')
    """

    def __init__(
        self,
        detector: DriftDetector,
        *,
        of: Literal["loss"] | Callable[..., float] = "loss",
        name: str | None = None,
        then: Then = "warn",
        to: str | None = None,
        examples: Choice = "keep",
        window: int = 100,
    ) -> None:
        if not isinstance(detector, DriftDetector):
            raise ArgumentTypeError(must_be("detector", "a DriftDetector, as PageHinkley() or ADWIN()", detector))
        if of != "loss":
            given = "pass a function or 'loss'"
            check_callable(of, "of", "with an example", given, ArgumentTypeError)
        if isinstance(then, str) and then not in ("warn", "rollback", "stop"):
            raise ArgumentError(f"then must be 'warn', 'rollback', 'stop' or a function, not {then!r}")
        if not isinstance(then, str):
            given = "pass a function, 'warn', 'rollback' or 'stop'"
            check_callable(then, "then", "with a DriftEvent", given, ArgumentTypeError)
        if examples not in CHOICES:
            raise ArgumentError(f"examples must be 'skip', 'keep' or 'learn', not {examples!r}")
        self.detector, self.of, self.then = detector, of, then
        self.name: str = name or str(of if isinstance(of, str) else getattr(of, "__name__", "input"))
        self.to: str | None = None if to is None else check_name(to)
        self.examples: Choice = examples
        self.drifts: int = 0
        self._window: deque[float] = deque(maxlen=whole_number(window, "window", 1))

    def __repr__(self) -> str:
        of = repr(self.of) if isinstance(self.of, str) else getattr(self.of, "__qualname__", "a function")
        return f"Drift({self.detector!r}, of={of}, name={self.name!r})"

    def update(self, values: Sequence[float], learned: int) -> list[DriftEvent]:
        """Show values to the detector; return the drifts that they tell."""
        found = []
        for value in values:
            self._window.append(value)
            change = self._change_at(value)
            if change is None or (self.of == "loss" and change.after < change.before):
                continue
            self.drifts += 1
            window = tuple(self._window)
            found.append(DriftEvent(name=self.name, learned=learned, **change._asdict(), window=window, drift=self))
        return found

    def _change_at(self, value: float) -> Change | None:
        """Show a value to the detector. If it fails, the step was made all the same: it is told, and begins anew."""
        try:
            found = self.detector.update(min(max(value, -LARGEST), LARGEST))
            return None if found is None else Change(*found)
        except Exception as error:
            log.error("%s is watched anew, since its detector failed: %r", self.name, error)
            self.detector.reset()
            return None

    def values(self, loss: float, examples: Sequence[object]) -> list[float]:
        """Return the values of a step; none, and a line in the log, where its function fails."""
        if isinstance(self.of, str):
            return [loss]
        try:
            found = [float(self.of(example)) for example in examples]
            if not all(map(math.isfinite, found)):
                raise ValueError(f"it returned {found}")
        except Exception as error:
            log.error("%s is not watched for these examples, since its function failed: %r", self.name, error)
            return []
        return found

    def reset(self) -> None:
        """Forget all values."""
        self.detector.reset()
        self._window.clear()

    def status(self) -> DriftStatus:
        """Return what the detector sees now."""
        count, mean = self.detector.window
        return DriftStatus(name=self.name, drifts=self.drifts, count=count, mean=mean)

    def state_dict(self) -> dict[str, Any]:
        """Return what was seen, for a checkpoint."""
        return {"name": repr(self), "window": list(self._window), "detector": self.detector.state_dict()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        self.detector.load_state_dict(state_dict["detector"])
        self._window.clear()
        self._window.extend(state_dict["window"])


@final
class DriftHooks:
    """The calls of functions that were told of a drift, beside the learning."""

    def __init__(self) -> None:
        self._running: set[EagerTask] = set()

    def start(self, hook: Callable[[DriftEvent], object], event: DriftEvent, context: Context) -> None:
        """Call a function, and await what it returns."""
        task = start_task(self._call(hook, event), context, "a drift hook of ag.learn", self._running.discard)
        if not task.done():
            self._running.add(task)

    async def end(self) -> None:
        """Cancel what runs still, and return once it has ended."""
        while self._running:
            await _end(next(iter(self._running)))

    @staticmethod
    async def _call(hook: Callable[[DriftEvent], object], event: DriftEvent) -> None:
        try:
            result = hook(event)
            if inspect.isawaitable(result):
                await result
        except Exception:
            log.exception("the hook of a drift failed, and learning goes on: %s", event)


async def _end(task: EagerTask) -> None:
    """Cancel a task, and return once it has ended."""
    ended = asyncio.Event()
    task.add_done_callback(lambda _: ended.set())
    task.cancel()
    await ended.wait()


@final
class DriftMonitors:
    """All that a learner watches.

    Args:
        drifts: each is another one, and has a name of its own.
    """

    def __init__(self, drifts: Sequence[Drift]) -> None:
        if not isinstance(drifts, Sequence) or not all(isinstance(each, Drift) for each in drifts):
            raise ArgumentTypeError(must_be("drift", "a list of learn.Drift", drifts))
        self._drifts = list(drifts)
        names = [each.name for each in self._drifts]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ArgumentError(f"drift has {twice[0]!r} twice: give each a name of its own by name=")

    def update(self, loss: float, examples: Sequence[Any], learned: int) -> list[DriftEvent]:
        """Take what a step has shown; return the drifts that it tells."""
        return [event for each in self._drifts for event in each.update(each.values(loss, examples), learned)]

    def forget_losses(self) -> None:
        """Begin anew with losses, which are another model's from here on."""
        for each in self._drifts:
            if each.of == "loss":
                each.reset()

    def status(self) -> tuple[DriftStatus, ...]:
        """Return what each detector sees now."""
        return tuple(each.status() for each in self._drifts)

    def tree(self) -> list[dict[str, Any]]:
        """Return what was seen, for a checkpoint."""
        return [each.state_dict() for each in self._drifts]

    def load(self, trees: Sequence[Mapping[str, Any]]) -> None:
        """Take over what `tree` returned; one that is not the same in the code any more begins anew."""
        found = {tree["name"]: tree for tree in trees}
        for each in self._drifts:
            if (tree := found.get(repr(each))) is not None:
                each.load_state_dict(tree)
