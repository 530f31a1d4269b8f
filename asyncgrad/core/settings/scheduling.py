"""Settings of the scheduler: the number of workers, the loop's time budget, and the threshold for offloading a body.

Each is a ContextVar with a `with` block of its own, and takes its default from the environment.
"""

from __future__ import annotations

import contextlib
import gc
import os
import threading
from collections.abc import Callable
from contextvars import ContextVar
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias, final

import numpy as np

from ...errors import ArgumentError
from .arguments import shorten
from .context import Mode
from .process import set_collection_thresholds

if TYPE_CHECKING:
    from types import TracebackType

__all__ = [
    "CLOCK",
    "Clock",
    "FULL_COLLECTIONS",
    "LOOP_BUDGET",
    "OFFLOAD_THRESHOLD",
    "WORKERS",
    "Quota",
    "loop_budget",
    "no_full_collections",
    "offload_threshold",
    "workers",
]


@final
class Quota:
    """A limit on the workers that the backward passes of one `workers` block use at a time, and their waiting jobs.

    Guarded by the lock of the pool of workers.

    Args:
        limit: the number of workers; 0 for none.
    """

    __slots__ = ("limit", "running", "waiting")

    def __init__(self, limit: int) -> None:
        self.limit: int = limit
        self.running: int = 0
        #: A heap of (priority, arrival, job).
        self.waiting: list[tuple[tuple[int, int], int, Any]] = []


def _check_number(value: Any, what: str, kind: type) -> Any:
    """Return `value` as an int or a float, whichever `kind` is; raise unless it is a number that is not negative."""
    number: Any = -1
    # Of a length of time, NumPy gives the number of its unit, whichever that is.
    if not isinstance(value, (bool, np.bool_, np.timedelta64, str, bytes)):
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            number = kind(value)
    if not (number >= 0 and (kind is float or number == value)):
        wanted = "a whole number of workers, 0 for none" if kind is int else "a number that is not negative"
        raise ArgumentError(f"{what} is {shorten(value)}: give {wanted}")
    return number


def _from_environment(name: str, default: float, kind: type) -> Any:
    value: Any = os.environ.get(name)
    # Shells and settings files often set a variable to the empty string to unset it.
    if not value:
        return default
    with contextlib.suppress(ValueError):
        value = kind(value)
    return _check_number(value, f"the environment variable {name}", kind)


