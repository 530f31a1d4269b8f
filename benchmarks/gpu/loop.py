"""How late a timer of 1 ms fires on the event loop: on an idle loop, and while the GPU trains with large products."""

from __future__ import annotations

import asyncio

from ..lateness import lateness_during
from .cases import LARGEST, TINY
from .training import EagerTraining

__all__ = ["measure_lateness"]

#: The duration of each measurement in seconds.
SECONDS = 2.0


async def measure_lateness(device: str, seconds: float = SECONDS) -> dict[str, float]:
    """Return the 99th percentile of the lateness in seconds, on an idle loop and during a training."""
    case = TINY[0] if device == "cpu" else LARGEST
    training = EagerTraining(case, case.draw(), device)
    for _ in range(3):
        await training.step()
    await training.synchronize()
    found = {"idle": await lateness_during(asyncio.sleep(seconds))}
    found["training"] = await lateness_during(_train(training, seconds))
    found["idle again"] = await lateness_during(asyncio.sleep(seconds))
    return found


async def _train(training: EagerTraining, seconds: float) -> None:
    """Train for `seconds`, and wait for the GPU after each step, as a program that reports its loss does."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while loop.time() < end:
        await training.step()
        await training.synchronize()
        await asyncio.sleep(0)  # a step that has nothing to wait for does not suspend
