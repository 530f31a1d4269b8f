"""Kernels: how a function or a formula is computed in few launches, on arrays of a library other than NumPy.

An array library for an accelerator launches a kernel for each operation, and each launch takes the host a few
microseconds. So a device may have a KernelCompiler for its type of array. The compiler reads a formula with
`read_graph` and compiles it to one kernel. A `FusedFormula` replaces the formula: it calls the kernel on arrays of such
a type, and the formula itself on all other arrays. What the compiler cannot read in a function, the decorator `kernel`
says above it; there is one record for each function, in one table.

Once a device has a compiler, forward functions are fused, too: all ufuncs, and the functions to which `kernel` gives an
expression, a variant or a name. Until then, the wrappers of primitives call NumPy's functions directly, so that a
program that uses only NumPy's arrays has no overhead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import FunctionType
from typing import Any, NamedTuple, TypeVar, final
from weakref import WeakSet

import numpy as np

from ...errors import ArgumentTypeError
from ..arrays.device_functions import COMPILED_TYPES, DEVICE_FUNCTIONS, compiler_of, when_a_compiler_changes
from ..arrays.interception import inner_function, put_function
from ..arrays.tensor_base import TensorBase
from ..settings.source import make_function

__all__ = [
    "KERNELS",
    "FusedFormula",
    "Kernels",
    "arity",
    "bare_formula",
    "follow_compilers",
    "function_of",
    "fused_jointly",
    "fused_names",
    "is_fusable",
    "kernel",
    "kernels_of",
]

F = TypeVar("F", bound=Callable[..., Any])


class Kernels(NamedTuple):
    """All that is known of the kernels of one function: see `kernel`."""

    #: A function of the same parameters that is a single expression of elementwise operations.
    expression: Callable[..., Any] | None = None
    #: The function to call instead on arrays of a type with a compiler.
    variant: Callable[..., Any] | None = None
    #: Of a derivative formula, the function that adds its result into an array of a device.
    adder: Callable[..., Any] | None = None
    #: The name in C's mathematical library of a function that NumPy lacks.
    c_name: str | None = None


#: By function: what `kernel` has been told of it.
KERNELS: dict[Callable[..., Any], Kernels] = {}

_NONE = Kernels()

#: The wrappers of functions that may have a kernel.
_wrappers: WeakSet[FunctionType] = WeakSet()
#: All FusedFormulas, which drop their kernels when the compiler of a type of array changes.
_formulas: WeakSet[FusedFormula] = WeakSet()


def kernel(
    *,
    expression: Callable[..., Any] | None = None,
    variant: Callable[..., Any] | None = None,
    name: str | None = None,
    arguments: Sequence[Any] | None = None,
    options: Mapping[str, Any] | None = None,
    adder: Callable[..., Any] | None = None,
    c_name: str | None = None,
) -> Callable[[F], F]:
    """Return a decorator that says by what a device computes a function, or a derivative formula.

    One of the first three says it, whichever fits; `adder` may stand beside them. A derivative formula that is a single
    expression of elementwise operations needs none of this: it is its own kernel.

    Args:
        expression: for a function of several steps that computes each element by itself. It is a function of the same
            parameters with the same result and dtype on real arrays, which consists of elementwise operations only. It
            is compiled, and never called with arrays.
        variant: a function of the same parameters with the same result, which is called instead on arrays of a type
            with a compiler. It asks `own_function` for what the device does better than its library.
        name: that of a function which devices register (`register_functions`). Where the device of the arrays has none,
            or that returns None for these arguments, the decorated function itself is called.
        arguments: what the function of that name is given. A string is the name of a parameter, anything else is passed
            as it is. The first one is an array, whose device is asked. By default, all parameters in their order.
        options: what it is given by keyword, beside `arguments`.
        adder: for a derivative formula: a function of the sum, an array of the result's shape that may be written into,
            and of the formula's parameters. It adds the result of the formula in one launch, and returns the new sum.
        c_name: for a function of one argument that NumPy lacks: its name in C's mathematical library.

    Raises:
        ArgumentTypeError: there is nothing or too much of this, or an argument is no parameter of the function.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.core.recording.kernels import kernel
        >>> @kernel(expression=lambda x: 1 / (1 + np.exp(-x)))
        ... def logistic(x):
        ...     value = np.exp(-x)
        ...     value += 1
        ...     return np.reciprocal(value, out=value)
        >>> logistic(np.zeros(2))
        array([0.5, 0.5])
        >>> @kernel(name="gather_windows", arguments=("x", None, "window"))
        ... def window_sums(x, window):
        ...     return np.lib.stride_tricks.sliding_window_view(x, window).sum(axis=-1)
        >>> window_sums(np.arange(4), 2)
        array([1, 3, 5])
    """
    given = Kernels(expression, variant, adder, c_name)
    _check_given(given, name, arguments, options)

    def decorate(function: F) -> F:
        if function in KERNELS:
            raise ArgumentTypeError(f"{function.__name__} has kernels already: say all of them in one @kernel(...)")
        named = variant if name is None else _named_variant(function, name, arguments, options or {})
        KERNELS[function] = given._replace(variant=named)
        return function

    return decorate


def _check_given(given: Kernels, name: str | None, arguments: Any, options: Any) -> None:
    """Raise unless a function is computed in one way."""
    if sum(one is not None for one in (given.expression, given.variant, name)) > 1:
        raise ArgumentTypeError("kernel takes one of expression, variant and name: give that which fits the function")
    if name is None and not (arguments is None and options is None):
        raise ArgumentTypeError("arguments and options are those of a function of devices: give kernel its name, too")
    if name is None and given == _NONE:
        raise ArgumentTypeError("kernel says by what a function is computed: give it expression, variant or name")


def kernels_of(function: Callable[..., Any]) -> Kernels:
    """Return what is known of the kernels of a function; all of it is None where nothing is."""
    return KERNELS.get(function, _NONE)


def _named_variant(
    function: Callable[..., Any], name: str, arguments: Sequence[Any] | None, options: Mapping[str, Any]
) -> Callable[..., Any]:
    """Return what calls the function that a device has under a name, and `function` where it has none.

    It is generated, since a call takes less time than to look for the arguments among those given.
    """
    parameters = _parameters_of(function)
    taken = parameters if arguments is None else tuple(arguments)
    if (
        not taken
        or not isinstance(taken[0], str)
        or not {one for one in taken if isinstance(one, str)} <= set(parameters)
    ):
        raise ArgumentTypeError(
            f"the kernel {name} is given ({', '.join(map(str, taken))}), and {function.__name__} has the parameters "
            f"{', '.join(parameters)}: a string is the name of one of them, and the first one is an array"
        )
    namespace: dict[str, Any] = {"__name__": __name__, "_function": function, "_tables": DEVICE_FUNCTIONS}
    passed: list[str] = []
    for key, value in [*((None, one) for one in taken), *options.items()]:
        source = value
        if key is not None or not isinstance(value, str):
            namespace[source := f"_c{len(passed)}"] = value
        passed.append(source if key is None else f"{key}={source}")
    given = ", ".join(parameters)
    # Names that no parameter has.
    body = [
        f"_table = _tables.get(type({taken[0]}))",
        f"_kernel = None if _table is None else _table.functions.get({name!r})",
        f"_result = None if _kernel is None else _kernel({', '.join(passed)})",
        f"return _function({given}) if _result is None else _result",
    ]
    return make_function(f"on_device({given})", body, f"kernel {name}", namespace)


def is_fusable(function: Callable[..., Any]) -> bool:
    """Tell whether a function may have a kernel: a ufunc with one result, or one with an expression or a variant."""
    if isinstance(function, np.ufunc):
        return function.signature is None and function.nout == 1
    known = kernels_of(function)
    return known.expression is not None or known.variant is not None


def fused_names(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the names in the namespace of the wrapper of a function that depend on whether compilers are registered.

    `_function` is what the wrapper calls, and `_fused` the FusedFormula that this belongs to, or None.
    """
    if not COMPILED_TYPES or not is_fusable(function):
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
    """Make a wrapper call fused kernels as soon as a device has a compiler, if its function may have a kernel.

    Its namespace has the names of `fused_names`; `_bare_function` is the function without fusion.
    """
    if is_fusable(wrapper.__globals__["_bare_function"]):
        _wrappers.add(wrapper)


def _change_compiler(array_type: type) -> None:
    """Drop the kernels for a type of array whose compiler has changed, and have wrappers call what they are to call."""
    for formula in _formulas:
        formula.forget(array_type)
    for wrapper in _wrappers:
        names = wrapper.__globals__
        fused = names["_fused"]
        # Another function that stands there has been put there by somebody else.
        is_ours = inner_function(names) is (names["_bare_function"] if fused is None else fused.call)
        if is_ours and (fused is None) == bool(COMPILED_TYPES):
            found = fused_names(names["_bare_function"])
            names["_fused"] = found["_fused"]
            put_function(names, found["_function"])


when_a_compiler_changes(_change_compiler)


def arity(function: Callable[..., Any]) -> int:
    """Return how many arguments a function that may have a kernel takes."""
    # A decorator may hide the parameters of a function; its expression or its variant has the same.
    known = kernels_of(function)
    shown = known.expression or known.variant or function
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
        if kind in COMPILED_TYPES:
            launch = launchers.get(kind)
            if launch is None:
                compiler = compiler_of(kind)
                assert compiler is not None
                launch = launchers[kind] = kernels_of(formula).variant or compiler.launcher(formula)
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
