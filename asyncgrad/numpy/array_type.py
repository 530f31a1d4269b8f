"""The type of the arrays of the namespace, for `isinstance`."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from ..core.tensor import Tensor, asarray

__all__ = ["ndarray"]


@final
class _ArrayType(type):
    """The type of `ndarray`, whose instances are those of two classes."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, (Tensor, np.ndarray))

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, (Tensor, np.ndarray)) or subclass is cls

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Return a Tensor of an array that NumPy's `ndarray` makes of the arguments."""
        return asarray(np.ndarray(*args, **kwargs))


@final
class ndarray(metaclass=_ArrayType):
    """What Tensors and NumPy's arrays are instances of: the functions of the namespace take both.

    Type checkers take it for `Tensor`. Called, it makes a Tensor of what NumPy's `ndarray` makes.

    Example:
        >>> import numpy, asyncgrad.numpy as np
        >>> isinstance(np.zeros(3), np.ndarray), isinstance(numpy.zeros(3), np.ndarray), isinstance([0.0], np.ndarray)
        (True, True, False)
    """
