"""A function of NumPy as one that returns Tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, final

import numpy as np

from ..core.ops.dispatch import call_function, call_ufunc
from ..core.recording.primitive import RULES
from ..core.settings.unawaited import refuse_unawaited
from ..core.tensor import Tensor, asarray
from ..errors import RequiresGradError

__all__ = [
    "Explain",
    "IndexTrick",
    "as_tensors",
    "stacked_where_needed",
    "wrap_creation",
    "wrap_function",
    "wrap_ufunc",
]

#: Takes an error and the arguments of the call that raised it, and says more in it, or returns another one to raise.
Explain = Callable[[Exception, tuple[Any, ...], dict[str, Any]], Exception | None]

#: What a ufunc has besides its methods.
_UFUNC_ATTRIBUTES = ("identity", "nargs", "nin", "nout", "ntypes", "signature", "types")
#: What a Tensor may stand beside for the other operand to have no say.
_OPERANDS = frozenset({Tensor, np.ndarray, np.float64, bool, complex, float, int})
_UFUNC_METHODS = ("accumulate", "at", "outer", "reduce", "reduceat")


def as_tensors(result: Any) -> Any:
    """Return a result of NumPy with its arrays as Tensors, also in lists and tuples.

    Texts, dates and objects, which no Tensor holds, stay NumPy's. So do NumPy's numbers, which it computes where no
    argument is a Tensor: they cannot change, count as indices and keys, and repeat lists, as in `[0] * np.prod(shape)`.
    """
    kind = type(result)
    if kind is Tensor:
        return result
    if isinstance(result, np.ndarray):
        if result.dtype.kind in "biufc":
            return asarray(result)
        refuse_unawaited("asyncgrad.numpy", (result,))
        return result
    if kind is list or kind is tuple:
        return kind([as_tensors(part) for part in result])
    if isinstance(result, tuple) and hasattr(kind, "_make"):
        return kind._make([as_tensors(part) for part in result])
    return result


def wrap_function(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a function that takes what `function` takes, and returns Tensors.

    A Tensor as the first argument leads to the rule at once, without NumPy's dispatch; it is the same rule.
    """
    if function not in RULES:

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            return as_tensors(function(*args, **kwargs))

    else:

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if args and args[0].__class__ is Tensor and len(args) == 1:
                return call_function(function, args, kwargs)
            try:
                return as_tensors(function(*args, **kwargs))
            except RequiresGradError:
                # NumPy looks for Tensors in the arguments, and in lists only of functions that join arrays.
                stacked = tuple([stacked_where_needed(argument) for argument in args])
                if all(one is other for one, other in zip(stacked, args, strict=True)):
                    raise
            return as_tensors(function(*stacked, **kwargs))

    return _named(wrapped, function, name)


def stacked_where_needed(argument: Any) -> Any:
    """Return nested sequences that hold Tensors as one Tensor, with their history, and all else as it is."""
    return _stacked(argument) if isinstance(argument, (list, tuple)) and _holds_tensor(argument) else argument


def _holds_tensor(sequence: Any) -> bool:
    return any(
        isinstance(part, Tensor) or (isinstance(part, (list, tuple)) and _holds_tensor(part)) for part in sequence
    )


def _stacked(sequence: Any) -> Any:
    return np.stack([_stacked(part) if isinstance(part, (list, tuple)) else part for part in sequence])


def wrap_ufunc(ufunc: np.ufunc, name: str, explain: Explain | None = None) -> Callable[..., Any]:
    """Return a function that takes what `ufunc` takes, has its methods and attributes, and returns Tensors.

    As in `wrap_function`, Tensors lead to the rule at once, also beside arrays and numbers, which leave it to them.

    Args:
        ufunc: what is called.
        name: its name.
        explain: what words errors, if it is not NumPy.
    """
    wrapped: Callable[..., Any]
    if ufunc.nin == 2:

        def wrapped(x1: Any, x2: Any, /, *out: Any, **kwargs: Any) -> Any:
            if x1.__class__ is Tensor:
                is_direct = x2.__class__ in _OPERANDS
            else:
                is_direct = x2.__class__ is Tensor and x1.__class__ in _OPERANDS
            try:
                if is_direct and not kwargs and not out:
                    return call_ufunc(ufunc, "__call__", (x1, x2), kwargs)
                return as_tensors(ufunc(x1, x2, *out, **kwargs))
            except Exception as error:
                refuse_unawaited(name, (x1, x2), error)
                other = None if explain is None else explain(error, (x1, x2, *out), kwargs)
                if other is None:
                    raise
                raise other from error

    else:

        def wrapped(x: Any, /, *more: Any, **kwargs: Any) -> Any:
            try:
                if x.__class__ is Tensor and not kwargs and not more:
                    return call_ufunc(ufunc, "__call__", (x,), kwargs)
                return as_tensors(ufunc(x, *more, **kwargs))
            except Exception as error:
                refuse_unawaited(name, (x, *more), error)
                other = None if explain is None else explain(error, (x, *more), kwargs)
                if other is None:
                    raise
                raise other from error

    for method in _UFUNC_METHODS:
        setattr(wrapped, method, wrap_function(getattr(ufunc, method), method))
    for attribute in _UFUNC_ATTRIBUTES:
        setattr(wrapped, attribute, getattr(ufunc, attribute))
    return _named(wrapped, ufunc, name)


def wrap_creation(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a function that takes what `function` takes, and `device` and `requires_grad` of the Tensor it returns."""

    def wrapped(*args: Any, device: Any = None, requires_grad: bool = False, **kwargs: Any) -> Any:
        found = as_tensors(function(*args, **kwargs))
        if isinstance(found, Tensor):
            return asarray(found, device=device, requires_grad=requires_grad)
        return found

    return _named(wrapped, function, name)


def _named(wrapped: Callable[..., Any], function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Give a wrapper the name and the signature of what it wraps; the text of NumPy's documentation stays there."""
    functools.update_wrapper(wrapped, function, assigned=(), updated=())
    module = "asyncgrad.numpy" + (getattr(function, "__module__", None) or "numpy").removeprefix("numpy")
    wrapped.__name__ = wrapped.__qualname__ = name
    wrapped.__module__ = module
    wrapped.__doc__ = f"The function `{module.removeprefix('asyncgrad.')}.{name}`, with Tensors as results."
    return wrapped


@final
class IndexTrick:
    """An object of NumPy that is written with square brackets, such as `np.r_[0:3, x]`, with Tensors as results."""

    __slots__ = ("_trick",)

    def __init__(self, trick: Any) -> None:
        self._trick = trick

    def __getitem__(self, key: Any) -> Any:
        items = key if isinstance(key, tuple) else (key,)
        if not any(isinstance(item, Tensor) for item in items):
            return as_tensors(self._trick[key])
        # NumPy joins the places of the elements, and so decides where each of them goes.
        places: list[Any] = []
        parts: list[Any] = []
        count = 0
        for item in items:
            if isinstance(item, str):
                places.append(item)
                continue
            part = np.r_[item] if isinstance(item, slice) else item
            size = int(np.size(part))
            places.append(np.arange(count, count + size).reshape(np.shape(part)))
            parts.append(np.ravel(part))
            count += size
        return np.concatenate(parts)[self._trick[tuple(places)]]
