"""Matching of gradients to the parameters of an optimizer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import numpy as np

from ..arguments import describe
from ..errors import ArgumentError, ArgumentTypeError
from ..graph.values import is_foreign
from ..tensor import Tensor
from ..tree.structure import TreeStructure, leaves_like, paths

__all__ = ["gradients_like"]


def gradients_like(
    structure: TreeStructure, params: Sequence[Tensor], grads: Any, names: Iterable[str], what: str
) -> list[tuple[Tensor, Any]]:
    """Return the parameters that have a gradient, each with the array of it, in the dtype of the parameter.

    Args:
        structure: the structure of the tree of parameters.
        params: its leaves.
        grads: a tree like it, with tensors or arrays, and None where there is no gradient.
        names: the names of the parameters in errors.
        what: the name of `grads` in errors.

    Raises:
        ArgumentError: the structure or a shape differs, or a gradient is complex and its parameter is real.
        ArgumentTypeError: a gradient is neither a tensor nor an array.
    """
    if structure.cls in (list, tuple) and type(grads) in (list, tuple):
        # What ag.grad returns is a tuple, and what model.parameters() gives a list.
        grads = structure.cls(grads)
    if structure.kind is None and type(grads) in (list, tuple) and len(grads) == 1:
        (grads,) = grads
    entries = leaves_like(structure, grads, what, "params", allows_none=True)
    found = []
    for index, (param, grad) in enumerate(zip(params, entries, strict=True)):
        if grad is None:
            continue
        array = grad._data if isinstance(grad, Tensor) else grad
        if not isinstance(array, (np.ndarray, np.generic)) and not is_foreign(array):
            raise ArgumentTypeError(
                f"{_nth(paths(structure, what), index)} must be a tensor, an array or None, not {describe(grad)}"
            )
        if isinstance(array, np.generic):
            array = np.asarray(array)
        if array.shape != param.shape:
            raise ArgumentError(
                f"{_nth(paths(structure, what), index)} has shape {array.shape}, but {_nth(names, index)} has shape "
                f"{param.shape}: are these the gradients of another model?"
            )
        if array.dtype is not param._data.dtype:
            if not np.can_cast(array.dtype, param.dtype, "same_kind"):
                raise ArgumentError(
                    f"{_nth(paths(structure, what), index)} has dtype {array.dtype}, but {_nth(names, index)} has "
                    f"dtype {param.dtype}: write .astype({param.dtype}) if that is meant"
                )
            array = array.astype(param.dtype)
        found.append((param, array))
    return found


def _nth(names: Iterable[str], index: int) -> str:
    return next(islice(names, index, None))
