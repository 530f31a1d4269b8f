"""Ordinary differential equations: any of SciPy's methods forward, and the adjoint equation backward."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy import integrate

from ...core.settings.context import is_grad_enabled
from ...core.tensor import Tensor, asarray
from ...transforms.arguments import gradients, new_input, transform_scope, zeros_like_tensor
from ...transforms.parameters import Parameters
from ..arguments import floating
from ..optimize.implicit import Zero
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

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["odeint", "solve_ivp"]

#: Takes the time, the state and the parameters, and returns the derivative of the state.
Velocity = Callable[..., Any]
#: Takes a plain function of time and state, the first state and time, and the times; returns the states there.
Method = Callable[[Callable[..., Any], Any, Any, Any], Any]


def odeint(  # noqa: D417 - twenty lines for what is as SciPy's say nothing
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    args: tuple[Any, ...] = (),
    Dfun: Any = None,
    col_deriv: bool = False,
    full_output: bool = False,
    ml: int | None = None,
    mu: int | None = None,
    rtol: float | None = None,
    atol: Any = None,
    tcrit: Any = None,
    h0: float = 0.0,
    hmax: float = 0.0,
    hmin: float = 0.0,
    ixpr: bool = False,
    mxstep: int = 0,
    mxhnil: int = 0,
    mxordn: int = 12,
    mxords: int = 5,
    printmessg: bool = False,
    tfirst: bool = False,
) -> Any:
    """Return the states at the times `t` of the equation `dy/dt = func(y, t, *args)`, of shape (times, states).

    It is differentiable by `y0`, `t` and the tensors in `args`, any number of times. The backward solves the adjoint
    equation with the same tolerances and steps, and keeps the states at `t` alone, however many steps there were.

    Args:
        func: takes a state as a tensor, the time, and `args`. If it is an `async def`, the result is to be awaited.
        y0: the first state.
        t: the times, in order; the first is that of `y0`.
        args: trees of anything. The tensors that gradients are to flow to are leaves of it.
        Dfun: a function like `func` that returns the Jacobian. The adjoint uses neither it nor what describes it.
        atol: as SciPy's, as all that is not named here; the adjoint is solved with the least of several.
        tcrit: as SciPy's, for the forward.
        tfirst: `func` and `Dfun` take the time first.

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
    steps = {"h0": h0, "hmax": hmax, "hmin": hmin, "mxstep": mxstep, "mxordn": mxordn, "mxords": mxords, "rtol": rtol}
    forward = {"col_deriv": col_deriv, "ml": ml, "mu": mu, "tcrit": tcrit, "atol": atol}
    forward |= {"ixpr": ixpr, "mxhnil": mxhnil, "printmessg": printmessg}
    return _odeint(func, y0, t, args, Dfun, full_output, tfirst, steps, forward)


