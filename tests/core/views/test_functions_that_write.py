"""Functions that write into their arguments, return them, or return views."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import InPlaceError
from tests.support.functions import function
from tests.support.leaves import leaf
from tests.support.refusals import refused


def scale_in_place(position: int = 0, saves: bool = False) -> type[ag.Function]:
    """Multiply argument `position` by the other one, in place."""

    def forward(ctx: Any, *args: Any) -> Any:
        target, factor = args[position], args[1 - position]
        ctx.old = target.numpy().copy()
        target *= factor
        ctx.mark_dirty(target)
        ctx.save_for_backward(factor, *([target] if saves else []))
        return target

    def backward(ctx: Any, grad: Any) -> Any:
        factor, *new = ctx.saved_tensors
        old = new[0] / factor if saves else ctx.old
        grads = grad * factor, (grad * old).sum()
        return grads if position == 0 else grads[::-1]

    return function(forward, backward)


@pytest.mark.parametrize("replays", [False, True], ids=["strides", "replay"])
@pytest.mark.parametrize("saves", [False, True])
@pytest.mark.parametrize("position", [0, 1])
def test_a_dirty_view_gives_its_base_a_new_history(position, saves, replays):
    x, factor = leaf(1.0, 2.0, 3.0), ag.tensor(5.0, requires_grad=True)
    with ag.graph.replay_views(replays):
        y = x * 1
        view, other = y[1:], y[:2]
        args = [view, factor]
        result = scale_in_place(position, saves).apply(args[position], args[1 - position])
        assert result is view
        sync.backward((y * [1.0, 10.0, 100.0]).sum() + other.sum())

    assert (y.tolist(), y._version, y.grad_fn.name) == ([1.0, 10.0, 15.0], 2, "CopySlices")
    assert (x.grad.tolist(), factor.grad.tolist()) == ([2.0, 55.0, 500.0], 322.0)


def test_views_of_a_dirty_base_follow_it():
    x = leaf(1.0, 2.0)
    y = x * 1
    view = y[:1]
    scale_in_place().apply(y, ag.tensor(3.0))
    sync.backward(view.sum())

    assert (view.tolist(), x.grad.tolist()) == ([3.0], [3.0, 0.0])


def test_a_dirty_tensor_loses_its_gradient_and_hooks():
    seen: list[Any] = []
    y = leaf(1.0) * 1
    y.retain_grad()
    y.register_hook(seen.append)
    scale_in_place().apply(y, ag.tensor(3.0))

    assert (y.grad, y.retains_grad) == (None, False)


def test_a_dirty_view_is_the_only_output():
    def forward(ctx: Any, x: Any) -> Any:
        x += 1
        ctx.mark_dirty(x)
        return x, x * 2

    with refused(InPlaceError, RuntimeError, "is a view", "the only output", "x = x.copy()"):
        function(forward).apply((leaf(1.0) * 1)[:])


def test_a_write_into_a_leaf_is_refused():
    for target in (leaf(1.0), leaf(1.0)[:]):
        with refused(InPlaceError, RuntimeError, "leaf that requires grad", "x = x.copy()"):
            scale_in_place().apply(target, ag.tensor(3.0))


def test_an_undefined_gradient_of_a_dirty_view_makes_that_of_the_base_undefined():
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        return x

    x = leaf(1.0, 2.0)
    y = x * 1
    function(forward, lambda ctx, grad: None).apply(y[:1])
    sync.backward(y.sum())

    assert x.grad is None


def test_a_gradient_that_does_not_fit_the_dirty_view_is_refused():
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        return x

    y = leaf(1.0, 2.0, 3.0) * 1
    function(forward, lambda ctx, grad: np.ones(3)).apply(y[:2])

    with pytest.raises(RuntimeError, match=r"MadeBackward.*shape \(3,\).*shape \(2,\)"):
        sync.backward(y.sum())


def test_an_argument_returned_as_it_is_comes_back_as_a_view_with_the_functions_history():
    x = leaf(1.0, 2.0)
    y = x * 1
    result = function(lambda ctx, x: x, lambda ctx, grad: grad * 10).apply(y)

    assert result is not y
    assert (result.is_view, result.grad_fn.name, y.grad_fn.name) == (True, "MadeBackward", "MultiplyBackward")
    with refused(InPlaceError, RuntimeError, "in the forward of an ag.Function"):
        result += 1
    sync.backward(result.sum())
    assert x.grad.tolist() == [10.0, 10.0]


def test_one_object_returned_twice_is_one_object():
    first, second = function(lambda ctx, x: (x, x)).apply(leaf(1.0) * 1)

    assert first is second


def test_a_view_among_several_outputs_is_one_of_several_outputs():
    def forward(ctx: Any, x: Any) -> Any:
        return x[:1], x * 2

    view, _ = function(forward).apply(leaf(1.0, 2.0) * 1)

    with refused(InPlaceError, RuntimeError, "function of several outputs"):
        view += 1


def test_an_argument_that_is_not_differentiable_comes_back_without_history():
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_non_differentiable(x)
        return x

    y = leaf(1.0) * 1
    plain = ag.tensor([1.0])
    detached, view = function(forward).apply(y), function(forward).apply(plain)

    assert (detached.requires_grad, detached.is_view) == (False, False)
    assert (view is not plain, view.is_view, view.requires_grad) == (True, True, False)


def test_a_fresh_output_is_no_view_and_may_be_written_into():
    x = leaf(1.0, 2.0)
    result = function(lambda ctx, x: x * 1).apply(x)
    result[:1] *= 3
    sync.backward(result.sum())

    assert x.grad.tolist() == [3.0, 1.0]
