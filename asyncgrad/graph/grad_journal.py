"""What backward passes do to `.grad`, and how it is taken back from one that fails.

Several backward passes may share a leaf, and one may fail when others have added to the same `.grad` since. So
a tensor lists its changes while one of them may still be taken back: what comes after that one is added again to
what was there before it, and the bits are those of a run without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, final

from ..context import enable_grad
from ..graph import values
from .saved import version_of
from .tensor_base import TensorBase

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np

__all__ = [
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


class GradState(NamedTuple):
    """What a tensor has as its gradient: the object, its array, and how often that was written into."""

    grad: Any
    data: Any
    version: int

    @classmethod
    def of(cls, tensor: TensorBase) -> GradState:
        """Note what `tensor` has now."""
        meta = tensor._meta
        if meta is None or meta.grad is None:
            return NO_GRAD
        return cls(meta.grad, meta.grad._data, version_of(meta.grad))

    def is_still(self, other: GradState) -> bool:
        """Tell whether the two are one and the same state."""
        return self.grad is other.grad and self.data is other.data and self.version == other.version

    def restore(self, tensor: TensorBase) -> None:
        """Give `tensor` this gradient, the very same object and array."""
        tensor._autograd_meta().grad = self.grad
        if self.grad is not None:
            self.grad._data = self.data
            if self.grad._counter is not None:
                self.grad._counter.value = self.version


NO_GRAD = GradState(None, None, 0)


class Change:
    """Abstract: what a backward has done to gradients."""

    __slots__ = ()

    def commit(self) -> None:
        """Make this change final: its backward has succeeded, or has taken it back."""
        raise NotImplementedError(f"{type(self).__name__} must say how it becomes final")

    def roll_back(self) -> None:
        """Undo this change, and no other: its backward has failed."""
        raise NotImplementedError(f"{type(self).__name__} must say how it is undone")


@final
class FirstGrads(Change):
    """The gradients that one backward gives at its end to leaves that had none, while nothing else runs.

    That is what a training step does. One change for all leaves takes a third of the time of one for each.
    """

    __slots__ = ("_tensors",)

    def __init__(self) -> None:
        self._tensors: list[TensorBase] = []

    def give(self, tensor: TensorBase, grad: Any, sole: bool) -> bool:
        """Give `tensor` an array as its gradient; do nothing and return False where another backward has changed that.

        Args:
            tensor: a leaf.
            grad: array of its shape and dtype.
            sole: whether nobody else holds the array.
        """
        meta: Any = tensor._meta
        with meta.lock:
            if meta.grad is not None or meta.changes:
                return False
            # First, since an interrupt may come between the two.
            self._tensors.append(tensor)
            meta.grad = type(tensor)(grad if sole else values.clone_like(grad, tensor._data), None, 0, tensor._device)
        return True

    def commit(self) -> None:
        """Forget the leaves: nobody takes their gradients back any more."""
        self._tensors = []

    def roll_back(self) -> None:
        """Take the gradients away again."""
        while self._tensors:
            meta = self._tensors[-1]._autograd_meta()
            with meta.lock:
                meta.grad = None
            self._tensors.pop()


@final
class GradChange(Change):
    """One backward's change of one tensor's gradient.

    Args:
        tensor: whose gradient.
        grad: what is added; kept where it may have to be added again.
        retained: whether the tensor is no leaf and keeps its gradient by `retain_grad`.
    """

    __slots__ = ("_is_listed", "_is_open", "after", "before", "grad", "owner", "retained", "tensor")

    def __init__(self, tensor: TensorBase, grad: Any, retained: bool) -> None:
        self.tensor = tensor
        self.grad = grad
        self.retained = retained
        meta = tensor._meta
        self.before = NO_GRAD if meta is None or meta.grad is None else GradState.of(tensor)
        #: Of a listed change: what it left. Nothing else runs while one that is not listed may be taken back.
        self.after: GradState | None = None
        self._is_open = True
        self._is_listed = False
        #: The identity of the list of the backward whose change this is; no reference, which would be a cycle.
        self.owner = 0

    def enter(self, changes: list[GradChange]) -> None:
        """Add this change to the list of its tensor."""
        # Where somebody else has set the gradient since, what was listed is not in it any more.
        if changes and not changes[-1].is_last():
            changes.clear()
        if not changes:
            # Nothing before it can be taken back, so it never has to be added again.
            self.grad = None
        # First, since an interrupt may come between the two.
        self._is_listed = True
        changes.append(self)

    def is_last(self) -> bool:
        """Tell whether nobody has touched the gradient since."""
        return self.after is None or self.after.is_still(GradState.of(self.tensor))

    def update_after(self) -> None:
        """Take what hooks have made of the gradient since as part of this change."""
        changes = self.tensor._autograd_meta().changes
        if changes and changes[-1] is self:
            self.after = GradState.of(self.tensor)

    def commit(self) -> None:
        """Let no other change that was added later wait for this one."""
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
        """Become part of `previous` where nobody else came between; tell whether that was so."""
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
                previous.grad = values.add(previous.grad, self.grad)
            return True

    def follows_one_of(self, owner: int) -> GradChange | None:
        """Return the change of the same tensor right before this one, where it is of the backward `owner`."""
        meta = self.tensor._autograd_meta()
        with meta.lock:
            changes = meta.changes
            index = changes.index(self) if self in changes else 0
            previous = changes[index - 1] if index else None
            return previous if previous is not None and previous._is_open and previous.owner == owner else None

    def roll_back(self) -> None:
        """Undo this change, and no other: its backward has failed.

        Where somebody has set the gradient since, that stays.
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
            # A hook took the gradient away.
            meta.grad = None
        else:
            _add(tensor, self.grad, False, self.retained)
            if self.before.grad is None and not self.retained and not isinstance(self.grad, TensorBase):
                # Whoever holds the gradient object sees it change, and is not left with an old one.
                known._data, meta.grad = meta.grad._data, known
                known._bump_version()
        self.after = GradState.of(tensor)


