"""Minima of functions by SciPy's methods, with derivatives by asyncgrad, as functions of the parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from scipy import optimize

from ...core.rows import check_concurrency
from ...core.settings.context import is_grad_enabled
from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError
from ...transforms.parameters import Parameters
from ..arguments import floating, plain_options
from ..solutions import (
    call_differentiated,
    call_solver,
    call_user,
    check_user_function,
    drive,
    record,
)
from .constraints import Constraint, bounds_of, free_elements, plain_bounds, read_constraints
from .forwards import Forwards
from .implicit import Point, Zero, failure_of, gradient_of, number_of, point_of, split_pair

__all__ = ["minimize", "minimize_scalar"]

_NAME = "scipy.optimize.minimize"
_WITHOUT_GRADIENT = ("nelder-mead", "powell", "cobyla", "cobyqa")
_WITH_HESSIAN = ("dogleg", "trust-exact")
_WITH_PRODUCT = ("newton-cg", "trust-ncg", "trust-krylov", "trust-constr")


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str | None = None,
    jac: Any = None,
    hess: Any = None,
    hessp: Any = None,
    bounds: Any = None,
    constraints: Any = (),
    tol: float | None = None,
    callback: Any = None,
    options: Any = None,
    *,
    concurrency: int | None = None,
) -> Any:
    """Return SciPy's result for a minimum of `fun`, with tensors; `x` and `fun` are differentiable by `args`.

    The derivative of `x` is that of the implicit function theorem: with the Hessian of `fun`, or of the Lagrange
    function with the constraints that hold with equality. Elements of `x` at a bound have no derivative.

    Args:
        fun: takes x and `args`, and returns one number. If it is an `async def`, the result is to be awaited.
        x0: where to start: a vector, or a tree of arrays, which `fun` then takes as such a tree.
        args: trees of anything. The tensors that gradients are to flow to are leaves of it, or of the `args` of a
            constraint.
        method: as SciPy's.
        bounds: as SciPy's.
        tol: as SciPy's.
        callback: as SciPy's; it takes x as `fun` does.
        options: as SciPy's.
        jac: a function like `fun` that returns the gradient; True if `fun` returns the value and the gradient; None for
            asyncgrad's, or SciPy's names of differences.
        hess: functions as SciPy's; None for asyncgrad's, for the methods that use them.
        hessp: functions as SciPy's; None for asyncgrad's, for the methods that use them.
        constraints: as SciPy's; their functions take x as `fun` does, and their derivatives are asyncgrad's.
        concurrency: how many rows of a Hessian of asyncgrad's, or of the Jacobian of a constraint, run at once, as for
            `ag.jacobian`.

    Raises:
        ArgumentError: in the backward, the Hessian is singular; or a bound requires grad.
        RequiresGradError: `fun` uses a tensor that requires grad and is not in `args`.

    Warns:
        ConvergenceWarning: in the backward, if SciPy found no solution: see `success` of the result.

    Source: scipy.optimize.minimize.

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad.scipy import optimize
        >>> a = ag.tensor(3.0, requires_grad=True)
        >>> result = optimize.minimize(lambda x, a: ((x - a**2) ** 2).sum(), [0.0], (a,))
        >>> (gradient,) = ag.sync.grad(result.x[0], [a])
        >>> round(result.x[0].item(), 4), round(gradient.item(), 4)
        (9.0, 6.0)
    """
    at_once = check_concurrency(concurrency)
    return _minimize(fun, x0, args, method, jac, hess, hessp, bounds, constraints, tol, callback, options, at_once)


def _minimize(
    fun: Any,
    x0: Any,
    args: Any,
    method: Any,
    jac: Any,
    hess: Any,
    hessp: Any,
    bounds: Any,
    constraints: Any,
    tol: Any,
    callback: Any,
    options: Any,
    at_once: int | None,
) -> Any:
    name = _NAME
    is_async = check_user_function(fun, name, "fun")
    given = read_constraints(constraints, name)
    bounds = plain_bounds(bounds, name)
    if not isinstance(method, str) and method is not None:
        raise ArgumentError(f"{name}: method must be a name, not {type(method).__name__}")
    kind = (method or ("SLSQP" if given else "BFGS" if bounds is None else "L-BFGS-B")).lower()
    is_curved = (kind in _WITH_HESSIAN and hess is None) or (kind in _WITH_PRODUCT and hess is None and hessp is None)
    is_recorded = is_curved or (jac is None and kind not in _WITHOUT_GRADIENT)
    search = _Search(fun, x0, args, given, jac is True, at_once, is_recorded, is_curved)
    search.point.check_axes(x0, name)

    def solve(ask: Any) -> Any:
        return optimize.minimize(
            lambda x: ask("pair" if jac is True and kind not in _WITHOUT_GRADIENT else "value", x),
            search.point.start,
            (),
            kind,
            bounds=bounds,
            tol=tol,
            callback=None if callback is None else _plain_callback(callback, search.point),
            options=plain_options(options),
            **_derivatives(kind, jac, hess, hessp, ask),
            **({"constraints": search.constraints_for_scipy(kind, ask)} if given else {}),
        )

    async def run() -> Any:
        try:
            found = await call_solver(solve, search.evaluate, is_async, name)
            is_free = free_elements(found.x, *bounds_of(bounds))
            vector = await search.solution(found.x, is_free, is_async, name, failure_of(found))
        finally:
            search.forget()
        found.x = search.point.of(vector)
        if is_grad_enabled() and search.params.tensors:
            found.fun = await search.value(vector, *search.params.tensors)
        else:
            found.fun = asarray(float(found.fun))
        if isinstance(found.get("jac"), np.ndarray):
            found.jac = asarray(found.jac)
        return found

    return drive(run(), is_async, name)


def _plain_callback(callback: Callable[..., Any], point: Point) -> Callable[..., Any]:
    """Return a callback of arrays for one of what the function takes."""
    if set(inspect.signature(callback).parameters) == {"intermediate_result"}:

        def of_result(intermediate_result: Any) -> Any:
            given = optimize.OptimizeResult(intermediate_result)
            given.x = point.of(asarray(given.x.copy()))
            return callback(intermediate_result=given)

        # SciPy tells by the parameter's name what to pass.
        vars(of_result)["__signature__"] = inspect.signature(callback)
        return of_result
    return lambda x, *rest: callback(point.of(asarray(x.copy())), *rest)


def _derivatives(kind: str, jac: Any, hess: Any, hessp: Any, ask: Any) -> dict[str, Any]:
    """Return the derivatives that a method uses: those of the user, or else asyncgrad's."""
    if kind in _WITHOUT_GRADIENT:
        return {}
    found: dict[str, Any] = {"jac": jac}
    if jac is None or callable(jac):
        found["jac"] = lambda x: ask("gradient" if jac is None else jac, x)
    if kind in _WITH_HESSIAN:
        found["hess"] = (
            (lambda x: ask("hessian" if hess is None else hess, x)) if hess is None or callable(hess) else hess
        )
    elif kind in _WITH_PRODUCT:
        if hess is not None:
            found["hess"] = (lambda x: ask(hess, x)) if callable(hess) else hess
        elif hessp is None or callable(hessp):
            found["hessp"] = lambda x, p: ask("product" if hessp is None else hessp, x, p)
    return found


