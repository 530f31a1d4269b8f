"""A gradient computed within a number of bytes, by `ag.checkpoint_chain(..., memory_budget=...)`.

The model is a chain of narrow steps, with a few wide ones that take most of the time and memory. The first run measures
the steps. For each budget, dynamic programming then finds which states to keep, which steps to record early, and which
to run again. A budget below what every order of steps needs raises an error, which names the least.

    python examples/checkpoint_budget.py
"""

from __future__ import annotations

import functools
import re
import tracemalloc
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

import asyncgrad as ag

POINTS, NARROW, WIDE = 4096, 2, 48
WIDTHS = [NARROW] * 10 + [WIDE] + [NARROW] * 10 + [WIDE] + [NARROW] * 10


def step(width: int, runs: list[int], x: Any) -> Any:
    """Spread the signal over `width` channels, squash it there, and bring it back."""
    runs[0] += 1
    phases = np.linspace(0, 1, width)
    return np.tanh(np.sin(x[:, None] + phases) * np.exp(-phases)).mean(axis=1) + x


async def gradient(run: Callable[[Any], Any]) -> tuple[np.ndarray, float, float]:
    """Return the gradient of x, the peak memory in MB, and the seconds taken."""
    x = ag.tensor(np.linspace(-1, 1, POINTS), requires_grad=True)
    tracemalloc.start()
    begin = perf_counter()
    try:
        await ag.backward(np.square(run(x)).sum())
        taken = perf_counter() - begin
        peak = tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()
    assert x.grad is not None
    return x.grad.numpy(), peak, taken


def one_by_one(steps: list[Callable[[Any], Any]], x: Any) -> Any:
    """Call the steps one after the other."""
    for one in steps:
        x = one(x)
    return x


async def main() -> None:
    """Run without a budget, then within smaller and smaller ones, down to the least."""
    runs = [0]
    steps: list[Callable[[Any], Any]] = [functools.partial(step, width, runs) for width in WIDTHS]
    expected, peak, taken = await gradient(lambda x: one_by_one(steps, x))
    print(f"no budget:      {runs[0]:4} runs of a step, {peak:6.1f} MB at most, {taken * 1e3:4.0f} ms")
    with_least = _least(steps)
    for budget in (32_000_000, 16_000_000, 9_000_000, with_least):
        chain = functools.partial(ag.checkpoint_chain, steps, memory_budget=budget)
        # The first run with a budget also finds the schedule for it.
        await gradient(chain)
        runs[0] = 0
        found, peak, taken = await gradient(chain)
        same = "the same" if (found == expected).all() else "ANOTHER"
        figures = f"{runs[0]:4} runs of a step, {peak:6.1f} MB at most, {taken * 1e3:4.0f} ms"
        print(f"budget {budget / 1e6:5.1f} MB: {figures}; {same} gradient")


def _least(steps: list[Callable[[Any], Any]]) -> int:
    """Return the least budget, which the error for a smaller one names."""
    try:
        ag.checkpoint_chain(steps, ag.tensor(np.zeros(POINTS), requires_grad=True), memory_budget=1)
    except ValueError as error:
        print(error)
        return int(re.findall(r"at least (\d+) bytes", str(error))[0])
    raise SystemExit("one byte was enough")


if __name__ == "__main__":
    ag.run(main())
