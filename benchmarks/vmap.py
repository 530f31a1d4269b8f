"""`python -m benchmarks.vmap`: gradients per example, and Jacobians, beside a loop and beside JAX.

What is compared takes turns, so that what else the machine does slows all alike; each ratio is of one round. JAX takes
part if it is installed, by `jit` of `vmap` of `grad`, with one thread where XLA_FLAGS says
`--xla_cpu_multi_thread_eigen=false`.
"""

from __future__ import annotations

import argparse
import itertools
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
from asyncgrad import nn
from asyncgrad.sync import func

try:
    import jax
except ImportError:
    jax = None

__all__ = ["Workload", "main", "measure", "table", "workloads"]

BATCH, SIZES = 64, (128, 128, 128, 128, 10)


@final
class Workload(NamedTuple):
    """The same by a loop, by asyncgrad's programs, and by JAX, where that is installed."""

    title: str
    loop: Callable[[], Any]
    mapped: Callable[[], Any]
    by_jax: Callable[[], Any] | None


def loss(layers: Any, x: Any, y: Any) -> Any:
    """Return the loss of a perceptron for one example."""
    for place, (weight, bias) in enumerate(layers):
        x = nn.linear(np.tanh(x) if place else x, weight, bias)
    return np.square(x - y).mean()


def network(layers: Any, x: Any) -> Any:
    """Return what a perceptron makes of one example."""
    for weight, bias in layers:
        x = np.tanh(x @ weight.T + bias)
    return x


def _problem() -> tuple[Any, Any, Any]:
    random = np.random.default_rng(0)
    layers = [
        (
            (random.standard_normal((out, into)) / np.sqrt(into)).astype(np.float32),
            random.standard_normal(out).astype(np.float32),
        )
        for into, out in itertools.pairwise(SIZES)
    ]
    x, y = (random.standard_normal((BATCH, size)).astype(np.float32) for size in (SIZES[0], SIZES[-1]))
    return layers, x, y


def workloads() -> list[Workload]:
    """Return what is measured."""
    layers, x, y = _problem()
    gradient, mapped = func.grad(loss), func.vmap(func.grad(loss), in_axes=(None, 0, 0))
    jacobian, by_program = func.jacrev(network, 1), func.jacrev(ag.jit(network), 1)

    def loop() -> Any:
        rows = [gradient(layers, *pair) for pair in zip(x, y, strict=True)]
        return ag.tree.map(lambda *leaves: np.stack(leaves), *rows)

    return [
        Workload(
            f"gradients per example, MLP, batch {BATCH}", loop, lambda: mapped(layers, x, y), _per_example(layers, x, y)
        ),
        Workload(
            "Jacobian of an MLP with 10 results for 128 numbers",
            lambda: jacobian(layers, x[0]),
            lambda: by_program(layers, x[0]),
            _jacobian(layers, x[0]),
        ),
    ]


def _per_example(*problem: Any) -> Callable[[], Any] | None:
    if jax is None:
        return None

    def jax_loss(layers: Any, x: Any, y: Any) -> Any:
        for place, (weight, bias) in enumerate(layers):
            x = weight @ (jax.numpy.tanh(x) if place else x) + bias
        return jax.numpy.square(x - y).mean()

    return _in_jax(jax.vmap(jax.grad(jax_loss), in_axes=(None, 0, 0)), problem)


def _jacobian(*problem: Any) -> Callable[[], Any] | None:
    if jax is None:
        return None

    def jax_network(layers: Any, x: Any) -> Any:
        for weight, bias in layers:
            x = jax.numpy.tanh(weight @ x + bias)
        return x

    return _in_jax(jax.jacrev(jax_network, 1), problem)


def _in_jax(function: Callable[..., Any], problem: Any) -> Callable[[], Any]:
    compiled, given = jax.jit(function), jax.tree.map(jax.numpy.asarray, problem)
    return lambda: jax.block_until_ready(compiled(*given))


def measure(workload: Workload, rounds: int) -> dict[str, list[float]]:
    """Return what the calls of so many rounds took in seconds; before, a few make the programs.

    Raises:
        RuntimeError: the programs give other bits than the loop.
    """
    sides = {"loop": workload.loop, "mapped": workload.mapped}
    if workload.by_jax is not None:
        sides["JAX"] = workload.by_jax
    for _ in range(8):
        results = [ag.tree.leaves(run()) for run in (workload.loop, workload.mapped)]
        if any(one.tobytes() != other.tobytes() for one, other in zip(*results, strict=True)):
            raise RuntimeError(f"{workload.title}: the results are not those of the loop")
    sides.get("JAX", workload.loop)()
    found: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, run in sides.items():
            began = perf_counter()
            run()
            found[name].append(perf_counter() - began)
    return found


def table(found: dict[str, dict[str, list[float]]]) -> str:
    """Return medians of ratios of the same round, as a table."""
    lines = ["| what | a call, ms | loop ÷ it | it ÷ JAX |", "| --- | ---: | ---: | ---: |"]
    for title, seconds in found.items():
        gained = _ratio(seconds["loop"], seconds["mapped"])
        beside = f"{_ratio(seconds['mapped'], seconds['JAX']):.2f}" if "JAX" in seconds else ""
        lines.append(f"| {title} | {statistics.median(seconds['mapped']) * 1e3:.2f} | {gained:.1f} | {beside} |")
    return "\n".join(lines)


def _ratio(mine: Sequence[float], others: Sequence[float]) -> float:
    return statistics.median(one / other for one, other in zip(mine, others, strict=True))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.vmap", description=__doc__)
    parser.add_argument("--rounds", type=int, default=31, help="how often they take turns")
    rounds = parser.parse_args(arguments).rounds
    print(table({one.title: measure(one, rounds) for one in workloads()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
