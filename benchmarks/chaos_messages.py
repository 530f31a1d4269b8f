"""`python -m benchmarks.chaos_messages 500 --transport http`: trainings whose messages are late, lost, and come twice.

Each run trains a model of two stages: backward passes and steps, some of which are cancelled and tried again. Its
messages go by a FaultyTransport. In about every other run a process is harmed, too: a worker is stopped for a while, or
killed; home does nothing for longer than it is patient; connections are cut, closed one way, or pass no bytes one way.

A run ends with the bits of a training at home, or `StageLost` is raised, and nothing has been changed by what failed.
Then the faults cease. Each stage must answer, with the bits that it had, unless its worker was killed and it has no
backup; and one more step of training must have the right bits. All runs together must have met the cases that matter:
a request to create a stage that came late, a step of which nobody knew whether it had been made, a stage that moved
while a backward was committed. Anything else is an AssertionError that names the run; `--first N` begins with it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, final

import asyncgrad as ag
from asyncgrad.distributed import Definition, SimulatedTransport, Stage, Transport
from asyncgrad.errors import StageLost
from benchmarks.chaos import HttpWorkers, commit_here, dask_workers, http_workers, layer, make_sgd, model
from benchmarks.faulty_transport import FaultyTransport

__all__ = ["main", "run_messages"]

#: The cases that so many runs must have met.
CASES = ("late create", "step unsure", "move during a commit")
_STAGES = 2
_OPERATIONS = 6
_PATIENCE = 0.2
_KINDS: tuple[str, ...] = ("backward", "backward", "backward", "step", "step")
_KINDS += ("cancelled backward", "cancelled backward", "step with a timeout", "step with a timeout", "zero_grad")
#: After how many runs the workers are new: a Dask cluster restarts no worker that is killed again while it starts.
_RUNS_PER_CLUSTER = 100
#: In one of how many runs a worker is killed: a new one takes a second to start.
_RUNS_PER_KILL = 25
#: After how many seconds a run hangs.
_SECONDS = 60.0


class Workers(Protocol):
    """Abstract: workers that are used again by the next run."""

    transport: Any

    def definition(self, at: int) -> Definition:
        """Return what makes a stage of the model."""
        ...

    async def mend(self) -> None:
        """Have as many workers again as in the beginning."""
        ...

    async def process(self, worker: str) -> int:
        """Return the id of the process of a worker."""
        ...

    def cut(self, worker: str) -> None:
        """Break the connections to a worker."""
        ...


@final
class _SimulatedWorkers:
    """Workers in this process, which cannot be harmed: messages alone have faults."""

    def __init__(self) -> None:
        self.transport = SimulatedTransport("abc")

    def definition(self, at: int) -> Definition:
        return Definition(layer, model()[0][at], optimizer=make_sgd)

    async def mend(self) -> None:
        """Do nothing: none is harmed."""

    async def process(self, worker: str) -> int:
        raise LookupError(f"worker {worker} is in this process")

    def cut(self, worker: str) -> None:
        raise LookupError(f"worker {worker} is in this process")


@asynccontextmanager
async def _simulated_workers(_: float) -> AsyncIterator[Workers]:
    yield _SimulatedWorkers()


_PLACES: dict[str, tuple[Callable[[float], AbstractAsyncContextManager[Workers]], tuple[str, ...]]] = {
    "http": (http_workers, ("stop", "home", "cut", "half-close", "freeze")),
    "dask": (dask_workers, ("stop", "home", "cut")),
    "simulated": (_simulated_workers, ()),
}


@final
class Home:
    """The same model, trained at home."""

    def __init__(self) -> None:
        self.scale: Any = ag.tensor(1.5, requires_grad=True)
        self._params = [tuple(ag.tensor(one, requires_grad=True) for one in pair) for pair in model()[0][:_STAGES]]
        self._optimizers = [make_sgd(pair) for pair in self._params]

    async def backward(self, inputs: Sequence[Any], which: Sequence[int]) -> None:
        """Do the backward of some layers, one after the other."""

        def make_layer(params: Any) -> Any:
            async def call(x: Any) -> Any:
                return layer(params, x)

            return call

        await (await _loss([make_layer(self._params[at]) for at in which], self.scale, inputs)).backward()

    def step(self, at: int, zero_grad: bool) -> None:
        """Make a step of one layer."""
        self._optimizers[at].step()
        if zero_grad:
            self.zero_grad(at)

    def zero_grad(self, at: int) -> None:
        """Drop the gradients of one layer."""
        self._optimizers[at].zero_grad()

    def values(self, at: int) -> Any:
        """Return the parameters and gradients of one layer."""
        return _listed(self._params[at]), _listed([one.grad for one in self._params[at]])


async def _loss(stages: Sequence[Any], scale: Any, inputs: Sequence[Any]) -> Any:
    total: Any = 0.0
    for x in inputs:
        y: Any = scale * x
        for one in stages:
            y = await one(y)
        total = total + (y * y).sum()
    return total


def _listed(values: Sequence[Any]) -> list[Any]:
    return [None if one is None else one.tolist() for one in values]


@final
class Training:
    """One run: a training at the stages, and the same at home.

    Args:
        stages: the stages.
        draw: decides what is done.
        counts: is told of cases that were met.
    """

    def __init__(self, stages: Sequence[Stage], draw: random.Random, counts: Counter[str]) -> None:
        self.stages: Sequence[Stage] = stages
        self.home: Home = Home()
        self.scale: Any = ag.tensor(1.5, requires_grad=True)
        self._draw = draw
        self._counts = counts
        #: What is to be done again for a stage: its last step or its zero_grad failed, and may have been made.
        self._unsure: tuple[int, str, bool] | None = None

    async def run(self) -> None:
        """Train.

        Raises:
            StageLost: a stage was lost.
        """
        for _ in range(_OPERATIONS):
            kind, at = self._draw.choice(_KINDS), self._draw.randrange(_STAGES)
            if kind.endswith("backward"):
                await self._backward(kind.startswith("cancelled"))
                continue
            self._unsure = at, kind, self._draw.random() < 0.5
            if kind == "step with a timeout":
                await self._step_in_time(at)
            elif kind == "step":
                await self._step(at)
            else:
                await self.stages[at].zero_grad()
            self._make_sure()

    async def _backward(self, is_cancelled: bool) -> None:
        inputs = self._draw.sample(model()[1], self._draw.randrange(1, 3))

        async def run() -> None:
            await (await _loss(self.stages, self.scale, inputs)).backward()

        backward = asyncio.ensure_future(run())
        if is_cancelled:
            await asyncio.wait([backward], timeout=self._draw.random() * 0.1)
            backward.cancel()
        await asyncio.wait([backward])
        if backward.cancelled():
            self._counts["backward passes cancelled"] += 1
        else:
            backward.result()
            await self.home.backward(inputs, range(_STAGES))

    async def _step(self, at: int, **options: Any) -> None:
        assert self._unsure is not None
        try:
            await self.stages[at].step(zero_grad=self._unsure[2])
        finally:
            self._counts["step unsure"] += self.stages[at].is_step_unsure

    async def _step_in_time(self, at: int) -> None:
        try:
            async with asyncio.timeout(self._draw.random() * 0.03):
                await self._step(at)
        except TimeoutError:
            await self.stages[at].step(retry=True)

    def _make_sure(self) -> None:
        assert self._unsure is not None
        at, kind, zero_grad = self._unsure
        self._unsure = None
        if kind == "zero_grad":
            self.home.zero_grad(at)
        else:
            self.home.step(at, zero_grad)

    async def check(self, killed: set[str], places: Sequence[str]) -> list[int]:
        """Compare all with what is at home; return which stages answer.

        Raises:
            AssertionError: a bit differs, or a stage does not answer though its worker was not killed.
        """
        alive = []
        for at, one in enumerate(self.stages):
            try:
                if self._unsure is not None and self._unsure[0] == at:
                    await (one.zero_grad() if self._unsure[1] == "zero_grad" else one.step(retry=True))
                    self._make_sure()
                found = _listed(await one.parameters()), _listed(await one.grads())
            except StageLost as lost:
                if places[at] not in killed:
                    raise AssertionError(f"stage {at} does not answer, and its worker was not killed") from lost
                continue
            assert found == self.home.values(at), f"stage {at}: {found} in place of {self.home.values(at)}"
            alive.append(at)
        mine, theirs = _listed([self.scale.grad]), _listed([self.home.scale.grad])
        assert mine == theirs, f"the leaf at home: {mine} in place of {theirs}"
        return alive

    async def go_on(self, which: Sequence[int]) -> None:
        """Train one more step of the stages that are left."""
        inputs = model()[1][:2]
        await (await _loss([self.stages[at] for at in which], self.scale, inputs)).backward()
        await self.home.backward(inputs, which)
        for at in which:
            await self.stages[at].step(zero_grad=False)
            self.home.step(at, False)


async def run_messages(transport: str, runs: int, seed: int, first: int = 0) -> Counter[str]:
    """Train so many times, and return how often each outcome, fault and case was met.

    Raises:
        AssertionError: a bit differs from that of a training at home, or something has changed in spite of an error.
    """
    counts, place = Counter[str](), _PLACES[transport]
    began = time.monotonic()
    for start in range(first, first + runs, _RUNS_PER_CLUSTER):
        async with place[0](_PATIENCE) as workers:
            for number in range(start, min(first + runs, start + _RUNS_PER_CLUSTER)):
                try:
                    async with asyncio.timeout(_SECONDS):
                        counts[await _run(workers, place[1], f"{seed}/{number}", counts)] += 1
                except BaseException as error:
                    error.add_note(f"{transport}, seed {seed}, run {number}")
                    raise
                if (number + 1 - first) % 25 == 0:
                    print(f"{number + 1 - first} runs, {time.monotonic() - began:.0f} s", flush=True)
    return counts


async def _run(workers: Workers, harms: Sequence[str], seed: str, counts: Counter[str]) -> str:
    """Train once; return how it ended."""
    draw = random.Random(seed)
    await workers.mend()
    transport: Transport = workers.transport
    faulty = FaultyTransport(transport, seed, counts)
    backup, found = draw.random() < 0.5, await transport.workers()
    stages = []
    for at, worker in enumerate(draw.sample(sorted(found), _STAGES)):
        definition = workers.definition(at)
        stages.append(Stage(definition, faulty, worker, allow_other_workers=backup, backup=backup, name=str(at)))
    training, outcome = Training(stages, draw, counts), "right"
    harm = _draw_harm(harms, draw)
    counts[f"harm: {harm}"] += 1
    killed: set[str] = set()
    harming = asyncio.ensure_future(_harm(workers, draw, harm, [str(one.worker) for one in stages], killed))
    try:
        await training.run()
    except StageLost:
        outcome = "lost"
    finally:
        await harming
        await faulty.cease()
    places = [] if backup else [str(one.worker) for one in stages]
    # With a backup another worker takes over, whoever was killed.
    alive = await training.check(killed, places or [""] * _STAGES)
    counts["stages that ended with their worker"] += _STAGES - len(alive)
    await training.go_on(alive)
    assert await training.check(killed, places or [""] * _STAGES) == alive
    for one in stages:
        await one.close()
    return outcome


def _draw_harm(harms: Sequence[str], draw: random.Random) -> str:
    if not harms or draw.random() < 0.5:
        return "none"
    return "kill" if draw.random() < 2 / _RUNS_PER_KILL else draw.choice(harms)


async def _harm(workers: Workers, draw: random.Random, kind: str, names: Sequence[str], killed: set[str]) -> None:
    """Harm one of the workers, or home, at a random moment, for a random time."""
    worker, way = draw.choice(names), draw.choice(("there", "back"))
    delay, seconds = draw.random() * 0.3, draw.random() * 4 * _PATIENCE
    if kind == "none":
        return
    process = await workers.process(worker)
    await asyncio.sleep(delay)
    if kind == "kill":
        killed.add(worker)
        os.kill(process, signal.SIGKILL)
    elif kind == "stop":
        os.kill(process, signal.SIGSTOP)
        await asyncio.sleep(seconds)
        os.kill(process, signal.SIGCONT)
    elif kind == "home":
        # Home answers nothing meanwhile, and hears nothing.
        asyncio.get_running_loop().call_soon(time.sleep, seconds)
    elif kind == "cut":
        workers.cut(worker)
    else:
        assert isinstance(workers, HttpWorkers)
        if kind == "half-close":
            workers.half_close(worker, way)
        else:
            thaw = workers.freeze(worker, way)
            await asyncio.sleep(seconds)
            thaw()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the trainings, and print a table; fail if a case that matters was not met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos_messages", description=__doc__)
    parser.add_argument("runs", type=int, nargs="?", default=500)
    parser.add_argument("--transport", choices=sorted(_PLACES), default="http")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, metavar="N", help="the number of the first run")
    options = parser.parse_args(arguments)
    print(f"{options.transport}  seed {options.seed}, commit {commit_here()}", flush=True)
    counts = asyncio.run(run_messages(options.transport, options.runs, options.seed, options.first))
    for name in sorted({*counts, *CASES}):
        print(f"{options.transport}  {name:36} {counts[name]:6}")
    missing = [name for name in CASES if not counts[name]]
    if missing:
        print(f"{options.transport}  not met in {options.runs} runs: {', '.join(missing)}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
