"""An `async def` cut into segments: the statements between its awaits become functions, which can be compiled.

Its source is read, and each run of statements of a block that awaits nothing is replaced by the call of a function of
the local variables that they read, which returns those that they assign and somebody else reads. What the function
awaits, and whatever cannot be cut out, stays where it is.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, final

from .trace import Untraceable

__all__ = ["cut"]

#: Statements that a segment may have in it, at any depth.
_PLAIN = (
    ast.Assign,
    ast.AugAssign,
    ast.AnnAssign,
    ast.Expr,
    ast.If,
    ast.For,
    ast.While,
    ast.With,
    ast.Pass,
    ast.Assert,
)
#: What keeps a statement out of a segment: it waits, leaves the segment, or keeps its variables for later.
_UNFIT = (
    ast.Await,
    ast.AsyncFor,
    ast.AsyncWith,
    ast.Yield,
    ast.YieldFrom,
    ast.Lambda,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Delete,
    ast.GeneratorExp,
    ast.NamedExpr,
)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp)
#: What a segment has to have to be worth a call.
_WORK = (ast.Call, ast.BinOp)


def cut(function: types.FunctionType, wrap: Callable[[types.FunctionType], Callable[..., Any]]) -> types.FunctionType:
    """Return an `async def` that does what another one does, and calls a function for each of its segments.

    Args:
        function: the `async def`.
        wrap: returns what is called in the place of a segment, a function of the local variables that it reads.

    Raises:
        Untraceable: its source is not known, or nothing in it can be cut out.
    """
    node = _source_of(function)
    code = function.__code__
    cutter = _Cutter(node, {*code.co_varnames, *code.co_cellvars}, set(code.co_cellvars))
    given = {one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)}
    node.body = cutter.block(node.body, given, False)
    if not cutter.found:
        raise Untraceable("no statements between its awaits can be cut out of it")
    made = {one.name: wrap(_made(one, function, {})) for one in cutter.found}
    return _made(node, function, made)


def _source_of(function: types.FunctionType) -> ast.AsyncFunctionDef:
    """Return the syntax tree of a function, with the line numbers of its file.

    Raises:
        Untraceable: its source is not known, or it does what is not the same in another function.
    """
    if hasattr(function, "__wrapped__"):
        raise Untraceable("it is wrapped by another function")
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError, TypeError):
        raise Untraceable("its source is not known") from None
    ast.increment_lineno(tree, max(first, 1) - 1)
    (node, *_) = tree.body
    if not isinstance(node, ast.AsyncFunctionDef):
        raise Untraceable("its source is not known")
    if "__class__" in function.__code__.co_freevars or _has(node, (ast.Global, ast.Nonlocal)):
        raise Untraceable("it uses super(), global or nonlocal")
    if {"locals", "exec", "eval", "vars", "dir"} & set(function.__code__.co_names):
        raise Untraceable("it looks at its own variables")
    node.decorator_list = []
    if _written(_made(node, function, {}).__code__) != _written(function.__code__):
        # The file has changed, or the names of a class are others outside of it.
        raise Untraceable("its source is not that of its code")
    return node


def _written(code: types.CodeType) -> tuple[Any, ...]:
    """Return what the source of code says, but for how it is compiled: that depends on what is around it too."""
    constants = [_written(one) if isinstance(one, types.CodeType) else repr(one) for one in code.co_consts]
    return code.co_names, code.co_varnames, sorted(code.co_cellvars), sorted(code.co_freevars), constants


def _made(
    node: ast.FunctionDef | ast.AsyncFunctionDef, like: types.FunctionType, segments: dict[str, Callable[..., Any]]
) -> types.FunctionType:
    """Return a function of a syntax tree, with globals and closure of another one, and the segments that it calls."""
    free = [*like.__code__.co_freevars, *segments]
    # Inside of a function that has them as parameters, their names are those of a closure.
    parameters = ast.arguments([], [ast.arg(name) for name in free], None, [], [], None, [])
    outer = ast.FunctionDef("outer", parameters, [node, ast.Return(ast.Name(node.name, ast.Load()))], [], None)
    if "type_params" in ast.FunctionDef._fields:
        outer.type_params = []  # type: ignore[attr-defined]  # from Python 3.12 on
    ast.copy_location(outer, node)
    module = ast.fix_missing_locations(ast.Module([outer], []))
    found: dict[str, Any] = {}
    exec(compile(module, like.__code__.co_filename, "exec"), {}, found)  # noqa: S102  # the user's own source
    inner = found["outer"](*free)
    cells = dict(zip(like.__code__.co_freevars, like.__closure__ or (), strict=True))
    cells.update({name: types.CellType(value) for name, value in segments.items()})
    closure = tuple([cells[name] for name in inner.__code__.co_freevars])
    made = types.FunctionType(inner.__code__, like.__globals__, like.__name__, None, closure)
    made.__module__ = like.__module__
    if isinstance(node, ast.AsyncFunctionDef):
        made.__defaults__, made.__kwdefaults__ = like.__defaults__, like.__kwdefaults__
        made.__qualname__ = like.__qualname__
    else:
        made.__qualname__ = f"{like.__qualname__}, from line {node.body[0].lineno}"
    return made


@final
class _Cutter:
    """Cuts the blocks of one function.

    Args:
        node: the function.
        local: the names of its variables.
        kept: those of them that functions in it read, whenever they are called.
    """

    __slots__ = ("_kept", "_local", "_reads", "_unfit", "found")

    def __init__(self, node: ast.AsyncFunctionDef, local: set[str], kept: set[str]) -> None:
        self._local = local
        self._kept = kept
        #: How often each name is read in the whole function.
        self._reads: dict[str, int] = {}
        for name in _read(node.body):
            self._reads[name] = self._reads.get(name, 0) + 1
        self.found: list[ast.FunctionDef] = []
        names = [one.id for one in ast.walk(node) if isinstance(one, ast.Name)]
        #: Comprehensions that have a variable of the name of another one.
        self._unfit: set[ast.AST] = set()
        for comprehension in ast.walk(node):
            if isinstance(comprehension, _COMPREHENSIONS):
                own = [one.id for one in ast.walk(comprehension) if isinstance(one, ast.Name)]
                if any(own.count(name) < names.count(name) for name in _targets(comprehension)):
                    self._unfit.add(comprehension)

    def block(self, body: Sequence[ast.stmt], assigned: set[str], is_repeated: bool) -> list[ast.stmt]:
        """Return the statements of a block with calls in the place of segments.

        Args:
            body: the statements.
            assigned: the variables that have a value before it; those that have one after it are added.
            is_repeated: whether it is the body of a loop.
        """
        made: list[ast.stmt] = []
        run: list[ast.stmt] = []

        def end_run() -> None:
            if run:
                made.extend(self._segment(run, assigned, is_repeated))
                assigned.update(_surely_assigned(run))
                run.clear()

        for statement in body:
            is_return = isinstance(statement, ast.Return) and statement.value is not None
            is_fit = not self._unfit.intersection(ast.walk(statement))
            if is_fit and (_is_plain(statement) or (is_return and not _has(statement, _UNFIT))):
                run.append(statement)
                if is_return:
                    end_run()
                continue
            end_run()
            self._descend(statement, assigned, is_repeated)
            assigned.update(_surely_assigned([statement]))
            made.append(statement)
        end_run()
        return made

    def _descend(self, statement: ast.stmt, assigned: set[str], is_repeated: bool) -> None:
        """Cut the blocks in a statement that waits; those of a `try` stay, for its handlers see each assignment."""
        is_loop = isinstance(statement, (ast.For, ast.AsyncFor, ast.While))
        inside = set(assigned)
        if isinstance(statement, (ast.For, ast.AsyncFor)):
            inside |= set(_stored([statement.target]))
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            inside |= set(_stored([one.optional_vars for one in statement.items if one.optional_vars is not None]))
        if isinstance(statement, (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith)):
            for field in ("body", "orelse"):
                body = getattr(statement, field, None)
                if body:
                    setattr(statement, field, self.block(body, set(inside), is_repeated or is_loop))

    def _segment(self, run: Sequence[ast.stmt], assigned: set[str], is_repeated: bool) -> list[ast.stmt]:
        """Return the call of a segment; the statements themselves if they cannot be one."""
        read, stored = set(_read(run)) & self._local, set(_stored(run)) & self._local
        surely = set(_surely_assigned(run))
        inputs = sorted(read & assigned | (stored - surely) & assigned)
        own: dict[str, int] = {}
        for name in _read(run):
            own[name] = own.get(name, 0) + 1
        elsewhere = {name for name in stored if self._reads.get(name, 0) > own.get(name, 0)}
        outputs = sorted(elsewhere | (stored & set(inputs) if is_repeated else set()))
        ends = isinstance(run[-1], ast.Return)
        has_work = any(_has(statement, _WORK) for statement in run)
        is_known = _reads_are_known(run, assigned, self._local) and set(outputs) <= surely | assigned
        if not has_work or not is_known or not (outputs or ends) or stored & self._kept:
            return list(run)
        name = f"__segment_{len(self.found)}"
        body = list(run)
        if not ends:
            body.append(ast.copy_location(ast.Return(_tuple(outputs, ast.Load())), run[-1]))
        given = ast.arguments([], [ast.arg(one) for one in inputs], None, [], [], None, [])
        segment = ast.FunctionDef(name, given, body, [], None)
        if "type_params" in ast.FunctionDef._fields:
            segment.type_params = []  # type: ignore[attr-defined]  # from Python 3.12 on
        self.found.append(ast.copy_location(segment, run[0]))
        call = ast.Call(ast.Name(name, ast.Load()), [ast.Name(one, ast.Load()) for one in inputs], [])
        made = ast.Return(call) if ends else ast.Assign([_tuple(outputs, ast.Store())], call)
        return [ast.copy_location(made, run[0])]


def _tuple(names: Sequence[str], context: ast.expr_context) -> ast.expr:
    return ast.Tuple([ast.Name(name, type(context)()) for name in names], type(context)())


def _is_plain(statement: ast.stmt) -> bool:
    """Tell whether a statement may be in a segment."""
    for one in ast.walk(statement):
        if isinstance(one, _UNFIT) or (isinstance(one, ast.AnnAssign) and one.value is None):
            return False
        if isinstance(one, ast.stmt) and not isinstance(one, (*_PLAIN, ast.Break, ast.Continue)):
            return False
    return isinstance(statement, _PLAIN) and not _leaves(statement)


def _leaves(statement: ast.stmt) -> bool:
    """Tell whether a break or continue in a statement is of a loop around it."""
    if isinstance(statement, (ast.Break, ast.Continue)):
        return True
    if isinstance(statement, (ast.For, ast.While)):
        return any(map(_leaves, statement.orelse))
    return any(_leaves(one) for one in ast.iter_child_nodes(statement) if isinstance(one, ast.stmt))


def _has(node: ast.AST, kinds: tuple[type[ast.AST], ...]) -> bool:
    return any(isinstance(one, kinds) for one in ast.walk(node))


def _read(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the names that are read, each as often as it is."""
    for node in nodes:
        for one in ast.walk(node):
            if isinstance(one, ast.AugAssign) and isinstance(one.target, ast.Name):
                yield one.target.id
            elif isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load):
                yield one.id


