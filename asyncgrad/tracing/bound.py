"""Functions that are bound to arguments: methods, objects that are called, and what `functools.partial` makes."""

from __future__ import annotations

import functools
import types
from collections import ChainMap
from collections.abc import Callable, MutableMapping
from typing import Any, NamedTuple, final

import numpy as np

from ..core.settings.arguments import takes
from ..errors import ArgumentTypeError

__all__ = ["Bound", "unbound"]


@final
class Bound(NamedTuple):
    """The arguments that a function gets beside those of a call, as arguments of its program."""

    #: Those that come first: the object of a method, and what a partial gives.
    args: tuple[Any, ...]
    #: What a call may give otherwise.
    kwargs: MutableMapping[str, Any]

    def with_others(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return them with the arguments of a call."""
        return (*self.args, *args), {**self.kwargs, **kwargs} if self.kwargs else kwargs

    def partial(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function with these arguments, as they are now."""
        return functools.partial(function, *self.args, **self.kwargs)


def unbound(fn: Any) -> tuple[Callable[..., Any], Bound | None]:
    """Return a plain function, and what it is bound to; None where that is nothing.

    Raises:
        ArgumentTypeError: arguments of a partial come after such of its calls.
    """
    if isinstance(fn, types.MethodType):
        function, bound = unbound(fn.__func__)
        return function, _joined(bound, (fn.__self__,), {})
    if hasattr(type(fn), "is_compiled"):
        return fn.function, fn.bound
    if isinstance(fn, functools.partial) and type(fn).__call__ is functools.partial.__call__:
        if any(one is _PLACEHOLDER for one in fn.args):
            hint = "write a lambda that calls it, in the place of functools.Placeholder"
            raise ArgumentTypeError(takes("ag.jit", "a function", fn, hint))
        function, bound = unbound(fn.func)
        return function, _joined(bound, fn.args, fn.keywords)
    if isinstance(fn, (types.FunctionType, types.BuiltinFunctionType, np.ufunc)) or hasattr(fn, "__wrapped__"):
        return fn, None
    called = type(fn).__call__
    return (called, Bound((fn,), {})) if isinstance(called, types.FunctionType) else (fn, None)


#: What stands for an argument of a call among those of a partial; from Python 3.14 on.
_PLACEHOLDER = getattr(functools, "Placeholder", object())


def _joined(bound: Bound | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bound:
    # The dicts of partials themselves, into which their user may write.
    return Bound(args, kwargs) if bound is None else Bound((*bound.args, *args), ChainMap(kwargs, bound.kwargs))
