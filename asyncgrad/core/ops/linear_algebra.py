"""Products of vectors and matrices."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.axes import array_like, axis_index, in_rows
from ..arrays.device_functions import own_function
from ..arrays.tensor_base import TensorBase
from ..arrays.typed import like_first
from ..arrays.values import refuse_sparse
from ..recording.kernels import kernel
from ..recording.primitive import RULES, derivative, primitive
from .arithmetic import multiply
from .contractions import tensordot
from .dispatch import write_exactly, write_result
from .reductions import sum_
from .shaping import expand_dims, moveaxis, reshape, squeeze

if TYPE_CHECKING:
    from ..arrays.array import Array


__all__ = [
    "adjoint",
    "cross",
    "dot",
    "inner",
    "kron",
    "matmul",
    "matvec",
    "multi_dot",
    "outer",
    "product",
    "vdot",
    "vecdot",
    "vecmat",
]


# matmul.


def _product_on_device(x: Array, y: Array) -> Any:
    if x.ndim == 2 == y.ndim:
        return own_function(np.matmul, x)(x, y)
    if x.ndim > 2 and y.ndim == 2:
        return own_function(np.matmul, x)(_rows(x), y).reshape((*x.shape[:-1], y.shape[1]))
    return np.matmul(x, y)


@primitive(superlinear=True)
@kernel(variant=_product_on_device)
def matmul_(x: Array, y: Any) -> Array:
    """Return the matrix product, of stacks of matrices too."""
    if x.ndim > 2 and y.ndim == 2:
        # One large product, where NumPy would loop over the stack.
        return (_rows(x) @ y).reshape((*x.shape[:-1], y.shape[1]))
    return np.matmul(x, y)


def _rows(x: Array) -> Any:
    """Return all rows of a stack of matrices in one matrix; spelled out, since -1 fails where there are none."""
    return x.reshape((math.prod(x.shape[:-1]), x.shape[-1]))


def _left_gradient_on_device(g: Any, x_shape: tuple[int, ...], y: Array) -> Any:
    if len(x_shape) == 2 == y.ndim:
        return own_function(np.matmul, g)(g, y.T)
    return _left_gradient(g, x_shape, y)


@derivative(matmul_, "x")
@kernel(variant=_left_gradient_on_device)
def _left_gradient(g: Any, x_shape: tuple[int, ...], y: Any) -> Array:
    if y.ndim == 2 and len(x_shape) > 1:
        # For two matrices `@` is the product, and `product` would look at their types and shapes first.
        return g @ y.T if len(x_shape) == 2 else product(g, y.T)
    if y.ndim == 1:
        return g * y if len(x_shape) == 1 else expand_dims(g, -1) * y
    if len(x_shape) == 1:
        return squeeze(product(y, expand_dims(g, -1)), -1)
    return product(g, y.mT)


def _right_gradient_on_device(g: Any, x: Array, y_shape: tuple[int, ...]) -> Any:
    if x.ndim == 2 == len(y_shape):
        return own_function(np.matmul, x)(x.T, g)
    if x.ndim > 2 == len(y_shape):
        return own_function(np.matmul, x)(_rows(x).T, _rows(g))
    return _right_gradient(g, x, y_shape)


@derivative(matmul_, "y")
@kernel(variant=_right_gradient_on_device)
def _right_gradient(g: Any, x: Any, y_shape: tuple[int, ...]) -> Array:
    if x.ndim == 2 and len(y_shape) <= 2:
        return x.T @ g
    if x.ndim == 1:
        return g * x if len(y_shape) == 1 else expand_dims(x, -1) * expand_dims(g, -2)
    if len(y_shape) == 1:
        return product(_rows(x).T, g.reshape(-1))
    if len(y_shape) == 2:
        # The sum over the stack is one large product too.
        return product(_rows(x).T, _rows(g))
    return product(x.mT, g)


#: The matrix product of arrays and tensors; `matmul` takes nested lists too.
product: Callable[..., Any] = matmul_.call


def adjoint(x: Array) -> Any:
    """Return matrices transposed and, where they are complex, conjugated."""
    return np.conjugate(x.mT) if x.dtype.kind == "c" else x.mT


def matmul(x1: Any, x2: Any, /) -> Any:
    """Return the matrix product, of stacks of matrices too."""
    if isinstance(x1, TensorBase) and isinstance(x2, TensorBase):
        return product(x1, x2)
    return product(array_like(x1), array_like(x2))


RULES[np.matmul] = RULES[np.linalg.matmul] = matmul


def _scaled(a: Any, b: Any) -> Any:
    """Return the product of an array with a number, laid out in memory as NumPy does."""
    result = multiply.call(a, b)
    return in_rows(result) if result.dtype.char in _BLAS_DTYPES and result.ndim <= 2 else result


#: NumPy has BLAS multiply matrices of these dtypes, and lays the result out in rows.
_BLAS_DTYPES = "fdFD"


@like_first
def dot(a: Any, b: Any, out: Any = None) -> Any:
    """Return the sum of products over the last axis of `a` and the last but one (or the only one) of `b`."""
    given = a, b
    a, b = array_like(a), array_like(b)
    if a.ndim == 0 or b.ndim == 0:
        # NumPy would make another sparse matrix of each element.
        refuse_sparse("dot", given)
        result = _scaled(a, b)
    elif b.ndim <= 2:
        result = product(a, b)
    else:
        result = tensordot(a, b, (-1, -2))
    return result if out is None else write_exactly(out, result)


RULES[np.dot] = dot


def multi_dot(arrays: Any, *, out: Any = None) -> Any:
    """Return the product of several matrices, in the order that takes the fewest multiplications.

    The first may be a vector, a row, and the last one too, a column.
    """
    arrays = [array_like(one) for one in arrays]
    if len(arrays) < 2:
        raise ValueError(f"multi_dot takes at least two arrays, not {len(arrays)}")
    if len(arrays) == 2:
        return dot(arrays[0], arrays[1], out)
    is_row, is_column = arrays[0].ndim == 1, arrays[-1].ndim == 1
    if is_row:
        arrays[0] = expand_dims(arrays[0], 0)
    if is_column:
        arrays[-1] = expand_dims(arrays[-1], 1)
    if any(one.ndim != 2 for one in arrays):
        raise np.linalg.LinAlgError(
            f"multi_dot takes matrices, with a vector first or last, not arrays of {[one.ndim for one in arrays]} axes"
        )
    result = _multiplied(arrays, _cheapest_order(arrays), 0, len(arrays) - 1)
    if is_row or is_column:
        result = reshape(result, () if is_row and is_column else -1)
    return result if out is None else write_exactly(out, result)


RULES[np.linalg.multi_dot] = multi_dot


def _multiplied(arrays: Sequence[Any], order: dict[tuple[int, int], int], first: int, last: int) -> Any:
    if first == last:
        return arrays[first]
    middle = order[first, last]
    return product(_multiplied(arrays, order, first, middle), _multiplied(arrays, order, middle + 1, last))


def _cheapest_order(arrays: Sequence[Any]) -> dict[tuple[int, int], int]:
    """Return after which matrix to cut the product of those from one to another, for each two."""
    sides = [*(one.shape[0] for one in arrays), arrays[-1].shape[1]]
    count = len(arrays)
    costs = {(index, index): 0 for index in range(count)}
    order: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for first in range(count - length):
            last = first + length
            found = [
                costs[first, cut] + costs[cut + 1, last] + sides[first] * sides[cut + 1] * sides[last + 1]
                for cut in range(first, last)
            ]
            costs[first, last] = min(found)
            order[first, last] = first + found.index(costs[first, last])
    return order


def inner(a: Any, b: Any, /) -> Any:
    """Return the sum of products over the last axes."""
    a, b = array_like(a), array_like(b)
    if a.ndim == 0 or b.ndim == 0:
        return _scaled(a, b)
    return product(a, b) if b.ndim == 1 else tensordot(a, b, (-1, -1))


RULES[np.inner] = inner


def outer(a: Any, b: Any, out: Any = None) -> Any:
    """Return the products of each element of `a` with each of `b`."""
    result = reshape(array_like(a), (-1, 1)) * reshape(array_like(b), (1, -1))
    return result if out is None else write_result(out, result)


RULES[np.outer] = outer


def linalg_outer(x1: Any, x2: Any, /) -> Any:
    """Return the products of each element of one vector with each of another."""
    x1, x2 = array_like(x1), array_like(x2)
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError(f"linalg.outer takes two vectors, and these have {x1.ndim} and {x2.ndim} axes: see np.outer")
    return outer(x1, x2)


RULES[np.linalg.outer] = linalg_outer


def vdot(a: Any, b: Any, /) -> Any:
    """Return the sum of products of all elements, the first conjugated."""
    a, b = reshape(array_like(a), -1), reshape(array_like(b), -1)
    return product(np.conjugate(a) if a.dtype.kind == "c" else a, b)


RULES[np.vdot] = vdot


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Return the sum of products along an axis, the first conjugated."""
    x1, x2, axis = array_like(x1), array_like(x2), operator.index(axis)
    if axis != -1:
        x1, x2 = moveaxis(x1, axis, -1), moveaxis(x2, axis, -1)
    if x1.ndim == 0 or x2.ndim == 0 or x1.shape[-1] != x2.shape[-1]:
        raise ValueError(f"vecdot needs vectors of one length, and the shapes are {x1.shape} and {x2.shape}")
    products = (np.conjugate(x1) if x1.dtype.kind == "c" else x1) * x2
    # A sum of small integers has a larger dtype.
    return sum_.call(products, -1, products.dtype if products.dtype.kind in "biu" else None)


