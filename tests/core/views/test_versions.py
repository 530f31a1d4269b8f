"""Version counters: one for a piece of memory, counted up by every write that can be seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ChangedTensorError
from tests.support.functions import function
from tests.support.leaves import leaf
from tests.support.refusals import refused
from tests.support.writes import iadd, set_item


def test_a_base_its_views_and_what_is_detached_share_one_counter():
    x = ag.tensor([1.0, 2.0, 3.0])
    sharing = [x[1:], x[1:][:1], x.detach(), x.detach().reshape(3, 1)]
    x += 1

    assert [tensor._version for tensor in (x, *sharing)] == [1] * 5


def test_a_write_into_a_view_is_counted_by_its_base():
    x = ag.tensor([1.0, 2.0, 3.0])
    part = x[1:]
    part *= 2

    assert (x._version, x.tolist()) == (1, [1.0, 4.0, 6.0])


@pytest.mark.parametrize("copy", [ag.tensor, np.copy, lambda t: t.clone(), lambda t: t * 1, lambda t: t[[0, 1]]])
def test_a_copy_has_a_counter_of_its_own(copy):
    x = ag.tensor([1.0, 2.0])
    copied = copy(x)
    x += 1

    assert (x._version, copied._version) == (1, 0)


def set_by_list(t: Any) -> None:
    t[[0]] = 5.0


WRITES = {
    "+=": iadd,
    "[0] =": set_item,
    "[[0]] =": set_by_list,
    "out=": lambda t: np.sin(t, out=t),
    "where=": lambda t: np.add(t, 1, out=t, where=np.array([True, False])),
    "out= of a function": lambda t: np.cumsum(t, out=t),
    "copyto": lambda t: np.copyto(t, 1.0),
    "put": lambda t: np.put(t, [0], 1.0),
    "place": lambda t: np.place(t, np.array([True, False]), [1.0]),
    "putmask": lambda t: np.putmask(t, np.array([True, False]), [1.0]),
    "put_along_axis": lambda t: np.put_along_axis(t, np.array([0]), 1.0, 0),
    "fill_diagonal": lambda t: np.fill_diagonal(t.reshape(1, 2), 1.0),
    "at": lambda t: np.add.at(t, [0, 0], 1.0),
    "fill": lambda t: t.fill(1.0),
    "sort": lambda t: t.sort(),
    "partition": lambda t: t.partition(0),
    "increment_version": ag.graph.increment_version,
}


@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "no_grad"])
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_every_write_counts_once_whatever_grad_mode_says(write, recorded):
    x = leaf(2.0, 1.0) * 1
    with ag.set_grad_enabled(recorded):
        write(x)

    assert x._version == 1


def test_mark_dirty_counts_once_more():
    def forward(ctx: Any, x: Any) -> Any:
        x += 1
        ctx.mark_dirty(x)
        return x

    x = leaf(1.0) * 1
    function(forward).apply(x)

    assert x._version == 2


def test_a_write_through_an_ndarray_cannot_be_seen():
    array = np.array([1.0, 2.0])
    x = ag.asarray(array)
    array[0] = 5.0
    x.numpy()[1] = 6.0

    assert (x.tolist(), x._version) == ([5.0, 6.0], 0)


def test_increment_version_makes_a_write_through_an_ndarray_seen():
    x, w = leaf(1.0, 2.0), ag.tensor([3.0, 4.0])
    y = x * w
    w.numpy()[0] = 0.0
    ag.graph.increment_version([w, x.detach()])

    with refused(ChangedTensorError, RuntimeError, "MultiplyBackward", "version 1", "version 0"):
        sync.backward(y.sum())
    assert x._version == 1


def test_increment_version_takes_tensors_alone():
    with refused(TypeError, TypeError, "only a tensor has a version", "float64"):
        ag.graph.increment_version([ag.tensor(1.0), np.ones(1)])  # type: ignore[list-item]


def test_saves_at_different_versions_are_checked_each_by_its_own():
    x, w = leaf(1.0, 2.0), ag.tensor([3.0, 4.0])
    early = (x * w).sum()
    w += 1
    late = (x * w).sum()
    sync.backward(late)

    assert x.grad.tolist() == [4.0, 5.0]
    with pytest.raises(ChangedTensorError):
        sync.backward(early)


def test_a_gradient_that_was_handed_out_is_never_written_into():
    x = leaf(1.0, 2.0)
    sync.backward((x * 3).sum())
    handed = x.grad.numpy()
    sync.backward((x * 3).sum())

    assert (handed.tolist(), x.grad.tolist()) == ([3.0, 3.0], [6.0, 6.0])


def test_a_gradient_that_a_hook_or_grad_handed_out_is_never_written_into():
    kept: list[Any] = []

    def keep(*found: Any) -> None:
        kept.extend((grad.numpy(), grad.tolist()) for grad in found)

    x, w = leaf(1.0, 2.0, 3.0), leaf(2.0)
    y = x * 1
    y.register_hook(keep)
    x.register_hook(keep)
    y[1:] *= w
    y.register_hook(keep)
    y.grad_fn.register_prehook(lambda grads: keep(*grads))
    loss = (y * y).sum() + (y * 3).sum() + y[:2].sum()
    for _ in range(2):
        keep(*sync.grad(loss, [x, y], retain_graph=True))
        sync.backward(loss, retain_graph=True)
        keep(x.grad, w.grad)

    assert len(kept) > 12
    assert [array.tolist() for array, _ in kept] == [values for _, values in kept]


@pytest.mark.parametrize("replays", [True, False])
def test_the_gradients_of_a_write_do_not_share_memory_that_is_written_later(replays):
    x, w = leaf(1.0, 2.0, 3.0), leaf(1.0, 1.0)
    with ag.graph.replay_views(replays):
        y = x * 1
        y[1:] += w
        y[:2] *= 3
        for _ in range(2):
            given = np.ones(3)
            sync.backward(y, given, retain_graph=True)
            assert given.tolist() == [1.0, 1.0, 1.0]

    assert (x.grad.tolist(), w.grad.tolist()) == ([6.0, 6.0, 2.0], [6.0, 2.0])
