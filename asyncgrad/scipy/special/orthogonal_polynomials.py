"""Orthogonal polynomials, and the functions that they are where the degree is no whole number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.axes import array_like
from ...core.arrays.values import constant_copy, raw
from ...core.recording.primitive import Primitive, derivative, primitive
from ..arguments import floating
from ..ufuncs import special
from .gamma_functions import rgamma_slope
from .polynomials_by_parameters import is_whole, jacobi_slope, laguerre_slope
from .rules import differentiable

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = [
    "diric",
    "eval_chebyc",
    "eval_chebys",
    "eval_chebyt",
    "eval_chebyu",
    "eval_gegenbauer",
    "eval_genlaguerre",
    "eval_hermite",
    "eval_hermitenorm",
    "eval_jacobi",
    "eval_laguerre",
    "eval_legendre",
    "eval_sh_chebyt",
    "eval_sh_chebyu",
    "eval_sh_jacobi",
    "eval_sh_legendre",
]


def _is_integer(n: Any) -> bool:
    return np.asarray(raw(n)).dtype.kind in "iu" or is_whole(n)


def _below(n: Any) -> Any:
    """Return the degree below; of whole numbers, at least 0."""
    # As integers: SciPy's functions of real degrees lose their digits for great ones.
    return np.asarray(np.maximum(raw(n), 1)).astype(np.int64) - 1 if _is_integer(n) else n - 1


def _growing(n: Any) -> Any:
    """Return where a function of this degree is not constant; of whole numbers, those above 0."""
    return np.sign(np.maximum(raw(n), 0)) if _is_integer(n) else 1.0


# Jacobi's.


def _jacobi_by_x(n: Any, alpha: Any, beta: Any, x: Any) -> Any:
    return _growing(n) * (n + alpha + beta + 1) / 2 * special.eval_jacobi(_below(n), alpha + 1, beta + 1, x)


eval_jacobi: Primitive = differentiable(
    special.eval_jacobi,
    "n alpha beta x",
    n=lambda g, n, alpha, beta, x: g * jacobi_slope(n, alpha, beta, x, "n"),
    alpha=lambda g, n, alpha, beta, x: g * jacobi_slope(n, alpha, beta, x, "alpha"),
    beta=lambda g, n, alpha, beta, x: g * jacobi_slope(n, alpha, beta, x, "beta"),
    x=lambda g, n, alpha, beta, x: g * _jacobi_by_x(n, alpha, beta, x),
)

# eval_sh_jacobi(n, p, q, x) is eval_jacobi(n, p - q, q - 1, 2 * x - 1) / binom(2 * n + p - 1, n).


def _shifted_jacobi_by(n: Any, p: Any, q: Any, x: Any, out: Any, parameter: str) -> Any:
    def slope(of: str) -> Any:
        return jacobi_slope(n, p - q, q - 1, 2 * x - 1, of)

    scale = special.binom(2 * n + p - 1, n)
    if parameter == "q":
        return (slope("beta") - slope("alpha")) / scale
    by_scale = special.psi(2 * n + p) - special.psi(n + p)
    if parameter == "p":
        return slope("alpha") / scale - out * by_scale
    return slope("n") / scale - out * (by_scale + special.psi(2 * n + p) - special.psi(n + 1))


eval_sh_jacobi: Primitive = differentiable(
    special.eval_sh_jacobi,
    "n p q x",
    n=lambda g, n, p, q, x, out: g * _shifted_jacobi_by(n, p, q, x, out, "n"),
    p=lambda g, n, p, q, x, out: g * _shifted_jacobi_by(n, p, q, x, out, "p"),
    q=lambda g, n, p, q, x, out: g * _shifted_jacobi_by(n, p, q, x, out, "q"),
    x=lambda g, n, p, q, x: g * _shifted_jacobi_by_x(n, p, q, x),
)


def _shifted_jacobi_by_x(n: Any, p: Any, q: Any, x: Any) -> Any:
    slope = 2 * _jacobi_by_x(n, p - q, q - 1, 2 * x - 1)
    return slope / special.binom(2 * n + p - 1, n)


# Gegenbauer's, and those of Legendre and Chebyshev, which are multiples of some.


def _gegenbauer_by_parameters(n: Any, alpha: Any, x: Any, out: Any, *, of_degree: bool) -> Any:
    """Return the derivative of gamma(n + 2a) gamma(a + 1/2) / (gamma(2a) gamma(n + a + 1/2)) times Jacobi's."""
    half = alpha - 0.5
    if of_degree:
        moved = jacobi_slope(n, half, half, x, "n")
        by_scale = special.psi(n + 2 * alpha) - special.psi(n + alpha + 0.5)
    else:
        moved = jacobi_slope(n, half, half, x, "alpha") + jacobi_slope(n, half, half, x, "beta")
        by_scale = 2 * special.psi(n + 2 * alpha) + special.psi(alpha + 0.5) - special.psi(n + alpha + 0.5)
    logarithm = special.gammaln(n + 2 * alpha) + special.gammaln(alpha + 0.5) - special.gammaln(n + alpha + 0.5)
    scale = special.gammasgn(raw(n) + 2 * raw(alpha)) * np.exp(logarithm)
    reciprocal = special.rgamma(2 * alpha)
    slope = reciprocal * (moved + by_scale * special.eval_jacobi(n, half, half, x))
    if not of_degree:
        slope = slope + 2 * rgamma_slope(2 * alpha) * special.eval_jacobi(n, half, half, x)
    # The whole degree 0 is 1, also where gamma(2a) is infinite.
    constant = (np.asarray(raw(n)) == 0) & _is_integer(n)
    return np.where(constant, 0.0, np.where(constant, 1.0, scale) * slope)


