"""From a description to the functions that run it."""

from __future__ import annotations

import linecache
from math import prod
from typing import TYPE_CHECKING

from .program import Program
from .writing import Writer

if TYPE_CHECKING:
    from .description import Description

__all__ = ["compile_backward", "forget"]


def compile_backward(description: Description, keep_graph: bool, limited: bool, number: int) -> Program:
    """Return the compiled form of a description.

    Args:
        description: what to compile.
        keep_graph: whether saved tensors are kept.
        limited: whether the backward has given inputs.
        number: for the name that tracebacks show.
    """
    writer = Writer(description, keep_graph, limited)
    writer.write()
    text = writer.text
    plans = frozenset(
        (step.body.plan, prod(step.shape or ())) for step in description.steps if step.body and step.body.plan
    )
    source, filename = "\n".join(text.text) + "\n", f"<compiled backward {number}>"
    program = Program(source, filename, text.lines, plans, description.is_careful)
    for begin, end, name, piece in writer.functions:
        # Line numbers are those in the whole source.
        source = "\n" * begin + "\n".join(text.text[begin:end])
        exec(compile(source, program.filename, "exec"), text.namespace)  # noqa: S102
        if piece is not None:
            program.pieces[text.namespace[name].__code__] = piece
    program.run = text.namespace["backward"]
    # So that a traceback shows the lines.
    linecache.cache[program.filename] = (len(program.source), None, program.source.splitlines(True), program.filename)
    return program


def forget(program: Program) -> None:
    """Let go of the lines that were kept for tracebacks."""
    linecache.cache.pop(program.filename, None)
