"""Ordinary differential equations: any of SciPy's methods forward, and the adjoint equation backward."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from scipy import integrate

from ...context import is_grad_enabled
from ...errors import ArgumentError
from ...functional.arguments import gradients, new_input, transform_scope, zeros_like
from ...tensor import Tensor, asarray
from ..arguments import floating
from ..solutions import (
    Parameters,
    Problem,
    Tensors,
    array_of,
    call_solver,
    call_user,
    check_user_function,
    drive,
    record,
)

__all__ = ["odeint", "solve_ivp"]

#: Takes the time, the state and the parameters, and returns the derivative of the state.
Velocity = Callable[..., Any]
#: Takes a plain function of time and state, the first state and time, and the times; returns the states there.
Method = Callable[[Callable[..., Any], Any, Any, Any], Any]

#: The options of odeint that also hold for the adjoint equation.
_STEP_OPTIONS = ("h0", "hmax", "hmin", "mxstep", "mxordn", "mxords")


def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    args: tuple[Any, ...] = (),
    *,
    full_output: bool = False,
    rtol: float | None = None,
    atol: Any = None,
    tfirst: bool = False,
    **options: Any,
) -> Any:
    """Return the states at the times `t` of the equation `dy/dt = func(y, t, *args)`, of shape (times, states).

    The result is differentiable by `y0`, `t` and the tensors in `args`, any number of times. The backward solves the
    adjoint equation with the same tolerances, and keeps the states at `t` alone, however many steps there were.

    Args:
        func: takes a state as a tensor, the time, and `args`. If it is an `async def`, the result is to be awaited.
        y0: the first state.
        t: the times, in order; the first is that of `y0`.
        args: trees of anything. The tensors that gradients are to flow to are leaves of it.
        full_output: return SciPy's dict about the forward, too.
        rtol: as SciPy's.
        atol: as SciPy's; the adjoint is solved with the least of several.
        tfirst: `func` takes the time first.
        **options: the others of SciPy's. Those about the steps also hold for the adjoint; `Dfun`, `col_deriv`, `ml`,
            `mu`, `tcrit`, `ixpr`, `mxhnil` and `printmessg` do not.

    Raises:
        RequiresGradError: `func` uses a tensor that requires grad and is not in `args`.

    Source: scipy.integrate.odeint.

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad.scipy import integrate
        >>> rate = ag.tensor(0.5, requires_grad=True)
        >>> y = integrate.odeint(lambda y, t, rate: -rate * y, [1.0], [0.0, 2.0], (rate,))
        >>> (gradient,) = ag.sync.grad(y[-1, 0], [rate])
        >>> [round(one.item(), 5) for one in (y[-1, 0], gradient)]
        [0.36788, -0.73576]
    """
    return _odeint(func, y0, t, args, full_output, rtol, atol, tfirst, options)


def _odeint(
    func: Any, y0: Any, t: Any, args: Any, full_output: Any, rtol: Any, atol: Any, tfirst: Any, options: Any
) -> Any:
    is_async = check_user_function(func, "scipy.integrate.odeint", "func")
    if not isinstance(args, tuple):
        args = (args,)
    shared = {name: options[name] for name in _STEP_OPTIONS if name in options}
    forward: dict[str, Any] = {**options, "full_output": True, "atol": atol}
    if options.get("Dfun") is not None:
        forward["Dfun"] = _jacobian_of_odeint(options["Dfun"], args, tfirst)
    info: dict[str, Any] = {}

    def solve(function: Any, y0: Any, t0: Any, times: Any) -> Any:
        states, found = integrate.odeint(function, y0, times, tfirst=True, rtol=rtol, **forward)
        info.update(found)
        return states

    def solve_adjoint(function: Any, y0: Any, t0: Any, times: Any) -> Any:
        smallest = None if atol is None else float(np.min(atol))
        return integrate.odeint(function, y0, np.array([t0, *times]), tfirst=True, rtol=rtol, atol=smallest, **shared)[
            1:
        ]

    params = Parameters(args)
    times, state = floating(t), np.reshape(floating(y0), -1) if np.ndim(y0) == 0 else floating(y0)
    velocity = _velocity(func, params, tfirst)
    equation = _Equation(velocity, solve_adjoint, is_async, "scipy.integrate.odeint")

    async def run() -> Any:
        states = await _integrate(equation, solve, state, times[0], times, params.tensors)
        return (states, info) if full_output else states

    return drive(run(), is_async, equation.name)


def _jacobian_of_odeint(Dfun: Callable[..., Any], args: tuple[Any, ...], tfirst: bool) -> Callable[..., Any]:
    return lambda t, y: array_of(Dfun(t, y, *args) if tfirst else Dfun(y, t, *args))


def solve_ivp(
    fun: Callable[..., Any],
    t_span: Any,
    y0: Any,
    method: Any = "RK45",
    t_eval: Any = None,
    dense_output: bool = False,
    events: Any = None,
    vectorized: bool = False,
    args: Any = None,
    **options: Any,
) -> Any:
    """Solve the equation `dy/dt = fun(t, y, *args)` from `y0`; the result is SciPy's, with tensors `t` and `y`.

    `y` is differentiable by `y0`, `t_span`, `t_eval` and the tensors in `args`, any number of times. The backward
    solves the adjoint equation with the same method and tolerances, and keeps the states of the result alone, however
    many steps there were. Times that the method chose are constants.

    Args:
        fun: takes the time, a state as a tensor, and `args`. If it is an `async def`, the result is to be awaited.
        t_span: the first and the last time.
        y0: the first state, a vector, real or complex.
        method: any of SciPy's.
        t_eval: the times to return states at.
        dense_output: as SciPy's; where nothing requires grad, since they have no derivatives.
        events: as SciPy's; where nothing requires grad, since they have no derivatives.
        vectorized: must be False: `fun` takes one state.
        args: a tuple of trees of anything. The tensors that gradients are to flow to are leaves of it.
        **options: `rtol`, `atol`, `max_step` and `first_step` also hold for the adjoint; others, as `jac`, do not.

    Raises:
        RequiresGradError: `fun` uses a tensor that requires grad and is not in `args`.
        ArgumentError: `vectorized` is true; or events or dense output are asked for, and something requires grad.

    Source: scipy.integrate.solve_ivp.
    """
    return _solve_ivp(fun, t_span, y0, method, t_eval, dense_output, events, vectorized, args, options)


def _solve_ivp(
    fun: Any,
    t_span: Any,
    y0: Any,
    method: Any,
    t_eval: Any,
    dense_output: Any,
    events: Any,
    vectorized: Any,
    args: Any,
    options: Any,
) -> Any:
    name = "scipy.integrate.solve_ivp"
    is_async = check_user_function(fun, name, "fun")
    if vectorized:
        raise ArgumentError(f"{name}: vectorized=True is not supported: fun takes one state of shape (n,)")
    params = Parameters(() if args is None else tuple(args))
    state, span = floating(y0), [floating(one) for one in t_span]
    times = None if t_eval is None else floating(t_eval)
    given = [state, *span, *params.tensors, *([] if times is None else [times])]
    if (dense_output or events is not None) and is_grad_enabled() and any(one.requires_grad for one in given):
        raise ArgumentError(
            f"{name}: events and dense_output have no derivatives: pass t_eval, or detach y0, t_span and args"
        )
    results: list[Any] = []

    def solve(function: Any, y0: Any, t0: Any, unused: Any) -> Any:
        results[:] = [
            integrate.solve_ivp(
                function,
                (float(t0), float(span[1]._data)),
                y0,
                method,
                None if times is None else array_of(times),
                dense_output,
                _plain_events(events, args),
                **_plain_options(options, args),
            )
        ]
        return results[0].y.T

    equation = _Equation(_velocity(fun, params, True), _adjoint_method(method, options), is_async, name)

    async def run() -> Any:
        ends = _Ends(span, results)
        states = await _integrate(equation, solve, state, span[0], ends if times is None else times, params.tensors)
        result = results[0]
        result.t = times if times is not None and len(result.t) == len(times) else asarray(result.t)
        if times is None:
            result.t = ends.times()
        result.y = states.T
        return result

    return drive(run(), is_async, name)


@final
class _Ends:
    """The times that a method chooses between two that are given."""

    __slots__ = ("_results", "_span")

    def __init__(self, span: Sequence[Tensor], results: list[Any]) -> None:
        self._span, self._results = span, results

    def times(self) -> Tensor:
        """Return the times, once they have been chosen."""
        chosen = self._results[0].t
        first, last = self._span
        if len(chosen) < 2 or chosen[-1] != last._data or not (first.requires_grad or last.requires_grad):
            return asarray(chosen)
        return np.concatenate([np.reshape(first, 1), chosen[1:-1], np.reshape(last, 1)])


def _plain_events(events: Any, args: Any) -> Any:
    """Return functions of events that take and return arrays."""
    if events is None:
        return None

    def plain(event: Any) -> Any:
        def function(t: Any, y: Any) -> Any:
            return float(array_of(event(t, asarray(y), *(args or ()))))

        for attribute in ("terminal", "direction"):
            if hasattr(event, attribute):
                setattr(function, attribute, getattr(event, attribute))
        return function

    return plain(events) if callable(events) else [plain(event) for event in events]


def _plain_options(options: dict[str, Any], args: Any) -> dict[str, Any]:
    jac = options.get("jac")
    if callable(jac):
        return {**options, "jac": lambda t, y: array_of(jac(t, asarray(y), *(args or ())))}
    return options


def _adjoint_method(method: Any, options: dict[str, Any]) -> Method:
    kept = {name: options[name] for name in ("rtol", "atol", "max_step") if name in options}
    if np.ndim(kept.get("atol", 0.0)):
        kept["atol"] = float(np.min(kept["atol"]))

    def solve(function: Any, y0: Any, t0: Any, times: Any) -> Any:
        found = integrate.solve_ivp(function, (t0, times[-1]), y0, method, times, **kept)
        if not found.success:
            raise ArithmeticError(f"scipy.integrate.solve_ivp: the adjoint equation was not solved: {found.message}")
        return found.y.T

    return solve


def _velocity(function: Callable[..., Any], params: Parameters, tfirst: bool) -> Velocity:
    """Return the function of the user as one of time, state and parameters."""

    async def velocity(t: Any, y: Any, *tensors: Tensor) -> Any:
        args = params.fill(tensors)
        found = await call_user(function, *((t, y) if tfirst else (y, t)), *args)
        if isinstance(found, (list, tuple)):
            found = np.stack([np.reshape(asarray(one), ()) for one in found])
        return asarray(found)

    return velocity


@final
class _Equation(Problem):
    """A differential equation, whose solution is differentiated by the adjoint equation."""

    __slots__ = ("is_async", "method", "name", "velocity")

    def __init__(self, velocity: Velocity, method: Method, is_async: bool, name: str) -> None:
        self.velocity, self.method, self.is_async, self.name = velocity, method, is_async, name

    async def gradients(self, params: Tensors, solution: Tensors, grads: Tensors) -> Sequence[Tensor | None]:
        """Solve the adjoint equation from the last time to the first."""
        y0, t0, times, *tensors = params
        (states,), (grad,) = solution, grads
        count, starts = y0.size, np.cumsum([0, *[tensor.size for tensor in tensors]])
        sums = asarray(np.zeros(starts[-1], np.result_type(grad.dtype, *[one.dtype for one in tensors])))
        adjoint = asarray(np.zeros(count, grad.dtype))
        augmented = _Equation(_augmented(self, count), self.method, self.is_async, self.name)
        indices = _indices_with_gradient(grad)
        for index, before in itertools.pairwise([*indices, -1]):
            adjoint = adjoint + grad[index]
            start, stop = times[index], times[before] if before >= 0 else t0
            if float(start._data) == float(stop._data):
                continue
            state = np.concatenate([states[index], adjoint, sums])
            ended = await _integrate(augmented, self.method, state, start, np.reshape(stop, 1), tensors)
            adjoint, sums = ended[0, count : 2 * count], ended[0, 2 * count :]
        by_params = [
            _like(np.reshape(sums[first:last], tensor.shape), tensor)
            for tensor, (first, last) in zip(tensors, itertools.pairwise(starts), strict=True)
        ]
        by_t0, by_times = await self._by_times(params, states, grad, adjoint)
        return [_like(np.reshape(adjoint, y0.shape), y0), by_t0, by_times, *by_params]

    async def _by_times(
        self, params: Tensors, states: Tensor, grad: Tensor, adjoint: Tensor
    ) -> tuple[Tensor | None, Tensor | None]:
        y0, t0, times, *tensors = params
        by_t0 = by_times = None
        if times.requires_grad:
            found = [
                _product(grad[index], await self.velocity(times[index], states[index], *tensors))
                for index in range(len(times))
            ]
            by_times = np.stack(found) if found else zeros_like(times)
        if t0.requires_grad:
            by_t0 = -_product(adjoint, await self.velocity(t0, np.reshape(y0, -1), *tensors))
        return by_t0, by_times


def _indices_with_gradient(grad: Tensor) -> list[int]:
    """Return the times that the adjoint equation stops at, from the last."""
    if is_grad_enabled():
        return list(range(len(grad) - 1, -1, -1))
    return np.flatnonzero(grad._data.any(axis=1))[::-1].tolist()


def _product(one: Any, other: Any) -> Any:
    """Return the real part of an inner product."""
    found = np.sum(np.conj(one) * other)
    return np.real(found) if found.dtype.kind == "c" else found


def _like(gradient: Any, tensor: Tensor) -> Any:
    """Return a gradient as one for a tensor, which may be real where the states are complex."""
    if gradient.dtype.kind == "c" and tensor.dtype.kind != "c":
        gradient = np.real(gradient)
    return gradient.astype(tensor.dtype, copy=False)


def _augmented(equation: _Equation, count: int) -> Velocity:
    """Return the right-hand side for a state, its adjoint and the integrals of the parameters' gradients."""

    async def velocity(t: Any, state: Tensor, *tensors: Tensor) -> Any:
        create_graph = is_grad_enabled()
        with transform_scope(create_graph):
            points = tuple([new_input(one, create_graph, equation.name) for one in (state[:count], *tensors)])
            result = await equation.velocity(t, *points)
            found = await gradients((result,), points, (state[count : 2 * count],), create_graph=create_graph)
        parts = [zeros_like(point) if one is None else -one for one, point in zip(found, points, strict=True)]
        if create_graph:
            return np.concatenate([np.reshape(part, -1) for part in (result, *parts)])
        return np.concatenate([part._data.ravel() for part in (result, *parts)])

    return velocity


async def _integrate(
    equation: _Equation, method: Method, y0: Any, t0: Tensor, times: Any, tensors: Sequence[Tensor]
) -> Tensor:
    """Return the states at the times, with a history."""
    constants = [tensor.detach() for tensor in tensors]

    async def evaluate(t: Any, y: Any) -> Any:
        # The solver writes into its array again.
        found = await equation.velocity(t, asarray(y.copy()), *constants)
        return found if isinstance(found, np.ndarray) else found._data

    def solve(function: Callable[..., Any]) -> Any:
        return method(function, array_of(y0), array_of(t0), array_of(times) if isinstance(times, Tensor) else None)

    states = await call_solver(solve, evaluate, equation.is_async, equation.name)
    if isinstance(times, _Ends):
        times = times.times()
    if len(states) < len(times):
        times = times[: len(states)]
    (result,) = record(equation, (y0, t0, times, *tensors), (states,))
    return result
