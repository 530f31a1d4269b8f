"""asyncgrad.scipy.optimize: SciPy's solutions, their derivatives by parameters, and functions that are awaited."""

from __future__ import annotations

import asyncio
import weakref
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ArgumentError, ArgumentTypeError, BlockingError, ConvergenceWarning, RequiresGradError
from asyncgrad.scipy import integrate, optimize
from asyncgrad.scipy.unsupported import LEFT_OUT
from tests.core.rows_together import Log, Together
from tests.support.loops import one_loop

PARAMETERS, START = np.array([0.7, 1.2]), np.array([0.3, 0.2])


def leaf(value: Any) -> Any:
    return ag.tensor(value, requires_grad=True)


def valley(x: Any, a: Any) -> Any:
    return (a[0] - x[0]) ** 2 + 2 * (x[1] * a[1] - x[0] ** 2) ** 2 + 0.1 * (x**4).sum()


def system(x: Any, a: Any) -> Any:
    return np.stack([x[0] ** 2 * a[0] - x[1], x[1] + np.exp(x[0]) - 3 * a[1]])


def valley_with_gradient(x: Any, a: Any) -> Any:
    """Return the value and, in arrays of NumPy, the gradient: as a user of SciPy has it."""
    (first, second), (p, q) = x.numpy(), a.detach().numpy()
    rest = second * q - first**2
    gradient = np.array([-2 * (p - first) - 8 * rest * first, 4 * rest * q]) + 0.4 * x.numpy() ** 3
    return valley(x, a), gradient


def system_with_jacobian(x: Any, a: Any) -> Any:
    return system(x, a), [[2 * x[0] * a[0], -1.0], [np.exp(x[0]), 1.0]]


def product(x: Any, bound: Any) -> Any:
    return x[0] * x[1] - bound


def minimum(method: str, **options: Any) -> Any:
    return lambda a: optimize.minimize(valley, START, (a,), method, tol=1e-12, **options).x


_MATRIX = np.random.default_rng(3).normal(size=(5, 3))
_TARGET = _MATRIX @ np.array([0.5, -0.4, 0.3]) + 0.1

_UNEVEN = np.array([0.25, 1.0, 0.5, 0.75, -2.0, 3.0])

SOLUTIONS: dict[str, Any] = {
    "Newton-CG": minimum("Newton-CG"),
    "trust-exact": minimum("trust-exact"),
    "trust-krylov": minimum("trust-krylov"),
    "at a bound": minimum("L-BFGS-B", bounds=[(0, 0.3), (None, None)]),
    "inactive bounds": minimum("L-BFGS-B", bounds=scipy.optimize.Bounds(-5, 5)),
    "inequality": minimum("SLSQP", constraints={"type": "ineq", "fun": lambda x: 0.25 - x[0] ** 2}),
    "linear": minimum("SLSQP", constraints=scipy.optimize.LinearConstraint([[1, 1]], -5, 0.4)),
    "equality": lambda a: (
        optimize.minimize(
            valley, START, (a,), constraints={"type": "eq", "fun": product, "args": (a[0] * 0.3,)}, tol=1e-13
        ).x
    ),
    "its value": lambda a: optimize.minimize(valley, START, (a,), "trust-exact", tol=1e-12).fun,
    "of a number": lambda a: optimize.minimize_scalar(lambda x, a: (x - a[0]) ** 2 + 0.3 * x * a[1], args=(a,)).x,
    "root": lambda a: optimize.root(system, [1.0, 1.0], (a,), tol=1e-13).x,
    "root by Krylov": lambda a: optimize.root(system, [1.0, 1.0], (a,), "krylov", tol=1e-12).x,
    "fsolve": lambda a: optimize.fsolve(system, [1.0, 1.0], (a,), xtol=1e-13),
    "bracketed": lambda a: optimize.root_scalar(lambda x, a: x**3 - a[0] - a[1] * x, (a,), bracket=[0, 5]).root,
    "Newton": lambda a: optimize.root_scalar(lambda x, a: x**3 - a[0] - a[1] * x, (a,), x0=2.0).root,
    "brentq": lambda a: optimize.brentq(lambda x, a: x**3 - a[0] - a[1] * x, 0, 5, (a,)),
    "by Newton's name": lambda a: optimize.newton(lambda x, a: x**3 - a[0] - a[1] * x, 2.0, args=(a,)),
    "Newton of an array": lambda a: optimize.newton(lambda x, a: x**3 - a - 0.5 * x, [2.0, 1.0], args=(a,), tol=1e-13),
    "with its gradient": lambda a: optimize.minimize(valley_with_gradient, START, (a,), jac=True, tol=1e-12).x,
    "with its Jacobian": lambda a: optimize.root(system_with_jacobian, [1.0, 1.0], (a,), jac=True, tol=1e-13).x,
    "nnls": lambda a: optimize.nnls(_MATRIX * a[0], _TARGET * a[1])[0],
    "distance of nnls": lambda a: optimize.nnls(_MATRIX * a[0], _TARGET * a[1])[1],
    "isotonic_regression": lambda a: optimize.isotonic_regression(_UNEVEN * a[0], weights=np.abs(_UNEVEN) + a[1]).x,
    "lsq_linear": lambda a: optimize.lsq_linear(_MATRIX * a[0], _TARGET * a[1], ([-1, 0.1, -1], 1)).x,
    "lsq_linear by bounds": lambda a: (
        optimize.lsq_linear(_MATRIX, _TARGET, (np.stack([-1, 0.1 * a[0], -1]), 0.9 * a[1])).x
    ),
    "fixed point": lambda a: optimize.fixed_point(lambda x, a: np.sqrt(a + x), [1.0, 1.0], (a,), xtol=1e-14),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SOLUTIONS)
