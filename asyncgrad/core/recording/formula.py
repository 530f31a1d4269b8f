"""Derivative formulas traced into expressions, which generated source contains in place of calls.

On small arrays, the call of `lambda g, y: g * y` costs a third of the time of its computation. `as_expression` calls a
copy of a formula with symbols: objects that record the operations on them. In the copy, each global name and each
closure variable is a symbol or a number, too. So only the formula itself runs, and tracing reads neither its bytecode
nor its source.

A formula becomes an expression only if its result consists of all recorded operations, each used once and in the order
of the recording. Otherwise the source would omit an operation, compute one twice, or change their order. A formula that
branches on a symbol, iterates over one, or writes into one does not become an expression; generated source calls it.

A symbol cannot record `x is None`. So the formula is traced once more for each parameter that may be None, with None in
its place. If this gives a different expression, both become the branches of one conditional expression. An identity
test with any other object goes unnoticed: asyncgrad's own formulas contain none, and no others are traced.

An expression is evaluated with arrays only. So where a formula calls the wrapper of a primitive, which tests for
tensors, the expression calls the function of the primitive.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from math import isfinite
from types import CellType, FunctionType, MappingProxyType, ModuleType
from typing import Any, NamedTuple, NoReturn, TypeGuard, final

import numpy as np

__all__ = [
    "Attribute",
    "Conditional",
    "Constant",
    "Expression",
    "FormulaCall",
    "FormulaOperation",
    "NotAnExpressionError",
    "Parameter",
    "Tree",
    "Tuple",
    "as_expression",
    "is_readable",
    "keeps_dtype",
    "read_graph",
]

_BINARY = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
    "matmul": "@",
    "and": "&",
    "or": "|",
    "xor": "^",
    "lshift": "<<",
    "rshift": ">>",
}
_COMPARISONS = {"lt": "<", "le": "<=", "eq": "==", "ne": "!=", "gt": ">", "ge": ">="}
_UNARY = {"neg": "-", "pos": "+", "invert": "~"}
_ARITHMETIC = ("+", "-", "*", "/")

#: What is known about the dtype of a part of a formula. _FLOATING: that of the incoming gradient, or one that promotes
#: to it together with it. _PARAMETER: that of a parameter that may have an integer dtype. _NUMBER: a Python number,
#: which takes the dtype of the other operand. _UNKNOWN: nothing.
_FLOATING, _PARAMETER, _NUMBER, _UNKNOWN = range(4)

#: The flags of code that cannot be a formula: of functions with variable arguments, generators and coroutines.
_NO_FORMULA = (
    inspect.CO_VARARGS
    | inspect.CO_VARKEYWORDS
    | inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
)


#: Python's functions that a formula may call while it is traced: to ask whether a parameter is a number or an array,
#: which is known then, and to repeat an operation a number of times that is known.
_CALLED_BUILTINS = ("isinstance", "bool", "int", "float", "complex", "range", "reversed")

_NOTHING: Mapping[int, Any] = MappingProxyType({})


class NotAnExpressionError(Exception):
    """Raised by a symbol, and caught in this module: an expression cannot represent the formula."""


# The operations of a trace.


class Parameter(NamedTuple):
    """A parameter of the formula, by number; the incoming gradient is number 0."""

    number: int


class Constant(NamedTuple):
    """A global value, a closure variable or a literal of the formula."""

    value: Any


class FormulaOperation(NamedTuple):
    """An operator with one or two operands."""

    operator: str
    operands: tuple[Any, ...]


class Attribute(NamedTuple):
    """An attribute of a value."""

    base: Any
    name: str


class FormulaCall(NamedTuple):
    """A call of a function."""

    function: Any
    arguments: tuple[Any, ...]
    keywords: tuple[tuple[str, Any], ...]


class Tuple(NamedTuple):
    """A tuple that contains recorded values."""

    items: tuple[Any, ...]


class Conditional(NamedTuple):
    """A conditional expression: `if_none` if parameter `number` is None, else `otherwise`."""

    number: int
    if_none: Any
    otherwise: Any


#: One of the classes above.
Tree = Any


@final
class Expression:
    """A formula as a tree of operations on its parameters.

    Args:
        tree: the operations.
    """

    __slots__ = ("tree",)

    def __init__(self, tree: Tree) -> None:
        self.tree: Tree = tree

    @property
    def is_gradient(self) -> bool:
        """Whether it is the incoming gradient itself."""
        return type(self.tree) is Parameter and not self.tree.number

    @property
    def is_arithmetic(self) -> bool:
        """Whether it consists only of `+`, `-`, `*` and `/` on parameters and numbers."""
        return _is_arithmetic(self.tree)

    def source(self, arguments: Sequence[str], name: Callable[[Any], str]) -> str:
        """Return the expression as source.

        Args:
            arguments: the source of each argument, that of the incoming gradient first.
            name: returns a name for a constant that has no literal.
        """
        return _source(self.tree, arguments, name)

    def keeps_spec(self, floating: Collection[int]) -> bool:
        """Tell whether the result certainly has the shape and dtype of the incoming gradient.

        Args:
            floating: the numbers of the parameters whose dtype and that of the gradient promote to the latter.
        """
        has_gradient, dtype = _infer_spec(self.tree, floating)
        return has_gradient and dtype == _FLOATING


def as_expression(formula: Callable[..., Any], may_be_none: Collection[int] = ()) -> Expression | None:
    """Return a formula as an expression, or None if it cannot be one, or is not asyncgrad's own.

    Args:
        formula: the function.
        may_be_none: the numbers of the parameters that may be None; the incoming gradient is number 0.
    """
    if not is_readable(formula):
        return None
    try:
        return Expression(_with_conditional(formula, _trace(formula, {}), may_be_none))
    except Exception:  # whatever the formula raises when it meets a symbol
        return None


def read_graph(
    formula: Callable[..., Any], fixed: Mapping[int, Any] = _NOTHING, dtypes: Mapping[int, Any] = _NOTHING
) -> Tree:
    """Return the tree of a formula of asyncgrad's own for given dtypes, in which one operation may have several users.

    Args:
        formula: the function.
        fixed: by number, the values of the parameters that are not arrays.
        dtypes: by number, the dtypes of arrays, by which the formula may decide.

    Raises:
        NotAnExpressionError: the formula does more than an expression can say, or is somebody else's.
    """
    if not is_readable(formula):
        raise NotAnExpressionError
    try:
        return _trace(formula, fixed, dtypes, may_share=True)
    except NotAnExpressionError:
        raise
    except Exception as error:  # whatever the formula raises when it meets a symbol
        raise NotAnExpressionError from error


def is_readable(formula: Callable[..., Any]) -> TypeGuard[FunctionType]:
    """Tell whether a formula may be called with symbols: it is asyncgrad's own, and takes arguments as others do."""
    if not isinstance(formula, FunctionType) or not str(formula.__module__).startswith("asyncgrad."):
        return False
    code = formula.__code__
    # What a symbol raises must reach the caller: the exception table says whether the formula catches anything.
    return not (code.co_exceptiontable or code.co_kwonlyargcount or code.co_flags & _NO_FORMULA)


