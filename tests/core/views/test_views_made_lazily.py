"""A view notes how it was made at once, and makes all else of that when it is first asked for."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import InPlaceError
from tests.support.leaves import leaf

each_way = pytest.mark.parametrize("replays", [False, True], ids=["strides", "replay"])


def test_a_view_made_between_two_writes_has_its_own_history_until_the_second():
    x = leaf(1.0, 2.0)
    y = x * 1
    y *= 2
    view = y[1:]
    first = view.grad_fn
    y *= 5

    second = view.grad_fn

    assert (first.name, second.name) == ("PartBackward", "AsStridedBackward")
    assert sync.grad(view.sum(), [x])[0].tolist() == [0.0, 10.0]


def test_asked_before_or_after_a_write_a_view_follows_it_alike():
    x = leaf(1.0, 2.0)
    y = x * 1
    asked, unasked = y[1:], y[1:]
    assert asked._base is y
    y *= 3

    gradients = [sync.grad(view.sum(), [x], retain_graph=True)[0].tolist() for view in (asked, unasked)]

    assert gradients == [[0.0, 3.0], [0.0, 3.0]]


@each_way
def test_a_view_of_a_view_that_was_written_into_is_one_of_the_base(replays):
    x = leaf(1.0, 2.0, 3.0)
    with ag.graph.replay_views(replays):
        y = x * 1
        view = y[1:]
        view *= 2
        last = view[1:]
        last *= 5

    (grad,) = sync.grad(y.sum(), [x])

    assert last._base is y
    assert grad.tolist() == [1.0, 2.0, 10.0]


def test_a_view_of_an_asked_view_inherits_what_is_forbidden_of_that():
    y = leaf(1.0, 2.0) * 1
    piece, _ = np.split(y, 2)
    assert piece._base is y
    part = piece[:]

    with pytest.raises(InPlaceError, match="by a function of several outputs"):
        part *= 2


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_view_keeps_its_base_alive_and_no_view_in_between(requires_grad, written):
    between: Any
    base = ag.tensor([1.0, 2.0, 3.0], requires_grad=requires_grad) * 1
    between = base[1:]
    last = between[1:]
    if written:
        last *= 2
        between *= 3
    root, middle = weakref.ref(base), weakref.ref(between)
    gc.disable()
    try:
        del base, between
        alive = root() is not None, middle() is not None
        kept = root() is last._base
        del last
        left = root()
    finally:
        gc.enable()

    assert (alive, kept, left) == ((True, False), True, None)


@each_way
def test_a_long_row_of_views_is_followed_and_let_go_without_recursion(replays):
    x = leaf(1.0, 2.0)
    y = x * 1
    view = y
    for _ in range(10_000):
        view = view[:]
    with ag.graph.replay_views(replays):
        view *= 3
        (grad,) = sync.grad(y.sum(), [x])
    del view

    assert grad.tolist() == [3.0, 3.0]


def test_a_result_of_reshape_that_is_a_copy_is_no_view():
    t = ag.tensor(np.arange(6.0).reshape(2, 3))

    assert (t.T.reshape(-1).is_view, t.reshape(-1).is_view) == (False, True)
