"""`python -m benchmarks.profiling`: what a profile costs on a chain of small nodes, with and without in turns.

It writes nothing. Each step makes a profile; nothing of it is read, and it is dropped afterwards. Times are those of
the thread (`time.thread_time`), since other work on the machine would not cost both alike.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from time import thread_time
from typing import Any

import numpy as np

import asyncgrad as ag

from .chain import ITERATIONS, chain
from .pairs import Times

__all__ = ["main", "measure"]

SIZE = 16


def measure(rounds: int) -> dict[str, Times]:
    """Return the times of a forward, of the backward of an older graph, and of both, in a profile and without.

    The last is both of a chain of a function of NumPy's, whose caller is further away than that of an operator.
    """
    x = ag.tensor(np.linspace(0.1, 0.9, SIZE), requires_grad=True)
    start = np.ones(SIZE)
    kept = chain(x)

    def forward() -> None:
        chain(x)

    def backward() -> None:
        x.grad = None
        ag.sync.backward(kept, start, retain_graph=True)

    def both() -> None:
        x.grad = None
        ag.sync.backward(chain(x), start)

    def tanh() -> None:
        x.grad = None
        y: Any = x
        for _ in range(2 * ITERATIONS):
            y = np.tanh(y)
        ag.sync.backward(y, start)

    return {call.__name__: _measure(call, rounds) for call in (forward, backward, both, tanh)}


def _measure(call: Callable[[], None], rounds: int) -> Times:
    """Return the medians of the times with a profile (ours) and without (theirs), and of their ratios."""

    def profiled() -> object:
        with ag.profile() as prof:
            call()
        return prof

    pairs = [(_time(profiled), _time(call)) for _ in range(rounds + 1)][1:]
    ours, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
    return Times(ours, theirs, statistics.median([mine / other for mine, other in pairs]))


def _time(call: Callable[[], object]) -> float:
    began = thread_time()
    kept = call()
    ended = thread_time()
    del kept
    return ended - began


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="What a profile costs on a chain of small nodes.")
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    print("| chain of 4,000 nodes, size 16 | profiled, µs | without, µs | ratio |")
    print("| --- | ---: | ---: | ---: |")
    for name, times in measure(options.rounds).items():
        print(f"| {name} | {times.ours * 1e6:,.0f} | {times.theirs * 1e6:,.0f} | {times.ratio:.2f} |")


if __name__ == "__main__":
    main()
