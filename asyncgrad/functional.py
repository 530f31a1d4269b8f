"""Transforms: functions that take a function and compute its derivatives, most together with its value."""

from .transforms.jacobians import hessian as hessian
from .transforms.jacobians import jacobian as jacobian
from .transforms.products import hvp as hvp
from .transforms.products import jvp as jvp
from .transforms.products import vhp as vhp
from .transforms.products import vjp as vjp
from .transforms.values_and_gradients import value_and_grad as value_and_grad

__all__ = ["hessian", "hvp", "jacobian", "jvp", "value_and_grad", "vhp", "vjp"]


def __dir__() -> list[str]:
    return __all__
