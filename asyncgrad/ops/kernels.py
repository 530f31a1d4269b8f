"""Fused kernels: a formula of elementwise operations as one launch, on arrays of another library than NumPy.

A library of arrays on an accelerator launches a kernel for each operation, and each launch takes the host a few
microseconds. So a device can register a KernelCompiler for its type of array: it reads a formula by `read_graph` and
makes one kernel of it. `FusedFormula` stands in the place of the formula: it calls the kernel on arrays of such a type,
and the formula itself on everything else.

Forward functions are fused too, as soon as there is a compiler: all ufuncs, and the functions that `fused` gives an
expression. Until then the wrappers of primitives call NumPy's functions themselves, and NumPy's arrays never pay for
what they do not use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, Protocol, TypeVar, final
from weakref import WeakSet

import numpy as np

__all__ = [
    "COMPILERS",
    "C_FUNCTIONS",
    "EXPRESSIONS",
    "FusedFormula",
    "KernelCompiler",
    "TableUpdate",
    "fused",
    "fused_where_compiled",
    "follow_compilers",
    "is_fusable",
    "register_kernel_compiler",
    "unregister_kernel_compiler",
]

F = TypeVar("F", bound=Callable[..., Any])

#: Updates arrays in place: takes rows of arrays, one for each parameter of an optimizer, and the numbers of a formula.
TableUpdate = Callable[[Sequence[Sequence[Any]], Sequence[float]], None]


class KernelCompiler(Protocol):
    """Makes kernels for one type of array."""

    def launcher(self, formula: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that does what the formula does, in one launch where it can be compiled.

        Args:
            formula: a ufunc, or a function of arrays and numbers.
        """

    def update(self, formula: Callable[..., Any], written: int) -> TableUpdate:
        """Return a function that applies a formula to many rows of arrays in as few launches as possible.

        Args:
            formula: a function of the arrays of a row, and then of numbers. It returns a tuple.
            written: how many arrays of a row get a new value, the first ones: the items of that tuple.
        """


#: The compilers by the type of array that they are for.
COMPILERS: dict[type, KernelCompiler] = {}

#: For a function of several steps, one of the same parameters that is a single expression of elementwise operations.
EXPRESSIONS: dict[Callable[..., Any], Callable[..., Any]] = {}

#: The functions that C's library of mathematical functions has and NumPy lacks, by the names that C gives them.
C_FUNCTIONS: dict[Callable[..., Any], str] = {}

#: The wrappers of elementwise functions.
_wrappers: WeakSet[FunctionType] = WeakSet()
_formulas: WeakSet[FusedFormula] = WeakSet()


def register_kernel_compiler(array_type: type, compiler: KernelCompiler) -> None:
    """Let formulas and elementwise functions run as fused kernels on arrays of a type."""
    COMPILERS[array_type] = compiler
    for wrapper in _wrappers:
        names = wrapper.__globals__
        if names["_function"] is names["_bare_function"]:
            names["_function"] = FusedFormula(names["_bare_function"])


def unregister_kernel_compiler(array_type: type) -> None:
    """Let everything run by NumPy's functions again on arrays of a type; nodes that have been recorded stay right."""
    del COMPILERS[array_type]
    for formula in _formulas:
        formula.forget(array_type)
    for wrapper in _wrappers if not COMPILERS else ():
        names = wrapper.__globals__
        if type(names["_function"]) is FusedFormula:
            names["_function"] = names["_bare_function"]


def fused(expression: Callable[..., Any]) -> Callable[[F], F]:
    """Give the decorated function, which may take several steps, as one expression for fused kernels.

    Args:
        expression: a function of the same parameters that gives the same result and dtype on real arrays, by
            elementwise operations alone. It is never called with arrays.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.ops.kernels import fused
        >>> @fused(lambda x: 1 / (1 + np.exp(-x)))
        ... def logistic(x):
        ...     value = np.exp(-x)
        ...     value += 1
        ...     return np.reciprocal(value, out=value)
        >>> logistic(np.zeros(2))
        array([0.5, 0.5])
    """

    def decorate(function: F) -> F:
        EXPRESSIONS[function] = expression
        return function

    return decorate


def is_fusable(function: Callable[..., Any]) -> bool:
    """Tell whether a function may be an elementwise one: a ufunc of arrays with one result, or one that is `fused`."""
    if isinstance(function, np.ufunc):
        return function.signature is None and function.nout == 1
    return function in EXPRESSIONS


def fused_where_compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what a new wrapper calls in place of a function: fused kernels, if there is a compiler."""
    return FusedFormula(function) if COMPILERS and is_fusable(function) else function


def follow_compilers(wrapper: FunctionType) -> None:
    """Have a wrapper call fused kernels as soon as there is a compiler, if its function is elementwise.

    Its source calls `_function`; `_bare_function` is that of NumPy.
    """
    if is_fusable(wrapper.__globals__["_bare_function"]):
        _wrappers.add(wrapper)


@final
class FusedFormula:
    """A formula that runs as one kernel on arrays that there is a compiler for, and as it is on everything else.

    Args:
        formula: the function.
    """

    __slots__ = ("__name__", "__weakref__", "_launchers", "formula")

    def __init__(self, formula: Callable[..., Any]) -> None:
        self.formula = formula
        self.__name__ = formula.__name__
        #: What to call, by the type of the first argument.
        self._launchers: dict[type, Callable[..., Any]] = {np.ndarray: formula}
        _formulas.add(self)

    def __call__(self, *arguments: Any) -> Any:
        """Return what the formula returns."""
        launch = self._launchers.get(type(arguments[0]))
        return self._launcher(arguments)(*arguments) if launch is None else launch(*arguments)

    def _launcher(self, arguments: Sequence[Any]) -> Callable[..., Any]:
        for argument in arguments:
            kind = type(argument)
            if kind in COMPILERS:
                launch = self._launchers.get(kind)
                if launch is None:
                    launch = self._launchers[kind] = COMPILERS[kind].launcher(self.formula)
                return launch
        return self.formula

    def forget(self, array_type: type) -> None:
        """Let go of the kernel for a type of array."""
        self._launchers.pop(array_type, None)

    def __repr__(self) -> str:
        return f"<fused {self.__name__}>"
