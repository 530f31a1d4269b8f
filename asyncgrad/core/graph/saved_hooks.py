"""Modes for saved tensors: store them by hooks, forbid hooks, or copy them before an in-place write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final
from weakref import WeakKeyDictionary, WeakSet

from ...errors import ArgumentError, ArgumentTypeError, ChangedTensorError, HookError
from ..arrays.copy_on_write import copy_shared_before_write
from ..arrays.values import own_copy
from ..settings.arguments import must_be, whole_number
from ..settings.context import COPY_ON_WRITE, SAVED_TENSORS_HOOKS, Mode
from .background import background
from .creation import observe_nodes
from .packed import PackHooks
from .saved import output_alias, version_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from ..arrays.tensor_base import TensorBase, VersionCounter

__all__ = [
    "allow_mutation_on_saved_tensors",
    "begin_writes",
    "disable_saved_tensors_hooks",
    "prepare_write",
    "saved_tensors_hooks",
]


class SavedTensorsMode(Mode):
    """Abstract base of the modes that decide how new nodes keep their saved tensors."""

    __slots__ = ()

    def _get(self) -> Any:
        return SAVED_TENSORS_HOOKS.get()

    def _set(self, value: Any, /) -> None:
        SAVED_TENSORS_HOOKS.set(value)
        observe_nodes()

    def _check_allowed(self) -> None:
        """Raise HookError where `disable_saved_tensors_hooks` forbids hooks."""
        message = SAVED_TENSORS_HOOKS.get()
        if isinstance(message, str):
            raise HookError(message)


@final
class saved_tensors_hooks(SavedTensorsMode):
    """Inside, nodes give each tensor that they save for the backward to `pack`, and get it back from `unpack`.

    The node keeps the result of `pack` in place of the tensor: a path, a compressed copy, a handle. Each backward
    through the node calls `unpack` on that result when the node's turn comes. Nodes unpack in the order in which they
    run, newest first; one node unpacks in the order of `node.saved_tensors`, and only the tensors that the requested
    gradients need. A tensor that is saved twice is packed twice. A context manager, and a decorator of functions,
    generators and their async kinds. It holds for the current context only; of nested ones, the innermost counts.

    Hooks that copy or store a tensor keep its value, whatever is written into the tensor later. If `unpack` returns the
    memory that was packed (the tensor itself, or a view of its array), and that was written into since, the backward
    raises ChangedTensorError. (PyTorch's has no such check.)

    `pack` runs with recording off. It gets an input of the operation as it is, and an output as a detached alias.

    Either may be an `async def`. An `unpack` suspends only its node, while others run; a node that needs several
    tensors awaits them together. The forward runs a `pack` to its first suspension and goes on; the rest of the `pack`
    runs in the background of the event loop, and unpacking waits for it. Until it has ended, do not write into the
    tensor. If it raises, the backward raises the same error. `async with` waits for the packs of its block at the end,
    and raises the first error among them, so that none is left behind. After a plain `with`, a pack whose graph is
    dropped is cancelled. Where no event loop runs, the forward waits for the end of the pack.

    `prefetch` is called with the result of `pack` before `unpack` is. From the first tensor that a backward unpacks, it
    runs up to `ahead` tensors further, in the order in which the backward will unpack. Its result is kept until the
    tensor has been unpacked or passed by, or the backward has ended. The same object for several tensors counts once
    towards `ahead`; None, for a tensor that needs no fetching, does not count. It should start a fetch and not wait.

    In a Function, `ctx.saved_tensors` unpacks, and an async `backward` writes `await ctx.load_saved()`. Before a plain
    `backward`, the engine loads the tensors whose unpacking has to be awaited.

    Args:
        pack: takes the tensor, and returns anything; it may not write into the tensor.
        unpack: takes the result of `pack`, and returns a tensor or an array of the same shape and dtype.
        prefetch: takes the result of `pack`; a plain function.
        ahead: the number of tensors that may be prefetched and not yet unpacked.

    Raises:
        HookTypeError: a hook cannot be called, or `prefetch` is an `async def`.
        ArgumentError: `ahead` is less than 1.
        HookError: on entering, where `disable_saved_tensors_hooks` forbids it, with the message given there.

    Source: torch.autograd.graph.saved_tensors_hooks.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> stored = []
        >>> def pack(tensor):
        ...     stored.append(tensor.numpy().astype(np.float16))
        ...     return len(stored) - 1
        >>> async def unpack(number):
        ...     return stored[number].astype(np.float64)
        >>> async def main():
        ...     x = ag.tensor([1.0, 2.0], requires_grad=True)
        ...     with ag.graph.saved_tensors_hooks(pack, unpack):
        ...         loss = (x * x).sum()
        ...     await loss.backward()
        ...     return len(stored), x.grad.tolist()
        >>> ag.run(main())
        (2, [2.0, 4.0])
    """

    __slots__ = ("_ahead", "_pack", "_prefetch", "_unpack")

    def __init__(
        self,
        pack: Callable[..., object],
        unpack: Callable[..., object],
        *,
        prefetch: Callable[..., object] | None = None,
        ahead: int = 4,
    ) -> None:
        ahead = whole_number(ahead, "the ahead of saved_tensors_hooks")
        if ahead < 1:
            raise ArgumentError(f"saved_tensors_hooks prefetches at least 1 tensor ahead, not {ahead}")
        self._pack = pack
        self._unpack = unpack
        self._prefetch = prefetch
        self._ahead = ahead
        self._value()

    def _before(self) -> Any:
        self._check_allowed()
        return self._get()

    def _value(self) -> Any:
        return PackHooks(self._pack, self._unpack, prefetch=self._prefetch, ahead=self._ahead)

    def _clone(self) -> Mode:
        return saved_tensors_hooks(self._pack, self._unpack, prefetch=self._prefetch, ahead=self._ahead)

    async def __aenter__(self) -> None:
        self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for the packs of the block and of tasks started in it; cancel them if the block has raised."""
        hooks = SAVED_TENSORS_HOOKS.get()
        self.__exit__(kind, error, trace)
        await background().end_all(hooks.running if isinstance(hooks, PackHooks) else (), error)


@final
class disable_saved_tensors_hooks(SavedTensorsMode):
    """Inside, entering `saved_tensors_hooks` raises: for code that is wrong under hooks.

    A context manager, and a decorator of functions, generators and their async kinds, which holds for the current
    context only. The hooks of a single SavedTensor stay allowed.

    Args:
        message: the message of the error.

    Raises:
        HookError: on entering inside of a `saved_tensors_hooks` block, with `message`.

    Source: torch.autograd.graph.disable_saved_tensors_hooks.

    Example:
        >>> import asyncgrad as ag
        >>> with ag.graph.disable_saved_tensors_hooks("this layer keeps its own"):
        ...     with ag.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        ...         pass
        Traceback (most recent call last):
        asyncgrad.errors.HookError: this layer keeps its own
    """

    __slots__ = ("_message",)

    def __init__(self, message: str) -> None:
        if not isinstance(message, str):
            raise ArgumentTypeError(must_be("the message of disable_saved_tensors_hooks", "a str", message))
        self._message = message

    def _before(self) -> Any:
        before = self._get()
        if isinstance(before, PackHooks):
            raise HookError(self._message)
        return before

    def _value(self) -> Any:
        return self._message

    def _clone(self) -> Mode:
        return disable_saved_tensors_hooks(self._message)


@final
class CopyOnWriteEntry:
    """A saved tensor: its own memory, or a copy of that from just before the first write into it."""

    __slots__ = ("__weakref__", "is_copy", "tensor", "version")

    def __init__(self, tensor: TensorBase) -> None:
        #: Detached, so that an output does not keep its own graph alive; the version counter is shared.
        self.tensor: TensorBase = output_alias(tensor)
        self.version: int = version_of(tensor)
        self.is_copy: bool = False

    def copy(self, copies: dict[int, Any]) -> None:
        """Copy the value, unless a write has changed it; entries that share an array share its copy in `copies`."""
        tensor = self.tensor
        if self.is_copy or version_of(tensor) != self.version:
            return
        array = tensor._data
        data = copies.get(id(array))
        if data is None:
            data = copies[id(array)] = own_copy(array)
        self.tensor = type(tensor)(data, None, 0, tensor._device)
        self.is_copy = True

    def value(self) -> TensorBase:
        """Return the tensor as it was saved.

        Raises:
            ChangedTensorError: a write that no `CopyOnWrite` saw has changed the tensor.
        """
        tensor, version = self.tensor, version_of(self.tensor)
        if not self.is_copy and version != self.version:
            raise ChangedTensorError(
                f"a saved tensor of shape {tensor._data.shape} and dtype {tensor._data.dtype} was written into outside "
                f"of the block of allow_mutation_on_saved_tensors that saved it (version {self.version}, now "
                f"{version}), or through its ndarray: write into it inside of the block, or into a copy"
            )
        return tensor


@final
class CopyOnWrite:
    """The tensors that nodes have saved in a block, grouped by their memory."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: WeakKeyDictionary[VersionCounter, WeakSet[CopyOnWriteEntry]] = WeakKeyDictionary()

    def pack(self, tensor: TensorBase) -> CopyOnWriteEntry:
        """Return the entry for a tensor that a node saves."""
        kept = CopyOnWriteEntry(tensor)
        self._kept.setdefault(tensor._shared_version(), WeakSet()).add(kept)
        return kept

    def before_write(self, counter: VersionCounter) -> None:
        """Copy the saved tensors in the memory of `counter`; a write into it follows."""
        copies: dict[int, Any] = {}
        for kept in self._kept.pop(counter, ()):
            kept.copy(copies)


def prepare_write(out: TensorBase) -> None:
    """Copy what a write into `out`, which follows, must not change: its array for who has that, saved tensors if asked.

    Raises:
        InPlaceError: `out` is a view of a tensor whose array is shared with a snapshot.
    """
    if out._meta is not None or out._view is not None:
        copy_shared_before_write(out)
    keeper, counter = COPY_ON_WRITE.get(), out._counter
    if counter is not None:
        if keeper is not None:
            keeper.before_write(counter)
        if counter.readers is not None:
            counter.tell_readers()


def begin_writes(tensors: Iterable[TensorBase]) -> None:
    """Prepare writes into many tensors, which follow, as `prepare_write` does; count one in the version of each.

    Raises:
        InPlaceError: one is a view of a tensor whose array is shared with a snapshot.
    """
    keeper = COPY_ON_WRITE.get()
    for tensor in tensors:
        meta = tensor._meta
        if tensor._view is not None or (meta is not None and meta.has_shared_array):
            copy_shared_before_write(tensor)
        counter = tensor._counter
        if counter is None:
            counter = tensor._shared_version()
        else:
            if keeper is not None:
                keeper.before_write(counter)
            if counter.readers is not None:
                counter.tell_readers()
        counter.value += 1


@final
class allow_mutation_on_saved_tensors(SavedTensorsMode):
    """Inside, a tensor that a node has saved may be written into in place: its value is copied before the write.

    Only tensors that are written into are copied. The write has to happen inside the block, by an operation on a
    tensor; the backward may follow after the block. After a write outside the block, or through an ndarray and
    `increment_version`, the backward raises as usual. A context manager, and a decorator of functions, generators and
    their async kinds. It holds for the current context only. Hooks that are entered inside this block replace it for
    the tensors that nodes save under them.

    Raises:
        HookError: on entering, where `disable_saved_tensors_hooks` forbids it, with the message given there.

    Source: torch.autograd.graph.allow_mutation_on_saved_tensors.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
        >>> with ag.graph.allow_mutation_on_saved_tensors():
        ...     y = x * 1.0
        ...     loss = (y * y).sum()
        ...     y *= 100.0
        ...     ag.sync.backward(loss)
        >>> x.grad.tolist()
        [2.0, 4.0]
    """

    __slots__ = ()

    def _get(self) -> Any:
        return super()._get(), COPY_ON_WRITE.get()

    def _set(self, value: Any, /) -> None:
        hooks, keeper = value
        COPY_ON_WRITE.set(keeper)
        super()._set(hooks)

    def _before(self) -> Any:
        self._check_allowed()
        return self._get()

    def _value(self) -> Any:
        # A nested block uses the outer one's CopyOnWrite, so that a write inside also copies what was saved before it.
        keeper = COPY_ON_WRITE.get() or CopyOnWrite()
        return PackHooks(keeper.pack, CopyOnWriteEntry.value), keeper

    def _clone(self) -> Mode:
        return allow_mutation_on_saved_tensors()
