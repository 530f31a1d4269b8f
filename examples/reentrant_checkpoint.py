"""The peak memory of a training step against the depth of the model, without and with checkpoints.

Without checkpoints, the intermediate results of every layer are kept for the backward. With `ag.checkpoint`, each layer
keeps only its input. `ag.checkpoint_chain` keeps a number of states that grows as the logarithm of the depth. The
gradients are bitwise the same.

    python examples/reentrant_checkpoint.py [--picture depth.png]
"""

from __future__ import annotations

import argparse
import functools
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import asyncgrad as ag

WIDTH, BATCH = 64, 512


def layer(weights: tuple[Any, Any], x: Any) -> Any:
    """Return the output of a residual layer; its operations make several arrays of the size of x."""
    inner, outer = weights
    return x + np.tanh(np.tanh(x @ inner) @ outer)


def plain(layers: list[Callable[[Any], Any]], x: Any) -> Any:
    """Call the layers one after the other."""
    for one in layers:
        x = one(x)
    return x


def checkpointed(layers: list[Callable[[Any], Any]], x: Any) -> Any:
    """Checkpoint each layer."""
    for one in layers:
        x = ag.checkpoint(one, x)
    return x


def chained(layers: list[Callable[[Any], Any]], x: Any) -> Any:
    """Checkpoint all layers as one chain."""
    return ag.checkpoint_chain(layers, x, snapshots="log")


WAYS = {"without checkpoints": plain, "each layer checkpointed": checkpointed, "a chain, logarithmic": chained}


async def step(run: Callable[..., Any], depth: int) -> tuple[float, list[bytes]]:
    """Return the peak of a forward and a backward in MB, and the gradients."""
    random = np.random.default_rng(0)
    x = ag.tensor(random.standard_normal((BATCH, WIDTH)), requires_grad=True)
    shared = [ag.tensor(random.standard_normal((WIDTH, WIDTH)) / WIDTH, requires_grad=True) for _ in range(2)]
    layers = [functools.partial(layer, (shared[0], shared[1])) for _ in range(depth)]
    tracemalloc.start()
    try:
        await ag.backward(np.square(run(layers, x)).mean())
        peak = tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()
    return peak, [tensor.grad.numpy().tobytes() for tensor in (x, *shared) if tensor.grad is not None]


def draw(path: str, depths: list[int], peaks: dict[str, list[float]]) -> None:
    """Draw the peaks against the depth."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.style.use(Path(__file__).parent / "pictures.mplstyle")
    figure, axes = pyplot.subplots(figsize=(7, 4))
    for name, values in peaks.items():
        axes.plot(depths, values, marker="o", label=name)
    axes.set(title="Peak memory of a step", xlabel="layers", ylabel="memory, MB", xscale="log", yscale="log")
    axes.legend()
    figure.savefig(path)
    pyplot.close(figure)


async def main(depths: list[int], picture: str | None = None) -> None:
    """Measure each way at each depth, and check that the gradients are the same."""
    peaks: dict[str, list[float]] = {name: [] for name in WAYS}
    print("layers  " + "  ".join(f"{name:>23}" for name in WAYS))
    for depth in depths:
        expected = None
        for name, run in WAYS.items():
            peak, gradients = await step(run, depth)
            peaks[name].append(peak)
            expected = expected or gradients
            if gradients != expected:
                raise SystemExit(f"{depth} layers, {name}: other gradients than without checkpoints")
        print(f"{depth:6}  " + "  ".join(f"{peaks[name][-1]:20.1f} MB" for name in WAYS))
    print("the gradients are the same, bit by bit")
    if picture is not None:
        draw(picture, depths, peaks)
        print(f"drawn in {picture}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depths", type=int, nargs="+", default=[8, 16, 32, 64, 128])
    parser.add_argument("--picture", help="where to draw the peaks (needs matplotlib)")
    options = parser.parse_args()
    ag.run(main(options.depths, options.picture))
