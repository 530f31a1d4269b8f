"""Formulas of elementwise operations as the body of a kernel in C.

Each operation is computed in the dtype that NumPy gives it and rounded to that, one after the other, so that a kernel
gives what the operations give one by one. The source is C that CUDA's compiler takes as well as that of the host; what
the two write differently are the macros of `_kernel_text.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from asyncgrad.core.recording.formula import (
    Constant,
    FormulaCall,
    FormulaOperation,
    NotAnExpressionError,
    Parameter,
    Tree,
    Tuple,
    is_readable,
    read_graph,
)
from asyncgrad.core.recording.kernels import bare_formula, kernels_of

__all__ = ["STORED_AS", "Kind", "NotElementwise", "NotCompilable", "Value", "computed_as", "write_body"]

#: What an argument of a formula is: the dtype of an array or of a NumPy scalar, or `int` or `float`, a Python number.
Kind = Any

#: The C types that hold one element in memory, by dtype.
STORED_AS = {
    "?": "bool",
    "b": "signed char",
    "B": "unsigned char",
    "h": "short",
    "H": "unsigned short",
    "i": "int",
    "I": "unsigned int",
    "l": "long long",
    "L": "unsigned long long",
    "q": "long long",
    "Q": "unsigned long long",
    "e": "HALF",
    "f": "float",
    "d": "double",
}

_OPERATORS: dict[tuple[str, int], np.ufunc] = {
    ("+", 2): np.add,
    ("-", 2): np.subtract,
    ("*", 2): np.multiply,
    ("/", 2): np.divide,
    ("//", 2): np.floor_divide,
    ("%", 2): np.remainder,
    ("**", 2): np.power,
    ("&", 2): np.bitwise_and,
    ("|", 2): np.bitwise_or,
    ("^", 2): np.bitwise_xor,
    ("<", 2): np.less,
    ("<=", 2): np.less_equal,
    ("==", 2): np.equal,
    ("!=", 2): np.not_equal,
    (">", 2): np.greater,
    (">=", 2): np.greater_equal,
    ("-", 1): np.negative,
    ("+", 1): np.positive,
    ("~", 1): np.invert,
}

#: What floating and integer numbers have alike.
_COMMON: dict[np.ufunc, str] = {
    np.add: "{0} + {1}",
    np.subtract: "{0} - {1}",
    np.multiply: "{0} * {1}",
    np.negative: "-{0}",
    np.positive: "{0}",
    np.conjugate: "{0}",
    np.square: "{0} * {0}",
    np.less: "{0} < {1}",
    np.less_equal: "{0} <= {1}",
    np.equal: "{0} == {1}",
    np.not_equal: "{0} != {1}",
    np.greater: "{0} > {1}",
    np.greater_equal: "{0} >= {1}",
    np.logical_and: "{0} != 0 && {1} != 0",
    np.logical_or: "{0} != 0 || {1} != 0",
    np.logical_xor: "({0} != 0) != ({1} != 0)",
    np.logical_not: "{0} == 0",
}

#: Of integers and booleans.
_INTEGER: dict[np.ufunc, str] = _COMMON | {
    np.absolute: "{0} < 0 ? -{0} : {0}",
    np.sign: "({0} > 0) - ({0} < 0)",
    np.maximum: "{0} >= {1} ? {0} : {1}",
    np.minimum: "{0} <= {1} ? {0} : {1}",
    np.fmax: "{0} >= {1} ? {0} : {1}",
    np.fmin: "{0} <= {1} ? {0} : {1}",
    np.bitwise_and: "{0} & {1}",
    np.bitwise_or: "{0} | {1}",
    np.bitwise_xor: "{0} ^ {1}",
    np.isnan: "0",
    np.isinf: "0",
    np.isfinite: "1",
}

#: Of floating numbers; {f} is the end of the names of C's functions of that type, {T} the type.
_FLOATING: dict[np.ufunc, str] = _COMMON | {
    np.divide: "{0} / {1}",
    np.reciprocal: "({T})1 / {0}",
    np.absolute: "fabs{f}({0})",
    np.fabs: "fabs{f}({0})",
    np.sign: "{0} > 0 ? ({T})1 : {0} < 0 ? ({T})-1 : {0} == 0 ? ({T})0 : {0}",
    # A NaN on either side is the result.
    np.maximum: "{0} >= {1} || {0} != {0} ? {0} : {1}",
    np.minimum: "{0} <= {1} || {0} != {0} ? {0} : {1}",
    np.fmax: "{0} >= {1} || {1} != {1} ? {0} : {1}",
    np.fmin: "{0} <= {1} || {1} != {1} ? {0} : {1}",
    np.isnan: "{0} != {0}",
    np.isinf: "{0} == {0} && {0} - {0} != 0",
    np.isfinite: "{0} - {0} == 0",
    np.power: "pow{f}({0}, {1})",
    np.float_power: "pow{f}({0}, {1})",
    np.fmod: "fmod{f}({0}, {1})",
    np.floor_divide: "floor_divide{f}({0}, {1})",
    np.remainder: "remainder_of{f}({0}, {1})",
    np.logaddexp: "logaddexp{f}({0}, {1})",
    np.logaddexp2: "logaddexp2{f}({0}, {1})",
    np.arctan2: "atan2{f}({0}, {1})",
    np.deg2rad: "{0} * ({T})0.017453292519943295",
    np.radians: "{0} * ({T})0.017453292519943295",
    np.rad2deg: "{0} * ({T})57.29577951308232",
    np.degrees: "{0} * ({T})57.29577951308232",
}
for _name in (
    *("sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "floor", "ceil", "trunc", "rint"),
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh"),
):
    _FLOATING[getattr(np, _name)] = f"{_name.replace('arc', 'a')}{{f}}({{0}})"
for _name in ("hypot", "copysign"):
    _FLOATING[getattr(np, _name)] = f"{_name}{{f}}({{0}}, {{1}})"

#: The powers that Python's operator gives as other functions, as NumPy's does.
_POWERS = {2: np.square, 0.5: np.sqrt, -1: np.reciprocal, 1: np.positive}

#: How far one formula may call others.
_DEPTH = 8


class NotCompilable(Exception):
    """Raised where a formula cannot be written in C; the formula itself is called then."""


class NotElementwise(NotCompilable):
    """Raised where the reason is an operation of the formula, so that no dtype and no value of a number can help."""


class Value(NamedTuple):
    """An intermediate result: the C expression, its kind, and the number that it is, if it is a constant."""

    text: str
    kind: Kind
    constant: Any = None

    @property
    def is_weak(self) -> bool:
        """Whether it is a Python number, which takes the dtype of what it meets."""
        # A dtype is equal to a Python type, too.
        return self.kind is int or self.kind is float


def computed_as(dtype: np.dtype) -> str:
    """Return the C type in which numbers of a dtype are computed.

    Raises:
        NotCompilable: there is none.
    """
    if dtype.char not in STORED_AS:
        raise NotCompilable
    return "float" if dtype.char == "e" else STORED_AS[dtype.char]


def write_body(
    formula: Callable[..., Any], kinds: Sequence[Kind], fixed: dict[int, Any]
) -> tuple[list[str], list[Value]]:
    """Return the statements of a formula in C, and its result, or its results if it returns a tuple.

    Args:
        formula: a ufunc, or a function that `read_graph` reads.
        kinds: of the arguments, which the statements call `p0`, `p1` and so on.
        fixed: by number, the arguments whose values are known.

    Raises:
        NotCompilable: the formula, or one of the dtypes, cannot be written in C.
    """
    writer = _BodyWriter()
    arguments = []
    for number, kind in enumerate(kinds):
        if number in fixed:
            arguments.append(writer.constant(fixed[number]))
        else:
            if isinstance(kind, np.dtype):
                computed_as(kind)
            arguments.append(Value(f"p{number}", kind))
    try:
        with np.errstate(all="ignore"):
            results = writer.call(formula, arguments, 0)
    except (TypeError, OverflowError, NotAnExpressionError) as error:
        raise NotCompilable from error
    found = list(results) if isinstance(results, tuple) and not isinstance(results, Value) else [results]
    return writer.lines, [_strong(value) for value in found]


def _strong(value: Any) -> Value:
    """Return a result, which has a dtype.

    Raises:
        NotCompilable: it is a Python number, or no number at all.
    """
    if not isinstance(value, Value) or not isinstance(value.kind, np.dtype):
        raise NotCompilable
    return value


@final
class _BodyWriter:
    """Writes the operations of one formula, and of those that it calls, each as one statement."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def call(self, function: Any, arguments: Sequence[Value], depth: int) -> Any:
        """Write a call of a function; return its result, or a tuple of those."""
        function = bare_formula(function)
        if isinstance(function, np.ufunc):
            return self._ufunc(function, arguments)
        if function is np.where and len(arguments) == 3:
            return self._where(*arguments)
        if function in (np.zeros_like, np.ones_like) and len(arguments) == 1:
            return self._cast(self.constant(0 if function is np.zeros_like else 1), _dtype(arguments[0]))
        if function in (np.real, np.conj) and len(arguments) == 1:
            return _strong(arguments[0])
        known = kernels_of(function)
        if known.c_name is not None and len(arguments) == 1:
            return self._c_function(known.c_name, arguments[0])
        formula = known.expression or function
        if kernels_of(formula).variant is not None:
            # What the device does in another way is not elementwise.
            raise NotElementwise
        if all(one.constant is not None for one in arguments) and _is_of_numbers(function):
            return self.constant(function(*(one.constant for one in arguments)))
        if depth == _DEPTH or not is_readable(formula):
            raise NotElementwise
        return self._formula(formula, arguments, depth + 1)

    def _formula(self, formula: Any, arguments: Sequence[Value], depth: int) -> Any:
        """Write the operations of a formula."""
        fixed = {nr: value.constant for nr, value in enumerate(arguments) if value.constant is not None}
        fixed |= {nr: None for nr, value in enumerate(arguments) if value.kind is None}
        dtypes = {nr: value.kind for nr, value in enumerate(arguments) if isinstance(value.kind, np.dtype)}
        missing = formula.__code__.co_argcount - len(arguments)
        if missing:
            defaults = (formula.__defaults__ or ())[-missing:]
            if missing < 0 or len(defaults) < missing:
                raise NotCompilable
            fixed |= dict(enumerate(defaults, len(arguments)))
        tree = read_graph(formula, fixed, dtypes)
        return self._tree(tree, arguments, {}, depth)

    def _tree(self, tree: Tree, arguments: Sequence[Value], known: dict[int, Any], depth: int) -> Any:
        """Write what a tree computes, each of its operations once."""
        if id(tree) not in known:
            known[id(tree)] = self._operation(tree, arguments, known, depth)
        return known[id(tree)]

    def _operation(self, tree: Tree, arguments: Sequence[Value], known: dict[int, Any], depth: int) -> Any:
        if type(tree) is Parameter:
            return arguments[tree.number]
        if type(tree) is Constant:
            return self.constant(tree.value)
        if type(tree) is Tuple:
            return tuple([self._tree(item, arguments, known, depth) for item in tree.items])
        if type(tree) is FormulaOperation:
            operands = [self._tree(part, arguments, known, depth) for part in tree.operands]
            return self._operator(tree.operator, operands)
        if type(tree) is FormulaCall and type(tree.function) is Constant and not tree.keywords:
            given = [self._tree(part, arguments, known, depth) for part in tree.arguments]
            if all(isinstance(value, Value) for value in given):
                return self.call(tree.function.value, given, depth)
        raise NotElementwise

    def constant(self, value: Any) -> Value:
        """Return a number of the source as a value."""
        if value is None:
            return Value("", None)
        if type(value) is bool:
            return Value(str(int(value)), np.dtype(bool), value)
        if type(value) in (int, float):
            return Value(_literal(value), type(value), value)
        raise NotCompilable

    def _operator(self, operator: str, operands: list[Value]) -> Value:
        ufunc = _OPERATORS.get((operator, len(operands)))
        if ufunc is None:
            raise NotCompilable
        if all(operand.is_weak for operand in operands):
            return self._of_numbers(operator, operands)
        if ufunc is np.power and operands[1].constant in _POWERS and _dtype(operands[0]).kind == "f":
            return self._ufunc(_POWERS[operands[1].constant], operands[:1])
        return self._ufunc(ufunc, operands)

    def _of_numbers(self, operator: str, operands: list[Value]) -> Value:
        """Write an operation of Python numbers, which are known only when the kernel runs."""
        if operator not in ("+", "-", "*", "/") or (operator == "/" and operands[1].constant in (None, 0)):
            raise NotCompilable
        kind = float if operator == "/" or any(operand.kind is float for operand in operands) else int
        texts = [operand.text if operand.kind is kind else f"(double){operand.text}" for operand in operands]
        text = f"{operator}{texts[0]}" if len(texts) == 1 else f"{texts[0]} {operator} {texts[1]}"
        return self._name("double" if kind is float else "long long", text, kind)

    def _ufunc(self, ufunc: np.ufunc, operands: Sequence[Value]) -> Value:
        """Write a ufunc, by the loop that NumPy chooses for the dtypes."""
        if len(operands) != ufunc.nin or ufunc.nout != 1 or any(operand.kind is None for operand in operands):
            raise NotCompilable
        if all(operand.is_weak for operand in operands):
            # NumPy makes arrays of them.
            operands = [self._cast(operand, np.dtype(operand.kind)) for operand in operands]
        *loop, result = ufunc.resolve_dtypes((*(operand.kind for operand in operands), None))
        if ufunc is np.ldexp:
            return self._ldexp(self._cast(operands[0], loop[0]), self._cast(operands[1], loop[1]), result)
        if len(set(loop)) > 1:
            raise NotCompilable
        template = (_FLOATING if loop[0].kind == "f" else _INTEGER).get(ufunc)
        if template is None and ufunc is np.invert:
            template = "!{0}" if loop[0].kind == "b" else "~{0}"
        if template is None:
            raise NotCompilable if ufunc in _FLOATING or ufunc in _INTEGER else NotElementwise
        computed = computed_as(loop[0])
        texts = [self._cast(operand, loop[0]).text for operand in operands]
        text = template.format(*texts, f="" if computed == "double" else "f", T=computed)
        return self._rounded(text, result)

    def _ldexp(self, number: Value, exponent: Value, result: np.dtype) -> Value:
        end = "" if computed_as(result) == "double" else "f"
        return self._rounded(f"ldexp{end}({number.text}, (int){exponent.text})", result)

    def _c_function(self, name: str, operand: Value) -> Value:
        dtype = _dtype(operand)
        if dtype.kind != "f":
            raise NotCompilable
        return self._rounded(f"{name}{'' if computed_as(dtype) == 'double' else 'f'}({operand.text})", dtype)

    def _where(self, condition: Value, first: Value, second: Value) -> Value:
        if condition.is_weak or condition.kind is None:
            raise NotCompilable
        # NumPy's rule for Python numbers needs one of each kind.
        dtype = np.result_type(*(value.kind(0) if value.is_weak else value.kind for value in (first, second)))
        chosen = [self._cast(value, dtype).text for value in (first, second)]
        return self._name(computed_as(dtype), f"{condition.text} != 0 ? {chosen[0]} : {chosen[1]}", dtype)

    def _cast(self, value: Value, dtype: np.dtype) -> Value:
        """Return a value in another dtype."""
        computed = computed_as(dtype)
        if value.kind == dtype:
            return value
        if value.constant is not None:
            number = np.asarray(value.constant, dtype).item()
            return Value(f"({computed}){_literal(number)}", dtype)
        if dtype.char == "?":
            return self._name(computed, f"{value.text} != 0", dtype)
        return self._rounded(f"({computed}){value.text}", dtype)

    def _rounded(self, text: str, dtype: np.dtype) -> Value:
        """Give a name to the result of an operation, rounded to its dtype."""
        return self._name(computed_as(dtype), f"ROUND_HALF({text})" if dtype.char == "e" else text, dtype)

    def _name(self, computed: str, text: str, kind: Kind) -> Value:
        name = f"t{len(self.lines)}"
        self.lines.append(f"const {computed} {name} = {text};")
        return Value(name, kind)


def _is_of_numbers(function: Any) -> bool:
    """Tell whether a function takes and returns Python numbers: one of `math`, or one whose hints say so."""
    if getattr(function, "__module__", "") == "math":
        return True
    hints = set(getattr(function, "__annotations__", {"": None}).values())
    return bool(hints) and hints <= {"int", "float"}


def _dtype(value: Value) -> np.dtype:
    """Return the dtype of an array.

    Raises:
        NotCompilable: it is a number.
    """
    if not isinstance(value.kind, np.dtype):
        raise NotCompilable
    return value.kind


def _literal(value: Any) -> str:
    """Return a number as C writes it."""
    if type(value) is bool:
        return str(int(value))
    if type(value) is int:
        if not -(1 << 63) < value < 1 << 63:
            raise NotCompilable
        return f"({value}LL)" if value < 0 else f"{value}LL"
    if math.isfinite(value):
        return f"({value!r})"
    return "(NOT_A_NUMBER)" if value != value else "(INFINITE)" if value > 0 else "(-INFINITE)"