def test_solutions_have_derivatives_to_second_order(name: str) -> None:
    inputs = (leaf(PARAMETERS),)

    assert sync.gradcheck(SOLUTIONS[name], inputs, rtol=1e-3, atol=1e-4)
    assert sync.gradgradcheck(SOLUTIONS[name], inputs, rtol=1e-3, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", ["Nelder-Mead", "Powell", "CG", "BFGS", "TNC", "COBYLA", "trust-ncg", "trust-constr"]
)
def test_minima_are_those_of_the_function(method: str) -> None:
    a = leaf(PARAMETERS)

    found = optimize.minimize(valley, START, (a,), method, tol=1e-9)

    exact = SOLUTIONS["trust-exact"](a)
    np.testing.assert_allclose(found.x.detach().numpy(), exact.detach().numpy(), atol=2e-3)
    (gradient,), (expected,) = sync.grad(found.x.sum(), [a]), sync.grad(exact.sum(), [a])
    np.testing.assert_allclose(gradient.numpy(), expected.numpy(), atol=2e-2)
    assert a.grad is None


def test_a_tree_is_minimized_as_a_tree() -> None:
    def loss(tree: Any, a: Any) -> Any:
        return ((tree["w"] - a["w"]) ** 2).sum() + (tree["b"] - a["b"]) ** 2

    a = {"w": leaf(np.array([[1.0, 2.0]])), "b": leaf(3.0)}

    found = optimize.minimize(loss, {"w": np.zeros((1, 2)), "b": 0.0}, (a,))

    np.testing.assert_allclose(found.x["w"].detach().numpy(), [[1.0, 2.0]], atol=1e-6)
    gradients = sync.grad(found.x["w"].sum(), [a["w"], a["b"]], allow_unused=True)
    np.testing.assert_allclose(gradients[0].numpy(), np.ones((1, 2)))


_X = np.linspace(0.0, 2.0, 6)
_Y = 2 * np.exp(-0.7 * _X) + 0.1 * np.sin(9 * _X)


def decay(x: Any, a: Any, rate: Any) -> Any:
    return a * np.exp(-rate * x)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["linear", "soft_l1", "huber", "cauchy", "arctan"])
def test_least_squares_are_scipys_with_derivatives(loss: str) -> None:
    def residuals(p: Any, y: Any) -> Any:
        return decay(_X, p[0], p[1]) - y

    def solve(y: Any) -> Any:
        exact = {"xtol": 1e-14, "ftol": 1e-14, "gtol": 1e-14, "f_scale": 0.3}
        return optimize.least_squares(residuals, [2.0, 0.7], loss=loss, args=(y,), **exact)  # type: ignore[arg-type]

    y = leaf(_Y)
    theirs = scipy.optimize.least_squares(residuals, [2.0, 0.7], loss=loss, args=(_Y,), f_scale=0.3)
    np.testing.assert_allclose(solve(y).x.detach().numpy(), theirs.x, rtol=1e-4)
    np.testing.assert_allclose(solve(y).cost.item(), theirs.cost, rtol=1e-6)
    gradients = sync.grad(solve(y).x[0] + solve(y).x[1], [y])
    step = 1e-4
    for index, found in enumerate(gradients[0].tolist()):
        ends = [solve(_Y + sign * step * np.eye(6)[index]).x.numpy().sum() for sign in (1, -1)]
        assert found == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-3, abs=1e-4)


