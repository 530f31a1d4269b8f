"""Sums of products over named axes: einsum and tensordot.

An einsum of several arrays is taken apart into contractions of two, in an order that NumPy finds to be cheap;
so its backward is a chain of contractions of two as well. Each is one matrix product where that is possible.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from ...errors import ArgumentError, ArgumentTypeError
from ..arrays.axes import array_like, axis_tuple, in_columns, in_rows, inverse_permutation, laid_like
from ..arrays.device_arrays import as_dtype
from ..arrays.values import is_device_array, raw, zeros_like
from ..recording.primitive import RULES, derivative, primitive
from ..views.writing import cast_for, copy_into
from .subscripts import parse

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..arrays.array import Array


__all__ = ["einsum", "tensordot"]


# One array: axes summed, reordered, taken along a diagonal.


@primitive(views=True)
def contract_one_(x: Any, labels: str, output: str) -> Array:
    """Return an array with the axes of the output, given the letter of each axis of both."""
    return np.einsum(f"{labels}->{output}", x)


@primitive()
def put_on_diagonal_(g: Any, kept: str, labels: str, shape: tuple[int, ...]) -> Array:
    """Return zeros of a shape, with `g` at equal indices of all axes that share a letter."""
    total = zeros_like(g, shape)
    np.einsum(f"{labels}->{kept}", total)[...] = g
    return total


@derivative(put_on_diagonal_, "g")
def _(h: Array, kept: str, labels: str) -> Array:
    return _contract_one(h, labels, kept)


@derivative(contract_one_, "x")
def _(g: Array, x_shape: tuple[int, ...], labels: str, output: str) -> Array:
    return _uncontracted(g, output, labels, x_shape)


_contract_one, _put_on_diagonal = contract_one_.call, put_on_diagonal_.call


def _uncontracted(g: Any, output: str, labels: str, shape: tuple[int, ...]) -> Any:
    """Return the gradient of an operand with those labels, given that of its contraction to `output`."""
    kept = "".join(dict.fromkeys(labels))
    present = "".join(label for label in kept if label in output)
    if present != output:
        g = _contract_one(g, output, present)
    # Along letters that were summed away, or broadcast, all elements have the same gradient.
    lengths, have = dict(zip(labels, shape, strict=True)), dict(zip(present, g.shape, strict=True))
    whole = tuple(lengths[label] if have.get(label, 1) == 1 else have[label] for label in kept)
    if whole != g.shape:
        g = np.broadcast_to(g.reshape([have.get(label, 1) for label in kept]), whole)
    if kept == labels:
        return g
    # The operand's own shape: what broadcasts it along an axis of length 1 is summed.
    broadcast = tuple(axis for axis, label in enumerate(kept) if lengths[label] == 1 != whole[axis])
    return _put_on_diagonal(np.sum(g, broadcast, keepdims=True) if broadcast else g, kept, labels, shape)


# Two arrays.


@primitive(superlinear=True)
def contract_two_(x: Any, y: Any, labels_x: str, labels_y: str, output: str) -> Any:
    """Return the sum of products over the letters that the output lacks."""
    return _contracted(x, y, labels_x, labels_y, output)


@derivative(contract_two_, "x")
def _(g: Array, x_shape: tuple[int, ...], y: Any, labels_x: str, labels_y: str, output: str) -> Array:
    return _operand_gradient(g, y, output, labels_y, labels_x, x_shape)


@derivative(contract_two_, "y")
def _(g: Array, x: Any, y_shape: tuple[int, ...], labels_x: str, labels_y: str, output: str) -> Array:
    return _operand_gradient(g, x, output, labels_x, labels_y, y_shape)


_contract_two: Callable[..., Any] = contract_two_.call


def _operand_gradient(g: Any, other: Any, output: str, labels_other: str, labels: str, shape: tuple[int, ...]) -> Any:
    present = "".join(label for label in dict.fromkeys(labels) if label in output or label in labels_other)
    return _uncontracted(_contract_two(g, other, output, labels_other, present), present, labels, shape)


@final
class _Product(NamedTuple):
    """How a contraction of two arrays becomes a product of two stacks of matrices."""

    alone_x: str | None
    alone_y: str | None
    #: The order of axes of each: batch, rows, columns.
    order_x: tuple[int, ...]
    order_y: tuple[int, ...]
    #: The order of the result's axes, which come as batch, free in x, free in y.
    order_out: tuple[int, ...]
    batch: int
    folded: int


@functools.lru_cache(maxsize=1024)
def _product_of(labels_x: str, labels_y: str, output: str) -> _Product | None:
    """Return the matrix product that does a contraction of two arrays; None where none does."""
    # Each letter stands once in an operand, and in another operand or the output.
    kept_x = "".join(label for label in dict.fromkeys(labels_x) if label in labels_y + output)
    kept_y = "".join(label for label in dict.fromkeys(labels_y) if label in labels_x + output)
    batch = [label for label in kept_x if label in kept_y and label in output]
    folded = [label for label in kept_x if label in kept_y and label not in output]
    free_x = [label for label in kept_x if label not in kept_y]
    free_y = [label for label in kept_y if label not in kept_x]
    if not folded or not (free_x or free_y):
        return None
    order = batch + free_x + free_y
    return _Product(
        None if kept_x == labels_x else f"{labels_x}->{kept_x}",
        None if kept_y == labels_y else f"{labels_y}->{kept_y}",
        tuple(kept_x.index(label) for label in (*batch, *free_x, *folded)),
        tuple(kept_y.index(label) for label in (*batch, *folded, *free_y)),
        tuple(order.index(label) for label in output),
        len(batch),
        len(folded),
    )


def _contracted(x: Any, y: Any, labels_x: str, labels_y: str, output: str) -> Any:
    """Contract two arrays by a matrix product where one does it, else by NumPy's einsum."""
    plan = _product_of(labels_x, labels_y, output)
    if plan is not None and x.size and y.size:
        left = x if plan.alone_x is None else np.einsum(plan.alone_x, x)
        right = y if plan.alone_y is None else np.einsum(plan.alone_y, y)
        left, right = left.transpose(plan.order_x), right.transpose(plan.order_y)
        batch, folded = plan.batch, plan.folded
        free_x = left.ndim - folded
        if left.shape[:batch] == right.shape[:batch] and left.shape[free_x:] == right.shape[batch : batch + folded]:
            shape = left.shape[:free_x] + right.shape[batch + folded :]
            # Written out, since -1 is ambiguous for an empty array.
            length = math.prod(left.shape[free_x:])
            left = left.reshape((*left.shape[:batch], math.prod(left.shape[batch:free_x]), length))
            right = right.reshape((*right.shape[:batch], length, math.prod(right.shape[batch + folded :])))
            return (left @ right).reshape(shape).transpose(plan.order_out)
    return np.einsum(f"{labels_x},{labels_y}->{output}", x, y)


