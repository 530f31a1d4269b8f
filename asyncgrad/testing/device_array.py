"""DeviceArray: an array outside of NumPy's reach, with the functions, methods and refusals of a GPU's arrays."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, final

import numpy as np

from .device_functions import METHODS, REAL_UFUNCS, SCATTERING_DTYPES, check_call, has_function, has_ufunc

if TYPE_CHECKING:
    from collections.abc import Collection

    from ..core.arrays.array_like import Index


__all__ = ["DeviceArray", "DeviceFlags", "DevicePointer", "unwrapped", "wrapped"]

_NUMBERS = (bool, int, float, complex, np.generic)
#: Functions that make an array of a host's; they take NumPy's arrays, and nested lists.
_CREATING_FUNCTIONS = {"arange", "array", "asanyarray", "asarray", "empty", "eye", "full", "identity", "ones", "zeros"}
_CREATING_FUNCTIONS |= {"ascontiguousarray", "asfortranarray"}
#: Functions that take indices, shapes or dtypes as arrays of NumPy's.
_TAKING_HOST_ARRAYS = {"can_cast", "delete", "ndim", "result_type", "shape", "size", "take"}
#: Functions each of whose operands must be an array of the device, or a number.
_OF_OPERANDS = {"clip", "dot", "inner", "outer", "tensordot", "vdot", "where"}
#: Functions whose first arguments, so many, must be arrays.
_OF_ARRAYS = {"array_equal": 2, "digitize": 2, "lexsort": 1}
#: Functions whose answer stays on the device, where NumPy's is a bool.
_TELLING_FUNCTIONS = {"allclose", "array_equal"}
_JOINING_FUNCTIONS = {"column_stack", "concatenate", "dstack", "hstack", "stack", "vstack"}
_WRITING_FUNCTIONS = {"copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"}
_WRITING_METHODS = {"fill", "partition", "put", "sort"}
#: Ufuncs that reduce and accumulate.
_REDUCING = {"add", "multiply"}
_COMPARING = {"equal", "greater", "greater_equal", "less", "less_equal", "not_equal"}
_UFUNC_KEYWORDS = {"casting", "dtype", "out"}
_PRODUCT_KEYWORDS = _UFUNC_KEYWORDS | {"axes", "axis", "keepdims", "order", "signature"}


class DevicePointer(NamedTuple):
    """Where the elements of an array begin.

    Args:
        ptr: the address.
        device_id: the number of the device that it belongs to.
    """

    ptr: int
    device_id: int


@final
class DeviceFlags:
    """How the elements of an array lie in memory; there is no `writeable`, since each array can be written into.

    Args:
        c_contiguous: whether they are without gaps, with the last axis the fastest.
        f_contiguous: whether they are without gaps, with the first axis the fastest.
        owndata: whether the array is no view.
    """

    __slots__ = ("c_contiguous", "f_contiguous", "owndata")

    def __init__(self, c_contiguous: bool, f_contiguous: bool, owndata: bool) -> None:
        self.c_contiguous: bool = c_contiguous
        self.f_contiguous: bool = f_contiguous
        self.owndata: bool = owndata

    @property
    def forc(self) -> bool:
        """Whether one of both contiguities holds."""
        return self.c_contiguous or self.f_contiguous

    @property
    def fnc(self) -> bool:
        """Whether the elements are F-contiguous and not C-contiguous."""
        return self.f_contiguous and not self.c_contiguous

    def __getitem__(self, name: str) -> bool:
        if name not in {"C_CONTIGUOUS", "F_CONTIGUOUS", "OWNDATA"}:
            raise KeyError(f"{name} is not defined for {type(self).__name__}")
        flag: bool = getattr(self, name.lower())
        return flag

    def __repr__(self) -> str:
        return "\n".join(f"  {name.upper()} : {getattr(self, name)}" for name in self.__slots__)


class DeviceArray:
    """Abstract: an array on a device, which NumPy's functions and operators compute with, as with an array of CuPy's.

    It has the attributes, methods and functions that arrays of CuPy have, with their parameters, and refuses what they
    refuse by the same type of error: other functions, keywords that there are not, NumPy's arrays beside it, lists as
    operands, and to become a NumPy array unseen. What runs on it runs on a GPU as far as types tell; the elements are
    in a NumPy array inside, and results have its bits.

    A subclass says in `_compute` what an operation does apart from its result, such as to take time, and defines
    `device`, `_from_host` and `_to_host`. Each array that it makes must have its two attributes.

    Attributes:
        base: the array whose memory it shares, as in NumPy; None for an array that owns its memory.
        _array: the elements.
    """

    __slots__ = ("__weakref__", "_array", "base")

    #: As in CuPy.
    __array_priority__ = 100

    _array: np.ndarray
    base: Any

    # What a subclass defines.

    @property
    def device(self) -> object:
        """The device."""
        raise NotImplementedError(f"{type(self).__name__} must have a device")

    def _compute(
        self, name: str, function: Callable[..., Any], args: Any, kwargs: dict[str, Any], written: Iterable[Any]
    ) -> Any:
        """Call a function on the elements, and return the results as arrays of this type.

        Args:
            name: of the operation.
            function: takes ndarrays in place of this type.
            args: its arguments; arrays may be nested in lists and tuples.
            kwargs: its keyword arguments.
            written: the arguments that it writes into, apart from `out`.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement _compute")

    def _from_host(self, array: np.ndarray) -> Any:
        """Return a copy of a NumPy array as an array beside this one."""
        raise NotImplementedError(f"{type(self).__name__} must implement _from_host")

    def _to_host(self) -> np.ndarray:
        """Return a copy of the elements; the host waits for them."""
        raise NotImplementedError(f"{type(self).__name__} must implement _to_host")

    # NumPy's protocols.

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> object:
        name, outs = ufunc.__name__, kwargs.get("out", ())
        if not has_ufunc(ufunc) or not all(map(self._is_operand, (*inputs, *outs))):
            return NotImplemented
        if "out" in kwargs and len(outs) != 1:
            raise ValueError("The 'out' parameter must have exactly one array value")
        if name in _COMPARING and method == "__call__":
            inputs = tuple(one.item() if isinstance(one, np.ndarray) and one.ndim == 0 else one for one in inputs)
        _check_ufunc(name, method, inputs, kwargs)
        self._refuse_host_arrays(name, (*inputs, *outs) if method != "at" else (inputs[0], *inputs[2:]))
        function = ufunc if method == "__call__" else getattr(ufunc, method)
        return self._compute(name, function, inputs, kwargs, inputs[:1] if method == "at" else ())

    def __array_function__(
        self,
        function: Any,
        types: Collection[type],
        args: Any,
        kwargs: Any,
    ) -> object:
        name = ".".join([*function.__module__.split(".")[1:], function.__name__])
        if not has_function(name) or not all(kind in (type(self), np.ndarray) for kind in types):
            return NotImplemented
        check_call(name, args, kwargs)
        if name in _CREATING_FUNCTIONS and not (args and isinstance(args[0], DeviceArray)):
            # Called with like=, and this array.
            return self._from_host(function(*args, **kwargs))
        _check_function(name, args, kwargs)
        if name not in _TAKING_HOST_ARRAYS:
            self._refuse_host_arrays(name, (args, kwargs), and_lists=name in _OF_OPERANDS)
        # An index beyond an axis begins again at 0.
        given = {**kwargs, "mode": "wrap"} if name == "take" else kwargs
        if name == "delete" and isinstance(args[1], (int, np.ndarray)) and not isinstance(args[1], bool):
            args = args[0], _wrapped_places(args[0], *args[1:3], **kwargs), *args[2:]
        result = self._compute(function.__name__, function, args, given, args[:1] * (name in _WRITING_FUNCTIONS))
        if name in _TELLING_FUNCTIONS:
            return self._from_host(np.asarray(result))
        # Of linear algebra come plain tuples.
        return tuple(result) if name.startswith("linalg.") and isinstance(result, tuple) else result

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NoReturn:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy array "
            "explicitly."
        )

    def _is_operand(self, value: Any) -> bool:
        return isinstance(value, (type(self), np.ndarray, *_NUMBERS))

    def _refuse_host_arrays(self, name: str, value: Any, and_lists: bool = False) -> None:
        """Raise if there is an array of NumPy's among arguments.

        Raises:
            TypeError: there is one, or a list where an operand is due.
        """
        if isinstance(value, dict):
            value = tuple(value.values())
        if isinstance(value, np.ndarray) or (and_lists and isinstance(value, list)):
            raise TypeError(self._mixed(name, type(value)))
        if isinstance(value, (tuple, list)):
            for one in value:
                self._refuse_host_arrays(name, one, and_lists)

    def _mixed(self, name: str, kind: type) -> str:
        """Return what an error says of an operand that is no array of this device."""
        if name in {"matmul", "dot"}:
            return (
                f"Argument has incorrect type (expected {type(self).__name__}, got {kind.__module__}.{kind.__name__})"
            )
        return f"Unsupported type {kind}"

    # Attributes that need no element.

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        return self._array.shape

    @property
    def dtype(self) -> np.dtype:
        """NumPy's dtype of the elements."""
        return self._array.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._array.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._array.size

    @property
    def itemsize(self) -> int:
        """The number of bytes of one element."""
        return self._array.itemsize

    @property
    def nbytes(self) -> int:
        """The number of bytes of all elements."""
        return self._array.nbytes

    @property
    def strides(self) -> tuple[int, ...]:
        """The number of bytes from one element to the next, along each axis."""
        return self._array.strides

    @property
    def flags(self) -> DeviceFlags:
        """How the elements lie in memory."""
        return DeviceFlags(self._c_contiguous, self._f_contiguous, self.base is None)

    @property
    def _c_contiguous(self) -> bool:
        return self._array.flags.c_contiguous

    @property
    def _f_contiguous(self) -> bool:
        return self._array.flags.f_contiguous

    @property
    def data(self) -> DevicePointer:
        """Where the elements begin."""
        return DevicePointer(self._array.__array_interface__["data"][0], getattr(self.device, "id", 0))

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        """The address of the elements, in the protocol of arrays outside of the host's memory."""
        interface = self._array.__array_interface__
        return {**interface, "data": (interface["data"][0], False), "stream": None}

    def __len__(self) -> int:
        return len(self._array)

    # Views.

    @property
    def T(self) -> Any:
        """A view with the axes in reverse order."""
        return self._call(np.transpose)

    @property
    def mT(self) -> Any:
        """A view with the last two axes swapped."""
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
        return self._call(_picked, index)

    def __setitem__(self, index: Index, value: object) -> None:
        if not isinstance(value, (type(self), *_NUMBERS)):
            raise TypeError(self._mixed("setitem", type(value)))
        self._compute("setitem", _put, (self, index, value), {}, (self,))

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    # Copies to and from the host, and numbers: the host waits for all but `set`.

    def get(
        self,
        stream: object = None,
        order: Literal["K", "A", "C", "F"] = "C",
        out: np.ndarray | None = None,
        blocking: bool = True,
    ) -> np.ndarray:
        """Return a copy as a NumPy array, or fill `out`."""
        found = self._to_host()
        if out is None:
            copied: np.ndarray = np.array(found, order=order)
            return copied
        out[...] = found
        filled: np.ndarray = out
        return filled

    def set(self, arr: np.ndarray, stream: object = None) -> None:
        """Copy a NumPy array of the same shape and dtype into this array."""
        if not isinstance(arr, np.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        if self.dtype != arr.dtype:
            raise TypeError(f"{arr.dtype} array cannot be set to {self.dtype} array")
        if self.shape != arr.shape:
            raise ValueError(f"Shape mismatch. Old shape: {self.shape}, new shape: {arr.shape}")
        self._compute("set", np.copyto, (self, arr), {}, (self,))

    def item(self) -> Any:
        """Return the only element as a Python number."""
        if self.size != 1:
            raise ValueError("can only convert an array of size 1 to a Python scalar")
        return self._call(np.ndarray.item)

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python numbers."""
        return self._call(np.ndarray.tolist)

    def tobytes(self, order: Literal["K", "A", "C", "F"] = "C") -> bytes:
        """Return the elements as bytes."""
        return self._to_host().tobytes(order)

    def __bool__(self) -> bool:
        return bool(self._call(operator.truth))

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    __hash__ = None  # type: ignore[assignment]

    def __copy__(self) -> Any:
        return self.copy()  # type: ignore[attr-defined]

    def __deepcopy__(self, memo: object) -> Any:
        return self.copy()  # type: ignore[attr-defined]

    def __dlpack__(self, **options: object) -> NoReturn:
        raise BufferError("GPU memory cannot be exported to CPU without copy.")

    def __dlpack_device__(self) -> tuple[int, int]:
        # CUDA's number in that protocol, and that of the device.
        return 2, self.data.device_id

    # Everything else is done by NumPy.

    def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        return self._compute(function.__name__, function, (self, *args), {}, ())


def _picked(array: np.ndarray, index: Any) -> Any:
    try:
        picked = array[index]
    except IndexError:
        index = _in_range(index, array.shape)
        picked = array[index]
    if not isinstance(picked, np.generic) or isinstance(index, np.ndarray):
        return picked
    # Of one element, NumPy gives a copy, and a device's library a view.
    return array[(*index, ...) if isinstance(index, tuple) else (index, ...)]


def _put(array: np.ndarray, index: Any, value: Any) -> None:
    try:
        array[index] = value
    except IndexError:
        array[_in_range(index, array.shape)] = value


def _in_range(index: Any, shape: tuple[int, ...]) -> Any:
    """Return an index whose integer arrays begin again at 0 where they go beyond an axis, as CuPy has it."""
    items = list(index) if isinstance(index, tuple) else [index]
    arrays = [np.asarray(item) if isinstance(item, (list, np.ndarray)) else item for item in items]
    counts = [
        0 if item is None else item.ndim if getattr(item, "dtype", None) == np.dtype(bool) else 1 for item in arrays
    ]
    axis = 0
    for place, item in enumerate(arrays):
        if item is Ellipsis:
            axis += len(shape) - sum(counts) + 1
            continue
        if isinstance(item, np.ndarray) and item.dtype.kind in "iu" and item.ndim and axis < len(shape) and shape[axis]:
            items[place] = item % shape[axis]
        axis += counts[place]
    return tuple(items) if isinstance(index, tuple) else items[0]


def unwrapped(value: Any, arrays: list[Any]) -> Any:
    """Return an argument with the elements in the place of DeviceArrays, which are added to `arrays`."""
    if isinstance(value, DeviceArray):
        arrays.append(value)
        return value._array
    if type(value) in (tuple, list):
        return type(value)(unwrapped(one, arrays) for one in value)
    if type(value) is dict:
        return {key: unwrapped(one, arrays) for key, one in value.items()}
    return value


def wrapped(result: Any, arrays: Iterable[Any], make: Callable[[np.ndarray, Any], Any], others: list[Any]) -> Any:
    """Return a result of NumPy's with DeviceArrays; 0-d ones for its scalars.

    Args:
        result: an array or scalar of NumPy's, a list or tuple of them, or anything else.
        arrays: the arguments; a result that is one of them is that array.
        make: takes elements, and the argument whose memory they share, or None.
        others: what is neither array nor scalar is added to it.

    Raises:
        ValueError: there are no such dtypes.
    """
    if isinstance(result, (tuple, list)):
        parts = [wrapped(one, arrays, make, others) for one in result]
        kind: Any = type(result)
        return kind(*parts) if hasattr(kind, "_fields") else kind(parts)
    if not isinstance(result, (np.ndarray, np.generic)):
        others.append(result)
        return result
    elements = np.asarray(result)
    if elements.dtype.char in "gG" or not elements.dtype.isnative:
        raise ValueError(f"Unsupported dtype {elements.dtype}")
    for array in arrays:
        if result is array._array:
            return array
        if _is_view(elements, array._array):
            # Each view on a device can be written into; NumPy's diagonals cannot, until they are told to.
            with suppress(ValueError):
                elements.flags.writeable = True
            return make(elements, array)
    # A diagonal without elements shares no memory.
    return make(elements if elements.flags.writeable else elements.copy(), None)


def _is_view(elements: np.ndarray, array: np.ndarray) -> bool:
    """Tell whether `elements` lie in the memory of an array; NumPy does not say so of a view without elements."""
    base = elements.base
    if base is None or np.may_share_memory(elements, array):
        return base is not None
    return not elements.size and (base is array or base is array.base)


def _check_ufunc(name: str, method: str, inputs: Any, kwargs: dict[str, Any]) -> None:
    """Raise if a ufunc has no such method, or does not take such arguments.

    Raises:
        TypeError: there is no such keyword, or the dtype is not supported.
        NotImplementedError: the ufunc lacks the method.
    """
    if method in {"reduce", "accumulate"}:
        wrong = set(kwargs) - {"axis", "dtype", "out"} - ({"keepdims"} if method == "reduce" else set())
        if wrong:
            raise TypeError(f"{method}() got an unexpected keyword argument '{min(wrong)}'")
        if name not in _REDUCING:
            raise NotImplementedError(f"`cupy_{name}.{method}` is not supported yet")
    elif method == "at":
        dtypes = SCATTERING_DTYPES.get(name, "")
        if not dtypes:
            raise NotImplementedError(f"`cupy_{name}.at` is not supported yet")
        if inputs[0].dtype.name not in dtypes.split():
            raise TypeError(f"cupy.{name}.at only supports {dtypes.replace(' ', ', ')} as data type")
    elif method == "reduceat":
        raise NotImplementedError(f"`cupy_{name}.reduceat` is not supported yet")
    else:
        wrong = set(kwargs) - (_PRODUCT_KEYWORDS if name == "matmul" else _UFUNC_KEYWORDS)
        if wrong:
            raise TypeError(f"Wrong arguments { {one: kwargs[one] for one in wrong} }")
        if name in REAL_UFUNCS and "c" in [np.asarray(getattr(one, "_array", one)).dtype.kind for one in inputs]:
            raise TypeError(f"Wrong type (complex) of arguments for cupy_{name}")


def _check_function(name: str, args: Any, kwargs: dict[str, Any]) -> None:
    """Raise if a function has its parameters, but not for these values.

    Raises:
        TypeError: an array to join is none, `subok` is given, or einsum does not know a keyword.
        ValueError: operands of solve would be broadcast, or an axis of windows is repeated.
        AttributeError: an argument that must be an array is none, such as choices, or the condition of `where`.
        NotImplementedError: a view could not be written into, what is searched for is a list, or bits have an axis.
    """
    if name in _JOINING_FUNCTIONS:
        for one in args[0]:
            if not isinstance(one, (DeviceArray, np.ndarray)):
                raise TypeError("Only cupy arrays can be concatenated")
    elif name == "lib.stride_tricks.sliding_window_view" and kwargs.get("writeable"):
        raise NotImplementedError("Writeable views are not supported.")
    elif name == "lib.stride_tricks.sliding_window_view" and _repeats_an_axis(args[0].ndim, *args[2:3], **kwargs):
        raise ValueError("duplicate value in 'axis'")
    elif name == "where" and not hasattr(args[0], "astype"):
        raise AttributeError(f"'{type(args[0]).__name__}' object has no attribute 'astype'")
    elif name == "einsum" and not set(kwargs) <= {"dtype", "optimize"}:
        raise TypeError(
            f"Did not understand the following kwargs: {[one for one in kwargs if one not in {'dtype', 'optimize'}]}"
        )
    elif name in {"packbits", "unpackbits"} and (kwargs.get("axis") is not None or args[1:2] not in ((), (None,))):
        raise NotImplementedError("axis option is not supported yet")
    elif name == "searchsorted" and isinstance(args[1], (list, tuple)):
        raise NotImplementedError("Only python scalars or ndarrays are supported for v")
    elif name in _OF_ARRAYS:
        for one in args[: _OF_ARRAYS[name]]:
            if not hasattr(one, "ndim"):
                raise AttributeError(f"'{type(one).__name__}' object has no attribute 'ndim'")
    elif name == "choose" and not isinstance(args[1], (DeviceArray, np.ndarray)):
        raise AttributeError(f"'{type(args[1]).__name__}' object has no attribute 'shape'")
    elif name == "linalg.solve" and args[1].ndim > 1 and args[0].shape[:-1] != args[1].shape[:-1]:
        raise ValueError("a must have (..., M, M) shape and b must have (..., M, K) for multidimensional b")
    elif kwargs.get("subok") and name.endswith("_like"):
        raise TypeError("subok is not supported yet")


def _wrapped_places(array: Any, places: Any, axis: int | None = None) -> Any:
    places = np.asarray(places)
    return places % (array.size if axis is None else array.shape[axis]) if places.dtype.kind in "iu" else places


def _repeats_an_axis(ndim: int, axis: Any = None, **_: Any) -> bool:
    return isinstance(axis, (list, tuple)) and len({one % ndim for one in axis}) < len(axis)


def _check_method(name: str, array: Any, args: Any, kwargs: dict[str, Any]) -> None:
    """Raise if a method has its parameters, but not for these values.

    Raises:
        TypeError: casting or subok of astype is given.
    """
    if name == "astype":
        for word, position in (("casting", 2), ("subok", 3)):
            if kwargs.get(word, args[position] if len(args) > position else None) is not None:
                raise TypeError(f"{word} is not supported yet")
    elif name == "nonzero" and not array.ndim:
        raise ValueError("Calling nonzero on 0d arrays is not allowed. Use cp.atleast_1d(scalar).nonzero() instead.")


def _method(name: str) -> Callable[..., Any]:
    function = getattr(np.ndarray, name)

    def method(self: DeviceArray, *args: Any, **kwargs: Any) -> Any:
        check_call(name, args, kwargs, is_method=True)
        _check_method(name, self, args, kwargs)
        if name not in _TAKING_HOST_ARRAYS:
            self._refuse_host_arrays(name, (args, kwargs))
        return self._compute(name, function, (self, *args), kwargs, (self,) if name in _WRITING_METHODS else ())

    method.__name__, method.__doc__ = name, f"As numpy.ndarray.{name}."
    return method


def _binary(name: str, is_reflected: bool, is_in_place: bool) -> Callable[..., Any]:
    bare = name.strip("_")
    function = getattr(operator, f"i{bare}" if is_in_place else name) if bare != "divmod" else divmod

    def binary(self: DeviceArray, other: Any) -> Any:
        if getattr(other, "__array_priority__", 0) > self.__array_priority__:
            return NotImplemented
        if not isinstance(other, (type(self), *_NUMBERS)):
            raise TypeError(self._mixed(bare, type(other)))
        pair = (other, self) if is_reflected else (self, other)
        return self._compute(bare, function, pair, {}, (self,) if is_in_place else ())

    return binary


def _comparison(name: str) -> Callable[..., Any]:
    ufunc = {"lt": np.less, "le": np.less_equal, "eq": np.equal, "ne": np.not_equal, "gt": np.greater}.get(
        name, np.greater_equal
    )
    return lambda self, other: ufunc(self, other)


def _unary(name: str) -> Callable[..., Any]:
    function = getattr(operator, name)
    return lambda self: self._call(function)


_BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor", "lshift", "rshift"]
for _name in METHODS:
    setattr(DeviceArray, _name, _method(_name))
for _name in [*_BINARY, "divmod"]:
    _bare = _name.strip("_")
    setattr(DeviceArray, f"__{_bare}__", _binary(_name, False, False))
    setattr(DeviceArray, f"__r{_bare}__", _binary(_name, True, False))
    if _name not in {"matmul", "divmod"}:
        setattr(DeviceArray, f"__i{_bare}__", _binary(_name, False, True))
for _name in ["lt", "le", "eq", "ne", "gt", "ge"]:
    setattr(DeviceArray, f"__{_name}__", _comparison(_name))
for _name in ["neg", "pos", "abs", "invert"]:
    setattr(DeviceArray, f"__{_name}__", _unary(_name))
