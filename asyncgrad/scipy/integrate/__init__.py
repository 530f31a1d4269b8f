"""Functions of `scipy.integrate`, with Tensors as results: integrals, and differential equations.

A function of the user may be an `async def`; then the result is to be awaited.
"""

from .equations import odeint as odeint
from .equations import solve_ivp as solve_ivp
from .quadrature import fixed_quad as fixed_quad
from .quadrature import quad as quad
from .samples import cumulative_simpson as cumulative_simpson
from .samples import cumulative_trapezoid as cumulative_trapezoid
from .samples import romb as romb
from .samples import simpson as simpson
from .samples import trapezoid as trapezoid

__all__ = [
    "cumulative_simpson",
    "cumulative_trapezoid",
    "fixed_quad",
    "odeint",
    "quad",
    "romb",
    "simpson",
    "solve_ivp",
    "trapezoid",
]


def __dir__() -> list[str]:
    return __all__
