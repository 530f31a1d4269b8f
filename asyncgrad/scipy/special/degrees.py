"""Functions of angles in degrees."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.recording.primitive import Primitive
from ..ufuncs import special
from .rules import differentiable

__all__ = ["cosdg", "cotdg", "radian", "sindg", "tandg"]

_DEGREE = math.pi / 180

sindg: Primitive = differentiable(special.sindg, "x", x=lambda g, x: g * (_DEGREE * special.cosdg(x)))
cosdg: Primitive = differentiable(special.cosdg, "x", x=lambda g, x: g * (-_DEGREE * special.sindg(x)))
tandg: Primitive = differentiable(special.tandg, "x", x=lambda g, out: g * (_DEGREE * _one_and_square(out)))
cotdg: Primitive = differentiable(special.cotdg, "x", x=lambda g, out: g * (-_DEGREE * _one_and_square(out)))


def _one_and_square(value: Any) -> Any:
    return 1 + np.square(value)


# Degrees, minutes and seconds.
radian: Primitive = differentiable(
    special.radian,
    "d m s",
    d=lambda g: g * _DEGREE,
    m=lambda g: g * (_DEGREE / 60),
    s=lambda g: g * (_DEGREE / 3600),
)
