"""Python's operators and conversions, as an array has them."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any, Self, TypeVar

import numpy as np

from .errors import ArgumentError, ArgumentTypeError, RequiresGradError
from .graph.tensor_base import TensorBase
from .graph.values import raw, refuse_masked, refuse_sparse
from .ops.arithmetic import add, divide, multiply, negative, positive, power, remainder, subtract
from .ops.assigning import setitem
from .ops.extremes import absolute
from .ops.in_place import in_place, written_by
from .ops.indexing import getitem, part
from .ops.linear_algebra import matmul
from .ops.primitive import RULES

__all__ = ["ArrayOperators"]

T = TypeVar("T", bound=TensorBase)


def _deferred(other: Any, error: Exception, name: str) -> Any:
    """Leave an operation to an operand that asks for that; raise the error for any other.

    Asked only after NumPy refused the operand, since asking each one would cost on the hottest path there is.
    """
    if isinstance(error, TypeError) and getattr(type(other), "__array_ufunc__", error) is None:
        return NotImplemented
    refuse_sparse(name, (other,), error)
    raise error


def _asked_first(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that refuses such an operand, for those that would not notice it."""

    @functools.wraps(function)
    def careful(x: Any, y: Any) -> Any:
        if isinstance(x, TensorBase) and isinstance(y, TensorBase):
            return function(x, y)
        for operand in (x, y):
            if getattr(type(operand), "__array_ufunc__", careful) is None:
                raise TypeError(f"operand of type {type(operand).__name__} does not support ufuncs")
        return function(x, y)

    return careful


def _operator(function: Callable[..., Any]) -> Callable[[T, Any], T]:
    """Return the operator of a function of two arrays, with the tensor on the left."""

    def operator(self: T, other: Any) -> T:
        try:
            return function(self, other)  # type: ignore[no-any-return]
        except Exception as error:
            return _deferred(other, error, function.__name__)  # type: ignore[no-any-return]

    return operator


def _reflected(function: Callable[..., Any]) -> Callable[[T, Any], T]:
    """Return the operator with the tensor on the right."""

    def operator(self: T, other: Any) -> T:
        try:
            return function(other, self)  # type: ignore[no-any-return]
        except Exception as error:
            return _deferred(other, error, function.__name__)  # type: ignore[no-any-return]

    return operator


def _matmul_in_place(x: Any, y: Any) -> Any:
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


_equal, _not_equal, _divmod = RULES[np.equal], RULES[np.not_equal], RULES[np.divmod]
_invert = RULES[np.invert]


