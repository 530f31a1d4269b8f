"""Least squares by SciPy's methods, with Jacobians by asyncgrad, as functions of the parameters."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import optimize

from ...core.engine.completion import warn
from ...core.rows import check_concurrency
from ...core.settings.awaiting import finish
from ...core.settings.context import is_kind
from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError
from ...transforms.parameters import Parameters
from ..arguments import floating
from ..solutions import (
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


def _own_loss(loss: Callable[[Any], Any], z: Any) -> Any:
    """Return a loss of the user's by its values and derivatives at a point."""
    at = array_of(z)
    value, slope, bend = np.asarray(loss(at))
    step = z - at
    return value + slope * step + bend / 2 * step**2


def least_squares(
    fun: Callable[..., Any],
    x0: Any,
    jac: Any = None,
    bounds: Any = (-np.inf, np.inf),
    method: str = "trf",
    ftol: float | None = 1e-8,
    xtol: float | None = 1e-8,
    gtol: float | None = 1e-8,
    x_scale: Any = None,
    loss: str = "linear",
    f_scale: float = 1.0,
    *,
    args: Any = (),
    kwargs: Any = None,
    concurrency: int | None = None,
    **options: Any,
) -> Any:
    """Return SciPy's result for the smallest sum of squares of `fun`; `x`, `fun` and `cost` are differentiable.

    Args:
        fun: takes x and `args`, and returns residuals. If it is an `async def`, the result is to be awaited.
        x0: where to start: a vector, or a tree of arrays, which `fun` then takes as such a tree.
        jac: a function like `fun` that returns the Jacobian, which may be sparse or a LinearOperator; None for
            asyncgrad's, or SciPy's names of differences.
        args: a tuple of trees of anything. The tensors that gradients are to flow to are leaves of it, or of `kwargs`.
        kwargs: a dict of what `fun` and `jac` take by keyword; None for nothing.
        loss: one of SciPy's names; or a function as SciPy's, of arrays of squared residuals, whose first and second
            derivatives it returns with its values: the solution has a first derivative alone then.
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
        ArgumentError: in the backward, the Hessian is singular; or a bound requires grad.
        RequiresGradError: `fun` uses a tensor that requires grad and is not in `args`.

    Warns:
        ConvergenceWarning: in the backward, if SciPy found no solution: see `success` of the result.

    Source: scipy.optimize.least_squares.
    """
    at_once = check_concurrency(concurrency)
    if kwargs:
        fun, jac, args = _with_keywords(fun), _with_keywords(jac), (*_as_tuple(args), dict(kwargs))
    return _least_squares(
        fun, x0, jac, bounds, method, ftol, xtol, gtol, x_scale, loss, f_scale, args, at_once, options
    )


def _as_tuple(args: object) -> tuple[Any, ...]:
    return args if isinstance(args, tuple) else (args,)


def _with_keywords(function: Any) -> Any:
    """Return a function that takes a dict of keywords as its last argument; what is no function as it is."""
    if not callable(function):
        return function
    if is_kind(inspect.iscoroutinefunction, function):

        async def awaited(x: Any, *args: Any) -> Any:
            return await function(x, *args[:-1], **args[-1])

        return functools.wraps(function)(awaited)

    def called(x: Any, *args: Any) -> Any:
        return function(x, *args[:-1], **args[-1])

    return functools.wraps(function)(called)


def _check_names(jac: Any, loss: Any, name: str) -> None:
    if not callable(loss) and loss not in _LOSSES:
        raise ArgumentError(f"{name}: loss must be one of {', '.join(_LOSSES)}, or a function, not {loss!r}")
    if jac is not None and not callable(jac) and not isinstance(jac, str):
        raise ArgumentError(
            f"{name}: jac must be a function, None for asyncgrad's Jacobian, or one of SciPy's names, not {jac!r}: let "
            "fun return its residuals alone"
        )


def _ends(bounds: Any) -> Any:
    return (bounds.lb, bounds.ub) if isinstance(bounds, optimize.Bounds) else bounds


def _of_shape(jacobian: Any, sparsity: Any) -> Any:
    """Return a Jacobian; raise if it has not the shape of the pattern that its elements are said to have."""
    if sparsity is not None and np.shape(jacobian) != (
        sparsity.shape if hasattr(sparsity, "tocsr") else np.shape(sparsity)
    ):
        raise ArgumentError(
            f"scipy.optimize.least_squares: jac_sparsity must have the shape of the Jacobian, {np.shape(jacobian)}"
        )
    return jacobian


