"""Recomputation: one run of a checkpointed call again, for one backward, held against what its forward saved.

This serves checkpoints that are not reentrant. The forward writes a ForwardRecord. A Recomputation runs once, however
many nodes ask for it, and collects the tensors saved in it; where they are not those of the record it raises a
CheckpointError.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import weakref
from collections.abc import Callable
from contextvars import Context, copy_context
from itertools import zip_longest
from types import FrameType
from typing import Any, NamedTuple, final

from ...core.arrays.values import counted
from ...core.engine.dependents import hold, let_go
from ...core.engine.device_limit import wait_with_loan
from ...core.graph.node import LEAF_ORDER, Node
from ...core.graph.packed import unpacked_entries
from ...core.graph.saved import changed_error, version_of
from ...core.settings.awaiting import wake
from ...core.settings.context import BLOCKING
from ...errors import ChangedTensorError, CheckpointError
from .call import CheckpointOptions, user_hooks
from .steps import Steps

__all__ = ["ForwardRecord", "Holder", "Recomputation"]

#: How many differences an error lists.
LISTED = 10

#: What to write in place of a change of a tensor that a checkpointed function reads.
_CHANGED = "Write into it after the backward, which calls the checkpointed function again"


# --- what the forward saved --------------------------------------------------------------------------


@final
class Holder:
    """Stands in a node for the saved tensor number `index` of the forward."""

    __slots__ = ("__weakref__", "index")

    def __init__(self, index: int) -> None:
        self.index: int = index


class SavedSpec(NamedTuple):
    """What a saved tensor looked like, and the name of the node that saved it."""

    shape: tuple[int, ...]
    dtype: Any
    device: Any
    owner: str

    @classmethod
    def of(cls, node: Node, tensor: Any) -> SavedSpec:
        """Return the spec of a tensor that `node` saves."""
        data = tensor._data
        return cls(data.shape, data.dtype, tensor._device, node.name)

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)} on '{self.device}', saved by {self.owner}"


class SavedVersion(NamedTuple):
    """The version of a saved tensor's memory, and what tells that memory: the counter, or the tensor if it has none."""

    #: Weak, since what the function has made itself is made anew.
    memory: weakref.ref[Any]
    version: int

    @classmethod
    def of(cls, tensor: Any) -> SavedVersion:
        """Return that of a tensor."""
        return cls(weakref.ref(tensor if tensor._counter is None else tensor._counter), version_of(tensor))

    def has_changed(self, tensor: Any) -> bool:
        """Tell whether a tensor lies in this memory, which has been written into."""
        memory = self.memory()
        is_same = memory is not None and (memory is tensor or memory is tensor._counter)
        return is_same and version_of(tensor) != self.version