def change_grad(
    tensor: TensorBase, grad: Any, changes: list[Change], *, sole: bool, listed: bool, retained: bool = False
) -> GradChange:
    """Add `grad` to the gradient of `tensor`; return what can take that back.

    Args:
        tensor: a leaf, or another tensor that keeps its gradient.
        grad: array of its shape and dtype, or a Tensor under `create_graph`.
        changes: those of the backward. This one is put there before anything else is done, so that an error or an
            interrupt on the way finds it.
        sole: whether nobody else holds the array, and it may become the gradient, or be written into.
        listed: whether other backward passes may run before this one has ended.
        retained: whether the tensor is no leaf.
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
        # What may have to be added again stays as it is.
        _add(tensor, grad, sole and change.grad is None, retained)
        change.after = GradState.of(tensor)
    return change


def sum_so_far(tensor: TensorBase) -> Any:
    """Return the array of a leaf's gradient, where it had none before a backward that still runs began to add to it.

    What else that adds may then go on from this sum as if it were one with it; None where it may not.
    """
    meta = tensor._meta
    if meta is None or meta.grad is None or meta.hooks is not None or meta.post_accumulate_hooks is not None:
        return None
    with meta.lock:
        changes = meta.changes
        is_all = len(changes) == 1 and changes[0].before.grad is None and changes[0].is_last()
        return meta.grad._data if is_all and meta.grad._grad_fn is None else None


def continue_sum(tensor: TensorBase, total: Any, before: Any, changes: list[Change]) -> GradChange | None:
    """Let `total` take the place of the gradient `before`, of which it is the continuation.

    Args:
        tensor: a leaf.
        total: an array that nobody else holds.
        before: what `sum_so_far` gave.
        changes: those of the backward.
    """
    meta = tensor._autograd_meta()
    if total is before:
        return None
    if meta.grad is None or meta.grad._data is not before or meta.changes == []:
        # Somebody else has changed it meanwhile.
        return change_grad(tensor, total - before, changes, sole=True, listed=True)
    with meta.lock:
        change = GradChange(tensor, total - before, False)
        change.owner = id(changes)
        changes.append(change)
        change.enter(meta.changes)
        meta.grad._data = _array(total, tensor)
        meta.grad._bump_version()
        change.after = GradState.of(tensor)
    return change


def merge_changes(changes: list[Change], outer: list[Change]) -> None:
    """Make the changes of a backward a part of those of the one that it ran inside of."""
    for change in changes:
        # While that one runs, no leaf gets a gradient without a GradChange.
        assert isinstance(change, GradChange)
        previous = change.follows_one_of(id(outer))
        if previous is None or not change.merge_into(previous):
            change.owner = id(outer)
            outer.append(change)


def drop_changes(changes: list[Change], tensors: Iterable[TensorBase]) -> None:
    """Make the latest change of each of `tensors` final, ahead of the others: nobody else knows those tensors."""
    wanted = {id(tensor) for tensor in tensors}
    for index in reversed(range(len(changes))):
        if not wanted:
            return
        change = changes[index]
        if isinstance(change, GradChange) and id(change.tensor) in wanted:
            wanted.discard(id(change.tensor))
            changes.pop(index).commit()


def commit_all(changes: list[Change]) -> None:
    """Make all changes of a backward final."""
    try:
        for change in changes:
            change.commit()
    except BaseException:
        # An interrupt. Some are final, and cannot be taken back any more; so all are.
        for change in changes:
            change.commit()
        changes.clear()
        raise


def _add(tensor: TensorBase, grad: Any, sole: bool, retained: bool) -> None:
    meta = tensor._autograd_meta()
    old = meta.grad
    if isinstance(grad, TensorBase):
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
        # The sum has no history, so it cannot be the same tensor: its grad_fn would be a wrong one.
        meta.grad = _tensor(_array(values.add(old._data, grad), tensor), tensor)
    else:
        old._data = _array(values.add_into(grad, old._data) if sole else values.add(old._data, grad), tensor)
        old._bump_version()


def _tensor(data: Any, like: TensorBase) -> TensorBase:
    return type(like)(data, None, 0, like._device)


def _array(total: Any, like: TensorBase) -> Any:
    """Return a sum as an array of the dtype of `like`: that of two arrays without axes is a NumPy scalar."""
    if not hasattr(total, "flags") or not total.shape or total.dtype != like._data.dtype:
        return values.clone_like(total, like._data)
    return total


def may_take(grad: Any, variable: np.ndarray) -> bool:
    """Tell whether an array of a leaf's dtype that nobody else refers to may become its gradient as it stands."""
    if not hasattr(grad, "strides"):
        return False
    flags = grad.flags
    if not (flags.owndata and flags.writeable):
        return False
    if variable.flags.c_contiguous or not values.is_dense(variable):
        return bool(flags.c_contiguous)
    return bool(grad.strides == variable.strides)