RULES[np.vecdot] = RULES[np.linalg.vecdot] = vecdot


def matvec(x1: Any, x2: Any, /) -> Any:
    """Return the products of a stack of matrices with a stack of vectors."""
    return squeeze(product(array_like(x1), expand_dims(array_like(x2), -1)), -1)


def vecmat(x1: Any, x2: Any, /) -> Any:
    """Return the products of a stack of vectors, conjugated, with a stack of matrices."""
    x1 = array_like(x1)
    x1 = np.conjugate(x1) if x1.dtype.kind == "c" else x1
    return squeeze(product(expand_dims(x1, -2), array_like(x2)), -2)


RULES[np.matvec] = matvec
RULES[np.vecmat] = vecmat


def kron(a: Any, b: Any) -> Any:
    """Return the array of blocks that are `b` times each element of `a`."""
    a, b = array_like(a), array_like(b)
    ndim = max(a.ndim, b.ndim)
    first, second = (1,) * (ndim - a.ndim) + a.shape, (1,) * (ndim - b.ndim) + b.shape
    blocks = reshape(a, [length for one in first for length in (one, 1)])
    inside = reshape(b, [length for one in second for length in (1, one)])
    return reshape(blocks * inside, tuple(one * other for one, other in zip(first, second, strict=True)))