def _with_conditional(formula: FunctionType, tree: Tree, may_be_none: Collection[int]) -> Tree:
    """Return the tree of a formula that may ask whether one of its parameters is None."""
    parameters = [f"p{number}" for number in range(formula.__code__.co_argcount)]

    def source_of(one: Tree) -> str:
        # Constants are compared by identity, since values of different types may be equal.
        return _source(one, parameters, lambda value: f"v{id(value)}")

    chosen = None
    for number in may_be_none:
        try:
            if_none = _trace(formula, {number: None})
        except NotAnExpressionError:
            raise
        except Exception:
            # The formula raises the same error when it is called with None, so no branch is needed.
            continue
        if source_of(if_none) == source_of(_substitute_none(tree, number)):
            continue
        if chosen is not None:
            raise NotAnExpressionError
        chosen = Conditional(number, if_none, tree)
    return tree if chosen is None else chosen


def _trace(
    formula: FunctionType, fixed: Mapping[int, Any], dtypes: Mapping[int, Any] = _NOTHING, may_share: bool = False
) -> Tree:
    """Return what a formula does to symbols.

    Args:
        formula: the function.
        fixed: by number, the parameters that are no symbols.
        dtypes: by number, the dtypes that symbols tell.
        may_share: whether an operation may stand in several places of the tree.
    """
    operations: list[Tree] = []
    code = formula.__code__
    names = {}
    for name in code.co_names:
        if name in formula.__globals__:
            names[name] = _to_symbol(formula.__globals__[name], operations)
        elif hasattr(builtins, name):
            value = getattr(builtins, name)
            names[name] = value if may_share and name in _CALLED_BUILTINS else _to_symbol(value, operations)
    names["__builtins__"] = {}
    cells = tuple(CellType(_to_symbol(cell.cell_contents, operations)) for cell in formula.__closure__ or ())
    copy = FunctionType(code, names, code.co_name, None, cells)
    symbols = [
        fixed.get(number, Symbol(Parameter(number), operations, dtypes.get(number)))
        for number in range(code.co_argcount)
    ]
    tree = _to_tree(copy(*symbols))
    if may_share:
        # An operation that has no user was made for something else than the result.
        if not set(map(id, operations)) <= _identities(tree, set()):
            raise NotAnExpressionError
        return tree
    found: list[Tree] = []
    _list_operations(tree, found)
    if len(found) != len(operations) or any(one is not other for one, other in zip(found, operations, strict=True)):
        raise NotAnExpressionError
    return tree


