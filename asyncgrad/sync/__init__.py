"""The blocking facade: the functions of asyncgrad that are awaited, as plain calls, for code without an event loop.

A graph of plain nodes is driven to the end without any event loop, whether or not one is running; a graph with a
node that may suspend gets a loop of its own. Where a loop is already running, a call that would have to suspend
raises `BlockingError` and names the line to await instead. `asyncgrad.sync.func` has the transforms of
`asyncgrad.func`.
"""

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
