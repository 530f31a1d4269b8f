"""Nodes, edges, their numbers, and the one accumulator of each leaf."""

from __future__ import annotations

import contextvars
import functools
import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import asyncgrad as ag
from asyncgrad.core.graph.node import LEAF_ORDER
from asyncgrad.graph import AccumulateGrad, Edge, Node, TraceableNode, get_gradient_edge
from tests.support.leaves import leaf
from tests.support.nodes import PassingNode


class Async(Node):
    async def apply(self, grads):
        return grads


def test_sequence_numbers_rise_with_every_node_that_is_made():
    x = leaf(1.0)
    numbers = [node.sequence_nr for node in (np.add(x, 1.0).grad_fn, PassingNode(), np.multiply(x, 2.0).grad_fn)]

    assert numbers == sorted(numbers)
    assert numbers[2] - numbers[0] == 2


def test_an_operation_that_records_nothing_takes_no_number():
    x = leaf(1.0)
    before = PassingNode().sequence_nr

    with ag.no_grad():
        np.multiply(x, 2.0)
    np.multiply(ag.tensor(1.0), 2.0)
    get_gradient_edge(x)

    assert PassingNode().sequence_nr == before + 1


def test_leaves_come_before_every_node():
    assert get_gradient_edge(leaf(1.0)).node.sequence_nr == 2**64 - 1
    assert PassingNode().order > LEAF_ORDER


@given(st.data())
def test_the_topological_number_is_one_above_those_of_the_nodes_that_follow(data):
    nodes: list[Node] = []
    for _ in range(data.draw(st.integers(1, 15))):
        targets = data.draw(st.lists(st.sampled_from(nodes), max_size=3)) if nodes else []
        nodes.append(PassingNode([Edge(target, 0) for target in targets]))
        expected = 1 + max((target.topological_nr for target in targets), default=-1)
        assert nodes[-1].topological_nr == expected


def test_operations_on_tensors_number_their_nodes_likewise():
    x = leaf(1.0)
    y = np.multiply(x, 2.0)
    z = np.add(y, x)
    far = np.add(np.add(z, 1.0), x)

    assert [tensor.grad_fn.topological_nr for tensor in (y, z, far)] == [1, 2, 4]
    assert get_gradient_edge(x).node.topological_nr == 0


def test_a_node_knows_its_edges_and_whether_they_lead_anywhere():
    x = leaf(1.0)
    node = np.multiply(x, ag.tensor(2.0)).grad_fn

    assert [edge.node for edge in node.next_edges] == [get_gradient_edge(x).node, None]
    assert [edge.input_nr for edge in node.next_edges] == [0, 0]
    assert (node.num_inputs, node.num_outputs) == (1, 2)
    assert (node.should_compute_output(0), node.should_compute_output(1)) == (True, False)


def test_a_node_says_what_its_gradient_must_look_like():
    (metadata,) = np.multiply(ag.tensor(np.ones((2, 3), np.float32), requires_grad=True), 2.0).grad_fn.input_metadata

    assert metadata == ((2, 3), np.dtype(np.float32), ag.device("cpu"))


def test_each_node_has_notes_of_its_own():
    first, second = np.add(leaf(1.0), 1.0).grad_fn, PassingNode()
    first.metadata["note"] = 1

    assert (first.metadata, second.metadata) == ({"note": 1}, {})


def test_a_node_knows_whether_its_body_is_async():
    class Inherits(Async):
        pass

    class Replaces(Async):
        def apply(self, grads):
            return grads

    assert [kind.is_async for kind in (Node, PassingNode, Async, Inherits, Replaces)] == [
        False,
        False,
        True,
        True,
        False,
    ]


async def test_a_node_without_a_body_says_so():
    with pytest.raises(NotImplementedError, match=r"Node must implement apply\(grads\)"):
        await ag.backward(ag.graph.GradientEdge(Node(), 0), 1.0)


def test_a_leaf_has_one_accumulator_while_a_graph_holds_it():
    x = leaf(1.0)
    first, second = np.multiply(x, 2.0), np.add(x, 1.0)
    node = first.grad_fn.next_nodes[0]

    assert type(node) is AccumulateGrad
    assert second.grad_fn.next_nodes[0] is node
    assert node.variable is x


async def test_an_accumulator_goes_with_the_last_graph_and_hooks_on_its_leaf_stay():
    gc.disable()
    try:
        x, seen = leaf(1.0), []
        x.register_hook(seen.append)
        out = np.multiply(x, 2.0)
        reference = weakref.ref(out.grad_fn.next_nodes[0])
        del out
        assert reference() is None
    finally:
        gc.enable()

    await ag.backward(np.multiply(x, 2.0))

    assert len(seen) == 1


