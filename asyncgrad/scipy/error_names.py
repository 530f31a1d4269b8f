"""Errors of SciPy's functions name the function that was called, and its arguments.

What raises an error is often an inner function, or NumPy, which the caller has not called. The public functions are
wrapped, once for all: an error that does not name the function gets its name, and what it was called with.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable
from contextvars import copy_context
from types import TracebackType
from typing import Any, TypeVar

from numpy.exceptions import AxisError

from ..core.arrays.device_arrays import unavailable
from ..core.arrays.tensor_base import TensorBase
from ..core.arrays.values import is_device_array
from ..core.settings.arguments import describe
from ..core.settings.context import switch_back
from ..errors import ArgumentTypeError

__all__ = ["explain_ufunc", "name_errors", "name_errors_of_methods"]

C = TypeVar("C", bound=type)

#: What a wrong argument may raise. Others, such as a MemoryError, are passed on as they are.
_ERRORS = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError)
#: How NumPy's functions on tensors begin an error of shapes.
_INNER = re.compile(r"^[\w.]+ of (an array of shape|arrays of shapes) .*?: ")
_OURS = frozenset(("asyncgrad", "numpy", "scipy")) | sys.stdlib_module_names


def name_errors(module: str, *files: str) -> None:
    """Have the public functions of a module of this package name themselves in errors.

    Args:
        module: the name of the module, which has imported them.
        files: the names of modules beside it in which some of them are written.
    """
    space = vars(sys.modules[module])
    homes = tuple(f"{one}." for one in (module, *files))
    for name in space.get("__all__", list(space)):
        found = space[name]
        if name.startswith("_") or not f"{getattr(found, '__module__', '')}.".startswith(homes):
            continue
        if inspect.isfunction(found):
            space[name] = _naming(found, f"{module.removeprefix('asyncgrad.')}.{name}")
            # By this name the function is found in a pickle.
            space[name].__module__, space[name].__qualname__ = module, name
        elif inspect.isclass(found) and not issubclass(found, tuple):
            name_errors_of_methods(found)


def explain_ufunc(ufunc: Callable[..., Any], name: str) -> Callable[[Exception, Any, dict[str, Any]], Exception | None]:
    """Return what names a ufunc of `scipy.special`, and what it was called with, in its errors."""
    called = f"scipy.special.{name}"

    def explain(error: Exception, args: Any, kwargs: dict[str, Any]) -> Exception | None:
        return _name(called, ufunc, args, kwargs, error, False) if isinstance(error, _ERRORS) else None

    return explain


def name_errors_of_methods(cls: C) -> C:
    """Have the public methods of a class name the object and themselves in errors.

    An object is named by its attribute `name`, if it has one, or else by its class.
    """
    for name, found in list(vars(cls).items()):
        if inspect.isfunction(found) and (not name.startswith("_") or name in _UNNAMED):
            setattr(cls, name, _naming(found, "" if name in _UNNAMED else f".{name}", is_method=True))
    return cls


#: Methods that are called by the name of the object.
_UNNAMED = ("__call__", "__init__")


def _naming(function: Callable[..., Any], called: str, *, is_method: bool = False) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        before = copy_context()
        try:
            return function(*args, **kwargs)
        except _ERRORS as error:
            switch_back(before)
            whole = f"{_name_of(args[0])}{called}" if is_method else called
            other = _name(whole, function, args, kwargs, error, is_method)
            if other is None:
                raise
            raise other from error
        except BaseException:
            switch_back(before)
            raise

    return wrapper


def _name_of(owner: Any) -> str:
    """Return the name that an object of one of this package's classes has in SciPy."""
    cls = type(owner)
    module = ".".join(cls.__module__.split(".")[1:3])
    return f"{module}.{getattr(owner, 'name', cls.__name__)}"


def _name(
    called: str, function: Callable[..., Any], args: Any, kwargs: dict[str, Any], error: Exception, is_method: bool
) -> ArgumentTypeError | None:
    """Add to an error the function that was called, and its arguments, unless it names the function.

    Return another error to raise in place of one that words itself, as those of ufuncs do, else None.
    """
    if _is_of_the_user(error.__traceback__):
        return None
    refused = _not_on_device(called, args, kwargs, error)
    if refused is not None:
        return refused
    # An inner function may have been named; the outer one is what the user knows.
    said = getattr(error, "_said", None) or str(error.args[0] if error.args and type(error) is KeyError else error)
    own = re.sub(rf"^[\w.<>]*\b{re.escape(function.__name__)}\(\)", f"{called}()", said)
    if re.search(rf"{re.escape(called)}(?!\w)", own):
        named = own
    else:
        said = _INNER.sub("", said)
        named = f"{called}({_arguments(function, args, kwargs, is_method)}): {said}"
    if isinstance(error, AxisError):
        prefix = named.removesuffix(f": {said}") if named.endswith(said) else called
        AxisError.__init__(error, error.axis, error.ndim, prefix)  # type: ignore[arg-type]
    elif len(error.args) == 1:
        error.args = (named,)
    elif isinstance(error, TypeError) and named != said:
        return ArgumentTypeError(named)
    vars(error)["_said"] = said
    return None


def _not_on_device(called: str, args: Any, kwargs: dict[str, Any], error: Exception) -> ArgumentTypeError | None:
    """Return what to raise where the device of an argument lacks what a function calls, in the words of its library."""
    if type(error) in (TypeError, NotImplementedError):
        for one in (*args, *kwargs.values()):
            if isinstance(one, TensorBase) and is_device_array(one._data):
                return ArgumentTypeError(unavailable(called, one._device, f", or not for such arguments ({error})"))
    return None


def _is_of_the_user(trace: TracebackType | None) -> bool:
    """Tell whether an error was raised by a function that the user has passed: it is theirs to word."""
    while trace is not None:
        # Functions that SciPy makes of text have no module.
        module = trace.tb_frame.f_globals.get("__name__")
        if module is not None and module.partition(".")[0] not in _OURS:
            return True
        trace = trace.tb_next
    return False


def _arguments(function: Callable[..., Any], args: Any, kwargs: dict[str, Any], is_method: bool) -> str:
    """Describe the arguments of a call."""
    try:
        names = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        names = []
    positional = [one.name for one in names if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    labels = [f"{name}: " for name in positional[: len(args)]]
    labels += [""] * (len(args) - len(labels))
    shown = [f"{label}{describe(value)}" for label, value in zip(labels, args, strict=True)][is_method:]
    return ", ".join([*shown, *(f"{name}: {describe(value)}" for name, value in kwargs.items())])
