"""The operations that graph and engine use on gradients, for every type of gradient.

A gradient is a NumPy array (or NumPy scalar) in an ordinary backward and a `Tensor` under
`create_graph=True`; the engine's tests run it on plain Python floats. All functions here use only operators and
NumPy functions that each of these types supports.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable, Sequence
from numbers import Number
from typing import Any, final

import numpy as np

from ...errors import ArgumentError, ArgumentTypeError
from ..settings.arguments import describe
from ..settings.context import DEFAULT_DEVICE
from .device_functions import DEVICE_FUNCTIONS, no_function, own_function
from .interception import add_entry_names, on_device_of
from .tensor_base import TensorBase
from .value_type import ValueGradient

__all__ = [
    "add",
    "add_into",
    "arange_like",
    "as_array",
    "as_like",
    "cast",
    "check_numbers",
    "clone",
    "clone_like",
    "computes_ufuncs",
    "constant_copy",
    "contiguous",
    "counted",
    "empty_like",
    "given_on_device",
    "has_memory",
    "has_nan",
    "array_interface",
    "is_device_array",
    "is_labelled",
    "is_number_dtype",
    "is_sparse",
    "is_writeable",
    "makes_arrays",
    "memory_owner",
    "move",
    "moved_array",
    "numbers_of",
    "scalar",
    "on_device",
    "OwnedMemory",
    "own_copy",
    "owned",
    "on_host",
    "ones_like",
    "raw",
    "recorded_whole",
    "refuse_masked",
    "refuse_masked_within",
    "not_of_dtype",
    "refuse_complex",
    "refuse_sparse",
    "register_tensor",
    "result_array",
    "sum_to",
    "wrap",
    "zeros",
    "zeros_like",
]

#: Named here, since an attribute of a module takes twice as long to look up.
_ndarray = np.ndarray

#: The class of the tensors that `wrap` makes, and its default device; set when `Tensor` registers itself.
_registered: list[Any] = [TensorBase, None]


def register_tensor(tensor_class: type[TensorBase], default_device: Any) -> None:
    """Let `wrap` make tensors of `tensor_class`; called once, for `Tensor`."""
    _registered[:] = tensor_class, default_device


def wrap(value: Any, device: Any) -> Any:
    """Return a gradient as hooks and users see it: a Tensor on `device` for an array, anything else as it is.

    A `device` of None means the default device: a Function applied to no tensor has no device.
    """
    if value.__class__ is not _ndarray and not isinstance(value, (_ndarray, np.generic)) and not is_device_array(value):
        return value.gradient if value.__class__ is ValueGradient else value
    tensor_class, default_device = _registered
    if device is not None and device.has_host_arrays:
        # The most common kinds, without a call: an array of NumPy's, and a number of its.
        if type(value) is _ndarray:
            return tensor_class(value, None, 0, device)
        if isinstance(value, np.generic):
            return tensor_class(np.asarray(value), None, 0, device)
    if device is None:
        device = DEFAULT_DEVICE.get() or default_device
    array = as_array(value)
    if array.__class__ is _ndarray and device is not None and not device.has_host_arrays:
        # A user's function has computed it on the host.
        array = device.from_host(array)
    return tensor_class(array, None, 0, device)


def move(value: Any, source: Any, target: Any) -> Any:
    """Return a gradient on device `source` moved to device `target`; the move of a tensor is recorded."""
    if isinstance(value, TensorBase):
        return value.to(target)
    return moved_array(as_array(value), source, target)


def moved_array(array: Any, source: Any, target: Any) -> Any:
    """Return a copy of an array of device `source` as an array of device `target`."""
    if not (source.has_host_arrays or target.has_host_arrays):
        copy = target.from_device(array, source)
        if copy is not None:
            return copy
    host = source.to_host(array)
    # An array that comes from another device is a copy already.
    return host if target.has_host_arrays and not source.has_host_arrays else target.from_host(host)


def is_device_array(value: Any) -> bool:
    """Tell whether this is an array of another library that NumPy's functions accept."""
    return (
        hasattr(type(value), "__array_function__")
        and not isinstance(value, (_ndarray, TensorBase))
        and hasattr(value, "dtype")
    )


def is_recorder(array: Any) -> bool:
    """Tell whether an array records NumPy's calls: it says that it is an ndarray, and has no memory that NumPy sees."""
    return type(array) is not _ndarray and array.__class__ is _ndarray


def recorded_whole(function: Callable[..., Any], array: Any, *others: Any) -> Any:
    """Return what a function of a recording array returns, recorded as one call: its way depends on the numbers."""
    return array.call_whole(function, array, *others)


