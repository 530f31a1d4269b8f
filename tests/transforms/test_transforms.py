"""asyncgrad.func: derivatives of functions of trees, against finite differences and known ones."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import func as async_func
from asyncgrad.errors import (
    ArgumentError,
    ArgumentTypeError,
    BlockingError,
    GradientTypeError,
    InvalidGradientError,
    InvalidRootError,
)
from asyncgrad.sync import func
from tests.support.leaves import leaf, leaf_of
from tests.support.loops import on_each_loop
from tests.support.nodes import async_double

POINT = np.array([0.3, 0.7, 1.1])


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass
class Layer:
    weight: Any
    bias: Any


def energy(x: Any) -> Any:
    return (np.sin(x) * x * x[::-1]).sum()


def field(x: Any) -> Any:
    return {"outer": np.outer(np.sin(x), x), "sum": [(x * x).sum()]}


def differences(fn: Any, point: np.ndarray) -> np.ndarray:
    """The derivatives of a function of an array, with those of its elements last, by central differences."""
    columns = []
    for index in np.ndindex(point.shape):
        step = np.zeros(point.shape)
        step[index] = 1e-6
        columns.append((np.asarray(fn(point + step)) - np.asarray(fn(point - step))) / 2e-6)
    return np.stack(columns, -1).reshape(*columns[0].shape, *point.shape)


# Numbers.


def test_gradients_agree_with_finite_differences():
    value, gradient = func.value_and_grad(energy)(POINT)

    assert value == pytest.approx(energy(POINT))
    np.testing.assert_allclose(gradient, differences(energy, POINT), rtol=1e-8)
    np.testing.assert_array_equal(func.grad(energy)(POINT), gradient)


def test_a_function_may_return_its_argument():
    assert func.grad(lambda x: x)(2.0) == 1.0
    assert func.value_and_grad(lambda p: p["x"])({"x": np.array(3.0), "y": np.array(1.0)}) == (
        3.0,
        {"x": 1.0, "y": 0.0},
    )
    assert func.grad(func.grad(lambda x: x))(2.0) == 0.0


def test_elementwise_gradients_nest():
    tanh = np.tanh(POINT)

    np.testing.assert_allclose(func.elementwise_grad(np.tanh)(POINT), 1 - tanh**2, rtol=1e-14)
    np.testing.assert_allclose(
        func.elementwise_grad(func.elementwise_grad(np.tanh))(POINT), -2 * tanh * (1 - tanh**2), rtol=1e-13
    )


@pytest.mark.parametrize("transform", [func.jacrev, func.jacfwd])
def test_jacobians_of_trees_agree_with_finite_differences(transform):
    found = transform(field)(POINT)

    np.testing.assert_allclose(found["outer"], differences(lambda x: np.outer(np.sin(x), x), POINT), atol=1e-9)
    np.testing.assert_allclose(found["sum"][0], 2 * POINT, rtol=1e-14)


@pytest.mark.parametrize("transform", [func.jacrev, func.jacfwd])
def test_a_jacobian_of_several_arguments_is_a_tuple_of_trees(transform):
    x, y = np.ones((2, 2)), {"s": 3.0}
    dx, dy = transform(lambda x, y: (x * y["s"]).sum(axis=0), argnums=(0, 1))(x, y)

    assert dx.shape == (2, 2, 2)
    assert dx[0].tolist() == [[3.0, 0.0], [3.0, 0.0]]
    assert dy["s"].tolist() == [2.0, 2.0]


@pytest.mark.parametrize("transform", [func.jacrev, func.jacfwd])
def test_an_output_that_does_not_depend_on_the_argument_has_a_jacobian_of_zeros(transform):
    found = transform(lambda x: (ag.tensor([1.0, 2.0]), 5.0, x[0]))(POINT)

    assert [one.tolist() for one in found] == [[[0.0] * 3] * 2, [0.0] * 3, [1.0, 0.0, 0.0]]


HESSIANS = {
    "hessian": func.hessian(energy),
    "jacrev of grad": func.jacrev(func.grad(energy)),
    "jacfwd of grad": func.jacfwd(func.grad(energy)),
    "jacfwd of jacrev": func.jacfwd(func.jacrev(energy)),
    "jacrev of jacfwd": func.jacrev(func.jacfwd(energy)),
    "hvp": lambda x: np.stack([func.hvp(energy, (x,), (row,)) for row in np.eye(3)]),
    "hvp as a function": lambda x: np.stack([func.hvp(energy)(x, row) for row in np.eye(3)]),
    "jvp of grad": lambda x: np.stack([func.jvp(func.grad(energy), (x,), (row,))[1] for row in np.eye(3)]),
    "vjp of grad": lambda x: np.stack([func.vjp(func.grad(energy), x)[1](row)[0] for row in np.eye(3)]),
    "linearize of grad": lambda x: np.stack([func.linearize(func.grad(energy), x)[1](row) for row in np.eye(3)]),
}


@pytest.mark.parametrize("hessian", HESSIANS.values(), ids=HESSIANS)
def test_each_way_to_the_hessian_agrees_with_finite_differences(hessian):
    np.testing.assert_allclose(hessian(POINT), differences(func.grad(energy), POINT), atol=1e-8)


INNER_GRADIENTS = {
    "grad": func.grad(energy),
    "vjp": lambda x: func.vjp(energy, x)[1](1.0)[0],
    "jacfwd": func.jacfwd(energy),
    "linearize": lambda x: np.stack([func.linearize(energy, x)[1](row) for row in np.eye(3)]),
}


@pytest.mark.parametrize("inner", INNER_GRADIENTS.values(), ids=INNER_GRADIENTS)
def test_a_product_inside_of_a_transform_is_differentiated(inner):
    np.testing.assert_allclose(func.jacrev(inner)(POINT), differences(func.grad(energy), POINT), atol=1e-8)


def test_transforms_nest_to_any_depth():
    fn: Any = np.exp
    for _ in range(4):
        fn = func.grad(fn)

    assert fn(0.5) == pytest.approx(np.exp(0.5), rel=1e-14)
    assert func.grad(func.grad(np.sin))(1.0) == pytest.approx(-np.sin(1.0), rel=1e-14)


def test_each_number_of_a_result_has_a_hessian():
    found = func.hessian(lambda x, y: {"cubes": x**3, "product": x[0] * y}, argnums=(0, 1))(np.array([1.0, 2.0]), 3.0)

    assert found["cubes"][0][0].tolist() == [[[6.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 12.0]]]
    assert [[np.shape(block) for block in row] for row in found["cubes"]] == [[(2, 2, 2), (2, 2)], [(2, 2), (2,)]]
    assert found["product"][0][1].tolist() == found["product"][1][0].tolist() == [1.0, 0.0]


def test_the_hessian_of_a_tree_is_a_tree_of_trees():
    found = func.hessian(lambda p: p.first**2 * p.second[0])(Pair(3.0, [5.0]))

    assert found == Pair(Pair(10.0, [6.0]), [Pair(6.0, [0.0])])


def test_a_pullback_is_called_again_and_returns_a_tuple_of_trees():
    out, pullback = func.vjp(lambda x, p: {"y": x * p["w"], "s": p["w"]}, POINT, {"w": 2.0})

    np.testing.assert_array_equal(out["y"], 2 * POINT)
    for scale in (1.0, 10.0):
        dx, dp = pullback({"s": 0.0, "y": np.full(3, scale)})
        np.testing.assert_allclose(dx, np.full(3, 2 * scale))
        assert dp["w"] == pytest.approx(scale * POINT.sum())


def test_jvp_and_linearize_give_the_same_product_of_trees():
    tangents = ({"a": POINT, "b": 1},)
    primals = ({"a": POINT + 1, "b": 2},)

    def fn(p: Any) -> Any:
        return [p["a"] * p["b"]]

    out, product = func.jvp(fn, primals, tangents)
    again, pushforward = func.linearize(fn, *primals)

    np.testing.assert_array_equal(out[0], again[0])
    np.testing.assert_allclose(product[0], 2 * POINT + POINT + 1)
    np.testing.assert_allclose(pushforward(*tangents)[0], product[0])


def test_the_gradient_of_a_complex_argument_follows_the_convention_of_tensors():
    z = leaf_of(1 + 2j)
    ag.sync.backward(np.real(z * np.conj(z)))

    assert z.grad is not None
    assert func.grad(lambda z: np.real(z * np.conj(z)))(1 + 2j) == z.grad.item()


# Arguments.


@pytest.mark.parametrize(
    ("given", "kind", "dtype"),
    [
        (2, np.float64, np.float64),
        (2.0, np.float64, np.float64),
        (np.float32(2), np.float32, np.float32),
        (np.array(2), np.ndarray, np.float64),
        (np.array(2.0, np.float32), np.ndarray, np.float32),
        (ag.tensor(2), ag.Tensor, np.float64),
        (ag.tensor(2.0), ag.Tensor, np.float64),
    ],
)
def test_a_gradient_is_of_the_kind_of_the_argument(given, kind, dtype):
    value, gradient = func.value_and_grad(lambda x: x * x)(given)

    assert (type(gradient), gradient.dtype, gradient.item()) == (kind, dtype, 4.0)
    assert isinstance(value, ag.Tensor) == isinstance(given, ag.Tensor)


def test_a_gradient_has_the_structure_of_the_argument():
    params = {"layers": [Layer(np.ones(2), 1.0), None], "pair": Pair(ag.tensor(2.0), ())}
    gradient = func.grad(lambda p: (p["layers"][0].weight * p["pair"].first).sum() * p["layers"][0].bias)(params)

    assert type(gradient["layers"][0]) is Layer
    assert gradient["layers"][0].weight.tolist() == [2.0, 2.0]
    assert (gradient["layers"][0].bias, gradient["layers"][1]) == (4.0, None)
    assert isinstance(gradient["pair"].first, ag.Tensor)


def test_argnums_chooses_arguments_and_others_may_be_anything():
    def fn(x: Any, mode: str, y: Any, *, power: int = 1) -> Any:
        return {"mul": x * y**power}[mode]

    assert func.grad(fn, argnums=-1)(2.0, "mul", 3.0) == 2.0
    assert func.grad(fn, argnums=(2, 0))(2.0, "mul", 3.0, power=2) == (12.0, 9.0)


def test_an_argument_without_leaves_has_a_gradient_without_leaves():
    assert func.grad(lambda p, x: ag.asarray(x).sum())({}, 1.0) == {}


def test_aux_is_returned_beside_the_gradient_without_history():
    def fn(x: Any) -> Any:
        return x * x, {"x": x, "name": "n"}

    gradient, aux = func.grad(fn, has_aux=True)(3.0)
    (value, again), _ = func.value_and_grad(fn, has_aux=True)(ag.tensor(3.0))
    _, pullback, third = func.vjp(fn, 3.0, has_aux=True)

    assert (gradient, aux) == (6.0, {"x": 3.0, "name": "n"})
    assert (value.item(), again["x"].requires_grad) == (9.0, False)
    assert (pullback(1.0), third) == ((6.0,), aux)


AUX: dict[str, Any] = {
    "jacrev": lambda f, x: func.jacrev(f, has_aux=True)(x),
    "jacfwd": lambda f, x: func.jacfwd(f, has_aux=True)(x),
    "jvp": lambda f, x: func.jvp(f, (x,), (1.0,), has_aux=True)[1:],
    "linearize": lambda f, x: (func.linearize(f, x, has_aux=True)[1](1.0), func.linearize(f, x, has_aux=True)[2]),
    "hessian": lambda f, x: func.hessian(lambda x: (f(x)[0] * x, f(x)[1]), has_aux=True)(x),
}


@pytest.mark.parametrize("transform", AUX.values(), ids=AUX)
def test_aux_is_returned_beside_other_derivatives_without_history(transform):
    found, aux = transform(lambda x: (x * x, {"x": x, "name": "n"}), 3.0)

    assert found == 18.0 if transform is AUX["hessian"] else found == 6.0
    assert aux == {"x": 3.0, "name": "n"}
    assert isinstance(aux["x"], np.float64)


def test_no_grad_changes_and_results_have_a_history_where_an_argument_requires_grad():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    gradient = func.grad(lambda x: (x * x * w).sum())(x)
    (second,) = ag.sync.grad(gradient.sum(), [x])

    assert (gradient.tolist(), second.tolist()) == ([6.0, 16.0], [6.0, 8.0])
    assert x.grad is w.grad is None


def test_an_inner_transform_of_an_array_keeps_the_history_of_what_it_captures():
    def outer(x: Any) -> Any:
        return func.grad(lambda y: y * y * x)(2.0)

    assert func.grad(outer)(3.0) == 4.0


def test_gradients_can_be_written_into():
    gradient = func.grad(lambda x: x.sum())(np.ones(3))
    gradient *= 2

    assert gradient.tolist() == [2.0, 2.0, 2.0]


def test_checkpoints_and_hooks_work_inside_of_a_transform():
    seen = []

    def fn(x: Any) -> Any:
        y = ag.checkpoint(lambda x: np.sin(x) * x, x, use_reentrant=False)
        y.register_hook(lambda g: seen.append(g.item()))
        return y

    assert func.grad(fn)(0.5) == pytest.approx(np.sin(0.5) + 0.5 * np.cos(0.5))
    assert seen == [1.0]


def test_scipy_minimizes_over_a_tree():
    optimize = pytest.importorskip("scipy.optimize")
    start, unravel = ag.tree.ravel({"w": np.zeros((2, 1)), "rest": [0.0, None]})

    def loss(vector: Any) -> Any:
        params = unravel(vector)
        return ((params["w"] - np.array([[1.0], [2.0]])) ** 2).sum() + (params["rest"][0] - 3.0) ** 2

    found = optimize.minimize(
        func.value_and_grad(loss), start, jac=True, hess=func.hessian(loss), method="trust-constr"
    )
    params = unravel(found.x)

    np.testing.assert_allclose(params["w"], [[1.0], [2.0]], atol=1e-5)
    assert (params["rest"][0], params["rest"][1]) == (pytest.approx(3.0), None)


def test_scipy_minimizes_with_the_gradients():
    optimize = pytest.importorskip("scipy.optimize")

    found = optimize.minimize(
        func.value_and_grad(lambda x: ((x - POINT) ** 4).sum() + ((x - POINT) ** 2).sum()),
        np.zeros(3),
        jac=True,
        method="L-BFGS-B",
    )
    line = optimize.least_squares(lambda x: x - POINT, np.zeros(3), jac=func.jacrev(lambda x: x - POINT))

    np.testing.assert_allclose(found.x, POINT, atol=1e-5)
    np.testing.assert_allclose(line.x, POINT, atol=1e-8)


# Functions that are awaited.


async def test_async_transforms_return_coroutine_functions_and_nest():
    async def sine(x: Any) -> Any:
        await asyncio.sleep(0)
        return np.sin(x)

    assert inspect.iscoroutinefunction(async_func.grad(np.sin))
    out, pullback = await async_func.vjp(sine, 0.5)

    assert (await async_func.grad(async_func.grad(sine))(0.5), out, await pullback(1.0)) == (
        -np.sin(0.5),
        np.sin(0.5),
        (np.cos(0.5),),
    )


@pytest.mark.parametrize("name", async_func.__all__)
def test_a_blocking_transform_has_the_signature_of_the_awaited_one(name):
    assert inspect.signature(getattr(func, name)) == inspect.signature(getattr(async_func, name))
    assert not inspect.iscoroutinefunction(getattr(func, name))
    assert func.__all__ == async_func.__all__


def test_a_blocking_transform_takes_an_async_function_where_no_loop_runs():
    async def square(x: Any) -> Any:
        await asyncio.sleep(0)
        return x * x

    _, pullback = func.vjp(square, 3.0)

    assert (func.grad(square)(3.0), func.jacrev(square)(3.0), pullback(1.0)) == (6.0, 6.0, (6.0,))


@on_each_loop
def test_a_node_that_suspends_is_awaited_and_blocks_where_no_loop_runs(run):
    async def main() -> Any:
        with pytest.raises(BlockingError) as caught:
            func.grad(async_double)(2.0)
        return await async_func.grad(async_double)(2.0), caught.value

    gradient, error = run(main())

    assert gradient == func.grad(async_double)(2.0) == 2.0
    assert "await ag.func.grad(...)" in str(error) + str(getattr(error, "__notes__", ""))


# Bad use.


def test_a_leaf_that_is_no_number_is_named_by_its_path():
    with pytest.raises(
        GradientTypeError, match=r"ag\.func\.grad: params\['layers'\]\[0\]\.weight must be .* not str 'x'"
    ):
        func.grad(lambda params: params)({"layers": [Layer("x", 1.0)]})
    with pytest.raises(GradientTypeError, match=r"y\[1\] must be .* not bool True: write float\(y\[1\]\)"):
        func.grad(lambda x, y: x, argnums=1)(1.0, [1.0, True])
    with pytest.raises(GradientTypeError, match=r"x\['a'\] must be .* dtype object: write x\['a'\]\.astype\(float\)"):
        func.grad(lambda x: x)({"a": np.array([None])})
    with pytest.raises(GradientTypeError, match=r"x\[0\] must be .* SimpleNamespace.*ag\.tree\.register\(SimpleNames"):
        func.grad(lambda x: x)([SimpleNamespace(w=1.0)])
    with pytest.raises(GradientTypeError, match=r"x\[0\] must be .*: write np\.asarray\(x\[0\]\)"):
        func.grad(lambda x: x)([SimpleNamespace(__array__=lambda: np.ones(2), dtype=np.dtype(float))])


@pytest.mark.parametrize(
    ("fn", "error", "message"),
    [
        (lambda x: x, InvalidRootError, r"must return one number, not a tensor of shape \(3,\)"),
        (lambda x: [x.sum()], GradientTypeError, "must return one Tensor, not list .* with has_aux=True"),
        (lambda x: x.detach().numpy(), GradientTypeError, "its result is ndarray of shape"),
        (lambda x: None, GradientTypeError, "must return one Tensor, not NoneType None"),
    ],
)
def test_a_function_that_returns_no_number_is_refused(fn, error, message):
    with pytest.raises(error, match=message):
        func.grad(fn)(POINT)


def test_vectors_that_do_not_fit_are_named_by_their_path():
    _, pullback = func.vjp(lambda x: {"y": [x]}, POINT)

    with pytest.raises(InvalidGradientError, match=r"cotangents\['y'\]\[0\] must have the shape \(3,\)"):
        pullback({"y": [np.ones(2)]})
    with pytest.raises(ArgumentError, match=r"cotangents\['y'\] is a tuple, but the output has a list there"):
        pullback({"y": (POINT,)})
    with pytest.raises(InvalidGradientError, match=r"tangents\[0\] must have the shape \(3,\), but is str"):
        func.jvp(np.sin, (POINT,), ("v",))
    with pytest.raises(InvalidGradientError, match=r"tangents\[0\] must be real, .* complex128: take its \.real"):
        func.jvp(np.sin, (POINT,), (POINT * 1j,))
    with pytest.raises(ArgumentTypeError, match=r"tangents must be a tuple .* not ndarray .*: write \(v,\)"):
        func.jvp(np.sin, (POINT,), POINT)


def test_bad_use_of_transforms_is_told():
    with pytest.raises(ArgumentTypeError, match=r"ag\.func\.grad takes a function as its first argument, not float"):
        func.grad(1.0)  # type: ignore[call-overload]
    with pytest.raises(ArgumentTypeError, match=r"ag\.func\.vjp takes a function as its first argument, not float"):
        func.vjp(1.0, 2.0)  # type: ignore[call-overload]
    with pytest.raises(ArgumentTypeError, match=r"write ag\.func\.jvp\(f, \(x,\), \(v,\)\)"):
        func.jvp(np.sin, POINT, POINT)
    with pytest.raises(ArgumentTypeError, match="with has_aux=True the function must return a pair"):
        func.grad(lambda x: x, has_aux=True)(1.0)
    with pytest.raises(
        GradientTypeError, match=r"ag\.func\.grad: the function must return a real number, not .* complex128"
    ):
        func.grad(lambda x: x * 1j)(1.0)
    with pytest.raises(ArgumentTypeError, match=r"ag\.func\.jacfwd: output 0 of the function is complex"):
        func.jacfwd(lambda x: x * 1j)(1.0)
    with pytest.raises(ArgumentTypeError, match=r"ag\.func\.jacrev: output 0 of the function is complex"):
        func.jacrev(lambda x: x * 1j)(1.0)
    with pytest.raises(ArgumentTypeError, match=r"argnums must be an int .* not \[0, 1\]: write \(0, 1\)"):
        func.grad(np.multiply, argnums=[0, 1])  # type: ignore[call-overload]
    with pytest.raises(
        GradientTypeError, match=r"ag\.func\.jacrev: the function must return Tensors, not NoneType None"
    ):
        func.jacrev(lambda x: None)(1.0)
    with pytest.raises(TypeError, match="argnums names argument 1"):
        func.grad(np.sin, argnums=1)(1.0)


def test_a_hessian_product_of_several_arguments_takes_a_tuple_of_vectors():
    def f(x, y):
        return (x * x * y["s"]).sum()

    product = func.hvp(f)(np.array([1.0, 2.0]), {"s": 3.0}, (np.array([1.0, 0.0]), {"s": 1.0}))

    assert product[0].tolist() == [6.0 + 2.0, 4.0]
    assert product[1]["s"] == 2.0


def test_a_hessian_product_without_a_vector_is_told_how_to_be_written():
    with pytest.raises(ArgumentTypeError, match=r"write ag\.func\.hvp\(f, \(x,\), \(v,\)\)"):
        func.hvp(energy, (POINT,))  # type: ignore[call-overload]
    with pytest.raises(ArgumentTypeError, match="called with 1 arguments"):
        func.hvp(energy)(POINT)


EMPTY: dict[str, Callable[[Any], Any]] = {
    "grad": lambda tree: func.grad(lambda p: ag.tensor(1.0))(tree),
    "jacrev": lambda tree: func.jacrev(lambda p: ag.tensor(1.0))(tree),
    "jacfwd": lambda tree: func.jacfwd(lambda p: ag.tensor(1.0))(tree),
    "hessian": lambda tree: func.hessian(lambda p: ag.tensor(1.0))(tree),
    "hvp": lambda tree: func.hvp(lambda p: ag.tensor(1.0), (tree,), (tree,)),
    "vjp": lambda tree: func.vjp(lambda p: ag.tensor(1.0), tree)[1](1.0)[0],
}


@pytest.mark.parametrize("transform", EMPTY.values(), ids=EMPTY)
def test_derivatives_by_a_tree_without_leaves_are_such_a_tree(transform):
    assert transform({"none": None, "list": [()]}) == {"none": None, "list": [()]}


def test_products_by_a_tree_without_leaves_are_zeros():
    for product in (
        func.jvp(lambda p: ag.tensor(POINT), ({},), ({},))[1],
        func.linearize(lambda p: ag.tensor(POINT), {})[1]({}),
    ):
        assert product.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("empty", [(), [], {}, {"nothing": None}, ([], {})], ids=repr)
def test_a_function_may_return_a_tree_without_leaves(empty):
    def nothing(x: Any) -> Any:
        return empty

    _, pullback = func.vjp(nothing, POINT)
    _, pushforward = func.linearize(nothing, POINT)

    assert func.jacrev(nothing)(POINT) == func.jacfwd(nothing)(POINT) == empty
    assert func.jvp(nothing, (POINT,), (POINT,)) == (empty, empty)
    assert pushforward(POINT) == empty
    np.testing.assert_array_equal(pullback(empty)[0], np.zeros(3))


def holomorphic_field(z: Any) -> Any:
    return np.exp(z) * z[::-1] / (2 + z * z)


COMPLEX_POINT = POINT + 1j * np.array([0.2, -0.4, 0.1])


def test_holomorphic_derivatives_are_those_by_complex_steps():
    def complex_differences(f: Any, at: np.ndarray) -> np.ndarray:
        steps = 1e-6 * np.eye(3)
        return np.stack([(np.asarray(f(at + step)) - np.asarray(f(at - step))) / 2e-6 for step in steps], -1)

    def total(z: Any) -> Any:
        return holomorphic_field(z).sum()

    gradient = func.grad(total, holomorphic=True)
    jacobian = complex_differences(holomorphic_field, COMPLEX_POINT)

    np.testing.assert_allclose(gradient(COMPLEX_POINT), complex_differences(total, COMPLEX_POINT), atol=1e-8)
    np.testing.assert_allclose(func.value_and_grad(total, holomorphic=True)(COMPLEX_POINT)[1], gradient(COMPLEX_POINT))
    for transform in (func.jacrev, func.jacfwd):
        np.testing.assert_allclose(transform(holomorphic_field, holomorphic=True)(COMPLEX_POINT), jacobian, atol=1e-8)
    np.testing.assert_allclose(
        func.elementwise_grad(np.tanh, holomorphic=True)(COMPLEX_POINT), 1 / np.cosh(COMPLEX_POINT) ** 2
    )
    hessian = func.hessian(total, holomorphic=True)(COMPLEX_POINT)
    np.testing.assert_allclose(hessian, complex_differences(gradient, COMPLEX_POINT), atol=1e-8)
    np.testing.assert_allclose(hessian, func.jacrev(gradient, holomorphic=True)(COMPLEX_POINT))


def test_a_holomorphic_function_takes_and_returns_complex_numbers():
    for transform in (func.grad, func.value_and_grad, func.elementwise_grad, func.jacrev, func.jacfwd, func.hessian):
        with pytest.raises(GradientTypeError, match="holomorphic=True an argument must be complex"):
            transform(lambda z: z, holomorphic=True)(1.0)
        with pytest.raises(GradientTypeError, match="holomorphic=True the result must be complex"):
            transform(abs, holomorphic=True)(1j)


@pytest.mark.parametrize("name", ["grad", "value_and_grad", "elementwise_grad", "jacrev", "jacfwd", "hessian"])
def test_a_transformed_function_that_nobody_awaits_is_named_with_its_transform(name):
    def loss(x: Any) -> Any:
        return x * x

    with pytest.warns(RuntimeWarning, match=rf"coroutine 'ag\.func\.{name}\(loss\)' was never awaited"):
        getattr(async_func, name)(loss)(1.0)


def test_a_transformed_function_says_what_it_returns():
    def loss(x: Any, y: Any = 1.0) -> Any:
        """Return the loss."""
        return x * y

    for blocks, transforms in ((False, async_func), (True, func)):
        gradient = transforms.grad(loss)
        assert inspect.iscoroutinefunction(gradient) is not blocks
        assert gradient.__name__ == "loss"
        assert list(inspect.signature(gradient).parameters) == ["x", "y"]
        assert gradient.__doc__ == (
            "Return the gradient of `loss` with respect to argument 0; it takes the arguments of `loss`."
        )
        hessian = transforms.hessian(functools.partial(loss, y=2.0), argnums=(0, 1))
        assert hessian.__name__ == "loss"
        assert hessian.__doc__.startswith("Return the Hessian of `loss` with respect to arguments 0, 1;")
