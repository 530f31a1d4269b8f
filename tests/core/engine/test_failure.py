"""A backward that fails raises the first error as it is, and leaves every gradient as it was."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.extend import derivative, primitive
from tests.core.engine.states import state_of
from tests.support.failing import Trouble, raising, raising_later
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf
from tests.support.settings import loop_budget
from tests.support.threads import PATIENCE
from tests.support.turns import Held, settle


def failing_graph(fail: Callable[[ag.Tensor], ag.Tensor]) -> tuple[ag.Tensor, list[ag.Tensor]]:
    """A graph whose leaves have their gradients before the failing node, the oldest one, runs."""
    fresh, used, assigned, last = leaf(1.0), leaf(2.0), leaf(3.0), leaf(4.0)
    sync.backward(np.multiply(used, 7.0))
    sync.backward(np.multiply(used, 8.0))
    assigned.grad = ag.tensor([-0.0])
    failing = fail(last)
    kept = np.multiply(fresh, 2.0)
    kept.retain_grad()
    kept_before = np.multiply(used, 2.0)
    kept_before.retain_grad()
    sync.backward(kept_before)
    out = np.add(np.multiply(kept, used), np.multiply(kept_before, assigned))
    return np.add(np.multiply(out, 3.0), failing), [fresh, used, assigned, last, kept, kept_before]


FAILURES: dict[str, Callable[[BaseException], Callable[[ag.Tensor], Any]]] = {
    "body": lambda error: lambda x: calling(x, raising(error)),
    "async body": lambda error: lambda x: awaiting(x, raising_later(error, 1)),
    "async body that never suspends": lambda error: lambda x: awaiting(x, async_raising(error)),
    "tensor hook": lambda error: lambda x: with_tensor_hook(x, raising(error)),
    "async tensor hook": lambda error: lambda x: with_tensor_hook(x, raising_later(error, 1)),
    "post-accumulate hook": lambda error: lambda x: with_post_accumulate_hook(x, raising(error)),
    "async post-accumulate hook": lambda error: lambda x: with_post_accumulate_hook(x, raising_later(error, 1)),
}


def async_raising(error: BaseException) -> Callable[[Any], Any]:
    async def callback(grad):
        raise error

    return callback


def with_tensor_hook(x: ag.Tensor, hook: Any) -> Any:
    made = calling(x, lambda grad: None)
    made.register_hook(hook)
    return made


def with_post_accumulate_hook(x: ag.Tensor, hook: Any) -> Any:
    x.register_post_accumulate_grad_hook(hook)
    return calling(x, lambda grad: None)


@pytest.mark.parametrize("failure", FAILURES)
async def test_the_error_is_raised_as_it_is_and_every_gradient_is_as_it_was(failure):
    error = Trouble("first")
    out, tensors = failing_graph(FAILURES[failure](error))
    before = state_of(*tensors)

    with pytest.raises(Trouble) as caught:
        await ag.backward(out)

    assert caught.value is error
    assert error.__cause__ is None
    assert error.__context__ is None
    assert state_of(*tensors) == before


@pytest.mark.parametrize("failure", FAILURES)
def test_a_blocking_backward_that_fails_raises_the_error_as_it_is_and_leaves_every_gradient(failure):
    error = Trouble("first")
    out, tensors = failing_graph(FAILURES[failure](error))
    before = state_of(*tensors)

    with pytest.raises(Trouble) as caught:
        sync.backward(out)

    assert caught.value is error
    assert state_of(*tensors) == before


@pytest.mark.parametrize("failure", FAILURES)
async def test_the_failing_graph_would_otherwise_have_changed_every_gradient(failure):
    """Holds the tests above to account: without the failure, all that they look at changes."""
    out, tensors = failing_graph(lambda x: calling(x, lambda grad: None))
    before = state_of(*tensors)

    await ag.backward(out)

    assert all(now != then for now, then in zip(state_of(*tensors), before, strict=True))


@pytest.mark.parametrize("failure", ["body", "async body"])
async def test_a_note_names_the_node_its_number_and_its_device(failure):
    error = Trouble("first")
    failing = FAILURES[failure](error)(leaf(1.0))

    with pytest.raises(Trouble):
        await ag.backward(np.multiply(failing, 2.0))

    node = failing.grad_fn
    assert error.__notes__ == [f"in {node.name} (node #{node.sequence_nr}, device 'cpu')"]


async def test_a_failing_formula_is_named_on_the_fast_path():
    @primitive()
    def doubled(x):
        return 2 * x

    error = Trouble("formula")
    derivative(doubled, "x")(raising(error))
    x = leaf(1.0)
    out = doubled(x)

    with pytest.raises(Trouble):
        await ag.backward(np.multiply(out, 2.0))

    assert error.__notes__ == [f"in DoubledBackward (node #{out.grad_fn.sequence_nr}, device 'cpu')"]
    assert x.grad is None


async def test_a_backward_inside_a_backward_adds_a_note_for_each_node_on_the_way_out():
    error = Trouble("inner")
    nodes = []

    async def nested(grad):
        with ag.enable_grad():
            inner = calling(leaf(1.0), raising(error))
        nodes.append(inner.grad_fn)
        await ag.backward(inner)

    outer = awaiting(leaf(1.0), nested)

    with pytest.raises(Trouble):
        await ag.backward(outer)
    nodes.append(outer.grad_fn)

    places = [f"in {node.name} (node #{node.sequence_nr}, device 'cpu')" for node in nodes]
    assert error.__notes__ == places


async def test_what_a_body_catches_is_no_failure():
    async def careful(grad):
        with ag.enable_grad():
            inner = calling(leaf(1.0), raising(Trouble("inner")))
        with pytest.raises(Trouble):
            await ag.backward(inner)

    x = leaf(1.0)

    await ag.backward(awaiting(x, careful))

    assert x.grad.item() == 1.0


async def test_the_first_error_is_raised_and_later_ones_are_notes_of_it():
    first, second = Trouble("first"), Trouble("second")
    held = Held()

    async def fails_when_cancelled(grad):
        try:
            await held(grad)
        except asyncio.CancelledError:
            raise second from None

    async def fails_first(grad):
        await held.begun.wait()
        raise first

    out = np.add(awaiting(leaf(1.0), fails_first), awaiting(leaf(1.0), fails_when_cancelled))

    with pytest.raises(Trouble) as caught:
        await ag.backward(out)

    assert caught.value is first
    assert any("AwaitingBackward raised Trouble: second" in note for note in first.__notes__)


async def test_when_one_body_fails_the_others_are_cancelled_and_awaited():
    helds = [Held() for _ in range(3)]
    cleaned: list[int] = []

    async def cleans_up(grad, number):
        try:
            await helds[number](grad)
        finally:
            for _ in range(number + 1):
                await asyncio.sleep(0)
            cleaned.append(number)

    async def fails(grad):
        await helds[0].begun.wait()
        raise Trouble("now")

    out = awaiting(leaf(1.0), fails)
    for number in range(3):
        out = np.add(out, awaiting(leaf(1.0), lambda grad, number=number: cleans_up(grad, number)))

    with pytest.raises(Trouble):
        await ag.backward(out)

    assert sorted(cleaned) == [0, 1, 2]
    assert all(held.cancelled for held in helds)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_nodes_that_are_ready_do_not_run_after_a_failure():
    ran: list[str] = []
    older = calling(leaf(1.0), lambda grad: ran.append("older"))
    failing = calling(leaf(1.0), raising(Trouble("stop")))

    with pytest.raises(Trouble):
        await ag.backward(np.add(failing, older))

    assert ran == []


async def test_a_graph_of_which_nothing_was_released_runs_again_after_a_failure():
    fails = [True]

    def sometimes(grad):
        if fails.pop():
            raise Trouble("once")

    x, y = leaf(2.0), leaf(3.0)
    out = np.add(np.multiply(x, 5.0), calling(y, sometimes))

    with pytest.raises(Trouble):
        await ag.backward(out, retain_graph=True)
    assert (x.grad, y.grad) == (None, None)
    fails.append(False)
    await ag.backward(out)

    assert (x.grad.item(), y.grad.item()) == (5.0, 1.0)


async def test_grad_that_fails_touches_nothing_and_can_be_repeated():
    x = leaf(2.0)
    fails = [False, True]

    def sometimes(grad):
        if fails.pop():
            raise Trouble("once")

    out = np.multiply(calling(x, sometimes), 3.0)

    with pytest.raises(Trouble):
        await ag.grad(out, x)
    (found,) = await ag.grad(out, x)

    assert found.item() == 3.0


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()], ids=repr)
def test_what_is_no_exception_puts_gradients_back_in_a_blocking_backward_too(error):
    out, tensors = failing_graph(lambda x: calling(x, raising(error)))
    before = state_of(*tensors)

    with pytest.raises(type(error)) as caught:
        sync.backward(out)

    assert caught.value is error
    assert state_of(*tensors) == before


@pytest.mark.parametrize("outer_too", [False, True], ids=["nested only", "outer too"])
async def test_a_nested_backward_is_taken_back_when_the_outer_one_fails(outer_too):
    """A backward happens or it does not: what a body accumulated by a backward of its own is part of it."""
    w, v, x = leaf(2.0), leaf(5.0), leaf(1.0)
    w.grad = assigned = ag.tensor([10.0])
    nested_ran: list[float] = []

    async def nested(grad):
        with ag.enable_grad():
            inner = np.multiply(np.multiply(w, 3.0), v)
        await ag.backward(inner)
        nested_ran.append(v.grad.item())

    out = np.add(calling(x, raising(Trouble("late"))), awaiting(leaf(1.0), nested))
    if outer_too:
        out = np.add(np.add(out, w), v)

    # With a budget that no machine uses up, the nested backward ends before the other body fails.
    with loop_budget(PATIENCE), pytest.raises(Trouble):
        await ag.backward(out)

    assert nested_ran == [7.0 if outer_too else 6.0]
    assert w.grad is assigned
    assert w.grad.item() == 10.0
    assert v.grad is None


async def test_errors_of_bodies_that_ended_together_are_all_accounted_for():
    """Two bodies fail in the same turn of the loop: one error is raised, the other is a note, none is lost."""

    gate = asyncio.Event()

    async def fail(grad, text):
        await gate.wait()
        raise Trouble(text)

    out = np.add(
        awaiting(leaf(1.0), lambda grad: fail(grad, "one")), awaiting(leaf(1.0), lambda grad: fail(grad, "two"))
    )
    backward = asyncio.ensure_future(ag.backward(out))
    await settle()
    gate.set()
    with pytest.raises(Trouble) as caught:
        await backward
    texts = {str(caught.value)} | {note.rpartition(": ")[2] for note in caught.value.__notes__}
    assert {"one", "two"} <= texts
