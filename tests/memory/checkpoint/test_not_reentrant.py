"""Checkpoints that are not reentrant: recomputed once, as far as needed, and compared with the forward."""

from __future__ import annotations

import asyncio
import contextlib

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import CheckpointError, HookError
from tests.memory.checkpoint.models import maybe_async, recomputed
from tests.support.leaves import leaf


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
async def test_backward_passes_limited_to_inputs_work_and_each_recomputes_once(is_async):
    calls = []

    def fn(x, w):
        calls.append(1)
        return np.tanh(x * w) * w

    async def main():
        x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
        y = recomputed(maybe_async(fn, is_async), x, w)
        y = (await y if is_async else y).sum()
        (first,) = await ag.grad(y, [w], retain_graph=True)
        await ag.backward(y, inputs=[w], retain_graph=True)
        assert (w.grad.numpy() == first.numpy()).all()
        assert x.grad is None
        await ag.backward(y)

    await main()
    assert len(calls) == 4


async def test_nodes_that_ask_at_the_same_time_have_one_recomputation():
    """Five branches, whose bodies wait side by side for what the one call saved."""
    calls = []

    gate = asyncio.Event()

    async def fn(x):
        calls.append(1)
        if len(calls) > 1:
            await gate.wait()
        return [np.sin(x) * (n + 2.0) for n in range(5)]

    x = leaf(1.0)
    parts = await recomputed(fn, x)
    task = asyncio.ensure_future(ag.backward(sum(parts).sum()))
    for _ in range(10):
        await asyncio.sleep(0)
    gate.set()
    await task

    assert x.grad.item() == pytest.approx(20 * np.cos(1.0))
    assert len(calls) == 2


async def test_two_backward_passes_at_once_recompute_each_for_itself():
    calls = []

    async def fn(x):
        calls.append(1)
        await asyncio.sleep(0)
        return np.exp(np.sin(x))

    x = leaf(1.0)
    y = (await recomputed(fn, x)).sum()
    await asyncio.gather(*[ag.backward(y, retain_graph=True) for _ in range(2)])

    assert x.grad.item() == pytest.approx(2 * np.exp(np.sin(1.0)) * np.cos(1.0))
    assert len(calls) == 3


def test_the_second_call_ends_as_soon_as_it_has_what_is_needed():
    reached = []

    def fn(x):
        y = np.exp(np.sin(x))
        reached.append("after")
        return y * 2.0

    for early_stop, count in ((True, 1), (False, 2)):
        reached.clear()
        x = leaf(1.0)
        sync.backward(recomputed(fn, x, early_stop=early_stop).sum())
        assert len(reached) == count
        assert x.grad.item() == pytest.approx(2 * np.exp(np.sin(1.0)) * np.cos(1.0))


def test_a_function_that_catches_everything_but_interrupts_is_stopped_all_the_same():
    def fn(x):
        y = x
        for _ in range(3):
            with contextlib.suppress(Exception):
                y = np.sin(y)
        return y

    x = leaf(1.0)
    sync.backward(recomputed(fn, x).sum())
    assert x.grad is not None


async def test_a_function_that_works_in_tasks_is_stopped_all_the_same():
    async def part(x):
        await asyncio.sleep(0)
        return np.exp(x)

    async def fn(x):
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(part(x * n)) for n in (1.0, 2.0)]
        return tasks[0].result() * tasks[1].result()

    x = leaf(0.5)
    await ag.backward((await recomputed(fn, x)).sum())

    assert x.grad.item() == pytest.approx(3 * np.exp(1.5))


def test_nested_calls_are_each_recomputed_once():
    calls = {"inner": 0, "outer": 0}

    def inner(x):
        calls["inner"] += 1
        return np.exp(np.sin(x))

    def outer(x):
        calls["outer"] += 1
        return recomputed(inner, np.tanh(x))

    x = leaf(1.0)
    sync.backward(recomputed(outer, x).sum())
    assert calls == {"inner": 2, "outer": 2}


def test_a_backward_inside_of_the_function_sees_what_it_saved():
    def fn(x):
        y = np.exp(np.sin(x))
        (slope,) = sync.grad(y.sum(), [x])
        return np.tanh(x) * slope.detach()

    def found(call):
        x = leaf(1.0, 2.0)
        sync.backward(call(fn, x * 1.0).sum())
        return x.grad.tolist()

    for early_stop in (True, False):
        assert found(lambda fn, x, stop=early_stop: recomputed(fn, x, early_stop=stop)) == found(lambda fn, x: fn(x))


def test_both_kinds_may_be_nested_in_one_another():
    def found(outer, inner):
        x, w = leaf(0.3, 0.4), leaf(0.5, 0.6)

        def fn(x):
            return inner(lambda x: np.tanh(x * w), np.sin(x)) * w

        sync.backward(outer(fn, x).sum())
        return x.grad.tolist(), w.grad.tolist()

    def plain(fn, x):
        return fn(x)

    for outer in (ag.checkpoint, recomputed):
        for inner in (ag.checkpoint, recomputed):
            np.testing.assert_allclose(found(outer, inner), found(plain, plain), rtol=1e-14)


def switching(*functions):
    left = list(functions)
    return lambda x: left.pop(0)(x)


def test_fewer_tensors_than_in_the_forward_are_reported():
    y = recomputed(switching(lambda x: np.exp(np.sin(x)) * x, lambda x: np.sin(x)), leaf(1.0, 2.0))

    with pytest.raises(
        CheckpointError,
        match=r"saved 4 tensors in the forward and 1 tensor when it was called again; number 1 in the forward was "
        r"float64\[2\] on 'cpu', saved by ExpBackward",
    ):
        sync.backward(y.sum())


