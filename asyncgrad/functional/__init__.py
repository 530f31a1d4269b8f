"""Transforms: functions that take a function and compute its derivatives, most together with its value."""

from .jacobians import hessian as hessian
from .jacobians import jacobian as jacobian
from .products import hvp as hvp
from .products import jvp as jvp
from .products import vhp as vhp
from .products import vjp as vjp
from .values_and_gradients import value_and_grad as value_and_grad

__all__ = ["hessian", "hvp", "jacobian", "jvp", "value_and_grad", "vhp", "vjp"]


def __dir__() -> list[str]:
    return __all__
