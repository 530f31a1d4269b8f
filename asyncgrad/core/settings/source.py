"""Generated source: what compiles and runs it, and has tracebacks show its lines.

A function that is generated for the number of its arguments, or for the values that a node saves, takes less time than
one that loops over them. Its file name begins with `GENERATED` and says what it is, whichever module writes it.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterable
from types import CodeType, FunctionType
from typing import Any

from .process import keep_lines

__all__ = ["GENERATED", "compile_function", "make_function", "run_source"]

#: What the file name of generated code begins with.
GENERATED = "<asyncgrad: "


def make_function(head: str, body: Iterable[str], what: str, namespace: dict[str, Any]) -> FunctionType:
    """Return a function of generated source.

    It does not stand in its namespace: a function in its own globals would wait for the garbage collector when it is
    dropped (test_a_generated_function_that_is_dropped_leaves_nothing_to_the_garbage_collector).

    Args:
        head: its name and parameters.
        body: its lines, indented as they would be outside of a function.
        what: what it is, for its file name.
        namespace: the names that it uses.

    Example:
        >>> from asyncgrad.core.settings.source import make_function
        >>> add = make_function("add(x, y)", ["return x + y"], "sum of two", {})
        >>> add(1, 2)
        3
    """
    run_source("\n".join([f"def {head}:", *(f"    {line}" for line in body)]), what, namespace)
    function: FunctionType = namespace.pop(head.partition("(")[0])
    return function


def run_source(text: str, what: str, namespace: dict[str, Any]) -> None:
    """Run generated source in a namespace.

    Args:
        text: the source.
        what: what it is, for its file name. Another text of that name gets a number.
        namespace: the names that it uses, and defines.
    """
    lines = text.splitlines(keepends=True)
    name, number = f"{GENERATED}{what}>", 1
    while linecache.cache.get(name, ("", None, lines))[2:3] != (lines,):
        number += 1
        name = f"{GENERATED}{what}, {number}>"
    keep_lines(name, lines)
    exec(compile(text, name, "exec"), namespace)  # noqa: S102


def compile_function(lines: Iterable[str], filename: str, first: int) -> CodeType:
    """Return the code of the only function of some lines of a file, of which the first has the number `first`."""
    code = compile("".join(lines), filename, "exec")
    (found,) = (one for one in code.co_consts if isinstance(one, CodeType))
    return found.replace(co_firstlineno=first)