def makes_arrays(value: Any) -> bool:
    """Tell whether new arrays beside this one are made by its own type, as another library's are, and traced ones.

    A traced array says that it is an `ndarray`, so that rules take NumPy's path; it is none.
    """
    return is_recorder(value) or is_device_array(value)


def is_writeable(array: Any) -> bool:
    """Tell whether an array may be written into, as one without the flag `writeable` always may."""
    return bool(getattr(array.flags, "writeable", True))


def as_array(value: Any) -> Any:
    """Return a value as an array: an array of another library as it is, anything else as an ndarray.

    Raises:
        ArgumentTypeError: the value is a masked array.
        ArgumentError: it is a list of rows of different lengths.
    """
    if value.__class__ is _ndarray:
        recorder: Any = value
        # It may stand for a number.
        return value if type(value) is _ndarray else recorder.as_array()
    refuse_masked(value)
    if is_device_array(value):
        return value
    try:
        return np.asarray(value)
    except ValueError as error:
        if "inhomogeneous" in str(error):
            raise ArgumentError(
                f"{describe(value)} is no array, since its rows differ in length: bring them to one length"
            ) from error
        raise


def result_array(value: Any) -> Any:
    """Return the result of an operation as an array, as `as_array` does.

    NumPy returns a masked array where an operand is one, and a matrix likewise.

    Raises:
        ArgumentTypeError: the result is a masked array, or a matrix, whose operators differ from those of an array.
    """
    if isinstance(value, np.matrix):
        raise ArgumentTypeError(
            "an operation got a tensor and a np.matrix, whose * is a product of matrices: write np.asarray(m)"
        )
    return as_array(value)


def refuse_masked(value: Any) -> None:
    """Raise if the value is a masked array, since a tensor has no mask.

    Raises:
        ArgumentTypeError: the value is a masked array.
    """
    # The first two tests are for speed, and so that only a program with masked arrays imports numpy.ma.
    if value.__class__ is not _ndarray and isinstance(value, _ndarray) and isinstance(value, np.ma.MaskedArray):
        raise ArgumentTypeError(
            f"a masked array of shape {value.shape} and dtype {value.dtype} would lose its mask in a tensor: write "
            "m.filled(value), or compute with m.data and pick the elements that count by np.where(m.mask, 0, ...)"
        )


def as_like(array: Any, other: Any) -> Any:
    """Return a new NumPy array as an array of the type and device of `other`, as NumPy's `like=` does."""
    if other.__class__ is _ndarray or not is_device_array(other) or is_device_array(array):
        return array
    return _asarray(array, like=other)


def zeros_like(other: Any, shape: tuple[int, ...], dtype: Any = None) -> Any:
    """Return an array of zeros of the type and device of the array `other`, and of its dtype unless one is given."""
    if type(other) is _ndarray or not makes_arrays(other):
        return np.zeros(shape, dtype or other.dtype)
    return _zeros(shape, dtype or other.dtype, like=other)


def ones_like(other: Any, shape: int | tuple[int, ...]) -> Any:
    """Return an array of ones of the type, dtype and device of the array `other`."""
    if type(other) is _ndarray or not makes_arrays(other):
        # The same as np.ones, in half of the time for a short array.
        ones = np.empty(shape, other.dtype)
        ones.fill(1)
        return ones
    return _device_ones(other, shape)


def _device_ones(other: Any, shape: Any) -> Any:
    ones = own_function("ones", other)(shape, other.dtype)
    if ones is not None:
        return ones
    # np.ones(like=) passes on a keyword that CuPy does not know.
    return np.ones_like(other, order="C", shape=shape)


def arange_like(other: Any, length: int) -> Any:
    """Return the numbers below `length` as an array of the type and device of the array `other`."""
    if type(other) is _ndarray or not makes_arrays(other):
        return np.arange(length)
    return _arange(length, like=other)


def empty_like(other: Any, shape: tuple[int, ...] | None = None, dtype: Any = None) -> Any:
    """Return an uninitialised C-ordered array of the type and device of the array `other`.

    Its shape and its dtype are those of `other` unless they are given.
    """
    if shape is None:
        shape = other.shape
    if type(other) is _ndarray or not makes_arrays(other):
        return np.empty(shape, dtype or other.dtype)
    return _empty_like(other, dtype or other.dtype, order="C", shape=shape)


