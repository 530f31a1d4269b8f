"""The numbers of nodes that a backward has recorded which waits: sums of a later one have the same bits each time."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.engine import numbering
from asyncgrad.core.engine.exec_info import nodes_below
from tests.support.leaves import leaf_of
from tests.support.settings import loop_budget
from tests.support.turns import turns


class Waiting(ag.Function):
    """x * x, with a derivative that waits before it computes."""

    concurrent = True

    @staticmethod
    def forward(ctx, x, pause):
        ctx.save_for_backward(x)
        ctx.pause = pause
        return x.numpy() * x.numpy()

    @staticmethod
    async def backward(ctx, grad):
        await turns(ctx.pause)
        (x,) = ctx.saved_tensors
        return grad * np.sin(x) * x * 2.0, None


@pytest.mark.parametrize("place", ["a hook", "a final callback"])
def test_what_a_blocking_backward_inside_of_a_recorded_one_records_has_the_same_bits_whatever_it_waits(place):
    def second(*pauses: int) -> bytes:
        x = leaf_of(np.random.default_rng(0).standard_normal(7))
        found: list[Any] = []

        def nested() -> None:
            with ag.enable_grad():
                point = x * 1.1
                total: Any = sum(Waiting.apply(point, pause) / 3.0 for pause in pauses)
                found.extend(sync.grad(total.sum(), [x], create_graph=True))

        y = x * 2.0
        y.register_hook(lambda _: nested() if place == "a hook" else ag.engine.queue_callback(nested))
        sync.grad((y * y).sum(), [x], create_graph=True)
        (again,) = sync.grad((found[0] * np.sin(found[0])).sum(), [x])
        return bytes(again.numpy().tobytes())

    assert (
        len({second(*pauses) for pauses in itertools.islice(itertools.permutations(range(0, 10, 2)), 0, 120, 17)}) == 1
    )


async def test_nodes_that_rows_have_recorded_stay_plain():
    x = leaf_of(np.arange(1.0, 5.0))
    (rows,) = await ag.grad([Waiting.apply(x, 1)], [x], [np.eye(4)], is_grads_batched=True, create_graph=True)
    nodes = {rows.grad_fn: 0} | nodes_below(rows.grad_fn)
    assert not [node.name for node in nodes if node.name == "MultiplyBackward" and node.meta is not None]


@pytest.mark.filterwarnings("ignore:.*only the garbage collector frees")
@pytest.mark.parametrize("late", range(0, 24, 3))
async def test_what_is_recorded_while_nodes_are_numbered_has_its_gradient(monkeypatch, late):
    monkeypatch.setattr(numbering, "STEP", 1)
    x = leaf_of(np.arange(1.0, 5.0))
    with loop_budget(0.0):
        running = asyncio.ensure_future(ag.backward(Waiting.apply(x, 1), np.ones(4), create_graph=True))
        while x.grad is None and not running.done():
            await turns(1)
        await turns(late)
        grad: Any = x.grad
        result = (grad * 2.0) * 3.0
        await running
    (found,) = await ag.grad(result.sum(), [grad])
    assert found.tolist() == [6.0, 6.0, 6.0, 6.0]
