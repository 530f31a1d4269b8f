"""Derivative formulas as expressions, for generated source to hold in place of calls.

On small arrays a call of `lambda g, y: g * y` costs a third of what it computes. `as_expression` calls a copy of a
formula with symbols, objects that record what is done to them. In the copy, every other name stands for a symbol, too,
or for a number: so nothing runs but the formula itself, and neither its bytecode nor its source is read.

A formula is an expression where its result is made of all that was recorded, each operation once and in the order in
which it was recorded. Otherwise the source would leave something out, or compute it twice. A formula that decides by a
symbol, iterates over one, or writes into one, is no expression, and is called.

No symbol can record `x is None`. So the formula is called again with None in the place of each parameter that may be
None, and where the two expressions differ they become one with a condition. Identity with anything else goes unseen.
asyncgrad's own formulas do not ask for it; others are never called with symbols.

Where a formula calls the wrapper of a primitive, which looks for tensors among its arguments, the expression calls the
bare function: an expression is for arrays.
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
    "Choice",
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

#: What is known of the dtype of part of a formula: that of the incoming gradient, or one that gives that where the two
#: meet; that of a parameter that may be of integers; none yet, of a number; nothing.
_FLOATING, _PARAMETER, _NUMBER, _UNKNOWN = range(4)

#: What is true of the code of functions that take other arguments, or that return something else than their result.
_NO_FORMULA = (
    inspect.CO_VARARGS
    | inspect.CO_VARKEYWORDS
    | inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
)


#: What a formula tells numbers from arrays by, where each parameter is known to be the one or the other.
_TYPE_QUESTIONS = ("isinstance", "bool", "int", "float", "complex")

_NOTHING: Mapping[int, Any] = MappingProxyType({})


class NotAnExpressionError(Exception):
    """Raised by a symbol, and caught at once: the formula does more than an expression can say."""


# What is recorded.


class Parameter(NamedTuple):
    """A parameter of the formula, by number; the incoming gradient is the first."""

    number: int


class Constant(NamedTuple):
    """A value that the formula names, or that stands in it."""

    value: Any


class FormulaOperation(NamedTuple):
    """An operator, and its one or two operands."""

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
    """A tuple with something recorded in it."""

    items: tuple[Any, ...]


class Choice(NamedTuple):
    """One of two expressions: the first where the parameter of that number is None."""

    number: int
    if_none: Any
    otherwise: Any


#: One of these.
Tree = Any


@final
class Expression:
    """A formula as a tree of operations on its parameters.

    Args:
        tree: the operations.
    """

    __slots__ = ("tree",)

    def __init__(self, tree: Tree) -> None:
        self.tree = tree

    @property
    def is_gradient(self) -> bool:
        """Whether it is the incoming gradient itself."""
        return type(self.tree) is Parameter and not self.tree.number

    @property
    def is_arithmetic(self) -> bool:
        """Whether it is nothing but the four operations on parameters and numbers."""
        return _is_arithmetic(self.tree)

    def source(self, arguments: Sequence[str], name: Callable[[Any], str]) -> str:
        """Return it as source.

        Args:
            arguments: for each parameter what to write in its place, the incoming gradient first.
            name: returns the name of a constant that has no literal.
        """
        return _source(self.tree, arguments, name)

    def keeps_spec(self, floating: Collection[int]) -> bool:
        """Tell whether its shape and dtype are certain to be those of the incoming gradient.

        Args:
            floating: the numbers of the parameters whose dtype gives that of the gradient where the two meet.
        """
        has_gradient, dtype = _spec(self.tree, floating)
        return has_gradient and dtype == _FLOATING


def as_expression(formula: Callable[..., Any], may_be_none: Collection[int] = ()) -> Expression | None:
    """Return a formula of asyncgrad's own as an expression; None where it is more than that, or somebody else's.

    Args:
        formula: the function.
        may_be_none: the numbers of the parameters that may be None; the incoming gradient is number 0.
    """
    if not is_readable(formula):
        return None
    try:
        return Expression(_with_choice(formula, _recorded(formula, {}), may_be_none))
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
        return _recorded(formula, fixed, dtypes, may_share=True)
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


def _with_choice(formula: FunctionType, tree: Tree, may_be_none: Collection[int]) -> Tree:
    """Return the tree of a formula that may ask whether one of its parameters is None."""
    parameters = [f"p{number}" for number in range(formula.__code__.co_argcount)]

    def written(one: Tree) -> str:
        # Equal values of two types are told apart.
        return _source(one, parameters, lambda value: f"v{id(value)}")

    chosen = None
    for number in may_be_none:
        try:
            if_none = _recorded(formula, {number: None})
        except NotAnExpressionError:
            raise
        except Exception:
            # So does a call with None, which needs no expression.
            continue
        if written(if_none) == written(_replaced(tree, number)):
            continue
        if chosen is not None:
            raise NotAnExpressionError
        chosen = Choice(number, if_none, tree)
    return tree if chosen is None else chosen


def _recorded(
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
            names[name] = _stand_in(formula.__globals__[name], operations)
        elif hasattr(builtins, name):
            value = getattr(builtins, name)
            names[name] = value if may_share and name in _TYPE_QUESTIONS else _stand_in(value, operations)
    names["__builtins__"] = {}
    cells = tuple(CellType(_stand_in(cell.cell_contents, operations)) for cell in formula.__closure__ or ())
    copy = FunctionType(code, names, code.co_name, None, cells)
    symbols = [
        fixed.get(number, Symbol(Parameter(number), operations, dtypes.get(number)))
        for number in range(code.co_argcount)
    ]
    tree = _tree(copy(*symbols))
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


def _stand_in(value: Any, operations: list[Tree]) -> Any:
    """Return what stands in the copy of a formula for what it names: a number for itself, else a symbol."""
    if _has_literal(value):
        return value
    names = getattr(value, "__globals__", {})
    is_wrapper = "_next_class" in names and "_bare_function" in names
    return Symbol(Constant(names["_bare_function"] if is_wrapper else value), operations)


def _has_literal(value: Any) -> bool:
    if type(value) is tuple:
        return all(map(_has_literal, value))
    return value is None or value is Ellipsis or type(value) in (bool, int, float, complex, str)


def _tree(value: Any) -> Tree:
    """Return the tree of what a formula gives to an operation, or returns."""
    if type(value) is Symbol:
        return value._tree
    if _has_literal(value):
        return Constant(value)
    if type(value) is tuple:
        return Tuple(tuple(map(_tree, value)))
    raise NotAnExpressionError


def _parts(tree: Tree) -> tuple[Tree, ...]:
    """Return what an operation is made of, in the order in which Python computes it."""
    if type(tree) is FormulaOperation:
        return tree.operands
    if type(tree) is FormulaCall:
        return (tree.function, *tree.arguments, *(value for _, value in tree.keywords))
    if type(tree) is Attribute:
        return (tree.base,)
    if type(tree) is Tuple:
        return tree.items
    return (tree.if_none, tree.otherwise) if type(tree) is Choice else ()


def _list_operations(tree: Tree, found: list[Tree]) -> None:
    """Add the operations of a tree to `found`, in the order in which Python computes them."""
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


def _replaced(tree: Tree, number: int) -> Tree:
    """Return a tree with None in the place of a parameter."""
    if type(tree) is Parameter:
        return Constant(None) if tree.number == number else tree
    if type(tree) is FormulaOperation:
        return FormulaOperation(tree.operator, tuple(_replaced(part, number) for part in tree.operands))
    if type(tree) is FormulaCall:
        arguments = tuple(_replaced(part, number) for part in tree.arguments)
        keywords = tuple((name, _replaced(part, number)) for name, part in tree.keywords)
        return FormulaCall(_replaced(tree.function, number), arguments, keywords)
    if type(tree) is Attribute:
        return Attribute(_replaced(tree.base, number), tree.name)
    return Tuple(tuple(_replaced(part, number) for part in tree.items)) if type(tree) is Tuple else tree


# Symbols.


def _refuse(*_: Any) -> NoReturn:
    raise NotAnExpressionError


@final
class Symbol:
    """What a formula is called with: it records every operation on itself.

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
        """Record the call of a ufunc, which an operator is of an array on the left."""
        if method != "__call__":
            raise NotAnExpressionError
        return Symbol(Constant(ufunc), self._operations)(*inputs, **keywords)

    def __call__(self, *arguments: Any, **keywords: Any) -> Symbol:
        """Record a call."""
        named = tuple((name, _tree(value)) for name, value in keywords.items())
        return self._record(FormulaCall(self._tree, tuple(map(_tree, arguments)), named))

    def __getattr__(self, name: str) -> Any:
        """Record what is asked of a value; what a module holds is known."""
        if name.startswith("__"):
            raise NotAnExpressionError
        if name == "dtype" and self._dtype is not None:
            return self._dtype
        tree = self._tree
        if type(tree) is Constant and isinstance(tree.value, ModuleType):
            return _stand_in(getattr(tree.value, name), self._operations)
        return self._record(Attribute(tree, name))


