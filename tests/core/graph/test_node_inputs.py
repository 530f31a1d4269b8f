"""Inputs added to a node by hand, the slot of an output without gradient, and which outputs are to be computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.errors import ArgumentTypeError, IndexRangeError, InvalidGradientError, InvalidRootError
from asyncgrad.graph import Edge, GradientEdge, InputMetadata, Node
from tests.support.functions import function
from tests.support.graphs import edge_to
from tests.support.leaves import leaf, leaf_of
from tests.support.nodes import SumNode
from tests.support.refusals import refused

CPU = ag.device("cpu")
VECTOR = InputMetadata((2,), np.dtype(float), CPU)


# Inputs.


def test_inputs_are_added_one_by_one_and_numbered_so():
    node = SumNode([], ())
    slots = [node.add_input_metadata(metadata) for metadata in (VECTOR, ag.tensor(np.ones(3, np.float32)), None)]

    assert slots == [0, 1, 2]
    assert node.num_inputs == 3
    assert node.input_metadata == (VECTOR, InputMetadata((3,), np.dtype(np.float32), CPU), None)


def test_the_first_input_with_a_device_says_where_the_node_lives():
    node = SumNode([], ())
    before = node.device
    node.add_input_metadata(None)
    node.add_input_metadata(VECTOR)

    assert (before, node.device) == (None, CPU)


async def test_an_input_that_was_added_takes_its_gradient():
    x = leaf(1.0, 2.0)
    lower = SumNode([edge_to(x)], (VECTOR,))
    second = lower.add_input_metadata(VECTOR)
    upper = SumNode([Edge(lower, 0), Edge(lower, second)], (VECTOR,))
    await ag.backward(GradientEdge(upper, 0), np.array([1.0, 10.0]))

    assert x.grad.tolist() == [2.0, 20.0]


async def test_metadata_made_without_arguments_is_the_slot_of_an_output_without_gradient():
    node = SumNode([], ())
    slot = node.add_input_metadata(InputMetadata())

    assert node.input_metadata[slot].was_default_constructed
    assert not VECTOR.was_default_constructed
    with refused(InvalidGradientError, RuntimeError, "SumNode", "the slot of an output that has no gradient"):
        await ag.backward(GradientEdge(SumNode([Edge(node, slot)]), 0), np.ones(2))
    with refused(InvalidRootError, RuntimeError, "root 0", "has no gradient"):
        await ag.backward(GradientEdge(node, slot), np.ones(2))


async def test_the_slot_of_an_output_without_gradient_takes_undefined_gradients():
    seen = []

    class Look(Node):
        def apply(self, grads: tuple[Any, ...]) -> Any:
            seen.append(grads)
            return (None,) * self.num_outputs

    lower = Look([], (InputMetadata(),))
    await ag.backward(GradientEdge(Look([Edge(lower, 0)]), 0), np.ones(2))

    assert seen[1] == (None,)


def test_outputs_of_a_function_that_are_no_tensors_have_the_slot_of_an_output_without_gradient():
    made, text = function(lambda ctx, x: (x.numpy().copy(), "text")).apply(leaf_of([1.0, 2.0]))

    assert text == "text"
    assert [metadata.was_default_constructed for metadata in made.grad_fn.input_metadata] == [False, True]


@pytest.mark.parametrize("metadata", [3, "text", (2,)], ids=repr)
def test_what_does_not_describe_an_input_is_refused(metadata):
    with refused(ArgumentTypeError, TypeError, "an InputMetadata or a tensor", "write InputMetadata("):
        SumNode().add_input_metadata(metadata)


# What is to be computed.


def test_outputs_are_named_by_an_index_a_range_or_several_of_them():
    x = edge_to(leaf(1.0))
    node = SumNode([x, None, None, x])

    assert [node.should_compute_output(index) for index in range(4)] == [True, False, False, True]
    assert [node.should_compute_output(span) for span in [(0, 2), (1, 3), (2, 2), (1, 4)]] == [True, False, False, True]
    assert node.should_compute_output((1, 3), (3, 4))
    assert node.should_compute_output([(1, 2), (2, 4)])
    assert not node.should_compute_output([(1, 2), 2])
    assert node.should_compute_output(np.int64(0))


@pytest.mark.parametrize("named", [4, -1, (0, 5), (2, 1), (-1, 2)], ids=repr)
def test_outputs_that_are_not_there_are_refused(named):
    node = SumNode([None] * 4)

    for ask in (node.should_compute_output, node.task_should_compute_output):
        with pytest.raises(IndexRangeError, match="SumNode"):
            ask(named)


@pytest.mark.parametrize("named", ["a", 1.5, None], ids=repr)
def test_outputs_are_named_by_nothing_else(named):
    with refused(ArgumentTypeError, TypeError, "an index or a pair (start, end)", "should_compute_output((0, 2))"):
        SumNode([None]).should_compute_output(named)


async def test_a_backward_with_given_inputs_wants_only_what_leads_there():
    asked: list[Any] = []

    class Ask(SumNode):
        def apply(self, grads: tuple[Any, ...]) -> Any:
            wants = self.task_should_compute_output
            asked.append([wants(0), wants(1), wants((0, 2)), wants((1, 2)), wants([(1, 2), (0, 1)])])
            return super().apply(grads)

    x, y = leaf(1.0, 2.0), leaf(1.0, 2.0)
    # A Tensor keeps its AccumulateGrad only while a graph does.
    keep = (x * 1, y * 1)
    node = Ask([edge_to(x), edge_to(y)], (VECTOR,))
    root = GradientEdge(node, 0)
    await ag.grad(root, [x], np.ones(2), retain_graph=True)
    await ag.backward(root, np.ones(2))

    assert asked == [[True, False, True, False, True], [True] * 5]
    assert node.task_should_compute_output(1)
    del keep
