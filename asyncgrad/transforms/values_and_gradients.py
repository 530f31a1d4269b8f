"""`value_and_grad`: turns a function into one that also returns its gradient."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any

from ..core.settings.arguments import check_function, truth
from ..core.settings.awaiting import call
from ..core.tensor import Tensor
from ..core.tree.structure import TreeStructure, flatten, paths, unflatten, unflatten_each
from ..core.value import Value
from ..errors import GradientTypeError
from .arguments import (
    argument_positions,
    as_scalar,
    as_tensor,
    check_argnums,
    fill_missing,
    gradients,
    new_input,
    pack_results,
    transform_scope,
)
from .recipes import by_program, remember

__all__ = ["value_and_grad"]


def value_and_grad(
    fn: Callable[..., Any], argnums: int | tuple[int, ...] = 0, *, create_graph: bool | None = None
) -> Callable[..., Coroutine[object, None, tuple[Tensor, Any]]]:
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
        An `async def` with the arguments of `fn`; those that `argnums` names may be tensors, arrays, or trees
        (`ag.tree`) of them and of values. It returns `(value, gradient)`, two Tensors. The gradient of a tree is a tree
        of Tensors; the gradient is a tuple if `argnums` is one.

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
            inputs: list[Tensor] = []
            structures = []
            for position in positions:
                points, structure = _as_points(args[position], f"ag.value_and_grad: argument {position}", keeps_history)
                arguments[position] = unflatten(structure, points)
                inputs += points
                structures.append(structure)
            value = as_scalar(await call(fn, *arguments, **kwargs), "ag.value_and_grad")
            found = await gradients((value,), inputs, create_graph=keeps_history) if inputs else ()
            grads = fill_missing(found, inputs, strict=False, create_graph=False, missing="", constant="")
        trees = unflatten_each(structures, pack_results(grads, True, keeps_history))
        return pack_results((value,), False, keeps_history), tuple(trees) if isinstance(argnums, tuple) else trees[0]

    key = "value_and_grad", argnums, create_graph
    remember(with_gradient, fn, lambda other: value_and_grad(other, argnums, create_graph=create_graph), key)
    return by_program(with_gradient)


def _as_points(argument: Any, what: str, keeps_history: bool) -> tuple[list[Tensor], TreeStructure]:
    """Return the leaves of an argument as new tensors that require grad, and its structure; `what` is its name."""
    given, structure = flatten(argument)
    if structure.cls is list and given and not any(hasattr(leaf, "dtype") for leaf in given):
        # Most likely meant as an array, which the function would not get.
        raise GradientTypeError(f"{what} must be a tensor or an array, not list: write np.array(...)")
    named = zip(given, paths(structure, what), strict=True)
    return [
        new_input(leaf if isinstance(leaf, Value) else as_tensor(leaf, name), keeps_history, name)
        for leaf, name in named
    ], structure
