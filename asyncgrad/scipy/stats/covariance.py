"""Covariances of several variables by a decomposition of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np

from ...core.arrays.values import raw
from ...core.ops.linear_algebra import product
from ..arguments import floating

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["Covariance"]


@final
class Covariance:
    """A covariance matrix that is known by a root of it, as `scipy.stats.Covariance`.

    Make one by `from_diagonal`, `from_cholesky`, `from_precision` or `from_eigendecomposition`, and pass it as `cov` to
    `multivariate_normal`. It is differentiable by what it is made of.

    Attributes:
        covariance: the matrix, shape (d, d).
        log_pdet: the logarithm of its determinant.
        rank: how many variables there are, d.
        shape: (d, d).

    Example:
        >>> from asyncgrad.scipy import stats
        >>> cov = stats.Covariance.from_diagonal([1.0, 4.0])
        >>> stats.multivariate_normal.logpdf([0.0, 2.0], cov=cov).shape
        ()
    """

    __slots__ = ("_root", "covariance", "log_pdet")

    def __init__(self, root: Any, log_pdet: Any) -> None:
        """Take a matrix whose product with its transpose is the covariance."""
        self._root = root
        self.log_pdet: Any = log_pdet
        self.covariance: Any = product(root, root.T)

    @staticmethod
    def from_diagonal(diagonal: Any) -> Covariance:
        """Return the covariance of independent variables, by their variances, shape (d,)."""
        variances = floating(diagonal)
        _check_positive("from_diagonal", "variances", variances)
        return Covariance(np.sqrt(variances)[:, np.newaxis] * np.eye(variances.shape[0]), np.sum(np.log(variances)))

    @staticmethod
    def from_cholesky(cholesky: Any) -> Covariance:
        """Return the covariance of a lower triangular factor, shape (d, d)."""
        factor = floating(cholesky)
        _check_square("from_cholesky", factor)
        factor = np.tril(factor)
        return Covariance(factor, 2 * np.sum(np.log(np.abs(np.diagonal(factor)))))

    @staticmethod
    def from_precision(precision: Any, covariance: Any = None) -> Covariance:
        """Return the covariance of an inverse of it, shape (d, d); it needs no `covariance`."""
        inverse = floating(precision)
        _check_square("from_precision", inverse)
        factor = np.linalg.cholesky(inverse)
        return Covariance(np.linalg.inv(factor).T, -2 * np.sum(np.log(np.diagonal(factor))))

    @staticmethod
    def from_eigendecomposition(eigendecomposition: Any) -> Covariance:
        """Return the covariance of a pair of eigenvalues, shape (d,), and eigenvectors, shape (d, d)."""
        values, vectors = map(floating, eigendecomposition)
        _check_positive("from_eigendecomposition", "values", values)
        return Covariance(vectors * np.sqrt(values), np.sum(np.log(values)))

    @property
    def rank(self) -> int:
        """How many variables there are."""
        return int(self._root.shape[0])

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the matrix."""
        return self.rank, self.rank

    def colorize(self, x: Any) -> Any:
        """Return points of independent variables of variance 1, shape (..., d), with this covariance."""
        return product(floating(x), self._root.T)

    def whiten(self, x: Any) -> Any:
        """Return points with this covariance, shape (..., d), as ones of independent variables of variance 1."""
        points = floating(x)
        rows = points.reshape((-1, self.rank))
        return np.linalg.solve(self._root, rows.T).T.reshape(points.shape)


def _check_positive(function: str, what: str, found: Any) -> None:
    if found.ndim != 1 or not (raw(found) > 0).all():
        raise ValueError(
            f"scipy.stats.Covariance.{function} takes positive {what} of shape (d,), not an array {found.shape}"
        )


def _check_square(function: str, matrix: Array) -> None:
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"scipy.stats.Covariance.{function} takes a matrix of shape (d, d), not {matrix.shape}")
