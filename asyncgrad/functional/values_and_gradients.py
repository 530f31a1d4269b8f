"""`value_and_grad`: turns a function into one that also returns its gradient."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any

from ..arguments import check_function, truth
from ..tensor import Tensor
from .arguments import (
    argument_positions,
    as_scalar,
    as_tensor,
    call,
    check_argnums,
    fill_missing,
    gradients,
    new_input,
    pack_results,
    transform_scope,
)

__all__ = ["value_and_grad"]


def value_and_grad(
    fn: Callable[..., Any], argnums: int | tuple[int, ...] = 0, *, create_graph: bool | None = None
) -> Callable[..., Coroutine[Any, Any, tuple[Tensor, Any]]]:
    """Return an async function that returns the value of `fn` and its gradient, and leaves each `.grad` unchanged.

    If the value does not depend on an argument, the gradient of that argument is zeros.

    Args:
        fn: a function or an `async def` that returns one number as a Tensor.
        argnums: which positional arguments to differentiate with respect to: an int, or a tuple of them.
        create_graph: record how the value and the gradients are computed, to differentiate them again with respect to
            arguments that require grad and to tensors that `fn` captured. None records inside another transform, or if
            grad mode is on and an argument requires grad. A training step that only applies the gradients should pass
            False: recording costs time and memory.

    Returns:
        An `async def` with the arguments of `fn`; those that `argnums` names may be tensors or arrays. It returns
        `(value, gradient)`; the gradient is a tuple if `argnums` is one.

    Raises:
        ArgumentTypeError: `fn` cannot be called.
        GradientTypeError: `fn` returns something other than a Tensor.
        InvalidRootError: `fn` returns a Tensor that is not one real number.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> def loss(w, x):
        ...     return (w * x) ** 2
        >>> async def main():
        ...     value, gradient = await ag.value_and_grad(loss)(np.array(3.0), 2.0)
        ...     return value.item(), gradient.item()
        >>> ag.run(main())
        (36.0, 24.0)
    """
    check_function(fn, "ag.value_and_grad", argnums)
    check_argnums(argnums)
    create_graph = None if create_graph is None else truth(create_graph, "create_graph")

    @functools.wraps(fn)
    async def with_gradient(*args: Any, **kwargs: Any) -> tuple[Tensor, Any]:
        positions = argument_positions(argnums, len(args))
        with transform_scope(create_graph, args, kwargs) as keeps_history:
            arguments = list(args)
            inputs = []
            for position in positions:
                what = f"ag.value_and_grad: argument {position}"
                inputs.append(new_input(as_tensor(args[position], what), keeps_history, what))
                arguments[position] = inputs[-1]
            value = as_scalar(await call(fn, *arguments, **kwargs), "ag.value_and_grad")
            found = await gradients((value,), inputs, create_graph=keeps_history)
            grads = fill_missing(found, inputs, strict=False, create_graph=False, missing="", constant="")
        is_tuple = isinstance(argnums, tuple)
        return pack_results((value,), False, keeps_history), pack_results(grads, is_tuple, keeps_history)

    return with_gradient
