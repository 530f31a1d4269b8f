"""What a backward raises: the first error, as it is, with notes of where it was and of what came after it."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.extend import derivative, primitive
from tests.core.engine.failing_graph import FailingGraph
from tests.support.failing import Peculiar, Trouble, raising, raising_later
from tests.support.functions import awaiting, calling
from tests.support.graphs import name_in_note
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop
from tests.support.turns import Held, settle


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    """Refuses to have anything set on it, notes included."""

    code: int


class Wordless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


# What is raised.

ERRORS: dict[str, Callable[[], BaseException]] = {
    "an error of one's own": lambda: Trouble("plain"),
    "one that takes no note": lambda: Frozen(3),
    "one that cannot be printed": Wordless,
    "no Exception": Peculiar,
    "GeneratorExit": lambda: GeneratorExit("a body's own"),
    "CancelledError": asyncio.CancelledError,
    "CancelledError with a message": lambda: asyncio.CancelledError("one"),
    "CancelledError with more": lambda: asyncio.CancelledError("one", 2, "three"),
    "TimeoutError": lambda: TimeoutError("a body's own"),
    "StopAsyncIteration": lambda: StopAsyncIteration(1),
    "a group": lambda: ExceptionGroup("several", [ValueError("a"), TypeError("b")]),
    "a group of what is no Exception": lambda: BaseExceptionGroup("several", [Peculiar(), KeyboardInterrupt()]),
    "InvalidStateError": lambda: asyncio.InvalidStateError("a body's own"),
    "AttributeError": lambda: AttributeError("a body's own"),
    "MemoryError": MemoryError,
}
each_error = pytest.mark.parametrize("made", ERRORS.values(), ids=ERRORS)


@each_error
@pytest.mark.parametrize("turns", [0, 1, 3])
async def test_any_error_of_a_body_comes_out_as_the_same_object_and_undoes_the_backward(made, turns):
    error, helds = made(), [Held(), Held()]
    scene = FailingGraph(lambda x: awaiting(x, raising_later(error, turns)))
    out = scene.out
    for held in helds:
        out = np.add(out, awaiting(leaf(1.0), held))
    with pytest.raises(type(error)) as caught:
        await ag.backward(out)
    assert caught.value is error
    assert getattr(error, "__notes__", []) == ([] if isinstance(error, Frozen) else [name_in_note(scene.bad)])
    assert (error.__cause__, error.__context__) == (None, None)
    assert scene.has_not_happened()
    assert all(held.cancelled for held in helds)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@each_error
@pytest.mark.parametrize("kind", ["a function", "an async def", "a hook", "an async hook", "a post-accumulate hook"])
def test_any_error_comes_out_of_a_blocking_backward_as_well(made, kind):
    def bad(x: ag.Tensor) -> Any:
        if kind == "a function":
            return calling(x, raising(error))
        if kind == "an async def":
            return awaiting(x, raising_later(error))
        if kind == "a post-accumulate hook":
            x.register_post_accumulate_grad_hook(raising(error))
            return calling(x, lambda grad: None)
        hooked = calling(x, lambda grad: None)
        hooked.register_hook(raising(error) if kind == "a hook" else raising_later(error))
        return hooked

    error = made()
    scene = FailingGraph(bad)

    with pytest.raises(type(error)) as caught:
        sync.backward(scene.out)

    assert caught.value is error
    assert scene.has_not_happened()


@on_each_loop
@pytest.mark.parametrize("blocking", [False, True], ids=["awaited", "blocking"])
@pytest.mark.parametrize("body", ["a function", "an async def", "a formula"])
def test_a_stop_iteration_is_the_cause_of_a_runtime_error_as_in_every_coroutine(run, body, blocking):
    error = StopIteration(5)

    @primitive()
    def doubled(x):
        return 2 * x

    derivative(doubled, "x")(raising(error))
    made = {
        "a function": lambda x: calling(x, raising(error)),
        "an async def": lambda x: awaiting(x, raising_later(error)),
        "a formula": doubled,
    }
    scene = FailingGraph(made[body])

    with pytest.raises(RuntimeError, match="raised StopIteration") as caught:
        sync.backward(scene.out) if blocking else run(ag.backward(scene.out))

    assert caught.value.__cause__ is error
    notes = [*getattr(caught.value, "__notes__", []), *getattr(error, "__notes__", [])]
    assert notes == [name_in_note(scene.bad)]
    assert scene.has_not_happened()


# Several errors.


async def test_of_bodies_that_fail_at_once_the_first_is_raised_and_each_other_is_one_note_of_it():
    gate, order = asyncio.Event(), []

    async def fails(grad, name):
        await gate.wait()
        order.append(name)
        raise Trouble(name)

    bodies = [awaiting(leaf(1.0), lambda grad, name=name: fails(grad, name)) for name in "abcd"]
    backward = asyncio.ensure_future(ag.backward(bodies, [np.ones(1)] * 4))
    await settle()
    gate.set()
    with pytest.raises(Trouble) as caught:
        await backward
    assert str(caught.value) == order[0]
    where, *later = caught.value.__notes__
    assert where == name_in_note(bodies["abcd".index(order[0])])
    for note, name in zip(later, order[1:], strict=True):
        node = bodies["abcd".index(name)].grad_fn
        assert f"node #{node.sequence_nr}, device 'cpu'" in note
        assert note.endswith(f"{node.name} raised Trouble: {name}")


@each_error
async def test_a_body_that_raises_another_error_while_it_is_cancelled_adds_a_note_and_no_more(made):
    first, later = Trouble("first"), made()
    held = Held()

    async def turns_bad(grad):
        try:
            await held(grad)
        except asyncio.CancelledError:
            raise later from None

    async def fails(grad):
        await held.begun.wait()
        raise first

    bad, other = awaiting(leaf(1.0), fails), awaiting(leaf(1.0), turns_bad)
    with pytest.raises(Trouble) as caught:
        await ag.backward(np.add(bad, other))
    assert caught.value is first
    where, *others = first.__notes__
    assert where == name_in_note(bad)
    if isinstance(later, asyncio.CancelledError):
        assert others == []
    else:
        (note,) = others
        assert f"node #{other.grad_fn.sequence_nr}" in note
        assert type(later).__name__ in note
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_the_same_error_raised_by_several_bodies_is_no_note_of_itself():
    error = Trouble("one")
    bodies = [awaiting(leaf(1.0), raising_later(error, 1)) for _ in range(3)]

    with pytest.raises(Trouble) as caught:
        await ag.backward(bodies, [np.ones(1)] * 3)

    assert caught.value is error
    assert len(error.__notes__) == 1


async def test_a_body_that_ends_well_although_it_was_cancelled_hands_nothing_on():
    held, x = Held(), leaf(1.0)

    async def swallows(grad):
        try:
            await held(grad)
        except asyncio.CancelledError:
            await asyncio.sleep(0)

    async def fails(grad):
        await held.begun.wait()
        raise Trouble

    ran = []
    out = np.add(awaiting(leaf(1.0), fails), awaiting(calling(x, ran.append), swallows))
    with pytest.raises(Trouble) as caught:
        await ag.backward(out)
    assert len(caught.value.__notes__) == 1
    assert ran == []
    assert x.grad is None


async def test_an_error_inside_of_nested_backwards_collects_its_places_from_the_inside_out():
    error, w = Trouble("deep"), leaf(2.0)
    made: list[ag.Tensor] = []

    async def nest(grad, depth=0):
        with ag.enable_grad():
            inner = awaiting(w, raising_later(error, 1) if depth == 2 else lambda grad: nest(grad, depth + 1))
            made.append(inner)
            out = np.add(np.multiply(w, 3.0), inner)
        await ag.backward(out)

    outer = awaiting(w, nest)

    with pytest.raises(Trouble):
        await ag.backward(np.add(outer, w))

    assert error.__notes__ == [name_in_note(tensor) for tensor in [*made[::-1], outer]]
    assert w.grad is None
