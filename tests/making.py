"""What many tests make: a leaf, a Function of two plain functions, a device that is not the cpu."""

from __future__ import annotations

from typing import Any

import asyncgrad as ag
from asyncgrad.engine.device import Device


class Elsewhere(Device):
    """A device that is not the cpu."""

    @property
    def name(self) -> str:
        return "elsewhere"


ELSEWHERE = Elsewhere()


def leaf_of(data: Any, dtype: Any = None) -> Any:
    """A tensor that requires grad; Any, so that a test may look into its gradient without asking whether it has one."""
    return ag.tensor(data, dtype=dtype, requires_grad=True)


def leaf(*values: float) -> Any:
    """A vector that requires grad."""
    return leaf_of(values)


def function(forward: Any, backward: Any = lambda ctx, grad: grad, name: str = "Made") -> type[ag.Function]:
    """The Function of a forward that takes a ctx, and of a backward."""
    return type(name, (ag.Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})