# Any number of arrays.


def einsum(
    *operands: Any,
    out: Any = None,
    optimize: Any = False,
    dtype: npt.DTypeLike | None = None,
    order: Any = "K",
    casting: Any = "safe",
    **kwargs: Any,
) -> Any:
    """Return the sum of products that subscripts describe, as NumPy does.

    `optimize` says in what order more than two arrays are contracted; with False, asyncgrad chooses.
    """
    if kwargs:
        raise TypeError(f"numpy.einsum on a Tensor does not take {', '.join(kwargs)}")
    order = order.upper() if isinstance(order, str) else order
    if out is not None:
        result = einsum(*operands, optimize=optimize, dtype=dtype, order=order, casting=casting)
        return _write_contracted(out, result, casting, dtype is not None)
    if order != "K":
        result = einsum(*operands, optimize=optimize, dtype=dtype, casting=casting)
        return _in_order(result, *parse(operands), order)
    labels, output, arrays = parse(operands)
    if dtype is None and casting != "safe":
        dtype = np.result_type(*map(raw, arrays))
    if dtype is not None:
        arrays = [
            as_dtype(array, dtype, casting) if is_device_array(array) else array.astype(dtype, casting=casting)
            for array in arrays
        ]
    if len(arrays) == 1:
        arrays = [_contract_one(arrays[0], labels[0], output)]
    given = (tuple(labels), output, [raw(array) for array in arrays])
    for left, right in _steps(labels, output, arrays, optimize):
        pending = labels[:left] + labels[left + 1 : right] + labels[right + 1 :]
        needed = set(output).union(*pending)
        result = "".join(label for label in dict.fromkeys(labels[left] + labels[right]) if label in needed)
        if len(labels) == 2:
            result = output
        y, labels_y = arrays.pop(right), labels.pop(right)
        x, labels_x = arrays.pop(left), labels.pop(left)
        arrays.append(_contract_two(x, y, labels_x, labels_y, result))
        labels.append(result)
    return arrays[0] if len(given[0]) == 1 or optimize is not False else _laid_as_by_numpy(arrays[0], *given)


