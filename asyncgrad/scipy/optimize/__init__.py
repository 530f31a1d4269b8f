"""Functions of `scipy.optimize`, with Tensors as results: minima, zeros and fits, and their derivatives by parameters.

A function of the user may be an `async def`; then the result is to be awaited. What SciPy needs of derivatives of the
function, asyncgrad gives. No `.grad` changes.
"""

from .minima import minimize as minimize
from .minima import minimize_scalar as minimize_scalar
from .roots import fixed_point as fixed_point
from .roots import fsolve as fsolve
from .roots import root as root
from .roots import root_scalar as root_scalar
from .squares import curve_fit as curve_fit
from .squares import least_squares as least_squares

__all__ = [
    "curve_fit",
    "fixed_point",
    "fsolve",
    "least_squares",
    "minimize",
    "minimize_scalar",
    "root",
    "root_scalar",
]


def __dir__() -> list[str]:
    return __all__
