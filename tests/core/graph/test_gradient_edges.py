"""Tensors hung on nodes by hand: collected, created and set gradient edges."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ArgumentTypeError, GraphError, IndexRangeError, RequiresGradError
from asyncgrad.graph import (
    Edge,
    GradientEdge,
    InputMetadata,
    Node,
    any_requires_grad,
    collect_next_edges,
    create_gradient_edge,
    get_gradient_edge,
    set_gradient_edge,
)
from tests.support.elsewhere import ELSEWHERE
from tests.support.functions import function
from tests.support.leaves import leaf, leaf_of
from tests.support.refusals import refused


class SinCos(Node):
    """Two outputs of one input: sin and cos."""

    def __init__(self, x: Any) -> None:
        super().__init__(collect_next_edges(x), ())
        self.x = x.numpy()

    def apply(self, grads: tuple[Any, ...]) -> Any:
        sin, cos = (0.0 if grad is None else grad for grad in grads)
        return (sin * np.cos(self.x) - cos * np.sin(self.x),)


class SinCosLater(SinCos):
    """The same, after a turn of the loop."""

    async def apply(self, grads: tuple[Any, ...]) -> Any:
        await asyncio.sleep(0)
        return super().apply(grads)


def sin_cos(x: Any, kind: type[SinCos] = SinCos) -> tuple[Any, Any]:
    node = kind(x)
    outputs = ag.tensor(np.sin(x.numpy())), ag.tensor(np.cos(x.numpy()))
    for output in outputs:
        create_gradient_edge(output, node)
    return outputs


# Collecting.


def test_collected_edges_are_those_of_the_tensors_in_order_and_none_for_what_requires_no_grad():
    x = leaf(1.0)
    first, second = function(lambda ctx, x: (x * 2, x * 3)).apply(x)
    edges = collect_next_edges(second, ag.tensor([1.0]), [x, None], (np.ones(1), first))

    assert edges == (
        Edge(first.grad_fn, 1),
        Edge(None, 0),
        Edge(get_gradient_edge(x).node, 0),
        Edge(None, 0),
        Edge(None, 0),
        Edge(first.grad_fn, 0),
    )


def test_any_tensor_that_requires_grad_counts_whatever_the_mode():
    x, plain = leaf(1.0), ag.tensor([1.0])
    with ag.no_grad():
        inside = any_requires_grad(plain, x)

    assert inside
    assert any_requires_grad(x * 2)
    assert any_requires_grad([plain, (x,)])
    assert not any_requires_grad(plain, None, 1.0, x.detach())
    assert not any_requires_grad()


# Creating.


@pytest.mark.parametrize("kind", [SinCos, SinCosLater])
async def test_a_node_of_ones_own_with_several_outputs_takes_the_gradient_of_each(kind):
    x = leaf(0.5, 1.5)
    sin, cos = sin_cos(x, kind)
    out = (sin * sin * 2 + cos).sum()
    await ag.backward(out)

    s, c = np.sin(x.numpy()), np.cos(x.numpy())
    assert [sin.output_nr, cos.output_nr, sin.grad_fn is cos.grad_fn] == [0, 1, True]
    np.testing.assert_allclose(x.grad.numpy(), 4 * s * c - s)


async def test_an_output_that_nothing_was_computed_from_has_an_undefined_gradient():
    x = leaf(0.5, 1.5)
    _, cos = sin_cos(x)
    await ag.backward(cos.sum())

    np.testing.assert_array_equal(x.grad.numpy(), -np.sin(x.numpy()))


async def test_hooks_and_retained_gradients_of_several_outputs_of_one_node_are_told_apart():
    x, seen = leaf(0.5, 1.5), []
    sin, cos = sin_cos(x)
    cos.register_hook(lambda grad: seen.append(("cos", grad.tolist())))
    sin.register_hook(lambda grad: seen.append(("sin", grad.tolist())))
    sin.retain_grad()
    await ag.backward([sin, cos], [np.full(2, 3.0), np.full(2, 7.0)])

    assert sorted(seen) == [("cos", [7.0, 7.0]), ("sin", [3.0, 3.0])]
    assert (sin.grad.tolist(), cos.grad) == ([3.0, 3.0], None)


async def test_gradient_edges_of_outputs_hung_on_a_node_by_hand_are_roots_and_inputs():
    x = leaf(0.5, 1.5)
    sin, cos = sin_cos(x)
    edges = [get_gradient_edge(sin), get_gradient_edge(cos)]
    found = await ag.grad((sin * 2 + cos * 5).sum(), [edges[1], edges[0], x], retain_graph=True)
    await ag.backward(edges, [np.ones(2), np.zeros(2)])

    assert [g.tolist() for g in found[:2]] == [[5.0, 5.0], [2.0, 2.0]]
    np.testing.assert_array_equal(x.grad.numpy(), np.cos(x.numpy()))


async def test_a_backward_limited_to_one_output_does_not_run_the_node():
    x, ran = leaf(0.5), []
    sin, cos = sin_cos(x)
    sin.grad_fn.register_prehook(ran.append)
    (found,) = await ag.grad((sin + cos).sum(), [cos])

    assert (found.tolist(), ran) == ([1.0], [])


def test_a_tensor_hung_on_a_node_drops_nothing_of_the_graph_before():
    x = leaf(2.0)
    y = x * 3
    before = y * 5
    node = SinCos(y)
    create_gradient_edge(y, node)
    create_gradient_edge(ag.tensor([1.0]), node)
    sync.backward(before + y)

    np.testing.assert_allclose(x.grad.numpy(), [3.0 * 5.0 + np.cos(6.0) * 3.0])


def test_only_a_node_of_ones_own_gets_outputs_by_hand():
    with refused(GraphError, RuntimeError, "MultiplyBackward", "cannot get one more input"):
        create_gradient_edge(ag.tensor([1.0]), (leaf(1.0) * 2).grad_fn)
    with refused(ArgumentTypeError, TypeError, "a Node, not int", "subclass of ag.extend.Node"):
        create_gradient_edge(ag.tensor([1.0]), 3)  # type: ignore[arg-type]


def test_a_refused_tensor_leaves_the_node_without_an_input_for_it():
    node = SinCos(leaf(1.0))
    with pytest.raises(RequiresGradError):
        create_gradient_edge(leaf(1.0), node)

    assert node.num_inputs == 0


# Setting.


async def test_a_tensor_takes_the_place_that_it_is_given():
    x = leaf(1.0, 2.0)
    t = ag.tensor([5.0, 5.0])
    set_gradient_edge(t, get_gradient_edge(x * 3))
    await ag.backward((t * t).sum())

    assert (t.requires_grad, t.is_leaf, t.output_nr) == (True, False, 0)
    assert x.grad.tolist() == [30.0, 30.0]


def test_what_hung_on_the_old_node_stays_there_and_what_comes_now_belongs_to_the_new_one():
    x, seen = leaf(1.0), []
    t = x * 2
    old = t * 1
    t.register_hook(lambda grad: seen.append("old"))
    t.retain_grad()
    set_gradient_edge(t, get_gradient_edge(x * 3))
    t.register_hook(lambda grad: seen.append("new"))
    sync.backward(t * 1)
    sync.backward(old)

    assert seen == ["new", "old"]
    assert (t.retains_grad, t.grad) == (False, None)


def test_a_place_in_no_graph_is_refused():
    with refused(GraphError, RuntimeError, "cannot lead nowhere", "detach_()"):
        set_gradient_edge(ag.tensor([1.0]), Edge(None, 0))


def test_a_leaf_that_requires_grad_does_not_lose_its_gradient():
    x = leaf(1.0)
    with refused(RequiresGradError, RuntimeError, "is a leaf that requires grad", "t.detach()"):
        set_gradient_edge(x, get_gradient_edge(leaf(1.0) * 2))

    assert x.is_leaf


@pytest.mark.parametrize(
    "metadata",
    [
        InputMetadata((3,), np.dtype(float), ag.device("cpu")),
        InputMetadata((2,), np.dtype(np.float32), ag.device("cpu")),
        InputMetadata((2,), np.dtype(float), ELSEWHERE),
    ],
    ids=["shape", "dtype", "device"],
)
def test_an_input_that_the_gradient_does_not_fit_is_refused(metadata):
    node = SinCos(leaf(1.0))
    node.add_input_metadata(metadata)
    with refused(GraphError, RuntimeError, "input 0 of SinCos", str(metadata.shape), "create_gradient_edge"):
        set_gradient_edge(ag.tensor([1.0, 2.0]), Edge(node, 0))


def test_the_slot_of_an_output_without_gradient_is_no_place_for_a_tensor():
    node = SinCos(leaf(1.0))
    node.add_input_metadata(InputMetadata())
    with refused(GraphError, RuntimeError, "stands for an output that has no gradient"):
        set_gradient_edge(ag.tensor([1.0]), Edge(node, 0))


def test_an_input_that_is_not_there_is_refused():
    with refused(IndexRangeError, IndexError, "input 1 of MultiplyBackward"):
        set_gradient_edge(ag.tensor([1.0]), GradientEdge((leaf(1.0) * 2).grad_fn, 1))


@pytest.mark.parametrize(("tensor", "error"), [(np.ones(1), ArgumentTypeError), (ag.tensor([1]), RequiresGradError)])
def test_what_has_no_gradient_has_no_place(tensor, error):
    with pytest.raises(error):
        set_gradient_edge(tensor, get_gradient_edge(leaf(1.0) * 2))


def test_a_graph_hung_by_hand_goes_without_the_collector():
    gc.collect()
    gc.disable()
    try:
        freed: list[bool] = []

        class Watched(SinCos):
            def __del__(self) -> None:
                freed.append(True)

        x = leaf_of([1.0])
        outputs = sin_cos(x, Watched)
        sync.backward(outputs[0] + outputs[1])
        del outputs
        assert freed == [True]
    finally:
        gc.enable()


@pytest.mark.parametrize("value", [5, None, np.ones(2), GradientEdge(None, 0)], ids=["int", "None", "array", "edge"])
def test_only_a_tensor_has_a_gradient_edge(value):
    with pytest.raises(ArgumentTypeError, match=r"only a tensor has a gradient edge, not .*ag\.asarray"):
        get_gradient_edge(value)