# On the device of the array that they are to be beside, where its library has several: see interception.py.
_arange, _asarray, _empty_like, _zeros = np.arange, np.asarray, np.empty_like, np.zeros
add_entry_names(globals(), "_arange", "_asarray", "_empty_like", "_device_ones", "_zeros")


def refuse_masked_within(sequence: Any) -> None:
    """Raise if a list or tuple, or one nested in it, holds a masked array.

    Raises:
        ArgumentTypeError: there is a masked array.
    """
    if "numpy.ma" not in sys.modules:
        return
    kinds = set(map(type, sequence))
    if any(issubclass(kind, np.ndarray) for kind in kinds):
        for entry in sequence:
            refuse_masked(entry)
    if not kinds.isdisjoint((list, tuple)):
        for entry in sequence:
            if isinstance(entry, (list, tuple)):
                refuse_masked_within(entry)


def on_host(value: Any) -> np.ndarray:
    """Return a value as a NumPy array that Python can read; for an array of another library, wait for its values."""
    refuse_masked(value)
    # A list without elements does not tell the lengths of all axes.
    return np.asarray(value.tolist(), value.dtype).reshape(value.shape) if is_device_array(value) else np.asarray(value)


def array_interface(array: Any) -> Any:
    """Return the array interface of an array, which gives its address and memory layout.

    An array of another library has it as `__cuda_array_interface__`, which NumPy does not read as its own.
    """
    has_own = isinstance(array, _ndarray) and not is_recorder(array)
    return array.__array_interface__ if has_own else array.__cuda_array_interface__


def on_device(array: np.ndarray, device: Any) -> Any:
    """Return a new NumPy array as an array of a device; the same array where the device uses NumPy's."""
    return array if device is None or device.has_host_arrays else device.from_host(array)


def given_on_device(value: Any, device: Any) -> Any:
    """Return what a user's function has returned: a NumPy array on a device that has others, anything else as it is."""
    if device is None or device.has_host_arrays or not isinstance(value, (_ndarray, np.generic)):
        return value
    return device.from_host(np.asarray(value))


def add(first: Any, second: Any) -> Any:
    """Return the sum of two gradients of one shape and dtype as a new value."""
    if first.__class__ in DEVICE_FUNCTIONS and (total := own_function("add", first)(first, second)) is not None:
        return total
    return first + second


def add_into(total: Any, value: Any) -> Any:
    """Add `value` into `total`, which the caller owns; return the sum, which is `total` itself if that is an array."""
    if total.__class__ in DEVICE_FUNCTIONS and (kernel := own_function("add_into", total)) is not no_function:
        kernel(total, value)
        return total
    total += value
    return total


def sum_to(value: Any, shape: tuple[int, ...]) -> Any:
    """Sum a gradient over the axes along which an input of `shape` was broadcast.

    Args:
        value: the gradient, of shape `(*extra, *shape')`, where `shape'` agrees with `shape` except where
            `shape` has a 1.
        shape: the shape of the result.

    Returns:
        The gradient of shape `shape`, or None where only an expansion could give that shape.
    """
    extra = value.ndim - len(shape)
    if extra < 0:
        return None
    axes = tuple(range(extra))
    for axis, (have, want) in enumerate(zip(value.shape[extra:], shape, strict=True), extra):
        if have != want:
            if want != 1:
                return None
            axes += (axis,)
    if type(value) is _ndarray:
        # What np.sum and np.reshape do, without their overhead, which costs as much as summing a few thousand numbers.
        if value.itemsize == 2 and value.dtype.kind == "f":
            # Along other axes than the last NumPy rounds each partial sum: thousands of ones add up to 2,048.
            # test_a_gradient_over_more_elements_than_float16_counts_is_that_of_float64_rounded.
            return np.asarray(np.add.reduce(value, axis=axes, dtype=np.float32)).astype(value.dtype).reshape(shape)
        return np.asarray(np.add.reduce(value, axis=axes)).reshape(shape)
    is_half = isinstance(value, TensorBase) and value._data.__class__ is _ndarray and value._data.dtype == np.float16
    if is_half:
        total = own_function(np.sum, value)(value, axis=axes, dtype=np.float32).astype(np.float16)
    else:
        total = own_function(np.sum, value)(value, axis=axes)
    # A leaf cannot take over a view, which is not the only reference to its memory.
    return total if total.shape == shape else np.reshape(total, shape)


def cast(value: Any, dtype: Any) -> Any:
    """Return the gradient in `dtype`; a complex gradient of a real input keeps its real part."""
    if value.dtype.kind == "c" and np.dtype(dtype).kind != "c":
        value = np.real(value)
    return value.astype(dtype)


