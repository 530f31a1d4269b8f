"""What has to be known of a whole graph before a backward can begin is found out in slices, and the loop runs on."""

from __future__ import annotations

import asyncio
import contextvars
from math import inf

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.core.engine.engine import _make_uncompiled
from asyncgrad.core.engine.exec_info import STEP
from asyncgrad.core.engine.executor import NodeTurn, Stop
from asyncgrad.core.engine.graph_task import GraphTask
from asyncgrad.errors import GradientTypeError
from asyncgrad.extend import derivative, primitive
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop
from tests.support.settings import node_by_node

SLICES = 8


def deep(x, nodes=SLICES * STEP):
    """A chain of so many nodes, the first and the last of which are multiplications by 2 and by 3."""
    y = x * 2.0
    for _ in range(nodes - 2):
        y = y + x
    return y * 3.0


GRADIENT = 3.0 * (2 + SLICES * STEP - 2)


class Turns:
    """Counts the turns that the event loop gives to others."""

    def __init__(self) -> None:
        self.taken = 0
        self._is_over = False

    def __enter__(self):
        self._count()
        return self

    def __exit__(self, *_):
        self._is_over = True

    def _count(self):
        self.taken += 1
        if not self._is_over:
            asyncio.get_running_loop().call_soon(self._count)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["grad", "backward with inputs", "hooked"])
async def test_the_loop_runs_while_a_deep_graph_is_walked_before_its_first_node_runs(way):
    seen = []

    async def main():
        x = leaf(1.0)
        y = deep(x)
        turns = Turns()
        y.register_hook(lambda grad: seen.append(turns.taken))
        with turns, ag.loop_budget(0), node_by_node():
            if way == "grad":
                (grad,) = await ag.grad(y, [x])
                return grad
            await ag.backward(y, inputs=[x] if way == "backward with inputs" else None)
        return x.grad

    assert (await main()).item() == GRADIENT
    assert seen[0] >= SLICES


@on_each_loop
def test_a_blocking_walk_never_yields(run):
    async def main():
        x = leaf(1.0)
        y = deep(x)
        y.register_hook(lambda grad: None)
        with Turns() as turns, ag.loop_budget(0):
            (grad,) = ag.sync.grad(y, [x])
            assert turns.taken == 1
        return grad

    assert run(main()).item() == GRADIENT


@pytest.mark.parametrize("way", ["grad", "hooked"])
async def test_a_walk_that_is_cancelled_leaves_all_as_it_was(way):
    x, ran = leaf(1.0), []
    y = deep(x)
    y.register_hook(lambda grad: ran.append(grad))
    with ag.loop_budget(0), node_by_node():
        task = asyncio.create_task(ag.grad(y, [x]) if way == "grad" else y.backward())
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert x.grad is None
    assert ran == []
    await y.backward()

    assert x.grad.item() == GRADIENT


def test_a_backward_whose_edges_are_being_counted_is_not_over():
    x = leaf(1.0)
    y = deep(x)
    y.register_hook(lambda grad: None)
    with node_by_node():
        task = GraphTask(
            y.grad_fn,
            0,
            id=0,
            keep_graph=False,
            create_graph=False,
            exec_info=None,
            captures=0,
            outer=None,
            context=contextvars.copy_context(),
        )
        task.executor = _make_uncompiled(task, np.ones(1), 0)
    for _ in range(SLICES):
        assert task.executor.run(0.0) is Stop.BUDGET_SPENT
        assert task.outstanding_tasks == 1
        assert not task.completed()

    assert isinstance(task.executor.run(inf), NodeTurn)
    assert task.outstanding_tasks == 1


@primitive()
def refused_(x):
    return x.copy()


@derivative(refused_, "x")
def _(g):
    return "no gradient"


async def test_a_gradient_that_is_refused_once_edges_have_been_counted_names_the_node_that_returned_it():
    x = leaf(1.0)
    with (
        ag.loop_budget(0),
        pytest.raises(GradientTypeError, match="RefusedBackward returned str 'no gradient'") as caught,
    ):
        await refused_(deep(x)).backward()
    assert x.grad is None
    error = caught.value
    assert [note.split(" (")[0] for note in error.__notes__] == ["in RefusedBackward"]
