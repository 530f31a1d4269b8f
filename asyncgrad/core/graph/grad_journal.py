"""The journal of changes to `.grad`, and the rollback of those of a backward that fails.

Several backward passes may share a leaf, and one may fail after others have added to the same `.grad`. So a tensor
lists its changes while any of them may still be rolled back. A rollback restores the gradient from before the change
and applies the later changes again, which gives the same bits as a run without the failed backward.
"""

from __future__ import annotations

import operator
from sys import getrefcount
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from ..arrays import values
from ..arrays.interception import add_entry_names
from ..arrays.tensor_base import TensorBase
from ..settings.context import enable_grad
from .saved import version_of

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "FLAGS_OF_NEW",
    "Change",
    "FirstGrads",
    "GradChange",
    "change_grad",
    "continue_sum",
    "drop_changes",
    "merge_changes",
    "may_take",
    "commit_all",
    "sum_so_far",
]

#: Named here, since an attribute of a module takes twice as long to look up.
_ndarray = np.ndarray


class GradState(NamedTuple):
    """A snapshot of a tensor's gradient: the Tensor object, its array, and its version."""

    grad: Any
    data: Any
    version: int

    @classmethod
    def of(cls, tensor: TensorBase) -> GradState:
        """Return the current state of the gradient of `tensor`."""
        meta = tensor._meta
        if meta is None or meta.grad is None:
            return NO_GRAD
        if tensor._value_metadata is not None:
            return cls(meta.grad, None, 0)
        return cls(meta.grad, meta.grad._data, version_of(meta.grad))

    def is_still(self, other: GradState) -> bool:
        """Tell whether both are the same state: same object, same array, same version."""
        return self.grad is other.grad and self.data is other.data and self.version == other.version

    def restore(self, tensor: TensorBase) -> None:
        """Set the gradient of `tensor` back to this state: the same object, array and version."""
        tensor._autograd_meta().grad = self.grad
        if self.grad is not None and tensor._value_metadata is None:
            self.grad._data = self.data
            if self.grad._counter is not None:
                self.grad._counter.value = self.version


NO_GRAD = GradState(None, None, 0)

#: The flags of new arrays, with several axes and with one.
FLAGS_OF_NEW = frozenset({np.empty((2, 2)).flags.num, np.empty(2).flags.num})


def _references_to_base(view: Any) -> int:
    """Return how many references there are to what an array is a view of, one of which is the view's."""
    return getrefcount(view.base)


#: Their number where there is only the view's.
_SOLE_BASE = _references_to_base(np.empty(2)[:1])


class Change:
    """Abstract: a change that a backward has made to gradients."""

    __slots__ = ()

    def commit(self) -> None:
        """Make this change final: its backward has succeeded, or has rolled it back."""
        raise NotImplementedError(f"{type(self).__name__} must implement commit()")

    def roll_back(self) -> None:
        """Undo this change, and no other: its backward has failed."""
        raise NotImplementedError(f"{type(self).__name__} must implement roll_back()")


@final
class FirstGrads(Change):
    """The first gradients of leaves, set at the end of one backward while nothing else runs.

    A training step does this. One change for all leaves takes a third of the time of one change for each.
    """

    __slots__ = ("tensors",)

    def __init__(self) -> None:
        #: Those that may still get back None.
        self.tensors: list[TensorBase] = []

    def give(self, tensor: TensorBase, grad: Any, sole: bool) -> bool:
        """Set the gradient of `tensor` to an array; do nothing and return False if another backward has changed it.

        Args:
            tensor: a leaf.
            grad: array of its shape and dtype.
            sole: whether nothing else refers to the array.
        """
        meta: Any = tensor._meta
        with meta.lock:
            if meta.grad is not None or meta.changes:
                return False
            # Before the write, since an interrupt may come between the two.
            self.tensors.append(tensor)
            meta.grad = type(tensor)(grad if sole else values.clone_like(grad, tensor._data), None, 0, tensor._device)
        return True

    def commit(self) -> None:
        """Forget the leaves: their gradients will not be rolled back."""
        self.tensors = []

    def roll_back(self) -> None:
        """Set the gradients back to None."""
        while self.tensors:
            meta = self.tensors[-1]._autograd_meta()
            with meta.lock:
                meta.grad = None
            self.tensors.pop()


