"""The functions of devices: what a device computes on its arrays in another way than their library does.

A device registers them all at once, for the type of its arrays: functions, each by the function of NumPy whose place it
takes or by a name, and what compiles formulas to kernels. There is one table of them, by the type of array, since a
rule holds arrays and no Device; `own_function` asks it for a function, and `compiler_of` for the compiler. A function
that is registered by a name returns None for arguments that it does not take, and the caller computes by the library's
functions then. docs/devices.md lists the names that asyncgrad asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, final

from ..settings.arguments import PLAIN_TYPES

__all__ = [
    "COMPILED_TYPES",
    "DEVICE_FUNCTIONS",
    "DeviceFunctions",
    "KernelCompiler",
    "TableUpdate",
    "compiler_of",
    "no_function",
    "own_function",
    "register_functions",
    "unregister_functions",
    "when_a_compiler_changes",
]

#: Updates arrays in place. Takes rows of arrays, one row for each parameter of an optimizer, and the numbers that the
#: formula takes after the arrays.
TableUpdate = Callable[[Sequence[Sequence[Any]], Sequence[float]], None]


class KernelCompiler(Protocol):
    """Compiles kernels for one type of array."""

    def launcher(self, formula: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function with the result of the formula, which takes one launch if the formula can be compiled.

        Args:
            formula: a ufunc, or a function of arrays and numbers.
        """

    def update(self, formula: Callable[..., Any], written: int) -> TableUpdate:
        """Return a function that applies a formula to many rows of arrays in as few launches as possible.

        Args:
            formula: a function of the arrays of a row, followed by numbers. It returns a tuple of the new values.
            written: the number of arrays of a row that get a new value. They are the first ones of the row, in the
                order of the tuple.
        """


@final
class DeviceFunctions:
    """What the devices of one type of array compute in another way than its library."""

    # No NamedTuple, whose fields take longer to read.
    __slots__ = ("compiler", "functions")

    def __init__(self, functions: Mapping[Any, Callable[..., Any]], compiler: KernelCompiler | None) -> None:
        #: Each by the NumPy function whose place it takes, or by its name.
        self.functions: Mapping[Any, Callable[..., Any]] = functions
        #: What makes one kernel of each formula; None where formulas run as they are.
        self.compiler: KernelCompiler | None = compiler


#: The table, by type of array. Read only; where a call counts, it is looked up in directly.
DEVICE_FUNCTIONS: dict[type, DeviceFunctions] = {}

#: The types in the table that have a compiler: generated wrappers ask for each array that is not NumPy's.
COMPILED_TYPES: set[type] = set()

_listeners: list[Callable[[type], None]] = []


def register_functions(
    array_type: type, functions: Mapping[Any, Callable[..., Any]], compiler: KernelCompiler | None = None
) -> None:
    """Register what the devices of a type of array compute by themselves, in the place of what was registered before.

    Args:
        array_type: the type of the devices' arrays.
        functions: each by the NumPy function that it replaces, or by its name.
        compiler: what makes kernels of formulas and of elementwise functions from now on; None if nothing does.
    """
    before = compiler_of(array_type)
    DEVICE_FUNCTIONS[array_type] = DeviceFunctions(functions, compiler)
    PLAIN_TYPES.add(array_type)
    _change_compiler(array_type, before, compiler)


def unregister_functions(array_type: type) -> None:
    """Call the library's functions again on arrays of a type; the backward of recorded nodes stays correct."""
    before = compiler_of(array_type)
    del DEVICE_FUNCTIONS[array_type]
    PLAIN_TYPES.discard(array_type)
    _change_compiler(array_type, before, None)


def when_a_compiler_changes(listener: Callable[[type], None]) -> None:
    """Have a function called with a type of array whenever it gets a compiler, another one, or none any more."""
    _listeners.append(listener)


def _change_compiler(array_type: type, before: KernelCompiler | None, compiler: KernelCompiler | None) -> None:
    if compiler is before:
        return
    if compiler is None:
        COMPILED_TYPES.discard(array_type)
    else:
        COMPILED_TYPES.add(array_type)
    for listener in _listeners:
        listener(array_type)


def own_function(function: Any, array: Any) -> Any:
    """Return what the device of an array has in the place of a NumPy function, or under a name.

    Where it has nothing, that is the NumPy function itself, and for a name `no_function`, which returns None as a
    function of a device does for arguments that it does not take.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.core.arrays.device_functions import own_function
        >>> x = np.ones((2, 3))
        >>> own_function(np.sum, x)(x, axis=0)
        array([2., 2., 2.])
        >>> own_function("softmax", x)(x, 0) is None
        True
    """
    table = DEVICE_FUNCTIONS.get(type(array))
    if table is not None and (found := table.functions.get(function)) is not None:
        return found
    return no_function if function.__class__ is str else function


def no_function(*_: Any, **__: Any) -> None:
    """Return None: what is called where a device has no function of a name."""


def compiler_of(array_type: type) -> KernelCompiler | None:
    """Return what makes kernels for arrays of a type; None if nothing does."""
    table = DEVICE_FUNCTIONS.get(array_type)
    return None if table is None else table.compiler
