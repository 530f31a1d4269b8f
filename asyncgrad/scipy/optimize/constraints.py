"""Bounds and constraints of a minimum, for SciPy and for the derivative of the minimum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from scipy import optimize

from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError
from ...transforms.parameters import Parameters
from ..arguments import floating
from ..solutions import array_of, call_differentiated
from .implicit import Point

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["Constraint", "bounds_of", "free_elements", "plain_bounds", "read_constraints"]

#: How near to its bound a number counts as being there, relative to the size of the bound.
_NEAR = 1e-6


@final
class Constraint(NamedTuple):
    """A function of x whose values are to lie between two bounds."""

    #: SciPy's form: a dict, a `LinearConstraint` or a `NonlinearConstraint`.
    given: Any
    #: Its own arguments follow those of the function to be minimized.
    args: Any
    lower: Any
    upper: Any

    async def values(self, point: Point, x: Any, args: Any) -> Tensor:
        """Return the values at a vector."""
        if isinstance(self.given, optimize.LinearConstraint):
            return np.atleast_2d(np.asarray(self.given.A, float)) @ x
        fun = self.given["fun"] if isinstance(self.given, dict) else self.given.fun
        found = await call_differentiated(fun, point.of(x), *args)
        if isinstance(found, (list, tuple)):
            found = np.stack([np.reshape(asarray(one), ()) for one in found])
        return np.reshape(floating(found), -1)

    def active(self, values: Array) -> Any:
        """Return for each value the bound that it has reached; NaN for none."""
        lower, upper = (np.broadcast_to(np.asarray(one, float), values.shape) for one in (self.lower, self.upper))
        return np.where(_is_at(values, lower), lower, np.where(_is_at(values, upper), upper, np.nan))

    def for_scipy(self, function: Any, jacobian: Any) -> Any:
        """Return the constraint with functions of arrays."""
        if isinstance(self.given, dict):
            return {"type": self.given["type"], "fun": function, "jac": jacobian}
        if isinstance(self.given, optimize.LinearConstraint):
            return self.given
        hess, keep = self.given.hess, self.given.keep_feasible
        return optimize.NonlinearConstraint(function, self.lower, self.upper, jacobian, hess, keep)


def read_constraints(constraints: Any, name: str) -> list[Constraint]:
    """Return constraints, one or a sequence of SciPy's forms, as a list."""
    kinds = (dict, optimize.LinearConstraint, optimize.NonlinearConstraint)
    found = []
    for one in [constraints] if isinstance(constraints, kinds) else constraints:
        if not isinstance(one, kinds):
            raise ArgumentError(
                f"{name}: a constraint must be a dict, a LinearConstraint or a NonlinearConstraint, not "
                f"{type(one).__name__}"
            )
        if isinstance(one, dict):
            kind = str(one["type"]).lower()
            if kind not in ("eq", "ineq"):
                raise ArgumentError(f"{name}: the type of a constraint must be 'eq' or 'ineq', not {one['type']!r}")
            found.append(Constraint(one, tuple(one.get("args", ())), 0.0, 0.0 if kind == "eq" else np.inf))
        else:
            found.append(Constraint(one, (), array_of(one.lb), array_of(one.ub)))
    return found


def plain_bounds(bounds: Any, name: str) -> Any:
    """Return bounds as SciPy takes them; raise if one requires grad."""
    if bounds is None:
        return None
    parts = [bounds.lb, bounds.ub] if isinstance(bounds, optimize.Bounds) else bounds
    if Parameters(list(parts)).tensors:
        raise ArgumentError(f"{name}: there is no derivative by bounds: detach them, or make them constraints")
    return bounds


def free_elements(x: Any, lower: Any, upper: Any) -> Any:
    """Return which elements of x are not at a bound; None if all are."""
    is_free = ~(_is_at(x, lower) | _is_at(x, upper))
    return None if is_free.all() else is_free


def _is_at(values: Any, bound: Any) -> Any:
    bound = np.broadcast_to(np.asarray(bound, float), values.shape)
    return np.isfinite(bound) & (np.abs(values - bound) <= _NEAR * (1 + np.abs(bound)))


def bounds_of(bounds: Any) -> tuple[Any, Any]:
    """Return the lower and the upper bounds."""
    if bounds is None:
        return -np.inf, np.inf
    if isinstance(bounds, optimize.Bounds):
        return bounds.lb, bounds.ub
    pairs = [tuple(pair) for pair in bounds]
    lower = [-np.inf if low is None else float(low) for low, _ in pairs]
    return np.array(lower), np.array([np.inf if high is None else float(high) for _, high in pairs])
