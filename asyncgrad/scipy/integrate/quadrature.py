"""Integrals of functions, differentiated by Leibniz's rule."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from scipy import integrate

from ...context import is_grad_enabled
from ...errors import ArgumentError
from ...functional.arguments import gradients, new_input, transform_scope, zeros_like
from ...tensor import Tensor
from ..arguments import floating
from ..solutions import Parameters, Problem, Tensors, call_solver, call_user, check_user_function, drive, record
from ..ufuncs import special

__all__ = ["fixed_quad", "quad"]

#: Takes a number and the parameters, and returns a tensor.
Integrand = Callable[..., Any]
#: Takes a plain integrand and the limits; returns the integral.
Rule = Callable[[Callable[..., Any], float, float], Any]

#: By name, the parameters of SciPy's that are not supported, and what to write instead.
_UNSUPPORTED = {
    "points": "add the integrals of the parts of the range",
    **dict.fromkeys(("weight", "wvar", "wopts", "maxp1", "limlst"), "multiply func by the weight"),
    "complex_func": "integrate the real and the imaginary part",
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
    **unsupported: Any,
) -> Any:
    """Return the integral of `func` from `a` to `b`, and an estimate of its error.

    The integral is differentiable by the limits and the tensors in `args`, any number of times: by a limit as `func`
    there, by `args` as the integral of the derivative, which the backward computes with the same tolerances.

    Args:
        func: takes a number and `args`, and returns a number. If it is an `async def`, the result is to be awaited.
        a: the limits, which may be infinite.
        b: the limits, which may be infinite.
        args: trees of anything. The tensors that gradients are to flow to are leaves of it.
        full_output: as SciPy's.
        epsabs: as SciPy's.
        epsrel: as SciPy's.
        limit: as SciPy's.
        **unsupported: the others of SciPy's raise unless they are None or False.

    Raises:
        ArgumentError: an argument that is not supported is given.
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
    return _quad(func, a, b, args, full_output, epsabs, epsrel, limit, unsupported)


def _quad(
    func: Any, a: Any, b: Any, args: Any, full_output: Any, epsabs: Any, epsrel: Any, limit: Any, unsupported: Any
) -> Any:
    name = "scipy.integrate.quad"
    for parameter, value in unsupported.items():
        if parameter not in _UNSUPPORTED:
            raise TypeError(f"{name} has no parameter {parameter}")
        if value is not None and value is not False:
            raise ArgumentError(f"{name}: {parameter} is not supported: {_UNSUPPORTED[parameter]}")
    is_async = check_user_function(func, name, "func")
    params = Parameters(args if isinstance(args, tuple) else (args,))
    rest: list[Any] = []

    def forward(function: Callable[..., Any], a: float, b: float) -> Any:
        found = integrate.quad(function, a, b, (), full_output, epsabs, epsrel, limit)
        rest[:] = found[1:]
        return np.asarray(found[0], float)

    def backward(function: Callable[..., Any], a: float, b: float) -> Any:
        return integrate.quad_vec(function, a, b, epsabs, epsrel, limit=max(limit, 50))[0]

    async def integrand(x: Any, *tensors: Tensor) -> Tensor:
        value = floating(await call_user(func, x, *params.fill(tensors)))
        if value.size != 1:
            raise ArgumentError(f"{name}: func must return one number, not an array of shape {value.shape}")
        return np.reshape(value, ())

    async def run() -> Any:
        problem = _Integral(integrand, backward, is_async, name)
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

    __slots__ = ("integrand", "is_async", "name", "rule")

    def __init__(self, integrand: Integrand, rule: Rule, is_async: bool, name: str) -> None:
        self.integrand, self.rule, self.is_async, self.name = integrand, rule, is_async, name

    async def gradients(self, params: Tensors, solution: Tensors, grads: Tensors) -> Sequence[Tensor | None]:
        """Return the integrand at the limits, and the integrals of its derivatives."""
        a, b, *tensors = params
        (grad,) = grads
        by_limits: list[Any] = []
        for limit, sign in ((a, -1), (b, 1)):
            if not limit.requires_grad:
                by_limits.append(None)
            elif math.isinf(float(limit._data)):
                by_limits.append(zeros_like(limit))
            else:
                by_limits.append(np.sum(sign * grad * await self.integrand(limit, *tensors)))
        if not tensors:
            return by_limits
        derivative = _Integral(_derivative(self, len(tensors)), self.rule, self.is_async, self.name)
        found = await _integrate(derivative, self.rule, a, b, (*tensors, grad))
        bounds = np.cumsum([0, *[tensor.size for tensor in tensors]]).tolist()
        return [
            *by_limits,
            *[
                np.reshape(found[first:last], tensor.shape).astype(tensor.dtype, copy=False)
                for tensor, (first, last) in zip(tensors, itertools.pairwise(bounds), strict=True)
            ],
        ]


def _derivative(integral: _Integral, count: int) -> Integrand:
    """Return the function whose integral is the gradient by the parameters."""

    async def integrand(x: Any, *given: Tensor) -> Any:
        create_graph = is_grad_enabled()
        with transform_scope(create_graph):
            points = tuple([new_input(one, create_graph, integral.name) for one in given[:count]])
            value = await integral.integrand(x, *points)
            found = await gradients((value,), points, (given[count],), create_graph=create_graph)
        parts = [zeros_like(point) if one is None else one for one, point in zip(found, points, strict=True)]
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
    (result,) = record(problem, (a, b, *tensors), (value,))
    return result
