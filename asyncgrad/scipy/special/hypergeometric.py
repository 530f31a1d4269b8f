"""Hypergeometric functions.

Their derivatives by the argument are hypergeometric functions with other parameters. Those by the parameters are sums
of series, brought to an argument of which all terms have one sign where there is one; where the terms cancel, the
backward raises an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from ...graph.values import raw
from ...ops.primitive import differentiable
from .hypergeometric_series import series
from .tricomi import tricomi, tricomi_by_parameter

__all__ = ["confluent_by", "gauss_by", "hyp0f1", "hyp1f1", "hyp2f1", "hyperu"]

hyp0f1 = differentiable(
    special.hyp0f1,
    "v z",
    v=lambda g, v, z: g * series((), (v,), z, "hyp0f1", 0),
    z=lambda g, v, z: g * (special.hyp0f1(v + 1, z) / v),
)


# By Kummer's transformation hyp1f1(a, b, z) is exp(z) * hyp1f1(b - a, b, -z), whose terms have one sign for z < 0.


def _confluent(a: Any, b: Any, z: Any, *by: int) -> Any:
    return series((a,), (b,), z, "hyp1f1", *by)


def _is_left(z: Any) -> Any:
    return raw(z).real < 0


def confluent_by(a: Any, b: Any, z: Any, parameter: int) -> Any:
    """Return the derivative of hyp1f1 by a parameter: 0 is a, 1 is b."""
    left = _is_left(z)
    if not np.any(left):
        return _confluent(a, b, z, parameter)
    mirrored = np.where(left, z, 0.0)
    slope = _confluent(b - a, b, -mirrored, 0)
    slope = slope + _confluent(b - a, b, -mirrored, 1) if parameter else -slope
    result = np.exp(mirrored) * slope
    return result if np.all(left) else np.where(left, result, _confluent(a, b, np.where(left, 0.0, z), parameter))


hyp1f1 = differentiable(
    special.hyp1f1,
    "a b x",
    a=lambda g, a, b, x: g * confluent_by(a, b, x, 0),
    b=lambda g, a, b, x: g * confluent_by(a, b, x, 1),
    x=lambda g, a, b, x: g * (a / b * special.hyp1f1(a + 1, b + 1, x)),
)

hyperu = differentiable(
    special.hyperu,
    "a b x",
    a=lambda g, a, b, x: g * tricomi_by_parameter(a, b, x, by_second=False),
    b=lambda g, a, b, x: g * tricomi_by_parameter(a, b, x, by_second=True),
    x=lambda g, a, b, x: -g * (a * tricomi(a + 1, b + 1, x)),
)


# By Pfaff's transformation hyp2f1(a, b, c, z) is (1 - z)**-a * hyp2f1(a, c - b, c, z / (z - 1)).


def _gauss(a: Any, b: Any, c: Any, z: Any, *by: int) -> Any:
    return series((a, b), (c,), z, "hyp2f1", *by)


def gauss_by(a: Any, b: Any, c: Any, z: Any, parameter: int) -> Any:
    """Return the derivative of hyp2f1 by a parameter: 0 is a, 1 is b, and 2 is c."""
    left = _is_left(z)
    if not np.any(left):
        return _gauss(a, b, c, z, parameter)
    safe = np.where(left, z, 0.0)
    moved, scale = safe / (safe - 1), (1 - safe) ** -a
    if parameter == 0:
        logarithm = np.log1p(-safe) if raw(z).dtype.kind != "c" else np.log(1 - safe)
        slope = _gauss(a, c - b, c, moved, 0) - logarithm * _gauss(a, c - b, c, moved)
    elif parameter == 1:
        slope = -_gauss(a, c - b, c, moved, 1)
    else:
        slope = _gauss(a, c - b, c, moved, 1) + _gauss(a, c - b, c, moved, 2)
    result = scale * slope
    if np.all(left):
        return result
    return np.where(left, result, _gauss(a, b, c, np.where(left, 0.0, z), parameter))


hyp2f1 = differentiable(
    special.hyp2f1,
    "a b c z",
    a=lambda g, a, b, c, z: g * gauss_by(a, b, c, z, 0),
    b=lambda g, a, b, c, z: g * gauss_by(a, b, c, z, 1),
    c=lambda g, a, b, c, z: g * gauss_by(a, b, c, z, 2),
    z=lambda g, a, b, c, z: g * (a * b / c * special.hyp2f1(a + 1, b + 1, c + 1, z)),
)
