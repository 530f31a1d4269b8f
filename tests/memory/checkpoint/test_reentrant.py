"""Reentrant checkpoints: a backward inside a backward."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import final
from unittest import mock

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.errors import CheckpointError, GraphError
from asyncgrad.memory.checkpoint.models import tensors_of
from tests.memory.checkpoint.models import maybe_async
from tests.support.functions import calling, function
from tests.support.leaves import leaf


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
async def test_a_backward_that_is_limited_to_inputs_is_refused_and_told_what_to_do(is_async):
    x = leaf(1.0)
    y = ag.checkpoint(maybe_async(np.sin, is_async), x)
    y = (await y if is_async else y).sum()
    for limited in (lambda: ag.grad(y, [x]), lambda: ag.backward(y, inputs=[x])):
        with pytest.raises(GraphError, match=r"limited to some inputs.*use_reentrant=False"):
            await limited()
    await ag.backward(y)

    assert x.grad.item() == np.cos(1.0)


def test_a_whole_backward_inside_of_a_limited_one_is_refused():
    x = leaf(1.0)

    def nests(grad):
        with ag.enable_grad():
            inner = ag.checkpoint(np.sin, leaf(1.0))
        sync.backward(inner)

    with pytest.raises(GraphError, match="runs inside of one that is"):
        sync.grad(calling(x, nests), [x])


def test_no_argument_that_requires_grad_is_warned_of_at_the_line_of_the_call():
    with pytest.warns(UserWarning, match=r"no argument of .*sin.* requires grad.*use_reentrant=False") as caught:
        y = ag.checkpoint(np.sin, ag.tensor(1.0))

    assert not y.requires_grad
    assert caught[0].filename == __file__


def test_the_forward_records_one_node():
    x = leaf(1.0)

    y = ag.checkpoint(lambda x: np.sin(np.exp(x)), x)

    assert y.grad_fn.name == "CheckpointBackward"
    assert y.grad_fn.next_edges[0].node.variable is x


def test_leaves_that_the_function_refers_to_get_their_gradients_with_their_hooks():
    x, w, seen = leaf(2.0), leaf(3.0), []
    w.register_hook(lambda grad: seen.append(grad.item()))
    y = ag.checkpoint(lambda x: x * w, x)

    sync.backward((y * 5).sum())

    assert (x.grad.item(), w.grad.item(), seen) == (15.0, 10.0, [10.0])


def test_a_tensor_with_a_history_that_the_function_refers_to_keeps_that():
    """Two calls run through it, and so does the backward around them."""
    x, w = leaf(2.0), leaf(3.0)
    between = np.exp(w)

    y = ag.checkpoint(lambda x: x * between, x)
    z = ag.checkpoint(lambda y: y * between, y) + between

    sync.backward(z.sum())
    assert x.grad.item() == pytest.approx(np.exp(3.0) ** 2)
    assert w.grad.item() == pytest.approx(2 * 2.0 * np.exp(6.0) + np.exp(3.0))


def test_a_function_that_hides_its_history_is_told_so_in_the_backward():
    y = ag.checkpoint(lambda x: (x * 2).detach(), leaf(1.0))

    with pytest.raises(GraphError, match=r"nothing that .* returned and that got a gradient requires grad"):
        sync.backward(y.sum())


def test_a_function_that_returns_something_else_the_second_time_is_found_out():
    answers = [lambda x: (x, x * 2), lambda x: (x * 2,)]
    first, _ = ag.checkpoint(lambda x: answers.pop(0)(x), leaf(1.0))
    with pytest.raises(CheckpointError, match="2 tensors in the forward, and 1 when it was called again"):
        sync.backward(first.sum())

    shapes = [(1,), (2, 1)]
    y = ag.checkpoint(lambda x: np.broadcast_to(x, shapes.pop(0)) * 1, leaf(1.0))
    with pytest.raises(CheckpointError, match=r"shape \(1,\), and \(2, 1\) when it was called again"):
        sync.backward(y.sum())


def test_what_no_gradient_reaches_is_not_recomputed():
    calls = []

    def fn(x):
        calls.append(1)
        return x * 2, x * 3

    x = leaf(1.0)
    first, _ = ag.checkpoint(fn, x)
    ends = function(lambda ctx, x: x.numpy().copy(), lambda ctx, grad: None)
    sync.backward(ends.apply(first).sum())

    assert len(calls) == 1
    assert x.grad is None


def test_the_inner_gradients_do_not_outlive_their_node():
    """Kept to be taken back, they would take the memory that the checkpoints save."""
    alive, at_most = weakref.WeakSet(), 0

    def fn(x):
        nonlocal at_most
        alive.add(x)
        at_most = max(at_most, len(alive))
        return np.tanh(x)

    y = leaf(1.0)
    for _ in range(30):
        y = ag.checkpoint(fn, y)
    alive.clear()
    at_most = 0
    sync.backward(y.sum())

    assert at_most <= 3


async def test_only_the_node_that_recomputes_waits():
    """Two branches wait for each other's recomputation to begin."""

    begun = [asyncio.Event(), asyncio.Event()]

    async def fn(x, mine):
        if ag.is_grad_enabled():
            begun[mine].set()
            await begun[1 - mine].wait()
        return np.sin(x)

    x = leaf(1.0)
    first, second = await ag.checkpoint(fn, x, 0), await ag.checkpoint(fn, x, 1)
    await ag.backward((first + second).sum())

    assert x.grad.item() == 2 * np.cos(1.0)


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_an_async_function_in_a_blocking_backward_runs_on_a_loop_of_its_own(use_reentrant):
    x = leaf(1.0)
    y = ag.run(ag.checkpoint(maybe_async(np.sin, True), x, use_reentrant=use_reentrant))

    sync.backward(y.sum())

    assert x.grad.item() == np.cos(1.0)


