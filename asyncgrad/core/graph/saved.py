"""The tensors that nodes save for their backward: entries, the version check, and the errors of a failed unpack."""

from __future__ import annotations

import functools
import inspect
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from ...errors import ChangedTensorError, ReleasedGraphError
from ..arrays.tensor_base import TensorBase
from ..arrays.values import array_interface, has_memory, is_recorder, memory_owner
from ..settings.closures import contents_of_cells
from ..settings.context import GRAD_MODE
from .naming import identify, outline

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .node_like import NodeLike

__all__ = [
    "ConstantVersions",
    "captured_by",
    "Saved",
    "SavedMemory",
    "changed_error",
    "check_version",
    "constants_of",
    "detached_error",
    "output_alias",
    "released_error",
    "sharing_version",
    "unpack_saved",
    "version_of",
    "versions_of",
    "with_constants",
    "with_versions",
]


class Saved(NamedTuple):
    """A saved tensor: an input itself, or a detached alias of output `output_nr` (no cycle through the node)."""

    tensor: TensorBase | None
    version: int = 0
    output_nr: int | None = None
    #: The grad_fn of a saved input at the time of the save; None for an output.
    producer: Any = None
    #: The AccumulateGrad of a leaf that requires grad.
    accumulator: Any = None

    @property
    def place(self) -> tuple[int | None, Any, Any]:
        """The place in the graph: output number (of the saving node or the producer), producer, accumulator."""
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
class ConstantVersions:
    """The versions of tensors that a backward reads, and that no derivative is with respect to.

    Where the backward calls a function again, it may write into some of them itself, such as a counter. These are no
    reason to fail: `end_forward` and `leave_out_written` find them.

    Args:
        tensors: the tensors, as they are now; before a function that may write into them is called.
    """

    __slots__ = ("_has_ended", "_tensors", "_versions")

    def __init__(self, tensors: Iterable[TensorBase]) -> None:
        # Two lists of plain entries: the garbage collector would look at each pair, of which a model has many.
        self._tensors = [*tensors]
        self._versions = list(map(version_of, self._tensors))
        self._has_ended = False

    def check(self, node: NodeLike) -> None:
        """Raise if one of the tensors has been written into since.

        Args:
            node: the node whose backward reads them.

        Raises:
            ChangedTensorError: one has.
        """
        for tensor, version in zip(self._tensors, self._versions, strict=True):
            check_version(node, tensor, version)

    def changed(self) -> list[tuple[TensorBase, int]]:
        """Return those of the tensors that have been written into since, with their versions as they were."""
        pairs = zip(self._tensors, self._versions, strict=True)
        return [(tensor, version) for tensor, version in pairs if version_of(tensor) != version]

    def go_back(self, changed: Iterable[tuple[TensorBase, int]]) -> None:
        """Take other versions for those of the tensors among `changed`; they are of an earlier call of the function."""
        earlier = {id(tensor): version for tensor, version in changed}
        pairs = zip(self._tensors, self._versions, strict=True)
        self._versions = [earlier.get(id(tensor), version) for tensor, version in pairs]

    def end_forward(self) -> None:
        """Leave out what the forward has written into; a later call, for another result of it, does nothing."""
        if not self._has_ended:
            self._has_ended = True
            self.leave_out_written()

    def leave_out_written(self) -> None:
        """Leave out the tensors that have been written into: by the function, which has been called just now."""
        if list(map(version_of, self._tensors)) == self._versions:
            return
        pairs = zip(self._tensors, self._versions, strict=True)
        kept = [(tensor, version) for tensor, version in pairs if version_of(tensor) == version]
        self._tensors, self._versions = [tensor for tensor, _ in kept], [version for _, version in kept]


def captured_by(function: Any) -> list[TensorBase]:
    """Return the tensors that a function refers to by names of the functions around it."""
    function = inspect.unwrap(function.func if isinstance(function, functools.partial) else function)
    return [one for one in contents_of_cells(function) if isinstance(one, TensorBase)]