def _to_symbol(value: Any, operations: list[Tree]) -> Any:
    """Return what replaces a global or closure value in the copy of a formula: a literal itself, else a symbol."""
    if _has_literal(value):
        return value
    names = getattr(value, "__globals__", {})
    is_wrapper = "_next_class" in names and "_bare_function" in names
    return Symbol(Constant(names["_bare_function"] if is_wrapper else value), operations)


def _has_literal(value: Any) -> bool:
    if type(value) is tuple:
        return all(map(_has_literal, value))
    return value is None or value is Ellipsis or type(value) in (bool, int, float, complex, str)


def _to_tree(value: Any) -> Tree:
    """Return the tree of a value that a formula passes to an operation or returns."""
    if type(value) is Symbol:
        return value._tree
    if _has_literal(value):
        return Constant(value)
    if type(value) is tuple:
        return Tuple(tuple(map(_to_tree, value)))
    raise NotAnExpressionError


def _parts(tree: Tree) -> tuple[Tree, ...]:
    """Return the children of a tree, in the order in which Python evaluates them."""
    if type(tree) is FormulaOperation:
        return tree.operands
    if type(tree) is FormulaCall:
        return (tree.function, *tree.arguments, *(value for _, value in tree.keywords))
    if type(tree) is Attribute:
        return (tree.base,)
    if type(tree) is Tuple:
        return tree.items
    return (tree.if_none, tree.otherwise) if type(tree) is Conditional else ()


def _list_operations(tree: Tree, found: list[Tree]) -> None:
    """Add the operations of a tree to `found`, in the order in which Python evaluates them."""
    for part in _parts(tree):
        _list_operations(part, found)
    if type(tree) in (FormulaOperation, FormulaCall, Attribute):
        found.append(tree)


def _identities(tree: Tree, seen: set[int]) -> set[int]:
    """Add the identities of all parts of a tree to `seen`, and return that."""
    if id(tree) not in seen:
        seen.add(id(tree))
        for part in _parts(tree):
            _identities(part, seen)
    return seen


