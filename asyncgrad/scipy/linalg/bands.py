"""Hermitian banded matrices, of which the bands on one side are given.

The factors and eigenvalues are those of the whole matrix, which is made: the derivatives of eigenvalues need it anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..arguments import bands_of, floating
from .spectral import eigh
from .stacks import over_stacks
from .systems import cholesky, solve_banded

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["cho_solve_banded", "cholesky_banded", "eig_banded", "eigvals_banded"]


def _whole(bands: Array, lower: bool) -> Any:
    """Return the triangle that the bands lie in, as a matrix."""
    count, size = bands.shape
    rows, columns = np.indices((size, size))
    places = rows - columns if lower else count - 1 + rows - columns
    is_inside = (places >= 0) & (places < count) & ((rows >= columns) if lower else (rows <= columns))
    return np.where(is_inside, bands[np.where(is_inside, places, 0), columns], 0)


def _in_bands(matrix: Array, bands: Array, lower: bool) -> Any:
    """Return the bands of a triangle; where they have no elements of it, what is there in other ones."""
    count = bands.shape[0]
    size = matrix.shape[0]
    places, columns = np.indices((count, size))
    rows = columns + places if lower else columns + places - (count - 1)
    is_inside = (rows >= 0) & (rows < size)
    return np.where(is_inside, matrix[np.where(is_inside, rows, 0), columns], bands)


@over_stacks(2)
def cholesky_banded(ab: Any, overwrite_ab: bool = False, lower: bool = False, check_finite: bool = True) -> Any:
    """Return the bands of the triangular factor of a positive definite banded matrix.

    Args:
        ab: the diagonal and the bands on one side, shape (..., u + 1, n): element (i, j) is `ab[u + i - j, j]`, or
            `ab[i - j, j]` if `lower`.
        overwrite_ab: has no effect.
        lower: whether the bands below the diagonal are given, rather than those above.
        check_finite: whether NaN and infinity are refused.

    Source: scipy.linalg.cholesky_banded.
    """
    bands = bands_of("cholesky_banded", ab)
    return _in_bands(cholesky(_whole(bands, lower), lower, check_finite=check_finite), bands, lower)


def cho_solve_banded(
    cb_and_lower: tuple[Any, bool], b: Any, overwrite_b: bool = False, check_finite: bool = True
) -> Any:
    """Return x with `a @ x == b`, given the bands of the factor that `cholesky_banded` returns for `a`.

    Args:
        cb_and_lower: the bands, and whether they lie below the diagonal.
        b: shape (n,) or (..., n, m).
        overwrite_b: has no effect.
        check_finite: whether NaN and infinity are refused.

    Source: scipy.linalg.cho_solve_banded.
    """
    cb, lower = cb_and_lower
    return _solution(cb, b, lower, check_finite)


@over_stacks(2, 0, name="cho_solve_banded")
def _solution(cb: Any, b: Any, lower: bool, check_finite: bool) -> Any:
    bands = bands_of("cho_solve_banded", cb)
    if not bands.size:
        return floating(b)
    count = bands.shape[0] - 1
    other = _transposed(bands, lower)
    first, second = (bands, other) if lower else (other, bands)
    half = solve_banded((count, 0), first, b, check_finite=check_finite)
    return solve_banded((0, count), second, half, check_finite=check_finite)


def _transposed(bands: Array, lower: bool) -> Any:
    """Return the bands of the conjugate transpose, on the other side."""
    count, size = bands.shape
    places, columns = np.indices((count, size))
    # Element (i, j) of the transpose is element (j, i), in column i.
    sources = columns + places - (count - 1) if lower else columns + places
    is_inside = (sources >= 0) & (sources < size)
    found = bands[count - 1 - places, np.where(is_inside, sources, 0)]
    return np.where(is_inside, np.conjugate(found) if found.dtype.kind == "c" else found, 0)


@over_stacks(2)
def eig_banded(
    a_band: Any,
    lower: bool = False,
    eigvals_only: bool = False,
    overwrite_a_band: bool = False,
    select: str = "a",
    select_range: Any = None,
    max_ev: int = 0,
    check_finite: bool = True,
) -> Any:
    """Return the eigenvalues of a Hermitian banded matrix in ascending order, and its eigenvectors.

    Args:
        a_band: the bands, as for `cholesky_banded`.
        lower: as for `cholesky_banded`.
        eigvals_only: whether to return the eigenvalues alone.
        overwrite_a_band: has no effect.
        select: "a" for all, "i" for indices, "v" for an interval of values.
        select_range: the first and the last.
        max_ev: has no effect.
        check_finite: as SciPy's.

    Source: scipy.linalg.eig_banded.
    """
    bands = bands_of("eig_banded", a_band)
    chosen: dict[str, Any] = {}
    if select in ("i", "index", 2):
        chosen = {"subset_by_index": select_range}
    elif select in ("v", "value", 1):
        chosen = {"subset_by_value": select_range}
    elif select not in ("a", "all", 0):
        raise ValueError(f"scipy.linalg.eig_banded takes select 'a', 'i' or 'v', not {select!r}")
    return eigh(_whole(bands, lower), lower=lower, eigvals_only=eigvals_only, **chosen)


def eigvals_banded(
    a_band: Any,
    lower: bool = False,
    overwrite_a_band: bool = False,
    select: str = "a",
    select_range: Any = None,
    check_finite: bool = True,
) -> Any:
    """Return the eigenvalues of a Hermitian banded matrix in ascending order; see `eig_banded`."""
    return eig_banded(a_band, lower, True, select=select, select_range=select_range)
