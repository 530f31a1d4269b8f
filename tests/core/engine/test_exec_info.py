"""What a backward with inputs runs and captures: exec_info, will_execute, and nodes that a body adds."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.engine import Capture, ExecInfo, current_graph_task, will_execute
from asyncgrad.errors import GraphError
from asyncgrad.graph import GradientEdge, Node, get_gradient_edge
from tests.core.engine.twins import chosen, torch, twins
from tests.support.functions import awaiting, calling, split
from tests.support.leaves import leaf
from tests.support.turns import Held


def reachable_from(node: Node) -> set[Node]:
    """Every node that a path from `node` leads to, itself included."""
    found = {node}
    for edge in node.next_edges:
        if edge.node is not None:
            found |= reachable_from(edge.node)
    return found


def naive(
    roots: list[Node], inputs: list[tuple[Node, int]], accumulate: bool
) -> dict[Node, tuple[bool, list[Capture]]]:
    """What happens where, read off PyTorch's rule: a node is needed if something below it is asked for."""
    asked = {node for node, _ in inputs}
    reached = set().union(*[reachable_from(root) for root in roots])
    found = {}
    for node in reached | asked:
        needed = node in reached and any(
            asked & reachable_from(edge.node) for edge in node.next_edges if edge.node is not None
        )
        captures = [] if accumulate else [Capture(nr, index) for index, (at, nr) in enumerate(inputs) if at is node]
        found[node] = (needed or (accumulate and node in asked), captures)
    return {node: (needed, captures) for node, (needed, captures) in found.items() if needed or captures}


def needed_and_captured(exec_info: Any) -> dict[Node, tuple[bool, list[Capture]]]:
    """What an exec_info says, without entries that say nothing, and without the node that several roots start from."""
    return {
        node: (info.needed, list(info.captures))
        for node, info in exec_info.items()
        if info.should_execute and node.name != "GraphRoot"
    }


@pytest.mark.parametrize("accumulate", [True, False], ids=["backward", "grad"])
@pytest.mark.parametrize("seed", range(40))
def test_exec_info_is_that_of_a_naive_reading_of_the_rule(seed, accumulate):
    made = twins(seed)
    roots, inputs = chosen(made, seed)
    # Some as tensors, some as their edges; one of them twice.
    inputs.append(inputs[0])
    wanted = [made.ours[i] if number % 2 else get_gradient_edge(made.ours[i]) for number, i in enumerate(inputs)]
    tensors, grads = [made.ours[root] for root in roots], [np.ones(2)] * len(roots)
    found: list[Any] = []
    tensors[0].register_hook(lambda grad: found.append(needed_and_captured(current_graph_task().exec_info)))
    expected = naive(
        [get_gradient_edge(tensor).node for tensor in tensors],
        [tuple(get_gradient_edge(made.ours[i])) for i in inputs],
        accumulate,
    )

    if accumulate:
        sync.backward(tensors, grads, inputs=wanted)
    else:
        sync.grad(tensors, wanted, grads, allow_unused=True)

    # A root that leads to no input is not visited where there are several.
    assert found == [expected] or (len(roots) > 1 and not found)


@pytest.mark.parametrize("accumulate", [True, False], ids=["backward", "grad"])
@pytest.mark.parametrize("seed", range(40))
def test_will_execute_says_of_every_node_below_the_root_what_torch_says(seed, accumulate):
    made = twins(seed)
    (root, *_), inputs = chosen(made, seed)
    ours: list[Any] = []
    theirs: list[Any] = []

    def ask(about: Any, nodes: list[Any], answers: list[Any]) -> Any:
        def hook(grad):
            for node in nodes:
                try:
                    answers.append(about(node))
                except RuntimeError:
                    answers.append("a leaf that captures")

        return hook

    nodes = [pair for pair in made.nodes() if pair[0] is not made.ours[root].grad_fn]
    made.ours[root].register_hook(ask(will_execute, [mine for mine, _ in nodes], ours))
    of_torch = torch._C._will_engine_execute_node
    made.theirs[root].register_hook(ask(of_torch, [yours for _, yours in nodes], theirs))
    mine, yours = [made.ours[i] for i in inputs], [made.theirs[i] for i in inputs]

    if accumulate:
        sync.backward(made.ours[root], np.ones(2), inputs=mine)
        torch.autograd.backward(made.theirs[root], torch.ones(2, dtype=torch.double), inputs=yours)
    else:
        sync.grad(made.ours[root], mine, np.ones(2), allow_unused=True)
        torch.autograd.grad(made.theirs[root], yours, torch.ones(2, dtype=torch.double), allow_unused=True)

    assert ours == theirs


