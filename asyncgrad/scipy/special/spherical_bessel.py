"""Spherical Bessel functions, and their derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.axes import array_like
from ...core.arrays.values import raw
from ...core.recording.primitive import derivative, primitive
from ...errors import ArgumentTypeError
from ..arguments import floating
from ..ufuncs import special

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["spherical_in", "spherical_jn", "spherical_kn", "spherical_yn"]

_FUNCTIONS: dict[str, tuple[Callable[..., Any], int, int]] = {
    # With the signs in (2 * n + 1) * f_n' = below * n * f_(n - 1) + above * (n + 1) * f_(n + 1).
    "spherical_jn": (special.spherical_jn, 1, -1),
    "spherical_yn": (special.spherical_yn, 1, -1),
    "spherical_in": (special.spherical_in, 1, 1),
    "spherical_kn": (special.spherical_kn, -1, -1),
}


@primitive()
def spherical(z: Any, n: Any, name: str, is_derivative: bool) -> Any:
    """Return a spherical Bessel function, or its derivative by z."""
    return _FUNCTIONS[name][0](n, z, derivative=is_derivative)


@derivative(spherical, "z")
def _(g: Any, z: Array, n: Any, name: str, is_derivative: bool) -> Array:
    if not is_derivative:
        return g * spherical(z, n, name, True)
    _, below, above = _FUNCTIONS[name]
    # Of order 0 that below has no part.
    lower = np.where(n == 0, 0.0, spherical(z, np.maximum(n - 1, 0), name, True))
    return g * ((below * n * lower + above * (n + 1) * spherical(z, n + 1, name, True)) / (2 * n + 1))


def _call(name: str, n: Any, z: Any, is_derivative: bool) -> Any:
    orders = np.asarray(raw(array_like(n)))
    if orders.dtype.kind not in "iu" and np.any(orders != np.floor(orders)):
        raise ArgumentTypeError(f"scipy.special.{name} takes whole numbers n, not {n!r}")
    return spherical(floating(z), orders.astype(np.dtype("long")), name, bool(is_derivative))


def spherical_jn(n: Any, z: Any, derivative: bool = False) -> Any:
    """Return the spherical Bessel function of the first kind, or its derivative.

    Args:
        n: whole numbers, at least 0; there is no derivative by them.
        z: real or complex numbers; they are broadcast.
        derivative: whether to return the derivative by z.

    Source: scipy.special.spherical_jn.

    Example:
        >>> from asyncgrad.scipy import special
        >>> special.spherical_jn(0, 2.0).item()
        0.454649
    """
    return _call("spherical_jn", n, z, derivative)


def spherical_yn(n: Any, z: Any, derivative: bool = False) -> Any:
    """Return the spherical Bessel function of the second kind, or its derivative; arguments as of `spherical_jn`."""
    return _call("spherical_yn", n, z, derivative)


def spherical_in(n: Any, z: Any, derivative: bool = False) -> Any:
    """Return the modified spherical Bessel function of the first kind; arguments as of `spherical_jn`."""
    return _call("spherical_in", n, z, derivative)


def spherical_kn(n: Any, z: Any, derivative: bool = False) -> Any:
    """Return the modified spherical Bessel function of the second kind; arguments as of `spherical_jn`."""
    return _call("spherical_kn", n, z, derivative)
