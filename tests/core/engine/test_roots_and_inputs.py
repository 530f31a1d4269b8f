"""Where a backward starts, and what it captures or accumulates where inputs limit it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import asyncgrad as ag
from tests.support.functions import calling, split
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop


class Pair(NamedTuple):
    first: Any
    second: Any


# Several roots.


async def test_gradients_of_several_roots_are_added():
    x = leaf(1.0, 2.0)

    await ag.backward([np.multiply(x, 2.0), np.multiply(x, 3.0)], [np.ones(2), np.full(2, 10.0)])

    assert x.grad.numpy().tolist() == [32.0, 32.0]


async def test_the_same_root_twice_runs_once_with_the_sum_of_its_gradients():
    runs: list[Any] = []
    root = calling(leaf(1.0), lambda grad: runs.append(grad.item()))

    await ag.backward([root, root], [np.ones(1), np.full(1, 4.0)])

    assert runs == [5.0]


async def test_a_root_that_another_root_leads_to_waits_for_it():
    runs: list[Any] = []
    x = leaf(1.0)
    below = calling(x, lambda grad: runs.append(grad.item()))
    above = np.multiply(below, 3.0)

    await ag.backward([below, above], [np.ones(1), np.full(1, 10.0)])

    assert runs == [31.0]
    assert x.grad.item() == 31.0


async def test_two_outputs_of_one_node_may_both_be_roots():
    x = leaf(1.0)
    first, second = split(x, lambda one, two: np.add(one, np.multiply(two, 10.0)))

    await ag.backward([second, first], [np.full(1, 3.0), np.ones(1)])

    assert x.grad.item() == 31.0


async def test_the_second_output_of_a_node_may_be_the_only_root():
    seen: list[Any] = []
    x = leaf(1.0)
    second = split(x, lambda one, two: seen.append((one, two.item())) or two)[1]

    await ag.backward(second)

    assert seen == [(None, 1.0)]
    assert x.grad.item() == 1.0


async def test_a_leaf_may_be_a_root():
    x, y = leaf(1.0), leaf(2.0)
    seen: list[Any] = []
    y.register_hook(lambda grad: seen.append(grad.item()))

    await ag.backward(x)
    await ag.backward([x, y, np.multiply(y, 5.0)])

    assert x.grad.item() == 2.0
    assert y.grad.item() == 6.0
    assert seen == [6.0]


async def test_a_gradient_edge_may_be_a_root():
    x = leaf(1.0)
    edge = ag.graph.get_gradient_edge(np.multiply(x, 3.0))

    await ag.backward([edge, edge], [None, np.full(1, 2.0)])

    assert x.grad.item() == 9.0


async def test_the_gradient_to_start_from_is_cast_to_the_dtype_of_its_root():
    seen: list[Any] = []
    x = ag.tensor(np.ones(2, np.float32), requires_grad=True)
    root = np.multiply(x, np.float32(2.0))
    root.register_hook(lambda grad: seen.append(grad.dtype))

    await ag.backward(root, np.ones(2, np.float64))

    assert seen == [np.float32]
    assert x.grad.dtype == np.float32


# backward(inputs=...)


async def test_a_backward_with_inputs_leaves_other_leaves_alone():
    x, y = leaf(1.0), leaf(2.0)
    out = np.multiply(x, y)

    await ag.backward(out, inputs=[x])

    assert x.grad.item() == 2.0
    assert y.grad is None


async def test_an_input_that_is_no_leaf_keeps_its_gradient_and_its_leaves_get_none():
    x = leaf(1.0)
    middle = np.multiply(x, 3.0)
    out = np.multiply(middle, 5.0)

    await ag.backward(out, inputs=[middle])

    assert middle.grad.item() == 5.0
    assert middle.retains_grad
    assert x.grad is None


async def test_a_leaf_and_a_node_above_it_may_both_be_inputs():
    x, y = leaf(1.0), leaf(1.0)
    middle = np.multiply(x, 3.0)
    out = np.add(np.multiply(middle, 5.0), np.multiply(x, y))

    await ag.backward(out, inputs=[x, middle])

    assert middle.grad.item() == 5.0
    assert x.grad.item() == 16.0
    assert y.grad is None


async def test_an_input_that_is_not_reached_keeps_its_grad():
    x, y = leaf(1.0), leaf(2.0)

    await ag.backward(np.multiply(x, 2.0), inputs=[y])

    assert (x.grad, y.grad) == (None, None)


async def test_post_accumulate_hooks_run_for_inputs_only():
    seen: list[ag.Tensor] = []
    x, y = leaf(1.0), leaf(2.0)
    for tensor in (x, y):
        tensor.register_post_accumulate_grad_hook(seen.append)

    await ag.backward(np.multiply(x, y), inputs=[x])

    assert seen == [x]


# grad


async def test_the_same_input_twice_is_captured_twice():
    x = leaf(1.0, 2.0)

    first, second = await ag.grad(np.multiply(x, 3.0), [x, x], np.ones(2))

    assert first.numpy().tolist() == second.numpy().tolist() == [3.0, 3.0]


async def test_the_gradient_of_an_output_with_respect_to_itself_is_what_it_started_from():
    x, given = leaf(1.0, 2.0), np.array([5.0, 6.0])
    out = np.multiply(x, 3.0)

    (of_leaf,) = await ag.grad(x, x, given)
    (of_output,) = await ag.grad(out, out, given)

    assert of_leaf.tolist() == of_output.tolist() == [5.0, 6.0]
    assert x.grad is None


async def test_under_create_graph_the_gradient_of_an_output_by_itself_is_the_very_tensor_it_started_from():
    x, given = leaf(1.0), leaf(5.0)

    (found,) = await ag.grad(x, x, given, create_graph=True)

    assert found is given


async def test_an_output_and_what_it_was_computed_from_may_both_be_inputs():
    x = leaf(2.0)
    middle = np.multiply(x, x)
    out = np.multiply(middle, 3.0)

    found = await ag.grad(out, [x, middle, out])

    assert [gradient.item() for gradient in found] == [12.0, 3.0, 1.0]


async def test_each_output_of_a_node_is_captured_by_itself():
    x = leaf(1.0)
    first, second = split(x, lambda one, two: np.add(one, two))
    out = np.add(np.multiply(first, 2.0), np.multiply(second, 5.0))

    found = await ag.grad(out, [second, first, x])

    assert [gradient.item() for gradient in found] == [5.0, 2.0, 7.0]


async def test_inputs_may_be_a_dict_and_so_is_then_the_result():
    x, y = leaf(2.0), leaf(3.0)

    found = await ag.grad(np.multiply(x, y), {"x": x, 7: y})

    assert {key: gradient.item() for key, gradient in found.items()} == {"x": 3.0, 7: 2.0}


@on_each_loop
def test_inputs_may_be_a_tree_and_so_is_then_the_result(run):
    x, y, z = leaf(2.0), leaf(3.0), leaf(5.0)
    edge = ag.graph.get_gradient_edge(z)

    def found(inputs):
        return run(ag.grad(x * y * z, inputs))

    in_pair, in_list = found(Pair(x, [{"y": y, "none": None}, edge])), found([x, (y, [])])
    run((x * y * z).backward(inputs={"x": [x]}))

    assert type(in_pair) is Pair
    assert [one.item() for one in ag.tree.leaves(in_pair)] == [15.0, 10.0, 6.0]
    assert (type(in_list), type(in_list[1]), in_list[1][0].item(), in_list[1][1]) == (tuple, tuple, 10.0, [])
    assert (x.grad.item(), y.grad) == (15.0, None)


@pytest.mark.parametrize(
    ("made", "error", "message"),
    [
        (lambda x: {"w": [x, 3.0]}, ag.errors.GradientTypeError, r"^input 1, inputs\['w'\]\[1\] must be .*, not float"),
        (lambda x: [x, {"b": leaf(1.0)}], ag.errors.UnusedInputError, r"^input 1, inputs\[1\]\['b'\] \(tensor"),
        (lambda x: Pair(ag.tensor(1.0), x), ag.errors.RequiresGradError, r"^input 0, inputs\.first \(tensor of shape"),
        (lambda x: {"none": None, "empty": []}, ag.errors.GraphError, "^inputs is empty"),
    ],
    ids=["no tensor", "unused", "requires no grad", "no leaf"],
)
async def test_an_input_in_a_tree_is_named_by_its_path(made, error, message):
    x = leaf(1.0)

    with pytest.raises(error, match=message):
        await ag.grad(np.multiply(x, 2.0), made(x))


async def test_an_unused_input_raises_and_is_named_by_its_place():
    x, y = leaf(1.0), leaf(2.0, 3.0)

    with pytest.raises(ag.errors.UnusedInputError, match=r"^input 1 \(tensor of shape \(2,\)"):
        await ag.grad(np.multiply(x, 2.0), [x, y])


async def test_an_unused_input_gives_none_or_zeros_where_that_is_asked_for():
    x, y = leaf(1.0), leaf(2.0, 3.0)
    used_elsewhere = np.multiply(y, 2.0)

    allowed = await ag.grad(np.multiply(x, 2.0), [x, y], allow_unused=True)
    materialized = await ag.grad(np.multiply(x, 2.0), [x, y, used_elsewhere], materialize_grads=True)

    assert allowed[1] is None
    assert [gradient.numpy().tolist() for gradient in materialized] == [[2.0], [0.0, 0.0], [0.0, 0.0]]


async def test_zeros_for_an_unused_input_require_grad_under_create_graph():
    x, y = leaf(1.0), leaf(2.0)

    found = await ag.grad(np.multiply(x, x), [x, y], materialize_grads=True, create_graph=True)

    assert found[1].requires_grad


async def test_an_input_that_only_an_undefined_gradient_reaches_counts_as_unused():
    x = leaf(1.0)
    out = split(x, lambda one, two: None)[0]

    with pytest.raises(ag.errors.UnusedInputError, match=r"^input 0"):
        await ag.grad(out, x, retain_graph=True)
    assert await ag.grad(out, x, allow_unused=True) == (None,)


async def test_grad_touches_no_grad():
    x = leaf(1.0)
    middle = np.multiply(x, 2.0)
    middle.retain_grad()

    await ag.grad(np.multiply(middle, 3.0), x)

    assert x.grad is None
    # It is on the path, so it keeps its gradient, as in PyTorch.
    assert middle.grad.item() == 3.0


async def test_a_captured_node_runs_its_tensor_hooks_and_is_captured_after_them():
    x = leaf(1.0)
    middle = np.multiply(x, 2.0)
    middle.register_hook(lambda grad: np.multiply(grad, 10.0))
    out = np.multiply(middle, 1.0)

    (found,) = await ag.grad(out, [middle], retain_graph=True)
    both = await ag.grad(out, [middle, x])

    assert found.item() == 10.0
    # PyTorch captures the raw gradient of a node that runs as well.
    assert [gradient.item() for gradient in both] == [1.0, 20.0]


async def test_a_captured_leaf_runs_its_tensor_hooks_and_not_its_post_accumulate_hooks():
    x, seen = leaf(1.0), []
    x.register_hook(lambda grad: np.multiply(grad, 10.0))
    x.register_post_accumulate_grad_hook(seen.append)

    (found,) = await ag.grad(np.multiply(x, 2.0), x)

    assert found.item() == 20.0
    assert seen == []


async def test_a_captured_gradient_is_not_written_into_by_what_goes_on():
    x = leaf(1.0, 2.0)
    middle = np.multiply(x, 2.0)
    out = np.add(np.add(middle, np.multiply(middle, 3.0)), np.multiply(middle, 4.0))

    of_middle, of_x = await ag.grad(out, [middle, x], np.ones(2))

    assert of_middle.numpy().tolist() == [8.0, 8.0]
    assert of_x.numpy().tolist() == [16.0, 16.0]
