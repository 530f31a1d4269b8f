"""PyTorch's own samples of its operations and modules, which are part of its wheel, and their tensors as ours."""

from __future__ import annotations

import gc
import importlib
import sys
import types
import unittest
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import asyncgrad as ag

__all__ = ["MODULES", "OPERATIONS", "converted", "databases", "leaf_of", "mapped", "outputs_of"]

#: The modules that hold samples.
OPERATIONS = "torch.testing._internal.common_methods_invocations"
MODULES = "torch.testing._internal.common_modules"


@contextmanager
def databases() -> Iterator[Any]:
    """Yield PyTorch, with its samples, which can be imported without the package that its tests compare texts with.

    The garbage collector does not look through them.
    """
    found = pytest.importorskip("torch")
    stand_in: Any = types.ModuleType("expecttest")
    stand_in.TestCase = unittest.TestCase
    with pytest.MonkeyPatch.context() as patched, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if "expecttest" not in sys.modules:
            patched.setitem(sys.modules, "expecttest", stand_in)
        for name in (OPERATIONS, MODULES):
            importlib.import_module(name)
        gc.collect()
        gc.freeze()
        yield found


def mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """Return a nested container with a function of each of PyTorch's tensors in the place of that."""
    if hasattr(value, "detach"):
        return function(value)
    if isinstance(value, (tuple, list)):
        return type(value)([mapped(one, function) for one in value])
    if isinstance(value, dict):
        return {name: mapped(one, function) for name, one in value.items()}
    return value


def leaf_of(value: Any) -> Any:
    """Return a copy of a tensor, which samples share."""
    return value.detach().clone().requires_grad_(value.requires_grad)


def converted(value: Any, leaves: list[tuple[Any, Any]]) -> Any:
    """Return PyTorch's tensors in a nested container as ours, which are noted beside them."""

    def convert(peer: Any) -> Any:
        array = peer.detach().resolve_conj().resolve_neg().numpy().copy()
        ours = ag.tensor(array, requires_grad=peer.requires_grad)
        leaves.append((peer, ours))
        return ours

    return mapped(value, convert)


def outputs_of(value: Any) -> list[Any]:
    """Return the results in a nested tuple or list, without None."""
    if isinstance(value, (tuple, list)):
        return [one for part in value for one in outputs_of(part)]
    return [] if value is None else [value]
