"""Sequences and reference models for the tests of the service."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from examples.serving.checking import Limits
from examples.serving.journal import Directory
from examples.serving.learner import Learner
from examples.serving.network import Network, Sequence, Settings, run

SETTINGS = Settings(hidden=8)

#: A sequence so long that its backward suspends many times, wherever the tests run.
LONG = 3000
LIMITS = Limits(body=512 * 1024, steps=4096, seconds=30.0)


def random_sequence(seed: int, steps: int = 20) -> Sequence:
    """Return a sequence of that seed."""
    rng = np.random.default_rng(seed)
    return Sequence(rng.standard_normal((steps, 2)), rng.standard_normal((steps, 1)))


def fields(sequence: Sequence) -> dict[str, Any]:
    """Return the JSON object that posts a sequence."""
    return {"inputs": sequence.inputs.tolist(), "targets": sequence.targets.tolist()}


QUESTION = random_sequence(1000, 30).inputs


async def answers(sequences: Iterable[Sequence], question: np.ndarray = QUESTION) -> list[list[list[float]]]:
    """Return what a model answers before it learns, and after each of the sequences: the reference."""
    network = Network(SETTINGS)
    found = [np.concatenate(await run(network.published.weights, question)).tolist()]
    for sequence in sequences:
        await (await network.loss(sequence)).backward()
        network.step()
        found.append(np.concatenate(await run(network.published.weights, question)).tolist())
    return found


async def opened_learner(path: Path, *, most_waiting: int = 32, snapshot_every: int = 100) -> Learner:
    """Return a learner that has replayed what is in its directory."""
    directory = Directory(path)
    try:
        learner = Learner(directory, SETTINGS, most_waiting=most_waiting, snapshot_every=snapshot_every)
        await learner.replay()
    except BaseException:
        directory.close()
        raise
    return learner


async def turns_until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until something is so."""
    for _ in range(100_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("the loop has turned a hundred thousand times, and it is not so")


def failing_disk(monkeypatch: Any, *, times: int) -> None:
    """Have the next calls of fsync fail."""
    left = [times]
    real = os.fsync

    def fsync(descriptor: int) -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise OSError(errno.EIO, "the disk is out of order")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
