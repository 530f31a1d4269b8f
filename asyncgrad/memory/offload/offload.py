"""Offload: moves saved tensors to a store and back, with a limit on the bytes in flight."""

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

from ...core.arrays.values import array_interface, memory_owner
from ...core.engine.loops import LoopThread
from ...core.graph.read_ahead import NO_ROOM
from ...core.settings.awaiting import wake
from ...core.settings.context import BLOCKING
from ...errors import StoreError, StoreWarning
from .activation import (
    Activation,
    KeptInMemory,
    Location,
    ReadOperation,
    StoredArray,
    is_parameter,
    store_error,
)
from .forking import reset_in_children
from .layout import Layout
from .transfers import HostCopy, Upload

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...core.arrays.tensor_base import TensorBase
    from ...core.engine.device import Device
    from .store import Store

__all__ = ["Offload"]

#: How many arrays are written at the same time.
WRITERS = 2

#: What a coroutine gets whose loop ends. Any other exception is the store's, also a SystemExit: a thread cannot exit.
_ENDED = (asyncio.CancelledError, GeneratorExit)


@final
class Offload:
    """Writes activations to a store in the background, and reads them back.

    The store runs on an event loop in a thread of its own: the forward is not a coroutine, and while it waits for room
    nothing else runs in its thread.

    Args:
        store: holds the arrays.
        min_bytes: smaller arrays stay in memory.
        max_pending_bytes: how many bytes may wait to be written, and how many may have been read ahead.
        release: deletes a key at once, even while it is being put, and returns whether it has. With None the store's
            `delete` runs in the background.
        only_from_devices: leave the arrays of devices that have NumPy's where they are.
    """

    __slots__ = (
        "__weakref__",
        "_blocked_writers",
        "_condition",
        "_failure",
        "_finalizer",
        "_flush_waiters",
        "_max_pending",
        "_min_bytes",
        "_next_number",
        "_only_from_devices",
        "_pending_bytes",
        "_queue",
        "_read_bytes",
        "_release",
        "_reported_until",
        "_saved",
        "_store",
        "_thread",
        "_token",
        "_writing",
    )

    def __init__(
        self,
        store: Store,
        min_bytes: int,
        max_pending_bytes: int,
        release: Callable[[str], bool] | None = None,
        *,
        only_from_devices: bool = False,
    ) -> None:
        self._store = store
        self._min_bytes = min_bytes
        self._max_pending = max_pending_bytes
        self._release = release
        self._only_from_devices = only_from_devices
        self._next_number = itertools.count().__next__
        #: The activations that are still needed, by the memory of their tensors.
        self._saved: weakref.WeakValueDictionary[Any, Activation] = weakref.WeakValueDictionary()
        self._queue: deque[StoredArray] = deque()
        self._writing: set[StoredArray] = set()
        self._finalizer: Any = None
        self._reset()
        reset_in_children(self)

    def _reset(self) -> None:
        #: Reentrant: the garbage collector may drop an activation, and so call `discard`, at any line.
        self._condition = threading.Condition(threading.RLock())
        self._thread = LoopThread("asyncgrad-offload")
        self._finalizer = weakref.finalize(self, self._thread.stop)
        self._token = f"{os.getpid()}-{secrets.token_hex(4)}"
        #: Bytes that wait to be written.
        self._pending_bytes = 0
        #: How many threads wait for that number to fall.
        self._blocked_writers = 0
        #: Bytes that have been read and not been taken, in a list that the read operations share.
        self._read_bytes = [0]
        #: The first error of a write that has not been reported yet.
        self._failure: StoreError | None = None
        #: The number that the next entry had when an error was last reported.
        self._reported_until = 0
        self._flush_waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def reset_in_child(self) -> None:
        """Drop the parent's thread, in a child process: arrays that were not written yet stay in memory."""
        self._finalizer.detach()
        for entry in (*self._queue, *self._writing):
            if entry.location is not Location.GONE:
                entry.location = Location.KEPT
        self._queue.clear()
        self._writing.clear()
        # The parent may delete what it has stored: the child must not share it with new nodes.
        self._saved.clear()
        self._reset()

    # The hooks.

    def pack(self, tensor: TensorBase) -> Activation | KeptInMemory:
        """Begin to store a tensor that a node saves; wait while too many bytes are pending.

        Raises:
            StoreError: an earlier write failed.
        """
        array: Any = tensor._data
        device: Device = tensor._device
        is_here = device.has_host_arrays
        if (
            (is_here and self._only_from_devices)
            or not Layout.can_hold(array)
            or array.nbytes < self._min_bytes
            or is_parameter(tensor)
        ):
            return KeptInMemory(tensor)
        root = memory_owner(array)
        layout = Layout(array) if is_here else None
        nbytes = array.nbytes if layout is None else layout.nbytes
        if nbytes < self._min_bytes or nbytes > root.nbytes:
            return KeptInMemory(tensor)
        counter = tensor._shared_version()
        address = array_interface(array)["data"][0]
        memory = (id(root), address, array.shape, array.strides, array.dtype, id(counter), counter.value)
        known = self._saved.get(memory)
        if known is not None and known.root() is root and known.entry.location is not Location.KEPT:
            return known
        number = self._next_number()
        copy = None if layout is not None else HostCopy(array, device)
        if copy is not None:
            layout = Layout(copy.array)
        assert layout is not None
        entry = StoredArray(number, f"{self._token}-{number}", array, layout, device, copy)
        activation = Activation(tensor, entry, self.discard, weakref.ref(root))
        self._queue_up(entry)
        self._saved[memory] = activation
        return activation

    def prefetch(self, kept: Activation | KeptInMemory) -> Any:
        """Begin to read an array; return the ReadOperation, NO_ROOM, or None if the array stays in memory.

        An array that is still in memory is kept there until it has been used.
        """
        if isinstance(kept, KeptInMemory):
            return None
        entry = kept.entry
        with self._condition:
            if entry.location is Location.KEPT:
                return None
            reading = entry.pending_read()
            if reading is not None:
                return reading
            if self._read_bytes[0] and self._read_bytes[0] + entry.nbytes > self._max_pending:
                return NO_ROOM
            if entry.array is None:
                return self._read(entry)
            entry.is_requested = True
            reading = self._start_reading(entry)
            reading.end(entry.array, None)
            return reading

    def waits(self, kept: Activation | KeptInMemory) -> bool:
        """Return whether `unpack` would return a coroutine that waits for the store."""
        if isinstance(kept, KeptInMemory) or kept.entry.location is not Location.STORED or _may_block():
            return False
        reading = kept.entry.pending_read()
        return reading is None or not reading.is_ended

    def unpack(self, kept: Activation | KeptInMemory) -> Any:
        """Return the tensor, its array, or a coroutine of the array; in a thread without a running loop, wait instead.

        Raises:
            ChangedTensorError: the tensor was written into since it was saved.
            StoreError: the read failed.
        """
        if isinstance(kept, KeptInMemory):
            return kept.value()
        kept.check_unchanged()
        entry = kept.entry
        with self._condition:
            array = entry.array
            entry.is_requested = True
            if array is None:
                reading = entry.pending_read() or self._read(entry)
        if array is not None:
            if entry.location is Location.KEPT and (failure := self._take_failure()) is not None:
                warnings.warn(str(failure), StoreWarning, stacklevel=2)
            return array
        if reading.is_ended:
            return reading.take()
        return reading.wait_blocking() if _may_block() else reading.wait()

    # Writing.

    def _queue_up(self, entry: StoredArray) -> None:
        with self._condition:
            while (
                self._pending_bytes and self._pending_bytes + entry.nbytes > self._max_pending and self._failure is None
            ):
                self._wait_for_room()
            self.raise_failure()
            entry.location = Location.QUEUED
            self._pending_bytes += entry.nbytes
            self._queue.append(entry)
            self._write_more()

    def _wait_for_room(self) -> None:
        """Wait until some write or read has ended. The caller holds the lock."""
        self._blocked_writers += 1
        try:
            self._write_more()
            self._condition.wait()
        finally:
            self._blocked_writers -= 1

    def _write_more(self) -> None:
        """Begin to write the first entries of the queue. The caller holds the lock.

        An entry that a backward has requested will most likely be dropped soon. So it is written only if a thread waits
        for room, or a task for the end of all writes.
        """
        is_urgent = self._blocked_writers > 0 or bool(self._flush_waiters)
        postponed: list[StoredArray] = []
        while self._queue and len(self._writing) < WRITERS:
            entry = self._queue.popleft()
            if entry.is_requested and not is_urgent and entry.location is Location.QUEUED:
                postponed.append(entry)
            elif entry.location is Location.QUEUED:
                entry.location = Location.WRITING
                self._writing.add(entry)
                if not self._thread.submit(self._write(entry, entry.copy or entry.array)):
                    self._end_write(entry, RuntimeError("no thread can run it"))
        self._queue.extendleft(reversed(postponed))

    async def _write(self, entry: StoredArray, array: Any) -> None:
        error: BaseException | None = None
        try:
            if isinstance(array, HostCopy):
                array = await array.filled()
            with self._condition:
                entry.is_put = entry.location is Location.WRITING
            if entry.is_put:
                await self._store.put(entry.key, entry.layout.read(array))
        except BaseException as raised:
            error = raised
            if isinstance(raised, _ENDED):
                raise
        finally:
            del array
            self._end_write(entry, error)
            del error

    def _end_write(self, entry: StoredArray, error: BaseException | None) -> None:
        with self._condition:
            was_needed = entry.location is not Location.GONE
            if was_needed and error is None:
                entry.location = Location.STORED
                entry.free()
            elif error is not None and was_needed:
                entry.location, entry.copy = Location.KEPT, None
                # Entries queued before an error was reported fail for the same reason: report only newer ones.
                if self._failure is None and not isinstance(error, _ENDED) and entry.number >= self._reported_until:
                    what = f"a saved tensor of {entry.layout.describe()} could not be put into {self._store!r}"
                    self._failure = store_error(error, what, "it stays in memory. Make room, or name another place")
        if not was_needed and entry.is_put:
            self._delete(entry)
        with self._condition:
            self._writing.discard(entry)
            self._pending_bytes -= entry.nbytes
            self._write_more()
            self._notify()

    def _notify(self) -> None:
        """Wake the threads that wait for room, and the tasks that wait for all writes. The caller holds the lock."""
        self._condition.notify_all()
        if not self._pending_bytes:
            for loop, waiter in self._flush_waiters:
                loop.call_soon_threadsafe(wake, waiter)
            self._flush_waiters.clear()

    async def flush(self) -> None:
        """Wait until all writes have ended.

        Raises:
            StoreError: a write failed.
        """
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        with self._condition:
            waits = self._pending_bytes > 0
            if waits:
                self._flush_waiters.append((loop, waiter))
                self._write_more()
        if waits:
            try:
                await waiter
            finally:
                with self._condition:
                    self._flush_waiters = [each for each in self._flush_waiters if each[1] is not waiter]
        self.raise_failure()

    def raise_failure(self) -> None:
        """Raise the first error of a write that has not been reported yet, if there is one."""
        failure = self._take_failure()
        if failure is not None:
            try:
                raise failure
            finally:
                # Its traceback refers to this frame: leave no cycle.
                del failure

    def _take_failure(self) -> StoreError | None:
        with self._condition:
            failure, self._failure = self._failure, None
            if failure is not None:
                self._reported_until = self._next_number()
        return failure

    # Reading.

    def _read(self, entry: StoredArray) -> ReadOperation:
        """Begin to read. The caller holds the lock."""
        reading = self._start_reading(entry)
        if not self._thread.submit(self._fetch(reading)):
            self._end_read(reading, None, RuntimeError("no thread can run it"))
        return reading

    def _start_reading(self, entry: StoredArray) -> ReadOperation:
        reading = ReadOperation(entry, self._condition, self._read_bytes)
        entry.reading = weakref.ref(reading)
        return reading

    async def _fetch(self, reading: ReadOperation) -> None:
        array: Any = None
        error: BaseException | None = None
        try:
            layout, device = reading.entry.layout, reading.entry.device
            data = await self._store.get(reading.entry.key)
            if device.has_host_arrays:
                array = layout.restore(data)
            else:
                array = Upload(layout.restore(data, is_read_only=True), device)
        except BaseException as raised:
            error = raised
            if isinstance(raised, _ENDED):
                raise
        finally:
            self._end_read(reading, array, error)
            del error, reading

    def _end_read(self, reading: ReadOperation, array: Any, error: BaseException | None) -> None:
        entry, failure = reading.entry, None
        if error is not None:
            what = f"a saved tensor of {entry.layout.describe()} could not be got from {self._store!r}"
            failure = store_error(error, what, "the backward cannot go on without it; run the forward again")
            with self._condition:
                # Another backward that needs the array tries again.
                entry.reading = None
        reading.end(array, failure)

    # Deleting.

    def discard(self, entry: StoredArray) -> None:
        """Delete an entry that is no longer needed; if it has not been written yet, do not write it."""
        with self._condition:
            location, entry.location = entry.location, Location.GONE
            entry.free()
            if location is Location.QUEUED:
                self._pending_bytes -= entry.nbytes
                self._notify()
        if location is Location.STORED:
            self._delete(entry)
        elif (
            location is Location.WRITING and entry.is_put and self._release is not None and not self._release(entry.key)
        ):
            self._wait_until_deleted(entry)

    def _wait_until_deleted(self, entry: StoredArray) -> None:
        """Wait until an entry that is being written has been written and deleted, so that nothing is left in the store.

        The garbage collector may call this anywhere: also in the thread that writes, and at the end of the process.
        """
        if threading.current_thread().name.startswith("asyncgrad-"):
            return
        with self._condition:
            while entry in self._writing and self._thread.is_alive() and not sys.is_finalizing():
                self._condition.wait(1.0)

    def _delete(self, entry: StoredArray) -> None:
        # A child process may read what its parent wrote, but not delete it.
        if not entry.key.startswith(self._token):
            return
        if self._release is not None:
            self._release(entry.key)
        else:
            self._thread.submit(self._store.delete(entry.key))


def _may_block() -> bool:
    """Return whether this thread may block: in a blocking backward, or if no event loop runs in it."""
    return BLOCKING.get() or asyncio._get_running_loop() is None
