"""Equations of Sylvester and Lyapunov."""

from __future__ import annotations

from typing import Any

from scipy import linalg

from ... import numpy as anp
from ...ops.primitive import derivative, primitive

__all__ = ["solve_continuous_lyapunov", "solve_lyapunov", "solve_sylvester"]


@primitive(superlinear=True)
def sylvester_solution(a: Any, b: Any, q: Any) -> Any:
    """Return x with `a @ x + x @ b == q`."""
    return linalg.solve_sylvester(a, b, q)


@derivative(sylvester_solution, "a")
def _(g: Any, a: Any, b: Any, out: Any) -> Any:
    return -(_solution(a.mT, b.mT, g) @ out.mT)


@derivative(sylvester_solution, "b")
def _(g: Any, a: Any, b: Any, out: Any) -> Any:
    return -(out.mT @ _solution(a.mT, b.mT, g))


@derivative(sylvester_solution, "q")
def _(g: Any, a: Any, b: Any) -> Any:
    return _solution(a.mT, b.mT, g)


_solution = sylvester_solution.call


def solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    """Return x with `a @ x + x @ b == q`, for square matrices `a` and `b`.

    Raises:
        ValueError: the shapes do not fit.
        LinAlgError: there is no single solution.
    """
    a, b, q = anp.asarray(a), anp.asarray(b), anp.asarray(q)
    if any(one.ndim != 2 for one in (a, b, q)) or a.shape + b.shape != (q.shape[0],) * 2 + (q.shape[1],) * 2:
        raise ValueError(
            "scipy.linalg.solve_sylvester takes matrices of shapes (m, m), (n, n) and (m, n), not "
            f"{a.shape}, {b.shape} and {q.shape}; for a stack, use asyncgrad.vmap"
        )
    return _solution(a, b, q)


def solve_continuous_lyapunov(a: Any, q: Any) -> Any:
    """Return x with `a @ x + x @ a.conj().T == q`, for square matrices of one shape.

    Raises:
        ValueError: the shapes do not fit.
        LinAlgError: there is no single solution.
    """
    a = anp.asarray(a)
    return solve_sylvester(a, anp.conj(a).T, q)


solve_lyapunov = solve_continuous_lyapunov
