"""Chains of 50,000 nodes and more run, and are dropped, without recursion; so do shorter ones on a smaller stack."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from tests.support.functions import calling
from tests.support.leaves import leaf
from tests.support.sampling import cases
from tests.support.threads import on_a_small_stack

#: The main thread's stack of 8 MB has 160 bytes for each: two frames of C take more.
DEPTH = max(50_000, cases(100_000))


def in_main_thread(work: Callable[[int], Any]) -> None:
    work(DEPTH)


def in_a_small_thread(work: Callable[[int], Any]) -> None:
    """On a quarter of the main thread's stack, a quarter of the depth: a node may take no more of it."""
    on_a_small_stack(lambda: work(DEPTH // 4))


everywhere = pytest.mark.parametrize("somewhere", [in_main_thread, in_a_small_thread])


# A third of the time would go to the garbage collector, which would find nothing.
pytestmark = pytest.mark.usefixtures("no_collector")


def alternating_chain(x: ag.Tensor, depth: int) -> ag.Tensor:
    """Alternate sums and products, so that nodes save tensors, which lead to nodes again."""
    y = x
    for _ in range(depth // 2):
        y = np.add(np.multiply(y, x), x)
    return y


class Same(ag.Function):
    """A copy, saving both what it got and what it gave."""

    @staticmethod
    def forward(ctx, x):
        out = ag.tensor(x)
        ctx.save_for_backward(x, out)
        return out

    @staticmethod
    def backward(ctx, grad):
        return grad


class SameAndAsync(Same):
    @staticmethod
    async def backward(ctx, grad):
        return grad


@pytest.mark.slow
@everywhere
def test_a_deep_graph_that_never_ran_is_dropped(somewhere):
    def work(depth):
        out = alternating_chain(leaf(0.0), depth)
        del out

    somewhere(work)


@pytest.mark.slow
@everywhere
def test_a_deep_graph_runs_backward_and_is_dropped(somewhere):
    def work(depth):
        x = leaf(1e-6)
        out = alternating_chain(x, depth)
        asyncio.run(out.backward())
        assert x.grad.item() == pytest.approx(1.0, rel=1e-3)
        del out

    somewhere(work)


@pytest.mark.slow
@everywhere
def test_a_deep_graph_that_is_kept_is_dropped(somewhere):
    def work(depth):
        x = leaf(0.0)
        out = alternating_chain(x, depth)
        sync.backward(out, retain_graph=True)
        assert x.grad.item() == 1.0
        del out

    somewhere(work)


@pytest.mark.slow
@everywhere
def test_a_deep_graph_runs_in_the_dependency_executor(somewhere):
    def work(depth):
        x = leaf(0.0)
        out = calling(alternating_chain(x, depth), lambda grad: None)
        asyncio.run(out.backward())
        assert x.grad.item() == 1.0

    somewhere(work)


@pytest.mark.slow
@everywhere
def test_a_deep_graph_is_limited_to_its_inputs(somewhere):
    def work(depth):
        x, w = leaf(0.0), leaf(1.0)
        out = alternating_chain(np.multiply(x, w), depth)
        (found,) = asyncio.run(ag.grad(out, w))
        assert found.item() == 0.0
        assert (x.grad, w.grad) == (None, None)

    somewhere(work)


@pytest.mark.slow
@everywhere
def test_a_deep_backward_is_recorded_and_dropped(somewhere):
    def work(depth):
        x = leaf(0.0)
        out = alternating_chain(x, depth // 4)
        (first,) = asyncio.run(ag.grad(out, x, create_graph=True))
        (second,) = asyncio.run(ag.grad(first, x))
        assert (first.item(), second.item()) == (1.0, 2.0)
        del out, first

    somewhere(work)


@pytest.mark.slow
@everywhere
@pytest.mark.parametrize("function", [Same, SameAndAsync])
def test_a_deep_chain_of_functions_runs_and_is_dropped(somewhere, function):
    def work(depth):
        x = leaf(1.0)
        y = x
        for _ in range(depth // 4):
            y = function.apply(y)
        asyncio.run(y.backward(retain_graph=True))
        assert x.grad.item() == 1.0
        del y

    somewhere(work)


@pytest.mark.slow
@everywhere
def test_a_deep_chain_of_functions_that_never_ran_is_dropped(somewhere):
    def work(depth):
        y = leaf(1.0)
        for _ in range(depth // 4):
            y = Same.apply(y)
        del y

    somewhere(work)


@pytest.mark.slow
@everywhere
def test_a_deep_graph_that_failed_is_dropped(somewhere):
    def fail(grad):
        raise ValueError("at the end")

    def work(depth):
        x = leaf(0.0)
        out = alternating_chain(calling(x, fail), depth)
        with pytest.raises(ValueError, match="at the end"):
            asyncio.run(out.backward())
        assert x.grad is None
        del out

    somewhere(work)


@pytest.mark.slow
@everywhere
def test_a_deep_graph_is_dropped_by_the_garbage_collector(somewhere):
    """A cycle through user code: what is left to the collector must not recurse either."""

    def work(depth):
        out = alternating_chain(leaf(0.0), depth)
        holder = [out]
        holder.append(holder)  # type: ignore[arg-type]
        del out, holder
        gc.collect()

    somewhere(work)


@everywhere
def test_a_wide_graph_runs(somewhere):
    def work(depth):
        x = leaf(1.0)
        total = np.multiply(x, 0.0)
        for _ in range(depth // 4):
            total = np.add(total, np.multiply(x, 2.0))
        asyncio.run(total.backward())
        assert x.grad.item() == 2.0 * (depth // 4)

    somewhere(work)


@pytest.mark.slow
@everywhere
def test_a_node_in_the_middle_outlives_both_ends(somewhere):
    """Dropping the output of a deep graph frees it down to a node that somebody holds, and no further."""

    def work(depth):
        x = leaf(0.0)
        middle = alternating_chain(x, depth // 2)
        out = alternating_chain(middle, depth // 2)
        del out
        sync.backward(middle)
        assert x.grad.item() == 1.0

    somewhere(work)
