"""`ag.forward`: a forward on a worker records as it does here, and one that meets a step is told."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, optim
from asyncgrad.errors import ArgumentTypeError, OverlappingStepsError
from tests.support.turns import one_turn


async def test_a_forward_runs_on_a_worker_and_is_differentiated_here() -> None:
    model = nn.Linear(3, 1, bias=False)
    threads = list[int]()

    def loss(x: Any) -> Any:
        threads.append(threading.get_ident())
        return model(x).sum()

    result = await ag.forward(loss, np.arange(3.0))
    await result.backward()
    assert threads != [threading.get_ident()]
    assert model.weight.grad is not None
    assert model.weight.grad.tolist() == [[0.0, 1.0, 2.0]]


async def test_the_loop_goes_on_meanwhile_and_a_cancelled_forward_has_ended() -> None:
    begun, let_go = threading.Event(), threading.Event()
    ended = list[bool]()

    def body() -> None:
        begun.set()
        let_go.wait()
        ended.append(True)

    task = asyncio.create_task(ag.forward(body))
    while not begun.is_set():
        await one_turn()
    task.cancel()
    await one_turn()
    assert not task.done()
    let_go.set()
    await asyncio.wait([task])
    assert task.cancelled()
    assert ended == [True]


async def test_it_is_called_here_without_workers_and_what_it_awaits_is_awaited_here() -> None:
    here = threading.get_ident()
    with ag.workers(0):
        assert await ag.forward(threading.get_ident) == here

    async def later(x: float) -> tuple[float, int]:
        await one_turn()
        return x, threading.get_ident()

    assert await ag.forward(later, x=2.0) == (2.0, here)
    with ag.no_grad():
        assert (await ag.forward(lambda: ag.tensor(1.0, requires_grad=True) * 2)).requires_grad is False


async def test_errors_are_those_of_the_function() -> None:
    def fails() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await ag.forward(fails)
    with pytest.raises(ArgumentTypeError, match=r"ag\.forward"):
        await ag.forward(3)  # type: ignore[call-overload]


@pytest.mark.parametrize("is_argument", [False, True])
async def test_a_step_that_meets_a_forward_in_flight_is_told_and_a_snapshot_is_not_concerned(is_argument: bool) -> None:
    begun, let_go = threading.Event(), threading.Event()

    class Slow(nn.Module):
        def __init__(self) -> None:
            self.weight = nn.Parameter(np.ones(2))

        def forward(self) -> ag.Tensor:
            first = self.weight * 1.0
            begun.set()
            let_go.wait()
            return first + self.weight

    model = Slow()
    optimizer = optim.SGD(model.parameters(), lr=1.0)
    for version, is_told in ((model, True), (model.snapshot(), False)):
        begun.clear()
        let_go.clear()
        call = ag.forward(lambda m: m(), version) if is_argument else ag.forward(version)
        task = asyncio.create_task(call)
        while not begun.is_set():
            await one_turn()
        optimizer.step([np.ones(2)])
        let_go.set()
        if is_told:
            with pytest.raises(OverlappingStepsError, match=r"write await ag\.forward\(model\.snapshot\(\), \.\.\.\)"):
                await task
        else:
            assert (await task).tolist() == [2.0, 2.0]
