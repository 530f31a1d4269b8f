"""Norms, inverses and exponential functions of sparse matrices, made of their products and solutions."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from ....core.arrays.values import raw
from ....core.tensor import Tensor, asarray
from ....errors import ArgumentTypeError
from ...arguments import floating
from ..arrays import SparseArray, csr_array, eye_array
from .operators import operator_product
from .systems import spsolve

if TYPE_CHECKING:
    from ....core.arrays.array_like import TensorLike

__all__ = ["expm_multiply", "inv", "norm"]

#: The greatest norm of a matrix whose exponential function so many terms of the series give in double precision.
#: Source: Al-Mohy and Higham, Computing the action of the matrix exponential (2011), table 3.1.
_NORM, _TERMS = 9.9, 55


def _check_sparse(function: str, matrix: object, instead: str) -> None:
    """Raise unless a matrix is a sparse array, ours or SciPy's; `instead` is the function of dense ones."""
    if not isinstance(matrix, SparseArray) and not sparse.issparse(matrix):
        raise ArgumentTypeError(
            f"scipy.sparse.linalg.{function} takes a sparse matrix, not {type(matrix).__name__}: write {instead}"
        )


def inv(A: Any) -> SparseArray:
    """Return the inverse of a square sparse matrix, as a sparse array; see `spsolve`.

    Args:
        A: a sparse array of asyncgrad.scipy.sparse, or SciPy's.

    Raises:
        TypeError: the matrix is dense.
        RuntimeError: it is exactly singular.

    Source: scipy.sparse.linalg.inv.

    Example:
        >>> from asyncgrad.scipy import sparse
        >>> inv(sparse.diags_array([2.0, 4.0])).toarray().tolist()
        [[0.5, 0.0], [0.0, 0.25]]
    """
    _check_sparse("inv", A, "linalg.inv")
    found = spsolve(A, eye_array(A.shape[0], dtype=A.dtype if A.dtype.kind in "fc" else float))
    # As for SciPy, the solution of one column is a vector.
    return found if isinstance(found, SparseArray) else csr_array(np.reshape(found, (1, 1)))


