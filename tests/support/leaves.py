"""Leaves: tensors that require grad, made of numbers, of data, or at random.

They are typed as Any, so that a test may look into a gradient without asking whether there is one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import asyncgrad as ag

__all__ = ["leaf", "leaf_of", "random_leaf"]


def leaf(*values: float) -> Any:
    """A vector that requires grad."""
    return leaf_of(values, np.float64)


def leaf_of(data: Any, dtype: Any = None) -> Any:
    """A tensor of this data that requires grad."""
    return ag.tensor(data, dtype=dtype, requires_grad=True)


def random_leaf(*shape: int, dtype: Any = np.float64, seed: int = 0) -> Any:
    """A tensor of that shape that requires grad, of numbers between 0.5 and 1.5: both parts of complex ones are."""
    data = np.random.default_rng(seed).uniform(0.5, 1.5, shape).astype(dtype)
    if data.dtype.kind == "c":
        data = data + 1j * np.random.default_rng(seed + 1).uniform(0.5, 1.5, shape)
    return leaf_of(data.astype(dtype))
