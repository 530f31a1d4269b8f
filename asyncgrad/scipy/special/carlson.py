"""Carlson's symmetric elliptic integrals, and the integrals that their derivatives are.

Each is a multiple of an integral over t, from 0 on, of a product of powers of t + x, t + y ... Its derivative by x is
one, too, with another exponent at t + x.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.values import as_like, raw, zeros_like
from ...core.recording.primitive import Primitive, derivative, primitive
from ...errors import MissingDerivativeError
from ..ufuncs import special
from .rules import differentiable

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["elliprc", "elliprd", "elliprf", "elliprg", "elliprj", "power_integral"]

#: The logarithm of what is left out of an integral at each end.
_DROP = 38.0
#: The most elements of one block of nodes.
_BLOCK = 1 << 18


@primitive()
def power_integral(points: Any, powers: tuple[float, ...], power: float = 0.0) -> Array:
    """Return the integrals over t from 0 to infinity of t**power / product((t + points[i])**powers[i]).

    With t as an exponential the trapezoidal rule converges so fast that all digits of a double are right; all terms
    are positive where the points are.

    Args:
        points: an array whose first axis has an element for each exponent. The integral is infinite where the
            exponents of those that are 0 add up to power + 1 or more.
        powers: the exponents.
        power: the exponent of t.
    """
    points = points.astype(complex if points.dtype.kind == "c" else float)
    total = sum(powers) - power - 1
    lengths = np.abs(points)
    # With an infinite point the integral is 0.
    vanishes = np.any(np.isinf(lengths), 0)
    points, lengths = np.where(vanishes, 1.0, points), np.where(vanishes, 1.0, lengths)
    # The poles of the integrand lie by pi above the logarithms of the points: on a ray half-way between the outer ones
    # the nodes keep as far from them as possible.
    angles, is_zero = np.angle(points), lengths == 0
    low = np.minimum(np.min(np.where(is_zero, np.inf, angles), 0), math.pi)
    high = np.maximum(np.max(np.where(is_zero, -np.inf, angles), 0), -math.pi)
    ray, distance = (low + high) / 2, math.pi - (high - low) / 2
    step = np.clip(0.16 * distance, 0.02, 0.5)
    logarithms = np.log(np.where(is_zero, 1.0, lengths))
    smallest = np.minimum(np.min(np.where(is_zero, np.inf, logarithms), 0), 700.0)
    largest = np.maximum(np.max(np.where(is_zero, -np.inf, logarithms), 0), -700.0)
    # In units between both, no power leaves the range of numbers.
    middle = np.where(smallest <= largest, (smallest + largest) / 2, 0.0)
    exponents = as_like(np.reshape(powers, (-1, *[1] * ray.ndim)), points)
    growth = power + 1 - np.sum(np.where(is_zero, exponents, 0.0), 0)
    diverges = growth <= 0
    start = smallest - middle - _DROP / np.where(diverges, 1.0, growth)
    end = largest - middle + _DROP / total
    counts = np.where(np.isfinite(end - start) & ~diverges & ~vanishes, (end - start) / step, 1.0)
    direction = 1j * ray if points.dtype.kind == "c" else 0.0 * ray
    nodes = [np.ravel(one) for one in (start + direction, step, counts)]
    flat = (points / np.exp(middle)).reshape((len(powers), -1))
    result = _sum_over_nodes(flat, powers, power, *nodes).reshape(ray.shape) * step * np.exp(-total * middle)
    return np.where(vanishes, 0.0, np.where(diverges, np.inf, result))


@np.errstate(over="ignore", invalid="ignore")  # beyond the nodes of a column, which are left out
def _sum_over_nodes(points: Any, powers: tuple[float, ...], power: float, start: Any, step: Any, counts: Any) -> Any:
    """Return for each column of points the sum of the integrand over its nodes, of which each has its own number.

    Args:
        points: an array whose first axis has an element for each exponent.
        powers: as for `power_integral`.
        power: likewise.
        start: the logarithms of the first nodes.
        step: between the logarithms of two nodes.
        counts: how many steps there are.
    """
    result: Any = zeros_like(points, start.shape)
    first, active = 0, np.flatnonzero(counts >= 0)
    while active.size:
        here, ends = points[:, active], counts[active]
        last = min(int(np.max(ends)), first + max(1, _BLOCK // active.size))
        numbers = as_like(np.arange(first, last + 1, dtype=float)[:, np.newaxis], counts)
        logarithm = start[active] + step[active] * numbers
        t, exponent = np.exp(logarithm), (power + 1) * logarithm
        for point, one in zip(here, powers, strict=True):
            exponent = exponent - one * np.log(t + point)
        # Beyond its own nodes the sum of a column is complete.
        result[active] += np.sum(np.where(numbers <= ends, np.exp(exponent), 0.0), 0)
        first = last + 1
        active = active[ends >= first]
    return result


@derivative(power_integral, "points")
def _(g: Any, points: Array, powers: tuple[float, ...], power: float) -> Array:
    slopes = [
        -exponent * power_integral.call(points, (*powers[:index], exponent + 1, *powers[index + 1 :]), power)
        for index, exponent in enumerate(powers)
    ]
    return g * np.stack(slopes)


def _integral(points: tuple[Any, ...], powers: tuple[float, ...], power: float = 0.0) -> Any:
    return power_integral.call(np.stack(np.broadcast_arrays(*points)), powers, power)


def _by_first(x: Any, y: Any, z: Any) -> Any:
    """Return the derivative of R_F by its first argument: R_D is that, and known to SciPy."""
    return special.elliprd(y, z, x) / -6


elliprf: Primitive = differentiable(
    special.elliprf,
    "x y z",
    x=lambda g, x, y, z: g * _by_first(x, y, z),
    y=lambda g, x, y, z: g * _by_first(y, z, x),
    z=lambda g, x, y, z: g * _by_first(z, x, y),
)


#: Where both arguments of R_C are nearer to each other than this, relative, the closed forms of its derivatives cancel.
_NEAR = 0.25
#: Of the series that takes their place, in powers of 1 / 3 at most.
_TERMS = 36


def _degenerate_slope(x: Any, y: Any, *, by_first: bool) -> Any:
    """Return a derivative of R_C, or of its principal value for y < 0."""
    is_near = np.abs(raw(x) - raw(y)) < _NEAR * np.maximum(np.abs(raw(x)), np.abs(raw(y)))
    is_near = is_near | ~np.isfinite(raw(x) - raw(y))
    if np.all(is_near):
        return _near_degenerate_slope(x, y, by_first)
    # Numbers at which both are defined take the places of those at which the other is taken.
    far_x, far_y = np.where(is_near, 1.0, x), np.where(is_near, 2.0, y)
    value, gap = special.elliprc(far_x, far_y), 2 * (far_x - far_y)
    far = (1 / np.sqrt(far_x) - value) / gap if by_first else (value - np.sqrt(far_x) / far_y) / gap
    if not np.any(is_near):
        return far
    near = _near_degenerate_slope(np.where(is_near, x, 1.0), np.where(is_near, y, 1.0), by_first)
    return np.where(is_near, near, far)


def _near_degenerate_slope(x: Any, y: Any, by_first: bool) -> Any:
    """Return a derivative of R_C as a hypergeometric series in 1 - x / y."""
    # It is 0 where either is infinite.
    is_infinite = np.isinf(np.abs(raw(x)) + np.abs(raw(y)))
    if np.any(is_infinite):
        x, y = np.where(is_infinite, np.inf, x), np.where(is_infinite, np.inf, y)
        rest = np.where(is_infinite, 0.0, 1 - np.where(is_infinite, 1.0, x) / np.where(is_infinite, 1.0, y))
    else:
        rest = (y - x) / y
    other: float = 1.5 if by_first else 0.5
    series: Any = 1.0
    for k in range(_TERMS, 0, -1):
        series = 1 + series * (rest * ((k + 0.5) * (k - 1 + other) / (k * (k + 1.5))))
    return series / (y * np.sqrt(y) * (-6 if by_first else -3))


elliprc: Primitive = differentiable(
    special.elliprc,
    "x y",
    x=lambda g, x, y: g * _degenerate_slope(x, y, by_first=True),
    y=lambda g, x, y: g * _degenerate_slope(x, y, by_first=False),
)
elliprd: Primitive = differentiable(
    special.elliprd,
    "x y z",
    x=lambda g, x, y, z: g * (-0.75 * _integral((x, y, z), (1.5, 0.5, 1.5))),
    y=lambda g, x, y, z: g * (-0.75 * _integral((x, y, z), (0.5, 1.5, 1.5))),
    z=lambda g, x, y, z: g * (-2.25 * _integral((x, y, z), (0.5, 0.5, 2.5))),
)
elliprg: Primitive = differentiable(
    special.elliprg,
    "x y z",
    x=lambda g, x, y, z: g * (_integral((x, y, z), (1.5, 0.5, 0.5), 1.0) / 8),
    y=lambda g, x, y, z: g * (_integral((x, y, z), (0.5, 1.5, 0.5), 1.0) / 8),
    z=lambda g, x, y, z: g * (_integral((x, y, z), (0.5, 0.5, 1.5), 1.0) / 8),
)


def _third_kind_slope(points: tuple[Any, ...], powers: tuple[float, ...], factor: float) -> Any:
    principal = raw(points[3])
    if np.any((principal.real < 0) & (principal.imag == 0)):
        raise MissingDerivativeError(
            "scipy.special.elliprj has no derivative rule for p < 0, where it is a principal value: pass p > 0"
        )
    return factor * _integral(points, powers)


elliprj: Primitive = differentiable(
    special.elliprj,
    "x y z p",
    x=lambda g, x, y, z, p: g * _third_kind_slope((x, y, z, p), (1.5, 0.5, 0.5, 1.0), -0.75),
    y=lambda g, x, y, z, p: g * _third_kind_slope((x, y, z, p), (0.5, 1.5, 0.5, 1.0), -0.75),
    z=lambda g, x, y, z, p: g * _third_kind_slope((x, y, z, p), (0.5, 0.5, 1.5, 1.0), -0.75),
    p=lambda g, x, y, z, p: g * _third_kind_slope((x, y, z, p), (0.5, 0.5, 0.5, 2.0), -1.5),
)
