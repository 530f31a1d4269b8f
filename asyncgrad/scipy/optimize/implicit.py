"""The implicit function theorem: derivatives of the zeros of functions by parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ...core.engine.completion import warn
from ...core.settings.context import is_grad_enabled
from ...core.tensor import Tensor, asarray
from ...core.tree.registry import container_type
from ...core.tree.structure import leaves
from ...core.tree.vector import ravel
from ...errors import ArgumentError, ConvergenceWarning
from ...transforms.arguments import gradient_rows, gradients, new_input, transform_scope, zeros_like_tensor
from ...transforms.parameters import Parameters
from ..arguments import floating
from ..solutions import Problem, Tensors, array_of, call_differentiated

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = [
    "ElementwiseZero",
    "Point",
    "Zero",
    "failure_of",
    "gradient_at",
    "gradient_of",
    "jacobian_at",
    "jacobian_of",
    "joined",
    "number_of",
    "point_of",
    "split_pair",
    "vector_function",
]

#: How far from a solution, relative to its size, what a solver returns may be called one.
_NEAR = 1e-5

#: A coroutine function that takes a vector and the parameters, and returns a vector, or one number.
VectorFunction = Callable[..., Any]


@final
class Point:
    """Where a search begins: a vector for SciPy, and for the user's functions a vector or a tree.

    If it `keeps_shape`, an array of another shape is one for the user's functions as well.
    """

    __slots__ = ("is_tree", "shape", "start", "unravel")

    def __init__(self, x0: Any, keeps_shape: bool = False) -> None:
        self.is_tree: bool = container_type(type(x0)) is not None and (
            not isinstance(x0, (list, tuple)) or any(np.ndim(leaf) for leaf in leaves(x0)) or hasattr(x0, "_fields")
        )
        vector, unravel = ravel(x0) if self.is_tree else (np.reshape(floating(x0), -1), None)
        self.unravel: Any = unravel
        self.shape: tuple[int, ...] | None = np.shape(x0) if keeps_shape and not self.is_tree else None
        self.start = np.asarray(vector.detach().numpy() if isinstance(vector, Tensor) else vector, float)

    def of(self, vector: Any) -> Any:
        """Return what the user's function takes for a vector."""
        if self.shape is not None:
            return np.reshape(vector, self.shape)
        return self.unravel(vector) if self.is_tree else vector

    def check_axes(self, x0: Any, name: str) -> Point:
        """Return this, unless x0 is an array of several axes.

        Raises:
            ValueError: it is.
        """
        if not self.is_tree and np.ndim(x0) > 1:
            raise ValueError(
                f"{name} takes an x0 of at most one axis, not of shape {np.shape(x0)}: pass x0.reshape(-1)"
            )
        return self

    def vector_of(self, gradient: Any) -> Any:
        """Return the gradient that the user's function returns, an array or a tree, as an array."""
        is_tree = self.is_tree and container_type(type(gradient)) is not None
        return array_of(ravel(gradient)[0] if is_tree else floating(gradient))


async def gradient_of(function: VectorFunction, x: Tensor, *tensors: Tensor) -> Tensor:
    """Return the gradient of a function by x, recorded if grad mode is on."""
    create_graph = is_grad_enabled()
    with transform_scope(create_graph):
        point = new_input(x, create_graph, "x")
        value = await function(point, *tensors)
        return await gradient_at(value, point, create_graph)


async def gradient_at(value: Tensor, point: Tensor, create_graph: bool, *, retain_graph: bool | None = None) -> Tensor:
    """Return the gradient by a point of the number that a function has returned there, or of the sum of its numbers.

    At a complex point, where SciPy takes a complex step, it is the derivative of an analytic function.
    """
    with transform_scope(create_graph):
        is_complex = value.dtype.kind == "c"
        seed = asarray(np.ones(value.shape, value.dtype)) if is_complex or value.ndim else None
        options: dict[str, Any] = {"create_graph": create_graph, "retain_graph": retain_graph}
        (found,) = await gradients((value,), (point,), (seed,), **options)
        if found is not None and is_complex:
            found = asarray(np.conj(found))
    return zeros_like_tensor(point) if found is None else found


async def jacobian_of(function: VectorFunction, x: Tensor, *tensors: Tensor, concurrency: int | None = None) -> Tensor:
    """Return the Jacobian of a function by x, recorded if grad mode is on; `concurrency` is as for `ag.jacobian`."""
    create_graph = is_grad_enabled()
    with transform_scope(create_graph):
        point = new_input(x, create_graph, "x")
        value = await function(point, *tensors)
        return await jacobian_at(value, point, create_graph, concurrency)


async def jacobian_at(value: Tensor, point: Tensor, create_graph: bool, concurrency: int | None) -> Tensor:
    """Return the Jacobian by a point of what a function has returned there; the graph is retained."""
    with transform_scope(create_graph):
        (rows,) = await gradient_rows((value,), (point,), create_graph=create_graph, concurrency=concurrency)
        if not rows:
            return asarray(np.zeros((0, point.size)))
        found = np.stack([zeros_like_tensor(point) if row is None else row for (row,) in rows])
        return np.conj(found) if found.dtype.kind == "c" else found