def _define_operators() -> None:
    """Have symbols record operators, and refuse whatever needs a value."""

    def unary(operator: str) -> Any:
        return lambda x: x._record(FormulaOperation(operator, (x._tree,)))

    def binary(operator: str) -> Any:
        return lambda x, y: x._record(FormulaOperation(operator, (x._tree, _tree(y))))

    def reflected(operator: str) -> Any:
        return lambda x, y: x._record(FormulaOperation(operator, (_tree(y), x._tree)))

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


# What is read from the tree.


def _is_arithmetic(tree: Tree) -> bool:
    if type(tree) is Constant:
        return type(tree.value) in (int, float) and isfinite(tree.value)
    if type(tree) is FormulaOperation and tree.operator in _ARITHMETIC:
        return all(map(_is_arithmetic, tree.operands))
    return type(tree) is Parameter


def _spec(tree: Tree, floating: Collection[int]) -> tuple[bool, int]:
    """Return whether the incoming gradient is part of it, so that its shape is that, and what is known of its dtype."""
    if type(tree) is Parameter:
        return not tree.number, _FLOATING if not tree.number or tree.number in floating else _PARAMETER
    if type(tree) is Constant and type(tree.value) in (int, float):
        return False, _NUMBER
    if type(tree) is not FormulaOperation or tree.operator not in _ARITHMETIC:
        return False, _UNKNOWN
    specs = [_spec(part, floating) for part in tree.operands]
    return any(has_gradient for has_gradient, _ in specs), _dtype([dtype for _, dtype in specs], tree.operator)


