"""Fixed points of functions of trees, differentiated by the implicit function theorem."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from ..core.arrays.interception import on_device_of_arguments
from ..core.arrays.values import numbers_of
from ..core.function.function import Function
from ..core.graph.saved import ConstantVersions
from ..core.settings.arguments import check_function, describe, must_be, number, whole_number
from ..core.settings.awaiting import call
from ..core.settings.context import BLOCKING, IN_TRANSFORM, Watcher, is_grad_enabled, is_kind, watched_no_grad
from ..core.settings.loop_turn import keep_pace
from ..core.settings.without_suspending import run_without_suspending
from ..core.tensor import Tensor, asarray
from ..core.tree.registry import container_type
from ..core.tree.structure import Tree
from ..errors import ArgumentError, ArgumentTypeError, BlockingError, ConvergenceError
from .arguments import fill_missing, gradient_rows, gradients, new_input, transform_scope, zeros_like_tensor
from .calls import TransformCall
from .captured import CapturedTensors
from .parameters import Parameters

__all__ = ["fixed_point"]

_WHERE = "ag.func.fixed_point"

Tensors = tuple[Tensor, ...]
#: Takes the leaves of an iterate, and returns those of the next, as tensors; or as arrays, where nothing is recorded.
Step = Callable[..., Awaitable[Tensors]]

#: Up to this many elements the Jacobian is computed once, which takes fewer backward passes than the iteration.
_MATRIX_SIZE = 32


async def fixed_point(
    f: Callable[..., Any],
    a: Tree,
    x0: Tree,
    distance: Callable[..., object] | None = None,
    tol: float | None = None,
    max_iter: int = 10_000,
) -> Any:
    """Return the `x` with `f(a, x) == x` that the iteration `x = f(a, x)` converges to from `x0`.

    The result is differentiable with respect to `a`, any number of times, by the implicit function theorem: the
    iterations are not recorded, so that memory does not grow with their number. The derivative is found by an iteration
    with the same `distance`, `tol` and `max_iter`. It does not depend on `x0`.

    Args:
        f: takes `a` and `x`, and returns the next `x`; or takes `a` alone, and returns a function of `x`. Either may be
            an `async def`. It must be a pure function, since the backward calls it again.
        a: the parameters, a tree of anything. The tensors that gradients are to flow to are leaves of it.
        x0: where to start, a tree of numbers, arrays or tensors.
        distance: takes two trees like `x0`, the last two iterates as arrays, and returns a number; by default the
            largest difference of their elements, divided by the largest element or by 1 if that is greater.
        tol: the iteration ends when the distance is at most this; by default `eps ** (2 / 3)` of the dtype of `x`,
            which is 4e-11 for float64.
        max_iter: the largest number of iterations.

    Returns:
        A tree like `x0`. A leaf is a tensor if that of `x0` is one, if `a` has a tensor, or inside of a transform; else
        an array or a number.

    Raises:
        ConvergenceError: the distance is still greater than `tol` after `max_iter` iterations, or is NaN.
        RequiresGradError: `f` uses a tensor that requires grad and is not in `a`.
        ArgumentTypeError: `f` or `distance` cannot be called.
        ArgumentError: `f` returns a tree of another structure than `x0`.
        GradientTypeError: a leaf of `x0` or of a result of `f` is not a number; the message names it by its path.

    Source: autograd.misc.fixed_points.fixed_point.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> def newton_step(a, x):
        ...     return 0.5 * (x + a / x)
        >>> async def main():
        ...     sqrt = lambda a: ag.func.fixed_point(newton_step, a, 1.0)
        ...     return await sqrt(2.0), await ag.func.grad(sqrt)(2.0), await ag.func.grad(ag.func.grad(sqrt))(2.0)
        >>> [round(float(one), 6) for one in ag.run(main())]
        [1.414214, 0.353553, -0.088388]
    """
    check_function(f, _WHERE, a, x0)
    return await _find_fixed_point(f, a, x0, _check_limit(distance, tol, max_iter))


async def _find_fixed_point(f: Callable[..., Any], a: Tree, x0: Tree, limit: _Limit) -> Any:
    given = Parameters(a, f)
    params = given.tensors
    is_recording, takes_x = is_grad_enabled(), _takes_x(f, a)
    transform_call = TransformCall(_WHERE, _as_x0, (x0,), {}, (0,))
    is_async = False

    async def bind(params: Tensors, is_recorded: bool) -> Step:
        nonlocal is_async
        tree = given.fill(params)
        function = functools.partial(f, tree) if takes_x else _function_of_x(await call(f, tree))
        is_async = is_kind(inspect.iscoroutinefunction, function) or is_kind(inspect.iscoroutinefunction, f)
        return transform_call.iteration(function, "x0", is_recording and bool(given.tensors))

    def as_tree(x: Sequence[Any]) -> Any:
        return x[0] if is_leaf else transform_call.arguments_of_points(x)[0]

    problem = _Problem(bind, limit, as_tree, False, BLOCKING.get(), "x = f(a, x)")
    is_leaf = container_type(type(x0)) is None
    start = tuple([point.detach() for point in transform_call.points])
    solution = await _solve(problem, params, start, CapturedTensors(_WHERE, "f", "a") if is_recording else False)
    if is_recording and params:
        given.constants.end_forward()
        recorded = problem._replace(is_async=is_async, constants=given.constants)
        solution = _record(recorded, params, solution)
    keeps_history = is_recording and (IN_TRANSFORM.get() or bool(params))
    if not keeps_history and given.has_tensors:
        solution = tuple([leaf.detach() for leaf in solution])
        keeps_history = True
    return transform_call.like_points(solution, keeps_history)[0]


def _as_x0(x0: Tree) -> Any:
    return x0


class _Limit(NamedTuple):
    """When an iteration ends."""

    #: None for the largest difference.
    distance: Callable[..., object] | None
    #: None for one that the dtype of the iterates decides.
    tol: float | None
    max_iter: int


class _Problem(NamedTuple):
    """A function of parameters and of x, of which a fixed point x is sought."""

    #: Takes the parameters, and whether operations on them are recorded; returns the function of x.
    bind: Callable[[Tensors, bool], Awaitable[Step]]
    limit: _Limit
    #: Makes the tree that the user's `distance` takes of the leaves of an iterate.
    as_tree: Callable[[Sequence[Any]], Any]
    #: Whether the function may suspend.
    is_async: bool
    #: Whether the function never suspends, since the caller has used the blocking form.
    is_blocking: bool
    #: The equation, for errors.
    equation: str
    #: The tensors among the parameters of which no gradient is wanted.
    constants: ConstantVersions = ConstantVersions(())


def _check_limit(distance: Any, tol: Any, max_iter: Any) -> _Limit:
    if distance is not None and not callable(distance):
        raise ArgumentTypeError(must_be(f"{_WHERE}: distance", "a function of two iterates", distance))
    count = whole_number(max_iter, f"{_WHERE}: max_iter")
    if count < 1:
        raise ArgumentError(f"{_WHERE}: max_iter must be at least 1, not {count}")
    return _Limit(distance, None if tol is None else number(tol, f"{_WHERE}: tol", 0), count)


def _takes_x(f: Callable[..., Any], a: Tree) -> bool:
    """Tell whether `f` takes `a` and `x`, rather than `a` alone."""
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(a, None)
    except TypeError:
        return False
    return True


def _function_of_x(step: Any) -> Callable[[Any], Any]:
    if not callable(step):
        raise ArgumentTypeError(
            f"{_WHERE}: f takes one argument, so it must return a function of x, not {describe(step)}: "
            "write f as a function of a and x"
        )
    function: Callable[[Any], Any] = step
    return function


async def _solve(problem: _Problem, params: Tensors, start: Tensors, watcher: Watcher | bool = False) -> Tensors:
    """Return the first iterate whose distance from the one before is at most the tolerance; record nothing.

    The watcher sees the operations of the first iteration.
    """
    with watched_no_grad(watcher):
        step = await problem.bind(tuple([param.detach() for param in params]), False)
        x = await step(*start)
    arrays, previous = _arrays_of(x), _arrays_of(start)
    distance, tol, max_iter = problem.limit
    if tol is None:
        tol = max([float(np.finfo(array.dtype).eps) ** (2 / 3) for array in arrays], default=0.0)
    with watched_no_grad(False):
        for count in range(max_iter):
            if distance is None:
                found = _largest_difference(arrays, previous)
            else:
                found = _as_number(distance(problem.as_tree(arrays), problem.as_tree(previous)))
            has_shapes = _has_shapes(arrays, previous, count)
            if found <= tol and has_shapes:
                return tuple([asarray(leaf, device=like.device) for leaf, like in zip(x, start, strict=True)])
            if math.isnan(found):
                break
            await keep_pace()
            x = await step(*x)
            arrays, previous = _arrays_of(x), arrays
    ended = "became NaN" if math.isnan(found) else f"is still {found:g} after {max_iter} iterations"
    raise ConvergenceError(
        f"{_WHERE}: the iteration {problem.equation} has not converged: the distance of the last two iterates {ended}, "
        f"and tol is {tol:g}. Start nearer to the fixed point, pass a larger max_iter or tol, or iterate a damped "
        "function such as 0.5 * (x + f(a, x))"
    )


def _has_shapes(arrays: Sequence[Any], previous: Sequence[Any], count: int) -> bool:
    """Tell whether two iterates have the same shapes; raise if they do not, except for the first one."""
    for new, old in zip(arrays, previous, strict=True):
        if new.shape != old.shape:
            if count:
                raise ArgumentError(
                    f"{_WHERE}: f must return an x of the shape of its argument, {old.shape}, not {new.shape}"
                )
            return False
    return True


def _arrays_of(leaves: Sequence[Any]) -> list[Any]:
    return [leaf._data if isinstance(leaf, Tensor) else leaf for leaf in leaves]


@on_device_of_arguments
def _largest_difference(arrays: Sequence[Any], previous: Sequence[Any]) -> float:
    """Return the largest difference of two elements, divided by the largest element or by 1."""
    difference, size = 0.0, 1.0
    for new, old in zip(arrays, previous, strict=True):
        if new.size:
            moved, reached = map(float, numbers_of([abs(new - old).max(), abs(new).max()]))
            difference, size = _largest(difference, moved), _largest(size, reached)
    return difference / size


def _largest(one: float, other: float) -> float:
    """Return the larger number, or NaN if `other` is."""
    return one if one >= other else other


def _as_number(distance: Any) -> float:
    if isinstance(distance, bool) or getattr(distance, "dtype", None) == np.dtype(bool):
        # False, for "not yet", would end the iteration as a distance of 0.
        raise ArgumentTypeError(f"{_WHERE}: distance must return a number, which tol is compared with, not a bool")
    try:
        return float(distance)
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"{_WHERE}: distance must return a number, not {describe(distance)}") from None


def _record(problem: _Problem, params: Tensors, solution: Tensors) -> Tensors:
    """Return the solution with a history that leads to the parameters."""
    kind = AsyncFixedPoint if problem.is_async else FixedPoint
    recorded: Tensors = kind.apply(problem, solution, *params)
    return recorded


@final
class FixedPoint(Function):
    """The solution of a problem, as a function of the parameters."""

    stays_on_loop = True

    @staticmethod
    def forward(ctx: Any, problem: _Problem, solution: Tensors, *params: Tensor) -> Tensors:
        """Return the solution."""
        ctx.problem, ctx.count = problem, len(params)
        outputs = tuple([leaf.detach() for leaf in solution])
        ctx.save_for_backward(*params, *outputs)
        return outputs

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        """Return the gradients; or, if the forward was not a blocking call, an awaitable of them."""
        ctx.problem.constants.check(ctx._node())
        coroutine = _gradients_of_params(ctx.problem, ctx.count, ctx.saved_tensors, grads)
        if not ctx.problem.is_blocking:
            return coroutine
        found = run_without_suspending(coroutine, _suspension_error)
        ctx.problem.constants.leave_out_written()
        return found


@final
class AsyncFixedPoint(Function):
    """The same, for a function that may suspend."""

    stays_on_loop = True
    forward = staticmethod(FixedPoint.forward)

    @staticmethod
    async def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        """Call the function, and iterate."""
        ctx.problem.constants.check(ctx._node())
        return await _gradients_of_params(ctx.problem, ctx.count, await ctx.load_saved(), grads)


def _suspension_error() -> BlockingError:
    return BlockingError(
        f"{_WHERE}: f suspended in the backward of a blocking call: await the function of ag.func instead"
    )


async def _gradients_of_params(problem: _Problem, count: int, saved: Tensors, grads: Tensors) -> tuple[Any, ...]:
    """Return the gradients of a solution x with respect to the parameters a.

    From `x = f(a, x)`, `dx = df/da da + J dx`. So they are `u @ df/da`, where `u = grads + u @ J`.
    """
    create_graph = is_grad_enabled()
    params, solution = saved[:count], saved[count:]
    given = (*saved, *grads)
    adjoint = problem._replace(
        bind=lambda given, is_recorded: _bind_adjoint(problem, count, given, is_recorded),
        equation="u = u @ J + gradient for the derivative",
    )
    with transform_scope(create_graph):
        u = await _solve_adjoint(adjoint, saved, grads)
        if create_graph:
            u = _record(adjoint, given, u)
        new_params = tuple([new_input(param, create_graph, _WHERE) for param in params])
        step = await problem.bind(new_params, True)
        outputs = await step(*[new_input(leaf, create_graph, _WHERE) for leaf in solution])
        found = await gradients(outputs, new_params, u, create_graph=create_graph)
    return None, None, *found


@on_device_of_arguments
def _max_abs(array: Any) -> float:
    return float(abs(array).max())


async def _solve_adjoint(adjoint: _Problem, saved: Tensors, grads: Tensors) -> Tensors:
    """Return the solution of the adjoint's equation, without history."""
    grads, scale = tuple([grad.detach() for grad in grads]), 1.0
    if adjoint.limit.distance is None:
        # The equation is linear. So the tolerance can be relative to the gradient, however small that is.
        scale = max([_max_abs(grad._data) for grad in grads if grad.size], default=0.0)
        if not 0 < scale < math.inf:
            return grads
        grads = tuple([grad / scale for grad in grads])
    found = await _solve(adjoint, (*saved, *grads), tuple([zeros_like_tensor(grad) for grad in grads]))
    return tuple([(part * scale).astype(grad.dtype, copy=False) for part, grad in zip(found, grads, strict=True)])


