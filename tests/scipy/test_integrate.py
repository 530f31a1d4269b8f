"""asyncgrad.scipy.integrate: SciPy's values, derivatives to second order, and right-hand sides that are awaited."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.integrate

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ArgumentError, ArgumentTypeError, BlockingError, RequiresGradError
from asyncgrad.scipy import integrate
from tests.core.ops.finite_differences import Case
from tests.scipy.functions import check, check_along_a_line, check_values, named_calls
from tests.support.loops import one_loop

_RNG = np.random.default_rng(8)
_X = np.array([0.0, 0.3, 0.9, 1.0, 1.7, 2.5])
_Y, _ROWS = _RNG.normal(size=6), _RNG.normal(size=(2, 5, 3))
_BOTH = (0, "x")

CASES: dict[str, list[Case]] = {
    "trapezoid": [Case((_Y,), {"x": _X}, _BOTH), Case((_ROWS,), {"dx": 0.5, "axis": 1}, (0,))],
    "cumulative_trapezoid": [Case((_Y,), {"x": _X, "initial": 0}, _BOTH), Case((_ROWS,), {"axis": 1}, (0,))],
    "simpson": [
        Case((_Y,), {"x": _X}, _BOTH),
        Case((_Y[:5],), {"x": _X[:5]}, _BOTH),
        Case((_Y[:2],), {"x": _X[:2]}, _BOTH),
        Case((_ROWS,), {"dx": 0.5, "axis": 1}, (0,)),
    ],
    "cumulative_simpson": [
        Case((_Y,), {"x": _X}, _BOTH),
        Case((_ROWS,), {"axis": 1, "initial": 2.0}, (0,)),
        Case((_Y[:2],), {}, (0,)),
    ],
    "romb": [Case((_ROWS,), {"dx": 0.25, "axis": 1}, (0,))],
}
CALLS = named_calls(integrate, scipy.integrate, CASES)


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_samples_have_scipys_values_and_derivatives_by_differences(name: str) -> None:
    ours, theirs, case = CALLS[name]

    check_values(ours, theirs, case)
    check(ours, case)


def leaf(value: Any) -> Any:
    return ag.tensor(value, requires_grad=True)


def prey(t: Any, y: Any, growth: Any, rates: Any) -> Any:
    """A system whose right-hand side depends on the time."""
    return np.stack([growth * y[0] - y[0] * y[1], -rates["death"] * y[1] + np.sin(t) * y[0] * y[1]])


START, TIMES = np.array([1.0, 0.5]), np.array([0.2, 0.7, 1.5])
#: Tolerances of solvers, and differences with a step that is large beside them.
EXACT, COARSE = {"rtol": 1e-9, "atol": 1e-9}, {"step": 1e-3, "rtol": 1e-3}


def solve_odeint(y0: Any, t: Any, growth: Any, death: Any) -> Any:
    args = (growth, {"death": death})
    return integrate.odeint(prey, y0, t, args, tfirst=True, **EXACT)


def solve_ivp(y0: Any, t: Any, growth: Any, death: Any, method: str = "DOP853") -> Any:
    args = (growth, {"death": death})
    return integrate.solve_ivp(prey, (t[0], t[-1]), y0, method, t, args=args, **EXACT).y


@pytest.mark.slow
@pytest.mark.parametrize("solve", [solve_odeint, solve_ivp])
def test_solutions_have_derivatives_to_second_order(solve: Any) -> None:
    check_along_a_line(solve, (START, TIMES, 0.7, 0.3), **COARSE)


def test_solutions_are_scipys() -> None:
    expected = scipy.integrate.odeint(lambda y, t: [y[1], -y[0]], START, TIMES, rtol=1e-9)
    found, info = integrate.odeint(lambda y, t: [y[1], -y[0]], START, TIMES, rtol=1e-9, full_output=True)
    np.testing.assert_array_equal(found.numpy(), expected)
    assert info["message"] == "Integration successful."

    for method in ("RK23", "Radau", "BDF", "LSODA"):
        theirs = scipy.integrate.solve_ivp(lambda t, y: np.array([y[1], -y[0]]), (0, 2), START, method)
        ours = integrate.solve_ivp(lambda t, y: np.stack([y[1], -y[0]]), (0, 2), START, method)
        np.testing.assert_array_equal(ours.y.numpy(), theirs.y)
        np.testing.assert_array_equal(ours.t.numpy(), theirs.t)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("trapezoid", {}),
        ("trapezoid", {"dx": 2.0}),
        ("cumulative_trapezoid", {}),
        ("cumulative_trapezoid", {"dx": 2.0, "initial": 0}),
        ("cumulative_trapezoid", {"dx": np.float64(2.0)}),
        ("cumulative_trapezoid", {"x": np.arange(4.0)}),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64])
def test_the_trapezoidal_rule_has_the_dtype_that_scipys_has(name: str, dtype: Any, options: Any) -> None:
    y = np.array([1, 3, 2, 5], dtype)
    expected = getattr(scipy.integrate, name)(y, **options)
    result = getattr(integrate, name)(ag.tensor(y), **options)

    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result.numpy(), expected)


def test_no_times_give_no_states() -> None:
    found = integrate.solve_ivp(lambda t, y, k: -k * y, (0, 1), [1.0, 2.0], t_eval=[], args=(leaf(2.0),))

    assert (found.t.shape, found.y.shape) == ((0,), (2, 0))


@pytest.mark.parametrize("method", ["RK23", "Radau", "BDF", "LSODA"])
def test_each_method_has_an_adjoint(method: str) -> None:
    rate, span = leaf(0.5), leaf(2.0)

    found = integrate.solve_ivp(lambda t, y, k: -k * y, (0, span), [2.0], method, args=(rate,), rtol=1e-7, atol=1e-9)

    gradients = sync.grad(found.y[0, -1], [rate, span])
    exact = 2 * np.exp(-1.0)
    np.testing.assert_allclose([one.item() for one in gradients], [-2 * exact, -0.5 * exact], rtol=1e-4)


def test_complex_states_have_an_adjoint() -> None:
    def last(y0: Any, rate: Any) -> Any:
        return integrate.solve_ivp(lambda t, y, k: k * y, (0, 1), y0, args=(rate,), rtol=1e-10, atol=1e-10).y[:, -1]

    assert sync.gradcheck(last, (leaf(np.array([1 + 2j])), leaf(np.array(0.3 - 0.5j))))


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["odeint", "solve_ivp"])
def test_memory_does_not_grow_with_the_steps(solver: str) -> None:
    # In a process of its own: the threads of others, as of a Dask cluster of earlier tests, take memory meanwhile.
    command = [sys.executable, "-m", "tests.scipy.memory_of_steps", solver]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    few, many = json.loads(ran.stdout)

    assert many["calls"] > 4 * few["calls"]
    assert many["kept"] < few["kept"] + 4096
    assert many["peak"] < few["peak"] + 16_384


def test_an_awaited_right_hand_side_leaves_the_loop_free() -> None:
    calls = 0

    async def velocity(t: Any, y: Any, growth: Any, rates: Any) -> Any:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0)
        return prey(t, y, growth, rates)

    async def main() -> None:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counter = asyncio.create_task(count())
        inputs = (leaf(START), leaf(TIMES), leaf(0.7), leaf(0.3))
        y0, t, growth, death = inputs
        args = (growth, {"death": death})
        found = await integrate.odeint(velocity, y0, t, args, tfirst=True, **EXACT)
        forward = calls
        gradients = await ag.grad(found.sum(), inputs, create_graph=True)
        assert calls > forward > 20
        # The other task has had a turn during each call.
        assert turns >= calls
        second = await ag.grad(gradients[2], inputs)
        counter.cancel()

        plain = sync.grad(solve_odeint(*inputs).sum(), inputs, create_graph=True)
        for one, other in zip(gradients, plain, strict=True):
            np.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), rtol=1e-12)
        for one, other in zip(second, sync.grad(plain[2], inputs), strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12)

    ag.run(main())


@one_loop
async def test_an_error_or_a_cancellation_ends_the_solver() -> None:
    async def fails(x: Any) -> Any:
        raise KeyError("mine")

    async def waits(x: Any) -> Any:
        await asyncio.Event().wait()

    def solvers() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "asyncgrad solver"]

    with pytest.raises(KeyError, match="mine"):
        await integrate.quad(fails, 0, 1)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(integrate.quad(waits, 0, 1), 0.01)
    for thread in solvers():
        thread.join(5)
    assert not solvers()


def test_integrals_have_derivatives_by_limits_and_arguments() -> None:
    def integral(a: Any, b: Any, rates: Any) -> Any:
        return integrate.quad(lambda x, rates: np.sin(rates[0] * x) * np.exp(-rates[1] * x), a, b, (rates,))[0]

    check_along_a_line(integral, (0.1, 0.9, np.array([1.3, 0.4])))


def test_integrals_have_derivatives_over_infinite_ranges() -> None:
    rate = leaf(2.0)

    value, error = integrate.quad(lambda x, k: np.exp(-k * x), 0, np.inf, rate)

    (gradient,) = sync.grad(value, [rate], create_graph=True)
    (second,) = sync.grad(gradient, [rate])
    np.testing.assert_allclose([value.item(), gradient.item(), second.item()], [0.5, -0.25, 0.25], rtol=1e-8)
    assert error < 1e-8


WEIGHTED = {
    "cos": ({"weight": "cos", "wvar": 3.0}, 0.1, 0.9),
    "sin": ({"weight": "sin", "wvar": 3.0}, 0.1, 0.9),
    "cauchy": ({"weight": "cauchy", "wvar": 0.5}, 0.1, 0.9),
    "points": ({"points": [0.3, 0.5]}, 0.1, 0.9),
}


@pytest.mark.parametrize("name", WEIGHTED)
def test_weighted_integrals_are_scipys_with_derivatives_to_second_order(name: str) -> None:
    options, a, b = WEIGHTED[name]

    def integrand(x: Any, rates: Any) -> Any:
        return np.exp(-rates[0] * x) + rates[1] * rates[0] * np.sin(x)

    def integral(a: Any, b: Any, rates: Any) -> Any:
        return integrate.quad(integrand, a, b, (rates,), **options)[0]

    found = integrate.quad(integrand, a, b, (np.array([1.3, 0.4]),), **options)
    expected = scipy.integrate.quad(integrand, a, b, (np.array([1.3, 0.4]),), **options)
    np.testing.assert_allclose(np.array([found[0].item(), found[1]]), expected, rtol=1e-14)
    check_along_a_line(integral, (a, b, np.array([1.3, 0.4])))


@pytest.mark.parametrize("options", [{"weight": "alg-log", "wvar": (0.5, -0.3)}, {"weight": "sin", "wvar": 2.0}])
def test_weights_that_are_singular_or_reach_to_infinity_have_derivatives(options: Any) -> None:
    last = np.inf if options["weight"] == "sin" else 1.0

    def integral(rate: Any) -> Any:
        return integrate.quad(lambda x, k: np.exp(-k * x), 0.0, last, (rate,), **options)[0]

    assert sync.gradcheck(integral, (leaf(1.3),), rtol=1e-4)


def test_complex_integrals_have_derivatives() -> None:
    def integral(b: Any, z: Any, rate: Any) -> Any:
        return integrate.quad(lambda x, z, k: np.exp((1j * k - z) * x), 0.2, b, (z, rate), complex_func=True)[0]

    points = (0.9, 0.3 - 0.5j, 1.3)
    expected = scipy.integrate.quad(lambda x: np.exp((1.3j - 0.3 + 0.5j) * x), 0.2, 0.9, complex_func=True)[0]
    np.testing.assert_allclose(integral(*points).item(), expected, rtol=1e-14)
    check_along_a_line(integral, points)


def test_integrals_of_arrays_have_derivatives() -> None:
    def integral(a: Any, b: Any, rates: Any) -> Any:
        found = integrate.quad_vec(lambda x, k: np.exp(-k * x) * np.ones((2, 1)) + x, a, b, points=[0.4], args=(rates,))
        return found[0]

    points = (0.1, 0.9, np.array([1.3, 0.4, 2.0]))
    assert integral(*points).shape == (2, 3)
    check_along_a_line(integral, points)


def test_nested_integrals_are_scipys_with_derivatives() -> None:
    def double(a: Any, b: Any, top: Any, k: Any) -> Any:
        limits = (a, b, lambda x: x / 2, top)
        return integrate.dblquad(lambda y, x, k: np.exp(-k * x) * y * y * k, *limits, (k,))[0]

    def several(a: Any, k: Any) -> Any:
        ranges = [lambda y, k: (0, y * k), (0, a)]
        return integrate.nquad(lambda x, y, k: np.cos(k * x * y), ranges, (k,), {"epsabs": 1e-10})[0]

    found = integrate.nquad(lambda x, y: x * y, [(0, 1), (0, 2)], full_output=True)
    theirs = scipy.integrate.nquad(lambda x, y: x * y, [(0, 1), (0, 2)], full_output=True)
    assert (found[0].item(), *found[1:]) == theirs
    check_along_a_line(double, (0.1, 0.9, 1.1, 0.7), order=1)
    check_along_a_line(several, (0.8, 1.3), order=1)


@pytest.mark.slow
def test_integrals_over_three_variables_have_derivatives() -> None:
    factor = leaf(1.3)
    # Of an infinite range, the first rule takes the fewest points.
    limits = (0, np.inf, lambda x: x / 2, np.inf, lambda x, y: x + y, np.inf)
    options = {"epsabs": 1.0, "epsrel": 1.0}

    value, _ = integrate.tplquad(lambda z, y, x, k: k * np.exp(-z), *limits, (factor,), **options)

    expected, _ = scipy.integrate.tplquad(lambda z, y, x: np.exp(-z), *limits, **options)
    (gradient,) = sync.grad(value, [factor])
    np.testing.assert_allclose([value.item(), gradient.item()], [1.3 * expected, expected], rtol=1e-12)


@pytest.mark.slow
def test_nested_integrals_over_infinite_ranges_have_derivatives() -> None:
    rate = leaf(2.0)
    ranges = [(-np.inf, np.inf), (np.inf, rate / 2)]

    value, _ = integrate.nquad(lambda x, y, k: np.exp(-k * (x * x + y)), ranges, (rate,), {"epsabs": 1e-3})

    exact = -np.sqrt(np.pi) * 2**-1.5 * np.exp(-2.0)
    (gradient,) = sync.grad(value, [rate])
    np.testing.assert_allclose([value.item(), gradient.item()], [exact, exact * (-1.5 / 2 - 2.0)], rtol=1e-3)


@one_loop
async def test_an_awaited_integrand_of_two_variables_is_integrated() -> None:
    async def integrand(y: Any, x: Any, k: Any) -> Any:
        await asyncio.sleep(0)
        return k * x * y

    async def main() -> tuple[Any, Any]:
        k = leaf(3.0)
        value, _ = await integrate.dblquad(integrand, 0, 2, 0, 1, (k,))
        return value, (await ag.grad(value, [k]))[0]

    value, gradient = await main()
    np.testing.assert_allclose([value.item(), gradient.item()], [3.0, 1.0], rtol=1e-9)


def test_gauss_rules_have_derivatives() -> None:
    def integral(a: Any, b: Any, rate: Any) -> Any:
        return integrate.fixed_quad(lambda x, k: np.exp(k * x), a, b, (rate,), n=6)[0]

    inputs = (leaf(0.1), leaf(0.9), leaf(1.3))
    expected, _ = scipy.integrate.fixed_quad(lambda x: np.exp(1.3 * x), 0.1, 0.9, n=6)
    np.testing.assert_allclose(integral(*inputs).item(), expected, rtol=1e-14)
    assert sync.gradcheck(integral, inputs)
    assert sync.gradgradcheck(integral, inputs)


def test_errors_say_what_to_write_instead() -> None:
    rate = leaf(0.5)
    with pytest.raises(RequiresGradError, match="make it a leaf of args"):
        integrate.odeint(lambda y, t: rate * y, START, TIMES)
    with pytest.raises(ArgumentTypeError, match="func must be a function, not float"):
        integrate.quad(1.0, 0, 1)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="no derivative by wvar: detach it, or multiply func"):
        integrate.quad(np.sin, 0, 1, weight="cos", wvar=rate)
    with pytest.raises(ArgumentError, match="no derivative by the limits with weight='alg'"):
        integrate.quad(np.sin, 0, rate, weight="alg", wvar=(0, 0))
    with pytest.raises(ArgumentError, match="weight must be one of cos, sin, cauchy, alg"):
        integrate.quad(np.sin, 0, 1, weight="exp", wvar=1)
    with pytest.raises(ArgumentError, match="use quad_vec"):
        integrate.quad(lambda x: x * np.ones(2), 0, 1)
    with pytest.raises(ArgumentError, match="workers must be 1, not 2"):
        integrate.quad_vec(np.sin, 0, 1, workers=2)
    with pytest.raises(ArgumentError, match="1 more than a power of 2, not 4"):
        integrate.romb(np.ones(4))
    with pytest.raises(ArgumentError, match="at least one sample"):
        integrate.cumulative_simpson(np.ones(0))
    with pytest.raises(ArgumentError, match="must have as many elements along axis -1"):
        integrate.simpson(np.ones(4), np.ones(3))

    def suspends(y: Any, t: Any) -> Any:
        return asyncio.sleep(0)

    with pytest.raises(BlockingError, match="write it as an async def"):
        integrate.odeint(suspends, START, TIMES)


START_OF_FALL = np.array([0.2, 5.0])


def landing(start: Any, args: Any, **options: Any) -> Any:
    """Solve the fall of a ball through air until it lands; it passes a height on its way up and down."""

    def fall(t: Any, y: Any, drag: Any, height: Any) -> Any:
        return np.stack([y[1], -9.81 - drag * y[1] * np.sqrt(1 + y[1] ** 2)])

    def ground(t: Any, y: Any, drag: Any, height: Any) -> Any:
        return y[0]

    def passes(t: Any, y: Any, drag: Any, height: Any) -> Any:
        return y[0] - height * (1 + 0.1 * t)

    ground.terminal, ground.direction = True, -1  # type: ignore[attr-defined]
    options = {**EXACT, "method": "DOP853", "events": [passes, ground], **options}
    return integrate.solve_ivp(fall, (0, 9), start, args=args, **options)


@pytest.mark.slow
def test_events_are_scipys_with_derivatives_to_second_order() -> None:
    def events(start: Any, drag: Any, height: Any) -> Any:
        found = landing(start, (drag, height))
        return (found.t[-1], found.y[:, -1], *found.t_events, *found.y_events)

    inputs = (leaf(START_OF_FALL), leaf(0.1), leaf(0.7))
    found = landing(inputs[0].detach(), (0.1, 0.7))
    assert found.status == 1
    assert [one.shape for one in found.t_events] == [(2,), (1,)]
    np.testing.assert_array_equal(found.t[-1].numpy(), found.t_events[1][0].numpy())
    for one, other in zip(events(*inputs), events(inputs[0].detach(), 0.1, 0.7), strict=True):
        np.testing.assert_array_equal(one.detach().numpy(), other.numpy())
    check_along_a_line(events, (START_OF_FALL, 0.1, 0.7), **COARSE, order=1)
    check_along_a_line(lambda *given: events(*given)[2], (START_OF_FALL, 0.1, 0.7), **COARSE)


def test_a_terminal_event_cuts_the_times_that_were_asked_for() -> None:
    drag = leaf(0.1)

    found = landing([0.2, 5.0], (drag, 9.0), t_eval=[0.0, 0.1, 5.0])

    assert found.t.tolist() == [0.0, 0.1]
    assert found.t_events[0].shape == (0,)
    assert sync.grad(found.y[0, -1], [drag])[0].item() < 0
    assert sync.grad(found.t_events[1][0], [drag])[0].item() < 0


def test_the_time_of_an_event_that_does_not_change_has_no_derivative() -> None:
    speed = leaf(1.0)
    found = integrate.solve_ivp(
        lambda t, y: 0 * y, (0, 1), np.stack([speed]), events=lambda t, y: y[0] - 1.0, dense_output=True
    )

    with pytest.raises(ArgumentError, match="the time of an event"):
        sync.grad(found.t_events[0][0], [speed])


@one_loop
async def test_an_awaited_event_is_that_of_plain_functions() -> None:
    async def shrink(t: Any, y: Any, rate: Any) -> Any:
        await asyncio.sleep(0)
        return -rate * y

    async def half(t: Any, y: Any, rate: Any) -> Any:
        await asyncio.sleep(0)
        return y[0] - 0.5

    async def main() -> tuple[Any, Any]:
        rate = leaf(0.7)
        found = await integrate.solve_ivp(shrink, (0, 2), [1.0], events=half, args=(rate,), rtol=1e-9, atol=1e-9)
        (gradient,) = await ag.grad(found.t_events[0][0], [rate])
        return found.t_events[0][0], gradient

    time, gradient = await main()
    np.testing.assert_allclose([time.item(), gradient.item()], [np.log(2) / 0.7, -np.log(2) / 0.49], rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("ends", [(0.0, 1.5), (1.5, 0.0)])
def test_dense_output_has_derivatives_to_second_order(ends: Any) -> None:
    def between(y0: Any, t: Any, growth: Any, death: Any) -> Any:
        args = (growth, {"death": death})
        sol = integrate.solve_ivp(prey, ends, y0, "DOP853", dense_output=True, args=args, **EXACT).sol
        return sol(t), sol(t[0])

    plain = scipy.integrate.solve_ivp(lambda t, y: -y * t, ends, START, dense_output=True).sol
    ours = integrate.solve_ivp(lambda t, y: -y * t, ends, START, dense_output=True).sol
    for times in (0.3, [0.9, 0.2]):
        np.testing.assert_array_equal(ours(times).numpy(), plain(times))
    np.testing.assert_array_equal(ours.ts, plain.ts)
    assert (ours.t_min, ours.t_max) == (0.0, 1.5)
    check_along_a_line(between, (START, np.array([0.9, 0.2, 1.1]), 0.7, 0.3), **COARSE)


@pytest.mark.parametrize("method", ["RK45", "Radau"])
def test_a_right_hand_side_of_columns_is_that_of_states(method: str) -> None:
    rate, shapes = leaf(0.5), set()

    def columns(t: Any, y: Any, rate: Any) -> Any:
        shapes.add(y.ndim)
        return -rate * y * np.array([[1.0], [2.0]])

    def states(t: Any, y: Any, rate: Any) -> Any:
        return -rate * y * np.array([1.0, 2.0])

    found = [
        integrate.solve_ivp(function, (0, 2), START, method, vectorized=function is columns, args=(rate,), rtol=1e-8)
        for function in (columns, states)
    ]

    assert shapes == {2}
    ours, theirs = [(one.y, sync.grad(one.y[:, -1].sum(), [rate])[0]) for one in found]
    np.testing.assert_allclose(ours[0].detach().numpy(), theirs[0].detach().numpy(), rtol=1e-6)
    np.testing.assert_allclose(ours[1].numpy(), theirs[1].numpy(), rtol=1e-5)


def test_a_jacobian_of_the_user_is_used_forward() -> None:
    rate, calls = leaf(50.0), []

    def jacobian(t: Any, y: Any, rate: Any) -> Any:
        calls.append(y.shape)
        return [[-rate]]

    ivp = integrate.solve_ivp(lambda t, y, k: -k * y, (0, 1), [1.0], "BDF", jac=jacobian, args=(rate,)).y[0, -1]
    assert calls
    calls.clear()
    old = integrate.odeint(lambda t, y, k: -k * y, [1.0], [0.0, 1.0], (rate,), Dfun=jacobian, tfirst=True)[-1, 0]
    assert calls
    np.testing.assert_allclose([ivp.item(), old.item()], 0, atol=1e-3)


@pytest.mark.parametrize("shape", [(5,), (4,), (2, 4)])
@pytest.mark.parametrize("name", ["simpson", "trapezoid"])
def test_integrals_of_narrow_samples_have_the_dtypes_of_scipy(name: str, shape: tuple[int, ...]) -> None:
    samples = np.ones(shape, np.float32)
    for options in ({"dx": 2}, {"x": np.arange(shape[-1])}):
        found, expected = (getattr(one, name)(samples, **options) for one in (integrate, scipy.integrate))
        assert found.dtype == expected.dtype


def test_samples_and_their_places_are_checked() -> None:
    with pytest.raises(ArgumentError, match="at least one sample"):
        integrate.simpson([])
    with pytest.raises(ArgumentError, match="increases along the axis"):
        integrate.cumulative_simpson(np.ones(4), x=[0.0, 1.0, 1.0, 2.0])


@pytest.mark.parametrize("x", [[4, 3, 4], [1, 1, 2], [2, 1, 1], [0, 1, 2, 2], [0, 2, 2, 5], [0, 1, 3, 1], [0, 2, 2, 2]])
def test_simpson_has_the_value_of_scipy_where_places_coincide(x: list[int]) -> None:
    samples = np.array([2.0, 0.0, 1.0, 5.0])[: len(x)]

    expected = scipy.integrate.simpson(samples, x=x)

    assert integrate.simpson(samples, x=x).item() == pytest.approx(expected, abs=1e-14)
    assert sync.gradcheck(lambda y: integrate.simpson(y, x=x), (leaf(samples),))
