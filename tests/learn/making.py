"""A model, a learner, and the failing disks that the tests of learners share."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, final

import numpy as np

import asyncgrad as ag
from asyncgrad import nn, optim
from asyncgrad.learn import ArraySpec, Learner
from asyncgrad.optim.optimizer import Optimizer
from tests.support.threads import PATIENCE

EXAMPLE = {"x": ArraySpec((2,)), "y": ArraySpec((1,))}


@final
class Gate(nn.Module):
    """A model whose forward, backward, or both wait while a gate of theirs is shut; it counts what has begun."""

    def __init__(self) -> None:
        super().__init__()
        ag.random.seed(0)
        self.first = nn.Linear(2, 4, dtype=np.float64)
        self.mean = ag.tensor(np.zeros(4))
        self.drop = nn.Dropout(0.25)
        self.last = nn.Linear(4, 1, dtype=np.float64)
        self._gates = {"forward": asyncio.Event(), "backward": asyncio.Event()}
        self._began = {"forward": 0, "backward": 0}
        for gate in self._gates.values():
            gate.set()

    def shut(self, which: str) -> None:
        """Have the next passes wait."""
        self._gates[which].clear()

    def open(self) -> None:
        """Let everything go on."""
        for gate in self._gates.values():
            gate.set()

    def began(self, which: str) -> int:
        """Return how many forwards, or backwards, of the loss have begun."""
        return self._began[which]

    async def pass_by(self, which: str) -> None:
        """Wait while the gate is shut."""
        self._began[which] += 1
        await self._gates[which].wait()

    def forward(self, x: Any) -> Any:
        hidden = self.first(x)
        if self.training:
            # A buffer that a step changes before anyone knows whether it succeeds, as batch normalization does.
            with ag.no_grad():
                self.mean *= 0.9
                self.mean += 0.1 * hidden.mean(axis=0)
        return self.last(self.drop(np.tanh(hidden - self.mean)))


async def loss(model: Gate, batch: Any) -> Any:
    """Return the mean squared error, behind the gates."""
    await model.pass_by("forward")
    x = ag.tensor(batch["x"], requires_grad=True)
    out = model(x)

    async def wait(grad: Any) -> None:
        await model.pass_by("backward")

    out.register_hook(wait)
    return nn.mse_loss(out, batch["y"])


def example(seed: int) -> dict[str, Any]:
    """Return the example of that seed."""
    rng = np.random.default_rng(seed)
    return {"x": rng.standard_normal(2), "y": rng.standard_normal(1)}


QUESTION = np.array([0.5, -0.25])


def new_learner(path: Path | None = None, **options: Any) -> Learner:
    """Return a learner that has not begun."""
    model = Gate()
    given: dict[str, Any] = {"inputs": EXAMPLE["x"], "example": EXAMPLE, **options}
    optimizer: Optimizer = given.pop("optimizer", None) or optim.Adam(model, lr=0.01)
    return Learner(given.pop("model", model), given.pop("loss", loss), optimizer, directory=path, **given)


async def answers(seeds: Iterable[int], **options: Any) -> list[list[float]]:
    """Return what a model answers before it learns, and after each of the examples: the reference."""
    async with new_learner(**options) as learner:
        found = [(await learner.predict(QUESTION)).tolist()]
        for seed in seeds:
            await learner.learn(example(seed))
            found.append((await learner.predict(QUESTION)).tolist())
    return found


async def turns_until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until something is so, which a timer or a thread may bring about."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "the loop turns for ever, and it is not so"
        await asyncio.sleep(0)


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