@final
class OperationLog:
    """The operations of one run, each with the line of the user's code that called it."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines: list[str] = []

    def add(self, node: Node) -> None:
        """Add the operation that made a node."""
        if node.order == LEAF_ORDER:
            # A leaf's node is made when the leaf is first used, and so in the forward alone.
            return
        outputs = ", ".join(
            f"{metadata.dtype}{list(metadata.shape)}" for metadata in node.input_metadata if metadata is not None
        )
        self._lines.append(f"{node.name} {outputs}".rstrip() + f"  {_line_of_user()}")

    def diff(self, recomputed: OperationLog) -> str:
        """Return the operations of both runs, with - and + where they differ, in their lines of code too."""
        lines = []
        for number, (one, two) in enumerate(zip_longest(self._lines, recomputed._lines, fillvalue="nothing"), 1):
            if one == two:
                lines.append(f"    {number}. {one}")
            else:
                lines += [f"  - {number}. {one}", f"  + {number}. {two}"]
        return "\n".join(lines)


def _line_of_user() -> str:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name != "asyncgrad" and not name.startswith("asyncgrad."):
            return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
        frame = frame.f_back
    return "(not called from your code)"


@final
class ForwardRecord:
    """What the forward of a checkpointed call saved, in order; and how the call is named and checkpointed.

    Args:
        name: of the function.
        options: of the checkpoint.
        waits: whether a recomputation may have something to await.
    """

    __slots__ = ("holders", "is_complete", "name", "operations", "options", "specs", "user_hooks", "versions", "waits")

    def __init__(self, name: str, options: CheckpointOptions, waits: bool) -> None:
        self.name: str = name
        self.options: CheckpointOptions = options
        self.waits: bool = waits
        #: The user's saved-tensor hooks in the forward.
        self.user_hooks: Any = user_hooks()
        #: Weak: a holder that is gone stands for a tensor that no node needs any more.
        self.holders: list[weakref.ref[Holder]] = []
        self.specs: list[SavedSpec] = []
        self.versions: list[SavedVersion] = []
        #: Only for `debug=True`.
        self.operations: OperationLog | None = OperationLog() if options.debug else None
        #: Whether the forward has ended. A backward inside the function may ask for tensors before that.
        self.is_complete: bool = False

    def add(self, node: Node, tensor: Any) -> Holder:
        """Return the holder of one more tensor, which `node` saves."""
        holder = Holder(len(self.holders))
        self.holders.append(weakref.ref(holder))
        self.specs.append(SavedSpec.of(node, tensor))
        self.versions.append(SavedVersion.of(tensor))
        return holder

    def needed(self) -> int:
        """Return how many tensors a recomputation saves until it has all that are still needed."""
        count = len(self.holders)
        while count and self.holders[count - 1]() is None:
            count -= 1
        return count


# --- running it again --------------------------------------------------------------------------------


class StopRecomputation(BaseException):
    """Ends a recomputation that has all it needs. Not an Exception, since the function may catch those."""


@final
class Recomputation:
    """Runs a checkpointed call again for one backward. Its nodes are shown to it as to saved-tensor hooks.

    Args:
        record: of the forward.
    """

    __slots__ = (
        "_changed",
        "_count",
        "_has_all",
        "_lock",
        "_mismatches",
        "_needed",
        "_operations",
        "_record",
        "_values",
        "_waiting",
        "is_done",
    )

    def __init__(self, record: ForwardRecord) -> None:
        self._record = record
        self._lock = threading.RLock()
        #: While it runs on an event loop, who else waits for its end, on which loop; None at other times.
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None], Context]] | None = None
        self._reset()

    def _reset(self) -> None:
        #: The recomputed arrays, by index; each is taken once.
        self._values: dict[int, Any] = {}
        #: How many tensors have been saved so far.
        self._count = 0
        self._mismatches: list[tuple[int, SavedSpec, SavedSpec]] = []
        #: The error for the first tensor that has been written into since the forward saved it.
        self._changed: ChangedTensorError | None = None
        self._operations = None if self._record.operations is None else OperationLog()
        self._needed = self._record.needed()
        self._has_all = False
        self.is_done = False

    @property
    def user_hooks(self) -> Any:
        """The user's saved-tensor hooks in the forward."""
        return self._record.user_hooks

    def take(self, holder: Holder) -> Any:
        """Return the array of a holder, and keep no reference to it; None where it has been taken before."""
        return self._values.pop(holder.index, None)

    def run_once(self, function: Callable[[Recomputation], Steps]) -> Steps:
        """Run it unless it has been run; while somebody else runs it, wait for that.

        Args:
            function: calls the checkpointed function with this as its saved-tensor hooks.

        Raises:
            CheckpointError: the function did not do what it did in the forward.
        """
        if not self._record.waits or BLOCKING.get():
            # Nothing suspends here, so whoever else asks meanwhile does so in another thread.
            with self._lock:
                if not self.is_done:
                    yield from self._run(function)
            return
        while not self.is_done:
            if self._waiting is None:
                self._waiting = []
                hold(self)
                try:
                    yield from self._run(function)
                finally:
                    let_go(self)
                    self._wake_waiting()
            else:
                # If this run fails or is cancelled, one of those that wait runs it again.
                loop = asyncio.get_running_loop()
                future = loop.create_future()
                self._waiting.append((loop, future, copy_context()))
                # The function may await a backward that needs the place on a device of the body that waits.
                yield wait_with_loan(future)

    @property
    def is_held(self) -> bool:
        """Whether it runs, and others may wait for it."""
        return self._waiting is not None

    def dependents(self) -> list[Context]:
        """Return the contexts of those who wait for it; takes no lock."""
        return [context for _, _, context in self._waiting or ()]

    def _run(self, function: Callable[[Recomputation], Steps]) -> Steps:
        try:
            try:
                yield from function(self)
            except BaseException as error:
                if not (self._has_all and _only_stops(error)):
                    raise
            self._finish()
        except BaseException:
            self._reset()
            raise

    def _wake_waiting(self) -> None:
        waiting, self._waiting = self._waiting or [], None
        for loop, future, _ in waiting:
            # A loop that has been closed has nobody waiting.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(wake, future)

    def pack_saved(self, node: Node) -> None:
        """See what a new node has saved; nothing of it is packed.

        Raises:
            StopRecomputation: that was the last tensor needed.
        """
        if self._operations is not None:
            self._operations.add(node)
        for _, _, tensor in unpacked_entries(node):
            self._see(node, tensor)

    def _see(self, node: Node, tensor: Any) -> None:
        index = self._count
        self._count += 1
        record = self._record
        if index >= len(record.holders):
            return
        expected, found = record.specs[index], SavedSpec.of(node, tensor)
        if expected != found:
            self._mismatches.append((index, expected, found))
        elif self._changed is None and record.versions[index].has_changed(tensor):
            # One that the function has not got as an argument: a parameter, say, that an optimizer has updated.
            place, version = (tensor._grad_fn, tensor._output_nr), record.versions[index].version
            self._changed = changed_error(node, tensor, place, version_of(tensor), version, _CHANGED)
        if record.holders[index]() is not None:
            self._values[index] = tensor._data
        if self._count == self._needed and record.options.early_stop:
            self._has_all = True
            raise StopRecomputation

    def _finish(self) -> None:
        """Check that what has been saved is what the forward saved.

        Raises:
            CheckpointError: it is not.
        """
        record, count = self._record, self._count
        expected = len(record.holders)
        if count < self._needed or (not self._has_all and count < expected):
            lacking = f"; number {count} in the forward was {record.specs[count]}"
            raise self._error(self._counts() + lacking)
        if record.options.determinism_check == "default":
            if record.is_complete and count > expected:
                raise self._error(self._counts())
            if self._mismatches:
                raise self._error(self._list_mismatches())
            if self._changed is not None:
                raise self._changed
        self.is_done = True

    def _counts(self) -> str:
        return (
            f"saved {counted(len(self._record.specs), 'tensor')} in the forward and "
            f"{counted(self._count, 'tensor')} when it was called again"
        )

    def _list_mismatches(self) -> str:
        lines = [
            f"\n  tensor {index}: {before} in the forward\n  {' ' * len(f'tensor {index}')}  {after} when called again"
            for index, before, after in self._mismatches[:LISTED]
        ]
        if len(self._mismatches) > LISTED:
            lines.append(f"\n  and {len(self._mismatches) - LISTED} more")
        return f"saved other tensors when it was called again than in the forward:{''.join(lines)}"

    def _error(self, difference: str) -> CheckpointError:
        forward, again = self._record.operations, self._operations
        hint = "pass debug=True to ag.checkpoint to see the operations of both"
        if forward is not None and again is not None:
            hint = (
                "the operations of the forward (-) and of the recomputation (+), where they differ:\n"
                f"{forward.diff(again)}"
            )
        return CheckpointError(
            f"{self._record.name} is checkpointed and {difference}.\nA checkpointed function must do the same each "
            "time: it may not depend on state that changes, on the time, or on a random stream that ag.checkpoint does "
            f"not know (name it in generators=[...]).\n{hint}"
        )


def _only_stops(error: BaseException) -> bool:
    """Tell whether an error is a StopRecomputation, or a group of nothing else, as a TaskGroup makes."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(StopRecomputation)[1] is None
    return isinstance(error, StopRecomputation)
