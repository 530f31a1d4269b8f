"""NumPy's functions without a derivative: they give plain tensors, without history, and plain Python values."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, final

import numpy as np

from ...errors import MissingDerivativeError
from ..arrays.interception import add_operation
from ..arrays.one_device import mixed_devices
from ..arrays.tensor_base import TensorBase
from ..arrays.values import as_array, as_like, check_numbers, is_device_array, on_host, refuse_masked
from ..recording.primitive import RULES
from ..settings.context import GRAD_MODE

__all__ = ["NONDIFFERENTIABLE", "SAVING", "NonDifferentiable", "full_like", "nonzero"]

#: Functions that are constant wherever they have a derivative, or that do not depend on the values.
NONDIFFERENTIABLE: tuple[Callable[..., Any], ...] = (
    # comparison
    np.equal,
    np.greater,
    np.greater_equal,
    np.less,
    np.less_equal,
    np.not_equal,
    np.allclose,
    np.array_equal,
    np.array_equiv,
    np.isclose,
    # logic and predicates
    np.all,
    np.any,
    np.iscomplex,
    np.iscomplexobj,
    np.isfinite,
    np.isin,
    np.isinf,
    np.isnan,
    np.isneginf,
    np.isposinf,
    np.isreal,
    np.isrealobj,
    np.logical_and,
    np.logical_not,
    np.logical_or,
    np.logical_xor,
    np.signbit,
    # bits and integers
    np.bitwise_and,
    np.bitwise_count,
    np.bitwise_or,
    np.bitwise_xor,
    np.gcd,
    np.invert,
    np.lcm,
    np.left_shift,
    np.packbits,
    np.right_shift,
    np.unpackbits,
    # rounding and steps
    np.around,
    np.ceil,
    np.fix,
    np.floor,
    np.floor_divide,
    np.rint,
    np.round,
    np.spacing,
    np.trunc,
    # positions and counts
    np.argmax,
    np.argmin,
    np.argpartition,
    np.argsort,
    np.argwhere,
    np.count_nonzero,
    np.digitize,
    np.flatnonzero,
    np.lexsort,
    np.linalg.matrix_rank,
    np.nanargmax,
    np.nanargmin,
    np.nonzero,
    np.ravel_multi_index,
    np.searchsorted,
    np.unravel_index,
    # new arrays like another
    np.empty_like,
    np.ones_like,
    np.zeros_like,
    # about the array, not of it
    np.array2string,
    np.array_repr,
    np.array_str,
    np.can_cast,
    np.common_type,
    np.diag_indices_from,
    np.einsum_path,
    np.may_share_memory,
    np.min_scalar_type,
    np.ndim,
    np.result_type,
    np.shape,
    np.shares_memory,
    np.size,
    np.tril_indices_from,
    np.triu_indices_from,
)


@final
class NonDifferentiable:
    """A NumPy function called on the arrays of its Tensors; arrays that it returns become plain tensors.

    Args:
        function: the function.
        call: calls it, where the arguments depend on the library of the arrays.
    """

    __slots__ = ("__name__", "_called", "function")

    def __init__(self, function: Callable[..., Any], call: Callable[..., Any] | None = None) -> None:
        self.function: Callable[..., Any] = function
        self.__name__: str = function.__name__
        #: The function, or what is called in its place.
        self._called: Callable[..., Any] = call or function
        add_operation(self._called, function.__name__, functools.partial(setattr, self, "_called"))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; wrap arrays and NumPy scalars, and return anything else as it is."""
        tensors: list[TensorBase] = []
        raw = [_bare(value, tensors) for value in args]
        if kwargs:
            kwargs = {name: _bare(value, tensors) for name, value in kwargs.items()}
        result = self._called(*raw, **kwargs)
        if not tensors:
            return result
        template = tensors[0]
        for other in tensors:
            if other._device is not template._device:
                raise mixed_devices(self.function.__name__, template, other)
        return _wrapped(result, template, self.function, args)

    def __repr__(self) -> str:
        return f"<non-differentiable {self.function.__name__}>"


def _bare(value: Any, tensors: list[TensorBase]) -> Any:
    """Return `value` with arrays instead of its Tensors, in nested lists and tuples too; add those to `tensors`."""
    if isinstance(value, TensorBase):
        tensors.append(value)
        return value._data
    kind = value.__class__
    if kind is list or kind is tuple:
        return kind(_bare(item, tensors) for item in value)
    if kind is not np.ndarray and isinstance(value, np.ndarray):
        refuse_masked(value)
    return value


