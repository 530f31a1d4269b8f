"""Linear least squares with bounds, as functions of the matrix and the right-hand side."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import optimize

from ...core.settings.context import is_grad_enabled
from ...core.tensor import Tensor, asarray
from ..arguments import floating
from ..solutions import array_of
from .constraints import free_elements

__all__ = ["lsq_linear", "nnls"]


def nnls(A: Any, b: Any, *, maxiter: int | None = None, atol: Any = None) -> tuple[Tensor, Tensor]:
    """Return the x without negative elements for which `A @ x` is nearest to `b`, and the distance.

    Both are differentiable by `A` and `b`. Elements that are zero have no derivative.

    Args:
        A: a matrix.
        b: a vector.
        maxiter: as SciPy's.
        atol: has no effect, as in SciPy.

    Raises:
        RuntimeError: there were too many iterations.

    Source: scipy.optimize.nnls.

    Example:
        >>> from asyncgrad.scipy import optimize
        >>> x, distance = optimize.nnls([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [2.0, 1.0, -1.0])
        >>> x.tolist(), round(distance.item(), 4)
        ([1.5, 0.0], 1.2247)
    """
    matrix, target = floating(A), floating(b)
    if target.ndim == 2 and target.shape[1] == 1:
        target = target[:, 0]
    x, distance = optimize.nnls(array_of(matrix), array_of(target), maxiter=maxiter)
    if not (is_grad_enabled() and (matrix.requires_grad or target.requires_grad)):
        return asarray(x), asarray(float(distance))
    solution = _with_free(matrix, target, x, x > 0)
    return solution, np.linalg.norm(matrix @ solution - target)


def lsq_linear(
    A: Any,
    b: Any,
    bounds: Any = (-np.inf, np.inf),
    method: str = "trf",
    tol: float = 1e-10,
    lsq_solver: str | None = None,
    lsmr_tol: Any = None,
    max_iter: int | None = None,
    verbose: int = 0,
    *,
    lsmr_maxiter: int | None = None,
) -> Any:
    """Return SciPy's result for the x between bounds for which `A @ x` is nearest to `b`.

    `x`, `fun` and `cost` are differentiable by `A`, `b` and the bounds. Elements of `x` at a bound move with it alone.

    Args:
        A: a matrix.
        b: a vector.
        bounds: as SciPy's.
        method: as SciPy's.
        tol: as SciPy's.
        lsq_solver: as SciPy's.
        lsmr_tol: as SciPy's.
        max_iter: as SciPy's.
        verbose: as SciPy's.
        lsmr_maxiter: as SciPy's.

    Raises:
        ValueError: `bounds` are not a pair.

    Source: scipy.optimize.lsq_linear.

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad.scipy import optimize
        >>> highest = ag.tensor([9.0, 0.5], requires_grad=True)
        >>> found = optimize.lsq_linear([[1.0, 1.0], [0.0, 1.0]], [3.0, 1.0], ([0.0, 0.0], highest))
        >>> found.x.tolist(), ag.sync.grad(found.x[0], highest)[0].tolist()
        ([2.5, 0.5], [0.0, -1.0])
    """
    matrix, target = floating(A), floating(b)
    lower, upper, plain = _ends(bounds)
    options = {"lsq_solver": lsq_solver, "lsmr_tol": lsmr_tol, "max_iter": max_iter, "verbose": verbose}
    found = optimize.lsq_linear(
        array_of(matrix), array_of(target), plain, method, tol, lsmr_maxiter=lsmr_maxiter, **options
    )
    if is_grad_enabled() and any(one.requires_grad for one in (matrix, target, lower, upper)):
        formula = _solution(found, matrix, target, lower, upper)
        found.x = found.x + (formula - formula.detach())
        found.fun = matrix @ found.x - target
        found.cost = np.sum(found.fun**2) / 2
    else:
        found.x, found.fun, found.cost = asarray(found.x), asarray(found.fun), asarray(float(found.cost))
    return found


def _ends(bounds: Any) -> tuple[Any, Any, Any]:
    """Return both bounds with their history, and what SciPy takes."""
    is_object = isinstance(bounds, optimize.Bounds)
    if not is_object and len(bounds) != 2:
        raise ValueError(f"scipy.optimize.lsq_linear takes as bounds a lower and an upper one, not {len(bounds)}")
    lower, upper = map(floating, (bounds.lb, bounds.ub) if is_object else bounds)
    ends = array_of(lower), array_of(upper)
    return lower, upper, optimize.Bounds(*ends) if is_object else ends


def _solution(found: Any, matrix: Any, target: Any, lower: Any, upper: Any) -> Any:
    """Return the x of SciPy's result as a function of the problem: numbers that are nearly its own, with a history."""
    low, high = array_of(lower), array_of(upper)
    # SciPy's mask leaves out what it has stopped next to a bound, and its x is not exactly that of the formula.
    is_free = free_elements(found.x, low, high)
    mask = found.active_mask == 0
    is_low = np.abs(found.x - low) <= np.abs(high - found.x)
    fixed = np.where(is_low, lower, upper) if lower.requires_grad or upper.requires_grad else found.x
    return _with_free(matrix, target, fixed, mask if is_free is None else mask & is_free)


def _with_free(matrix: Any, target: Any, x: Any, is_free: Any) -> Any:
    """Return x as the function of a matrix, a right-hand side and its fixed elements that its free elements are."""
    (free,) = np.nonzero(is_free)
    fixed = np.where(is_free, 0.0, x)
    if not free.size:
        return asarray(fixed)
    found, *_ = np.linalg.lstsq(matrix[:, free], target - matrix @ fixed)
    return np.eye(x.size)[:, free] @ found + fixed
