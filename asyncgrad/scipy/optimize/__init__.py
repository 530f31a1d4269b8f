"""Functions of `scipy.optimize`, with Tensors as results: minima, zeros and fits, and their derivatives by parameters.

A function of the user may be an `async def`; then the result is to be awaited. What SciPy needs of derivatives of the
function, asyncgrad gives. No `.grad` changes.
"""

from typing import TYPE_CHECKING

from scipy.optimize import Bounds as Bounds
from scipy.optimize import LinearConstraint as LinearConstraint
from scipy.optimize import NonlinearConstraint as NonlinearConstraint
from scipy.optimize import OptimizeResult as OptimizeResult

from .isotonic import isotonic_regression as isotonic_regression
from .linear_squares import lsq_linear as lsq_linear
from .linear_squares import nnls as nnls
from .minima import minimize as minimize
from .minima import minimize_scalar as minimize_scalar
from .roots import fixed_point as fixed_point
from .roots import fsolve as fsolve
from .roots import root as root
from .roots import root_scalar as root_scalar
from .scalar_roots import bisect as bisect
from .scalar_roots import brenth as brenth
from .scalar_roots import brentq as brentq
from .scalar_roots import newton as newton
from .scalar_roots import ridder as ridder
from .scalar_roots import toms748 as toms748
from .squares import curve_fit as curve_fit
from .squares import least_squares as least_squares

__all__ = [
    "Bounds",
    "LinearConstraint",
    "NonlinearConstraint",
    "OptimizeResult",
    "bisect",
    "brenth",
    "brentq",
    "curve_fit",
    "fixed_point",
    "fsolve",
    "isotonic_regression",
    "least_squares",
    "lsq_linear",
    "minimize",
    "minimize_scalar",
    "newton",
    "nnls",
    "ridder",
    "root",
    "root_scalar",
    "toms748",
]

if not TYPE_CHECKING:
    # Hidden from type checkers: with a module `__getattr__` they would accept any name.
    from ..error_names import name_errors
    from ..unsupported import refuse

    __getattr__ = refuse("optimize")
    name_errors(__name__)


def __dir__() -> list[str]:
    return __all__