def norm(x: Any, ord: Any = None, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """Return a norm of a sparse matrix, or of each of its rows or columns, as `scipy.sparse.linalg.norm`.

    Args:
        x: a sparse array of asyncgrad.scipy.sparse, or SciPy's.
        ord: None, "fro", 1, -1, 2, inf or -inf for a matrix; any number along one axis, and a negative one other than
            -inf is for the elements of the pattern alone.
        axis: None, or both axes, for the matrix; 0 for its columns, 1 for its rows.

    Raises:
        TypeError: the matrix is dense.

    Source: scipy.sparse.linalg.norm.

    Example:
        >>> from asyncgrad.scipy import sparse
        >>> norm(sparse.diags_array([3.0, 4.0])).item()
        5.0
    """
    _check_sparse("norm", x, "np.linalg.norm")
    x = x if isinstance(x, SparseArray) else csr_array(x)
    axes = axis if axis is None or isinstance(axis, tuple) else (axis,)
    if ord not in (None, "fro", "f", 1, -1, 2, np.inf, -np.inf) and (axes is None or len(axes) == 2):
        # SciPy's own refusal: NumPy has more norms of dense matrices.
        linalg.norm(x.toscipy(), ord, axes)
    if ord == 0 or (x.dtype.kind in "biu" and ord in (1, -1, np.inf, -np.inf)):
        # A whole number, which has no derivative.
        return asarray(linalg.norm(x.toscipy(), ord, axis))
    if axes is not None and len(axes) == 1:
        if isinstance(ord, Real) and -np.inf < float(ord) < 0:
            # An element that is not stored is no 0 to divide by.
            return asarray(abs(x).power(ord).sum(axes[0]) ** (1 / ord))
        return asarray(np.linalg.norm(x.toarray(), ord, axes[0]))
    if ord in (None, "fro", "f"):
        if axes is not None:
            # SciPy's own refusal of axes that are none.
            linalg.norm(x.toscipy(), axis=axes)
        return asarray(np.linalg.norm(x._deduplicated()[0]))
    return asarray(np.linalg.norm(x.toarray(), ord, axes))


def expm_multiply(
    A: Any,
    B: TensorLike,
    start: float | None = None,
    stop: float | None = None,
    num: int | None = None,
    endpoint: bool | None = None,
    traceA: object = None,
) -> Tensor:
    """Return exp(t A) @ B without the matrix exp(t A), for t = 1 or evenly spaced numbers.

    Each step is a sum of products of the matrix and a vector, through which gradients flow; their number grows with
    the norm of `A`.

    Args:
        A: a square matrix, sparse or dense; or an operator of SciPy's, which is a constant.
        B: a vector or a matrix.
        start: the first t; None for t = 1 alone.
        stop: the last t.
        num: how many numbers; None for 50.
        endpoint: whether `stop` is the last of them; None for True.
        traceA: the trace of an operator, if it is known; that of a matrix is.

    Returns:
        The product; with `start`, `stop` or `num` the products one upon another, shape `(num, *B.shape)`.

    Source: scipy.sparse.linalg.expm_multiply.

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad.scipy import sparse
        >>> rates = ag.tensor([0.0, 1.0], requires_grad=True)
        >>> ag.sync.backward(expm_multiply(sparse.diags_array(rates), [1.0, 1.0]).sum())
        >>> rates.grad.numpy().round(6).tolist()
        [1.0, 2.718282]
    """
    if not isinstance(A, (SparseArray, linalg.LinearOperator)):
        A = csr_array(A) if sparse.issparse(A) else floating(A)
    product = floating(B)
    if len(A.shape) != 2 or A.shape[0] != A.shape[1] or product.ndim not in (1, 2) or product.shape[0] != A.shape[0]:
        raise ValueError(
            "scipy.sparse.linalg.expm_multiply takes a square matrix and a vector or matrix with as many rows, not "
            f"shapes {A.shape} and {product.shape}"
        )
    middle, length = _center_and_norm(A, traceA)
    if start is None and stop is None and num is None and endpoint is None:
        return _exponential_product(A, product, 1.0, middle, length)
    if start is None or stop is None:
        raise ValueError("scipy.sparse.linalg.expm_multiply takes start and stop together, or neither")
    times = np.linspace(start, stop, 50 if num is None else num, endpoint=endpoint is None or endpoint)
    found = []
    for before, time in zip([0.0, *times], times, strict=False):
        product = _exponential_product(A, product, float(time - before), middle, length)
        found.append(product)
    return asarray(np.stack(found))


def _center_and_norm(A: Any, trace: Any) -> tuple[Any, float]:
    """Return the mean of a matrix's diagonal, and the norm that the matrix has less so much of the identity.

    Any number will do as the mean, and needs no derivative. Norms of operators are estimates.
    """
    size = A.shape[0]
    if not size:
        return 0.0, 0.0
    if isinstance(A, linalg.LinearOperator):
        middle = 0.0 if trace is None else raw(asarray(trace)).item() / size
        return middle, 2.0 * float(linalg.onenormest(A)) + abs(middle)
    known = A.toscipy() if isinstance(A, SparseArray) else sparse.csr_array(np.asarray(raw(A)))
    middle = known.trace() / size
    return middle, float(linalg.norm(known - middle * sparse.eye_array(size), 1))


def _size(x: Any) -> float:
    """Return the greatest sum of absolute values in a column."""
    return float(np.abs(raw(x)).sum(0).max(initial=0.0))


def _times(A: Any, B: Any) -> Any:
    """Return the product of a matrix or an operator and a vector or a matrix."""
    if not isinstance(A, linalg.LinearOperator):
        return A @ B
    if B.ndim == 1:
        return operator_product(B, A)
    return np.stack([operator_product(B[:, column], A) for column in range(B.shape[1])], 1) if B.shape[1] else B


def _exponential_product(A: Any, B: Tensor, time: float, middle: Any, length: float) -> Tensor:
    """Return exp(time A) @ B by steps in which the matrix, less a multiple of the identity, has a small norm."""
    count = max(int(np.ceil(length * abs(time) / _NORM)), 1)
    step, kind = time / count, np.result_type(*(one.dtype for one in (A, B) if one.dtype is not None))
    precision, reach = np.finfo(kind).eps, max(length * abs(step), 1.0)
    for _ in range(count):
        term = total = B
        bound = _size(B)
        for order in range(1, _TERMS + 1):
            term = (_times(A, term) - middle * term) * (step / order)
            total = total + term
            # By the norm, since a term that is 0 for this matrix and vector has derivatives that are not.
            bound *= reach / order
            if bound <= precision / 8 * _size(total):
                break
        B = total * np.exp(middle * step)
    return asarray(B.astype(kind, copy=False))