def _count_cores() -> int:
    """Return how many processors this process may run on."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


#: Returns the time, in seconds from an arbitrary point.
Clock: TypeAlias = Callable[[], float]
#: The clock that measures loop budgets. It is read once where a budget begins, and passed down from there.
CLOCK: ContextVar[Clock] = ContextVar("asyncgrad_clock", default=perf_counter)
#: Seconds for which an event loop may be kept from turning: see `loop_turn`.
LOOP_BUDGET: ContextVar[float] = ContextVar(
    "asyncgrad_loop_budget", default=_from_environment("ASYNCGRAD_LOOP_BUDGET_MS", 1, float) / 1000
)
#: Shared by all backward passes outside of a `workers` block.
_DEFAULT_QUOTA = Quota(_from_environment("ASYNCGRAD_WORKERS", _count_cores(), int))
#: The quota of this context: shared by all backward passes of one `workers` block.
WORKERS: ContextVar[Quota] = ContextVar("asyncgrad_workers", default=_DEFAULT_QUOTA)
#: Seconds that a body must take at least to run on a worker.
OFFLOAD_THRESHOLD: ContextVar[float] = ContextVar(
    "asyncgrad_offload_threshold", default=_from_environment("ASYNCGRAD_OFFLOAD_THRESHOLD_MS", 0.5, float) / 1000
)


class _Setting(Mode):
    """Abstract: a block in which one ContextVar has another value."""

    __slots__ = ("_inside",)

    _variable: ContextVar[Any]

    def __init__(self, inside: object) -> None:
        self._inside = inside

    def _get(self) -> Any:
        return self._variable.get()

    def _set(self, value: Any, /) -> None:
        self._variable.set(value)

    def _value(self) -> Any:
        return self._inside

    def _clone(self) -> Mode:
        clone = object.__new__(type(self))
        clone._inside = self._inside
        return clone


@final
class workers(_Setting):
    """Inside, a backward uses at most `n` worker threads, and all that run in the block share them; 0 uses none.

    Long bodies run on workers, in parallel and without blocking the event loop; with 0, everything runs in the thread
    that drives the backward. It is a context manager, and a decorator of functions of all kinds. The default is the
    number of processors, or the value of the environment variable ASYNCGRAD_WORKERS.

    The results have the same bits for any number of workers. Therefore BLAS keeps its own number of threads, on which
    its sums depend. OpenBLAS, which is in NumPy's wheels, runs concurrent products one after another, each on all of
    its threads.

    Args:
        n: the number of workers.

    Raises:
        ArgumentError: `n` is negative, or no whole number.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
        >>> with ag.workers(0):
        ...     ag.sync.backward((x * x).sum())
        >>> x.grad.tolist()
        [2.0, 4.0]
    """

    __slots__ = ()
    _variable = WORKERS

    def __init__(self, n: int) -> None:
        super().__init__(Quota(_check_number(n, "the n of ag.workers(n)", int)))


@final
class loop_budget(_Setting):
    """Inside, what is awaited of this library yields to the event loop once the loop has not turned for the given time.

    The time counts from the first work after the loop's last turn, over all backward passes, transforms, optimizer
    steps and batches of that loop, in any of its tasks. Those that find it spent wait until the loop has run everything
    else that is ready, and go on first in, first out. The default is a millisecond, or the value of the environment
    variable ASYNCGRAD_LOOP_BUDGET_MS, in milliseconds. A single body that takes longer, and does not run on a worker,
    blocks the loop for as long as it takes; so does a plain forward, unless `ag.forward` has a worker compute it.

    Args:
        seconds: the budget; with 0 a backward yields after each node.

    Raises:
        ArgumentError: `seconds` is negative, or no number.

    Example:
        >>> import asyncgrad as ag
        >>> async def main():
        ...     x = ag.tensor([1.0, 2.0], requires_grad=True)
        ...     with ag.loop_budget(0.0005):
        ...         await (x * x).sum().backward()
        ...     return x.grad.tolist()
        >>> ag.run(main())
        [2.0, 4.0]
    """

    __slots__ = ()
    _variable = LOOP_BUDGET

    def __init__(self, seconds: float) -> None:
        super().__init__(_check_number(seconds, "the seconds of ag.loop_budget(seconds)", float))


@final
class offload_threshold(_Setting):
    """Inside, bodies that take the given time or longer run on workers, and shorter ones in the backward's own thread.

    The time is first estimated from the sizes of the body's arrays, and then measured, as a running mean for each
    combination of body, shapes and dtypes. The default is half a millisecond, about ten times the cost of passing a
    body to a worker, or the value of the environment variable ASYNCGRAD_OFFLOAD_THRESHOLD_MS, in milliseconds.

    Args:
        seconds: the threshold.

    Raises:
        ArgumentError: `seconds` is negative, or no number.

    Example:
        >>> import asyncgrad as ag
        >>> with ag.offload_threshold(0.002):
        ...     pass
    """

    __slots__ = ()
    _variable = OFFLOAD_THRESHOLD

    def __init__(self, seconds: float) -> None:
        super().__init__(_check_number(seconds, "the seconds of ag.offload_threshold(seconds)", float))


@final
class _FullCollections:
    """Prevents automatic full collections by Python's garbage collector, in the whole process."""

    __slots__ = ("_before", "_holders", "_mutex")

    #: A number of collections of the middle generation that no process reaches.
    _NEVER = 2**31 - 1

    def __init__(self) -> None:
        # Reentrant: the collector may destroy a holder at any line, and its `__del__` calls `release`.
        self._mutex = threading.RLock()
        self._holders = 0
        self._before = (0, 0, 0)

    def hold(self) -> None:
        """Prevent full collections until each hold has been released."""
        with self._mutex:
            self._holders += 1
            if self._holders == 1:
                self._before = gc.get_threshold()
                set_collection_thresholds(*self._before[:2], self._NEVER)

    def extend_hold(self) -> bool:
        """Add a hold if there is one already; tell whether there was."""
        with self._mutex:
            if self._holders:
                self._holders += 1
            return self._holders > 0

    def release(self) -> None:
        """End one hold; the last one restores the threshold from before the first."""
        with self._mutex:
            self._holders -= 1
            young, middle, old = gc.get_threshold()
            # A threshold that other code has set meanwhile stays.
            if not self._holders and old == self._NEVER:
                set_collection_thresholds(young, middle, self._before[2])


FULL_COLLECTIONS = _FullCollections()


@final
class no_full_collections:
    """Inside, Python's garbage collector starts no full collection by itself.

    A full collection visits every node of every graph. That takes a second for a million nodes, during which the event
    loop is blocked, and happens more often the more nodes there are. Graphs do not need it: a node is freed with the
    last reference to it. Inside the block the collector still collects young objects, in pauses below a millisecond.
    Old cycles are found after the block, or by your own `gc.collect()`.

    It is a context manager that holds for the whole process, since the collector does. It sets the third threshold
    (`gc.set_threshold`) out of reach; the end of the last block, in any thread or task, restores it, unless other code
    has set it meanwhile. Blocks may be nested and may overlap. Drop the graph inside the block; if an event loop is
    still freeing it at the end, the block lasts until it is freed.

    Python 3.14 collects incrementally by itself and does not need this.

    Example:
        >>> import gc, numpy as np, asyncgrad as ag
        >>> async def main():
        ...     x = ag.tensor([0.5], requires_grad=True)
        ...     with ag.no_full_collections():
        ...         y = x
        ...         for _ in range(1000):
        ...             y = y * x + x
        ...         await y.sum().backward()
        ...         del y
        ...     return x.grad.tolist()
        >>> before = gc.get_threshold()
        >>> ag.run(main())
        [4.0]
        >>> gc.get_threshold() == before
        True
    """

    __slots__ = ()

    def __enter__(self) -> None:
        FULL_COLLECTIONS.hold()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        FULL_COLLECTIONS.release()