RULES[np.einsum] = einsum


def _write_contracted(out: Any, result: Any, casting: Any, has_dtype: bool) -> Any:
    """Write a contraction into `out`, by a rule of casting; both ways where its dtype is given, as NumPy asks."""
    place = out[0] if isinstance(out, tuple) else out
    if np.ndim(place) != np.ndim(result):
        raise ArgumentError(f"numpy.einsum takes for out an array of shape {np.shape(result)}, not {np.shape(place)}")
    given, wanted = raw(result).dtype, raw(place).dtype
    if has_dtype and not np.can_cast(wanted, given, casting):
        raise ArgumentTypeError(
            f"numpy.einsum with dtype={given.name!r} takes no out of dtype {wanted} by casting={casting!r}: pass "
            f"dtype={wanted.name!r}"
        )
    return copy_into(place, cast_for(place, result, casting))


def _in_order(result: Any, labels: list[str], output: str, arrays: list[Any], order: str) -> Any:
    """Return a result laid out in memory in an order that is not "K"; NumPy leaves a view as it is."""
    if order not in ("A", "C", "F"):
        raise ValueError(f"numpy.einsum takes for order 'K', 'A', 'C' or 'F', not {order!r}")
    if len(labels) == 1 and set(labels[0]) == set(output):
        return result
    by_columns = order == "F" or (order == "A" and all(raw(one).flags.f_contiguous for one in arrays))
    return in_columns(result) if by_columns else in_rows(result)


def _laid_as_by_numpy(result: Any, labels: tuple[str, ...], output: str, arrays: Sequence[Any]) -> Any:
    """Return a new result laid out in memory as NumPy's einsum does, which follows the operands."""
    array = raw(result)
    if len(output) < 2 or array.__class__ is not np.ndarray:
        return result
    if array.flags.c_contiguous and _keep_order(labels, output) and all(one.flags.c_contiguous for one in arrays):
        return result
    letters = output + "".join(dict.fromkeys(letter for one in labels for letter in one if letter not in output))
    if any(len(set(one)) < len(one) for one in labels):
        # A diagonal is an axis with a stride of its own.
        kept = ["".join(dict.fromkeys(one)) for one in labels]
        arrays = [np.einsum(f"{one}->{few}", each) for one, few, each in zip(labels, kept, arrays, strict=True)]
        labels = tuple(kept)
    # Through a name without types: NumPy's type hints allow no lists as op_axes.
    make_iterator: Any = np.nditer
    iterator = make_iterator(
        [*arrays, None],
        ["zerosize_ok", "reduce_ok", "delay_bufalloc", "buffered", "refs_ok"],
        [*[["readonly"]] * len(arrays), ["readwrite", "allocate"]],
        op_axes=[
            *([one.find(letter) for letter in letters] for one in labels),
            [*range(len(output)), *[-1] * (len(letters) - len(output))],
        ],
        op_dtypes=[*(one.dtype for one in arrays), array.dtype],
    )
    return laid_like(result, iterator.operands[-1])