def _odeint(
    func: Any,
    y0: Any,
    t: Any,
    args: Any,
    Dfun: Any,
    full_output: Any,
    tfirst: bool,
    steps: dict[str, Any],
    forward: dict[str, Any],
) -> Any:
    name = "scipy.integrate.odeint"
    is_async = check_user_function(func, name, "func")
    params = Parameters(args if isinstance(args, tuple) else (args,), func)
    smallest = None if forward["atol"] is None else float(np.min(forward["atol"]))
    times: Any = floating(t)
    state: Any = np.reshape(floating(y0), -1) if np.ndim(y0) == 0 else floating(y0)
    start, plain_times = array_of(state), array_of(times)
    if forward["tcrit"] is not None:
        forward["tcrit"] = array_of(forward["tcrit"])

    def solve(ask: Any) -> Any:
        jacobian = None if Dfun is None else lambda t, y: ask(Dfun, t, y)
        return integrate.odeint(
            lambda t, y: ask(None, t, y),
            start,
            plain_times,
            (),
            jacobian,
            full_output=True,
            tfirst=True,
            **steps,
            **forward,
        )

    def solve_adjoint(function: Any, y0: Any, t0: Any, times: Any) -> Any:
        return integrate.odeint(function, y0, np.array([t0, *times]), tfirst=True, atol=smallest, **steps)[1:]

    equation = _Equation(_velocity(func, params, tfirst), solve_adjoint, is_async, name)
    evaluate = _evaluation(equation, params, tfirst)

    async def run() -> Any:
        found, info = await call_solver(solve, evaluate, is_async, name)
        (states,) = record(equation, (state, times[0], times, *params.tensors), (found,), params.constants)
        return (states, info) if full_output else states

    return drive(run(), is_async, name)


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
    """Solve the equation `dy/dt = fun(t, y, *args)` from `y0`; the result is SciPy's, with tensors in it.

    `y`, `sol(t)`, `t_events` and `y_events` are differentiable by `y0`, `t_span`, `t_eval` and the tensors in `args`,
    any number of times. The backward solves the adjoint equation with the same method and tolerances, and keeps the
    states of the result alone: with `t_eval`, memory does not depend on the number of steps. The time of an event is
    differentiated by the implicit function theorem, and is the last of `t` if the event is terminal. Other times that
    the method chose are constants.

    Args:
        fun: takes the time, a state as a tensor, and `args`. If it is an `async def`, the result is to be awaited.
        t_span: the first and the last time.
        y0: the first state, a vector, real or complex.
        method: any of SciPy's.
        t_eval: the times to return states at.
        dense_output: as SciPy's: `sol` takes a time or a vector of times, which it is differentiable by, too.
        events: as SciPy's; where `fun` is an `async def`, they may be so, too.
        vectorized: as SciPy's: `fun` takes states as the columns of a matrix.
        args: a tuple of trees of anything. The tensors that gradients are to flow to are leaves of it.
        **options: `rtol`, `atol` and `max_step` also hold for the adjoint; others, as `jac`, do not.

    Raises:
        RequiresGradError: `fun` uses a tensor that requires grad and is not in `args`.
        ArgumentError: in the backward, an event's function does not change with the time.

    Source: scipy.integrate.solve_ivp.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> from asyncgrad.scipy import integrate
        >>> speed = ag.tensor(3.0, requires_grad=True)
        >>> ground = lambda t, y: y[0]
        >>> ground.terminal, ground.direction = True, -1
        >>> fall = lambda t, y: [y[1], -9.81]
        >>> found = integrate.solve_ivp(fall, (0, 9), np.stack([0 * speed, speed]), events=ground)
        >>> (gradient,) = ag.sync.grad(found.t[-1], [speed])
        >>> round(found.t[-1].item(), 4), round(gradient.item(), 4)
        (0.6116, 0.2039)
    """
    plain = {**options, "method": method, "dense_output": dense_output, "vectorized": vectorized}
    return _solve_ivp(fun, t_span, y0, t_eval, events, () if args is None else tuple(args), plain)


