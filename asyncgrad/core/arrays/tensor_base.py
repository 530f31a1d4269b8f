"""TensorBase: the state of a tensor as the graph sees it, without any mathematics.

Graph, engine and derivative rules know only this class. `Tensor` is its subclass for arrays, and adds the methods that
users call; `Value` holds what is no array, and has a `_value_metadata` in the place of `_data`. A tensor outside of any
graph has its array and a few empty slots. The state that only leaves and tensors with hooks need is in an
`AutogradMeta`, made on first need.
"""

from __future__ import annotations

import enum
import threading
from typing import TYPE_CHECKING, Any, Protocol, Self, final

from ...errors import ArgumentTypeError

if TYPE_CHECKING:
    import weakref
    from collections.abc import Callable

    from .hooks import HookList, RemovableHandle


__all__ = ["AutogradMeta", "CreationMeta", "ViewRecord", "TensorBase", "VersionCounter", "ViewMeta"]


#: How many readers a counter has before those that are gone are left out.
_MOST_READERS = 16


class Reader(Protocol):
    """Who reads memory later, as it is now."""

    def before_write(self, counter: VersionCounter) -> None:
        """Copy what lies in the memory of a counter; a write into it follows."""


@final
class VersionCounter:
    """Counts the in-place writes into one piece of memory; a base and all its views share one."""

    __slots__ = ("__weakref__", "readers", "value")

    def __init__(self, value: int = 0) -> None:
        self.value: int = value
        #: Who is to be told before the next write; None for nobody.
        self.readers: list[weakref.ReferenceType[Reader]] | None = None

    def tell_before_write(self, reader: weakref.ReferenceType[Reader]) -> None:
        """Have a reader be told once, before the next write, if it is there then."""
        readers = self.readers
        if readers is None:
            self.readers = [reader]
        elif len(readers) < _MOST_READERS:
            readers.append(reader)
        else:
            self.readers = [*[one for one in readers if one() is not None], reader]

    def tell_readers(self) -> None:
        """Tell those who wait for the next write; it follows."""
        readers, self.readers = self.readers or (), None
        for reference in readers:
            reader = reference()
            if reader is not None:
                reader.before_write(self)


class CreationMeta(enum.Enum):
    """How a view was made, which decides whether its history can be made anew after a write."""

    DEFAULT = enum.auto()
    #: Under `no_grad`, so that it is ambiguous whether to record a write into it.
    NO_GRAD = enum.auto()
    #: One of several outputs of one node.
    MULTI_OUTPUT = enum.auto()
    #: In the forward of a Function, whose backward replaces the recording of that forward.
    IN_CUSTOM_FUNCTION = enum.auto()
    #: As an argument of a transform, which differentiates with respect to its value at the call of `fn`.
    IN_TRANSFORM = enum.auto()


#: How a view was made: its root base, which is no view itself; the ViewRecord of the view that it was made of, None
#: where that was the base; the version of the memory at that time; its CreationMeta; the view function, None where that
#: need not or cannot be called again; and the further arguments of the function. A tuple, since every view has one and
#: a tuple is the cheapest.
ViewRecord = tuple["TensorBase", "ViewRecord | None", int, CreationMeta, Any, *tuple[Any, ...]]


@final
class ViewMeta:
    """The state that a view needs once it is written into, or asked for its history after a write.

    Args:
        record: how the view was made.
    """

    __slots__ = ("base", "creation", "geometries", "is_distinct", "record", "version")

    def __init__(self, record: ViewRecord) -> None:
        self.record: ViewRecord = record
        self.base: TensorBase = record[0]
        #: The version of the memory when the view's present grad_fn was made.
        self.version: int = record[2]
        self.creation: CreationMeta = record[3]
        #: Where the view lies in the memory of its base; None until first asked for: see asyncgrad.core.views.geometry.
        self.geometries: Any = None
        #: Whether no two elements of the view or of its base are known to share memory, so that writes are allowed.
        self.is_distinct: bool = False


@final
class AutogradMeta:
    """The state that only leaves and tensors with hooks need: the flag, the gradient, the accumulator, the hooks."""

    __slots__ = (
        "accumulator",
        "changes",
        "grad",
        "has_required_grad",
        "has_shared_array",
        "hooks",
        "lock",
        "post_accumulate_hooks",
        "requires_grad",
        "retains_grad",
    )

    def __init__(self) -> None:
        #: True only on leaves; a tensor with a grad_fn requires grad by having one.
        self.requires_grad: bool = False
        #: Whether it has been True at any time: a module then has a parameter in it, which may be frozen now.
        self.has_required_grad: bool = False
        self.retains_grad: bool = False
        #: Whether a snapshot may share the array, so that it must not change: see asyncgrad.core.arrays.copy_on_write.
        self.has_shared_array: bool = False
        self.grad: Any = None
        #: The GradChanges of backward passes that may still fail, in order.
        self.changes: list[Any] = []
        #: Guards the read-add-write of `grad` between event loops in several threads.
        self.lock: threading.Lock = threading.Lock()
        #: Weak: the graph holds the AccumulateGrad, and it holds the tensor.
        self.accumulator: weakref.ref[Any] | None = None
        #: Tensor hooks. For a non-leaf, its node holds the same list.
        self.hooks: HookList | None = None
        self.post_accumulate_hooks: HookList | None = None


