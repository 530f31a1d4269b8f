"""The functions of devices: what a device computes on its arrays in another way than their library does.

A device registers them for the type of its arrays, each by the function of NumPy whose place it takes, or by a name.
They are looked up here, and nowhere else, by the type of an array, which is their first argument. A function that is
registered by a name returns None for arguments that it does not take; the caller computes by the library's functions
then. docs/devices.md lists the names that asyncgrad asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..settings.arguments import PLAIN_TYPES

__all__ = ["OWN_FUNCTIONS", "by_kernel", "has_own_functions", "kernel_of", "own_function", "register_functions"]

#: For each type of array, the functions of its devices. Read only; where a call counts, it is looked up in directly.
OWN_FUNCTIONS: dict[type, Mapping[Any, Callable[..., Any]]] = {}


def register_functions(array_type: type, functions: Mapping[Any, Callable[..., Any]]) -> None:
    """Register the functions of the devices of a type of array, in the place of those registered before.

    Args:
        array_type: the type of the devices' arrays.
        functions: each by the NumPy function that it replaces, or by its name.
    """
    OWN_FUNCTIONS[array_type] = functions
    PLAIN_TYPES.add(array_type)


def has_own_functions(value: Any) -> bool:
    """Tell whether the device of an array has registered functions for its type."""
    return value.__class__ in OWN_FUNCTIONS


def own_function(function: Any, array: Any) -> Any:
    """Return the function that replaces a NumPy function on the device of an array; the NumPy function if none does."""
    functions = OWN_FUNCTIONS.get(type(array))
    return function if functions is None else functions.get(function, function)


def kernel_of(name: str, array: Any) -> Callable[..., Any] | None:
    """Return the function that the device of an array has registered under a name; None if there is none."""
    functions = OWN_FUNCTIONS.get(type(array))
    return None if functions is None else functions.get(name)


def by_kernel(name: str, array: Any, *arguments: Any, **options: Any) -> Any:
    """Return the result of the kernel that a device has under a name; None where it has none for these arguments."""
    # As kernel_of, whose call would take as long as all the rest.
    functions = OWN_FUNCTIONS.get(type(array))
    kernel = None if functions is None else functions.get(name)
    return None if kernel is None else kernel(array, *arguments, **options)
