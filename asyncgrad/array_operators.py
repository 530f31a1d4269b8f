"""How Python's operators on a tensor call the functions of arrays, and what they leave to the other operand."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from .errors import ArgumentError
from .graph.tensor_base import TensorBase
from .graph.values import raw, refuse_masked, refuse_sparse
from .ops.foreign import explain_refusal
from .ops.linear_algebra import matmul

__all__ = [
    "compared",
    "deferred",
    "matmul_in_place",
    "operator_of",
    "reflected_operator_of",
    "refusing_deferring",
]

T = TypeVar("T", bound=TensorBase)


def deferred(other: Any, error: Exception, name: str) -> Any:
    """Return NotImplemented for an operand whose class sets `__array_ufunc__` to None; raise the error for any other.

    Called only once NumPy has refused the operand: to look at each operand before would cost on the hottest path.
    """
    if isinstance(error, TypeError) and getattr(type(other), "__array_ufunc__", error) is None:
        return NotImplemented
    refuse_sparse(name, (other,), error)
    explain_refusal(name, (other,), error)
    raise error


def refusing_deferring(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that refuses an operand whose class sets `__array_ufunc__` to None, as a ufunc does."""

    @functools.wraps(function)
    def checked(x: Any, y: Any) -> Any:
        if isinstance(x, TensorBase) and isinstance(y, TensorBase):
            return function(x, y)
        for operand in (x, y):
            if getattr(type(operand), "__array_ufunc__", checked) is None:
                raise TypeError(f"operand of type {type(operand).__name__} does not support ufuncs")
        return function(x, y)

    return checked


def operator_of(function: Callable[..., Any]) -> Callable[[T, Any], T]:
    """Return the operator of a function of two arrays, with the tensor on the left."""

    def operator(self: T, other: Any) -> T:
        try:
            return function(self, other)  # type: ignore[no-any-return]
        except Exception as error:
            return deferred(other, error, function.__name__)  # type: ignore[no-any-return]

    return operator


def reflected_operator_of(function: Callable[..., Any]) -> Callable[[T, Any], T]:
    """Return the operator with the tensor on the right."""

    def operator(self: T, other: Any) -> T:
        try:
            return function(other, self)  # type: ignore[no-any-return]
        except Exception as error:
            return deferred(other, error, function.__name__)  # type: ignore[no-any-return]

    return operator


def matmul_in_place(x: Any, y: Any) -> Any:
    """Return x @ y, unless NumPy would not write that into x."""
    shape = np.shape(raw(y))
    extra = len(shape) - max(x.ndim, 2)
    if extra > 0 and set(shape[:extra]) == {1}:
        y = np.reshape(y, shape[extra:])
    result = matmul(x, y)
    if len(shape) < 2 or result.shape != x.shape:
        raise ArgumentError(
            f"x @= y needs two axes at least of y and a product of the shape of x, and here x has shape {x.shape} and "
            f"y {shape}: write x = x @ y"
        )
    return result


def compared(tensor: TensorBase, result: Any, error: TypeError) -> Any:
    """Return what NumPy's own comparison said, as a plain tensor."""
    if result is NotImplemented:
        return result
    refuse_masked(result)
    if not isinstance(result, (np.ndarray, np.generic)):
        raise error
    return type(tensor)(np.asarray(result), None, 0, tensor._device)
