"""Composites: elementwise functions put together of others, which are one kernel where kernels are compiled.

On NumPy's arrays a composite is what its source says: a call of each function, each of them recorded. An accelerator
would launch a kernel for each, in the forward as in the backward. So on arrays of a type with a KernelCompiler a
composite is a primitive. Its function is the whole expression, and its derivatives follow from the formulas of the
functions that it calls, by the chain rule: both are generated as source, once for each composite. So `composite` makes
a function, and gives no function a kernel: what it makes has one by `kernel`, as any other primitive.

For example, of `x / (1 + np.abs(x))` this is the derivative::

    def softsign_x(g, x):
        t0 = absolute(x)
        t1 = (1 + t0)
        d0 = divide_x(g, t1)
        d1 = divide_y(g, x, t1)
        d2 = absolute_x(d1, x)
        return d0 + d2
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any, NamedTuple, final

import numpy as np

from ..arrays.device_functions import COMPILED_TYPES, own_function
from ..arrays.tensor_base import TensorBase
from ..recording.formula import Constant, FormulaCall, FormulaOperation, Parameter, Tree, as_expression, read_graph
from ..recording.kernels import FusedFormula, kernel
from ..recording.primitive import PRIMITIVES, Primitive, primitive
from ..settings.source import make_function
from . import arithmetic
from .single_precision import by_single, holds_half_array

__all__ = ["Composite", "composite"]

#: The primitives of operators, by the number of operands. All other operators have no derivative.
_OPERATORS: dict[tuple[str, int], Primitive] = {
    ("+", 2): arithmetic.add,
    ("-", 2): arithmetic.subtract,
    ("*", 2): arithmetic.multiply,
    ("/", 2): arithmetic.divide,
    ("**", 2): arithmetic.power,
    ("-", 1): arithmetic.negative,
    ("+", 1): arithmetic.positive,
}


class _Step(NamedTuple):
    """A statement of generated source, which gives a value a name."""

    target: str
    source: str
    #: The names that it uses.
    uses: tuple[str, ...]
    #: What it calls, if that has a derivative, and the arguments.
    primitive: Primitive | None = None
    operands: tuple[str, ...] = ()


def _no_gradient(g: Any) -> None:
    """Give no gradient."""


def _total(losses: Any) -> Any:
    return own_function(np.sum, losses)(losses)


def _average(losses: Any) -> Any:
    return own_function(np.mean, losses)(losses)


@final
class _Writer:
    """Writes an expression, and its derivatives, as functions.

    Args:
        function: the expression.
        fixed: by number, its arguments that are no numbers.
    """

    def __init__(self, function: FunctionType, fixed: dict[int, Any]) -> None:
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        self.name = function.__name__.strip("_").replace("<lambda>", "expression")
        #: The names of the arguments that are numbers or arrays.
        self.parameters = [name for number, name in enumerate(names) if number not in fixed]
        self.namespace: dict[str, Any] = {"__name__": __name__}
        self._names: dict[int, str] = {}
        #: By its source, each value that has a literal.
        self._literals: dict[str, Any] = {}
        self._steps: list[_Step] = []
        arguments = [self._number(fixed[number]) if number in fixed else name for number, name in enumerate(names)]
        self._result = self._value(read_graph(function, fixed), arguments, {})

    def _constant(self, value: Any, name: str) -> str:
        """Return a name for a value in the generated source."""
        if id(value) not in self._names:
            self._names[id(value)] = made = f"{name}_{len(self._names)}"
            self.namespace[made] = value
        return self._names[id(value)]

    def _number(self, value: Any) -> str:
        """Return the source of a number, or of None, True or False."""
        if not isinstance(value, (bool, type(None))) and not math.isfinite(value):
            return self._constant(value, "number")
        self._literals[f"({value!r})"] = value
        return f"({value!r})"

    def _value(self, tree: Tree, arguments: Sequence[str], known: dict[int, str]) -> str:
        """Write what a tree computes; return the name of the value, or a literal."""
        if id(tree) not in known:
            known[id(tree)] = self._operation(tree, arguments, known)
        return known[id(tree)]

    def _operation(self, tree: Tree, arguments: Sequence[str], known: dict[int, str]) -> str:
        if type(tree) is Parameter:
            return arguments[tree.number]
        if type(tree) is Constant:
            return self._number(tree.value)
        if type(tree) is FormulaOperation:
            operands = [self._value(part, arguments, known) for part in tree.operands]
            text = f"{tree.operator}{operands[0]}" if len(operands) == 1 else f" {tree.operator} ".join(operands)
            return self._add(f"({text})", operands, _OPERATORS.get((tree.operator, len(operands))))
        assert type(tree) is FormulaCall
        function = tree.function.value
        operands = [self._value(part, arguments, known) for part in tree.arguments]
        made = PRIMITIVES.get(function)
        if made is None and isinstance(function, FunctionType):
            missing = function.__code__.co_argcount - len(operands)
            operands += map(self._number, (function.__defaults__ or ())[-missing:] if missing else ())
            fixed = {number: self._literals[text] for number, text in enumerate(operands) if text in self._literals}
            return self._value(read_graph(function, fixed), operands, {})
        # NumPy's functions find their rules by themselves.
        called = made.call if made is not None and isinstance(function, FunctionType) else function
        name = self._constant(called, function.__name__.strip("_"))
        return self._add(f"{name}({', '.join(operands)})", [name, *operands], made, operands)

    def _add(
        self, source: str, uses: Sequence[str], primitive: Primitive | None, operands: Sequence[str] | None = None
    ) -> str:
        target = f"t{len(self._steps)}"
        self._steps.append(_Step(target, source, tuple(uses), primitive, tuple(uses if operands is None else operands)))
        return target

    def function(self) -> Callable[..., Any]:
        """Return the function itself."""
        return self._compile(self.name, self.parameters, self._steps, self._result)

    def derivative(self, wanted: str, is_mean: bool) -> Callable[..., Any]:
        """Return the derivative by an argument: a function of the incoming gradient and of the arguments it needs.

        Args:
            wanted: the name of the argument.
            is_mean: whether it is that of the mean: the gradient is multiplied by an argument `factor`.
        """
        varying = {wanted}
        for step in self._steps:
            if step.primitive is not None and varying.intersection(step.operands):
                varying.add(step.target)
        grads: dict[str, list[str]] = {self._result: ["g"]}
        lines = [_Step("g", "g * factor", ("factor",))] if is_mean else []
        for step in reversed(self._steps):
            if step.target in grads and step.target in varying:
                self._chain(step, varying, grads, lines)
        if wanted not in grads:
            # An argument of comparisons alone; the formula is there so that it may be a tensor.
            return _no_gradient
        total = self._sum(grads[wanted], lines)
        return self._compile(
            f"{self.name}_{wanted}", ["g", *self.parameters, "factor"], [*self._steps, *lines], total, is_pruned=True
        )

    def _chain(self, step: _Step, varying: set[str], grads: dict[str, list[str]], lines: list[_Step]) -> None:
        """Add the gradients of the operands of a step."""
        made = step.primitive
        assert made is not None
        grad = self._sum(grads[step.target], lines)
        values = dict(zip(made.parameters, step.operands, strict=False)) | {"out": step.target}
        for parameter, operand in zip(made.parameters, step.operands, strict=False):
            if operand not in varying or parameter not in made.formulas:
                continue
            formula, needs = made.formulas[parameter]
            expression = as_expression(formula)
            if expression is not None and expression.tree == Constant(None):
                continue
            if expression is not None and expression.is_gradient:
                grads.setdefault(operand, []).append(grad)
                continue
            name = self._constant(formula, f"{made.name}_{parameter}")
            given = [grad, *(values[need] for need in needs)]
            target = f"d{len(lines)}"
            lines.append(_Step(target, f"{name}({', '.join(given)})", (name, *given)))
            grads.setdefault(operand, []).append(target)

    def _sum(self, terms: list[str], lines: list[_Step]) -> str:
        if len(terms) == 1:
            return terms[0]
        target = f"d{len(lines)}"
        lines.append(_Step(target, " + ".join(terms), tuple(terms)))
        return target

    def _compile(
        self, name: str, parameters: Sequence[str], steps: Sequence[_Step], result: str, is_pruned: bool = False
    ) -> Callable[..., Any]:
        """Return the function of some steps, without those that its result does not need.

        Args:
            name: its name.
            parameters: those it may take.
            steps: its statements, in order.
            result: the name of what it returns.
            is_pruned: whether it takes only the parameters that it uses, and always the first.
        """
        used, kept = {result}, []
        for step in reversed(steps):
            if step.target in used:
                used.update(step.uses)
                kept.append(f"{step.target} = {step.source}")
        taken = [one for number, one in enumerate(parameters) if not is_pruned or one in used or not number]
        body = [*reversed(kept), f"return {result}"]
        namespace = {key: value for key, value in self.namespace.items() if key in used or key == "__name__"}
        return make_function(f"{name}({', '.join(taken)})", body, f"composite {name}", namespace)


def _made(function: FunctionType, fixed: dict[int, Any], differentiable: Iterable[str], reduction: str) -> Primitive:
    """Return the primitive of an expression, or of the sum or mean of it.

    Args:
        function: the expression.
        fixed: by number, its arguments that are no numbers.
        differentiable: the names of those by which it has a derivative.
        reduction: "none", "sum" or "mean"; that of a mean takes one by the number of elements as its last argument.
    """
    writer = _Writer(function, fixed)
    whole = writer.function()
    kernel(expression=whole)(whole)
    is_mean = reduction == "mean"
    if reduction != "none":
        given = ", ".join(writer.parameters)
        namespace = {
            "__name__": __name__,
            "fused": FusedFormula(whole).call,
            "reduced": _average if is_mean else _total,
        }
        head, body = f"{writer.name}({given}{', factor' * is_mean})", [f"return reduced(fused({given}))"]
        whole = make_function(head, body, f"composite {writer.name}", namespace)
        kernel(variant=whole)(whole)
    made = primitive()(whole)
    made.add_formulas({name: writer.derivative(name, is_mean) for name in differentiable if name in writer.parameters})
    return made


@final
class Composite:
    """An elementwise function of arrays and numbers, put together of differentiable ones; `composite` makes it.

    Args:
        function: it returns one expression. It may ask whether an argument is None, True or False, and nothing else.
        differentiable: the names of the arguments that may be tensors.
    """

    __slots__ = ("__name__", "_primitives", "differentiable", "function")

    def __init__(self, function: FunctionType, differentiable: Iterable[str]) -> None:
        self.function: FunctionType = function
        self.__name__: str = function.__name__
        self.differentiable: tuple[str, ...] = tuple(differentiable)
        #: By the arguments that are no numbers, and by the reduction.
        self._primitives: dict[Any, Primitive] = {}

    def __call__(self, *arguments: Any) -> Any:
        """Return the function of the arguments."""
        if COMPILED_TYPES and _arrays_with_kernels(arguments):
            return self.primitive_for("none", arguments).call(*_numbers(arguments))
        return by_single(self.function, None, *arguments) if holds_half_array(*arguments) else self.function(*arguments)

    def reduced(self, reduction: str, *arguments: Any) -> Any:
        """Return the mean or the sum of the function of the arguments, or that itself for "none".

        Each derivative of the function has to take an array: a gradient without axes has the shape of no argument.
        """
        if reduction == "none":
            return self(*arguments)
        if COMPILED_TYPES and (arrays := _arrays_with_kernels(arguments)) and _are_alike(arrays):
            factor = (1 / arrays[0].size,) if reduction == "mean" else ()
            return self.primitive_for(reduction, arguments).call(*_numbers(arguments), *factor)
        if holds_half_array(*arguments):
            return by_single(self.reduced, None, reduction, *arguments)
        values = self(*arguments)
        return np.mean(values) if reduction == "mean" else np.sum(values)

    def primitive_for(self, reduction: str, arguments: Sequence[Any]) -> Primitive:
        """Return what is called on arrays with kernels.

        It takes those of the arguments that are numbers or arrays, and for a mean one by the number of elements.
        """
        fixed = {number: value for number, value in enumerate(arguments) if value is None or type(value) is bool}
        key = reduction, *fixed.items()
        made = self._primitives.get(key)
        if made is None:
            made = self._primitives[key] = _made(self.function, fixed, self.differentiable, reduction)
        return made


def _numbers(arguments: Sequence[Any]) -> list[Any]:
    return [value for value in arguments if value is not None and type(value) is not bool]


def _arrays_with_kernels(arguments: Sequence[Any]) -> list[Any]:
    """Return the arrays among some arguments, if they are real and of a type with a compiler, and one is floating."""
    data = [one._data if isinstance(one, TensorBase) else one for one in arguments]
    arrays = [one for one in data if hasattr(one, "dtype")]
    kinds = {one.dtype.kind for one in arrays}
    if "f" in kinds and kinds <= set("fiub") and any(type(one) in COMPILED_TYPES for one in arrays):
        return arrays
    return []


def _are_alike(arrays: Sequence[Any]) -> bool:
    """Tell whether arrays have one shape and are not empty: then a mean of theirs is one of as many elements."""
    shape = arrays[0].shape
    return 0 not in shape and all(one.shape == shape for one in arrays)


def composite(*differentiable: str) -> Callable[[Callable[..., Any]], Composite]:
    """Return a decorator that makes an elementwise function one kernel where kernels are compiled.

    Args:
        *differentiable: the names of the arguments that may be tensors.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.core.ops.composites import composite
        >>> @composite("x", "y")
        ... def distance(x, y):
        ...     return np.sqrt(x * x + y * y)
        >>> float(distance(3.0, 4.0))
        5.0
    """

    def decorate(function: Callable[..., Any]) -> Composite:
        assert isinstance(function, FunctionType)
        return Composite(function, differentiable)

    return decorate
