"""Hypergeometric series, and their derivatives by parameters and argument."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.recording.primitive import derivative, primitive
from ...errors import MissingDerivativeError

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["series"]

#: The most terms that are added.
_MOST_TERMS = 20_000
#: What rounding errors may be, relative to the series or its derivative, before there is said to be no derivative.
_TOLERANCE = 1e-9


def series(numerators: tuple[Any, ...], denominators: tuple[Any, ...], z: Any, name: str, *by: int) -> Any:
    """Return a hypergeometric series, or its derivative by parameters.

    Args:
        numerators: the parameters whose rising factorials multiply terms.
        denominators: the parameters whose rising factorials divide terms.
        z: the argument.
        name: the function that it is for, which an error names.
        *by: the positions of parameters to differentiate by, in order with the numerators first; one may come twice.

    Raises:
        MissingDerivativeError: the series converges too slowly, or its terms cancel.
    """
    *parameters, z = np.broadcast_arrays(*numerators, *denominators, z)
    orders = tuple(by.count(index) for index in range(len(parameters)))
    return _series.call(np.stack(parameters), z, len(numerators), orders, 0, name)


@primitive()
def _series(parameters: Any, z: Any, numerators: int, orders: tuple[int, ...], power: int, name: str) -> Any:
    """Return a derivative of a hypergeometric series.

    Args:
        parameters: an array with those of the numerator, and then those of the denominator, along its first axis.
        z: the argument.
        numerators: how many parameters are in the numerator.
        orders: by each parameter, of which order the derivative is.
        power: of which order the derivative by z is.
        name: the function that it is for, which an error names.
    """
    parameters = parameters.astype(float)
    # Along an axis for each parameter, the derivatives of a term up to those that are asked for.
    term: Any = np.zeros((*(order + 1 for order in orders), *z.shape), np.result_type(z, float))
    term[(0,) * len(orders)] = 1.0
    views = [
        [term[(*(slice(None),) * axis, order, ...)] for order in range(most + 1)] for axis, most in enumerate(orders)
    ]
    total: Any = 0.0
    largest = np.zeros(z.shape)
    quiet = 0
    with np.errstate(all="ignore"):
        for index in range(power):
            _advance(views, parameters + index, numerators)
        for index in range(_MOST_TERMS):
            total = total + term
            size = np.abs(term[orders])
            largest = np.maximum(largest, size)
            scale = np.abs(total[orders])
            is_done = (size <= 1e-17 * scale) | ~np.isfinite(scale)
            # The factors of a parameter below 0 may grow again, and the first terms do not depend on all parameters.
            may_end = index > sum(orders) and not (parameters + power + index <= 0).any()
            quiet = quiet + 1 if may_end and is_done.all() else 0
            if quiet == 3 or (quiet and not np.any(term)):
                break
            _advance(views, parameters + power + index, numerators)
            term *= z / (index + 1)
        else:
            _fail(name, "converges too slowly")
        trusted = np.maximum(np.abs(total[orders]), np.abs(total[(0,) * len(orders)]))
        # Real numbers outside the circle of convergence are outside the domain, too; complex ones are not.
        if len(parameters) == 2 * numerators - 1 and np.iscomplexobj(z) and np.any((np.abs(z) > 1) & np.isnan(scale)):
            _fail(name, "diverges")
        if np.any(1e-16 * largest > _TOLERANCE * trusted):
            _fail(name, "loses its digits")
    return total[orders]


def _advance(views: list[list[Any]], factors: Any, numerators: int) -> None:
    """Multiply a term, and its derivatives by each parameter, by factors, or divide by those of the denominator.

    Args:
        views: by parameter, views of the term and of its derivatives by the parameter, by their order.
        factors: by parameter.
        numerators: how many of the parameters are in the numerator.
    """
    for index, (view, factor) in enumerate(zip(views, factors, strict=True)):
        if index < numerators:
            for order in range(len(view) - 1, 0, -1):
                view[order] *= factor
                view[order] += order * view[order - 1]
            view[0] *= factor
        else:
            view[0] /= factor
            for order in range(1, len(view)):
                view[order] -= order * view[order - 1]
                view[order] /= factor


def _fail(name: str, why: str) -> None:
    raise MissingDerivativeError(
        f"scipy.special.{name} has no derivative with respect to its parameters at these arguments: the series that "
        f"gives it {why}. It has one with respect to its argument: detach the parameters"
    )


@derivative(_series, "parameters")
def _(g: Any, parameters: Array, z: Any, numerators: int, orders: tuple[int, ...], power: int, name: str) -> Array:
    more = [(*orders[:index], order + 1, *orders[index + 1 :]) for index, order in enumerate(orders)]
    return np.stack([np.real(g * _series.call(parameters, z, numerators, one, power, name)) for one in more])


@derivative(_series, "z")
def _(g: Any, parameters: Any, z: Array, numerators: int, orders: tuple[int, ...], power: int, name: str) -> Array:
    return g * _series.call(parameters, z, numerators, orders, power + 1, name)
