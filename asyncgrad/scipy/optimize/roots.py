"""Zeros of functions by SciPy's methods, with Jacobians by asyncgrad, as functions of the parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import optimize

from ...core.rows import check_concurrency
from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError
from ...transforms.parameters import Parameters
from ..arguments import floating, plain_options
from ..solutions import (
    array_of,
    call_differentiated,
    call_solver,
    call_user,
    check_user_function,
    drive,
    record,
)
from .forwards import Forwards, Remembered
from .implicit import Point, Zero, failure_of, joined, point_of, split_pair, vector_function

__all__ = ["fixed_point", "fsolve", "root", "root_scalar"]

#: The methods of `root` that take a Jacobian; the others search for an array of the shape of x0.
_METHODS_WITH_JACOBIAN = ("hybr", "lm")
#: Where a Jacobian may be asked for: after two steps that were no good, Powell's method asks for that of the point
#: before them.
_TRIED = 3


def root(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str = "hybr",
    jac: Any = None,
    tol: float | None = None,
    callback: Any = None,
    options: Any = None,
    *,
    concurrency: int | None = None,
) -> Any:
    """Return SciPy's result for a zero of `fun`, with tensors; `x` is differentiable by the tensors in `args`.

    Args:
        fun: takes x and `args`, and returns as many numbers as x has; it may be an `async def`, to be awaited.
        x0: where to start: a vector, or a tree of arrays, which `fun` then takes as such a tree.
        args: trees of anything. The tensors that gradients are to flow to are leaves of it.
        method: as SciPy's.
        tol: as SciPy's.
        callback: as SciPy's.
        options: as SciPy's.
        jac: a function like `fun` that returns the Jacobian; True if `fun` returns the value and the Jacobian; None for
            asyncgrad's, False for differences.
        concurrency: how many rows of a Jacobian of asyncgrad's run at once, as for `ag.jacobian`.

    Raises:
        ArgumentError: in the backward, the Jacobian is singular.
        RequiresGradError: `fun` uses a tensor that requires grad and is not in `args`.

    Warns:
        ConvergenceWarning: in the backward, if SciPy found no solution: see `success` of the result.

    Source: scipy.optimize.root.

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad.scipy import optimize
        >>> a = ag.tensor(2.0, requires_grad=True)
        >>> x = optimize.root(lambda x, a: x**2 - a, [1.0], (a,)).x
        >>> (gradient,) = ag.sync.grad(x[0], [a])
        >>> round(x[0].item(), 6), round(gradient.item(), 6)
        (1.414214, 0.353553)
    """
    name, takes_jacobian = "scipy.optimize.root", method.lower() in _METHODS_WITH_JACOBIAN

    def solve(function: Any, jacobian: Any, start: Any) -> Any:
        given = jacobian if takes_jacobian and jac is not False else None
        return optimize.root(function, start, (), method, given, tol, callback, plain_options(options))

    async def run() -> Any:
        start = Point(x0, method.lower() not in _METHODS_WITH_JACOBIAN)
        found, x, point = await _find(fun, start, args, jac, solve, name, is_async, at_once, takes_jacobian)
        found.x = point.of(x)
        if hasattr(found, "fun"):
            found.fun = asarray(found.fun)
        return found

    is_async, at_once = check_user_function(fun, name, "fun"), check_concurrency(concurrency)
    return drive(run(), is_async, name)


def fsolve(
    func: Callable[..., Any],
    x0: Any,
    args: Any = (),
    fprime: Any = None,
    full_output: bool = False,
    col_deriv: bool = False,
    xtol: float = 1.49012e-8,
    maxfev: int = 0,
    band: Any = None,
    epsfcn: float | None = None,
    factor: float = 100,
    diag: Any = None,
    *,
    concurrency: int | None = None,
) -> Any:
    """Return a zero of `func`, differentiable by the tensors in `args`; see `root`.

    Args:
        func: takes x and `args`, and returns as many numbers as x has; it may be an `async def`.
        x0: where to start.
        args: trees of anything.
        fprime: a function like `func` that returns the Jacobian; None for asyncgrad's.
        col_deriv: must be False.
        full_output: as SciPy's.
        xtol: as SciPy's.
        maxfev: as SciPy's.
        band: as SciPy's.
        epsfcn: as SciPy's.
        factor: as SciPy's.
        diag: as SciPy's.
        concurrency: as for `root`.

    Raises:
        ArgumentError: `col_deriv` is true.

    Source: scipy.optimize.fsolve.
    """
    name = "scipy.optimize.fsolve"
    if col_deriv:
        raise ArgumentError(f"{name}: col_deriv=True is not supported: let fprime return the Jacobian by rows")

    def solve(function: Any, jacobian: Any, start: Any) -> Any:
        options = {"full_output": full_output, "xtol": xtol, "maxfev": maxfev, "band": band, "epsfcn": epsfcn}
        return optimize.fsolve(function, start, fprime=jacobian, factor=factor, diag=diag, **options)

    async def run() -> Any:
        found, x, point = await _find(func, Point(x0), args, fprime, solve, name, is_async, at_once)
        return (point.of(x), *found[1:]) if full_output else point.of(x)

    is_async, at_once = check_user_function(func, name, "func"), check_concurrency(concurrency)
    return drive(run(), is_async, name)


async def _find(
    fun: Callable[..., Any],
    point: Point,
    args: Any,
    jac: Any,
    solve: Any,
    name: str,
    is_async: bool,
    at_once: int | None,
    takes_jacobian: bool = True,
) -> tuple[Any, Tensor, Point]:
    """Return what a solver returns, its x as a tensor with a history, and the point it started from."""
    params = Parameters(args if isinstance(args, tuple) else (args,), fun)
    function = vector_function(fun, point, params, name if jac is True else None)
    constants = [tensor.detach() for tensor in params.tensors]

    is_recorded = jac is None and takes_jacobian
    forwards = Forwards(function, constants, name, most=_TRIED, concurrency=at_once, is_recorded=is_recorded)

    async def call_pair(x: Tensor) -> Any:
        value, slope = split_pair(await call_user(fun, point.of(x), *params.fill(constants)), name, "jac")
        return np.reshape(array_of(joined(value)), -1), array_of(floating(slope))

    pairs = Remembered(_TRIED)

    async def evaluate(kind: str, x: Any) -> Any:
        given = asarray(x.copy())
        if jac is True:
            return np.array((await pairs.at(given, call_pair))[kind == "jacobian"])
        if kind == "value":
            return np.reshape(await forwards.value(given), -1)
        if jac is None:
            return await forwards.jacobian(given)
        return array_of(await call_user(jac, point.of(given), *params.fill(constants)))

    def run(ask: Any) -> Any:
        return solve(lambda x: ask("value", x), lambda x: ask("jacobian", x), point.start)

    found = await forwards.call_solver(run, evaluate, is_async)
    x = found.x if hasattr(found, "x") else found[0] if isinstance(found, tuple) else found
    failure = failure_of(found) if hasattr(found, "success") else None
    if isinstance(found, tuple) and found[-2] != 1:
        failure = str(found[-1])
    zero = Zero(function, is_async, name, failure=failure, concurrency=at_once)
    (solution,) = record(zero, params.tensors, (x,), params.constants)
    return found, solution, point


def root_scalar(
    f: Callable[..., Any],
    args: Any = (),
    method: str | None = None,
    bracket: Any = None,
    fprime: Any = None,
    fprime2: Any = None,
    x0: Any = None,
    x1: Any = None,
    xtol: float | None = None,
    rtol: float | None = None,
    maxiter: int | None = None,
    options: Any = None,
) -> Any:
    """Return SciPy's result for a zero of `f`, a function of a number; `root` is differentiable by `args`.

    Args:
        f: takes a number and `args`; it may be an `async def`, and then the result is to be awaited.
        args: trees of anything. The tensors that gradients are to flow to are leaves of it.
        method: as SciPy's.
        bracket: as SciPy's.
        x0: as SciPy's.
        x1: as SciPy's.
        xtol: as SciPy's.
        rtol: as SciPy's.
        maxiter: as SciPy's.
        options: as SciPy's.
        fprime: a function like `f`; True if `f` returns the value and the derivative; None for asyncgrad's where the
            method is Newton's or Halley's.
        fprime2: a function like `f`; True if `f` returns the value and two derivatives.

    Raises:
        ArgumentError: in the backward, the derivative is zero.

    Warns:
        ConvergenceWarning: in the backward, if SciPy found no solution: see `converged` of the result.

    Source: scipy.optimize.root_scalar.
    """
    return _root_scalar(f, args, method, bracket, fprime, fprime2, x0, x1, xtol, rtol, maxiter, options)


def _number(value: Any) -> float | None:
    return None if value is None else float(array_of(value))


def _root_scalar(
    f: Any,
    args: Any,
    method: Any,
    bracket: Any,
    fprime: Any,
    fprime2: Any,
    x0: Any,
    x1: Any,
    xtol: Any,
    rtol: Any,
    maxiter: Any,
    options: Any,
) -> Any:
    name = "scipy.optimize.root_scalar"
    is_async = check_user_function(f, name, "f")
    params = Parameters(args if isinstance(args, tuple) else (args,), f)
    constants = [tensor.detach() for tensor in params.tensors]
    starts = {"x0": _number(x0), "x1": _number(x1)}
    needs_slope = method in ("newton", "halley") or (method is None and bracket is None and x1 is None)
    count = 3 if fprime2 is True else 2 if fprime is True else 1

    async def values(x: Any, *tensors: Tensor) -> Any:
        found = await call_differentiated(f, np.reshape(x, ()), *params.fill(tensors))
        return (found,) if count == 1 else split_pair(found, name, "fprime" if count == 2 else "fprime2", count)

    async def function(x: Any, *tensors: Tensor) -> Tensor:
        return np.reshape(floating((await values(x, *tensors))[0]), 1)

    # Where it returns its derivatives too, what it has returned is remembered, and nothing need be recorded.
    forwards, called = Forwards(function, constants, name, is_recorded=needs_slope and not fprime), Remembered()

    async def evaluate(kind: Any, x: Any) -> Any:
        given = asarray(np.reshape(point_of(x), 1))
        if kind == "slope":
            return float((await forwards.jacobian(given))[0, 0])
        if isinstance(kind, int):
            if count == 1:
                return float((await forwards.value(given))[0])
            found = await called.at(given, lambda x: values(x, *constants))
            return float(array_of(floating(found[kind])))
        return float(array_of(await call_user(kind, np.reshape(given, ()), *params.fill(constants))))

    def solve(ask: Any) -> Any:
        ends = None if bracket is None else [_number(one) for one in bracket]
        asked = _scalar_derivatives(fprime, fprime2, "slope" if needs_slope else None, ask)
        limits = {"xtol": _number(xtol), "rtol": _number(rtol), "maxiter": maxiter, "options": plain_options(options)}
        return optimize.root_scalar(lambda x: ask(0, x), method=method, bracket=ends, **asked, **starts, **limits)

    async def run() -> Any:
        found = await forwards.call_solver(solve, evaluate, is_async)
        zero = Zero(function, is_async, name, failure=None if found.converged else str(found.flag))
        found.root = record(zero, params.tensors, (np.reshape(found.root, 1),), params.constants)[0][0]
        return found

    return drive(run(), is_async, name)


def _scalar_derivatives(fprime: Any, fprime2: Any, own: str | None, ask: Any) -> dict[str, Any]:
    """Return the derivatives for SciPy: those that the function returns, those of the user, or else asyncgrad's."""
    slope = 1 if fprime is True or fprime2 is True else fprime or own
    curvature = 2 if fprime2 is True else fprime2
    return {
        "fprime": None if slope is None else lambda x: ask(slope, x),
        "fprime2": None if curvature is None else lambda x: ask(curvature, x),
    }


