"""Transforms of functions whose arguments and results are trees, as in torch.func and JAX; they nest.

Tensors in give tensors out, arrays give arrays, and numbers give NumPy's numbers; where a result may be differentiated
again, in another transform or because an argument requires grad, it is a tensor. Ints are taken as float64. No `.grad`
changes. The functions here are awaited, or return functions to be awaited; `asyncgrad.sync.func` has those that block.
"""

from .gradients import elementwise_grad as elementwise_grad
from .gradients import grad as grad
from .gradients import value_and_grad as value_and_grad
from .jacobians import hessian as hessian
from .jacobians import jacfwd as jacfwd
from .jacobians import jacrev as jacrev
from .products import hvp as hvp
from .products import jvp as jvp
from .products import linearize as linearize
from .products import vjp as vjp

__all__ = [
    "elementwise_grad",
    "grad",
    "hessian",
    "hvp",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "value_and_grad",
    "vjp",
]


def __dir__() -> list[str]:
    return __all__
