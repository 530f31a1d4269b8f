"""Linear systems: inverses, solutions, determinants, Cholesky factors, of stacks of matrices too."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..graph.values import raw
from .axes import array_like
from .linear_algebra import product
from .nondifferentiable import NonDifferentiable
from .primitive import RULES, derivative, primitive
from .shaping import expand_dims, squeeze

__all__ = ["cholesky", "det", "inv", "slogdet", "solve"]


@primitive(np.linalg.inv, superlinear=True)
def inv_(a: Any) -> Any:
    """Return the inverses."""
    return np.linalg.inv(a)


@derivative(inv_, "a")
def _(g: Any, out: Any) -> Any:
    transposed = out.mT
    return -product(product(transposed, g), transposed)


inv = inv_.call


@primitive(superlinear=True)
def solve_(a: Any, b: Any) -> Any:
    """Return x with a @ x = b, for matrices b."""
    return np.linalg.solve(a, b)


@derivative(solve_, "a")
def _(g: Any, a: Any, out: Any) -> Any:
    return -product(_solve(a.mT, g), out.mT)


@derivative(solve_, "b")
def _(g: Any, a: Any) -> Any:
    return _solve(a.mT, g)


_solve = solve_.call


def solve(a: Any, b: Any) -> Any:
    """Return x with a @ x = b; a `b` with one axis is a vector."""
    a, b = array_like(a), array_like(b)
    return squeeze(_solve(a, expand_dims(b, -1)), -1) if b.ndim == 1 else _solve(a, b)


RULES[np.linalg.solve] = solve


# Determinants.


def slogdet(a: Any) -> tuple[Any, Any]:
    """Return the signs and the logarithms of the absolute values of determinants.

    The signs of real determinants have no derivative. The sign of a complex one is it over its absolute value.
    """
    sign = _complex_sign if a.dtype.kind == "c" else _real_sign
    return _SlogdetResult(sign(a), logarithm_of_determinant.call(a))


RULES[np.linalg.slogdet] = slogdet
#: The class of NumPy's results, which it does not export.
_SlogdetResult = type(np.linalg.slogdet(np.ones((1, 1))))


@NonDifferentiable
def _real_sign(a: Any) -> Any:
    """Return the signs of determinants."""
    return np.linalg.slogdet(a).sign


@primitive(superlinear=True)
def sign_of_determinant(a: Any) -> Any:
    """Return complex determinants over their absolute values."""
    return np.linalg.slogdet(a).sign


@derivative(sign_of_determinant, "a")
def _(g: Any, a: Any, out: Any) -> Any:
    # Only a turn of the determinant changes its sign.
    return _by_matrix(np.imag(g * out) * 1j) * np.linalg.inv(a).mT


_complex_sign = sign_of_determinant.call


def _by_matrix(factors: Any) -> Any:
    """Return factors, one for each matrix of a stack, with axes that broadcast over the matrices."""
    return factors.reshape((*factors.shape, 1, 1))


@primitive(superlinear=True)
def logarithm_of_determinant(a: Any) -> Any:
    """Return the logarithms of the absolute values of determinants."""
    return np.linalg.slogdet(a).logabsdet


@derivative(logarithm_of_determinant, "a")
def _(g: Any, a: Any) -> Any:
    return _by_matrix(g) * _adjoint(np.linalg.inv(a))


def _adjoint(x: Any) -> Any:
    """Return matrices transposed and, where they are complex, conjugated."""
    return np.conjugate(x.mT) if x.dtype.kind == "c" else x.mT


@primitive(np.linalg.det, superlinear=True)
def det_(a: Any) -> Any:
    """Return the determinants."""
    return np.linalg.det(a)


@derivative(det_, "a")
def _(g: Any, a: Any, out: Any) -> Any:
    if np.all(raw(out)):
        return _by_matrix(g * out) * np.linalg.inv(a).mT
    return _by_matrix(g) * _cofactors(a)


det = det_.call


def _cofactors(a: Any) -> Any:
    """Return the matrices of cofactors, for singular matrices too."""
    side = a.shape[-1]
    rows = []
    for row in range(side):
        others = [index for index in range(side) if index != row]
        left = a[..., others, :]
        rows.append(np.stack([(-1) ** (row + column) * det(_without(left, column)) for column in range(side)], axis=-1))
    return np.stack(rows, axis=-2)


def _without(a: Any, column: int) -> Any:
    return a[..., [index for index in range(a.shape[-1]) if index != column]]


# Cholesky.


@primitive(superlinear=True)
def cholesky_(a: Any, upper: bool) -> Any:
    """Return the triangular factors of positive definite matrices."""
    return np.linalg.cholesky(a, upper=upper) if upper else np.linalg.cholesky(a)


@derivative(cholesky_, "a")
def _(g: Any, out: Any, upper: bool) -> Any:
    lower, g = (_adjoint(out), _adjoint(g)) if upper else (out, g)
    inner = np.tril(product(lower.mT, g))
    inner = inner - 0.5 * inner * np.eye(out.shape[-1], dtype=out.dtype)
    gradient = _solve(lower.mT, _solve(_adjoint(lower), inner.mT).mT)
    # The matrix is Hermitian, and so is its gradient.
    return (gradient + _adjoint(gradient)) / 2


def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """Return the triangular factors of positive definite matrices."""
    return cholesky_(array_like(a), upper)


RULES[np.linalg.cholesky] = cholesky
