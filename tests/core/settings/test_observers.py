"""Observers of whatever kind are put and taken in one way: for a context, or for the whole process."""

from __future__ import annotations

import contextvars

import pytest

from asyncgrad.core.settings.observers import Observers


def test_an_observer_of_a_context_is_found_there_alone():
    observers: Observers[str] = Observers("a_test")
    context = contextvars.copy_context()

    context.run(observers.put, "a", False)

    assert (context.run(observers.found), observers.found()) == (("a",), ())


def test_an_observer_of_the_process_is_found_in_each_context_before_its_own():
    observers: Observers[str] = Observers("a_test")
    context = contextvars.copy_context()
    context.run(observers.put, "a", False)

    observers.put("b", True)

    assert (context.run(observers.found), observers.found()) == (("b", "a"), ("b",))


@pytest.mark.parametrize("whole_process", [False, True])
def test_an_observer_is_taken_by_identity(whole_process: bool):
    observers: Observers[list[int]] = Observers("a_test")
    one, other = [1], [1]

    def run() -> bool:
        observers.put(one, whole_process)
        observers.put(other, whole_process)
        observers.take(other, whole_process)
        (left,) = observers.found()
        return left is one

    assert contextvars.copy_context().run(run)
