"""Products of vectors with the Jacobian or the Hessian of a function of trees."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Literal, overload

from ..core.settings.arguments import check_function, must_be, truth
from ..core.settings.loop_turn import keep_pace
from ..core.tensor import Tensor
from ..core.tree.structure import Tree, leaves
from ..errors import ArgumentTypeError
from .arguments import fill_missing, gradients, transform_scope, zeros_like_tensor
from .calls import TransformCall
from .products import vhp

__all__ = ["hvp", "jvp", "linearize", "vjp"]

Tensors = tuple[Tensor, ...]
Pullback = Callable[[Tree], Coroutine[object, None, tuple[Any, ...]]]
Pushforward = Callable[..., Coroutine[object, None, Any]]


@overload
async def vjp(f: Callable[..., Any], *primals: Tree, has_aux: Literal[False] = False) -> tuple[Any, Pullback]: ...


@overload
async def vjp(f: Callable[..., Any], *primals: Tree, has_aux: Literal[True]) -> tuple[Any, Pullback, Any]: ...


@overload
async def vjp(f: Callable[..., Any], *primals: Tree, has_aux: bool) -> Any: ...


async def vjp(f: Callable[..., Any], *primals: Tree, has_aux: bool = False) -> Any:
    """Return the result of `f`, and a function that returns the product of a vector with its Jacobian.

    Args:
        f: a function or an `async def` of trees that returns a tree of Tensors; any leaf may be a value (`ag.Value`).
        *primals: its arguments.
        has_aux: `f` returns a pair, its result and something else.

    Returns:
        `(out, pullback)`; with `has_aux`, `(out, pullback, aux)`. `await pullback(cotangents)` takes a tree like `out`,
        and returns a tuple with one tree for each primal. The pullback may be called any number of times.

    Raises:
        ArgumentTypeError: `f` cannot be called.
        GradientTypeError: a leaf of a primal or of the result is not a number; the message names it by its path.

    Source: torch.func.vjp.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> async def main():
        ...     out, pullback = await ag.func.vjp(lambda x: x * x, np.array([1.0, 2.0]))
        ...     return await pullback(np.array([1.0, 0.0])), await pullback(np.array([0.0, 1.0]))
        >>> ag.run(main())
        ((array([2., 0.]),), (array([0., 4.]),))
    """
    check_function(f, "ag.func.vjp", *primals)
    has_aux = truth(has_aux, "has_aux")
    await keep_pace()
    transform_call = TransformCall("ag.func.vjp", f, primals, {}, range(len(primals)), has_aux, takes_values=True)
    with transform_call.recording() as keeps_history:
        points = transform_call.new_points(keeps_history)
        outputs = await transform_call(*points)

    async def pullback(cotangents: Any) -> tuple[Any, ...]:
        with transform_scope(keeps_history or None, *leaves(cotangents)) as keeps_product:
            vector = transform_call.vector_like_outputs(outputs, cotangents, "cotangents", keeps_product)
            found = await gradients(outputs, points, vector, create_graph=keeps_product, retain_graph=True)
            product = fill_missing(found, points, strict=False, create_graph=False, missing="", constant="")
        return transform_call.like_points(product, keeps_product)

    out = transform_call.result(outputs, keeps_history)
    return (out, pullback, transform_call.aux(keeps_history)) if has_aux else (out, pullback)


@overload
async def jvp(
    f: Callable[..., Any], primals: Tree, tangents: Tree, has_aux: Literal[False] = False
) -> tuple[Any, Any]: ...


@overload
async def jvp(f: Callable[..., Any], primals: Tree, tangents: Tree, has_aux: Literal[True]) -> tuple[Any, Any, Any]: ...


@overload
async def jvp(f: Callable[..., Any], primals: Tree, tangents: Tree, has_aux: bool) -> Any: ...


async def jvp(f: Callable[..., Any], primals: Tree, tangents: Tree, has_aux: bool = False) -> Any:
    """Return the result of `f`, and the product of its Jacobian with `tangents`.

    Args:
        f: a function or an `async def` of trees that returns a tree of Tensors.
        primals: a tuple of its arguments.
        tangents: a tuple of trees like the primals.
        has_aux: `f` returns a pair, its result and something else.

    Returns:
        `(out, product)`, two trees of the same structure; with `has_aux`, `(out, product, aux)`.

    Raises:
        ArgumentTypeError: `f` cannot be called, or `primals` is not a tuple.
        GradientTypeError: a leaf of a primal or of the result is not a number; the message names it by its path.
        ArgumentError, InvalidGradientError: `tangents` do not fit the primals.

    Source: torch.func.jvp.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> async def main():
        ...     return await ag.func.jvp(lambda x, y: x * y, (2.0, 3.0), (1.0, 10.0))
        >>> [float(one) for one in ag.run(main())]
        [6.0, 23.0]
    """
    has_aux = truth(has_aux, "has_aux")
    transform_call = _make_transform_call("jvp", f, primals, has_aux)
    with transform_call.recording(tangents) as keeps_history:
        vector = transform_call.vector_like_points(tangents, "tangents", keeps_history)
        outputs, pushforward = await _linearized(transform_call, keeps_history)
        product = await pushforward(vector, keeps_history)
    out, found = transform_call.result(outputs, keeps_history), transform_call.result(product, keeps_history)
    return (out, found, transform_call.aux(keeps_history)) if has_aux else (out, found)


@overload
async def linearize(
    f: Callable[..., Any], *primals: Tree, has_aux: Literal[False] = False
) -> tuple[Any, Pushforward]: ...


@overload
async def linearize(f: Callable[..., Any], *primals: Tree, has_aux: Literal[True]) -> tuple[Any, Pushforward, Any]: ...


@overload
async def linearize(f: Callable[..., Any], *primals: Tree, has_aux: bool) -> Any: ...


async def linearize(f: Callable[..., Any], *primals: Tree, has_aux: bool = False) -> Any:
    """Return the result of `f`, and a function that returns the product of its Jacobian with a vector.

    Unlike `jvp`, this calls `f` only once for any number of products.

    Args:
        f: a function or an `async def` of trees that returns a tree of Tensors.
        *primals: its arguments.
        has_aux: `f` returns a pair, its result and something else.

    Returns:
        `(out, pushforward)`; with `has_aux`, `(out, pushforward, aux)`. `await pushforward(*tangents)` takes trees like
        the primals, and returns a tree like `out`. The pushforward may be called any number of times.

    Raises:
        ArgumentTypeError: `f` cannot be called.
        GradientTypeError: a leaf of a primal or of the result is not a number; the message names it by its path.

    Source: torch.func.linearize.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> async def main():
        ...     out, pushforward = await ag.func.linearize(np.sin, 0.0)
        ...     return await pushforward(1.0), await pushforward(5.0)
        >>> [float(one) for one in ag.run(main())]
        [1.0, 5.0]
    """
    check_function(f, "ag.func.linearize", *primals)
    has_aux = truth(has_aux, "has_aux")
    transform_call = TransformCall("ag.func.linearize", f, primals, {}, range(len(primals)), has_aux)
    with transform_call.recording() as keeps_history:
        outputs, multiply = await _linearized(transform_call, keeps_history)

    async def pushforward(*tangents: Tree) -> Any:
        with transform_scope(keeps_history or None, *leaves(tangents)) as keeps_product:
            vector = transform_call.vector_like_points(tangents, "tangents", keeps_product)
            product = await multiply(vector, keeps_product)
        return transform_call.result(product, keeps_product)

    out = transform_call.result(outputs, keeps_history)
    return (out, pushforward, transform_call.aux(keeps_history)) if has_aux else (out, pushforward)


@overload
def hvp(f: Callable[..., Any], primals: Tree, tangents: Tree) -> Coroutine[object, None, Any]: ...


@overload
def hvp(f: Callable[..., Any]) -> Callable[..., Coroutine[object, None, Any]]: ...


def hvp(f: Callable[..., Any], primals: Tree = None, tangents: Tree = None) -> Any:
    """Return the product of the Hessian of `f` with `tangents`, without forming the matrix.

    `await hvp(f, primals, tangents)` is the product at the primals, as in `jvp`. `hvp(f)` is a function, as the results
    of `grad` and `hessian` are: `await hvp(f)(*primals, tangents)`.

    Args:
        f: a function or an `async def` of trees that returns one number as a Tensor, twice continuously differentiable.
        primals: a tuple of its arguments.
        tangents: a tuple of trees like the primals. As an argument of `hvp(f)`: a tree like the primal; if there are
            several primals, a tuple with one tree for each.

    Returns:
        A tree like the primal; if there are several primals, a tuple with one tree for each.

    Raises:
        ArgumentTypeError: `f` cannot be called, or `primals` is not a tuple.
        GradientTypeError: a leaf of a primal is not a number, or `f` does not return a Tensor; the message names the
            leaf by its path.
        InvalidRootError: `f` returns more than one number, or a complex one.
        ArgumentError, InvalidGradientError: `tangents` do not fit the primals.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> def energy(x):
        ...     return (x**3).sum()
        >>> x, v = np.array([1.0, 2.0]), np.array([1.0, 10.0])
        >>> async def main():
        ...     return await ag.func.hvp(energy, (x,), (v,)), await ag.func.hvp(energy)(x, v)
        >>> ag.run(main())
        (array([  6., 120.]), array([  6., 120.]))
    """
    if primals is not None and tangents is not None:
        return _hessian_product(f, primals, tangents)
    check_function(f, "ag.func.hvp")
    if primals is not None or tangents is not None:
        given, missing = ("tangents", "primals") if primals is None else ("primals", "tangents")
        raise ArgumentTypeError(
            f"ag.func.hvp got {given}, but no {missing}: write ag.func.hvp(f, (x,), (v,)) or ag.func.hvp(f)(x, v)"
        )

    async def product(*primals_and_tangents: Any) -> Any:
        """Return the product of the Hessian at all arguments but the last one with the last one."""
        if len(primals_and_tangents) < 2:
            raise ArgumentTypeError(
                f"ag.func.hvp(f) was called with {len(primals_and_tangents)} arguments: write ag.func.hvp(f)(x, v), "
                "the arguments of f and then the vector"
            )
        *primals, tangents = primals_and_tangents
        return await _hessian_product(f, tuple(primals), (tangents,) if len(primals) == 1 else tangents)

    return product


async def _hessian_product(f: Callable[..., Any], primals: Tree, tangents: Tree) -> Any:
    transform_call = _make_transform_call("hvp", f, primals)
    with transform_call.recording(tangents) as keeps_history:
        vector = transform_call.vector_like_points(tangents, "tangents", keeps_history)
        if transform_call.points:
            # The Hessian is symmetric, and vhp takes one backward less than hvp.
            _, product = await vhp(transform_call.one_output, transform_call.points, vector, create_graph=keeps_history)
        else:
            product = ()
    trees = transform_call.like_points(product, keeps_history)
    return trees[0] if len(trees) == 1 else trees


async def _linearized(
    transform_call: TransformCall, keeps_history: bool
) -> tuple[Tensors, Callable[[Tensors, bool], Coroutine[object, None, Tensors]]]:
    """Return the outputs of a function, and a function that returns the product of its Jacobian with a vector."""
    points = transform_call.new_points(keeps_history)
    outputs = await transform_call(*points)
    # `grad_outputs @ J` is linear in `grad_outputs`, so a backward through it multiplies J by a vector.
    grad_outputs = tuple([zeros_like_tensor(output).requires_grad_() for output in outputs])
    grad_inputs = await gradients(outputs, points, grad_outputs, create_graph=True, retain_graph=True)

    async def multiply(vector: Tensors, keeps_product: bool) -> Tensors:
        found = await gradients(grad_inputs, grad_outputs, vector, create_graph=keeps_product, retain_graph=True)
        return fill_missing(found, grad_outputs, strict=False, create_graph=False, missing="", constant="")

    return outputs, multiply


def _make_transform_call(name: str, f: Callable[..., Any], primals: Tree, has_aux: bool = False) -> TransformCall:
    check_function(f, f"ag.func.{name}", primals)
    if not isinstance(primals, (tuple, list)):
        raise ArgumentTypeError(
            must_be(
                f"ag.func.{name}: primals",
                "a tuple of the function's arguments",
                primals,
                f"write ag.func.{name}(f, (x,), (v,))",
            )
        )
    return TransformCall(f"ag.func.{name}", f, primals, {}, range(len(primals)), has_aux)
