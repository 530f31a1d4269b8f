"""The hints of public signatures, read from the source: those of the names that the facades of the package show."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import final

from tests.support.house import FunctionDef, House, Source, absolute

__all__ = ["Hint", "public_hints", "says_any"]

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


@final
@dataclass(frozen=True)
class Hint:
    """One hint of a parameter, a result or an attribute."""

    source: Source
    #: The name of the function or method, as `Tensor.backward`, or of the class for an attribute.
    owner: str
    #: The parameter with its stars, the attribute, or `return`.
    what: str
    expression: ast.expr

    def __str__(self) -> str:
        return self.source.at(self.expression, f"{self.owner}, {self.what}: {ast.unparse(self.expression)}")


def public_hints(house: House, facades: Iterable[str]) -> Iterator[Hint]:
    """Yield the hints of the functions and classes that facades name in `__all__`, wherever they are defined."""
    seen: set[tuple[str, int]] = set()
    for facade in facades:
        for name in _public_names(house[facade]):
            for source, node in definitions(house, facade, name):
                yield from _hints_of(house, source, node, name, seen)


def _public_names(source: Source) -> list[str]:
    for statement in source.tree.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            return [one.value for one in ast.walk(statement.value) if isinstance(one, ast.Constant)]
    raise AssertionError(f"{source.name} has no __all__")


def definitions(house: House, module: str, name: str) -> Iterator[tuple[Source, Definition]]:
    """Yield what defines a name of a module: a function once for each of its overloads, which may be elsewhere."""
    if module not in house.modules:
        return
    source = house[module]
    for statement in _flat(source.tree.body):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if statement.name == name:
                yield source, statement
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                yield source, statement
        elif isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                if (alias.asname or alias.name) == name:
                    home = absolute(source, statement)
                    if f"{home}.{alias.name}" not in house.modules:
                        yield from definitions(house, home, alias.name)


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements, those under an `if` among them, as under `if TYPE_CHECKING:`."""
    for statement in body:
        if isinstance(statement, ast.If):
            yield from _flat([*statement.body, *statement.orelse])
        else:
            yield statement


def _hints_of(house: House, source: Source, node: Definition, name: str, seen: set[tuple[str, int]]) -> Iterator[Hint]:
    if (source.module, node.lineno) in seen:
        return
    seen.add((source.module, node.lineno))
    if isinstance(node, ast.ClassDef):
        yield from _of_class(house, source, node, name, seen)
    elif isinstance(node, FunctionDef):
        overloads = [one for _, one in definitions(house, source.module, node.name) if _is_overload(one)]
        if not overloads or _is_overload(node):
            yield from _of_function(source, node, name)
    elif isinstance(node, ast.AnnAssign):
        yield Hint(source, name, "value", node.annotation)


def _is_overload(node: ast.AST) -> bool:
    """Tell whether it is an overload; those of a function are its signature, and not what implements them."""
    return isinstance(node, FunctionDef) and any(ast.unparse(one) == "overload" for one in node.decorator_list)


def _of_class(
    house: House, source: Source, node: ast.ClassDef, name: str, seen: set[tuple[str, int]]
) -> Iterator[Hint]:
    """Yield the hints of public attributes and methods, inherited ones and those of Python's protocols among them."""
    members = list(_flat(node.body))
    overloaded = {one.name for one in members if isinstance(one, FunctionDef) and _is_overload(one)}
    for member in members:
        if isinstance(member, FunctionDef):
            if _is_public(member.name) and (member.name not in overloaded or _is_overload(member)):
                yield from _of_function(source, member, f"{name}.{member.name}")
        elif isinstance(member, ast.AnnAssign) and _is_public(ast.unparse(member.target)):
            yield Hint(source, name, ast.unparse(member.target), member.annotation)
    for given in node.bases:
        base = given.value if isinstance(given, ast.Subscript) else given
        if isinstance(base, ast.Name):
            for home, inherited in definitions(house, source.module, base.id):
                yield from _hints_of(house, home, inherited, base.id, seen)


def _is_public(name: str) -> bool:
    return not name.startswith("_") or name.endswith("__")


def _of_function(source: Source, node: FunctionDef, name: str) -> Iterator[Hint]:
    given = node.args
    every = [("", one) for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    every += [(star, one) for star, one in (("*", given.vararg), ("**", given.kwarg)) if one is not None]
    for star, one in every:
        if one.annotation is not None:
            yield Hint(source, name, f"{star}{one.arg}", one.annotation)
    if node.returns is not None:
        yield Hint(source, name, "return", node.returns)


def says_any(house: House, hint: Hint) -> bool:
    """Tell whether a hint says Any, itself or by a name that stands for such a type.

    `Callable[..., Any]` does not count: a function of the user's, of which nothing is known.
    """
    return _says_any(house, hint.source, hint.expression, frozenset())


def _says_any(house: House, source: Source, part: ast.AST, names: frozenset[str]) -> bool:
    if isinstance(part, ast.Subscript) and ast.unparse(part) == "Callable[..., Any]":
        return False
    if isinstance(part, ast.Name):
        if part.id in names:
            return False
        return part.id == "Any" or any(
            _says_any(house, home, node.value, names | {part.id})
            for home, node in definitions(house, source.module, part.id)
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and _is_alias(node)
        )
    if isinstance(part, ast.Constant) and isinstance(part.value, str):
        return _says_any(house, source, ast.parse(part.value, mode="eval").body, names)
    if isinstance(part, ast.Subscript) and ast.unparse(part.value) == "Literal":
        return False
    return any(_says_any(house, source, one, names) for one in ast.iter_child_nodes(part))


def _is_alias(node: ast.Assign | ast.AnnAssign) -> bool:
    """Tell whether it names a type; a TypeVar is no other name for its bound, and a constant for nothing."""
    return isinstance(node.value, ast.Subscript | ast.BinOp | ast.Name | ast.Attribute)