def _substitute_none(tree: Tree, number: int) -> Tree:
    """Return a tree with None in the place of a parameter."""
    if type(tree) is Parameter:
        return Constant(None) if tree.number == number else tree
    if type(tree) is FormulaOperation:
        return FormulaOperation(tree.operator, tuple(_substitute_none(part, number) for part in tree.operands))
    if type(tree) is FormulaCall:
        arguments = tuple(_substitute_none(part, number) for part in tree.arguments)
        keywords = tuple((name, _substitute_none(part, number)) for name, part in tree.keywords)
        return FormulaCall(_substitute_none(tree.function, number), arguments, keywords)
    if type(tree) is Attribute:
        return Attribute(_substitute_none(tree.base, number), tree.name)
    return Tuple(tuple(_substitute_none(part, number) for part in tree.items)) if type(tree) is Tuple else tree


# Symbols.


def _refuse(*_: Any) -> NoReturn:
    raise NotAnExpressionError


@final
class Symbol:
    """An argument of a traced formula, which records each operation on itself.

    Args:
        tree: what it stands for.
        operations: the list of all that has been recorded, which it adds to.
        dtype: that of an array, by which a formula may decide, if it is known.
    """

    __slots__ = ("_dtype", "_operations", "_tree")

    def __init__(self, tree: Tree, operations: list[Tree], dtype: Any = None) -> None:
        self._dtype = dtype
        self._tree = tree
        self._operations = operations

    def _record(self, operation: Tree) -> Symbol:
        self._operations.append(operation)
        return Symbol(operation, self._operations)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """Refuse to tell: a formula asks for a class to decide by it. That of an array is none that it knows."""
        if self._dtype is None:
            raise NotAnExpressionError
        return Symbol

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        """Record the call of a ufunc; an operator with an array on the left is one, too."""
        if method != "__call__":
            raise NotAnExpressionError
        return Symbol(Constant(ufunc), self._operations)(*inputs, **keywords)

    def __call__(self, *arguments: Any, **keywords: Any) -> Symbol:
        """Record a call."""
        named = tuple((name, _to_tree(value)) for name, value in keywords.items())
        return self._record(FormulaCall(self._tree, tuple(map(_to_tree, arguments)), named))

    def __getattr__(self, name: str) -> Any:
        """Record the attribute; that of a module is looked up at once."""
        if name.startswith("__"):
            raise NotAnExpressionError
        if name == "dtype" and self._dtype is not None:
            return self._dtype
        tree = self._tree
        if type(tree) is Constant and isinstance(tree.value, ModuleType):
            return _to_symbol(getattr(tree.value, name), self._operations)
        return self._record(Attribute(tree, name))


def _define_operators() -> None:
    """Make symbols record operators, and raise where Python needs a value."""

    def unary(operator: str) -> Any:
        return lambda x: x._record(FormulaOperation(operator, (x._tree,)))

    def binary(operator: str) -> Any:
        return lambda x, y: x._record(FormulaOperation(operator, (x._tree, _to_tree(y))))

    def reflected(operator: str) -> Any:
        return lambda x, y: x._record(FormulaOperation(operator, (_to_tree(y), x._tree)))

    methods: dict[str, Any] = {f"__{name}__": unary(operator) for name, operator in _UNARY.items()}
    methods.update((f"__{name}__", binary(operator)) for name, operator in (_BINARY | _COMPARISONS).items())
    methods.update((f"__r{name}__", reflected(operator)) for name, operator in _BINARY.items())
    # `g += x` writes into the array.
    methods.update((f"__i{name}__", _refuse) for name in _BINARY)
    needing_a_value = "bool len iter index int float complex contains hash format str repr getitem setitem delitem"
    methods.update((f"__{name}__", _refuse) for name in needing_a_value.split())
    for name, method in methods.items():
        setattr(Symbol, name, method)


