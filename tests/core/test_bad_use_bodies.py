"""Hooks and bodies that return the wrong thing, or raise, are named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.arrays.hooks import HookList
from asyncgrad.errors import (
    GradientTypeError,
    GraphError,
    HookError,
    HookTypeError,
    InvalidGradientError,
    RequiresGradError,
)
from asyncgrad.graph import Edge, GradientEdge, InputMetadata, Node, get_gradient_edge
from tests.support.functions import function
from tests.support.leaves import leaf
from tests.support.refusals import refused

# Hooks.


@pytest.mark.parametrize(
    ("returned", "error", "built_in", "parts"),
    [
        (1.0, HookTypeError, TypeError, ["None or a tensor", "float 1.0"]),
        ("text", HookTypeError, TypeError, ["str 'text'"]),
        (ag.tensor(np.ones(3)), HookError, RuntimeError, ["shape (3,)", "of shape (2,)"]),
        (ag.tensor(np.ones(2, np.float32)), HookError, RuntimeError, ["dtype float32", "dtype float64"]),
    ],
    ids=["float", "str", "shape", "dtype"],
)
@pytest.mark.parametrize("on", ["leaf", "computed"])
def test_a_tensor_hook_that_returns_the_wrong_thing_is_named(on, returned, error, built_in, parts):
    def wrong_hook(grad: Any) -> Any:
        return returned

    x = leaf(1.0, 2.0)
    y = x * 2
    (x if on == "leaf" else y).register_hook(wrong_hook)

    node = "AccumulateGrad (leaf of shape (2,))" if on == "leaf" else "MultiplyBackward (node #"
    with refused(error, built_in, "wrong_hook", node, *parts):
        sync.backward(y.sum())
    assert x.grad is None


@pytest.mark.parametrize("kind", ["pre_hooks", "post_hooks"])
@pytest.mark.parametrize(
    ("returned", "error", "built_in", "parts"),
    [
        (lambda grads: grads[0], HookTypeError, TypeError, ["None or a tuple"]),
        (lambda grads: (*grads, None), HookError, RuntimeError, ["returned"]),
        (lambda grads: (np.ones(3), *grads[1:]), HookError, RuntimeError, ["shape (3,)", "shape (2,)"]),
        (lambda grads: ("text", *grads[1:]), HookTypeError, TypeError, ["str 'text'"]),
    ],
    ids=["bare", "count", "shape", "type"],
)
def test_a_node_hook_that_returns_the_wrong_thing_is_named(kind, returned, error, built_in, parts):
    def wrong_hook(grads: Any, *_: Any) -> Any:
        return returned(grads)

    x = leaf(1.0, 2.0)
    y = x * 2
    hooks = HookList()
    hooks.add(wrong_hook)
    setattr(y.grad_fn.make_meta(), kind, hooks)

    with refused(error, built_in, "wrong_hook", "MultiplyBackward", *parts):
        sync.backward(y.sum())
    assert x.grad is None


def test_a_post_accumulate_hook_that_returns_something_is_named_and_the_gradient_put_back():
    def wrong_hook(t: Any) -> Any:
        return 1

    x = leaf(1.0, 2.0)
    x.register_post_accumulate_grad_hook(wrong_hook)

    with refused(HookError, RuntimeError, "wrong_hook", "must return None", "int 1"):
        sync.backward(x.sum())
    assert x.grad is None


def test_hooks_belong_where_a_gradient_arrives():
    plain, x = ag.tensor([1.0, 2.0]), leaf(1.0, 2.0)

    for call in (
        plain.retain_grad,
        lambda: plain.register_hook(print),
        lambda: plain.register_post_accumulate_grad_hook(print),
    ):
        with refused(RequiresGradError, RuntimeError, "requires grad", ".requires_grad_()"):
            call()
    with refused(HookError, RuntimeError, "leaf", "MultiplyBackward"):
        (x * 2).register_post_accumulate_grad_hook(print)
    for register in (x.register_hook, (x * 2).register_hook, x.register_post_accumulate_grad_hook):
        with refused(HookTypeError, TypeError, "int 3", "callable"):
            register(3)


# Bodies.


def node_returning(returned: Any) -> tuple[ag.Tensor, GradientEdge]:
    """A leaf, and the edge into a node above it whose body returns that."""

    class Wrong(Node):
        def apply(self, grads: tuple[Any, ...]) -> Any:
            return returned

    x = leaf(1.0, 2.0)
    to_leaf = ag.graph.get_gradient_edge(x)
    return x, GradientEdge(Wrong([Edge(*to_leaf)], [InputMetadata((2,), np.dtype(float), x.device)]), 0)


@pytest.mark.parametrize(
    ("returned", "error", "built_in", "parts"),
    [
        (np.ones(2), GradientTypeError, TypeError, ["ndarray of shape (2,)", "tuple with a gradient for each input"]),
        (None, GradientTypeError, TypeError, ["NoneType None", "tuple"]),
        ((np.ones(2), None), InvalidGradientError, RuntimeError, ["2 gradients", "1 input:"]),
        ((), InvalidGradientError, RuntimeError, ["0 gradients", "1 input:"]),
        (("text",), GradientTypeError, TypeError, ["str 'text'", "no array", "input 0", "shape (2,)"]),
        ((np.ones(3),), InvalidGradientError, RuntimeError, ["shape (3,)", "input 0", "shape (2,)", "device 'cpu'"]),
        ((np.array(1.0),), InvalidGradientError, RuntimeError, ["shape ()", "shape (2,)"]),
        ((np.array(["a", "b"]),), InvalidGradientError, RuntimeError, ["dtype <U1", "dtype float64"]),
    ],
    ids=["bare", "none", "two", "empty", "str", "shape", "scalar", "strings"],
)
def test_a_body_that_returns_the_wrong_thing_is_named(returned, error, built_in, parts):
    x, root = node_returning(returned)

    with refused(error, built_in, "Wrong", f"#{root.node.sequence_nr}", *parts):
        sync.backward(root, np.ones(2))
    assert x.grad is None


def test_a_transposed_gradient_is_recognised():
    class Transposed(ag.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.numpy().T

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    x = ag.tensor(np.ones((2, 3)), requires_grad=True)
    with refused(InvalidGradientError, RuntimeError, "TransposedBackward", "(3, 2)", "(2, 3)", "forget a transpose?"):
        sync.backward(Transposed.apply(x).sum())


@pytest.mark.parametrize("blocking", [True, False])
def test_what_a_body_raises_comes_unwrapped_with_a_note_that_names_the_node(blocking):
    class Failing(ag.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.numpy()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            raise KeyError("mine")

    y = Failing.apply(leaf(1.0))
    with pytest.raises(KeyError, match="mine") as raised:
        sync.backward(y) if blocking else ag.run(y.backward())
    assert raised.value.__notes__ == [f"in FailingBackward (node #{y.grad_fn.sequence_nr}, device 'cpu')"]


def test_a_node_without_a_body_says_so():
    class Empty(Node):
        pass

    with pytest.raises(NotImplementedError, match=r"Empty.*apply\(grads\)"):
        sync.backward(GradientEdge(Empty(), 0), np.ones(2))


# A graph that changes under way.


def cut(graph: dict[str, Any]) -> None:
    graph["product"].next_nodes = (None, None)


def lead_to_the_leaf_twice(graph: dict[str, Any]) -> None:
    graph["sum"].next_nodes = (graph["product"], graph["leaf"])


@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize("change", [cut, lead_to_the_leaf_twice])
def test_a_graph_changed_while_a_backward_runs_through_it_raises_and_no_gradient_is_left(change, blocking):
    graph: dict[str, Any] = {}

    def backward(ctx: Any, grad: Any) -> Any:
        change(graph)
        return grad

    x = leaf(1.0, 2.0)
    product = x * 2
    total = product + 1
    loss = (function(lambda ctx, x: x.numpy() * 1.0, backward).apply(total) + x * 7).sum()
    graph.update(product=product.grad_fn, sum=total.grad_fn, leaf=get_gradient_edge(x).node)

    with refused(GraphError, RuntimeError, "AccumulateGrad", "an edge was changed while a backward ran"):
        sync.backward(loss) if blocking else ag.run(loss.backward())
    assert x.grad is None
