"""`ctx._is_pure_view`: a Function that says it is a view of its argument and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ArgumentTypeError, InPlaceError
from tests.support.functions import function
from tests.support.leaves import leaf
from tests.support.refusals import refused


def viewing(view: Any, declared: Any = True, backward: Any = None) -> type[ag.Function]:
    """A Function that returns `view(x)`, and declares that it is a pure view."""

    def forward(ctx: Any, x: Any, *others: Any) -> Any:
        ctx._is_pure_view = declared
        return view(x)

    def part_of_three(ctx: Any, grad: Any) -> Any:
        total = np.zeros(3)
        total[: len(grad)] = grad.numpy()
        return total

    return function(forward, backward or part_of_three)


@pytest.mark.parametrize("replays", [False, True], ids=["strides", "replay"])
@pytest.mark.parametrize("view", [lambda x: x[:2], lambda x: x], ids=["a part", "the argument itself"])
def test_a_pure_view_may_be_written_into_and_its_base_follows(view, replays):
    x = leaf(1.0, 2.0, 3.0)
    with ag.graph.replay_views(replays):
        y = x * 1
        result = viewing(view).apply(y)
        assert (result.is_view, result.grad_fn.name) == (True, "MadeBackward")
        result *= 5
        sync.backward((y * [1.0, 10.0, 100.0]).sum() + result.sum())

    assert y.grad_fn.name == "CopySlices"
    assert x.grad.tolist() == [10.0, 55.0, 505.0 if len(result) == 3 else 100.0]


def test_a_pure_view_follows_a_write_into_its_base():
    x = leaf(1.0, 2.0, 3.0)
    y = x * 1
    result = viewing(lambda x: x[:2]).apply(y)
    y *= 3
    sync.backward(result.sum())

    assert (result.tolist(), x.grad.tolist()) == ([3.0, 6.0], [3.0, 3.0, 0.0])


def test_a_pure_view_of_one_of_several_outputs_may_not_be_written_into():
    first, _ = np.split(leaf(1.0, 2.0) * 1, 2)
    result = viewing(lambda x: x[:1]).apply(first)

    with refused(InPlaceError, RuntimeError, "function of several outputs"):
        result += 1


def test_a_function_that_is_no_pure_view_may_return_what_it_likes_and_that_is_not_written_into():
    result = viewing(lambda x: x[:2], declared=False).apply(leaf(1.0, 2.0, 3.0) * 1)

    with refused(InPlaceError, RuntimeError, "in the forward of an ag.Function"):
        result += 1


def test_a_fresh_output_is_as_without_the_declaration():
    x = leaf(1.0, 2.0, 3.0)
    result = viewing(lambda x: x * 2, backward=lambda ctx, grad: grad * 2).apply(x)
    result *= 5
    sync.backward(result.sum())

    assert (result.is_view, x.grad.tolist()) == (False, [10.0, 10.0, 10.0])


@pytest.mark.parametrize("view", [lambda x: (x[:1], x[1:]), lambda x: (x[:1], 5)], ids=["two views", "a number"])
def test_a_pure_view_has_one_output(view):
    with refused(InPlaceError, RuntimeError, "_is_pure_view", "one output", "1 tensor argument and 2 outputs"):
        viewing(view).apply(leaf(1.0, 2.0) * 1)


def test_a_pure_view_has_one_tensor_argument_beside_others_that_are_none():
    pure = viewing(lambda x: x[:2])
    with refused(InPlaceError, RuntimeError, "_is_pure_view", "one tensor argument", "2 tensor arguments and 1 output"):
        pure.apply(leaf(1.0, 2.0), ag.tensor(1.0))

    assert pure.apply(leaf(1.0, 2.0) * 1, 5).is_view


def test_a_view_of_another_tensor_is_no_pure_view_of_the_argument():
    other = ag.tensor([1.0, 2.0, 3.0, 4.0])

    with refused(InPlaceError, RuntimeError, "_is_pure_view", "shape (4,)", "not its argument"):
        viewing(lambda x: other[:2]).apply(leaf(1.0, 2.0, 3.0) * 1)


def test_the_declaration_is_a_bool():
    with refused(ArgumentTypeError, TypeError, "_is_pure_view", "True or False"):
        viewing(lambda x: x[:2], declared=1).apply(leaf(1.0, 2.0, 3.0) * 1)