def _solve_ivp(
    fun: Any, t_span: Any, y0: Any, t_eval: Any, events: Any, args: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    name = "scipy.integrate.solve_ivp"
    is_async = check_user_function(fun, name, "fun")
    params = Parameters(args, fun)
    state, span = floating(y0), [floating(one) for one in t_span]
    times = None if t_eval is None else floating(t_eval)
    start, plain_times = array_of(state), None if times is None else array_of(times)
    is_vectorized = options["vectorized"]
    equation = _Equation(_velocity(fun, params, True, is_vectorized), _adjoint_method(options), is_async, name)
    evaluate = _evaluation(equation, params, True, fun if is_vectorized else None)

    def solve(ask: Any) -> Any:
        plain = dict(options)
        if callable(options.get("jac")):
            plain["jac"] = lambda t, y: ask(options["jac"], t, y)
        return integrate.solve_ivp(
            lambda t, y: ask(None, t, y),
            [float(one._data) for one in span],
            start,
            t_eval=plain_times,
            events=_plain_events(events, ask),
            **plain,
        )

    async def run() -> Any:
        result = await call_solver(solve, evaluate, is_async, name)
        solution = _Solution(equation, params, state, span)
        t = _chosen_times(span, result.t) if times is None else times[: len(result.t)]
        # SciPy returns lists where no times were asked for.
        y = solution.at(t, np.reshape(result.y, (start.size, t.size)).T if t.size == 0 else result.y.T)
        if result.t_events is not None:
            functions = [events] if callable(events) else list(events)
            last = None if times is not None or result.status != 1 else result.t[-1]
            t, y = solution.put_events(result, functions, t, y, last)
        result.t, result.y = t, y.T
        if result.sol is not None:
            result.sol = Interpolant(solution, result.sol)
        return result

    return drive(run(), is_async, name)


def _evaluation(equation: _Equation, params: Parameters, tfirst: bool, fun: Any = None) -> Callable[..., Any]:
    """Return the function that gives the solver a right-hand side, for None, or another function of the user.

    `fun` is that of a right-hand side that takes several states at once.
    """
    constants = [tensor.detach() for tensor in params.tensors]

    async def evaluate(function: Any, t: Any, y: Array) -> Any:
        # The solver writes into its array again.
        state = asarray(y.copy())
        if function is None and y.ndim == 1:
            found = await equation.velocity(t, state, *constants)
            return found if isinstance(found, np.ndarray) else found._data
        found = await call_user(
            fun if function is None else function, *((t, state) if tfirst else (state, t)), *params.fill(constants)
        )
        return array_of(found)

    return evaluate


def _chosen_times(span: Sequence[Tensor], chosen: Any) -> Tensor:
    """Return the times that a method chose between two that are given."""
    first, last = span
    if len(chosen) < 2 or chosen[-1] != last._data or not (first.requires_grad or last.requires_grad):
        return asarray(chosen)
    return np.concatenate([np.reshape(first, 1), chosen[1:-1], np.reshape(last, 1)])


def _plain_events(events: Any, ask: Any) -> Any:
    """Return functions of events that take and return arrays."""
    if events is None:
        return None

    def plain(event: Any) -> Any:
        def function(t: Any, y: Any) -> Any:
            return float(np.reshape(ask(event, t, y), ()))

        for attribute in ("terminal", "direction"):
            if hasattr(event, attribute):
                setattr(function, attribute, getattr(event, attribute))
        return function

    return plain(events) if callable(events) else [plain(event) for event in events]


def _adjoint_method(options: dict[str, Any]) -> Method:
    kept = {name: options[name] for name in ("method", "rtol", "atol", "max_step") if name in options}
    if np.ndim(kept.get("atol", 0.0)):
        kept["atol"] = float(np.min(kept["atol"]))

    def solve(function: Any, y0: Any, t0: Any, times: Any) -> Any:
        found = integrate.solve_ivp(function, (t0, times[-1]), y0, t_eval=times, **kept)
        if not found.success:
            raise ArithmeticError(f"scipy.integrate.solve_ivp: the adjoint equation was not solved: {found.message}")
        return found.y.T

    return solve


def _velocity(function: Callable[..., Any], params: Parameters, tfirst: bool, is_vectorized: bool = False) -> Velocity:
    """Return the function of the user as one of time, state and parameters."""

    async def velocity(t: Any, y: Any, *tensors: Tensor) -> Any:
        args = params.fill(tensors)
        state = np.reshape(y, (-1, 1)) if is_vectorized else y
        found = await call_user(function, *((t, state) if tfirst else (state, t)), *args)
        check_history(function, found, tensors)
        if isinstance(found, (list, tuple)):
            found = np.stack([np.reshape(asarray(one), ()) for one in found])
        return np.reshape(asarray(found), -1) if is_vectorized else asarray(found)

    return velocity


@final
class _Solution:
    """The solution of an equation as a function of the time, of the first state and of the parameters."""

    __slots__ = ("_equation", "_params", "_span", "_state")

    def __init__(self, equation: _Equation, params: Parameters, state: Tensor, span: Sequence[Tensor]) -> None:
        self._equation, self._params, self._state, self._span = equation, params, state, span

    def at(self, times: Any, states: Any) -> Tensor:
        """Return states that a method found at times, in order, with a history."""
        given = (self._state, self._span[0], times, *self._params.tensors)
        (result,) = record(self._equation, given, (states,), self._params.constants)
        return result

    def is_backward(self) -> bool:
        """Tell whether the last time is before the first."""
        return bool(self._span[1]._data < self._span[0]._data)

    def put_events(self, result: Any, events: Sequence[Any], t: Any, y: Any, last: float | None) -> tuple[Any, Any]:
        """Give a result's events a history; return its times and states, with those of a terminal event."""
        has_history = is_grad_enabled() and (t.requires_grad or y.requires_grad)
        if not has_history:
            result.t_events = [asarray(one) for one in result.t_events]
            result.y_events = [asarray(one) for one in result.y_events]
            return t, y
        for index, (event, times) in enumerate(zip(events, result.t_events, strict=True)):
            if not len(times):
                result.t_events[index] = asarray(times)
                result.y_events[index] = asarray(result.y_events[index])
                continue
            states = self.at(asarray(times), result.y_events[index])
            found = [self._event(event, time, state) for time, state in zip(times, states, strict=True)]
            result.t_events[index] = np.concatenate([time for time, _ in found])
            result.y_events[index] = np.concatenate([state for _, state in found])
            if times[-1] == last:
                time, state = found[-1]
                t, y = np.concatenate([t[:-1], time]), np.concatenate([y[:-1], state])
                last = None
        return t, y

    def _event(self, event: Any, time: float, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return the time of an event, of shape (1,), and the state there, of shape (1, states), with a history.

        Both depend on the state at a constant time, from which the equation is solved to the time of the event.
        """
        equation, params, start = self._equation, self._params, asarray(time)

        def at(time: Tensor, state: Tensor, tensors: Tensors) -> Tensor:
            (result,) = record(equation, (state, start, time, *tensors), (state._data[None],), params.constants)
            return result

        async def condition(time: Tensor, state: Tensor, *tensors: Tensor) -> Tensor:
            reached = at(time, state, tensors)[0]
            return np.reshape(floating(await call_user(event, time[0], reached, *params.fill(tensors))), 1)

        zero = Zero(condition, equation.is_async, f"{equation.name}: the time of an event")
        (found,) = record(zero, (state, *params.tensors), (np.array([time]),), params.constants)
        return found, at(found, state, params.tensors)


@final
class Interpolant:
    """The solution between the times of `solve_ivp`: SciPy's `OdeSolution`, with derivatives."""

    __slots__ = ("_plain", "_solution")

    def __init__(self, solution: _Solution, plain: Any) -> None:
        self._solution, self._plain = solution, plain

    def __call__(self, t: Any) -> Tensor:
        """Return the state at a time, or a matrix with the states at a vector of times as its columns."""
        times = floating(t)
        order = np.argsort(np.reshape(times._data, -1))
        if self._solution.is_backward():
            order = order[::-1]
        states = np.reshape(self._plain(times._data).T, (times.size, -1))
        found = self._solution.at(np.reshape(times, -1)[order], states[order])
        return np.reshape(found[np.argsort(order)].T, (-1, *times.shape))

    @property
    def t_min(self) -> float:
        """The first time, or the last, whichever is less."""
        return float(self._plain.t_min)

    @property
    def t_max(self) -> float:
        """The first time, or the last, whichever is greater."""
        return float(self._plain.t_max)

    @property
    def ts(self) -> Any:
        """The times of the steps."""
        return self._plain.ts


@final
class _Equation(Problem):
    """A differential equation, whose solution is differentiated by the adjoint equation."""

    __slots__ = ("is_async", "method", "name", "velocity")

    def __init__(self, velocity: Velocity, method: Method, is_async: bool, name: str) -> None:
        self.velocity: Velocity = velocity
        self.method: Method = method
        self.is_async: bool = is_async
        self.name: str = name

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
            has_length = float(start._data) != float(stop._data)
            # Where a higher derivative is to come, the way between two times that meet still depends on both.
            if not (has_length or (is_grad_enabled() and (start.requires_grad or stop.requires_grad))):
                continue
            state = np.concatenate([states[index], adjoint, sums])
            ended = await _integrate(augmented, self.method, state, start, np.reshape(stop, 1), tensors)
            adjoint, sums = ended[0, count : 2 * count], ended[0, 2 * count :]
        by_params = [
            fit_dtype(np.reshape(sums[first:last], tensor.shape), tensor)
            for tensor, (first, last) in zip(tensors, itertools.pairwise(starts), strict=True)
        ]
        by_t0, by_times = await self._by_times(params, states, grad, adjoint)
        return [fit_dtype(np.reshape(adjoint, y0.shape), y0), by_t0, by_times, *by_params]

    async def _by_times(
        self, params: Tensors, states: Tensor, grad: Tensor, adjoint: Tensor
    ) -> tuple[Tensor | None, Tensor | None]:
        y0, t0, times, *tensors = params
        by_t0 = by_times = None
        if times.requires_grad:
            found = [
                real_product(grad[index], await self.velocity(times[index], states[index], *tensors))
                for index in range(len(times))
            ]
            by_times = np.stack(found) if found else zeros_like_tensor(times)
        if t0.requires_grad:
            by_t0 = -real_product(adjoint, await self.velocity(t0, np.reshape(y0, -1), *tensors))
        return by_t0, by_times


def _indices_with_gradient(grad: Tensor) -> list[int]:
    """Return the times that the adjoint equation stops at, from the last."""
    if is_grad_enabled():
        return list(range(len(grad) - 1, -1, -1))
    return np.flatnonzero(grad._data.any(axis=1))[::-1].tolist()


def _augmented(equation: _Equation, count: int) -> Velocity:
    """Return the right-hand side for a state, its adjoint and the integrals of the parameters' gradients."""

    async def velocity(t: Any, state: Tensor, *tensors: Tensor) -> Any:
        create_graph = is_grad_enabled()
        with transform_scope(create_graph):
            points = tuple([new_input(one, create_graph, equation.name) for one in (state[:count], *tensors)])
            result = await equation.velocity(t, *points)
            found = await gradients((result,), points, (state[count : 2 * count],), create_graph=create_graph)
        parts = [zeros_like_tensor(point) if one is None else -one for one, point in zip(found, points, strict=True)]
        if create_graph:
            return np.concatenate([np.reshape(part, -1) for part in (result, *parts)])
        return np.concatenate([part._data.ravel() for part in (result, *parts)])

    return velocity


async def _integrate(
    equation: _Equation, method: Method, y0: Any, t0: Tensor, times: Any, tensors: Sequence[Tensor]
) -> Tensor:
    """Return the state at the one element of times, with a history."""
    constants = [tensor.detach() for tensor in tensors]

    async def evaluate(t: Any, y: Any) -> Any:
        # The solver writes into its array again.
        found = await equation.velocity(t, asarray(y.copy()), *constants)
        return found if isinstance(found, np.ndarray) else found._data

    def solve(function: Callable[..., Any]) -> Any:
        return method(function, array_of(y0), array_of(t0), array_of(times))

    if float(t0._data) == float(times._data[0]):
        states = array_of(y0)[None]
    else:
        states = await call_solver(solve, evaluate, equation.is_async, equation.name)
    (result,) = record(equation, (y0, t0, times, *tensors), (states,))
    return result
