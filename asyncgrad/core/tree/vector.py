"""`ravel`: all numbers of a tree as one vector, and back."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from ...errors import ArgumentError, ArgumentTypeError
from ..arrays.tensor_base import TensorBase
from ..arrays.values import as_array, has_memory
from ..settings.arguments import describe, takes
from .structure import flatten, paths, unflatten

__all__ = ["ravel"]


def ravel(tree: object) -> tuple[Any, Callable[[Any], Any]]:
    """Return all numbers of a tree as one vector, and the function that turns such a vector into a tree.

    Both are differentiable. Booleans and ints are converted to float64.

    Args:
        tree: a tree of tensors, arrays and numbers.

    Returns:
        `(vector, unravel)`. The vector is a tensor if any leaf is one, else an array, of the dtype that NumPy promotes
        the leaves to. `unravel` takes a vector of that size, tensor or array, and returns a tree of its parts. Each
        part has the shape of its leaf, and also the dtype, unless the cast would change the kind of the numbers.

    Raises:
        ArgumentTypeError: a leaf is not a tensor, an array or a number; the message names it by its path.

    Source: jax.flatten_util.ravel_pytree.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> vector, unravel = ag.tree.ravel({"w": np.ones((2, 2)), "b": 3.0})
        >>> vector
        array([1., 1., 1., 1., 3.])
        >>> float(unravel(2 * vector)["b"])
        6.0
    """
    leaves, structure = flatten(tree)
    entries = [_as_inexact(leaf, path) for leaf, path in zip(leaves, paths(structure, "tree"), strict=True)]
    shapes = [entry.shape for entry in entries]
    dtypes = [entry.dtype for entry in entries]
    are_numbers = [not (isinstance(leaf, TensorBase) or has_memory(leaf)) for leaf in leaves]
    bounds = list(accumulate((math.prod(shape) for shape in shapes), initial=0))
    vector: Any = np.concatenate([entry.reshape(-1) for entry in entries]) if entries else np.zeros(0)

    def unravel(vector: Any) -> Any:
        given: Any = vector if isinstance(vector, TensorBase) else as_array(vector)
        if given.shape != (bounds[-1],):
            raise ArgumentError(takes("unravel", f"a vector of shape ({bounds[-1]},)", given))
        parts = [
            _part(given, start, stop, shape, dtype, is_number)
            for (start, stop), shape, dtype, is_number in zip(
                pairwise(bounds), shapes, dtypes, are_numbers, strict=True
            )
        ]
        return unflatten(structure, parts)

    return vector, unravel


def _as_inexact(leaf: Any, path: str) -> Any:
    value: Any = leaf
    if not (isinstance(leaf, TensorBase) or has_memory(leaf)):
        value = np.asarray(leaf) if isinstance(leaf, (bool, int, float, complex, np.generic)) else None
    kind = "" if value is None else value.dtype.kind
    if kind == "" or kind not in "biufc":
        raise ArgumentTypeError(f"ag.tree.ravel takes tensors, arrays and numbers, but {path} is {describe(leaf)}")
    return value if kind in "fc" else value.astype(np.float64)


def _part(vector: Any, start: int, stop: int, shape: tuple[int, ...], dtype: np.dtype, is_number: bool) -> Any:
    part = vector[start:stop].reshape(shape)
    if part.dtype != dtype and np.can_cast(part.dtype, dtype, "same_kind"):
        part = part.astype(dtype)
    return part[()] if is_number and isinstance(part, np.ndarray) else part
