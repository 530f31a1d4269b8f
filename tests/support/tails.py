"""Exact derivatives of elementwise functions, in high precision, and a check of gradients against them.

The points are where formulas lose their digits: the smallest and the largest numbers of a dtype, the ends of domains
and just inside of them, and where a term vanishes beside another. The derivative at the number itself, which is exact,
is rounded to the dtype and compared in units in the last place.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import mpmath
import numpy as np
from mpmath import mp, mpf

import asyncgrad as ag

__all__ = ["POINTS", "Reference", "check_gradients", "check_second_derivatives", "everywhere", "points_of"]

#: Digits enough for 1 - x**2 at the last number before 1, squared.
mp.dps = 60

#: By how much a second derivative may be off, relative to the exact one.
_SECOND_RTOL = 1e-7

#: Of either sign, as far as a dtype has them.
POINTS = (
    *(0.0, 5e-324, 1e-310, 2.2250738585072014e-308, 1e-300, 1e-200, 1e-160, 1e-154, 1e-100),
    *(1e-45, 1e-40, 1.1754943508222875e-38, 1e-30, 1e-25, 1e-20, 1e-17, 1e-10, 1e-8, 1e-3, 0.1, 0.25, 0.5),
    *(0.7, 0.9, 0.9999, 1 - 2**-24, 1 - 2**-53, 1.0, 1 + 2**-52, 1 + 2**-23, 1.0001, 1.25, 1.5, 2.0, 2.5, 3.0, 4.7),
    *(6.0, 8.0, 9.0, 10.0, 12.0, 15.0, 17.0, 18.0, 19.0, 20.0, 22.0, 26.0, 30.0, 37.0, 40.0, 50.0, 86.0, 88.0, 89.0),
    *(103.0, 104.0, 350.0, 356.0, 372.0, 700.0, 708.0, 709.0, 710.0, 720.0, 745.0, 1e4, 1e6, 1e8, 1e10, 1e16, 1e19),
    *(1.8e19, 1.9e19, 1e20, 1e30, 3e38, 1e77, 1e100, 1.3e154, 1.4e154, 1e155, 1e200, 1e300, 1e308, 1.7e308),
)
#: The points of each of two arguments.
FEWER = (
    *(0.0, 5e-324, 1e-300, 1e-160, 1e-45, 1e-25, 1e-3, 0.1, 1.0, 1.5, 18.0, 40.0, 700.0),
    *(1e20, 1e38, 1e155, 1e308),
)


def everywhere(*_: Any) -> bool:
    """Tell that a function has a derivative at every number."""
    return True


class Reference(NamedTuple):
    """The exact derivatives of a function of numbers."""

    function: Callable[..., Any]
    #: By each argument, a function of mpmath's numbers.
    slopes: tuple[Callable[..., Any], ...]
    #: Tells where it has them, given Python's numbers.
    domain: Callable[..., bool] = everywhere
    #: How far a gradient may be from the exact one, in units in the last place.
    ulps: float = 8
    #: How many more times half a unit in the last place, given mpmath's numbers: where the formula computes with the
    #: result, that is how much a rounding of the result changes the derivative.
    amplifies: Callable[..., Any] | None = None
    #: What is called in the place of the function where that takes an argument that has no derivative.
    call: Callable[..., Any] | None = None
    #: Whether it has a second derivative that `check_second_derivatives` finds from the first.
    is_smooth: bool = True


def points_of(reference: Reference, dtype: Any, least: float = 0.0, most: float = np.inf) -> list[tuple[float, ...]]:
    """Return the points of a dtype at which a reference has a derivative and its function is finite."""
    count = len(reference.slopes)
    given = POINTS if count == 1 else FEWER
    with np.errstate(all="ignore"):
        cast = sorted(
            {float(value) for value in np.array(given, dtype) if np.isfinite(value) and least <= value <= most}
        )
    signed = [sign * value for value in cast for sign in (1.0, -1.0)]
    found = [point for point in itertools.product(signed, repeat=count) if reference.domain(*point)]
    with np.errstate(all="ignore"):
        values = _call(reference, [np.array(column, dtype) for column in zip(*found, strict=True)])
    return [point for point, value in zip(found, values, strict=True) if np.isfinite(value)]


def _call(reference: Reference, arguments: Sequence[Any]) -> Any:
    return (reference.call or reference.function)(*arguments)


def _exact(slope: Callable[..., Any], point: Sequence[float]) -> Any:
    """Return the derivative, infinite where it divides by 0."""
    try:
        return mp.mpf(slope(*map(mpf, point)))
    except ZeroDivisionError:
        return mpf("inf")


def _is_near(found: float, exact: Any, limits: Any, ulps: float) -> bool:
    """Tell whether a gradient is the exact one but for some units in the last place, or for what the dtype lacks."""
    size, tiny, most = abs(exact), mpf(float(limits.smallest_normal)), mpf(float(limits.max))
    relative = ulps * float(limits.eps)
    if size >= most * (1 - min(relative, 0.5)):
        return abs(found) >= most * (1 - min(relative, 0.5)) and (size == mp.inf or np.sign(found) == mp.sign(exact))
    if not np.isfinite(found):
        return False
    if size < tiny:
        # Less than the smallest normal number, which may be taken as 0.
        return abs(found) <= float(tiny) * (1 + relative)
    return abs(mpf(found) - exact) <= relative * size


def _in_last_place(found: float, exact: Any, limits: Any) -> str:
    if not np.isfinite(found) or not mp.isfinite(exact) or exact == 0:
        return ""
    return f", {float(abs(mpf(found) - exact) / abs(exact)) / float(limits.eps):.3g} units off"


def _gradients(reference: Reference, points: Sequence[tuple[float, ...]], dtype: Any) -> list[Any]:
    leaves = [ag.tensor(np.array(column, dtype), requires_grad=True) for column in zip(*points, strict=True)]
    with np.errstate(all="ignore"):
        result = _call(reference, leaves)
    return [grad.numpy() for grad in ag.sync.grad(result, leaves, np.ones(len(points), dtype))]


def check_gradients(reference: Reference, dtype: Any) -> list[str]:
    """Return in words which gradients are not the exact ones, and which warnings there are for no reason."""
    limits = np.finfo(dtype)
    points = points_of(reference, dtype)
    assert points
    exact = [[_exact(slope, point) for slope in reference.slopes] for point in points]
    # Where a derivative is infinite in the dtype, a warning is right.
    bounded = [all(abs(value) < mpf(float(limits.max)) for value in row) for row in exact]
    wrong = []
    for is_bounded in (True, False):
        chosen = [index for index, one in enumerate(bounded) if one == is_bounded]
        if not chosen:
            continue
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            grads = _gradients(reference, [points[index] for index in chosen], dtype)
        if is_bounded:
            wrong += [f"a warning: {one.message}" for one in seen]
        for place, index in enumerate(chosen):
            wrong += _judge(reference, points[index], [float(grad[place]) for grad in grads], exact[index], limits)
    return wrong


def _judge(
    reference: Reference, point: tuple[float, ...], grads: Sequence[float], exact: Sequence[Any], limits: Any
) -> Iterator[str]:
    more = 0.0 if reference.amplifies is None else float(abs(reference.amplifies(*map(mpf, point))))
    for number, (found, right) in enumerate(zip(grads, exact, strict=True)):
        if not _is_near(found, right, limits, reference.ulps + more):
            off = _in_last_place(found, right, limits)
            yield f"by argument {number} at {point}: {found!r} for {mpmath.nstr(right, 17)}{off}"


def check_second_derivatives(reference: Reference) -> list[str]:
    """Return in words which second derivatives of a function of one number, in float64, are not the exact ones.

    Points are left out where the derivative is so small or large, or near a zero of the second one, that the numbers
    on the way have no digits.
    """
    slope = reference.slopes[0]
    wrong = []
    for point in points_of(reference, np.float64, 1e-10, 1e10):
        first = _exact(slope, point)
        if not mpf("1e-250") < abs(first) < mpf("1e250"):
            continue
        try:
            exact = mpmath.diff(slope, mpf(point[0]), relative=True)
        except ZeroDivisionError:
            continue
        leaf = ag.tensor([point[0]], requires_grad=True)
        with np.errstate(all="ignore"):
            result = _call(reference, [leaf])
        (grad,) = ag.sync.grad(result, [leaf], create_graph=True)
        if not grad.requires_grad:
            found = 0.0
        else:
            (second,) = ag.sync.grad(grad, [leaf], materialize_grads=True)
            found = second.item()
        # As much as the rounding of the point itself changes it.
        least = _SECOND_RTOL * abs(first) * mpf("1e-8") / abs(mpf(point[0]))
        if not abs(mpf(found) - exact) <= _SECOND_RTOL * abs(exact) + least:
            wrong.append(f"at {point[0]}: {found!r} for {mpmath.nstr(exact, 17)}")
    return wrong
