"""SimulatedArray: an array in the memory of a simulated accelerator, which speaks NumPy's protocols."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, final

import numpy as np

from .simulated_stream import Memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from .simulated import SimulatedAccelerator

__all__ = ["SimulatedArray"]


@final
class SimulatedArray:
    """An array on a SimulatedAccelerator. It is no ndarray and never becomes one unseen.

    NumPy's functions, operators and methods work on it, each as an operation on the device's current stream. A result
    that is a Python number, as that of `item()`, makes the host wait for that stream. Made by `device.from_host`.

    Args:
        device: where it lives.
        array: the elements.
        memory: what it is kept in.
        base: the array whose memory it shares, as in NumPy.
    """

    __slots__ = ("__weakref__", "_array", "_memory", "base", "device")

    def __init__(
        self, device: SimulatedAccelerator, array: Any, memory: Memory, base: SimulatedArray | None = None
    ) -> None:
        self.device = device
        self._array: np.ndarray = array
        self._memory = memory
        self.base = base

    # NumPy's protocols.

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if not self.device.takes((inputs, kwargs)):
            return NotImplemented
        function = ufunc if method == "__call__" else getattr(ufunc, method)
        return self.device.run(ufunc.__name__, function, inputs, kwargs, inputs[:1] if method == "at" else ())

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if not self.device.takes((args, kwargs)):
            return NotImplemented
        if function.__name__ in _CREATING_FUNCTIONS:
            # Called with like=, and this array.
            return self.device.from_host(function(*args, **kwargs))
        written = args[:1] if function.__name__ in _WRITING_FUNCTIONS else ()
        return self.device.run(function.__name__, function, args, kwargs, written)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise TypeError(
            f"an array on '{self.device}' does not become an ndarray unseen: write device.to_host(array), "
            "or t.to('cpu') of a tensor"
        )

    # What is known without the elements.

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        return self._array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype of the elements."""
        return self._array.dtype

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return self._array.ndim

    @property
    def size(self) -> int:
        """How many elements there are."""
        return self._array.size

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self._array.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._array.nbytes

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next, along each axis."""
        return self._array.strides

    @property
    def flags(self) -> Any:
        """How the elements lie in memory."""
        return self._array.flags

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Where the elements lie, as arrays outside of the host's memory tell it."""
        return self._array.__array_interface__

    def __len__(self) -> int:
        return len(self._array)

    # Views.

    @property
    def T(self) -> Any:
        """A view with the axes in reverse order."""
        return self._call(np.transpose)

    @property
    def mT(self) -> Any:
        """A view with the last two axes in each other's place."""
        return self._call(np.matrix_transpose)

    @property
    def real(self) -> Any:
        """The real part, a view."""
        return self._call(np.real)

    @property
    def imag(self) -> Any:
        """The imaginary part."""
        return self._call(np.imag)

    def __getitem__(self, index: Any) -> Any:
        return self._call(operator.getitem, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.device.run("setitem", operator.setitem, (self, index, value), {}, (self,))

    def __iter__(self) -> Any:
        return (self[index] for index in range(len(self)))

    # Numbers, for which the host waits.

    def item(self, *index: Any) -> Any:
        """Return one element as a Python number."""
        return self._call(np.ndarray.item, *index)

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python numbers."""
        return self._call(np.ndarray.tolist)

    def __bool__(self) -> bool:
        return bool(self._call(operator.truth))

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        return operator.index(self.item())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<array of shape {self.shape} and dtype {self.dtype} on '{self.device}'>"

    # All else is NumPy's.

    def _call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return self.device.run(function.__name__, function, (self, *args), kwargs, ())


_CREATING_FUNCTIONS = {"arange", "array", "asarray", "empty", "eye", "full", "identity", "ones", "zeros"}
_WRITING_FUNCTIONS = {"copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"}
_WRITING_METHODS = {"fill", "partition", "put", "sort"}
_METHODS = [
    "all",
    "any",
    "argmax",
    "argmin",
    "argpartition",
    "argsort",
    "astype",
    "choose",
    "clip",
    "compress",
    "conj",
    "conjugate",
    "copy",
    "cumprod",
    "cumsum",
    "diagonal",
    "dot",
    "fill",
    "flatten",
    "max",
    "mean",
    "min",
    "nonzero",
    "partition",
    "prod",
    "put",
    "ravel",
    "repeat",
    "reshape",
    "round",
    "searchsorted",
    "sort",
    "squeeze",
    "std",
    "sum",
    "swapaxes",
    "take",
    "trace",
    "transpose",
    "var",
    "view",
]
_BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor", "lshift", "rshift"]
_COMPARISONS = ["lt", "le", "eq", "ne", "gt", "ge"]
_UNARY = ["neg", "pos", "abs", "invert"]


def _method(name: str) -> Callable[..., Any]:
    function = getattr(np.ndarray, name)

    def method(self: SimulatedArray, *args: Any, **kwargs: Any) -> Any:
        return self.device.run(name, function, (self, *args), kwargs, (self,) if name in _WRITING_METHODS else ())

    method.__name__, method.__doc__ = name, f"As numpy.ndarray.{name}."
    return method


def _binary(name: str, is_reflected: bool, is_in_place: bool) -> Callable[..., Any]:
    function = getattr(operator, f"i{name.strip('_')}" if is_in_place else name)

    def binary(self: SimulatedArray, other: Any) -> Any:
        if not self.device.takes(other):
            return NotImplemented
        pair = (other, self) if is_reflected else (self, other)
        return self.device.run(name.strip("_"), function, pair, {}, (self,) if is_in_place else ())

    return binary


def _unary(name: str) -> Callable[..., Any]:
    function = getattr(operator, name)
    return lambda self: self._call(function)


for _name in _METHODS:
    setattr(SimulatedArray, _name, _method(_name))
for _name in _BINARY:
    _bare = _name.strip("_")
    setattr(SimulatedArray, f"__{_bare}__", _binary(_name, False, False))
    setattr(SimulatedArray, f"__r{_bare}__", _binary(_name, True, False))
    setattr(SimulatedArray, f"__i{_bare}__", _binary(_name, False, True))
for _name in _COMPARISONS:
    setattr(SimulatedArray, f"__{_name}__", _binary(_name, False, False))
for _name in _UNARY:
    setattr(SimulatedArray, f"__{_name}__", _unary(_name))
