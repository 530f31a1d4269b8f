"""Plain nodes, user's bodies and graphs that are heavy because a test says so."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import asyncgrad as ag
from asyncgrad.extend import derivative, primitive

__all__ = ["MANY", "always", "heavy_calling", "large", "on_workers"]

#: So many elements make a plain node of `heavy_calling` heavy.
MANY = 1 << 16


@primitive(superlinear=True)
def watched_(x: Any, callback: Any) -> Any:
    return x.copy()


@derivative(watched_, "x")
def _(g: Any, x: Any, callback: Any) -> Any:
    result = callback(g)
    return g if result is None else result


def heavy_calling(x: ag.Tensor, callback: Callable[[Any], Any]) -> ag.Tensor:
    """Return a copy of `x`, by a plain node whose formula calls `callback(grad)`; it is heavy if `x` is large."""
    return watched_(x, callback)


def large(value: float = 1.0) -> ag.Tensor:
    """Return a leaf that is large enough for a plain node on it to be heavy."""
    return ag.tensor(np.full(MANY, value, np.float32), requires_grad=True)


def always() -> Any:
    """Return a block in which all that may be heavy is."""
    return ag.offload_threshold(0)


def on_workers() -> bool:
    """Tell whether a worker runs this."""
    return threading.current_thread().name.startswith("asyncgrad worker")
