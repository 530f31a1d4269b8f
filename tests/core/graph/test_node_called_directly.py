"""A node called directly: its body alone, on the caller's gradients."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ArgumentTypeError, GradientTypeError, InvalidGradientError
from asyncgrad.graph import InputMetadata, Node, collect_next_edges, get_gradient_edge
from tests.support.elsewhere import ELSEWHERE
from tests.support.functions import function
from tests.support.leaves import leaf, leaf_of
from tests.support.refusals import refused


def test_a_node_of_several_edges_returns_a_tuple_and_one_of_a_single_edge_its_gradient():
    x, y = leaf(2.0), leaf(3.0)
    both = (x * y).grad_fn(np.array([10.0]))
    one = np.sin(x).grad_fn(np.array([10.0]))

    assert [g.tolist() for g in both] == [[30.0], [20.0]]
    np.testing.assert_allclose(one.numpy(), 10.0 * np.cos([2.0]))


def test_gradients_are_tensors_arrays_or_undefined_and_results_are_tensors_or_undefined():
    x = leaf(2.0)
    node = (x * ag.tensor([3.0])).grad_fn
    results = [node(grad) for grad in (np.array([1.0]), ag.tensor([1.0]), None)]

    assert [type(g) for g, _ in results] == [ag.Tensor, ag.Tensor, type(None)]
    assert [g for _, g in results] == [None, None, None]


def test_a_call_is_recorded_where_grad_mode_is_on_and_nowhere_else():
    x = leaf(3.0)
    node = (x * x * x).grad_fn
    first, _ = node(leaf(1.0))
    with ag.no_grad():
        unrecorded, _ = node(leaf(1.0))
    (second,) = sync.grad(first, [x])

    assert (first.tolist(), second.tolist()) == ([3.0], [1.0])
    assert (first.requires_grad, unrecorded.requires_grad) == (True, False)


def test_a_result_is_what_the_next_node_would_get():
    """Summed over broadcast axes, and cast."""
    x = leaf_of([1.0, 2.0], np.float32)
    wide, _ = (x * np.ones((3, 1))).grad_fn(np.ones((3, 2)))

    assert (wide.shape, wide.dtype) == ((2,), np.float32)
    assert wide.tolist() == [3.0, 3.0]


def test_a_call_runs_no_hook_and_touches_no_gradient_but_that_of_the_leaf_it_is_called_for():
    x, seen = leaf(2.0), []
    y = x * 3
    y.register_hook(seen.append)
    y.grad_fn.register_prehook(seen.append)
    y.grad_fn.register_hook(lambda outputs, inputs: seen.append(outputs))
    y.grad_fn(np.ones(1))
    untouched = x.grad
    accumulator = get_gradient_edge(x).node
    returned = [accumulator(np.full(1, 5.0)), accumulator(np.full(1, 2.0)), accumulator(None)]

    assert (seen, untouched, returned) == ([], None, [(), (), ()])
    assert x.grad.tolist() == [7.0]


def test_what_a_leaf_was_given_by_a_call_is_there_to_stay():
    x = leaf(2.0)
    node = get_gradient_edge(x).node
    with ag.no_grad():
        node(np.ones(1))

    def fail(grad: Any) -> None:
        raise KeyError

    y = x * 3
    z = y * 1
    x.register_post_accumulate_grad_hook(fail)
    with pytest.raises(KeyError):
        sync.backward(z)

    assert x.grad.tolist() == [1.0]
    assert x._meta.changes == []


async def test_a_node_with_an_async_body_returns_an_awaitable_of_the_same():
    async def backward(ctx: Any, grad: Any) -> Any:
        await asyncio.sleep(0)
        return grad * 2

    out = function(lambda ctx, x: x.numpy().copy(), backward).apply(leaf(1.0))

    called = out.grad_fn(np.ones(1))
    assert inspect.isawaitable(called)

    assert (await called).tolist() == [2.0]


def test_a_node_of_ones_own_is_called_too():
    class Swap(Node):
        def apply(self, grads: tuple[Any, ...]) -> Any:
            return grads[::-1]

    node = Swap(collect_next_edges(leaf(1.0), None), (None, None))
    first, second = node(np.zeros(1), None)

    assert (first, second.tolist()) == (None, [0.0])


def test_a_released_node_says_so():
    x = leaf(1.0)
    y = x * x
    sync.backward(y)

    with pytest.raises(ag.errors.ReleasedGraphError, match="MultiplyBackward"):
        y.grad_fn(np.ones(1))


# Bad use.


@pytest.mark.parametrize("count", [0, 2])
def test_the_number_of_gradients_is_that_of_the_outputs(count):
    node = (leaf(1.0) * 2).grad_fn
    with refused(ArgumentTypeError, TypeError, "MultiplyBackward", "takes 1 gradient", f"given {count}"):
        node(*[np.ones(1)] * count)


@pytest.mark.parametrize("grad", ["text", 1.0, [1.0]], ids=repr)
def test_what_is_no_gradient_is_refused(grad):
    with refused(ArgumentTypeError, TypeError, "gradient 0 of MultiplyBackward", "write np.asarray(...)"):
        (leaf(1.0) * 2).grad_fn(grad)


@pytest.mark.parametrize(
    "grad",
    [np.ones(3), np.ones((1, 2)), np.array(["a", "b"]), ag.Tensor(np.ones(2), None, 0, ELSEWHERE)],
    ids=["shape", "axes", "dtype", "device"],
)
def test_a_gradient_that_does_not_fit_its_output_is_refused(grad):
    with refused(InvalidGradientError, RuntimeError, "gradient 0 of MultiplyBackward", "shape (2,)"):
        (leaf(1.0, 2.0) * 2).grad_fn(grad)


def test_an_output_without_gradient_takes_none():
    node = Node([], (InputMetadata(),))
    with refused(InvalidGradientError, RuntimeError, "belongs to an output that has none"):
        node(np.ones(1))


def test_what_a_body_returns_is_checked():
    class Wrong(Node):
        def apply(self, grads: tuple[Any, ...]) -> Any:
            return self.result

    node = Wrong([None])
    node.result = 3
    with refused(GradientTypeError, TypeError, "Wrong", "must return a tuple"):
        node(None)
    node.result = (None, None)
    with refused(InvalidGradientError, RuntimeError, "returned 2 gradients, and has 1 edge"):
        node(None)
