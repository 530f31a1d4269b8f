"""einops on tensors: `einops.rearrange(t, "b c -> c b")` and all its other functions, with gradients.

einops asks the subclasses of its AbstractBackend which of them knows a type. So a subclass is made when tensors are
first used, if einops has been imported by then, and else by `register_einops`. asyncgrad imports nothing of einops
unasked, and puts nothing into Python's imports to notice it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from .arrays.tensor_base import TensorBase

__all__ = ["register_einops", "register_imported_einops"]

_MODULE = "einops._backends"


def register_einops() -> None:
    """Have the functions of einops take tensors, from now on, with gradients.

    They do by themselves where einops was imported before the first use of asyncgrad, as it is where both stand at the
    top of a program. Elsewhere, call this once.

    Raises:
        ImportError: there is no einops.

    Example:
        >>> import asyncgrad as ag, importlib.util
        >>> if importlib.util.find_spec("einops"):
        ...     ag.extend.register_einops()
    """
    try:
        base = import_module(_MODULE).AbstractBackend
    except ImportError as error:
        raise ImportError("ag.extend.register_einops needs einops: pip install einops") from error
    if not any(issubclass(one, base) for one in _BACKENDS):
        _BACKENDS.append(type("AsyncgradBackend", (_TensorBackend, base), {}))


def register_imported_einops() -> None:
    """Do that if einops has been imported."""
    if _MODULE in sys.modules:
        register_einops()


#: A class knows its subclasses by weak references only: this keeps the one that is made.
_BACKENDS: list[type] = []


class _TensorBackend:
    """Abstract: what einops asks of a backend beyond what its AbstractBackend does with the methods of an array."""

    framework_name = "asyncgrad"

    def is_appropriate_type(self, tensor: Any) -> bool:
        return isinstance(tensor, TensorBase)

    def to_numpy(self, x: Any) -> Any:
        return x.numpy()

    def stack_on_zeroth_dimension(self, tensors: Sequence[Any]) -> Any:
        return np.stack(tensors)

    def concat(self, tensors: Sequence[Any], axis: int) -> Any:
        return np.concatenate(tensors, axis=axis)

    def tile(self, x: Any, repeats: tuple[int, ...]) -> Any:
        return np.tile(x, repeats)

    def add_axis(self, x: Any, new_position: int) -> Any:
        return np.expand_dims(x, new_position)

    def is_float_type(self, x: Any) -> bool:
        return x.dtype.kind in "fc"

    def einsum(self, pattern: str, *operands: Any) -> Any:
        return np.einsum(pattern, *operands)
