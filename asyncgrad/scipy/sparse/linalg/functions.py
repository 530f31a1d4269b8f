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
        A: a square matrix, sparse or dense.
        B: a vector or a matrix.
        start: the first t; None for t = 1 alone.
        stop: the last t.
        num: how many numbers; None for 50.
        endpoint: whether `stop` is the last of them; None for True.
        traceA: has no effect: the trace of a matrix is known.

    Returns:
        The product; with `start`, `stop` or `num` the products one upon another, shape `(num, *B.shape)`.

    Raises:
        TypeError: `A` is an operator.

    Source: scipy.sparse.linalg.expm_multiply.

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad.scipy import sparse
        >>> rates = ag.tensor([0.0, 1.0], requires_grad=True)
        >>> ag.sync.backward(expm_multiply(sparse.diags_array(rates), [1.0, 1.0]).sum())
        >>> rates.grad.numpy().round(6).tolist()
        [1.0, 2.718282]
    """
    if isinstance(A, linalg.LinearOperator):
        raise ArgumentTypeError("scipy.sparse.linalg.expm_multiply takes a matrix here, not a LinearOperator")
    A = A if isinstance(A, SparseArray) else csr_array(A) if sparse.issparse(A) else floating(A)
    product = floating(B)
    if len(A.shape) != 2 or A.shape[0] != A.shape[1] or product.ndim not in (1, 2) or product.shape[0] != A.shape[0]:
        raise ValueError(
            "scipy.sparse.linalg.expm_multiply takes a square matrix and a vector or matrix with as many rows, not "
            f"shapes {A.shape} and {product.shape}"
        )
    if start is None and stop is None and num is None and endpoint is None:
        return _exponential_product(A, product, 1.0)
    if start is None or stop is None:
        raise ValueError("scipy.sparse.linalg.expm_multiply takes start and stop together, or neither")
    times = np.linspace(start, stop, 50 if num is None else num, endpoint=endpoint is None or endpoint)
    found = []
    for before, time in zip([0.0, *times], times, strict=False):
        product = _exponential_product(A, product, float(time - before))
        found.append(product)
    return asarray(np.stack(found))


def _exponential_product(A: SparseArray | Tensor, B: Tensor, time: float) -> Tensor:
    """Return exp(time A) @ B by steps in which the matrix, less a multiple of the identity, has a small norm."""
    size = A.shape[0]
    known = A.toscipy() if isinstance(A, SparseArray) else sparse.csr_array(np.asarray(raw(A)))
    # Any number will do, and needs no derivative.
    middle = known.trace() / max(size, 1)
    length = float(linalg.norm(known - middle * sparse.eye_array(size), 1)) * abs(time) if size else 0.0
    count = max(int(np.ceil(length / _NORM)), 1)
    step, kind = time / count, np.result_type(A.dtype, B.dtype)
    precision = np.finfo(kind).eps
    for _ in range(count):
        term = total = B
        for order in range(1, _TERMS + 1):
            term = (A @ term - middle * term) * (step / order)
            total = total + term
            if np.abs(raw(term)).max(initial=0.0) <= precision / 8 * np.abs(raw(total)).max(initial=0.0):
                break
        B = total * np.exp(middle * step)
    return asarray(B.astype(kind, copy=False))
