"""Anomaly mode by itself: where nodes were made, what is said of it, and the search for NaN."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import weakref
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.graph.anomaly import forward_notes
from asyncgrad.core.settings.context import ANOMALY, CURRENT_NODE, GRAD_MODE
from asyncgrad.errors import ArgumentTypeError
from asyncgrad.graph import Node, get_gradient_edge
from tests.support.functions import function
from tests.support.leaves import leaf
from tests.support.nodes import PassingNode
from tests.support.refusals import refused


@pytest.fixture(autouse=True)
def no_anomaly():
    """Every test begins and ends outside of anomaly mode."""
    assert (ANOMALY.get(), GRAD_MODE.get()) == (None, True)
    yield
    assert (ANOMALY.get(), GRAD_MODE.get()) == (None, True)


def a_line_of_the_user(x: Any) -> Any:
    return np.sin(x)


def made_in_the_backward_of(parent: Node, make: Any) -> Any:
    """What `make` makes where the body of `parent` runs."""
    token = CURRENT_NODE.set(parent)
    try:
        return make()
    finally:
        CURRENT_NODE.reset(token)


# The mode.


@pytest.mark.parametrize("check", [True, False])
def test_a_block_says_whether_nan_is_looked_for_and_nested_blocks_give_back_the_one_before(check):
    seen = []
    with ag.detect_anomaly(check_nan=check):
        seen.append(ANOMALY.get().check_nan)
        with ag.detect_anomaly(not check):
            seen.append(ANOMALY.get().check_nan)
        seen.append(ANOMALY.get().check_nan)

    assert seen == [check, not check, check]


def test_anomaly_mode_looks_for_nan_unless_told_otherwise():
    with ag.detect_anomaly():
        assert ANOMALY.get().check_nan


async def test_anomaly_mode_decorates_functions_of_all_kinds():
    seen = []

    def note() -> None:
        seen.append(ANOMALY.get() is not None)

    @ag.detect_anomaly()
    async def later() -> None:
        await asyncio.sleep(0)
        note()

    @ag.detect_anomaly()
    def steps() -> Any:
        note()
        yield
        note()

    @ag.detect_anomaly()
    async def steps_later() -> Any:
        note()
        yield
        note()

    async def consume() -> None:
        async for _ in steps_later():
            note()

    ag.detect_anomaly()(note)()
    await later()
    for _ in steps():
        note()
    await consume()

    assert seen == [True, True, True, False, True, True, False, True]


async def test_tasks_do_not_see_each_others_anomaly_mode():
    async def other(inside: asyncio.Event) -> Any:
        await inside.wait()
        return ANOMALY.get()

    async def main() -> Any:
        inside = asyncio.Event()
        task = asyncio.create_task(other(inside))
        with ag.detect_anomaly():
            inside.set()
            return await task

    assert await main() is None


@pytest.mark.parametrize("given", [2, None, "yes"], ids=repr)
def test_check_nan_is_a_bool(given):
    with refused(ArgumentTypeError, TypeError, "check_nan must be True or False", type(given).__name__):
        ag.detect_anomaly(given)


def test_a_decorator_without_parentheses_says_how_to_write_it():
    with refused(ArgumentTypeError, TypeError, "@ag.detect_anomaly()"):

        @ag.detect_anomaly  # type: ignore[arg-type]
        def function() -> None:
            pass


# What a node keeps.


def kinds(x: Any) -> dict[str, Any]:
    """A node of each kind."""
    return {
        "operation": a_line_of_the_user(x).grad_fn,
        "join": np.concatenate([x, x]).grad_fn,
        "split": np.split(x, 1)[0].grad_fn,
        "leaf": get_gradient_edge(x).node,
        "function": function(lambda ctx, t: t.numpy() * 2).apply(x).grad_fn,
        "own": PassingNode(),
    }


@pytest.mark.parametrize("kind", kinds(leaf(1.0)))
def test_each_node_keeps_the_lines_that_led_to_it_without_asyncgrads_own(kind):
    with ag.detect_anomaly():
        node = kinds(leaf(1.0))[kind]
    stack = node.metadata["traceback_"]
    text = str(stack)

    assert "/asyncgrad/" not in text
    assert "<call of" not in text
    assert "test_each_node_keeps_the_lines_that_led_to_it" in text
    assert f"tests/core/graph/{__name__.rpartition('.')[2]}.py" in stack[-1]
    assert [*stack] == [stack[index] for index in range(len(stack))]
    assert node.metadata["parent_"] is None


def test_the_innermost_line_comes_last():
    with ag.detect_anomaly():
        node = a_line_of_the_user(leaf(1.0)).grad_fn
    (last,) = node.metadata["traceback_"][-1:]

    assert "in a_line_of_the_user\n    return np.sin(x)\n" in last


async def test_an_async_function_keeps_the_line_that_applied_it():
    async def forward(ctx: Any, x: Any) -> Any:
        await asyncio.sleep(0)
        return x.numpy() * 2

    made = function(forward)

    def the_line_that_applied_it(x: Any) -> Any:
        return made.apply(x)

    with ag.detect_anomaly():
        found = (await the_line_that_applied_it(leaf(1.0))).grad_fn

    assert "the_line_that_applied_it" in found.metadata["traceback_"][-1]


def test_a_node_made_outside_keeps_nothing_and_stays_plain():
    with ag.detect_anomaly():
        pass
    node = (leaf(1.0) * 2).grad_fn

    assert node.meta is None


def test_a_node_made_in_a_backward_has_for_its_parent_the_node_whose_body_ran():
    x = leaf(2.0)
    with ag.detect_anomaly():
        y = x * x
        (g,) = sync.grad(y, [x], create_graph=True)
    product = next(target for target in g.grad_fn.next_nodes if target.name == "MultiplyBackward")

    assert product.metadata["parent_"] is y.grad_fn


def test_grad_mode_and_creation_hooks_nest_with_it():
    x, seen = leaf(1.0) * 1, []
    with ag.detect_anomaly(), ag.no_grad():
        off = x * 2
        with ag.graph.node_creation_hook(lambda node: seen.append("traceback_" in node.metadata)), ag.enable_grad():
            x * 2
    with ag.graph.node_creation_hook(lambda node: seen.append(node.meta)):
        x * 2

    assert not off.requires_grad
    assert seen == [True, None]


# What is said.


def test_the_note_of_a_node_shows_the_line_of_its_forward_call():
    with ag.detect_anomaly():
        node = a_line_of_the_user(leaf(1.0)).grad_fn
    (note,) = forward_notes(node)

    assert note.startswith(f"the forward call of SinBackward (node #{node.sequence_nr}) was here:\n  File ")
    assert note.endswith("in a_line_of_the_user\n    return np.sin(x)")


def test_the_note_of_a_node_made_outside_says_so():
    node = np.sin(leaf(1.0)).grad_fn
    (note,) = forward_notes(node)

    assert note == (
        f"the forward call of SinBackward (node #{node.sequence_nr}) was outside of anomaly mode, so its line is "
        "unknown: run the forward under ag.detect_anomaly() too"
    )


def test_there_is_a_note_for_each_ancestor_nearest_first():
    outside = PassingNode()
    with ag.detect_anomaly():
        grandparent = made_in_the_backward_of(outside, lambda: a_line_of_the_user(leaf(1.0)).grad_fn)
        parent = made_in_the_backward_of(grandparent, PassingNode)
        node = made_in_the_backward_of(parent, PassingNode)
    notes = forward_notes(node)
    called = [f"{one.name} (node #{one.sequence_nr})" for one in (node, parent, grandparent, outside)]

    assert [note.partition("\n")[0] for note in notes[:3]] == [
        f"the forward call of {called[0]} was here:",
        f"{called[0]} was made in the backward of {called[1]}, whose forward call was here:",
        f"{called[1]} was made in the backward of {called[2]}, whose forward call was here:",
    ]
    assert notes[2].endswith("return np.sin(x)")
    assert notes[3].startswith(
        f"{called[2]} was made in the backward of {called[3]}, whose forward call was outside of anomaly mode"
    )


def test_a_place_that_was_just_told_is_not_told_again():
    with ag.detect_anomaly():
        first, second = (PassingNode() for _ in range(2))
        second.metadata["parent_"] = first
    notes = forward_notes(second)

    assert notes[1].endswith(f"PassingNode (node #{first.sequence_nr}), whose forward call was at the same place")


def test_a_parent_is_freed_with_its_child_and_without_the_collector():
    gc.collect()
    gc.disable()
    try:
        with ag.detect_anomaly():
            parent = PassingNode()
            child = made_in_the_backward_of(parent, PassingNode)
        references = [weakref.ref(parent), weakref.ref(child)]
        del parent
        held = references[0]() is not None
        del child
        assert (held, [reference() for reference in references]) == (True, [None, None])
    finally:
        gc.enable()


def test_nodes_made_at_one_place_share_their_stack():
    with ag.detect_anomaly():
        nodes = [a_line_of_the_user(leaf(1.0)).grad_fn for _ in range(3)]
        other = a_line_of_the_user(leaf(1.0)).grad_fn
    stacks = [node.metadata["traceback_"] for node in (*nodes, other)]

    assert stacks[0] is stacks[1] is stacks[2] is not stacks[3]


def test_a_stack_holds_no_frame_and_no_local_value():
    gc.collect()
    gc.disable()
    try:

        class Local:
            pass

        def make() -> tuple[Any, Any]:
            local = Local()
            return (leaf(1.0) * 2).grad_fn, weakref.ref(local)

        with ag.detect_anomaly():
            node, reference = make()
        assert reference() is None
        assert "in make" in str(node.metadata["traceback_"])
    finally:
        gc.enable()


DEPTH = 100_000


def result_in_a_thread(work: Any) -> Any:
    """What `work` returns in a thread of its own, where the stack is short."""
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        return executor.submit(work).result()


@pytest.mark.slow
def test_a_deep_graph_is_made_and_freed_without_recursion():
    @ag.detect_anomaly()
    def make() -> Any:
        x = leaf(1.0)
        y = x
        for _ in range(DEPTH):
            y = y * x
        return y

    y = result_in_a_thread(make)
    top, depth = weakref.ref(y.grad_fn), y.grad_fn.topological_nr
    del y

    assert (top(), depth) == (None, DEPTH)


@pytest.mark.slow
def test_a_long_line_of_parents_is_told_and_freed_without_recursion():
    node = first = PassingNode()
    for _ in range(DEPTH):
        parent, node = node, PassingNode()
        node.metadata["parent_"] = parent
    notes = forward_notes(node)
    references = [weakref.ref(node), weakref.ref(first)]
    del node, parent, first

    assert len(notes) == DEPTH + 1
    assert [reference() for reference in references] == [None, None]
