"""Interception: what is called in place of functions of arrays, as long as something follows or records their calls.

A library for a device may have to be told something before each operation (`current_devices.py`, `current_streams.py`),
and a profile records what a device does (`device_work.py`) and how long each function takes (`call_times.py`). Each of
these is an interceptor, which takes a function and returns what is called in its place. All of them together are
applied to each function that may be intercepted, in the order of LAYERS. As long as there is none, the functions
themselves are called, and nothing here runs.

What may be intercepted:

- the function that the wrapper of a primitive calls, by the name `_function` in the globals of the wrapper;
- the function of an object that has it in an attribute, such as a NonDifferentiable;
- entry points, which compute with bare arrays outside of operations: methods, and functions with the decorator
  `on_device_of_arguments`. The current device and stream are set for them, and they are not recorded.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from ..settings.process import hold_in_forks

__all__ = [
    "DEVICES",
    "LAYERS",
    "RECORDERS",
    "STREAMS",
    "TIMES",
    "Interceptor",
    "add_entry",
    "add_entry_methods",
    "add_entry_names",
    "add_operation",
    "add_wrapper",
    "call_intercepted",
    "entered",
    "inner_function",
    "intercept",
    "interceptors",
    "on_device_of",
    "on_device_of_arguments",
    "put_function",
    "stop_intercepting",
]

F = TypeVar("F", bound=Callable[..., Any])

#: Takes a function and its name; returns what is called in its place, with the same arguments.
Interceptor = Callable[[Callable[..., Any], str], Callable[..., Any]]

#: What sets the current device of a library, then its current stream, then records the call, then times it.
DEVICES, STREAMS, RECORDERS, TIMES = "devices", "streams", "recorders", "times"
#: The order of the interceptors, outermost first.
LAYERS = (DEVICES, STREAMS, RECORDERS, TIMES)
#: Of entry points. An operation inside of one follows the streams itself.
_ENTRY_LAYERS = (DEVICES, STREAMS)

#: The interceptors in use, by layer. Read only.
interceptors: dict[str, Interceptor] = {}
#: The globals of each wrapper of a primitive. `_inner_function` is what `_function` is without interception.
_wrappers: list[dict[str, Any]] = []
#: Other functions: each with its name, its layers, and what puts another one in its place.
_others: list[tuple[Callable[..., Any], str, tuple[str, ...], Callable[[Callable[..., Any]], object]]] = []
_mutex = hold_in_forks(threading.RLock())


def intercept(layer: str, interceptor: Interceptor) -> None:
    """Have all calls intercepted from now on, by one interceptor of a layer; it takes the place of an earlier one."""
    with _mutex:
        interceptors[layer] = interceptor
        _renew_all()


def stop_intercepting(layer: str) -> None:
    """End what `intercept` began for a layer."""
    with _mutex:
        if interceptors.pop(layer, None) is not None:
            _renew_all()


def _renew_all() -> None:
    for namespace in _wrappers:
        _renew(namespace)
    for function, name, layers, put in _others:
        put(_intercepted(function, name, layers))


def _renew(namespace: dict[str, Any]) -> None:
    namespace["_function"] = _intercepted(namespace["_inner_function"], namespace["call"].__name__, LAYERS)


def _intercepted(function: Callable[..., Any], name: str, layers: tuple[str, ...]) -> Callable[..., Any]:
    for layer in reversed(layers):
        interceptor = interceptors.get(layer)
        if interceptor is not None:
            function = interceptor(function, name)
    return function


# Wrappers of primitives.


def add_wrapper(namespace: dict[str, Any]) -> None:
    """Let the function be intercepted that the wrapper of a primitive calls.

    Args:
        namespace: the globals of the wrapper: `call`, which is that itself, and `_function`, what it calls.
    """
    with _mutex:
        _wrappers.append(namespace)
        namespace["_inner_function"] = namespace["_function"]
        if interceptors:
            _renew(namespace)


def put_function(namespace: dict[str, Any], function: Callable[..., Any]) -> None:
    """Have the wrapper of a primitive call another function; interceptors stay around it."""
    with _mutex:
        namespace["_inner_function"] = function
        _renew(namespace)


def inner_function(namespace: dict[str, Any]) -> Callable[..., Any]:
    """Return the function that the wrapper of a primitive calls, without interceptors."""
    inner: Callable[..., Any] = namespace["_inner_function"]
    return inner


# Other operations.


def add_operation(function: Callable[..., Any], name: str, put: Callable[[Callable[..., Any]], object]) -> None:
    """Let a function be intercepted that is an operation, and that no wrapper of a primitive calls.

    Args:
        function: what is called where nothing is intercepted.
        name: of the operation.
        put: has its argument called instead, from now on.
    """
    _add(function, name, LAYERS, put)


def call_intercepted(name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the result of a function that is looked up anew for each call; the call is an operation of that name."""
    if not interceptors:
        return function(*args, **kwargs)
    return _intercepted(function, name, LAYERS)(*args, **kwargs)


# Entry points.


def entered(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that does the same on the device of its arguments: see `on_device_of_arguments`.

    To be called only where there are `interceptors`.
    """
    return _intercepted(function, "", _ENTRY_LAYERS)


def add_entry(function: Callable[..., Any], put: Callable[[Callable[..., Any]], object]) -> None:
    """Let a function run on the device of its arguments: see `on_device_of_arguments`.

    Without any cost as long as nothing is intercepted.

    Args:
        function: what is called where nothing is intercepted.
        put: has its argument called instead, from now on.
    """
    _add(function, "", _ENTRY_LAYERS, put)


def add_entry_methods(owner: type, *methods: str) -> None:
    """Let methods of a class run on the device of their arguments: see `add_entry`."""
    for method in methods:
        add_entry(vars(owner)[method], functools.partial(setattr, owner, method))


def add_entry_names(namespace: dict[str, Any], *names: str) -> None:
    """Let functions run on the device of their arguments that a module calls by global names, which nobody imports.

    See `add_entry`.
    """
    for name in names:
        add_entry(namespace[name], functools.partial(namespace.__setitem__, name))


def on_device_of_arguments(function: F) -> F:
    """Make the device of the first tensor or array among the arguments the current one while the function runs.

    For a function that computes with bare arrays outside of operations. It matters to a library with several devices,
    which computes on the current one wherever its arrays are; and to one with a current stream, which is made that of
    the context. As long as nothing is intercepted, a call costs one more check.
    """

    @functools.wraps(function)
    def entering(*args: Any, **kwargs: Any) -> Any:
        return (entered(function) if interceptors else function)(*args, **kwargs)

    return entering  # type: ignore[return-value]


def on_device_of(array: Any, function: Callable[..., Any], *args: Any) -> Any:
    """Return the result of a function of a bare array and other arguments, as `on_device_of_arguments` calls it."""
    return (entered(function) if interceptors else function)(array, *args)


def _add(
    function: Callable[..., Any], name: str, layers: tuple[str, ...], put: Callable[[Callable[..., Any]], object]
) -> None:
    with _mutex:
        _others.append((function, name, layers, put))
        if interceptors:
            put(_intercepted(function, name, layers))