def zeros(shape: tuple[int, ...], dtype: Any, device: Any = None) -> Any:
    """Return an array of zeros on a device; a NumPy array where the device is None."""
    if device is None or device.has_host_arrays:
        return np.zeros(shape, dtype)
    # Only one number is copied to the device.
    return zeros_like(device.from_host(np.zeros((), dtype)), shape)


def scalar(value: Any, dtype: Any, device: Any = None) -> Any:
    """Return a number as a 0-d array on a device, of the dtype that NumPy gives it next to an array of `dtype`."""
    return on_device(np.asarray(value, np.result_type(dtype, value)), device)


def clone(value: Any) -> Any:
    """Return a copy of a tensor, with its history."""
    return np.positive(value)


def is_dense(array: Any) -> bool:
    """Tell whether the elements fill one block of memory without gaps or overlap, in any order of the axes."""
    if array.flags.forc:
        return True
    filled = array.itemsize
    for stride, size in sorted(zip(array.strides, array.shape, strict=True)):
        if size > 1:
            if stride != filled:
                return False
            filled *= size
    return True


def clone_like(value: Any, like: Any) -> Any:
    """Return an unshared copy of `value` with the dtype and memory layout of `like`.

    The copy is C-ordered where `like` is not dense. The two dtypes differ at most in byte order.
    """
    copy = np.empty_like(like, order="K" if is_dense(like) else "C", shape=value.shape)
    copy[...] = value
    return copy


def contiguous(array: Any) -> Any:
    """Return an array in C order: itself where it lies so, else a copy."""
    return array if array.flags.c_contiguous else array.copy()


def own_copy(array: Any) -> Any:
    """Return an unshared copy of a bare array with its memory layout, made on the device of the array."""
    return _copy(array)


_copy = operator.methodcaller("copy", order="K")
add_entry_names(globals(), "_copy")


def memory_owner(array: Any) -> Any:
    """Return the array that owns the memory of `array`: the last one in the chain of bases."""
    while has_memory(array.base):
        array = array.base
    return array


@final
class OwnedMemory:
    """What the array that `owned` returns is a view of: nobody else has its memory."""

    __slots__ = ("__array_interface__", "_array")

    def __init__(self, array: np.ndarray) -> None:
        interface: dict[str, Any] = array.__array_interface__
        # A library whose arrays nobody writes into says that it is read-only.
        self.__array_interface__: dict[str, Any] = interface | {"data": (interface["data"][0], False)}
        self._array = array


def owned(array: np.ndarray) -> np.ndarray:
    """Return an array over the memory of `array`, whose caller vouches that nobody else has that memory.

    A leaf may take it over as its gradient, as it does with arrays whose memory NumPy has allocated for them.
    """
    return array if array.flags.owndata else np.asarray(OwnedMemory(array))


def has_memory(value: Any) -> bool:
    """Tell whether a value is an array, NumPy's or another library's, whose memory views may share."""
    return isinstance(value, _ndarray) or is_device_array(value)


def has_nan(value: Any) -> bool:
    """Tell whether a gradient holds NaN; only a floating or complex one can."""
    value = raw(value)
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return isinstance(value, (float, complex)) and value != value
    return dtype.kind in "fc" and bool(np.isnan(value).any())


def numbers_of(arrays: Sequence[Any]) -> list[Any]:
    """Return arrays without axes as numbers of Python; those of a device by one copy, for which the host waits."""
    places: dict[Any, list[int]] = {}
    for index, array in enumerate(arrays):
        place = (type(array), array.dtype, repr(getattr(array, "device", None))) if is_device_array(array) else None
        places.setdefault(place, []).append(index)
    found = list(arrays)
    for place, indices in places.items():
        group = [arrays[index] for index in indices]
        numbers = [one.item() for one in group] if place is None else on_device_of(group, np.stack).tolist()
        for index, one in zip(indices, numbers, strict=True):
            found[index] = one
    return found


def raw(value: Any) -> Any:
    """Return the bare array under a tensor; anything else as it is."""
    return value._data if isinstance(value, TensorBase) else value


def constant_copy(value: Any) -> Any:
    """Return a copy of the bare array under a tensor, or of an array, that a node may save; anything else as it is."""
    bare = raw(value)
    return own_copy(bare) if has_memory(bare) else bare


