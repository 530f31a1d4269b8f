"""SciPy's sparse matrices and arrays, as constants, beside tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ...core.array_operators import OPERATORS
from ...core.arrays.values import raw
from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError, ArgumentTypeError
from ..arguments import floating
from .pattern import Pattern, multiply_dense

__all__ = ["add", "apply_operator", "matmul", "multiply", "pattern_of"]

_product = multiply_dense.call


def pattern_of(matrix: Any) -> tuple[Pattern, Any]:
    """Return the pattern of SciPy's matrix of any format, and its elements as an array."""
    if matrix.ndim == 2 and matrix.format == "csc":
        return Pattern(matrix.indices, matrix.indptr, matrix.shape, transposed=True), matrix.data
    rows = matrix.reshape(1, -1).tocsr() if matrix.ndim == 1 else matrix.tocsr()
    return Pattern(rows.indices, rows.indptr, rows.shape), rows.data


def matmul(x: Any, y: Any) -> Any:
    """Return `x @ y`, where one is SciPy's sparse matrix or array and the other dense.

    The gradient of the dense one is computed with the same sparse matrix.

    Args:
        x: a sparse matrix, or a vector or matrix.
        y: the other.

    Raises:
        ArgumentTypeError: none is sparse, or both are.
        ValueError: the shapes do not fit.

    Example:
        >>> from scipy import sparse
        >>> matmul(sparse.csr_array([[1.0, 0.0], [2.0, 3.0]]), [1.0, 1.0]).tolist()
        [1.0, 5.0]
    """
    if sparse.issparse(x) == sparse.issparse(y):
        raise ArgumentTypeError(
            f"scipy.sparse.matmul takes one sparse matrix and one dense operand, not {type(x).__name__} and "
            f"{type(y).__name__}: write x @ y"
        )
    matrix, dense = (x, y) if sparse.issparse(x) else (y, x)
    dense = floating(dense)
    left = matrix is x
    inner = (matrix.shape[-1] if left else matrix.shape[0], dense.shape[0 if left else -1] if dense.ndim else None)
    if dense.ndim not in (1, 2) or inner[0] != inner[1]:
        shapes = (matrix.shape, dense.shape) if left else (dense.shape, matrix.shape)
        raise ValueError(
            f"scipy.sparse.matmul takes a dense operand of one or two axes that fits, not shapes {shapes[0]} and "
            f"{shapes[1]}"
        )
    pattern, data = pattern_of(matrix)
    if matrix.ndim == 1:
        # A vector lies in the only row.
        result = _product(data, dense if left or dense.ndim == 1 else dense.T, pattern)
        return np.squeeze(result, 0)
    if left:
        return _product(data, dense, pattern)
    return _product(data, dense.T, pattern.transpose()).T


def multiply(x: Any, y: Any) -> Any:
    """Return the product by elements of SciPy's sparse matrix or array and a dense operand, as a dense tensor.

    Raises:
        ArgumentTypeError: none is sparse.
    """
    x, y = _dense(x), _dense(y)
    return np.multiply(x, y)


def add(x: Any, y: Any) -> Any:
    """Return the sum of SciPy's sparse matrix or array and a dense operand, as a dense tensor."""
    return np.add(_dense(x), _dense(y))


def _dense(value: Any) -> Any:
    if not sparse.issparse(value):
        return asarray(value)
    try:
        return asarray(value.toarray())
    except MemoryError as error:
        raise MemoryError(
            f"operators by elements on a sparse matrix of shape {value.shape} and a tensor give a dense one, for which "
            f"there is no memory ({error}): write asyncgrad.scipy.sparse.csr_array(matrix) * t, which is sparse"
        ) from error


_COMPARISONS = frozenset(("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"))


def apply_operator(name: str, tensor: Tensor, matrix: Any, reflected: bool) -> Any:
    """Return the result of an operator on a tensor and SciPy's sparse matrix; NotImplemented if there is none.

    Args:
        name: the function of NumPy that the operator stands for.
        tensor: one operand.
        matrix: the other.
        reflected: whether the matrix is on the left.
    """
    if not sparse.issparse(matrix):
        return NotImplemented
    x, y = (matrix, tensor) if reflected else (tensor, matrix)
    if name == "multiply" and isinstance(matrix, sparse.spmatrix) and tensor.ndim:
        name = "matmul"  # As SciPy's older classes, spmatrix, have it.
    if name == "matmul":
        return matmul(x, y)
    if name in ("add", "subtract"):
        _check_added(matrix, tensor)
    if name in ("add", "subtract", "multiply"):
        return getattr(np, name)(_dense(x), _dense(y))
    if name in _COMPARISONS:
        return getattr(np, name)(_dense(x), _dense(y))
    if name == "divide" and reflected:
        return _quotient(matrix, tensor)
    return NotImplemented


def _check_added(matrix: Any, tensor: Tensor) -> None:
    """Raise unless a tensor is added to a sparse constant of as many elements: it may be repeated, the constant not."""
    if tensor.ndim == 0 and (tensor.requires_grad or raw(tensor) != 0):
        raise ArgumentError("scipy.sparse: a number is added to all elements, of a dense array: write matrix.toarray()")
    if tensor.ndim > matrix.ndim or np.broadcast_shapes(matrix.shape, tensor.shape) != matrix.shape:
        raise ValueError(
            f"scipy.sparse: a tensor of shape {tensor.shape} cannot be repeated to shape {matrix.shape}, that of the "
            "sparse matrix it is added to: write matrix.toarray()"
        )


def _quotient(matrix: Any, tensor: Tensor) -> Any:
    """Return a sparse constant over a tensor, as a dense tensor: 0 where the matrix has no element, over 0 too."""
    numerator = _dense(matrix)
    ones = matrix.tocoo(copy=True)
    ones.data = np.ones(ones.data.shape, bool)
    has_element = ones.toarray()
    return np.where(has_element, numerator / np.where(has_element, tensor, 1), np.zeros((), numerator.dtype))


OPERATORS["scipy.sparse"] = apply_operator
