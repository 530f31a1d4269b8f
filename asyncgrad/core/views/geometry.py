"""The location of a view in the memory of its base, given by strides or by the view functions that make it."""

from __future__ import annotations

import math
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from ...errors import InPlaceError
from ..arrays.values import array_interface, is_device_array, is_recorder, is_writeable, zeros_like
from ..settings.arguments import truth
from ..settings.context import Mode

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from ..arrays.tensor_base import TensorBase, ViewMeta, ViewRecord

    T = TypeVar("T")

__all__ = [
    "ViewLocation",
    "ViewReplay",
    "Slice",
    "TensorGeometry",
    "ViewFunc",
    "has_internal_overlap",
    "locate_view",
    "locate_part",
    "replay_views",
]

#: Whether this context reads a view out of its base by calling its view functions again, rather than by strides.
_REPLAYS: ContextVar[bool] = ContextVar("asyncgrad_replays_views", default=False)


@final
class replay_views(Mode):
    """Inside, the gradient of a view is read out of its base's gradient by calling the view functions again.

    Outside, it is read by strides, which is faster but needs a device whose arrays have strides. The gradients are the
    same. It is a context manager and a decorator, and holds for the current context only.

    Args:
        enabled: True calls the view functions again; False uses strides.

    Source: view replay of PyTorch.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
        >>> with ag.graph.replay_views():
        ...     y = x * 1
        ...     y[0] *= 3
        >>> ag.sync.backward(y.sum())
        >>> x.grad.tolist()
        [3.0, 1.0]
    """

    __slots__ = ("_enabled",)

    def __init__(self, enabled: bool = True) -> None:
        self._enabled = truth(enabled, "the argument of ag.graph.replay_views(enabled)")

    def _get(self) -> Any:
        return _REPLAYS.get()

    def _set(self, value: Any, /) -> None:
        _REPLAYS.set(value)

    def _value(self) -> bool:
        return self._enabled

    def _clone(self) -> Mode:
        return replay_views(self._enabled)


def _should_replay(device: Any) -> bool:
    """Tell whether views on `device` are read by calling their view functions again."""
    return _REPLAYS.get() or not device.has_strides


