"""What a backward lets go of, and what runs again after it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.arrays.hooks import HookList
from asyncgrad.errors import ReleasedGraphError
from asyncgrad.graph import Edge, GradientEdge, Node
from tests.support.functions import calling
from tests.support.leaves import leaf


async def test_a_second_backward_through_what_was_released_raises_and_names_the_node():
    x = leaf(1.0)
    out = np.multiply(x, x)
    await ag.backward(out)

    with pytest.raises(ReleasedGraphError, match=rf"^MultiplyBackward \(node #{out.grad_fn.sequence_nr}\) has rel"):
        await ag.backward(out)

    assert x.grad.item() == 2.0


async def test_a_graph_that_is_kept_runs_again():
    x = leaf(3.0)
    out = np.multiply(x, x)

    await ag.backward(out, retain_graph=True)
    await ag.backward(out)

    assert x.grad.item() == 12.0


async def test_a_graph_that_saved_nothing_runs_again():
    x = leaf(3.0)
    out = np.add(x, 1.0)

    await ag.backward(out)
    await ag.backward(out)

    assert x.grad.item() == 2.0


async def test_create_graph_keeps_the_graph():
    x = leaf(3.0)
    out = np.multiply(x, x)

    (first,) = await ag.grad(out, x, create_graph=True)
    (again,) = await ag.grad(out, x)

    assert first.item() == again.item() == 6.0


async def test_create_graph_can_release_all_the_same():
    x = leaf(3.0)
    out = np.multiply(x, x)

    await ag.grad(out, x, create_graph=True, retain_graph=False)

    with pytest.raises(ReleasedGraphError):
        await ag.grad(out, x)


async def test_only_nodes_that_ran_are_released():
    x, y = leaf(2.0), leaf(3.0)
    of_x, of_y = np.multiply(x, x), np.multiply(y, y)
    out = np.add(of_x, of_y)

    await ag.grad(out, x)
    (found,) = await ag.grad(out, y)

    assert found.item() == 6.0
    with pytest.raises(ReleasedGraphError):
        await ag.grad(of_x, x)


async def test_a_captured_node_is_not_released():
    x = leaf(2.0)
    middle = np.multiply(x, x)
    out = np.add(middle, 1.0)

    await ag.grad(out, middle)
    (found,) = await ag.grad(middle, x)

    assert found.item() == 4.0


class Story(Node):
    """Writes down what happens to it."""

    __slots__ = ("story",)

    def __init__(self, following: GradientEdge) -> None:
        super().__init__([Edge(*following)], [following.node.input_metadata[0]])
        self.story: list[str] = []

    def apply(self, grads):
        self.story.append("body")
        return grads

    def will_release_variables(self):
        self.story.append("will release")

    def release_variables(self):
        self.story.append("release")


async def test_a_node_is_released_after_its_post_hooks_and_before_the_next_node_runs():
    x = leaf(2.0)
    node = Story(ag.graph.get_gradient_edge(x))
    meta = node.make_meta()
    meta.pre_hooks, meta.post_hooks = HookList(), HookList()
    meta.pre_hooks.add(lambda grads: node.story.append("pre-hook"))
    meta.post_hooks.add(lambda inputs, outputs: node.story.append("post-hook"))
    x.register_hook(lambda grad: node.story.append("next"))

    await ag.backward(GradientEdge(node, 0))

    assert node.story == ["pre-hook", "will release", "body", "post-hook", "release", "next"]


async def test_a_graph_that_is_kept_is_never_told_to_release():
    node = Story(ag.graph.get_gradient_edge(leaf(2.0)))

    await ag.backward(GradientEdge(node, 0), retain_graph=True)

    assert node.story == ["body"]


async def test_a_node_whose_body_or_hook_failed_is_not_released():
    x = leaf(2.0)

    def fail(*args: Any) -> None:
        raise ValueError("hook")

    node = Story(ag.graph.get_gradient_edge(x))
    node.make_meta().post_hooks = HookList()
    handle = node.make_meta().post_hooks.add(fail)
    with pytest.raises(ValueError, match="hook"):
        await ag.backward(GradientEdge(node, 0))
    assert "release" not in node.story

    handle.remove()
    await ag.backward(GradientEdge(node, 0))
    assert node.story[-1] == "release"
    assert x.grad.item() == 1.0


async def test_a_function_that_failed_runs_again_with_what_it_saved():
    class Square(ag.Function):
        fails = True

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            if Square.fails:
                raise ValueError("not yet")
            return np.multiply(np.multiply(grad, x), 2.0)

    x = leaf(3.0)
    out = Square.apply(x)

    with pytest.raises(ValueError, match="not yet"):
        await ag.backward(out)
    Square.fails = False
    await ag.backward(out)

    assert x.grad.item() == 6.0


async def test_a_function_that_returned_a_wrong_shape_runs_again_with_what_it_saved():
    shapes = [(2,), (3,)]

    class Copy(ag.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.numpy().copy()

        @staticmethod
        def backward(ctx, grad):
            assert len(ctx.saved_tensors) == 1
            return np.ones(shapes.pop(0))

    x = leaf(1.0, 2.0, 3.0)
    out = Copy.apply(x)

    with pytest.raises(ag.errors.InvalidGradientError, match=r"^CopyBackward returned a gradient of shape \(2,\)"):
        await ag.backward(out, np.ones(3))
    await ag.backward(out, np.ones(3))

    assert x.grad.numpy().tolist() == [1.0, 1.0, 1.0]


async def test_a_function_releases_what_it_saved_and_keeps_its_attributes():
    contexts: list[Any] = []

    class Keep(ag.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.note = "kept"
            contexts.append(ctx)
            return x * 2.0

        @staticmethod
        def backward(ctx, grad):
            return grad

    out = Keep.apply(leaf(1.0))
    await ag.backward(out)

    (ctx,) = contexts
    assert ctx.note == "kept"
    with pytest.raises(ReleasedGraphError, match="KeepBackward"):
        ctx.saved_tensors


def test_both_drivers_release_alike():
    x = leaf(3.0)
    for out in (np.multiply(x, x), calling(np.multiply(x, x), lambda grad: None)):
        sync.backward(out)
        with pytest.raises(ReleasedGraphError, match="MultiplyBackward"):
            sync.backward(out)

    assert x.grad.item() == 12.0
