"""Delayed warnings of backward passes that fail or are nested, warnings outside of one, and Python's own."""

from __future__ import annotations

import asyncio
import functools
import warnings
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.engine import queue_callback, warn
from tests.core.engine.warned import Loud, line, shown, warning
from tests.support.failing import Trouble
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf
from tests.support.turns import Held

# Failure and cancellation.


async def test_the_warnings_of_a_backward_that_failed_are_shown(caught):
    def fail(grad):
        warn("before the failure")
        raise Trouble

    with pytest.raises(Trouble):
        await ag.backward(calling(leaf(1.0), fail))

    assert shown(caught) == [("before the failure", UserWarning)]
    assert caught[0].filename == __file__


async def test_where_a_filter_makes_a_warning_of_a_failed_backward_an_error_the_failure_stays_and_says_so():
    trouble = Trouble()

    def fail(grad):
        warn("before the failure")
        raise trouble

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(Trouble):
            await ag.backward(calling(leaf(1.0), fail))

    assert trouble.__notes__[1:] == [
        "and a delayed warning that a filter turned into an error: UserWarning('before the failure')"
    ]


async def test_the_warnings_of_a_backward_that_was_cancelled_are_shown(caught):
    held = Held()

    async def body(grad):
        warn("before")
        try:
            await held(grad)
        finally:
            warn("in the clean-up")

    backward = asyncio.ensure_future(ag.backward(awaiting(leaf(1.0), body)))
    await held.begun.wait()
    backward.cancel()
    with pytest.raises(asyncio.CancelledError):
        await backward

    assert shown(caught) == [("before", UserWarning), ("in the clean-up", UserWarning)]


# Nested.


@pytest.mark.parametrize("fails", [False, True])
async def test_the_outer_backward_collects_those_of_nested_ones_and_shows_each_once(caught, fails):
    seen: list[int] = []

    def inner_body(grad):
        warn("both")
        warn("inner")
        if fails:
            raise Trouble

    async def nested(grad):
        warn("both")
        with ag.enable_grad():
            inner = calling(leaf(1.0), inner_body)
        try:
            await ag.backward(inner)
        except Trouble:
            seen.append(-1)
        seen.append(len(caught))

    await ag.backward(awaiting(leaf(1.0), nested))
    number = line() - 1

    assert seen == ([-1, 0] if fails else [0])
    assert shown(caught) == [("both", UserWarning), ("inner", UserWarning)]
    assert {(each.filename, each.lineno) for each in caught} == {(__file__, number)}


async def test_a_filter_inside_of_the_outer_body_does_not_make_a_nested_warning_an_error(caught):
    async def nested(grad):
        with ag.enable_grad():
            inner = calling(leaf(1.0), warning("inner"))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            await ag.backward(inner)

    await ag.backward(awaiting(leaf(1.0), nested))

    assert shown(caught) == [("inner", UserWarning)]


# Outside, bad use, and Python's own.


def test_outside_of_a_backward_a_warning_is_shown_at_once_at_the_line_that_issues_it(caught):
    warn("now", Loud)
    number = line() - 1

    assert shown(caught) == [("now", Loud)]
    assert (caught[0].filename, caught[0].lineno) == (__file__, number)


async def test_a_task_that_outlives_its_backward_warns_at_once(caught):
    gone = asyncio.Event()
    started: list[Any] = []

    async def outlive():
        await gone.wait()
        warn("now")
        return len(caught)

    await ag.backward(calling(leaf(1.0), lambda grad: started.append(asyncio.ensure_future(outlive())) and None))
    gone.set()

    assert (await started[0]) == 1


@pytest.mark.parametrize("wrong", ["UserWarning", Exception, None, UserWarning("an instance"), 3])
@pytest.mark.parametrize("inside", [False, True])
async def test_a_category_that_is_no_class_of_warnings_is_refused_where_it_is_given(wrong, inside):
    refuse = pytest.raises(TypeError, match=r"category of a warning must be a subclass of Warning, not.*UserWarning")

    def body(grad):
        with refuse:
            warn("look", wrong)

    if inside:
        await ag.backward(calling(leaf(1.0), body))
    else:
        body(None)


async def test_a_warning_object_brings_its_category(caught):
    await ag.backward(calling(leaf(1.0), lambda grad: warn(Loud("an object"))))

    assert shown(caught) == [("an object", Loud)]


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("where", ["body", "hook", "callback"])
async def test_pythons_own_warning_is_shown_at_once_where_it_is_issued_under_the_callers_filters(where, asynchronous):
    """As in PyTorch: who calls warnings.warn may have set filters around it, and those of now are the ones it means."""
    seen: list[int] = []

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")

        def issue(*grads):
            warnings.warn("at once", Loud, stacklevel=1)
            seen.append(len(found))

        async def issue_later(*grads):
            await asyncio.sleep(0)
            issue()

        body = issue_later if asynchronous else issue
        x = leaf(1.0)
        if where == "body":
            out = (awaiting if asynchronous else calling)(x, body)
        else:
            out = np.multiply(x, 2.0)
            out.register_hook(body if where == "hook" else lambda grad: queue_callback(functools.partial(body)))
        await ag.backward(out)

    assert shown(found) == [("at once", Loud)]
    assert seen == [1]


async def test_pythons_own_warning_that_a_filter_makes_an_error_fails_the_body_that_issued_it():
    x = leaf(1.0)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="at once") as refused:
            await ag.backward(calling(x, lambda grad: warnings.warn("at once", stacklevel=1)))
    [note] = refused.value.__notes__

    assert note.startswith("in CallingBackward")
    assert x.grad is None
