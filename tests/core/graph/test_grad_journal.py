"""Changes of a gradient can be taken back one by one, in any order, and leave the bits of a run without them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncgrad as ag
from asyncgrad.core.graph.grad_journal import FirstGrads, GradChange, change_grad, commit_all
from tests.support.arrays import address
from tests.support.leaves import leaf
from tests.support.sampling import cases

#: Numbers whose sums depend on the order.
ROUGH = st.sampled_from([0.1, 0.7, 1e16, -1e16, 3.3, -0.1, 1e-9])


class GradientModel:
    """A gradient as a list: what it started from, and what has been added and not taken back."""

    def __init__(self) -> None:
        self.base: float | None = None
        self.added: list[tuple[GradChange | None, float]] = []

    def value(self) -> float | None:
        numbers = [value for _, value in self.added]
        if self.base is not None:
            numbers.insert(0, self.base)
        return functools.reduce(lambda total, value: total + value, numbers) if numbers else None

    def remove(self, change: GradChange) -> None:
        self.added = [(kept, value) for kept, value in self.added if kept is not change]

    def set(self, value: float | None) -> None:
        self.base, self.added = value, []


def value_of(tensor: ag.Tensor) -> float | None:
    return None if tensor.grad is None else tensor.grad.item()


@given(st.data())
@settings(max_examples=cases(200))
def test_any_interleaving_leaves_what_was_not_taken_back(data):
    x, model = leaf(1.0), GradientModel()
    retained = data.draw(st.booleans())
    started: list[GradChange] = []
    if data.draw(st.booleans()):
        x.grad = ag.tensor([0.3])
        model.set(0.3)
    for _ in range(data.draw(st.integers(1, 14))):
        action = data.draw(st.sampled_from(["add", "add", "add", "settle", "take back", "take back", "set", "at once"]))
        if action in ("add", "at once"):
            value = data.draw(ROUGH)
            sole = data.draw(st.booleans())
            change = change_grad(x, np.array([value]), [], sole=sole, listed=action == "add", retained=retained)
            model.added.append((change, value))
            if action == "add":
                started.append(change)
            else:
                change.commit()
        elif action == "set":
            new = data.draw(st.sampled_from([None, 5.5]))
            x.grad = None if new is None else ag.tensor([new])
            model.set(new)
        elif started:
            change = started.pop(data.draw(st.integers(0, len(started) - 1)))
            if action == "settle":
                change.commit()
            else:
                change.roll_back()
                model.remove(change)
        assert value_of(x) == model.value()
    for change in started:
        change.commit()

    assert value_of(x) == model.value()
    assert x._meta.changes == []


@given(st.lists(ROUGH, min_size=2, max_size=6), st.data())
def test_a_change_that_became_part_of_another_is_taken_back_with_it(values, data):
    x = leaf(1.0)
    x.grad = before = ag.tensor([0.3])
    outer, *inner = [change_grad(x, np.array([value]), [], sole=True, listed=True) for value in values]
    merged = [change.merge_into(outer) for change in inner]
    later = change_grad(x, np.array([2.5]), [], sole=True, listed=True)

    outer.roll_back()

    assert all(merged)
    assert x.grad is before
    assert x.grad.item() == 0.3 + 2.5
    later.commit()
    assert x._meta.changes == []


def test_a_change_with_another_in_between_stays_by_itself():
    x = leaf(1.0)
    outer, other, inner = [change_grad(x, np.array([value]), [], sole=True, listed=True) for value in (1.0, 2.0, 4.0)]

    assert not inner.merge_into(outer)
    outer.roll_back()
    assert x.grad.item() == 6.0
    inner.roll_back()
    assert x.grad.item() == 2.0
    other.commit()


def test_taking_back_gives_the_same_object_the_same_array_and_the_same_version():
    x = leaf(1.0)
    x.grad = before = ag.tensor([0.3])
    array, version = before._data, before._version

    for listed in (False, True):
        change = change_grad(x, np.array([1.0]), [], sole=False, listed=listed)
        assert before._version == version + 1
        change.roll_back()

        assert x.grad is before
        assert before._data is array
        assert before._version == version


def test_an_array_that_may_have_to_be_added_again_is_not_written_into():
    x = leaf(1.0)
    first = change_grad(x, np.array([1.0]), [], sole=True, listed=True)
    second_array = np.array([2.0])
    second = change_grad(x, second_array, [], sole=True, listed=True)
    change_grad(x, np.array([4.0]), [], sole=True, listed=True).commit()

    assert second_array.tolist() == [2.0]
    first.roll_back()
    assert x.grad.item() == 6.0
    second.commit()


def test_whoever_holds_the_gradient_object_sees_an_earlier_change_taken_back():
    x = leaf(1.0)
    first = change_grad(x, np.array([1.0]), [], sole=True, listed=True)
    held = x.grad
    second = change_grad(x, np.array([2.0]), [], sole=True, listed=True)

    first.roll_back()

    assert x.grad is held
    assert held.item() == 2.0
    second.commit()


def test_recorded_gradients_are_taken_back_with_their_history():
    x = leaf(2.0)
    first = change_grad(x, np.multiply(x, 3.0), [], sole=False, listed=True)
    second = change_grad(x, np.multiply(x, 5.0), [], sole=False, listed=True)
    total: Any = x.grad
    assert total.item() == 16.0

    with ag.no_grad():
        first.roll_back()

    assert x.grad.item() == 10.0
    assert x.grad.requires_grad
    second.commit()
    x.grad = None


def test_first_gradients_are_taken_away_again_together():
    leaves = [leaf(1.0), leaf(2.0), leaf(3.0)]
    first = FirstGrads()
    given = [first.give(x, np.array([4.0]), index == 1) for index, x in enumerate(leaves)]
    assert given == [True, True, True]
    assert [value_of(x) for x in leaves] == [4.0, 4.0, 4.0]

    first.roll_back()

    assert [x.grad for x in leaves] == [None, None, None]


def test_first_gradients_that_are_settled_stay():
    x, changes = leaf(1.0), [FirstGrads()]
    assert changes[0].give(x, np.array([4.0]), True)

    commit_all(changes)
    changes[0].roll_back()

    assert value_of(x) == 4.0


def test_a_leaf_that_another_backward_has_changed_meanwhile_gets_no_first_gradient():
    x, y = leaf(1.0), leaf(1.0)
    x.grad = ag.tensor([0.5])
    change_grad(y, np.array([2.0]), [], sole=True, listed=True)
    y.grad = None

    first = FirstGrads()
    assert not first.give(x, np.array([4.0]), True)
    assert not first.give(y, np.array([4.0]), True)
    first.roll_back()

    assert value_of(x) == 0.5
    assert y.grad is None


def test_only_an_array_that_nobody_else_holds_becomes_a_first_gradient():
    x, y = leaf(1.0), leaf(1.0)
    array = np.array([4.0])
    first = FirstGrads()

    assert first.give(x, array, False)
    assert first.give(y, array, True)

    assert address(x.grad) != address(array)
    assert address(y.grad) == address(array)
