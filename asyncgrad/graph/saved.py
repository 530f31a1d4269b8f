"""The tensors that nodes save for their backward: entries, the version check, and the errors of a failed unpack."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from ..context import GRAD_MODE
from ..errors import ChangedTensorError, ReleasedGraphError
from .naming import identify
from .tensor_base import TensorBase

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .node_like import NodeLike
    from .tensor_base import TensorBase

__all__ = [
    "Saved",
    "SavedMemory",
    "changed_error",
    "check_version",
    "detached_error",
    "output_alias",
    "released_error",
    "unpack_saved",
    "version_of",
    "versions_of",
    "with_versions",
]


class Saved(NamedTuple):
    """A saved tensor: an input itself, or a detached alias of output `output_nr` (no cycle through the node)."""

    tensor: TensorBase | None
    version: int = 0
    output_nr: int | None = None
    #: The Node that had made the tensor, where it is no output.
    producer: Any = None
    #: The AccumulateGrad of a leaf that requires grad.
    accumulator: Any = None

    @property
    def place(self) -> tuple[int | None, Any, Any]:
        """Which output of the node that saved it the tensor is, or of its producer; its producer; its accumulator."""
        output_nr = self.output_nr
        if output_nr is None and self.tensor is not None and self.producer is not None:
            output_nr = self.tensor._output_nr
        return output_nr, self.producer, self.accumulator


def version_of(tensor: TensorBase) -> int:
    """Return how many in-place writes the tensor's memory has seen."""
    return 0 if tensor._counter is None else tensor._counter.value


def versions_of(saved: Iterable[Any]) -> tuple[int, ...] | None:
    """Return the version of each saved value, 0 for one that is no tensor; None if all are 0."""
    versions = tuple([version_of(value) if isinstance(value, TensorBase) else 0 for value in saved])
    return versions if any(versions) else None


@final
class WithVersions(tuple[Any, ...]):  # noqa: SLOT001  # a tuple with slots there is none
    """The saved values of a node if a tensor among them had been written into before the save, which is rare."""

    #: One for each saved tensor.
    versions: tuple[int, ...]


def with_versions(saved: tuple[Any, ...], versions: tuple[int, ...] | None) -> tuple[Any, ...]:
    """Return a node's saved values with the versions of the tensors among them; None stands for all 0."""
    if versions is None:
        return saved if saved.__class__ is tuple else tuple(saved)
    kept = WithVersions(saved)
    kept.versions = versions
    return kept


def check_version(node: NodeLike, tensor: TensorBase, saved_version: int) -> None:
    """Raise unless the memory of a saved tensor is as it was when `node` saved it.

    Raises:
        ChangedTensorError: names the node, the tensor, both versions.
    """
    version = version_of(tensor)
    if version != saved_version:
        hint = "Change a copy instead: t = t.copy(); t += ..."
        raise changed_error(node, tensor, (tensor._grad_fn, tensor._output_nr), version, saved_version, hint)


def changed_error(
    node: NodeLike, tensor: TensorBase, place: tuple[NodeLike | None, int], version: int, saved_version: int, hint: str
) -> ChangedTensorError:
    """Return the error for a saved tensor that was written into since.

    Args:
        node: what saved it.
        tensor: as it is now.
        place: what made it, and as which output; None where nothing did.
        version: that of its memory now.
        saved_version: what that was when it was saved.
        hint: what to write instead.
    """
    producer, output_nr = place
    origin = "" if producer is None else f", output {output_nr} of {producer.name},"
    return ChangedTensorError(
        f"{identify(node)} needs a tensor of shape {tensor._data.shape} and dtype "
        f"{tensor._data.dtype}{origin} that was changed in place since the forward call: it is at version "
        f"{version}, and version {saved_version} was saved. {hint}"
    )


def detached_error(node: NodeLike, tensor: TensorBase) -> ChangedTensorError:
    """Return the error for a saved tensor that has another history since, where that of the forward call is needed."""
    now = tensor._grad_fn
    happened = (
        "detach_() has cut it since the forward call: use t.detach(), which leaves t alone"
        if now is None
        else f"it has got another one since the forward call, with {identify(now)}, by set_gradient_edge() say: give "
        "that edge to t.detach(), which leaves t alone"
    )
    return ChangedTensorError(
        f"{identify(node)} needs the history of a tensor of shape {tensor._data.shape} and dtype "
        f"{tensor._data.dtype}, and {happened}"
    )


def released_error(node: NodeLike) -> ReleasedGraphError:
    """Return the error for a backward through a node that has let go of its saved tensors."""
    return ReleasedGraphError(
        f"{identify(node)} has released its saved tensors: a backward has run through it "
        "before. To run backward through a graph twice, keep it the first time: "
        "await loss.backward(retain_graph=True)"
    )


def output_alias(output: TensorBase, grad_fn: NodeLike | None = None, output_nr: int = 0) -> TensorBase:
    """Return a tensor on the memory of `output`, version counter shared, with another place in the graph.

    A node saves its own output through a detached alias, since the output itself refers to the node.
    """
    alias = type(output)(output._data, grad_fn, output_nr, output._device)
    alias._counter = output._shared_version()
    return alias


def unpack_saved(node: NodeLike, saved: Saved) -> Any:
    """Return a saved tensor, an output of the node with its place in the graph.

    Raises:
        ChangedTensorError: it was written into since, or its history is needed and was cut off.
    """
    tensor = saved.tensor
    if tensor is None:
        return None
    check_version(node, tensor, saved.version)
    if saved.output_nr is not None:
        return output_alias(tensor, node, saved.output_nr)
    if tensor._grad_fn is not saved.producer and GRAD_MODE.get():
        raise detached_error(node, tensor)
    return tensor


@final
class SavedMemory:
    """The memory that a tensor occupied when it was saved, and its version then.

    A tensor lies in this memory if it shares the version counter, or overlaps in the same allocation: a hook may have
    kept the bare array.

    Args:
        tensor: what is saved.
        version: at which it is.
    """

    __slots__ = ("_bounds", "_counter", "_owner", "version")

    def __init__(self, tensor: TensorBase, version: int) -> None:
        self.version = version
        self._counter = tensor._shared_version()
        data = tensor._data
        #: Weak: a hook that has copied the tensor lets go of its array. Only NumPy's say whose memory they lie in.
        self._owner = weakref.ref(_owner(data)) if isinstance(data, np.ndarray) else None
        self._bounds = _bounds(data) if isinstance(data, np.ndarray) else (0, 0)

    def version_in(self, tensor: TensorBase) -> int:
        """Return the version that this memory has now, where `tensor` lies in it; that of the save anywhere else."""
        counter = self._counter
        if counter.value == self.version or not (tensor._counter is counter or self._holds(tensor._data)):
            return self.version
        return counter.value

    def _holds(self, array: Any) -> bool:
        if self._owner is None or not isinstance(array, np.ndarray) or self._owner() is not _owner(array):
            return False
        (first, last), (low, high) = _bounds(array), self._bounds
        return first < high and low < last


def _owner(array: Any) -> Any:
    """Return the array that an array is, at last, a view of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _bounds(array: Any) -> tuple[int, int]:
    """Return the address of the first byte of an array, and that after its last."""
    found: tuple[int, int] = np.lib.array_utils.byte_bounds(array)
    return found
