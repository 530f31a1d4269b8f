"""The order of nodes is PyTorch's: as it is observed, and as it is told beforehand."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.settings.loop_turn import yield_to_loop
from asyncgrad.engine import current_execution_order
from tests.core.engine.twins import Twins, chosen, together, torch, twins
from tests.support.functions import awaiting
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop


def number_of(made: Twins) -> dict[Any, int]:
    """The number of each node, in either graph."""
    return {node: number for number, pair in enumerate(made.nodes()) for node in pair}


def note_runs(nodes: list[Any], numbers: dict[Any, int]) -> list[int]:
    """Return a list to which a hook of each node adds its number."""
    runs: list[int] = []

    def note(number: int) -> Any:
        return lambda grads: runs.append(number)

    for node in nodes:
        node.register_prehook(note(numbers[node]))
    return runs


def run_both(made: Twins, roots: list[int], inputs: list[int] | None, how: Any) -> tuple[list[int], list[int]]:
    """Run both backward passes; return in which order nodes ran."""
    numbers = number_of(made)
    ours = note_runs([mine for mine, _ in made.nodes()], numbers)
    theirs = note_runs([yours for _, yours in made.nodes()], numbers)
    wanted: dict[str, Any] = {} if inputs is None else {"inputs": [made.ours[index] for index in inputs]}
    how([made.ours[root] for root in roots], [np.ones(2)] * len(roots), wanted)
    wanted = {} if inputs is None else {"inputs": [made.theirs[index] for index in inputs]}
    torch.autograd.backward(
        [made.theirs[root] for root in roots], [torch.ones(2, dtype=torch.double)] * len(roots), **wanted
    )
    return ours, theirs


@pytest.mark.parametrize("limited", [False, True], ids=["all", "inputs"])
@pytest.mark.parametrize("seed", range(40))
def test_nodes_run_in_the_order_of_torch(seed, limited):
    made = twins(seed)
    roots, inputs = chosen(made, seed)

    def run(tensors, grads, wanted):
        sync.backward(tensors, grads, **wanted)

    ours, theirs = run_both(made, roots, inputs if limited else None, run)

    assert together(ours, made.leaves) == together(theirs, made.leaves)
    assert len(set(ours)) == len(ours)


@on_each_loop
@pytest.mark.parametrize("seed", range(10))
def test_hand_set_sequence_numbers_change_the_order_as_in_torch(run, seed):
    made = twins(seed)
    roots, _ = chosen(made, seed)
    numbers = list(range(1000, 1000 + len(made.nodes())))
    random.Random(seed).shuffle(numbers)
    for (mine, yours), number in zip(made.nodes()[made.leaves :], numbers, strict=False):
        mine.sequence_nr = number
        yours._set_sequence_nr(number)

    ours, theirs = run_both(made, roots, None, lambda tensors, grads, wanted: run(ag.backward(tensors, grads)))

    assert together(ours, made.leaves) == together(theirs, made.leaves)


# Told beforehand.


def told_by_torch(made: Twins, root: int, inputs: list[int] | None, numbers: dict[Any, int]) -> list[int]:
    order: list[Any] = []
    made.theirs[root].register_hook(lambda grad: order.extend(torch._C._current_graph_task_execution_order()))
    with torch.autograd.set_multithreading_enabled(False):
        wanted = None if inputs is None else [made.theirs[index] for index in inputs]
        made.theirs[root].backward(torch.ones(2, dtype=torch.double), inputs=wanted)
    return [numbers[node] for node in order]


@pytest.mark.parametrize("limited", [False, True], ids=["all", "inputs"])
@pytest.mark.parametrize("seed", range(40))
def test_the_order_told_beforehand_is_that_of_torch_and_that_observed(seed, limited):
    made = twins(seed)
    roots, inputs = chosen(made, seed)
    numbers = number_of(made)
    told: list[list[int]] = []
    ran = note_runs([mine for mine, _ in made.nodes()], numbers)
    for mine, _ in made.nodes():
        mine.register_prehook(lambda grads: told.append([numbers[node] for node in current_execution_order()]))

    wanted = [made.ours[index] for index in inputs] if limited else None
    sync.backward([made.ours[root] for root in roots], [np.ones(2)] * len(roots), inputs=wanted)

    # Asked from every node, the first and the last alike.
    assert all(order == ran for order in told)


@pytest.mark.parametrize("limited", [False, True], ids=["all", "inputs"])
@pytest.mark.parametrize("seed", range(40))
def test_the_order_told_from_the_first_node_is_that_of_torch(seed, limited):
    """PyTorch's answer is right there only, and only of one root."""
    made = twins(seed)
    (root, *_), inputs = chosen(made, seed)
    numbers = number_of(made)
    told: list[list[int]] = []
    made.ours[root].register_hook(lambda grad: told.append([numbers[node] for node in current_execution_order()]))

    sync.backward(made.ours[root], np.ones(2), inputs=[made.ours[index] for index in inputs] if limited else None)

    theirs = told_by_torch(made, root, inputs if limited else None, numbers)
    assert together(told[0], made.leaves) == together(theirs, made.leaves)


@pytest.mark.parametrize("seed", range(20))
def test_under_grad_the_order_holds_the_nodes_that_only_capture_too(seed):
    made = twins(seed)
    roots, inputs = chosen(made, seed)
    numbers = number_of(made)
    seen: list[int] = []
    told: list[list[int]] = []

    def note(number: int) -> Any:
        def hook(grad):
            if number not in seen:
                seen.append(number)
            told.append([numbers[node] for node in current_execution_order()])

        return hook

    for tensor in made.ours:
        node = ag.graph.get_gradient_edge(tensor).node
        tensor.register_hook(note(numbers[node]))

    sync.grad(
        [made.ours[root] for root in roots],
        [made.ours[index] for index in inputs],
        [np.ones(2)] * len(roots),
        allow_unused=True,
    )

    assert all(order == seen for order in told)


async def test_a_body_that_waits_lets_later_ones_go_first_and_is_told_in_its_own_place():
    ran: list[str] = []
    told: list[list[str]] = []
    x, y = leaf(1.0), leaf(2.0)
    released: list[Any] = []

    async def wait(grad):
        told.append([node.name for node in current_execution_order()])
        while not released:
            await yield_to_loop()
        ran.append("awaited")

    first = np.multiply(x, 2.0)
    first.register_hook(lambda grad: ran.append("plain") or released.append(1))
    second = awaiting(y, wait)

    await ag.backward(np.add(first, second))

    assert ran == ["plain", "awaited"]
    assert told == [["AddBackward", "AwaitingBackward", "AccumulateGrad", "MultiplyBackward", "AccumulateGrad"]]


def test_outside_of_a_backward_there_is_no_order():
    with pytest.raises(ag.errors.GraphError, match=r"current_execution_order\(\).*no backward runs here"):
        current_execution_order()
