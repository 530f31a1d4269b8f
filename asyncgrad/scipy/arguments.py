"""Arguments of SciPy's functions as tensors."""

from __future__ import annotations

from typing import Any

from ..core.tensor import asarray

__all__ = ["floating"]


def floating(value: Any) -> Any:
    """Return a tensor, an array, a list or a number as a tensor, with whole numbers as float64."""
    tensor = asarray(float(value) if type(value) is int else value)
    return tensor if tensor.dtype.kind in "fc" else tensor.astype(float)
