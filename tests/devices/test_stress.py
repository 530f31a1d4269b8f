"""Random graphs over mixed devices: the bits of one thread, whatever the schedule, and nothing left behind."""

from __future__ import annotations

import asyncio
import random
import threading
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from tests.devices.waits import T0, T1, seen_by_all
from tests.support.arrays import bits, bits_of_grads
from tests.support.functions import awaiting, calling
from tests.support.loops import on_each_loop, run_on

pytestmark = pytest.mark.usefixtures("threads_switch_often")

MIXES = {
    "one worker": (T0,),
    "cpu and a worker": ("cpu", T0),
    "two workers": (T0, T1),
    "all": ("cpu", T0, T1, "null"),
}

#: Devices without a thread of their own. On them a graph has the moves that it has on the others, and so the same sums.
INLINE = {"cpu": "cpu", T0: "null:10", T1: "null:11", "null": "null"}


def inline_places(places: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(INLINE[place] for place in places)


async def pause(grad: Any) -> None:
    await asyncio.sleep(0)


def mixed_graph(seed: int, places: tuple[str, ...], suspending: bool = True) -> tuple[list[ag.Tensor], Any]:
    """Leaves, and a scalar computed from them by a graph of about forty operations, the same on any devices."""
    choose = random.Random(seed)
    where = random.Random(seed + 1)
    numbers = np.random.default_rng(seed)
    leaves = [ag.tensor(numbers.normal(size=(3, 3)), device=where.choice(places), requires_grad=True) for _ in range(4)]
    known: list[Any] = [*leaves]
    for _ in range(30):
        # Newer ones more often, so that the graph is deep too.
        first, second = (known[-1 - int(choose.random() ** 2 * len(known))] for _ in range(2))
        kind = choose.randrange(7)
        place = where.choice(places)
        first, second = first.to(place), second.to(place)
        if kind == 0:
            made = first + second
        elif kind == 1:
            made = np.tanh(first * second)
        elif kind == 2:
            made = np.tanh(first @ second)
        elif kind == 3:
            made = np.sin(first)
        elif kind == 4 and suspending:
            made = awaiting(first, pause) * 0.5
        elif kind in (4, 5):
            made = calling(second, lambda grad: None) - first
        else:
            made = np.exp(-np.square(first))[::-1] + second.T
        known.append(made)
    total = known[0].sum().to("cpu")
    for made in known[1:]:
        total = total + made.sum().to("cpu")
    return leaves, total


async def grads_on_devices(seed: int, places: tuple[str, ...], second: bool = False) -> list[Any]:
    # What bodies that suspend record under create_graph comes in the order in which they go on.
    leaves, total = mixed_graph(seed, places, suspending=not second)
    if second:
        first = await ag.grad(total, leaves, create_graph=True)
        squares = [(grad * grad).sum().to("cpu") for grad in first]
        await sum(squares[1:], squares[0]).backward()
    else:
        await total.backward()
    return bits_of_grads(leaves)


@pytest.mark.sampled("mix")
@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("seed", range(6))
async def test_gradients_have_the_same_bits_on_any_mix_of_devices(seed, mix):
    expected = await grads_on_devices(seed, inline_places(MIXES[mix]))

    assert await grads_on_devices(seed, MIXES[mix]) == expected


@pytest.mark.slow
@pytest.mark.sampled("mix")
@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("seed", range(3))
async def test_second_derivatives_have_the_same_bits_on_any_mix_of_devices(seed, mix):
    expected = await grads_on_devices(seed, inline_places(MIXES[mix]), second=True)

    assert await grads_on_devices(seed, MIXES[mix], second=True) == expected


@on_each_loop
@pytest.mark.parametrize("seed", range(3))
def test_a_blocking_backward_has_the_same_bits_on_any_mix_of_devices(run, seed):
    expected = run(grads_on_devices(seed, inline_places(MIXES["all"])))
    leaves, total = mixed_graph(seed, MIXES["all"])

    sync.backward(total)

    assert bits_of_grads(leaves) == expected


@pytest.mark.parametrize("workers", [0, 1, 4])
async def test_the_number_of_workers_changes_no_bit_beside_other_devices(workers):
    with ag.workers(workers), ag.offload_threshold(0):
        found = await grads_on_devices(3, MIXES["all"])

    assert found == await grads_on_devices(3, inline_places(MIXES["all"]))


async def some_cancelled(seed: int, expected: dict[int, Any]) -> int:
    """Run many backward passes at once and cancel some of them, at any point; check those that were not."""
    choose = random.Random(seed)
    made = [(number, *mixed_graph(number, MIXES["all"])) for number in expected for _ in range(2)]
    tasks = [asyncio.ensure_future(total.backward()) for _, _, total in made]
    cancelled = 0
    for task in choose.sample(tasks, len(tasks) // 2):
        for _ in range(choose.randrange(40)):
            await asyncio.sleep(0)
        cancelled += task.cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for (number, leaves, _), outcome in zip(made, outcomes, strict=True):
        found = bits_of_grads(leaves)
        if outcome is None:
            assert found == expected[number]
        else:
            assert isinstance(outcome, asyncio.CancelledError), outcome
            assert found == [None] * len(leaves)
    return cancelled


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_cancelled_backward_passes_of_two_loops_leave_nothing_behind_and_disturb_no_other(seed):
    expected = {number: run_on("asyncio", grads_on_devices(number, inline_places(MIXES["all"]))) for number in range(6)}
    run_on("asyncio", seen_by_all(T0, T1))
    threads = threading.active_count()
    outcomes: list[Any] = []

    def in_a_thread(own_seed: int) -> None:
        try:
            outcomes.append(run_on("asyncio", some_cancelled(own_seed, expected)))
        except BaseException as error:
            outcomes.append(error)

    loops = [threading.Thread(target=in_a_thread, args=(2 * seed + index,)) for index in range(2)]
    for loop in loops:
        loop.start()
    for loop in loops:
        loop.join(100)

    assert len(outcomes) == 2
    assert all(isinstance(outcome, int) for outcome in outcomes), outcomes
    assert threading.active_count() <= threads
    assert run_on("asyncio", left_on_workers()) == [set(), set()]


async def left_on_workers() -> list[set[str]]:
    """The tasks that the workers' loops still have, but for the one that asks."""

    async def left() -> set[str]:
        return {task.get_name() for task in asyncio.all_tasks() - {asyncio.current_task()}}

    return [await ag.device(name).call(left) for name in (T0, T1)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_two_loops_share_one_graph_over_several_devices(seed):
    leaves, total = mixed_graph(seed, MIXES["all"])
    once = run_on("asyncio", grads_on_devices(seed, inline_places(MIXES["all"])))

    def in_a_thread() -> None:
        results.extend(
            [bits(grad) for grad in run_on("asyncio", ag.grad(total, leaves, retain_graph=True))] for _ in range(3)
        )

    results: list[Any] = []
    loops = [threading.Thread(target=in_a_thread) for _ in range(2)]
    for loop in loops:
        loop.start()
    for loop in loops:
        loop.join(100)

    assert results == [once] * 6
