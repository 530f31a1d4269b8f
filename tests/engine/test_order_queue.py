"""ReadyQueue serves several backward passes: deepest first, then newest, leaves ahead, ties first in, first out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import asyncgrad as ag
from asyncgrad.engine.queues import ReadyQueue
from asyncgrad.graph import Node
from tests.engine.bodies import leaf


class Some(Node):
    """A node that is never run."""


def some_leaf() -> Node:
    return ag.graph.get_gradient_edge(leaf(1.0)).node


def drained(queue: ReadyQueue[Any]) -> list[Any]:
    return [queue.pop() for _ in range(len(queue))]


def test_all_of_a_deeper_backward_comes_before_anything_of_a_shallower_one():
    """Its leaves, which are ahead of all else, as much as its oldest node."""
    old, new, old_leaf = Some(), Some(), some_leaf()
    queue: ReadyQueue[str] = ReadyQueue()
    for depth in (0, 2, 1):
        queue.push(old, f"old {depth}", depth)
        queue.push(old_leaf, f"leaf {depth}", depth)
        queue.push(new, f"new {depth}", depth)

    assert drained(queue) == [f"{what} {depth}" for depth in (2, 1, 0) for what in ("leaf", "new", "old")]


def test_one_node_may_be_ready_in_several_backward_passes_and_each_gets_its_turn_in_order():
    node = Some()
    queue: ReadyQueue[str] = ReadyQueue()
    for name in ("first", "second", "third"):
        queue.push(node, name)

    assert drained(queue) == ["first", "second", "third"]


def test_leaves_of_one_depth_come_in_the_order_in_which_they_became_ready():
    queue: ReadyQueue[int] = ReadyQueue()
    for number in range(9):
        queue.push(some_leaf(), number, 3)

    assert drained(queue) == list(range(9))


def test_the_highest_number_a_user_can_set_is_as_far_ahead_as_a_leaf_and_no_further():
    node, number_one = Some(), some_leaf()
    node.sequence_nr = number_one.sequence_nr
    queue: ReadyQueue[str] = ReadyQueue()
    queue.push(number_one, "leaf", 0)
    queue.push(node, "node", 0)
    queue.push(Some(), "deeper", 1)

    assert drained(queue) == ["deeper", "leaf", "node"]


@given(st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 6))), st.lists(st.integers(0, 40)))
def test_what_comes_out_is_always_the_first_of_what_is_in(pushes, pops):
    nodes = [*(Some() for _ in range(5)), some_leaf(), some_leaf()]
    queue: ReadyQueue[tuple[int, int, int]] = ReadyQueue()
    inside: list[tuple[int, int, int]] = []
    for pushed, (depth, which) in enumerate(pushes):
        work = (-depth, nodes[which].order, pushed)
        inside.append(work)
        queue.push(nodes[which], work, depth)
        if pushed in pops:
            inside.sort()
            assert queue.pop() == inside.pop(0)

    assert drained(queue) == sorted(inside)


def test_work_of_any_kind_may_be_queued_since_it_is_never_compared():
    node = Some()
    queue: ReadyQueue[Any] = ReadyQueue()
    work = [object(), None, {}, lambda: None]
    for one in work:
        queue.push(node, one, 1)

    assert drained(queue) == work


def test_a_queue_that_is_empty_or_was_cleared_has_nothing_to_give():
    queue: ReadyQueue[int] = ReadyQueue()
    queue.push(Some(), 1, 2)

    queue.clear()

    assert len(queue) == 0
    with pytest.raises(IndexError):
        queue.pop()