class TensorBase:
    """Abstract base of `Tensor` and `Value`: an array, or another object, with a place in a graph."""

    __slots__ = ("__weakref__", "_counter", "_data", "_device", "_grad_fn", "_meta", "_output_nr", "_view")

    #: The array: of NumPy's, or of the library of the device.
    _data: Any
    _device: Any
    #: The ViewRecord of a view, replaced by a ViewMeta on first need: see `_view_meta`. None on any other tensor.
    _view: ViewRecord | ViewMeta | None
    #: The node that made the tensor. For a view, it is out of date after a write into its memory: see `_history`.
    _grad_fn: Any
    #: The ValueMetadata of a value; None where there is an array.
    _value_metadata: Any = None

    def __init__(
        self,
        data: object = None,
        grad_fn: object = None,
        output_nr: int = 0,
        place: object = None,
        device: object = None,
        dtype: object = None,
        requires_grad: object = None,
    ) -> None:
        # A user may call the class like `ag.tensor`. The library always passes `place`, the device. The last three
        # parameters exist so that such a call reaches the error below. Keyword-only parameters would cost one percent
        # of every tensor.
        if place is None:
            raise ArgumentTypeError(
                f"{type(self).__name__}(...) does not make a tensor from data: write ag.tensor(data), or "
                "ag.asarray(data) to share its memory"
            )
        self._data = data
        self._grad_fn = grad_fn
        self._output_nr = output_nr
        self._meta: AutogradMeta | None = None
        #: None until the first in-place write, or until the memory is shared with another tensor.
        self._counter: VersionCounter | None = None
        self._view = None
        self._device = place

    if TYPE_CHECKING:
        # What graph and engine call of `Tensor`, their only kind of tensor.

        def to(self, target: Any) -> Self:
            """Return a copy on a device."""

        def detach(self) -> Self:
            """Return a tensor on the same memory, without history."""

        def retain_grad(self) -> None:
            """Keep the gradient of a tensor that is no leaf."""

        def register_hook(self, hook: Callable[..., object]) -> RemovableHandle:
            """Have `hook(grad)` called once the gradient is there."""

    def _requires_grad(self) -> bool:
        if self._grad_fn is not None:
            return True
        meta = self._meta
        if meta is not None and meta.requires_grad:
            return True
        # Operations on a view are recorded only where the view has a history. A view made under no_grad, or before its
        # base required grad, has none until a write gives it one, which is made when it is asked for.
        # test_a_view_made_under_no_grad_requires_no_grad
        view = self._view_meta()
        return view is not None and view.version != self._shared_version().value and view.base._requires_grad()

    def _memory_requires_grad(self) -> bool:
        """Tell whether a write into this memory has to be recorded, for this tensor or for the base of this view.

        A view without a history may lie in the memory of a base that has one.
        """
        if self._requires_grad():
            return True
        view = self._view_meta()
        return view is not None and view.base._requires_grad()

    def _history(self) -> Any:
        """Return the grad_fn; make that of a view anew if its memory was written into since.

        Raises:
            InPlaceError: the grad_fn of the view cannot be made anew, because of how the view was made.
        """
        counter = self._counter
        if counter is not None and counter.value:
            self._refresh()
        return self._grad_fn

    def _refresh(self) -> None:
        """Make the grad_fn anew if this is a view whose memory was written into after its grad_fn was made."""
        view = self._view_meta()
        if view is not None and view.version != self._shared_version().value:
            self._regenerate(view)

    def _regenerate(self, view: ViewMeta) -> None:
        """Make the grad_fn of this view anew."""
        raise NotImplementedError("to be written by the subclass")

    def _rebase(self, node: Any, output_nr: int) -> None:
        """Take a new place in the graph, as after an in-place write.

        Hooks stay with the old node, and hooks added later belong to the new one. `retain_grad` moves to the
        new node.

        Source: set_gradient_edge and the migration of hooks of PyTorch.
        """
        meta, before = self._meta, self._grad_fn
        if meta is not None:
            meta.hooks = None
            if meta.retains_grad and before is not None and before.meta is not None:
                keeper = before.meta.retains_grad_hooks.pop(self._output_nr, None)
                node.make_meta().retains_grad_hooks[output_nr] = keeper
        self._grad_fn, self._output_nr = node, output_nr
        view = self._view_meta()
        if view is not None:
            view.version = self._shared_version().value

    def _autograd_meta(self) -> AutogradMeta:
        meta = self._meta
        if meta is None:
            meta = self._meta = AutogradMeta()
        return meta

    def _shared_version(self) -> VersionCounter:
        """Return the version counter of this memory; make it on the first call."""
        version = self._counter
        if version is None:
            version = self._counter = VersionCounter()
        return version

    def _view_meta(self) -> ViewMeta | None:
        """Return the ViewMeta of this view; make it on the first call. None if this is no view."""
        view: Any = self._view
        if view.__class__ is tuple:
            view = self._view = ViewMeta(view)
        return view  # type: ignore[no-any-return]

    def _view_record(self, creation: CreationMeta, step: tuple[Any, ...] = (None,)) -> ViewRecord:
        """Return the ViewRecord of a view that is made of this tensor now.

        Args:
            creation: the CreationMeta of the new view; DEFAULT takes over that of this tensor.
            step: the view function and its further arguments; `(None,)` where it need not or cannot be called again.
        """
        version, view = self._shared_version().value, self._view_meta()
        if view is None:
            return (self, None, version, creation, *step)
        if creation is CreationMeta.DEFAULT:
            creation = view.creation
        return (view.base, view.record, version, creation, *step)

    def _bump_version(self) -> None:
        self._shared_version().value += 1
