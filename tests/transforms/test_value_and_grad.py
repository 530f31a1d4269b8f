"""value_and_grad: a function of arrays or tensors that also returns its gradient."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.errors import GradientTypeError, InvalidRootError, RequiresGradError
from asyncgrad.functional import value_and_grad
from tests.support.leaves import leaf, leaf_of
from tests.support.loops import one_loop
from tests.support.transforms import cube


def loss(w, x, *, power=2):
    return ((w * x) ** power).sum()


@one_loop
async def test_value_and_grad_differentiates_the_first_argument_and_touches_no_grad():
    w, x = leaf(1.0, 2.0), leaf(3.0, 4.0)
    value, gradient = await value_and_grad(loss)(w, x)

    assert value.item() == 73.0
    assert gradient.numpy().tolist() == [18.0, 64.0]
    assert w.grad is x.grad is None


@pytest.mark.parametrize("position", [0, 1])
def test_value_and_gradient_have_a_history_where_any_argument_requires_grad(position):
    arguments: list[Any] = [ag.tensor([1.0, 2.0]), ag.tensor([3.0, 4.0])]
    arguments[position].requires_grad_()
    value, gradient = ag.run(value_and_grad(loss)(*arguments))
    (derivative,) = ag.sync.grad(gradient.sum(), [arguments[position]])

    assert value.requires_grad
    # of 2 w x²
    assert derivative.tolist() == ([18.0, 32.0] if position == 0 else [12.0, 32.0])


@one_loop
async def test_a_keyword_argument_that_requires_grad_gives_a_history_too():
    power = leaf_of(2.0)
    value, gradient = await value_and_grad(loss)(np.array(2.0), 3.0, power=power)

    assert (value.requires_grad, gradient.requires_grad) == (True, True)


@one_loop
async def test_a_tensor_inside_of_an_argument_that_requires_grad_gives_a_history_too():
    _, gradient = await value_and_grad(lambda x, parts: x * parts["w"][0])(2.0, {"w": [leaf_of(3.0)]})

    assert gradient.requires_grad


@one_loop
@pytest.mark.parametrize("create_graph", [None, False])
async def test_value_and_gradient_have_no_history_where_nobody_may_ask_for_it(create_graph):
    w = ag.tensor([1.0, 2.0], requires_grad=create_graph is False)
    value, gradient = await value_and_grad(loss, create_graph=create_graph)(w, np.array([3.0, 4.0]))

    assert (value.requires_grad, gradient.requires_grad) == (False, False)


@one_loop
@pytest.mark.parametrize("argnums", [(0, 1), (1, 0), (1,), (-1, 0)], ids=str)
async def test_several_argnums_give_a_tuple_in_their_order(argnums):
    value, gradients = await value_and_grad(loss, argnums)(np.array([1.0, 2.0]), np.array([3.0, 4.0]))

    expected = {0: [18.0, 64.0], 1: [6.0, 32.0]}
    assert value.item() == 73.0
    assert [gradient.numpy().tolist() for gradient in gradients] == [expected[number % 2] for number in argnums]


@one_loop
async def test_one_argnum_gives_one_tensor():
    _, gradient = await value_and_grad(loss, -1)(np.array([1.0, 2.0]), np.array([3.0, 4.0]))

    assert gradient.numpy().tolist() == [6.0, 32.0]


@one_loop
async def test_a_tree_of_parameters_gives_a_tree_of_gradients():
    params = {"w": np.array([1.0, 2.0]), "rest": [(ag.tensor(3.0), None), {}]}
    value, gradient = await value_and_grad(lambda p, x: (p["w"] * x).sum() * p["rest"][0][0])(params, 10.0)

    assert value.item() == 90.0
    assert {type(leaf) for leaf in ag.tree.leaves(gradient)} == {ag.Tensor}
    assert ag.tree.map(lambda leaf: leaf.tolist(), gradient) == {"w": [30.0, 30.0], "rest": [(30.0, None), {}]}


@one_loop
async def test_keyword_arguments_are_passed_on():
    value, gradient = await value_and_grad(loss)(np.array(2.0), 3.0, power=3)

    assert (value.item(), gradient.item()) == (216.0, 324.0)


def test_value_and_grad_is_an_async_function_with_the_name_and_signature_of_its_function():
    transformed = value_and_grad(loss)

    assert inspect.iscoroutinefunction(transformed)
    assert (transformed.__name__, inspect.signature(transformed)) == ("loss", inspect.signature(loss))


@one_loop
async def test_value_and_grad_of_an_async_function():
    async def fn(x):
        await asyncio.sleep(0)
        return x * x

    value, gradient = await value_and_grad(fn)(np.array(3.0))

    assert (value.item(), gradient.item()) == (9.0, 6.0)


@one_loop
async def test_an_argument_that_does_not_matter_has_a_gradient_of_zeros():
    _, gradients = await value_and_grad(lambda x, y: x * x, (0, 1))(np.array(3.0), np.array([1.0, 2.0]))

    assert gradients[1].numpy().tolist() == [0.0, 0.0]


@one_loop
async def test_value_and_grad_with_create_graph_can_be_nested():
    async def slope(x):
        return (await value_and_grad(cube, create_graph=True)(x))[1]

    value, gradient = await value_and_grad(slope)(np.array(2.0))

    assert (value.item(), gradient.item()) == (12.0, 12.0)


@pytest.mark.parametrize("argnums", [1.0, "0", (0, "1"), (), True, None], ids=repr)
def test_argnums_that_are_no_ints_are_refused_at_once(argnums):
    with pytest.raises(TypeError, match="argnums must be an int or a tuple of ints"):
        value_and_grad(loss, argnums)


@one_loop
async def test_argnums_that_name_no_argument_or_one_twice_are_refused():
    with pytest.raises(ValueError, match="twice"):
        value_and_grad(loss, (0, 0))
    with pytest.raises(ValueError, match="twice"):
        await value_and_grad(loss, (0, -2))(np.array(1.0), np.array(1.0))
    with pytest.raises(TypeError, match="argument 2, but the function was called with 2"):
        await value_and_grad(loss, 2)(np.array(1.0), np.array(1.0))


@one_loop
async def test_value_and_grad_names_the_argument_or_output_that_is_wrong():
    with pytest.raises(GradientTypeError, match=r"argument 0\['w'\]\[1\] must be a tensor or an array, not str"):
        await value_and_grad(loss)({"w": [1.0, "text"]}, 1.0)
    with pytest.raises(RequiresGradError, match=r"argument 0\[0\] has dtype int64"):
        await value_and_grad(loss)([np.array([1])], 1.0)
    with pytest.raises(RequiresGradError, match="argument 1 has dtype int64"):
        await value_and_grad(loss, 1)(np.array(1.0), np.array(1))
    with pytest.raises(GradientTypeError, match="argument 0 must be a tensor or an array, not list"):
        await value_and_grad(loss)([1.0], 1.0)
    with pytest.raises(InvalidRootError, match=r"one number, not a tensor of shape \(2,\)"):
        await value_and_grad(cube)(np.array([1.0, 2.0]))
    with pytest.raises(GradientTypeError, match="one number as a Tensor, not float"):
        await value_and_grad(lambda x: 3.0)(np.array(1.0))
