"""The parts of the engine that never await, driven by hand and without a loop."""

from __future__ import annotations

import contextvars
import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import asyncgrad as ag
from asyncgrad.core.engine.engine import _make_uncompiled
from asyncgrad.core.engine.exec_info import STEP, init_if_whole, init_to_execute
from asyncgrad.core.engine.executor import NodeTurn, Stop
from asyncgrad.core.engine.graph_task import GraphTask
from asyncgrad.core.engine.queues import InputBuffer, ReadyQueue
from asyncgrad.graph import Edge, Node
from tests.support.functions import calling
from tests.support.leaves import leaf
from tests.support.nodes import IdleNode
from tests.support.settings import node_by_node

# ReadyQueue.


def test_the_queue_gives_the_newest_node_first_and_leaves_before_all():
    queue, nodes = ReadyQueue(), [IdleNode() for _ in range(10)]
    leaves = [ag.graph.get_gradient_edge(leaf(1.0)).node for _ in range(3)]
    mixed: list[Any] = [*nodes, *leaves]
    random.Random(1).shuffle(mixed)
    for node in mixed:
        queue.push(node, node)

    popped = [queue.pop() for _ in range(len(queue))]

    assert popped[3:] == nodes[::-1]
    assert popped[:3] == [node for node in mixed if node in leaves]


def test_a_queue_that_was_cleared_is_empty():
    queue = ReadyQueue()
    queue.push(IdleNode(), None)
    assert queue

    queue.clear()

    assert not queue


# InputBuffer.


def filled(values: list[Any], order: list[int], in_place: bool = True) -> InputBuffer:
    """Return a buffer to which `values` have come in `order`, to be summed in the order of the list."""
    node = IdleNode()
    buffer = InputBuffer(1)
    buffer.expected = [(node, number) for number in range(len(values))]
    for number in order:
        buffer.add(0, values[number], (node, number), in_place)
    return buffer


@given(st.data())
def test_what_comes_early_is_summed_in_its_turn(data):
    values = data.draw(st.lists(st.sampled_from([None, 0.1, 0.7, 1e16, -1e16, 3.3]), min_size=1, max_size=7))
    order = data.draw(st.permutations(range(len(values))))
    arrays = [None if value is None else np.array([value]) for value in values]

    buffer = filled(arrays, list(order))

    expected = None
    for value in values:
        if value is not None:
            expected = value if expected is None else expected + value
    (total,) = buffer.values
    assert (None if total is None else total.item()) == expected
    assert [None if array is None else array.item() for array in arrays] == values


def test_nothing_is_written_into_under_create_graph():
    sums: list[Any] = []
    node, buffer = IdleNode(), InputBuffer(1)
    for number in range(4):
        buffer.add(0, np.array([1.0]), (node, number), False)
        sums.append(buffer.values[0])

    assert [total.item() for total in sums] == [1.0, 2.0, 3.0, 4.0]


def test_each_input_is_summed_by_itself():
    node, buffer = IdleNode(), InputBuffer(3)
    for number, (input_nr, value) in enumerate([(0, 1.0), (2, 5.0), (0, 2.0), (2, None)]):
        buffer.add(input_nr, value, (node, number), True)

    assert buffer.values == [3.0, None, 5.0]
    assert buffer.holds_gradients()
    assert not InputBuffer(3).holds_gradients()


# ExecInfo.


@st.composite
def graphs(draw: st.DrawFn) -> list[IdleNode]:
    """Nodes in order of creation; each leads to some that are older, or nowhere."""
    nodes: list[IdleNode] = []
    for _ in range(draw(st.integers(1, 12))):
        older: list[IdleNode | None] = [None, *nodes]
        nodes.append(IdleNode(*draw(st.lists(st.sampled_from(older), max_size=3)), inputs=2))
    return nodes


def leads_to(node: Node, wanted: set[Node]) -> bool:
    return any(target in wanted or leads_to(target, wanted) for target in node.next_nodes if target is not None)


def reachable(node: Node) -> set[Node]:
    found = {node}
    for target in node.next_nodes:
        if target is not None:
            found |= reachable(target)
    return found


@given(graphs(), st.data(), st.booleans())
def test_just_the_nodes_on_a_path_to_an_input_are_needed(nodes, data, accumulate):
    root = nodes[-1]
    inputs = data.draw(st.lists(st.tuples(st.sampled_from(nodes), st.integers(0, 1)), min_size=1, max_size=4))
    wanted = {node for node, _ in inputs}

    exec_info = init_to_execute(root, [Edge(*edge) for edge in inputs], accumulate)
    before = {node: (exec_info.executes(node), exec_info.only_runs(node)) for node in nodes}
    whole = set(exec_info.whole)
    # Who may change it finds every entry.
    assert exec_info.hand_out() is exec_info

    for node in reachable(root):
        assert before[node] == (exec_info.executes(node), exec_info.only_runs(node))
        targets = [target for target in node.next_nodes if target is not None]
        is_whole = bool(targets) and before[node][1] and all(map(exec_info.executes, targets))
        assert (node in whole) == is_whole
        info = exec_info.get(node)
        needed = leads_to(node, wanted) or (accumulate and node in wanted)
        captures = [] if accumulate else [(nr, index) for index, (found, nr) in enumerate(inputs) if found is node]
        assert (info is not None and info.needed) == needed
        assert ([] if info is None else info.captures) == captures
        assert exec_info.executes(node) == (needed or bool(captures))
    assert root in exec_info


