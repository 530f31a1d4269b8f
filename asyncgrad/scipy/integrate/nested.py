"""Integrals over several variables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from scipy import integrate

from ...core.tensor import Tensor
from ...errors import ArgumentError
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
    record,
)
from .quadrature import derivative_by_parameters, split_gradient, vector_integral

__all__ = ["dblquad", "nquad", "tplquad"]


def nquad(func: Callable[..., Any], ranges: Any, args: Any = None, opts: Any = None, full_output: bool = False) -> Any:
    """Return the integral of `func` over several variables, and an estimate of its error.

    The integral is differentiable by the limits and the tensors in `args`, any number of times; see `quad`.

    Args:
        func: takes the variables and `args`, and returns a number. If it is an `async def`, the result is to be
            awaited.
        ranges: for each variable, the innermost first, two limits, or a function of the later variables and `args`
            that returns them.
        args: a tuple of trees of anything. The tensors that gradients are to flow to are leaves of it.
        opts: options of `quad` but for `weight`, or for each variable its options, or a function of the later variables
            and `args` that returns them.
        full_output: return a dict with the number of evaluations, too.

    Raises:
        ArgumentError: `opts` has a weight.
        RequiresGradError: `func` uses a tensor that requires grad and is neither in `args` nor in `ranges`.

    Source: scipy.integrate.nquad.

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad.scipy import integrate
        >>> a = ag.tensor(3.0, requires_grad=True)
        >>> value, error = integrate.nquad(lambda y, x, a: a * x * y, [(0, 1), (0, a)], (a,))
        >>> (gradient,) = ag.sync.grad(value, [a])
        >>> round(value.item(), 6), round(gradient.item(), 6)
        (6.75, 6.75)
    """
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    limits = [one if callable(one) else tuple(one) for one in ranges]
    options = list(opts) if isinstance(opts, (list, tuple)) else [opts or {}] * len(limits)
    if any("weight" in one for one in options if not callable(one)):
        raise ArgumentError("scipy.integrate.nquad: weight in opts is not supported: multiply func by the weight")
    return _integrate(func, limits, _limits_of_range, args, options, full_output, "scipy.integrate.nquad")


def dblquad(
    func: Callable[..., Any],
    a: Any,
    b: Any,
    gfun: Any,
    hfun: Any,
    args: Any = (),
    epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
) -> Any:
    """Return the integral of `func(y, x, *args)` over a range of x and one of y, and an estimate of its error.

    Args:
        func: takes y, x and `args`, and returns a number. If it is an `async def`, the result is to be awaited.
        a: the first x.
        b: the last x.
        gfun: the first y, or a function of x.
        hfun: the last y, or a function of x.
        args: trees of anything. The tensors that gradients are to flow to are leaves of it.
        epsabs: as SciPy's.
        epsrel: as SciPy's.

    Source: scipy.integrate.dblquad.
    """
    limits = [(gfun, hfun), (a, b)]
    args = args if isinstance(args, tuple) else (args,)
    options = [{"epsabs": epsabs, "epsrel": epsrel}] * 2
    return _integrate(func, limits, _limits_of_pair, args, options, False, "scipy.integrate.dblquad")


def tplquad(
    func: Callable[..., Any],
    a: Any,
    b: Any,
    gfun: Any,
    hfun: Any,
    qfun: Any,
    rfun: Any,
    args: Any = (),
    epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
) -> Any:
    """Return the integral of `func(z, y, x, *args)` over three ranges, and an estimate of its error.

    Args:
        func: takes z, y, x and `args`, and returns a number. If it is an `async def`, the result is to be awaited.
        a: the first x.
        b: the last x.
        gfun: the first y, or a function of x.
        hfun: the last y, or a function of x.
        qfun: the first z, or a function of x and y.
        rfun: the last z, or a function of x and y.
        args: trees of anything. The tensors that gradients are to flow to are leaves of it.
        epsabs: as SciPy's.
        epsrel: as SciPy's.

    Source: scipy.integrate.tplquad.
    """
    limits = [(qfun, rfun), (gfun, hfun), (a, b)]
    args = args if isinstance(args, tuple) else (args,)
    options = [{"epsabs": epsabs, "epsrel": epsrel}] * 3
    return _integrate(func, limits, _limits_of_pair, args, options, False, "scipy.integrate.tplquad")


async def _limits_of_range(limits: Any, later: Sequence[Any], args: Sequence[Any]) -> Any:
    return await call_user(limits, *later, *args) if callable(limits) else limits


async def _limits_of_pair(limits: Any, later: Sequence[Any], args: Sequence[Any]) -> Any:
    return [await call_user(one, *reversed(later)) if callable(one) else one for one in limits]


def _integrate(
    func: Any, limits: Any, find: Any, args: Any, options: Sequence[Any], full_output: bool, name: str
) -> Any:
    is_async = check_user_function(func, name, "func")
    params = Parameters((args, limits), func)
    constants = [tensor.detach() for tensor in params.tensors]
    plain_args, plain_limits = params.fill(constants)

    async def value(point: Sequence[Any], *tensors: Tensor) -> Tensor:
        args, _ = params.fill(tensors)
        found = await call_user(func, *point, *args)
        check_history(func, found, args)
        return np.reshape(floating(found), ())

    async def limits_of(index: int, later: Sequence[Any], *tensors: Tensor) -> Any:
        args, limits = params.fill(tensors)
        return [floating(one) for one in await find(limits[index], later, args)]

    async def evaluate(index: int | None, point: Sequence[float]) -> Any:
        if index is None:
            return float((await value(point, *constants))._data)
        return [float(array_of(one)) for one in await find(plain_limits[index], point, plain_args)]

    def solve(ask: Any) -> Any:
        ranges = [lambda *later, index=index: ask(index, later) for index in range(len(limits))]
        given = [(lambda *later, one=one: one(*later, *plain_args)) if callable(one) else one for one in options]
        return integrate.nquad(lambda *point: ask(None, point), ranges, None, given, full_output)

    async def run() -> Any:
        found, *rest = await call_solver(solve, evaluate, is_async, name)
        space = _Space(limits_of, options, plain_args, len(params.tensors))
        problem = _SpaceIntegral(space.transformed(value), space, is_async, name)
        (result,) = record(problem, params.tensors, (np.asarray(found, float),), params.constants)
        return (result, *rest)

    return drive(run(), is_async, name)


@final
class _Space:
    """Where a function of several variables is integrated.

    Each variable is a function of one whose range is constant: from 0 to 1, from 0 to infinity, or all numbers.
    """

    __slots__ = ("_args", "_count", "_limits_of", "_options", "dimensions")

    def __init__(self, limits_of: Callable[..., Any], options: Sequence[Any], args: Any, count: int) -> None:
        self._limits_of, self._options, self._args, self._count = limits_of, options, args, count
        self.dimensions = len(options)

    async def place(self, us: Sequence[Any], tensors: Sequence[Tensor]) -> tuple[tuple[Any, ...], Any]:
        """Return the variables for those of constant ranges, the last ones first, and the factor of the volume."""
        found: tuple[Any, ...] = ()
        factor: Any = 1.0
        for index, u in zip(range(self.dimensions - 1, -1, -1), reversed(us), strict=False):
            first, last = await self._limits_of(index, found, *tensors[: self._count])
            x, scale, _ = _transformed(first, last, u)
            found, factor = (x, *found), factor * scale
        return found, factor

    def transformed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of the variables as one of those of constant ranges."""

        async def call(us: Sequence[Any], *tensors: Tensor) -> Tensor:
            point, factor = await self.place(us, tensors)
            return factor * await function(point, *tensors)

        return call

    async def range_of(self, index: int, later: Sequence[float], tensors: Sequence[Tensor]) -> tuple[float, Any]:
        """Return where the range of a variable begins, and the options of its integral with the end in them."""
        point, _ = await self.place(later, tensors)
        first, last = await self._limits_of(index, point, *tensors[: self._count])
        options = self._options[index]
        options = dict(options(*point, *self._args) if callable(options) else options)
        _, scale, (low, high) = _transformed(first, last, 0.0)
        if options.get("points") is not None:
            options["points"] = (np.asarray(options["points"], float) - array_of(first)) / array_of(scale)
        return low, {**options, "b": high}


