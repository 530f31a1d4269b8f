"""The modules and the generated functions that look up whether operations record, so that it can be replaced in all.

Each holds the function that it calls, `GRAD_MODE.get` or `RECORDING.get`, among its globals, by the name `_grad_mode`
or `_recording`. For observers of the whole process another function stands there: the default of a ContextVar cannot
change.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ..settings.process import hold_in_forks

__all__ = ["override", "register_wrapper", "restore"]

_namespaces: list[dict[str, Any]] = []
#: By name, what is in the place of the function of that name.
_overrides: dict[str, Callable[[], Any]] = {}
_mutex = hold_in_forks(threading.Lock())


def register_wrapper(namespace: dict[str, Any]) -> None:
    """Have functions replaced in the globals of a module or of a generated function."""
    with _mutex:
        _namespaces.append(namespace)
        namespace.update({name: function for name, function in _overrides.items() if name in namespace})


def override(name: str, function: Callable[[], Any]) -> None:
    """Put a function in the place of that of this name, in all namespaces."""
    with _mutex:
        _overrides[name] = function
        _replace(name, function)


def restore(name: str, function: Callable[[], Any]) -> None:
    """Put the original function of this name back."""
    with _mutex:
        _overrides.pop(name, None)
        _replace(name, function)


def _replace(name: str, function: Callable[[], Any]) -> None:
    for namespace in _namespaces:
        if name in namespace:
            namespace[name] = function
