"""Delayed warnings: issued inside of a backward, shown once, at the line that waits for it, under its filters."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.engine import queue_callback, warn
from tests.core.engine.warned import Loud, line, shown, warning
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf


async def warning_later(grad):
    await asyncio.sleep(0)
    warn("late")


# Once, and where.


async def test_a_warning_is_shown_when_the_backward_has_ended_once_however_often_it_was_issued(caught):
    seen: list[int] = []

    def body(grad):
        warning("a", "b", "a")(grad)
        seen.append(len(caught))
        queue_callback(lambda: seen.append(len(caught)))

    out = calling(calling(leaf(1.0), warning("a", "c")), body)

    await ag.backward(out)

    assert seen == [0, 0]
    assert shown(caught) == [("a", UserWarning), ("b", UserWarning), ("c", UserWarning)]


async def test_warnings_of_two_categories_or_of_two_backward_passes_are_two(caught):
    for _ in range(2):
        await ag.backward(calling(calling(leaf(1.0), warning("a")), warning("a", category=Loud)))

    assert shown(caught) == [("a", Loud), ("a", UserWarning)] * 2


async def test_bodies_hooks_and_callbacks_of_every_kind_may_warn(caught):
    x = leaf(1.0)
    y = awaiting(x, warning_later)
    y.register_hook(warning("tensor hook"))
    y.grad_fn.register_prehook(warning("pre-hook"))
    y.grad_fn.register_hook(lambda outputs, grads: warning("post-hook")(grads))
    x.register_post_accumulate_grad_hook(warning("post-accumulate hook"))
    y.register_hook(lambda grad: queue_callback(lambda: warn("callback")))

    await ag.backward(y)

    messages = ["tensor hook", "pre-hook", "late", "post-hook", "post-accumulate hook", "callback"]
    assert [message for message, _ in shown(caught)] == messages


async def test_a_body_in_a_thread_may_warn(caught):
    async def body(grad):
        await asyncio.to_thread(warn, "from a thread")

    await ag.backward(awaiting(leaf(1.0), body))

    assert shown(caught) == [("from a thread", UserWarning)]


async def by_backward(out: ag.Tensor, x: ag.Tensor) -> int:
    await ag.backward(out)
    return line() - 1


async def by_method(out: ag.Tensor, x: ag.Tensor) -> int:
    await out.backward()
    return line() - 1


async def by_grad(out: ag.Tensor, x: ag.Tensor) -> int:
    await ag.grad(out, [x])
    return line() - 1


async def by_batched_grad(out: ag.Tensor, x: ag.Tensor) -> int:
    await ag.grad(out, [x], np.ones((1, 1)), is_grads_batched=True)
    return line() - 1


async def by_vjp(out: ag.Tensor, x: ag.Tensor) -> int:
    await ag.vjp(lambda x: calling(x, warning("look")), x)
    return line() - 1


async def by_value_and_grad(out: ag.Tensor, x: ag.Tensor) -> int:
    await ag.value_and_grad(lambda x: calling(x, warning("look")).sum())(x)
    return line() - 1


async def by_sync(out: ag.Tensor, x: ag.Tensor) -> int:
    sync.backward(out)
    return line() - 1


async def by_sync_vjp(out: ag.Tensor, x: ag.Tensor) -> int:
    sync.vjp(lambda x: calling(x, warning("look")), x)
    return line() - 1


async def line_of_wait_for(out: ag.Tensor, x: ag.Tensor) -> int:
    async with asyncio.timeout(60):
        await ag.backward(out)
        return line() - 1


async def in_a_helper(out: ag.Tensor, x: ag.Tensor) -> int:
    return await by_backward(out, x)


WAYS = [
    by_backward,
    by_method,
    by_grad,
    by_batched_grad,
    by_vjp,
    by_value_and_grad,
    by_sync,
    by_sync_vjp,
    line_of_wait_for,
    in_a_helper,
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_a_warning_is_shown_at_the_line_that_awaits(caught, way):
    x = leaf(1.0)
    number = await way(calling(x, warning("look")), x)

    assert [(each.filename, each.lineno) for each in caught] == [(__file__, number)]


@pytest.mark.parametrize("way", [by_backward, by_method, by_grad], ids=lambda way: way.__name__)
async def test_a_warning_is_shown_at_the_line_that_awaits_also_where_the_backward_has_suspended(caught, way):
    x = leaf(1.0)
    number = await way(awaiting(x, warning_later), x)

    assert [(each.filename, each.lineno) for each in caught] == [(__file__, number)]


def test_a_warning_is_shown_at_the_line_that_blocks_without_a_loop(caught):
    sync.backward(awaiting(leaf(1.0), warning_later))
    number = line() - 1

    assert [(each.filename, each.lineno) for each in caught] == [(__file__, number)]


def test_a_backward_that_is_a_task_by_itself_is_awaited_at_no_line_and_it_is_the_users_code_that_ran_the_loop(caught):
    async def main():
        task = asyncio.ensure_future(ag.backward(calling(leaf(1.0), warning("look"))))
        await task

    asyncio.run(main())
    number = line() - 1

    assert [(each.filename, each.lineno) for each in caught] == [(__file__, number)]


def test_under_asyncio_wait_for_a_warning_is_shown_in_code_of_the_users(caught):
    async def main():
        await asyncio.wait_for(ag.backward(calling(leaf(1.0), warning("look"))), 60)

    asyncio.run(main())

    assert [each.filename for each in caught] == [__file__]


async def test_a_backward_with_create_graph_warns_at_the_line_that_awaits(caught):
    x = leaf(1.0)
    await np.multiply(x, x).backward(create_graph=True)
    number = line() - 1
    x.grad = None

    assert [(each.filename, each.lineno) for each in caught] == [(__file__, number)]
    assert "ag.grad" in str(caught[0].message)


# The caller's filters.


@pytest.mark.parametrize("action", ["ignore", "default", "always", "once", "module"])
async def test_the_filters_where_the_backward_is_awaited_decide(action):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter(action)
        for _ in range(3):
            await ag.backward(calling(leaf(1.0), warning("look")))

    assert len(found) == {"ignore": 0, "default": 1, "always": 3, "once": 1, "module": 1}[action]


async def test_a_filter_may_name_the_module_that_awaits():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("error")
        warnings.filterwarnings("always", module=__name__.replace(".", r"\."))
        await ag.backward(calling(leaf(1.0), warning("look")))

    assert shown(found) == [("look", UserWarning)]


async def test_filters_set_inside_of_a_body_do_not_count(caught):
    async def body(grad):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warn("look")

    await ag.backward(awaiting(leaf(1.0), body))

    assert shown(caught) == [("look", UserWarning)]


@pytest.mark.parametrize(
    ("drive", "waits"),
    [(by_backward, False), (by_backward, True), (by_sync, False)],
    ids=["await", "await a body that waits", "sync"],
)
async def test_a_filter_that_makes_it_an_error_makes_the_backward_fail_with_it(drive, waits):
    x = leaf(1.0)
    x.grad = before = ag.tensor([5.0])
    futures: list[Any] = []

    def ask(grad):
        futures.append(ag.engine.current_graph_task().future_result)
        warning("first", "second", "third")(grad)

    async def ask_later(grad):
        await asyncio.sleep(0)
        ask(grad)

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="first")
        warnings.filterwarnings("always", message="third")
        with pytest.raises(UserWarning, match="second") as refused:
            await drive(awaiting(x, ask_later) if waits else calling(x, ask), x)
    error, others = (refused.value, shown(found))

    # What comes after the one that failed is shown all the same.
    assert others == [("third", UserWarning)]
    assert x.grad is before
    assert x.grad.item() == 5.0
    assert futures[0].exception() is error


async def test_further_warnings_that_are_errors_become_notes_of_the_first():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="one") as refused:
            await ag.backward(calling(leaf(1.0), warning("one", "two")))

    assert refused.value.__notes__ == ["and a delayed warning that a filter turned into an error: UserWarning('two')"]