def test_fits_and_their_covariances_are_scipys_with_derivatives() -> None:
    scale = 1 + _X
    for options in ({"maxfev": 900}, {"sigma": scale}, {"sigma": scale, "absolute_sigma": True}, {"bounds": (0, 5)}):
        theirs = scipy.optimize.curve_fit(decay, _X, _Y, **options)
        for found, expected in zip(optimize.curve_fit(decay, _X, _Y, **options), theirs, strict=True):
            np.testing.assert_allclose(found.numpy(), expected, rtol=2e-4)

    def fit(x: Any, y: Any, sigma: Any) -> Any:
        popt, pcov = optimize.curve_fit(decay, x, y, [2.0, 0.7], sigma, xtol=1e-14, ftol=1e-14, gtol=1e-14)
        return popt, pcov

    assert sync.gradcheck(fit, (leaf(_X), leaf(_Y), leaf(scale)), rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize(
    ("find", "name"),
    [
        (lambda a: optimize.minimize(valley, START, (a,), options={"maxiter": 1}).x, "minimize"),
        (lambda a: optimize.minimize(valley, START, (a,), options={"maxiter": 1}).fun, "minimize"),
        (
            lambda a: (
                optimize.minimize(
                    valley,
                    START,
                    (a,),
                    constraints={"type": "ineq", "fun": lambda x: 0.25 - x[0] ** 2},
                    options={"maxiter": 1},
                ).x
            ),
            "minimize",
        ),
        (
            lambda a: (
                optimize.minimize_scalar(
                    lambda x, a: (x - a[0]) ** 4 + x * x * a[1], args=(a,), options={"maxiter": 2}
                ).x
            ),
            "minimize_scalar",
        ),
        (lambda a: optimize.least_squares(system, [3.0, 1.0], args=(a,), max_nfev=2).x, "least_squares"),
        (lambda a: optimize.root(system, [3.0, 1.0], (a,), options={"maxfev": 3}).x, "root"),
        (lambda a: optimize.fsolve(system, [3.0, 1.0], (a,), maxfev=3, full_output=True)[0], "fsolve"),
        (
            lambda a: optimize.root_scalar(lambda x, a: x**3 - a[0] - a[1] * x, (a,), x0=9.0, maxiter=2).root,
            "root_scalar",
        ),
    ],
)
def test_a_backward_through_what_is_no_solution_warns(find: Any, name: str) -> None:
    found = find(leaf(PARAMETERS)).sum()

    with pytest.warns(ConvergenceWarning, match=rf"^scipy\.optimize\.{name}: .* the solver found none: '.+'"):
        sync.backward(found)


def test_a_solver_that_only_rounding_has_stopped_has_found_a_solution() -> None:
    a = leaf(PARAMETERS)
    found = optimize.minimize(valley, START, (a,), "BFGS", options={"gtol": 1e-30})

    sync.backward(found.x.sum())

    assert not found.success
    expected = leaf(PARAMETERS)
    sync.backward(minimum("trust-exact")(expected).sum())
    np.testing.assert_allclose(a.grad.numpy(), expected.grad.numpy(), rtol=1e-6)


def test_awaited_functions_leave_the_loop_free_and_give_the_same() -> None:
    async def awaited(x: Any, a: Any) -> Any:
        await asyncio.sleep(0)
        return valley(x, a)

    async def awaited_system(x: Any, a: Any) -> Any:
        await asyncio.sleep(0)
        return system(x, a)

    async def main() -> None:
        a = leaf(PARAMETERS)
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counter = asyncio.create_task(count())
        minimum, zero = await asyncio.gather(
            optimize.minimize(awaited, START, (a,), "trust-exact", tol=1e-12),
            optimize.root(awaited_system, [1.0, 1.0], (a,), tol=1e-13),
        )
        squares = await optimize.least_squares(awaited_system, [1.0, 1.0], args=(a,))
        assert turns > 20
        for found, name in ((minimum.x, "trust-exact"), (zero.x, "root"), (squares.x, "root")):
            (gradient,) = await ag.grad(found.sum(), [a], create_graph=True)
            (second,) = await ag.grad(gradient.sum(), [a])
            (expected,) = sync.grad(SOLUTIONS[name](a).sum(), [a], create_graph=True)
            np.testing.assert_allclose(gradient.detach().numpy(), expected.detach().numpy(), rtol=1e-5)
            np.testing.assert_allclose(second.numpy(), sync.grad(expected.sum(), [a])[0].numpy(), rtol=1e-4)
        counter.cancel()

    ag.run(main())


def test_a_solver_inside_of_another_is_differentiated_as_any_function() -> None:
    def end(rate: Any) -> Any:
        return integrate.odeint(lambda y, t, k: -k * y, [1.0], [0.0, 1.0], (rate,), rtol=1e-10, atol=1e-10)[-1, 0]

    target = leaf(0.4)

    rate = optimize.minimize(lambda x, target: (end(x[0]) - target) ** 2, [0.3], (target,), tol=1e-10).x[0]

    (gradient,) = sync.grad(rate, [target])
    np.testing.assert_allclose([rate.item(), gradient.item()], [-np.log(0.4), -2.5], rtol=1e-5)


def test_linear_least_squares_are_scipys() -> None:
    x, distance = optimize.nnls(_MATRIX, _TARGET)
    theirs = scipy.optimize.nnls(_MATRIX, _TARGET)
    np.testing.assert_array_equal(x.numpy(), theirs[0])
    assert distance.item() == theirs[1]
    recorded, _ = optimize.nnls(leaf(_MATRIX), _TARGET)
    np.testing.assert_allclose(recorded.detach().numpy(), theirs[0], rtol=1e-12)
    bounds = optimize.Bounds([-1, 0.1, -1], [1, 1, 1])
    found = [library.lsq_linear(_MATRIX, _TARGET, bounds) for library in (optimize, scipy.optimize)]  # type: ignore[attr-defined]
    np.testing.assert_array_equal(found[0].x.numpy(), found[1].x)
    assert found[0].cost.item() == found[1].cost


@pytest.mark.parametrize("increasing", [True, False])
def test_isotonic_regression_is_scipys(increasing: bool) -> None:
    weights = 2.5 - np.abs(_UNEVEN) / 2
    ours, theirs = (
        module.isotonic_regression(_UNEVEN, weights=weights, increasing=increasing)
        for module in (optimize, scipy.optimize)
    )
    for name in ("x", "weights", "blocks"):
        np.testing.assert_allclose(np.asarray(ours[name]), theirs[name], rtol=1e-13)


def test_a_solution_moves_with_the_bound_that_it_has_reached() -> None:
    lowest = leaf(np.array([0.0, -9.0]))
    found = optimize.lsq_linear([[1.0, 1.0], [0.0, 1.0]], [-1.0, 1.0], (lowest, [9.0, 9.0]))
    (grad,) = sync.grad(found.x[1] + 0.0, [lowest])

    # Of x0 = 0, which would be less, x1 is (b0 - x0 + b1) / 2.
    np.testing.assert_allclose(found.x.detach(), [0.0, 0.0], atol=1e-6)
    np.testing.assert_allclose(grad, [-0.5, 0.0])
    with pytest.raises(ValueError, match="a lower and an upper one, not 3"):
        optimize.lsq_linear([[1.0]], [1.0], (0.0, 1.0, 2.0))


@pytest.mark.parametrize("name", ["bisect", "brenth", "brentq", "ridder", "toms748"])
def test_bracketed_zeros_are_scipys(name: str) -> None:
    def f(x: Any, a: Any) -> Any:
        return x**3 - a

    a = leaf(2.0)
    zero, found = getattr(optimize, name)(f, 0.0, 3.0, (a,), full_output=True)
    theirs, info = getattr(scipy.optimize, name)(f, 0.0, 3.0, (2.0,), full_output=True)
    assert (zero.item(), found.iterations) == (theirs, info.iterations)
    np.testing.assert_allclose(sync.grad(zero, [a])[0].item(), zero.item() / 6, rtol=1e-8)
    with pytest.raises(RuntimeError, match="did not converge"):
        getattr(optimize, name)(f, 0.0, 3.0, (a,), maxiter=1)


def test_a_function_that_returns_its_derivatives_is_called_once_a_step() -> None:
    calls = 0

    def square(x: Any, a: Any) -> Any:
        nonlocal calls
        calls += 1
        return x * x - a[0], 2 * x, 2.0

    a = leaf(PARAMETERS)
    found = optimize.root_scalar(square, (a,), x0=1.0, fprime=True, fprime2=True)

    assert found.method == "halley"
    np.testing.assert_allclose(found.root.item() ** 2, PARAMETERS[0])
    (gradient,) = sync.grad(found.root, [a])
    np.testing.assert_allclose(gradient.numpy(), [0.5 / found.root.item(), 0.0])
    calls, options = 0, {"maxiter": 0}
    found = optimize.minimize(lambda x: (square(x[0], PARAMETERS)[0], 2 * x), [1.0], jac=True, options=options)
    assert calls == found.nfev


#: Calls of solvers that ask for the value and for derivatives at the same point: of a function of two numbers that
#: returns as many, or their sum of squares.
_BY_DERIVATIVES: dict[str, Any] = {
    **{
        f"least_squares {method}": lambda fun, args, method=method: optimize.least_squares(
            fun, [3.0, -1.0], method=method, args=args
        )
        for method in ("trf", "dogbox", "lm")
    },
    "least_squares with a loss": lambda fun, args: optimize.least_squares(fun, [3.0, -1.0], loss="huber", args=args),
    "root hybr": lambda fun, args: optimize.root(fun, [3.0, -1.0], args),
    "root lm": lambda fun, args: optimize.root(fun, [3.0, -1.0], args, method="lm"),
    "fsolve": lambda fun, args: optimize.fsolve(fun, [3.0, -1.0], args),
    "newton": lambda fun, args: optimize.newton(lambda x, *args: fun(np.stack([x, x]), *args)[1] - 0.1, 0.9, args=args),
    "newton of an array": lambda fun, args: optimize.newton(
        lambda x, *args: x**3 - 2 + 0 * fun(x, *args), [1.0, 2.0], args=args
    ),
    "root_scalar": lambda fun, args: optimize.root_scalar(
        lambda x, *args: fun(np.stack([x, x]), *args)[1] - 0.1, args, x0=0.9
    ),
    **{
        f"minimize {method}": lambda fun, args, method=method: optimize.minimize(
            lambda x, *args: (fun(x, *args) ** 2).sum(), [3.0, -1.0], args, method
        )
        for method in (
            "BFGS",
            "CG",
            "L-BFGS-B",
            "TNC",
            "SLSQP",
            "Newton-CG",
            "trust-exact",
            "trust-ncg",
            "trust-krylov",
        )
    },
    **{
        f"constraint of {method}": lambda fun, args, method=method: optimize.minimize(
            lambda x: (x * x).sum(),
            [3.0, -1.0],
            method=method,
            constraints={"type": "eq", "fun": lambda x: fun(x, *args)[0]},
            options={"maxiter": 5},
        )
        for method in ("SLSQP", "trust-constr")
    },
}


def _curved(x: Any, offset: Any = 0.0) -> Any:
    """Return two numbers, of a function that takes every solver several steps."""
    return np.stack([10 * (x[1] - x[0] ** 2), np.arctan(x[0]) - offset])


@pytest.mark.parametrize("name", _BY_DERIVATIVES)
def test_a_solver_calls_the_function_once_at_a_point(name: str) -> None:
    points = []

    def counted(x: Any, *args: Any) -> Any:
        points.append(tuple(x.tolist()))
        return _curved(x)

    _BY_DERIVATIVES[name](counted, ())

    assert len(points) > 2
    assert len(set(points)) == len(points)


def test_a_function_with_its_jacobian_is_called_once_at_a_point() -> None:
    points = []

    def counted(x: Any) -> Any:
        points.append(tuple(x.tolist()))
        return _curved(x), [[-20 * x[0], 10.0], [1 / (1 + x[0] ** 2), 0.0]]

    found = optimize.root(counted, [3.0, -1.0], jac=True)

    assert found.success
    assert len(set(points)) == len(points)


def test_products_with_the_hessian_need_no_call_of_a_function_with_its_gradient() -> None:
    points = []

    def counted(x: Any) -> Any:
        points.append(tuple(x.tolist()))
        return (x**4).sum(), 4 * x.numpy() ** 3

    found = optimize.minimize(counted, [3.0, -1.0], jac=True, method="trust-krylov")

    assert found.nhev > 1
    assert len(set(points)) == len(points)


@pytest.mark.parametrize("name", _BY_DERIVATIVES)
def test_a_recorded_call_that_uses_a_tensor_that_is_not_in_args_is_an_error(name: str) -> None:
    a = leaf(0.5)

    with pytest.raises(RequiresGradError, match=r"uses a tensor of shape \(\) that requires grad and is not in args"):
        _BY_DERIVATIVES[name](lambda x, *args: _curved(x, a * 2), ())


class Itself(ag.Function):
    """x, with a rule that computes with the tensor that it has saved."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.numpy().copy()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad + 0.0 * x


@pytest.mark.parametrize("name", _BY_DERIVATIVES)
def test_what_a_rule_has_saved_is_not_taken_for_a_tensor_that_is_not_in_args(name: str) -> None:
    points: list[list[Any]] = [[], []]

    def of_rule(x: Any, *args: Any) -> Any:
        points[0].append(x.tolist())
        return _curved(Itself.apply(x))

    def of_numpy(x: Any, *args: Any) -> Any:
        points[1].append(x.tolist())
        return _curved(x)

    _BY_DERIVATIVES[name](of_rule, ())
    _BY_DERIVATIVES[name](of_numpy, ())

    assert points[0] == points[1]


class Remembering(ag.Function):
    """The identity, which remembers the contexts that are alive."""

    alive: ClassVar[weakref.WeakSet[Any]] = weakref.WeakSet()

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.kept = _Kept()
        Remembering.alive.add(ctx.kept)
        return x.numpy().copy()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad


class _Kept:
    """Something that a graph keeps."""


@pytest.mark.parametrize(("name", "most"), [("least_squares trf", 1), ("minimize BFGS", 1), ("root hybr", 3)])
def test_a_solver_keeps_the_graphs_of_few_points(name: str, most: int) -> None:
    counts = []

    def counted(x: Any) -> Any:
        found = _curved(Remembering.apply(x))
        counts.append(len(Remembering.alive))
        return found

    _BY_DERIVATIVES[name](counted, ())

    assert max(counts) == most
    assert not Remembering.alive


@pytest.mark.parametrize("loss", ["linear", "huber"])
def test_scipy_writing_into_residuals_leaves_what_the_graph_has_saved(loss: str) -> None:
    target = np.array([0.2, 0.4, 5.0])

    def fun(x: Any) -> Any:
        return np.exp(x[0] * np.arange(3.0)) - target

    def saved(x: Any) -> Any:
        # The derivative of exp is computed of its result.
        return np.exp(x[0] * np.arange(3.0) - 1.0)

    for function in (fun, saved):
        found = optimize.least_squares(function, [0.3], loss=loss)
        expected = scipy.optimize.least_squares(function, [0.3], "cs", loss=loss)
        np.testing.assert_allclose(found.x.numpy(), expected.x, rtol=1e-9)
        assert found.nfev == expected.nfev


@pytest.mark.parametrize("start", [0.3 + 1j, [0.3 + 1j, 0.2 - 1j]], ids=["number", "array"])
def test_newton_finds_complex_zeros_with_their_gradients(start: Any) -> None:
    c, direction, weight = ag.tensor(2.0 + 0.5j, requires_grad=True), 0.3 - 0.7j, 1.0 + 0.3j
    zeros = optimize.newton(lambda z, c: z**2 + z + c, start, args=(c,), tol=1e-14)
    (gradient,) = sync.grad(np.real(np.sum(weight * zeros**2)), [c])

    exact = scipy.optimize.newton(lambda z: z**2 + z + c.item(), start, lambda z: 2 * z + 1, tol=1e-14)
    np.testing.assert_allclose(zeros.detach(), exact, rtol=1e-12)
    expected = np.sum(weight * 2 * exact * -direction / (2 * exact + 1)).real
    np.testing.assert_allclose((np.conj(gradient.item()) * direction).real, expected, rtol=1e-12)


@one_loop
async def test_an_awaited_zero_is_that_of_newton() -> None:
    async def f(x: Any, a: Any) -> Any:
        await asyncio.sleep(0)
        return x * x - a

    async def main() -> tuple[Any, Any]:
        a = leaf(2.0)
        zero = await optimize.newton(f, 1.0, args=(a,))
        return zero, (await ag.grad(zero, [a]))[0]

    zero, gradient = await main()
    np.testing.assert_allclose([zero.item(), gradient.item()], [2**0.5, 0.125**0.5])


@pytest.mark.parametrize("method", ["Newton-CG", "trust-ncg", "trust-krylov", "trust-constr"])
def test_products_with_the_hessian_take_no_whole_hessian(method: str) -> None:
    rows = []

    @ag.extend.primitive()
    def cube(x: Any) -> Any:
        return x**3

    @ag.extend.derivative(cube, "x")
    def _(g: Any, x: Any) -> Any:
        rows.append(np.size(x))
        return g * 3 * x**2

    def fun(x: Any) -> Any:
        return cube(x).sum() + 9 * (x * x).sum()

    found = optimize.minimize(fun, np.linspace(0.1, 0.2, 200), method=method)

    np.testing.assert_allclose(found.x.numpy(), 0, atol=1e-3)
    # One derivative for each gradient and each product; a Hessian would take 200 at once.
    assert len(rows) < 100


def test_a_callback_takes_what_the_function_takes() -> None:
    seen: list[Any] = []

    def note(intermediate_result: Any) -> None:
        seen.append(intermediate_result.x)

    def loss(tree: Any) -> Any:
        return ((tree["w"] - 2.0) ** 2).sum()

    optimize.minimize(loss, {"w": np.zeros(2)}, callback=seen.append)
    optimize.minimize(loss, {"w": np.zeros(2)}, callback=note)

    assert len(seen) > 2
    assert all(one["w"].shape == (2,) for one in seen)


def test_what_is_left_out_names_what_to_write_instead() -> None:
    with pytest.raises(AttributeError, match=r"optimize has no linprog: call scipy\.optimize\.linprog on arrays"):
        optimize.linprog
    with pytest.raises(AttributeError, match=r"optimize has no shgo: .* as the x0 of minimize"):
        optimize.shgo
    with pytest.raises(AttributeError, match=r"integrate has no solve_bvp: .* optimize\.root"):
        integrate.solve_bvp
    with pytest.raises(AttributeError, match="has no attribute 'minimise'"):
        optimize.minimise
    for ours, theirs in ((integrate, scipy.integrate), (optimize, scipy.optimize)):
        public = {name for name in theirs.__all__ if callable(getattr(theirs, name)) and name[0].islower()}
        untold = {name for name in public if not hasattr(ours, name)} - LEFT_OUT[
            ours.__name__.rpartition(".")[2]
        ].keys()
        # Those that are left are examples, and print.
        assert not {
            name for name in untold if not name.startswith("rosen") and name[-8:] not in ("_options", "callback")
        }
    with pytest.raises(ArgumentError, match="x1 and rtol hold for a number x0, not for an array of shape \\(2,\\)"):
        optimize.newton(np.sin, [1.0, 2.0], x1=[2.0, 3.0])


@one_loop
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    "find",
    [
        lambda f: optimize.minimize(f, START),
        lambda f: optimize.root(f, START),
        lambda f: optimize.least_squares(f, START),
        lambda f: integrate.solve_ivp(f, (0.0, 1.0), START),
        lambda f: integrate.quad(f, 0.0, 1.0),
    ],
)
async def test_a_function_that_returns_nothing_is_named(find: Any, is_async: bool) -> None:
    def forgetful(*args: Any) -> None:
        pass

    async def forgetful_later(*args: Any) -> None:
        await asyncio.sleep(0)

    async def main() -> None:
        found = find(forgetful_later if is_async else forgetful)
        await found if is_async else None

    with pytest.raises(ArgumentTypeError, match=r"forgetful.* returned None: return the numbers"):
        await main()


def test_errors_say_what_to_write_instead() -> None:
    a = leaf(PARAMETERS)
    with pytest.raises(ArgumentTypeError, match="fun must be a function, not int"):
        optimize.minimize(3, START)  # type: ignore[arg-type]
    with pytest.raises(RequiresGradError, match="make it a leaf of args"):
        optimize.minimize(lambda x: valley(x, a), START)
    with pytest.raises(ArgumentError, match="must return one number, not an array of shape"):
        optimize.minimize(lambda x: x, START)
    with pytest.raises(ArgumentError, match=r"must return the value and its derivative, not a Tensor.* pass jac=None"):
        optimize.minimize(valley, START, (a,), jac=True)
    with pytest.raises(
        ArgumentError, match=r"fprime2=True the function must return .* two derivatives, not a tuple of 2"
    ):
        optimize.root_scalar(lambda x: (x, 1.0), x0=1.0, fprime=True, fprime2=True)
    with pytest.raises(ArgumentError, match="least_squares: jac must be a function, None"):
        optimize.least_squares(lambda x: (x, 1.0), START, jac=True)
    with pytest.raises(ArgumentError, match="no derivative by bounds"):
        optimize.minimize(valley, START, (a,), bounds=[(0, a[0]), (0, 1)])
    with pytest.raises(ArgumentError, match="'eq' or 'ineq', not 'le'"):
        optimize.minimize(valley, START, (a,), constraints={"type": "le", "fun": product})
    flat = optimize.minimize(lambda x, a: (x[0] - a[0]) ** 2, START, (a,))
    with pytest.raises(ArgumentError, match="the Hessian\\) is singular there"):
        sync.grad(flat.x.sum(), [a])


def test_a_fit_of_as_many_data_as_parameters_says_that_its_covariance_is_not_known() -> None:
    data = (lambda x, a, b: a * x + b, np.array([0.0, 1.0]), np.array([1.0, 3.0]))
    with pytest.warns(scipy.optimize.OptimizeWarning, match="could not be estimated"):
        _, expected = scipy.optimize.curve_fit(*data)
    with pytest.warns(scipy.optimize.OptimizeWarning, match="could not be estimated"):
        _, covariance = optimize.curve_fit(*data)
    assert covariance.tolist() == expected.tolist()


def _solvers() -> dict[str, Any]:
    """Calls of solvers of a function that asks for its Jacobian, or its Hessian, of three rows."""
    target = np.array([0.5, 1.0, 1.5])

    def residuals(log: Log) -> Any:
        async def function(x: Any) -> Any:
            return Together.apply(x, 0, log) - target

        return function

    def cost(log: Log) -> Any:
        async def function(x: Any) -> Any:
            return (x * Twice.apply(x, log)).sum() - (x * target).sum()

        return function

    def model(log: Log) -> Any:
        async def function(x: Any, *params: Any) -> Any:
            return Together.apply(np.stack(params), 0, log)

        return function

    start = np.ones(3)
    constraint = {"type": "eq", "fun": None}
    return {
        "root": lambda log, **options: optimize.root(residuals(log), start, **options),
        "fsolve": lambda log, **options: optimize.fsolve(residuals(log), start, **options),
        "least_squares": lambda log, **options: optimize.least_squares(residuals(log), start, **options),
        "curve_fit": lambda log, **options: optimize.curve_fit(
            model(log), start, target, start, absolute_sigma=True, **options
        ),
        "minimize": lambda log, **options: optimize.minimize(cost(log), start, method="trust-exact", **options),
        "constraint": lambda log, **options: optimize.minimize(
            lambda_of_constraint, start, constraints={**constraint, "fun": residuals(log)}, **options
        ),
    }


async def lambda_of_constraint(x: Any) -> Any:
    return (x * x).sum()


class Twice(ag.Function):
    """x * x * x, whose derivative can be differentiated, and waits."""

    concurrent = True

    @staticmethod
    def forward(ctx: Any, x: Any, log: Any) -> Any:
        ctx.log = log
        ctx.save_for_backward(x)
        return x.numpy() ** 3

    @staticmethod
    async def backward(ctx: Any, grad: Any) -> Any:
        await ctx.log.run(0, None)
        (x,) = ctx.saved_tensors
        return 3.0 * grad * x * x, None


@one_loop
@pytest.mark.parametrize("name", list(_solvers()))
@pytest.mark.parametrize(("concurrency", "most"), [(None, 3), (2, 2), (1, 1)])
async def test_the_rows_of_a_jacobian_run_as_many_at_once_as_concurrency_says(
    name: str, concurrency: Any, most: int
) -> None:
    log = Log(pause=lambda: 5)
    await _solvers()[name](log, concurrency=concurrency)
    assert log.most[0] == most


@one_loop
@pytest.mark.parametrize("name", list(_solvers()))
async def test_a_concurrency_of_no_row_is_refused_at_once(name: str) -> None:
    with pytest.raises(ArgumentError, match="concurrency must be at least 1, not 0"):
        await _solvers()[name](Log(), concurrency=0)


@one_loop
async def test_a_plain_function_whose_rules_wait_is_told_to_be_an_async_def_and_awaited() -> None:
    with pytest.raises(BlockingError, match="suspended in a blocking backward") as raised:
        optimize.root(lambda x: Together.apply(x, 0, Log()), np.ones(2))

    _, advice = raised.value.__notes__
    assert advice.endswith("write it as an async def, and await scipy.optimize.root(...)")


@one_loop
async def test_the_rows_of_the_jacobian_behind_a_solution_run_as_many_at_once() -> None:
    a, log = ag.tensor(np.array([0.5, 1.0, 1.5]), requires_grad=True), Log(pause=lambda: 5)

    async def function(x: Any, a: Any) -> Any:
        return Together.apply(x, 0, log) - a

    found = await optimize.root(function, np.ones(3), (a,), method="broyden1", concurrency=2)
    await found.x.sum().backward()
    assert log.most[0] == 2


def _line(x: Any, a: Any, b: Any) -> Any:
    return a * x + b


_TIMES = np.linspace(0.0, 2.0, 6)
_SEEN = np.array([0.25, 0.5, 1.5, 1.25, 2.5, 2.25])
_COVARIANCE = np.eye(6) * 0.5 + 0.125
_WITH_NAN = np.where(np.arange(6) == 2, np.nan, _SEEN)


@pytest.mark.parametrize(
    ("seen", "options"),
    [
        (_SEEN, {"sigma": _COVARIANCE}),
        (_SEEN, {"sigma": 1 + _TIMES, "absolute_sigma": True}),
        (_SEEN, {"sigma": 1 + _TIMES, "jac": lambda x, a, b: np.stack([x, x * 0 + 1], -1)}),
        (_WITH_NAN, {"sigma": _COVARIANCE, "check_finite": False, "nan_policy": "omit"}),
        (_SEEN, {"bounds": ([-np.inf, 0.5], [1.5, np.inf])}),
    ],
)
def test_fits_are_those_of_scipy_and_follow_the_data(seen: np.ndarray, options: dict[str, Any]) -> None:
    data = ag.tensor(seen, requires_grad=True)
    parameters, covariance = optimize.curve_fit(_line, ag.tensor(_TIMES), data, **options)
    expected = scipy.optimize.curve_fit(_line, _TIMES, seen, **options)

    np.testing.assert_allclose(parameters.detach().numpy(), expected[0], rtol=1e-6)
    np.testing.assert_allclose(covariance.detach().numpy(), expected[1], rtol=1e-5)
    (grad,) = sync.grad(np.sum(parameters), (data,))
    step = 0.01 * np.cos(np.arange(6))
    moved = [scipy.optimize.curve_fit(_line, _TIMES, seen + one, **options)[0].sum() for one in (step, -step)]
    assert np.sum(grad.numpy() * step) == pytest.approx((moved[0] - moved[1]) / 2, rel=1e-4)


def test_a_jacobian_may_be_sparse_and_a_loss_a_function() -> None:
    def loss(z: Any) -> Any:
        return np.stack([np.log1p(z), 1 / (1 + z), -1 / (1 + z) ** 2])

    def residuals(x: Any, b: Any) -> Any:
        return x**2 - b

    def jacobian(x: Any, b: Any) -> Any:
        return scipy.sparse.diags_array(2 * np.asarray(x))

    b = ag.tensor([1.0, 4.0], requires_grad=True)
    found = optimize.least_squares(residuals, [1.25, 2.25], jacobian, args=(b,), loss=loss)

    np.testing.assert_allclose(found.x.detach().numpy(), [1.0, 2.0], rtol=1e-6)
    np.testing.assert_allclose(sync.grad(np.sum(found.x), (b,))[0].numpy(), [0.5, 0.25], rtol=1e-5)


def test_residuals_take_keywords_that_gradients_flow_to() -> None:
    a, b = leaf(3.0), leaf(2.0)

    def residuals(x: Any, b: Any, *, a: Any) -> Any:
        return x**2 - a * b

    async def awaited(x: Any, b: Any, *, a: Any) -> Any:
        return residuals(x, b, a=a)

    async def find() -> Any:
        return await optimize.least_squares(awaited, [2.0], args=(b,), kwargs={"a": a}, jac_sparsity=[[1]])

    async def slopes_of_awaited() -> Any:
        return await ag.grad(np.sum((await find()).x), (a, b))

    found = optimize.least_squares(residuals, [2.0], args=(b,), kwargs={"a": a})
    for slopes in (sync.grad(np.sum(found.x), (a, b)), ag.run(slopes_of_awaited())):
        np.testing.assert_allclose([one.item() for one in slopes], [1 / np.sqrt(6.0), 1.5 / np.sqrt(6.0)], rtol=1e-6)
    with pytest.raises(ArgumentError, match=r"jac_sparsity must have the shape of the Jacobian, \(1, 1\)"):
        optimize.least_squares(lambda x: x, [2.0], jac_sparsity=np.ones((2, 1)))


def test_options_may_be_tensors() -> None:
    simplex = leaf([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    options = {"initial_simplex": simplex}
    found = optimize.minimize(lambda x: ((x - 1) ** 2).sum(), np.zeros(2), method="nelder-mead", options=options)

    np.testing.assert_allclose(found.x.numpy(), [1.0, 1.0], atol=1e-3)


@pytest.mark.parametrize("method", ["broyden1", "krylov"])
@pytest.mark.parametrize("start", [1.5, np.array([[1.5, 1.25]])])
def test_a_root_has_the_shape_of_its_start_where_scipys_has(method: str, start: Any) -> None:
    a = leaf(4.0)
    x = optimize.root(lambda x, a: x**2 - a, start, (a,), method=method, tol=1e-12).x

    assert x.shape == scipy.optimize.root(lambda x: x**2 - 4.0, start, method=method).x.shape
    assert sync.grad(np.sum(x), (a,))[0].item() == pytest.approx(0.25 * x.size)


@pytest.mark.parametrize("search", [optimize.minimize, optimize.least_squares])
def test_a_search_begins_at_a_vector(search: Any) -> None:
    with pytest.raises(ValueError, match=r"at most one axis, not of shape \(1, 2\)"):
        search(lambda x: (x**2).sum(), np.ones((1, 2)))
