"""Where a view lies in the memory of its base: by strides, or by calling its view functions again."""

from __future__ import annotations

import math
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from ..arguments import truth
from ..context import Mode
from ..errors import InPlaceError
from ..graph.values import interface_of, is_foreign, is_writeable

if TYPE_CHECKING:
    from ..graph.tensor_base import TensorBase, ViewMeta, ViewRecord

__all__ = [
    "Place",
    "ViewReplay",
    "Slice",
    "TensorGeometry",
    "ViewFunc",
    "overlaps",
    "place_of",
    "place_of_part",
    "replay_views",
    "replays",
]

#: Whether this context reaches a view by calling its view functions again, and not by strides.
_REPLAYS: ContextVar[bool] = ContextVar("asyncgrad_replays_views", default=False)


@final
class replay_views(Mode):
    """Inside, the part of a gradient that belongs to a view is reached by calling the view's functions again.

    Otherwise it is reached by strides, which takes less time and needs a device whose arrays have them. The gradients
    are the same. A context manager and a decorator, which holds for the current context only.

    Args:
        enabled: whether to call them again; False reaches views by strides.

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


def replays(device: Any) -> bool:
    """Tell whether views on a device are to be reached by calling their functions again."""
    return _REPLAYS.get() or not device.has_strides


class TensorGeometry(NamedTuple):
    """How an array lies in memory; strides and offset are in bytes, the offset from the first element of the base.

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
    dtype: Any

    def reach(self) -> tuple[int, int]:
        """Return the lowest and the highest byte that the array takes up, relative to its base."""
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
        """Return how many elements there are."""
        return math.prod(self.shape)


