"""Generated source: what writes it, compiles and runs it, and has tracebacks show its lines.

A function that is generated for the number of its arguments, or for the values that a node saves, takes less time than
one that loops over them. Its file name begins with `GENERATED` and says what it is, whichever module asks for it.
`make_function` and `make_functions` do all at once. A SourceWriter takes the lines one by one, names the constants, and
compiles one function after the other.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import linecache
import re
from collections.abc import Callable, Iterable, Mapping
from types import CodeType, FunctionType
from typing import Any, final

from .process import keep_lines

__all__ = ["GENERATED", "SourceWriter", "file_name", "make_function", "make_functions", "run_tree"]

#: What the file name of generated code begins with.
GENERATED = "<asyncgrad: "
#: The characters to replace in names. ASCII only: Python normalises identifiers, so two spellings may be one name.
_NOT_IN_NAMES = re.compile(r"^(?=\d|$)|\W", re.ASCII)


def file_name(what: str) -> str:
    """Return the name of the file of generated source, by what it is."""
    return f"{GENERATED}{what}>"


def run_tree(module: ast.Module, file: str, flags: int) -> dict[str, Any]:
    """Run the syntax tree of a user's source that was changed; return the names that it defines.

    Args:
        module: the tree, with the lines of the user's file, which tracebacks show.
        file: the name of that file.
        flags: of the compiler, as for `compile`.
    """
    found: dict[str, Any] = {}
    exec(compile(module, file, "exec", flags, dont_inherit=True), {}, found)  # noqa: S102
    return found


def make_function(head: str, body: Iterable[str], what: str, namespace: dict[str, Any]) -> FunctionType:
    """Return a function of generated source.

    Args:
        head: its name and parameters.
        body: its lines, indented as they would be outside of a function.
        what: what it is, for its file name. Another source of that name gets a number.
        namespace: the names that it uses, which becomes its globals.

    Example:
        >>> from asyncgrad.core.settings.source import make_function
        >>> add = make_function("add(x, y)", ["return x + y"], "sum of two", {})
        >>> add(1, 2)
        3
    """
    (function,) = make_functions({head: body}, what, namespace)
    return function


def make_functions(
    functions: Mapping[str, Iterable[str]], what: str, namespace: dict[str, Any]
) -> tuple[FunctionType, ...]:
    """Return several functions of generated source, which is one file; see `make_function`.

    Args:
        functions: by the head of each, its body.
        what: what they are.
        namespace: the names that they use.
    """
    writer = SourceWriter(namespace)
    for head, body in functions.items():
        writer.begin(f"def {head}")
        for line in body:
            writer.write(line)
    return writer.run(what)


@final
class SourceWriter:
    r"""Writes generated source: the lines of functions, and the names of the values that they use.

    Args:
        namespace: the names that the source uses, which becomes the globals of its functions. No function stands in
            there: one in its own globals would wait for the garbage collector when it is dropped
            (test_a_generated_function_that_is_dropped_leaves_nothing_to_the_garbage_collector).

    Example:
        >>> from asyncgrad.core.settings.source import SourceWriter
        >>> writer = SourceWriter({})
        >>> writer.begin("def scale(x)")
        >>> writer.write(f"return x * {writer.constant('factor', 3.0)}")
        >>> (scale,) = writer.run("multiplication by a constant")
        >>> scale(2.0), writer.lines
        (6.0, ['def scale(x):\n', '    return x * factor\n'])
    """

    __slots__ = ("_constants", "_tuples", "lines", "namespace")

    def __init__(self, namespace: dict[str, Any]) -> None:
        self.namespace = namespace
        #: With their line ends.
        self.lines: list[str] = []
        # A copy: another thread may generate the same, and run it with these globals.
        self._constants = {id(value): name for name, value in namespace.copy().items()}
        #: Equal tuples are one constant.
        self._tuples: dict[Any, Any] = {}

    def begin(self, head: str) -> None:
        """Begin a function; `head` is its first line, without the colon."""
        self.lines.append(f"{head}:\n")

    def write(self, line: str) -> None:
        """Add a line to the function that has begun, indented as it would be outside of a function."""
        self.lines.append(f"    {line}\n")

    def truncate(self, length: int) -> None:
        """Remove the lines from number `length` on."""
        del self.lines[length:]

    def constant(self, name: str, value: Any, is_reserved: Callable[[str], Any] | None = None) -> str:
        """Return the name of a constant, one for each object: `name`, or one derived from it.

        `name` may be the name of any class or function, so characters that are not allowed in an identifier are
        replaced, and a number is added if the name is taken.

        Args:
            name: what the constant is.
            value: the object.
            is_reserved: tells whether a name is one of the source's own, such as that of a local variable; None if it
                has none that could be meant.
        """
        if isinstance(value, tuple):
            value = self._tuples.setdefault(value, value)
        known = self._constants.get(id(value))
        if known is None:
            name = _NOT_IN_NAMES.sub("_", name)
            known, number = name, 1
            while known in self.namespace or _means_something(known) or (is_reserved and is_reserved(known)):
                number += 1
                known = f"{name}_{number}"
            self._constants[id(value)] = known
            self.namespace[known] = value
        return known

    def run(self, what: str) -> tuple[FunctionType, ...]:
        """Compile all lines; return the functions in their order.

        Args:
            what: what they are, for the file name. Another source of that name gets a number.
        """
        name, number = file_name(what), 1
        while linecache.cache.get(name, ("", None, self.lines))[2:3] != (self.lines,):
            number += 1
            name = file_name(f"{what}, {number}")
        self.keep(name)
        made: dict[str, FunctionType] = {}
        exec(_compiled(self.lines, name), self.namespace, made)  # noqa: S102
        return tuple(made.values())

    def compile(self, begin: int, end: int, name: str, namespace: dict[str, Any]) -> FunctionType:
        """Return the one function of the lines from `begin` up to `end`, without running anything.

        Args:
            begin: the number of its first line, of all lines of the file, counted from 0.
            end: the number of the line after its last.
            name: of the file: `file_name`. `keep` has tracebacks show its lines.
            namespace: its globals.
        """
        (code,) = (one for one in _compiled(self.lines[begin:end], name).co_consts if isinstance(one, CodeType))
        return FunctionType(code.replace(co_firstlineno=begin + 1), namespace)

    def keep(self, name: str) -> None:
        """Have tracebacks show the lines, which are those of the file of this name."""
        keep_lines(name, self.lines)


def _means_something(name: str) -> bool:
    """Tell whether a name is a keyword or a builtin."""
    return keyword.iskeyword(name) or hasattr(builtins, name)


def _compiled(lines: Iterable[str], name: str) -> CodeType:
    return compile("".join(lines), name, "exec")