@functools.lru_cache(maxsize=1024)
def _keep_order(labels: tuple[str, ...], output: str) -> bool:
    """Tell whether the letters of the output follow each other in each operand as they do in the output."""
    order = [[output.index(letter) for letter in one if letter in output] for one in labels]
    return all(places == sorted(places) for places in order)


_ONE = np.ones(())


def _steps(labels: Sequence[str], output: str, arrays: Sequence[Any], optimize: Any) -> list[tuple[int, int]]:
    """Return which two arrays to contract at each step; the result goes to the end of the list."""
    if len(arrays) <= 2:
        return [(0, 1)] * (len(arrays) - 1)
    subscripts = f"{','.join(labels)}->{output}"
    # The path depends on the shapes alone.
    shapes = [np.broadcast_to(_ONE, array.shape) for array in arrays]
    path = np.einsum_path(subscripts, *shapes, optimize=optimize if optimize is not False else "greedy")[0]
    steps: list[tuple[int, int]] = []
    count = len(arrays)
    for together in path[1:]:
        chosen = sorted(together)
        while len(chosen) > 1:
            left, right = chosen[0], chosen[1]
            steps.append((left, right))
            count -= 1
            # Without the two, the later arrays move up; the result stands last.
            chosen = [index - 2 for index in chosen[2:]] + [count - 1]
    return steps


# tensordot.


@primitive(superlinear=True)
def tensordot_(a: Any, b: Any, axes: tuple[tuple[int, ...], tuple[int, ...]]) -> Array:
    """Return the sum of products over pairs of axes, each counted from the front."""
    return np.tensordot(a, b, axes)


def _free(ndim: int, folded: tuple[int, ...]) -> list[int]:
    return [axis for axis in range(ndim) if axis not in folded]


@derivative(tensordot_, "a")
def _(g: Array, a_shape: tuple[int, ...], b: Array, axes: tuple[tuple[int, ...], tuple[int, ...]]) -> Array:
    folded_a, folded_b = axes
    free_a, free_b = _free(len(a_shape), folded_a), _free(b.ndim, folded_b)
    result = tensordot(g, b, (tuple(range(len(free_a), g.ndim)), tuple(free_b)))
    # The axes are now the free ones of a, and then its folded ones in the order of their partners in b.
    partners = sorted(range(len(folded_b)), key=folded_b.__getitem__)
    return np.transpose(result, inverse_permutation(free_a + [folded_a[index] for index in partners]))


@derivative(tensordot_, "b")
def _(g: Array, a: Array, b_shape: tuple[int, ...], axes: tuple[tuple[int, ...], tuple[int, ...]]) -> Array:
    folded_a, folded_b = axes
    free_a, free_b = _free(a.ndim, folded_a), _free(len(b_shape), folded_b)
    result = tensordot(a, g, (tuple(free_a), tuple(range(len(free_a)))))
    partners = sorted(range(len(folded_a)), key=folded_a.__getitem__)
    return np.transpose(result, inverse_permutation([folded_b[index] for index in partners] + free_b))


def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Return the sum of products over pairs of axes: the last of `a` with the first of `b`, or those named."""
    a, b = array_like(a), array_like(b)
    if np.ndim(axes) == 0 and not isinstance(axes, (tuple, list)):
        count = int(axes)
        if count > min(a.ndim, b.ndim):
            raise ValueError(
                f"tensordot sums over {count} axes of arrays of shapes {a.shape} and {b.shape}: pass axes=, the number "
                "of axes that they share"
            )
        axes = (tuple(range(a.ndim - count, a.ndim)), tuple(range(count)))
    first, second = axes
    pairs = (axis_tuple(first, a.ndim), axis_tuple(second, b.ndim))
    if len(pairs[0]) != len(pairs[1]):
        raise ValueError(f"tensordot pairs axes, and axes={axes} names {len(pairs[0])} and {len(pairs[1])} of them")
    return tensordot_(a, b, pairs)


def linalg_tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    """Return the sum of products over pairs of axes."""
    return tensordot(x1, x2, axes)


RULES[np.tensordot] = tensordot
RULES[np.linalg.tensordot] = linalg_tensordot
