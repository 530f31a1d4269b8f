"""value_and_grad, vjp, jvp, vhp, hvp, jacobian, hessian: what they return, and whose history it has."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.core.settings import scheduling
from asyncgrad.errors import (
    GradientTypeError,
    InPlaceError,
    InvalidGradientError,
    InvalidRootError,
    RequiresGradError,
    UnusedInputError,
)
from asyncgrad.functional import hessian, hvp, jacobian, jvp, value_and_grad, vhp, vjp
from tests.support.leaves import leaf, leaf_of
from tests.support.loops import one_loop
from tests.support.nodes import async_double
from tests.support.transforms import cube

ALL = [vjp, jvp, vhp, hvp, jacobian, hessian]
PRODUCTS = [vjp, jvp, vhp, hvp]
of_each = pytest.mark.parametrize("transform", ALL, ids=lambda transform: transform.__name__)


def derivative(transform: Any, result: Any) -> Any:
    """Leave out the outputs of fn, which the products return ahead of the derivative."""
    return result[1] if transform in PRODUCTS else result


# What is returned.


@one_loop
async def test_vjp_multiplies_the_jacobian_from_the_left():
    inputs = (np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    outputs, product = await vjp(lambda x, y: x * x * y, inputs, np.array([1.0, 10.0]))

    assert outputs.numpy().tolist() == [3.0, 16.0]
    assert [part.numpy().tolist() for part in product] == [[6.0, 160.0], [1.0, 40.0]]


@one_loop
async def test_jvp_multiplies_the_jacobian_from_the_right():
    v = (np.array([1.0, 10.0]), np.array([0.0, 1.0]))
    outputs, product = await jvp(lambda x, y: x * x * y, (np.array([1.0, 2.0]), np.array([3.0, 4.0])), v)

    assert outputs.numpy().tolist() == [3.0, 16.0]
    assert product.numpy().tolist() == [6.0, 164.0]


@one_loop
@pytest.mark.parametrize("transform", [vhp, hvp])
async def test_products_with_the_hessian_return_the_value_first(transform):
    value, product = await transform(lambda x, y: x * x * y, (np.array(3.0), np.array(5.0)), (1.0, 10.0))

    assert value.item() == 45.0
    assert [part.item() for part in product] == [70.0, 6.0]


@one_loop
async def test_a_jacobian_has_the_axes_of_the_output_and_then_those_of_the_input():
    x = np.arange(6.0).reshape(2, 3)
    result = await jacobian(lambda x: x * x, x)

    expected = np.zeros((2, 3, 2, 3))
    for i, j in np.ndindex(2, 3):
        expected[i, j, i, j] = 2 * x[i, j]
    assert np.array_equal(result.numpy(), expected)


@one_loop
async def test_a_hessian_has_the_axes_of_both_inputs():
    blocks = await hessian(lambda x, y: (x * x * y).sum(), (np.array([1.0, 2.0]), np.array(3.0)))

    assert [[block.shape for block in row] for row in blocks] == [[(2, 2), (2,)], [(2,), ()]]
    assert blocks[0][0].numpy().tolist() == [[6.0, 0.0], [0.0, 6.0]]
    assert blocks[0][1].numpy().tolist() == [2.0, 4.0]


@one_loop
@pytest.mark.parametrize("inputs_as_tuple", [False, True])
@pytest.mark.parametrize("outputs_as_tuple", [False, True])
async def test_results_have_the_structure_of_what_they_belong_to(inputs_as_tuple, outputs_as_tuple):
    x = np.array(3.0)
    inputs = (x,) if inputs_as_tuple else x

    def fn(x):
        return (x * x,) if outputs_as_tuple else x * x

    outputs, left = await vjp(fn, inputs, 1.0)
    _, right = await jvp(fn, inputs, 1.0)
    full = await jacobian(fn, inputs)

    assert (outputs_as_tuple, inputs_as_tuple) == (isinstance(outputs, tuple), isinstance(left, tuple))
    assert outputs_as_tuple == isinstance(right, tuple)
    assert isinstance(full, tuple) == (inputs_as_tuple or outputs_as_tuple)
    if inputs_as_tuple and outputs_as_tuple:
        assert isinstance(full[0], tuple)
    assert [part.item() for part in _leaves(full)] == [6.0]


@one_loop
@pytest.mark.parametrize("as_tuple", [False, True])
async def test_results_of_second_order_have_the_structure_of_the_inputs(as_tuple):
    x = np.array(2.0)
    inputs = (x,) if as_tuple else x
    products = [(await transform(cube, inputs))[1] for transform in (vhp, hvp)]
    full = await hessian(cube, inputs)

    if as_tuple:
        assert isinstance(full[0], tuple)
        products, full = [product[0] for product in products], full[0][0]
    assert [product.item() for product in products] == [12.0, 12.0]
    assert full.item() == 12.0


@one_loop
@of_each
async def test_an_input_that_does_not_matter_has_zeros(transform):
    inputs = (np.array(2.0), np.array([1.0, 1.0]))
    v = () if transform in (jacobian, hessian) else (1.0,) if transform is vjp else ((1.0, np.array([1.0, 1.0])),)
    result = derivative(transform, await transform(lambda x, y: cube(x), inputs, *v))

    flat = np.concatenate([np.ravel(part.numpy()) for part in _leaves(result)])
    assert sorted(flat)[-1] == 12.0
    assert np.count_nonzero(flat) == 1


def _leaves(result: Any) -> list[ag.Tensor]:
    return [part for entry in result for part in _leaves(entry)] if isinstance(result, tuple) else [result]


@one_loop
@of_each
async def test_a_function_of_no_input_has_zeros(transform):
    result = derivative(transform, await transform(lambda x: ag.tensor(1.0), np.array(2.0)))

    assert result.item() == 0.0


@one_loop
async def test_a_jacobian_of_nothing_is_empty():
    result = await jacobian(lambda x: ag.tensor(np.zeros((0, 2))) * x, np.array(2.0))

    assert result.shape == (0, 2)


@one_loop
async def test_float32_stays_float32():
    x = np.array([1.0, 2.0], np.float32)
    results = [
        *await vjp(cube, x, np.ones(2)),
        *await jvp(cube, x, np.ones(2)),
        await jacobian(cube, x),
        *await vhp(lambda x: cube(x).sum(), x, np.ones(2)),
        await hessian(lambda x: cube(x).sum(), x),
        *await value_and_grad(lambda x: cube(x).sum())(x),
    ]

    assert {result.dtype for result in results} == {np.dtype(np.float32)}


# History.


@one_loop
@of_each
async def test_results_have_no_history_where_no_argument_requires_grad(transform):
    results = _leaves(await transform(cube, ag.tensor(2.0)))

    assert not any(result.requires_grad for result in results)


@one_loop
@of_each
async def test_results_have_a_history_where_an_argument_requires_grad(transform):
    x = leaf_of(2.0)
    results = _leaves(await transform(cube, x))

    assert all(result.requires_grad for result in results)
    assert x.grad is None


@one_loop
@pytest.mark.parametrize("transform", PRODUCTS, ids=lambda transform: transform.__name__)
async def test_results_have_a_history_where_v_requires_grad(transform):
    _, product = await transform(cube, ag.tensor(2.0), leaf_of(1.0))

    assert product.requires_grad


@one_loop
@of_each
async def test_results_have_no_history_under_no_grad(transform):
    with ag.no_grad():
        results = _leaves(await transform(cube, leaf_of(2.0)))

    assert not any(result.requires_grad for result in results)


@one_loop
@of_each
async def test_results_have_no_history_with_create_graph_false(transform):
    x = leaf_of(2.0)
    results = _leaves(await transform(cube, x, create_graph=False))

    assert not any(result.requires_grad for result in results)
    assert x.grad is None


@of_each
async def test_results_with_create_graph_can_be_differentiated(transform):
    x = leaf_of(2.0)

    order = 1 if transform in (vjp, jvp, jacobian) else 2
    result = derivative(transform, await transform(cube, x, create_graph=True))

    assert ((await ag.grad(result, [x]))[0].item(), result.item()) == ((12.0, 12.0) if order == 1 else (6.0, 12.0))
    assert x.grad is None


@of_each
async def test_the_history_of_an_input_is_part_of_the_result_with_create_graph(transform):
    x = leaf_of(1.0)

    order = 1 if transform in (vjp, jvp, jacobian) else 2
    result = derivative(transform, await transform(cube, x * 2, create_graph=True))

    assert (await ag.grad(result, [x]))[0].item() == (24.0 if order == 1 else 12.0)


@pytest.mark.parametrize("transform", PRODUCTS, ids=lambda transform: transform.__name__)
async def test_the_history_of_v_is_part_of_the_result_with_create_graph(transform):
    v = leaf_of(5.0)

    _, product = await transform(cube, np.array(2.0), v, create_graph=True)

    assert ((await ag.grad(product, [v]))[0].item(), product.item()) == (12.0, 60.0)


@one_loop
@of_each
async def test_a_tensor_that_the_function_captures_is_no_input(transform):
    x = leaf_of(2.0)
    result = derivative(transform, await transform(lambda argument: cube(argument) * x, x))

    assert result.item() == 24.0


@of_each
async def test_the_function_is_recorded_also_under_no_grad(transform):
    with ag.no_grad():
        result = derivative(transform, await transform(cube, leaf_of(2.0)))
        found = result.item(), ag.is_grad_enabled()

    assert found == (12.0, False)


# Functions and nodes that suspend.


@of_each
async def test_the_function_may_be_async(transform):
    async def fn(x):
        await asyncio.sleep(0)
        return cube(x)

    assert derivative(transform, await transform(fn, leaf_of(2.0))).item() == 12.0


async def test_async_functions_of_several_transforms_overlap():
    arrived = [asyncio.Event(), asyncio.Event()]

    async def fn(x, number):
        arrived[number].set()
        await arrived[1 - number].wait()
        return x * x

    async def one(number):
        return (await vjp(lambda x: fn(x, number), leaf_of(3.0)))[1].item()

    assert (await asyncio.gather(one(0), one(1))) == [6.0, 6.0]


@one_loop
async def test_async_nodes_are_awaited():
    calls: list[int] = []
    result = await jacobian(lambda x: async_double(x * x, calls), np.array([1.0, 2.0]))

    assert result.numpy().tolist() == [[4.0, 0.0], [0.0, 8.0]]
    assert len(calls) == 2


async def test_a_transform_of_many_short_backwards_lets_the_loop_turn():
    turns = 0

    def turn():
        nonlocal turns
        turns += 1
        asyncio.get_running_loop().call_soon(turn)

    turn()
    scheduling.LOOP_BUDGET.set(1e-9)
    await jacobian(lambda x: x * x, np.ones(10))

    assert turns > 10


async def test_a_transform_that_is_cancelled_leaves_no_gradient_behind():
    x = leaf_of(2.0)

    stuck = asyncio.Event()

    async def fn(argument):
        stuck.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(vjp(fn, x))
    await stuck.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert x.grad is None


# strict.


@one_loop
@of_each
async def test_strict_refuses_an_output_that_is_not_computed_from_the_inputs(transform):
    with pytest.raises(UnusedInputError, match=r"strict=True does not allow"):
        await transform(lambda x: ag.tensor(1.0), np.array(2.0), strict=True)


@one_loop
@of_each
async def test_strict_refuses_an_input_that_does_not_matter_and_names_it(transform):
    v = ((1.0, 1.0),) if transform in (jvp, vhp, hvp) else ()
    with pytest.raises(UnusedInputError, match=r"input 1\b"):
        await transform(lambda x, y: cube(x), (np.array(2.0), np.array(1.0)), *v, strict=True)


@one_loop
@pytest.mark.parametrize("transform", [vhp, hvp, hessian])
async def test_strict_refuses_a_gradient_that_is_constant(transform):
    with pytest.raises(UnusedInputError, match="gradient of the function"):
        await transform(lambda x: x * 2.0, np.array(2.0), strict=True)


@one_loop
@pytest.mark.parametrize("transform", [vjp, jacobian])
async def test_strict_with_create_graph_refuses_a_jacobian_that_is_constant(transform):
    with pytest.raises(UnusedInputError, match=r"constant"):
        await transform(lambda x: x * 2.0, leaf_of(2.0), strict=True, create_graph=True)


# Bad use.


@one_loop
@of_each
@pytest.mark.parametrize("inputs", [[1.0], "x", None, ("x",), ()], ids=repr)
async def test_inputs_that_are_no_tensors_are_named(transform, inputs):
    with pytest.raises(GradientTypeError, match=rf"{transform.__name__}: inputs"):
        await transform(cube, inputs)


@one_loop
@of_each
async def test_inputs_of_integers_are_named_with_their_dtype(transform):
    with pytest.raises(RequiresGradError, match=rf"{transform.__name__}: input 1 has dtype int64"):
        await transform(lambda x, y: x * y, (np.array(1.0), np.array([1])))


@one_loop
@of_each
@pytest.mark.parametrize("returned", [3.0, np.array(3.0), [1.0]], ids=repr)
async def test_a_function_that_returns_no_tensor_is_told_so(transform, returned):
    with pytest.raises(GradientTypeError, match="must"):
        await transform(lambda x: returned, np.array(1.0))


@one_loop
@pytest.mark.parametrize("transform", [vhp, hvp, hessian])
async def test_second_derivatives_want_one_number(transform):
    with pytest.raises(InvalidRootError, match=r"one number, not a tensor of shape \(2,\)"):
        await transform(cube, np.array([1.0, 2.0]), *([np.ones(2)] if transform is not hessian else []))


@one_loop
@pytest.mark.parametrize("transform", PRODUCTS)
async def test_v_may_be_left_out_for_one_number_only(transform):
    with pytest.raises(InvalidGradientError, match=r"v may be omitted only .* \(2,\)"):
        await transform(cube, np.array([1.0, 2.0]))


@one_loop
@pytest.mark.parametrize("transform", PRODUCTS)
async def test_v_of_the_wrong_shape_is_named_with_both_shapes(transform):
    fn = cube if transform in (vjp, jvp) else lambda x: cube(x).sum()
    with pytest.raises(InvalidGradientError, match=r"v\[0\] must have the shape \(2,\) of (in|out)put 0, not \(3,\)"):
        await transform(fn, np.array([1.0, 2.0]), np.ones(3))
    with pytest.raises(InvalidGradientError, match="v has 2 tensors"):
        await transform(fn, np.array([1.0, 2.0]), (np.ones(2), np.ones(2)))


@one_loop
@pytest.mark.parametrize("create_graph", [None, True])
@pytest.mark.parametrize("transform", [value_and_grad, vjp, jvp, jacobian])
async def test_an_argument_whose_history_is_kept_gives_no_wrong_derivative_where_it_is_written_over(
    transform, create_graph
):
    def fn(x: Any) -> Any:
        before = x * 2
        with ag.no_grad():
            x += 1
        return (before + x).sum()

    x = leaf(1.0, 2.0)
    vector = (leaf(1.0, 2.0),) if transform is jvp else ()
    if transform is value_and_grad:
        running = value_and_grad(fn, create_graph=create_graph)(x)
    else:
        running = transform(fn, x, *vector, create_graph=create_graph)

    with pytest.raises(InPlaceError, match="argument of a transform"):
        await running


@one_loop
async def test_a_vector_given_as_an_array_is_of_the_device_of_what_it_multiplies():
    x = ag.tensor([1.0, 2.0], device="thread:0")
    v = np.array([1.0, 10.0])

    for transform in (vjp, jvp):
        _, product = await transform(lambda x: x * x, x, v)
        assert (product.device, product.tolist()) == (x.device, [2.0, 40.0])
    for transform in (vhp, hvp):
        _, product = await transform(lambda x: (x * x * x).sum(), x, v)
        assert (product.device, product.tolist()) == (x.device, [6.0, 120.0])
