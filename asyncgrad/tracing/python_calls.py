"""The calls of a program by Python, one after the other, under what they say of floating-point errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, final

import numpy as np

from ..random import generator
from .program import CheckFailed, Step

__all__ = ["PythonCalls", "Row"]

Row = tuple[Callable[..., Any], tuple[Any, ...]]
Run = tuple[dict[str, Any], int, int]

#: From how many changes of `np.errstate` on, of which each takes as long as two small calls, it is set once for all.
_MANY_CHANGES = 3
#: As many runs as they are repeated in.
_IN_VAIN = 3


@final
class _Note:
    """Notes that there was a floating-point error."""

    __slots__ = ("has_error",)

    def __init__(self) -> None:
        self.has_error: bool = False

    def __call__(self, kind: str, flags: int) -> None:
        """Note one."""
        self.has_error = True


@final
class PythonCalls:
    """Makes the calls of a forward or of a backward.

    Where many of them treat errors otherwise than the caller, all are made first with every error noted that is not
    ignored by each of them. If there is one, they are made again as they are written, and warn or raise then.

    Args:
        steps: what the calls do.
        rows: the calls, a list that its owner fills, and changes between runs.
        ways: how NumPy treats errors around them.
        may_repeat: whether they may be made a second time.
    """

    __slots__ = ("_is_random", "_note", "_rows", "_runs", "_ways", "repeated", "runs")

    def __init__(self, steps: Sequence[Step], rows: list[Any], ways: dict[str, Any], may_repeat: bool) -> None:
        self._rows = rows
        self._runs = _runs_of(steps)
        self._note = _Note()
        changes = sum(bool(errstate) for errstate, _, _ in self._runs)
        #: How each kind of error is treated where they are made all at once; None where they are not.
        self._ways: dict[str, Any] | None = None
        if may_repeat and changes >= _MANY_CHANGES:
            treated = [ways, *({**ways, **errstate} for errstate, _, _ in self._runs)]
            self._ways = {
                kind: "ignore" if all(one[kind] == "ignore" for one in treated) else "call" for kind in ways
            }
        self._is_random: bool = any(getattr(step.function, "is_random", False) for step in steps)
        #: How many runs there were that made them all at once, and how many of these were repeated.
        self.runs: int = 0
        self.repeated: int = 0

    def run(self) -> None:
        """Make the calls."""
        if self._ways is None or self.repeated * _IN_VAIN > self.runs + _IN_VAIN:
            self._run_as_written()
            return
        state = generator().bit_generator.state if self._is_random else None
        self.runs += 1
        self._note.has_error = False
        try:
            with np.errstate(**self._ways, call=self._note):
                for function, args in self._rows:
                    function(*args)
        except CheckFailed:
            raise
        except Exception:
            # They raise it again, after what they warn of before.
            self._note.has_error = True
        if self._note.has_error:
            self.repeated += 1
            if state is not None:
                generator().bit_generator.state = state
            self._run_as_written()

    def _run_as_written(self) -> None:
        rows = self._rows
        for errstate, begin, end in self._runs:
            if errstate:
                with np.errstate(**errstate):
                    for function, args in rows[begin:end]:
                        function(*args)
            else:
                for function, args in rows[begin:end]:
                    function(*args)


def _runs_of(steps: Sequence[Step]) -> list[Run]:
    """Return runs of steps with one errstate: that, empty for the caller's, the first step, and the one after them."""
    runs: list[Run] = []
    for errstate, group in groupby(range(len(steps)), lambda index: steps[index].errstate):
        numbers = list(group)
        runs.append((errstate, numbers[0], numbers[-1] + 1))
    return runs
