"""What errors and notes call a node and a hook."""

from __future__ import annotations

import functools
from typing import Any

__all__ = ["HIGHEST_NUMBER", "identify", "name_hook", "number_of", "place_of"]

#: The sequence number of a leaf's AccumulateGrad, which runs ahead of all other nodes, as in PyTorch.
HIGHEST_NUMBER = 2**64 - 1


def identify(node: Any) -> str:
    """Say which node it is: `MultiplyBackward (node #7)`, `AccumulateGrad (leaf of shape (2, 3))`."""
    return f"{node.name} ({number_of(node)})"


def place_of(node: Any) -> str:
    """Say which node it is and on which device, without its name."""
    return number_of(node) if node.device is None else f"{number_of(node)}, device '{node.device}'"


def number_of(node: Any) -> str:
    """Say which node it is by its sequence number, or by its shape where it is a leaf's.

    All leaves have one sequence number, the highest, which says nothing.
    """
    if node.sequence_nr < HIGHEST_NUMBER:
        return f"node #{node.sequence_nr}"
    variable = getattr(node, "variable", None)
    return "node ahead of all others" if variable is None else f"leaf of shape {variable._data.shape}"


def name_hook(hook: Any) -> str:
    """Say which hook it is: by the function that a partial calls, or by its class where it has no name."""
    while isinstance(hook, functools.partial):
        hook = hook.func
    return f"hook {getattr(hook, '__qualname__', type(hook).__name__)}"