def _for_solver(jacobian: Any) -> Any:
    """Return a Jacobian of the user's as an array, or as it is if it is sparse or a LinearOperator."""
    is_operator = hasattr(jacobian, "matvec") or hasattr(jacobian, "tocsr")
    return jacobian if is_operator else array_of(floating(jacobian))


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
    sparsity = options.get("jac_sparsity") if jac is None else None
    bounds, point, params = plain_bounds(bounds, name), Point(x0).check_axes(x0, name), Parameters(args, fun)
    x_scale = array_of(x_scale) if isinstance(x_scale, Tensor) else x_scale
    function = vector_function(fun, point, params)
    constants = [tensor.detach() for tensor in params.tensors]
    forwards = Forwards(function, constants, name, concurrency=at_once, is_recorded=jac is None)

    async def evaluate(kind: str, x: Any) -> Any:
        given = point_of(x)
        if kind == "value":
            return np.atleast_1d(await forwards.value(given))
        if callable(jac):
            return _for_solver(await call_user(jac, point.of(given), *params.fill(constants)))
        return _of_shape(await forwards.jacobian(given), sparsity)

    def solve(ask: Any) -> Any:
        kept = {"method": method, "ftol": ftol, "xtol": xtol, "gtol": gtol, "x_scale": x_scale, "loss": loss}
        given = jac if isinstance(jac, str) else lambda x: ask("jacobian", x)
        kept |= {"f_scale": f_scale, **options}
        return optimize.least_squares(lambda x: ask("value", x), point.start, given, bounds, **kept)

    async def cost(x: Tensor, *tensors: Tensor) -> Tensor:
        return _cost(await function(x, *tensors), loss, f_scale)

    async def gradient(x: Tensor, *tensors: Tensor) -> Tensor:
        return await gradient_of(cost, x, *tensors)

    async def run() -> Any:
        found = await forwards.call_solver(solve, evaluate, is_async)
        is_free = free_elements(found.x, *map(array_of, _ends(bounds)))
        zero = Zero(gradient, is_async, name, is_free, failure_of(found), at_once)
        (x,) = record(zero, params.tensors, (found.x,), params.constants)
        found.x = point.of(x)
        found.fun, found.cost, found.grad = asarray(found.fun), asarray(float(found.cost)), asarray(found.grad)
        if x.requires_grad:
            found.fun = np.reshape(await function(x, *params.tensors), -1)
            found.cost = _cost(found.fun, loss, f_scale)
        found.jac = asarray(found.jac) if isinstance(found.jac, np.ndarray) else found.jac
        return found

    return drive(run(), is_async, name)


def _cost(residuals: Tensor, loss: Any, f_scale: float) -> Tensor:
    squares = (residuals / f_scale) ** 2
    return f_scale**2 / 2 * np.sum(_own_loss(loss, squares) if callable(loss) else _LOSSES[loss](squares))


def curve_fit(
    f: Callable[..., Any],
    xdata: Any,
    ydata: Any,
    p0: Any = None,
    sigma: Any = None,
    absolute_sigma: bool = False,
    check_finite: bool | None = None,
    bounds: Any = (-np.inf, np.inf),
    method: str | None = None,
    jac: Any = None,
    *,
    full_output: bool = False,
    nan_policy: str | None = None,
    concurrency: int | None = None,
    **options: Any,
) -> Any:
    """Return the parameters of `f` that fit data best, and their covariance; both are differentiable by the data.

    Args:
        f: takes `xdata` and the parameters, as numbers, and returns an array like `ydata`. If it is an `async def`, the
            result is to be awaited.
        xdata: the data.
        ydata: the data.
        p0: where to start; None for ones, or for numbers within the bounds.
        sigma: the standard deviations of `ydata`, or their covariance matrix; None if they are equal.
        absolute_sigma: as SciPy's.
        check_finite: as SciPy's.
        method: as SciPy's.
        bounds: as SciPy's.
        jac: as for `least_squares`.
        full_output: as SciPy's; of the dictionary, "nfev" and "fvec".
        nan_policy: "raise" or "omit"; None to look for no NaN.
        concurrency: as for `least_squares`.
        **options: passed on to `least_squares`, as SciPy's `maxfev` is by the name `max_nfev`.

    Raises:
        ArgumentError: data are not finite, the shape of `sigma` does not fit, or there are fewer data than parameters.
        RequiresGradError: `f` uses a tensor that requires grad and is not in the data.
        RuntimeError: the search has failed.

    Warns:
        OptimizeWarning: the covariance is not known, as where there are as many data as parameters; it is infinite.

    Source: scipy.optimize.curve_fit.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.scipy import optimize
        >>> x = np.arange(5.0)
        >>> popt, pcov = optimize.curve_fit(lambda x, a, b: a * np.exp(-b * x), x, 2 * np.exp(-0.5 * x))
        >>> popt.round(4).tolist()
        [2.0, 0.5]
    """
    name = "scipy.optimize.curve_fit"
    is_async, options = check_user_function(f, name, "f"), _options_of_fit(name, options, concurrency)
    data = _data_of_fit(name, xdata, ydata, sigma, check_finite, nan_policy)
    start, options["method"] = _start_of_fit(name, f, p0, bounds, method)
    options |= {"jac": jac, "bounds": bounds}
    return drive(_curve_fit(f, data, start, absolute_sigma, full_output, is_async, options), is_async, name)


