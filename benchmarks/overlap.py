"""`python -m benchmarks.overlap`: how much of the waiting a pipeline and a data-parallel backward hide.

A pipeline of three stages sends eight micro-batches forward, each of which takes 20 ms in a stage; the ideal is ten
times 20 ms. Beside it bare asyncio tasks wait in the same way, which shows how late this machine's timers are.

A data-parallel backward of twelve layers computes for 10 ms in each, and exchanges a bucket of each in 8 ms. The time
that the exchange is exposed is what the backward takes longer than without; the blocking form exchanges one bucket
after another when the backward has ended. It writes nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import Any, final

import numpy as np

import asyncgrad as ag
from examples.data_parallel import Slow

__all__ = ["main", "measure_data_parallel", "measure_pipeline"]

STAGES, MICRO_BATCHES, STAGE_SECONDS = 3, 8, 0.020
LAYERS, LINK_SECONDS = 12, 0.008


async def _time(work: Callable[[], Awaitable[Any]]) -> float:
    began = perf_counter()
    await work()
    return perf_counter() - began


async def measure_pipeline(rounds: int) -> dict[str, float]:
    """Return the medians of the seconds of a pipeline, and of bare tasks that wait likewise."""
    x = ag.tensor(np.zeros((MICRO_BATCHES, 4)))

    async def stage(part: Any) -> Any:
        await asyncio.sleep(STAGE_SECONDS)
        return part + 1.0

    async def piped() -> None:
        await ag.distributed.pipeline([stage] * STAGES, x, micro_batches=MICRO_BATCHES)

    async def bare() -> None:
        locks = [asyncio.Lock() for _ in range(STAGES)]

        async def send() -> None:
            for lock in locks:
                async with lock:
                    await asyncio.sleep(STAGE_SECONDS)

        await asyncio.gather(*(send() for _ in range(MICRO_BATCHES)))

    return await _medians({"pipeline": piped, "bare tasks": bare}, rounds)


@final
class Link:
    """A replica alone, whose exchanges take some time."""

    rank, size = 0, 1

    async def all_reduce(self, key: tuple[int, ...], array: np.ndarray) -> np.ndarray:
        """Return the array, later."""
        await asyncio.sleep(LINK_SECONDS)
        return array

    def abort(self, round_number: int, reason: str) -> bool:
        """Tell nobody."""
        return True


async def measure_data_parallel(rounds: int) -> dict[str, float]:
    """Return the medians of the seconds of a backward alone, with hooks that exchange, and with exchanges after it."""
    weights = [ag.tensor(np.eye(16), requires_grad=True) for _ in range(LAYERS)]
    link = Link()

    async def backward() -> None:
        y: Any = np.ones((4, 16))
        for weight in weights:
            weight.grad = None
            y = Slow.apply(np.tanh(y @ weight))
        await y.sum().backward()

    async def hooks() -> None:
        with ag.distributed.DataParallel(weights, link, bucket_bytes=1):
            await backward()

    async def blocking() -> None:
        await backward()
        for number, weight in enumerate(weights):
            assert weight.grad is not None
            weight.grad = ag.asarray(await link.all_reduce((0, number), weight.grad.numpy()))

    return await _medians({"backward": backward, "async hooks": hooks, "blocking": blocking}, rounds)


async def _medians(works: dict[str, Callable[[], Awaitable[None]]], rounds: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds + 1):
        for name, work in works.items():
            times[name].append(await _time(work))
    return {name: statistics.median(found[1:]) for name, found in times.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure both, and print them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args(arguments).rounds

    piped = ag.run(measure_pipeline(rounds))
    ideal = (STAGES + MICRO_BATCHES - 1) * STAGE_SECONDS
    for name, seconds in piped.items():
        print(f"{name:>12} {1000 * seconds:6.1f} ms, {seconds / ideal:.3f} of the ideal {1000 * ideal:.0f} ms")
    found = ag.run(measure_data_parallel(rounds))
    exposed = {name: found[name] - found["backward"] for name in ("async hooks", "blocking")}
    print(f"{'backward':>12} {1000 * found['backward']:6.1f} ms without an exchange")
    for name, seconds in exposed.items():
        print(f"{name:>12} {1000 * found[name]:6.1f} ms, of which the exchange is exposed for {1000 * seconds:.1f} ms")
    print(f"exposed with hooks / blocking: {exposed['async hooks'] / exposed['blocking']:.2f}")


if __name__ == "__main__":
    main()
