"""Matrices that are made of other matrices, or of vectors along their diagonals."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...graph.values import raw
from ...tensor import asarray

__all__ = ["block_diag", "circulant", "companion", "hankel", "khatri_rao", "toeplitz"]


def _vector(name: str, value: Any) -> Any:
    vector: Any = asarray(value)
    return vector.reshape((vector.size,))


def block_diag(*arrs: Any) -> Any:
    """Return the matrix with given matrices along its diagonal, and zeros elsewhere.

    Args:
        *arrs: matrices, vectors for one row, or numbers.

    Source: scipy.linalg.block_diag.

    Example:
        >>> from asyncgrad.scipy import linalg
        >>> linalg.block_diag([[1.0]], [[2.0, 3.0]]).tolist()
        [[1.0, 0.0, 0.0], [0.0, 2.0, 3.0]]
    """
    blocks: list[Any] = [np.atleast_2d(asarray(one)) for one in arrs or ([],)]
    wrong = [one.shape for one in blocks if one.ndim > 2]
    if wrong:
        raise ValueError(f"scipy.linalg.block_diag takes matrices, not arrays of shapes {wrong}")
    width, start, rows = sum(one.shape[1] for one in blocks), 0, []
    for one in blocks:
        rows.append(np.pad(one, ((0, 0), (start, width - start - one.shape[1]))))
        start += one.shape[1]
    return np.concatenate(rows)


def toeplitz(c: Any, r: Any = None) -> Any:
    """Return the matrix that is constant along its diagonals.

    Args:
        c: its first column, shape (m,).
        r: its first row, shape (n,), of which the first element is not read; None for the conjugate of `c`.

    Source: scipy.linalg.toeplitz.
    """
    column = _vector("toeplitz", c)
    row = np.conjugate(column) if r is None else _vector("toeplitz", r)
    values = np.concatenate([row[:0:-1], column])
    places = np.arange(column.size)[:, np.newaxis] - np.arange(row.size) + row.size - 1
    return values[places]


def hankel(c: Any, r: Any = None) -> Any:
    """Return the matrix that is constant along its antidiagonals.

    Args:
        c: its first column, shape (m,).
        r: its last row, shape (n,), of which the first element is not read; None for zeros.

    Source: scipy.linalg.hankel.
    """
    column = _vector("hankel", c)
    row = np.zeros(column.size, raw(column).dtype) if r is None else _vector("hankel", r)
    values = np.concatenate([column, row[1:]])
    return values[np.arange(column.size)[:, np.newaxis] + np.arange(row.size)]


def circulant(c: Any) -> Any:
    """Return the matrix of which each column is the one before, moved down by one; `c` is the first.

    Source: scipy.linalg.circulant.
    """
    column = _vector("circulant", c)
    places = np.arange(column.size)
    return column[(places[:, np.newaxis] - places) % max(column.size, 1)]


def companion(a: Any) -> Any:
    """Return the matrix whose eigenvalues are the roots of a polynomial.

    Args:
        a: the coefficients, the highest power first, shape (n,); the first is not 0.

    Raises:
        ValueError: there are fewer than two, or the first is 0.

    Source: scipy.linalg.companion.
    """
    coefficients: Any = asarray(a)
    if coefficients.ndim != 1 or coefficients.size < 2 or raw(coefficients)[0] == 0:
        raise ValueError(
            f"scipy.linalg.companion takes at least two coefficients, the first not 0, not an array of shape "
            f"{coefficients.shape}"
        )
    first = -coefficients[1:] / (1.0 * coefficients[0])
    below = np.eye(coefficients.size - 2, coefficients.size - 1, dtype=raw(first).dtype)
    return np.concatenate([first[np.newaxis], below])


def khatri_rao(a: Any, b: Any) -> Any:
    """Return the matrix of the Kronecker products of the columns of two matrices.

    Args:
        a: shape (n, k).
        b: shape (m, k).

    Source: scipy.linalg.khatri_rao.
    """
    first, second = asarray(a), asarray(b)
    if first.ndim != 2 or second.ndim != 2 or first.shape[1] != second.shape[1]:
        raise ValueError(
            f"scipy.linalg.khatri_rao takes matrices with as many columns, not shapes {first.shape} and {second.shape}"
        )
    products: Any = first[:, np.newaxis] * second
    return products.reshape((-1, first.shape[1]))
