"""Hypergeometric series, and their derivatives by parameters and argument."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.values import as_like
from ...core.recording.primitive import derivative, primitive
from ...errors import MissingDerivativeError

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["series"]

#: The most terms that are added.
_MOST_TERMS = 20_000
#: The most terms of one block, and its most elements.
_BLOCK, _ELEMENTS = 64, 1 << 16
#: Takes the place of a factor of 0. The numbers that hold it as a factor are nothing beside others.
_NEARLY_ZERO = 1e-100
#: What rounding errors may be, relative to the series or its derivative, before there is said to be no derivative.
_TOLERANCE = 1e-9

#: By parameter and order, derivatives of terms.
Rises = list[list[Any]]


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
    block = max(8, min(_BLOCK, _ELEMENTS // max(1, z.size)))
    term, rises = np.ones(z.shape, np.result_type(z, float)), [[np.zeros(z.shape)] * order for order in orders]
    total, plain, largest = 0.0 * term, 0.0 * term, np.zeros(z.shape)
    with np.errstate(all="ignore"):
        if power:
            terms, rising = _following(
                term, rises, _factors(parameters, 0, power, orders[:numerators]), numerators, 1.0
            )
            term, rises = _last(terms, rising)
        for index in range(0, _MOST_TERMS, block):
            numbers = np.arange(index + 1, index + block + 1).reshape(-1, *[1] * z.ndim)
            factors = _factors(parameters, power + index, block, orders[:numerators])
            terms, rising = _following(term, rises, factors, numerators, z / numbers)
            term, rises = _last(terms, rising)
            slopes = math.prod([math.factorial(len(one)) * one[-1][:-1] for one in rising if one], start=terms[:-1])
            total, plain = total + np.sum(slopes, 0), plain + np.sum(terms[:-1], 0)
            sizes, scale = np.abs(slopes), np.abs(total)
            largest = np.maximum(largest, np.max(sizes, 0))
            is_done = (np.max(sizes[-3:], 0) <= 1e-17 * scale) | ~np.isfinite(scale)
            # The factors of a parameter below 0 may grow again, and the first terms do not depend on all parameters.
            may_end = index + block > sum(orders) + 3 and not (parameters + power + index + block <= 3).any()
            if may_end and is_done.all():
                break
        else:
            _fail(name, "converges too slowly")
        # Real numbers outside the circle of convergence are outside the domain, too; complex ones are not.
        if len(parameters) == 2 * numerators - 1 and np.iscomplexobj(z) and np.any((np.abs(z) > 1) & np.isnan(scale)):
            _fail(name, "diverges")
        if np.any(1e-16 * largest > _TOLERANCE * np.maximum(scale, np.abs(plain))):
            _fail(name, "loses its digits")
    return total


def _factors(parameters: Any, first: int, count: int, orders: tuple[int, ...]) -> Any:
    """Return parameters plus `count` numbers, along a second axis, without zeros where there are derivatives.

    So a term that is 0 has derivatives, as quotients with it.
    """
    numbers = np.arange(first, first + count).reshape(-1, *[1] * (parameters.ndim - 1))
    factors = parameters[:, np.newaxis] + as_like(numbers, parameters)
    for factor, order in zip(factors, orders, strict=False):
        if order:
            factor[factor == 0] = _NEARLY_ZERO
    return factors


def _following(term: Any, rises: Rises, factors: Any, numerators: int, argument: Any) -> tuple[Any, Rises]:
    """Return a term of a series and those that follow it, along a new first axis, and their derivatives.

    Args:
        term: the term.
        rises: by parameter, the derivatives of the orders from 1 on, each over its factorial and over the term.
        factors: by parameter, what the terms are multiplied by one after another, or divided by in the denominator.
        numerators: how many of the parameters are in the numerator.
        argument: what the terms are multiplied by, too.
    """
    ratios = np.prod(factors[:numerators], 0) / np.prod(factors[numerators:], 0) * argument
    terms = np.concatenate([term[np.newaxis], term * np.cumprod(ratios, 0)])
    rising: Rises = []
    for index, (own, factor) in enumerate(zip(rises, factors, strict=True)):
        below, found = np.ones((len(terms), *[1] * term.ndim)), []
        for one in own:
            # A factor f depends on the parameter as f + e does on e, and its inverse as 1 / (f + e).
            steps = below[:-1] / factor if index < numerators else -below[1:] / factor
            below = np.concatenate([one[np.newaxis], one + np.cumsum(steps, 0)])
            found.append(below)
        rising.append(found)
    return terms, rising


def _last(terms: Any, rising: Rises) -> tuple[Any, Rises]:
    return terms[-1], [[one[-1] for one in many] for many in rising]


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
