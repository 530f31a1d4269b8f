"""Full Jacobians and Hessians, by one backward pass for each element of the output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import setitem
from typing import Any

import numpy as np

from ..core.arrays.interception import on_device_of
from ..core.arrays.values import zeros_like
from ..core.recording.handwritten_node import HandwrittenNode
from ..core.rows import check_concurrency
from ..core.settings.awaiting import call
from ..core.settings.context import ANOMALY
from ..core.settings.loop_turn import keep_pace
from ..core.settings.observers import BACKWARDS, STEPS
from ..core.tensor import Tensor, asarray
from ..core.tree.structure import Tree
from ..errors import ArgumentTypeError, UnusedInputError
from .arguments import (
    as_inputs,
    as_outputs,
    as_scalar,
    check_call,
    gradient_rows,
    new_inputs,
    require_history,
    require_output_history,
    transform_scope,
    zeros_like_tensor,
)

__all__ = ["hessian", "jacobian", "require_real", "row_blocks", "stack_rows"]


async def jacobian(
    fn: Callable[..., Any],
    inputs: Tree,
    *,
    create_graph: bool | None = None,
    strict: bool = False,
    concurrency: int | None = None,
) -> Any:
    """Return the Jacobian of `fn`: all first derivatives of each output with respect to each input.

    Runs one backward pass for each element of the outputs. Passes that wait run together; those that only compute run
    one after the other, and yield to the event loop in between.

    Args:
        fn: a function or an `async def` of tensors that returns a tensor or a tuple of them.
        inputs: its arguments, one or a tuple of them: tensors or arrays.
        create_graph: record how the result is computed, to differentiate it again. None records inside
            another transform, or if grad mode is on and an argument requires grad.
        strict: raise if an output does not depend on an input, rather than return zeros.
        concurrency: how many passes run at once; None for all where the graph has to wait, as far as their gradients
            fit into 256 MiB, and one where it only computes.

    Returns:
        A tensor of shape `(*output.shape, *input.shape)` and the dtype of the input. If `fn` returns a tuple, or
        `inputs` is a tuple, a tuple with one entry for each; if both are tuples, `jacobian[output][input]`.

    Raises:
        ArgumentTypeError: an output is complex.
        UnusedInputError: with `strict`, an output does not depend on an input.

    Source: torch.autograd.functional.jacobian.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> async def main():
        ...     return (await ag.jacobian(lambda x: x * x, np.array([1.0, 2.0]))).numpy()
        >>> ag.run(main())
        array([[2., 0.],
               [0., 4.]])
    """
    create_graph, strict = check_call("ag.jacobian", fn, inputs, create_graph, strict)
    at_once, output_name = check_concurrency(concurrency), "ag.jacobian: output {} of the function"
    return await _jacobian_blocks(fn, inputs, create_graph, strict, output_name, at_once)


async def hessian(
    fn: Callable[..., Any],
    inputs: Tree,
    *,
    create_graph: bool | None = None,
    strict: bool = False,
    concurrency: int | None = None,
) -> Any:
    """Return the Hessian of `fn`: all second derivatives with respect to each pair of inputs.

    Args:
        fn: a function or an `async def` of tensors that returns one number as a tensor.
        inputs: its arguments, one or a tuple of them: tensors or arrays.
        create_graph: record how the result is computed, to differentiate it again. None records inside
            another transform, or if grad mode is on and an argument requires grad.
        strict: raise if the value or its gradient does not depend on an input, rather than return zeros.
        concurrency: as for `jacobian`, for the passes of the second derivatives.

    Returns:
        A tensor of shape `(*input.shape, *input.shape)`. If `inputs` is a tuple, a tuple of tuples, with
        `hessian[i][j]` of shape `(*inputs[i].shape, *inputs[j].shape)`.

    Raises:
        ArgumentTypeError: an input is complex.
        InvalidRootError: `fn` does not return one number.
        UnusedInputError: with `strict`, the value or its gradient does not depend on an input.

    Source: torch.autograd.functional.hessian.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> async def main():
        ...     h = await ag.hessian(lambda x, y: x * x * y, (np.array(3.0), np.array(5.0)))
        ...     return [[block.item() for block in row] for row in h]
        >>> ag.run(main())
        [[10.0, 6.0], [6.0, 0.0]]
    """
    output_name = "ag.hessian: the gradient of the function with respect to input {}"
    create_graph, strict = check_call("ag.hessian", fn, inputs, create_graph, strict)
    at_once = check_concurrency(concurrency)
    given, is_tuple = as_inputs(inputs, "ag.hessian")

    value_name = "ag.hessian: the value of the function"

    async def value(*points: Tensor) -> Any:
        output = as_scalar(await call(fn, *points), "ag.hessian")
        if strict:
            require_output_history((output,), value_name)
        return output.reshape(())

    async def gradient(*points: Tensor) -> Any:
        first = await _jacobian_blocks(value, points, True, False, value_name, None)
        if strict:
            require_history(first, f"{output_name} is constant")
        return first

    blocks = await _jacobian_blocks(gradient, given, create_graph, strict, output_name, at_once)
    return blocks if is_tuple else blocks[0][0]


async def _jacobian_blocks(
    fn: Callable[..., Any],
    inputs: Tree,
    create_graph: bool | None,
    strict: bool,
    output_name: str,
    concurrency: int | None,
) -> Any:
    """Return the Jacobian; in errors, `output_name` names the transform and an output, with `{}` for its index."""
    where = output_name.partition(":")[0]
    with transform_scope(create_graph, inputs) as keeps_history:
        points, is_tuple = new_inputs(inputs, keeps_history, where)
        outputs, outputs_are_tuple = as_outputs(await call(fn, *points), where)
        if strict:
            require_output_history(outputs, output_name)
        require_real(outputs, output_name)

        def check(index: int, rows: Sequence[tuple[Tensor | None, ...]]) -> None:
            _check_rows(rows, output_name.format(index), bool(create_graph))

        by_output = await row_blocks(outputs, points, keeps_history, check if strict else None, concurrency)
        blocks = tuple([block if is_tuple else block[0] for block in by_output])
        return blocks if outputs_are_tuple else blocks[0]


async def row_blocks(
    outputs: Sequence[Tensor],
    points: Sequence[Tensor],
    keeps_history: bool,
    check: Callable[[int, Sequence[tuple[Tensor | None, ...]]], None] | None = None,
    concurrency: int | None = None,
) -> list[tuple[Tensor, ...]]:
    """Return for each output the blocks of the Jacobian for all points; rows that wait run together.

    Args:
        outputs: computed from the points.
        points: the tensors to differentiate with respect to.
        keeps_history: record how the blocks are computed.
        check: called with the index of each output and its rows, in which None is an undefined gradient.
        concurrency: how many rows run at once; None for all where the graph waits.
    """
    plain = not keeps_history and check is None
    blocks = [await _by_node(output, points) if plain else None for output in outputs]
    others = [index for index, found in enumerate(blocks) if found is None]
    rows_of_others = await gradient_rows(
        [outputs[index] for index in others], points, create_graph=keeps_history, concurrency=concurrency
    )
    for index, rows in zip(others, rows_of_others, strict=True):
        if check is not None:
            check(index, rows)
        blocks[index] = tuple(
            [
                stack_rows([row[position] for row in rows], outputs[index], point, keeps_history)
                for position, point in enumerate(points)
            ]
        )
    return [block for block in blocks if block is not None]


async def _by_node(output: Tensor, points: Sequence[Tensor]) -> tuple[Tensor, ...] | None:
    """Return the blocks of an output whose node computes them; None for most, and where a backward is observed."""
    node = output._grad_fn
    if not isinstance(node, HandwrittenNode) or ANOMALY.get() is not None or STEPS.found() or BACKWARDS.found():
        return None
    steps = node.jacobian(points)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            arrays = end.value
            break
        await keep_pace()
    if arrays is None:
        return None
    shapes = [(*output.shape, *point.shape) for point in points]
    blocks = [
        zeros_like(point._data, shape) if array is None else array.reshape(shape)
        for array, point, shape in zip(arrays, points, shapes, strict=True)
    ]
    return tuple([asarray(block, device=point.device) for block, point in zip(blocks, points, strict=True)])


def require_real(outputs: Sequence[Tensor], output_name: str) -> None:
    """Raise unless all outputs are real; in errors, `output_name` names one, with `{}` for its index."""
    for index, output in enumerate(outputs):
        if output.dtype.kind == "c":
            raise ArgumentTypeError(
                f"{output_name.format(index)} is complex, but a Jacobian has one row for each element of a real "
                "output: differentiate its real and imaginary parts, np.real and np.imag, one by one"
            )


def _check_rows(rows: Sequence[tuple[Tensor | None, ...]], output: str, create_graph: bool) -> None:
    for row in rows:
        for index, gradient in enumerate(row):
            if gradient is None:
                raise UnusedInputError(
                    f"{output} does not depend on input {index}, which strict=True does not allow: write "
                    "strict=False for zeros"
                )
            if create_graph and not gradient.requires_grad:
                raise UnusedInputError(
                    f"{output} has a constant Jacobian with respect to input {index}, "
                    "which strict=True with create_graph=True does not allow"
                )


def stack_rows(rows: Sequence[Tensor | None], output: Tensor, point: Tensor, keeps_history: bool) -> Tensor:
    """Return the rows of one block of a Jacobian as one tensor, with zeros for undefined rows."""
    shape = (*output.shape, *point.shape)
    if keeps_history and any(row is not None and row.requires_grad for row in rows):
        complete = [zeros_like_tensor(point) if row is None else row for row in rows]
        joined: Any = complete[0] if len(complete) == 1 else np.stack(complete)
        result: Tensor = joined.reshape(shape)
        return result
    block = zeros_like(point._data, (len(rows), *point.shape))
    for index, row in enumerate(rows):
        if row is not None:
            on_device_of(block, setitem, index, row._data)
    return asarray(block.reshape(shape), device=point.device)
