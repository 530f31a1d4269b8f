"""How a view was made forbids some writes, at once or when its history is asked for; and what the errors say."""

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


def made_under_no_grad(y: Any) -> Any:
    with ag.no_grad():
        return y[:1]


def made_by_split(y: Any) -> Any:
    return np.split(y, 2)[0]


def made_in_a_function(y: Any) -> Any:
    return function(lambda ctx, x: x[:1], lambda ctx, grad: np.concatenate([grad, grad * 0])).apply(y)


MAKERS = {
    made_under_no_grad: ["under no_grad", "It is unclear whether the write is to be recorded"],
    made_by_split: ["output 0 of SplitBackward", "function of several outputs", "view.copy()"],
    made_in_a_function: ["output 0 of MadeBackward", "forward of an ag.Function", "view.copy()"],
}
each_maker = pytest.mark.parametrize(("make", "parts"), MAKERS.items(), ids=[make.__name__ for make in MAKERS])


@each_maker
def test_a_write_into_a_view_made_in_a_forbidding_way_is_refused_at_once_and_changes_nothing(make, parts):
    y = leaf(1.0, 2.0) * 1
    view = make(y)

    with refused(InPlaceError, RuntimeError, "shape (1,)", "is being written into in place", *parts):
        view *= 2
    with refused(InPlaceError, RuntimeError, *parts):
        view[0] = 2.0
    assert (y.tolist(), y._version) == ([1.0, 2.0], 0)


@each_maker
def test_a_view_of_a_view_made_in_a_forbidding_way_may_not_be_written_into_either(make, parts):
    view = make(leaf(1.0, 2.0) * 1).reshape(1, 1)

    with refused(InPlaceError, RuntimeError, "is being written into in place", *parts[1:]):
        view *= 2


@each_maker
def test_a_write_into_the_base_is_refused_when_the_view_is_asked_for_its_history(make, parts):
    y = leaf(1.0, 2.0) * 1
    view = make(y)
    y *= 2

    for use in (lambda: view.grad_fn, lambda: view.is_leaf, lambda: view * 2, lambda: view.register_hook(print)):
        with refused(InPlaceError, RuntimeError, "its base, or another view of that", "since", *parts):
            use()
    assert view.requires_grad
    assert "grad_fn=<invalid>" in repr(view)
    with ag.no_grad():
        assert (view * 2).tolist() == [4.0]


@each_maker
def test_a_write_that_is_not_recorded_is_never_refused(make, parts):
    plain = ag.tensor([1.0, 2.0])
    view = make(plain)
    view *= 2
    assert plain.tolist() == [2.0, 2.0]

    y = leaf(1.0, 2.0) * 1
    view = make(y)
    with ag.no_grad():
        view *= 2
    assert y.tolist() == [2.0, 2.0]


def test_a_plain_output_of_several_may_not_be_given_a_history():
    first, _ = np.split(ag.tensor([1.0, 2.0]), 2)

    with refused(InPlaceError, RuntimeError, "function of several outputs"):
        first += leaf(1.0)


def test_what_iteration_and_unstack_give_may_be_written_into():
    x = leaf(1.0, 2.0)
    y = (x * 1).reshape(2, 1)
    rows = [*y]
    rows[0] *= 2
    rows[1] *= 3
    sync.backward(y.sum())

    assert x.grad.tolist() == [2.0, 3.0]


# Leaves, and what shares memory.


def test_a_leaf_that_requires_grad_is_not_written_into():
    with refused(InPlaceError, RuntimeError, "shape (2,)", "is a leaf that requires grad", "x = x.copy()", "no_grad"):
        leaf(1.0, 2.0)[0] = 5.0


def test_a_view_of_a_leaf_that_requires_grad_is_not_written_into_and_that_is_said_at_once():
    view = leaf(1.0, 2.0)[:1]

    with refused(InPlaceError, RuntimeError, "view of a leaf that requires grad, of shape (2,)", "x = x.copy()"):
        view += 1


def test_a_view_that_was_made_a_leaf_is_a_view_of_a_leaf():
    view = ag.tensor([1.0, 2.0])[:1].requires_grad_()

    assert view.is_leaf
    with refused(InPlaceError, RuntimeError, "view of a leaf"):
        view += 1


def test_how_a_view_was_made_is_complained_of_before_the_leaf():
    x = leaf(1.0, 2.0)
    with ag.no_grad():
        view = x[:1]

    with refused(InPlaceError, RuntimeError, "under no_grad"):
        view += 1


def test_elements_that_share_memory_are_not_written_into():
    array = np.lib.stride_tricks.as_strided(np.arange(3.0), (2, 2), (8, 8))
    shared = ag.asarray(array)

    for target in (shared, shared[0]):
        with refused(InPlaceError, RuntimeError, "share memory", "x = x.copy()"):
            np.copyto(target, leaf(1.0, 2.0))
    assert shared.tolist() == [[0.0, 1.0], [1.0, 2.0]]


def test_strides_that_only_look_as_if_they_overlapped_are_written_into():
    x = leaf(1.0, 2.0)
    array = np.lib.stride_tricks.as_strided(np.zeros(12), (2, 3), (8, 24))
    base = ag.asarray(array)
    base[:, 1] = x
    sync.backward((base * 2).sum())

    assert x.grad.tolist() == [2.0, 2.0]


def test_a_plain_array_takes_nothing_that_has_a_history():
    array = np.zeros(2)
    x = leaf(1.0, 2.0)

    for write in (lambda: np.add(x, 1, out=array), lambda: np.copyto(array, x), lambda: np.add.at(array, [0, 1], x)):
        with refused(InPlaceError, RuntimeError, "into an ndarray", "lose its history", "ag.asarray(array)"):
            write()
    assert array.tolist() == [0.0, 0.0]
    np.add(x.detach(), 1, out=array)
    assert array.tolist() == [2.0, 3.0]
