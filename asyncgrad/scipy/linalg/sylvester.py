"""Equations of Sylvester, Lyapunov and Riccati."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import linalg

from ...core.arrays.values import raw
from ...core.ops.linear_algebra import adjoint as _adjoint
from ...core.ops.linear_algebra import product
from ...core.recording.primitive import derivative, primitive
from ...core.settings.context import no_grad
from ..arguments import floating, number_as_matrix
from .lapack import solve_by_schur_forms

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = [
    "solve_continuous_are",
    "solve_continuous_lyapunov",
    "solve_discrete_are",
    "solve_discrete_lyapunov",
    "solve_lyapunov",
    "solve_sylvester",
    "sylvester_solution",
]


@primitive(superlinear=True)
def sylvester_solution(a: Array, b: Array, q: Array) -> Any:
    """Return x with `a @ x + x @ b == q`."""
    if a.ndim == b.ndim == q.ndim == 2:
        return solve_by_schur_forms(a, b, q)
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2], q.shape[:-2])
    if 0 in stack:
        # SciPy has no stacks of no matrices.
        return np.zeros((*stack, *q.shape[-2:]), np.result_type(a, b, q))
    return linalg.solve_sylvester(a, b, q)


@derivative(sylvester_solution, "a")
def _(g: Array, a: Array, b: Any, out: Array) -> Array:
    return -product(_solution(a.mT, b.mT, g), out.mT)


@derivative(sylvester_solution, "b")
def _(g: Array, a: Any, b: Array, out: Array) -> Array:
    return -product(out.mT, _solution(a.mT, b.mT, g))


@derivative(sylvester_solution, "q")
def _(g: Array, a: Any, b: Any) -> Array:
    return _solution(a.mT, b.mT, g)


_solution = sylvester_solution.call


def solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    """Return x with `a @ x + x @ b == q`, for square matrices `a` and `b`.

    Raises:
        ValueError: the shapes do not fit.
        LinAlgError: there is no single solution.
    """
    return _checked_solution("solve_sylvester", *map(floating, (a, b, q)))


def _checked_solution(name: str, a: Array, b: Array, q: Array) -> Any:
    if any(one.ndim < 2 for one in (a, b, q)) or a.shape[-2:] + b.shape[-2:] != (q.shape[-2],) * 2 + (q.shape[-1],) * 2:
        raise ValueError(
            f"scipy.linalg.{name} takes matrices of shapes (m, m), (n, n) and (m, n), not {a.shape}, {b.shape} and "
            f"{q.shape}"
        )
    # It has no check_finite.
    if not all(np.isfinite(raw(one)).all() for one in (a, b)):
        raise ValueError(f"scipy.linalg.{name} takes matrices without infinity and NaN")
    return _solution(a, b, q)


def solve_continuous_lyapunov(a: Any, q: Any) -> Any:
    """Return x with `a @ x + x @ a.conj().T == q`, for square matrices of one shape.

    Raises:
        ValueError: the shapes do not fit.
        LinAlgError: there is no single solution.
    """
    a, q = (floating(number_as_matrix(one)) for one in (a, q))
    return _checked_solution("solve_continuous_lyapunov", a, _adjoint(a), q)


solve_lyapunov = solve_continuous_lyapunov


def solve_discrete_lyapunov(a: Any, q: Any, method: str | None = None) -> Any:
    """Return x with `a @ x @ a.conj().T - x + q == 0`, for square matrices of one shape.

    Args:
        a: the matrix of the system.
        q: the right-hand side.
        method: "direct" and "bilinear" are computed alike.

    Raises:
        ValueError: the shapes do not fit.
        LinAlgError: there is no single solution.

    Source: scipy.linalg.solve_discrete_lyapunov, by its bilinear method.
    """
    if method not in (None, "direct", "bilinear"):
        raise ValueError(f"scipy.linalg.solve_discrete_lyapunov takes method 'direct' or 'bilinear', not {method!r}")
    a, q = (one.astype(np.result_type(one.dtype, np.float64), copy=False) for one in map(floating, (a, q)))
    if a.ndim < 2 or a.shape[-1] != a.shape[-2] or q.shape[-2:] != a.shape[-2:]:
        raise ValueError(
            f"scipy.linalg.solve_discrete_lyapunov takes square matrices of one shape, not {a.shape} and {q.shape}"
        )
    eye = np.eye(a.shape[-1], dtype=a.dtype)
    shifted = np.linalg.inv(_adjoint(a) + eye)
    moved = product(_adjoint(a) - eye, shifted)
    right = 2 * product(product(np.linalg.inv(a + eye), q), shifted)
    return solve_continuous_lyapunov(_adjoint(moved), -right)


# Riccati equations. Newton's method squares the distance from the solution with each step, and so its second step
# depends on the matrices as the solution does, up to the third derivative. It begins at the solution: SciPy's result,
# which misses it for some balanced matrices, is moved there first.

#: Of Newton's method, which squares the distance from the solution near it, and halves it at least farther away.
_MOST_STEPS = 50


def _settled(name: str, step: Callable[..., Any], x: Any, *matrices: Any) -> Any:
    """Return the solution at which steps from a matrix near it end, without history."""
    given = [None if one is None else raw(one) for one in matrices]
    with no_grad():
        for _ in range(_MOST_STEPS):
            last, x = x, raw(step(x, *given))
            if np.abs(x - last).max(initial=0.0) <= 1e-6 * np.abs(x).max(initial=0.0):
                return x
    raise np.linalg.LinAlgError(
        f"scipy.linalg.{name}: what SciPy returns for these matrices is not near a solution: write balanced=False"
    )


def solve_continuous_are(a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None, balanced: bool = True) -> Any:
    """Return x with `a.H @ x + x @ a - x @ b @ inv(r) @ b.H @ x + q == 0` that makes the system stable.

    Args:
        a: shape (m, m).
        b: shape (m, n).
        q: shape (m, m), Hermitian.
        r: shape (n, n), Hermitian.
        e: of the generalised equation, see SciPy's; None for the identity.
        s: of the generalised equation, shape (m, n); None for zeros.
        balanced: as SciPy's.

    Raises:
        LinAlgError: there is no such solution.

    Source: scipy.linalg.solve_continuous_are; Kleinman, 1968.
    """
    a, b, q, r, e, s = _of_equation(a, b, q, r, e, s)
    x: Any = linalg.solve_continuous_are(*map(raw, (a, b, q, r, e, s)), balanced=balanced)
    a, q = _simplified(a, b, q, r, e, s)
    x = _settled("solve_continuous_are", _continuous_step, x, a, b, q, r)
    return _continuous_step(_continuous_step(x, a, b, q, r), a, b, q, r)


def _continuous_step(x: Any, a: Any, b: Any, q: Any, r: Any) -> Any:
    gain = np.linalg.solve(r, product(_adjoint(b), x))
    closed = _adjoint(a - product(b, gain))
    return solve_continuous_lyapunov(closed, -(q + product(_adjoint(gain), product(r, gain))))


def solve_discrete_are(a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None, balanced: bool = True) -> Any:
    """Return x with `a.H @ x @ a - x - (a.H @ x @ b) @ inv(r + b.H @ x @ b) @ (b.H @ x @ a) + q == 0`.

    Args:
        a: as for `solve_continuous_are`.
        b: as for `solve_continuous_are`.
        q: as for `solve_continuous_are`.
        r: as for `solve_continuous_are`.
        e: of the generalised equation, see SciPy's; None for the identity.
        s: of the generalised equation, shape (m, n); None for zeros.
        balanced: as SciPy's.

    Raises:
        LinAlgError: there is no such solution.

    Source: scipy.linalg.solve_discrete_are; Hewer, 1971.
    """
    a, b, q, r, e, s = _of_equation(a, b, q, r, e, s)
    x: Any = linalg.solve_discrete_are(*map(raw, (a, b, q, r, e, s)), balanced=balanced)
    a, q, s = _of_identity(a, q, e, s)
    x = _settled("solve_discrete_are", _discrete_step, x, a, b, q, r, s)
    return _discrete_step(_discrete_step(x, a, b, q, r, s), a, b, q, r, s)


def _discrete_step(x: Any, a: Any, b: Any, q: Any, r: Any, s: Any) -> Any:
    weighted = product(_adjoint(b), x)
    crossed = product(weighted, a)
    gain = np.linalg.solve(r + product(weighted, b), crossed if s is None else crossed + _adjoint(s))
    closed = _adjoint(a - product(b, gain))
    cost = q + product(_adjoint(gain), product(r, gain))
    if s is not None:
        mixed = product(s, gain)
        cost = cost - mixed - _adjoint(mixed)
    return solve_discrete_lyapunov(closed, cost)


def _of_equation(*arguments: Any) -> list[Any]:
    return [None if one is None else np.atleast_2d(floating(one)) for one in arguments]


def _simplified(a: Any, b: Any, q: Any, r: Any, e: Any, s: Any) -> tuple[Any, Any]:
    """Return the a and q of the equation without e and s that has the same solution."""
    a, q, s = _of_identity(a, q, e, s)
    if s is not None:
        weighted = np.linalg.solve(r, _adjoint(s))
        a, q = a - product(b, weighted), q - product(s, weighted)
    return a, q


def _of_identity(a: Any, q: Any, e: Any, s: Any) -> tuple[Any, Any, Any]:
    """Return the a, q and s of the equation without e that has the same solution."""
    if e is None:
        return a, q, s
    inverse = np.linalg.inv(e)
    turned = product(_adjoint(inverse), product(q, inverse))
    return product(a, inverse), turned, None if s is None else product(_adjoint(inverse), s)