@final
class WithVersions(tuple[Any, ...]):  # noqa: SLOT001  # a tuple with slots there is none
    """The saved values of a node, where a tensor among them had been written into before the save, which is rare."""

    #: The version of each saved value at the save; 0 for one that is no tensor. None if all are 0.
    versions: tuple[int, ...] | None
    #: Of tensors that no derivative is with respect to; None if there are none.
    constants: ConstantVersions | None


def with_versions(
    saved: tuple[Any, ...],
    versions: tuple[int, ...] | None,
    constants: ConstantVersions | None = None,
) -> tuple[Any, ...]:
    """Return a node's saved values with their versions; `versions` is None where all are 0."""
    if versions is None and constants is None:
        return saved if saved.__class__ is tuple else tuple(saved)
    kept = WithVersions(saved)
    kept.versions, kept.constants = versions, constants
    return kept


def constants_of(saved: tuple[Any, ...] | None) -> ConstantVersions | None:
    """Return the versions of the tensors among a node's saved values that no derivative is with respect to."""
    return saved.constants if isinstance(saved, WithVersions) else None


def with_constants(saved: tuple[Any, ...], values: Iterable[Any]) -> tuple[Any, ...]:
    """Return a node's saved values with the versions of tensors among `values`, which no derivative is with respect to.

    asyncgrad's own functions get none: what they take beside the tensors of a derivative are arrays and options.
    """
    tensors = [value for value in values if isinstance(value, TensorBase)]
    return with_versions(saved, getattr(saved, "versions", None), ConstantVersions(tensors)) if tensors else saved


def check_version(node: NodeLike, tensor: TensorBase, saved_version: int) -> None:
    """Raise if the memory of a saved tensor has been written into since `node` saved it.

    Raises:
        ChangedTensorError: the versions differ; the message names the node, the tensor and both versions.
    """
    version = version_of(tensor)
    if version != saved_version:
        hint = "Change a copy instead: t = t.copy(); t += ..."
        raise changed_error(node, tensor, (tensor._grad_fn, tensor._output_nr), version, saved_version, hint)


def changed_error(
    node: NodeLike, tensor: TensorBase, place: tuple[NodeLike | None, int], version: int, saved_version: int, hint: str
) -> ChangedTensorError:
    """Return the error for a saved tensor that was written into after the save.

    Args:
        node: the node that saved the tensor.
        tensor: the tensor as it is now.
        place: the node that made the tensor, or None, and the number of the output.
        version: the version of the tensor's memory now.
        saved_version: the version of the memory at the save.
        hint: what to write instead.
    """
    producer, output_nr = place
    origin = "" if producer is None else f", output {output_nr} of {producer.name},"
    what = outline(tensor)
    if tensor._value_metadata is None:
        what += f" and dtype {tensor._data.dtype}"
    else:
        hint = f"Give the new object to another value: {_NEW_VALUE}"
    return ChangedTensorError(
        f"{identify(node)} needs a {what}{origin} that was changed in place since the forward call: it is at version "
        f"{version}, and version {saved_version} was saved. {hint}"
    )


#: What to write in place of a change of a value that a graph has saved.
_NEW_VALUE = "prompt = ag.leaf(better, type=prompt.type)"


def detached_error(node: NodeLike, tensor: TensorBase) -> ChangedTensorError:
    """Return the error for a saved tensor whose history has changed since the forward call and is needed."""
    now = tensor._grad_fn
    happened = (
        "detach_() has cut that history since the forward call: use t.detach(), which leaves t alone"
        if now is None
        else f"{identify(now)} has replaced that history since the forward call, say by set_gradient_edge(): give that "
        "edge to t.detach(), which leaves t alone"
    )
    return ChangedTensorError(
        f"{identify(node)} needs the history of a tensor of shape {tensor._data.shape} and dtype "
        f"{tensor._data.dtype}, and {happened}"
    )


