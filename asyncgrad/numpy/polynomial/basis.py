"""What tells one basis of polynomials from another: the recurrence of three terms, and NumPy's own functions.

A basis has p(0) = 1 and p(k + 1) = (slope * x + shift) * p(k) - back * p(k - 1), with numbers that depend on k. What is
linear in the coefficients, as a derivative, is a matrix, whose columns NumPy computes.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any, final

import numpy as np

__all__ = ["BASES", "Basis"]

#: Takes the degree k and returns slope, shift and back.
Recurrence = Callable[[int], tuple[float, float, float]]


@final
class Basis:
    """A basis of polynomials.

    Args:
        module: NumPy's.
        prefix: what the names of its functions begin with.
        recurrence: of its polynomials.
    """

    __slots__ = ("module", "prefix", "recurrence")

    def __init__(self, module: types.ModuleType, prefix: str, recurrence: Recurrence) -> None:
        self.module: types.ModuleType = module
        self.prefix: str = prefix
        self.recurrence: Recurrence = recurrence

    def numpys(self, name: str) -> Callable[..., Any]:
        """Return NumPy's function of a name without the prefix."""
        found: Callable[..., Any] = getattr(self.module, self.prefix + name)
        return found

    def derivative(self, count: int) -> Any:
        """Return the matrix of the derivative of a series of `count` coefficients."""
        return _matrix(self.numpys("der"), count)

    def integral(self, count: int) -> Any:
        """Return the matrix of the integral from 0 of a series of `count` coefficients."""
        return _matrix(self.numpys("int"), count)

    def to_powers(self, count: int) -> Any:
        """Return the matrix that makes a power series of a series of `count` coefficients."""
        return _columns(getattr(self.module, f"{self.prefix}2poly"), count)

    def from_powers(self, count: int) -> Any:
        """Return the matrix that makes a series of a power series of `count` coefficients."""
        return _columns(getattr(self.module, f"poly2{self.prefix}"), count)

    def times_x(self, count: int) -> Any:
        """Return the matrix of the product with x of a series of `count` coefficients."""
        found = np.zeros((count + 1, count))
        for k in range(count):
            slope, shift, back = self.recurrence(k)
            found[k + 1, k] = 1 / slope
            found[k, k] = -shift / slope
            if k:
                found[k - 1, k] = back / slope
        return found


@functools.lru_cache(maxsize=256)
def _matrix(function: Callable[..., Any], count: int) -> Any:
    found = function(np.eye(count))
    found.flags.writeable = False
    return found


@functools.lru_cache(maxsize=256)
def _columns(function: Callable[..., Any], count: int) -> Any:
    found = np.zeros((count, count))
    for place, row in enumerate(np.eye(count)):
        column = function(row)
        found[: len(column), place] = column
    found.flags.writeable = False
    return found


#: By the name of NumPy's module.
BASES = {
    "polynomial": Basis(np.polynomial.polynomial, "poly", lambda k: (1.0, 0.0, 0.0)),
    "chebyshev": Basis(np.polynomial.chebyshev, "cheb", lambda k: (2.0 if k else 1.0, 0.0, 1.0)),
    "legendre": Basis(np.polynomial.legendre, "leg", lambda k: ((2 * k + 1) / (k + 1), 0.0, k / (k + 1))),
    "hermite": Basis(np.polynomial.hermite, "herm", lambda k: (2.0, 0.0, 2.0 * k)),
    "hermite_e": Basis(np.polynomial.hermite_e, "herme", lambda k: (1.0, 0.0, float(k))),
    "laguerre": Basis(np.polynomial.laguerre, "lag", lambda k: (-1 / (k + 1), (2 * k + 1) / (k + 1), k / (k + 1))),
}