def test_a_plain_function_in_a_blocking_backward_starts_no_loop(monkeypatch):
    x = leaf(1.0)
    y = ag.checkpoint(lambda x: ag.checkpoint(np.sin, x), x)
    monkeypatch.setattr(asyncio, "Runner", None)

    sync.backward(y.sum())

    assert x.grad.item() == np.cos(1.0)


@final
class _Remembers(nn.Module):
    """Keeps its last result, beside an attribute that is looked into by nobody."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.named = {"": None, "second": nn.Parameter(np.ones(2))}
        self.last: object = None

    def forward(self, x):
        return self.linear(x) * self.named["second"]

    def checkpointed(self, x):
        self.last = ag.checkpoint(lambda x: self(x), x)
        return self.last


def test_a_module_that_keeps_its_last_result_keeps_no_others():
    model, x = _Remembers(), leaf([1.0, 2.0])
    kept = []
    for _ in range(3):
        y = model.checkpointed(x)
        kept.append(weakref.ref(y))
        sync.backward(y.sum())
    del y
    gc.collect()

    assert [one() is not None for one in kept] == [False, False, True]


def test_the_tensors_of_a_function_are_those_of_its_modules_and_not_what_they_have_computed():
    model = _Remembers()
    model.checkpointed(leaf([1.0, 2.0]))

    assert {*map(id, tensors_of([lambda: model]))} == {*map(id, model.parameters())}


@final
class _RefersBack(nn.Module):
    """Has weak references to modules that are none of its parts, and stand-ins for other objects."""

    def __init__(self, whole: nn.Module, gone: nn.Module) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.whole, self.gone = weakref.proxy(whole), weakref.proxy(gone)
        self.stand_ins = [mock.Mock(spec=nn.Linear), mock.Mock(spec=list)]
        self.tensor = mock.Mock(spec=ag.Tensor)

    def forward(self, x):
        return self.linear(x) * self.whole.scale


def test_attributes_that_stand_for_other_objects_are_no_parts_of_a_module():
    whole, x = nn.Module(), leaf([1.0, 2.0])
    # A power of two, by which a product is exact.
    whole.scale = nn.Parameter(np.array([2.0]))
    part = whole.part = _RefersBack(whole, nn.Linear(2, 2))

    sync.backward(ag.checkpoint(part, x).sum())

    assert {*map(id, tensors_of([part]))} == {*map(id, part.linear.parameters())}
    np.testing.assert_array_equal(x.grad.numpy()[0], part.linear.weight.numpy().sum(0) * 2.0)
