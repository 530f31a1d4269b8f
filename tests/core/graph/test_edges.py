"""Edges and inputs set by hand: what follows from them, and when they may no longer change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ArgumentTypeError, GraphError, IndexRangeError
from asyncgrad.graph import Edge, GradientEdge, InputMetadata, Node, get_gradient_edge
from tests.support.functions import function
from tests.support.graphs import edge_to
from tests.support.leaves import leaf
from tests.support.nodes import SumNode
from tests.support.refusals import refused

CPU = ag.device("cpu")
VECTOR = InputMetadata((2,), np.dtype(float), CPU)


# Setting edges.


def test_an_edge_set_by_hand_replaces_one_and_leaves_the_others():
    x, y = leaf(1.0), leaf(2.0)
    node = (x * y).grad_fn
    node.set_next_edge(1, edge_to(x))

    assert node.next_edges == (edge_to(x), edge_to(x))


async def test_gradients_flow_along_the_edges_that_were_set():
    x, y, z = leaf(1.0), leaf(2.0), leaf(3.0)
    out = x * y
    out.grad_fn.set_next_edges([None, get_gradient_edge(z)])
    await ag.backward(out)

    assert (x.grad, y.grad, z.grad.tolist()) == (None, None, [1.0])


async def test_a_node_of_ones_own_gets_edges_one_by_one():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    node = SumNode()
    node.add_next_edge(edge_to(x))
    node.add_next_edge(None)
    node.add_next_edge(edge_to(y * 2))
    await ag.backward(GradientEdge(node, 0), np.ones(2))

    assert node.num_outputs == 3
    assert (x.grad.tolist(), y.grad.tolist()) == ([1.0, 1.0], [2.0, 2.0])


def test_a_node_of_ones_own_may_get_another_number_of_edges():
    node = SumNode([None, None, None])
    node.set_next_edges([edge_to(leaf(1.0))])

    assert node.num_outputs == 1


def test_the_topological_number_follows_from_the_edges_that_were_set():
    x = leaf(1.0)
    deep = x * 2 * 3 * 4
    node = SumNode()
    numbers = [node.topological_nr]
    for edge in (edge_to(x), edge_to(deep), None):
        node.set_next_edges([edge])
        numbers.append(node.topological_nr)

    assert numbers == [0, 1, 4, 0]


def test_nodes_made_from_a_node_with_new_edges_take_their_number_from_it():
    x = leaf(1.0)
    out = x * 2
    out.grad_fn.set_next_edge(0, edge_to(x * 2 * 3 * 4))

    assert (out * 2).grad_fn.topological_nr == 5


# When edges are fixed.

PARENTS: dict[str, Any] = {
    "an operation": lambda t: t * 2,
    "an operation of two": lambda t: ag.tensor([1.0]) * t,
    "a join": lambda t: np.concatenate([t, t]),
    "a split": lambda t: np.split(t, 1)[0],
    "a Function": lambda t: function(lambda ctx, x: x.numpy().copy()).apply(t),
    "a node of one's own": lambda t: SumNode([edge_to(t)]),
    "an edge set by hand": lambda t: SumNode([None]).set_next_edges([edge_to(t)]),
    "an edge added by hand": lambda t: SumNode([]).add_next_edge(edge_to(t)),
}

CHANGES: dict[str, Any] = {
    "set_next_edge": lambda node: node.set_next_edge(0, None),
    "set_next_edges": lambda node: node.set_next_edges([None]),
    "add_next_edge": lambda node: node.add_next_edge(None),
}


@pytest.mark.parametrize("parent", PARENTS.values(), ids=PARENTS)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_the_edges_of_a_node_with_a_parent_are_fixed(parent, change):
    t = ag.tensor([1.0])
    ag.graph.create_gradient_edge(t, SumNode([edge_to(leaf(1.0))], ()))
    node: Any = t.grad_fn
    before = node.next_edges
    held = parent(t)

    fixed = f"the edges of SumNode (node #{node.sequence_nr}) are fixed: a node leads to it"
    with refused(GraphError, RuntimeError, fixed):
        change(node)
    assert node.next_edges == before
    del held


def test_the_edges_of_an_operations_node_are_fixed_by_its_parent_too():
    y = leaf(1.0) * 2
    z = y * 3

    with refused(GraphError, RuntimeError, "the edges of MultiplyBackward"):
        y.grad_fn.set_next_edge(0, None)
    z.grad_fn.set_next_edge(0, None)


def test_no_edge_closes_a_cycle():
    lower = SumNode([None])
    upper = SumNode([Edge(lower, 0)])

    with pytest.raises(GraphError, match="fixed"):
        lower.set_next_edge(0, Edge(upper, 0))
    with pytest.raises(GraphError, match="to the node itself"):
        upper.set_next_edge(0, Edge(upper, 0))


# What edges may not be.


@pytest.mark.parametrize("edge", [3, "text", (1, 2), (None,), leaf(1.0)], ids=repr)
def test_what_is_no_edge_is_refused(edge):
    with refused(ArgumentTypeError, TypeError, "an edge must be an Edge, a GradientEdge or None", "write Edge(node"):
        SumNode([None]).set_next_edge(0, edge)
    with pytest.raises(ArgumentTypeError):
        SumNode([edge])


def test_an_edge_leads_to_an_input_that_its_node_has():
    target = SumNode()

    with refused(IndexRangeError, IndexError, "input 1 of SumNode", "1 input"):
        SumNode([None]).set_next_edge(0, Edge(target, 1))
    with refused(ArgumentTypeError, TypeError, "input_nr", "Edge(node, 0)"):
        SumNode([Edge(target, None)])  # type: ignore[arg-type]


@pytest.mark.parametrize(("index", "error"), [(2, IndexRangeError), (-1, IndexRangeError), ("a", ArgumentTypeError)])
def test_only_an_edge_that_is_there_is_replaced(index, error):
    with pytest.raises(error):
        SumNode([None, None]).set_next_edge(index, None)


def test_an_operations_node_keeps_the_number_of_its_edges():
    node = (leaf(1.0) * 2).grad_fn

    with refused(GraphError, RuntimeError, "MultiplyBackward", "cannot get one more edge", "a node of your own"):
        node.add_next_edge(None)
    with refused(GraphError, RuntimeError, "cannot get 0 edges in place of 2"):
        node.set_next_edges([])
    with refused(GraphError, RuntimeError, "cannot get one more input"):
        node.add_input_metadata(VECTOR)


def test_no_edge_leads_on_from_an_input_that_was_recorded_without_a_gradient():
    node = (leaf(1.0) * ag.tensor([2.0])).grad_fn

    with refused(GraphError, RuntimeError, "computes no gradient for input 1"):
        node.set_next_edge(1, edge_to(leaf(1.0)))
    node.set_next_edge(1, None)


# How the engine runs them.


async def test_a_node_that_leads_by_hand_to_a_newer_one_runs_before_it_and_nothing_runs_twice():
    """The newer node is reached on another way first; a second run would find what it saved released."""
    x, w = leaf(1.0), leaf(1.0)
    old = x * x
    newer = w * w
    old.grad_fn.set_next_edge(1, edge_to(newer))
    await ag.backward((newer * 1) * (old * 1))

    assert (x.grad.tolist(), w.grad.tolist()) == ([1.0], [4.0])


def paths(root: Node) -> dict[Node, int]:
    """How many paths lead from `root` to each node."""
    counts = {root: 1}
    order: list[Node] = []
    waiting: list[tuple[Node, bool]] = [(root, False)]
    seen = set()
    while waiting:
        node, done = waiting.pop()
        if done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            waiting.append((node, True))
            waiting += [(target, False) for target in node.next_nodes if target is not None]
    for node in reversed(order):
        for target in node.next_nodes:
            if target is not None:
                counts[target] = counts.get(target, 0) + counts[node]
    return counts


@given(st.data())
def test_a_gradient_comes_once_along_each_path_whatever_edges_and_numbers_were_set(data):
    # Products of ones: a path brings a gradient of one, and a node that ran twice would find what it saved released.
    leaves = [leaf(1.0) for _ in range(3)]
    tensors = list(leaves)
    for _ in range(data.draw(st.integers(2, 12))):
        kind = data.draw(st.sampled_from(["product", "product", "edge", "number"]))
        made = tensors[len(leaves) :]
        free = [tensor for tensor in made if not tensor.grad_fn.is_held()]
        if kind == "edge" and free:
            changed, target = data.draw(st.sampled_from(free)), data.draw(st.sampled_from(tensors))
            if changed is not target:
                changed.grad_fn.set_next_edge(data.draw(st.integers(0, 1)), edge_to(target))
        elif kind == "number" and made:
            node = data.draw(st.sampled_from(made)).grad_fn
            node.sequence_nr = data.draw(st.sampled_from([0, node.sequence_nr + 3, 2**40]))
        else:
            tensors.append(data.draw(st.sampled_from(tensors)) * data.draw(st.sampled_from(tensors)))
    roots = [tensor for tensor in tensors[len(leaves) :] if not tensor.grad_fn.is_held()]
    root = roots[0]
    for other in roots[1:]:
        root = root * other
    counts = paths(root.grad_fn)
    expected = [counts.get(get_gradient_edge(x).node, 0) for x in leaves]

    (found,) = sync.grad(root, leaves[:1], retain_graph=True, materialize_grads=True)
    sync.backward(root)

    assert found.item() == expected[0]
    assert [0 if x.grad is None else x.grad.item() for x in leaves] == expected


# Sequence numbers.


def test_a_higher_number_moves_a_node_forward_and_a_lower_one_back():
    def order_with(number: int | None) -> list[str]:
        seen: list[str] = []
        x = leaf(1.0)
        first, second = x * 1, x * 2
        first.register_hook(lambda grad: seen.append("first"))
        second.register_hook(lambda grad: seen.append("second"))
        if number is not None:
            first.grad_fn.sequence_nr = number
            assert first.grad_fn.sequence_nr == number
        sync.backward(first + second)
        return seen

    assert [order_with(None), order_with(2**63), order_with(0)] == [
        ["second", "first"],
        ["first", "second"],
        ["second", "first"],
    ]


async def test_a_leaf_may_be_given_a_low_number():
    x = leaf(1.0)
    out = x * 2
    get_gradient_edge(x).node.sequence_nr = 0
    await ag.backward(out + x)

    assert x.grad.tolist() == [3.0]


@pytest.mark.parametrize(("number", "built_in"), [("1", TypeError), (True, TypeError), (-1, ValueError)])
def test_what_is_no_sequence_number_is_refused(number, built_in):
    node = SumNode()

    with pytest.raises(built_in, match="sequence number of SumNode"):
        node.sequence_nr = number
