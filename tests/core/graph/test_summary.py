"""ag.graph.summary: what it counts, and how it is printed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.graph.facts import byte_text, time_text
from asyncgrad.errors import ArgumentTypeError, RequiresGradError
from tests.support.leaves import leaf


class Scale(ag.Function):
    """Multiplies by two; its rule is an `async def`."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    async def backward(ctx, grad):
        return grad * 2


def lines_of(summary: ag.graph.GraphSummary) -> dict[str, str]:
    return dict(summary.lines())


def test_nodes_edges_leaves_and_depth_are_counted():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = np.tanh(x * w) + x

    found = ag.graph.summary(y)

    assert found.kinds == {"AddBackward": 1, "TanhBackward": 1, "MultiplyBackward": 1}
    assert (found.nodes, found.edges, found.depth, len(found.leaves)) == (3, 5, 4, 2)
    assert {each.shape for each in found.leaves} == {(2,)}


def test_each_saved_array_counts_once_and_leaves_apart():
    x = leaf(1.0, 2.0)
    y = x * x
    z = np.sin(y) + np.cos(y)

    found = ag.graph.summary(z)

    # x twice, and y twice.
    assert (found.saved_bytes, found.saved_leaf_bytes, found.saved_arrays) == (32, 16, 2)
    assert found.largest_saved is not None
    assert found.largest_saved[:3] == (16, (2,), "float64")


def test_packed_tensors_count_apart():
    x = leaf(1.0, 2.0)
    with ag.graph.saved_tensors_hooks(lambda t: t.numpy().copy(), lambda a: ag.tensor(a)):
        y = np.sin(x * 2)

    found = ag.graph.summary(y)

    assert (found.packed, found.packed_bytes) == (1, 16)
    assert "packed" in lines_of(found)
    assert found.saved_bytes == 0


def test_hooks_devices_and_async_rules_are_counted():
    x = leaf(1.0)
    y = Scale.apply(x.to("thread:0"))
    y.register_hook(lambda grad: grad)
    y.grad_fn.register_prehook(lambda grads: None)
    y.grad_fn.register_hook(lambda outputs, grads: None)
    y.retain_grad()
    x.register_post_accumulate_grad_hook(lambda t: None)

    found = ag.graph.summary(y)

    assert found.hooks == {
        "tensor hook": 1,
        "pre-hook": 1,
        "post-hook": 1,
        "retained gradient": 1,
        "post-accumulate hook": 1,
    }
    assert found.devices == {"thread:0": 2, "cpu": 1}
    assert found.async_kinds == {"ScaleBackward": 1}


def test_what_a_backward_has_released_is_said():
    y = np.sin(leaf(1.0)).sum()
    sync.backward(y)

    found = ag.graph.summary(y)

    assert found.released == 1
    assert lines_of(found)["released"] == "1 node, by a backward"
    assert lines_of(found)["saved"] == "nothing"


def test_names_that_differ_in_numbers_are_counted_together():
    model = ag.nn.Sequential(*[ag.nn.Linear(4, 4) for _ in range(12)])

    line = lines_of(ag.graph.summary(model(ag.tensor(np.ones((2, 4)))), params=model))["leaves"]

    assert line == "1.9 kB: *.weight (4, 4) float64 × 12, *.bias (4,) float64 × 12"


def test_a_tree_names_its_tensors_by_their_paths():
    params = {"layers": [{"w": leaf(1.0)}, {"w": leaf(2.0)}]}
    y = params["layers"][0]["w"] * params["layers"][1]["w"]

    assert {each.name for each in ag.graph.summary(y, params=params).leaves} == {"layers.0.w", "layers.1.w"}


def test_no_line_is_wider_than_a_terminal_and_no_shape_is_broken():
    x = leaf(1.0)
    ys = [x.reshape((1,) * count) * 2 for count in range(1, 30)]

    lines = str(ag.graph.summary(ys)).splitlines()

    assert max(map(len, lines)) <= 110
    assert all(line.count("(") == line.count(")") for line in lines)


def test_a_long_chain_needs_no_recursion():
    y = leaf(1.0)
    for _ in range(20_000):
        y = y * 1.0

    assert ag.graph.summary(y).depth == 20_001


def test_nodes_whose_numbers_a_user_has_set_are_in_the_order_of_their_edges():
    x = leaf(1.0)
    a = x * 2
    b = np.tanh(a)
    a.grad_fn.sequence_nr = b.grad_fn.sequence_nr + 1000

    found = ag.graph.summary(b)

    assert (found.depth, found.nodes) == (3, 2)


def test_the_summary_is_frozen_and_its_repr_is_its_text():
    found = ag.graph.summary(leaf(1.0) * 2)

    with pytest.raises(dataclasses.FrozenInstanceError):
        found.depth = 3
    assert repr(found) == str(found)


@pytest.mark.parametrize("t", [1.0, [], None, "y"])
def test_what_is_no_tensor_is_refused(t):
    with pytest.raises(ArgumentTypeError, match=r"ag\.graph\.summary takes a tensor"):
        ag.graph.summary(t)


def test_a_tensor_without_a_graph_is_refused():
    with pytest.raises(RequiresGradError, match=r"t, a tensor of shape \(1,\), has no graph"):
        ag.graph.summary(leaf(1.0).detach() * 2)


def test_quantities_have_units_of_a_thousand():
    sizes = [0, 999, 1000, 99_960, 123_456, 2_500_000, 3 * 10**12]

    assert [byte_text(size) for size in sizes] == ["0 B", "999 B", "1.0 kB", "100 kB", "123 kB", "2.5 MB", "3.0 TB"]
    assert [time_text(time) for time in (5, 1500, 2.5e6, 3e9)] == ["5 ns", "1.5 µs", "2.5 ms", "3.00 s"]