@final
class Zero(Problem):
    """A zero of a function, differentiated by the parameters of the function.

    Elements of x that are not free are constants: they lie on bounds. If the solver has failed, `failure` is what it
    says. `concurrency` is that of the rows of its Jacobian.
    """

    __slots__ = ("concurrency", "failure", "function", "is_async", "is_free", "name")

    def __init__(
        self,
        function: VectorFunction,
        is_async: bool,
        name: str,
        is_free: Any = None,
        failure: str | None = None,
        concurrency: int | None = None,
    ) -> None:
        self.concurrency: int | None = concurrency
        self.failure: str | None = failure
        self.function: VectorFunction = function
        self.is_async: bool = is_async
        self.name: str = name
        self.is_free: Any = is_free

    async def gradients(self, params: Tensors, solution: Tensors, grads: Tensors) -> Sequence[Tensor | None]:
        """Solve with the Jacobian, and multiply by the derivative by the parameters."""
        create_graph = is_grad_enabled()
        with transform_scope(create_graph):
            x = new_input(solution[0], create_graph, self.name)
            points = tuple([new_input(one, create_graph, self.name) for one in params])
            value, grad = await self.function(x, *points), grads[0]
            jacobian = await jacobian_at(value, x, create_graph, self.concurrency)
            if self.is_free is not None:
                (free,) = np.nonzero(self.is_free)
                value, grad, jacobian = value[free], grad[free], jacobian[free][:, free]
            if not value.size:
                return [None] * len(points)
            self._check_regular(jacobian._data)
            if self.failure is not None:
                self._warn_unless_near(jacobian._data, value._data, x._data)
            u: Any = np.linalg.solve(np.transpose(jacobian), grad)
            return await gradients((value,), points, (-u,), create_graph=create_graph)

    def _warn_unless_near(self, jacobian: Any, value: Any, x: Any) -> None:
        """Warn unless a step of Newton's method ends nearby, as where only rounding has stopped the solver."""
        step = np.abs(np.linalg.solve(jacobian, value)).max()
        if not step <= _NEAR * (1 + np.abs(x).max()):
            warn(
                f"{self.name}: the gradient of the result is not that of a solution, for the solver found none: "
                f"{self.failure!r}; a step of Newton's method from there has the length {step:.2g}. Start elsewhere, "
                "or allow more iterations; or check that the result has success",
                ConvergenceWarning,
            )

    def _check_regular(self, jacobian: Array) -> None:
        scale = np.abs(jacobian).max()
        is_finite = np.isfinite(scale)
        if not is_finite or scale == 0 or np.linalg.cond(jacobian) > 0.1 / np.finfo(jacobian.dtype).eps:
            raise ArgumentError(
                f"{self.name}: the solution has no derivative by args, since the Jacobian of the conditions that it "
                f"satisfies (for a minimum: the Hessian) is {'singular' if is_finite else 'not finite'} there: the "
                "solution is not unique nearby, or the function is not smooth. Detach args"
            )


@final
class ElementwiseZero(Problem):
    """An array of zeros of a function whose elements each depend on the same element of x alone."""

    __slots__ = ("function", "is_async", "name")

    def __init__(self, function: VectorFunction, is_async: bool, name: str) -> None:
        self.function: VectorFunction = function
        self.is_async: bool = is_async
        self.name: str = name

    async def gradients(self, params: Tensors, solution: Tensors, grads: Tensors) -> Sequence[Tensor | None]:
        """Divide by the derivative by x, and multiply by that by the parameters."""
        create_graph = is_grad_enabled()
        with transform_scope(create_graph):
            x = new_input(solution[0], create_graph, self.name)
            points = tuple([new_input(one, create_graph, self.name) for one in params])
            value = await self.function(x, *points)
            ones = asarray(np.ones_like(value._data))
            # Of an analytic function this is the conjugate of the derivative, by which gradients are divided.
            (slope,) = await gradients((value,), (x,), (ones,), create_graph=create_graph, retain_graph=True)
            if slope is None or not np.all(slope._data):
                raise ArgumentError(
                    f"{self.name}: the solution has no derivative by args, since the derivative of the function is 0 "
                    "there. Detach args"
                )
            return await gradients((value,), points, (-grads[0] / slope,), create_graph=create_graph)


def failure_of(result: Any) -> str | None:
    """Return what a solver says in its result if it has failed, or None."""
    return None if result.success else str(result.message)


def split_pair(found: Any, name: str, parameter: str, count: int = 2) -> Any:
    """Return the values that a function returns together with its derivatives."""
    if not isinstance(found, (list, tuple)) or len(found) != count:
        what = f"a {type(found).__name__}" + (f" of {len(found)}" if isinstance(found, (list, tuple)) else "")
        expected = "the value and its derivative" if count == 2 else "the value and its two derivatives"
        raise ArgumentError(
            f"{name}: with {parameter}=True the function must return {expected}, not {what}; for asyncgrad's "
            f"derivative let it return the value alone, and pass {parameter}=None"
        )
    return found


def point_of(x: Any) -> Tensor:
    """Return a point that SciPy asks about as a tensor of its own; a complex one, where it takes complex steps."""
    return asarray(np.array(x, complex if np.iscomplexobj(x) else float))


def number_of(value: Any) -> float | complex:
    """Return the one number of an array."""
    found: float | complex = np.asarray(value).item()
    return found if isinstance(found, complex) else float(found)


def vector_function(
    function: Callable[..., Any], point: Point, params: Parameters, pairs_of: str | None = None
) -> VectorFunction:
    """Return a function of the user, of x and args, as one of a vector and tensors.

    If it returns its Jacobian with its value, `pairs_of` is the name of the solver, for errors.
    """

    async def call(x: Any, *tensors: Tensor) -> Tensor:
        found = await call_differentiated(function, point.of(x), *params.fill(tensors))
        if pairs_of is not None:
            found, _ = split_pair(found, pairs_of, "jac")
        found = joined(found)
        return found if point.shape is None else np.reshape(found, -1)

    return call


def joined(numbers: Any) -> Tensor:
    """Return what a function of the user has returned, an array or a list of numbers, as one tensor."""
    if isinstance(numbers, (list, tuple)):
        numbers = np.stack([np.reshape(asarray(one), ()) for one in numbers])
    return floating(numbers)