class TensorGeometry(NamedTuple):
    """The memory layout of an array: shape, dtype, and strides and offset in bytes.

    The offset is counted from the first element of the base.

    Source: TensorGeometry of PyTorch, which counts in elements.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor([1.0, 2.0, 3.0])
        >>> x[1:] += 1
        >>> ag.graph.TensorGeometry((2,), (8,), 8, x.dtype).offset
        8
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: np.dtype

    def reach(self) -> tuple[int, int]:
        """Return the first byte that the array occupies and the byte after the last, relative to the base."""
        low = high = self.offset
        for length, stride in zip(self.shape, self.strides, strict=True):
            if not length:
                return self.offset, self.offset
            if stride < 0:
                low += (length - 1) * stride
            else:
                high += (length - 1) * stride
        return low, high + self.dtype.itemsize

    def size(self) -> int:
        """Return the number of elements."""
        return math.prod(self.shape)


class ViewFunc(NamedTuple):
    """The view functions that lead from a base to a view, each with its arguments.

    Source: ViewFunc of PyTorch.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> ag.graph.ViewFunc(((np.reshape, ((2, 2),)), (np.transpose, ()))) (np.arange(4)).tolist()
        [[0, 2], [1, 3]]
    """

    steps: tuple[tuple[Callable[..., Any], tuple[object, ...]], ...]

    def __call__(self, base: T) -> T:
        """Return the view of `base`, which must have the memory layout of the original base."""
        for function, arguments in self.steps:
            base = function(base, *arguments)
        return base

    @classmethod
    def of(cls, view: ViewMeta, *further: tuple[Callable[..., Any], tuple[object, ...]]) -> ViewFunc | None:
        """Return the ViewFunc of a view, continued by the steps `further`; None if a function is unknown."""
        steps = [*reversed(further)]
        record: ViewRecord | None = view.record
        while record is not None:
            _, before, _, _, function, *arguments = record
            if function is None:
                return None
            steps.append((function, tuple(arguments)))
            record = before
        return cls(tuple(reversed(steps)))


class Slice(NamedTuple):
    """The location of a view in the memory of its base, by strides."""

    base: TensorGeometry
    view: TensorGeometry
    #: Whether the base is C-contiguous.
    is_contiguous: bool

    @classmethod
    def of(cls, array: Any, base: Any) -> Slice:
        """Return the location of `array` in the memory of the array `base`.

        Raises:
            InPlaceError: `array` lies outside of that memory.
        """
        offset = _address(array) - _address(base)
        whole = TensorGeometry(base.shape, base.strides, 0, base.dtype)
        view = TensorGeometry(array.shape, array.strides, offset, array.dtype)
        (low, high), (first, last) = whole.reach(), view.reach()
        if array.size and not low <= first <= last <= high:
            raise InPlaceError(
                f"a view of shape {array.shape} is not in the memory of its base of shape {base.shape}, whose array "
                "was replaced after the view was made, as that of a .grad may be: make the view again"
            )
        return cls(whole, view, base.flags.c_contiguous)

    def copy_like_base(self, array: Any) -> Any:
        """Return a copy of `array` with the memory layout of the base."""
        if is_device_array(array):
            return self._copy_device_array(array)
        if self.is_contiguous:
            if is_recorder(array):
                return array.astype(self.base.dtype, "C")
            return np.array(array, self.base.dtype, order="C")
        low, high = self.base.reach()
        buffer = np.zeros(high - low, np.uint8)
        copy: Any = np.ndarray(self.base.shape, self.base.dtype, buffer, -low, self.base.strides)
        copy[...] = array
        return copy

    def _copy_device_array(self, array: Any) -> Any:
        """Return a copy with the base's order of axes, for an array of another library: no np.ndarray views it."""
        shape, strides = self.base.shape, self.base.strides
        axes = sorted(range(len(shape)), key=lambda axis: -abs(strides[axis]))
        rows = np.empty_like(array, self.base.dtype, order="C", shape=tuple(shape[axis] for axis in axes))
        copy: Any = np.transpose(rows, [axes.index(axis) for axis in range(len(axes))])
        copy[...] = array
        return copy

    def part(self, array: Any) -> Any:
        """Return the view of `array`, which `copy_like_base` returned or which is C-contiguous like the base."""
        view = self.view
        if 0 in view.shape:
            return np.empty(view.shape, view.dtype)
        if self.is_contiguous:
            if is_recorder(array):
                return array.part(view.shape, view.dtype, view.offset, view.strides)
            return np.ndarray(view.shape, view.dtype, array, view.offset, view.strides)
        low, _ = self.base.reach()
        return np.ndarray(view.shape, view.dtype, array.base, view.offset - low, view.strides)

    def read(self, array: Any) -> Any:
        """Return the view of `array`; a copy of the view if the layout of `array` is not that of the base."""
        if self.is_contiguous and array.flags.c_contiguous and array.dtype is self.base.dtype:
            return self.part(array)
        return self.part(self.copy_like_base(array))

    def replace_part(self, array: Any, values: Any) -> Any:
        """Return a copy of `array` with the memory layout of the base and with `values` in the view."""
        total = self.copy_like_base(array)
        self.part(total)[...] = values
        return total

    def scatter(self, values: Any) -> Any:
        """Return zeros with the memory layout of the base and with `values` added in the view."""
        base = self.base
        total: Any = zeros_like(values, base.shape, base.dtype)
        if not self.is_contiguous:
            total = self.copy_like_base(total)
        part = self.part(total)
        if not has_internal_overlap(part):
            part[...] = values
            return total
        # Elements of the view share memory: add each to the element of the base that it is, by its index.
        whole: Any = total.reshape(-1) if self.is_contiguous else total.base
        elements = whole.view(self.view.dtype) if whole.size else whole
        indices = np.arange(elements.size)
        step, low = self.view.dtype.itemsize, 0 if self.is_contiguous else self.base.reach()[0]
        view_indices = np.ndarray(
            self.view.shape,
            indices.dtype,
            indices,
            (self.view.offset - low) // step * indices.itemsize,
            tuple(stride // step * indices.itemsize for stride in self.view.strides),
        )
        np.add.at(elements, view_indices.reshape(-1), np.reshape(values, -1))
        return total


class ViewReplay(NamedTuple):
    """The location of a view in its base, by the view functions that make it."""

    func: ViewFunc
    base: TensorGeometry
    view: TensorGeometry
    #: The location by strides, which gives a copy of the base its memory layout.
    strided: Slice

    def read(self, array: Any) -> Any:
        """Return the view of `array`; a copy of the view if a view function copies."""
        return self.func(array)

    def replace_part(self, array: Any, values: Any) -> Any:
        """Return a copy of `array` with the memory layout of the base and with `values` in the view.

        Raises:
            InPlaceError: the view functions return a copy, or an array of another shape than the view.
        """
        total = self.strided.copy_like_base(array)
        part = self.func(total)
        if part.shape != self.view.shape or not (part.size == 0 or np.may_share_memory(part, total)):
            raise InPlaceError(
                f"a view of shape {self.view.shape} cannot be replayed on an array of shape {total.shape}: its view "
                f"functions return an array of shape {part.shape} that is not this view. Use strides, "
                "`with ag.graph.replay_views(False):`"
            )
        if not is_writeable(part):
            # np.diagonal returns a read-only view. This one is of a new copy, so that nothing else is written into.
            part.flags.writeable = True
        part[...] = values
        return total


#: The location of a view in its base, as a node saves it.
ViewLocation = Slice | ViewReplay


def _address(array: Any) -> int:
    address: int = array_interface(array)["data"][0]
    return address


def has_internal_overlap(array: Any) -> bool:
    """Tell whether two elements of an array share memory."""
    if array.flags.forc:
        return False
    filled = array.itemsize
    for stride, length in sorted(zip(map(abs, array.strides), array.shape, strict=True)):
        if length > 1:
            if stride < filled:
                break
            filled += (length - 1) * stride
        elif not length:
            return False
    else:
        return False
    # The strides alone do not decide this rare case, so compare the offsets of all elements.
    offsets = np.zeros((), np.intp)
    for stride, length in zip(array.strides, array.shape, strict=True):
        offsets = offsets[..., np.newaxis] + np.arange(length) * stride
    offsets = np.sort(offsets, axis=None)
    return bool((offsets[1:] - offsets[:-1] < array.itemsize).any())


def locate_view(view: TensorBase, meta: ViewMeta) -> ViewLocation:
    """Return the location of a view in its base, by strides or by view functions as `_should_replay` says."""
    array, whole = view._data, meta.base._data
    known = meta.geometries
    if known is None or known[1] is not array or known[2] is not whole:
        known = meta.geometries = Slice.of(array, whole), array, whole
    location: Slice = known[0]
    return _make_replay(location, ViewFunc.of(meta)) if _should_replay(view._device) else location


def locate_part(tensor: TensorBase, meta: ViewMeta | None, part: Any, step: Any) -> ViewLocation:
    """Return the location of a part of a tensor in the tensor's base.

    Args:
        tensor: the tensor.
        meta: its ViewMeta; None if the tensor is no view, and so is the base itself.
        part: the array of the part.
        step: the view function that makes the part, with its arguments.
    """
    location = Slice.of(part, tensor._data if meta is None else meta.base._data)
    if not _should_replay(tensor._device):
        return location
    return _make_replay(location, ViewFunc((step,)) if meta is None else ViewFunc.of(meta, step))


def _make_replay(location: Slice, func: ViewFunc | None) -> ViewReplay:
    if func is None:
        raise InPlaceError(
            f"a view of shape {location.view.shape} was made by a function that cannot be called again on another "
            "base: use strides, `with ag.graph.replay_views(False):`"
        )
    return ViewReplay(func, location.base, location.view, location)
