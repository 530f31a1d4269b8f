"""The facade asyncgrad.graph: nodes, edges and what can be asked of them; nodes and GradientEdges of one's own."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import RequiresGradError
from asyncgrad.graph import AccumulateGrad, Edge, GradientEdge, InputMetadata, Node, get_gradient_edge
from tests.support.functions import function
from tests.support.leaves import leaf

# Nodes of operations.


def test_a_node_is_named_for_its_operation_and_prints_so():
    y = leaf(1.0) * 2

    assert (y.grad_fn.name, repr(y.grad_fn)) == ("MultiplyBackward", "<MultiplyBackward>")


def test_edges_lead_to_who_made_the_inputs_and_nowhere_for_what_requires_no_grad():
    x = leaf(1.0)
    y = x * 2
    z = y * ag.tensor(3.0) + x
    to_product, to_leaf = z.grad_fn.next_edges
    product = to_product.node

    assert (to_product.input_nr, to_leaf.input_nr) == (0, 0)
    assert product.next_edges == (Edge(y.grad_fn, 0), Edge(None, 0))
    assert [product.should_compute_output(index) for index in range(2)] == [True, False]
    assert to_leaf.node.variable is x
    assert (z.grad_fn.num_inputs, z.grad_fn.num_outputs) == (1, 2)


def test_an_edge_tells_which_output_of_its_node_it_leads_to():
    first, second = function(lambda ctx, x: (x * 2, x * 3)).apply(leaf(1.0))
    y = first * second

    assert y.grad_fn.next_edges == (Edge(first.grad_fn, 0), Edge(first.grad_fn, 1))
    assert first.grad_fn.num_inputs == 2


def test_metadata_says_what_a_gradient_must_look_like():
    y = ag.tensor(np.ones((2, 3), np.float32), requires_grad=True) * 2

    assert y.grad_fn.input_metadata == (InputMetadata((2, 3), np.dtype(np.float32), ag.device("cpu")),)


def test_sequence_numbers_rise_and_topological_numbers_exceed_those_of_what_follows():
    x = leaf(1.0)
    y = x * 2
    z = y * 3
    w = x * 4
    u = w * z

    assert y.grad_fn.sequence_nr < z.grad_fn.sequence_nr < w.grad_fn.sequence_nr < u.grad_fn.sequence_nr
    assert [t.grad_fn.topological_nr for t in (y, z, w, u)] == [1, 2, 1, 3]
    assert get_gradient_edge(x).node.topological_nr == 0
    assert get_gradient_edge(x).node.sequence_nr == 2**64 - 1


def test_what_is_not_recorded_takes_no_sequence_number():
    x = leaf(1.0)
    before = (x * 2).grad_fn.sequence_nr
    with ag.no_grad():
        x * 3
    x.detach() * 3

    assert (x * 2).grad_fn.sequence_nr == before + 1


def test_a_node_keeps_what_users_note_in_it():
    y = leaf(1.0) * 2
    y.grad_fn.metadata["seen"] = 3

    assert y.grad_fn.metadata == {"seen": 3}


def test_a_node_can_release_what_it_saved():
    x = leaf(1.0)
    y = x * x
    y.grad_fn.release_variables()

    with pytest.raises(RuntimeError, match="released"):
        sync.backward(y)


# Leaves.


def test_all_uses_of_a_leaf_share_one_accumulator_while_a_graph_lives():
    x = leaf(1.0)
    y, z = x * 2, x * 3

    assert isinstance(get_gradient_edge(x).node, AccumulateGrad)
    assert y.grad_fn.next_edges[0].node is z.grad_fn.next_edges[0].node is get_gradient_edge(x).node


def test_an_accumulator_lives_as_long_as_its_graphs_and_the_hooks_of_its_leaf_outlive_it():
    x, seen = leaf(1.0), []
    x.register_hook(lambda grad: seen.append(grad.tolist()))
    y = x * 2
    first = weakref.ref(get_gradient_edge(x).node)
    del y
    gc.collect()
    assert first() is None

    sync.backward(x * 3)
    assert seen == [[3.0]]


def test_get_gradient_edge_of_what_requires_no_grad_raises():
    with pytest.raises(RequiresGradError, match=r"shape \(2,\).*requires_grad=True"):
        get_gradient_edge(ag.tensor([1.0, 2.0]))


# GradientEdges.


def test_a_gradient_edge_is_a_root_in_the_place_of_its_tensor():
    x = leaf(1.0, 2.0)
    edge = get_gradient_edge(x * x)
    sync.backward(edge, np.ones(2))

    assert x.grad.tolist() == [2.0, 4.0]


def test_a_gradient_edge_is_an_input_in_the_place_of_its_tensor():
    x = leaf(1.0, 2.0)
    y = x * x
    loss = (y * y).sum()
    by_edge = sync.grad(loss, [get_gradient_edge(y), get_gradient_edge(x)], retain_graph=True)
    by_tensor = sync.grad(loss, [y, x])

    assert [g.tolist() for g in by_edge] == [g.tolist() for g in by_tensor] == [[2.0, 8.0], [4.0, 32.0]]
    assert all(isinstance(g, ag.Tensor) for g in by_edge)


def test_a_backward_limited_to_a_gradient_edge_accumulates_there_alone():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    sync.backward((x * w).sum(), inputs=[get_gradient_edge(x)])

    assert (x.grad.tolist(), w.grad) == ([3.0, 4.0], None)


def test_a_scalar_gradient_edge_starts_from_one():
    x = leaf(1.0, 2.0)
    sync.backward(get_gradient_edge((x * x).sum()))

    assert x.grad.tolist() == [2.0, 4.0]


def test_a_gradient_edge_does_not_hold_the_array_of_its_tensor():
    y = leaf(1.0) + 2
    held = weakref.ref(y)
    edge = get_gradient_edge(y)
    del y
    gc.collect()

    assert held() is None
    assert edge.node.name == "AddBackward"


# Nodes of one's own.


class Scale(Node):
    """Multiplies the gradient, and forwards it to every edge."""

    def __init__(self, factor: float, *tensors: ag.Tensor) -> None:
        edges = [Edge(*get_gradient_edge(t)) if t.requires_grad else None for t in tensors]
        super().__init__(edges, [InputMetadata((2,), np.dtype(float), ag.device("cpu"))])
        self.factor = factor

    def apply(self, grads: tuple[Any, ...]) -> Any:
        return tuple(grads[0] * self.factor for _ in self.next_edges)


class AsyncScale(Scale):
    """The same, after a turn of the loop."""

    async def apply(self, grads: tuple[Any, ...]) -> Any:
        await asyncio.sleep(0)
        return super().apply(grads)


@pytest.mark.parametrize("kind", [Scale, AsyncScale])
async def test_a_node_of_ones_own_takes_gradients_to_its_edges(kind):
    x, plain = leaf(1.0, 2.0), ag.tensor([1.0, 2.0])
    y = x * 3
    node = kind(5.0, y, plain, x)
    await ag.backward(GradientEdge(node, 0), np.array([1.0, 2.0]))

    assert (node.name, node.num_outputs, node.is_async) == (kind.__name__, 3, kind is AsyncScale)
    assert x.grad.tolist() == [20.0, 40.0]


def test_a_body_gets_bare_arrays_or_tensors_under_create_graph():
    seen = []

    class Look(Scale):
        def apply(self, grads: tuple[Any, ...]) -> Any:
            seen.append((type(grads[0]), ag.is_grad_enabled()))
            return super().apply(grads)

    x = leaf(1.0, 2.0)
    root = GradientEdge(Look(2.0, x), 0)
    sync.backward(root, np.ones(2))
    v = leaf(1.0, 1.0)
    (g,) = sync.grad(root, [x], v, create_graph=True)
    sync.backward(g.sum())

    assert seen == [(np.ndarray, False), (ag.Tensor, True)]
    assert v.grad.tolist() == [2.0, 2.0]


def test_an_undefined_gradient_reaches_a_body_as_none_and_flows_on_as_none():
    seen = []

    class Look(Node):
        def apply(self, grads: tuple[Any, ...]) -> Any:
            seen.append(grads)
            return grads[:1]

    x = leaf(1.0, 2.0)
    metadata = get_gradient_edge(x).node.input_metadata[0]
    lower = Look([Edge(*get_gradient_edge(x))], [metadata, metadata])
    upper = Look([Edge(lower, 1)], [metadata])
    sync.backward(GradientEdge(upper, 0), np.ones(2))

    assert [None if grad is None else grad.tolist() for grads in seen for grad in grads] == [
        [1.0, 1.0],
        None,
        [1.0, 1.0],
    ]
    assert x.grad is None


def test_a_gradient_is_summed_and_cast_to_what_the_next_node_takes():
    class Broadcast(Node):
        def apply(self, grads: tuple[Any, ...]) -> Any:
            return (np.ones((4, 2), np.float32),)

    x = leaf(1.0, 2.0)
    sync.backward(GradientEdge(Broadcast([Edge(*get_gradient_edge(x))]), 0), np.ones(1))

    assert (x.grad.tolist(), x.grad.dtype) == ([4.0, 4.0], np.float64)


def test_a_node_without_edges_ends_a_backward():
    class End(Node):
        def apply(self, grads: tuple[Any, ...]) -> Any:
            seen.append(grads[0].tolist())
            return ()

    seen: list[Any] = []
    sync.backward(GradientEdge(End(), 0), np.ones(2))

    assert seen == [[1.0, 1.0]]


# Handles.


def test_a_handle_removes_its_hook_any_number_of_times():
    x = leaf(1.0)
    seen: list[Any] = []
    handle = x.register_hook(seen.append)
    handle.remove()
    handle.remove()
    sync.backward(x * 2)

    assert seen == []


def test_a_handle_outlives_its_tensor():
    x = leaf(1.0)
    handle = x.register_hook(print)
    del x
    gc.collect()
    handle.remove()
