"""Functions of `scipy.optimize`, with Tensors as results: minima, zeros and fits, and their derivatives by parameters.

A function of the user may be an `async def`; then the result is to be awaited. What SciPy needs of derivatives of the
function, asyncgrad gives. No `.grad` changes.
"""

from typing import Any

from scipy.optimize import Bounds as Bounds
from scipy.optimize import LinearConstraint as LinearConstraint
from scipy.optimize import NonlinearConstraint as NonlinearConstraint
from scipy.optimize import OptimizeResult as OptimizeResult

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

#: What to write instead of functions of SciPy's that have no derivative.
_POLISHED = "call scipy.optimize.{name} on arrays, and pass its x as the x0 of minimize, whose x is differentiable"
_VERTEX = "call scipy.optimize.{name} on arrays: its solution jumps from one vertex to another, and has no derivative"
_INSTEAD = {
    **dict.fromkeys(("basinhopping", "brute", "differential_evolution", "direct", "dual_annealing", "shgo"), _POLISHED),
    **dict.fromkeys(("linear_sum_assignment", "linprog", "milp", "quadratic_assignment"), _VERTEX),
    **dict.fromkeys(("bracket", "brent", "fminbound", "golden"), "use minimize_scalar"),
    **dict.fromkeys(("fmin", "fmin_bfgs", "fmin_cg", "fmin_cobyla", "fmin_l_bfgs_b", "fmin_ncg"), "use minimize"),
    **dict.fromkeys(("fmin_powell", "fmin_slsqp", "fmin_tnc", "line_search"), "use minimize"),
    **dict.fromkeys(("anderson", "broyden1", "broyden2", "diagbroyden", "excitingmixing", "linearmixing"), "use root"),
    **dict.fromkeys(("newton_krylov", "leastsq"), "use root, or least_squares"),
    **dict.fromkeys(("approx_fprime", "check_grad"), "use asyncgrad.grad, and asyncgrad.gradcheck"),
}


def __getattr__(name: str) -> Any:
    if name in _INSTEAD:
        advice = _INSTEAD[name].format(name=name)
        raise AttributeError(f"asyncgrad.scipy.optimize has no {name}: {advice}", name=name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


def __dir__() -> list[str]:
    return __all__
