"""Eigenvalues and eigenvectors.

Eigenvectors are known up to a factor, the phase of a complex number, or up to a sign where they are real. A loss that
depends on a phase has no derivative, nor has one that depends on single eigenvectors of an eigenvalue that is there
more than once. Both are refused by the backward. A Hermitian matrix has a Hermitian gradient, as in PyTorch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import GraphError
from ..graph.values import arange_beside, raw, zeros_beside
from .axes import array_like
from .decomposition import decomposition, joint_derivative
from .foreign import eye_beside, largest_size, named
from .linear_algebra import adjoint, product
from .primitive import RULES, derivative, primitive

__all__ = [
    "check_distinct",
    "check_phases",
    "columns_times",
    "distinct_up_to_rounding",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "gaps",
    "over_gaps",
]


#: The classes of NumPy's results, which it does not export.
_EighResult, _EigResult = type(np.linalg.eigh(np.ones((1, 1)))), type(np.linalg.eig(np.ones((1, 1))))


# What the formulas of eigenvectors and of singular vectors share.


def columns_times(x: Any, factors: Any) -> Any:
    """Return matrices with each column times a number of its own."""
    return x * factors[..., np.newaxis, :]


def gaps(values: Any) -> Any:
    """Return matrices of differences: of value j and value i in row i and column j."""
    return values[..., np.newaxis, :] - values[..., np.newaxis]


def distinct_up_to_rounding(values: Any) -> Any:
    """Tell of each two values in a row whether they differ by more than a rounding of the largest."""
    values = raw(values)
    rounding = np.finfo(values.dtype).eps * largest_size(values)
    return np.abs(gaps(values)) > rounding[..., np.newaxis]


def over_gaps(x: Any, differences: Any, distinct: Any) -> Any:
    """Return matrices over differences, with 0 where there is none."""
    return np.where(distinct, x / np.where(distinct, differences, 1), 0)


def check_distinct(name: str, what: str, distinct: Any, *grads: Any) -> None:
    """Raise if a loss depends on single vectors of a value that is there more than once.

    Args:
        name: of the function.
        what: whose vectors they are: eigenvalues, or singular values.
        distinct: which two of the values in a row differ.
        *grads: of the vectors, in columns; None where it is undefined.

    Raises:
        GraphError: it does.
    """
    side = distinct.shape[-1]
    repeated = ~(distinct | eye_beside(side, bool, distinct))
    if not repeated.any():
        return
    used = zeros_beside((*distinct.shape[:-2], side), distinct)
    for grad in grads:
        if grad is not None:
            used = used | (raw(grad) != 0).any(-2)
    found = np.argwhere(repeated & used[..., np.newaxis, :])
    if len(found):
        *_, first, second = (int(index) for index in found[0])
        raise GraphError(
            f"{name}: the loss depends on single vectors of {what} that are equal (numbers {first} and {second}), and "
            "these have no derivative. Compute the loss without them, from the values or from the matrix itself, or "
            "add something to the matrix that makes the values differ"
        )


def check_phases(name: str, turned: Any) -> None:
    """Raise if a loss depends on the phases of complex vectors.

    Args:
        name: of the function.
        turned: the products of each vector, conjugated, with the gradient of each: their diagonal is real where
            another phase makes no difference.

    Raises:
        GraphError: it does.
    """
    turned = raw(turned)
    if turned.dtype.kind != "c" or not turned.size:
        return
    tolerance = np.finfo(turned.dtype).eps ** 0.5
    phases = np.abs(np.diagonal(turned, 0, -2, -1).imag)
    if (phases > tolerance * (1 + np.abs(turned).max((-2, -1), keepdims=True)[..., 0])).any():
        raise GraphError(
            f"{name}: the loss depends on the phases of complex vectors, which are known up to a phase, so that it has "
            "no derivative. Compute the loss from what every phase leaves as it is, such as np.abs(v), or the "
            "projections v[:, [i]] @ v[:, [i]].conj().mT"
        )


# Hermitian matrices.


@decomposition
def eigh_(a: Any, UPLO: str) -> Any:
    """Return the eigenvalues of Hermitian matrices, in rising order, and their eigenvectors, in columns."""
    return named(np.linalg.eigh(a, UPLO), _EighResult)  # type: ignore[call-overload]


@joint_derivative(eigh_)
def _(gw: Any, gv: Any, w: Any, v: Any) -> Any:
    inner: Any = None if gw is None else columns_times(v, gw)
    if gv is not None:
        distinct = distinct_up_to_rounding(w)
        check_distinct("numpy.linalg.eigh", "eigenvalues", distinct, gv)
        turned = product(adjoint(v), gv)
        check_phases("numpy.linalg.eigh", turned)
        turned = product(v, over_gaps((turned - adjoint(turned)) / 2, gaps(w), distinct))
        inner = turned if inner is None else inner + turned
    return product(inner, adjoint(v))


def eigh(a: Any, UPLO: str = "L") -> Any:
    """Return the eigenvalues and eigenvectors of Hermitian matrices, of which one triangle is read."""
    return eigh_(array_like(a), UPLO)


RULES[np.linalg.eigh] = eigh


@primitive(np.linalg.eigvalsh, superlinear=True)
def eigvalsh_(a: Any, UPLO: str = "L") -> Any:
    """Return the eigenvalues of Hermitian matrices, in rising order."""
    return np.linalg.eigvalsh(a, UPLO)  # type: ignore[call-overload]


@derivative(eigvalsh_, "a")
def _(g: Any, a: Any, UPLO: str) -> Any:
    _, v = eigh(a, UPLO)
    return product(columns_times(v, g), adjoint(v))


eigvalsh = eigvalsh_.call


# Others.


@decomposition
def eig_(a: Any) -> Any:
    """Return the eigenvalues of square matrices, and their eigenvectors, in columns."""
    return named(np.linalg.eig(a), _EigResult)


@joint_derivative(eig_)
def _(gw: Any, gv: Any, w: Any, v: Any) -> Any:
    rows = adjoint(v)
    inner: Any = None if gw is None else gw[..., np.newaxis] * rows
    if gv is not None:
        distinct = distinct_up_to_rounding(w)
        check_distinct("numpy.linalg.eig", "eigenvalues", distinct, gv)
        turned = product(rows, gv)
        check_phases("numpy.linalg.eig", turned)
        # A vector has length 1, and does not move along itself.
        along = np.real(np.diagonal(turned, 0, -2, -1))
        away = turned - columns_times(product(rows, v), along)
        turned = product(over_gaps(away, np.conjugate(gaps(w)), distinct), rows)
        inner = turned if inner is None else inner + turned
    return np.linalg.solve(rows, inner)


def eig(a: Any) -> Any:
    """Return the eigenvalues and eigenvectors of square matrices."""
    return eig_(array_like(a))


RULES[np.linalg.eig] = eig


@primitive(np.linalg.eigvals, superlinear=True)
def eigvals_(a: Any) -> Any:
    """Return the eigenvalues of square matrices."""
    return np.linalg.eigvals(a)


@derivative(eigvals_, "a")
def _(g: Any, a: Any, out: Any) -> Any:
    w, v = np.linalg.eig(a)
    # Without the vectors, LAPACK may find the values in another order.
    places = _places(raw(out), raw(w))
    g = product(g[..., np.newaxis, :], places.astype(g.dtype))
    rows = v.mT
    return np.linalg.solve(rows, g.mT * rows)


def _places(values: Any, others: Any) -> Any:
    """Tell of each value which of the others, in another order maybe, is the nearest."""
    if not values.size:
        return zeros_beside((*values.shape, values.shape[-1]), values, bool)
    nearest = np.argmin(np.abs(values[..., np.newaxis] - others[..., np.newaxis, :]), -1)
    return nearest[..., np.newaxis] == arange_beside(values.shape[-1], values)


eigvals = eigvals_.call