def _gegenbauer_by_x(n: Any, alpha: Any, x: Any) -> Any:
    if _is_integer(n):
        return _growing(n) * 2 * alpha * special.eval_gegenbauer(_below(n), alpha + 1, x)
    # SciPy's has no value below the degree -1, which the next derivatives ask for; Jacobi's has. The factor is
    # poch(2 * alpha, n) / poch(alpha + 0.5, n), which would overflow.
    scale = special.poch(n + alpha + 0.5, alpha - 0.5) / special.poch(alpha + 0.5, alpha - 0.5)
    return scale * _jacobi_by_x(n, alpha - 0.5, alpha - 0.5, x)


eval_gegenbauer: Primitive = differentiable(
    special.eval_gegenbauer,
    "n alpha x",
    n=lambda g, n, alpha, x, out: g * _gegenbauer_by_parameters(n, alpha, x, out, of_degree=True),
    alpha=lambda g, n, alpha, x, out: g * _gegenbauer_by_parameters(n, alpha, x, out, of_degree=False),
    x=lambda g, n, alpha, x: g * _gegenbauer_by_x(n, alpha, x),
)


def _legendre_by_x(n: Any, x: Any) -> Any:
    # Below 0 the whole numbers begin anew: that of -n - 1 is that of n.
    degree = np.where(raw(n) < 0, -1 - raw(n), raw(n)) if _is_integer(n) else n
    return _gegenbauer_by_x(degree, 0.5, x)


eval_legendre: Primitive = differentiable(
    special.eval_legendre,
    "n x",
    n=lambda g, n, x: g * jacobi_slope(n, 0.0, 0.0, x, "n"),
    x=lambda g, n, x: g * _legendre_by_x(n, x),
)
eval_sh_legendre: Primitive = differentiable(
    special.eval_sh_legendre,
    "n x",
    n=lambda g, n, x: g * jacobi_slope(n, 0.0, 0.0, 2 * x - 1, "n"),
    x=lambda g, n, x: g * (2 * _legendre_by_x(n, 2 * x - 1)),
)


def _angle_over_sine(x: Any) -> Any:
    """Return arccos(x) / sqrt(1 - x**2), and what it becomes for x >= 1."""
    return special.hyp2f1(1.0, 1.0, 1.5, (1 - x) / 2)


def _first_chebyshev_by_degree(n: Any, x: Any) -> Any:
    at_left = raw(x) == -1
    if np.any(at_left):
        # There a sine is 0 that the other formula divides by.
        safe = np.where(at_left, 0.0, x)
        return np.where(at_left, -np.pi * np.sin(np.pi * n), _first_chebyshev_by_degree(n, safe))
    return _angle_over_sine(x) * (x * x - 1) * special.eval_chebyu(n - 1, x)


def _second_chebyshev_by_degree(n: Any, x: Any) -> Any:
    return _angle_over_sine(x) * special.eval_chebyt(n + 1, x)


def _first_chebyshev_by_x(n: Any, x: Any) -> Any:
    # That of degree -1 is 0, but for SciPy only where it is a polynomial.
    below = np.where(raw(n) == 0, 0, raw(n) - 1).astype(np.int64) if _is_integer(n) else n - 1
    return n * special.eval_chebyu(below, x)


