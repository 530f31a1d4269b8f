"""Fused kernels: run a formula of elementwise operations in one launch, on arrays of a library other than NumPy.

An array library for an accelerator launches a kernel for each operation, and each launch takes the host a few
microseconds. So a device can register a KernelCompiler for its type of array. The compiler reads a formula with
`read_graph` and compiles it to one kernel. A `FusedFormula` replaces the formula: it calls the kernel on arrays of such
a type, and the formula itself on all other arrays.

Once a compiler is registered, forward functions are fused, too: all ufuncs, and the functions to which `fused` gives an
expression. Until then, the wrappers of primitives call NumPy's functions directly, so that a program that uses only
NumPy's arrays has no overhead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from types import FunctionType
from typing import Any, Protocol, TypeVar, final
from weakref import WeakSet

import numpy as np

from ..arrays.device_functions import OWN_FUNCTIONS
from ..arrays.interception import inner_function, put_function
from ..arrays.tensor_base import TensorBase
from ..settings.source import make_function

__all__ = [
    "ADDERS",
    "COMPILERS",
    "C_FUNCTIONS",
    "DEVICE_VARIANTS",
    "EXPRESSIONS",
    "FusedFormula",
    "KernelCompiler",
    "TableUpdate",
    "adds_by",
    "arity",
    "bare_formula",
    "device_kernel",
    "device_variant",
    "fused",
    "fused_jointly",
    "fused_names",
    "follow_compilers",
    "function_of",
    "is_fusable",
    "register_kernel_compiler",
    "unregister_kernel_compiler",
]

F = TypeVar("F", bound=Callable[..., Any])

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


#: The registered compilers, by type of array.
COMPILERS: dict[type, KernelCompiler] = {}

#: By function: a function of the same parameters that is a single expression of elementwise operations.
EXPRESSIONS: dict[Callable[..., Any], Callable[..., Any]] = {}

#: By function: the function to call instead on arrays of a type with a compiler.
DEVICE_VARIANTS: dict[Callable[..., Any], Callable[..., Any]] = {}

#: By derivative formula: the function that adds its result into an array of a device, see `adds_by`.
ADDERS: dict[Callable[..., Any], Callable[..., Any]] = {}

#: By function: its name in C's mathematical library, for functions that NumPy lacks.
C_FUNCTIONS: dict[Callable[..., Any], str] = {}

#: The wrappers of functions that may have a kernel.
_wrappers: WeakSet[FunctionType] = WeakSet()
#: All FusedFormulas, which drop their kernels when a compiler is unregistered.
_formulas: WeakSet[FusedFormula] = WeakSet()


def register_kernel_compiler(array_type: type, compiler: KernelCompiler) -> None:
    """Run formulas and elementwise functions as fused kernels on arrays of a type from now on."""
    COMPILERS[array_type] = compiler
    for wrapper in _wrappers:
        names = wrapper.__globals__
        if inner_function(names) is names["_bare_function"]:
            _fuse(names)


def unregister_kernel_compiler(array_type: type) -> None:
    """Call NumPy's functions again on arrays of a type; the backward of recorded nodes stays correct."""
    del COMPILERS[array_type]
    for formula in _formulas:
        formula.forget(array_type)
    for wrapper in _wrappers if not COMPILERS else ():
        names = wrapper.__globals__
        function = inner_function(names)
        if function is not names["_bare_function"] and function is names["_fused"].call:
            _fuse(names)


def _fuse(names: dict[str, Any]) -> None:
    """Have a wrapper call what its function is with the compilers that are registered now."""
    found = fused_names(names["_bare_function"])
    names["_fused"] = found["_fused"]
    put_function(names, found["_function"])