async def _bind_adjoint(problem: _Problem, count: int, given: Tensors, is_recorded: bool) -> Step:
    """Return the function `u -> u @ J + grads` for given parameters, solution and gradients of that."""
    half = (len(given) - count) // 2
    params, solution, grads = given[:count], given[count : count + half], given[count + half :]
    with transform_scope(is_recorded):
        points = tuple([new_input(leaf, is_recorded, _WHERE) for leaf in solution])
        step = await problem.bind(params, True)
        outputs = await step(*points)
        if not is_recorded and _is_small(points):
            return await _multiply_by_matrix(points, outputs, grads)

    async def next_gradient(*u: Tensor) -> Tensors:
        found = await gradients(outputs, points, u, create_graph=is_grad_enabled(), retain_graph=True)
        products = fill_missing(found, points, strict=False, create_graph=False, missing="", constant="")
        return tuple([grad + product for grad, product in zip(grads, products, strict=True)])

    return next_gradient


def _is_small(points: Tensors) -> bool:
    return sum([point.size for point in points]) <= _MATRIX_SIZE and all(
        type(point._data) is np.ndarray and point.dtype.kind == "f" for point in points
    )


async def _multiply_by_matrix(points: Tensors, outputs: Tensors, grads: Tensors) -> Step:
    """Return the function `u -> u @ J + grads`, with the Jacobian J computed once."""
    rows = []
    for found in await gradient_rows(outputs, points, create_graph=False):
        for row in found:
            parts = fill_missing(row, points, strict=False, create_graph=False, missing="", constant="")
            rows.append(_as_vector(parts))
    matrix = np.stack(rows) if rows else np.zeros((0, 0))
    constant, ends = _as_vector(grads), np.cumsum([grad.size for grad in grads])[:-1]

    async def next_gradient(*u: Any) -> Any:
        # Arrays, since an iteration on tensors would take several times as long.
        vector = _as_vector(u) @ matrix + constant
        if len(grads) == 1:
            return (vector.reshape(grads[0].shape),)
        return [part.reshape(grad.shape) for part, grad in zip(np.split(vector, ends), grads, strict=True)]

    return next_gradient


def _as_vector(leaves: Sequence[Any]) -> Any:
    arrays = _arrays_of(leaves)
    return arrays[0].ravel() if len(arrays) == 1 else np.concatenate([array.ravel() for array in arrays])
