"""Tensor: an array with a place in a graph. State, gradients, and NumPy's interface; the mathematics is in ops/."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from inspect import Signature, signature
from types import CoroutineType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Never, SupportsIndex, final

import numpy as np

from ..errors import (
    ArgumentError,
    ArgumentTypeError,
    DeviceError,
    GradientTypeError,
    InPlaceError,
    InvalidGradientError,
    RequiresGradError,
)
from .array_operators import (
    check_operands,
    compare_unlike,
    defer_or_raise,
    make_operator,
    make_reflected_operator,
    matmul_in_place,
)
from .arrays.interception import add_entry_methods, add_entry_names
from .arrays.tensor_base import AutogradMeta, TensorBase, ViewMeta
from .arrays.typed import LikeFirst
from .arrays.values import (
    computes_ufuncs,
    is_device_array,
    is_number_dtype,
    moved_array,
    on_device,
    raw,
    refuse_sparse,
    register_tensor,
)
from .conversions import array_advice, is_asked_by_sparse_operator, is_plain_conversion, number_advice
from .einops_backend import register_imported_einops
from .engine.device import Device, device, device_of_array, device_of_new, moved_to
from .graph.html import facts, panel, pre
from .graph.naming import identify
from .graph.saved import version_of
from .ops.arithmetic import (
    add,
    conjugate,
    divide,
    imag,
    multiply,
    negative,
    positive,
    power,
    real,
    remainder,
    subtract,
)
from .ops.assigning import put, setitem
from .ops.casting import cast, moved
from .ops.diagonals import diagonal, trace
from .ops.dispatch import call_function, call_ufunc, write_by
from .ops.extremes import absolute, clip
from .ops.in_place import in_place, written_by
from .ops.indexing import choose, getitem, partition, sort
from .ops.linear_algebra import dot, matmul
from .ops.reductions import max, mean, min, prod, std, sum, var
from .ops.shaping import copy, matrix_transpose, ravel, reshape, squeeze, swapaxes, transpose
from .ops.splitting import unstacked
from .ops.windows import as_strided
from .recording.primitive import RULES
from .settings.arguments import describe, must_be, truth
from .settings.awaiting import NEVER_AWAITED
from .settings.called_with import refuse_unbiased, refuse_words_of_torch, with_words_of_torch
from .settings.callers import shorten_traceback
from .settings.context import DEFAULT_DEVICE, GRAD_MODE, IN_TRANSFORM
from .settings.elsewhere import TENSOR_ATTRIBUTES, hint_at
from .settings.lazy import import_deferred
from .settings.unawaited import refuse_unawaited
from .tensor_data import array_of_data, refuse_masked_data
from .variable import Variable
from .views.history import regenerate

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from types import ModuleType

    import numpy.typing as npt

    from .arrays.array import BareArray, Flags
    from .arrays.array_like import Index, TensorLike

    #: One axis, several, or None for all.
    Axis = SupportsIndex | Sequence[SupportsIndex] | None

    Operator = Callable[["Tensor", TensorLike], "Tensor"]

__all__ = ["Tensor", "asarray", "leaf_on", "tensor"]

_equal: LikeFirst[...] = RULES[np.equal]
_not_equal: LikeFirst[...] = RULES[np.not_equal]
_divmod: Callable[[Any, Any], tuple[Tensor, Tensor]] = RULES[np.divmod]
_invert: LikeFirst[...] = RULES[np.invert]

_CPU = device("cpu")

#: The versions of the array API standard that `asyncgrad.numpy` follows; None is the newest.
_API_VERSIONS = (None, "2021.12", "2022.12", "2023.12", "2024.12")


@final
class Tensor(Variable):
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

    _data: BareArray
    _device: Device

    # State.

    def _describe(self) -> str:
        return f"this tensor of shape {self.shape}"

    @property
    def grad(self) -> Tensor | None:
        """The gradient that backward passes have accumulated here; None before the first."""
        return None if self._meta is None else self._meta.grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise GradientTypeError(must_be("grad", "a Tensor or None", value, "write t.grad = ag.asarray(value)"))
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
        elif self._meta is None:
            return
        self._autograd_meta().grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    def _regenerate(self, view: ViewMeta) -> None:
        regenerate(self, view)

    @property
    def is_view(self) -> bool:
        """Whether a view operation made this tensor, so that it shares the memory of the one it was called on."""
        return self._view is not None

    @property
    def _base(self) -> Tensor | None:
        """The tensor at the root of a chain of views, never a view itself; None where this is not a view."""
        view = self._view_meta()
        return None if view is None else view.base  # type: ignore[return-value]

    @property
    def _version(self) -> int:
        """How many in-place writes this tensor's memory has seen, through it, its base or any view."""
        return version_of(self)

    def to(self, target: str | Device, *, non_blocking: bool = False) -> Tensor:
        """Return a copy of this tensor on a device; the tensor itself where it is there already.

        Recorded as CopyBackwards, which brings the gradient back. Tensors computed from the copy live there too, and
        so do their gradients: where the device has a worker, that computes them. The copy has the dtype of the tensor
        and its order in memory.

        Args:
            target: a device or the name of one.
            non_blocking: do not wait for a device whose work goes on after a call. Until the work that is now on its
                current stream has ended, do not write into this tensor, and do not read a copy on the host: write
                `await device.synchronize()` first. Other devices, and those that copy at once, do as without it.

        Raises:
            DeviceError: there is no such device.
            ArgumentTypeError: `non_blocking` is no truth value.

        Example:
            >>> import asyncgrad as ag
            >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
            >>> y = x.to("thread:0")
            >>> y.device.name, y.grad_fn.name, x.to("cpu") is x
            ('thread:0', 'CopyBackwards', True)
        """
        try:
            place, home = device(target), self._device
        except DeviceError as error:
            raise _astype_instead(target, error) from None
        if place is home:
            return self
        array = _moved_async if truth(non_blocking, "non_blocking") else moved_array
        copied: Tensor = moved(self, array(self._data, home, place), place)
        if copied._grad_fn is not None:
            copied._grad_fn.set_source_device(home)
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

        Raises:
            ArgumentTypeError: the tensor is on a device whose arrays are not NumPy's.
        """
        data: Any = self._data
        if data.__class__ is not _ndarray and is_device_array(data):
            raise self._not_on_host("t.numpy()", "t.to('cpu').numpy()")
        view: np.ndarray = data.view()
        return view

    def _not_on_host(self, what: str, instead: str) -> ArgumentTypeError:
        return ArgumentTypeError(
            f"{what} needs an array of NumPy's, and this tensor of shape {self._data.shape} is on '{self._device}', "
            f"whose arrays are {type(self._data).__module__}.{type(self._data).__name__}: write {instead}"
        )

    def item(self, *index: int) -> Any:
        """Return the one element as a Python number, without history.

        `float(t)` does the same, except in a function that a transform differentiates, where it raises.
        """
        data: Any = self._data
        if index and data.__class__ is not _ndarray and is_device_array(data):
            # The method of another library may take no index.
            place = index[0] if len(index) == 1 else index
            data, index = data[place] if isinstance(place, tuple) else data.reshape(-1)[place], ()
        try:
            return data.item(*index)
        except ValueError as error:
            if index:
                raise
            raise ArgumentError(
                f"t.item() returns one element, and this tensor has shape {data.shape}: write t.item(index), or "
                "t.tolist() for all"
            ) from error

    # NumPy's protocols.

    __array_priority__: float = 1000.0

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object) -> object:
        try:
            return call_ufunc(ufunc, method, inputs, kwargs)
        except Exception as error:
            # Only now: to ask each input first would slow every operation.
            if isinstance(error, TypeError) and any(map(computes_ufuncs, inputs)):
                return NotImplemented
            shorten_traceback(error)
            refuse_sparse(ufunc.__name__, inputs, error)
            raise

    def __array_function__(
        self, function: Callable[..., Any], types: Collection[type], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> object:
        if len(types) > 1:
            for argument in (*args, *kwargs.values()):
                refuse_masked_data(argument)
        try:
            return call_function(function, args, kwargs)
        except Exception as error:
            shorten_traceback(error)
            refuse_sparse(function.__name__, args, error)
            raise

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        if is_asked_by_sparse_operator():
            one = np.empty((), object)
            one[()] = self
            return one
        # Whole numbers and truth values have no derivative: no history is lost with them.
        if self._requires_grad() and (dtype is None or np.dtype(dtype).kind not in "biu"):
            self._needs_no_grad("an ndarray", "t.numpy()", *array_advice(self, RULES.__contains__))
        data: Any = self._data
        if data.__class__ is not _ndarray and is_device_array(data):
            raise self._not_on_host("converting to an ndarray", "t.to('cpu').numpy()")
        if copy is None:
            return np.asarray(self._data, dtype)
        return np.array(self._data, dtype, copy=copy)

    def __array_namespace__(self, /, *, api_version: str | None = None) -> ModuleType:
        """Return `asyncgrad.numpy`, whose functions the Python array API standard names.

        Raises:
            ArgumentError: there is no such version of the standard, or the package does not follow it.
        """
        if api_version not in _API_VERSIONS:
            raise ArgumentError(
                f"asyncgrad.numpy follows the array API standard {_API_VERSIONS[-1]}, and not {api_version!r}: write "
                "t.__array_namespace__()"
            )
        namespace: ModuleType = import_deferred("numpy")
        return namespace

    def to_device(self, device: str | Device, /, *, stream: object = None) -> Tensor:
        """Return the copy of this tensor that `t.to(device)` returns; the array API standard's name for it.

        Raises:
            ArgumentError: `stream` is not None: the copy is made on the device's current stream.
        """
        if stream is not None:
            raise ArgumentError(
                f"to_device copies on the current stream, and takes no stream, but got {describe(stream)}: write "
                "with device.stream(s): t.to(device)"
            )
        return self.to(device)

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[SupportsIndex, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        self._needs_no_grad("an array of another library", "t.numpy()")
        return self._data.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._data.__dlpack_device__()

    # About the array.

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        return self._data.shape

    @property
    def dtype(self) -> np.dtype:
        """NumPy's dtype of the elements."""
        return self._data.dtype

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return self._data.ndim

    @property
    def size(self) -> int:
        """How many elements there are."""
        return self._data.size

    @property
    def itemsize(self) -> int:
        """Bytes that one element takes."""
        return self._data.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes that all elements take together."""
        return self._data.nbytes

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next, along each axis."""
        return self._data.strides

    @property
    def flags(self) -> Flags:
        """How the elements lie in memory, and whether they can be written to."""
        return self._data.flags

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python numbers, without history."""
        return self._data.tolist()

    # The same elements otherwise.

    @property
    def T(self) -> Tensor:
        """A view with the axes in reverse order."""
        return transpose(self)

    @property
    def mT(self) -> Tensor:
        """A view with the last two axes swapped."""
        return matrix_transpose(self)

    @property
    def real(self) -> Tensor:
        """The real part, a view."""
        return real(self)

    @real.setter
    def real(self, value: TensorLike) -> None:
        real(self)[...] = value

    @property
    def imag(self) -> Tensor:
        """The imaginary part, a view; zeros for a real dtype, which cannot be written."""
        return imag(self)

    @imag.setter
    def imag(self, value: TensorLike) -> None:
        if self._data.dtype.kind != "c":
            raise ArgumentTypeError(
                f"a tensor of dtype {self._data.dtype} has no imaginary part to write into: make it complex first, "
                "t = t.astype(complex)"
            )
        imag(self)[...] = value

    def reshape(
        self, *shape: SupportsIndex | Sequence[SupportsIndex], order: str = "C", copy: bool | None = None
    ) -> Tensor:
        """Return the elements in another shape, given as one tuple or as several numbers."""
        if not shape:
            raise ArgumentTypeError("reshape needs a shape: t.reshape(()) is the one of an array without axes")
        return reshape(self, shape[0] if len(shape) == 1 else shape, order, copy=copy)

    def ravel(self, order: str = "C") -> Tensor:
        """Return the elements in one row; a view where that can be."""
        return ravel(self, order)

    def flatten(self, order: str = "C") -> Tensor:
        """Return a copy of the elements in one row."""
        flat = ravel(self, order)
        return flat if flat._view is None else copy(flat)

    def transpose(self, *axes: SupportsIndex | Sequence[SupportsIndex] | None) -> Tensor:
        """Return a view with the axes in another order, given as one tuple or as several numbers."""
        given: Any = axes[0] if len(axes) == 1 else axes or None
        # An array of axes has an `__index__` too.
        return transpose(self, raw(given) if np.ndim(given) or given is None else axes)

    def swapaxes(self, axis1: int, axis2: int) -> Tensor:
        """Return a view with two axes swapped."""
        return swapaxes(self, axis1, axis2)

    @with_words_of_torch
    def squeeze(
        self,
        axis: Axis = None,
        dim: None = None,
    ) -> Tensor:
        """Return a view without the axes of length 1, or without those named."""
        if dim is not None:
            refuse_words_of_torch("x.squeeze(", dim)
        return squeeze(self, axis)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
        """Return a read-only view of the diagonals of the matrices that two axes make."""
        return diagonal(self, offset, axis1, axis2)

    def as_strided(self, shape: Sequence[int], strides: Sequence[int]) -> Tensor:
        """Return a view that begins where this tensor does, with a shape, and with strides in bytes.

        What np.lib.stride_tricks.as_strided is for an ndarray; that cannot be called on a tensor that requires grad.
        It may not reach outside of this tensor's memory. Writes into elements that share memory are refused.
        """
        return as_strided(self, shape, strides)

    def repeat(self, repeats: npt.ArrayLike, axis: int | None = None) -> Tensor:
        """Return each element along an axis several times."""
        return call_function(np.repeat, (self, repeats, axis), {})

    def astype(
        self,
        dtype: npt.DTypeLike | None,
        order: str = "K",
        casting: str = "unsafe",
        subok: bool = True,
        copy: bool = True,
    ) -> Tensor:
        """Return the elements in another dtype; the gradient comes back in this one."""
        return cast(self, dtype, order, casting, copy)

    def copy(self, order: str = "C") -> Tensor:
        """Return a copy, through which gradients flow."""
        return copy(self, order)

    def clone(self) -> Tensor:
        """Return a copy laid out in memory as this tensor is, through which gradients flow."""
        return copy(self)

    # Parts.

    def take(
        self,
        indices: npt.ArrayLike,
        axis: int | None = None,
        out: Tensor | np.ndarray | None = None,
        mode: str = "raise",
    ) -> Tensor:
        """Return the elements at indices along an axis; None counts them in one row."""
        return call_function(np.take, (self, indices, axis, out, mode), {})

    def compress(
        self, condition: npt.ArrayLike, axis: int | None = None, out: Tensor | np.ndarray | None = None
    ) -> Tensor:
        """Return the elements along an axis where a row of conditions holds."""
        given: Any = (condition, self, axis, out)
        found: Tensor = call_function(np.compress, given, {})
        return found

    def choose(
        self,
        choices: TensorLike | Sequence[TensorLike],
        out: Tensor | np.ndarray | None = None,
        mode: Literal["raise", "wrap", "clip"] = "raise",
    ) -> Tensor:
        """Return, for each element, the entry of the choice that it indexes."""
        chosen: Tensor = choose(self, choices, out, mode)
        return chosen

    def nonzero(self) -> tuple[Tensor, ...]:
        """Return the indices of the elements that are not 0, one array for each axis."""
        return call_function(np.nonzero, (self,), {})  # type: ignore[arg-type]

    def searchsorted(self, v: npt.ArrayLike, side: str = "left", sorter: npt.ArrayLike | None = None) -> Tensor:
        """Return where to insert values into these sorted elements to keep them sorted."""
        return call_function(np.searchsorted, (self, v, side, sorter), {})

    def argsort(
        self,
        axis: int | None = -1,
        kind: str | None = None,
        order: str | Sequence[str] | None = None,
        *,
        stable: bool | None = None,
    ) -> Tensor:
        """Return the indices that would sort the elements along an axis."""
        return call_function(np.argsort, (self, axis, kind, order), {"stable": stable})

    def argpartition(
        self,
        kth: SupportsIndex | Sequence[SupportsIndex],
        axis: int | None = -1,
        kind: str = "introselect",
        order: str | Sequence[str] | None = None,
    ) -> Tensor:
        """Return the indices that would partition the elements along an axis."""
        return call_function(np.argpartition, (self, kth, axis, kind, order), {})

    # In place.

    def fill(self, value: TensorLike) -> None:
        """Set all elements to one value."""
        self[...] = value

    def sort(
        self,
        axis: int = -1,
        kind: str | None = None,
        order: str | Sequence[str] | None = None,
        *,
        stable: bool | None = None,
    ) -> None:
        """Sort the elements along an axis, in place; np.sort gives a sorted copy."""
        write_by(self, sort, (self, axis, kind, order), stable=stable)

    def partition(
        self,
        kth: SupportsIndex | Sequence[SupportsIndex],
        axis: int = -1,
        kind: str = "introselect",
        order: str | Sequence[str] | None = None,
    ) -> None:
        """Partition the elements along an axis, in place; np.partition gives a copy."""
        write_by(self, partition, (self, kth, axis, kind, order))

    def put(self, indices: npt.ArrayLike, values: npt.ArrayLike, mode: str = "raise") -> None:
        """Write values, repeated where they are too few, at indices into the elements taken as one row, in place."""
        put(self, indices, values, mode)

    # Reductions.

    @with_words_of_torch
    def sum(
        self,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: Tensor | np.ndarray | None = None,
        keepdims: bool = False,
        initial: npt.ArrayLike = 0,
        where: npt.ArrayLike = True,
        dim: None = None,
        keepdim: None = None,
    ) -> Tensor:
        """Return the sum over axes; None takes all."""
        if dim is not None or keepdim is not None:
            refuse_words_of_torch("x.sum(", dim, keepdim)
        return sum(self, axis, dtype, out, keepdims, initial, where)

    @with_words_of_torch
    def mean(
        self,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: Tensor | np.ndarray | None = None,
        keepdims: bool = False,
        dim: None = None,
        keepdim: None = None,
        *,
        where: npt.ArrayLike = True,
    ) -> Tensor:
        """Return the mean over axes; None takes all."""
        if dim is not None or keepdim is not None:
            refuse_words_of_torch("x.mean(", dim, keepdim)
        return mean(self, axis, dtype, out, keepdims, where=where)

    @with_words_of_torch
    def prod(
        self,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: Tensor | np.ndarray | None = None,
        keepdims: bool = False,
        initial: npt.ArrayLike = 1,
        where: npt.ArrayLike = True,
        dim: None = None,
        keepdim: None = None,
    ) -> Tensor:
        """Return the product over axes; None takes all."""
        if dim is not None or keepdim is not None:
            refuse_words_of_torch("x.prod(", dim, keepdim)
        return prod(self, axis, dtype, out, keepdims, initial, where)

    @with_words_of_torch
    def var(
        self,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: Tensor | np.ndarray | None = None,
        ddof: float = 0,
        keepdims: bool = False,
        dim: None = None,
        keepdim: None = None,
        **more: TensorLike,
    ) -> Tensor:
        """Return the variance over axes; `where`, `mean` and `correction` are NumPy's too."""
        if dim is not None or keepdim is not None:
            refuse_words_of_torch("x.var(", dim, keepdim)
        if more and "unbiased" in more:
            refuse_unbiased("x.var(", more["unbiased"])
        return var(self, axis, dtype, out, ddof, keepdims, **more)

    @with_words_of_torch
    def std(
        self,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: Tensor | np.ndarray | None = None,
        ddof: float = 0,
        keepdims: bool = False,
        dim: None = None,
        keepdim: None = None,
        **more: TensorLike,
    ) -> Tensor:
        """Return the standard deviation over axes; `where`, `mean` and `correction` are NumPy's too."""
        if dim is not None or keepdim is not None:
            refuse_words_of_torch("x.std(", dim, keepdim)
        if more and "unbiased" in more:
            refuse_unbiased("x.std(", more["unbiased"])
        return std(self, axis, dtype, out, ddof, keepdims, **more)

    @with_words_of_torch
    def max(
        self,
        axis: Axis = None,
        out: Tensor | np.ndarray | None = None,
        keepdims: bool = False,
        initial: npt.ArrayLike | None = None,
        where: npt.ArrayLike = True,
        dim: None = None,
        keepdim: None = None,
    ) -> Tensor:
        """Return the largest element along axes; equal ones share the gradient evenly."""
        if dim is not None or keepdim is not None:
            refuse_words_of_torch("x.max(", dim, keepdim)
        return max(self, axis, out, keepdims, initial, where)

    @with_words_of_torch
    def min(
        self,
        axis: Axis = None,
        out: Tensor | np.ndarray | None = None,
        keepdims: bool = False,
        initial: npt.ArrayLike | None = None,
        where: npt.ArrayLike = True,
        dim: None = None,
        keepdim: None = None,
    ) -> Tensor:
        """Return the smallest element along axes; equal ones share the gradient evenly."""
        if dim is not None or keepdim is not None:
            refuse_words_of_torch("x.min(", dim, keepdim)
        return min(self, axis, out, keepdims, initial, where)

    @with_words_of_torch
    def argmax(
        self,
        axis: int | None = None,
        out: Tensor | np.ndarray | None = None,
        dim: None = None,
        keepdim: None = None,
        *,
        keepdims: bool = False,
    ) -> Tensor:
        """Return the index of the largest element along an axis."""
        if dim is not None or keepdim is not None:
            refuse_words_of_torch("x.argmax(", dim, keepdim)
        return call_function(np.argmax, (self, axis), {"out": out, "keepdims": keepdims})

    @with_words_of_torch
    def argmin(
        self,
        axis: int | None = None,
        out: Tensor | np.ndarray | None = None,
        dim: None = None,
        keepdim: None = None,
        *,
        keepdims: bool = False,
    ) -> Tensor:
        """Return the index of the smallest element along an axis."""
        if dim is not None or keepdim is not None:
            refuse_words_of_torch("x.argmin(", dim, keepdim)
        return call_function(np.argmin, (self, axis), {"out": out, "keepdims": keepdims})

    @with_words_of_torch
    def any(
        self,
        axis: Axis = None,
        out: Tensor | np.ndarray | None = None,
        keepdims: bool = False,
        dim: None = None,
        keepdim: None = None,
        *,
        where: npt.ArrayLike = True,
    ) -> Tensor:
        """Return whether one element at least is not 0."""
        if dim is not None or keepdim is not None:
            refuse_words_of_torch("x.any(", dim, keepdim)
        options = _given(out=out, keepdims=keepdims, where=None if where is True else where)
        return call_function(np.any, (self, axis), options)

    @with_words_of_torch
    def all(
        self,
        axis: Axis = None,
        out: Tensor | np.ndarray | None = None,
        keepdims: bool = False,
        dim: None = None,
        keepdim: None = None,
        *,
        where: npt.ArrayLike = True,
    ) -> Tensor:
        """Return whether no element is 0."""
        if dim is not None or keepdim is not None:
            refuse_words_of_torch("x.all(", dim, keepdim)
        options = _given(out=out, keepdims=keepdims, where=None if where is True else where)
        return call_function(np.all, (self, axis), options)

    @with_words_of_torch
    def cumsum(
        self,
        axis: int | None = None,
        dtype: npt.DTypeLike | None = None,
        out: Tensor | np.ndarray | None = None,
        dim: None = None,
    ) -> Tensor:
        """Return the running sum along an axis."""
        if dim is not None:
            refuse_words_of_torch("x.cumsum(", dim)
        return call_function(np.cumsum, (self, axis, dtype, out), {})

    @with_words_of_torch
    def cumprod(
        self,
        axis: int | None = None,
        dtype: npt.DTypeLike | None = None,
        out: Tensor | np.ndarray | None = None,
        dim: None = None,
    ) -> Tensor:
        """Return the running product along an axis."""
        if dim is not None:
            refuse_words_of_torch("x.cumprod(", dim)
        return call_function(np.cumprod, (self, axis, dtype, out), {})

    def trace(
        self,
        offset: int = 0,
        axis1: int = 0,
        axis2: int = 1,
        dtype: npt.DTypeLike | None = None,
        out: Tensor | np.ndarray | None = None,
    ) -> Tensor:
        """Return the sums of the diagonals."""
        return trace(self, offset, axis1, axis2, dtype, out)

    # Elementwise, and products.

    def clip(
        self,
        min: npt.ArrayLike | None = None,
        max: npt.ArrayLike | None = None,
        out: Tensor | np.ndarray | None = None,
        **kwargs: Any,
    ) -> Tensor:
        """Return the elements kept between two bounds."""
        clipped: Tensor = clip(self, min, max, out, **kwargs)
        return clipped

    def round(self, decimals: int = 0, out: Tensor | np.ndarray | None = None) -> Tensor:
        """Return the elements rounded; no gradient flows."""
        return call_function(np.round, (self, decimals), {"out": out})

    def conj(self, out: Tensor | np.ndarray | None = None, /) -> Tensor:
        """Return the complex conjugates, as `conjugate` does."""
        return self.conjugate(out)

    def conjugate(self, out: Tensor | np.ndarray | None = None, /) -> Tensor:
        """Return the complex conjugates, written into `out` if it is given; of real numbers the tensor itself."""
        if out is not None:
            conjugated: Tensor = call_ufunc(np.conjugate, "__call__", (self,), {"out": (out,)})
            return conjugated
        return conjugate(self) if self._data.dtype.kind == "c" else self

    def dot(self, b: npt.ArrayLike, out: Tensor | np.ndarray | None = None) -> Tensor:
        """Return the sum of products over the last axis and the last but one (or the only one) of `b`."""
        return dot(self, b, out)

    # Operators.

    # A helper builds each one, since they differ only in the function that they call; a call costs no more for it. The
    # most frequent ones are the wrappers of primitives themselves.

    __add__: ClassVar[Operator] = add.operator(defer_or_raise)
    __radd__: ClassVar[Operator] = make_reflected_operator(add.call)
    __iadd__: ClassVar[Operator] = in_place(add, operator.iadd)

    __sub__: ClassVar[Operator] = subtract.operator(defer_or_raise)
    __rsub__: ClassVar[Operator] = make_reflected_operator(subtract.call)
    __isub__: ClassVar[Operator] = in_place(subtract, operator.isub)

    __mul__: ClassVar[Operator] = multiply.operator(defer_or_raise)
    __rmul__: ClassVar[Operator] = make_reflected_operator(multiply.call)
    __imul__: ClassVar[Operator] = in_place(multiply, operator.imul)

    __truediv__: ClassVar[Operator] = divide.operator(defer_or_raise)
    __rtruediv__: ClassVar[Operator] = make_reflected_operator(divide.call)
    __itruediv__: ClassVar[Operator] = in_place(divide, operator.itruediv)

    __floordiv__: ClassVar[Operator] = make_operator(RULES[np.floor_divide])
    __rfloordiv__: ClassVar[Operator] = make_reflected_operator(RULES[np.floor_divide])
    __ifloordiv__: ClassVar[Operator] = written_by(RULES[np.floor_divide], operator.ifloordiv)

    __mod__: ClassVar[Operator] = make_operator(check_operands(remainder.call))
    __rmod__: ClassVar[Operator] = make_reflected_operator(remainder.call)
    __imod__: ClassVar[Operator] = in_place(remainder, operator.imod)

    __pow__: ClassVar[Operator] = make_operator(check_operands(power.call))
    __rpow__: ClassVar[Operator] = make_reflected_operator(check_operands(power.call))
    __ipow__: ClassVar[Operator] = written_by(check_operands(power.call), operator.ipow)

    __matmul__: ClassVar[Operator] = make_operator(check_operands(matmul, defers=False))
    __rmatmul__: ClassVar[Operator] = make_reflected_operator(check_operands(matmul, defers=False))
    __imatmul__: ClassVar[Operator] = written_by(check_operands(matmul_in_place), operator.imatmul)

    __and__: ClassVar[Operator] = make_operator(RULES[np.bitwise_and])
    __rand__: ClassVar[Operator] = make_reflected_operator(RULES[np.bitwise_and])
    __iand__: ClassVar[Operator] = written_by(RULES[np.bitwise_and], operator.iand)

    __or__: ClassVar[Operator] = make_operator(RULES[np.bitwise_or])
    __ror__: ClassVar[Operator] = make_reflected_operator(RULES[np.bitwise_or])
    __ior__: ClassVar[Operator] = written_by(RULES[np.bitwise_or], operator.ior)

    __xor__: ClassVar[Operator] = make_operator(RULES[np.bitwise_xor])
    __rxor__: ClassVar[Operator] = make_reflected_operator(RULES[np.bitwise_xor])
    __ixor__: ClassVar[Operator] = written_by(RULES[np.bitwise_xor], operator.ixor)

    __lshift__: ClassVar[Operator] = make_operator(RULES[np.left_shift])
    __rlshift__: ClassVar[Operator] = make_reflected_operator(RULES[np.left_shift])
    __ilshift__: ClassVar[Operator] = written_by(RULES[np.left_shift], operator.ilshift)

    __rshift__: ClassVar[Operator] = make_operator(RULES[np.right_shift])
    __rrshift__: ClassVar[Operator] = make_reflected_operator(RULES[np.right_shift])
    __irshift__: ClassVar[Operator] = written_by(RULES[np.right_shift], operator.irshift)

    __lt__: ClassVar[Operator] = make_operator(RULES[np.less])
    __le__: ClassVar[Operator] = make_operator(RULES[np.less_equal])
    __gt__: ClassVar[Operator] = make_operator(RULES[np.greater])
    __ge__: ClassVar[Operator] = make_operator(RULES[np.greater_equal])

    def __eq__(self, other: object) -> Tensor:  # type: ignore[override]
        if other.__class__ is CoroutineType:
            # NumPy would answer that no element is equal to it.
            refuse_unawaited("==", (other,))
        try:
            return _equal(self, other)
        except ValueError as error:
            return defer_or_raise(other, error, "equal", self)
        except TypeError as error:
            return compare_unlike(self, other, True, error)

    def __ne__(self, other: object) -> Tensor:  # type: ignore[override]
        if other.__class__ is CoroutineType:
            refuse_unawaited("!=", (other,))
        try:
            return _not_equal(self, other)
        except ValueError as error:
            return defer_or_raise(other, error, "not_equal", self)
        except TypeError as error:
            return compare_unlike(self, other, False, error)

    # Its elements can change, and == gives an array: sets and dicts tell tensors apart by identity.
    if TYPE_CHECKING:

        def __hash__(self) -> int: ...

    else:
        __hash__ = object.__hash__

    def __divmod__(self, other: TensorLike) -> tuple[Tensor, Tensor]:
        try:
            return _divmod(self, other)
        except Exception as error:
            return defer_or_raise(other, error, "divmod", self)  # type: ignore[return-value]

    def __rdivmod__(self, other: TensorLike) -> tuple[Tensor, Tensor]:
        try:
            return _divmod(other, self)
        except Exception as error:
            return defer_or_raise(other, error, "divmod", self)  # type: ignore[return-value]

    def __neg__(self) -> Tensor:
        return negative.call(self)

    def __pos__(self) -> Tensor:
        return positive.call(self)

    def __abs__(self) -> Tensor:
        return absolute.call(self)

    def __invert__(self) -> Tensor:
        return _invert(self)

    # As a container.

    def __getitem__(self, index: Index) -> Tensor:
        return getitem(self, index)

    def __setitem__(self, index: Index, value: TensorLike) -> None:
        setitem(self, index, value)

    def __len__(self) -> int:
        if self._data.ndim == 0:
            raise TypeError("len() of unsized object: a tensor without axes has one element, t.item()")
        return len(self._data)

    def __iter__(self) -> Iterator[Tensor]:
        if self._data.ndim == 0:
            raise TypeError("a tensor without axes cannot be iterated over: t.item() is its one element")
        return unstacked(self)

    def __contains__(self, value: object) -> bool:
        return bool(np.any(self._data == raw(value)))

    # As a Python number, or bytes. Of a tensor that requires grad, a truth value is always allowed, since nobody
    # differentiates it, and a number where it is asked for in so many words, or shown
    # (test_a_number_of_a_tensor_that_requires_grad_is_given_to_who_asks_for_it).

    def __bool__(self) -> bool:
        try:
            return bool(self._data)
        except ValueError:
            raise ValueError(
                f"the truth value of a tensor of shape {self._data.shape} is ambiguous: write t.any() or t.all(), or "
                "np.where(condition, x, y) to choose for each element"
            ) from None

    def __int__(self) -> int:
        if self._requires_grad():
            self._may_be_number(is_plain_conversion())
        try:
            return int(self._data)
        except TypeError as error:
            raise self._no_number("int()", error) from None

    def __float__(self) -> float:
        if self._requires_grad():
            self._may_be_number(is_plain_conversion())
        try:
            return float(self._data)
        except TypeError as error:
            raise self._no_number("float()", error) from None

    def __complex__(self) -> complex:
        if self._requires_grad():
            self._may_be_number(is_plain_conversion())
        try:
            return complex(self._data)
        except TypeError as error:
            raise self._no_number("complex()", error) from None

    def __index__(self) -> int:
        self._may_be_number(False)
        number: Any = self._data
        # An array of another library may have no __index__.
        return operator.index(number if number.__class__ is _ndarray else number.item())

    def __round__(self, ndigits: int | None = None) -> float:
        self._may_be_number(self._requires_grad() and is_plain_conversion())
        rounded: float = round(self._only_element("round()", "t.round()"), ndigits)
        return rounded

    def __trunc__(self) -> int:
        self._may_be_number(False)
        whole: int = math.trunc(self._only_element("math.trunc()", "np.trunc(t)"))
        return whole

    def __bytes__(self) -> bytes:
        self._needs_no_grad("bytes", "t.numpy()")
        return bytes(self._device.to_host(self._data))

    def __format__(self, spec: str) -> str:
        # Text is for people to read, and no gradient flows through it: what requires grad is formatted too.
        if self._data.ndim == 0:
            return format(self._data.item(), spec)
        if spec:
            raise ArgumentTypeError(
                f"the format {spec!r} is for one number, and this tensor has shape {self._data.shape}: format its "
                f'elements, as in [f"{{number:{spec}}}" for number in t.ravel().tolist()], or write f"{{t}}"'
            )
        return str(self)

    def _may_be_number(self, is_plain: bool) -> None:
        """Raise if the history of this tensor is lost in a number of Python; `is_plain` tells if one is asked for.

        In a function that a transform differentiates, a number would cut the history that the caller has asked for.

        Raises:
            RequiresGradError: this tensor requires grad.
        """
        if not self._requires_grad():
            return
        if not is_plain:
            self._needs_no_grad("a Python number", "t.item()", number_advice())
        elif IN_TRANSFORM.get() and GRAD_MODE.get():
            self._needs_no_grad("a Python number", "t.item()", why="in a function that a transform differentiates, ")

    def _only_element(self, function: str, instead: str) -> Any:
        """Return the one element as a Python number, for a function that takes no arrays."""
        if self._data.ndim:
            raise self._has_axes(function, instead)
        return self._data.item()

    def _has_axes(self, function: str, instead: str) -> ArgumentTypeError:
        """Return the error of a function of one number that is given this tensor."""
        return ArgumentTypeError(
            f"{function} takes one number, and this tensor has shape {self._data.shape}: write {instead}"
        )

    def _no_number(self, function: str, error: TypeError) -> TypeError:
        """Return the error for a tensor that Python cannot make a number of: NumPy's, where it has one element."""
        if not self._data.ndim:
            return error
        return self._has_axes(function, "t.tolist() for all elements, t[index].item() for one")

    def _needs_no_grad(
        self, made: str, instead: str, otherwise: str = "NumPy's functions to compute with it", why: str = ""
    ) -> None:
        """Raise if this tensor requires grad: what is to be made of it has no history.

        Raises:
            RequiresGradError: begins with `why`; says what to write `instead` to drop the history, and `otherwise`.
        """
        if self._requires_grad():
            raise RequiresGradError(
                f"{why}converting a tensor of shape {self._data.shape} that requires grad to {made} would drop its "
                f"history in silence: write {instead} or t.detach() if that is meant, and {otherwise}"
            )

    @property
    def _mask(self) -> Any:
        """What numpy.ma asks for when it computes with the bare `_data` of an array that is not masked."""
        self._needs_no_grad("a masked array", "t.numpy()")
        return np.ma.nomask

    # Copies.

    def __reduce__(self) -> tuple[object, ...]:
        self._needs_no_history("pickled")
        device = self._device
        # By public names alone, so that the pickle of a state dict is loaded wherever this module will stand
        # (test_what_a_checkpoint_holds_is_pickled_by_public_names).
        return partial(asarray, device=device, requires_grad=self._requires_grad()), (device.to_host(self._data),)

    def __deepcopy__(self, memo: dict[int, object]) -> Tensor:
        self._needs_no_history("deep-copied")
        copied = _leaf(self._data.copy(order="K"), self._requires_grad(), self._device)
        copied.grad = deepcopy(self.grad, memo)
        return copied

    def __copy__(self) -> Tensor:
        if self._history() is not None:
            return self.copy()
        return _leaf(self._data.copy(order="K"), self._requires_grad(), self._device)

    def __repr__(self) -> str:
        data = self._device.to_host(self._data)
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

    def _repr_html_(self) -> str:
        return panel("Tensor", pre(self._values_text()) + facts(self._facts()))

    def _values_text(self) -> str:
        """Return the values, those in the middle of a large array cut."""
        return np.array2string(self._device.to_host(self._data), separator=", ", threshold=200, max_line_width=100)

    def _facts(self) -> list[tuple[str, str]]:
        """Return what a notebook says of the tensor below its values."""
        data, meta = self._data, self._meta
        found = [("shape", str(data.shape)), ("dtype", str(data.dtype)), ("device", str(self._device))]
        try:
            node = self._history()
        except InPlaceError:
            found.append(("grad_fn", "invalid: a write into the memory of this view has no history"))
        else:
            leaf = "a leaf that requires grad" if self._requires_grad() else "a leaf that requires no grad"
            found.append(("history", leaf) if node is None else ("grad_fn", identify(node)))
        if self._view is not None:
            found.append(("view", f"of a tensor of shape {self._base._data.shape}"))  # type: ignore[union-attr]
        if meta is not None and meta.grad is not None:
            found.append(("grad", f"accumulated, of shape {meta.grad._data.shape}"))
        return found