@final
class _Search:
    """A function of the user that is minimized under constraints."""

    __slots__ = (
        "concurrency",
        "constants",
        "constraints",
        "forwards",
        "forwards_of_constraints",
        "fun",
        "params",
        "point",
        "returns_gradient",
    )

    def __init__(
        self,
        fun: Callable[..., Any],
        x0: Any,
        args: Any,
        constraints: Sequence[Constraint],
        returns_gradient: bool,
        concurrency: int | None = None,
        is_recorded: bool = False,
        is_curved: bool = False,
    ) -> None:
        self.concurrency = concurrency
        self.fun, self.point, self.constraints = fun, Point(x0), constraints
        self.returns_gradient = returns_gradient
        args = args if isinstance(args, tuple) else (args,)
        self.params = Parameters((args, [one.args for one in constraints]), fun)
        self.constants = [tensor.detach() for tensor in self.params.tensors]
        # A step that is no good, and then products with the Hessian at the point before it.
        most = 2 if is_curved else 1
        options: dict[str, Any] = {"is_recorded": is_recorded, "is_curved": is_curved, "most": most}
        self.forwards = Forwards(self._value_and_gradient, self.constants, _NAME, concurrency=concurrency, **options)
        self.forwards_of_constraints = [
            Forwards(self._constraint(index), self.constants, _NAME, concurrency=concurrency)
            for index in range(len(constraints))
        ]

    async def value(self, x: Any, *tensors: Tensor) -> Tensor:
        """Return the value of the function at a vector."""
        return (await self._value_and_gradient(x, *tensors))[0]

    async def _value_and_gradient(self, x: Any, *tensors: Tensor) -> tuple[Tensor, Any]:
        """Return the value at a vector, and the gradient if the function returns one."""
        args, _ = self.params.fill(tensors)
        value, gradient = await call_differentiated(self.fun, self.point.of(x), *args), None
        if self.returns_gradient:
            value, gradient = split_pair(value, _NAME, "jac")
        found = floating(value)
        if found.size != 1:
            raise ArgumentError(
                f"{_NAME}: fun must return one number, not an array of shape {found.shape}: take its .sum()"
            )
        return np.reshape(found, ()), gradient

    async def evaluate(self, kind: Any, x: Any, *rest: Any) -> Any:
        """Return what SciPy asks for at a vector, as an array."""
        given = point_of(x)
        if kind in ("value", "pair"):
            value, gradient = await self.forwards.value_and_rest(given)
            number = number_of(value)
            return number if kind == "value" else (number, np.reshape(self.point.vector_of(gradient), -1))
        if kind == "gradient":
            return await self.forwards.gradient(given)
        if kind == "hessian":
            return await self.forwards.hessian(given)
        if kind == "product":
            return await self.forwards.product(given, asarray(np.array(rest[0], float)))
        if kind == "constraint":
            return await self.forwards_of_constraints[rest[0]].value(given)
        if kind == "slope":
            return await self.forwards_of_constraints[rest[0]].jacobian(given)
        args, _ = self.params.fill(self.constants)
        return self.point.vector_of(await call_user(kind, self.point.of(given), *map(asarray, rest), *args))

    async def _gradient(self, x: Tensor, *tensors: Tensor) -> Tensor:
        return await gradient_of(self.value, x, *tensors)

    def _constraint(self, index: int) -> Callable[..., Any]:
        async def values(x: Any, *tensors: Tensor) -> Tensor:
            _, args = self.params.fill(tensors)
            return await self.constraints[index].values(self.point, x, args[index])

        return values

    def constraints_for_scipy(self, kind: str, ask: Any) -> list[Any]:
        """Return the constraints with functions of arrays."""

        def read(index: int) -> Any:
            return self.constraints[index].for_scipy(
                lambda x: ask("constraint", x, index), lambda x: ask("slope", x, index)
            )

        return [read(index) for index in range(len(self.constraints))]

    async def solution(self, x: Any, is_free: Any, is_async: bool, name: str, failure: str | None) -> Tensor:
        """Return the minimum as a tensor with a history."""
        tensors = self.params.tensors
        if not (is_grad_enabled() and tensors):
            return asarray(x)
        given = asarray(x)
        active = [
            constraint.active(await forwards.value(given))
            for constraint, forwards in zip(self.constraints, self.forwards_of_constraints, strict=True)
        ]
        count = sum([int(np.isfinite(one).sum()) for one in active])
        if not count:
            zero = Zero(self._gradient, is_async, name, is_free, failure, self.concurrency)
            (result,) = record(zero, tensors, (x,), self.params.constants)
            return result
        slope = await self.forwards.gradient(given)
        normals = np.concatenate(
            [
                (await forwards.jacobian(given))[np.isfinite(bounds)]
                for forwards, bounds in zip(self.forwards_of_constraints, active, strict=True)
                if np.isfinite(bounds).any()
            ]
        )
        free = np.ones(x.size, bool) if is_free is None else is_free
        multipliers = np.linalg.lstsq(normals[:, free].T, slope[free], rcond=None)[0]
        optimality = self._optimality(self._active_residuals(active), x.size)
        mask = None if is_free is None else np.concatenate([is_free, np.ones(count, bool)])
        zero = Zero(optimality, is_async, name, mask, failure, self.concurrency)
        (result,) = record(zero, tensors, (np.concatenate([x, multipliers]),), self.params.constants)
        return result[: x.size]

    def forget(self) -> None:
        """Let go of all graphs: they refer to this object, which refers to them."""
        for forwards in (self.forwards, *self.forwards_of_constraints):
            forwards.forget()

    def _active_residuals(self, active: Sequence[Any]) -> Callable[..., Any]:
        async def residuals(x: Any, *tensors: Tensor) -> Tensor:
            parts = []
            for index, bounds in enumerate(active):
                (chosen,) = np.nonzero(np.isfinite(bounds))
                if chosen.size:
                    parts.append((await self._constraint(index)(x, *tensors))[chosen] - bounds[chosen])
            return np.concatenate(parts)

        return residuals

    def _optimality(self, residuals: Callable[..., Any], size: int) -> Callable[..., Any]:
        """Return the conditions of Karush, Kuhn and Tucker, of x and the multipliers."""

        async def optimality(both: Tensor, *tensors: Tensor) -> Tensor:
            multipliers = both[size:]

            async def lagrange(x: Tensor, *tensors: Tensor) -> Tensor:
                return await self.value(x, *tensors) - np.sum(multipliers * await residuals(x, *tensors))

            slope = await gradient_of(lagrange, both[:size], *tensors)
            return np.concatenate([slope, await residuals(both[:size], *tensors)])

        return optimality


