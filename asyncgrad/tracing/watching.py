"""What a profile is told of a program that runs: when its forward or backward began, and when each part had ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from ..core.settings.observers import PROGRAMS, ProgramRecorder
from .table import Table

__all__ = ["watched"]


def watched(
    table: Table, name: str, phase: str, run: Callable[..., Any], *, has_parts: bool = True
) -> Callable[..., Any]:
    """Return a function that runs a program; where something observes it, one that tells that of the run.

    Args:
        table: its memory, which nobody else uses meanwhile.
        name: that of the compiled function.
        phase: "forward" or "backward".
        run: runs it.
        has_parts: whether its parts are told of; not where they are those of many rows.
    """
    recorders = PROGRAMS.found() if PROGRAMS.are_put() else ()
    if not recorders:
        return run

    def run_and_tell(*args: Any) -> Any:
        runs = [_Run(table, phase == "backward", one) for one in recorders]

        def note(part: Any) -> None:
            for one in runs:
                one.note(part)

        table.note = note if has_parts else None
        try:
            found = run(*args)
        finally:
            table.note = None
        for one in runs:
            one.tell(name, phase)
        return found

    return run_and_tell


@final
class _Run:
    """A run, as one recorder sees it."""

    __slots__ = ("_began", "_is_backward", "_parts", "_recorder", "_table")

    def __init__(self, table: Table, is_backward: bool, recorder: ProgramRecorder) -> None:
        self._table = table
        self._is_backward = is_backward
        self._recorder = recorder
        self._parts: list[tuple[Any, float]] = []
        self._began = recorder.clock()

    def note(self, part: Any) -> None:
        """Note that a part has ended."""
        self._parts.append((part, self._recorder.clock()))

    def tell(self, name: str, phase: str) -> None:
        """Tell the recorder of the run, which has ended."""
        ended = self._recorder.clock()
        parts = [(self._table.described(part, self._is_backward), time) for part, time in self._parts]
        self._recorder.program_ran(name, phase, self._began, parts, ended)
