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

from .context import Mode
from .errors import ArgumentError

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
        self.limit = limit
        self.running = 0
        #: A heap of (priority, arrival, job).
        self.waiting: list[tuple[tuple[int, int], int, Any]] = []


def _number(value: Any, what: str, kind: type) -> Any:
    """Return a number that the user gave, if it is one, of the kind wanted, and not negative."""
    number: Any = -1
    if not isinstance(value, (bool, np.bool_, str, bytes)):
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            number = kind(value)
    if not (number >= 0 and (kind is float or number == value)):
        wanted = "a whole number of workers, 0 for none" if kind is int else "a number that is not negative"
        raise ArgumentError(f"{what} is {value!r}: give {wanted}")
    return number


def _from_environment(name: str, default: float, kind: type) -> Any:
    value: Any = os.environ.get(name)
    # Shells and settings files often set a variable to the empty string to unset it.
    if not value:
        return default
    with contextlib.suppress(ValueError):
        value = kind(value)
    return _number(value, f"the environment variable {name}", kind)


def _cores() -> int:
    """Return how many processors this process may run on."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


#: Returns the time, in seconds from an arbitrary point.
Clock: TypeAlias = Callable[[], float]
#: What a loop budget is measured by. Read once where a budget begins to count, and handed down from there.
CLOCK: ContextVar[Clock] = ContextVar("asyncgrad_clock", default=perf_counter)
#: Seconds for which a backward may run before it yields to the event loop.
LOOP_BUDGET: ContextVar[float] = ContextVar(
    "asyncgrad_loop_budget", default=_from_environment("ASYNCGRAD_LOOP_BUDGET_MS", 1, float) / 1000
)
#: Shared by all backward passes outside of a `workers` block.
_DEFAULT_QUOTA = Quota(_from_environment("ASYNCGRAD_WORKERS", _cores(), int))
#: The quota of this context: shared by all backward passes of one `workers` block.
WORKERS: ContextVar[Quota] = ContextVar("asyncgrad_workers", default=_DEFAULT_QUOTA)
#: Seconds from which on a body is run by a worker.
OFFLOAD_THRESHOLD: ContextVar[float] = ContextVar(
    "asyncgrad_offload_threshold", default=_from_environment("ASYNCGRAD_OFFLOAD_THRESHOLD_MS", 0.5, float) / 1000
)


class _Setting(Mode):
    """Abstract: a block in which one ContextVar has another value."""

    __slots__ = ("_inside",)

    _variable: ContextVar[Any]

    def __init__(self, inside: Any) -> None:
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

    Heavy bodies run on workers, so that they run side by side and an event loop is not kept by them; with 0 all runs
    in the thread that drives the backward. A context manager, and a decorator of functions of all kinds. The default
    is the number of processors, or what the environment variable ASYNCGRAD_WORKERS says.

    Any number of workers gives the same bits. That is why BLAS is left alone, whose sums depend on how many threads
    it uses by itself. OpenBLAS, which NumPy's wheels have, lets products that come at a time take turns, each on all
    of its threads.

    Args:
        n: how many.

    Raises:
        ArgumentError: it is negative, or no whole number.

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
        super().__init__(Quota(_number(n, "the n of ag.workers(n)", int)))


@final
class loop_budget(_Setting):
    """Inside, a backward yields to the event loop each time it has run for as many seconds.

    The default is a millisecond, or what the environment variable ASYNCGRAD_LOOP_BUDGET_MS says, in milliseconds.
    A single body that takes longer and is not run by a worker keeps the loop for as long as it takes.

    Args:
        seconds: the budget; with 0 it yields after each node.

    Raises:
        ArgumentError: it is negative, or no number.

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
        super().__init__(_number(seconds, "the seconds of ag.loop_budget(seconds)", float))


@final
class offload_threshold(_Setting):
    """Inside, bodies that take as many seconds or longer run on workers, and shorter ones where they are.

    How long one takes is estimated from the sizes of its arrays, and then measured: a running mean for each kind of
    body, shapes and dtypes. The default is half a millisecond, about ten times what it costs to hand a body over, or
    what the environment variable ASYNCGRAD_OFFLOAD_THRESHOLD_MS says, in milliseconds.

    Args:
        seconds: how long.

    Raises:
        ArgumentError: it is negative, or no number.

    Example:
        >>> import asyncgrad as ag
        >>> with ag.offload_threshold(0.002):
        ...     pass
    """

    __slots__ = ()
    _variable = OFFLOAD_THRESHOLD

    def __init__(self, seconds: float) -> None:
        super().__init__(_number(seconds, "the seconds of ag.offload_threshold(seconds)", float))


@final
class _FullCollections:
    """Holds off the automatic full collections of Python's garbage collector, for the whole process."""

    __slots__ = ("_before", "_holders", "_mutex")

    #: A number of collections of the middle generation that no process reaches.
    _NEVER = 2**31 - 1

    def __init__(self) -> None:
        # Reentrant: the collector may destroy a holder at any line, and its `__del__` calls `release`.
        self._mutex = threading.RLock()
        self._holders = 0
        self._before = (0, 0, 0)

    def hold(self) -> None:
        """Let no full collection begin until there have been as many releases as holds."""
        with self._mutex:
            self._holders += 1
            if self._holders == 1:
                self._before = gc.get_threshold()
                gc.set_threshold(*self._before[:2], self._NEVER)

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
                gc.set_threshold(young, middle, self._before[2])


FULL_COLLECTIONS = _FullCollections()


@final
class no_full_collections:
    """Inside, Python's garbage collector never looks, by itself, through all objects there are.

    A full collection visits every node of every graph: a second for a million nodes, during which an event loop stands
    still, and there are more of them the more nodes there are. Graphs need none: a node is freed when nobody refers to
    it any more. Inside the block the collector goes on to collect what is young, in pauses below a millisecond; cycles
    that have grown old are found after the block, or by a `gc.collect()` of your own in a quiet moment.

    A context manager that holds for the whole process, which has one collector. It sets the third threshold
    (`gc.set_threshold`) out of reach; the end of the last block, of any thread or task, restores it, unless other code
    has set it meanwhile. Blocks may be nested and overlap. Drop the graph inside the block; if an event loop is still
    freeing it at the end, the block lasts until it has.

    Python 3.14 collects in increments by itself, and has no use for it.

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