def _options_of_fit(name: str, options: dict[str, Any], concurrency: int | None) -> dict[str, Any]:
    if "args" in options:
        raise ArgumentError(f"{name} takes no args: pass what f takes beside the parameters in xdata")
    if "maxfev" in options:
        options["max_nfev"] = options.pop("maxfev")
    return {**options, "concurrency": check_concurrency(concurrency)}


def _data_of_fit(
    name: str, xdata: Any, ydata: Any, sigma: Any, check_finite: bool | None, nan_policy: str | None
) -> tuple[Any, Any, Any]:
    """Return x, y and the factor by which residuals are divided: numbers, or a triangular matrix."""
    x = xdata if isinstance(xdata, dict) or not hasattr(xdata, "__len__") else floating(_joined(xdata))
    y = floating(_joined(ydata))
    scale = None if sigma is None else floating(sigma)
    if not y.size:
        raise ArgumentError(f"{name}: ydata must not be empty")
    if check_finite is None:
        check_finite = nan_policy is None
    arrays = [one for one in (x, y, scale) if hasattr(one, "ndim")]
    if check_finite and not all(np.isfinite(array_of(one)).all() for one in arrays):
        raise ArgumentError(f"{name}: the data and sigma must be finite; pass check_finite=False to allow others")
    if nan_policy is not None and not check_finite:
        if nan_policy not in ("raise", "omit"):
            raise ArgumentError(f"{name}: nan_policy must be None, 'raise' or 'omit', not {nan_policy!r}")
        x, y, scale = _without_nan(name, x, y, scale, nan_policy)
    if scale is not None and scale.shape == (y.size, y.size) and y.size > 1:
        try:
            return x, y, np.linalg.cholesky(scale)
        except np.linalg.LinAlgError:
            raise ArgumentError(f"{name}: sigma, a matrix, must be positive definite") from None
    if scale is not None and scale.size != 1 and scale.shape != (y.size,):
        raise ArgumentError(
            f"{name}: sigma must have the shape ({y.size},) or ({y.size}, {y.size}) for {y.size} data, not "
            f"{scale.shape}"
        )
    return x, y, asarray(1.0) if scale is None else scale


def _joined(data: Any) -> Any:
    """Return a list of arrays, some of which may be tensors, as one array."""
    if isinstance(data, (list, tuple)) and any(isinstance(one, Tensor) for one in data):
        return np.stack([floating(one) for one in data])
    return data


def _without_nan(name: str, x: Any, y: Any, scale: Any, nan_policy: str) -> tuple[Any, Any, Any]:
    is_nan = np.isnan(array_of(y))
    if hasattr(x, "ndim"):
        of_x = np.isnan(array_of(x))
        is_nan = is_nan | of_x.any(axis=tuple(range(of_x.ndim - 1)))
    if not is_nan.any():
        return x, y, scale
    if nan_policy == "raise":
        raise ArgumentError(f"{name}: the data have NaN: pass nan_policy='omit' to leave those out")
    (kept,) = np.nonzero(~is_nan)
    if scale is not None and scale.ndim:
        scale = scale[kept] if scale.ndim == 1 else scale[kept][:, kept]
    return x[..., kept] if hasattr(x, "ndim") else x, y[kept], scale


