"""Reverse-mode automatic differentiation on NumPy whose backward pass you can await."""

from . import engine as engine
from . import graph as graph
from .backward import backward as backward
from .backward import grad as grad
from .context import enable_grad as enable_grad
from .context import is_grad_enabled as is_grad_enabled
from .context import no_grad as no_grad
from .context import set_grad_enabled as set_grad_enabled
from .engine.device import device as device
from .engine.running import run as run
from .function import Function as Function
from .function import once_differentiable as once_differentiable
from .tensor import Tensor as Tensor
from .tensor import asarray as asarray
from .tensor import tensor as tensor

__all__ = [
    "Function",
    "Tensor",
    "asarray",
    "backward",
    "device",
    "enable_grad",
    "engine",
    "grad",
    "graph",
    "is_grad_enabled",
    "no_grad",
    "once_differentiable",
    "run",
    "set_grad_enabled",
    "tensor",
]
