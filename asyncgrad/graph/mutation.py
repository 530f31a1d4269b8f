"""allow_mutation_on_saved_tensors: what has been saved is copied before it is written into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final
from weakref import WeakKeyDictionary, WeakSet

from ..context import SAVED_TENSORS_KEEPER, Mode
from ..errors import ChangedTensorError
from .packed import PackHooks
from .saved import output_alias, version_of
from .saved_hooks import SavedTensorsMode

if TYPE_CHECKING:
    from .tracked import Tracked, VersionCounter

__all__ = ["allow_mutation_on_saved_tensors", "keep_saved"]


@final
class Kept:
    """A saved tensor: the memory that it was saved in, or a copy of that once it is about to be written into."""

    __slots__ = ("__weakref__", "is_copy", "tensor", "version")

    def __init__(self, tensor: Tracked) -> None:
        #: Detached, so that an output does not keep its own graph alive; the version counter is shared.
        self.tensor = output_alias(tensor)
        self.version = version_of(tensor)
        self.is_copy = False

    def copy(self, copies: dict[int, Any]) -> None:
        """Copy the value unless it has changed unseen; what shares an array shares the copy, which is in `copies`."""
        tensor = self.tensor
        if self.is_copy or version_of(tensor) != self.version:
            return
        array = tensor._data
        data = copies.get(id(array))
        if data is None:
            data = copies[id(array)] = array.copy(order="K")
        self.tensor = type(tensor)(data, None, 0, tensor._device)
        self.is_copy = True

    def value(self) -> Tracked:
        """Return the tensor as it was saved.

        Raises:
            ChangedTensorError: it was written into where nobody could copy it.
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
class Keeper:
    """The tensors that nodes have saved in a block, by the memory that they lie in."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: WeakKeyDictionary[VersionCounter, WeakSet[Kept]] = WeakKeyDictionary()

    def pack(self, tensor: Tracked) -> Kept:
        """Keep a tensor that a node saves."""
        kept = Kept(tensor)
        self._kept.setdefault(tensor._shared_version(), WeakSet()).add(kept)
        return kept

    def before_write(self, counter: VersionCounter) -> None:
        """Copy what has been saved in a memory that is about to be written into."""
        copies: dict[int, Any] = {}
        for kept in self._kept.pop(counter, ()):
            kept.copy(copies)


def keep_saved(out: Tracked) -> None:
    """Copy what nodes have saved of a tensor's memory, where the context asks for that: a write into it follows."""
    keeper = SAVED_TENSORS_KEEPER.get()
    if keeper is not None and out._counter is not None:
        keeper.before_write(out._counter)


@final
class allow_mutation_on_saved_tensors(SavedTensorsMode):
    """Inside, a tensor that a node has saved may be written into in place: what was saved is copied before.

    Nothing is copied unless it is written into. The write has to happen inside of the block, by an operation on a
    tensor; a backward may also follow after it. What is written into outside, or through an ndarray and
    `increment_version`, raises in the backward as ever. A context manager, and a decorator of functions, generators
    and their async kinds, which holds for the current context only. Hooks that are entered inside keep by themselves
    what is saved in theirs.

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
        return super()._get(), SAVED_TENSORS_KEEPER.get()

    def _set(self, value: Any, /) -> None:
        hooks, keeper = value
        SAVED_TENSORS_KEEPER.set(keeper)
        super()._set(hooks)

    def _before(self) -> Any:
        self._check_allowed()
        return self._get()

    def _value(self) -> Any:
        # A block in a block copies what the outer one has kept, too.
        keeper = SAVED_TENSORS_KEEPER.get() or Keeper()
        return PackHooks(keeper.pack, Kept.value), keeper

    def _clone(self) -> Mode:
        return allow_mutation_on_saved_tensors()
