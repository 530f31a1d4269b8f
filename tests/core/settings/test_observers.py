"""Observers of whatever kind are put and taken in one way: for a context, or for the whole process."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.core.settings.observers import CREATION_HOOKS, NEW_NODES, Observers
from asyncgrad.graph import Node
from asyncgrad.observing.profile.recording import Recorder


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


@pytest.mark.parametrize("whole_process", [False, True])
def test_each_put_is_ended_by_one_take_in_whatever_context(whole_process: bool):
    observers: Observers[str] = Observers("a_test")
    elsewhere = contextvars.copy_context()
    elsewhere.run(observers.put, "a", whole_process)
    elsewhere.run(observers.put, "a", whole_process)
    were_put = []

    for _ in range(3):
        were_put.append(observers.are_put())
        observers.take("a", whole_process)

    assert (were_put, observers.are_put(), observers.of_process) == ([True, True, False], False, ())


def test_each_change_is_told_in_the_context_that_has_it():
    observers: Observers[str] = Observers("a_test")
    seen: list[tuple[bool, tuple[str, ...]]] = []
    observers.when_changed(lambda whole_process: seen.append((whole_process, observers.found())))

    def run() -> None:
        observers.put("a", False)
        observers.put("b", True)
        observers.replace(("c",))
        observers.take("b", True)

    contextvars.copy_context().run(run)

    assert seen == [(False, ("a",)), (True, ("b", "a")), (False, ("b", "c")), (True, ("c",))]


# New nodes, whose observers stand in the place of grad mode.


@contextmanager
def seen_by_a_process_hook() -> Iterator[list[str]]:
    names: list[str] = []

    def hook(node: Node) -> None:
        names.append(node.name)

    CREATION_HOOKS.put(hook, True)
    try:
        yield names
    finally:
        CREATION_HOOKS.take(hook, True)


def write_into_a_view() -> None:
    y = ag.tensor([1.0, 2.0], requires_grad=True) * 1
    y[:1] *= 3


def multiply() -> None:
    _ = ag.tensor([1.0], requires_grad=True) * 2


def multiply_under_a_profile() -> None:
    with ag.profile():
        multiply()


def call_a_function() -> None:
    class Double(ag.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad

    Double.apply(ag.tensor([1.0], requires_grad=True))


@pytest.mark.parametrize("program", [multiply, write_into_a_view, multiply_under_a_profile, call_a_function])
def test_a_creation_hook_of_the_process_sees_what_one_of_the_context_sees(program: Callable[[], None]):
    own: list[str] = []
    with ag.graph.node_creation_hook(lambda node: own.append(node.name)):
        program()

    with seen_by_a_process_hook() as names:
        program()

    assert names == own


def test_a_creation_hook_of_the_process_is_called_once_and_before_that_of_the_context():
    events: list[str] = []
    with seen_by_a_process_hook() as names, ag.graph.node_creation_hook(lambda node: events.append(str(len(names)))):
        multiply()
        write_into_a_view()
    multiply()

    assert events == [str(number) for number in range(1, len(names) + 1)]


def test_a_creation_hook_of_the_process_that_makes_a_node_is_refused():
    x = ag.tensor([1.0], requires_grad=True)

    def hook(node: Node) -> None:
        np.negative(x)

    CREATION_HOOKS.put(hook, True)
    try:
        with pytest.raises(ag.errors.GraphError, match="a node creation hook made a node itself"):
            _ = x * 2
    finally:
        CREATION_HOOKS.take(hook, True)
    y = x * 2

    assert y.requires_grad


def test_a_recorder_of_the_process_sees_the_nodes_beside_one_of_the_context():
    recorders = [Recorder(lambda: 0.0), Recorder(lambda: 0.0)]
    for recorder, whole_process in zip(recorders, (True, False), strict=True):
        recorder.open()
        NEW_NODES.put(recorder, whole_process)
    multiply()
    for recorder, whole_process in zip(recorders, (True, False), strict=True):
        NEW_NODES.take(recorder, whole_process)
    multiply()

    assert [len(one.calls) for one in recorders] == [1, 1]