def _stored(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        for one in ast.walk(node):
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
                yield one.id


def _targets(comprehension: ast.ListComp | ast.SetComp | ast.DictComp) -> set[str]:
    return set(_stored([generator.target for generator in comprehension.generators]))


def _surely_assigned(statements: Sequence[ast.stmt]) -> Iterator[str]:
    """Yield the names that have a value after the statements, whatever way they take."""
    for statement in statements:
        if isinstance(statement, (ast.Assign, ast.AugAssign)) or (
            isinstance(statement, ast.AnnAssign) and statement.value is not None
        ):
            yield from _stored([statement])
        elif isinstance(statement, ast.If):
            yield from set(_surely_assigned(statement.body)) & set(_surely_assigned(statement.orelse))


def _reads_are_known(run: Sequence[ast.stmt], assigned: set[str], local: set[str]) -> bool:
    """Tell whether each variable that is read has a value then."""
    known = set(assigned)
    for statement in run:
        inner = set(known) | set(_stored([statement]) if isinstance(statement, (ast.For, ast.With)) else ())
        for one in ast.walk(statement):
            if isinstance(one, _COMPREHENSIONS):
                inner |= _targets(one)
        if set(_read([statement])) & local - inner:
            return False
        known.update(_surely_assigned([statement]))
    return True
