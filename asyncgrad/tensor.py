"""Tensor: an array with a place in a graph; its state and NumPy's protocols, no mathematics."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, final

import numpy as np

from .arguments import describe, truth
from .backward import backward
from .engine.device import Device, device, device_of_new
from .errors import (
    ArgumentError,
    ArgumentTypeError,
    GradientTypeError,
    InPlaceError,
    InvalidGradientError,
    RequiresGradError,
)
from .graph.naming import calling_function
from .graph.saved import version_of
from .graph.tensor_base import TensorBase, ViewMeta
from .graph.values import (
    is_number_dtype,
    on_device,
    raw,
    refuse_masked,
    refuse_masked_within,
    refuse_sparse,
    register_tensor,
)
from .ops import call_function, call_ufunc
from .ops.casting import moved
from .tensor_hooks import ObservedTensor
from .views.history import regenerate

if TYPE_CHECKING:
    from collections.abc import Callable

    from .graph.node import Node

__all__ = ["Tensor", "asarray", "tensor"]

_CPU = device("cpu")


@final
class Tensor(ObservedTensor):
    """A NumPy array that remembers how it was computed, so that gradients can flow back through it.

    NumPy's functions, operators and methods work on it with NumPy's meaning, dtypes and broadcasting. Made by
    `ag.tensor` and `ag.asarray`, and by every operation on tensors; not by calling this class.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> x = ag.tensor([0.0, 1.0], requires_grad=True)
        >>> np.exp(x).sum().requires_grad
        True
    """

    __slots__ = ()

    # State.

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to this tensor: it is a leaf that asks for them, or was computed from one."""
        return self._requires_grad()

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Make this leaf require grad, or not; return it.

        Raises:
            RequiresGradError: its dtype is not floating or complex, or it is no leaf and is to stop.
            ArgumentTypeError: `requires_grad` is no truth value.
        """
        if requires_grad is not True:
            requires_grad = truth(requires_grad, "requires_grad")
        if requires_grad and self._data.dtype.kind not in "fc":
            raise RequiresGradError(
                f"only floating and complex tensors can require grad, and this one has dtype {self._data.dtype}: "
                "convert it first, for example t.astype(float)"
            )
        node = self._history()
        if node is not None:
            if not requires_grad:
                raise RequiresGradError(
                    f"this tensor was computed by {node.name} and cannot stop requiring grad: use t.detach()"
                )
        elif requires_grad or self._meta is not None:
            self._autograd_meta().requires_grad = requires_grad
        return self

    @property
    def grad(self) -> Tensor | None:
        """The gradient that backward passes have accumulated here; None before the first."""
        return None if self._meta is None else self._meta.grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise GradientTypeError(
                    f"grad must be a Tensor or None, not {describe(value)}: write t.grad = ag.asarray(value)"
                )
            if value is self:
                raise InvalidGradientError("a tensor cannot be its own gradient: write t.grad = t.detach().copy()")
            if value.shape != self.shape or value.dtype != self.dtype:
                raise InvalidGradientError(
                    f"a gradient of shape {value.shape} and dtype {value.dtype} does not fit a tensor of "
                    f"shape {self.shape} and dtype {self.dtype}: use .reshape() or .astype() on it first"
                )
            if value._device is not self._device:
                raise InvalidGradientError(
                    f"a gradient on '{value._device}' does not fit a tensor on '{self._device}': "
                    f"write t.grad = value.to('{self._device}')"
                )
        self._autograd_meta().grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    @property
    def grad_fn(self) -> Node | None:
        """The node that turns this tensor's gradient into those of what it was computed from; None on a leaf.

        That of a view is made anew where the memory of its base was written into since.

        Raises:
            InPlaceError: it was written into, and the view was made where its history cannot be made anew.
        """
        node: Node | None = self._history()
        return node

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made this tensor."""
        return self._history() is None

    @property
    def output_nr(self) -> int:
        """Which output of its `grad_fn` this tensor is."""
        self._history()
        return self._output_nr

    def _regenerate(self, view: ViewMeta) -> None:
        regenerate(self, view)

    @property
    def device(self) -> Device:
        """Where the array lives."""
        return self._device  # type: ignore[no-any-return]

    @property
    def is_view(self) -> bool:
        """Whether a view operation made this tensor, so that it shares the memory of the one it was called on."""
        return self._view is not None

    @property
    def _base(self) -> Tensor | None:
        """The tensor that the first of a row of views was made of, never a view itself; None where this is no view."""
        view = self._view_meta()
        return None if view is None else view.base  # type: ignore[return-value]

    @property
    def _version(self) -> int:
        """How many in-place writes this tensor's memory has seen, through it, its base or any view."""
        return version_of(self)

    def to(self, target: str | Device) -> Tensor:
        """Return a copy of this tensor on a device; the tensor itself where it is there already.

        Recorded as CopyBackwards, which brings the gradient back. Tensors computed from the copy live there too, and
        so do their gradients: where the device has a worker, that computes them.

        Args:
            target: a device or the name of one.

        Raises:
            DeviceError: there is no such device.

        Example:
            >>> import asyncgrad as ag
            >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
            >>> y = x.to("thread:0")
            >>> y.device.name, y.grad_fn.name, x.to("cpu") is x
            ('thread:0', 'CopyBackwards', True)
        """
        place, home = device(target), self._device
        if place is home:
            return self
        copied: Tensor = moved(self, place.from_host(home.to_host(self._data)), place)
        if copied._grad_fn is not None:
            copied._grad_fn.leads_to(home)
        return copied

    def detach(self) -> Tensor:
        """Return a tensor on the same memory, without history, that does not require grad."""
        detached = Tensor(self._data, None, 0, self._device)
        detached._counter = self._shared_version()
        return detached

    def detach_(self) -> Tensor:
        """Take this tensor out of its graph: it becomes a leaf that does not require grad.

        Views that were made of it stay in the graph.

        Raises:
            InPlaceError: it is a view, whose history is that of its base.
        """
        if self._view is not None:
            raise InPlaceError(
                f"a view, of shape {self.shape} here, cannot be taken out of the graph of its base: write t.detach()"
            )
        node, meta = self._grad_fn, self._meta
        if meta is not None:
            if node is not None:
                # Hooks stay with the node that made the tensor, and the gradient is no longer to be kept.
                node.make_meta().retains_grad_hooks.pop(self._output_nr, None)
                meta.hooks = None
            meta.requires_grad = meta.retains_grad = False
        self._grad_fn, self._output_nr = None, 0
        return self

    def numpy(self) -> np.ndarray:
        """Return a view of the data as an ndarray, without history.

        Both share their memory. A write through the ndarray changes the tensor, unseen by the graph, and counts in no
        `_version`: a gradient may then be wrong without an error.
        """
        view: np.ndarray = self._data.view()
        return view

    def item(self, *index: int) -> Any:
        """Return the one element as a Python number, without history; `float(t)` refuses where that would be lost."""
        return self._data.item(*index)

    # Gradients.

    async def backward(
        self,
        gradient: Any = None,
        *,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Add the gradients of this tensor with respect to the leaves of its graph to the leaves' `.grad`.

        Args:
            gradient: what to start from, of this tensor's shape; None (ones) where it has one element.
            retain_graph: as in `ag.backward`, like all the rest.
            create_graph: record the backward itself.
            inputs: accumulate into these tensors only.

        Example:
            >>> import asyncgrad as ag
            >>> async def main():
            ...     x = ag.tensor(3.0, requires_grad=True)
            ...     await (x * x).backward()
            ...     return x.grad.item()
            >>> ag.run(main())
            6.0
        """
        await backward(self, gradient, retain_graph=retain_graph, create_graph=create_graph, inputs=inputs)

    # NumPy's protocols.

    __array_priority__ = 1000.0

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        try:
            return call_ufunc(ufunc, method, inputs, kwargs)
        except Exception as error:
            refuse_sparse(ufunc.__name__, inputs, error)
            raise

    def __array_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if len(types) > 1:
            for argument in (*args, *kwargs.values()):
                _refuse_masked(argument)
        try:
            return call_function(function, args, kwargs)
        except Exception as error:
            refuse_sparse(function.__name__, args, error)
            raise

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if self._requires_grad():
            self._needs_no_grad("an ndarray", "t.numpy()", "np.stack to join tensors", calling_function())
        if copy is None:
            return np.asarray(self._data, dtype)
        return np.array(self._data, dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        self._needs_no_grad("an array of another library", "t.numpy()")
        return self._data.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._data.__dlpack_device__()

    # Copies.

    def __reduce__(self) -> tuple[Any, ...]:
        self._needs_no_history("pickled")
        return _leaf, (self._data, self._requires_grad(), self._device)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        self._needs_no_history("deep-copied")
        copied = _leaf(self._data.copy(order="K"), self._requires_grad(), self._device)
        copied.grad = copy.deepcopy(self.grad, memo)
        return copied

    def __copy__(self) -> Tensor:
        if self._history() is not None:
            return self.copy()
        return _leaf(self._data.copy(order="K"), self._requires_grad(), self._device)

    def _needs_no_history(self, done: str) -> None:
        node = self._history()
        if node is not None:
            raise RequiresGradError(
                f"only a leaf can be {done}, and this tensor of shape {self.shape} was computed by "
                f"{node.name}: use t.detach()"
            )

    def __repr__(self) -> str:
        data = self._data
        parts = [np.array2string(data, separator=", ", prefix="tensor(")]
        if data.size > np.get_printoptions()["threshold"] or (data.size == 0 and data.ndim > 1):
            parts.append(f"shape={data.shape}")
        parts += [f"dtype={data.dtype}", f"device='{self._device}'"]
        try:
            node = self._history()
        except InPlaceError:
            parts.append("grad_fn=<invalid>")
        else:
            if node is not None:
                parts.append(f"grad_fn={node!r}")
            elif self._requires_grad():
                parts.append("requires_grad=True")
        return f"tensor({', '.join(parts)})"

    def __hash__(self) -> int:
        return id(self)


register_tensor(Tensor, _CPU)


def _leaf(data: np.ndarray, requires_grad: bool, place: Device) -> Tensor:
    leaf = Tensor(data, None, 0, place)
    return leaf.requires_grad_() if requires_grad else leaf


def _new_leaf(array: np.ndarray, data: Any, place: str | Device | None, requires_grad: bool) -> Tensor:
    """Return a leaf on `array`, which was made of what the user gave as `data`."""
    if not is_number_dtype(array.dtype):
        raise ArgumentTypeError(
            f"a tensor holds numbers, and {describe(data)} gives an array of dtype {array.dtype}: "
            "pass numbers, arrays of numbers, or nested sequences of them of equal lengths"
        )
    if requires_grad is not False and requires_grad is not True:
        requires_grad = truth(requires_grad, "requires_grad")
    where = data._device if place is None and isinstance(data, TensorBase) else device_of_new(place)
    return _leaf(on_device(array, where), requires_grad, where)


def _array_of(data: Any, dtype: Any, copy: bool | None) -> np.ndarray:
    """Return what a user gave as the contents of a tensor as an array of NumPy's.

    Raises:
        ArgumentError: rows are of different lengths; says where.
    """
    data = data._device.to_host(data._data) if isinstance(data, TensorBase) else data
    _refuse_masked(data)
    try:
        return np.array(data, dtype, copy=copy)
    except ValueError as error:
        uneven = _uneven(data, "data") if isinstance(data, (list, tuple)) else None
        if uneven is None:
            raise
        raise ArgumentError(
            f"the sequences in data are ragged: {uneven}. The elements of a tensor fill a box, so pad the shorter "
            "ones, or make a tensor of each"
        ) from error


def _refuse_masked(value: Any) -> None:
    """Raise if this is a masked array, or a sequence that holds one."""
    if isinstance(value, (list, tuple)):
        refuse_masked_within(value)
    else:
        refuse_masked(value)


def _uneven(data: Any, name: str) -> str | None:
    """Say where nested sequences first differ in length, or one stands beside what is none; None if nowhere."""
    shape = _shape_of(data[0]) if len(data) else None
    for index, entry in enumerate(data):
        inner = _uneven(entry, f"{name}[{index}]") if isinstance(entry, (list, tuple)) else None
        if inner is not None:
            return inner
        if _shape_of(entry) != shape:
            return f"{name}[0] is {_described(shape)}, and {name}[{index}] is {_described(_shape_of(entry))}"
    return None


def _shape_of(entry: Any) -> tuple[int, ...]:
    """Return the shape of what is no ragged sequence."""
    if isinstance(entry, (list, tuple)):
        return (len(entry), *(_shape_of(entry[0]) if entry else ()))
    return tuple(np.shape(raw(entry)))


def _described(shape: tuple[int, ...] | None) -> str:
    return f"of shape {shape}" if shape else "no sequence"


def tensor(data: Any, *, dtype: Any = None, device: str | Device | None = None, requires_grad: bool = False) -> Tensor:
    """Return a new tensor on a copy of `data`, a leaf without history.

    Args:
        data: an array, a tensor, a number or nested sequences of them. A tensor that requires grad inside of a
            sequence raises, since its gradient would be lost: `np.stack` joins tensors and keeps it.
        dtype: NumPy's; None keeps that of `data`.
        device: where it lives; None is the device of `data` where that is a tensor, else the default device.
        requires_grad: whether gradients flow to it. Only floating and complex tensors can.

    Example:
        >>> import asyncgrad as ag
        >>> ag.tensor([[1, 2], [3, 4]]).shape
        (2, 2)
    """
    array = np.array(data, dtype) if data.__class__ is np.ndarray else _array_of(data, dtype, copy=True)
    return _new_leaf(array, data, device, requires_grad)


def asarray(data: Any, *, dtype: Any = None, device: str | Device | None = None, requires_grad: bool = False) -> Tensor:
    """Return a tensor that shares memory with `data` where it can; a tensor as it is, history included.

    Writes into the shared memory from outside cannot be seen by the graph.

    Args:
        data: as for `tensor`.
        dtype: NumPy's; another dtype than that of `data` makes a copy.
        device: where it lives, as for `tensor`.
        requires_grad: whether gradients flow to it. A tensor that does not require grad is not made to: the result
            is then another tensor on its memory.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> data = np.zeros(3)
        >>> ag.asarray(data).numpy().base is data
        True
    """
    if isinstance(data, Tensor):
        converted = data if dtype is None or data.dtype == np.dtype(dtype) else data.astype(dtype)
        placed = converted if device is None else converted.to(device)
        wants_grad = truth(requires_grad, "requires_grad") and not placed.requires_grad
        return placed.detach().requires_grad_() if wants_grad else placed
    array = np.asarray(data, dtype) if data.__class__ is np.ndarray else _array_of(data, dtype, copy=None)
    return _new_leaf(array, data, device, requires_grad)
