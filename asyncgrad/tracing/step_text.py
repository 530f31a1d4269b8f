"""How a step of a program is written: in the way of Python, with numbers in the place of arrays."""

from __future__ import annotations

from typing import final

import numpy as np

from .program import Step
from .trace import Value, map_values, name_of

__all__ = ["line_of"]


def line_of(step: Step) -> str:
    """Return a call in the way of Python: the results, the function, the arguments."""
    results = [value for value in (step.results or step.writes) if value is not None]
    given = list(step.args)
    if step.function is np.copyto:
        # What it writes is what it is shown to return.
        del given[0]
    elif results and given and given[-1] is results[-1] and isinstance(step.function, np.ufunc):
        del given[-1]
    args = [_shown(one) for one in given]
    args += [f"{name}={_shown(one)}" for name, one in step.kwargs.items() if name != "out"]
    names = ", ".join(map(_shown, results))
    return (
        f"{names} = {name_of(step.function)}({', '.join(args)})"
        if names
        else f"{name_of(step.function)}({', '.join(args)})"
    )


def _shown(part: object) -> str:
    shown = map_values(part, lambda one: _Name(f"%{one.number}") if type(one) is Value else one)
    return f"{shown!r:.60}"


@final
class _Name(str):
    """A string that is shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
