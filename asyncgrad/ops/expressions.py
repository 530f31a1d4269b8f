"""Formulas that are nothing but arithmetic, as source: a plan writes them into its function in place of calls.

Such a formula is `lambda g, y: g * y`. On small arrays a call of it costs a third of what it computes. It is read from
its bytecode, which is all that it does; a formula that does anything else is called.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Collection, Sequence
from math import isfinite
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Expression", "as_expression", "call_of", "keeps_dtype"]

_UNARY = {"UNARY_NEGATIVE": "-", "UNARY_POSITIVE": "+"}
_BINARY = ("+", "-", "*", "/")
#: What a line of bytecode may do besides, which is nothing.
_NOTHING = ("CACHE", "NOP", "PRECALL", "RESUME")

#: What is known of the dtype of part of a formula: that of the incoming gradient, or one that gives that where the two
#: meet; that of a parameter that may be of integers; none yet, of a number; nothing.
_FLOATING, _PARAMETER, _NUMBER, _UNKNOWN = range(4)


class Expression(NamedTuple):
    """A formula, or part of one, as source."""

    source: str
    #: Whether the incoming gradient is part of it, and so its shape is that.
    has_gradient: bool
    dtype: int

    @property
    def keeps_kind(self) -> bool:
        """Whether its shape and dtype are certain to be those of the incoming gradient."""
        return self.has_gradient and self.dtype == _FLOATING


def as_expression(
    formula: Callable[..., Any], arguments: Sequence[str], floating: Collection[str]
) -> Expression | None:
    """Return a formula as an expression; None where it is more than arithmetic.

    Args:
        formula: the function.
        arguments: for each of its parameters what to write in its place, the incoming gradient first.
        floating: parameters whose dtype gives that of the gradient where the two meet.
    """
    if not isinstance(formula, FunctionType):
        return None
    parameters = formula.__code__.co_varnames
    stack: list[Expression] = []
    for line in dis.get_instructions(formula):
        value = line.argval
        if line.opname.startswith("LOAD_FAST"):
            for name in value if isinstance(value, tuple) else (value,):
                place = parameters.index(name)
                dtype = _FLOATING if not place or name in floating else _PARAMETER
                stack.append(Expression(arguments[place], not place, dtype))
        elif line.opname in ("LOAD_CONST", "LOAD_SMALL_INT") and type(value) in (int, float) and isfinite(value):
            stack.append(Expression(repr(value), False, _NUMBER))
        elif line.opname in _UNARY:
            operand = stack.pop()
            stack.append(operand._replace(source=f"({_UNARY[line.opname]}{operand.source})"))
        elif line.opname == "BINARY_OP" and line.argrepr in _BINARY:
            right, left = stack.pop(), stack.pop()
            source = f"({left.source} {line.argrepr} {right.source})"
            dtype = _dtype(left.dtype, right.dtype, line.argrepr)
            stack.append(Expression(source, left.has_gradient or right.has_gradient, dtype))
        elif line.opname == "RETURN_VALUE":
            return stack.pop()
        elif line.opname not in _NOTHING:
            return None
    return None


def call_of(name: str, arguments: Sequence[str]) -> Expression:
    """Return the call of a function of that name."""
    return Expression(f"{name}({', '.join(arguments)})", False, _UNKNOWN)


def _dtype(left: int, right: int, operator: str) -> int:
    if _UNKNOWN in (left, right):
        return _UNKNOWN
    if _FLOATING in (left, right):
        return _FLOATING
    # A ratio of integers has a dtype of its own, and so has a sum of booleans and a number.
    return left if left == right and operator != "/" else _UNKNOWN


def keeps_dtype(function: Any) -> bool:
    """Tell whether a function of one or two arrays gives the dtype that they have together, where one is floating."""
    if not isinstance(function, np.ufunc) or function.signature is not None or function.nin > 2 or function.nout > 1:
        return False
    loops = [(set(loop[: function.nin]), set(loop) - {"-", ">"}) for loop in function.types]
    return all(len(kinds) == 1 for taken, kinds in loops if taken & set("efdgFDG") and not kinds & set("mM"))
