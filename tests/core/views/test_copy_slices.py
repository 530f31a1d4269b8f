"""CopySlices: the node of a base a part of which was written into, reached by strides and by replay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ReleasedGraphError
from asyncgrad.graph import CopySlices
from tests.support.functions import function
from tests.support.leaves import leaf, leaf_of
from tests.support.loops import one_loop


@pytest.fixture(params=[False, True], ids=["strides", "replay"], autouse=True)
def reached(request: pytest.FixtureRequest) -> Iterator[None]:
    """Reach views both ways."""
    with ag.graph.replay_views(request.param):
        yield


def test_the_part_gets_the_gradient_of_the_write_and_the_rest_its_own():
    x, y = leaf_of(np.ones((2, 2))), leaf_of(np.full(2, 3.0))
    b = x.clone()
    row = b[0]
    row *= y
    from_all = sync.grad(b.sum(), [x, y], retain_graph=True)
    from_view = sync.grad(row.sum(), [x])

    assert [grad.tolist() for grad in from_all] == [[[3.0, 3.0], [1.0, 1.0]], [1.0, 1.0]]
    assert from_view[0].tolist() == [[3.0, 3.0], [0.0, 0.0]]


def test_the_edges_of_copy_slices_are_the_bases_and_those_of_the_write_but_the_views():
    x, y = leaf(1.0, 2.0), leaf(3.0)
    b = x * 1
    before = b.grad_fn
    b[:1] *= y
    node = b.grad_fn

    assert isinstance(node, CopySlices)
    assert [edge.node for edge in node.next_edges] == [before, ag.graph.get_gradient_edge(y).node]
    assert [(metadata.shape, metadata.dtype) for metadata in node.input_metadata] == [((2,), b.dtype)]


def test_an_undefined_gradient_stays_undefined():
    b = leaf(1.0, 2.0) * 1
    b[:1] *= leaf(3.0)

    assert b.grad_fn(None) == (None, None)


def test_a_second_backward_raises_even_if_nothing_was_saved():
    b = leaf(1.0, 2.0) * 1
    b[:1] += 1
    sync.backward(b.sum())

    with pytest.raises(ReleasedGraphError, match="CopySlices"):
        sync.backward(b.sum())


def test_a_kept_graph_is_run_again():
    x = leaf(1.0, 2.0)
    b = x * 1
    b[:1] *= b[1:]
    for _ in range(2):
        sync.backward(b.sum(), retain_graph=True)

    assert x.grad.tolist() == [4.0, 4.0]


@pytest.mark.parametrize("wanted", ["x", "y", "both"])
def test_a_backward_with_given_inputs_gives_those(wanted):
    x, y = leaf(1.0, 2.0), leaf(3.0)
    b = x * 1
    b[:1] *= y
    inputs = {"x": [x], "y": [y], "both": [x, y]}[wanted]
    expected = {"x": [[3.0, 1.0]], "y": [[1.0]], "both": [[3.0, 1.0], [1.0]]}[wanted]

    assert [grad.tolist() for grad in sync.grad(b.sum(), inputs)] == expected


@one_loop
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_function_in_the_write_is_told_that_the_views_gradient_is_wanted(is_async):
    asked: list[bool] = []

    def forward(ctx: Any, x: Any, y: Any) -> Any:
        x *= y
        ctx.mark_dirty(x)
        ctx.factor = y.numpy()
        asked.append(False)
        return x

    def backward(ctx: Any, grad: Any) -> Any:
        task = ag.engine.current_graph_task()
        asked.append(any(info.needed for node, info in task.exec_info.items() if node is before))
        return grad * ctx.factor, grad

    async def later(ctx: Any, grad: Any) -> Any:
        return backward(ctx, grad)

    x, y = leaf(1.0, 2.0), leaf(3.0)
    b = x * 1
    view = b[:1]
    before = view.grad_fn
    function(forward, later if is_async else backward).apply(view, y)
    found = await ag.grad(b.sum(), [x])

    assert (found[0].tolist(), asked) == ([3.0, 1.0], [False, True])


@one_loop
async def test_under_create_graph_copy_slices_is_recorded():
    def written(x: Any, y: Any) -> Any:
        b = x * x
        b[1:] *= y
        b[:2] **= 2
        b[[0, 2]] = b[[2, 1]] * x[:2]
        return (b * b).sum()

    inputs = leaf(0.5, 1.25, -0.75), leaf(1.5, 2.0)

    assert await ag.gradcheck(written, inputs)
    assert await ag.gradgradcheck(written, inputs)


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_layout_of_the_base_and_of_the_gradient_does_not_matter(order):
    start = np.asarray(np.arange(12.0).reshape(3, 4), order=order)
    weights = np.cos(np.arange(12.0)).reshape(3, 4)
    for base in (start.copy(order="K"), start[::-1], start[:, ::2]):
        x = leaf_of(np.ones(base.shape))
        b = ag.asarray(base.copy(order="K") if base.base is None else base.copy(order="A")[...])
        b = b * 1 if order == "C" else np.asarray(b.T.numpy()).T * x
        b = b * x
        part = b[1:, 1:]
        part *= 2
        scale = weights[: base.shape[0], : base.shape[1]]
        (found,) = sync.grad(b, [x], [np.asfortranarray(scale)])
        expected = b.numpy() * scale * (2 if order == "F" else 1)

        np.testing.assert_allclose(found.numpy(), expected)


def test_a_base_that_is_no_block_of_memory_is_written_into():
    memory = np.zeros((6, 4))
    x = leaf_of(np.arange(4.0).reshape(2, 2))
    base = ag.asarray(memory[::-3, ::2])
    base[:, 1] = x[0]
    base[1] *= x[1]
    sync.backward((base * [[1.0, 10.0], [100.0, 1000.0]]).sum())

    assert memory[5, 2] == 0.0
    assert memory[2, 2] == 3.0
    assert x.grad.tolist() == [[10.0, 3000.0], [0.0, 1000.0]]


async def test_several_backward_passes_at_once_share_copy_slices():
    x, y = leaf(1.0, 2.0), leaf(3.0)
    b = x * 1
    b[:1] *= y

    def ag_task_group() -> Any:
        import asyncio

        return asyncio.TaskGroup()

    async with ag_task_group() as group:
        for _ in range(3):
            group.create_task(ag.backward(b.sum(), retain_graph=True))
    assert (x.grad.tolist(), y.grad.tolist()) == ([9.0, 3.0], [3.0])


def test_a_creation_hook_sees_copy_slices():
    made = []
    b = leaf(1.0, 2.0) * 1
    with ag.graph.node_creation_hook(lambda node: made.append(node.name)):
        b[0] = 5.0

    assert made == ["CopySlices"]


def test_a_device_without_strides_is_reached_by_replay(monkeypatch):
    x = leaf(1.0, 2.0)
    monkeypatch.setattr(type(x.device), "has_strides", False)
    b = x * 1
    view = b[:1]
    b *= 2
    view *= 3
    sync.backward(b.sum())

    assert (view.grad_fn.name, x.grad.tolist()) == ("PartBackward", [6.0, 2.0])