def fused(expression: Callable[..., Any]) -> Callable[[F], F]:
    """Return a decorator that gives a function of several steps an expression for fused kernels.

    Args:
        expression: a function of the same parameters with the same result and dtype on real arrays, which consists of
            elementwise operations only. It is never called with arrays.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.core.recording.kernels import fused
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


def device_variant(variant: Callable[..., Any]) -> Callable[[F], F]:
    """Return a decorator of a function that is replaced by `variant` on arrays of a type with a compiler.

    Args:
        variant: a function of the same parameters with the same result. It calls `own_function` for the functions that
            the device does better than its library.
    """

    def decorate(function: F) -> F:
        DEVICE_VARIANTS[function] = variant
        return function

    return decorate


def device_kernel(call: str) -> Callable[[F], F]:
    """Return a decorator of a function that is computed by a kernel where the device of its arrays has one.

    Where it has none, or the kernel returns None for these arguments, the function itself is called.

    Args:
        call: a call of the kernel in Python, such as `"softmax(x, axis)"`: the name by which devices register it
            (`register_functions`), and its arguments, of the parameters of the function. The first one is an array.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.core.recording.kernels import device_kernel
        >>> @device_kernel("gather_windows(x, None, window)")
        ... def window_sums(x, window):
        ...     return np.lib.stride_tricks.sliding_window_view(x, window).sum(axis=-1)
        >>> window_sums(np.arange(4), 2)
        array([1, 3, 5])
    """
    name, _, arguments = call.partition("(")
    arguments = arguments.removesuffix(")")

    def decorate(function: F) -> F:
        given = ", ".join(_parameters_of(function))
        body = [
            f"functions = own_functions.get(type({arguments.partition(',')[0]}))",
            f"kernel = None if functions is None else functions.get({name!r})",
            f"result = None if kernel is None else kernel({arguments})",
            f"return function({given}) if result is None else result",
        ]
        namespace: dict[str, Any] = {"__name__": __name__, "function": function, "own_functions": OWN_FUNCTIONS}
        variant = make_function(f"on_device({given})", body, f"kernel {name}", namespace)
        unknown = set(variant.__code__.co_names) - {"function", "get", "own_functions", "type"}
        if unknown:
            raise TypeError(f"{call} has {sorted(unknown)}, and {function.__name__} has the parameters {given}")
        DEVICE_VARIANTS[function] = variant
        return function

    return decorate


def adds_by(adder: Callable[..., Any]) -> Callable[[F], F]:
    """Return a decorator of a derivative formula whose result a device can add to a sum in one launch.

    Args:
        adder: a function of the sum, an array of the result's shape that may be written into, and of the formula's
            parameters. It returns the new sum.
    """

    def decorate(formula: F) -> F:
        ADDERS[formula] = adder
        return formula

    return decorate


def is_fusable(function: Callable[..., Any]) -> bool:
    """Tell whether a function may have a kernel: a ufunc with one result, or one with an expression or a variant."""
    if isinstance(function, np.ufunc):
        return function.signature is None and function.nout == 1
    return function in EXPRESSIONS or function in DEVICE_VARIANTS


def fused_names(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the names in the namespace of the wrapper of a function that depend on whether compilers are registered.

    `_function` is what the wrapper calls, and `_fused` the FusedFormula that this belongs to, or None.
    """
    if not COMPILERS or not is_fusable(function):
        return {"_function": function, "_fused": None}
    formula = FusedFormula(function)
    return {"_function": formula.call, "_fused": formula}


def fused_jointly(formulas: Sequence[FusedFormula], taken: Sequence[tuple[int, ...]]) -> FusedFormula:
    """Return one formula for all results of several, which takes one launch for arrays of one shape.

    Args:
        formulas: the formulas, of a first argument that all take, and of others.
        taken: for each formula the numbers of its other arguments, among the arguments of the result, from 1 on.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.core.recording.kernels import FusedFormula, fused_jointly
        >>> to_x, to_y = FusedFormula(lambda g, y: g * y), FusedFormula(lambda g, x: g * x)
        >>> both = fused_jointly([to_x, to_y], [(2,), (1,)])
        >>> both(np.ones(2), np.array([1.0, 2.0]), np.array([3.0, 4.0]))
        (array([3., 4.]), array([1., 2.]))
    """
    names = [f"p{nr}" for nr in range(1 + max((nr for some in taken for nr in some), default=0))]
    calls = [f"f{index}({', '.join(['p0', *(names[nr] for nr in some)])})" for index, some in enumerate(taken)]
    label = formulas[0].__name__.replace("<lambda>", "formula")
    body = [f"return {''.join(f'{call}, ' for call in calls)}"]
    namespace: dict[str, Any] = {"__name__": __name__}
    namespace.update({f"f{index}": formula.call for index, formula in enumerate(formulas)})
    return FusedFormula(make_function(f"joint({', '.join(names)})", body, f"{label} and others", namespace))


