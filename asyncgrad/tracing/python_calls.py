"""The calls of a program by Python, one after the other, under what they say of floating-point errors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import groupby, pairwise
from typing import Any, final

import numpy as np

from ..random import generator
from .program import CheckFailed, Step
from .trace import Value, values_in

__all__ = ["NO_CALL", "PythonCalls", "Row", "join_fills", "join_masked"]

Row = tuple[Callable[..., Any], tuple[Any, ...]]
#: How NumPy treats kinds of errors, as `np.errstate` takes it.
Ways = dict[str, Any]
Run = tuple[Ways, int, int]
_CALLERS = nullcontext()
#: In the place of a call that another one makes, or that depends on what has not been given yet.
NO_CALL: Row = (bool, ())

#: From how many changes of `np.errstate` on, of which each takes as long as two small calls, it is set once for all.
_MANY_CHANGES = 3
#: Where more than one run in so many is repeated, they are made as they are written from then on.
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
        rows: the calls, a list that its owner changes between runs.
        ways: how NumPy treats errors around them.
        may_repeat: whether they may be made a second time.
    """

    __slots__ = ("_is_random", "_is_together", "_note", "_rows", "_runs", "_ways", "repeated", "runs")

    def __init__(self, steps: Sequence[Step], rows: list[Row], ways: Ways, may_repeat: bool) -> None:
        self._rows = rows
        self._runs = _runs_of(steps)
        self._note = _Note()
        changes = sum(bool(errstate) for errstate, _, _ in self._runs)
        #: How each kind of error is treated where they are made all at once; None where they are not.
        self._ways: Ways | None = None
        if may_repeat and changes >= _MANY_CHANGES:
            treated = [ways, *({**ways, **errstate} for errstate, _, _ in self._runs)]
            self._ways = {kind: "ignore" if all(one[kind] == "ignore" for one in treated) else "call" for kind in ways}
        #: Whether they lie together.
        self._is_together: bool = False
        self._is_random: bool = any(getattr(step.function, "is_random", False) for step in steps)
        #: How many runs there were that made them all at once, and how many of these were repeated.
        self.runs: int = 0
        self.repeated: int = 0

    def run(self) -> None:
        """Make the calls."""
        if not self._is_together:
            # One after the other in memory: that takes a third off the time of a chain of small calls.
            self._rows[:] = [(function, (*args,)) for function, args in self._rows]
            self._is_together = True
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
            # A part is a new list, for which the count of references of each row is written.
            part = rows if end - begin == len(rows) else rows[begin:end]
            with np.errstate(**errstate) if errstate else _CALLERS:
                for function, args in part:
                    function(*args)


def join_masked(steps: Sequence[Step], rows: list[Row], changing: Collection[Step]) -> None:
    """Put one call in the place of those that follow one another with one mask: it makes them if that is not all false.

    Args:
        steps: what the calls do.
        rows: the calls, which are changed.
        changing: the steps whose calls are others in each run.
    """

    def mask_of(index: int) -> tuple[Value, Ways] | None:
        step = steps[index]
        mask = step.kwargs.get("where")
        is_masked = isinstance(step.function, np.ufunc) and step.writes and not step.results and step not in changing
        return (mask, step.errstate) if type(mask) is Value and mask.array.size and is_masked else None

    for mask, group in groupby(range(len(steps)), mask_of):
        if mask is not None:
            numbers = list(group)
            made = [rows[index] for index in numbers]
            # Which none of them changes.
            if any(mask[0].root is one.root for index in numbers for one in steps[index].writes):
                continue
            bound_call = made[0][0]
            assert isinstance(bound_call, partial)
            array = bound_call.keywords["where"]
            rows[numbers[0]] = _call_where, (array, made)
            for index in numbers[1:]:
                rows[index] = NO_CALL


def join_fills(steps: Sequence[Step], rows: list[Row], changing: Collection[Step]) -> None:
    """Have calls that write over an array which was filled with a number before read that number elsewhere.

    Args:
        steps: what the calls do.
        rows: the calls, which are changed.
        changing: the steps whose calls are others in each run.
    """
    constants: dict[tuple[object, ...], np.ndarray] = {}
    for index, (fill, step) in enumerate(pairwise(steps)):
        if fill.function is not np.copyto or len(fill.args) != 2 or fill.kwargs or fill in changing or step in changing:
            continue
        filled, number = fill.args
        if type(number) not in (int, float, bool) or not isinstance(step.function, np.ufunc) or step.kwargs:
            continue
        if len(step.args) != step.function.nin + 1:
            continue
        places = [place for place, one in enumerate(step.args[:-1]) if one is filled]
        of_filled = [one for one in values_in(step.args) if one.root is filled.root]
        # A view of it would read what is no longer written.
        if step.args[-1] is not filled or len(places) != 1 or len(of_filled) != 2:
            continue
        function, args = rows[index + 1]
        place = places[0]
        array = args[place]
        key = array.shape, array.dtype, array.strides, repr(number)
        if key not in constants:
            constants[key] = np.full_like(array, number)
        rows[index] = NO_CALL
        rows[index + 1] = function, (*args[:place], constants[key], *args[place + 1 :])


def _call_where(mask: np.ndarray, rows: Sequence[Row]) -> None:
    """Make calls with a mask, which do nothing where it is false: as in most runs, for what is seldom met."""
    if mask.item(mask.argmax()):
        for function, args in rows:
            function(*args)


def _runs_of(steps: Sequence[Step]) -> list[Run]:
    """Return runs of steps with one errstate: that, empty for the caller's, the first step, and the one after them."""
    runs: list[Run] = []
    for errstate, group in groupby(range(len(steps)), lambda index: steps[index].errstate):
        numbers = list(group)
        runs.append((errstate, numbers[0], numbers[-1] + 1))
    return runs
