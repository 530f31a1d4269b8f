"""`is_grads_batched=True`: each row of a batch is the gradient that one backward starts from."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.errors import (
    GradientTypeError,
    GraphError,
    InvalidGradientError,
    InvalidRootError,
    ReleasedGraphError,
    UnusedInputError,
)
from asyncgrad.graph import GradientEdge, get_gradient_edge
from tests.support.clocks import TickingClock, hand_in
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop
from tests.support.settings import compiled_after, loop_budget
from tests.support.transforms import batched


def recording_seen() -> tuple[list[list[float]], Callable[[Any], None]]:
    seen: list[list[float]] = []
    return seen, lambda grad: seen.append(grad.tolist())


def test_the_batch_keeps_its_history_under_create_graph_where_the_caller_records_nothing():
    x, v = leaf(1.0, 2.0), ag.tensor(np.ones((2, 2)), requires_grad=True)
    y = x * 3.0

    with ag.no_grad():
        (result,) = ag.sync.grad(y, [x], v, create_graph=True, is_grads_batched=True)

    (back,) = ag.sync.grad(result.sum(), [v])
    np.testing.assert_array_equal(back.numpy(), np.full((2, 2), 3.0))


def test_without_create_graph_results_have_no_history():
    x, v = leaf(1.0, 2.0), ag.tensor(np.ones((2, 2)), requires_grad=True)

    (result,) = ag.sync.grad(x * x, [x], v, is_grads_batched=True)

    assert not result.requires_grad


@on_each_loop
def test_sync_grad_of_a_batch_gives_what_the_awaited_one_gives(run):
    x = leaf(1.0, 2.0)
    y = x * x * x
    given = np.array([[1.0, 0.0], [0.0, 1.0]])

    (blocking,) = ag.sync.grad(y, [x], given, is_grads_batched=True, retain_graph=True)

    (awaited,) = run(batched(y, [x], given))
    np.testing.assert_array_equal(blocking.numpy(), awaited.numpy(), strict=True)


async def test_a_graph_that_awaits_is_run_row_by_row():
    x = leaf(1.0, 2.0)
    seen, note = recording_seen()

    async def body(grad: Any) -> Any:
        note(grad)
        await asyncio.sleep(0)
        return grad * 2.0

    (result,) = await batched(awaiting(x, body) * 3.0, [x], np.array([[1.0, 0.0], [0.0, 1.0]]))

    assert result.tolist() == [[6.0, 0.0], [0.0, 6.0]]
    assert seen == [[3.0, 0.0], [0.0, 3.0]]


def test_sync_gives_a_graph_that_awaits_an_event_loop():
    x = leaf(1.0, 2.0)

    async def body(grad: Any) -> Any:
        await asyncio.sleep(0)
        return grad * 2.0

    (result,) = ag.sync.grad(awaiting(x, body), [x], np.eye(2), is_grads_batched=True)

    assert result.tolist() == [[2.0, 0.0], [0.0, 2.0]]


async def test_hooks_see_one_row_at_a_time():
    x = leaf(1.0, 2.0)
    y = x * 2.0
    seen, note = recording_seen()
    y.register_hook(note)

    await batched(y * 3.0, [x], np.array([[1.0, 0.0], [0.0, 1.0]]))

    assert seen == [[3.0, 0.0], [0.0, 3.0]]


async def test_what_a_hook_returns_counts_for_its_row():
    x = leaf(1.0, 2.0)
    factors = iter([10.0, 100.0])
    x.register_hook(lambda grad: grad * next(factors))

    (result,) = await batched(x * 3.0, [x], np.ones((2, 2)))

    assert result.tolist() == [[30.0, 30.0], [300.0, 300.0]]


async def test_no_leaf_is_touched():
    x, other = leaf(1.0, 2.0), leaf(3.0, 4.0)

    await batched(x * other, [x], np.ones((2, 2)))

    assert x.grad is None
    assert other.grad is None


async def test_a_result_shares_no_memory_with_the_batch():
    x = leaf(1.0, 2.0)
    given = np.ones((2, 2))

    (result,) = await batched(x, [x], given)

    assert result.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert not np.shares_memory(result.numpy(), given)


async def test_a_dict_of_inputs_gives_a_dict():
    x, y = leaf(1.0), leaf(2.0)

    results = await batched(x * y, {"x": x, 7: y}, np.array([[1.0], [10.0]]))

    assert {key: value.tolist() for key, value in results.items()} == {"x": [[2.0], [20.0]], 7: [[1.0], [10.0]]}


async def test_inputs_may_be_gradient_edges():
    x = leaf(1.0, 2.0)
    middle = x * 2.0
    edge = get_gradient_edge(middle)

    (result,) = await batched(middle * 3.0, [edge], np.eye(2))

    assert result.tolist() == [[3.0, 0.0], [0.0, 3.0]]


# Inputs that get nothing.


async def test_an_unused_input_raises():
    x, unused = leaf(1.0, 2.0), leaf(3.0)

    with pytest.raises(UnusedInputError, match="input 1"):
        await batched(x * x, [x, unused], np.ones((2, 2)))


async def test_materialized_zeros_have_the_batch_first():
    x, unused = leaf(1.0, 2.0), ag.tensor(np.ones((4, 1)), requires_grad=True)

    _, zeros = await batched(x * x, [x, unused], np.ones((3, 2)), materialize_grads=True)

    assert zeros.tolist() == np.zeros((3, 4, 1)).tolist()
    assert not zeros.requires_grad


async def test_materialized_zeros_require_grad_under_create_graph():
    x, unused = leaf(1.0, 2.0), leaf(1.0)

    _, zeros = await batched(x * x, [x, unused], np.ones((3, 2)), materialize_grads=True, create_graph=True)

    assert zeros.shape == (3, 1)
    assert zeros.requires_grad


@pytest.mark.parametrize("create_graph", [False, True])
async def test_a_row_without_a_gradient_is_zeros_where_another_row_has_one(create_graph):
    class Sparse(ag.Function):
        """A copy whose backward gives nothing for a gradient of zeros."""

        @staticmethod
        def forward(ctx, x):
            return x.numpy().copy()

        @staticmethod
        def backward(ctx, grad):
            return grad if grad.numpy().any() else None

    x = leaf(1.0, 2.0)

    (result,) = await batched(Sparse.apply(x), [x], [[0.0, 0.0], [5.0, 0.0]] * np.ones(1), create_graph=create_graph)

    assert result.tolist() == [[0.0, 0.0], [5.0, 0.0]]


# A batch of no rows.


async def test_an_empty_batch_calls_no_hook_and_releases_nothing():
    x = leaf(1.0, 2.0)
    y = x * x
    seen, note = recording_seen()
    y.register_hook(note)

    await batched(y, [x], np.ones((0, 2)))

    assert seen == []
    assert (await ag.grad(y, [x], np.ones(2)))[0].tolist() == [2.0, 4.0]


async def test_an_empty_batch_still_refuses_an_unused_input_and_a_wrong_root():
    x, unused = leaf(1.0, 2.0), leaf(1.0)

    with pytest.raises(UnusedInputError, match="input 0"):
        await batched(x * x, [unused], np.ones((0, 2)))
    with pytest.raises(InvalidRootError, match="root 0"):
        await batched(ag.tensor([1.0, 2.0]), [x], np.ones((0, 2)))
    with pytest.raises(InvalidGradientError, match="complex"):
        await batched(x * x, [x], np.ones((0, 2), complex))


async def test_an_empty_batch_asks_for_a_row_where_a_node_does_not_say_its_shape():
    class Free(ag.graph.Node):
        __slots__ = ()

        def apply(self, grads):
            return grads

    x = leaf(1.0, 2.0)
    free = GradientEdge(Free([get_gradient_edge(x)]), 0)
    root = ag.Tensor(x.numpy(), Free([ag.graph.Edge(*free)]), 0, x.device)

    with pytest.raises(GraphError, match=r"Free .* pass one row"):
        await batched(root, [free], np.ones((0, 2)))


# The graph is kept until the last row.


async def test_the_graph_is_released_after_the_last_row():
    x = leaf(1.0, 2.0)
    y = x * x
    await batched(y, [x], np.eye(2))

    with pytest.raises(ReleasedGraphError):
        await batched(y, [x], np.eye(2))


@pytest.mark.parametrize("kwargs", [{"retain_graph": True}, {"create_graph": True}])
async def test_the_graph_is_kept_where_it_is_to_be(kwargs):
    x = leaf(1.0, 2.0)
    y = x * x

    await batched(y, [x], np.eye(2), **kwargs)

    assert (await batched(y, [x], np.eye(2)))[0].tolist() == [[2.0, 0.0], [0.0, 4.0]]


@pytest.mark.parametrize("failing", [0, 1])
async def test_a_row_that_fails_before_the_last_leaves_the_graph_usable(failing):
    x = leaf(1.0, 2.0)
    calls: list[Any] = []

    def body(grad: Any) -> None:
        calls.append(grad)
        if len(calls) == failing + 1:
            raise ValueError("this row")

    y = calling(x * x, body) * 3.0

    with pytest.raises(ValueError, match="this row"):
        await batched(y, [x], np.ones((3, 2)))

    assert len(calls) == failing + 1
    assert (await ag.grad(y, [x], np.ones(2)))[0].tolist() == [6.0, 12.0]


async def test_the_last_row_fails_and_leaves_the_graph_usable_where_it_is_to_be_kept():
    x = leaf(1.0, 2.0)
    calls: list[Any] = []

    def body(grad: Any) -> None:
        calls.append(grad)
        if len(calls) == 2:
            raise ValueError("this row")

    y = calling(x * x, body) * 3.0

    with pytest.raises(ValueError, match="this row"):
        await batched(y, [x], np.eye(2), retain_graph=True)

    assert (await ag.grad(y, [x], np.ones(2)))[0].tolist() == [6.0, 12.0]


async def test_a_cancelled_batch_runs_no_further_row():
    x = leaf(1.0, 2.0)
    calls: list[Any] = []

    reached = asyncio.Event()

    async def body(grad: Any) -> None:
        calls.append(grad)
        if len(calls) == 2:
            reached.set()
            await asyncio.Event().wait()

    task = asyncio.ensure_future(batched(awaiting(x * x, body), [x], np.ones((4, 2))))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert len(calls) == 2


async def test_the_event_loop_runs_between_rows():
    x = leaf(1.0, 2.0)
    y = x * x
    order: list[str] = []
    y.register_hook(lambda grad: order.append("row"))

    asyncio.get_running_loop().call_soon(order.append, "loop")
    # What compiles a backward reads the clock as well, and would let the loop run before the first row.
    with compiled_after(None), hand_in(TickingClock(1000.0)), loop_budget(500.0):
        await batched(y, [x], np.ones((3, 2)))

    assert order == ["row", "loop", "row", "row"]


# What is refused.


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (None, InvalidGradientError, r"output 0: pass an array of shape \(rows, 3\)"),
        ([None], InvalidGradientError, r"output 0: pass an array of shape \(rows, 3\)"),
        (np.ones(3), InvalidGradientError, r"shape \(3,\).*\(rows, 3\)"),
        (np.ones((2, 4)), InvalidGradientError, r"shape \(2, 4\).*the output, \(3,\)"),
        (np.ones((2, 1, 3)), InvalidGradientError, r"shape \(2, 1, 3\)"),
        (1.0, InvalidGradientError, r"shape \(\)"),
        ([np.ones((2, 3)), np.ones((2, 3))], InvalidGradientError, "grad_outputs has 2"),
        (["rows"], GradientTypeError, "output 0 must be a tensor or an array"),
        ([[[1.0, 1.0, 1.0]]], GradientTypeError, "output 0 must be a tensor or an array, not list"),
        (np.ones((2, 3), complex), InvalidGradientError, "complex"),
        (np.full((2, 3), "a"), InvalidGradientError, "pass numbers"),
    ],
)
async def test_a_batch_that_does_not_fit_is_refused_before_anything_runs(given, error, message):
    x = leaf(1.0, 2.0, 3.0)
    y = x * x
    seen, note = recording_seen()
    y.register_hook(note)

    with pytest.raises(error, match=message):
        await batched([y], [x], given)

    assert seen == []


async def test_batches_of_different_lengths_are_refused():
    x = leaf(1.0, 2.0)

    with pytest.raises(InvalidGradientError, match="output 0 has 2 rows, and that of output 1 has 3"):
        await batched([x * x, x.sum()], [x], [np.ones((2, 2)), np.ones(3)])


async def test_one_output_without_a_batch_is_refused():
    x = leaf(1.0, 2.0)

    with pytest.raises(InvalidGradientError, match=r"output 1: pass an array of shape \(rows\)"):
        await batched([x * x, x.sum()], [x], [np.ones((2, 2)), None])


async def test_a_gradient_edge_is_no_root_of_a_batch():
    x = leaf(1.0, 2.0)
    edge = get_gradient_edge(x * x)

    with pytest.raises(GraphError, match=r"output 0 is edge 0 of .*ag.grad once for each row"):
        await batched(edge, [x], np.ones((2, 2)))


async def test_materialize_and_a_gradient_edge_without_a_gradient_are_refused():
    x = leaf(1.0, 2.0)
    edge = get_gradient_edge(leaf(1.0) * 2.0)

    with pytest.raises(GraphError, match="input 0"):
        await batched(x * x, [edge], np.ones((2, 2)), materialize_grads=True)
