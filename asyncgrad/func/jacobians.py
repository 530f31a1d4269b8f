"""Jacobians and Hessians of functions of trees."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import numpy as np

from .. import functional
from ..arguments import check_function, truth
from ..engine.loops import Pace
from ..functional.arguments import (
    argument_positions,
    as_scalar,
    check_argnums,
    gradient_rows,
    gradients,
    zeros_like,
)
from ..functional.jacobians import jacobian_blocks, require_real, stack_rows
from ..tensor import Tensor
from .calls import TransformCall

__all__ = ["hessian", "jacfwd", "jacrev"]

Argnums = int | tuple[int, ...]


def jacrev(
    f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Return an async function that returns the Jacobian of `f`, by one backward for each element of the result.

    Args:
        f: a function or an `async def` of trees that returns a tree of real Tensors.
        argnums: which positional arguments to differentiate with respect to: an int, or a tuple of them.
        has_aux: `f` returns a pair: that result, and something else to return with the Jacobian.

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
    return _jacobian_function("jacrev", f, argnums, has_aux, _rows_of_jacobian)


def jacfwd(
    f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Return an async function that returns the Jacobian of `f`, by one backward for each element of the arguments.

    The result is that of `jacrev`. It takes less time if the result of `f` has more elements than the arguments.

    Args:
        f: as for `jacrev`.
        argnums: as for `jacrev`.
        has_aux: as for `jacrev`.

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
    return _jacobian_function("jacfwd", f, argnums, has_aux, _columns_of_jacobian)


def hessian(
    f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Return an async function that returns the Hessian of `f`.

    Args:
        f: a function or an `async def` of trees that returns one number as a Tensor.
        argnums: as for `jacrev`.
        has_aux: `f` returns a pair: that number, and something else to return with the Hessian.

    Returns:
        An `async def` with the arguments of `f`. With `has_aux` it returns `(hessian, aux)`, else the Hessian: a tree
        like the argument, with another tree like it in
        place of each leaf. If `argnums` is a tuple, tuples of trees take the place of both trees.

    Raises:
        ArgumentTypeError: `f` cannot be called, or a leaf is complex.
        GradientTypeError: a leaf of an argument is not a number, or `f` does not return a Tensor; the message names
            the leaf by its path.
        InvalidRootError: `f` returns more than one number.

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
    has_aux = truth(has_aux, "has_aux")

    @functools.wraps(f)
    async def second_derivatives(*args: Any, **kwargs: Any) -> Any:
        transform_call = TransformCall(
            "ag.func.hessian", f, args, kwargs, argument_positions(argnums, len(args)), has_aux
        )

        async def value(*points: Tensor) -> Tensor:
            return as_scalar(await transform_call.one_output(*points), "ag.func.hessian")

        with transform_call.recording() as keeps_history:
            if transform_call.points:
                blocks = await functional.hessian(value, transform_call.points, create_graph=keeps_history)
            else:
                await value()
                blocks = ()
        rows = transform_call.containers_like_points(
            [_pack_block(transform_call, row, argnums, keeps_history) for row in blocks]
        )
        found = rows if isinstance(argnums, tuple) else rows[0]
        return (found, transform_call.aux(keeps_history)) if has_aux else found

    return second_derivatives


Blocks = Callable[[TransformCall, bool], Coroutine[Any, Any, Sequence[Sequence[Tensor]]]]


def _jacobian_function(
    name: str, f: Callable[..., Any], argnums: Argnums, has_aux: bool, compute: Blocks
) -> Callable[..., Coroutine[Any, Any, Any]]:
    check_function(f, f"ag.func.{name}", argnums)
    check_argnums(argnums)
    has_aux = truth(has_aux, "has_aux")

    @functools.wraps(f)
    async def first_derivatives(*args: Any, **kwargs: Any) -> Any:
        transform_call = TransformCall(
            f"ag.func.{name}", f, args, kwargs, argument_positions(argnums, len(args)), has_aux
        )
        with transform_call.recording() as keeps_history:
            blocks = await compute(transform_call, keeps_history)
        found = transform_call.like_outputs(
            [_pack_block(transform_call, block, argnums, keeps_history) for block in blocks]
        )
        return (found, transform_call.aux(keeps_history)) if has_aux else found

    return first_derivatives


def _pack_block(transform_call: TransformCall, block: Sequence[Tensor], argnums: Argnums, keeps_history: bool) -> Any:
    trees = transform_call.like_points(block, keeps_history)
    return trees if isinstance(argnums, tuple) else trees[0]


async def _rows_of_jacobian(transform_call: TransformCall, keeps_history: bool) -> Sequence[Sequence[Tensor]]:
    """Return for each output the blocks of the Jacobian for all inputs, row by row."""
    if not transform_call.points:
        return [()] * len(await transform_call())
    blocks: Sequence[Sequence[Tensor]] = await jacobian_blocks(
        transform_call, transform_call.points, keeps_history, False, "ag.func.jacrev: output {} of the function"
    )
    return blocks


async def _columns_of_jacobian(transform_call: TransformCall, keeps_history: bool) -> Sequence[Sequence[Tensor]]:
    """Return for each output the blocks of the Jacobian for all inputs, column by column."""
    points = transform_call.new_points(keeps_history)
    outputs = await transform_call(*points)
    require_real(outputs, "ag.func.jacfwd: output {} of the function")
    require_real(points, "ag.func.jacfwd: input {} of the function")
    # `grad_outputs @ J` is linear in `grad_outputs`, so the gradient of each of its elements is a column of J.
    grad_outputs = tuple([zeros_like(output).requires_grad_() for output in outputs])
    grad_inputs = await gradients(outputs, points, grad_outputs, create_graph=True)
    pace = Pace()
    by_point = []
    for point, product in zip(points, grad_inputs, strict=True):
        columns = await gradient_rows(
            zeros_like(point) if product is None else product, grad_outputs, create_graph=keeps_history, pace=pace
        )
        by_point.append(
            [
                _rows_last(stack_rows([column[index] for column in columns], point, start, keeps_history), point.ndim)
                for index, start in enumerate(grad_outputs)
            ]
        )
    return [[blocks[index] for blocks in by_point] for index in range(len(grad_outputs))]


def _rows_last(block: Tensor, ndim: int) -> Tensor:
    """Return a block with its first `ndim` axes moved to the end."""
    return np.transpose(block, (*range(ndim, block.ndim), *range(ndim)))  # type: ignore[return-value]
