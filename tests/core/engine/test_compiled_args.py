"""What nodes tell compiled autograd of themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.graph import CompiledArgs, TraceableNode
from tests.support.functions import Cubed
from tests.support.leaves import leaf


def key(node: Any) -> tuple[Any, ...]:
    args = CompiledArgs()
    node.compiled_args(args)
    return args.key


class AwaitedCubed(ag.Function):
    """The same, with an async backward."""

    forward = Cubed.forward

    @staticmethod
    async def backward(ctx, grad):
        (x,) = await ctx.load_saved()
        return grad * 3.0 * x * x


def test_nodes_of_calls_alike_have_equal_keys():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)

    assert key(np.multiply(x, y).grad_fn) == key(np.multiply(y, x).grad_fn)
    assert key(Cubed.apply(x).grad_fn) == key(Cubed.apply(y).grad_fn)


@pytest.mark.parametrize(
    "other",
    [
        lambda x: np.add(x, x),
        lambda x: np.multiply(x, 2.0),
        lambda x: np.multiply(x[:1], x[:1]),
        lambda x: np.multiply(x.astype(np.float32), x.astype(np.float32)),
        lambda x: np.multiply(x, np.ones((3, 2)) * x),
    ],
)
def test_another_function_shape_dtype_or_kind_of_argument_gives_another_key(other):
    x = leaf(1.0, 2.0)

    assert key(np.multiply(x, x).grad_fn) != key(other(x).grad_fn)


def test_hooks_are_part_of_the_key():
    x = leaf(1.0)
    nodes = [np.multiply(x, x).grad_fn for _ in range(3)]
    nodes[1].register_prehook(lambda grads: None)
    nodes[2].register_hook(lambda outputs, grads: None)

    assert len({key(node) for node in nodes}) == 3


def test_a_node_of_ones_own_adds_what_its_body_reads():
    class Scale(TraceableNode):
        def __init__(self, factor: float) -> None:
            super().__init__()
            self.factor = factor

        def apply(self, grads):
            return (grads[0] * self.factor,)

        def compiled_args(self, args):
            super().compiled_args(args)
            args.collect(self.factor)

    assert key(Scale(2.0)) == key(Scale(2.0))
    assert len({key(Scale(factor)) for factor in (1.0, 1, True, 0.0, -0.0)}) == 5


def test_a_primitive_runs_on_other_saved_tensors():
    x = leaf(2.0, 3.0)
    node = np.multiply(x, x).grad_fn
    grad = np.ones(2)

    same = node.apply_with_saved((grad,), [saved.unpack() for saved in node.saved_tensors])
    other = node.apply_with_saved((grad,), [np.full(2, 5.0), np.full(2, 7.0)])

    assert [one.tolist() for one in same] == [one.tolist() for one in node.apply((grad,))]
    assert [one.tolist() for one in other] == [[7.0, 7.0], [5.0, 5.0]]


def test_a_function_runs_on_other_saved_tensors():
    node = Cubed.apply(leaf(2.0)).grad_fn

    (found,) = node.apply_with_saved((np.ones(1),), [np.full(1, 10.0)])

    assert found.item() == 300.0
    assert node.apply((np.ones(1),))[0].item() == 12.0


async def test_a_function_with_an_async_backward_runs_on_other_saved_tensors():
    node = AwaitedCubed.apply(leaf(2.0)).grad_fn
    (other,) = await node.apply_with_saved((np.ones(1),), [np.full(1, 10.0)])
    (own,) = await node.apply((np.ones(1),))

    assert (other.item(), own.item()) == (300.0, 12.0)


def test_a_node_that_saves_has_to_say_how_to_swap_what_it_saved():
    class Bare(TraceableNode):
        def apply(self, grads):
            return grads

    assert Bare().apply_with_saved((1.0,), ()) == (1.0,)
    with pytest.raises(NotImplementedError, match="Bare saves tensors"):
        Bare().apply_with_saved((1.0,), (2.0,))
