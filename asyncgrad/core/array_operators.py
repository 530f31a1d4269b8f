"""Python's operators on a tensor: they call array functions, and defer to operands that support no ufuncs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ..errors import ArgumentError, ArgumentTypeError
from .arrays.device_arrays import explain_refusal, name_shapes
from .arrays.tensor_base import TensorBase
from .arrays.values import computes_ufuncs, is_device_array, is_labelled, raw, refuse_masked, refuse_sparse, zeros_like
from .ops.linear_algebra import matmul
from .settings.arguments import takes
from .settings.callers import shorten_traceback
from .settings.lazy import import_deferred

__all__ = [
    "OPERATORS",
    "compare_unlike",
    "defer_or_raise",
    "matmul_in_place",
    "make_operator",
    "make_reflected_operator",
    "check_operands",
]

T = TypeVar("T", bound=TensorBase)

#: By library, what computes an operator on a tensor and an operand of that library: a function of the operator's name,
#: both, and whether the tensor is on the right. The module that is for the library puts it here.
OPERATORS: dict[str, Callable[[str, Any, Any, bool], Any]] = {}


def defer_or_raise(other: Any, error: Exception, name: str, tensor: T, reflected: bool = False) -> T:
    """Return NotImplemented for an operand that a NumPy array leaves the operator to; raise the error for any other.

    That is one whose class sets `__array_ufunc__` to None, or has none and an `__array_priority__` above a tensor's. An
    `__array_ufunc__` of its own computes the operator, and SciPy's sparse matrices' and arrays' are computed by
    `asyncgrad.scipy.sparse`.

    The error names the shapes of both operands where they do not fit.

    It is called only after NumPy has refused the operand: checking each operand first would slow every operation.
    """
    if isinstance(error, TypeError):
        protocol = getattr(type(other), "__array_ufunc__", error)
        priority = getattr(tensor, "__array_priority__", math.inf)
        if protocol is None or (protocol is error and getattr(other, "__array_priority__", 0) > priority):
            deferred: T = NotImplemented
            return deferred
        ufunc = getattr(np, name, None)
        if isinstance(ufunc, np.ufunc) and computes_ufuncs(other):
            computed: T = ufunc(*((other, tensor) if reflected else (tensor, other)))
            return computed
    shorten_traceback(error)
    if tensor is not None and type(other).__module__.startswith("scipy.sparse."):
        result = _apply_sparse(name, tensor, other, reflected)
        if result is not NotImplemented:
            return result
    refuse_sparse(name, (other,), error)
    explain_refusal(name, (tensor, other), error)
    is_uncalled = callable(other) and not hasattr(other, "__array_ufunc__") and not hasattr(other, "__radd__")
    if is_uncalled or (isinstance(error, TypeError) and (other is None or isinstance(other, (str, dict)))):
        hint = "does the function that should return it end without return?" if other is None else ""
        hint = "call it, and compute with what it returns" if is_uncalled else hint
        raise ArgumentTypeError(takes(name, "tensors, arrays and numbers", other, hint)) from error
    name_shapes(name, (tensor, other), error)
    try:
        raise error
    finally:
        # The error refers to this frame, and would keep the tensors of the whole forward until a garbage collection.
        del error


def _apply_sparse(name: str, tensor: T, other: Any, reflected: bool) -> T:
    # Loaded only now: it needs SciPy, which is there if the operand is.
    import_deferred("scipy.sparse")
    found: T = OPERATORS["scipy.sparse"](name, tensor, other, reflected)
    return found


def check_operands(function: Callable[..., Any], defers: bool = True) -> Callable[..., Any]:
    """Return `function`, made to refuse an operand whose class sets `__array_ufunc__` to None, as a ufunc does.

    For an object of xarray it returns NotImplemented if it `defers`: the operator of that keeps its labels, and the
    history.
    """

    @functools.wraps(function)
    def wrapper(x: Any, y: Any) -> Any:
        if isinstance(x, TensorBase) and isinstance(y, TensorBase):
            return function(x, y)
        for operand in (x, y):
            protocol = getattr(type(operand), "__array_ufunc__", wrapper)
            if protocol is None:
                raise TypeError(f"operand of type {type(operand).__name__} does not support ufuncs")
            # A number has none.
            if defers and protocol is not wrapper and is_labelled(operand):
                return NotImplemented
        return function(x, y)

    return wrapper


def make_operator(function: Callable[[T, Any], T]) -> Callable[[T, Any], T]:
    """Return the operator that calls a function of two arrays, with the tensor on the left."""

    def operator(self: T, other: Any) -> T:
        try:
            return function(self, other)
        except Exception as error:
            return defer_or_raise(other, error, function.__name__, self)

    return operator


def make_reflected_operator(function: Callable[[Any, T], T]) -> Callable[[T, Any], T]:
    """Return the operator that calls a function of two arrays, with the tensor on the right."""

    def operator(self: T, other: Any) -> T:
        try:
            return function(other, self)
        except Exception as error:
            return defer_or_raise(other, error, function.__name__, self, True)

    return operator


def matmul_in_place(x: Any, y: Any) -> Any:
    """Return x @ y for `x @= y`; raise if NumPy would not write it into x."""
    shape = np.shape(raw(y))
    extra = len(shape) - max(x.ndim, 2)
    if extra > 0 and set(shape[:extra]) == {1}:
        y = np.reshape(y, shape[extra:])
    result = matmul(x, y)
    if len(shape) < 2 or result.shape != x.shape:
        raise ArgumentError(
            f"x @= y needs a y of two axes at least, and a product of the shape of x; x has shape {x.shape} and y has "
            f"shape {shape}: write x = x @ y"
        )
    return result


def compare_unlike(tensor: T, other: Any, is_equal: bool, error: TypeError) -> T:
    """Return the tensor compared with what a ufunc has refused, such as a string: no element is equal to it.

    NumPy answers that, and where it defers to the class of `other`, its NotImplemented stays as it is.
    """
    if is_device_array(tensor._data):
        # NumPy cannot answer for such an array.
        if isinstance(other, (TensorBase, np.ndarray, list, tuple)):
            return defer_or_raise(other, error, "equal" if is_equal else "not_equal", tensor)
        unequal = zeros_like(tensor._data, tensor._data.shape, bool)
        return type(tensor)(unequal if is_equal else ~unequal, None, 0, tensor._device)
    result = tensor._data.__eq__(raw(other)) if is_equal else tensor._data.__ne__(raw(other))
    if result is NotImplemented:
        deferred: T = NotImplemented
        return deferred
    refuse_masked(result)
    if not isinstance(result, (np.ndarray, np.generic)):
        try:
            raise error
        finally:
            # As in defer_or_raise().
            del error
    return type(tensor)(np.asarray(result), None, 0, tensor._device)
