"""asyncgrad.func.fixed_point: values and derivatives by the implicit function theorem."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import func as async_func
from asyncgrad.errors import (
    ArgumentError,
    ArgumentTypeError,
    BlockingError,
    ConvergenceError,
    RequiresGradError,
)
from asyncgrad.sync import func
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop

A = np.array([0.3, 0.7, 1.1])
WEIGHTS = np.array([[0.2, -0.3, 0.1], [0.4, 0.1, -0.2], [0.0, 0.3, 0.2]])


def newton(a: Any, x: Any) -> Any:
    return 0.5 * (x + a / x)


def descent(a: Any) -> Any:
    return lambda x: x - 0.05 * (x**2 - a)


def square_root(a: Any) -> Any:
    return func.fixed_point(descent, a, 1.0)


def layer(params: Any, x: Any) -> Any:
    return np.tanh(params["w"] @ x + params["b"])


def output(params: Any) -> Any:
    return (func.fixed_point(layer, params, np.zeros(3)) ** 2).sum()


def wide(a: Any, x: Any) -> Any:
    """A map of more elements than are solved with a matrix."""
    return 0.4 * np.sin(x + np.roll(x, 1)) + a


def differences(fn: Any, point: Any) -> Any:
    step = 1e-6
    return np.array([(fn(point + step * one) - fn(point - step * one)) / (2 * step) for one in np.eye(len(point))])


@pytest.mark.parametrize("f", [newton, descent, lambda a: lambda x: newton(a, x)], ids=["two", "curried", "lambda"])
def test_derivatives_of_the_square_root_are_right_to_third_order(f):
    fn: Any = lambda a: func.fixed_point(f, a, 1.5)

    for expected in (2.0**0.5, 0.5 * 2.0**-0.5, -0.25 * 2.0**-1.5, 0.375 * 2.0**-2.5):
        assert fn(2.0) == pytest.approx(expected, rel=1e-7)
        fn = func.grad(fn)


def test_first_and_second_derivatives_of_a_tree_agree_with_finite_differences():
    bias = func.grad(lambda b: output({"w": WEIGHTS, "b": b}))

    np.testing.assert_allclose(bias(A), differences(lambda b: output({"w": WEIGHTS, "b": b}), A), atol=1e-8)
    np.testing.assert_allclose(func.jacrev(bias)(A), differences(bias, A), atol=1e-7)
    np.testing.assert_allclose(func.jacfwd(bias)(A), func.jacrev(bias)(A), atol=1e-9)
    weights = func.grad(lambda w: output({"w": w, "b": A}))(WEIGHTS)
    row = differences(lambda row: output({"w": np.vstack([row, WEIGHTS[1:]]), "b": A}), WEIGHTS[0])
    np.testing.assert_allclose(weights[0], row, atol=1e-8)


def test_derivatives_of_many_elements_agree_with_finite_differences():
    a = np.linspace(-1, 1, 40)
    fn = lambda a: (func.fixed_point(wide, a, np.zeros(40)) ** 3).sum()
    gradient = func.grad(fn)(a)

    np.testing.assert_allclose(gradient, differences(fn, a), atol=1e-7)
    direction = np.cos(a)
    product = func.hvp(fn, (a,), (direction,))
    step = 1e-6 * direction
    np.testing.assert_allclose(product, (func.grad(fn)(a + step) - func.grad(fn)(a - step)) / 2e-6, atol=1e-7)


def test_x_may_be_a_tree_with_several_leaves():
    def swap(a: Any, x: Any) -> Any:
        return {"u": 0.5 * np.cos(x["v"][0].sum()) * a, "v": [0.5 * np.sin(x["u"]) + a * np.ones(2)]}

    fn = lambda a: func.fixed_point(swap, a, {"u": 0.0, "v": [np.zeros(2)]})
    found = fn(0.3)
    slope = func.jacrev(fn)(0.3)

    np.testing.assert_allclose(found["u"], 0.5 * np.cos(found["v"][0].sum()) * 0.3, rtol=1e-9)
    np.testing.assert_allclose(slope["u"], (fn(0.3 + 1e-6)["u"] - fn(0.3 - 1e-6)["u"]) / 2e-6, atol=1e-8)
    np.testing.assert_allclose(slope["v"][0], (fn(0.3 + 1e-6)["v"][0] - fn(0.3 - 1e-6)["v"][0]) / 2e-6, atol=1e-8)


def test_a_complex_fixed_point_has_the_derivative_of_the_function_it_solves():
    fn = lambda a: np.abs(func.fixed_point(lambda a, z: 0.5 * (z + a / z), a, 1 + 1j)) ** 2

    np.testing.assert_allclose(
        func.grad(fn)(np.array(1 + 2j)), func.grad(lambda a: np.abs(a))(np.array(1 + 2j)), rtol=1e-8
    )


def test_a_tiny_gradient_is_as_accurate_as_a_large_one():
    small = func.grad(lambda a: square_root(a) * 1e-15)(2.0)

    assert small == pytest.approx(0.5 * 2.0**-0.5 * 1e-15, rel=1e-7)


def test_results_have_the_types_of_the_start_and_no_grad_changes():
    a = leaf(2.0, 3.0)
    found = func.fixed_point(newton, a, np.ones(2))
    ag.sync.backward(found.sum(), inputs=[a], retain_graph=True)
    gradient = a.grad
    (again,) = ag.sync.grad(found.sum(), [a])

    assert found.requires_grad
    assert isinstance(func.fixed_point(newton, 2.0, 1), np.float64)
    assert isinstance(func.fixed_point(newton, A, np.ones(3)), np.ndarray)
    assert isinstance(func.fixed_point(newton, 2.0, ag.tensor(1.0)), ag.Tensor)
    np.testing.assert_allclose(gradient, 0.5 / np.sqrt([2.0, 3.0]), rtol=1e-9)
    np.testing.assert_array_equal(again, gradient)
    assert func.fixed_point(newton, np.float32(2), np.ones((), np.float32)).dtype == np.float32


def test_the_gradient_with_respect_to_the_start_is_zero():
    assert func.grad(lambda x0: func.fixed_point(newton, ag.tensor(2.0, requires_grad=True), x0))(1.0) == 0.0


def test_the_distance_and_the_tolerance_decide_when_the_iteration_ends():
    seen: list[float] = []

    def distance(x: Any, previous: Any) -> Any:
        seen.append(float(np.abs(x - previous)))
        return seen[-1]

    rough = func.fixed_point(descent, 2.0, 10.0, distance, 1e-2)

    assert seen[-1] <= 1e-2 < seen[-2]
    assert 1e-3 < abs(rough - 2**0.5) < 0.1
    assert abs(func.fixed_point(descent, 2.0, 10.0, tol=1e-12) - 2**0.5) < 1e-11


async def test_an_async_function_is_awaited_in_forward_and_backward():
    async def step(a: Any, x: Any) -> Any:
        await asyncio.sleep(0)
        return newton(a, x)

    async def curried(a: Any) -> Any:
        return lambda x: step(a, x)

    async def main(f: Any) -> Any:
        async def fn(a: Any) -> Any:
            return await async_func.fixed_point(f, a, 1.0)

        return await async_func.grad(fn)(2.0), await async_func.grad(async_func.grad(fn))(2.0)

    for f in (step, curried, lambda a: lambda x: step(a, x)):
        first, second = await main(f)
        assert (first, second) == (pytest.approx(0.5 * 2.0**-0.5), pytest.approx(-0.25 * 2.0**-1.5))


@on_each_loop
def test_the_blocking_form_takes_async_functions_where_no_loop_runs(run):
    async def step(a: Any, x: Any) -> Any:
        await asyncio.sleep(0)
        return newton(a, x)

    for f in (step, lambda a: lambda x: step(a, x)):
        assert func.grad(lambda a, f=f: func.fixed_point(f, a, 1.0))(2.0) == pytest.approx(0.5 * 2.0**-0.5)

    async def main() -> None:
        with pytest.raises(BlockingError):
            func.fixed_point(step, 2.0, 1.0)

    run(main())


async def test_the_blocking_form_works_inside_of_a_running_loop():
    assert (func.grad(square_root)(2.0), await async_func.grad(square_root)(2.0)) == (
        pytest.approx(0.5 * 2.0**-0.5),
    ) * 2


async def test_the_loop_goes_on_and_a_cancellation_ends_the_iteration():
    turns = 0
    with ag.loop_budget(0):
        endless = asyncio.ensure_future(
            async_func.fixed_point(lambda a, x: x + a, 1.0, 0.0, lambda x, y: 1, 0.5, 10**9)
        )
    for _ in range(5):
        await asyncio.sleep(0)
        turns += 1
    endless.cancel()
    with pytest.raises(asyncio.CancelledError):
        await endless

    assert turns == 5


@pytest.mark.parametrize("size", [3, 40])
def test_a_fixed_point_and_its_gradient_stay_on_their_device(size):
    a = ag.tensor(np.linspace(1, 2, size), device="thread:0", requires_grad=True)
    found = func.fixed_point(newton, a, ag.tensor(np.ones(size), device="thread:0"))
    (gradient,) = ag.sync.grad(found.sum(), [a])

    assert (str(found.device), str(gradient.device)) == ("thread:0", "thread:0")
    np.testing.assert_allclose(gradient.numpy(), 0.5 / np.sqrt(a.numpy()), rtol=1e-9)


def test_a_function_may_return_the_entries_of_a_dict_in_another_order():
    def step(a, x):
        return {"half": x["half"] * 0.5 + a, "root": 0.5 * (x["root"] + a / x["root"])}

    solved = func.fixed_point(step, 2.0, {"root": 1.0, "half": 0.0})

    assert list(solved) == ["root", "half"]
    assert (solved["root"], solved["half"]) == pytest.approx((np.sqrt(2.0), 4.0))


def test_fixed_points_nest_in_each_other():
    def inner(b: Any) -> Any:
        return func.fixed_point(newton, b, 1.0)

    def outer(a: Any) -> Any:
        return func.fixed_point(lambda a, x: 0.5 * inner(a + x * x), a, 1.0)

    # x = sqrt(a + x * x) / 2, so that 3 x * x = a.
    assert outer(2.0) == pytest.approx((2 / 3) ** 0.5)
    assert func.grad(outer)(2.0) == pytest.approx((1 / 24) ** 0.5)
    assert func.grad(func.grad(outer))(2.0) == pytest.approx(-0.25 * (1 / 24) ** 0.5)


def test_transforms_inside_of_the_function_are_differentiated():
    def descend(a: Any, x: Any) -> Any:
        return x - 0.2 * func.grad(lambda x: ((x - a) ** 2).sum() + 0.25 * (x**4).sum())(x)

    def minimum(a: Any) -> Any:
        return func.fixed_point(descend, a, np.zeros(3)).sum()

    np.testing.assert_allclose(func.grad(minimum)(A), differences(minimum, A), atol=1e-8)


# Bad use.


def test_no_convergence_is_told_with_the_residual():
    with pytest.raises(
        ConvergenceError, match=r"x = f\(a, x\) has not converged: .* is still 1 after 7 iterations, .*max_iter"
    ):
        func.fixed_point(lambda a, x: 1 - x, None, 0.0, max_iter=7)
    with pytest.raises(ConvergenceError, match="became NaN"):
        func.fixed_point(lambda a, x: x * np.nan, None, 1.0)
    with pytest.raises(ConvergenceError, match="for the derivative has not converged"):
        func.grad(lambda a: func.fixed_point(lambda a, x: x + 0 * a, a, 1.0))(2.0)


def test_bad_use_is_told():
    w = leaf(1.0)
    with pytest.raises(ArgumentTypeError, match=r"ag\.func\.fixed_point takes a function as its first argument"):
        func.fixed_point(2.0, 1.0, 1.0)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="it must return a function of x, not float"):
        func.fixed_point(lambda a: a, 1.0, 1.0)
    with pytest.raises(ArgumentTypeError, match="distance must be a function"):
        func.fixed_point(newton, 1.0, 1.0, 1e-4)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="distance must return a number"):
        func.fixed_point(newton, 1.0, 1.0, lambda x, y: None)
    for same in (bool, np.bool):
        with pytest.raises(ArgumentTypeError, match=r"distance must return a number, .* not a bool"):
            func.fixed_point(newton, 1.0, 1.0, lambda x, y, same=same: same(x == y))
    with pytest.raises(ArgumentError, match="max_iter must be at least 1"):
        func.fixed_point(newton, 1.0, 1.0, max_iter=0)
    with pytest.raises(ArgumentError, match="the result of the function is a tuple, but x0 has a dict there"):
        func.fixed_point(lambda a, x: (x["u"],), 1.0, {"u": 1.0})
    with pytest.raises(ArgumentError, match=r"of the shape of its argument, \(1, 2\), not \(1, 1, 2\)"):
        func.fixed_point(lambda a, x: x[None], 1.0, np.ones(2))
    with pytest.raises(RequiresGradError, match="is not in a"):
        func.fixed_point(lambda a, x: 0.5 * x * w, 1.0, np.ones(1))
