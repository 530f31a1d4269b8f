"""Points and weights of Gauss's quadrature by polynomials that have parameters, Jacobi's and Laguerre's.

The points are zeros of a polynomial, and follow its parameters as the implicit function theorem says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays.values import raw
from ...core.tensor import Tensor, asarray
from ..arguments import floating
from ..ufuncs import special

__all__ = [
    "cg_roots",
    "j_roots",
    "js_roots",
    "la_roots",
    "roots_gegenbauer",
    "roots_genlaguerre",
    "roots_jacobi",
    "roots_sh_jacobi",
]


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) else value


def _zeros(start: Any, value: Callable[[Any], Any], slope: Callable[[Any], Any]) -> Any:
    """Return zeros that follow the parameters of a function, as their derivatives do up to the third order.

    Each of two steps of Newton's method doubles the order to which they do.
    """
    points = start
    for _ in range(2):
        points = points - value(points) / slope(points)
    return points + (start - raw(points))


def _result(points: Any, weights: Any, known: Any, mu: bool) -> Any:
    """Return points and weights, these with SciPy's values; and the sum of the weights if it is asked for."""
    # Weights that vanish have no derivative.
    is_sound = (raw(weights) > 0) & (known[1] > 0)
    ratio = known[1] / np.where(is_sound, raw(weights), 1.0)
    weights = np.where(is_sound, np.where(is_sound, weights, 1.0) * ratio, known[1])
    return (points, weights, np.sum(weights) * (known[2] / known[1].sum())) if mu else (points, weights)


def _jacobi(known: Any, alpha: Any, beta: Any, mu: bool) -> Any:
    """Return points, and weights up to a constant factor, by those of SciPy."""
    start, n = known[0], len(known[0])

    def slope(x: Any) -> Any:
        return (n + alpha + beta + 1) / 2 * special.eval_jacobi(n - 1, alpha + 1, beta + 1, x)

    points = _zeros(start, lambda x: special.eval_jacobi(n, alpha, beta, x), slope)
    scale = special.gammaln(n + alpha + 1) + special.gammaln(n + beta + 1) - special.gammaln(n + alpha + beta + 1)
    factor = np.exp(scale + (alpha + beta) * np.log(2.0) - special.gammaln(n + 1.0))
    weights = factor / ((1 - points * points) * np.square(slope(points)))
    return _result(points, weights, known, mu)


def roots_jacobi(n: int, alpha: Any, beta: Any, mu: bool = False) -> Any:
    """Return the points and weights of Gauss and Jacobi's quadrature, as `scipy.special.roots_jacobi`.

    Args:
        n: how many, a whole number of at least 1.
        alpha: the exponent of 1 - x in the weight function, greater than -1.
        beta: the exponent of 1 + x, greater than -1.
        mu: whether to return the sum of the weights, too.

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad.scipy import special
        >>> alpha = ag.tensor(0.0, requires_grad=True)
        >>> points, weights = special.roots_jacobi(1, alpha, 0.0)
        >>> ag.sync.backward(points.sum())
        >>> alpha.grad.item()
        -0.5
    """
    known = special.roots_jacobi(n, _number(alpha), _number(beta), True)
    return _jacobi(known, floating(alpha), floating(beta), mu)


def roots_gegenbauer(n: int, alpha: Any, mu: bool = False) -> Any:
    """Return the points and weights of Gauss and Gegenbauer's quadrature, as `scipy.special.roots_gegenbauer`.

    Args:
        n: how many, a whole number of at least 1.
        alpha: the parameter, greater than -1/2.
        mu: whether to return the sum of the weights, too.
    """
    known = special.roots_gegenbauer(n, _number(alpha), True)
    exponent = floating(alpha) - 0.5
    return _jacobi(known, exponent, exponent, mu)


def roots_sh_jacobi(n: int, p1: Any, q1: Any, mu: bool = False) -> Any:
    """Return the points and weights of Gauss and Jacobi's quadrature on (0, 1), as `scipy.special.roots_sh_jacobi`.

    Args:
        n: how many, a whole number of at least 1.
        p1: the first parameter, greater than `q1` - 1.
        q1: the second parameter, greater than 0.
        mu: whether to return the sum of the weights, too.
    """
    # SciPy's checks, and its values.
    special.roots_sh_jacobi(n, _number(p1), _number(q1))
    points, weights, total = roots_jacobi(n, floating(p1) - q1, floating(q1) - 1, True)
    scale = 2.0 ** floating(p1)
    found = (points + 1) / 2, weights / scale
    return (*found, total / scale) if mu else found


def roots_genlaguerre(n: int, alpha: Any, mu: bool = False) -> Any:
    """Return the points and weights of Gauss and Laguerre's quadrature, as `scipy.special.roots_genlaguerre`.

    Args:
        n: how many, a whole number of at least 1.
        alpha: the exponent of x in the weight function, greater than -1.
        mu: whether to return the sum of the weights, too.
    """
    known = special.roots_genlaguerre(n, _number(alpha), True)
    alpha = floating(alpha)

    def slope(x: Any) -> Any:
        return -special.eval_genlaguerre(n - 1, alpha + 1, x)

    points = _zeros(asarray(known[0]), lambda x: special.eval_genlaguerre(n, alpha, x), slope)
    # By logarithms: the squares overflow for many points.
    logarithms = special.gammaln(n + alpha + 1) - special.gammaln(n + 1.0) - 2 * np.log(np.abs(slope(points)))
    weights = np.exp(logarithms) / points
    return _result(points, weights, known, mu)


j_roots = roots_jacobi
js_roots = roots_sh_jacobi
cg_roots = roots_gegenbauer
la_roots = roots_genlaguerre
