"""Functions of sparse arrays that are 0 at 0, and so are computed for the elements alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["Elementwise"]


class Elementwise(ABC):
    """The abstract base of sparse arrays, with methods that take a function of each element."""

    __slots__ = ()

    @abstractmethod
    def _elementwise(self, function: Callable[[Any], Any]) -> Any:
        """Return the array of a function of each element."""

    def __abs__(self) -> Any:
        return self._elementwise(np.abs)

    def sqrt(self) -> Any:
        """Return the array of the square roots of the elements."""
        return self._elementwise(np.sqrt)

    def sin(self) -> Any:
        """Return the array of the sines of the elements."""
        return self._elementwise(np.sin)

    def tan(self) -> Any:
        """Return the array of the tangents of the elements."""
        return self._elementwise(np.tan)

    def arcsin(self) -> Any:
        """Return the array of the inverse sines of the elements."""
        return self._elementwise(np.arcsin)

    def arctan(self) -> Any:
        """Return the array of the inverse tangents of the elements."""
        return self._elementwise(np.arctan)

    def sinh(self) -> Any:
        """Return the array of the hyperbolic sines of the elements."""
        return self._elementwise(np.sinh)

    def tanh(self) -> Any:
        """Return the array of the hyperbolic tangents of the elements."""
        return self._elementwise(np.tanh)

    def arcsinh(self) -> Any:
        """Return the array of the inverse hyperbolic sines of the elements."""
        return self._elementwise(np.arcsinh)

    def arctanh(self) -> Any:
        """Return the array of the inverse hyperbolic tangents of the elements."""
        return self._elementwise(np.arctanh)

    def expm1(self) -> Any:
        """Return the array of the exponentials less 1 of the elements."""
        return self._elementwise(np.expm1)

    def log1p(self) -> Any:
        """Return the array of the logarithms of 1 plus the elements."""
        return self._elementwise(np.log1p)

    def rint(self) -> Any:
        """Return the array of the nearest whole numbers of the elements."""
        return self._elementwise(np.rint)

    def sign(self) -> Any:
        """Return the array of the signs of the elements."""
        return self._elementwise(np.sign)

    def floor(self) -> Any:
        """Return the array of the whole numbers just below the elements."""
        return self._elementwise(np.floor)

    def ceil(self) -> Any:
        """Return the array of the whole numbers just above the elements."""
        return self._elementwise(np.ceil)

    def trunc(self) -> Any:
        """Return the array of the elements without their fractions."""
        return self._elementwise(np.trunc)

    def deg2rad(self) -> Any:
        """Return the array of the elements in radians."""
        return self._elementwise(np.deg2rad)

    def rad2deg(self) -> Any:
        """Return the array of the elements in degrees."""
        return self._elementwise(np.rad2deg)
