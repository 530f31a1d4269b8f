"""Blocking forms of the functions of asyncgrad that are awaited, for code without an event loop.

If no node of a graph suspends, the call runs the backward without an event loop, even if one is running in this thread.
If a node may suspend, the call runs the backward on an event loop of its own. If a loop is already running, a call that
would have to suspend raises `BlockingError`, whose message shows what to await instead. `asyncgrad.sync.func` has the
blocking forms of `asyncgrad.func`.
"""

from typing import TYPE_CHECKING

from ..core.settings.lazy import name_advisor
from . import func as func
from .blocking import backward as backward
from .blocking import grad as grad
from .blocking import gradcheck as gradcheck
from .blocking import gradgradcheck as gradgradcheck
from .blocking import hessian as hessian
from .blocking import hvp as hvp
from .blocking import jacobian as jacobian
from .blocking import jvp as jvp
from .blocking import value_and_grad as value_and_grad
from .blocking import vhp as vhp
from .blocking import vjp as vjp

__all__ = [
    "backward",
    "func",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "value_and_grad",
    "vhp",
    "vjp",
]


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:
    # A type checker that saw a `__getattr__` would take any name for one of the module.
    __getattr__ = name_advisor(__name__)