hint_at(Tensor, TENSOR_ATTRIBUTES)
register_tensor(Tensor, _CPU)


# What computes with bare arrays.
add_entry_methods(
    Tensor,
    "__contains__",
    "__copy__",
    "__deepcopy__",
    "__setitem__",
    "astype",
    "choose",
    "item",
    "partition",
    "sort",
)


def _given(**options: Any) -> dict[str, Any]:
    """Return the options that say something: CuPy's functions do not know all of NumPy's."""
    return {name: value for name, value in options.items() if value is not None}


def _leaf(data: BareArray, requires_grad: bool, place: Device) -> Tensor:
    leaf = Tensor(data, None, 0, place)
    return leaf.requires_grad_() if requires_grad else leaf


#: Named here, since an attribute of a module takes twice as long to look up.
_ndarray = np.ndarray


def leaf_on(array: np.ndarray) -> Tensor:
    """Return a leaf that requires grad on an array of floating or complex numbers: `asarray` for transforms."""
    if DEFAULT_DEVICE.get() is not None:
        return asarray(array, requires_grad=True)
    leaf = Tensor(array, None, 0, _CPU)
    leaf._meta = meta = AutogradMeta()
    meta.requires_grad = meta.has_required_grad = True
    return leaf


def _astype_instead(target: Any, error: DeviceError) -> DeviceError:
    """Return the error for what is no device: one that says what to write if it is a dtype, which PyTorch takes."""
    try:
        dtype = np.dtype(target)
    except TypeError:
        return error
    if target is None or not is_number_dtype(dtype):
        return error
    return DeviceError(f"{error}. To convert to a dtype, write t.astype(np.{dtype})")