async def test_without_inputs_exec_info_is_empty_and_what_is_reached_executes_the_root_included():
    answers: list[Any] = []
    x, other = leaf(1.0), leaf(2.0)
    y = np.multiply(x, 2.0)
    z = np.multiply(y, 3.0)
    nodes = [z.grad_fn, y.grad_fn, get_gradient_edge(x).node, np.multiply(other, 2.0).grad_fn]

    def ask(grad):
        answers.append([will_execute(node) for node in nodes])
        answers.append(current_graph_task().exec_info)

    z.register_hook(ask)

    await ag.backward(z)

    # PyTorch says False of the only root, since no edge leads to it; it runs nevertheless.
    assert answers == [[True, True, True, False], {}]


async def test_will_execute_is_for_nodes_inside_of_a_backward():
    x = leaf(1.0)
    y = np.multiply(x, 2.0)
    errors: list[Any] = []

    def ask(grad):
        for wrong in (y, None, 3):
            with pytest.raises(TypeError, match=r"takes a node, such as tensor\.grad_fn, not") as caught:
                will_execute(wrong)
            errors.append(caught.value)

    y.register_hook(ask)
    await ag.backward(y)

    assert len(errors) == 3
    with pytest.raises(GraphError, match=r"will_execute\(node\).*no backward runs here"):
        will_execute(y.grad_fn)


async def test_of_a_leaf_that_grad_captures_will_execute_has_no_answer():
    x = leaf(1.0, 2.0)
    y = np.multiply(x, 2.0)
    node = get_gradient_edge(x).node

    def ask(grad):
        with pytest.raises(GraphError, match=r"leaf of shape \(2,\).*await ag\.backward\(\.\.\., inputs=\[\.\.\.\]\)"):
            will_execute(node)

    y.register_hook(ask)

    await ag.grad(y, [x], np.ones(2))


# Inputs of every kind.


async def test_the_same_input_as_tensor_and_as_edge_is_captured_for_each():
    x = leaf(1.0, 2.0)
    y = np.multiply(x, 2.0)

    grads = await ag.grad(np.multiply(y, 3.0), [y, get_gradient_edge(y), x, y], np.ones(2))

    assert [grad.tolist() for grad in grads] == [[3.0, 3.0], [3.0, 3.0], [6.0, 6.0], [3.0, 3.0]]


async def test_each_output_of_a_node_is_an_input_of_its_own():
    infos: list[Any] = []
    x = leaf(1.0)
    first, second = split(x, lambda one, two: one)
    total = np.add(np.multiply(first, 2.0), np.multiply(second, 5.0))
    total.register_hook(lambda grad: infos.append(current_graph_task().exec_info[first.grad_fn]))

    grads = await ag.grad(total, [second, first])

    assert [grad.item() for grad in grads] == [5.0, 2.0]
    assert infos[0].captures == [Capture(1, 0), Capture(0, 1)]
    assert not infos[0].needed


async def test_an_edge_whose_tensor_is_gone_is_an_input():
    x = leaf(1.0)
    edge = get_gradient_edge(np.multiply(x, 2.0))
    accumulator = edge.node.next_edges[0]

    grads = await ag.grad(edge, [GradientEdge(*accumulator), edge])

    assert [grad.item() for grad in grads] == [2.0, 1.0]


