"""Derivative formulas as expressions, to be written into a compiled backward in place of calls.

A formula that is one expression (`lambda g, y: g * y`, or a function whose body is one `return`) is found in its
source file by its bytecode, and its names are bound to what they mean in it. Where a formula calls the driver of a
primitive, which looks for tensors among its arguments, the expression calls the bare function instead: in an ordinary
backward there are arrays only. A formula that is more than an expression is called.
"""

from __future__ import annotations

import ast
import functools
import operator
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..graph.lowering import Kind

__all__ = ["Inlined", "applied", "inlined", "kind_of_result"]

_ARITHMETIC: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
}


class Inlined(NamedTuple):
    """A formula as an expression of `$g` and of its own parameters, and what its other names mean."""

    expression: ast.expr
    constants: Mapping[str, Any]


@functools.cache
def inlined(formula: Callable[..., Any]) -> Inlined | None:
    """Return a formula of asyncgrad's own as an expression; None where it is more than that, or cannot be read."""
    if not isinstance(formula, types.FunctionType) or not formula.__module__.startswith("asyncgrad."):
        return None
    body = _body(formula.__code__, formula.__globals__)
    if body is None:
        return None
    code = formula.__code__
    parameters = set(code.co_varnames[: code.co_argcount])
    cells = dict(zip(code.co_freevars, formula.__closure__ or (), strict=True))
    constants: dict[str, Any] = {}
    for node in ast.walk(body):
        if isinstance(node, (ast.Lambda, ast.NamedExpr, ast.comprehension, ast.Await)):
            return None
        if not isinstance(node, ast.Name) or node.id in parameters:
            continue
        if node.id in cells:
            constants[node.id] = cells[node.id].cell_contents
        elif node.id in formula.__globals__:
            constants[node.id] = formula.__globals__[node.id]
    return Inlined(body, {name: _bare(value) for name, value in constants.items()})


def _bare(value: Any) -> Any:
    """Return the function of arrays that a primitive's driver calls; anything else as it is."""
    names = getattr(value, "__globals__", {})
    return names["_function"] if names.get("_next_class") is not None and "_function" in names else value


def _body(code: types.CodeType, names: Mapping[str, Any]) -> ast.expr | None:
    modules = [name for name in code.co_names if isinstance(names.get(name), types.ModuleType)]
    for node in _functions_of(code.co_filename, code.co_firstlineno):
        body = node.body if isinstance(node, ast.Lambda) else _returned(node)
        if body is not None and _is_compiled_to(node, body, code, modules):
            return body
    return None


@functools.cache
def _functions_of(path: str, line: int) -> list[Any]:
    """Return the functions of a source file that begin in a line; none where it cannot be read.

    Of the file, the statement around the line is parsed and no more, since an event loop may have to wait for that.
    """
    tree = None
    try:
        lines = _lines_of(path)
        begin, end = line - 1, line
        while begin and not _begins_a_statement(lines[begin]):
            begin -= 1
        while tree is None and end <= len(lines):
            if end == len(lines) or _begins_a_statement(lines[end]):
                tree = _parsed(lines, begin, end)
            end += 1
    except (OSError, ValueError, IndexError):
        return []
    if tree is None:
        return []
    return [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.Lambda)) and _first(node) == line]


@functools.lru_cache(8)
def _lines_of(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines()


def _parsed(lines: list[str], begin: int, end: int) -> ast.Module | None:
    """Return lines of a source file as they are parsed, with their numbers; None where they are no whole statement."""
    try:
        return ast.parse("\n" * begin + "\n".join(lines[begin:end]))
    except SyntaxError:
        # Such as a decorator, whose function comes with the next line.
        return None


def _begins_a_statement(line: str) -> bool:
    """Tell whether a line, in the style of this package, begins a statement of its own in a module."""
    return line[:1].isalpha() or line[:1] in ("_", "@")


def _first(node: ast.FunctionDef | ast.Lambda) -> int:
    """Return the line that a function's code says that it begins in."""
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _returned(function: ast.FunctionDef) -> ast.expr | None:
    body = function.body
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]
    return body[0].value if len(body) == 1 and isinstance(body[0], ast.Return) else None


