"""In which order nodes run: newest first, leaves as soon as they are ready, each node once."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.core.graph.node import Node
from asyncgrad.core.settings.context import CURRENT_GRAPH_TASK
from asyncgrad.extend import derivative, primitive
from tests.support.functions import awaiting, calling, split
from tests.support.leaves import leaf


def note_order(seen: list[str], **tensors: ag.Tensor) -> None:
    """Note the names of tensors in the order in which their gradients come by."""
    for name, tensor in tensors.items():
        tensor.register_hook(lambda grad, name=name: seen.append(name))


async def test_newer_nodes_run_first_and_leaves_as_soon_as_they_are_ready():
    seen: list[str] = []
    a, b = leaf(1.0), leaf(2.0)
    p = np.multiply(a, 2.0)
    q = np.multiply(p, 5.0)
    r = np.multiply(b, 3.0)
    out = np.add(q, r)
    note_order(seen, a=a, b=b, p=p, q=q, r=r, out=out)

    await ag.backward(out)

    assert seen == ["out", "r", "b", "q", "p", "a"]


async def test_the_example_of_the_reference_runs_in_its_order():
    # out = (a * 2) * 5 + b * 3, where b * 3 is made before the multiplication by 5.
    seen: list[str] = []
    a, b = leaf(1.0), leaf(2.0)
    p = np.multiply(a, 2.0)
    r = np.multiply(b, 3.0)
    q = np.multiply(p, 5.0)
    out = np.add(q, r)
    note_order(seen, a=a, b=b, p=p, q=q, r=r, out=out)

    await ag.backward(out)

    assert seen == ["out", "q", "r", "b", "p", "a"]


async def test_of_several_roots_the_newest_runs_first():
    seen: list[str] = []
    a, b = leaf(1.0), leaf(2.0)
    y = np.multiply(a, 2.0)
    z = np.multiply(b, 3.0)
    note_order(seen, a=a, b=b, y=y, z=z)

    await ag.backward([y, z])

    assert seen == ["z", "b", "y", "a"]


async def test_ready_leaves_run_in_the_order_in_which_they_became_ready():
    seen: list[str] = []
    leaves = {name: leaf(1.0) for name in "abcde"}
    note_order(seen, **leaves)

    class Spread(ag.Function):
        @staticmethod
        def forward(ctx, *xs):
            return sum(x.numpy() for x in xs)

        @staticmethod
        def backward(ctx, grad):
            return (grad,) * 5

    await ag.backward(Spread.apply(*leaves.values()))

    assert seen == list("abcde")


async def test_a_leaf_has_its_gradient_by_the_time_an_older_node_runs():
    early, late = leaf(1.0), leaf(1.0)
    grads: list[Any] = []
    old = calling(late, lambda grad: grads.append(early.grad.item()))
    out = np.add(np.multiply(early, 3.0), old)

    await ag.backward(out)

    assert grads == [3.0]


async def test_a_node_runs_once_after_all_its_gradients_have_arrived():
    runs: list[list[float]] = []
    x = leaf(1.0, 2.0)
    shared = calling(x, lambda grad: runs.append(grad.numpy().tolist()))
    total = shared
    for factor in (2.0, 3.0, 4.0):
        total = np.add(total, np.multiply(shared, factor))

    await ag.backward(total, np.ones(2))

    assert runs == [[10.0, 10.0]]
    assert x.grad.numpy().tolist() == [10.0, 10.0]


async def test_a_node_with_two_outputs_runs_once_after_both_gradients():
    runs: list[Any] = []
    x = leaf(1.0)

    def callback(first, second):
        runs.append((first.item(), second.item()))
        return np.add(first, second)

    first, second = split(x, callback)

    await ag.backward(np.add(np.multiply(first, 2.0), np.multiply(second, 5.0)))

    assert runs == [(2.0, 5.0)]
    assert x.grad.item() == 7.0


async def test_an_undefined_gradient_counts_as_an_arrival():
    runs: list[Any] = []
    x = leaf(1.0)
    inner = calling(x, lambda grad: runs.append(grad.item()))

    class Nothing(ag.Function):
        @staticmethod
        def forward(ctx, y):
            return y.numpy().copy()

        @staticmethod
        def backward(ctx, grad):
            return None

    await ag.backward(np.add(np.multiply(inner, 4.0), Nothing.apply(inner)))

    assert runs == [4.0]
    assert x.grad.item() == 4.0


async def test_a_leaf_that_only_undefined_gradients_reach_keeps_no_gradient_and_its_hooks_see_none():
    seen: list[Any] = []
    x = leaf(1.0)
    x.register_hook(lambda grad: seen.append(grad))
    x.register_post_accumulate_grad_hook(lambda tensor: seen.append(tensor))

    await ag.backward(split(x, lambda first, second: second)[0])

    assert seen[0] is None
    assert seen[1] is x
    assert x.grad is None


async def test_nodes_reached_by_undefined_gradients_only_run_and_hand_on_undefined_gradients():
    seen: list[Any] = []
    x = leaf(1.0)
    middle = np.multiply(x, 3.0)
    middle.register_hook(seen.append)
    blind = split(middle, lambda first, second: None)[0]

    await ag.backward(blind)

    assert seen == [None]
    assert x.grad is None


async def test_zeros_take_the_place_of_an_undefined_gradient_where_a_function_asks_for_them():
    x = leaf(1.0, 2.0)
    seen: list[Any] = []
    first = calling(x, lambda grad: seen.append(grad.numpy().tolist()))
    blind = split(first, lambda one, two: None)[0]

    await ag.backward(blind, np.ones(2))

    assert seen == [[0.0, 0.0]]
    assert x.grad.numpy().tolist() == [0.0, 0.0]


@pytest.mark.parametrize("seed", range(10))
async def test_nodes_run_newest_first_in_random_graphs(seed):
    """Every body notes its number: they come in falling order, sync, async and hooked nodes alike."""
    randomness = random.Random(seed)
    seen: list[int] = []
    values = [leaf(float(randomness.randint(-2, 2))) for _ in range(3)]

    def note(node_number: int) -> Any:
        return lambda grad: seen.append(node_number)

    async def note_later(node_number: int) -> None:
        seen.append(node_number)

    for _ in range(25):
        x, y = randomness.choices(values, k=2)
        made = np.add(x, y)
        made.register_hook(note(made.grad_fn.sequence_nr))
        kind = randomness.randrange(3)
        if kind == 1:
            made = calling(made, lambda grad: seen.append(-1))
            made.grad_fn.ctx.callback = note(made.grad_fn.sequence_nr)
        elif kind == 2:
            made = awaiting(made, None)
            made.grad_fn.ctx.callback = lambda grad, number=made.grad_fn.sequence_nr: note_later(number)
        values.append(made)

    await ag.backward([values[-1], values[-2]])

    assert seen == sorted(seen, reverse=True)
    assert len(seen) == len(set(seen))


async def test_a_node_that_leads_to_a_newer_one_waits_for_all_its_gradients_too():
    """Edges made by hand may lead against the order of sequence numbers; dependencies rule."""
    seen: list[str] = []

    class Note(Node):
        __slots__ = ("label",)

        def apply(self, grads):
            seen.append(f"{self.label}{grads[0]:g}")
            return grads * len(self.next_nodes)

    old = Note()
    old.label = "old"
    sink = Note()
    sink.label = "sink"
    old.next_nodes, old.input_nrs = (sink,), (0,)
    root = Note([ag.graph.Edge(sink, 0), ag.graph.Edge(old, 0)])
    root.label = "root"

    await ag.backward(ag.graph.GradientEdge(root, 0), 1.0)

    assert seen == ["root1", "old1", "sink2"]


async def test_on_the_fast_path_too_a_node_that_leads_to_a_newer_one_comes_first():
    calls: list[float] = []

    @primitive()
    def noted(x):
        return x * 1.0

    derivative(noted, "x")(lambda g: calls.append(g.item()) or g)
    x = leaf(1.0)
    older, old, new = noted(x), noted(x), noted(x)
    root = np.add(older, old)
    for early in (older, old):
        early.grad_fn.next_nodes = (new.grad_fn,)

    await ag.backward(root)

    assert calls == [1.0, 1.0, 2.0]
    assert x.grad.item() == 2.0


async def test_a_graph_task_knows_how_deep_it_is_nested():
    depths: list[int] = []

    def depth() -> int:
        return CURRENT_GRAPH_TASK.get().reentrant_depth

    async def nested(grad):
        depths.append(depth())
        with ag.enable_grad():
            inner = calling(leaf(1.0), lambda grad: depths.append(depth()))
        await ag.backward(inner)
        depths.append(depth())

    await ag.backward(awaiting(leaf(1.0), nested))

    assert depths == [0, 1, 0]
