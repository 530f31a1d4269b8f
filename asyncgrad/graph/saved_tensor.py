"""SavedTensor: a look at one tensor that a node has saved for its backward, and the place to hang hooks on it."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, final

from ..errors import HookError
from .naming import identify
from .packed import Packed, PackHooks, abandon, unpack_all
from .saved import check_version, output_alias, released, unpacked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .node import Node
    from .saved import Saved

__all__ = ["SavedTensor", "all_saved_by", "unpack_now"]


@final
class SavedTensor:
    """One tensor that a node has saved for its backward: an element of `node.saved_tensors`.

    An input is saved as the tensor itself, and an output of the same node as a detached alias, so that it does not
    keep its own graph alive. That it has not been written into since is checked each time it is unpacked.

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

    def __init__(self, node: Node, index: int) -> None:
        self._node = node
        self._index = index

    def unpack(self) -> Any:
        """Return the tensor, with its place in the graph; None where None was saved.

        Raises:
            ReleasedGraphError: a backward has released it.
            ChangedTensorError: it was written into since, and no hook has kept a copy.
            HookError: its hooks have something to wait for, or returned what does not fit.
        """
        return unpack_now(self._node, [self._entry()], "await saved.load()")[0]

    async def load(self) -> Any:
        """Return what `unpack` does; suspends where the hooks have something to wait for."""
        found = unpack_all(self._node, [self._entry()])
        return (await found if inspect.isawaitable(found) else found)[0]

    def register_hooks(self, pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> None:
        """Let `pack(tensor)` store the tensor in place of the node, and `unpack(stored)` bring it back.

        `pack` is called once, now, with a detached alias, with recording off; `unpack` in each backward through the
        node. A write since is an error where `unpack` returns the memory that was packed, and none where it returns a
        copy. Either may be an `async def`, as in `ag.graph.saved_tensors_hooks`.

        Args:
            pack: returns anything; it may not write into the tensor.
            unpack: returns a tensor or an array of the same shape and dtype.

        Raises:
            HookTypeError: one of them cannot be called.
            HookError: it has hooks already, or is None; or `pack` wrote into the tensor.
            ReleasedGraphError: a backward has released it.
            ChangedTensorError: it was written into since it was saved.

        Source: SavedTensor.register_hooks of PyTorch.
        """
        node, index, entry = self._node, self._index, self._entry()
        hooks = PackHooks(pack, unpack)
        if isinstance(entry, Packed):
            raise HookError(
                f"saved tensor {index} of {identify(node)} has hooks already, and they have taken it: set them once"
            )
        if entry.tensor is None:
            raise HookError(f"saved tensor {index} of {identify(node)} is None: there is nothing to pack")
        check_version(node, entry.tensor, entry.version)
        packed = Packed(node, entry, output_alias(entry.tensor), hooks)
        node.make_special()
        node.keep_packed(index, packed)

    def _entry(self) -> Saved | Packed:
        entries = self._node.saved_entries()
        if entries is None:
            raise released(self._node)
        return entries[self._index]

    def __repr__(self) -> str:
        return f"<SavedTensor {self._index} of {identify(self._node)}>"


def all_saved_by(node: Node) -> tuple[SavedTensor, ...]:
    """Return a SavedTensor for each tensor that a node has saved; see Node.saved_tensors."""
    entries = node.saved_entries()
    if entries is None:
        raise released(node)
    return tuple(SavedTensor(node, index) for index in range(len(entries)))


def unpack_now(node: Node, entries: Iterable[Saved | Packed], instead: str) -> list[Any]:
    """Return the tensors of saved entries where nothing can be waited for.

    Raises:
        HookError: there is something to wait for; it names what to write `instead`.
    """
    tensors = []
    for entry in entries:
        if isinstance(entry, Packed):
            result = None if entry.may_wait() else entry.begin()
            if entry.may_wait() or inspect.isawaitable(result):
                abandon(result)
                raise HookError(
                    f"a saved tensor of {identify(node)} has an async pack or unpack hook, which is to be waited for: "
                    f"write {instead}"
                )
            tensors.append(entry.restore(result, node))
        else:
            tensors.append(unpacked(node, entry))
    return tensors
