"""Matrices that are made of other matrices, or of vectors along their diagonals."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.arrays.values import raw
from ...core.tensor import asarray
from .stacks import over_stacks

__all__ = [
    "block_diag",
    "circulant",
    "companion",
    "convolution_matrix",
    "fiedler",
    "fiedler_companion",
    "hankel",
    "khatri_rao",
    "leslie",
    "matmul_toeplitz",
    "toeplitz",
]


def _vector(value: Any) -> Any:
    vector: Any = asarray(value)
    return vector.reshape((vector.size,))


def block_diag(*arrs: Any) -> Any:
    """Return the matrix with given matrices along its diagonal, and zeros elsewhere.

    Args:
        *arrs: matrices or stacks of them, which are broadcast; vectors for one row, or numbers.

    Source: scipy.linalg.block_diag.

    Example:
        >>> from asyncgrad.scipy import linalg
        >>> linalg.block_diag([[1.0]], [[2.0, 3.0]]).tolist()
        [[1.0, 0.0, 0.0], [0.0, 2.0, 3.0]]
    """
    blocks: list[Any] = [np.atleast_2d(asarray(one)) for one in arrs or ([],)]
    stack = np.broadcast_shapes(*(one.shape[:-2] for one in blocks))
    width, start, rows = sum(one.shape[-1] for one in blocks), 0, []
    for one in blocks:
        whole = np.broadcast_to(one, stack + one.shape[-2:])
        rows.append(np.pad(whole, [(0, 0)] * (len(stack) + 1) + [(start, width - start - one.shape[-1])]))
        start += one.shape[-1]
    return np.concatenate(rows, -2)


@over_stacks(1, 1)
def toeplitz(c: Any, r: Any = None) -> Any:
    """Return the matrix that is constant along its diagonals.

    Args:
        c: its first column, shape (..., m).
        r: its first row, shape (..., n), of which the first element is not read; None for the conjugate of `c`.

    Source: scipy.linalg.toeplitz.
    """
    column = _vector(c)
    row = np.conjugate(column) if r is None else _vector(r)
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
    column = _vector(c)
    row = np.zeros(column.size, raw(column).dtype) if r is None else _vector(r)
    values = np.concatenate([column, row[1:]])
    return values[np.arange(column.size)[:, np.newaxis] + np.arange(row.size)]


def circulant(c: Any) -> Any:
    """Return the matrix of which each column is the one before, moved down by one; `c` is the first.

    Source: scipy.linalg.circulant.
    """
    columns = np.atleast_1d(asarray(c))
    places = np.arange(columns.shape[-1])
    return columns[..., (places[:, np.newaxis] - places) % max(len(places), 1)]


@over_stacks(1)
def companion(a: Any) -> Any:
    """Return the matrix whose eigenvalues are the roots of a polynomial.

    Args:
        a: the coefficients, the highest power first, shape (..., n); the first is not 0.

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


@over_stacks(2, 2)
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
    return products.reshape((first.shape[0] * second.shape[0], first.shape[1]))


@over_stacks(1)
def convolution_matrix(a: Any, n: int, mode: str = "full") -> Any:
    """Return the matrix whose product with a vector of length `n` is its convolution with `a`.

    Args:
        a: shape (..., m), m > 0.
        n: the number of columns.
        mode: "full", "same" or "valid", as for `numpy.convolve`.

    Source: scipy.linalg.convolution_matrix.
    """
    kernel: Any = asarray(a)
    if n <= 0 or not kernel.size:
        raise ValueError(f"scipy.linalg.convolution_matrix takes n > 0 and a not empty, not {n} and {kernel.shape}")
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"scipy.linalg.convolution_matrix takes mode 'full', 'same' or 'valid', not {mode!r}")
    cut = 0 if mode == "full" else min(n, kernel.size) - 1
    before = cut if mode == "valid" else cut // 2
    rows = kernel.size + n - 1 - (cut if mode == "same" else 2 * cut)
    places = np.arange(rows)[:, np.newaxis] + before - np.arange(n)
    is_inside = (places >= 0) & (places < kernel.size)
    return np.where(is_inside, kernel[np.where(is_inside, places, 0)], np.zeros((), kernel.dtype))


