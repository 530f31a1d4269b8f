"""Gradients of functions that return one number, and derivatives of elementwise functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Literal, ParamSpec, overload

from ..core.arrays.values import ones_like
from ..core.backward import capture
from ..core.settings.arguments import check_function, truth
from ..core.tensor import Tensor, asarray
from ..core.value import Value
from ..errors import InvalidRootError
from .arguments import argument_positions, as_scalar, check_argnums, conjugates, require_complex, zeros_like_tensor
from .calls import TransformCall, named_after

__all__ = ["elementwise_grad", "grad", "value_and_grad"]

Argnums = int | tuple[int, ...]
P = ParamSpec("P")


@overload
def grad(
    f: Callable[P, object], argnums: int = 0, has_aux: Literal[False] = False, *, holomorphic: bool = False
) -> Callable[P, Coroutine[object, None, Any]]: ...


@overload
def grad(
    f: Callable[P, object], argnums: tuple[int, ...], has_aux: Literal[False] = False, *, holomorphic: bool = False
) -> Callable[P, Coroutine[object, None, tuple[Any, ...]]]: ...


@overload
def grad(
    f: Callable[P, object], argnums: Argnums = 0, *, has_aux: Literal[True], holomorphic: bool = False
) -> Callable[P, Coroutine[object, None, tuple[Any, Any]]]: ...


@overload
def grad(
    f: Callable[P, object], argnums: Argnums = 0, has_aux: bool = False, *, holomorphic: bool = False
) -> Callable[P, Coroutine[object, None, Any]]: ...


def grad(
    f: Callable[P, object], argnums: Argnums = 0, has_aux: bool = False, *, holomorphic: bool = False
) -> Callable[P, Coroutine[object, None, Any]]:
    """Return an async function that returns the gradient of `f`.

    Args:
        f: a function or an `async def` that returns one number as a Tensor, or a value whose type has a `seed`. Its
            arguments are trees of numbers and of values (`ag.Value`), whose gradients are what their types say.
        argnums: which positional arguments to differentiate with respect to: an int, or a tuple of them.
        has_aux: `f` returns a pair: that number, and something else to return with the gradient.
        holomorphic: `f` is a holomorphic function of complex numbers, and what is returned its complex derivative,
            rather than the direction in which a real number grows.

    Returns:
        An `async def` with the arguments of `f`. It returns a tree with the structure of the argument, or a tuple of
        them if `argnums` is a tuple; with `has_aux`, `(gradient, aux)`. The gradient of a leaf that the number does not
        depend on is zeros.

    Raises:
        ArgumentTypeError: `f` cannot be called.
        GradientTypeError: a leaf of an argument is not a number, or `f` does not return a Tensor; the message names
            the leaf by its path.
        InvalidRootError: `f` returns more than one number, or a complex one.

    Source: torch.func.grad; jax.grad, which has `holomorphic`.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> async def main():
        ...     return await ag.func.grad(ag.func.grad(np.sin))(1.0)
        >>> round(float(ag.run(main())), 3)
        -0.841
    """
    has_aux, holomorphic = _check("grad", f, argnums, has_aux, holomorphic)

    remake: Callable[..., Any] = grad
    again = functools.partial(remake, argnums=argnums, has_aux=has_aux, holomorphic=holomorphic)

    @named_after(f, "ag.func.grad", "gradient", argnums, again, ("func.grad", argnums, has_aux, holomorphic))
    async def gradient(*args: P.args, **kwargs: P.kwargs) -> Any:
        _, found, aux = await _differentiate(
            "ag.func.grad", f, argnums, has_aux, args, kwargs, wants_value=False, holomorphic=holomorphic
        )
        return (found, aux) if has_aux else found

    return gradient


def value_and_grad(
    f: Callable[P, object], argnums: Argnums = 0, has_aux: bool = False, *, holomorphic: bool = False
) -> Callable[P, Coroutine[object, None, tuple[Any, Any]]]:
    """Return an async function that returns the value of `f` and its gradient.

    Args:
        f: as for `grad`.
        argnums: as for `grad`.
        has_aux: as for `grad`.
        holomorphic: as for `grad`.

    Returns:
        An `async def` with the arguments of `f`. It returns `(value, gradient)`, with the gradient that `grad` returns;
        with `has_aux`, `((value, aux), gradient)`.

    Raises:
        ArgumentTypeError, GradientTypeError, InvalidRootError: as for `grad`.

    Source: torch.func.grad_and_value, which returns the pair in the other order; jax.value_and_grad.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> def loss(params, x):
        ...     return ((params["w"] * x + params["b"]) ** 2).sum()
        >>> async def main():
        ...     return await ag.func.value_and_grad(loss)({"w": np.ones(2), "b": 1.0}, np.array([1.0, 2.0]))
        >>> value, gradient = ag.run(main())
        >>> float(value), gradient["w"], float(gradient["b"])
        (13.0, array([ 4., 12.]), 10.0)
    """
    has_aux, holomorphic = _check("value_and_grad", f, argnums, has_aux, holomorphic)

    remake: Callable[..., Any] = value_and_grad
    again = functools.partial(remake, argnums=argnums, has_aux=has_aux, holomorphic=holomorphic)

    key = "func.value_and_grad", argnums, has_aux, holomorphic

    @named_after(f, "ag.func.value_and_grad", "value and gradient", argnums, again, key)
    async def with_gradient(*args: P.args, **kwargs: P.kwargs) -> tuple[Any, Any]:
        value, found, aux = await _differentiate(
            "ag.func.value_and_grad", f, argnums, has_aux, args, kwargs, holomorphic=holomorphic
        )
        return (value, aux) if has_aux else value, found

    return with_gradient


def elementwise_grad(
    f: Callable[P, object], argnums: Argnums = 0, *, holomorphic: bool = False
) -> Callable[P, Coroutine[object, None, Any]]:
    """Return an async function that returns the derivative of `f` at each element: the gradient of its sum.

    Args:
        f: a function or an `async def` that returns a Tensor, each element of which depends only on the element of the
            argument at the same index.
        argnums: as for `grad`.
        holomorphic: as for `grad`.

    Returns:
        An `async def` with the arguments of `f`. It returns a tree like the argument, as that of `grad` does.

    Raises:
        ArgumentTypeError, GradientTypeError, InvalidRootError: as for `grad`, but `f` may return any shape.

    Source: autograd.elementwise_grad.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> async def main():
        ...     return await ag.func.elementwise_grad(lambda x: x**3)(np.array([1.0, 2.0]))
        >>> ag.run(main())
        array([ 3., 12.])
    """
    _, holomorphic = _check("elementwise_grad", f, argnums, False, holomorphic)

    def again(other: Callable[..., object]) -> Callable[..., Any]:
        return elementwise_grad(other, argnums, holomorphic=holomorphic)

    key = "func.elementwise_grad", argnums, holomorphic

    @named_after(f, "ag.func.elementwise_grad", "derivative at each element", argnums, again, key)
    async def derivative(*args: P.args, **kwargs: P.kwargs) -> Any:
        _, found, _ = await _differentiate(
            "ag.func.elementwise_grad",
            f,
            argnums,
            False,
            args,
            kwargs,
            elementwise=True,
            wants_value=False,
            holomorphic=holomorphic,
        )
        return found

    return derivative


def _check(name: str, f: Any, argnums: Any, has_aux: Any, holomorphic: Any) -> tuple[bool, bool]:
    check_function(f, f"ag.func.{name}", argnums)
    check_argnums(argnums)
    return truth(has_aux, "has_aux"), truth(holomorphic, "holomorphic")


async def _differentiate(
    where: str,
    f: Callable[..., Any],
    argnums: Argnums,
    has_aux: bool,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    elementwise: bool = False,
    wants_value: bool = True,
    holomorphic: bool = False,
) -> tuple[Any, Any, Any]:
    """Return the value of `f`, None unless that is wanted, its gradient, and its aux, None without `has_aux`."""
    positions = argument_positions(argnums, len(args))
    transform_call = TransformCall(where, f, args, kwargs, positions, has_aux, takes_values=not elementwise)
    with transform_call.recording() as keeps_history:
        points = transform_call.new_points(keeps_history)
        output = await transform_call.one_output(*points)
        if holomorphic:
            require_complex(points, f"{where}: with holomorphic=True an argument")
            require_complex((output,), f"{where}: with holomorphic=True the result")
        start: Any = _ones_like(output, where, holomorphic) if elementwise or holomorphic else None
        root: Any = output if elementwise or isinstance(output, Value) else as_scalar(output, where, holomorphic)
        found: Sequence[Any] = (None,) * len(points)
        if points and (root._grad_fn is not None or root._requires_grad()):
            if isinstance(root, Value):
                start = _seed_of(root, where)
            found = await capture((root,), (start,), points, keeps_history, keeps_history)
        complete = tuple(
            [zeros_like_tensor(point) if one is None else one for one, point in zip(found, points, strict=True)]
        )
        if holomorphic:
            complete = conjugates(complete)
    trees = transform_call.like_points(complete, keeps_history)
    value = transform_call.result((output,), keeps_history) if wants_value else None
    return value, trees if isinstance(argnums, tuple) else trees[0], transform_call.aux(keeps_history)


def _seed_of(output: Value, where: str) -> object:
    """Return the gradient that a backward from a value starts with."""
    try:
        return output.type.seed(output._value_metadata.description)
    except InvalidRootError:
        raise InvalidRootError(
            f"{where}: the function returns a value of type {output.type.name}, from which a backward has no gradient "
            "to start: write out, pullback = await ag.func.vjp(f, x) and await pullback(gradient), or return one number"
        ) from None


def _ones_like(output: Tensor, where: str, holomorphic: bool) -> Tensor:
    """Return the gradient of an output for its sum."""
    if output.dtype.kind == "c" and not holomorphic:
        raise InvalidRootError(
            f"{where}: the function must return real numbers, not {output.dtype}: take the real part, or write "
            "holomorphic=True for the complex derivative"
        )
    return asarray(ones_like(output._data, output.shape), device=output.device)
