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
    # The poles of the integrand lie by pi above the logarithms of the points: on a ray half-way between the outer ones
    # the nodes keep as far from them as possible.
    angles, lengths = np.angle(points), np.abs(points)
    is_zero = lengths == 0
    low = np.minimum(np.min(np.where(is_zero, np.inf, angles), 0), math.pi)
    high = np.maximum(np.max(np.where(is_zero, -np.inf, angles), 0), -math.pi)
    ray, distance = (low + high) / 2, math.pi - (high - low) / 2
    step = np.clip(0.16 * distance, 0.02, 0.5)
    logarithms = np.log(np.where(is_zero, 1.0, lengths))
    start = np.minimum(np.min(np.where(is_zero, np.inf, logarithms), 0), 700.0)
    exponents = as_like(np.reshape(powers, (-1, *[1] * ray.ndim)), points)
    growth = power + 1 - np.sum(np.where(is_zero, exponents, 0.0), 0)
    diverges = growth <= 0
    start = start - _DROP / np.where(diverges, 1.0, growth)
    end = np.maximum(np.max(np.where(is_zero, -np.inf, logarithms), 0), -700.0) + _DROP / total
    counts = np.where(np.isfinite(end - start), (end - start) / step, 1.0)
    count = int(max(np.max(counts), 1.0)) + 1 if counts.size else 2
    direction = np.exp(1j * ray) if points.dtype.kind == "c" else 1.0
    result: Any = zeros_like(points, ray.shape)
    block = max(1, _BLOCK // max(1, ray.size))
    for first in range(0, count, block):
        numbers = as_like(np.arange(first, min(count, first + block)).reshape(-1, *[1] * ray.ndim), points)
        t = np.exp(start + step * numbers) * direction
        product = t ** (power + 1)
        for point, exponent in zip(points, powers, strict=True):
            product = product / (t + point) ** exponent
        result = result + np.sum(product, 0)
    return np.where(diverges, np.inf, result * step)


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


def _degenerate_slopes(x: Any, y: Any) -> Any:
    """Return the derivatives of R_C by both arguments."""
    is_principal = (raw(y).real < 0) & (raw(y).imag == 0)
    safe = np.where(is_principal, 1.0, y)
    by_x, by_y = _integral((x, safe), (1.5, 1.0)) / -4, _integral((x, safe), (0.5, 2.0)) / -2
    if not np.any(is_principal):
        return by_x, by_y
    # Of Cauchy's principal value; x and y are far from each other.
    gap, value = 2 * (x - y), special.elliprc(x, y)
    return (
        np.where(is_principal, (1 / np.sqrt(x) - value) / gap, by_x),
        np.where(is_principal, (value - np.sqrt(x) / y) / gap, by_y),
    )


elliprc: Primitive = differentiable(
    special.elliprc,
    "x y",
    x=lambda g, x, y: g * _degenerate_slopes(x, y)[0],
    y=lambda g, x, y: g * _degenerate_slopes(x, y)[1],
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
