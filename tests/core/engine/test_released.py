"""A second backward through a graph that a failed one has released says so, and how to try again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.engine import released
from asyncgrad.errors import ReleasedGraphError
from tests.support.leaves import leaf
from tests.support.loops import one_loop
from tests.support.nodes import async_double
from tests.support.refusals import refused
from tests.support.turns import settle

#: What the error says of a pass that failed, and of any.
FAILED, ANY = "The earlier backward", "an earlier backward has run through it"


def raising(error: BaseException) -> Callable[[Any], Any]:
    def hook(grad: Any) -> None:
        raise error

    return hook


def failed_graph(**options: Any) -> tuple[Any, Any, Any]:
    """A leaf, an intermediate result and a loss, of a graph in which a backward has failed at that result."""
    x = leaf(1.0, 2.0)
    middle = np.tanh(x)
    handle = middle.register_hook(raising(ValueError("out of range")))
    loss = (np.exp(middle) * middle).sum()
    with pytest.raises(ValueError, match="out of range"):
        sync.backward(loss, **options)
    handle.remove()
    return x, middle, loss


@pytest.mark.parametrize("again", [lambda x, loss: sync.backward(loss), lambda x, loss: sync.grad(loss, [x])])
def test_a_backward_through_what_a_failed_one_has_released_says_where_it_failed_and_how_to_try_again(again):
    x, _, loss = failed_graph()

    for _ in range(2):
        with refused(
            ReleasedGraphError,
            RuntimeError,
            f"{FAILED} raised ValueError in TanhBackward (node #",
            "run the forward again",
            'retain_graph="until_success"',
        ):
            again(x, loss)
    assert x.grad is None


def test_it_is_told_to_another_loss_that_meets_what_was_released():
    x = leaf(1.0, 2.0)
    middle = np.tanh(x)
    shared = np.exp(middle)
    middle.register_hook(raising(ValueError("out of range")))
    with pytest.raises(ValueError, match="out of range"):
        sync.backward(shared.sum())

    with refused(ReleasedGraphError, RuntimeError, f"{FAILED} raised ValueError in TanhBackward"):
        sync.backward((shared * 2).sum())


@pytest.mark.parametrize("register", [lambda x: x.register_hook, lambda x: x.register_post_accumulate_grad_hook])
def test_it_is_told_of_a_pass_that_failed_at_a_leaf(register):
    x = leaf(1.0, 2.0)
    loss = np.exp(np.tanh(x)).sum()
    register(x)(raising(ValueError("out of range")))
    with pytest.raises(ValueError, match="out of range"):
        sync.backward(loss)

    with refused(ReleasedGraphError, RuntimeError, f"{FAILED} raised ValueError in AccumulateGrad"):
        sync.backward(loss)


@one_loop
async def test_it_is_told_of_a_pass_in_which_older_nodes_have_run_while_the_one_that_failed_waited():
    exponential = np.exp(leaf(1.0, 2.0))
    waiting = leaf(1.0, 2.0) * 2
    loss = (exponential + waiting).sum()

    async def fail(grad: Any) -> None:
        await settle()
        raise ValueError("out of range")

    waiting.register_hook(fail)
    with pytest.raises(ValueError, match="out of range"):
        await loss.backward()

    with refused(ReleasedGraphError, RuntimeError, f"{FAILED} raised ValueError in MultiplyBackward"):
        await loss.backward()


@one_loop
async def test_it_is_told_of_a_pass_that_was_cancelled():
    loss = (np.tanh(async_double(leaf(1.0, 2.0))) ** 2).sum()
    # On a busy machine it might give way before the first node, and would have released nothing.
    with ag.loop_budget(60):
        task = asyncio.ensure_future(loss.backward())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with refused(ReleasedGraphError, RuntimeError, f"{FAILED} was cancelled", "run the forward again"):
        await loss.backward()


def test_a_graph_that_a_failed_backward_has_kept_can_be_run_again():
    x, _, loss = failed_graph(retain_graph=True)
    sync.backward(loss)

    assert x.grad is not None


def test_nothing_is_told_of_a_pass_that_succeeded():
    _ = failed_graph()
    loss = (np.tanh(leaf(1.0, 2.0)) ** 2).sum()
    sync.backward(loss)

    with pytest.raises(ReleasedGraphError, match=ANY) as raised:
        sync.backward(loss)
    assert FAILED not in str(raised.value)


def test_nothing_is_told_of_a_failure_that_had_released_nothing():
    loss = (np.tanh(leaf(1.0, 2.0)) ** 2).sum()
    handle = loss.register_hook(raising(ValueError("at once")))
    with pytest.raises(ValueError, match="at once"):
        sync.backward(loss)
    handle.remove()
    sync.backward(loss)

    with pytest.raises(ReleasedGraphError, match=ANY) as raised:
        ag.run(loss.backward())
    assert FAILED not in str(raised.value)


def test_a_failure_looks_at_no_more_of_a_deep_graph_than_takes_a_moment(monkeypatch):
    monkeypatch.setattr(released, "_MOST", 10)
    y = leaf(1.0)
    for _ in range(100):
        y = y * 2.0
    assert len(list(released._nodes_from([y.grad_fn]))) == 10
