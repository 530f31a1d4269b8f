"""Families by where they are, and functions whose derivatives have limits at an end of the support."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.values import raw
from ...core.recording.primitive import derivative, primitive
from .continuous_distribution import ContinuousDistribution

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = [
    "OnLine",
    "Positive",
    "bounded",
    "bounded_exp",
    "log1p_power",
    "logarithm_over",
    "not_below_numbers",
    "one_minus_exp_",
    "smooth_size",
]

#: Of the series of log1p.
_TERMS = 24


class OnLine(ContinuousDistribution):
    """Abstract: a family whose support is the real line."""

    __slots__ = ()

    _inner = 0.0

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return -np.inf, np.inf


class Positive(ContinuousDistribution):
    """Abstract: a family whose support is the positive numbers."""

    __slots__ = ()

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return 0.0, np.inf


@primitive()
def one_minus_exp_(x: Any) -> Array:
    """Return 1 - exp(-x); its derivative does not underflow before exp(-x) does, as that of np.expm1 does."""
    return -np.expm1(-x)


@derivative(one_minus_exp_, "x")
def _(g: Any, x: Any) -> Array:
    return g * np.exp(-x)


def bounded_exp(y: Any) -> Any:
    """Return exp(y), bounded where it would overflow, so that what it underflows to has no gradient of nan."""
    return np.exp(np.minimum(y, 700.0)) if np.any(raw(y) > 700) else np.exp(y)


def bounded(y: Any) -> Any:
    """Return numbers, and instead of infinite ones great ones, of which functions are no differences of infinities."""
    bare = raw(y)
    is_infinite = np.isinf(bare)
    return np.where(is_infinite, np.sign(bare) * _greatest(bare) / 1e3, y) if np.any(is_infinite) else y


def _greatest(bare: Any) -> Any:
    return np.finfo(bare.dtype).max


def not_below_numbers(logarithm: Any) -> Any:
    """Return the logarithm of a density, -inf where it would be but for the bound of `bounded_exp`."""
    bare = raw(logarithm)
    is_below = bare < -_greatest(bare) / 1e8
    return np.where(is_below, -np.inf, logarithm) if np.any(is_below) else logarithm


def log1p_power(y: Any, exponent: Any) -> Any:
    """Return log1p(y**exponent) of positive numbers, where the power overflows, too."""
    with np.errstate(divide="ignore"):
        # Of 0, where the power may be one all the same.
        is_large = raw(exponent) * np.log(raw(y)) > 700
    if not np.any(is_large):
        return np.log1p(y**exponent)
    small = np.where(is_large, 1.0, y)
    return np.where(is_large, exponent * np.log(np.where(is_large, y, 1.0)), np.log1p(small**exponent))


def smooth_size(y: Any) -> Any:
    """Return the absolute value, with the slope 1 at 0: for functions of it that are smooth there, as it is not."""
    return np.where(raw(y) < 0, -y, y)


def logarithm_over(c: Any, y: Any) -> Any:
    """Return log1p(c * y) / c, and y where c is 0, differentiable by both there, too."""
    product = c * y
    is_small = np.abs(raw(product)) < 0.2
    small = np.where(is_small, product, 0.0)
    series: Any = 0.0
    for power in range(_TERMS, -1, -1):
        series = series * -small + 1 / (power + 1)
    large = np.where(is_small, 1.0, product)
    return y * np.where(is_small, series, np.log1p(large) / large)