def _dtype(dtypes: Sequence[int], operator: str) -> int:
    if _UNKNOWN in dtypes or len(dtypes) == 1:
        return _UNKNOWN if _UNKNOWN in dtypes else dtypes[0]
    if _FLOATING in dtypes:
        return _FLOATING
    # A ratio of integers has a dtype of its own, and so has a sum of booleans and a number.
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
    if type(tree) is Choice:
        return f"({parts[0]} if {arguments[tree.number]} is None else {parts[1]})"
    given = len(tree.arguments) + 1
    keywords = [f"{key}={part}" for (key, _), part in zip(tree.keywords, parts[given:], strict=True)]
    return f"{parts[0]}({', '.join(parts[1:given] + keywords)})"


def _literal(value: Any) -> str:
    """Return a value as a literal, empty where it has none."""
    if type(value) is tuple:
        items = [_literal(item) for item in value]
        return f"({''.join(f'{item}, ' for item in items)})" if all(items) else ""
    if not _has_literal(value):
        return ""
    if type(value) not in (int, float, complex):
        return "..." if value is Ellipsis else repr(value)
    written = repr(value)
    if written[0] == "-" and type(value) is not complex:
        return f"({written})" if isfinite(value) else ""
    # Not inf, nor nan; and a complex number as Python writes it may have another zero in it.
    return written if written[0].isdigit() else ""


def keeps_dtype(function: Any) -> bool:
    """Tell whether a function of one or two arrays gives the dtype that they have together, where one is floating."""
    if not isinstance(function, np.ufunc) or function.signature is not None or function.nin > 2 or function.nout > 1:
        return False
    loops = [(set(loop[: function.nin]), set(loop) - {"-", ">"}) for loop in function.types]
    return all(len(kinds) == 1 for taken, kinds in loops if taken & set("efdgFDG") and not kinds & set("mM"))
