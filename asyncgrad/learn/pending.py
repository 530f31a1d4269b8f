"""PendingExample and PendingExamples: what waits to be learned, in order of arrival."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, final

from .predictions import batch_key

__all__ = ["PendingExample", "PendingExamples"]


@final
class PendingExample:
    """One example that somebody waits for to be learned.

    Attributes:
        example: the example.
        future: of its result. Who waits cancels it by being cancelled.
        deadline: the loop's time after which it is not learned any more; None for no limit.
        limit: the timeout of who waits, which is lifted once the example is being written to the disk.
        is_committed: whether it is: from then on it is learned in any case.
        ended: set when its step has ended.
        is_alone: whether it takes a step of its own, since the step that it shared has failed.
    """

    __slots__ = ("deadline", "ended", "example", "future", "is_alone", "is_committed", "key", "limit")

    def __init__(self, example: Any, future: asyncio.Future[Any], deadline: float | None) -> None:
        self.example: Any = example
        self.future: asyncio.Future[Any] = future
        self.deadline: float | None = deadline
        self.limit: asyncio.Timeout | None = None
        self.is_committed: bool = False
        self.is_alone: bool = False
        self.ended: asyncio.Event = asyncio.Event()
        self.key: Any = batch_key(example)

    @property
    def is_wanted(self) -> bool:
        """Whether somebody waits for it still."""
        return not self.future.done()

    def commit(self) -> None:
        """Lift the timeout: the example is being written to the disk."""
        self.is_committed = True
        if self.limit is not None:
            self.limit.reschedule(None)

    def fail(self, error: BaseException) -> None:
        """Give an error to who waits."""
        if self.is_wanted:
            self.future.set_exception(error)

    async def result(self) -> Any:
        """Return the result. A cancellation after the commit is raised once the step has ended."""
        try:
            return await self.future
        except asyncio.CancelledError:
            while self.is_committed and not self.ended.is_set():
                try:
                    await self.ended.wait()
                except asyncio.CancelledError:
                    continue
            raise


@final
class PendingExamples:
    """The examples that wait, the oldest first.

    Args:
        batch_size: the most examples of one step.
    """

    def __init__(self, batch_size: int) -> None:
        self._batch_size = batch_size
        self._waiting: deque[PendingExample] = deque()
        #: Those of the step that runs.
        self.running: list[PendingExample] = []

    def __len__(self) -> int:
        return len(self.running) + len(self._waiting)

    def add(self, pending: PendingExample) -> None:
        """Have an example wait."""
        self._waiting.append(pending)

    def remove(self, pending: PendingExample) -> None:
        """Forget an example for which nobody waits any more, if it waits still."""
        with contextlib.suppress(ValueError):
            self._waiting.remove(pending)

    def put_back(self, examples: Iterable[PendingExample]) -> None:
        """Have examples wait again, in their order, before all others."""
        self._waiting.extendleft(reversed(list(examples)))

    def take(self) -> list[PendingExample]:
        """Return the examples of the next step, which can be stacked; none if nobody waits."""
        found: list[PendingExample] = []
        while self._waiting and len(found) < self._batch_size:
            one = self._waiting[0]
            if one.is_wanted:
                if found and (one.key != found[0].key or one.is_alone or found[0].is_alone):
                    break
                found.append(one)
            self._waiting.popleft()
        self.running = found
        return found

    def fail(self, make_error: Callable[[], BaseException]) -> None:
        """Give an error to all who wait, but for those of the running step that are committed."""
        for one in [*self.running, *self._waiting]:
            if not one.is_committed:
                one.fail(make_error())
        self._waiting.clear()
