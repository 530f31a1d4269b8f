"""Transforms inside of transforms: what an inner one returns has a history, so that the outer one differentiates it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from tests.support.leaves import leaf

POINT = np.array([0.3, 0.7, 1.1])
ONES = np.ones(3)


def sum_of_x_sin_x(x: Any) -> Any:
    return (np.sin(x) * x).sum()


#: Each gives the gradient of `sum_of_x_sin_x`, whose derivative is known.
GRADIENTS: dict[str, Callable[[Any], Any]] = {
    "value_and_grad": lambda x: sync.value_and_grad(sum_of_x_sin_x)(x)[1],
    "vjp": lambda x: sync.vjp(sum_of_x_sin_x, x)[1],
    "vjp with v": lambda x: sync.vjp(lambda y: np.sin(y) * y, x, ONES)[1],
    "jvp": lambda x: sync.jvp(lambda y: np.sin(y) * y, x, ONES)[1],
    "jacobian": lambda x: sync.jacobian(sum_of_x_sin_x, x),
}
#: Each gives the derivative of a gradient, as a vector or as the diagonal of a matrix.
DERIVATIVES: dict[str, Callable[[Any], Any]] = {
    "value_and_grad": lambda g: sync.value_and_grad(lambda x: g(x).sum())(POINT)[1].numpy(),
    "vjp": lambda g: sync.vjp(g, POINT, ONES)[1].numpy(),
    "jvp": lambda g: sync.jvp(g, POINT, ONES)[1].numpy(),
    "jacobian": lambda g: sync.jacobian(g, POINT).numpy().diagonal(),
}


def second_derivative() -> Any:
    return 2 * np.cos(POINT) - POINT * np.sin(POINT)


@pytest.mark.parametrize("outer", DERIVATIVES.values(), ids=DERIVATIVES)
@pytest.mark.parametrize("inner", GRADIENTS.values(), ids=GRADIENTS)
def test_a_transform_of_a_transform_is_the_second_derivative(inner, outer):
    np.testing.assert_allclose(outer(inner), second_derivative(), rtol=1e-12)


@pytest.mark.parametrize("outer", DERIVATIVES.values(), ids=DERIVATIVES)
@pytest.mark.parametrize("transform", ["vhp", "hvp"])
def test_a_transform_of_a_hessian_product_is_the_third_derivative(transform, outer):
    product = getattr(sync, transform)

    found = outer(lambda x: product(sum_of_x_sin_x, x, ONES)[1])
    np.testing.assert_allclose(found, -3 * np.sin(POINT) - POINT * np.cos(POINT), rtol=1e-12)


@pytest.mark.parametrize("outer", DERIVATIVES.values(), ids=DERIVATIVES)
def test_a_transform_of_a_hessian_is_the_third_derivative(outer):
    found = outer(lambda x: np.diagonal(sync.hessian(sum_of_x_sin_x, x)))

    np.testing.assert_allclose(found, -3 * np.sin(POINT) - POINT * np.cos(POINT), rtol=1e-12)


def test_transforms_nest_to_any_depth():
    def derived(fn: Any) -> Any:
        return lambda x: sync.value_and_grad(fn)(x)[1]

    fn: Any = np.exp
    for _ in range(5):
        fn = derived(fn)

    assert fn(0.5).item() == pytest.approx(np.exp(0.5), rel=1e-14)


def test_what_the_inner_function_captures_of_the_outer_one_is_differentiated():
    def outer(x: Any) -> Any:
        return sync.value_and_grad(lambda y: y * y * x)(2.0)[1]

    assert sync.value_and_grad(outer)(3.0)[1].item() == 4.0


def test_an_argument_of_the_outer_function_is_a_constant_of_the_inner_one():
    def outer(x: Any) -> Any:
        return x * sync.value_and_grad(lambda y: x + y)(1.0)[1]

    assert sync.value_and_grad(outer)(1.0)[1].item() == 1.0


def test_the_value_that_an_inner_transform_returns_is_differentiated():
    assert sync.value_and_grad(lambda x: sync.value_and_grad(np.sin)(x)[0])(0.5)[1].item() == np.cos(0.5)


def test_an_inner_transform_under_no_grad_is_a_constant():
    def outer(x: Any) -> Any:
        with ag.no_grad():
            slope = sync.value_and_grad(np.sin)(x)[1]
        return x * slope

    assert sync.value_and_grad(outer)(0.5)[1].item() == np.cos(0.5)


def test_an_inner_transform_with_create_graph_false_is_a_constant():
    def outer(x: Any) -> Any:
        return x * sync.value_and_grad(np.sin, create_graph=False)(x)[1]

    assert sync.value_and_grad(outer)(0.5)[1].item() == np.cos(0.5)


async def test_async_transforms_nest():
    async def sine(x: Any) -> Any:
        return np.sin(x)

    async def slope(x: Any) -> Any:
        return (await ag.value_and_grad(sine)(x))[1]

    assert (await ag.value_and_grad(slope)(0.5))[1].item() == -np.sin(0.5)


def test_a_transform_inside_of_a_checkpoint_nests():
    def slope(x: Any) -> Any:
        return sync.value_and_grad(lambda y: y * y * x)(2.0)[1]

    def outer(x: Any) -> Any:
        return ag.checkpoint(slope, x, use_reentrant=False)

    assert sync.value_and_grad(outer)(3.0)[1].item() == 4.0


def test_nested_transforms_touch_no_grad():
    w = leaf(1.0, 2.0)
    result = sync.jacobian(lambda x: sync.value_and_grad(lambda y: (y * y * w).sum())(x)[1], POINT[:2])

    assert result.numpy().diagonal().tolist() == [2.0, 4.0]
    assert w.grad is None


def test_the_mode_of_a_transform_ends_with_it():
    sync.value_and_grad(np.sin)(0.5)
    with pytest.raises(ZeroDivisionError):
        sync.value_and_grad(lambda x: 1 / 0)(0.5)

    assert not sync.value_and_grad(np.sin)(0.5)[1].requires_grad


def test_strict_asks_an_inner_transform_for_no_second_derivative():
    def slope(x: Any) -> Any:
        return sync.vjp(lambda y: 3 * y, x, ONES, strict=True)[1] * x

    assert sync.jacobian(slope, POINT).numpy().diagonal().tolist() == [3.0, 3.0, 3.0]


@pytest.mark.parametrize("base", ["leaf", "computed"])
def test_a_view_made_under_no_grad_is_an_argument_like_any_other(base):
    x = leaf(2.0, 1.5, 1.0)
    whole = x if base == "leaf" else x * 1
    with ag.no_grad():
        view = whole[1:]
    value, gradient = sync.value_and_grad(lambda x: (x * x).sum(), create_graph=True)(view)
    _, product = sync.vjp(lambda x: x * x, view, np.ones(2), create_graph=True)
    _, along = sync.jvp(lambda x: x * x, view, np.ones(2), create_graph=True)
    matrix = sync.jacobian(lambda x: x * x, view, create_graph=True)

    assert value.item() == 3.25
    assert gradient.tolist() == product.tolist() == along.tolist() == matrix.numpy().diagonal().tolist() == [3.0, 2.0]
