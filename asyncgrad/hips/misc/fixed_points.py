"""Fixed points of iterations, by the name of `autograd.misc.fixed_points`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...sync import func

__all__ = ["fixed_point"]


def fixed_point(
    f: Callable[[Any], Callable[[Any], Any]], a: Any, x0: Any, distance: Callable[[Any, Any], Any], tol: float
) -> Any:
    """Return the `x` with `f(a)(x) == x` that the iteration converges to from `x0`, differentiable by `a`.

    Args:
        f: takes the parameters, and returns one step of the iteration.
        a: the parameters.
        x0: where the iteration starts.
        distance: of two iterates, a number.
        tol: the distance of the last two iterates.

    Source: autograd.misc.fixed_points.fixed_point.

    Example:
        >>> from asyncgrad.hips import grad
        >>> from asyncgrad.hips.misc.fixed_points import fixed_point
        >>> def root(a):
        ...     return fixed_point(lambda a: lambda x: (x + a / x) / 2, a, 1.0, lambda x, y: abs(x - y), 1e-9)
        >>> round(float(grad(root)(4.0)), 6)
        0.25
    """
    return func.fixed_point(lambda params, x: f(params)(x), a, x0, distance, tol)
