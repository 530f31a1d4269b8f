"""Packed: the result of a pack hook in place of a saved tensor, and how that becomes the tensor again.

Either hook may be an `async def`. The awaitable of a pack hook is awaited in the background while the forward goes on.
That of an unpack hook is awaited by the node that needs the tensor, and only that node waits.
"""

from __future__ import annotations

import contextvars
import inspect
import weakref
from typing import TYPE_CHECKING, Any, Protocol, final

from ...errors import ChangedTensorError, HookError, HookTypeError
from ..arrays.ownership import make_private
from ..arrays.tensor_base import TensorBase
from ..arrays.values import wrap
from ..settings.arguments import check_callable, describe, must_be
from ..settings.awaiting import finish
from ..settings.context import SAVED_TENSORS_HOOKS, is_kind, set_grad_mode
from .background import background
from .creation import observe_nodes
from .naming import identify, name_hook
from .read_ahead import claim
from .saved import (
    Saved,
    SavedMemory,
    changed_error,
    check_version,
    output_alias,
    released_error,
    unpack_saved,
    version_of,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from .background import PendingWork
    from .node_like import NodeLike

__all__ = [
    "NodePacker",
    "PackHooks",
    "Packed",
    "SavedTensor",
    "abandon",
    "all_saved_by",
    "unpack_all",
    "unpack_now",
    "saved_in_memory_of",
    "unpacked_entries",
]


@final
class PackHooks:
    """A pack hook, its unpack hook, and the packs that still run.

    Args:
        pack: called with a tensor that a node saves.
        unpack: called with what `pack` returned.
        prefetch: called with what `pack` returned before a backward comes to unpack it; see `saved_tensors_hooks`.
        ahead: the number of tensors that may be prefetched and not yet unpacked.
        waits: called with what `pack` returned; tells whether a plain `unpack` would return an awaitable. Only the
            library's own hooks have it; they may be called in several threads at once.

    Raises:
        HookTypeError: a hook cannot be called.
    """

    __slots__ = ("ahead", "pack", "prefetch", "running", "unpack", "unpacks_async", "waits")

    def __init__(
        self,
        pack: Callable[[Any], Any],
        unpack: Callable[[Any], Any],
        *,
        prefetch: Callable[[Any], Any] | None = None,
        ahead: int = 0,
        waits: Callable[[Any], bool] | None = None,
    ) -> None:
        for name, hook in (("pack", pack), ("unpack", unpack)):
            check_callable(hook, f"the {name} hook of a saved tensor", "with one argument")
        if prefetch is not None and (not callable(prefetch) or is_kind(inspect.iscoroutinefunction, prefetch)):
            instead = "it is not awaited, so let it start the fetch and return"
            raise HookTypeError(must_be("the prefetch hook of saved tensors", "a plain function", prefetch, instead))
        self.pack: Callable[[Any], Any] = pack
        self.unpack: Callable[[Any], Any] = unpack
        self.unpacks_async: bool = is_kind(inspect.iscoroutinefunction, unpack)
        self.prefetch: Callable[[Any], Any] | None = prefetch
        self.ahead: int = 0 if prefetch is None else ahead
        self.waits: Callable[[Any], bool] | None = waits
        #: The packs that have not ended, in the order in which they began.
        self.running: dict[PendingWork, None] = {}

    def ended(self, work: PendingWork) -> None:
        """Remove a pack that has ended from `running`."""
        self.running.pop(work, None)

    def pack_saved(self, node: NodeLike) -> None:
        """Pack all saved tensors of a new node; it gets a NodeMeta, since the fast path does not unpack."""
        for index, saved, tensor in unpacked_entries(node):
            node.make_meta()
            node.keep_packed(index, Packed(node, saved, tensor, self))


def unpacked_entries(node: NodeLike) -> Iterator[tuple[int, Saved, TensorBase]]:
    """Yield the entries of a node that hooks for saved tensors have to do with, each with its index and its tensor.

    These are the ones that hold an array, and are not packed.
    """
    for index, saved in enumerate(node.saved_entries() or ()):
        if isinstance(saved, Saved) and saved.tensor is not None and saved.tensor._value_metadata is None:
            yield index, saved, saved.tensor


def saved_in_memory_of(node: NodeLike, tensors: Iterable[tuple[TensorBase, int]]) -> Iterator[tuple[TensorBase, int]]:
    """Yield those of some tensors whose memory a node has saved, packed or not; each comes with a number."""
    pairs = [*tensors]
    if not pairs:
        return
    entries = node.saved_entries() or ()
    counters = {id(tensor._counter) for _, _, tensor in unpacked_entries(node)}
    packed = [entry for entry in entries if isinstance(entry, Packed)]
    for tensor, number in pairs:
        if id(tensor._counter) in counters or any(entry.is_of(tensor) for entry in packed):
            yield tensor, number


class NodePacker(Protocol):
    """The library's own alternative to PackHooks in SAVED_TENSORS_HOOKS."""

    @property
    def unpacks_async(self) -> bool:
        """Whether `unpack` returns an awaitable."""

    def pack_saved(self, node: Any) -> None:
        """Replace each saved tensor of a new node that this packer keeps by a Packed."""

    def keep(self, node: Any, shown: TensorBase) -> Any:
        """Return the value to keep in place of a tensor that `node` saves."""

    def unpack(self, kept: Any) -> Any:
        """Return the tensor or its array, or an awaitable of it, for what `keep` returned."""


@final
class Packed:
    """A saved entry that holds the result of a pack hook, and the tensor's place in the graph.

    Args:
        node: the node that saves the tensor.
        saved: the entry that the node would have without hooks.
        shown: the argument of the pack hook.
        hooks: PackHooks, or a NodePacker of the library, which is called directly, in the caller's context.
    """

    __slots__ = ("_device", "_dtype", "_hooks", "_kept", "_memory", "_shape", "_work", "place")

    def __init__(self, node: NodeLike, saved: Saved, shown: TensorBase, hooks: PackHooks | NodePacker) -> None:
        self._work: PendingWork | None = None
        self._hooks: PackHooks | NodePacker = hooks
        self._shape: tuple[int, ...] = shown._data.shape
        self._dtype, self._device = shown._data.dtype, shown._device
        #: The tensor's place in the graph: see `Saved.place`.
        self.place: tuple[int | None, Any, Any] = saved.place
        #: Detects a write after the pack, for hooks that do not copy the tensor.
        self._memory = SavedMemory(shown, saved.version)
        self._kept = self._pack(node, shown, hooks) if isinstance(hooks, PackHooks) else hooks.keep(node, shown)

    def _pack(self, node: NodeLike, shown: TensorBase, hooks: PackHooks) -> Any:
        hook = hooks.pack
        before = version_of(shown)
        context = contextvars.copy_context()
        kept = context.run(_call_pack_hook, hook, shown)
        name = f"pack {name_hook(hook)} of {identify(node)}"
        if not inspect.isawaitable(kept):
            _check_unchanged(shown, before, name)
            return kept
        work = background().start(_await_pack(kept, shown, before, name), context, name, hooks.ended)
        if work.is_ended:
            return work.take()
        hooks.running[work] = None
        self._work = work
        return None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor that was packed."""
        return self._shape

    @property
    def dtype(self) -> Any:
        """The dtype of the tensor that was packed."""
        return self._dtype

    def is_of(self, tensor: TensorBase) -> bool:
        """Tell whether the tensor that was packed lies in the memory of another one."""
        return self._memory.has(tensor)

    def may_wait(self) -> bool:
        """Tell whether unpacking is known to suspend."""
        hooks, work = self._hooks, self._work
        if (work is not None and not work.is_ended) or hooks.unpacks_async:
            return True
        waits = hooks.waits if isinstance(hooks, PackHooks) and work is None else None
        return waits is not None and waits(self._kept)

    @property
    def calls_users(self) -> bool:
        """Whether unpacking calls a function of the user's, so that the order of the calls matters."""
        return not isinstance(self._hooks, PackHooks) or self._hooks.waits is None

    @property
    def ahead(self) -> int:
        """How many tensors a backward may prefetch when it unpacks this one next; 0 without a prefetch hook."""
        return self._hooks.ahead if isinstance(self._hooks, PackHooks) else 0

    def prefetch(self) -> Any:
        """Return the result of the prefetch hook; None where the pack hook has not ended, or has failed."""
        hook, work = self._hooks.prefetch if isinstance(self._hooks, PackHooks) else None, self._work
        if hook is None or (work is not None and (not work.is_ended or work.has_failed())):
            return None
        if work is not None:
            self._kept, self._work = work.take(), None
        return hook(self._kept)

    def is_unchanged(self) -> bool:
        """Tell whether the memory of the tensor that was packed has not been written into since."""
        return self._memory.is_unchanged()

    def begin(self) -> Any:
        """Return the result of the unpack hook, or a coroutine of it where the pack hook has to end first."""
        # Keeps the prefetched object alive until the unpack hook has run.
        fetched = claim(self) if self.ahead else None
        work = self._work
        try:
            if work is None:
                return self._hooks.unpack(self._kept)
            return self._call_unpack(work) if work.is_ended else self._unpack_after(work)
        finally:
            del fetched

    def _call_unpack(self, ended: PendingWork) -> Any:
        self._kept, self._work = ended.take(), None
        return self._hooks.unpack(self._kept)

    async def _unpack_after(self, work: PendingWork) -> Any:
        await work.wait()
        # Another backward may have waited for the same pack, and taken its result.
        result = self._hooks.unpack(self._kept) if self._work is None else self._call_unpack(work)
        return await finish(result)

    async def restore_later(self, result: Awaitable[Any], node: NodeLike, private: bool) -> Any:
        """Await the result of the unpack hook; return what `restore` makes of it."""
        return self.restore([await result], node, private)

    def restore(self, unpacked: list[Any], node: NodeLike, private: bool) -> Any:
        """Check what the unpack hook returned; return it with the place in the graph that the saved tensor had.

        Args:
            unpacked: a list of what the hook returned, and nothing else; emptied.
            node: the node that needs it.
            private: whether the hook may keep the array, and write into it when it is called again.

        Raises:
            HookTypeError: the result is no array.
            HookError: the result has another shape or dtype, or is on another device.
            ChangedTensorError: the result lies in the memory of the packed tensor, which was written into since.
        """
        result = unpacked.pop()
        tensor = wrap(result, self._device)
        name = f"unpack {name_hook(self._hooks.unpack)} of {identify(node)}"
        if not isinstance(tensor, TensorBase):
            raise HookTypeError(
                f"{name} returned {describe(result)}: return the tensor that was packed, or its array, of shape "
                f"{self._shape} and dtype {self._dtype}"
            )
        data = tensor._data
        if data.shape != self._shape or data.dtype != self._dtype:
            raise HookError(
                f"{name} returned {describe(tensor)}, and what was packed had shape {self._shape} and dtype "
                f"{self._dtype}: return it as it was, with reshape and astype if need be"
            )
        if tensor._device is not self._device:
            raise HookError(
                f"{name} returned a tensor on '{tensor._device}', and what was packed was on '{self._device}': "
                f"write return t.to('{self._device}')"
            )
        output_nr, producer, accumulator = self.place
        version = self._memory.version_in(tensor)
        if version != self._memory.version:
            maker = (node if producer is None and output_nr is not None else producer, output_nr or 0)
            hint = f"{name} brought it back as it is now: let pack copy, t.copy(), or change a copy, t = t.copy()"
            raise changed_error(node, tensor, maker, version, self._memory.version, hint)
        del result, data
        if private and self.calls_users and not self._memory.has(tensor):
            # test_an_array_that_an_unpack_hook_fills_anew_keeps_its_value_where_it_was_returned
            held = [tensor]
            del tensor
            make_private(held, 0)
            tensor = held.pop()
        if producer is not None:
            return output_alias(tensor, producer, output_nr or 0)
        if output_nr is not None:
            return output_alias(tensor, node, output_nr)
        if accumulator is None:
            return tensor
        alias = output_alias(tensor)
        meta = alias._autograd_meta()
        meta.requires_grad, meta.accumulator = True, weakref.ref(accumulator)
        return alias

    def __del__(self) -> None:
        # Nothing needs the result of the pack. (The attribute is missing if the constructor has raised.)
        work = getattr(self, "_work", None)
        if work is not None and not work.is_ended:
            work.cancel()


def _call_pack_hook(hook: Callable[[Any], Any], shown: TensorBase) -> Any:
    """Call a pack hook with recording and saved-tensor hooks off; the caller runs this in a copied context."""
    set_grad_mode(False)
    SAVED_TENSORS_HOOKS.set(None)
    observe_nodes()
    return hook(shown)


async def _await_pack(kept: Awaitable[Any], shown: TensorBase, before: int, name: str) -> Any:
    result = await kept
    if version_of(shown) != before:
        raise ChangedTensorError(
            f"{name} had not ended when its tensor, of shape {shown._data.shape} and dtype {shown._data.dtype}, was "
            f"changed in place (version {before}, now {version_of(shown)}): what it packed may be neither the one nor "
            "the other. Copy before the first await, or change the tensor after the block of "
            "`async with ag.graph.saved_tensors_hooks(...)`, which waits"
        )
    return result


def _check_unchanged(shown: TensorBase, before: int, name: str) -> None:
    if version_of(shown) != before:
        raise HookError(
            f"{name} changed its input in place, a tensor of shape {shown._data.shape} and dtype {shown._data.dtype} "
            f"(version {before}, now {version_of(shown)}), which the forward goes on with: change a copy, t.copy()"
        )


def unpack_all(node: NodeLike, entries: Iterable[Saved | Packed], *, private: bool = True) -> Any:
    """Return a list of the tensors of saved entries, or a coroutine of that list if an unpack has to be awaited.

    The hooks are called in order, and their awaitables awaited concurrently.

    Args:
        node: the node that has saved them.
        entries: the saved entries.
        private: whether a hook may write into what it has returned while the tensors are used.
    """
    found: list[Any] = []
    waiting: dict[int, Packed] = {}
    try:
        for index, entry in enumerate(entries):
            if isinstance(entry, Saved):
                found.append(unpack_saved(node, entry))
                continue
            result = entry.begin()
            if inspect.isawaitable(result):
                waiting[index] = entry
                found.append(result)
                continue
            unpacked = [result]
            del result
            found.append(entry.restore(unpacked, node, private))
    except BaseException:
        for index in waiting:
            abandon(found[index])
        raise
    return _unpack_concurrently(node, found, waiting, private) if waiting else found


async def _unpack_concurrently(
    node: NodeLike, found: list[Any], waiting: dict[int, Packed], private: bool
) -> list[Any]:
    names = [f"unpacking saved tensor {index} of {identify(node)}" for index in waiting]
    coroutines = [entry.restore_later(found[index], node, private) for index, entry in waiting.items()]
    try:
        tensors = await background().together(coroutines, names)
    finally:
        # If one has failed, others may not have started.
        for index in waiting:
            abandon(found[index])
    for index, tensor in zip(waiting, tensors, strict=True):
        found[index] = tensor
    return found


def abandon(awaitable: Any) -> None:
    """Close a coroutine that has not started and will not be awaited, and the coroutines among its arguments."""
    if inspect.iscoroutine(awaitable) and inspect.getcoroutinestate(awaitable) == inspect.CORO_CREATED:
        # Before it starts, its frame holds only its arguments.
        frame = awaitable.cr_frame
        arguments = [] if frame is None else list(frame.f_locals.values())
        awaitable.close()
        for argument in arguments:
            for each in argument if isinstance(argument, list) else (argument,):
                abandon(each)


@final
class SavedTensor:
    """One tensor that a node has saved for its backward: an element of `node.saved_tensors`.

    The node saves an input as the tensor itself, and its own output as a detached alias, so that the output does not
    keep its own graph alive. Each unpacking checks that the tensor has not been written into since.

    Source: SavedTensor of PyTorch's `grad_fn._raw_saved_self` and the like.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
        >>> y = x * x
        >>> first, second = y.grad_fn.saved_tensors
        >>> first.unpack() is x
        True
        >>> first.register_hooks(lambda t: t.numpy().tolist(), lambda numbers: ag.tensor(numbers))
        >>> ag.sync.backward(y.sum())
        >>> x.grad.tolist()
        [2.0, 4.0]
    """

    __slots__ = ("_index", "_node")

    def __init__(self, node: NodeLike, index: int) -> None:
        self._node = node
        self._index = index

    def unpack(self) -> TensorBase | None:
        """Return the tensor, with its place in the graph; None where None was saved.

        Raises:
            ReleasedGraphError: a backward has released the tensor.
            ChangedTensorError: the tensor was written into since, and no hook has kept a copy.
            HookError: a hook has to be awaited, or returned an array that does not fit.
        """
        tensor: TensorBase | None = unpack_now(self._node, [self._entry()], "await saved.load()", private=False)[0]
        return tensor

    async def load(self) -> TensorBase | None:
        """Return what `unpack` returns; suspend where a hook has to be awaited."""
        found = unpack_all(self._node, [self._entry()], private=False)
        tensor: TensorBase | None = (await finish(found))[0]
        return tensor

    def register_hooks(self, pack: Callable[..., object], unpack: Callable[..., object]) -> None:
        """Let `pack(tensor)` store the tensor in place of the node, and `unpack(stored)` bring it back.

        This calls `pack` once, with a detached alias and with recording off; each backward through the node calls
        `unpack`. A write after the pack is an error if `unpack` returns the memory that was packed, but not if it
        returns a copy. Either may be an `async def`, as in `ag.graph.saved_tensors_hooks`.

        Args:
            pack: returns anything; it may not write into the tensor.
            unpack: returns a tensor or an array of the same shape and dtype.

        Raises:
            HookTypeError: a hook cannot be called.
            HookError: the saved tensor has hooks already, or is None; or `pack` wrote into the tensor.
            ReleasedGraphError: a backward has released the tensor.
            ChangedTensorError: the tensor was written into since it was saved.

        Source: SavedTensor.register_hooks of PyTorch.
        """
        node, index, entry = self._node, self._index, self._entry()
        hooks = PackHooks(pack, unpack)
        if isinstance(entry, Packed):
            raise HookError(
                f"saved tensor {index} of {identify(node)} has hooks already, which have packed it: register hooks once"
            )
        if entry.tensor is None:
            raise HookError(f"saved tensor {index} of {identify(node)} is None: there is nothing to pack")
        check_version(node, entry.tensor, entry.version)
        packed = Packed(node, entry, output_alias(entry.tensor), hooks)
        node.make_meta()
        node.keep_packed(index, packed)

    def _entry(self) -> Saved | Packed:
        entries = self._node.saved_entries()
        if entries is None:
            raise released_error(self._node)
        entry: Saved | Packed = entries[self._index]
        return entry

    def __repr__(self) -> str:
        return f"<SavedTensor {self._index} of {identify(self._node)}>"


def all_saved_by(node: NodeLike) -> tuple[SavedTensor, ...]:
    """Return a SavedTensor for each tensor that a node has saved; see Node.saved_tensors."""
    entries = node.saved_entries()
    if entries is None:
        raise released_error(node)
    return tuple(SavedTensor(node, index) for index in range(len(entries)))


def unpack_now(node: NodeLike, entries: Iterable[Saved | Packed], instead: str, *, private: bool = True) -> list[Any]:
    """Return the tensors of saved entries where the caller cannot wait; the rest is as for `unpack_all`.

    Raises:
        HookError: a hook has to be awaited; the message names what to write `instead`.
    """
    tensors = []
    for entry in entries:
        if isinstance(entry, Packed):
            result = None if entry.may_wait() else entry.begin()
            if entry.may_wait() or inspect.isawaitable(result):
                abandon(result)
                raise HookError(
                    f"a saved tensor of {identify(node)} has an async pack or unpack hook, which has to be awaited: "
                    f"write {instead}"
                )
            unpacked = [result]
            del result
            tensors.append(entry.restore(unpacked, node, private))
        else:
            tensors.append(unpack_saved(node, entry))
    return tensors
