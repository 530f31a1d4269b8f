"""Eigenvalues and eigenvectors.

A normalized eigenvector is unique up to its phase if it is complex, and up to its sign if it is real. So a loss that
depends on the phase has no derivative. Neither has a loss that depends on single eigenvectors of a repeated eigenvalue.
The backward raises an error in both cases.

As in PyTorch, the gradient of a Hermitian matrix is Hermitian. NumPy's functions of Hermitian matrices read one
triangle; where the other does not mirror it, the gradient lies in the one that is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...errors import GraphError
from ..arrays.axes import array_like
from ..arrays.device_arrays import eye_like, largest_size, named
from ..arrays.tensor_base import TensorBase
from ..arrays.values import arange_like, is_device_array, raw, zeros_like
from ..recording.decomposition import decomposition, joint_derivative
from ..recording.primitive import RULES, derivative, primitive
from ..settings.context import GRAD_MODE
from .linear_algebra import adjoint, product

if TYPE_CHECKING:
    from ..arrays.array import Array


__all__ = [
    "are_distinct",
    "check_distinct",
    "check_phases",
    "divide_by_gaps",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "gaps",
    "scale_columns",
]


#: The classes of NumPy's results, which it does not export.
_EighResult, _EigResult = type(np.linalg.eigh(np.ones((1, 1)))), type(np.linalg.eig(np.ones((1, 1))))


# Functions that the formulas of eigenvectors and of singular vectors share.


def scale_columns(x: Any, factors: Any) -> Any:
    """Return matrices with column i multiplied by factor i."""
    return x * factors[..., np.newaxis, :]


def gaps(values: Any) -> Any:
    """Return matrices of differences, with `values[j] - values[i]` in row i and column j."""
    return values[..., np.newaxis, :] - values[..., np.newaxis]


def are_distinct(values: Any) -> Any:
    """Return matrices that tell whether values i and j differ by more than the rounding error of the largest value."""
    values = raw(values)
    rounding = np.finfo(values.dtype).eps * largest_size(values)
    return np.abs(gaps(values)) > rounding[..., np.newaxis]


def divide_by_gaps(x: Any, differences: Any, distinct: Any) -> Any:
    """Return matrices divided by `differences`, with 0 where the two values are not `distinct`."""
    return np.where(distinct, x / np.where(distinct, differences, 1), 0)


def check_distinct(name: str, what: str, distinct: Any, *grads: Any) -> None:
    """Raise if the loss depends on single vectors of a repeated value.

    Args:
        name: of the function.
        what: "eigenvalues" or "singular values".
        distinct: what `are_distinct` returned.
        *grads: the gradients of the vectors, in columns; None if undefined.

    Raises:
        GraphError: the gradient of a vector of a repeated value is not 0.
    """
    side = distinct.shape[-1]
    repeated = ~(distinct | eye_like(distinct, side, bool))
    if not repeated.any():
        return
    used = zeros_like(distinct, (*distinct.shape[:-2], side))
    for grad in grads:
        if grad is not None:
            used = used | (raw(grad) != 0).any(-2)
    found = np.argwhere(repeated & used[..., np.newaxis, :])
    if len(found):
        *_, first, second = (int(index) for index in found[0])
        raise GraphError(
            f"{name}: the loss depends on single vectors of equal {what} (numbers {first} and {second}), which have "
            "no derivative. Compute the loss from the values or from the matrix itself, or perturb the matrix so "
            "that the values differ"
        )


def check_phases(name: str, projected: Any) -> None:
    """Raise if the loss depends on the phases of complex vectors.

    Args:
        name: of the function.
        projected: `v.conj().mT @ gv`, for vectors `v` and their gradients `gv`. Its diagonal is real if the loss does
            not depend on phases.

    Raises:
        GraphError: the diagonal is not real.
    """
    projected = raw(projected)
    if projected.dtype.kind != "c" or not projected.size:
        return
    tolerance = np.finfo(projected.dtype).eps ** 0.5
    phases = np.abs(np.diagonal(projected, 0, -2, -1).imag)
    if (phases > tolerance * (1 + np.abs(projected).max((-2, -1), keepdims=True)[..., 0])).any():
        raise GraphError(
            f"{name}: the loss depends on the phases of complex vectors, which are arbitrary, so it has no derivative. "
            "Compute the loss from values that do not depend on the phase, such as np.abs(v) or the projections "
            "v[:, [i]] @ v[:, [i]].conj().mT"
        )


# Hermitian matrices.


@decomposition
def eigh_(a: Any, UPLO: Literal["L", "U"]) -> Any:
    """Return the eigenvalues of Hermitian matrices in ascending order, and their eigenvectors in columns."""
    return named(np.linalg.eigh(a, UPLO), _EighResult)


@joint_derivative(eigh_)
def _(gw: Any, gv: Any, w: Any, v: Any) -> Any:
    inner: Any = None if gw is None else scale_columns(v, gw)
    if gv is not None:
        distinct = are_distinct(w)
        check_distinct("numpy.linalg.eigh", "eigenvalues", distinct, gv)
        projected = product(adjoint(v), gv)
        check_phases("numpy.linalg.eigh", projected)
        projected = product(v, divide_by_gaps((projected - adjoint(projected)) / 2, gaps(w), distinct))
        inner = projected if inner is None else inner + projected
    return product(inner, adjoint(v))


def mirrored(a: Any, UPLO: str) -> Any:
    """Return Hermitian matrices made of one triangle; those given, if the other one mirrors it up to rounding.

    Arrays of another library are returned as they are: to compare them would wait for their device.
    """
    data: Any = raw(a)
    is_recorded = isinstance(a, TensorBase) and a._requires_grad() and GRAD_MODE.get()
    if not is_recorded or is_device_array(data) or not data.size or data.ndim < 2 or data.shape[-1] != data.shape[-2]:
        return a
    limit = 16 * np.finfo(data.dtype).eps * np.abs(data).max()
    if UPLO not in ("L", "U", "l", "u") or not np.abs(data - data.conj().swapaxes(-1, -2)).max() > limit:
        return a
    triangle: Any = np.tril(a, -1) if UPLO in "Ll" else np.triu(a, 1)
    return triangle + adjoint(triangle) + np.real(a) * np.eye(data.shape[-1], dtype=data.real.dtype)


def eigh(a: Any, UPLO: str = "L") -> Any:
    """Return the eigenvalues and eigenvectors of Hermitian matrices; only one triangle is read."""
    return eigh_(mirrored(array_like(a), UPLO), UPLO)


RULES[np.linalg.eigh] = eigh


@primitive(superlinear=True)
def eigvalsh_(a: Any, UPLO: Literal["L", "U"]) -> Array:
    """Return the eigenvalues of Hermitian matrices in ascending order."""
    return np.linalg.eigvalsh(a, UPLO)


@derivative(eigvalsh_, "a")
def _(g: Array, a: Array, UPLO: str) -> Array:
    _, v = eigh(a, UPLO)
    return product(scale_columns(v, g), adjoint(v))


def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    """Return the eigenvalues of Hermitian matrices in ascending order; only one triangle is read."""
    return eigvalsh_(mirrored(array_like(a), UPLO), UPLO)


RULES[np.linalg.eigvalsh] = eigvalsh


# General square matrices.


@decomposition
def eig_(a: Any) -> Any:
    """Return the eigenvalues of square matrices, and their eigenvectors in columns."""
    return named(np.linalg.eig(a), _EigResult)


@joint_derivative(eig_)
def _(gw: Any, gv: Any, w: Any, v: Any) -> Any:
    rows = adjoint(v)
    inner: Any = None if gw is None else gw[..., np.newaxis] * rows
    if gv is not None:
        distinct = are_distinct(w)
        check_distinct("numpy.linalg.eig", "eigenvalues", distinct, gv)
        projected = product(rows, gv)
        check_phases("numpy.linalg.eig", projected)
        # Eigenvectors have length 1, so their derivative along themselves is 0.
        along = np.real(np.diagonal(projected, 0, -2, -1))
        residual = projected - scale_columns(product(rows, v), along)
        projected = product(divide_by_gaps(residual, np.conjugate(gaps(w)), distinct), rows)
        inner = projected if inner is None else inner + projected
    return np.linalg.solve(rows, inner)


def eig(a: Any) -> Any:
    """Return the eigenvalues and eigenvectors of square matrices."""
    return eig_(array_like(a))


RULES[np.linalg.eig] = eig


@primitive(np.linalg.eigvals, superlinear=True)
def eigvals_(a: Any) -> Array:
    """Return the eigenvalues of square matrices."""
    return np.linalg.eigvals(a)


@derivative(eigvals_, "a")
def _(g: Any, a: Array, out: Array) -> Array:
    w, v = np.linalg.eig(a)
    # LAPACK may order the values differently when it computes no vectors.
    places = _match_nearest(raw(out), raw(w))
    g = product(g[..., np.newaxis, :], places.astype(g.dtype))
    rows = v.mT
    return np.linalg.solve(rows, g.mT * rows)


def _match_nearest(values: Any, others: Any) -> Any:
    """Return a matrix that tells for each value, in its row, which of the others is nearest to it."""
    if not values.size:
        return zeros_like(values, (*values.shape, values.shape[-1]), bool)
    nearest = np.argmin(np.abs(values[..., np.newaxis] - others[..., np.newaxis, :]), -1)
    return nearest[..., np.newaxis] == arange_like(values, values.shape[-1])


eigvals: Callable[..., Any] = eigvals_.call