@final
class GradChange(Change):
    """One backward's change of one tensor's gradient.

    Args:
        tensor: the tensor whose gradient changes.
        grad: the gradient that is added; kept if it may have to be added again.
        retained: whether the tensor is no leaf and keeps its gradient by `retain_grad`.
    """

    __slots__ = ("_is_listed", "_is_open", "after", "before", "grad", "owner", "retained", "tensor")

    def __init__(self, tensor: TensorBase, grad: Any, retained: bool) -> None:
        self.tensor: TensorBase = tensor
        self.grad: Any | None = grad
        self.retained: bool = retained
        meta = tensor._meta
        self.before: GradState = NO_GRAD if meta is None or meta.grad is None else GradState.of(tensor)
        #: The state after a listed change. While an unlisted change may be rolled back, nothing else runs.
        self.after: GradState | None = None
        self._is_open = True
        self._is_listed = False
        #: The `id` of the list of changes of the backward that made this; a reference would make a cycle.
        self.owner: int = 0

    def enter(self, changes: list[GradChange]) -> None:
        """Add this change to the list of its tensor."""
        # If other code has set the gradient since, it does not contain the listed changes any more.
        if changes and not changes[-1].is_last():
            changes.clear()
        if not changes:
            # No change before this one can be rolled back, so this one never has to be added again.
            self.grad = None
        # Before the append, since an interrupt may come between the two.
        self._is_listed = True
        changes.append(self)

    def is_last(self) -> bool:
        """Tell whether the gradient is as this change left it."""
        return self.after is None or self.after.is_still(GradState.of(self.tensor))

    def update_after(self) -> None:
        """Make what hooks have done to the gradient since then a part of this change."""
        changes = self.tensor._autograd_meta().changes
        if changes and changes[-1] is self:
            self.after = GradState.of(self.tensor)

    def commit(self) -> None:
        """Make this change final: changes that were added later no longer depend on it."""
        self._is_open = False
        if self._is_listed:
            meta = self.tensor._autograd_meta()
            with meta.lock:
                changes = meta.changes
                while changes and not changes[0]._is_open:
                    del changes[0]
                if changes:
                    changes[0].grad = None

    def merge_into(self, previous: GradChange) -> bool:
        """Merge this change into `previous` if no other change lies between them; tell whether it did."""
        meta = self.tensor._autograd_meta()
        with meta.lock:
            changes = meta.changes
            if not self._is_listed or previous not in changes:
                return False
            index = changes.index(previous) + 1
            if index == len(changes) or changes[index] is not self:
                return False
            del changes[index]
            previous.after = self.after
            if previous.grad is not None:
                kind = self.tensor._value_metadata
                added = _sum if kind is None else kind.type.add
                previous.grad = added(previous.grad, self.grad)
            return True

    def follows_one_of(self, owner: int) -> GradChange | None:
        """Return the change right before this one of the same tensor, if the backward `owner` made it; else None."""
        meta = self.tensor._autograd_meta()
        with meta.lock:
            changes = meta.changes
            index = changes.index(self) if self in changes else 0
            previous = changes[index - 1] if index else None
            return previous if previous is not None and previous._is_open and previous.owner == owner else None

    def roll_back(self) -> None:
        """Undo this change, and no other: its backward has failed.

        If other code has set the gradient since, that gradient stays.
        """
        meta = self.tensor._autograd_meta()
        with meta.lock, enable_grad():
            changes: list[GradChange] = meta.changes if self._is_listed else [self]
            if self in changes:
                index = changes.index(self)
                later = changes[index + 1 :]
                is_ours = changes[-1].is_last()
                del changes[index]
                if is_ours:
                    self.before.restore(self.tensor)
                    for change in later:
                        change._add_again()
        self.commit()

    def _add_again(self) -> None:
        tensor = self.tensor
        meta = tensor._autograd_meta()
        self.before = GradState.of(tensor)
        known = None if self.after is None else self.after.grad
        if known is None:
            # A hook has set the gradient to None.
            meta.grad = None
        else:
            _add(tensor, self.grad, False, self.retained)
            kept_as_object = self.retained or isinstance(self.grad, TensorBase) or tensor._value_metadata is not None
            if self.before.grad is None and not kept_as_object:
                # The gradient stays the same object, so that code that holds it sees the new value.
                known._data, meta.grad = meta.grad._data, known
                known._bump_version()
        self.after = GradState.of(tensor)


