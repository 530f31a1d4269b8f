"""Attempt: one recomputation of a checkpointed call for one backward, however many nodes ask for it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

from ..context import BLOCKING
from ..graph.saved import Saved
from .report import Noted, Operations, mismatch, too_few, too_many

if TYPE_CHECKING:
    from ..graph.node import Node
    from .driving import Steps
    from .recomputed import Frame

__all__ = ["Attempt", "Holder", "StopRecomputation", "only_stops"]


class StopRecomputation(BaseException):
    """Ends a recomputation as soon as all that is needed is there; no Exception, for functions that catch those."""


def only_stops(error: BaseException) -> bool:
    """Tell whether an error is a StopRecomputation, or a group of those, as a TaskGroup makes."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(StopRecomputation)[1] is None
    return isinstance(error, StopRecomputation)


@final
class Holder:
    """Stands for the tensor that was saved as number `index` in the forward of `frame`."""

    __slots__ = ("__weakref__", "frame", "index")

    def __init__(self, frame: Frame, index: int) -> None:
        self.frame = frame
        self.index = index


@final
class Attempt:
    """What a recomputation has found so far, and who waits for it. It sees nodes in place of saved-tensor hooks.

    Args:
        frame: the checkpointed call.
    """

    __slots__ = (
        "__weakref__",
        "_count",
        "_frame_of",
        "_mismatches",
        "_needed",
        "_operations",
        "_running",
        "_values",
        "_waiting",
        "has_all",
        "is_done",
    )

    def __init__(self, frame: Frame) -> None:
        # The frame keeps its attempts, and goes as soon as no node needs it: a reference would keep it to the end.
        self._frame_of = weakref.ref(frame)
        self._running = threading.RLock()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] | None = None
        self._begin()

    @property
    def _frame(self) -> Frame:
        frame = self._frame_of()
        assert frame is not None
        return frame

    def _begin(self) -> None:
        frame = self._frame
        #: The arrays, by their numbers; each is taken once.
        self._values: dict[int, Any] = {}
        self._count = 0
        self._mismatches: list[tuple[int, Noted, Noted]] = []
        self._operations = None if frame.operations is None else Operations()
        #: How many have to be seen before nobody needs any more.
        self._needed = len(frame.holders)
        while self._needed and frame.holders[self._needed - 1]() is None:
            self._needed -= 1
        self.has_all = False
        self.is_done = False

    def take(self, holder: Any) -> Any:
        """Return the array of a holder, and let go of it; None where it has been taken before."""
        return self._values.pop(holder.index, None)

    @property
    def around(self) -> Any:
        """The user's hooks that the checkpointed call was made under."""
        return self._frame.around

    # Once, whoever asks.

    def once(self, run: Callable[[Attempt], Steps]) -> Steps:
        """Run the recomputation, unless it has been; where it runs, wait for its end."""
        if not self._frame.waits or BLOCKING.get():
            # Threads wait for each other.
            with self._running:
                if not self.is_done:
                    yield from self._guarded(run)
            return
        while not self.is_done:
            if self._waiting is None:
                self._waiting = []
                try:
                    yield from self._guarded(run)
                finally:
                    self._wake()
            else:
                # Where the one that runs it fails or is cancelled, the next one tries.
                loop = asyncio.get_running_loop()
                future = loop.create_future()
                self._waiting.append((loop, future))
                yield future

    def _guarded(self, run: Callable[[Attempt], Steps]) -> Steps:
        try:
            yield from run(self)
        except BaseException:
            self._begin()
            raise

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting or [], None
        for loop, future in waiting:
            # A loop that has been closed has nobody waiting.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_resolve, future)

    # What the recomputation shows.

    def pack_saved(self, node: Node) -> None:
        """See what a new node has saved, which stays as it is.

        Raises:
            StopRecomputation: that was all that is needed.
        """
        if self._operations is not None:
            self._operations.note(node)
        for saved in node.saved_entries() or ():
            if isinstance(saved, Saved) and saved.tensor is not None:
                self._see(node, saved.tensor)

    def _see(self, node: Node, tensor: Any) -> None:
        index = self._count
        self._count += 1
        frame = self._frame
        if index >= len(frame.holders):
            return
        noted, found = frame.noted[index], Noted.of(node, tensor)
        if not noted.is_like(found):
            self._mismatches.append((index, noted, found))
        if frame.holders[index]() is not None:
            self._values[index] = tensor._data
        if self._count == self._needed and frame.options.early_stop:
            self.has_all = True
            raise StopRecomputation

    def finish(self) -> None:
        """Take what has been recomputed for what was not saved.

        Raises:
            CheckpointError: it cannot be that.
        """
        frame = self._frame
        if self._count < self._needed or (not self.has_all and self._count < len(frame.holders)):
            raise too_few(frame, self._count, self._operations)
        if frame.options.determinism_check == "default":
            if frame.is_complete and self._count > len(frame.holders):
                raise too_many(frame, self._count, self._operations)
            if self._mismatches:
                raise mismatch(frame, self._mismatches, self._operations)
        self.is_done = True


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
