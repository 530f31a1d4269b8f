"""The primitives on the part of an array at a view's location: read it, put it into zeros, and replace it.

The derivatives of each are made of the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays.tensor_base import TensorBase
from ..arrays.values import raw, zeros_like
from ..recording.primitive import derivative, primitive
from .geometry import Slice, ViewLocation, ViewReplay

__all__ = ["as_strided_", "part_at", "put_at", "replace_at"]


def conjugate_of_real(g: Any, location: ViewLocation) -> Any:
    """Return `g`, conjugated if the view is real and the base complex.

    This cancels the conjugation by the wrapper of the primitive.
    """
    return g if location.view.dtype.kind == "c" or location.base.dtype.kind != "c" else np.conjugate(g)


@primitive()
def as_strided_(a: Any, location: Slice) -> Any:
    """Return the view at a location in `a`, an array like the base; a copy if `a` has another memory layout."""
    return location.read(a)


@primitive()
def put_strided_(g: Any, location: Slice) -> Any:
    """Return zeros like the base, with `g` added in the view."""
    return location.scatter(g)


@primitive()
def replace_part_(a: Any, value: Any, location: ViewLocation) -> Any:
    """Return a copy of `a` with `value` in the view."""
    return location.replace_part(a, value)


@derivative(as_strided_, "a")
def _(g: Any, location: Slice) -> Any:
    return put_at(g, location)


@derivative(put_strided_, "g")
def _(h: Any, location: Slice) -> Any:
    return part_at(conjugate_of_real(h, location), location)


@derivative(replace_part_, "a")
def _(h: Any, location: ViewLocation) -> Any:
    return replace_at(h, zeros_like(raw(h), (), location.view.dtype), location)


@derivative(replace_part_, "value")
def _(h: Any, location: ViewLocation) -> Any:
    return part_at(conjugate_of_real(h, location), location)


put_at, replace_at = put_strided_.call, replace_part_.call


def part_at(a: Any, location: ViewLocation) -> Any:
    """Return the view at a location in `a`, an array or a tensor like the base."""
    return (
        as_strided_.call(a, location)
        if isinstance(a, TensorBase) and not isinstance(location, ViewReplay)
        else location.read(a)
    )