def released_error(node: NodeLike) -> ReleasedGraphError:
    """Return the error for a backward through a node that has released its saved tensors."""
    return ReleasedGraphError(
        f"{identify(node)} has released its saved tensors: an earlier backward has run "
        "through it. To run backward through a graph twice, keep it the first time: "
        "await loss.backward(retain_graph=True). To try again after a failure, write "
        'retain_graph="until_success" in each try'
    )


def output_alias(output: TensorBase, grad_fn: NodeLike | None = None, output_nr: int = 0) -> TensorBase:
    """Return a tensor with the memory and version counter of `output`, and another place in the graph.

    A node saves its own output through a detached alias, since the output itself refers to the node.
    """
    if output._value_metadata is not None:
        value = output.detach()
        value._grad_fn, value._output_nr = grad_fn, output_nr
        return value
    alias = type(output)(output._data, grad_fn, output_nr, output._device)
    alias._counter = output._shared_version()
    return alias


def sharing_version(array: Any, source: Any) -> Any:
    """Return an array that was taken from `source`, a tensor, as a tensor with its version where it shares its memory.

    A node that saves the array, labels say, for no derivative with respect to it, notices by this that it was written
    into. What is a copy, or was not taken from a tensor, is returned as it is.
    """
    if not isinstance(source, TensorBase) or (array is not source._data and not _share_memory(array, source._data)):
        return array
    alias = type(source)(array, None, 0, source._device)
    alias._counter = source._shared_version()
    return alias


def _share_memory(array: Any, other: Any) -> bool:
    if array.__class__ is other.__class__ is np.ndarray:
        return not is_recorder(array) and not is_recorder(other) and np.may_share_memory(array, other)
    return has_memory(array) and has_memory(other) and memory_owner(array) is memory_owner(other)


def unpack_saved(node: NodeLike, saved: Saved) -> Any:
    """Return a saved tensor; an output of the node gets its place in the graph back.

    Raises:
        ChangedTensorError: the tensor was written into since the save, or its history is needed and has changed.
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

    A tensor lies in this memory if it shares the version counter, or if its array overlaps in the same allocation: a
    hook may have kept only the array.

    Args:
        tensor: the saved tensor.
        version: the version of its memory.
    """

    __slots__ = ("_bounds", "_counter", "_owner", "version")

    def __init__(self, tensor: TensorBase, version: int) -> None:
        self.version: int = version
        self._counter = tensor._shared_version()
        data = tensor._data
        #: Weak, since a hook that copies the tensor lets its array go. A scalar of NumPy's owns no memory.
        self._owner = weakref.ref(memory_owner(data)) if has_memory(data) else None
        self._bounds = _bounds(data) if self._owner is not None else (0, 0)

    def is_unchanged(self) -> bool:
        """Tell whether nothing has been written into this memory since."""
        return self._counter.value == self.version

    def version_in(self, tensor: TensorBase) -> int:
        """Return this memory's version now where `tensor` lies in it, and the version at the save otherwise."""
        counter = self._counter
        if counter.value == self.version or not self.has(tensor):
            return self.version
        return counter.value

    def has(self, tensor: TensorBase) -> bool:
        """Tell whether `tensor` lies in this memory."""
        return tensor._counter is self._counter or self._holds(tensor._data)

    def _holds(self, array: Any) -> bool:
        if self._owner is None or not has_memory(array) or self._owner() is not memory_owner(array):
            return False
        (first, last), (low, high) = _bounds(array), self._bounds
        return first < high and low < last


def _bounds(array: Any) -> tuple[int, int]:
    """Return the address of the first byte of an array, and the address after its last byte."""
    if isinstance(array, np.ndarray) and not is_recorder(array):
        found: tuple[int, int] = np.lib.array_utils.byte_bounds(array)
        return found
    first = array_interface(array)["data"][0]
    last = first + array.itemsize
    for length, stride in zip(array.shape, array.strides, strict=True):
        reach = (length - 1) * stride
        first, last = (first + reach, last) if reach < 0 else (first, last + reach)
    return first, last
