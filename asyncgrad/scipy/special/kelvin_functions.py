"""Kelvin's functions: the real and imaginary parts of Bessel functions of x * exp(3 * pi * i / 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.values import raw
from ...core.recording.primitive import RULES, Primitive, derivative, primitive
from ..ufuncs import special
from .rules import differentiable

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["bei", "beip", "ber", "berp", "kei", "keip", "kelvin", "ker", "kerp", "over"]


def over(slope: Any, x: Any, at_zero: complex) -> Any:
    """Return slope / x, with its limit at 0."""
    is_zero = raw(x) == 0
    if not np.any(is_zero):
        return slope / x
    return np.where(is_zero, at_zero, slope / np.where(is_zero, 1.0, x))


# Both ber + i * bei and ker + i * kei solve w'' + w' / x = i * w.

ber: Primitive = differentiable(special.ber, "x", x=lambda g, x: g * special.berp(x))
bei: Primitive = differentiable(special.bei, "x", x=lambda g, x: g * special.beip(x))
ker: Primitive = differentiable(special.ker, "x", x=lambda g, x: g * special.kerp(x))
kei: Primitive = differentiable(special.kei, "x", x=lambda g, x: g * special.keip(x))
berp: Primitive = differentiable(special.berp, "x", x=lambda g, x, out: -g * (special.bei(x) + over(out, x, 0.0)))
beip: Primitive = differentiable(special.beip, "x", x=lambda g, x, out: g * (special.ber(x) - over(out, x, 0.5)))
kerp: Primitive = differentiable(special.kerp, "x", x=lambda g, x, out: -g * (special.kei(x) + over(out, x, -np.inf)))
keip: Primitive = differentiable(special.keip, "x", x=lambda g, x, out: g * (special.ker(x) - over(out, x, -np.inf)))


@primitive()
def kelvin_(x: Any, index: int) -> Any:
    """Return one of the four results of SciPy's kelvin: ber + i * bei, ker + i * kei, and their derivatives."""
    return special.kelvin(x)[index]


@derivative(kelvin_, "x")
def _(g: Any, x: Array, index: int, out: Array) -> Array:
    if index < 2:
        return g * kelvin_(x, index + 2)
    return g * (1j * kelvin_(x, index - 2) - over(out, x, 0.5j if index == 2 else -np.inf))


def kelvin(x: Any, /) -> tuple[Any, Any, Any, Any]:
    """Return ber + i * bei, ker + i * kei, and the derivatives of both."""
    return kelvin_(x, 0), kelvin_(x, 1), kelvin_(x, 2), kelvin_(x, 3)


RULES[special.kelvin] = kelvin