async def test_an_input_that_is_no_leaf_runs_and_is_released_and_what_it_gives_goes_nowhere():
    ran: list[str] = []
    x = leaf(1.0, 2.0)
    below_it = calling(x, lambda grad: ran.append("below"))
    y = np.multiply(below_it, below_it)
    z = calling(y, lambda grad: ran.append("above"))

    await ag.backward(z, np.ones(2), inputs=[y])
    with pytest.raises(ag.errors.ReleasedGraphError):
        await ag.backward(y, np.ones(2))

    assert ran == ["above"]
    assert y.grad.tolist() == [1.0, 1.0]
    assert x.grad is None


# What a body adds.


@pytest.mark.parametrize("how", ["flag", "entry"])
async def test_a_node_that_a_body_adds_runs(how):
    x, other = leaf(1.0), leaf(2.0)
    ran: list[str] = []
    extra = calling(other, lambda grad: ran.append("extra"))
    total = np.add(np.multiply(x, 2.0), np.multiply(extra, 3.0))

    def add(grad):
        exec_info = current_graph_task().exec_info
        for node in (total.grad_fn.next_edges[1].node, extra.grad_fn, get_gradient_edge(other).node):
            assert not will_execute(node)
            if how == "flag":
                exec_info[node].needed = True
            else:
                exec_info[node] = ExecInfo(needed=True)
            assert will_execute(node)

    root = calling(total, add)

    await ag.backward(root, inputs=[x])

    assert ran == ["extra"]
    assert (x.grad.item(), other.grad.item()) == (2.0, 3.0)


async def test_a_leaf_that_a_body_adds_to_a_grad_is_captured_and_accumulates_too():
    x = leaf(1.0)

    def add(grad):
        current_graph_task().exec_info[get_gradient_edge(x).node].needed = True

    y = calling(np.multiply(x, 2.0), add)

    (grad,) = await ag.grad(y, [x])

    assert grad.item() == 2.0
    assert x.grad.item() == 2.0


async def test_a_node_added_while_another_body_waits_runs_too():
    x, other = leaf(1.0), leaf(2.0)
    held = Held()
    tasks: list[Any] = []

    async def wait(grad):
        tasks.append(current_graph_task())
        await held(grad)

    doubled = np.multiply(other, 3.0)
    both = awaiting(np.add(np.multiply(x, 2.0), doubled), wait)

    backward = asyncio.ensure_future(ag.backward(both, inputs=[x]))
    await held.begun.wait()
    for node in (doubled.grad_fn, get_gradient_edge(other).node):
        tasks[0].exec_info[node].needed = True
    held.let_go.set()
    await backward

    assert (x.grad.item(), other.grad.item()) == (2.0, 3.0)


async def test_in_a_backward_without_inputs_there_is_nothing_to_add():
    x = leaf(1.0)

    def add(grad):
        current_graph_task().exec_info[get_gradient_edge(x).node].needed = True

    await ag.backward(calling(np.multiply(x, 2.0), add))

    assert x.grad.item() == 2.0


@pytest.mark.parametrize("seed", range(20))
def test_looking_at_exec_info_changes_nothing(seed):
    made = twins(seed)
    roots, inputs = chosen(made, seed)
    randomness = random.Random(seed)

    def look(grad):
        for mine, _ in made.nodes():
            if randomness.random() < 0.5:
                assert current_graph_task().exec_info[mine].needed in (True, False)

    seen: list[Any] = []
    for looking in (False, True):
        for tensor in made.ours:
            tensor.grad = None
        with made.ours[roots[0]].register_hook(look if looking else lambda grad: None):
            sync.backward(
                [made.ours[root] for root in roots],
                [np.ones(2)] * len(roots),
                inputs=[made.ours[index] for index in inputs],
                retain_graph=True,
            )
        seen.append([None if tensor.grad is None else tensor.grad.tolist() for tensor in made.ours])

    assert seen[0] == seen[1]


def test_exec_info_and_captures_show_what_they_hold():
    info = ExecInfo(needed=True)
    info.captures.append(Capture(0, 1))

    assert repr(info) == "ExecInfo(needed=True, captures=[Capture(input_nr=0, result_nr=1)])"
    assert info.should_execute
    assert not ExecInfo().should_execute