def minimize_scalar(
    fun: Callable[..., Any],
    bracket: Any = None,
    bounds: Any = None,
    args: Any = (),
    method: str | None = None,
    tol: float | None = None,
    options: Any = None,
) -> Any:
    """Return SciPy's result for a minimum of a function of a number; `x` and `fun` are differentiable by `args`.

    Args:
        fun: takes a number and `args`. If it is an `async def`, the result is to be awaited.
        args: trees of anything. The tensors that gradients are to flow to are leaves of it.
        bracket: as SciPy's.
        bounds: as SciPy's.
        method: as SciPy's.
        tol: as SciPy's.
        options: as SciPy's.

    Raises:
        ArgumentError: in the backward, the second derivative is zero; or a bound requires grad.
        RequiresGradError: `fun` uses a tensor that requires grad and is not in `args`.

    Warns:
        ConvergenceWarning: in the backward, if SciPy found no solution: see `success` of the result.

    Source: scipy.optimize.minimize_scalar.
    """
    name = "scipy.optimize.minimize_scalar"
    is_async = check_user_function(fun, name, "fun")
    bounds = plain_bounds(bounds, name)
    search = _Search(fun, [0.0], args, (), False)
    search.point.unravel, search.point.is_tree = lambda vector: vector[0], True

    def solve(ask: Any) -> Any:
        return optimize.minimize_scalar(
            lambda x: ask("value", np.reshape(x, 1)), bracket, bounds, (), method, tol, plain_options(options)
        )

    async def run() -> Any:
        found = await call_solver(solve, search.evaluate, is_async, name)
        x = np.reshape(found.x, 1)
        is_free = None
        if bounds is not None:
            # The method ends next to a bound, never on it.
            near = 1e-5 * (1 + abs(float(bounds[1]) - float(bounds[0])))
            is_free = None if min(abs(x[0] - float(one)) for one in bounds) > near else np.zeros(1, bool)
        vector = await search.solution(x, is_free, is_async, name, failure_of(found))
        found.x = vector[0]
        has_history = is_grad_enabled() and search.params.tensors
        found.fun = await search.value(vector, *search.params.tensors) if has_history else asarray(float(found.fun))
        return found

    return drive(run(), is_async, name)
