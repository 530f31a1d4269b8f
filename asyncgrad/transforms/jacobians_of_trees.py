"""Jacobians and Hessians of functions of trees."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ParamSpec

import numpy as np

from ..core.rows import check_concurrency
from ..core.settings.arguments import check_function, truth
from ..core.tensor import Tensor
from .arguments import (
    argument_positions,
    check_argnums,
    conjugates,
    gradient_rows,
    gradients,
    require_complex,
    zeros_like_tensor,
)
from .calls import TransformCall, named_after
from .jacobians import require_real, row_blocks, stack_rows

__all__ = ["hessian", "jacfwd", "jacrev"]

Argnums = int | tuple[int, ...]
P = ParamSpec("P")

_HESSIAN = "ag.func.hessian"


def jacrev(
    f: Callable[P, object],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    holomorphic: bool = False,
    concurrency: int | None = None,
) -> Callable[P, Coroutine[object, None, Any]]:
    """Return an async function that returns the Jacobian of `f`, by one backward for each element of the result.

    Args:
        f: a function or an `async def` of trees that returns a tree of Tensors, real unless `holomorphic`.
        argnums: which positional arguments to differentiate with respect to: an int, or a tuple of them.
        has_aux: `f` returns a pair: that result, and something else to return with the Jacobian.
        holomorphic: `f` is a holomorphic function of complex numbers, and what is returned its complex derivatives.
        concurrency: how many of the backward passes run at once; None for all where the graph has to wait, as far as
            their gradients fit into 256 MiB, and one where it only computes. What is to be differentiated again is
            computed by one after the other.

    Returns:
        An `async def` with the arguments of `f`. With `has_aux` it returns `(jacobian, aux)`, else the Jacobian: a tree
        like the result of `f`. In place of each leaf is a
        tree like the argument, with leaves of shape `(*output.shape, *input.shape)`; or, if `argnums` is a tuple, a
        tuple of such trees.

    Raises:
        ArgumentTypeError: `f` cannot be called, or an output is complex.
        GradientTypeError: a leaf of an argument or of the result is not a number; the message names it by its path.

    Source: torch.func.jacrev.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> async def main():
        ...     return await ag.func.jacrev(ag.func.grad(lambda x: (x**3).sum()))(np.array([1.0, 2.0]))
        >>> ag.run(main())
        array([[ 6.,  0.],
               [ 0., 12.]])
    """
    return _jacobian_function("jacrev", f, argnums, has_aux, holomorphic, concurrency, _rows_of_jacobian)


def jacfwd(
    f: Callable[P, object],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    holomorphic: bool = False,
    concurrency: int | None = None,
) -> Callable[P, Coroutine[object, None, Any]]:
    """Return an async function that returns the Jacobian of `f`, by one backward for each element of the arguments.

    The result is that of `jacrev`. It takes less time if the result of `f` has more elements than the arguments.

    Args:
        f: as for `jacrev`.
        argnums: as for `jacrev`.
        has_aux: as for `jacrev`.
        holomorphic: as for `jacrev`.
        concurrency: as for `jacrev`.

    Returns:
        As `jacrev`.

    Raises:
        ArgumentTypeError, GradientTypeError: as for `jacrev`.

    Source: torch.func.jacfwd.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> async def main():
        ...     return await ag.func.jacfwd(lambda x: x * np.arange(3.0))(2.0)
        >>> ag.run(main())
        array([0., 1., 2.])
    """
    return _jacobian_function("jacfwd", f, argnums, has_aux, holomorphic, concurrency, _columns_of_jacobian)


def hessian(
    f: Callable[P, object],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    holomorphic: bool = False,
    concurrency: int | None = None,
) -> Callable[P, Coroutine[object, None, Any]]:
    """Return an async function that returns the Hessian of `f`.

    Args:
        f: a function or an `async def` of trees that returns a tree of Tensors, most often one number.
        argnums: as for `jacrev`.
        has_aux: `f` returns a pair: that result, and something else to return with the Hessian.
        holomorphic: as for `jacrev`.
        concurrency: as for `jacrev`.

    Returns:
        An `async def` with the arguments of `f`. With `has_aux` it returns `(hessian, aux)`, else the Hessian: a tree
        like the argument, with another tree like it in place of each leaf, whose leaves have the shape
        `(*output.shape, *first.shape, *second.shape)`. If `argnums` is a tuple, tuples of trees take the place of both
        trees. A tree of Tensors has such a tree in the place of each.

    Raises:
        ArgumentTypeError: `f` cannot be called, or a leaf is complex.
        GradientTypeError: a leaf of an argument or of the result is not a number; the message names it by its path.

    Source: torch.func.hessian.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> async def main():
        ...     return await ag.func.hessian(lambda p: p["x"] ** 2 * p["y"])({"x": 3.0, "y": 5.0})
        >>> {a: {b: float(entry) for b, entry in row.items()} for a, row in ag.run(main()).items()}
        {'x': {'x': 10.0, 'y': 6.0}, 'y': {'x': 6.0, 'y': 0.0}}
    """
    check_function(f, "ag.func.hessian", argnums)
    check_argnums(argnums)
    has_aux, holomorphic = truth(has_aux, "has_aux"), truth(holomorphic, "holomorphic")
    at_once = check_concurrency(concurrency)

    def again(other: Callable[..., object]) -> Callable[..., Any]:
        return hessian(other, argnums, has_aux, holomorphic=holomorphic, concurrency=at_once)

    @named_after(f, _HESSIAN, "Hessian", argnums, again)
    async def second_derivatives(*args: P.args, **kwargs: P.kwargs) -> Any:
        transform_call = TransformCall(_HESSIAN, f, args, kwargs, argument_positions(argnums, len(args)), has_aux)
        with transform_call.recording() as keeps_history:
            points = transform_call.new_points(keeps_history)
            outputs = await transform_call(*points)
            _require_twice(points, outputs, holomorphic)
            blocks = await _second_derivatives(outputs, points, keeps_history, holomorphic, at_once)
        packed = [_pack_hessian(transform_call, rows, argnums, keeps_history) for rows in blocks]
        found = transform_call.like_outputs(packed)
        return (found, transform_call.aux(keeps_history)) if has_aux else found

    return second_derivatives


#: Takes the points, the outputs computed from them, whether the blocks are to keep their history, and how many backward
#: passes run at once.
Blocks = Callable[
    [Sequence[Tensor], Sequence[Tensor], bool, int | None], Coroutine[object, None, Sequence[Sequence[Tensor]]]
]


def _jacobian_function(
    name: str,
    f: Callable[P, object],
    argnums: Argnums,
    has_aux: bool,
    holomorphic: bool,
    concurrency: int | None,
    compute: Blocks,
) -> Callable[P, Coroutine[object, None, Any]]:
    where = f"ag.func.{name}"
    check_function(f, where, argnums)
    check_argnums(argnums)
    has_aux, holomorphic = truth(has_aux, "has_aux"), truth(holomorphic, "holomorphic")
    at_once = check_concurrency(concurrency)

    def again(other: Callable[..., object]) -> Callable[..., Any]:
        return _jacobian_function(name, other, argnums, has_aux, holomorphic, at_once, compute)

    @named_after(f, where, "Jacobian", argnums, again)
    async def first_derivatives(*args: P.args, **kwargs: P.kwargs) -> Any:
        transform_call = TransformCall(where, f, args, kwargs, argument_positions(argnums, len(args)), has_aux)
        with transform_call.recording() as keeps_history:
            points = transform_call.new_points(keeps_history)
            outputs = await transform_call(*points)
            if holomorphic:
                _require_holomorphic(points, outputs, where)
            else:
                require_real(outputs, f"{where}: output {{}} of the function")
            blocks = await compute(points, outputs, keeps_history, at_once)
        found = transform_call.like_outputs(
            [_pack_block(transform_call, block, argnums, keeps_history) for block in blocks]
        )
        return (found, transform_call.aux(keeps_history)) if has_aux else found

    return first_derivatives


def _require_holomorphic(points: Sequence[Tensor], outputs: Sequence[Tensor], where: str) -> None:
    require_complex(points, f"{where}: with holomorphic=True an argument")
    require_complex(outputs, f"{where}: with holomorphic=True the result")


def _require_twice(points: Sequence[Tensor], outputs: Sequence[Tensor], holomorphic: bool) -> None:
    """Raise unless a Hessian is defined: all is complex, or all is real."""
    if holomorphic:
        _require_holomorphic(points, outputs, _HESSIAN)
    else:
        require_real(outputs, f"{_HESSIAN}: output {{}} of the function")
        require_real(points, f"{_HESSIAN}: the gradient of the function with respect to input {{}}")


def _pack_hessian(
    transform_call: TransformCall, rows: Sequence[Sequence[Tensor]], argnums: Argnums, keeps_history: bool
) -> Any:
    packed = [_pack_block(transform_call, row, argnums, keeps_history) for row in rows]
    trees = transform_call.containers_like_points(packed)
    return trees if isinstance(argnums, tuple) else trees[0]


def _pack_block(transform_call: TransformCall, block: Sequence[Tensor], argnums: Argnums, keeps_history: bool) -> Any:
    trees = transform_call.like_points(block, keeps_history)
    return trees if isinstance(argnums, tuple) else trees[0]


async def _rows_of_jacobian(
    points: Sequence[Tensor], outputs: Sequence[Tensor], keeps_history: bool, concurrency: int | None
) -> Sequence[Sequence[Tensor]]:
    """Return for each output the blocks of the Jacobian for all inputs, row by row."""
    blocks = await row_blocks(outputs, points, keeps_history, None, concurrency) if points else [()] * len(outputs)
    # A gradient is the conjugate of the derivative; that of a real function has no imaginary part.
    return [
        conjugates(block) if output.dtype.kind == "c" else block for output, block in zip(outputs, blocks, strict=True)
    ]


async def _second_derivatives(
    outputs: Sequence[Tensor],
    points: Sequence[Tensor],
    keeps_history: bool,
    holomorphic: bool,
    concurrency: int | None,
) -> Sequence[Sequence[Sequence[Tensor]]]:
    """Return for each output, and each point, the blocks of the Hessian for all points."""
    if not points:
        return [()] * len(outputs)
    by_output = await row_blocks(outputs, points, True)
    gradients_of_all = [grad for grads in by_output for grad in (conjugates(grads) if holomorphic else grads)]
    rows = await row_blocks(gradients_of_all, points, keeps_history, None, concurrency)
    found = [conjugates(row) if holomorphic else row for row in rows]
    return [found[first : first + len(points)] for first in range(0, len(found), len(points))]


async def _columns_of_jacobian(
    points: Sequence[Tensor], outputs: Sequence[Tensor], keeps_history: bool, concurrency: int | None
) -> Sequence[Sequence[Tensor]]:
    """Return for each output the blocks of the Jacobian for all inputs, column by column."""
    # `grad_outputs @ J` is linear in `grad_outputs`, so the gradient of each of its elements is a column of J; both
    # gradients conjugate a complex J.
    grad_outputs = tuple([zeros_like_tensor(output).requires_grad_() for output in outputs])
    grad_inputs = await gradients(outputs, points, grad_outputs, create_graph=True)
    products = [
        zeros_like_tensor(point) if product is None else product
        for point, product in zip(points, grad_inputs, strict=True)
    ]
    found = await gradient_rows(products, grad_outputs, create_graph=keeps_history, concurrency=concurrency)
    by_point = [
        [
            _rows_last(stack_rows([column[index] for column in columns], point, start, keeps_history), point.ndim)
            for index, start in enumerate(grad_outputs)
        ]
        for point, columns in zip(points, found, strict=True)
    ]
    return [[blocks[index] for blocks in by_point] for index in range(len(grad_outputs))]


def _rows_last(block: Tensor, ndim: int) -> Tensor:
    """Return a block with its first `ndim` axes moved to the end."""
    return np.transpose(block, (*range(ndim, block.ndim), *range(ndim)))  # type: ignore[return-value]
