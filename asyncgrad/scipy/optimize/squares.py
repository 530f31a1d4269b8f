"""Least squares by SciPy's methods, with Jacobians by asyncgrad, as functions of the parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import optimize

from ...core.engine.completion import warn
from ...core.rows import check_concurrency
from ...core.settings.awaiting import finish
from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError
from ..arguments import floating
from ..solutions import (
    Parameters,
    array_of,
    call_differentiated,
    call_user,
    check_user_function,
    drive,
    record,
)
from .constraints import free_elements, plain_bounds
from .forwards import Forwards
from .implicit import Point, Zero, failure_of, gradient_of, jacobian_of, point_of, vector_function

__all__ = ["curve_fit", "least_squares"]

#: By SciPy's name, the loss of a squared residual.
_LOSSES: dict[str, Callable[[Any], Any]] = {
    "linear": lambda z: z,
    "soft_l1": lambda z: 2 * (np.sqrt(1 + z) - 1),
    "huber": lambda z: np.where(z <= 1, z, 2 * np.sqrt(np.where(z <= 1, 1.0, z)) - 1),
    "cauchy": np.log1p,
    "arctan": np.arctan,
}


def least_squares(
    fun: Callable[..., Any],
    x0: Any,
    jac: Any = None,
    bounds: Any = (-np.inf, np.inf),
    method: str = "trf",
    ftol: float | None = 1e-8,
    xtol: float | None = 1e-8,
    gtol: float | None = 1e-8,
    x_scale: Any = 1.0,
    loss: str = "linear",
    f_scale: float = 1.0,
    *,
    args: Any = (),
    concurrency: int | None = None,
    **options: Any,
) -> Any:
    """Return SciPy's result for the smallest sum of squares of `fun`; `x`, `fun` and `cost` are differentiable.

    Args:
        fun: takes x and `args`, and returns residuals. If it is an `async def`, the result is to be awaited.
        x0: where to start: a vector, or a tree of arrays, which `fun` then takes as such a tree.
        jac: a function like `fun` that returns the Jacobian; None for asyncgrad's, or SciPy's names of differences.
        args: a tuple of trees of anything. The tensors that gradients are to flow to are leaves of it.
        loss: one of SciPy's names.
        bounds: as SciPy's.
        method: as SciPy's.
        ftol: as SciPy's.
        xtol: as SciPy's.
        gtol: as SciPy's.
        x_scale: as SciPy's.
        f_scale: as SciPy's.
        concurrency: how many rows of a Jacobian of asyncgrad's run at once, as for `ag.jacobian`.
        **options: others of SciPy's, by keyword.

    Raises:
        ArgumentError: in the backward, the Hessian is singular; a bound requires grad; or the loss is a function.
        RequiresGradError: `fun` uses a tensor that requires grad and is not in `args`.

    Warns:
        ConvergenceWarning: in the backward, if SciPy found no solution: see `success` of the result.

    Source: scipy.optimize.least_squares.
    """
    at_once = check_concurrency(concurrency)
    return _least_squares(
        fun, x0, jac, bounds, method, ftol, xtol, gtol, x_scale, loss, f_scale, args, at_once, options
    )


def _check_names(jac: Any, loss: Any, name: str) -> None:
    if loss not in _LOSSES:
        raise ArgumentError(f"{name}: loss must be one of {', '.join(_LOSSES)}, not {loss!r}")
    if jac is not None and not callable(jac) and not isinstance(jac, str):
        raise ArgumentError(
            f"{name}: jac must be a function, None for asyncgrad's Jacobian, or one of SciPy's names, not {jac!r}: let "
            "fun return its residuals alone"
        )


def _least_squares(
    fun: Any,
    x0: Any,
    jac: Any,
    bounds: Any,
    method: Any,
    ftol: Any,
    xtol: Any,
    gtol: Any,
    x_scale: Any,
    loss: Any,
    f_scale: Any,
    args: Any,
    at_once: int | None,
    options: Any,
) -> Any:
    name = "scipy.optimize.least_squares"
    is_async = check_user_function(fun, name, "fun")
    _check_names(jac, loss, name)
    bounds, point, params = plain_bounds(bounds, name), Point(x0), Parameters(args)
    function = vector_function(fun, point, params)
    constants = [tensor.detach() for tensor in params.tensors]
    forwards = Forwards(function, constants, name, concurrency=at_once, is_recorded=jac is None)

    async def evaluate(kind: str, x: Any) -> Any:
        given = point_of(x)
        if kind == "value":
            return np.atleast_1d(await forwards.value(given))
        if callable(jac):
            return array_of(floating(await call_user(jac, point.of(given), *params.fill(constants))))
        return await forwards.jacobian(given)

    def solve(ask: Any) -> Any:
        kept = {"method": method, "ftol": ftol, "xtol": xtol, "gtol": gtol, "x_scale": x_scale, "loss": loss}
        given = jac if isinstance(jac, str) else lambda x: ask("jacobian", x)
        return optimize.least_squares(
            lambda x: ask("value", x), point.start, given, bounds, f_scale=f_scale, **kept, **options
        )

    async def cost(x: Tensor, *tensors: Tensor) -> Tensor:
        return _cost(await function(x, *tensors), loss, f_scale)

    async def gradient(x: Tensor, *tensors: Tensor) -> Tensor:
        return await gradient_of(cost, x, *tensors)

    async def run() -> Any:
        found = await forwards.call_solver(solve, evaluate, is_async)
        ends = (bounds.lb, bounds.ub) if isinstance(bounds, optimize.Bounds) else bounds
        is_free = free_elements(found.x, *map(array_of, ends))
        zero = Zero(gradient, is_async, name, is_free, failure_of(found), at_once)
        (x,) = record(zero, params.tensors, (found.x,))
        found.x = point.of(x)
        found.fun, found.cost, found.grad = asarray(found.fun), asarray(float(found.cost)), asarray(found.grad)
        if x.requires_grad:
            found.fun = np.reshape(await function(x, *params.tensors), -1)
            found.cost = _cost(found.fun, loss, f_scale)
        found.jac = asarray(found.jac) if isinstance(found.jac, np.ndarray) else found.jac
        return found

    return drive(run(), is_async, name)


def _cost(residuals: Tensor, loss: str, f_scale: float) -> Tensor:
    return f_scale**2 / 2 * np.sum(_LOSSES[loss]((residuals / f_scale) ** 2))


def curve_fit(
    f: Callable[..., Any],
    xdata: Any,
    ydata: Any,
    p0: Any = None,
    sigma: Any = None,
    absolute_sigma: bool = False,
    check_finite: bool = True,
    bounds: Any = (-np.inf, np.inf),
    method: str | None = None,
    jac: Any = None,
    *,
    concurrency: int | None = None,
    **options: Any,
) -> Any:
    """Return the parameters of `f` that fit data best, and their covariance; both are differentiable by the data.

    Args:
        f: takes `xdata` and the parameters, as numbers, and returns an array like `ydata`. If it is an `async def`, the
            result is to be awaited.
        xdata: the data.
        ydata: the data.
        p0: where to start; None for ones.
        sigma: the standard deviations of `ydata`; None if they are equal. A covariance matrix is not supported.
        absolute_sigma: as SciPy's.
        check_finite: as SciPy's.
        method: as SciPy's.
        bounds: as SciPy's.
        jac: None for asyncgrad's, or SciPy's names of differences.
        concurrency: as for `least_squares`.
        **options: passed on to `least_squares`, as SciPy's `maxfev` is by the name `max_nfev`.

    Raises:
        ArgumentError: `sigma` is a matrix, data are not finite, or there are fewer data than parameters.
        RequiresGradError: `f` uses a tensor that requires grad and is not in the data.

    Warns:
        OptimizeWarning: there are as many data as parameters, so that the covariance is not known, and infinite.

    Source: scipy.optimize.curve_fit.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.scipy import optimize
        >>> x = np.arange(5.0)
        >>> popt, pcov = optimize.curve_fit(lambda x, a, b: a * np.exp(-b * x), x, 2 * np.exp(-0.5 * x))
        >>> popt.round(4).tolist()
        [2.0, 0.5]
    """
    if "maxfev" in options:
        options["max_nfev"] = options.pop("maxfev")
    options["concurrency"] = check_concurrency(concurrency)
    return _curve_fit(f, xdata, ydata, p0, sigma, absolute_sigma, check_finite, bounds, method, jac, options)


def _curve_fit(
    f: Any,
    xdata: Any,
    ydata: Any,
    p0: Any,
    sigma: Any,
    absolute_sigma: Any,
    check_finite: Any,
    bounds: Any,
    method: Any,
    jac: Any,
    options: Any,
) -> Any:
    name = "scipy.optimize.curve_fit"
    is_async = check_user_function(f, name, "f")
    x_given, y = xdata if isinstance(xdata, (tuple, dict)) else floating(xdata), floating(ydata)
    scale = asarray(1.0) if sigma is None else floating(sigma)
    if scale.ndim > 1:
        raise ArgumentError(f"{name}: sigma of shape {scale.shape} is not supported: pass standard deviations")
    if check_finite and not all(np.isfinite(array_of(one)).all() for one in (y, scale)):
        raise ArgumentError(f"{name}: ydata and sigma must be finite; pass check_finite=False to allow others")
    count = len(inspect.signature(f).parameters) - 1 if p0 is None else np.size(array_of(p0))
    start = np.ones(count) if p0 is None else np.reshape(array_of(floating(p0)), -1)
    is_bounded = any(np.isfinite(array_of(one)).any() for one in bounds)
    if method == "lm" and is_bounded:
        raise ArgumentError(f"{name}: method 'lm' takes no bounds: use 'trf' or 'dogbox'")

    async def residuals(p: Tensor, x: Any, y: Tensor, scale: Tensor) -> Tensor:
        found = floating(await call_differentiated(f, x, *[p[index] for index in range(count)]))
        return np.reshape((found - y) / scale, -1)

    def plain(p: Tensor, x: Any, y: Tensor, scale: Tensor) -> Any:
        return drive(residuals(p, x, y, scale), False, name)

    args = (x_given, y, scale)
    options = {"method": method or ("trf" if is_bounded else "lm"), "jac": jac, "bounds": bounds, **options}
    if y.size < count:
        raise ArgumentError(f"{name}: {count} parameters cannot be fitted to {y.size} data: pass more data")

    async def run() -> Any:
        found = await finish(least_squares(residuals if is_async else plain, start, args=args, **options))
        if not found.success:
            raise RuntimeError(f"Optimal parameters not found: {found.message}")
        if y.size == count and not absolute_sigma:
            # As SciPy: the residuals, all zero, say nothing of the errors of the data.
            warn("Covariance of the parameters could not be estimated", optimize.OptimizeWarning)
            return found.x, asarray(np.full((count, count), np.inf))
        params = Parameters(args)
        function = vector_function(residuals if is_async else plain, Point(start), params)
        if found.x.requires_grad:
            # The scope of a transform keeps the history.
            jacobian = await jacobian_of(function, found.x, *params.tensors, concurrency=options["concurrency"])
        else:
            jacobian = found.jac
        covariance = np.linalg.inv(np.transpose(jacobian) @ jacobian)
        if not absolute_sigma:
            covariance = covariance * (2 * found.cost / (y.size - count))
        return found.x, covariance

    return drive(run(), is_async, name)
