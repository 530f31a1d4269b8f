"""Hooks that run a backward themselves: of another graph, to their own leaf, through the graph that runs."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from tests.core.engine.hooking import backward, both_drives, every_kind, number, product_or_leaf, register
from tests.support.leaves import leaf

PLACES = ["tensor hook", "pre-hook", "post-hook", "post-accumulate hook"]
every_place = pytest.mark.parametrize("where", PLACES)


def nested_hook(kind: str, run_nested: Any) -> Any:
    """A hook that runs a backward: a function blocks for it, an async def awaits it."""

    def blocking(*args: Any) -> None:
        with ag.enable_grad():
            sync.backward(run_nested())

    async def awaiting(*args: Any) -> None:
        if kind == "suspending":
            await asyncio.sleep(0)
        with ag.enable_grad():
            await ag.backward(run_nested())

    return {"function": blocking, "awaitable": lambda *args: awaiting(*args)}.get(kind, awaiting)


@every_kind
@both_drives
@every_place
async def test_a_hook_may_run_a_backward_of_another_graph(where, kind, drive):
    depths: list[int] = []
    tensor, out = product_or_leaf(where)
    inner = leaf(5.0)

    def look(gradient: Any) -> None:
        task = ag.engine.current_graph_task()
        assert task is not None
        depths.append(task.reentrant_depth)

    inner.register_hook(look)
    register(where, tensor, nested_hook(kind, lambda: np.multiply(inner, inner)))

    await backward(drive, out)

    assert depths == [1]
    assert inner.grad.item() == 10.0


@every_kind
@both_drives
async def test_a_post_accumulate_hook_may_run_a_backward_to_its_own_leaf(kind, drive):
    seen: list[float] = []
    x = leaf(3.0)
    nested = nested_hook(kind, lambda: np.multiply(x, 10.0))

    def hook(tensor: Any) -> Any:
        seen.append(tensor.grad.item())
        return nested(tensor) if len(seen) == 1 else None

    x.register_post_accumulate_grad_hook(hook if kind in ("function", "awaitable") else as_async(hook))
    await backward(drive, np.multiply(x, 2.0))

    assert seen == [2.0, 12.0]
    assert x.grad.item() == 12.0


def as_async(hook: Any) -> Any:
    async def waits(tensor: Any) -> None:
        result = hook(tensor)
        if result is not None:
            await result

    return waits


@every_kind
@both_drives
@pytest.mark.parametrize("where", ["tensor hook", "pre-hook", "post-hook"])
async def test_a_hook_may_run_a_backward_through_the_graph_that_runs(where, kind, drive):
    """The nested one enters the node whose hook waits for it."""
    calls: list[str] = []
    x = leaf(3.0)
    middle = np.multiply(x, 2.0)

    def once() -> Any:
        calls.append("hook")
        return np.multiply(middle, 100.0)

    def hook(*args: Any) -> Any:
        if ag.engine.current_graph_task().reentrant_depth:
            return None
        return inner(*args)

    inner = nested_hook(kind, once)
    register(where, middle, hook if kind in ("function", "awaitable") else as_async_of_many(hook))
    await backward(drive, np.multiply(middle, 1.0), retain_graph=True)

    assert calls == ["hook"]
    assert x.grad.item() == 202.0


def as_async_of_many(hook: Any) -> Any:
    async def waits(*args: Any) -> None:
        result = hook(*args)
        if result is not None:
            await result

    return waits


@every_kind
@both_drives
@every_place
async def test_what_a_nested_backward_did_is_undone_where_the_outer_one_fails_later(where, kind, drive):
    tensor, out = product_or_leaf(where)
    inner, x = leaf(5.0), leaf(1.0)

    def fails(gradient: Any) -> None:
        raise ZeroDivisionError

    # Older than the hook's node, and so run after it.
    failing = np.multiply(x, 2.0)
    failing.grad_fn.sequence_nr = 0
    failing.register_hook(fails)
    register(where, tensor, nested_hook(kind, lambda: np.multiply(inner, inner)))
    with pytest.raises(ZeroDivisionError):
        await backward(drive, [out, failing])

    assert (inner.grad, x.grad) == (None, None)


@pytest.mark.slow
@both_drives
async def test_hooks_that_nest_a_thousand_levels_deep_need_no_deep_stack(drive):
    x = leaf(1.0)
    levels = 0

    async def hook(gradient: Any) -> None:
        nonlocal levels
        if levels < 1000:
            levels += 1
            with ag.enable_grad():
                out = np.multiply(x, 1.0)
            out.register_hook(hook)
            await ag.backward(out)

    out = np.multiply(x, 1.0)
    out.register_hook(hook)
    await backward(drive, out)

    assert levels == 1000
    assert number(x.grad) == [1001.0]
