"""What may be asked of a value that is being differentiated, by HIPS autograd's names."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from ..core.tensor import Tensor

__all__ = ["Box", "getval", "isbox", "notrace_primitive"]

#: What HIPS autograd calls a box is a Tensor here.
Box = Tensor


def isbox(x: object) -> bool:
    """Tell whether a value is being differentiated.

    Example:
        >>> from asyncgrad.hips.tracer import isbox
        >>> isbox(1.0)
        False
    """
    return builtins.isinstance(x, Tensor)


def getval(x: Any) -> Any:
    """Return the value without its history: an array, or a number of NumPy.

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad.hips.tracer import getval
        >>> getval(1.5), getval(ag.tensor([1.0]))
        (1.5, array([1.]))
    """
    return x.numpy()[()] if builtins.isinstance(x, Tensor) else x


def notrace_primitive(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is called with the values of its arguments, so that nothing is recorded.

    Example:
        >>> from asyncgrad.hips.tracer import notrace_primitive
        >>> notrace_primitive(round)(1.6)
        2
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*map(getval, args), **kwargs)

    call.__name__ = getattr(function, "__name__", "call")
    return call
