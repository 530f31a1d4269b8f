"""What nodes keep in the place of tensors that a store has: the activation, where its array is, and its way back."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import weakref
from typing import TYPE_CHECKING, Any, final

from ..errors import ChangedTensorError, StoreError
from ..graph.saved import output_alias, version_of

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from ..graph.tensor_base import TensorBase, VersionCounter
    from .layout import Layout

__all__ = ["Activation", "StoredArray", "Location", "Reading", "KeptInMemory", "is_parameter", "store_error", "wake"]


class Location(enum.Enum):
    """Where the array of an entry is."""

    QUEUED = "in memory, and is to be written"
    WRITING = "in memory, and is being written"
    STORED = "in the store"
    KEPT = "in memory, since it could not be written"
    GONE = "nowhere: nobody has queued it yet, or nobody needs it any more"


@final
class StoredArray:
    """One array under one key; shared by who needs it and by what writes it. Guarded by the lock of its Offload."""

    __slots__ = ("array", "is_put", "is_wanted", "key", "layout", "nbytes", "number", "place", "reading")

    def __init__(self, number: int, key: str, array: Any, layout: Layout) -> None:
        #: Entries of one Offload are numbered in the order in which they were made.
        self.number = number
        self.key = key
        self.layout = layout
        self.nbytes = layout.nbytes
        #: None once it is stored.
        self.array = array
        self.place = Location.GONE
        #: Whether the store has been told to keep it.
        self.is_put = False
        #: Whether a backward has asked for it before it was written.
        self.is_wanted = False
        #: What reads it, or has read it for somebody who has not taken it yet.
        self.reading: weakref.ref[Reading] | None = None

    def under_way(self) -> Reading | None:
        """Return what reads it, or holds it for somebody who has not taken it yet."""
        return None if self.reading is None else self.reading()


@final
class Activation:
    """What nodes keep in place of a tensor. When the last of them lets go of it, it is deleted from the store."""

    __slots__ = ("__weakref__", "_counter", "_let_go", "_version", "entry", "root")

    def __init__(
        self,
        tensor: TensorBase,
        entry: StoredArray,
        let_go: Callable[[StoredArray], object],
        root: weakref.ref[Any],
    ) -> None:
        self.entry = entry
        #: Called at the end: nobody needs the array any more.
        self._let_go = let_go
        #: The array that owns the memory, weakly: as long as it lives, its address stands for it alone.
        self.root = root
        self._counter: VersionCounter = tensor._shared_version()
        self._version = self._counter.value

    def check_unchanged(self) -> None:
        """Raise if the tensor was written into since it was saved, wherever its array was by then.

        Raises:
            ChangedTensorError: as without offloading, so that no gradient depends on how fast a disk is.
        """
        if self._counter.value != self._version:
            raise _changed(self.entry.layout.described(), self._version, self._counter.value)

    def __del__(self) -> None:
        self._let_go(self.entry)


@final
class KeptInMemory:
    """A saved tensor that stays in memory: a small one, a parameter, or what has no plain array."""

    __slots__ = ("_tensor", "_version")

    def __init__(self, tensor: TensorBase) -> None:
        # Detached, so that it keeps no graph alive: the node has the tensor's place.
        self._tensor = output_alias(tensor)
        self._version = version_of(tensor)

    def value(self) -> TensorBase:
        """Return the tensor.

        Raises:
            ChangedTensorError: it was written into since it was saved.
        """
        tensor, version = self._tensor, version_of(self._tensor)
        if version != self._version:
            described = f"shape {tensor._data.shape} and dtype {tensor._data.dtype}"
            raise _changed(described, self._version, version)
        return tensor


def _changed(described: str, saved: int, now: int) -> ChangedTensorError:
    return ChangedTensorError(
        f"a saved tensor of {described} was changed in place since the forward call: it is at version {now}, and "
        f"version {saved} was saved. Change a copy instead: t = t.copy(); t += ..."
    )


def is_parameter(tensor: TensorBase) -> bool:
    """Tell whether a tensor is a leaf that requires grad, or a view of one: who holds it holds its memory anyway."""
    view = tensor._view_meta()
    base = tensor if view is None else view.base
    return base._grad_fn is None and base._meta is not None and base._meta.requires_grad


@final
class Reading:
    """An array that comes back, or is there and has not been taken by all who asked for it ahead.

    It is held by those alone. When the last lets go of it, the room that it takes is free again.

    Args:
        entry: whose array it is.
        changed: guards it, and is notified at the end.
        room: a list of one number, the bytes that all readings of one Offload take.
    """

    __slots__ = ("__weakref__", "_array", "_changed", "_error", "_room", "_waiting", "entry", "is_ended")

    def __init__(self, entry: StoredArray, changed: threading.Condition, room: list[int]) -> None:
        self.entry = entry
        self.is_ended = False
        self._changed = changed
        self._room = room
        self._array: Any = None
        self._error: StoreError | None = None
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        with changed:
            room[0] += entry.nbytes

    def __del__(self) -> None:
        with self._changed:
            self._room[0] -= self.entry.nbytes

    def end(self, array: Any, error: StoreError | None) -> None:
        """Note what came, and wake who waits."""
        with self._changed:
            self._array, self._error, self.is_ended = array, error, True
            waiting, self._waiting = self._waiting, []
            self._changed.notify_all()
        for loop, waiter in waiting:
            # Who waited on a loop that has been closed does not wait any more.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(wake, waiter)

    def take(self) -> Any:
        """Return the array, now that it has come.

        Raises:
            StoreError: it has not.
        """
        if self._error is not None:
            # A new one each time: its traceback leads to who holds this.
            raise type(self._error)(*self._error.args) from self._error.__cause__
        return self._array

    def wait_blocking(self) -> Any:
        """Wait in this thread, and return what `take` does."""
        with self._changed:
            while not self.is_ended:
                self._changed.wait()
        return self.take()

    async def wait(self) -> Any:
        """Wait, and return what `take` does; from any event loop."""
        loop = asyncio.get_running_loop()
        with self._changed:
            waiter = None if self.is_ended else loop.create_future()
            if waiter is not None:
                self._waiting.append((loop, waiter))
        if waiter is not None:
            await waiter
        return self.take()


def wake(waiter: asyncio.Future[None]) -> None:
    """Let who waits go on, unless that was cancelled."""
    if not waiter.done():
        waiter.set_result(None)


def store_error(error: BaseException, what: str, advice: str) -> StoreError:
    """Return the error that tells a user what a store has raised, with its number if it has one."""
    number = error.errno if isinstance(error, OSError) else None
    text = f"{what}: {_in_words(error)}; {advice}"
    made = StoreError(text) if number is None else StoreError(number, text)
    made.__cause__ = error.with_traceback(None)
    return made


def _in_words(error: BaseException) -> str:
    """Return what an error says, with its type where that is not the system's own."""
    if isinstance(error, OSError):
        # An OSError without a number, but with other arguments, calls itself "[Errno None]".
        text = str(error) if error.errno is not None else error.strerror or str(error)
        return text or type(error).__name__
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
