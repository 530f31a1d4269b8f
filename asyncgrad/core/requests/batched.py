"""`ag.batched`: a function of one item whose calls, made at a time, become one request."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import sys
import threading
import weakref
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Never, Self, TypeVar, final, overload

from ...errors import ArgumentTypeError
from ..engine.eager_task import EagerTask
from ..engine.loops import running_loop
from ..settings.arguments import check_callable, number, takes, whole_number
from ..settings.context import GRAD_MODE, is_kind
from ..settings.process import hold_in_forks
from .batch import Batch, BatchOwner, Reason, key_of

__all__ = ["BatchStatistics", "Batched", "all_batched", "batched"]

#: Bound once: a method of an imported name is looked up and bound anew at each call.
_grad_mode = GRAD_MODE.get

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
R = TypeVar("R")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStatistics:
    """What a batched function has done, on all loops, and what it does now.

    Attributes:
        name: that of the function.
        requests: how many have been sent.
        items: how many items these had, all together.
        full: how many of the requests were sent because they had `max_size` items.
        max_wait: how many because the first item had waited for so long.
        idle: how many because nothing else could run.
        dropped: items whose caller was cancelled before they were sent.
        mean_wait: the seconds that an item waited until it was sent, on average; 0 before the first.
        longest_wait: the most seconds that one waited.
        waiting: items that wait to be sent.
        oldest: the seconds that the oldest of those has waited; 0 where there is none.
        running: requests that have been sent and not answered.

    Example:
        >>> import asyncgrad as ag
        >>> @ag.batched
        ... async def double(xs):
        ...     return [2 * x for x in xs]
        >>> ag.run(double(1)), double.statistics().requests
        (2, 1)
    """

    name: str
    requests: int
    items: int
    full: int
    max_wait: int
    idle: int
    dropped: int
    mean_wait: float
    longest_wait: float
    waiting: int
    oldest: float
    running: int


@final
class _OpenHere(threading.local):
    """The open batches of this thread, weakly: each is kept by its loop, which is to look at it."""

    def __init__(self) -> None:
        #: By whether operations are recorded: what a request records, it records for all of its callers.
        self.batches: dict[bool, weakref.ref[Batch]] = {}


@final
class Batched(BatchOwner, Generic[T, R]):
    """A function of one item, whose calls become requests of several: what `ag.batched` returns.

    Args:
        function: an async function of a list of items.
        max_size: the most items of a request; None for any number.
        max_wait: the most seconds that an item waits to be sent; None for any time.
        key: gives the key of an item, by which its result is found; None where results are in the order of the items.

    Example:
        >>> import asyncio, asyncgrad as ag
        >>> @ag.batched(max_size=2)
        ... async def double(xs):
        ...     return [2 * x for x in xs]
        >>> async def main():
        ...     return await asyncio.gather(double(1), double(2), double(3))
        >>> ag.run(main()), double
        ([2, 4, 6], <ag.batched of double: 3 items in 2 requests>)
    """

    # `functools.update_wrapper` gives it the name, the module and the docstring of the function.
    __slots__ = (
        "__dict__",
        "__weakref__",
        "_counts",
        "_here",
        "_longest",
        "_mutex",
        "_open",
        "_running",
        "_waited",
        "function",
        "key",
        "max_size",
        "max_wait",
        "name",
    )

    def __init__(
        self,
        function: Callable[[list[T]], Awaitable[Any]],
        max_size: int | None,
        max_wait: float | None,
        key: Callable[[T], Hashable] | None,
    ) -> None:
        self.function, self.max_size, self.max_wait, self.key = function, max_size, max_wait, key
        self.name: str = getattr(function, "__qualname__", type(function).__name__).rpartition("<locals>.")[2]
        self._here = _OpenHere()
        #: All open batches, for the statistics.
        self._open: weakref.WeakSet[Batch] = weakref.WeakSet()
        self._running: weakref.WeakSet[EagerTask] = weakref.WeakSet()
        #: Guards the counts, which loops in several threads change. Reentrant: the garbage collector may close a caller
        #: at any line, whose item is dropped.
        self._mutex = threading.RLock()
        self._counts: dict[str, int] = {"items": 0, "dropped": 0, "full": 0, "max_wait": 0, "idle": 0}
        self._waited = self._longest = 0.0
        functools.update_wrapper(self, function)
        with _MUTEX:
            _ALL.add(self)

    async def __call__(self, item: T, /, *others: Never) -> R:
        """Return the result of one item; suspends until the request that it goes with has ended.

        Raises:
            ArgumentTypeError: there is more than one item.
            GraphError: no asyncio loop is running.
            Exception: the request has failed: each of its callers gets the error.
        """
        if others:
            raise ArgumentTypeError(self._one_item(item, 1 + len(others)))
        # Before there is a batch for it: a key that cannot be had is an error of this caller alone. And now, since the
        # function may change the item.
        key = None if self.key is None else key_of(self, item)
        recorded = bool(_grad_mode())
        reference = self._here.batches.get(recorded)
        batch = None if reference is None else reference()
        if batch is None or batch.is_closed or batch.loop is not asyncio._get_running_loop():
            batch = self._open_batch(recorded)
        result: R = await batch.ask(item, key)
        return result

    def _one_item(self, first: object, count: int) -> str:
        """Return what to write in place of a call with several arguments."""
        name = self.name.rpartition(".")[2]
        hint = (
            f"call it once for each item, as in await asyncio.gather(*map({name}, items)), or write {name}((a, b)) for "
            "an item of several parts"
        )
        classes = first.__mro__ if isinstance(first, type) else ()
        if any(self is getattr(one, "__func__", None) for owner in classes for one in vars(owner).values()):
            hint = "a classmethod is called with its class first, so put @staticmethod above @ag.batched"
        return f"{self.name} takes one item, and was given {count} arguments: {hint}"

    def _open_batch(self, recorded: bool) -> Batch:
        """Return a new batch of the running loop."""
        batch = Batch(self, running_loop())
        self._here.batches[recorded] = weakref.ref(batch)
        with self._mutex:
            self._open.add(batch)
        return batch

    def statistics(self) -> BatchStatistics:
        """Return what has been done so far, and what waits; from any thread.

        Example:
            >>> import asyncio, asyncgrad as ag
            >>> @ag.batched
            ... async def double(xs):
            ...     return [2 * x for x in xs]
            >>> async def main():
            ...     await asyncio.gather(double(1), double(2))
            >>> ag.run(main())
            >>> double.statistics().items, double.statistics().idle
            (2, 1)
        """
        with self._mutex:
            counts = self._counts.copy()
            waited, longest = self._waited, self._longest
            waits = [seconds for batch in self._open for seconds in batch.waits()]
            running = len(self._running)
        return BatchStatistics(
            name=self.name,
            requests=counts["full"] + counts["max_wait"] + counts["idle"],
            mean_wait=waited / counts["items"] if counts["items"] else 0.0,
            longest_wait=longest,
            waiting=len(waits),
            oldest=max(waits, default=0.0),
            running=running,
            **counts,
        )

    def note_closed(self, batch: Batch) -> None:
        """Forget a batch that takes no further item."""
        with self._mutex:
            self._open.discard(batch)

    def note_sent(self, batch: Batch, reason: Reason) -> None:
        """Count a request, and how long its items have waited."""
        waits = batch.waits()
        with self._mutex:
            self._counts[reason] += 1
            self._counts["items"] += len(waits)
            self._waited += sum(waits)
            self._longest = max(self._longest, *waits)

    def note_running(self, task: EagerTask) -> None:
        """Note that a request runs."""
        with self._mutex:
            self._running.add(task)

    def note_ended(self, task: EagerTask) -> None:
        """Note that a request has ended."""
        with self._mutex:
            self._running.discard(task)

    def note_dropped(self) -> None:
        """Count an item whose caller was cancelled before it was sent."""
        with self._mutex:
            self._counts["dropped"] += 1

    def __copy__(self) -> Self:
        """Return this function: it has no data but the requests that it sends."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Batched[T, R]:
        """Return this function; for one of a method, that of the copy of its object."""
        function = copy.deepcopy(self.function, memo)
        if function is self.function:
            return self
        # The object may have it as an attribute, and has been copied with it then.
        copied: Batched[T, R] = memo.get(id(self)) or Batched(function, self.max_size, self.max_wait, self.key)
        return copied

    def __reduce__(self) -> str | tuple[Any, ...]:
        # By its name, where that finds it in another process; its function is not found by that name, which it has.
        module = self.__module__
        if module != "__main__" and _found(module, name := getattr(self, "__qualname__", "")) is self:
            return name
        return Batched, (self.function, self.max_size, self.max_wait, self.key)

    def __set_name__(self, owner: type, name: str) -> None:
        raise ArgumentTypeError(
            f"{owner.__name__}.{name} would send the items of all instances together: decorate a function outside of "
            f"the class, or write self.{name} = ag.batched(self._{name}) in __init__"
        )

    def __repr__(self) -> str:
        now = self.statistics()
        return f"<ag.batched of {self.name}: {now.items} items in {now.requests} requests>"


