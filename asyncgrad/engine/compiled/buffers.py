"""Which arrays of gradients a compiled function may write into, and what computes gradients with few new ones.

The function itself makes most of the arrays that it hands from step to step. One that it has made, that no name but one
holds, and that no hook, leaf, result or body was ever given, is its own: where the last formula of a step reads it for
the last time, the result is written into it. Everything else is never written into: the gradient that the backward
began with, what was saved, what a body of any kind has returned or has seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from .program import LineKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .arrivals import Arrivals
    from .description import Step
    from .names import Names
    from .text import Text

__all__ = ["Buffer", "write_results"]


@final
class Buffer:
    """An array of gradients, as far as that is known when the function is written.

    Args:
        is_new: whether the function has made it.
    """

    __slots__ = ("holders", "is_new")

    def __init__(self, is_new: bool = False) -> None:
        self.is_new = is_new
        #: At how many inputs of nodes it has arrived, of those that have not run.
        self.holders = 0

    @property
    def is_spare(self) -> bool:
        """Whether nobody else needs it than the input where it has arrived, or the line that has just made it."""
        return self.is_new and self.holders <= 1

    def show(self) -> None:
        """Note that others get to see it: they may keep it, or a view of it."""
        self.is_new = False


def write_results(
    text: Text,
    pool: Names,
    step: Step,
    names: dict[str, str],
    values: Sequence[str | None],
    arrived: Arrivals,
) -> list[Buffer]:
    """Write what computes the gradients of a step; return their arrays.

    Args:
        text: where to.
        pool: for the names of arrays that are made on the way.
        step: whose gradients.
        names: those of the step.
        values: for each edge the name of its gradient; None where none is wanted.
        arrived: what has arrived at the step.
    """
    body = step.body
    assert body is not None
    results, constants = body.results, body.constants
    wanted = [edge for edge, value in enumerate(values) if value is not None]
    reuse = [None] * len(values) if isinstance(results, str) or not body.reuse else body.reuse
    passed_on = [] if isinstance(results, str) else [edge for edge in wanted if results[edge] == "$g"]
    if any(reuse[edge] is None and edge not in passed_on for edge in wanted):
        # A body that may keep what it sees, or return a view of it.
        arrived.show()
    if isinstance(results, str):
        taken = ", ".join(value or "_" for value in values)
        text.emit(f"{taken}{',' * (len(values) == 1)} = {text.filled(results, names, constants)}", LineKind.BODY)
        return [Buffer() for _ in values]
    first = arrived.buffers[0] if arrived.buffers else None
    is_spare = first is not None and first.is_spare and not passed_on
    for edge in wanted:
        if edge in passed_on:
            continue
        found, source = reuse[edge], results[edge]
        if found is not None:
            # The last one alone, since all others read the gradient too.
            source = (is_spare and edge == wanted[-1] and found.in_place) or found.source
        assert source is not None
        made = [f"t{nr}" for nr in range(0 if found is None else found.names) if f"$t{nr}" in source]
        temporaries = {name: pool.take("t") for name in made}
        text.emit(f"{values[edge]} = {text.filled(source, names | temporaries, constants)}", LineKind.BODY)
        if temporaries:
            # A leaf takes over an array that it gets alone.
            text.emit(f"{' = '.join(temporaries.values())} = None")
        for name in temporaries.values():
            pool.give_back(name)
    return [
        first if edge in passed_on and first is not None else Buffer(reuse[edge] is not None)
        for edge in range(len(values))
    ]
