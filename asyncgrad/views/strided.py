"""The part of an array that lies where a view lies in its base: taken, put into zeros, and replaced.

Each is differentiated by the other two.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..graph.tensor_base import TensorBase
from ..graph.values import raw, zeros_beside
from ..ops.primitive import derivative, primitive
from .geometry import Place, Slice, ViewReplay

__all__ = ["as_strided_", "part_at", "put_at", "replace_at"]


def conjugate_of_real(g: Any, place: Place) -> Any:
    """Return `g`, conjugated where a real view of it is taken: what undoes that the wrapper of a primitive does so."""
    return g if place.view.dtype.kind == "c" or place.base.dtype.kind != "c" else np.conjugate(g)


@primitive()
def as_strided_(a: Any, place: Slice) -> Any:
    """Return the view that lies at a place in an array like the base; a copy where `a` is laid out otherwise."""
    return place.read(a)


@primitive()
def put_strided_(g: Any, place: Slice) -> Any:
    """Return zeros like the base with `g` added where the view lies."""
    return place.scatter(g)


@primitive()
def replace_part_(a: Any, value: Any, place: Place) -> Any:
    """Return a copy of `a` with another value where the view lies."""
    return place.replaced(a, value)


@derivative(as_strided_, "a")
def _(g: Any, place: Slice) -> Any:
    return put_at(g, place)


@derivative(put_strided_, "g")
def _(h: Any, place: Slice) -> Any:
    return part_at(conjugate_of_real(h, place), place)


@derivative(replace_part_, "a")
def _(h: Any, place: Place) -> Any:
    return replace_at(h, zeros_beside((), raw(h), place.view.dtype), place)


@derivative(replace_part_, "value")
def _(h: Any, place: Place) -> Any:
    return part_at(conjugate_of_real(h, place), place)


put_at, replace_at = put_strided_.call, replace_part_.call


def part_at(a: Any, place: Place) -> Any:
    """Return the view that lies at a place in an array like the base, tensor or not."""
    return (
        as_strided_.call(a, place) if isinstance(a, TensorBase) and not isinstance(place, ViewReplay) else place.read(a)
    )
