"""Errors from hooks, from a release, from array types of the user's own: each fails the backward as a body's does."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.extend import derivative, primitive
from tests.core.engine.failing_graph import FailingGraph
from tests.core.engine.states import state_of
from tests.support.failing import Peculiar, Trouble, raising, raising_later
from tests.support.functions import awaiting, calling
from tests.support.graphs import name_in_note
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop


class Explosive(np.ndarray):
    """An array type of the user's own that cannot be added."""

    error: BaseException = Trouble()

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        raise self.error


def explosive(error: BaseException) -> np.ndarray:
    array = np.ones(1).view(Explosive)
    array.error = error
    return array


@primitive()
def loaded(x):
    return x * 1.0


def sum_with_itself(x: ag.Tensor) -> Any:
    return np.add(loaded(x), loaded(x))


ADDED = {
    "in the fast path": sum_with_itself,
    "in the slow path": lambda x: calling(sum_with_itself(x), lambda grad: None),
    "at a node of several inputs": lambda x: sum_with_itself(np.split(np.multiply(x, [1.0, 1.0]), 2)[0]),
    "while a body waits": lambda x: np.add(
        sum_with_itself(x), awaiting(leaf(1.0), lambda grad: asyncio.Event().wait())
    ),
}


@pytest.mark.parametrize("kind", [Trouble, KeyboardInterrupt, SystemExit, AttributeError, MemoryError, Peculiar])
@pytest.mark.parametrize("where", ADDED)
async def test_an_array_type_that_raises_when_it_is_summed_fails_the_backward_with_its_error(where, kind):
    error = kind("cannot be added")
    derivative(loaded, "x")(lambda grad: explosive(error))
    scene = FailingGraph(lambda x: ADDED[where](np.multiply(x, 1.0)))

    with pytest.raises(kind) as caught:
        await ag.backward(scene.out)

    assert caught.value is error
    assert error.__notes__[0].startswith("in LoadedBackward (node #")
    assert scene.has_not_happened()


@on_each_loop
@pytest.mark.parametrize("kind", [Trouble, KeyboardInterrupt, AttributeError])
@pytest.mark.parametrize("counted", [False, True], ids=["plain", "counted"])
def test_an_array_type_that_raises_when_a_leaf_adds_it_leaves_the_leaf_as_it_was(run, counted, kind):
    error = kind("cannot be added")
    derivative(loaded, "x")(lambda grad: explosive(error))
    x, y = leaf(1.0), leaf(1.0)
    for each in (x, y):
        sync.backward(np.multiply(each, 7.0))
    before = state_of(x, y)
    out = np.add(loaded(x), np.multiply(y, 2.0))

    with pytest.raises(kind) as caught:
        run(ag.backward(calling(out, lambda grad: None) if counted else out))

    assert caught.value is error
    assert state_of(x, y) == before


def wrong_shape(x: ag.Tensor, error: BaseException) -> Any:
    return calling(x, lambda grad: np.ones(()))


def in_a_post_hook(x: ag.Tensor, error: BaseException) -> Any:
    made = calling(x, lambda grad: None)
    made.grad_fn.register_hook(raising(error))
    return made


def in_a_prehook(x: ag.Tensor, error: BaseException) -> Any:
    made = calling(x, lambda grad: None)
    made.grad_fn.register_prehook(raising_later(error, 1))
    return made


def in_the_release(x: ag.Tensor, error: BaseException) -> Any:
    class Unwilling(ag.graph.Node):
        def apply(self, grads):
            return grads

        def release_variables(self) -> None:
            raise error

    return through(x, Unwilling)


def before_the_release(x: ag.Tensor, error: BaseException) -> Any:
    class Unready(ag.graph.Node):
        def apply(self, grads):
            return grads

        def will_release_variables(self) -> None:
            raise error

    return through(x, Unready)


def through(x: ag.Tensor, kind: type[ag.graph.Node]) -> Any:
    """A copy of x whose grad_fn is a node of that kind."""
    edge = ag.graph.get_gradient_edge(x)
    node = kind([ag.graph.Edge(*edge)], [edge.node.input_metadata[0]])
    made = ag.tensor(x.numpy())
    ag.graph.set_gradient_edge(made, ag.graph.GradientEdge(node, 0))
    return made


PLACES = [wrong_shape, in_a_post_hook, in_a_prehook, in_the_release, before_the_release]


@on_each_loop
@pytest.mark.parametrize("bad", PLACES, ids=lambda bad: bad.__name__)
@pytest.mark.parametrize("blocking", [False, True], ids=["awaited", "blocking"])
def test_wherever_in_a_node_the_error_is_the_note_names_that_node(run, bad, blocking):
    error = Trouble("there")
    scene = FailingGraph(lambda x: bad(x, error))

    with pytest.raises((Trouble, ag.errors.InvalidGradientError)) as caught:
        sync.backward(scene.out) if blocking else run(ag.backward(scene.out))

    assert caught.value is error or bad is wrong_shape
    assert caught.value.__notes__ == [name_in_note(scene.bad)]
    assert scene.has_not_happened()


async def test_what_a_failed_backward_had_captured_is_gone():
    tasks: list[Any] = []
    x = leaf(2.0)
    bad = calling(x, raising(Trouble("late")))
    kept = calling(np.multiply(leaf(1.0), 2.0), lambda grad: None)
    kept.register_hook(lambda grad: tasks.append(ag.engine.current_graph_task()))

    with pytest.raises(Trouble):
        await ag.grad(np.add(bad, kept), [kept, x])

    assert tasks[0].captured_grads == [None, None]
    assert tasks[0].has_error
