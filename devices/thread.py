"""`thread:N`: devices with one worker thread and a queue each; the gradients of their tensors are computed there."""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
import weakref
from heapq import heappop, heappush
from typing import TYPE_CHECKING, final

from asyncgrad.core.engine.device import Device, Job, loop_thread, worker_died_error
from asyncgrad.core.settings.process import call_in_forked_children
from asyncgrad.errors import DeviceError

from ._serving import FairLock, Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["ThreadDevice", "open_device"]

LOG = logging.getLogger("asyncgrad.devices")

_ALL: weakref.WeakSet[ThreadDevice] = weakref.WeakSet()


@final
class ThreadDevice(Device):
    """NumPy arrays whose gradients are computed by one worker thread, one node at a time, in the order of priority.

    The thread starts with the first work. It runs an event loop, so that the next body can begin while one is
    suspended. It is a daemon thread, and does not delay the end of the interpreter. A child of `fork` gets a new one.

    While a plain body blocks the thread, in a backward of `asyncgrad.sync` that needs other devices, a second thread
    takes over the queue, so that nesting cannot deadlock. Only one of them runs code at a time.

    Args:
        index: the number after the colon.

    Source: the device threads of PyTorch's engine.

    Example:
        >>> import asyncgrad as ag
        >>> async def main():
        ...     x = ag.tensor([1.0, 2.0], requires_grad=True)
        ...     y = (x.to("thread:0") * 2).sum()
        ...     await y.backward()
        ...     return x.grad.tolist()
        >>> ag.run(main())
        [2.0, 2.0]
    """

    __slots__ = (
        "_heap",
        "_index",
        "_inherited",
        "_is_closed",
        "_lock",
        "_next_arrival",
        "_run_lock",
        "_servers",
        "_threads",
    )

    has_worker = True
    max_in_flight = 1

    def __init__(self, index: int) -> None:
        self._index = index
        self._next_arrival = itertools.count().__next__
        #: After a fork, the parent's servers. They are kept: if the garbage collector closed their loops in the child,
        #: those of the parent could no longer be woken.
        self._inherited: list[Server] = []
        self._servers: list[Server] = []
        self._reset()
        _ALL.add(self)

    def _reset(self) -> None:
        self._inherited += self._servers
        #: Reentrant: the garbage collector may run code that needs it at any line.
        self._lock = threading.RLock()
        self._run_lock = FairLock()
        #: The waiting Jobs, by priority and then by arrival.
        self._heap: list[tuple[tuple[int, int], int, Job]] = []
        self._servers = []
        self._threads: frozenset[int | None] = frozenset()
        self._is_closed = False

    @property
    def name(self) -> str:
        """A name such as `thread:0`."""
        return f"thread:{self._index}"

    def is_here(self) -> bool:
        """Return whether the caller runs in the worker thread, or in one that continues it on a deeper stack."""
        return loop_thread() in self._threads

    def submit(self, job: Job) -> None:
        """Queue a Job, from any thread; if the device is closed, refuse it."""
        try:
            with self._lock:
                if self._is_closed:
                    raise DeviceError(f"{self.name} is closed: ag.device({self.name!r}) opens it again")
                server = self._server_to_wake()
                heappush(self._heap, (job.priority, self._next_arrival(), job))
        except (DeviceError, RuntimeError) as error:
            # RuntimeError: no thread can be started while the interpreter ends.
            refusal = error if isinstance(error, DeviceError) else worker_died_error(self, error)
            job.refuse(refusal)
            return
        if server is not None:
            server.wake()

    def waiting_jobs(self) -> list[Job]:
        """Return the Jobs that wait, the most urgent first."""
        return [job for _, _, job in sorted(self._heap.copy())]

    def _server_to_wake(self) -> Server | None:
        """Return the server to wake for a Job, or None if one is about to look at the queue anyway."""
        able = [server for server in self._servers if server.takes_jobs()]
        if any(server.is_due for server in able):
            return None
        server = able[0] if able else self._new_server()
        server.is_due = True
        return server

    def _new_server(self) -> Server:
        server = Server(f"asyncgrad {self.name}", self._run_lock, self._take, self._note_end)
        try:
            server.thread.start()
        except RuntimeError:
            server.loop.close()
            raise
        self._servers.append(server)
        self._threads |= {server.thread.ident}
        return server

    def _take(self, server: Server) -> Job | None:
        with self._lock:
            if self._heap and server.takes_jobs():
                return heappop(self._heap)[2]
            server.is_due = False
            return None

    def _note_end(self, server: Server, has_died: bool, cause: BaseException | None) -> Callable[[], BaseException]:
        """Drop a server whose thread ends; if the thread has died, refuse all waiting Jobs."""
        refused: list[tuple[tuple[int, int], int, Job]] = []
        with self._lock:
            if server in self._servers:
                self._servers.remove(server)
                self._threads -= {server.thread.ident}
            if has_died and server.takes_jobs():
                refused, self._heap = sorted(self._heap), []
        if has_died:
            LOG.warning("the worker of %s died: %r", self.name, cause)
        else:
            LOG.debug("asyncgrad %s ended", self.name)
        for _, _, job in refused:
            job.refuse(worker_died_error(self, cause))
        return lambda: worker_died_error(self, cause)

    @contextlib.contextmanager
    def stand_in(self) -> Iterator[None]:
        """Have another thread serve the queue inside this block, in which the worker waits for other threads."""
        thread = loop_thread()
        with self._lock:
            blocked = next(server for server in self._servers if server.thread.ident == thread)
            blocked.is_blocked = True
            other = self._server_to_wake()
        if other is not None:
            other.wake()
        self._run_lock.release()
        try:
            yield
        finally:
            with self._lock:
                blocked.is_blocked = False
                # The server that stood in for this one retires; one that stands in for another server goes on.
                spare = [server for server in self._servers if server.takes_jobs() and server is not blocked]
                for server in spare:
                    server.is_retired = True
                woken = self._server_to_wake() if self._heap else None
            for server in spare:
                server.retire()
            if woken is not None:
                woken.wake()
            self._run_lock.acquire()

    def close(self) -> None:
        """Refuse waiting and new work; running work ends, and then the thread ends.

        The device stays the same object, and its tensors can still be read and moved. `ag.device` opens it again.

        Example:
            >>> import asyncgrad as ag
            >>> ag.device("thread:7").close()
        """
        with self._lock:
            self._is_closed = True
            refused, self._heap = sorted(self._heap), []
            servers = list(self._servers)
            for server in servers:
                server.is_retired = True
        for _, _, job in refused:
            job.refuse(
                DeviceError(f"{self.name} was closed before this began: ag.device({self.name!r}) opens it again")
            )
        for server in servers:
            server.retire()

    def reopen(self) -> None:
        """Accept work again after `close`."""
        self._is_closed = False


def _reset_all() -> None:
    for device in list(_ALL):
        device._reset()


call_in_forked_children(_reset_all)


def open_device(index: int | None) -> ThreadDevice:
    """Return a device with one worker thread.

    Raises:
        DeviceError: no index was given.
    """
    if index is None:
        raise DeviceError("the name 'thread' needs a number: write 'thread:0'")
    return ThreadDevice(index)
