"""Offload: the way of saved tensors to a store and back, with a bound on what is under way."""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
import sys
import threading
import warnings
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, final

from ..context import BLOCKING
from ..engine.loops import LoopThread
from ..errors import StoreError, StoreWarning
from ..graph.read_ahead import NO_ROOM
from .activation import Activation, KeptInMemory, Location, Reading, StoredArray, is_parameter, store_error, wake
from .forking import begin_anew_in_children
from .layout import Layout, root_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..graph.tensor_base import TensorBase
    from .store import Store

__all__ = ["Offload"]

#: How many arrays are written at the same time.
WRITERS = 2


@final
class Offload:
    """Writes activations to a store in the background, and reads them back.

    The store runs on the event loop of a thread of its own: the forward is no coroutine, and where it waits for room
    nothing else runs in its thread.

    Args:
        store: where they go.
        min_bytes: smaller ones stay in memory.
        max_pending_bytes: how much may wait to be written, and how much may have been read ahead.
        release: deletes what is under a key at once, even while it is being put, and tells whether it has; None has the
            store's `delete` do so in the background.
    """

    __slots__ = (
        "__weakref__",
        "_changed",
        "_failure",
        "_finalizer",
        "_known",
        "_max_pending",
        "_min_bytes",
        "_next_number",
        "_pending",
        "_queue",
        "_release",
        "_room",
        "_settling",
        "_short_of_room",
        "_store",
        "_thread",
        "_token",
        "_told",
        "_writing",
    )

    def __init__(
        self, store: Store, min_bytes: int, max_pending_bytes: int, release: Callable[[str], bool] | None = None
    ) -> None:
        self._store = store
        self._min_bytes = min_bytes
        self._max_pending = max_pending_bytes
        self._release = release
        self._next_number = itertools.count().__next__
        #: What was saved and is still needed, by the memory that it lies in.
        self._known: weakref.WeakValueDictionary[Any, Activation] = weakref.WeakValueDictionary()
        self._queue: deque[StoredArray] = deque()
        self._writing: set[StoredArray] = set()
        self._finalizer: Any = None
        self._begin()
        begin_anew_in_children(self)

    def _begin(self) -> None:
        #: One thread may take it twice: the garbage collector may let go of an activation at any line.
        self._changed = threading.Condition(threading.RLock())
        self._thread = LoopThread("asyncgrad-offload")
        self._finalizer = weakref.finalize(self, self._thread.stop)
        self._token = f"{os.getpid()}-{secrets.token_hex(4)}"
        #: Bytes that wait to be written.
        self._pending = 0
        #: How many threads wait for there to be less.
        self._short_of_room = 0
        #: Bytes that have been read and not been taken, in a list for the readings to share.
        self._room = [0]
        #: The first error of a write that nobody has been told of, and the number of the first entry since one was.
        self._failure: StoreError | None = None
        self._told = 0
        self._settling: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def begin_anew(self) -> None:
        """Part from the parent's thread, in a child process: what was not written yet stays in memory."""
        self._finalizer.detach()
        for entry in (*self._queue, *self._writing):
            if entry.place is not Location.GONE:
                entry.place = Location.KEPT
        self._queue.clear()
        self._writing.clear()
        # What the parent has stored it may also delete.
        self._known.clear()
        self._begin()

    # What the hooks do.

    def pack(self, tensor: TensorBase) -> Activation | KeptInMemory:
        """Begin to store a tensor that a node saves; wait while too much is under way.

        Raises:
            StoreError: the store has failed before.
        """
        array = tensor._data
        if not Layout.can_hold(array) or array.nbytes < self._min_bytes or is_parameter(tensor):
            return KeptInMemory(tensor)
        layout, root = Layout(array), root_of(array)
        if layout.nbytes < self._min_bytes or layout.nbytes > root.nbytes:
            return KeptInMemory(tensor)
        counter = tensor._shared_version()
        address = array.__array_interface__["data"][0]
        memory = (id(root), address, array.shape, array.strides, array.dtype, id(counter), counter.value)
        known = self._known.get(memory)
        if known is not None and known.root() is root and known.entry.place is not Location.KEPT:
            return known
        number = self._next_number()
        entry = StoredArray(number, f"{self._token}-{number}", array, layout)
        activation = Activation(tensor, entry, self.let_go, weakref.ref(root))
        self._queue_up(entry)
        self._known[memory] = activation
        return activation

    def prefetch(self, kept: Activation | KeptInMemory) -> Any:
        """Begin to read what is in the store; return what holds it, None where it stays in memory.

        What is still in memory is kept there until it has been used.
        """
        if isinstance(kept, KeptInMemory):
            return None
        entry = kept.entry
        with self._changed:
            if entry.place is Location.KEPT:
                return None
            reading = entry.under_way()
            if reading is not None:
                return reading
            if self._room[0] and self._room[0] + entry.nbytes > self._max_pending:
                return NO_ROOM
            if entry.array is None:
                return self._read(entry)
            entry.is_wanted = True
            reading = self._reading(entry)
            reading.end(entry.array, None)
            return reading

    def waits(self, kept: Activation | KeptInMemory) -> bool:
        """Tell whether unpacking has to wait for the store, and may be awaited."""
        if isinstance(kept, KeptInMemory) or kept.entry.place is not Location.STORED or _may_block():
            return False
        reading = kept.entry.under_way()
        return reading is None or not reading.is_ended

    def unpack(self, kept: Activation | KeptInMemory) -> Any:
        """Return the tensor or its array, or a coroutine of it; in a thread without a running loop, wait for it.

        Raises:
            ChangedTensorError: it was written into since it was saved.
            StoreError: the store has failed.
        """
        if isinstance(kept, KeptInMemory):
            return kept.value()
        kept.check_unchanged()
        entry = kept.entry
        with self._changed:
            array = entry.array
            entry.is_wanted = True
            if array is None:
                reading = entry.under_way() or self._read(entry)
        if array is not None:
            if entry.place is Location.KEPT and (failure := self._take_failure()) is not None:
                warnings.warn(str(failure), StoreWarning, stacklevel=2)
            return array
        if reading.is_ended:
            return reading.take()
        return reading.wait_blocking() if _may_block() else reading.wait()

    # Writing.

    def _queue_up(self, entry: StoredArray) -> None:
        with self._changed:
            while self._pending and self._pending + entry.nbytes > self._max_pending and self._failure is None:
                self._wait_for_room()
            self.raise_failure()
            entry.place = Location.QUEUED
            self._pending += entry.nbytes
            self._queue.append(entry)
            self._write_more()

    def _wait_for_room(self) -> None:
        """Wait for a change of what is under way. The caller holds the lock."""
        self._short_of_room += 1
        try:
            self._write_more()
            self._changed.wait()
        finally:
            self._short_of_room -= 1

    def _write_more(self) -> None:
        """Begin to write what is first in the queue. The caller holds the lock.

        What a backward has asked for will soon be let go of, most likely. It is written only where somebody waits for
        room, or for the end of all writes.
        """
        is_urgent = self._short_of_room > 0 or bool(self._settling)
        put_off: list[StoredArray] = []
        while self._queue and len(self._writing) < WRITERS:
            entry = self._queue.popleft()
            if entry.is_wanted and not is_urgent and entry.place is Location.QUEUED:
                put_off.append(entry)
            elif entry.place is Location.QUEUED:
                entry.place = Location.WRITING
                self._writing.add(entry)
                if not self._thread.submit(self._write(entry, entry.array)):
                    self._end_write(entry, RuntimeError("no thread can run it"))
        self._queue.extendleft(reversed(put_off))

    async def _write(self, entry: StoredArray, array: Any) -> None:
        error: BaseException | None = None
        with self._changed:
            entry.is_put = entry.place is Location.WRITING
        try:
            if entry.is_put:
                await self._store.put(entry.key, entry.layout.read(array))
        except BaseException as raised:
            error = raised
            if not isinstance(raised, Exception):
                raise
        finally:
            del array
            self._end_write(entry, error)
            del error

    def _end_write(self, entry: StoredArray, error: BaseException | None) -> None:
        with self._changed:
            was_needed = entry.place is not Location.GONE
            if was_needed and error is None:
                entry.place, entry.array = Location.STORED, None
            elif was_needed:
                entry.place = Location.KEPT
                # Of what was queued before an error was told, nothing new is to be told.
                if self._failure is None and isinstance(error, Exception) and entry.number >= self._told:
                    what = f"a saved tensor of {entry.layout.described()} could not be put into {self._store!r}"
                    self._failure = store_error(error, what, "it stays in memory. Make room, or name another place")
        if not was_needed and entry.is_put:
            self._delete(entry)
        with self._changed:
            self._writing.discard(entry)
            self._pending -= entry.nbytes
            self._write_more()
            self._notify()

    def _notify(self) -> None:
        """Wake who waits for room, or for the end of all writes. The caller holds the lock."""
        self._changed.notify_all()
        if not self._pending:
            for loop, waiter in self._settling:
                loop.call_soon_threadsafe(wake, waiter)
            self._settling.clear()

    async def settle(self) -> None:
        """Wait until nothing is to be written any more.

        Raises:
            StoreError: something could not be.
        """
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        with self._changed:
            waits = self._pending > 0
            if waits:
                self._settling.append((loop, waiter))
                self._write_more()
        if waits:
            try:
                await waiter
            finally:
                with self._changed:
                    self._settling = [each for each in self._settling if each[1] is not waiter]
        self.raise_failure()

    def raise_failure(self) -> None:
        """Raise the first error of a write, if there was one that nobody has been told of. It is told once."""
        failure = self._take_failure()
        if failure is not None:
            try:
                raise failure
            finally:
                # Its traceback leads back here: leave no cycle.
                del failure

    def _take_failure(self) -> StoreError | None:
        with self._changed:
            failure, self._failure = self._failure, None
            if failure is not None:
                self._told = self._next_number()
        return failure

    # Reading.

    def _read(self, entry: StoredArray) -> Reading:
        """Begin to read. The caller holds the lock."""
        reading = self._reading(entry)
        if not self._thread.submit(self._fetch(reading)):
            self._end_read(reading, None, RuntimeError("no thread can run it"))
        return reading

    def _reading(self, entry: StoredArray) -> Reading:
        reading = Reading(entry, self._changed, self._room)
        entry.reading = weakref.ref(reading)
        return reading

    async def _fetch(self, reading: Reading) -> None:
        array: Any = None
        error: BaseException | None = None
        try:
            array = reading.entry.layout.restore(await self._store.get(reading.entry.key))
        except BaseException as raised:
            error = raised
            if not isinstance(raised, Exception):
                raise
        finally:
            self._end_read(reading, array, error)
            del error, reading

    def _end_read(self, reading: Reading, array: Any, error: BaseException | None) -> None:
        entry, failure = reading.entry, None
        if error is not None:
            what = f"a saved tensor of {entry.layout.described()} could not be got from {self._store!r}"
            failure = store_error(error, what, "the backward cannot go on without it; run the forward again")
            with self._changed:
                # Who asks again, in another backward, tries again.
                entry.reading = None
        reading.end(array, failure)

    # Deleting.

    def let_go(self, entry: StoredArray) -> None:
        """Delete an entry that nobody needs any more, or do not even write it."""
        with self._changed:
            place, entry.place = entry.place, Location.GONE
            entry.array = None
            if place is Location.QUEUED:
                self._pending -= entry.nbytes
                self._notify()
        if place is Location.STORED:
            self._delete(entry)
        elif place is Location.WRITING and entry.is_put and self._release is not None and not self._release(entry.key):
            self._wait_for_end(entry)

    def _wait_for_end(self, entry: StoredArray) -> None:
        """Wait until an entry that is being written has been written, and deleted: nothing is to be left behind.

        The garbage collector may call this anywhere, also in the thread that writes, and at the end of the process.
        """
        if threading.current_thread().name.startswith("asyncgrad-"):
            return
        with self._changed:
            while entry in self._writing and self._thread.is_alive() and not sys.is_finalizing():
                self._changed.wait(1.0)

    def _delete(self, entry: StoredArray) -> None:
        # A child process has what its parent wrote to read, not to delete.
        if not entry.key.startswith(self._token):
            return
        if self._release is not None:
            self._release(entry.key)
        else:
            self._thread.submit(self._store.delete(entry.key))


def _may_block() -> bool:
    """Tell whether this thread may stand still: in a blocking backward, or where no loop runs."""
    return BLOCKING.get() or asyncio._get_running_loop() is None
