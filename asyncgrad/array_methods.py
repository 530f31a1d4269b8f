"""NumPy's operators, attributes and methods, as a Tensor has them: each calls NumPy's function of that name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .graph.tracked import Tracked
from .ops.arithmetic import add, divide, multiply, negative, power, subtract

_add, _multiply = add.call, multiply.call


class ArrayMethods(Tracked):
    """Abstract base of Tensor: what it has in common with an ndarray."""

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        return self._data.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype of the elements."""
        return self._data.dtype

    @property
    def ndim(self):
        return self._data.ndim

    def __add__(self, other: Any) -> Any:
        return _add(self, other)

    def __radd__(self, other: Any) -> Any:
        return add(other, self)
    def __mul__(self, other: Any) -> Any:
        return _multiply(self, other)
    def copy(self):
        return self