def test_a_tensor_that_does_not_require_grad_has_no_gradient_edge():
    with pytest.raises(ag.errors.RequiresGradError, match=r"shape \(1,\) .* make it with requires_grad=True"):
        get_gradient_edge(ag.tensor([1.0]))


def test_the_gradient_edge_of_a_result_is_its_node_and_place():
    class Two(ag.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0, x * 2.0

    first, second = Two.apply(leaf(1.0))

    assert get_gradient_edge(first) == (first.grad_fn, 0)
    assert get_gradient_edge(second) == (first.grad_fn, 1)


async def test_edges_to_a_later_output_of_a_node_lead_there():
    class Two(ag.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0, x * 1.0

        @staticmethod
        def backward(ctx, first, second):
            return first + 10.0 * second

    x = leaf(1.0)
    first, second = Two.apply(x)
    products: list[Any] = [np.multiply(second, 3.0), np.multiply(2.0, first), np.multiply(second, second)]

    await ag.backward(products)

    assert x.grad.item() == 10.0 * 3.0 + 2.0 + 10.0 * 2.0


# Who made a node, and what kind it is.


def thread_ids(make: Any) -> list[int]:
    """The `thread_id` of what `make` makes in this thread, in another one, and in one with this one's context."""
    nodes: list[Any] = [make()]
    idents = [threading.get_ident()]

    def work() -> None:
        idents.append(threading.get_ident())
        nodes.append(make())

    for target in (work, functools.partial(contextvars.copy_context().run, work)):
        thread = threading.Thread(target=target)
        thread.start()
        thread.join()
    assert [node.thread_id for node in nodes] == idents
    return idents


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.multiply(leaf(1.0), 2.0).grad_fn,
        lambda: np.concatenate([leaf(1.0), leaf(2.0)]).grad_fn,
        lambda: np.split(leaf(1.0), 1)[0].grad_fn,
        lambda: get_gradient_edge(leaf(1.0)).node,
        lambda: Identity.apply(leaf(1.0)).grad_fn,
        PassingNode,
    ],
    ids=["operation", "join", "split", "leaf", "function", "own"],
)
def test_a_node_knows_the_thread_that_made_it(make):
    assert thread_ids(make)[0] == threading.main_thread().ident


class Identity(ag.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1.0


def test_operations_are_traceable_and_ones_own_nodes_only_if_they_say_so():
    class Traceable(TraceableNode):
        def apply(self, grads):
            return grads

    x = leaf(1.0)
    nodes = [np.multiply(x, 2.0).grad_fn, np.concatenate([x, x]).grad_fn, Traceable()]
    others = [PassingNode(), get_gradient_edge(x).node, Identity.apply(x).grad_fn]

    assert [node.is_traceable for node in nodes] == [True] * 3
    assert [node.is_traceable for node in others] == [False] * 3
    assert [node.passes_state_transparently for node in nodes + others] == [False] * 6


def test_a_node_is_the_same_object_on_every_access_and_equals_no_other():
    x = leaf(1.0)
    y = np.multiply(x, 2.0)
    same = np.multiply(x, 2.0)

    assert y.grad_fn is y.grad_fn
    assert np.add(y, 1.0).grad_fn.next_edges[0].node is y.grad_fn
    assert y.grad_fn != same.grad_fn
    assert len({y.grad_fn, same.grad_fn, y.grad_fn}) == 2


# Hooks of a node.


async def test_a_node_pre_hook_replaces_what_the_body_takes_and_a_post_hook_what_it_returned():
    x, seen = leaf(3.0), []
    y = np.multiply(x, 2.0)

    def before(grads):
        seen.append(("before", [grad.tolist() for grad in grads]))
        return tuple(grad * 10 for grad in grads)

    async def after(outputs, grads):
        seen.append(("after", [None if g is None else g.tolist() for g in outputs], [g.tolist() for g in grads]))
        return (outputs[0] + 1, None)

    handles = [y.grad_fn.register_prehook(before), y.grad_fn.register_hook(after)]
    await ag.backward(y, retain_graph=True)
    for handle in handles:
        handle.remove()
    await ag.backward(y)

    assert seen == [("before", [[1.0]]), ("after", [[20.0], None], [[10.0]])]
    assert x.grad.tolist() == [21.0 + 2.0]


@pytest.mark.parametrize("register", ["register_prehook", "register_hook"])
def test_a_hook_of_a_node_is_something_to_call(register):
    with pytest.raises(TypeError, match="a hook must be callable"):
        getattr(PassingNode(), register)(3)