def _start_of_fit(name: str, f: Any, p0: Any, bounds: Any, method: str | None) -> tuple[Any, str]:
    """Return where a search begins, and the method."""
    count = len(inspect.signature(f).parameters) - 1 if p0 is None else np.size(array_of(floating(p0)))
    ends = _ends(bounds)
    low, high = (np.broadcast_to(np.asarray(array_of(one), float), count) for one in ends)
    is_bounded = bool(((low > -np.inf) | (high < np.inf)).any())
    if method == "lm" and is_bounded:
        raise ArgumentError(f"{name}: method 'lm' takes no bounds: use 'trf' or 'dogbox'")
    if p0 is not None:
        start = np.reshape(array_of(floating(p0)), -1)
    else:
        # In the middle, or as near to the only bound as 1 is to 0.
        has_low, has_high = np.isfinite(low), np.isfinite(high)
        start = np.ones(count)
        both = has_low & has_high
        start[both] = (low[both] + high[both]) / 2
        start[has_low & ~has_high] = low[has_low & ~has_high] + 1
        start[~has_low & has_high] = high[~has_low & has_high] - 1
    return start, method or ("trf" if is_bounded else "lm")


async def _curve_fit(
    f: Any,
    data: tuple[Any, Any, Any],
    start: Any,
    absolute_sigma: bool,
    full_output: bool,
    is_async: bool,
    options: dict[str, Any],
) -> Any:
    name, y, count = "scipy.optimize.curve_fit", data[1], start.size
    if 1 != y.size < count:
        raise ArgumentError(f"{name}: {count} parameters cannot be fitted to {y.size} data: pass more data")

    async def residuals(p: Tensor, x: Any, y: Tensor, scale: Tensor) -> Tensor:
        found = floating(await call_differentiated(f, x, *[p[index] for index in range(count)]))
        return np.reshape(_divided(found - y, scale), -1)

    def plain(p: Tensor, x: Any, y: Tensor, scale: Tensor) -> Any:
        return drive(residuals(p, x, y, scale), False, name)

    given = options["jac"]
    if callable(given):

        def slopes_of(p: Any, x: Any, y: Any, scale: Any) -> Any:
            slopes = floating(given(x, *[p[index] for index in range(count)]))
            return slopes / scale[:, np.newaxis] if scale.ndim == 1 else _divided(slopes, scale)

        options["jac"] = slopes_of
    function = residuals if is_async else plain
    found = await finish(least_squares(function, start, args=data, **options))
    if not found.success:
        raise RuntimeError(f"Optimal parameters not found: {found.message}")
    params = Parameters(data)
    jacobian = found.jac
    if found.x.requires_grad:
        # The scope of a transform keeps the history.
        slopes = vector_function(function, Point(start), params)
        jacobian = await jacobian_of(slopes, found.x, *params.tensors, concurrency=options["concurrency"])
    covariance = _covariance(jacobian, found, absolute_sigma, options["method"])
    if not full_output:
        return found.x, covariance
    return found.x, covariance, {"nfev": found.nfev, "fvec": found.fun}, found.message, found.status


def _divided(residuals: Any, scale: Any) -> Any:
    return np.linalg.solve(scale, residuals) if scale.ndim == 2 else residuals / scale


def _covariance(jacobian: Any, found: Any, absolute_sigma: bool, method: str) -> Any:
    rows, count = jacobian.shape
    values = np.linalg.svd(array_of(jacobian), compute_uv=False)
    is_singular = (values <= np.finfo(float).eps * max(rows, count) * values[0]).any() or rows < count
    if (is_singular and method == "lm") or (rows <= count and not absolute_sigma):
        # As SciPy: where the residuals are all zero they say nothing of the errors of the data.
        warn("Covariance of the parameters could not be estimated", optimize.OptimizeWarning)
        return asarray(np.full((count, count), np.inf))
    if is_singular:
        inverse = np.linalg.pinv(jacobian, np.finfo(float).eps * max(rows, count))
        covariance = inverse @ np.transpose(inverse)
    else:
        covariance = np.linalg.inv(np.transpose(jacobian) @ jacobian)
    return covariance if absolute_sigma else covariance * (2 * found.cost / (rows - count))
