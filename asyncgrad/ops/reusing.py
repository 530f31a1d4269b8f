"""Formulas that write their results into arrays which nobody needs any more, with `out=`.

`g - g * out * out` makes three arrays of one shape and dtype, of which two are needed no more as soon as the next one
has been computed. Where a formula is elementwise arithmetic on arrays of known shapes and dtypes, it can be written so
that it makes one::

    subtract(g, multiply((t0 := g * out), out, out=(t1 := t0 if ... else None)), out=t1)

An operation that rounds correctly, and writes into its own operand element by element, gives the same bits. Only an
operand that has the result's shape and dtype is written into, and only one that this formula has made, or the gradient
where its caller says that nobody else needs that. At its turn, it must also be an ndarray and no subclass, and lie in
rows: then the result would have lain in rows, too, and what comes later sums it in the same order.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, final

import numpy as np

from ..graph.lowering import Kind
from .inlining import applied, inlined

__all__ = ["FUNCTIONS", "Reused", "is_number", "numbers_only", "reused"]

_UFUNCS: dict[type[ast.AST], np.ufunc] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.USub: np.negative,
}

#: Those that round correctly, whatever instructions compute them. Others might take another way where they write into
#: their own operand.
_EXACT = {*_UFUNCS.values(), np.sqrt}

#: The classes of numbers that take the dtype of the array that they meet.
NUMBERS = (float, int)

#: What the names mean that such a formula has besides those of the formula itself.
FUNCTIONS: dict[str, Any] = {
    **{ufunc.__name__: ufunc for ufunc in _UFUNCS.values()},
    "ndarray": np.ndarray,
    "positive": np.positive,
    "NUMBERS": NUMBERS,
}


class Reused(NamedTuple):
    """A formula as an expression that reuses arrays, and how many names `$t0`, `$t1` and so on it takes for them."""

    expression: ast.expr
    names: int


class _Operand(NamedTuple):
    """Part of a formula."""

    expression: ast.expr
    #: Shape and dtype; a number where it is any Python number.
    kind: Kind | float
    #: Whether it is an array that may be written into as soon as it has been read.
    is_free: bool = False
    #: Whether it is computed, and so an array that nobody else has.
    is_computed: bool = False
    #: Where it is free, the name of that array where it may be written into at this turn, else of None.
    out: str | None = None


@functools.lru_cache(4096)
def reused(
    formula: Callable[..., Any], kinds: tuple[tuple[str, Kind | float | None], ...], takes_gradient: bool
) -> Reused | None:
    """Return a formula as an expression that makes few arrays; None where it is no elementwise arithmetic.

    What it returns is a new array, or the gradient's where it takes that.

    Args:
        formula: one of asyncgrad's own.
        kinds: for each parameter its name, and its shape and dtype; a float where it is a number, and None where
            nothing is known.
        takes_gradient: whether it may write into the array of the incoming gradient.
    """
    found = inlined(formula)
    if found is None:
        return None
    # Every formula takes the gradient first.
    writer = _Writer(found.constants, dict(kinds), formula.__code__.co_varnames[0], takes_gradient)
    if takes_gradient and not writer.can_take_gradient(found.expression):
        return None
    whole = writer.written(found.expression)
    if whole is None or not whole.is_computed or (takes_gradient and not writer.has_taken):
        return None
    expression = whole.expression
    if isinstance(expression, ast.Call):
        expression = _without_name(expression)
    return Reused(ast.fix_missing_locations(expression), writer.names)


def is_number(value: Any) -> bool:
    """Tell whether a value is a Python number, which takes the dtype of the array that it meets."""
    return type(value) in NUMBERS


def numbers_only(expression: str, otherwise: str, names: list[str]) -> str:
    """Return the source of `expression` where all `names` are numbers, else of a new array that is `otherwise`."""
    condition = " and ".join(f"{name}.__class__ in $NUMBERS" for name in names)
    return f"{expression} if {condition} else $positive({otherwise})"


@final
class _Writer:
    """Writes one formula, innermost operations first, in the order in which Python computes them."""

    def __init__(
        self, constants: Mapping[str, Any], kinds: Mapping[str, Any], gradient: str, takes_gradient: bool
    ) -> None:
        self._constants = constants
        self._kinds = kinds
        self._gradient = gradient
        self._takes_gradient = takes_gradient
        #: How many names have been used.
        self.names = 0
        #: Whether the gradient's array is written into.
        self.has_taken = False

    def can_take_gradient(self, expression: ast.expr) -> bool:
        """Tell whether the gradient is read once, so that it is not needed after that."""
        names = [node.id for node in ast.walk(expression) if isinstance(node, ast.Name)]
        return names.count(self._gradient) == 1

    def written(self, node: ast.expr) -> _Operand | None:
        """Return part of a formula; None where it is no elementwise arithmetic on what is known."""
        if isinstance(node, ast.Name):
            return self._named(node)
        if isinstance(node, ast.Constant):
            return self._number(node, node.value)
        if isinstance(node, ast.BinOp) and type(node.op) in _UFUNCS:
            return self._computed(_UFUNCS[type(node.op)], node, [node.left, node.right])
        if isinstance(node, ast.UnaryOp) and type(node.op) in _UFUNCS:
            return self._computed(_UFUNCS[type(node.op)], node, [node.operand])
        if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
            function = self._function(node.func)
            if isinstance(function, np.ufunc) and (function.nin, function.nout, function.signature) == (1, 1, None):
                return self._computed(function, node, node.args)
        return None

    def _named(self, node: ast.Name) -> _Operand | None:
        if node.id in self._kinds:
            kind = self._kinds[node.id]
            is_free = self._takes_gradient and node.id == self._gradient
            return None if kind is None else _Operand(node, kind, is_free)
        return self._number(node, self._constants.get(node.id))

    @staticmethod
    def _number(node: ast.expr, value: Any) -> _Operand | None:
        return _Operand(node, value) if is_number(value) else None

    def _function(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            return getattr(self._constants.get(node.value.id), node.attr, None)
        return self._constants.get(node.id) if isinstance(node, ast.Name) else None

    def _computed(self, function: np.ufunc, node: Any, parts: list[ast.expr]) -> _Operand | None:
        operands = [self.written(part) for part in parts]
        found = [operand for operand in operands if operand is not None]
        kind = applied(function, [operand.kind for operand in found]) if len(found) == len(parts) else None
        if kind is None:
            return None
        # One that is written into already has been looked at.
        free = [nr for nr, operand in enumerate(found) if operand.is_free and operand.kind == kind]
        if function not in _EXACT or kind[1].kind != "f":
            free.clear()
        free.sort(key=lambda nr: found[nr].out is None)
        if not free:
            return _Operand(_with_operands(node, [operand.expression for operand in found]), kind, True, True)
        out, value = self._taken(found, free[0], kind)
        called = ast.Name(f"${function.__name__}") if not isinstance(node, ast.Call) else node.func
        call = ast.Call(called, [operand.expression for operand in found], [ast.keyword("out", value)])
        return _Operand(call, kind, True, True, out)

    def _taken(self, operands: list[_Operand], which: int, kind: Kind) -> tuple[str, ast.expr]:
        """Return the name of the array that a result is written into, if any, and what `out=` is given."""
        operand = operands[which]
        if operand.out is not None:
            return operand.out, ast.Name(operand.out)
        array: str
        if isinstance(operand.expression, ast.Name):
            array = operand.expression.id
            self.has_taken = True
        else:
            array = self._name()
            operands[which] = operand._replace(expression=ast.NamedExpr(ast.Name(array), operand.expression))
        out = self._name()
        condition = _may_be_written(array, self._gradient, len(kind[0]))
        return out, ast.NamedExpr(ast.Name(out), ast.IfExp(condition, ast.Name(array), ast.Constant(None)))

    def _name(self) -> str:
        self.names += 1
        return f"$t{self.names - 1}"


def _with_operands(node: Any, operands: list[ast.expr]) -> ast.expr:
    if isinstance(node, ast.BinOp):
        return ast.BinOp(operands[0], node.op, operands[1])
    return ast.UnaryOp(node.op, operands[0]) if isinstance(node, ast.UnaryOp) else ast.Call(node.func, operands, [])


def _may_be_written(array: str, gradient: str, axes: int) -> ast.expr:
    """Return what is true of an array that is no subclass, and neither the gradient, and that lies in rows."""
    classes = [ast.Attribute(ast.Name(name), "__class__") for name in dict.fromkeys((array, gradient))]
    others = [*classes[1:], ast.Name("$ndarray")]
    condition: ast.expr = ast.Compare(classes[0], [ast.Is() for _ in others], list(others))
    if axes > 1:
        # What has one axis, and has been computed element by element, does.
        flags = ast.Attribute(ast.Attribute(ast.Name(array), "flags"), "c_contiguous")
        condition = ast.BoolOp(ast.And(), [condition, flags])
    return condition


def _without_name(call: ast.Call) -> ast.expr:
    """Return a call whose `out=` gives no name to what it writes into, since nothing comes after it."""
    keywords = [
        ast.keyword(one.arg, one.value.value if isinstance(one.value, ast.NamedExpr) else one.value)
        for one in call.keywords
    ]
    return ast.Call(call.func, call.args, keywords)
