"""The critical path of a backward, known by construction."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.testing import ScheduleLoop
from tests.profile.programs import Sleeping
from tests.sampling import cases


class Network:
    """A random graph of nodes that sleep; node 0 is the root, and each leads to nodes of higher numbers."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        count = random.randrange(2, 14)
        self.seconds = [random.choice([0.0, random.uniform(0.1, 10.0)]) for _ in range(count)]
        self.targets = [
            sorted(random.sample(range(one + 1, count), min(random.randrange(4), count - one - 1)))
            for one in range(count)
        ]
        reached = {target for targets in self.targets for target in targets}
        self.targets[0] = sorted({*self.targets[0], *(set(range(1, count)) - reached)})

    def longest(self, without: int | None = None) -> float:
        """The length of the longest path from the root, where one node may take no time."""
        lengths = [0.0 if one == without else seconds for one, seconds in enumerate(self.seconds)]
        for one in reversed(range(len(lengths))):
            lengths[one] += max((lengths[target] for target in self.targets[one]), default=0.0)
        return lengths[0]

    def build(self) -> ag.Tensor:
        tensors: dict[int, Any] = {}
        for one in reversed(range(len(self.seconds))):
            arguments = [tensors[target] for target in self.targets[one]] or [ag.tensor(1.0, requires_grad=True)]
            tensors[one] = Sleeping.apply(self.seconds[one], *arguments)
        self.number_of = {tensor.grad_fn.sequence_nr: one for one, tensor in tensors.items()}
        return tensors[0]


def profile_in_virtual_time(network: Network, seed: int) -> tuple[ag.profile, float]:
    async def main() -> tuple[ag.profile, float]:
        loop = asyncio.get_running_loop()
        root = network.build()
        async with ag.profile(clock=loop.time) as prof:
            await root.backward()
        return prof, loop.time()

    with asyncio.Runner(loop_factory=lambda: ScheduleLoop(seed)) as runner:
        return runner.run(main())


@pytest.mark.parametrize("seed", range(cases(200)))
def test_the_critical_path_of_sleeping_nodes_is_the_longest_path(seed: int) -> None:
    network = Network(seed)

    prof, wall = profile_in_virtual_time(network, seed)
    path = prof.critical_path()
    length = sum(step.own_time for step in path) / 1e9

    assert length == pytest.approx(network.longest(), rel=0.05, abs=1e-6)
    assert wall == pytest.approx(network.longest(), rel=0.05, abs=1e-6)


@pytest.mark.parametrize("seed", range(cases(200)))
def test_the_gain_of_a_node_is_what_its_time_costs(seed: int) -> None:
    network = Network(seed)

    prof, _ = profile_in_virtual_time(network, seed)

    for step in prof.critical_path():
        if step.node.sequence_nr is not None:
            number = network.number_of[step.node.sequence_nr]
            gained = network.longest() - network.longest(without=number)
            assert step.gain / 1e9 == pytest.approx(gained, rel=0.05, abs=1e-6)
            assert step.gain <= step.own_time


def test_nodes_of_one_thread_each_gain_what_they_take() -> None:
    x = ag.tensor(np.ones(3), requires_grad=True)

    with ag.profile() as prof:
        ag.sync.backward((np.tanh(x) + np.sin(x)).sum())
    path = prof.critical_path()

    assert len(path) == 5
    assert all(step.gain == step.own_time for step in path)


def test_the_path_is_that_of_the_longest_backward_unless_one_is_named() -> None:
    async def main() -> ag.profile:
        loop = asyncio.get_running_loop()
        async with ag.profile(clock=loop.time) as prof:
            for seconds in (1.0, 3.0, 2.0):
                await Sleeping.apply(seconds, ag.tensor(1.0, requires_grad=True)).backward()
        return prof

    with asyncio.Runner(loop_factory=lambda: ScheduleLoop(0)) as runner:
        prof = runner.run(main())
    first = next(event.graph_task_id for event in prof.events if event.kind == "backward")

    assert sum(step.own_time for step in prof.critical_path()) == 3_000_000_000
    assert sum(step.own_time for step in prof.critical_path(first)) == 1_000_000_000