def bare_formula(function: Any) -> Any:
    """Return the formula that a function calls as a kernel where it can; any other function itself."""
    return function.__dict__.get("formula", function) if type(function) is FunctionType else function


def function_of(formula: Callable[..., Any]) -> Callable[..., Any]:
    """Return what does the same as a formula in less time, if that is a FusedFormula; else the formula itself."""
    return formula.call if type(formula) is FusedFormula else formula


def follow_compilers(wrapper: FunctionType) -> None:
    """Make a wrapper call fused kernels as soon as a compiler is registered, if its function may have a kernel.

    Its namespace has the names of `fused_names`; `_bare_function` is the function without fusion.
    """
    if is_fusable(wrapper.__globals__["_bare_function"]):
        _wrappers.add(wrapper)


def arity(function: Callable[..., Any]) -> int:
    """Return how many arguments a function that may have a kernel takes."""
    # A decorator may hide the parameters of a function; its expression or its variant has the same.
    shown = EXPRESSIONS.get(function) or DEVICE_VARIANTS.get(function, function)
    return shown.nin if isinstance(shown, np.ufunc) else shown.__code__.co_argcount


def _parameters_of(function: Any) -> tuple[str, ...]:
    code = function.__code__
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount]
    return names


@cache
def _dispatcher_of(count: int) -> Callable[[dict[type, Callable[..., Any]], Callable[..., Any]], Callable[..., Any]]:
    """Return what makes the function that calls one of `launchers`, by the type of the first of `count` arguments.

    It is generated for the number of arguments, since to pass on a tuple of them takes longer than to choose.
    """
    given = ", ".join(f"p{nr}" for nr in range(count))
    body = [
        f"def dispatch({given}):",
        "    launch = launchers.get(type(p0))",
        f"    if launch is None: launch = find_launcher(launchers, formula, ({given},))",
        f"    return launch({given})",
        "return dispatch",
    ]
    namespace = {"__name__": __name__, "find_launcher": _find_launcher}
    what = f"choice of a kernel by the first of {count}"
    return make_function("dispatcher(launchers, formula)", body, what, namespace)


def _find_launcher(
    launchers: dict[type, Callable[..., Any]], formula: Callable[..., Any], arguments: Sequence[Any]
) -> Callable[..., Any]:
    """Return what to call for arguments of which the first is of a type without a launcher."""
    for argument in arguments:
        kind = type(argument)
        if isinstance(argument, TensorBase):
            # A formula that is recorded, of tensors and of arrays beside them.
            return formula
        if kind in COMPILERS:
            launch = launchers.get(kind)
            if launch is None:
                variant = DEVICE_VARIANTS.get(formula)
                launch = launchers[kind] = variant or COMPILERS[kind].launcher(formula)
            return launch
    return formula


@final
class FusedFormula:
    """A formula that runs as one kernel on arrays of a type with a compiler, and unchanged on all other arrays.

    Args:
        formula: the function.
    """

    __slots__ = ("__name__", "__weakref__", "_launchers", "call", "formula")

    def __init__(self, formula: Callable[..., Any]) -> None:
        self.formula: Callable[..., Any] = formula
        self.__name__: str = formula.__name__
        #: The function to call, by the type of the first argument.
        self._launchers: dict[type, Callable[..., Any]] = {np.ndarray: formula}
        #: The same as a call of this object, as a plain function, which is called in less time.
        self.call: Callable[..., Any] = _dispatcher_of(arity(formula))(self._launchers, formula)
        self.call.__dict__["formula"] = formula
        _formulas.add(self)

    def __call__(self, *arguments: Any) -> Any:
        """Return the result of the formula."""
        return self.call(*arguments)

    def forget(self, array_type: type) -> None:
        """Drop the kernel for a type of array."""
        self._launchers.pop(array_type, None)

    def __repr__(self) -> str:
        return f"<fused {self.__name__}>"