def counted(number: int, what: str) -> str:
    """Return a number with a noun, in the plural unless the number is 1, for an error message."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def is_labelled(value: Any) -> bool:
    """Tell whether this is an object of xarray, which computes with the array that it holds, a tensor too."""
    return type(value).__module__.startswith("xarray.")


def computes_ufuncs(value: Any) -> bool:
    """Tell whether this is no array, and its class has an `__array_ufunc__` of its own, which NumPy calls."""
    has_own = getattr(type(value), "__array_ufunc__", None) is not None
    return has_own and not isinstance(value, (_ndarray, TensorBase)) and not is_device_array(value)


def is_number_dtype(dtype: Any) -> bool:
    """Tell whether elements of a dtype are numbers: booleans, integers, floating or complex numbers."""
    # Other packages define floating dtypes of few bits; to NumPy their kind is void, with a scalar type of their own.
    return dtype.kind in "biufc" or (dtype.kind == "V" and not issubclass(dtype.type, np.void))


def check_numbers(
    name: str,
    dtype: Any,
    operands: Iterable[Any] = (),
    *,
    instead: str = "pass numbers, and dtypes of numbers, or call the function on t.numpy(), without history",
) -> None:
    """Raise if a result of this dtype cannot be a tensor.

    Args:
        name: the name of the function that returned the result.
        dtype: the dtype of the result.
        operands: the arguments of the function.
        instead: what to write where no operand is the cause.

    Raises:
        ArgumentTypeError: the elements are not numbers.
    """
    if is_number_dtype(dtype):
        return
    cause = next(filter(_is_no_number, operands), None)
    if cause is None:
        raise ArgumentTypeError(
            f"{name} of a tensor would give an array of dtype {dtype}, and a tensor holds numbers: {instead}"
        )
    raise ArgumentTypeError(
        f"{name} of a tensor and {describe(cause)} would give an array of dtype {dtype}, and a tensor holds numbers: "
        f"{_instead(cause)}"
    )


def refuse_complex(
    function: str, what: str, array: Any, instead: str = "", error: type[Exception] = ArgumentTypeError
) -> None:
    """Raise if an argument of a function of real numbers is complex.

    Args:
        function: the name of the function.
        what: what it takes, such as "a real array".
        array: the argument, an array or a tensor.
        instead: what to write.
        error: the type of the error.

    Raises:
        ArgumentTypeError: it is complex; or `error`.
    """
    if array.dtype.kind == "c":
        raise error(not_of_dtype(function, what, array, instead))


def not_of_dtype(function: str, what: str, array: Any, instead: str = "") -> str:
    """Return the words for an argument whose dtype a function does not take: see `refuse_complex`."""
    return f"{function} takes {what}, not {array.dtype}{instead and f': {instead}'}"


def refuse_sparse(name: str, operands: Iterable[Any], error: Exception | None = None) -> None:
    """Replace the error of a function by a clearer one if a sparse matrix is among its operands.

    Args:
        name: the name of the function.
        operands: the arguments of the function.
        error: the error of the function, which seldom names the sparse matrix as the cause; None before it is called.

    Raises:
        ArgumentTypeError: there is a sparse matrix.
    """
    for operand in operands:
        if isinstance(operand, (list, tuple)):
            refuse_sparse(name, operand, error)
        elif is_sparse(operand) and ".toarray()" not in str(error):
            raise ArgumentTypeError(f"{name} of a tensor and {describe(operand)}: {_instead(operand)}") from error


def _is_no_number(operand: Any) -> bool:
    if isinstance(operand, (TensorBase, bool, int, float, complex, np.dtype, type)) or operand is None:
        return False
    if is_sparse(operand):
        return True
    try:
        return not is_number_dtype(np.asarray(operand).dtype)
    except (TypeError, ValueError, RuntimeError):
        return False


def is_sparse(operand: Any) -> bool:
    """Tell whether this is a sparse array or matrix of SciPy's."""
    # Of its type: an object of another library may compute attributes that it does not have.
    return hasattr(type(operand), "toarray") and hasattr(type(operand), "nnz")


def _instead(cause: Any) -> str:
    """Return what to write instead of passing `cause`, for an error message."""
    if is_sparse(cause):
        return (
            "sparse matrices are supported beside tensors by @, *, + and - and by asyncgrad.scipy.sparse, so write "
            f"{type(cause).__name__}.toarray() for it"
        )
    if isinstance(cause, Number) and not isinstance(cause, np.generic):  # a Fraction or a Decimal, and no timedelta64
        return f"write float(...) of the {type(cause).__name__}"
    if getattr(getattr(cause, "dtype", None), "kind", "O") == "O":
        return "pass numbers, such as array.astype(float)"
    return "pass numbers"
