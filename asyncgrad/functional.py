"""Transforms: functions that take a function and compute its derivatives, most together with its value."""

from typing import TYPE_CHECKING

from .core.settings.lazy import name_advisor
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


if not TYPE_CHECKING:
    # A type checker that saw a `__getattr__` would take any name for one of the module.
    __getattr__ = name_advisor(__name__)