class ViewFunc(NamedTuple):
    """The view functions that lead from a base to a view, each with its arguments.

    Source: ViewFunc of PyTorch.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> ag.graph.ViewFunc(((np.reshape, ((2, 2),)), (np.transpose, ()))) (np.arange(4)).tolist()
        [[0, 2], [1, 3]]
    """

    steps: tuple[tuple[Any, tuple[Any, ...]], ...]

    def __call__(self, base: Any) -> Any:
        """Return the view of another base, which must be laid out as the first one was."""
        for function, arguments in self.steps:
            base = function(base, *arguments)
        return base

    @classmethod
    def of(cls, view: ViewMeta, *further: Any) -> ViewFunc | None:
        """Return what leads to a view, and to a view of that by `further` steps; None where a step is not known."""
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
    """Where a view lies in the memory of its base."""

    base: TensorGeometry
    view: TensorGeometry
    #: Whether the elements of the base follow one another in memory, in rows.
    is_contiguous: bool

    @classmethod
    def of(cls, array: Any, base: Any) -> Slice:
        """Return where `array` lies in the memory of the array `base`.

        Raises:
            InPlaceError: somewhere else.
        """
        offset = _address(array) - _address(base)
        whole = TensorGeometry(base.shape, base.strides, 0, base.dtype)
        view = TensorGeometry(array.shape, array.strides, offset, array.dtype)
        (low, high), (first, last) = whole.reach(), view.reach()
        if array.size and not low <= first <= last <= high:
            raise InPlaceError(
                f"a view of shape {array.shape} has no place any more in the memory of its base of shape {base.shape}, "
                "which has got another array since, as a .grad does: make the view anew"
            )
        return cls(whole, view, base.flags.c_contiguous)

    def copy_like_base(self, array: Any) -> Any:
        """Return a copy of `array` that lies in memory as the base does."""
        if is_foreign(array):
            return self._copy_foreign(array)
        if self.is_contiguous:
            return np.array(array, self.base.dtype, order="C")
        low, high = self.base.reach()
        buffer = np.zeros(high - low, np.uint8)
        copy: Any = np.ndarray(self.base.shape, self.base.dtype, buffer, -low, self.base.strides)
        copy[...] = array
        return copy

    def _copy_foreign(self, array: Any) -> Any:
        """Return a copy with the base's order of axes, for array types whose memory only NumPy's functions reach."""
        shape, strides = self.base.shape, self.base.strides
        axes = sorted(range(len(shape)), key=lambda axis: -abs(strides[axis]))
        rows = np.empty_like(array, self.base.dtype, order="C", shape=tuple(shape[axis] for axis in axes))
        copy: Any = np.transpose(rows, [axes.index(axis) for axis in range(len(axes))])
        copy[...] = array
        return copy

    def part(self, array: Any) -> Any:
        """Return the view of an array that `copy_like_base` gave, or of one in rows where the base is in rows."""
        view = self.view
        if 0 in view.shape:
            return np.empty(view.shape, view.dtype)
        if self.is_contiguous:
            return np.ndarray(view.shape, view.dtype, array, view.offset, view.strides)
        low, _ = self.base.reach()
        return np.ndarray(view.shape, view.dtype, array.base, view.offset - low, view.strides)

    def read(self, array: Any) -> Any:
        """Return the view of an array of any layout, or a copy of it."""
        if self.is_contiguous and array.flags.c_contiguous and array.dtype is self.base.dtype:
            return self.part(array)
        return self.part(self.copy_like_base(array))

    def replaced(self, array: Any, values: Any) -> Any:
        """Return a copy of `array`, laid out as the base, with other values where the view lies."""
        total = self.copy_like_base(array)
        self.part(total)[...] = values
        return total

    def scatter(self, values: Any) -> Any:
        """Return zeros laid out as the base, with `values` added where the view lies."""
        base = self.base
        total: Any = np.zeros(base.shape, base.dtype)
        if not self.is_contiguous:
            total = self.copy_like_base(total)
        place = self.part(total)
        if not overlaps(place):
            place[...] = values
            return total
        whole: Any = total.reshape(-1) if self.is_contiguous else total.base
        elements = whole.view(self.view.dtype) if whole.size else whole
        numbers = np.arange(elements.size)
        step, low = self.view.dtype.itemsize, 0 if self.is_contiguous else self.base.reach()[0]
        numbers_at = np.ndarray(
            self.view.shape,
            numbers.dtype,
            numbers,
            (self.view.offset - low) // step * numbers.itemsize,
            tuple(stride // step * numbers.itemsize for stride in self.view.strides),
        )
        np.add.at(elements, numbers_at.reshape(-1), np.reshape(values, -1))
        return total


class ViewReplay(NamedTuple):
    """A view as what its functions make of its base."""

    func: ViewFunc
    base: TensorGeometry
    view: TensorGeometry
    #: That place again, by strides: it says how a copy of the base is to lie in memory.
    place: Slice

    def read(self, array: Any) -> Any:
        """Return the view of an array of any layout, or a copy of it."""
        return self.func(array)

    def replaced(self, array: Any, values: Any) -> Any:
        """Return a copy of `array`, laid out as the base, with other values where the view lies.

        Raises:
            InPlaceError: a view function makes a copy, or something else than it made of the base.
        """
        total = self.place.copy_like_base(array)
        part = self.func(total)
        if part.shape != self.view.shape or not (part.size == 0 or np.may_share_memory(part, total)):
            raise InPlaceError(
                f"a view of shape {self.view.shape} cannot be made again of an array of shape {total.shape}: called "
                f"again, its functions give an array of shape {part.shape}. Reach views by strides, "
                "`with ag.graph.replay_views(False):`"
            )
        if not is_writeable(part):
            # A diagonal is read-only. Nobody else has this one.
            part.flags.writeable = True
        part[...] = values
        return total


#: Where a view lies in its base, as a node keeps it.
Place = Slice | ViewReplay


def _address(array: Any) -> int:
    address: int = interface_of(array)["data"][0]
    return address


def overlaps(array: Any) -> bool:
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
    # What the strides leave open is settled by the places themselves: it is rare.
    places = np.zeros((), np.intp)
    for stride, length in zip(array.strides, array.shape, strict=True):
        places = places[..., np.newaxis] + np.arange(length) * stride
    near = np.sort(places, axis=None)
    return bool((near[1:] - near[:-1] < array.itemsize).any())


def place_of(view: TensorBase, meta: ViewMeta) -> Place:
    """Return where a view lies in its base, in the way that this context and the view's device reach it."""
    array, whole = view._data, meta.base._data
    known = meta.geometries
    if known is None or known[1] is not array or known[2] is not whole:
        known = meta.geometries = Slice.of(array, whole), array, whole
    place: Slice = known[0]
    return _make_replay(place, ViewFunc.of(meta)) if replays(view._device) else place


def place_of_part(of: TensorBase, meta: ViewMeta | None, part: Any, step: Any) -> Place:
    """Return where a part of `of`, which is a view where it has `meta`, lies in the base of that.

    Args:
        of: the tensor.
        meta: of that; None where it is the base itself.
        part: the array of the part.
        step: the view function that makes it, and its arguments.
    """
    place = Slice.of(part, of._data if meta is None else meta.base._data)
    if not replays(of._device):
        return place
    return _make_replay(place, ViewFunc((step,)) if meta is None else ViewFunc.of(meta, step))


def _make_replay(place: Slice, func: ViewFunc | None) -> ViewReplay:
    if func is None:
        raise InPlaceError(
            f"a view of shape {place.view.shape} was made by a function that cannot be called again on another base: "
            "reach views by strides, `with ag.graph.replay_views(False):`"
        )
    return ViewReplay(func, place.base, place.view, place)