def fiedler(a: Any) -> Any:
    """Return the matrix of the distances of numbers from one another; see `scipy.linalg.fiedler`."""
    numbers: Any = np.atleast_1d(asarray(a))
    if not numbers.size:
        return asarray(np.array([]))
    if numbers.size == 1:
        return asarray(np.zeros((1, 1)))
    return np.abs(numbers[..., :, np.newaxis] - numbers[..., np.newaxis, :])


@over_stacks(1)
def fiedler_companion(a: Any) -> Any:
    """Return Fiedler's companion matrix, of five diagonals, whose eigenvalues are the roots of a polynomial.

    Args:
        a: the coefficients, the highest power first, shape (..., n); the first is not 0.

    Source: scipy.linalg.fiedler_companion.
    """
    coefficients: Any = np.atleast_1d(asarray(a))
    if coefficients.size < 2:
        return asarray(np.array([], coefficients.dtype))
    if raw(coefficients)[0] == 0:
        raise ValueError("scipy.linalg.fiedler_companion takes coefficients of which the first is not 0")
    lower = -(coefficients[1:] / coefficients[0])
    size = lower.size
    places, ones = np.full((size, size), -1), np.zeros((size, size), bool)
    if size == 1:
        return lower.reshape((1, 1))
    ones[np.arange(3, size, 2), np.arange(1, size - 2, 2)] = True
    ones[np.arange(0, size - 2, 2), np.arange(2, size, 2)] = True
    ones[1, 0] = True
    places[np.arange(2, size, 2), np.arange(1, size - 1, 2)] = np.arange(2, size, 2)
    places[np.arange(0, size - 1, 2), np.arange(1, size, 2)] = np.arange(1, size, 2)
    places[0, 0] = 0
    return np.where(places >= 0, lower[np.maximum(places, 0)], ones.astype(lower.dtype))


@over_stacks(1, 1)
def leslie(f: Any, s: Any) -> Any:
    """Return the matrix of a population that has fertilities and rates of survival by age.

    Args:
        f: the fertilities, shape (..., n).
        s: the rates of survival, shape (..., n - 1), n > 1.

    Source: scipy.linalg.leslie.
    """
    first, below = np.atleast_1d(asarray(f)), np.atleast_1d(asarray(s))
    if first.shape[-1] != below.shape[-1] + 1 or not below.shape[-1]:
        raise ValueError(f"scipy.linalg.leslie takes shapes (n,) and (n - 1,), n > 1, not {first.shape}, {below.shape}")
    return np.concatenate([first[np.newaxis], np.pad(np.diag(below), ((0, 0), (0, 1)))])


def matmul_toeplitz(c_or_cr: Any, x: Any, check_finite: bool = False, workers: int | None = None) -> Any:
    """Return `toeplitz(c, r) @ x`, by Fourier transforms.

    Args:
        c_or_cr: the first column, or a pair of it and the first row, as for `toeplitz`.
        x: shape (n,) or (..., n, m).
        check_finite: as SciPy's.
        workers: has no effect.

    Source: scipy.linalg.matmul_toeplitz.
    """
    c, r = c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr, np.conjugate(asarray(c_or_cr)))
    return _toeplitz_product(c, r, x)


@over_stacks(1, 1, 0, name="matmul_toeplitz")
def _toeplitz_product(c: Any, r: Any, x: Any) -> Any:
    column, row, x = (
        one.astype(np.result_type(one.dtype, np.float64), copy=False) for one in (_vector(c), _vector(r), asarray(x))
    )
    if not x.ndim or x.shape[0] != row.size:
        raise ValueError(f"scipy.linalg.matmul_toeplitz takes an x with {row.size} rows, not of shape {x.shape}")
    around = np.concatenate([column, row[:0:-1]])
    if not around.size or not x.size:
        return asarray(np.zeros((column.size, *x.shape[1:]), np.result_type(column.dtype, x.dtype)))
    is_complex = "c" in (around.dtype.kind, x.dtype.kind)
    forwards, backwards = (np.fft.fft, np.fft.ifft) if is_complex else (np.fft.rfft, np.fft.irfft)
    spectrum = forwards(around).reshape((-1,) + (1,) * (x.ndim - 1))
    return backwards(spectrum * forwards(x, around.size, axis=0), around.size, axis=0)[: column.size]
