"""Tensor: an array with a place in a graph; its state and NumPy's protocols, no mathematics."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, final

import numpy as np

from .array_methods import ArrayMethods
from .backward import backward
from .engine.device import Device, device
from .errors import GradientTypeError, HookError, InvalidGradientError, RequiresGradError
from .graph.hooks import HookList, RemovableHandle
from .graph.tracked import Tracked
from .graph.values import describe, register_tensor
from .ops import call_function, call_ufunc

if TYPE_CHECKING:
    from collections.abc import Callable

    from .graph.node import Node

__all__ = ["Tensor", "asarray", "tensor"]

_CPU = device("cpu")


@final
class Tensor(ArrayMethods):
    """A NumPy array that remembers how it was computed, so that gradients can flow back through it.

    NumPy's functions, operators and methods work on it with NumPy's meaning, dtypes and broadcasting. Made by
    `ag.tensor` and `ag.asarray`, and by every operation on tensors.

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
        """
        if requires_grad and self._data.dtype.kind not in "fc":
            raise RequiresGradError(
                f"only floating and complex tensors can require grad, and this one has dtype {self._data.dtype}: "
                "convert it first, for example t.astype(float)"
            )
        if self._grad_fn is not None:
            if not requires_grad:
                raise RequiresGradError(
                    f"this tensor was computed by {self._grad_fn.name} and cannot stop requiring grad: use t.detach()"
                )
        elif requires_grad or self._meta is not None:
            self._autograd_meta().requires_grad = bool(requires_grad)
        return self

    @property
    def grad(self) -> Tensor | None:
        """The gradient that backward passes have accumulated here; None before the first."""
        return None if self._meta is None else self._meta.grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise GradientTypeError(f"grad must be a Tensor or None, not {describe(value)}")
            if value is self:
                raise InvalidGradientError("a tensor cannot be its own gradient: assign a copy")
            if value.shape != self.shape or value.dtype != self.dtype:
                raise InvalidGradientError(
                    f"a gradient of shape {value.shape} and dtype {value.dtype} does not fit a tensor of "
                    f"shape {self.shape} and dtype {self.dtype}"
                )
            if value._device is not self._device:
                raise InvalidGradientError(
                    f"a gradient on '{value._device}' does not fit a tensor on '{self._device}'"
                )
        self._autograd_meta().grad = value

    @property
    def grad_fn(self) -> Node | None:
        """The node that turns this tensor's gradient into those of what it was computed from; None on a leaf."""
        return self._grad_fn

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made this tensor."""
        return self._grad_fn is None

    @property
    def output_nr(self) -> int:
        """Which output of its `grad_fn` this tensor is."""
        return self._output_nr

    @property
    def device(self) -> Device:
        """Where the array lives."""
        return self._device  # type: ignore[no-any-return]

    @property
    def _version_number(self) -> int:
        return 0 if self._counter is None else self._counter.value

    def to(self, target: str | Device) -> Tensor:
        """Return this tensor on a device; itself where it is there already."""
        if device(target) is self._device:
            return self
        raise NotImplementedError

    def detach(self) -> Tensor:
        """Return a tensor on the same memory, without history, that does not require grad."""
        detached = Tensor(self._data, None, 0, self._device)
        detached._counter = self._shared_version()
        return detached

    def detach_(self) -> Tensor:
        """Take this tensor out of its graph: it becomes a leaf that does not require grad."""
        self._grad_fn, self._output_nr = None, 0
        if self._meta is not None:
            self._meta.requires_grad = self._meta.retains_grad = False
        return self

    def numpy(self) -> np.ndarray:
        """Return a view of the data as an ndarray, without history.

        A write through it changes the tensor, unseen by the graph: a gradient may then be wrong without an error.
        """
        view: np.ndarray = self._data.view()
        return view

    def item(self, *index: int) -> Any:
        """Return the one element as a Python number."""
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

    def retain_grad(self) -> None:
        """Keep this tensor's gradient in `.grad`, though it is no leaf. Leaves always do.

        Raises:
            RequiresGradError: it does not require grad.
        """
        self._needs_grad("retain_grad()")
        node = self._grad_fn
        if node is None or self.retains_grad:
            return
        self._autograd_meta().retains_grad = True
        node.make_special().retains_grad_hooks[self._output_nr] = weakref.ref(self)

    @property
    def retains_grad(self) -> bool:
        """Whether a backward keeps this non-leaf's gradient."""
        return self._meta is not None and self._meta.retains_grad

    def register_hook(self, hook: Callable[[Tensor], Any]) -> RemovableHandle:
        """Call `hook(grad)` whenever a backward has computed this tensor's gradient, before it is used.

        Args:
            hook: a function or an `async def`. It may return another gradient of the same shape and dtype.

        Raises:
            RequiresGradError: this tensor does not require grad.
        """
        self._needs_grad("register_hook()")
        meta = self._autograd_meta()
        if meta.hooks is None:
            meta.hooks = HookList()
            if self._grad_fn is not None:
                self._grad_fn.make_special().tensor_pre_hooks.append((self._output_nr, meta.hooks))
            else:
                self._mark_accumulator()
        return meta.hooks.add(hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], Any]) -> RemovableHandle:
        """Call `hook(self)` whenever a backward has added to this leaf's `.grad`.

        Raises:
            HookError: this tensor is no leaf.
        """
        self._needs_grad("register_post_accumulate_grad_hook()")
        if self._grad_fn is not None:
            raise HookError(f"a post-accumulate-grad hook belongs on a leaf, and {self._grad_fn.name} made this tensor")
        meta = self._autograd_meta()
        if meta.post_accumulate_hooks is None:
            meta.post_accumulate_hooks = HookList()
            self._mark_accumulator()
        return meta.post_accumulate_hooks.add(hook)

    def _mark_accumulator(self) -> None:
        meta = self._meta
        accumulator = None if meta is None or meta.accumulator is None else meta.accumulator()
        if accumulator is not None:
            accumulator.make_special()

    def _needs_grad(self, what: str) -> None:
        if not self._requires_grad():
            raise RequiresGradError(f"{what} needs a tensor that requires grad: call .requires_grad_() on it first")

    # NumPy's protocols.

    __array_priority__ = 1000.0

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return call_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        return call_function(function, args, kwargs)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if self._requires_grad():
            raise RequiresGradError(
                "converting a tensor that requires grad to an ndarray would drop its history in silence: "
                "write t.numpy(), or t.detach() first"
            )
        if copy is None:
            return np.asarray(self._data, dtype)
        return np.array(self._data, dtype, copy=copy)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._grad_fn is not None:
            raise RequiresGradError(
                f"only leaves can be pickled or deep-copied, and {self._grad_fn.name} made this one: t.detach() can"
            )
        return _rebuild, (self._data, self._requires_grad(), self.grad, self._device)

    def __copy__(self) -> Tensor:
        if self._grad_fn is not None:
            return self.copy()
        return _rebuild(self._data.copy(), self._requires_grad(), None, self._device)

    def __repr__(self) -> str:
        body = np.array2string(self._data, separator=", ", prefix="tensor(")
        parts = [body, f"dtype={self._data.dtype}", f"device='{self._device}'"]
        if self._grad_fn is not None:
            parts.append(f"grad_fn={self._grad_fn!r}")
        elif self._requires_grad():
            parts.append("requires_grad=True")
        return f"tensor({', '.join(parts)})"

    def __hash__(self) -> int:
        return id(self)