def _second_chebyshev_by_x(n: Any, x: Any) -> Any:
    # That of -n - 2 is minus that of n.
    is_low = raw(n) < -1
    degree = raw(n) if _is_integer(n) else n
    if not np.any(is_low):
        return _gegenbauer_by_x(degree, 1.0, x)
    return np.where(is_low, -1.0, 1.0) * _gegenbauer_by_x(np.where(is_low, -2 - degree, degree), 1.0, x)


eval_chebyt: Primitive = differentiable(
    special.eval_chebyt,
    "n x",
    n=lambda g, n, x: g * _first_chebyshev_by_degree(n, x),
    x=lambda g, n, x: g * _first_chebyshev_by_x(n, x),
)
eval_chebyu: Primitive = differentiable(
    special.eval_chebyu,
    "n x",
    n=lambda g, n, x: g * _second_chebyshev_by_degree(n, x),
    x=lambda g, n, x: g * _second_chebyshev_by_x(n, x),
)
eval_chebyc: Primitive = differentiable(
    special.eval_chebyc,
    "n x",
    n=lambda g, n, x: g * (2 * _first_chebyshev_by_degree(n, x / 2)),
    x=lambda g, n, x: g * _first_chebyshev_by_x(n, x / 2),
)
eval_chebys: Primitive = differentiable(
    special.eval_chebys,
    "n x",
    n=lambda g, n, x: g * _second_chebyshev_by_degree(n, x / 2),
    x=lambda g, n, x: g * (_second_chebyshev_by_x(n, x / 2) / 2),
)
eval_sh_chebyt: Primitive = differentiable(
    special.eval_sh_chebyt,
    "n x",
    n=lambda g, n, x: g * _first_chebyshev_by_degree(n, 2 * x - 1),
    x=lambda g, n, x: g * (2 * _first_chebyshev_by_x(n, 2 * x - 1)),
)
eval_sh_chebyu: Primitive = differentiable(
    special.eval_sh_chebyu,
    "n x",
    n=lambda g, n, x: g * _second_chebyshev_by_degree(n, 2 * x - 1),
    x=lambda g, n, x: g * (2 * _second_chebyshev_by_x(n, 2 * x - 1)),
)


@primitive()
def dirichlet_kernel(x: Any, n: Any) -> Any:
    """Return sin(n * x / 2) / (n * sin(x / 2)), Chebyshev's polynomial of the second kind of cos(x / 2), over n."""
    return special.diric(x, n)


@derivative(dirichlet_kernel, "x")
def _(g: Any, x: Any, n: Any) -> Array:
    slope = _gegenbauer_by_x(np.asarray(n).astype(np.int64) - 1, 1.0, np.cos(x / 2))
    return g * (slope * np.sin(x / 2) / (-2 * np.asarray(n)))


def diric(x: Any, n: Any) -> Any:
    """Return Dirichlet's kernel, sin(n * x / 2) / (n * sin(x / 2)).

    Args:
        x: real numbers.
        n: whole numbers of at least 1; for others the result is nan.

    Source: scipy.special.diric.
    """
    return dirichlet_kernel(floating(x), constant_copy(array_like(n)))


# Laguerre's and Hermite's.

eval_genlaguerre: Primitive = differentiable(
    special.eval_genlaguerre,
    "n alpha x",
    n=lambda g, n, alpha, x: g * laguerre_slope(n, alpha, x, "n"),
    alpha=lambda g, n, alpha, x: g * laguerre_slope(n, alpha, x, "alpha"),
    x=lambda g, n, alpha, x: -g * (_growing(n) * special.eval_genlaguerre(_below(n), alpha + 1, x)),
)
eval_laguerre: Primitive = differentiable(
    special.eval_laguerre,
    "n x",
    n=lambda g, n, x: g * laguerre_slope(n, 0.0, x, "n"),
    x=lambda g, n, x: -g * (_growing(n) * special.eval_genlaguerre(_below(n), 1.0, x)),
)
eval_hermite: Primitive = differentiable(
    special.eval_hermite,
    "n x",
    n=lambda g: None,
    x=lambda g, n, x: g * (2 * raw(n) * special.eval_hermite(_below(n), x)),
)
eval_hermitenorm: Primitive = differentiable(
    special.eval_hermitenorm,
    "n x",
    n=lambda g: None,
    x=lambda g, n, x: g * (constant_copy(n) * special.eval_hermitenorm(_below(n), x)),
)
