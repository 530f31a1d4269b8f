"""ReadyQueue: newest node first, leaves ahead, ties first in, first out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import asyncgrad as ag
from asyncgrad.core.engine.queues import ReadyQueue
from asyncgrad.graph import Node
from tests.support.leaves import leaf
from tests.support.nodes import IdleNode


def some_leaf() -> Node:
    return ag.graph.get_gradient_edge(leaf(1.0)).node


def drained(queue: ReadyQueue[Any]) -> list[Any]:
    return [queue.pop() for _ in range(len(queue))]


def test_a_node_that_is_pushed_several_times_gets_its_turns_in_order():
    node = IdleNode()
    queue: ReadyQueue[str] = ReadyQueue()
    for name in ("first", "second", "third"):
        queue.push(node, name)

    assert drained(queue) == ["first", "second", "third"]


def test_leaves_come_in_the_order_in_which_they_became_ready():
    queue: ReadyQueue[int] = ReadyQueue()
    for number in range(9):
        queue.push(some_leaf(), number)

    assert drained(queue) == list(range(9))


def test_the_highest_number_a_user_can_set_is_as_far_ahead_as_a_leaf_and_no_further():
    node, number_one = IdleNode(), some_leaf()
    node.sequence_nr = number_one.sequence_nr
    queue: ReadyQueue[str] = ReadyQueue()
    queue.push(number_one, "leaf")
    queue.push(node, "node")
    queue.push(IdleNode(), "newest")

    assert drained(queue) == ["leaf", "node", "newest"]


@given(st.lists(st.integers(0, 6)), st.lists(st.integers(0, 40)))
def test_what_comes_out_is_always_the_first_of_what_is_in(pushes, pops):
    nodes = [*(IdleNode() for _ in range(5)), some_leaf(), some_leaf()]
    queue: ReadyQueue[tuple[int, int]] = ReadyQueue()
    inside: list[tuple[int, int]] = []
    for pushed, which in enumerate(pushes):
        work = (nodes[which].order, pushed)
        inside.append(work)
        queue.push(nodes[which], work)
        if pushed in pops:
            inside.sort()
            assert queue.pop() == inside.pop(0)

    assert drained(queue) == sorted(inside)


def test_work_of_any_kind_may_be_queued_since_it_is_never_compared():
    node = IdleNode()
    queue: ReadyQueue[Any] = ReadyQueue()
    work = [object(), None, {}, lambda: None]
    for one in work:
        queue.push(node, one)

    assert drained(queue) == work


def test_a_queue_that_is_empty_or_was_cleared_has_nothing_to_give():
    queue: ReadyQueue[int] = ReadyQueue()
    queue.push(IdleNode(), 1)

    queue.clear()

    assert len(queue) == 0
    with pytest.raises(IndexError):
        queue.pop()
