"""Functions of `scipy.integrate`, with Tensors as results: integrals, and differential equations.

A function of the user may be an `async def`; then the result is to be awaited.
"""

from typing import TYPE_CHECKING

from .equations import odeint as odeint
from .equations import solve_ivp as solve_ivp
from .nested import dblquad as dblquad
from .nested import nquad as nquad
from .nested import tplquad as tplquad
from .quadrature import fixed_quad as fixed_quad
from .quadrature import quad as quad
from .quadrature import quad_vec as quad_vec
from .samples import cumulative_simpson as cumulative_simpson
from .samples import cumulative_trapezoid as cumulative_trapezoid
from .samples import romb as romb
from .samples import simpson as simpson
from .samples import trapezoid as trapezoid

__all__ = [
    "cumulative_simpson",
    "cumulative_trapezoid",
    "dblquad",
    "fixed_quad",
    "nquad",
    "odeint",
    "quad",
    "quad_vec",
    "romb",
    "simpson",
    "solve_ivp",
    "tplquad",
    "trapezoid",
]


if not TYPE_CHECKING:
    # Hidden from type checkers: with a module `__getattr__` they would accept any name.
    from ..error_names import name_errors
    from ..unsupported import refuse

    __getattr__ = refuse("integrate")
    name_errors(__name__)


def __dir__() -> list[str]:
    return __all__
