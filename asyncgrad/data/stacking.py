"""Stacking of examples, which are trees, into a batch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from numbers import Number
from typing import Any

import numpy as np

from ..core.tensor import Tensor
from ..core.tree.structure import TreeStructure, flatten, leaves_like, paths, unflatten
from ..errors import ArgumentError

__all__ = ["stack"]


def stack(examples: Sequence[Any]) -> Any:
    """Return a tree like each of the examples, with their numbers and arrays stacked along a new first axis.

    Arrays of other libraries, and whatever else has `__array__` (PyTorch's tensors, images of Pillow), become arrays of
    NumPy. Other leaves, such as strings, are in a list.

    Raises:
        ArgumentError: two examples differ in structure or shape; the message names the place by its path.
    """
    first, structure = flatten(examples[0])
    columns = [[leaf] for leaf in first]
    for index, example in enumerate(examples[1:], 1):
        leaves = leaves_like(structure, example, f"example {index} of a batch", "example 0")
        for column, leaf in zip(columns, leaves, strict=True):
            column.append(leaf)
    return unflatten(structure, [_stack_leaves(structure, nr, column) for nr, column in enumerate(columns)])


def _stack_leaves(structure: TreeStructure, nr: int, column: list[Any]) -> Any:
    if not all(isinstance(leaf, (Tensor, np.ndarray, np.generic, Number)) for leaf in column):
        if not all(hasattr(leaf, "__array__") or isinstance(leaf, Number) for leaf in column):
            return column
        column = [leaf if isinstance(leaf, Tensor) else np.asarray(leaf) for leaf in column]
    shape = np.shape(column[0])
    for index, leaf in enumerate(column):
        if np.shape(leaf) != shape:
            path = next(islice(paths(structure, f"example {index}"), nr, None))
            raise ArgumentError(
                f"{path} of a batch has shape {np.shape(leaf)}, but that of example 0 has shape {shape}: pad them to "
                "one shape, or let the source give whole batches and pass size=None"
            )
    if any(isinstance(leaf, Tensor) for leaf in column):
        return np.stack(column)
    return np.array(column)