def change_grad(
    tensor: TensorBase, grad: Any, changes: list[Change], *, sole: bool, listed: bool, retained: bool = False
) -> GradChange:
    """Add `grad` to the gradient of `tensor`; return the change, which can be rolled back.

    Args:
        tensor: a leaf, or another tensor that keeps its gradient.
        grad: array of its shape and dtype, or a Tensor under `create_graph`.
        changes: the changes of the backward. This one is appended before the write, so that it is found after an
            error or an interrupt.
        sole: whether nothing else refers to the array, so that it may become the gradient or be written into.
        listed: whether other backward passes may run before this one has ended.
        retained: whether the tensor is a non-leaf that keeps its gradient.
    """
    meta = tensor._autograd_meta()
    with meta.lock:
        if not (listed or meta.changes):
            change = GradChange(tensor, None, retained)
            changes.append(change)
            _add(tensor, grad, sole, retained)
            return change
        change = GradChange(tensor, grad, retained)
        change.owner = id(changes)
        changes.append(change)
        change.enter(meta.changes)
        # A gradient that may have to be added again must not be written into.
        _add(tensor, grad, sole and change.grad is None, retained)
        change.after = GradState.of(tensor)
    return change


def sum_so_far(tensor: TensorBase) -> Any:
    """Return the array of a leaf's gradient if a running backward alone has computed all of it; else None.

    That backward may then add its further gradients to this array directly; see `continue_sum`.
    """
    meta = tensor._meta
    if meta is None or meta.grad is None or meta.hooks is not None or meta.post_accumulate_hooks is not None:
        return None
    if tensor._value_metadata is not None:
        return None
    with meta.lock:
        changes = meta.changes
        is_all = len(changes) == 1 and changes[0].before.grad is None and changes[0].is_last()
        return meta.grad._data if is_all and meta.grad._grad_fn is None else None


def continue_sum(tensor: TensorBase, total: Any, before: Any, changes: list[Change]) -> GradChange | None:
    """Replace the gradient `before` by `total`, a sum that starts with it; return the change, None if there is none.

    Args:
        tensor: a leaf.
        total: an array that nothing else refers to.
        before: the array that `sum_so_far` returned.
        changes: the changes of the backward.
    """
    meta = tensor._autograd_meta()
    if total is before:
        return None
    if meta.grad is None or meta.grad._data is not before or meta.changes == []:
        # Other code has changed the gradient meanwhile.
        return change_grad(tensor, _difference(total, before), changes, sole=True, listed=True)
    with meta.lock:
        change = GradChange(tensor, _difference(total, before), False)
        change.owner = id(changes)
        changes.append(change)
        change.enter(meta.changes)
        meta.grad._data = _array(total, tensor)
        meta.grad._bump_version()
        change.after = GradState.of(tensor)
    return change


def merge_changes(changes: list[Change], outer: list[Change]) -> None:
    """Merge the changes of a nested backward into those of the backward that it ran in."""
    for change in changes:
        # While the outer backward runs, every change is a GradChange.
        assert isinstance(change, GradChange)
        previous = change.follows_one_of(id(outer))
        if previous is None or not change.merge_into(previous):
            change.owner = id(outer)
            outer.append(change)