def _moved_async(array: Any, home: Device, place: Device) -> Any:
    """Return a copy of an array on another device, without waiting for either."""
    if not (home.has_host_arrays or place.has_host_arrays):
        copy = place.from_device(array, home, non_blocking=True)
        if copy is not None:
            return copy
    if home.has_host_arrays or not place.has_host_arrays:
        # From device to device by way of the host: the second reads what the first has finished.
        return place.from_host_async(home.to_host(array))
    copy, filled = home.to_host_async(array)
    if filled is not None:
        # Whoever waits for the current stream then waits for the copy.
        home.current_stream().wait_event(filled)
    return copy


def _new_leaf(array: Any, data: Any, place: str | Device | None, requires_grad: bool, copy: bool = False) -> Tensor:
    """Return a leaf on `array`, which was made of what the user gave as `data`; with `copy` not on that itself."""
    if not is_number_dtype(array.dtype):
        refuse_unawaited("a tensor", (array,))
        raise ArgumentTypeError(
            f"a tensor holds numbers, and {describe(data)} gives an array of dtype {array.dtype}: "
            "pass numbers, arrays of numbers, or nested sequences of them of equal lengths"
        )
    if requires_grad is not False and requires_grad is not True:
        requires_grad = truth(requires_grad, "requires_grad")
    if array.__class__ is _ndarray:
        where = data._device if place is None and isinstance(data, TensorBase) else device_of_new(place)
        return _leaf(on_device(array, where), requires_grad, where)
    home = data._device if isinstance(data, TensorBase) else device_of_array(array)
    where = home if place is None and home is not None else device_of_new(place)
    placed = moved_to(array, where, home)
    if copy and placed is raw(data):
        placed = placed.copy(order="K")
    return _leaf(placed, requires_grad, where)


