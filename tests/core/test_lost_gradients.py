"""What returns only numbers where a gradient is asked for raises, rather than give the gradient of a constant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ArgumentTypeError, GradientTypeError
from asyncgrad.sync import func
from tests.support.functions import function
from tests.support.leaves import leaf, leaf_of
from tests.support.refusals import refused

# Functions.

#: What JSON gives, and other things without a grad_fn.
WITHOUT_HISTORY: dict[str, Any] = {
    "float": 1.5,
    "int": 2,
    "bool": True,
    "complex": 1j,
    "text": "1.5",
    "list": [1.0, 2.0],
    "tuple": (1.0, 2),
    "dict": {"y": 1.5},
    "nested": {"y": [[1.0, 2.0], [3.0]]},
}


def in_two_parts(returned: Any) -> type[ag.Function]:
    class TwoParts(ag.Function):
        @staticmethod
        def forward(x):
            return returned

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.x = inputs[0]

        @staticmethod
        def backward(ctx, grad):
            return grad

    return TwoParts


def awaited(returned: Any) -> type[ag.Function]:
    async def forward(ctx, x):
        return returned

    return function(forward)


#: Each makes a Function that returns a value, and applies it to a tensor that requires grad.
APPLIED: dict[str, Callable[[Any], Any]] = {
    "forward with ctx": lambda value: function(lambda ctx, x: value).apply(leaf(1.0)),
    "setup_context": lambda value: in_two_parts(value).apply(leaf(1.0)),
    "async": lambda value: ag.run(_await(awaited(value).apply(leaf(1.0)))),
    "tensor in a tree": lambda value: function(lambda ctx, x: value).apply({"x": [leaf(1.0)]}),
}


async def _await(awaitable: Any) -> Any:
    return await awaitable


@pytest.mark.parametrize("apply", APPLIED.values(), ids=APPLIED)
@pytest.mark.parametrize("value", WITHOUT_HISTORY.values(), ids=WITHOUT_HISTORY)
def test_a_function_that_is_to_have_a_gradient_returns_a_tensor_or_an_array(value, apply):
    with refused(
        ArgumentTypeError,
        TypeError,
        f".forward returned {type(value).__name__}",
        "requires grad",
        "return np.array(y)",
        "t.detach()",
        "ag.no_grad()",
        "ctx.set_records(False)",
    ):
        apply(value)


@pytest.mark.parametrize("value", WITHOUT_HISTORY.values(), ids=WITHOUT_HISTORY)
def test_a_function_without_a_gradient_may_return_anything(value):
    returns = function(lambda ctx, x: value)
    with ag.no_grad():
        unrecorded = returns.apply(leaf(1.0))

    def opts_out(ctx, x):
        ctx.set_records(False)
        return value

    assert value == unrecorded == returns.apply(ag.tensor(1.0)) == function(opts_out).apply(leaf(1.0))


@pytest.mark.parametrize("first", [np.float64(1.0), np.array([1, 2]), np.array([True]), np.array([1.0])])
def test_a_function_may_return_other_things_beside_an_array(first):
    y, others = function(lambda ctx, x: (first, [2.0, "text"])).apply(leaf(1.0))

    assert isinstance(y, ag.Tensor)
    assert y.requires_grad == (first.dtype.kind == "f")
    assert others == [2.0, "text"]


def test_a_function_that_asks_for_a_node_returns_a_tensor():
    def forward(ctx, x):
        ctx.set_records(True)
        return 1.5

    with refused(ArgumentTypeError, TypeError, "ctx.set_records(True)", "return np.array(y)"):
        function(forward).apply(ag.tensor(1.0))


# Transforms.

#: What loses the history of a number.
LOSING = {
    "item": lambda t: np.sum(t).item(),
    "tolist": lambda t: np.ravel(t).tolist()[0],
    "written down": lambda t: 1.0,
    "int": lambda t: 3,
}
X = np.array([1.0, 2.0])

TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "func.grad": lambda f: func.grad(f)(X),
    "func.value_and_grad": lambda f: func.value_and_grad(f)(X),
    "func.elementwise_grad": lambda f: func.elementwise_grad(f)(X),
    "func.jacrev": lambda f: func.jacrev(f)(X),
    "func.jacfwd": lambda f: func.jacfwd(f)(X),
    "func.hessian": lambda f: func.hessian(f)(X),
    "func.hvp": lambda f: func.hvp(f, (X,), (X,)),
    "func.vjp": lambda f: func.vjp(f, X),
    "func.jvp": lambda f: func.jvp(f, (X,), (X,)),
    "func.linearize": lambda f: func.linearize(f, X),
    "func.grad of a tree": lambda f: func.grad(lambda tree: f(tree["x"]))({"x": X}),
    "func.grad with aux": lambda f: func.grad(lambda x: (f(x), "aux"), has_aux=True)(X),
    "func.jacrev to a tree": lambda f: func.jacrev(lambda x: {"y": [f(x), 2.0]})(X),
    "func.grad of func.grad": lambda f: func.grad(func.grad(f))(1.0),
    "func.fixed_point": lambda f: func.fixed_point(lambda a, x: f(a), leaf_of(2.0), 1.0),
    "func.grad of func.fixed_point": lambda f: func.grad(lambda a: func.fixed_point(lambda a, x: f(a), a, 1.0))(2.0),
    "value_and_grad": lambda f: sync.value_and_grad(f)(ag.tensor(X)),
    "vjp": lambda f: sync.vjp(f, ag.tensor(X)),
    "jvp": lambda f: sync.jvp(f, ag.tensor(X), ag.tensor(X)),
    "vhp": lambda f: sync.vhp(f, ag.tensor(X), ag.tensor(X)),
    "hvp": lambda f: sync.hvp(f, ag.tensor(X), ag.tensor(X)),
    "jacobian": lambda f: sync.jacobian(f, ag.tensor(X)),
    "hessian": lambda f: sync.hessian(f, ag.tensor(X)),
    "checkpoint": lambda f: ag.checkpoint(f, leaf(1.0)),
    "checkpoint, not reentrant": lambda f: ag.checkpoint(f, leaf(1.0), use_reentrant=False),
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
@pytest.mark.parametrize("lose", LOSING.values(), ids=LOSING)
def test_a_function_that_is_differentiated_does_not_return_a_number_without_history(lose, transform):
    with refused(GradientTypeError, TypeError, "no history", "t.item()"):
        transform(lose)


def test_a_number_beside_tensors_is_a_constant():
    jacobian = func.jacrev(lambda x: {"y": x * x, "constant": 2.0})(3.0)

    assert jacobian == {"y": 6.0, "constant": 0.0}


def test_a_tensor_without_history_is_a_constant():
    assert func.grad(lambda x: ag.asarray(1.0))(2.0) == 0.0


def test_an_iteration_that_nobody_differentiates_may_compute_with_numbers():
    assert func.fixed_point(lambda a, x: 0.5 * (x.item() + a / x.item()), 4.0, 1.0) == pytest.approx(2.0)


# SciPy's searches.

A = 3.0

SEARCHES: dict[str, Callable[[Any, Any], Any]] = {
    "minimize": lambda o, a: o.minimize(lambda x: float((x.numpy()[0] - A) ** 2), [0.0]),
    "minimize by args": lambda o, a: o.minimize(
        lambda x, a: (x.item() - a.item()) ** 2, [0.0], (a,), method="Nelder-Mead"
    ),
    "minimize of an array": lambda o, a: o.minimize(lambda x: (x.numpy()[0] - A) ** 2, [0.0]),
    "minimize_scalar": lambda o, a: o.minimize_scalar(lambda x, a: (x.item() - a.item()) ** 2, args=(a,)),
    "root": lambda o, a: o.root(lambda x: [x.item() - A], [0.0]),
    "fsolve": lambda o, a: o.fsolve(lambda x: [x.item() - A], [0.0]),
    "least_squares": lambda o, a: o.least_squares(lambda x: [x.item() - A], [0.0]),
    "curve_fit": lambda o, a: o.curve_fit(lambda x, k: k.item() * x.numpy(), np.arange(3.0), np.arange(3.0)),
    "newton": lambda o, a: o.newton(lambda x: x.item() - A, 1.0),
    "brentq": lambda o, a: sync.grad(o.brentq(lambda x, a: x.item() - a.item(), 0, 5, args=(a,)), [a]),
    "a constraint": lambda o, a: o.minimize(
        lambda x: x[0] ** 2, [2.0], constraints={"type": "ineq", "fun": lambda x: x.item() - 1}
    ),
}


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_a_search_does_not_take_a_number_without_history_for_a_constant(search):
    optimize = pytest.importorskip("asyncgrad.scipy.optimize")

    with refused(GradientTypeError, TypeError, "returned", "no history"):
        search(optimize, leaf_of(A))


def test_a_search_that_needs_no_gradient_takes_numbers():
    optimize = pytest.importorskip("asyncgrad.scipy.optimize")
    found = optimize.minimize(lambda x: (x.item() - A) ** 2, [0.0], method="Nelder-Mead")

    assert found.x.item() == pytest.approx(A, abs=1e-4)


@pytest.mark.parametrize("of", ["quad", "solve_ivp"])
def test_an_integral_is_not_differentiated_by_what_has_lost_its_history(of):
    integrate = pytest.importorskip("asyncgrad.scipy.integrate")
    a = leaf_of(A)
    if of == "quad":
        value = integrate.quad(lambda x, a: a.item(), 0, 1, (a,))[0]
    else:
        value = integrate.solve_ivp(lambda t, y, a: [-a.item() * y.numpy()[0]], (0, 1), [1.0], args=(a,)).y.sum()

    with refused(GradientTypeError, TypeError, "returned", "no history"):
        sync.grad(value, [a])
