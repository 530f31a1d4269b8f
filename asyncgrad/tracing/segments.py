"""An `async def` cut into segments: the statements between its awaits become functions, which can be compiled.

Its source is read, and each run of statements of a block that awaits nothing is replaced by the call of a function of
the local variables that they read, which returns those that they assign and somebody else reads. What the function
awaits, and whatever cannot be cut out, stays where it is.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, final

from ..core.settings.source import run_tree
from ..transforms.recipes import innermost
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
    given = {one.arg for one in _arguments_of(node)}
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
    if innermost(function) is not function:
        raise Untraceable("a transform has made it: give that the compiled function, as ag.func.grad(ag.jit(fn))")
    if hasattr(function, "__wrapped__"):
        raise Untraceable("it is wrapped by another function")
    try:
        lines, first = inspect.getsourcelines(function)
        # Indented as it is, for the lines of a string are a part of it.
        is_indented = lines[0][:1].isspace()
        tree: ast.Module | ast.If = ast.parse("".join(["if True:\n" * is_indented, *lines]))
    except (OSError, SyntaxError, TypeError):
        raise Untraceable("its source is not known") from None
    ast.increment_lineno(tree, max(first, 1) - 1 - is_indented)
    if is_indented and isinstance(tree.body[0], ast.If):
        tree = tree.body[0]
    (node, *_) = tree.body
    if not isinstance(node, ast.AsyncFunctionDef):
        raise Untraceable("its source is not known")
    if "__class__" in function.__code__.co_freevars or _has(node, (ast.Global, ast.Nonlocal)):
        raise Untraceable("it uses super(), global or nonlocal")
    if {"locals", "exec", "eval", "vars", "dir"} & set(function.__code__.co_names):
        raise Untraceable("it looks at its own variables")
    _leave_out_signature(node)
    if _written(_made(node, function, {}).__code__) != _written(function.__code__):
        # The file has changed, or the names of a class are others outside of it.
        raise Untraceable("its source is not that of its code")
    return node


def _arguments_of(node: ast.AsyncFunctionDef) -> list[ast.arg]:
    """Return the arguments of a function, without those of functions in its default values."""
    args = node.args
    named = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    return named + [one for one in (args.vararg, args.kwarg) if one is not None]


def _leave_out_signature(node: ast.AsyncFunctionDef) -> None:
    """Take away what would be evaluated again where the function is defined again."""
    node.decorator_list, node.returns = [], None
    _leave_out_type_params(node)
    for one in _arguments_of(node):
        one.annotation = None
    args = node.args
    args.defaults = [ast.copy_location(ast.Constant(None), one) for one in args.defaults]
    args.kw_defaults = [one and ast.copy_location(ast.Constant(None), one) for one in args.kw_defaults]


def _leave_out_type_params(node: ast.AST) -> None:
    if "type_params" in ast.FunctionDef._fields:
        node.type_params = []  # type: ignore[attr-defined]  # from Python 3.12 on


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
    body: list[ast.stmt] = [node, ast.Return(ast.Name(node.name, ast.Load()))]
    if node.name not in free:
        # A function that calls itself reads its name among its globals.
        body.insert(0, ast.Global([node.name]))
    outer = ast.FunctionDef("outer", parameters, body, [], None)
    _leave_out_type_params(outer)
    ast.copy_location(outer, node)
    module = ast.fix_missing_locations(ast.Module([outer], []))
    flags = like.__code__.co_flags & __future__.annotations.compiler_flag
    inner = run_tree(module, like.__code__.co_filename, flags)["outer"](*free)
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

    __slots__ = ("_kept", "_local", "_reads", "_unfit", "_unsure", "_with", "found")

    def __init__(self, node: ast.AsyncFunctionDef, local: set[str], kept: set[str]) -> None:
        self._local = local
        self._kept = kept
        #: How often each name is read in the whole function.
        self._reads: dict[str, int] = {}
        for name in _read(node.body):
            self._reads[name] = self._reads.get(name, 0) + 1
        self.found: list[ast.FunctionDef] = []
        #: Variables that may lose their value again.
        self._unsure = set(_deleted(node))
        #: The outermost `with` around the block that is cut.
        self._with: ast.With | ast.AsyncWith | None = None
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
        assigned -= self._unsure
        made: list[ast.stmt] = []
        run: list[ast.stmt] = []

        def end_run() -> None:
            if run:
                made.extend(self._segment(run, assigned, is_repeated))
                assigned.update(set(_surely_assigned(run)) - self._unsure)
                run.clear()

        for statement in body:
            is_return = isinstance(statement, ast.Return) and statement.value is not None
            is_fit = not self._unfit.intersection(ast.walk(statement))
            if is_fit and (_is_plain(statement) or (is_return and not _is_unfit(statement))):
                run.append(statement)
                if is_return:
                    end_run()
                continue
            end_run()
            self._descend(statement, assigned, is_repeated)
            assigned.update(set(_surely_assigned([statement])) - self._unsure)
            made.append(statement)
        end_run()
        return made

    def _descend(self, statement: ast.stmt, assigned: set[str], is_repeated: bool) -> None:
        """Cut the blocks in a statement that waits; those of a `try` stay, for its handlers see each assignment."""
        if not isinstance(statement, (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith)):
            return
        is_loop = isinstance(statement, (ast.For, ast.AsyncFor, ast.While))
        inside, outer = set(assigned), self._with
        if isinstance(statement, (ast.For, ast.AsyncFor)):
            inside.update(_bound([statement.target]))
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            inside.update(_bound([one.optional_vars for one in statement.items]))
            self._with = outer or statement
        statement.body = self.block(statement.body, inside, is_repeated or is_loop)
        self._with = outer
        if not isinstance(statement, (ast.With, ast.AsyncWith)) and statement.orelse:
            # A loop over nothing has not assigned its target.
            statement.orelse = self.block(statement.orelse, set(assigned), is_repeated or is_loop)

    def _segment(self, run: Sequence[ast.stmt], assigned: set[str], is_repeated: bool) -> list[ast.stmt]:
        """Return the call of a segment; the statements themselves if they cannot be one."""
        read, stored = set(_read(run)) & self._local, set(_stored(run)) & self._local
        surely = set(_surely_assigned(run))
        own: dict[str, int] = {}
        for name in _read(run):
            own[name] = own.get(name, 0) + 1
        elsewhere = {name for name in stored if self._reads.get(name, 0) > own.get(name, 0)}
        outputs = sorted(elsewhere | (stored & read & assigned if is_repeated else set()))
        # What nobody reads is left out of the segment that assigns it, and has no value here.
        inputs = sorted((read | (set(outputs) - surely)) & assigned)
        ends = isinstance(run[-1], ast.Return)
        has_work = any(_has(statement, _WORK) for statement in run)
        is_known = _reads_are_known(run, assigned, self._local) and set(outputs) <= surely | assigned
        if not has_work or not is_known or not (outputs or ends) or stored & self._kept:
            return list(run)
        if self._with is not None and not self._is_whole(run, outputs, is_repeated):
            return list(run)
        name = f"__segment_{len(self.found)}"
        body = list(run)
        if not ends:
            body.append(ast.copy_location(ast.Return(_tuple(outputs, ast.Load())), run[-1]))
        given = ast.arguments([], [ast.arg(one) for one in inputs], None, [], [], None, [])
        segment = ast.FunctionDef(name, given, body, [], None)
        _leave_out_type_params(segment)
        self.found.append(ast.copy_location(segment, run[0]))
        call = ast.Call(ast.Name(name, ast.Load()), [ast.Name(one, ast.Load()) for one in inputs], [])
        made = ast.Return(call) if ends else ast.Assign([_tuple(outputs, ast.Store())], call)
        return [ast.copy_location(made, run[0])]

    def _is_whole(self, run: Sequence[ast.stmt], outputs: Sequence[str], is_repeated: bool) -> bool:
        """Tell whether nobody reads what has been assigned before an error that a `with` suppresses."""
        inside: dict[str, int] = {}
        for name in _read([self._with] if self._with is not None else []):
            inside[name] = inside.get(name, 0) + 1
        later = {name for name in outputs if is_repeated or self._reads.get(name, 0) > inside.get(name, 0)}
        return not later or (not later.intersection(_stored(run[:-1])) and _assigns_once(run[-1]))


def _tuple(names: Sequence[str], context: ast.expr_context) -> ast.expr:
    return ast.Tuple([ast.Name(name, type(context)()) for name in names], type(context)())


def _is_plain(statement: ast.stmt) -> bool:
    """Tell whether a statement may be in a segment."""
    for one in ast.walk(statement):
        if isinstance(one, ast.AnnAssign) and one.value is None:
            return False
        if isinstance(one, ast.stmt) and not isinstance(one, (*_PLAIN, ast.Break, ast.Continue)):
            return False
    return isinstance(statement, _PLAIN) and not _leaves(statement) and not _is_unfit(statement)


def _is_unfit(statement: ast.stmt) -> bool:
    """Tell whether something in a statement keeps it out of a segment."""
    is_async = any(isinstance(one, ast.comprehension) and one.is_async for one in ast.walk(statement))
    return is_async or _has(statement, _UNFIT)


def _assigns_once(statement: ast.stmt) -> bool:
    """Tell whether a statement assigns when all is computed, or nothing."""
    if isinstance(statement, ast.Assign):
        parts = [part for one in statement.targets for part in (one.elts if isinstance(one, ast.Tuple) else [one])]
        return all(isinstance(one, ast.Name) for one in parts)
    return isinstance(statement, (ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return, ast.Pass, ast.Assert))


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
    """Yield the names that are read or deleted, each as often as it is."""
    for node in nodes:
        for one in ast.walk(node):
            if isinstance(one, ast.AugAssign) and isinstance(one.target, ast.Name):
                yield one.target.id
            elif isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Store):
                yield one.id


def _stored(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        for one in ast.walk(node):
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
                yield one.id


def _deleted(node: ast.AST) -> Iterator[str]:
    """Yield the names that lose their value: by `del`, and at the end of an `except ... as name`."""
    for one in ast.walk(node):
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Del):
            yield one.id
        elif isinstance(one, ast.ExceptHandler) and one.name is not None:
            yield one.name


def _bound(targets: Sequence[ast.expr | None]) -> Iterator[str]:
    """Yield the names that targets of an assignment give a value to, whatever is evaluated on the way."""
    for target in targets:
        if isinstance(target, ast.Name):
            yield target.id
        elif isinstance(target, (ast.Tuple, ast.List)):
            yield from _bound(target.elts)
        elif isinstance(target, ast.Starred):
            yield from _bound([target.value])


def _targets(comprehension: ast.ListComp | ast.SetComp | ast.DictComp) -> set[str]:
    return set(_stored([generator.target for generator in comprehension.generators]))


def _surely_assigned(statements: Sequence[ast.stmt]) -> Iterator[str]:
    """Yield the names that have a value after the statements, whatever way they take."""
    for statement in statements:
        if isinstance(statement, ast.Assign):
            yield from _bound(statement.targets)
        elif isinstance(statement, ast.AugAssign) or (isinstance(statement, ast.AnnAssign) and statement.value):
            yield from _bound([statement.target])
        elif isinstance(statement, ast.If):
            yield from set(_surely_assigned(statement.body)) & set(_surely_assigned(statement.orelse))


def _reads_are_known(run: Sequence[ast.stmt], assigned: set[str], local: set[str]) -> bool:
    """Tell whether each variable that is read has a value then."""
    known = set(assigned)
    for statement in run:
        heads: list[ast.AST] = [statement]
        body: list[ast.stmt] = []
        otherwise: list[ast.stmt] = []
        inside = set(known)
        if isinstance(statement, ast.For):
            heads, body, otherwise = [statement.iter, statement.target], statement.body, statement.orelse
            inside.update(_bound([statement.target]))
        elif isinstance(statement, (ast.If, ast.While)):
            heads, body, otherwise = [statement.test], statement.body, statement.orelse
        elif isinstance(statement, ast.With):
            heads, body = [*statement.items], statement.body
            inside.update(_bound([one.optional_vars for one in statement.items]))
        blocks_are_known = _reads_are_known(body, inside, local) and _reads_are_known(otherwise, known, local)
        if not blocks_are_known or not _are_known(heads, known, local):
            return False
        known.update(_surely_assigned([statement]))
    return True


def _are_known(nodes: Sequence[ast.AST], known: set[str], local: set[str]) -> bool:
    """Tell whether the variables that expressions read are known, or those of comprehensions in them."""
    own = set(known)
    for node in nodes:
        for one in ast.walk(node):
            if isinstance(one, _COMPREHENSIONS):
                own |= _targets(one)
    return not set(_read(nodes)) & local - own
