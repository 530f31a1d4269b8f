"""Integrals of functions, differentiated by Leibniz's rule."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from scipy import integrate, special

from ...core.graph.saved import ConstantVersions
from ...core.settings.context import is_grad_enabled
from ...core.tensor import Tensor
from ...errors import ArgumentError
from ...transforms.arguments import gradients, new_input, transform_scope, zeros_like_tensor
from ...transforms.parameters import Parameters
from ..arguments import floating
from ..solutions import (
    Problem,
    Tensors,
    array_of,
    call_solver,
    call_user,
    check_history,
    check_user_function,
    drive,
    fit_dtype,
    real_product,
    record,
)

__all__ = ["derivative_by_parameters", "fixed_quad", "quad", "quad_vec", "split_gradient", "vector_integral"]

#: Takes a number and the parameters, and returns a tensor.
Integrand = Callable[..., Any]
#: Takes a plain integrand and the limits; returns the integral.
Rule = Callable[[Callable[..., Any], float, float], Any]

#: By name, what the integrand is multiplied by, of the variable and `wvar`; None where it depends on the limits.
_WEIGHTS: dict[str, Callable[[Any, Any], Any] | None] = {
    "cos": lambda x, frequency: np.cos(frequency * x),
    "sin": lambda x, frequency: np.sin(frequency * x),
    "cauchy": lambda x, pole: 1 / (x - pole),
    **dict.fromkeys(("alg", "alg-loga", "alg-logb", "alg-log")),
}


def quad(
    func: Callable[..., Any],
    a: Any,
    b: Any,
    args: Any = (),
    full_output: int = 0,
    epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
    limit: int = 50,
    points: Any = None,
    weight: str | None = None,
    wvar: Any = None,
    wopts: Any = None,
    maxp1: int = 50,
    limlst: int = 50,
    complex_func: bool = False,
) -> Any:
    """Return the integral of `func` from `a` to `b`, and an estimate of its error.

    The integral is differentiable by the limits and the tensors in `args`, any number of times: by a limit as `func`
    there, by `args` as the integral of the derivative, which the backward computes with the same tolerances.

    Args:
        func: takes a number and `args`, and returns a number. If it is an `async def`, the result is to be awaited.
        a: the first limit, which may be infinite.
        b: the last limit, which may be infinite.
        args: trees of anything. The tensors that gradients are to flow to are leaves of it.
        full_output: whether to return SciPy's dict of information, too.
        epsabs: the absolute tolerance.
        epsrel: the relative tolerance.
        limit: the most subintervals.
        points: where `func` may not be smooth; the integral does not depend on them.
        weight: the name of a function that `func` is multiplied by, as SciPy has it.
        wvar: the parameters of that function, as numbers without grad.
        wopts: moments of Chebyshev polynomials, to be used again.
        maxp1: the most of these moments.
        limlst: the most cycles of an infinite integral with `weight`.
        complex_func: whether `func` returns complex numbers.

    Raises:
        ArgumentError: `wvar` requires grad; or a limit does, and the weight is one of SciPy's that depend on the
            limits.
        RequiresGradError: `func` uses a tensor that requires grad and is not in `args`.

    Source: scipy.integrate.quad.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> from asyncgrad.scipy import integrate
        >>> rate = ag.tensor(2.0, requires_grad=True)
        >>> value, error = integrate.quad(lambda x, rate: np.exp(-rate * x), 0, np.inf, (rate,))
        >>> (gradient,) = ag.sync.grad(value, [rate])
        >>> round(value.item(), 6), round(gradient.item(), 6)
        (0.5, -0.25)
    """
    options = {"epsabs": epsabs, "epsrel": epsrel, "limit": limit, "weight": weight, "wvar": wvar, "wopts": wopts}
    options |= {"maxp1": maxp1, "limlst": limlst, "points": None if points is None else array_of(points)}
    return _quad(func, floating(a), floating(b), args, full_output, complex_func, options)


def _quad(
    func: Any, a: Tensor, b: Tensor, args: Any, full_output: Any, complex_func: bool, options: dict[str, Any]
) -> Any:
    name = "scipy.integrate.quad"
    is_async = check_user_function(func, name, "func")
    params = Parameters(args if isinstance(args, tuple) else (args,), func)
    rest: list[Any] = []
    factor = _weight(a, b, options, name)

    def forward(function: Callable[..., Any], a: float, b: float) -> Any:
        found = integrate.quad(function, a, b, (), full_output, complex_func=complex_func, **options)
        rest[:] = found[1:]
        return np.asarray(found[0])

    def backward(function: Callable[..., Any], a: float, b: float) -> Any:
        return vector_integral(function, a, b, **options)

    async def integrand(x: Any, *tensors: Tensor) -> Tensor:
        found = await call_user(func, x, *params.fill(tensors))
        check_history(func, found, tensors)
        value = floating(found)
        if value.size != 1:
            raise ArgumentError(
                f"{name}: func must return one number, not an array of shape {value.shape}: use quad_vec"
            )
        return np.reshape(value, ())

    async def run() -> Any:
        problem = _Integral(integrand, backward, is_async, name, factor, params.constants)
        value = await _integrate(problem, forward, a, b, params.tensors)
        return (value, *rest)

    return drive(run(), is_async, name)


def _weight(a: Tensor, b: Tensor, options: dict[str, Any], name: str) -> Callable[[Any], Any]:
    """Return what the integrand is multiplied by at the limits; raise for what has no derivative."""
    weight, wvar = options["weight"], options["wvar"]
    if weight is None:
        return lambda x: 1.0
    if weight not in _WEIGHTS:
        raise ArgumentError(f"{name}: weight must be one of {', '.join(_WEIGHTS)}, not {weight!r}")
    if Parameters(wvar).tensors:
        raise ArgumentError(f"{name}: there is no derivative by wvar: detach it, or multiply func by the weight")
    options["wvar"] = wvar = tuple(map(float, wvar)) if isinstance(wvar, (tuple, list)) else float(wvar)
    factor = _WEIGHTS[weight]
    if factor is not None:
        return lambda x: factor(x, wvar)
    if is_grad_enabled() and (a.requires_grad or b.requires_grad):
        raise ArgumentError(f"{name}: there is no derivative by the limits with weight={weight!r}: detach them")
    return lambda x: 1.0


#: Up to this many elements of a vector are integrated one by one.
_FEW = 16


def vector_integral(function: Callable[..., Any], a: float, b: float, **options: Any) -> Any:
    """Return the integral of a function whose values are vectors, with options of SciPy's `quad`.

    Few elements are integrated one by one, which takes a third of the points of `quad_vec` where the function is
    smooth; all at the same points, but for those where one needs more.
    """
    values: dict[float, Any] = {}

    def element(x: float, index: int) -> Any:
        if x not in values:
            values[x] = function(x)
        return values[x][index]

    anywhere = (b - 1.0 if math.isfinite(b) else 0.0) if math.isinf(a) else a + 1.0 if math.isinf(b) else (a + b) / 2
    first = values[anywhere] = function(anywhere)
    if len(first) > _FEW and options.get("weight") is None:
        kept = {name: options.get(name, 1.49e-8) for name in ("epsabs", "epsrel")}
        limit = max(options.get("limit", 50), 50)
        return integrate.quad_vec(function, a, b, limit=limit, points=options.get("points"), **kept)[0]
    options["complex_func"] = first.dtype.kind == "c"
    return np.array([integrate.quad(element, a, b, (index,), **options)[0] for index in range(len(first))])


def quad_vec(
    f: Callable[..., Any],
    a: Any,
    b: Any,
    epsabs: float = 1e-200,
    epsrel: float = 1e-8,
    norm: str = "2",
    cache_size: float = 100e6,
    limit: int = 10000,
    workers: Any = 1,
    points: Any = None,
    quadrature: str | None = None,
    full_output: bool = False,
    *,
    args: Any = (),
) -> Any:
    """Return the integral of `f`, whose values are arrays, from `a` to `b`, and an estimate of its error; see `quad`.

    Args:
        f: takes a number and `args`, and returns an array. If it is an `async def`, the result is to be awaited.
        a: the first limit, which may be infinite.
        b: the last limit, which may be infinite.
        epsabs: the absolute tolerance.
        epsrel: the relative tolerance.
        norm: of errors: "2", or "max".
        cache_size: how many bytes of values SciPy keeps.
        limit: the most subintervals.
        workers: must be 1.
        points: where `f` may not be smooth; the integral does not depend on them.
        quadrature: the name of SciPy's rule for a subinterval; None for its choice.
        full_output: whether to return SciPy's information, too.
        args: trees of anything. The tensors that gradients are to flow to are leaves of it.

    Raises:
        ArgumentError: `workers` is not 1.
        RequiresGradError: `f` uses a tensor that requires grad and is not in `args`.

    Source: scipy.integrate.quad_vec.
    """
    name = "scipy.integrate.quad_vec"
    if workers != 1:
        raise ArgumentError(f"{name}: workers must be 1, not {workers!r}: write f as an async def to overlap its waits")
    kept = {"norm": norm, "cache_size": cache_size, "limit": limit, "quadrature": quadrature}
    kept |= {"epsabs": epsabs, "epsrel": epsrel, "points": None if points is None else array_of(points)}
    return _quad_vec(f, a, b, args, full_output, kept, name)


def _quad_vec(
    f: Callable[..., Any], a: Any, b: Any, args: Any, full_output: bool, kept: dict[str, Any], name: str
) -> Any:
    is_async = check_user_function(f, name, "f")
    params = Parameters(args if isinstance(args, tuple) else (args,), f)
    rest: list[Any] = []

    def solve(function: Callable[..., Any], a: float, b: float, full_output: bool = False) -> Any:
        found = integrate.quad_vec(function, a, b, full_output=full_output, **kept)
        rest[:] = found[1:]
        return np.asarray(found[0])

    async def integrand(x: Any, *tensors: Tensor) -> Tensor:
        found = await call_user(f, x, *params.fill(tensors))
        check_history(f, found, tensors)
        return floating(found)

    def forward(function: Callable[..., Any], a: float, b: float) -> Any:
        return solve(function, a, b, full_output)

    async def run() -> Any:
        problem = _Integral(integrand, solve, is_async, name, constants=params.constants)
        value = await _integrate(problem, forward, floating(a), floating(b), params.tensors)
        return (value, *rest)

    return drive(run(), is_async, name)


def fixed_quad(func: Callable[..., Any], a: Any, b: Any, args: Any = (), n: int = 5) -> tuple[Tensor, None]:
    """Return the integral of `func` from `a` to `b` by the Gauss-Legendre rule with `n` points, and None.

    Args:
        func: takes a vector of points and `args`, and returns values there along its last axis.
        a: the limits, finite.
        b: the limits, finite.
        args: passed on to `func`.
        n: the number of points.

    Raises:
        ArgumentError: a limit is infinite.

    Source: scipy.integrate.fixed_quad.
    """
    a, b = floating(a), floating(b)
    if math.isinf(float(a._data)) or math.isinf(float(b._data)):
        raise ArgumentError("scipy.integrate.fixed_quad takes finite limits: use quad for an infinite range")
    nodes, weights = special.roots_legendre(n)
    half = (b - a) / 2
    points = half * (np.real(nodes) + 1) + a
    return half * np.sum(weights * floating(func(points, *args)), axis=-1), None


@final
class _Integral(Problem):
    """An integral, differentiated by its limits and by parameters of the integrand."""

    __slots__ = ("constants", "factor", "integrand", "is_async", "name", "rule")

    def __init__(
        self,
        integrand: Integrand,
        rule: Rule,
        is_async: bool,
        name: str,
        factor: Any = lambda x: 1.0,
        constants: ConstantVersions | None = None,
    ) -> None:
        self.integrand, self.rule, self.is_async, self.name, self.factor = integrand, rule, is_async, name, factor
        #: Other tensors that the integrand reads.
        self.constants = constants

    async def gradients(self, params: Tensors, solution: Tensors, grads: Tensors) -> Sequence[Tensor | None]:
        """Return the integrand at the limits, and the integrals of its derivatives."""
        a, b, *tensors = params
        (grad,) = grads
        by_limits: list[Any] = []
        for limit, sign in ((a, -1), (b, 1)):
            if not limit.requires_grad:
                by_limits.append(None)
            elif math.isinf(float(limit._data)):
                by_limits.append(zeros_like_tensor(limit))
            else:
                value = self.factor(limit) * await self.integrand(limit, *tensors)
                by_limits.append(sign * real_product(grad, value))
        if not tensors:
            return by_limits
        integrand = derivative_by_parameters(self, len(tensors))
        derivative = _Integral(integrand, self.rule, self.is_async, self.name, self.factor, self.constants)
        found = await _integrate(derivative, self.rule, a, b, (*tensors, grad))
        return [*by_limits, *split_gradient(found, tensors)]


def split_gradient(gradient: Tensor, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the gradients of tensors that a vector holds one after the other."""
    bounds = np.cumsum([0, *[tensor.size for tensor in tensors]]).tolist()
    return [
        fit_dtype(np.reshape(gradient[first:last], tensor.shape), tensor)
        for tensor, (first, last) in zip(tensors, itertools.pairwise(bounds), strict=True)
    ]


def derivative_by_parameters(integral: Any, count: int) -> Integrand:
    """Return the function whose integral is the gradient by the parameters."""

    async def integrand(x: Any, *given: Tensor) -> Any:
        create_graph = is_grad_enabled()
        with transform_scope(create_graph):
            points = tuple([new_input(one, create_graph, integral.name) for one in given[:count]])
            value = await integral.integrand(x, *points)
            found = await gradients((value,), points, (given[count],), create_graph=create_graph)
        parts = [zeros_like_tensor(point) if one is None else one for one, point in zip(found, points, strict=True)]
        return np.concatenate([np.reshape(part, -1) for part in parts])

    return integrand


async def _integrate(problem: _Integral, rule: Rule, a: Tensor, b: Tensor, tensors: Sequence[Tensor]) -> Tensor:
    """Return the integral, with a history."""
    constants = [tensor.detach() for tensor in tensors]

    async def evaluate(x: float) -> Any:
        return (await problem.integrand(x, *constants))._data

    def solve(function: Callable[..., Any]) -> Any:
        return rule(function, float(a._data), float(b._data))

    value = await call_solver(solve, evaluate, problem.is_async, problem.name)
    (result,) = record(problem, (a, b, *tensors), (value,), problem.constants)
    return result