@given(graphs(), st.data(), st.booleans())
def test_one_walk_finds_the_same_where_all_paths_end_at_the_inputs(nodes, data, accumulate):
    root = nodes[-1]
    ends = [node for node in nodes if not node.next_nodes]
    chosen = data.draw(st.lists(st.sampled_from(ends), max_size=2)) if ends else []
    inputs = [Edge(node, index % 2) for index, node in enumerate(ends + chosen)]

    found = init_if_whole(root, inputs, accumulate)

    ends_only_there = all(any(node.next_nodes) or node in ends for node in reachable(root))
    assert (found is not None) == (root not in ends and ends_only_there)
    if found is not None:
        expected = init_to_execute(root, inputs, accumulate)
        assert (found.whole, found.executed) == (expected.whole, expected.executed)
        for info in (found, expected):
            info.hand_out()
        assert {node: (info.needed, info.captures) for node, info in found.items()} == {
            node: (info.needed, info.captures) for node, info in expected.items()
        }


def test_one_walk_does_not_look_at_more_nodes_than_a_step():
    end = IdleNode()
    nodes = [end]
    for _ in range(STEP + 1):
        nodes.append(IdleNode(nodes[-1]))

    assert init_if_whole(nodes[-2], [Edge(end, 0)], False) is not None
    assert init_if_whole(nodes[-1], [Edge(end, 0)], False) is None


# GraphTask.


def task_of(root: ag.Tensor, grad: Any, **options: Any) -> GraphTask:
    defaults: dict[str, Any] = {
        "id": 0,
        "keep_graph": False,
        "create_graph": False,
        "exec_info": None,
        "captures": 0,
        "outer": None,
        "context": contextvars.copy_context(),
    }
    assert root.grad_fn is not None
    task = GraphTask(root.grad_fn, root.output_nr, **{**defaults, **options})
    task.executor = _make_uncompiled(task, grad, root.output_nr)
    return task


def test_a_plain_graph_is_run_in_one_go_and_its_leaves_at_the_end():
    x = leaf(2.0, 3.0)
    task = task_of(np.multiply(np.multiply(x, x), 2.0), np.ones(2))

    assert task.executor.run(math.inf) is Stop.DRAINED
    assert x.grad is None
    task.finish()

    assert x.grad.numpy().tolist() == [8.0, 12.0]
    assert task.executor.node is None


def test_a_plain_graph_can_be_left_after_every_node():
    x = leaf(2.0)
    with node_by_node():
        task = task_of(np.multiply(np.multiply(np.multiply(x, x), 2.0), 3.0), np.ones(1))

    stops = [task.executor.run(-math.inf) for _ in range(4)]
    task.finish()

    assert stops == [Stop.BUDGET_SPENT] * 3 + [Stop.DRAINED]
    assert x.grad.item() == 24.0


@pytest.mark.parametrize("place", ["first", "second", "third", "leaf"])
def test_the_first_node_that_somebody_watches_has_a_turn(place):
    x = leaf(2.0)
    third = np.multiply(x, 2.0)
    second = np.multiply(third, 3.0)
    first = np.multiply(second, 5.0)
    {"first": first, "second": second, "third": third, "leaf": x}[place].register_hook(lambda grad: None)
    task = task_of(first, np.ones(1))

    step = task.executor.run(math.inf)
    # A watched leaf, or a node below the first, is met on the way.
    turn = task.executor.run(math.inf) if step is Stop.HANDED_OVER else step
    assert isinstance(turn, NodeTurn)
    watched = turn.node
    expected = {"first": first.grad_fn, "second": second.grad_fn, "third": third.grad_fn}
    assert watched is expected.get(place, third.grad_fn.next_nodes[0])


def test_an_executor_that_hands_over_keeps_its_sums():
    """It does so when two of three gradients have been summed, and a leaf has got one."""
    x = leaf(2.0)
    shared = np.multiply(x, 1.0)
    body = calling(leaf(1.0), lambda grad: None)
    total = np.add(np.multiply(shared, 2.0), np.multiply(x, 7.0))
    out = np.add(np.add(np.add(body, total), np.multiply(shared, 3.0)), np.multiply(shared, 4.0))
    task = task_of(out, np.ones(1))

    assert task.executor.run(math.inf) is Stop.HANDED_OVER
    turns = []
    while isinstance(turn := task.executor.run(math.inf), NodeTurn):
        turns.append(turn.node)
        task.executor.end_turn(turn.node, turn.node.apply(tuple(turn.grads)))

    assert (turn, turns) == (Stop.DRAINED, [body.grad_fn])
    assert x.grad.item() == 16.0
    assert task.finish() == []


def test_a_task_that_failed_knows_where():
    x = leaf(2.0)
    released = np.multiply(x, x)
    task_of(released, np.ones(1)).executor.run(math.inf)
    task = task_of(np.multiply(released, 2.0), np.ones(1))

    with pytest.raises(ag.errors.ReleasedGraphError):
        task.executor.run(math.inf)

    assert task.executor.node is released.grad_fn