def drop_changes(changes: list[Change], tensors: Iterable[TensorBase]) -> None:
    """Commit and drop the latest change of each of `tensors`, which no other code refers to."""
    wanted = {id(tensor) for tensor in tensors}
    for index in reversed(range(len(changes))):
        if not wanted:
            return
        change = changes[index]
        if isinstance(change, GradChange) and id(change.tensor) in wanted:
            wanted.discard(id(change.tensor))
            changes.pop(index).commit()


def commit_all(changes: list[Change]) -> None:
    """Commit all changes of a backward."""
    try:
        for change in changes:
            change.commit()
    except BaseException:
        # An interrupt. Some changes are committed and cannot be rolled back any more, so commit the others too.
        for change in changes:
            change.commit()
        changes.clear()
        raise


def _add(tensor: TensorBase, grad: Any, sole: bool, retained: bool) -> None:
    meta = tensor._autograd_meta()
    old = meta.grad
    if tensor._value_metadata is not None:
        meta.grad = grad if old is None else tensor._value_metadata.type.add(old, grad)
    elif isinstance(grad, TensorBase):
        if grad._data.dtype != tensor._data.dtype:
            grad = values.cast(grad, tensor._data.dtype)
        if old is not None:
            total = values.add(old, grad)
            same = total._data.dtype == tensor._data.dtype
            meta.grad = total if same else values.cast(total, tensor._data.dtype)
        elif retained:
            meta.grad = grad
        elif grad._requires_grad():
            meta.grad = values.cast(grad, tensor._data.dtype) if not grad._data.dtype.isnative else values.clone(grad)
        else:
            meta.grad = _tensor(values.clone_like(grad._data, tensor._data), tensor)
    elif old is None:
        meta.grad = _tensor(grad if sole else values.clone_like(grad, tensor._data), tensor)
    elif retained or old._grad_fn is not None:
        # The sum has no history, so it needs a new tensor: the old one has a grad_fn.
        meta.grad = _tensor(_array(values.add(old._data, grad), tensor), tensor)
    else:
        old._data = _array(values.add_into(grad, old._data) if sole else values.add(old._data, grad), tensor)
        old._bump_version()


def _tensor(data: Any, like: TensorBase) -> TensorBase:
    return type(like)(data, None, 0, like._device)


def _array(total: Any, like: TensorBase) -> Any:
    """Return a sum as an array of the dtype of `like`: NumPy's sum of two arrays without axes is a scalar."""
    if not hasattr(total, "flags") or not total.shape or total.dtype != like._data.dtype:
        return values.clone_like(total, like._data)
    return total


def may_take(grad: Any, variable: np.ndarray) -> bool:
    """Tell whether an array of a leaf's dtype, to which nothing else refers, may become its gradient uncopied."""
    is_numpy = grad.__class__ is _ndarray
    if is_numpy and grad.flags.num in FLAGS_OF_NEW and variable.flags.c_contiguous:
        # Nearly all.
        return True
    if not is_numpy and not hasattr(grad, "strides"):
        return False
    # Another library may make them anew for each look.
    flags = grad.flags
    if not (flags.owndata or (is_numpy and _has_sole_memory(grad))):
        return False
    if not (flags.writeable if is_numpy else getattr(flags, "writeable", True)):
        return False
    if not is_numpy and grad.strides == variable.strides:
        return bool(flags.c_contiguous or values.is_dense(variable))
    if variable.flags.c_contiguous or not values.is_dense(variable):
        return bool(flags.c_contiguous)
    return bool(grad.strides == variable.strides)


def _has_sole_memory(grad: Any) -> bool:
    """Tell whether the memory of a view of NumPy's is all that it shows, and nothing else refers to it."""
    base = grad.base
    if base.__class__ is not _ndarray:
        return base.__class__ is values.OwnedMemory
    is_whole = bool(base.flags.owndata and base.nbytes == grad.nbytes)
    del base
    # What a rule has reshaped is one.
    return is_whole and _references_to_base(grad) == _SOLE_BASE


# On the device of the tensor: a backward that fails or is taken back does this when none of its nodes runs.
_sum, _difference = values.add, operator.sub
add_entry_names(globals(), "_add", "_difference", "_sum")