def tensor(  # noqa: D417  # nobody is shown what is there to be refused
    data: TensorLike,
    *more: Never,
    dtype: npt.DTypeLike | None = None,
    device: str | Device | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a new tensor on a copy of `data`, a leaf without history.

    Args:
        data: an array, a tensor, a number or nested sequences of them. A tensor that requires grad inside of a
            sequence raises, since its gradient would be lost: `np.stack` joins tensors and keeps it.
        dtype: NumPy's; None keeps that of `data`.
        device: where it lives; None is the device of `data` where that is a tensor, or an array that another library
            has on a device, else the default device.
        requires_grad: whether gradients flow to it. Only floating and complex tensors can.

    Example:
        >>> import asyncgrad as ag
        >>> ag.tensor([[1, 2], [3, 4]]).shape
        (2, 2)
    """
    if more:
        # Never, so that a type checker refuses the call, too.
        raise ArgumentTypeError(_of_several((data, *more)))
    array = np.array(data, dtype) if data.__class__ is _ndarray else array_of_data(data, dtype, copy=True)
    return _new_leaf(array, data, device, requires_grad, True)


def _of_several(given: tuple[object, ...]) -> str:
    """Return what to say of several arguments in place of a list of them."""
    numbers = ", ".join(map(repr, given)) if all(isinstance(one, (int, float)) for one in given) else "..."
    return (
        f"ag.tensor takes one array, number or list, and got {len(given)} arguments: write ag.tensor([{numbers}]); "
        "a dtype is named, as in dtype=np.float32"
    )


tensor.__signature__ = Signature(  # type: ignore[attr-defined]
    [one for one in signature(tensor).parameters.values() if one.kind is not one.VAR_POSITIONAL],
    return_annotation=signature(tensor).return_annotation,
)


def asarray(
    data: TensorLike,
    *,
    dtype: npt.DTypeLike | None = None,
    device: str | Device | None = None,
    requires_grad: bool = False,
) -> Tensor:
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
    if data.__class__ is _ndarray:
        array = data if dtype is None else data.astype(dtype, copy=False)
    else:
        array = array_of_data(data, dtype, copy=None)
    return _new_leaf(array, data, device, requires_grad)


# Pickles of tensors name it.
asarray.__module__ = "asyncgrad"

register_imported_einops()

NEVER_AWAITED.add(Tensor)


# It copies arrays of a device.
add_entry_names(globals(), "_new_leaf")
