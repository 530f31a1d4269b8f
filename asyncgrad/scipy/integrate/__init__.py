"""Functions of `scipy.integrate`, with Tensors as results: integrals, and differential equations.

A function of the user may be an `async def`; then the result is to be awaited.
"""

from typing import Any

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


#: What to write instead of functions of SciPy's that have no derivative.
_INSTEAD = {
    "solve_bvp": "solve for the first state with optimize.root, whose function calls solve_ivp",
    "qmc_quad": "take the mean of the integrand at points of scipy.stats.qmc",
    "cubature": "use nquad, or quad_vec",
    "tanhsinh": "use quad",
    "nsum": "sum the terms, or use quad for the remainder",
    "ode": "use solve_ivp",
    "complex_ode": "use solve_ivp",
    **dict.fromkeys(("BDF", "DOP853", "LSODA", "RK23", "RK45", "Radau"), "pass the method's name to solve_ivp"),
}


def __getattr__(name: str) -> Any:
    if name in _INSTEAD:
        raise AttributeError(f"asyncgrad.scipy.integrate has no {name}: {_INSTEAD[name]}", name=name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


def __dir__() -> list[str]:
    return __all__