register_tensor(Tensor)


def _rebuild(data: np.ndarray, requires_grad: bool, grad: Tensor | None, place: Device) -> Tensor:
    rebuilt = Tensor(data, None, 0, place)
    if requires_grad:
        rebuilt.requires_grad_()
    if grad is not None:
        rebuilt.grad = grad
    return rebuilt


def _bare(data: Any) -> Any:
    """Return nested sequences of tensors as arrays."""
    if isinstance(data, Tracked):
        return data._data
    if isinstance(data, (list, tuple)):
        return [_bare(item) for item in data]
    return data


def tensor(data: Any, *, dtype: Any = None, device: str | Device | None = None, requires_grad: bool = False) -> Tensor:
    """Return a new tensor on a copy of `data`, a leaf without history.

    Args:
        data: an array, a tensor, a number or nested sequences of them.
        dtype: NumPy's; None keeps that of `data`.
        device: where it lives; None is the default device.
        requires_grad: whether gradients flow to it. Only floating and complex tensors can.

    Example:
        >>> import asyncgrad as ag
        >>> ag.tensor([[1, 2], [3, 4]]).shape
        (2, 2)
    """
    return _rebuild(np.array(_bare(data), dtype), requires_grad, None, _place(device))


def asarray(
    data: Any, *, dtype: Any = None, device: str | Device | None = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor that shares memory with `data` where it can; a tensor as it is.

    Writes into the shared memory from outside cannot be seen by the graph.

    Args:
        data: as for `tensor`.
        dtype: NumPy's; another dtype than that of `data` makes a copy.
        device: where it lives.
        requires_grad: whether gradients flow to it.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> data = np.zeros(3)
        >>> ag.asarray(data).numpy().base is data
        True
    """
    if isinstance(data, Tensor):
        converted = data if dtype is None or data.dtype == np.dtype(dtype) else data.astype(dtype)
        return converted.requires_grad_() if requires_grad else converted
    return _rebuild(np.asarray(_bare(data), dtype), requires_grad, None, _place(device))


def _place(name: str | Device | None) -> Device:
    return _CPU if name is None else device(name)