RULES[np.kron] = kron


def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    """Return the vectors that are perpendicular to two vectors of three elements each.

    One of two elements has 0 for the third; of two of those it is the third element of the result, a number.
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = array_like(a), array_like(b)
    shapes = f"{a.shape} and {b.shape}"
    a, b = moveaxis(a, axisa, 0), moveaxis(b, axisb, 0)
    lengths = a.shape[0], b.shape[0]
    if not {2, 3}.issuperset(lengths):
        raise ValueError(f"numpy.cross takes vectors of three elements, not arrays of shapes {shapes}")
    if 2 in lengths:
        # It warns, or raises, as the installed NumPy does about vectors of two elements.
        np.cross(np.zeros(lengths[0]), np.zeros(lengths[1]))
    parts = [_cross_part(a, b, left, right) for left, right in ((1, 2), (2, 0), (0, 1))]
    if lengths == (2, 2):
        return parts[2]
    result = np.stack(parts, -1)
    return result if axis_index(axisc, result.ndim) == result.ndim - 1 else moveaxis(result, -1, axisc)


def _cross_part(a: Any, b: Any, left: int, right: int) -> Any:
    """Return an element of a cross product, None for one of two vectors of two elements."""
    has_first = left < a.shape[0] and right < b.shape[0]
    has_second = right < a.shape[0] and left < b.shape[0]
    if has_first and has_second:
        return a[left] * b[right] - a[right] * b[left]
    if has_first:
        return a[left] * b[right]
    return -(a[right] * b[left]) if has_second else None


RULES[np.cross] = cross


def linalg_cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Return the vectors that are perpendicular to two vectors of three elements each."""
    x1, x2 = array_like(x1), array_like(x2)
    if any(one.shape[axis_index(axis, one.ndim)] != 3 for one in (x1, x2)):
        raise ValueError(
            f"numpy.linalg.cross takes vectors of three elements, not arrays of shapes {x1.shape} and {x2.shape}: "
            "numpy.cross takes those of two elements, too"
        )
    return cross(x1, x2, axis=axis)


RULES[np.linalg.cross] = linalg_cross
