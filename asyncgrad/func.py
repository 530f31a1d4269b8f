"""Transforms of functions whose arguments and results are trees, as in torch.func and JAX; they nest.

For tensors a transform returns tensors, for arrays it returns arrays, and for numbers NumPy's numbers. A result that
may be differentiated again, inside another transform or because an argument requires grad, is always a tensor. Ints are
converted to float64. No `.grad` changes. The functions here are coroutine functions or return such, but for `vmap`,
which returns one where it is given one; `asyncgrad.sync.func` has the blocking forms.
"""

from typing import TYPE_CHECKING

from .core.settings.lazy import name_advisor
from .transforms.fixed_points import fixed_point as fixed_point
from .transforms.gradients import elementwise_grad as elementwise_grad
from .transforms.gradients import grad as grad
from .transforms.gradients import value_and_grad as value_and_grad
from .transforms.jacobians_of_trees import hessian as hessian
from .transforms.jacobians_of_trees import jacfwd as jacfwd
from .transforms.jacobians_of_trees import jacrev as jacrev
from .transforms.products_of_trees import hvp as hvp
from .transforms.products_of_trees import jvp as jvp
from .transforms.products_of_trees import linearize as linearize
from .transforms.products_of_trees import vjp as vjp
from .transforms.vmap import vmap as vmap

__all__ = [
    "elementwise_grad",
    "fixed_point",
    "grad",
    "hessian",
    "hvp",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "value_and_grad",
    "vjp",
    "vmap",
]


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:
    # A type checker that saw a `__getattr__` would take any name for one of the module.
    __getattr__ = name_advisor(__name__)