def _found(module: str, name: str) -> object:
    """Return what a module has by a qualified name; None for nothing."""
    found: object = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


#: Every batched function of this process, for `ag.engine.statistics()`.
_ALL: weakref.WeakSet[Batched[Any, Any]] = weakref.WeakSet()
#: Guards it. Reentrant: what the garbage collector runs, at any line, may make one.
_MUTEX = hold_in_forks(threading.RLock())


def all_batched() -> list[Batched[Any, Any]]:
    """Return the batched functions of this process that have not been dropped; from any thread."""
    with _MUTEX:
        return list(_ALL)


@overload
def batched(function: Callable[[list[T]], Awaitable[Sequence[R]]], /) -> Batched[T, R]: ...


@overload
def batched(
    *, max_size: int | None = None, max_wait: float | None = None, key: Callable[..., K]
) -> Callable[[Callable[[list[T]], Awaitable[Mapping[K, R]]]], Batched[T, R]]: ...


@overload
def batched(
    *, max_size: int | None = None, max_wait: float | None = None, key: None = None
) -> Callable[[Callable[[list[T]], Awaitable[Sequence[R]]]], Batched[T, R]]: ...


def batched(
    function: Callable[[list[Any]], Awaitable[Any]] | None = None,
    /,
    *,
    max_size: int | None = None,
    max_wait: float | None = None,
    key: Callable[..., Hashable] | None = None,
) -> Any:
    """Make a function of one item out of an async function of a list of items: calls made at a time are one request.

    A request is sent when it has `max_size` items, when its first item has waited for `max_wait` seconds, or when
    nothing else can run. In a backward that is when all nodes that are ready have been started, and all that run
    wait; elsewhere when the event loop has turned twice without another call.

    A caller that is cancelled takes its item back, unless it has been sent; the last caller of a request to be
    cancelled cancels the request, and waits for its end. An error of the request reaches each caller. It runs in a
    copy of the context of its first caller, outside of any backward; calls that record operations and calls that do
    not never share one. Each event loop has requests of its own. Nothing is copied.

    Args:
        function: an async function of a list of items. It returns a list with the result of each item, in their order;
            with `key` it returns a dict of results by key.
        max_size: the most items of a request; None for any number.
        max_wait: the most seconds that an item waits to be sent; None for any time.
        key: called with each item as that is asked for; gives the key by which its result is found. Items of one key
            get one result.

    Returns:
        An async function of one item, with `statistics()`; without `function`, a decorator.

    Raises:
        ArgumentTypeError: `function` is no async function, or an option is of another type.
        ArgumentError: `max_size` is less than 1, or `max_wait` is negative.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> @ag.batched(max_size=64)
        ... async def solve(right_sides):
        ...     print(f"a request of {len(right_sides)}")
        ...     return list(np.stack(right_sides) / 2.0)
        >>> class Solve(ag.Function):
        ...     forward = staticmethod(lambda ctx, x: x.numpy() / 2.0)
        ...     @staticmethod
        ...     async def backward(ctx, grad):
        ...         return await solve(grad.numpy())
        >>> x = ag.tensor([2.0, 4.0], requires_grad=True)
        >>> ag.run((Solve.apply(x) + Solve.apply(x) + Solve.apply(x)).sum().backward())
        a request of 3
        >>> x.grad.tolist()
        [1.5, 1.5]
    """
    if max_size is not None:
        max_size = whole_number(max_size, "max_size", 1, "leave it out for any number")
    if max_wait is not None:
        max_wait = number(max_wait, "max_wait", 0.0)
    if key is not None:
        check_callable(key, "key", "with an item", "pass a function", ArgumentTypeError)
    if function is None:
        return functools.partial(_batched, max_size=max_size, max_wait=max_wait, key=key)
    return _batched(function, max_size, max_wait, key)


def _batched(
    function: Callable[[list[Any]], Awaitable[Any]],
    max_size: int | None,
    max_wait: float | None,
    key: Callable[..., Hashable] | None,
) -> Batched[Any, Any]:
    if not is_kind(inspect.iscoroutinefunction, function):
        hint = "write async def" if callable(function) else "write @ag.batched(max_size=...) above an async def"
        if is_kind(inspect.isasyncgenfunction, function):
            hint = "return a list with the result of each item, where it yields"
        if isinstance(function, (classmethod, staticmethod)):
            hint = "put @staticmethod above @ag.batched"
        raise ArgumentTypeError(takes("ag.batched", "an async function of a list of items", function, hint))
    return Batched(function, max_size, max_wait, key)
