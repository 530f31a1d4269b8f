"""The critical path of a backward, known by construction."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, final

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.observing.profile.critical_path import CriticalNode, CriticalPath, critical_path
from asyncgrad.observing.profile.events import BackwardSpan, ProfileEvent, Record
from asyncgrad.testing import ScheduleLoop
from tests.devices.numbered import Numbered
from tests.observing.profile.programs import Sleeping
from tests.support.sampling import cases


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

    def build(self, device: Any = None) -> ag.Tensor:
        tensors: dict[int, Any] = {}
        for one in reversed(range(len(self.seconds))):
            arguments = [tensors[target] for target in self.targets[one]] or [
                ag.tensor(1.0, device=device, requires_grad=True)
            ]
            tensors[one] = Sleeping.apply(self.seconds[one], *arguments)
        self.number_of = {tensor.grad_fn.sequence_nr: one for one, tensor in tensors.items()}
        return tensors[0]


def profile_in_virtual_time(network: Network, seed: int, device: Any = None) -> tuple[ag.profile, float]:
    async def main() -> tuple[ag.profile, float]:
        loop = asyncio.get_running_loop()
        root = network.build(device)
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


@final
class Few(Numbered):
    """A device that runs so many bodies at a time."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.max_in_flight = most


@pytest.mark.parametrize("seed", range(cases(100)))
def test_the_path_of_nodes_that_queue_for_a_device_takes_the_whole_time(seed: int) -> None:
    network = Network(seed)

    prof, wall = profile_in_virtual_time(network, seed, Few(1 + seed % 3))
    path = prof.critical_path()

    assert sum(step.own_time for step in path) / 1e9 == pytest.approx(wall, rel=0.05, abs=1e-6)
    for step in path:
        if step.node.sequence_nr is not None:
            # Not the time for which it queued, which is that of others.
            seconds = network.seconds[network.number_of[step.node.sequence_nr]]
            assert step.own_time / 1e9 == pytest.approx(seconds, rel=0.05, abs=1e-6)


def test_of_nodes_that_one_device_runs_one_by_one_each_is_on_the_path_and_gains_what_it_takes() -> None:
    network = Network(0)
    network.seconds, network.targets = [0.0, 1.0, 2.0, 4.0], [[1, 2, 3], [], [], []]

    prof, wall = profile_in_virtual_time(network, 0, Few(1))
    steps = {network.number_of.get(step.node.sequence_nr): step for step in prof.critical_path()}

    assert wall == pytest.approx(7.0)
    for number, seconds in enumerate(network.seconds[1:], 1):
        assert steps[number].own_time / 1e9 == steps[number].gain / 1e9 == pytest.approx(seconds)


def run_on_worker(number: int, began: int, worker_began: int, worker_ended: int, resumed: int) -> ProfileEvent:
    """A run whose body a worker thread ran."""
    fields: dict[str, Any] = dict.fromkeys(ProfileEvent._fields)
    fields |= {"kind": "backward", "name": f"{number}", "graph_task_id": 0, "thread_id": 1, "worker": "worker"}
    fields |= {"ready": 0, "began": began, "suspended": (began + 1,), "resumed": (resumed,), "ended": resumed + 1}
    return ProfileEvent(**(fields | {"worker_began": worker_began, "worker_ended": worker_ended}))


def test_bodies_that_one_worker_runs_one_by_one_are_all_on_the_path() -> None:
    events = (run_on_worker(0, 0, 5, 25, 27), run_on_worker(1, 1, 25, 55, 57), run_on_worker(2, 2, 55, 60, 62))
    span = BackwardSpan(0, None, None, 0, 63, "done", 1, 0)

    path = critical_path(Record(events, ((), (), ()), (0, 0, 0), (span,), (), {}), None)

    assert [(step.node.name, step.own_time, step.gain) for step in path] == [("0", 25, 24), ("1", 30, 30), ("2", 8, 5)]


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


def event(name: str, began: int, ended: int) -> ProfileEvent:
    fields: dict[str, Any] = dict.fromkeys(ProfileEvent._fields)
    times = {"began": began, "ended": ended, "suspended": (), "resumed": (), "waited_for": ()}
    return ProfileEvent(**(fields | {"kind": "backward", "name": name, "graph_task_id": 0} | times))


def test_the_path_is_printed_as_a_table() -> None:
    events = [event("SumBackward", 0, 250_000), event("SlowBackward", 250_000, 1_000_000)]
    path = CriticalPath(
        [
            CriticalNode(events[0], 250_000, 250_000),
            CriticalNode(
                events[1]._replace(
                    line="/home/someone/model.py:12",
                    suspended=(300_000,),
                    resumed=(900_000,),
                    waited_for=("limit 'solver'",),
                ),
                750_000,
                500_000,
            ),
        ]
    )

    assert isinstance(path, list)
    assert repr(path) == str(path)
    assert str(path).splitlines() == [
        "node          line         own time, µs  share, %  gain, µs  waited, µs  waited for",
        "------------  -----------  ------------  --------  --------  ----------  --------------",
        "SumBackward                       250.0      25.0     250.0         0.0",
        "SlowBackward  model.py:12         750.0      75.0     500.0       600.0  limit 'solver'",
        "2 nodes: 1,000.0 µs",
    ]
    assert path._repr_html_().count("<tr") == 3


def test_of_a_long_path_the_nodes_with_the_most_time_are_shown_in_their_order() -> None:
    path = CriticalPath(CriticalNode(event(f"N{index}", 0, 1), 100 * (index % 50), 0) for index in range(100))
    lines = str(path).splitlines()

    assert len(lines) == 43
    assert [line.partition(" ")[0] for line in lines[2:4]] == ["N30", "N31"]
    assert lines[-1] == "100 nodes: 245.0 µs, of which the 60 with the least time are not shown"