_define_operators()


# Analysis and source of a tree.


def _is_arithmetic(tree: Tree) -> bool:
    if type(tree) is Constant:
        return type(tree.value) in (int, float) and isfinite(tree.value)
    if type(tree) is FormulaOperation and tree.operator in _ARITHMETIC:
        return all(map(_is_arithmetic, tree.operands))
    return type(tree) is Parameter


def _infer_spec(tree: Tree, floating: Collection[int]) -> tuple[bool, int]:
    """Return whether a tree contains the incoming gradient, and so has its shape, and what is known about its dtype."""
    if type(tree) is Parameter:
        return not tree.number, _FLOATING if not tree.number or tree.number in floating else _PARAMETER
    if type(tree) is Constant and type(tree.value) in (int, float):
        return False, _NUMBER
    if type(tree) is not FormulaOperation or tree.operator not in _ARITHMETIC:
        return False, _UNKNOWN
    specs = [_infer_spec(part, floating) for part in tree.operands]
    return any(has_gradient for has_gradient, _ in specs), _infer_dtype([dtype for _, dtype in specs], tree.operator)


def _infer_dtype(dtypes: Sequence[int], operator: str) -> int:
    if _UNKNOWN in dtypes or len(dtypes) == 1:
        return _UNKNOWN if _UNKNOWN in dtypes else dtypes[0]
    if _FLOATING in dtypes:
        return _FLOATING
    # A quotient of integers is floating, and a sum of a boolean and a number is not boolean.
    return dtypes[0] if dtypes[0] == dtypes[1] and operator != "/" else _UNKNOWN


def _source(tree: Tree, arguments: Sequence[str], name: Callable[[Any], str]) -> str:
    if type(tree) is Parameter:
        return arguments[tree.number]
    if type(tree) is Constant:
        return _literal(tree.value) or name(tree.value)
    parts = [_source(part, arguments, name) for part in _parts(tree)]
    if type(tree) is FormulaOperation:
        return f"({tree.operator}{parts[0]})" if len(parts) == 1 else f"({f' {tree.operator} '.join(parts)})"
    if type(tree) is Attribute:
        return f"{parts[0]}.{tree.name}"
    if type(tree) is Tuple:
        return f"({''.join(f'{part}, ' for part in parts)})"
    if type(tree) is Conditional:
        return f"({parts[0]} if {arguments[tree.number]} is None else {parts[1]})"
    given = len(tree.arguments) + 1
    keywords = [f"{key}={part}" for (key, _), part in zip(tree.keywords, parts[given:], strict=True)]
    return f"{parts[0]}({', '.join(parts[1:given] + keywords)})"


def _literal(value: Any) -> str:
    """Return a value as a literal, or an empty string if it has none."""
    if type(value) is tuple:
        items = [_literal(item) for item in value]
        return f"({''.join(f'{item}, ' for item in items)})" if all(items) else ""
    if not _has_literal(value):
        return ""
    if type(value) not in (int, float, complex):
        return "..." if value is Ellipsis else repr(value)
    literal = repr(value)
    if literal[0] == "-" and type(value) is not complex:
        return f"({literal})" if isfinite(value) else ""
    # inf and nan have no literals. A complex number with a real part has none, since its repr may lose a sign of zero.
    return literal if literal[0].isdigit() else ""


def keeps_dtype(function: Any) -> bool:
    """Tell whether a ufunc of one or two arrays, one of them floating, returns the dtype that theirs promote to."""
    if not isinstance(function, np.ufunc) or function.signature is not None or function.nin > 2 or function.nout > 1:
        return False
    loops = [(set(loop[: function.nin]), set(loop) - {"-", ">"}) for loop in function.types]
    return all(len(kinds) == 1 for taken, kinds in loops if taken & set("efdgFDG") and not kinds & set("mM"))
