"""allow_mutation_on_saved_tensors: what was saved is copied before it is written into, and only then."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ChangedTensorError, HookError
from asyncgrad.graph import allow_mutation_on_saved_tensors, disable_saved_tensors_hooks, increment_version
from tests.core.graph.saved.packing import Store
from tests.support.functions import function
from tests.support.leaves import leaf


def test_a_saved_input_that_was_written_into_gives_the_old_gradient():
    x = leaf(1.0, 2.0)
    with allow_mutation_on_saved_tensors():
        y = x * 1.0
        loss = (y * y).sum()
        y *= 100.0
        sync.backward(loss)

    assert (x.grad.tolist(), y.tolist()) == ([2.0, 4.0], [100.0, 200.0])


def test_a_saved_output_that_was_written_into_gives_the_old_gradient():
    x = leaf(0.0)
    with allow_mutation_on_saved_tensors():
        y = np.exp(x)
        loss = y.sum()
        with ag.no_grad():
            y[...] = 100.0
        sync.backward(loss)

    assert x.grad.tolist() == [1.0]


def test_a_leaf_that_was_written_into_gives_the_old_gradient():
    x = leaf(3.0)
    with allow_mutation_on_saved_tensors():
        loss = x * x
        with ag.no_grad():
            x += 1.0
        sync.backward(loss)

    assert x.grad.tolist() == [6.0]


WRITES = {
    "an operator": lambda t: t.__imul__(7.0),
    "an assignment": lambda t: t.__setitem__(..., 7.0),
    "a mask": lambda t: t.__setitem__(t.numpy() > 0, 7.0),
    "out=": lambda t: np.add(t, 7.0, out=t),
    "copyto": lambda t: np.copyto(t, 7.0),
    "a view": lambda t: t[:1].__imul__(7.0),
    "a detached alias": lambda t: t.detach().__imul__(7.0),
    "add.at": lambda t: np.add.at(t, [0], 7.0),
}


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("write", WRITES)
def test_any_write_by_an_operation_is_seen(write: str, recorded: bool):
    x = leaf(1.0, 2.0)
    with allow_mutation_on_saved_tensors():
        y = x * 1.0
        loss = (y * y).sum()
        with ag.set_grad_enabled(recorded):
            WRITES[write](y)
        sync.backward(loss)

    assert x.grad.tolist() == [2.0, 4.0]


def test_a_view_that_was_saved_is_copied_when_its_base_is_written_into():
    x = leaf(1.0, 2.0)
    with allow_mutation_on_saved_tensors():
        y = x * 1.0
        part = y[:1]
        loss = (part * part).sum()
        y *= 100.0
        sync.backward(loss)

    assert x.grad.tolist() == [2.0, 0.0]


def test_the_gradient_flows_through_what_was_written_as_well():
    x = leaf(1.0, 2.0)
    with allow_mutation_on_saved_tensors():
        y = x * 1.0
        z = y * y
        y *= 3.0
        sync.backward((z + y).sum())

    assert x.grad.tolist() == [5.0, 7.0]


def test_values_at_different_times_are_all_kept():
    x = leaf(2.0)
    with allow_mutation_on_saved_tensors():
        y = x * 1.0
        total = y * y
        for _ in range(3):
            y += 1.0
            total = total + y * y
        sync.backward(total)

    assert x.grad.tolist() == [2.0 * (2 + 3 + 4 + 5)]


def test_second_derivatives_are_right():
    x = leaf(2.0)
    with allow_mutation_on_saved_tensors():
        y = x * 1.0
        z = y * y * y
        y *= 100.0
        (g,) = sync.grad(z.sum(), [x], create_graph=True)
        sync.backward(g.sum())

    assert (g.tolist(), x.grad.tolist()) == ([12.0], [12.0])


def test_a_write_between_first_and_second_backward_is_seen():
    x = leaf(2.0)
    with allow_mutation_on_saved_tensors():
        y = x * 1.0
        (g,) = sync.grad((y * y * y).sum(), [x], create_graph=True)
        y *= 100.0
        sync.backward(g.sum())

    assert x.grad.tolist() == [12.0]


def test_nothing_is_copied_unless_it_is_written_into():
    x = leaf(1.0)
    with allow_mutation_on_saved_tensors():
        y = x * x
    (saved, _) = y.grad_fn.saved_tensors

    assert np.shares_memory(saved.unpack().numpy(), x.numpy())


def test_what_was_saved_twice_is_copied_once():
    x = leaf(1.0)
    with allow_mutation_on_saved_tensors():
        y = x * 1.0
        z = y * y
        y *= 2.0
    first, second = (saved.unpack().numpy() for saved in z.grad_fn.saved_tensors)

    assert (np.shares_memory(first, second), np.shares_memory(first, y.numpy())) == (True, False)


def test_a_backward_may_follow_after_the_block():
    x = leaf(3.0)
    with allow_mutation_on_saved_tensors():
        y = x * 1.0
        z = y * y
        y *= 100.0
    sync.backward(z)

    assert x.grad.tolist() == [6.0]


def test_a_write_after_the_block_raises():
    x = leaf(3.0)
    with allow_mutation_on_saved_tensors():
        y = x * 1.0
        z = y * y
    y *= 100.0

    with pytest.raises(ChangedTensorError, match="allow_mutation_on_saved_tensors"):
        sync.backward(z)


def test_a_write_through_the_ndarray_that_is_owned_up_to_raises():
    x = leaf(3.0)
    with allow_mutation_on_saved_tensors():
        y = x * 1.0
        z = y * y
        y.numpy()[...] = 100.0
        increment_version(y)
        with pytest.raises(ChangedTensorError):
            sync.backward(z)


def test_a_function_finds_what_it_saved():
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.numpy() ** 2

    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2.0 * ctx.saved_tensors[0]

    x = leaf(3.0)
    with allow_mutation_on_saved_tensors():
        y = x * 1.0
        z = function(forward, backward).apply(y)
        y *= 100.0
        sync.backward(z)

    assert x.grad.tolist() == [6.0]


def test_a_step_of_an_optimizer_before_the_backward_is_seen():
    x = leaf(3.0)
    optimizer = ag.optim.SGD([x], lr=1.0)
    with allow_mutation_on_saved_tensors():
        loss = x * x
        x.grad = ag.tensor([1.0])
        optimizer.step()
        optimizer.zero_grad()
        sync.backward(loss)

    assert (x.tolist(), x.grad.tolist()) == ([2.0], [6.0])


def test_blocks_may_be_nested():
    x = leaf(3.0)
    with allow_mutation_on_saved_tensors():
        y = x * 1.0
        z = y * y
        with allow_mutation_on_saved_tensors():
            w = y * y
            y *= 100.0
        sync.backward(z + w)

    assert x.grad.tolist() == [12.0]


def test_hooks_inside_keep_what_is_saved_in_theirs():
    x, store = leaf(3.0), Store()
    with allow_mutation_on_saved_tensors():
        y = x * 1.0
        z = y * y
        with store.hooks():
            w = y * y
        y *= 100.0
    sync.backward(z + w)

    assert (x.grad.tolist(), len(store.arrays)) == ([12.0], 2)


def test_allow_mutation_is_refused_where_hooks_are_disabled():
    with (
        disable_saved_tensors_hooks("not in here"),
        pytest.raises(HookError, match="not in here"),
        allow_mutation_on_saved_tensors(),
    ):
        pass


def test_allow_mutation_as_a_decorator_holds_in_the_body():
    x = leaf(3.0)

    @allow_mutation_on_saved_tensors()
    def step() -> Any:
        y = x * 1.0
        z = y * y
        y *= 100.0
        return z

    sync.backward(step())
    assert x.grad.tolist() == [6.0]


async def test_other_tasks_do_not_see_allow_mutation_and_their_writes_raise():
    x, saved, written = leaf(3.0), asyncio.Event(), asyncio.Event()
    y = x * 1.0

    async def other() -> None:
        await saved.wait()
        with ag.no_grad():
            y[...] = 100.0
        written.set()

    task = asyncio.ensure_future(other())
    with allow_mutation_on_saved_tensors():
        z = y * y
        saved.set()
        await written.wait()
        with pytest.raises(ChangedTensorError):
            await z.backward()
    await task


def test_what_was_kept_is_gone_with_its_graph():
    gc.collect()
    gc.disable()
    try:
        x = leaf(3.0)
        with allow_mutation_on_saved_tensors():
            y = x * 1.0
            z = np.exp(y * y)
            y *= 100.0
            node, copy = (
                weakref.ref(z.grad_fn),
                weakref.ref(z.grad_fn.next_edges[0].node.saved_tensors[0].unpack().numpy()),
            )
            del z
            assert (node(), copy()) == (None, None)
    finally:
        gc.enable()


def test_gradients_are_those_of_torch():
    torch = pytest.importorskip("torch")

    def program(x: Any, block: Any, exp: Any) -> Any:
        with block():
            y = x * 1.0
            z = exp(y) * y
            y *= 2.0
            part = y[1:]
            w = part * part
            part += 5.0
            return (z.sum() + w.sum() + y.sum()), block

    values = np.array([0.3, 0.7, 1.1])
    ours, theirs = ag.tensor(values, requires_grad=True), torch.tensor(values, requires_grad=True)
    loss, _ = program(ours, allow_mutation_on_saved_tensors, np.exp)
    sync.backward(loss)
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        y = theirs * 1.0
        z = torch.exp(y) * y
        y *= 2.0
        part = y[1:]
        w = part * part
        part += 5.0
        (z.sum() + w.sum() + y.sum()).backward()

    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy())