def _wrapped(result: Any, template: TensorBase, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    if result.__class__ is np.ndarray or isinstance(result, (np.ndarray, np.generic)) or is_device_array(result):
        if result.dtype.kind not in "biufc":
            check_numbers(function.__name__, result.dtype, args)
        return template.__class__(as_array(result), None, 0, template._device)
    if result.__class__ is tuple or (
        result.__class__ is list and result and (isinstance(result[0], np.ndarray) or is_device_array(result[0]))
    ):
        return result.__class__(_wrapped(part, template, function, args) for part in result)
    return result


def _argsort(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None) -> Any:
    if is_device_array(a):
        # Its own is stable, whatever is asked for, and knows no options.
        return np.argsort(a, axis)
    return np.argsort(a, axis, kind, order, stable=stable)


def _argpartition(a: Any, kth: Any, axis: int | None = -1, kind: Any = "introselect", order: Any = None) -> Any:
    if is_device_array(a):
        return np.argpartition(a, on_host(kth).tolist(), axis)
    return np.argpartition(a, kth, axis, kind, order)


def _count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    if is_device_array(a):
        return np.sum(a != 0, axis, np.intp, keepdims=keepdims)
    return np.count_nonzero(a, axis, keepdims=keepdims)


def _as_array_beside(value: Any, other: Any) -> Any:
    """Return a number or a sequence of such as an array beside another one, and an array as it is."""
    return value if hasattr(value, "shape") else as_like(np.asarray(value), other)


def _digitize(x: Any, bins: Any, right: bool = False) -> Any:
    # Its own takes no list of bins.
    return np.digitize(x, _as_array_beside(bins, x), right)


def _searchsorted(a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
    # Its own takes no lists.
    return np.searchsorted(_as_array_beside(a, v), _as_array_beside(v, a), side, sorter)


def _array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    # Its own takes arrays alone.
    return np.array_equal(_as_array_beside(a1, a2), _as_array_beside(a2, a1), equal_nan)


def _lexsort(keys: Any, axis: int = -1) -> Any:
    if isinstance(keys, (tuple, list)) and any(map(is_device_array, keys)):
        # Its own takes one array, of keys along one axis.
        keys = np.stack(keys)
    if is_device_array(keys):
        if keys.ndim > 2:
            raise NotImplementedError(f"keys of shape {keys.shape[1:]} rather than of one axis")
        return np.lexsort(keys)
    return np.lexsort(keys, axis)


def _is_complex(value: Any) -> bool:
    # np.iscomplexobj would be a call of the library.
    return value.dtype.kind == "c" if hasattr(value, "dtype") else isinstance(value, complex)


def _logical(ufunc: np.ufunc) -> Callable[..., Any]:
    """Return a logical ufunc, which takes complex arrays of other libraries, too: CuPy's does not."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if (args[0].__class__ is not np.ndarray or args[-1].__class__ is not np.ndarray) and any(
            map(is_device_array, args)
        ):
            args = tuple([one != 0 if _is_complex(one) else one for one in args])
        return ufunc(*args, **kwargs)

    call.__name__ = ufunc.__name__
    return call


_CALLS: dict[Any, Callable[..., Any]] = {
    np.argsort: _argsort,
    np.argpartition: _argpartition,
    np.array_equal: _array_equal,
    np.count_nonzero: _count_nonzero,
    np.digitize: _digitize,
    np.lexsort: _lexsort,
    np.searchsorted: _searchsorted,
    **{ufunc: _logical(ufunc) for ufunc in (np.logical_and, np.logical_not, np.logical_or, np.logical_xor)},
}
RULES.update({function: NonDifferentiable(function, _CALLS.get(function)) for function in NONDIFFERENTIABLE})
nonzero: Callable[..., Any] = RULES[np.nonzero]

_full_like = NonDifferentiable(np.full_like)


def full_like(a: Any, fill_value: Any, *args: Any, **kwargs: Any) -> Any:
    """Return a plain tensor like `a`, full of a value that must not require grad.

    Raises:
        MissingDerivativeError: `fill_value` requires grad, and its gradient would be lost.
    """
    if isinstance(fill_value, TensorBase) and fill_value._requires_grad() and GRAD_MODE.get():
        raise MissingDerivativeError(
            "numpy.full_like(a, t) would lose the history of t, which requires grad: "
            "write np.broadcast_to(t, a.shape), or pass t.numpy() as the fill_value"
        )
    return _full_like(a, fill_value, *args, **kwargs)


RULES[np.full_like] = full_like


def _saving(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that writes arrays to a file, for tensors as well, which must not require grad."""

    def save(*args: Any, **kwargs: Any) -> None:
        # The conversion raises where a history would be lost.
        function(*map(_on_host, args), **{name: _on_host(value) for name, value in kwargs.items()})

    save.__name__ = function.__name__
    save.__doc__ = f"Save as numpy.{function.__name__} does; the history of a tensor cannot be saved."
    return save


def _on_host(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, TensorBase) else value


#: They write files that hold no history.
SAVING: tuple[Callable[..., Any], ...] = (np.save, np.savetxt, np.savez, np.savez_compressed)
RULES.update({function: _saving(function) for function in SAVING})