def _transformed(first: Tensor, last: Tensor, u: Any) -> tuple[Any, Any, tuple[float, float]]:
    """Return a variable between two limits, the factor of its length, and the range of `u`."""
    low, high = float(first._data), float(last._data)
    if math.isfinite(low) and math.isfinite(high):
        return first + (last - first) * u, last - first, (0.0, 1.0)
    if math.isfinite(low):
        sign = math.copysign(1.0, high)
        return first + sign * u, sign, (0.0, math.inf)
    sign = -math.copysign(1.0, low)
    if math.isfinite(high):
        return last - sign * u, sign, (0.0, math.inf)
    return u, sign, (-math.inf, math.inf)


@final
class _SpaceIntegral(Problem):
    """An integral over several variables, differentiated by parameters of the integrand and of the limits."""

    __slots__ = ("integrand", "is_async", "name", "space")

    def __init__(self, integrand: Callable[..., Any], space: _Space, is_async: bool, name: str) -> None:
        self.integrand, self.space, self.is_async, self.name = integrand, space, is_async, name

    async def gradients(self, params: Tensors, solution: Tensors, grads: Tensors) -> Sequence[Tensor | None]:
        """Return the integrals of the integrand's derivatives."""
        integrand = derivative_by_parameters(self, len(params))
        derivative = _SpaceIntegral(integrand, self.space, self.is_async, self.name)
        return split_gradient(await derivative.value(*params, *grads), params)

    async def value(self, *tensors: Tensor) -> Tensor:
        """Return the integral of an integrand whose values are vectors, with a history."""
        constants = [tensor.detach() for tensor in tensors]

        async def evaluate(index: int | None, us: Sequence[float]) -> Any:
            if index is None:
                return (await self.integrand(us, *constants))._data
            return await self.space.range_of(index, us, constants)

        def solve(ask: Any) -> Any:
            def over(index: int, later: tuple[float, ...]) -> Any:
                low, options = ask(index, later)
                if index:
                    return vector_integral(lambda u: over(index - 1, (u, *later)), low, **options)
                return vector_integral(lambda u: ask(None, (u, *later)), low, **options)

            return over(self.space.dimensions - 1, ())

        found = await call_solver(solve, evaluate, self.is_async, self.name)
        (result,) = record(self, tensors, (found,))
        return result