def fixed_point(
    func: Callable[..., Any],
    x0: Any,
    args: Any = (),
    xtol: float = 1e-8,
    maxiter: int = 500,
    method: str = "del2",
) -> Any:
    """Return the x with `func(x, *args) == x`, differentiable by the tensors in `args`; see `root`.

    Args:
        func: takes x and `args`; it may be an `async def`, and then the result is to be awaited.
        x0: where to start.
        args: trees of anything.
        xtol: as SciPy's.
        maxiter: as SciPy's.
        method: as SciPy's.

    Source: scipy.optimize.fixed_point.
    """
    name = "scipy.optimize.fixed_point"
    is_async = check_user_function(func, name, "func")
    start = array_of(floating(x0))
    params = Parameters(args if isinstance(args, tuple) else (args,), func)
    constants = [tensor.detach() for tensor in params.tensors]

    async def function(x: Any, *tensors: Tensor) -> Tensor:
        found = await call_differentiated(func, np.reshape(x, start.shape), *params.fill(tensors))
        return np.reshape(floating(found), -1)

    async def difference(x: Any, *tensors: Tensor) -> Tensor:
        return await function(x, *tensors) - np.reshape(x, -1)

    async def evaluate(x: Any) -> Any:
        return np.reshape(array_of(await function(point_of(x), *constants)), start.shape)

    def solve(ask: Any) -> Any:
        return optimize.fixed_point(ask, start, (), xtol, maxiter, method)

    async def run() -> Any:
        found = np.reshape(await call_solver(solve, evaluate, is_async, name), -1)
        (solution,) = record(Zero(difference, is_async, name), params.tensors, (found,), params.constants)
        return np.reshape(solution, start.shape)

    return drive(run(), is_async, name)
