"""Primitive: a NumPy function with its derivative formulas, and the wrapper that records calls of it.

A formula is a function of the incoming gradient `g` and of what it needs, named by its parameters: an argument
of the primitive by its name, the result as `out`, a shape or dtype as `x_shape`, `out_dtype`. Only what the
formulas of the arguments that require grad name is saved. Formulas are written with NumPy functions and
operators: they run on arrays in an ordinary backward, and on tensors, recorded, under `create_graph=True`. They need
not handle broadcasting, dtypes or devices: the engine does.

Where the result is complex, `g` is conjugated before the formula runs, and what that returns is conjugated again. So a
formula that multiplies by the derivative gives PyTorch's gradient. Where a function has no complex derivative, its
formula returns the conjugate of the gradient. Where the result is real, nothing is conjugated: the formula of `abs(z)`
is `g * z / abs(z)`.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, final, overload

import numpy as np

from ...errors import ArgumentTypeError
from ..arrays.device_functions import COMPILED_TYPES
from ..arrays.one_device import mixed_devices
from ..arrays.ownership import make_private
from ..arrays.tensor_base import TensorBase
from ..arrays.typed import LikeFirst
from ..arrays.values import result_array
from ..graph.leaf import accumulator
from ..graph.node import MAIN_THREAD, THREADS, next_order
from ..settings.arguments import takes
from ..settings.context import GRAD_MODE
from .kernels import follow_compilers, fused_names
from .plan import Formula, Plan
from .primitive_node import next_class
from .wrapper import generate_call

__all__ = ["PRIMITIVES", "RULES", "Primitive", "derivative", "differentiable", "primitive"]

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", bound=TensorBase)

#: What runs when a NumPy function is called on a Tensor: its primitive, or a function built on others.
RULES: dict[Callable[..., Any], Callable[..., Any]] = {}

#: By function, the primitive that calls it.
PRIMITIVES: dict[Callable[..., Any], Primitive] = {}


@final
class Primitive:
    """A function of arrays that records itself when it is called on tensors that require grad.

    On bare arrays it calls the bare function. `primitive` and `differentiable` make it.
    """

    __slots__ = (
        "call",
        "formulas",
        "function",
        "name",
        "node_name",
        "numpy_functions",
        "parameters",
        "plans",
        "signature",
        "superlinear",
        "tensor_names",
        "views",
    )

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        signature: inspect.Signature,
        numpy_functions: Sequence[Callable[..., Any]],
        *,
        views: bool,
        superlinear: bool = False,
    ) -> None:
        self.function: Callable[..., Any] = function
        self.name: str = name
        self.node_name: str = "".join(part.capitalize() for part in name.split("_")) + "Backward"
        self.signature: inspect.Signature = signature
        self.parameters: tuple[str, ...] = tuple(signature.parameters)
        #: The NumPy functions that it stands for.
        self.numpy_functions: Sequence[Callable[..., Any]] = numpy_functions
        self.formulas: dict[str, Formula] = {}
        #: The parameters that may be tensors, in order; each has an edge.
        self.tensor_names: tuple[str, ...] = ()
        #: By whether the arrays are of a type that there is a KernelCompiler for (the lowest bit), which arguments are
        #: tensors (the next bits), which require grad (the next), whether the result is complex, whether it was
        #: cast to the dtype of memory that it was written into, and whether it is of float16.
        self.plans: dict[int, Plan] = {}
        #: Whether the result may be a view of the first argument's memory.
        self.views: bool = views
        #: Whether the work of a call grows faster than its arrays.
        self.superlinear: bool = superlinear
        #: The generated wrapper: what a call of the primitive does.
        self.call: LikeFirst[...] = function

    def add_formulas(self, formulas: dict[str, Callable[..., Any]]) -> None:
        """Give the derivative with respect to the named arguments."""
        for name, function in formulas.items():
            if name not in self.parameters:
                raise TypeError(f"{self.name} has no parameter {name!r}: it takes {', '.join(self.parameters)}")
            needs = tuple(inspect.signature(function).parameters)[1:]
            is_ours = str(function.__module__).startswith("asyncgrad.")
            formula = Formula(function if is_ours else _with_private_result(function), needs)
            for need in formula.needs:
                self.slot_key(need)
            self.formulas[name] = formula
        self.tensor_names = tuple(name for name in self.parameters if name in self.formulas)
        self.plans.clear()
        self.call = self._generate_call({})
        PRIMITIVES[self.function] = self
        for numpy_function in self.numpy_functions:
            RULES[numpy_function] = self.call

    def operator(self, deferred: Callable[[object, Exception, str, T], T]) -> Callable[[T, object], T]:
        """Return the wrapper of a function of two arrays as an operator, a method of the tensor on the left.

        Args:
            deferred: called where the function refuses the other operand, with that, the error, the name of the
                function and the tensor; the operator returns what it returns.
        """
        return self._generate_call({"_deferred": deferred}, is_operator=True)

    def _generate_call(self, names: dict[str, Any], *, is_operator: bool = False) -> LikeFirst[...]:
        call = generate_call(
            self.name,
            self.signature,
            self.tensor_names,
            views=self.views,
            always_floating=isinstance(self.function, np.ufunc),
            namespace={
                "_bare_function": self.function,
                **fused_names(self.function),
                "_plans": self.plans,
                "_make_plan": self._make_plan,
                **names,
                **_WRAPPER_NAMES,
            },
            is_operator=is_operator,
            superlinear=self.superlinear,
        )
        follow_compilers(call)
        return call

    def _make_plan(self, key: int) -> Plan:
        count = len(self.tensor_names)
        ones = (1 << count) - 1
        bits = key >> 1
        is_complex, is_cast, is_half = (bool(bits >> 2 * count & bit) for bit in (1, 2, 4))
        requires, tracked = bits >> count & ones, bits & ones
        plan = self.plans[key] = Plan(self, requires, tracked, is_complex, is_cast, bool(key & 1), is_half)
        return plan

    def plan(self, key: int) -> Plan:
        """Return the plan of calls of one kind: see the attribute `plans`."""
        found = self.plans.get(key)
        return self._make_plan(key) if found is None else found

    def slot_key(self, need: str) -> tuple[str, str | None]:
        """Return (argument or `out`, attribute) of what a formula names."""
        if need in self.parameters or need == "out":
            return need, None
        owner, _, attribute = need.rpartition("_")
        if attribute not in ("shape", "dtype") or not (
            owner in self.tensor_names or owner in (*self.parameters, "out")
        ):
            raise TypeError(
                f"a formula of {self.name} asks for {need!r}: there are {', '.join(self.parameters)} and out, "
                "and their shapes and dtypes, such as out_shape"
            )
        return owner, attribute

    @overload
    def __call__(self, first: T, /, *args: Any, **kwargs: Any) -> T: ...

    @overload
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; record the call if grad mode is on and an argument requires grad."""
        return self.call(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"


def _with_private_result(formula: Callable[..., Any]) -> Callable[..., Any]:
    """Return a user's formula, whose result is copied where the formula keeps it, and may write into it later.

    `test_an_array_that_a_rule_fills_anew_keeps_its_value_where_it_was_returned`
    """

    @functools.wraps(formula)
    def call(g: Any, *saved: Any) -> Any:
        result = formula(g, *saved)
        if result is g:
            return result
        held = [result]
        del result
        make_private(held, 0)
        return held.pop()

    return call


#: Names that the generated wrappers use.
_WRAPPER_NAMES: dict[str, Any] = {
    "_MAIN_THREAD": MAIN_THREAD,
    "_THREADS": THREADS,
    "_TensorBase": TensorBase,
    "_accumulator": accumulator,
    "_compiled": COMPILED_TYPES,
    "_as_array": result_array,
    "_get_ident": threading.get_ident,
    "_grad_mode": GRAD_MODE.get,
    "_mixed_devices": mixed_devices,
    "_next_class": next_class,
    "_next_order": next_order,
}


def primitive(
    *numpy_functions: Callable[..., Any], views: bool = False, superlinear: bool = False
) -> Callable[[Callable[..., Any]], Primitive]:
    """Make the decorated function of arrays a primitive, called for `numpy_functions` on tensors.

    Give its parameters NumPy's names and defaults, so that keyword calls bind, and its derivative right below, by
    `derivative`.

    Args:
        *numpy_functions: the NumPy functions that it stands for; none for one of asyncgrad's own.
        views: whether the result may share memory with the first argument.
        superlinear: whether the work of a call grows faster than its arrays, as that of a matrix product does.

    Raises:
        ArgumentTypeError: it decorates a function itself, for lack of parentheses.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.extend import primitive, derivative
        >>> @primitive()
        ... def cubed(x):
        ...     return x ** 3
        >>> @derivative(cubed, "x")
        ... def _(g, x):
        ...     return g * 3 * np.square(x)
        >>> float(cubed(2.0))
        8.0
    """
    if numpy_functions and inspect.isfunction(numpy_functions[0]):
        # NumPy's own are of another type.
        name = numpy_functions[0].__name__
        raise ArgumentTypeError(
            f"primitive takes functions of NumPy, and returns a decorator: write @primitive() above def {name}"
        )

    def decorate(function: Callable[..., Any]) -> Primitive:
        name = function.__name__.rstrip("_")
        signature = inspect.signature(function)
        return Primitive(function, name, signature, numpy_functions, views=views, superlinear=superlinear)

    return decorate


def derivative(made: Primitive, *arguments: str) -> Callable[[F], F]:
    """Give the decorated formula as the derivative of a primitive with respect to the named arguments.

    The formula multiplies the incoming gradient by the derivative, for complex numbers too. Where the result is
    complex, the gradient is conjugated before the formula runs, and its result after that. Check the formula with
    `gradcheck` and `gradgradcheck` at complex points, or have the function raise a TypeError for them.

    Args:
        made: the primitive.
        *arguments: names of its parameters; a formula for several may serve symmetric functions.

    Example:
        >>> from asyncgrad.extend import primitive, derivative
        >>> @primitive()
        ... def doubled(x):
        ...     return 2 * x
        >>> @derivative(doubled, "x")
        ... def _(g):
        ...     return 2 * g
    """
    if not isinstance(made, Primitive):
        raise ArgumentTypeError(takes("derivative", "a primitive first", made, "write @derivative(made, 'x')"))

    def decorate(formula: F) -> F:
        made.add_formulas(dict.fromkeys(arguments, formula))
        return formula

    return decorate


def differentiable(ufunc: np.ufunc, parameters: str, **formulas: Callable[..., Any]) -> Primitive:
    """Make a NumPy ufunc a primitive, given the names of its parameters and a formula for each."""
    names = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in parameters.split()]
    made = Primitive(ufunc, ufunc.__name__, inspect.Signature(names), (ufunc,), views=False)
    made.add_formulas(formulas)
    return made
