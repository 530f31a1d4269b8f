"""What bodies, formulas and hooks return that is no gradient is refused, and the message names who returned it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.errors import GradientTypeError, GraphError, HookError, HookTypeError, InvalidGradientError
from asyncgrad.extend import derivative, primitive
from tests.support.functions import calling
from tests.support.leaves import leaf


def hook_returning(value: Any) -> ag.Tensor:
    middle = np.multiply(leaf(1.0, 2.0), 3.0)
    middle.register_hook(lambda grad: value)
    return middle


@pytest.mark.parametrize(
    ("made", "error", "message"),
    [
        (lambda: hook_returning("text"), HookTypeError, r"^hook .* of MultiplyBackward .* not str 'text'"),
        (lambda: hook_returning(np.ones(3)), HookError, r"shape \(3,\) .* for a gradient of shape \(2,\)"),
        (lambda: hook_returning(np.ones(2, np.float32)), HookError, "dtype float32 for a gradient .* float64"),
        (lambda: calling(leaf(1.0, 2.0), lambda grad: "text"), GradientTypeError, r"^Calling.backward .* returned str"),
        (
            lambda: calling(leaf(1.0, 2.0), lambda grad: np.ones((2, 1))),
            InvalidGradientError,
            r"^CallingBackward returned a gradient of shape \(2, 1\) for input 0, which has shape \(2,\)",
        ),
    ],
    ids=["hook: type", "hook: shape", "hook: dtype", "body: type", "body: shape"],
)
async def test_what_is_no_gradient_is_refused_by_name(made, error, message):
    with pytest.raises(error, match=message):
        await ag.backward(made(), np.ones(2))


def formula_returning(value: Any, path: str) -> tuple[ag.Tensor, Any]:
    """A leaf, and a function of it whose derivative is a constant."""

    @primitive()
    def odd(x):
        return x * 2.0

    derivative(odd, "x")(lambda g: value)
    x = ag.tensor(1.0, requires_grad=True)
    out: Any = odd(x)
    if path == "slow path":
        out.register_hook(lambda grad: None)
    return x, out


@pytest.mark.parametrize("path", ["fast path", "slow path"])
async def test_a_formula_may_return_a_number(path):
    x, out = formula_returning(2, path)

    await ag.backward(out)

    assert x.grad.dtype == np.float64
    assert x.grad.item() == 2.0


@pytest.mark.parametrize("path", ["fast path", "slow path"])
@pytest.mark.parametrize("value", ["text", [1.0], (1.0,)], ids=["str", "list", "tuple"])
async def test_a_formula_that_returns_no_array_is_refused_by_name(path, value):
    x, out = formula_returning(value, path)

    with pytest.raises(GradientTypeError, match=r"^OddBackward returned .*, which is no array for input 0"):
        await ag.backward(out)

    assert x.grad is None


async def test_a_post_accumulate_hook_may_return_nothing_but_its_tensor():
    x, y = leaf(1.0), leaf(1.0)
    x.register_post_accumulate_grad_hook(lambda tensor: tensor)
    y.register_post_accumulate_grad_hook(lambda tensor: 3)

    await ag.backward(np.multiply(x, 2.0))
    with pytest.raises(HookError, match=r"^post-accumulate-grad hook .* must return None, not int 3"):
        await ag.backward(np.multiply(y, 2.0))

    assert (x.grad.item(), y.grad) == (2.0, None)


async def test_an_apply_that_returns_no_tuple_is_refused_by_name():
    class Bare(ag.graph.Node):
        def apply(self, grads):
            return grads[0]

    node = Bare([ag.graph.Edge(None, 0)])

    with pytest.raises(GradientTypeError, match=r"^Bare \(node #\d+\) returned float 1.0: apply must return a tuple"):
        await ag.backward(ag.graph.GradientEdge(node, 0), 1.0)


async def test_a_graph_that_is_changed_while_it_runs_is_noticed():
    x, y = leaf(1.0), leaf(2.0)

    def rewire(grad):
        middle.grad_fn.next_nodes = (y_node,)

    y_node = ag.graph.get_gradient_edge(y).node
    middle = np.multiply(x, 3.0)
    out = calling(middle, rewire)

    with pytest.raises(GraphError, match=r"MultiplyBackward .* delivered to AccumulateGrad, which waits for nothing"):
        await ag.backward(out)