class ArrayOperators(TensorBase):
    """Abstract: what Python's syntax asks of an array."""

    __slots__ = ()

    # Made by a function each, since they differ in nothing but what they call, and cost no more so. The first few are
    # the drivers of primitives themselves, since they are called most.

    __add__ = add.operator(_deferred)
    __radd__ = _reflected(add.call)
    __iadd__ = in_place(add, operator.iadd)

    __sub__ = subtract.operator(_deferred)
    __rsub__ = _reflected(subtract.call)
    __isub__ = in_place(subtract, operator.isub)

    __mul__ = multiply.operator(_deferred)
    __rmul__ = _reflected(multiply.call)
    __imul__ = in_place(multiply, operator.imul)

    __truediv__ = divide.operator(_deferred)
    __rtruediv__ = _reflected(divide.call)
    __itruediv__ = in_place(divide, operator.itruediv)

    __floordiv__ = _operator(RULES[np.floor_divide])
    __rfloordiv__ = _reflected(RULES[np.floor_divide])
    __ifloordiv__ = written_by(RULES[np.floor_divide], operator.ifloordiv)

    __mod__ = _operator(remainder.call)
    __rmod__ = _reflected(remainder.call)
    __imod__ = in_place(remainder, operator.imod)

    __pow__ = _operator(_asked_first(power.call))
    __rpow__ = _reflected(_asked_first(power.call))
    __ipow__ = written_by(_asked_first(power.call), operator.ipow)

    __matmul__ = _operator(_asked_first(matmul))
    __rmatmul__ = _reflected(_asked_first(matmul))
    __imatmul__ = written_by(_asked_first(_matmul_in_place), operator.imatmul)

    __and__ = _operator(RULES[np.bitwise_and])
    __rand__ = _reflected(RULES[np.bitwise_and])
    __iand__ = written_by(RULES[np.bitwise_and], operator.iand)

    __or__ = _operator(RULES[np.bitwise_or])
    __ror__ = _reflected(RULES[np.bitwise_or])
    __ior__ = written_by(RULES[np.bitwise_or], operator.ior)

    __xor__ = _operator(RULES[np.bitwise_xor])
    __rxor__ = _reflected(RULES[np.bitwise_xor])
    __ixor__ = written_by(RULES[np.bitwise_xor], operator.ixor)

    __lshift__ = _operator(RULES[np.left_shift])
    __rlshift__ = _reflected(RULES[np.left_shift])
    __ilshift__ = written_by(RULES[np.left_shift], operator.ilshift)

    __rshift__ = _operator(RULES[np.right_shift])
    __rrshift__ = _reflected(RULES[np.right_shift])
    __irshift__ = written_by(RULES[np.right_shift], operator.irshift)

    __lt__ = _operator(RULES[np.less])
    __le__ = _operator(RULES[np.less_equal])
    __gt__ = _operator(RULES[np.greater])
    __ge__ = _operator(RULES[np.greater_equal])

    def __eq__(self, other: object) -> Any:
        try:
            return _equal(self, other)
        except TypeError as error:
            # NumPy answers for what it cannot compare, such as a string: no element is equal to it.
            return _compared(self, self._data.__eq__(raw(other)), error)

    def __ne__(self, other: object) -> Any:
        try:
            return _not_equal(self, other)
        except TypeError as error:
            return _compared(self, self._data.__ne__(raw(other)), error)

    # Its elements can change, and == gives an array: what is kept in sets and dicts is which tensor it is.
    __hash__ = object.__hash__

    def __divmod__(self, other: Any) -> tuple[Self, Self]:
        try:
            return _divmod(self, other)  # type: ignore[no-any-return]
        except Exception as error:
            return _deferred(other, error, "divmod")  # type: ignore[no-any-return]

    def __rdivmod__(self, other: Any) -> tuple[Self, Self]:
        try:
            return _divmod(other, self)  # type: ignore[no-any-return]
        except Exception as error:
            return _deferred(other, error, "divmod")  # type: ignore[no-any-return]

    def __neg__(self) -> Self:
        return negative.call(self)  # type: ignore[no-any-return]

    def __pos__(self) -> Self:
        return positive.call(self)  # type: ignore[no-any-return]

    def __abs__(self) -> Self:
        return absolute.call(self)  # type: ignore[no-any-return]

    def __invert__(self) -> Self:
        return _invert(self)  # type: ignore[no-any-return]

    # As a container.

    def __getitem__(self, index: Any) -> Self:
        return getitem(self, index)  # type: ignore[no-any-return]

    def __setitem__(self, index: Any, value: Any) -> None:
        setitem(self, index, value)

    def __len__(self) -> int:
        if self._data.ndim == 0:
            raise TypeError("len() of unsized object: a tensor without axes has one element, t.item()")
        return len(self._data)

    def __iter__(self) -> Iterator[Self]:
        if self._data.ndim == 0:
            raise TypeError("a tensor without axes cannot be iterated over: t.item() is its one element")
        return (part(self, index) for index in range(len(self._data)))

    def __contains__(self, value: object) -> bool:
        return bool(np.any(self._data == raw(value)))

    # As a Python number, or bytes. Only a truth value says too little of a number for its history to be missed.

    def __bool__(self) -> bool:
        return bool(self._data)

    def __int__(self) -> int:
        return int(self._number())

    def __float__(self) -> float:
        return float(self._number())

    def __complex__(self) -> complex:
        return complex(self._number())

    def __index__(self) -> int:
        return self._number().__index__()  # type: ignore[no-any-return]

    def __round__(self, ndigits: int | None = None) -> Any:
        return round(self._only_element("round()", "t.round()"), ndigits)

    def __trunc__(self) -> int:
        return math.trunc(self._only_element("math.trunc()", "np.trunc(t)"))  # type: ignore[no-any-return]

    def __bytes__(self) -> bytes:
        self._needs_no_grad("bytes", "t.numpy()")
        return bytes(self._data)

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

    def _number(self) -> Any:
        """Return the array, for Python to make a number of."""
        self._needs_no_grad("a Python number", "t.item()")
        return self._data

    def _only_element(self, function: str, instead: str) -> Any:
        """Return the one element as a Python number, for a function that takes no arrays."""
        if self._data.ndim:
            raise ArgumentTypeError(
                f"{function} takes one number, and this tensor has shape {self._data.shape}: write {instead}"
            )
        return self._number().item()

    def _needs_no_grad(
        self,
        made: str,
        instead: str,
        otherwise: str = "NumPy's functions, not those of math, to compute with it",
        function: str | None = None,
    ) -> None:
        """Raise if this tensor requires grad: what is to be made of it, by a `function` if known, has no history.

        Raises:
            RequiresGradError: says what to write `instead` to drop the history, and `otherwise`.
        """
        if self._requires_grad():
            converts = "converting" if function is None else f"{function} has no derivative rule, and converting"
            raise RequiresGradError(
                f"{converts} a tensor of shape {self._data.shape} that requires grad to {made} would drop its history "
                f"in silence: write {instead} or t.detach() if that is meant, and {otherwise}"
            )

    @property
    def _mask(self) -> Any:
        """What numpy.ma asks for when it computes with the bare `_data` of something that is no masked array."""
        self._needs_no_grad("a masked array", "t.numpy()")
        return np.ma.nomask


def _compared(tensor: TensorBase, result: Any, error: TypeError) -> Any:
    """Return what NumPy's own comparison said, as a plain tensor."""
    if result is NotImplemented:
        return result
    refuse_masked(result)
    if not isinstance(result, (np.ndarray, np.generic)):
        raise error
    return type(tensor)(np.asarray(result), None, 0, tensor._device)
