"""How `.grad` comes about: taken over, cloned, added to; and which arrays are never written into."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.arrays import values
from tests.support.arrays import address
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop

SHARED = np.arange(6.0)


class Fresh:
    """A body that returns an array of its own and remembers where that was, but holds no reference."""

    def __init__(self) -> None:
        self.address = -1

    def __call__(self, grad: Any) -> np.ndarray:
        made = grad.numpy() + 1.0
        self.address = address(made)
        return made

    async def later(self, grad: Any) -> np.ndarray:
        return self(grad)


def drive_awaited(run, out, **options):
    run(ag.backward(out, np.ones(3), **options))


def drive_blocking(run, out, **options):
    sync.backward(out, np.ones(3), **options)


both_drivers = pytest.mark.parametrize("drive", [drive_awaited, drive_blocking], ids=["awaited", "blocking"])


@on_each_loop
@both_drivers
def test_the_array_that_a_body_made_becomes_grad_without_a_copy(run, drive):
    x, fresh = leaf(1.0, 2.0, 3.0), Fresh()

    drive(run, calling(x, fresh))

    assert address(x.grad) == fresh.address
    assert x.grad.numpy().tolist() == [2.0, 2.0, 2.0]


@on_each_loop
@both_drivers
def test_the_array_that_an_async_body_made_becomes_grad_without_a_copy(run, drive):
    x, fresh = leaf(1.0, 2.0, 3.0), Fresh()

    drive(run, awaiting(x, fresh.later))

    assert address(x.grad) == fresh.address


@on_each_loop
@both_drivers
@pytest.mark.parametrize("hook", ["register_hook", "register_post_accumulate_grad_hook"])
def test_the_array_is_taken_over_through_hooks_on_the_leaf(run, drive, hook):
    x, fresh = leaf(1.0, 2.0, 3.0), Fresh()
    getattr(x, hook)(lambda value: None)

    drive(run, calling(x, fresh))

    assert address(x.grad) == fresh.address


@on_each_loop
@both_drivers
def test_the_array_is_taken_over_where_inputs_limit_the_backward(run, drive):
    x, fresh = leaf(1.0, 2.0, 3.0), Fresh()

    drive(run, calling(x, fresh), inputs=[x])

    assert address(x.grad) == fresh.address


def count_clones(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    clones: list[Any] = []
    clone_like = values.clone_like
    monkeypatch.setattr(values, "clone_like", lambda *args: clones.append(args) or clone_like(*args))
    return clones


@on_each_loop
@both_drivers
@pytest.mark.parametrize("counted", [False, True], ids=["fast path", "slow path"])
def test_what_a_rule_made_for_the_leaf_alone_is_not_cloned(run, drive, counted, monkeypatch):
    clones = count_clones(monkeypatch)
    x, w = leaf(1.0, 2.0, 3.0), leaf(4.0, 5.0, 6.0)
    out = np.multiply(np.multiply(x, w), 2.0)

    drive(run, calling(out, lambda grad: None) if counted else out)

    assert clones == []
    assert x.grad.numpy().tolist() == [8.0, 10.0, 12.0]


@on_each_loop
@both_drivers
@pytest.mark.parametrize("counted", [False, True], ids=["fast path", "slow path"])
def test_a_sum_that_the_engine_made_is_not_cloned(run, drive, counted, monkeypatch):
    clones = count_clones(monkeypatch)
    x = leaf(1.0, 2.0, 3.0)
    out = np.add(np.add(x, np.multiply(x, 3.0)), np.multiply(x, 5.0))

    drive(run, calling(out, lambda grad: None) if counted else out)

    assert clones == []
    assert x.grad.numpy().tolist() == [9.0] * 3


async def test_an_array_that_reaches_two_leaves_is_cloned_for_one_and_taken_over_by_the_other():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    fresh = Fresh()
    out = calling(np.add(x, y), fresh)

    await ag.backward(out, np.ones(2))

    assert address(x.grad) != address(y.grad)
    assert fresh.address in (address(x.grad), address(y.grad))


async def test_an_array_that_the_user_still_holds_is_cloned():
    x, held = leaf(1.0, 2.0), np.array([5.0, 6.0])

    await ag.backward(calling(x, lambda grad: held), np.ones(2))

    assert address(x.grad) != address(held)
    assert x.grad.numpy().tolist() == [5.0, 6.0]


async def test_a_gradient_that_a_hook_has_kept_is_cloned():
    x, kept = leaf(1.0, 2.0), []
    x.register_hook(kept.append)

    await ag.backward(np.multiply(x, 2.0), np.ones(2))

    assert address(x.grad) != address(kept[0])


async def test_the_gradient_to_start_from_is_cloned_and_never_written_into():
    x, given = leaf(1.0, 2.0), np.array([1.0, 10.0])

    for _ in range(3):
        await ag.backward(np.add(np.add(x, x), x), given)

    assert given.tolist() == [1.0, 10.0]
    assert x.grad.numpy().tolist() == [9.0, 90.0]


async def test_a_root_that_is_a_leaf_gets_a_copy_of_the_gradient_to_start_from():
    x, given = leaf(1.0, 2.0), np.array([1.0, 10.0])

    await ag.backward(x, given)
    await ag.backward(x, given)

    assert x.grad.numpy().tolist() == [2.0, 20.0]
    assert given.tolist() == [1.0, 10.0]
    assert not np.shares_memory(x.grad.numpy(), given)


@pytest.mark.parametrize(
    "made",
    [
        lambda grad: np.broadcast_to(np.float64(2.0), (2, 3)),
        lambda grad: SHARED.reshape(2, 3),
        lambda grad: np.arange(7.0)[:6].reshape(2, 3),
        lambda grad: np.arange(12.0).reshape(2, 6)[:, ::2],
        lambda grad: np.asfortranarray(grad.numpy() + 1.0),
    ],
    ids=["expanded", "view of another's", "part", "strided", "other layout"],
)
async def test_what_is_no_array_of_its_own_in_the_layout_of_the_leaf_is_cloned_into_it(made):
    x = ag.tensor(np.zeros((2, 3)), requires_grad=True)

    await ag.backward(calling(x, made), np.ones((2, 3)))

    grad = x.grad.numpy().base
    assert grad.flags.owndata
    assert grad.flags.writeable
    assert grad.strides == x.numpy().strides
    np.testing.assert_array_equal(grad, made(ag.tensor(np.ones((2, 3)))))


async def test_a_view_that_alone_has_its_memory_becomes_the_gradient_uncopied():
    addresses = []

    def reshaped(grad):
        made = np.arange(6.0)
        addresses.append(address(made))
        return made.reshape(2, 3)

    x = ag.tensor(np.zeros((2, 3)), requires_grad=True)

    await ag.backward(calling(x, reshaped), np.ones((2, 3)))

    assert [address(x.grad.numpy())] == addresses


async def test_grad_is_laid_out_like_its_leaf():
    x = ag.tensor(np.zeros((2, 3)).T, requires_grad=True)
    y = ag.asarray(np.asfortranarray(np.zeros((2, 3))), requires_grad=True)

    await ag.backward(np.multiply(y, 2.0), np.ones((2, 3)))
    await ag.backward(np.multiply(x, 2.0), np.ones((3, 2)))

    assert y.grad.numpy().flags.f_contiguous
    assert x.grad.numpy().strides == x.numpy().strides


async def test_a_read_only_array_is_cloned():
    def read_only(grad):
        made = np.ones(2)
        made.flags.writeable = False
        return made

    x = leaf(1.0, 2.0)

    await ag.backward(calling(x, read_only), np.ones(2))

    x.grad.numpy()[0] = 7.0
    assert x.grad.numpy().tolist() == [7.0, 1.0]


# A gradient that is there already.


@pytest.mark.parametrize("counted", [False, True], ids=["fast path", "slow path"])
async def test_a_second_backward_keeps_the_grad_object_and_leaves_arrays_handed_out_before_alone(counted):
    x = leaf(1.0, 2.0)

    def out():
        return calling(np.multiply(x, 3.0), lambda grad: None) if counted else np.multiply(x, 3.0)

    await ag.backward(out(), np.ones(2))
    first, handed_out = x.grad, x.grad.numpy()
    version = first._version
    await ag.backward(out(), np.ones(2))

    assert x.grad is first
    assert x.grad.numpy().tolist() == [6.0, 6.0]
    assert handed_out.tolist() == [3.0, 3.0]
    assert first._version == version + 1


async def test_a_grad_that_the_user_assigned_is_added_to_and_its_array_left_alone():
    x, array = leaf(1.0, 2.0), np.array([10.0, 20.0])
    x.grad = assigned = ag.asarray(array)

    await ag.backward(np.multiply(x, 3.0), np.ones(2))

    assert x.grad is assigned
    assert x.grad.numpy().tolist() == [13.0, 23.0]
    assert array.tolist() == [10.0, 20.0]


async def test_a_scalar_leaf_accumulates_arrays():
    x = ag.tensor(2.0, requires_grad=True)

    for _ in range(3):
        await ag.backward(np.multiply(x, x))

    assert type(x.grad.numpy()) is np.ndarray
    assert x.grad.shape == ()
    assert x.grad.item() == 12.0


async def test_under_create_graph_grad_becomes_a_new_tensor_with_a_history():
    x = leaf(2.0, 3.0)
    x.grad = before = ag.tensor([1.0, 1.0])

    with pytest.warns(UserWarning, match="create_graph"):
        await ag.backward(np.multiply(x, x), np.ones(2), create_graph=True)

    assert x.grad is not before
    assert before.numpy().tolist() == [1.0, 1.0]
    assert x.grad.numpy().tolist() == [5.0, 7.0]
    assert x.grad.requires_grad
    (second,) = await ag.grad(x.grad, x, np.ones(2))
    assert second.numpy().tolist() == [2.0, 2.0]
    x.grad = None


async def test_under_create_graph_a_first_gradient_is_copied_with_its_history():
    x = ag.tensor([-0.0, 3.0], requires_grad=True)
    seed = ag.tensor([1.0, 1.0], requires_grad=True)

    with pytest.warns(UserWarning, match="create_graph"):
        await ag.backward(np.multiply(np.multiply(x, x), 0.5), seed, create_graph=True)

    assert x.grad.requires_grad
    assert str(x.grad.device) == "cpu"
    assert x.grad.numpy().tobytes() == np.array([-0.0, 3.0]).tobytes()
    x.grad = None


async def test_under_create_graph_a_gradient_without_history_is_cloned():
    x, seed = leaf(1.0, 2.0), ag.tensor([1.0, 1.0])

    with pytest.warns(UserWarning, match="create_graph"):
        await ag.backward(np.add(x, 1.0), seed, create_graph=True)

    assert not np.shares_memory(x.grad.numpy(), seed.numpy())
    assert str(x.grad.device) == "cpu"
    assert not x.grad.requires_grad
    x.grad = None


async def test_a_sum_onto_a_grad_with_a_history_is_a_new_tensor_without_one():
    x = leaf(2.0, 3.0)
    x.grad = with_history = np.multiply(x, 1.0)

    await ag.backward(np.multiply(x, 3.0), np.ones(2))

    assert x.grad is not with_history
    assert not x.grad.requires_grad
    assert x.grad.numpy().tolist() == [5.0, 6.0]


def grad_awaited(run, out, x):
    async def grad() -> Any:
        with ag.no_grad():
            return await ag.grad(out, [x], [np.ones(3)], create_graph=True)

    return run(grad())[0]


def grad_blocking(run, out, x):
    with ag.no_grad():
        return sync.grad(out, [x], [np.ones(3)], create_graph=True)[0]


@on_each_loop
@pytest.mark.parametrize("grad", [grad_awaited, grad_blocking], ids=["awaited", "blocking"])
@pytest.mark.parametrize("through", [calling, awaiting])
def test_a_sum_is_recorded_whatever_the_grad_mode_of_the_caller(run, grad, through):
    async def later(grad: Any) -> Any:
        return grad * x * 3

    x = leaf(1.0, 2.0, 3.0)
    out = through(x, later if through is awaiting else lambda grad: grad * x * 3) + x

    (second,) = sync.grad(grad(run, out, x).sum(), [x])

    assert second.tolist() == [3.0, 3.0, 3.0]
