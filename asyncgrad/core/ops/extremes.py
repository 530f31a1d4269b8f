"""Extremes, absolute values, signs and choices: functions with kinks, where they have PyTorch's subgradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import InPlaceError
from ..arrays.axes import array_like
from ..arrays.device_arrays import clipped
from ..arrays.values import as_like, is_device_array, raw
from ..recording.kernels import FusedFormula, kernel
from ..recording.primitive import PRIMITIVES, RULES, Primitive, derivative, differentiable, primitive
from .dispatch import write
from .nondifferentiable import NonDifferentiable, nonzero

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..arrays.array import Array


__all__ = [
    "absolute",
    "clip",
    "clip_",
    "fabs",
    "fmax",
    "fmin",
    "maximum",
    "minimum",
    "nan_to_num",
    "sign",
    "where",
    "where_",
]

_NO_VALUE: Any = np._NoValue


# The sign of a real number is constant between its steps; the sign of a complex one, z / abs(z), turns with z.

_real_sign = NonDifferentiable(np.sign)


@primitive()
def complex_sign(x: Any) -> Array:
    """Return x / abs(x), and 0 where x is 0."""
    return np.sign(x)


@derivative(complex_sign, "x")
def _(g: Any, x: Array, out: Any) -> Array:
    # Only a move of x around 0 changes its sign. At 0 the result is 0, and so is the gradient.
    size = np.absolute(x)
    turn = np.imag(out * g) / np.where(size == 0, 1.0, size)
    return np.conjugate(out) * (turn * 1j)


def sign(x: Any, /) -> Any:
    """Return -1, 0 or 1, without history; for complex numbers x / abs(x), and 0 where x is 0."""
    x = array_like(x)
    return complex_sign(x) if x.dtype.kind == "c" else _real_sign(x)


RULES[np.sign] = sign

absolute: Primitive = differentiable(np.absolute, "x", x=lambda g, x: g * np.sign(x))
fabs: Primitive = differentiable(np.fabs, "x", x=lambda g, x: g * np.sign(x))


# maximum and minimum: where the two are equal each gets half, where one is nan both get all.


def unless_less(g: Any, x: Any, y: Any) -> Any:
    """Return g where x is the larger, half of it where x equals y, 0 where x is the smaller."""
    return np.where(x == y, g * 0.5, np.where(x < y, 0.0, g))


maximum: Primitive = differentiable(
    np.maximum, "x y", x=lambda g, x, y: unless_less(g, x, y), y=lambda g, x, y: unless_less(g, y, x)
)
minimum: Primitive = differentiable(
    np.minimum, "x y", x=lambda g, x, y: unless_less(g, y, x), y=lambda g, x, y: unless_less(g, x, y)
)

# fmax and fmin: the first gets all where the two are equal, and where the second is nan.

fmax: Primitive = differentiable(
    np.fmax,
    "x y",
    x=lambda g, x, y: np.where(np.logical_or(x >= y, y != y), g, 0.0),
    y=lambda g, x, y: np.where(np.logical_or(x >= y, y != y), 0.0, g),
)
fmin: Primitive = differentiable(
    np.fmin,
    "x y",
    x=lambda g, x, y: np.where(np.logical_or(x <= y, y != y), g, 0.0),
    y=lambda g, x, y: np.where(np.logical_or(x <= y, y != y), 0.0, g),
)


# clip: the gradient goes to the bound that applies, and to `a` between the bounds and at them.


def _clip_of(a: Any, low: Any, high: Any, dtype: npt.DTypeLike | None = None) -> Any:
    above = a if low is None else np.maximum(a, low)
    return above if high is None else np.minimum(above, high)


@primitive()
@kernel(expression=_clip_of)
def clip_(a: Any, low: Any, high: Any, dtype: npt.DTypeLike | None = None) -> Any:
    """Return `a` kept between two bounds, either of which may be None."""
    if a.__class__ is not np.ndarray and is_device_array(a):
        return clipped(a, low, high, dtype)
    return np.clip(a, low, high, dtype=dtype)


@derivative(clip_, "a")
def _(g: Array, a: Any, low: Any, high: Any) -> Array:
    if low is None:
        return g if high is None else np.where(a <= high, g, 0.0)
    if high is None:
        return np.where(a >= low, g, 0.0)
    return np.where(np.logical_and(a >= low, a <= high), g, 0.0)


@derivative(clip_, "low")
def _(g: Array, a: Any, low: Any, high: Any) -> Array:
    below = a < low
    return np.where(below if high is None else np.logical_and(below, low < high), g, 0.0)


@derivative(clip_, "high")
def _(g: Array, a: Any, low: Any, high: Any) -> Array:
    above = a > high
    return np.where(above if low is None else np.logical_or(above, high < low), g, 0.0)


def clip(
    a: Any,
    a_min: Any = _NO_VALUE,
    a_max: Any = _NO_VALUE,
    out: Any = None,
    *,
    min: Any = _NO_VALUE,
    max: Any = _NO_VALUE,
    dtype: npt.DTypeLike | None = None,
    where: Any = True,
    **kwargs: Any,
) -> Any:
    """Return `a` kept between two bounds, given by position or as `min` and `max`."""
    if kwargs:
        raise TypeError(f"numpy.clip on a Tensor does not take {', '.join(kwargs)}")
    if where is not True and out is None:
        raise TypeError("numpy.clip with where= leaves the rest undefined: pass out= as well")
    if (a_min is _NO_VALUE) != (a_max is _NO_VALUE):
        raise TypeError(
            "numpy.clip takes both a_min and a_max, of which either may be None: for one, write min= or max="
        )
    if a_min is _NO_VALUE:
        a_min, a_max = (None if bound is _NO_VALUE else bound for bound in (min, max))
    elif min is not _NO_VALUE or max is not _NO_VALUE:
        raise ValueError("numpy.clip takes a bound by position or as min= and max=, not both ways")
    result = clip_(a, a_min, a_max, dtype)
    return result if out is None else write(out, result)


RULES[np.clip] = clip


# where.


@primitive()
def where_(condition: Any, x: Any, y: Any) -> Array:
    """Return x where the condition holds and y elsewhere."""
    return np.where(condition, x, y)


@derivative(where_, "condition")
def _(g: Array) -> None:
    """Give no gradient; the formula is there so that the condition may be a Tensor."""


@derivative(where_, "x")
def _(g: Array, condition: Any) -> Array:
    return np.where(condition, g, 0.0)


@derivative(where_, "y")
def _(g: Array, condition: Any) -> Array:
    return np.where(condition, 0.0, g)


def where(condition: Any, *choices: Any) -> Any:
    """Return x where the condition holds and y elsewhere; with the condition alone, where it holds."""
    if not choices:
        return nonzero(condition)
    if condition.__class__ in (bool, list, tuple):
        # CuPy takes none of these.
        for one in choices:
            condition = as_like(condition, raw(one))
    return where_(condition, *choices)


RULES[np.where] = where
PRIMITIVES[np.where] = where_


def _replaced(x: Any, nan: float, posinf: float, neginf: float) -> Any:
    # Of x and a number each, since of two numbers NumPy makes a float64.
    infinite = np.where(x > 0, posinf, np.where(x < 0, neginf, x))
    return np.where(np.isnan(x), nan, np.where(np.isfinite(x), x, infinite))


_fused_replaced = FusedFormula(_replaced)


def _nan_to_num_on_device(x: Array, copy: bool, nan: Any, posinf: Any, neginf: Any) -> Any:
    if not copy or x.dtype.kind != "f" or not all(isinstance(one, _NUMBER_OR_NONE) for one in (nan, posinf, neginf)):
        return nan_to_num.function(x, copy, nan, posinf, neginf)
    limits = np.finfo(x.dtype)
    above, below = (limits.max if posinf is None else posinf), (limits.min if neginf is None else neginf)
    return _fused_replaced(x, float(nan), float(above), float(below))


#: A number that replaces what is not finite, or None.
_NUMBER_OR_NONE = (int, float, type(None))


@primitive(np.nan_to_num)
@kernel(variant=_nan_to_num_on_device)
def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Array:
    """Return x with its nans and infinities replaced."""
    if not copy:
        raise InPlaceError("numpy.nan_to_num(t, copy=False) would write into a tensor: leave copy=False out")
    return np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)


@derivative(nan_to_num, "x")
def _(g: Array, x: Array) -> Array:
    if x.dtype.kind != "c":
        return np.where(np.isfinite(x), g, 0.0)
    # The real and the imaginary part are replaced one by one, and so are their gradients.
    return np.where(np.isfinite(np.real(x)), np.real(g), 0.0) + np.where(np.isfinite(np.imag(x)), np.imag(g), 0.0) * 1j
