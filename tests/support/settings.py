"""How soon the loop gets a turn, and whether a backward is compiled: for a block of a test."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from asyncgrad.core.engine.compiled.api import COMPILED_AFTER
from asyncgrad.core.settings.scheduling import LOOP_BUDGET

__all__ = ["compiled_after", "loop_budget", "node_by_node"]


@contextlib.contextmanager
def loop_budget(seconds: float) -> Iterator[None]:
    """Let the loop breathe after so many seconds: after every node where they are negative."""
    token = LOOP_BUDGET.set(seconds)
    try:
        with node_by_node() if seconds < 0 else contextlib.nullcontext():
            yield
    finally:
        LOOP_BUDGET.reset(token)


@contextlib.contextmanager
def compiled_after(after: int | None) -> Iterator[None]:
    """Compile after so many sightings; None compiles nothing."""
    token = COMPILED_AFTER.set(after)
    try:
        yield
    finally:
        COMPILED_AFTER.reset(token)


def node_by_node() -> contextlib.AbstractContextManager[None]:
    """Have no backward compiled: a compiled function looks at the clock after several short nodes, not after each."""
    return compiled_after(None)
