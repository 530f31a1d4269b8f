"""What SciPy finds by a search that may end at a bound, where the result does not depend on the arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays.values import raw
from ...core.recording.primitive import Primitive
from .rules import compute_where, differentiable

__all__ = ["searched"]

#: SciPy's bounds are 0, or smaller than this, and the reciprocal or greater.
_BOUND = 1e-90


def searched(function: np.ufunc, names: str, **formulas: Callable[..., Any]) -> Primitive:
    """Return `differentiable(...)` for a function whose results are found by a search.

    Args:
        function: SciPy's.
        names: those of the arguments.
        **formulas: for each argument, of which the last parameter is `out`.
    """
    return differentiable(function, names, **{name: _bounded(formula) for name, formula in formulas.items()})


def _bounded(formula: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(formula)
    def bounded(g: Any, *arguments: Any) -> Any:
        size = np.abs(raw(arguments[-1]))
        is_found = (size > _BOUND) & (size < 1 / _BOUND) | np.isnan(size)
        return compute_where(is_found, lambda *inside: formula(g, *inside), *arguments, safe=0.5)

    return bounded
