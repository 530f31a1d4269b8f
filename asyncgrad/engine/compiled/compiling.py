"""From a description to the functions that run it."""

from __future__ import annotations

import linecache
from math import prod
from types import CodeType, FunctionType
from typing import TYPE_CHECKING

from .program import Program
from .writing import Writer

if TYPE_CHECKING:
    from .description import Description
    from .slices import Slices

__all__ = ["compile_backward", "forget"]

#: How long Python's compiler takes for a line, in seconds.
SECONDS_FOR_A_LINE = 7e-6


def compile_backward(description: Description, keep_graph: bool, limited: bool, number: int) -> Slices[Program]:
    """Return the compiled form of a description.

    Args:
        description: what to compile.
        keep_graph: whether saved tensors are kept.
        limited: whether the backward has given inputs.
        number: for the name that tracebacks show.
    """
    writer = Writer(description, keep_graph, limited)
    row = yield from writer.write()
    text, namespace = writer.text, writer.text.namespace
    plans = set()
    for step in description.steps:
        yield 0.0
        if step.body is not None and step.body.plan is not None:
            plans.add((step.body.plan, prod(step.shape or ())))
    program = Program(f"<compiled backward {number}>", text.lines, frozenset(plans), description.is_careful)
    for begin, end, name, piece in writer.functions:
        # One function at a time, which cannot be parted.
        yield (end - begin) * SECONDS_FOR_A_LINE
        lines = [f"{line}\n" for line in text.text[begin:end]]
        # Line numbers are those in the whole source.
        code = _code_of("".join(lines), program.filename).replace(co_firstlineno=begin + 1)
        program.text += lines
        namespace[name] = FunctionType(code, namespace, name)
        if piece is not None:
            program.pieces[code] = piece
    yield 0.0
    # What goes through the others, if there are any, knows the first by its name.
    namespace["pieces"] = tuple([namespace[name] for name in row[1:]])
    program.run = namespace["backward"]
    # So that a traceback shows the lines.
    linecache.cache[program.filename] = (len(program.text), None, program.text, program.filename)
    return program


def forget(program: Program) -> None:
    """Let go of the lines that were kept for tracebacks."""
    linecache.cache.pop(program.filename, None)


def _code_of(source: str, filename: str) -> CodeType:
    """Return the code of the one function that a source is of."""
    (code,) = (one for one in compile(source, filename, "exec").co_consts if isinstance(one, CodeType))
    return code