def test_more_tensors_than_in_the_forward_are_reported_where_nothing_stops_early():
    functions = (lambda x: np.sin(x), lambda x: np.sin(x) + np.cos(x))
    with pytest.raises(CheckpointError, match="1 tensor in the forward and 2 tensors when it was called again"):
        sync.backward(recomputed(switching(*functions), leaf(1.0), early_stop=False).sum())

    x = leaf(1.0)
    sync.backward(recomputed(switching(*functions), x).sum())
    assert x.grad.item() == np.cos(1.0)


@pytest.mark.parametrize(
    ("again", "complaint"),
    [
        (lambda x: np.sin(x[:1]), r"tensor 0: float64\[2\] on 'cpu', saved by SinBackward in the forward"),
        (lambda x: np.cos(x), r"float64\[2\] on 'cpu', saved by CosBackward when called again"),
        (lambda x: np.sin(x.astype(np.float32)), r"float32\[2\] on 'cpu', saved by SinBackward when called again"),
    ],
    ids=["shape", "operation", "dtype"],
)
def test_other_tensors_than_in_the_forward_are_reported_unless_nobody_is_to_compare(again, complaint):
    y = recomputed(switching(np.sin, again), leaf(1.0, 2.0))
    with pytest.raises(CheckpointError, match=complaint):
        sync.backward(y.sum())


def test_determinism_check_none_compares_nothing():
    x = leaf(1.0)
    y = recomputed(switching(np.sin, np.cos), x, determinism_check="none")
    sync.backward(y.sum())
    assert x.grad.item() == np.cos(1.0)


def test_debug_shows_the_operations_of_both_calls_and_where_they_differ():
    def before(x):
        return np.exp(np.sin(x))

    def after(x):
        return np.exp(np.cos(x))

    y = recomputed(switching(before, after), leaf(1.0), debug=True)
    with pytest.raises(CheckpointError) as caught:
        sync.backward(y.sum())

    report = str(caught.value)
    assert "- 1. SinBackward float64[1]" in report
    assert "+ 1. CosBackward float64[1]" in report
    assert report.count(__file__) == 4
    assert "in before" in report
    assert "in after" in report


class Surrounding:
    """A context manager of both kinds, which notes what happens."""

    def __init__(self, events, name):
        self.events, self.name = events, name

    def __enter__(self):
        self.events.append(f"enter {self.name}")

    def __exit__(self, *exception):
        self.events.append(f"exit {self.name}")


class AsyncSurrounding:
    def __init__(self, events, name):
        self.events, self.name = events, name

    async def __aenter__(self):
        await asyncio.sleep(0)
        self.events.append(f"enter {self.name}")

    async def __aexit__(self, *exception):
        await asyncio.sleep(0)
        self.events.append(f"exit {self.name}")


@pytest.mark.parametrize("manager", [Surrounding, AsyncSurrounding])
async def test_context_fn_gives_what_surrounds_the_two_calls(manager):
    events = []

    def fn(x):
        events.append("call")
        return np.exp(np.sin(x))

    context_fn = lambda: (manager(events, "forward"), manager(events, "again"))
    y = await recomputed(maybe_async(fn, True), leaf(1.0), context_fn=context_fn)
    events.append("backward")
    await ag.backward(y.sum())
    assert events == [
        *("enter forward", "call", "exit forward"),
        *("backward", "enter again", "call", "exit again"),
    ]


def test_context_fn_surrounds_a_plain_function():
    events = []
    y = recomputed(np.sin, leaf(1.0), context_fn=lambda: (Surrounding(events, "one"), Surrounding(events, "two")))
    sync.backward(y.sum())
    assert events == ["enter one", "exit one", "enter two", "exit two"]


def test_a_context_manager_that_suppresses_errors_is_refused():
    def fails(x):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="suppressed what the checkpointed function raised"):
        recomputed(fails, leaf(1.0), context_fn=lambda: (contextlib.suppress(ValueError), contextlib.nullcontext()))


def test_where_saved_tensor_hooks_are_disabled_a_checkpoint_raises_their_message():
    with ag.graph.disable_saved_tensors_hooks("not here"), pytest.raises(HookError, match="not here"):
        recomputed(np.sin, leaf(1.0))
    y = recomputed(np.sin, leaf(1.0))
    assert y.requires_grad


def test_a_saved_tensor_is_recomputed_for_who_looks_outside_of_a_backward():
    calls = []
    x = leaf(1.0)

    def fn(x):
        calls.append(1)
        return np.sin(x) * 2.0

    y = recomputed(fn, x)
    node = y.grad_fn.next_edges[0].node
    assert node.saved_tensors[0].unpack().item() == 1.0
    assert node.saved_tensors[0].unpack().item() == 1.0
    assert len(calls) == 3
    sync.backward(y.sum())
    assert x.grad.item() == 2 * np.cos(1.0)


def test_a_hook_that_looks_at_a_saved_tensor_first_costs_a_recomputation_and_changes_nothing():
    calls, x = [], leaf(1.0)

    def fn(x):
        calls.append(1)
        return np.exp(np.sin(x))

    y = recomputed(fn, x)
    y.grad_fn.register_prehook(lambda grads: y.grad_fn.saved_tensors[0].unpack() and None)
    sync.backward(y.sum())

    assert x.grad.item() == np.exp(np.sin(1.0)) * np.cos(1.0)
    assert len(calls) == 3
