"""Train three stages on a Dask cluster of this machine, and kill a worker in the midst of a backward.

    make demo-distributed
    python examples/lost_worker.py --steps 40

Micro-batches flow through the stages. When the worker of the second one is killed, another takes over: it gets the
stage as it was after the last step, and does again what is missing. The parameters at the end have the bits of the same
training without any worker.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np

import asyncgrad as ag
from asyncgrad import optim

try:
    from distributed import Client, LocalCluster
except ModuleNotFoundError as missing:
    sys.exit(f"this example needs {missing.name}, which is not installed: pip install -e '.[dask]'")

STAGES = 3
MICRO_BATCHES = 4
SIZE = 16
RATE = 0.05

#: The weights and the bias of a layer.
Params = tuple[np.ndarray, np.ndarray]


def layer(params: Any, x: Any) -> Any:
    """Return the output of a layer; this runs at the workers."""
    w, b = params
    return np.tanh(x @ w + b)


def squared_error(y: Any, target: Any) -> Any:
    """Return the loss of a micro-batch."""
    return ((y - target) ** 2).mean()


def new_optimizer(leaves: Any) -> optim.Optimizer:
    """Return the optimizer of a stage; this runs at the workers, too."""
    return optim.SGD(leaves, lr=RATE)


def make_data() -> tuple[list[Params], np.ndarray, np.ndarray]:
    """Return the parameters at the start, the inputs and the targets."""
    rng = np.random.default_rng(0)
    params = [(rng.normal(size=(SIZE, SIZE)) / 4, np.zeros(SIZE)) for _ in range(STAGES)]
    x = rng.normal(size=(64, SIZE))
    return params, x, np.sin(x[:, ::-1]) / 2


async def train_here(steps: int) -> list[list[Any]]:
    """Return the parameters after a training without workers."""
    params, x, target = make_data()
    leaves = [tuple(ag.tensor(one, requires_grad=True) for one in pair) for pair in params]
    optimizers = [new_optimizer(list(pair)) for pair in leaves]

    def here(pair: Any) -> Callable[[Any], Awaitable[Any]]:
        async def call(x: Any) -> Any:
            return layer(pair, x)

        return call

    stages = [here(pair) for pair in leaves]
    for _ in range(steps):
        for optimizer in optimizers:
            optimizer.zero_grad()
        await ag.distributed.pipeline(stages, x, target=target, micro_batches=MICRO_BATCHES, loss=squared_error)
        for optimizer in optimizers:
            optimizer.step()
    return [[one.tolist() for one in pair] for pair in leaves]


async def train_there(
    transport: ag.distributed.Transport, workers: Sequence[str], steps: int, kill: Callable[[str], None]
) -> list[list[Any]]:
    """Return the parameters after a training on workers, of which the second one is killed half-way.

    Args:
        transport: carries messages to the workers.
        workers: the address of one for each stage.
        steps: how many steps the training has.
        kill: kills the worker of an address.
    """
    params, x, target = make_data()
    stages = [
        ag.distributed.stage(layer, pair, transport=transport, worker=worker, optimizer=new_optimizer)
        for pair, worker in zip(params, workers, strict=True)
    ]
    for step in range(steps):
        if step == steps // 2:
            print(f"step {step:>3}: worker {workers[1]} is killed in the midst")
            asyncio.get_running_loop().call_later(0.01, kill, workers[1])
        loss = await ag.distributed.pipeline(stages, x, target=target, micro_batches=MICRO_BATCHES, loss=squared_error)
        for one in stages:
            await one.step()
        if step % max(1, steps // 8) == 0:
            print(f"step {step:>3}: loss {loss.item():.5f}, stages at {', '.join(str(one.worker) for one in stages)}")
    found = [[param.tolist() for param in await one.parameters()] for one in stages]
    for one in stages:
        await one.close()
    return found


async def main(steps: int) -> bool:
    """Run both trainings; return whether their parameters have the same bits."""
    options: dict[str, Any] = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": "CRITICAL"}
    async with (
        LocalCluster(n_workers=STAGES, asynchronous=True, **options) as cluster,
        Client(cluster, asynchronous=True) as client,
    ):
        await client.wait_for_workers(STAGES)
        workers = [one.worker_address for one in cluster.workers.values()]
        processes = await client.run(os.getpid)

        def kill(worker: str) -> None:
            os.kill(processes[worker], signal.SIGKILL)

        there = await train_there(ag.distributed.DaskTransport(client), workers, steps, kill)
    same = there == await train_here(steps)
    print(f"the parameters have the bits of a training without workers: {same}")
    return same


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=40)
    sys.exit(0 if asyncio.run(main(parser.parse_args().steps)) else 1)
