"""Train one model on several GPUs, by a process for each, which average their gradients through NCCL.

    python examples/two_gpus.py 2

Each process sees a part of each batch. The backward goes on while NCCL exchanges the gradients that are there already.
At the end all processes have the same parameters. It needs a machine with as many NVIDIA GPUs as the argument says,
and `pip install -e '.[cuda13]'`, or `'.[cuda12]'`.
"""

from __future__ import annotations

import multiprocessing
import sys
from typing import Any

import numpy as np

import asyncgrad as ag
from asyncgrad import nn, optim
from asyncgrad.devices.cuda import all_reduce_hook

BATCH, FEATURES, STEPS = 64, 8, 40


async def train(rank: int, ranks: int, communicator: Any) -> None:
    """Train on the GPU of one rank."""
    device = ag.device(f"cuda:{rank}")
    # The same seed on each rank: all begin with the same parameters, and draw the same batches.
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((1, FEATURES)).astype(np.float32)
    with ag.default_device(device):
        weight = ag.tensor(rng.standard_normal((1, FEATURES)).astype(np.float32) / 10, requires_grad=True)
        bias = ag.tensor(np.zeros(1, np.float32), requires_grad=True)
    params = [weight, bias]
    hook = all_reduce_hook(communicator)
    for param in params:
        param.register_post_accumulate_grad_hook(hook)
    optimizer = optim.Adam(params, lr=0.1)
    losses = []
    for _ in range(STEPS):
        batch = rng.standard_normal((BATCH, FEATURES)).astype(np.float32)
        own = batch[rank::ranks]
        x, y = ag.tensor(own, device=device), ag.tensor(own @ truth.T, device=device)
        optimizer.zero_grad()
        loss = nn.mse_loss(nn.linear(x, weight, bias), y)
        await loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    await device.synchronize()
    first, last = (float(one.to("cpu").numpy()) for one in (losses[0], losses[-1]))
    shown = weight.detach().to("cpu").numpy().ravel().round(3).tolist()
    print(f"rank {rank}: loss {first:.3f} -> {last:.3f}, weight {shown}", flush=True)


def run_rank(rank: int, ranks: int, unique_id: Any) -> None:
    """Join the other ranks, and train."""
    import cupy
    from cupy.cuda import nccl

    # From here on the process works on its own GPU.
    cupy.cuda.Device(rank).use()
    communicator = nccl.NcclCommunicator(ranks, unique_id, rank)
    ag.run(train(rank, ranks, communicator))


def main(ranks: int) -> None:
    """Start a process for each GPU, and wait for all."""
    from cupy.cuda import nccl

    # The id joins the ranks: made once, and given to all. Not forked: CUDA does not survive that.
    unique_id, context = nccl.get_unique_id(), multiprocessing.get_context("spawn")
    processes = [context.Process(target=run_rank, args=(rank, ranks, unique_id)) for rank in range(ranks)]
    for process in processes:
        process.start()
    while running := [process for process in processes if process.is_alive()]:
        running[0].join(timeout=0.2)
        if any(process.exitcode for process in processes):
            # The others would wait for it for ever.
            for process in running:
                process.terminate()
            raise SystemExit("a rank has failed")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
