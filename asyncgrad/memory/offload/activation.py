"""The records that nodes keep in place of offloaded tensors, and the read operations that bring the arrays back."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import weakref
from typing import TYPE_CHECKING, Any, final

from ...core.graph.saved import output_alias, version_of
from ...core.settings.awaiting import wake
from ...core.views.history import base_of
from ...errors import ChangedTensorError, StoreError
from .transfers import Upload

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from ...core.arrays.tensor_base import TensorBase, VersionCounter
    from ...core.engine.device import Device
    from .layout import Layout
    from .transfers import HostCopy

__all__ = [
    "Activation",
    "StoredArray",
    "Location",
    "ReadOperation",
    "KeptInMemory",
    "is_parameter",
    "store_error",
]


class Location(enum.Enum):
    """Where the array of a StoredArray is."""

    QUEUED = "in memory, waiting to be written"
    WRITING = "in memory, being written"
    STORED = "in the store"
    KEPT = "in memory, because it could not be written"
    GONE = "nowhere: it has not been queued yet, or it is no longer needed"


@final
class StoredArray:
    """One array under one key, shared by its Activations and its writer. Guarded by the lock of its Offload."""

    __slots__ = (
        "array",
        "copy",
        "device",
        "is_put",
        "is_requested",
        "key",
        "layout",
        "location",
        "nbytes",
        "number",
        "reading",
    )

    def __init__(
        self, number: int, key: str, array: Any, layout: Layout, device: Device, copy: HostCopy | None = None
    ) -> None:
        #: The entries of one Offload are numbered in the order in which they are made.
        self.number: int = number
        self.key: str = key
        self.layout: Layout = layout
        self.nbytes: int = layout.nbytes
        #: None once the array is stored.
        self.array: Any | None = array
        #: Where it lives.
        self.device: Device = device
        #: Its copy in the host's memory, of which the layout is, where the device has arrays of its own. None once the
        #: array is stored.
        self.copy = copy
        self.location: Location = Location.GONE
        #: Whether `put` of the store has been called for it.
        self.is_put: bool = False
        #: Whether a backward asked for it before it was written.
        self.is_requested: bool = False
        #: Its read operation, as long as a caller holds that.
        self.reading: weakref.ref[ReadOperation] | None = None

    def free(self) -> None:
        """Let go of the array."""
        self.array = self.copy = None

    def pending_read(self) -> ReadOperation | None:
        """Return the read operation that reads the array, or holds it for a caller that has not taken it yet."""
        return None if self.reading is None else self.reading()


@final
class Activation:
    """The record that nodes keep in place of a tensor. When the last node drops it, the store deletes the array."""

    __slots__ = ("__weakref__", "_counter", "_discard", "_version", "entry", "root")

    def __init__(
        self,
        tensor: TensorBase,
        entry: StoredArray,
        discard: Callable[[StoredArray], object],
        root: weakref.ref[Any],
    ) -> None:
        self.entry: StoredArray = entry
        #: Called when the array is no longer needed.
        self._discard = discard
        #: The array that owns the memory, weakly: as long as it lives, no other array has its address.
        self.root: weakref.ref[Any] = root
        self._counter: VersionCounter = tensor._shared_version()
        self._version = self._counter.value

    def check_unchanged(self) -> None:
        """Raise if the tensor was written into since it was saved, even if its array had been stored by then.

        The rule is the same as without offloading, so that no gradient depends on how fast a disk is.

        Raises:
            ChangedTensorError: the tensor was written into.
        """
        if self._counter.value != self._version:
            raise _changed_error(self.entry.layout.describe(), self._version, self._counter.value)

    def __del__(self) -> None:
        self._discard(self.entry)


@final
class KeptInMemory:
    """A saved tensor that stays in memory: it is small, a parameter, or has no plain array."""

    __slots__ = ("_tensor", "_version")

    def __init__(self, tensor: TensorBase) -> None:
        # Detached, so that it keeps no graph alive: the node knows the tensor's place in the graph.
        self._tensor = output_alias(tensor)
        self._version = version_of(tensor)

    def value(self) -> TensorBase:
        """Return the tensor.

        Raises:
            ChangedTensorError: the tensor was written into since it was saved.
        """
        tensor, version = self._tensor, version_of(self._tensor)
        if version != self._version:
            described = f"shape {tensor._data.shape} and dtype {tensor._data.dtype}"
            raise _changed_error(described, self._version, version)
        return tensor


def _changed_error(described: str, saved: int, now: int) -> ChangedTensorError:
    return ChangedTensorError(
        f"a saved tensor of {described} was changed in place since the forward call: it is at version {now}, and "
        f"version {saved} was saved. Change a copy instead: t = t.copy(); t += ..."
    )


def is_parameter(tensor: TensorBase) -> bool:
    """Return whether a tensor is a leaf that requires grad, or a view of one: its memory is held in any case."""
    base = base_of(tensor)
    return base._grad_fn is None and base._meta is not None and base._meta.requires_grad


@final
class ReadOperation:
    """One read from the store, and its result until every caller that asked for it ahead has taken it.

    Only those callers hold it. When the last one drops it, its bytes no longer count against the limit.

    Args:
        entry: the entry whose array is read.
        condition: guards this operation, and is notified when it ends.
        total: a list of one number, the bytes that all read operations of one Offload hold.
    """

    __slots__ = ("__weakref__", "_array", "_condition", "_error", "_total", "_waiters", "entry", "is_ended")

    def __init__(self, entry: StoredArray, condition: threading.Condition, total: list[int]) -> None:
        self.entry: StoredArray = entry
        self.is_ended: bool = False
        self._condition = condition
        self._total = total
        self._array: Any = None
        self._error: StoreError | None = None
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        with condition:
            total[0] += entry.nbytes

    def __del__(self) -> None:
        with self._condition:
            self._total[0] -= self.entry.nbytes

    def end(self, array: Any, error: StoreError | None) -> None:
        """Store the result, an array or an Upload, or the error, and wake all waiters."""
        with self._condition:
            self._array, self._error, self.is_ended = array, error, True
            waiters, self._waiters = self._waiters, []
            self._condition.notify_all()
        for loop, waiter in waiters:
            # The loop may have been closed; then nobody waits there.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(wake, waiter)

    def take(self) -> Any:
        """Return the array of an operation that has ended.

        Raises:
            StoreError: the read failed.
        """
        if self._error is not None:
            # A new error each time: a traceback refers to the frames that hold this operation, which would be a cycle.
            raise type(self._error)(*self._error.args) from self._error.__cause__
        return self._array.take() if isinstance(self._array, Upload) else self._array

    def wait_blocking(self) -> Any:
        """Block this thread until the operation has ended, and return the array as `take` does."""
        with self._condition:
            while not self.is_ended:
                self._condition.wait()
        return self.take()

    async def wait(self) -> Any:
        """Wait on any event loop until the operation has ended, and return the array as `take` does."""
        loop = asyncio.get_running_loop()
        with self._condition:
            waiter = None if self.is_ended else loop.create_future()
            if waiter is not None:
                self._waiters.append((loop, waiter))
        if waiter is not None:
            await waiter
        return self.take()


def store_error(error: BaseException, what: str, advice: str) -> StoreError:
    """Return a StoreError that reports an error of a store to the user, with its errno if it has one."""
    number = error.errno if isinstance(error, OSError) else None
    text = f"{what}: {_describe_error(error)}; {advice}"
    made = StoreError(text) if number is None else StoreError(number, text)
    made.__cause__ = error.with_traceback(None)
    return made


def _describe_error(error: BaseException) -> str:
    """Return the message of an error, with its type unless it is an OSError."""
    if isinstance(error, OSError):
        # The text of an OSError that has arguments but no number begins with "[Errno None]".
        text = str(error) if error.errno is not None else error.strerror or str(error)
        return text or type(error).__name__
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
