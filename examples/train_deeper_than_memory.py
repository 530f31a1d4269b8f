"""Train a network whose activations do not fit into memory: they are written to disk and read back for the backward.

    python examples/train_deeper_than_memory.py
    python examples/train_deeper_than_memory.py --depth 200 --limit-mb 400

A deep residual network learns which arm of a spiral a point lies on. It runs in a child process with a memory limit
(`resource.setrlimit`). With all activations in memory, the training fails; with `ag.graph.save_to_disk` the same
training succeeds under the same limit.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from typing import Any

# Each thread of a BLAS library takes memory, which counts against the limit.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import asyncgrad as ag
from asyncgrad import nn, optim

WIDTH, POINTS, ARMS = 64, 4096, 3
LEARNING_RATE = 2e-4
MEGABYTE = 2**20


def spirals(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return points of shape (POINTS, 2), and the number of the arm of each."""
    arm = random.integers(0, ARMS, POINTS)
    radius = np.sqrt(random.uniform(0.05, 1.0, POINTS))
    angle = 2 * np.pi * (arm / ARMS + 0.6 * radius) + 0.05 * random.standard_normal(POINTS)
    points = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return points.astype(np.float32), arm


def make_weights(depth: int, random: np.random.Generator) -> list[ag.Tensor]:
    """Return the weights of the input layer, of each hidden layer, and of the output layer."""
    sizes = [(WIDTH, 2), *[(WIDTH, WIDTH)] * depth, (ARMS, WIDTH)]
    scales = [2.0, *[1.0 / depth**0.5] * depth, 1.0]
    return [
        ag.tensor((scale * random.standard_normal(size) / size[1] ** 0.5).astype(np.float32), requires_grad=True)
        for size, scale in zip(sizes, scales, strict=True)
    ]


def scores(points: np.ndarray, weights: list[ag.Tensor]) -> Any:
    """Return the scores of the arms, of shape (POINTS, ARMS); each hidden layer is residual."""
    first, *layers, last = weights
    y = nn.linear(ag.asarray(points), first)
    for layer in layers:
        y = y + np.tanh(nn.linear(y, layer))
    return nn.linear(y, last)


async def train(depth: int, steps: int, *, to_disk: bool) -> None:
    random = np.random.default_rng(0)
    points, arm = spirals(random)
    weights = make_weights(depth, random)
    optimizer = optim.Adam(weights, lr=LEARNING_RATE)
    offload = ag.graph.save_to_disk(min_bytes=MEGABYTE // 4, max_pending_bytes=16 * MEGABYTE)
    began = time.perf_counter()
    for step in range(steps):
        if to_disk:
            with offload:
                loss = nn.cross_entropy(scores(points, weights), arm)
        else:
            loss = nn.cross_entropy(scores(points, weights), arm)
        optimizer.zero_grad()
        await loss.backward()
        optimizer.step()
        print(f"step {step + 1}: loss {loss.item():.4f}", flush=True)
    with ag.no_grad():
        accuracy = np.mean(np.argmax(scores(points, weights).numpy(), axis=1) == arm)
    print(f"accuracy {100 * accuracy:.1f}%, {(time.perf_counter() - began) / steps:.2f} s per step", flush=True)


def limited(options: argparse.Namespace, *, to_disk: bool) -> subprocess.CompletedProcess[str]:
    """Run the training in a child process with the memory limit."""
    command = [sys.executable, __file__, "--depth", str(options.depth), "--steps", str(options.steps)]
    command += ["--limit-mb", str(options.limit_mb), "--train", "disk" if to_disk else "memory"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def compare(options: argparse.Namespace) -> int:
    """Train both ways, and print the outcomes; return the exit status."""
    saved = 2 * options.depth * POINTS * WIDTH * 4 / MEGABYTE
    print(f"{options.depth} layers save {saved:.0f} MB of activations in each step; {options.limit_mb} MB are allowed")
    in_memory = limited(options, to_disk=False)
    if in_memory.returncode == 0:
        print("in memory: it fits; ask for more with --depth, or allow less with --limit-mb")
        return 1
    print(f"in memory: {in_memory.stderr.strip().splitlines()[-1]}")
    on_disk = limited(options, to_disk=True)
    print(f"on disk: {'failed' if on_disk.returncode else 'trained'}")
    print(on_disk.stdout + on_disk.stderr, end="")
    return on_disk.returncode


def main() -> int:
    parser = argparse.ArgumentParser(description="Train with more activations than memory.")
    parser.add_argument("--depth", type=int, default=150, help="how many layers (default: 150)")
    parser.add_argument("--steps", type=int, default=8, help="how many steps of training (default: 8)")
    parser.add_argument("--limit-mb", type=int, default=260, help="how much memory is allowed (default: 260)")
    parser.add_argument("--train", choices=("memory", "disk"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train is None:
        return compare(options)
    # RLIMIT_DATA counts writeable memory: the heap, stacks and private mappings, not the code of libraries.
    limit = options.limit_mb * MEGABYTE
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    ag.run(train(options.depth, options.steps, to_disk=options.train == "disk"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
