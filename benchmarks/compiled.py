"""`python -m benchmarks.compiled`: whole steps of compiled functions beside eager ones and beside NumPy by hand.

Compiled is what `ag.jit` chooses, and the table its backend in pure Python.

A step is a call and a blocking backward to all variables. The four take turns, so that what else the machine does
slows all alike; each ratio is of one round. The trace is timed once, and from it the number of calls after which it has
paid for itself.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, NamedTuple, final

# One BLAS thread: the libraries read these variables when they are loaded.
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))

import numpy as np

import asyncgrad as ag
from asyncgrad import sync

from . import chain, lstm, mlp, transformer
from .peers import Problem

__all__ = ["Workload", "main", "measure", "table", "workloads"]


@final
class Workload(NamedTuple):
    """A function, its arrays, and the same by hand."""

    title: str
    model: Callable[..., Any]
    floor: Callable[..., Any]
    problem: Problem


@final
class Figures(NamedTuple):
    """Of each round, what a step took in seconds; and what the trace took."""

    eager: list[float]
    by_table: list[float]
    compiled: list[float]
    floor: list[float]
    trace: float


def workloads() -> list[Workload]:
    """Return what is measured."""
    return [
        Workload("chain of 4,000 nodes, size 16", chain.chain, chain.floor, chain.Chain.problem(16)),
        Workload("chain of 4,000 nodes, size 10,000", chain.chain, chain.floor, chain.Chain.problem(10_000)),
        Workload(mlp.Mlp.title, mlp.asyncgrad_model, mlp.floor, mlp.Mlp.problem()),
        Workload(
            transformer.Transformer.title,
            transformer.asyncgrad_model,
            transformer.floor,
            transformer.Transformer.problem(),
        ),
        Workload(lstm.Lstm.title, lstm.asyncgrad_model, lstm.floor, lstm.Lstm.problem()),
    ]


def measure(workload: Workload, rounds: int) -> Figures:
    """Return what so many rounds of a workload took.

    Raises:
        RuntimeError: its calls are not replayed.
    """
    constants = list(workload.problem.constants)
    variables = [ag.tensor(one, requires_grad=True) for one in workload.problem.variables]
    start = workload.problem.start
    jitted, by_table = ag.jit(workload.model, verify=0), ag.jit(workload.model, backend="table", verify=0)

    def step(function: Callable[..., Any]) -> None:
        for one in variables:
            one.grad = None
        sync.backward(function(*constants, *variables), start)

    def by_hand() -> None:
        _, pullback = workload.floor(*constants, *workload.problem.variables)
        pullback(start if start is not None else np.float32(1.0))

    step(jitted)
    trace = _seconds(lambda: step(jitted)) - _seconds(lambda: step(workload.model))
    # The first replay makes the memory and the records.
    trace += _seconds(lambda: step(jitted)) - _seconds(lambda: step(jitted))
    for _ in range(3):
        step(by_table)
    for one in (jitted, by_table):
        if not one.counts["replayed"]:
            raise RuntimeError(f"{workload.title} is not compiled: {dict(one.counts)}")
    found = Figures([], [], [], [], trace)
    for _ in range(rounds):
        found.eager.append(_seconds(lambda: step(workload.model)))
        found.by_table.append(_seconds(lambda: step(by_table)))
        found.compiled.append(_seconds(lambda: step(jitted)))
        found.floor.append(_seconds(by_hand))
    return found


def _seconds(run: Callable[[], object]) -> float:
    began = perf_counter()
    run()
    return perf_counter() - began


def table(found: dict[str, Figures]) -> str:
    """Return medians of ratios of the same round, as a table."""
    lines = [
        "| a step | table ÷ eager | compiled, ms | ÷ eager | ÷ by hand | trace, ms | pays after, calls |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for title, figures in found.items():
        compiled = statistics.median(figures.compiled)
        eager, by_hand = _ratio(figures.compiled, figures.eager), _ratio(figures.compiled, figures.floor)
        gained = statistics.median(figures.eager) - compiled
        pays = f"{figures.trace / gained:,.0f}" if gained > 0 else "never"
        lines.append(
            f"| {title} | {_ratio(figures.by_table, figures.eager):.2f} | {compiled * 1e3:.2f} | {eager:.2f} "
            f"| {by_hand:.2f} | {figures.trace * 1e3:.0f} | {pays} |"
        )
    return "\n".join(lines)


def _ratio(mine: Sequence[float], others: Sequence[float]) -> float:
    return statistics.median(one / other for one, other in zip(mine, others, strict=True))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compiled", description=__doc__)
    parser.add_argument("--rounds", type=int, default=31, help="how often the four take turns")
    rounds = parser.parse_args(arguments).rounds
    print(table({one.title: measure(one, rounds) for one in workloads()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
