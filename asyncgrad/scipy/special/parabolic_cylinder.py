"""Parabolic cylinder functions, the solutions of w'' = (x**2 / 4 - v - 1 / 2) * w and of w'' = (a - x**2 / 4) * w."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...ops.primitive import RULES, derivative, primitive
from ..missing import no_derivative
from ..ufuncs import special

__all__ = ["pbdv", "pbvv", "pbwa"]

_CURVATURES: dict[str, Callable[[Any, Any], Any]] = {
    "pbdv": lambda v, x: np.square(x) / 4 - v - 0.5,
    "pbvv": lambda v, x: np.square(x) / 4 - v - 0.5,
    "pbwa": lambda a, x: a - np.square(x) / 4,
}


@primitive()
def parabolic_cylinder(v: Any, x: Any, name: str, index: int) -> Any:
    """Return the function of a name, or its derivative by x as SciPy's second result."""
    return getattr(special, name)(v, x)[index]


@derivative(parabolic_cylinder, "x")
def _(g: Any, v: Any, x: Any, name: str, index: int) -> Any:
    if index == 0:
        return g * parabolic_cylinder(v, x, name, 1)
    return g * (_CURVATURES[name](v, x) * parabolic_cylinder(v, x, name, 0))


@derivative(parabolic_cylinder, "v")
def _(g: Any, name: str) -> Any:
    return no_derivative(f"scipy.special.{name}", "a" if name == "pbwa" else "v", "it has one by x")(g)


def pbdv(v: Any, x: Any, /) -> tuple[Any, Any]:
    """Return the parabolic cylinder function D, and its derivative."""
    return parabolic_cylinder(v, x, "pbdv", 0), parabolic_cylinder(v, x, "pbdv", 1)


def pbvv(v: Any, x: Any, /) -> tuple[Any, Any]:
    """Return the parabolic cylinder function V, and its derivative."""
    return parabolic_cylinder(v, x, "pbvv", 0), parabolic_cylinder(v, x, "pbvv", 1)


def pbwa(a: Any, x: Any, /) -> tuple[Any, Any]:
    """Return the parabolic cylinder function W, and its derivative."""
    return parabolic_cylinder(a, x, "pbwa", 0), parabolic_cylinder(a, x, "pbwa", 1)


RULES[special.pbdv] = pbdv
RULES[special.pbvv] = pbvv
RULES[special.pbwa] = pbwa
