"""The names of nodes, hooks and functions in errors and notes."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import numpy as np

__all__ = [
    "HIGHEST_NUMBER",
    "close_names",
    "identify",
    "name_hook",
    "number_of",
    "place_of",
    "ufunc_name",
]

#: The sequence number of a leaf's AccumulateGrad, which runs ahead of all other nodes, as in PyTorch.
HIGHEST_NUMBER = 2**64 - 1


def identify(node: Any) -> str:
    """Return the name of a node in errors: `MultiplyBackward (node #7)`, `AccumulateGrad (leaf of shape (2, 3))`."""
    return f"{node.name} ({number_of(node)})"


def place_of(node: Any) -> str:
    """Return a node's number and device, without its name."""
    return number_of(node) if node.device is None else f"{number_of(node)}, device '{node.device}'"


def number_of(node: Any) -> str:
    """Return a node's sequence number for an error; for a leaf its shape, since all leaves have the same number."""
    if node.sequence_nr < HIGHEST_NUMBER:
        return f"node #{node.sequence_nr}"
    variable = getattr(node, "variable", None)
    if variable is None:
        return "node ahead of all others"
    return outline(variable).replace("tensor", "leaf").replace("value", "leaf")


def outline(tensor: Any) -> str:
    """Return what a tensor or a value is in errors: its shape, or its type."""
    value = tensor._value_metadata
    return f"tensor of shape {tensor._data.shape}" if value is None else f"value of type {value.type.name}"


def name_hook(hook: Any) -> str:
    """Return the name of a hook in errors: that of the function a partial calls; for a nameless hook, of its class."""
    while isinstance(hook, functools.partial):
        hook = hook.func
    return f"hook {getattr(hook, '__qualname__', type(hook).__name__)}"


def ufunc_name(ufunc: np.ufunc) -> str:
    """Return the name of a ufunc with its module, such as scipy.special.erf; a ufunc does not store its module."""
    name = ufunc.__name__
    if getattr(np, name, None) is ufunc:
        return f"numpy.{name}"
    modules = [
        module
        for module, contents in list(sys.modules.items())
        if getattr(contents, "__dict__", {}).get(name) is ufunc and not _is_private(module)
    ]
    return f"{min(modules, key=len)}.{name}" if modules else name


def close_names(name: str, names: Iterable[str]) -> list[str]:
    """Return which names are similar, the most similar one first."""
    # Imported here: messages alone need it.
    found: list[str] = import_module("difflib").get_close_matches(name, names)
    return found


def _is_private(module: str) -> bool:
    return any(part.startswith("_") for part in module.split("."))
