"""Functions of SciPy's solvers that have no derivative, and what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["LEFT_OUT", "refuse"]

_POLISHED = "call scipy.optimize.{name} on arrays, and pass its x as the x0 of minimize, whose x is differentiable"
_VERTEX = "call scipy.optimize.{name} on arrays: its solution jumps from one vertex to another, and has no derivative"

#: By module, the functions and what to write instead.
LEFT_OUT: dict[str, dict[str, str]] = {
    "integrate": {
        "solve_bvp": "solve for the first state with optimize.root, whose function calls solve_ivp",
        "qmc_quad": "take the mean of the integrand at points of scipy.stats.qmc",
        "cubature": "use nquad, or quad_vec",
        "tanhsinh": "use quad",
        "nsum": "sum the terms",
        **dict.fromkeys(("lebedev_rule", "newton_cotes"), "call scipy.integrate.{name}: it takes whole numbers"),
        **dict.fromkeys(("complex_ode", "ode"), "use solve_ivp"),
        **dict.fromkeys(("BDF", "DOP853", "LSODA", "RK23", "RK45", "Radau"), "pass the method's name to solve_ivp"),
    },
    "optimize": {
        **dict.fromkeys(("basinhopping", "brute", "differential_evolution", "direct"), _POLISHED),
        **dict.fromkeys(("dual_annealing", "shgo"), _POLISHED),
        **dict.fromkeys(("linear_sum_assignment", "linprog", "milp", "quadratic_assignment"), _VERTEX),
        **dict.fromkeys(("bracket", "brent", "fminbound", "golden"), "use minimize_scalar"),
        **dict.fromkeys(("fmin", "fmin_bfgs", "fmin_cg", "fmin_cobyla", "fmin_l_bfgs_b", "fmin_ncg"), "use minimize"),
        **dict.fromkeys(("fmin_powell", "fmin_slsqp", "fmin_tnc", "line_search"), "use minimize"),
        **dict.fromkeys(("anderson", "broyden1", "broyden2", "diagbroyden"), "use root"),
        **dict.fromkeys(("excitingmixing", "linearmixing", "newton_krylov"), "use root"),
        "leastsq": "use least_squares",
        "isotonic_regression": "use lsq_linear with the steps as unknowns, and bounds that are not negative",
        **dict.fromkeys(("approx_fprime", "check_grad"), "use asyncgrad.grad, and asyncgrad.gradcheck"),
    },
}


def refuse(module: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module, which names what to write instead of what it does not have."""
    instead = LEFT_OUT[module]

    def __getattr__(name: str) -> Any:  # noqa: N807
        if name in instead:
            advice = instead[name].format(name=name)
            raise AttributeError(f"asyncgrad.scipy.{module} has no {name}: {advice}", name=name)
        raise AttributeError(f"module 'asyncgrad.scipy.{module}' has no attribute {name!r}", name=name)

    return __getattr__