def _is_compiled_to(node: Any, body: ast.expr, code: types.CodeType, modules: list[str]) -> bool:
    """Tell whether this function in the source is the one that `code` was compiled from.

    Args:
        node: the function.
        body: what it returns.
        code: its bytecode.
        modules: which of the names in it are those of modules.
    """
    arguments = node.args
    if arguments.posonlyargs or arguments.kwonlyargs or arguments.vararg or arguments.kwarg or arguments.defaults:
        return False
    if tuple(one.arg for one in arguments.args) != code.co_varnames:
        return False
    if code.co_freevars:
        # Its bytecode depends on the function around it; its line and the names that it uses are enough to tell.
        return {name.id for name in ast.walk(body) if isinstance(name, ast.Name)} >= set(code.co_freevars)
    bare = ast.arguments(
        posonlyargs=[],
        args=[ast.arg(one.arg) for one in arguments.args],
        kwonlyargs=[],
        kw_defaults=[],
        defaults=[],
    )
    # What is called of a module is fetched in another way where the same source imports that.
    imports: list[ast.stmt] = [ast.Import([ast.alias("sys", name)]) for name in modules]
    module = ast.fix_missing_locations(ast.Module([*imports, ast.Expr(ast.Lambda(bare, body))], []))
    again = next(
        constant for constant in compile(module, "<formula>", "exec").co_consts if isinstance(constant, types.CodeType)
    )
    found = {*again.co_consts} - {None}
    return again.co_code == code.co_code and again.co_names == code.co_names and found <= {*code.co_consts}


@functools.lru_cache(4096)
def kind_of_result(formula: Callable[..., Any], kinds: tuple[tuple[str, Kind | None], ...]) -> Kind | None:
    """Return shape and dtype of what an elementwise formula gives on arrays of these kinds; None if not certain.

    Args:
        formula: one that can be written as an expression.
        kinds: for each parameter its name, and its shape and dtype; None where they are not known.
    """
    found = inlined(formula)
    return None if found is None else _kind(found.expression, found.constants, dict(kinds))


def _kind(node: ast.expr, constants: Mapping[str, Any], kinds: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return kinds.get(node.id)
    if isinstance(node, ast.UnaryOp) and type(node.op) in _ARITHMETIC:
        return applied(_ARITHMETIC[type(node.op)], [_kind(node.operand, constants, kinds)])
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        operands = [_operand(side, constants, kinds) for side in (node.left, node.right)]
        return applied(_ARITHMETIC[type(node.op)], operands)
    return None


def _operand(node: ast.expr, constants: Mapping[str, Any], kinds: Mapping[str, Any]) -> Any:
    value = node.value if isinstance(node, ast.Constant) else constants.get(getattr(node, "id", ""))
    # A Python number takes the dtype of the array that it meets.
    return value if type(value) in (int, float) else _kind(node, constants, kinds)


def applied(function: Callable[..., Any], operands: list[Any]) -> Any:
    """Return shape and dtype of what an elementwise function gives on arrays of these kinds; None if not certain.

    Args:
        function: of arrays, or of arrays and numbers.
        operands: for each the shape and dtype, None where they are not known, or a Python number.
    """
    if None in operands:
        return None
    arrays = [operand for operand in operands if isinstance(operand, tuple)]
    if not arrays or any(kind[1].kind not in "fc" for kind in arrays):
        return None
    try:
        shape = np.broadcast_shapes(*(kind[0] for kind in arrays))
    except ValueError:
        return None
    samples = [np.ones(1, operand[1]) if isinstance(operand, tuple) else operand for operand in operands]
    with np.errstate(all="ignore"):
        return shape, function(*samples).dtype
